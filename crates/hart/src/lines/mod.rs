//! Everything that happens to a cache line: fills, upgrades, evictions, flushes, probes, who waits
//! for them, and in which order they reach the bus.
//!
//! Actions that other harts can observe happen only while no other hart is behind ([`Hart::bus_free`]); if one is, the
//! answer is [`NotNow`], and the instruction is executed again later. If memory does not answer at once, the answer is
//! [`NotNow`], too: the hart is blocked, and executes the instruction again when the line has arrived
//! ([`Hart::arrive`]). Transfers that are complete are not repeated.

mod asking;
mod buffers;
mod guards;
mod loads;
mod plain;
mod stores;

use crate::again::LINE_AGAIN;
use crate::commit::LineRequest;
use crate::filter::NEVER;
use crate::halfway::Awaited;
use crate::hart::Hart;
use crate::pending::pending_after;
use crate::place::RunPoint;
use crate::trap::NotNow;
use crate::world::{Stall, Transfer, World};
use nagori_cache::LineKind;
pub use nagori_cache::{
    standalone, Access, Bytes, CacheCounts, Caches, Coherence, FirstStats, HartCounts, LevelStats,
    Lfsr, LineState, MemoryCounts, Notice, Prefetch, SavedCoherence, SavedError, Settled, Side,
    StoreStats, Tags, NO_SLOT, SLOTS,
};
pub(crate) use nagori_cache::{Awaits, Deed, Forward, From, Met, Sent, Want, Why, NOBODY};
pub use stores::{carry_out, Carried};
pub(crate) use stores::{fence, orders_stores};

/// What other harts have of a line.
#[derive(Clone, Copy, Default)]
struct Others {
    /// Some have it.
    there: bool,
    /// One had it dirty, and it has been passed to a level of the running hart. The rest of the
    /// request follows without waiting: otherwise other harts could take the line again and again.
    handed_over: bool,
}

impl Hart {
    /// Whether an action that other harts can observe may happen now; otherwise the instruction has
    /// to be tried again.
    #[inline(always)]
    pub(crate) fn bus_free(&self, at: RunPoint) -> Result<(), NotNow> {
        if self.state.cycle + at.offset() < self.run.yield_at {
            Ok(())
        } else {
            Err(NotNow)
        }
    }

