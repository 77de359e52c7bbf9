//! Emulation by epochs: its bench, and what is checked of it.
//!
//! Needs gcc-riscv64-linux-gnu; skipped where it is missing, unless NAGORI_REQUIRE_TOOLS=1.

use crate::common::*;
use predicates::str::contains;
use serde_json::Value;
use std::time::Duration;

/// The rows of the bench, of one percent of the length.
fn bench(args: &[&str]) -> Option<Vec<Value>> {
    if !tool("riscv64-linux-gnu-gcc") {
        return None;
    }
    let mut c = nagori();
    c.timeout(Duration::from_secs(600));
    c.args(["-q", "bench", "epoch", "--json", "--length", "1"]);
    let out = c.args(args).assert().code(0).get_output().stdout.clone();
    let rows: Value = serde_json::from_slice(&out).expect("JSON");
    Some(rows.as_array().expect("rows").clone())
}

fn number(row: &Value, key: &str) -> f64 {
    row[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {row}"))
}

#[test]
fn chains_are_right_and_write_backs_make_the_formulas_differ() {
    let args = ["--only", "chase1,mixed100", "--memories", "coarse,pcm-2"];
    let Some(rows) = bench(&args) else { return };
    assert_eq!(rows.len(), 2 * 2 * 3);
    for r in &rows {
        let error = number(r, "error");
        match (r["program"].as_str(), r["method"].as_str()) {
            (Some("chase1"), _) => assert!(error.abs() < 0.03, "{r}"),
            // Each miss is waited for longer on DRAM, too, since it writes a line back: that counts as more misses.
            (_, Some("koshiba")) => assert!(error > 0.05, "{r}"),
            (_, method) => assert!(method == Some("quartz") || error < -0.05, "{r}"),
        }
    }
}

#[test]
fn programs_that_write_slow_down_with_writes_and_others_do_not() {
    let Some(rows) = bench(&["--figures"]) else {
        return;
    };
    for (program, flat) in [("profile", true), ("simplex", false), ("quantum", false)] {
        let times: Vec<f64> = { rows.iter() }
            .filter(|r| r["program"] == program)
            .map(|r| number(r, "emulated_ns"))
            .collect();
        assert_eq!(times.len(), 5, "{program}");
        let whole = times[4] / times[0];
        if flat {
            assert!((0.999..1.02).contains(&whole), "{times:?}")
        } else {
            assert!(times.windows(2).all(|t| t[1] > t[0]), "{times:?}");
            assert!(whole > 1.5, "{times:?}");
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    for (args, says) in [
        (&["--memories", "dram"][..], "never emulated"),
        (&["--memories", "sram"], "pcm-N"),
        (&["--methods", "qartz"], "koshiba"),
        (&["--epochs", "1"], "is not a time"),
        (&["--only", "nothing"], "no program `nothing`"),
        (
            &[
                "--machines",
                "server",
                "--memories",
                "fine",
                "--only",
                "chase1",
            ],
            "a memory of its own",
        ),
    ] {
        let mut c = nagori();
        c.args(["bench", "epoch"]).args(args);
        c.assert().failure().stderr(contains(says));
    }
    nagori()
        .args(["bare", "--method", "epoch:fast", "none.elf"])
        .assert()
        .code(2)
        .stderr(contains("quartz"));
}
