//! Saving a machine on the way: when the guest asks, or at a count of instructions.

use super::args::TakeArgs;
use crate::drive::{Service, Wishes};
use crate::guest::End;
use crate::output::Messages;
use anyhow::Context;
use nagori_hart::world::Observer;
use nagori_platform::machine::{Machine, Stop};
use nagori_platform::snapshot::Meta;
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Instructions in a core cycle, at most: slices are cut to come close to a count.
const PER_CYCLE: u64 = 1;

/// Takes snapshots of a run.
pub struct Taker<'a> {
    path: &'a Path,
    at: Option<u64>,
    exit: bool,
    messages: &'a Messages,
}

impl<'a> Taker<'a> {
    /// As the arguments want it; `None` if they want none.
    pub fn new(a: &'a TakeArgs, messages: &'a Messages) -> Option<Self> {
        Some(Taker {
            path: a.snapshot.as_deref()?,
            at: a.snapshot_at,
            exit: a.snapshot_exit,
            messages,
        })
    }

    fn take<O: Observer>(
        &mut self,
        machine: &Machine<O>,
        label: Option<u64>,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        save(machine, self.path, label, self.messages)?;
        if self.exit {
            wishes.end(End::Saved);
        }
        Ok(())
    }
}

/// Saves a machine to a file, with a message.
pub fn save<O: Observer>(
    machine: &Machine<O>,
    path: &Path,
    label: Option<u64>,
    messages: &Messages,
) -> anyhow::Result<()> {
    let mut meta = Meta::new();
    if let Some(label) = label {
        meta.insert("label".into(), json!(label));
    }
    let started = Instant::now();
    let written = machine
        .save_file(path, &meta)
        .with_context(|| format!("cannot save the machine to {}", path.display()))?;
    messages.note(&format!(
        "saved the machine to {}: {} of memory in {}, {:.2} s",
        path.display(),
        super::bytes(written.memory_bytes),
        super::bytes(written.file_bytes),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

impl<O: Observer> Service<O> for Taker<'_> {
    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> anyhow::Result<()> {
        if let Some(at) = self.at {
            match at.saturating_sub(machine.instructions()) {
                0 => {
                    self.at = None;
                    self.take(machine, None, wishes)?;
                }
                left => wishes.slice_of(left / PER_CYCLE),
            }
        }
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        match stop {
            Stop::Snapshot(label) => self.take(machine, Some(label), wishes),
            _ => Ok(()),
        }
    }
}

/// Ends a run whose guest restarts: there is nothing to load again.
pub struct NoRestart;

impl<O: Observer> Service<O> for NoRestart {
    fn after(&mut self, _: &mut Machine<O>, stop: Stop, w: &mut Wishes) -> anyhow::Result<()> {
        if stop == Stop::Reset {
            w.end(End::Restart);
        }
        Ok(())
    }
}
