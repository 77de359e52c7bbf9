//! The formulas, their weak points, and that nothing is lost.

use nagori_memtime::{Period, Ps};
use proptest::prelude::*;

use crate::*;

const NS: u64 = 1000;

/// 1 ns a cycle; memory 100 ns, emulated 300 ns and 700 ns; a miss takes four times as long as a hit in the LLC.
fn params(variant: Variant) -> Params {
    Params {
        variant,
        attribution: Attribution::OwnVictims,
        clock: Period::of_ps(1000).unwrap(),
        dram: Ps::from_ns(100),
        read: Ps::from_ns(300),
        write: Ps::from_ns(700),
        weight: Weight(4000),
        l2_weight: Weight::ZERO,
        flush: None,
        nt_store: None,
    }
}

fn delay_with(params: Params, counts: Counts) -> Delay {
    Model::new(params).unwrap().delay(&counts).unwrap()
}

fn delay(variant: Variant, counts: Counts) -> Delay {
    delay_with(params(variant), counts)
}

/// In picoseconds, exactly.
fn ps(a: Amount) -> i128 {
    let whole = if a.is_negative() {
        -i128::from((-a).whole().0)
    } else {
        a.whole().0.into()
    };
    assert_eq!(
        a,
        Amount::of(Ps(whole.unsigned_abs() as u64))
            .scaled(1, 1)
            .map(|x| if whole < 0 { -x } else { x })
            .unwrap()
    );
    whole
}

/// 1000 misses and 4000 hits weigh the same: half of 100,000 cycles is for memory, 50 us. A quarter of the reads of all
/// cores had a write-back.
const COUNTS: Counts = Counts {
    stall_cycles: 100_000,
    l2_hits: 0,
    llc_hits: 4000,
    llc_misses: 1000,
    writebacks: 1000,
    all_misses: 3000,
    prefetch_misses: 1000,
    own_victims: None,
    flushes: 0,
    nt_stores: 0,
    overhead: Ps::ZERO,
};

#[test]
fn koshiba_by_hand() {
    let d = delay(Variant::Koshiba, COUNTS);
    assert_eq!(ps(d.stall_write), 12_500 * i128::from(NS));
    assert_eq!(ps(d.stall_read), 37_500 * i128::from(NS));
    // 125 waits of 100 ns become 600 ns longer, 375 waits 200 ns.
    assert_eq!(ps(d.write), 125 * 600 * i128::from(NS));
    assert_eq!(ps(d.read), 375 * 200 * i128::from(NS));
    assert_eq!(d.total(), d.write + d.read);
    assert_eq!((d.excess_writebacks, d.contradiction), (0, false));
}

#[test]
fn prefetches_take_their_part_of_the_writebacks() {
    let without = Counts {
        prefetch_misses: 0,
        ..COUNTS
    };
    assert!(delay(Variant::Koshiba, without).write > delay(Variant::Koshiba, COUNTS).write);
}

#[test]
fn the_other_variants_by_hand() {
    let ns = |d: Delay| ps(d.total()) / i128::from(NS);
    // All 500 waits are reads.
    assert_eq!(ns(delay(Variant::Quartz, COUNTS)), 500 * 200);
    assert_eq!(ns(delay(Variant::Mesmeric, COUNTS)), 125 * 600 + 375 * 200);
    assert_eq!(ns(delay(Variant::Misses, COUNTS)), 1000 * 200);
    assert_eq!(
        ns(delay(Variant::MissesWritebacks, COUNTS)),
        250 * 600 + 750 * 200
    );
}

#[test]
fn hits_in_l2_count_where_the_stall_counter_begins_at_l1() {
    // 16,000 hits at a quarter of the weight: a third of the time each is for L2, LLC and memory.
    let p = Params {
        l2_weight: Weight(250),
        ..params(Variant::Quartz)
    };
    let counts = Counts {
        l2_hits: 16_000,
        stall_cycles: 120_000,
        ..COUNTS
    };
    assert_eq!(
        ps(delay_with(p, counts).total()),
        400 * 200 * i128::from(NS)
    );
}

