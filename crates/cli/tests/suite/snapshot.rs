//! Snapshots as a user takes them: of Debian, of small programs; and files that are not snapshots.
//!
//! What boots Debian needs what `nagori image build` needs; skipped where a tool is missing,
//! unless NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::image;
use crate::common::*;
use nagori_isa::Op;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a run: its console, its statistics without host figures, its exit code.
#[derive(Debug, PartialEq)]
struct Run {
    console: String,
    stats: Value,
    code: Option<i32>,
}

/// Runs with a console whose input stays open, so that the guest is not told of its end.
fn run(args: &[&str], dir: &Path) -> Run {
    let stats = dir.join("stats.json");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("nagori"))
        .env_remove("NAGORI_MACHINES")
        .arg("--quiet")
        .args(args)
        .arg("--stats-file")
        .arg(&stats)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let input = child.stdin.take();
    let out = child.wait_with_output().expect("an end");
    drop(input);
    let text = std::fs::read(&stats).expect("statistics");
    let mut stats: Value = serde_json::from_slice(&text).expect("JSON");
    stats.as_object_mut().expect("an object").remove("host");
    Run {
        console: String::from_utf8_lossy(&out.stdout).into_owned(),
        stats,
        code: out.status.code(),
    }
}

/// Continues from a snapshot of a run, in different ways, to the same end.
fn assert_goes_on(whole: &Run, file: &Path, more: &[&str], dir: &Path) {
    for engine in ["translator", "interpreter"] {
        let name = file.to_str().expect("a name");
        let mut args = vec!["resume", name, "--engine", engine];
        args.extend(more);
        let rest = run(&args, dir);
        assert_eq!(rest.stats, whole.stats, "{engine}");
        assert_eq!(rest.code, whole.code);
        assert!(rest.console.len() < whole.console.len());
        assert!(
            whole.console.ends_with(&rest.console),
            "{engine}:\n{}\n{}",
            whole.console,
            rest.console
        );
    }
}

#[test]
fn debian_goes_on_where_it_asked_for_a_snapshot() {
    if image().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a.snap");
    let name = file.to_str().expect("a name");
    // Half of what follows is timed, with NVMM in the middle of its work.
    let script = "nagori-ctl method fine; nagori-ctl timing on; ls -R /proc/sys >/dev/null; \
                  nagori-ctl snapshot 'half way there'; echo behind; ls /proc | tail -3; \
                  nagori-ctl stats dump 3; nagori-ctl timing off; ls /bin | wc -l; exit 5";
    let args = ["boot", "--run", script, "--snapshot", name];
    let whole = run(&args, dir.path());
    assert_eq!(whole.code, Some(5), "{}", whole.console);
    assert!(file.exists(), "{}", whole.console);
    assert_goes_on(&whole, &file, &[], dir.path());
    let again = run(&["boot", "--run", script], dir.path());
    assert_eq!(again, whole, "taking a snapshot disturbs");
    nagori()
        .args(["snapshot", "show", name])
        .assert()
        .success()
        .stdout(contains("half way there").and(contains("timed")));
    nagori()
        .args(["snapshot", "verify", name])
        .assert()
        .success();
}

