//! `nagori bench speed`, briefly.

mod common;

use common::*;
use predicates::str::contains;
use std::process::Command;

#[test]
fn rows_of_a_quick_run() {
    let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    let compiler = "riscv64-linux-gnu-gcc";
    if Command::new(compiler).arg("--version").output().is_err() {
        assert!(!required, "{compiler} is not installed");
        eprintln!("skipped: {compiler} is not installed");
        return;
    }
    let out = nagori()
        .args(["-q", "bench", "speed", "--quick", "--json"])
        .args(["--only", "integer,copy,sort,dispatch"])
        .assert()
        .code(0);
    let rows: Vec<serde_json::Value> =
        serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|r| (r["workload"].as_str().unwrap(), r["mode"].as_str().unwrap()))
        .collect();
    let modes = |w| [(w, "functional"), (w, "timed")];
    assert_eq!(
        names,
        ["integer", "copy", "sort", "dispatch"].map(modes).concat()
    );
    for pair in rows.chunks(2) {
        // The timing model changes no result: as many instructions.
        assert_eq!(pair[0]["instructions"], pair[1]["instructions"]);
        assert!(pair[0]["instructions"].as_u64() > Some(1_000_000));
        assert!(pair.iter().all(|r| r["mips"].as_f64() > Some(1.0)));
    }
}

#[test]
fn a_workload_that_does_not_exist() {
    nagori()
        .args(["bench", "speed", "--only", "quake"])
        .assert()
        .code(1)
        .stderr(contains("there is no workload `quake`: expected integer, "));
}
