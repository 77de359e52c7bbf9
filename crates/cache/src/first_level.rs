//! Misses and prefetches of first-level caches.

use super::ahead::{Target, UnderWay, NOBODY};
use super::banks::Banks;
use super::coherence::Coherence;
use super::first::{Filling, First, FirstStats, SavedFirst, SIDES};
use super::level_stats::LevelStats;
use super::parts::Parts;
use super::prefetch::{predicted, Access};
use super::stores::Stores;
use super::tags::{LineState, Tags, NO_SLOT};
use super::want::Want;
use super::Side;
use crate::config::FirstConfig;

impl Coherence {
    /// Adds MSHRs and prefetchers of the first-level caches, for data and for instructions.
    pub fn with_first(mut self, [data, inst]: [FirstConfig; 2]) -> Self {
        let harts = self.l1d.len();
        let on = data.keeps_order() || inst.keeps_order();
        self.levels.first = [First::new(data, harts), First::new(inst, harts)];
        self.levels.stores = Stores::new(data.stores, harts);
        self.levels.has_first = on;
        self.levels.fillings = vec![None; if on { harts } else { 0 }];
        self.levels.ordered |= on;
        self
    }

    /// Whether some first-level cache has MSHRs or a prefetcher.
    #[inline(always)]
    pub fn has_first(&self) -> bool {
        self.levels.has_first
    }

    /// Counters of the first-level caches for data and for instructions; `None` where they have
    /// neither MSHRs nor a prefetcher.
    pub fn first_stats(&self) -> [Option<FirstStats>; 2] {
        let of = |side: Side| {
            let first = &self.levels.first[side as usize];
            let on = first.config.keeps_order();
            on.then(|| FirstStats::of(&first.stats, &first.parts))
        };
        SIDES.map(of)
    }

    fn tags(&self, side: Side, hart: usize) -> &Tags {
        match side {
            Side::Data => &self.l1d[hart],
            Side::Inst => &self.l1i[hart],
        }
    }

    /// The bit of a line's set, among the at most 64 sets of a first-level cache.
    fn set_bit(&self, side: Side, hart: usize, line: u64) -> u64 {
        let cache = self.tags(side, hart);
        1 << ((cache.set_start(line) / cache.ways()) & 63)
    }

    /// Whether a prefetched line is coming to the set of a line; see the [module](self).
    #[inline(always)]
    pub fn is_guarded(&self, side: Side, hart: usize, line: u64) -> bool {
        self.levels.has_first && self.guards(side, hart) & self.set_bit(side, hart, line) != 0
    }

    /// A bit for each set of a hart's first-level cache to which a prefetched line is coming.
    pub fn guards(&self, side: Side, hart: usize) -> u64 {
        let guards = &self.levels.first[side as usize].guards;
        guards.get(hart).copied().unwrap_or(0)
    }

    /// Finds the sets to which prefetched lines are coming.
    pub(crate) fn find_guards(&mut self) {
        if !self.levels.has_first {
            return;
        }
        for first in &mut self.levels.first {
            first.guards.fill(0);
        }
        for i in 0..self.levels.ahead.under_way.len() {
            let p = self.levels.ahead.under_way[i];
            let comes = p.is_free() && !p.void && !p.held;
            if let Some(side) = p.first.filter(|_| comes) {
                let bit = self.set_bit(side, p.hart as usize, p.line);
                self.levels.first[side as usize].guards[p.hart as usize] |= bit;
            }
        }
        let stored: Vec<(usize, u64)> = self.levels.stores.guarded().collect();
        for (hart, line) in stored {
            let bit = self.set_bit(Side::Data, hart, line);
            self.levels.first[Side::Data as usize].guards[hart] |= bit;
        }
    }

    /// Whether a hart works on a miss of a line of data.
    pub(crate) fn fills_line(&self, hart: usize, line: u64) -> bool {
        let known = self.levels.fillings.get(hart).copied().flatten();
        known.is_some_and(|f| f.side == Side::Data && f.line == line)
    }

