//! The light timed mode: a miss costs what is charged at once, and the rest is added at the end of an
//! epoch.
//!
//! The instructions, caches and TLBs are those of the detailed mode, but no transfer waits: the world
//! answers each at once with a fixed time and counts it. When an epoch ends, the world says how much
//! longer memory would have taken ([`MemPort::epoch_ends`](crate::world::MemPort::epoch_ends)), and
//! the hart's time moves on by that. An epoch ends when it is full, and before the hart does something
//! that others may wait for: otherwise they would see it before the time at which it happens.
//!
//! Misses on lines that no other hart has are not ordered among harts within a window. Atomics,
//! accesses to shared and contended lines, and device accesses are, as in the detailed mode.

use crate::filter::NO_LINE;
use crate::hart::Hart;
use crate::lines::LineState;
use crate::mode::{Detailed, Wanted};
use crate::pipeline::pending_after;
use crate::pmp::Access;
use crate::run::RunPoint;
use crate::tlb::NO_WAY;
use crate::trap::NotNow;
use crate::world::{Epoch, EpochEnd, LineKind, Sample, World};

impl Hart {
    /// Turns the light mode on (`light`), with the end of the first epoch, or off. Without it,
    /// epochs are ended when they are full, and nothing else changes.
    pub fn set_light(&mut self, light: bool, epoch_at: u64) {
        self.light = light;
        self.epoch_at = epoch_at;
        self.recheck = true;
    }

    /// Simulates only so much from now on.
    pub fn sample(&mut self, sample: Sample) {
        self.sample = sample;
        self.stretches.set_whole(sample.whole_time);
        self.resample_at = u64::MAX;
        self.data.drop_unsampled();
    }

    /// Takes the sample that the hart of a snapshot has taken, unless it was about to take it.
    pub fn keep_sample(&mut self, sample: Sample) {
        if self.resample_at == u64::MAX {
            self.sample = sample;
        }
    }

    /// Another sample is taken, between two blocks.
    #[cold]
    pub(crate) fn resample<W: World>(&mut self, w: &mut W) {
        self.sample(w.sample_of(self.id));
    }

    /// Whether a line of data passes the caches by.
    #[inline(always)]
    pub(crate) fn skips(&self, line: u64) -> bool {
        !self.sample.has(line)
    }

    /// For how many lines a transfer stands.
    #[inline(always)]
    pub(crate) fn stands_for(&self, kind: LineKind) -> u64 {
        match kind.is_sampled() {
            true => self.sample.weight.into(),
            false => 1,
        }
    }

    /// Whether misses are estimated by epochs.
    pub fn is_light(&self) -> bool {
        self.light
    }

    /// An epoch is full, between two blocks.
    #[cold]
    pub(crate) fn end_epoch<W: World>(&mut self, w: &mut W) {
        let more = self.pass_epoch(w, EpochEnd::Full, 0);
        if more > 0 && self.resume.is_none() {
            self.pending = pending_after(self.pending, more);
        }
    }

    /// Ends the epoch within a block, in the light mode, before the instruction that is at `at`.
    /// Returns whether the hart's time has moved on.
    #[inline(always)]
    pub(crate) fn close_epoch<W: World>(&mut self, w: &mut W, why: EpochEnd, at: RunPoint) -> bool {
        self.light && self.pass_epoch(w, why, at.offset()) > 0
    }

    /// An epoch is over, cycles behind the start of the block. The cycles by which the hart's time has moved on.
    #[cold]
    fn pass_epoch<W: World>(&mut self, w: &mut W, why: EpochEnd, offset: u64) -> u64 {
        let (more, next) = w.epoch_ends(&Epoch {
            hart: self.id,
            cycle: self.cycle + offset,
            instret: self.instret,
            waited: self.stats.memory_stall_cycles,
            idle: self.stats.idle_cycles,
            why,
        });
        self.cycle += more;
        self.stats.memory_stall_cycles += more;
        self.epoch_at = next;
        if w.sample_of(self.id) != self.sample {
            self.resample_at = 0;
            self.recheck = true;
        }
        more
    }

    /// Before an atomic or a fence in the light mode. A fence waits for nobody, unless time has moved
    /// on by its epoch's end.
    #[cold]
    pub(crate) fn synchronizes<W: World>(
        &mut self,
        w: &mut W,
        why: EpochEnd,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let moved = self.close_epoch(w, why, at);
        match why == EpochEnd::Fence && !moved {
            true => Ok(()),
            false => self.meets(w, at),
        }
    }

