//! Division and square root of floating-point numbers: the steps that the unit takes.
//!
//! Zero, infinity and NaN, and roots of negative numbers, need none. Otherwise the unit computes a bit a
//! cycle, and one more where the first bit of the quotient is zero, or for a root with an even exponent.

use crate::block::Block;
use crate::config::CoreTiming;
use crate::fp::unbox;
use crate::hart::Hart;
use crate::pipeline::{is_long, merge_pending, replay, Pending, Reg, FP_LONG, LONG};
use crate::preop::{PreOp, AWAITS_DIVISION, AWAITS_LONG, COMES_LATE};
use nagori_isa::Op;
use serde::{Deserialize, Serialize};

/// Whether the unit executes an instruction.
pub fn divides_fp(op: Op) -> bool {
    matches!(op, Op::FdivS | Op::FdivD | Op::FsqrtS | Op::FsqrtD)
}

/// A number that is neither zero nor infinite nor a NaN: its sign, its significand with the first bit at
/// the top, and whether its exponent is odd.
struct Normal {
    negative: bool,
    significand: u64,
    odd: bool,
}

/// The parts of a number with some bits of significand below its exponent.
fn normal(bits: u64, width: u32, fraction_bits: u32) -> Option<Normal> {
    let exponent_bits = width - 1 - fraction_bits;
    let fraction = bits & ((1 << fraction_bits) - 1);
    let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    let above = 63 - fraction_bits;
    let (significand, exponent) = match exponent {
        e if e == (1 << exponent_bits) - 1 => return None,
        0 if fraction == 0 => return None,
        0 => {
            let left = fraction.leading_zeros();
            (fraction << left, 1 + u64::from(above) + u64::from(left & 1))
        }
        e => ((1 << fraction_bits | fraction) << above, e),
    };
    Some(Normal {
        negative: bits >> (width - 1) & 1 != 0,
        significand,
        // The bias is odd.
        odd: exponent & 1 == 0,
    })
}

/// Cycles from the issue of a division or root to that of an instruction that uses its result.
fn fp_divide_latency(t: &CoreTiming, op: Op, a: u64, b: u64) -> u32 {
    let single = |v: u64| normal(u64::from(unbox(v)), 32, 23);
    let double = |v: u64| normal(v, 64, 52);
    let (a, b, quotient, root) = match op {
        Op::FdivS => (single(a), single(b), Some(t.fdiv_single), 0),
        Op::FdivD => (double(a), double(b), Some(t.fdiv_double), 0),
        Op::FsqrtS => (single(a), None, None, t.fsqrt_single),
        _ => (double(a), None, None, t.fsqrt_double),
    };
    match (quotient, a, b) {
        (Some(c), Some(a), Some(b)) => {
            c + u32::from(a.significand < b.significand) * t.fp_divide_step
        }
        (None, Some(a), _) if !a.negative => root + u32::from(!a.odd) * t.fp_divide_step,
        _ => t.fp_divide_special,
    }
}

/// What follows a division in its block, packed in 32 bits: the distance to the next instruction that the
/// floating-point unit sees, or to the end of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divided(u32);

impl Divided {
    const DISTANCE: u32 = 0x7f;
    /// There is such an instruction in the block.
    const AWAITED: u32 = 0x80;
    /// It needs the result.
    const NEEDS: u32 = 0x100;
    /// It is in two packets.
    const SPLITS: u32 = 0x200;
    /// Where the bits are that hold how many cycles behind it the result is needed; 0 if not soon.
    const BEHIND: u32 = 10;
    /// The result is there at most so many cycles after the unit lets others pass.
    pub(crate) const SOON: u32 = 3;

    pub(crate) fn open(distance: u32) -> Self {
        Divided(distance.min(Self::DISTANCE))
    }

    pub(crate) fn awaited(distance: u32, needs: bool, splits: bool) -> Self {
        let needs = if needs { Self::NEEDS } else { 0 };
        let splits = if splits { Self::SPLITS } else { 0 };
        Divided(distance.min(Self::DISTANCE) | Self::AWAITED | needs | splits)
    }

    /// The result is needed so many cycles after the next instruction; 0 if by one that issues in the same cycle.
    pub(crate) fn needed_behind(&mut self, cycles: u32) {
        debug_assert!(cycles <= Self::SOON);
        self.0 |= match cycles {
            0 => Self::NEEDS,
            _ => cycles << Self::BEHIND,
        };
    }

