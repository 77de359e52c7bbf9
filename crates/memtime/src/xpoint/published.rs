//! The figures published for the hardware, beside the model's.

use super::host::{bandwidth, Thread};
use super::tests::{gen1, random, req};
use super::*;
use crate::described;
use crate::interleaved::Interleaved;
use Kind::{Read, Write};

/// One row of the table: what, published, model.
type Row = (String, f64, f64);

/// Prints rows, and returns how many are further from the published figure than `percent`.
fn table(title: &str, rows: &[Row], percent: f64) -> usize {
    println!(
        "{title:40} {:>10} {:>10} {:>8}",
        "published", "model", "error"
    );
    let error = |r: &&Row| (r.2 / r.1 - 1.0) * 100.0;
    for r in rows {
        println!("{:40} {:>10.2} {:>10.2} {:>7.1}%", r.0, r.1, r.2, error(&r));
    }
    rows.iter().filter(|r| error(r).abs() > percent).count()
}

fn dimms() -> Interleaved {
    let way = |_| Box::new(gen1()) as Box<dyn MemoryModel + Send>;
    Interleaved::new(4096, (0..6).map(way).collect()).unwrap()
}

/// Latency of one read in ns, and when the next one is sent.
fn one(d: &mut dyn MemoryModel, t: &mut Ps, addr: u64) -> f64 {
    let mut done = Vec::new();
    assert_eq!(d.submit(*t, req(0, Read, addr)).unwrap(), Submit::Accepted);
    while done.is_empty() {
        d.drain(&mut done);
        if done.is_empty() {
            let n = d.next_event().unwrap();
            d.advance_to(n).unwrap();
        }
    }
    let latency = done[0].done_at - *t;
    *t = done[0].done_at;
    latency.as_ns()
}

/// Mean latency of a pointer chase through all 64-byte blocks of a region in a random order that
/// stays the same, in ns. Of a large region, the second round is measured only in part.
fn chase(d: &mut dyn MemoryModel, bytes: u64) -> f64 {
    let n = bytes / 64;
    let mut order: Vec<u64> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i as usize, random(i ^ bytes, i + 1) as usize);
    }
    let mut t = Ps::ZERO;
    for a in &order {
        one(d, &mut t, a * 64);
    }
    let measured = 100_000.min(n.max(20_000));
    let all = order.iter().cycle().take(measured as usize);
    all.map(|a| one(d, &mut t, a * 64)).sum::<f64>() / measured as f64
}

/// A chase through a region that is far larger than all buffers, at random addresses: a round
/// through all of it would take too long.
fn far_chase(d: &mut dyn MemoryModel, bytes: u64) -> f64 {
    let mut t = Ps::ZERO;
    let address = |i| random(i, bytes / 64) * 64;
    for i in 0..400_000 {
        one(d, &mut t, address(i));
    }
    let measured = 400_000..500_000;
    measured.map(|i| one(d, &mut t, address(i))).sum::<f64>() / 100_000.0
}

/// Bandwidth in GB/s of requests submitted as fast as they are accepted, over the last three
/// quarters.
fn saturate(d: &mut dyn MemoryModel, n: u64, request: impl Fn(u64) -> (Kind, u64)) -> f64 {
    let (mut t, mut from, mut done) = (Ps::ZERO, Ps::ZERO, Vec::new());
    for i in 0..n {
        let (kind, addr) = request(i);
        while let Submit::Busy(until) = d.submit(t, req(i, kind, addr)).unwrap() {
            assert!(until > t);
            t = until;
        }
        if i == n / 4 {
            from = t;
        }
        if i % 1024 == 0 {
            d.drain(&mut done);
            done.clear();
        }
    }
    ((n - n / 4 - 1) * 64) as f64 / (t - from).as_s() * 1e-9
}

/// Fill buffers of a core (Intel's optimization manual: 12 of L1D).
const FILL_BUFFERS: usize = 12;
/// Of a core's loads that wait, so many of the oldest can be next: fitted to the bandwidth of readers.
const LOADS: usize = 5;
/// Reads of a core under way with its L2 prefetcher: fitted to what four threads read.
const PREFETCHED: usize = 20;

