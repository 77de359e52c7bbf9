//! Least-recently-used replacement, by what programs do: loads, stores and jumps of a
//! guest, against the simplest model of a cache, with the interpreter and translated.

use crate::common::bare::{Bare, BASE, TRAP};
use crate::common::gen::{block_address, Image, Program};
use crate::common::qemu::{set_up_with, Way};
use crate::common::{i, n, s, Rng};
use nagori_hart::config::Replacement;
use nagori_hart::engine::{Engine, NoEngine};
use nagori_hart::flat::Flat;
use nagori_hart::world::Bus;
use nagori_hart::{CodeCache, Hart, HartConfig, HartStats};
use nagori_isa::Op::*;
use nagori_translator::{Options, Translator};

const SETS: u64 = 64;
const WAYS: usize = 4;
/// The list of addresses, and where they lead to.
const LIST: u64 = BASE + 0x10_0000;
const PLACES: u64 = BASE + 0x20_0000;
const COUNT: u64 = 3000;

/// A cache as a textbook has it: each set a list, the line used last at its end.
#[derive(Default)]
struct Naive {
    sets: std::collections::BTreeMap<u64, Vec<(u64, bool)>>,
    misses: u64,
    writebacks: u64,
}

impl Naive {
    fn access(&mut self, address: u64, write: bool) {
        let line = address >> 6;
        let set = self.sets.entry(line % SETS).or_default();
        let mut dirty = write;
        if let Some(k) = set.iter().position(|l| l.0 == line) {
            dirty |= set.remove(k).1;
        } else {
            self.misses += 1;
            if set.len() == WAYS {
                self.writebacks += u64::from(set.remove(0).1);
            }
        }
        set.push((line, dirty));
    }
}

/// Random places in few sets: seven lines for four ways, used unevenly.
fn places(seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..COUNT)
        .map(|_| {
            let k = rng.below(7).min(rng.below(7));
            PLACES + 4096 * k + 64 * (3 + rng.below(5))
        })
        .collect()
}

fn translated() -> Translator<Flat> {
    Translator::new(Options {
        code_bytes: 1 << 20,
        threshold: 0,
    })
    .expect("memory for code")
}

struct Ran {
    stats: HartStats,
    cycle: u64,
}

/// Runs `words` over a list of addresses (x11 to x12) until the ecall.
fn run<E: Engine<Flat>>(
    words: &[u32],
    list: &[u64],
    replacement: Replacement,
    code: bool,
    engine: &mut E,
) -> Ran {
    let mut config = HartConfig::rocket();
    config.l1d.replacement = replacement;
    config.l1i.replacement = replacement;
    let mut b = Bare::new(config, true, words);
    for (k, a) in list.iter().enumerate() {
        let at = LIST + 8 * k as u64 - BASE;
        b.w.ram().write_u64(at, *a).expect("in memory");
        if code {
            b.put(*a, &[i(Jalr, 0, 1, 0)]);
        }
    }
    b.h.set_reg(11, LIST);
    b.h.set_reg(12, LIST + 8 * list.len() as u64);
    let mut rng = Rng::new(9);
    while b.h.pc != TRAP {
        let limit = b.h.cycle + 1 + rng.below(500);
        b.h.run_with(&mut b.code, &mut b.w, limit, engine);
        let h: &Hart = &b.h;
        h.check_invariants(&mut b.w).expect("filters in step");
        assert!(b.h.cycle < 100_000_000, "no end");
    }
    Ran {
        stats: b.h.stats,
        cycle: b.h.cycle,
    }
}

/// With either engine, for least recently used; the counters are the same, and are those.
fn both(words: &[u32], list: &[u64], code: bool) -> Ran {
    let a = run(words, list, Replacement::Lru, code, &mut NoEngine);
    let mut t = translated();
    let b = run(words, list, Replacement::Lru, code, &mut t);
    assert!(t.stats().entries > 0, "nothing was translated");
    assert_eq!((a.stats, a.cycle), (b.stats, b.cycle));
    a
}

#[test]
fn loads_and_stores() {
    for seed in 0..4 {
        let list = places(seed);
        // Every second place is stored to.
        let words = [
            i(Ld, 5, 11, 0),
            i(Ld, 6, 5, 0),
            i(Ld, 5, 11, 8),
            s(Sd, 6, 5, 8),
            i(Addi, 11, 11, 16),
            s(Bltu, 12, 11, -20),
            n(Ecall),
        ];
        let mut naive = Naive::default();
        for (k, a) in list.iter().enumerate() {
            naive.access(LIST + 8 * k as u64, false);
            naive.access(*a, k % 2 == 1);
        }
        let found = both(&words, &list, false).stats;
        let misses = found.l1d_load_misses + found.l1d_store_misses;
        assert_eq!(
            (misses, found.l1d_writebacks),
            (naive.misses, naive.writebacks),
            "seed {seed}"
        );
        assert!(
            naive.misses > 500 && naive.misses < COUNT,
            "{}",
            naive.misses
        );
        // Another policy has other misses: the comparison would see it.
        let other = run(&words, &list, Replacement::Lfsr, false, &mut NoEngine).stats;
        assert_ne!(other.l1d_load_misses + other.l1d_store_misses, misses);
    }
}

#[test]
fn instruction_fetches() {
    for seed in 0..4 {
        let list = places(seed);
        let words = [
            i(Ld, 5, 11, 0),
            i(Addi, 11, 11, 8),
            i(Jalr, 1, 5, 0),
            s(Bltu, 12, 11, -12),
            n(Ecall),
        ];
        let mut naive = Naive::default();
        naive.access(BASE, false);
        for a in &list {
            naive.access(*a, false);
            naive.access(BASE, false);
        }
        // The loop at the end of the run.
        naive.access(TRAP, false);
        let found = both(&words, &list, true).stats;
        // The trap vector may not have been fetched yet.
        let misses = found.l1i_misses;
        assert!(
            misses == naive.misses || misses + 1 == naive.misses,
            "seed {seed}: {misses}, expected {}",
            naive.misses
        );
        let other = run(&words, &list, Replacement::Lfsr, true, &mut NoEngine).stats;
        assert!(
            other.l1i_misses.abs_diff(misses) > 10,
            "{}",
            other.l1i_misses
        );
    }
}

/// Random user programs behind page tables: table walks and the TLB take the exact path, too.
#[test]
fn programs_behind_page_tables() {
    for seed in 0..20 {
        let p = Program::random(&mut Rng::new(seed), 200, block_address(0));
        let image = Image::new(&[p]);
        let way = Way {
            timed: true,
            paged: true,
            slice: 200,
        };
        let mut config = HartConfig::rocket();
        config.l1d.replacement = Replacement::Lru;
        config.l1i.replacement = Replacement::Lru;
        let run = |go: &mut dyn FnMut(&mut Hart, &mut CodeCache, &mut Flat, u64)| {
            let (mut w, mut h, trap) = set_up_with(&image, way, config.clone());
            let mut code = CodeCache::default();
            let mut rng = Rng::new(seed);
            while h.pc != trap {
                let limit = h.cycle + 1 + rng.below(way.slice);
                go(&mut h, &mut code, &mut w, limit);
            }
            let x: Vec<u64> = (0..32).map(|k| h.reg(k)).collect();
            (h.cycle, h.instret, h.stats, h.csr.clone(), x, w.traffic)
        };
        let a = run(&mut |h, code, w, limit| {
            h.run(code, w, limit);
        });
        let mut t = translated();
        let b = run(&mut |h, code, w, limit| {
            h.run_with(code, w, limit, &mut t);
        });
        assert_eq!(a, b, "seed {seed}");
    }
}