    /// The hart waits until no other one is behind, and until its lines have waited for those of others.
    pub(crate) fn meets<W: World>(&mut self, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        loop {
            self.in_turn(at)?;
            match w.meets(self.id, self.cycle + at.offset()) {
                0 => return Ok(()),
                more => {
                    self.cycle += more;
                    self.stats.memory_stall_cycles += more;
                }
            }
        }
    }

    /// A transfer has ended: if its epoch is full with it, the epoch ends with the block.
    #[inline(always)]
    pub(crate) fn look_at_epoch<W: World>(&mut self, w: &mut W, at: RunPoint) {
        if self.light && w.epoch_is_full(self.id, self.cycle + at.offset()) {
            self.epoch_at = 0;
            self.recheck = true;
        }
    }

    /// Before a miss in the light mode: lines that another hart has, in a cache or a line fill buffer, are fetched in the
    /// order of time, one hart at a time, and the epoch ends before.
    pub(crate) fn share_in_turn<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if w.coherence().keeps_order() {
            self.catch_up(w, at);
        }
        let c = w.coherence();
        let others = c.l1d.len() > 1
            && (c.holders(self.id, line).0 || c.is_combined_elsewhere(self.id, line));
        if !others {
            c.contention.gives_up(self.id);
            return Ok(());
        }
        self.close_epoch(w, EpochEnd::Shared, at);
        // As in the detailed mode, one hart at a time fetches a line, in the order in which they came.
        loop {
            self.meets(w, at)?;
            let now = self.cycle + at.offset();
            let turn = w.coherence().contention.turn_of(line, self.id, now);
            if turn == now {
                return Ok(());
            }
            self.cycle += turn - now;
            self.stats.memory_stall_cycles += turn - now;
        }
    }

    /// A hart waits for its turn to fetch a line. Returns whether it goes on, with the instruction that wants the line: it uses
    /// the line before another hart takes it away.
    pub(crate) fn waits_lightly<W: World>(
        &mut self,
        w: &mut W,
        (line, kind): (u64, LineKind),
    ) -> bool {
        let (id, now) = (self.id, self.cycle);
        let c = w.coherence();
        let shared = kind != LineKind::Fetch && c.l1d.len() > 1 && c.holders(id, line).0;
        if shared && now < self.yield_at {
            let turn = c.contention.may_fetch(line, id, now);
            if turn > now {
                self.cycle = turn;
                self.stats.memory_stall_cycles += turn - now;
                if self.resume.is_none() {
                    self.pending = pending_after(self.pending, turn - now);
                }
                return false;
            }
        }
        self.fill = None;
        true
    }

    /// A line was fetched that another hart had, in the light mode: what that has cost is waited for at once, and others
    /// wait for it if memory was asked. Outer cache levels answer several harts at a time.
    #[cold]
    pub(crate) fn shared<W: World>(&mut self, w: &mut W, line: u64, at: RunPoint) {
        self.close_epoch(w, EpochEnd::Handed, at);
        if self.asked {
            let until = self.cycle + at.offset();
            w.coherence().contention.fetched(line, until);
        }
    }

    /// The hart finds a line unchanged that harts take from one another: it may look at it again and again.
    pub(crate) fn looks_again<W: World>(&mut self, w: &mut W, line: u64, at: RunPoint) {
        let now = self.cycle + at.offset();
        w.spins(self.id, now);
        self.cycle += self.spin.looks((line, at.pc), now);
    }

    /// The hart finds that it does not have a line (any more).
    #[inline(always)]
    pub(crate) fn finds_changed<W: World>(&mut self, w: &mut W, line: u64, at: RunPoint) {
        if self.spin.is_at(line) {
            let now = self.cycle + at.offset();
            let free = w.coherence().contention.free_since(line).unwrap_or(now);
            let late = self.spin.changed(line, free, now);
            w.was_late(self.id, late);
        }
    }

    /// Brings a line into L1D in the light mode that no other hart has, where memory is behind L1 and nothing is fetched
    /// ahead: what `l1d_fill` does then, without what only others need. `None` if another hart has the line.
    #[inline]
    pub(crate) fn fill_lightly<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Option<Result<usize, NotNow>> {
        w.ram().prefetch(line.wrapping_sub(w.ram_base()));
        let c = w.coherence();
        if c.l1d.elsewhere(line, self.id) {
            return None;
        }
        Some(self.fill_alone(w, line, kind, at))
    }

    /// The same once it is known that no other hart has the line.
    #[inline(always)]
    fn fill_alone<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let (id, weight) = (self.id, self.stands_for(kind));
        match kind {
            LineKind::Store => self.stats.l1d_store_misses += weight,
            LineKind::PageWalk => self.stats.l1d_walk_misses += weight,
            _ => self.stats.l1d_load_misses += weight,
        }
        let c = w.coherence();
        let i = c.l1d[id].victim(line);
        let (old, state) = c.l1d[id].entry(i);
        self.drop_entry(w, i);
        let t = &self.config.timing;
        let (penalty, later) = (
            (t.l1d_miss + t.hub).saturating_sub(t.load_latency) * self.sample.weight,
            t.release_offset,
        );
        let asked = self.cycle + at.offset();
        if state == LineState::Dirty {
            self.stats.l1d_writebacks += weight;
            self.write_line(w, old, LineKind::Evict, later, at)?;
        }
        self.read_line(w, line, kind, (0, penalty), at)?;
        let state = match kind {
            LineKind::Store => {
                self.dirtied(w, line);
                LineState::Dirty
            }
            _ => LineState::Exclusive,
        };
        let c = w.coherence();
        c.l1d.put(id, i, line, state);
        c.l1d[id].filled(i);
        if c.contention.is(line, asked) {
            c.keep_off_filters(id, line);
            self.data.release(&mut c.l1d[id], i);
        }
        Ok(i)
    }

    /// A load or store that the filter did not let pass, in the light mode, where nothing is special about it: the page
    /// is in the DTLB, and no other hart has the line or takes part in it. What [`Mode::resolve`](crate::mode::Mode) does
    /// then, in one pass. The offset in memory; `None` if nothing was done, and the access goes the ordinary way.
    #[inline(always)]
    pub(crate) fn miss_lightly<W: World>(
        &mut self,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Option<u64> {
        let Wanted { va, size, access } = want;
        let special = W::COMMITS || W::ACCESSES || W::PARALLEL || !self.light;
        if special || va & (u64::from(size) - 1) != 0 || self.triggers.watches(va & !63, 64) {
            return None;
        }
        let write = access == Access::Write;
        let p = self.data_privilege();
        let (pa, way) = match self.translates(p) {
            false => (va, NO_WAY),
            true => {
                let hit = self.dtlb.lookup(va << 25 >> 37, self.csr.asid())?;
                if (va as i64) << 25 >> 25 != va as i64 || !self.permits(hit.pte, access, p) {
                    return None;
                }
                (Self::page_address(hit.level, hit.pte, va), hit.way)
            }
        };
        let offset = pa.wrapping_sub(w.ram_base());
        let ram = w.ram();
        if offset >= ram.len() || write && ram.is_read_only(offset) {
            return None;
        }
        ram.prefetch(offset);
        if !self.pmp.permits(pa, size.into(), access, p as u8) {
            return None;
        }
        let (id, line) = (self.id, pa & !63);
        let c = w.coherence();
        let skips = self.skips(line);
        let busy = self.arrived.is_some() || self.is_hinted(at.pc) || !skips && !c.is_plain();
        if busy || c.contention.is(line, self.cycle + at.offset()) {
            return None;
        }
        if skips {
            if way != NO_WAY {
                self.dtlb.touch(way);
                self.last_way = way;
            }
            if write {
                self.store_side_effects(w, pa);
            }
            self.install::<W, Detailed>(w, want, pa, (NO_LINE.into(), way), at);
            self.replays = 0;
            return Some(offset);
        }
        let present = c.l1d[id].find(line);
        match present.map(|i| c.l1d[id].entry(i).1) {
            Some(LineState::Shared) if write => return None,
            None if c.l1d.elsewhere(line, id) => return None,
            _ => {}
        }
        // From here on it happens.
        if way != NO_WAY {
            self.dtlb.touch(way);
            self.last_way = way;
        }
        self.data.settle(&mut c.l1d[id], line);
        let index = match present {
            Some(i) => {
                c.l1d[id].touch(i);
                if write && c.l1d[id].entry(i).1 == LineState::Exclusive {
                    c.l1d[id].set(i, line, LineState::Dirty);
                    self.dirtied(w, line);
                }
                i
            }
            None => {
                let kind = match write {
                    true => LineKind::Store,
                    false => LineKind::Load,
                };
                // The light mode answers at once.
                self.fill_alone(w, line, kind, at).ok()?
            }
        };
        if write {
            self.store_side_effects(w, pa);
        }
        self.install::<W, Detailed>(w, want, pa, (index, way), at);
        self.replays = 0;
        Some(offset)
    }
}
