//! The policies `ramulator2` and `dramsim3` beside the simulators that they follow.
//!
//! # What the recorded numbers are
//! They do **not** come from the simulators themselves, which cannot be had where this was written.
//! They come from two programs, one for each simulator, that step through every clock with the rules
//! of its sources (Ramulator 2.1 of 2026, DRAMsim3 of 2021) and share no code with this model. So they
//! show that the policies do what the sources were read to say, not that they were read
//! correctly. For that there are three figures of the simulators themselves, see
//! [`figures_of_the_simulators`].
//!
//! # The recipe
//! 100 000 requests of 64 bytes, `nagori mem gen` with seed 1 over the whole memory (`Zipf`: 64 MiB,
//! exponent 0.99), 30 % writes in all but `Sequential` and `Random`. Saturated: one request is offered
//! in every clock. Paced: one in every so many clocks, and its latency counts from then on.
//! Dependent: each is offered when the one before is complete. The devices are `ddr3` (1600K, one
//! rank and two) and `ddr4` (2400R, two ranks), with their own timings except where the policy
//! has others.

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

#[rustfmt::skip]
const RAMULATOR2: &[Row] = &[
    (Ddr3, Sequential, Saturated, 415_361, 864, 147.981),
    (Ddr3, SequentialMixed, Saturated, 444_941, 881, 218.753),
    (Ddr3, Random, Saturated, 628_225, 99_992, 226.931),
    (Ddr3, Mixed, Saturated, 679_876, 99_995, 338.032),
    (Ddr3, Zipf, Saturated, 622_784, 87_848, 307.950),
    (Ddr3, Mixed, Paced(8), 800_649, 99_996, 156.991),
    (Ddr3, Mixed, Paced(16), 1_600_031, 100_000, 50.181),
    (Ddr3, Zipf, Paced(10), 1_000_145, 92_455, 68.516),
    (Ddr3, Random, Dependent, 3_896_289, 99_997, 38.963),
    (Ddr3, Sequential, Dependent, 1_667_776, 1_032, 16.678),
    (Ddr3, Zipf, Dependent, 2_806_239, 96_294, 39.603),
    (Ddr4, Sequential, Saturated, 630_800, 865, 221.961),
    (Ddr4, SequentialMixed, Saturated, 617_706, 890, 302.875),
    (Ddr4, Random, Saturated, 435_222, 99_999, 216.765),
    (Ddr4, Mixed, Saturated, 462_762, 100_000, 278.472),
    (Ddr4, Zipf, Saturated, 433_344, 88_926, 250.730),
    (Ddr4, Mixed, Paced(8), 800_156, 100_000, 96.526),
    (Ddr4, Mixed, Paced(16), 1_600_116, 100_000, 70.506),
    (Ddr4, Zipf, Paced(10), 1_000_043, 90_012, 72.247),
    (Ddr4, Random, Dependent, 5_267_841, 99_998, 52.678),
    (Ddr4, Sequential, Dependent, 2_219_215, 1_017, 22.192),
    (Ddr4, Zipf, Dependent, 3_637_237, 91_040, 51.456),
    (Ddr3TwoRanks, Random, Saturated, 448_325, 99_998, 192.988),
    (Ddr3TwoRanks, Mixed, Saturated, 475_797, 100_000, 264.730),
    (Ddr3TwoRanks, Mixed, Paced(8), 800_125, 99_999, 60.256),
    (Ddr3TwoRanks, Mixed, Paced(16), 1_600_028, 100_000, 46.306),
    (Ddr3TwoRanks, Random, Dependent, 3_834_503, 99_996, 38.345),
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
    (Ddr3, Mixed, Paced(16), 1_600_049, 100_224, 61.536),
    (Ddr3, Zipf, Paced(10), 1_000_271, 91_972, 85.872),
    (Ddr3, Random, Dependent, 3_900_305, 100_019, 39.003),
    (Ddr3, Sequential, Dependent, 1_668_067, 1_047, 16.681),
    (Ddr3, Zipf, Dependent, 2_959_780, 95_098, 41.792),
    (Ddr4, Sequential, Saturated, 513_659, 865, 242.901),
    (Ddr4, SequentialMixed, Saturated, 510_893, 883, 318.444),
    (Ddr4, Random, Saturated, 457_417, 100_633, 518.990),
    (Ddr4, Mixed, Saturated, 484_946, 100_846, 732.620),
    (Ddr4, Mixed, Paced(8), 800_194, 100_289, 103.323),
    (Ddr4, Mixed, Paced(16), 1_600_160, 100_193, 74.613),
    (Ddr4, Zipf, Paced(10), 1_000_083, 88_740, 76.982),
    (Ddr4, Random, Dependent, 5_489_784, 100_211, 54.898),
    (Ddr4, Sequential, Dependent, 2_217_556, 1_012, 22.176),
    (Ddr4, Zipf, Dependent, 3_836_394, 90_712, 54.297),
];

