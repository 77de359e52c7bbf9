//! `nagori boot` with a firmware that needs no kernel, in pipes and at a terminal.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use rustix::fs::{openat, Mode, OFlags};
use rustix::mount::{
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, FsMountFlags, FsOpenFlags,
    MountAttrFlags,
};
use rustix::process::{kill_process, Pid, Signal};
use rustix::pty::{ioctl_tiocgptpeer, openpt, unlockpt, OpenptFlags};
use rustix::termios::{tcgetattr, LocalModes};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn files_are_run_and_checked() {
    let files = Files::new();
    let args = files.boot(&Program::new().print("firmware here\n").exit(3));
    nagori()
        .args(&args)
        .assert()
        .code(3)
        .stdout("firmware here\n")
        .stderr("");
    files.write("Image", b"not a kernel");
    nagori()
        .args(&args)
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("cannot be used as kernel"));
    nagori()
        .args(&args)
        .args(["--run", "  "])
        .assert()
        .code(1)
        .stderr(contains("--run: the command is empty"));
}

#[test]
fn piped_input_waits_for_the_guests_driver_and_ends() {
    // Turns on the receive interrupt, sleeps until input comes, prints it, ends at Ctrl-D.
    let (plic, priority, enable, claim) = (0x0c00_0000, 40, 0x0c00_2000, 0x0c20_0004);
    let program = Program::new()
        .print("ready\n")
        .li(T1, plic)
        .op(Op::Addi, T2, ZERO, 0, 1)
        .op(Op::Sw, 0, T1, T2, priority)
        .op(Op::Sb, 0, T0, T2, 1)
        .li(T1, enable)
        .op(Op::Addi, T2, ZERO, 0, 1 << 10)
        .op(Op::Sw, 0, T1, T2, 0)
        .li(A0, claim)
        .op(Op::Slli, T2, T2, 0, 1)
        .op(Op::Csrrw, 0, T2, 0, 0x304)
        .op(Op::Wfi, 0, 0, 0, 0)
        .op(Op::Lw, T2, A0, 0, 0)
        .op(Op::Sw, 0, A0, T2, 0)
        .op(Op::Lbu, T1, T0, 0, 5)
        .op(Op::Andi, T1, T1, 0, 1)
        .op(Op::Beq, 0, T1, ZERO, -20)
        .op(Op::Lbu, T1, T0, 0, 0)
        .op(Op::Addi, T2, ZERO, 0, 4)
        .op(Op::Beq, 0, T1, T2, 12)
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Jal, 0, 0, 0, -28)
        .exit(0);
    let files = Files::new();
    nagori()
        .args(files.boot(&program))
        .write_stdin("one two\n")
        .assert()
        .code(0)
        .stdout("ready\none two\n");
}

fn spawn(args: &[String], stdio: [Stdio; 3]) -> Child {
    let [input, output, errors] = stdio;
    Command::new(assert_cmd::cargo::cargo_bin("nagori"))
        .args(args)
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .spawn()
        .expect("the program starts")
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn code(mut child: Child) -> Option<i32> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("the program does not end");
}

/// Reads until a text has come.
fn expect(from: &mut impl Read, text: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    let until = Instant::now() + PATIENCE;
    while !String::from_utf8_lossy(&seen).contains(text) {
        assert!(
            Instant::now() < until,
            "no {text:?} in {:?}",
            String::from_utf8_lossy(&seen)
        );
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => panic!(
                "the end before {text:?}: {:?}",
                String::from_utf8_lossy(&seen)
            ),
            Ok(n) => seen.extend(&buffer[..n]),
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn signals_end_a_run_with_statistics() {
    let files = Files::new();
    let program = Program::new().print("on\n").op(Op::Jal, 0, 0, 0, 0);
    let mut args = files.boot(&program);
    args.extend(["--stats".into(), "json".into()]);
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut child = spawn(&args, [Stdio::null(), Stdio::piped(), Stdio::piped()]);
        let mut out = child.stdout.take().unwrap();
        expect(&mut out, "on\n");
        kill_process(pid(&child), signal).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let value: serde_json::Value = serde_json::from_str(&rest).unwrap();
        assert_eq!(value["end"]["why"], "signal");
        assert_eq!(code(child), Some(expected));
    }
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let files = Files::new();
    // Prints for ever.
    let program = Program::new()
        .print("x\n")
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Jal, 0, 0, 0, -4);
    let args = files.boot(&program);
    let mut child = spawn(&args, [Stdio::null(), Stdio::piped(), Stdio::piped()]);
    let mut out = child.stdout.take().unwrap();
    expect(&mut out, "x\n");
    drop(out);
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!((code(child), errors.as_str()), (Some(141), ""));
}

/// A new pseudo-terminal of a devpts that is mounted in no directory and ends with its files.
fn own_ptmx() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "ptmxmode", "0600")?;
    fsconfig_create(&context)?;
    let devpts = fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(&devpts, "ptmx", flags, Mode::empty())
}

/// A pseudo-terminal: its master side, and one handle of the other side for each use.
struct Terminal {
    master: File,
    slave: OwnedFd,
}

