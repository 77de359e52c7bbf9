//! Cycles of small loops against the measurements on a Rocket core's RTL
//! (design notes of the reference board): row by row, with the tolerance stated.
//!
//! The RTL was measured with one core, so the hub costs nothing here; L is the
//! latency of a line.

use crate::common::guest::{Sv39, SUPER_ALL};
use crate::common::{bytes, csrr, csrw, i, li, n, r, rm, rocket, s, u, Rng};
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Exit, Hart, HartStats};
use nagori_isa::Op::{self, *};

const BASE: u64 = 0x8000_0000;
const MEMORY: u64 = 4 << 20;
const TRAP: u64 = BASE + 0x800;
const CODE: u64 = BASE + 0x1_0000;
const DATA: u64 = BASE + 0x10_0000;
/// A device's register.
const DEVICE: u64 = 0x200_0000;
/// Latency of a line in most tests.
const L: u64 = 10;
/// AW to AR on the measured port: one cycle to the first beat, 8 beats, 7 to the next request.
const WRITE: u64 = 16;
/// Instructions of a loop around the code: `addi`, `bnez`.
const LOOP: f64 = 2.0;

/// A loop to measure.
struct Case<'a> {
    /// Registers x1.. before it.
    regs: Vec<(usize, u64)>,
    /// Once per iteration.
    body: &'a [u32],
    latency: u64,
    /// Sv39: superpage for everything, and 4 KiB pages at virtual 0 for the data.
    paged: bool,
    hub: u32,
}

impl<'a> Case<'a> {
    fn new(body: &'a [u32]) -> Self {
        Self {
            regs: Vec::new(),
            body,
            latency: L,
            paged: false,
            hub: 0,
        }
    }

    fn reg(mut self, r: usize, v: u64) -> Self {
        self.regs.push((r, v));
        self
    }

    /// Cycles and events of a run of `count` iterations.
    fn run(&self, count: u64) -> (u64, HartStats) {
        let mut config = rocket();
        config.timing.hub = self.hub;
        let mut w = Flat::new(BASE, MEMORY, 1, &config).expect("memory");
        w.latency = self.latency;
        w.write_latency = Some(WRITE);
        w.register = Some((DEVICE, 7));
        let ram = w.ram();
        let put = |at: u64, words: &[u32]| {
            ram.write_bytes(at - BASE, &bytes(words))
                .expect("in memory")
        };
        // x31 counts; the loop begins on a line of its own.
        let mut words = self.body.to_vec();
        words.push(i(Addi, 31, 31, -1));
        let back = words.len() as i32 * 4;
        if back < 4096 {
            words.push(s(Bne, 0, 31, -back));
        } else {
            words.push(s(Beq, 0, 31, 8));
            words.push(u(Jal, 0, -back - 4));
        }
        words.push(n(Wfi));
        put(CODE, &words);
        // ecall from the loop: x30 is where it goes on.
        put(TRAP, &[csrw(0x341, 30), n(Mret)]);
        // Machine mode with floating point, or S mode behind a table.
        let mut t = Sv39::new(ram, BASE, BASE + 0x20_0000);
        let at = t.entry(BASE, 2);
        t.put(at, BASE >> 12 << 10 | SUPER_ALL);
        t.map(0, DATA, 0x10_0000, SUPER_ALL);
        let satp = if self.paged { t.satp() } else { 0 };
        put(
            BASE,
            &[
                csrw(0x3b0, 10),
                csrw(0x3a0, 11),
                csrw(0x180, 12),
                csrw(0x300, 13),
                csrw(0x341, 14),
                n(Mret),
            ],
        );
        let mut h = Hart::new(0, config).expect("configuration");
        h.state.pc = BASE;
        h.state.csr.mtvec = TRAP;
        let mode = if self.paged { 1 } else { 3 };
        for (r, v) in [
            (10, u64::MAX >> 10),
            (11, 0x1f),
            (12, satp),
            (13, mode << 11 | 1 << 13),
            (14, CODE),
        ] {
            h.set_reg(r, v);
        }
        let mut code = CodeCache::default();
        while h.state.pc != CODE {
            h.run(&mut code, &mut w, h.state.cycle + 1);
        }
        for r in 1..31 {
            h.set_reg(r, 0);
        }
        for (r, v) in &self.regs {
            h.set_reg(*r, *v);
        }
        h.set_reg(31, count);
        for f in 0..32 {
            h.set_freg(f, 1.5f64.to_bits());
        }
        h.set_freg(2, 1f64.to_bits());
        h.set_freg(9, 0);
        while h.run(&mut code, &mut w, h.state.cycle + 100_000) != Exit::Wfi {}
        h.check_invariants(&mut w).expect("filters in step");
        (h.state.cycle, h.state.stats)
    }

