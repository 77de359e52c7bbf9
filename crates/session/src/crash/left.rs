//! As-built on machines whose harts hold stores back, in store buffers or where they combine them: what was committed
//! is not in a cache yet, and a fence is committed when it has waited. So the steps of a workload do not tell what a
//! cut leaves. Here the machine runs again, and the power of a copy of it is cut at each point.

use super::Recorded;
use crate::drive::{self, BoxedService, Course, Service, Wishes};
use crate::end::End;
use crate::error::{Error, Interrupted, Result};
use crate::session::Session;
use nagori_config::{Cached, Drain, HintedStore, MachineConfig};
use nagori_crash::{Cut, Domain, Lines, Model, StoreBuffer, LINE};
use nagori_machine::{Checkpoint, Dram, Machine, Point, Stop};
use nagori_platform::clock::Ps;
use std::collections::HashSet;

/// Core cycles between two looks whether a cut comes next.
const STEP: u64 = 2_000;

/// The store buffers of a machine's harts.
pub(super) fn store_buffer(config: &MachineConfig) -> StoreBuffer {
    match (config.store_buffer.entries, config.store_buffer.drain) {
        (0, _) => StoreBuffer::None,
        (_, Drain::InOrder) => StoreBuffer::InOrder,
        (_, Drain::Any) => StoreBuffer::Any,
    }
}

/// Under which hints stores are combined, and go to memory past the caches whatever these hold.
pub(super) fn combining(config: &MachineConfig) -> [bool; 4] {
    let past = config.nontemporal.cached_copy == Cached::Invalidate;
    let hints = config.nontemporal.hints();
    hints.map(|(_, h)| past && h.store == HintedStore::WriteCombining)
}

/// Whether a machine's harts hold stores back.
pub fn holds_stores(config: &MachineConfig) -> bool {
    let hints = config.nontemporal.hints();
    let combines = hints
        .iter()
        .any(|(_, h)| h.store == HintedStore::WriteCombining);
    combines || config.store_buffer.entries > 0
}

/// An error if the machine cannot say what a domain would leave.
pub(super) fn check(config: &MachineConfig, own: Domain, model: &Model) -> Result<()> {
    let lines = |d: Domain| match d {
        Domain::Gpf { lines, .. } => Some(lines),
        _ => None,
    };
    let same = std::mem::discriminant(&own) == std::mem::discriminant(&model.domain)
        && lines(own) == lines(model.domain);
    let known = own == Domain::Eadr || config.memory.track_persistence;
    if same && known {
        Ok(())
    } else {
        Err(Error::Request("as-built on a machine whose harts hold stores back needs a machine that knows what is \
            durable: memory.persistence_domain of the domain that is asked for, and memory.track_persistence = true \
            unless that is eadr".into()))
    }
}

/// Gives each cut the content that the machine leaves. `machine` is at the beginning of what was recorded.
pub(super) fn leave<'a>(
    session: &Session<'a>,
    (mut machine, services): (Machine, Vec<BoxedService<'a>>),
    recorded: &mut Recorded,
) -> Result<()> {
    let end = recorded.end;
    let at = |c: &Cut| {
        let step = usize::try_from(c.step).ok();
        let before = step.and_then(|n| recorded.instructions.get(n));
        before.copied().unwrap_or(end)
    };
    let at: Vec<u64> = recorded.cuts.iter().map(at).collect();
    let mut cutter = Cutter {
        session,
        cuts: std::mem::take(&mut recorded.cuts),
        at,
        next: 0,
        kept: None,
    };
    let mut all: Vec<BoxedService<'_>> = Vec::new();
    for service in services {
        all.push(service);
    }
    // Behind all others, which may give the machine something before a slice.
    all.push(Box::new(&mut cutter));
    let caller = session.caller();
    if let End::Signal(n) = drive::drive(&mut machine, &mut all, caller, Course::default())? {
        return Err(Interrupted(n).into());
    }
    drop(all);
    if cutter.next < cutter.at.len() {
        return Err(not_the_same());
    }
    let mut seen = HashSet::new();
    recorded.cuts = cutter.cuts;
    recorded.cuts.retain(|c| seen.insert((c.hash, c.operation)));
    Ok(())
}

fn not_the_same() -> Error {
    Error::Guest("the workload does not do the same when it is run again".into())
}

/// Runs a copy on; whether it has reached its point.
fn step(m: &mut Machine) -> Result<bool> {
    m.poll_devices();
    match m.run(STEP, None) {
        Stop::Reached => Ok(true),
        Stop::Slice | Stop::Snapshot(_) => Ok(false),
        Stop::Idle(at) if at != Ps::NEVER => Ok(false),
        _ => Err(not_the_same()),
    }
}

/// Cuts the power of copies.
struct Cutter<'s, 'a> {
    session: &'s Session<'a>,
    cuts: Vec<Cut>,
    /// The instructions that have retired before each cut.
    at: Vec<u64>,
    next: usize,
    /// The machine before the present slice.
    kept: Option<Checkpoint>,
}

impl<'a> Cutter<'_, 'a> {
    fn fork(&self, from: &Checkpoint) -> Result<(Machine, Vec<BoxedService<'a>>)> {
        let mut m: Machine = from.fork()?;
        let devices = &self.session.options().devices;
        let connected = devices.connect(&mut m, self.session.caller())?;
        Ok((m, connected))
    }

    /// Runs a copy up to the next cut, and cuts its power.
    fn cut(&mut self, from: &Checkpoint) -> Result<()> {
        let (mut m, _devices) = self.fork(from)?;
        let at = self.at[self.next];
        if m.instructions() > at {
            return Err(not_the_same());
        }
        m.set_point(Some(Point::Instructions(at)));
        while !step(&mut m)? {}
        m.power_cut(Dram::Zero)?;
        let base = m.config().memory.base;
        let cut = &mut self.cuts[self.next];
        cut.durable = Lines::default();
        for (line, _) in cut.initial.to_vec() {
            let mut bytes = [0; LINE as usize];
            m.ram().read_bytes(line - base, &mut bytes)?;
            cut.durable.insert(line, bytes);
        }
        cut.hash = cut.durable.hash();
        self.next += 1;
        Ok(())
    }
}

impl Service for Cutter<'_, '_> {
    fn before(&mut self, m: &mut Machine, _: &mut Wishes) -> Result<()> {
        self.kept = if self.next < self.at.len() {
            Some(m.checkpoint()?)
        } else {
            None
        };
        Ok(())
    }

    fn after(&mut self, m: &mut Machine, _: Stop, wishes: &mut Wishes) -> Result<()> {
        let now = m.instructions();
        let Some(kept) = self.kept.take() else {
            wishes.end(End::Quit);
            return Ok(());
        };
        if self.at.get(self.next).is_none_or(|n| *n > now) {
            return Ok(());
        }
        // A copy goes before in small steps, so that those whose power is cut have little to repeat.
        let (mut scout, _devices) = self.fork(&kept)?;
        // More than a step can execute.
        let reach = 2 * STEP * u64::from(m.config().harts);
        while let Some(next) = self.at.get(self.next).filter(|n| **n <= now) {
            let last = now.min(scout.instructions() + reach);
            if *next > last {
                step(&mut scout)?;
                continue;
            }
            let here = scout.checkpoint()?;
            while self.at.get(self.next).is_some_and(|n| *n <= last) {
                self.cut(&here)?;
            }
        }
        Ok(())
    }
}
