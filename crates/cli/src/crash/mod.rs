//! `nagori crash`: contents of NVMM after a power cut from which software does not recover.

pub mod args;
mod names;
mod replay;

use crate::args::engine;
use crate::boot::Expose;
use crate::run::tell_of_files;
use anyhow::{anyhow, bail, Context};
use args::{CrashArgs, CrashCommand, ExploreArgs, MergeArgs, ModeKind, OracleKind, ResultArgs};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_crash::{
    below, explore, junit, sarif, Budget, Domain, Finding, Frame, Progress, Report, Work,
};
pub use nagori_session::crash::Checker;
use nagori_session::crash::{domain_of, holds_stores, Plan, Prepared, Recovering};
use nagori_session::image::Source;
use nagori_session::{Caller, Options, Rootfs, Session};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::signals;
use nagori_terminal::tables::counted;
use names::Names;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Exit code with findings.
const FINDINGS: Exit = Exit(1);
/// Why stores of a program may not be stores to NVMM.
const PAGE_CACHE: &str =
    "what a program stores to a mapping of /dev/pmem0, or of a file on a file system without DAX, \
    stays in the page cache, in DRAM, until the kernel writes it back (docs/nvmm.md)";
/// Exit code of errors.
const ERROR: Exit = Exit(2);

/// Runs the command.
pub fn command(a: &CrashArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let done = match &a.command {
        Some(CrashCommand::Replay(r)) => replay::command(r, messages),
        Some(CrashCommand::Merge(m)) => merge(m, messages),
        None => run(&a.explore, messages),
    };
    match done {
        Err(e) if signals::interrupted(&e).is_none() && !output::is_broken_pipe(&e) => {
            messages.error(&e);
            if a.command.is_none() {
                let e = &a.explore;
                let commands = [&e.setup, &e.workload, &e.recover, &e.check];
                let words = commands
                    .into_iter()
                    .flatten()
                    .flat_map(|c| c.split_whitespace());
                tell_of_files(words, None, &e.file, &e.devices, messages);
            }
            Ok(ERROR)
        }
        done => done,
    }
}

/// Where images are from, kernel modules, and the root file system.
pub fn software(a: &ExploreArgs) -> (Source, Vec<String>, Rootfs) {
    let rootfs = match a.rootfs.as_str() {
        "none" => Rootfs::Smallest,
        name => Rootfs::Named(name.into()),
    };
    (a.cache.source(), a.modules.modules.clone(), rootfs)
}

/// A machine that has booted.
fn boot<'a>(a: &ExploreArgs, caller: &'a dyn Caller) -> anyhow::Result<Session<'a>> {
    let mut machine = a.machine.choice();
    machine.set.extend(a.nvmm.map(Expose::setting));
    if a.mode == ModeKind::AsBuilt {
        let holds = holds_stores(&machine.resolve(&[])?.config);
        // What is in the controller's queue has to be known, and what is in a hart.
        match a.domain {
            Some(Domain::None) => machine.set.push("memory.persistence_domain=none".into()),
            Some(Domain::Adr) if holds => machine.set.push("memory.persistence_domain=adr".into()),
            Some(Domain::Eadr) if holds => {
                machine.set.push("memory.persistence_domain=eadr".into());
            }
            Some(Domain::Gpf { lines, .. }) if holds => machine.set.extend([
                "memory.persistence_domain=gpf".into(),
                format!("memory.gpf_lines={lines}"),
            ]),
            _ => {}
        }
        if holds || a.domain == Some(Domain::None) {
            machine.set.push("memory.track_persistence=true".into());
        }
    }
    let (images, modules, rootfs) = software(a);
    let options = Options {
        machine,
        devices: a.devices.devices(),
        nvmm: None,
        placement: Default::default(),
        rootfs,
        modules,
        images,
        keep_boot: true,
        engine: engine(a.engine),
        rtc: None,
        markers: true,
    };
    Ok(Session::boot(options, caller)?)
}

/// What is explored, on a machine.
fn plan(a: &ExploreArgs, session: &Session<'_>) -> anyhow::Result<Plan> {
    let given = |c: &Option<String>, what: &str| {
        let c = c.clone();
        c.with_context(|| format!("{what} is missing"))
    };
    Ok(Plan {
        setup: a.setup.clone(),
        workload: given(&a.workload, "--workload")?,
        recover: given(&a.recover, "--recover")?,
        check: a.check.clone(),
        checker: a.checker.clone(),
        files: { a.file.iter() }
            .map(|f| (f.file.clone(), f.path.clone()))
            .collect(),
        model: a.model(domain_of(session)),
        points: a.points(),
        from_reset: a.from_reset,
        limit: a.timeout,
        recovery_limit: a.hang,
    })
}

