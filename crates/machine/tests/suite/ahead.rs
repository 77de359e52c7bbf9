//! MSHRs, banks and prefetchers of outer cache levels: programs behave the same with them, and no
//! setting of the host changes a cycle.

use crate::common::random::op;
use crate::common::*;
use ciborium::Value;
use nagori_hart::lines::LevelStats;
use nagori_hart::world::LineKind;
use nagori_isa::Op;
use nagori_machine::{BusTransfer, BusWatch, Engine, HartReport, Machine, Stop, TranslatorOptions};
use nagori_platform::clock::Ps;
use std::sync::{Arc, Mutex};

pub const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});

/// A level shared by all, with more of its keys.
fn llc(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        "cache.llc={{ level = 2, shared_by = \"all\", size = \"64 KiB\", ways = 8, latency = 20{comma} {more} }}"
    )
}

pub const FAR: u64 = 16 << 20;

/// The harts of a machine, each in `FAR` bytes of its own, run through lines `step` bytes apart
/// with `work` additions at each.
pub fn walk(step: i32, work: usize, store: bool) -> Vec<u32> {
    let mut words = vec![
        op(Op::Csrrs, 6, 0, 0, 0xf14),
        op(Op::Slli, 6, 6, 0, 20),
        op(Op::Add, 10, 10, 6, 0),
    ];
    let start = words.len() as i32;
    words.push(op(Op::Ld, 7, 10, 0, 0));
    words.extend((0..work).map(|_| op(Op::Add, 5, 5, 7, 0)));
    if store {
        words.push(op(Op::Sd, 0, 10, 5, 8));
    }
    words.push(op(Op::Addi, 10, 10, 0, step));
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, 4 * (start - here)));
    words
}

/// One hart follows pointers, with a few additions at each.
pub fn chase() -> Vec<u32> {
    let mut words = vec![op(Op::Ld, 10, 10, 0, 0)];
    words.extend((0..8).map(|_| op(Op::Add, 5, 5, 10, 0)));
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, -4 * here));
    words
}

pub fn machine(settings: &[&str], words: &[u32], engine: Engine) -> Machine {
    let mut m = build(&describe("small", settings), true);
    m.set_engine(engine).expect("an engine");
    load_words(&mut m, words);
    let at = m.config().memory.base + FAR;
    for i in 0..m.config().harts as usize {
        m.hart_mut(i).expect("a hart").set_reg(10, at);
    }
    m
}

