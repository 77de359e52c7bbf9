//! From [`Inst`] to 32-bit instruction words.

use crate::decode::decode;
use crate::format::Format;
use crate::inst::Inst;

/// The 32-bit form of an instruction; `len` and `raw` are ignored.
///
/// `encode(i)` is the word that decodes to `i`. `None` if there is no such word: when a field is
/// out of range or unaligned, when a field is set that the instruction does not have, or when the
/// fields would make it another instruction (an `ori` to x0 that is a prefetch, a `fence` that is
/// `pause`).
pub fn encode(inst: &Inst) -> Option<u32> {
    let word = inst.op.info().match_ | operands(inst);
    let back = decode(word)?;
    let same = Inst {
        len: inst.len,
        raw: inst.raw,
        ..back
    };
    (same == *inst).then_some(word)
}

/// `len` bits of `value` from bit `from`, put at bit `to`.
fn place(value: i32, from: u32, len: u32, to: u32) -> u32 {
    (value as u32 >> from & ((1 << len) - 1)) << to
}

/// The operand fields. Values that do not fit are truncated; [`encode`] detects that by decoding.
fn operands(inst: &Inst) -> u32 {
    let rd = place(inst.rd.into(), 0, 5, 7);
    let rs1 = place(inst.rs1.into(), 0, 5, 15);
    let rs2 = place(inst.rs2.into(), 0, 5, 20);
    let rs3 = place(inst.rs3.into(), 0, 5, 27);
    let rm = place(inst.rm.into(), 0, 3, 12);
    let aqrl = place(inst.rm.into(), 0, 2, 25);
    let imm = inst.imm;
    let imm12 = place(imm, 0, 12, 20);
    match inst.op.info().format {
        Format::None => 0,
        Format::R | Format::FpPair | Format::FpCompare => rd | rs1 | rs2,
        Format::I
        | Format::Jalr
        | Format::Load
        | Format::FpLoad
        | Format::Fence
        | Format::FenceI
        | Format::Csr
        | Format::CsrImm => rd | rs1 | imm12,
        Format::Store | Format::FpStore => rs1 | rs2 | place(imm, 5, 7, 25) | place(imm, 0, 5, 7),
        Format::B => {
            let low = place(imm, 1, 4, 8) | place(imm, 11, 1, 7);
            rs1 | rs2 | place(imm, 12, 1, 31) | place(imm, 5, 6, 25) | low
        }
        Format::U => rd | place(imm, 12, 20, 12),
        Format::J => {
            let low = place(imm, 11, 1, 20) | place(imm, 12, 8, 12);
            rd | place(imm, 20, 1, 31) | place(imm, 1, 10, 21) | low
        }
        Format::Shift6 => rd | rs1 | place(imm, 0, 6, 20),
        Format::Shift5 => rd | rs1 | place(imm, 0, 5, 20),
        Format::Amo | Format::Cas | Format::CasPair => rd | rs1 | rs2 | aqrl,
        Format::Unary => rd | rs1,
        Format::LoadReserved => rd | rs1 | aqrl,
        Format::FpFma => rd | rs1 | rs2 | rs3 | rm,
        Format::FpArith => rd | rs1 | rs2 | rm,
        Format::FpUnary | Format::FpToInt | Format::FpFromInt => rd | rs1 | rm,
        Format::FpMoveToInt | Format::FpMoveFromInt => rd | rs1,
        Format::Sfence => rs1 | rs2,
        Format::Cbo | Format::Cflush | Format::Mark => rs1,
        Format::Prefetch => rs1 | place(imm, 5, 7, 25),
    }
}
