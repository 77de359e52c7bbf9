//! Harts that fight for lines: what comes out follows from the machine alone.

use crate::common::*;
use nagori_machine::{Engine, Machine, Stop};

/// The program that is about contended lines.
pub fn contend(of: &str) -> Option<Vec<u8>> {
    program(of, "contend")
}

fn program(of: &str, name: &str) -> Option<Vec<u8>> {
    let mut list = programs(of)?.into_iter();
    Some(list.find(|(n, _)| n == name).expect(name).1)
}

pub fn run_with(elf: &[u8], settings: &[&str], engine: Engine, slice: u64) -> Outcome {
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
fn nor_what_harts_see_of_statistics() {
    let Some(elf) = program("watch", "watch") else {
        return;
    };
    let first = run_with(&elf, &[], Engine::Interpreter, u64::MAX);
    assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
    assert!(!first.console.contains("SKIP"), "{}", first.console);
    for (k, ahead) in ["1", "10", "77", "1000000"].into_iter().enumerate() {
        let engine = match k % 2 {
            0 => Engine::Translator(Default::default()),
            _ => Engine::Interpreter,
        };
        let set = [
            &format!("run_ahead_cycles={ahead}")[..],
            &format!("quantum_cycles={ahead}"),
        ];
        let slice = [777, 50_000, 1, 1_000_000][k];
        let again = run_with(&elf, &set, engine, slice);
        assert_eq!(first, again, "{ahead}, slices of {slice}");
    }
}

#[test]
fn sixteen_harts_fight_in_one_order() {
    let Some(elf) = program("crowd", "crowd") else {
        return;
    };
    let harts = ["harts=16"];
    let first = run_with(&elf, &harts, Engine::Interpreter, u64::MAX);
    assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
    assert_eq!(first.report.harts.len(), 16);
    for h in &first.report.harts {
        assert!(h.events.probes > 100, "{:?}", h.events);
    }
    let settings = ["harts=16", "run_ahead_cycles=77", "quantum_cycles=3"];
    let engine = Engine::Translator(Default::default());
    assert_eq!(first, run_with(&elf, &settings, engine, 5000));
    // Levels of which some are shared: the same results in other time.
    let all: Vec<&str> = harts.into_iter().chain(LEVELS).collect();
    let engine = Engine::Translator(Default::default());
    let levels = run_with(&elf, &all, engine, u64::MAX);
    assert_eq!(levels.stop, Stop::PowerOff(0), "{}", levels.console);
}

/// Caches behind the first level, so small that they give lines up all the time.
pub const LEVELS: [&str; 2] = [
    "cache.l2={ level = 2, shared_by = 2, size = \"4 KiB\", ways = 4, latency = 12, inclusion = \"non-inclusive\" }",
    "cache.llc={ level = 3, shared_by = \"all\", size = \"10 KiB\", ways = 5, latency = 40, probe_latency = 20, \
        replacement = \"srrip\" }",
];

#[test]
fn nor_with_caches_behind_the_first_level() {
    let Some(elf) = contend("levels") else { return };
    let [l2, llc] = LEVELS;
    let first = run_with(&elf, &[l2, llc], Engine::Interpreter, u64::MAX);
    assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
    let names: Vec<&str> = first
        .report
        .caches
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(names, ["l2", "llc"]);
    for c in &first.report.caches {
        let e = c.events;
        assert!(
            e.hits > 1000 && e.misses > 1000 && e.evictions > 1000,
            "{c:?}"
        );
    }
    let [near, far] = [first.report.caches[0].events, first.report.caches[1].events];
    assert_eq!(near.misses, far.hits + far.misses, "each miss goes on");
    assert!(far.back_invalidations > 100 && near.back_invalidations == 0);
    // What memory has read is what no level had, and upgrades are answered by the last one.
    assert_eq!(first.report.memory.total().reads, far.misses);
    for (k, ahead) in ["run_ahead_cycles=1", "run_ahead_cycles=1000000"]
        .into_iter()
        .enumerate()
    {
        let engine = Engine::Translator(Default::default());
        let again = run_with(&elf, &[l2, llc, ahead], engine, [777, 1_000_000][k]);
        assert_eq!(first, again, "{ahead}");
    }
}

/// L1s whose victims depend on hits, so small that much is replaced, alone and in front of others.
const POLICIES: [[&str; 4]; 3] = [
    [
        "l1d.replacement=\"lru\"",
        "l1i.replacement=\"lru\"",
        "l1d.size=1024",
        "l1i.size=1024",
    ],
    [
        "l1d.replacement=\"tree-plru\"",
        "l1i.replacement=\"srrip\"",
        "l1d.size=2048",
        "l1i.size=1024",
    ],
    [
        "l1d.replacement=\"srrip\"",
        "l1i.replacement=\"tree-plru\"",
        "l1d.size=1024",
        "l1i.size=512",
    ],
];

/// Inclusive levels of so few lines that they evict what is on its way to a hart.
const FEW: [&str; 3] = [
    "harts=4",
    "cache.l2={ level = 2, shared_by = 2, size = \"1 KiB\", ways = 1, latency = 12, inclusion = \"inclusive\" }",
    "cache.llc={ level = 3, shared_by = \"all\", size = \"1 KiB\", ways = 2, latency = 40, inclusion = \"inclusive\" }",
];

#[test]
fn an_inclusive_level_has_what_comes_after_it_was_evicted() {
    let Some(elf) = contend("inclusive") else {
        return;
    };
    for core in ["core=rocket", "core=inorder2"] {
        let settings = [&[core][..], &FEW].concat();
        let mut m = build(&describe("vc707", &settings), true);
        load(&mut m, &elf);
        for k in 0..1000 {
            assert_eq!(m.run(500, None), Stop::Slice);
            m.check_invariants()
                .unwrap_or_else(|e| panic!("{core}, {k}: {e}"));
        }
    }
}

#[test]
fn nor_with_policies_that_depend_on_hits() {
    let Some(elf) = contend("policies") else {
        return;
    };
    for (policies, levels) in POLICIES.iter().zip([&[][..], &LEVELS, &LEVELS]) {
        let settings: Vec<&str> = policies.iter().chain(levels).copied().collect();
        let first = run_with(&elf, &settings, Engine::Interpreter, u64::MAX);
        assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
        for (k, ahead) in ["run_ahead_cycles=1", "run_ahead_cycles=1000000"]
            .into_iter()
            .enumerate()
        {
            let engine = Engine::Translator(Default::default());
            let settings: Vec<&str> = settings.iter().copied().chain([ahead]).collect();
            let again = run_with(&elf, &settings, engine, [777, 1_000_000][k]);
            assert_eq!(first, again, "{settings:?}");
        }
    }
}

/// Outer levels with MSHRs, banks and prefetchers.
pub const AHEAD: [&str; 2] = [
    "cache.l2={ level = 2, shared_by = 2, size = \"4 KiB\", ways = 4, latency = 12, inclusion = \"non-inclusive\", \
     mshrs = 1, banks = 2, bank_cycles = 2, prefetcher = \"stride\", degree = 2 }",
    "cache.llc={ level = 3, shared_by = \"all\", size = \"10 KiB\", ways = 5, latency = 40, probe_latency = 20, \
     replacement = \"srrip\", mshrs = 3, banks = 4, bank_cycles = 5, prefetcher = \"next-line\", degree = 2, distance \
         = 4 }",
];

#[test]
fn nor_with_prefetches_and_misses_that_wait() {
    let Some(elf) = contend("ahead") else { return };
    let [l2, llc] = AHEAD;
    let first = run_with(&elf, &[l2, llc], Engine::Interpreter, u64::MAX);
    assert_eq!(first.stop, Stop::PowerOff(0), "{}", first.console);
    let [near, far] = [first.report.caches[0].events, first.report.caches[1].events];
    assert!(far.prefetches > 1000 && far.prefetch_late > 0 && far.prefetch_useless > 0);
    assert!(
        near.mshr_waits > 100 && far.bank_waits > 100,
        "{near:?} {far:?}"
    );
    for (k, [ahead, quantum]) in [
        ["run_ahead_cycles=1", "quantum_cycles=1"],
        ["run_ahead_cycles=77", "quantum_cycles=3"],
        ["run_ahead_cycles=1000000", "quantum_cycles=1000000"],
    ]
    .into_iter()
    .enumerate()
    {
        let engine = match k % 2 {
            0 => Engine::Translator(Default::default()),
            _ => Engine::Interpreter,
        };
        let settings = [l2, llc, ahead, quantum];
        let again = run_with(&elf, &settings, engine, [1_000_000, 777, 1][k]);
        assert_eq!(first, again, "{ahead}");
    }
}

#[test]
fn every_hart_gets_its_line_in_the_end() {
    let Some(elf) = contend("fair") else { return };
    for near in ["inclusive", "non-inclusive", "exclusive"] {
        for (shared_by, kib) in [(1, 1), (1, 16), (2, 4), (4, 4)] {
            let l2 = format!(
                "cache.l2={{ level = 2, shared_by = {shared_by}, size = \"{kib} KiB\", ways = 4, \
                 latency = 9, inclusion = \"{near}\" }}"
            );
            for llc in [
                None,
                Some(LEVELS[1]),
                Some(&LEVELS[1].replace("srrip", "random")[..]),
                Some(AHEAD[1]),
            ] {
                let settings: Vec<&str> = [&l2[..]].into_iter().chain(llc).collect();
                let mut m = build(&describe("vc707", &settings), true);
                m.set_engine(Engine::Translator(Default::default()))
                    .expect("an engine");
                load(&mut m, &elf);
                // A second; without other levels it takes 34 ms.
                let mut stop = Stop::Slice;
                for _ in 0..50 {
                    stop = m.run(1_000_000, None);
                    if !matches!(stop, Stop::Slice | Stop::Idle(_)) {
                        break;
                    }
                }
                assert_eq!(stop, Stop::PowerOff(0), "{settings:?}");
            }
        }
    }
}

#[test]
fn a_snapshot_in_the_middle_of_a_fight_changes_nothing() {
    let Some(elf) = contend("saved") else { return };
    for settings in [&[][..], &LEVELS, &AHEAD, &POLICIES[0], &POLICIES[2]] {
        interrupted(&elf, settings);
    }
}

pub fn interrupted(elf: &[u8], settings: &[&str]) {
    let description = describe("vc707", settings);
    let begin = || {
        let mut m = build(&description, true);
        load(&mut m, elf);
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

/// Two harts share the one register of their level: each gives it back behind the other one's back.
#[test]
fn stores_that_found_no_register_are_tried_again() {
    let Some(elf) = contend("single") else {
        return;
    };
    let levels = [
        "harts=4",
        "cache.l2={ level = 2, shared_by = 2, size = \"4 KiB\", ways = 4, latency = 12, inclusion = \"non-inclusive\", \
            mshrs = 1 }",
        "cache.llc={ level = 3, shared_by = \"all\", size = \"10 KiB\", ways = 5, latency = 40, probe_latency = 20 }",
    ];
    let settings = [&levels, crate::litmus::IN_ORDER].concat();
    let mut m = build(&describe("vc707", &settings), true);
    load(&mut m, &elf);
    // It executes two million instructions.
    assert_eq!(m.run(u64::MAX, Some(10_000_000)), Stop::PowerOff(0));
}
