use crate::config::{
    CacheGeometry, FirstConfig, Inclusion, LevelConfig, Replacement, StoresConfig,
};
use crate::{Coherence, LineState, Notice};

const GEOMETRY: CacheGeometry = CacheGeometry {
    sets: 1,
    ways: 1,
    line: 64,
    replacement: Replacement::Lru,
};
const CODE: u64 = 0x1000;
const DATA: u64 = 0x2040;
const SLOT: u16 = 5;

/// A hart whose filter covers a line of code, with an inclusive level of few lines behind it.
fn caches(mshrs: u32, ways: u32) -> Coherence {
    let level = LevelConfig {
        geometry: CacheGeometry { ways, ..GEOMETRY },
        inclusion: Inclusion::Inclusive,
        ..LevelConfig::default()
    };
    let data = FirstConfig {
        mshrs,
        stores: StoresConfig {
            entries: 4,
            ..StoresConfig::default()
        },
        ..FirstConfig::default()
    };
    let mut c = Coherence::new(2, GEOMETRY, GEOMETRY, CODE, 1 << 20)
        .with_levels(&[level])
        .with_first([data, FirstConfig::default()]);
    c.allocate(0, (0, 0), CODE, false, None);
    let i = c.l1i[0].victim(CODE);
    c.l1i.put(0, i, CODE, LineState::Shared);
    c.l1i[0].set_slot(i, SLOT);
    c
}

/// Another hart gets a line and modifies it.
fn taken(c: &mut Coherence, line: u64) {
    let i = c.l1d[1].victim(line);
    c.l1d.put(1, i, line, LineState::Dirty);
}

/// The hart does not run: it learns of the lines that it has lost by notices.
fn check(c: &mut Coherence) {
    assert!(c.l1i[0].find(CODE).is_none());
    assert_eq!(c.take_notices(0), [Notice::DropFetch(SLOT)]);
    assert_eq!(c.next_dropped(), None);
}

#[test]
fn a_line_that_another_hart_hands_over_on_arrival_evicts_for_nobody() {
    let mut c = caches(2, 1);
    assert!(c.push_store(0, (DATA, 8, 1), 10, 0));
    c.levels.begun.clear();
    c.levels.stores.deeds.clear();
    taken(&mut c, DATA);
    let token = c.levels.ahead.under_way[0].token();
    c.line_came(token, 100);
    assert!(c.settle_due(100).is_some());
    check(&mut c);
}

#[test]
fn so_does_one_that_is_requested_when_a_register_is_free() {
    let mut c = caches(1, 2);
    assert!(c.push_store(0, (DATA + 64, 8, 1), 10, 0));
    assert!(c.push_store(0, (DATA, 8, 1), 11, 0));
    c.levels.begun.clear();
    c.levels.stores.deeds.clear();
    taken(&mut c, DATA);
    let token = c.levels.ahead.under_way[0].token();
    c.line_came(token, 100);
    while c.levels.ahead.under_way.iter().all(|p| p.line != DATA) {
        assert!(c.settle_due(200).is_some());
    }
    check(&mut c);
}

#[test]
fn a_copy_writes_what_is_due_when_it_is_due() {
    let mut c = caches(2, 2);
    let i = c.l1d[0].victim(DATA);
    c.l1d.put(0, i, DATA, LineState::Exclusive);
    assert!(c.push_store(0, (DATA, 8, 1), 10, 0));
    c.levels.begun.clear();
    assert_eq!(c.next_due(), 11);
    let mut copy = caches(2, 2);
    copy.load(c.save(|_, _, _| ())).unwrap();
    assert_eq!(copy.next_due(), 11);
    copy.check_left_over().unwrap();
}
