//! Stores, loads, fences and atomics of a hart whose stores are buffered, and hints of Zihintntl.

use super::{Awaits, Bytes, Deed, Forward, Sent, Why};
use crate::access::{write_ram, Wanted};
use crate::commit::LineRequest;
use crate::config::{Cached, Drain, HintConfig};
use crate::filter::block_shift;
use crate::halfway::Awaited;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::preop::PreOp;
use crate::trap::{NotNow, Undone};
use crate::world::{Event, Transfer, World};
use nagori_cache::LineKind;

/// In the immediate of a `fence`: predecessor writes, successor writes, all successors, and the mode of `fence.tso`.
const BEFORE_W: i32 = 1 << 4;
const AFTER_W: i32 = 1;
const AFTER: i32 = 15;
const TSO: i32 = 8 << 8;

/// What was done by [`carry_out`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// Stores to decoded code.
    pub code: bool,
    /// Requests that memory has not answered.
    pub asked: bool,
}

/// Carries out what events in the buffers of stores have left to be done outside of the caches: writes to guest memory,
/// and requests to memory. To be called after each such event, behind the write-backs that it has caused.
pub fn carry_out<W: World>(w: &mut W) -> Carried {
    let mut carried = Carried::default();
    while let Some(deed) = w.coherence().next_deed() {
        match deed {
            Deed::Write {
                hart,
                line,
                bytes,
                dirties,
            } => {
                if dirties {
                    if let Some(name) = w.coherence().ages(line) {
                        w.line_aged(line, name);
                    }
                    w.line_dirtied(line);
                }
                carried.code |= write(w, hart, line, &bytes);
            }
            Deed::Fetch(sent) => {
                let request = request(&sent, LineKind::Store);
                carried.asked |= answer(w, &sent, |w| w.prefetch_line(&request, sent.token));
            }
            Deed::Send { sent, reads } => {
                let request = request(&sent, LineKind::Combine);
                if W::WRITE_BACKS {
                    w.happened(&Event::WriteBack(&request));
                }
                carried.asked |= answer(w, &sent, |w| w.write_ahead(&request, reads, sent.token));
            }
        }
    }
    carried
}

fn answer<W: World>(w: &mut W, sent: &Sent, ask: impl FnOnce(&mut W) -> Transfer) -> bool {
    match ask(w) {
        Transfer::Done(cycle) => {
            w.coherence().line_came(sent.token, cycle);
            false
        }
        Transfer::UnderWay => true,
    }
}

fn request(sent: &Sent, kind: LineKind) -> LineRequest {
    LineRequest {
        cycle: sent.cycle,
        line: sent.line,
        kind,
        hart: sent.hart,
        pc: sent.pc,
        privilege: 0,
        asid: 0,
        older: None,
    }
}

/// Writes bytes of a line to guest memory for a hart. Whether there was decoded code in the line.
fn write<W: World>(w: &mut W, hart: usize, line: u64, bytes: &Bytes) -> bool {
    let offset = line.wrapping_sub(w.ram_base());
    for (at, size, value) in bytes.pieces() {
        write_ram(w, offset + at, size, value);
    }
    w.ram().note_store(offset);
    let c = w.coherence();
    let code = c.code_lines(line) >> (line >> 6 & 63) & 1 != 0;
    if code {
        c.invalidate_code(line);
    }
    c.break_reservations(hart, line);
    code
}

impl Hart {
    /// Whether stores of this hart may be in buffers in the present mode.
    #[inline(always)]
    fn buffers_stores<W: World>(&self, w: &mut W) -> bool {
        w.coherence().has_stores()
    }

    /// Whether a hint is in front of the instruction at a pc.
    #[inline(always)]
    pub(crate) fn is_hinted(&self, pc: u64) -> bool {
        self.state.halfway.hint.is_some_and(|(at, _)| at == pc)
    }

    /// What the hint in front of the instruction at a pc does.
    #[inline(always)]
    pub(crate) fn hint_at<W: World>(&self, w: &mut W, pc: u64) -> Option<HintConfig> {
        match self.state.halfway.hint {
            Some((at, number)) if at == pc => Some(w.coherence().hint(number)),
            _ => None,
        }
    }

    /// A hint in front of a load or store, whose address the hint's own operands give: that one passes no filter.
    pub(crate) fn take_hint<W: World>(&mut self, w: &mut W, p: &PreOp, number: u8, pc: u64) {
        let va = self.state.x[(p.rs1 & 31) as usize].wrapping_add(p.imm as i64 as u64);
        let shift = block_shift(true);
        let e = *self.data.at((va >> shift) as usize);
        if e.block(shift) == Some(va & !((1 << shift) - 1)) {
            let cache = &mut w.coherence().l1d[self.id];
            self.data.release(cache, e.l1 as usize);
        }
        self.state.halfway.hint = Some((pc.wrapping_add(p.len.into()), number));
    }

