//! Replacement that depends on hits, by what programs do: loads, stores and jumps of a
//! guest, against the simplest models of caches, which see every access, with the interpreter and
//! translated.

use crate::common::bare::{Bare, BASE, TRAP};
use crate::common::gen::{block_address, Image, Program};
use crate::common::qemu::{set_up_with, Way};
use crate::common::{i, n, rocket, s, Rng};
use nagori_hart::config::Replacement;
use nagori_hart::engine::{Engine, NoEngine};
use nagori_hart::flat::Flat;
use nagori_hart::world::{Bus, World};
use nagori_hart::{CodeCache, Hart, HartStats};
use nagori_isa::Op::*;
use nagori_translator::{Options, Translator};

const SETS: u64 = 64;
const WAYS: usize = 4;
/// The list of addresses, and where they lead to.
const LIST: u64 = BASE + 0x10_0000;
const PLACES: u64 = BASE + 0x20_0000;
const COUNT: u64 = 3000;

const POLICIES: [Replacement; 3] = [Replacement::Lru, Replacement::TreePlru, Replacement::Srrip];

/// A set as textbooks have it.
#[derive(Default)]
struct Set {
    /// Line, and whether it is dirty.
    ways: [Option<(u64, bool)>; WAYS],
    /// When each way was used last.
    used: [u64; WAYS],
    /// Whether the half used last is the upper one: of the set, of its halves.
    upper: [bool; 3],
    /// How far away the next use of each way is expected.
    expected: [u8; WAYS],
}

impl Set {
    fn victim(&mut self, policy: Replacement) -> usize {
        if let Some(empty) = self.ways.iter().position(Option::is_none) {
            return empty;
        }
        match policy {
            Replacement::Lru => (0..WAYS).min_by_key(|w| self.used[*w]).expect("ways"),
            Replacement::TreePlru if self.upper[0] => usize::from(!self.upper[1]),
            Replacement::TreePlru => 2 + usize::from(!self.upper[2]),
            _ => loop {
                if let Some(w) = self.expected.iter().position(|e| *e == 3) {
                    return w;
                }
                self.expected.iter_mut().for_each(|e| *e += 1);
            },
        }
    }
}

/// A cache of such sets.
struct Naive {
    policy: Replacement,
    sets: std::collections::BTreeMap<u64, Set>,
    uses: u64,
    misses: u64,
    writebacks: u64,
}

impl Naive {
    fn new(policy: Replacement) -> Self {
        Naive {
            policy,
            sets: Default::default(),
            uses: 0,
            misses: 0,
            writebacks: 0,
        }
    }

    fn access(&mut self, address: u64, write: bool) {
        let line = address >> 6;
        let set = self.sets.entry(line % SETS).or_default();
        let holds = |w: &Option<(u64, bool)>| w.is_some_and(|w| w.0 == line);
        let way = match set.ways.iter().position(holds) {
            Some(way) => {
                set.expected[way] = 0;
                way
            }
            None => {
                self.misses += 1;
                let way = set.victim(self.policy);
                let old = set.ways[way].replace((line, false));
                self.writebacks += u64::from(old.is_some_and(|o| o.1));
                set.expected[way] = 2;
                way
            }
        };
        if let Some(w) = &mut set.ways[way] {
            w.1 |= write;
        }
        self.uses += 1;
        set.used[way] = self.uses;
        set.upper[0] = way >= 2;
        set.upper[1 + way / 2] = way % 2 == 1;
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
    let mut config = rocket();
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
    while b.h.state.pc != TRAP {
        let limit = b.h.state.cycle + 1 + rng.below(500);
        b.h.run_with(&mut b.code, &mut b.w, limit, engine);
        let h: &Hart = &b.h;
        h.check_invariants(&mut b.w).expect("filters in step");
        assert!(b.h.state.cycle < 100_000_000, "no end");
    }
    Ran {
        stats: b.h.state.stats,
        cycle: b.h.state.cycle,
    }
}

/// With either engine; the counters are the same, and are those.
fn both(words: &[u32], list: &[u64], policy: Replacement, code: bool) -> Ran {
    let a = run(words, list, policy, code, &mut NoEngine);
    let mut t = translated();
    let b = run(words, list, policy, code, &mut t);
    assert!(t.stats().entries > 0, "nothing was translated");
    assert_eq!((a.stats, a.cycle), (b.stats, b.cycle));
    a
}

#[test]
fn loads_and_stores() {
    for (seed, policy) in (0..12).zip(POLICIES.into_iter().cycle()) {
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
        let mut naive = Naive::new(policy);
        for (k, a) in list.iter().enumerate() {
            naive.access(LIST + 8 * k as u64, false);
            naive.access(*a, k % 2 == 1);
        }
        let found = both(&words, &list, policy, false).stats;
        let misses = found.l1d_load_misses + found.l1d_store_misses;
        assert_eq!(
            (misses, found.l1d_writebacks),
            (naive.misses, naive.writebacks),
            "seed {seed}, {policy:?}"
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
    for (seed, policy) in (0..12).zip(POLICIES.into_iter().cycle()) {
        let list = places(seed);
        let words = [
            i(Ld, 5, 11, 0),
            i(Addi, 11, 11, 8),
            i(Jalr, 1, 5, 0),
            s(Bltu, 12, 11, -12),
            n(Ecall),
        ];
        let mut naive = Naive::new(policy);
        naive.access(BASE, false);
        for a in &list {
            naive.access(*a, false);
            // Two blocks: the branch, and what it leads to.
            naive.access(BASE, false);
            naive.access(BASE, false);
        }
        // The loop at the end of the run.
        naive.access(TRAP, false);
        let found = both(&words, &list, policy, true).stats;
        // The trap vector may not have been fetched yet.
        let misses = found.l1i_misses;
        assert!(
            misses == naive.misses || misses + 1 == naive.misses,
            "seed {seed}, {policy:?}: {misses}, expected {}",
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

/// Random user programs behind page tables.
#[test]
fn programs_behind_page_tables() {
    for (seed, policy) in (0..36).zip(POLICIES.into_iter().cycle()) {
        let p = Program::random(&mut Rng::new(seed), 200, block_address(0));
        let image = Image::new(&[p]);
        let way = Way {
            timed: true,
            paged: true,
            slice: 200,
        };
        let mut config = rocket();
        for cache in [&mut config.l1d, &mut config.l1i] {
            cache.replacement = policy;
            // Small, so that much is replaced.
            cache.sets = 4;
        }
        let run = |go: &mut dyn FnMut(&mut Hart, &mut CodeCache, &mut Flat, u64)| {
            let (mut w, mut h, trap) = set_up_with(&image, way, config.clone());
            let mut code = CodeCache::default();
            let mut rng = Rng::new(seed);
            while h.state.pc != trap {
                let limit = h.state.cycle + 1 + rng.below(way.slice);
                go(&mut h, &mut code, &mut w, limit);
            }
            let x: Vec<u64> = (0..32).map(|k| h.reg(k)).collect();
            h.check_invariants(&mut w).expect("filters in step");
            let caches = nagori_hart::save_caches(w.coherence(), std::slice::from_ref(&h));
            let caches = format!("{caches:?}");
            (
                h.state.cycle,
                h.state.instret,
                h.state.stats,
                h.state.csr.clone(),
                x,
                w.traffic,
                caches,
            )
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
