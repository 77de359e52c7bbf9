//! Bit manipulation (Zba, Zbb, Zbs) and conditional zero (Zicond): "The RISC-V Instruction Set
//! Manual", volume I, chapters "B" and "Zicond". All of them take one cycle.

use crate::groups::{bit_ops, match_group};
use nagori_isa::Op;

/// The result of such an instruction; `imm` is a shift amount.
#[inline]
pub(crate) fn compute(op: Op, a: u64, b: u64, imm: i32) -> u64 {
    let word = |v: u32| v as i32 as i64 as u64;
    let (low, amount) = (a as u32, imm as u32);
    match_group!(bit_ops, op, {
        AddUw => u64::from(low).wrapping_add(b),
        Sh1add => (a << 1).wrapping_add(b),
        Sh2add => (a << 2).wrapping_add(b),
        Sh3add => (a << 3).wrapping_add(b),
        Sh1addUw => (u64::from(low) << 1).wrapping_add(b),
        Sh2addUw => (u64::from(low) << 2).wrapping_add(b),
        Sh3addUw => (u64::from(low) << 3).wrapping_add(b),
        SlliUw => u64::from(low) << (amount & 63),
        Andn => a & !b,
        Orn => a | !b,
        Xnor => !(a ^ b),
        Clz => a.leading_zeros().into(),
        Clzw => low.leading_zeros().into(),
        Ctz => a.trailing_zeros().into(),
        Ctzw => low.trailing_zeros().into(),
        Cpop => a.count_ones().into(),
        Cpopw => low.count_ones().into(),
        Max => (a as i64).max(b as i64) as u64,
        Maxu => a.max(b),
        Min => (a as i64).min(b as i64) as u64,
        Minu => a.min(b),
        SextB => a as i8 as i64 as u64,
        SextH => a as i16 as i64 as u64,
        ZextH => u64::from(a as u16),
        Rol => a.rotate_left(b as u32 & 63),
        Rolw => word(low.rotate_left(b as u32 & 31)),
        Ror => a.rotate_right(b as u32 & 63),
        Rori => a.rotate_right(amount & 63),
        Rorw => word(low.rotate_right(b as u32 & 31)),
        Roriw => word(low.rotate_right(amount & 31)),
        OrcB => u64::from_le_bytes(a.to_le_bytes().map(|b| if b == 0 { 0 } else { 0xff })),
        Rev8 => a.swap_bytes(),
        Bclr => a & !(1 << (b & 63)),
        Bclri => a & !(1 << (amount & 63)),
        Bext => a >> (b & 63) & 1,
        Bexti => a >> (amount & 63) & 1,
        Binv => a ^ 1 << (b & 63),
        Binvi => a ^ 1 << (amount & 63),
        Bset => a | 1 << (b & 63),
        Bseti => a | 1 << (amount & 63),
        CzeroEqz if b == 0 => 0,
        CzeroNez if b != 0 => 0,
        CzeroEqz | CzeroNez => a,
    } else 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_manual() {
        use Op::*;
        const A: u64 = 0x8000_00f0_0001_0280;
        for (op, a, b, imm, expected) in [
            (AddUw, u64::MAX, 1, 0, 1 << 32),
            (Sh3addUw, u64::MAX, 8, 0, 0x8_0000_0000),
            (SlliUw, A, 0, 4, 0x10_2800),
            (Andn, 0xff, 0x0f, 0, 0xf0),
            (Orn, 0, 0xff, 0, !0xff),
            (Xnor, 5, 6, 0, !3),
            (Clz, 0, 0, 0, 64),
            (Clzw, A, 0, 0, 15),
            (Ctz, A, 0, 0, 7),
            (Ctzw, 0x1_0000_0000, 0, 0, 32),
            (Cpop, A, 0, 0, 8),
            (Cpopw, A, 0, 0, 3),
            (Max, u64::MAX, 1, 0, 1),
            (Maxu, u64::MAX, 1, 0, u64::MAX),
            (Min, u64::MAX, 1, 0, u64::MAX),
            (Minu, u64::MAX, 1, 0, 1),
            (SextB, A, 0, 0, !0x7f),
            (SextH, 0x8000, 0, 0, !0x7fff),
            (ZextH, u64::MAX, 0, 0, 0xffff),
            (Rol, 1 << 63, 65, 0, 1),
            (Rolw, 0x8000_0000, 1, 0, 1),
            (Rorw, 1, 1, 0, 0xffff_ffff_8000_0000),
            (Roriw, 2, 0, 2, 0xffff_ffff_8000_0000),
            (Rori, 1, 0, 1, 1 << 63),
            (OrcB, A, 0, 0, 0xff00_00ff_00ff_ffff),
            (Rev8, 0x0102_0304_0506_0708, 0, 0, 0x0807_0605_0403_0201),
            (Bclr, 0xff, 64 + 3, 0, 0xf7),
            (Bexti, A, 0, 7, 1),
            (Binvi, 1, 0, 0, 0),
            (Bseti, 0, 0, 63, 1 << 63),
            (CzeroEqz, 7, 0, 0, 0),
            (CzeroEqz, 7, 1, 0, 7),
            (CzeroNez, 7, 0, 0, 7),
            (CzeroNez, 7, 1, 0, 0),
        ] {
            assert_eq!(compute(op, a, b, imm), expected, "{}", op.name());
        }
    }
}
