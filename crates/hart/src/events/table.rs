//! The rows of the table of events.

use super::{EventRow, Group, Source};
use nagori_cache::CacheCounts;

/// How often an event can happen in a cycle whose count follows from one instruction: a core issues at most so many.
const CORE: u64 = 4;
/// The bound of an event in the first-level caches and TLBs: an access and the walks before it.
const FIRST: u64 = 16;
/// The bound of an event farther out, where prefetches of several lines follow from an access.
const OUTER: u64 = 256;

const fn row(
    code: u16,
    name: &'static str,
    source: Source,
    most: u64,
    doc: &'static str,
) -> EventRow {
    EventRow {
        code,
        name,
        source,
        most,
        doc,
    }
}

/// The rows of an outer cache level.
macro_rules! level {
    ($group:literal, $level:literal, $source:path) => {
        [
            row(
                $group,
                concat!($level, "-accesses"),
                $source(|c| c.hits() + c.misses()),
                OUTER,
                "Requests of the inner caches for harts: loads, stores, instruction fetches, page walks",
            ),
            row(
                $group + 1,
                concat!($level, "-hits"),
                $source(CacheCounts::hits),
                OUTER,
                "Requests that this level has answered",
            ),
            row(
                $group + 2,
                concat!($level, "-misses"),
                $source(CacheCounts::misses),
                OUTER,
                "Requests that this level has not answered; also those for whose line a prefetch was under way",
            ),
            row(
                $group + 3,
                concat!($level, "-load-hits"),
                $source(|c| c.load_hits),
                OUTER,
                "Hits of loads",
            ),
            row(
                $group + 4,
                concat!($level, "-load-misses"),
                $source(|c| c.load_misses),
                OUTER,
                "Misses of loads",
            ),
            row(
                $group + 5,
                concat!($level, "-store-hits"),
                $source(|c| c.store_hits),
                OUTER,
                "Hits of stores and atomics",
            ),
            row(
                $group + 6,
                concat!($level, "-store-misses"),
                $source(|c| c.store_misses),
                OUTER,
                "Misses of stores and atomics",
            ),
            row(
                $group + 7,
                concat!($level, "-fetch-hits"),
                $source(|c| c.fetch_hits),
                OUTER,
                "Hits of instruction fetches",
            ),
            row(
                $group + 8,
                concat!($level, "-fetch-misses"),
                $source(|c| c.fetch_misses),
                OUTER,
                "Misses of instruction fetches",
            ),
            row(
                $group + 9,
                concat!($level, "-walk-hits"),
                $source(|c| c.walk_hits),
                OUTER,
                "Hits of page walks",
            ),
            row(
                $group + 10,
                concat!($level, "-walk-misses"),
                $source(|c| c.walk_misses),
                OUTER,
                "Misses of page walks",
            ),
            row(
                $group + 11,
                concat!($level, "-prefetch-hits"),
                $source(|c| c.prefetch_hits),
                OUTER,
                "Prefetches of inner caches that this level has answered",
            ),
            row(
                $group + 12,
                concat!($level, "-prefetch-misses"),
                $source(|c| c.prefetch_misses),
                OUTER,
                "Prefetches that went past this level: of inner caches, and its own",
            ),
            row(
                $group + 13,
                concat!($level, "-victims"),
                $source(|c| c.victims),
                OUTER,
                "Lines that made room for others, modified or not",
            ),
            row(
                $group + 14,
                concat!($level, "-writebacks-demand"),
                $source(|c| c.writebacks_demand),
                OUTER,
                "Modified lines that made room because of an access that missed, in this level or an inner one",
            ),
            row(
                $group + 15,
                concat!($level, "-writebacks-other"),
                $source(|c| c.writebacks_other),
                OUTER,
                "Modified lines passed on without such an access: for prefetched lines, or written through",
            ),
            row(
                $group + 16,
                concat!($level, "-mshr-allocations"),
                $source(|c| c.mshr_allocations),
                OUTER,
                "Miss status holding registers taken, by misses and prefetches",
            ),
            row(
                $group + 17,
                concat!($level, "-mshr-full"),
                $source(|c| c.mshr_full),
                OUTER,
                "Misses that found all miss status holding registers taken",
            ),
            row(
                $group + 18,
                concat!($level, "-mshr-full-cycles"),
                $source(|c| c.mshr_full_cycles),
                OUTER,
                "Cycles that such misses have waited",
            ),
            row(
                $group + 19,
                concat!($level, "-loads"),
                $source(|c| c.load_hits + c.load_misses),
                OUTER,
                "Requests for loads",
            ),
            row(
                $group + 20,
                concat!($level, "-stores"),
                $source(|c| c.store_hits + c.store_misses),
                OUTER,
                "Requests for stores and atomics",
            ),
        ]
    };
}

