//! The store buffer: when its entries request their lines, and when they are written to the cache.
//!
//! An entry requests its line with the right to store when it is made, if a line fill buffer is free, so that
//! requests of several entries are under way at a time. It is written when its hart owns the line: in order, as the
//! oldest; otherwise whenever that is. A line that was lost before is requested again, in order by the oldest
//! entry only.

use super::ahead::{UnderWay, NOBODY};
use super::coherence::Coherence;
use super::levels::Level;
use super::stores::{Awaits, Buffers, Bytes, Deed, Forward, Sent, StoreStats, Stored, Why};
use super::tags::LineState;
use super::want::Want;
use super::Side;
use crate::config::Drain;
use crate::LineKind;

impl Coherence {
    /// Whether stores may be held in buffers.
    #[inline(always)]
    pub fn has_stores(&self) -> bool {
        self.levels.stores.on
    }

    /// Counters of the store buffers and combined lines, by hart; empty if there are none and hints do nothing.
    pub fn store_stats(&self) -> Vec<StoreStats> {
        let stores = &self.levels.stores;
        if stores.on || stores.config.hints() {
            stores.parts.iter().map(|b| b.stats).collect()
        } else {
            Vec::new()
        }
    }

    pub(super) fn buffers(&self, hart: usize) -> &Buffers {
        &self.levels.stores.parts[hart]
    }

    pub(super) fn buffers_mut(&mut self, hart: usize) -> &mut Buffers {
        &mut self.levels.stores.parts[hart]
    }

    /// What is counted for a hart, which may count more.
    pub fn count_stores(&mut self, hart: usize) -> &mut StoreStats {
        &mut self.levels.stores.parts[hart].stats
    }

    /// Whether a hart has a line with the right to store.
    pub(super) fn owns(&self, hart: usize, line: u64) -> bool {
        let cache = &self.l1d[hart];
        let state = cache.find(line).map(|i| cache.entry(i).1);
        matches!(state, Some(LineState::Exclusive | LineState::Dirty))
    }

    /// Whether a store may go straight into the cache: its hart owns the line, and no older store has to become
    /// visible before.
    pub fn stores_directly(&self, hart: usize, line: u64) -> bool {
        let stores = &self.levels.stores;
        let queue = &self.buffers(hart).queue;
        let free = match stores.config.drain {
            Drain::InOrder => queue.is_empty(),
            Drain::Any => queue.iter().all(|e| e.line != line),
        };
        free && (stores.config.entries == 0 || self.owns(hart, line))
    }

    /// Whether a hart has stores to a line in its store buffer.
    pub fn has_stored(&self, hart: usize, line: u64) -> bool {
        self.buffers(hart).queue.iter().any(|e| e.line == line)
    }

    /// What a load of a hart finds.
    pub fn forward(&self, hart: usize, addr: u64, size: u8) -> Forward {
        let mut queue = self.buffers(hart).queue.iter().rev();
        let newest = queue.find(|e| e.line == addr & !63 && e.bytes.overlaps(addr, size));
        match newest {
            None => Forward::Nothing,
            Some(e) => e
                .bytes
                .get(addr, size)
                .map_or(Forward::Partial, Forward::Value),
        }
    }

    /// A store takes an entry, or joins one. False if there is no room.
    pub fn push_store(
        &mut self,
        hart: usize,
        (addr, size, value): (u64, u8, u64),
        now: u64,
        pc: u64,
    ) -> bool {
        let line = addr & !63;
        let config = self.levels.stores.config;
        let b = self.buffers_mut(hart);
        let mut joins = match (config.coalesce, config.drain) {
            (false, _) => None,
            (true, Drain::InOrder) => b.queue.back_mut(),
            (true, Drain::Any) => b.queue.iter_mut().find(|e| e.line == line),
        };
        if let Some(e) = joins.as_mut().filter(|e| e.line == line) {
            e.bytes.set(addr, size, value);
            e.since = now;
            b.stats.coalesced += 1;
            b.stats.buffered += 1;
            return true;
        }
        if b.queue.len() >= config.entries as usize {
            return false;
        }
        let mut bytes = Bytes::default();
        bytes.set(addr, size, value);
        b.stats.buffered += 1;
        b.queue.push_back(Stored {
            line,
            bytes,
            since: now,
            pc,
            asked: false,
        });
        // No filter answers accesses to its set from now on.
        self.levels.begun.push((Side::Data, line));
        self.levels.stores.clock = self.levels.stores.clock.max(now);
        self.request_lines(hart, now, true);
        self.find_due();
        true
    }

