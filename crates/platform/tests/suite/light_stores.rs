//! Stores past the caches in the light mode: what they cost, that they are where they have to be, and what a power cut takes.

use crate::common::*;
use crate::light::{alone, error_of, nothing_depends, rich};
use crate::power::{start, NVMM};
use crate::stores::{
    compare_results, compare_runs, fence, full, nt, run_idle, FENCE_R, FENCE_W, NT,
};
use nagori_platform::machine::{Dram, Engine, EpochLength, Machine};

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
    compare_results(light, |s| s.events.buffered == 0 && s.events.nt_stores > 0);
}

#[test]
fn no_setting_of_the_host_and_no_snapshot_changes_a_cycle() {
    compare_runs(light);
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
