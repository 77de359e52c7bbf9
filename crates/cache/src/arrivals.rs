//! Events in the caches that have a time of their own: prefetched lines come, and harts get the registers that they
//! have waited for.

use super::ahead::{SavedAhead, Settled, Target, UnderWay, MOST, NOBODY};
use super::caches::{bits, Caches};
use super::coherence::Coherence;
use super::level_stats::LevelStats;
use super::levels::Level;
use super::mshr::Mshrs;
use super::parts::Parts;
use super::want::Want;
use super::Side;
use crate::config::Inclusion;
use crate::NotNow;
use std::ops::Range;

impl Coherence {
    /// The cycle of the next event in the caches; `u64::MAX` if there is none.
    #[inline(always)]
    pub fn next_due(&self) -> u64 {
        let due = self.levels.ahead.due;
        if self.levels.stores.on {
            // It changes with who owns a line, which too many accesses change to keep it.
            return due.min(self.stores_due());
        }
        due
    }

    pub(crate) fn find_due(&mut self) {
        self.levels.ahead.due = self.due();
        self.find_guards();
    }

    /// The time of the next event besides those of buffered stores: what is kept has to be this.
    pub(crate) fn due(&self) -> u64 {
        let under_way = self.levels.ahead.under_way.iter();
        let comes = under_way.filter(|p| !p.held).filter_map(|p| p.comes);
        let free = self.limited().filter_map(|p| p.mshrs.due());
        comes.chain(free).min().unwrap_or(u64::MAX)
    }

    /// The caches with a limited number of registers.
    fn limited(&self) -> impl Iterator<Item = &Parts> {
        let first = self.levels.first.iter().filter(|f| f.config.mshrs > 0);
        let outer = self.levels.levels.iter().filter(|l| l.config.mshrs > 0);
        let first = first.flat_map(|f| &f.parts);
        first.chain(outer.flat_map(|l| &l.parts))
    }

    /// All caches, by level, with their statistics.
    fn all_parts(&mut self) -> impl Iterator<Item = (&mut LevelStats, &mut Vec<Parts>)> {
        let first = self.levels.first.iter_mut();
        let outer = self.levels.levels.iter_mut();
        let first = first.map(|f| (&mut f.stats, &mut f.parts));
        first.chain(outer.map(|l| (&mut l.stats, &mut l.parts)))
    }

    fn stats_of(&mut self, target: Target) -> &mut LevelStats {
        match target {
            Target::First(side) => &mut self.levels.first[side as usize].stats,
            Target::Level(k) => &mut self.levels.levels[k].stats,
        }
    }

    /// Lets the first event take effect, if its time is not after `until`. Then
    /// [`Coherence::take_woken`] gives the harts that no longer wait, and
    /// [`Coherence::next_to_memory`] the lines that are written back.
    pub fn settle_due(&mut self, until: u64) -> Option<Settled> {
        let due = self.next_due();
        if due > until {
            return None;
        }
        // What has become possible by an event is not earlier than it.
        let clock = self.levels.stores.clock.max(due);
        self.levels.stores.clock = clock;
        let ahead = &mut self.levels.ahead;
        let now = |p: &UnderWay| p.comes == Some(due) && !p.held;
        let settled = match ahead.under_way.iter().position(now) {
            Some(i) => {
                let p = ahead.under_way[i];
                if p.wanted.is_none() && self.is_about_to_ask(&p) {
                    self.levels.ahead.under_way[i].held = true;
                } else {
                    let p = self.levels.ahead.under_way.remove(i);
                    match p.wanted {
                        Some((hart, from)) => {
                            let woken = (hart as usize, due.max(from));
                            self.levels.ahead.woken.push(woken);
                        }
                        None => self.put_ahead(&p, due),
                    }
                }
                Settled {
                    cycle: due,
                    hart: p.hart as usize,
                    pc: p.pc,
                }
            }
            None if self.stores_due() == due => Settled {
                cycle: clock,
                hart: self.step_stores(clock),
                pc: 0,
            },
            None => Settled {
                cycle: due,
                hart: self.grant(due),
                pc: 0,
            },
        };
        self.find_due();
        Some(settled)
    }

