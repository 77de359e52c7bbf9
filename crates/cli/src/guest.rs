//! Runs a machine that has been loaded, with its console, to its end.

use crate::args::{EngineKind, MachineArgs, RunArgs, StatsFormat};
use crate::console::{self, Console, Port};
use crate::devices::DeviceArgs;
use crate::drive::{self, htif, BoxedService, Loops, Signature, SignatureFile, Terminal};
use crate::host::Host;
use crate::output::file::{self, Staged};
use crate::output::{self, Exit, Messages, MEANINGLESS, SUCCESS};
use crate::perfmap;
use crate::power::Cutter;
use crate::problems::{self, Asked, Problem};
use crate::profiling::Profiling;
use crate::remote;
use crate::signals::{Interrupted, Signals};
use crate::snapshot::Taker;
use crate::tables;
use crate::trace::{Tracer, Watch};
use anyhow::Context;
use nagori_platform::config::{Library, Machine as Description};
use nagori_platform::loader::{Plan, Software, Symbols};
use nagori_platform::machine::{Engine, Machine, Quiet, Report, TranslatorOptions, DEFAULT_SKEW};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl MachineArgs {
    /// The description with the command line's changes; `more` are settings of other options.
    pub fn resolve(&self, more: &[String]) -> anyhow::Result<Description> {
        let mut settings = self.set.clone();
        settings.extend_from_slice(more);
        let library = Library::installed();
        Ok(Description::load(&library, &self.machine, &settings)?)
    }
}

impl RunArgs {
    /// What the options change in the machine's description.
    pub fn settings(&self) -> Vec<String> {
        let method = self.method.map(|m| format!("method={}", m.name()));
        let deaf = self.no_markers.then(|| "markers=false".to_string());
        method.into_iter().chain(deaf).collect()
    }

    /// The setting of a machine that starts with the clock that is asked for.
    pub fn clock(&self) -> Option<String> {
        self.rtc.map(|r| format!("rtc_epoch={}", r.seconds()))
    }

    /// Whether statistics are to be shown at the end.
    pub fn wants_stats(&self) -> bool {
        self.stats.is_some() || self.stats_file.is_some()
    }

    /// Opens the file of the statistics, if there is to be one.
    fn open_stats(&self) -> anyhow::Result<Option<Staged>> {
        let open = |path: &PathBuf| Staged::create(path).context("--stats-file");
        self.stats_file.as_ref().map(open).transpose()
    }

    /// Looks whether all files that a run is to leave can be there, for commands that do something
    /// long before it.
    pub fn check_outputs(&self) -> anyhow::Result<()> {
        self.open_stats()?;
        if let Some(path) = &self.inspect.profile {
            file::check(path).context("--profile")?;
        }
        match &self.take.snapshot {
            Some(path) => self.take.check(path),
            None => Ok(()),
        }
    }

    /// What runs the guest's code.
    pub fn engine(&self) -> Engine {
        match self.engine {
            Some(EngineKind::Interpreter) => Engine::Interpreter,
            Some(EngineKind::Translator) => Engine::Translator(TranslatorOptions::default()),
            None => Engine::best(),
        }
    }

    /// Sets what runs the guest's code; whether harts run at the same time.
    fn engines<O: Watch>(&self, machine: &mut Machine<O>) -> anyhow::Result<bool> {
        machine.set_engine(self.engine())?;
        if self.parallel {
            machine.set_parallel(Some(self.skew.unwrap_or(DEFAULT_SKEW)))?;
        }
        Ok(self.parallel)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By the guest, with its code.
    Off(u32),
    /// By the limit on instructions.
    Limit,
    /// Nothing can happen any more.
    Stuck,
    /// Machine time is at its end.
    Time,
    /// By a signal to this program.
    Signal(u8),
    /// By Ctrl-A x.
    Quit,
    /// By a snapshot, as was asked.
    Saved,
    /// By a guest that restarts, where nothing can be loaded again.
    Restart,
    /// By a power cut, as was asked.
    PowerCut,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Off(_) => "off",
            End::Limit => "instruction-limit",
            End::Stuck => "stuck",
            End::Time => "end-of-time",
            End::Signal(_) => "signal",
            End::Quit => "quit",
            End::Saved => "snapshot",
            End::Restart => "restart",
            End::PowerCut => "power-cut",
        }
    }

    /// This program's exit code.
    pub fn exit(self) -> Exit {
        match self {
            End::Off(code) => Exit(u8::try_from(code).unwrap_or(output::TOO_LARGE)),
            End::Limit => output::LIMIT,
            End::Stuck | End::Time => output::STUCK,
            End::Signal(n) => Exit(output::SIGNAL.saturating_add(n)),
            End::Quit => output::SUCCESS,
            End::Saved | End::PowerCut => output::SUCCESS,
            End::Restart => Exit(1),
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match (self.message(), self) {
            (Some(text), _) => text,
            (None, End::Off(code)) => format!("its exit code is {code}"),
            (None, _) => self.name().into(),
        }
    }

    fn message(self) -> Option<String> {
        Some(match self {
            End::Off(code) if code > 255 => {
                format!("the guest's exit code is {code}; the exit code here is 255")
            }
            End::Off(_) | End::Saved | End::PowerCut => return None,
            End::Limit => "the instruction limit was reached (--max-instructions)".into(),
            End::Stuck => "every hart waits (wfi), and nothing can wake one".into(),
            End::Time => output::END_OF_TIME.into(),
            End::Signal(n) => format!("ended by signal {n}"),
            End::Quit => "the machine was ended from the console".into(),
            End::Restart => {
                "the guest restarts, and nothing is known that could be loaded again".into()
            }
        })
    }
}

