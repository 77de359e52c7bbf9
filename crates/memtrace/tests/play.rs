//! Modes of the driver, against models whose times are known.

use nagori_memtime::request::{Completion, Kind, Request, Submit};
use nagori_memtime::{Error as ModelError, MemoryModel, ModelStats, Period, Ps, SavedModel};
use nagori_memtrace::drive::{run, Mode, Options, Outcome};
use nagori_memtrace::record::Slice;
use nagori_memtrace::{Error, Record, Times, Unaligned};
use proptest::prelude::*;

const CLOCK: Ps = Ps(1000);
const LATENCY: Ps = Ps(50_000);

/// Serves one request after the other, each for `SERVICE`; it completes `LATENCY` after its start;
/// `room` requests can wait.
struct Pipe {
    service: Ps,
    room: usize,
    free: Ps,
    now: Ps,
    waiting: Vec<(Ps, Request, Ps)>,
    log: Vec<(u64, Ps, Request)>,
    ends: Vec<Ps>,
    most: usize,
    /// The result of `flush`.
    flushed: Ps,
}

impl Pipe {
    fn new(service: u64, room: usize) -> Pipe {
        Pipe {
            service: Ps(service),
            room,
            free: Ps::ZERO,
            now: Ps::ZERO,
            waiting: Vec::new(),
            log: Vec::new(),
            ends: Vec::new(),
            most: 0,
            flushed: Ps::ZERO,
        }
    }

    fn queued(&self, at: Ps) -> usize {
        self.waiting.iter().filter(|w| w.2 > at).count()
    }
}

