//! Regions with a memory of their own: any memory that `nagori mem` knows, and several at a time.

use crate::common::random::op;
use crate::common::*;
use nagori_config::{Library, Machine as Description};
use nagori_isa::Op;
use nagori_machine::{BusTransfer, BusWatch, Engine, Machine, Stop};
use nagori_memtime::Kind;
use nagori_platform::control::{Fixed, FIXED};
use std::sync::{Arc, Mutex};

/// Each hart walks through lines of its own, of DRAM (x10) and of NVMM (x11), and makes every
/// second one dirty: misses, write-backs, and harts that keep one another waiting.
fn program() -> Vec<u32> {
    let mut words = vec![
        op(Op::Csrrs, 6, 0, 0, 0xf14),
        op(Op::Slli, 6, 6, 0, 20),
        op(Op::Add, 10, 10, 6, 0),
        op(Op::Add, 11, 11, 6, 0),
    ];
    let start = words.len() as i32;
    for i in 0..8 {
        words.push(op(Op::Ld, 7, 11, 0, 64 * i));
        words.push(op(Op::Add, 5, 5, 7, 0));
        words.push(op(Op::Sd, 0, 10, 5, 128 * i));
        words.push(op(Op::Sd, 0, 11, 5, 128 * i + 8));
    }
    words.push(op(Op::Addi, 10, 10, 0, 1024));
    words.push(op(Op::Addi, 11, 11, 0, 1024));
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, 4 * (start - here)));
    words
}

const SMALL: [&str; 1] = ["harts=4"];

fn machine(settings: &[&str], engine: Engine) -> Machine {
    let mut m = build(&describe("small", settings), true);
    m.set_engine(engine).expect("an engine");
    load_words(&mut m, &program());
    let memory = m.config().memory.clone();
    for i in 0..m.config().harts as usize {
        let h = m.hart_mut(i).expect("a hart");
        h.set_reg(10, memory.base + (16 << 20));
        h.set_reg(11, memory.nvmm_base());
    }
    m
}

