//! The policies `ramulator2` and `dramsim3` beside the simulators that they follow.
//!
//! # What the recorded numbers are
//! They come from the simulators' own code, compiled with `-O3 -DNDEBUG` and stepped clock by clock by a
//! driver that offers requests as described below:
//! - Ramulator 2.1 (github.com/CMU-SAFARI/ramulator2), the newest versions that could be had:
//!   `controller_base.cpp` c5b1c3a, `generic_ddr_controller.cpp` 5e17da7, `frfcfs.cpp` and `node.cpp` 951ae1c,
//!   `all_bank.cpp` 38c51d4, `device.cpp` a21740d, open rows, map `RoBaRaCoCh`; clocks and rules of
//!   `ddr3.py` 0aba192 (`DDR3_4Gb_x8`, `DDR3_1600K`) and `ddr4.py` b0bb920 (`DDR4_8Gb_x8`, `DDR4_2400R`).
//! - DRAMsim3 (github.com/umd-memsys/DRAMsim3) as public copies carry its last sources: controller,
//!   command queues, channel and bank state, refresh and timing, with open pages, `PER_BANK` queues of 8, 32
//!   transactions, staggered refresh, map `rochrababgco`, `tRTRS = 1`, and the clocks of the devices here.
//!
//! The code was put into one program for each by hand, without configuration files, statistics and front
//! ends: the values are given directly. In DRAMsim3's, commands that do not occur (self-refresh, auto
//! precharge) are left out, and the loops over banks and the states of a bank are written shorter.
//!
//! # The recipe
//! 100 000 requests of 64 bytes, `nagori mem gen` with seed 1 over the whole memory (`Zipf`: 64 MiB,
//! exponent 0.99), 30 % writes in all but `Sequential` and `Random`. Saturated: one request is offered
//! in every clock, and its latency counts from when it is accepted. Paced: one in every so many clocks, and
//! its latency counts from then on; as many as are due are offered in a clock. Dependent: each is offered when the one
//! before is complete. The devices are `ddr3` (1600K, one rank and two) and `ddr4` (2400R, two ranks). Clocks are those
//! to the last beat of data; Ramulator's own clock stands at one when it issues the first command.

use nagori_memcfg::Memory;
use nagori_memtime::Ps;
use nagori_memtrace::drive::{self, Options};
use nagori_memtrace::gen::{Generator, Pattern, Spec};
use Device::{Ddr3, Ddr3TwoRanks, Ddr4};
use Play::{Dependent, Paced, Saturated};
use Trace::{Mixed, Random, Sequential, SequentialMixed, Zipf};

#[derive(Clone, Copy, Debug)]
enum Device {
    Ddr3,
    Ddr3TwoRanks,
    Ddr4,
}

#[derive(Clone, Copy, Debug)]
enum Trace {
    Sequential,
    SequentialMixed,
    Random,
    Mixed,
    Zipf,
}

#[derive(Clone, Copy, Debug)]
enum Play {
    Saturated,
    Paced(u64),
    Dependent,
}

/// Device, trace, how it is played; clocks, activations, mean read latency in clocks.
type Row = (Device, Trace, Play, u64, u64, f64);

/// Ramulator's tRFC for 8 Gbit DDR4 is 360 ns instead of 350.
const RAMULATOR2_RFC: &str = "timings.tRFC=433 nCK";

