//! Runs a machine with this terminal as its console to its end, as the command line requests.

use crate::args::{RunArgs, StatsFormat};
use crate::console::{self, Console};
use crate::host::Host;
use crate::perfmap;
use crate::profiling::Profiling;
use crate::remote;
use crate::sampling::Vectors;
use crate::trace::{BusTrace, Traced, Tracer};
use anyhow::{bail, Context};
use nagori_config::Machine as Description;
use nagori_isa::Extensions;
use nagori_machine::{Machine, Report, DEFAULT_SKEW};
use nagori_platform::loader::{Plan, Symbols};
use nagori_session::devices::Devices;
use nagori_session::drive::Terminal;
use nagori_session::guest::{self, RunServices};
use nagori_session::problems::{self, Asked, Problem};
use nagori_session::sampling::{self, Sampled};
use nagori_session::{End, Job};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, MEANINGLESS, SUCCESS};
use nagori_terminal::tables;
use serde_json::json;
use std::path::Path;

/// This program's exit code for the end of a machine's run.
pub fn exit(end: End) -> Exit {
    match end {
        End::Off(code) => Exit(u8::try_from(code).unwrap_or(output::TOO_LARGE)),
        End::Limit => output::LIMIT,
        End::Stuck | End::Time => output::STUCK,
        End::Signal(n) => Exit(output::SIGNAL.saturating_add(n)),
        End::Quit | End::Saved | End::PowerCut => output::SUCCESS,
        End::Restart => Exit(1),
    }
}

/// As [`exit`], with an error in place of success if the figures mean nothing.
pub fn exit_with(end: End, problems: &[Problem]) -> Exit {
    match exit(end) {
        SUCCESS if problems.iter().any(|p| p.meaningless) => MEANINGLESS,
        e => e,
    }
}

/// A job with the limits, snapshots and power cuts of the command line.
pub fn job(plan: Plan, args: &RunArgs) -> Job {
    Job {
        engine: args.engine(),
        // Else it is that of windows.
        warm_up: args
            .warm_up
            .filter(|_| !args.sampling.is_sampled())
            .unwrap_or(0),
        max_instructions: args.max_instructions,
        nvmm: args.nvmm.nvmm_image.clone(),
        saving: args.take.saving(),
        power: args.power.cuts(),
        ..Job::unattended(plan)
    }
}

/// What a machine runs, and what of the host is behind its devices.
#[derive(Debug, Clone)]
pub struct Software {
    /// The machine's description.
    pub description: Description,
    /// Its software, and how it is run.
    pub job: Job,
    /// What of the host is behind its devices.
    pub devices: Devices,
}

/// Companions of a job that a user runs interactively.
pub struct Attended<'a> {
    /// Statistics, traces, profiles, control socket and debuggers.
    pub args: &'a RunArgs,
    /// The console.
    pub console: console::Options,
    /// The program's file, if that is all that runs.
    pub program: Option<String>,
    /// Names of addresses, for traces.
    pub symbols: Symbols,
    /// The host resources behind devices; the machine's description has the slots.
    pub devices: &'a Devices,
}

/// Runs a job on a machine that is built for it.
pub fn execute(
    description: &Description,
    mut job: Job,
    attended: Attended,
    messages: &Messages,
) -> anyhow::Result<Exit> {
    let isa = description.config.extensions();
    let tracer = tracer(attended.args, isa, &attended.symbols)?;
    let mut machine = job.machine(description)?;
    if let Some(t) = tracer {
        machine.set_event_sink(Some(Box::new(t)));
    }
    run(machine, job, attended, messages)
}

/// The receiver of events for `--trace`, with its new file, if one is wanted.
pub fn tracer(
    args: &RunArgs,
    isa: Extensions,
    symbols: &Symbols,
) -> anyhow::Result<Option<Tracer>> {
    let path = args.trace_file.as_ref().filter(|_| !args.traces_bus());
    path.map(|p| Tracer::create(p, &args.trace, isa, symbols.clone()))
        .transpose()
}