/// What a bare-metal program and the host have agreed on by names of symbols.
#[derive(Debug, Clone, Default)]
pub struct Agreed {
    /// The words of the host-target interface.
    pub words: Option<htif::Words>,
    /// The memory that is written to a file when the program has ended.
    pub signature: Option<SignatureFile>,
}

/// A machine's software, and how it is to be run.
pub struct Job<'a> {
    /// What goes where; nothing, if the machine has it already.
    pub plan: Plan,
    /// Names of addresses, for traces.
    pub symbols: Symbols,
    /// What a bare-metal program and the host have agreed on.
    pub htif: Agreed,
    /// Whether the timing model is on at first, and again behind a power cut.
    pub timed: bool,
    /// The console.
    pub console: console::Options,
    /// Limits, statistics, traces.
    pub args: &'a RunArgs,
    /// What of the host is behind devices; the machine's description has the slots.
    pub devices: Option<&'a DeviceArgs>,
}

impl<'a> Job<'a> {
    /// Software for a machine that nobody sits in front of: functional, with what `args` says.
    pub fn unattended(plan: Plan, args: &'a RunArgs) -> Job<'a> {
        Job {
            plan,
            symbols: Symbols::default(),
            htif: Agreed::default(),
            timed: false,
            console: console::Options {
                interactive: false,
                interrupt: false,
                send_end: false,
            },
            args,
            devices: None,
        }
    }

    /// What a restart of the machine loads.
    fn software(&mut self) -> Arc<Software> {
        Arc::new(Software {
            plan: std::mem::take(&mut self.plan),
            timed: self.timed,
            tohost: self.htif.words.as_ref().map(|w| w.tohost),
        })
    }
}

/// Runs a job on a machine that is built with an observer as `args.trace` wants it.
pub fn execute(description: &Description, job: Job, messages: &Messages) -> anyhow::Result<Exit> {
    if let Some(path) = &job.args.trace_file {
        let tracer = Tracer::create(
            path,
            &job.args.trace,
            description.config.extensions(),
            job.symbols.clone(),
        )?;
        run_with(description, tracer, job, messages)
    } else {
        run_with(description, Quiet, job, messages)
    }
}

fn run_with<O: Watch>(
    description: &Description,
    observer: O,
    mut job: Job,
    messages: &Messages,
) -> anyhow::Result<Exit> {
    let mut machine = Machine::new(description, observer).context("the machine cannot be built")?;
    machine.set_timed(job.timed);
    machine.set_warm_up(job.args.warm_up.unwrap_or(0));
    let software = job.software();
    load(&mut machine, &software.plan, false)?;
    machine.set_software(Some(software));
    run(machine, job, messages)
}

/// Runs a machine that is loaded or restored, with its console.
pub fn run<'a, O: Watch>(
    mut machine: Machine<O>,
    job: Job<'a>,
    messages: &'a Messages,
) -> anyhow::Result<Exit> {
    let mut done = Done {
        messages,
        failure: None,
    };
    // Where the results go is opened first: what cannot be written is told before the run.
    let stats = job.args.open_stats()?;
    if let Some(path) = &job.args.take.snapshot {
        job.args.take.check(path)?;
    }
    let together = job.args.engines(&mut machine)?;
    if together {
        messages.note("--parallel: harts run at the same time; this is not deterministic, results differ from run to run, and times are approximate");
    }
    if job.args.perf_map {
        perfmap::prepare(&mut machine, job.args)?;
    }
    let connected = match job.devices {
        Some(devices) => devices.connect(&mut machine, messages)?,
        None => Vec::new(),
    };
    let inspect = &job.args.inspect;
    let profiling = Profiling::start(&mut machine, inspect, &job.symbols)?;
    let host = Host::start(&mut machine, job.args.wants_stats());
    let mut console = Console::open(job.console, messages)?;
    let end = {
        let terminal = Terminal::new(&mut console, &job, Some(&host), Some(messages));
        // Whoever holds the machine comes before the console, which then waits, too.
        let resets = machine.software().is_some();
        let mut services: Vec<BoxedService<'_, O>> = remote::services(inspect, resets, messages)?;
        services.push(Box::new(terminal));
        services.push(Box::new(Loops::new(messages)));
        if let Some(file) = &job.htif.signature {
            services.push(Box::new(Signature::new(file, messages)));
        }
        if let Some(taker) = Taker::new(&job.args.take, messages) {
            services.push(Box::new(taker));
        }
        if let Some(cutter) = Cutter::new(&job.args.power, messages) {
            services.push(Box::new(cutter));
        }
        // Last: whether the outside may let time pass depends on who has woken the guest.
        services.extend(connected);
        let end = drive::drive(&mut machine, &mut services, messages.signals(), &job);
        for s in &mut services {
            done.add(s.finish(&mut machine));
        }
        end
    };
    done.add(machine.observer_mut().finish());
    if job.args.perf_map {
        done.add(perfmap::write(&machine, &job.symbols, messages));
    }
    if let Some(p) = profiling {
        done.add(p.finish(&mut machine));
    }
    let end = done.unless(end)?;
    done.add(console.close());
    if let Some(text) = end.message() {
        messages.note(&text);
    }
    let asked = Asked {
        regions: false,
        warm_up: job.args.warm_up,
    };
    let problems = match end {
        // It goes on from the snapshot.
        End::Saved => Vec::new(),
        _ => problems::of(&machine, asked),
    };
    for p in &problems {
        messages.warning(&p.message);
    }
    let exit = match end.exit() {
        SUCCESS if problems.iter().any(|p| p.meaningless) => MEANINGLESS,
        e => e,
    };
    done.add(report(
        &machine,
        job.args,
        stats,
        (end, exit),
        &problems,
        &host,
    ));
    done.end()?;
    Ok(exit)
}

