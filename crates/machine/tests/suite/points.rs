//! Stopping at exact points: the same state with every engine, and that of a run without the stop.

use crate::common::random::op;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{Dram, Engine, Machine, Point, Stop};
use nagori_platform::clock::Ps;

/// A loop that counts in x5, stores into lines of its hart, and divides now and then: blocks of some
/// length, misses, and instructions that take long.
fn program() -> Vec<u32> {
    let mut words = vec![
        op(Op::Csrrs, 6, 0, 0, 0xf14),
        op(Op::Slli, 6, 6, 0, 16),
        op(Op::Add, 10, 10, 6, 0),
    ];
    let start = words.len() as i32;
    for i in 0..20 {
        words.push(op(Op::Addi, 5, 5, 0, 1));
        words.push(op(Op::Sd, 0, 10, 5, 64 * i));
    }
    words.push(op(Op::Divu, 7, 5, 6, 0));
    words.push(op(Op::Addi, 10, 10, 0, 1024));
    words.push(op(Op::Andi, 11, 5, 0, 511));
    words.push(op(Op::MarkLabel, 0, 5, 0, 0));
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, 4 * (start - here)));
    words
}

fn start(harts: u32, timed: bool, engine: Engine) -> Machine {
    let harts = format!("harts={harts}");
    let mut m = build(
        &describe("small", &[&harts, "memory.track_persistence=true"]),
        timed,
    );
    m.set_engine(engine).expect("an engine of this host");
    load_words(&mut m, &program());
    let base = m.config().memory.base;
    for i in 0..m.config().harts as usize {
        m.hart_mut(i)
            .expect("a hart")
            .set_reg(10, base + (128 << 20));
    }
    m
}