    /// Cycles of an iteration, in the long run, and what else grew.
    fn per_iteration(&self) -> (f64, HartStats) {
        let (a, b) = (200, 1200);
        let ((ca, _), (cb, sb)) = (self.run(a), self.run(b));
        ((cb - ca) as f64 / (b - a) as f64, sb)
    }

    /// Cycles of the body, without the loop around it.
    fn cycles(&self) -> f64 {
        self.per_iteration().0 - LOOP
    }
}

#[track_caller]
fn expect(what: &str, got: f64, table: f64, tolerance: f64) {
    println!("{what}: {got:.2} (table {table})");
    assert!(
        (got - table).abs() <= tolerance,
        "{what}: {got:.2} cycles, the table has {table} (+-{tolerance})"
    );
}

fn times(k: usize, words: &[u32]) -> Vec<u32> {
    words
        .iter()
        .copied()
        .cycle()
        .take(k * words.len())
        .collect()
}

#[test]
fn loops_and_additions() {
    expect("addi+bnez loop", Case::new(&[]).per_iteration().0, 2.0, 0.0);
    expect(
        "add dependent",
        Case::new(&times(16, &[r(Add, 5, 5, 6)])).cycles() / 16.0,
        1.0,
        0.0,
    );
    let free: Vec<u32> = (0..16).map(|k| r(Add, 5 + k, 1, 2)).collect();
    expect(
        "add independent",
        Case::new(&free).cycles() / 16.0,
        1.0,
        0.0,
    );
}

#[test]
fn multiplication() {
    // The bytes of the first operand count.
    let dependent = times(8, &[r(Mul, 5, 6, 5)]);
    let at = |v: u64| Case::new(&dependent).reg(5, 3).reg(6, v).per_iteration().0;
    // The loop hides under the last latency, but its `addi` is written when the product could be.
    expect("8 dependent mul, one byte", at(3), 33.0, 0.0);
    expect(
        "8 dependent mul, six bytes",
        at(0x1234_5678_9abc),
        72.0,
        0.0,
    );
    let large = 0x7123_4567_89ab_cdef;
    expect("8 dependent mul, eight bytes", at(large), 80.0, 0.0);
    let free: Vec<u32> = (0..4).map(|k| r(Mul, 5 + k, 5 + k, 1)).collect();
    let free = times(4, &free);
    let case = Case::new(&free).reg(5, 3).reg(6, 3).reg(7, 3);
    expect(
        "4 independent mul, four times",
        case.reg(8, 3).per_iteration().0,
        65.0,
        0.0,
    );
}

#[test]
fn division() {
    let one = |op: Op, a: u64, b: u64| {
        let body = times(4, &[r(op, 5, 1, 2)]);
        // The loop hides under the last one.
        Case::new(&body).reg(1, a).reg(2, b).per_iteration().0 / 4.0
    };
    expect("div 100/7", one(Div, 100, 7), 9.0, 0.0);
    expect("div 2^40/7", one(Div, 1 << 40, 7), 43.0, 0.0);
    expect("divu large", one(Divu, u64::MAX, 1), 67.0, 0.0);
    expect("div by zero", one(Div, 5, 0), 67.0, 0.0);
    // The operands of the row are not stated; 18 steps give its figure.
    expect("remw", one(Remw, 1 << 19, 7), 22.0, 0.0);
    expect("remw, quotient zero", one(Remw, 7, 8), 67.0, 0.0);
    expect("divuw of -1", one(Divuw, u64::MAX, 1), 36.0, 0.0);
}

