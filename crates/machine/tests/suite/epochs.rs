//! NVMM that is emulated by epochs.

use crate::common::*;
use crate::search::compare::{Ran, Subject, REFERENCE, WAYS};
use nagori_config::Machine as Description;
use nagori_machine::{Engine, EpochReport, Machine, Report, Stop};

/// `ld a0, 0(a0)`, and back.
const CHASE: &[u32] = &[0x0005_3503, 0xffdf_f06f];
/// `ld a2, 0(a0)`, `sd a1, 8(a0)`, `mv a0, a2`, and back.
const WRITES: &[u32] = &[0x0005_3603, 0x00b5_3423, 0x0006_0513, 0xff5f_f06f];
/// Where lines begin in NVMM, and how many there are.
const LINES: (u64, u64) = (0x10_0000, 1 << 15);

/// A loop over lines of NVMM in random order for so many instructions.
fn walked(description: &Description, work: &[u32], steps: u64) -> Report {
    let mut m = Machine::new(description).expect("a machine");
    m.set_engine(Engine::best()).expect("an engine");
    let memory = m.config().memory.clone();
    let first = memory.nvmm_boundary.0 + LINES.0;
    let mut order: Vec<u64> = (0..LINES.1).collect();
    let mut rng = Rng::new(5);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64) as usize);
    }
    for (line, next) in (0..).zip(order) {
        let address = memory.base + first + 64 * next;
        let place = first + 64u64 * line;
        m.ram()
            .write_bytes(place, &address.to_le_bytes())
            .expect("room");
    }
    load_words(&mut m, work);
    m.hart_mut(0)
        .expect("a hart")
        .set_reg(10, memory.base + first);
    loop {
        match m.run(u64::MAX, Some(steps)) {
            Stop::Instructions => return m.report(),
            Stop::Slice => {}
            other => panic!("{other:?}"),
        }
    }
}

fn epochs(r: &Report) -> &EpochReport {
    r.epochs.as_ref().expect("epochs")
}

/// Settings of a machine with one hart, and more of them.
fn with(more: &[&str]) -> Description {
    let all = [&["harts=1", "epoch.length=\"100 us\""], more].concat();
    describe("vc707", &all)
}

#[test]
fn a_chase_takes_as_long_as_on_the_memory_itself() {
    const PCM: &str = "memory.regions.nvmm.model=pcm";
    for (own, emulated) in [
        (vec!["method=coarse"], vec!["epoch.of=coarse"]),
        (vec!["method=fine"], vec!["epoch.of=fine"]),
        (vec!["method=extended"], vec![]),
        (vec![PCM], vec![PCM]),
    ] {
        let truth = walked(&with(&own), CHASE, 60_000).cycles as f64;
        for formulas in ["koshiba", "quartz", "mesmeric", "misses"] {
            let variant = format!("epoch.variant={formulas}");
            let set = [&[variant.as_str()], &emulated[..]].concat();
            let r = walked(&with(&set), CHASE, 60_000);
            let error = r.cycles as f64 / truth - 1.0;
            assert!(error.abs() < 0.03, "{own:?} {formulas}: {error:+.3}");
            let e = epochs(&r);
            assert!(
                e.harts[0].counts.by_time > 10 && e.read_ps > e.dram_ps,
                "{e:?}"
            );
        }
    }
}

#[test]
fn what_is_asked_for_is_injected_to_the_cycle_and_nothing_else() {
    // Refreshes come at times of their own.
    const CALM: &str = "memory.controller.refresh.enabled=false";
    const VALUES: [&str; 4] = [
        "epoch.dram=\"700 ns\"",
        "epoch.read=\"1501 ns\"",
        "epoch.write=\"2777 ns\"",
        "epoch.weight=\"1\"",
    ];
    for work in [CHASE, WRITES] {
        let plain = walked(&with(&["method=dram", CALM]), work, 100_000);
        let mut set = vec![CALM, "epoch.variant=koshiba"];
        set.extend(VALUES);
        for length in ["epoch.length=\"10 us\"", "epoch.length=\"9999 us\""] {
            let r = walked(&with(&[&set[..], &[length]].concat()), work, 100_000);
            let e = &epochs(&r).harts[0];
            let asked = e.asked_ps as u64 / 20_000;
            assert!(e.counts.injected_cycles.abs_diff(asked) <= 1, "{e:?}");
            assert_eq!(
                r.cycles,
                plain.cycles + e.counts.injected_cycles,
                "{length}"
            );
            assert!(e.counts.injected_cycles > plain.cycles / 3);
        }
    }
}

#[test]
fn memory_that_is_as_fast_adds_nothing() {
    let set = [
        "epoch.variant=koshiba",
        "epoch.dram=\"700 ns\"",
        "epoch.read=\"700 ns\"",
        "epoch.write=\"700 ns\"",
        "epoch.weight=\"1\"",
    ];
    let plain = walked(&with(&["method=dram"]), WRITES, 50_000);
    let r = walked(&with(&set), WRITES, 50_000);
    assert_eq!(r.cycles, plain.cycles);
    assert_eq!(r.memory.total(), plain.memory.total());
}

