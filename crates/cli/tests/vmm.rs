//! The monitor for virtual machines of `guest/vmm`: a VM with another I/O map, by emulation and by the table, and a second
//! VM beside it that tries to leave.

mod common;

use common::nagori;
use std::path::{Path, PathBuf};

/// The monitor with the partitions of its tests, and the test's program; `None` without a cross compiler.
fn build(place: &Path) -> Option<PathBuf> {
    if !common::tool("riscv64-linux-gnu-gcc") || !common::tool("make") {
        return None;
    }
    let made = place.join("vmm");
    let out = std::process::Command::new("make")
        .arg("-C")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/vmm"))
        .arg(format!("BUILD={}", made.display()))
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    Some(made)
}

/// Boots a test of the monitor, and returns what was printed.
fn boot(made: &Path, monitor: &str, settings: &[&str], mode: &str) -> String {
    let mut c = nagori();
    c.args(["boot", "--machine", "soc", "--set", "harts=2", mode]);
    for s in settings {
        c.args(["--set", s]);
    }
    c.arg("--firmware").arg(made.join(monitor));
    c.arg("--kernel").arg(made.join("test-vm"));
    let out = c.args(["--initrd", "none"]).assert().success();
    String::from_utf8_lossy(&out.get_output().stdout).replace('\r', "")
}

fn assert_all(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|l| l.contains(line)), "{line}:\n{text}");
    }
}

const PASSED: [&str; 3] = [
    "test: 33 of 33 checks passed",
    "second: 37 of 37 attempts to leave were refused",
    "second: 100 timer interrupts",
];

#[test]
fn a_vm_has_the_same_map_in_either_way_and_none_leaves_its_place() {
    let place = tempfile::tempdir().unwrap();
    let Some(made) = build(place.path()) else {
        return;
    };
    for mode in ["--functional", "--timed"] {
        let text = boot(&made, "test.elf", &[], mode);
        assert_all(&text, &PASSED);
        assert_all(
            &text,
            &["VM test ends: 30 I/O accesses emulated (21 reads, 9 writes), 10 misses, 2 refused"],
        );
        assert_eq!(text, boot(&made, "test.elf", &[], mode), "two runs differ");
        let dma = "iomap.dma=translated";
        let full = ["iomap.kind=full", "iomap.entries=32", dma];
        let text = boot(&made, "test-table.elf", &full, mode);
        assert_all(&text, &PASSED);
        assert_all(&text, &["VM test ends: 0 I/O accesses emulated"]);
        // The monitor translates, and the table is there for what devices access.
        let text = boot(&made, "test.elf", &full, mode);
        assert_all(&text, &PASSED);
        for replacement in ["lru", "fifo", "random", "software"] {
            let chosen = format!("iomap.replacement={replacement}");
            let small = ["iomap.kind=small", "iomap.entries=4", &chosen];
            let text = boot(&made, "test-table.elf", &small, mode);
            assert_all(&text, &PASSED);
            // Each of the three ranges is filled once.
            assert_all(&text, &["2 refused, 3 refills"]);
        }
    }
}

#[test]
fn a_wrong_partition_file_is_refused_with_the_line() {
    let place = tempfile::tempdir().unwrap();
    if build(place.path()).is_none() {
        return;
    }
    let cases = [
        ("vm a\n hart 0\n memory 0x80200000 0x1000\n hrat 1\n", "line 4: this word has no meaning"),
        ("vm a\n map 0 0 12\n", "line 2: a range needs a size"),
        ("vm a\n map 0 0 16\n map 8 32 4\n", "line 3: the range overlaps"),
        ("vm a\n map 0x80000000 0 4\n", "line 2: the range is not below"),
        ("vm a\n hart 5\n memory 0x80200000 0x1000\n next\n", "a VM needs harts of its own"),
        (
            "vm a\n hart 0\n next\n memory 0x80200000 0x2000\nvm b\n hart 1\n next\n memory 0x80201000 0x1000\n",
            "two VMs share memory",
        ),
        ("vm a\n hart 0\n next\n memory 0x80001000 0x1000\n", "memory behind the monitor's"),
        ("vm a\n map 0x1g 0 4\n", "line 2: this is no number"),
    ];
    for (i, (text, what)) in cases.iter().enumerate() {
        let file = place.path().join(format!("p{i}.txt"));
        std::fs::write(&file, text).unwrap();
        let made = place.path().join("vmm");
        let done = std::process::Command::new("make")
            .arg("-C")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/vmm"))
            .arg(format!("BUILD={}", made.display()))
            .arg(format!("PARTITIONS={}", file.display()))
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .output()
            .expect("make runs");
        assert!(done.status.success());
        let mut c = nagori();
        c.args([
            "boot",
            "--machine",
            "soc",
            "--set",
            "harts=2",
            "--functional",
        ]);
        c.arg("--firmware").arg(made.join(format!("p{i}.elf")));
        c.arg("--kernel").arg(made.join("test-vm"));
        let out = c.args(["--initrd", "none"]).assert().failure();
        let printed = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        assert!(printed.contains(what), "{what}:\n{printed}");
    }
}
