//! `nagori mem record`: traces of the host's programs.
//!
//! Needs gcc and Debian's qemu-user; skipped where one is missing, unless NAGORI_REQUIRE_TOOLS=1.

mod common;

use common::*;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes one word in each of LINES lines, once or twice, and ends with 3.
const WRITER: &str = "
static volatile long words[LINES * 8];
int main(int argc, char **argv)
{
    (void)argv;
    for (int round = 0; round < argc; round++)
        for (long i = 0; i < LINES; i++)
            words[i * 8] = i;
    return 3;
}";
const LINES: u64 = 1 << 16;

fn program(dir: &Path) -> Option<PathBuf> {
    if !tool("gcc") || !tool("qemu-x86_64") {
        return None;
    }
    let source = dir.join("writer.c");
    std::fs::write(&source, WRITER).unwrap();
    let program = dir.join("writer");
    let compiled = std::process::Command::new("gcc")
        .args(["-O1", "-static", &format!("-DLINES={LINES}"), "-o"])
        .args([&program, &source])
        .status();
    assert!(compiled.unwrap().success());
    Some(program)
}

fn record(options: &[&str], program: &[&str], report: &Path) -> Value {
    nagori()
        .args(["-q", "mem", "record", "--report"])
        .arg(report)
        .args(options)
        .arg("--")
        .args(program)
        .assert()
        .code(3);
    serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap()
}

fn within(value: &Value, low: u64, high: u64, what: &str) {
    let n = value.as_u64().unwrap();
    assert!(
        (low..=high).contains(&n),
        "{what}: {n}, not {low} to {high}"
    );
}

#[test]
fn lines_of_a_program_reach_memory_through_the_caches() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = program(dir.path()) else {
        return;
    };
    let program = program.to_str().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (trace, report) = (file("t.trc"), file("r.json"));
    let to = trace.to_str().unwrap();

    // L1 of 16 KiB alone: each line is read, and written back but for the last 256.
    let r = record(&["--machine", "vc707", "-o", to], &[program], &report);
    let played = nagori()
        .args([
            "-q", "mem", "run", "--memory", "ddr4", "--json", "--trace", to,
        ])
        .output()
        .unwrap();
    let played: Value = serde_json::from_slice(&played.stdout).unwrap();
    // The program's beginning and end touch some lines, too.
    let (few, l1) = (6000, 256);
    within(&played["reads"], LINES, LINES + few, "reads");
    within(&played["writes"], LINES - l1, LINES + few / 2, "writes");
    within(
        &r["instructions"],
        3 * LINES,
        8 * LINES + 500_000,
        "instructions",
    );
    within(
        &r["touched_bytes"],
        LINES * 64,
        LINES * 64 + (2 << 20),
        "memory",
    );
    assert_eq!(r["records"], played["records"]);

    // 4 MiB stay in a level of 20 MiB.
    let r = record(&["-o", to, "--to", "ramulator"], &[program, "x"], &report);
    within(&r["records"], LINES, LINES + few, "records");
    within(
        &r["levels"][1]["hits"],
        LINES,
        LINES + few,
        "hits of the second round",
    );
    let text = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(text.lines().count() as u64, r["records"].as_u64().unwrap());

    // The same run, the same trace.
    let again = file("again.trc");
    record(
        &["-o", again.to_str().unwrap(), "--to", "ramulator"],
        &[program, "x"],
        &report,
    );
    assert!(std::fs::read_to_string(&again).unwrap() == text);

    // Whatever the first instructions touch is left out.
    let r = record(&["-o", to, "--skip", "100000000"], &[program], &report);
    assert_eq!(r["records"], 0);
    nagori()
        .args(["mem", "record", "--limit", "500", "-o", to, program])
        .assert()
        .code(0)
        .stderr(contains("ended after --limit").and(contains("500 accesses of")));
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    let script = script.to_str().unwrap();
    let trace = dir.path().join("t.trc");
    for (args, what) in [
        (&["no-such-program"][..], "no such program in PATH"),
        (
            &[script],
            "no ELF program; of a script, name the interpreter",
        ),
        (&["/proc"], "cannot read /proc"),
        (&["--to", "gem5", "sh"], "--cycle"),
        (&["--to", "ramulator-vector", "sh"], "address mapping"),
        (&["--machine", "none", "sh"], "none"),
    ] {
        nagori()
            .args(["mem", "record", "-o"])
            .arg(&trace)
            .args(args)
            .assert()
            .code(1)
            .stderr(contains(what));
        assert!(!trace.exists());
    }
}
