use super::*;
use crate::described;
use crate::xpoint::{Xpoint, XpointParams};
use crate::Kind;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

/// A fast memory.
fn dram() -> Box<dyn MemoryModel + Send> {
    let fast = XpointParams {
        capacity: GIB,
        path: Ps::from_ns(5),
        media_read: Ps::from_ns(20),
        media_slot: Ps::from_ns(20),
        media_write_interval: Ps::from_ns(40),
        start_gap: None,
        ..described::xpoint()
    };
    Box::new(Xpoint::new(fast).unwrap())
}

fn nvmm() -> Box<dyn MemoryModel + Send> {
    Box::new(Xpoint::new(described::xpoint::<XpointParams>()).unwrap())
}

fn part(name: &str, base: u64, model: Box<dyn MemoryModel + Send>) -> Part {
    Part {
        name: name.to_owned(),
        base,
        model,
    }
}

fn run(m: &mut dyn MemoryModel, ops: &[(u64, bool, u64)]) -> Vec<Completion> {
    let (mut t, mut done) = (Ps::ZERO, Vec::new());
    for (id, (gap, write, addr)) in (0u64..).zip(ops) {
        t += Ps::from_ns(*gap);
        let r = Request {
            id,
            addr: *addr,
            kind: if *write { Kind::Write } else { Kind::Read },
            bytes: 64,
        };
        while let Submit::Busy(u) = m.submit(t, r).unwrap() {
            t = u;
        }
    }
    while let Some(n) = m.next_event() {
        m.advance_to(n).unwrap();
    }
    m.drain(&mut done);
    done.sort_by_key(|c| c.id);
    done
}

/// A part without commands is named in the error, and nothing is logged then.
#[test]
fn logs_of_all_parts_or_of_none() {
    let board = || {
        let c = crate::Controller::new(described::board()).unwrap();
        Box::new(c) as Box<dyn MemoryModel + Send>
    };
    let size = board().capacity();
    let parts = vec![part("a", 0, board()), part("b", size, nvmm())];
    let mut m = Hybrid::new(parts).unwrap();
    let e = m.set_command_log(true).unwrap_err().to_string();
    assert_eq!(e, "the part b has no device commands to log");
    run(&mut m, &[(10, false, 0)]);
    let mut log = Vec::new();
    m.take_commands(&mut log);
    assert!(log.is_empty());

    let inner = vec![part("x", 0, board()), part("y", size, board())];
    let inner = Box::new(Hybrid::new(inner).unwrap());
    let parts = vec![part("a", 0, board()), part("b", size, inner)];
    let mut m = Hybrid::new(parts).unwrap();
    m.set_command_log(true).unwrap();
    let named = m.command_parts();
    let names: Vec<_> = named.iter().map(|p| (&*p.name, p.channels)).collect();
    assert_eq!(names, [("a", 1), ("b.x", 1), ("b.y", 1)]);
    run(
        &mut m,
        &[(10, false, 2 * size), (500, false, 64), (500, true, size)],
    );
    m.take_commands(&mut log);
    let reads = log.iter().filter(|c| c.op == crate::dram::Command::Rd);
    let reads: Vec<_> = reads.map(|c| c.channel).collect();
    assert_eq!(reads, [2, 0]);
    assert!(log.windows(2).all(|w| w[0].clock <= w[1].clock));
    m.set_command_log(false).unwrap();
}

#[test]
fn bad_maps() {
    let err = |parts| Hybrid::new(parts).err().unwrap().to_string();
    assert!(err(vec![]).contains("no part"));
    let size = dram().capacity();
    let overlap = vec![part("a", 0, dram()), part("b", size - 64, nvmm())];
    assert!(err(overlap).contains("'b'"));
    assert!(err(vec![part("a", 0, dram()), part("a", size, nvmm())]).contains("'a'"));
    assert!(err(vec![part("a", 32, dram())]).contains("multiple of 64"));
    assert!(err(vec![part("a", u64::MAX - 63, dram())]).contains("2^64"));
}

#[test]
fn holes_statistics_and_keys() {
    // Given in the wrong order, with a hole before and between.
    let far = 16 * GIB;
    let mut h = Hybrid::new(vec![part("nvmm", far, nvmm()), part("dram", GIB, dram())]).unwrap();
    assert_eq!(h.parts()[0].name, "dram");
    assert_eq!(h.capacity(), far + (1 << 37));
    let read = |addr| Request {
        id: 0,
        addr,
        kind: Kind::Read,
        bytes: 64,
    };
    for hole in [0, GIB + dram().capacity(), far - 64, far + (1 << 37)] {
        assert!(matches!(
            h.submit(Ps::ZERO, read(hole)),
            Err(Error::OutOfRange { .. })
        ));
    }
    let done = run(
        &mut h,
        &[(0, false, far), (0, true, far + 64), (0, false, far + 256)],
    );
    assert_eq!(done.len(), 3);
    let s = h.report(Ps::ZERO);
    let n = s.region("nvmm").unwrap().counters;
    assert_eq!((n.reads, n.writes), (2, 1));
    assert_eq!(s.counters["nvmm.media_reads"], 2.0);
    assert_eq!(s.total().requests(), 3);
    let e = h.set_parameter(Ps::ZERO, "nothing", "1").unwrap_err();
    assert!(e.to_string().contains("part.key") && e.to_string().contains("dram or nvmm"));
    let at = Ps::from_ns(50_000);
    h.set_parameter(at, "nvmm.path", "90 ns").unwrap();
    let seen = h.report(at).changes;
    assert_eq!(
        (seen[0].at, &*seen[0].what, seen.len()),
        (at, "nvmm.path", 1)
    );
    // Parts look ahead: their background energy runs up to the report.
    let background = |ns| {
        let s = h.report(Ps::from_ns(ns));
        let e = s.region("nvmm").unwrap().energy.as_ref().unwrap();
        e.background
    };
    assert_eq!(background(120_000), 2.0 * background(60_000));
    h.reset_stats(Ps::from_ns(99_999)).unwrap();
    assert_eq!(h.report(Ps::ZERO).total().requests(), 0);
    assert_eq!(h.report(Ps::ZERO).from, Ps::from_ns(99_999));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Parts do not disturb one another: each behaves as if it were alone, as long as nothing is
    /// refused.
    #[test]
    fn parts_are_independent(
        ops in prop::collection::vec((300u64..900, any::<bool>(), any::<bool>(), 0u64..4096), 1..200),
    ) {
        let base = dram().capacity();
        let mut h = Hybrid::new(vec![part("dram", 0, dram()), part("nvmm", base, nvmm())]).unwrap();
        let whole: Vec<_> = ops.iter()
            .map(|(g, w, n, a)| (*g, *w, a * 64 + if *n { base } else { 0 })).collect();
        let done = run(&mut h, &whole);
        let mut alone = Vec::new();
        for which in [false, true] {
            let mut m = if which { nvmm() } else { dram() };
            let (mut t, mut mine) = (Ps::ZERO, Vec::new());
            for (id, (g, w, n, a)) in (0u64..).zip(&ops) {
                t += Ps::from_ns(*g);
                if *n == which {
                    let r = Request {
                        id, addr: a * 64, bytes: 64,
                        kind: if *w { Kind::Write } else { Kind::Read },
                    };
                    prop_assert_eq!(m.submit(t, r).unwrap(), Submit::Accepted);
                }
            }
            while let Some(n) = m.next_event() {
                m.advance_to(n).unwrap();
            }
            m.drain(&mut mine);
            alone.append(&mut mine);
        }
        alone.sort_by_key(|c| c.id);
        prop_assert_eq!(done, alone);
    }
}
