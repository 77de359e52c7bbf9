//! The lazy search against trying everything, on made-up recoveries.

use crate::litmus::contents;
use nagori_crash::{
    explore, At, Budget, Bytes, Cut, Domain, FenceSet, FlushOp, GpfChoice, History, Model, Order,
    Outcome, PointKind, Recovery, Report, Site, State, Step, StoreOrder, Subject, Unresolved, Work,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

const LINES: u64 = 5;

#[derive(Clone, Copy, Debug)]
enum Op {
    Store { line: u64, word: u64, value: u8 },
    Clean { line: u64 },
    Fence,
    Done,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..LINES, 0u64..2, 1u8..4).prop_map(|(line, word, value)| Op::Store { line, word, value }),
        2 => (0..LINES).prop_map(|line| Op::Clean { line }),
        1 => Just(Op::Fence),
        1 => Just(Op::Done),
    ]
}

/// Cuts before every fence and at the end, and references.
fn cuts(program: &[Op], model: Model) -> (History, Vec<Cut>, Vec<Cut>) {
    let mut history = History::new(model, Box::new(|line| [(line / 64) as u8; 64]));
    let mut references = vec![history.uncut()];
    let mut cuts = Vec::new();
    for (i, op) in program.iter().enumerate() {
        let site = history.site(&Site {
            pc: 0x1000 + i as u64,
            ..Site::default()
        });
        let at = At {
            hart: 0,
            site,
            time: 0,
        };
        match *op {
            Op::Store {
                line,
                word,
                ref value,
            } => history.step(&Step::Store {
                at,
                paddr: line * 64 + word,
                bytes: std::slice::from_ref(value),
                order: StoreOrder::default(),
            }),
            Op::Clean { line } => {
                history.step(&Step::Flush {
                    at,
                    paddr: line * 64,
                    op: FlushOp::Clean,
                    to_memory: true,
                });
            }
            Op::Fence => {
                cuts.push(history.cut(PointKind::Fence));
                history.step(&Step::Fence {
                    at,
                    pred: FenceSet::RW,
                    succ: FenceSet::RW,
                });
            }
            Op::Done => {
                history.step(&Step::Marker {
                    at,
                    label: "done",
                    operation: true,
                });
                references.push(history.uncut());
            }
        }
    }
    cuts.push(history.cut(PointKind::Other));
    (history, cuts, references)
}

/// Reads lines in an order that depends on what it reads, and dislikes some sums.
struct MadeUp {
    seed: u64,
    outputs: Mutex<BTreeSet<(bool, u64)>>,
}

impl MadeUp {
    fn run(&self, content: &dyn Fn(u64) -> Bytes) -> Recovery {
        let (mut reads, mut sum) = (Vec::new(), self.seed);
        let count = 1 + self.seed % LINES;
        while (reads.len() as u64) < count {
            let mut line = (sum >> 7) % LINES;
            while reads.contains(&(line * 64)) {
                line = (line + 1) % LINES;
            }
            reads.push(line * 64);
            let bytes = content(line * 64);
            sum = (sum ^ u64::from(bytes[0]) << 8 ^ u64::from(bytes[1]))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let bad = sum >> 33 & 7 == 0;
        let outcome = if bad {
            Outcome::CheckExit { code: 1 }
        } else {
            Outcome::Ok
        };
        Recovery {
            reads,
            outcome,
            output: Some(sum),
            text: String::new(),
            stores: false,
            stored: Vec::new(),
        }
    }
}

impl Subject for MadeUp {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        let lines: BTreeMap<u64, Bytes> = state.lines.iter().copied().collect();
        let recovery = self.run(&|l| lines.get(&l).copied().unwrap_or([(l / 64) as u8; 64]));
        let bad = recovery.outcome != Outcome::Ok;
        self.outputs
            .lock()
            .unwrap()
            .insert((bad, recovery.output.unwrap()));
        Ok(recovery)
    }
}

