use super::*;
use crate::preop::{pre, SPLIT};
use crate::rocket;
use nagori_isa::decode;

/// Cycles of a run, what is pending behind it, and the last slot.
fn schedule(words: &[u32]) -> (u32, Pending, Slot) {
    let t = rocket::timing();
    let mut s = Schedule::new(&t);
    let slots: Vec<Slot> = words
        .iter()
        .map(|w| s.add(&decode(*w).unwrap(), false))
        .collect();
    let (cycles, pending) = s.finish();
    (cycles, pending, *slots.last().unwrap())
}

fn run(words: &[u32]) -> (u32, Pending) {
    let (cycles, pending, _) = schedule(words);
    (cycles, pending)
}

/// The multiplications and divisions of a run.
fn longs(words: &[u32]) -> (Vec<(usize, Long)>, bool) {
    let t = rocket::timing();
    let mut s = Schedule::new(&t);
    for w in words {
        s.add(&decode(*w).unwrap(), false);
    }
    s.longs()
}

const NOP: u32 = 0x13;
const BRANCH: u32 = 0x0000_0463; // beq zero, zero, 8
const ADD: u32 = 0x00b5_0533; // add a0, a0, a1
const LD: u32 = 0x0005_3503; // ld a0, 0(a0)
const LD_S0: u32 = 0x0004_3603; // ld a2, 0(s0)
const LD_A3: u32 = 0x0004_3683; // ld a3, 0(s0)
const LB: u32 = 0x0005_0503; // lb a0, 0(a0)
const SD: u32 = 0x00a4_3023; // sd a0, 0(s0)
const SB: u32 = 0x00a4_0023; // sb a0, 0(s0)
const FADD: u32 = 0x02b5_7553; // fadd.d fa0, fa0, fa1
const FADD_OTHER: u32 = 0x02c6_76d3; // fadd.d fa3, fa2, fa2
const FADD_S: u32 = 0x00c6_76d3; // fadd.s fa3, fa2, fa2
const FMV: u32 = 0x22c6_06d3; // fmv.d fa3, fa2
const FLD: u32 = 0x0004_3507; // fld fa0, 0(s0)
const FEQ: u32 = 0xa2b5_2553; // feq.d a0, fa0, fa1
const FDIV: u32 = 0x1ab5_7553; // fdiv.d fa0, fa0, fa1
const FENCE: u32 = 0x0ff0_000f;
const AMO: u32 = 0x00b4_362f; // amoadd.d a2, a1, (s0)
const AMO_ORDERED: u32 = 0x06b4_362f; // amoadd.d.aqrl a2, a1, (s0)
const MUL: u32 = 0x02b6_0633; // mul a2, a2, a1

#[test]
fn measured_pairs() {
    assert_eq!(run(&[ADD, ADD]).0, 2);
    assert_eq!(run(&[LD, ADD]).0, 3); // ld then use
    assert_eq!(run(&[LB, ADD]).0, 4); // lb then use
    assert_eq!(run(&[LD, LD, LD]).0, 5); // chase: two a load
    assert_eq!(run(&[FADD, FADD]).0, 7); // dependent: six apart
    assert_eq!(run(&[FLD, FADD]).0, 5); // fld then use
    assert_eq!(run(&[FEQ, ADD]).0, 4); // a comparison then its use
}

#[test]
fn results_of_the_fpu_do_not_meet() {
    // A double is written 3 cycles after its access to memory, a single 2, a move 1.
    assert_eq!(run(&[FADD, FADD_S]).0, 2 + 5, "the same cycle");
    assert_eq!(run(&[FADD, NOP, FADD_S]).0, 3);
    assert_eq!(run(&[FADD, NOP, FMV]).0, 3 + 5);
    assert_eq!(run(&[FADD, FMV]).0, 2);
    assert_eq!(run(&[FADD, NOP, NOP, FMV]).0, 4);
    assert_eq!(run(&[FADD_OTHER, FDIV]).0, 2 + 5, "a result is on its way");
    assert_eq!(run(&[FADD_OTHER, NOP, NOP, FDIV]).0, 4 + 5);
    assert_eq!(run(&[FADD_OTHER, NOP, NOP, NOP, FDIV]).0, 5);
}