    /// Gives a register that is free now to the hart that waits for it. Returns the hart.
    fn grant(&mut self, now: u64) -> usize {
        let mut granted = None;
        for (place, (stats, parts)) in self.all_parts().enumerate() {
            let Some(part) = parts.iter_mut().find(|p| p.mshrs.due() == Some(now)) else {
                continue;
            };
            granted = part.mshrs.grant().map(|(hart, since)| {
                stats.mshr_waits += 1;
                stats.mshr_wait_cycles += now - since;
                (place, hart, now - since)
            });
            break;
        }
        let Some((place, hart, waited)) = granted else {
            return 0;
        };
        self.levels.counts[hart].at(place).waited(waited);
        self.levels.ahead.woken.push((hart, now));
        hart
    }

    /// The next hart that no longer waits, and since which cycle.
    pub fn take_woken(&mut self) -> Option<(usize, u64)> {
        self.levels.ahead.woken.pop()
    }

    /// Lets all events up to a cycle take effect, if waiting harts are not blocked (see
    /// [`Want::blocks`]).
    pub fn catch_up(&mut self, now: u64) {
        while self.settle_due(now).is_some() {}
        self.levels.ahead.woken.clear();
    }

    /// Takes a miss status holding register in each level before `k`, all of which have missed, and
    /// in the first-level cache, unless a prefetch is bringing the line there (`own`).
    /// Returns for how many cycles the hart waits for them (0 if it blocks instead), and since when
    /// it has waited for the first of them.
    pub(crate) fn take_mshrs(
        &mut self,
        (k, own): (usize, bool),
        want: &Want,
    ) -> Result<(u64, u64), NotNow> {
        let Want { hart, now, .. } = *want;
        let (mut waited, mut since) = (0, now);
        let counts = &mut self.levels.counts[hart];
        let first = &mut self.levels.first[want.side() as usize];
        let [data, inst] = &mut counts.first;
        let first_counts = match want.side() {
            Side::Data => data,
            Side::Inst => inst,
        };
        let first = match first.config.mshrs {
            0 => None,
            limit => {
                let mshrs = &mut first.parts[hart].mshrs;
                Some((limit, !own, &mut first.stats, mshrs, first_counts))
            }
        };
        let outer = self.levels.levels.iter_mut().enumerate();
        let outer = outer.zip(&mut counts.levels);
        let outer = outer.filter_map(|((j, l), counts)| match l.config.mshrs {
            0 => None,
            limit => {
                let of = l.of(hart);
                Some((limit, j < k, &mut l.stats, &mut l.parts[of].mshrs, counts))
            }
        });
        let mut none_free = false;
        for (limit, misses, stats, mshrs, counts) in first.into_iter().chain(outer) {
            let had = mshrs.serves(hart);
            if !misses {
                // The hart has waited for a register here, and the line has reached a nearer level
                // in the meantime.
                mshrs.end(hart, now);
            } else if !want.blocks {
                let free = mshrs.take_when_free(limit, hart, now + waited);
                let wait = free - (now + waited);
                stats.mshr_waits += u64::from(wait > 0);
                stats.mshr_wait_cycles += wait;
                match wait {
                    0 => counts.mshr_allocations += 1,
                    _ => counts.waited(wait),
                }
                waited += wait;
            } else if let Some(wanted) = mshrs.take(limit, hart, now) {
                counts.mshr_allocations += u64::from(!had);
                since = since.min(wanted);
            } else {
                none_free = true;
                break;
            }
        }
        self.find_due();
        if none_free {
            Err(NotNow)
        } else {
            Ok((waited, since))
        }
    }

    /// A hart's missing line arrives at a cycle that is known now: its registers are free from then
    /// on.
    #[inline]
    pub fn miss_ends(&mut self, hart: usize, at: u64) {
        if self.keeps_order() {
            self.give_back_mshrs(hart, at);
        }
    }

