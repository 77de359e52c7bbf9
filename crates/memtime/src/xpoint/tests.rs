//! The rules one by one. The published figures are in `published.rs`.

use super::*;
use proptest::prelude::*;
use Kind::{Read, Write};

pub(super) fn gen1() -> Xpoint {
    Xpoint::new(XpointParams::optane_gen1()).unwrap()
}

pub(super) fn req(id: u64, kind: Kind, addr: u64) -> Request {
    Request {
        id,
        addr,
        kind,
        bytes: 64,
    }
}

/// Deterministic "random" line below `n`.
pub(super) fn random(i: u64, n: u64) -> u64 {
    crate::wear::mix(i) % n
}

#[test]
fn idle_latencies_follow_from_the_parameters() {
    let p = XpointParams::optane_gen1();
    let mut d = gen1();
    let mut done = Vec::new();
    let mut one = |d: &mut Xpoint, t: u64, kind, addr| {
        let at = Ps::from_ns(t);
        assert_eq!(d.submit(at, req(t, kind, addr)).unwrap(), Submit::Accepted);
        d.drain(&mut done);
        let c = done.pop().unwrap();
        (c.done_at - at, c.row_hit)
    };
    let hit = p.beat + p.buffer_read + p.path;
    let miss = hit + p.media_read;
    // Translation and line from the medium, then line buffered.
    assert_eq!(
        one(&mut d, 1000, Read, 0),
        (miss + p.translation_miss, false)
    );
    assert_eq!(one(&mut d, 2000, Read, 64), (hit, true));
    // Another line of the same page.
    assert_eq!(one(&mut d, 3000, Read, 256), (miss, false));
    // Written data is read from the combining buffer, its neighbours are not.
    assert_eq!(one(&mut d, 4000, Write, 512), (p.write_response, false));
    assert_eq!(one(&mut d, 5000, Read, 512), (hit, true));
    assert_eq!(one(&mut d, 6000, Read, 512 + 64), (miss, false));
    let c = *d.counters();
    assert_eq!(
        (c.reads, c.writes, c.media_reads, c.buffer_hits),
        (5, 1, 3, 2)
    );
    assert_eq!((c.translation_misses, c.translation_hits), (1, 2));
    // One sector of a line stays until another one needs its place.
    assert_eq!(c.media_writes, 0);
    assert_eq!(d.next_event(), Some(Ps::from_ns(6000) + miss));
    d.advance_to(Ps::from_ns(9000)).unwrap();
    assert_eq!(d.next_event(), None);
}

#[test]
fn complete_lines_leave_at_the_write_interval() {
    let p = XpointParams {
        start_gap: None,
        ..XpointParams::optane_gen1()
    };
    let mut d = Xpoint::new(p.clone()).unwrap();
    for i in 0..32 {
        let _ = d.submit(Ps::ZERO, req(i, Write, i * 64)).unwrap();
    }
    let mut ends = Vec::new();
    let mut seen = 0;
    while let Some(t) = d.next_event() {
        d.advance_to(t).unwrap();
        if d.counters().media_writes > seen {
            seen = d.counters().media_writes;
            ends.push(t);
        }
    }
    assert_eq!(seen, 8);
    for w in ends.windows(2) {
        assert_eq!(w[1] - w[0], p.media_write_interval);
    }
    assert_eq!(d.counters().media_fills, 0);
    assert_eq!(d.counters().writes_merged, 24);
}

#[test]
fn queues_fill_and_say_so() {
    let mut d = gen1();
    let p = d.params().clone();
    let mut taken = 0;
    while d.submit(Ps::ZERO, req(taken, Read, taken * 256)).unwrap() == Submit::Accepted {
        taken += 1;
    }
    assert_eq!(taken, u64::from(p.read_queue));
    let r = d.submit(Ps::ZERO, req(99, Read, 0)).unwrap();
    let first = p.beat + p.translation_miss + p.media_read + p.buffer_read + p.path;
    assert_eq!(r, Submit::Busy(first));
    assert_eq!(d.submit(first, req(99, Read, 0)).unwrap(), Submit::Accepted);
}