/// By brute force: all results, and for how many contents of the cuts recovery fails.
fn brute(subject: &MadeUp, cuts: &[Cut], references: &[Cut]) -> (BTreeSet<(bool, u64)>, u64) {
    let initial = |l: u64| [(l / 64) as u8; 64];
    let output = |cut: &Cut, choice: &[usize]| {
        let recovery = subject.run(&|l| match cut.undecided.iter().position(|u| u.line == l) {
            Some(i) => cut.undecided[i].candidates[choice[i]].bytes,
            None => cut.durable.get(l).copied().unwrap_or_else(|| initial(l)),
        });
        (recovery.outcome != Outcome::Ok, recovery.output.unwrap())
    };
    let allowed: Vec<u64> = references.iter().map(|r| output(r, &[]).1).collect();
    let mut all: BTreeSet<_> = references.iter().map(|r| output(r, &[])).collect();
    let (mut failing, mut seen) = (0, BTreeSet::new());
    for cut in cuts {
        if !seen.insert((
            cut.hash,
            if references.is_empty() {
                0
            } else {
                cut.operation
            },
        )) {
            continue;
        }
        for choice in contents(cut) {
            let (bad, sum) = output(cut, &choice);
            all.insert((bad, sum));
            let n = cut.operation as usize;
            let prefix =
                references.is_empty() || allowed[n..(n + 2).min(allowed.len())].contains(&sum);
            failing += u64::from(bad || !prefix);
        }
    }
    (all, failing)
}

fn run(
    subject: &MadeUp,
    history: &History,
    cuts: &[Cut],
    references: &[Cut],
    jobs: usize,
) -> Report {
    let work = Work {
        cuts,
        references,
        sites: history.sites(),
        resolve: &Unresolved,
        shard: None,
    };
    explore(&work, subject, &whole(), jobs, &mut |_| true).unwrap()
}

/// Everything, whatever fails.
fn whole() -> Budget {
    Budget {
        beyond_failures: true,
        ..Budget::default()
    }
}

