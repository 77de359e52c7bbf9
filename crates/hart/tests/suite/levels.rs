//! Levels of caches behind the first: what a pointer chase takes on each, what harts that share
//! lines find, and that programs notice nothing.

use crate::common::smp::{locked, repeat, traffic, Machine, BASE, DATA, SLICES};
use crate::common::{bytes, csrr, i, li, n, rocket, s, Rng};
use nagori_hart::config::{CacheGeometry, Inclusion, LevelConfig, Replacement};
use nagori_hart::flat::Flat;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{Bus, World};
use nagori_hart::{CodeCache, Exit, Hart};
use nagori_isa::Op::*;

const MCYCLE: u16 = 0xb00;
const MEMORY: u64 = 8 << 20;
const ALL: [Inclusion; 3] = [
    Inclusion::Inclusive,
    Inclusion::NonInclusive,
    Inclusion::Exclusive,
];

fn level(kib: u32, ways: u32, shared_by: u32, latency: u32, inclusion: Inclusion) -> LevelConfig {
    LevelConfig {
        geometry: CacheGeometry {
            sets: kib * 1024 / 64 / ways,
            ways,
            line: 64,
            replacement: Replacement::Lru,
        },
        shared_by,
        latency,
        probe_latency: 7,
        inclusion,
        ..LevelConfig::default()
    }
}

/// A hart alone with such caches; a chase through `kib` KiB, line by line in a random order that
/// comes back to its start: cycles a load, behind a first round.
fn chase(kib: u64, levels: &[LevelConfig]) -> f64 {
    let config = rocket();
    let mut w = Flat::new(BASE, MEMORY, 1, &config).expect("memory");
    w.latency = 300;
    *w.coherence() = Coherence::new(1, config.l1d, config.l1i, BASE, MEMORY).with_levels(levels);
    let lines = kib * 1024 / 64;
    let mut order: Vec<u64> = (0..lines).collect();
    let mut rng = Rng::new(kib);
    for k in (1..lines).rev() {
        order.swap(k as usize, rng.below(k + 1) as usize);
    }
    for (k, from) in order.iter().enumerate() {
        let to = order[(k + 1) % order.len()];
        let at = DATA + 64 * from - BASE;
        w.ram().write_u64(at, DATA + 64 * to).expect("in memory");
    }
    let steps = 16;
    let count = (lines / steps as u64) as i32;
    let mut round = repeat(count, &vec![i(Ld, 5, 5, 0); steps]);
    round.pop();
    let mut program = round.clone();
    program.push(csrr(7, MCYCLE));
    program.extend(round);
    program.extend([csrr(8, MCYCLE), n(Wfi)]);
    w.ram().write_bytes(0, &bytes(&program)).expect("in memory");
    let mut h = Hart::new(0, config).expect("a hart");
    h.set_timed(true);
    h.state.pc = BASE;
    h.set_reg(5, DATA + 64 * order[0]);
    let exit = h.run(&mut CodeCache::default(), &mut w, u64::MAX);
    assert_eq!(exit, Exit::Wfi);
    h.check_invariants(&mut w).expect("in step");
    (h.reg(8) - h.reg(7)) as f64 / lines as f64
}

/// Within 3 %: the loop's own instructions, and lines that the first level still has.
fn about(is: f64, expected: f64, what: &str) {
    assert!(
        (is / expected - 1.0).abs() < 0.03,
        "{what}: {is:.1} cycles, expected {expected}"
    );
}

#[test]
fn a_chase_takes_the_latency_of_the_level_that_holds_it() {
    let memory = chase(256, &[]);
    for inclusion in ALL {
        let levels = [
            level(128, 8, 1, 14, inclusion),
            level(1024, 16, 8, 50, Inclusion::Inclusive),
        ];
        about(chase(112, &levels), 14.0, "second level");
        about(chase(768, &levels), 50.0, "third level");
        // Larger than all: a line is asked for in memory after the last level's latency.
        let ahead = 50.0 - f64::from(rocket().timing.load_latency);
        about(chase(4096, &levels), memory + ahead, "memory");
    }
}