    /// Does what is left to be done by events in the buffers that this hart has caused.
    pub(in crate::lines) fn carry<W: World>(&mut self, w: &mut W, at: RunPoint) {
        self.settle_levels(w, self.state.cycle, at);
        let carried = carry_out(w);
        self.run.recheck |= carried.code;
        if carried.asked {
            // The answer may come before any other hart runs on.
            self.run.yield_at = self.run.yield_at.min(self.state.cycle + at.offset() + 1);
        }
        if W::BLOCKS {
            self.run.yield_at = self.run.yield_at.min(w.coherence().next_due());
        }
    }

    /// A miss of this hart waits for a line fill buffer: one that combines stores is needed.
    pub(in crate::lines) fn need_register<W: World>(&mut self, w: &mut W, at: RunPoint) {
        if w.coherence().has_stores() {
            let now = self.state.cycle + at.offset();
            w.coherence().spare_register(self.id, now);
            self.carry(w, at);
        }
    }

    /// Lets all events up to now take effect, where harts are never blocked.
    pub(crate) fn catch_up<W: World>(&mut self, w: &mut W, at: RunPoint) {
        let now = self.state.cycle + at.offset();
        if w.coherence().has_stores() {
            while w.coherence().settle_due(now).is_some() {
                self.carry(w, at);
            }
        }
        w.coherence().catch_up(now);
        // Events concern nobody's own requests, and this hart runs.
        self.heed_notices(w);
    }

    /// Waits. Where harts are blocked, the instruction is tried again.
    fn await_stored<W: World>(
        &mut self,
        w: &mut W,
        what: Awaits,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let (id, since) = (self.id, self.state.cycle + at.offset());
        w.coherence().begin_wait(id, what, since);
        if W::BLOCKS {
            self.run.yield_at = self.run.yield_at.min(w.coherence().next_due());
            self.state.halfway.awaited = Some(Awaited {
                line: 0,
                kind: LineKind::Store,
                write: false,
                other: true,
                penalty: 0,
            });
            return Err(NotNow);
        }
        while !w.coherence().has_come(id, what) {
            let due = w.coherence().next_due();
            if due == u64::MAX {
                break;
            }
            let start = self.state.cycle;
            self.state.cycle = due.saturating_sub(at.offset()).max(start);
            self.state.stats.memory_stall_cycles += self.state.cycle - start;
            self.catch_up(w, at);
        }
        let now = self.state.cycle + at.offset();
        w.coherence().wait_is_over(id, now);
        Ok(())
    }

    /// Before something that others may not see before what the hart has stored, all of it or (`Awaits::Line`) in a
    /// line.
    #[inline(always)]
    pub(crate) fn drained<W: World>(
        &mut self,
        w: &mut W,
        (what, why): (Awaits, Why),
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if self.buffers_stores(w) {
            self.drain(w, what, why, at)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn drain<W: World>(
        &mut self,
        w: &mut W,
        what: Awaits,
        why: Why,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let id = self.id;
        if w.coherence().has_come(id, what) {
            return Ok(());
        }
        self.bus_free(at)?;
        if !W::BLOCKS {
            self.catch_up(w, at);
        }
        let now = self.state.cycle + at.offset();
        match what {
            Awaits::Line(line) => w.coherence().leave_buffers(line, Some(id), why, now),
            _ => w.coherence().leave_all(id, why, now),
        }
        self.carry(w, at);
        if w.coherence().has_come(id, what) {
            Ok(())
        } else {
            self.await_stored(w, what, at)
        }
    }

    /// A store that the filter did not pass, where stores are buffered. Its offset in memory, if it has taken a place
    /// in a buffer; `None` if it is to be done at once.
    pub(crate) fn buffer_store<W: World>(
        &mut self,
        w: &mut W,
        want: Wanted,
        value: u64,
        at: RunPoint,
    ) -> Result<Option<u64>, Undone> {
        if !self.buffers_stores(w) {
            return Ok(None);
        }
        let combines = self.hint_at(w, at.pc).is_some_and(|h| h.combines);
        let p = self.data_privilege();
        let (pa, _) = self.translate_timed(w, want.va, want.access, p, at)?;
        let Some(offset) = self.memory_at(w, want, pa, p)? else {
            return Ok(None);
        };
        let (id, line) = (self.id, pa & !63);
        let store = (pa, want.size, value);
        if !W::BLOCKS {
            self.catch_up(w, at);
        }
        let c = w.coherence();
        if !combines && c.stores_directly(id, line) {
            return Ok(None);
        }
        self.bus_free(at)?;
        if combines && self.combine_store(w, store, at)? {
            self.fetched_again(w, at);
            return Ok(Some(offset));
        }
        let now = self.state.cycle + at.offset();
        let c = w.coherence();
        c.leave_buffers(line, Some(id), Why::Store, now);
        if c.stores_directly(id, line) {
            self.carry(w, at);
            return Ok(None);
        }
        while !w.coherence().push_store(id, store, now, at.pc) {
            self.carry(w, at);
            self.await_stored(w, Awaits::Room, at)?;
        }
        let c = w.coherence();
        if c.drains() == Drain::InOrder && c.has_begun_storing(id) {
            // No store passes another one until it is empty again.
            self.data.guard_all();
        }
        self.guard_sets(w);
        self.carry(w, at);
        let asked = self.state.cycle + u64::from(w.coherence().last_latency());
        self.prefetch(w, (now, asked), at);
        self.fetched_again(w, at);
        Ok(Some(offset))
    }

    /// Combines a store in a line fill buffer. False if it is to be done in the caches.
    fn combine_store<W: World>(
        &mut self,
        w: &mut W,
        store: (u64, u8, u64),
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let (id, line) = (self.id, store.0 & !63);
        if w.coherence().has_stored(id, line) {
            // Stores to a line stay in order.
            self.await_stored(w, Awaits::Line(line), at)?;
        }
        while !w.coherence().combines(id, line) {
            if self.stores_to_copies(w, line, at)? {
                return Ok(false);
            }
            let now = self.state.cycle + at.offset();
            let c = w.coherence();
            c.leave_buffers(line, Some(id), Why::Store, now);
            if !c.begin_combining(id, line, now, at.pc) {
                self.carry(w, at);
                self.await_stored(w, Awaits::Register, at)?;
            }
        }
        self.join(w, store, at);
        Ok(true)
    }

    /// Before a line is combined: whether the store is to be done in caches that have copies. If not, none has one any
    /// more.
    pub(super) fn stores_to_copies<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        // What an earlier try has cleaned says nothing of copies that there are now.
        self.state.halfway.cleaned = None;
        let c = w.coherence();
        if !c.is_cached(line) {
            return Ok(false);
        }
        c.count_stores(self.id).nt_copies += 1;
        if c.keeps_copies() == Cached::Update {
            return Ok(true);
        }
        self.clean_line(w, line, false, at)?;
        Ok(false)
    }

    /// A store joins the line that this hart combines.
    pub(super) fn join<W: World>(&mut self, w: &mut W, store: (u64, u8, u64), at: RunPoint) {
        let now = self.state.cycle + at.offset();
        let c = w.coherence();
        c.break_reservations(self.id, store.0 & !63);
        c.combine(self.id, store, now);
        self.carry(w, at);
    }

    /// A cache is going to get a line for this hart: stores to it that are combined leave their buffers before.
    pub(in crate::lines) fn leave_for<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) {
        if w.coherence().is_combined(line) {
            let own = match kind {
                LineKind::Store => Why::Store,
                LineKind::Fetch => Why::Probe,
                _ => Why::Load,
            };
            let now = self.state.cycle + at.offset();
            w.coherence().leave_buffers(line, Some(self.id), own, now);
            self.carry(w, at);
        }
    }

