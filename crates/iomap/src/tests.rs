use super::*;
use proptest::prelude::*;

const RW: Rights = Rights {
    read: true,
    write: true,
};

fn entry(vm: u16, from: u64, to: u64, size_log2: u32) -> Entry {
    Entry {
        vm,
        from,
        to,
        size_log2,
        rights: RW,
    }
}

fn small(replacement: Replacement) -> Table {
    let mut t = Table::new(Kind::Small(replacement), 4).unwrap();
    if replacement != Replacement::Software {
        for i in 0..4 {
            assert_eq!(
                t.fill(entry(0, i * 16, 0x100 + i * 16, 4)).unwrap(),
                i as usize
            );
        }
    }
    t
}

#[test]
fn translates_within_the_range_only() {
    let mut t =
        Table::constant(&[entry(1, 0x1000, 0x9000_0000, 12), entry(2, 0x1000, 0, 2)]).unwrap();
    assert_eq!(t.look_up(1, 0x1000, Access::Read), Answer::Hit(0x9000_0000));
    assert_eq!(
        t.look_up(1, 0x1fff, Access::Write),
        Answer::Hit(0x9000_0fff)
    );
    assert_eq!(t.look_up(1, 0x2000, Access::Read), Answer::Miss);
    assert_eq!(t.look_up(1, 0xfff, Access::Read), Answer::Miss);
    // The other VM's range is smaller.
    assert_eq!(t.look_up(2, 0x1003, Access::Read), Answer::Hit(3));
    assert_eq!(t.look_up(2, 0x1004, Access::Read), Answer::Miss);
    assert_eq!((t.misses(), t.last_miss()), (3, Some((2, 0x1004))));
    assert_eq!(t.counters()[0].hits, 2);
}

#[test]
fn rights_are_checked_behind_the_range() {
    let mut e = entry(0, 0, 0x40, 2);
    e.rights.write = false;
    let mut t = Table::constant(&[e]).unwrap();
    assert_eq!(t.look_up(0, 0, Access::Write), Answer::Denied);
    assert_eq!(t.look_up(0, 0, Access::Read), Answer::Hit(0x40));
    assert_eq!(t.counters()[0], Counters { hits: 1, denied: 1 });
    assert_eq!(t.misses(), 0);
}

#[test]
fn what_is_no_entry_is_refused() {
    let mut t = Table::new(Kind::Full, 2).unwrap();
    assert_eq!(t.write(0, Some(entry(0, 0, 0, 1))), Err(Error::Size(1)));
    assert_eq!(t.write(0, Some(entry(0, 0, 0, 64))), Err(Error::Size(64)));
    assert_eq!(
        t.write(0, Some(entry(0, 2, 0, 2))),
        Err(Error::Alignment(2))
    );
    assert_eq!(
        t.write(0, Some(entry(0, 0, 8, 4))),
        Err(Error::Alignment(8))
    );
    assert_eq!(t.write(2, None), Err(Error::Place(2)));
    t.write(0, Some(entry(0, 0x100, 0, 8))).unwrap();
    assert_eq!(
        t.write(1, Some(entry(0, 0x140, 0, 2))),
        Err(Error::Overlap(0))
    );
    assert_eq!(t.write(1, Some(entry(0, 0, 0, 10))), Err(Error::Overlap(0)));
    // An entry may be replaced by one that overlaps it, and other VMs have maps of their own.
    t.write(0, Some(entry(0, 0, 0, 10))).unwrap();
    t.write(1, Some(entry(1, 0, 0, 10))).unwrap();
    let fixed = Table::constant(&[entry(0, 0, 0, 4), entry(0, 8, 0, 2)]);
    assert_eq!(fixed.unwrap_err(), Error::Overlap(0));
}

#[test]
fn a_wide_access_gets_nothing_beyond_its_entry() {
    let mut t = Table::constant(&[entry(0, 0, 0x100, 2), entry(0, 8, 0x200, 3)]).unwrap();
    assert_eq!(t.look_up_range(0, 0, 4, Access::Read), Answer::Hit(0x100));
    assert_eq!(t.look_up_range(0, 0, 8, Access::Read), Answer::Miss);
    assert_eq!(t.look_up_range(0, 8, 8, Access::Read), Answer::Hit(0x200));
    assert_eq!(t.look_up_range(0, u64::MAX, 2, Access::Read), Answer::Miss);
    assert_eq!(t.look_up(3, 8, Access::Read), Answer::Miss);
    let of = |hits, misses| VmCounters {
        hits,
        denied: 0,
        misses,
    };
    assert_eq!(t.vm_counters(0), of(2, 2));
    assert_eq!(t.vm_counters(3), of(0, 1));
    assert_eq!(t.vm_counters(4), VmCounters::default());
    assert_eq!(t.covered(0, 9, 100), 7);
    assert_eq!(t.covered(0, 9, 2), 2);
    assert_eq!(t.covered(0, 4, 1), 0);
}

