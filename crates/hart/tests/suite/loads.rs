//! A core that does not wait for loads: how many lines are on their way at a time, who waits for them and until
//! when, and which instructions issue together.

use crate::common::bare::{Bare, BASE};
use crate::common::worlds::core;
use crate::common::{csrr, i, n, r, rm, rocket, s, u};
use nagori_hart::config::{FirstConfig, HartConfig, PrefetchConfig};
use nagori_hart::lines::FirstStats;
use nagori_hart::world::{Bus, World};
use nagori_isa::Op::*;

/// Where the data is.
const DATA: u64 = BASE + 0x10_0000;
/// Cycles from a request to the first beat of a line.
const LATENCY: u64 = 200;

/// A core with some line fill buffers, one instruction at a time.
fn buffers(lfb: u32) -> HartConfig {
    let mut c = rocket();
    c.timing.lfb = lfb;
    // A line can be used as soon as its first beat is there.
    c.timing.l1d_miss = c.timing.load_latency;
    c.timing.hub = 0;
    c
}

/// Runs words once to have them in the caches, with data at `DATA`, then from `DATA` + 64 KiB on; `x16` and `x17` hold
/// the cycle at the beginning and at the end. Returns their distance and the counters of L1D.
fn measure(config: &HartConfig, words: &[u32], prepare: impl Fn(&mut Bare)) -> (u64, FirstStats) {
    let mut all = vec![csrr(16, 0xb00)];
    all.extend(words);
    all.extend([csrr(17, 0xb00), n(Ecall)]);
    let mut b = Bare::new(config.clone(), true, &all);
    b.w.latency = LATENCY;
    let first = FirstConfig {
        stores: Default::default(),
        mshrs: config.timing.lfb,
        prefetch: PrefetchConfig::default(),
    };
    let c = b.w.coherence();
    *c = c.clone().with_first([first, FirstConfig::default()]);
    let mut before = FirstStats::default();
    for turn in 0..2 {
        if let Some(s) = b.w.coherence().first_stats()[0] {
            before = s;
        }
        // What the first turn has asked for has come.
        b.h.state.cycle += 100 * LATENCY;
        b.h.state.pc = BASE;
        b.h.set_reg(10, DATA + turn * 0x1_0000);
        prepare(&mut b);
        b.run_to_trap();
    }
    let now = b.w.coherence().first_stats()[0].unwrap_or_default();
    let counted = now.zip(&before, |a, b| a - b);
    (b.h.reg(17) - b.h.reg(16), counted)
}

fn cycles(config: &HartConfig, words: &[u32]) -> u64 {
    measure(config, words, |_| {}).0
}

/// `k` chains of pointers, `n` steps each, one step of each after the other.
fn chains(config: &HartConfig, k: u64, steps: u64) -> u64 {
    let mut words = Vec::new();
    for c in 0..k {
        words.push(i(Addi, 20 + c as u8, 10, 0));
        words.push(u(Lui, 5, (c as i32) << 14));
        words.push(r(Add, 20 + c as u8, 20 + c as u8, 5));
    }
    for _ in 0..steps {
        words.extend((0..k).map(|c| i(Ld, 20 + c as u8, 20 + c as u8, 0)));
    }
    let last = (0..k).map(|c| r(Add, 6, 20 + c as u8, 0));
    words.extend(last.collect::<Vec<_>>());
    let put = |b: &mut Bare| {
        for turn in 0..2 {
            for c in 0..k {
                for step in 0..steps {
                    // Sets follow one another; chains do not meet.
                    let at = |n: u64| DATA + turn * 0x1_0000 + (c << 14) + n * (64 + 64 * k);
                    let place = at(step) - BASE;
                    b.w.ram().write_u64(place, at(step + 1)).expect("in memory");
                }
            }
        }
    };
    // The data of both turns is there from the start.
    measure(config, &words, put).0
}

