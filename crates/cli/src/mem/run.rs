//! `nagori mem run`.

use crate::mem::args::{ModeName, PlayArgs, RunArgs};
use crate::mem::commands::Log;
use crate::mem::memory::{self, Memory};
use crate::mem::report::{About, Report};
use crate::mem::{draw, gen};
use anyhow::{bail, Context};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use nagori_memtime::MemoryModel;
use nagori_memtrace::drive::{self, Mode, Options, Outcome};
use nagori_memtrace::gen::Generator;
use nagori_memtrace::input::{self, Position, Reader};
use nagori_memtrace::{Error, Source, Times, Unaligned};
use nagori_session::{Caller, Interrupted};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SIGNAL, SUCCESS};
use nagori_terminal::plot::LookArgs;
use nagori_terminal::tables::grouped;
use rustix::time::{clock_gettime, ClockId};
use std::path::{Path, PathBuf};

/// An open trace, and how much of it has been read.
pub struct Trace {
    pub source: Box<dyn Source + Send>,
    pub format: String,
    /// Whether its accesses have times.
    timed: bool,
    length: Length,
}

enum Length {
    Records(u64),
    Bytes(u64, Position),
    Unknown,
}

impl Trace {
    /// Opens a file or begins a pattern.
    pub fn open(name: &str, a: &PlayArgs, memory: &Memory) -> anyhow::Result<Trace> {
        if let Some(text) = name.strip_prefix("gen:") {
            if a.format.is_some() {
                bail!("--format: a generated trace has none");
            }
            if a.region.is_some() {
                bail!("--region: a generated trace has none");
            }
            let spec = gen::spec(text)?;
            let count = spec.count;
            return Ok(Trace {
                timed: spec.gap > 0,
                source: Box::new(Generator::new(spec)?),
                format: "generated".into(),
                length: Length::Records(a.limit.map_or(count, |l| l.min(count))),
            });
        }
        let options = input::Options {
            format: a.format,
            skip_other: a.skip_other,
            compose: memory.compose(),
            region: a.region.clone(),
        };
        let region = a.region.is_some();
        let (reader, size) = if name == "-" {
            (
                Reader::new("standard input".into(), std::io::stdin(), options)?,
                None,
            )
        } else {
            let path = Path::new(name);
            let size = path
                .metadata()
                .ok()
                .filter(|m| m.is_file())
                .map(|m| m.len());
            (input::open(path, options)?, size)
        };
        if region && reader.format() != nagori_memtrace::Format::Bus {
            bail!("--region: only traces of a machine's bus (--trace bus) know regions");
        }
        Ok(Trace {
            format: reader.format().to_string(),
            timed: reader.times() != Times::None,
            length: match (size, a.limit) {
                (_, Some(l)) => Length::Records(l),
                (Some(n), None) => Length::Bytes(n, reader.position()),
                (None, None) => Length::Unknown,
            },
            source: Box::new(reader),
        })
    }