    /// A line is cleaned in all caches: what other harts combine of it goes to memory, too.
    pub(crate) fn leave_others<W: World>(
        &mut self,
        w: &mut W,
        line: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if self.buffers_stores(w) && w.coherence().is_combined(line) {
            self.bus_free(at)?;
            self.leave_for(w, line, LineKind::Flush, at);
        }
        Ok(())
    }

    /// An access under a hint has found its line in L1D.
    pub(crate) fn hinted<W: World>(&mut self, w: &mut W, access: Access) {
        if access == Access::Read {
            w.coherence().count_stores(self.id).nt_loads += 1;
        }
    }

    /// A load that the filter did not pass: its value, if the store buffer has it.
    pub(crate) fn forward<W: World>(
        &mut self,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Option<(u64, u64)>, Undone> {
        if !self.buffers_stores(w) || w.coherence().is_drained(self.id) {
            return Ok(None);
        }
        let p = self.data_privilege();
        let (pa, _) = self.translate_timed(w, want.va, want.access, p, at)?;
        let Some(offset) = self.memory_at(w, want, pa, p)? else {
            return Ok(None);
        };
        let (id, line) = (self.id, pa & !63);
        if !w.coherence().has_stored(id, line) {
            return Ok(None);
        }
        self.bus_free(at)?;
        if !W::BLOCKS {
            self.catch_up(w, at);
        }
        let c = w.coherence();
        match c.forward(id, pa, want.size) {
            Forward::Nothing => Ok(None),
            Forward::Partial => {
                c.count_stores(id).forward_waits += 1;
                self.await_stored(w, Awaits::Line(line), at)?;
                Ok(None)
            }
            Forward::Value(v) => {
                c.count_stores(id).forwarded += 1;
                self.state.cycle += c.forward_cycles();
                self.fetched_again(w, at);
                Ok(Some((offset, v)))
            }
        }
    }
}

/// Whether a `fence` with such an immediate orders the stores in front of it.
#[inline(always)]
pub(crate) fn orders_stores(imm: i32) -> bool {
    imm & BEFORE_W != 0
}

/// A `fence` with such an immediate. Stores leave the store buffer in order anyhow, if that is its way, so that one
/// that only orders them has nothing to do; combined ones do not.
pub(crate) fn fence<W: World>(
    h: &mut Hart,
    w: &mut W,
    imm: i32,
    at: RunPoint,
) -> Result<(), NotNow> {
    if !orders_stores(imm) {
        return Ok(());
    }
    let stores_only = imm & AFTER == AFTER_W || imm & TSO != 0;
    if stores_only && w.coherence().keeps_store_order() {
        return Ok(());
    }
    h.drained(w, (Awaits::All, Why::Fence), at)
}