    pub(crate) fn needs(self) -> bool {
        self.0 & Self::NEEDS != 0
    }

    /// From the immediate of a predecoded instruction.
    pub fn from_imm(imm: i32) -> Self {
        Divided(imm as u32)
    }

    /// As an immediate.
    pub fn imm(self) -> i32 {
        self.0 as i32
    }

    /// Whether an instruction of the same block waits for it.
    pub fn is_awaited(self) -> bool {
        self.0 & Self::AWAITED != 0
    }

    /// Cycles that the rest of the block waits for a result of some latency, or the cycles that are left
    /// at its end.
    pub(crate) fn wait(self, latency: u32, t: &CoreTiming) -> u32 {
        self.wait_for(self.left(latency), t)
    }

    /// Cycles until the result of some latency is there, at the next instruction or the end of the block.
    fn left(self, latency: u32) -> u32 {
        latency.saturating_sub(self.0 & Self::DISTANCE)
    }

    /// Cycles that the rest of the block waits, or the cycles that are left at its end, if so many are left there.
    fn wait_for(self, left: u32, t: &CoreTiming) -> u32 {
        if self.needs() || !self.is_awaited() {
            return left;
        }
        let wait = until_free(left, t, self.0 & Self::SPLITS != 0);
        match self.0 >> Self::BEHIND & 3 {
            0 => wait,
            behind => wait.max(left.saturating_sub(behind)),
        }
    }
}

/// Cycles that an instruction waits for the unit, whose result is there some cycles later: it is tried
/// again until it passes.
pub(crate) fn until_free(left: u32, t: &CoreTiming, splits: bool) -> u32 {
    left.saturating_sub(Divided::SOON)
        .next_multiple_of(replay(t, splits))
}

/// A pending result of the unit, a pair of a [`Pending`](crate::pipeline::Pending).
fn pending_division(rd: Reg, wait: u32) -> u32 {
    match wait {
        0 => 0,
        _ => u32::from(FP_LONG | rd & 31) << 8 | wait.min(255),
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
            self.late.division = self.cycle + u64::from(divided.left(latency));
            self.late.divided = divided.0;
        } else if divided.is_awaited() {
            self.cycle += u64::from(wait);
        } else {
            self.long = self.long & 0xffff | pending_division(p.rd, wait) << 16;
        }
    }
}

/// When results are there of which that is noted: by cycles of a hart between two instructions of a block, which do not
/// count the block's own so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[repr(C)]
pub(crate) struct Late {
    /// As seen from the instruction that waits for a multiplication or division of integers, or from the block's end.
    pub long: u64,
    /// As seen from the instruction that waits for a division or root of floating-point numbers, or from the block's
    /// end.
    pub division: u64,
    /// The [`Divided`] of that.
    divided: u32,
}

impl Late {
    /// Whether something is waited for from a cycle on.
    pub fn is_over(&self, cycle: u64) -> bool {
        self.long <= cycle && self.division <= cycle
    }
}

impl Hart {
    /// An instruction waits for results.
    #[cold]
    pub(crate) fn await_late(&mut self, p: &PreOp) {
        if p.flags & AWAITS_LONG != 0 {
            self.cycle = self.cycle.max(self.late.long);
        }
        if p.flags & AWAITS_DIVISION != 0 {
            let left = self.late.division.saturating_sub(self.cycle);
            let divided = Divided(self.late.divided);
            let wait = divided.wait_for(left.min(u32::MAX.into()) as u32, &self.config.timing);
            self.cycle += u64::from(wait);
            // Also if it is tried again.
            self.late.division = self.late.division.min(self.cycle);
        }
    }

