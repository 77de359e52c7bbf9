//! `nagori run` and `nagori compare`: programs on the machine.

mod args;
mod compare;
mod output;
mod picture;
mod report;
mod streams;

pub use args::{CompareArgs, FileArg, RunProgramArgs};
pub use compare::command as compare;

use crate::args::{engine, DeviceArgs, InspectArgs, PowerArgs};
use crate::profiling::Profiling;
use crate::remote;
use crate::sampling::Vectors;
use crate::trace::BusTrace;
use anyhow::{anyhow, bail, Context};
use args::CommonArgs;
use compare::Variant;
use nagori_memtime::Method;
use nagori_session::image::Source;
use nagori_session::nvmm::NvmmSpec;
use nagori_session::program::{
    in_guest, left_on_host, Captured, Executable, Limits, Loaded, Outcome, Program, Stdin, Timing,
    Why,
};
use nagori_session::{Caller, Interrupted, Options, Rootfs, Session};
use nagori_terminal::output::file::{self, Staged};
use nagori_terminal::output::{Exit, Messages};
pub use report::summary;
use report::Result as RunResult;
use rustix::fs::{fstat, FileType};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use streams::{Output, Stdout};

/// Runs `nagori run`.
pub fn command(a: &RunProgramArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let c = &a.common;
    let json = json_file(c.json.as_deref())?;
    let mut stdout = Stdout::of(c.output.as_deref())?;
    let method = one("--method", &c.methods)?;
    let memory = one("--memory-model", &c.memory_models)?;
    if let Some(path) = &a.inspect.profile {
        file::check(path).context("--profile")?;
    }
    let variants = [
        memory.cloned().map(Variant::Model),
        method.copied().map(Variant::Method),
    ];
    let variants: Vec<&Variant> = variants.iter().flatten().collect();
    let odd = [
        ("--gdb", a.inspect.gdb.is_some()),
        ("--trace-bus", a.trace_bus.is_some()),
        ("--power-cut-at", !a.power.cuts().points.is_empty()),
        ("--nvmm-image", a.nvmm.nvmm_image.is_some()),
    ];
    if c.sampling.is_sampled() {
        crate::sampling::refuse("--timing sampled", &odd)?;
    }
    let prepared = Prepared::with(c, (&variants, a.nvmm.nvmm_image.clone()), messages)?;
    // A debugger uses Ctrl-C for the program itself.
    let interrupt = match a.inspect.gdb {
        Some(_) => Interrupt::Ends,
        None => Interrupt::Passes,
    };
    let how = How {
        method: method.and_then(|m| m.delay()),
        seed: c.seed,
        profile: false,
    };
    let bus = a.trace_bus.as_deref();
    let bus = bus.map(|path| BusTrace::create(path, "--trace-bus"));
    let bus = bus.transpose()?;
    let result = prepared.run(
        &a.power,
        how,
        (&a.inspect, bus),
        interrupt,
        Output::new(Some(&mut stdout)),
        messages,
    )?;
    stdout.finish()?;
    prepared.tell(&result.why, messages);
    result.warn(messages, |_| true);
    let show = || {
        let text = if c.full {
            result.full.0.clone()
        } else {
            result.table()
        };
        eprint!("\n{text}");
    };
    // Figures other than the requested ones would be misleading.
    let shown = (c.full || result.is_meaningful()) && !messages.quiet();
    if shown {
        show();
    }
    if let Some(file) = json {
        let mut value = result.json();
        value["program"] = json!(c.program);
        value["seed"] = json!(c.seed);
        value["host"] = json!({"cpu_seconds_to_start": result.start_cpu});
        let written = write_json(file, &value);
        // The results are not lost.
        if written.is_err() && !shown {
            show();
        }
        written?;
    }
    Ok(result.exit())
}

