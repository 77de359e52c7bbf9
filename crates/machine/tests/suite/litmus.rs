//! Litmus tests of memory order on harts with store buffers and combined stores: what a model of RVWMO forbids
//! never happens, and what such hardware shows does.
//!
//! [`allowed`] enumerates the outcomes that the axioms of RVWMO permit (The RISC-V Instruction Set Manual,
//! volume I, appendix "RVWMO Explanatory Material" and chapter "RVWMO"), for programs without dependencies, atomics
//! and annotations. Its answers for the classic tests are compared with those of herd7 and its model `riscv.cat` as
//! published with the tests ([`the_model_agrees_with_herd`]).

use crate::ahead::EAGER;
use crate::common::random::op;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop};
use std::collections::BTreeSet;

/// What a hart does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Do {
    /// Stores a value to a place.
    St(usize, u64),
    /// Stores a value to a place under `ntl.all`.
    Nt(usize, u64),
    /// Loads from a place.
    Ld(usize),
    /// `fence` with predecessors and successors, of R = 2 and W = 1.
    Fence(i32, i32),
}
use Do::*;

const R: i32 = 2;
const W: i32 = 1;
const RW: i32 = 3;
const X: usize = 0;
const Y: usize = 1;
const PLACES: usize = 2;

/// A test: what each hart does.
type Test = Vec<Vec<Do>>;
/// What the loads read, in the order of harts and programs, then the values at the end.
type Outcome = Vec<u64>;

/// An access: hart, place in its program, location, and what it stores if it is a store.
#[derive(Clone, Copy)]
struct Access {
    hart: usize,
    at: usize,
    place: usize,
    stores: Option<u64>,
}

/// The outcomes that RVWMO allows: of all orders of the accesses in which the preserved program order holds.
fn allowed(test: &Test) -> BTreeSet<Outcome> {
    let mut all = Vec::new();
    for (hart, program) in test.iter().enumerate() {
        for (at, d) in program.iter().enumerate() {
            let (place, stores) = match *d {
                St(p, v) | Nt(p, v) => (p, Some(v)),
                Ld(p) => (p, None),
                Fence(..) => continue,
            };
            all.push(Access {
                hart,
                at,
                place,
                stores,
            });
        }
    }
    // Rules 1 and 4 of the preserved program order; rule 2 depends on what is read.
    let preserved = |a: &Access, b: &Access| {
        let kind = |a: &Access| if a.stores.is_some() { W } else { R };
        let fenced = test[a.hart][a.at..b.at].iter().any(
            |d| matches!(d, Fence(before, after) if before & kind(a) != 0 && after & kind(b) != 0),
        );
        fenced || a.place == b.place && b.stores.is_some()
    };
    let mut found = BTreeSet::new();
    let mut order: Vec<usize> = Vec::new();
    permute(&all, &mut order, &preserved, &mut |order| {
        let when = |i: usize| order.iter().position(|o| *o == i).expect("all of them");
        // The load value axiom: the newest in the order of those before it there, or before it in its program.
        let source = |i: usize| {
            let l = &all[i];
            let seen = |s: usize| {
                let a = &all[s];
                a.stores.is_some()
                    && a.place == l.place
                    && (when(s) < when(i) || a.hart == l.hart && a.at < l.at)
            };
            (0..all.len()).filter(|s| seen(*s)).max_by_key(|s| when(*s))
        };
        let loads: Vec<usize> = (0..all.len())
            .filter(|i| all[*i].stores.is_none())
            .collect();
        for a in &loads {
            for b in &loads {
                let (la, lb) = (&all[*a], &all[*b]);
                let same = la.hart == lb.hart && la.place == lb.place && la.at < lb.at;
                let between = all.iter().any(|s| {
                    s.stores.is_some()
                        && (s.hart, s.place) == (la.hart, la.place)
                        && la.at < s.at
                        && s.at < lb.at
                });
                if same && !between && source(*a) != source(*b) && when(*a) > when(*b) {
                    return;
                }
            }
        }
        let value = |s: Option<usize>| s.and_then(|s| all[s].stores).unwrap_or(0);
        let mut outcome: Outcome = loads.iter().map(|l| value(source(*l))).collect();
        for place in 0..PLACES {
            let mut last = order.iter().rev();
            let last = last.find(|i| all[**i].place == place && all[**i].stores.is_some());
            outcome.push(value(last.copied()));
        }
        found.insert(outcome);
    });
    found
}

