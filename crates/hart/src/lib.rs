//! A RISC-V hart: architectural state, traps, address translation, physical
//! memory protection, an interpreter over predecoded blocks, and the timing of
//! an in-order core with its first-level caches and TLBs.
//!
//! The hart sees the rest of the machine through the traits of [`world`]; it
//! runs as well against a flat memory ([`flat`]).
#![forbid(unsafe_code)]

mod access;
mod again;
mod ahead;
mod area;
mod bitmanip;
mod block;
mod branches;
mod breakpoints;
mod btb;
mod charges;
mod check;
mod commit;
pub mod config;
mod context;
mod contexts;
mod counting;
mod csr;
mod csr_access;
pub mod debug;
pub mod engine;
mod entry;
pub mod events;
mod exec;
pub mod filter;
pub mod flat;
mod fp;
mod fpdiv;
mod groups;
mod halfway;
mod hart;
mod hpm;
mod issue;
pub mod lines;
mod loads;
mod mem;
mod mmu;
pub mod mode;
mod muldiv;
mod nanbox;
mod operands;
mod parallel;
mod pending;
pub mod pipeline;
mod place;
mod plru;
mod pmp;
pub mod predict;
mod preop;
mod privilege;
mod reporting;
#[cfg(test)]
mod rocket;
mod run;
mod running;
mod saved;
mod state;
mod stats;
mod straight;
mod stray;
mod successor;
pub mod tlb;
mod transfer;
pub mod trap;
mod trapping;
mod trigger;
mod uses;
mod waits;
pub mod world;
mod wrong_path;

pub use block::{Block, CodeCache};
pub use config::{HartConfig, HartError};
pub use csr::Csrs;
pub use hart::{Exit, Hart};
pub use hpm::{ByPrivilege, COUNTERS};
pub use place::End;
pub use preop::{
    PreOp, ACTS, AWAITS_DIVISION, AWAITS_LONG, COMES_LATE, HAZARD, ILLEGAL_LEN, NEW_LINE, SINK,
    TARGET,
};
pub use privilege::Privilege;
pub use saved::{save_caches, SavedError, SavedHart};
pub use state::State;
pub use stats::HartStats;
pub use trap::TrapLoop;
