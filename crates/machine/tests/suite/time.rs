//! Machine time: far from its start, at its end, and with clocks whose period is no whole number
//! of picoseconds.

use crate::common::random::op;
use crate::common::*;
use nagori_config::map;
use nagori_config::Method;
use nagori_hart::Hart;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};
use nagori_memtime::Period;
use nagori_platform::clock::Ps;
use nagori_snapshot::{Bytes, Meta, Snapshot};

const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});
const BOTH: [Engine; 2] = [Engine::Interpreter, EAGER];
/// The timer of the first hart.
const MTIMECMP: u64 = map::CLINT + 0x4000;
const CYCLE: i32 = 0xb00;
const MIE: i32 = 0x304;

// Registers of the program below. The host sets the first four.
const NVMM: u8 = 5;
const COUNT: u8 = 6;
const TIMER: u8 = 7;
const WAKE: u8 = 8;
const LEFT: u8 = 9;
const VALUE: u8 = 10;
const BEFORE: u8 = 11;
const MTI: u8 = 12;
/// Cycles of the first and of the second loop.
const COSTS: [u8; 2] = [18, 19];

/// Reads COUNT lines of NVMM, 8 KiB apart; cycles to `cost`.
fn touch(cost: u8) -> Vec<u32> {
    vec![
        op(Op::Add, LEFT, COUNT, 0, 0),
        op(Op::Csrrs, BEFORE, 0, 0, CYCLE),
        op(Op::Ld, VALUE, NVMM, 0, 0),
        op(Op::Add, NVMM, NVMM, 13, 0),
        op(Op::Addi, LEFT, LEFT, 0, -1),
        op(Op::Bne, 0, LEFT, 0, -12),
        op(Op::Csrrs, cost, 0, 0, CYCLE),
        op(Op::Sub, cost, cost, BEFORE, 0),
    ]
}

/// Measures misses, sleeps until the timer comes, measures misses again, and ends.
fn program() -> Vec<u32> {
    let mut words = vec![
        op(Op::Lui, 13, 0, 0, 0x2000),
        op(Op::Addi, MTI, 0, 0, 0x80),
        op(Op::Csrrs, 0, MTI, 0, MIE),
    ];
    words.extend(touch(COSTS[0]));
    words.push(op(Op::Sd, 0, TIMER, WAKE, 0));
    words.push(op(Op::Wfi, 0, 0, 0, 0));
    words.extend(touch(COSTS[1]));
    words.extend([
        op(Op::Addi, VALUE, 0, 0, 0),
        op(Op::MarkStop, 0, VALUE, 0, 0),
        op(Op::Jal, 0, 0, 0, 0),
    ]);
    words
}

/// A machine about to run it, whose timer comes at `wake` of machine time.
fn sleeper(settings: &[&str], engine: Engine, wake: Ps) -> Machine {
    let mut all = vec!["harts=1"];
    all.extend(settings);
    let mut m = build(&describe("vc707", &all), true);
    m.set_engine(engine).expect("an engine of this host");
    load_words(&mut m, &program());
    let nvmm = m.config().memory.nvmm_base();
    let tick = m.config().timebase().edge_from(wake);
    let h = m.hart_mut(0).expect("a hart");
    let values = [(NVMM, nvmm), (COUNT, 1000), (TIMER, MTIMECMP), (WAKE, tick)];
    for (r, v) in values {
        h.set_reg(r.into(), v);
    }
    m
}

fn proceed(m: &mut Machine) -> Stop {
    for _ in 0..10_000 {
        match m.run(100_000, None) {
            Stop::Slice | Stop::Idle(_) => {}
            other => return other,
        }
    }
    panic!("no end");
}

fn costs(h: &Hart) -> [u64; 2] {
    COSTS.map(|r| h.reg(r.into()))
}

fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) * 50 < b
}

/// Six months: more than 2^63 ps.
const MONTHS: Ps = Ps(15_500_000_000_000_000_000);

/// Runs a sleeper of months until it is in the middle of the misses behind its sleep.
fn into_the_second_loop(m: &mut Machine) {
    while m.now() <= MONTHS {
        let limit = m.steps() + 500;
        let stop = m.run(u64::MAX, Some(limit));
        assert!(
            matches!(stop, Stop::Instructions | Stop::Idle(_)),
            "{stop:?}"
        );
    }
    assert_eq!(m.hart(0).expect("a hart").reg(COSTS[1].into()), 0);
}