/// A thread that accesses sectors in this order, with so many of them in a fence if there are fences.
fn thread(
    fence: Option<u64>,
    accesses: impl FnMut(u64) -> (Kind, u64) + 'static,
) -> Thread<'static> {
    Thread {
        accesses: Box::new(accesses),
        most: FILL_BUFFERS,
        reorder: [LOADS, FILL_BUFFERS],
        fence,
    }
}

/// Goes through a region of its own in order. The regions begin in different ways of six interleaved ones.
fn own_region(kind: Kind) -> impl Fn(u64) -> Thread<'static> {
    let region = (1 << 14) * 6 * 4096 + 4096;
    move |i| thread(None, move |n| (kind, i * region + n * 64))
}

/// Accesses `size` sectors in order, at places that are drawn.
fn random_places(kind: Kind, size: u64, fence: bool) -> impl Fn(u64) -> Thread<'static> {
    move |i| {
        thread(fence.then_some(size), move |n| {
            let place = random(n / size * 64 + (i << 40), (10 << 30) / 64 / size);
            (kind, (place * size + n % size) * 64)
        })
    }
}

/// Bandwidth of reads and writes of so many threads, in GB/s.
fn threads(d: &mut dyn MemoryModel, n: u64, thread: impl Fn(u64) -> Thread<'static>) -> [f64; 2] {
    let way = |addr: u64| (addr / 4096 % 6) as usize;
    bandwidth(d, 60_000, (0..n).map(thread).collect(), way)
}

/// Bandwidth of random accesses of `size` bytes in a region of 64 MB, as 64-byte requests.
fn accesses(kind: Kind, size: u64) -> f64 {
    let k = size / 64;
    saturate(&mut gen1(), 80_000, |i| {
        (kind, random(i / k, (64 << 20) / size) * size + i % k * 64)
    })
}

/// Yang et al.: the first halves of all lines of a working set are written, then their second
/// halves, again and again.
fn amplification(lines: u64) -> f64 {
    let mut d = gen1();
    let mut t = Ps::ZERO;
    for _ in 0..(16384 / lines) {
        for half in 0..2 {
            for line in 0..lines {
                for k in 0..2 {
                    let r = req(0, Write, line * 256 + half * 128 + k * 64);
                    while let Submit::Busy(until) = d.submit(t, r).unwrap() {
                        t = until;
                    }
                }
            }
        }
    }
    d.flush(t).unwrap();
    d.counters().write_amplification(256).unwrap()
}

#[test]
fn pointer_chases() {
    let kib = |k: u64| k << 10;
    let mib = |m: u64| m << 20;
    let published = [
        (64, 202.3),
        (256, 183.5),
        (kib(1), 178.9),
        (kib(4), 174.8),
        (kib(8), 178.0),
        (kib(16), 180.2),
        (19_456, 192.7),
        (21_504, 206.4),
        (25_600, 227.3),
        (31_744, 241.5),
        (kib(64), 275.1),
        (kib(124), 294.2),
        (kib(244), 305.0),
        (mib(1), 308.8),
        (mib(8), 310.5),
        (mib(16), 311.9),
        (mib(20), 324.1),
        (mib(24), 332.4),
        (mib(32), 343.6),
    ];
    let far = [(mib(128), 373.8), (mib(256), 376.5), (mib(1024), 376.9)];
    let near = published
        .iter()
        .map(|&(n, p)| (format!("chase of {n} bytes, ns"), p, chase(&mut gen1(), n)));
    let far = far.iter().map(|&(n, p)| {
        let model = far_chase(&mut gen1(), n);
        (format!("chase of {n} bytes, ns"), p, model)
    });
    let rows: Vec<Row> = near.chain(far).collect();
    assert_eq!(table("one DIMM", &rows, 10.0), 0);
    let model: Vec<f64> = rows.iter().skip(3).map(|r| r.2).collect();
    // As measured: longer or equal from 4 KiB on.
    assert!(model.windows(2).all(|w| w[1] > w[0] - 0.5), "{model:?}");
    let six = [
        (kib(64), 182.5),
        (kib(128), 212.0),
        (kib(192), 243.5),
        (kib(256), 254.8),
        (kib(512), 290.3),
        (mib(1), 301.0),
        (mib(16), 313.5),
    ];
    let rows: Vec<Row> = six
        .iter()
        .map(|&(n, p)| (format!("chase of {n} bytes, ns"), p, chase(&mut dimms(), n)))
        .collect();
    assert_eq!(table("six DIMMs", &rows, 10.0), 0);
}

