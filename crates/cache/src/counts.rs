//! What each hart's accesses do in the caches and in memory, by kind. The events of hardware counters
//! ([`crate::events`]) and the machine's statistics are both read from here.
//!
//! A hart's counts change in its own turns, and in events of the caches that have a time of their own, which take
//! effect between turns. So what it reads of them follows from machine time.

use super::ahead::NOBODY;
use crate::LineKind;
use nagori_counters::{counters, is_zero};
use serde::{Deserialize, Serialize};

counters! {
    /// What happens in a cache for one hart. Of first-level caches only what their MSHRs and prefetchers do; the rest
    /// is in [`HartStats`](crate::HartStats).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CacheCounts {
        /// Requests for loads that hit.
        #[serde(skip_serializing_if = "is_zero")]
        pub load_hits: u64,
        /// Requests for loads that missed.
        #[serde(skip_serializing_if = "is_zero")]
        pub load_misses: u64,
        /// Requests for stores and atomics that hit.
        #[serde(skip_serializing_if = "is_zero")]
        pub store_hits: u64,
        /// Requests for stores and atomics that missed.
        #[serde(skip_serializing_if = "is_zero")]
        pub store_misses: u64,
        /// Requests for instruction fetches that hit.
        #[serde(skip_serializing_if = "is_zero")]
        pub fetch_hits: u64,
        /// Requests for instruction fetches that missed.
        #[serde(skip_serializing_if = "is_zero")]
        pub fetch_misses: u64,
        /// Requests for page walks that hit.
        #[serde(skip_serializing_if = "is_zero")]
        pub walk_hits: u64,
        /// Requests for page walks that missed.
        #[serde(skip_serializing_if = "is_zero")]
        pub walk_misses: u64,
        /// Prefetches of inner caches that hit.
        #[serde(skip_serializing_if = "is_zero")]
        pub prefetch_hits: u64,
        /// Prefetches of inner caches that missed, and the cache's own.
        #[serde(skip_serializing_if = "is_zero")]
        pub prefetch_misses: u64,
        /// Lines that made room for others.
        #[serde(skip_serializing_if = "is_zero")]
        pub victims: u64,
        /// Modified lines that made room because of an access that missed.
        #[serde(skip_serializing_if = "is_zero")]
        pub writebacks_demand: u64,
        /// Modified lines passed on for another reason: they made room for prefetched ones, or were written through.
        #[serde(skip_serializing_if = "is_zero")]
        pub writebacks_other: u64,
        /// Miss status holding registers taken.
        #[serde(skip_serializing_if = "is_zero")]
        pub mshr_allocations: u64,
        /// Misses that found all miss status holding registers taken.
        #[serde(skip_serializing_if = "is_zero")]
        pub mshr_full: u64,
        /// Core cycles that such misses have waited.
        #[serde(skip_serializing_if = "is_zero")]
        pub mshr_full_cycles: u64,
    }
}

counters! {
    /// Lines that memory reads and writes for one hart.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct MemoryCounts {
        /// Lines of DRAM read.
        #[serde(skip_serializing_if = "is_zero")]
        pub dram_reads: u64,
        /// Lines of DRAM written.
        #[serde(skip_serializing_if = "is_zero")]
        pub dram_writes: u64,
        /// Lines of NVMM read.
        #[serde(skip_serializing_if = "is_zero")]
        pub nvmm_reads: u64,
        /// Lines of NVMM written.
        #[serde(skip_serializing_if = "is_zero")]
        pub nvmm_writes: u64,
    }
}

impl CacheCounts {
    /// Requests that hit, but for prefetches.
    pub fn hits(&self) -> u64 {
        self.load_hits + self.store_hits + self.fetch_hits + self.walk_hits
    }

    /// Requests that missed, but for prefetches.
    pub fn misses(&self) -> u64 {
        self.load_misses + self.store_misses + self.fetch_misses + self.walk_misses
    }

    /// A request of a kind looks a line up.
    pub(crate) fn look_up(&mut self, kind: LineKind, hit: bool) {
        let (hits, misses) = match kind {
            LineKind::Store => (&mut self.store_hits, &mut self.store_misses),
            LineKind::Fetch => (&mut self.fetch_hits, &mut self.fetch_misses),
            LineKind::PageWalk => (&mut self.walk_hits, &mut self.walk_misses),
            LineKind::Prefetch => (&mut self.prefetch_hits, &mut self.prefetch_misses),
            _ => (&mut self.load_hits, &mut self.load_misses),
        };
        *if hit { hits } else { misses } += 1;
    }

    /// A miss has waited for a miss status holding register, and has it now.
    pub(crate) fn waited(&mut self, cycles: u64) {
        self.mshr_allocations += 1;
        self.mshr_full += 1;
        self.mshr_full_cycles += cycles;
    }

    /// A modified line is passed on; `by` is the running hart, or nobody.
    pub(crate) fn wrote_back(&mut self, by: usize) {
        match by {
            NOBODY => self.writebacks_other += 1,
            _ => self.writebacks_demand += 1,
        }
    }
}

impl MemoryCounts {
    /// A line is read or written.
    pub fn count(&mut self, nvmm: bool, write: bool) {
        let field = match (nvmm, write) {
            (false, false) => &mut self.dram_reads,
            (false, true) => &mut self.dram_writes,
            (true, false) => &mut self.nvmm_reads,
            (true, true) => &mut self.nvmm_writes,
        };
        *field += 1;
    }
}

/// What happens for one hart in the caches and in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HartCounts {
    /// L1D and L1I.
    pub first: [CacheCounts; 2],
    /// Outer levels, the nearest to the core first.
    pub levels: Vec<CacheCounts>,
    /// Memory.
    pub memory: MemoryCounts,
}

impl HartCounts {
    /// Nothing counted yet, with so many outer levels.
    pub fn new(levels: usize) -> Self {
        HartCounts {
            levels: vec![CacheCounts::default(); levels],
            ..HartCounts::default()
        }
    }

    /// Combines two sets of counters of equal caches, counter by counter.
    pub fn zip(&self, o: &HartCounts, f: impl Fn(u64, u64) -> u64 + Copy) -> HartCounts {
        let levels = self.levels.iter().zip(&o.levels);
        HartCounts {
            first: [0, 1].map(|k: usize| self.first[k].zip(&o.first[k], f)),
            levels: levels.map(|(a, b)| a.zip(b, f)).collect(),
            memory: self.memory.zip(&o.memory, f),
        }
    }

    /// The counts of a cache: 0 is L1D, 1 is L1I, then the outer levels follow.
    pub(crate) fn at(&mut self, place: usize) -> &mut CacheCounts {
        match place {
            0 | 1 => &mut self.first[place],
            outer => &mut self.levels[outer - 2],
        }
    }

    pub(crate) fn fits(&self, levels: usize, limit: u64) -> bool {
        let caches = self.first.iter().chain(&self.levels);
        self.levels.len() == levels
            && { caches }.all(|c| c.below(limit))
            && self.memory.below(limit)
    }
}
