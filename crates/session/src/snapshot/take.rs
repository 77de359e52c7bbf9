//! Takes snapshots during a run: when the guest requests one, or at a count of instructions.

use crate::caller::Caller;
use crate::devices;
use crate::drive::{Service, Wishes};
use crate::end::End;
use crate::error::{Context, Error, Result};
use crate::words::bytes;
use nagori_machine::{Machine, Stop};
use nagori_snapshot::Meta;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Greatest number of instructions in a core cycle: slices are cut to come close to a count.
const PER_CYCLE: u64 = 1;

/// When a run is saved, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saving {
    /// The file, which is replaced as a whole whenever the guest requests a snapshot.
    pub path: PathBuf,
    /// Take one as soon as all harts together have executed this many instructions.
    pub at: Option<u64>,
    /// Whether the run ends after the first snapshot.
    pub exit: bool,
}

/// Takes the snapshots of a run.
pub struct Taker<'a> {
    path: &'a Path,
    at: Option<u64>,
    exit: bool,
    caller: &'a dyn Caller,
    /// The number of snapshots requested, and of those that could not be saved.
    wanted: u64,
    failed: u64,
}

impl<'a> Taker<'a> {
    /// Takes snapshots as requested.
    pub fn new(saving: &'a Saving, caller: &'a dyn Caller) -> Self {
        Taker {
            path: &saving.path,
            at: saving.at,
            exit: saving.exit,
            caller,
            wanted: 0,
            failed: 0,
        }
    }

    fn take(
        &mut self,
        machine: &mut Machine,
        label: Option<u64>,
        wishes: &mut Wishes,
    ) -> Result<()> {
        self.wanted += 1;
        let saved = save(machine, self.path, label, self.caller);
        match saved {
            Ok(()) if self.exit => wishes.end(End::Saved),
            Ok(()) => {}
            // Without the snapshot, such a run would be useless.
            Err(e) if self.exit => return Err(e),
            Err(e) => {
                self.failed += 1;
                self.caller
                    .warning(&format!("{}; the run goes on", e.chain()));
            }
        }
        Ok(())
    }
}

/// Saves a machine to a file, with a message for the user.
pub fn save(
    machine: &mut Machine,
    path: &Path,
    label: Option<u64>,
    caller: &dyn Caller,
) -> Result<()> {
    let mut meta = Meta::new();
    if let Some(label) = label {
        meta.insert("label".into(), json!(label));
        if let Some(text) = machine.label_text(label) {
            meta.insert("label_text".into(), json!(text));
        }
    }
    devices::note(machine, &mut meta);
    let started = Instant::now();
    let written = nagori_snapshot::save_file(machine, path, &meta)
        .with_context(|| format!("cannot save the machine to {}", path.display()))?;
    caller.note(&format!(
        "saved the machine to {}: {} of memory in {}, {:.2} s",
        path.display(),
        bytes(written.memory_bytes),
        bytes(written.file_bytes),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

impl Service for Taker<'_> {
    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
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

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        match stop {
            Stop::Snapshot(label) => self.take(machine, Some(label), wishes),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _: &mut Machine) -> Result<()> {
        let (failed, wanted, path) = (self.failed, self.wanted, self.path.display());
        match failed {
            0 => Ok(()),
            _ => Err(Error::Request(format!(
                "{failed} of {wanted} snapshots could not be saved to {path}"
            ))),
        }
    }
}