/// The files of results, which are opened before the work begins.
struct Files {
    json: Option<Staged>,
    junit: Option<Staged>,
    sarif: Option<Staged>,
}

impl Files {
    fn open(a: &ResultArgs) -> anyhow::Result<Files> {
        let open = |path: &Option<std::path::PathBuf>, option: &'static str| {
            let file = path.as_deref().map(Staged::create);
            file.transpose().context(option)
        };
        if let Some(dir) = &a.findings {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("--findings {}", dir.display()))?;
        }
        Ok(Files {
            json: open(&a.json, "--json")?,
            junit: open(&a.junit, "--junit")?,
            sarif: open(&a.sarif, "--sarif")?,
        })
    }
}

fn run(a: &ExploreArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let files = Files::open(&a.results)?;
    let bar = bar(messages);
    let found = search(a, None, messages, &|text| bar.set_message(text));
    bar.finish_and_clear();
    let Found { report, workload } = found?;
    let exit = finish(
        &a.results,
        files,
        (json!(own_args()), workload),
        &report,
        messages,
    )?;
    match report.signal {
        Some(n) => Err(nagori_session::Interrupted(n).into()),
        None => Ok(exit),
    }
}

/// The report for a caller that is no terminal.
pub fn report(
    a: &ExploreArgs,
    checker: Option<&Checker<'_>>,
    caller: &dyn Caller,
) -> anyhow::Result<Value> {
    let Found { report, workload } = search(a, checker, caller, &|_| ())?;
    let mut value = serde_json::to_value(&report)?;
    value["workload"] = workload;
    Ok(value)
}

/// What a search has found, and what its workload did.
struct Found {
    report: Report,
    workload: Value,
}

/// Searches; `show` is told how far it is.
fn search(
    a: &ExploreArgs,
    checker: Option<&Checker<'_>>,
    caller: &dyn Caller,
    show: &(dyn Fn(String) + Sync),
) -> anyhow::Result<Found> {
    let mut names = Names::new(a)?;
    let begin = Instant::now();
    let session = boot(a, caller)?;
    let prepared = Prepared::new(&session, plan(a, &session)?)?;
    names.add_kernel(prepared.base().fork()?.ram());
    let recorded = prepared.record()?;
    let stores = recorded.stores;
    if stores.sum() == 0 && !a.allow_empty {
        bail!("--workload stores nothing to NVMM, so a power cut cannot leave anything that matters; {PAGE_CACHE} \
            (--allow-empty: no error)");
    }
    caller.note(&format!(
        "workload: {} instructions, {} steps on NVMM, {} points, {} of them different",
        recorded.retired,
        recorded.steps,
        recorded.points,
        recorded.cuts.len()
    ));
    let subject = Recovering::new(&prepared, &recorded)?.checked_by(checker);
    let mut notes = Vec::new();
    match subject.without_cut() {
        Ok(false) if stores.sum() > 0 => notes.push(
            "recovery and check read nothing of what the workload stores to NVMM: no content of it can make them fail"
                .to_string(),
        ),
        // The search then ends at once, and the report has what the workload itself has shown.
        Err(e) if e.interrupted().is_some() => {}
        done => {
            done?;
        }
    }
    if stores.programs == 0 && stores.kernel > 0 {
        let n = stores.kernel;
        notes.push(format!(
            "all stores of instructions to NVMM ({n}) are the kernel's; {PAGE_CACHE}"
        ));
    }
    for note in &notes {
        caller.warning(note);
    }
    let jobs = a.jobs.map_or_else(cores, |n| n as usize);
    let work = Work {
        cuts: &recorded.cuts,
        references: match a.oracle {
            Some(OracleKind::Prefix) => &recorded.references,
            None => &[],
        },
        sites: &recorded.sites,
        resolve: &names,
        shard: a.shard,
    };
    let budget = Budget {
        recoveries: a.budget_states,
        exhaustive_lines: a.exhaustive as usize,
        beyond_failures: a.beyond_failures,
        random: a.random,
        seed: a.seed,
        recuts: a.recuts,
        ..Budget::default()
    };
    let searched = Instant::now();
    let limit = a.budget_time.map(|s| begin + Duration::from_secs_f64(s));
    let mut out_of_time = false;
    let mut progress = |p: &Progress| {
        show(format!(
            "{} cuts, {} contents tried by {} recoveries, {} waiting, {} failed",
            p.cuts, p.contents, p.recoveries, p.waiting, p.failures
        ));
        out_of_time |= limit.is_some_and(|l| Instant::now() >= l);
        let failed = a.fail_fast && p.failures > 0;
        !out_of_time && !failed && caller.interrupted().is_none()
    };
    let report = explore(&work, &subject, &budget, jobs, &mut progress);
    let mut report = report.map_err(|e| anyhow!(e))?;
    report.signal = caller.interrupted();
    report.notes = notes;
    report.add_warnings(&recorded.warnings, &recorded.sites, &names);
    let took = searched.elapsed().as_secs_f64();
    let rate = report.recoveries as f64 / took.max(1e-9);
    caller.note(&format!(
        "{} recoveries in {took:.1} s ({rate:.0} a second; {} instructions in each, {} more spared)",
        report.recoveries,
        subject.executed() / report.recoveries.max(1),
        subject.spared
    ));
    if out_of_time {
        caller.warning("the search ended by --budget-time: the report says what was not covered");
    }
    let workload = json!({
        "instructions": recorded.retired,
        "steps": recorded.steps,
        "points": recorded.points,
        "cuts": recorded.cuts.len(),
        "labels": recorded.labels,
        "stores": {
            "programs": stores.programs,
            "kernel": stores.kernel,
            "devices": stores.devices,
        },
    });
    Ok(Found { report, workload })
}

