//! MSHRs and prefetchers of first-level caches: a prefetched line arrives at its own time, among the
//! hits of its hart, and no setting of the host changes a cycle.

use crate::ahead::{chase, machine, run_for, walk, Kinds, EAGER, FAR};
use crate::common::random::op;
use crate::common::*;
use crate::contended::{contend, interrupted, run_with, AHEAD, LEVELS};
use nagori_hart::lines::FirstStats;
use nagori_hart::world::LineKind;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop};
use std::sync::{Arc, Mutex};

/// Next lines, for data and for code.
const NEXT: &[&str] = &[
    "l1d.prefetcher=next-line",
    "l1d.degree=2",
    "l1i.prefetcher=next-line",
];
/// By instruction, with few registers and with replacement that depends on hits.
const STRIDE: &[&str] = &[
    "l1d.prefetcher=stride",
    "l1d.degree=2",
    "l1d.distance=4",
    "l1d.mshrs=4",
    "l1d.replacement=lru",
    "l1i.prefetcher=stream",
    "l1i.mshrs=2",
    "l1i.prefetch_confidence=1",
    "l1i.replacement=tree-plru",
];
/// Caches of few sets, in which arrivals meet hits of the same set all the time.
const SMALL: &[&str] = &[
    "l1d.size=\"1 KiB\"",
    "l1d.prefetcher=stream",
    "l1d.degree=4",
    "l1d.distance=8",
    "l1d.mshrs=6",
    "l1d.prefetch_confidence=1",
    "l1i.size=\"1 KiB\"",
    "l1i.prefetcher=next-line",
    "l1i.degree=3",
    "l1i.replacement=srrip",
];
const ALL: [&[&str]; 3] = [NEXT, STRIDE, SMALL];

fn events(o: &Outcome) -> [FirstStats; 2] {
    let of = |name: &str| {
        let mut all = o.report.first_level.iter();
        let found = all.find(|f| f.name == name);
        found.map_or(FirstStats::default(), |f| f.events)
    };
    [of("l1d"), of("l1i")]
}

#[test]
fn what_is_read_in_order_is_there_before_it_is_used() {
    let l2 = "cache.l2={ level = 2, shared_by = 1, size = \"16 KiB\", ways = 8, latency = 20 }";
    for levels in [None, Some(l2)] {
        for (step, prefetcher) in [
            (64, "next-line"),
            (8, "next-line"),
            (-64, "stream"),
            (64, "stride"),
            (8, "stride"),
            (-320, "stride"),
        ] {
            let words = walk(step, 40, false);
            let cost = |keys: &[&str]| {
                let mut settings = keys.to_vec();
                settings.extend(levels);
                let mut m = machine(&settings, &words, EAGER);
                run_for(&mut m, 60_000, u64::MAX)
            };
            let without = cost(&[]);
            let prefetcher = format!("l1d.prefetcher={prefetcher}");
            let with = cost(&[&prefetcher, "l1d.degree=2", "l1d.distance=4"]);
            let e = events(&with)[0];
            let misses = |o: &Outcome| o.report.harts[0].events.l1d_load_misses;
            let name = format!("{prefetcher} by {step}: {e:?}");
            assert!(without.report.first_level.is_empty());
            assert!(e.prefetch_useful * 2 > misses(&without), "{name}");
            // A line that comes late is a miss; one that is useful is none.
            assert!(misses(&with) * 2 < misses(&without), "{name}");
            let (less, more) = (with.report.cycles, without.report.cycles);
            assert!(less < more, "{name}: {less}, {more}");
            // Each line is read once, but for those that have not been used by the end.
            let reads = |o: &Outcome| o.report.memory.total().reads;
            assert!(
                reads(&with) < reads(&without) + 16 + misses(&with),
                "{name}"
            );
        }
    }
}

/// Loads a line, whose successor is prefetched, and loads from that one when it is there, which
/// prefetches the next one; executes `wait` additions, and loads from that one. Returns how many
/// cycles that has taken, and what the data cache has counted in two rounds. Instructions are there
/// from the first round, and nothing else uses memory.
fn load_after(wait: usize) -> (u64, FirstStats) {
    let pause = [
        op(Op::Addi, 17, 0, 0, 500),
        op(Op::Addi, 17, 17, 0, -1),
        op(Op::Bne, 0, 17, 0, -4),
    ];
    let mut words = vec![
        op(Op::Addi, 12, 0, 0, 2),
        op(Op::Slli, 13, 12, 0, 11),
        op(Op::Ld, 7, 10, 0, 0),
    ];
    let start = 2;
    words.extend(pause);
    words.extend([op(Op::Csrrs, 16, 0, 0, 0xb00), op(Op::Ld, 7, 10, 0, 64)]);
    words.extend((0..wait).map(|_| op(Op::Addi, 5, 5, 0, 1)));
    words.extend([
        op(Op::Ld, 7, 10, 0, 128),
        op(Op::Add, 6, 7, 0, 0),
        op(Op::Csrrs, 14, 0, 0, 0xb00),
        op(Op::Sub, 15, 14, 16, 0),
        op(Op::Add, 10, 10, 13, 0),
    ]);
    words.extend(pause);
    words.push(op(Op::Addi, 12, 12, 0, -1));
    let here = words.len() as i32;
    words.push(op(Op::Bne, 0, 12, 0, 4 * (start - here)));
    words.push(op(Op::Jal, 0, 0, 0, 0));
    let settings = [
        "l1d.prefetcher=next-line",
        "memory.controller.refresh.enabled=false",
    ];
    let mut m = machine(&settings, &words, EAGER);
    let e = events(&run_for(&mut m, 6000, u64::MAX))[0];
    (m.hart(0).expect("a hart").reg(15), e)
}

