//! Pipeline, branch prediction, TLBs and caches are simulated cycle by cycle; a block of the data filter
//! is a line.

use super::Mode;
use crate::access::{Place, Wanted};
use crate::block::Block;
use crate::hart::Hart;
use crate::lines::{fence, orders_stores};
use crate::operands::divides_fp;
use crate::pending::pending_after;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::preop::{hint_number, PreOp, AWAITS_DIVISION, AWAITS_LONG, NEW_LINE};
use crate::privilege::Privilege;
use crate::trap::{NotNow, Undone};
use crate::world::{DevicePlace, World};
use nagori_cache::{Awaits, LineKind, Side, Why};

/// The detailed mode: see [`Hart::timed`]. `PLAIN`: for harts of which
/// [`HartConfig::plain`](crate::config::HartConfig::plain) holds; what such harts do not have does not occur in the
/// code.
#[derive(Clone, Copy, Debug)]
pub struct Timed<const PLAIN: bool>;

/// The detailed mode of any hart.
pub type Detailed = Timed<false>;
/// The detailed mode of harts that have nothing but one level of caches, and wait for each miss.
pub type Blocking = Timed<true>;

impl<const PLAIN: bool> Mode for Timed<PLAIN> {
    const LINES: bool = true;

    #[inline(always)]
    fn stop<W: World>(h: &mut Hart, w: &mut W, limit: u64) -> u64 {
        if h.state.cycle >= h.settle_at {
            h.settle_uses(w);
        }
        limit.min(h.settle_at)
    }

    #[inline(always)]
    fn block_begins<W: World>(
        h: &mut Hart,
        w: &mut W,
        ops: &[PreOp],
        pc: u64,
    ) -> Result<(), NotNow> {
        if h.state.pending != 0 {
            h.await_pending(ops);
        }
        let fetched = h.fetch_line(w, pc, pc, RunPoint::begin(pc));
        h.run.start_waits |= fetched.is_err();
        if fetched.is_ok() && ops[0].splits() {
            h.await_packet();
        }
        fetched
    }

    #[inline(always)]
    fn block_ends(h: &mut Hart, b: &Block) {
        let redirect = std::mem::take(&mut h.run.redirect);
        let begun = h.state.cycle - u64::from(b.cost) - redirect;
        let mut own = b.pending | h.open_results(b, begun);
        if redirect != 0 && own != 0 {
            own = pending_after(own, redirect);
        }
        h.state.pending = if h.state.pending == 0 {
            own
        } else {
            h.still_pending(own)
        };
        h.state.predictor.front += u64::from(b.packets);
        if b.flushes {
            h.refetch();
        } else if b.passes {
            let begin = u64::from(b.offset);
            h.state
                .predictor
                .falls_through(begin, begin + u64::from(b.bytes));
        }
    }

    #[inline(always)]
    fn fetch<W: World>(h: &mut Hart, w: &mut W, p: &PreOp, at: RunPoint) -> Result<(), NotNow> {
        if p.flags & NEW_LINE != 0 && !std::mem::take(&mut h.run.line_fetched) {
            let last = at.pc.wrapping_add(p.len.max(2) as u64 - 1);
            let begin = at.pc.wrapping_sub(p.off.into());
            h.fetch_line(w, last, begin, at)?;
        }
        if p.flags & (AWAITS_LONG | AWAITS_DIVISION) != 0 {
            h.await_late(p);
        }
        Ok(())
    }

    #[inline(always)]
    fn uses<W: World>(h: &mut Hart, w: &mut W, p: &PreOp, at: RunPoint) -> Result<(), NotNow> {
        match h.loads.regs {
            _ if PLAIN => Ok(()),
            0 => Ok(()),
            _ => h.await_loads(w, p, at),
        }
    }

    #[inline(always)]
    fn goes_on(h: &Hart) -> bool {
        !PLAIN && h.has_buffers()
    }

    #[inline(always)]
    fn load_done(h: &mut Hart, p: &PreOp) {
        if !PLAIN {
            h.bind(p);
        }
    }

    #[inline(always)]
    fn fetch_anew<W: World>(h: &mut Hart, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        Self::drains(h, w, at)?;
        h.all_in_order(w, Side::Inst, at)?;
        h.state.predictor.astray = h.fetched_ahead(w, at.pc);
        h.empty_l1i(w);
        Ok(())
    }

    #[inline(always)]
    fn load_passed(h: &mut Hart, va: u64, way: u8, p: &PreOp) {
        h.note_use(va, p);
        h.touch_way(way);
        h.hazard(p, va);
    }

