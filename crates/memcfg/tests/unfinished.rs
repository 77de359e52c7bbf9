//! Writes that a memory has accepted and that have not reached its medium.

use nagori_memcfg::{Memory, Source};
use nagori_memtime::dram::Command;
use nagori_memtime::{Kind, MemoryModel, Ps, Request, Submit};
use proptest::prelude::*;

type Model = Box<dyn MemoryModel + Send>;

fn build(name: &str) -> Model {
    Memory::load(name, &[]).unwrap().build().unwrap()
}

fn described(text: &str) -> Model {
    let source = Source {
        name: "d.toml".to_owned(),
        dir: None,
        text: text.to_owned(),
        variant: None,
    };
    let memory = Memory::from_source(&source, &[]).unwrap();
    memory.build().unwrap()
}

const CACHED: &str = "kind = \"cache\"\ndescription = \"d\"\n\
    front = { name = \"ddr3-1600k\", set = [\"organisation.rows=64\"] }\n\
    back = \"ddr3-1600k\"\n[cache]\nblock_bytes = 64\nways = 1\n\
    tags = { sram = { latency = \"4 ns\" } }\ntransactions = 8\n";

const THREE: &str = "kind = \"interleaved\"\ndescription = \"d\"\nmemory = \"ddr3-1600k\"\n\
    [interleave]\nways = 3\ngranularity = \"256 B\"\n";

/// Few credits, so that their numbers are reused while the memory still holds writes.
const LINK: &str = "preset = \"cxl\"\n[link]\ncredits = 4\n";

fn request(id: u64, line: u64, kind: Kind) -> Request {
    Request {
        id,
        addr: line * 64,
        kind,
        bytes: 64,
    }
}

/// Submits, waiting while the memory is busy; returns the time.
fn submit(m: &mut Model, mut at: Ps, r: Request) -> Ps {
    while let Submit::Busy(t) = m.submit(at, r).unwrap() {
        at = t;
    }
    at
}

#[test]
fn a_write_is_unfinished_until_its_column_command() {
    for name in ["ddr3", "ddr4", "pcm", "stt-mram", "board"] {
        let mut m = build(name);
        m.set_command_log(true).unwrap();
        let at = submit(&mut m, Ps::ZERO, request(7, 3, Kind::Write));
        assert_eq!(m.unfinished_writes(at).unwrap(), [7], "{name}");
        // Asking does not advance.
        assert_eq!(
            m.unfinished_writes(Ps::from_ns(5000)).unwrap(),
            [0u64; 0],
            "{name}"
        );
        assert_eq!(m.unfinished_writes(at).unwrap(), [7], "{name}");
        m.advance_to(Ps::from_ns(5000)).unwrap();
        let mut log = Vec::new();
        m.take_commands(&mut log);
        let last = log
            .iter()
            .rfind(|c| matches!(c.op, Command::Wr | Command::WrA));
        let column = m.clock().edge(last.unwrap().clock);
        let mut m = build(name);
        submit(&mut m, Ps::ZERO, request(7, 3, Kind::Write));
        assert_eq!(m.unfinished_writes(column).unwrap(), [7], "{name}");
        let behind = column + Ps(1);
        assert_eq!(m.unfinished_writes(behind).unwrap(), [0u64; 0], "{name}");
    }
}

#[test]
fn a_dimm_with_adr_has_what_has_reached_it() {
    let mut m = build("xpoint");
    for (id, line) in [(1, 10), (2, 20)] {
        assert_eq!(
            submit(&mut m, Ps::ZERO, request(id, line, Kind::Write)),
            Ps::ZERO
        );
    }
    // 3 ns of the channel each.
    let of = |ns| m.unfinished_writes(Ps::from_ns(ns)).unwrap();
    assert_eq!(of(0), [1, 2]);
    assert_eq!(of(3), [2]);
    assert_eq!(of(6), [0u64; 0]);
}