#[test]
fn the_next_instruction_of_the_fpu_waits_while_it_divides() {
    let divisions = |words: &[u32]| {
        let t = rocket::timing();
        let mut s = Schedule::new(&t);
        for w in words {
            s.add(&decode(*w).unwrap(), false);
        }
        s.divisions()
    };
    let frflags = 0x0010_2573; // csrrs a0, fflags, x0
    for (words, distance, needs) in [
        (&[FDIV, FADD_OTHER][..], 1, false),
        (&[FDIV, NOP, FLD], 2, true),
        (&[FDIV, NOP, NOP, FADD], 3, true),
        (&[FDIV, NOP, frflags], 2, true),
        (&[FDIV, LD, FDIV], 2, true),
    ] {
        let waits = Divided::awaited(distance, needs, false);
        assert_eq!(divisions(words).0[0], (0, waits), "{words:x?}");
    }
    let mut soon = Divided::awaited(1, false, false);
    soon.needed_behind(2);
    assert_eq!(divisions(&[FDIV, FADD_OTHER, NOP, FADD]).0[0], (0, soon));
    assert_eq!(
        divisions(&[NOP, FDIV, NOP]),
        (vec![(1, Divided::open(2))], true)
    );
    assert!(!divisions(&[FDIV, FADD_OTHER]).1);
}

/// Cycles that an instruction is refused behind a run, that many cycles after it.
fn refused_behind(words: &[u32], then: u32, at: u32, splits: bool) -> u32 {
    let flags = if splits { SPLIT } else { 0 };
    let then = pre(&decode(then).unwrap(), 0, 0, flags);
    Refusal::of(&rocket::timing(), run(words).1).wait(&then, at)
}

#[test]
fn the_fpu_refuses_across_blocks() {
    // The result of double precision is written four cycles behind the run.
    assert_eq!(refused_behind(&[FADD], FDIV, 0, false), 5);
    assert_eq!(refused_behind(&[FADD], FDIV, 2, true), 6);
    assert_eq!(refused_behind(&[FADD], FDIV, 3, false), 0);
    // One of single precision would be written in the same cycle.
    assert_eq!(refused_behind(&[FADD], FADD_S, 0, false), 5);
    assert_eq!(refused_behind(&[FADD], FADD_S, 1, false), 0);
    assert_eq!(refused_behind(&[FADD], FADD_OTHER, 0, false), 0);
    // What a load writes does not concern the FPU.
    assert_eq!(refused_behind(&[FLD], FDIV, 0, false), 0);
}

#[test]
fn fence_i_comes_behind_accesses() {
    const FENCE_I: u32 = 0x0000_100f;
    let cost = rocket::timing().fence_i;
    assert_eq!(run(&[FENCE_I]).0, cost);
    assert_eq!(run(&[SD, FENCE_I]).0, 4 + cost);
    assert_eq!(run(&[SD, NOP, NOP, NOP, NOP, FENCE_I]).0, 5 + cost);
}

#[test]
fn what_is_in_two_packets_is_tried_again_later() {
    let t = rocket::timing();
    for (splits, at) in [(false, 6), (true, 7)] {
        let mut s = Schedule::new(&t);
        s.add(&decode(FADD).unwrap(), false);
        assert_eq!(s.add(&decode(FADD_S).unwrap(), splits).at, at);
    }
}