/// Runs the program for a caller that is no terminal; `input` is its standard input, instead of that of the options.
pub fn captured(
    a: &RunProgramArgs,
    input: Option<&[u8]>,
    caller: &dyn Caller,
) -> anyhow::Result<(RunResult, Captured)> {
    let c = &a.common;
    let method = one("--method", &c.methods)?;
    let memory = one("--memory-model", &c.memory_models)?;
    let variants = [
        memory.cloned().map(Variant::Model),
        method.copied().map(Variant::Method),
    ];
    let variants: Vec<&Variant> = variants.iter().flatten().collect();
    let mut prepared = Prepared::with(c, (&variants, a.nvmm.nvmm_image.clone()), caller)?;
    let program = &mut prepared.program.program;
    program.method = method.and_then(|m| m.delay());
    if let Some(bytes) = input {
        program.stdin = Stdin::Bytes(bytes.into());
    }
    let mut running = prepared.session.start(&prepared.program)?;
    running.power = a.power.cuts();
    caller.machine(&mut running.machine)?;
    let mut output = Captured::default();
    let run = running.wait(&mut output)?;
    if let Why::Outcome(Outcome::Failed { .. }) = &run.why {
        return Err(prepared.failure(&run.why));
    }
    if let Why::Signal(n) = run.why {
        return Err(Interrupted(n).into());
    }
    let result = RunResult::of(run, &running.machine, (!c.functional, c.strict));
    Ok((result, output))
}

/// The root file system that the options name, or the smallest with which the program can run.
fn rootfs(a: &CommonArgs, program: &Executable) -> Rootfs {
    match a.rootfs.as_deref() {
        Some("none") => Rootfs::Smallest,
        Some(name) => Rootfs::Named(name.into()),
        None => Rootfs::least(program),
    }
}

/// Where images are from, kernel modules, and the root file system.
pub fn software(a: &RunProgramArgs) -> anyhow::Result<(Source, Vec<String>, Rootfs)> {
    let c = &a.common;
    let name = c.program.first().context("a program is needed")?;
    let rootfs = rootfs(c, &Executable::find(name)?);
    Ok((c.cache.source(), c.modules.modules.clone(), rootfs))
}

/// The only one of an option's values; `compare` takes several.
fn one<'v, T>(option: &str, values: &'v [T]) -> anyhow::Result<Option<&'v T>> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => bail!(
            "{option}: `nagori run` takes one; `nagori compare` takes several and compares them"
        ),
    }
}

/// The setting of a machine with a memory of its own behind NVMM.
fn behind_nvmm(memory: &str) -> String {
    format!("memory.regions.nvmm.model={memory}")
}

/// The effect of the first Ctrl-C once the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// It is sent to the program; the second one ends the run.
    Passes,
    /// It ends the run.
    Ends,
}

/// The file of `--json`, before there is anything to write.
fn json_file(path: Option<&Path>) -> anyhow::Result<Option<Staged>> {
    path.map(Staged::create).transpose().context("--json")
}

/// Writes the JSON.
fn write_json(file: Staged, value: &serde_json::Value) -> anyhow::Result<()> {
    let written = file.put(format!("{value:#}\n").as_bytes());
    written.context("--json")
}

/// Windows of equal weight of runs that are compared.
const SAME_WINDOWS: u64 = 200;

/// What a sampled run cannot have.
fn check_sampled(a: &CommonArgs) -> anyhow::Result<()> {
    let epochs = a.methods.iter().any(|m| m.delay().is_none());
    if a.sampling.is_sampled() && a.functional {
        bail!("--functional: not with --timing sampled, which estimates times");
    }
    if a.sampling.is_sampled() && epochs {
        bail!("--method epoch: not with --timing sampled: epochs are longer than windows");
    }
    Ok(())
}

/// How a run differs from others of the same program.
struct How {
    method: Option<Method>,
    seed: Option<u64>,
    /// Find out which functions wait.
    profile: bool,
}

/// A program, and the machine from which its runs start.
struct Prepared<'a> {
    a: &'a CommonArgs,
    program: Loaded,
    session: Session<'a>,
}

impl<'a> Prepared<'a> {
    /// On a machine with what variants need.
    fn with(
        a: &'a CommonArgs,
        (variants, nvmm): (&[&Variant], Option<NvmmSpec>),
        caller: &'a dyn Caller,
    ) -> anyhow::Result<Self> {
        Prepared::set(a, (variants, &[], nvmm), caller)
    }

