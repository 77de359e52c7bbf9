//! `nagori run` and `nagori compare`: programs on the machine.

mod args;
mod compare;
mod machine;
mod picture;
mod ports;
mod program;
mod protocol;
mod report;

pub use args::{CompareArgs, RunProgramArgs};
pub use compare::command as compare;
pub use program::is_dynamic;

use crate::args::{InspectArgs, RunArgs};
use crate::drive::{self, BoxedService, Loops, Service};
use crate::guest::{End, Job};
use crate::output::file::{self, Staged};
use crate::output::{Exit, Messages};
use crate::power::{Cutter, PowerArgs};
use crate::problems::{self, Asked};
use crate::profiling::Profiling;
use crate::remote;
use crate::rtc::Rtc;
use crate::signals::Interrupted;
use crate::tables;
use anyhow::{anyhow, bail, Context};
use args::CommonArgs;
use machine::Setup;
use nagori_memtime::Method;
use nagori_platform::machine::Quiet;
use ports::{Input, Limits, Output, Ports};
use program::Program;
use protocol::Placed;
use report::{Result as RunResult, Why};
use rustix::fs::{fstat, FileType};
use serde_json::json;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};

const SIGINT: u8 = 2;
/// Where a program without a share works.
const HOME: &str = "/root";

/// Runs `nagori run`.
pub fn command(a: &RunProgramArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let json = json_file(a.json.as_deref())?;
    if let Some(path) = &a.inspect.profile {
        file::check(path).context("--profile")?;
    }
    let prepared = Prepared::new(&a.common, messages)?;
    // A debugger has a Ctrl-C of its own for the program.
    let interrupt = match a.inspect.gdb {
        Some(_) => Interrupt::Ends,
        None => Interrupt::Passes,
    };
    let output = Output::new(true);
    let how = (a.method, a.common.seed);
    let result = prepared.run(&a.power, how, &a.inspect, interrupt, output, messages)?;
    prepared.tell(&result.why, messages);
    result.warn(messages);
    let shown = || {
        let text = match a.full {
            true => result.full.0.clone(),
            false => result.table(),
        };
        eprint!("\n{text}");
    };
    match json {
        Some(file) => {
            let mut value = result.json();
            value["program"] = json!(a.common.program);
            value["seed"] = json!(a.common.seed);
            value["host"] = json!({"cpu_seconds_to_start": result.start_cpu});
            write_json(file, &value, shown)?;
        }
        // Figures of something else than what was asked for would only mislead.
        None if (a.full || result.is_meaningful()) && !messages.quiet() => shown(),
        None => {}
    }
    Ok(result.exit())
}

/// What the first Ctrl-C does once the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// It goes to the program; the second one ends the run.
    Passes,
    /// It ends the run.
    Ends,
}

/// The file of `--json`, before there is something to write.
fn json_file(path: Option<&Path>) -> anyhow::Result<Option<Staged>> {
    path.map(Staged::create).transpose().context("--json")
}

/// Writes JSON. Where that fails in the end, the results are not lost: they are `shown`.
fn write_json(file: Staged, value: &serde_json::Value, shown: impl FnOnce()) -> anyhow::Result<()> {
    let written = file.put(format!("{value:#}\n").as_bytes());
    if written.is_err() {
        shown();
    }
    written.context("--json")
}

/// A program, and all that its runs share.
struct Prepared<'a> {
    a: &'a CommonArgs,
    program: Program,
    setup: Setup,
    job: Vec<u8>,
    stdin: Source,
}

/// Where input comes from, before it is opened.
enum Source {
    None,
    File(PathBuf),
    /// This command's stdin is a file.
    Own,
    Live,
}