/// Whatever request a device was working on when the snapshot was taken, it is completed
/// afterwards.
#[test]
fn busy_devices_go_on() {
    if image().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("a name").to_string();
    let bytes = |n: u32| {
        (0..n)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect::<Vec<u8>>()
    };
    std::fs::create_dir(at("in")).expect("a folder");
    for i in 0..8 {
        std::fs::write(at(&format!("in/f{i}")), bytes(100_000 + i)).expect("a file");
    }
    std::fs::write(at("disk"), bytes(2 << 20)).expect("a disk");
    let script = "modprobe virtio_blk; nagori-ctl timing on; \
        sha256sum </dev/vda >/tmp/disk & \
        cat /mnt/in/* | sha256sum >/tmp/share & \
        dd if=/dev/hwrng bs=1k count=16 of=/tmp/noise 2>/dev/null & \
        (dd if=/dev/zero of=/dev/vdb bs=64k count=25 conv=fsync; touch /tmp/written) 2>/dev/null & \
        until [ -s /tmp/noise ]; do usleep 100; done; \
        ls -s /tmp/disk /tmp/share /tmp/noise /tmp/written 2>&1; \
        nagori-ctl snapshot 1; \
        wait; nagori-ctl timing off; cat /tmp/disk /tmp/share; sha256sum </tmp/noise; \
        echo 3 >/proc/sys/vm/drop_caches; sha256sum </dev/vdb";
    let (snap, share) = (at("busy.snap"), format!("{}:in", at("in")));
    let (first, second) = (
        format!("{},ro", at("disk")),
        format!("{},overlay=temp", at("disk")),
    );
    let host = ["--disk", &first, "--disk", &second, "--share", &share];
    let whole = run(
        &[
            &[
                "boot",
                "--append",
                "quiet",
                "--run",
                script,
                "--snapshot",
                &snap,
            ],
            &host[..],
        ]
        .concat(),
        dir.path(),
    );
    assert_eq!(whole.code, Some(0), "{}", whole.console);
    for busy in ["0 /tmp/disk", "0 /tmp/share", "/tmp/written: No such file"] {
        assert!(whole.console.contains(busy), "{busy}: {}", whole.console);
    }
    assert_goes_on(&whole, snap.as_ref(), &host, dir.path());
}

#[test]
fn debian_goes_on_from_the_middle_of_its_boot() {
    if image().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (mode, at, limit) in [
        ("--functional", "40000000", "90000000"),
        ("--timed", "6000000", "12000000"),
    ] {
        let file = dir.path().join(format!("at{mode}.snap"));
        let name = file.to_str().expect("a name");
        let take = ["--snapshot", name, "--snapshot-at", at];
        let args = ["boot", mode, "--max-instructions", limit, "--run", "true"];
        let whole = run(&[&args[..], &take].concat(), dir.path());
        assert_eq!(whole.code, Some(124), "{}", whole.console);
        let more = ["--max-instructions", limit];
        assert_goes_on(&whole, &file, &more, dir.path());
    }
}

#[test]
fn a_boot_is_cached_and_found_again() {
    if image().is_none() {
        return;
    }
    let path = || {
        let out = nagori()
            .timeout(std::time::Duration::from_secs(900))
            .args(["--quiet", "snapshot", "boot", "--set"])
            // A machine of our own, so that this boot is made here.
            .arg(format!("seed={}", 1000 + std::process::id()))
            .assert()
            .success();
        String::from_utf8_lossy(&out.get_output().stdout)
            .trim()
            .to_string()
    };
    // Two at once: one boots, the other waits for it.
    let (first, second) = std::thread::scope(|s| {
        let other = s.spawn(path);
        (path(), other.join().expect("a path"))
    });
    assert_eq!(first, second);
    let made = std::fs::metadata(&first).expect("a file").created().ok();
    assert_eq!(path(), first);
    assert_eq!(
        made,
        std::fs::metadata(&first).expect("a file").created().ok()
    );
    // Damaged at its end, it is made anew.
    let len = std::fs::metadata(&first).expect("a file").len();
    let file = std::fs::OpenOptions::new().write(true).open(&first);
    file.and_then(|f| f.set_len(len - 1)).expect("cut");
    assert_eq!(path(), first);
    nagori()
        .args(["--quiet", "resume", &first])
        .write_stdin("echo from $((40 + 2)); exit 9\n")
        .timeout(std::time::Duration::from_secs(900))
        .assert()
        .code(9)
        .stdout(contains("from 42"));
    std::fs::remove_file(&first).expect("removed");
}

/// Asks for a snapshot, prints, ends with code 3.
fn small() -> Vec<u8> {
    const HOST_REQUEST: i32 = 0x240;
    let control = nagori_config::map::CONTROL as i32;
    Program::new()
        .print("before\n")
        .li(T0, control)
        .op(Op::Addi, T1, ZERO, 0, 1)
        .op(Op::Sd, 0, T0, T1, HOST_REQUEST)
        .print("behind\n")
        .exit(3)
        .elf()
}