#[test]
fn an_exclusive_level_adds_to_what_is_before_it() {
    // 128 KiB and 128 KiB: 224 KiB fit into both together, not into the second alone.
    let levels = |last| {
        [
            level(128, 8, 1, 14, Inclusion::NonInclusive),
            level(128, 8, 1, 40, last),
        ]
    };
    let exclusive = chase(224, &levels(Inclusion::Exclusive));
    let inclusive = chase(224, &levels(Inclusion::Inclusive));
    assert!(exclusive < 60.0, "{exclusive:.1}");
    assert!(inclusive > 150.0, "{inclusive:.1}");
}

/// Harts with levels, the first private to two of them.
fn machine(programs: &[Vec<u32>], levels: &[LevelConfig]) -> Machine {
    let mut m = Machine::new(programs, true);
    let config = rocket();
    *m.w.coherence() =
        Coherence::new(programs.len(), config.l1d, config.l1i, BASE, 4 << 20).with_levels(levels);
    m
}

fn variants() -> Vec<Vec<LevelConfig>> {
    let mut all = Vec::new();
    for near in ALL {
        for far in ALL {
            // So small that they give lines up all the time.
            all.push(vec![level(1, 4, 1, 9, near), level(2, 8, 8, 20, far)]);
            all.push(vec![level(1, 2, 2, 9, near)]);
        }
    }
    let through = |l: LevelConfig| LevelConfig {
        write_through: true,
        ..l
    };
    all.push(vec![through(level(1, 4, 4, 9, Inclusion::Inclusive))]);
    all
}

#[test]
fn locks_and_counters_hold_on_any_levels() {
    let count = 100;
    let body = locked(&[i(Ld, 7, 10, 0), i(Addi, 7, 7, 1), s(Sd, 7, 10, 0)]);
    for levels in variants() {
        for harts in [2, 4] {
            let mut m = machine(&vec![repeat(count, &body); harts], &levels);
            m.run(13);
            assert_eq!(m.word(DATA), count as u64 * harts as u64, "{levels:?}");
            let lines: u64 = m.w.coherence().level_stats().iter().map(|s| s.hits).sum();
            assert!(lines > 0, "the levels are asked");
        }
    }
}

#[test]
fn random_traffic_keeps_all_caches_in_step() {
    for (seed, levels) in variants().into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let programs: Vec<Vec<u32>> = (0..4).map(|_| traffic(&mut rng)).collect();
        let mut first = None;
        for slice in SLICES {
            let mut m = machine(&programs, &levels);
            m.run(slice);
            if slice == SLICES[0] {
                first = Some(m.times());
                let mut again = machine(&programs, &levels);
                again.run(slice);
                assert_eq!(first, Some(again.times()), "the same twice");
            }
        }
        assert!(first.is_some());
    }
}

#[test]
fn a_modified_line_of_another_hart_costs_what_asking_for_it_does() {
    // Hart 0 stores and waits; hart 1 loads long after that.
    let levels = [level(64, 8, 8, 30, Inclusion::Inclusive)];
    let wait = li(31, 2000).to_vec();
    let spin = [i(Addi, 31, 31, -1), s(Bne, 0, 31, -4)];
    let load = |w: &mut Vec<u32>| w.extend([i(Ld, 5, 10, 0), i(Addi, 6, 5, 0), n(Wfi)]);
    let mut reader = wait.clone();
    reader.extend(spin);
    load(&mut reader);
    let mut owner = vec![s(Sd, 10, 10, 0)];
    owner.push(n(Wfi));
    let mut idle = vec![i(Ld, 5, 10, 0)];
    idle.push(n(Wfi));
    let time = |other: Vec<u32>| {
        let mut m = machine(&[other, reader.clone()], &levels);
        m.run(1);
        (m.harts[1].state.cycle, m.harts[1].state.stats)
    };
    let (modified, stats) = time(owner);
    let (clean, without) = time(idle);
    assert_eq!((stats.probes, without.probes), (1, 0));
    assert_eq!(modified - clean, 7);
}
