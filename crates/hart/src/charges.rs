//! What results that come late cost a hart: those of the blocks before, of multiplications, divisions and roots.

use crate::block::Block;
use crate::fpdiv::{fp_divide_latency, pending_division, Divided};
use crate::hart::Hart;
use crate::muldiv::{div_latency, mul_latency, pending_long};
use crate::operands::{divides_fp, is_long, Reg, FP_LONG, LONG};
use crate::pending::{merge_pending, pending_after, pending_pairs, Pending, Unwritten, STORES};
use crate::pipeline::Long;
use crate::predict::{waits_for_half, JUMPED};
use crate::preop::{PreOp, AWAITS_DIVISION, AWAITS_LONG, COMES_LATE};
use crate::waits::{half_packet, stall, stores_met, with_older_stores, Meeting};
use nagori_isa::Op;

impl Hart {
    /// Waits for results and units that the instructions of the next block need. Others stay
    /// pending.
    #[cold]
    pub(crate) fn await_pending(&mut self, ops: &[PreOp]) {
        let found = stall(ops, &self.config.timing, self.state.pending);
        self.await_stall(ops, found);
    }

    /// As [`Hart::await_pending`], with what [`stall`] has found.
    #[inline(always)]
    pub(crate) fn await_stall(&mut self, ops: &[PreOp], (stall, rest): (u32, Pending)) {
        let before = std::mem::replace(&mut self.state.pending, rest);
        self.state.cycle += u64::from(stall);
        self.state.pending_from = self.state.cycle;
        if self.state.pending >> STORES != 0 {
            self.run.stores_before = self.state.last_stores;
            if !self.may_meet_stores(ops) {
                self.state.pending &= (1 << STORES) - 1;
            }
        }
        if self.state.predictor.landed > JUMPED && ops[0].splits() {
            let half = half_packet(ops, before, stall);
            self.state.predictor.landed = waits_for_half(half);
        }
    }

    /// Pending results at the end of a block: its own, and older ones that are still pending.
    #[cold]
    pub(crate) fn still_pending(&self, own: Pending) -> Pending {
        let old = pending_after(
            self.state.pending,
            self.state.cycle - self.state.pending_from,
        );
        let own = with_older_stores(own, old);
        pending_pairs(old).fold(own, |p, (reg, left)| merge_pending(p, reg, left))
    }

    /// Whether a load of a block that begins may run into pending stores.
    fn may_meet_stores(&self, ops: &[PreOp]) -> bool {
        let x = |r: u8| self.state.x[usize::from(r)];
        let meets = |m: Meeting| {
            m.address(x)
                .is_none_or(|va| (va ^ self.run.stores_before[m.store]) & m.bits == 0)
        };
        stores_met(ops, self.state.pending).is_none_or(|all| all.into_iter().any(meets))
    }

    /// A load or atomic may run into stores of the blocks in front.
    #[cold]
    pub(crate) fn meet_stores(&mut self, p: &PreOp, va: u64) {
        let mut stores = Unwritten::of(self.state.pending);
        let at = (self.state.cycle + u64::from(p.cost)).saturating_sub(self.state.pending_from);
        let at = at.min(u32::MAX.into()) as u32;
        let meets = |k: usize| match stores.differ(k, at, p.op) {
            0 => false,
            bits => (va ^ self.run.stores_before[k]) & bits == 0,
        };
        if meets(0) || meets(1) {
            self.store_hazard(p, va);
            stores = Unwritten::default();
        } else {
            stores.load(at);
        }
        self.state.pending = self.state.pending & ((1 << STORES) - 1) | stores.pack();
    }
}

impl Hart {
    /// A division or root of numbers begins. An instruction of the block that waits for it is charged
    /// here; otherwise the result is pending at the end of the block.
    pub(crate) fn fp_divide_time(&mut self, p: &PreOp, [a, b]: [u64; 2]) {
        let t = &self.config.timing;
        let divided = Divided::from_imm(p.imm);
        let latency = fp_divide_latency(t, p.op, a, b);
        let wait = divided.wait(latency, t);
        if p.flags & COMES_LATE != 0 {
            self.state.late.division = self.state.cycle + u64::from(divided.left(latency));
            self.state.late.divided = divided.0;
        } else if divided.is_awaited() {
            self.state.cycle += u64::from(wait);
        } else {
            self.state.long = self.state.long & 0xffff | pending_division(p.rd, wait) << 16;
        }
    }
}

