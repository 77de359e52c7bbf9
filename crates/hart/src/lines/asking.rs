//! Requests of a hart to the outer cache levels, with the prefetches and write-backs that follow
//! from them; fills of L1I.

use super::{From, LineState, Side, Want, NO_SLOT};
use crate::filter::NEVER;
use crate::halfway::Awaited;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::trap::NotNow;
use crate::world::{Transfer, World};
use nagori_cache::LineKind;

impl Hart {
    /// Waits for an outer cache level.
    pub(super) fn await_level<Wd: World>(
        &mut self,
        w: &mut Wd,
        cycles: u64,
        (line, kind, write): (u64, LineKind, bool),
        at: RunPoint,
    ) {
        let start = self.state.cycle;
        self.state.cycle += cycles;
        self.stalls(kind, cycles);
        if w.attributes() {
            let req = self.line_request(at, 0, line, kind);
            self.attribute(w, &req, start, write);
        }
    }

    /// Brings a line to a first-level cache, from the outer levels or from memory. Returns whether
    /// it is modified, that is, newer than in memory.
    /// `upgrade`: the line is there already, and only
    /// the right to store is missing. `penalty` is added to a line from memory;
    /// `scheduled` cycles of a level's latency are part of the instruction's cost already.
    #[inline(always)]
    pub(super) fn bring<Wd: World>(
        &mut self,
        w: &mut Wd,
        (line, kind, upgrade): (u64, LineKind, bool),
        (penalty, scheduled): (u32, u32),
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let c = w.coherence();
        if !c.has_levels() && (upgrade || !c.has_first()) {
            self.read_line(w, line, kind, (0, penalty), at)?;
            return Ok(false);
        }
        if self.take_arrived(line) {
            self.include(w, line, at);
            return Ok(false);
        }
        self.ask_levels(w, (line, kind), (penalty, scheduled), at)
    }

    /// A request to the caches.
    pub(super) fn want<Wd: World>(
        &self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Want {
        Want {
            hart: self.id,
            line,
            kind,
            pc: at.pc,
            now: self.state.cycle + at.offset(),
            blocks: Wd::BLOCKS,
            hint: match kind {
                LineKind::Load | LineKind::Store => self.hint_at(w, at.pc),
                _ => None,
            },
        }
    }

    fn ask_levels<Wd: World>(
        &mut self,
        w: &mut Wd,
        (line, kind): (u64, LineKind),
        (penalty, scheduled): (u32, u32),
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let want = self.want(w, line, kind, at);
        if !want.blocks {
            self.catch_up(w, at);
        }
        let Ok(found) = w.coherence().fetch(&want) else {
            w.claim_line(self.id, line);
            self.need_register(w, at);
            self.leave_for_due(w);
            return self.await_other(line, kind);
        };
        let later = found.latency.saturating_sub(scheduled.into());
        let asked = self.state.cycle + later;
        let req = self.line_request(at, later, line, kind);
        let brought = match found.from {
            From::Level => {
                self.await_level(w, later, (line, kind, false), at);
                match found.level {
                    0 => self.state.stats.l2_stall_cycles += later,
                    _ => self.state.stats.llc_stall_cycles += later,
                }
                Ok(())
            }
            From::Memory => self.transfer(w, &req, false, penalty, at),
            From::Prefetch(Some(comes)) if !want.blocks => {
                self.came(w, &req, (comes.max(req.cycle), false), penalty, at);
                Ok(())
            }
            From::Prefetch(_) => {
                w.claim_line(self.id, line);
                self.state.halfway.awaited = Some(Awaited {
                    line,
                    kind,
                    write: false,
                    other: false,
                    penalty,
                });
                Err(NotNow)
            }
        };
        if w.coherence().keeps_order() {
            if brought.is_ok() && found.from != From::Level {
                let came = self.state.cycle + at.offset();
                w.coherence()
                    .miss_ends(self.id, came.saturating_sub(penalty.into()));
            }
            self.prefetch(w, (want.now, asked), at);
        }
        self.settle_levels(w, asked, at);
        brought.map(|()| found.modified)
    }

    /// A line that the hart has waited for has arrived. What inclusive levels evict for it is written to memory.
    pub(super) fn include<Wd: World>(&mut self, w: &mut Wd, line: u64, at: RunPoint) {
        let now = self.state.cycle + at.offset();
        w.coherence().include(self.id, line, now);
        self.settle_levels(w, self.state.cycle, at);
    }

    /// Requests the lines that prefetchers have predicted, after the line that the hart waits for.
    pub(super) fn prefetch<Wd: World>(
        &mut self,
        w: &mut Wd,
        (now, asked): (u64, u64),
        at: RunPoint,
    ) {
        while let Some((token, line)) = w.coherence().next_prefetch(self.id, at.pc, now) {
            let mut req = self.line_request(at, 0, line, LineKind::Prefetch);
            req.cycle = asked + at.offset();
            match w.prefetch_line(&req, token) {
                Transfer::Done(first) => {
                    w.coherence().line_came(token, first);
                }
                // The line may arrive before any other hart runs on.
                Transfer::UnderWay => self.run.yield_at = self.run.yield_at.min(now + 1),
            }
        }
        self.guard_sets(w);
        self.leave_for_due(w);
    }

    /// Lets the hart return to the scheduler at the time of the next event in the outer levels.
    pub(super) fn leave_for_due<Wd: World>(&mut self, w: &mut Wd) {
        if Wd::BLOCKS {
            self.run.yield_at = self.run.yield_at.min(w.coherence().next_due());
        }
    }

    /// Posts the lines evicted from outer cache levels to memory at `cycle`, after the transfer
    /// that the hart waits for, and drops the filter slots of removed lines.
    pub(super) fn settle_levels<Wd: World>(&mut self, w: &mut Wd, cycle: u64, at: RunPoint) {
        while let Some((line, older)) = w.coherence().next_to_memory() {
            let mut req = self.line_request(at, 0, line, LineKind::Evict);
            req.older = older;
            req.cycle = cycle + at.offset();
            self.commit_write_back(w, &req);
            w.post_line(&req);
        }
        while let Some((side, slot)) = w.coherence().next_dropped() {
            let (id, c) = (self.id, w.coherence());
            match side {
                Side::Data => self.data.drop_slot(&mut c.l1d[id], slot as usize),
                Side::Inst => {
                    self.fetch.drop_slot(&mut c.l1i[id], slot as usize);
                    // Translated code does not look at a line again that it goes on in.
                    self.run.recheck = true;
                }
            }
        }
    }

    /// L1D evicts or cleans a line.
    pub(super) fn give<Wd: World>(&mut self, w: &mut Wd, line: u64, modified: bool, at: RunPoint) {
        let now = self.state.cycle + at.offset();
        w.coherence().give(self.id, line, modified, now);
        self.settle_levels(w, self.state.cycle, at);
    }

    /// Writes a victim back, and nobody waits for it.
    pub(super) fn post_victim<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        later: u32,
        at: RunPoint,
    ) {
        let req = self.line_request(at, later.into(), line, LineKind::Evict);
        self.commit_write_back(w, &req);
        w.post_line(&req);
    }

