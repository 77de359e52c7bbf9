//! `nagori compare`: one program under several methods.

use super::args::CompareArgs;
use super::ports::Output;
use super::report::{real, Figures, Result as RunResult};
use super::{picture, write_json, Prepared};
use crate::args::InspectArgs;
use crate::output::{Exit, Messages};
use crate::plot;
use crate::signals::Signals;
use crate::tables::{duration, grouped, row, table, text};
use anyhow::{bail, Context};
use nagori_memtime::stats::Region;
use nagori_memtime::Method;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// A run under a method.
pub struct Row {
    /// The method.
    pub method: Method,
    /// What came of it.
    pub result: RunResult,
}

/// Runs the command.
pub fn command(a: &CompareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    if let Some(path) = &a.plot {
        plot::check_name(path)?;
    }
    let mut methods = a.methods.clone();
    let mut seen = Vec::new();
    methods.retain(|m| {
        !seen.contains(m) && {
            seen.push(*m);
            true
        }
    });
    if a.common.functional {
        bail!("--functional: without the timing model there is nothing to compare");
    }
    if a.common.devices.share.iter().any(|s| s.writable) {
        bail!("--share with rw: the runs would write the same files; share it to be read, and let the program write to /tmp");
    }
    let prepared = Prepared::new(&a.common, messages)?;
    let signals = Signals::catch()?;
    let rows = run_all(&prepared, &methods, a.jobs, &signals, messages)?;
    let first = &rows[0];
    prepared.tell(&first.result.why, messages);
    let odd = rows.iter().find(|r| {
        r.result.why.exit() != first.result.why.exit() || r.result.sums != first.result.sums
    });
    if let Some(r) = odd {
        messages.warning(&format!(
            "the program did something else under {} than under {}: another output or exit code; what the runs cost is not comparable",
            r.method, first.method
        ));
    }
    if let Some(path) = &a.plot {
        let name = a.common.program.join(" ");
        picture::draw(path, &name, &rows)?;
        messages.note(&format!("the plot is {}", path.display()));
    }
    match &a.json {
        Some(path) => write_json(path, &as_json(&a.common.program, &rows))?,
        None => eprint!("\n{}", as_table(&rows)),
    }
    Ok(first.result.why.exit())
}

/// The runs, several at a time, in the order of the methods.
fn run_all(
    prepared: &Prepared,
    methods: &[Method],
    jobs: Option<u32>,
    signals: &Signals,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.map_or(cores, |n| n as usize).min(methods.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<anyhow::Result<RunResult>>>> =
        Mutex::new(methods.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(method) = methods.get(n) else { break };
                let output = Output::new(n == 0);
                let result = prepared.run(
                    Some(*method),
                    &InspectArgs::default(),
                    signals,
                    output,
                    messages,
                );
                if result.is_ok() {
                    messages.note(&format!("{method}: done"));
                }
                if let Ok(mut all) = results.lock() {
                    all[n] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    let mut rows = Vec::new();
    for (method, result) in methods.iter().zip(results) {
        let result = result.context("a run was given up")?;
        let result = result.with_context(|| format!("with method {method}"))?;
        rows.push(Row {
            method: *method,
            result,
        });
    }
    if rows.is_empty() {
        bail!("no method is given");
    }
    Ok(rows)
}

/// Run time, where that of the first row is 1.
pub fn normalised(rows: &[Row], r: &Row) -> Option<f64> {
    let one = rows.first()?.result.report.elapsed_ps;
    (one > 0).then(|| r.result.report.elapsed_ps as f64 / one as f64)
}

type Cell = (&'static str, fn(&RunResult) -> String);

const COLUMNS: &[Cell] = &[
    ("CPI", |r| real(Figures::of(&r.report).cpi(), 3)),
    ("waiting", |r| {
        let share = Figures::of(&r.report).stalled();
        share.map_or("-".into(), |s| format!("{:.1} %", 100.0 * s))
    }),
    ("NVMM reads", |r| {
        grouped(r.report.memory.region(Region::Nvmm).counters.reads)
    }),
    ("writes", |r| {
        grouped(r.report.memory.region(Region::Nvmm).counters.writes)
    }),
    ("read ns", |r| {
        real(
            r.report.memory.region(Region::Nvmm).read_latency.mean_ns(),
            1,
        )
    }),
    ("write ns", |r| {
        real(
            r.report.memory.region(Region::Nvmm).write_latency.mean_ns(),
            1,
        )
    }),
    ("ACT/REQ", |r| {
        real(
            r.report.memory.region(Region::Nvmm).counters.act_per_req(),
            3,
        )
    }),
    ("BANK_PARA", |r| {
        real(r.report.memory.region(Region::Nvmm).counters.bank_para(), 3)
    }),
    ("DRAM requests", |r| {
        grouped(r.report.memory.region(Region::Dram).counters.requests())
    }),
];

fn as_table(rows: &[Row]) -> String {
    let head = ["method", "guest time", "run time"].into_iter();
    let mut t = table(head.chain(COLUMNS.iter().map(|c| c.0)));
    for r in rows {
        let start = [
            r.method.to_string(),
            duration(r.result.report.elapsed_ps),
            real(normalised(rows, r), 3),
        ];
        row(
            &mut t,
            start
                .into_iter()
                .chain(COLUMNS.iter().map(|c| c.1(&r.result))),
        );
    }
    text(&t)
}

fn as_json(program: &[String], rows: &[Row]) -> Value {
    let runs: Vec<Value> = rows
        .iter()
        .map(|r| {
            let mut v = r.result.json();
            v["run_time"] = json!(normalised(rows, r));
            v
        })
        .collect();
    json!({"program": program, "runs": runs})
}
