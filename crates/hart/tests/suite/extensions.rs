//! A hart without an extension: its instructions are illegal, its CSRs and their fields do not
//! exist, and `misa` says so.

use crate::common::bare::{Bare, BASE, OPEN};
use crate::common::{csrr, csrw, i, n, rocket, s, u};
use nagori_hart::trap::{cause, status};
use nagori_hart::world::Bus;
use nagori_hart::{HartConfig, HartError};
use nagori_isa::csr::{self, CSRS};
use nagori_isa::{decode, Ext, Extensions, Op, OPS};

const DATA: u64 = BASE + 0x2000;
const NOP: u32 = 0x13;
const FROM_M: u64 = cause::ECALL_U + 3;

fn config(isa: Extensions) -> HartConfig {
    HartConfig { isa, ..rocket() }
}

/// Extensions that a hart can be without.
fn optional() -> impl Iterator<Item = Ext> {
    let needed = |e: &Ext| !matches!(e, Ext::I | Ext::Zicsr | Ext::Priv);
    Ext::ALL.iter().copied().filter(needed)
}

/// A hart in machine mode in front of words, with floating point on if it has it.
fn bare(isa: Extensions, timed: bool, words: &[u32]) -> Bare {
    let mut b = Bare::new(config(isa), timed, words);
    if isa.has(Ext::F) {
        b.h.state.csr.mstatus |= status::FS;
    }
    b.h.set_reg(6, DATA);
    b
}

#[test]
fn every_instruction_needs_its_extension() {
    let mut illegal = 0;
    for ext in optional() {
        let without = Extensions::ALL.without(ext);
        for row in OPS.iter().filter(|r| !without.has(r.ext)) {
            // The address of memory is in x6; 8 is also an offset from it.
            let word = row.match_ | (8 << 7 | 6 << 15 | 8 << 20) & !row.mask;
            assert_eq!(decode(word).map(|i| i.op), Some(row.op));
            for timed in [false, true] {
                let run = |isa| bare(isa, timed, &[word, n(Op::Ecall)]).run_to_trap();
                assert_eq!(run(Extensions::ALL), (FROM_M, BASE + 4, 0), "{}", row.name);
                let want = if row.ext.is_hint() {
                    (FROM_M, BASE + 4, 0)
                } else {
                    illegal += 1;
                    (cause::ILLEGAL, BASE, word as u64)
                };
                assert_eq!(run(without), want, "{} without {}", row.name, ext.name());
            }
        }
    }
    // 13 of M, 22 of A, 30 of F and 32 of D without F, 32 without D, fence.i, four of caches, two flushes.
    let first = 13 + 22 + 30 + 32 + 32 + 1 + 4 + 2;
    // Three of Zacas without it and without A, 8 of Zba, 24 of Zbb, 8 of Zbs, 2 of Zicond.
    assert_eq!(illegal, 2 * (first + 2 * 3 + 8 + 24 + 8 + 2));
}

#[test]
fn hints_without_their_extension_change_nothing() {
    for row in OPS.iter().filter(|r| r.ext.is_hint()) {
        let word = row.match_ | 6 << 15 & !row.mask;
        let mut b = bare(
            Extensions::ALL.without(row.ext),
            true,
            &[word, n(Op::Ecall)],
        );
        b.run_to_trap();
        for r in (0..32).filter(|r| *r != 6) {
            assert_eq!(b.h.reg(r), 0, "{}", row.name);
        }
    }
}

#[test]
fn every_csr_needs_its_extension() {
    for ext in optional() {
        let without = Extensions::ALL.without(ext);
        let rows = CSRS.iter().filter(|r| r.ext == ext);
        for number in rows.flat_map(|r| r.first..r.first + r.count) {
            let read = csrr(7, number);
            let run = |isa| bare(isa, false, &[read, n(Op::Ecall)]).run_to_trap();
            let name = csr::name(number);
            assert_eq!(run(Extensions::ALL), (FROM_M, BASE + 4, 0), "{name}");
            let want = (cause::ILLEGAL, BASE, read as u64);
            assert_eq!(run(without), want, "{name} without {}", ext.name());
            // Nor does a debugger see it.
            let mut b = bare(without, false, &[]);
            assert_eq!(b.h.csr(&mut b.w, number), None);
            assert!(!b.h.put_csr(&mut b.w, number, 1));
        }
    }
}

/// What a register reads after all its bits are written.
fn all_ones(isa: Extensions, number: u16) -> u64 {
    let mut b = bare(
        isa,
        false,
        &[csrw(number, 5), csrr(7, number), n(Op::Ecall)],
    );
    b.h.set_reg(5, u64::MAX);
    assert_eq!(b.run_to_trap(), (FROM_M, BASE + 8, 0));
    b.h.reg(7)
}

#[test]
fn fields_of_an_extension_are_zero_without_it() {
    let all = Extensions::ALL;
    let bits = |ext, number| all_ones(all, number) & !all_ones(all.without(ext), number);
    const SD: u64 = 1 << 63;
    assert_eq!(bits(Ext::F, 0x300), status::FS | SD);
    assert_eq!(bits(Ext::F, 0x100), status::FS | SD);
    for envcfg in [0x30a, 0x10a] {
        assert_eq!(bits(Ext::Zicbom, envcfg), 7 << 4);
        assert_eq!(bits(Ext::Zicboz, envcfg), 1 << 7);
    }
    assert_eq!(bits(Ext::Sstc, 0x30a), 1 << 63);
    assert_eq!(bits(Ext::Svadu, 0x30a), 1 << 61);
    assert_eq!(bits(Ext::C, 0x341), 2);
    assert_eq!(bits(Ext::C, 0x141), 2);
    for counteren in [0x306, 0x106] {
        assert_eq!(bits(Ext::Zihpm, counteren), 0xffff_fff8);
        assert_eq!(bits(Ext::Zicntr, counteren), 5);
        let neither = all.without(Ext::Zicntr).without(Ext::Sstc);
        assert_eq!(all_ones(neither, counteren), 0xffff_fff8);
    }
    for (ext, letter) in [
        (Ext::M, b'm'),
        (Ext::A, b'a'),
        (Ext::D, b'd'),
        (Ext::C, b'c'),
    ] {
        assert_eq!(bits(ext, 0x301), 1 << (letter - b'a'));
    }
    assert_eq!(bits(Ext::F, 0x301), 1 << 5 | 1 << 3, "d goes with f");
}

