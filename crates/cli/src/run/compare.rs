//! `nagori compare`: one program under several methods.

use super::args::CompareArgs;
use super::report::{Figures, Result as RunResult};
use super::streams::Output;
use super::{json_file, picture, write_json, How, Interrupt, Prepared};
use crate::args::{InspectArgs, PowerArgs};
use crate::output::{Exit, Messages, MEANINGLESS, SUCCESS};
use crate::plot::Picture;
use crate::sample::Sample;
use crate::tables::{duration, grouped, part, row, table, text};
use anyhow::{bail, Context};
use nagori_memtime::stats::Region;
use nagori_memtime::Method;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// A run of a method, and its seed.
pub struct Run {
    /// See `--seed`.
    pub seed: Option<u64>,
    /// Its result.
    pub result: RunResult,
}

/// A variant to compare: the machine's own controller under a method, or another memory for NVMM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variant {
    /// A delay method.
    Method(Method),
    /// A memory of NVMM.
    Model(String),
}

impl Variant {
    /// The method, if it is one.
    pub fn method(&self) -> Option<Method> {
        match self {
            Variant::Method(m) => Some(*m),
            Variant::Model(_) => None,
        }
    }

    /// What it changes in the machine's description.
    fn setting(&self) -> Option<String> {
        let model = self.model()?;
        Some(format!("memory.regions.nvmm.model={model}"))
    }

    /// The memory, if it is one.
    fn model(&self) -> Option<&str> {
        match self {
            Variant::Method(_) => None,
            Variant::Model(name) => Some(name),
        }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Variant::Method(m) => f.pad(m.name()),
            Variant::Model(name) => f.pad(name),
        }
    }
}

/// The runs of a variant, one for each seed.
pub struct Row {
    /// The variant.
    pub variant: Variant,
    /// At least one; all rows have the same seeds.
    pub runs: Vec<Run>,
}

impl Row {
    /// Whether all of its runs were complete, so that their figures can be compared.
    fn is_whole(&self) -> bool {
        self.runs.iter().all(|r| r.result.is_whole())
    }

