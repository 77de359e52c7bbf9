//! Runs a machine that has been loaded, with its console, to its end.

use crate::args::{EngineKind, MachineArgs, RunArgs, StatsFormat};
use crate::console::{self, Console, Port};
use crate::devices::DeviceArgs;
use crate::drive::{self, BoxedService, Terminal};
use crate::host::Host;
use crate::output::{self, Exit, Messages};
use crate::perfmap;
use crate::profiling::Profiling;
use crate::remote;
use crate::signals::Signals;
use crate::snapshot::Taker;
use crate::tables;
use crate::trace::{Tracer, Watch};
use anyhow::Context;
use nagori_platform::config::{Library, Machine as Description};
use nagori_platform::loader::{Plan, Symbols};
use nagori_platform::machine::{Engine, Machine, Quiet, Report, TranslatorOptions, DEFAULT_SKEW};
use serde_json::json;
use std::io::Write;
use std::path::Path;

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

    /// Whether statistics are to be shown at the end.
    pub fn wants_stats(&self) -> bool {
        self.stats.is_some() || self.stats_file.is_some()
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
    /// By a signal to this program.
    Signal(u8),
    /// By Ctrl-A x.
    Quit,
    /// By a snapshot, as was asked.
    Saved,
    /// By a guest that restarts, where nothing can be loaded again.
    Restart,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Off(_) => "off",
            End::Limit => "instruction-limit",
            End::Stuck => "stuck",
            End::Signal(_) => "signal",
            End::Quit => "quit",
            End::Saved => "snapshot",
            End::Restart => "restart",
        }
    }

    /// This program's exit code.
    pub fn exit(self) -> Exit {
        match self {
            End::Off(code) => Exit(u8::try_from(code).unwrap_or(output::TOO_LARGE)),
            End::Limit => output::LIMIT,
            End::Stuck => output::STUCK,
            End::Signal(n) => Exit(output::SIGNAL.saturating_add(n)),
            End::Quit => output::SUCCESS,
            End::Saved => output::SUCCESS,
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
            End::Off(_) | End::Saved => return None,
            End::Limit => "the instruction limit was reached (--max-instructions)".into(),
            End::Stuck => "every hart waits (wfi), and nothing can wake one".into(),
            End::Signal(n) => format!("ended by signal {n}"),
            End::Quit => "the machine was ended from the console".into(),
            End::Restart => {
                "the guest restarts; firmware and kernel are not in a snapshot: use `nagori boot`"
                    .into()
            }
        })
    }
}

/// A machine's software, and how it is to be run.
pub struct Job<'a> {
    /// What goes where.
    pub plan: Plan,
    /// Names of addresses, for traces.
    pub symbols: Symbols,
    /// The HTIF word.
    pub tohost: Option<u64>,
    /// Whether the timing model is on at first.
    pub timed: bool,
    /// The console.
    pub console: console::Options,
    /// Limits, statistics, traces.
    pub args: &'a RunArgs,
    /// What of the host is behind devices; the machine's description has the slots.
    pub devices: Option<&'a DeviceArgs>,
}

/// Runs a job on a machine that is built with an observer as `args.trace` wants it.
pub fn execute(description: &Description, job: Job, messages: &Messages) -> anyhow::Result<Exit> {
    if let Some(path) = &job.args.trace_file {
        let tracer = Tracer::create(path, &job.args.trace, job.symbols.clone())?;
        run_with(description, tracer, job, messages)
    } else {
        run_with(description, Quiet, job, messages)
    }
}

fn run_with<O: Watch>(
    description: &Description,
    observer: O,
    job: Job,
    messages: &Messages,
) -> anyhow::Result<Exit> {
    let mut machine = Machine::new(description, observer).context("the machine cannot be built")?;
    machine.set_timed(job.timed);
    machine.set_warm_up(job.args.warm_up.unwrap_or(0));
    load(&mut machine, &job.plan, false)?;
    run(machine, job, Vec::new(), messages)
}

/// Runs a machine that is loaded or restored, with its console and more services.
pub fn run<'a, O: Watch>(
    mut machine: Machine<O>,
    job: Job<'a>,
    more: Vec<BoxedService<'a, O>>,
    messages: &'a Messages,
) -> anyhow::Result<Exit> {
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
    let signals = Signals::catch()?;
    let mut console = Console::open(job.console, messages)?;
    let end = {
        let terminal = Terminal::new(&mut console, &job, Some(&host));
        // Whoever holds the machine comes before the console, which then waits, too.
        let resets = !job.plan.segments.is_empty();
        let mut services: Vec<BoxedService<'_, O>> = remote::services(inspect, resets, messages)?;
        services.push(Box::new(terminal));
        if let Some(taker) = Taker::new(&job.args.take, messages) {
            services.push(Box::new(taker));
        }
        services.extend(more);
        // Last: whether the outside may let time pass depends on who has woken the guest.
        services.extend(connected);
        let end = drive::drive(&mut machine, &mut services, &signals, &job);
        for s in &mut services {
            s.finish(&mut machine)?;
        }
        end
    };
    if job.args.perf_map {
        perfmap::write(&machine, &job.symbols, messages)?;
    }
    if let Some(p) = profiling {
        p.finish(&mut machine)?;
    }
    let end = end?;
    console.close()?;
    machine.observer_mut().finish()?;
    if let Some(text) = end.message() {
        messages.note(&text);
    }
    report(&machine, job.args, end, &host)?;
    Ok(end.exit())
}

/// Runs a job for its statistics, with another console than this program's.
pub fn measure(
    description: &Description,
    job: &Job,
    port: &mut dyn Port,
) -> anyhow::Result<(End, Report)> {
    let mut machine = Machine::new(description, Quiet).context("the machine cannot be built")?;
    machine.set_timed(job.timed);
    machine.set_warm_up(job.args.warm_up.unwrap_or(0));
    job.args.engines(&mut machine)?;
    load(&mut machine, &job.plan, false)?;
    let signals = Signals::catch()?;
    let mut services: [BoxedService<'_, Quiet>; 1] = [Box::new(Terminal::new(port, job, None))];
    let end = drive::drive(&mut machine, &mut services, &signals, job)?;
    drop(services);
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
    end: End,
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
            value["end"] = json!({"why": end.name(), "exit_code": end.exit().0});
            format!("{value:#}\n")
        }
    };
    match &args.stats_file {
        None => output::print(&text),
        Some(path) => std::fs::File::create(path)
            .and_then(|mut f| f.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write the statistics to {}", path.display())),
    }
}
