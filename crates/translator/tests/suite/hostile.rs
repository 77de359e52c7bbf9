//! Guests that try to leave their memory: jumps, loads and stores at addresses where
//! nothing is, where the arithmetic of addresses wraps, and at the end of memory.
//! Translated code must do what the interpreter does, and nothing to the host.

use crate::common::bare::{BASE, MEMORY};
use crate::common::{bytes, csrr, csrw, i, n, rocket, s, Rng};
use crate::sides::{lock_step, translator, Runner, Side, CODE_BYTES};
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Exit, Hart};
use nagori_isa::Op;

/// The trap handler: goes on at x8, without the instruction that trapped.
const TRAP: u64 = BASE + 0x800;
/// Where the loop goes on behind the hostile instruction.
const BEHIND: u64 = BASE + 8;
const ROUNDS: i32 = 40;

const PLACES: [u64; 24] = [
    0,
    1,
    2,
    8,
    BASE - 8,
    BASE - 1,
    BASE - 2,
    BASE + 1,
    BASE + 6,
    BASE + MEMORY - 8,
    BASE + MEMORY - 4,
    BASE + MEMORY - 2,
    BASE + MEMORY - 1,
    BASE + MEMORY,
    BASE + MEMORY + 0xffe,
    0x7f_ffff_ffff,
    0x80_0000_0000,
    0xffff_ff7f_ffff_fffe,
    1 << 56,
    1 << 63,
    (1 << 63) - 1,
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 7,
];

fn side(hostile: u32, place: u64, timed: bool, runner: Runner<Flat>) -> Side<Flat> {
    let config = rocket();
    let w = Flat::new(BASE, MEMORY, 1, &config).expect("memory");
    let put = |at: u64, words: &[u32]| {
        w.ram()
            .write_bytes(at - BASE, &bytes(words))
            .expect("in memory");
    };
    // The count goes on whether the instruction trapped or not.
    put(
        BASE,
        &[
            i(Op::Addi, 20, 20, 1),
            hostile,
            i(Op::Addi, 21, 21, 1),
            i(Op::Addi, 9, 9, -1),
        ],
    );
    let loop_end = BASE + 16;
    let back = (BASE as i64 - (loop_end as i64 + 4)) as i32;
    // if x9 == 0 { wfi for ever } else { back }
    let branch = nagori_isa::encode(&nagori_isa::Inst {
        rs1: 9,
        rs2: 0,
        imm: 8,
        ..crate::common::inst(Op::Beq)
    });
    put(
        loop_end,
        &[
            branch.expect("encodes"),
            i(Op::Jal, 0, 0, back),
            n(Op::Wfi),
            i(Op::Jal, 0, 0, -4),
        ],
    );
    put(
        TRAP,
        &[
            csrr(22, 0x342),
            csrr(23, 0x343),
            csrr(24, 0x341),
            i(Op::Addi, 25, 25, 1),
            csrw(0x341, 8),
            n(Op::Mret),
        ],
    );
    let mut h = Hart::new(0, config).expect("configuration");
    h.set_timed(timed);
    h.state.csr.mtvec = TRAP;
    // mret comes back to machine mode.
    h.state.csr.mstatus = 3 << 11 | 3 << 13;
    h.state.pc = BASE;
    h.set_reg(8, BEHIND);
    h.set_reg(9, ROUNDS as u64);
    h.set_reg(10, place);
    Side {
        w,
        h,
        code: CodeCache::default(),
        runner,
    }
}

#[test]
fn nothing_is_reached_that_is_not_there() {
    let tries = [
        i(Op::Jalr, 1, 10, 0),
        i(Op::Jalr, 0, 10, 0x7fe),
        i(Op::Ld, 5, 10, 0),
        i(Op::Lbu, 5, 10, -2048),
        i(Op::Lw, 5, 10, 2047),
        s(Op::Sd, 20, 10, 0),
        s(Op::Sb, 20, 10, 2047),
        i(Op::Fld, 3, 10, 0),
        s(Op::Fsw, 3, 10, -4),
    ];
    let mut rng = Rng::new(3);
    for hostile in tries {
        for place in PLACES {
            for timed in [false, true] {
                let t = Runner::Translator(translator(0, CODE_BYTES));
                let mut sides = [
                    side(hostile, place, timed, Runner::Interpreter),
                    side(hostile, place, timed, t),
                ];
                let name = format!("{hostile:#010x} at {place:#x}, timed {timed}");
                // Where the guest has overwritten itself it may run on anywhere.
                let done = |s: &mut Side<Flat>, exit| exit == Exit::Wfi || s.h.state.cycle > 20_000;
                lock_step(&name, &mut sides, &mut rng, 300, done, |_| 0);
                assert!(sides[1].h.reg(20) > 0, "{name}: did not run");
            }
        }
    }
}
