//! The benchmarks of devices and of starts, on real guests.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::{image, PATIENCE};
use crate::common::*;
use predicates::str::contains;
use serde_json::Value;

fn rows(args: &[&str]) -> Vec<Value> {
    let mut c = nagori();
    c.timeout(PATIENCE).args(["-q", "bench"]).args(args);
    let out = c.arg("--json").assert().code(0);
    let value: Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    value.as_array().expect("a list").clone()
}

#[test]
fn every_transfer_takes_its_time() {
    if image().is_none() {
        return;
    }
    let rows = rows(&["io", "--mib", "8"]);
    assert_eq!(rows.len(), 7);
    for row in rows {
        // Of the guest at 50 MHz, which cannot copy a GiB in a second.
        let guest = row["guest_seconds"].as_f64().expect("a time");
        assert!(guest > 8.0 / 1024.0, "{row}");
    }
    nagori()
        .args(["bench", "io", "--only", "tape"])
        .assert()
        .code(1)
        .stderr(contains("network, guest sends"));
}

#[test]
fn starts_take_a_time() {
    if image().is_none() {
        return;
    }
    let rows = rows(&["start", "--runs", "1"]);
    assert_eq!(rows.len(), 3);
    for row in rows {
        let [cpu, all] =
            ["cpu_seconds_to_start", "elapsed_seconds"].map(|k| row[k].as_f64().expect("a time"));
        assert!(cpu > 0.0 && all > 0.0, "{row}");
    }
}
