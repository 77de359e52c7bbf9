//! Runs a machine that has been loaded, with its console, to its end.

use crate::args::{EngineKind, MachineArgs, RunArgs, StatsFormat};
use crate::console::{self, Console, Event, Port};
use crate::host::Host;
use crate::output::{self, Exit, Messages};
use crate::perfmap;
use crate::signals::Signals;
use crate::tables;
use crate::trace::{Tracer, Watch};
use anyhow::{bail, Context};
use nagori_platform::clock::Ps;
use nagori_platform::config::{Library, Machine as Description};
use nagori_platform::devices::uart::Uart;
use nagori_platform::loader::{Plan, Symbols};
use nagori_platform::machine::{Engine, Machine, Quiet, Report, Stop, TranslatorOptions};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Core cycles between looks at the host: fixed, so that runs are the same.
const SLICE: u64 = 1_000_000;
/// The same for programs whose end only shows in memory.
const HTIF_SLICE: u64 = 20_000;
/// End of input at a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// Guest time between attempts to tell the guest that input has ended. One may be lost, to a
/// program that does not read or when a shell changes the terminal's mode.
const END_INTERVAL: Ps = Ps(1_000_000_000_000);
/// What a slice may take on the host while a person waits.
const PATIENCE: Duration = Duration::from_millis(8);

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
        method.into_iter().collect()
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
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Off(_) => "off",
            End::Limit => "instruction-limit",
            End::Stuck => "stuck",
            End::Signal(_) => "signal",
            End::Quit => "quit",
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
            End::Off(_) => return None,
            End::Limit => "the instruction limit was reached (--max-instructions)".into(),
            End::Stuck => "every hart waits (wfi), and nothing can wake one".into(),
            End::Signal(n) => format!("ended by signal {n}"),
            End::Quit => "the machine was ended from the console".into(),
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
    machine.set_engine(job.args.engine())?;
    if job.args.perf_map {
        perfmap::prepare(&mut machine, job.args)?;
    }
    load(&mut machine, &job.plan, false)?;
    let host = Host::start(&mut machine, job.args.wants_stats());
    let signals = Signals::catch()?;
    let mut console = Console::open(job.console, &signals, messages)?;
    let end = drive(&mut machine, &mut console, &signals, &job, Some(&host));
    if job.args.perf_map {
        perfmap::write(&machine, &job.symbols, messages)?;
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
    machine.set_engine(job.args.engine())?;
    load(&mut machine, &job.plan, false)?;
    let signals = Signals::catch()?;
    let end = drive(&mut machine, port, &signals, job, None)?;
    Ok((end, machine.report()))
}

