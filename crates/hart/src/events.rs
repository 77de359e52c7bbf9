//! The events that `mhpmevent` selects: one table with codes, names, meanings, and where each count comes from. Hardware
//! counters ([`crate::hpm`]), the device tree, the machine's statistics by privilege and `docs/counters.md` read it.
//!
//! An event is added as a row. Its source is a field of one of the sets of counters below, which is counted by whatever
//! the event happens in:
//!
//! - [`HartStats`]: what happens in the core and its first-level caches,
//! - [`CacheCounts`]: what a hart's accesses do in a cache level, or in the MSHRs (line fill buffers) of L1D,
//! - [`MemoryCounts`]: the lines that memory reads and writes for a hart,
//! - [`Mix`]: kinds of instructions, which are counted only while something needs them.
//!
//! The rows of line fill buffers are in the group `lfb`; events of store buffers and non-temporal stores get a group of
//! their own behind it. Codes are never reused: the upper byte is the group.

use crate::hart::HartStats;
use crate::lines::{CacheCounts, HartCounts, MemoryCounts};
use crate::preop::PreOp;
use nagori_isa::{Format, Op};
use serde::{Deserialize, Serialize};

/// Bits of `mhpmevent` that select the event.
pub const CODE: u64 = 0xffff;

/// Instructions by kind. They are counted while some `mhpmevent` selects an event that needs them
/// ([`Source::Mix`], [`Source::Hits`]), or always if the machine counts by privilege.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Loads, with `lr` and those of floating point.
    pub loads: u64,
    /// Stores, with `sc` and those of floating point, and `cbo.zero`.
    pub stores: u64,
    /// Atomics that read and write.
    pub atomics: u64,
    /// Conditional branches.
    pub branches: u64,
    /// Jumps, direct or not.
    pub jumps: u64,
}

impl Mix {
    /// Counts instructions of a block.
    pub(crate) fn of(ops: &[PreOp]) -> Mix {
        let mut m = Mix::default();
        for p in ops.iter().filter(|p| p.len != crate::preop::ILLEGAL_LEN) {
            match (p.op, p.op.info().format) {
                (Op::ScW | Op::ScD | Op::CboZero, _) => m.stores += 1,
                (_, Format::Load | Format::FpLoad | Format::LoadReserved) => m.loads += 1,
                (_, Format::Store | Format::FpStore) => m.stores += 1,
                (_, Format::Amo | Format::Cas | Format::CasPair) => m.atomics += 1,
                (_, Format::B) => m.branches += 1,
                (Op::Jal | Op::Jalr, _) => m.jumps += 1,
                _ => {}
            }
        }
        m
    }

    /// Whether every count is below a value.
    pub(crate) fn below(&self, limit: u64) -> bool {
        let all = [
            self.loads,
            self.stores,
            self.atomics,
            self.branches,
            self.jumps,
        ];
        all.iter().all(|n| *n < limit)
    }

    /// Combines two counts, kind by kind.
    pub(crate) fn zip(&self, o: &Mix, f: impl Fn(u64, u64) -> u64) -> Mix {
        Mix {
            loads: f(self.loads, o.loads),
            stores: f(self.stores, o.stores),
            atomics: f(self.atomics, o.atomics),
            branches: f(self.branches, o.branches),
            jumps: f(self.jumps, o.jumps),
        }
    }
}

/// Where the count of an event comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Nothing is counted.
    None,
    /// The hart's time in core cycles.
    Cycles,
    /// The same without the time in `wfi`.
    ActiveCycles,
    /// Retired instructions.
    Instructions,
    /// A counter of the hart.
    Hart(fn(&HartStats) -> u64),
    /// A kind of instructions.
    Mix(fn(&Mix) -> u64),
    /// Accesses to memory of a kind that L1D has answered: the difference of both.
    Hits(fn(&Mix) -> u64, fn(&HartStats) -> u64),
    /// What the hart does in its L1D, besides what `Hart` counts.
    L1d(fn(&CacheCounts) -> u64),
    /// The same of L1I.
    L1i(fn(&CacheCounts) -> u64),
    /// What the hart does in the first outer level.
    L2(fn(&CacheCounts) -> u64),
    /// The same in the last level, if that is not the only outer one.
    Llc(fn(&CacheCounts) -> u64),
    /// What memory does for the hart.
    Memory(fn(&MemoryCounts) -> u64),
}