    /// Whether a hart's first-level cache lacks a line that its prefetcher has predicted. Lines that
    /// the hart has modified are not prefetched as code.
    pub(crate) fn first_lacks(&self, side: Side, hart: usize, line: u64) -> bool {
        let own = self.l1d[hart].find(line).map(|i| self.l1d[hart].entry(i).1);
        self.tags(side, hart).find(line).is_none()
            && (side == Side::Data || own != Some(LineState::Dirty))
    }

    /// A prefetch into a first-level cache has begun; the running hart's filter has to give up the
    /// lines of its set.
    pub(crate) fn begun_first(&mut self, side: Option<Side>, hart: usize, line: u64) {
        if let Some(side) = side {
            let bit = self.set_bit(side, hart, line);
            self.levels.first[side as usize].guards[hart] |= bit;
            self.levels.begun.push((side, line));
        }
    }

    /// The prefetcher of a first-level cache observes an access, and predicts.
    pub(crate) fn learn_first(&mut self, want: &Want) {
        let side = want.side();
        let first = &mut self.levels.first[side as usize];
        if !first.prefetches() {
            return;
        }
        let c = first.config.prefetch;
        let access = Access {
            hart: want.hart,
            pc: want.pc,
            line: want.line,
            kind: want.kind,
        };
        let target = Target::First(side);
        let guesses = &mut first.parts[want.hart].guesses;
        let likely = predicted(&first.brought, guesses, &c, &access);
        let missing = |l: &u64| self.lacks(target, want.hart, *l);
        let missing = likely.into_iter().filter(missing);
        let missing: Vec<u64> = missing.take(c.degree as usize).collect();
        self.levels.ahead.guess(target, missing);
    }

    /// Whether a line is in a hart's first-level cache because of a prefetch, and has not been used.
    pub fn is_unused(&self, side: Side, hart: usize, line: u64) -> bool {
        let first = &self.levels.first[side as usize];
        let mut parts = first.parts.get(hart).into_iter();
        parts.any(|p| p.guesses.unused.contains(&line))
    }

    /// A prefetched line is used for the first time.
    pub fn used_first(&mut self, want: &Want) {
        let first = &mut self.levels.first[want.side() as usize];
        first.parts[want.hart].guesses.unused.remove(&want.line);
        first.stats.prefetch_useful += 1;
        self.learn_first(want);
    }

    /// A line is removed from a first-level cache: if it was prefetched and never used, the prefetch
    /// was useless.
    #[inline(always)]
    pub fn left_first(&mut self, side: Side, hart: usize, line: u64) {
        if self.levels.has_first {
            let first = &mut self.levels.first[side as usize];
            let part = first.parts.get_mut(hart);
            let useless = part.is_some_and(|p| p.guesses.unused.remove(&line));
            first.stats.prefetch_useless += u64::from(useless);
        }
    }

    /// A hart works on a miss from now on; what it has done for the same line stays as it is.
    #[inline(always)]
    pub fn filling(&mut self, side: Side, hart: usize, line: u64) {
        if self.levels.has_first {
            self.begin_filling(side, hart, line);
        }
    }

    fn begin_filling(&mut self, side: Side, hart: usize, line: u64) {
        let known = self.levels.fillings[hart];
        if !known.is_some_and(|f| (f.side, f.line) == (side, line)) {
            self.filled_first(hart);
            let entry = None;
            self.levels.fillings[hart] = Some(Filling { side, line, entry });
        }
    }

    /// Whether a hart has begun to work on a miss of a line, so that no prefetch brings it.
    pub fn has_begun(&self, hart: usize, side: Side, line: u64) -> bool {
        let known = self.levels.fillings.get(hart);
        known.is_none_or(|f| f.is_some_and(|f| (f.side, f.line) == (side, line)))
    }

    /// The entry for the line that a hart works on is chosen: no prefetched line takes it.
    pub fn reserve(&mut self, hart: usize, entry: usize) {
        if let Some(Some(f)) = self.levels.fillings.get_mut(hart) {
            f.entry = Some(entry as u32);
        }
    }

