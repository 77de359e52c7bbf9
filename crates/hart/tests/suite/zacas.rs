//! Compare and swap: words, double words, pairs; by one hart and by several.

use crate::common::bare::{Bare, BASE};
use crate::common::smp::{each, repeat, Machine, DATA};
use crate::common::{i, n, rm, rocket, s};
use nagori_hart::trap::cause;
use nagori_hart::world::Bus;
use nagori_isa::decode;
use nagori_isa::Op::*;

const AT: u64 = BASE + 0x2000;
const FROM_M: u64 = cause::ECALL_U + 3;

/// Runs an instruction on two double words of memory with x6 as their address and these registers.
fn run(timed: bool, word: u32, memory: [u64; 2], regs: &[(usize, u64)]) -> (Bare, [u64; 2]) {
    let mut b = Bare::new(rocket(), timed, &[word, n(Ecall)]);
    let at = AT - BASE;
    for (k, v) in memory.into_iter().enumerate() {
        b.w.ram()
            .write_u64(at + 8 * k as u64, v)
            .expect("in memory");
    }
    b.h.set_reg(6, AT);
    for (r, v) in regs {
        b.h.set_reg(*r, *v);
    }
    assert_eq!(b.run_to_trap(), (FROM_M, BASE + 4, 0));
    let read = |k: u64| b.w.ram().read_u64(at + 8 * k).expect("in memory");
    let after = [read(0), read(1)];
    (b, after)
}

#[test]
fn what_is_equal_is_swapped() {
    const HIGH: u64 = 0x1111_2222_8000_0001;
    for timed in [false, true] {
        // A word is compared by its low half and sign-extended.
        let word = rm(AmocasW, 10, 6, 11, 0);
        let (b, m) = run(
            timed,
            word,
            [HIGH, 0],
            &[(10, 0x7777_0000_8000_0001), (11, 5)],
        );
        assert_eq!(
            (m[0], b.h.reg(10)),
            (0x1111_2222_0000_0005, 0xffff_ffff_8000_0001)
        );
        let (b, m) = run(timed, word, [HIGH, 0], &[(10, 0x8000_0002), (11, 5)]);
        assert_eq!((m[0], b.h.reg(10)), (HIGH, 0xffff_ffff_8000_0001));
        let double = rm(AmocasD, 10, 6, 11, 3);
        let (b, m) = run(timed, double, [HIGH, 0], &[(10, HIGH), (11, 5)]);
        assert_eq!((m[0], b.h.reg(10)), (5, HIGH));
        let (b, m) = run(timed, double, [HIGH, 0], &[(10, 0x8000_0001), (11, 5)]);
        assert_eq!((m[0], b.h.reg(10)), (HIGH, HIGH));
        // x0 compares with zero and drops what memory held.
        let (b, m) = run(timed, rm(AmocasD, 0, 6, 11, 0), [0, 0], &[(11, 5)]);
        assert_eq!((m[0], b.h.reg(0)), (5, 0));
        let (_, m) = run(timed, rm(AmocasD, 0, 6, 11, 0), [7, 0], &[(11, 5)]);
        assert_eq!(m[0], 7);
    }
}

#[test]
fn pairs() {
    for timed in [false, true] {
        let pair = rm(AmocasQ, 10, 6, 12, 0);
        let regs = [(10, 1), (11, 2), (12, 8), (13, 9)];
        let (b, m) = run(timed, pair, [1, 2], &regs);
        assert_eq!((m, b.h.reg(10), b.h.reg(11)), ([8, 9], 1, 2));
        for other in [[1, 3], [4, 2]] {
            let (b, m) = run(timed, pair, other, &regs);
            assert_eq!((m, [b.h.reg(10), b.h.reg(11)]), (other, other));
        }
        let (b, m) = run(
            timed,
            rm(AmocasQ, 0, 6, 12, 0),
            [0, 0],
            &[(1, 4), (12, 8), (13, 9)],
        );
        assert_eq!((m, b.h.reg(1)), ([8, 9], 4), "x1 is not of the pair of x0");
        let (_, m) = run(
            timed,
            rm(AmocasQ, 10, 6, 0, 0),
            [1, 2],
            &[(1, 4), (10, 1), (11, 2)],
        );
        assert_eq!(m, [0, 0]);
    }
    let odd = [
        AmocasQ.info().match_ | 11 << 7 | 6 << 15,
        AmocasQ.info().match_ | 6 << 15 | 13 << 20,
    ];
    assert!(odd.into_iter().all(|w| decode(w).is_none()));
}

#[test]
fn addresses_are_aligned_and_writable() {
    for timed in [false, true] {
        for (op, size) in [(AmocasW, 4), (AmocasD, 8), (AmocasQ, 16)] {
            let mut b = Bare::new(rocket(), timed, &[rm(op, 10, 6, 12, 0)]);
            b.h.set_reg(6, AT + size / 2);
            let want = (cause::STORE_MISALIGNED, BASE, AT + size / 2);
            assert_eq!(b.run_to_trap(), want, "{}", op.name());
        }
    }
}

/// Each hart adds one to a counter, over and over, by compare and swap of what it has read.
#[test]
fn no_increment_is_lost() {
    const COUNT: i32 = 150;
    each(|timed, slice, harts| {
        for (load, cas, second) in [(Ld, AmocasD, 8), (Lw, AmocasW, 8), (Ld, AmocasQ, 0)] {
            let mut body = vec![i(load, 14, 10, 0), i(Addi, 16, 14, 1)];
            if cas == AmocasQ {
                // The second half counts twice as fast.
                body.extend([i(Ld, 15, 10, 8), i(Addi, 17, 15, 2)]);
            }
            body.push(i(Addi, 5, 14, 0));
            body.push(i(Addi, 6, 15, 0));
            body.push(rm(cas, 14, 10, 16, 0));
            let back = -4 * body.len() as i32;
            body.push(s(Bne, 5, 14, back));
            if cas == AmocasQ {
                body.push(s(Bne, 6, 15, back - 4));
            }
            let mut m = Machine::new(&vec![repeat(COUNT, &body); harts], timed);
            m.run(slice);
            let total = COUNT as u64 * harts as u64;
            assert_eq!(m.word(DATA), total, "{} {timed} {slice}", cas.name());
            if second == 0 {
                assert_eq!(m.word(DATA + 8), 2 * total);
            }
        }
    });
}
