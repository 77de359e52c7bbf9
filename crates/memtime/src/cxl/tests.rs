use super::*;
use crate::described;
use crate::xpoint::{Xpoint, XpointParams};
use proptest::prelude::*;
use Kind::{Read, Write};

fn over_xpoint(params: CxlParams) -> Cxl {
    let inner = Xpoint::new(described::xpoint::<XpointParams>()).unwrap();
    Cxl::new(params, Box::new(inner)).unwrap()
}

/// A fast memory with short queues.
fn over_fast(params: CxlParams) -> Cxl {
    let inner = Xpoint::new(XpointParams {
        read_queue: 3,
        write_queue: 2,
        path: Ps::from_ns(5),
        media_read: Ps::from_ns(20),
        ..described::xpoint()
    });
    Cxl::new(params, Box::new(inner.unwrap())).unwrap()
}

fn req(id: u64, kind: Kind, addr: u64) -> Request {
    Request {
        id,
        addr,
        kind,
        bytes: 64,
    }
}

/// Submits as fast as possible; returns all completions.
fn run(m: &mut Cxl, requests: &[(u64, Kind, u64)]) -> Vec<Completion> {
    let (mut t, mut done) = (Ps::ZERO, Vec::new());
    for (id, (gap, kind, addr)) in (0u64..).zip(requests) {
        t += Ps::from_ns(*gap);
        while let Submit::Busy(u) = m.submit(t, req(id, *kind, *addr)).unwrap() {
            assert!(u > t);
            t = u;
        }
    }
    while let Some(n) = m.next_event() {
        m.advance_to(n).unwrap();
    }
    m.drain(&mut done);
    done
}

#[test]
fn idle_latency_is_link_plus_memory() {
    let p = described::link::<CxlParams>();
    let x = described::xpoint::<XpointParams>();
    let done = run(&mut over_xpoint(p.clone()), &[(1000, Read, 0)]);
    let inner = x.beat + x.translation_miss + x.media_read + x.buffer_read + x.path;
    // A header down, header and data up, 33 ps a byte.
    let link = Ps(33 * 16 + 33 * 80) + p.latency_down + p.latency_up;
    assert_eq!(done[0].done_at, Ps::from_ns(1000) + inner + link);
    let done = run(&mut over_xpoint(p.clone()), &[(1000, Write, 0)]);
    assert_eq!(done[0].done_at, Ps::from_ns(1000) + x.write_response + link);
}

#[test]
fn the_link_bounds_the_bandwidth() {
    let p = CxlParams {
        ps_per_byte: 1000,
        ..described::link()
    };
    // 1 GB/s with headers: 80 ns each way for 64 bytes.
    let reads: Vec<_> = (0..1000).map(|i| (0, Read, i * 64)).collect();
    let done = run(&mut over_xpoint(p.clone()), &reads);
    let last = done.iter().map(|c| c.done_at).max().unwrap();
    let first = done.iter().map(|c| c.done_at).min().unwrap();
    assert_eq!(last - first, Ps::from_ns(80 * 999));
    // Both directions at once: reads use the way up, writes the way down.
    let both: Vec<_> = (0..1000)
        .map(|i| (0, if i % 2 == 0 { Read } else { Write }, i / 2 * 64))
        .collect();
    let done = run(&mut over_xpoint(p), &both);
    let last = done.iter().map(|c| c.done_at).max().unwrap();
    // 500 * (80 + 16) ns each way, and latency.
    assert!(last < Ps::from_ns(500 * 96 + 1000), "{last}");
}

#[test]
fn bad_parameters_and_report() {
    let bad = |f: fn(&mut CxlParams)| {
        let mut p = described::link::<CxlParams>();
        f(&mut p);
        p.validate().unwrap_err().to_string()
    };
    assert!(bad(|p| p.credits = 0).contains("credits = 0"));
    assert!(bad(|p| p.header_bytes = 1000).contains("header_bytes"));
    assert!(bad(|p| p.latency_up = Ps::MAX_TIME).contains("latency_up"));
    assert!(bad(|p| p.ps_per_byte = u32::MAX).contains("ps_per_byte"));
    let mut m = over_xpoint(described::link::<CxlParams>());
    assert!(m.submit(Ps::ZERO, req(0, Read, 1 << 37)).is_err());
    run(&mut m, &[(0, Read, 0), (0, Write, 64)]);
    let s = m.report(Ps::ZERO);
    assert_eq!((s.total().reads, s.total().writes), (1, 1));
    assert_eq!(s.counters["inner.xpoint.reads"], 1.0);
    assert!(s.regions[0].energy.is_some() && s.regions[0].wear.is_some());
}

