//! `nagori crash` with a log of records on NVMM (`guest/crash/ringlog.c`): its missing flush is found, the correct version has no
//! finding, and a finding leads back to its store.
//!
//! Needs what `nagori image build` needs, and the cross compiler; skipped where one is missing, unless
//! NAGORI_REQUIRE_TOOLS=1.

mod common;

use common::{debian, nagori, tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest");

/// The log's program, compiled; nothing, with a message, where a tool is missing.
fn ringlog(dir: &Path) -> Option<PathBuf> {
    debian::image()?;
    if !tool("riscv64-linux-gnu-gcc") {
        return None;
    }
    let program = dir.join("ringlog");
    let status = std::process::Command::new("riscv64-linux-gnu-gcc")
        .args(["-static", "-O2", "-march=rv64gc", "-o"])
        .arg(&program)
        .arg(format!("-I{GUEST}/include"))
        .arg(format!("{GUEST}/crash/ringlog.c"))
        .status()
        .expect("the compiler runs");
    assert!(status.success());
    Some(program)
}

/// Explores a workload of the log; the report.
fn explore(program: &Path, workload: &str, more: &[&str], code: i32) -> Value {
    let file = format!("{}:/bin/ringlog", program.display());
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "--machine", "small", "--file", &file])
        .args(["--setup", "ringlog setup", "--workload", workload])
        .args(["--recover", "ringlog recover", "--check", "ringlog check"])
        .args(["--json", "-"])
        .args(more)
        .assert()
        .code(code);
    serde_json::from_slice(&out.get_output().stdout).expect("a report")
}

/// A report without what differs between commands.
fn same(mut report: Value) -> Value {
    report["args"] = Value::Null;
    report
}

#[test]
fn a_correct_log_has_no_finding() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let report = explore(&program, "ringlog workload 6", &["--oracle", "prefix"], 0);
    assert_eq!(report["findings"], Value::Array(vec![]));
    let c = &report["coverage"];
    assert_eq!(c["cuts"], c["complete"], "{c}");
    assert!(c["cuts"].as_u64() > Some(12), "{c}");
    assert_eq!(c["unstable"], 0);
    assert_eq!(
        report["workload"]["labels"].as_array().map(Vec::len),
        Some(6)
    );
}

#[test]
fn a_missing_flush_is_found_and_replayed() {
    let dir = TempDir::new().unwrap();
    let Some(program) = ringlog(dir.path()) else {
        return;
    };
    let found = dir.path().join("found");
    let found = found.to_str().expect("UTF-8");
    let workload = "ringlog workload 2 without-flush";
    // In another order the words of a line alone have hundreds of contents.
    let few = ["--order", "commit", "--budget-states", "150"];
    let report = explore(
        &program,
        workload,
        &[&few[..], &["--jobs", "1", "--findings", found]].concat(),
        1,
    );
    let again = explore(
        &program,
        workload,
        &[&few[..], &["--jobs", "2"]].concat(),
        1,
    );
    assert_eq!(
        same(report.clone()),
        same(again),
        "the number of jobs matters"
    );
    let finding = &report["findings"][0];
    assert_eq!(finding["outcome"]["kind"], "recover-exit", "{finding}");
    let store = &finding["stores"][0];
    assert_eq!(store["change"], "lost");
    assert_eq!(store["frames"][0]["symbol"]["name"], "append");
    assert_eq!(store["frames"][1]["symbol"]["name"], "main");
    let id = finding["id"].as_str().expect("an id");
    let out = nagori()
        .timeout(debian::PATIENCE)
        .args(["--quiet", "crash", "replay", &format!("{found}/{id}.json")])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let pc = store["site"]["pc"].as_u64().expect("a pc");
    assert!(text.contains(&format!("pc {pc:#x}")), "{text}");
}

#[test]
fn what_cannot_be_explored_is_an_error() {
    nagori()
        .args(["crash", "--workload", "true"])
        .assert()
        .code(2);
    nagori()
        .args(["crash", "replay", "/nonexistent/finding.json"])
        .assert()
        .code(2);
    nagori()
        .args([
            "crash",
            "--workload",
            "true",
            "--recover",
            "true",
            "--shard",
            "3/2",
        ])
        .assert()
        .code(2);
}
