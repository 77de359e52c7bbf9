//! Harts in threads of the host: every program still computes what it should, whatever the order.

mod common;

use common::*;
use nagori_platform::machine::{Engine, Machine, Stop, DEFAULT_SKEW};

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
            "smp" | "atomic" => env("NAGORI_PARALLEL_RUNS", 4),
            _ => 1,
        };
        for k in 0..times {
            for timed in [false, true] {
                let engines = [Engine::best(), Engine::Interpreter];
                for engine in &engines[..if k == 0 { 2 } else { 1 }] {
                    let mut m = machine(elf, timed, *engine);
                    let skew = [DEFAULT_SKEW, 300];
                    m.set_parallel(Some(skew[k as usize % 2])).expect("threads");
                    let o = run(&mut m, SLICE);
                    passes(&o, &format!("{name}, timed: {timed}, {engine:?}"));
                    assert!(o.report.parallel);
                }
            }
        }
    }
}

#[test]
fn a_machine_changes_between_parallel_and_deterministic() {
    let Some(programs) = programs("changes") else {
        return;
    };
    let (_, elf) = programs.iter().find(|(n, _)| n == "smp").expect("smp");
    for timed in [false, true] {
        let mut m = machine(elf, timed, Engine::best());
        let mut console = Vec::new();
        let mut k = 0;
        let stop = loop {
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
    for timed in [false, true] {
        let mut m = build(&describe("vc707", &[]), timed);
        m.set_engine(Engine::best()).expect("an engine");
        load_words(&mut m, &COUNT);
        m.set_parallel(Some(1000)).expect("threads");
        while m.ram().read_u64(0x1010) != Some(4) {
            let stop = m.run(SLICE, None);
            assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
            assert!(m.instructions() < 1_000_000_000);
        }
        let counted = [0x1000, 0x1008].map(|o| m.ram().read_u64(o));
        assert_eq!(counted, [Some(200_000); 2], "timed: {timed}");
        let shares = m.report().harts;
        assert!(shares.iter().all(|h| h.instructions > 300_000));
    }
}

#[test]
fn a_limit_ends_a_run() {
    let mut m = build(&describe("vc707", &[]), true);
    load_words(&mut m, &[0x0000_006f]);
    m.set_parallel(Some(1000)).expect("threads");
    while m.run(SLICE, Some(500_000)) != Stop::Instructions {
        assert!(m.steps() < 500_000);
    }
    // Each hart may end a block late.
    assert!((500_000..=500_400).contains(&m.steps()), "{}", m.steps());
}
