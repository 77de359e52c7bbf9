//! The light timed mode: the same with either engine and in any slices, also over a snapshot; near the detailed mode
//! where that is simple; and the delay of an epoch reaches those who wait for what the hart has done.

use crate::common::*;
use nagori_platform::config::Machine as Description;
use nagori_platform::machine::{
    calibrate, light_key, Area, Engine, EpochLength, InOrder, LightModel, LineCosts, Machine,
    Quiet, Stop, GAPS,
};
use nagori_platform::snapshot::{Bytes, Meta, Snapshot};

const FENCE: u32 = 0x0310_000f;
/// `sd x7, 0(x9)`, and `amoswap.d x6, x7, (x9)`.
const STORE: u32 = 0x0074_b023;
const SWAP: u32 = 0x0874_b32f;
/// Lines that each hart of a chain reads.
const LINES: u64 = 500;
/// Core cycles of a read of NVMM in `slow`.
const READ: u64 = 250;

/// A model in which DRAM costs 13 cycles and NVMM `READ`, and writes cost nothing.
fn slow(d: &Description) -> LightModel {
    let costs = |cycles: u64| LineCosts {
        read_ps: [cycles * 20_000; GAPS],
        ..LineCosts::default()
    };
    let (boundary, size) = (d.config.memory.nvmm_boundary.0, d.config.memory.size.0);
    let area = |name: &str, base, end, cycles| Area {
        name: name.into(),
        base,
        end,
        board: false,
        costs: vec![costs(cycles)],
    };
    LightModel {
        machine: d.config.name.clone(),
        key: light_key(d),
        last_hit: nagori_memtime::Ps::ZERO,
        gap_bits: 0,
        areas: vec![
            area("dram", 0, boundary, 13),
            area("nvmm", boundary, size, READ),
        ],
    }
}

/// The same, and everything else that the light mode knows of memories of any kind: written lines, lines in order, and what
/// harts wait for one another.
pub(crate) fn by_class(d: &Description) -> LightModel {
    let mut model = slow(d);
    for area in &mut model.areas {
        let c = &mut area.costs[0];
        for gap in 0..GAPS {
            let less = 20_000 * gap as u64 / 2;
            c.read_ps[gap] = 4 * c.read_ps[gap] - less;
            c.write_back_ps[gap] = 2 * c.read_ps[gap];
            c.flush_ps[gap] = 3 * c.read_ps[gap];
        }
        (c.queue_read_ps, c.queue_write_ps) = (500_000, 700_000);
        let half = |of: [u64; GAPS]| of.map(|c| c / 2);
        c.in_order = Some(InOrder {
            read_ps: half(c.read_ps),
            ahead_ps: c.read_ps[0] / 3,
            write_back_ps: half(c.write_back_ps),
            flush_ps: half(c.flush_ps),
            past_ps: c.past_ps,
            stores_ps: c.stores_ps,
        });
    }
    model
}

/// The same, of memory on the board.
pub(crate) fn rich(d: &Description) -> LightModel {
    let mut model = by_class(d);
    for area in &mut model.areas {
        area.board = true;
    }
    model
}

/// Epochs that do not end by themselves in such a test.
fn endless() -> EpochLength {
    EpochLength {
        time: nagori_memtime::Ps(1_000_000_000_000),
        instructions: None,
    }
}

/// Four harts in a chain: each waits for its flag, reads lines of NVMM, and sets the flag of the next one by
/// `hand_over`. Returns the cycle at which the last one is done.
fn chain(
    hand_over: &[u32],
    light: Option<(LightModel, EpochLength)>,
    engine: Engine,
    slice: u64,
) -> u64 {
    let mut m = build(&describe("vc707", &[]), true);
    m.set_engine(engine).expect("an engine");
    m.set_method(nagori_platform::config::Method::Coarse)
        .expect("a method");
    let mut words = vec![
        0x0004_3303, // ld x6, 0(x8)
        0xfe03_0ee3, // beqz x6, -4
        0x0005_b303, // ld x6, 0(x11)
        0x00d5_85b3, // add x11, x11, x13
        0xfff6_0613, // addi x12, x12, -1
        0xfe06_1ae3, // bnez x12, -12
    ];
    words.extend(hand_over);
    words.extend([0x1050_0073, 0xffdf_f06f]); // wfi, and again
    load_words(&mut m, &words);
    let base = m.config().memory.base;
    let flag = |k: u64| base + 0x10_0000 + 0x1000 * k;
    m.ram()
        .write_bytes(flag(0) - base, &1u64.to_le_bytes())
        .expect("in memory");
    for k in 0..4 {
        let h = m.hart_mut(k as usize).expect("a hart");
        h.set_reg(8, flag(k));
        h.set_reg(9, flag(k + 1));
        h.set_reg(7, 1);
        h.set_reg(11, base + (1 << 30) + (k << 24));
        h.set_reg(12, LINES);
        h.set_reg(13, 64);
    }
    if let Some((model, length)) = light {
        m.set_light(model, length).expect("the light mode");
    }
    // It ends when all of them sleep, and nothing is due.
    while !m.is_waiting() {
        let stop = m.run(slice, None);
        assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
        let now = m.hart(3).expect("a hart").cycle;
        assert!(now < 100_000_000, "it does not end");
    }
    m.hart(3).expect("a hart").cycle
}