    /// The time of the next event in the buffers.
    pub(crate) fn stores_due(&self) -> u64 {
        let harts = 0..self.levels.stores.parts.len();
        harts
            .map(|h| self.stores_due_of(h))
            .min()
            .unwrap_or(u64::MAX)
    }

    fn stores_due_of(&self, hart: usize) -> u64 {
        let (stores, b) = (&self.levels.stores, self.buffers(hart));
        let mut due = u64::MAX;
        if b.queue.is_empty() && b.leaving.is_empty() && b.waits.is_none() {
            return due;
        }
        if let Some(e) = self.writable(hart) {
            due = due.min(e.1);
        }
        if let Some(i) = self.wants_line(hart) {
            let levels = self.levels_before(hart, b.queue[i].line);
            let at = if b.starved {
                self.registers_due(hart, levels, stores.clock)
            } else {
                stores.clock
            };
            due = due.min(at);
        }
        for l in &b.leaving {
            due = due.min(l.comes.unwrap_or(u64::MAX));
        }
        match b.waits {
            Some((Awaits::Register, since)) => {
                due.min(self.registers_due(hart, 0, stores.clock).max(since))
            }
            Some((what, since)) if self.has_come(hart, what) => due.min(stores.clock.max(since)),
            _ => due,
        }
    }

    /// The number of outer levels that a request of a hart for a line passes: those before the one that has it. It
    /// passes none if the hart's data cache has the line, and the request only takes it from others.
    fn levels_before(&self, hart: usize, line: u64) -> usize {
        if self.l1d[hart].find(line).is_some() {
            return 0;
        }
        let levels = &self.levels.levels;
        let has = |l: &Level| l.caches[l.of(hart)].find(line).is_some();
        levels.iter().position(has).unwrap_or(levels.len())
    }

    /// The entry to write to the cache next, if its line is owned, and the cycle from which that may happen.
    fn writable(&self, hart: usize) -> Option<(usize, u64)> {
        let b = self.buffers(hart);
        let most = match self.levels.stores.config.drain {
            Drain::InOrder => 1,
            Drain::Any => b.queue.len(),
        };
        let mut found: Option<(usize, u64)> = None;
        for (i, e) in b.queue.iter().take(most).enumerate() {
            let older = || b.queue.iter().take(i).any(|o| o.line == e.line);
            let from = (e.since + 1).max(b.free_from);
            if found.is_none_or(|f| from < f.1) && self.owns(hart, e.line) && !older() {
                found = Some((i, from));
            }
        }
        found
    }

    /// The next entry that has to request its line.
    fn wants_line(&self, hart: usize) -> Option<usize> {
        let again = |i: usize| i == 0 || self.levels.stores.config.drain == Drain::Any;
        let filling = |line: u64| self.levels.has_first && self.fills_line(hart, line);
        let mut queue = self.buffers(hart).queue.iter().enumerate();
        let found = queue.find(|(i, e)| {
            !filling(e.line)
                && (!e.asked || again(*i))
                && !self.owns(hart, e.line)
                && !self.is_coming(hart, e.line)
        });
        found.map(|(i, _)| i)
    }

    /// Whether a line is on its way to a hart's data cache.
    fn is_coming(&self, hart: usize, line: u64) -> bool {
        let mut all = self.levels.ahead.under_way.iter();
        all.any(|p| {
            p.first == Some(Side::Data)
                && p.hart as usize == hart
                && p.line == line
                && !p.void
                && p.own
        })
    }

    /// Lets what is due in the buffers take effect. Returns a hart that it concerns.
    pub(crate) fn step_stores(&mut self, now: u64) -> usize {
        let mut concerned = 0;
        for hart in 0..self.levels.stores.parts.len() {
            if self.stores_due_of(hart) > now {
                continue;
            }
            concerned = hart;
            let b = self.buffers_mut(hart);
            b.starved = false;
            b.leaving.retain(|l| l.comes.is_none_or(|c| c > now));
            if let Some((i, from)) = self.writable(hart) {
                if from <= now {
                    self.write_entry(hart, i, now);
                }
            }
            self.request_lines(hart, now, false);
            self.end_wait(hart, now);
        }
        concerned
    }

    /// Writes an entry to the cache: from now on it is visible to all.
    fn write_entry(&mut self, hart: usize, i: usize, now: u64) {
        let interval = u64::from(self.levels.stores.config.interval);
        let b = self.buffers_mut(hart);
        b.free_from = now + interval;
        let Some(e) = b.queue.remove(i) else { return };
        b.stats.drained += 1;
        let cache = &mut self.l1d[hart];
        let Some(entry) = cache.find(e.line) else {
            return;
        };
        let dirties = cache.entry(entry).1 != LineState::Dirty;
        cache.set(entry, e.line, LineState::Dirty);
        cache.touch(entry);
        self.levels.stores.deeds.push_back(Deed::Write {
            hart,
            line: e.line,
            bytes: e.bytes,
            dirties,
        });
    }