#[test]
fn misses_cost_the_same_after_months_of_sleep() {
    for method in Method::ALL {
        let setting = format!("method={method}");
        // 2^62 ps, and about where it once ended.
        for wake in [Ps(1 << 40), Ps((1 << 62) + 1), MONTHS] {
            let mut all = Vec::new();
            for engine in BOTH {
                let mut m = sleeper(&[&setting], engine, wake);
                assert_eq!(proceed(&mut m), Stop::PowerOff(0), "{method} {wake}");
                assert!(m.now() > wake);
                let found = costs(m.hart(0).expect("a hart"));
                let [before, after] = found;
                // A miss is more than thirty cycles with any method.
                assert!(before > 30_000, "{method}: {before}");
                assert!(near(after, before), "{method} {wake}: {before} {after}");
                let s = m.report().memory;
                assert!(s.total().reads >= 2000, "{method} {wake}");
                assert!(s.refreshes > wake.0 / 7_400_000 - 100, "{method} {wake}");
                all.push((found, m.report()));
            }
            assert_eq!(all[0], all[1], "{method} {wake}: engines differ");
        }
    }
}

#[test]
fn a_snapshot_behind_months_of_sleep_goes_on() {
    for method in [Method::Coarse, Method::Extended] {
        let setting = format!("method={method}");
        let mut m = sleeper(&[&setting], Engine::Interpreter, MONTHS);
        into_the_second_loop(&mut m);
        let mut bytes = Vec::new();
        nagori_snapshot::save(&m, &mut bytes, &Meta::new()).expect("a snapshot");
        assert_eq!(proceed(&mut m), Stop::PowerOff(0));
        for engine in BOTH {
            let s = Snapshot::new(Bytes(bytes.clone())).expect("a snapshot");
            let mut copy = s.machine().expect("a machine");
            copy.set_engine(engine).expect("an engine of this host");
            assert_eq!(proceed(&mut copy), Stop::PowerOff(0));
            assert_eq!(copy.now(), m.now(), "{method}");
            assert_eq!(copy.report(), m.report(), "{method}");
            let [ours, theirs] = [&m, &copy].map(|m| costs(m.hart(0).expect("a hart")));
            assert_eq!(ours, theirs, "{method}");
        }
    }
}

#[test]
fn at_the_end_of_time_a_machine_stops_and_says_so() {
    // A sleeper whose timer is behind the end; one whose timer is never.
    for (wake, expected) in [
        (Ps(Ps::END.0 + (1 << 40)), Stop::EndOfTime),
        (Ps::NEVER, Stop::Idle(Ps::NEVER)),
    ] {
        let mut m = sleeper(&[], Engine::Interpreter, wake);
        let stop = loop {
            match m.run(100_000, None) {
                Stop::Slice => {}
                Stop::Idle(t) if t != Ps::NEVER => {}
                other => break other,
            }
        };
        assert_eq!(stop, expected);
        // And again.
        assert_eq!(m.run(100_000, None), expected);
    }
    // A loop of misses that begins a second before it.
    for engine in BOTH {
        let mut m = sleeper(&["harts=2"], engine, Ps(Ps::END.0 - 1_000_000_000_000));
        for i in 0..2 {
            m.hart_mut(i)
                .expect("a hart")
                .set_reg(COUNT.into(), 1 << 40);
            m.hart_mut(i).expect("a hart").state.cycle = Ps::END.0 / 20_000 - 500_000;
        }
        assert_eq!(proceed(&mut m), Stop::EndOfTime, "{engine:?}");
        assert!(m.now() >= Ps::END && m.now().0 - Ps::END.0 < 1_000_000_000);
        assert!(m.report().memory.total().reads > 1000);
        assert_eq!(proceed(&mut m), Stop::EndOfTime);
    }
}