    fn give_back_mshrs(&mut self, hart: usize, at: u64) {
        for first in &mut self.levels.first {
            if first.config.mshrs > 0 {
                first.parts[hart].mshrs.end(hart, at);
            }
        }
        for level in &mut self.levels.levels {
            if level.config.mshrs > 0 {
                level.part(hart).mshrs.end(hart, at);
            }
        }
        self.find_due();
    }

    /// Ends all waits of harts.
    pub fn nobody_waits(&mut self) {
        for (_, parts) in self.all_parts() {
            parts.iter_mut().for_each(|p| p.mshrs.forget_harts());
        }
        let ahead = &mut self.levels.ahead;
        ahead.under_way.retain(|p| p.wanted.is_none());
        ahead.woken.clear();
        self.levels.stores.nobody_waits();
        self.find_due();
    }

    /// Whether a hart waits for a register, a prefetch, or for what it has stored.
    pub fn blocks(&self, hart: usize) -> bool {
        let mut parts = self.limited();
        let wanted = |p: &UnderWay| p.waits(hart);
        parts.any(|p| p.mshrs.blocks(hart))
            || self.levels.ahead.under_way.iter().any(wanted)
            || self.levels.stores.blocks(hart)
    }

    /// Tokens of the prefetches, and of the writes of combined lines, that memory has not answered yet, in order.
    pub fn asked_ahead(&self) -> impl Iterator<Item = u64> + '_ {
        let asked = self.levels.ahead.under_way.iter();
        let asked = asked.filter(|p| p.comes.is_none()).map(|p| p.token);
        let mut all: Vec<u64> = asked.chain(self.levels.stores.asked()).collect();
        all.sort_unstable();
        all.into_iter()
    }

    /// The index of a prefetch that will bring a line to a hart's cache of level `k` and for which
    /// no hart waits yet.
    pub(crate) fn coming(&self, k: usize, hart: usize, line: u64) -> Option<usize> {
        let level = &self.levels.levels[k];
        let mut all = self.levels.ahead.under_way.iter();
        all.position(|p| {
            let passes = (p.level..p.source).contains(&(k as u32));
            let here = level.of(p.hart as usize) == level.of(hart);
            p.line == line && p.is_free() && !p.void && passes && here
        })
    }

    /// The index of a prefetch that will bring a line, or has brought it, to a hart's first-level
    /// cache and for which no hart waits yet.
    pub(crate) fn coming_first(&self, side: Side, hart: usize, line: u64) -> Option<usize> {
        let mut all = self.levels.ahead.under_way.iter();
        all.position(|p| {
            let here = p.first == Some(side) && p.hart as usize == hart;
            p.line == line && here && p.is_free() && !p.void
        })
    }

    /// Makes a hart wait for a prefetch. It can use the line at cycle `from` at the earliest.
    /// Returns the cycle of the line's arrival, if that is known.
    pub(crate) fn join(&mut self, i: usize, hart: usize, from: u64) -> Option<u64> {
        let p = &mut self.levels.ahead.under_way[i];
        p.wanted = Some((hart as u32, from));
        p.held = false;
        let p = *p;
        self.stats_of(p.target()).prefetch_late += u64::from(!p.own);
        self.pass(0, p.source as usize, (hart, hart), p.line);
        self.find_due();
        p.comes
    }

    /// Whether a hart's cache should prefetch a line: neither this cache nor an inner one has the
    /// line, no hart has it modified, and no prefetch of it is outstanding.
    pub(crate) fn lacks(&self, target: Target, hart: usize, line: u64) -> bool {
        let missing = match target {
            Target::First(side) => self.first_lacks(side, hart, line),
            Target::Level(k) => {
                let level = &self.levels.levels[k];
                level.caches[level.of(hart)].find(line).is_none() && !self.is_near(k, hart, line)
            }
        };
        let comes = |p: &UnderWay| {
            let common = self.levels.levels.get(target.level().max(p.level as usize));
            let same = |l: &Level| l.of(p.hart as usize) == l.of(hart);
            p.line == line && common.map_or(p.hart as usize == hart, same)
        };
        self.inside(line)
            && missing
            && self.holders(hart, line).1.is_none()
            && !self.levels.ahead.under_way.iter().any(comes)
    }

    /// Whether an inner cache of a hart's cache of level `k` has a line.
    fn is_near(&self, k: usize, hart: usize, line: u64) -> bool {
        let shared_by = self.levels.levels[k].config.shared_by as usize;
        let first = hart / shared_by * shared_by;
        let group = first..(first + shared_by).min(self.l1d.len());
        let has = |caches: &Caches, of: Range<usize>| {
            let mut mask = caches.mask(line, None) & bits(&of);
            caches.next(line, &mut mask).is_some()
        };
        let before = &self.levels.levels[..k];
        has(&self.l1d, group.clone())
            || before.iter().any(|l| {
                let of = l.of(group.start)..l.of(group.end - 1) + 1;
                has(&l.caches, of)
            })
    }

    /// Starts the predicted prefetches, up to the next one that has to be read from memory by the
    /// running hart; returns its token and line. Lines that an outer level has need no request.
    pub fn next_prefetch(&mut self, hart: usize, pc: u64, now: u64) -> Option<(u64, u64)> {
        while !self.levels.ahead.guesses.is_empty() {
            let (target, line) = self.levels.ahead.guesses.remove(0);
            // Another level may have predicted the same line.
            if self.lacks(target, hart, line) {
                let begun = self.begin_prefetch(target, (hart, pc), line, now);
                if begun.is_some() {
                    return begun.map(|token| (token, line));
                }
            }
        }
        None
    }

    fn begin_prefetch(
        &mut self,
        target: Target,
        (hart, pc): (usize, u64),
        line: u64,
        now: u64,
    ) -> Option<u64> {
        let n = self.levels.levels.len();
        let has = |j: &usize| {
            let level = &self.levels.levels[*j];
            level.caches[level.of(hart)].find(line).is_some()
        };
        let (k, first) = match target {
            Target::First(side) => (0, Some(side)),
            Target::Level(k) => (k, None),
        };
        let beyond = k + usize::from(first.is_none());
        let source = (beyond..n).find(has).unwrap_or(n);
        let (limit, group) = match first {
            Some(side) => (
                self.levels.first[side as usize].config.mshrs,
                hart..hart + 1,
            ),
            None => {
                let level = &self.levels.levels[k];
                let harts = level.config.shared_by as usize;
                let start = level.of(hart) * harts;
                (level.config.mshrs, start..start + harts)
            }
        };
        let mine = |p: &&UnderWay| {
            let here = p.target() == target && group.contains(&(p.hart as usize));
            here && p.is_free() && !p.held
        };
        let under_way = self.levels.ahead.under_way.iter().filter(mine).count();
        let passed = (first, k..source, hart);
        let full = limit == 0 && under_way >= MOST;
        let mut free = true;
        self.each_passed(passed.clone(), |limit, m| free &= m.is_free(limit, now));
        if !free || full {
            self.stats_of(target).prefetch_dropped += 1;
            return None;
        }
        self.each_passed(passed, |limit, m| m.take_ahead(limit, now));
        self.count_prefetch(target, source, hart);
        self.stats_of(target).prefetches += 1;
        let token = self.levels.ahead.number();
        self.levels.ahead.under_way.push(UnderWay {
            token,
            level: k as u32,
            source: source as u32,
            hart: hart as u32,
            pc,
            line,
            comes: None,
            wanted: None,
            first,
            held: false,
            void: false,
            load: None,
            own: false,
        });
        self.begun_first(first, hart, line);
        if source == n {
            return Some(token);
        }
        self.line_came(token, now + u64::from(self.level_latency(source)));
        None
    }

    /// Takes a register of a hart's data cache, and of each level before `source`, for what no hart waits for. False if
    /// one is missing.
    pub(crate) fn take_registers(&mut self, hart: usize, source: usize) -> bool {
        let now = self.levels.stores.clock;
        let passed = (Some(Side::Data), 0..source, hart);
        let mut free = true;
        self.each_passed(passed.clone(), |limit, m| free &= m.is_free(limit, now));
        if free {
            self.each_passed(passed, |limit, m| m.take_ahead(limit, now));
        }
        free
    }

    /// A register of a hart's data cache that [`take_registers`](Self::take_registers) has taken is free from a cycle
    /// on.
    pub(crate) fn give_register(&mut self, hart: usize, at: u64) {
        let passed = (Some(Side::Data), 0..0, hart);
        self.each_passed(passed, |_, m| m.end_ahead(at));
    }

    /// Whether a register of a hart's data cache is free.
    pub(crate) fn has_register(&self, hart: usize, now: u64) -> bool {
        let first = &self.levels.first[Side::Data as usize];
        let limit = first.config.mshrs;
        limit == 0 || first.parts[hart].mshrs.has_free(limit, now)
    }

    /// When registers of a hart's data cache and of the first outer levels may be free for a request: at a cycle, or
    /// when the first of those that are missing then is given back, as far as that is known.
    pub(crate) fn registers_due(&self, hart: usize, levels: usize, now: u64) -> u64 {
        let first = &self.levels.first[Side::Data as usize];
        let own = first.parts.get(hart).map(|p| (first.config.mshrs, p));
        let outer = self.levels.levels[..levels].iter();
        let outer = outer.map(|l| (l.config.mshrs, &l.parts[l.of(hart)]));
        let missing = own
            .into_iter()
            .chain(outer)
            .filter(|(limit, p)| *limit > 0 && !p.mshrs.has_free(*limit, now))
            .map(|(_, p)| p.mshrs.next_free(now).unwrap_or(u64::MAX));
        missing.min().unwrap_or(now)
    }

    /// A line is on its way to a hart's data cache with the right to store, for which
    /// [`take_registers`](Self::take_registers) has taken registers.
    pub(crate) fn begin_owned(&mut self, hart: usize, pc: u64, line: u64, source: usize) -> u64 {
        let token = self.levels.ahead.number();
        let by = (hart as u32, pc);
        self.levels.ahead.under_way.push(UnderWay {
            load: None,
            own: true,
            ..UnderWay::for_load(token, source as u32, by, line)
        });
        token
    }

    /// Sets the cycle at which the line of a prefetch arrives. An unknown token is that of a
    /// prefetch that was dropped. If a load goes on without the line, its hart is returned, which has to be told
    /// ([`Hart::load_came`](crate::Hart::load_came)).
    pub fn line_came(&mut self, token: u64, cycle: u64) -> Option<usize> {
        let all = &mut self.levels.ahead.under_way;
        let Some(i) = all.iter().position(|p| p.token == token) else {
            self.combined_came(token, cycle);
            return None;
        };
        all[i].comes = Some(cycle);
        let p = all[i];
        if let Some(l) = p.load {
            all.remove(i);
            let first = l.first.then_some(Side::Data);
            let passed = (first, 0..l.levels as usize, l.hart as usize);
            self.each_passed(passed, |_, m| m.end_ahead(cycle));
        }
        let passed = (
            p.first,
            p.level as usize..p.source as usize,
            p.hart as usize,
        );
        self.each_passed(passed, |_, m| m.end_ahead(cycle));
        self.find_due();
        p.load.map(|l| l.hart as usize)
    }

    /// Calls a function for the registers, where they are limited, of each cache that a prefetch
    /// passes through on its way to a hart's first-level cache or the first of these levels.
    pub(crate) fn each_passed(
        &mut self,
        (first, levels, hart): (Option<Side>, Range<usize>, usize),
        mut f: impl FnMut(u32, &mut Mshrs),
    ) {
        let first = first.map(|side| &mut self.levels.first[side as usize]);
        if let Some(first) = first.filter(|c| c.config.mshrs > 0) {
            f(first.config.mshrs, &mut first.parts[hart].mshrs);
        }
        for level in &mut self.levels.levels[levels] {
            if level.config.mshrs > 0 {
                f(level.config.mshrs, &mut level.part(hart).mshrs);
            }
        }
    }

    /// Puts the line of a prefetch into its cache, and into the outer levels that it has passed
    /// through.
    fn put_ahead(&mut self, p: &UnderWay, now: u64) {
        let (k, hart, line) = (p.level as usize, p.hart as usize, p.line);
        self.levels.now = now;
        if p.own {
            return self.put_owned(p, now);
        }
        if let Some(side) = p.first {
            return self.put_first(side, p);
        }
        let here = |c: &Coherence, j: usize| {
            let level = &c.levels.levels[j];
            level.caches[level.of(hart)].find(line).is_some()
        };
        let (others, modified) = self.holders(hart, line);
        let near = here(self, k) || self.is_near(k, hart, line);
        if near || modified.is_some() || self.is_combined(line) {
            self.levels.levels[k].stats.prefetch_useless += 1;
            return;
        }
        if others {
            self.probe(hart, line, false);
        }
        self.pass(k, p.source as usize, (hart, NOBODY), line);
        if !here(self, k) {
            self.allocate(k, (hart, NOBODY), line, false, None);
        }
        let cache = self.levels.levels[k].part(hart);
        cache.guesses.unused.insert(line);
    }

    /// Moves a line from level `source`, which may have evicted it in the meantime, or from memory
    /// (the number of levels), to a hart's cache of level `k`; the levels between them take a copy
    /// according to their inclusion.
    pub(crate) fn pass(&mut self, k: usize, source: usize, (of, by): (usize, usize), line: u64) {
        for j in (k..self.levels.levels.len()).rev() {
            let level = &self.levels.levels[j];
            let keeps = match level.config.inclusion {
                Inclusion::Inclusive => true,
                Inclusion::NonInclusive => j < source,
                Inclusion::Exclusive => false,
            };
            if keeps && level.caches[level.of(of)].find(line).is_none() {
                self.allocate(j, (of, by), line, false, None);
            }
        }
    }

    pub(crate) fn save_ahead(&self) -> SavedAhead {
        SavedAhead {
            under_way: self.levels.ahead.under_way.clone(),
            next: self.levels.ahead.next,
        }
    }

    /// Restores the saved state, after that of the levels. Returns false if it does not fit these
    /// levels.
    pub(crate) fn load_ahead(&mut self, saved: SavedAhead) -> bool {
        let (n, harts) = (self.levels.levels.len() as u32, self.l1d.len() as u32);
        let cycle = |t: u64| t < 1 << 62;
        let fits = |p: &UnderWay| {
            let passes = match p.first {
                // The line may come from the first outer level.
                Some(side) => {
                    let first = &self.levels.first[side as usize];
                    let stores = p.own && side == Side::Data && self.has_stores();
                    let load = p.load.is_some() && first.config.mshrs > 0;
                    p.level == 0 && (stores || load || first.prefetches())
                }
                None => p.level < p.source && !p.held && !p.void,
            };
            p.token < saved.next
                && passes
                && !(p.held && (p.wanted.is_some() || p.comes.is_none()))
                && p.source <= n
                && p.hart < harts
                && self.inside(p.line)
                && p.line.is_multiple_of(64)
                && p.comes.is_none_or(cycle)
                && p.wanted.is_none_or(|(h, from)| h < harts && cycle(from))
                && p.load.is_none_or(|l| {
                    l.hart < harts && l.levels <= n && p.wanted.is_none() && p.comes.is_none()
                })
        };
        if !cycle(saved.next) || !saved.under_way.iter().all(fits) {
            return false;
        }
        self.levels.ahead.clear();
        self.levels.ahead.under_way = saved.under_way;
        self.levels.ahead.next = saved.next;
        self.find_due();
        true
    }
}