#[test]
fn chains_overlap_up_to_the_number_of_buffers() {
    // Chains of the second turn are 64 KiB further, so at most four of 16 KiB.
    let steps = 12;
    let alone = chains(&buffers(10), 1, steps);
    assert!(alone >= steps * LATENCY, "{alone}");
    for k in 2..=4 {
        let together = chains(&buffers(10), k, steps);
        // All of them take the time of one, but for the issue of the loads.
        assert!(together < alone + alone / 10, "{k}: {together}, {alone}");
    }
    // With fewer buffers than chains, one waits for the other.
    let (four, two) = (chains(&buffers(4), 4, steps), chains(&buffers(2), 4, steps));
    assert!(
        two > four * 19 / 10 && two < four * 21 / 10,
        "{two}, {four}"
    );
    let waiting = chains(&rocket(), 4, steps);
    assert!(waiting > alone * 39 / 10, "{waiting}");
}

/// Loads of `n` lines whose values nobody uses, then their uses.
fn lines(n: i32) -> Vec<u32> {
    let loads = (0..n).map(|k| i(Ld, 18 + k as u8 % 12, 10, 64 * k));
    loads.collect()
}

#[test]
fn the_eleventh_miss_waits_for_the_first_line() {
    let c = buffers(10);
    let of = |n: i32| measure(&c, &lines(n), |_| {});
    let (ten, counted) = of(10);
    assert!(ten < 30, "nobody waits: {ten}");
    assert_eq!((counted.mshr_waits, counted.load_merges), (0, 0));
    let (eleven, counted) = of(11);
    assert!(eleven > LATENCY && eleven < LATENCY + 40, "{eleven}");
    assert_eq!(counted.mshr_waits, 1);
    // The first line is there 200 cycles after its request; the tenth was asked for 9 cycles later.
    assert!(
        (LATENCY - 11..LATENCY).contains(&counted.mshr_wait_cycles),
        "{counted:?}"
    );
}

#[test]
fn cycles_with_all_buffers_taken_are_counted() {
    let c = buffers(2);
    let mut words = lines(2);
    words.extend([r(Add, 5, 18, 19), i(Ld, 20, 10, 512), r(Add, 5, 20, 0)]);
    let counted = measure(&c, &words, |_| {}).1;
    // From the second miss to the arrival of the first line, of 200 cycles.
    assert_eq!(counted.mshr_full_cycles, LATENCY - 1);
    assert_eq!(counted.mshr_waits, 0);
}

#[test]
fn a_use_waits_until_the_line_is_there_and_not_longer() {
    let c = buffers(10);
    let with = |between: usize| {
        let mut words = vec![i(Ld, 5, 10, 0)];
        words.extend((0..between).map(|_| i(Addi, 6, 6, 1)));
        words.push(r(Add, 7, 5, 5));
        cycles(&c, &words)
    };
    let at_once = with(0);
    // Each instruction in between is hidden, up to the arrival; from then on each takes its cycle.
    assert!(at_once > LATENCY && at_once < LATENCY + 40, "{at_once}");
    let hidden: Vec<u64> = [1, 50, 100, 150].into_iter().map(with).collect();
    assert!(
        hidden.iter().all(|h| *h == at_once),
        "{at_once}: {hidden:?}"
    );
    // The load's own cycle, the cycle of the reading, and the use.
    let last = (0..300).rev().find(|n| with(*n) == at_once).expect("one");
    assert_eq!(with(last + 1), at_once + 1);
    assert_eq!(with(last + 17), at_once + 17);
    assert!(
        (LATENCY as usize..LATENCY as usize + 40).contains(&last),
        "{last}"
    );
}

#[test]
fn writing_the_register_waits_too_and_others_do_not() {
    let c = buffers(10);
    let behind = |w: u32| cycles(&c, &[i(Ld, 5, 10, 0), w, i(Addi, 6, 6, 1)]);
    for waits in [
        i(Addi, 5, 0, 1),
        s(Beq, 0, 5, 4),
        i(Fence, 0, 0, 0xff),
        i(Fence, 0, 0, 0x22),
    ] {
        assert!(behind(waits) > LATENCY, "{waits:#x}");
    }
    for goes in [
        i(Addi, 7, 7, 1),
        i(Fence, 0, 0, 0x11),
        i(Fence, 0, 0, 0x51),
        csrr(7, 0xb02),
    ] {
        assert!(behind(goes) < 40, "{goes:#x}");
    }
}