#[test]
fn bandwidth_over_threads() {
    let write = [
        (1, 2.22),
        (2, 2.21),
        (3, 2.21),
        (4, 2.20),
        (5, 2.12),
        (6, 1.96),
        (7, 1.73),
        (8, 1.53),
        (10, 1.25),
        (12, 1.12),
        (16, 0.94),
        (20, 0.86),
        (24, 0.80),
    ];
    let read = [
        (4, 6.52),
        (8, 6.46),
        (10, 6.29),
        (12, 5.91),
        (14, 5.25),
        (16, 4.73),
        (20, 4.10),
        (24, 3.89),
    ];
    let rows = |name: &str, kind, list: &[(u64, f64)]| -> Vec<Row> {
        let row = |&(n, p): &(u64, f64)| {
            let model = threads(&mut gen1(), n, own_region(kind))[kind as usize];
            (format!("{n} threads {name}, GB/s"), p, model)
        };
        list.iter().map(row).collect()
    };
    let rows = [
        rows("write (non-temporal)", Write, &write),
        rows("read", Read, &read),
    ];
    let missed = rows
        .iter()
        .map(|r| table("one DIMM", r, 10.0))
        .sum::<usize>();
    assert_eq!(missed, 0);
    for r in rows {
        assert!(r.windows(2).all(|w| w[1].2 < w[0].2 * 1.02), "{r:?}");
    }
    // Random places; a fraction of what sequential ones reach.
    let row = |size: u64, n, p| {
        let model = threads(&mut gen1(), n, random_places(Write, size / 64, false))[1];
        (format!("{n} threads write {size} B, GB/s"), p, model)
    };
    let rows = [
        row(256, 4, 2.14),
        row(256, 8, 1.54),
        row(256, 12, 1.23),
        row(128, 1, 1.11),
        row(128, 4, 0.92),
        row(128, 8, 0.72),
        row(128, 12, 0.61),
    ];
    assert_eq!(table("random places", &rows, 16.0), 0);
}

/// Benson et al.: a DIMM with other rates, in GiB/s. Each store of an access is fenced; in turn: accesses of
/// the threads follow one another in one region.
#[test]
fn accesses_of_threads_side_by_side() {
    let gib = 1e9 / f64::from(1 << 30);
    let dimm = || {
        let p = XpointParams {
            media_slot: Ps::from_ns(26),
            media_write_interval: Ps::from_ns(82),
            ..described::xpoint()
        };
        Xpoint::new(p).unwrap()
    };
    let in_turn = |size: u64, n: u64| {
        let make = |i: u64| {
            thread(Some(size), move |k| {
                (Write, ((k / size * n + i) * size + k % size) * 64)
            })
        };
        threads(&mut dimm(), n, make)[1] * gib
    };
    let random = |kind, size, n| {
        threads(&mut dimm(), n, random_places(kind, size, kind == Write))[kind as usize] * gib
    };
    let rows = [
        ("4 threads read random 64 B", 2.28, random(Read, 1, 4)),
        ("16 threads read random 64 B", 2.28, random(Read, 1, 16)),
        ("2 threads write 256 B in turn", 2.82, in_turn(4, 2)),
        ("8 threads write 256 B in turn", 2.82, in_turn(4, 8)),
        ("16 threads write 256 B in turn", 2.82, in_turn(4, 16)),
        ("16 threads write 1 KiB in turn", 1.67, in_turn(16, 16)),
        ("16 threads write random 256 B", 2.62, random(Write, 4, 16)),
        ("32 threads write random 256 B", 2.31, random(Write, 4, 32)),
    ]
    .map(|(n, p, m)| (format!("{n}, GiB/s"), p, m));
    assert_eq!(table("another DIMM", &rows, 15.0), 0);
    let pages = |i: u64| match i {
        0..16 => random_places(Read, 256, false)(i),
        _ => random_places(Write, 256, true)(i),
    };
    let b = threads(&mut dimm(), 32, pages);
    let rows = [
        ("16 threads read pages of 16 KiB", 1.68, b[0] * gib),
        ("while 16 threads write such pages", 0.85, b[1] * gib),
    ]
    .map(|(n, p, m)| (format!("{n}, GiB/s"), p, m));
    // Not matched: the two do not disturb one another enough.
    table("another DIMM, both at once", &rows, 10.0);
}

