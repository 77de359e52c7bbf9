//! The contents that a history allows, against a machine that is simulated step by step in every way it may run.
//!
//! In the simulation stores and cleans sit in the hart until they are performed, in any order that RVWMO permits;
//! caches write lines back whenever they like; a fence waits. What is in memory at the end, over all runs, is what a
//! power cut may leave. Nothing of it is shared with the library. Harts do not race for a word: what a hart has
//! performed then says something about the other one's stores, which the library does not use; it allows more contents.

use crate::litmus::contents;
use nagori_crash::{
    At, Domain, FenceSet, FlushOp, History, Model, Order, PointKind, SiteId, Step, StoreOrder,
};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};

const LINES: usize = 2;
/// Words of a line; half of them are stored to by hart 0, the others by hart 1.
const WORDS: usize = 4;
type Memory = [[u8; WORDS]; LINES];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Store {
        line: usize,
        word: usize,
        value: u8,
        amo: bool,
        acquire: bool,
        release: bool,
    },
    Clean {
        line: usize,
    },
    /// Orders writes before writes.
    Fence,
    /// Orders writes before reads only.
    Weak,
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    hart: u16,
    op: Op,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Machine {
    committed: usize,
    performed: u32,
    caches: Memory,
    memory: Memory,
}

/// Whether `b`, later in the program, may not be performed before `a`.
fn ordered(program: &[Instruction], a: usize, b: usize) -> bool {
    let (first, second) = (program[a], program[b]);
    let line = |op| match op {
        Op::Store { line, .. } | Op::Clean { line } => Some(line),
        _ => None,
    };
    match (first.op, second.op) {
        (
            Op::Store {
                line: l, word: w, ..
            },
            Op::Store {
                line: m, word: v, ..
            },
        ) if (l, w) == (m, v) => return true,
        _ => {}
    }
    if first.hart != second.hart {
        return false;
    }
    // A clean overlaps with all words of its line.
    let cleans = [first, second]
        .iter()
        .any(|i| matches!(i.op, Op::Clean { .. }));
    matches!(first.op, Op::Store { acquire: true, .. })
        || matches!(second.op, Op::Store { release: true, .. })
        || cleans && line(first.op) == line(second.op)
}

/// Everything that memory may contain in the end.
fn simulate(program: &[Instruction], domain: Domain, commit: bool) -> BTreeSet<Memory> {
    let is_write = |i: usize| matches!(program[i].op, Op::Store { .. } | Op::Clean { .. });
    let empty = [[0; WORDS]; LINES];
    let mut todo = vec![Machine {
        committed: 0,
        performed: 0,
        caches: empty,
        memory: empty,
    }];
    let mut seen: HashSet<Machine> = todo.iter().cloned().collect();
    let mut ends = BTreeSet::new();
    let perform = |m: &Machine, i: usize| -> Machine {
        let mut next = m.clone();
        next.performed |= 1 << i;
        match program[i].op {
            Op::Store {
                line, word, value, ..
            } => next.caches[line][word] = value,
            Op::Clean { line } => next.memory[line] = next.caches[line],
            _ => unreachable!(),
        }
        if domain == Domain::Eadr {
            next.memory = next.caches;
        }
        next
    };
    let ready = |m: &Machine, i: usize| {
        (0..i).all(|j| !is_write(j) || m.performed >> j & 1 == 1 || !ordered(program, j, i))
    };
    // An AMO comes after the cleans of its line that its hart has begun.
    let cleaned = |m: &Machine, i: usize| {
        let Op::Store { line, .. } = program[i].op else {
            unreachable!()
        };
        (0..i).all(|j| {
            program[j].hart != program[i].hart
                || program[j].op != Op::Clean { line }
                || m.performed >> j & 1 == 1
        })
    };
    let ready_at_once = |m: &Machine, i: usize| match program[i].op {
        Op::Store { amo: false, .. } => true,
        _ if commit => cleaned(m, i),
        _ => ready(m, i),
    };
    while let Some(m) = todo.pop() {
        let mut next = Vec::new();
        for line in 0..LINES {
            let mut n = m.clone();
            n.memory[line] = n.caches[line];
            next.push(n);
        }
        for i in (0..m.committed).filter(|&i| is_write(i) && m.performed >> i & 1 == 0) {
            if ready(&m, i) {
                next.push(perform(&m, i));
            }
        }
        if m.committed == program.len() {
            ends.insert(m.memory);
        } else {
            let i = m.committed;
            let own_done = (0..i).all(|j| {
                program[j].hart != program[i].hart || !is_write(j) || m.performed >> j & 1 == 1
            });
            let waits = match program[i].op {
                Op::Fence => true,
                Op::Store { release, .. } => release,
                _ => false,
            };
            let amo = matches!(program[i].op, Op::Store { amo: true, .. });
            // Without a store buffer a store is performed at once; a clean goes its way.
            let at_once = amo || commit && matches!(program[i].op, Op::Store { .. });
            if !waits || own_done {
                let mut n = m.clone();
                n.committed += 1;
                if !at_once {
                    next.push(n);
                } else if ready_at_once(&m, i) {
                    next.push(perform(&n, i));
                }
            }
        }
        todo.extend(next.into_iter().filter(|n| seen.insert(n.clone())));
    }
    ends
}

