//! Power cuts: of NVMM, what reached the memory controller is kept, what was in a cache is lost.

use crate::common::random::op;
use crate::common::*;
use nagori_config::map;
use nagori_isa::Op;
use nagori_machine::{Dram, Engine, Machine, MachineError, PowerCut, Stop};
use nagori_platform::control::StatsAction;
use nagori_snapshot::{Bytes, Meta, Snapshot};

/// Offset of NVMM in the memory of the machine `small`.
pub(crate) const NVMM: u64 = 128 << 20;
/// Lines that programs use, each in a set of its own, so that none is replaced.
const LINES: usize = 24;
/// Offset of the register HOST_REQUEST.
const HOST_REQUEST: i32 = 0x240;

type Line = [u64; 8];

/// What NVMM and the cache hold, by the rules.
#[derive(Clone)]
pub(crate) struct Model {
    now: [Line; LINES],
    kept: [Line; LINES],
    dirty: [bool; LINES],
    /// Its last write-back went from the first-level cache to the level only.
    softly: [bool; LINES],
}

impl Model {
    fn store(&mut self, line: usize, f: impl FnOnce(&mut Line)) {
        self.dirty[line] = true;
        f(&mut self.now[line]);
    }

    fn write_back(&mut self, line: usize) {
        if std::mem::take(&mut self.dirty[line]) {
            self.kept[line] = self.now[line];
        }
    }
}

/// A straight program of stores and cache operations that ends by asking for a snapshot,
/// and what it leaves.
pub(crate) fn program(rng: &mut Rng, length: u64) -> (Vec<u32>, Model) {
    let mut words = Vec::new();
    let mut model = Model {
        now: [[0; 8]; LINES],
        kept: [[0; 8]; LINES],
        dirty: [false; LINES],
        softly: [false; LINES],
    };
    for _ in 0..length {
        let line = rng.below(LINES as u64) as usize;
        let value = 1 + rng.below(2000);
        words.push(op(Op::Addi, 11, 10, 0, line as i32 * 64));
        words.push(op(Op::Addi, 12, 0, 0, value as i32));
        match rng.below(12) {
            0..=3 => {
                let word = rng.below(8) as usize;
                words.push(op(Op::Sd, 0, 11, 12, 8 * word as i32));
                model.store(line, |l| l[word] = value);
            }
            4 => {
                words.push(op(Op::AmoaddD, 13, 11, 12, 0));
                model.store(line, |l| l[0] += value);
            }
            5 => {
                words.push(op(Op::LrD, 13, 11, 0, 0));
                words.push(op(Op::ScD, 14, 11, 12, 0));
                model.store(line, |l| l[0] = value);
            }
            6 => {
                words.push(op(Op::CboZero, 0, 11, 0, 0));
                model.store(line, |l| *l = [0; 8]);
            }
            7 => words.push(op(Op::Ld, 13, 11, 0, 8)),
            n => {
                let ops = [Op::CboClean, Op::CboFlush, Op::CboInval, Op::CflushDL1];
                words.push(op(ops[n as usize - 8], 0, 11, 0, 0));
                model.softly[line] = n == 11 && (model.dirty[line] || model.softly[line]);
                model.write_back(line);
            }
        }
    }
    words.push(op(Op::Addi, 12, 0, 0, StatsAction::SNAPSHOT as i32));
    words.push(op(Op::Sd, 0, 20, 12, HOST_REQUEST));
    words.push(op(Op::Jal, 0, 0, 0, 0));
    (words, model)
}

pub(crate) fn start(words: &[u32], settings: &[&str], timed: bool, engine: Engine) -> Machine {
    let mut m = build(&describe("small", settings), timed);
    m.set_engine(engine).expect("an engine of this host");
    load_words(&mut m, words);
    let base = m.config().memory.base;
    for i in 0..m.config().harts as usize {
        let h = m.hart_mut(i).expect("a hart");
        h.set_reg(10, base + NVMM);
        h.set_reg(20, map::CONTROL);
        h.set_reg(21, base + 0x10_0000);
    }
    m
}

const TRACKED: &[&str] = &["memory.track_persistence=true"];

