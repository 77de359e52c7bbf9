//! Ctrl-C and SIGTERM in every command that works for long: the exit code, and nothing left behind.
//!
//! What needs Debian needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::image;
use crate::common::*;
use nagori_isa::Op;
use rustix::process::{kill_process, Pid, Signal};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes on an idle host.
const PATIENCE: Duration = Duration::from_secs(600);

/// A command with a directory of its own for temporary files.
struct Place {
    files: Files,
}

/// How a command ended: its exit code, and what it printed to stderr.
struct End {
    code: Option<i32>,
    errors: String,
}

impl Place {
    fn new() -> Place {
        let files = Files::new();
        std::fs::create_dir(files.path("tmp")).unwrap();
        Place { files }
    }

    fn tmp(&self) -> PathBuf {
        self.files.path("tmp")
    }

    fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(assert_cmd::cargo::cargo_bin("nagori"));
        c.env_remove("NAGORI_MACHINES")
            .env("TMPDIR", self.tmp())
            .current_dir(self.files.path("."))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        c
    }

    /// Waits for the end; there must be no temporary files and no programs left.
    fn end(&self, mut child: Child) -> End {
        let until = Instant::now() + PATIENCE;
        let code = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > until => {
                    child.kill().unwrap();
                    panic!("the command does not end");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let left: Vec<_> = names(&self.tmp());
        assert!(left.is_empty(), "temporary files are left: {left:?}");
        let end = Instant::now() + Duration::from_secs(20);
        while let Some(who) = with_environment(&self.tmp()) {
            assert!(Instant::now() < end, "a program is left: {who}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The processes that had it open have ended.
        let mut errors = String::new();
        if let Some(mut from) = child.stderr.take() {
            from.read_to_string(&mut errors).unwrap();
        }
        End { code, errors }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap();
    all.map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// A process that has a path in its environment.
fn with_environment(path: &Path) -> Option<String> {
    let text = path.to_str().unwrap().as_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    for p in processes {
        let environment = std::fs::read(p.path().join("environ")).unwrap_or_default();
        if environment.windows(text.len()).any(|w| w == text) {
            let line = std::fs::read(p.path().join("cmdline")).unwrap_or_default();
            return Some(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    None
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

const BOTH: [(Signal, i32); 2] = [(Signal::INT, 130), (Signal::TERM, 143)];

#[test]
fn a_run_is_ended_at_any_time() {
    if image().is_none() {
        return;
    }
    // During start, build, boot, restore: none of these may report another error.
    for (n, ms) in [0, 300, 1000, 2000, 4000].into_iter().enumerate() {
        for more in [&["--no-boot-cache"][..], &[]] {
            let place = Place::new();
            let program = ["--", "busybox", "sh", "-c", "while :; do :; done"];
            let run = ["run", "--functional", "--rootfs", "none"];
            let args = [&run, more, &program].concat();
            let child = place.spawn(&args);
            // Signals are caught some milliseconds after the start.
            std::thread::sleep(Duration::from_millis(50 + ms));
            // The program may have the first Ctrl-C, and ends by it.
            let (with, code) = BOTH[n % 2];
            signal(&child, with);
            let end = place.end(child);
            assert_eq!(end.code, Some(code), "after {ms} ms: {}", end.errors);
            assert!(!end.errors.contains("error:"), "{}", end.errors);
            assert!(!end.errors.contains("OpenSBI"), "{}", end.errors);
        }
    }
}

#[test]
fn a_boot_for_the_cache_is_ended() {
    let Some(image) = image() else { return };
    for (with, code) in BOTH {
        let place = Place::new();
        let cache = place.files.path("cache");
        // Images are cached, boots are not.
        let images = image.kernel.parent().and_then(Path::parent).unwrap();
        let from = images.parent().unwrap();
        std::fs::create_dir(&cache).unwrap();
        for name in ["images", "resolved.json"] {
            std::os::unix::fs::symlink(from.join(name), cache.join(name)).unwrap();
        }
        let child = place.spawn(&["snapshot", "boot", "--cache", cache.to_str().unwrap()]);
        let until = Instant::now() + PATIENCE;
        while !cache.join("boots").exists() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&child, with);
        let end = place.end(child);
        assert_eq!(end.code, Some(code), "{}", end.errors);
        assert!(!end.errors.contains("error:"), "{}", end.errors);
        let left = names(&cache.join("boots"));
        assert!(left.iter().all(|n| n.ends_with(".lock")), "{left:?}");
    }
}

#[test]
fn a_comparison_says_how_far_it_was() {
    if image().is_none() {
        return;
    }
    for (with, code) in BOTH {
        let place = Place::new();
        let mut child = place.spawn(&[
            "compare",
            "--methods",
            "dram,fine,extended",
            "--rootfs",
            "none",
            "--jobs",
            "1",
            "--json",
            "result",
            "--plot",
            "plot.svg",
            "--",
            "busybox",
            "true",
        ]);
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("dram: done") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it ends");
        }
        signal(&child, with);
        let mut rest = String::new();
        errors.read_to_string(&mut rest).unwrap();
        assert_eq!(place.end(child).code, Some(code), "{rest}");
        assert!(rest.contains("finished: dram ("), "{rest}");
        assert!(rest.contains("not finished:"), "{rest}");
        assert!(!rest.contains("run time"), "{rest}");
        let files = names(&place.files.path("."));
        assert!(!files
            .iter()
            .any(|f| f.contains("result") || f.contains("plot")));
    }
}

#[test]
fn benchmarks_end_with_what_they_have_started() {
    if image().is_none() {
        return;
    }
    for (args, ms) in [
        (&["bench", "io", "--mib", "64"][..], 1500),
        (&["bench", "start"], 1500),
        (&["bench", "board"], 1500),
        (&["bench", "speed", "--only", "integer"], 1500),
        (&["bench", "mem"], 500),
    ] {
        for (with, code) in BOTH {
            let place = Place::new();
            let mut command = place.command(args);
            // The trace of `bench mem` is found from here.
            command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
            let child = command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(ms));
            signal(&child, with);
            let end = place.end(child);
            assert_eq!(end.code, Some(code), "{args:?}: {}", end.errors);
            assert!(!end.errors.contains("error:"), "{args:?}: {}", end.errors);
        }
    }
}

#[test]
fn building_an_image_ends_at_a_silent_mirror() {
    for (with, code) in BOTH {
        let place = Place::new();
        for base in [&[][..], &["--base", "run"]] {
            let mirror = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            mirror.set_nonblocking(true).unwrap();
            let url = format!("http://{}/debian", mirror.local_addr().unwrap());
            let mut c = place.command(&["image", "build", "--mirror", &url]);
            let cache = place.files.path("cache");
            let child = c.args(base).arg("--cache").arg(&cache).spawn().unwrap();
            let until = Instant::now() + PATIENCE;
            let _silent = loop {
                if let Ok((connection, _)) = mirror.accept() {
                    break connection;
                }
                assert!(Instant::now() < until, "the mirror is not asked");
                std::thread::sleep(Duration::from_millis(10));
            };
            signal(&child, with);
            let end = place.end(child);
            assert_eq!(end.code, Some(code), "{}", end.errors);
            assert!(!end.errors.contains("error:"), "{}", end.errors);
        }
    }
}

#[test]
fn a_reader_that_does_not_read_keeps_nobody() {
    let place = Place::new();
    // Prints for ever.
    let program = Program::new()
        .print("x\n")
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Jal, 0, 0, 0, -4);
    let elf = place.files.write("prints.elf", &program.elf());
    let mut command = place.command(&["bare", "--machine", "small", elf.to_str().unwrap()]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        signal(&child, Signal::INT);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(place.end(child).code, Some(130));
}
