//! Counters of the buffers of stores.

use super::Why;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a hart's store buffer, of its combined lines, and of its accesses under hints of Zihintntl.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct StoreStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl StoreStats {
            /// Combines two sets of counters, counter by counter.
            pub fn zip(&self, o: &StoreStats, f: impl Fn(u64, u64) -> u64) -> StoreStats {
                StoreStats { $($name: f(self.$name, o.$name),)* }
            }

            /// All counters with their names.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Stores that took an entry of the store buffer or joined one.
    buffered,
    /// Those of them that joined an entry.
    coalesced,
    /// Entries written to the cache.
    drained,
    /// Lines requested for entries: missing, or held without the right to store.
    requested,
    /// Loads that got their bytes from the store buffer.
    forwarded,
    /// Loads that had to wait until an entry was written, since it had some of their bytes only.
    forward_waits,
    /// Stores that found the store buffer full.
    room_waits,
    /// Core cycles that they have waited.
    room_wait_cycles,
    /// Waits of fences, atomics and the like for what was stored before.
    drain_waits,
    /// Core cycles that they have waited.
    drain_wait_cycles,
    /// Loads under a hint that has an effect.
    nt_loads,
    /// Those that missed the first-level data cache.
    nt_load_misses,
    /// Stores under a hint that combines them.
    nt_stores,
    /// Lines that some cache held when stores to them were to be combined.
    nt_copies,
    /// Line fill buffers taken to combine stores.
    combined,
    /// Combined lines written to memory, with all of their bytes.
    evicted_full,
    /// The same with some of their bytes.
    evicted_partial,
    /// Partial ones that memory has read before.
    evicted_reads,
    /// Combined lines that have left since all of their bytes were there.
    left_full,
    /// Because a line fill buffer was needed.
    left_register,
    /// Because a younger one left.
    left_order,
    /// For a fence or a device access.
    left_fence,
    /// For an atomic.
    left_atomic,
    /// For another hart, or for a fetch of instructions.
    left_probe,
    /// For a load of the line.
    left_load,
    /// For a store to the line without such a hint.
    left_store,
    /// For a flush of the line.
    left_flush,
    /// Stores to be combined that found all line fill buffers taken.
    lfb_waits,
    /// Core cycles that they have waited.
    lfb_wait_cycles,
}

impl StoreStats {
    /// A combined line leaves.
    pub(super) fn leaves(&mut self, why: Why) {
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

    /// Whether every counter is below a value.
    pub(super) fn below(&self, limit: u64) -> bool {
        self.all().iter().all(|(_, n)| *n < limit)
    }
}
