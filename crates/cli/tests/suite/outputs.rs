//! Files that commands write: impossible names, full disks, standard output.

use crate::common::*;
use nagori_isa::Op;
use predicates::prelude::*;
use predicates::str::contains;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every option that names a file to be written, and its command. FILE is its place.
fn options(elf: &str) -> Vec<Vec<String>> {
    fn owned(all: &[&[&str]]) -> Vec<String> {
        all.concat().iter().map(|s| s.to_string()).collect()
    }
    let bare = |more: &[&str]| owned(&[&["bare", "--machine", "small"], more, &[elf]]);
    let memory = ["--memory", "ddr3", "--trace", "gen:random,count=100"];
    let mem = |of: &str, more: &[&str]| owned(&[&["mem", of], &memory, more]);
    let other = |all: &[&str]| owned(&[all]);
    vec![
        bare(&["--stats-file", "FILE"]),
        bare(&["--profile", "FILE"]),
        bare(&["--snapshot", "FILE"]),
        bare(&["--trace", "exec", "--trace-file", "FILE"]),
        other(&["run", "--json", "FILE", "--", "true"]),
        other(&["run", "--profile", "FILE", "--", "true"]),
        other(&["run", "--output", "FILE", "--", "true"]),
        other(&["compare", "--json", "FILE", "--", "true"]),
        other(&["compare", "--output", "FILE", "--", "true"]),
        other(&["compare", "--plot", "FILE.svg", "--", "true"]),
        other(&["boot", "--stats-file", "FILE"]),
        other(&["boot", "--snapshot", "FILE"]),
        other(&["bench", "board", "--plot", "FILE.png"]),
        other(&["bench", "speed", "--report", "FILE"]),
        mem("run", &["--output", "FILE"]),
        mem("run", &["--commands", "FILE"]),
        mem("run", &["--html", "FILE.html"]),
        mem("sweep", &["--output", "FILE"]),
        other(&["mem", "gen", "random", "--count", "100", "--output", "FILE"]),
    ]
}

/// The arguments with a place for the file, and the option's name.
fn with_file(args: &[String], at: &Path) -> (Vec<String>, String) {
    let n = args.iter().position(|a| a.starts_with("FILE")).unwrap();
    let at = at.display().to_string();
    let args: Vec<String> = args.iter().map(|a| a.replace("FILE", &at)).collect();
    let option = args[n - 1].clone();
    (args, option)
}

#[test]
fn names_that_cannot_be_are_told_before_the_work() {
    let files = Files::new();
    // Running it would not end.
    let elf = files.write("endless.elf", &endless().elf());
    for args in options(elf.to_str().unwrap()) {
        for (at, why) in [
            (files.path("none/file"), "there is no directory"),
            (elf.join("file"), "cannot write"),
        ] {
            let (args, option) = with_file(&args, &at);
            nagori().args(&args).assert().code(1).stdout("").stderr(
                contains(option)
                    .and(contains("cannot write"))
                    .and(contains(why)),
            );
        }
    }
    let (args, _) = with_file(&options(elf.to_str().unwrap())[0], &files.path("."));
    let e = contains("it is a directory");
    nagori().args(args).assert().code(1).stderr(e);
}

/// Runs a shell script in which the directory `disk` is a file system of its own, of some KiB; does
/// nothing if that is not possible.
fn on_a_disk(dir: &Path, kib: u32, script: &str) -> Option<std::process::Output> {
    let mount = format!("mount -t tmpfs -o size={kib}k none disk || exit 77\n");
    let out = Command::new("unshare")
        .args(["-r", "-m", "sh", "-c", &(mount + script)])
        .current_dir(dir)
        .env("NAGORI", assert_cmd::cargo::cargo_bin("nagori"))
        .env_remove("NAGORI_MACHINES")
        .stdin(Stdio::null())
        .output();
    match out {
        Ok(out) if out.status.code() != Some(77) && out.status.code() != Some(1) => Some(out),
        _ => {
            eprintln!("skipped: this user cannot mount a file system of its own");
            None
        }
    }
}

#[test]
fn a_full_disk_is_told_before_the_work_and_no_file_is_left() {
    let files = Files::new();
    let elf = files.write("endless.elf", &endless().elf());
    std::fs::create_dir(files.path("disk")).unwrap();
    let mut script = "head -c 40000 /dev/zero >disk/other\n".to_string();
    let mut n = 0;
    for args in options(elf.to_str().unwrap()) {
        let (args, option) = with_file(&args, Path::new("disk/file"));
        let args: Vec<String> = args.iter().map(|a| format!("'{a}'")).collect();
        script += &format!(
            "\"$NAGORI\" {} >out 2>err; echo \"{option} $?\"; grep -c 'No space left' err; ls disk; wc -c <out\n",
            args.join(" ")
        );
        n += 1;
    }
    script += "exit 5\n";
    let Some(out) = on_a_disk(&files.path("."), 64, &script) else {
        return;
    };
    let text = String::from_utf8_lossy(&out.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4 * n, "{text}");
    for c in lines.chunks(4) {
        assert!(c[0].ends_with(" 1"), "{c:?}");
        assert_eq!(c[1..], ["1", "other", "0"], "{}", c[0]);
    }
}