#[test]
fn loads_and_stores_that_hit() {
    let pair =
        |load: u32, use_: u32| Case::new(&times(8, &[load, use_])).reg(1, DATA).cycles() / 8.0;
    expect(
        "ld then use",
        pair(i(Ld, 5, 1, 0), r(Add, 6, 5, 5)),
        3.0,
        0.0,
    );
    expect(
        "lw then use",
        pair(i(Lw, 5, 1, 0), r(Add, 6, 5, 5)),
        3.0,
        0.0,
    );
    expect(
        "lb then use",
        pair(i(Lb, 5, 1, 0), r(Add, 6, 5, 5)),
        4.0,
        0.0,
    );
    expect(
        "lhu then use",
        pair(i(Lhu, 5, 1, 0), r(Add, 6, 5, 5)),
        4.0,
        0.0,
    );
    let store: Vec<u32> = (0..8).map(|k| s(Sd, 5, 1, 8 * k)).collect();
    expect(
        "sd hit",
        Case::new(&store).reg(1, DATA).cycles() / 8.0,
        1.0,
        0.0,
    );
    let sl = |off: i32| {
        let body = times(8, &[s(Sd, 5, 1, 0), i(Ld, 6, 2, off)]);
        Case::new(&body).reg(1, DATA).reg(2, DATA + 0x800).cycles() / 8.0
    };
    expect("sd then ld other line", sl(0x40), 2.1, 0.2);
    expect("sd then ld same address", sl(-0x800), 7.1, 0.2);
    let alias = times(8, &[s(Sd, 5, 1, 0), i(Ld, 6, 2, 0)]);
    let alias = Case::new(&alias)
        .reg(1, DATA)
        .reg(2, DATA + 0x1000)
        .cycles()
        / 8.0;
    expect("sd then ld 4 KiB alias", alias, 7.1, 0.2);
    let dep = times(8, &[s(Sd, 5, 1, 0), i(Ld, 5, 1, 0)]);
    expect(
        "sd then ld, data-dependent",
        Case::new(&dep).reg(1, DATA).cycles() / 8.0,
        8.0,
        0.2,
    );
}

#[test]
fn pointer_chase_that_hits() {
    // Store the address of the cell into it, then follow it.
    let mut body = vec![s(Sd, 1, 1, 0), n(Fence), r(Add, 5, 1, 0)];
    let head = Case::new(&body.clone()).reg(1, DATA).cycles();
    body.extend(times(32, &[i(Ld, 5, 5, 0)]));
    let all = Case::new(&body).reg(1, DATA).cycles();
    expect("ld->ld chase", (all - head) / 32.0, 2.0, 0.1);
}

#[test]
fn branches_and_jumps() {
    let nt = times(8, &[s(Bne, 0, 0, 8)]);
    expect("branch not taken", Case::new(&nt).cycles() / 8.0, 1.0, 0.05);
    let taken = times(8, &[s(Beq, 0, 0, 4)]);
    expect(
        "branch taken, BTB hit",
        Case::new(&taken).cycles() / 8.0,
        1.1,
        0.11,
    );
    let j = times(8, &[u(Jal, 0, 4)]);
    expect("j, BTB hit", Case::new(&j).cycles() / 8.0, 1.1, 0.11);
    let far = times(64, &[u(Jal, 0, 4)]);
    expect("j, BTB miss", Case::new(&far).cycles() / 64.0, 2.05, 0.1);
    // A branch on random bits: the penalty of each wrong guess. The bit comes from a
    // multiplicative sequence; both ways are equally long.
    let body = [
        r(Mulw, 5, 5, 6),
        r(Addw, 5, 5, 7),
        i(Srli, 8, 5, 24),
        i(Andi, 8, 8, 1),
        s(Beq, 0, 8, 4),
    ];
    let case = Case::new(&body)
        .reg(5, 1)
        .reg(6, 1_664_525)
        .reg(7, 1_013_904_223);
    let straight = [body[0], body[1], body[2], body[3], s(Bne, 0, 0, 4)];
    let base = Case::new(&straight)
        .reg(5, 1)
        .reg(6, 1_664_525)
        .reg(7, 1_013_904_223);
    let ((c1, s1), (c2, s2)) = (case.run(4000), base.run(4000));
    let wrong = (s1.mispredicts - s2.mispredicts) as f64;
    assert!(
        wrong > 1200.0 && wrong < 2800.0,
        "{wrong} mispredictions of 4000 random branches"
    );
    // A taken branch that the BTB does not hold is late, too: a cycle for some of the rest.
    expect("mispredict penalty", (c1 - c2) as f64 / wrong, 3.1, 0.3);
}

