//! The C extension for RV64 with D: 16-bit encodings and the base instructions they stand for.
//!
//! The table follows the manual's listing: by quadrant (bits 1:0) and funct3 (bits 15:13). In a
//! group the first row that matches applies, so reserved code points and special cases precede the
//! general form. HINT code points need no rows: they match their general form, which then writes x0
//! or changes nothing.

use crate::ext::{Ext, Extensions};
use crate::inst::Inst;
use crate::ops::Op;

/// Where a compressed instruction keeps its operands, and which ones it implies. Names in
/// parentheses are those of the manual's formats; `x'` is one of the eight registers x8 to x15.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Reserved; an illegal instruction.
    Reserved,
    /// No operand.
    None,
    /// `rd', x2, imm` (CIW).
    AddSp,
    /// `rd', imm(rs1')` of 4 bytes (CL).
    LoadWord,
    /// `rd', imm(rs1')` of 8 bytes (CL).
    LoadDouble,
    /// `rs2', imm(rs1')` of 4 bytes (CS).
    StoreWord,
    /// `rs2', imm(rs1')` of 8 bytes (CS).
    StoreDouble,
    /// `rd, rd, imm` (CI).
    Imm,
    /// `rd, x0, imm` (CI).
    LoadImm,
    /// `rd, imm << 12` (CI).
    Upper,
    /// `x2, x2, imm` in steps of 16 (CI).
    MoveSp,
    /// `rd, rd, shamt` (CI).
    Shift,
    /// `rd, imm(x2)` of 4 bytes (CI).
    LoadWordSp,
    /// `rd, imm(x2)` of 8 bytes (CI).
    LoadDoubleSp,
    /// `rs2, imm(x2)` of 4 bytes (CSS).
    StoreWordSp,
    /// `rs2, imm(x2)` of 8 bytes (CSS).
    StoreDoubleSp,
    /// `rd', rd', shamt` (CB).
    ShiftShort,
    /// `rd', rd', imm` (CB).
    ImmShort,
    /// `rd', rd', rs2'` (CA).
    Pair,
    /// `rs1', x0, offset` (CB).
    Branch,
    /// `x0, offset` (CJ).
    Jump,
    /// `x0, 0(rs1)` (CR).
    JumpReg,
    /// `x1, 0(rs1)` (CR).
    CallReg,
    /// `rd, x0, rs2` (CR).
    Move,
    /// `rd, rd, rs2` (CR).
    Add,
}

struct Row {
    match_: u16,
    mask: u16,
    op: Op,
    form: Form,
}

const fn row(match_: u16, mask: u16, op: Op, form: Form) -> Row {
    Row {
        match_,
        mask,
        op,
        form,
    }
}

/// A reserved code point of the group; `op` is the one as which it would otherwise decode.
const fn reserved(match_: u16, mask: u16, op: Op) -> Row {
    row(match_, mask, op, Form::Reserved)
}

