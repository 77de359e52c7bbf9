//! `nagori mem`: runs that succeed, and runs that fail.

use super::nagori;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;

pub fn run(args: &[&str]) -> String {
    let out = nagori().arg("mem").args(args).assert().code(0);
    String::from_utf8(out.get_output().stdout.clone()).unwrap()
}

pub fn json(args: &[&str]) -> Value {
    serde_json::from_str(&run(args)).unwrap()
}

pub fn fails(args: &[&str], what: &str) {
    let code = nagori()
        .arg("mem")
        .args(args)
        .assert()
        .stdout("")
        .stderr(contains(what));
    code.code(1);
}

pub fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}