    /// The reason, in a word, why they were not.
    pub fn flaw(&self) -> Option<&'static str> {
        let odd = self.runs.iter().find(|r| !r.result.is_whole())?;
        let problem = odd.result.problems.iter().find(|p| p.meaningless);
        Some(match (odd.result.why.is_end(), problem) {
            (true, Some(p)) => p.what,
            _ => odd.result.why.name(),
        })
    }

    /// The variant's name, with the reason.
    fn name(&self) -> String {
        match self.flaw() {
            Some(why) => format!("{} ({why})", self.variant),
            None => self.variant.to_string(),
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
    let variants = variants(a);
    check(a)?;
    let seeds = seeds(a)?;
    let machines = Machines::prepare(a, &variants, messages)?;
    let prepared_of = |v: &Variant| machines.of(v);
    let prepared = prepared_of(&variants[0]);
    let rows = run_all(&prepared_of, &variants, &seeds, a.jobs, messages)?;
    let first = &rows[0].runs[0].result;
    prepared.tell(&first.why, messages);
    first.warn(messages);
    for r in &rows {
        if let Some(why) = r.flaw() {
            messages.warning(&format!(
                "{}: not every run was whole ({why}); its run time is not compared",
                r.variant
            ));
        }
    }
    for r in rows.iter().filter(|r| r.is_whole() && rows[0].is_whole()) {
        let mut pairs = rows[0].runs.iter().zip(&r.runs);
        if pairs.any(|(a, b)| a.result.differs(&b.result)) {
            messages.warning(&format!(
                "the program did something else under {} than under {}: another output or exit code; what the runs cost is not comparable",
                r.variant, rows[0].variant
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

/// What cannot be compared is an error.
fn check(a: &CompareArgs) -> anyhow::Result<()> {
    if a.common.functional {
        bail!("--functional: without the timing model there is nothing to compare");
    }
    if a.common.devices.share.iter().any(|s| s.writable) {
        bail!("--share with rw: the runs would write the same files; share it to be read, and let the program write to /tmp");
    }
    Ok(())
}

/// The program on each machine that the variants need: machines with another memory have a cached boot of their own.
struct Machines<'a>(Vec<(Option<String>, Prepared<'a>)>);

impl<'a> Machines<'a> {
    fn prepare(
        a: &'a CompareArgs,
        variants: &[Variant],
        messages: &'a Messages,
    ) -> anyhow::Result<Self> {
        let mut machines: Vec<(Option<String>, Prepared)> = Vec::new();
        for v in variants {
            let model = v.model();
            if machines.iter().any(|(m, _)| m.as_deref() == model) {
                continue;
            }
            let set = v.setting();
            let prepared = Prepared::new(&a.common, (set.as_slice(), None), messages);
            let prepared = match model {
                Some(m) => prepared.with_context(|| format!("--memory-model {m}"))?,
                None => prepared?,
            };
            machines.push((model.map(str::to_owned), prepared));
        }
        Ok(Machines(machines))
    }

    fn of(&self, v: &Variant) -> &Prepared<'a> {
        let found = self.0.iter().find(|(m, _)| m.as_deref() == v.model());
        &found.expect("one for each variant").1
    }
}

/// The exit code: that of the first run, or of the first incomplete run.
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

/// The variants, without duplicates: the given methods, then the memories; by default all methods.
fn variants(a: &CompareArgs) -> Vec<Variant> {
    let methods = match (&a.methods, &a.memory_model) {
        (m, _) if !m.is_empty() => m.clone(),
        (_, models) if models.is_empty() => Method::ALL.to_vec(),
        _ => Vec::new(),
    };
    let mut all: Vec<Variant> = Vec::new();
    let models = a.memory_model.iter().cloned().map(Variant::Model);
    for v in methods.into_iter().map(Variant::Method).chain(models) {
        if !all.contains(&v) {
            all.push(v);
        }
    }
    all
}

/// The seed of each repetition; `None`: a run without a seed.
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

/// Makes the runs, several at a time; returns them in the order of the variants.
fn run_all<'p, 'a: 'p>(
    prepared: &(dyn Fn(&Variant) -> &'p Prepared<'a> + Sync),
    variants: &[Variant],
    seeds: &[Option<u64>],
    jobs: Option<u32>,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let signals = messages.signals();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<(&Variant, Option<u64>)> = variants
        .iter()
        .flat_map(|v| seeds.iter().map(move |s| (v, *s)))
        .collect();
    let jobs = jobs.map_or(cores, |n| n as usize).min(all.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<anyhow::Result<RunResult>>>> =
        Mutex::new(all.iter().map(|_| None).collect());
    let name = |(variant, seed): (&Variant, Option<u64>)| match seed {
        Some(seed) => format!("{variant}, seed {seed}"),
        None => variant.to_string(),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(variant, seed)) = all.get(n).filter(|_| signals.caught().is_none())
                else {
                    break;
                };
                let output = Output::new(n == 0);
                let result = prepared(variant).run(
                    &PowerArgs::default(),
                    How {
                        method: variant.method(),
                        seed,
                    },
                    (&InspectArgs::default(), None),
                    Interrupt::Ends,
                    output,
                    messages,
                );
                if result.as_ref().is_ok_and(|r| r.why.is_end()) {
                    messages.note(&format!("{}: done", name((variant, seed))));
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
    for variant in variants {
        let mut runs = Vec::new();
        for seed in seeds {
            let result = results.next().flatten().context("a run was given up")?;
            let result = result.with_context(|| format!("with {}", name((variant, *seed))))?;
            runs.push(Run {
                seed: *seed,
                result,
            });
        }
        rows.push(Row {
            variant: variant.clone(),
            runs,
        });
    }
    if rows.is_empty() {
        bail!("neither a method nor a memory is given");
    }
    Ok(rows)
}

/// The results of an interrupted comparison: times of the completed runs, and no ratios.
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

/// Run times of a row, relative to those of the first row with the same seeds; `None` if a run was
/// incomplete.
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
        Some(part(&r.report, Region::Nvmm).reads as f64)
    }),
    ("writes", Form::Count, |r| {
        Some(part(&r.report, Region::Nvmm).writes as f64)
    }),
    ("read ns", Form::Real(1), |r| {
        part(&r.report, Region::Nvmm).read_ns
    }),
    ("write ns", Form::Real(1), |r| {
        part(&r.report, Region::Nvmm).write_ns
    }),
    ("ACT/REQ", Form::Real(3), |r| {
        part(&r.report, Region::Nvmm).act_per_req
    }),
    ("BANK_PARA", Form::Real(3), |r| {
        part(&r.report, Region::Nvmm).bank_para
    }),
    ("DRAM requests", Form::Count, |r| {
        let d = part(&r.report, Region::Dram);
        Some((d.reads + d.writes) as f64)
    }),
];

/// The kind of the rows.
fn heading(rows: &[Row]) -> &'static str {
    let methods = rows.iter().filter(|r| r.variant.method().is_some()).count();
    match methods {
        n if n == rows.len() => "method",
        0 => "memory",
        _ => "method or memory",
    }
}

