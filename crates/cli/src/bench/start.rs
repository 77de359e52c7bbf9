//! `nagori bench start`: how long a program takes to begin.

use super::child;
use crate::args::CacheArgs;
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::tables::{row, table, text};
use anyhow::Context;
use clap::Args;
use serde_json::{json, Value};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  nagori bench start
  nagori bench start --runs 20 --json

Processor time is that of the `nagori` process from its start to the first instruction of the program;
elapsed time is that of the whole command, with a program that does nothing. The boot is made before, if
there is none.";

/// Measure the time from the command to the first instruction of a program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StartArgs {
    /// Runs of each kind; the median counts.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// A list of rows.
    #[arg(long)]
    pub json: bool,
}

/// What is started: a name, and arguments of `nagori run`.
const KINDS: &[(&str, &[&str])] = &[
    ("busybox, smallest root file system", &["--rootfs", "none"]),
    ("Debian's root file system", &[]),
    ("the same, with the program on NVMM", &["--memory", "nvmm"]),
];

/// Runs the command.
pub fn command(a: &StartArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, options) in KINDS {
        // Boots, if need be.
        once(a, options)?;
        let mut all = Vec::new();
        for _ in 0..a.runs {
            all.push(once(a, options)?);
        }
        let median = |pick: fn(&(f64, f64)) -> f64| {
            let mut v: Vec<f64> = all.iter().map(pick).collect();
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        rows.push((*name, median(|r| r.0), median(|r| r.1)));
        messages.note(&format!("{name}: done"));
    }
    if a.json {
        let all: Vec<Value> = rows
            .iter()
            .map(|r| json!({"what": r.0, "cpu_seconds_to_start": r.1, "elapsed_seconds": r.2}))
            .collect();
        output::print_json(&json!(all))?;
        return Ok(SUCCESS);
    }
    let mut t = table(["start of a program", "CPU s to its start", "elapsed s, all"]);
    for (name, cpu, elapsed) in rows {
        row(
            &mut t,
            [name.into(), format!("{cpu:.3}"), format!("{elapsed:.3}")],
        );
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}

/// Processor time to the start, and elapsed time, of a run.
fn once(a: &StartArgs, options: &[&str]) -> anyhow::Result<(f64, f64)> {
    let begin = Instant::now();
    let v = child::run(&a.cache, options, &["true"])?;
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = v
        .pointer("/host/cpu_seconds_to_start")
        .and_then(Value::as_f64);
    Ok((cpu.context("`nagori run` told no time")?, elapsed))
}