// Weak point: write-backs are not spread evenly over cores.
#[test]
fn own_victims_say_whose_writebacks_they_were() {
    let writer = Counts {
        own_victims: Some(1000),
        ..COUNTS
    };
    let reader = Counts {
        own_victims: Some(0),
        ..COUNTS
    };
    assert_eq!(
        ps(delay(Variant::Koshiba, writer).total()),
        500 * 600 * i128::from(NS)
    );
    assert_eq!(
        ps(delay(Variant::Koshiba, reader).total()),
        500 * 200 * i128::from(NS)
    );
    let uniform = Params {
        attribution: Attribution::Uniform,
        ..params(Variant::Koshiba)
    };
    let blind = delay_with(uniform, COUNTS);
    assert_eq!(
        delay_with(uniform, writer),
        blind,
        "the papers' rule does not tell them apart"
    );
}

// Weak point: more write-backs than reads make the part of the misses that only read negative.
#[test]
fn more_writebacks_than_reads_are_at_most_one_a_miss() {
    for own_victims in [None, Some(6000)] {
        let counts = Counts {
            writebacks: 6000,
            own_victims,
            ..COUNTS
        };
        for variant in [Variant::Koshiba, Variant::Mesmeric] {
            let d = delay(variant, counts);
            assert_eq!((ps(d.stall_read), ps(d.read)), (0, 0));
            assert_eq!(ps(d.write), 500 * 600 * i128::from(NS));
        }
        let excess = if own_victims.is_some() { 5000 } else { 2000 };
        assert_eq!(delay(Variant::Koshiba, counts).excess_writebacks, excess);
    }
}

// Counters that are read one after the other may contradict each other.
#[test]
fn a_core_cannot_miss_more_often_than_all() {
    let counts = Counts {
        all_misses: 500,
        prefetch_misses: 0,
        writebacks: 250,
        ..COUNTS
    };
    let d = delay(Variant::Koshiba, counts);
    assert!(d.contradiction);
    // 250 of its own 1000 misses.
    assert_eq!(ps(d.stall_write), 12_500 * i128::from(NS));
    assert_eq!(ps(delay(Variant::Mesmeric, counts).stall_read), 0);
}

// Weak point: memory that is faster than the host's.
#[test]
fn faster_memory_gives_credit_and_never_wraps() {
    let fast = Params {
        read: Ps::from_ns(60),
        write: Ps::from_ns(80),
        ..params(Variant::Koshiba)
    };
    let d = delay_with(fast, COUNTS);
    assert_eq!(ps(d.write), -125 * 20 * i128::from(NS));
    assert_eq!(ps(d.read), -375 * 40 * i128::from(NS));
    let mut ledger = Ledger::new();
    ledger.add(&d, Ps::ZERO);
    assert_eq!(ledger.take(), Ps::ZERO);
    // The credit of 17.5 us is used up before anything is waited.
    ledger.add_amount(Amount::of(Ps::from_ns(20_000)));
    assert_eq!(ledger.take(), Ps::from_ns(2500));
}

// Weak point: flushes and non-temporal stores, which the paper leaves for later.
#[test]
fn flushed_lines_and_non_temporal_stores_wait_for_the_write() {
    let counts = Counts {
        flushes: 30,
        nt_stores: 40,
        ..Counts::default()
    };
    assert_eq!(delay(Variant::Koshiba, counts).total(), Amount::ZERO);
    let p = Params {
        flush: Some(PerLine {
            base: Ps::from_ns(200),
            overlap: Weight::ONE,
        }),
        nt_store: Some(PerLine {
            base: Ps::from_ns(100),
            overlap: Weight(4000),
        }),
        ..params(Variant::Koshiba)
    };
    let d = delay_with(p, counts);
    assert_eq!(ps(d.flush), 30 * 500 * i128::from(NS));
    assert_eq!(ps(d.nt_store), 10 * 600 * i128::from(NS));
    assert_eq!(d.total(), d.flush + d.nt_store);
}

// Weak point: overhead that exceeds the delay of its epoch.
#[test]
fn overhead_is_taken_off_later_delays() {
    let d = delay(Variant::Koshiba, COUNTS);
    let mut ledger = Ledger::new();
    ledger.add(&Delay::default(), Ps::from_ns(100_000));
    assert_eq!(ledger.take(), Ps::ZERO);
    ledger.add(&d, Ps::from_ns(20_000));
    assert_eq!(ledger.take(), Ps::from_ns(150_000 - 120_000));
    ledger.add(&d, Ps::ZERO);
    assert_eq!(ledger.take(), Ps::from_ns(150_000));
}