#[test]
fn wear_moves_and_energy_agree() {
    let mut p = XpointParams::optane_gen1();
    p.capacity = 1 << 16;
    p.start_gap = Some(crate::startgap::StartGapParams {
        region_lines: 64,
        gap_interval: 5,
        permute: Some(3),
    });
    let mut d = Xpoint::new(p.clone()).unwrap();
    let mut t = Ps::ZERO;
    for i in 0..20_000u64 {
        // Complete lines, one of them hot.
        let line = if i / 4 % 2 == 0 {
            7
        } else {
            random(i / 4, 256)
        };
        let r = req(i, Write, line * 256 + i % 4 * 64);
        while let Submit::Busy(u) = d.submit(t, r).unwrap() {
            t = u;
        }
    }
    d.advance_to(Ps::from_ns(10_000_000)).unwrap();
    let c = *d.counters();
    let r = d.report(Ps::ZERO).regions.remove(0);
    let w = r.wear.unwrap();
    assert_eq!(w.levelling_writes, c.moves);
    assert_eq!(w.writes, c.media_writes + c.moves);
    assert!(c.moves * 5 <= c.media_writes && c.moves * 5 + 25 > c.media_writes);
    // The hot line has been at every place of its region.
    assert!(w.max_writes < c.media_writes / 4, "{w:?}");
    let e = r.energy.unwrap();
    assert_eq!(e.write, ((c.media_writes + c.moves) * 34447) as f64);
    assert_eq!(e.background, 4000.0 * 10_000_000.0);
    let m = d.wear().unwrap().report(Ps::from_ns(10_000_000));
    assert_eq!(m.worst_line.writes, w.max_writes);
    d.reset_stats(Ps::ZERO).unwrap();
    let z = d.report(Ps::from_ns(10_000_001));
    assert_eq!(z.total(), Counters::default());
    assert_eq!(z.elapsed(), Ps::from_ns(1));
}

/// A block that is written over and over moves through all spare places, takes no writes while it
/// moves, and does not keep others from being written afterwards.
#[test]
fn hot_blocks_move() {
    let p = XpointParams {
        capacity: 1 << 20,
        start_gap: None,
        migration: Some(XpointMigration {
            block_bytes: 4096,
            threshold: 100,
            line_time: Ps::from_ns(500),
            spare_blocks: 3,
        }),
        ..XpointParams::optane_gen1()
    };
    let mut d = Xpoint::new(p.clone()).unwrap();
    let (mut t, mut done, mut held) = (Ps::ZERO, Vec::new(), 0);
    let whole = Ps(p.migration.unwrap().line_time.0 * 16);
    for i in 0..4000u64 {
        let r = req(i, Write, 8192 + i % 4 * 64);
        while let Submit::Busy(u) = d.submit(t, r).unwrap() {
            t = u;
        }
        d.drain(&mut done);
        let c = done.pop().unwrap();
        if c.done_at > c.accepted_at + p.write_response {
            held += 1;
            assert!(c.done_at <= c.accepted_at + p.write_response + whole);
            // Another block's write waits in the queue behind it, but is answered.
            let other = req(9000 + i, Write, 0);
            assert_eq!(d.submit(t, other).unwrap(), Submit::Accepted);
            assert_eq!(d.unfinished_writes(t).unwrap(), [i, 9000 + i]);
            d.drain(&mut done);
            assert_eq!(
                done.pop().unwrap().done_at,
                c.accepted_at + p.beat + p.write_response
            );
        }
        t = c.done_at;
    }
    d.flush(t).unwrap();
    let c = *d.counters();
    // A thousand lines; after the last move nothing is written.
    assert_eq!((c.migrations, held), (10, 9));
    assert_eq!(c.moves, 10 * 16);
    let w = d.wear().unwrap();
    let spare = |k: u64| w.line_writes((1 << 20) + k * 4096);
    // Home, spares 0 to 2, home again, and so on: stays of about a hundred writes.
    let stays = [w.line_writes(8192), spare(0), spare(1), spare(2)];
    assert!(stays.iter().all(|n| (200..=360).contains(n)), "{stays:?}");
}

#[test]
fn bad_parameters_and_requests() {
    let bad = |f: fn(&mut XpointParams)| {
        let mut p = XpointParams::optane_gen1();
        f(&mut p);
        Xpoint::new(p).unwrap_err().to_string()
    };
    assert!(bad(|p| p.line_bytes = 96).contains("line_bytes = 96"));
    assert!(bad(|p| p.capacity += 1).contains("capacity"));
    assert!(bad(|p| p.combine_lines = 0).contains("combine_lines"));
    assert!(bad(|p| p.read_page_sets = 0).contains("read_page_sets"));
    assert!(bad(|p| p.combine_page_ways = 257).contains("combine_page_ways"));
    assert!(bad(|p| p.read_ahead = 5).contains("read_ahead = 5"));
    assert!(bad(|p| p.migration.as_mut().unwrap().block_bytes = 3000).contains("block_bytes"));
    assert!(bad(|p| p.migration.as_mut().unwrap().block_bytes = 128).contains("block_bytes"));
    assert!(bad(|p| p.migration.as_mut().unwrap().threshold = 0).contains("threshold"));
    assert!(bad(|p| p.migration.as_mut().unwrap().line_time = Ps(0)).contains("line_time"));
    assert!(bad(|p| p.migration.as_mut().unwrap().spare_blocks = 0).contains("spare_blocks"));
    assert!(bad(|p| p.read_queue = 257).contains("read_queue"));
    assert!(bad(|p| p.translation_entries = 12).contains("translation_entries"));
    assert!(bad(|p| p.translation_bytes = 128).contains("translation_bytes"));
    assert!(bad(|p| p.media_write_interval = Ps(1)).contains("media_write_slot"));
    assert!(bad(|p| p.beat = Ps(0)).contains("beat"));
    assert!(bad(|p| p.path = Ps::MAX_TIME).contains("path"));
    assert!(bad(|p| p.wear.as_mut().unwrap().row_bytes = 3000).contains("row_bytes"));
    let mut d = gen1();
    assert!(d.submit(Ps::ZERO, req(0, Read, 1 << 37)).is_err());
    assert!(d.submit(Ps::ZERO, req(0, Read, 32)).is_err());
    assert!(d.submit(Ps(u64::MAX), req(0, Read, 0)).is_err());
}

