//! `nagori compare`: one program under several methods.

use super::args::CompareArgs;
use super::output::{self, Files};
use super::report::Result as RunResult;
use super::streams::{Output, Stdout};
use super::{json_file, picture, write_json, How, Interrupt, Prepared};
use crate::args::{InspectArgs, PowerArgs, TimingMethod};
use crate::axes::{self, Axis};
use crate::figures::Figures;
use crate::sampling::interval_json;
use anyhow::{bail, Context};
use nagori_memtime::stats::Region;
use nagori_memtime::Method;
use nagori_session::problems::Nvmm;
use nagori_session::sampling::Interval;
use nagori_terminal::output::{Exit, Messages, MEANINGLESS, SUCCESS};
use nagori_terminal::plot::Picture;
use nagori_terminal::sample::Sample;
use nagori_terminal::tables::{duration, grouped, part, row, table, text};
use serde::Serialize;
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

/// A variant to compare: the machine's own NVMM by a method, or another memory for NVMM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variant {
    /// A delay method, or epochs.
    Method(TimingMethod),
    /// A memory of NVMM.
    Model(String),
}

impl Variant {
    /// The delay method, if it is one.
    pub fn delay(&self) -> Option<Method> {
        match self {
            Variant::Method(m) => m.delay(),
            Variant::Model(_) => None,
        }
    }

    /// The option that asks for it.
    pub fn option(&self) -> String {
        match self {
            Variant::Method(m) => format!("--method {m}"),
            Variant::Model(name) => format!("--memory-model {name}"),
        }
    }

    /// The setting of the machine that it needs, if that is not the one of all others.
    pub fn setting(&self) -> Option<String> {
        match self {
            Variant::Method(m) => m.delay().is_none().then(|| m.setting()),
            Variant::Model(name) => Some(super::behind_nvmm(name)),
        }
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
            Variant::Method(m) => m.fmt(f),
            Variant::Model(name) => f.pad(name),
        }
    }
}

/// A variant, on a machine with some settings of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The variant.
    pub variant: Variant,
    /// Values of the varied keys, in their order.
    pub at: Vec<(String, String)>,
}

impl Case {
    /// The varied settings, as options name them.
    fn settings(&self) -> Vec<String> {
        self.at.iter().map(|(k, v)| format!("{k}={v}")).collect()
    }

    /// Everything that its machine needs and others do not.
    fn machine(&self) -> MachineSettings {
        (self.variant.setting(), self.settings())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = self.variant.to_string();
        for s in self.settings() {
            text += &format!(", {s}");
        }
        f.pad(&text)
    }
}

/// The runs of a variant, one for each seed.
pub struct Row {
    /// The variant, and what is varied.
    pub case: Case,
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