#[test]
fn calls_and_returns() {
    // Calls over the function, which stands first.
    let call = |inside: usize| {
        let mut f = vec![u(Jal, 0, 4 * (inside as i32 + 2))];
        f.extend(vec![i(Addi, 0, 0, 0); inside]);
        f.push(i(Jalr, 0, 1, 0));
        let head = f.len() as i32;
        let mut body = f.clone();
        for k in 0..8 {
            body.push(u(Jal, 1, -4 * (head + k - 1)));
        }
        // Without the jump over the function.
        (Case::new(&body).cycles() - 1.0) / 8.0
    };
    expect("call+ret", call(0), 5.2, 0.3);
    expect("call+ret with two nops inside", call(2), 4.25, 0.3);
}

#[test]
fn floating_point() {
    // The loop hides under the last latency.
    let chain = |w: u32| Case::new(&times(8, &[w])).per_iteration().0 / 8.0;
    expect("fadd.d dependent", chain(rm(FaddD, 1, 1, 2, 0)), 6.0, 0.0);
    expect("fmul.d dependent", chain(rm(FmulD, 1, 1, 2, 0)), 6.0, 0.0);
    let fma = nagori_isa::encode(&nagori_isa::Inst {
        rd: 1,
        rs1: 1,
        rs2: 2,
        rs3: 3,
        ..crate::common::inst(FmaddD)
    });
    expect(
        "fmadd.d dependent",
        chain(fma.expect("an instruction")),
        6.0,
        0.0,
    );
    let four: Vec<u32> = (1..5).map(|k| rm(FaddD, k, k, 9, 0)).collect();
    expect(
        "four independent fadd.d",
        Case::new(&times(4, &four)).per_iteration().0 / 4.0,
        6.0,
        0.0,
    );
    expect("fadd.s dependent", chain(rm(FaddS, 1, 1, 2, 0)), 4.0, 0.0);
    expect("fmul.s dependent", chain(rm(FmulS, 1, 1, 2, 0)), 4.0, 0.0);
    expect("fdiv.d", chain(rm(FdivD, 1, 1, 2, 0)), 57.0, 0.5);
    // What is no boxed single is a NaN.
    expect("fdiv.s of a NaN", chain(rm(FdivS, 1, 1, 2, 0)), 4.0, 0.5);
    // One more where the dividend has the smaller significand, and for roots of 1 to 2: the rows of the
    // table are of roots of 3.
    expect("fdiv.d by 1.5", chain(rm(FdivD, 1, 2, 3, 0)), 58.0, 0.5);
    expect("fsqrt.d", chain(rm(FsqrtD, 1, 1, 0, 0)), 57.0, 0.5);
    expect("fdiv.d of zero", chain(rm(FdivD, 9, 9, 2, 0)), 4.0, 0.0);
    expect("fdiv.d by zero", chain(rm(FdivD, 1, 2, 9, 0)), 4.0, 0.0);
    expect("fsqrt.d of zero", chain(rm(FsqrtD, 9, 9, 0, 0)), 4.0, 0.0);
}