    /// Requests the lines that entries lack, as long as registers are free. Prefetchers learn of what the running
    /// hart requests (`runs`).
    fn request_lines(&mut self, hart: usize, now: u64, runs: bool) {
        while let Some(i) = self.wants_line(hart) {
            let (line, pc) = {
                let e = &self.buffers(hart).queue[i];
                (e.line, e.pc)
            };
            if !self.request_line(hart, line, now, (pc, runs)) {
                self.buffers_mut(hart).starved = true;
                self.spare_register(hart, now);
                return;
            }
            let b = self.buffers_mut(hart);
            b.queue[i].asked = true;
            b.stats.requested += 1;
        }
    }

    /// Requests a line with the right to store. False if a register is missing.
    fn request_line(&mut self, hart: usize, line: u64, now: u64, (pc, runs): (u64, bool)) -> bool {
        let mut all = self.levels.ahead.under_way.iter_mut();
        let mine = |p: &&mut UnderWay| {
            p.first == Some(Side::Data) && p.hart as usize == hart && p.line == line && !p.void
        };
        if let Some(p) = all.find(mine) {
            // A prefetch, or a load that waits: it brings the line with this right.
            p.own = true;
            return true;
        }
        let n = self.levels.levels.len();
        let held = self.l1d[hart].find(line).is_some();
        let passed = self.levels_before(hart, line);
        let (_, modified) = self.holders(hart, line);
        let mut source = if held { n } else { passed };
        if !self.take_registers(hart, passed) {
            return false;
        }
        self.leave_buffers(line, Some(hart), Why::Store, now);
        let mut later = 0;
        if let Some(from) = modified {
            let by = if runs { hart } else { NOBODY };
            match self.hand_over((hart, by), from, line, now) {
                Some(cycles) => later = u64::from(cycles),
                None => self.write_out(line),
            }
            self.moved(line, hart, now);
            let has = |j: &usize| {
                let level = &self.levels.levels[*j];
                level.caches[level.of(hart)].find(line).is_some()
            };
            source = (0..n).find(has).unwrap_or(n);
        }
        self.levels.now = now;
        let looked_up = if held { 0 } else { n.min(source + 1) };
        let want = Want {
            hart,
            line,
            kind: LineKind::Store,
            pc,
            now,
            blocks: true,
            hint: None,
        };
        if runs && !held {
            self.learn_first(&want);
        }
        for j in 0..looked_up {
            let level = &mut self.levels.levels[j];
            let of = level.of(hart);
            let hit = level.caches[of].find(line);
            level.stats.hits += u64::from(hit.is_some());
            level.stats.misses += u64::from(hit.is_none());
            if let Some(i) = hit {
                level.caches[of].touch(i);
            }
            if runs && self.levels.levels[j].prefetches() {
                self.learn(j, &want, hit.is_some());
            }
        }
        // The registers that it has taken are those up to the source as it was then.
        let token = self.begin_owned(hart, pc, line, passed);
        let at_level = source < n || held && n > 0;
        if at_level {
            let level = if held { n - 1 } else { source };
            self.line_came(token, now + later + u64::from(self.level_latency(level)));
        } else {
            let cycle = now + later + u64::from(self.last_latency());
            self.levels.stores.deeds.push_back(Deed::Fetch(Sent {
                hart,
                pc,
                line,
                cycle,
                token,
            }));
        }
        true
    }

    /// The line of an entry arrives: its hart takes it from all others.
    pub(crate) fn put_owned(&mut self, p: &UnderWay, now: u64) {
        let (hart, line) = (p.hart as usize, p.line);
        self.leave_buffers(line, Some(hart), Why::Probe, now);
        let (others, modified) = self.holders(hart, line);
        if let Some(from) = modified {
            // Another hart was faster.
            if self.hand_over((hart, NOBODY), from, line, now).is_none() {
                self.write_out(line);
            }
        }
        if others {
            self.probe(hart, line, true);
            self.moved(line, hart, now);
        }
        self.void_prefetches(line, hart);
        if let Some(i) = self.l1d[hart].find(line) {
            if self.l1d[hart].entry(i).1 == LineState::Shared {
                self.l1d[hart].set(i, line, LineState::Exclusive);
            }
            return;
        }
        let Some(entry) = self.make_room(Side::Data, hart, line) else {
            // The only entry of the set is another line's; it is requested again.
            return;
        };
        let mut state = LineState::Exclusive;
        let n = self.levels.levels.len();
        let has = |j: &usize| {
            let l = &self.levels.levels[*j];
            l.caches[l.of(hart)].find(line).is_some()
        };
        let found = (0..n).find(has);
        let mut source = found.unwrap_or(p.source as usize);
        if let Some(k) = found.filter(|k| self.wants_clean_at(*k)) {
            if self.move_up(k, hart, line) {
                state = LineState::Dirty;
            }
            source = k;
        }
        self.pass(0, source, (hart, NOBODY), line);
        self.l1d.put(hart, entry, line, state);
        self.l1d[hart].filled(entry);
    }