#[test]
fn a_snapshot_is_taken_shown_refused_and_gone_on_from() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("small.elf");
    std::fs::write(&program, small()).expect("written");
    let file = dir.path().join("s.snap");
    let bare = |more: &[&str]| {
        let mut c = nagori();
        c.arg("bare").arg(&program).args(["--machine", "small"]);
        c.args(more);
        c.assert()
    };
    let name = file.to_str().expect("a name");
    bare(&[]).code(3).stdout("before\nbehind\n");
    bare(&["--snapshot", name])
        .code(3)
        .stdout("before\nbehind\n")
        .stderr(contains("saved the machine"));
    bare(&["--snapshot", name, "--snapshot-exit"])
        .success()
        .stdout("before\n");
    let resume = |more: &[&str]| nagori().arg("resume").arg(&file).args(more).assert();
    resume(&[])
        .code(3)
        .stdout("behind\n")
        .stderr(contains("restored"));
    resume(&["--method", "fine", "--stats", "table"])
        .code(3)
        .stdout(contains("fine"));
    let set = ["--set", "memory.controller.timing.rcd=9"];
    resume(&set).code(3).stdout("behind\n");
    resume(&["--set", "seed=77"])
        .code(1)
        .stderr(contains("seed is 1 in the snapshot, 77 here"));
    resume(&["--set", "memory.controller.preset=other"])
        .code(1)
        .stderr(contains("set its values one by one"));
    nagori()
        .args(["snapshot", "show", name, "--json"])
        .assert()
        .success()
        .stdout(contains("\"label\": 0").and(contains("\"file_bytes\"")));

    let good = std::fs::read(&file).expect("read");
    let other = dir.path().join("other.snap");
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    let mut format = good.clone();
    let next = nagori_snapshot::FORMAT + 1;
    format[8..12].copy_from_slice(&next.to_le_bytes());
    let next = format!("format {next}");
    for (bytes, text) in [
        (&good[..good.len() - 9], "incomplete"),
        (&flipped[..], "damaged"),
        (&format[..], &next),
        (b"hello", "not a snapshot"),
    ] {
        std::fs::write(&other, bytes).expect("written");
        nagori()
            .arg("resume")
            .arg(&other)
            .assert()
            .code(1)
            .stderr(contains(text).and(contains("other.snap")));
        nagori()
            .arg("snapshot")
            .arg("verify")
            .args([&file, &other])
            .assert()
            .code(1)
            .stdout(contains("s.snap: sound"))
            .stderr(contains(text));
    }
    bare(&["--snapshot", "/no/such/place.snap"])
        .code(1)
        .stderr(contains("/no/such/place.snap"));
}

#[test]
fn a_cache_without_boots_is_listed_and_pruned() {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = ["--cache", dir.path().to_str().expect("a name")];
    nagori()
        .args(["snapshot", "list"])
        .args(cache)
        .assert()
        .success()
        .stdout("");
    let boots = dir.path().join("boots");
    std::fs::create_dir(&boots).expect("made");
    for n in ["a.snap", "b.snap", "keep.txt"] {
        std::fs::write(boots.join(n), "x").expect("written");
    }
    nagori()
        .args(["snapshot", "list", "--json"])
        .args(cache)
        .assert()
        .success()
        .stdout(contains("a.snap"));
    let left = || std::fs::read_dir(&boots).expect("a list").count();
    for (more, count) in [
        (&["--dry-run"][..], 3),
        (&["--older-than", "1"], 3),
        (&["--keep", "1"], 2),
        (&[], 1),
    ] {
        nagori()
            .args(["snapshot", "prune"])
            .args(cache)
            .args(more)
            .assert()
            .success();
        assert_eq!(left(), count, "{more:?}");
    }
}
