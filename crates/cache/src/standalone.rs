//! The caches of some harts without the harts, for accesses that were recorded elsewhere.
//!
//! Lines, levels, coherence and replacement are those of a machine, but there is no time: a line is there at once. So
//! prefetchers, miss status holding registers and banks take no part.

use super::coherence::Coherence;
use super::level_stats::LevelStats;
use super::tags::LineState;
use super::want::{From, Want};
use crate::config::{CacheGeometry, LevelConfig, PrefetchConfig};
use crate::LineKind;
use std::collections::VecDeque;

/// What a program does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It executes code there.
    Fetch,
    /// It reads.
    Load,
    /// It writes.
    Store,
}

/// A line on its way from memory or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTransfer {
    /// Address of the line.
    pub line: u64,
    /// Whether it goes to memory.
    pub write: bool,
}

/// Accesses to first-level caches, of all harts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FirstLevelStats {
    /// Lines of code executed.
    pub fetches: u64,
    /// Lines of code executed that L1I lacked.
    pub fetch_misses: u64,
    /// Loads.
    pub loads: u64,
    /// Loads whose line L1D lacked.
    pub load_misses: u64,
    /// Stores.
    pub stores: u64,
    /// Stores whose line L1D lacked.
    pub store_misses: u64,
    /// Modified lines that L1D has evicted or handed over.
    pub writebacks: u64,
}

/// Caches by description, without harts.
#[derive(Debug)]
pub struct Standalone {
    c: Coherence,
    transfers: VecDeque<LineTransfer>,
    stats: FirstLevelStats,
}

impl Standalone {
    /// Empty caches of a number of harts. `bytes` is the end of the memory: addresses are below.
    pub fn new(
        harts: usize,
        (l1i, l1d): (CacheGeometry, CacheGeometry),
        levels: &[LevelConfig],
        bytes: u64,
    ) -> Self {
        let timeless: Vec<_> = levels
            .iter()
            .map(|l| LevelConfig {
                mshrs: 0,
                banks: 1,
                bank_cycles: 0,
                prefetch: PrefetchConfig::default(),
                ..*l
            })
            .collect();
        Standalone {
            c: Coherence::new(harts, l1d, l1i, 0, bytes).with_levels(&timeless),
            transfers: VecDeque::new(),
            stats: FirstLevelStats::default(),
        }
    }

    /// A hart touches the line at an address.
    pub fn access(&mut self, hart: usize, access: Access, addr: u64) {
        let line = addr & !63;
        match access {
            Access::Fetch => self.fetch(hart, line),
            Access::Load => self.data(hart, line, false),
            Access::Store => self.data(hart, line, true),
        }
    }

    /// The next transfer, in their order.
    pub fn next_transfer(&mut self) -> Option<LineTransfer> {
        self.transfers.pop_front()
    }

    /// Accesses so far.
    pub fn stats(&self) -> FirstLevelStats {
        self.stats
    }

    /// Statistics of the outer levels, from the nearest to the harts on.
    pub fn level_stats(&self) -> Vec<LevelStats> {
        self.c.level_stats()
    }

    fn send(&mut self, line: u64, write: bool) {
        self.transfers.push_back(LineTransfer { line, write });
    }

    /// Sends what the levels have evicted.
    fn settle(&mut self) {
        while let Some((line, _)) = self.c.next_to_memory() {
            self.send(line, true);
        }
        // No filter covers lines here.
        while self.c.next_dropped().is_some() {}
    }

    /// L1D evicts or cleans a line.
    fn give(&mut self, hart: usize, line: u64, modified: bool) {
        self.stats.writebacks += u64::from(modified);
        self.c.give(hart, line, modified, 0);
        self.settle();
    }

    /// If another hart has the line modified, it hands it over or writes it back.
    fn collect(&mut self, hart: usize, line: u64) -> bool {
        let (others, dirty) = self.c.holders(hart, line);
        if let Some(from) = dirty {
            self.stats.writebacks += 1;
            let handed_over = self.c.hand_over((hart, hart), from, line, 0).is_some();
            self.settle();
            if !handed_over {
                self.send(line, true);
            }
        }
        others
    }

