//! `nagori bench start`: time until a program starts.

use super::child;
use anyhow::Context;
use clap::Args;
use nagori_terminal::args::CacheArgs;
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::sample::Sample;
use nagori_terminal::tables::{row, table, text};
use serde_json::{json, Value};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  nagori bench start
  nagori bench start --runs 20 --json

Processor time is that of the `nagori` process from its start to the first instruction of the program;
elapsed time is that of the whole command, with a program that does nothing. The boot is made before, if
there is none. Host time is never the same twice: give more --runs until the interval is as short as you need.

Time:
  About half a minute of processor time with 9 runs of each of three kinds.";

/// Measure the time from the command to the first instruction of a program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StartArgs {
    /// Runs of each kind; the median counts, and the mean has a 95 % confidence interval.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = count::<u32>(1..))]
    pub runs: u32,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// A list of rows.
    #[arg(long)]
    pub json: bool,
}

/// A case: its name, and arguments of `nagori run`.
const KINDS: &[(&str, &[&str])] = &[
    ("busybox, smallest root file system", &["--rootfs", "none"]),
    ("Debian's root file system", &[]),
    (
        "the same, with the program on NVMM",
        &["--placement", "nvmm"],
    ),
];

/// Runs the command.
pub fn command(a: &StartArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for (name, options) in KINDS {
        // Boots if necessary.
        once(a, options)?;
        let mut all = Vec::new();
        for _ in 0..a.runs {
            all.push(once(a, options)?);
        }
        let sample = |pick: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = all.iter().map(pick).collect();
            Sample::of(&values).context("a run without a time")
        };
        rows.push((*name, sample(|r| r.0)?, sample(|r| r.1)?));
        messages.note(&format!("{name}: done"));
    }
    if a.json {
        let all: Vec<Value> = rows
            .iter()
            .map(|(what, cpu, elapsed)| {
                json!({
                    "what": what,
                    "cpu_seconds_to_start": cpu.median,
                    "elapsed_seconds": elapsed.median,
                    "cpu_seconds_to_start_sample": cpu,
                    "elapsed_seconds_sample": elapsed,
                })
            })
            .collect();
        output::print_json(&json!(all))?;
        return Ok(SUCCESS);
    }
    let mut t = table([
        "start of a program",
        "CPU s to its start",
        "mean ± 95 %",
        "elapsed s, all",
        "mean ± 95 %",
    ]);
    for (name, cpu, elapsed) in rows {
        let of = |s: &Sample| [format!("{:.3}", s.median), s.shown(3)];
        let cells = of(&cpu).into_iter().chain(of(&elapsed));
        row(&mut t, std::iter::once(name.to_string()).chain(cells));
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}

/// Processor time to the program's start, and elapsed time, of a run.
fn once(a: &StartArgs, options: &[&str]) -> anyhow::Result<(f64, f64)> {
    let begin = Instant::now();
    let v = child::run(&a.cache, options, &["true"])?;
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = v
        .pointer("/host/cpu_seconds_to_start")
        .and_then(Value::as_f64);
    Ok((cpu.context("`nagori run` told no time")?, elapsed))
}
