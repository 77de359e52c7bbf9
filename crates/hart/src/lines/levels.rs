//! Outer cache levels: private to a hart, shared by some, or by all.
//!
//! Levels are numbered from the cores outwards, from 0. A line that no level has comes from memory;
//! modified lines that the last level evicts go there. All of this happens at one moment, while no
//! other hart is behind, so nobody can observe a line between levels. Only prefetches take time
//! ([`super::ahead`]).

use super::ahead::Ahead;
use super::banks::Banks;
use super::caches::{bits, Caches};
use super::coherence::{Coherence, Notice};
use super::mshr::Mshrs;
use super::prefetch::{Access, Guesses};
use super::tags::{LineState, Tags, NO_SLOT};
use super::versions::Versions;
use super::Side;
use crate::config::{Inclusion, LevelConfig, Prefetcher};
use crate::trap::NotNow;
use crate::world::LineKind;
use serde::{Deserialize, Serialize};

/// Later times could overflow during a run.
const FAR: u64 = 1 << 62;

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
    /// Misses that have waited for a miss status holding register.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mshr_waits: u64,
    /// Core cycles that they have waited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mshr_wait_cycles: u64,
    /// Lines asked for that have waited for another access to their bank.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bank_waits: u64,
    /// Core cycles that they have waited.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bank_wait_cycles: u64,
    /// Lines that the prefetcher has asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefetches: u64,
    /// Those that were asked for by a hart after they had come.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefetch_useful: u64,
    /// Those that were asked for by a hart before they had come; it has waited for the rest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefetch_late: u64,
    /// Those that went again, or were no longer wanted when they came, without a hart asking.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefetch_useless: u64,
    /// Those that were not asked for since no miss status holding register was free.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefetch_dropped: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl LevelStats {
    /// Count by count.
    pub fn zip(&self, o: &LevelStats, f: impl Fn(u64, u64) -> u64) -> LevelStats {
        LevelStats {
            mshr_waits: f(self.mshr_waits, o.mshr_waits),
            mshr_wait_cycles: f(self.mshr_wait_cycles, o.mshr_wait_cycles),
            bank_waits: f(self.bank_waits, o.bank_waits),
            bank_wait_cycles: f(self.bank_wait_cycles, o.bank_wait_cycles),
            prefetches: f(self.prefetches, o.prefetches),
            prefetch_useful: f(self.prefetch_useful, o.prefetch_useful),
            prefetch_late: f(self.prefetch_late, o.prefetch_late),
            prefetch_useless: f(self.prefetch_useless, o.prefetch_useless),
            prefetch_dropped: f(self.prefetch_dropped, o.prefetch_dropped),
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
    pub config: LevelConfig,
    /// Its caches, by their harts.
    pub caches: Caches,
    pub stats: LevelStats,
    /// What belongs to each of them.
    pub parts: Vec<Parts>,
}

/// What belongs to a cache beside its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parts {
    pub mshrs: Mshrs,
    pub banks: Banks,
    pub guesses: Guesses,
}

impl Parts {
    fn new(c: &LevelConfig) -> Self {
        Parts {
            mshrs: Mshrs::default(),
            banks: Banks::new(c.banks, c.bank_cycles),
            guesses: Guesses::new(&c.prefetch),
        }
    }
}

impl Level {
    pub fn of(&self, hart: usize) -> usize {
        hart / self.config.shared_by as usize
    }

    fn cache(&mut self, hart: usize) -> &mut Tags {
        let i = self.of(hart);
        &mut self.caches[i]
    }

    pub fn part(&mut self, hart: usize) -> &mut Parts {
        let i = self.of(hart);
        &mut self.parts[i]
    }

    pub fn prefetches(&self) -> bool {
        self.config.prefetch.prefetcher != Prefetcher::None
    }

    /// An access to a line's bank; how long it has to wait.
    fn access_bank(&mut self, hart: usize, line: u64, now: u64) -> u64 {
        let cycles = self.config.bank_cycles;
        self.part(hart).banks.access(line, now, cycles)
    }