#[test]
fn waiting_too_long_is_taken_off_the_next_wait() {
    let mut ledger = Ledger::new();
    ledger.add_amount(Amount::of(Ps::from_ns(100)));
    ledger.waited(Ps::from_ns(130));
    ledger.add_amount(Amount::of(Ps::from_ns(100)));
    assert_eq!(ledger.take(), Ps::from_ns(70));
}

#[test]
fn bad_parameters_are_refused() {
    let good = params(Variant::Koshiba);
    assert!(Model::new(good).is_ok());
    let second = 1_000_000_000_000;
    for bad in [
        Params {
            dram: Ps::ZERO,
            ..good
        },
        Params {
            read: Ps::ZERO,
            ..good
        },
        Params {
            write: Ps(second + 1),
            ..good
        },
        Params {
            weight: Weight::ZERO,
            ..good
        },
        Params {
            weight: Weight(1_000_001),
            ..good
        },
        Params {
            l2_weight: Weight(1_000_001),
            ..good
        },
        Params {
            flush: Some(PerLine {
                base: Ps::ZERO,
                overlap: Weight::ONE,
            }),
            ..good
        },
        Params {
            nt_store: Some(PerLine {
                base: Ps(1),
                overlap: Weight(999),
            }),
            ..good
        },
    ] {
        let e = Model::new(bad).unwrap_err().to_string();
        assert!(e.contains("between") || e.contains("at least"), "{e}");
    }
    let e = Model::new(good).unwrap().delay(&Counts {
        stall_cycles: (1 << 48) + 1,
        ..COUNTS
    });
    assert_eq!(
        e,
        Err(Error::Count {
            name: "stall_cycles",
            value: (1 << 48) + 1
        })
    );
    let slow = Params {
        dram: Ps(1),
        write: Ps(second),
        read: Ps(second),
        ..good
    };
    let e = Model::new(slow).unwrap().delay(&Counts {
        stall_cycles: 1 << 40,
        ..COUNTS
    });
    assert_eq!(e, Err(Error::TooLong));
}

#[test]
fn weights_are_read_and_written() {
    for (text, weight) in [
        ("4.2", 4200),
        ("7", 7000),
        ("0.125", 125),
        ("1e3", 1_000_000),
    ] {
        assert_eq!(text.parse(), Ok(Weight(weight)));
        assert_eq!(Weight(weight).to_string().parse(), Ok(Weight(weight)));
    }
    for bad in ["", ".", "-1", "1.2345", "4.2x", "+1", "5000000", "1.+2"] {
        assert!(bad.parse::<Weight>().is_err(), "{bad}");
    }
    assert_eq!(Weight::ratio(Ps(857), Ps(204)), Some(Weight(4201)));
    assert_eq!(Weight::ratio(Ps(857), Ps(0)), None);
}

#[test]
fn names_of_variants_and_counts() {
    for (name, variant) in Variant::ALL {
        assert_eq!(serde_json::to_value(variant).unwrap(), name);
        assert_eq!(variant.name(), name);
    }
    let mut counts = Counts::default();
    for (i, (name, _)) in Counts::default().named().into_iter().enumerate() {
        *counts.field(name).unwrap() = i as u64 + 1;
    }
    for (i, (_, value)) in counts.named().into_iter().enumerate() {
        assert_eq!(value, i as u64 + 1);
    }
    assert!(counts.field("overhead").is_none());
}

fn any_counts() -> impl Strategy<Value = Counts> {
    let n = 0u64..1 << 34;
    (
        (n.clone(), n.clone(), n.clone(), n.clone()),
        (
            n.clone(),
            n,
            proptest::option::of(0u64..1 << 34),
            0u64..1 << 20,
        ),
    )
        .prop_map(
            |(
                (stall_cycles, llc_hits, llc_misses, writebacks),
                (all_misses, prefetch_misses, own_victims, lines),
            )| Counts {
                stall_cycles,
                llc_hits,
                llc_misses,
                writebacks,
                all_misses,
                prefetch_misses,
                own_victims,
                flushes: lines,
                ..Counts::default()
            },
        )
}

