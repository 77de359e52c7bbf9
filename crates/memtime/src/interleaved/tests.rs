use super::*;
use crate::described;
use crate::request::Kind;
use crate::xpoint::{Xpoint, XpointParams};
use proptest::prelude::*;

fn dimms(n: u32, granularity: u64) -> Result<Interleaved, Error> {
    let mut p = described::xpoint::<XpointParams>();
    p.capacity = 1 << 20;
    p.start_gap = None;
    let way = |_| Ok(Box::new(Xpoint::new(p.clone())?) as Box<dyn MemoryModel + Send>);
    Interleaved::new(granularity, (0..n).map(way).collect::<Result<_, Error>>()?)
}

fn read(addr: u64) -> Request {
    Request {
        id: addr,
        addr,
        kind: Kind::Read,
        bytes: 64,
    }
}

#[test]
fn blocks_go_to_the_ways_in_turn() {
    let mut m = dimms(6, 4096).unwrap();
    assert_eq!(m.capacity(), 6 << 20);
    for i in 0..12 {
        assert_eq!(m.map().place(i * 4096 + 8), (i % 6, i / 6 * 4096 + 8));
        assert_eq!(
            m.submit(Ps::ZERO, read(i * 4096)).unwrap(),
            Submit::Accepted
        );
    }
    let s = m.report(Ps::from_ns(10_000));
    assert_eq!(s.name, "interleaved");
    let reads: Vec<_> = s
        .regions
        .iter()
        .map(|r| (&*r.name, r.counters.reads))
        .collect();
    assert_eq!(reads[0], ("way0", 2));
    assert_eq!(reads.len(), 6);
    assert!(reads.iter().all(|r| r.1 == 2));
    let e = m.submit(Ps::ZERO, read(6 << 20)).unwrap_err();
    assert!(matches!(e, Error::OutOfRange { capacity, .. } if capacity == 6 << 20));
}

/// Reads of twelve lines of one DIMM wait for one another; spread over six DIMMs only two lines
/// share each DIMM.
#[test]
fn ways_work_at_the_same_time() {
    let end = |stride: u64| {
        let mut m = dimms(6, 4096).unwrap();
        for i in 0..12 {
            assert_eq!(
                m.submit(Ps::ZERO, read(i * stride)).unwrap(),
                Submit::Accepted
            );
        }
        let mut done = Vec::new();
        m.drain(&mut done);
        done.iter().map(|c| c.done_at).max().unwrap()
    };
    let (one, six) = (end(6 * 4096), end(4096));
    assert!(one > six + Ps::from_ns(9 * 39), "{one} {six}");
}

#[test]
fn parameters_of_one_way_and_of_all() {
    let mut m = dimms(2, 64).unwrap();
    m.set_parameter(Ps::ZERO, "path", "100 ns").unwrap();
    m.set_parameter(Ps::ZERO, "way1.path", "90 ns").unwrap();
    let all = m.parameters();
    let value = |key: &str| all.iter().find(|p| p.0 == key).unwrap().1.clone();
    assert_eq!(value("way0.path"), "100 ns");
    assert_eq!(value("way1.path"), "90 ns");
    assert_eq!(m.report(Ps::ZERO).changes.len(), 3);
    assert!(m.set_parameter(Ps::ZERO, "line_bytes", "64").is_err());
    assert_eq!(m.report(Ps::ZERO).changes.len(), 3);
}

#[test]
fn bad_parameters() {
    let e = |n, g| dimms(n, g).err().unwrap().to_string();
    assert!(e(1, 4096).contains("interleave.ways = 1"));
    assert!(e(17, 4096).contains("2 to 16"));
    assert!(e(2, 3000).contains("interleave.granularity = 3000"));
    assert!(e(2, 32).contains("64 B"));
    assert!(e(2, 1 << 30).contains("whole blocks"));
}

proptest! {
    /// The map is one to one between the range and all places of all ways.
    #[test]
    fn the_map_is_a_bijection(
        ways in 2u32..=16, shift in 6u32..=30, addr in 0u64..1 << 50, blocks in 1u64..5,
    ) {
        let m = Interleave::new(ways, 1 << shift).unwrap();
        let (way, inner) = m.place(addr);
        prop_assert!(way < u64::from(ways));
        prop_assert_eq!(m.addr(way, inner), addr);
        // What lies in a range of whole blocks stays in ways of as many.
        let (n, size) = (u64::from(ways), blocks << shift);
        let within = addr % (n * size);
        prop_assert!(m.place(within).1 < size);
        let (way, inner) = (addr % n, addr / n % size);
        prop_assert!(m.addr(way, inner) < n * size);
        prop_assert_eq!(m.place(m.addr(way, inner)), (way, inner));
    }
}