/// The difference of a [`Source::Hits`] may be negative in between; counts are what is added to this.
const LEAST: u64 = 1 << 56;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// Its number in `mhpmevent`, and `perf`'s `rNNN`.
    pub code: u16,
    /// Its name.
    pub name: &'static str,
    /// Where it is counted.
    pub source: Source,
    /// How often it can happen in a core cycle, at the most. Only says how early a counter that is going to overflow is
    /// looked at.
    pub most: u64,
    /// What it means, for the documentation.
    pub doc: &'static str,
}

/// What a hart's events are counted from, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// Core cycle.
    pub cycle: u64,
    /// Instructions retired.
    pub instret: u64,
    /// Counters of the hart.
    pub hart: &'a HartStats,
    /// Its instructions by kind.
    pub mix: Mix,
    /// Its part in what happens in caches and memory.
    pub lines: &'a HartCounts,
}

impl EventRow {
    /// The count of the event so far.
    pub fn count(&self, c: &Counted<'_>) -> u64 {
        let levels = &c.lines.levels;
        match self.source {
            Source::None => 0,
            Source::Cycles => c.cycle,
            Source::ActiveCycles => c.cycle.saturating_sub(c.hart.idle_cycles),
            Source::Instructions => c.instret,
            Source::Hart(f) => f(c.hart),
            Source::Mix(f) => f(&c.mix),
            Source::Hits(all, misses) => (LEAST + all(&c.mix)).wrapping_sub(misses(c.hart)),
            Source::L1d(f) => f(&c.lines.first[0]),
            Source::L1i(f) => f(&c.lines.first[1]),
            Source::L2(f) => levels.first().map_or(0, f),
            Source::Llc(f) => levels.last().filter(|_| levels.len() > 1).map_or(0, f),
            Source::Memory(f) => f(&c.lines.memory),
        }
    }

    /// Whether instructions have to be counted by kind for it.
    pub fn needs_mix(&self) -> bool {
        matches!(self.source, Source::Mix(_) | Source::Hits(..))
    }

    /// Whether a machine with so many outer cache levels has the event.
    pub fn exists(&self, levels: usize) -> bool {
        match self.source {
            Source::L2(_) => levels > 0,
            Source::Llc(_) => levels > 1,
            _ => true,
        }
    }
}

/// Of an event whose count follows from one instruction: a core issues at most so many in a cycle.
const CORE: u64 = 4;
/// Of one in the first-level caches and TLBs: an access and the walks before it.
const FIRST: u64 = 16;
/// Of one farther out, where prefetches of several lines follow from an access.
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
                "Those that this level has answered",
            ),
            row(
                $group + 2,
                concat!($level, "-misses"),
                $source(CacheCounts::misses),
                OUTER,
                "Those that it has not; also those for whose line a prefetch was under way",
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
                "Misses that found all of them taken",
            ),
            row(
                $group + 18,
                concat!($level, "-mshr-full-cycles"),
                $source(|c| c.mshr_full_cycles),
                OUTER,
                "Cycles that these have waited",
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

/// A group of events.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its events, by code.
    pub rows: &'static [EventRow],
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
        "Misses that found all of them taken",
    ),
    row(
        0x0402,
        "lfb-full-cycles",
        Source::L1d(|c| c.mshr_full_cycles),
        OUTER,
        "Cycles that these have waited",
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

/// All events, by code.
pub fn rows() -> impl Iterator<Item = &'static EventRow> {
    GROUPS.iter().flat_map(|g| g.rows)
}

/// The event of a code.
pub fn lookup(code: u16) -> Option<&'static EventRow> {
    // A group's rows have the same upper byte.
    let group = GROUPS.iter().find(|g| g.rows[0].code >> 8 == code >> 8)?;
    group.rows.iter().find(|r| r.code == code)
}

/// An event of RISC-V's Supervisor Binary Interface (PMU extension, hardware and cache events), and ours that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SbiEvent {
    /// `event_idx` of the SBI.
    pub index: u32,
    /// As `perf` calls it.
    pub name: &'static str,
    /// Code of our event.
    pub code: u16,
}

const fn sbi(index: u32, name: &'static str, code: u16) -> SbiEvent {
    SbiEvent { index, name, code }
}