    /// With further settings.
    fn set(
        a: &'a CommonArgs,
        (variants, more, nvmm): (&[&Variant], &[String], Option<NvmmSpec>),
        caller: &'a dyn Caller,
    ) -> anyhow::Result<Self> {
        let needs = variants
            .iter()
            .filter_map(|v| Some((v.setting()?, v.option())));
        let (mut set, mut options): (Vec<String>, Vec<String>) = needs.unzip();
        set.extend_from_slice(more);
        options.extend_from_slice(more);
        let prepared = Prepared::new(a, (&set, nvmm), caller);
        if options.is_empty() {
            prepared
        } else {
            prepared.with_context(|| options.join(" "))
        }
    }

    /// Checks everything that can be wrong before a machine is made; `set` are further settings.
    fn new(
        a: &'a CommonArgs,
        (set, nvmm): (&[String], Option<NvmmSpec>),
        caller: &'a dyn Caller,
    ) -> anyhow::Result<Self> {
        check_sampled(a)?;
        let program = Program {
            args: a.program.clone(),
            env: a.env.clone(),
            cwd: a.cwd.clone(),
            files: a
                .file
                .iter()
                .map(|f| (f.file.clone(), f.path.clone()))
                .collect(),
            stdin: stdin(a.stdin.as_deref())?,
            method: None,
            seed: a.seed,
            timing: match (a.functional, a.region_of_interest) {
                (true, _) => Timing::Off,
                (_, true) => Timing::Regions,
                _ => Timing::Whole,
            },
            warm_up: a.warm_up.filter(|_| !a.sampling.is_sampled()),
            sampling: a.sampling.asked(a.warm_up)?,
            limits: Limits {
                guest: a.timeout,
                host: a.host_timeout,
            },
            max_instructions: a.max_instructions,
        };
        let program = program.load()?;
        let mut machine = a.machine.choice();
        machine.set.extend_from_slice(set);
        let options = Options {
            machine,
            devices: a.devices.devices(),
            nvmm,
            placement: a.placement,
            rootfs: rootfs(a, program.executable()),
            modules: a.modules.modules.clone(),
            images: a.cache.source(),
            keep_boot: !a.no_boot_cache,
            engine: engine(a.engine),
            rtc: a.rtc,
            markers: !a.no_markers,
        };
        options.suits(program.executable())?;
        Ok(Prepared {
            a,
            program,
            session: Session::boot(options, caller)?,
        })
    }

    /// Samples all runs at the same places, if nothing else is asked for, so that their windows can be compared one by
    /// one; runs share the host's cores.
    fn same_windows(&mut self) {
        let a = &self.a.sampling;
        if let Some(asked) = &mut self.program.program.sampling {
            if a.error.is_none() {
                asked.plan.windows.get_or_insert(SAME_WINDOWS);
            }
            asked.plan.threads = a.sample_threads.map_or(1, |n| n as usize);
        }
    }

    /// Why the program could not be executed.
    fn failure(&self, why: &Why) -> anyhow::Error {
        let text = why.message().unwrap_or_default();
        let hint = match why {
            Why::Outcome(Outcome::Failed { errno, .. }) => self.program.executable().hint(*errno),
            _ => None,
        };
        match hint {
            Some(hint) => anyhow!(hint).context(text),
            None => anyhow!(text),
        }
    }

    /// Reports what the exit code does not show.
    fn tell(&self, why: &Why, messages: &Messages) {
        match (why, why.message()) {
            (Why::Outcome(Outcome::Failed { .. }), _) => messages.error(&self.failure(why)),
            (Why::Outcome(Outcome::Ended(e)), None) if e.status != 0 => {
                let words = self.a.program.iter().skip(1).map(String::as_str);
                tell_of_files(
                    words,
                    self.a.cwd.as_deref(),
                    &self.a.file,
                    &self.a.devices,
                    messages,
                );
            }
            (_, Some(text)) => messages.note(&text),
            (_, None) => {}
        }
    }

