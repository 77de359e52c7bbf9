//! `nagori bench fork`: what a fork of a machine costs.

use anyhow::Context;
use clap::Args;
use nagori_machine::Machine;
use nagori_terminal::args::MachineArgs;
use nagori_terminal::numbers::{count, in_units};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::sample::Sample;
use nagori_terminal::tables::{row, table, text};
use serde_json::json;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  nagori bench fork
  nagori bench fork --touched 1024 --alive 500 --json

A checkpoint keeps the content of a machine's memory; a fork shares its pages until it stores to them. Each fork here
stores to --stored pages. Host time is never the same twice.

Time:
  A few seconds.";

/// Measure what a fork of a machine costs in time and in memory of the host.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForkArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// MiB of memory that the machine has touched.
    #[arg(long, value_name = "MIB", default_value_t = 300, value_parser = in_units::<u64>("MiB", 1..))]
    pub touched: u64,
    /// Forks that are alive at the same time.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = count::<u32>(1..=100_000))]
    pub alive: u32,
    /// Pages that each fork stores to.
    #[arg(long, value_name = "PAGES", default_value_t = 100, value_parser = count::<u64>(..))]
    pub stored: u64,
    /// One object.
    #[arg(long)]
    pub json: bool,
}

/// KiB of memory that this process has, by kind.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let number = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// Runs the command.
pub fn command(a: &ForkArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&[])?;
    let machine = Machine::new(&description).context("the machine cannot be built")?;
    let ram = machine.ram();
    let (page, bytes) = (nagori_ram::PAGE, a.touched << 20);
    anyhow::ensure!(
        bytes <= ram.len() && a.stored <= bytes / page,
        "--touched and --stored: the machine has {} MiB of memory",
        ram.len() >> 20
    );
    // Spread over memory as a guest's pages are: in runs of 2 MiB.
    let run = 2 << 20;
    let stride = (ram.len() / (bytes.div_ceil(run)).max(1) / page * page).max(run);
    let place = |n: u64| (n * page / run * stride + n * page % run).min(ram.len() - page);
    for n in 0..bytes / page {
        let words: Vec<u8> = (0..page / 8)
            .flat_map(|i| (n << 16 | i | 1).to_le_bytes())
            .collect();
        ram.write_bytes(place(n), &words)?;
    }
    let begin = Instant::now();
    let checkpoint = machine.checkpoint()?;
    let kept = begin.elapsed().as_secs_f64() * 1e3;
    let held = checkpoint.memory().held()? >> 20;
    let before = resident();
    let mut times = Vec::new();
    let mut all = Vec::new();
    for _ in 0..a.alive {
        if messages.signals().caught().is_some() {
            break;
        }
        let begin = Instant::now();
        let fork = checkpoint.fork()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        for n in 0..a.stored {
            fork.ram().write_u64(place(n), n);
        }
        all.push(fork);
    }
    let each = resident().saturating_sub(before) / (all.len() as u64).max(1);
    let alive = all.len();
    drop(all);
    let sample = Sample::of(&times).context("no fork was made")?;
    let slowest = times.iter().copied().fold(0.0, f64::max);
    if a.json {
        output::print_json(&json!({
            "memory_mib": ram.len() >> 20,
            "held_mib": held,
            "checkpoint_ms": kept,
            "fork_ms": sample.median,
            "fork_ms_sample": sample,
            "fork_ms_slowest": slowest,
            "alive": alive,
            "kib_each": each,
            "stored_pages": a.stored,
        }))?;
        return Ok(SUCCESS);
    }
    let mut t = table(["forks of a machine", "", ""]);
    row(
        &mut t,
        [
            "memory".into(),
            format!("{} MiB", ram.len() >> 20),
            format!("{held} MiB held"),
        ],
    );
    row(
        &mut t,
        ["checkpoint".into(), format!("{kept:.1} ms"), String::new()],
    );
    row(
        &mut t,
        [
            "fork".into(),
            format!("{:.2} ms", sample.median),
            format!("slowest {slowest:.2} ms"),
        ],
    );
    row(
        &mut t,
        [
            format!("{alive} alive"),
            format!("{each} KiB each"),
            format!("{} pages stored to", a.stored),
        ],
    );
    output::print(&text(&t))?;
    Ok(SUCCESS)
}