    #[inline(always)]
    fn load_missed(h: &mut Hart, va: u64, p: &PreOp) {
        h.hazard(p, va);
    }

    #[inline(always)]
    fn store_begins(h: &mut Hart, va: u64) {
        h.state.last_stores = [va, h.state.last_stores[0]];
    }

    #[inline(always)]
    fn atomic_begins(h: &mut Hart, va: u64, p: &PreOp) {
        h.hazard(p, va);
        h.state.last_stores = [va, h.state.last_stores[0]];
    }

    #[inline(always)]
    fn store_passed(h: &mut Hart, va: u64, way: u8, p: &PreOp) {
        h.note_use(va, p);
        h.touch_way(way);
    }

    #[inline(always)]
    fn atomic_passed<W: World>(h: &mut Hart, w: &mut W, index: usize) {
        if h.data.notes_uses() {
            h.data.hit(&mut w.coherence().l1d[h.id], index);
        }
    }

    #[inline(always)]
    fn branch<W: World>(h: &mut Hart, w: &mut W, pc: u64, target: u64, taken: bool, p: &PreOp) {
        h.resolve_branch(w, pc, target, taken, p);
        if taken {
            h.state.predictor.lands(target, p.len);
        }
    }

    #[inline(always)]
    fn jump(h: &mut Hart, pc: u64, p: &PreOp) {
        h.resolve_jump(pc, p);
        let target = pc.wrapping_add(p.imm as i64 as u64);
        h.state.predictor.lands(target, p.len);
    }

    #[inline(always)]
    fn indirect<W: World>(h: &mut Hart, w: &mut W, pc: u64, target: u64, p: &PreOp) {
        h.resolve_indirect(w, pc, target, p, |_| None);
        h.state.predictor.lands(target, p.len);
    }

    #[inline(always)]
    fn multiply(h: &mut Hart, p: &PreOp, rs1: u64) {
        h.mul_time(p, rs1);
    }

    #[inline(always)]
    fn divide(h: &mut Hart, p: &PreOp, a: u64, b: u64) {
        h.div_time(p, a, b);
    }

    #[inline(always)]
    fn floated(h: &mut Hart, p: &PreOp, operands: [u64; 2]) {
        if divides_fp(p.op) {
            h.fp_divide_time(p, operands);
        }
    }

    #[inline(always)]
    fn visible<W: World>(h: &mut Hart, _w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        h.bus_free(at)
    }

    #[inline(always)]
    fn device<W: World>(h: &mut Hart, w: &mut W, pa: u64, at: RunPoint) -> Result<(), NotNow> {
        Self::drains(h, w, at)?;
        Self::visible(h, w, at)?;
        let t = &h.config.timing;
        let latency = match w.device_place(pa) {
            DevicePlace::Clint => t.clint_latency,
            DevicePlace::Plic => t.plic_latency,
            DevicePlace::Port => t.mmio_latency,
        };
        // The block's schedule includes the load with the latency of a hit.
        h.state.cycle += (t.mmio + latency).saturating_sub(t.load_latency) as u64;
        if h.data_privilege() != Privilege::Machine {
            h.state.cycle += u64::from(h.config.io_table_cycles);
        }
        Ok(())
    }

    #[inline(always)]
    fn hands_over<W: World>(h: &mut Hart, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        if h.config.hands_over {
            h.hand_over(w, at)
        } else {
            Ok(())
        }
    }

    #[inline(always)]
    fn synchronizes<W: World>(h: &mut Hart, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        h.drained(w, (Awaits::All, Why::Atomic), at)?;
        Self::hands_over(h, w, at)
    }

    #[inline(always)]
    fn fence<W: World>(h: &mut Hart, w: &mut W, imm: i32, at: RunPoint) -> Result<(), NotNow> {
        fence(h, w, imm, at)?;
        if orders_stores(imm) {
            Self::hands_over(h, w, at)
        } else {
            Ok(())
        }
    }

    #[inline(always)]
    fn drains<W: World>(h: &mut Hart, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        h.drained(w, (Awaits::All, Why::Fence), at)
    }

    #[inline(always)]
    fn hint<W: World>(h: &mut Hart, w: &mut W, p: &PreOp, pc: u64) {
        if let Some(number) = hint_number(p.op) {
            h.take_hint(w, p, number, pc);
        }
    }