/// Reports of shards become one.
fn merge(a: &MergeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let files = Files::open(&a.results)?;
    let mut parts = Vec::new();
    let mut own: Option<(Value, Value)> = None;
    for path in &a.reports {
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let value: Value =
            serde_json::from_slice(&text).with_context(|| format!("{shown} is no JSON"))?;
        let of = (
            json!(without_shard(&value["args"])),
            value["workload"].clone(),
        );
        let part: Report = serde_json::from_value(value)
            .with_context(|| format!("{shown} is no report of `nagori crash --json`"))?;
        parts.push(part);
        match &own {
            None => own = Some(of),
            Some(own) if own.1 == of.1 => {}
            Some(_) => bail!("{shown} is of another workload than the first report"),
        }
    }
    let report = nagori_crash::merge(&parts).map_err(|e| anyhow!(e))?;
    let own = own.context("there is no report")?;
    let exit = finish(&a.results, files, own, &report, messages)?;
    match report.ended_early() {
        Some(why) if report.signal.is_some() && exit == SUCCESS => {
            bail!("a shard's report is of no use: {why}; run that shard again")
        }
        _ => Ok(exit),
    }
}

/// Arguments of a shard, as those of the whole.
fn without_shard(args: &Value) -> Vec<&Value> {
    let args = args.as_array().map_or(&[][..], |a| a);
    let is = |v: &Value, what: &str| v.as_str() == Some(what);
    let shard = |v: &Value| v.as_str().is_some_and(|s| s.starts_with("--shard="));
    let behind = |n: usize| n > 0 && is(&args[n - 1], "--shard");
    { args.iter().enumerate() }
        .filter(|(n, v)| !is(v, "--shard") && !shard(v) && !behind(*n))
        .map(|(_, v)| v)
        .collect()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn bar(messages: &Messages) -> ProgressBar {
    if messages.quiet() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    let template = "{spinner} {msg}  {elapsed}";
    bar.set_style(ProgressStyle::with_template(template).expect("a template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The arguments of this command, by which `replay` does the same again.
fn own_args() -> Vec<String> {
    let mut all = std::env::args();
    all.by_ref().find(|a| a == "crash");
    all.collect()
}

/// Writes the results: of a command with these arguments, and of this workload.
fn finish(
    a: &ResultArgs,
    files: Files,
    (args, workload): (Value, Value),
    report: &Report,
    messages: &Messages,
) -> anyhow::Result<Exit> {
    if let Some(dir) = &a.findings {
        for f in &report.findings {
            let value = json!({"args": args, "finding": f});
            write(&dir.join(format!("{}.json", f.id)), &value)?;
        }
    }
    let shown = files.json.as_ref().is_some_and(Staged::is_stdout);
    if let Some(file) = files.junit {
        file.put(junit(report).as_bytes()).context("--junit")?;
    }
    if let Some(file) = files.sarif {
        let roots = source_roots(a.source_root.as_deref())?;
        if !roots.is_empty() && !any_below(report, &roots) {
            messages.warning("--source-root: no source file of the report is below it");
        }
        let text = format!("{:#}\n", sarif(report, &roots));
        file.put(text.as_bytes()).context("--sarif")?;
    }
    if let Some(file) = files.json {
        let mut value = serde_json::to_value(report)?;
        value["args"] = args;
        value["workload"] = workload;
        file.put(format!("{value:#}\n").as_bytes())
            .context("--json")?;
    }
    if !shown {
        show(report)?;
    }
    if report.findings.is_empty() {
        return Ok(SUCCESS);
    }
    if a.findings.is_none() {
        messages.note("--findings DIR writes a file of each finding, for `nagori crash replay`");
    }
    Ok(FINDINGS)
}

/// The names of the directory at the top of the sources.
fn source_roots(given: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    let Some(given) = given else {
        return Ok(Vec::new());
    };
    let mut all = vec![std::path::absolute(given).context("--source-root")?];
    // Compilers write down a path with its links, or without.
    all.extend(given.canonicalize());
    Ok(all)
}

/// Whether a source file of a report is below the top.
fn any_below(report: &Report, roots: &[PathBuf]) -> bool {
    let findings = report.findings.iter();
    let stores = findings.flat_map(|f| f.stores.iter().map(|s| &s.frames).chain([&f.cut_frames]));
    let all = stores.chain(report.warnings.iter().map(|w| &w.frames));
    let mut sources = all.flatten().filter_map(|f| f.source.as_ref());
    sources.any(|(file, _)| below(file, roots).is_some())
}

fn write(path: &Path, value: &Value) -> anyhow::Result<()> {
    Staged::create(path)?.put(format!("{value:#}\n").as_bytes())
}

/// Most frames of a stack that are shown.
const FRAMES: usize = 8;

/// The name of a value as reports have it.
fn word(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_string()
}

/// A number of contents, which may be far beyond what can be counted.
fn count(contents: f64) -> String {
    if contents < 1e12 {
        format!("{contents}")
    } else {
        format!("{contents:.1e}")
    }
}

/// The name of the function whose store a finding is about; without one, of the function in which the power is cut.
fn function(f: &Finding) -> String {
    let frames = f.stores.first().map_or(&f.cut_frames, |s| &s.frames);
    let role = if f.stores.is_empty() {
        "cut in"
    } else {
        "store in"
    };
    match frames.first() {
        None => "cut at the beginning".into(),
        Some(Frame {
            symbol: Some(s), ..
        }) => format!("{role} {}", s.name),
        Some(frame) => format!("{role} a function without a name, at {:#x}", frame.pc),
    }
}

/// Findings by function, in the order of the first one of each.
fn by_function(findings: &[Finding]) -> Vec<(String, Vec<&Finding>)> {
    let mut groups: Vec<(String, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        let name = function(finding);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(finding),
            None => groups.push((name, vec![finding])),
        }
    }
    groups
}

fn show_finding(text: &mut String, f: &Finding) {
    use std::fmt::Write;
    let _ = writeln!(text, "finding {}: {} ({} times)", f.id, f.message, f.count);
    for s in &f.stores {
        let change = word(s.change);
        let _ = writeln!(
            text,
            "  {change}: store to {:#x} by hart {}",
            s.paddr, s.hart
        );
        for f in s.frames.iter().take(FRAMES) {
            let _ = writeln!(text, "    {}", names::frame(f));
        }
    }
    for line in f.text.lines() {
        let _ = writeln!(text, "  | {line}");
    }
}

/// The report for people.
fn show(report: &Report) -> anyhow::Result<()> {
    use std::fmt::Write;
    let mut text = String::new();
    for (function, findings) in by_function(&report.findings) {
        let contents: u64 = findings.iter().map(|f| f.count).sum();
        let found = counted(findings.len() as u64, "finding");
        let contents = counted(contents, "content");
        let _ = writeln!(text, "{function}: {found}, {contents}");
        for f in findings {
            show_finding(&mut text, f);
        }
    }
    for w in &report.warnings {
        let place = w.frames.first().map(names::frame).unwrap_or_default();
        let _ = writeln!(
            text,
            "warning: {}{} at {place} ({})",
            word(w.kind),
            w.sink
                .map(|s| format!(" ({})", word(s)))
                .unwrap_or_default(),
            counted(w.count, "time")
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(why) = report.ended_early().filter(|_| report.signal.is_some()) {
        let _ = writeln!(text, "{why}: what follows is of what was tried until then");
    }
    let c = &report.coverage;
    let _ = writeln!(
        text,
        "{}; {}; of {} {} covered completely; contents: {} of {} covered",
        counted(report.findings.len() as u64, "finding"),
        counted(report.recoveries, "recovery"),
        counted(c.cuts, "cut"),
        c.complete,
        count(c.states_covered),
        count(c.states)
    );
    if let Some(r) = &report.recuts {
        let _ = writeln!(
            text,
            "second cuts: {} of {} that store cut, {} from that; of {} {} covered completely",
            r.recorded,
            counted(r.storing, "recovery"),
            counted(r.recoveries, "recovery"),
            counted(r.cuts, "cut"),
            r.complete
        );
    }
    let left: std::collections::BTreeSet<String> = report
        .cuts
        .iter()
        .flat_map(|c| c.left.iter().map(word))
        .collect();
    if !left.is_empty() {
        let left: Vec<String> = left.into_iter().collect();
        let _ = writeln!(text, "not covered because of: {}", left.join(", "));
    }
    if c.unstable > 0 {
        let _ = writeln!(
            text,
            "not the same again: {}; so nothing is complete",
            counted(c.unstable, "recovery")
        );
    }
    output::print(&text)
}
