//! From instruction words to [`Inst`].

use crate::compressed;
use crate::ext::Extensions;
use crate::format::Format;
use crate::inst::Inst;
use crate::ops::{Op, OPS, TABLE};

/// Decodes an instruction of any extension. Where the low two bits are not 3 it is a 16-bit
/// instruction in the low half (the high half is ignored). `None` is an illegal or reserved encoding.
pub fn decode(word: u32) -> Option<Inst> {
    decode_with(Extensions::ALL, word)
}

/// Decodes an instruction as a hart with these extensions does: instructions of other extensions
/// are illegal, except for hints, which decode as they do without their extension.
pub fn decode_with(isa: Extensions, word: u32) -> Option<Inst> {
    if word & 3 != 3 {
        return compressed::decode(isa, word as u16);
    }
    let bucket = bucket_of(word);
    let rows =
        &BUCKETS.rows[usize::from(BUCKETS.start[bucket])..usize::from(BUCKETS.start[bucket + 1])];
    let row = rows
        .iter()
        .map(|&i| &OPS[usize::from(i)])
        .find(|row| word & row.mask == row.match_ && isa.has(row.ext))?;
    Some(extract(word, row.op, row.format))
}

const OPCODE_AMO: u32 = 0x2f;
const OPCODE_FP: u32 = 0x53;
const BUCKET_COUNT: usize = 1024;

/// Bucket of a 32-bit word: the opcode (bits 6:2) and the field that distinguishes most of its
/// instructions, which is funct3, for atomics and floating point funct5.
const fn bucket_of(word: u32) -> usize {
    let opcode = word & 0x7f;
    let second = match opcode {
        OPCODE_AMO | OPCODE_FP => word >> 27,
        _ => word >> 12 & 7,
    };
    ((opcode >> 2) << 5 | second) as usize
}

/// Rows of the instruction table by bucket, the more specific first.
struct Buckets {
    /// Bucket `b` is `rows[start[b]..start[b + 1]]`.
    start: [u16; BUCKET_COUNT + 1],
    rows: [u16; ROW_SLOTS],
}

/// Upper bound of the number of entries: a row whose mask leaves the key open is in several
/// buckets.
const ROW_SLOTS: usize = TABLE.len() + 8 * 16;

static BUCKETS: Buckets = build_buckets();

/// Buckets that contain words of a row: first key, step between keys, number of keys.
const fn keys_of(match_: u32, mask: u32) -> (usize, usize) {
    let key_bits = match match_ & 0x7f {
        OPCODE_AMO | OPCODE_FP => 0xf800_0000,
        _ => 0x7000,
    };
    let first = bucket_of(match_);
    if mask & key_bits == key_bits {
        (first, 1)
    } else {
        // A row fixes either all bits of the key or none (a test checks this).
        assert!(mask & key_bits == 0 && key_bits == 0x7000);
        (first, 8)
    }
}

const fn build_buckets() -> Buckets {
    let mut count = [0u16; BUCKET_COUNT + 1];
    let mut i = 0;
    while i < TABLE.len() {
        let (first, n) = keys_of(TABLE[i].match_, TABLE[i].mask);
        let mut k = 0;
        while k < n {
            count[first + k + 1] += 1;
            k += 1;
        }
        i += 1;
    }
    let mut b = 0;
    while b < BUCKET_COUNT {
        count[b + 1] += count[b];
        b += 1;
    }
    let start = count;
    let mut rows = [0u16; ROW_SLOTS];
    let mut filled = [0u16; BUCKET_COUNT];
    let mut i = 0;
    while i < TABLE.len() {
        let (first, n) = keys_of(TABLE[i].match_, TABLE[i].mask);
        let mut k = 0;
        while k < n {
            let base = start[first + k] as usize;
            let mut at = base + filled[first + k] as usize;
            // Insertion sort: rows with more fixed bits come first.
            while at > base
                && TABLE[rows[at - 1] as usize].mask.count_ones() < TABLE[i].mask.count_ones()
            {
                rows[at] = rows[at - 1];
                at -= 1;
            }
            rows[at] = i as u16;
            filled[first + k] += 1;
            k += 1;
        }
        i += 1;
    }
    Buckets { start, rows }
}