/// A thread of the mixed loads: `reads` sectors read, in order, for one that is written back. What is stored
/// was read before, and leaves the caches in an order that has nothing to do with addresses.
fn cached(i: u64, reads: u64) -> Thread<'static> {
    let region = i << 32;
    let accesses = move |n: u64| {
        let (round, k) = (n / (reads + 1), n % (reads + 1));
        if k == reads {
            (Write, region + (1 << 31) + random(round, 1 << 24) * 64)
        } else {
            (Read, region + (round * reads + k) * 64)
        }
    };
    Thread {
        most: PREFETCHED,
        ..thread(None, accesses)
    }
}

#[test]
fn mixed_loads() {
    let mixed = |n, reads| {
        threads(&mut dimms(), n, |i| cached(i, reads))
            .iter()
            .sum::<f64>()
    };
    let only_reads = |n| {
        let read = |i| Thread {
            most: PREFETCHED,
            ..own_region(Read)(i)
        };
        threads(&mut dimms(), n, read)[0]
    };
    let four = [
        ("read", 14.62, only_reads(4)),
        ("4:1", 13.84, mixed(4, 4)),
        ("3:1", 12.75, mixed(4, 3)),
        ("2:1", 10.41, mixed(4, 2)),
        ("1:1", 6.90, mixed(4, 1)),
        (
            "write",
            13.51,
            threads(&mut dimms(), 4, own_region(Write))[1],
        ),
    ]
    .map(|(n, p, m)| (format!("4 threads, {n}, GB/s"), p, m));
    assert_eq!(table("six DIMMs", &four, 10.0), 0);
    let one = [
        ("read", 4.70, only_reads(1)),
        ("4:1", 5.79, mixed(1, 4)),
        ("3:1", 5.95, mixed(1, 3)),
        ("2:1", 5.87, mixed(1, 2)),
        ("1:1", 6.26, mixed(1, 1)),
    ]
    .map(|(n, p, m)| (format!("1 thread, {n}, GB/s"), p, m));
    assert_eq!(table("six DIMMs", &one, 20.0), 0);
    // Sixteen threads at random places, 64 bytes each; so many of them read.
    let readers = [
        (0, 3.89),
        (2, 4.70),
        (4, 5.71),
        (6, 7.01),
        (8, 7.74),
        (10, 7.86),
        (12, 8.30),
        (14, 8.33),
        (16, 10.71),
    ];
    let row = |&(n, p): &(u64, f64)| {
        let make = |i: u64| random_places(if i < n { Read } else { Write }, 1, false)(i);
        let model = threads(&mut dimms(), 16, make).iter().sum();
        (format!("{n} of 16 threads read, GB/s"), p, model)
    };
    let rows: Vec<Row> = readers.iter().map(row).collect();
    assert_eq!(table("six DIMMs, random 64 B", &rows, 25.0), 0);
}

