//! Requests to the outer levels.

use super::ahead::{Target, NOBODY};
use super::caches::{bits, Caches};
use super::coherence::{Coherence, Notice};
use super::level_stats::LevelStats;
use super::levels::SavedLevel;
use super::prefetch::{predicted, Access, Brought, Prefetch};
use super::tags::{LineState, NO_SLOT};
use super::want::{Found, From, Want};
use super::Side;
use crate::config::{HintConfig, Inclusion};
use crate::{LineKind, NotNow};

impl Coherence {
    pub(crate) fn save_levels(&self) -> Vec<SavedLevel> {
        self.levels.save()
    }

    pub(crate) fn load_levels(&mut self, saved: Vec<SavedLevel>) -> bool {
        let mut levels = std::mem::take(&mut self.levels);
        let fits = levels.load(saved, self.l1d.len(), |line| self.inside(line));
        self.levels = levels;
        fits
    }

    /// Whether hints of Zihintntl do something.
    pub fn has_hints(&self) -> bool {
        self.levels.stores.config.hints()
    }

    /// Whether there are outer cache levels.
    #[inline]
    pub fn has_levels(&self) -> bool {
        !self.levels.levels.is_empty()
    }

    /// Counters of the outer cache levels, the nearest to the cores first.
    pub fn level_stats(&self) -> Vec<LevelStats> {
        self.levels.levels.iter().map(|l| l.stats).collect()
    }

    /// Cycles from a request of a core to the level's answer; 0 where there is no such level.
    pub fn level_latency(&self, level: usize) -> u32 {
        self.levels
            .levels
            .get(level)
            .map_or(0, |l| l.config.latency)
    }

    /// Cycles from a request of a core to the last level's answer; 0 without outer levels.
    pub fn last_latency(&self) -> u32 {
        let last = self.levels.levels.last();
        last.map_or(0, |l| l.config.latency)
    }

    /// Whether the second level takes in the clean lines that the first level evicts.
    #[inline]
    pub fn wants_clean(&self) -> bool {
        self.wants_clean_at(0)
    }

    #[inline]
    pub(crate) fn wants_clean_at(&self, level: usize) -> bool {
        let l = self.levels.levels.get(level);
        l.is_some_and(|l| l.config.inclusion == Inclusion::Exclusive)
    }

    /// The next line to write to memory, with its version if that is an older one.
    pub fn next_to_memory(&mut self) -> Option<(u64, Option<u64>)> {
        self.levels.to_memory.pop()
    }

    /// The next filter slot of the running hart whose line is gone.
    pub fn next_dropped(&mut self) -> Option<(Side, u16)> {
        self.levels.dropped.pop()
    }