    /// Whether an entry is still the one for the line that a hart works on.
    pub fn is_reserved(&self, hart: usize, entry: usize) -> bool {
        let known = self.levels.fillings.get(hart);
        known.is_none_or(|f| f.is_some_and(|f| f.entry == Some(entry as u32)))
    }

    /// A hart's miss is complete, or given up. A prefetch that was held for it is complete, too.
    #[inline(always)]
    pub fn filled_first(&mut self, hart: usize) {
        if self.levels.has_first && self.levels.fillings[hart].take().is_some() {
            let mut any = false;
            for p in &mut self.levels.ahead.under_way {
                let held = p.held && p.hart as usize == hart;
                p.held &= !held;
                any |= held;
            }
            if any {
                self.find_due();
            }
        }
    }

    /// Whether the hart of a prefetch works on a miss of the same line, but has not requested it yet.
    /// Then the line waits for that request.
    pub(crate) fn is_about_to_ask(&self, p: &UnderWay) -> bool {
        let same = |f: &Filling| Some(f.side) == p.first && f.line == p.line;
        let known = self.levels.fillings.get(p.hart as usize);
        known.is_some_and(|f| f.as_ref().is_some_and(same)) && !p.void
    }

    /// Prefetches of a line into first-level caches are no longer wanted, except those of one hart:
    /// the line is stored to, or flushed from all caches.
    #[inline(always)]
    pub fn void_prefetches(&mut self, line: u64, but: usize) {
        if self.levels.has_first {
            self.void(|p| p.line == line && p.hart as usize != but);
        }
    }

    #[cold]
    fn void(&mut self, which: impl Fn(&UnderWay) -> bool) {
        for p in &mut self.levels.ahead.under_way {
            p.void |= p.first.is_some() && p.is_free() && !p.own && which(p);
            p.held &= !p.void;
        }
        self.find_due();
    }

    /// Empties a hart's first-level instruction cache; what is coming to it is no longer wanted.
    pub fn empty_l1i(&mut self, hart: usize) {
        if self.levels.has_first {
            self.void(|p| p.first == Some(Side::Inst) && p.hart as usize == hart);
            let lines: Vec<u64> = self.l1i[hart].lines().collect();
            for line in lines {
                self.left_first(Side::Inst, hart, line);
            }
        }
        self.l1i.clear(hart);
    }

    /// A prefetched line arrives at a first-level cache. Its hart does not run.
    pub(crate) fn put_first(&mut self, side: Side, p: &UnderWay) {
        let (hart, line) = (p.hart as usize, p.line);
        let (others, modified) = self.holders(hart, line);
        let unwanted = p.void || modified.is_some() || self.is_combined(line);
        let entry = if unwanted || !self.first_lacks(side, hart, line) {
            None
        } else {
            self.make_room(side, hart, line)
        };
        let Some(entry) = entry else {
            self.levels.first[side as usize].stats.prefetch_useless += 1;
            return;
        };
        let has = |l: &super::levels::Level| l.caches[l.of(hart)].find(line);
        let found = self.levels.levels.iter().position(|l| has(l).is_some());
        let mut state = LineState::Shared;
        let mut source = p.source as usize;
        if side == Side::Data {
            if others {
                self.probe(hart, line, false);
            } else {
                state = LineState::Exclusive;
            }
            if let Some(k) = found.filter(|k| !others && self.wants_clean_at(*k)) {
                if self.move_up(k, hart, line) {
                    state = LineState::Dirty;
                }
                source = k;
            }
        }
        self.pass(0, source, (hart, NOBODY), line);
        let caches = self.first_level(side);
        caches.put(hart, entry, line, state);
        caches[hart].filled(entry);
        let part = &mut self.levels.first[side as usize].parts[hart];
        part.guesses.unused.insert(line);
    }

