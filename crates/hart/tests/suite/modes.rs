//! Random privileged programs in functional and timed mode, whole and in slices: what a program can see is the same;
//! time is the same wherever it is promised to be.
//!
//! Promised: two equal runs give equal cycles and statistics in both modes. In
//! functional mode cycles do not depend on how a run is cut into calls of
//! `run`. In timed mode they may: an access that misses waits for the next call
//! where the limit of the current one is past, so the limits are part of the
//! input; the platform's scheduler chooses them the same way every time.
//!
//! `NAGORI_HART_MODES` sets the number of programs (default 150).

use crate::common::bare::{self, Bare, OPEN};
use crate::common::guest::{Sv39, SUPER_ALL};
use crate::common::privileged::{Privileged, BASE, DONE, MEMORY};
use crate::common::worlds::Taken;
use crate::common::{env, i, n, rocket, s, Rng};
use nagori_hart::lines::Notice;
use nagori_hart::world::{Bus, World};
use nagori_hart::{CodeCache, Csrs, Exit, HartStats, Privilege};
use nagori_isa::Op;

/// What a program leaves behind.
#[derive(PartialEq, Debug)]
struct Result {
    x: Vec<u64>,
    f: Vec<u64>,
    csr: Csrs,
    privilege: Privilege,
    instret: u64,
    traps: Vec<Taken>,
    memory: Vec<u8>,
}

/// How long a program took, and what was counted.
#[derive(PartialEq, Debug)]
struct Time {
    cycle: u64,
    stats: HartStats,
    traffic: (u64, u64),
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
struct Way {
    timed: bool,
    /// Greatest length of a call of `run`.
    slice: u64,
    /// Filter entries are dropped between the calls.
    drop: bool,
}

const SLOTS: u64 = 160;

/// `None`: the program went astray and does not come to its end in time.
fn run(seed: u64, way: Way) -> Option<(Result, Time)> {
    let Privileged { mut w, mut h } = Privileged::random(seed, SLOTS, way.timed);
    let mut code = CodeCache::default();
    let mut rng = Rng::new(seed);
    loop {
        if w.steps > 100_000 {
            return None;
        }
        let limit = h.state.cycle + 1 + rng.below(way.slice);
        if h.run(&mut code, &mut w, limit) == Exit::Wfi {
            if h.state.pc == DONE {
                break;
            }
            // Some device wakes it.
            h.state.waiting = false;
        }
        if rng.one_in(16) {
            h.check_invariants(&mut w)
                .unwrap_or_else(|e| panic!("program {seed}, {way:?}: {e}"));
        }
        let first = rng.below(512) as u16;
        if way.drop && way.timed {
            for k in 0..64 {
                w.coherence()
                    .post(0, Notice::DropSlot((first + 8 * k) % 512));
            }
        }
    }
    let mut memory = vec![0; MEMORY as usize];
    w.ram().read_bytes(0, &mut memory).expect("all of it");
    let result = Result {
        x: (0..32).map(|k| h.reg(k)).collect(),
        f: (0..32).map(|k| h.freg(k)).collect(),
        csr: h.state.csr.clone(),
        privilege: h.state.privilege,
        instret: h.state.instret,
        traps: w.traps.clone(),
        memory,
    };
    Some((
        result,
        Time {
            cycle: h.state.cycle,
            stats: h.state.stats,
            traffic: w.flat.traffic,
        },
    ))
}

/// The first thing in which two results differ.
fn difference(a: &Result, b: &Result) -> Option<String> {
    let traps = a.traps.iter().zip(&b.traps).position(|(x, y)| x != y);
    if let Some(k) = traps {
        return Some(format!(
            "trap {k}: {:x?} and {:x?}, after {:x?}",
            a.traps[k],
            b.traps[k],
            &a.traps[k.saturating_sub(3)..k]
        ));
    }
    if a.traps.len() != b.traps.len() {
        return Some(format!("{} and {} traps", a.traps.len(), b.traps.len()));
    }
    for k in 0..32 {
        if a.x[k] != b.x[k] {
            return Some(format!("x{k}: {:#x} and {:#x}", a.x[k], b.x[k]));
        }
        if a.f[k] != b.f[k] {
            return Some(format!("f{k}: {:#x} and {:#x}", a.f[k], b.f[k]));
        }
    }
    if let Some(k) = a.memory.iter().zip(&b.memory).position(|(x, y)| x != y) {
        return Some(format!(
            "memory at {:#x}: {:#x} and {:#x}",
            BASE + k as u64,
            a.memory[k],
            b.memory[k]
        ));
    }
    if a != b {
        return Some(format!(
            "{:x?}\nand\n{:x?}",
            (&a.csr, a.privilege, a.instret),
            (&b.csr, b.privilege, b.instret)
        ));
    }
    None
}

#[track_caller]
fn same(seed: u64, what: &str, a: &Result, b: &Result) {
    if let Some(d) = difference(a, b) {
        panic!("program {seed}, {what}: {d}");
    }
}

#[test]
fn results_do_not_depend_on_the_mode_or_on_slices() {
    let whole = Way {
        timed: false,
        slice: 1_000_000,
        drop: false,
    };
    let (mut seen, mut instructions, mut modes) = ([0u64; 16], 0, [0u64; 4]);
    let programs = env("NAGORI_HART_MODES", 150);
    let mut astray = 0;
    for seed in 0..programs {
        let Some((a, ta)) = run(seed, whole) else {
            astray += 1;
            continue;
        };
        let run =
            |way: Way| run(seed, way).unwrap_or_else(|| panic!("program {seed}, {way:?}: no end"));
        for slice in [1, 40] {
            let (b, tb) = run(Way { slice, ..whole });
            same(seed, "functional, sliced", &a, &b);
            assert_eq!(ta, tb, "program {seed}: functional time depends on slices");
        }
        let timed = Way {
            timed: true,
            ..whole
        };
        let (b, tb) = run(timed);
        same(seed, "functional and timed", &a, &b);
        let (_, again) = run(timed);
        assert_eq!(tb, again, "program {seed}: two timed runs differ");
        for slice in [1, 300] {
            let sliced = Way { slice, ..timed };
            let (b, tb) = run(sliced);
            same(seed, "timed, sliced", &a, &b);
            let (b, td) = run(Way {
                drop: true,
                ..sliced
            });
            same(seed, "timed, with a leaky filter", &a, &b);
            assert_eq!(
                tb, td,
                "program {seed}: time depends on what the filter holds"
            );
        }
        a.traps
            .iter()
            .filter(|t| t.cause < 16)
            .for_each(|t| seen[t.cause as usize] += 1);
        a.traps.iter().for_each(|t| modes[t.to as usize] += 1);
        instructions += a.instret;
    }
    println!("{instructions} instructions, causes {seen:?}, traps to {modes:?}");
    assert!(
        astray * 100 <= programs,
        "{astray} of {programs} programs go astray"
    );
    // The programs must reach what they are made for.
    for cause in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15] {
        assert!(seen[cause] > 0, "no trap with cause {cause}: {seen:?}");
    }
    assert!(
        modes[1] > 100 && modes[3] > 100,
        "traps to S and M: {modes:?}"
    );
}

