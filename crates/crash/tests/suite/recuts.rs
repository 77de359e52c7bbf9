//! Cuts during recovery, on an undo log whose recovery may be interrupted, or not.

use nagori_crash::{
    explore, At, Budget, Bytes, Cut, Domain, FenceSet, FlushOp, History, Model, Order, Outcome,
    PointKind, Record, Recovery, Report, Site, Sites, State, Step, StoreOrder, Subject, Unresolved,
    Work,
};
use std::collections::{BTreeMap, BTreeSet};

/// Lines: the accounts, and the log: its old values at 0 and 1, at 7 whether they count.
const FIRST: u64 = 0x1000;
const SECOND: u64 = 0x1040;
const LOG: u64 = 0x1080;

/// Memory, with what is done to it.
struct Nvmm {
    lines: BTreeMap<u64, Bytes>,
    history: History,
    cuts: Vec<Cut>,
    reads: Vec<u64>,
    stored: BTreeSet<u64>,
    steps: u64,
}

impl Nvmm {
    fn new(lines: BTreeMap<u64, Bytes>) -> Nvmm {
        let start = lines.clone();
        let reader = Box::new(move |line| start.get(&line).copied().unwrap_or([0; 64]));
        let model = Model {
            order: Order::Commit,
            ..Model::new(Domain::Adr)
        };
        Nvmm {
            lines,
            history: History::new(model, reader),
            cuts: Vec::new(),
            reads: Vec::new(),
            stored: BTreeSet::new(),
            steps: 0,
        }
    }

    fn at(&mut self, pc: u64) -> At {
        self.steps += 1;
        let site = self.history.site(&Site {
            pc,
            ..Site::default()
        });
        At {
            hart: 0,
            site,
            time: self.steps,
        }
    }

    fn load(&mut self, line: u64, place: usize) -> u8 {
        if !self.stored.contains(&(line + place as u64)) && !self.reads.contains(&line) {
            self.reads.push(line);
        }
        self.lines.get(&line).map_or(0, |bytes| bytes[place])
    }

    fn store(&mut self, line: u64, place: usize, value: u8, pc: u64) {
        let at = self.at(pc);
        self.stored.insert(line + place as u64);
        self.lines.entry(line).or_insert([0; 64])[place] = value;
        self.history.step(&Step::Store {
            at,
            paddr: line + place as u64,
            bytes: &[value],
            order: StoreOrder::default(),
        });
    }

    fn flush(&mut self, line: u64) {
        let at = self.at(1);
        self.history.step(&Step::Flush {
            at,
            paddr: line,
            op: FlushOp::Flush,
            to_memory: true,
        });
    }

    fn fence(&mut self) {
        self.cuts.push(self.history.cut(PointKind::Fence));
        let at = self.at(2);
        self.history.step(&Step::Fence {
            at,
            pred: FenceSet::RW,
            succ: FenceSet::RW,
        });
    }

    fn log(&mut self, valid: u8, pc: u64) {
        self.store(LOG, 7, valid, pc);
        self.flush(LOG);
        self.fence();
    }

    fn move_one(&mut self) {
        let (first, second) = (self.load(FIRST, 0), self.load(SECOND, 0));
        self.store(LOG, 0, first, 10);
        self.store(LOG, 1, second, 11);
        self.flush(LOG);
        self.fence();
        self.log(1, 12);
        self.store(FIRST, 0, first - 1, 13);
        self.store(SECOND, 0, second + 1, 14);
        self.flush(FIRST);
        self.flush(SECOND);
        self.fence();
        self.log(0, 15);
    }

    fn recover(&mut self, clear_first: bool) {
        if self.load(LOG, 7) == 0 {
            return;
        }
        if clear_first {
            self.log(0, 20);
        }
        let (first, second) = (self.load(LOG, 0), self.load(LOG, 1));
        self.store(FIRST, 0, first, 21);
        self.store(SECOND, 0, second, 22);
        self.flush(FIRST);
        self.flush(SECOND);
        self.fence();
        if !clear_first {
            self.log(0, 23);
        }
    }
}

/// A program that recovers.
struct Bank {
    start: BTreeMap<u64, Bytes>,
    clear_first: bool,
}

