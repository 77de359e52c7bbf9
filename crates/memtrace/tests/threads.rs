//! Channels in several threads: everything that is reported is as with one.

use nagori_memcfg::Memory;
use nagori_memtime::dram::Issued;
use nagori_memtime::{Kind, ModelStats, Ps};
use nagori_memtrace::drive::{run, Mode, Options, Outcome};
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use nagori_memtrace::record::Slice;
use nagori_memtrace::{Error, Record, Source, Times};
use proptest::prelude::*;

const THREADS: [u32; 3] = [2, 3, 8];

fn memory(name: &str, settings: &[&str]) -> Memory {
    let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
    Memory::load(name, &settings).unwrap()
}

/// All that a run gives.
fn play(m: &Memory, source: &mut dyn Source, o: Options) -> (Outcome, ModelStats, Vec<Issued>) {
    let mut model = m.build().unwrap();
    model.set_command_log(true).unwrap();
    let mut log = Vec::new();
    let watch = &mut |m: &mut dyn nagori_memtime::MemoryModel, _| {
        m.take_commands(&mut log);
        Ok(true)
    };
    let outcome = run(model.as_mut(), source, o, watch).unwrap();
    let stats = model.report(outcome.to);
    (outcome, stats, log)
}

fn spec(pattern: Pattern, count: u64, span: u64) -> Spec {
    Spec {
        pattern,
        count,
        base: 0,
        span,
        bytes: 64,
        writes: 0.3,
        gap: 0,
        seed: 7,
    }
}

fn same(
    m: &Memory,
    what: &str,
    mut source: impl FnMut() -> Box<dyn Source>,
    o: Options,
) -> Outcome {
    let one = play(m, source().as_mut(), o);
    for threads in THREADS {
        let several = play(m, source().as_mut(), Options { threads, ..o });
        let what = format!("{}, {what}, {threads} threads", m.name);
        assert_eq!(several.0, one.0, "{what}");
        assert_eq!(several.1, one.1, "{what}");
        assert!(several.2 == one.2, "{what}: other commands");
    }
    one.0
}

const MODES: [(&str, Mode); 5] = [
    ("saturated", Mode::Saturated { per_clock: 1 }),
    ("four a clock", Mode::Saturated { per_clock: 4 }),
    ("fast", Mode::Paced { interval: Ps(700) }),
    (
        "slow",
        Mode::Paced {
            interval: Ps(9_999),
        },
    ),
    (
        "timestamped",
        Mode::Timestamped {
            cycle: Some(Ps(1_111)),
        },
    ),
];

/// Accesses of a pattern with uneven times.
fn timed(s: Spec) -> Vec<Record> {
    let mut g = Generator::new(s).unwrap();
    let mut time = 0;
    let mut all = Vec::new();
    while let Some(r) = g.next().unwrap() {
        time += r.addr / 64 % 7 * (r.addr / 4096 % 5);
        all.push(Record { time, ..r });
    }
    all
}

fn all_modes(m: &Memory, count: u64) {
    let span = m.build().unwrap().capacity().min(1 << 30);
    for (pattern, p) in [
        ("random", Pattern::Random),
        ("sequential", Pattern::Sequential),
        ("zipf", Pattern::Zipf(0.99)),
    ] {
        let records = timed(spec(p, count, span));
        for (name, mode) in MODES {
            let source = || -> Box<dyn Source> {
                // The records outlive the run, not the closure.
                Box::new(Owned(records.clone(), 0))
            };
            same(m, &format!("{pattern}, {name}"), source, Options::new(mode));
        }
    }
}

/// A source that owns its accesses.
struct Owned(Vec<Record>, usize);

impl Source for Owned {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let r = self.0.get(self.1).copied();
        self.1 += usize::from(r.is_some());
        Ok(r)
    }
    fn times(&self) -> Times {
        Times::Cycles
    }
    fn name(&self) -> &str {
        "owned"
    }
    fn place(&self) -> nagori_memtrace::error::Place {
        nagori_memtrace::error::Place::Record(self.1 as u64)
    }
}

#[test]
fn ddr4_with_four_channels() {
    all_modes(&memory("ddr4", &["controller.channels=4"]), 40_000);
}

#[test]
fn every_policy_with_two_channels() {
    for policy in [
        "policy=ramulator2",
        "policy=dramsim3",
        "page=closed",
        "order=age_first",
        "starvation=300",
        "refresh=off",
    ] {
        let policy = format!("controller.{policy}");
        all_modes(&memory("ddr3", &["controller.channels=2", &policy]), 6_000);
    }
}