#[test]
fn overwriting_stalls() {
    let mut d = gen1();
    let (mut t, mut done, mut stalls, mut longest) = (Ps::ZERO, Vec::new(), Vec::new(), 0.0f64);
    for round in 0..100_000u64 {
        let begin = t;
        let mut end = t;
        for k in 0..4 {
            let r = req(round, Write, k * 64);
            while let Submit::Busy(until) = d.submit(t, r).unwrap() {
                t = until;
            }
            d.drain(&mut done);
            end = done.drain(..).map(|c| c.done_at).fold(end, Ps::max);
        }
        t = end;
        let us = (end - begin).as_ns() / 1000.0;
        longest = longest.max(us);
        if us > 10.0 {
            stalls.push(round);
        }
    }
    let apart = (stalls[stalls.len() - 1] - stalls[0]) as f64 / (stalls.len() - 1) as f64;
    // Stalls were measured at rounds 10731, 25132, 39262, 53624 and so on: 14130 to 16072 apart.
    let rows = [
        ("rounds between stalls".to_owned(), 14_300.0, apart),
        ("longest round, us".to_owned(), 52.0, longest),
    ];
    assert_eq!(table("overwriting 256 bytes", &rows, 10.0), 0);
    // A region of several blocks has no hot one.
    let mut d = gen1();
    for i in 0..400_000u64 {
        let r = req(i, Write, i * 64 % (1 << 17));
        while let Submit::Busy(until) = d.submit(t, r).unwrap() {
            t = until;
        }
    }
    assert_eq!(d.counters().migrations, 0);
}

#[test]
fn idle_latency_bandwidth_and_amplification() {
    let mut t = Ps::ZERO;
    let mut d = gen1();
    let sequential = (0..4000).map(|i| one(&mut d, &mut t, i * 64)).sum::<f64>() / 4000.0;
    let stream = |kind| saturate(&mut gen1(), 60_000, |i| (kind, i * 64));
    let rows = [
        ("idle read, sequential, ns", 169.4, sequential),
        ("idle read, random, ns", 305.0, chase(&mut gen1(), 8 << 20)),
        ("sequential read, GB/s", 6.5, stream(Read)),
        ("sequential write, GB/s", 2.2, stream(Write)),
        ("random 64 B read, GB/s", 1.68, accesses(Read, 64)),
        ("random 128 B read, GB/s", 3.34, accesses(Read, 128)),
        ("random 64 B write, GB/s", 0.55, accesses(Write, 64)),
        ("random 128 B write, GB/s", 1.10, accesses(Write, 128)),
        ("random 256 B read, GB/s", 6.50, accesses(Read, 256)),
        ("random 256 B write, GB/s", 2.21, accesses(Write, 256)),
        ("write amplification, 8 KB", 1.04, amplification(32)),
        ("write amplification, 16 KB", 1.04, amplification(64)),
        ("write amplification, 20 KB", 1.36, amplification(80)),
        ("write amplification, 32 KB", 1.82, amplification(128)),
        ("write amplification, 1 MB", 2.07, amplification(4096)),
    ]
    .map(|(n, p, m)| (n.to_owned(), p, m));
    assert_eq!(table("one DIMM", &rows, 10.0), 0);
    let read = |n| threads(&mut dimms(), n, own_region(Read))[0];
    let write = |n| threads(&mut dimms(), n, own_region(Write))[1];
    let rows = [
        ("16 threads read, GB/s", 34.88, read(16)),
        ("24 threads read, GB/s", 37.56, read(24)),
        ("4 threads write, GB/s", 12.50, write(4)),
        ("6 threads write, GB/s", 12.31, write(6)),
    ]
    .map(|(n, p, m)| (n.to_owned(), p, m));
    assert_eq!(table("six DIMMs", &rows, 10.0), 0);
    let rows = [(12, 10.69), (24, 7.5)].map(|(n, p)| {
        (
            format!("{n} threads write, GB/s (not matched)"),
            p,
            write(n),
        )
    });
    table("six DIMMs", &rows, 10.0);
}