/// All events, by group and code.
pub static GROUPS: &[Group] = &[
    Group {
        name: "core",
        rows: CORE_ROWS,
    },
    Group {
        name: "l1d",
        rows: L1D_ROWS,
    },
    Group {
        name: "l1i",
        rows: L1I_ROWS,
    },
    Group {
        name: "lfb",
        rows: LFB_ROWS,
    },
    Group {
        name: "tlb",
        rows: TLB_ROWS,
    },
    Group {
        name: "l2",
        rows: &L2_ROWS,
    },
    Group {
        name: "llc",
        rows: &LLC_ROWS,
    },
    Group {
        name: "memory",
        rows: MEMORY_ROWS,
    },
];

static CORE_ROWS: &[EventRow] = &[
    row(
        0x0101,
        "cycles",
        Source::Cycles,
        1,
        "Core cycles, also those spent in `wfi`, as `mcycle` has them",
    ),
    row(
        0x0102,
        "active-cycles",
        Source::ActiveCycles,
        1,
        "Core cycles without those in `wfi`; `perf`'s `cycles`",
    ),
    row(
        0x0103,
        "instructions",
        Source::Instructions,
        CORE,
        "Instructions retired, as `minstret` has them",
    ),
    row(
        0x0104,
        "loads",
        Source::Mix(|m| m.loads),
        CORE,
        "Loads retired, `lr` and those of devices among them",
    ),
    row(
        0x0105,
        "stores",
        Source::Mix(|m| m.stores),
        CORE,
        "Stores retired, `sc`, `cbo.zero` and those to devices among them",
    ),
    row(
        0x0106,
        "atomics",
        Source::Mix(|m| m.atomics),
        CORE,
        "Atomics retired that read and write",
    ),
    row(
        0x0107,
        "branches",
        Source::Mix(|m| m.branches + m.jumps),
        CORE,
        "Conditional branches and jumps retired",
    ),
    row(
        0x0108,
        "conditional-branches",
        Source::Mix(|m| m.branches),
        CORE,
        "Conditional branches retired",
    ),
    row(
        0x0109,
        "mispredicts",
        Source::Hart(|s| s.mispredicts),
        CORE,
        "Branches and jumps that were predicted wrong",
    ),
    row(
        0x010a,
        "exceptions",
        Source::Hart(|s| s.exceptions),
        CORE,
        "Exceptions taken",
    ),
    row(
        0x010b,
        "interrupts",
        Source::Hart(|s| s.interrupts),
        CORE,
        "Interrupts taken",
    ),
    row(
        0x0110,
        "stall-cycles",
        Source::Hart(|s| s.memory_stall_cycles),
        1,
        "Cycles of waiting for lines: data, page walks, instructions",
    ),
    row(
        0x0111,
        "load-pending-cycles",
        Source::Hart(|s| s.load_stall_cycles),
        1,
        "Cycles in which a load that has missed L1D is under way",
    ),
    row(
        0x0112,
        "l2-stall-cycles",
        Source::Hart(|s| s.l2_stall_cycles),
        1,
        "Stall cycles for lines that the first outer level had",
    ),
    row(
        0x0113,
        "llc-stall-cycles",
        Source::Hart(|s| s.llc_stall_cycles),
        1,
        "Stall cycles for lines that a level behind it had",
    ),
    row(
        0x0114,
        "memory-stall-cycles",
        Source::Hart(|s| s.memory_stall_cycles - s.l2_stall_cycles - s.llc_stall_cycles),
        1,
        "Stall cycles for everything else: memory, other harts, MSHRs",
    ),
];