fn run_to_point(m: &mut Machine) {
    for _ in 0..100_000 {
        match m.run(7000, None) {
            Stop::Reached => return,
            Stop::Slice => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("the point is not reached");
}

/// What tells states apart: of each hart pc, a counter, cycles, and retired instructions.
fn state(m: &Machine) -> Vec<(u64, u64, u64, u64)> {
    let harts = (0..).map_while(|i| m.hart(i));
    harts
        .map(|h| (h.state.pc, h.reg(5), h.state.cycle, h.state.instret))
        .collect()
}

fn at(
    harts: u32,
    timed: bool,
    engine: Engine,
    point: Point,
) -> (Machine, Vec<(u64, u64, u64, u64)>) {
    let mut m = start(harts, timed, engine);
    m.set_point(Some(point));
    run_to_point(&mut m);
    assert_eq!(m.point(), None);
    let s = state(&m);
    (m, s)
}

#[test]
fn instructions_are_counted_exactly() {
    for (harts, timed) in [(1, true), (1, false), (4, true), (4, false)] {
        let mut seen = Vec::new();
        for n in [1, 2, 44, 1000, 1001, 1002, 77_777, 200_003] {
            let point = Point::Instructions(n);
            let [a, b] = [Engine::Interpreter, Engine::best()].map(|e| at(harts, timed, e, point));
            assert_eq!(a.0.instructions(), n, "{harts} harts, timed {timed}");
            assert_eq!(a.1, b.1, "{n} on {harts} harts, timed {timed}");
            seen.push(a.1);
        }
        // Three in a row differ by an instruction of one hart each.
        for pair in seen[3..6].windows(2) {
            let changed = pair[0].iter().zip(&pair[1]).filter(|(a, b)| a.3 != b.3);
            assert_eq!(changed.count(), 1, "{pair:?}");
        }
    }
}

#[test]
fn one_hart_is_where_it_would_have_been() {
    // What the loop has done behind n instructions follows from n.
    for n in [500u64, 501, 12_345] {
        let (m, _) = at(1, true, Engine::best(), Point::Instructions(n));
        let counted = (0..n)
            .filter(|i| *i >= 3 && (i - 3) % 45 < 40 && ((i - 3) % 45).is_multiple_of(2))
            .count() as u64;
        assert_eq!(m.hart(0).expect("a hart").reg(5), counted);
    }
}

#[test]
fn time_is_exact_on_every_hart() {
    for (harts, timed) in [(1, true), (1, false), (4, true), (4, false)] {
        for us in [3, 50, 777] {
            let t = Ps(us * 1_000_000 + 1);
            let point = Point::Time(t);
            let [a, b] = [Engine::Interpreter, Engine::best()].map(|e| at(harts, timed, e, point));
            assert_eq!(a.1, b.1, "{us} us on {harts} harts, timed {timed}");
            let end =
                t.0.div_ceil(1_000_000_000_000 / a.0.config().clock_hz.nearest_hz());
            for (i, h) in a.1.iter().enumerate() {
                // One that waits for memory over that time stands where it began to.
                let blocked = a.0.hart(i).is_some_and(|h| h.is_blocked());
                assert!(h.2 >= end || blocked, "{} is before {end}", h.2);
                // Not more than an instruction with all its misses.
                assert!(h.2 < end + 20_000, "{} is far behind {end}", h.2);
            }
            if !timed {
                assert!(a.1.iter().all(|h| h.2 == end), "{:?}", a.1);
            }
        }
    }
}

#[test]
fn a_machine_that_sleeps_is_stopped_in_time() {
    let mut m = build(&describe("small", &["harts=2"]), true);
    load_words(&mut m, &[op(Op::Wfi, 0, 0, 0, 0), op(Op::Jal, 0, 0, 0, -4)]);
    m.set_point(Some(Point::Time(Ps(5_000_000_000))));
    assert_eq!(m.run(1000, None), Stop::Reached);
    assert_eq!(m.now(), Ps(5_000_000_000));
    let cut = m.power_cut(Dram::Zero);
    // No tracking, and the timing model is on.
    assert!(cut.is_err());
}

#[test]
fn the_nth_label_stops_behind_its_marker() {
    for engine in [Engine::Interpreter, Engine::best()] {
        for (timed, nth) in [(true, 1), (false, 1), (true, 3)] {
            // The loop sets label 20 k in its kth round.
            let mut m = start(1, timed, engine);
            m.set_point(Some(Point::Label {
                value: 20 * 7,
                nth: 1,
            }));
            run_to_point(&mut m);
            let h = m.hart(0).expect("a hart");
            assert_eq!((h.reg(5), h.state.instret), (140, 3 + 7 * 45 - 1));
            // Counted from when it was set.
            let other = Point::Label { value: 20 * 7, nth };
            m.set_point(Some(other));
            assert_eq!(m.run(50_000, None), Stop::Slice, "{other:?}");
        }
    }
}

#[test]
fn a_power_cut_at_a_point_is_the_same_each_time() {
    for point in [Point::Instructions(50_021), Point::Time(Ps(400_000_123))] {
        let cuts = [Engine::Interpreter, Engine::best()].map(|engine| {
            let (mut m, _) = at(4, true, engine, point);
            let cut = m.power_cut(Dram::Zero).expect("a cut");
            assert_eq!(m.power_cuts(), [cut]);
            assert!(cut.lost_lines > 0);
            let mut nvmm = vec![0; 8 << 20];
            m.ram().read_bytes(128 << 20, &mut nvmm).expect("in memory");
            (cut, nvmm, m.now())
        });
        assert!(cuts[0] == cuts[1]);
    }
}

#[test]
fn a_step_for_persistence_is_a_point() {
    use nagori_machine::Step;
    // Each round: two stores to a line of NVMM, a fence, a flush, a fence.
    let words = [
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::Sd, 0, 10, 12, 8),
        op(Op::Fence, 0, 0, 0, 0xff),
        op(Op::CboFlush, 0, 10, 0, 0),
        op(Op::Fence, 0, 0, 0, 0xff),
        op(Op::Addi, 12, 12, 0, 1),
        op(Op::Jal, 0, 0, 0, -24),
    ];
    const ROUND: u64 = 7;
    // Instructions of a round behind which the point is.
    let behind = |step, timed, nth: u64| match (step, timed) {
        (Step::NvmmWrite, true) | (Step::Flush, _) => (nth - 1) * ROUND + 4,
        (Step::NvmmWrite, false) => (nth - 1) / 2 * ROUND + 1 + (nth - 1) % 2,
        (Step::Fence, _) => (nth - 1) / 2 * ROUND + 3 + 2 * ((nth - 1) % 2),
    };
    let steps = [Step::NvmmWrite, Step::Fence, Step::Flush];
    for (timed, engine) in [
        (true, Engine::best()),
        (false, Engine::best()),
        (true, Engine::Interpreter),
    ] {
        for step in steps {
            for nth in [1, 2, 5, 8] {
                let mut m = build(&describe("small", &["harts=1"]), timed);
                m.set_engine(engine).expect("an engine of this host");
                load_words(&mut m, &words);
                let nvmm = m.config().memory.nvmm_base();
                m.hart_mut(0).expect("a hart").set_reg(10, nvmm);
                m.set_point(Some(Point::Step { step, nth }));
                while m.run(50, None) == Stop::Slice {}
                let at = m.instructions();
                assert_eq!(at, behind(step, timed, nth), "{step:?} {nth} {timed}");
                // It stops once, and another one is counted from there.
                assert_eq!(m.point(), None);
                assert_eq!(m.run(50, None), Stop::Slice);
            }
        }
    }
}
