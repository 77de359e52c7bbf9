//! Hits in the filter of a cache whose replacement policy depends on hits.
//!
//! Such a policy only needs the order of the lines' last uses since it was last told: a later use
//! of a line overrides the effect of an earlier one. So a hit only records its time in the filter's
//! entry. The hits of a set are passed to the policy, in their order, before anything else happens
//! in that set, or to a filter entry that covers a line of it. The policy then has the same state
//! as one that sees each access at once.
//!
//! An instruction that loads or stores takes at least a cycle, so no two hits of data have the same
//! time. Of code, two that issue in one cycle may lie in two lines, the second one behind the first:
//! so where two hits have the same time, addresses tell their order. A
//! hit in the cycle in which the line was brought in or looked up is part of that use. Times are
//! the low 32 bits of cycles; all hits are passed on at least once in [`PERIOD`] cycles, so that
//! the order of times stays clear.

use crate::config::CacheGeometry;
use crate::entry::FilterEntry;
use nagori_cache::{Tags, NO_SLOT, SLOTS};
use std::cmp::Ordering;

/// Greatest number of cycles after which all hits are passed on.
pub(crate) const PERIOD: u64 = 1 << 31;

/// Greatest number of ways of a first-level cache.
const WAYS: usize = 16;

/// The hits of a cache that have not been passed to its policy; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Uses {
    /// For each entry of the cache the slot that covers its line, or [`NO_SLOT`]. The cache's own
    /// note of it may be changed by other harts at any time.
    slots: Vec<u16>,
    /// For each slot the time up to which hits have been passed on.
    settled: [u32; SLOTS],
    /// A time before all hits that have not been passed on.
    base: u32,
    /// Entries of the cache with such hits whose filter slots have been emptied, in the order of
    /// their last uses.
    lost: Vec<u16>,
}

impl Uses {
    pub fn new(cache: CacheGeometry) -> Self {
        Self {
            slots: vec![NO_SLOT; (cache.sets * cache.ways) as usize],
            settled: [0; SLOTS],
            base: 0,
            lost: Vec::new(),
        }
    }

    /// Passes the hits in the set that begins at an entry to the policy.
    #[inline]
    pub fn settle(&mut self, entries: &[FilterEntry; SLOTS], cache: &mut Tags, start: usize) {
        if !self.lost.is_empty() {
            self.learn(cache);
        }
        let mut hits = [(0u32, 0u16); WAYS];
        let mut n = 0;
        for (i, slot) in (start..).zip(&self.slots[start..start + cache.ways()]) {
            if *slot == NO_SLOT {
                continue;
            }
            let slot = *slot as usize & (SLOTS - 1);
            let used = entries[slot].used;
            if used != self.settled[slot] {
                self.settled[slot] = used;
                hits[n % WAYS] = (used.wrapping_sub(self.base), i as u16);
                n += 1;
            }
        }
        if n > 1 {
            hits[..n].sort_unstable_by(|a, b| self.in_order(entries, a, b));
        }
        for (_, i) in &hits[..n] {
            cache.touch(*i as usize);
        }
    }

    /// The order of two hits, each a time and the entry of the cache.
    fn in_order(&self, entries: &[FilterEntry; SLOTS], a: &(u32, u16), b: &(u32, u16)) -> Ordering {
        let key = |i: u16| entries[self.slots[i as usize] as usize].key();
        let times = a.0.cmp(&b.0);
        times.then_with(|| key(a.1).cmp(&key(b.1)))
    }

    /// All entries of the cache with hits that the policy has not learned of, in the order of
    /// their last uses.
    fn all(&self, entries: &[FilterEntry; SLOTS]) -> Vec<u16> {
        let covered = self.slots.iter().zip(0u16..).filter(|s| *s.0 != NO_SLOT);
        let mut hits: Vec<(u32, u16)> = covered
            .filter_map(|(slot, i)| {
                let used = entries[*slot as usize].used;
                let new = used != self.settled[*slot as usize];
                new.then(|| (used.wrapping_sub(self.base), i))
            })
            .collect();
        hits.sort_unstable_by(|a, b| self.in_order(entries, a, b));
        hits.into_iter().map(|h| h.1).collect()
    }

    /// To be called before the filter drops its entries, or restarts counting time.
    pub fn lose(&mut self, entries: &[FilterEntry; SLOTS]) {
        self.lost.extend(self.all(entries));
        for slot in self.slots.iter().filter(|s| **s != NO_SLOT) {
            self.settled[*slot as usize] = entries[*slot as usize].used;
        }
    }

    /// Passes the hits of emptied slots to the policy.
    pub fn learn(&mut self, cache: &mut Tags) {
        for i in self.lost.drain(..) {
            cache.touch(i as usize);
        }
    }

    /// No slot covers a line.
    pub fn release_all(&mut self) {
        self.slots.fill(NO_SLOT);
    }