/// Events that every machine has.
static SBI: &[SbiEvent] = &[
    sbi(0x1, "cycles", 0x0102),
    sbi(0x2, "instructions", 0x0103),
    sbi(0x5, "branches", 0x0107),
    sbi(0x6, "branch-misses", 0x0109),
    sbi(0x9, "stalled-cycles-backend", 0x0110),
    sbi(0xa, "ref-cycles", 0x0101),
    sbi(0x10000, "L1-dcache-loads", 0x0200),
    sbi(0x10001, "L1-dcache-load-misses", 0x0204),
    sbi(0x10002, "L1-dcache-stores", 0x0201),
    sbi(0x10003, "L1-dcache-store-misses", 0x0205),
    sbi(0x10004, "L1-dcache-prefetches", 0x0208),
    sbi(0x10009, "L1-icache-load-misses", 0x0300),
    sbi(0x1000c, "L1-icache-prefetches", 0x0301),
    sbi(0x10018, "dTLB-loads", 0x0200),
    sbi(0x10019, "dTLB-load-misses", 0x0501),
    sbi(0x1001a, "dTLB-stores", 0x0201),
    sbi(0x1001b, "dTLB-store-misses", 0x0502),
    sbi(0x10021, "iTLB-load-misses", 0x0503),
    sbi(0x10028, "branch-loads", 0x0107),
    sbi(0x10029, "branch-load-misses", 0x0109),
];

/// Events of the last level, which is L1D where there is no outer one.
static LAST_IS_L1D: &[SbiEvent] = &[
    sbi(0x3, "cache-references", 0x0200),
    sbi(0x4, "cache-misses", 0x0204),
    sbi(0x10010, "LLC-loads", 0x0200),
    sbi(0x10011, "LLC-load-misses", 0x0204),
    sbi(0x10012, "LLC-stores", 0x0201),
    sbi(0x10013, "LLC-store-misses", 0x0205),
];

/// Offsets from the first code of the last level's group.
static LAST_IS_OUTER: &[SbiEvent] = &[
    sbi(0x3, "cache-references", 0x00),
    sbi(0x4, "cache-misses", 0x02),
    sbi(0x10010, "LLC-loads", LOADS),
    sbi(0x10011, "LLC-load-misses", 0x04),
    sbi(0x10012, "LLC-stores", STORES),
    sbi(0x10013, "LLC-store-misses", 0x06),
    sbi(0x10015, "LLC-prefetch-misses", 0x0c),
];

/// Of a level's group: loads and stores that have reached it.
const LOADS: u16 = 0x13;
const STORES: u16 = 0x14;

/// The SBI's events that a machine with so many outer cache levels has, by index.
pub fn sbi_events(levels: usize) -> Vec<SbiEvent> {
    let mut all = SBI.to_vec();
    match levels {
        0 => all.extend(LAST_IS_L1D),
        n => {
            let group = if n == 1 { 0x0600 } else { 0x0700 };
            let of_level = |e: &SbiEvent| sbi(e.index, e.name, group + e.code);
            all.extend(LAST_IS_OUTER.iter().map(of_level));
        }
    }
    all.sort_by_key(|e| e.index);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_and_lead_back() {
        let all: Vec<_> = rows().collect();
        for (i, r) in all.iter().enumerate() {
            assert!(
                lookup(r.code).is_some_and(|f| f.name == r.name),
                "{}",
                r.name
            );
            for other in &all[..i] {
                assert!(other.code < r.code, "{} {}", other.name, r.name);
                assert_ne!(other.name, r.name);
            }
        }
        assert!(lookup(0).is_none() && lookup(0x0102 + 0x4000).is_none());
        for g in GROUPS {
            assert!(g.rows.iter().all(|r| r.code >> 8 == g.rows[0].code >> 8));
        }
    }

    #[test]
    fn every_event_of_the_firmware_is_one_of_ours() {
        for levels in 0..4 {
            let all = sbi_events(levels);
            for e in &all {
                let row = lookup(e.code);
                assert!(row.is_some_and(|r| r.exists(levels)), "{} {levels}", e.name);
            }
            for w in all.windows(2) {
                assert!(w[0].index < w[1].index, "{}", w[1].name);
            }
        }
    }
}