/// Rows by quadrant and funct3.
#[rustfmt::skip]
static GROUPS: [[&[Row]; 8]; 3] = [
    [
        // The word 0 is defined to be illegal; the others without an immediate are reserved.
        &[reserved(0x0000, 0xffe3, Op::Addi),
          row(0x0000, 0xe003, Op::Addi, Form::AddSp)],
        &[row(0x2000, 0xe003, Op::Fld, Form::LoadDouble)],
        &[row(0x4000, 0xe003, Op::Lw, Form::LoadWord)],
        &[row(0x6000, 0xe003, Op::Ld, Form::LoadDouble)],
        &[],
        &[row(0xa000, 0xe003, Op::Fsd, Form::StoreDouble)],
        &[row(0xc000, 0xe003, Op::Sw, Form::StoreWord)],
        &[row(0xe000, 0xe003, Op::Sd, Form::StoreDouble)],
    ],
    [
        &[row(0x0001, 0xe003, Op::Addi, Form::Imm)],
        &[reserved(0x2001, 0xef83, Op::Addiw),
          row(0x2001, 0xe003, Op::Addiw, Form::Imm)],
        &[row(0x4001, 0xe003, Op::Addi, Form::LoadImm)],
        &[reserved(0x6001, 0xf07f, Op::Lui),
          row(0x6101, 0xef83, Op::Addi, Form::MoveSp),
          row(0x6001, 0xe003, Op::Lui, Form::Upper)],
        &[row(0x8001, 0xec03, Op::Srli, Form::ShiftShort),
          row(0x8401, 0xec03, Op::Srai, Form::ShiftShort),
          row(0x8801, 0xec03, Op::Andi, Form::ImmShort),
          row(0x8c01, 0xfc63, Op::Sub, Form::Pair),
          row(0x8c21, 0xfc63, Op::Xor, Form::Pair),
          row(0x8c41, 0xfc63, Op::Or, Form::Pair),
          row(0x8c61, 0xfc63, Op::And, Form::Pair),
          row(0x9c01, 0xfc63, Op::Subw, Form::Pair),
          row(0x9c21, 0xfc63, Op::Addw, Form::Pair)],
        &[row(0xa001, 0xe003, Op::Jal, Form::Jump)],
        &[row(0xc001, 0xe003, Op::Beq, Form::Branch)],
        &[row(0xe001, 0xe003, Op::Bne, Form::Branch)],
    ],
    [
        &[row(0x0002, 0xe003, Op::Slli, Form::Shift)],
        &[row(0x2002, 0xe003, Op::Fld, Form::LoadDoubleSp)],
        &[reserved(0x4002, 0xef83, Op::Lw),
          row(0x4002, 0xe003, Op::Lw, Form::LoadWordSp)],
        &[reserved(0x6002, 0xef83, Op::Ld),
          row(0x6002, 0xe003, Op::Ld, Form::LoadDoubleSp)],
        &[reserved(0x8002, 0xffff, Op::Jalr),
          row(0x8002, 0xf07f, Op::Jalr, Form::JumpReg),
          row(0x8002, 0xf003, Op::Add, Form::Move),
          row(0x9002, 0xffff, Op::Ebreak, Form::None),
          row(0x9002, 0xf07f, Op::Jalr, Form::CallReg),
          // `c.add x0, x2` to `c.add x0, x5`.
          row(0x900a, 0xffff, Op::NtlP1, Form::None),
          row(0x900e, 0xffff, Op::NtlPall, Form::None),
          row(0x9012, 0xffff, Op::NtlS1, Form::None),
          row(0x9016, 0xffff, Op::NtlAll, Form::None),
          row(0x9002, 0xf003, Op::Add, Form::Add)],
        &[row(0xa002, 0xe003, Op::Fsd, Form::StoreDoubleSp)],
        &[row(0xc002, 0xe003, Op::Sw, Form::StoreWordSp)],
        &[row(0xe002, 0xe003, Op::Sd, Form::StoreDoubleSp)],
    ],
];

/// Decodes a 16-bit instruction as a hart with these extensions does. `None` is an illegal or
/// reserved encoding.
pub(crate) fn decode(isa: Extensions, word: u16) -> Option<Inst> {
    if !isa.has(Ext::C) {
        return None;
    }
    let group = GROUPS.get(usize::from(word & 3))?[usize::from(word >> 13)];
    let exists = |row: &&Row| word & row.mask == row.match_ && isa.has(row.op.info().ext);
    let row = group.iter().find(exists)?;
    expand(word, row)
}

/// Pieces of a scattered immediate: (lowest bit in the instruction, bits, lowest bit in the value).
type Scatter = &'static [(u32, u32, u32)];

const IMM6: Scatter = &[(12, 1, 5), (2, 5, 0)];
const ADD_SP: Scatter = &[(11, 2, 4), (7, 4, 6), (6, 1, 2), (5, 1, 3)];
const MEM_WORD: Scatter = &[(10, 3, 3), (6, 1, 2), (5, 1, 6)];
const MEM_DOUBLE: Scatter = &[(10, 3, 3), (5, 2, 6)];
const MOVE_SP: Scatter = &[(12, 1, 9), (6, 1, 4), (5, 1, 6), (3, 2, 7), (2, 1, 5)];
const LOAD_WORD_SP: Scatter = &[(12, 1, 5), (4, 3, 2), (2, 2, 6)];
const LOAD_DOUBLE_SP: Scatter = &[(12, 1, 5), (5, 2, 3), (2, 3, 6)];
const STORE_WORD_SP: Scatter = &[(9, 4, 2), (7, 2, 6)];
const STORE_DOUBLE_SP: Scatter = &[(10, 3, 3), (7, 3, 6)];
const BRANCH: Scatter = &[(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)];
const JUMP: Scatter = &[
    (12, 1, 11),
    (11, 1, 4),
    (9, 2, 8),
    (8, 1, 10),
    (7, 1, 6),
    (6, 1, 7),
    (3, 3, 1),
    (2, 1, 5),
];

