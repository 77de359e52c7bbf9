//! Markers: what they do, when, and that they cost what an ordinary instruction costs.

use crate::common::random::op;
use crate::common::*;
use nagori_config::Method;
use nagori_hart::HartStats;
use nagori_isa::Op;
use nagori_machine::{Engine, Label, Machine, Regions, Stop, TranslatorOptions};

const TRANSLATOR: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});
const A0: u8 = 10;
const T0: u8 = 5;
const T1: u8 = 6;

fn inst(kind: Op, rd: u8, rs1: u8, imm: i32) -> u32 {
    op(kind, rd, rs1, 0, imm)
}

fn mark(op: Op, rs1: u8) -> u32 {
    inst(op, 0, rs1, 0)
}

fn addi(rd: u8, rs1: u8, imm: i32) -> u32 {
    inst(Op::Addi, rd, rs1, imm)
}

fn branch(op: Op, rs1: u8, imm: i32) -> u32 {
    inst(op, 0, rs1, imm)
}

/// `mark.stop` with a code, and a loop behind it.
fn stop(code: i32) -> Vec<u32> {
    vec![
        addi(A0, 0, code),
        mark(Op::MarkStop, A0),
        inst(Op::Jal, 0, 0, 0),
    ]
}

/// `n` times a load of another line of NVMM (from a register of its address, T0 on).
fn touch(n: i32) -> Vec<u32> {
    vec![
        addi(T1, 0, n),
        inst(Op::Ld, A0, T0, 0),
        addi(T0, T0, 64),
        addi(T1, T1, -1),
        branch(Op::Bne, T1, -12),
    ]
}

/// T0 = the first byte of NVMM of the default machine.
fn nvmm(m: &Machine) -> Vec<u32> {
    let at = m.config().memory.nvmm_base();
    assert_eq!(at & 0xfff, 0);
    vec![
        inst(Op::Lui, T0, 0, at as i32),
        inst(Op::Slli, T0, T0, 32),
        inst(Op::Srli, T0, T0, 32),
    ]
}

fn machine(settings: &[&str], timed: bool, engine: Engine) -> Machine {
    let mut all = vec!["harts=1"];
    all.extend(settings);
    let mut m = build(&describe("vc707", &all), timed);
    m.set_engine(engine).expect("an engine");
    m
}

/// Runs a program on a machine that is made for it, up to the first stop that is none of the host's.
fn go(m: &mut Machine, words: &[u32]) -> Stop {
    load_words(m, words);
    proceed(m)
}

fn proceed(m: &mut Machine) -> Stop {
    for _ in 0..1000 {
        match m.run(100_000, None) {
            Stop::Slice => {}
            other => return other,
        }
    }
    panic!("the program does not end");
}

/// Cycles and events of a program with a word in the middle of a loop.
fn cost(settings: &[&str], timed: bool, engine: Engine, word: u32) -> (u64, u64, HartStats) {
    let mut m = machine(settings, timed, engine);
    // A division is under way across the word, and a multiplication behind it.
    let mut words = nvmm(&m);
    words.extend([addi(T1, 0, 50), addi(7, 0, 77)]);
    let body = [
        inst(Op::Ld, A0, T0, 0),
        op(Op::Mul, 8, 7, 7, 0),
        word,
        addi(9, 8, 1),
        op(Op::Mul, 8, 7, 8, 0),
        addi(T0, T0, 64),
        addi(T1, T1, -1),
    ];
    words.extend(body);
    words.push(branch(Op::Bne, T1, -4 * body.len() as i32));
    // The end by the test device, so that it works without markers.
    words.extend([
        inst(Op::Lui, A0, 0, 0x10_0000),
        inst(Op::Lui, 7, 0, 0x5000),
        addi(7, 7, 0x555),
        op(Op::Sw, 0, A0, 7, 0),
    ]);
    assert_eq!(go(&mut m, &words), Stop::PowerOff(0));
    let h = m.hart(0).expect("a hart");
    (h.state.cycle, h.state.instret, h.state.stats)
}