fn domains() -> impl Strategy<Value = Domain> {
    prop_oneof![
        Just(Domain::Adr),
        Just(Domain::None),
        Just(Domain::Eadr),
        (1u64..3).prop_map(|lines| Domain::Gpf {
            lines,
            choice: GpfChoice::Any
        }),
        (1u64..3).prop_map(|lines| Domain::Gpf {
            lines,
            choice: GpfChoice::Address
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_lazy_search_finds_what_trying_everything_finds(
        program in proptest::collection::vec(op(), 1..14),
        seed in any::<u64>(),
        domain in domains(),
        commit in any::<bool>(),
        prefix in any::<bool>(),
    ) {
        let mut model = Model::new(domain);
        model.order = if commit { Order::Commit } else { Order::Rvwmo };
        let (history, cuts, references) = cuts(&program, model);
        let references = if prefix { references } else { Vec::new() };
        let subject = MadeUp { seed, outputs: Mutex::default() };
        let report = run(&subject, &history, &cuts, &references, 1);
        let (all, failing) = brute(&subject, &cuts, &references);
        prop_assert_eq!(&*subject.outputs.lock().unwrap(), &all);
        prop_assert_eq!(failing > 0, report.failures > 0);
        prop_assert_eq!(failing > 0, !report.findings.is_empty());
        prop_assert_eq!(report.coverage.complete, report.coverage.cuts);
        prop_assert_eq!(report.coverage.states, report.coverage.states_covered);
        prop_assert!(!report.coverage.stopped);
        prop_assert_eq!(report.coverage.unstable, 0);

        // What fails is found without looking further, too.
        let again = MadeUp { seed, outputs: Mutex::default() };
        let work = Work {
            cuts: &cuts, references: &references, sites: history.sites(), resolve: &Unresolved, shard: None,
        };
        let short = explore(&work, &again, &Budget::default(), 1, &mut |_| true).unwrap();
        prop_assert_eq!(short.findings.is_empty(), report.findings.is_empty());
        prop_assert!(short.coverage.contents_tried <= report.coverage.contents_tried);
        prop_assert!(failing > 0 || short.coverage.complete == short.coverage.cuts);

        // The number of threads changes nothing.
        let again = MadeUp { seed, outputs: Mutex::default() };
        prop_assert_eq!(&run(&again, &history, &cuts, &references, 3), &report);

        // Parts are the whole.
        let mut outputs = BTreeSet::new();
        let (mut sum, mut failures) = (0, 0);
        for part in 1..=3 {
            let subject = MadeUp { seed, outputs: Mutex::default() };
            let work = Work {
                cuts: &cuts,
                references: &references,
                sites: history.sites(),
                resolve: &Unresolved,
                shard: Some((part, 3)),
            };
            let report = explore(&work, &subject, &whole(), 1, &mut |_| true).unwrap();
            outputs.extend(subject.outputs.lock().unwrap().iter().copied());
            sum += report.coverage.cuts;
            failures += report.failures;
        }
        prop_assert_eq!(outputs, all);
        prop_assert_eq!(sum, report.coverage.cuts);
        prop_assert_eq!(failures, report.failures);
    }

    #[test]
    fn a_search_that_was_stopped_says_so(
        program in proptest::collection::vec(op(), 8..30),
        seed in any::<u64>(),
        limit in 0u64..6,
    ) {
        let (history, cuts, references) = cuts(&program, Model::new(Domain::Adr));
        let subject = MadeUp { seed, outputs: Mutex::default() };
        let work = Work {
            cuts: &cuts, references: &references, sites: history.sites(), resolve: &Unresolved, shard: None,
        };
        let budget = Budget { recoveries: Some(limit), ..whole() };
        let report = explore(&work, &subject, &budget, 2, &mut |_| true).unwrap();
        prop_assert!(report.recoveries <= limit);
        let whole = report.coverage.complete == report.coverage.cuts;
        prop_assert!(report.coverage.stopped || whole);
        prop_assert_eq!(whole, report.coverage.states == report.coverage.states_covered);
        for cut in &report.cuts {
            prop_assert_eq!(cut.complete, cut.left.is_empty());
            prop_assert_eq!(cut.complete, cut.states == cut.states_covered);
        }
    }
}

/// Ends after so many recoveries, as if from outside.
struct Ended<'a> {
    subject: &'a MadeUp,
    left: AtomicU64,
}

impl Subject for Ended<'_> {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        let more = |n: u64| n.checked_sub(1);
        match self.left.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => self.subject.recover(state),
            Err(_) => Err("ended".into()),
        }
    }
}

proptest! {
    /// What was known by then is in the report, with its findings, and the rest is not covered.
    #[test]
    fn a_search_that_is_ended_from_outside_keeps_what_it_knows(
        program in proptest::collection::vec(op(), 8..30),
        seed in any::<u64>(),
        limit in 0u64..40,
    ) {
        let (history, cuts, references) = cuts(&program, Model::new(Domain::None));
        let subject = MadeUp { seed, outputs: Mutex::default() };
        let all = run(&subject, &history, &cuts, &references, 1);
        let work = Work {
            cuts: &cuts, references: &references, sites: history.sites(), resolve: &Unresolved, shard: None,
        };
        for jobs in [1, 3] {
            let ended = Ended { subject: &subject, left: AtomicU64::new(limit) };
            // Without the wish to end, it is a failure.
            let result = explore(&work, &ended, &whole(), jobs, &mut |_| true);
            prop_assert_eq!(result.is_err(), limit < all.recoveries);
            let ended = Ended { subject: &subject, left: AtomicU64::new(limit) };
            let mut goes_on = |_: &nagori_crash::Progress| ended.left.load(Relaxed) > 0 || limit >= all.recoveries;
            let report = explore(&work, &ended, &whole(), jobs, &mut goes_on).unwrap();
            prop_assert!(report.recoveries <= limit.min(all.recoveries));
            prop_assert_eq!(report.findings.is_empty(), report.failures == 0);
            let complete = report.coverage.complete == report.coverage.cuts;
            prop_assert!(report.coverage.stopped || complete);
            if jobs == 1 {
                prop_assert_eq!(report.recoveries, limit.min(all.recoveries));
            }
            if limit >= all.recoveries {
                prop_assert_eq!(&report, &all);
            }
        }
    }
}
