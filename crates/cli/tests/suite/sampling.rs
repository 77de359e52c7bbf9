//! `--timing sampled`, `--bbv`, `--intervals` and `nagori window` with a program of two phases.

use crate::common::*;
use nagori_isa::Op;
use predicates::str::contains;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Three instructions a round, without loads and then with: 6 million of each.
fn program() -> Vec<u8> {
    Program::new()
        .li(T0, 2_000_000)
        .op(Op::Addi, T1, T1, 0, 1)
        .op(Op::Addi, T0, T0, 0, -1)
        .op(Op::Bne, 0, T0, ZERO, -8)
        .li(T0, 1_500_000)
        .op(Op::Auipc, T1, 0, 0, 0x10_0000)
        .op(Op::Lw, T2, T1, 0, 0)
        .op(Op::Addi, T1, T1, 0, 64)
        .op(Op::Addi, T0, T0, 0, -1)
        .op(Op::Bne, 0, T0, ZERO, -12)
        .exit(0)
        .elf()
}

fn bare(file: &Path, options: &[&str]) -> assert_cmd::Command {
    let mut c = nagori();
    c.args(["bare", "-m", "vc707", "--set", "harts=1"])
        .args(options)
        .arg(file);
    c
}

const SHORT: &[&str] = &[
    "--timing",
    "sampled",
    "--window-length",
    "10000",
    "--warm-up",
    "5000",
];

fn json(file: &Path, options: &[&str]) -> Value {
    let mut options = options.to_vec();
    options.extend(["--stats", "json"]);
    let out = bare(file, &options).assert().code(0).get_output().clone();
    serde_json::from_slice(&out.stdout).unwrap()
}

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    base.iter().chain(more).copied().collect()
}

#[test]
fn estimates_are_near_the_truth_and_the_same_with_any_threads() {
    let files = Files::new();
    let file = files.write("two.elf", &program());
    let truth = json(&file, &[]);
    let mut one = json(
        &file,
        &with(SHORT, &["--windows", "60", "--sample-threads", "1"]),
    );
    let mut three = json(
        &file,
        &with(SHORT, &["--windows", "60", "--sample-threads", "3"]),
    );
    one["host"].take();
    three["host"].take();
    assert_eq!(one, three);
    let s = &one["sampled"];
    assert!(s["windows"].as_u64().unwrap() > 30, "{s}");
    let real = truth["elapsed_ps"].as_f64().unwrap();
    let ends = &s["estimates"]["guest_time_ps"]["ci95"];
    let (low, high) = (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
    assert!(low <= real && real <= high, "{s} {real}");
    assert!((one["elapsed_ps"].as_f64().unwrap() / real - 1.0).abs() < 0.05);
    assert_eq!(one["instructions"], truth["instructions"]);
    // A program that is too short is as without.
    let whole = json(&file, &["--timing", "sampled", "--warm-up", "1000000"]);
    assert_eq!(whole["sampled"]["whole"], true);
    assert_eq!(whole["elapsed_ps"], truth["elapsed_ps"]);
}

#[test]
fn a_profile_is_that_of_windows_each_as_often_as_it_stands_for() {
    let files = Files::new();
    let file = files.write("two.elf", &program());
    let folded = files.path("waits.folded");
    let profile = ["--profile", folded.to_str().unwrap()];
    // The folded stacks, and the nanoseconds in them, which are those of the statistics.
    let waits = |options: &[&str]| {
        let stats = json(&file, &with(options, &profile));
        let text = fs::read_to_string(&folded).unwrap();
        let ns = |l: &str| l.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
        let all: f64 = text.lines().map(ns).sum();
        // 50 MHz: twenty nanoseconds a cycle.
        let cycles = stats["harts"][0]["memory_stall_cycles"].as_f64().unwrap();
        assert!(
            (all / (20.0 * cycles) - 1.0).abs() < 0.001,
            "{all} {cycles}"
        );
        (text, all)
    };
    let sampled = with(SHORT, &["--windows", "60"]);
    let one = waits(&with(&sampled, &["--sample-threads", "1"]));
    assert_eq!(one, waits(&with(&sampled, &["--sample-threads", "3"])));
    let (_, real) = waits(&[]);
    assert!((one.1 / real - 1.0).abs() < 0.2, "{} {real}", one.1);
    // A program that is measured as a whole has the profile of one that is not sampled.
    let whole = waits(&["--timing", "sampled", "--warm-up", "1000000"]);
    assert_eq!(whole.1, real);
}

#[test]
fn windows_are_measured_anywhere_and_alike() {
    let files = Files::new();
    let file = files.write("two.elf", &program());
    let dir = files.path("windows");
    let to = dir.to_str().unwrap();
    json(
        &file,
        &with(SHORT, &["--windows", "20", "--windows-to", to]),
    );
    let mut all: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    all.sort();
    let run = |engine: &str| {
        let mut c = nagori();
        c.args(["window", "run", "--json", "-", "--engine", engine])
            .args(&all[..3]);
        c.assert().code(0).get_output().stdout.clone()
    };
    let measured = run("translator");
    assert_eq!(measured, run("interpreter"));
    let list: Value = serde_json::from_slice(&measured).unwrap();
    assert_eq!(list[2]["window"], 2);
    assert!(list[0]["measured"]["instructions"].as_u64().unwrap() >= 10_000);
    nagori()
        .args(["window", "run"])
        .arg(&file)
        .assert()
        .code(1)
        .stderr(contains("snapshot"));
}

#[test]
fn vectors_show_phases_and_given_intervals_are_measured() {
    let files = Files::new();
    let file = files.write("two.elf", &program());
    let vectors = files.path("two.bb");
    let to = vectors.to_str().unwrap();
    bare(&file, &["--bbv", to, "--window-length", "1000000"])
        .assert()
        .code(0);
    let text = fs::read_to_string(&vectors).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 13);
    assert!(lines.iter().all(|l| l.starts_with("T:")));
    // Within a phase they are the same.
    assert_eq!(lines[1], lines[4]);
    assert_eq!(lines[8], lines[10]);
    assert_ne!(lines[4], lines[8]);
    let chosen = files.write("chosen", b"2 0.5\n9 0.5\n");
    let chosen = [
        "--timing",
        "sampled",
        "--window-length",
        "1000000",
        "--intervals",
        chosen.to_str().unwrap(),
    ];
    let s = json(&file, &chosen);
    assert_eq!(s["sampled"]["windows"], 2);
    assert!(s["sampled"]["estimates"]["cpi"]["ci95"].is_null());
    let truth = json(&file, &[]);
    let ratio = s["elapsed_ps"].as_f64().unwrap() / truth["elapsed_ps"].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let files = Files::new();
    let file = files.write("two.elf", &program());
    let disk = files.write("disk", &[0; 4096]);
    let disk = disk.to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--error", "2%"], "--timing sampled is needed"),
        (
            &["--timing", "sampled", "--disk", disk],
            "must not write it",
        ),
        (
            &["--timing", "sampled", "--functional"],
            "--functional: not with --timing sampled",
        ),
    ];
    for (options, message) in cases {
        bare(&file, options)
            .assert()
            .code(1)
            .stderr(contains(*message));
    }
    bare(&file, &["--timing", "sampled", "--error", "0"])
        .assert()
        .code(2);
}