fn permute(
    all: &[Access],
    order: &mut Vec<usize>,
    preserved: &impl Fn(&Access, &Access) -> bool,
    visit: &mut impl FnMut(&[usize]),
) {
    if order.len() == all.len() {
        return visit(order);
    }
    for i in 0..all.len() {
        let waits = |j: usize| {
            let (a, b) = (&all[j], &all[i]);
            a.hart == b.hart && a.at < b.at && preserved(a, b) && !order.contains(&j)
        };
        if !order.contains(&i) && !(0..all.len()).any(waits) {
            order.push(i);
            permute(all, order, preserved, visit);
            order.pop();
        }
    }
}

/// A classic test: its name, its harts without fences, the fences that forbid its relaxed outcome, and this.
struct Classic {
    name: &'static str,
    test: Test,
    /// Behind the first access of each hart; `None` where there is nothing to order.
    fences: Vec<Option<Do>>,
    relaxed: Outcome,
    /// The outcomes that herd7 finds without fences, and with them.
    states: (usize, usize),
}

fn classics() -> Vec<Classic> {
    let both = |f: Do| vec![Some(f), Some(f)];
    let classic = |name, test, fences, relaxed: &[u64], states| Classic {
        name,
        test,
        fences,
        relaxed: relaxed.to_vec(),
        states,
    };
    vec![
        classic(
            "SB",
            vec![vec![St(X, 1), Ld(Y)], vec![St(Y, 1), Ld(X)]],
            both(Fence(RW, RW)),
            &[0, 0, 1, 1],
            (4, 3),
        ),
        classic(
            "MP",
            vec![vec![St(X, 1), St(Y, 1)], vec![Ld(Y), Ld(X)]],
            vec![Some(Fence(W, W)), Some(Fence(R, R))],
            &[1, 0, 1, 1],
            (4, 3),
        ),
        classic(
            "LB",
            vec![vec![Ld(X), St(Y, 1)], vec![Ld(Y), St(X, 1)]],
            both(Fence(RW, RW)),
            &[1, 1, 1, 1],
            (4, 3),
        ),
        classic(
            "S",
            vec![vec![St(X, 2), St(Y, 1)], vec![Ld(Y), St(X, 1)]],
            vec![Some(Fence(W, W)), Some(Fence(R, W))],
            &[1, 2, 1],
            (4, 3),
        ),
        classic(
            "R",
            vec![vec![St(X, 1), St(Y, 1)], vec![St(Y, 2), Ld(X)]],
            both(Fence(RW, RW)),
            &[0, 1, 2],
            (4, 3),
        ),
        classic(
            "2+2W",
            vec![vec![St(X, 1), St(Y, 2)], vec![St(Y, 1), St(X, 2)]],
            both(Fence(W, W)),
            &[1, 1],
            (4, 3),
        ),
        classic(
            "CoRR",
            vec![vec![St(X, 1)], vec![Ld(X), Ld(X)]],
            vec![None, None],
            &[1, 0, 1, 0],
            (3, 3),
        ),
    ]
}

impl Classic {
    fn fenced(&self) -> Test {
        let mut test = self.test.clone();
        for (program, f) in test.iter_mut().zip(&self.fences) {
            if let Some(f) = f {
                program.insert(1, *f);
            }
        }
        test
    }
}

#[test]
fn the_model_agrees_with_herd() {
    for c in classics() {
        let (plain, fenced) = (allowed(&c.test), allowed(&c.fenced()));
        assert_eq!((plain.len(), fenced.len()), c.states, "{}", c.name);
        let forbidden_anyhow = c.name == "CoRR";
        assert_eq!(plain.contains(&c.relaxed), !forbidden_anyhow, "{}", c.name);
        assert!(!fenced.contains(&c.relaxed), "{}", c.name);
        assert!(fenced.is_subset(&plain), "{}", c.name);
    }
}

/// Distance of a place from the start of memory; the barrier is behind them.
const PLACE: u64 = 1 << 20;
const STEP: u64 = 0x1_0000 + 192;