/// A report for a later time equals a report after advancing to that time.
fn reports_look_ahead(
    make: impl Fn() -> Cxl,
    ops: &[(u64, Kind, u64)],
    step: u64,
) -> Result<(), TestCaseError> {
    let (mut m, mut t) = (make(), Ps::ZERO);
    for (id, (gap, kind, addr)) in (0u64..).zip(ops) {
        t += Ps::from_ns(*gap);
        while let Submit::Busy(u) = m.submit(t, req(id, *kind, *addr)).unwrap() {
            t = u;
        }
    }
    for k in [1, 3, 50] {
        let early = m.report(t + Ps(k * step));
        m.advance_to(t + Ps(k * step)).unwrap();
        prop_assert_eq!(early, m.report(t + Ps(k * step)));
    }
    Ok(())
}

#[test]
fn background_energy_runs_up_to_the_report() {
    let m = over_xpoint(described::link::<CxlParams>());
    let at = |ns| m.report(Ps::from_ns(ns)).regions[0].energy.clone().unwrap();
    assert_eq!(at(2000).background, 2.0 * at(1000).background);
    assert!(at(1000).background > 0.0);
}

#[test]
fn parameters_of_link_and_memory_change() {
    let mut m = over_xpoint(described::link::<CxlParams>());
    let lone = |m: &mut Cxl, ns, addr| {
        let at = Ps::from_ns(ns);
        assert_eq!(m.submit(at, req(0, Read, addr)).unwrap(), Submit::Accepted);
        let mut done = Vec::new();
        while let Some(n) = m.next_event() {
            m.advance_to(n).unwrap();
        }
        m.drain(&mut done);
        done[0].done_at - at
    };
    let before = lone(&mut m, 0, 0);
    let at = Ps::from_ns(10_000);
    m.set_parameter(at, "link.latency_up", "135 ns").unwrap();
    m.set_parameter(at, "memory.path", "110 ns").unwrap();
    m.set_parameter(at, "media_read", "226 ns").unwrap();
    // Another line of the page whose translation is known.
    let t = described::xpoint::<XpointParams>().translation_miss;
    let after = lone(&mut m, 20_000, 1024);
    assert_eq!(after, before + Ps::from_ns(100 + 10 + 100) - t);
    let s = m.report(Ps::ZERO);
    let changes: Vec<_> = s.changes.iter().map(|c| (c.at, &*c.what, &*c.to)).collect();
    assert_eq!(
        changes,
        [
            (at, "link.latency_up", "135 ns"),
            (at, "inner.path", "110 ns"),
            (at, "inner.media_read", "226 ns"),
        ]
    );
    for (key, value, hint) in [
        ("link.credits", "5", "latency_down, latency_up"),
        ("link.nothing", "5", "is no parameter"),
        ("link.latency_up", "soon", "not a time"),
        ("link.header_bytes", "1000", "at most 256"),
        ("capacity", "5", "media_slot"),
        ("start_gap.gap_interval", "0", "at least 1"),
    ] {
        let e = m.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    m.reset_stats(at).unwrap();
    assert!(m.report(Ps::ZERO).changes.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Every request completes once and no sooner than link and memory allow, and the step size
    /// of advancing does not matter.
    #[test]
    fn random_traces(
        ops in prop::collection::vec((0u64..100, any::<bool>(), 0u64..2000), 1..300),
        credits in 1u32..40,
        fast: bool,
        step in 1_000u64..100_000,
    ) {
        let p = CxlParams { credits, ..described::link() };
        let make = || if fast { over_fast(p.clone()) } else { over_xpoint(p.clone()) };
        let ops: Vec<_> = ops.iter()
            .map(|(g, w, a)| (*g, if *w { Write } else { Read }, a * 64)).collect();
        let mut a = make();
        let done = run(&mut a, &ops);
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort();
        prop_assert_eq!(ids, (0..ops.len() as u64).collect::<Vec<_>>());
        for c in &done {
            prop_assert!(c.done_at >= c.accepted_at + p.latency_up + p.latency_down);
        }
        prop_assert!(done.windows(2).all(|w| w[0].done_at <= w[1].done_at), "in order up");
        // Again in small steps.
        reports_look_ahead(make, &ops, step)?;
        let mut b = make();
        let (mut t, mut again) = (Ps::ZERO, Vec::new());
        for (id, (gap, kind, addr)) in (0u64..).zip(&ops) {
            t += Ps::from_ns(*gap);
            while let Submit::Busy(u) = b.submit(t, req(id, *kind, *addr)).unwrap() {
                while t + Ps(step) < u {
                    t += Ps(step);
                    b.advance_to(t).unwrap();
                }
                t = u;
            }
            b.drain(&mut again);
        }
        while b.next_event().is_some() {
            t += Ps(step);
            b.advance_to(t).unwrap();
        }
        b.drain(&mut again);
        prop_assert_eq!(done, again);
    }
}