/// `len` bits of `word` from bit `lo`.
fn bits(word: u32, lo: u32, len: u32) -> u32 {
    word >> lo & ((1 << len) - 1)
}

fn reg(word: u32, lo: u32) -> u8 {
    bits(word, lo, 5) as u8
}

/// Signed 12-bit immediate of loads and register-immediate instructions.
fn imm_i(word: u32) -> i32 {
    word as i32 >> 20
}

/// Signed 12-bit immediate of stores.
fn imm_s(word: u32) -> i32 {
    (word as i32 >> 25) << 5 | bits(word, 7, 5) as i32
}

fn imm_b(word: u32) -> i32 {
    (word as i32 >> 31) << 12
        | (bits(word, 7, 1) << 11 | bits(word, 25, 6) << 5 | bits(word, 8, 4) << 1) as i32
}

fn imm_j(word: u32) -> i32 {
    (word as i32 >> 31) << 20
        | (bits(word, 12, 8) << 12 | bits(word, 20, 1) << 11 | bits(word, 21, 10) << 1) as i32
}

fn extract(word: u32, op: Op, format: Format) -> Inst {
    let mut inst = Inst {
        op,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 4,
        imm: 0,
        raw: word,
    };
    let (rd, rs1, rs2) = (reg(word, 7), reg(word, 15), reg(word, 20));
    let rm = bits(word, 12, 3) as u8;
    match format {
        Format::None => {}
        Format::R | Format::FpPair | Format::FpCompare => {
            (inst.rd, inst.rs1, inst.rs2) = (rd, rs1, rs2);
        }
        Format::I | Format::Jalr | Format::Load | Format::FpLoad => {
            (inst.rd, inst.rs1, inst.imm) = (rd, rs1, imm_i(word));
        }
        Format::Fence | Format::FenceI | Format::Csr | Format::CsrImm => {
            (inst.rd, inst.rs1, inst.imm) = (rd, rs1, bits(word, 20, 12) as i32);
        }
        Format::Store | Format::FpStore => {
            (inst.rs1, inst.rs2, inst.imm) = (rs1, rs2, imm_s(word));
        }
        Format::B => (inst.rs1, inst.rs2, inst.imm) = (rs1, rs2, imm_b(word)),
        Format::U => (inst.rd, inst.imm) = (rd, (word & 0xffff_f000) as i32),
        Format::J => (inst.rd, inst.imm) = (rd, imm_j(word)),
        Format::Shift6 => {
            (inst.rd, inst.rs1, inst.imm) = (rd, rs1, bits(word, 20, 6) as i32);
        }
        Format::Shift5 => (inst.rd, inst.rs1, inst.imm) = (rd, rs1, i32::from(rs2)),
        Format::Unary => (inst.rd, inst.rs1) = (rd, rs1),
        Format::Amo | Format::Cas | Format::CasPair => {
            (inst.rd, inst.rs1, inst.rs2) = (rd, rs1, rs2);
            inst.rm = bits(word, 25, 2) as u8;
        }
        Format::LoadReserved => {
            (inst.rd, inst.rs1, inst.rm) = (rd, rs1, bits(word, 25, 2) as u8);
        }
        Format::FpFma => {
            (inst.rd, inst.rs1, inst.rs2, inst.rs3) = (rd, rs1, rs2, reg(word, 27));
            inst.rm = rm;
        }
        Format::FpArith => (inst.rd, inst.rs1, inst.rs2, inst.rm) = (rd, rs1, rs2, rm),
        Format::FpUnary | Format::FpToInt | Format::FpFromInt => {
            (inst.rd, inst.rs1, inst.rm) = (rd, rs1, rm);
        }
        Format::FpMoveToInt | Format::FpMoveFromInt => (inst.rd, inst.rs1) = (rd, rs1),
        Format::Sfence => (inst.rs1, inst.rs2) = (rs1, rs2),
        Format::Cbo | Format::Cflush | Format::Mark => inst.rs1 = rs1,
        Format::Prefetch => (inst.rs1, inst.imm) = (rs1, imm_i(word) & !31),
    }
    inst
}
