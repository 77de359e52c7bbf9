//! Commands for programs instead of people: their options in, their results out. Nothing is printed, no signal is
//! caught.
//!
//! The Python package calls this, so options, errors and results are those of the command.

use crate::commands::{Cli, Command};
use crate::crash;
use crate::mem;
use crate::mem::args::MemCommand;
use crate::mem::report::{About, Report};
use crate::remote;
use crate::window::{self, WindowCommand};
use crate::{bare, boot, guest, hints, run};
use anyhow::anyhow;
use clap::{CommandFactory, FromArgMatches, Parser};
use nagori_machine::Machine;
use nagori_memtime::ModelStats;
use nagori_memtrace::drive::Outcome;
use nagori_platform::devices::virtio::Block;
use nagori_session::drive::Terminal;
use nagori_session::guest::RunServices;
use nagori_session::problems::{self, Asked, Problem};
use nagori_session::program::Captured;
use nagori_session::{image, Caller, End, Port, Rootfs};
use nagori_terminal::tables;
use serde_json::{json, Value};
use std::io;

pub use crate::crash::Checker;
pub use crate::guest::Software;
pub use nagori_suite::MODEL;

/// A run that has ended.
pub struct Ended {
    /// What the command's `--json` has, without figures of the host.
    pub result: Value,
    /// The program's output.
    pub output: Captured,
}

/// Reads the options of a command, its name first.
fn read(options: &[String]) -> anyhow::Result<Command> {
    let words = std::iter::once("nagori").chain(options.iter().map(String::as_str));
    match Cli::try_parse_from(words) {
        Ok(cli) => Ok(cli.command),
        Err(e) => Err(wrong(e, options)),
    }
}

/// The error of a command line, without how the command is used.
fn wrong(e: clap::Error, options: &[String]) -> anyhow::Error {
    let text = hints::hinted(e, &Cli::command(), options).to_string();
    // Behind it is how the command line is used.
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text
        .split("\n\nFor more information")
        .next()
        .unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    anyhow!("{}", text.trim_end())
}

fn other(wanted: &str) -> anyhow::Error {
    anyhow!("these are no options of `nagori {wanted}`")
}

/// Runs a program: `run` and its options; `input` is its standard input, instead of that of the options.
pub fn run(options: &[String], input: Option<&[u8]>, caller: &dyn Caller) -> anyhow::Result<Ended> {
    let Command::Run(a) = read(options)? else {
        return Err(other("run"));
    };
    let (result, output) = run::captured(&a, input, caller)?;
    Ok(Ended {
        result: result.json(),
        output,
    })
}

/// A console without input, which keeps the output.
#[derive(Default)]
struct Console(Captured);

impl Port for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.stdout.extend_from_slice(bytes);
        Ok(())
    }

    fn write_error(&mut self, bytes: &[u8]) -> nagori_session::Result<()> {
        self.0.stderr.extend_from_slice(bytes);
        Ok(())
    }
}

/// Runs a bare-metal program to its end: `bare` and its options.
pub fn bare(options: &[String], caller: &dyn Caller) -> anyhow::Result<Ended> {
    let Software {
        description,
        mut job,
        devices,
    } = bare_software(options, caller)?;
    let mut machine = job.machine(&description)?;
    machine.set_engine(job.engine)?;
    caller.machine(&mut machine)?;
    let mut console = Console::default();
    let others = RunServices {
        holders: Vec::new(),
        devices: devices.connect(&mut machine, caller)?,
    };
    let terminal = Terminal::new(&mut console, job.console(), None, Some(caller));
    let (end, failed) = nagori_session::guest::run(&mut machine, &job, terminal, others, caller);
    let end = end?;
    if let Some(e) = failed.into_iter().next() {
        return Err(e.into());
    }
    nagori_session::check(caller)?;
    let asked = Asked {
        regions: false,
        warm_up: (job.warm_up > 0).then_some(job.warm_up),
    };
    let problems = problems::of(&machine, asked);
    Ok(Ended {
        result: machine_result(&machine, Some(end), &problems),
        output: console.0,
    })
}

