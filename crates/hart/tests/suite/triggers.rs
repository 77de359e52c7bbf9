//! Debug triggers: what fires, when, and that nothing else notices.

use crate::common::bare::{Bare, BASE, OPEN};
use crate::common::guest::{Sv39, USER_ALL};
use crate::common::{csrr, csrw, i, n, r, rm, rocket, s, u};
use nagori_hart::trap::{cause, status};
use nagori_hart::world::Bus;
use nagori_hart::HartConfig;
use nagori_isa::Op;

const NOP: u32 = 0x13;
const DATA: u64 = BASE + 0x2000;
const CODE: u64 = BASE + 0x1000;
const BREAK: u64 = cause::BREAKPOINT;
const FROM_M: u64 = cause::ECALL_U + 3;

const TSELECT: u16 = 0x7a0;
const TDATA1: u16 = 0x7a1;
const TDATA2: u16 = 0x7a2;
const TDATA3: u16 = 0x7a3;
const TINFO: u16 = 0x7a4;

const TYPE6: u64 = 6 << 60;
const DISABLED: u64 = 15 << 60;
const HIT0: u64 = 1 << 22;
const M: u64 = 1 << 6;
const S: u64 = 1 << 4;
const U: u64 = 1 << 3;
const EXECUTE: u64 = 4;
const STORE: u64 = 2;
const LOAD: u64 = 1;

fn kind(m: u64) -> u64 {
    m << 7
}
fn sized(n: u64) -> u64 {
    n << 16
}

fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

/// A hart in machine mode with interrupts on (and none enabled), with memory in x6.
fn bare(timed: bool, words: &[u32]) -> Bare {
    let mut b = Bare::new(rocket(), timed, words);
    b.h.state.csr.mstatus |= status::MIE;
    b.h.set_reg(6, DATA);
    b
}

fn set(b: &mut Bare, trigger: u64, data1: u64, data2: u64) {
    for (number, value) in [(TSELECT, trigger), (TDATA2, data2), (TDATA1, data1)] {
        assert!(b.h.put_csr(&mut b.w, number, value));
    }
}

fn get(b: &mut Bare, number: u16) -> u64 {
    b.h.csr(&mut b.w, number).expect("it exists")
}

#[test]
fn registers_hold_what_can_be() {
    let mut b = bare(false, &[]);
    for t in 0..4 {
        b.h.put_csr(&mut b.w, TSELECT, t);
        assert_eq!(get(&mut b, TSELECT), t);
        assert_eq!(get(&mut b, TDATA1), DISABLED);
        assert_eq!(get(&mut b, TINFO), 1 << 24 | 1 << 15 | 1 << 6);
    }
    // As many as there are, from 0 on.
    b.h.put_csr(&mut b.w, TSELECT, 4);
    assert_eq!(get(&mut b, TSELECT), 3);
    let wide = M | S | U | EXECUTE | STORE | LOAD;
    for (written, read) in [
        (TYPE6 | wide, TYPE6 | wide),
        (TYPE6 | wide | HIT0, TYPE6 | wide | HIT0),
        // dmode, action 1, chain, select, vs, vu, uncertain: not here.
        (
            TYPE6 | 1 << 59 | 1 << 12 | 1 << 11 | 1 << 21 | 3 << 23 | 1 << 26,
            TYPE6,
        ),
        (TYPE6 | kind(13), TYPE6 | kind(13)),
        (TYPE6 | kind(6), TYPE6),
        (TYPE6 | sized(5), TYPE6 | sized(5)),
        (TYPE6 | sized(4), TYPE6),
        // Other types are none, and 0 disables.
        (2 << 60 | wide, DISABLED),
        (3 << 60, DISABLED),
        (0, DISABLED),
        (u64::MAX, DISABLED),
    ] {
        b.h.put_csr(&mut b.w, TDATA1, written);
        assert_eq!(get(&mut b, TDATA1), read, "{written:#x}");
    }
    for v in [0, u64::MAX, 0x1234_5678_9abc_def0] {
        b.h.put_csr(&mut b.w, TDATA2, v);
        assert_eq!(get(&mut b, TDATA2), v);
        b.h.put_csr(&mut b.w, TDATA3, v);
        assert_eq!(get(&mut b, TDATA3), 0);
    }
    b.h.reset(BASE);
    assert_eq!(get(&mut b, TSELECT), 0);
    assert_eq!((get(&mut b, TDATA1), get(&mut b, TDATA2)), (DISABLED, 0));
}