#[rustfmt::skip]
const RAMULATOR2: &[Row] = &[
    (Ddr3, Sequential, Saturated, 415_361, 864, 147.981),
    (Ddr3, SequentialMixed, Saturated, 444_940, 881, 218.753),
    (Ddr3, Random, Saturated, 628_225, 99_992, 226.931),
    (Ddr3, Mixed, Saturated, 679_875, 99_995, 338.032),
    (Ddr3, Zipf, Saturated, 622_783, 87_848, 307.950),
    (Ddr3, Mixed, Paced(8), 800_648, 99_996, 156.991),
    (Ddr3, Mixed, Paced(16), 1_600_030, 100_000, 50.181),
    (Ddr3, Zipf, Paced(10), 1_000_144, 92_455, 68.516),
    (Ddr3, Random, Dependent, 3_896_289, 99_997, 38.963),
    (Ddr3, Sequential, Dependent, 1_667_776, 1_032, 16.678),
    (Ddr3, Zipf, Dependent, 2_806_239, 96_294, 39.603),
    (Ddr3TwoRanks, Sequential, Saturated, 417_061, 863, 149.473),
    (Ddr3TwoRanks, SequentialMixed, Saturated, 434_277, 888, 214.631),
    (Ddr3TwoRanks, Random, Saturated, 448_325, 99_998, 192.988),
    (Ddr3TwoRanks, Mixed, Saturated, 475_796, 100_000, 264.730),
    (Ddr3TwoRanks, Zipf, Saturated, 442_351, 89_645, 240.786),
    (Ddr3TwoRanks, Mixed, Paced(8), 800_124, 99_999, 60.256),
    (Ddr3TwoRanks, Mixed, Paced(16), 1_600_027, 100_000, 46.306),
    (Ddr3TwoRanks, Zipf, Paced(10), 1_000_047, 92_754, 48.995),
    (Ddr3TwoRanks, Random, Dependent, 3_834_503, 99_996, 38.345),
    (Ddr3TwoRanks, Sequential, Dependent, 1_670_007, 1_042, 16.700),
    (Ddr3TwoRanks, Zipf, Dependent, 2_692_564, 93_549, 37.981),
    (Ddr4, Sequential, Saturated, 631_632, 867, 222.227),
    (Ddr4, SequentialMixed, Saturated, 619_058, 887, 303.495),
    (Ddr4, Random, Saturated, 435_617, 100_000, 216.910),
    (Ddr4, Mixed, Saturated, 463_100, 100_000, 278.725),
    (Ddr4, Zipf, Saturated, 435_005, 88_895, 251.339),
    (Ddr4, Mixed, Paced(8), 800_154, 100_000, 97.791),
    (Ddr4, Mixed, Paced(16), 1_600_115, 100_000, 71.259),
    (Ddr4, Zipf, Paced(10), 1_000_043, 89_997, 73.125),
    (Ddr4, Random, Dependent, 5_275_059, 99_998, 52.751),
    (Ddr4, Sequential, Dependent, 2_222_835, 1_017, 22.228),
    (Ddr4, Zipf, Dependent, 3_644_776, 91_045, 51.564),
];

/// 500 000 requests: device, setting, clocks, activations, mean read latency in clocks.
const LONG: [(Device, &[&str], u64, u64, f64); 2] = [
    (Ddr3, &[], 3_401_335, 499_979, 337.854),
    (Ddr4, &[RAMULATOR2_RFC], 2_314_982, 499_997, 278.473),
];

/// Without the saturated `Zipf`, on which DRAMsim3 stops: see
/// [`what_stops_dramsim3_does_not_stop_here`].
#[rustfmt::skip]
const DRAMSIM3: &[Row] = &[
    (Ddr3, Sequential, Saturated, 415_600, 884, 197.253),
    (Ddr3, SequentialMixed, Saturated, 433_383, 909, 271.082),
    (Ddr3, Random, Saturated, 632_777, 100_164, 507.424),
    (Ddr3, Mixed, Saturated, 706_359, 100_339, 666.150),
    (Ddr3, Mixed, Paced(8), 800_996, 100_243, 201.388),
    (Ddr3, Mixed, Paced(16), 1_600_063, 100_224, 61.536),
    (Ddr3, Zipf, Paced(10), 1_000_285, 91_972, 85.872),
    (Ddr3, Random, Dependent, 3_900_305, 100_019, 39.003),
    (Ddr3, Sequential, Dependent, 1_668_067, 1_047, 16.681),
    (Ddr3, Zipf, Dependent, 2_959_794, 95_098, 41.792),
    (Ddr3TwoRanks, Sequential, Saturated, 414_921, 875, 196.227),
    (Ddr3TwoRanks, SequentialMixed, Saturated, 431_328, 905, 267.610),
    (Ddr3TwoRanks, Random, Saturated, 443_436, 100_523, 441.814),
    (Ddr3TwoRanks, Mixed, Saturated, 494_011, 100_586, 554.834),
    (Ddr3TwoRanks, Mixed, Paced(8), 800_241, 100_230, 71.302),
    (Ddr3TwoRanks, Mixed, Paced(16), 1_600_103, 100_252, 49.974),
    (Ddr3TwoRanks, Zipf, Paced(10), 1_000_094, 91_822, 53.986),
    (Ddr3TwoRanks, Random, Dependent, 3_945_692, 100_309, 39.457),
    (Ddr3TwoRanks, Sequential, Dependent, 1_668_243, 1_042, 16.682),
    (Ddr3TwoRanks, Zipf, Dependent, 2_842_652, 92_987, 40.121),
    (Ddr4, Sequential, Saturated, 513_659, 865, 242.901),
    (Ddr4, SequentialMixed, Saturated, 510_893, 883, 318.444),
    (Ddr4, Random, Saturated, 457_417, 100_633, 518.990),
    (Ddr4, Mixed, Saturated, 484_946, 100_846, 732.620),
    (Ddr4, Mixed, Paced(8), 800_194, 100_289, 103.323),
    (Ddr4, Mixed, Paced(16), 1_600_160, 100_193, 74.613),
    (Ddr4, Zipf, Paced(10), 1_000_102, 88_740, 76.982),
    (Ddr4, Random, Dependent, 5_489_784, 100_211, 54.898),
    (Ddr4, Sequential, Dependent, 2_217_556, 1_012, 22.176),
    (Ddr4, Zipf, Dependent, 3_836_413, 90_712, 54.297),
];

