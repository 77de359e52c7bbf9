//! `nagori compare`: one program under several methods.

use super::args::CompareArgs;
use super::report::{Figures, Result as RunResult};
use super::streams::Output;
use super::{json_file, picture, write_json, Interrupt, Prepared};
use crate::args::{InspectArgs, PowerArgs};
use crate::output::{Exit, Messages, MEANINGLESS, SUCCESS};
use crate::plot::Picture;
use crate::sample::Sample;
use crate::tables::{duration, grouped, row, table, text};
use anyhow::{bail, Context};
use nagori_memtime::stats::Region;
use nagori_memtime::Method;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// A run of a method, and what its randomness followed from.
pub struct Run {
    /// See `--seed`.
    pub seed: Option<u64>,
    /// What came of it.
    pub result: RunResult,
}

/// The runs under a method, one for each seed.
pub struct Row {
    /// The method.
    pub method: Method,
    /// At least one; all rows have the same seeds.
    pub runs: Vec<Run>,
}

impl Row {
    /// Whether all of its runs were whole, so that their figures can be compared.
    fn is_whole(&self) -> bool {
        self.runs.iter().all(|r| r.result.is_whole())
    }

    /// Why not, in a word.
    pub fn flaw(&self) -> Option<&'static str> {
        let odd = self.runs.iter().find(|r| !r.result.is_whole())?;
        let problem = odd.result.problems.iter().find(|p| p.meaningless);
        Some(match (odd.result.why.is_end(), problem) {
            (true, Some(p)) => p.what,
            _ => odd.result.why.name(),
        })
    }

    /// The method's name, with what is wrong with its runs.
    fn name(&self) -> String {
        match self.flaw() {
            Some(why) => format!("{} ({why})", self.method),
            None => self.method.to_string(),
        }
    }

    /// Guest times in picoseconds.
    fn times(&self) -> Vec<f64> {
        let time = |r: &Run| r.result.report.elapsed_ps as f64;
        self.runs.iter().map(time).collect()
    }

    /// Mean of a figure over the runs that have it.
    pub fn mean(&self, f: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|r| f(&r.result)).collect();
        Sample::of(&values).map(|s| s.mean)
    }
}

/// Runs the command.
pub fn command(a: &CompareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = a.plot.as_deref().map(Picture::create).transpose()?;
    let json = json_file(a.json.as_deref())?;
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
    let seeds = seeds(a)?;
    let prepared = Prepared::new(&a.common, messages)?;
    let rows = run_all(&prepared, &methods, &seeds, a.jobs, messages)?;
    let first = &rows[0].runs[0].result;
    prepared.tell(&first.why, messages);
    first.warn(messages);
    for r in &rows {
        if let Some(why) = r.flaw() {
            messages.warning(&format!(
                "{}: not every run was whole ({why}); its run time is not compared",
                r.method
            ));
        }
    }
    for r in rows.iter().filter(|r| r.is_whole() && rows[0].is_whole()) {
        let mut pairs = rows[0].runs.iter().zip(&r.runs);
        let differ = |(a, b): &(&Run, &Run)| {
            a.result.exit() != b.result.exit() || a.result.sums != b.result.sums
        };
        if pairs.any(|p| differ(&p)) {
            messages.warning(&format!(
                "the program did something else under {} than under {}: another output or exit code; what the runs cost is not comparable",
                r.method, rows[0].method
            ));
            break;
        }
    }
    let shown = || eprint!("\n{}", as_table(&rows));
    match json {
        Some(file) => write_json(file, &as_json(&a.common.program, &seeds, &rows), shown)?,
        None => shown(),
    }
    if let Some(picture) = picture {
        let name = a.common.program.join(" ");
        let bytes = picture::draw(picture.format(), &name, &rows)?;
        picture.finish(&bytes, messages)?;
    }
    Ok(exit(&rows))
}

/// The exit code: that of the first run, unless a run that was not whole has another one to tell.
fn exit(rows: &[Row]) -> Exit {
    let mut broken = rows.iter().flat_map(|r| &r.runs);
    match broken.find(|r| !r.result.is_whole()) {
        None => rows[0].runs[0].result.exit(),
        Some(r) => match r.result.exit() {
            SUCCESS => MEANINGLESS,
            e => e,
        },
    }
}