/// Runs until the guest asks for a snapshot.
fn run_to_request(m: &mut Machine) {
    for _ in 0..100_000 {
        match m.run(1000, None) {
            Stop::Snapshot(_) => return,
            Stop::Slice => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("the guest does not ask");
}

fn line(m: &Machine, i: usize) -> Line {
    let at = NVMM + 64 * i as u64;
    std::array::from_fn(|k| m.ram().read_u64(at + 8 * k as u64).expect("in memory"))
}

#[test]
fn what_was_cleaned_survives_and_the_rest_does_not() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (words, model) = program(&mut rng, 20 + seed * 10);
        for timed in [true, false] {
            for engine in [Engine::Interpreter, Engine::best()] {
                let mut m = start(&words, TRACKED, timed, engine);
                run_to_request(&mut m);
                let mut file = Vec::new();
                nagori_snapshot::save(&m, &mut file, &Meta::new()).expect("a snapshot");
                let copy = Snapshot::new(Bytes(file)).expect("a snapshot");
                let copy = copy.machine().expect("a machine");
                for mut m in [m, copy] {
                    for i in 0..LINES {
                        assert_eq!(line(&m, i), model.now[i], "before the cut");
                    }
                    let before = m.now();
                    let cut = m.power_cut(Dram::Zero).expect("a cut");
                    assert!(m.now() >= before);
                    let mut dirty = 0;
                    for i in 0..LINES {
                        let kept = if timed && model.dirty[i] {
                            dirty += 1;
                            model.kept[i]
                        } else {
                            model.now[i]
                        };
                        assert_eq!(line(&m, i), kept, "seed {seed}, line {i}, timed {timed}");
                    }
                    assert_eq!(cut.lost_lines, dirty);
                    assert_eq!(cut.dram_bytes, NVMM);
                    assert!(m.ram().is_zero(0, NVMM).expect("in memory"));
                    assert_eq!(m.hart(0).expect("a hart").reg(10), 0);
                    lost += dirty;
                }
            }
        }
    }
    assert!(lost > 100, "{lost}");
}

/// Levels that do not see every store.
pub(crate) const UNTOLD: [&str; 3] = [
    "cache.l2={ level = 2, shared_by = 1, size = \"4 KiB\", ways = 4, latency = 9, inclusion = \"non-inclusive\" }",
    "cache.l2={ level = 2, shared_by = 1, size = \"4 KiB\", ways = 4, latency = 9, inclusion = \"non-inclusive\", \
     prefetcher = \"next-line\", mshrs = 2 }",
    "cache.l2={ level = 2, shared_by = \"all\", size = \"4 KiB\", ways = 4, latency = 9, inclusion = \"exclusive\" }",
];

#[test]
fn a_level_sends_memory_what_it_has() {
    // The value 1 is written to the level, 2 stays in the first-level cache, and then the level
    // evicts its state: by accesses to lines in its set, and in other sets of the first level.
    let mut words = vec![
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::CflushDL1, 0, 10, 0, 0),
        op(Op::Addi, 12, 0, 0, 2),
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::Addi, 13, 0, 0, 1024),
    ];
    for k in 1..12 {
        words.push(op(Op::Add, 11, if k == 1 { 10 } else { 11 }, 13, 0));
        if k % 4 != 0 {
            words.push(op(Op::Ld, 6, 11, 0, 0));
        }
    }
    words.push(op(Op::Addi, 12, 0, 0, StatsAction::SNAPSHOT as i32));
    words.push(op(Op::Sd, 0, 20, 12, HOST_REQUEST));
    words.push(op(Op::Jal, 0, 0, 0, 0));
    for (levels, kept) in UNTOLD.into_iter().zip([1, 1, 0]) {
        for engine in [Engine::Interpreter, Engine::best()] {
            let mut m = start(&words, &[TRACKED[0], levels], true, engine);
            run_to_request(&mut m);
            let mut file = Vec::new();
            nagori_snapshot::save(&m, &mut file, &Meta::new()).expect("a snapshot");
            let copy = Snapshot::new(Bytes(file)).expect("a snapshot");
            let copy = copy.machine().expect("a machine");
            for mut m in [m, copy] {
                assert_eq!(line(&m, 0)[0], 2);
                let writes = m.report().memory.total().writes;
                assert_eq!(writes, kept, "{levels}");
                let cut = m.power_cut(Dram::Zero).expect("a cut");
                assert_eq!((line(&m, 0)[0], cut.lost_lines), (kept, 1), "{levels}");
            }
        }
    }
}

