//! MSHRs and prefetchers of first-level caches.
//!
//! A prefetched line arrives at a time of its own ([`super::ahead`]), and may replace a line that the
//! hart uses. Hits that the filters let pass are not ordered with such events. So the set to which a
//! prefetched line comes is *guarded* until it has arrived: the filters contain no line of that set,
//! and an access to it happens only while no other hart and no event is behind. Accesses to other
//! sets do not depend on the arrival.
//!
//! A prefetcher observes the misses of its cache and the first hit on each prefetched line. No
//! filter contains a prefetched line before that hit, so none of these accesses is missed.

use super::banks::Banks;
use super::level_stats::LevelStats;
use super::mshr::Mshrs;
use super::parts::Parts;
use super::prefetch::{Brought, Guesses};
use super::Side;
use crate::config::{FirstConfig, Prefetcher};
use nagori_counters::counters;
use serde::{Deserialize, Serialize};

/// Both kinds of first-level caches.
pub(crate) const SIDES: [Side; 2] = [Side::Data, Side::Inst];

/// The first-level caches of one kind: what they have besides tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct First {
    pub config: FirstConfig,
    /// By hart; empty if they have neither MSHRs nor a prefetcher.
    pub parts: Vec<Parts>,
    pub stats: LevelStats,
    /// By hart: a bit for each set to which a prefetched line is coming.
    pub(crate) guards: Vec<u64>,
    /// A prefetcher in place of that of the configuration.
    pub brought: Option<Brought>,
}

impl First {
    pub fn new(config: FirstConfig, harts: usize) -> Self {
        let part = Parts {
            mshrs: Mshrs::default(),
            banks: Banks::default(),
            guesses: Guesses::new(&config.prefetch),
        };
        let harts = if config.keeps_order() { harts } else { 0 };
        First {
            config,
            parts: vec![part; harts],
            stats: LevelStats::default(),
            guards: vec![0; harts],
            brought: None,
        }
    }

    pub fn prefetches(&self) -> bool {
        self.config.prefetch.prefetcher != Prefetcher::None
    }

    pub fn clear(&mut self) {
        for p in &mut self.parts {
            p.mshrs = Mshrs::default();
            p.guesses.clear();
        }
        self.guards.fill(0);
    }
}

/// The miss that a hart works on, from the choice of the victim until the line is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filling {
    pub(crate) side: Side,
    pub(crate) line: u64,
    /// The entry that is reserved for it.
    pub(crate) entry: Option<u32>,
}

counters! {
    /// Counters of the first-level caches of one kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct FirstStats {
        /// Misses that have waited for a miss status holding register.
        pub mshr_waits: u64,
        /// Core cycles that they have waited.
        pub mshr_wait_cycles: u64,
        /// Lines that the prefetcher has requested.
        pub prefetches: u64,
        /// Prefetched lines that the hart used after their arrival.
        pub prefetch_useful: u64,
        /// Prefetches for which a hart had to wait, since it requested the line before its arrival.
        pub prefetch_late: u64,
        /// Prefetched lines that were removed before the hart used them, or that were no longer needed
        /// on arrival.
        pub prefetch_useless: u64,
        /// Predicted lines that were not requested, since no miss status holding register was free.
        pub prefetch_dropped: u64,
        /// Core cycles in which all miss status holding registers of a cache were occupied, up to the last request.
        #[serde(default)]
        pub mshr_full_cycles: u64,
        /// Loads of a line that another load had asked for and that had not come.
        #[serde(default)]
        pub load_merges: u64,
        /// Core cycles in which a hart had asked for a line for a load that had not come, up to the last miss.
        #[serde(default)]
        pub pending_cycles: u64,
    }
}

impl FirstStats {
    pub(crate) fn of(s: &LevelStats, parts: &[Parts]) -> Self {
        FirstStats {
            mshr_waits: s.mshr_waits,
            mshr_wait_cycles: s.mshr_wait_cycles,
            prefetches: s.prefetches,
            prefetch_useful: s.prefetch_useful,
            prefetch_late: s.prefetch_late,
            prefetch_useless: s.prefetch_useless,
            prefetch_dropped: s.prefetch_dropped,
            mshr_full_cycles: parts.iter().map(|p| p.mshrs.full_cycles()).sum(),
            load_merges: s.load_merges,
            pending_cycles: s.pending_cycles,
        }
    }
}

/// MSHRs and prefetchers of first-level caches, as saved in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedFirst {
    /// For data and for instructions: counters, and the state by hart.
    pub(crate) sides: Vec<(LevelStats, Vec<Parts>)>,
    pub(crate) fillings: Vec<Option<Filling>>,
}

impl SavedFirst {
    pub fn is_new(&self) -> bool {
        self.sides.is_empty()
    }
}

#[cfg(test)]
#[path = "first_tests.rs"]
mod tests;