impl<'a> Prepared<'a> {
    /// Checks everything that can be wrong before a machine is made.
    fn new(a: &'a CommonArgs, messages: &Messages) -> anyhow::Result<Self> {
        let program = Program::find(&a.program[0])?;
        let (file, exec) = program.place()?;
        let mut files: Vec<Placed> = file.into_iter().collect();
        for f in &a.file {
            let bytes = std::fs::read(&f.file)
                .with_context(|| format!("--file: cannot read {}", f.file.display()))?;
            files.push(Placed {
                path: f.path.clone(),
                mode: 0o755,
                bytes,
            });
        }
        let stdin = source(a.stdin.as_deref())?;
        let setup = Setup::new(a, &program, messages)?;
        let first = setup.mounts.first().map(|m| m.path.clone());
        let job = protocol::Job {
            files,
            mounts: setup.mounts.clone(),
            args: a.program.clone(),
            exec,
            env: setup.env.iter().chain(&a.env).cloned().collect(),
            cwd: a.cwd.clone().or(first).or(Some(HOME.into())),
            timed: !a.functional && !a.region_of_interest,
            stdin: !matches!(stdin, Source::None),
            network: !a.devices.net.is_empty(),
            node: setup.node,
            clock: a.rtc.map(Rtc::seconds),
        };
        Ok(Prepared {
            a,
            program,
            job: job.encode()?,
            setup,
            stdin,
        })
    }

    /// Tells what the exit code does not.
    fn tell(&self, why: &Why, messages: &Messages) {
        let Some(text) = why.message() else { return };
        match why {
            Why::Outcome(ports::Outcome::Failed { errno, .. }) => {
                let e = match self.program.hint(*errno) {
                    Some(hint) => anyhow!(hint).context(text),
                    None => anyhow!(text),
                };
                messages.error(&e);
            }
            _ => messages.note(&text),
        }
    }

