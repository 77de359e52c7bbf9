//! Caches of several harts, kept coherent: first-level caches with what is in front of them for stores, and outer
//! levels that harts share, with MSHRs, banks, prefetchers and every replacement policy.
//!
//! The crate knows no core and no memory: it says what a request finds, what is evicted and passed on, who has to
//! wait for what, and when the next event is. Whoever owns it sends the requests, and blocks and wakes harts. Time is
//! in core cycles.
//!
//! - [`Coherence`]: all of them, and the requests of harts;
//! - [`Tags`]: one cache;
//! - [`config`]: their parameters;
//! - [`standalone`]: caches alone, for traces.
#![forbid(unsafe_code)]

mod aging;
mod ahead;
mod arrivals;
mod banks;
mod caches;
mod coherence;
mod combining;
pub mod config;
mod contention;
mod counting;
mod counts;
mod draining;
mod fill_buffers;
mod first;
mod first_level;
mod level_stats;
mod levels;
mod levels_check;
mod marks;
mod mshr;
mod parts;
mod prefetch;
mod replacement;
mod requests;
mod saved;
mod saved_stores;
pub mod standalone;
mod stores;
mod tags;
mod versions;
mod want;

pub use ahead::{Settled, NOBODY};
pub use caches::Caches;
pub use coherence::{Coherence, Notice};
pub use counts::{CacheCounts, HartCounts, MemoryCounts};
pub use fill_buffers::Met;
pub use first::FirstStats;
pub use level_stats::LevelStats;
pub use prefetch::{Access, Prefetch};
pub use replacement::Lfsr;
pub use saved::{SavedCoherence, SavedError};
use serde::{Deserialize, Serialize};
pub use stores::{Awaits, Bytes, Deed, Forward, Sent, StoreStats, Why};
pub use tags::{LineState, Tags, NO_SLOT, SLOTS};
pub use want::{Found, From, Want};

/// Later times could overflow during a run.
pub(crate) const FAR: u64 = 1 << 62;

/// The request cannot be met now, and has changed nothing: it is made again later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotNow;

/// Why a line moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// Fill of L1D for a load.
    Load,
    /// Fill or upgrade of L1D for a store or atomic.
    Store,
    /// Fill of L1I.
    Fetch,
    /// Fill of L1D by the page-table walker.
    PageWalk,
    /// Write-back of a dirty victim.
    Evict,
    /// Write-back by a flush or clean instruction.
    Flush,
    /// Write-back because another hart or an instruction fetch wants the line.
    Probe,
    /// Read by a prefetcher of an outer cache level; no hart waits for it.
    Prefetch,
    /// Write of a line that a line fill buffer has combined from non-temporal stores, or the read that memory needs
    /// before it writes a part of a line.
    Combine,
    /// Transfer between memory and a device, or the write-back of a modified line that the device wants; no hart waits
    /// for it.
    Device,
}

/// A hart's first-level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Side {
    /// L1D.
    Data,
    /// L1I.
    Inst,
}

impl Side {
    /// The cache that a request of a hart concerns.
    #[inline]
    pub fn of(kind: LineKind) -> Self {
        match kind {
            LineKind::Fetch => Side::Inst,
            _ => Side::Data,
        }
    }
}