    /// What NVMM was to it and to another row, if to all of their runs it was the same.
    fn same_nvmm<'a>(&'a self, other: &Row) -> Option<&'a Nvmm> {
        let mut pairs = self.runs.iter().zip(&other.runs);
        let same = pairs.all(|(a, b)| a.result.nvmm == b.result.nvmm);
        self.runs.first().filter(|_| same).map(|r| &r.result.nvmm)
    }

    /// Whether the program did something else than in the runs of another row.
    fn does_something_else(&self, other: &Row) -> bool {
        let mut pairs = self.runs.iter().zip(&other.runs);
        self.is_whole() && other.is_whole() && pairs.any(|(a, b)| a.result.differs(&b.result))
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
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let json = json_file(a.common.json.as_deref())?;
    let files = Files::create(a)?;
    let mut stdout = Stdout::of(a.common.output.as_deref())?;
    let axes = axes::read(&a.vary)?;
    let cases = cases(a, &axes);
    check(a)?;
    let seeds = seeds(a)?;
    let machines = Machines::prepare(a, &cases, messages)?;
    let prepared_of = |c: &Case| machines.of(c);
    let prepared = prepared_of(&cases[0]);
    let profile = a.profile || a.report.is_some();
    let rows = run_all(
        &prepared_of,
        (&cases, &seeds, profile),
        a.jobs,
        &mut stdout,
        messages,
    )?;
    stdout.finish()?;
    let first = &rows[0].runs[0].result;
    prepared.tell(&first.why, messages);
    let vain = vain(&rows);
    // Else that is said of all rows together.
    first.warn(messages, |p| vain.is_empty() || !p.is_of_nvmm());
    for r in &rows {
        if let Some(why) = r.flaw() {
            messages.warning(&format!(
                "{}: not every run was whole ({why}); its run time is not compared",
                r.case
            ));
        }
    }
    let other = rows.iter().find(|r| r.does_something_else(&rows[0]));
    if let Some(r) = other {
        messages.warning(&format!(
            "the program did something else under {} than under {}: another output or exit code; what the runs cost is \
                not comparable",
            r.case, rows[0].case
        ));
    }
    for problem in &vain {
        messages.warning(&problem.message);
    }
    eprint!("\n{}", as_table(&rows));
    if a.common.full {
        for r in &rows {
            eprint!("\n== {} ==\n{}", r.case, r.runs[0].result.full.0);
        }
    }
    let mut value = as_json(&a.common.program, &seeds, &rows);
    value["problems"] = json!(vain);
    value["about"] = about(a, &machines, &rows);
    if let Some(file) = json {
        write_json(file, &value)?;
    }
    files.write(&value, &output::table(&rows, &axes), messages)?;
    if let Some(picture) = picture {
        let name = a.common.program.join(" ");
        picture.draw(&picture::chart(&name, &rows), messages)?;
    }
    Ok(match exit(&rows) {
        SUCCESS if a.common.strict && (other.is_some() || !vain.is_empty()) => MEANINGLESS,
        e => e,
    })
}

/// What cannot be compared is an error.
fn check(a: &CompareArgs) -> anyhow::Result<()> {
    if a.common.functional {
        bail!("--functional: without the timing model there is nothing to compare");
    }
    if a.common.sampling.bbv.is_some() {
        bail!("--bbv: vectors are the same under all methods: use `nagori run`");
    }
    if a.common.devices.share.iter().any(|s| s.writable) {
        bail!("--share with rw: the runs would write the same files; share it to be read, and let the program write to \
            /tmp");
    }
    Ok(())
}

/// Where a result came from: versions, command, image, and the machine of the first row with the origins of its values.
fn about(a: &CompareArgs, machines: &Machines<'_>, rows: &[Row]) -> Value {
    let session = &machines.of(&rows[0].case).session;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": std::env::args().collect::<Vec<_>>(),
        "image": session.image_key(),
        "placement": format!("{:?}", a.common.placement).to_lowercase(),
        "machine": session.description().to_json(),
    })
}

/// What decides on which machine a case runs: the memory in place of NVMM's, and other settings.
type MachineSettings = (Option<String>, Vec<String>);

/// The program on each machine that the cases need, by its settings: each machine has a cached boot of its own.
struct Machines<'a>(Vec<(MachineSettings, Prepared<'a>)>);

impl<'a> Machines<'a> {
    fn prepare(a: &'a CompareArgs, cases: &[Case], messages: &'a Messages) -> anyhow::Result<Self> {
        // What is wrong with the last one is said before the first one boots.
        for c in cases {
            let mut choice = a.common.machine.choice();
            choice.set.extend(c.variant.setting());
            choice.set.extend(c.settings());
            let resolved = choice.resolve(&[]);
            resolved.with_context(|| format!("with {c}"))?;
        }
        let mut machines = Vec::<(MachineSettings, Prepared)>::new();
        for c in cases {
            let setting = c.machine();
            if machines.iter().any(|(s, _)| *s == setting) {
                continue;
            }
            let own = (&[&c.variant][..], &setting.1[..], None);
            let mut prepared = Prepared::set(&a.common, own, messages)?;
            prepared.same_windows();
            machines.push((setting, prepared));
        }
        Ok(Machines(machines))
    }