    /// Runs the program on a machine of its own, under a method and with the randomness of a seed;
    /// again, if that loses its power.
    fn run(
        &self,
        power: &PowerArgs,
        (method, seed): (Option<Method>, Option<u64>),
        inspect: &InspectArgs,
        interrupt: Interrupt,
        output: Output,
        messages: &Messages,
    ) -> anyhow::Result<RunResult> {
        let a = self.a;
        let shown = output.shown();
        let (mut m, mut outside) = self.setup.machine(method, messages)?;
        m.set_warm_up(a.warm_up.unwrap_or(0));
        m.set_timed_regions(a.region_of_interest);
        let limits = Limits {
            guest: a.timeout,
            host: a.host_timeout,
        };
        let slot = self.setup.console;
        let mut messages_of_job = seed.map_or(Vec::new(), protocol::seed);
        messages_of_job.extend(&self.job);
        let mut ports = Ports::new(slot, messages_of_job, self.stdin.open()?, output, limits);
        if shown && !messages.quiet() {
            ports.show_progress();
        }
        let run_args = RunArgs {
            max_instructions: a.max_instructions.map(|n| n.saturating_add(m.steps())),
            ..RunArgs::default()
        };
        let job = Job::unattended(self.setup.nothing(), &run_args);
        let mut inspect = inspect.clone();
        inspect.profile_symbols.extend(self.program.symbols());
        let profiling = Profiling::start(&mut m, &inspect, &Default::default())?;
        // Whoever holds the machine comes first, and devices are asked last, as elsewhere.
        let mut holders = remote::services(&inspect, false, messages)?;
        let mut cutter = Cutter::new(power, messages).map(|c| c.starting_at(&m));
        let mut asked = false;
        let mut loops = Loops::new(messages);
        let end = loop {
            let mut services: Vec<BoxedService<'_, Quiet>> = Vec::new();
            services.extend(holders.iter_mut().map(borrowed));
            services.push(Box::new(&mut ports));
            services.push(Box::new(&mut loops));
            services.extend(
                cutter
                    .as_mut()
                    .map(|c| Box::new(c) as BoxedService<'_, Quiet>),
            );
            services.extend(outside.iter_mut().map(borrowed));
            let end = drive::drive(&mut m, &mut services, messages.signals(), &job)?;
            drop(services);
            // The first Ctrl-C is the program's.
            let passes = interrupt == Interrupt::Passes && ports.started();
            if end == End::Signal(SIGINT) && !asked && passes {
                asked = true;
                messages.signals().forget();
                ports.signal(SIGINT.into());
                continue;
            }
            if end == End::PowerCut && cutter.as_ref().is_some_and(|c| !c.is_over()) {
                self.setup.start_anew(&mut m)?;
                ports = ports.again(self.job.clone(), self.stdin.open_again()?);
                continue;
            }
            break end;
        };
        for s in &mut holders {
            s.finish(&mut m)?;
        }
        if let Some(c) = &mut cutter {
            Service::<Quiet>::finish(c, &mut m)?;
        }
        if let Some(p) = profiling {
            p.finish(&mut m)?;
        }
        let (begun, start_cpu) = (ports.started(), ports.start_cpu());
        let (outcome, sums) = ports.finish();
        let why = match (outcome, end) {
            (Some(o), _) => Why::Outcome(o),
            (None, End::Off(code)) => Why::Off(code),
            (None, End::Limit) => Why::Instructions,
            // Of a program that has not begun there is nothing to tell.
            (None, End::Signal(n)) if !begun => return Err(Interrupted(n).into()),
            (None, End::Signal(n)) => Why::Signal(n),
            (None, End::Time) => Why::Time,
            (None, End::PowerCut) => Why::PowerCut,
            (None, _) => Why::Stuck,
        };
        let (report, regions) = report::of_program(&m, a.region_of_interest);
        let asked = Asked {
            regions: a.region_of_interest,
            warm_up: a.warm_up,
        };
        let problems = match why {
            // It never began.
            Why::Outcome(ports::Outcome::Failed { .. }) => Vec::new(),
            _ => problems::of(&m, asked),
        };
        if m.markers_refused() > 0 {
            let n = m.markers_refused();
            eprintln!("nagori: {n} markers of the program asked for something impossible");
        }
        Ok(RunResult {
            why,
            report,
            regions,
            problems,
            timed: !a.functional,
            full: (tables::machine(&m), tables::machine_json(&m)),
            sums,
            start_cpu,
        })
    }
}

fn borrowed<'a>(service: &'a mut BoxedService<'_, Quiet>) -> BoxedService<'a, Quiet> {
    Box::new(&mut **service)
}

/// What --stdin says.
fn source(given: Option<&Path>) -> anyhow::Result<Source> {
    match given {
        Some(p) if p == Path::new("none") => Ok(Source::None),
        Some(p) => match File::open(p).and_then(|f| f.metadata()) {
            Ok(m) if m.is_dir() => bail!("--stdin {}: it is a directory", p.display()),
            Ok(_) => Ok(Source::File(p.into())),
            Err(e) => Err(e).with_context(|| format!("--stdin {}", p.display())),
        },
        None => Ok(match fstat(std::io::stdin()) {
            Ok(s) => match FileType::from_raw_mode(s.st_mode) {
                FileType::RegularFile => Source::Own,
                FileType::CharacterDevice if !rustix::termios::isatty(std::io::stdin()) => {
                    Source::Own
                }
                _ => Source::Live,
            },
            Err(_) => Source::None,
        }),
    }
}

impl Source {
    /// From the beginning, also if it has been read.
    fn open_again(&self) -> anyhow::Result<Input> {
        let mut input = self.open()?;
        if let Input::File(f) = &mut input {
            f.rewind().context("cannot read the input again")?;
        }
        Ok(input)
    }

    fn open(&self) -> anyhow::Result<Input> {
        Ok(match self {
            Source::None => Input::None,
            Source::Live => Input::Live,
            Source::File(p) => {
                Input::File(File::open(p).with_context(|| format!("--stdin {}", p.display()))?)
            }
            Source::Own => {
                let fd = rustix::io::dup(std::io::stdin()).context("cannot read standard input")?;
                Input::File(File::from(fd))
            }
        })
    }
}
