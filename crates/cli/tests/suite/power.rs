//! Power cuts at chosen points, as a user has them: of runs, of runs that go on from snapshots.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

const TRACKED: [&str; 2] = ["--set", "memory.track_persistence=true"];
const EADR: [&str; 2] = ["--set", "memory.persistence_domain=eadr"];

/// Adds one to a word of NVMM at each start, flushes it or not, and sets the number as a label;
/// ends with code 3 at the third start, otherwise loops.
fn counter(flush: bool) -> Program {
    // Snapshots are taken where the scheduler stops: at markers; these two have no other effect.
    let p = Program::new()
        .op(Op::MarkLabel, ZERO, ZERO, ZERO, 0)
        .op(Op::MarkLabel, ZERO, ZERO, ZERO, 0)
        .op(Op::Addi, T0, ZERO, ZERO, 3)
        .op(Op::Slli, T0, T0, ZERO, 30)
        .op(Op::Ld, T1, T0, ZERO, 0)
        .op(Op::Addi, T1, T1, ZERO, 1)
        .op(Op::Sd, ZERO, T0, T1, 0);
    let p = if flush {
        p.op(Op::CboFlush, ZERO, T0, ZERO, 0)
    } else {
        p
    };
    p.op(Op::MarkLabel, ZERO, T1, ZERO, 0)
        .op(Op::Addi, T2, ZERO, ZERO, 3)
        .op(Op::Beq, ZERO, T1, T2, 8)
        .op(Op::Jal, ZERO, ZERO, ZERO, 0)
        .exit(3)
}

/// Runs with limits and both engines; returns standard output, which must be the same.
fn both(start: &[&str], path: &Path, args: &[&str], code: i32) -> String {
    let runs = ["interpreter", "translator"].map(|engine| {
        let out = nagori()
            .args(start)
            .arg(path)
            .args(["--engine", engine, "--max-instructions", "100000"])
            .args(args)
            .assert()
            .code(code);
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    });
    let plain = runs.clone().map(|text| without_host(&text));
    assert_eq!(plain[0], plain[1]);
    let [first, _] = runs;
    first
}

fn without_host(text: &str) -> Option<Value> {
    let mut v: Value = serde_json::from_str(text).ok()?;
    v.as_object_mut()?.remove("host");
    Some(v)
}

const MARKERS: [&str; 4] = ["--power-cut-at", "marker:1", "--power-cut-at", "marker:2"];

#[test]
fn a_counter_on_nvmm_outlives_power_cuts_if_it_was_flushed() {
    let files = Files::new();
    let start = ["bare", "--set", "harts=1"];
    let flushed = files.write("flushed.elf", &counter(true).elf());
    both(&start, &flushed, &[&MARKERS[..], &TRACKED].concat(), 3);
    let lazy = files.write("lazy.elf", &counter(false).elf());
    // The label is 1 at each start, and the second cut waits for 2.
    both(&start, &lazy, &[&MARKERS[..], &TRACKED].concat(), 124);
    // With caches inside the persistence domain, or outside.
    both(&start, &lazy, &[&MARKERS[..], &EADR].concat(), 3);
    both(
        &start,
        &lazy,
        &[&MARKERS[..], &["--functional"]].concat(),
        3,
    );
    // Information that a power cut requires.
    nagori()
        .args(start)
        .args(MARKERS)
        .arg(&lazy)
        .assert()
        .code(1)
        .stderr(contains("memory.track_persistence=true").and(contains("eadr")));
}

use predicates::prelude::PredicateBooleanExt;

