//! Harts that fight for lines: what comes out follows from the machine alone.

use crate::common::*;
use nagori_platform::machine::{Engine, Machine, Stop};

/// The program that is about contended lines.
fn contend(of: &str) -> Option<Vec<u8>> {
    let list = programs(of)?;
    Some(
        list.into_iter()
            .find(|(n, _)| n == "contend")
            .expect("contend")
            .1,
    )
}

fn run_with(elf: &[u8], settings: &[&str], engine: Engine, slice: u64) -> Outcome {
    let mut m = build(&describe("vc707", settings), true);
    m.set_engine(engine).expect("an engine");
    load(&mut m, elf);
    run(&mut m, slice)
}

#[test]
fn no_setting_for_the_host_changes_a_cycle() {
    let Some(elf) = contend("contended") else {
        return;
    };
    for method in ["method=dram", "method=extended"] {
        let first = run_with(&elf, &[method], Engine::Interpreter, u64::MAX);
        assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
        let contended = first.report.harts.iter().map(|h| h.events.probes);
        assert!(contended.sum::<u64>() > 10_000, "lines moved");
        let settings = [
            ["run_ahead_cycles=1", "quantum_cycles=1"],
            ["run_ahead_cycles=10", "quantum_cycles=10"],
            ["run_ahead_cycles=77", "quantum_cycles=3"],
            ["run_ahead_cycles=200", "quantum_cycles=10"],
            ["run_ahead_cycles=1000000", "quantum_cycles=1000000"],
        ];
        for (k, [ahead, quantum]) in settings.into_iter().enumerate() {
            let engine = match k % 2 {
                0 => Engine::Translator(Default::default()),
                _ => Engine::Interpreter,
            };
            let slice = [1_000_000, 777, 50_000, 1, 4096][k];
            let again = run_with(&elf, &[method, ahead, quantum], engine, slice);
            assert_eq!(
                first, again,
                "{method}, {ahead}, {quantum}, slices of {slice}"
            );
        }
    }
}

#[test]
fn a_snapshot_in_the_middle_of_a_fight_changes_nothing() {
    let Some(elf) = contend("saved") else { return };
    let description = describe("vc707", &[]);
    let begin = || {
        let mut m = build(&description, true);
        load(&mut m, &elf);
        m
    };
    let mut whole = begin();
    let whole = run(&mut whole, 1_000_000);
    assert_eq!(whole.stop, Stop::PowerOff(0));
    let mut rng = Rng::new(7);
    let mut m: Machine = begin();
    let mut console = Vec::new();
    let stop = loop {
        let stop = m.run(1 + rng.below(20_000), None);
        console.extend(m.console_output());
        if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
            break stop;
        }
        if rng.one_in(40) {
            let state = m.save_state();
            let mut copy = build(&description, true);
            let mut page = vec![0; 1 << 16];
            for at in (0..64u64 << 20).step_by(page.len()) {
                m.ram().read_bytes(at, &mut page).expect("in memory");
                if page.iter().any(|b| *b != 0) {
                    copy.ram().write_bytes(at, &page).expect("in memory");
                }
            }
            copy.load_state(state).expect("a state");
            m = copy;
        }
    };
    assert_eq!(whole, outcome(&mut m, stop, console));
}
