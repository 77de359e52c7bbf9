//! Several harts over one memory: atomics, reservations, locks, messages, code that
//! another hart changes, and random traffic, with the interpreter and with translators.

use crate::common::smp::{each, locked, repeat, traffic, Machine, BASE, DATA, SLICES};
use crate::common::worlds::core;
use crate::common::{bytes, env, i, n, r, rm, s, Rng};
use nagori_hart::engine::NoEngine;
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{HartConfig, HartStats};
use nagori_isa::Op::*;
use nagori_translator::{Options, Translator};

const COMPARED: usize = 0x2000;

/// What a run left: cycles, counters and registers of each hart, transfers, memory.
#[derive(Debug, PartialEq)]
struct Left {
    times: Vec<(u64, u64, HartStats)>,
    registers: Vec<Vec<u64>>,
    traffic: (u64, u64),
    memory: Vec<u8>,
}

fn left<E: nagori_hart::engine::Engine<Flat>>(m: &Machine<E>) -> Left {
    let mut memory = vec![0; COMPARED];
    m.w.ram()
        .read_bytes(DATA - BASE, &mut memory)
        .expect("in memory");
    Left {
        times: m.times(),
        registers: m
            .harts
            .iter()
            .map(|h| (0..32).map(|k| h.reg(k)).collect())
            .collect(),
        traffic: m.w.traffic,
        memory,
    }
}

fn translator(threshold: u8, code_bytes: usize) -> Translator<Flat> {
    Translator::new(Options {
        code_bytes,
        threshold,
    })
    .expect("memory for code")
}

/// Runs programs with the interpreter and with translators; what they left.
fn both(
    name: &str,
    programs: &[Vec<u32>],
    timed: bool,
    slice: u64,
    set: impl Fn(&Flat, &mut [nagori_hart::Hart]),
) -> Left {
    // Also cores that do not wait for loads, and issue one or two instructions at a time.
    for number in [4, 12] {
        both_of(core(number), name, programs, timed, slice, &set);
    }
    both_of(core(0), name, programs, timed, slice, &set)
}

fn both_of(
    config: HartConfig,
    name: &str,
    programs: &[Vec<u32>],
    timed: bool,
    slice: u64,
    set: impl Fn(&Flat, &mut [nagori_hart::Hart]),
) -> Left {
    let mut m = Machine::with_core(config.clone(), programs, timed, || NoEngine);
    set(&m.w, &mut m.harts);
    m.run(slice);
    let expected = left(&m);
    for (threshold, code_bytes) in [(0, 1 << 20), (2, 1 << 20), (0, Options::LEAST_BYTES)] {
        let engine = || translator(threshold, code_bytes);
        let mut m = Machine::with_core(config.clone(), programs, timed, engine);
        set(&m.w, &mut m.harts);
        m.run(slice);
        let found = left(&m);
        assert_eq!(
            expected, found,
            "{name}, timed {timed}, slice {slice}, threshold {threshold}"
        );
        let entries: u64 = m.engines.iter().map(|t| t.stats().entries).sum();
        assert!(entries > 0, "{name}: nothing was translated");
    }
    expected
}

fn nothing(_: &Flat, _: &mut [nagori_hart::Hart]) {}

fn word(l: &Left, at: usize) -> u64 {
    u64::from_le_bytes(l.memory[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn additions_all_count() {
    let atomic = repeat(300, &[i(Addi, 5, 0, 3), rm(AmoaddD, 0, 10, 5, 0)]);
    let reserved = repeat(
        300,
        &[
            rm(LrD, 5, 10, 0, 0),
            i(Addi, 5, 5, 3),
            rm(ScD, 6, 10, 5, 0),
            s(Bne, 0, 6, -12),
        ],
    );
    let inside = [i(Ld, 7, 10, 0), i(Addi, 7, 7, 3), s(Sd, 7, 10, 0)];
    let lock = repeat(300, &locked(&inside));
    each(|timed, slice, harts| {
        for (name, p) in [("atomic", &atomic), ("lr", &reserved), ("lock", &lock)] {
            let l = both(name, &vec![p.clone(); harts], timed, slice, nothing);
            assert_eq!(word(&l, 0), 900 * harts as u64, "{name}");
        }
    });
}

#[test]
fn random_traffic_is_the_same() {
    for seed in 0..env("NAGORI_HART_TRAFFIC", 12) {
        for timed in [false, true] {
            for slice in SLICES {
                let mut rng = Rng::new(seed);
                let programs: Vec<_> = (0..2 + seed as usize % 3)
                    .map(|_| traffic(&mut rng))
                    .collect();
                both(&format!("traffic {seed}"), &programs, timed, slice, nothing);
            }
        }
    }
}

#[test]
fn messages_arrive_in_order() {
    let send = [
        i(Addi, 5, 5, 1),
        s(Sd, 5, 10, 0),
        i(Fence, 0, 0, 0xff),
        s(Sd, 5, 10, 128),
        i(Ld, 6, 10, 256),
        s(Bne, 5, 6, -4),
    ];
    let receive = [
        i(Addi, 5, 5, 1),
        i(Ld, 6, 10, 128),
        s(Bne, 5, 6, -4),
        i(Ld, 7, 10, 0),
        // A wrong value is added up at 512.
        r(Sub, 8, 7, 5),
        i(Ld, 9, 10, 512),
        r(Or, 9, 9, 8),
        s(Sd, 9, 10, 512),
        s(Sd, 5, 10, 256),
    ];
    for timed in [false, true] {
        for slice in SLICES {
            let programs = [repeat(200, &send), repeat(200, &receive)];
            let l = both("messages", &programs, timed, slice, nothing);
            assert_eq!((word(&l, 0), word(&l, 512)), (200, 0));
        }
    }
}

/// Hart 0 changes a function, again and again, that hart 1 and others call in a loop: with
/// and without fence.i on the calling side.
#[test]
fn code_changed_by_another_hart() {
    for fence in [n(FenceI), i(Addi, 0, 0, 0)] {
        for timed in [false, true] {
            for slice in SLICES {
                // x12 and x13: two words for the function at x10; x14 counts turns.
                let a = repeat(
                    60,
                    &[
                        s(Sw, 12, 10, 0),
                        i(Addi, 30, 0, 40),
                        i(Addi, 30, 30, -1),
                        s(Bne, 0, 30, -4),
                        s(Sw, 13, 10, 0),
                        i(Addi, 30, 0, 30),
                        i(Addi, 30, 30, -1),
                        s(Bne, 0, 30, -4),
                    ],
                );
                let b = repeat(400, &[fence, i(Jalr, 1, 10, 0), r(Add, 7, 7, 6)]);
                let l = both(
                    "changed code",
                    &[a, b.clone(), b],
                    timed,
                    slice,
                    |w, harts| {
                        let f = [i(Addi, 6, 0, 1), i(Jalr, 0, 1, 0)];
                        w.ram()
                            .write_bytes(DATA - BASE, &bytes(&f))
                            .expect("in memory");
                        harts[0].set_reg(12, i(Addi, 6, 0, 2).into());
                        harts[0].set_reg(13, i(Addi, 6, 0, 5).into());
                    },
                );
                // Whole words only, and more than one of them.
                let sum = l.registers[1][7];
                assert!((401..=2000).contains(&sum), "{sum}");
            }
        }
    }
}