#[test]
fn counters_of_user_mode_need_their_extension() {
    let user = |isa, number| {
        let mut b = bare(isa, false, &[]);
        b.put(BASE + 0x1000, &[csrr(7, number), n(Op::Ecall)]);
        b.enter(0, BASE + 0x1000, 0, 0, OPEN);
        b.h.state.csr.mcounteren = u64::MAX;
        b.h.state.csr.scounteren = u64::MAX;
        b.run_to_trap().0
    };
    for number in [0xc00, 0xc01, 0xc02, 0xc03, 0xc1f] {
        let ext = if number < 0xc03 {
            Ext::Zicntr
        } else {
            Ext::Zihpm
        };
        assert_eq!(user(Extensions::ALL, number), cause::ECALL_U);
        assert_eq!(user(Extensions::ALL.without(ext), number), cause::ILLEGAL);
    }
}

#[test]
fn compressed_instructions_need_c() {
    let without = Extensions::ALL.without(Ext::C);
    for timed in [false, true] {
        // c.nop, c.li x5, 1, and c.ebreak.
        for half in [0x0001u32, 0x4285, 0x9002] {
            let mut b = bare(without, timed, &[NOP, 0x0001_0000 | half]);
            let want = (cause::ILLEGAL, BASE + 4, half as u64);
            assert_eq!(b.run_to_trap(), want, "{half:#x}");
        }
    }
}

#[test]
fn jumps_between_instructions_trap_without_c() {
    let without = Extensions::ALL.without(Ext::C);
    for timed in [false, true] {
        // The word behind the jump; a target in the middle of it would be c.nop, twice.
        let run = |isa, jump: u32| {
            let mut b = bare(isa, timed, &[NOP, jump, 0x0001_0001, n(Op::Ecall)]);
            b.h.set_reg(5, BASE + 10);
            (b.run_to_trap(), b.h.reg(1))
        };
        let to = BASE + 10;
        for jump in [
            u(Op::Jal, 1, 6),
            i(Op::Jalr, 1, 5, 0),
            i(Op::Jalr, 1, 5, 1),
            s(Op::Beq, 0, 0, 6),
            s(Op::Bge, 6, 6, 6),
        ] {
            let linked = if jump & 0x7f == 0x63 { 0 } else { BASE + 8 };
            assert_eq!(
                run(Extensions::ALL, jump),
                ((FROM_M, BASE + 12, 0), linked),
                "{jump:#x}"
            );
            let want = (cause::FETCH_MISALIGNED, BASE + 4, to);
            assert_eq!(run(without, jump), (want, 0), "{jump:#x} links nothing");
        }
        // Not taken, and to the place of an instruction.
        for (jump, next) in [
            (s(Op::Bne, 0, 0, 6), NOP),
            (u(Op::Jal, 0, 8), 0),
            (s(Op::Beq, 0, 0, 8), 0),
            (i(Op::Jalr, 0, 5, 2), 0),
        ] {
            let mut b = bare(without, timed, &[NOP, jump, next, n(Op::Ecall)]);
            b.h.set_reg(5, BASE + 10);
            assert_eq!(b.run_to_trap(), (FROM_M, BASE + 12, 0), "{jump:#x}");
        }
        // A debugger may put the program counter anywhere.
        let mut b = bare(without, timed, &[NOP, NOP]);
        b.h.state.pc = BASE + 2;
        let want = (cause::FETCH_MISALIGNED, BASE, BASE + 2);
        assert_eq!(b.run_to_trap(), want);
    }
}

#[test]
fn integer_harts_run_integer_programs() {
    let few = [Ext::I, Ext::M, Ext::A, Ext::Zicsr];
    let few = Extensions::from_iter(few);
    let words = [
        i(Op::Addi, 5, 0, 6),
        crate::common::r(Op::Mul, 5, 5, 5),
        crate::common::r(Op::AmoaddD, 7, 6, 5),
        n(Op::Ecall),
    ];
    let mut b = bare(few, true, &words);
    assert_eq!(b.run_to_trap(), (FROM_M, BASE + 12, 0));
    assert_eq!(b.w.ram().read_u64(DATA - BASE), Some(36));
}

#[test]
fn sets_that_make_no_sense_are_refused() {
    let error = |list: &[Ext]| {
        let isa = list.iter().copied().collect();
        nagori_hart::Hart::new(0, config(isa)).err()
    };
    let lacks = |ext, needs| Some(HartError::Extension { ext, needs });
    assert_eq!(error(&[Ext::I, Ext::Zicsr]), None);
    assert_eq!(error(&[Ext::I, Ext::Zicsr, Ext::D]), lacks("d", "f"));
    assert_eq!(error(&[Ext::I]), lacks("priv", "zicsr"));
    assert_eq!(error(&[Ext::Zicsr]), lacks("zicsr", "i"));
}
