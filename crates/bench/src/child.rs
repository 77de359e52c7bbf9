//! `nagori run` as a separate process, for benchmarks of the whole command.

use anyhow::{bail, Context};
use nagori_terminal::again;
use nagori_terminal::args::CacheArgs;
use serde_json::Value;
use std::process::Stdio;

/// Runs a program without input, and returns the statistics.
pub fn run(cache: &CacheArgs, options: &[&str], program: &[&str]) -> anyhow::Result<Value> {
    let mut c = again::command()?;
    c.args(["--quiet", "run", "--stdin", "none", "--json", "-"])
        .args(options);
    cache.pass_to(&mut c);
    let out = c
        .arg("--")
        .args(program)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot run `nagori run`")?;
    let text = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        let errors = String::from_utf8_lossy(&out.stderr);
        bail!("`nagori run` failed: {}{}", text.trim(), errors.trim());
    }
    // They follow the program's output.
    let at = text.find("\n{").map_or(0, |i| i + 1);
    serde_json::from_str(&text[at..]).context("`nagori run` gave no JSON")
}
