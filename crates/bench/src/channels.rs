//! What threads gain on a memory of several channels (`nagori bench mem`).

use crate::scale::Scale;
use anyhow::Context;
use nagori_memcfg::Memory;
use nagori_memtime::{MemoryModel, Ps};
use nagori_memtrace::drive::{self, Mode, Options, Outcome};
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use nagori_terminal::tables;
use serde::Serialize;
use std::time::Instant;

const MEMORY: &str = "ddr4";
const CHANNELS: u32 = 4;
/// A request this often is somewhat less than four channels can serve.
const INTERVAL: Ps = Ps(5000);

/// Elapsed time with one thread and with several.
#[derive(Debug, Clone, Serialize)]
pub struct Gain {
    workload: &'static str,
    memory: String,
    channels: u32,
    threads: u32,
    requests: u64,
    /// Elapsed, of the best runs.
    one_requests_per_second: f64,
    several_requests_per_second: f64,
    /// Median over pairs of runs: 2 is half the time.
    gain: f64,
}

/// Runs alternately with one thread and with several, so that other work on the host affects both.
pub fn gains(scale: &Scale) -> anyhow::Result<Vec<Gain>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let threads = threads.clamp(2, CHANNELS);
    let memory = Memory::load(MEMORY, &[format!("controller.channels={CHANNELS}")])?;
    let paced = Mode::Paced { interval: INTERVAL };
    let saturated = Mode::Saturated { per_clock: 1 };
    [
        ("70/30, one in 5 ns", paced),
        ("70/30, saturated", saturated),
    ]
    .into_iter()
    .map(|(workload, mode)| gain(scale, &memory, workload, mode, threads))
    .collect()
}

fn gain(
    scale: &Scale,
    memory: &Memory,
    workload: &'static str,
    mode: Mode,
    threads: u32,
) -> anyhow::Result<Gain> {
    let count = scale.requests(1_000_000);
    let (mut one, mut several, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.repeats(5) {
        let (a, expected) = play(scale, memory, mode, 1, count)?;
        let (b, outcome) = play(scale, memory, mode, threads, count)?;
        if outcome != expected {
            anyhow::bail!("{threads} threads have other results than one (a defect of Nagori)");
        }
        gains.push(a / b);
        one.push(a);
        several.push(b);
    }
    let least = |v: &[f64]| v.iter().copied().reduce(f64::min).context("no run");
    gains.sort_by(f64::total_cmp);
    Ok(Gain {
        workload,
        memory: memory.name.clone(),
        channels: CHANNELS,
        threads,
        requests: count,
        one_requests_per_second: count as f64 / least(&one)?,
        several_requests_per_second: count as f64 / least(&several)?,
        gain: gains[gains.len() / 2],
    })
}

/// One run: elapsed seconds and the result.
fn play(
    scale: &Scale,
    memory: &Memory,
    mode: Mode,
    threads: u32,
    count: u64,
) -> anyhow::Result<(f64, Outcome)> {
    let mut model = memory.build()?;
    let mut source = Generator::new(Spec {
        pattern: Pattern::Random,
        count,
        base: 0,
        span: model.capacity(),
        bytes: 64,
        writes: 0.3,
        gap: 0,
        seed: 1,
    })?;
    let options = Options {
        threads,
        ..Options::new(mode)
    };
    let goes_on = &mut |_: &mut dyn MemoryModel, _| Ok(scale.signals.caught().is_none());
    let before = Instant::now();
    let outcome = drive::run(model.as_mut(), &mut source, options, goes_on)?;
    Ok((before.elapsed().as_secs_f64(), outcome))
}

/// The table.
pub fn text(gains: &[Gain]) -> String {
    let thousands = |v: f64| format!("{:.0}", v / 1e3);
    let mut t = tables::table([
        "threads",
        "memory",
        "channels",
        "one thread, k req/s elapsed",
        "threads",
        "these",
        "gain",
    ]);
    for g in gains {
        let cells = vec![
            g.workload.into(),
            g.memory.clone(),
            g.channels.to_string(),
            thousands(g.one_requests_per_second),
            g.threads.to_string(),
            thousands(g.several_requests_per_second),
            format!("{:.2}", g.gain),
        ];
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}
