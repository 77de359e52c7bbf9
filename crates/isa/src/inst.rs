//! A decoded instruction.

use crate::ops::Op;

/// A decoded instruction. Fields an instruction does not have are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inst {
    /// The instruction; a compressed one is given as the base instruction it stands for.
    pub op: Op,
    /// Destination register, 0..=31.
    pub rd: u8,
    /// First source register, 0..=31; for CSR instructions with an immediate, that immediate.
    pub rs1: u8,
    /// Second source register, 0..=31.
    pub rs2: u8,
    /// Third source register, 0..=31.
    pub rs3: u8,
    /// Rounding-mode field of floating-point instructions that have one (0..=7; 7 = dynamic, 5
    /// and 6 are reserved but decode); `aq << 1 | rl` of atomics.
    pub rm: u8,
    /// Length in bytes, 2 or 4.
    pub len: u8,
    /// Immediate, in bytes for offsets. `lui` and `auipc`: shifted left by 12 already. CSR
    /// instructions: the CSR number, 0..=4095. Shifts: the amount. `fence`: `fm << 8 | pred << 4 |
    /// succ`.
    pub imm: i32,
    /// The word as fetched; a compressed one in the low half, the high half zero.
    pub raw: u32,
}

/// Length in bytes of the instruction that starts with this halfword: 2 or 4.
///
/// The encodings reserved for longer instructions count as 4; [`decode`] refuses them.
pub fn inst_len(word: u16) -> u8 {
    if word & 3 == 3 {
        4
    } else {
        2
    }
}