fn unsigned(word: u16, pieces: Scatter) -> i32 {
    pieces.iter().fold(0, |value, &(from, len, to)| {
        value | (i32::from(word) >> from & ((1 << len) - 1)) << to
    })
}

/// The value of `bits` bits, sign-extended.
fn signed(word: u16, pieces: Scatter, bits: u32) -> i32 {
    let unused = 32 - bits;
    unsigned(word, pieces) << unused >> unused
}

fn expand(word: u16, row: &Row) -> Option<Inst> {
    /// Stack pointer x2 and link register x1, as some forms imply them.
    const SP: u8 = 2;
    const RA: u8 = 1;
    let full = |lo: u32| (word >> lo & 31) as u8;
    let short = |lo: u32| (word >> lo & 7) as u8 + 8;
    let mut inst = Inst {
        op: row.op,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 2,
        imm: 0,
        raw: u32::from(word),
    };
    match row.form {
        Form::Reserved => return None,
        Form::None => {}
        Form::AddSp => (inst.rd, inst.rs1, inst.imm) = (short(2), SP, unsigned(word, ADD_SP)),
        Form::LoadWord => {
            (inst.rd, inst.rs1, inst.imm) = (short(2), short(7), unsigned(word, MEM_WORD));
        }
        Form::LoadDouble => {
            (inst.rd, inst.rs1, inst.imm) = (short(2), short(7), unsigned(word, MEM_DOUBLE));
        }
        Form::StoreWord => {
            (inst.rs2, inst.rs1, inst.imm) = (short(2), short(7), unsigned(word, MEM_WORD));
        }
        Form::StoreDouble => {
            (inst.rs2, inst.rs1, inst.imm) = (short(2), short(7), unsigned(word, MEM_DOUBLE));
        }
        Form::Imm => (inst.rd, inst.rs1, inst.imm) = (full(7), full(7), signed(word, IMM6, 6)),
        Form::LoadImm => (inst.rd, inst.imm) = (full(7), signed(word, IMM6, 6)),
        Form::Upper => (inst.rd, inst.imm) = (full(7), signed(word, IMM6, 6) << 12),
        Form::MoveSp => (inst.rd, inst.rs1, inst.imm) = (SP, SP, signed(word, MOVE_SP, 10)),
        Form::Shift => (inst.rd, inst.rs1, inst.imm) = (full(7), full(7), unsigned(word, IMM6)),
        Form::LoadWordSp => {
            (inst.rd, inst.rs1, inst.imm) = (full(7), SP, unsigned(word, LOAD_WORD_SP));
        }
        Form::LoadDoubleSp => {
            (inst.rd, inst.rs1, inst.imm) = (full(7), SP, unsigned(word, LOAD_DOUBLE_SP));
        }
        Form::StoreWordSp => {
            (inst.rs2, inst.rs1, inst.imm) = (full(2), SP, unsigned(word, STORE_WORD_SP));
        }
        Form::StoreDoubleSp => {
            (inst.rs2, inst.rs1, inst.imm) = (full(2), SP, unsigned(word, STORE_DOUBLE_SP));
        }
        Form::ShiftShort => {
            (inst.rd, inst.rs1, inst.imm) = (short(7), short(7), unsigned(word, IMM6));
        }
        Form::ImmShort => {
            (inst.rd, inst.rs1, inst.imm) = (short(7), short(7), signed(word, IMM6, 6));
        }
        Form::Pair => (inst.rd, inst.rs1, inst.rs2) = (short(7), short(7), short(2)),
        Form::Branch => (inst.rs1, inst.imm) = (short(7), signed(word, BRANCH, 9)),
        Form::Jump => inst.imm = signed(word, JUMP, 12),
        Form::JumpReg => inst.rs1 = full(7),
        Form::CallReg => (inst.rd, inst.rs1) = (RA, full(7)),
        Form::Move => (inst.rd, inst.rs2) = (full(7), full(2)),
        Form::Add => (inst.rd, inst.rs1, inst.rs2) = (full(7), full(7), full(2)),
    }
    Some(inst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(word: u16) -> Option<Inst> {
        super::decode(Extensions::ALL, word)
    }

    #[test]
    fn rows_lie_in_their_group_and_each_is_reachable() {
        for (quadrant, groups) in GROUPS.iter().enumerate() {
            for (funct3, rows) in groups.iter().enumerate() {
                for (at, row) in rows.iter().enumerate() {
                    assert_eq!(row.match_ & !row.mask, 0);
                    assert_eq!(row.mask & 0xe003, 0xe003);
                    assert_eq!(usize::from(row.match_ & 3), quadrant);
                    assert_eq!(usize::from(row.match_ >> 13), funct3);
                    let reachable = (0..=u16::MAX)
                        .filter(|w| w & row.mask == row.match_)
                        .any(|w| rows[..at].iter().all(|r| w & r.mask != r.match_));
                    assert!(reachable, "row {:#06x} is hidden", row.match_);
                }
            }
        }
    }

    #[test]
    fn reserved_code_points_are_illegal() {
        let reserved: &[(u16, &str)] = &[
            (0x0000, "all zero"),
            (0x0004, "c.addi4spn with immediate 0"),
            (0x8000, "quadrant 0, funct3 4"),
            (0x2005, "c.addiw x0"),
            (0x6101, "c.addi16sp 0"),
            (0x6281, "c.lui t0, 0"),
            (0x6001, "c.lui x0, 0"),
            (0x9c41, "funct2 2 beside c.addw"),
            (0x9c61, "funct2 3 beside c.addw"),
            (0x4002, "c.lwsp x0"),
            (0x6022, "c.ldsp x0"),
            (0x8002, "c.jr x0"),
        ];
        for &(word, what) in reserved {
            assert_eq!(decode(word), None, "{what}");
        }
    }

    #[test]
    fn hints_decode_as_base_forms_without_effect() {
        let base = |word| {
            let i = decode(word).unwrap();
            (i.op, i.rd, i.rs1, i.rs2, i.imm)
        };
        assert_eq!(base(0x0001), (Op::Addi, 0, 0, 0, 0), "c.nop");
        assert_eq!(base(0x0015), (Op::Addi, 0, 0, 0, 5), "c.nop 5");
        assert_eq!(base(0x0281), (Op::Addi, 5, 5, 0, 0), "c.addi t0, 0");
        assert_eq!(base(0x4005), (Op::Addi, 0, 0, 0, 1), "c.li x0, 1");
        assert_eq!(base(0x6005), (Op::Lui, 0, 0, 0, 4096), "c.lui x0, 1");
        assert_eq!(base(0x0006), (Op::Slli, 0, 0, 0, 1), "c.slli x0, 1");
        assert_eq!(base(0x0282), (Op::Slli, 5, 5, 0, 0), "c.slli t0, 0");
        assert_eq!(base(0x8001), (Op::Srli, 8, 8, 0, 0), "c.srli s0, 0");
        // Not a locality hint: those are the c.add forms only.
        assert_eq!(base(0x800a), (Op::Add, 0, 0, 2, 0), "c.mv x0, x2");
        assert_eq!(base(0x901a), (Op::Add, 0, 0, 6, 0), "c.add x0, x6");
    }

    #[test]
    fn locality_hints_have_compressed_forms() {
        for (word, op) in [
            (0x900a, Op::NtlP1),
            (0x900e, Op::NtlPall),
            (0x9012, Op::NtlS1),
            (0x9016, Op::NtlAll),
        ] {
            assert_eq!(decode(word).unwrap().op, op);
        }
    }
}
