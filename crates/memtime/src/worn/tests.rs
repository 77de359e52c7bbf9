use super::*;
use crate::described;
use crate::dram::{params::RefreshMode, preset::ddr3_1600k, Controller, ControllerParams};
use crate::xpoint::{Xpoint, XpointParams};
use proptest::prelude::*;
use std::collections::BTreeMap;
use Kind::{Read, Write};

/// A small DRAM: `lines` times 64 bytes.
fn dram(rows: u32) -> Box<dyn MemoryModel + Send> {
    let mut d = ddr3_1600k().unwrap();
    d.organisation.rows = rows;
    d.organisation.columns = 16;
    d.organisation.banks_per_group = 2;
    let mut p = ControllerParams::frfcfs();
    p.refresh = RefreshMode::Off;
    Box::new(Controller::new(d, p).unwrap())
}

fn xpoint() -> Box<dyn MemoryModel + Send> {
    let p = XpointParams {
        capacity: 1 << 16,
        wear: None,
        start_gap: None,
        ..described::xpoint()
    };
    Box::new(Xpoint::new(p).unwrap())
}

fn params(line_bytes: u64, gap: Option<(u64, u32)>) -> WornParams {
    WornParams {
        line_bytes,
        row_bytes: 1024,
        endurance: Endurance::Constant { writes: 1000 },
        start_gap: gap.map(|(region_lines, gap_interval)| StartGapParams {
            region_lines,
            gap_interval,
            permute: None,
        }),
    }
}

fn req(id: u64, kind: Kind, addr: u64) -> Request {
    Request {
        id,
        addr,
        kind,
        bytes: 64,
    }
}

type Op = (u64, bool, u64);

/// Submits (gap in ns, write, line of 64 bytes) and completes all; advances in steps if given.
fn run(m: &mut dyn MemoryModel, ops: &[Op], step: Option<u64>) -> Vec<Completion> {
    let (mut t, mut done) = (Ps::ZERO, Vec::new());
    for (id, (gap, write, line)) in (0u64..).zip(ops) {
        t += Ps::from_ns(*gap);
        let kind = if *write { Write } else { Read };
        while let Submit::Busy(u) = m.submit(t, req(id, kind, line * 64)).unwrap() {
            assert!(u > t);
            while step.is_some_and(|s| t + Ps(s) < u) {
                t += Ps(step.unwrap_or(0));
                m.advance_to(t).unwrap();
            }
            t = u;
        }
        if step.is_some() {
            m.drain(&mut done);
        }
    }
    while let Some(n) = m.next_event() {
        t = match step {
            Some(s) => t + Ps(s),
            None => n.max(t),
        };
        m.advance_to(t).unwrap();
    }
    m.drain(&mut done);
    done.sort_by_key(|c| c.id);
    done
}

#[test]
fn moves_are_read_and_written_and_wear_follows_them() {
    // 512 lines: one region of 511 and its gap.
    let mut m = Worn::new(params(64, Some((511, 10))), dram(128)).unwrap();
    assert_eq!(m.capacity(), 511 * 64);
    let ops: Vec<Op> = (0..1000).map(|_| (200, true, 500)).collect();
    run(&mut m, &ops, None);
    let s = m.report(Ps::ZERO);
    let w = s.regions[0].wear.clone().unwrap();
    assert_eq!((w.writes, w.levelling_writes), (1100, 100));
    assert_eq!(s.counters["levelling_moves"], 100.0);
    assert_eq!(s.counters["levelling_reads"], 100.0);
    assert_eq!(s.total().requests(), 1200, "the inner model has them all");
    // The gap passes line 500 with its eleventh move: from there it wears 501;
    // the next move brings line 499 to place 500.
    assert_eq!(m.wear().line_writes(500 * 64), 110 + 1);
    assert_eq!(m.wear().line_writes(501 * 64), 890 + 1);
    assert_eq!(w.map.sum.iter().sum::<u64>(), 1100);
    assert_eq!(w.map.max[501], 891);
    assert_eq!(
        (w.units, w.row_bytes, w.max_row_writes),
        (512, 1024, 1000 + 16)
    );
}

#[test]
fn long_lines_move_in_pieces() {
    let mut m = Worn::new(params(256, Some((31, 4))), dram(128)).unwrap();
    // 128 lines of 256 bytes: four regions of 31 and a gap each.
    assert_eq!(m.capacity(), 124 * 256);
    let ops: Vec<Op> = (0..400).map(|i| (100, true, i % 16)).collect();
    run(&mut m, &ops, None);
    let s = m.report(Ps::ZERO);
    assert_eq!(s.counters["levelling_moves"], 100.0);
    assert_eq!(s.counters["levelling_reads"], 400.0);
    assert_eq!(s.regions[0].wear.as_ref().unwrap().writes, 500);
}

#[test]
fn without_levelling_time_is_that_of_the_inner_model() {
    let ops: Vec<Op> = (0..500)
        .map(|i| (i % 7, i % 3 == 0, i * 37 % 512))
        .collect();
    let mut plain = dram(128);
    let mut worn = Worn::new(params(64, None), dram(128)).unwrap();
    assert_eq!(run(plain.as_mut(), &ops, None), run(&mut worn, &ops, None));
    let (a, b) = (plain.report(Ps::ZERO), worn.report(Ps::ZERO));
    let w = b.regions[0].wear.clone().unwrap();
    assert_eq!(w.writes, 167);
    assert_eq!(a.regions[0].counters, b.regions[0].counters);
    assert!(w.lifetime_s.unwrap() > 0.0 && w.lifetime_levelled_s.unwrap() > w.lifetime_s.unwrap());
    worn.reset_stats(Ps::ZERO).unwrap();
    assert_eq!(
        worn.report(Ps::ZERO).regions[0]
            .wear
            .as_ref()
            .unwrap()
            .writes,
        0
    );
}