    /// The results of the units that are still pending where a block is left in front of one of its instructions, at
    /// the hart's cycle.
    #[cold]
    pub(crate) fn left_open(&self, b: &Block, ops: &[PreOp], next: usize) -> Pending {
        if !self.timed {
            return 0;
        }
        type Unit = (fn(Op) -> bool, u8, Reg, u64);
        let units: [Unit; 2] = [
            (is_long, AWAITS_LONG, LONG, self.late.long),
            (divides_fp, AWAITS_DIVISION, FP_LONG, self.late.division),
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
            let left = (at + u64::from(cost)).saturating_sub(self.cycle);
            let rd = ops[n].rd & 31;
            merge_pending(all, code | rd, left.min(u32::MAX.into()) as u32)
        })
    }

    /// The results that are pending at the end of a block, as far as that follows from its run, which has begun at a
    /// cycle.
    #[inline(always)]
    pub(crate) fn open_results(&self, b: &Block, begun: u64) -> Pending {
        let own = self.long & b.open;
        let late = |code: u8, at: u64| match at.saturating_sub(begun).min(255) {
            0 => 0,
            left => u32::from(code) << 8 | left as u32,
        };
        Pending::from(match b.late {
            [0, 0] => own,
            [long, 0] => own | late(long, self.late.long),
            [0, division] => own | late(division, self.late.division) << 16,
            [long, division] => {
                late(long, self.late.long) | late(division, self.late.division) << 16
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_decide_how_long_a_division_takes() {
        let t = CoreTiming::rocket();
        let cycles = |op, a: f64, b: f64| fp_divide_latency(&t, op, a.to_bits(), b.to_bits());
        let tiny = f64::from_bits(1);
        for (a, b, c) in [
            (1.0, 1.0, 57),
            (1.0, 1.5, 58),
            (1.5, 1.0, 57),
            (-3.0, 2.0, 57),
            (5.0, 7.0, 58),
            // Subnormal numbers take no longer.
            (tiny, 1.5, 58),
            (3.0 * tiny, 1.5, 57),
            (1.5, tiny, 57),
            (f64::MAX, tiny, 57),
            (0.0, 1.0, 4),
            (1.0, -0.0, 4),
            (f64::INFINITY, 1.0, 4),
            (1.0, f64::INFINITY, 4),
            (f64::NAN, 1.0, 4),
        ] {
            assert_eq!(cycles(Op::FdivD, a, b), c, "{a} / {b}");
        }
        for (a, c) in [
            (1.0, 57),
            (2.0, 56),
            (3.0, 56),
            (4.0, 57),
            (0.5, 56),
            (tiny, 57),
            (2.0 * tiny, 56),
            (-0.0, 4),
            (-1.0, 4),
            (f64::INFINITY, 4),
            (f64::NAN, 4),
        ] {
            assert_eq!(cycles(Op::FsqrtD, a, 0.0), c, "root of {a}");
        }
        let cycles = |op, a: f32, b: f32| {
            let boxed = |v: f32| u64::from(v.to_bits()) | !0 << 32;
            fp_divide_latency(&t, op, boxed(a), boxed(b))
        };
        let tiny = f32::from_bits(1);
        assert_eq!(cycles(Op::FdivS, 1.5, 1.0), 28);
        assert_eq!(cycles(Op::FdivS, 1.0, 1.5), 29);
        assert_eq!(cycles(Op::FdivS, tiny, 1.5), 29);
        assert_eq!(cycles(Op::FdivS, 0.0, 1.5), 4);
        assert_eq!(cycles(Op::FsqrtS, 2.0, 0.0), 27);
        assert_eq!(cycles(Op::FsqrtS, 4.0, 0.0), 28);
        assert_eq!(cycles(Op::FsqrtS, tiny, 0.0), 27);
        // What is no single is a NaN.
        assert_eq!(fp_divide_latency(&t, Op::FsqrtS, 0x4000_0000, 0), 4);
    }

    #[test]
    fn what_waits_for_a_division() {
        let t = CoreTiming::rocket();
        assert_eq!(Divided::awaited(1, true, false).wait(57, &t), 56);
        assert_eq!(Divided::awaited(1, true, false).wait(4, &t), 3);
        // Tried again at 1, 6, 11 and so on until 54.
        let mut other = Divided::awaited(1, false, false);
        assert_eq!(other.wait(57, &t), 55);
        assert_eq!(other.wait(4, &t), 0);
        assert_eq!(Divided::awaited(4, false, false).wait(57, &t), 50);
        assert_eq!(Divided::awaited(1, false, true).wait(57, &t), 54);
        // At 56 it passes, and the next cycle has the result.
        other.needed_behind(1);
        assert_eq!(other.wait(57, &t), 55);
        assert_eq!(other.wait(4, &t), 2);
        let mut late = Divided::awaited(4, false, false);
        late.needed_behind(1);
        assert_eq!(late.wait(57, &t), 52);
        assert_eq!(Divided::open(3).wait(57, &t), 54);
        assert_eq!(Divided::from_imm(late.imm()), late);
    }
}