fn history(program: &[Instruction], domain: Domain, order: Order) -> BTreeSet<Memory> {
    let mut model = Model::new(domain);
    model.order = order;
    let mut history = History::new(model, Box::new(|_| [0; 64]));
    for i in program {
        let at = At {
            hart: i.hart,
            site: SiteId(0),
            time: 0,
        };
        history.step(&match i.op {
            Op::Store {
                line,
                word,
                ref value,
                amo,
                acquire,
                release,
            } => Step::Store {
                at,
                paddr: (line * 64 + word) as u64,
                bytes: std::slice::from_ref(value),
                order: StoreOrder {
                    acquire,
                    release,
                    atomic: amo,
                    combined: false,
                },
            },
            Op::Clean { line } => Step::Flush {
                at,
                paddr: line as u64 * 64,
                op: FlushOp::Clean,
                to_memory: true,
            },
            Op::Fence => Step::Fence {
                at,
                pred: FenceSet::W,
                succ: FenceSet::RW,
            },
            Op::Weak => Step::Fence {
                at,
                pred: FenceSet::W,
                succ: FenceSet::R,
            },
        });
    }
    let cut = history.cut(PointKind::Other);
    let word = |line: usize, word: usize, choice: &[usize]| {
        let place = cut
            .undecided
            .iter()
            .position(|u| u.line == line as u64 * 64);
        match place {
            Some(i) => cut.undecided[i].candidates[choice[i]].bytes[word],
            None => cut.durable.get(line as u64 * 64).map_or(0, |b| b[word]),
        }
    };
    let all = contents(&cut);
    all.iter()
        .map(|c| std::array::from_fn(|l| std::array::from_fn(|w| word(l, w, c))))
        .collect()
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let store =
        (0..LINES, 0..WORDS / 2, 1u8..4, 0u8..12).prop_map(|(line, word, value, amo)| Op::Store {
            line,
            word,
            value,
            amo: amo < 4,
            acquire: amo == 1 || amo == 3,
            release: amo == 2 || amo == 3,
        });
    let op = prop_oneof![
        5 => store,
        3 => (0..LINES).prop_map(|line| Op::Clean { line }),
        2 => Just(Op::Fence),
        1 => Just(Op::Weak),
    ];
    (0u16..2, op).prop_map(|(hart, mut op)| {
        if let Op::Store { word, .. } = &mut op {
            *word += usize::from(hart) * WORDS / 2;
        }
        Instruction { hart, op }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_history_allows_what_a_machine_may_do(
        program in proptest::collection::vec(instruction(), 1..8),
        eadr in any::<bool>(),
    ) {
        let domain = if eadr { Domain::Eadr } else { Domain::Adr };
        for (order, commit) in [(Order::Rvwmo, false), (Order::Commit, true)] {
            let ours = history(&program, domain, order);
            let theirs = simulate(&program, domain, commit);
            prop_assert_eq!(ours, theirs, "{:?} {:?}", domain, order);
        }
    }
}