static L1D_ROWS: &[EventRow] = &[
    row(
        0x0200,
        "l1d-loads",
        Source::Mix(|m| m.loads),
        CORE,
        "As `loads`",
    ),
    row(
        0x0201,
        "l1d-stores",
        Source::Mix(|m| m.stores + m.atomics),
        CORE,
        "Stores and atomics",
    ),
    row(
        0x0202,
        "l1d-load-hits",
        Source::Hits(|m| m.loads, |s| s.l1d_load_misses + s.device_loads),
        CORE,
        "Loads from memory that have not missed",
    ),
    row(
        0x0203,
        "l1d-store-hits",
        Source::Hits(
            |m| m.stores + m.atomics,
            |s| s.l1d_store_misses + s.device_stores,
        ),
        CORE,
        "Stores and atomics to memory that have not missed",
    ),
    row(
        0x0204,
        "l1d-load-misses",
        Source::Hart(|s| s.l1d_load_misses),
        FIRST,
        "Misses of loads",
    ),
    row(
        0x0205,
        "l1d-store-misses",
        Source::Hart(|s| s.l1d_store_misses),
        FIRST,
        "Misses of stores and atomics",
    ),
    row(
        0x0206,
        "l1d-walk-misses",
        Source::Hart(|s| s.l1d_walk_misses),
        FIRST,
        "Misses of page walks",
    ),
    row(
        0x0207,
        "l1d-misses",
        Source::Hart(|s| s.l1d_load_misses + s.l1d_store_misses + s.l1d_walk_misses),
        FIRST,
        "All three",
    ),
    row(
        0x0208,
        "l1d-prefetches",
        Source::L1d(|c| c.prefetch_misses),
        OUTER,
        "Lines that its prefetcher has requested",
    ),
    row(
        0x0209,
        "l1d-upgrades",
        Source::Hart(|s| s.l1d_upgrades),
        FIRST,
        "Stores to lines that were there without the right to be written",
    ),
    row(
        0x020a,
        "l1d-writebacks-demand",
        Source::Hart(|s| s.l1d_writebacks),
        FIRST,
        "Modified lines that made room for one that an access missed",
    ),
    row(
        0x020b,
        "l1d-writebacks-prefetch",
        Source::L1d(|c| c.writebacks_other),
        OUTER,
        "Modified lines that made room for a prefetched one",
    ),
    row(
        0x020c,
        "l1d-flushes",
        Source::Hart(|s| s.l1d_flushes),
        FIRST,
        "Modified lines that flush and clean instructions have written back",
    ),
    row(
        0x020d,
        "probes",
        Source::Hart(|s| s.probes),
        FIRST,
        "Modified lines of other harts that were written back for this one",
    ),
];

static L1I_ROWS: &[EventRow] = &[
    row(
        0x0300,
        "l1i-misses",
        Source::Hart(|s| s.l1i_misses),
        FIRST,
        "Misses of instruction fetches",
    ),
    row(
        0x0301,
        "l1i-prefetches",
        Source::L1i(|c| c.prefetch_misses),
        OUTER,
        "Lines that its prefetcher has requested",
    ),
];

/// Line fill buffers: the MSHRs of L1D. Where a description gives it none, nothing is counted.
static LFB_ROWS: &[EventRow] = &[
    row(
        0x0400,
        "lfb-allocations",
        Source::L1d(|c| c.mshr_allocations),
        OUTER,
        "Line fill buffers taken, by misses and prefetches",
    ),
    row(
        0x0401,
        "lfb-full",
        Source::L1d(|c| c.mshr_full),
        OUTER,
        "Misses that found all line fill buffers taken",
    ),
    row(
        0x0402,
        "lfb-full-cycles",
        Source::L1d(|c| c.mshr_full_cycles),
        OUTER,
        "Cycles that such misses have waited",
    ),
];

static TLB_ROWS: &[EventRow] = &[
    row(
        0x0500,
        "dtlb-misses",
        Source::Hart(|s| s.dtlb_misses),
        FIRST,
        "Page walks for data",
    ),
    row(
        0x0501,
        "dtlb-load-misses",
        Source::Hart(|s| s.dtlb_misses - s.dtlb_store_misses),
        FIRST,
        "Page walks for loads",
    ),
    row(
        0x0502,
        "dtlb-store-misses",
        Source::Hart(|s| s.dtlb_store_misses),
        FIRST,
        "Page walks for stores and atomics",
    ),
    row(
        0x0503,
        "itlb-misses",
        Source::Hart(|s| s.itlb_misses),
        FIRST,
        "Page walks for instructions",
    ),
];

static L2_ROWS: [EventRow; 21] = level!(0x0600, "l2", Source::L2);
static LLC_ROWS: [EventRow; 21] = level!(0x0700, "llc", Source::Llc);

static MEMORY_ROWS: &[EventRow] = &[
    row(
        0x0800,
        "dram-reads",
        Source::Memory(|m| m.dram_reads),
        OUTER,
        "Lines of DRAM read for this hart, prefetches among them",
    ),
    row(
        0x0801,
        "dram-writes",
        Source::Memory(|m| m.dram_writes),
        OUTER,
        "Lines of DRAM written for this hart: evicted, flushed, probed",
    ),
    row(
        0x0802,
        "nvmm-reads",
        Source::Memory(|m| m.nvmm_reads),
        OUTER,
        "Lines of NVMM read for this hart",
    ),
    row(
        0x0803,
        "nvmm-writes",
        Source::Memory(|m| m.nvmm_writes),
        OUTER,
        "Lines of NVMM written for this hart",
    ),
];