#[test]
fn atomics_that_release_wait_for_loads() {
    let c = buffers(10);
    // The line of the atomic is there before.
    let of = |order: u8| {
        cycles(
            &c,
            &[
                i(Addi, 12, 10, 1024),
                rm(AmoaddD, 0, 12, 0, 0),
                csrr(16, 0xb00),
                i(Ld, 5, 10, 0),
                rm(AmoaddD, 0, 12, 0, order),
            ],
        )
    };
    assert!(of(0) < 40, "{}", of(0));
    assert!(of(2) < 40, "acquire: {}", of(2));
    assert!(of(1) > LATENCY && of(3) > LATENCY, "release");
}

#[test]
fn loads_of_a_line_that_comes_wait_for_the_same_arrival() {
    let c = buffers(1);
    let words = [
        i(Ld, 5, 10, 0),
        i(Ld, 6, 10, 8),
        i(Lbu, 7, 10, 63),
        r(Add, 8, 5, 6),
        r(Add, 8, 8, 7),
    ];
    let (cycles, counted) = measure(&c, &words, |_| {});
    assert!(cycles < LATENCY + 40, "{cycles}");
    assert_eq!((counted.load_merges, counted.mshr_waits), (2, 0));
}

#[test]
fn hits_pass_under_misses() {
    let c = buffers(10);
    // A line that is there already.
    let words = [
        i(Ld, 6, 10, 1024),
        r(Add, 6, 6, 0),
        csrr(16, 0xb00),
        i(Ld, 5, 10, 0),
        i(Ld, 7, 10, 1024),
        r(Add, 8, 7, 7),
        s(Sd, 8, 10, 1024),
    ];
    assert!(cycles(&c, &words) < 40);
}

#[test]
fn values_are_those_of_memory() {
    let c = buffers(2);
    let words: Vec<u32> = (0..8)
        .map(|k| i(Ld, 18 + k, 10, 64 * i32::from(k)))
        .collect();
    let mut all = words.clone();
    all.push(n(Ecall));
    let mut b = Bare::new(c, true, &all);
    for k in 0..8 {
        b.w.ram()
            .write_u64(DATA - BASE + 64 * k, 1000 + k)
            .expect("in memory");
    }
    b.h.set_reg(10, DATA);
    b.run_to_trap();
    for k in 0..8 {
        assert_eq!(b.h.reg(18 + k as usize), 1000 + k);
    }
}

#[test]
fn pairs_issue_together() {
    let c = core(12);
    let of = |words: &[u32]| {
        // The line is there before; the store is to another word than the loads.
        let mut all = vec![
            i(Ld, 6, 10, 0),
            r(Add, 6, 6, 6),
            s(Sd, 6, 10, 32),
            csrr(16, 0xb00),
        ];
        for _ in 0..8 {
            all.extend(words);
        }
        cycles(&c, &all)
    };
    let nothing = of(&[]);
    let per = |words: &[u32]| of(words) - nothing;
    let (a, b) = (i(Addi, 5, 6, 1), i(Addi, 7, 6, 1));
    let (load, store) = (i(Ld, 0, 10, 0), s(Sd, 6, 10, 8));
    for (name, pair, apart) in [
        ("two ALUs", [a, b], false),
        ("a dependence", [i(Addi, 5, 5, 1), i(Addi, 5, 5, 1)], true),
        ("the same register", [a, i(Addi, 5, 6, 2)], true),
        ("one port", [load, store], true),
        ("a store and an ALU", [store, a], false),
        ("a load and an ALU", [load, r(Xor, 8, 6, 6)], false),
    ] {
        let took = per(&pair);
        if apart {
            assert!(took >= 15, "{name}: {took}")
        } else {
            assert!((7..=9).contains(&took), "{name}: {took}")
        }
    }
}
