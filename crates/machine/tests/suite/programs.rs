//! The bare-metal checks on whole machines: results, determinism, several machines at a time.

use crate::common::*;
use nagori_machine::{Machine, Stop};

const SLICE: u64 = 1_000_000;

fn run_program(elf: &[u8], timed: bool, slice: u64) -> Outcome {
    let mut m = build(&describe("vc707", &["triggers=4"]), timed);
    load(&mut m, elf);
    run(&mut m, slice)
}

#[test]
fn every_program_passes_in_both_modes() {
    let Some(programs) = programs("all") else {
        return;
    };
    assert!(programs.len() >= 12, "{}", programs.len());
    for (name, elf) in &programs {
        let [functional, timed] = [false, true].map(|t| run_program(elf, t, SLICE));
        for o in [&functional, &timed] {
            let last = o.console.lines().last().unwrap_or("");
            assert!(
                o.stop == Stop::PowerOff(0) && last.ends_with(" passed, 0 failed"),
                "{name}: {:?}\n{}",
                o.stop,
                o.console
            );
        }
        assert_eq!(
            functional.console, timed.console,
            "{name}: the modes differ"
        );
        assert_eq!(functional.report.harts.len(), 4);
        // No timing model, no misses; and the other way round.
        let misses = |o: &Outcome| o.report.harts.iter().map(|h| h.events.l1i_misses).sum();
        let (none, some): (u64, u64) = (misses(&functional), misses(&timed));
        assert!(none == 0 && some > 0, "{name}: {none} {some}");
    }
}

/// The program that is about several harts.
fn smp(of: &str) -> Option<Vec<u8>> {
    let list = programs(of)?;
    Some(list.into_iter().find(|(n, _)| n == "smp").expect("smp").1)
}

#[test]
fn a_run_does_not_depend_on_slices() {
    let Some(elf) = smp("slices") else { return };
    for timed in [false, true] {
        let first = run_program(&elf, timed, SLICE);
        assert_eq!(first.stop, Stop::PowerOff(0));
        assert!(first.report.harts.iter().all(|h| h.instructions > 1000));
        for slice in [SLICE, 1, 777, u64::MAX] {
            let again = run_program(&elf, timed, slice);
            assert_eq!(first, again, "timed: {timed}, slices of {slice}");
        }
    }
}

#[test]
fn machines_side_by_side_do_not_see_each_other() {
    let Some(elf) = smp("beside") else { return };
    let slices = [10_007, 33_333, 5_003];
    let modes = [true, false, true];
    let methods = ["method=dram", "method=dram", "method=extended"];
    let new = |k: usize| -> Machine {
        let mut m = build(&describe("vc707", &[methods[k]]), modes[k]);
        load(&mut m, &elf);
        m
    };
    let alone: Vec<Outcome> = (0..3).map(|k| run(&mut new(k), SLICE)).collect();
    assert_ne!(alone[0].cycles, alone[1].cycles);

    let mut machines: Vec<Machine> = (0..3).map(new).collect();
    let mut consoles = vec![Vec::new(); 3];
    let mut ends: Vec<Option<Stop>> = vec![None; 3];
    while ends.iter().any(Option::is_none) {
        for k in 0..3 {
            if ends[k].is_none() {
                let stop = machines[k].run(slices[k], None);
                consoles[k].extend(machines[k].console_output());
                ends[k] = (!matches!(stop, Stop::Slice | Stop::Idle(_))).then_some(stop);
            }
        }
    }
    for (k, alone) in alone.iter().enumerate() {
        let stop = ends[k].expect("an end");
        let beside = outcome(&mut machines[k], stop, std::mem::take(&mut consoles[k]));
        assert_eq!(*alone, beside, "machine {k}");
    }
}

#[test]
fn a_restarted_machine_runs_the_program_as_before() {
    let Some(elf) = smp("again") else { return };
    let mut m = build(&describe("vc707", &[]), false);
    load(&mut m, &elf);
    let first = run(&mut m, SLICE);
    let before = m.instructions();
    m.reset();
    assert_eq!(m.instructions(), before, "counters go on");
    load(&mut m, &elf);
    let second = run(&mut m, SLICE);
    assert_eq!((second.stop, &second.console), (first.stop, &first.console));
}

#[test]
fn what_is_in_memory_stays_over_a_reset() {
    let mut m = build(&describe("vc707", &["harts=2"]), true);
    // Hart 0: a line of DRAM and a line of NVMM are made dirty, then the machine restarts.
    let program = [
        0xf140_2573u32, // csrr  a0, mhartid
        0x0205_1863,    // bnez  a0, +48
        0x0010_0293,    // li    t0, 1
        0x01f2_9293,    // slli  t0, t0, 31
        0x0010_0313,    // li    t1, 1
        0x0153_1313,    // slli  t1, t1, 21
        0x0062_82b3,    // add   t0, t0, t1
        0x5a50_0393,    // li    t2, 0x5a5
        0x0072_b023,    // sd    t2, 0(t0)
        0x0010_0e37,    // lui   t3, 0x100
        0x0000_7eb7,    // lui   t4, 7
        0x777e_8e9b,    // addiw t4, t4, 0x777
        0x01de_2023,    // sw    t4, 0(t3)
        0x0000_006f,    // j     .
    ];
    load_words(&mut m, &program);
    m.ram().write_u64(3 << 30, 0x1234_5678).expect("NVMM");
    let o = run(&mut m, SLICE);
    assert_eq!(o.stop, Stop::Reset);
    m.reset();
    assert_eq!(m.ram().read_u64(2 << 20), Some(0x5a5));
    assert_eq!(m.ram().read_u64(3 << 30), Some(0x1234_5678));
    // Both harts are at reset, in M mode, and the machine is no further than it was.
    for i in 0..2 {
        let h = m.hart(i).expect("a hart");
        assert_eq!((h.state.pc, h.state.privilege as u64), (0, 3));
    }
    m.start_at(m.config().memory.base, 0, 0);
    assert_eq!(run(&mut m, SLICE).stop, Stop::Reset);
}
