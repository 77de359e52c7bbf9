//! Outer cache levels: private to a hart, shared by some, or by all.
//!
//! Levels are numbered from the cores outwards, from 0. A line that no level has comes from memory;
//! modified lines that the last level evicts go there. All of this happens at one moment, while no
//! other hart is behind, so nobody can observe a line between levels.

use super::caches::{bits, Caches};
use super::coherence::{Coherence, Notice};
use super::tags::{LineState, Tags, NO_SLOT};
use super::Side;
use crate::config::{Inclusion, LevelConfig};
use serde::{Deserialize, Serialize};

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
}

impl LevelStats {
    /// Count by count.
    pub fn zip(&self, o: &LevelStats, f: impl Fn(u64, u64) -> u64) -> LevelStats {
        LevelStats {
            hits: f(self.hits, o.hits),
            misses: f(self.misses, o.misses),
            writes: f(self.writes, o.writes),
            evictions: f(self.evictions, o.evictions),
            writebacks: f(self.writebacks, o.writebacks),
            back_invalidations: f(self.back_invalidations, o.back_invalidations),
        }
    }
}

/// One level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    config: LevelConfig,
    /// Its caches, by their harts.
    caches: Caches,
    stats: LevelStats,
}

impl Level {
    fn of(&self, hart: usize) -> usize {
        hart / self.config.shared_by as usize
    }

    fn cache(&mut self, hart: usize) -> &mut Tags {
        let i = self.of(hart);
        &mut self.caches[i]
    }
}

/// A level as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLevel {
    caches: Vec<Tags>,
    stats: LevelStats,
}

/// All outer cache levels.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    levels: Vec<Level>,
    /// Modified lines that the last level has given up, for the hart at work to send to memory.
    to_memory: Vec<u64>,
    /// Filter slots of the hart at work whose lines are gone.
    dropped: Vec<(Side, u16)>,
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Cycles from the request until the line is there or, if it comes from memory, until the last
    /// level has asked for it.
    pub latency: u32,
    /// No level has it.
    pub in_memory: bool,
    /// It was modified and has not been written to memory since.
    pub modified: bool,
}

impl Levels {
    pub fn new(harts: usize, config: &[LevelConfig]) -> Self {
        let level = |c: &LevelConfig| Level {
            config: *c,
            caches: Caches::new(vec![
                Tags::new(c.geometry);
                harts.div_ceil(c.shared_by as usize)
            ]),
            stats: LevelStats::default(),
        };
        Levels {
            levels: config.iter().map(level).collect(),
            ..Levels::default()
        }
    }

    pub fn clear(&mut self) {
        for l in &mut self.levels {
            l.caches.clear_all();
        }
    }

    pub fn save(&self) -> Vec<SavedLevel> {
        let saved = |l: &Level| SavedLevel {
            caches: l.caches.to_vec(),
            stats: l.stats,
        };
        self.levels.iter().map(saved).collect()
    }

    /// Takes over what was saved; false if it is not of such levels.
    pub fn load(&mut self, saved: Vec<SavedLevel>, inside: impl Fn(u64) -> bool) -> bool {
        let fits = |(old, new): (&Level, &SavedLevel)| {
            let pairs = || new.caches.iter().zip(old.caches.iter());
            new.caches.len() == old.caches.len() && pairs().all(|(n, o)| n.fits(o, &inside))
        };
        if saved.len() != self.levels.len() || !self.levels.iter().zip(&saved).all(fits) {
            return false;
        }
        for (level, s) in self.levels.iter_mut().zip(saved) {
            (level.caches, level.stats) = (Caches::new(s.caches), s.stats);
        }
        true
    }
}

impl Coherence {
    pub(crate) fn save_levels(&self) -> Vec<SavedLevel> {
        self.levels.save()
    }

    pub(crate) fn load_levels(&mut self, saved: Vec<SavedLevel>) -> bool {
        let mut levels = std::mem::take(&mut self.levels);
        let fits = levels.load(saved, |line| self.inside(line));
        self.levels = levels;
        fits
    }