/// What is done behind a run, all of it, even if some of it fails.
struct Done<'a> {
    messages: &'a Messages,
    failure: Option<anyhow::Error>,
}

impl Done<'_> {
    /// Something was done; of what fails the first is told last, as the command's error.
    fn add(&mut self, result: anyhow::Result<()>) {
        let Err(e) = result else { return };
        match self.failure {
            None => self.failure = Some(e),
            Some(_) => self.messages.error(&e),
        }
    }

    /// How the run ended; an error if it failed, which counts for more than what came behind it.
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

/// Runs a job for its statistics, with another console than this program's. A signal that ends it is
/// an error: there is no result.
pub fn measure(
    description: &Description,
    job: &Job,
    port: &mut dyn Port,
    signals: &Signals,
) -> anyhow::Result<(End, Report)> {
    let mut machine = Machine::new(description, Quiet).context("the machine cannot be built")?;
    machine.set_timed(job.timed);
    machine.set_warm_up(job.args.warm_up.unwrap_or(0));
    job.args.engines(&mut machine)?;
    load(&mut machine, &job.plan, false)?;
    let mut services: [BoxedService<'_, Quiet>; 1] =
        [Box::new(Terminal::new(port, job, None, None))];
    let end = drive::drive(&mut machine, &mut services, signals, job)?;
    drop(services);
    if let End::Signal(n) = end {
        return Err(Interrupted(n).into());
    }
    Ok((end, machine.report()))
}

/// Puts the software into memory and the harts at its start; `again`: over what a guest left.
pub fn load<O: Watch>(machine: &mut Machine<O>, plan: &Plan, again: bool) -> anyhow::Result<()> {
    let base = machine.config().memory.base;
    plan.apply(machine.ram(), base)?;
    for s in &plan.segments {
        let filled = s.bytes.len() as u64;
        // New memory is zero; after a restart it holds what the guest left.
        if again && s.memory_size > filled {
            let from = s.addr - base + filled;
            machine.ram().fill(from, s.memory_size - filled, 0)?;
        }
        machine.memory_written(s.addr, s.memory_size);
    }
    let e = plan.entry;
    machine.start_at(e.pc, e.a1, e.a2);
    Ok(())
}

fn report<O: Watch>(
    machine: &Machine<O>,
    args: &RunArgs,
    to: Option<Staged>,
    (end, exit): (End, Exit),
    problems: &[Problem],
    host: &Host,
) -> anyhow::Result<()> {
    let by_name = |p: &Path| match p.extension().is_some_and(|e| e == "json") {
        true => StatsFormat::Json,
        false => StatsFormat::Table,
    };
    let format = args.stats.or(args.stats_file.as_deref().map(by_name));
    let Some(format) = format else {
        return Ok(());
    };
    let text = match format {
        StatsFormat::Table => tables::machine(machine) + &host.table(machine),
        StatsFormat::Json => {
            let mut value = tables::machine_json(machine);
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