impl Bank {
    fn run(&self, state: &State) -> Nvmm {
        let mut lines = self.start.clone();
        lines.extend(state.lines.iter().copied());
        let mut nvmm = Nvmm::new(lines);
        nvmm.recover(self.clear_first);
        nvmm
    }
}

impl Subject for Bank {
    fn recover(&self, state: &State) -> Result<Recovery, String> {
        let mut nvmm = self.run(state);
        let stores = !nvmm.stored.is_empty();
        let stored: BTreeSet<u64> = nvmm.stored.iter().map(|at| at & !63).collect();
        let stored: Vec<u64> = { stored.into_iter() }
            .filter(|line| state.watched.contains(line))
            .collect();
        let (first, second) = (nvmm.load(FIRST, 0), nvmm.load(SECOND, 0));
        let outcome = match u32::from(first) + u32::from(second) {
            200 => Outcome::Ok,
            _ => Outcome::CheckExit { code: 1 },
        };
        Ok(Recovery {
            reads: nvmm.reads,
            outcome,
            output: Some(first.into()),
            text: format!("{first} {second}"),
            stores,
            stored,
        })
    }

    fn record(&self, state: &State) -> Result<Option<Record>, String> {
        let nvmm = self.run(state);
        Ok(Some(Record {
            cuts: nvmm.cuts,
            sites: nvmm.history.sites().clone(),
        }))
    }
}

fn report(clear_first: bool, recuts: u32, jobs: usize) -> Report {
    let account = |n: u8| {
        let mut bytes = [0; 64];
        bytes[0] = n;
        bytes
    };
    let start = BTreeMap::from([(FIRST, account(100)), (SECOND, account(100))]);
    let mut nvmm = Nvmm::new(start.clone());
    for _ in 0..3 {
        nvmm.move_one();
    }
    nvmm.cuts.push(nvmm.history.cut(PointKind::Other));
    let subject = Bank { start, clear_first };
    let sites: &Sites = nvmm.history.sites();
    let work = Work {
        cuts: &nvmm.cuts,
        references: &[],
        sites,
        resolve: &Unresolved,
        shard: None,
    };
    let budget = Budget {
        recuts,
        ..Budget::default()
    };
    explore(&work, &subject, &budget, jobs, &mut |_| true).unwrap()
}

#[test]
fn a_recovery_that_cannot_be_interrupted_is_found_by_second_cuts_only() {
    let once = report(true, 0, 1);
    assert_eq!(once.findings, []);
    assert_eq!(once.coverage.complete, once.coverage.cuts);
    assert_eq!(once.recuts, None);

    let twice = report(true, 100, 1);
    assert_eq!(twice, report(true, 100, 3), "threads matter");
    let recuts = twice.recuts.as_ref().expect("second cuts");
    assert!(
        recuts.storing > 0 && recuts.recorded == recuts.storing,
        "{recuts:?}"
    );
    assert!(recuts.recoveries > 0 && recuts.failures > 0, "{recuts:?}");
    assert!(!twice.findings.is_empty());
    for finding in &twice.findings {
        let first = finding.recut.as_ref().expect("a first cut");
        assert!(!first.content.is_empty());
        assert!(
            finding.message.contains("second cut"),
            "{}",
            finding.message
        );
        // What is lost, or there alone, are accounts that were being taken back.
        let pcs: Vec<u64> = finding.stores.iter().map(|s| s.site.pc).collect();
        assert!(pcs.iter().all(|pc| [20, 21, 22].contains(pc)), "{pcs:?}");
    }
}

#[test]
fn a_recovery_that_can_be_interrupted_has_no_finding() {
    let report = report(false, 100, 2);
    assert_eq!(report.findings, []);
    let recuts = report.recuts.expect("second cuts");
    assert!(
        recuts.recorded > 0 && recuts.cuts > recuts.recorded,
        "{recuts:?}"
    );
    assert_eq!(recuts.complete, recuts.cuts);
}

#[test]
fn second_cuts_have_a_limit() {
    let report = report(true, 1, 1);
    let recuts = report.recuts.expect("second cuts");
    assert_eq!(recuts.recorded, 1);
    assert!(recuts.storing > 1, "{recuts:?}");
}