    /// A line is gone that may have been prefetched for nothing.
    fn gone(&mut self, cache: usize, line: u64) {
        let useless = self.prefetches() && self.parts[cache].guesses.unused.remove(&line);
        self.stats.prefetch_useless += u64::from(useless);
    }

    /// Takes the line out of an entry of a cache.
    fn take(&mut self, cache: usize, entry: usize) {
        let line = self.caches[cache].entry(entry).0;
        self.caches.take(cache, entry);
        self.gone(cache, line);
    }

    /// Whether any of its caches keeps a miss waiting or brings lines by itself.
    fn keeps_order(&self) -> bool {
        self.config.mshrs > 0 || self.prefetches()
    }
}

/// A level as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLevel {
    caches: Vec<Tags>,
    stats: LevelStats,
    /// Only where there is anything in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Parts>,
}

/// All outer cache levels.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    pub levels: Vec<Level>,
    /// Modified lines that the last level has given up, for the hart at work to send to memory, and which
    /// version if it is an older one.
    to_memory: Vec<(u64, Option<u64>)>,
    /// Which of the modified lines are older versions.
    pub versions: Versions,
    /// Filter slots of the hart at work whose lines are gone.
    dropped: Vec<(Side, u16)>,
    /// The cycle at which the hart at work does what it does.
    pub now: u64,
    /// Whether what happens here has to be in the order of time: see [`Coherence::keeps_order`].
    pub ordered: bool,
    /// Prefetches under way.
    pub ahead: Ahead,
}

