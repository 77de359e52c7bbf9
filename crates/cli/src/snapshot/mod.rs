//! `nagori snapshot` and `nagori resume`: snapshots of machines.

mod args;

pub use args::{ResumeArgs, SnapshotCommand};

use crate::console;
use crate::guest::{self, Attended};
use anyhow::bail;
use nagori_platform::loader::{Plan, Symbols};
use nagori_session::devices::Devices;
use nagori_session::drive::htif::Words;
use nagori_session::guest::Agreed;
use nagori_session::snapshot::{cache, open, restore};
use nagori_session::software::{self, Software};
use nagori_session::words::bytes;
use nagori_session::{image, rtc, Job};
use nagori_snapshot::{Header, Snapshot};
use nagori_terminal::args::{CacheArgs, MachineArgs, ModulesArgs};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Script of a guest whose boot is cached: it requests the snapshot, then becomes a shell.
const SHELL: &str = "nagori-ctl snapshot && cd /root && setsid cttyhack sh -l";

/// Runs `nagori resume`.
pub fn resume(a: &ResumeArgs, messages: &Messages) -> anyhow::Result<Exit> {
    // A file that is not a snapshot is refused before other files are created.
    let isa = open(&a.file)?.header().description.config.extensions();
    let tracer = guest::tracer(&a.run_args, isa, &Symbols::default())?;
    let devices = a.devices.devices();
    devices.check_noted(&open(&a.file)?.header().meta)?;
    let started = Instant::now();
    let mut settings = a.set.clone();
    settings.extend(a.run_args.settings());
    let mut machine = restore(&a.file, &settings)?;
    if let Some(t) = tracer {
        machine.set_event_sink(Some(Box::new(t)));
    }
    let took = started.elapsed().as_secs_f64();
    messages.note(&format!("{}: restored in {took:.2} s", a.file.display()));
    if a.run_args.timed || a.run_args.functional {
        machine.set_timed(a.run_args.timed);
    }
    if let Some(image) = &a.run_args.nvmm.nvmm_image {
        image.attach(&mut machine)?;
    }
    let sampled = a.run_args.sampling.is_sampled();
    if let Some(n) = a.run_args.warm_up.filter(|_| !sampled) {
        machine.set_warm_up(n);
    }
    if let Some(rtc) = a.run_args.rtc {
        machine.set_rtc(rtc.seconds());
    }
    let software = machine.software();
    // The options of the run also apply to the machine after a power cut.
    let first = software.is_some_and(|s| s.timed);
    let words = software.and_then(|s| s.tohost).map(|tohost| Words {
        tohost,
        fromhost: None,
    });
    let job = Job {
        htif: Agreed {
            words,
            signature: None,
        },
        timed: (first || a.run_args.timed) && !a.run_args.functional,
        send_end: true,
        ..guest::job(Plan::default(), &a.run_args)
    };
    let attended = Attended {
        args: &a.run_args,
        console: console::Options {
            interactive: true,
            interrupt: false,
        },
        program: None,
        symbols: Symbols::default(),
        devices: &devices,
    };
    guest::run(machine, job, attended, messages)
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
            let dir = boots(cache)?;
            for e in cache::prune(&dir, *keep, days, *dry_run)? {
                let verb = if *dry_run { "would remove" } else { "removed" };
                messages.note(&format!("{verb} {} ({})", e.path.display(), bytes(e.bytes)));
            }
        }
    }
    Ok(SUCCESS)
}

/// Where cached boots are.
fn boots(cache: &CacheArgs) -> anyhow::Result<PathBuf> {
    Ok(cache::dir(&cache.options()?.cache_dir))
}

/// Prints where a cached boot to a shell is.
fn boot_once(
    machine: &MachineArgs,
    append: &Option<String>,
    modules: &ModulesArgs,
    cache: &CacheArgs,
    messages: &Messages,
) -> anyhow::Result<()> {
    let image = image::build(&cache.options_with(modules)?, messages)?;
    let description = rtc::of_image(machine.resolve(&[])?, Some(&image), None)?;
    let software = Software {
        append: append.clone(),
        run: Some(SHELL.into()),
        ..Software::default()
    };
    let plan = software::plan(&description, &software, Some(&image))?;
    let what = cache::Boot {
        description: &description,
        plan: &plan,
        label: None,
        depends: &[],
        what: "a shell",
        devices: &Devices::default(),
        nvmm: None,
    };
    let booted = cache::boot(&boots(cache)?, cache.cache_limit, &what, messages)?;
    output::print(&format!("{}\n", booted.path().display()))
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

fn verify(files: &[PathBuf], messages: &Messages) -> anyhow::Result<Exit> {
    let mut bad = 0;
    for f in files {
        let sound = || -> anyhow::Result<()> { Ok(open(f)?.verify()?) };
        match sound() {
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
    let entries = cache::entries(&boots(cache)?)?;
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
