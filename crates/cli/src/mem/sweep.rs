//! `nagori mem sweep`: a grid of runs, one tidy table.

use crate::axes::{self, Axis};
use crate::mem::args::SweepArgs;
use crate::mem::memory;
use crate::mem::report::Report;
use crate::mem::run::{ignored_times, mode_name, options, play, Trace};
use anyhow::{bail, Context};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_memtrace::Error;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::table::{Form, Kind, Table};
use nagori_terminal::output::{self, Exit, Messages, SIGNAL, SUCCESS};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

/// The first columns; the varied keys follow.
pub const NAMES: &[&str] = &["memory", "trace", "mode"];

/// A result column.
type Column = (&'static str, fn(&Report) -> Option<String>);

/// The result columns.
pub const COLUMNS: &[Column] = &[
    ("requests", |r| Some(r.outcome.requests.to_string())),
    ("reads", |r| Some(r.outcome.reads.to_string())),
    ("writes", |r| Some(r.outcome.writes.to_string())),
    ("unaligned", |r| Some(r.outcome.unaligned.to_string())),
    ("cycles", |r| Some(r.outcome.cycles.to_string())),
    ("simulated_seconds", |r| {
        Some(r.simulated_seconds.to_string())
    }),
    ("bandwidth_bytes_per_s", |r| real(r.bandwidth_bytes_per_s)),
    ("row_hit_rate", |r| real(r.row_hit_rate)),
    ("read_latency_avg_ns", |r| real(r.read_latency_avg_ns)),
    ("read_latency_p50_ns", |r| {
        real(r.outcome.read_latency.p50_ns)
    }),
    ("read_latency_p99_ns", |r| {
        real(r.outcome.read_latency.p99_ns)
    }),
    ("read_latency_max_ns", |r| {
        real(r.outcome.read_latency.max_ns)
    }),
    ("write_latency_avg_ns", |r| real(r.write_latency_avg_ns)),
    ("write_latency_p99_ns", |r| {
        real(r.outcome.write_latency.p99_ns)
    }),
    ("energy_pj", |r| real(r.total_energy())),
];

/// Those that are whole numbers.
const COUNTS: &[&str] = &["requests", "reads", "writes", "unaligned", "cycles"];

/// The columns of --cpu-time, in which equal runs differ.
pub const CPU_COLUMNS: &[Column] = &[
    ("cpu_seconds", |r| Some(r.cpu_seconds.to_string())),
    ("requests_per_cpu_second", |r| {
        real(r.requests_per_cpu_second)
    }),
];

fn real(v: Option<f64>) -> Option<String> {
    v.map(|v| v.to_string())
}

/// One combination.
#[derive(Debug, Clone)]
struct Point<'a> {
    memory: &'a str,
    trace: &'a str,
    /// Values of the varied keys, in their order.
    values: Vec<&'a str>,
}