    /// Whether what a hart waits for has come.
    pub fn has_come(&self, hart: usize, what: Awaits) -> bool {
        let b = self.buffers(hart);
        match what {
            Awaits::All => b.queue.is_empty() && b.combining.is_empty() && b.leaving.is_empty(),
            Awaits::Queue => b.queue.is_empty(),
            Awaits::Line(l) => {
                b.queue.iter().all(|e| e.line != l)
                    && b.combining.iter().all(|e| e.line != l)
                    && b.leaving.iter().all(|e| e.line != l)
            }
            Awaits::Room => b.queue.len() < self.levels.stores.config.entries as usize,
            Awaits::Register => self.has_register(hart, self.levels.stores.clock),
        }
    }

    fn end_wait(&mut self, hart: usize, now: u64) {
        let Some((what, since)) = self.buffers(hart).waits else {
            return;
        };
        if self.has_come(hart, what) {
            self.buffers_mut(hart).waits = None;
            let from = now.max(since);
            self.count_wait(hart, what, from - since);
            self.levels.ahead.wake(hart, from);
        }
    }

    /// Counts the cycles of a wait.
    pub(super) fn count_wait(&mut self, hart: usize, what: Awaits, cycles: u64) {
        let s = self.count_stores(hart);
        match what {
            Awaits::Room => s.room_wait_cycles += cycles,
            Awaits::Register => s.lfb_wait_cycles += cycles,
            Awaits::All | Awaits::Line(_) | Awaits::Queue => s.drain_wait_cycles += cycles,
        }
    }

    /// A hart begins to wait for something that has not come. It is blocked until then, if harts can be.
    pub fn begin_wait(&mut self, hart: usize, what: Awaits, now: u64) {
        let s = self.count_stores(hart);
        match what {
            Awaits::Room => s.room_waits += 1,
            Awaits::Register => s.lfb_waits += 1,
            Awaits::All | Awaits::Line(_) | Awaits::Queue => s.drain_waits += 1,
        }
        let b = self.buffers_mut(hart);
        b.waits = Some((what, now));
        self.levels.stores.clock = self.levels.stores.clock.max(now);
    }

    /// Ends a wait that is over, of a hart that is never blocked.
    pub fn wait_is_over(&mut self, hart: usize, now: u64) {
        if let Some((what, since)) = self.buffers_mut(hart).waits.take() {
            self.count_wait(hart, what, now.saturating_sub(since));
        }
    }

    /// In which order stores leave the store buffer.
    pub fn drains(&self) -> Drain {
        self.levels.stores.config.drain
    }

    /// Whether stores become visible in program order anyhow.
    pub fn keeps_store_order(&self) -> bool {
        let c = &self.levels.stores.config;
        !c.combines() && (c.entries == 0 || c.drain == Drain::InOrder)
    }

    /// Core cycles that a load takes in addition that gets its bytes from the store buffer.
    pub fn forward_cycles(&self) -> u64 {
        self.levels.stores.config.forward.into()
    }

    /// Whether a hart's store buffer has one entry, so that it was empty before that.
    pub fn has_begun_storing(&self, hart: usize) -> bool {
        self.buffers(hart).queue.len() == 1
    }

    /// Whether a hart's store buffer is empty.
    pub fn is_drained(&self, hart: usize) -> bool {
        self.buffers(hart).queue.is_empty()
    }

    /// What a hint does.
    pub fn hint(&self, number: u8) -> crate::config::HintConfig {
        self.levels.stores.hint(number)
    }

    /// What becomes of cached copies of lines that are combined.
    pub fn keeps_copies(&self) -> crate::config::Cached {
        self.levels.stores.config.cached
    }

    /// What has to be done outside of the caches next.
    pub fn next_deed(&mut self) -> Option<Deed> {
        self.levels.stores.deeds.pop_front()
    }

    /// A modified line goes to memory, and nobody waits for it.
    fn write_out(&mut self, line: u64) {
        self.levels.to_memory.push((line, None));
    }
}