    /// Forgets all hits.
    pub fn forget(&mut self) {
        self.lost.clear();
        self.release_all();
    }

    /// Time counts from a cycle; the policy has learned of all hits before.
    pub fn restart(&mut self, entries: &mut [FilterEntry; SLOTS], cycle: u64) {
        // The hit that comes next may be in this very cycle.
        self.base = cycle.wrapping_sub(1) as u32;
        self.settled = [self.base; SLOTS];
        for e in entries {
            e.used = self.base;
        }
    }

    /// A slot of a saved filter covers an entry of the cache (both in range).
    pub fn adopt(&mut self, slot: u16, index: u16) {
        self.slots[index as usize] = slot;
    }

    /// A copy of the cache learns of all hits.
    pub fn settle_copy(&self, entries: &[FilterEntry; SLOTS], copy: &mut Tags) {
        for i in self.lost.iter().copied().chain(self.all(entries)) {
            copy.touch(i as usize);
        }
    }

    /// A slot is going to cover an entry of the cache, whose line was used at a cycle.
    pub fn claim(
        &mut self,
        entries: &mut [FilterEntry; SLOTS],
        slot: usize,
        cache: &mut Tags,
        index: usize,
        cycle: u64,
    ) {
        if self.slots[index] as usize != slot {
            self.drop_slot(entries, cache, slot);
            let former = self.slots[index];
            if former != NO_SLOT {
                self.drop_slot(entries, cache, former as usize);
            }
            self.slots[index] = slot as u16;
        }
        // The cache has seen that use itself.
        entries[slot].used = cycle as u32;
        self.settled[slot] = cycle as u32;
    }

