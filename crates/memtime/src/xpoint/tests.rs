//! The rules one by one. The published figures are in `published.rs`.

use super::*;
use crate::described;
use proptest::prelude::*;
use Kind::{Read, Write};

pub(super) fn gen1() -> Xpoint {
    Xpoint::new(described::xpoint::<XpointParams>()).unwrap()
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
    let p = described::xpoint::<XpointParams>();
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
        ..described::xpoint()
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

/// Writes that fill `lines` lines from one on, at `at`; `sectors` of each.
fn fill(d: &mut Xpoint, at: Ps, first: u64, lines: u64, sectors: u64) -> Ps {
    let mut t = at;
    for line in first..first + lines {
        for k in 0..sectors {
            while let Submit::Busy(u) = d.submit(t, req(0, Write, line * 256 + k * 64)).unwrap() {
                t = u;
            }
        }
    }
    t
}

/// A parameter set without levelling, whose translations are always cached.
fn plain() -> XpointParams {
    XpointParams {
        start_gap: None,
        migration: None,
        translation_miss: Ps::ZERO,
        ..described::xpoint()
    }
}

#[test]
fn reads_wait_for_the_slots_of_writes() {
    let p = plain();
    let hit = p.beat + p.buffer_read + p.path;
    // Of a complete line one slot, of an incomplete one two.
    for (sectors, slots) in [(4, 1), (3, 2)] {
        let turn = |d: &mut Xpoint| {
            if sectors == 4 {
                fill(d, Ps::ZERO, 0, 1, 4);
                Ps(p.beat.0 * 4)
            } else {
                // The last of so many lines needs room.
                let all = u64::from(p.combine_lines) + 1;
                fill(d, Ps::ZERO, 0, all - 1, 3);
                let at = Ps::from_ns(5000);
                fill(d, at, all, 1, 1);
                at + p.beat
            }
        };
        let mut d = Xpoint::new(p.clone()).unwrap();
        let turn = turn(&mut d);
        let busy = Ps(slots * p.media_slot.0);
        // A read that is sent as soon as the write has begun, and as late as it waits at all.
        for (after, waits) in [
            (p.beat + Ps(1), busy - p.beat - Ps(1)),
            (busy - Ps(1), Ps(1)),
            (busy, Ps::ZERO),
        ] {
            let mut d = d.clone();
            let at = turn + after;
            let r = d.submit(at - p.beat, req(9, Read, 1 << 30)).unwrap();
            assert_eq!(r, Submit::Accepted);
            let mut done = Vec::new();
            d.drain(&mut done);
            let end = done.iter().find(|c| c.id == 9).unwrap().done_at;
            assert_eq!(
                end,
                at - p.beat + hit + p.media_read + waits,
                "{sectors} {after}"
            );
        }
    }
}

#[test]
fn writes_take_their_turns_however_many_reads_wait() {
    let p = plain();
    let mut d = Xpoint::new(p.clone()).unwrap();
    for i in 0..u64::from(p.read_queue) {
        let r = req(i, Read, (1 << 30) + i * 256);
        assert_eq!(d.submit(Ps::ZERO, r).unwrap(), Submit::Accepted);
    }
    let t = fill(&mut d, Ps::ZERO, 0, 2, 4);
    assert_eq!(t, Ps::ZERO);
    // The second of the two lines is complete after all requests have passed the channel.
    let channel = Ps(p.beat.0 * (u64::from(p.read_queue) + 4));
    let second = channel + p.media_write_interval;
    for (at, written) in [
        (channel, 0),
        (channel + Ps(1), 1),
        (second, 1),
        (second + Ps(1), 2),
    ] {
        d.advance_to(at).unwrap();
        assert_eq!(d.counters().media_writes, written, "{at}");
    }
}

/// As long as there is room only complete lines leave; then one of the older half, complete or not.
#[test]
fn lines_of_the_older_half_make_room() {
    let p = plain();
    let lines = u64::from(p.combine_lines);
    let mut made_room = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut d = Xpoint::new(XpointParams { seed, ..p.clone() }).unwrap();
        // The last one of the older half is complete, and comes while the medium is not free.
        fill(&mut d, Ps::ZERO, 1000, 1, 4);
        let t = Ps(p.beat.0 * 4 + 1);
        fill(&mut d, t, 0, lines, 1);
        d.advance_to(Ps::from_ns(10_000)).unwrap();
        assert_eq!(
            (d.counters().media_writes, d.counters().media_fills),
            (1, 0)
        );
        fill(&mut d, Ps::from_ns(10_000), 500, 1, 1);
        d.advance_to(Ps::from_ns(20_000)).unwrap();
        assert_eq!(
            (d.counters().media_writes, d.counters().media_fills),
            (2, 1)
        );
        let gone = (0..lines).filter(|l| !d.combine.has(*l, 0xff));
        made_room.extend(gone);
        assert!(d.combine.has(500, 0xff));
    }
    assert!(made_room.iter().all(|l| *l < lines / 2), "{made_room:?}");
    assert!(made_room.len() > 28, "{made_room:?}");
}

#[test]
fn lines_read_are_replaced_likewise() {
    let p = plain();
    let lines = u64::from(p.read_lines);
    let mut gone = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut d = Xpoint::new(XpointParams { seed, ..p.clone() }).unwrap();
        let mut at = Ps::ZERO;
        for line in 0..=lines {
            at += Ps::from_ns(1000);
            let r = req(line, Read, line * 1024);
            assert_eq!(d.submit(at, r).unwrap(), Submit::Accepted);
        }
        let missing: Vec<u64> = (0..=lines)
            .filter(|l| d.lines.find(l * 4).is_none())
            .collect();
        assert_eq!(missing.len(), 1);
        gone.extend(missing);
    }
    assert!(gone.iter().all(|l| *l < lines / 2), "{gone:?}");
    assert!(gone.len() > 28, "{gone:?}");
}

