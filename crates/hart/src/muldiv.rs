//! Multiplication and division: results, and the steps that the units take.

use crate::config::CoreTiming;
use crate::groups::{div_ops, match_group};
use crate::operands::LONG;
use crate::pipeline::Long;
use crate::preop::PreOp;
use nagori_isa::Op;

/// Latency of a multiplication: a cycle for each byte of `rs1` that is not zero, up to a limit. The
/// upper half of a product takes all steps.
pub(crate) fn mul_latency(t: &CoreTiming, op: Op, rs1: u64) -> u32 {
    let (value, max) = match op {
        Op::Mul => (rs1, t.mul_max),
        Op::Mulw => (rs1 & 0xffff_ffff, t.mulw_max),
        _ => return t.mul_max,
    };
    let bytes = (71 - (value | 1).leading_zeros()) / 8;
    (t.mul_base + bytes).min(t.mul_max).min(max)
}

/// Latency of a division: a step for each of the 64 bits, but for those that are skipped, and one for
/// each change of sign.
pub(crate) fn div_latency(t: &CoreTiming, op: Op, a: u64, b: u64) -> u32 {
    use Op::*;
    let word = matches!(op, Divw | Divuw | Remw | Remuw);
    let signed = matches!(op, Div | Rem | Divw | Remw);
    let remainder = matches!(op, Rem | Remu | Remw | Remuw);
    let value = |v: u64| match (word, signed) {
        (false, _) => v,
        (true, true) => v as i32 as i64 as u64,
        (true, false) => v as u32 as u64,
    };
    let negative = |v: u64| signed && (value(v) as i64) < 0;
    let magnitude = |v: u64| {
        if negative(v) {
            value(v).wrapping_neg()
        } else {
            value(v)
        }
    };
    let (ma, mb) = (magnitude(a), magnitude(b));
    // The sign of a quotient by zero is not changed.
    let minus = if remainder {
        negative(a)
    } else {
        negative(a) != negative(b) && mb != 0
    };
    let signs = u32::from(negative(a) || negative(b)) + u32::from(minus);
    let top = |v: u64| 63 - (v | 1).leading_zeros();
    let skipped = (63 + top(mb)).wrapping_sub(top(ma)) & 63;
    let steps = match mb {
        0 => 64,
        _ => 64 - skipped,
    };
    (t.div_base + steps).min(t.div_max) + signs
}

/// A pending result of the unit for multiplication and division, a pair of a [`Pending`](crate::pipeline::Pending).
pub fn pending_long(rd: u8, wait: u32) -> u32 {
    match wait {
        0 => 0,
        _ => u32::from(rd & 31 | LONG) << 8 | wait.min(255),
    }
}

/// What a multiplication waits for its result, or its user does, by the number of its operand's highest
/// byte that is not zero; from its predecoded form.
pub fn multiplication_waits(t: &CoreTiming, p: &PreOp) -> [u8; 8] {
    let long = Long::from_imm(p.imm);
    std::array::from_fn(|byte| {
        let latency = mul_latency(t, p.op, 1 << (8 * byte));
        long.wait(latency, t.writeback).min(255) as u8
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocket;
    use Op::*;

    #[test]
    fn multiplications_take_a_cycle_for_each_byte() {
        let t = rocket::timing();
        for (op, rs1, cycles) in [
            (Mul, 0, 4),
            (Mul, 0xff, 4),
            (Mul, 0x100, 5),
            (Mul, 0xffff_ffff, 7),
            (Mul, 0x1_0000_0000, 8),
            (Mul, 0xff_ffff_ffff_ffff, 10),
            (Mul, 1 << 62, 10),
            (Mul, u64::MAX, 10),
            (Mulw, 1, 4),
            (Mulw, 0xffff, 5),
            (Mulw, 0xff_ffff, 6),
            (Mulw, 0x7fff_ffff, 6),
            (Mulw, u64::MAX, 6),
            (Mulw, 1 << 40, 4),
            (Mulh, 1, 10),
            (Mulhu, 1, 10),
            (Mulhsu, 0, 10),
        ] {
            assert_eq!(mul_latency(&t, op, rs1), cycles, "{op:?} {rs1:#x}");
        }
    }

    #[test]
    fn divisions_skip_the_bits_above_the_quotient() {
        let t = rocket::timing();
        let minus = |v: i64| v as u64;
        for (op, a, b, cycles) in [
            (Div, 100, 7, 9),
            (Div, 1 << 40, 7, 43),
            (Divu, u64::MAX, 1, 67),
            (Divu, 1 << 62, 1, 67),
            (Divu, 1 << 61, 1, 66),
            (Div, 5, 0, 67),
            (Div, 7, 7, 5),
            // A quotient of zero takes nearly all steps.
            (Div, 7, 8, 67),
            (Div, 1, 1 << 20, 49),
            (Div, minus(-100), 7, 11),
            (Div, 100, minus(-7), 11),
            (Div, minus(-100), minus(-7), 10),
            (Rem, minus(-100), 7, 11),
            (Rem, 100, minus(-7), 10),
            (Divw, 100, 7, 9),
            (Divw, 7, 8, 67),
            (Divuw, minus(-1), 1, 36),
            (Remw, minus(-100), 7, 11),
            (Remuw, 3, 0, 67),
        ] {
            assert_eq!(div_latency(&t, op, a, b), cycles, "{op:?} {a} {b}");
        }
    }
}