#[test]
fn a_chain_of_harts_passes_their_delays_on() {
    let d = describe("vc707", &[]);
    for hand_over in [&[FENCE, STORE][..], &[SWAP], &[STORE]] {
        let how = || Some((slow(&d), endless()));
        let end = chain(hand_over, how(), Engine::Interpreter, u64::MAX);
        let least = 4 * LINES * READ;
        // Beside memory: instructions, the core's part of each miss, and four times a flag.
        assert!(
            (least..least + 4 * LINES * 60).contains(&end),
            "{hand_over:x?}: {end}, at least {least}"
        );
        for slice in [1, 777, 50_000] {
            let translated = Engine::Translator(Default::default());
            let again = chain(hand_over, how(), translated, slice);
            assert_eq!(end, again, "{hand_over:x?} in slices of {slice}");
        }
    }
}

#[test]
fn a_calibrated_chain_takes_as_long_as_in_the_detailed_mode() {
    let model = calibrate(&describe("vc707", &[])).expect("costs");
    let detailed = chain(&[FENCE, STORE], None, Engine::Interpreter, u64::MAX);
    // What harts meet is estimated from their last epochs, so these are not longer than usual.
    let how = Some((model, EpochLength::default()));
    let light = chain(&[FENCE, STORE], how, Engine::Interpreter, u64::MAX);
    let error = light as f64 / detailed as f64 - 1.0;
    assert!(error.abs() < 0.05, "{detailed} and {light} cycles: {error}");
}

/// Harts that read lines of NVMM in order at the same time, each its own. Returns the cycle at which the last one is done.
fn crowd(harts: u64, method: nagori_platform::config::Method, light: Option<LightModel>) -> u64 {
    let mut m = build(&describe("vc707", &["epoch.sampled_sets=1"]), true);
    m.set_method(method).expect("a method");
    let words = [
        0x0005_b303, // ld x6, 0(x11)
        0x00d5_85b3, // add x11, x11, x13
        0xfff6_0613, // addi x12, x12, -1
        0xfe06_1ae3, // bnez x12, -12
        0x1050_0073, // wfi, and again
        0xffdf_f06f,
    ];
    load_words(&mut m, &words);
    let base = m.config().memory.base;
    for k in 0..4 {
        let h = m.hart_mut(k as usize).expect("a hart");
        h.set_reg(11, base + (1 << 30) + (k << 24));
        h.set_reg(12, if k < harts { 4 * LINES } else { 1 });
        h.set_reg(13, 64);
    }
    if let Some(model) = light {
        let length = EpochLength {
            time: nagori_memtime::Ps(20_000_000),
            instructions: None,
        };
        m.set_light(model, length).expect("the light mode");
    }
    while !m.is_waiting() {
        let stop = m.run(u64::MAX, None);
        assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
    }
    let cycle = |k| m.hart(k).expect("a hart").cycle;
    (0..harts as usize).map(cycle).max().unwrap_or(0)
}

#[test]
fn what_one_hart_waits_for_others_and_what_rows_save_is_estimated() {
    use nagori_platform::config::Method::{Coarse, Dram, Extended, Fine};
    let model = calibrate(&describe("vc707", &[])).expect("costs");
    // In random order, a line under `extended` costs several times as much; four harts wait four times as long under
    // `coarse`, where the controller has one read at a time, and for one another's rows under `fine` and `extended`.
    let each = [Dram, Coarse, Fine, Extended].map(|m| [(1, m), (2, m), (4, m)]);
    for (harts, method) in each.into_iter().flatten() {
        let most = if method == Extended { 0.06 } else { 0.03 };
        let detailed = crowd(harts, method, None);
        let light = crowd(harts, method, Some(model.clone()));
        let error = light as f64 / detailed as f64 - 1.0;
        assert!(
            error.abs() < most,
            "{harts} harts, {method:?}: {detailed} and {light} cycles: {error}"
        );
    }
}

