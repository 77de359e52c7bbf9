use super::super::want::From;
use super::*;
use crate::ahead::NOBODY;
use crate::config::{
    CacheGeometry, Inclusion, LevelConfig, PrefetchConfig, Prefetcher, Replacement,
};
use crate::tags::LineState;
use crate::want::Want;
use crate::{Coherence, LineKind, Tags};

const BASE: u64 = 0x1000;

/// Four sets of two ways.
const L1: CacheGeometry = CacheGeometry {
    sets: 4,
    ways: 2,
    line: 64,
    replacement: Replacement::Lru,
};

fn caches(harts: usize, mshrs: u32, levels: &[LevelConfig]) -> Coherence {
    let first = FirstConfig {
        mshrs,
        prefetch: PrefetchConfig {
            prefetcher: Prefetcher::NextLine,
            ..PrefetchConfig::default()
        },
        stores: Default::default(),
    };
    Coherence::new(harts, L1, L1, BASE, 1 << 20)
        .with_levels(levels)
        .with_first([first; 2])
}

fn want(hart: usize, line: u64, kind: LineKind, now: u64) -> Want {
    Want {
        hart,
        line,
        kind,
        pc: 0,
        now,
        blocks: false,
        hint: None,
    }
}

/// A miss of a hart, whose line comes from memory 100 cycles later. Returns the tokens and lines that
/// are prefetched.
fn miss(c: &mut Coherence, w: &Want) -> (From, Vec<(u64, u64)>) {
    c.catch_up(w.now);
    c.filling(w.side(), w.hart, w.line);
    let from = c.fetch(w).unwrap().from;
    c.miss_ends(w.hart, w.now + 100);
    let mut begun = Vec::new();
    while let Some(one) = c.next_prefetch(w.hart, 0, w.now) {
        begun.push(one);
    }
    c.levels.begun.clear();
    c.filled_first(w.hart);
    (from, begun)
}

fn put(c: &mut Coherence, hart: usize, line: u64, state: LineState) -> usize {
    let i = c.l1d[hart].victim(line);
    c.l1d.put(hart, i, line, state);
    c.l1d[hart].filled(i);
    i
}

fn stats(c: &Coherence) -> FirstStats {
    c.first_stats()[0].unwrap()
}

#[test]
fn a_set_is_guarded_until_the_line_has_come() {
    let mut c = caches(1, 0, &[]);
    let (from, begun) = miss(&mut c, &want(0, BASE, LineKind::Load, 10));
    assert_eq!((from, begun[0].1), (From::Memory, BASE + 64));
    let next = BASE + 64;
    let guarded =
        |c: &Coherence| [0, 64, 128, 192, 256 + 64].map(|d| c.is_guarded(Side::Data, 0, BASE + d));
    assert_eq!(guarded(&c), [false, true, false, false, true]);
    assert!(!c.is_guarded(Side::Inst, 0, next));
    // The set is full; the line that was used longest ago is modified, and goes to memory.
    let old = put(&mut c, 0, next + 256, LineState::Dirty);
    put(&mut c, 0, next + 512, LineState::Exclusive);
    c.line_came(begun[0].0, 130);
    assert_eq!(c.next_due(), 130);
    assert!(c.settle_due(129).is_none() && c.l1d[0].find(next).is_none());
    assert_eq!(c.settle_due(130).unwrap().cycle, 130);
    assert_eq!(c.l1d[0].entry(old), (next, LineState::Exclusive));
    assert_eq!(c.next_to_memory(), Some((next + 256, None)));
    assert_eq!(guarded(&c), [false; 5]);
    assert!(c.is_unused(Side::Data, 0, next));
    c.check_first().unwrap();
    c.used_first(&want(0, next, LineKind::Load, 140));
    assert!(!c.is_unused(Side::Data, 0, next));
    let predicted = c.next_prefetch(0, 0, 140).unwrap().1;
    assert_eq!(predicted, next + 64, "the first use is observed");
    let s = stats(&c);
    assert_eq!(
        (s.prefetches, s.prefetch_useful, s.prefetch_useless),
        (2, 1, 0)
    );
}

