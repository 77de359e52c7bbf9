//! The board benchmark as a whole: its rows, and how far they are from the published figures.
//!
//! Needs what `nagori image build` needs; skipped where a tool is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

use crate::common::debian::image;
use crate::common::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1800);

fn rows(args: &[&str]) -> Vec<Value> {
    let out = nagori()
        .timeout(PATIENCE)
        .args(["--quiet", "bench", "board", "--json"])
        .args(args)
        .assert()
        .code(0);
    let value: Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    value.as_array().expect("a list").clone()
}

type Key = (String, String, u64, String);

fn key(row: &Value) -> Key {
    let text = |k: &str| row[k].as_str().expect("text").to_string();
    let value = row["value"].as_u64().expect("a number");
    (text("op"), text("benchmark"), value, text("method"))
}

/// The published cells of some methods, with their latencies in ns.
fn published(methods: &str) -> Vec<(Key, f64)> {
    include_str!("../../../bench/data/board_latency_calibration.csv")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.starts_with("op,") && !l.is_empty())
        .map(|l| {
            let f: Vec<&str> = l.split(',').collect();
            let value = f[2].parse().expect("a value");
            let key = (f[0].into(), f[1].into(), value, f[3].into());
            (key, f[4].parse().expect("a latency"))
        })
        .filter(|(key, _): &(Key, f64)| methods.split(',').any(|m| m == key.3))
        .collect()
}

/// Mean and largest of the absolute errors, in percent.
fn errors(rows: &[Value], methods: &str) -> (f64, f64, Vec<String>) {
    let mut list = Vec::new();
    for (cell, theirs) in published(methods) {
        let row = rows.iter().find(|r| key(r) == cell);
        let ours = row.unwrap_or_else(|| panic!("no {cell:?}"))["latency_ns"]
            .as_f64()
            .expect("a latency");
        list.push((100.0 * (ours / theirs - 1.0), cell));
    }
    assert!(list.len() >= 16, "{} cells", list.len());
    let mean = list.iter().map(|(e, _)| e.abs()).sum::<f64>() / list.len() as f64;
    let largest = list.iter().map(|(e, _)| e.abs()).fold(0.0, f64::max);
    let text = list.iter().map(|(e, c)| format!("{e:+.1} % {c:?}"));
    (mean, largest, text.collect())
}

#[test]
fn a_quick_run_has_every_cell_once() {
    if image().is_none() {
        return;
    }
    let rows = rows(&["--quick"]);
    let keys: BTreeSet<Key> = rows.iter().map(key).collect();
    let mut expected = BTreeSet::new();
    for op in ["read", "write"] {
        for method in ["dram", "coarse", "fine", "extended"] {
            let cells = [4096, 8192].map(|v| ("stride", v));
            for (benchmark, value) in cells.into_iter().chain((1..=6).map(|v| ("nbank", v))) {
                expected.insert((op.into(), benchmark.into(), value, method.into()));
            }
        }
    }
    assert_eq!((rows.len(), keys), (64, expected));
    for r in &rows {
        let names: Vec<&String> = r.as_object().expect("an object").keys().collect();
        assert_eq!(names.len(), 5, "{r}");
        let ns = r["latency_ns"].as_f64().expect("a latency");
        assert!((500.0..20_000.0).contains(&ns), "{r}");
    }
    // What a delay adds is at least in the right order.
    let of = |op: &str, method: &str| -> f64 {
        let same = rows
            .iter()
            .filter(|r| r["op"] == op && r["method"] == method);
        same.map(|r| r["latency_ns"].as_f64().expect("a latency"))
            .sum()
    };
    for op in ["read", "write"] {
        assert!(of(op, "dram") < of(op, "coarse") && of(op, "dram") < of(op, "fine"));
    }
    // A cell of a short run is shorter than the time between two ticks of the kernel, each of which adds up
    // to 30 %, and it may meet other work of the kernel's, too: the published figures are for whole runs.
    let (mean, largest, text) = errors(&rows, "coarse,fine,extended");
    assert!(mean < 20.0 && largest < 80.0, "{mean} {largest} {text:#?}");
}

/// Runs whole loops under some methods.
fn figures(methods: &str) {
    if image().is_none() {
        return;
    }
    let (mean, largest, text) = errors(&rows(&["--methods", methods]), methods);
    eprintln!("mean absolute error {mean:.2} %, largest {largest:.2} %");
    assert!(mean <= 2.0, "mean absolute error {mean:.2} %: {text:#?}");
    assert!(largest <= 4.0, "largest error {largest:.2} %: {text:#?}");
}

/// Four in five of the published cells.
#[test]
fn the_published_figures_of_coarse_are_met() {
    figures("coarse");
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn the_published_figures_are_met() {
    figures("coarse,fine,extended");
}