fn points<'a>(a: &'a SweepArgs, axes: &[Axis<'a>]) -> Vec<Point<'a>> {
    let mut all = Vec::new();
    for memory in &a.memory {
        for trace in &a.trace {
            let with = |values| Point {
                memory,
                trace,
                values,
            };
            all.extend(axes::combinations(axes).into_iter().map(with));
        }
    }
    all
}

/// Runs the command.
pub fn command(a: &SweepArgs, messages: &Messages) -> anyhow::Result<Exit> {
    if a.trace.iter().any(|t| t == "-") {
        bail!("--trace -: standard input can be read once only; give a file");
    }
    options(&a.play)?;
    let axes = axes::read(&a.vary)?;
    let points = points(a, &axes);
    let settings = |p: &Point| -> Vec<String> {
        let varied = axes
            .iter()
            .zip(&p.values)
            .map(|(a, v)| format!("{}={v}", a.key));
        a.set.iter().cloned().chain(varied).collect()
    };
    // Errors in a description are reported before the work begins.
    for p in &points {
        memory::load_and_warn(p.memory, &settings(p), messages)
            .with_context(|| describe(p, &axes))?;
    }
    let signals = messages.signals();
    let to = a.output.as_deref().map(Staged::create).transpose();
    let to = to.context("--output")?;
    let bar = if messages.quiet() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(points.len() as u64)
    };
    bar.set_style(
        ProgressStyle::with_template("{bar:32} {pos}/{len} runs  {elapsed}").expect("a template"),
    );
    let jobs = match a.jobs {
        Some(n) => n as usize,
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let results: Vec<Mutex<Option<anyhow::Result<Report>>>> =
        points.iter().map(|_| Mutex::new(None)).collect();
    let one = |p: &Point| -> anyhow::Result<Report> {
        let memory = memory::load(p.memory, &settings(p))?;
        let trace = Trace::open(p.trace, &a.play, &memory)?;
        let mut model = memory.model()?;
        play(
            &memory,
            p.trace,
            trace,
            (&a.play, 1),
            model.as_mut(),
            &mut |_, _| Ok(signals.caught().is_none() && !stop.load(Ordering::Relaxed)),
        )
    };
    std::thread::scope(|s| {
        for _ in 0..jobs.min(points.len()) {
            s.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(p) = points.get(i) else { break };
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let result = one(p).with_context(|| describe(p, &axes));
                if result.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                if let Ok(mut slot) = results[i].lock() {
                    *slot = Some(result);
                }
                bar.inc(1);
            });
        }
    });
    bar.finish_and_clear();
    if let Some(signal) = signals.caught() {
        messages.note("interrupted; nothing is written");
        return Ok(Exit(SIGNAL + signal));
    }
    let mut reports = Vec::new();
    let mut stopped = None;
    for r in results {
        match r.into_inner().ok().flatten() {
            Some(Ok(r)) => reports.push(r),
            Some(Err(e)) if is_interrupted(&e) => stopped = Some(e),
            Some(Err(e)) => return Err(e),
            None => {}
        }
    }
    if let Some(e) = stopped {
        return Err(e);
    }
    for trace in &a.trace {
        let of_trace = points.iter().zip(&reports).find(|(p, _)| p.trace == trace);
        if of_trace.is_some_and(|(_, r)| r.ignored_times) {
            messages.note(&ignored_times(trace));
        }
    }
    let table = table(a, &axes, &points, &reports);
    match (to, &a.output) {
        (Some(file), Some(path)) => {
            file.put(&table.file(Form::of(path))?).context("--output")?;
        }
        _ => output::print(&table.csv())?,
    }
    Ok(SUCCESS)
}

fn is_interrupted(e: &anyhow::Error) -> bool {
    e.chain()
        .any(|c| matches!(c.downcast_ref(), Some(Error::Interrupted)))
}

fn describe(p: &Point, axes: &[Axis]) -> String {
    let mut text = format!("memory {}, trace {}", p.memory, p.trace);
    for (a, v) in axes.iter().zip(&p.values) {
        text += &format!(", {}={v}", a.key);
    }
    text
}

fn table(a: &SweepArgs, axes: &[Axis], points: &[Point], reports: &[Report]) -> Table {
    let cpu = if a.cpu_time { CPU_COLUMNS } else { &[] };
    let columns = || COLUMNS.iter().chain(cpu);
    let names = NAMES.iter().copied().chain(axes.iter().map(|a| a.key));
    let kind = |name: &str| {
        if COUNTS.contains(&name) {
            Kind::Count
        } else {
            Kind::Real
        }
    };
    let head = { names.map(|n| (n.to_string(), Kind::Text)) }
        .chain(columns().map(|c| (c.0.to_string(), kind(c.0))));
    let mut out = Table::new(head.collect());
    let mode = mode_name(a.play.mode());
    for (p, r) in points.iter().zip(reports) {
        let names = [p.memory, p.trace, &mode].into_iter();
        let names = names.chain(p.values.iter().copied()).map(str::to_string);
        let values = columns().map(|c| (c.1)(r).unwrap_or_default());
        out.push(names.chain(values));
    }
    out.with_numbers()
}