    /// The hart's time moves on before an instruction by which others learn of its progress.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over<W: World>(&mut self, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        self.bus_free(at)?;
        self.state.cycle += w.hands_over(self, at.offset());
        self.bus_free(at)
    }

    /// Reads a line from memory, `later` cycles from now, and advances the hart's time to its first
    /// beat plus `penalty` cycles.
    #[inline(always)]
    pub(crate) fn read_line<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        (later, penalty): (u32, u32),
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if self.take_arrived(line) {
            return Ok(());
        }
        let req = self.line_request(at, later as u64, line, kind);
        self.transfer(w, &req, false, penalty, at)
    }

    /// Whether the line for which the hart was blocked has arrived. Forgets it then.
    #[inline(always)]
    pub(crate) fn take_arrived(&mut self, line: u64) -> bool {
        let arrived = self.state.halfway.arrived == Some(line);
        if arrived {
            self.state.halfway.arrived = None;
        }
        arrived
    }

    #[inline(always)]
    fn transfer<Wd: World>(
        &mut self,
        w: &mut Wd,
        req: &LineRequest,
        write: bool,
        penalty: u32,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        match w.transfer(req, write) {
            Transfer::Done(first) => {
                self.came(w, req, (first, write), penalty, at);
                Ok(())
            }
            Transfer::UnderWay => {
                self.state.halfway.awaited = Some(Awaited {
                    line: req.line,
                    kind: req.kind,
                    write,
                    other: false,
                    penalty,
                });
                Err(NotNow)
            }
        }
    }

    /// What the hart has waited for arrives at a cycle. Advances the hart's time to it.
    #[inline(always)]
    fn came<Wd: World>(
        &mut self,
        w: &mut Wd,
        req: &LineRequest,
        (first, write): (u64, bool),
        penalty: u32,
        at: RunPoint,
    ) {
        let start = self.state.cycle;
        self.state.cycle = (first + penalty as u64)
            .saturating_sub(at.offset())
            .max(start);
        self.stalls(req.kind, self.state.cycle - start);
        if w.attributes() {
            self.attribute(w, req, start, write);
        }
    }

    /// The hart has waited for a line.
    #[inline(always)]
    pub(crate) fn stalls(&mut self, kind: LineKind, cycles: u64) {
        self.state.stats.memory_stall_cycles += cycles;
        // With line fill buffers, a load that is under way is counted when its line has come.
        self.state.stats.load_stall_cycles += match kind {
            LineKind::Load if !self.has_buffers() => cycles,
            _ => 0,
        };
    }

    /// The cycle from which on the hart's last run was to perform no action that others can
    /// observe.
    pub fn bus_limit(&self) -> u64 {
        self.run.yield_at
    }

    /// Whether the hart is blocked: it waits for a line, and does not run before
    /// [`Hart::arrive`].
    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.state.halfway.awaited.is_some()
    }

    /// What the hart is blocked for arrives at a core cycle: the first beat of a line, or the
    /// acknowledgement of a write-back. Advances its time to that cycle; the instruction is
    /// executed again.
    pub fn arrive<Wd: World>(&mut self, w: &mut Wd, cycle: u64) {
        let Some(a) = self.state.halfway.awaited.take() else {
            return;
        };
        let start = self.state.cycle;
        self.state.cycle = (cycle + a.penalty as u64).max(start);
        let waited = self.state.cycle - start;
        if self.state.halfway.resume.is_none() {
            self.state.pending = pending_after(self.state.pending, waited);
        }
        self.stalls(a.kind, waited);
        if !a.write && !a.other {
            self.state.halfway.arrived = Some(a.line);
            w.coherence().miss_ends(self.id, cycle);
        }
        if !w.attributes() {
            return;
        }
        if a.other {
            // It belongs to the transfer that follows.
            self.run.waited += waited;
        } else {
            let at = RunPoint::begin(self.state.pc);
            let req = self.line_request(at, 0, a.line, a.kind);
            self.attribute(w, &req, start, a.write);
        }
    }

    /// The instruction that was to be executed again is replaced by another one.
    pub(crate) fn abandon_fill<Wd: World>(&mut self, w: &mut Wd, at: RunPoint) {
        self.state.halfway.arrived = None;
        self.state.halfway.cleaned = None;
        self.state.halfway.fill = None;
        self.loads.filling = false;
        self.state.predictor.gives_up();
        let now = self.state.cycle + at.offset();
        let c = w.coherence();
        c.miss_ends(self.id, now);
        c.filled_first(self.id);
        self.end_fill(w, at);
    }

    /// The hart has its line. A hart that has waited for it is unblocked, and may be behind this
    /// one from now on.
    #[inline(always)]
    fn end_fill<Wd: World>(&mut self, w: &mut Wd, at: RunPoint) {
        let now = self.state.cycle + at.offset();
        if let Some(next) = w.end_fill(self.id, now) {
            let before = now + u64::from(self.id < next);
            self.run.yield_at = self.run.yield_at.min(before);
        }
    }

    /// Tells who has waited since `start`.
    #[cold]
    #[inline(never)]
    pub(crate) fn attribute<Wd: World>(
        &mut self,
        w: &mut Wd,
        req: &LineRequest,
        start: u64,
        write: bool,
    ) {
        w.stalled(&Stall {
            cycles: self.state.cycle - start + std::mem::take(&mut self.run.waited),
            write,
            line: req.line,
            kind: req.kind,
            hart: req.hart,
            pc: req.pc,
            privilege: req.privilege,
            satp: self.state.csr.satp,
            ra: self.state.x[1],
            fp: self.state.x[8],
        });
    }

    /// Writes a line back, `later` cycles from now; the hart waits for the acknowledgement. The
    /// caches have it marked clean already, so that it is not written back again when the
    /// instruction is tried again.
    pub(crate) fn write_line<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        later: u32,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let req = self.line_request(at, later.into(), line, kind);
        self.commit_write_back(w, &req);
        self.transfer(w, &req, true, 0, at)
    }

    /// Whether a line is one that harts take from one another, so that every access to it
    /// happens in the order of time.
    #[inline(always)]
    pub(crate) fn contended<Wd: World>(&self, w: &mut Wd, line: u64, at: RunPoint) -> bool {
        w.coherence()
            .is_contended(line, self.state.cycle + at.offset())
    }

    /// Brings a line into L1D (if it is not there with the needed right); the hart's time advances
    /// by the cost. Returns the index of the line.
    ///
    /// A miss consists of up to three transfers. Each happens only while no other hart is behind;
    /// completed transfers are not repeated when the instruction is tried again. A hit on a
    /// contended line, too, happens only while no other hart is behind. `PLAIN` is as for
    /// [`Timed`](crate::mode::Blocking).
    #[inline(always)]
    pub(crate) fn l1d_touch<Wd: World, const PLAIN: bool>(
        &mut self,
        w: &mut Wd,
        pa: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let line = pa & !63;
        let write = kind == LineKind::Store;
        if !PLAIN && self.state.halfway.arrived != Some(line) {
            self.in_order(w, Side::Data, line, at)?;
        }
        let cache = &mut w.coherence().l1d[self.id];
        self.data.settle(cache, line);
        let present = cache.find(line);
        if let Some(i) = present {
            let waited = !PLAIN && write && self.state.halfway.arrived == Some(line);
            if waited && cache.entry(i).1 != LineState::Dirty {
                self.regain(w, i, line, at)?;
            }
            if self.take_arrived(line) {
                if !PLAIN && self.loads.may && kind == LineKind::Load {
                    self.note_late(line, at);
                }
                return Ok(i);
            }
            if self.contended(w, line, at) {
                self.bus_free(at)?;
            }
            if !PLAIN {
                self.uses_line(w, line, kind, at)?;
                self.meet_line(w, (line, kind), at)?;
            }
            let hinted = !PLAIN && self.is_hinted(at.pc);
            let cache = &mut w.coherence().l1d[self.id];
            if !hinted {
                cache.touch(i);
            }
            match cache.entry(i).1 {
                LineState::Dirty => return Ok(i),
                LineState::Exclusive if write => {
                    cache.set(i, line, LineState::Dirty);
                    if !PLAIN {
                        self.dirtied(w, line);
                    }
                    return Ok(i);
                }
                LineState::Shared if write => {}
                _ => return Ok(i),
            }
        }
        if PLAIN {
            return self.fill_plain(w, line, kind, present, at);
        }
        // A walk for the load is none.
        let ahead = self.loads.may && kind == LineKind::Load && present.is_none();
        let filled = self.l1d_fill(w, line, (kind, ahead), present, at);
        self.state.halfway.fill = filled.is_err().then_some((line, kind));
        self.loads.filling = ahead && filled.is_err();
        if ahead && filled.is_ok() {
            self.note_late(line, at);
        }
        filled
    }

    /// The line of a store has arrived with the right to store, and another hart has read it since. It is not asked for
    /// again, so that stores of harts that contend for a line come to their end.
    #[cold]
    fn regain<Wd: World>(
        &mut self,
        w: &mut Wd,
        index: usize,
        line: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        self.bus_free(at)?;
        let (id, now) = (self.id, self.state.cycle + at.offset());
        self.dirtied(w, line);
        let c = w.coherence();
        if c.some_holders(id, line).is_some() {
            c.probe(id, line, true);
            c.moved(line, id, now);
        }
        c.l1d[id].set(index, line, LineState::Dirty);
        c.void_prefetches(line, id);
        Ok(())
    }

    /// Continues a fill that had to wait. Returns whether it is complete; if not, the hart has to
    /// wait again, and does not run. `bus_limit` is as for [`Hart::run_ahead`].
    pub fn go_on_filling<Wd: World>(&mut self, w: &mut Wd, bus_limit: u64) -> bool {
        let Some((line, kind)) = self.state.halfway.fill else {
            return true;
        };
        self.run.yield_at = bus_limit;
        let at = RunPoint::begin(self.state.pc);
        if !w.coherence().has_begun(self.id, Side::of(kind), line) {
            // A prefetch may have brought the line: the instruction looks it up again.
            self.state.halfway.fill = None;
            return true;
        }
        let start = self.state.cycle;
        let done = if kind == LineKind::Fetch {
            let present = w.coherence().l1i[self.id].find(line).is_some();
            present || self.l1i_fill(w, line, at).is_ok()
        } else {
            let present = w.coherence().l1d[self.id].find(line);
            if self.config.plain {
                self.fill_plain(w, line, kind, present, at).is_ok()
            } else {
                let ahead = self.loads.filling && present.is_none();
                self.l1d_fill(w, line, (kind, ahead), present, at).is_ok()
            }
        };
        if self.state.halfway.resume.is_none() {
            self.state.pending = pending_after(self.state.pending, self.state.cycle - start);
        }
        if done {
            self.state.halfway.fill = None;
            self.loads.filling = false;
            self.state.halfway.arrived = Some(line);
        }
        done
    }

    /// Whether a fill has begun that had to wait.
    #[inline(always)]
    pub fn fills(&self) -> bool {
        self.state.halfway.fill.is_some()
    }

    /// Brings a line into L1D that is missing, or present without the needed right; `ahead`: for a load, for which the
    /// hart does not wait.
    #[inline(never)]
    fn l1d_fill<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        (kind, ahead): (LineKind, bool),
        present: Option<usize>,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        w.ram().prefetch(line.wrapping_sub(w.ram_base()));
        let id = self.id;
        self.bus_free(at)?;
        w.coherence().filling(Side::Data, id, line);
        if !w.begin_fill(id, line) {
            return self.await_other(line, kind);
        }
        let write = kind == LineKind::Store;
        if w.coherence().has_stores() {
            self.leave_for(w, line, kind, at);
        }
        let hint = match kind {
            LineKind::PageWalk => None,
            _ => self.hint_at(w, at.pc),
        };
        let t = &self.config.timing;
        let (scheduled, penalty) = (t.load_latency, t.l1d_penalty());
        let release_offset = t.release_offset;
        let c = w.coherence();
        let cache_levels = c.has_levels();
        let gives_clean = c.wants_clean();
        let index = match (self.state.halfway.refill, present) {
            (Some((l, i)), _) if l == line && c.is_reserved(id, i) => i,
            (_, Some(i)) => {
                self.state.stats.l1d_upgrades += 1;
                self.state.halfway.replays |= LINE_AGAIN;
                c.reserve(id, i);
                i
            }
            (_, None) => {
                match kind {
                    LineKind::Store => self.state.stats.l1d_store_misses += 1,
                    LineKind::PageWalk => self.state.stats.l1d_walk_misses += 1,
                    _ => self.state.stats.l1d_load_misses += 1,
                }
                if kind != LineKind::PageWalk && !ahead {
                    self.state.halfway.replays |= LINE_AGAIN;
                }
                if hint.is_some() && !write {
                    w.coherence().count_stores(id).nt_load_misses += 1;
                }
                let cache = &mut w.coherence().l1d[id];
                let i = cache.victim(line);
                let (old, state) = cache.entry(i);
                self.drop_entry(w, i);
                w.coherence().reserve(id, i);
                if state == LineState::Dirty {
                    self.state.halfway.refill = Some((line, i));
                    self.state.stats.l1d_writebacks += 1;
                    if cache_levels {
                        self.give(w, old, true, at);
                    } else if ahead {
                        self.post_victim(w, old, release_offset, at);
                    } else {
                        self.write_line(w, old, LineKind::Evict, release_offset, at)?;
                    }
                } else if gives_clean && state != LineState::Invalid {
                    self.give(w, old, false, at);
                }
                i
            }
        };
        // This is not repeated if the rest has to be tried again.
        self.state.halfway.refill = Some((line, index));
        let asked = self.state.cycle + at.offset();
        let mut others = Others::default();
        if w.coherence().l1d.len() > 1 {
            others = self.collect_dirty(w, line, at)?;
        }
        if !others.handed_over {
            self.bus_free(at)?;
        }
        let others = others.there;
        let modified = if cache_levels && present.is_some() {
            // The line is there; the request only removes it from other harts.
            let last = w.coherence().last_latency().saturating_sub(scheduled);
            self.await_level(w, last.into(), (line, kind, false), at);
            false
        } else {
            let upgrade = present.is_some();
            if ahead {
                self.bring_ahead(w, line, (penalty, scheduled), at)?
            } else {
                self.bring(w, (line, kind, upgrade), (penalty, scheduled), at)?
            }
        };
        self.state.halfway.refill = None;
        if write {
            w.coherence().void_prefetches(line, id);
        }
        w.coherence().filled_first(id);
        if write || modified {
            self.dirtied(w, line);
        }
        // No other hart runs in between, so the same harts still have the line.
        let c = w.coherence();
        if others {
            c.probe(id, line, write);
            if write {
                c.moved(line, id, asked);
            }
        }
        let state = match (write, others) {
            _ if modified => LineState::Dirty,
            (true, _) => LineState::Dirty,
            (false, true) => LineState::Shared,
            (false, false) => LineState::Exclusive,
        };
        c.l1d.put(id, index, line, state);
        match present {
            Some(_) => c.l1d[id].touch(index),
            None if hint.is_some_and(|h| h.last & 1 != 0) => c.l1d[id].filled_last(index),
            None => c.l1d[id].filled(index),
        }
        if c.is_contended(line, asked) {
            c.keep_off_filters(id, line);
            self.data.release(&mut c.l1d[id], index);
        }
        self.end_fill(w, at);
        if w.coherence().has_stores() && Wd::BLOCKS {
            // A buffered store may be written to the line at once.
            self.run.yield_at = self.run.yield_at.min(w.coherence().next_due());
        }
        Ok(index)
    }

    /// If another hart has the line dirty, it is written back, and stays there shared.
    #[inline(always)]
    fn collect_dirty<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        at: RunPoint,
    ) -> Result<Others, NotNow> {
        let Some((there, dirty)) = w.coherence().some_holders(self.id, line) else {
            return Ok(Others::default());
        };
        let handed_over = match dirty {
            Some(from) => self.collect_from(w, from, line, at)?,
            None => false,
        };
        Ok(Others { there, handed_over })
    }

    /// Another hart writes a line back, or hands it over; returns whether it hands it over.
    #[inline(never)]
    fn collect_from<Wd: World>(
        &mut self,
        w: &mut Wd,
        from: usize,
        line: u64,
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        self.bus_free(at)?;
        let asked = self.state.cycle + at.offset();
        self.state.stats.probes += 1;
        let c = w.coherence();
        let cycles = c.hand_over((self.id, self.id), from, line, asked);
        c.moved(line, self.id, asked);
        match cycles {
            Some(cycles) => {
                self.settle_levels(w, self.state.cycle, at);
                self.await_level(w, cycles.into(), (line, LineKind::Probe, true), at);
            }
            None => self.write_line(w, line, LineKind::Probe, 0, at)?,
        }
        Ok(cycles.is_some())
    }

    /// A line of L1D becomes dirty, before anything is stored to it.
    #[inline(always)]
    pub(crate) fn dirtied<Wd: World>(&mut self, w: &mut Wd, line: u64) {
        if let Some(name) = w.coherence().ages(line) {
            w.line_aged(line, name);
        }
        w.line_dirtied(line);
    }

    /// Takes a line out of L1D. The filter entry goes with it.
    #[inline(always)]
    pub(crate) fn drop_entry<Wd: World>(&mut self, w: &mut Wd, index: usize) {
        let (id, c) = (self.id, w.coherence());
        let line = c.l1d[id].entry(index).0;
        self.data.release(&mut c.l1d[id], index);
        c.l1d.take(id, index);
        c.left_first(Side::Data, id, line);
    }

    #[inline(always)]
    pub(crate) fn line_request(
        &self,
        at: RunPoint,
        later: u64,
        line: u64,
        kind: LineKind,
    ) -> LineRequest {
        LineRequest {
            cycle: self.state.cycle + at.offset() + later,
            line,
            kind,
            hart: self.id,
            pc: at.pc,
            privilege: self.state.privilege as u8,
            asid: self.state.csr.asid(),
            older: None,
        }
    }

    /// Writes one line back if it is dirty and, unless `keep`, takes it out of L1D. The write-back
    /// waits for its turn on the bus.
    pub(crate) fn flush_index<W: World>(
        &mut self,
        w: &mut W,
        index: usize,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let id = self.id;
        let (line, state) = w.coherence().l1d[id].entry(index);
        let modified = state == LineState::Dirty;
        match state {
            LineState::Invalid => return Ok(()),
            LineState::Dirty => self.bus_free(at)?,
            _ if !keep && w.coherence().wants_clean() => {
                self.bus_free(at)?;
                self.give(w, line, false, at);
            }
            _ => {}
        }
        if keep {
            self.clean_entry(w, index, line);
        } else {
            self.drop_entry(w, index);
        }
        if modified {
            self.state.stats.l1d_flushes += 1;
            let later = self.config.timing.release_offset;
            if w.coherence().has_levels() {
                self.give(w, line, true, at);
                let wait = later + w.coherence().level_latency(0);
                self.await_level(w, wait.into(), (line, LineKind::Flush, true), at);
            } else {
                self.write_line(w, line, LineKind::Flush, later, at)?;
            }
        }
        Ok(())
    }

    /// Writes a line back from wherever it is modified and, unless `keep`, takes it out of all caches.
    pub(crate) fn clean_line<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        self.in_order(w, Side::Data, line, at)?;
        if !keep && w.coherence().has_first() {
            self.bus_free(at)?;
            w.coherence().void_prefetches(line, NOBODY);
        }
        if w.coherence().has_levels() {
            return self.clean_levels(w, line, keep, at);
        }
        let id = self.id;
        let (others, dirty) = w.coherence().holders(id, line);
        let own = w.coherence().l1d[id].find(line);
        let own_modified =
            own.is_some_and(|i| w.coherence().l1d[id].entry(i).1 == LineState::Dirty);
        if others || own_modified {
            self.bus_free(at)?;
        }
        if others {
            let asked = self.state.cycle + at.offset();
            let c = w.coherence();
            c.probe(id, line, !keep);
            c.moved(line, id, asked);
        }
        match own {
            Some(i) => self.flush_index(w, i, keep, at),
            None if dirty.is_some() => {
                self.state.stats.probes += 1;
                self.write_line(w, line, LineKind::Flush, 0, at)
            }
            None => Ok(()),
        }
    }

    /// As [`Hart::clean_line`], with outer cache levels: each is asked in turn.
    fn clean_levels<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        self.bus_free(at)?;
        if self.state.halfway.cleaned.take() == Some(line) {
            return Ok(());
        }
        let id = self.id;
        let c = w.coherence();
        let (others, dirty) = c.holders(id, line);
        let own = c.l1d[id].find(line);
        let own_dirty = own.is_some_and(|i| c.l1d[id].entry(i).1 == LineState::Dirty);
        let mut later = c.last_latency();
        if own_dirty {
            self.state.stats.l1d_flushes += 1;
            later += self.config.timing.release_offset;
        } else if dirty.is_some() {
            self.state.stats.probes += 1;
        }
        if let Some(i) = own {
            if keep {
                self.clean_entry(w, i, line);
            } else {
                self.drop_entry(w, i);
            }
        }
        let asked = self.state.cycle + at.offset();
        let c = w.coherence();
        if others {
            c.probe(id, line, !keep);
            c.moved(line, id, asked);
        }
        let below = c.clean_levels(id, line, keep);
        self.settle_levels(w, self.state.cycle, at);
        if own_dirty || dirty.is_some() || below {
            self.state.halfway.cleaned = Some(line);
            self.write_line(w, line, LineKind::Flush, later, at)?;
            self.state.halfway.cleaned = None;
        } else {
            self.await_level(w, later.into(), (line, LineKind::Flush, false), at);
        }
        Ok(())
    }

    /// An entry of L1D is written back and stays: stores have to ask again.
    fn clean_entry<W: World>(&mut self, w: &mut W, index: usize, line: u64) {
        let c = &mut w.coherence().l1d[self.id];
        if c.entry(index).1 == LineState::Dirty {
            c.set(index, line, LineState::Exclusive);
        }
        let slot = c.slot(index);
        if slot != NO_SLOT {
            self.data.at_mut(slot as usize).write = NEVER;
        }
    }
}