#[test]
fn cuts_are_where_they_were_asked_for() {
    let files = Files::new();
    let endless = Program::new()
        .op(Op::Addi, T0, T0, ZERO, 1)
        .op(Op::Jal, ZERO, ZERO, ZERO, -4);
    let path = files.write("endless.elf", &endless.elf());
    let start = ["bare", "--set", "harts=4"];
    let exit = ["--power-cut-exit", "--stats", "json"];
    for at in ["insn:5000", "5000"] {
        let args = [&["--power-cut-at", at][..], &exit, &TRACKED].concat();
        let v: Value = serde_json::from_str(&both(&start, &path, &args, 0)).expect("JSON");
        assert_eq!(v["instructions"], 5000);
        assert_eq!(v["power_cuts"][0]["instructions"], 5000);
        assert_eq!(v["end"]["why"], "power-cut");
    }
    for (at, ps) in [("time:30us", 30_000_000), ("0.1 ms", 100_000_000)] {
        let args = [&["--power-cut-at", at][..], &exit, &TRACKED].concat();
        let v: Value = serde_json::from_str(&both(&start, &path, &args, 0)).expect("JSON");
        let time = v["power_cuts"][0]["time_ps"].as_u64().expect("a time");
        assert!((ps..ps + 1_000_000).contains(&time), "{at}: {time}");
    }
    // Several; the last one ends the run, and says so. On one hart, since each would count its start.
    nagori()
        .args(["bare", "--set", "harts=1"])
        .args(TRACKED)
        .args(["--power-cut-at", "100", "--power-cut-at", "insn:300"])
        .args(["--power-cut-exit", "--power-cut-dram", "7"])
        .arg(&path)
        .assert()
        .code(0)
        .stderr(contains("behind 100 instructions").and(contains("behind 300 instructions")));
}

#[test]
fn wrong_points_are_refused_and_missed_ones_told() {
    let files = Files::new();
    let path = files.write("hello.elf", &Program::new().print("hello\n").exit(4).elf());
    let run = |args: &[&str]| nagori().arg("bare").args(args).arg(&path).assert();
    for bad in [
        "soon",
        "insn:0",
        "time:7",
        "marker:",
        "marker:longer than 8",
    ] {
        run(&["--power-cut-at", bad])
            .code(2)
            .stderr(contains("insn:N"));
    }
    run(&["--power-cut-exit"]).code(2);
    run(&["--power-cut-at", "5", "--parallel"]).code(2);
    run(&["--power-cut-at", "insn:1000000", "--functional"])
        .code(4)
        .stderr(contains("the run ended before 1 of 1 points"));
    run(&[
        "--power-cut-at",
        "50",
        "--power-cut-at",
        "40",
        "--functional",
    ])
    .code(1)
    .stderr(contains("so 40 is behind it"));
}

/// A machine that continues from a snapshot knows the software with which it restarts.
#[test]
fn resumed_machines_lose_their_power_and_start_anew() {
    let files = Files::new();
    for (flush, code) in [(true, 3), (false, 124)] {
        let path = files.write("counter.elf", &counter(flush).elf());
        let snap = files.path("early.snap");
        nagori()
            .args([
                "bare",
                "--set",
                "harts=1",
                "--snapshot-at",
                "1",
                "--snapshot-exit",
            ])
            .args(TRACKED)
            .arg("--snapshot")
            .arg(&snap)
            .arg(&path)
            .assert()
            .code(0);
        // Only the snapshot is left.
        std::fs::remove_file(&path).expect("the program");
        both(&["resume"], &snap, &MARKERS, code);
        // A second snapshot still contains everything.
        let second = files.path("second.snap");
        nagori()
            .arg("resume")
            .arg(&snap)
            .args(["--snapshot-at", "2", "--snapshot-exit"])
            .arg("--snapshot")
            .arg(&second)
            .assert()
            .code(0);
        both(&["resume"], &second, &MARKERS, code);
        if !flush {
            both(&["resume"], &second, &[&MARKERS[..], &EADR].concat(), 3);
        }
        nagori()
            .arg("resume")
            .arg(&snap)
            .args(["--power-cut-at", "insn:1"])
            .assert()
            .code(1)
            .stderr(contains("is behind it"));
    }
}