#[test]
fn parameters_survive_text() {
    let p = XpointParams::optane_gen1();
    let text = serde_json::to_string(&p).unwrap();
    assert!(text.contains("\"126 ns\""));
    assert_eq!(serde_json::from_str::<XpointParams>(&text).unwrap(), p);
    let more = text.replacen('{', "{\"media_raed\":1,", 1);
    assert!(serde_json::from_str::<XpointParams>(&more).is_err());
}

#[test]
fn covered_units() {
    assert_eq!(units(0, 64, Write), 0xff);
    assert_eq!(units(192, 64, Read), 0xff << 24);
    assert_eq!(units(4, 8, Write), 0);
    assert_eq!(units(4, 8, Read), 0b11);
    assert_eq!(units(4, 14, Write), 0b10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every request completes exactly once, no sooner than the rules allow; counts are consistent;
    /// stepping while idle changes nothing.
    #[test]
    fn random_traces(
        ops in prop::collection::vec((0u64..300, 0u64..4096, any::<bool>(), 0u32..3), 1..400),
        step in 1u64..200_000,
    ) {
        let mut a = gen1();
        let mut b = gen1();
        let (mut t, mut done, mut done_b) = (Ps::ZERO, Vec::new(), Vec::new());
        let p = a.params().clone();
        let mut written = 0u64;
        for (id, (gap, sector, write, size)) in (0u64..).zip(&ops) {
            t += Ps::from_ns(*gap);
            let r = Request {
                id,
                addr: sector * 64,
                kind: if *write { Write } else { Read },
                bytes: [64, 32, 8][*size as usize],
            };
            loop {
                let s = a.submit(t, r).unwrap();
                // `b` is advanced in small steps in between.
                let mut u = b.latest;
                while u + Ps(step) < t {
                    u += Ps(step);
                    b.advance_to(u).unwrap();
                }
                prop_assert_eq!(b.submit(t, r).unwrap(), s);
                match s {
                    Submit::Accepted => break,
                    Submit::Busy(until) => { prop_assert!(until > t); t = until; }
                }
            }
            written += u64::from(r.bytes) * u64::from(*write);
        }
        let mut events = 0;
        while let Some(n) = a.next_event() {
            prop_assert!(n >= a.latest);
            a.advance_to(n).unwrap();
            events += 1;
            prop_assert!(events < 100_000);
        }
        b.advance_to(a.latest).unwrap();
        a.drain(&mut done);
        b.drain(&mut done_b);
        prop_assert_eq!(&done, &done_b);
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort();
        prop_assert_eq!(ids, (0..ops.len() as u64).collect::<Vec<_>>());
        for c in &done {
            let least = match c.kind { Read => p.path + p.buffer_read, Write => p.write_response };
            prop_assert!(c.done_at >= c.accepted_at + least);
        }
        let c = *a.counters();
        prop_assert_eq!(&c, b.counters());
        prop_assert_eq!(c.reads, c.buffer_hits + c.media_reads);
        prop_assert_eq!(c.write_bytes, written);
        // All writes are in the medium, or merged, or still in the buffer.
        let inside = c.writes - c.writes_merged - c.media_writes;
        prop_assert!(inside <= u64::from(p.combine_lines));
    }
}

#[test]
fn parameters_change_while_it_runs() {
    let mut m = Xpoint::new(XpointParams::optane_gen1()).unwrap();
    let at = Ps::from_ns(1000);
    m.set_parameter(at, "media_write_interval", "200 ns")
        .unwrap();
    m.set_parameter(at, "write_response", "50 ns").unwrap();
    assert_eq!(m.params().media_write_interval, Ps::from_ns(200));
    let s = m.report(Ps::ZERO);
    let seen: Vec<_> = s
        .changes
        .iter()
        .map(|c| (c.at, &*c.what, &*c.from))
        .collect();
    assert_eq!(
        seen,
        [
            (at, "media_write_interval", "112 ns"),
            (at, "write_response", "90 ns")
        ]
    );
    for (key, value, hint) in [
        (
            "line_bytes",
            "64",
            "cannot change while it runs: read_queue, write_queue, path",
        ),
        (
            "nothing",
            "64",
            "is no parameter: read_queue, write_queue, path",
        ),
        ("media_write_interval", "1 ns", "at least media_write_slot"),
        ("path", "80", "80"),
    ] {
        let e = m.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    assert_eq!(m.report(Ps::ZERO).changes.len(), 2);
}
