//! Snapshots: machines in files.

pub mod cache;
mod take;

pub use take::{save, Saving, Taker};

use crate::error::{Context, Result};
use nagori_config::Machine as Description;
use nagori_machine::Machine;
use nagori_snapshot::Snapshot;
use std::path::Path;
use std::sync::Arc;

/// Opens a snapshot; errors contain its name.
pub fn open(path: &Path) -> Result<Snapshot> {
    Snapshot::open(path).with_context(|| format!("cannot use the snapshot {}", path.display()))
}

/// A machine that continues from a snapshot, with its description changed by settings, and the
/// software that a restart loads.
pub fn restore(path: &Path, settings: &[String]) -> Result<Machine> {
    let snapshot = open(path)?;
    let description: Description = snapshot.header().description.with(settings)?;
    let fails = || format!("cannot go on from {}", path.display());
    let mut machine = snapshot.machine_as(&description).with_context(fails)?;
    let software = snapshot.software().with_context(fails)?;
    machine.set_software(software.map(Arc::new));
    Ok(machine)
}
