//! The control block's registers, answered by the machine.

use super::world::{HartView, Surroundings};
use crate::control::ControlAccess;
use nagori_hart::world::Requester;

/// State of the control block beside what the parts hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlState {
    /// Hart counters at the last reset of statistics.
    pub baselines: Vec<HartView>,
}

impl<O> Surroundings<O> {
    pub(super) fn control_read(&mut self, _by: &Requester<'_>, _access: ControlAccess) -> u64 {
        0
    }
    pub(super) fn control_write(
        &mut self,
        _by: &Requester<'_>,
        _access: ControlAccess,
        _value: u64,
    ) {
    }
}