/// One hart that stores to lines of NVMM in order and reads others at random, by instructions that a loop repeats. Returns
/// the machine when it is done.
pub(crate) fn alone(settings: &[&str], words: &[u32], light: bool) -> Machine {
    alone_on("vc707", settings, words, light)
}

fn alone_on(machine: &str, settings: &[&str], words: &[u32], light: bool) -> Machine {
    let d = describe(machine, settings);
    let mut m = build(&d, true);
    m.set_method(nagori_platform::config::Method::Coarse)
        .expect("a method");
    let mut all = words.to_vec();
    let back = 4 * (all.len() as u32 + 1);
    all.push(0xfff6_0613); // addi x12, x12, -1
    let imm = back.wrapping_neg();
    all.push(
        0x0006_1063
            | (imm >> 12 & 1) << 31
            | (imm >> 5 & 63) << 25
            | (imm >> 1 & 15) << 8
            | (imm >> 11 & 1) << 7,
    );
    all.extend([FENCE, 0x1050_0073, 0xffdf_f06f]); // wfi, and again
    load_words(&mut m, &all);
    let base = m.config().memory.base;
    let h = m.hart_mut(0).expect("a hart");
    h.set_reg(11, base + (1 << 30));
    h.set_reg(12, 20_000);
    for k in 1..4 {
        m.hart_mut(k).expect("a hart").set_reg(12, 1);
        m.hart_mut(k)
            .expect("a hart")
            .set_reg(11, base + (1 << 30) + ((k as u64) << 26));
    }
    if light {
        let model = calibrate(&d).expect("costs");
        m.set_light(model, EpochLength::default())
            .expect("the light mode");
    }
    while !m.is_waiting() {
        let stop = m.run(u64::MAX, None);
        assert!(matches!(stop, Stop::Slice | Stop::Idle(_)), "{stop:?}");
    }
    m
}

/// `error`: of the cycles of hart 0.
pub(crate) fn error_of(light: &Machine, detailed: &Machine) -> f64 {
    let cycle = |m: &Machine| m.hart(0).expect("a hart").cycle as f64;
    cycle(light) / cycle(detailed) - 1.0
}

/// `ld x6, 0(x11)`, `sd x6, 8(x11)`, `addi x11, x11, 192`: every third line is read and written.
const THIRDS: [u32; 3] = [0x0005_b303, 0x0065_b423, 0x0c05_8593];

#[test]
fn a_sample_of_sets_stands_for_all() {
    let detailed = alone(&[], &THIRDS, false);
    for sets in [1, 4, 16] {
        let m = alone(&[&format!("epoch.sampled_sets={sets}")], &THIRDS, true);
        let error = error_of(&m, &detailed);
        assert!(error.abs() < 0.03, "one set in {sets}: {error}");
        let counts = |m: &Machine| {
            let events = m.report().harts[0].events;
            [events.l1d_load_misses, events.l1d_writebacks]
        };
        for (all, some) in counts(&detailed).into_iter().zip(counts(&m)) {
            let off = some as f64 / all as f64 - 1.0;
            assert!(off.abs() < 0.03, "one set in {sets}: {some} of {all}");
        }
    }
}

/// `ld x6, 0(x11)`, `sd x6, 8(x11)`, `addi x11, x11, 64`: every line, or with another step every twenty-fifth.
const IN_ORDER: [u32; 3] = [0x0005_b303, 0x0065_b423, 0x0405_8593];
const FAR_APART: [u32; 3] = [0x0005_b303, 0x0065_b423, 0x6405_8593];

