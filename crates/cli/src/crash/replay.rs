//! `nagori crash replay`: the machine at the guilty store of a finding.

use super::args::{CrashArgs, ReplayArgs};
use super::{boot, plan};
use crate::remote;
use anyhow::{bail, Context};
use clap::{Args, FromArgMatches};
use nagori_crash::{Bytes, LINE};
use nagori_isa::reg::x_name;
use nagori_machine::{Machine, Point, Stop};
use nagori_session::crash::{Prepared, Recovering};
use nagori_session::drive::{self, BoxedService, Course, Service, Wishes};
use nagori_session::{End, Interrupted};
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use serde_json::Value;
use std::fmt::Write;

/// Ends a run at its point.
struct Arrival;

impl Service for Arrival {
    fn after(
        &mut self,
        _: &mut Machine,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        if stop == Stop::Reached {
            wishes.end(End::Quit);
        }
        Ok(())
    }
}

/// Runs the command.
pub fn command(a: &ReplayArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let (args, finding) = read(a)?;
    let matches = CrashArgs::augment_args(clap::Command::new("crash").no_binary_name(true))
        .try_get_matches_from(&args)
        .context("the arguments in the file are not those of this program")?;
    let explore = CrashArgs::from_arg_matches(&matches)?.explore;
    let stores = finding["stores"].as_array().map_or(&[][..], |s| s);
    let store = a.store.checked_sub(1).and_then(|n| stores.get(n));
    if store.is_none() && !stores.is_empty() {
        bail!("the finding has {} stores", stores.len());
    }
    // Without a guilty store, the machine goes to the cut: before the step that follows it.
    let (step, pc) = match store {
        Some(store) => (store["step"].as_u64(), store["site"]["pc"].as_u64()),
        None => (finding["step"].as_u64().map(|n| n + 1), None),
    };
    let step = step.context("the finding names no step")?;

    let session = boot(&explore, messages)?;
    let prepared = Prepared::new(&session, plan(&explore, &session)?)?;
    let workload = prepared.record()?;
    // With a second cut, it is the recovery from the first one that is run again.
    let recovery = match finding["recut"]["content"].as_array() {
        Some(lines) => {
            let lines = { lines.iter() }.map(line).collect::<Option<Vec<_>>>();
            let lines = lines.context("the content after the first cut is not in its form")?;
            let subject = Recovering::new(&prepared, &workload)?;
            let recorded = subject.recorded(&lines)?;
            let recorded = recorded.context("the recovery from the first cut is not as it was")?;
            Some((subject, lines, recorded))
        }
        None => None,
    };
    let recorded = recovery.as_ref().map_or(&workload, |r| &r.2);
    // Steps are counted from 1; behind the last one the machine stays at it.
    let last = recorded.instructions.len();
    let place = match store {
        Some(_) => step as usize,
        None => (step as usize).min(last),
    };
    let at = recorded.instructions.get(place.wrapping_sub(1));
    let at = *at.context(
        "the workload has fewer steps than the finding says: is it of this program, with these \
        files?",
    )?;

    let (mut m, mut services) = match &recovery {
        Some((subject, lines, _)) => subject.again(lines)?,
        None => prepared.again()?,
    };
    m.set_point(Some(Point::Instructions(at)));
    services.insert(0, Box::new(Arrival));
    run(&mut m, &mut services, messages)?;
    drop(services.remove(0));
    let hart = store.and_then(|s| s["hart"].as_u64()).unwrap_or(0) as usize;
    let here = m.hart(hart).map(|h| h.state.pc);
    if pc.is_some() && here != pc {
        bail!("the workload is not the one of the finding: hart {hart} is at {here:#x?}, not at {pc:#x?}");
    }
    match &a.gdb {
        None => show(&m, hart, &finding),
        Some(at) => {
            let place = match pc {
                Some(pc) => format!("hart {hart} is before the store at {pc:#x}"),
                None => "the machine is at the cut".into(),
            };
            messages.note(&format!("{place}; waiting for a debugger at {at}"));
            let mut all = vec![remote::debugger(at, hart, messages)?];
            all.append(&mut services);
            run(&mut m, &mut all, messages)?;
            Ok(SUCCESS)
        }
    }
}

fn run(
    m: &mut Machine,
    services: &mut [BoxedService<'_>],
    messages: &Messages,
) -> anyhow::Result<()> {
    match drive::drive(m, services, messages, Course::default())? {
        End::Signal(n) => Err(Interrupted(n).into()),
        _ => Ok(()),
    }
}

/// A line of a content as findings have it.
fn line(value: &Value) -> Option<(u64, Bytes)> {
    let digits = value["bytes"].as_str()?;
    let mut bytes = [0; LINE as usize];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some((value["paddr"].as_u64()?, bytes))
}

/// The arguments and the finding of a file.
fn read(a: &ReplayArgs) -> anyhow::Result<(Vec<String>, Value)> {
    let shown = a.finding.display();
    let text = std::fs::read(&a.finding).with_context(|| format!("cannot read {shown}"))?;
    let value: Value =
        serde_json::from_slice(&text).with_context(|| format!("{shown} is no JSON"))?;
    let args = value["args"].as_array().with_context(|| {
        format!("{shown} is neither a file of --findings nor a report of --json")
    })?;
    let args = args.iter().filter_map(|v| Some(v.as_str()?.to_string()));
    let finding = match (&value["finding"], &a.id) {
        (Value::Null, id) => {
            let all = value["findings"].as_array();
            let mut all = all.into_iter().flatten();
            let found = all.find(|f| id.as_ref().is_none_or(|id| f["id"] == **id));
            found.with_context(|| format!("{shown} has no such finding"))?
        }
        (finding, Some(id)) if finding["id"] != **id => bail!("{shown} is another finding"),
        (finding, _) => finding,
    };
    Ok((args.collect(), finding.clone()))
}

/// The hart at the store, for people.
fn show(m: &Machine, hart: usize, finding: &Value) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let message = finding["message"].as_str().unwrap_or_default();
    let _ = writeln!(
        text,
        "finding {}: {message}",
        finding["id"].as_str().unwrap_or_default()
    );
    if let Some(h) = m.hart(hart) {
        let _ = writeln!(
            text,
            "hart {hart}: pc {:#x}, {} instructions",
            h.state.pc,
            m.instructions()
        );
        for (r, name) in (1..).zip((1..32).filter_map(x_name)) {
            let end = if r % 4 == 3 { "\n" } else { "" };
            let _ = write!(text, "  {name:>4} {:#018x}{end}", h.reg(r));
        }
    }
    output::print(&text)?;
    Ok(SUCCESS)
}