/// Runs for so many instructions, in slices of so many cycles.
fn outcome_of(m: &mut Machine, instructions: u64, slice: u64) -> Outcome {
    loop {
        match m.run(slice, Some(instructions)) {
            Stop::Instructions => return outcome(m, Stop::Instructions, Vec::new()),
            Stop::Slice => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_memory_can_be_behind_a_region() {
    let mut times = Vec::new();
    for (name, _) in nagori_memcfg::EMBEDDED {
        let model = format!("memory.regions.nvmm.model={name}");
        let mut settings = SMALL.to_vec();
        settings.push(&model);
        let first = {
            let mut m = machine(&settings, Engine::Interpreter);
            outcome_of(&mut m, 20_000, u64::MAX)
        };
        let r = &first.report;
        assert_eq!(r.memories.len(), 1, "{name}");
        let region = &r.memories[0];
        assert_eq!((region.name.as_str(), region.base), ("nvmm", 128 << 20));
        let moved = region.stats.total();
        assert!(
            moved.reads > 1000 && moved.writes > 500,
            "{name}: {moved:?}"
        );
        // The board's controller has the rest, and nothing of this.
        assert_eq!(r.memory.regions[1].counters.requests(), 0, "{name}");
        assert!(r.memory.regions[0].counters.requests() > 1000, "{name}");
        for (engine, slice, ahead) in [
            (
                Engine::Translator(Default::default()),
                333,
                "run_ahead_cycles=7",
            ),
            (Engine::Interpreter, 100_000, "quantum_cycles=1"),
        ] {
            let mut settings = settings.clone();
            settings.push(ahead);
            let mut m = machine(&settings, engine);
            // The end of a run by instructions is that of a block; slices do not move it.
            let again = outcome_of(&mut m, 20_000, slice);
            assert_eq!(first.cycles.len(), again.cycles.len());
            assert_eq!(
                first.report.memories, again.report.memories,
                "{name}, {ahead}"
            );
            assert_eq!(first, again, "{name}, {ahead}");
        }
        times.push((*name, first.cycles.iter().max().copied()));
    }
    let time = |n: &str| times.iter().find(|t| t.0 == n).expect(n).1;
    assert!(time("pcm") > time("ddr4"), "{times:?}");
    assert!(time("xpoint") > time("ddr4"), "{times:?}");
}

#[test]
fn a_snapshot_holds_every_model() {
    for name in ["ddr4", "pcm", "xpoint", "cxl", "dram-cache", "hybrid"] {
        let nvmm = format!("memory.regions.nvmm.model={name}");
        let mut settings = SMALL.to_vec();
        settings.extend([&nvmm[..], "memory.regions.dram.model=lpddr4"]);
        let whole = outcome_of(&mut machine(&settings, Engine::Interpreter), 12_000, 5000);
        let mut m = machine(&settings, Engine::best());
        for at in [1000u64, 3001, 7777] {
            // In the middle of turns and misses.
            while m.steps() < at {
                let _ = m.run(17, Some(at));
            }
            let state = m.save_state();
            let plain = nagori_snapshot::encode(&state).expect("a state");
            let state = nagori_snapshot::decode(&plain).expect("the same state");
            let mut copy = machine(&settings, Engine::best());
            copy_memory(&m, &copy);
            copy.load_state(state).expect("a state");
            m = copy;
        }
        assert_eq!(whole, outcome_of(&mut m, 12_000, 999), "{name}");
    }
}

/// What a program has stored of the first lines that it touches.
fn copy_memory(from: &Machine, to: &Machine) {
    let mut page = vec![0; 1 << 16];
    for start in [0u64, 16 << 20, 128 << 20] {
        for at in (start..start + (8 << 20)).step_by(page.len()) {
            from.ram().read_bytes(at, &mut page).expect("in memory");
            to.ram().write_bytes(at, &page).expect("in memory");
        }
    }
}

#[test]
fn settings_are_those_of_the_memory() {
    let time = |settings: &[&str]| {
        let mut all = SMALL.to_vec();
        all.push("memory.regions.nvmm.model=pcm");
        all.extend(settings);
        let mut m = machine(&all, Engine::best());
        let o = outcome_of(&mut m, 20_000, u64::MAX);
        o.cycles.iter().max().copied()
    };
    let base = time(&[]);
    let slow = time(&["memory.regions.nvmm.timings.tRCD=\"900 ns\""]);
    assert!(slow > base, "{slow:?} {base:?}");
    let two = time(&["memory.regions.nvmm.controllers=2"]);
    assert!(two <= base, "{two:?} {base:?}");
}

#[test]
fn values_change_while_it_runs() {
    let mut settings = SMALL.to_vec();
    settings.push("memory.regions.nvmm.model=ddr3");
    let mut m = machine(&settings, Engine::best());
    let all = m.region_parameters();
    assert!(all.len() > 3 && all.iter().all(|(r, ..)| r == "nvmm"));
    for (region, key, value) in &all {
        m.set_region_parameter(region, key, value)
            .unwrap_or_else(|e| panic!("{key}={value}: {e}"));
    }
    assert!(m.set_region_parameter("nvmm", "nothing", "1").is_err());
    let e = m.set_region_parameter("dram", "x", "1").unwrap_err();
    assert!(e.to_string().contains("there is nvmm"), "{e}");
}

/// Stores of a text to the control block, 8 bytes at a time, and what sets it.
fn sets(text: &str) -> Vec<u32> {
    let at = |reg: Fixed| {
        let row = FIXED.iter().find(|r| r.reg == reg).expect("a register");
        row.offset as i32
    };
    // x12 has the block's address; x13 a text of 64 bytes.
    let mut words = vec![op(Op::Sd, 0, 12, 0, at(Fixed::Label))];
    for i in 0..text.len().div_ceil(8) as i32 {
        words.push(op(Op::Ld, 7, 13, 0, 8 * i));
        words.push(op(Op::Sd, 0, 12, 7, at(Fixed::LabelText)));
    }
    words.push(op(Op::Addi, 7, 0, 0, 1));
    words.push(op(Op::Sd, 0, 12, 7, at(Fixed::MemorySet)));
    words.push(op(Op::Jal, 0, 0, 0, 0));
    words
}

#[test]
fn a_guest_changes_values_of_memories() {
    for (text, done) in [
        ("nvmm.timings.tRCD=15 ns", true),
        ("nvmm.timings.tRCD=x", false),
    ] {
        let d = describe("small", &["memory.regions.nvmm.model=ddr3"]);
        let mut m = build(&d, false);
        load_words(&mut m, &sets(text));
        let base = m.config().memory.base;
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(64, 0);
        m.ram().write_bytes(1 << 20, &bytes).expect("in memory");
        let h = m.hart_mut(0).expect("a hart");
        h.set_reg(12, nagori_config::map::CONTROL);
        h.set_reg(13, base + (1 << 20));
        m.run(10_000, Some(100));
        let changed = m.region_parameters();
        let changed = changed
            .iter()
            .any(|(_, k, v)| k == "timings.tRCD" && v == "15 ns");
        assert_eq!(changed, done, "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    for (settings, what) in [
        (
            &["memory.regions.nvmm.model=none"][..],
            "memory.regions.nvmm.model",
        ),
        (
            &[
                "memory.regions.nvmm.model=ddr4",
                "memory.regions.nvmm.timings.tRCD=1",
            ],
            "tRCD",
        ),
        (
            &[
                "memory.regions.nvmm.model=ddr4",
                "memory.regions.nvmm.colour=1",
            ],
            "colour",
        ),
        (
            &["memory.regions.far.model=ddr4"],
            "memory.regions.far.size",
        ),
        (
            &[
                "memory.regions.far.model=ddr4",
                "memory.regions.far.base=\"600 MiB\"",
                "memory.regions.far.size=4096",
            ],
            "beyond",
        ),
        (
            &[
                "memory.regions.far.model=ddr4",
                "memory.regions.far.size=8192",
                "memory.regions.dram.model=ddr4",
            ],
            "overlaps",
        ),
        (
            &[
                "memory.regions.nvmm.model=ddr4",
                "memory.regions.nvmm.controllers=17",
            ],
            "1 to 16",
        ),
        (
            &[
                "memory.regions.nvmm.model=ddr4",
                "memory.regions.nvmm.interleave=96",
            ],
            "power of two",
        ),
    ] {
        let all = SMALL.iter().chain(settings).map(|s| s.to_string());
        let all: Vec<String> = all.collect();
        let e = Description::load(&Library::default(), "small", &all).unwrap_err();
        assert!(e.to_string().contains(what), "{settings:?}: {e}");
    }
}

/// Time, offset, direction, region and end of a transfer.
type Moved = (u64, u64, Kind, Option<String>, Option<u64>);

/// Keeps what it is told.
struct Keep(Arc<Mutex<Vec<Moved>>>);

impl BusWatch for Keep {
    fn moved(&mut self, t: &BusTransfer<'_>) {
        let region = t.region.map(str::to_owned);
        let done = t.done.map(|d| d.0);
        let mut all = self.0.lock().expect("one at a time");
        all.push((t.at.0, t.offset, t.kind, region, done));
    }
}

#[test]
fn the_bus_is_seen_as_it_is() {
    for harts in ["harts=1", "harts=4"] {
        let mut settings = SMALL.to_vec();
        settings.extend([harts, "memory.regions.nvmm.model=ddr4"]);
        let mut plain = machine(&settings, Engine::best());
        let plain = outcome_of(&mut plain, 20_000, u64::MAX);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut m = machine(&settings, Engine::best());
        m.watch_bus(Some(Box::new(Keep(seen.clone()))))
            .expect("new");
        let watched = outcome_of(&mut m, 20_000, u64::MAX);
        m.watch_bus(None).expect("kept");
        assert_eq!(plain, watched, "{harts}: watching costs nothing");
        let seen = seen.lock().expect("one at a time");
        assert!(seen.windows(2).all(|w| w[0].0 <= w[1].0), "in order");
        let of = |region: Option<&str>, kind: Kind| {
            let matching = seen
                .iter()
                .filter(|t| t.3.as_deref() == region && t.2 == kind);
            matching.count() as u64
        };
        let nvmm = plain.report.memories[0].stats.total();
        let close = |a: u64, b: u64| a.abs_diff(b) <= 8;
        assert!(close(of(Some("nvmm"), Kind::Read), nvmm.reads), "{harts}");
        assert!(close(of(Some("nvmm"), Kind::Write), nvmm.writes), "{harts}");
        let board = plain.report.memory.total();
        assert!(close(of(None, Kind::Read), board.reads), "{harts}");
        assert!(close(of(None, Kind::Write), board.writes), "{harts}");
    }
}
