//! Statistics of the levels behind the first.

use nagori_counters::{counters, is_zero};
use serde::{Deserialize, Serialize};

counters! {
    /// Statistics of a level, summed over all of its caches.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LevelStats {
        /// Requests of the previous level that hit.
        pub hits: u64,
        /// Requests of the previous level that missed.
        pub misses: u64,
        /// Modified lines that the previous level evicted or cleaned.
        pub writes: u64,
        /// Lines evicted for others.
        pub evictions: u64,
        /// Modified lines passed on to the next level or to memory.
        pub writebacks: u64,
        /// Back-invalidations: copies in inner caches removed because this level evicted the line.
        pub back_invalidations: u64,
        /// Misses that have waited for a miss status holding register.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub mshr_waits: u64,
        /// Core cycles that they have waited.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub mshr_wait_cycles: u64,
        /// Requests that have waited for another access to their bank.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub bank_waits: u64,
        /// Core cycles that they have waited.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub bank_wait_cycles: u64,
        /// Lines that the prefetcher has requested.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub prefetches: u64,
        /// Prefetched lines that a hart requested after their arrival.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub prefetch_useful: u64,
        /// Prefetches for which a hart had to wait, since it requested the line before its arrival.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub prefetch_late: u64,
        /// Prefetched lines that were evicted before any hart requested them, or that were no longer
        /// needed on arrival.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub prefetch_useless: u64,
        /// Predicted lines that were not requested, since no miss status holding register was free.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub prefetch_dropped: u64,
        /// Of L1D: loads of a line that another load had asked for and that had not come.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub load_merges: u64,
        /// Of L1D: core cycles in which a hart had asked for a line for a load that had not come.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub pending_cycles: u64,
        /// Hits of accesses under a hint of Zihintntl that has an effect.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub nt_hits: u64,
        /// Misses of accesses under such a hint.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub nt_misses: u64,
    }
}