#[test]
fn a_trace_that_fills_the_disk_ends_the_run() {
    let files = Files::new();
    // Reads one line after the other.
    let walk = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Ld, T1, T0, 0, 0)
        .op(Op::Addi, T0, T0, 0, 64)
        .op(Op::Jal, 0, 0, 0, -8);
    files.write("walk.elf", &walk.elf());
    std::fs::create_dir(files.path("disk")).unwrap();
    for kind in ["exec", "bus"] {
        // The old file stays as it was.
        let script = format!(
            "echo old >disk/trace; \"$NAGORI\" bare --machine small --max-instructions 1000000 \
             --trace {kind} --trace-file disk/trace --stats-file stats.json walk.elf >&2; \
             echo $?; cat disk/*; exit 5"
        );
        let Some(out) = on_a_disk(&files.path("."), 256, &script) else {
            return;
        };
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.stdout, b"1\nold\n", "{kind}: {errors}");
        assert!(
            errors.contains("disk/trace") && errors.contains("No space left"),
            "{kind}: {errors}"
        );
    }
}

/// Waits for a byte, asks for a snapshot, and ends with code 0.
fn snapshots() -> Program {
    Program::new()
        .print("ready\n")
        .op(Op::Lbu, T1, T0, 0, 5)
        .op(Op::Andi, T1, T1, 0, 1)
        .op(Op::Beq, 0, T1, ZERO, -8)
        .op(Op::MarkSnapshot, ZERO, ZERO, 0, 0)
        .print("behind\n")
        .exit(0)
}

#[test]
fn a_run_goes_on_if_a_snapshot_cannot_be_saved() {
    for exits in [false, true] {
        let files = Files::new();
        let elf = files.write("a.elf", &snapshots().elf());
        let dir = files.path("dir");
        std::fs::create_dir(&dir).unwrap();
        let mut c = Command::new(assert_cmd::cargo::cargo_bin("nagori"));
        c.args(["bare", "--machine", "small", "--snapshot"])
            .arg(dir.join("s.snap"))
            .args(exits.then_some("--snapshot-exit"))
            .arg("--stats-file")
            .arg(files.path("stats.json"))
            .arg(&elf);
        let mut child = c
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        out.read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ready\n");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
        child.stdin.take().unwrap().write_all(b"x").unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let end = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&end.stderr);
        assert_eq!(end.status.code(), Some(1), "{errors}");
        assert!(errors.contains("cannot save the machine to"), "{errors}");
        assert_eq!(rest.contains("behind"), !exits, "{rest}");
        if !exits {
            assert!(errors.contains("the run goes on"), "{errors}");
            assert!(
                errors.contains("1 of 1 snapshots could not be saved"),
                "{errors}"
            );
            let stats = std::fs::read_to_string(files.path("stats.json")).unwrap();
            assert!(stats.contains("\"exit_code\": 0"), "{stats}");
        }
    }
}

#[test]
fn a_dash_is_standard_output() {
    let files = Files::new();
    let elf = files.write("hello.elf", &Program::new().print("hello\n").exit(0).elf());
    let elf = elf.to_str().unwrap();
    let mut saw = 0;
    for args in options(elf) {
        // Guests that boot have tests of their own.
        let args: Vec<String> = args.iter().map(|a| a.replace("FILE", "-")).collect();
        let args: Vec<String> = args
            .iter()
            .map(|a| {
                if a.starts_with("-.") {
                    "-".to_string()
                } else {
                    a.clone()
                }
            })
            .collect();
        if !["bare", "mem"].contains(&args[0].as_str()) {
            continue;
        }
        let snapshot = args.iter().any(|a| a == "--snapshot");
        let run = nagori()
            .current_dir(files.path("."))
            .args(&args)
            .assert()
            .code(i32::from(snapshot));
        let out = run.get_output();
        if snapshot {
            let errors = String::from_utf8_lossy(&out.stderr);
            assert!(errors.contains("cannot go to standard output"), "{errors}");
            continue;
        }
        let least = if args[0] == "bare" { 7 } else { 1 };
        assert!(out.stdout.len() >= least, "{args:?}");
        assert!(!files.path("-").exists(), "{args:?}");
        saw += 1;
    }
    assert_eq!(saw, 8);
}

#[test]
fn results_are_shown_where_their_file_cannot_be_written_in_the_end() {
    if crate::common::debian::image().is_none() {
        return;
    }
    nagori()
        .timeout(crate::common::debian::PATIENCE)
        .args([
            "run",
            "--rootfs",
            "none",
            "--json",
            "/dev/full",
            "--",
            "true",
        ])
        .assert()
        .code(1)
        .stderr(contains("No space left").and(contains("guest time")));
}

#[test]
fn a_cache_that_cannot_be_written_is_not_needed_or_told() {
    let Some(image) = crate::common::debian::image() else {
        return;
    };
    let files = Files::new();
    std::fs::create_dir(files.path("disk")).unwrap();
    let images = image.kernel.parent().and_then(Path::parent).unwrap();
    let from = images.parent().unwrap().display();
    // With an image, and without.
    let script = format!(
        "mkdir disk/with disk/empty; ln -s {from}/images {from}/resolved.json disk/with/\n\
         mount -o remount,ro disk || exit 77\n\
         run() {{ \"$NAGORI\" run --functional --rootfs none --cache \"$1\" -- busybox echo there; echo $?; }}\n\
         run disk/with; run disk/empty; exit 5"
    );
    let Some(out) = on_a_disk(&files.path("."), 64, &script) else {
        return;
    };
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.stdout, b"there\n0\n1\n", "{errors}");
    for part in [
        "this run boots for itself",
        "NAGORI_CACHE",
        "disk/empty cannot be written",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}
