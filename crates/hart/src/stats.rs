//! What a hart counts.

use nagori_counters::{counters, is_zero};
use serde::{Deserialize, Serialize};

counters! {
    /// Event counters of a hart.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HartStats {
        /// L1D misses of loads.
        pub l1d_load_misses: u64,
        /// L1D misses of stores and atomics.
        pub l1d_store_misses: u64,
        /// L1D misses of page walks.
        pub l1d_walk_misses: u64,
        /// Lines that were present but had to be made writable.
        pub l1d_upgrades: u64,
        /// Dirty lines written back on replacement.
        pub l1d_writebacks: u64,
        /// Dirty lines written back by flush and clean instructions.
        pub l1d_flushes: u64,
        /// Dirty lines of other caches written back for this hart.
        pub probes: u64,
        /// L1I misses.
        pub l1i_misses: u64,
        /// Data TLB misses.
        pub dtlb_misses: u64,
        /// Instruction TLB misses.
        pub itlb_misses: u64,
        /// Mispredicted branches and jumps.
        pub mispredicts: u64,
        /// Data TLB misses of stores and atomics.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub dtlb_store_misses: u64,
        /// Cycles spent waiting for lines (data, walks, instructions).
        pub memory_stall_cycles: u64,
        /// Cycles in which a load that has missed L1D is under way; on a core that waits for loads, those of them that
        /// are among the former.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub load_stall_cycles: u64,
        /// Cycles as in `load_stall_cycles`, for lines that the first outer cache level had.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub l2_stall_cycles: u64,
        /// Cycles as in `load_stall_cycles`, for lines that a level behind it had.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub llc_stall_cycles: u64,
        /// Loads from devices.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub device_loads: u64,
        /// Stores to devices.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub device_stores: u64,
        /// Exceptions taken.
        pub exceptions: u64,
        /// Interrupts taken.
        pub interrupts: u64,
        /// Cycles spent in wfi.
        pub idle_cycles: u64,
    }
}
