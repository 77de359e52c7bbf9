//! Harts in threads of the host: every program still computes what it should, whatever the order.

use crate::common::random::op;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop, Why, DEFAULT_SKEW};
use nagori_snapshot::{Bytes, Meta, Snapshot};

const SLICE: u64 = 1_000_000;

fn machine(elf: &[u8], timed: bool, engine: Engine) -> Machine {
    let mut m = build(&describe("vc707", &[]), timed);
    m.set_engine(engine).expect("an engine of this host");
    load(&mut m, elf);
    m
}

fn passes(o: &Outcome, what: &str) {
    let last = o.console.lines().last().unwrap_or("");
    assert!(
        o.stop == Stop::PowerOff(0) && last.ends_with(" passed, 0 failed"),
        "{what}: {:?}\n{}",
        o.stop,
        o.console
    );
}

#[test]
fn programs_pass_in_every_mode() {
    let Some(programs) = programs("parallel") else {
        return;
    };
    for (name, elf) in &programs {
        // What several harts do is tried in many orders.
        let times = match name.as_str() {
            "smp" | "atomic" | "storm" => env("NAGORI_PARALLEL_RUNS", 4),
            _ => 1,
        };
        for k in 0..times {
            let engines = [Engine::best(), Engine::Interpreter];
            for engine in &engines[..if k == 0 { 2 } else { 1 }] {
                let mut m = machine(elf, false, *engine);
                let skew = [DEFAULT_SKEW, 300];
                m.set_parallel(Some(skew[k as usize % 2])).expect("threads");
                let o = run(&mut m, SLICE);
                passes(&o, &format!("{name}, {engine:?}"));
                assert!(o.report.parallel);
            }
        }
    }
}

#[test]
fn with_the_timing_model_harts_take_turns() {
    let Some(elf) = program("smp") else {
        return;
    };
    let of = |skew| {
        let mut m = machine(&elf, true, Engine::best());
        m.set_parallel(skew).expect("threads");
        run(&mut m, SLICE).report
    };
    let report = of(Some(300));
    assert!(!report.parallel);
    assert_eq!(report, of(None));
}

#[test]
fn a_machine_changes_between_parallel_and_deterministic() {
    let Some(programs) = programs("changes") else {
        return;
    };
    let (_, elf) = programs.iter().find(|(n, _)| n == "smp").expect("smp");
    // Prefetches are under way, and misses wait, when harts go on at the same time.
    let ahead =
        "cache.llc={ level = 2, shared_by = \"all\", size = \"16 KiB\", ways = 4, latency = 20, \
                 mshrs = 2, banks = 2, bank_cycles = 3, prefetcher = \"next-line\", degree = 2 }";
    let first = [
        "l1d.prefetcher=next-line",
        "l1d.mshrs=3",
        "l1i.prefetcher=next-line",
        ahead,
    ];
    for (timed, settings) in [
        (false, &[][..]),
        (true, &[]),
        (true, &[ahead]),
        (true, &first),
        (true, &first[..3]),
    ] {
        let mut m = build(&describe("vc707", settings), false);
        m.set_engine(Engine::best()).expect("an engine");
        load(&mut m, elf);
        let mut console = Vec::new();
        let mut k = 0;
        let stop = loop {
            // Some with the timing model in between.
            m.set_timed(timed && k % 4 == 1);
            let skew = (k % 2 == 0).then_some(2000);
            m.set_parallel(skew).expect("threads");
            let stop = m.run(30_000, None);
            console.extend(m.console_output());
            k += 1;
            if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
                break stop;
            }
            assert!(k < 1_000_000, "no end");
        };
        assert!(k > 4, "{k} changes");
        passes(&outcome(&mut m, stop, console), "changes");
    }
}

