//! State of the control block beside what the parts hold.

use super::view::HartView;
use nagori_memtime::{Ps, Stats};
use nagori_platform::control::ControlBlock;

/// State of the control block beside what the parts hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlState {
    /// Last error and label.
    pub block: ControlBlock,
    /// Hart counters at the last reset of statistics.
    pub baselines: Vec<HartView>,
    /// Instructions of the warm-up behind a switch to timed mode.
    pub warm_up: u64,
    /// Statistics of memory as of a machine time: one register read after the
    /// other at the same time needs them once.
    pub cached: Option<Box<(Ps, Stats)>>,
}

impl ControlState {
    /// As it was saved.
    pub fn restored(block: ControlBlock, baselines: Vec<HartView>, warm_up: u64) -> Self {
        ControlState {
            block,
            baselines,
            warm_up,
            cached: None,
        }
    }
}
