//! Epochs.

use crate::epoch::{LENGTHS, MOST_READING};
use crate::problem::{ensure, within, Problem};
use crate::types::MachineConfig;
use nagori_memtime::Method;

/// Checks them.
pub(super) fn check(c: &MachineConfig) -> Result<(), Problem> {
    let e = &c.epoch;
    let length = e.length.0 .0;
    ensure(LENGTHS.contains(&length), "epoch.length", || {
        format!("{} is outside 10 us to 10 ms", e.length.0)
    })?;
    ensure(e.shortest <= e.length, "epoch.shortest", || {
        format!("{} is longer than an epoch ({})", e.shortest.0, e.length.0)
    })?;
    let f = &e.faults;
    within("epoch.faults.speculation", f.speculation.into(), 0, 1000)?;
    within("epoch.faults.turns", f.turns.into(), 1, 3)?;
    ensure(
        f.reading.0 .0 <= MOST_READING,
        "epoch.faults.reading",
        || format!("{} is longer than 1 ms", f.reading.0),
    )?;
    ensure(e.of != Method::Dram, "epoch.of", || {
        "`dram` delays nothing: expected coarse, fine or extended".into()
    })?;
    if e.variant.is_none() {
        return Ok(());
    }
    ensure(
        c.memory.nvmm_boundary < c.memory.size,
        "epoch.variant",
        || "there is no NVMM to emulate: memory.nvmm_boundary is the end of memory".into(),
    )?;
    // DRAM's memory may be too small for NVMM.
    super::region::check(&c.with_nvmm_as_dram())
}