#[test]
fn a_load_meets_stores_that_wait() {
    let near = |words: &[u32]| schedule(words).2.near;
    let both = |last, other| [last, other];
    assert_eq!(near(&[SD, LD_S0]).stores, both(true, false));
    assert_eq!(near(&[SD, NOP, LD_S0]).stores, both(true, false));
    assert_eq!(near(&[SD, NOP, NOP, LD_S0]).stores, both(false, false));
    // Three later if the data array was busy in the second cycle, and so on.
    assert_eq!(near(&[SD, NOP, LD_S0, LD_A3]).stores, both(true, false));
    assert_eq!(near(&[SD, LD_S0, NOP, LD_A3]).stores, both(false, false));
    assert_eq!(
        near(&[SD, NOP, LD_S0, NOP, LD_A3]).stores,
        both(false, false)
    );
    assert_eq!(near(&[SD, SB, LD_S0]).stores, both(true, true));
    assert_eq!(near(&[SD, SB, NOP, LD_S0]).stores, both(true, false));
    assert_eq!(near(&[SD, SB, LD_S0]).granules, [3, 3]);
    assert_eq!(near(&[SB, SB, LB]).granules, [0, 0]);
    // An atomic is a load and a store.
    assert_eq!(near(&[SD, AMO]).stores, both(true, false));
    assert_eq!(near(&[AMO, LD_S0]).stores, both(true, false));
    // What it stores is there a cycle later.
    assert_eq!(near(&[AMO, NOP, NOP, LD_A3]).stores, both(true, false));
    assert_eq!(
        near(&[AMO, NOP, NOP, NOP, LD_A3]).stores,
        both(false, false)
    );
    assert_eq!(near(&[LD_S0, SD]).stores, both(false, false));
}

#[test]
fn fences_keep_accesses_apart() {
    assert_eq!(run(&[FENCE, FENCE]).0, 2);
    assert_eq!(run(&[SD, FENCE, SD]).0, 5, "four apart");
    assert_eq!(run(&[SD, NOP, NOP, NOP, FENCE, SD]).0, 6);
    assert_eq!(run(&[AMO, AMO]).0, 3, "the same destination: two apart");
    assert_eq!(run(&[AMO_ORDERED, AMO_ORDERED]).0, 5);
    assert_eq!(run(&[SD, AMO_ORDERED]).0, 5, "release");
    assert_eq!(run(&[AMO_ORDERED, SD]).0, 5, "acquire");
    let left = schedule(&[SD, FENCE]).1;
    assert_eq!(pending_pairs(left).collect::<Vec<_>>(), [(super::FENCE, 2)]);
}

#[test]
fn writes_of_csrs_flush() {
    let csr = |number: u32, funct: u32, rd: u32, rs1: u32| {
        [number << 20 | rs1 << 15 | funct << 12 | rd << 7 | 0x73]
    };
    assert_eq!(run(&csr(0x340, 1, 0, 10)).0, 1, "mscratch");
    assert_eq!(run(&csr(0x300, 1, 0, 10)).0, 5, "mstatus");
    assert_eq!(run(&csr(0x300, 2, 10, 0)).0, 1, "a read");
    assert_eq!(
        run(&csr(0x300, 2, 10, 0)).1,
        10 << 8 | 2,
        "its use is 3 later"
    );
    assert_eq!(run(&csr(0x142, 1, 0, 10)).0, 1, "scause");
    assert_eq!(run(&csr(0x144, 1, 0, 10)).0, 5, "sip");
    // fcsr waits for the FPU.
    assert_eq!(run(&[FADD, csr(0x003, 1, 0, 10)[0]]).0, 6 + 5);
}

#[test]
fn long_results_wait_for_a_free_cycle() {
    let use_ = 0x00c6_0633; // add a2, a2, a2
    let wait = |words: &[u32], latency: u32| {
        let all = longs(words).0;
        assert!(all[0].1.is_awaited());
        all[0].1.wait(latency, 3)
    };
    // Behind a multiplication of latency 4 its user waits 3 cycles.
    assert_eq!(wait(&[MUL, use_], 4), 3);
    // Others write in each cycle up to the one in which the last of them does.
    assert_eq!(wait(&[MUL, NOP, use_], 4), 3);
    assert_eq!(wait(&[MUL, NOP, NOP, NOP, use_], 4), 3);
    assert_eq!(wait(&[MUL, NOP, BRANCH, NOP, use_], 4), 1);
    assert_eq!(wait(&[MUL, SD, NOP, NOP, use_], 4), 0);
    assert_eq!(wait(&[MUL, NOP, NOP, NOP, use_], 10), 6);
    // Another multiplication waits for the unit.
    assert_eq!(wait(&[MUL, 0x02b6_86b3], 4), 3);
    // Nothing waits for it in this run.
    let (all, open) = longs(&[MUL, NOP]);
    assert!(open && !all[0].1.is_awaited());
    assert_eq!(all[0].1.wait(4, 3), 3, "behind the end");
    assert_eq!(Long::from_imm(all[0].1.imm()), all[0].1);
}