/// Clocks whose periods are fractions: a third, a half, and worse.
const FRACTIONS: [[&str; 3]; 6] = [
    [
        "clock_hz=3 GHz",
        "timebase_hz=10 MHz",
        "memory.controller.clock=5 ns",
    ],
    [
        "clock_hz=3.2 GHz",
        "timebase_hz=24 MHz",
        "memory.controller.clock=1.25 ns",
    ],
    [
        "clock_hz=42 MHz",
        "timebase_hz=32768",
        "memory.controller.clock=5 ns",
    ],
    [
        "clock_hz=1.333 GHz",
        "timebase_hz=1 MHz",
        "memory.controller.clock=300 MHz",
    ],
    [
        "clock_hz=66.666666 MHz",
        "timebase_hz=3 MHz",
        "memory.controller.clock=5 ns",
    ],
    [
        "clock_hz=200/7 MHz",
        "timebase_hz=10/3 MHz",
        "memory.controller.clock=600/7 MHz",
    ],
];

/// Settings of a machine whose delays are whole clocks of its controller.
fn settings(of: &[&str; 3]) -> Vec<String> {
    let clock: Period = of[2]
        .split_once('=')
        .expect("a setting")
        .1
        .parse()
        .expect("a clock");
    let mut all: Vec<String> = of.iter().map(|s| s.to_string()).collect();
    for (name, ns) in [
        ("coarse_read", 1000),
        ("coarse_write", 1000),
        ("trcd", 1000),
        ("trp", 1000),
        ("tras", 7000),
    ] {
        let n = clock.edge_from(Ps::from_ns(ns));
        all.push(format!(
            "memory.controller.delays.{name}={} ps",
            clock.edge(n).0
        ));
    }
    all
}

#[test]
fn programs_pass_on_machines_whose_periods_are_fractions() {
    let Some(programs) = programs("fractions") else {
        return;
    };
    for clocks in &FRACTIONS {
        let all = settings(clocks);
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.push("harts=1");
        // Timers, and what CSRs say of time.
        let some = ["csr", "interrupts"];
        let chosen = programs.iter().filter(|p| some.contains(&p.0.as_str()));
        assert_eq!(chosen.clone().count(), some.len());
        for (name, elf) in chosen {
            let both = BOTH.map(|engine| {
                let mut m = build(&describe("vc707", &all), true);
                m.set_engine(engine).expect("an engine of this host");
                load(&mut m, elf);
                run(&mut m, 1_000_000)
            });
            let last = both[0].console.lines().last().unwrap_or("");
            assert!(
                both[0].stop == Stop::PowerOff(0) && last.ends_with(" passed, 0 failed"),
                "{clocks:?} {name}: {:?}\n{}",
                both[0].stop,
                both[0].console
            );
            assert_eq!(both[0], both[1], "{clocks:?} {name}: engines differ");
        }
    }
}

#[test]
fn clocks_of_fractions_do_not_drift() {
    for clocks in &FRACTIONS {
        let all = settings(clocks);
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.push("method=extended");
        let mut first = None;
        for engine in BOTH {
            let mut m = sleeper(&all, engine, MONTHS);
            let core = m.config().core_period();
            into_the_second_loop(&mut m);
            let mut bytes = Vec::new();
            nagori_snapshot::save(&m, &mut bytes, &Meta::new()).expect("a snapshot");
            assert_eq!(proceed(&mut m), Stop::PowerOff(0), "{clocks:?}");
            let s = Snapshot::new(Bytes(bytes)).expect("a snapshot");
            let mut copy = s.machine().expect("a machine");
            assert_eq!(proceed(&mut copy), Stop::PowerOff(0), "{clocks:?}");
            assert_eq!(copy.report(), m.report(), "{clocks:?}");
            let h = m.hart(0).expect("a hart");
            // Cycles and time are each other's exact measure.
            let (num, den) = core.fraction();
            let exact = (u128::from(h.state.cycle) * u128::from(num)).div_ceil(u128::from(den));
            assert_eq!(u128::from(m.now().0), exact, "{clocks:?}");
            // Woken by the first cycle at which the timer's tick has come.
            let [before, after] = costs(h);
            assert!(near(after, before), "{clocks:?}: {before} {after}");
            let woken = m.now().0 - core.edge(after).0;
            let timebase = m.config().timebase();
            let tick = timebase.edge(timebase.edge_from(MONTHS));
            let late = woken - tick.0;
            assert!(late < core.edge(60).0, "{clocks:?}: woken {late} ps late");
            let this = (h.state.cycle, costs(h), m.report());
            assert_eq!(
                first.get_or_insert_with(|| this.clone()),
                &this,
                "{clocks:?}"
            );
        }
    }
}
