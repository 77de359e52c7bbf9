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

use crate::args::{InspectArgs, RunArgs};
use crate::drive::{self, BoxedService};
use crate::guest::{End, Job};
use crate::output::{self, Exit, Messages};
use crate::profiling::Profiling;
use crate::remote;
use crate::signals::Signals;
use crate::{console, tables};
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
use std::path::{Path, PathBuf};

const SIGINT: u8 = 2;
/// Where a program without a share works.
const HOME: &str = "/root";

/// Runs `nagori run`.
pub fn command(a: &RunProgramArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let prepared = Prepared::new(&a.common, messages)?;
    let signals = Signals::catch()?;
    let output = Output::new(true);
    let result = prepared.run(a.method, &a.inspect, &signals, output, messages)?;
    prepared.tell(&result.why, messages);
    match &a.json {
        Some(path) => {
            let mut value = result.json();
            value["program"] = json!(a.common.program);
            value["host"] = json!({"cpu_seconds_to_start": result.start_cpu});
            write_json(path, &value)?;
        }
        None if !messages.quiet() => {
            let text = match a.full {
                true => result.full.0.clone(),
                false => result.table(),
            };
            eprint!("\n{text}");
        }
        None => {}
    }
    Ok(result.why.exit())
}

/// Writes JSON to a file, or to stdout for `-`.
fn write_json(path: &Path, value: &serde_json::Value) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return output::print_json(value);
    }
    std::fs::write(path, format!("{value:#}\n"))
        .with_context(|| format!("cannot write the statistics to {}", path.display()))
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

    /// Runs the program on a machine of its own.
    fn run(
        &self,
        method: Option<Method>,
        inspect: &InspectArgs,
        signals: &Signals,
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
        let mut ports = Ports::new(slot, self.job.clone(), self.stdin.open()?, output, limits);
        if shown && !messages.quiet() {
            ports.show_progress();
        }
        let run_args = RunArgs {
            max_instructions: a.max_instructions.map(|n| n.saturating_add(m.steps())),
            ..RunArgs::default()
        };
        let job = Job {
            plan: self.setup.nothing(),
            symbols: Default::default(),
            tohost: None,
            timed: false,
            console: console::Options {
                interactive: false,
                send_end: false,
            },
            args: &run_args,
            devices: None,
        };
        let mut inspect = inspect.clone();
        inspect.profile_symbols.extend(self.program.symbols());
        let profiling = Profiling::start(&mut m, &inspect, &Default::default())?;
        // Whoever holds the machine comes first, and devices are asked last, as elsewhere.
        let mut holders = remote::services(&inspect, false, messages)?;
        let mut asked = false;
        let end = loop {
            let mut services: Vec<BoxedService<'_, Quiet>> = Vec::new();
            services.extend(holders.iter_mut().map(borrowed));
            services.push(Box::new(&mut ports));
            services.extend(outside.iter_mut().map(borrowed));
            let end = drive::drive(&mut m, &mut services, signals, &job)?;
            drop(services);
            // The first Ctrl-C is the program's.
            if end == End::Signal(SIGINT) && !asked && ports.started() && shown {
                asked = true;
                signals.forget();
                ports.signal(SIGINT.into());
                continue;
            }
            break end;
        };
        for s in &mut holders {
            s.finish(&mut m)?;
        }
        if let Some(p) = profiling {
            p.finish(&mut m)?;
        }
        let start_cpu = ports.start_cpu();
        let (outcome, sums) = ports.finish();
        let why = match (outcome, end) {
            (Some(o), _) => Why::Outcome(o),
            (None, End::Off(code)) => Why::Off(code),
            (None, End::Limit) => Why::Instructions,
            (None, End::Signal(n)) => Why::Signal(n),
            (None, _) => Why::Stuck,
        };
        let (report, regions) = report::of_program(&m, a.region_of_interest);
        if m.markers_refused() > 0 {
            let n = m.markers_refused();
            eprintln!("nagori: {n} markers of the program asked for something impossible");
        }
        Ok(RunResult {
            why,
            report,
            regions,
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