#[test]
fn late_results_are_pending() {
    let (n, p) = run(&[FADD]);
    assert_eq!(n, 1);
    assert_eq!(pending_pairs(p).collect::<Vec<_>>(), vec![(0x60 | 10, 5)]);
    assert_eq!(run(&[ADD]).1, 0);
    assert_eq!(pending_after(p, 2), (0x60 | 10) << 8 | 3);
    assert_eq!(pending_after(p, 5), 0);
    assert_eq!(
        merge_pending(merge_pending(p, 7, 9), 8, 6),
        7 << 8 | 9 | (8 << 8 | 6) << 16
    );
}

#[test]
fn stores_are_pending_until_they_can_be_written() {
    let left = |words: &[u32]| Unwritten::of(run(words).1).0.map(|s| s.map(|s| s.0));
    assert_eq!(left(&[SD]), [Some(1), None]);
    assert_eq!(left(&[SD, BRANCH]), [Some(0), None]);
    assert_eq!(left(&[SD, NOP, BRANCH]), [None; 2]);
    assert_eq!(left(&[SB, SD]), [Some(1), Some(0)]);
    assert_eq!(left(&[SB, SD, BRANCH]), [Some(0), None]);
    // What an atomic stores comes a cycle later, and loads keep the data array busy.
    assert_eq!(left(&[AMO, BRANCH]), [Some(1), None]);
    assert_eq!(left(&[SD, NOP, LD_S0]), [Some(0), None]);
    let csrw = 0x3000_1073; // csrrw x0, mstatus, x0: what is behind it is fetched anew
    assert_eq!(left(&[SD, csrw]), [None; 2]);

    let p = run(&[SB, SD]).1;
    assert_eq!(Unwritten::of(p).pack() >> STORES, p >> STORES);
    let after = Unwritten::of(pending_after(p, 1)).0;
    assert_eq!(after, [Some((0, 3)), None]);
    assert_eq!(pending_after(p, 2), 0);
    let with = merge_pending(p, 7, 9);
    assert_eq!((with >> STORES, with as u32), (p >> STORES, 7 << 8 | 9));
}

#[test]
fn a_load_meets_stores_as_long_as_loads_follow_one_another() {
    let mut s = Unwritten([Some((0, 2)), None]);
    assert_eq!(s.differ(0, 0, Op::Lw), 0xffc);
    assert_eq!(s.differ(0, 0, Op::Ld), 0xff8);
    assert_eq!((s.differ(0, 1, Op::Lw), s.differ(1, 0, Op::Lw)), (0, 0));
    // Tried again, it changes nothing more.
    for _ in 0..2 {
        s.load(0);
        assert_eq!((s.differ(0, 1, Op::Lw), s.differ(0, 2, Op::Lw)), (0xffc, 0));
    }
    s.load(2);
    assert!(s.is_empty());
}

#[test]
fn results_come_late_behind_what_may_take_longer() {
    let late = |words: &[u32]| {
        let t = rocket::timing();
        let mut s = Schedule::new(&t);
        for w in words {
            s.add(&decode(*w).unwrap(), false);
        }
        s.late()
    };
    let use_ = 0x00c6_06b3; // add a3, a2, a2
    assert_eq!(late(&[MUL, NOP, use_]), (vec![], [None; 2]));
    assert_eq!(late(&[MUL, SD, use_]), (vec![(0, 2)], [None; 2]));
    // The unit is what is waited for.
    assert_eq!(late(&[MUL, LD_A3, MUL]), (vec![(0, 2)], [None; 2]));
    let open = |n, code| Some((n, code));
    assert_eq!(late(&[NOP, MUL, SD]), (vec![], [open(1, LONG | 12), None]));
    // Side by side: neither is known where the other is waited for.
    assert_eq!(
        late(&[MUL, FDIV, use_, FADD]),
        (vec![(0, 2), (1, 3)], [None; 2])
    );
    assert_eq!(
        late(&[FDIV, MUL, NOP]),
        (vec![], [None, open(0, FP_LONG | 10)])
    );
}