/// Puts the software into memory and the harts at its start.
fn load<O: Watch>(machine: &mut Machine<O>, plan: &Plan, again: bool) -> anyhow::Result<()> {
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

fn drive<O: Watch>(
    machine: &mut Machine<O>,
    console: &mut dyn Port,
    signals: &Signals,
    job: &Job,
    host: Option<&Host>,
) -> anyhow::Result<End> {
    let limit = job.args.max_instructions;
    let mut slice = match job.tohost {
        Some(_) => HTIF_SLICE,
        None => SLICE,
    };
    let mut typed = Vec::new();
    let mut end_sent: Option<Ps> = None;
    let mut wait = Some(Duration::ZERO);
    loop {
        if let Some(n) = signals.caught() {
            return Ok(End::Signal(n));
        }
        for event in console.events(wait)? {
            match event {
                Event::Bytes(bytes) => typed.extend(bytes),
                Event::Quit => return Ok(End::Quit),
                Event::Help => console.help(),
                Event::Stats => {
                    let mut text = tables::report(&machine.report(), machine.marks());
                    text.extend(host.map(|h| h.table(machine)));
                    console.message(&text);
                }
            }
        }
        // Piped input is there long before the guest's driver, whose start empties the FIFO.
        if !typed.is_empty() && (!job.console.send_end || console.interactive() || listens(machine))
        {
            machine.console_input(&typed);
            typed.clear();
        }
        wait = Some(Duration::ZERO);

        let started = Instant::now();
        let stop = machine.run(slice, limit);
        if console.interactive() {
            slice = paced(slice, started.elapsed());
        }
        console.write(&machine.console_output())?;
        machine.observer_mut().check()?;
        if let Some(end) = htif(machine, job, console)? {
            return Ok(end);
        }
        if matches!(stop, Stop::Idle(_)) && typed.is_empty() && ends_input(console, job) {
            let now = machine.now();
            let due = end_sent.is_none_or(|t| now.saturating_sub(t) >= END_INTERVAL);
            if due && listens(machine) {
                machine.console_input(&[END_OF_INPUT]);
                end_sent = Some(now);
                continue;
            }
        }
        match stop {
            Stop::Slice => {}
            Stop::PowerOff(code) => return Ok(End::Off(code)),
            Stop::Instructions => return Ok(End::Limit),
            Stop::Reset => {
                machine.reset();
                load(machine, &job.plan, true)?;
            }
            Stop::Idle(Ps::NEVER) => {
                let hopeless = typed.is_empty() && !console.is_open();
                if hopeless || !listens(machine) {
                    return Ok(End::Stuck);
                }
                if typed.is_empty() {
                    wait = None;
                }
            }
            Stop::Idle(at) if console.interactive() => {
                let ps = at.saturating_sub(machine.now()).0;
                wait = Some(Duration::from_nanos(ps / 1000));
            }
            Stop::Idle(_) => {}
        }
    }
}

/// Whether the guest is to be told that there is no more input.
fn ends_input(console: &dyn Port, job: &Job) -> bool {
    job.console.send_end && !console.interactive() && !console.is_open()
}

/// Whether the guest reacts to input.
fn listens<O: Watch>(machine: &Machine<O>) -> bool {
    machine
        .bus()
        .get::<Uart>()
        .is_some_and(|u| u.interrupts_on_input())
}

/// The next slice, so that a person's keys are seen in time.
fn paced(slice: u64, took: Duration) -> u64 {
    if took > PATIENCE {
        (slice / 2).max(1000)
    } else if took < PATIENCE / 4 {
        (slice * 2).min(4 * SLICE)
    } else {
        slice
    }
}

/// Does what the program asks for through its `tohost` word.
fn htif<O: Watch>(
    machine: &mut Machine<O>,
    job: &Job,
    console: &mut dyn Port,
) -> anyhow::Result<Option<End>> {
    /// Device and command of a character to the console, in the upper 16 bits.
    const PUT: u64 = 0x0101;
    let Some(addr) = job.tohost else {
        return Ok(None);
    };
    let offset = addr - machine.config().memory.base;
    let word = machine.ram().read_u64(offset).unwrap_or(0);
    match (word, word >> 48) {
        (0, _) => Ok(None),
        (_, 0) if word & 1 == 1 => {
            let code = word >> 1;
            Ok(Some(End::Off(u32::try_from(code).unwrap_or(u32::MAX))))
        }
        (_, PUT) => {
            console.write(&[word as u8])?;
            machine.ram().write_u64(offset, 0);
            machine.memory_written(addr, 8);
            Ok(None)
        }
        _ => bail!(
            "the program wrote {word:#x} to tohost ({addr:#x}): only the end (code << 1 | 1) and characters for the console (0x0101 in the upper bits) are supported, no system calls"
        ),
    }
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
    let report = machine.report();
    let text = match format {
        StatsFormat::Table => tables::report(&report, machine.marks()) + &host.table(machine),
        StatsFormat::Json => {
            let mut value = tables::to_json(&report);
            let marks: Vec<_> = machine
                .marks()
                .iter()
                .map(|(label, r)| json!({"label": label, "report": tables::to_json(r)}))
                .collect();
            value["marks"] = json!(marks);
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
