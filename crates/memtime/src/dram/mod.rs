//! The general controller for DRAM-like devices described as data.
//!
//! # Rules of one clock of a channel, in this order
//! 1. **Arrivals** of this clock become visible. A read whose bytes are all in a queued write, and
//!    a
//!    request that joins a queued request of the same burst, have already been handled when they were
//!    submitted.
//! 2. **Refresh.** A rank owes one more refresh for every interval that has ended. It is
//!    *refreshing* when
//!    it owes more than may be postponed, or owes one and has no requests. Its banks (or the bank
//!    whose turn it is) then get no commands for requests or by the page policy; open banks are
//!    precharged, then the refresh is issued. Promised rows (see below) get their read or write first,
//!    unless the rank owes two more refreshes than may be postponed.
//! 3. **Queue.** Writes begin to be served at the high mark, or without reads;
//!    reads at the low mark if there are any, or without writes.
//! 4. **One command**, the first of the following that all rules of the device allow in this clock;
//!    among
//!    equal ones the oldest (then by rank and bank).
//!    - for refresh;
//!    - while a request of either queue is overdue (`starvation`): only what
//!      the oldest overdue one of each bank needs, and data only for the
//!      oldest of all. Nothing else below is done then;
//!    - reads or writes of open rows, the oldest of every bank;
//!    - activation for the oldest request of a closed bank; precharge for the
//!      oldest request of a bank if it wants another row than the open one
//!      and no request wants the open one (`keep_rows`), or it is older than
//!      those that do (otherwise). With `order = age_first` these are
//!      equal to reads and writes;
//!    - precharge by the page policy; precharge and resumption for a paused
//!      cell write whose bank no request wants.
//!
//! Only requests of the queue being served are considered in step 4, except overdue ones.
//!
//! A row that a queued request of either queue wants, and that has had no read or write since its
//! activation, is **promised**: it is not closed. If the bank has requests of the queue being
//! served but none for that row, or waits for a refresh, the oldest request of the other queue for
//! this row is served as if it belonged to the queue being served. So no row is activated in vain,
//! except before a refresh that cannot wait and for overdue requests, which have priority over
//! promises.
//!
//! If the device can pause cell writes ([`spec::WritePause`]), a closed bank whose cells are being
//! written is paused for a read, as part of its activation; a write to a bank with a paused cell
//! write first closes its row and resumes the cell write. A bank that has reached `hit_cap` serves
//! no hits while its oldest request wants another row.
//!
//! An auto-precharge is a precharge at the first clock at which the rules of
//! scope bank allow one; for statistics the row is closed with the command.
//!
//! These are the rules of [`params::Scheduler::General`]; `channel/ramulator2.rs` and
//! `channel/dramsim3.rs` have those of the other schedulers.
//!
//! The engine computes the next clock at which anything can happen and jumps there; `reference` in
//! the tests does the same clock by clock.

mod bank;
mod channel;
mod controller;
mod energy;
pub mod expr;
mod lanes;
mod legality;
mod mapping;
pub mod params;
#[cfg(test)]
mod pause_tests;
pub mod preset;
#[cfg(test)]
mod reference;
mod saved;
pub mod spec;
#[cfg(test)]
mod tests;
mod timing;

pub use crate::command::{Command, Issued};
pub use controller::Controller;
pub use expr::Expr;
pub use legality::{BankAt, Legality};
pub use mapping::Place;
pub use params::ControllerParams;
pub use saved::Saved;
pub use spec::DeviceSpec;