/// Clocks, activations, mean read latency in clocks, GB/s.
fn play(
    policy: &str,
    device: Device,
    trace: Trace,
    play: Play,
    count: u64,
) -> (u64, u64, f64, f64) {
    let mut settings = vec![format!("controller.policy={policy}")];
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
            interval: Ps::of_clock(n, clock),
        },
        Dependent => drive::Mode::Dependent { think: Ps::ZERO },
    };
    let options = Options::new(mode);
    let o = drive::run(model.as_mut(), &mut source, options, &mut |_, _| Ok(true)).unwrap();
    let activations = model.report(o.to).total().activations;
    let latency = o.read_latency.mean_ns.unwrap() * 1000.0 / clock.as_ps();
    let bandwidth = (count * 64) as f64 / o.to.0 as f64 * 1000.0;
    (o.cycles, activations, latency, bandwidth)
}

fn compare(policy: &str, rows: &[Row]) {
    for &(device, trace, how, cycles, activations, latency) in rows {
        let (c, a, l, _) = play(policy, device, trace, how, 100_000);
        let place = format!("{policy}, {device:?}, {trace:?}, {how:?}");
        // The last write ends a clock later there.
        assert!(c.abs_diff(cycles) <= 2, "{place}: {c} clocks, {cycles}");
        assert_eq!(a, activations, "{place}: activations");
        // There, a request that had to wait is followed by the next one a clock later.
        assert!(
            (l / latency - 1.0).abs() < 0.0005,
            "{place}: {l}, {latency}"
        );
    }
}

#[test]
fn ramulator2_to_the_command() {
    compare("ramulator2", RAMULATOR2);
}

#[test]
fn dramsim3_to_the_command() {
    compare("dramsim3", DRAMSIM3);
}

/// DRAMsim3 moves nothing any more if its write buffer is full and a read of the bytes of its first
/// write has not moved to a bank either. A trace with reuse brings that about within some thousand
/// requests.
#[test]
fn what_stops_dramsim3_does_not_stop_here() {
    for (device, cycles) in [(Ddr3, 604_946), (Ddr4, 418_961)] {
        let (c, ..) = play("dramsim3", device, Zipf, Saturated, 100_000);
        assert!(c.abs_diff(cycles) < 10, "{c}");
    }
}

/// Measured on the simulators, as reported by a user who built them: 500 000 random accesses
/// with 30 % writes on DDR3. Ramulator 2.1's clocks follow from a ratio given to three digits.
#[test]
fn figures_of_the_simulators() {
    let (c, ..) = play("ramulator2", Ddr3, Mixed, Saturated, 500_000);
    let measured = 3_539_870.0 / 1.041;
    assert!((c as f64 / measured - 1.0).abs() < 0.001, "{c}");
    let (_, _, _, bandwidth) = play("dramsim3", Ddr3, Mixed, Saturated, 500_000);
    assert!((bandwidth / 7.24 - 1.0).abs() < 0.005, "{bandwidth}");
    let (_, _, latency, _) = play("dramsim3", Ddr3, Mixed, Paced(8), 500_000);
    assert!((latency / 201.0 - 1.0).abs() < 0.01, "{latency}");
}