    /// Moves a line out of an exclusive level. Returns whether it is modified.
    pub(crate) fn move_up(&mut self, k: usize, hart: usize, line: u64) -> bool {
        let level = &mut self.levels.levels[k];
        let of = level.of(hart);
        let Some(i) = level.caches[of].find(line) else {
            return false;
        };
        let modified = level.caches[of].entry(i).1 == LineState::Dirty;
        level.caches.take(of, i);
        // No inner cache has the line, so this is its newest state.
        self.levels.versions.take(k, of, line);
        modified
    }

    /// Removes a line from a hart's first-level cache, if necessary, for a prefetched one. Returns
    /// the entry; `None` if the only one is reserved.
    pub(crate) fn make_room(&mut self, side: Side, hart: usize, line: u64) -> Option<usize> {
        let filling = self.levels.fillings[hart].filter(|f| f.side == side);
        let reserved = filling.and_then(|f| f.entry).map(|i| i as usize);
        let cache = &mut self.first_level(side)[hart];
        let i = cache.victim_but(line, reserved)?;
        let (old, state) = cache.entry(i);
        debug_assert_eq!(cache.slot(i), NO_SLOT, "its set is guarded");
        if state != LineState::Invalid {
            self.first_level(side).take(hart, i);
            self.left_first(side, hart, old);
            let modified = state == LineState::Dirty;
            if modified {
                self.levels.counts[hart].first[side as usize].wrote_back(NOBODY);
            }
            if side == Side::Data && (modified || self.wants_clean()) {
                self.put(0, (hart, NOBODY), old, modified, None);
            }
        }
        Some(i)
    }

    pub(crate) fn save_first(&self) -> SavedFirst {
        if !self.levels.has_first {
            return SavedFirst::default();
        }
        let sides = self.levels.first.iter();
        SavedFirst {
            sides: sides.map(|f| (f.stats, f.parts.clone())).collect(),
            fillings: self.levels.fillings.clone(),
        }
    }

    /// Restores the saved state, before that of outstanding prefetches. Returns false if it does not
    /// fit these caches.
    pub(crate) fn load_first(&mut self, saved: SavedFirst) -> bool {
        if !self.levels.has_first {
            return saved.is_new();
        }
        let harts = self.l1d.len();
        let fits = |(first, (_, parts)): (&First, &(LevelStats, Vec<Parts>))| {
            let c = &first.config.prefetch;
            let part = |p: &Parts| p.fits(harts, &Banks::default(), c, |l| self.inside(l));
            parts.len() == first.parts.len() && parts.iter().all(part)
        };
        let filling = |f: &Filling| {
            let entries = self.tags(f.side, 0).len();
            self.inside(f.line)
                && f.line.is_multiple_of(64)
                && f.entry.is_none_or(|i| (i as usize) < entries)
        };
        let both = self.levels.first.iter().zip(&saved.sides);
        if saved.sides.len() != SIDES.len()
            || !{ both }.all(fits)
            || saved.fillings.len() != harts
            || !saved.fillings.iter().flatten().all(filling)
        {
            return false;
        }
        for (first, (stats, parts)) in self.levels.first.iter_mut().zip(saved.sides) {
            (first.stats, first.parts) = (stats, parts);
        }
        self.levels.fillings = saved.fillings;
        true
    }

    /// Checks that each unused prefetched line is in its cache, and that no filter covers a line of a
    /// guarded set. The first violation is the error.
    pub fn check_first(&self) -> Result<(), String> {
        for side in SIDES {
            let first = &self.levels.first[side as usize];
            for (hart, part) in first.parts.iter().enumerate() {
                let cache = self.tags(side, hart);
                let gone = |l: &&u64| cache.find(**l).is_none();
                if let Some(line) = part.guesses.unused.iter().find(gone) {
                    return Err(format!("{side:?} {hart} lacks prefetched line {line:#x}"));
                }
                let covered = |l: &u64| cache.find(*l).is_some_and(|i| cache.slot(i) != NO_SLOT);
                let guarded = |l: &u64| self.is_guarded(side, hart, *l) && covered(l);
                if let Some(line) = cache.lines().find(guarded) {
                    return Err(format!("{side:?} {hart}: a filter covers {line:#x}"));
                }
            }
        }
        Ok(())
    }
}