#[test]
fn a_marker_costs_what_the_hint_costs_that_it_is() {
    // The hint that markers are, with a number that means nothing.
    let free = inst(Op::Slti, 0, A0, 0x4ef);
    for timed in [true, false] {
        let plain = cost(&[], timed, Engine::Interpreter, free);
        for engine in [Engine::Interpreter, TRANSLATOR] {
            for settings in [&[][..], &["markers=false"]] {
                for op in [
                    Op::MarkLabel,
                    Op::MarkStatsDump,
                    Op::MarkRoiBegin,
                    Op::MarkRoiEnd,
                ] {
                    let marked = cost(settings, timed, engine, mark(op, A0));
                    assert_eq!(
                        marked, plain,
                        "{op:?} {settings:?} timed: {timed} {engine:?}"
                    );
                }
            }
        }
    }
}

/// Two regions with 10 and 20 misses to NVMM, 40 before, between and behind.
fn regions(timed: bool, only: bool, engine: Engine) -> (Machine, Regions) {
    let mut m = machine(&[], timed, engine);
    m.set_timed_regions(only);
    let mut words = nvmm(&m);
    for n in [10, 20] {
        words.extend(touch(40));
        // A second begin and a second end mean nothing.
        words.extend([mark(Op::MarkRoiBegin, 0); 2]);
        words.extend(touch(n));
        words.extend([mark(Op::MarkRoiEnd, 0); 2]);
    }
    words.extend(touch(40));
    words.extend(stop(7));
    assert_eq!(go(&mut m, &words), Stop::PowerOff(7));
    let r = m.regions().expect("regions");
    (m, r)
}

#[test]
fn regions_add_up() {
    let (m, r) = regions(true, false, Engine::Interpreter);
    let all = m.report();
    assert_eq!((r.count, r.open), (2, false));
    let [_, inside] = r.report.memory.regions;
    let [_, whole] = all.memory.regions;
    assert_eq!((inside.counters.reads, whole.counters.reads), (30, 150));
    assert_eq!(inside.read_latency.count, 30);
    assert_eq!(inside.counters.read_bytes, 30 * 64);
    // Begin twice, the loops of four instructions and one in front, the first end.
    assert_eq!(r.report.instructions, 2 * 3 + 4 * 30);
    assert!(r.report.elapsed_ps < all.elapsed_ps / 3);
    assert_eq!(r.report.elapsed_ps, r.report.memory.elapsed().0);
    assert_eq!(r.report.cycles, r.report.elapsed_ps / 20_000);
    let (t, other) = regions(true, false, TRANSLATOR);
    assert_eq!((r, all), (other, t.report()));
}

#[test]
fn only_regions_are_timed() {
    for engine in [Engine::Interpreter, TRANSLATOR] {
        let (m, r) = regions(false, true, engine);
        assert!(!m.timed());
        let [_, inside] = r.report.memory.regions;
        assert_eq!(inside.counters.reads, 30);
        assert_eq!(m.report().memory.regions[1].counters.reads, 30);
    }
}

#[test]
fn an_open_region_is_reported_and_starts_anew_with_the_statistics() {
    let mut m = machine(&[], true, Engine::Interpreter);
    let mut words = nvmm(&m);
    words.push(mark(Op::MarkRoiBegin, 0));
    words.extend(touch(10));
    words.push(mark(Op::MarkStatsReset, 0));
    words.extend(touch(5));
    words.extend(stop(0));
    assert_eq!(go(&mut m, &words), Stop::PowerOff(0));
    let r = m.regions().expect("a region");
    assert_eq!((r.count, r.open), (0, true));
    assert_eq!(r.report.memory.regions[1].counters.reads, 5);
    assert_eq!(m.report().memory.regions[1].counters.reads, 5);
}

