//! Division and square root of floating-point numbers: the steps that the unit takes.
//!
//! Zero, infinity and NaN, and roots of negative numbers, need none. Otherwise the unit computes a bit a
//! cycle, and one more where the first bit of the quotient is zero, or for a root with an even exponent.

use crate::config::CoreTiming;
use crate::nanbox::unbox;
use crate::operands::{Reg, FP_LONG};
use nagori_isa::Op;
use serde::{Deserialize, Serialize};

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
pub(crate) fn fp_divide_latency(t: &CoreTiming, op: Op, a: u64, b: u64) -> u32 {
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
pub struct Divided(pub(crate) u32);

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
    pub(crate) fn left(self, latency: u32) -> u32 {
        latency.saturating_sub(self.0 & Self::DISTANCE)
    }

    /// Cycles that the rest of the block waits, or the cycles that are left at its end, if so many are left there.
    pub(crate) fn wait_for(self, left: u32, t: &CoreTiming) -> u32 {
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
pub(crate) fn pending_division(rd: Reg, wait: u32) -> u32 {
    match wait {
        0 => 0,
        _ => u32::from(FP_LONG | rd & 31) << 8 | wait.min(255),
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
    pub(crate) divided: u32,
}

impl Late {
    /// Whether something is waited for from a cycle on.
    pub fn is_over(&self, cycle: u64) -> bool {
        self.long <= cycle && self.division <= cycle
    }
}

/// Cycles after which an instruction is tried again.
pub(crate) fn replay(t: &CoreTiming, splits: bool) -> u32 {
    t.replay.max(1) + u32::from(splits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocket;

    #[test]
    fn operands_decide_how_long_a_division_takes() {
        let t = rocket::timing();
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
        let t = rocket::timing();
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