#[test]
fn levelling_prolongs_the_life_of_a_hot_line() {
    let ops: Vec<Op> = (0..20_000).map(|_| (100, true, 3)).collect();
    let life = |gap| {
        let mut m = Worn::new(params(64, gap), dram(4)).unwrap();
        run(&mut m, &ops, None);
        m.report(Ps::ZERO).regions[0]
            .wear
            .as_ref()
            .unwrap()
            .lifetime_s
            .unwrap()
    };
    assert!(life(Some((15, 20))) > 8.0 * life(None));
}

#[test]
fn over_layers_and_their_changes() {
    let mut m = Worn::new(params(64, Some((63, 5))), xpoint()).unwrap();
    let at = Ps::from_ns(100);
    m.set_parameter(at, "wear.start_gap.gap_interval", "7")
        .unwrap();
    m.set_parameter(at, "media_read", "200 ns").unwrap();
    let ops: Vec<Op> = (0..70).map(|i| (500, true, i)).collect();
    run(&mut m, &ops, None);
    let s = m.report(Ps::ZERO);
    let changes: Vec<_> = s.changes.iter().map(|c| (c.at, c.what.as_str())).collect();
    assert_eq!(
        changes,
        [(at, "media_read"), (at, "wear.start_gap.gap_interval")]
    );
    assert!(s.counters["levelling_moves"] >= 9.0);
    for (key, value, hint) in [
        ("wear.start_gap.gap_interval", "0", "at least 1"),
        ("wear.start_gap.gap_interval", "x", "no number"),
        ("wear.line_bytes", "128", "gap_interval"),
        ("capacity", "1", "media_slot"),
    ] {
        let e = m.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    let mut plain = Worn::new(params(64, None), xpoint()).unwrap();
    let e = plain.set_parameter(at, "wear.start_gap.gap_interval", "5");
    assert!(e.unwrap_err().to_string().contains("no wear levelling"));
}

#[test]
fn bad_parameters_and_requests() {
    let bad = |p: WornParams| Worn::new(p, dram(128)).err().unwrap().to_string();
    assert!(bad(params(96, None)).contains("line_bytes = 96"));
    assert!(bad(params(8192, None)).contains("4096"));
    assert!(bad(params(64, Some((0, 1)))).contains("region_lines = 0"));
    assert!(bad(params(64, Some((512, 1)))).contains("1 to 511"));
    assert!(bad(params(64, Some((100, 0)))).contains("gap_interval"));
    let row = WornParams {
        row_bytes: 48,
        ..params(64, None)
    };
    assert!(bad(row).contains("row_bytes = 48"));
    let mut m = Worn::new(params(64, Some((511, 10))), dram(128)).unwrap();
    let e = m.submit(Ps::ZERO, req(1 << 63, Read, 0)).unwrap_err();
    assert!(e.to_string().contains("2^63"));
    let e = m.submit(Ps::ZERO, req(0, Read, 511 * 64)).unwrap_err();
    assert!(e.to_string().contains("0x7fc0"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every request completes once; wear is that of Start-Gap alone; the step size of advancing
    /// does not matter; a report for a later time equals a report after advancing to it.
    #[test]
    fn random_traces(
        ops in prop::collection::vec((0u64..60, any::<bool>(), 0u64..124), 1..300),
        interval in 1u32..6,
        shape in 0usize..3,
        step in 1_000u64..100_000,
        ahead in 0u64..2_000_000,
    ) {
        let make = || {
            let (line, region) = [(64, 31), (256, 31), (64, 511)][shape];
            Worn::new(params(line, Some((region, interval))), dram(128)).unwrap()
        };
        let mut a = make();
        let done = run(&mut a, &ops, None);
        let ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        prop_assert_eq!(ids, (0..ops.len() as u64).collect::<Vec<_>>());

        let mut gap = StartGap::new(a.capacity() / a.params.line_bytes, a.params.start_gap.unwrap()).unwrap();
        let mut plain = BTreeMap::new();
        for (_, write, line) in &ops {
            if *write {
                let l = line * 64 / a.params.line_bytes;
                *plain.entry(gap.place(l)).or_insert(0u64) += 1;
                if let Some(m) = gap.write(l) {
                    *plain.entry(m.to).or_insert(0) += 1;
                }
            }
        }
        for place in 0..512 * 64 / a.params.line_bytes {
            let n = plain.get(&place).copied().unwrap_or(0);
            prop_assert_eq!(a.wear().line_writes(place * a.params.line_bytes), n);
        }
        let s = a.report(Ps::ZERO);
        prop_assert_eq!(s.counters["levelling_moves"], gap.moves() as f64);
        prop_assert_eq!(s.counters["levelling_reads"], s.counters["levelling_writes"]);

        prop_assert_eq!(done, run(&mut make(), &ops, Some(step)));

        let mut b = make();
        let mut t = Ps::ZERO;
        for (id, (gap, write, line)) in (0u64..).zip(&ops) {
            t += Ps::from_ns(*gap);
            let kind = if *write { Write } else { Read };
            while let Submit::Busy(u) = b.submit(t, req(id, kind, line * 64)).unwrap() {
                t = u;
            }
        }
        let t = t + Ps(ahead);
        let early = b.report(t);
        b.advance_to(t).unwrap();
        prop_assert_eq!(early, b.report(t));
    }
}