/// What the randomness of each repetition follows from; `None`: a run as without seeds.
fn seeds(a: &CompareArgs) -> anyhow::Result<Vec<Option<u64>>> {
    let n = u64::from(a.repeats);
    match a.common.seed {
        None if n == 1 => Ok(vec![None]),
        seed => {
            let first = seed.unwrap_or(1);
            let last = first.checked_add(n - 1).context(
                "--seed: the seeds of the repetitions follow it, and must be below 2^64",
            )?;
            Ok((first..=last).map(Some).collect())
        }
    }
}

/// The runs, several at a time, in the order of the methods.
fn run_all(
    prepared: &Prepared,
    methods: &[Method],
    seeds: &[Option<u64>],
    jobs: Option<u32>,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let signals = messages.signals();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<(Method, Option<u64>)> = methods
        .iter()
        .flat_map(|m| seeds.iter().map(|s| (*m, *s)))
        .collect();
    let jobs = jobs.map_or(cores, |n| n as usize).min(all.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<anyhow::Result<RunResult>>>> =
        Mutex::new(all.iter().map(|_| None).collect());
    let name = |(method, seed): (Method, Option<u64>)| match seed {
        Some(seed) => format!("{method}, seed {seed}"),
        None => method.to_string(),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(method, seed)) = all.get(n).filter(|_| signals.caught().is_none())
                else {
                    break;
                };
                let output = Output::new(n == 0);
                let result = prepared.run(
                    &PowerArgs::default(),
                    (Some(method), seed),
                    &InspectArgs::default(),
                    Interrupt::Ends,
                    output,
                    messages,
                );
                if result.as_ref().is_ok_and(|r| r.why.is_end()) {
                    messages.note(&format!("{}: done", name((method, seed))));
                }
                if let Ok(mut all) = results.lock() {
                    all[n] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    if let Err(e) = signals.check() {
        let names: Vec<String> = all.iter().map(|run| name(*run)).collect();
        messages.note(&unfinished(&names, &results));
        return Err(e);
    }
    let mut results = results.into_iter();
    let mut rows = Vec::new();
    for method in methods {
        let mut runs = Vec::new();
        for seed in seeds {
            let result = results.next().flatten().context("a run was given up")?;
            let result =
                result.with_context(|| format!("with method {}", name((*method, *seed))))?;
            runs.push(Run {
                seed: *seed,
                result,
            });
        }
        rows.push(Row {
            method: *method,
            runs,
        });
    }
    if rows.is_empty() {
        bail!("no method is given");
    }
    Ok(rows)
}

/// What an interrupted comparison has come to: times of the runs that have ended, and no ratios.
fn unfinished(names: &[String], results: &[Option<anyhow::Result<RunResult>>]) -> String {
    let (mut ended, mut others) = (Vec::new(), Vec::new());
    for (name, result) in names.iter().zip(results) {
        match result {
            Some(Ok(r)) if r.is_whole() => {
                ended.push(format!("{name} ({})", duration(r.report.elapsed_ps)));
            }
            _ => others.push(name.clone()),
        }
    }
    let list = |of: Vec<String>| match of.is_empty() {
        true => "none".into(),
        false => of.join(", "),
    };
    format!(
        "there is no comparison: finished: {}; not finished: {}",
        list(ended),
        list(others)
    )
}

/// Run times of a row, where those of the first row with the same seeds are 1; `None` where a run
/// was not whole.
pub fn normalised(rows: &[Row], r: &Row) -> Option<Vec<f64>> {
    let one = rows.first()?;
    let times = one.times();
    let possible = one.is_whole() && r.is_whole() && times.iter().all(|t| *t > 0.0);
    possible.then(|| {
        r.times()
            .iter()
            .zip(times)
            .map(|(t, one)| t / one)
            .collect()
    })
}

/// How a figure is shown.
#[derive(Clone, Copy)]
enum Form {
    Count,
    Percent,
    Real(usize),
}

impl Form {
    fn shown(self, v: Option<f64>) -> String {
        let Some(v) = v else { return "-".into() };
        match self {
            Form::Count => grouped(v.round() as u64),
            Form::Percent => format!("{:.1} %", 100.0 * v),
            Form::Real(digits) => format!("{v:.digits$}"),
        }
    }
}

type Cell = (&'static str, Form, fn(&RunResult) -> Option<f64>);

const COLUMNS: &[Cell] = &[
    ("CPI", Form::Real(3), |r| Figures::of(&r.report).cpi()),
    ("waiting", Form::Percent, |r| {
        Figures::of(&r.report).stalled()
    }),
    ("NVMM reads", Form::Count, |r| {
        Some(r.report.memory.region(Region::Nvmm).counters.reads as f64)
    }),
    ("writes", Form::Count, |r| {
        Some(r.report.memory.region(Region::Nvmm).counters.writes as f64)
    }),
    ("read ns", Form::Real(1), |r| {
        r.report.memory.region(Region::Nvmm).read_latency.mean_ns()
    }),
    ("write ns", Form::Real(1), |r| {
        r.report.memory.region(Region::Nvmm).write_latency.mean_ns()
    }),
    ("ACT/REQ", Form::Real(3), |r| {
        r.report.memory.region(Region::Nvmm).counters.act_per_req()
    }),
    ("BANK_PARA", Form::Real(3), |r| {
        r.report.memory.region(Region::Nvmm).counters.bank_para()
    }),
    ("DRAM requests", Form::Count, |r| {
        Some(r.report.memory.region(Region::Dram).counters.requests() as f64)
    }),
];

fn as_table(rows: &[Row]) -> String {
    let repeats = rows.first().map_or(1, |r| r.runs.len());
    if repeats > 1 {
        return repeated(rows, repeats);
    }
    let head = ["method", "guest time", "run time"].into_iter();
    let mut t = table(head.chain(COLUMNS.iter().map(|c| c.0)));
    for r in rows {
        let ratio = normalised(rows, r).and_then(|v| v.first().copied());
        let time = r.runs.first().map_or(0, |r| r.result.report.elapsed_ps);
        let start = [r.name(), duration(time), Form::Real(3).shown(ratio)];
        row(&mut t, start.into_iter().chain(figures(r)));
    }
    text(&t)
}

/// The other figures of a row, means of its runs.
fn figures(r: &Row) -> impl Iterator<Item = String> + '_ {
    COLUMNS.iter().map(|(_, form, f)| form.shown(r.mean(f)))
}

/// Tables of several runs each.
fn repeated(rows: &[Row], repeats: usize) -> String {
    let mut out = format!(
        "{repeats} runs of each method; means with their 95 % intervals (Student's t), run times compared seed by seed\n\n"
    );
    let longest = rows.iter().flat_map(Row::times).fold(0.0, f64::max);
    let (unit, name) = unit(longest);
    let mut t = table([
        "method".to_string(),
        format!("guest time, {name}"),
        "median".into(),
        "min".into(),
        "max".into(),
        "run time".into(),
        "median".into(),
        "min".into(),
        "max".into(),
    ]);
    let cells = |values: Option<Vec<f64>>, unit: f64| -> Vec<String> {
        match values.and_then(|v| Sample::of(&v)).map(|s| s.scaled(unit)) {
            None => vec!["-".into(); 4],
            Some(s) => {
                let rest = [s.median, s.min, s.max].map(|v| format!("{v:.3}"));
                std::iter::once(s.shown(3)).chain(rest).collect()
            }
        }
    };
    for r in rows {
        let times = cells(Some(r.times()), unit);
        let ratios = cells(normalised(rows, r), 1.0);
        row(&mut t, std::iter::once(r.name()).chain(times).chain(ratios));
    }
    out += &text(&t);
    out.push('\n');
    let head = std::iter::once("means of the runs");
    let mut t = table(head.chain(COLUMNS.iter().map(|c| c.0)));
    for r in rows {
        row(&mut t, std::iter::once(r.name()).chain(figures(r)));
    }
    out + &text(&t)
}

/// The unit of a time in picoseconds.
fn unit(ps: f64) -> (f64, &'static str) {
    let units = [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")];
    let found = units.into_iter().find(|u| ps >= u.0);
    found.unwrap_or((1.0, "ps"))
}

fn as_json(program: &[String], seeds: &[Option<u64>], rows: &[Row]) -> Value {
    let (mut runs, mut methods) = (Vec::new(), Vec::new());
    for r in rows {
        let ratios = normalised(rows, r);
        for (i, run) in r.runs.iter().enumerate() {
            let mut v = run.result.json();
            v["seed"] = json!(run.seed);
            v["complete"] = json!(run.result.is_whole());
            v["run_time"] = json!(ratios.as_ref().map(|v| v[i]));
            runs.push(v);
        }
        let sample = |values: &[f64]| Sample::of(values).map(|s| s.json(values));
        methods.push(json!({
            "method": r.method,
            "complete": r.is_whole(),
            "guest_time_ps": sample(&r.times()),
            "run_time": ratios.as_deref().and_then(sample),
        }));
    }
    let seeds: Vec<u64> = seeds.iter().flatten().copied().collect();
    json!({"program": program, "seeds": seeds, "runs": runs, "methods": methods})
}

#[cfg(test)]
mod tests;