#[test]
fn only_variants_that_know_write_backs_tell_reads_from_writes() {
    let run = |formulas: &str, write: &str| {
        let set = [
            format!("epoch.variant={formulas}"),
            format!("epoch.write=\"{write}\""),
            "epoch.dram=\"700 ns\"".into(),
            "epoch.read=\"700 ns\"".into(),
            "epoch.weight=\"1\"".into(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        walked(&with(&set), WRITES, 50_000).cycles
    };
    let plain = walked(&with(&["method=dram"]), WRITES, 50_000).cycles;
    assert_eq!(run("quartz", "7000 ns"), plain);
    let (twice, five) = (run("koshiba", "1400 ns"), run("koshiba", "3500 ns"));
    // Nearly every miss writes a line back.
    assert!(
        twice > plain * 3 / 2 && five > plain * 3,
        "{plain} {twice} {five}"
    );
}

#[test]
fn faults_of_counters_show() {
    let run = |fault: &str| {
        let set = [
            "epoch.variant=misses",
            "epoch.dram=\"700 ns\"",
            "epoch.read=\"1400 ns\"",
            "epoch.write=\"1400 ns\"",
            "epoch.weight=\"1\"",
            fault,
        ];
        let r = walked(&with(&set), CHASE, 50_000);
        (r.cycles, epochs(&r).harts[0])
    };
    let (plain, e) = run("epoch.faults.turns=1");
    assert_eq!(e.counts.reading_cycles, 0);
    let (more, _) = run("epoch.faults.speculation=200");
    assert!(more > plain * 21 / 20, "{plain} {more}");
    // A chase is the same all the time, but for its first epochs.
    let (turns, _) = run("epoch.faults.turns=3");
    assert!(
        turns != plain && turns.abs_diff(plain) < plain / 10,
        "{plain} {turns}"
    );
    // What reading takes is taken off the delay, where that is longer.
    let (read, e) = run("epoch.faults.reading=\"2 us\"");
    assert!(
        e.counts.reading_cycles > 0 && read.abs_diff(plain) < 200,
        "{plain} {read} {e:?}"
    );
}

/// Harts that hand over work: whatever the host does, the same.
#[test]
fn engines_slices_and_copies_make_no_difference() {
    let Some(programs) = programs("epochs") else {
        return;
    };
    const LEVELS: &[&str] = &[
        "l1d.mshrs=4",
        "store_buffer.entries=4",
        "cache.l2={ level = 2, shared_by = \"all\", size = \"32 KiB\", ways = 8, latency = 20 }",
    ];
    for (name, more) in [("contend", &[][..]), ("smp", LEVELS)] {
        let (_, elf) = programs.iter().find(|p| p.0 == name).expect(name);
        let describe = |set: &[String]| {
            let mut all = vec![
                "harts=4",
                // Copies of large memories take the host long.
                "memory.size=\"256 MiB\"",
                "memory.nvmm_boundary=\"128 MiB\"",
                "memory.controller.mapping.bank={ low = 25, bits = 3 }",
                "memory.controller.mapping.row={ low = 13, bits = 12 }",
                "epoch.variant=koshiba",
                "epoch.memory=all",
                "epoch.length=\"10 us\"",
                "epoch.faults.turns=2",
                "epoch.dram=\"600 ns\"",
                "epoch.read=\"900 ns\"",
                "epoch.write=\"3 us\"",
                "epoch.weight=\"4\"",
            ];
            all.extend(more);
            all.extend(set.iter().map(String::as_str));
            Some(describe("vc707", &all))
        };
        let subject = Subject {
            describe: &describe,
            load: &|m| load(m, elf),
            timed: true,
            memory: &[(0, 4 << 20)],
            most: 40_000_000,
            seed: 3,
        };
        let first = subject.run(&REFERENCE);
        let Ran::Ended(w) = &first else {
            panic!("{name} does not come to its end");
        };
        let e = epochs(&w.outcome.report);
        let ends: u64 = e
            .harts
            .iter()
            .map(|h| h.counts.by_time + h.counts.by_hand_over)
            .sum();
        assert!(ends > 100, "{name}: {e:?}");
        for way in &WAYS {
            if let Some(found) = subject.compare(&first, way) {
                panic!("{name} {more:?}, {}: {found:?}", way.name);
            }
        }
    }
}

#[test]
fn impossible_epochs_are_refused() {
    for (set, says) in [
        (&["epoch.variant=qartz"][..], "koshiba"),
        (&["epoch.length=\"1 us\""], "10 us to 10 ms"),
        (&["epoch.of=dram"], "coarse"),
        (&["epoch.shortest=\"2 ms\""], "longer than an epoch"),
        (
            &["epoch.variant=koshiba", "memory.nvmm_boundary=\"4 GiB\""],
            "no NVMM",
        ),
    ] {
        let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
        let library = nagori_config::Library::default();
        let e = Description::load(&library, "vc707", &set).unwrap_err();
        assert!(e.to_string().contains(says), "{e}");
    }
}

#[test]
fn what_cannot_be_measured_has_to_be_given() {
    let mut set = vec![
        "epoch.variant=koshiba",
        "memory.nvmm_boundary=\"3584 MiB\"",
        "cache.llc={ level = 2, shared_by = \"all\", size = \"256 MiB\", ways = 16, latency = 20 }",
    ];
    let e = Machine::new(&with(&set)).err().expect("an error");
    assert!(e.to_string().contains("MiB are needed"), "{e}");
    set.extend([
        "epoch.dram=\"1 us\"",
        "epoch.read=\"2 us\"",
        "epoch.write=\"3 us\"",
    ]);
    set.push("epoch.weight=\"4\"");
    assert!(Machine::new(&with(&set)).is_ok());
}