impl Hart {
    /// An instruction waits for results.
    #[cold]
    pub(crate) fn await_late(&mut self, p: &PreOp) {
        if p.flags & AWAITS_LONG != 0 {
            self.state.cycle = self.state.cycle.max(self.state.late.long);
        }
        if p.flags & AWAITS_DIVISION != 0 {
            let left = self.state.late.division.saturating_sub(self.state.cycle);
            let divided = Divided(self.state.late.divided);
            let wait = divided.wait_for(left.min(u32::MAX.into()) as u32, &self.config.timing);
            self.state.cycle += u64::from(wait);
            // Also if it is tried again.
            self.state.late.division = self.state.late.division.min(self.state.cycle);
        }
    }

    /// The results of the units that are still pending where a block is left in front of one of its instructions, at
    /// the hart's cycle.
    #[cold]
    pub(crate) fn left_open(&self, b: &Block, ops: &[PreOp], next: usize) -> Pending {
        if !self.state.timed {
            return 0;
        }
        type Unit = (fn(Op) -> bool, u8, Reg, u64);
        let units: [Unit; 2] = [
            (is_long, AWAITS_LONG, LONG, self.state.late.long),
            (
                divides_fp,
                AWAITS_DIVISION,
                FP_LONG,
                self.state.late.division,
            ),
        ];
        units.into_iter().fold(0, |all, (has, awaits, code, at)| {
            let last = ops[..next].iter().rposition(|p| has(p.op));
            let Some(n) = last.filter(|n| ops[*n].flags & COMES_LATE != 0) else {
                return all;
            };
            let user = ops[n + 1..].iter().position(|p| p.flags & awaits != 0);
            let cost = match user.map(|k| k + n + 1) {
                Some(k) if k < next => return all,
                Some(k) => ops[k].cost.into(),
                None => b.cost,
            };
            let left = (at + u64::from(cost)).saturating_sub(self.state.cycle);
            let rd = ops[n].rd & 31;
            merge_pending(all, code | rd, left.min(u32::MAX.into()) as u32)
        })
    }

    /// The results that are pending at the end of a block, as far as that follows from its run, which has begun at a
    /// cycle.
    #[inline(always)]
    pub(crate) fn open_results(&self, b: &Block, begun: u64) -> Pending {
        let own = self.state.long & b.open;
        let late = |code: u8, at: u64| match at.saturating_sub(begun).min(255) {
            0 => 0,
            left => u32::from(code) << 8 | left as u32,
        };
        Pending::from(match b.late {
            [0, 0] => own,
            [long, 0] => own | late(long, self.state.late.long),
            [0, division] => own | late(division, self.state.late.division) << 16,
            [long, division] => {
                late(long, self.state.late.long) | late(division, self.state.late.division) << 16
            }
        })
    }
}

impl Hart {
    /// A multiplication: see [`Hart::long_result`].
    pub(crate) fn mul_time(&mut self, p: &PreOp, rs1: u64) {
        self.long_result(p, mul_latency(&self.config.timing, p.op, rs1));
    }

    /// A division: see [`Hart::long_result`].
    pub(crate) fn div_time(&mut self, p: &PreOp, a: u64, b: u64) {
        self.long_result(p, div_latency(&self.config.timing, p.op, a, b));
    }

    /// A multiplication or division of some latency begins. An instruction of the block that waits for
    /// it is charged here; otherwise the result is pending at the end of the block.
    fn long_result(&mut self, p: &PreOp, latency: u32) {
        let long = Long::from_imm(p.imm);
        let wait = long.wait(latency, self.config.timing.writeback);
        if p.flags & COMES_LATE != 0 {
            self.state.late.long = self.state.cycle + u64::from(wait);
        } else if long.is_awaited() {
            self.state.cycle += u64::from(wait);
        } else {
            self.state.long = self.state.long & 0xffff << 16 | pending_long(p.rd, wait);
        }
    }
}