#[test]
fn results_under_way_cross_the_end_of_a_block() {
    // Jumps between producer and consumer: the latency goes on.
    let per = |body: &[u32]| Case::new(&times(4, body)).reg(1, DATA).per_iteration().0 / 4.0;
    let j = u(Jal, 0, 4);
    expect(
        "fadd.d across a jump",
        per(&[rm(FaddD, 1, 1, 2, 0), j]),
        6.0,
        0.0,
    );
    expect(
        "fadd.d across three jumps",
        per(&[rm(FaddD, 1, 1, 2, 0), j, j, j]),
        6.0,
        0.0,
    );
    let lb = [i(Lb, 5, 1, 0), j, r(Add, 6, 5, 5)];
    expect(
        "lb across a jump",
        Case::new(&times(4, &lb)).reg(1, DATA).cycles() / 4.0,
        4.0,
        0.0,
    );
    // The divider is busy whoever needs the result, and so is the multiplier.
    expect(
        "independent fdiv.d across jumps",
        per(&[rm(FdivD, 1, 3, 2, 0), j, rm(FdivD, 4, 5, 6, 0), j]),
        // Tried again every 5 cycles: 57 apart, and 54 over the end of the loop.
        (7.0 * 57.0 + 54.0) / 4.0,
        0.0,
    );
    expect(
        "fdiv.d to the same register",
        Case::new(&[rm(FdivD, 1, 3, 2, 0)]).per_iteration().0,
        57.0,
        0.0,
    );
    expect(
        "independent mul in a loop",
        Case::new(&[r(Mul, 5, 6, 7)]).per_iteration().0,
        // 4, and the cycle in which `addi` is written.
        5.0,
        0.0,
    );
    // A miss meanwhile takes the time, too: 57 in all is enough for it.
    let miss = [
        rm(FdivD, 1, 3, 2, 0),
        j,
        i(Addi, 5, 5, 64),
        r(And, 5, 5, 2),
        r(Add, 6, 5, 1),
        i(Ld, 7, 6, 0),
    ];
    let mut c = Case::new(&miss).reg(1, DATA).reg(2, 0x3_ffff);
    c.latency = 20;
    expect("fdiv.d beside a miss", c.per_iteration().0, 57.0, 0.0);
}

#[test]
fn stores_are_waited_for_across_the_end_of_a_block() {
    let branch = s(Bne, 0, 0, 8);
    let nops = times(5, &[i(Addi, 0, 0, 0)]);
    let per = |body: &[u32]| {
        let body = [body, &nops].concat();
        let regs = Case::new(&body).reg(1, DATA).reg(2, DATA + 4096);
        let cycles = regs.reg(5, 3).cycles();
        (cycles - body.len() as f64).round()
    };
    let (sw, lw, other) = (s(Sw, 5, 1, 0), i(Lw, 6, 1, 0), i(Lw, 7, 1, 64));
    // Compared with the RTL: `behind` of `make validate`.
    for (what, body, more) in [
        ("sw, bne, lw", &[sw, branch, lw][..], 5.0),
        ("sw, csrr, lw", &[sw, csrr(8, 0x340), lw], 5.0),
        ("sw, bne, lb of it", &[sw, branch, i(Lb, 6, 1, 3)], 5.0),
        ("sw, bne, lb beside", &[sw, branch, i(Lb, 6, 1, 4)], 0.0),
        (
            "sw, bne, lw of an alias",
            &[sw, branch, i(Lw, 6, 2, 0)],
            5.0,
        ),
        ("sw, bne, two lw", &[sw, branch, other, lw], 5.0),
        ("sw, bne, nop, lw", &[sw, branch, i(Addi, 0, 0, 0), lw], 0.0),
        ("sw, nop, bne, lw", &[sw, i(Addi, 0, 0, 0), branch, lw], 0.0),
        ("sw, bne, bne, lw", &[sw, branch, branch, lw], 0.0),
        ("sw, sw, bne, lw", &[sw, s(Sw, 5, 1, 64), branch, lw], 0.0),
        (
            "fsd, bne, fld",
            &[s(Fsd, 1, 1, 0), branch, i(Fld, 6, 1, 0)],
            5.0,
        ),
        ("amo, bne, lw", &[r(AmoaddW, 6, 1, 5), branch, lw], 5.0),
        (
            "amo, bne, address, lw",
            &[
                r(AmoaddW, 6, 1, 5),
                branch,
                i(Addi, 9, 1, 0),
                i(Lw, 6, 9, 0),
            ],
            5.0,
        ),
    ] {
        expect(what, per(body), more, 0.0);
    }
}