#[test]
fn other_devices_and_small_queues() {
    for (name, settings) in [
        ("ddr3", &["controller.channels=1"][..]),
        (
            "ddr3",
            &[
                "controller.channels=8",
                "controller.read_queue=4",
                "controller.back_delay=3",
            ],
        ),
        ("lpddr4", &["controller.channels=4"]),
    ] {
        all_modes(&memory(name, settings), 6_000);
    }
}

#[test]
fn requests_wait_and_windows_follow_one_another() {
    let m = memory("ddr4", &["controller.channels=4"]);
    let source = || -> Box<dyn Source> {
        Box::new(Generator::new(spec(Pattern::Random, 100_000, 1 << 30)).unwrap())
    };
    let fast = Options::new(Mode::Paced { interval: Ps(500) });
    let outcome = same(&m, "fast", source, fast);
    // Otherwise nothing would hold up other channels.
    assert!(outcome.delayed > 50_000, "{}", outcome.delayed);
    assert_eq!(outcome.requests, 100_000);
}

#[test]
fn what_takes_one_thread_says_so() {
    let records = [Record {
        addr: 0,
        kind: Kind::Read,
        bytes: 64,
        time: 0,
    }];
    let error = |name: &str, settings: &[&str], o: Options| {
        let mut model = memory(name, settings).build().unwrap();
        let mut source = Slice::new(&records, Times::None);
        let e = run(model.as_mut(), &mut source, o, &mut |_, _| Ok(true));
        e.unwrap_err().to_string()
    };
    let saturated = Options {
        threads: 2,
        ..Options::new(Mode::Saturated { per_clock: 1 })
    };
    let two = ["controller.channels=2"];
    let dependent = Options {
        mode: Mode::Dependent { think: Ps::ZERO },
        ..saturated
    };
    assert!(error("ddr3", &two, dependent).contains("dependent mode takes one"));
    let limited = Options {
        outstanding: Some(4),
        ..saturated
    };
    assert!(error("ddr3", &two, limited).contains("limit of the requests under way"));
    assert!(error("xpoint", &[], saturated).contains("this memory takes one"));
    assert!(error("board", &[], saturated).contains("this memory takes one"));
    let none = Options {
        threads: 0,
        ..saturated
    };
    assert!(error("ddr3", &two, none).contains("0 threads"));
}

#[test]
fn errors_are_those_of_one_thread() {
    let m = memory("ddr3", &["controller.channels=2"]);
    let capacity = m.build().unwrap().capacity();
    let error = |threads, time, addr| {
        let mut records: Vec<Record> = (0..50)
            .map(|i| Record {
                addr: i * 64,
                kind: Kind::Read,
                bytes: 64,
                time: i,
            })
            .collect();
        records[40].time = time;
        records[40].addr = addr;
        let o = Options {
            threads,
            ..Options::new(Mode::Timestamped { cycle: None })
        };
        let mut source = Slice::new(&records, Times::Cycles);
        let mut model = m.build().unwrap();
        let e = run(model.as_mut(), &mut source, o, &mut |_, _| Ok(true));
        e.unwrap_err().to_string()
    };
    for (time, addr) in [(40, capacity), (3, 0), (u64::MAX, 0)] {
        assert_eq!(error(2, time, addr), error(1, time, addr));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_accesses(
        all in proptest::collection::vec((0..1u64 << 14, any::<bool>(), 1..200u32, 0..40u64), 1..400),
        policy in prop::sample::select(vec!["frfcfs", "ramulator2", "dramsim3"]),
        queue in 4..12u32,
        mode in 0..MODES.len(),
    ) {
        let settings = [
            "controller.channels=4".to_owned(),
            format!("controller.policy={policy}"),
            format!("controller.read_queue={queue}"),
        ];
        let settings: Vec<&str> = settings.iter().map(|s| &**s).collect();
        let m = memory("ddr3", &settings);
        let mut time = 0;
        let records: Vec<Record> = all
            .iter()
            .map(|&(line, write, bytes, gap)| {
                time += gap;
                let kind = if write { Kind::Write } else { Kind::Read };
                Record { addr: line * 40, kind, bytes, time }
            })
            .collect();
        let source = || -> Box<dyn Source> { Box::new(Owned(records.clone(), 0)) };
        same(&m, MODES[mode].0, source, Options::new(MODES[mode].1));
    }
}