/// What a hart asks the levels for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub hart: usize,
    pub line: u64,
    pub kind: LineKind,
    /// Program counter of the instruction.
    pub pc: u64,
    /// Core cycle.
    pub now: u64,
    /// Whether the hart is blocked when it has to wait: see [`MemPort::BLOCKS`](crate::world::MemPort::BLOCKS).
    pub blocks: bool,
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Cycles from the request until the line is there or, if it comes from memory, until the last
    /// level has asked for it.
    pub latency: u64,
    pub from: From,
    /// It was modified and has not been written to memory since.
    pub modified: bool,
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A level has it.
    Level,
    /// No level has it.
    Memory,
    /// A prefetch is under way; the cycle when it comes, if that is known.
    Prefetch(Option<u64>),
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
            parts: vec![Parts::new(c); harts.div_ceil(c.shared_by as usize)],
        };
        let levels: Vec<Level> = config.iter().map(level).collect();
        Levels {
            ordered: levels.iter().any(Level::keeps_order),
            levels,
            ..Levels::default()
        }
    }

    pub fn clear(&mut self) {
        for l in &mut self.levels {
            l.caches.clear_all();
            for p in &mut l.parts {
                p.mshrs = Mshrs::default();
                p.banks.clear();
                p.guesses.clear();
            }
        }
        self.ahead.clear();
        self.versions.clear();
    }

    pub fn save(&self) -> Vec<SavedLevel> {
        let saved = |l: &Level| SavedLevel {
            caches: l.caches.to_vec(),
            stats: l.stats,
            parts: match l.parts.iter().all(|p| *p == Parts::default()) {
                true => Vec::new(),
                false => l.parts.clone(),
            },
        };
        self.levels.iter().map(saved).collect()
    }

    /// Takes over what was saved; false if it is not of such levels.
    pub fn load(
        &mut self,
        saved: Vec<SavedLevel>,
        harts: usize,
        inside: impl Fn(u64) -> bool,
    ) -> bool {
        let fits = |(old, new): (&Level, &SavedLevel)| {
            let pairs = || new.caches.iter().zip(old.caches.iter());
            let c = &old.config;
            let part = |p: &Parts| {
                p.mshrs.fits(harts, FAR)
                    && p.banks.fits(&Banks::new(c.banks, c.bank_cycles), FAR)
                    && p.guesses.fits(&c.prefetch, &inside)
            };
            new.caches.len() == old.caches.len()
                && pairs().all(|(n, o)| n.fits(o, &inside))
                && (new.parts.is_empty() || new.parts.len() == old.parts.len())
                && new.parts.iter().all(part)
        };
        if saved.len() != self.levels.len() || !self.levels.iter().zip(&saved).all(fits) {
            return false;
        }
        for (level, s) in self.levels.iter_mut().zip(saved) {
            (level.caches, level.stats) = (Caches::new(s.caches), s.stats);
            let fresh = vec![Parts::new(&level.config); level.parts.len()];
            level.parts = match s.parts.is_empty() {
                true => fresh,
                false => s.parts,
            };
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
        let fits = levels.load(saved, self.l1d.len(), |line| self.inside(line));
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

    pub(super) fn wants_clean_at(&self, level: usize) -> bool {
        let l = self.levels.levels.get(level);
        l.is_some_and(|l| l.config.inclusion == Inclusion::Exclusive)
    }

    /// Lines for memory, one after the other, and which version if it is an older one.
    pub fn next_to_memory(&mut self) -> Option<(u64, Option<u64>)> {
        self.levels.to_memory.pop()
    }

    /// Filter slots of the hart at work whose lines are gone, one after the other.
    pub(crate) fn next_dropped(&mut self) -> Option<(Side, u16)> {
        self.levels.dropped.pop()
    }

    /// Whether misses may have to wait for one another, or lines come that no hart waits for: then
    /// no request may be answered before its time, even if only one hart runs.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        self.levels.ordered
    }

    /// Looks for a line that a hart's first level lacks; the levels without it take it up. `NotNow`
    /// if the hart has to wait for a miss status holding register.
    pub(crate) fn fetch(&mut self, want: &Want) -> Result<Found, NotNow> {
        let Want {
            hart, line, now, ..
        } = *want;
        let n = self.levels.levels.len();
        let (mut entry, mut coming) = (None, None);
        // The first level that has it, or that it is on its way to.
        let mut k = 0;
        while k < n {
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
            (waited, since) = self.take_mshrs(k, want)?;
        }
        self.levels.now = now;
        for j in 0..n.min(k + 1) {
            let hit = j == k && entry.is_some();
            let level = &mut self.levels.levels[j];
            level.stats.hits += u64::from(hit);
            level.stats.misses += u64::from(!hit);
            let bank = level.access_bank(hart, line, now + waited);
            level.stats.bank_waits += u64::from(bank > 0);
            level.stats.bank_wait_cycles += bank;
            waited += bank;
            if level.prefetches() {
                self.learn(j, want, hit);
            }
        }
        // While a miss waits for a register, it is looked for on the way there.
        let after = |latency: u32| (waited + u64::from(latency)).saturating_sub(now - since);
        let mut found = Found {
            latency: after(self.last_latency()),
            from: From::Memory,
            modified: false,
        };
        let Some(i) = entry else {
            if let Some(p) = coming {
                // What is in front of where it comes along has looked for it, and no more.
                found.latency = after(self.level_latency(k));
                found.from = From::Prefetch(self.join(p, hart, now + found.latency));
            } else {
                self.take_up(n, hart, line, false);
            }
            return Ok(found);
        };
        // Instruction caches give nothing back, and others' copies stay where this one is theirs, too.
        let data = want.kind != LineKind::Fetch;
        let moves = self.wants_clean_at(k) && data && !self.elsewhere(hart, line);
        let level = &mut self.levels.levels[k];
        found.latency = after(level.config.latency);
        found.from = From::Level;
        let of = level.of(hart);
        found.modified = moves && level.caches[of].entry(i).1 == LineState::Dirty;
        if moves {
            level.caches.take(of, i);
            // Nobody nearer has it, so it is the newest.
            self.levels.versions.take(k, of, line);
        } else {
            level.caches[of].touch(i);
        }
        self.take_up(k, hart, line, found.modified);
        self.miss_ends(hart, now + found.latency);
        Ok(found)
    }

    /// The prefetcher of a level learns of an access there, and guesses.
    fn learn(&mut self, k: usize, want: &Want, hit: bool) {
        let level = &mut self.levels.levels[k];
        let c = level.config.prefetch;
        let cache = level.of(want.hart);
        let guesses = &mut level.parts[cache].guesses;
        if hit {
            // Other hits say nothing of what is missing.
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
        let likely: Vec<u64> = guesses.learn(&c, &access).collect();
        let missing = |l: &u64| self.lacks(k, want.hart, *l);
        let missing = likely.into_iter().filter(missing);
        let missing: Vec<u64> = missing.take(c.degree as usize).collect();
        self.levels.ahead.guess(k, missing);
    }

    /// Levels nearer than `k` that keep what passes take a line up.
    fn take_up(&mut self, k: usize, hart: usize, line: u64, modified: bool) {
        for j in (0..k).rev() {
            if !self.wants_clean_at(j) {
                // What is modified goes on to the core so.
                let stays = modified && !self.levels.levels[j].config.write_through;
                self.allocate(j, (hart, hart), line, stays, None);
            }
        }
    }

    /// Passes on a line that a hart's first level evicts or cleans.
    pub(crate) fn give(&mut self, hart: usize, line: u64, modified: bool, now: u64) {
        self.levels.now = now;
        self.put(0, (hart, hart), line, modified, None);
    }

    /// A line comes to a level from one nearer to the cores of `of`; `by` is the hart at work. If it is
    /// modified, it is of that version.
    fn put(
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
            self.put(k + 1, (of, by), line, true, version);
        }
    }

    /// Puts a line into a level, in the place of another one.
    pub(super) fn allocate(
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

    /// A level has given a line up.
    fn evicted(
        &mut self,
        k: usize,
        (of, by): (usize, usize),
        line: u64,
        mut modified: bool,
        mut version: Option<u64>,
    ) {
        self.levels.levels[k].stats.evictions += 1;
        if self.levels.levels[k].config.inclusion == Inclusion::Inclusive {
            let (copies, newer) = self.back_invalidate(k, of, by, line);
            self.levels.levels[k].stats.back_invalidations += copies;
            if let Some(newer) = newer {
                (modified, version) = (true, newer);
            }
        }
        self.levels.levels[k].stats.writebacks += u64::from(modified);
        if modified || self.wants_clean_at(k + 1) {
            self.put(k + 1, (of, by), line, modified, version);
        }
    }

    /// Takes a line away from all that is nearer to the cores; how many copies there were, and
    /// the version of the nearest that was modified, if one was.
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
        for (k, level) in self.levels.levels.iter_mut().enumerate() {
            let mut mask = level.caches.mask(line, Some(level.of(hart)));
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                self.levels.versions.take(k, c, line);
                match exclusive {
                    true => level.take(c, i),
                    false => level.caches[c].set(i, line, LineState::Shared),
                }
            }
        }
    }

    /// Cleans a modified line in the other hart's cache and puts it into the first level that both
    /// harts share. If they share none, it goes into the requesting hart's last level and to memory.
    /// Returns the probe's latency in core cycles, `None` without outer levels.
    pub(crate) fn hand_over(
        &mut self,
        hart: usize,
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
            Some(k) => self.put(k, (hart, hart), line, true, None),
            None => {
                self.levels.to_memory.push((line, None));
                if self.levels.levels[last].cache(hart).find(line).is_none() {
                    self.allocate(last, (hart, hart), line, false, None);
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
        for (k, level) in self.levels.levels.iter_mut().enumerate() {
            let mut mask = level.caches.mask(line, None);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                self.levels.versions.take(k, c, line);
                modified |= level.caches[c].entry(i).1 == LineState::Dirty;
                match keep {
                    true => level.caches[c].set(i, line, LineState::Shared),
                    false => level.take(c, i),
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
#[path = "levels_tests.rs"]
mod tests;