/// Checks the options of many commands that have a result for programs (`run`, `bare`, `crash`, `mem run`,
/// `window run`), and nothing that lies behind them: what is wrong with each.
pub fn check(all: &[Vec<String>]) -> Vec<Option<String>> {
    // Made once: that takes longer than reading a command line.
    let mut known = Cli::command();
    let mut one = |options: &Vec<String>| -> anyhow::Result<()> {
        let words = std::iter::once("nagori").chain(options.iter().map(String::as_str));
        let read = known.try_get_matches_from_mut(words);
        let cli = read.and_then(|m| Cli::from_arg_matches(&m));
        match cli.map_err(|e| wrong(e, options))?.command {
            Command::Run(_) | Command::Bare(_) | Command::Crash(_) => Ok(()),
            Command::Mem(MemCommand::Run(_)) | Command::Window(_) => Ok(()),
            _ => Err(other("run, bare, crash, mem run or window run")),
        }
    };
    { all.iter() }
        .map(|options| one(options).err().map(|e| e.to_string()))
        .collect()
}

/// The names of a command's options, such as `run` or `mem run`; nothing if there is no such command.
pub fn option_names(command: &str) -> Vec<String> {
    let all = Cli::command();
    let found = { command.split(' ') }.try_fold(&all, |c, word| c.find_subcommand(word));
    let arguments = found.into_iter().flat_map(clap::Command::get_arguments);
    let names = arguments.filter_map(|a| a.get_long().map(str::to_owned));
    names.collect()
}

/// The guest's software that a command with these options (`run`, `crash`) starts from, which is built if it is not
/// there: the key of its image, and that of its root file system, or the file.
pub fn image(options: &[String], caller: &dyn Caller) -> anyhow::Result<Value> {
    let (source, modules, root) = match read(options)? {
        Command::Run(a) => run::software(&a)?,
        Command::Crash(a) => crash::software(&a.explore),
        _ => return Err(other("run or crash")),
    };
    let mut wanted = source.options()?;
    wanted.add_modules(&modules);
    let image = image::build(&wanted, caller)?;
    let root = match root {
        Rootfs::Smallest => Value::Null,
        Rootfs::Named(name) => match image::rootfs::by_name(&wanted, &name, caller)? {
            Some(root) => json!({"key": root.manifest.key}),
            None => json!({"file": image::rootfs::find(&wanted, &name, caller)?}),
        },
    };
    Ok(json!({"image": image.manifest.key, "root": root}))
}

/// Plays a trace into a memory: `mem run` and its options. The report, without figures of the host.
pub fn mem(options: &[String], caller: &dyn Caller) -> anyhow::Result<Value> {
    let Command::Mem(MemCommand::Run(a)) = read(options)? else {
        return Err(other("mem run"));
    };
    without_host(mem::report_of(&a, caller)?)
}

/// Measures windows of sampled runs: `window run` and its options. Each of them, as `--json` has it.
pub fn window(options: &[String], caller: &dyn Caller) -> anyhow::Result<Value> {
    let Command::Window(WindowCommand::Run(a)) = read(options)? else {
        return Err(other("window run"));
    };
    window::measure(&a, |_, _| (), caller)
}

/// A report without figures of the host.
fn without_host(report: Report) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(report)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("cpu_seconds");
        fields.remove("requests_per_cpu_second");
    }
    Ok(value)
}

/// What a machine has cost so far, or in all if its run has ended, in the form of a program's result.
pub fn machine_result(machine: &Machine, end: Option<End>, problems: &[Problem]) -> Value {
    let report = machine.report();
    let meaningless = problems.iter().any(|p| p.meaningless);
    let code = end.map(|end| guest::exit_with(end, problems).0);
    json!({
        "end": {
            "why": end.map_or("running", End::name),
            "exit_code": code,
            "message": end.and_then(End::message),
        },
        "machine": report.machine,
        "method": report.memory.method,
        "timed": machine.timed(),
        "problems": problems,
        "summary": (!meaningless).then(|| run::summary(&report)),
        "statistics": tables::machine_json(machine),
    })
}

