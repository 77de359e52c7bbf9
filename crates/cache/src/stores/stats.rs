//! Counters of the buffers of stores.

use super::Why;
use nagori_counters::counters;
use serde::{Deserialize, Serialize};

counters! {
    /// Counters of a hart's store buffer, of its combined lines, and of its accesses under hints of Zihintntl.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct StoreStats {
        /// Stores that took an entry of the store buffer or joined one.
        pub buffered: u64,
        /// Buffered stores that joined an entry.
        pub coalesced: u64,
        /// Entries written to the cache.
        pub drained: u64,
        /// Lines requested for entries: missing, or held without the right to store.
        pub requested: u64,
        /// Loads that got their bytes from the store buffer.
        pub forwarded: u64,
        /// Loads that had to wait until an entry was written, since it had some of their bytes only.
        pub forward_waits: u64,
        /// Stores that found the store buffer full.
        pub room_waits: u64,
        /// Core cycles that they have waited.
        pub room_wait_cycles: u64,
        /// Waits of fences, atomics and the like for what was stored before.
        pub drain_waits: u64,
        /// Core cycles that they have waited.
        pub drain_wait_cycles: u64,
        /// Loads under a hint that has an effect.
        pub nt_loads: u64,
        /// Loads under such a hint that missed the first-level data cache.
        pub nt_load_misses: u64,
        /// Stores under a hint that combines them.
        pub nt_stores: u64,
        /// Lines that some cache held when stores to them were to be combined.
        pub nt_copies: u64,
        /// Line fill buffers taken to combine stores.
        pub combined: u64,
        /// Combined lines written to memory, with all of their bytes.
        pub evicted_full: u64,
        /// Combined lines written to memory, with only some of their bytes.
        pub evicted_partial: u64,
        /// Partial combined lines that memory has read before.
        pub evicted_reads: u64,
        /// Combined lines that have left since all of their bytes were there.
        pub left_full: u64,
        /// Combined lines that have left because a line fill buffer was needed.
        pub left_register: u64,
        /// Combined lines that have left because a younger one left.
        pub left_order: u64,
        /// Combined lines that have left for a fence or a device access.
        pub left_fence: u64,
        /// Combined lines that have left for an atomic.
        pub left_atomic: u64,
        /// Combined lines that have left for another hart, or for a fetch of instructions.
        pub left_probe: u64,
        /// Combined lines that have left for a load of the line.
        pub left_load: u64,
        /// Combined lines that have left for a store to the line without such a hint.
        pub left_store: u64,
        /// Combined lines that have left for a flush of the line.
        pub left_flush: u64,
        /// Stores to be combined that found all line fill buffers taken.
        pub lfb_waits: u64,
        /// Core cycles that they have waited.
        pub lfb_wait_cycles: u64,
    }
}

impl StoreStats {
    /// A combined line leaves.
    pub(crate) fn leaves(&mut self, why: Why) {
        let n = match why {
            Why::Full => &mut self.left_full,
            Why::Register => &mut self.left_register,
            Why::Order => &mut self.left_order,
            Why::Fence => &mut self.left_fence,
            Why::Atomic => &mut self.left_atomic,
            Why::Probe => &mut self.left_probe,
            Why::Load => &mut self.left_load,
            Why::Store => &mut self.left_store,
            Why::Flush => &mut self.left_flush,
        };
        *n += 1;
    }
}