#[test]
fn a_link_adds_its_way_down() {
    let mut m = build("cxl");
    submit(&mut m, Ps::ZERO, request(5, 3, Kind::Write));
    submit(&mut m, Ps::ZERO, request(6, 4, Kind::Read));
    assert_eq!(m.unfinished_writes(Ps::from_ns(30)).unwrap(), [5]);
    // 35 ns and 80 bytes on the link, then the activation.
    assert_eq!(m.unfinished_writes(Ps::from_ns(45)).unwrap(), [5]);
    assert_eq!(m.unfinished_writes(Ps::from_ns(500)).unwrap(), [0u64; 0]);
}

#[test]
fn what_stands_in_a_cache_is_not_in_the_memory_behind_it() {
    let mut m = described(CACHED);
    let sets = 64 * 8 * 128;
    for (id, line) in [(1, 3), (2, 3), (3, 3), (4, 5)] {
        submit(&mut m, Ps::ZERO, request(id, line, Kind::Write));
    }
    let end = m.flush(Ps::from_ns(10_000)).unwrap();
    // The first and the last write to a line that is not written back.
    assert_eq!(m.unfinished_writes(end).unwrap(), [1, 3, 4]);
    // Another block replaces line 3.
    let s = m.report(end);
    assert_eq!(s.counters["dirty_bytes"], 128.0);
    let at = submit(
        &mut m,
        Ps::from_ns(20_000),
        request(9, 3 + sets, Kind::Read),
    );
    assert_eq!(
        m.unfinished_writes(at).unwrap(),
        [1, 3, 4],
        "it is on its way"
    );
    let later = Ps::from_ns(30_000);
    assert_eq!(
        m.report(later).counters["dirty_bytes"],
        64.0,
        "it was the same set"
    );
    assert_eq!(m.unfinished_writes(later).unwrap(), [4]);
    m.advance_to(later).unwrap();
    assert_eq!(m.unfinished_writes(later).unwrap(), [4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// At any time as many writes are unfinished as were accepted and have no command; asking for a
    /// future time gives the same answer as asking at that time; at the end there are none.
    #[test]
    fn taken_less_written(
        steps in prop::collection::vec((0u64..300, any::<bool>(), 0u64..40_000), 1..300),
        ahead in 0u64..200_000,
    ) {
        let models = [
            ("ddr3", build("ddr3")),
            ("ddr4", build("ddr4")),
            ("board", build("board")),
            ("hybrid", build("hybrid")),
            ("three", described(THREE)),
            ("link", described(LINK)),
        ];
        for (name, mut m) in models {
            m.set_command_log(true).unwrap();
            let (mut at, mut taken) = (Ps::ZERO, Vec::new());
            for (id, &(line, write, gap)) in (0..).zip(&steps) {
                at += Ps(gap);
                // No two writes to one line: none is merged.
                let line = line * 1000 + id;
                let kind = if write { Kind::Write } else { Kind::Read };
                at = submit(&mut m, at, request(id, line, kind));
                if write {
                    taken.push(id);
                }
            }
            let to_come = m.unfinished_writes(at + Ps(ahead)).unwrap();
            m.advance_to(at + Ps(ahead)).unwrap();
            let now = m.unfinished_writes(Ps::ZERO).unwrap();
            prop_assert_eq!(&to_come, &now, "{}", name);
            let mut log = Vec::new();
            m.take_commands(&mut log);
            let written = log.iter().filter(|c| matches!(c.op, Command::Wr | Command::WrA));
            let written = written.count();
            // PCM needs several bursts for a line.
            if name != "hybrid" {
                prop_assert_eq!(now.len(), taken.len() - written, "{}", name);
            }
            prop_assert!(now.iter().all(|id| taken.contains(id)), "{}", name);
            let end = m.flush(Ps::ZERO).unwrap();
            prop_assert_eq!(m.unfinished_writes(end).unwrap(), Vec::<u64>::new(), "{}", name);
        }
    }
}
