//! `nagori bench speed`, briefly.

use crate::common::*;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use std::process::Command;

/// Whether a tool is installed; where none may be missing, it must be.
fn has(tool: &str) -> bool {
    let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    let there = Command::new(tool).arg("--version").output().is_ok();
    assert!(there || !required, "{tool} is not installed");
    if !there {
        eprintln!("skipped: {tool} is not installed");
    }
    there
}

fn rows(args: &[&str]) -> Vec<Value> {
    let out = nagori()
        .args(["-q", "bench", "speed", "--repeats", "1", "--json"])
        .args(["--engine", "interpreter"])
        .args(args)
        .assert()
        .code(0);
    serde_json::from_slice(&out.get_output().stdout).expect("JSON")
}

#[test]
fn rows_of_a_short_run() {
    if !has("riscv64-linux-gnu-gcc") {
        return;
    }
    // Two percent: what matters here is that every program ends with the same result everywhere,
    // which the command itself checks.
    let programs = [
        "integer", "mix", "sort", "chase32k", "random", "stream", "matrix", "bytecode", "compress",
    ];
    let rows = rows(&["--length", "2", "--only", &programs.join(",")]);
    let of = |r: &Value, key: &str| r[key].as_str().unwrap_or("-").to_string();
    let names: Vec<[String; 4]> = rows
        .iter()
        .map(|r| ["workload", "mode", "engine", "method"].map(|k| of(r, k)))
        .collect();
    let modes = |w: &str| {
        [
            ("functional", "-"),
            ("timed", "dram"),
            ("timed", "extended"),
        ]
        .map(|(mode, method)| [w, mode, "interpreter", method].map(String::from))
    };
    assert_eq!(names, programs.map(modes).concat());
    for of in rows.chunks(3) {
        // The timing model changes no result: as many instructions.
        assert_eq!(of[0]["instructions"], of[1]["instructions"]);
        assert!(of[0]["instructions"].as_u64() > Some(1_000_000), "{of:?}");
        for r in of {
            assert!(r["mips"].as_f64() > Some(0.5), "{r}");
            let timed = r["mode"] == "timed";
            for key in ["guest_seconds", "real_time_factor", "cache_misses"] {
                assert_eq!(r[key].is_number(), timed, "{key}: {r}");
            }
            // The process itself has a few MiB, and not the guest's 64.
            let own = r["own_memory_bytes"].as_u64().expect("a number");
            assert!((1 << 20..300 << 20).contains(&own), "{r}");
        }
    }
    // Data in NVMM is slower by far where it does not fit the cache.
    let seconds = |workload: &str, method: &str| {
        let r = rows
            .iter()
            .find(|r| r["workload"] == workload && r["method"] == method);
        r.unwrap()["guest_seconds"].as_f64().unwrap()
    };
    assert!(seconds("random", "extended") > 1.5 * seconds("random", "dram"));
    let ratio = seconds("integer", "extended") / seconds("integer", "dram");
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn four_harts_do_four_times_the_work() {
    if !has("riscv64-linux-gnu-gcc") {
        return;
    }
    let rows = rows(&["--length", "7", "--only", "smp1,smp4", "--methods", "dram"]);
    assert_eq!(rows.len(), 4);
    for i in 0..2 {
        let n = |r: &Value| r["instructions"].as_f64().unwrap();
        let times = n(&rows[i + 2]) / n(&rows[i]);
        assert!((3.8..4.2).contains(&times), "{times}");
    }
}

#[test]
fn timed_rows_of_another_machine() {
    if !has("riscv64-linux-gnu-gcc") {
        return;
    }
    let rows = rows(&[
        "--length",
        "2",
        "--only",
        "sort,smp4",
        "--methods",
        "dram",
        "--also",
        "small",
    ]);
    let of =
        |r: &Value| ["workload", "mode", "machine"].map(|k| r[k].as_str().unwrap().to_string());
    let found: Vec<[String; 3]> = rows.iter().map(of).collect();
    // The other one has one hart.
    let expected = [
        ["sort", "functional", "vc707"],
        ["sort", "timed", "vc707"],
        ["sort", "timed", "small"],
        ["smp4", "functional", "vc707"],
        ["smp4", "timed", "vc707"],
    ];
    assert_eq!(found, expected.map(|r| r.map(String::from)));
}

#[test]
fn a_report_with_goals() {
    if !has("riscv64-linux-gnu-gcc") || !has("qemu-system-riscv64") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("speed.json");
    nagori()
        .args(["-q", "bench", "speed", "--qemu", "--repeats", "1"])
        .args(["--engine", "interpreter"])
        .args(["--length", "5", "--only", "matrix", "--methods", "dram"])
        .arg("--report")
        .arg(&file)
        .assert()
        .code(0)
        .stdout(contains("of QEMU").and(contains("functional, of QEMU: doubles")));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 3);
    assert_eq!(report["length_percent"], 5);
    let ratio = report["ratios"][0]["of_qemu"].as_f64().unwrap();
    let goals = report["goals"].as_array().unwrap();
    let goal = |name: &str| goals.iter().find(|g| g["goal"] == name).expect("a goal");
    let doubles = goal("functional, of QEMU: doubles");
    assert_eq!(doubles["value"].as_f64(), Some(ratio));
    assert_eq!(doubles["met"].as_bool(), Some(ratio >= 2.0));
    assert!(goal("boot to shell, timed")["met"].is_null());
}

#[test]
fn what_cannot_be_measured() {
    let refuse = |args: &[&str], text: &str| {
        nagori()
            .args(["bench", "speed"])
            .args(args)
            .assert()
            .code(1)
            .stderr(contains(text));
    };
    refuse(
        &["--only", "quake"],
        "there is no workload `quake`: expected integer, ",
    );
    refuse(
        &["--set", "memory.nvmm_boundary='2 GiB'"],
        "give --methods dram",
    );
    refuse(
        &["--only", "smp4", "--set", "harts=2"],
        "smp4 needs 4 harts, but the machine has 2",
    );
}