#[test]
fn without_triggers_there_are_no_registers() {
    let config = HartConfig {
        triggers: 0,
        ..rocket()
    };
    for number in TSELECT..=TINFO {
        let read = csrr(7, number);
        let mut b = Bare::new(config.clone(), false, &[read]);
        assert_eq!(b.run_to_trap(), (cause::ILLEGAL, BASE, read as u64));
    }
    // Nor beside them: tcontrol, mcontext.
    for number in [0x7a5, 0x7a8] {
        let mut b = bare(false, &[csrr(7, number)]);
        assert_eq!(b.run_to_trap().0, cause::ILLEGAL);
    }
}

#[test]
fn execute_triggers_fire_before_the_instruction() {
    both(|timed| {
        // In the middle of a block that has run before, at its start, and on a compressed one.
        let one = i(Op::Addi, 5, 5, 1);
        let words = [one, one, 0x0285_0285, one, n(Op::Ecall)];
        for (at, done) in [(0u64, 0), (4, 1), (8, 2), (10, 3), (12, 4)] {
            let mut b = bare(timed, &words);
            assert_eq!(b.run_to_trap().0, FROM_M);
            assert_eq!(b.h.reg(5), 5);
            b.h.set_reg(5, 0);
            b.h.state.csr.mstatus |= status::MIE;
            b.h.state.pc = BASE;
            set(&mut b, 2, TYPE6 | M | EXECUTE, BASE + at);
            let before = b.h.state.instret;
            assert_eq!(b.run_to_trap(), (BREAK, BASE + at, BASE + at));
            assert_eq!(b.h.reg(5), done, "only what is before");
            assert_eq!(b.h.state.instret, before + done);
            assert_eq!(get(&mut b, TDATA1), TYPE6 | M | EXECUTE | HIT0);
            // The handler takes it away.
            set(&mut b, 2, 0, 0);
            b.h.state.csr.mstatus |= status::MIE;
            b.h.state.pc = BASE + at;
            assert_eq!(b.run_to_trap().0, FROM_M);
            assert_eq!(b.h.reg(5), 5);
        }
        // Bytes behind the first of an instruction are nobody's address.
        let mut b = bare(timed, &words);
        set(&mut b, 0, TYPE6 | M | EXECUTE, BASE + 6);
        assert_eq!(b.run_to_trap().0, FROM_M);
    });
}

#[test]
fn execute_triggers_look_at_lengths_and_at_what_cannot_be_fetched() {
    both(|timed| {
        let words = [NOP, 0x0001_0001, n(Op::Ecall)];
        for (size, at) in [(2, BASE + 4), (3, BASE)] {
            let mut b = bare(timed, &words);
            let all = kind(2);
            set(&mut b, 0, TYPE6 | M | EXECUTE | all | sized(size), BASE);
            assert_eq!(b.run_to_trap(), (BREAK, at, at), "size {size}");
        }
        // A jump to where no memory is: the breakpoint goes before the fault.
        for on in [false, true] {
            let mut b = bare(timed, &[i(Op::Jalr, 0, 0, 0x40)]);
            if on {
                set(&mut b, 0, TYPE6 | M | EXECUTE, 0x40);
            }
            let want = if on { BREAK } else { cause::FETCH_ACCESS };
            assert_eq!(b.run_to_trap(), (want, 0x40, 0x40));
        }
        // An illegal instruction, too.
        let mut b = bare(timed, &[NOP, 0]);
        set(&mut b, 0, TYPE6 | M | EXECUTE, BASE + 4);
        assert_eq!(b.run_to_trap(), (BREAK, BASE + 4, BASE + 4));
    });
}

