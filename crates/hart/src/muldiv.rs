//! Multiplication and division: results, and the steps that the units take.

use crate::groups::{div_ops, match_group};
use crate::hart::Hart;
use nagori_isa::Op;

impl Hart {
    /// Steps that the multiplier takes beyond its least number.
    pub(crate) fn mul_time(&mut self, multiplier: u64) {
        let t = &self.config.timing;
        let magnitude = if (multiplier as i64) < 0 {
            !multiplier
        } else {
            multiplier
        };
        let bits = 65 - magnitude.leading_zeros();
        let latency = (2 + bits.div_ceil(8)).clamp(t.mul_latency_min, t.mul_latency_max);
        self.cycle += (latency - t.mul_latency_min) as u64;
    }

    /// The divider delivers a quotient bit a cycle and skips leading zeros.
    pub(crate) fn div_time(&mut self, op: Op, a: u64, b: u64) {
        use Op::*;
        let t = &self.config.timing;
        let word = matches!(op, Divw | Divuw | Remw | Remuw);
        let signed = matches!(op, Div | Rem | Divw | Remw);
        let magnitude = |v: u64| -> u64 {
            match (word, signed) {
                (false, false) => v,
                (false, true) => (v as i64).unsigned_abs(),
                (true, false) => v as u32 as u64,
                (true, true) => (v as i32).unsigned_abs() as u64,
            }
        };
        let (ma, mb) = (magnitude(a), magnitude(b));
        let max = if word { t.divw_max } else { t.div_max };
        let cycles = if mb == 0 {
            max
        } else {
            let steps = mb.leading_zeros().saturating_sub(ma.leading_zeros());
            (t.div_base + steps).min(max)
        };
        self.cycle += cycles.saturating_sub(1) as u64;
    }
}

/// Quotient or remainder of an M-extension operation.
pub(crate) fn divide(op: Op, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    let (wa, wb) = (a as u32, b as u32);
    let (ia, ib) = (a as i32, b as i32);
    let word = |v: u32| v as i32 as i64 as u64;
    match_group!(div_ops, op, {
        Div if b == 0 => u64::MAX,
        Div => sa.wrapping_div(sb) as u64,
        Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Rem if b == 0 => a,
        Rem => sa.wrapping_rem(sb) as u64,
        Remu => a.checked_rem(b).unwrap_or(a),
        Divw if ib == 0 => u64::MAX,
        Divw => word(ia.wrapping_div(ib) as u32),
        Divuw => word(wa.checked_div(wb).unwrap_or(u32::MAX)),
        Remw if ib == 0 => word(wa),
        Remw => word(ia.wrapping_rem(ib) as u32),
        Remuw => word(wa.checked_rem(wb).unwrap_or(wa)),
    } else 0)
}