    /// Whether there are outer cache levels.
    #[inline]
    pub(crate) fn has_levels(&self) -> bool {
        !self.levels.levels.is_empty()
    }

    /// Counters of the outer cache levels, the nearest to the cores first.
    pub fn level_stats(&self) -> Vec<LevelStats> {
        self.levels.levels.iter().map(|l| l.stats).collect()
    }

    /// Cycles from a request of a core to the level's answer; 0 where there is no such level.
    pub(crate) fn level_latency(&self, level: usize) -> u32 {
        self.levels
            .levels
            .get(level)
            .map_or(0, |l| l.config.latency)
    }

    /// The same of the last level.
    pub(crate) fn last_latency(&self) -> u32 {
        let last = self.levels.levels.last();
        last.map_or(0, |l| l.config.latency)
    }

    /// Whether the second level takes in the clean lines that the first level evicts.
    pub(crate) fn wants_clean(&self) -> bool {
        self.wants_clean_at(0)
    }

    fn wants_clean_at(&self, level: usize) -> bool {
        let l = self.levels.levels.get(level);
        l.is_some_and(|l| l.config.inclusion == Inclusion::Exclusive)
    }

    /// Lines for memory, one after the other.
    pub(crate) fn next_to_memory(&mut self) -> Option<u64> {
        self.levels.to_memory.pop()
    }

    /// Filter slots of the hart at work whose lines are gone, one after the other.
    pub(crate) fn next_dropped(&mut self) -> Option<(Side, u16)> {
        self.levels.dropped.pop()
    }

    /// Looks for a line that a hart's first level lacks; the levels without it take it up.
    pub(crate) fn fetch(&mut self, hart: usize, line: u64, side: Side) -> Found {
        let n = self.levels.levels.len();
        let mut found = None;
        for k in 0..n {
            let level = &mut self.levels.levels[k];
            match level.cache(hart).find(line) {
                Some(i) => {
                    level.stats.hits += 1;
                    found = Some((k, i));
                    break;
                }
                None => level.stats.misses += 1,
            }
        }
        let Some((k, i)) = found else {
            self.take_up(n, hart, line, false);
            return Found {
                latency: self.last_latency(),
                in_memory: true,
                modified: false,
            };
        };
        // Instruction caches give nothing back, and others' copies stay where this one is theirs, too.
        let moves = self.wants_clean_at(k) && side == Side::Data && !self.elsewhere(hart, line);
        let level = &mut self.levels.levels[k];
        let latency = level.config.latency;
        let of = level.of(hart);
        let modified = moves && level.caches[of].entry(i).1 == LineState::Dirty;
        if moves {
            level.caches.take(of, i);
        } else {
            level.caches[of].touch(i);
        }
        self.take_up(k, hart, line, modified);
        Found {
            latency,
            in_memory: false,
            modified,
        }
    }

    /// Levels nearer than `k` that keep what passes take a line up.
    fn take_up(&mut self, k: usize, hart: usize, line: u64, modified: bool) {
        for j in (0..k).rev() {
            if !self.wants_clean_at(j) {
                self.allocate(j, hart, hart, line, modified);
            }
        }
    }

    /// Passes on a line that a hart's first level evicts or cleans.
    pub(crate) fn give(&mut self, hart: usize, line: u64, modified: bool) {
        self.put(0, hart, hart, line, modified);
    }

    /// A line comes to a level from one nearer to the cores of `of`; `by` is the hart at work.
    fn put(&mut self, k: usize, of: usize, by: usize, line: u64, modified: bool) {
        let takes_clean = self.wants_clean_at(k);
        let Some(level) = self.levels.levels.get_mut(k) else {
            if modified {
                self.levels.to_memory.push(line);
            }
            return;
        };
        level.stats.writes += u64::from(modified);
        let through = level.config.write_through;
        let cache = level.cache(of);
        match cache.find(line) {
            Some(i) => {
                cache.touch(i);
                if modified && !through {
                    cache.set(i, line, LineState::Dirty);
                }
            }
            None if modified || takes_clean => self.allocate(k, of, by, line, modified && !through),
            None => {}
        }
        if modified && through {
            self.levels.levels[k].stats.writebacks += 1;
            self.put(k + 1, of, by, line, true);
        }
    }