#[test]
fn units_work_side_by_side() {
    let per = |body: &[u32]| {
        let c = Case::new(body).reg(5, 7).reg(7, u64::MAX);
        c.per_iteration().0
    };
    let (remu, use_of) = (r(Remu, 28, 7, 5), r(Add, 29, 29, 28));
    let (fdiv, fadd) = (rm(FdivD, 3, 3, 2, 0), rm(FaddD, 4, 3, 3, 0));
    let alone = per(&[remu, use_of]);
    // Whichever comes first, the shorter one costs its issue and that of its user; `units` of `make validate`.
    for (what, body) in [
        ("remu, fdiv", [remu, fdiv, fadd, use_of]),
        ("remu, fdiv, use of remu", [remu, fdiv, use_of, fadd]),
        ("fdiv, remu", [fdiv, remu, fadd, use_of]),
    ] {
        let more = per(&body) - alone;
        println!("{what}: {more:.2} more than remu alone");
        assert!((0.0..=8.0).contains(&more), "{what}: {more:.2} more");
    }
    // A miss meanwhile takes the time.
    let miss = |first: u32, last: u32| {
        let body = [
            first,
            i(Addi, 5, 5, 64),
            r(And, 5, 5, 2),
            r(Add, 6, 5, 1),
            i(Ld, 7, 6, 0),
            last,
        ];
        let c = Case::new(&body).reg(1, DATA).reg(2, 0x3_ffff);
        c.per_iteration().0
    };
    let nop = i(Addi, 0, 0, 0);
    let without = miss(nop, nop);
    expect(
        "mul behind a miss",
        miss(r(Mul, 28, 9, 9), r(Add, 29, 29, 28)),
        without,
        0.0,
    );
    expect(
        "mul, unused, and a miss",
        miss(r(Mul, 28, 9, 9), nop),
        without,
        0.0,
    );
}

#[test]
fn the_divider_comes_first_of_what_waits_at_a_block() {
    // The result in front of `fdiv` is written too late for it, though what needs the register comes later.
    let body = [rm(FdivD, 3, 1, 2, 0), rm(FaddD, 4, 3, 3, 0)];
    expect(
        "fdiv, fadd of it",
        Case::new(&body).per_iteration().0,
        65.0,
        0.0,
    );
}

#[test]
fn atomics_and_fences() {
    let k8 = |w: &[u32]| Case::new(&times(8, w)).reg(1, DATA).cycles() / 8.0;
    // Eight to the same word and register: each waits for the one in front, the first of an iteration behind a
    // branch.
    let add = |bits| k8(&[rm(AmoaddD, 5, 1, 6, bits)]) * 8.0 - 1.0;
    expect("7 amoadd hits", add(0), 54.0, 0.0);
    expect("7 amoadd.aqrl hits", add(3), 28.0, 1.0);
    expect(
        "lr+sc",
        k8(&[rm(LrD, 5, 1, 0, 0), rm(ScD, 6, 1, 7, 0)]),
        7.1,
        0.2,
    );
    expect("fence", k8(&[i(Fence, 0, 0, 0xff)]), 1.1, 0.2);
    expect(
        "fence after a store",
        k8(&[s(Sd, 5, 1, 0), i(Fence, 0, 0, 0xff)]),
        4.0,
        0.3,
    );
    expect(
        "csrr, then its use",
        k8(&[csrr(5, 0x340), r(Add, 6, 5, 5)]),
        4.0,
        0.0,
    );
    expect(
        "csrw mtvec",
        k8(&[csrr(5, 0x305), csrw(0x305, 5)]),
        8.0,
        0.0,
    );
    expect("csrw", k8(&[csrw(0x340, 5)]), 1.0, 0.0);
    expect("sfence.vma", k8(&[n(SfenceVma)]), 5.1, 0.2);
}

#[test]
fn fence_i_with_its_refetch() {
    for latency in [10, 50] {
        // Each fence at the end of a line, so that every refetch is a miss on its own.
        let mut line = vec![i(Addi, 0, 0, 0); 15];
        line.push(n(FenceI));
        let mut c = Case::new(&line);
        c.latency = latency;
        // The loop's own instructions lie in the next line, which has to come back, too.
        let got = c.cycles() - 15.0;
        let (f, extra) = (23 + latency, (latency + 19) as f64);
        expect("fence.i", got - extra, f as f64, 1.0);
        // It waits for accesses in front of it: it comes four cycles behind the store.
        let loops = |line: &[u32]| {
            let mut c = Case::new(line).reg(1, DATA);
            c.latency = latency;
            c.cycles()
        };
        let alone = loops(&[n(FenceI)]);
        let (store, nop) = (s(Sd, 5, 1, 0), i(Addi, 0, 0, 0));
        let close = [store, n(FenceI)];
        expect("sd, fence.i", loops(&close) - alone, 4.0, 0.1);
        let far = [store, nop, nop, nop, nop, nop, n(FenceI)];
        expect("sd, nops, fence.i", loops(&far) - alone, 6.0, 0.1);
    }
}