#[test]
fn a_line_is_there_from_its_cycle_on() {
    let (first, e) = load_after(0);
    assert_eq!((e.prefetch_late, e.prefetch_useful), (2, 2));
    let (mut waits, mut between, mut hits) = (0, 0, 0);
    let mut before = first;
    for wait in 1..120 {
        let (cycles, e) = load_after(wait);
        match (e.prefetch_late, e.prefetch_useful) {
            // Each further addition is hidden behind the arrival.
            (2, 2) => {
                assert_eq!((cycles, hits), (first, 0), "after {wait}");
                waits += 1;
            }
            // The line is there, and each further addition costs its cycle.
            (0, 4) => {
                assert!(hits == 0 || cycles == before + 1, "after {wait}");
                hits += 1;
            }
            // The rounds find the controller in different clocks.
            (1, 3) => {
                assert_eq!(hits, 0, "after {wait}");
                between += 1;
            }
            other => panic!("after {wait}: {other:?}"),
        }
        before = cycles;
    }
    assert!(
        waits > 5 && between < 5 && hits > 10,
        "{waits}, {between}, {hits}"
    );
}

#[test]
fn neither_engine_nor_slices_change_a_cycle() {
    let l2 = "cache.l2={ level = 2, shared_by = 2, size = \"4 KiB\", ways = 4, latency = 12, inclusion = \"exclusive\" \
        }";
    let more: [&[&str]; 4] = [&[], &LEVELS, &AHEAD, &[l2]];
    for (step, store) in [(64, true), (8, true), (-136, false)] {
        for harts in ["harts=1", "harts=4"] {
            for (k, first) in ALL.into_iter().enumerate() {
                let words = walk(step, 2, store);
                let run = |engine, slice, ahead: &str| {
                    let mut settings = first.to_vec();
                    settings.extend([harts, ahead]);
                    settings.extend(more[(k + harts.len() + store as usize) % 4]);
                    settings.extend(if k == 2 { more[1] } else { &[] });
                    let mut m = machine(&settings, &words, engine);
                    run_for(&mut m, 20_000, slice)
                };
                let first = run(Engine::Interpreter, u64::MAX, "run_ahead_cycles=10000");
                let e = events(&first);
                assert!(e[0].prefetches > 0, "{step}, {k}: {e:?}");
                for (engine, slice, ahead) in [
                    (EAGER, u64::MAX, "run_ahead_cycles=1"),
                    (Engine::Interpreter, 1, "run_ahead_cycles=100"),
                    (EAGER, 777, "run_ahead_cycles=1000000"),
                ] {
                    let again = run(engine, slice, ahead);
                    assert_eq!(first, again, "{step}, {k}, {harts}, {slice}");
                }
            }
        }
    }
}

#[test]
fn nor_where_harts_fight_for_lines() {
    let Some(elf) = contend("first") else { return };
    let more: [&[&str]; 3] = [&[], &LEVELS, &AHEAD];
    let (mut useful, mut late, mut useless) = (0, 0, 0);
    for (first, more) in ALL.into_iter().zip(more) {
        let settings = [first, more].concat();
        let reference = run_with(&elf, &settings, Engine::Interpreter, u64::MAX);
        assert_eq!(reference.stop, Stop::PowerOff(0), "{}", reference.console);
        let [data, code] = events(&reference);
        assert!(data.prefetches > 1000, "{data:?}");
        assert!(code.prefetches > 50, "{code:?}");
        useful += code.prefetch_useful.min(data.prefetch_useful);
        late += data.prefetch_late;
        useless += data.prefetch_useless;
        for (k, [ahead, quantum]) in [
            ["run_ahead_cycles=1", "quantum_cycles=1"],
            ["run_ahead_cycles=77", "quantum_cycles=3"],
            ["run_ahead_cycles=1000000", "quantum_cycles=1000000"],
        ]
        .into_iter()
        .enumerate()
        {
            let engine = match k % 2 {
                0 => EAGER,
                _ => Engine::Interpreter,
            };
            let settings = [&settings[..], &[ahead, quantum]].concat();
            let again = run_with(&elf, &settings, engine, [1_000_000, 777, 1][k]);
            assert_eq!(reference, again, "{settings:?}");
        }
    }
    let all = format!("{useful} useful, {late} late, {useless} useless");
    assert!(useful > 100 && late > 10 && useless > 1000, "{all}");
}

