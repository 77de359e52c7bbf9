//! A debugger that stops, steps and looks all the time changes nothing: the same programs with and
//! without one, in both modes, with one hart and four, with either engine.

use crate::common::*;
use nagori_machine::{Engine, Machine, Stop, Watch, WatchKind, Why};

/// Stops until the debugger leaves.
const STOPS: u64 = 3000;
/// The programs' limit: those that wait for a neighbour do not end in functional mode.
const MOST: u64 = 3_000_000;

fn machine(elf: &[u8], harts: u32, timed: bool, engine: Engine) -> Machine {
    let mut m = build(
        &describe("vc707", &[&format!("harts={harts}"), "triggers=4"]),
        timed,
    );
    m.set_engine(engine).expect("an engine of this host");
    load(&mut m, elf);
    m
}

fn alone(m: &mut Machine) -> Outcome {
    let mut console = Vec::new();
    loop {
        let stop = m.run(100_000, Some(MOST));
        console.extend(m.console_output());
        if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
            return outcome(m, stop, console);
        }
    }
}

/// What a debugger saw.
#[derive(Debug, Default)]
struct Seen {
    breakpoints: u64,
    steps: u64,
    watches: u64,
    within: u64,
}

fn debugged(m: &mut Machine, rng: &mut Rng, seen: &mut Seen) -> Outcome {
    let harts = m.config().harts as usize;
    let mut console = Vec::new();
    let mut stops = 0;
    let mut breakpoints: Vec<u64> = Vec::new();
    let mut watches: Vec<Watch> = Vec::new();
    m.step_hart(0, 0..0);
    loop {
        let stop = m.run(1 + rng.below(5000), Some(MOST));
        console.extend(m.console_output());
        match stop {
            Stop::Debug => {}
            Stop::Slice | Stop::Idle(_) if stops < STOPS && rng.one_in(4) => {
                // As Ctrl-C does.
                let (hart, range) = (rng.below(harts as u64) as usize, 0..0);
                m.step_hart(hart, range);
                continue;
            }
            Stop::Slice | Stop::Idle(_) => continue,
            _ => return outcome(m, stop, console),
        }
        stops += 1;
        let at = m.debug_stop().expect("a reason");
        let h = m.hart(at.hart).expect("a hart");
        assert_eq!(at.pc, h.state.pc, "it stands where it says");
        seen.within += u64::from(m.within_block());
        match at.why {
            Why::Breakpoint => {
                seen.breakpoints += 1;
                assert!(breakpoints.contains(&at.pc));
            }
            Why::Watch { watch, .. } => {
                seen.watches += 1;
                assert!(watches.contains(&watch));
            }
            Why::Step => seen.steps += 1,
        }
        let (sp, pc) = (h.reg(2), at.pc);
        let mut bytes = [0; 64];
        m.peek(Some(at.hart), pc, &mut bytes);
        m.clear_steps();
        if stops >= STOPS {
            m.clear_debug();
            continue;
        }
        match rng.below(8) {
            0 => {
                let pc = pc.wrapping_add(2 * rng.below(64));
                m.add_breakpoint(pc);
                breakpoints.push(pc);
            }
            1 => {
                let watch = Watch {
                    addr: sp.wrapping_sub(64).wrapping_add(rng.below(128)),
                    len: 1 + rng.below(64),
                    kind: rng.pick(&[WatchKind::Read, WatchKind::Write, WatchKind::Access]),
                };
                m.add_watch(watch);
                watches.push(watch);
            }
            2 => breakpoints.drain(..).for_each(|pc| {
                m.remove_breakpoint(pc);
            }),
            3 => watches.drain(..).for_each(|w| {
                m.remove_watch(w);
            }),
            4 => m.step_hart(rng.below(harts as u64) as usize, pc..pc + 64),
            _ => {}
        }
        if breakpoints.is_empty() && watches.is_empty() || rng.one_in(2) {
            m.step_hart(rng.below(harts as u64) as usize, 0..0);
        }
    }
}