/// Counts to 50 000 on every hart, by amoadd.d and by lr.d and sc.d.
const COUNT: [u32; 19] = [
    0x0010_0293, // li t0,1
    0x01f2_9293, // sll t0,t0,0x1f
    0x0000_1337, // lui t1,0x1
    0x0062_82b3, // add t0,t0,t1
    0x0082_8e13, // add t3,t0,8
    0x0000_c3b7, // lui t2,0xc
    0x3503_8393, // add t2,t2,848
    0x0010_0e93, // li t4,1
    0x01d2_b02f, // amoadd.d zero,t4,(t0)
    0x100e_3f2f, // lr.d t5,(t3)
    0x001f_0f13, // add t5,t5,1
    0x19ee_3f2f, // sc.d t5,t5,(t3)
    0xfe0f_1ae3, // bnez t5,24
    0xfff3_8393, // add t2,t2,-1
    0xfe03_94e3, // bnez t2,20
    0x0102_8f93, // add t6,t0,16
    0x01df_b02f, // amoadd.d zero,t4,(t6)
    0x1050_0073, // wfi
    0xffdf_f06f, // j 44
];

#[test]
fn no_count_is_lost() {
    let mut m = build(&describe("vc707", &[]), false);
    m.set_engine(Engine::best()).expect("an engine");
    load_words(&mut m, &COUNT);
    m.set_parallel(Some(1000)).expect("threads");
    while m.ram().read_u64(0x1010) != Some(4) {
        let stop = m.run(SLICE, None);
        assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
        assert!(m.instructions() < 1_000_000_000);
    }
    let counted = [0x1000, 0x1008].map(|o| m.ram().read_u64(o));
    assert_eq!(counted, [Some(200_000); 2]);
    let shares = m.report().harts;
    assert!(shares.iter().all(|h| h.instructions > 300_000));
}

#[test]
fn a_limit_ends_a_run() {
    let mut m = build(&describe("vc707", &[]), false);
    load_words(&mut m, &[0x0000_006f]);
    m.set_parallel(Some(1000)).expect("threads");
    while m.run(SLICE, Some(500_000)) != Stop::Instructions {
        assert!(m.steps() < 500_000);
    }
    // Each hart may end a block late.
    assert!((500_000..=500_400).contains(&m.steps()), "{}", m.steps());
}

fn program(name: &str) -> Option<Vec<u8>> {
    let all = programs("at the same time")?;
    all.into_iter().find(|(n, _)| n == name).map(|(_, elf)| elf)
}

/// Goes on to the end in slices, which is a good one; `console` is what was printed before.
fn goes_on(m: &mut Machine, mut console: Vec<u8>, what: &str) {
    let stop = loop {
        let stop = m.run(SLICE, Some(1_000_000_000));
        console.extend(m.console_output());
        if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
            break stop;
        }
    };
    passes(&outcome(m, stop, console), what);
}

#[test]
fn snapshots_go_on_either_way() {
    let Some(elf) = program("storm") else {
        return;
    };
    for timed in [false, true] {
        let mut m = machine(&elf, timed, Engine::best());
        m.set_parallel(Some(2000)).expect("threads");
        let mut console = Vec::new();
        for k in 0..4 {
            for _ in 0..8 {
                assert_eq!(m.run(5000, None), Stop::Slice);
                console.extend(m.console_output());
            }
            let mut bytes = Vec::new();
            nagori_snapshot::save(&m, &mut bytes, &Meta::new()).expect("a snapshot");
            for parallel in [None, Some(DEFAULT_SKEW)] {
                let s = Snapshot::new(Bytes(bytes.clone())).expect("a snapshot");
                let mut copy: Machine = s.machine().expect("a machine");
                copy.set_engine(Engine::best()).expect("an engine");
                copy.set_parallel(parallel).expect("threads");
                let what = format!("snapshot {k}, timed: {timed}, {parallel:?}");
                goes_on(&mut copy, console.clone(), &what);
                assert_eq!(
                    copy.report().parallel,
                    !timed,
                    "its statistics are of such a run"
                );
            }
        }
        goes_on(&mut m, console, "whoever was saved");
    }
}