/// A write that completes a line behind incomplete ones that were there first: it leaves, they stay.
#[test]
fn flush_writes_what_is_left_at_the_interval() {
    let p = plain();
    let mut d = Xpoint::new(p.clone()).unwrap();
    fill(&mut d, Ps::ZERO, 0, 5, 1);
    fill(&mut d, Ps::ZERO, 5, 1, 4);
    let at = Ps::from_ns(3000);
    d.advance_to(at).unwrap();
    assert_eq!(
        (d.counters().media_writes, d.counters().media_fills),
        (1, 0)
    );
    let end = d.flush(at).unwrap();
    assert_eq!(
        (d.counters().media_writes, d.counters().media_fills),
        (6, 5)
    );
    let last = at + Ps(4 * p.media_write_interval.0) + Ps(2 * p.media_slot.0);
    assert_eq!(end, last);
    // Afterwards it goes on as always.
    fill(&mut d, end, 0, 1, 1);
    d.advance_to(end + Ps::from_ns(1000)).unwrap();
    assert_eq!((d.counters().media_writes, d.next_event()), (6, None));
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
    let mut p = described::xpoint::<XpointParams>();
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
        ..described::xpoint()
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
        let mut p = described::xpoint::<XpointParams>();
        f(&mut p);
        Xpoint::new(p).unwrap_err().to_string()
    };
    assert!(bad(|p| p.line_bytes = 96).contains("line_bytes = 96"));
    assert!(bad(|p| p.capacity += 1).contains("capacity"));
    assert!(bad(|p| p.combine_lines = 0).contains("combine_lines"));
    assert!(bad(|p| p.read_lines = 257).contains("read_lines"));
    assert!(bad(|p| p.read_ahead = 5).contains("read_ahead = 5"));
    assert!(bad(|p| p.migration.as_mut().unwrap().block_bytes = 3000).contains("block_bytes"));
    assert!(bad(|p| p.migration.as_mut().unwrap().block_bytes = 128).contains("block_bytes"));
    assert!(bad(|p| p.migration.as_mut().unwrap().threshold = 0).contains("threshold"));
    assert!(bad(|p| p.migration.as_mut().unwrap().line_time = Ps(0)).contains("line_time"));
    assert!(bad(|p| p.migration.as_mut().unwrap().spare_blocks = 0).contains("spare_blocks"));
    assert!(bad(|p| p.read_queue = 257).contains("read_queue"));
    assert!(bad(|p| p.translation_entries = 12).contains("translation_entries"));
    assert!(bad(|p| p.translation_bytes = 128).contains("translation_bytes"));
    assert!(bad(|p| p.media_write_interval = Ps(1)).contains("at least twice media_slot"));
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
    let p = described::xpoint::<XpointParams>();
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
    /// Both buffers do what plain lists do.
    #[test]
    fn buffers_are_lists(
        ops in prop::collection::vec((0u64..40, 0u32..4, 0u8..8), 1..300),
        size in 1usize..20,
        seed: u64,
    ) {
        let mut combine = Combine::new(size, 256, seed);
        let mut read = ReadLines::new(size, 256, seed);
        let (mut written, mut lines) = (Vec::<(u64, u64)>::new(), Vec::<u64>::new());
        let (mut made, mut drawn) = (0, 0);
        for (line, sector, op) in ops {
            let line = line << 32;
            let mask = 0xff << (8 * sector);
            let open = written.iter().position(|(l, m)| *l == line && *m != u64::from(u32::MAX));
            prop_assert_eq!(combine.open(line), open);
            let has = written.iter().any(|(l, m)| *l == line && m & mask == mask);
            prop_assert_eq!(combine.has(line, mask), has);
            prop_assert_eq!(combine.has_room(), written.len() < size);
            let first = written.iter().position(|(_, m)| *m == u64::from(u32::MAX));
            prop_assert_eq!(combine.complete_since().is_some(), first.is_some());
            let taken = |i: usize, written: &mut Vec<(u64, u64)>| {
                let (l, m) = written.remove(i);
                (l, m == u64::from(u32::MAX))
            };
            match op {
                0 => {
                    let expected = first.map(|i| taken(i, &mut written));
                    prop_assert_eq!(combine.take_complete(), expected);
                }
                1 => {
                    let expected = (!written.is_empty()).then(|| taken(0, &mut written));
                    prop_assert_eq!(combine.take_first(), expected);
                }
                _ => {
                    if open.is_none() && written.len() == size {
                        made += 1;
                        let i = lines::older(seed ^ made, size).unwrap();
                        prop_assert!(i < size.div_ceil(2));
                        let expected = taken(i, &mut written);
                        prop_assert_eq!(combine.make_room(), Some(expected));
                    }
                    let open = combine.open(line);
                    combine.write(open, line, mask, Ps::ZERO);
                    match open {
                        Some(i) => written[i].1 |= mask,
                        None => written.push((line, mask)),
                    }
                }
            }
            let found = read.find(line);
            prop_assert_eq!(found.is_some(), lines.contains(&line));
            if found.is_none() {
                if lines.len() == size {
                    drawn += 1;
                    lines.remove(lines::older(seed ^ drawn, size).unwrap());
                }
                lines.push(line);
                read.insert(line, Ps::ZERO, false);
            }
        }
    }
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
    let mut m = Xpoint::new(described::xpoint::<XpointParams>()).unwrap();
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
        ("media_write_interval", "1 ns", "at least twice media_slot"),
        ("path", "80", "80"),
    ] {
        let e = m.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    assert_eq!(m.report(Ps::ZERO).changes.len(), 2);
}