#[test]
fn a_saved_table_goes_on_where_it_was() {
    for replacement in [Replacement::Lru, Replacement::Fifo, Replacement::Random] {
        let mut t = small(replacement);
        t.look_up(0, 0x10, Access::Read);
        t.look_up(5, 0, Access::Write);
        let saved = t.save();
        let mut other = Table::new(Kind::Small(replacement), 4).unwrap();
        other.load(&saved).unwrap();
        for n in 0..6 {
            let new = entry(0, 0x1000 + n * 4, 0, 2);
            assert_eq!(other.fill(new), t.fill(new));
        }
        assert_eq!(other.save(), t.save());
        assert!(Table::new(Kind::Full, 5).unwrap().load(&saved).is_err());
        let mut constant = Table::constant(&[entry(0, 0, 0, 2); 1]).unwrap();
        assert!(constant.load(&saved).is_err());
    }
}

#[test]
fn who_chooses_the_place() {
    let mut c = Table::constant(&[]).unwrap();
    assert_eq!(c.write(0, None), Err(Error::Constant));
    assert_eq!(c.fill(entry(0, 0, 0, 2)), Err(Error::Constant));
    let mut f = Table::new(Kind::Full, 4).unwrap();
    assert_eq!(f.fill(entry(0, 0, 0, 2)), Err(Error::Chooser("monitor")));
    let mut l = small(Replacement::Lru);
    assert_eq!(
        l.write(0, Some(entry(0, 0, 0, 2))),
        Err(Error::Chooser("table"))
    );
    l.write(2, None).unwrap();
    assert_eq!(l.fill(entry(0, 0x200, 0, 2)), Ok(2));
    let mut s = small(Replacement::Software);
    s.write(3, Some(entry(0, 0, 0, 2))).unwrap();
    for n in [0, 3, 5, 128] {
        assert_eq!(
            Table::new(Kind::Small(Replacement::Lru), n).unwrap_err(),
            Error::Entries(n)
        );
    }
}

#[test]
fn victims() {
    let next = |t: &mut Table, n: u64| t.fill(entry(0, 0x1000 + n * 4, 0, 2)).unwrap();
    let mut lru = small(Replacement::Lru);
    let mut fifo = small(Replacement::Fifo);
    for t in [&mut lru, &mut fifo] {
        t.look_up(0, 0, Access::Read);
        t.look_up(0, 0x20, Access::Read);
        // No use without the right, and none without a hit.
        t.look_up(1, 0x10, Access::Read);
    }
    assert_eq!(
        (0..4).map(|n| next(&mut lru, n)).collect::<Vec<_>>(),
        [1, 3, 0, 2]
    );
    assert_eq!(
        (0..4).map(|n| next(&mut fifo, n)).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    // The register: 1, 0x8000, 0x4000, 0x2000, ..., whose low bits are 1, 0, 0, 0.
    let mut random = small(Replacement::Random);
    assert_eq!(
        (0..3).map(|n| next(&mut random, n)).collect::<Vec<_>>(),
        [1, 0, 0]
    );
}

proptest! {
    /// Whatever is written, a lookup agrees with a search over all accepted entries, and no address
    /// of a VM is covered twice.
    #[test]
    fn agrees_with_a_search(
        writes in prop::collection::vec((0usize..8, 0u16..2, 0u64..64, 0u64..64, 0u32..6, any::<bool>()), 1..40),
        looks in prop::collection::vec((0u16..2, 0u64..128, any::<bool>()), 1..60),
    ) {
        let mut t = Table::new(Kind::Full, 8).unwrap();
        let mut plain: Vec<Option<Entry>> = vec![None; 8];
        for (place, vm, from, to, size_log2, write) in writes {
            let e = Entry { rights: Rights { read: true, write }, ..entry(vm, from * 2, to * 2, size_log2) };
            if t.write(place, Some(e)).is_ok() {
                plain[place] = Some(e);
            }
        }
        for (vm, addr, write) in looks {
            let covering: Vec<&Entry> = plain
                .iter()
                .flatten()
                .filter(|e| e.vm == vm && (e.from..e.from + (1 << e.size_log2)).contains(&addr))
                .collect();
            prop_assert!(covering.len() <= 1);
            let access = if write { Access::Write } else { Access::Read };
            let expected = match covering.first() {
                None => Answer::Miss,
                Some(e) if write && !e.rights.write => Answer::Denied,
                Some(e) => Answer::Hit(e.to + (addr - e.from)),
            };
            prop_assert_eq!(t.look_up(vm, addr, access), expected);
        }
    }
}