#[test]
fn a_sample_of_sets_stands_for_all_behind_any_replacement_and_outer_levels() {
    for replacement in ["lru", "tree-plru", "srrip", "random"] {
        let policy = format!("l1d.replacement={replacement}");
        let detailed = alone_on("server-caches", &[&policy], &THIRDS, false);
        let m = alone_on("server-caches", &[&policy], &THIRDS, true);
        let light = m.report().light.expect("statistics of the light mode");
        assert!(light.sampled_epochs > 100, "{light:?}");
        let error = error_of(&m, &detailed);
        assert!(error.abs() < 0.03, "{replacement}: {error}");
        let counts = |m: &Machine| {
            let report = m.report();
            let (l2, memory) = (&report.caches[0].events, report.harts[0].events);
            [l2.misses, l2.writes, l2.evictions, memory.l1d_load_misses]
        };
        for (all, some) in counts(&detailed).into_iter().zip(counts(&m)) {
            let off = some as f64 / all as f64 - 1.0;
            assert!(off.abs() < 0.05, "{replacement}: {some} of {all}");
        }
    }
}

#[test]
fn lines_in_order_cost_what_they_do_in_order() {
    for (model, longer) in [("xpoint", 1.05), ("ddr4-2400r", 1.0)] {
        let region = format!("memory.regions.nvmm.model={model}");
        let settings = [&region[..], "epoch.sampled_sets=1", "epoch.sampled_time=1"];
        let cycles = |words: &[u32]| {
            let detailed = alone(&settings, words, false);
            let m = alone(&settings, words, true);
            let error = error_of(&m, &detailed);
            assert!(error.abs() < 0.05, "{model}, {words:x?}: {error}");
            let h = m.hart(0).expect("a hart");
            h.cycle as f64
        };
        let ratio = cycles(&FAR_APART) / cycles(&IN_ORDER);
        assert!(ratio > longer, "{model}: {ratio}");
    }
}

#[test]
fn harts_go_on_behind_loads_and_stores() {
    let settings = [
        "core=inorder2",
        "l1d.mshrs=10",
        "store_buffer.entries=16",
        "epoch.sampled_time=1",
    ];
    // Lines that are read, and lines that are written: several are under way at a time.
    for work in [[0x0005_b303, 0x0c05_8593], [0x0065_b423, 0x0c05_8593]] {
        let detailed = alone(&settings, &work, false);
        let m = alone(&settings, &work, true);
        let error = error_of(&m, &detailed);
        assert!(error.abs() < 0.05, "{work:x?}: {error}");
    }
    // What such a line costs is what it takes if it is waited for, whatever comes behind it.
    let model = calibrate(&describe("vc707", &settings)).expect("costs");
    let costs = model.areas[0].under(nagori_platform::config::Method::Dram);
    let latency = 200_000..350_000;
    assert!(
        costs.read_ps.iter().all(|c| latency.contains(c)),
        "{costs:?}"
    );
}

#[test]
fn sets_are_sampled_while_a_hart_works_alone() {
    let sampled = |m: &Machine| {
        let light = m.report().light.expect("statistics of the light mode");
        let all: u64 = light.epochs.iter().map(|e| e.1).sum();
        (light.sampled_epochs, all)
    };
    let (some, all) = sampled(&alone(&[], &THIRDS, true));
    assert!(some > all * 3 / 4, "{some} of {all}, one hart works");
    let d = describe("vc707", &["harts=1"]);
    let mut m = build(&d, true);
    m.set_light(slow(&d), EpochLength::default())
        .expect("the light mode");
    load_words(&mut m, &[0x0000_006f]);
    m.run(1_000_000, None);
    let (some, all) = sampled(&m);
    assert!(some > all / 2, "{some} of {all}, one hart");
    let (some, _) = sampled(&alone(&["epoch.sampled_sets=1"], &THIRDS, true));
    assert_eq!(some, 0, "not asked for");
    let (some, _) = sampled(&alone(&["l1d.mshrs=2"], &THIRDS, true));
    assert_eq!(some, 0, "not possible");
    let Some(all) = programs("light") else {
        return;
    };
    let (_, elf) = all.iter().find(|p| p.0 == "contend").expect("a program");
    let mut m = light(elf, &[], Engine::Translator(Default::default()), rich);
    run(&mut m, u64::MAX);
    let (some, all) = sampled(&m);
    assert_eq!(some, 0, "of {all}, four harts that work together");
}

/// A machine in the light mode with a program, in epochs of 20 us.
fn light(
    elf: &[u8],
    settings: &[&str],
    engine: Engine,
    costs: fn(&Description) -> LightModel,
) -> Machine {
    let d = describe("vc707", settings);
    let mut m = build(&d, true);
    m.set_engine(engine).expect("an engine");
    load(&mut m, elf);
    let length = EpochLength {
        time: nagori_memtime::Ps(20_000_000),
        instructions: None,
    };
    m.set_light(costs(&d), length).expect("the light mode");
    m
}