#[test]
fn trap_and_return() {
    // x30 is where the handler returns to: the instruction behind the ecall.
    let body = [u(Auipc, 30, 0), i(Addi, 30, 30, 12), n(Ecall)];
    expect(
        "ecall + csrw mepc + mret",
        Case::new(&body).cycles() - 2.0,
        11.0,
        0.5,
    );
}

/// Cycles of a load of `stride` through `span` bytes that misses, besides the instructions around it.
fn misses(store: bool, span: i32, latency: u64, hub: u32) -> (f64, f64) {
    // x5 goes round in the span: and, add, then the access.
    let access = if store {
        s(Sd, 6, 7, 0)
    } else {
        i(Ld, 6, 7, 0)
    };
    let body = [
        i(Addi, 5, 5, 64),
        r(And, 5, 5, 2),
        r(Add, 7, 5, 1),
        access,
        r(Add, 6, 6, 0),
    ];
    let mut c = Case::new(&body).reg(1, DATA).reg(2, span as u64 - 1);
    c.latency = latency;
    c.hub = hub;
    let ((c1, s1), (c2, s2)) = (c.run(4000), c.run(8000));
    let m = |s: HartStats| s.l1d_load_misses + s.l1d_store_misses;
    let count = (m(s2) - m(s1)) as f64;
    let dirty = (s2.l1d_writebacks - s1.l1d_writebacks) as f64 / count;
    assert!(count > 3500.0, "{count} misses of 4000");
    // Hits cost one cycle (a store) or two with the use (a load); the load's miss replaces the latter.
    let around = 4000.0 * (4.0 + LOOP) + (4000.0 - count) * if store { 1.0 } else { 2.0 };
    (((c2 - c1) as f64 - around) / count, dirty)
}

#[test]
fn data_misses() {
    for latency in [10, 40] {
        let (clean, none) = misses(false, 1 << 18, latency, 0);
        assert_eq!(none, 0.0);
        expect(
            "L1D load miss, clean victim",
            clean,
            latency as f64 + 15.1,
            1.0,
        );
        let (dirty, all) = misses(true, 1 << 18, latency, 0);
        assert!(all > 0.99);
        expect(
            "L1D miss, dirty victim",
            dirty,
            latency as f64 + 15.1 + 17.6,
            1.5,
        );
        let (hub, _) = misses(false, 1 << 18, latency, 7);
        expect("hub", hub - clean, 7.0, 0.0);
    }
}

#[test]
fn instruction_misses() {
    for latency in [10, 40] {
        // Jumps from line to line over 32 KiB: twice what the cache holds.
        let lines = 512;
        let mut body = Vec::new();
        for _ in 0..lines {
            body.push(u(Jal, 0, 64));
            body.extend([i(Addi, 0, 0, 0); 15]);
        }
        let mut c = Case::new(&body);
        c.latency = latency;
        let ((c1, s1), (c2, s2)) = (c.run(10), c.run(20));
        let m = (s2.l1i_misses - s1.l1i_misses) as f64;
        // A jump that hits is late (the BTB is too small): two cycles.
        let hits = 10.0 * lines as f64 - m;
        let got = ((c2 - c1) as f64 - 2.0 * hits) / m;
        expect(
            "L1I miss, jump to next line",
            got,
            latency as f64 + 20.0,
            2.0,
        );
        let straight = vec![i(Addi, 5, 5, 1); 16 * lines];
        let mut c = Case::new(&straight);
        c.latency = latency;
        let ((c1, s1), (c2, s2)) = (c.run(10), c.run(20));
        let m = (s2.l1i_misses - s1.l1i_misses) as f64;
        let got = ((c2 - c1) as f64 - (10.0 * lines as f64 - m) * 16.0) / m;
        expect(
            "L1I straight line, 16 instructions",
            got,
            latency as f64 + 35.0,
            2.0,
        );
    }
}