#[test]
fn a_debugger_changes_nothing() {
    let Some(programs) = programs("debug") else {
        return;
    };
    let mut rng = Rng::new(env("NAGORI_SEED", 4));
    let mut seen = Seen::default();
    for (name, elf) in &programs {
        for (harts, timed) in [(1, true), (4, true), (4, false)] {
            let want = alone(&mut machine(elf, harts, timed, Engine::best()));
            let engine = rng.pick(&[Engine::best(), Engine::Interpreter]);
            let mut m = machine(elf, harts, timed, engine);
            let got = debugged(&mut m, &mut rng, &mut seen);
            assert_eq!(got, want, "{name}, {harts} harts, timed: {timed}");
        }
    }
    assert!(
        seen.breakpoints > 500 && seen.watches > 500 && seen.steps > 5000,
        "{seen:?}"
    );
    assert!(seen.within > 5000, "{seen:?}");
}

#[test]
fn what_harts_see_of_each_other_does_not_depend_on_stops() {
    let Some(programs) = programs("debug") else {
        return;
    };
    let (_, elf) = programs
        .iter()
        .find(|p| p.0 == "watch")
        .expect("the program whose harts read each other's counters");
    let want = alone(&mut machine(elf, 4, true, Engine::best()));
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut seen = Seen::default();
        let engine = rng.pick(&[Engine::best(), Engine::Interpreter]);
        let mut m = machine(elf, 4, true, engine);
        assert_eq!(debugged(&mut m, &mut rng, &mut seen), want, "seed {seed}");
        assert!(seen.within > 50, "{seen:?}");
    }
}

#[test]
fn what_a_debugger_changes_is_changed() {
    let mut m = build(&describe("small", &[]), true);
    // addi x5, x5, 1; addi x5, x5, 1; j -8
    load_words(&mut m, &[0x0012_8293, 0x0012_8293, 0xff9f_f06f]);
    let base = m.config().memory.base;
    m.add_breakpoint(base + 4);
    assert_eq!(m.run(1000, None), Stop::Debug);
    assert_eq!(
        (m.hart(0).unwrap().state.pc, m.hart(0).unwrap().reg(5)),
        (base + 4, 1)
    );
    // addi x5, x5, 16 in the middle of the block that it stands in.
    assert_eq!(m.poke(Some(0), base + 4, &0x0102_8293u32.to_le_bytes()), 4);
    assert_eq!(m.run(1000, None), Stop::Debug);
    assert_eq!(m.hart(0).unwrap().reg(5), 18);
    m.set_pc(0, base);
    m.hart_mut(0).unwrap().set_reg(5, 100);
    assert_eq!(m.run(1000, None), Stop::Debug);
    assert_eq!(m.hart(0).unwrap().reg(5), 101);
    let mtvec = 0x305;
    assert!(m.set_csr(0, mtvec, 0x8000_1000));
    assert_eq!(m.csr(0, mtvec), Some(0x8000_1000));
    assert!(!m.set_csr(0, 0xf14, 1), "read-only");
    assert_eq!(m.csr(0, 0x7c0), None);
    assert_eq!(m.peek(Some(0), 0x1000, &mut [0; 8]), 0, "no memory");
    let end = m.config().memory.end();
    assert_eq!(m.peek(None, end - 4, &mut [0; 8]), 4);
    m.clear_debug();
    assert_eq!(m.run(1000, None), Stop::Slice);
}

#[test]
fn no_hart_slips_past_a_breakpoint_whose_line_has_to_be_fetched() {
    for timed in [true, false] {
        let mut m = build(&describe("vc707", &["harts=4"]), timed);
        // j +64; there, in a line of its own: addi x5, x5, 1; j 0
        let mut words = vec![0x0400_006f];
        words.resize(16, 0x0000_0013);
        words.extend([0x0012_8293, 0x0000_006f]);
        load_words(&mut m, &words);
        let pc = m.config().memory.base + 64;
        m.add_breakpoint(pc);
        let mut hit = [0; 4];
        for _ in 0..100 {
            if m.run(10_000, None) == Stop::Debug {
                let at = m.debug_stop().expect("a reason");
                assert_eq!((at.pc, at.why), (pc, Why::Breakpoint));
                hit[at.hart] += 1;
                m.clear_steps();
            }
        }
        assert_eq!(hit, [1; 4], "timed: {timed}");
    }
}