/// What a hart does before the test with each place.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    Loads,
    Stores,
}

/// The code of a hart: it looks at places, waits for the others, then some time, and does what the test says.
/// `busy` stores elsewhere take line fill buffers first, so that those of the test have to wait for some.
fn code(program: &[Do], before: &[Before], harts: u64, (delay, busy): (i32, i32)) -> Vec<u32> {
    let mut words = Vec::new();
    for (place, b) in before.iter().enumerate() {
        let base = 10 + place as u8;
        match b {
            Before::Nothing => {}
            Before::Loads => words.push(op(Op::Ld, 5, base, 0, 0)),
            Before::Stores => words.push(op(Op::Sd, 0, base, 0, 0)),
        }
    }
    words.extend([
        op(Op::Addi, 5, 0, 0, 1),
        op(Op::Addi, 6, 0, 0, harts as i32),
        op(Op::AmoaddD, 0, 15, 5, 0),
        op(Op::Ld, 7, 15, 0, 0),
        op(Op::Bne, 0, 7, 6, -4),
        op(Op::Addi, 5, 0, 0, delay + 1),
        op(Op::Addi, 5, 5, 0, -1),
        op(Op::Bne, 0, 5, 0, -4),
    ]);
    let values = [1, 2];
    words.extend(values.map(|v| op(Op::Addi, 16 + v, 0, 0, i32::from(v))));
    words.extend((0..busy).map(|k| op(Op::Sd, 0, 14, 0, 64 * k)));
    let mut read = 20;
    for d in program {
        match *d {
            Fence(before, after) => words.push(op(Op::Fence, 0, 0, 0, before << 4 | after)),
            Ld(p) => {
                words.push(op(Op::Ld, read, 10 + p as u8, 0, 0));
                read += 1;
            }
            St(p, v) => words.push(op(Op::Sd, 0, 10 + p as u8, 16 + v as u8, 0)),
            Nt(p, v) => words.extend([
                op(Op::NtlAll, 0, 0, 0, 0),
                op(Op::Sd, 0, 10 + p as u8, 16 + v as u8, 0),
            ]),
        }
    }
    words.extend([
        op(Op::Fence, 0, 0, 0, RW << 4 | RW),
        op(Op::Jal, 0, 0, 0, 0),
    ]);
    words
}

/// What makes the last access of a program quick, and that before slow.
fn nearest(program: &[Do], place: usize) -> Before {
    match program.last() {
        Some(Ld(p)) if *p == place => Before::Loads,
        Some(St(p, _) | Nt(p, _)) if *p == place => Before::Stores,
        _ => Before::Nothing,
    }
}

/// One run of a test.
fn once(test: &Test, settings: &[&str], engine: Engine, rng: &mut Rng) -> Outcome {
    let harts = format!("harts={}", test.len());
    let mut all = vec![&harts[..]];
    all.extend(settings);
    let mut m: Machine = build(&describe("small", &all), true);
    m.set_engine(engine).expect("an engine");
    let base = m.config().memory.base;
    let aimed = rng.one_in(2);
    for (h, program) in test.iter().enumerate() {
        let kinds = [Before::Nothing, Before::Loads, Before::Stores];
        let mut before: Vec<Before> = (0..PLACES).map(|_| rng.pick(&kinds)).collect();
        if aimed {
            // What the program does last is quick, and what it does first is slow.
            before = (0..PLACES).map(|p| nearest(program, p)).collect();
        }
        let delay = rng.below(2) * rng.below(60);
        let busy = rng.below(24) * rng.below(2);
        let times = (delay as i32, busy as i32);
        let words = code(program, &before, test.len() as u64, times);
        put_words(m.ram(), 0x1000 * h as u64, &words);
    }
    m.memory_written(base, 0x1_0000);
    m.start_at(base, 0, 0);
    for h in 0..test.len() {
        let hart = m.hart_mut(h).expect("a hart");
        hart.state.pc = base + 0x1000 * h as u64;
        for p in [0, 1, 5] {
            hart.set_reg(10 + p, base + PLACE + p as u64 * STEP);
        }
        hart.set_reg(14, base + 2 * PLACE + 0x1_0000 * h as u64);
    }
    assert_eq!(m.run(u64::MAX, Some(6000)), Stop::Instructions);
    let mut outcome = Vec::new();
    for (h, program) in test.iter().enumerate() {
        let loads = program.iter().filter(|d| matches!(d, Ld(_))).count();
        let hart = m.hart(h).expect("a hart");
        outcome.extend((0..loads).map(|k| hart.reg(20 + k)));
    }
    for p in 0..PLACES as u64 {
        outcome.push(m.ram().read_u64(PLACE + p * STEP).expect("in memory"));
    }
    outcome
}

