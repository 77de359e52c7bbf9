//! Timing of main memory that is part DRAM, part non-volatile (NVMM).
//!
//! The crate knows nothing of CPUs, files or configuration formats. All time
//! is integer picoseconds ([`units::Ps`]); a controller counts clocks of its
//! own and never ticks through idle time.
//!
//! - [`board`]: the bank-machine controller of the reference board, with the
//!   delay methods `dram`, `coarse`, `fine` and `extended`;
//! - [`params`]: its parameters;
//! - [`dram`]: the general controller, for devices described as tables;
//! - [`function`]: a memory whose times a function gives, for trying ideas;
//! - [`model`]: what all memories have in common, and what they report;
//! - [`period`]: clocks, exact even if their period is not a whole number of picoseconds;
//! - [`mapping`]: from addresses to banks and rows;
//! - [`stats`]: what is counted, by region and by bank;
//! - [`saved`]: the state of models as data, from which they can continue;
//! - [`request`]: requests and completions, common to all controllers.

pub mod board;
pub mod cache;
pub mod checker;
mod checks;
pub mod command;
pub mod cxl;
#[cfg(test)]
mod described;
mod divide;
pub mod dram;
pub mod error;
pub mod function;
pub mod hybrid;
pub mod interleaved;
mod intervals;
mod kinds;
pub mod lanes;
pub mod mapping;
pub mod model;
pub mod params;
pub mod period;
pub mod request;
pub mod saved;
pub mod startgap;
pub mod stats;
pub mod units;
pub mod wear;
mod window;
pub mod worn;
pub mod xpoint;

pub use board::Controller;
pub use error::Error;
pub use function::Function;
pub use model::{MemoryModel, ModelStats};
pub use params::{BoardParams, Method};
pub use period::Period;
pub use request::{Completion, Kind, Request, Submit};
pub use saved::SavedModel;
pub use stats::{Region, Stats};
pub use units::{Clocks, Ps};