#[test]
fn nor_does_a_snapshot() {
    let Some(elf) = contend("first-saved") else {
        return;
    };
    interrupted(&elf, NEXT);
    interrupted(&elf, &[STRIDE, &LEVELS].concat());
    interrupted(&elf, &[SMALL, &AHEAD].concat());
}

#[test]
fn each_read_of_memory_has_a_reason() {
    let settings = [STRIDE, &["harts=4"]].concat();
    let mut m = machine(&settings, &walk(64, 3, true), EAGER);
    let kinds = Arc::new(Mutex::new(Vec::new()));
    m.watch_bus(Some(Box::new(Kinds(kinds.clone()))))
        .expect("a watch");
    let o = run_for(&mut m, 40_000, 5000);
    m.watch_bus(None).expect("the rest");
    let [data, code] = events(&o);
    let kinds = kinds.lock().expect("kinds");
    let of = |kind| kinds.iter().filter(|k| **k == kind).count() as u64;
    let all = |told: u64, counted: u64| (told..told + 8).contains(&counted);
    let ahead = of(LineKind::Prefetch);
    assert!(all(ahead, data.prefetches + code.prefetches), "{ahead}");
    let count = |f: fn(&nagori_hart::HartStats) -> u64| -> u64 {
        o.report.harts.iter().map(|h| f(&h.events)).sum()
    };
    let misses = count(|h| h.l1d_load_misses + h.l1d_store_misses + h.l1i_misses);
    let late = data.prefetch_late + code.prefetch_late;
    let waited = of(LineKind::Load) + of(LineKind::Store) + of(LineKind::Fetch);
    assert!(all(waited, misses - late), "{waited}: {misses}, {late}");
    assert!(
        data.prefetch_late > 20 && data.prefetch_dropped > 20,
        "{data:?}"
    );
}

#[test]
fn a_register_for_the_miss_leaves_none_for_prefetches() {
    let run = |mshrs: &str| {
        let settings = [
            "l1d.prefetcher=next-line",
            "l1d.degree=4",
            "l1d.distance=4",
            mshrs,
        ];
        let mut m = machine(&settings, &walk(64, 0, false), EAGER);
        let o = run_for(&mut m, 30_000, u64::MAX);
        (events(&o)[0], o.report.cycles)
    };
    let (one, slow) = run("l1d.mshrs=1");
    assert_eq!(one.prefetches, 0);
    assert!(one.prefetch_dropped > 1000, "{one:?}");
    let (three, fast) = run("l1d.mshrs=3");
    assert!(three.prefetches > 1000 && fast < slow, "{three:?}");
    // Misses of other lines wait for the registers of prefetches.
    let mut words = walk(64, 0, false);
    words.insert(4, op(Op::Xori, 11, 10, 0, 1024));
    words.insert(5, op(Op::Ld, 8, 11, 0, 0));
    words.pop();
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, 4 * (3 - here)));
    let settings = [
        "l1d.prefetcher=next-line",
        "l1d.degree=4",
        "l1d.distance=4",
        "l1d.mshrs=2",
    ];
    let mut m = machine(&settings, &words, EAGER);
    let e = events(&run_for(&mut m, 30_000, u64::MAX))[0];
    assert!(
        e.mshr_waits > 100 && e.mshr_wait_cycles > e.mshr_waits,
        "{e:?}"
    );
}

#[test]
fn a_chase_costs_what_it_costs() {
    let lines: u64 = 1 << 15;
    let mut order: Vec<u64> = (0..lines).collect();
    let mut rng = Rng::new(1);
    for k in (1..lines).rev() {
        order.swap(k as usize, rng.below(k + 1) as usize);
    }
    let time = |settings: &[&str]| {
        let mut m: Machine = machine(settings, &chase(), EAGER);
        let base = m.config().memory.base + FAR;
        for (k, from) in order.iter().enumerate() {
            let to = order[(k + 1) % order.len()];
            let at = FAR + 64 * from;
            m.ram().write_u64(at, base + 64 * to).expect("in memory");
        }
        let first = base + 64 * order[0];
        m.hart_mut(0).expect("a hart").set_reg(10, first);
        run_for(&mut m, 60_000, u64::MAX).report.cycles as f64
    };
    let without = time(&[]);
    for prefetcher in ["l1d.prefetcher=stride", "l1d.prefetcher=stream"] {
        let ratio = time(&[prefetcher, "l1d.degree=4"]) / without;
        assert!((0.98..1.02).contains(&ratio), "{prefetcher}: {ratio:.3}");
    }
}