    fn bar(&self, messages: &Messages) -> ProgressBar {
        if messages.quiet() {
            return ProgressBar::hidden();
        }
        let (bar, template) = match self.length {
            Length::Records(n) => (
                ProgressBar::new(n),
                "{bar:32} {human_pos}/{human_len} accesses  {elapsed}  {eta} left",
            ),
            Length::Bytes(n, _) => (
                ProgressBar::new(n),
                "{bar:32} {bytes}/{total_bytes}  {elapsed}  {eta} left",
            ),
            Length::Unknown => (
                ProgressBar::no_length(),
                "{spinner} {human_pos} requests  {elapsed}",
            ),
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a template"));
        bar
    }
}

/// The options of the driver.
pub fn options(a: &PlayArgs) -> anyhow::Result<Options> {
    let needs = |mode: ModeName, name: &str| -> anyhow::Result<()> {
        if a.mode() != mode {
            let mode = mode_name(mode);
            bail!(
                "{name} belongs to --mode {mode}; the mode is {}",
                mode_name(a.mode())
            );
        }
        Ok(())
    };
    if a.interval.is_some() {
        needs(ModeName::Paced, "--interval")?;
    }
    if a.cycle.is_some() {
        needs(ModeName::Timestamped, "--cycle")?;
    }
    if a.think.0 > 0 {
        needs(ModeName::Dependent, "--think")?;
    }
    if a.per_clock != 1 {
        needs(ModeName::Saturated, "--per-clock")?;
    }
    let mode = match a.mode() {
        ModeName::Saturated => Mode::Saturated {
            per_clock: a.per_clock,
        },
        ModeName::Dependent => Mode::Dependent { think: a.think },
        ModeName::Paced => Mode::Paced {
            interval: a
                .interval
                .context("--mode paced needs --interval, the time from one request to the next")?,
        },
        ModeName::Timestamped => Mode::Timestamped { cycle: a.cycle },
    };
    Ok(Options {
        mode,
        outstanding: a.outstanding,
        limit: a.limit,
        base: a.base,
        wrap: a.wrap,
        unaligned: a.unaligned,
        threads: 1,
    })
}

/// What is told of accesses that cross the end of a line.
pub fn unaligned(count: u64, records: u64, rule: Unaligned) -> String {
    let done = match rule {
        Unaligned::Truncate => {
            "were moved to its beginning (--unaligned split: a request for each line)"
        }
        _ => "became a request for each line (--unaligned truncate: one, at the line's beginning)",
    };
    format!(
        "{} of {} accesses cross the end of a line of 64 bytes; they {done}",
        grouped(count),
        grouped(records)
    )
}

/// What is told of a trace whose times nobody has asked to be ignored.
pub fn ignored_times(trace: &str) -> String {
    format!(
        "{trace} has times, which --mode saturated ignores (the default); --mode timestamped plays them"
    )
}

/// Name of a mode on the command line.
pub fn mode_name(m: ModeName) -> String {
    m.to_possible_value()
        .map_or(String::new(), |v| v.get_name().to_string())
}

/// Processor time of this thread, or of all threads of the process, in seconds.
fn cpu_seconds(all: bool) -> f64 {
    let t = clock_gettime(if all {
        ClockId::ProcessCPUTime
    } else {
        ClockId::ThreadCPUTime
    });
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Plays one trace into one memory, whose channels `threads` threads compute. `watch` is called
/// regularly to ask whether to continue.
pub fn play(
    memory: &Memory,
    trace_name: &str,
    mut trace: Trace,
    (a, threads): (&PlayArgs, u32),
    model: &mut dyn MemoryModel,
    watch: drive::Watch<'_>,
) -> anyhow::Result<Report> {
    let options = Options {
        threads,
        ..options(a)?
    };
    let before = cpu_seconds(threads > 1);
    let outcome: Outcome = drive::run(model, trace.source.as_mut(), options, watch)?;
    let cpu = cpu_seconds(threads > 1) - before;
    let about = About {
        memory: memory.name().to_string(),
        settings: memory.settings().to_vec(),
        trace: trace_name.to_string(),
        format: trace.format,
        mode: mode_name(a.mode()),
        ignored_times: trace.timed && a.mode.is_none(),
    };
    let stats = model.report(outcome.to);
    Ok(Report::new(about, outcome, stats, cpu))
}

/// The report for a caller that is no terminal.
///
/// # Errors
/// Files of results and pages are asked for, which nobody would write.
pub fn report_of(a: &RunArgs, caller: &dyn Caller) -> anyhow::Result<Report> {
    let files = [
        ("--output", a.output.is_some()),
        ("--commands", a.commands.is_some()),
        ("--html", a.html.is_some()),
    ];
    if let Some((option, _)) = files.iter().find(|(_, given)| *given) {
        bail!("{option}: no file is written here; `nagori mem run` writes it");
    }
    options(&a.play)?;
    let memory = memory::load_and_warn(&a.memory.memory, &a.memory.set, caller)?;
    let trace = Trace::open(&a.trace, &a.play, &memory)?;
    let mut model = memory.model()?;
    let mut watch = |_: &mut dyn MemoryModel, _| Ok(caller.interrupted().is_none());
    let how = (&a.play, a.threads);
    let played = play(&memory, &a.trace, trace, how, model.as_mut(), &mut watch);
    match (caller.interrupted(), played) {
        (Some(n), Err(e)) if matches!(e.downcast_ref(), Some(Error::Interrupted)) => {
            Err(Interrupted(n).into())
        }
        (_, played) => played,
    }
}

/// Runs the command.
pub fn command(a: &RunArgs, messages: &Messages) -> anyhow::Result<Exit> {
    if let Some(path) = &a.html {
        draw::check_name(path)?;
    }
    options(&a.play)?;
    let memory = memory::load_and_warn(&a.memory.memory, &a.memory.set, messages)?;
    let trace = Trace::open(&a.trace, &a.play, &memory)?;
    let mut model = memory.model()?;
    let signals = messages.signals();
    let open = |path: &Option<PathBuf>| path.as_deref().map(Staged::create).transpose();
    let result_file = open(&a.output).context("--output")?;
    let page_file = open(&a.html).context("--html")?;
    let mut log = match &a.commands {
        Some(path) => {
            model.set_command_log(true).with_context(|| {
                format!(
                    "--commands: {} keeps no log of commands; devices (ddr3, pcm, ...) and the board do, also behind a \
                        link, side by side and as a cache",
                    memory.name()
                )
            })?;
            Some(Log::create(
                path,
                a.commands_format,
                &model.command_parts(),
            )?)
        }
        None => None,
    };
    let bar = trace.bar(messages);
    let position = match &trace.length {
        Length::Bytes(_, p) => Some(p.clone()),
        _ => None,
    };
    let mut commands = Vec::new();
    let mut failure = None;
    let result = play(
        &memory,
        &a.trace,
        trace,
        (&a.play, a.threads),
        model.as_mut(),
        &mut |m, n| {
            bar.set_position(position.as_ref().map_or(n, Position::bytes));
            if let Some(log) = &mut log {
                m.take_commands(&mut commands);
                if let Err(e) = log.add(&commands) {
                    failure = Some(e);
                    return Ok(false);
                }
                commands.clear();
            }
            Ok(signals.caught().is_none())
        },
    );
    bar.finish_and_clear();
    if let Some(e) = failure {
        return Err(e);
    }
    let report = match result {
        Err(e) if matches!(e.downcast_ref(), Some(Error::Interrupted)) => {
            messages.note("interrupted; nothing is written");
            return Ok(Exit(SIGNAL + signals.caught().unwrap_or(2)));
        }
        r => r?,
    };
    let o = &report.outcome;
    if o.unaligned > 0 {
        messages.note(&unaligned(o.unaligned, o.records, a.play.unaligned));
    }
    if report.ignored_times {
        messages.note(&ignored_times(&a.trace));
    }
    // All contents are on the disk before the first file gets its name.
    let text = if a.json {
        format!("{:#}\n", serde_json::to_value(&report)?)
    } else {
        report.tables()
    };
    let mut files = Vec::new();
    match result_file {
        Some(mut file) => {
            file.fill(text.as_bytes()).context("--output")?;
            files.push(file);
        }
        None => output::print(&text).context("cannot write to stdout")?,
    }
    if let (Some(path), Some(mut file)) = (&a.html, page_file) {
        file.fill(&draw::report(path, &report, &LookArgs::default())?)
            .context("--html")?;
        files.push(file);
    }
    if let Some(log) = log {
        log.finish()?;
    }
    for f in files {
        f.finish()?;
    }
    Ok(SUCCESS)
}