#[test]
fn what_markers_leave_is_the_same_with_both_engines() {
    let result = |engine| {
        let mut m = machine(&[], true, engine);
        let mut words = nvmm(&m);
        words.extend([
            addi(A0, 0, 0x41),
            mark(Op::MarkLabel, A0),
            mark(Op::MarkLabel, 0),
        ]);
        words.extend(touch(3));
        words.extend([addi(A0, 0, 99), mark(Op::MarkStatsDump, A0)]);
        words.extend([addi(A0, 0, 3), mark(Op::MarkMethod, A0)]);
        words.extend([addi(A0, 0, 4), mark(Op::MarkMethod, A0)]);
        words.extend([addi(A0, 0, 12), mark(Op::MarkSnapshot, A0)]);
        words.extend(touch(3));
        words.extend(stop(-1));
        assert_eq!(go(&mut m, &words), Stop::Snapshot(12));
        assert_eq!(m.report().memory.method, Method::Extended);
        assert_eq!(m.markers_refused(), 1);
        let pc = m.hart(0).expect("a hart").state.pc;
        // Saved here, it would go on behind the marker.
        let last = words
            .iter()
            .position(|w| *w == mark(Op::MarkSnapshot, A0))
            .expect("there");
        assert_eq!(pc, m.config().memory.base + 4 * (last as u64 + 1));
        assert_eq!(proceed(&mut m), Stop::PowerOff(u32::MAX));
        let labels = m.labels().to_vec();
        assert_eq!([labels[0].value, labels[1].value], [0x41, 0]);
        assert_eq!(labels[0].text().as_deref(), Some("A"));
        assert_eq!(labels[0].instructions + 1, labels[1].instructions);
        assert_eq!(labels[0].time_ps + 20_000, labels[1].time_ps);
        assert_eq!(m.marks().len(), 1);
        assert_eq!(m.marks()[0].0, 99);
        (labels, m.marks().to_vec(), m.report())
    };
    let [a, b] = [Engine::Interpreter, TRANSLATOR].map(result);
    assert_eq!(a, b);
    assert!(a.1[0].1.instructions < a.2.instructions);
}

#[test]
fn markers_that_are_off_do_nothing() {
    for engine in [Engine::Interpreter, TRANSLATOR] {
        let mut m = machine(&["markers=false"], true, engine);
        let ops = [
            Op::MarkRoiBegin,
            Op::MarkRoiEnd,
            Op::MarkStatsReset,
            Op::MarkStatsDump,
            Op::MarkMethod,
            Op::MarkLabel,
            Op::MarkSnapshot,
            Op::MarkStop,
        ];
        let mut words: Vec<u32> = ops.map(|op| mark(op, A0)).to_vec();
        words.push(inst(Op::Jal, 0, 0, 0));
        load_words(&mut m, &words);
        assert_eq!(m.run(100_000, Some(1000)), Stop::Instructions);
        assert!(m.regions().is_none() && m.labels().is_empty() && m.marks().is_empty());
        assert!(m.report().instructions >= 1000);
    }
}

#[test]
fn a_program_that_marks_without_end_fills_no_memory() {
    let mut m = machine(&[], false, Engine::Interpreter);
    let words = [
        mark(Op::MarkLabel, 0),
        mark(Op::MarkStatsDump, 0),
        inst(Op::Jal, 0, 0, -8),
    ];
    load_words(&mut m, &words);
    assert_eq!(m.run(u64::MAX, Some(60_000)), Stop::Instructions);
    assert_eq!((m.labels().len(), m.marks().len()), (16384, 16384));
    assert!(m.labels_lost() > 7000, "{}", m.labels_lost());
}

#[test]
fn labels_are_text_where_they_can_be() {
    let text = |bytes: [u8; 8]| {
        let value = u64::from_le_bytes(bytes);
        let (time_ps, hart, instructions) = (0, 0, 0);
        Label {
            value,
            time_ps,
            hart,
            instructions,
        }
        .text()
    };
    assert_eq!(text(*b"phase 1\0").as_deref(), Some("phase 1"));
    assert_eq!(text(*b"12345678").as_deref(), Some("12345678"));
    assert_eq!(text([0; 8]), None);
    assert_eq!(text(*b"a\0b\0\0\0\0\0"), None);
    assert_eq!(text(*b"a\x07\0\0\0\0\0\0"), None);
}
