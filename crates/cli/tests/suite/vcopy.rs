//! The virtual-I/O copy benchmark: its rings by the rules of VIRTIO, its table, its errors.

use crate::common::nagori;
use serde_json::Value;
use std::process::Command;

/// Compiles a program of the benchmark for this host, and runs it.
fn host(sources: &[&str], replaced: Option<(&str, &str)>) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/bench/vcopy");
    for file in std::fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        let mut text = std::fs::read_to_string(&path).unwrap();
        if let Some((old, new)) = replaced.filter(|_| path.ends_with("ring.h")) {
            assert!(text.contains(old), "{old}");
            text = text.replacen(old, new, 1);
        }
        std::fs::write(dir.path().join(path.file_name().unwrap()), text).unwrap();
    }
    let built = Command::new("cc")
        .current_dir(dir.path())
        .args(["-O2", "-fno-strict-aliasing", "-pthread", "-o", "program"])
        .args(sources)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    let run = Command::new(dir.path().join("program")).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    (run.status.success(), text)
}

#[test]
fn both_rings_keep_the_rules_of_virtio() {
    let (ok, text) = host(&["check.c"], None);
    assert!(ok, "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
}

#[test]
fn a_broken_rule_is_found() {
    for (old, new, rule) in [
        ("p->wrap ^= 1;", ";", "as many become available"),
        ("if (i == 0) {", "if (0) {", "before it is published"),
        (
            "        event -= RING_SIZE;",
            "        ;",
            "an interrupt is sent",
        ),
    ] {
        let (ok, text) = host(&["check.c"], Some((old, new)));
        assert!(!ok && text.contains(rule), "{new}: {text}");
    }
}

fn rows(args: &[&str]) -> Vec<Value> {
    let run = nagori()
        .args(["-q", "bench", "vcopy", "--json"])
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    serde_json::from_slice(&run.stdout).unwrap()
}

const FEW: &[&str] = &[
    "--packets",
    "256",
    "--repeat",
    "1",
    "--batch",
    "32",
    "--memory",
    "dram",
];

#[test]
fn cells_do_not_depend_on_each_other_or_on_the_host() {
    let both = rows(&[FEW, &["--bytes", "64,1024", "--jobs", "2"]].concat());
    let one = rows(&[FEW, &["--bytes", "1024", "--ring", "packed", "--jobs", "1"]].concat());
    assert!(!one.is_empty());
    for row in &one {
        assert!(both.contains(row), "{row:#}");
        assert_eq!(row["ring"], "packed");
        assert_eq!(row["packets"], 256);
        for key in [
            "copy",
            "loops",
            "reader",
            "cycles_per_packet",
            "throughput_mpps",
        ] {
            assert!(!row[key].is_null(), "{key}: {row:#}");
        }
    }
}

#[test]
fn this_host_runs_the_same_source() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: producer and consumer need two processors");
        return;
    }
    let native = rows(&[
        "--native",
        "--packets",
        "4096",
        "--repeat",
        "1",
        "--bytes",
        "imix",
        "--batch",
        "32",
    ]);
    // Two rings, copies, loops, readers.
    assert!(native.len() >= 16, "{}", native.len());
    assert!(native.iter().all(|r| r["packet_bytes"] == "imix"));
    assert!(native
        .iter()
        .all(|r| r["throughput_mpps"].as_f64().unwrap() > 0.0));
}

#[test]
fn what_cannot_run_says_why() {
    for (args, why) in [
        (&["--set", "harts=1"][..], "two harts"),
        (&["--bytes", "4"], "8 to 2040"),
        (&["--batch", "257"], "257"),
        (&["--memory-model", "none-such"], "none-such"),
    ] {
        let run = nagori()
            .args(["bench", "vcopy"])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(
            !run.status.success() && text.contains(why),
            "{args:?}: {text}"
        );
    }
}