fn as_table(rows: &[Row]) -> String {
    let repeats = rows.first().map_or(1, |r| r.runs.len());
    if repeats > 1 {
        return repeated(rows, repeats);
    }
    let head = [heading(rows), "guest time", "run time"].into_iter();
    let mut t = table(head.chain(COLUMNS.iter().map(|c| c.0)));
    for r in rows {
        let ratio = normalised(rows, r).and_then(|v| v.first().copied());
        let time = r.runs.first().map_or(0, |r| r.result.report.elapsed_ps);
        let start = [r.name(), duration(time), Form::Real(3).shown(ratio)];
        row(&mut t, start.into_iter().chain(figures(r)));
    }
    text(&t)
}

/// The other figures of a row, averaged over its runs.
fn figures(r: &Row) -> impl Iterator<Item = String> + '_ {
    COLUMNS.iter().map(|(_, form, f)| form.shown(r.mean(f)))
}

/// Tables of several runs of each variant.
fn repeated(rows: &[Row], repeats: usize) -> String {
    let mut out = format!(
        "{repeats} runs of each {}; means with their 95 % intervals (Student's t), run times compared seed by seed\n\n",
        heading(rows)
    );
    let longest = rows.iter().flat_map(Row::times).fold(0.0, f64::max);
    let (unit, name) = unit(longest);
    let mut t = table([
        heading(rows).to_string(),
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
    let (mut runs, mut methods, mut memories) = (Vec::new(), Vec::new(), Vec::new());
    for r in rows {
        let ratios = normalised(rows, r);
        for (i, run) in r.runs.iter().enumerate() {
            let mut v = run.result.json();
            v["seed"] = json!(run.seed);
            v["complete"] = json!(run.result.is_whole());
            if let Some(m) = r.variant.model() {
                v["memory_model"] = json!(m);
            }
            v["run_time"] = json!(ratios.as_ref().map(|v| v[i]));
            runs.push(v);
        }
        let sample = |values: &[f64]| Sample::of(values).map(|s| s.json(values));
        let mut row = json!({
            "complete": r.is_whole(),
            "guest_time_ps": sample(&r.times()),
            "run_time": ratios.as_deref().and_then(sample),
        });
        match &r.variant {
            Variant::Method(m) => {
                row["method"] = json!(m);
                methods.push(row);
            }
            Variant::Model(m) => {
                row["memory_model"] = json!(m);
                memories.push(row);
            }
        }
    }
    let seeds: Vec<u64> = seeds.iter().flatten().copied().collect();
    let mut value = json!({"program": program, "seeds": seeds, "runs": runs, "methods": methods});
    if !memories.is_empty() {
        value["memory_models"] = json!(memories);
    }
    value
}

#[cfg(test)]
mod tests;