/// Loads and stores of sixteen pages that lie in different sectors of the TLB, some of
/// them hot; cycles and events, with filter entries dropped on the way or not.
fn traffic(seed: u64, slice: u64, drop: bool) -> (u64, HartStats) {
    let mut rng = Rng::new(seed);
    let mut words = Vec::new();
    for _ in 0..500 {
        let base = 10
            + if rng.one_in(2) {
                rng.below(5)
            } else {
                rng.below(16)
            } as u8;
        let off = 8 * rng.below(40) as i32;
        words.push(match rng.below(3) {
            0 => s(Op::Sd, 5, base, off),
            _ => i(Op::Ld, 5, base, off),
        });
    }
    words.push(i(Op::Addi, 31, 31, -1));
    words.push(s(Op::Bne, 0, 31, -4 * (words.len() as i32)));
    words.push(n(Op::Wfi));
    let mut b = Bare::new(rocket(), true, &[]);
    let data = bare::BASE + 0x10_0000;
    b.put(data, &words);
    let mut t = Sv39::new(b.w.ram(), bare::BASE, bare::BASE + 0x20_0000);
    t.map(data, data, 0x4000, SUPER_ALL);
    t.map(0, data + 0x1_0000, 16 << 14, SUPER_ALL);
    let satp = t.satp();
    b.enter(1, data, satp, 0, OPEN);
    (0..16).for_each(|k| b.h.set_reg(10 + k, (k as u64) << 14 | (k as u64 & 3) << 9));
    b.h.set_reg(31, 20);
    let mut cuts = Rng::new(seed);
    while b.h.run(
        &mut b.code,
        &mut b.w,
        b.h.state.cycle + 1 + cuts.below(slice),
    ) != Exit::Wfi
    {
        let (first, some) = (cuts.below(512), cuts.one_in(2));
        if drop && some {
            (0..256).for_each(|k| {
                b.w.coherence()
                    .post(0, Notice::DropSlot((first + k) as u16 % 512))
            });
        }
    }
    (b.h.state.cycle, b.h.state.stats)
}

#[test]
fn time_does_not_depend_on_what_the_filter_holds() {
    for seed in 0..20 {
        let (a, b) = (traffic(seed, 60, false), traffic(seed, 60, true));
        assert_eq!(a, b, "seed {seed}");
        // What is tried again counts once, however often that is.
        for slice in [1, 1 << 40] {
            let c = traffic(seed, slice, false).1;
            let events = |s| HartStats {
                memory_stall_cycles: 0,
                mispredicts: 0,
                ..s
            };
            assert_eq!(events(a.1), events(c), "seed {seed}, slices of {slice}");
        }
        assert!(
            a.1.dtlb_misses > 300,
            "the TLB is not under pressure: {:?}",
            a.1
        );
    }
}