#[test]
fn a_miss_of_a_line_that_comes_waits_for_it() {
    let mut c = caches(2, 0, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
    c.line_came(begun[0].0, 130);
    // Another hart has caches of its own.
    let other = miss(&mut c, &want(1, BASE + 64, LineKind::Load, 20)).0;
    assert_eq!(other, From::Memory);
    let (from, more) = miss(&mut c, &want(0, BASE + 64, LineKind::Load, 30));
    assert_eq!(from, From::Prefetch(Some(130)));
    assert_eq!(more[0].1, BASE + 128, "it is observed as a miss");
    assert!(!c.is_guarded(Side::Data, 0, BASE + 64));
    c.settle_due(130).unwrap();
    assert_eq!(c.take_woken(), Some((0, 130)));
    assert_eq!(c.l1d[0].find(BASE + 64), None, "the hart puts it there");
    let s = stats(&c);
    assert_eq!(
        (s.prefetches, s.prefetch_late, s.prefetch_useful),
        (3, 1, 0)
    );
}

#[test]
fn a_line_that_comes_before_its_miss_has_asked_is_held() {
    let mut c = caches(1, 0, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
    c.line_came(begun[0].0, 130);
    // The hart misses the line, and waits for the write-back of its victim.
    c.filling(Side::Data, 0, BASE + 64);
    c.reserve(0, 2);
    assert!(c.settle_due(200).is_some() && c.l1d[0].find(BASE + 64).is_none());
    assert_eq!(c.next_due(), u64::MAX);
    let w = want(0, BASE + 64, LineKind::Load, 200);
    assert_eq!(c.fetch(&w).unwrap().from, From::Prefetch(Some(130)));
    c.settle_due(200).unwrap();
    assert_eq!(c.take_woken(), Some((0, 200)), "at once");
    // If the hart gives up, the line comes as any other.
    c.filled_first(0);
    let begun = miss(&mut c, &want(0, BASE + 0x400, LineKind::Load, 210)).1;
    c.line_came(begun.last().unwrap().0, 300);
    c.filling(Side::Data, 0, BASE + 0x440);
    c.settle_due(300).unwrap();
    assert!(c.l1d[0].find(BASE + 0x440).is_none());
    c.filled_first(0);
    c.settle_due(310).unwrap();
    assert!(c.l1d[0].find(BASE + 0x440).is_some());
}

#[test]
fn an_entry_that_a_miss_has_chosen_is_not_taken() {
    let mut c = caches(1, 0, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
    c.line_came(begun[0].0, 130);
    let set = c.l1d[0].set_start(BASE + 64);
    put(&mut c, 0, BASE + 0x440, LineState::Exclusive);
    // Entry `set` + 1 is empty, and the miss of another line of the set has chosen it.
    c.filling(Side::Data, 0, BASE + 0x840);
    c.reserve(0, set + 1);
    c.settle_due(130).unwrap();
    assert_eq!(c.l1d[0].find(BASE + 64), Some(set));
    // With one way, there is no other.
    let one = CacheGeometry { ways: 1, ..L1 };
    let mut tags = Tags::new(one);
    assert_eq!(tags.victim_but(BASE, Some(0)), None);
    assert_eq!(tags.victim_but(BASE, Some(1)), Some(0), "in another set");
}

#[test]
fn what_others_store_to_or_flush_does_not_come() {
    for store in [true, false] {
        let mut c = caches(2, 0, &[]);
        let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
        c.line_came(begun[0].0, 130);
        c.void_prefetches(BASE + 64, if store { 1 } else { NOBODY });
        assert!(!c.is_guarded(Side::Data, 0, BASE + 64));
        c.settle_due(130).unwrap();
        assert_eq!(c.l1d[0].find(BASE + 64), None);
        assert_eq!(stats(&c).prefetch_useless, 1);
    }
    // What the other hart has modified by a hit does not come, what it has unmodified is shared.
    for (state, mine) in [
        (LineState::Dirty, None),
        (LineState::Exclusive, Some(LineState::Shared)),
    ] {
        let mut c = caches(2, 0, &[]);
        let i = put(&mut c, 1, BASE + 64, LineState::Exclusive);
        let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
        c.line_came(begun[0].0, 130);
        c.l1d[1].set(i, BASE + 64, state);
        c.settle_due(130).unwrap();
        let found = c.l1d[0].find(BASE + 64);
        assert_eq!(found.map(|i| c.l1d[0].entry(i).1), mine);
        assert_eq!(c.l1d[1].entry(i).1, mine.unwrap_or(LineState::Dirty));
    }
}

#[test]
fn an_emptied_instruction_cache_stays_empty() {
    let mut c = caches(1, 0, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Fetch, 10)).1;
    c.line_came(begun[0].0, 60);
    assert!(c.is_guarded(Side::Inst, 0, BASE + 64));
    c.settle_due(60).unwrap();
    assert!(c.l1i[0].find(BASE + 64).is_some());
    let begun = miss(&mut c, &want(0, BASE + 0x400, LineKind::Fetch, 70)).1;
    c.line_came(begun[0].0, 160);
    c.empty_l1i(0);
    c.settle_due(160).unwrap();
    assert_eq!(c.l1i[0].lines().count(), 0);
    assert_eq!(c.first_stats()[1].unwrap().prefetch_useless, 2);
    // What the hart has modified is not prefetched as code.
    put(&mut c, 0, BASE + 0x840, LineState::Dirty);
    let begun = miss(&mut c, &want(0, BASE + 0x800, LineKind::Fetch, 200)).1;
    assert_eq!(begun, []);
}

#[test]
fn prefetches_and_misses_share_the_registers() {
    let mut c = caches(1, 2, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 0)).1;
    assert_eq!(begun.len(), 1);
    c.line_came(begun[0].0, 150);
    // The miss's own register is free at 100, that of the prefetch at 150.
    let w = want(0, BASE + 0x400, LineKind::Load, 90);
    let found = c.fetch(&w).unwrap();
    assert_eq!((found.from, found.latency), (From::Memory, 10));
    assert_eq!(c.next_prefetch(0, 0, 90), None);
    let s = stats(&c);
    assert_eq!((s.mshr_waits, s.mshr_wait_cycles), (1, 10));
    assert_eq!(s.prefetch_dropped, 1);
}

#[test]
fn an_exclusive_level_gives_the_line_away() {
    let level = LevelConfig {
        inclusion: Inclusion::Exclusive,
        ..LevelConfig::default()
    };
    let mut c = caches(1, 0, &[level]);
    let l2 = &mut c.levels.levels[0].caches;
    let i = l2[0].victim(BASE + 64);
    l2.put(0, i, BASE + 64, LineState::Dirty);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
    assert_eq!(begun, [], "memory is not asked");
    assert_eq!(c.next_due(), 10 + u64::from(level.latency));
    c.settle_due(100).unwrap();
    assert!(c.levels.levels[0].caches[0].find(BASE + 64).is_none());
    let i = c.l1d[0].find(BASE + 64).unwrap();
    assert_eq!(c.l1d[0].entry(i).1, LineState::Dirty);
}

#[test]
fn what_is_saved_is_checked() {
    let mut c = caches(1, 2, &[]);
    let begun = miss(&mut c, &want(0, BASE, LineKind::Load, 10)).1;
    c.line_came(begun[0].0, 130);
    c.filling(Side::Data, 0, BASE + 0x840);
    c.reserve(0, 3);
    let (first, ahead) = (c.save_first(), c.save_ahead());
    let mut copy = caches(1, 2, &[]);
    assert!(copy.load_first(first.clone()) && copy.load_ahead(ahead.clone()));
    assert!(copy.is_guarded(Side::Data, 0, BASE + 64));
    assert_eq!(copy.next_due(), 130);
    let text = |c: &Coherence| format!("{:?} {:?}", c.save_first(), c.save_ahead());
    assert_eq!(text(&c), text(&copy));
    let mut none = Coherence::new(1, L1, L1, BASE, 1 << 20);
    assert!(!none.load_first(first.clone()) && !none.load_ahead(ahead));
    assert!(none.load_first(SavedFirst::default()));
    assert!(!copy.load_first(SavedFirst::default()));
    let mut entry = first.clone();
    entry.fillings[0] = first.fillings[0].map(|f| Filling {
        entry: Some(8),
        ..f
    });
    assert!(!copy.load_first(entry));
    let mut harts = first;
    harts.sides[1].1.clear();
    assert!(!copy.load_first(harts));
}
