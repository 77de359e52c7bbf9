//! Stores past the caches in the light mode: what they cost, that they are where they have to be, and what a power cut takes.

use crate::ahead::EAGER;
use crate::common::*;
use crate::light::{alone, error_of, nothing_depends, rich};
use crate::power::{start, NVMM};
use crate::stores::{
    contents, fence, full, machines, nt, random, ready, run_idle, FENCE_R, FENCE_W, NT,
};
use nagori_platform::machine::{Dram, Engine, EpochLength, Machine, Quiet, Stop};

/// Hints (ntl.all) with `sd` for all of a line, and `addi x11, x11, 64`.
fn line_past_caches() -> Vec<u32> {
    let stores = (0..8u32).flat_map(|k| {
        let offset = 8 * k;
        [
            0x0050_0033,
            0x0065_b023 | (offset & 31) << 7 | (offset >> 5) << 25,
        ]
    });
    stores.chain([0x0405_8593]).collect()
}

#[test]
fn stores_past_the_caches_cost_what_they_do_in_the_detailed_mode() {
    let settings = ["l1d.mshrs=10", NT];
    let dense = line_past_caches();
    // Between two lines, what writes a line is over.
    let sparse = [&dense[..], &[0x0073_8393; 120]].concat();
    // Each line is waited for, at once or not.
    let fenced = [&dense[..], &[0x0330_000f]].concat();
    let later = [&dense[..], &[0x0073_8393; 6], &[0x0330_000f]].concat();
    let mut errors = Vec::new();
    for words in [dense, sparse, fenced, later] {
        let detailed = alone(&settings, &words, false);
        let light = alone(&settings, &words, true);
        errors.push(error_of(&light, &detailed));
        let lines = light.report().light.expect("its statistics").memories[1].1;
        // The other harts fill one each.
        assert_eq!((lines.nt_stores, lines.loads + lines.stores), (20_003, 0));
    }
    assert!(errors.iter().all(|e| e.abs() < 0.05), "{errors:?}");
}

#[test]
fn nothing_depends_on_them_where_stores_are_buffered() {
    let buffers = ["l1d.mshrs=4", "store_buffer.entries=8", NT];
    nothing_depends(&buffers, &["atomic", "cache"], &[4096], rich);
}

/// In the light mode, in short epochs.
fn light(m: &mut Machine, settings: &[&str]) {
    let length = EpochLength {
        time: nagori_memtime::Ps(20_000_000),
        instructions: None,
    };
    let costs = rich(&describe("small", settings));
    m.set_light(costs, length).expect("the light mode");
}

#[test]
fn results_are_those_without_hints() {
    for seed in 0..env("NAGORI_STORES_SEEDS", 10) {
        let words = random(&mut Rng::new(seed), false);
        let mut plain = ready(&words, &["harts=2"], EAGER);
        run_idle(&mut plain);
        let expected = contents(&plain);
        for settings in machines() {
            let mut m = ready(&words, &settings, EAGER);
            light(&mut m, &settings);
            run_idle(&mut m);
            assert_eq!(contents(&m), expected, "seed {seed}: {settings:?}");
            let all = m.report().stores;
            assert!(all
                .iter()
                .all(|s| s.events.buffered == 0 && s.events.nt_stores > 0));
        }
    }
}

#[test]
fn no_setting_of_the_host_and_no_snapshot_changes_a_cycle() {
    let mut copies = 0;
    for seed in 0..env("NAGORI_STORES_SEEDS", 10) {
        let words = random(&mut Rng::new(seed), seed % 2 == 0);
        for settings in machines() {
            let name = format!("seed {seed}: {settings:?}");
            let ready = |settings: &[&str], engine| {
                let mut m = ready(&words, settings, engine);
                light(&mut m, settings);
                m
            };
            let idle = |m: &mut Machine| {
                run_idle(m);
                (outcome(m, Stop::Slice, Vec::new()), contents(m))
            };
            let first = idle(&mut ready(&settings, Engine::Interpreter));
            for (ahead, engine) in [("1", EAGER), ("77", Engine::Interpreter), ("100000", EAGER)] {
                let ahead = ["run_ahead_cycles", "quantum_cycles"].map(|k| format!("{k}={ahead}"));
                let all: Vec<&str> = { settings.iter().copied() }
                    .chain(ahead.iter().map(|s| &s[..]))
                    .collect();
                assert_eq!(idle(&mut ready(&all, engine)), first, "{name}, {ahead:?}");
            }
            // In small slices, now and then with a copy that goes on.
            let mut rng = Rng::new(seed);
            let mut m = ready(&settings, EAGER);
            while m.run(rng.below(60) + 1, None) == Stop::Slice {
                if rng.one_in(60) {
                    let copy = m.checkpoint().expect("a checkpoint");
                    m = copy.fork(Quiet).expect("a fork");
                    m.set_engine(EAGER).expect("an engine");
                    copies += 1;
                }
            }
            assert_eq!(idle(&mut m), first, "{name}, with copies");
        }
    }
    assert!(copies > 10, "{copies}");
}

#[test]
fn a_power_cut_takes_what_has_not_left() {
    let settings = ["l1d.mshrs=4", NT, "memory.track_persistence=true"];
    let kept = |words: &[u32], leaves: bool| {
        let mut words = words.to_vec();
        words.extend([0x1050_0073, 0xffdf_f06f]);
        let mut m = start(&words, &settings, true, Engine::Interpreter);
        light(&mut m, &settings);
        m.hart_mut(0).expect("a hart").set_reg(11, 1);
        run_idle(&mut m);
        if leaves {
            m.leave_light();
        }
        m.power_cut(Dram::Zero).expect("a cut");
        m.ram().read_u64(NVMM + 8).expect("in memory")
    };
    let mut words = nt(11, 8).to_vec();
    assert_eq!(kept(&words, false), 0, "in a line fill buffer");
    assert_eq!(kept(&words, true), 1, "a change of mode writes it");
    words.push(fence(FENCE_R));
    assert_eq!(kept(&words, false), 0, "no such fence");
    words.push(fence(FENCE_W));
    assert_eq!(kept(&words, false), 1, "drained");
    assert_eq!(kept(&full(0), false), 1, "it has left by itself");
    // Five lines need five buffers.
    let parts: Vec<u32> = (0..5).flat_map(|k| nt(11, 64 * k + 8)).collect();
    assert_eq!(kept(&parts, false), 1, "the oldest has left");
}
