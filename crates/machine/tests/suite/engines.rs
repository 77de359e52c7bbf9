//! The translator against the interpreter on whole machines: every bare-metal program,
//! with one hart and four, in both modes, and with the engine changed on the way.

use crate::common::random::op;
use crate::common::whole::*;
use crate::common::*;
use nagori_isa::Op;
use nagori_machine::{Engine, Machine, Stop, TranslatorOptions};

/// The smallest memory for code, so that it is emptied over and over.
const TINY: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: TranslatorOptions::LEAST_BYTES,
    threshold: 0,
});
const EAGER: Engine = Engine::Translator(TranslatorOptions {
    code_bytes: 4 << 20,
    threshold: 0,
});

/// Runs to the end of the guest or for `most` steps; `before` is called before each slice.
fn run_whole(
    m: &mut Machine,
    slice: u64,
    most: u64,
    mut before: impl FnMut(&mut Machine),
) -> Whole {
    let mut console = Vec::new();
    loop {
        before(m);
        let stop = m.run(slice, Some(most));
        console.extend(m.console_output());
        if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
            return whole(m, stop, console, &compared(m));
        }
    }
}

/// The start of DRAM and of NVMM: more than any program uses.
fn compared(m: &Machine) -> [(u64, u64); 2] {
    let nvmm = m.config().memory.nvmm_base() - m.config().memory.base;
    [0, nvmm].map(|at| (at, 4 << 20))
}

fn machine(elf: &[u8], harts: u32, timed: bool, engine: Engine) -> Machine {
    let mut m = build(
        &describe("vc707", &[&format!("harts={harts}"), "triggers=4"]),
        timed,
    );
    m.set_engine(engine).expect("an engine of this host");
    load(&mut m, elf);
    m
}

/// Enough for nearly all programs; those that spin for a neighbour do not end in functional mode.
const MOST: u64 = 30_000_000;
const SLICE: u64 = 1_000_000;

#[test]
fn every_program_is_the_same_with_both_engines() {
    let Some(programs) = programs("engines") else {
        return;
    };
    assert!(programs.len() >= 12, "{}", programs.len());
    let mut ended = 0;
    for (name, elf) in &programs {
        for harts in [1, 4] {
            for timed in [false, true] {
                let mut m = machine(elf, harts, timed, Engine::Interpreter);
                let expected = run_whole(&mut m, SLICE, MOST, |_| ());
                ended += u32::from(expected.outcome.stop == Stop::PowerOff(0));
                for engine in [Engine::best(), TINY] {
                    let mut m = machine(elf, harts, timed, engine);
                    let found = run_whole(&mut m, SLICE, MOST, |_| ());
                    let name = format!("{name}, {harts} harts, timed {timed}, {engine:?}");
                    assert_same(&expected, &found, &name);
                    let entries: u64 = m.translator_stats().iter().map(|s| s.entries).sum();
                    assert!(entries > 0, "{name}: nothing was translated");
                }
            }
        }
    }
    assert!(ended >= 40, "only {ended} runs came to their end");
}

/// The program finds out by itself whether hardware sets A and D bits, and checks either.
#[test]
fn with_svadu_engines_and_slices_make_no_difference() {
    let Some(programs) = programs("svadu") else {
        return;
    };
    let (name, elf) = programs.iter().find(|(n, _)| n == "mmu").expect("mmu");
    let isa = describe("vc707", &[]).config.isa;
    let isa: Vec<String> = isa.iter().map(|e| format!("{e:?}")).collect();
    let isa = format!("isa=[{},\"svadu\"]", isa.join(","));
    for timed in [false, true] {
        let with = |engine, slice| {
            let mut m = build(&describe("vc707", &["harts=1", &isa]), timed);
            m.set_engine(engine).expect("an engine of this host");
            load(&mut m, elf);
            run_whole(&mut m, slice, MOST, |_| ())
        };
        let expected = with(Engine::Interpreter, SLICE);
        let said = &expected.outcome.console;
        let passed = said.contains("ok adue.both") && said.contains(" 0 failed");
        assert!(passed, "{said}");
        for (engine, slice) in [
            (Engine::best(), SLICE),
            (TINY, SLICE),
            (Engine::best(), 777),
        ] {
            assert_same(
                &expected,
                &with(engine, slice),
                &format!("{name}, {engine:?}"),
            );
        }
    }
}