    /// Whether misses may have to wait for one another, or lines may arrive for which no hart
    /// waits. Then no request may be answered before its time, even if only one hart runs.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        self.levels.ordered
    }

    /// Looks a line up that a hart's first level lacks; levels that miss allocate it. `NotNow` if
    /// the hart has to wait for a miss status holding register.
    pub fn fetch(&mut self, want: &Want) -> Result<Found, NotNow> {
        let Want {
            hart, line, now, ..
        } = *want;
        let n = self.levels.levels.len();
        let (mut entry, mut coming) = (None, None);
        let own = if self.levels.has_first {
            self.coming_first(want.side(), hart, line)
        } else {
            None
        };
        // The first level that has the line, or to which a prefetch is bringing it.
        let mut k = 0;
        while k < n && own.is_none() {
            let level = &self.levels.levels[k];
            entry = level.caches[level.of(hart)].find(line);
            if entry.is_none() {
                coming = self.coming(k, hart, line);
            }
            if entry.is_some() || coming.is_some() {
                break;
            }
            k += 1;
        }
        let (mut waited, mut since) = (0, now);
        if self.levels.ordered {
            (waited, since) = self.take_mshrs((k, own.is_some()), want)?;
        }
        let for_register = waited;
        self.levels.now = now;
        self.learn_first(want);
        let looked_up = match own {
            Some(_) => 0,
            None => n.min(k + 1),
        };
        for j in 0..looked_up {
            let hit = j == k && entry.is_some();
            let level = &mut self.levels.levels[j];
            level.stats.hits += u64::from(hit);
            level.stats.misses += u64::from(!hit);
            self.levels.counts[hart].levels[j].look_up(want.kind, hit);
            level.stats.nt_hits += u64::from(hit && want.hint.is_some());
            level.stats.nt_misses += u64::from(!hit && want.hint.is_some());
            let bank = level.access_bank(hart, line, now + waited);
            level.stats.bank_waits += u64::from(bank > 0);
            level.stats.bank_wait_cycles += bank;
            waited += bank;
            if level.prefetches() {
                self.learn(j, want, hit);
            }
        }
        // While a miss waits for a register, the outer levels are looked up.
        let after = |latency: u32| (waited + u64::from(latency)).saturating_sub(now - since);
        let mut found = Found {
            latency: after(self.last_latency()),
            from: From::Memory,
            level: k,
            modified: false,
            waited: for_register,
        };
        let Some(i) = entry else {
            if let Some(p) = own.or(coming) {
                // The levels up to the one that receives the prefetch have been looked up, and no
                // others.
                found.latency = after(match own {
                    Some(_) => 0,
                    None => self.level_latency(k),
                });
                found.from = From::Prefetch(self.join(p, hart, now + found.latency));
            } else {
                self.take_up(n, hart, line, (false, want.hint));
            }
            return Ok(found);
        };
        // Instruction caches do not return evicted lines. If another hart has a copy, this level
        // keeps the line for it, too.
        let data = want.kind != LineKind::Fetch;
        let moves = self.wants_clean_at(k) && data && !self.elsewhere(hart, line);
        let level = &mut self.levels.levels[k];
        found.latency = after(level.config.latency);
        found.from = From::Level;
        let of = level.of(hart);
        found.modified = moves && level.caches[of].entry(i).1 == LineState::Dirty;
        if moves {
            level.caches.take(of, i);
            // No inner cache has the line, so this is its newest state.
            self.levels.versions.take(k, of, line);
        } else if want
            .hint
            .is_none_or(|h| (h.last | h.bypass) >> (k + 1) & 1 == 0)
        {
            level.caches[of].touch(i);
        }
        self.take_up(k, hart, line, (found.modified, want.hint));
        self.miss_ends(hart, now + found.latency);
        Ok(found)
    }

    /// Puts a prefetcher in place of that of a first-level cache, or of the outer level of this number, the nearest
    /// being 0. False if that cache has none: its configuration says how many lines are requested at a time.
    pub fn bring_prefetcher(&mut self, cache: Result<Side, usize>, own: Box<dyn Prefetch>) -> bool {
        let levels = &mut self.levels;
        let (has, place) = match cache {
            Ok(side) => {
                let first = &mut levels.first[side as usize];
                (first.prefetches(), &mut first.brought)
            }
            Err(k) => match levels.levels.get_mut(k) {
                Some(level) => (level.prefetches(), &mut level.brought),
                None => return false,
            },
        };
        if has {
            *place = Some(Brought::new(own));
        }
        has
    }

    /// The prefetcher of a level observes an access there, and predicts.
    pub(crate) fn learn(&mut self, k: usize, want: &Want, hit: bool) {
        let level = &mut self.levels.levels[k];
        let c = level.config.prefetch;
        let cache = level.of(want.hart);
        let guesses = &mut level.parts[cache].guesses;
        if hit {
            // Hits on lines that were not prefetched are not observed.
            if !guesses.unused.remove(&want.line) {
                return;
            }
            level.stats.prefetch_useful += 1;
        }
        let access = Access {
            hart: want.hart,
            pc: want.pc,
            line: want.line,
            kind: want.kind,
        };
        let likely = predicted(&level.brought, guesses, &c, &access);
        let target = Target::Level(k);
        let missing = |l: &u64| self.lacks(target, want.hart, *l);
        let missing = likely.into_iter().filter(missing);
        let missing: Vec<u64> = missing.take(c.degree as usize).collect();
        self.levels.ahead.guess(target, missing);
    }

    /// The levels inside `k` that keep lines passing through them allocate a line.
    fn take_up(
        &mut self,
        k: usize,
        hart: usize,
        line: u64,
        (modified, hint): (bool, Option<HintConfig>),
    ) {
        let hint = hint.unwrap_or_default();
        for j in (0..k).rev() {
            let config = self.levels.levels[j].config;
            // An inclusive level has what its inner caches have, and nothing that is modified gets lost.
            let may_pass = !modified && config.inclusion != Inclusion::Inclusive;
            let passes = may_pass && hint.bypass >> (j + 1) & 1 != 0;
            if !self.wants_clean_at(j) && !passes {
                // A modified line stays modified on its way to the core.
                let stays = modified && !config.write_through;
                self.allocate(j, (hart, hart), line, stays, None);
                let cache = self.levels.levels[j].cache(hart);
                if let Some(i) = cache.find(line).filter(|_| hint.last >> (j + 1) & 1 != 0) {
                    cache.filled_last(i);
                }
            }
        }
    }

    /// Passes on a line that a hart's first level evicts or cleans.
    pub fn give(&mut self, hart: usize, line: u64, modified: bool, now: u64) {
        self.levels.now = now;
        self.put(0, (hart, hart), line, modified, None);
    }

    /// A level receives a line from an inner cache of hart `of`; `by` is the running hart. If the
    /// line is modified, `version` is its version.
    pub fn put(
        &mut self,
        k: usize,
        (of, by): (usize, usize),
        line: u64,
        modified: bool,
        version: Option<u64>,
    ) {
        let takes_clean = self.wants_clean_at(k);
        let now = self.levels.now;
        let Some(level) = self.levels.levels.get_mut(k) else {
            if modified {
                self.levels.to_memory.push((line, version));
            }
            return;
        };
        level.stats.writes += u64::from(modified);
        if modified {
            level.access_bank(of, line, now);
        }
        let through = level.config.write_through;
        let cache = level.cache(of);
        match cache.find(line) {
            Some(i) => {
                cache.touch(i);
                if modified && !through {
                    cache.set(i, line, LineState::Dirty);
                    let of = level.of(of);
                    self.levels.versions.set(k, of, line, version);
                }
            }
            None if modified || takes_clean => {
                self.allocate(k, (of, by), line, modified && !through, version)
            }
            None => {}
        }
        if modified && through {
            self.levels.levels[k].stats.writebacks += 1;
            self.levels.counts[of].levels[k].wrote_back(NOBODY);
            self.put(k + 1, (of, by), line, true, version);
        }
    }

    /// Puts a line into a level, which evicts another one if necessary.
    pub(crate) fn allocate(
        &mut self,
        k: usize,
        (of, by): (usize, usize),
        line: u64,
        modified: bool,
        version: Option<u64>,
    ) {
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
            level.gone(c, old);
            let older = self.levels.versions.take(k, c, old);
            self.evicted(k, (of, by), old, state == LineState::Dirty, older);
        }
        if modified {
            self.levels.versions.set(k, c, line, version);
        }
    }

    /// The line that a hart has waited for reaches its first-level cache. An inclusive level that has evicted it since
    /// it was requested, when there was no copy to take back, has it from now on again.
    pub fn include(&mut self, hart: usize, line: u64, now: u64) {
        self.levels.now = now;
        for k in (0..self.levels.levels.len()).rev() {
            let level = &self.levels.levels[k];
            let includes = level.config.inclusion == Inclusion::Inclusive;
            if includes && level.caches[level.of(hart)].find(line).is_none() {
                self.allocate(k, (hart, hart), line, false, None);
            }
        }
    }

    /// A level has evicted a line.
    fn evicted(
        &mut self,
        k: usize,
        (of, by): (usize, usize),
        line: u64,
        mut modified: bool,
        mut version: Option<u64>,
    ) {
        self.levels.levels[k].stats.evictions += 1;
        self.levels.counts[of].levels[k].victims += 1;
        if self.levels.levels[k].config.inclusion == Inclusion::Inclusive {
            let (copies, newer) = self.back_invalidate(k, of, by, line);
            self.levels.levels[k].stats.back_invalidations += copies;
            if let Some(newer) = newer {
                (modified, version) = (true, newer);
            }
        }
        self.levels.levels[k].stats.writebacks += u64::from(modified);
        if modified {
            self.levels.counts[of].levels[k].wrote_back(by);
        }
        if modified || self.wants_clean_at(k + 1) {
            self.put(k + 1, (of, by), line, modified, version);
        }
    }

    /// Removes a line from all inner caches. Returns the number of copies, and the version of the
    /// innermost modified one, if there was one.
    fn back_invalidate(
        &mut self,
        k: usize,
        of: usize,
        by: usize,
        line: u64,
    ) -> (u64, Option<Option<u64>>) {
        let shared_by = self.levels.levels[k].config.shared_by as usize;
        let first = of / shared_by * shared_by;
        let (mut copies, mut modified) = (0, None);
        let group = first..(first + shared_by).min(self.l1d.len());
        for side in [Side::Data, Side::Inst] {
            let caches = self.first_level(side);
            let mut mask = caches.mask(line, None) & bits(&group);
            while let Some((h, i)) = self.first_level(side).next(line, &mut mask) {
                if self.drop_copy((h, i), by, side) == LineState::Dirty {
                    modified = Some(None);
                }
                copies += 1;
            }
        }
        for (j, level) in self.levels.levels[..k].iter_mut().enumerate() {
            let group = level.of(group.start)..level.of(group.end - 1) + 1;
            let mut mask = level.caches.mask(line, None) & bits(&group);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                let dirty = level.caches[c].entry(i).1 == LineState::Dirty;
                level.take(c, i);
                let version = self.levels.versions.take(j, c, line);
                if dirty {
                    modified = modified.or(Some(version));
                }
                copies += 1;
            }
        }
        (copies, modified)
    }

    pub(crate) fn first_level(&mut self, side: Side) -> &mut Caches {
        match side {
            Side::Data => &mut self.l1d,
            Side::Inst => &mut self.l1i,
        }
    }

    /// Removes the line in an entry of a hart's first-level cache. Returns its state.
    fn drop_copy(&mut self, (hart, i): (usize, usize), by: usize, side: Side) -> LineState {
        let caches = self.first_level(side);
        let (line, state) = caches[hart].entry(i);
        let slot = caches[hart].slot(i);
        caches.take(hart, i);
        caches[hart].set_slot(i, NO_SLOT);
        self.left_first(side, hart, line);
        if slot != NO_SLOT {
            match side {
                _ if hart == by => self.levels.dropped.push((side, slot)),
                Side::Data => self.post(hart, Notice::DropSlot(slot)),
                Side::Inst => self.post(hart, Notice::DropFetch(slot)),
            }
        }
        state
    }

    /// Whether another hart's first-level data cache, or an outer cache that the hart does not
    /// share, has a line.
    fn elsewhere(&self, hart: usize, line: u64) -> bool {
        let mut mask = self.l1d.mask(line, Some(hart));
        self.l1d.next(line, &mut mask).is_some() || self.level_holders(hart, line).0
    }

    /// Whether an outer cache that a hart does not share has a line; if it is modified there, also
    /// a hart of that cache.
    pub(crate) fn level_holders(&self, hart: usize, line: u64) -> (bool, Option<usize>) {
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

    /// Removes a line from every outer cache that a hart does not share (`exclusive`), or cleans it
    /// there.
    pub(crate) fn probe_levels(&mut self, hart: usize, line: u64, exclusive: bool) {
        for k in 0..self.levels.levels.len() {
            let level = &self.levels.levels[k];
            let mut mask = level.caches.mask(line, Some(level.of(hart)));
            while let Some((c, i)) = self.levels.levels[k].caches.next(line, &mut mask) {
                self.levels.versions.take(k, c, line);
                let level = &mut self.levels.levels[k];
                if !exclusive {
                    level.caches[c].set(i, line, LineState::Shared);
                    continue;
                }
                level.take(c, i);
                if level.config.inclusion == Inclusion::Inclusive {
                    self.drop_code(k, c, line);
                }
            }
        }
    }

    /// A cache of an inclusive level has lost a line: its instruction caches do not keep it, either.
    fn drop_code(&mut self, k: usize, cache: usize, line: u64) {
        let shared_by = self.levels.levels[k].config.shared_by as usize;
        let first = cache * shared_by;
        let group = first..(first + shared_by).min(self.l1i.len());
        let mut mask = self.l1i.mask(line, None) & bits(&group);
        while let Some(found) = self.l1i.next(line, &mut mask) {
            self.drop_copy(found, NOBODY, Side::Inst);
        }
    }

    /// Cleans a modified line in the other hart's cache and puts it into the first level that both
    /// harts share. If they share none, it goes into the requesting hart's last level and to memory.
    /// `by` is the running hart, or nobody.
    /// Returns the probe's latency in core cycles, `None` without outer levels.
    pub fn hand_over(
        &mut self,
        (hart, by): (usize, usize),
        from: usize,
        line: u64,
        now: u64,
    ) -> Option<u32> {
        self.levels.now = now;
        self.probe(hart, line, false);
        let last = self.levels.levels.len().checked_sub(1)?;
        let mut levels = self.levels.levels.iter();
        let shared = levels.position(|l| l.of(hart) == l.of(from));
        match shared {
            Some(k) => self.put(k, (hart, by), line, true, None),
            None => {
                self.levels.to_memory.push((line, None));
                if self.levels.levels[last].cache(hart).find(line).is_none() {
                    self.allocate(last, (hart, by), line, false, None);
                }
            }
        }
        let answers = &self.levels.levels[shared.unwrap_or(last)];
        Some(answers.config.probe_latency)
    }

    /// Cleans a line in all levels, or removes it from them and from the instruction caches. Returns
    /// whether it was modified in one. `by` is the hart that asks.
    pub fn clean_levels(&mut self, by: usize, line: u64, keep: bool) -> bool {
        let mut modified = false;
        if !keep {
            let mut mask = self.l1i.mask(line, None);
            while let Some(found) = self.l1i.next(line, &mut mask) {
                self.drop_copy(found, by, Side::Inst);
            }
        }
        for (k, level) in self.levels.levels.iter_mut().enumerate() {
            let mut mask = level.caches.mask(line, None);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                self.levels.versions.take(k, c, line);
                modified |= level.caches[c].entry(i).1 == LineState::Dirty;
                if keep {
                    level.caches[c].set(i, line, LineState::Shared)
                } else {
                    level.take(c, i)
                }
            }
        }
        modified
    }
}
