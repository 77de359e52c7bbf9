//! `nagori mem convert`.

use crate::mem::args::ConvertArgs;
use crate::mem::run::unaligned;
use crate::mem::{gen, memory};
use anyhow::{bail, Context};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_memtrace::convert::{convert, times, Options, Outcome};
use nagori_memtrace::format::Compression;
use nagori_memtrace::gen::Generator;
use nagori_memtrace::input::{self, Reader};
use nagori_memtrace::output::Writer;
use nagori_memtrace::{Error, Format, Source};
use nagori_terminal::output::file::Staged;
use nagori_terminal::output::{self, Exit, Messages, SIGNAL, SUCCESS};
use nagori_terminal::tables::grouped;
use std::path::Path;

fn open(
    a: &ConvertArgs,
    compose: Option<nagori_memtrace::text::Compose>,
) -> anyhow::Result<(Box<dyn Source>, Option<Format>)> {
    if let Some(text) = a.trace.strip_prefix("gen:") {
        if a.from.is_some() {
            bail!("--from: a generated trace has no format");
        }
        return Ok((Box::new(Generator::new(gen::spec(text)?)?), None));
    }
    let options = input::Options {
        format: a.from,
        skip_other: a.skip_other,
        compose,
        region: a.region.clone(),
    };
    let reader = match a.trace.as_str() {
        "-" => Reader::new("standard input".into(), std::io::stdin(), options)?,
        path => input::open(Path::new(path), options)?,
    };
    let format = reader.format();
    Ok((Box::new(reader), Some(format)))
}

/// Runs the command.
pub fn command(a: &ConvertArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let memory = a.memory.as_deref();
    let memory = memory.map(|m| memory::load(m, &a.set)).transpose()?;
    let (mut source, from) = open(a, memory.as_ref().and_then(|m| m.compose()))?;
    if a.region.is_some() && from != Some(Format::Bus) && a.to != Format::Bus {
        bail!("--region: neither trace is one of a machine's bus");
    }
    let o = Options {
        cycle: a.cycle,
        gap: a.gap,
        unaligned: a.unaligned,
        base: a.base,
        limit: a.limit,
    };
    let unit = times(a.to, source.times(), &o)?;
    let details = memory::details(memory.as_ref(), a.region.clone());
    let name = a.output.display().to_string();
    let file = Staged::create(&a.output).context("--output")?;
    let shown = file.is_stdout();
    if shown && a.json {
        bail!("--json: the trace itself goes to stdout");
    }
    let compression = Compression::of_name(&name);
    let mut to = Writer::with_details(name.clone(), file, a.to, compression, unit, details)?;
    let bar = if messages.quiet() {
        ProgressBar::hidden()
    } else {
        ProgressBar::no_length()
    };
    let template = "{spinner} {human_pos} accesses  {elapsed}";
    bar.set_style(ProgressStyle::with_template(template).expect("a template"));
    let signals = messages.signals();
    let done = convert(source.as_mut(), &mut to, a.to, &o, &mut |n| {
        bar.set_position(n);
        signals.caught().is_none()
    });
    bar.finish_and_clear();
    let done = match done {
        Err(Error::Interrupted) => {
            messages.note("interrupted; nothing is written");
            return Ok(Exit(SIGNAL + signals.caught().unwrap_or(2)));
        }
        d => d?,
    };
    to.finish()?.finish()?;
    if a.json {
        output::print_json(&json(&done))?;
    }
    for note in notes(&done, a, from) {
        messages.note(&note);
    }
    if !shown {
        messages.note(&format!("{} accesses in {name}", grouped(done.written)));
    }
    Ok(SUCCESS)
}

fn json(d: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "records": d.records,
        "written": d.written,
        "skipped": d.skipped,
        "unaligned": d.unaligned,
        "widened": d.widened,
        "times_lost": d.times_lost,
        "times_rounded": d.times_rounded,
    })
}

/// What the user has to know: nothing is left out or changed in silence.
fn notes(d: &Outcome, a: &ConvertArgs, from: Option<Format>) -> Vec<String> {
    let mut notes = Vec::new();
    if d.unaligned > 0 {
        notes.push(unaligned(d.unaligned, d.records, a.unaligned));
    }
    if d.widened > 0 {
        notes.push(format!(
            "{} accesses became whole lines of 64 bytes: the format {} has no lengths",
            grouped(d.widened),
            a.to
        ));
    }
    if d.times_lost {
        notes.push(format!(
            "the times are left out: the format {} has none",
            a.to
        ));
    }
    if d.times_rounded > 0 {
        notes.push(format!(
            "{} of {} times are no whole number of cycles of --cycle, and were rounded down",
            grouped(d.times_rounded),
            grouped(d.records)
        ));
    }
    if from == Some(Format::Bus) {
        notes.push("harts, program counters, reasons and latencies are left out".into());
    }
    if d.skipped > 0 {
        notes.push(format!(
            "{} lines or packets were skipped",
            grouped(d.skipped)
        ));
    }
    notes
}