impl Terminal {
    /// Opens a terminal of the system's devpts or, where none is mounted, as in a bare chroot, of one of its own.
    fn open() -> Terminal {
        let system = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY);
        Terminal::of(system.or_else(|e| {
            own_ptmx().map_err(|own| {
                format!(
                    "no pseudo-terminal: /dev/ptmx: {e}; a devpts of the test's own, \
                     which needs root: {own}"
                )
            })
        }))
    }

    fn of(master: Result<OwnedFd, String>) -> Terminal {
        let master = master.unwrap();
        unlockpt(&master).unwrap();
        // Needs no name: the other side may be in a file system that is mounted nowhere.
        let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        Terminal {
            master: master.into(),
            slave,
        }
    }

    fn spawn(&self, args: &[String]) -> Child {
        let end = || Stdio::from(self.slave.try_clone().unwrap());
        spawn(args, [end(), end(), end()])
    }

    /// Canonical mode, echo, signals: what raw mode turns off.
    fn modes(&self) -> LocalModes {
        tcgetattr(&self.slave).unwrap().local_modes
    }
}

#[test]
fn the_console_is_raw_and_restored() {
    raw_and_restored(Terminal::open());
}

#[test]
fn a_terminal_needs_no_devpts_of_the_system() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a devpts needs root");
        return;
    }
    raw_and_restored(Terminal::of(own_ptmx().map_err(|e| e.to_string())));
}

fn raw_and_restored(mut t: Terminal) {
    let files = Files::new();
    let args = files.boot(&echo());
    let before = t.modes();
    assert!(before.contains(LocalModes::ICANON));

    // Ctrl-C and Ctrl-A reach the guest; Ctrl-A x ends the machine.
    let child = t.spawn(&args);
    let first = expect(&mut t.master, "ready");
    assert!(first.contains("Ctrl-A x ends the machine"), "{first}");
    assert!(!t
        .modes()
        .intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
    t.master.write_all(b"ab\x03\x01ac").unwrap();
    expect(&mut t.master, "ab\x03\x01c");
    t.master.write_all(b"\x01s").unwrap();
    expect(&mut t.master, "of guest time");
    t.master.write_all(b"\x01h").unwrap();
    expect(&mut t.master, "Ctrl-A s shows");
    t.master.write_all(b"\x01x").unwrap();
    assert_eq!(code(child), Some(0));
    assert_eq!(t.modes(), before);

    // The guest ends by itself.
    let child = t.spawn(&args);
    expect(&mut t.master, "ready");
    t.master.write_all(b"q").unwrap();
    assert_eq!(code(child), Some(5));
    assert_eq!(t.modes(), before);

    // A signal from outside.
    let child = t.spawn(&args);
    expect(&mut t.master, "ready");
    assert_ne!(t.modes(), before);
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(code(child), Some(143));
    assert_eq!(t.modes(), before);

    // An error after the console was opened: HTIF is none of firmware's business, a full
    // device is.
    let mut failing = args.clone();
    failing.extend(["--trace", "exec", "--trace-file", "/dev/full"].map(String::from));
    let child = t.spawn(&failing);
    assert_eq!(code(child), Some(1));
    assert_eq!(t.modes(), before);
}

#[test]
fn an_interrupt_at_a_terminal_ends_a_command() {
    let files = Files::new();
    let mut args = files.boot(&echo());
    args.extend(["--run", "true"].map(String::from));
    let mut t = Terminal::open();
    let before = t.modes();
    let child = t.spawn(&args);
    let first = expect(&mut t.master, "ready");
    assert!(first.contains("Ctrl-C ends it, too"), "{first}");
    t.master.write_all(b"a\x01cb").unwrap();
    expect(&mut t.master, "a\x03b");
    t.master.write_all(b"\x03").unwrap();
    assert_eq!(code(child), Some(130));
    assert_eq!(t.modes(), before);
}

#[test]
fn what_is_no_root_file_system_is_told_with_its_option() {
    use predicates::prelude::PredicateBooleanExt;
    let files = Files::new();
    let args = files.boot(&Program::new().exit(0));
    let mut odd = vec![0; 5000];
    odd[1080..1082].copy_from_slice(&[0x53, 0xef]);
    for (bytes, why) in [
        (vec![1; 1 << 16], "it holds no ext4 file system"),
        (vec![1; 10], "it holds no ext4 file system"),
        (odd, "no whole number of sectors"),
    ] {
        let file = files.write("rootfs", &bytes);
        nagori()
            .args(&args)
            .arg("--rootfs")
            .arg(&file)
            .assert()
            .code(1)
            .stderr(contains("--rootfs").and(contains(why)))
            .stderr(contains("--disk").not());
    }
}

#[test]
fn a_disk_that_is_missing_behind_a_snapshot_is_named() {
    let files = Files::new();
    let ask = Program::new()
        .op(Op::MarkSnapshot, ZERO, ZERO, 0, 0)
        .exit(3);
    let args = files.boot(&ask);
    let disk = files.write("data.img", &[0; 4096]);
    let snapshot = files.path("a.snap");
    let given = format!("{},overlay=temp", disk.display());
    nagori()
        .args(&args)
        .args(["--disk", &given, "--snapshot-exit", "--snapshot"])
        .arg(&snapshot)
        .assert()
        .code(0);
    let resume = |more: &[&str]| nagori().arg("resume").arg(&snapshot).args(more).assert();
    resume(&[])
        .code(1)
        .stderr(contains(format!("--disk {given}")));
    resume(&["--disk", &given]).code(3);
}