    #[inline(always)]
    fn buffer_store<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        value: u64,
        at: RunPoint,
    ) -> Result<Option<u64>, Undone> {
        if PLAIN {
            Ok(None)
        } else {
            h.buffer_store(w, want, value, at)
        }
    }

    #[inline(always)]
    fn forward<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Option<(u64, u64)>, Undone> {
        if PLAIN {
            Ok(None)
        } else {
            h.forward(w, want, at)
        }
    }

    #[inline(always)]
    fn resolve<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Place, Undone> {
        let write = want.access == Access::Write;
        let p = h.data_privilege();
        let (pa, way) = h.translate_timed(w, want.va, want.access, p, at)?;
        let Some(offset) = h.memory_at(w, want, pa, p)? else {
            h.state.halfway.replays = 0;
            return Ok(Place::Device(pa));
        };
        let kind = if write {
            LineKind::Store
        } else {
            LineKind::Load
        };
        let index = h.l1d_touch::<W, PLAIN>(w, pa, kind, at)?;
        if write {
            h.store_side_effects(w, pa);
        }
        if !PLAIN && h.is_hinted(at.pc) {
            h.hinted(w, want.access);
        } else {
            h.install::<W, Self>(w, want, pa, (index, way), at);
        }
        debug_assert!(w.coherence().l1d[h.id].entry(index).0 == pa & !63);
        h.fetched_again(w, at);
        Ok(Place::Ram(offset))
    }

    #[inline(always)]
    fn translate<W: World>(
        h: &mut Hart,
        w: &mut W,
        va: u64,
        access: Access,
        p: Privilege,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        let translated = h.translate_timed(w, va, access, p, at);
        // What needs no data is not tried again.
        h.state.halfway.replays = 0;
        Ok(translated?.0)
    }

    #[inline(always)]
    fn marked(lines: u64, pa: u64) -> bool {
        lines >> (pa >> 6 & 63) & 1 != 0
    }

    #[inline(always)]
    fn claim<W: World>(
        h: &mut Hart,
        w: &mut W,
        pa: u64,
        (slot, index, way): (usize, usize, u8),
        at: RunPoint,
    ) -> bool {
        let line = pa & !63;
        if h.contended(w, line, at) {
            return false;
        }
        let now = h.state.cycle + at.offset();
        if !PLAIN
            && (w.coherence().is_guarded(Side::Data, h.id, line) || h.loads.is_coming(line, now))
        {
            return false;
        }
        h.data.claim(slot, &mut w.coherence().l1d[h.id], index, now);
        h.data.rely(slot, way);
        true
    }

    #[inline(always)]
    fn own_line<W: World>(h: &mut Hart, w: &mut W, pa: u64, at: RunPoint) -> Result<(), NotNow> {
        Self::drains(h, w, at)?;
        let done = h.l1d_touch::<W, PLAIN>(w, pa, LineKind::Store, at);
        h.state.halfway.replays = 0;
        done.map(|_| ())
    }

    fn flush_line<W: World>(
        h: &mut Hart,
        w: &mut W,
        line: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        h.drained(w, (Awaits::Line(line), Why::Flush), at)?;
        h.in_order(w, Side::Data, line, at)?;
        match w.coherence().l1d[h.id].find(line) {
            Some(i) => h.flush_index(w, i, false, at),
            None => Ok(()),
        }
    }

    fn flush_all<W: World>(h: &mut Hart, w: &mut W, at: RunPoint) -> Result<(), NotNow> {
        Self::drains(h, w, at)?;
        let n = w.coherence().l1d[h.id].len();
        // Entries that were scanned before the instruction had to be tried again.
        let done = h
            .state
            .halfway
            .flushed
            .take()
            .filter(|(pc, _)| *pc == at.pc);
        let first = done.map_or(0, |(_, i)| i);
        for i in first..n {
            if done != Some((at.pc, i)) {
                h.state.cycle += h.config.timing.flush_scan as u64;
            }
            let in_order = h.all_in_order(w, Side::Data, at);
            let flushed = in_order.and_then(|()| h.flush_index(w, i, false, at));
            flushed.inspect_err(|NotNow| {
                h.state.halfway.flushed = Some((at.pc, i));
            })?;
        }
        Ok(())
    }

    fn clean_line<W: World>(
        h: &mut Hart,
        w: &mut W,
        line: u64,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        h.drained(w, (Awaits::Line(line), Why::Flush), at)?;
        h.leave_others(w, line, at)?;
        h.clean_line(w, line, keep, at)
    }
}