#[test]
fn engines_change_at_random_moments() {
    let Some(programs) = programs("switched") else {
        return;
    };
    let mut switched = 0u64;
    for (name, elf) in &programs {
        for harts in [1, 4] {
            for timed in [false, true] {
                let mut m = machine(elf, harts, timed, Engine::Interpreter);
                let expected = run_whole(&mut m, SLICE, MOST, |_| ());
                let mut rng = Rng::new(switched);
                let mut m = machine(elf, harts, timed, TINY);
                let found = run_whole(&mut m, 20_011, MOST, |m| {
                    if rng.one_in(3) {
                        let e = rng.pick(&[Engine::Interpreter, EAGER, TINY, TINY]);
                        m.set_engine(e).expect("an engine of this host");
                        switched += 1;
                    }
                });
                let name = format!("{name}, {harts} harts, timed {timed}");
                assert_same(&expected, &found, &name);
            }
        }
    }
    assert!(switched > 100, "{switched}");
}

/// Timing is turned on and off on the way, at the same points for both engines.
#[test]
fn modes_change_on_the_way_for_both_engines() {
    let Some(programs) = programs("modes") else {
        return;
    };
    for (name, elf) in programs.iter().filter(|(name, _)| name != "smp") {
        let [expected, found] = [Engine::Interpreter, EAGER].map(|engine| {
            let mut rng = Rng::new(3);
            let mut m = machine(elf, 4, false, engine);
            run_whole(&mut m, 50_021, 2 * MOST, |m| {
                let timed = rng.one_in(2);
                m.set_timed(timed);
            })
        });
        assert_eq!(expected.outcome.stop, Stop::PowerOff(0), "{name}");
        assert_same(&expected, &found, name);
    }
}

#[test]
fn an_instruction_that_waits_keeps_its_line_of_code() {
    // A line that comes takes the place of another one in the last level, and so in all caches.
    let level =
        "cache.llc={ level = 2, shared_by = \"all\", size = \"4 KiB\", ways = 1, latency = 20 }";
    let plain = &[level][..];
    let registers = &["l1d.mshrs=4", level][..];
    let buffer = &["l1d.mshrs=4", "store_buffer.entries=4", level][..];
    let store = op(Op::Sd, 0, 11, 5, 0);
    let nothing = op(Op::Addi, 5, 5, 0, 1);
    for (name, before, what) in [
        ("fence", store, op(Op::Fence, 0, 0, 0, 0x33)),
        ("amo", nothing, op(Op::AmoaddD, 5, 11, 5, 0)),
        ("lr", nothing, op(Op::LrW, 5, 11, 0, 0)),
        ("load", nothing, op(Op::Ld, 5, 11, 0, 0)),
        ("float", nothing, op(Op::Fld, 5, 11, 0, 0)),
        ("flush", store, op(Op::CboFlush, 0, 11, 0, 0)),
        ("zero", nothing, op(Op::CboZero, 0, 11, 0, 0)),
    ] {
        // It begins a line, whose place that of its data takes.
        let mut words = vec![
            op(Op::Lui, 9, 0, 0, 4096),
            op(Op::Addi, 11, 10, 0, 64),
            before,
        ];
        words.resize(16, nothing);
        words.extend([what, op(Op::Add, 10, 10, 9, 0)]);
        let here = words.len() as i32;
        words.push(op(Op::Jal, 0, 0, 0, 4 * (1 - here)));
        for settings in [plain, registers, buffer] {
            let run = |engine| {
                let mut m = crate::ahead::machine(settings, &words, engine);
                for h in 0..m.config().harts as usize {
                    let h = m.hart_mut(h).expect("a hart");
                    h.state.csr.mstatus |= 1 << 13;
                }
                crate::ahead::run_for(&mut m, 4000, u64::MAX)
            };
            let expected = run(Engine::Interpreter);
            let misses = expected.report.harts[0].events.l1i_misses;
            let evicted = before == nothing || settings != buffer;
            assert!(misses > 150 || !evicted, "{name}, {settings:?}: {misses}");
            assert_eq!(run(EAGER), expected, "{name}, {settings:?}");
        }
    }
}