/// Clocks, activations, mean read latency in clocks.
fn play(
    policy: &str,
    set: &[&str],
    device: Device,
    trace: Trace,
    play: Play,
    count: u64,
) -> (u64, u64, f64) {
    let mut settings = vec![format!("controller.policy={policy}")];
    settings.extend(set.iter().map(|s| s.to_string()));
    let name = match device {
        Ddr3 => "ddr3",
        Ddr3TwoRanks => {
            settings.push("organisation.ranks=2".to_owned());
            "ddr3"
        }
        Ddr4 => "ddr4",
    };
    let mut model = Memory::load(name, &settings).unwrap().build().unwrap();
    let clock = model.clock();
    let (pattern, writes) = match trace {
        Sequential => (Pattern::Sequential, 0.0),
        SequentialMixed => (Pattern::Sequential, 0.3),
        Random => (Pattern::Random, 0.0),
        Mixed => (Pattern::Random, 0.3),
        Zipf => (Pattern::Zipf(0.99), 0.3),
    };
    let mut source = Generator::new(Spec {
        pattern,
        count,
        base: 0,
        span: match trace {
            Zipf => 64 << 20,
            _ => model.capacity(),
        },
        bytes: 64,
        writes,
        gap: 0,
        seed: 1,
    })
    .unwrap();
    let mode = match play {
        Saturated => drive::Mode::Saturated { per_clock: 1 },
        Paced(n) => drive::Mode::Paced {
            interval: clock.edge(n),
        },
        Dependent => drive::Mode::Dependent { think: Ps::ZERO },
    };
    let options = Options::new(mode);
    let o = drive::run(model.as_mut(), &mut source, options, &mut |_, _| Ok(true)).unwrap();
    let activations = model.report(o.to).total().activations;
    let latency = o.read_latency.mean_ns.unwrap() * 1000.0 / clock.as_ps();
    (o.cycles, activations, latency)
}

/// Plays all rows; a difference of up to `clocks` at the end is allowed.
fn compare(policy: &str, rows: &[Row], clocks: u64) {
    for &(device, trace, how, cycles, activations, latency) in rows {
        let set: &[&str] = match (policy, device) {
            ("ramulator2", Ddr4) => &[RAMULATOR2_RFC],
            _ => &[],
        };
        let (c, a, l) = play(policy, set, device, trace, how, 100_000);
        let place = format!("{policy}, {device:?}, {trace:?}, {how:?}");
        assert!(
            c.abs_diff(cycles) <= clocks,
            "{place}: {c} clocks, {cycles}"
        );
        assert_eq!(a, activations, "{place}: activations");
        // The records have three digits after the point.
        assert!((l - latency).abs() < 0.0006, "{place}: {l}, {latency}");
    }
}

#[test]
fn ramulator2_to_the_command() {
    compare("ramulator2", RAMULATOR2, 0);
}

