//! The epoch method: from what a core's counters counted in a stretch of time (an *epoch*) follows how long the core
//! would have waited in addition, had its memory been slower.
//!
//! - [`Counts`]: what was counted in one epoch.
//! - [`Model`]: the formulas ([`Variant`]) with the latencies and weights of a host and a memory ([`Params`]).
//!   [`Model::delay`] gives the [`Delay`] of an epoch and its parts.
//! - [`Ledger`]: what a thread or hart still has to wait. It adds delays, takes off what emulation itself has cost,
//!   and loses nothing.
//! - [`Meter`], [`Moving`]: from readings of hardware counters, which wrap, share their hardware and stay behind when
//!   a thread moves to another CPU, to counts.
//! - [`record`]: the lines of a recorded stream of counters.
//!
//! This crate does no input or output and knows no CPUs. Times are integers; [`Amount`] says how they are rounded.
//! The method, its symbols and their sources are in docs/epoch.md.
#![forbid(unsafe_code)]

mod amount;
mod counts;
mod ledger;
mod meter;
mod model;
pub mod record;
#[cfg(test)]
mod tests;

pub use amount::Amount;
pub use counts::Counts;
pub use ledger::Ledger;
pub use meter::{Defect, Meter, Moving, Reading, Sharing, Step, Width};
pub use model::{Attribution, Delay, Model, Params, PerLine, Share, Variant, Weight};

use nagori_memtime::Ps;
use thiserror::Error as ThisError;

/// Why parameters or counts are refused.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// A latency is zero or longer than a second.
    #[error("{name} is {value}: a latency is between 1 ps and 1 s")]
    Latency {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: Ps,
    },
    /// A weight is not possible.
    #[error("{name} is {value}: a weight is between 0.001 and 1000 (the weight of hits in L2: between 0 and 1000)")]
    Weight {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: Weight,
    },
    /// Fewer than one line at a time.
    #[error("{name}: {value} lines at a time, but at least 1.000 and at most 1000 are")]
    Overlap {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: Weight,
    },
    /// A count of one epoch is out of range.
    #[error("{name} counted {value} in one epoch; more than 2^48 is no count of an epoch but a fault of its source")]
    Count {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: u64,
    },
    /// The delay of one epoch is out of range.
    #[error("the delay of one epoch exceeds {}", Ps::MAX_TIME)]
    TooLong,
}
