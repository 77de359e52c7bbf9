//! Sampled timing: a run is functional, and windows of it are measured in detail, in copies of the machine, by other
//! threads of the host; estimates of the whole follow from the windows, with their confidence intervals.
//!
//! | module | what it is |
//! |---|---|
//! | [`bbv`] | basic-block vectors |
//! | [`estimate`] | totals and ratios of a population from weighted windows |
//! | [`plan`] | how many windows, how long, how warm |
//! | [`kept`] | windows as snapshots |
//! | [`window`] | one window of a machine |
//! | `here` | windows in the machine itself, for several busy harts |
//! | `pages` | what memory held at each moment |
//! | `pool` | threads that measure windows |
//! | [`sampler`] | chooses the moments of a run, and what has come of it |
//! | [`totals`] | a report of the whole |
//!
//! Results do not depend on the number of threads: every decision uses those windows only that are
//! [`sampler::LAG`] windows behind, and waits for them.
#![forbid(unsafe_code)]

pub mod bbv;
pub mod estimate;
mod here;
pub mod kept;
mod pages;
pub mod plan;
mod pool;
pub mod sampler;
pub mod totals;
pub mod window;

pub use estimate::Interval;
pub use plan::Plan;
pub use pool::Copies;
pub use sampler::{Sampled, Sampler};
pub use window::{Failure, Length, Window};