#[test]
fn what_was_flushed_survives_behind_any_levels() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed ^ 0x1e4e1);
        let (words, model) = program(&mut rng, 200);
        // Prefetched lines replace modified ones in the first-level cache.
        let first = [
            "l1d.prefetcher=next-line",
            "l1d.degree=3",
            "l1d.size=\"1 KiB\"",
        ];
        let levels = UNTOLD
            .iter()
            .flat_map(|l| [vec![*l], [&[*l], &first[..]].concat()]);
        for levels in levels.chain([first.to_vec()]) {
            let settings = [&TRACKED[..1], &levels].concat();
            let mut m = start(&words, &settings, true, Engine::best());
            run_to_request(&mut m);
            m.power_cut(Dram::Zero).expect("a cut");
            // `cflush.d.l1` writes to the level only, so the model expects less than what memory
            // has.
            for i in (0..LINES).filter(|i| !model.dirty[*i]) {
                let flushed = line(&m, i) == model.now[i] || model.softly[i];
                assert!(flushed, "seed {seed}, line {i}, {levels:?}");
            }
        }
    }
}

#[test]
fn dram_may_come_back_with_anything() {
    let run = |seed| {
        let mut m = start(&[0x6f], TRACKED, true, Engine::Interpreter);
        m.power_cut(Dram::Random(seed)).expect("a cut");
        let word = |at| m.ram().read_u64(at).expect("in memory");
        (word(0), word(NVMM - 8), word(NVMM))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert_ne!(run(1).1, 0);
    assert_eq!(run(1).2, 0, "NVMM");
}

#[test]
fn another_hart_that_looks_makes_a_line_persistent() {
    // Hart 0 stores to two lines of NVMM, then sets a word of DRAM; hart 1 waits for that,
    // loads from the first line, and asks.
    let words = [
        op(Op::Csrrs, 5, 0, 0, 0xf14),
        op(Op::Bne, 0, 5, 0, 28),
        op(Op::Addi, 12, 0, 0, 7),
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::Sd, 0, 10, 12, 64),
        op(Op::Fence, 0, 0, 0, 0xff),
        op(Op::Sd, 0, 21, 12, 0),
        op(Op::Jal, 0, 0, 0, 0),
        op(Op::Ld, 6, 21, 0, 0),
        op(Op::Beq, 0, 6, 0, -4),
        op(Op::Ld, 6, 10, 0, 0),
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 20, 12, HOST_REQUEST),
        op(Op::Jal, 0, 0, 0, 0),
    ];
    for engine in [Engine::Interpreter, Engine::best()] {
        let settings = ["harts=2", TRACKED[0]];
        let mut m = start(&words, &settings, true, engine);
        run_to_request(&mut m);
        assert_eq!((line(&m, 0)[0], line(&m, 1)[0]), (7, 7));
        m.power_cut(Dram::Zero).expect("a cut");
        assert_eq!((line(&m, 0)[0], line(&m, 1)[0]), (7, 0));
    }
}

#[test]
fn what_the_host_or_a_device_writes_is_kept() {
    let words = [
        op(Op::Addi, 12, 0, 0, 7),
        op(Op::Sd, 0, 10, 12, 0),
        op(Op::Addi, 12, 0, 0, 1),
        op(Op::Sd, 0, 20, 12, HOST_REQUEST),
        op(Op::Sd, 0, 10, 12, 16),
        op(Op::Sd, 0, 20, 12, HOST_REQUEST),
        op(Op::Jal, 0, 0, 0, 0),
    ];
    let mut m = start(&words, TRACKED, true, Engine::Interpreter);
    run_to_request(&mut m);
    let base = m.config().memory.base;
    m.ram().write_u64(NVMM + 8, 9).expect("in memory");
    m.memory_written(base + NVMM + 8, 8);
    run_to_request(&mut m);
    m.power_cut(Dram::Zero).expect("a cut");
    // The transfer collects the dirty line; what is stored behind it is lost.
    assert_eq!(line(&m, 0)[..3], [7, 9, 0]);
}