impl MemoryModel for Pipe {
    fn capacity(&self) -> u64 {
        1 << 20
    }
    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, ModelError> {
        assert!(at >= self.now, "time goes back");
        self.now = at;
        if r.addr + u64::from(r.bytes) > self.capacity() {
            return Err(ModelError::OutOfRange {
                addr: r.addr,
                bytes: r.bytes,
                capacity: self.capacity(),
            });
        }
        if self.queued(at) >= self.room {
            let next = self.waiting.iter().map(|w| w.2).filter(|&s| s > at).min();
            return Ok(Submit::Busy(next.unwrap()));
        }
        let start = self.free.max(at);
        self.free = start + self.service;
        self.waiting.push((at, r, start));
        self.ends.retain(|&e| e > at);
        self.ends.push(start + LATENCY);
        self.most = self.most.max(self.ends.len());
        self.log.push((r.id, at, r));
        Ok(Submit::Accepted)
    }
    fn next_event(&self) -> Option<Ps> {
        self.waiting.iter().map(|w| w.2 + Ps(1)).min()
    }
    fn advance_to(&mut self, t: Ps) -> Result<(), ModelError> {
        self.now = self.now.max(t);
        Ok(())
    }
    fn drain(&mut self, into: &mut Vec<Completion>) {
        // Reports the newest first, to show that order does not matter.
        let now = self.now;
        let (done, waiting) = self
            .waiting
            .drain(..)
            .rev()
            .partition::<Vec<_>, _>(|w| w.2 < now);
        self.waiting = waiting.into_iter().rev().collect();
        into.extend(done.into_iter().map(|(at, r, start)| Completion {
            id: r.id,
            kind: r.kind,
            accepted_at: at,
            done_at: start + LATENCY,
            row_hit: false,
        }));
    }
    fn flush(&mut self, at: Ps) -> Result<Ps, ModelError> {
        self.now = self.now.max(at);
        Ok(self.flushed)
    }
    fn report(&self, _: Ps) -> ModelStats {
        ModelStats::default()
    }
    fn reset_stats(&mut self, _: Ps) -> Result<(), ModelError> {
        Ok(())
    }
    fn clock(&self) -> Period {
        Period::of_ps(CLOCK.0).unwrap()
    }
    fn set_parameter(&mut self, _: Ps, key: &str, _: &str) -> Result<(), ModelError> {
        unimplemented!("it has no parameter {key}")
    }
    fn parameters(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    fn unfinished_writes(&self, _: Ps) -> Result<Vec<u64>, ModelError> {
        unimplemented!("nobody asks for them")
    }
    fn save(&self) -> SavedModel {
        unimplemented!("nobody saves this one")
    }
    fn load(&mut self, _: SavedModel) -> Result<(), ModelError> {
        unimplemented!("nobody saves this one")
    }
}

fn trace(n: u64, gap: u64) -> Vec<Record> {
    let record = |i| Record {
        addr: i * 64,
        kind: if i % 4 == 3 { Kind::Write } else { Kind::Read },
        bytes: 64,
        time: i * gap,
    };
    (0..n).map(record).collect()
}

fn play(m: &mut Pipe, records: &[Record], o: Options) -> Result<Outcome, Error> {
    run(
        m,
        &mut Slice::new(records, Times::Cycles),
        o,
        &mut |_, _| Ok(true),
    )
}

#[test]
fn saturated() {
    let mut m = Pipe::new(4000, 8);
    let o = play(
        &mut m,
        &trace(1000, 0),
        Options::new(Mode::Saturated { per_clock: 1 }),
    )
    .unwrap();
    assert_eq!(
        (o.records, o.requests, o.reads, o.writes),
        (1000, 1000, 750, 250)
    );
    assert_eq!((o.read_bytes, o.write_bytes), (48_000, 16_000));
    // 1000 services, the last one's latency after its start.
    assert_eq!(o.to, Ps(999 * 4000) + LATENCY);
    assert_eq!(o.cycles, 999 * 4 + 50);
    // Eight in the queue: the one accepted waits for the eight before it, nearly.
    assert_eq!(o.read_latency.max_ns, Some(82.0));
    assert_eq!(o.delayed, 0);
    let bytes: u64 = o
        .bandwidth
        .iter()
        .map(|p| p.read_bytes + p.write_bytes)
        .sum();
    assert_eq!(bytes, 64_000);
    assert_eq!(o.write_map.written.iter().sum::<u64>(), 16_000);
    assert_eq!(o.write_map.part_bytes, 1024);
    // The port takes two a clock if asked to.
    let mut m = Pipe::new(100, 8);
    play(
        &mut m,
        &trace(10, 0),
        Options::new(Mode::Saturated { per_clock: 2 }),
    )
    .unwrap();
    assert_eq!(m.log[9].1, Ps(4000));
}

#[test]
fn dependent() {
    let mut m = Pipe::new(4000, 8);
    let think = Ps(7000);
    let o = play(
        &mut m,
        &trace(100, 0),
        Options::new(Mode::Dependent { think }),
    )
    .unwrap();
    for (i, (_, at, _)) in m.log.iter().enumerate() {
        assert_eq!(at.0, i as u64 * 57_000);
    }
    assert_eq!(o.read_latency.mean_ns, Some(50.0));
    assert_eq!(o.to, Ps(99 * 57_000 + 50_000));
}

#[test]
fn a_run_ends_with_its_last_write() {
    let answers = Ps(9 * 4000) + LATENCY;
    for (flushed, to) in [(Ps(1000), answers), (Ps(500_500), Ps(500_500))] {
        let mut m = Pipe::new(4000, 8);
        m.flushed = flushed;
        let saturated = Options::new(Mode::Saturated { per_clock: 1 });
        let o = play(&mut m, &trace(10, 0), saturated).unwrap();
        assert_eq!((o.answered, o.to), (answers, to));
        assert_eq!(o.cycles, to.0.div_ceil(CLOCK.0));
    }
    // If nothing is played, the run takes no time.
    let mut m = Pipe::new(4000, 8);
    let saturated = Options::new(Mode::Saturated { per_clock: 1 });
    let o = play(&mut m, &[], saturated).unwrap();
    assert_eq!(
        (o.from, o.answered, o.to, o.cycles),
        (Ps(0), Ps(0), Ps(0), 0)
    );
}

#[test]
fn a_limit_of_requests_under_way() {
    for n in [1, 2, 5] {
        let mut m = Pipe::new(1000, 64);
        let o = Options {
            outstanding: Some(n),
            ..Options::new(Mode::Saturated { per_clock: 1 })
        };
        let o = play(&mut m, &trace(200, 0), o).unwrap();
        assert_eq!(m.most, n as usize);
        // n in each latency.
        let expected = 200 / u64::from(n) * 50;
        assert!(
            o.cycles.abs_diff(expected) <= u64::from(n),
            "{n}: {}",
            o.cycles
        );
    }
}

#[test]
fn paced_counts_from_the_wanted_time() {
    let mut m = Pipe::new(4000, 2);
    let paced = |ns| Options::new(Mode::Paced { interval: Ps(ns) });
    let o = play(&mut m, &trace(100, 0), paced(10_000)).unwrap();
    assert_eq!((o.delayed, o.read_latency.max_ns), (0, Some(50.0)));
    assert_eq!(m.log[7].1, Ps(70_000));
    // Too fast for the memory: the wait grows by 3 ns each.
    let mut m = Pipe::new(4000, 2);
    let o = play(&mut m, &trace(100, 0), paced(1000)).unwrap();
    assert!(o.delayed > 90);
    assert_eq!(o.read_latency.max_ns, Some(50.0 + 98.0 * 3.0));
}

#[test]
fn timestamped() {
    let stamped = |cycle| Options::new(Mode::Timestamped { cycle });
    let mut m = Pipe::new(100, 8);
    play(&mut m, &trace(10, 3), stamped(None)).unwrap();
    assert_eq!(m.log[9].1, Ps(27_000));
    let mut m = Pipe::new(100, 8);
    play(&mut m, &trace(10, 3), stamped(Some(Ps(500)))).unwrap();
    assert_eq!(m.log[9].1, Ps(13_500));
    // Ticks have their own length.
    let mut m = Pipe::new(100, 8);
    let records = trace(10, 3);
    let mut ticks = Slice::new(&records, Times::Ticks(Ps(7)));
    run(&mut m, &mut ticks, stamped(Some(Ps(500))), &mut |_, _| {
        Ok(true)
    })
    .unwrap();
    assert_eq!(m.log[9].1, Ps(189));

    let mut back = trace(3, 3);
    back[2].time = 1;
    let e = play(&mut Pipe::new(100, 8), &back, stamped(None)).unwrap_err();
    assert!(
        e.to_string()
            .starts_with("trace, record 3: the time goes back from 3 to 1"),
        "{e}"
    );
    let records = trace(1, 0);
    let mut none = Slice::new(&records, Times::None);
    let e = run(&mut m, &mut none, stamped(None), &mut |_, _| Ok(true)).unwrap_err();
    assert!(e.to_string().contains("needs a trace with times"), "{e}");
}

#[test]
fn large_accesses_are_split_at_lines() {
    let mut m = Pipe::new(100, 8);
    let r = Record {
        addr: 0x1030,
        kind: Kind::Read,
        bytes: 100,
        time: 0,
    };
    let saturated = Options::new(Mode::Saturated { per_clock: 1 });
    let o = play(&mut m, &[r], saturated).unwrap();
    let pieces: Vec<_> = m.log.iter().map(|l| (l.2.addr, l.2.bytes)).collect();
    assert_eq!(pieces, [(0x1030, 16), (0x1040, 64), (0x1080, 20)]);
    assert_eq!((o.records, o.requests, o.read_bytes), (1, 3, 100));
}

#[test]
fn accesses_across_lines_are_counted_and_treated_as_asked() {
    let mut records = trace(4, 0);
    // Inside the second line, at the end of the third, and a long one from its beginning.
    (records[1].addr, records[1].bytes) = (72, 16);
    records[2].addr = 128 + 16;
    records[3].bytes = 128;
    let saturated = Options::new(Mode::Saturated { per_clock: 1 });
    let with = |unaligned| {
        let mut m = Pipe::new(100, 8);
        let o = play(
            &mut m,
            &records,
            Options {
                unaligned,
                ..saturated
            },
        );
        (o, m.log.iter().map(|l| l.2.addr).collect::<Vec<_>>())
    };
    let (o, addresses) = with(Unaligned::Split);
    let o = o.unwrap();
    assert_eq!((o.records, o.unaligned, o.requests), (4, 1, 6));
    assert_eq!(addresses, [0, 72, 144, 192, 192, 256]);
    let (o, addresses) = with(Unaligned::Truncate);
    let o = o.unwrap();
    assert_eq!((o.records, o.unaligned, o.requests), (4, 1, 5));
    assert_eq!(addresses, [0, 72, 128, 192, 256]);
    let e = with(Unaligned::Refuse).0.unwrap_err().to_string();
    assert!(
        e.starts_with("trace, record 3: the access of 64 bytes at 0x90 crosses"),
        "{e}"
    );
}

#[test]
fn addresses_base_wrap_and_limit() {
    let saturated = Options::new(Mode::Saturated { per_clock: 1 });
    let mut high = trace(3, 0);
    high[1].addr = (1 << 20) + 64;
    let e = play(&mut Pipe::new(100, 8), &high, saturated)
        .unwrap_err()
        .to_string();
    assert!(e.starts_with("trace, record 2: request of 64 bytes"), "{e}");
    assert!(e.contains("--wrap"), "{e}");
    let mut m = Pipe::new(100, 8);
    let wrap = Options {
        wrap: true,
        limit: Some(2),
        ..saturated
    };
    assert_eq!(play(&mut m, &high, wrap).unwrap().records, 2);
    assert_eq!(m.log[1].2.addr, 64);
    let base = Options {
        base: 64,
        ..saturated
    };
    let e = play(&mut Pipe::new(100, 8), &high, base)
        .unwrap_err()
        .to_string();
    assert!(e.contains("0x0 is below the base 0x40"), "{e}");
}

#[test]
fn accesses_beyond_the_last_address_are_refused_also_if_addresses_wrap() {
    let mut records = trace(2, 0);
    for wrap in [false, true] {
        let o = Options {
            wrap,
            ..Options::new(Mode::Saturated { per_clock: 1 })
        };
        for (addr, bytes) in [(u64::MAX, 64), (u64::MAX - 1, 1 << 20)] {
            (records[1].addr, records[1].bytes) = (addr, bytes);
            let mut m = Pipe::new(100, 8);
            let e = play(&mut m, &records, o).unwrap_err().to_string();
            assert!(e.starts_with("trace, record 2: the access of"), "{e}");
            assert!(e.contains("beyond the last address"), "{e}");
            assert_eq!(m.log.len(), 1);
        }
    }
    // The last line is one.
    (records[1].addr, records[1].bytes) = (u64::MAX - 63, 64);
    let mut m = Pipe::new(100, 8);
    let wrap = Options {
        wrap: true,
        ..Options::new(Mode::Saturated { per_clock: 1 })
    };
    assert_eq!(play(&mut m, &records, wrap).unwrap().requests, 2);
    assert_eq!(m.log[1].2.addr, (1 << 20) - 64);
}

#[test]
fn impossible_options_and_interruptions() {
    for (mode, what) in [
        (Mode::Saturated { per_clock: 0 }, "0 requests a clock"),
        (Mode::Paced { interval: Ps(0) }, "an interval of 0"),
        (Mode::Timestamped { cycle: Some(Ps(0)) }, "a cycle of 0"),
    ] {
        let e = play(&mut Pipe::new(100, 8), &trace(1, 0), Options::new(mode)).unwrap_err();
        assert!(e.to_string().contains(what), "{e}");
    }
    let records = trace(100_000 / 6, 0);
    let mut s = Slice::new(&records, Times::None);
    let o = Options {
        wrap: true,
        ..Options::new(Mode::Saturated { per_clock: 1 })
    };
    let e = run(&mut Pipe::new(100, 8), &mut s, o, &mut |_, _| Ok(false)).unwrap_err();
    assert!(matches!(e, Error::Interrupted));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_completes_in_every_mode(
        n in 1u64..200, service in 1u64..9000, room in 1usize..10, gap in 0u64..20,
        which in 0usize..4, outstanding in prop::option::of(1u32..9),
    ) {
        let mode = [
            Mode::Saturated { per_clock: 1 },
            Mode::Dependent { think: Ps(gap) },
            Mode::Paced { interval: Ps(gap * 1000 + 1) },
            Mode::Timestamped { cycle: None },
        ][which];
        let mut m = Pipe::new(service, room);
        let o = play(&mut m, &trace(n, gap), Options { outstanding, ..Options::new(mode) }).unwrap();
        prop_assert_eq!(o.requests, n);
        prop_assert_eq!(o.read_latency.count + o.write_latency.count, n);
        prop_assert!(m.log.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        if let Some(limit) = outstanding {
            prop_assert!(m.most <= limit as usize);
        }
        prop_assert!(o.read_latency.min_ns.unwrap_or(50.0) >= 50.0);
    }
}
