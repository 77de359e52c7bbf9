//! `nagori mem record`.

use crate::mem::args::RecordArgs;
use crate::mem::memory;
use anyhow::{bail, Context};
use nagori_memtrace::convert::{convert, times, Options, Outcome};
use nagori_memtrace::format::Compression;
use nagori_memtrace::output::Writer;
use nagori_memtrace::{Error, Source};
use nagori_session::record::{self, Recorder, Recording};
use nagori_session::MachineChoice;
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{Exit, Messages, SIGNAL};
use nagori_terminal::tables::grouped;
use std::os::unix::process::ExitStatusExt;

/// Runs the command; the exit code is that of the program.
pub fn command(a: &RecordArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let memory = a.memory.as_deref();
    let memory = memory.map(|m| memory::load(m, &[])).transpose()?;
    let o = Options {
        cycle: a.cycle,
        limit: a.limit,
        ..Options::default()
    };
    let unit = times(a.to, nagori_memtrace::Times::Cycles, &o)?;
    let name = a.output.display().to_string();
    let file = Staged::create(&a.output).context("--output")?;
    if file.is_stdout() {
        bail!("--output -: stdout belongs to the program; name a file");
    }
    let report = a.report.as_deref().map(Staged::create).transpose();
    let report = report.context("--report")?;
    let details = memory::details(memory.as_ref(), None);
    let compression = Compression::of_name(&name);
    let mut to = Writer::with_details(name.clone(), file, a.to, compression, unit, details)?;
    let (program, args) = a.program.split_first().context("no program")?;
    let mut recorder = Recorder::start(
        &record::Options {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            skip: a.skip,
            machine: MachineChoice {
                machine: a.machine.clone(),
                set: a.set.clone(),
            },
        },
        messages,
    )?;
    let signals = messages.signals();
    let source: &mut dyn Source = &mut recorder;
    let done = convert(source, &mut to, a.to, &o, &mut |_| {
        signals.caught().is_none()
    });
    if let Some(signal) = signals.caught() {
        messages.note("interrupted; nothing is written");
        return Ok(Exit(SIGNAL + signal));
    }
    let done = match done {
        Err(Error::Interrupted) => return Ok(Exit(SIGNAL + 2)),
        d => d?,
    };
    let recording = recorder.finish()?;
    to.finish()?.finish()?;
    if let Some(mut file) = report {
        let text = format!("{:#}\n", json(&done, &recording));
        file.fill(text.as_bytes()).context("--report")?;
        file.finish()?;
    }
    tell(a, &name, &done, &recording, messages);
    Ok(match recording.status {
        Some(s) => match (s.code(), s.signal()) {
            (Some(code), _) => Exit(code as u8),
            (None, n) => Exit(SIGNAL.saturating_add(n.unwrap_or(0) as u8)),
        },
        None => Exit(0),
    })
}

fn tell(a: &RecordArgs, name: &str, d: &Outcome, r: &Recording, messages: &Messages) {
    if d.times_lost {
        messages.note(&format!(
            "the times are left out: the format {} has none",
            a.to
        ));
    }
    if r.status.is_none() {
        messages.note("the program was ended after --limit accesses");
    }
    if d.written == 0 && a.skip > 0 {
        messages.warning(&format!(
            "nothing is recorded: the program has {} instructions, --skip leaves out {}",
            grouped(r.instructions),
            grouped(a.skip)
        ));
    }
    let mut levels = format!(
        "L1I {} of {} missed, L1D {} of {}",
        grouped(r.first.fetch_misses),
        grouped(r.first.fetches),
        grouped(r.first.load_misses + r.first.store_misses),
        grouped(r.first.loads + r.first.stores)
    );
    for (level, hits, misses) in &r.levels {
        levels += &format!(
            ", {level} {} of {}",
            grouped(*misses),
            grouped(hits + misses)
        );
    }
    messages.note(&format!(
        "{} accesses of {} instructions in {name}; {levels}",
        grouped(d.written),
        grouped(r.instructions)
    ));
}

fn json(d: &Outcome, r: &Recording) -> serde_json::Value {
    let level = |level: &(String, u64, u64)| {
        let (name, hits, misses) = level;
        serde_json::json!({"name": name, "hits": hits, "misses": misses})
    };
    serde_json::json!({
        "instructions": r.instructions,
        "records": d.written,
        "touched_bytes": r.touched,
        "exit_code": r.status.and_then(|s| s.code()),
        "signal": r.status.and_then(|s| s.signal()),
        "l1": r.first,
        "levels": r.levels.iter().map(level).collect::<Vec<_>>(),
    })
}