#[test]
fn data_triggers_fire_before_the_access() {
    let load = i(Op::Ld, 5, 6, 8);
    let store = s(Op::Sw, 7, 6, 8);
    // Instruction, bytes, whether it loads and stores.
    let accesses = [
        (load, 8, true, false),
        (i(Op::Lbu, 5, 6, 8), 1, true, false),
        (i(Op::Fld, 5, 6, 8), 8, true, false),
        (store, 4, false, true),
        (s(Op::Fsd, 5, 6, 8), 8, false, true),
        (rm(Op::LrD, 5, 28, 0, 0), 8, true, false),
        (rm(Op::ScW, 5, 28, 7, 0), 4, false, true),
        (rm(Op::AmoaddW, 5, 28, 7, 0), 4, true, true),
        (r(Op::CboZero, 0, 28, 0), 64, false, true),
        (r(Op::CboFlush, 0, 28, 0), 64, false, true),
        (r(Op::CflushDL1, 0, 28, 0), 64, false, true),
    ];
    both(|timed| {
        for (word, bytes, loads, stores) in accesses {
            let op = nagori_isa::decode(word).unwrap().op;
            for (want, on) in [(LOAD, loads), (STORE, stores), (LOAD | STORE, true)] {
                // The access is done before, so that filters know it.
                let mut b = bare(timed, &[word, word, NOP, n(Op::Ecall)]);
                b.h.state.csr.mstatus |= status::FS;
                b.h.set_reg(28, DATA + 8);
                assert_eq!(b.run_to_trap().0, FROM_M, "{op:?}");
                b.h.state.csr.mstatus |= status::MIE;
                b.h.state.pc = BASE;
                let first = if bytes == 64 { DATA } else { DATA + 8 };
                set(&mut b, 1, TYPE6 | M | want, first + bytes - 1);
                let (code, pc, tval) = b.run_to_trap();
                if on {
                    assert_eq!((code, pc, tval), (BREAK, BASE, first), "{op:?} {want}");
                    assert_eq!(get(&mut b, TDATA1), TYPE6 | M | want | HIT0);
                } else {
                    assert_eq!((code, pc), (FROM_M, BASE + 12), "{op:?} {want}");
                }
                // The bytes around it are another's.
                for near in [first.wrapping_sub(1), first + bytes] {
                    b.h.state.csr.mstatus |= status::MIE;
                    b.h.state.pc = BASE;
                    set(&mut b, 1, TYPE6 | M | LOAD | STORE, near);
                    assert_eq!(b.run_to_trap().0, FROM_M, "{op:?}");
                }
            }
        }
        // What fires has not happened.
        for word in [load, store] {
            let mut b = bare(timed, &[word, n(Op::Ecall)]);
            b.h.set_reg(5, 1);
            b.h.set_reg(7, 9);
            set(&mut b, 0, TYPE6 | M | LOAD | STORE, DATA + 8);
            assert_eq!(b.run_to_trap().0, BREAK);
            assert_eq!(b.h.reg(5), 1);
            assert_eq!(b.w.ram().read_u32(DATA + 8 - BASE), Some(0));
        }
        // Before the exception for misalignment.
        let mut b = bare(timed, &[i(Op::Lw, 5, 6, 9)]);
        set(&mut b, 0, TYPE6 | M | LOAD, DATA + 9);
        assert_eq!(b.run_to_trap(), (BREAK, BASE, DATA + 9));
    });
}

#[test]
fn ways_to_match() {
    let x = DATA + 0x100;
    let high = 1u64 << 63 >> 31;
    for (how, data2, hits, misses) in [
        (0, x + 8, vec![8i32], vec![0, 16]),
        // Naturally aligned: 32 bytes.
        (1, x + 15, vec![0, 8, 24], vec![-8, 32]),
        (1, u64::MAX, vec![0, 8, 1000], vec![]),
        (2, x + 8, vec![8, 1000], vec![0, -8]),
        (3, x + 8, vec![0, -8], vec![8, 1000]),
        // Bits 3 to 11 of the low half.
        (4, 0xff8 << 32 | (x + 8) & 0xff8, vec![8], vec![0, 16]),
        // All of the high half, which is 0.
        (5, 0xffff_ffff << 32, vec![0, 8], vec![]),
        (5, high | 1, vec![], vec![0, 8]),
        (8, x + 8, vec![0, 16], vec![8]),
        (9, x + 15, vec![-8, 32], vec![0, 24]),
    ] {
        both(|timed| {
            let run = |offset: i32| {
                let words = [
                    i(Op::Ld, 5, 7, offset),
                    i(Op::Ld, 5, 7, offset),
                    n(Op::Ecall),
                ];
                let mut b = bare(timed, &words);
                b.h.set_reg(7, x);
                set(&mut b, 0, TYPE6 | M | LOAD | kind(how), data2);
                b.run_to_trap().0
            };
            for &at in &hits {
                assert_eq!(run(at), BREAK, "match {how} at {at}");
            }
            for &at in &misses {
                assert_eq!(run(at), FROM_M, "match {how} at {at}");
            }
        });
    }
    // Sizes of accesses.
    for (size, op) in [(1, Op::Lb), (2, Op::Lhu), (3, Op::Lw), (5, Op::Ld)] {
        for other in [Op::Lb, Op::Lhu, Op::Lw, Op::Ld] {
            let mut b = bare(true, &[i(other, 5, 6, 0), n(Op::Ecall)]);
            set(&mut b, 0, TYPE6 | M | LOAD | sized(size), DATA);
            let fires = b.run_to_trap().0 == BREAK;
            assert_eq!(fires, op == other, "size {size}, {other:?}");
        }
    }
}