    fn of(&self, c: &Case) -> &Prepared<'a> {
        let setting = c.machine();
        let found = self.0.iter().find(|(s, _)| *s == setting);
        &found.expect("one for each variant").1
    }
}

/// The exit code: that of the first run, or of the first incomplete run, or with --strict of one with a problem.
fn exit(rows: &[Row]) -> Exit {
    let all = || rows.iter().flat_map(|r| &r.runs);
    match all().find(|r| !r.result.is_whole()) {
        None => match rows[0].runs[0].result.exit() {
            SUCCESS if all().any(|r| r.result.fails_strictly()) => MEANINGLESS,
            e => e,
        },
        Some(r) => match r.result.exit() {
            SUCCESS => MEANINGLESS,
            e => e,
        },
    }
}

/// Every variant with every combination of varied values.
fn cases(a: &CompareArgs, axes: &[Axis<'_>]) -> Vec<Case> {
    let all = axes::combinations(axes);
    let with = |v: Variant| {
        let case = move |values: &Vec<&str>| Case {
            variant: v.clone(),
            at: { axes.iter().zip(values) }
                .map(|(a, v)| (a.key.to_string(), v.to_string()))
                .collect(),
        };
        all.iter().map(case).collect::<Vec<_>>()
    };
    variants(a).into_iter().flat_map(with).collect()
}

/// The variants, without duplicates: the given methods, then the memories; by default all methods.
fn variants(a: &CompareArgs) -> Vec<Variant> {
    let methods = match (&a.common.methods, &a.common.memory_models) {
        (m, _) if !m.is_empty() => m.clone(),
        (_, models) if models.is_empty() => Method::ALL.map(TimingMethod::Delay).to_vec(),
        _ => Vec::new(),
    };
    let mut all: Vec<Variant> = Vec::new();
    let models = a.common.memory_models.iter().cloned().map(Variant::Model);
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

/// Makes the runs, several at a time; returns them in the order of the cases.
fn run_all<'p, 'a: 'p>(
    prepared: &(dyn Fn(&Case) -> &'p Prepared<'a> + Sync),
    (cases, seeds, profile): (&[Case], &[Option<u64>], bool),
    jobs: Option<u32>,
    stdout: &mut Stdout,
    messages: &Messages,
) -> anyhow::Result<Vec<Row>> {
    let signals = messages.signals();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<(&Case, Option<u64>)> = cases
        .iter()
        .flat_map(|v| seeds.iter().map(move |s| (v, *s)))
        .collect();
    let jobs = jobs.map_or(cores, |n| n as usize).min(all.len());
    let next = AtomicUsize::new(0);
    // The program's output is that of the first run.
    let stdout = Mutex::new(Some(stdout));
    let results: Mutex<Vec<Option<anyhow::Result<RunResult>>>> =
        Mutex::new(all.iter().map(|_| None).collect());
    let name = |(case, seed): (&Case, Option<u64>)| match seed {
        Some(seed) => format!("{case}, seed {seed}"),
        None => case.to_string(),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(case, seed)) = all.get(n).filter(|_| signals.caught().is_none()) else {
                    break;
                };
                let place = stdout.lock().ok().filter(|_| n == 0);
                let output = Output::new(place.and_then(|mut p| p.take()));
                let result = prepared(case).run(
                    &PowerArgs::default(),
                    How {
                        method: case.variant.delay(),
                        seed,
                        profile: profile && seed == seeds[0],
                    },
                    (&InspectArgs::default(), None),
                    Interrupt::Ends,
                    output,
                    messages,
                );
                if result.as_ref().is_ok_and(|r| r.why.is_end()) {
                    messages.note(&format!("{}: done", name((case, seed))));
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
    for case in cases {
        let mut runs = Vec::new();
        for seed in seeds {
            let result = results.next().flatten().context("a run was given up")?;
            let result = result.with_context(|| format!("with {}", name((case, *seed))))?;
            runs.push(Run {
                seed: *seed,
                result,
            });
        }
        rows.push(Row {
            case: case.clone(),
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
    let list = |of: Vec<String>| {
        if of.is_empty() {
            "none".into()
        } else {
            of.join(", ")
        }
    };
    format!(
        "there is no comparison: finished: {}; not finished: {}",
        list(ended),
        list(others)
    )
}

/// Rows that are not compared, since nothing that distinguishes them from the first one has mattered.
#[derive(Debug, Serialize)]
struct Vain {
    what: &'static str,
    /// Their variants.
    rows: Vec<String>,
    /// For human readers.
    message: String,
}

/// All rows that are not compared, by what NVMM was to them.
fn vain(rows: &[Row]) -> Vec<Vain> {
    let mut all: Vec<(&Nvmm, &Row, Vec<String>)> = Vec::new();
    for r in rows {
        let first = base(rows, r);
        let both = r.is_whole() && first.is_whole() && !std::ptr::eq(r, first);
        let Some(nvmm) = both.then(|| r.same_nvmm(first)).flatten() else {
            continue;
        };
        let alike =
            |(n, b, _): &&mut (&Nvmm, &Row, Vec<String>)| *n == nvmm && std::ptr::eq(*b, first);
        match all.iter_mut().find(alike) {
            Some((_, _, names)) => names.push(r.case.to_string()),
            None => all.push((nvmm, first, vec![r.case.to_string()])),
        }
    }
    let vain = all.into_iter().map(|(nvmm, first, rows)| {
        let hint = match nvmm {
            Nvmm::Unused => {
                ": nothing was read from it or written to it; --placement puts the program there"
            }
            _ => "",
        };
        let (names, first) = (rows.join(", "), &first.case);
        Vain {
            what: "not-compared",
            message: format!("{names}: not compared with {first}, since in both {nvmm}{hint}"),
            rows,
        }
    });
    vain.collect()
}

/// The first row on a machine with equal varied values, from which a row differs by its variant alone.
fn base<'r>(rows: &'r [Row], r: &'r Row) -> &'r Row {
    let alike = |o: &&Row| o.case.at == r.case.at;
    rows.iter().find(alike).unwrap_or(r)
}

/// Why there is no run time of a row that is whole, in a few words.
pub fn in_vain(rows: &[Row], r: &Row) -> Option<&'static str> {
    let first = base(rows, r);
    let nvmm = match std::ptr::eq(first, r) {
        // It is the measure of the others, if there is one to measure; other machines can be.
        true if rows.iter().any(|o| o.case.at != r.case.at) => return None,
        true => {
            let others = rows.iter().filter(|o| !std::ptr::eq(*o, first));
            let all = others.map(|o| o.same_nvmm(first));
            all.collect::<Option<Vec<_>>>()?.first().copied()?
        }
        false => r.same_nvmm(first)?,
    };
    Some(match nvmm {
        Nvmm::Unused => "NVMM not used",
        _ => "the same NVMM",
    })
}

/// The name of a row, with the reason why it has no run time.
fn name(rows: &[Row], r: &Row) -> String {
    match r.flaw().or_else(|| in_vain(rows, r)) {
        Some(why) => format!("{} ({why})", r.case),
        None => r.case.to_string(),
    }
}

/// The run time of a sampled row, relative to that of the first row, if there is one.
fn sampled(rows: &[Row], r: &Row) -> Option<Interval> {
    let of = |r: &Row| match &r.runs[..] {
        [one] => one.result.sampled.clone(),
        _ => None,
    };
    normalised(rows, r)?;
    if std::ptr::eq(rows.first()?, r) {
        of(r).map(|_| Interval::exact(1.0))
    } else {
        of(r)?.over(&*of(rows.first()?)?)
    }
}

/// A ratio with its interval. A difference that is smaller is not shown as one.
fn shown(i: Interval) -> String {
    match i.half {
        Some(0.0) => format!("{:.3}", i.value),
        Some(h) if (i.value - 1.0).abs() <= h => format!("1 within {h:.3}"),
        Some(h) => format!("{:.3} ± {h:.3}", i.value),
        None => format!("{:.3}, ± ?", i.value),
    }
}

/// Run times of a row, relative to those of the first row with the same seeds; `None` if a run was
/// incomplete, or if a ratio would mean nothing.
pub fn normalised(rows: &[Row], r: &Row) -> Option<Vec<f64>> {
    let one = rows.first()?;
    let times = one.times();
    let possible = one.is_whole() && r.is_whole() && times.iter().all(|t| *t > 0.0);
    let possible = possible && in_vain(rows, r).is_none();
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
    ("to medium ns", Form::Real(1), |r| {
        part(&r.report, Region::Nvmm).medium_ns
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
    let methods = rows
        .iter()
        .filter(|r| r.case.variant.model().is_none())
        .count();
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
        let ratio = match sampled(rows, r) {
            Some(i) => shown(i),
            None => Form::Real(3).shown(ratio),
        };
        let start = [name(rows, r), duration(time), ratio];
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
    let (unit, unit_name) = unit(longest);
    let mut t = table([
        heading(rows).to_string(),
        format!("guest time, {unit_name}"),
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
        row(
            &mut t,
            std::iter::once(name(rows, r)).chain(times).chain(ratios),
        );
    }
    out += &text(&t);
    out.push('\n');
    let head = std::iter::once("means of the runs");
    let mut t = table(head.chain(COLUMNS.iter().map(|c| c.0)));
    for r in rows {
        row(&mut t, std::iter::once(name(rows, r)).chain(figures(r)));
    }
    out + &text(&t)
}

/// The unit of a time in picoseconds.
fn unit(ps: f64) -> (f64, &'static str) {
    let units = [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")];
    let found = units.into_iter().find(|u| ps >= u.0);
    found.unwrap_or((1.0, "ps"))
}

/// The varied values of a row, by their keys.
fn varied(r: &Row) -> Value {
    let all = r.case.at.iter().map(|(k, v)| (k.clone(), json!(v)));
    Value::Object(all.collect())
}

fn as_json(program: &[String], seeds: &[Option<u64>], rows: &[Row]) -> Value {
    let (mut runs, mut methods, mut memories) = (Vec::new(), Vec::new(), Vec::new());
    for r in rows {
        let ratios = normalised(rows, r);
        for (i, run) in r.runs.iter().enumerate() {
            let mut v = run.result.json();
            v["seed"] = json!(run.seed);
            v["complete"] = json!(run.result.is_whole());
            if let Some(m) = r.case.variant.model() {
                v["memory_model"] = json!(m);
            }
            v["run_time"] = json!(ratios.as_ref().map(|v| v[i]));
            if !r.case.at.is_empty() {
                v["vary"] = varied(r);
            }
            runs.push(v);
        }
        let sample = |values: &[f64]| Sample::of(values).map(|s| s.json(values));
        let mut row = json!({
            "complete": r.is_whole(),
            "not_compared": in_vain(rows, r),
            "guest_time_ps": sample(&r.times()),
            "run_time": ratios.as_deref().and_then(sample),
        });
        if let Some(i) = sampled(rows, r) {
            row["run_time_sampled"] = interval_json(i);
        }
        if !r.case.at.is_empty() {
            row["vary"] = varied(r);
        }
        let waiting = &r.runs[0].result.functions;
        if !waiting.is_empty() {
            row["waiting"] = json!(waiting);
        }
        match &r.case.variant {
            Variant::Method(m) => {
                row["method"] = json!(m.to_string());
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