/// With tRFC as in the memory's own description.
#[test]
fn ramulator2_with_the_memory_as_described() {
    for &(device, trace, how, cycles, activations, latency) in RAMULATOR2 {
        if !matches!(device, Ddr4) {
            continue;
        }
        let (c, a, l) = play("ramulator2", &[], device, trace, how, 100_000);
        let place = format!("{trace:?}, {how:?}");
        let near = |ours: f64, theirs: f64, bar: f64| (ours / theirs - 1.0).abs() < bar;
        assert!(near(c as f64, cycles as f64, 0.005), "{place}: {c} clocks");
        assert!(near(a as f64, activations as f64, 0.005), "{place}: {a}");
        assert!(near(l, latency, 0.015), "{place}: {l} clocks of latency");
    }
}

/// DRAMsim3 leaves up to eight writes in its buffer for ever. The driver let it write them when nothing else was
/// left to do; here they are written a few clocks earlier.
#[test]
fn dramsim3_to_the_command() {
    compare("dramsim3", DRAMSIM3, 19);
}

/// DRAMsim3 moves nothing any more if its write buffer is full and a read of the bytes of its first
/// write has not moved to a bank either. It stopped after 6852 of these requests on `ddr3`,
/// after 3963 on `ddr4`, and after 2266 on `ddr3` with two ranks.
#[test]
fn what_stops_dramsim3_does_not_stop_here() {
    for (device, cycles) in [(Ddr3, 604_946), (Ddr4, 418_961)] {
        let (c, ..) = play("dramsim3", &[], device, Zipf, Saturated, 100_000);
        assert!(c.abs_diff(cycles) < 10, "{c}");
    }
}

/// The first version of Ramulator 2.1 (951ae1c) has another rule from a write to a read of another
/// rank, in which CL and CWL have changed places.
#[test]
fn ramulator2_in_its_first_version() {
    let rules = "controller.rules=[\
        {prev=\"RD\",next=\"WR\",scope=\"other_rank\",replaces=\"CL + BL/2 + tRTRS - CWL\",latency=\"BL/2 + tRTRS\"},\
        {prev=\"WR\",next=\"WR\",scope=\"other_rank\",replaces=\"BL/2 + tRTRS\",latency=\"BL/2\"},\
        {prev=\"WR\",next=\"RD\",scope=\"other_rank\",replaces=\"max(1, CWL + BL/2 + tRTRS - CL)\",latency=\"CL + BL/2 \
            + tRTRS - CWL\"}]";
    let set = [RAMULATOR2_RFC, rules];
    let (c, a, l) = play("ramulator2", &set, Ddr4, Mixed, Saturated, 500_000);
    assert_eq!((c, a), (2_345_713, 499_998));
    assert!((l - 283.824).abs() < 0.0006, "{l}");
}

/// Five times as long: what the code of Ramulator 2.1 gave for 70/30.
#[test]
fn ramulator2_on_a_longer_run() {
    for (device, set, cycles, activations, latency) in LONG {
        let (c, a, l) = play("ramulator2", set, device, Mixed, Saturated, 500_000);
        assert_eq!((c, a), (cycles, activations), "{device:?}");
        assert!((l - latency).abs() < 0.0006, "{device:?}: {l}");
    }
}

/// Measured on the whole simulators by a user who built them: 500 000 random accesses with 30 %
/// writes on DDR3. Ramulator 2.1's clocks follow from a ratio given to three digits; of DRAMsim3, GB/s and
/// the mean latency with one request in eight clocks.
#[test]
fn figures_of_a_user() {
    let (c, ..) = play("ramulator2", &[], Ddr3, Mixed, Saturated, 500_000);
    let measured = 3_539_870.0 / 1.041;
    assert!((c as f64 / measured - 1.0).abs() < 0.001, "{c}");
    let (c, ..) = play("dramsim3", &[], Ddr3, Mixed, Saturated, 500_000);
    let bandwidth = 500_000.0 * 64.0 / (c as f64 * 1.25);
    assert!((bandwidth / 7.24 - 1.0).abs() < 0.005, "{bandwidth}");
    let (_, _, latency) = play("dramsim3", &[], Ddr3, Mixed, Paced(8), 500_000);
    assert!((latency / 201.0 - 1.0).abs() < 0.01, "{latency}");
}
