//! Counters of harts, for reads by others.

use nagori_hart::HartStats;
use serde::{Deserialize, Serialize};

/// Counters of one hart for reads by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HartView {
    pub cycle: u64,
    pub instret: u64,
    pub stats: HartStats,
}