#[test]
fn a_reset_keeps_everything_and_ends_what_was_begun() {
    let mut rng = Rng::new(5);
    let (words, model) = program(&mut rng, 200);
    let mut m = start(&words, TRACKED, true, Engine::Interpreter);
    run_to_request(&mut m);
    m.reset();
    for i in 0..LINES {
        assert_eq!(line(&m, i), model.now[i]);
    }
    assert_eq!(m.power_cut(Dram::Zero).expect("a cut").lost_lines, 0);
}

#[test]
fn without_tracking_a_timed_machine_says_what_is_missing() {
    let mut m = start(&[0x6f], &[], true, Engine::Interpreter);
    let e = m.power_cut(Dram::Zero).expect_err("not tracked");
    assert!(matches!(e, MachineError::NotTracked));
    assert!(e.to_string().contains("memory.track_persistence=true"));
    m.set_timed(false);
    m.power_cut(Dram::Zero).expect("no caches, no question");
}

/// Stores to lines that lie in rows of their own, with a flush behind each, and the request behind all.
fn flushed_rows(count: i32) -> Vec<u32> {
    let mut words = vec![op(Op::Lui, 13, 0, 0, 0x10 << 12)];
    for i in 1..=count {
        words.push(op(Op::Addi, 12, 0, 0, i));
        words.push(op(Op::Sd, 0, 10, 12, 0));
        words.push(op(Op::CboFlush, 0, 10, 0, 0));
        words.push(op(Op::Add, 10, 10, 13, 0));
    }
    words.push(op(Op::Addi, 12, 0, 0, StatsAction::SNAPSHOT as i32));
    words.push(op(Op::Sd, 0, 20, 12, HOST_REQUEST));
    words.push(op(Op::Jal, 0, 0, 0, 0));
    words
}

/// Which of the stores of `flushed_rows` a cut leaves, and the cut.
fn rows_after_cut(domain: &str, method: &str, engine: Engine) -> (Vec<bool>, PowerCut) {
    const COUNT: i32 = 12;
    let domain = format!("memory.persistence_domain={domain}");
    let settings = [TRACKED[0], &domain, &format!("method={method}")];
    let mut m = start(&flushed_rows(COUNT), &settings, true, engine);
    run_to_request(&mut m);
    let mut file = Vec::new();
    nagori_snapshot::save(&m, &mut file, &Meta::new()).expect("a snapshot");
    let copy = Snapshot::new(Bytes(file)).expect("a snapshot");
    let copy = copy.machine().expect("a machine");
    let results = [m, copy].map(|mut m| {
        let cut = m.power_cut(Dram::Zero).expect("a cut");
        let kept = (0..COUNT as u64).map(|i| m.ram().read_u64(NVMM + (i << 16)) == Some(i + 1));
        (kept.collect::<Vec<bool>>(), cut)
    });
    assert_eq!(results[0], results[1], "a snapshot loses the same");
    let [first, _] = results;
    first
}

#[test]
fn the_domain_says_what_a_flush_is_worth() {
    for engine in [Engine::Interpreter, Engine::best()] {
        for domain in ["adr", "eadr"] {
            let (kept, cut) = rows_after_cut(domain, "extended", engine);
            assert!(kept.iter().all(|k| *k), "{domain}: {kept:?}");
            assert_eq!((cut.lost_lines, cut.lost_writes), (0, 0));
        }
        // Without the controller in the domain, writes that wait there are lost: the last ones.
        let (kept, cut) = rows_after_cut("none", "extended", engine);
        let lost = kept.iter().filter(|k| !**k).count() as u64;
        assert!(lost > 0 && lost < 12, "{kept:?}");
        assert_eq!((cut.lost_lines, cut.lost_writes), (0, lost));
        assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
    }
}

#[test]
fn caches_within_the_domain_lose_nothing_and_need_no_tracking() {
    let mut rng = Rng::new(9);
    let (words, model) = program(&mut rng, 300);
    for settings in [
        &["memory.persistence_domain=eadr"][..],
        &["memory.persistence_domain=eadr", TRACKED[0]],
    ] {
        let mut m = start(&words, settings, true, Engine::best());
        run_to_request(&mut m);
        let cut = m.power_cut(Dram::Zero).expect("a cut");
        assert_eq!(cut.lost_lines, 0);
        for i in 0..LINES {
            assert_eq!(line(&m, i), model.now[i]);
        }
        assert!(m.ram().is_zero(0, NVMM).expect("in memory"));
    }
}