    /// A slot is going to be emptied.
    pub fn drop_slot(&mut self, entries: &[FilterEntry; SLOTS], cache: &mut Tags, slot: usize) {
        let i = entries[slot].l1 as usize;
        if self.slots.get(i) == Some(&(slot as u16)) {
            // Without a hit of its own it takes nothing with it.
            if entries[slot].used != self.settled[slot] {
                self.settle(entries, cache, i - i % cache.ways());
            }
            self.slots[i] = NO_SLOT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Replacement;
    use crate::filter::{Filter, EMPTY, NEVER};
    use crate::lines::LineState;
    use proptest::prelude::*;

    /// What happens to a cache behind a filter.
    #[derive(Clone, Debug)]
    enum Step {
        /// A line is used under one of its virtual addresses, so many cycles before the next step. If
        /// it passes the filter neither now nor later: `once`.
        Use {
            line: u64,
            alias: u64,
            once: bool,
            cycles: u64,
        },
        /// Two instructions of one cycle: the first one in a line, the second one in the line behind it.
        Across { line: u64, alias: u64 },
        /// Another hart takes a line; the filter learns of it before the hart goes on.
        Taken(u64),
        /// The hart flushes a line.
        Flushed(u64),
        /// A TLB entry is replaced.
        Way(u8),
        /// Translations change.
        Clear,
        /// The right to store is taken from all slots.
        Guard,
        /// The cache is emptied.
        Empty,
    }

    fn step() -> impl Strategy<Value = Step> {
        let cycles = prop_oneof![8 => 1u64..9, 1 => 1u64..1 << 32];
        let used = (0u64..14, 0u64..3, prop::bool::weighted(0.1), cycles);
        let used = used.prop_map(|(line, alias, once, cycles)| Step::Use {
            line,
            alias,
            once,
            cycles,
        });
        prop_oneof![
            60 => used,
            20 => (0u64..13, 0u64..3).prop_map(|(line, alias)| Step::Across { line, alias }),
            2 => (0u64..14).prop_map(Step::Taken),
            2 => (0u64..14).prop_map(Step::Flushed),
            1 => (0u8..3).prop_map(Step::Way),
            1 => Just(Step::Clear),
            1 => Just(Step::Guard),
            1 => Just(Step::Empty),
        ]
    }

    /// A cache behind a filter, and one that sees every access.
    struct Pair {
        filter: Filter,
        cache: Tags,
        naive: Tags,
        cycle: u64,
        settle_at: u64,
        notices: Vec<u16>,
        /// Uses that passed the filter.
        passed: u32,
    }

    impl Pair {
        fn new(replacement: Replacement, sets: u32, cycle: u64) -> Self {
            let g = CacheGeometry {
                sets,
                ways: 4,
                line: 64,
                replacement,
            };
            let mut filter = Filter::new(g);
            filter.restart(cycle);
            Pair {
                filter,
                cache: Tags::new(g),
                naive: Tags::new(g),
                cycle,
                settle_at: cycle + PERIOD,
                notices: Vec::new(),
                passed: 0,
            }
        }

        fn poll_notices(&mut self) {
            for slot in std::mem::take(&mut self.notices) {
                self.filter.drop_slot(&mut self.cache, slot as usize);
            }
            if self.cycle >= self.settle_at {
                self.filter.settle_all(&mut self.cache, self.cycle);
                self.settle_at = self.cycle + PERIOD;
            }
        }

        fn access(&mut self, line: u64, alias: u64, once: bool) {
            // Few slots, so that lines and aliases are in one another's way.
            let (slot, key) = ((line + 5 * alias) as usize % 9, line | alias << 12);
            let line = line << 6;
            let e = self.filter.at_mut(slot);
            if e.write == key {
                e.used = self.cycle as u32;
                let index = e.l1 as usize;
                assert_eq!(self.cache.entry(index).0, line);
                self.naive.touch(index);
                self.passed += 1;
                return;
            }
            self.filter.settle(&mut self.cache, line);
            let index = match self.cache.find(line) {
                Some(i) => {
                    self.cache.touch(i);
                    self.naive.touch(i);
                    i
                }
                None => {
                    let i = self.cache.victim(line);
                    assert_eq!(i, self.naive.victim(line), "the victim for {line:#x}");
                    self.filter.release(&mut self.cache, i);
                    for c in [&mut self.cache, &mut self.naive] {
                        c.set(i, line, LineState::Shared);
                        c.filled(i);
                    }
                    i
                }
            };
            if once {
                return;
            }
            self.filter.claim(slot, &mut self.cache, index, self.cycle);
            let way = (line >> 6) as u8 % 3;
            self.filter.rely(slot, way);
            let e = self.filter.at_mut(slot);
            *e = FilterEntry {
                read: key,
                write: key,
                l1: index as u16,
                way,
                used: e.used,
                ..EMPTY
            };
        }

        fn step(&mut self, s: &Step) {
            self.poll_notices();
            match *s {
                Step::Use {
                    line,
                    alias,
                    once,
                    cycles,
                } => {
                    self.access(line, alias, once);
                    self.cycle += cycles;
                }
                Step::Across { line, alias } => {
                    self.access(line, alias, false);
                    self.access(line + 1, alias, false);
                    self.cycle += 1;
                }
                Step::Taken(line) | Step::Flushed(line) => {
                    let Some(i) = self.cache.find(line << 6) else {
                        return;
                    };
                    let slot = self.cache.slot(i);
                    if matches!(s, Step::Flushed(_)) {
                        self.filter.release(&mut self.cache, i);
                    } else if slot != NO_SLOT {
                        self.cache.set_slot(i, NO_SLOT);
                        self.notices.push(slot);
                    }
                    self.cache.set(i, 0, LineState::Invalid);
                    self.naive.set(i, 0, LineState::Invalid);
                }
                Step::Way(way) => self.filter.drop_way(&mut self.cache, way),
                Step::Clear => self.filter.clear(),
                Step::Guard => (0..9).for_each(|s| self.filter.at_mut(s).write = NEVER),
                Step::Empty => {
                    self.cache.clear();
                    self.naive.clear();
                    self.filter.restart(self.cycle);
                }
            }
        }

        /// What is saved is what a cache is that has seen every access.
        fn check(&self) {
            let mut copy = self.cache.clone();
            self.filter.settle_copy(&mut copy);
            assert_eq!(copy.policy(), self.naive.policy());
        }
    }

    fn policies() -> impl Strategy<Value = Replacement> {
        prop::sample::select(vec![
            Replacement::Lru,
            Replacement::TreePlru,
            Replacement::Srrip,
        ])
    }

    proptest! {
        #[test]
        fn a_policy_behind_the_filter_is_one_that_sees_every_access(
            replacement in policies(),
            sets in prop::sample::select(vec![1, 2]),
            begin in prop_oneof![Just(0u64), (0u64..100).prop_map(|k| (1 << 32) - k)],
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut p = Pair::new(replacement, sets, begin);
            for s in &steps {
                p.step(s);
                p.check();
            }
        }
    }

    #[test]
    fn most_uses_pass() {
        let mut p = Pair::new(Replacement::Lru, 2, 0);
        for k in 0..100 {
            p.step(&Step::Use {
                line: k % 4,
                alias: 0,
                once: false,
                cycles: 1,
            });
        }
        assert_eq!(p.passed, 96);
    }

    #[test]
    fn times_that_lie_apart_keep_their_order() {
        let mut p = Pair::new(Replacement::Lru, 2, 0);
        let access = |p: &mut Pair, line, cycles| {
            p.step(&Step::Use {
                line,
                alias: 0,
                once: false,
                cycles,
            });
            p.check();
        };
        for line in [0, 2, 4, 6, 0, 2, 4, 6] {
            access(&mut p, line, PERIOD - 2);
        }
        // This use has a time with the same low bits as the use before.
        access(&mut p, 0, 1 << 32);
        access(&mut p, 0, 1);
        // The next one of the set takes the place of line 2.
        access(&mut p, 8, 1);
        assert!(p.cache.find(2 << 6).is_none() && p.cache.find(0).is_some());
    }
}
