//! Programs in Debian by this crate alone, and its example.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless NAGORI_REQUIRE_TOOLS=1.

use nagori_session::devices::ShareSpec;
use nagori_session::program::{Program, Stdin, Stream, Streams, Timing, Why};
use nagori_session::{Caller, Error, Method, Placement, Report, Rootfs, Session};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn tools_required() -> bool {
    std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1")
}

/// The static program that the tests of `nagori run` use, compiled.
fn probe(dir: &Path) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let path = dir.join("probe");
    let compiled = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-static", "-o"])
        .arg(&path)
        .arg(format!("-I{root}/guest/include"))
        .arg(format!("{root}/crates/cli/tests/programs/probe.c"))
        .status();
    match compiled {
        Ok(s) => assert!(s.success(), "the probe does not compile"),
        Err(_) if !tools_required() => {
            eprintln!("skipped: riscv64-linux-gnu-gcc is not installed");
            return None;
        }
        Err(e) => panic!("riscv64-linux-gnu-gcc: {e}"),
    }
    Some(path)
}

/// The result, or nothing if the host lacks a tool for the guest's image.
fn made<T>(what: Result<T, Error>) -> Option<T> {
    let e = match what {
        Ok(made) => return Some(made),
        Err(e) => e.chain(),
    };
    assert!(e.contains("is not installed") && !tools_required(), "{e}");
    eprintln!("skipped: {e}");
    None
}

#[test]
fn programs_run_from_one_boot_and_know_nothing_of_one_another() {
    let dir = TempDir::new().unwrap();
    let Some(probe) = probe(dir.path()) else {
        return;
    };
    std::fs::write(dir.path().join("shared"), "of the host\n").unwrap();
    let share = ShareSpec::parse(&format!("{}:here", dir.path().display())).unwrap();
    let builder = Session::builder("vc707")
        .rootfs(Rootfs::Smallest)
        .placement(Placement::Nvmm)
        .share(share);
    let Some(session) = made(builder.boot()) else {
        return;
    };
    let name = probe.to_str().unwrap();

    let input = b"one\ntwo\n";
    let cat = Program::new(name)
        .arg("cat")
        .stdin(Stdin::Bytes(input[..].into()))
        .timing(Timing::Off);
    let run = session.run(cat).unwrap();
    assert_eq!(
        (run.exit_code(), &run.output.stdout[..]),
        (Some(0), &input[..])
    );

    let run = session
        .run(Program::new(name).args(["exit", "42"]).timing(Timing::Off))
        .unwrap();
    assert_eq!(run.exit_code(), Some(42));
    let run = session
        .run(Program::new(name).args(["kill", "6"]).timing(Timing::Off))
        .unwrap();
    assert_eq!((run.exit_code(), run.why.name()), (None, "signal"));

    // The share is where programs work, and mounted.
    let run = session
        .run(Program::new("cat").arg("shared").timing(Timing::Off))
        .unwrap();
    assert_eq!(run.output.stdout, b"of the host\n");

    // Equal conditions cost the same, to the cycle; another method has other costs.
    let touch = || {
        Program::new(name)
            .args(["touch", "1"])
            .timing(Timing::Regions)
    };
    let once = |method| session.run(touch().method(method)).unwrap();
    let (first, again) = (once(Method::Extended), once(Method::Extended));
    assert!(first.is_whole() && first.regions == Some(1));
    assert_eq!(first.report, again.report);
    assert_eq!(first.sums, again.sums);
    let dram = once(Method::Dram);
    assert_eq!(first.sums, dram.sums, "the program does the same");
    assert!(dram.guest_time() < first.guest_time());

    // Reaching a limit is not an error, and there are figures so far.
    let endless = Program::new(name).arg("loop").timeout(0.01);
    let run = session.run(endless).unwrap();
    assert!(
        matches!(&run.why, w if w.name() == "timeout"),
        "{:?}",
        run.why
    );
    assert!(!run.is_whole() && run.guest_time().0 > 0);

    // An error about a program that cannot run says what the file is.
    let e = session.run(Program::new("./no-such-file")).unwrap_err();
    assert!(e.to_string().contains("cannot run ./no-such-file"), "{e}");
    let run = session.run(Program::new("no-such-program")).unwrap();
    assert_eq!(run.why.name(), "failed");
}

/// Wants an end as soon as it is switched.
#[derive(Default)]
struct Switch(AtomicBool);

impl Caller for Switch {
    fn interrupted(&self) -> Option<u8> {
        self.0.load(Ordering::Relaxed).then_some(15)
    }
}

/// Switches as soon as the program runs.
struct Begun<'a>(&'a Switch);

impl Streams for Begun<'_> {
    fn write(&mut self, _: Stream, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn tick(&mut self, _: u64, _: &dyn Fn() -> Report) {
        self.0 .0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_caller_ends_a_run_and_a_boot() {
    let dir = TempDir::new().unwrap();
    let Some(probe) = probe(dir.path()) else {
        return;
    };
    let switch = Switch::default();
    let builder = Session::builder("vc707").rootfs(Rootfs::Smallest);
    let builder = builder.caller(&switch);
    let Some(session) = made(builder.clone().boot()) else {
        return;
    };
    let endless = Program::new(probe.to_str().unwrap()).arg("loop");
    let loaded = endless.load().unwrap();
    let run = session.start(&loaded).unwrap().wait(&mut Begun(&switch));
    assert_eq!(run.unwrap().why, Why::Signal(15));
    // Before the program has started there are no figures, and an aborted boot is not cached.
    let run = session.start(&loaded).unwrap().wait(&mut Begun(&switch));
    assert_eq!(run.unwrap_err().interrupted(), Some(15));
    let e = builder.boot().err().unwrap();
    assert_eq!(e.interrupted(), Some(15), "{e:?}");
}

#[test]
fn the_example_prints_two_run_times() {
    let dir = TempDir::new().unwrap();
    let Some(probe) = probe(dir.path()) else {
        return;
    };
    // Cargo builds examples with tests, beside the folder of this one. To have it built again here would take minutes:
    // cargo chooses features of dependencies anew for a package alone.
    let this = std::env::current_exe().unwrap();
    let built = this.ancestors().nth(2).unwrap();
    let program = built.join("examples/two_methods");
    let example = |args: &[&str]| {
        let out = Command::new(&program).args(args).output();
        out.unwrap_or_else(|e| panic!("{}: {e}", program.display()))
    };
    let out = example(&[probe.to_str().unwrap(), "touch", "1"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
    if complaint.contains("is not installed") && !tools_required() {
        eprintln!("skipped: {complaint}");
        return;
    }
    assert!(out.status.success(), "{text}{complaint}");
    let time = |method: &str| -> u64 {
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(method)?.strip_prefix(": "));
        let line = line.unwrap_or_else(|| panic!("no time of {method}:\n{text}"));
        let (number, rest) = line.split_once(' ').unwrap();
        assert!(rest.ends_with("of guest time"), "{line}");
        let unit = if rest.starts_with("ns") { 1000 } else { 1 };
        number.parse::<u64>().unwrap() * unit
    };
    assert!(
        0 < time("dram") && time("dram") < time("extended"),
        "{text}"
    );
    assert_eq!(example(&[]).status.code(), Some(2));
}
