//! What the front end does follows from the instructions that are executed, and not from where blocks
//! are cut: random code in blocks of any length takes the same cycles, with either engine.
//!
//! The code has what the front end's state depends on: branches, jumps, calls, returns and indirect
//! jumps of both lengths at all alignments, more lines than L1I holds, loads.

use crate::common::{bytes, i, r, rocket, s, u, Rng};
use crate::sides::{translator, Runner, CODE_BYTES};
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartStats};
use nagori_isa::Op::*;
use std::collections::BTreeMap;

const BASE: u64 = 0x8000_0000;
const CODE: u64 = BASE + 0x1000;
const DATA: u64 = BASE + 0x10_0000;
/// Holds the address of an instruction.
const PLACES: std::ops::Range<u8> = 16..24;

/// A compressed jump to a distance.
fn c_j(to: i64) -> u16 {
    let bit = |from: u32, at: u32| ((to >> from & 1) as u16) << at;
    0xa001
        | bit(11, 12)
        | bit(4, 11)
        | ((to >> 8 & 3) as u16) << 9
        | bit(10, 8)
        | bit(6, 7)
        | bit(7, 6)
        | ((to >> 1 & 7) as u16) << 3
        | bit(5, 2)
}

/// A compressed branch to a distance if x(8 + r) is zero, or is not.
fn c_branch(r: u16, not: bool, to: i64) -> u16 {
    let part = |from: u32, bits: u16, at: u32| ((to >> from) as u16 & bits) << at;
    let op = if not { 0xe001 } else { 0xc001 };
    op | r << 7 | part(8, 1, 12) | part(3, 3, 10) | part(6, 3, 5) | part(1, 3, 3) | part(5, 1, 2)
}

/// Random code as halves, and where its instructions begin.
fn code(rng: &mut Rng, count: usize) -> (Vec<u16>, Vec<u64>) {
    let kinds: Vec<u64> = (0..count).map(|_| rng.below(24)).collect();
    // Up to this number the kinds below are compressed.
    let length = |k: &u64| if *k < 12 { 2 } else { 4 };
    let mut at = Vec::new();
    let mut end = 0;
    for k in &kinds {
        at.push(end);
        end += length(k);
    }
    let mut out = Vec::new();
    for (n, kind) in kinds.iter().enumerate() {
        // Close by, so that compressed branches reach it, too.
        let near = (n + count - 16 + rng.below(33) as usize) % count;
        let to = at[near] as i64 - at[n] as i64;
        let to = if (-240..240).contains(&to) {
            to
        } else {
            length(kind) as i64
        };
        let (a, b) = (8 + rng.below(8) as u8, 8 + rng.below(8) as u8);
        let word = match kind {
            0..=5 => 0x0001 | (rng.below(7) as u32 + 1) << 2 | u32::from(a) << 7,
            6..=8 => c_branch((a - 8).into(), rng.one_in(2), to).into(),
            9 => c_j(to).into(),
            // c.jr, c.jalr of a place.
            10 => 0x8002 | rng.pick(&[16, 17, 18, 19]) << 7,
            // A return.
            11 => 0x8082,
            12 => s(Beq, b, a, to as i32),
            13 => s(Blt, b, a, to as i32),
            14 => s(Bgeu, b, a, to as i32),
            15 => u(Jal, 0, to as i32),
            16 | 17 => u(
                Jal,
                1,
                (at[rng.below(count as u64) as usize] as i64 - at[n] as i64) as i32,
            ),
            18 => i(Jalr, 0, rng.pick(&[20, 21, 22, 23]), 0),
            19 => i(Jalr, 1, rng.pick(&[20, 21, 22, 23]), 0),
            20 => i(Ld, a, 24, (rng.below(200) * 8) as i32),
            21 => i(Lb, a, 24, rng.below(2000) as i32),
            22 => r(Add, a, a, b),
            _ => i(Xori, a, b, rng.below(4000) as i32 - 2000),
        };
        out.push(word as u16);
        if length(kind) == 4 {
            out.push((word >> 16) as u16);
        }
    }
    (out, at)
}

/// Cycle, program counter and counters after numbers of instructions.
type Times = BTreeMap<u64, (u64, u64, HartStats)>;

fn run(seed: u64, longest: usize, runner: &mut Runner<Flat>) -> Times {
    let mut rng = Rng::new(seed);
    let config = rocket();
    let mut w = Flat::new(BASE, 4 << 20, 1, &config).expect("memory");
    let count = rng.pick(&[60, 400, 9000]);
    let (halves, at) = code(&mut rng, count);
    let bytes16: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
    // It runs over its end into a jump to its beginning.
    let end = bytes16.len();
    assert!(end < 1 << 19);
    w.ram()
        .write_bytes(CODE - BASE, &bytes16)
        .expect("in memory");
    let back = [i(Jalr, 0, 25, 0)];
    w.ram()
        .write_bytes(CODE - BASE + end as u64, &bytes(&back))
        .expect("in memory");
    let noise: Vec<u8> = (0..4096).map(|_| rng.bits() as u8).collect();
    w.ram().write_bytes(DATA - BASE, &noise).expect("in memory");
    let mut h = Hart::new(0, config).expect("configuration");
    h.state.pc = CODE;
    h.set_reg(1, CODE);
    for r in 8..16 {
        h.set_reg(r, rng.bits() >> rng.below(64));
    }
    for r in PLACES {
        h.set_reg(r.into(), CODE + rng.pick(&at));
    }
    h.set_reg(24, DATA);
    h.set_reg(25, CODE);
    let mut code = CodeCache::with_longest(longest);
    let mut times = Times::new();
    while h.state.instret < 6000 {
        let limit = h.state.cycle + 1;
        match runner {
            Runner::Interpreter => h.run(&mut code, &mut w, limit),
            Runner::Translator(t) => h.run_with(&mut code, &mut w, limit, t.as_mut()),
            Runner::Both(..) => unreachable!(),
        };
        times.insert(h.state.instret, (h.state.cycle, h.state.pc, h.state.stats));
    }
    times
}

#[test]
fn blocks_may_end_anywhere() {
    let mut compared = 0;
    for seed in 0..60 {
        let each = run(seed, 1, &mut Runner::Interpreter);
        assert!(each.len() > 5000, "after each instruction");
        for longest in [1, 2, 3, 64] {
            for translated in [false, true] {
                let mut runner = if translated {
                    Runner::Translator(translator(0, CODE_BYTES))
                } else {
                    Runner::Interpreter
                };
                for (n, found) in run(seed, longest, &mut runner) {
                    let Some(expected) = each.get(&n) else {
                        continue;
                    };
                    assert_eq!(
                        found, *expected,
                        "seed {seed}, blocks of {longest}, translated {translated}: after {n}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 500_000, "only {compared}");
}