#[test]
fn a_warm_up_is_outside_the_statistics() {
    // Loads from 128 lines, over and over: only the first rounds miss.
    let base = 0x8000_0000u64;
    let words = [
        0xf140_22f3u32, // csrr t0, mhartid
        0x0002_8463,    // beqz t0, +8
        0x0000_006f,    // j .
        0x0001_0337,    // lui  t1, 0x10
        0x0010_0293,    // li   t0, 1
        0x01f2_9293,    // slli t0, t0, 31
        0x0062_8333,    // add  t1, t0, t1
        0x0800_0e13,    // li   t3, 128
        0x0003_3e83,    // ld   t4, 0(t1)
        0x0403_0313,    // addi t1, t1, 64
        0xfffe_0e13,    // addi t3, t3, -1
        0xfe0e_1ae3,    // bnez t3, -12
        0xfddf_f06f,    // j    -36
    ];
    let run = |warm_up: u64, switched: bool, engine: Engine, slice: u64| {
        let mut m = build(&describe("vc707", &["harts=1"]), !switched);
        m.set_engine(engine).expect("an engine of this host");
        load_words(&mut m, &words);
        assert_eq!(m.hart(0).expect("a hart").state.pc, base);
        m.set_warm_up(warm_up);
        if switched {
            while m.run(slice, Some(5000)) == Stop::Slice {}
            assert_eq!(m.report().harts[0].events.l1d_load_misses, 0);
            m.set_timed(true);
        }
        let from = m.steps();
        while m.run(slice, Some(from + 20_000)) == Stop::Slice {}
        let saved = serde_json::to_value(m.save_state()).expect("a state");
        let w = m.warm_ups();
        let open = warm_up > 20_000;
        let ended = u64::from(warm_up > 0 && !open);
        assert_eq!((w.ended, w.cut, w.open), (ended, 0, open));
        assert_eq!(saved.get("warm_ups").is_some(), ended > 0);
        let report = m.report();
        // It is cut short by the end of the timing model.
        m.set_timed(false);
        let w = m.warm_ups();
        assert_eq!((w.ended, w.cut, w.open), (ended, u64::from(open), false));
        report
    };
    for switched in [false, true] {
        let cold = run(0, switched, Engine::Interpreter, SLICE);
        let warm = run(6000, switched, Engine::Interpreter, SLICE);
        assert!(cold.harts[0].events.l1d_load_misses >= 128);
        assert_eq!(warm.harts[0].events.l1d_load_misses, 0);
        assert_eq!(warm.memory.regions[0].counters.reads, 0);
        // Not one instruction is lost, but for the blocks that pass the two limits.
        let missing = 20_000 - warm.instructions;
        assert!((5990..6010).contains(&missing), "{missing}");
        assert!(warm.instructions < cold.instructions);
        for engine in [Engine::best(), EAGER, TINY] {
            for slice in [SLICE, 777] {
                assert_eq!(warm, run(6000, switched, engine, slice), "{engine:?}");
            }
        }
        // Not warm before the end: nothing starts anew.
        let long = run(1 << 40, switched, Engine::best(), SLICE);
        assert_eq!(long, cold);
    }
}