#[test]
fn modes_and_handlers() {
    let words = [NOP, NOP, n(Op::Ecall)];
    both(|timed| {
        let run = |mode: u64, bits: u64, mstatus: u64, medeleg: u64| {
            let mut b = bare(timed, &[]);
            b.put(CODE, &words);
            set(&mut b, 0, TYPE6 | EXECUTE | bits, CODE + 4);
            b.h.state.csr.medeleg = medeleg;
            b.h.state.csr.stvec = crate::common::bare::TRAP;
            b.enter(mode, CODE, 0, mstatus, OPEN);
            while b.h.state.pc != crate::common::bare::TRAP {
                b.h.run(&mut b.code, &mut b.w, b.h.state.cycle + 1);
            }
            let s = b.h.state.privilege as u8 == 1;
            if s {
                b.h.state.csr.scause
            } else {
                b.h.state.csr.mcause
            }
        };
        let deleg = 1 << BREAK;
        for mode in [0u64, 1, 3] {
            let own = [U, S, 0, M][mode as usize];
            // mret sets MIE from MPIE.
            let on = status::MPIE | status::SIE;
            assert_eq!(run(mode, own, on, 0), BREAK, "mode {mode}");
            assert_eq!(run(mode, own, on, deleg), BREAK, "mode {mode}");
            let others = (M | S | U) & !own;
            assert_eq!(run(mode, others, on, 0), cause::ECALL_U + mode);
        }
        // Where an exception would be one too many.
        assert_eq!(run(3, M, 0, 0), FROM_M);
        assert_eq!(run(1, S, 0, deleg), cause::ECALL_U + 1);
        assert_eq!(run(1, S, 0, 0), BREAK, "it goes to M");
        assert_eq!(run(0, U, 0, deleg), BREAK);
    });
}

#[test]
fn addresses_are_virtual() {
    both(|timed| {
        let mut b = bare(timed, &[]);
        let mut t = Sv39::new(b.w.ram(), BASE, BASE + 0x10000);
        // One page of code and one of data, each at two addresses.
        for va in [0x10_0000, 0x20_0000] {
            t.map(va, CODE, 4096, USER_ALL);
            t.map(va + 0x1000, DATA, 4096, USER_ALL);
        }
        let satp = t.satp();
        b.put(
            CODE,
            &[u(Op::Auipc, 6, 0x1000), i(Op::Ld, 5, 6, 0), n(Op::Ecall)],
        );
        for (bits, data2, at) in [
            (EXECUTE, 0x20_0004, 0x20_0004),
            (LOAD, 0x20_1000, 0x20_0004),
        ] {
            set(&mut b, 0, TYPE6 | U | bits, data2);
            for (va, want) in [
                (0x10_0000, (cause::ECALL_U, 0x10_0008, 0)),
                (0x20_0000, (BREAK, at, data2)),
                (0x10_0000, (cause::ECALL_U, 0x10_0008, 0)),
            ] {
                b.enter(0, va, satp, 0, OPEN);
                assert_eq!(b.run_to_trap(), want, "timed {timed}, {va:#x}");
            }
        }
    });
}

#[test]
fn a_program_may_set_them_itself() {
    both(|timed| {
        let words = [
            csrw(TSELECT, 0),
            csrw(TDATA2, 10),
            csrw(TDATA1, 11),
            i(Op::Addi, 5, 5, 1),
            i(Op::Addi, 5, 5, 1),
            n(Op::Ecall),
        ];
        let mut b = bare(timed, &words);
        b.h.set_reg(10, BASE + 16);
        b.h.set_reg(11, TYPE6 | M | EXECUTE);
        assert_eq!(b.run_to_trap(), (BREAK, BASE + 16, BASE + 16));
        assert_eq!(b.h.reg(5), 1);
    });
}

#[test]
fn time_is_the_same_with_triggers_that_never_fire() {
    // A loop over a few lines, with a trigger on another byte of one of them, and on code that
    // does not run.
    let words = [
        i(Op::Addi, 7, 0, 200),
        i(Op::Ld, 5, 6, 0),
        s(Op::Sd, 5, 6, 64),
        rm(Op::AmoaddD, 5, 6, 7, 0),
        i(Op::Addi, 7, 7, -1),
        s(Op::Bne, 0, 7, -16),
        n(Op::Ecall),
    ];
    let run = |armed: bool| {
        let mut b = bare(true, &words);
        if armed {
            set(&mut b, 0, TYPE6 | M | LOAD | STORE, DATA + 32);
            set(&mut b, 1, TYPE6 | M | EXECUTE, BASE + 0x400);
            set(&mut b, 2, TYPE6 | S | EXECUTE, BASE + 8);
        }
        assert_eq!(b.run_to_trap().0, FROM_M);
        (b.h.state.cycle, b.h.state.instret, b.h.state.stats)
    };
    assert_eq!(run(false), run(true));
}