    /// Runs the program on a machine of its own, under a method and with a seed; runs it again
    /// after a power cut.
    fn run(
        &self,
        power: &PowerArgs,
        how: How,
        (inspect, bus): (&InspectArgs, Option<BusTrace>),
        interrupt: Interrupt,
        mut output: Output<'_>,
        messages: &Messages,
    ) -> anyhow::Result<RunResult> {
        let mut program = self.program.clone();
        program.program.method = how.method;
        program.program.seed = how.seed;
        let mut running = self.session.start(&program)?;
        if output.shown() && !messages.quiet() {
            output.show_progress();
        }
        let mut inspect = inspect.clone();
        let symbols = program.executable().symbols();
        inspect.profile_symbols.extend(symbols);
        let name = program.program.args.first().map(String::as_str);
        let own = (name, &Default::default());
        let profiling = if how.profile {
            Some(Profiling::collect(&mut running.machine, &inspect, own)?)
        } else {
            Profiling::start(&mut running.machine, &inspect, own)?
        };
        running.holders = remote::services(&inspect, false, messages)?;
        if let Some(trace) = bus {
            running.holders.push(Box::new(trace));
        }
        running.power = power.cuts();
        running.pass_interrupt = interrupt == Interrupt::Passes;
        let vectors = Vectors::begin(&self.a.sampling, &mut running.machine)?;
        let run = running.wait(&mut output)?;
        let m = &mut running.machine;
        if let Some(v) = vectors {
            v.end(m)?;
        }
        let mut functions = Vec::new();
        if let Some(p) = profiling {
            functions = p.finish(m, run.sampled.as_deref())?;
        }
        if m.markers_refused() > 0 {
            let n = m.markers_refused();
            eprintln!("nagori: {n} markers of the program asked for something impossible");
        }
        let result = RunResult::of(run, m, (!self.a.functional, self.a.strict));
        Ok(RunResult {
            functions,
            ..result
        })
    }
}

/// What has failed in the guest may have looked for files of the host: says which of its words name some.
pub fn tell_of_files<'a>(
    words: impl Iterator<Item = &'a str>,
    cwd: Option<&str>,
    files: &[FileArg],
    devices: &DeviceArgs,
    messages: &Messages,
) {
    if !devices.devices().shares.is_empty() {
        return;
    }
    let files: Vec<_> = { files.iter() }
        .map(|f| (f.file.clone(), f.path.clone()))
        .collect();
    let home = Path::new(cwd.unwrap_or("/root"));
    for word in left_on_host(words, home, &files) {
        let there = in_guest(word, home);
        messages.note(&format!(
            "{word} is a file of this host, which the guest does not have: --file {word}:{} puts it there, --share . \
                the folder",
            there.display()
        ));
    }
}

/// The input chosen by --stdin.
fn stdin(given: Option<&Path>) -> anyhow::Result<Stdin> {
    // A copy of the descriptor: the program may read to the end of it and close it.
    let own = || -> anyhow::Result<_> {
        let fd = rustix::io::dup(std::io::stdin()).context("cannot read standard input")?;
        Ok(Arc::new(fd))
    };
    match given {
        Some(p) if p == Path::new("none") => Ok(Stdin::None),
        Some(p) => match File::open(p).and_then(|f| f.metadata()) {
            Ok(m) if m.is_dir() => bail!("--stdin {}: it is a directory", p.display()),
            Ok(_) => Ok(Stdin::File(p.into())),
            Err(e) => Err(e).with_context(|| format!("--stdin {}", p.display())),
        },
        None => Ok(match fstat(std::io::stdin()) {
            Ok(s) => match FileType::from_raw_mode(s.st_mode) {
                FileType::RegularFile => Stdin::Open(own()?),
                FileType::CharacterDevice if !rustix::termios::isatty(std::io::stdin()) => {
                    Stdin::Open(own()?)
                }
                _ => Stdin::Live(own()?),
            },
            Err(_) => Stdin::None,
        }),
    }
}