/// What a machine runs with a bare-metal program: `bare` and its options.
pub fn bare_software(options: &[String], caller: &dyn Caller) -> anyhow::Result<Software> {
    let Command::Bare(a) = read(options)? else {
        return Err(other("bare"));
    };
    if a.run_args.sampling.is_sampled() || a.run_args.sampling.bbv.is_some() {
        return Err(anyhow!(
            "--timing sampled and --bbv: of `nagori bare` by the command only, which has their \
            results"
        ));
    }
    Ok(bare::prepare(&a, caller)?.0)
}

/// What a machine boots: `boot` and its options.
pub fn boot_software(options: &[String], caller: &dyn Caller) -> anyhow::Result<Software> {
    let Command::Boot(a) = read(options)? else {
        return Err(other("boot"));
    };
    boot::prepare(&a, caller)
}

/// Explores what power cuts leave: `crash` and its options. The report, as `--json` has it.
pub fn crash(
    options: &[String],
    checker: Option<&Checker<'_>>,
    caller: &dyn Caller,
) -> anyhow::Result<Value> {
    let Command::Crash(a) = read(options)? else {
        return Err(other("crash"));
    };
    crash::report(&a.explore, checker, caller)
}

/// Asks a machine what a client of the control socket asks it: a method with its parameters.
///
/// # Errors
/// What the client would be answered; of methods that restart or hold the machine, that they are not for this.
pub fn ask(machine: &mut Machine, method: &str, parameters: Value) -> Result<Value, String> {
    remote::ask(machine, method, parameters)
}

/// Reads memory by physical addresses, or by virtual ones of a hart.
///
/// # Errors
/// There is no memory at some of them.
pub fn read_memory(
    machine: &Machine,
    address: u64,
    length: usize,
    hart: Option<usize>,
) -> Result<Vec<u8>, String> {
    exists(machine, hart)?;
    if length as u64 > machine.ram().len() {
        return Err(format!("{length} bytes are more than the machine's memory"));
    }
    let mut bytes = vec![0; length];
    match machine.peek(hart, address, &mut bytes) {
        n if n < length => Err(no_memory(machine, address, n)),
        _ => Ok(bytes),
    }
}

/// Writes memory, whatever the permissions.
///
/// # Errors
/// There is no memory at some of the addresses; those before were written.
pub fn write_memory(
    machine: &mut Machine,
    address: u64,
    bytes: &[u8],
    hart: Option<usize>,
) -> Result<(), String> {
    exists(machine, hart)?;
    match machine.poke(hart, address, bytes) {
        n if n < bytes.len() => Err(no_memory(machine, address, n)),
        _ => Ok(()),
    }
}

fn exists(machine: &Machine, hart: Option<usize>) -> Result<(), String> {
    match hart {
        Some(h) if machine.hart(h).is_none() => Err(format!("there is no hart {h}")),
        _ => Ok(()),
    }
}

fn no_memory(machine: &Machine, address: u64, done: usize) -> String {
    let m = &machine.config().memory;
    let at = address.wrapping_add(done as u64);
    format!(
        "there is no memory at {at:#x}; physical memory is {:#x}..{:#x}",
        m.base,
        m.end()
    )
}

/// An error if a machine's disks hold what only this machine has: a fork would miss it.
pub fn may_fork(machine: &mut Machine) -> Result<(), String> {
    let changed = (0..machine.bus().slots()).any(|slot| {
        let changed = machine.virtio(slot, |b: &mut Block, _| {
            b.disk().is_some_and(|d| d.changes().next().is_some())
        });
        changed == Some(true)
    });
    if changed {
        return Err("the machine has written to a disk, and a fork would not see that: fork before, or without a root \
            file system on a disk".into());
    }
    Ok(())
}

/// The result of playing accesses into a memory, as `nagori mem run --json` has it.
pub fn memory_result(
    memory: &str,
    settings: &[String],
    mode: &str,
    outcome: Outcome,
    stats: ModelStats,
) -> anyhow::Result<Value> {
    let about = About {
        memory: memory.into(),
        settings: settings.to_vec(),
        trace: "arrays".into(),
        format: "arrays".into(),
        mode: mode.into(),
        ignored_times: false,
    };
    without_host(Report::new(about, outcome, stats, 0.0))
}