    /// Puts a line into a level, in the place of another one.
    fn allocate(&mut self, k: usize, of: usize, by: usize, line: u64, modified: bool) {
        let level = &mut self.levels.levels[k];
        let c = level.of(of);
        let i = level.caches[c].victim(line);
        let (old, state) = level.caches[c].entry(i);
        let new = if modified {
            LineState::Dirty
        } else {
            LineState::Shared
        };
        level.caches.put(c, i, line, new);
        level.caches[c].filled(i);
        if state != LineState::Invalid {
            self.evicted(k, of, by, old, state == LineState::Dirty);
        }
    }

    /// A level has given a line up.
    fn evicted(&mut self, k: usize, of: usize, by: usize, line: u64, mut modified: bool) {
        self.levels.levels[k].stats.evictions += 1;
        if self.levels.levels[k].config.inclusion == Inclusion::Inclusive {
            let (copies, newer) = self.back_invalidate(k, of, by, line);
            self.levels.levels[k].stats.back_invalidations += copies;
            modified |= newer;
        }
        self.levels.levels[k].stats.writebacks += u64::from(modified);
        if modified || self.wants_clean_at(k + 1) {
            self.put(k + 1, of, by, line, modified);
        }
    }

    /// Takes a line away from all that is nearer to the cores; how many copies there were, and
    /// whether one of them was modified.
    fn back_invalidate(&mut self, k: usize, of: usize, by: usize, line: u64) -> (u64, bool) {
        let shared_by = self.levels.levels[k].config.shared_by as usize;
        let first = of / shared_by * shared_by;
        let (mut copies, mut modified) = (0, false);
        let group = first..(first + shared_by).min(self.l1d.len());
        for side in [Side::Data, Side::Inst] {
            let caches = self.first_level(side);
            let mut mask = caches.mask(line, None) & bits(&group);
            while let Some((h, i)) = self.first_level(side).next(line, &mut mask) {
                modified |= self.drop_copy((h, i), by, side) == LineState::Dirty;
                copies += 1;
            }
        }
        for level in &mut self.levels.levels[..k] {
            let group = level.of(group.start)..level.of(group.end - 1) + 1;
            let mut mask = level.caches.mask(line, None) & bits(&group);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                modified |= level.caches[c].entry(i).1 == LineState::Dirty;
                level.caches.take(c, i);
                copies += 1;
            }
        }
        (copies, modified)
    }

    fn first_level(&mut self, side: Side) -> &mut Caches {
        match side {
            Side::Data => &mut self.l1d,
            Side::Inst => &mut self.l1i,
        }
    }

    /// Takes a line out of an entry of a hart's first-level cache; in which state it was.
    fn drop_copy(&mut self, (hart, i): (usize, usize), by: usize, side: Side) -> LineState {
        let caches = self.first_level(side);
        let state = caches[hart].entry(i).1;
        let slot = caches[hart].slot(i);
        caches.take(hart, i);
        caches[hart].set_slot(i, NO_SLOT);
        if slot != NO_SLOT {
            match side {
                _ if hart == by => self.levels.dropped.push((side, slot)),
                Side::Data => self.post(hart, Notice::DropSlot(slot)),
                Side::Inst => self.post(hart, Notice::DropFetch(slot)),
            }
        }
        state
    }

    /// Whether a cache of other harts has a line: a first-level one, or one that a hart does not share.
    fn elsewhere(&self, hart: usize, line: u64) -> bool {
        let mut mask = self.l1d.mask(line, Some(hart));
        self.l1d.next(line, &mut mask).is_some() || self.level_holders(hart, line).0
    }

    /// Whether a level that a hart does not share has a line, and whether it is modified there;
    /// then also a hart that shares that cache.
    pub(super) fn level_holders(&self, hart: usize, line: u64) -> (bool, Option<usize>) {
        let mut any = false;
        for level in &self.levels.levels {
            let mut mask = level.caches.mask(line, Some(level.of(hart)));
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                any = true;
                if level.caches[c].entry(i).1 == LineState::Dirty {
                    return (true, Some(c * level.config.shared_by as usize));
                }
            }
        }
        (any, None)
    }

    /// Takes a line away from every cache that a hart does not share (`exclusive`), or cleans it there.
    pub(super) fn probe_levels(&mut self, hart: usize, line: u64, exclusive: bool) {
        for level in &mut self.levels.levels {
            let mut mask = level.caches.mask(line, Some(level.of(hart)));
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                match exclusive {
                    true => level.caches.take(c, i),
                    false => level.caches[c].set(i, line, LineState::Shared),
                }
            }
        }
    }

    /// Cleans a modified line in the other hart's cache and puts it into the first level that both
    /// harts share. If they share none, it goes into the requesting hart's last level and to memory.
    /// Returns the probe's latency in core cycles, `None` without outer levels.
    pub(crate) fn hand_over(&mut self, hart: usize, from: usize, line: u64) -> Option<u32> {
        self.probe(hart, line, false);
        let last = self.levels.levels.len().checked_sub(1)?;
        let mut levels = self.levels.levels.iter();
        let shared = levels.position(|l| l.of(hart) == l.of(from));
        match shared {
            Some(k) => self.put(k, hart, hart, line, true),
            None => {
                self.levels.to_memory.push(line);
                if self.levels.levels[last].cache(hart).find(line).is_none() {
                    self.allocate(last, hart, hart, line, false);
                }
            }
        }
        let answers = &self.levels.levels[shared.unwrap_or(last)];
        Some(answers.config.probe_latency)
    }

    /// Cleans a line in all levels, or removes it from them and from the instruction caches. Returns
    /// whether it was modified in one. `by` is the hart that asks.
    pub(crate) fn clean_levels(&mut self, by: usize, line: u64, keep: bool) -> bool {
        let mut modified = false;
        if !keep {
            let mut mask = self.l1i.mask(line, None);
            while let Some(found) = self.l1i.next(line, &mut mask) {
                self.drop_copy(found, by, Side::Inst);
            }
        }
        for level in &mut self.levels.levels {
            let mut mask = level.caches.mask(line, None);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                modified |= level.caches[c].entry(i).1 == LineState::Dirty;
                match keep {
                    true => level.caches[c].set(i, line, LineState::Shared),
                    false => level.caches.take(c, i),
                }
            }
        }
        modified
    }

    /// Whether a cache has of a line what memory does not have.
    pub fn is_modified(&self, line: u64) -> bool {
        let levels = self.levels.levels.iter().flat_map(|l| l.caches.iter());
        let mut holding = self.l1d.iter().chain(levels);
        holding.any(|c| {
            c.find(line)
                .is_some_and(|i| c.entry(i).1 == LineState::Dirty)
        })
    }

    /// Checks that inclusive levels hold what is nearer to the cores, and that it is noted who has
    /// which line. The first violation is the error.
    pub(crate) fn check_levels(&self) -> Result<(), String> {
        let levels = self.levels.levels.iter().map(|l| &l.caches);
        let all = [&self.l1d, &self.l1i].into_iter().chain(levels);
        if let Some(k) = { all }.position(|c| !c.check()) {
            return Err(format!("caches {k}: it is noted otherwise who has a line"));
        }
        for (k, level) in self.levels.levels.iter().enumerate() {
            if level.config.inclusion != Inclusion::Inclusive {
                continue;
            }
            for hart in 0..self.l1d.len() {
                let nearer = self.levels.levels[..k].iter();
                let nearer = nearer.map(|l| &l.caches[l.of(hart)]);
                let first = [&self.l1d[hart], &self.l1i[hart]];
                for line in first.into_iter().chain(nearer).flat_map(Tags::lines) {
                    if level.caches[level.of(hart)].find(line).is_none() {
                        return Err(format!("level {k} lacks line {line:#x} of hart {hart}"));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CacheGeometry, Replacement};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const HARTS: usize = 4;
    const L1: CacheGeometry = CacheGeometry {
        sets: 2,
        ways: 2,
        line: 64,
        replacement: Replacement::Lfsr,
    };

    fn level(sets: u32, ways: u32, shared_by: u32, inclusion: Inclusion) -> LevelConfig {
        LevelConfig {
            geometry: CacheGeometry {
                sets,
                ways,
                line: 64,
                replacement: Replacement::Lru,
            },
            shared_by,
            latency: 10,
            probe_latency: 5,
            inclusion,
            write_through: false,
        }
    }

    /// Four harts whose accesses go through the caches as those of real ones.
    struct Harts {
        c: Coherence,
        /// Lines that were stored to since memory had them last.
        newer: BTreeSet<u64>,
        /// Whether a line goes to memory as it is in the caches nearest to the cores.
        sound: bool,
    }

    impl Harts {
        fn new(levels: &[LevelConfig]) -> Self {
            let c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(levels);
            let inclusive = |l: &LevelConfig| l.inclusion == Inclusion::Inclusive;
            let last = levels
                .last()
                .is_none_or(|l| inclusive(l) && !l.write_through);
            Harts {
                c,
                newer: BTreeSet::new(),
                sound: last || levels.iter().all(inclusive),
            }
        }

        fn arrives(&mut self, line: u64) {
            assert!(self.newer.contains(&line), "{line:#x} was not modified");
            let stays = self.c.is_modified(line);
            assert!(!stays || !self.sound, "{line:#x} is newer in a cache");
            if !stays {
                self.newer.remove(&line);
            }
        }

        fn settle(&mut self) {
            while let Some(line) = self.c.next_to_memory() {
                self.arrives(line);
            }
            while self.c.next_dropped().is_some() {}
        }

        fn access(&mut self, hart: usize, line: u64, write: bool) {
            let present = self.c.l1d[hart].find(line);
            let state = present.map_or(LineState::Invalid, |i| self.c.l1d[hart].entry(i).1);
            let enough = match state {
                LineState::Invalid => false,
                LineState::Shared => !write,
                _ => true,
            };
            if !enough {
                self.fill(hart, line, write, present);
            } else if write {
                self.c.l1d[hart].set(present.unwrap(), line, LineState::Dirty);
            }
            if write {
                self.newer.insert(line);
            }
            self.check();
        }

        fn fill(&mut self, hart: usize, line: u64, write: bool, present: Option<usize>) {
            let i = present.unwrap_or_else(|| {
                let i = self.c.l1d[hart].victim(line);
                let (old, state) = self.c.l1d[hart].entry(i);
                self.c.l1d.take(hart, i);
                let modified = state == LineState::Dirty;
                if modified || self.c.wants_clean() && state != LineState::Invalid {
                    self.c.give(hart, old, modified);
                }
                self.settle();
                i
            });
            let (others, from) = self.c.holders(hart, line);
            if let Some(from) = from {
                let shared = self.c.hand_over(hart, from, line).is_some();
                self.settle();
                if !shared {
                    self.arrives(line);
                }
            }
            let modified = match present {
                Some(_) => false,
                None => self.c.fetch(hart, line, Side::Data).modified,
            };
            self.settle();
            if others {
                self.c.probe(hart, line, write);
            }
            let state = match (write || modified, others) {
                (true, _) => LineState::Dirty,
                (false, true) => LineState::Shared,
                (false, false) => LineState::Exclusive,
            };
            self.c.l1d.put(hart, i, line, state);
        }

        fn clean(&mut self, hart: usize, line: u64, keep: bool) {
            let modified = self.c.is_modified(line);
            self.c.probe(hart, line, !keep);
            if let Some(i) = self.c.l1d[hart].find(line) {
                let state = self.c.l1d[hart].entry(i).1;
                match (keep, state) {
                    (false, _) => self.c.l1d.take(hart, i),
                    (true, LineState::Dirty) => self.c.l1d[hart].set(i, line, LineState::Exclusive),
                    (true, _) => {}
                }
            }
            self.c.clean_levels(hart, line, keep);
            self.settle();
            assert!(!self.c.is_modified(line));
            if modified {
                self.arrives(line);
            }
            self.check();
        }

        fn check(&self) {
            self.c.check_levels().unwrap();
            for line in lines() {
                let newer = self.newer.contains(&line);
                assert_eq!(self.c.is_modified(line), newer, "{line:#x}");
            }
            for (hart, l1) in self.c.l1d.iter().enumerate() {
                for (line, state) in (0..l1.len()).map(|i| l1.entry(i)) {
                    if matches!(state, LineState::Exclusive | LineState::Dirty) {
                        assert!(!self.c.holders(hart, line).0, "{line:#x} of hart {hart}");
                    }
                }
            }
        }
    }

    fn lines() -> impl Iterator<Item = u64> {
        (0..24).map(|k| 0x1000 + 64 * k)
    }

    fn inclusion() -> impl Strategy<Value = Inclusion> {
        prop::sample::select(vec![
            Inclusion::Inclusive,
            Inclusion::NonInclusive,
            Inclusion::Exclusive,
        ])
    }

    prop_compose! {
        fn levels()(
            first in (inclusion(), any::<bool>(), 0u32..3),
            last in (inclusion(), any::<bool>(), prop::sample::select(vec![4, 8])),
            two in any::<bool>(),
        ) -> Vec<LevelConfig> {
            let through = |l: LevelConfig, write_through| LevelConfig { write_through, ..l };
            let near = through(level(2, 4, 1 << first.2, first.0), first.1);
            // One that holds all that nearer ones can, or not by far.
            let far = through(level(4, last.2, 4, last.0), last.1);
            if two { vec![near, far] } else { vec![far] }
        }
    }

    proptest! {
        #[test]
        fn no_modified_line_is_lost_or_made_up(
            levels in levels(),
            steps in prop::collection::vec((0..HARTS, 0u64..24, 0u8..8), 1..200),
        ) {
            let mut h = Harts::new(&levels);
            for (hart, line, what) in steps {
                let line = 0x1000 + 64 * line;
                match what {
                    0 => h.clean(hart, line, true),
                    1 => h.clean(hart, line, false),
                    2..=4 => h.access(hart, line, true),
                    _ => h.access(hart, line, false),
                }
            }
        }
    }

    #[test]
    fn an_inclusive_level_takes_back_what_it_gives_up() {
        let mut h = Harts::new(&[level(1, 2, 4, Inclusion::Inclusive)]);
        let [a, b, c] = [0x1000, 0x1040, 0x1080];
        h.access(0, a, true);
        h.access(1, b, false);
        h.access(2, c, false);
        assert!(h.c.l1d[0].find(a).is_none() && h.newer.is_empty());
        let s = h.c.level_stats()[0];
        let expected = LevelStats {
            hits: 0,
            misses: 3,
            writes: 0,
            evictions: 1,
            writebacks: 1,
            back_invalidations: 1,
        };
        assert_eq!(s, expected);
    }

    #[test]
    fn an_exclusive_level_has_what_others_gave_up() {
        let mut h = Harts::new(&[level(4, 4, 4, Inclusion::Exclusive)]);
        // Five lines of one set of two ways.
        for k in 0..5 {
            h.access(0, 0x1000 + 128 * k, k == 0);
        }
        let l1: Vec<u64> = h.c.l1d[0].lines().collect();
        let level: Vec<u64> = h.c.levels.levels[0].caches[0].lines().collect();
        assert_eq!((l1.len() + level.len(), l1.len()), (5, 2));
        assert!(h.newer.contains(&0x1000));
        let gone = level[0];
        h.access(0, gone, false);
        assert!(!h.c.levels.levels[0].caches[0].lines().any(|l| l == gone));
    }

    #[test]
    fn other_levels_are_refused() {
        let small = Levels::new(HARTS, &[level(1, 2, 4, Inclusion::Inclusive)]);
        let mut large = Levels::new(HARTS, &[level(2, 2, 4, Inclusion::Inclusive)]);
        assert!(!large.load(small.save(), |_| true));
        assert!(!large.load(Vec::new(), |_| true));
        let own = large.save();
        assert!(large.load(own, |_| true));
    }
}