    /// Brings a line from the nearest level that has it, or from memory; whether it is modified.
    fn bring(&mut self, hart: usize, line: u64, kind: LineKind) -> bool {
        let want = Want {
            hart,
            line,
            kind,
            pc: 0,
            now: 0,
            blocks: false,
            hint: None,
        };
        // Nobody waits for a register or a prefetch: there are none.
        let Ok(found) = self.c.fetch(&want) else {
            return false;
        };
        if found.from == From::Memory {
            self.send(line, false);
        }
        self.settle();
        found.modified
    }

    fn data(&mut self, hart: usize, line: u64, write: bool) {
        let present = self.c.l1d[hart].find(line);
        let state = present.map_or(LineState::Invalid, |i| self.c.l1d[hart].entry(i).1);
        let (count, misses, kind) = if write {
            (
                &mut self.stats.stores,
                &mut self.stats.store_misses,
                LineKind::Store,
            )
        } else {
            (
                &mut self.stats.loads,
                &mut self.stats.load_misses,
                LineKind::Load,
            )
        };
        *count += 1;
        *misses += u64::from(present.is_none());
        match (present, state) {
            (Some(i), LineState::Exclusive | LineState::Dirty) => {
                self.c.l1d[hart].touch(i);
                if write {
                    self.c.l1d[hart].set(i, line, LineState::Dirty);
                }
                return;
            }
            (Some(i), _) if !write => {
                self.c.l1d[hart].touch(i);
                return;
            }
            _ => {}
        }
        let i = present.unwrap_or_else(|| self.make_room(hart, line));
        let others = self.collect(hart, line);
        let modified = present.is_none() && self.bring(hart, line, kind);
        if others {
            self.c.probe(hart, line, write);
        }
        let state = match (write || modified, others) {
            (true, _) => LineState::Dirty,
            (false, true) => LineState::Shared,
            (false, false) => LineState::Exclusive,
        };
        self.c.l1d.put(hart, i, line, state);
        match present {
            Some(_) => self.c.l1d[hart].touch(i),
            None => self.c.l1d[hart].filled(i),
        }
        self.c.take_notices(hart);
    }

    /// Evicts the line that a line of L1D replaces; the entry.
    fn make_room(&mut self, hart: usize, line: u64) -> usize {
        let i = self.c.l1d[hart].victim(line);
        let (old, state) = self.c.l1d[hart].entry(i);
        self.c.l1d.take(hart, i);
        let modified = state == LineState::Dirty;
        if modified || self.c.wants_clean() && state != LineState::Invalid {
            self.give(hart, old, modified);
        }
        i
    }