    /// Blocks the hart until another hart has finished its fill of a line, or until a miss status
    /// holding register is free.
    #[cold]
    pub(super) fn await_other<T>(&mut self, line: u64, kind: LineKind) -> Result<T, NotNow> {
        self.state.halfway.awaited = Some(Awaited {
            line,
            kind,
            write: false,
            other: true,
            penalty: 0,
        });
        Err(NotNow)
    }

    /// Brings a line into L1I, and advances the hart's time by the cost. Returns the index of the
    /// line.
    pub(crate) fn l1i_touch<Wd: World>(
        &mut self,
        w: &mut Wd,
        pa: u64,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let line = pa & !63;
        let id = self.id;
        if self.state.halfway.arrived != Some(line) {
            self.in_order(w, Side::Inst, line, at)?;
        }
        let c = &mut w.coherence().l1i[id];
        self.fetch.settle(c, line);
        if let Some(i) = c.find(line) {
            if self.take_arrived(line) {
                return Ok(i);
            }
            self.uses_line(w, line, LineKind::Fetch, at)?;
            w.coherence().l1i[id].touch(i);
            return Ok(i);
        }
        let filled = self.l1i_fill(w, line, at);
        self.state.halfway.fill = filled.is_err().then_some((line, LineKind::Fetch));
        filled
    }

    /// A line leaves L1I.
    pub(crate) fn leave_l1i<Wd: World>(&mut self, w: &mut Wd, index: usize) {
        let (id, c) = (self.id, w.coherence());
        let line = c.l1i[id].entry(index).0;
        self.fetch.release(&mut c.l1i[id], index);
        c.l1i.take(id, index);
        c.left_first(Side::Inst, id, line);
    }

    /// Brings a missing line into L1I.
    #[inline(never)]
    pub(super) fn l1i_fill<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let id = self.id;
        self.bus_free(at)?;
        w.coherence().filling(Side::Inst, id, line);
        if !w.begin_fill(id, line) {
            return self.await_other(line, LineKind::Fetch);
        }
        if w.coherence().has_stores() {
            self.leave_for(w, line, LineKind::Fetch, at);
        }
        // Instruction caches are not coherent, but for a fetch the hub collects dirty data from
        // every L1D, this hart's included.
        let c = w.coherence();
        let own = c.l1d[id]
            .find(line)
            .filter(|&i| c.l1d[id].entry(i).1 == LineState::Dirty);
        let mut handed_over = false;
        if let Some(i) = own {
            c.l1d[id].set(i, line, LineState::Shared);
            let slot = c.l1d[id].slot(i);
            if slot != NO_SLOT {
                self.data.at_mut(slot as usize).write = NEVER;
            }
            self.state.stats.probes += 1;
            if w.coherence().has_levels() {
                self.give(w, line, true, at);
            } else {
                self.write_line(w, line, LineKind::Probe, 0, at)?;
            }
        } else {
            let others = self.collect_dirty(w, line, at)?;
            handed_over = others.handed_over;
        }
        if !handed_over {
            self.bus_free(at)?;
        }
        let t = self.config.timing;
        let hidden = self.state.predictor.hidden(&t);
        let penalty = (t.l1i_miss + t.hub).saturating_sub(hidden);
        self.bring(w, (line, LineKind::Fetch, false), (penalty, 0), at)?;
        self.state.stats.l1i_misses += 1;
        let c = w.coherence();
        let i = c.l1i[id].victim(line);
        let old = c.l1i[id].entry(i).0;
        self.fetch.release(&mut c.l1i[id], i);
        c.l1i.put(id, i, line, LineState::Shared);
        c.l1i[id].filled(i);
        c.left_first(Side::Inst, id, old);
        c.filled_first(id);
        self.end_fill(w, at);
        Ok(i)
    }
}
