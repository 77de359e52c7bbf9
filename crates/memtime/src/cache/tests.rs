use super::*;
use crate::described;
use crate::xpoint::{Xpoint, XpointParams};
use proptest::prelude::*;
use Kind::{Read, Write};

fn front(capacity: u64) -> XpointParams {
    XpointParams {
        capacity,
        path: Ps::from_ns(5),
        beat: Ps::from_ns(1),
        buffer_read: Ps::from_ns(4),
        media_read: Ps::from_ns(10),
        media_slot: Ps::from_ns(3),
        media_write_interval: Ps::from_ns(6),
        write_response: Ps::from_ns(20),
        translation_miss: Ps::ZERO,
        start_gap: None,
        ..described::xpoint()
    }
}

fn make(p: CacheParams, capacity: u64) -> Cache {
    let f = Xpoint::new(front(capacity)).unwrap();
    let b = Xpoint::new(described::xpoint::<XpointParams>()).unwrap();
    Cache::new(p, Box::new(f), Box::new(b)).unwrap()
}

fn sram(block_bytes: u64, ways: u32) -> CacheParams {
    CacheParams {
        block_bytes,
        ways,
        tags: Tags::Sram {
            latency: Ps::from_ns(2),
        },
        transactions: 16,
    }
}

/// Runs (gap ns, kind, address, bytes) and returns the completions.
fn run(m: &mut Cache, ops: &[(u64, Kind, u64, u32)]) -> Vec<Completion> {
    let (mut t, mut done) = (m.latest, Vec::new());
    for (id, (gap, kind, addr, bytes)) in (0u64..).zip(ops) {
        t += Ps::from_ns(*gap);
        let r = Request {
            id,
            addr: *addr,
            kind: *kind,
            bytes: *bytes,
        };
        while let Submit::Busy(u) = m.submit(t, r).unwrap() {
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

/// Latencies of requests one after the other, far apart.
fn latencies(m: &mut Cache, ops: &[(Kind, u64)]) -> Vec<u64> {
    let far: Vec<_> = ops.iter().map(|(k, a)| (100_000, *k, *a, 64)).collect();
    let done = run(m, &far);
    done.iter()
        .map(|c| (c.done_at - c.accepted_at).0 / 1000)
        .collect()
}

const SIZE: u64 = 1 << 20;

#[test]
fn hits_misses_and_dirty_victims_take_their_steps() {
    let o = described::xpoint::<XpointParams>();
    let far = |miss: bool, read: bool| {
        let t = o.beat + o.buffer_read + o.path;
        let m = if read { o.media_read } else { Ps::ZERO };
        (t + m + if miss { o.translation_miss } else { Ps::ZERO }).0 / 1000
    };
    let mut m = make(sram(64, 1), SIZE);
    // Lookup 2; miss from the back; the filled line is then hit in the
    // front's own buffer (1 + 4 + 5).
    let l = latencies(
        &mut m,
        &[(Read, 0), (Read, 0), (Write, 0), (Read, SIZE), (Read, 0)],
    );
    assert_eq!(l[0], 2 + far(true, true));
    assert_eq!(l[1], 2 + 10);
    assert_eq!(l[2], 2 + 20);
    assert_eq!(l[3], 2 + far(true, true));
    // Written back in the meantime: the back has it in its buffer.
    assert_eq!(l[4], 2 + far(false, false));
    let s = m.report(Ps::ZERO);
    assert_eq!(s.counters["cache_hits"], 2.0);
    assert_eq!(s.counters["cache_misses"], 3.0);
    assert_eq!(s.counters["written_back_bytes"], 64.0);
    assert_eq!(s.counters["back.xpoint.reads"], 3.0);
    assert_eq!(s.counters["back.xpoint.writes"], 1.0);
    // Front: hit read, hit write, three fills, one victim read.
    assert_eq!(s.counters["front.xpoint.reads"], 2.0);
    assert_eq!(s.counters["front.xpoint.writes"], 4.0);
}

#[test]
fn tags_with_the_data_cost_a_front_read() {
    let mut m = make(described::memory_mode::<CacheParams>(), SIZE);
    let l = latencies(&mut m, &[(Read, 0), (Read, 0), (Write, 0), (Write, SIZE)]);
    assert_eq!(l[1], 10);
    assert_eq!(l[2], 10 + 20);
    // A whole block is written: probe, then the front write; no fetch.
    assert_eq!(l[3], 10 + 20);
    let s = m.report(Ps::ZERO);
    assert_eq!(s.counters["blocks_fetched"], 1.0);
    assert_eq!(s.counters["written_back_bytes"], 64.0);
    assert_eq!(s.counters["front.xpoint.reads"], 4.0);
}

#[test]
fn blocks_come_whole_and_the_piece_asked_for_first() {
    let mut m = make(sram(256, 2), SIZE);
    let l = latencies(&mut m, &[(Read, 128), (Read, 0), (Read, 192)]);
    assert_eq!(l[0], 2 + 3 + 67 + 100 + 126 + 80);
    assert!(l[1] <= 2 + 20 && l[2] <= 2 + 20, "{l:?}");
    let s = m.report(Ps::ZERO);
    assert_eq!(s.counters["back.xpoint.reads"], 4.0);
    assert_eq!(s.counters["front.xpoint.writes"], 4.0);
}

#[test]
fn requests_to_a_missing_block_wait_for_it() {
    let mut m = make(sram(64, 1), SIZE);
    let done = run(
        &mut m,
        &[(0, Read, 0, 64), (1, Read, 0, 32), (1, Write, SIZE, 8)],
    );
    let at = |id| done.iter().find(|c| c.id == id).unwrap();
    assert!(!at(0).row_hit && at(1).row_hit && !at(2).row_hit);
    assert!(at(1).done_at > at(0).done_at && at(2).done_at > at(1).done_at);
    assert_eq!(m.report(Ps::ZERO).counters["back.xpoint.reads"], 2.0);
}

#[test]
fn parameters_of_cache_and_memories_change() {
    let mut m = make(sram(64, 1), SIZE);
    let before = latencies(&mut m, &[(Read, 0), (Read, 0)])[1];
    let at = m.latest;
    m.set_parameter(at, "cache.tags.sram.latency", "7 ns")
        .unwrap();
    m.set_parameter(at, "front.path", "15 ns").unwrap();
    m.set_parameter(at, "back.media_read", "500 ns").unwrap();
    assert_eq!(latencies(&mut m, &[(Read, 0)])[0], before + 5 + 10);
    let s = m.report(Ps::ZERO);
    let changes: Vec<_> = s.changes.iter().map(|c| (c.at, &*c.what)).collect();
    assert_eq!(
        changes,
        [
            (at, "cache.tags.sram.latency"),
            (at, "front.path"),
            (at, "back.media_read"),
        ]
    );
    for (key, value, hint) in [
        ("cache.ways", "2", "tags.sram.latency can"),
        ("cache.tags.sram.latency", "2 s", "at most"),
        ("ways", "2", "back.key"),
        ("front.capacity", "2", "media_read"),
    ] {
        let e = m.set_parameter(at, key, value).unwrap_err().to_string();
        assert!(e.contains(hint), "{key}: {e}");
    }
    let mut m = make(described::memory_mode::<CacheParams>(), SIZE);
    let e = m.set_parameter(at, "cache.tags.sram.latency", "1 ns");
    assert!(e.unwrap_err().to_string().contains("not in use"));
}

#[test]
fn bad_parameters() {
    let bad = |p: CacheParams, c: u64| p.validate(c).unwrap_err().to_string();
    assert!(bad(sram(48, 1), SIZE).contains("block_bytes = 48"));
    assert!(bad(sram(64, 17), SIZE).contains("ways = 17"));
    assert!(bad(sram(64, 3), SIZE).contains("whole sets"));
    let p = CacheParams {
        ways: 2,
        ..described::memory_mode()
    };
    assert!(bad(p, SIZE).contains("SRAM"));
    let p = CacheParams {
        transactions: 0,
        ..sram(64, 1)
    };
    assert!(bad(p, SIZE).contains("transactions"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Every request completes once; traffic to both memories equals that of an untimed
    /// write-back cache; the step size of advancing and of draining does not matter.
    #[test]
    fn random_traces(
        ops in prop::collection::vec((0u64..60, any::<bool>(), 0u64..600, 0u32..2), 1..300),
        shape in 0usize..4,
        step in 1_000u64..100_000,
    ) {
        let p = [described::memory_mode::<CacheParams>(), sram(64, 1), sram(64, 4), sram(256, 2)][shape].clone();
        let size = 16384;
        let ops: Vec<_> = ops.iter().map(|(g, w, a, s)| {
            (*g, if *w { Write } else { Read }, a * 64, [64, 8][*s as usize])
        }).collect();
        let mut a = make(p.clone(), size);
        let done = run(&mut a, &ops);
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort();
        prop_assert_eq!(ids, (0..ops.len() as u64).collect::<Vec<_>>());

        let b = p.block_bytes;
        let mut tags = TagArray::new(size / b / u64::from(p.ways), p.ways as usize);
        let (mut fetched, mut back, mut hits) = (0, 0, 0);
        for (_, kind, addr, bytes) in &ops {
            let f = tags.access(addr / b, *kind == Write);
            hits += u64::from(f.hit);
            let whole = *kind == Write && u64::from(*bytes) == b;
            fetched += u64::from(!(f.hit || whole));
            back += u64::from(f.victim.is_some_and(|v| v.dirty));
        }
        let s = a.report(Ps::ZERO);
        prop_assert_eq!(s.counters["cache_hits"], hits as f64);
        prop_assert_eq!(s.counters["back.xpoint.read_bytes"], (fetched * b) as f64);
        prop_assert_eq!(s.counters["back.xpoint.write_bytes"], (back * b) as f64);

        let mut m = make(p.clone(), size);
        let mut t = Ps::ZERO;
        for (id, (gap, kind, addr, bytes)) in (0u64..).zip(&ops) {
            t += Ps::from_ns(*gap);
            let r = Request { id, addr: *addr, kind: *kind, bytes: *bytes };
            while let Submit::Busy(u) = m.submit(t, r).unwrap() {
                t = u;
            }
        }
        for k in [1, 3, 50] {
            let early = m.report(t + Ps(k * step));
            m.advance_to(t + Ps(k * step)).unwrap();
            prop_assert_eq!(early, m.report(t + Ps(k * step)));
        }

        let mut m = make(p, size);
        let (mut t, mut again) = (Ps::ZERO, Vec::new());
        for (id, (gap, kind, addr, bytes)) in (0u64..).zip(&ops) {
            t += Ps::from_ns(*gap);
            let r = Request { id, addr: *addr, kind: *kind, bytes: *bytes };
            while let Submit::Busy(u) = m.submit(t, r).unwrap() {
                while t + Ps(step) < u {
                    t += Ps(step);
                    m.advance_to(t).unwrap();
                }
                t = u;
            }
            m.drain(&mut again);
        }
        while m.next_event().is_some() {
            t += Ps(step);
            m.advance_to(t).unwrap();
        }
        m.drain(&mut again);
        prop_assert_eq!(done, again);
    }
}