    /// A hart fetches instructions of a line.
    pub fn fetch(&mut self, hart: usize, line: u64) {
        self.stats.fetches += 1;
        if let Some(i) = self.c.l1i[hart].find(line) {
            self.c.l1i[hart].touch(i);
            return;
        }
        self.stats.fetch_misses += 1;
        // Data that were just written are collected from every L1D, this hart's included.
        let own = self.c.l1d[hart].find(line);
        match own.filter(|&i| self.c.l1d[hart].entry(i).1 == LineState::Dirty) {
            Some(i) => {
                self.c.l1d[hart].set(i, line, LineState::Shared);
                self.give(hart, line, true);
            }
            None => {
                self.collect(hart, line);
            }
        }
        self.bring(hart, line, LineKind::Fetch);
        let i = self.c.l1i[hart].victim(line);
        self.c.l1i.put(hart, i, line, LineState::Shared);
        self.c.l1i[hart].filled(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Inclusion, Replacement};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn geometry(sets: u32, ways: u32) -> CacheGeometry {
        CacheGeometry {
            sets,
            ways,
            line: 64,
            replacement: Replacement::Lru,
        }
    }

    fn caches(harts: usize, levels: &[LevelConfig]) -> Standalone {
        Standalone::new(harts, (geometry(2, 1), geometry(2, 2)), levels, 1 << 20)
    }

    fn all(s: &mut Standalone) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| s.next_transfer())
            .map(|t| (t.line, t.write))
            .collect()
    }

    #[test]
    fn misses_evictions_and_hits_of_one_hart() {
        let mut s = caches(1, &[]);
        // Set 0 has two ways: lines 0, 0x80, then 0x100 in place of 0.
        s.access(0, Access::Store, 0x8);
        s.access(0, Access::Load, 0x80);
        s.access(0, Access::Load, 0x20);
        s.access(0, Access::Load, 0x100);
        s.access(0, Access::Load, 0x180);
        let expected = [
            (0, false),
            (0x80, false),
            (0x100, false),
            (0, true),
            (0x180, false),
        ];
        assert_eq!(all(&mut s), expected);
        let n = s.stats();
        assert_eq!(
            (n.loads, n.load_misses, n.stores, n.store_misses),
            (4, 3, 1, 1)
        );
        assert_eq!(n.writebacks, 1);
        // What was written is written back before it is executed.
        s.access(0, Access::Store, 0x180);
        s.access(0, Access::Fetch, 0x180);
        s.access(0, Access::Fetch, 0x1a0);
        assert_eq!(all(&mut s), [(0x180, true), (0x180, false)]);
        assert_eq!((s.stats().fetches, s.stats().fetch_misses), (2, 1));
    }

    #[test]
    fn harts_take_lines_from_one_another() {
        let mut s = caches(2, &[]);
        s.access(0, Access::Store, 0x40);
        s.access(1, Access::Load, 0x40);
        s.access(1, Access::Store, 0x40);
        s.access(0, Access::Load, 0x40);
        let expected = [
            (0x40, false),
            (0x40, true),
            (0x40, false),
            (0x40, true),
            (0x40, false),
        ];
        assert_eq!(all(&mut s), expected);
    }

    #[test]
    fn a_level_keeps_what_l1_evicts() {
        let level = LevelConfig {
            geometry: geometry(16, 4),
            shared_by: 1,
            inclusion: Inclusion::Inclusive,
            ..LevelConfig::default()
        };
        let mut s = caches(1, &[level]);
        for _ in 0..10 {
            for line in 0..16 {
                s.access(0, Access::Store, line * 64);
            }
        }
        let read: Vec<_> = (0..16).map(|l| (l * 64, false)).collect();
        assert_eq!(all(&mut s), read, "each line is read once, none is written");
        assert_eq!(s.level_stats()[0].misses, 16);
    }

    proptest! {
        /// A memory that only sees transfers has, together with modified lines, all that was stored.
        #[test]
        fn transfers_carry_every_store(
            accesses in prop::collection::vec((0..2usize, 0..3u8, 0..24u64), 1..400),
            inclusion in prop::sample::select(vec![
                None, Some(Inclusion::Inclusive), Some(Inclusion::NonInclusive), Some(Inclusion::Exclusive),
            ]),
        ) {
            let level = |inclusion| LevelConfig {
                geometry: geometry(4, 2),
                shared_by: 2,
                inclusion,
                ..LevelConfig::default()
            };
            let levels: Vec<_> = inclusion.map(level).into_iter().collect();
            let mut s = caches(2, &levels);
            // Lines whose newest content is not in memory.
            let mut newer = BTreeSet::new();
            for (hart, kind, line) in accesses {
                let line = line * 64;
                let access = [Access::Fetch, Access::Load, Access::Store][usize::from(kind)];
                s.access(hart, access, line);
                let batch = all(&mut s);
                for (k, &(l, write)) in batch.iter().enumerate() {
                    prop_assert_eq!(write, newer.contains(&l), "{:#x}", l);
                    // An older state of a line may be written while a cache has a newer one.
                    let read_again = batch[k..].contains(&(l, false));
                    if write && (read_again || !s.c.is_modified(l)) {
                        newer.remove(&l);
                    }
                }
                if access == Access::Store {
                    newer.insert(line);
                }
                for l in (0..24).map(|l| l * 64) {
                    prop_assert_eq!(s.c.is_modified(l), newer.contains(&l), "{:#x}", l);
                }
                s.c.check_levels().unwrap();
            }
        }
    }
}