#[test]
fn copy_of_a_line() {
    for latency in [10, 40] {
        let mut body = Vec::new();
        for k in 0..8 {
            body.push(i(Ld, 10 + k, 6, 8 * k as i32));
        }
        for k in 0..8 {
            body.push(s(Sd, 10 + k, 7, 8 * k as i32));
        }
        body.extend([i(Addi, 6, 6, 64), i(Addi, 7, 7, 64)]);
        let mut c = Case::new(&body)
            .reg(6, DATA)
            .reg(7, DATA + 0x8_0000 + 0x1000);
        c.latency = latency;
        // The pointers are part of the measured loop.
        let ((c1, _), (c2, _)) = (c.run(1000), c.run(3000));
        expect(
            "copy 64 B",
            (c2 - c1) as f64 / 2000.0,
            2.0 * latency as f64 + 63.0,
            0.06 * (2.0 * latency as f64 + 63.0),
        );
    }
}

#[test]
fn data_tlb_misses() {
    // One word in each of 128 pages, each in another set of the cache (twice round); the
    // leaf entries take 16 lines. All of it fits into L1D.
    let body = [
        i(Addi, 5, 5, 1),
        i(Andi, 5, 5, 127),
        i(Slli, 6, 5, 12),
        i(Andi, 7, 5, 63),
        i(Slli, 7, 7, 6),
        r(Add, 6, 6, 7),
        i(Ld, 7, 6, 0),
        r(Add, 7, 7, 0),
    ];
    let mut c = Case::new(&body);
    c.paged = true;
    let ((c1, s1), (c2, s2)) = (c.run(20_000), c.run(30_000));
    let m = (s2.dtlb_misses - s1.dtlb_misses) as f64;
    let all = |s: HartStats| s.l1d_load_misses + s.l1d_store_misses + s.l1d_walk_misses;
    let l1 = (all(s2) - all(s1)) as f64;
    assert!(
        m > 9_000.0 && l1 < 10.0,
        "{m} TLB misses, {l1} cache misses"
    );
    let got = ((c2 - c1) as f64 - 10_000.0 * (9.0 + LOOP)) / m;
    expect("DTLB miss, leaf PTE in L1D", got, 11.0, 0.1);
    // 32 pages are covered.
    let mut small = body;
    small[1] = i(Andi, 5, 5, 31);
    let mut c = Case::new(&small);
    c.paged = true;
    let (s1, s2) = (c.run(2000).1, c.run(3000).1);
    assert_eq!(s1.dtlb_misses, s2.dtlb_misses);
}

#[test]
fn every_walk_is_charged() {
    // One page misses again and again, with a walk for the code in between or without.
    for (which, code_walks) in [(0, 1000), (1, 0)] {
        let body = [r(SfenceVma, 0, which, 0), i(Ld, 7, 1, 0), r(Add, 7, 7, 0)];
        let mut c = Case::new(&body).reg(1, 0x3000);
        c.paged = true;
        let ((c1, s1), (c2, s2)) = (c.run(1000), c.run(2000));
        assert_eq!(s2.dtlb_misses - s1.dtlb_misses, 1000);
        assert_eq!(s2.itlb_misses - s1.itlb_misses, code_walks);
        // Two levels above the leaf of the page, none above that of the code; and none where only a page
        // was forgotten.
        let t = rocket().timing;
        let walks = t.tlb_miss
            + match code_walks {
                0 => 0,
                _ => t.tlb_miss + 2 * t.ptw_level,
            };
        let around = 5.0 + 3.0 + LOOP;
        expect(
            "walks",
            (c2 - c1) as f64 / 1000.0 - around,
            walks as f64,
            0.0,
        );
    }
}

#[test]
fn devices() {
    let body = times(4, &[i(Lw, 5, 1, 0), r(Add, 6, 5, 5)]);
    let got = Case::new(&body).reg(1, DEVICE).cycles() / 4.0;
    // One behind the port; as the PLIC, and a cycle more than the CLINT (platform's test of the map).
    expect("PLIC load + use", got, 10.2, 0.25);
}

#[test]
fn measuring_twice_gives_the_same() {
    let mut rng = Rng::new(3);
    let body: Vec<u32> = (0..40)
        .flat_map(|_| li(rng.below(20) as u8 + 5, rng.bits() as i32))
        .collect();
    let c = Case::new(&body);
    assert_eq!(c.run(500), c.run(500));
}
