//! The instruction table is consistent, and decoder and encoder agree on it.

use nagori_isa::{decode, disassemble, encode, inst_len, Inst, Op, OPS};
use proptest::prelude::*;

fn reserved_for_longer_instructions(word: u32) -> bool {
    word & 0x1f == 0x1f
}

#[test]
fn rows_are_in_the_order_of_the_enum() {
    for (at, row) in OPS.iter().enumerate() {
        assert_eq!(row.op as usize, at, "{}", row.name);
        assert_eq!(row.op.info(), row);
    }
}

#[test]
fn fixed_bits_lie_within_the_mask_and_tell_the_length() {
    for row in OPS {
        assert_eq!(row.match_ & !row.mask, 0, "{}", row.name);
        assert_eq!(row.mask & 0x7f, 0x7f, "{} leaves the opcode open", row.name);
        assert_eq!(
            row.match_ & 3,
            3,
            "{} is not a 32-bit instruction",
            row.name
        );
        assert!(
            !reserved_for_longer_instructions(row.match_),
            "{}",
            row.name
        );
    }
}

#[test]
fn names_are_unique_and_are_those_of_the_enum() {
    let mut names: Vec<_> = OPS.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OPS.len());
    for row in OPS {
        let camel: String = row
            .name
            .split('.')
            .map(|part| part[..1].to_uppercase() + &part[1..])
            .collect();
        assert_eq!(format!("{:?}", row.op), camel);
    }
}

#[test]
fn rows_that_overlap_are_a_case_of_one_another() {
    for (at, a) in OPS.iter().enumerate() {
        for b in &OPS[at + 1..] {
            let common = a.mask & b.mask;
            if (a.match_ ^ b.match_) & common == 0 {
                let nested = a.mask != b.mask && (common == a.mask || common == b.mask);
                assert!(nested, "{} and {} overlap", a.name, b.name);
            }
        }
    }
}

#[test]
fn a_word_of_every_row_decodes_to_it() {
    for row in OPS {
        let word = row.match_ | !row.mask;
        let inst = decode(word).unwrap_or_else(|| panic!("{} does not decode", row.name));
        assert_eq!((inst.op, inst.len, inst.raw), (row.op, 4, word));
    }
}

#[test]
fn special_cases_win_over_the_general_row() {
    let op = |word| decode(word).map(|i| i.op);
    assert_eq!(op(0x0220_6013), Some(Op::Ori), "rs2 field 2 is no prefetch");
    assert_eq!(op(0x0210_6013), Some(Op::PrefetchR));
    assert_eq!(op(0x0210_6093), Some(Op::Ori), "rd is not x0");
    assert_eq!(op(0x0100_000f), Some(Op::Pause));
    assert_eq!(op(0x0100_008f), Some(Op::Fence));
    assert_eq!(op(0x0020_0033), Some(Op::NtlP1));
    assert_eq!(op(0x0060_0033), Some(Op::Add));
    assert_eq!(op(0x4e05_2013), Some(Op::MarkRoiBegin));
    assert_eq!(op(0x4e70_2013), Some(Op::MarkStop));
    assert_eq!(op(0x4e80_2013), Some(Op::Slti), "the next number is free");
    assert_eq!(op(0x4e00_2093), Some(Op::Slti), "rd is not x0");
    assert_eq!(op(0x4e00_3013), Some(Op::Sltiu));
    assert_eq!(op(0x0020_00b3), Some(Op::Add));
}

#[test]
fn illegal_words_are_refused() {
    for (word, what) in [
        (0x0000_0000, "all zero"),
        (0xffff_ffff, "all one"),
        (0x0000_001f, "longer than 32 bits"),
        (0x1010_252f, "lr.w with rs2"),
        (0x1010_352f, "lr.d with rs2"),
        (0x0000_452f, "atomic of another width"),
        (0x0000_00f3, "ecall with rd"),
        (0x0000_8073, "ecall with rs1"),
        (0x3020_00f3, "mret with rd"),
        (0x1200_00f3, "sfence.vma with rd"),
        (0x1600_0073, "sinval.vma"),
        (0xfc00_00f3, "cflush.d.l1 with rd"),
        (0xfc00_4073, "SYSTEM with funct3 4"),
        (0x0000_7003, "load of width 7"),
        (0x0000_4023, "store of width 4"),
        (0x0400_1013 | 1 << 30, "slli with bit 30"),
        (0x0200_101b, "slliw by 32"),
        (0x0400_0053, "floating-point format 2 (half)"),
        (0x0600_0053, "floating-point format 3 (quad)"),
        (0x0000_1067, "jalr with funct3 1"),
        (0x0000_2063, "branch with funct3 2"),
        (0x0030_200f, "cbo 3"),
        (0x0010_208f, "cbo.clean with rd"),
    ] {
        assert_eq!(decode(word), None, "{what}");
    }
}

#[test]
fn reserved_fields_of_fences_are_ignored() {
    for word in [0x0ff0_000f, 0x8330_000f, 0xf330_000f, 0x0ff5_858f] {
        let inst = decode(word).unwrap();
        assert_eq!(inst.op, Op::Fence);
        assert_eq!(inst.imm as u32, word >> 20);
    }
    assert_eq!(decode(0xfff5_958f).unwrap().op, Op::FenceI);
}