fn any_variant() -> impl Strategy<Value = Variant> {
    (0..Variant::ALL.len()).prop_map(|i| Variant::ALL[i].1)
}

proptest! {
    #[test]
    fn memory_like_the_hosts_adds_nothing(counts in any_counts(), variant in any_variant()) {
        let same = Params { read: Ps::from_ns(100), write: Ps::from_ns(100), ..params(variant) };
        prop_assert_eq!(delay_with(same, counts).total(), Amount::ZERO);
    }

    #[test]
    fn slower_memory_never_saves_time(counts in any_counts(), variant in any_variant(), more in 0u64..1_000_000) {
        let p = params(variant);
        let a = delay_with(p, counts);
        let b = delay_with(Params { write: Ps(p.write.0 + more), ..p }, counts);
        let c = delay_with(Params { read: Ps(p.read.0 + more), ..p }, counts);
        prop_assert!(b.total() >= a.total() && c.total() >= a.total() && !a.total().is_negative());
    }

    #[test]
    fn the_parts_of_the_stall_are_at_most_the_stall(counts in any_counts(), variant in any_variant()) {
        let d = delay(variant, counts);
        prop_assert!(!d.stall_read.is_negative() && !d.stall_write.is_negative());
        prop_assert!(d.stall_read + d.stall_write <= Amount::of(Ps(counts.stall_cycles * 1000)));
    }

    /// With equal latencies of reads and writes it does not matter who wrote back.
    #[test]
    fn symmetric_latencies_are_quartz(counts in any_counts()) {
        let flat = |v| Params { write: Ps::from_ns(300), ..params(v) };
        let a = delay_with(flat(Variant::Koshiba), counts).total();
        let b = delay_with(flat(Variant::Quartz), counts).total();
        let difference = if a > b { a - b } else { b - a };
        prop_assert!(difference.as_units() < 1e-6, "{} {}", a, b);
    }

    /// One epoch, or the same split into many: the sum is the same to a femtosecond an epoch.
    #[test]
    fn the_length_of_epochs_does_not_matter(
        n in 1u64..400,
        stall in 1u64..1 << 20,
        wb in 0u64..40,
        period in 1u64..5000,
    ) {
        let clock = Period::of_fraction((period * 7).into(), 7 * 3).unwrap_or(Period::of_ps(333).unwrap());
        let p = Params { clock, ..params(Variant::Koshiba) };
        let piece = Counts {
            stall_cycles: stall,
            llc_hits: 7,
            llc_misses: 13,
            writebacks: wb,
            all_misses: 29,
            prefetch_misses: 2,
            ..Counts::default()
        };
        let whole = Counts {
            stall_cycles: stall * n,
            llc_hits: 7 * n,
            llc_misses: 13 * n,
            writebacks: wb * n,
            all_misses: 29 * n,
            prefetch_misses: 2 * n,
            ..Counts::default()
        };
        let mut ledger = Ledger::new();
        for _ in 0..n {
            ledger.add(&delay_with(p, piece), Ps::ZERO);
            ledger.take();
        }
        let once = delay_with(p, whole).total();
        let sum = ledger.delays();
        let difference = (once - sum).as_units();
        prop_assert!((-1e-6..1e-3 * n as f64).contains(&difference), "{}", difference);
        prop_assert!(ledger.total_waited().whole().0 + 1 >= once.whole().0);
    }

    #[test]
    fn the_ledger_loses_nothing(
        steps in proptest::collection::vec((-1i64 << 40..1 << 40, 0u64..1 << 40, 0u64..1 << 20), 0..200),
    ) {
        let mut ledger = Ledger::new();
        for (delay, overhead, waited) in steps {
            ledger.add_amount(Amount::from((delay >> 40, (delay << 12) as u64)));
            ledger.add_overhead(Ps(overhead));
            ledger.waited(Ps(waited));
            let due = ledger.take();
            prop_assert!(due == Ps::ZERO || ledger.due() == Ps::ZERO);
            prop_assert_eq!(ledger.delays(), ledger.total_waited() + ledger.overhead() + ledger.balance());
            prop_assert!(ledger.balance() < Amount::of(Ps(1)));
        }
        let text = serde_json::to_string(&ledger).unwrap();
        prop_assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
    }
}