/// Runs for so many instructions, in slices of so many cycles.
pub fn run_for(m: &mut Machine, instructions: u64, slice: u64) -> Outcome {
    loop {
        match m.run(slice, Some(instructions)) {
            Stop::Instructions => return outcome(m, Stop::Instructions, Vec::new()),
            Stop::Slice => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Cycles and what the level did, for a program on so many harts.
fn cost(harts: u32, more: &str, words: &[u32]) -> (u64, LevelStats) {
    let (harts, level) = (format!("harts={harts}"), llc(more));
    // A long latency to the controller, with any number of outstanding requests.
    let settings = [&harts, &level, "board.read_request_ps=1000000"];
    let mut m = machine(&settings, words, EAGER);
    let o = run_for(&mut m, 60_000, u64::MAX);
    (o.report.cycles, o.report.caches[0].events)
}

#[test]
fn what_is_read_in_order_comes_before_it_is_asked_for() {
    for (step, prefetcher) in [
        (64, "next-line"),
        (64, "stream"),
        (-64, "stream"),
        (64, "stride"),
        (192, "stride"),
        (-320, "stride"),
    ] {
        let words = walk(step, 40, false);
        let (without, none) = cost(1, "", &words);
        let more = format!("prefetcher = \"{prefetcher}\", degree = 2, distance = 4");
        let (with, some) = cost(1, &more, &words);
        assert_eq!(none.prefetches, 0);
        let name = format!("{prefetcher} by {step}: {without} and {with} cycles, {some:?}");
        assert!(some.prefetch_useful * 2 > none.misses, "{name}");
        assert!(with * 4 < without * 3, "{name}");
    }
}

#[test]
fn a_chase_costs_what_it_costs() {
    let lines: u64 = 1 << 15;
    let mut order: Vec<u64> = (0..lines).collect();
    let mut rng = Rng::new(1);
    for k in (1..lines).rev() {
        order.swap(k as usize, rng.below(k + 1) as usize);
    }
    let time = |more: &str| {
        let mut m = machine(&[&llc(more)], &chase(), EAGER);
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
    let without = time("");
    for prefetcher in ["stride", "stream"] {
        let with = time(&format!("prefetcher = \"{prefetcher}\", degree = 4"));
        let ratio = with / without;
        assert!((0.98..1.02).contains(&ratio), "{prefetcher}: {ratio:.3}");
    }
}

#[test]
fn each_read_of_memory_has_a_reason() {
    for prefetcher in ["next-line", "stride", "stream"] {
        let more = format!("prefetcher = \"{prefetcher}\", degree = 4, distance = 8, mshrs = 6");
        let level = llc(&more);
        let mut m = machine(&["harts=4", &level], &walk(64, 3, true), EAGER);
        let kinds = Arc::new(Mutex::new(Vec::new()));
        m.watch_bus(Some(Box::new(Kinds(kinds.clone()))))
            .expect("a watch");
        let o = run_for(&mut m, 40_000, 5000);
        m.watch_bus(None).expect("the rest");
        let e = o.report.caches[0].events;
        assert!(e.prefetch_late > 20 && e.prefetch_dropped > 20, "{e:?}");
        let kinds = kinds.lock().expect("kinds");
        let of = |kind| kinds.iter().filter(|k| **k == kind).count() as u64;
        let (ahead, evicted) = (of(LineKind::Prefetch), of(LineKind::Evict));
        let waited = kinds.len() as u64 - ahead - evicted;
        // Requests that have not reached the controller by the end are not reported.
        let all = |told: u64, counted: u64| (told..told + 8).contains(&counted);
        assert!(all(ahead, e.prefetches), "{prefetcher}: {ahead}, {e:?}");
        // A miss of a line that is being prefetched does not read memory.
        let misses = e.misses - e.prefetch_late;
        assert!(all(waited, misses), "{prefetcher}: {waited}, {e:?}");
        assert!(all(evicted, e.writebacks), "{prefetcher}: {evicted}, {e:?}");
    }
}

pub struct Kinds(pub Arc<Mutex<Vec<LineKind>>>);

impl BusWatch for Kinds {
    fn moved(&mut self, t: &BusTransfer<'_>) {
        self.0.lock().expect("kinds").push(t.by.kind);
    }
}

#[test]
fn misses_wait_for_one_another() {
    // Four registers are enough for the misses of four harts.
    let words = walk(64, 0, false);
    let (free, none) = cost(4, "", &words);
    assert_eq!(cost(4, "mshrs = 4", &words), (free, none));
    let (two, waits) = cost(4, "mshrs = 2", &words);
    let (one, more) = cost(4, "mshrs = 1", &words);
    assert!(free < two && two < one, "{free}, {two} and {one} cycles");
    assert!(waits.mshr_waits > 1000 && more.mshr_wait_cycles > 2 * waits.mshr_wait_cycles);
    // The times in memory add up; each hart also needs time of its own for each miss.
    let (alone, s) = cost(1, "mshrs = 1", &words);
    assert_eq!(s.mshr_waits, 0);
    assert!(
        2 * free < one && one < alone,
        "{free}, {one} and {alone} cycles"
    );
}

#[test]
fn accesses_to_a_bank_wait_for_one_another() {
    // Each hart loops over 32 KiB, which fit into the level and not into its first-level cache.
    let mut words = walk(64, 0, false);
    words.pop();
    words.insert(3, op(Op::Addi, 12, 10, 0, 0));
    words.extend([
        op(Op::Sub, 13, 10, 12, 0),
        op(Op::Srli, 13, 13, 0, 15),
        op(Op::Slli, 13, 13, 0, 15),
        op(Op::Sub, 10, 10, 13, 0),
    ]);
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, 4 * (4 - here)));
    let big = |more: &str| {
        let level = llc(more).replace("64 KiB", "512 KiB");
        let mut m = machine(&["harts=4", &level], &words, EAGER);
        let o = run_for(&mut m, 60_000, u64::MAX);
        let stalls = |h: &HartReport| h.events.memory_stall_cycles;
        let stalls: u64 = o.report.harts.iter().map(stalls).sum();
        (stalls, o.report.caches[0].events)
    };
    let (free, none) = big("");
    assert!(none.hits > none.misses && none.bank_waits == 0, "{none:?}");
    let (one, waits) = big("bank_cycles = 10");
    let (two, fewer) = big("banks = 2, bank_cycles = 10");
    assert!(
        free < two && two < one,
        "{free}, {two} and {one} cycles of waiting"
    );
    assert!(waits.bank_wait_cycles > 2 * fewer.bank_wait_cycles);
    assert!(fewer.bank_waits > 0);
}

/// Two levels with MSHRs, banks and prefetchers.
const ALL: [&str; 2] = [
    "cache.l2={ level = 2, shared_by = 2, size = \"4 KiB\", ways = 4, latency = 12, inclusion = \"non-inclusive\", \
     mshrs = 2, banks = 2, bank_cycles = 3, prefetcher = \"stride\", degree = 2, distance = 3 }",
    "cache.llc={ level = 3, shared_by = \"all\", size = \"10 KiB\", ways = 5, latency = 40, probe_latency = 20, \
     replacement = \"srrip\", mshrs = 3, banks = 4, bank_cycles = 7, prefetcher = \"stream\", degree = 2, distance = 8 \
         }",
];

#[test]
fn neither_engine_nor_slices_change_a_cycle() {
    for (step, store) in [(64, true), (8, true), (-136, false)] {
        for harts in ["harts=1", "harts=4"] {
            let words = walk(step, 2, store);
            let run = |engine, slice, ahead: &str| {
                let settings = [harts, ALL[0], ALL[1], ahead];
                let mut m = machine(&settings, &words, engine);
                run_for(&mut m, 30_000, slice)
            };
            let first = run(Engine::Interpreter, u64::MAX, "run_ahead_cycles=10000");
            let far = first.report.caches[1].events;
            assert!(far.prefetches > 0, "{step}: {far:?}");
            for (engine, slice, ahead) in [
                (EAGER, u64::MAX, "run_ahead_cycles=1"),
                (Engine::Interpreter, 1, "run_ahead_cycles=100"),
                (EAGER, 777, "run_ahead_cycles=1000000"),
            ] {
                assert_eq!(first, run(engine, slice, ahead), "{step}, {harts}, {slice}");
            }
        }
    }
}

#[test]
fn the_time_up_to_which_a_machine_may_go_changes_nothing() {
    for (step, store) in [(64, true), (-136, false)] {
        for harts in ["harts=1", "harts=4"] {
            let words = walk(step, 2, store);
            let settings = [harts, ALL[0], ALL[1]];
            let whole = run_for(&mut machine(&settings, &words, EAGER), 30_000, u64::MAX);
            for (seed, engine) in [(1, EAGER), (2, Engine::Interpreter)] {
                let mut m = machine(&settings, &words, engine);
                let mut rng = Rng::new(seed);
                let mut turns = 0;
                let stop = loop {
                    let now = m.next_time();
                    let until = Ps(now.0 + 1 + rng.below(40_000_000));
                    match m.run_until(until, u64::MAX, Some(30_000)) {
                        Stop::Slice => assert!(m.next_time() >= until, "it stopped early"),
                        other => break other,
                    }
                    turns += 1;
                };
                let found = outcome(&mut m, stop, Vec::new());
                assert_eq!(found, whole, "{step}, {harts}, {seed}");
                assert!(turns > 10, "{turns}");
            }
        }
    }
}

#[test]
fn what_is_under_way_is_in_a_snapshot() {
    let words = walk(64, 2, true);
    let settings = ["harts=4", ALL[0], ALL[1]];
    let mut whole = machine(&settings, &words, EAGER);
    let whole = run_for(&mut whole, 30_000, u64::MAX);
    for seed in [1, 3, 11, 15] {
        let mut m = machine(&settings, &words, EAGER);
        let mut rng = Rng::new(seed);
        let mut under_way = 0;
        let stop = loop {
            let stop = m.run(1 + rng.below(300), Some(30_000));
            if stop != Stop::Slice {
                break stop;
            }
            if !rng.one_in(20) {
                continue;
            }
            let state = m.save_state();
            let text = serde_json::to_string(&state).expect("a state");
            under_way += u64::from(text.contains("\"comes\":null"));
            let plain = nagori_snapshot::encode(&state).expect("a state");
            let again = nagori_snapshot::decode(&plain).expect("a state");
            let mut copy = machine(&settings, &words, Engine::Interpreter);
            let mut page = vec![0; 1 << 16];
            for at in (FAR..FAR + (4 << 20)).step_by(page.len()) {
                m.ram().read_bytes(at, &mut page).expect("in memory");
                copy.ram().write_bytes(at, &page).expect("in memory");
            }
            copy.load_state(again).expect("a state");
            let both = serde_json::to_string(&copy.save_state()).expect("a state");
            assert_eq!(text, both);
            m = copy;
            if rng.one_in(2) {
                m.set_engine(EAGER).expect("an engine");
            }
        };
        assert!(under_way > 3, "{under_way}");
        assert_eq!(whole, outcome(&mut m, stop, Vec::new()), "seed {seed}");
    }
}

/// Gives the first `key` of a state that has this value another one. False if there is none.
fn replace(state: &mut Value, key: &str, from: &Value, to: &Value) -> bool {
    match state {
        Value::Array(a) => a.iter_mut().any(|v| replace(v, key, from, to)),
        Value::Map(m) => m.iter_mut().any(|(k, v)| {
            if k.as_text() == Some(key) && v == from {
                *v = to.clone();
                return true;
            }
            replace(v, key, from, to)
        }),
        _ => false,
    }
}

#[test]
fn a_snapshot_of_other_prefetches_is_refused() {
    let words = walk(64, 2, true);
    let mut m = machine(&["harts=4", ALL[0], ALL[1]], &words, EAGER);
    let mut text = String::new();
    while !text.contains("\"comes\":null") {
        assert_eq!(m.run(50, Some(30_000)), Stop::Slice);
        text = serde_json::to_string(&m.save_state()).expect("a state");
    }
    let plain = nagori_snapshot::encode(&m.save_state()).expect("a state");
    let waiting = Value::Array(vec![Value::Array(vec![9.into(), 0.into()])]);
    for (key, from, to, why) in [
        (
            "comes",
            Value::Null,
            1_000_000.into(),
            "prefetches that memory has been asked for",
        ),
        ("source", 2.into(), 3.into(), "prefetches under way"),
        (
            "waiting",
            Value::Array(Vec::new()),
            waiting,
            "caches behind the first level",
        ),
    ] {
        let mut state: Value = ciborium::from_reader(&plain[..]).expect("a value");
        assert!(replace(&mut state, key, &from, &to), "{why}");
        let mut damaged = Vec::new();
        ciborium::into_writer(&state, &mut damaged).expect("encoded");
        let mut copy = machine(&["harts=4", ALL[0], ALL[1]], &words, EAGER);
        let loaded = copy.load_state(nagori_snapshot::decode(&damaged).expect("a state"));
        let said = loaded.expect_err(why).to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn code_that_an_inclusive_level_takes_back_is_fetched_again() {
    // The loop hits in L1I, so its line is the one that was used longest ago in the outer level.
    let words = walk(64, 2, true);
    let l2 = "cache.l2={ level = 2, shared_by = 1, size = \"1 KiB\", ways = 2, latency = 9 }";
    let run = |engine, prefetcher: &str| {
        let mut m = machine(&[l2, prefetcher], &words, engine);
        run_for(&mut m, 20_000, u64::MAX)
    };
    for prefetcher in ["l1d.prefetcher=none", "l1d.prefetcher=next-line"] {
        let first = run(Engine::Interpreter, prefetcher);
        let h = &first.report.harts[0].events;
        assert!(h.l1i_misses > 100, "{h:?}");
        assert_eq!(first, run(EAGER, prefetcher));
    }
}
