//! The events that `mhpmevent` selects: one table with codes, names, meanings, and where each count comes from.
//! Hardware counters ([`crate::hpm`]), the device tree, the machine's statistics by privilege and `docs/counters.md`
//! read it.
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

mod sbi;
mod table;

pub use sbi::{sbi_events, SbiEvent};
pub use table::GROUPS;

use crate::preop::PreOp;
use crate::stats::HartStats;
use nagori_cache::{CacheCounts, HartCounts, MemoryCounts};
use nagori_counters::counters;
use nagori_isa::{Format, Op};
use serde::{Deserialize, Serialize};

/// Bits of `mhpmevent` that select the event.
pub const CODE: u64 = 0xffff;

counters! {
    /// Instructions by kind. They are counted while some `mhpmevent` selects an event that needs them
    /// ([`Source::Mix`], [`Source::Hits`]).
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
}

/// Where the count of an event comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Nothing is counted.
    None,
    /// The hart's time in core cycles.
    Cycles,
    /// The hart's time in core cycles, without the time in `wfi`.
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
    /// What the hart does in its L1I, besides what `Hart` counts.
    L1i(fn(&CacheCounts) -> u64),
    /// What the hart does in the first outer level.
    L2(fn(&CacheCounts) -> u64),
    /// What the hart does in the last level, if that is not the only outer one.
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

/// A group of events.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its events, by code.
    pub rows: &'static [EventRow],
}

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

#[cfg(test)]
mod page;