/// Runs a machine that has been loaded or restored, with its console.
pub fn run(
    mut machine: Machine,
    job: Job,
    attended: Attended,
    messages: &Messages,
) -> anyhow::Result<Exit> {
    let mut done = Done {
        messages,
        failure: None,
    };
    let args = attended.args;
    let samples = args.sampling.asked(args.warm_up)?;
    check_sampled(args)?;
    // Files of results are opened first: if one cannot be written, that is reported before the run.
    let stats = args.open_stats()?;
    args.take.check()?;
    machine.set_engine(job.engine)?;
    if args.parallel {
        machine.set_parallel(Some(args.skew.unwrap_or(DEFAULT_SKEW)))?;
        messages.note("--parallel: without the timing model harts run at the same time; that is not deterministic, and \
            results differ from run to run");
    }
    if args.perf_map {
        perfmap::prepare(&mut machine, args)?;
    }
    let mut devices = attended.devices.connect(&mut machine, messages)?;
    devices.push(Box::new(Traced));
    if let Some(path) = args.trace_file.as_ref().filter(|_| args.traces_bus()) {
        if args.trace.len() > 1 {
            bail!(
                "--trace: a trace of the bus is a file of its own; trace the rest in another run"
            );
        }
        devices.push(Box::new(BusTrace::create(path, "--trace-file")?));
    }
    let inspect = &args.inspect;
    let program = (attended.program.as_deref(), &attended.symbols);
    let profiling = Profiling::start(&mut machine, inspect, program)?;
    let host = Host::start(&mut machine, args.wants_stats());
    if let Some(asked) = &samples {
        asked.begin(&mut machine, attended.devices, job.engine)?;
    }
    let vectors = Vectors::begin(&args.sampling, &mut machine)?;
    let mut console = Console::open(attended.console, messages)?;
    let end = {
        let statistics = |m: &Machine| tables::machine(m) + &host.table(m);
        let resets = machine.software().is_some();
        let others = RunServices {
            holders: remote::services(inspect, resets, messages)?,
            devices,
        };
        let terminal = Terminal::new(
            &mut console,
            job.console(),
            Some(&statistics),
            Some(messages),
        );
        let (end, failed) = guest::run(&mut machine, &job, terminal, others, messages);
        failed.into_iter().for_each(|e| done.add(Err(e.into())));
        end.map_err(Into::into)
    };
    let sampled = sampling::end(&mut machine);
    if let Some(v) = vectors {
        done.add(v.end(&mut machine));
    }
    if args.perf_map {
        done.add(perfmap::write(&machine, &attended.symbols, messages));
    }
    if let Some(p) = profiling {
        let sampled = sampled.as_ref().ok().and_then(Option::as_ref);
        done.add(p.finish(&mut machine, sampled).map(|_| ()));
    }
    let end = done.unless(end)?;
    let sampled = sampled?;
    done.add(console.close());
    if let Some(text) = end.message() {
        messages.note(&text);
    }
    let asked = Asked {
        regions: false,
        warm_up: args.warm_up.filter(|_| samples.is_none()),
    };
    let mut problems = match end {
        // It continues from the snapshot.
        End::Saved => Vec::new(),
        _ => problems::of(&machine, asked),
    };
    problems.extend(sampled.iter().flat_map(problems::of_samples));
    for p in &problems {
        messages.warning(&p.message);
    }
    let exit = exit_with(end, &problems);
    let figures = (&machine, sampled.as_ref());
    done.add(report(figures, args, stats, (end, exit), &problems, &host));
    done.end()?;
    Ok(exit)
}

/// Work after a run, which is done completely even if some of it fails.
struct Done<'a> {
    messages: &'a Messages,
    failure: Option<anyhow::Error>,
}

impl Done<'_> {
    /// Does one piece of work; if it fails, the first failure is reported last, as the command's
    /// error.
    fn add(&mut self, result: anyhow::Result<()>) {
        let Err(e) = result else { return };
        match self.failure {
            None => self.failure = Some(e),
            Some(_) => self.messages.error(&e),
        }
    }

    /// How the run ended. If it failed, its error takes precedence over failures after it.
    fn unless(&mut self, end: anyhow::Result<End>) -> anyhow::Result<End> {
        if end.is_err() {
            if let Some(e) = self.failure.take() {
                self.messages.error(&e);
            }
        }
        end
    }

    fn end(self) -> anyhow::Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

/// What a sampled run cannot have.
fn check_sampled(args: &RunArgs) -> anyhow::Result<()> {
    let a = &args.sampling;
    let (option, is) = match a.bbv {
        Some(_) => ("--bbv", true),
        None => ("--timing sampled", a.is_sampled()),
    };
    let others = [
        ("--functional", args.functional && a.is_sampled()),
        ("--parallel", args.parallel),
        ("--trace", !args.trace.is_empty()),
        (
            "--profile",
            args.inspect.profile.is_some() && !a.is_sampled(),
        ),
        ("--gdb", args.inspect.gdb.is_some()),
        ("--power-cut-at", !args.power.cuts().points.is_empty()),
        ("--nvmm-image", args.nvmm.nvmm_image.is_some()),
    ];
    if is {
        crate::sampling::refuse(option, &others)?;
    }
    Ok(())
}

fn report(
    (machine, sampled): (&Machine, Option<&Sampled>),
    args: &RunArgs,
    to: Option<Staged>,
    (end, exit): (End, Exit),
    problems: &[Problem],
    host: &Host,
) -> anyhow::Result<()> {
    let by_name = |p: &Path| {
        if p.extension().is_some_and(|e| e == "json") {
            StatsFormat::Json
        } else {
            StatsFormat::Table
        }
    };
    let format = args.stats.or(args.stats_file.as_deref().map(by_name));
    let Some(format) = format else {
        return Ok(());
    };
    let text = match format {
        StatsFormat::Table => {
            let text = match (sampled, sampled.and_then(estimate)) {
                (Some(s), Some(r)) => {
                    format!("{}\n{}", crate::sampling::as_table(s), tables::one(&r))
                }
                (Some(s), None) => crate::sampling::as_table(s) + "\n" + &tables::machine(machine),
                (None, _) => tables::machine(machine),
            };
            text + &host.table(machine)
        }
        StatsFormat::Json => {
            let mut value = tables::machine_json(machine);
            if let Some(s) = sampled {
                value["sampled"] = crate::sampling::as_json(s);
            }
            if let Some(r) = sampled.and_then(estimate) {
                let all = tables::to_json(&r);
                for (key, v) in all.as_object().into_iter().flatten() {
                    value[key] = v.clone();
                }
                // These are of the functional run.
                (value["regions"], value["marks"]) = (json!(null), json!([]));
            }
            value["host"] = host.json(machine);
            value["end"] = json!({"why": end.name(), "exit_code": exit.0});
            value["problems"] = json!(problems);
            format!("{value:#}\n")
        }
    };
    match to {
        None => output::print(&text),
        Some(file) => file.put(text.as_bytes()).context("--stats-file"),
    }
}

/// The estimate of a run that was not measured as a whole.
fn estimate(s: &Sampled) -> Option<Report> {
    (!s.is_whole()).then(|| s.report()).flatten()
}