#[test]
fn nothing_depends_on_engine_slices_or_snapshots() {
    let names = [
        "atomic",
        "cache",
        "contend",
        "smp",
        "smc",
        "mmu",
        "interrupts",
    ];
    nothing_depends(&[], &names, &[u64::MAX, 4096, 777], rich);
    nothing_depends(&[], &["contend"], &[u64::MAX, 4096, 777], slow);
    let names = ["cache", "contend", "smp", "mmu"];
    nothing_depends(&[], &names, &[u64::MAX, 777], by_class);
}

#[test]
fn nothing_depends_on_them_where_sets_are_sampled() {
    nothing_depends(&["epoch.sampled_sets=8"], &["cache", "mmu"], &[4096], rich);
    for replacement in ["tree-plru", "srrip"] {
        let policy = format!("l1d.replacement={replacement}");
        nothing_depends(&[&policy], &["cache", "mmu"], &[777], rich);
    }
}

#[test]
fn nothing_depends_on_them_where_time_is_sampled() {
    let sample = ["epoch.sampled_time=4", "epoch.sampled_sets=2"];
    let names = ["rv64", "cache", "contend", "mmu", "interrupts", "smc", "fp"];
    nothing_depends(&sample, &names, &[u64::MAX, 777], rich);
    // All of the time where harts work together.
    let rows = ["epoch.sampled_time=4", "method=extended"];
    nothing_depends(&rows, &["contend", "smp"], &[777], rich);
}

#[test]
fn nothing_depends_on_them_where_harts_go_on_behind_loads() {
    let core = ["core=inorder2", "l1d.mshrs=4", "store_buffer.entries=8"];
    let names = ["cache", "contend", "smp", "mmu"];
    nothing_depends(&core, &names, &[u64::MAX, 777], rich);
    nothing_depends(&core, &names, &[777], by_class);
}

pub(crate) fn nothing_depends(
    machine: &[&str],
    names: &[&str],
    slices: &[u64],
    costs: fn(&Description) -> LightModel,
) {
    let Some(all) = programs("light") else {
        return;
    };
    for (name, elf) in all.iter().filter(|(n, _)| names.contains(&&n[..])) {
        let first = run(
            &mut light(elf, machine, Engine::Interpreter, costs),
            u64::MAX,
        );
        assert_eq!(first.stop, Stop::PowerOff(0), "{name}: {}", first.console);
        let estimated = first
            .report
            .light
            .as_ref()
            .expect("statistics of the light mode");
        assert!(estimated.estimated, "{name}");
        let settings = ["run_ahead_cycles=77", "quantum_cycles=3"];
        let settings = [machine, &settings].concat();
        let translated = Engine::Translator(Default::default());
        for &slice in slices {
            let again = run(&mut light(elf, &settings, translated, costs), slice);
            assert_eq!(first, again, "{name}, slices of {slice}");
        }
        let mut m = light(elf, machine, translated, costs);
        let mut console = Vec::new();
        for _ in 0..20 {
            m.run(5000, None);
            console.extend(m.console_output());
        }
        let mut bytes = Vec::new();
        m.save(&mut bytes, &Meta::new()).expect("a snapshot");
        let saved = Snapshot::new(Bytes(bytes)).expect("a snapshot");
        let mut resumed = saved.machine(Quiet).expect("a machine");
        assert!(resumed.is_light(), "{name}");
        let mut again = run(&mut resumed, u64::MAX);
        again.console = String::from_utf8_lossy(&console).into_owned() + &again.console;
        assert_eq!(first, again, "{name}, from a snapshot");
    }
}

#[test]
fn costs_of_another_machine_are_refused() {
    let d = describe("vc707", &[]);
    let mut m = build(&d, true);
    let mut model = slow(&d);
    model.areas.pop();
    assert!(m.set_light(model, EpochLength::default()).is_err());
    let mut model = slow(&d);
    model.areas[1].costs[0].read_ps[3] = u64::MAX;
    assert!(m.set_light(model, EpochLength::default()).is_err());
    let short = EpochLength {
        time: nagori_memtime::Ps(1),
        instructions: None,
    };
    assert!(m.set_light(slow(&d), short).is_err());
    assert!(m.set_light(slow(&d), EpochLength::default()).is_ok());
    let text = slow(&d).to_toml();
    assert_eq!(LightModel::from_toml(&text), Ok(slow(&d)));
    assert!(LightModel::from_toml("key = 1").is_err());
}
