//! A core that does not wait for loads, in a machine: harts take lines from one another while loads are on their way,
//! and no setting of the host, engine or snapshot changes a cycle.

use crate::ahead::{machine, run_for, EAGER};
use crate::common::random::op;
use crate::common::{build, describe, load_words};
use crate::contended::{contend, interrupted, run_with, AHEAD, LEVELS};
use nagori_isa::Op;
use nagori_machine::{Engine, Stop};

const CORE: &str = "core=inorder2";
/// Few buffers, a prefetcher that shares them, and replacement that depends on hits.
const FEW: &[&str] = &[
    CORE,
    "l1d.mshrs=3",
    "l1d.prefetcher=stride",
    "l1d.degree=2",
    "l1d.replacement=tree-plru",
    "l1i.mshrs=2",
    "l1i.prefetcher=next-line",
];
/// Caches of few sets.
const SMALL: &[&str] = &[
    CORE,
    "l1d.size=\"1 KiB\"",
    "l1d.mshrs=2",
    "l1d.prefetcher=next-line",
    "l1i.size=\"1 KiB\"",
];

#[test]
fn neither_engine_nor_slices_change_a_cycle_where_harts_fight() {
    let Some(elf) = contend("loads") else { return };
    let more: [&[&str]; 3] = [&[], &LEVELS, &AHEAD];
    for (keys, more) in [&[CORE], FEW, SMALL].into_iter().zip(more) {
        let settings = [keys, more].concat();
        let first = run_with(&elf, &settings, Engine::Interpreter, u64::MAX);
        assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
        let name = |k: usize| format!("{settings:?}, {k}");
        for (k, [ahead, quantum]) in [
            ["run_ahead_cycles=1", "quantum_cycles=1"],
            ["run_ahead_cycles=77", "quantum_cycles=3"],
            ["run_ahead_cycles=1000000", "quantum_cycles=1000000"],
        ]
        .into_iter()
        .enumerate()
        {
            let engine = match k {
                1 => Engine::Interpreter,
                _ => EAGER,
            };
            let settings = [&settings[..], &[ahead, quantum]].concat();
            let slice = [1_000_000, 777, 1][k];
            let again = run_with(&elf, &settings, engine, slice);
            assert_eq!(first, again, "{}", name(k));
        }
    }
}

#[test]
fn nor_does_a_snapshot() {
    let Some(elf) = contend("loads-saved") else {
        return;
    };
    interrupted(&elf, &[CORE]);
    interrupted(&elf, &[FEW, &LEVELS].concat());
    interrupted(&elf, &[SMALL, &AHEAD].concat());
}

/// Loads from `lines` lines, one after the other, and then uses of all of them, again and again.
fn groups(lines: u8) -> Vec<u32> {
    let mut words: Vec<u32> = (0..lines)
        .map(|k| op(Op::Ld, 16 + k, 10, 0, 64 * i32::from(k)))
        .collect();
    words.extend((0..lines).map(|k| op(Op::Add, 5, 16 + k, 5, 0)));
    words.push(op(Op::Addi, 10, 10, 0, 64 * i32::from(lines)));
    let here = words.len() as i32;
    words.push(op(Op::Jal, 0, 0, 0, -4 * here));
    words
}

#[test]
fn loads_overlap_in_memory() {
    for more in [&[][..], &["harts=2"][..]] {
        let cost = |core: &str, lines: u8| {
            let words = groups(lines);
            let keys = [&[core, "clock_hz=\"1 GHz\""], more].concat();
            let n = 2 * u64::from(lines) + 2;
            let groups = 24 / u64::from(lines) * 40;
            let o = run_for(&mut machine(&keys, &words, EAGER), groups * n, u64::MAX);
            o.cycles.iter().max().copied().unwrap_or(0)
        };
        let (one, eight) = (cost(CORE, 1), cost(CORE, 8));
        assert!(eight * 2 < one, "{more:?}: {eight}, {one}");
        let waits = cost("core=rocket", 8);
        assert!(eight * 2 < waits, "{more:?}: {eight}, {waits}");
    }
}

#[test]
fn engines_agree_on_groups_of_loads() {
    for lines in [1, 3, 8] {
        for settings in [&[CORE][..], FEW, SMALL, &["harts=3", CORE]] {
            let words = groups(lines);
            let of = |engine, slice| {
                let mut m = machine(settings, &words, engine);
                run_for(&mut m, 20_000, slice)
            };
            let first = of(Engine::Interpreter, u64::MAX);
            assert_eq!(first, of(EAGER, u64::MAX), "{settings:?}");
            assert_eq!(first, of(EAGER, 333), "{settings:?}");
        }
    }
}

/// What is on its way when a `fence.i` empties L1I is not taken; if it is the line that is needed, it comes once more,
/// and no filter covers the first.
#[test]
fn a_line_that_comes_in_vain_leaves_no_filter() {
    const NOP: u32 = 0x13;
    let mut words = vec![NOP; 0x1000 / 4];
    words[0x3c / 4] = 0x100f; // fence.i, at the end of a line
    words[0x44 / 4] = 0x7bd0_006f; // j 0x1000: another line
    words.push(0x6f); // j .
    for core in ["core=inorder2", "core=rocket"] {
        let mut m = build(&describe("small", &["harts=1", core]), true);
        load_words(&mut m, &words);
        for _ in 0..100 {
            m.run(10, None);
            m.check_invariants().expect("filters cover what is there");
        }
    }
}