/// What is seen of a test in so many runs.
fn seen(test: &Test, settings: &[&str], runs: u64) -> BTreeSet<Outcome> {
    let mut rng = Rng::new(test.len() as u64);
    let mut seen = BTreeSet::new();
    for run in 0..runs {
        let engine = match run % 2 {
            0 => Engine::Interpreter,
            _ => EAGER,
        };
        seen.insert(once(test, settings, engine, &mut rng));
    }
    seen
}

pub const IN_ORDER: &[&str] = &["l1d.mshrs=6", "store_buffer.entries=8"];
pub const ANY: &[&str] = &[
    "l1d.mshrs=2",
    "store_buffer.entries=8",
    "store_buffer.drain=\"any\"",
];
/// One line fill buffer, so that stores to lines that are there pass others by far.
const NARROW: &[&str] = &[
    "l1d.mshrs=1",
    "store_buffer.entries=32",
    "store_buffer.drain=\"any\"",
];
pub const COMBINING: &[&str] = &[
    "l1d.mshrs=6",
    "store_buffer.entries=8",
    "nontemporal.all.store=\"write-combining\"",
];
/// Loads do not wait for their lines either.
pub const LOADS: &str = "core=inorder2";
const LEVELS: &str =
    "cache.l2={ level = 2, shared_by = 1, size = \"16 KiB\", ways = 8, latency = 12, inclusion = \
    \"non-inclusive\" }";
const SHARED: &str =
    "cache.llc={ level = 3, shared_by = \"all\", size = \"64 KiB\", ways = 8, latency = 40, \
    probe_latency = 20 }";

/// The test with all of its stores, or every second one, under `ntl.all`.
fn nontemporal(test: &Test, all: bool) -> Test {
    let mut test = test.clone();
    let mut k = 0;
    for d in test.iter_mut().flatten() {
        if let St(p, v) = *d {
            k += 1;
            if all || k % 2 == 1 {
                *d = Nt(p, v);
            }
        }
    }
    test
}

#[test]
fn only_what_is_allowed_happens() {
    let runs = env("NAGORI_LITMUS_RUNS", 24);
    for c in classics() {
        for test in [&c.test, &c.fenced()] {
            let may = allowed(test);
            for settings in [IN_ORDER, ANY, COMBINING] {
                for levels in [&[][..], &[LEVELS, SHARED], &[LOADS, LEVELS, SHARED]] {
                    let all: Vec<&str> = settings.iter().chain(levels).copied().collect();
                    let mut tests = vec![test.clone()];
                    if settings == COMBINING {
                        tests = vec![nontemporal(test, true), nontemporal(test, false)];
                    }
                    for test in tests {
                        let seen = seen(&test, &all, runs);
                        let wrong: Vec<_> = seen.difference(&may).collect();
                        assert!(wrong.is_empty(), "{}: {test:?} {all:?}: {wrong:?}", c.name);
                    }
                }
            }
        }
    }
}

#[test]
fn what_such_hardware_shows_is_seen() {
    // Loads are performed in order, so LB and CoRR show nothing. A store buffer in order is that of TSO.
    let any = ["SB", "MP", "S", "R", "2+2W"];
    let mut wrong = Vec::new();
    for (settings, shows, may) in [
        (NARROW, &any[..], &any[..]),
        (IN_ORDER, &["SB"], &["SB", "R"]),
        (&["l1d.mshrs=6"], &[], &[]),
    ] {
        for c in classics() {
            let seen = seen(&c.test, settings, 200);
            let shown = seen.contains(&c.relaxed);
            let missing = shows.contains(&c.name) && !shown;
            if missing || shown && !may.contains(&c.name) {
                wrong.push(format!("{}: {settings:?}: {seen:?}", c.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