#[test]
fn immediates_reach_both_ends_of_their_ranges() {
    let imm = |word| decode(word).unwrap().imm;
    assert_eq!(imm(0x7ff0_0013), 2047);
    assert_eq!(imm(0x8000_0013), -2048);
    assert_eq!(imm(0x7e00_0fa3), 2047);
    assert_eq!(imm(0x8000_0023), -2048);
    assert_eq!(imm(0x7e00_0fe3), 4094);
    assert_eq!(imm(0x8000_0063), -4096);
    assert_eq!(imm(0x7fff_f06f), 0xf_fffe);
    assert_eq!(imm(0x8000_006f), -0x10_0000);
    assert_eq!(imm(0x7fff_f037), 0x7fff_f000);
    assert_eq!(imm(0x8000_0037), i32::MIN);
    assert_eq!(imm(0x03f0_1013), 63);
    assert_eq!(imm(0x01f0_101b), 31);
    assert_eq!(imm(0xfff0_1073), 4095);
    assert_eq!(imm(0x7e00_6013), 2016);
    assert_eq!(imm(0x8000_6013), -2048);
}

#[test]
fn reserved_rounding_modes_decode() {
    for rm in 0..8 {
        let inst = decode(0x0000_0053 | rm << 12).unwrap();
        assert_eq!((inst.op, u32::from(inst.rm)), (Op::FaddS, rm));
    }
}

#[test]
fn the_encoder_refuses_what_does_not_fit() {
    let addi = decode(0x0015_0513).unwrap();
    let beq = decode(0x0000_0463).unwrap();
    let add = decode(0x00b5_0533).unwrap();
    let refused = |inst: Inst, what: &str| assert_eq!(encode(&inst), None, "{what}");
    refused(Inst { imm: 2048, ..addi }, "immediate too large");
    refused(Inst { imm: -2049, ..addi }, "immediate too small");
    refused(Inst { rd: 32, ..addi }, "no such register");
    refused(Inst { rs2: 1, ..addi }, "a field addi does not have");
    refused(Inst { imm: 3, ..beq }, "odd offset");
    refused(Inst { imm: 4096, ..beq }, "offset too far");
    let hint = Inst {
        rd: 0,
        rs1: 0,
        rs2: 2,
        ..add
    };
    refused(hint, "the word is ntl.p1");
}

/// A word of a given row: operand bits from `fill`.
fn word_of(row: usize, fill: u32) -> u32 {
    OPS[row].match_ | fill & !OPS[row].mask
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_row_goes_through_decode_and_encode(fill: u32) {
        for (at, row) in OPS.iter().enumerate() {
            let word = word_of(at, fill);
            let inst = decode(word).expect(row.name);
            // Some words of a row are a more specific instruction.
            let info = inst.op.info();
            prop_assert!(inst.op == row.op || info.mask & row.mask == row.mask);
            prop_assert_eq!(encode(&inst), Some(word), "{}", row.name);
            prop_assert!(disassemble(&inst, 0).starts_with(info.name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn decode_is_total_and_undone_by_encode(word: u32) {
        if let Some(inst) = decode(word) {
            if word & 3 == 3 {
                prop_assert_eq!(inst.raw, word);
                prop_assert_eq!(inst.len, 4);
                prop_assert_eq!(encode(&inst), Some(word));
            } else {
                prop_assert_eq!(inst.raw, word & 0xffff);
                prop_assert_eq!(inst.len, 2);
            }
            prop_assert_eq!(inst.len, inst_len(word as u16));
        }
        if reserved_for_longer_instructions(word) {
            prop_assert_eq!(decode(word), None);
        }
    }

    #[test]
    fn encode_is_total_and_undone_by_decode(
        op in 0..OPS.len(), rd: u8, rs1: u8, rs2: u8, rs3: u8, rm: u8, imm: i32, pc: u64,
    ) {
        let inst = Inst { op: OPS[op].op, rd, rs1, rs2, rs3, rm, len: 4, imm, raw: 0 };
        if let Some(word) = encode(&inst) {
            prop_assert_eq!(decode(word), Some(Inst { raw: word, ..inst }));
        }
        disassemble(&inst, pc);
    }
}

#[test]
fn the_linear_search_of_the_table_gives_the_same() {
    // A plain reading of the table, against the buckets of the decoder.
    let search = |word: u32| {
        OPS.iter()
            .filter(|row| word & row.mask == row.match_)
            .max_by_key(|row| row.mask.count_ones())
            .map(|row| row.op)
    };
    let mut word = 1u32;
    for _ in 0..300_000 {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = word.rotate_right(11) | 3;
        assert_eq!(decode(word).map(|i| i.op), search(word), "{word:#010x}");
    }
}

#[test]
fn compressed_instructions_have_a_full_form_that_decodes_alike() {
    let mut without = 0;
    for half in 0..=u16::MAX {
        if half & 3 == 3 {
            continue;
        }
        assert_eq!(
            decode(u32::from(half)),
            decode(u32::from(half) | 0xabcd_0000)
        );
        let Some(inst) = decode(u32::from(half)) else {
            continue;
        };
        match encode(&inst) {
            Some(word) => {
                let full = Inst {
                    len: 2,
                    raw: u32::from(half),
                    ..decode(word).unwrap()
                };
                assert_eq!(full, inst);
            }
            // `c.mv x0, x2..x5` are hints whose full forms are locality hints.
            None => {
                assert_eq!((inst.op, inst.rd), (Op::Add, 0));
                without += 1;
            }
        }
    }
    assert_eq!(without, 4);
}
