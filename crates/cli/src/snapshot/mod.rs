//! `nagori snapshot` and `nagori resume`: machines in files.

mod args;
pub mod cache;
mod take;

pub use args::{ResumeArgs, SnapshotCommand, TakeArgs};
pub use take::Taker;

use crate::args::{CacheArgs, MachineArgs, ModulesArgs};
use crate::boot::{self, Software};
use crate::console;
use crate::drive::htif::Words;
use crate::guest::{self, Agreed, Job};
use crate::image;
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::rtc;
use crate::trace::{Tracer, Watch};
use anyhow::{bail, Context};
use nagori_hart::world::Observer;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::Plan;
use nagori_platform::machine::{Machine, Quiet};
use nagori_platform::snapshot::{Header, Snapshot};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What a guest runs whose boot is cached: asks for the snapshot, then is a shell.
const SHELL: &str = "nagori-ctl snapshot && cd /root && setsid cttyhack sh -l";

/// A number of bytes for people.
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", n as f64 / 1_073_741_824.0),
    }
}

/// Opens a snapshot, with its name in what goes wrong.
pub fn open(path: &Path) -> anyhow::Result<Snapshot> {
    Snapshot::open(path).with_context(|| format!("cannot use the snapshot {}", path.display()))
}

/// A machine that goes on from a snapshot, with its description changed by settings, and with what it
/// starts anew with.
pub fn restore<O: Observer>(
    path: &Path,
    settings: &[String],
    observer: O,
) -> anyhow::Result<Machine<O>> {
    let snapshot = open(path)?;
    let description: Description = snapshot.header().description.with(settings)?;
    let fails = || format!("cannot go on from {}", path.display());
    let mut machine = snapshot
        .machine_as(&description, observer)
        .with_context(fails)?;
    let software = snapshot.software().with_context(fails)?;
    machine.set_software(software.map(Arc::new));
    Ok(machine)
}

/// Runs `nagori resume`.
pub fn resume(a: &ResumeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    match &a.run_args.trace_file {
        Some(path) => {
            // What is no snapshot leaves no trace.
            let isa = open(&a.file)?.header().description.config.extensions();
            let tracer = Tracer::create(path, &a.run_args.trace, isa, Default::default())?;
            resume_with(a, tracer, messages)
        }
        None => resume_with(a, Quiet, messages),
    }
}

fn resume_with<O: Watch>(a: &ResumeArgs, observer: O, messages: &Messages) -> anyhow::Result<Exit> {
    a.devices.check_noted(&open(&a.file)?.header().meta)?;
    let started = Instant::now();
    let mut settings = a.set.clone();
    settings.extend(a.run_args.settings());
    let mut machine = restore(&a.file, &settings, observer)?;
    let took = started.elapsed().as_secs_f64();
    messages.note(&format!("{}: restored in {took:.2} s", a.file.display()));
    if a.run_args.timed || a.run_args.functional {
        machine.set_timed(a.run_args.timed);
    }
    if let Some(n) = a.run_args.warm_up {
        machine.set_warm_up(n);
    }
    if let Some(rtc) = a.run_args.rtc {
        machine.set_rtc(rtc.seconds());
    }
    let software = machine.software();
    // What the run says counts for the machine behind a power cut, too.
    let first = software.is_some_and(|s| s.timed);
    let job = Job {
        plan: Plan::default(),
        symbols: Default::default(),
        htif: Agreed {
            words: software.and_then(|s| s.tohost).map(|tohost| Words {
                tohost,
                fromhost: None,
            }),
            signature: None,
        },
        timed: (first || a.run_args.timed) && !a.run_args.functional,
        console: console::Options {
            interactive: true,
            interrupt: false,
            send_end: true,
        },
        args: &a.run_args,
        devices: Some(&a.devices),
    };
    guest::run(machine, job, messages)
}

/// Runs `nagori snapshot`.
pub fn command(command: &SnapshotCommand, messages: &Messages) -> anyhow::Result<Exit> {
    match command {
        SnapshotCommand::Boot {
            machine,
            append,
            modules,
            cache,
        } => boot_once(machine, append, modules, cache, messages)?,
        SnapshotCommand::Show { file, json } => show(file, *json)?,
        SnapshotCommand::Verify { files } => return verify(files, messages),
        SnapshotCommand::List { cache, json } => list(cache, *json)?,
        SnapshotCommand::Prune {
            cache,
            keep,
            older_than,
            dry_run,
        } => {
            let days = older_than.map(|d| Duration::from_secs(d.saturating_mul(86_400)));
            let dir = cache::dir(cache)?;
            for e in cache::prune(&dir, *keep, days, *dry_run)? {
                let verb = if *dry_run { "would remove" } else { "removed" };
                messages.note(&format!("{verb} {} ({})", e.path.display(), bytes(e.bytes)));
            }
        }
    }
    Ok(SUCCESS)
}

