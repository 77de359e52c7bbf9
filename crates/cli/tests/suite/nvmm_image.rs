//! `--nvmm-image` and `nagori nvmm`: what a file has of NVMM when the run has ended, however it ended.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use rustix::fs::{openat, Mode, OFlags};
use rustix::mount::{
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, FsMountFlags, FsOpenFlags,
    MountAttrFlags,
};
use serde_json::Value;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Machine `small`: 128 MiB of NVMM.
const SMALL: [&str; 2] = ["--machine", "small"];
/// Where it begins.
const NVMM: u64 = BASE + (128 << 20);

fn create(files: &Files) -> PathBuf {
    let image = files.path("pm.nvmm");
    nagori()
        .args(["nvmm", "create"])
        .args(SMALL)
        .arg(&image)
        .assert()
        .success();
    image
}

fn show(image: &Path) -> Value {
    let out = nagori()
        .args(["nvmm", "show", "--json"])
        .arg(image)
        .assert()
        .success();
    serde_json::from_slice(&out.get_output().stdout).unwrap()
}

/// The durable words at the start of NVMM.
fn words(files: &Files, image: &Path, count: usize) -> Vec<u64> {
    let raw = files.path("raw");
    let _ = std::fs::remove_file(&raw);
    nagori()
        .args(["nvmm", "export"])
        .arg(image)
        .arg(&raw)
        .assert()
        .success();
    assert_eq!(raw.metadata().unwrap().len(), 128 << 20);
    let bytes = std::fs::read(raw).unwrap();
    let all = bytes.chunks_exact(8).take(count);
    all.map(|b| u64::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// Loads the address of NVMM into T0.
fn nvmm(p: Program) -> Program {
    assert_eq!(NVMM, 0x8800_0000);
    p.op(Op::Addi, T0, ZERO, ZERO, 0x11)
        .op(Op::Slli, T0, T0, ZERO, 27)
}

/// Counts up a word of NVMM and flushes it, then a word of the next line, which follows it; a third line is stored
/// to and never flushed.
fn pair() -> Program {
    nvmm(Program::new())
        .op(Op::Ld, T1, T0, ZERO, 0)
        .op(Op::Addi, A0, T0, ZERO, 64)
        .op(Op::Sd, ZERO, T0, T1, 128)
        .op(Op::Addi, T1, T1, ZERO, 1)
        .op(Op::Sd, ZERO, T0, T1, 0)
        .op(Op::CboFlush, ZERO, T0, ZERO, 0)
        .op(Op::Fence, ZERO, ZERO, ZERO, 0xff)
        .op(Op::Sd, ZERO, A0, T1, 0)
        .op(Op::CboFlush, ZERO, A0, ZERO, 0)
        .op(Op::Fence, ZERO, ZERO, ZERO, 0xff)
        .op(Op::Jal, ZERO, ZERO, ZERO, -32)
}

fn start(image: &str, args: &[&str], program: &Path) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("nagori"))
        .env_remove("NAGORI_MACHINES")
        .arg("bare")
        .args(SMALL)
        .args(args)
        .args(["--nvmm-image", image])
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn what_was_flushed_survives_kill_9() {
    let files = Files::new();
    let image = create(&files);
    let program = files.write("pair.elf", &pair().elf());
    let path = image.to_str().unwrap();
    let (mut last, mut lazy) = (0, 0);
    for (round, mode) in [&[][..], &["--functional"], &[], &["--set", "harts=1"]]
        .into_iter()
        .enumerate()
    {
        let mut child = start(path, mode, &program);
        // Until the run has come somewhere; the test does not depend on how far.
        let file = std::fs::File::open(&image).unwrap();
        loop {
            use std::os::unix::fs::FileExt;
            let mut word = [0; 8];
            file.read_exact_at(&mut word, 2 << 20).unwrap();
            if u64::from_le_bytes(word) > last + 1000 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // A second machine does not get it.
        nagori()
            .args(["nvmm", "show"])
            .arg(&image)
            .assert()
            .code(1)
            .stderr(contains("in use by another machine"));
        child.kill().unwrap();
        child.wait().unwrap();
        let state = show(&image);
        assert_eq!(state["closed"], false);
        assert_eq!(state["generation"], round as u64 + 1);
        let w = words(&files, &image, 24);
        assert!(w[0] > last, "{} after {last}", w[0]);
        assert!(w[0] == w[8] || w[0] == w[8] + 1, "{} and {}", w[0], w[8]);
        // Without caches what is stored is durable.
        if mode == ["--functional"] {
            assert!(w[16] == w[0] || w[16] + 1 == w[0], "{}", w[16])
        } else {
            assert_eq!(w[16], lazy)
        }
        lazy = w[16];
        last = w[0];
    }
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_durable() {
    let Some(small) = tmpfs("8m") else { return };
    let dir = format!("/proc/{}/fd/{}", std::process::id(), small.as_raw_fd());
    fill_up(&dir);
}

/// ext4 may have no block left to note that a reserved one is in use: a store to it would kill the process.
#[test]
fn a_full_ext4_ends_the_run_and_keeps_what_was_durable() {
    let files = Files::new();
    let (disk, dir) = (files.path("disk"), files.path("mounted"));
    std::fs::File::create(&disk)
        .and_then(|f| f.set_len(24 << 20))
        .unwrap();
    std::fs::create_dir(&dir).unwrap();
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let run = |tool: &str, args: &[&str]| {
        let out = Command::new(tool).env("PATH", &path).args(args).output();
        out.is_ok_and(|o| o.status.success())
    };
    let (disk, dir) = (disk.to_str().unwrap(), dir.to_str().unwrap());
    if !run("mke2fs", &["-q", "-t", "ext4", "-b", "1024", disk])
        || !run("mount", &["-o", "loop", disk, dir])
    {
        eprintln!("skipped: mounting a file needs mke2fs, mount and root");
        return;
    }
    let done = std::panic::catch_unwind(|| fill_up(dir));
    assert!(run("umount", &[dir]));
    if let Err(e) = done {
        std::panic::resume_unwind(e);
    }
}

/// Programs that store until there is no room in `dir`.
fn fill_up(dir: &str) {
    let files = Files::new();
    // Stores 1, 2, 3, ... to one page after the other.
    let fill = |flush: bool| {
        let p = nvmm(Program::new())
            .li(T1, 0)
            .op(Op::Lui, A0, ZERO, ZERO, 0x1000)
            .op(Op::Addi, T1, T1, ZERO, 1)
            .op(Op::Sd, ZERO, T0, T1, 0);
        let p = if flush {
            p.op(Op::CboFlush, ZERO, T0, ZERO, 0)
        } else {
            p.op(Op::Addi, ZERO, ZERO, ZERO, 0)
        };
        p.op(Op::Add, T0, T0, A0, 0)
            .op(Op::Jal, ZERO, ZERO, ZERO, -16)
    };
    for (name, flush, mode) in [
        ("f", false, "--functional"),
        ("t", true, "--engine=translator"),
    ] {
        let image = format!("{dir}/{name}.nvmm");
        nagori()
            .args(["nvmm", "create"])
            .args(SMALL)
            .arg(&image)
            .assert()
            .success();
        let program = files.write("fill.elf", &fill(flush).elf());
        let child = start(&image, &[mode, "--max-instructions=10000000"], &program);
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(
            text.contains("cannot grow") && text.contains("No space left"),
            "{text}"
        );
        let w = words(&files, Path::new(&image), 16 << 20);
        let stored: Vec<u64> = w.chunks(512).map(|page| page[0]).collect();
        let count = stored.iter().position(|v| *v == 0).unwrap() as u64;
        assert!(count > 500, "{count}");
        assert!(stored[..count as usize].iter().copied().eq(1..=count));
        assert!(stored[count as usize..].iter().all(|v| *v == 0));
        std::fs::remove_file(&image).unwrap();
    }
}

/// A file system of its own with little room; nothing, with a word, without the right to mount one.
fn tmpfs(size: &str) -> Option<OwnedFd> {
    let make = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "size", size)?;
        fsconfig_create(&context)?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mounted = fsmount(&context, flags, MountAttrFlags::empty())?;
        openat(
            &mounted,
            ".",
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    match make() {
        Ok(dir) => Some(dir),
        Err(e) => {
            eprintln!("skipped: mounting a tmpfs needs root: {e}");
            None
        }
    }
}

#[test]
fn runs_go_on_where_the_last_one_ended() {
    let files = Files::new();
    let image = create(&files);
    let at = |name: &str| files.path(name);
    // Adds 1 to a word, flushes it, and ends.
    let count = nvmm(Program::new())
        .op(Op::Ld, T1, T0, ZERO, 0)
        .op(Op::Addi, T1, T1, ZERO, 1)
        .op(Op::Sd, ZERO, T0, T1, 0)
        .op(Op::CboFlush, ZERO, T0, ZERO, 0)
        .op(Op::Sd, ZERO, T0, T1, 64)
        .exit(0);
    let program = files.write("count.elf", &count.elf());
    let run = |image: String, args: &[&str]| {
        let mut c = nagori();
        c.arg("bare").args(SMALL).args(args);
        c.args(["--nvmm-image", &image]).arg(&program);
        c.assert()
    };
    let path = image.to_str().unwrap().to_string();
    for round in 1..4 {
        run(path.clone(), &[]).success();
        let w = words(&files, &image, 16);
        assert_eq!((w[0], w[8]), (round, 0), "the second line was in a cache");
        let state = show(&image);
        assert_eq!(
            (&state["closed"], &state["lines_to_undo"]),
            (&true.into(), &0.into())
        );
    }
    // Changes that are thrown away, and that go to another file.
    run(format!("{path},overlay=temp"), &[]).success();
    assert_eq!(words(&files, &image, 1), [3]);
    let over = at("over.nvmm");
    for round in 4..6 {
        run(format!("{path},overlay={}", over.display()), &[]).success();
        assert_eq!(
            (words(&files, &image, 1), words(&files, &over, 1)),
            (vec![3], vec![round])
        );
    }
    // A store is an access fault, for which this program has no handler: it never comes to its end.
    run(format!("{path},ro"), &["--max-instructions", "1000"]).code(124);
    // Other domains.
    let eadr = ["--set", "memory.persistence_domain=eadr"];
    run(path.clone(), &eadr).success();
    assert_eq!(words(&files, &image, 9)[8], 4);
    let gpf = [
        "--set",
        "memory.persistence_domain=gpf",
        "--set",
        "memory.gpf_lines=1",
    ];
    run(path.clone(), &gpf).success();
    assert_eq!(words(&files, &image, 9)[8], 5);
    assert_eq!(show(&image)["persistence_domain"], "gpf");
    // A clone, and what differs.
    let copy = at("copy.nvmm");
    let two = |what: &str, a: &Path, b: &Path| {
        let mut c = nagori();
        c.args(["nvmm", what]).arg(a).arg(b);
        c.assert()
    };
    two("clone", &image, &copy).success();
    two("clone", &image, &copy)
        .code(1)
        .stderr(contains("create it"));
    two("diff", &image, &copy).success().stdout("the same\n");
    run(path.clone(), &[]).success();
    two("diff", &image, &copy)
        .code(1)
        .stdout("0x88000000  64 bytes\n1 lines in 1 ranges differ\n");
    nagori()
        .args(["nvmm", "verify"])
        .args([&image, &copy])
        .assert()
        .success()
        .stdout(contains(": sound\n"));
    // Bytes of the host.
    std::fs::write(at("in"), 41u64.to_le_bytes()).unwrap();
    let made = at("made.nvmm");
    nagori()
        .args(["nvmm", "import"])
        .args(SMALL)
        .args([at("in"), made.clone()])
        .assert()
        .success();
    run(made.to_str().unwrap().into(), &[]).success();
    assert_eq!(words(&files, &made, 1), [42]);
}

#[test]
fn what_cannot_be_is_said() {
    let files = Files::new();
    let image = create(&files);
    let program = files.write("endless.elf", &endless().elf());
    let run = |image: &str, args: &[&str]| {
        let mut c = nagori();
        c.arg("bare").args(args);
        c.args(["--max-instructions", "100", "--nvmm-image", image]);
        c.arg(&program).assert()
    };
    let path = image.to_str().unwrap();
    run(path, &["--machine", "vc707"])
        .code(1)
        .stderr(contains("holds the NVMM of small (128 MiB at 0x88000000)"));
    run("/nowhere/pm", &SMALL)
        .code(1)
        .stderr(contains("`nagori nvmm create` makes one"));
    run(program.to_str().unwrap(), &SMALL)
        .code(1)
        .stderr(contains("not an image of NVMM"));
    let untracked = ["--set", "memory.track_persistence=false"];
    run(path, &[&SMALL[..], &untracked].concat())
        .code(1)
        .stderr(contains("set memory.track_persistence=true"));
    run(&format!("{path},rw"), &SMALL)
        .code(2)
        .stderr(contains("expected ro, overlay=FILE"));
    let gpf = ["--set", "memory.persistence_domain=gpf"];
    run(path, &[&SMALL[..], &gpf].concat())
        .code(1)
        .stderr(contains("memory.gpf_lines"));
}

#[test]
fn power_cuts_at_steps_leave_what_was_durable() {
    let files = Files::new();
    let program = files.write("pair.elf", &pair().elf());
    // Behind the nth flush, of two a round; each word is in memory from its flush on.
    for (point, first, second) in [
        ("flush:7", 4, 3),
        ("flush:8", 4, 4),
        ("fence:8", 4, 4),
        ("nvmm-write:9", 5, 4),
    ] {
        let image = create(&files);
        nagori()
            .arg("bare")
            .args(SMALL)
            .args(["--set", "harts=1", "--power-cut-exit", "--reboot"])
            .arg(format!("power-cut@{point}"))
            .arg("--nvmm-image")
            .arg(&image)
            .arg(&program)
            .assert()
            .success()
            .stderr(contains("power cut at"));
        let w = words(&files, &image, 24);
        assert_eq!((w[0], w[8], w[16]), (first, second, 0), "{point}");
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn a_snapshot_goes_on_with_its_image() {
    let files = Files::new();
    let image = create(&files);
    let path = image.to_str().unwrap();
    let program = files.write("pair.elf", &pair().elf());
    let snapshot = files.path("s.snap");
    let limits = ["--snapshot-at", "5000", "--snapshot-exit", "--snapshot"];
    let mut c = nagori();
    c.arg("bare").args(SMALL).args(limits).arg(&snapshot);
    c.args(["--nvmm-image", path]).arg(&program);
    c.assert().success();
    let before = words(&files, &image, 24);
    let resume = || {
        let mut c = nagori();
        c.arg("resume").arg(&snapshot);
        c.args(["--max-instructions", "9000", "--nvmm-image", path]);
        c.assert()
    };
    resume().code(124);
    let after = words(&files, &image, 24);
    assert!(after[0] > before[0] + 300, "{after:?}, {before:?}");
    // Now the image is further than the snapshot.
    resume()
        .code(1)
        .stderr(contains("holds other bytes at 0x88000000"));
}