#[test]
fn a_debugger_stops_harts_one_after_the_other() {
    let Some(elf) = program("storm") else {
        return;
    };
    for timed in [false, true] {
        let mut m = machine(&elf, timed, Engine::best());
        m.set_parallel(Some(2000)).expect("threads");
        let mut console = Vec::new();
        let mut stops = 0;
        let mut rng = Rng::new(5);
        while stops < 200 {
            assert_eq!(m.run(3000, None), Stop::Slice);
            console.extend(m.console_output());
            let hart = rng.below(4) as usize;
            // A place that the hart will come to, or has come to.
            let pc = m.hart(hart).expect("a hart").state.pc;
            assert!(m.add_breakpoint(pc));
            for _ in 0..3 {
                m.step_hart(hart, 0..0);
                let stop = m.run(1_000_000, None);
                console.extend(m.console_output());
                if stop != Stop::Debug {
                    assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
                    break;
                }
                let at = m.debug_stop().expect("a reason");
                assert_eq!(m.hart(at.hart).expect("a hart").state.pc, at.pc);
                match at.why {
                    Why::Breakpoint => assert_eq!(at.pc, pc),
                    Why::Step => assert_eq!(at.hart, hart),
                    Why::Watch { .. } => panic!("nothing is watched"),
                }
                stops += 1;
            }
            m.clear_steps();
            assert!(m.remove_breakpoint(pc));
        }
        goes_on(&mut m, console, "behind the debugger");
    }
}

#[test]
fn what_caches_hold_is_not_tracked_in_parallel() {
    let d = describe("vc707", &["memory.track_persistence=true"]);
    let mut m = build(&d, true);
    let error = m.set_parallel(Some(1000)).expect_err("it is tracked");
    assert!(error.to_string().contains("track_persistence=false"));
    m.set_parallel(None).expect("nothing");
    load_words(&mut m, &[0x0000_006f]);
    m.run(1000, None);
    assert!(!m.report().parallel);
}

#[test]
fn markers_are_heard() {
    const A0: u8 = 10;
    const T0: u8 = 5;
    const T1: u8 = 6;
    let mark = |marker, rs1| op(marker, 0, rs1, 0, 0);
    // Each hart sets ten labels with its number and has a region; the one that is the last asks
    // for a snapshot, and then for the end.
    let words = [
        mark(Op::MarkRoiBegin, 0),
        op(Op::Addi, T0, 0, 0, 10),
        mark(Op::MarkLabel, A0),
        op(Op::Addi, T0, T0, 0, -1),
        op(Op::Bne, 0, T0, 0, -8),
        op(Op::Addi, T0, 0, 0, 1),
        op(Op::Slli, T0, T0, 0, 31),
        op(Op::Addi, T0, T0, 0, 0x400),
        op(Op::Addi, T1, 0, 0, 1),
        op(Op::AmoaddD, T1, T0, T1, 0),
        op(Op::Addi, T0, 0, 0, 3),
        op(Op::Bne, 0, T0, T1, 20),
        mark(Op::MarkRoiEnd, 0),
        mark(Op::MarkSnapshot, T0),
        op(Op::Addi, T0, 0, 0, 42),
        mark(Op::MarkStop, T0),
        op(Op::Jal, 0, 0, 0, 0),
    ];
    for timed in [false, true] {
        for engine in [Engine::best(), Engine::Interpreter] {
            let mut m = build(&describe("vc707", &[]), timed);
            m.set_engine(engine).expect("an engine");
            m.set_parallel(Some(DEFAULT_SKEW)).expect("threads");
            load_words(&mut m, &words);
            let next = |m: &mut Machine| loop {
                match m.run(SLICE, Some(100_000_000)) {
                    Stop::Slice => {}
                    stop => return stop,
                }
            };
            assert_eq!(next(&mut m), Stop::Snapshot(3));
            let regions = m.regions().expect("a region");
            assert!(!regions.open && regions.report.parallel != timed);
            assert_eq!(regions.count, 1, "they do not nest");
            assert_eq!(next(&mut m), Stop::PowerOff(42));
            for hart in 0..4 {
                let of = |l: &&nagori_machine::Label| l.hart == hart;
                let times: Vec<_> = m.labels().iter().filter(of).map(|l| l.time_ps).collect();
                assert!(times.len() == 10 && times.is_sorted(), "{times:?}");
                let own = m.labels().iter().filter(of).all(|l| l.value == hart as u64);
                assert!(own);
            }
        }
    }
}