/// Prints where a cached boot to a shell is.
fn boot_once(
    machine: &MachineArgs,
    append: &Option<String>,
    modules: &ModulesArgs,
    cache: &CacheArgs,
    messages: &Messages,
) -> anyhow::Result<()> {
    let image = image::build(&image::options_with(cache, modules)?, messages)?;
    let description = rtc::of_image(machine.resolve(&[])?, Some(&image), None)?;
    let software = Software {
        append: append.clone(),
        run: Some(SHELL.into()),
        ..Software::default()
    };
    let plan = boot::plan(&description, &software, Some(&image))?;
    let what = cache::Boot {
        description: &description,
        plan: &plan,
        label: None,
        depends: &[],
        what: "a shell",
        connect: &|_| Ok(()),
    };
    let path = cache::boot(&cache::dir(cache)?, &what, messages)?;
    output::print(&format!("{}\n", path.display()))
}

fn show(path: &Path, as_json: bool) -> anyhow::Result<()> {
    let s = open(path)?;
    let h = s.header();
    if as_json {
        let mut value = serde_json::to_value(h)?;
        value["file_bytes"] = json!(s.file_bytes());
        value["memory_bytes"] = json!(s.memory_bytes());
        return output::print_json(&value);
    }
    let mode = if h.timed { "timed" } else { "functional" };
    let mut rows = vec![
        ("machine", h.description.config.name.clone()),
        ("description", h.description_hash.clone()),
        ("program", format!("nagori {}", h.program)),
        ("mode", mode.into()),
        ("core cycles", h.cycle.to_string()),
        ("instructions", h.instructions.to_string()),
        ("memory", bytes(s.memory_bytes())),
        ("file", bytes(s.file_bytes())),
    ];
    for (key, value) in &h.meta {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), String::from);
        rows.push((key, text));
    }
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(k, v)| format!("{k:width$}  {v}\n"));
    output::print(&lines.collect::<String>())
}

fn verify(files: &[std::path::PathBuf], messages: &Messages) -> anyhow::Result<Exit> {
    let mut bad = 0;
    for f in files {
        match open(f).and_then(|s| Ok(s.verify()?)) {
            Ok(()) => output::print(&format!("{}: sound\n", f.display()))?,
            Err(e) => {
                bad += 1;
                messages.error(&e.context(f.display().to_string()));
            }
        }
    }
    if bad > 0 {
        bail!("{bad} of {} cannot be used", files.len());
    }
    Ok(SUCCESS)
}

fn list(cache: &CacheArgs, as_json: bool) -> anyhow::Result<()> {
    let entries = cache::entries(&cache::dir(cache)?)?;
    let headers = entries.iter().map(|e| (e, Snapshot::open(&e.path).ok()));
    let headers = headers.map(|(e, s)| (e, s.map(|s| s.header().clone())));
    let age = |e: &cache::Entry| {
        let age = SystemTime::now().duration_since(e.used).unwrap_or_default();
        age.as_secs()
    };
    let name = |h: &Option<Header>| match h {
        Some(h) => h.description.config.name.clone(),
        None => "(unreadable)".into(),
    };
    let what = |h: &Option<Header>| {
        let what = h
            .as_ref()
            .and_then(|h| h.meta.get("what")?.as_str().map(String::from));
        what.unwrap_or_default()
    };
    if as_json {
        let all: Vec<_> = headers
            .map(|(e, h)| {
                json!({"path": e.path, "bytes": e.bytes, "used_seconds_ago": age(e),
                       "machine": h.as_ref().map(|_| name(&h)), "what": what(&h)})
            })
            .collect();
        return output::print_json(&json!(all));
    }
    let mut text = String::new();
    for (e, h) in headers {
        let hours = age(e) / 3600;
        let size = bytes(e.bytes);
        let path = e.path.display();
        text += &format!(
            "{path}  {size:>10}  {hours:>5} h  {}  {}\n",
            name(&h),
            what(&h)
        );
    }
    output::print(&text)
}
