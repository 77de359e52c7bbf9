use super::*;
use crate::config::{
    CacheGeometry, FirstConfig, Inclusion, PrefetchConfig, Prefetcher, Replacement,
};
use crate::tags::LineState;
use crate::want::{From, Want};
use crate::{Coherence, LineKind, Notice};
use proptest::prelude::*;
use std::collections::BTreeSet;

const HARTS: usize = 4;
const L1: CacheGeometry = CacheGeometry {
    sets: 2,
    ways: 2,
    line: 64,
    replacement: Replacement::Lfsr,
};

fn level(sets: u32, ways: u32, shared_by: u32, inclusion: Inclusion) -> LevelConfig {
    LevelConfig {
        geometry: CacheGeometry {
            sets,
            ways,
            line: 64,
            replacement: Replacement::Lru,
        },
        shared_by,
        latency: 10,
        probe_latency: 5,
        inclusion,
        ..LevelConfig::default()
    }
}

/// Four model harts whose accesses use the caches as those of real harts do.
struct Harts {
    c: Coherence,
    /// Lines that were stored to since they were last written to memory.
    newer: BTreeSet<u64>,
    /// Accesses so far; each takes a cycle.
    now: u64,
    /// While a hart waits for memory, others go on.
    overlaps: bool,
    /// The line that it waits for: others lose it only when it comes.
    coming: Option<u64>,
}

impl Harts {
    pub fn new(levels: &[LevelConfig]) -> Self {
        Harts::with_first(levels, FirstConfig::default())
    }

    fn with_first(levels: &[LevelConfig], first: FirstConfig) -> Self {
        let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20)
            .with_levels(levels)
            .with_first([first; 2]);
        c.track_versions();
        Harts {
            c,
            newer: BTreeSet::new(),
            now: 0,
            overlaps: false,
            coming: None,
        }
    }

    /// A line is written to memory; if it is an older state, some cache has a newer one.
    fn arrives(&mut self, line: u64, older: Option<u64>) {
        assert!(self.newer.contains(&line), "{line:#x} was not modified");
        let stays = self.c.is_modified(line);
        assert_eq!(older.is_some(), stays, "{line:#x} is newer in a cache");
        if !stays {
            self.newer.remove(&line);
        }
    }

    fn settle(&mut self) {
        while let Some((line, older)) = self.c.next_to_memory() {
            self.arrives(line, older);
        }
        while self.c.next_dropped().is_some() {}
    }

    fn access(&mut self, hart: usize, line: u64, write: bool) {
        self.now += 1;
        self.c.catch_up(self.now);
        self.settle();
        let present = self.c.l1d[hart].find(line);
        let state = present.map_or(LineState::Invalid, |i| self.c.l1d[hart].entry(i).1);
        let enough = match state {
            LineState::Invalid => false,
            LineState::Shared => !write,
            _ => true,
        };
        if present.is_some() && self.c.is_unused(Side::Data, hart, line) {
            let want = self.want(hart, line);
            self.c.used_first(&want);
            self.prefetch(hart);
        }
        if !enough {
            self.fill(hart, line, write, present);
        } else if write {
            if state == LineState::Exclusive {
                self.c.ages(line);
            }
            self.c.l1d[hart].set(present.unwrap(), line, LineState::Dirty);
        }
        if write {
            self.newer.insert(line);
        }
        self.check();
    }

    fn prefetch(&mut self, hart: usize) {
        while let Some((token, ahead)) = self.c.next_prefetch(hart, 0, self.now) {
            // Some lines arrive soon, some late.
            self.c.line_came(token, self.now + 1 + ahead / 64 % 7);
        }
    }

    fn fill(&mut self, hart: usize, line: u64, write: bool, present: Option<usize>) {
        self.c.filling(Side::Data, hart, line);
        let i = present.unwrap_or_else(|| {
            let i = self.c.l1d[hart].victim(line);
            let (old, state) = self.c.l1d[hart].entry(i);
            self.c.l1d.take(hart, i);
            self.c.left_first(Side::Data, hart, old);
            self.c.reserve(hart, i);
            let modified = state == LineState::Dirty;
            if modified || self.c.wants_clean() && state != LineState::Invalid {
                self.c.give(hart, old, modified, 0);
            }
            if self.now.is_multiple_of(3) {
                // The hart waits, and lines arrive in the meantime.
                self.now += 2;
                self.c.catch_up(self.now);
            }
            self.settle();
            i
        });
        let (mut others, from) = self.c.holders(hart, line);
        if let Some(from) = from {
            let shared = self.c.hand_over((hart, hart), from, line, 0).is_some();
            self.settle();
            if !shared {
                self.arrives(line, None);
            }
        }
        let found = match present {
            Some(_) => None,
            None => Some(self.c.fetch(&self.want(hart, line)).unwrap()),
        };
        let modified = found.is_some_and(|f| f.modified);
        self.prefetch(hart);
        self.settle();
        if found.is_some_and(|f| f.from != From::Level) {
            if self.now.is_multiple_of(2) && self.overlaps {
                // Memory takes its time, and another hart brings other lines.
                (self.overlaps, self.coming) = (false, Some(line));
                for k in 1..1 + self.now % 5 {
                    let other = 0x1000 + (line - 0x1000 + 128 * k) % (64 * 24);
                    self.access((hart + 1) % HARTS, other, k == 2);
                }
                (self.overlaps, self.coming) = (true, None);
                others = self.c.holders(hart, line).0;
            }
            self.c.include(hart, line, self.now);
            self.settle();
        }
        if write {
            self.c.void_prefetches(line, hart);
        }
        self.c.filled_first(hart);
        if write || modified {
            self.c.ages(line);
        }
        if others {
            self.c.probe(hart, line, write);
        }
        let state = match (write || modified, others) {
            (true, _) => LineState::Dirty,
            (false, true) => LineState::Shared,
            (false, false) => LineState::Exclusive,
        };
        self.c.l1d.put(hart, i, line, state);
    }

    fn want(&self, hart: usize, line: u64) -> Want {
        Want {
            hart,
            line,
            kind: LineKind::Load,
            pc: 0,
            now: self.now,
            blocks: false,
            hint: None,
        }
    }

    fn clean(&mut self, hart: usize, line: u64, keep: bool) {
        let modified = self.c.is_modified(line);
        self.c.probe(hart, line, !keep);
        if let Some(i) = self.c.l1d[hart].find(line) {
            let state = self.c.l1d[hart].entry(i).1;
            match (keep, state) {
                (false, _) => {
                    self.c.l1d.take(hart, i);
                    self.c.left_first(Side::Data, hart, line);
                }
                (true, LineState::Dirty) => self.c.l1d[hart].set(i, line, LineState::Exclusive),
                (true, _) => {}
            }
        }
        self.c.clean_levels(hart, line, keep);
        self.settle();
        assert!(!self.c.is_modified(line));
        if modified {
            self.arrives(line, None);
        }
        self.check();
    }

    fn check(&self) {
        self.c.check_levels().unwrap();
        self.c.check_first().unwrap();
        for line in lines() {
            let newer = self.newer.contains(&line);
            assert_eq!(self.c.is_modified(line), newer, "{line:#x}");
        }
        for (hart, l1) in self.c.l1d.iter().enumerate() {
            for (line, state) in (0..l1.len()).map(|i| l1.entry(i)) {
                let owned = matches!(state, LineState::Exclusive | LineState::Dirty);
                if owned && self.coming != Some(line) {
                    assert!(!self.c.holders(hart, line).0, "{line:#x} of hart {hart}");
                }
            }
        }
    }
}

fn lines() -> impl Iterator<Item = u64> {
    (0..24).map(|k| 0x1000 + 64 * k)
}

fn inclusion() -> impl Strategy<Value = Inclusion> {
    prop::sample::select(vec![
        Inclusion::Inclusive,
        Inclusion::NonInclusive,
        Inclusion::Exclusive,
    ])
}

fn prefetcher() -> impl Strategy<Value = Prefetcher> {
    prop::sample::select(vec![
        Prefetcher::None,
        Prefetcher::NextLine,
        Prefetcher::Stream,
    ])
}

prop_compose! {
    fn levels()(
        first in (inclusion(), any::<bool>(), 0u32..3),
        last in (inclusion(), any::<bool>(), prop::sample::select(vec![4, 8])),
        two in any::<bool>(),
        ahead in (prefetcher(), prefetcher(), 1u32..4),
    ) -> Vec<LevelConfig> {
        let through = |l: LevelConfig, write_through| LevelConfig { write_through, ..l };
        let with = |l: LevelConfig, prefetcher| LevelConfig {
            prefetch: PrefetchConfig {
                prefetcher,
                degree: ahead.2,
                distance: 4,
                ..PrefetchConfig::default()
            },
            mshrs: 2,
            ..l
        };
        let near = through(level(2, 4, 1 << first.2, first.0), first.1);
        // A level as large as all of its inner caches together, or much smaller.
        let far = through(level(4, last.2, 4, last.0), last.1);
        let (near, far) = (with(near, ahead.0), with(far, ahead.1));
        if two { vec![near, far] } else { vec![far] }
    }
}

proptest! {
    #[test]
    fn no_modified_line_is_lost_or_made_up(
        levels in prop_oneof![9 => levels(), 1 => Just(Vec::new())],
        first in (prefetcher(), 0u32..4),
        steps in prop::collection::vec((0..HARTS, 0u64..24, 0u8..8), 1..200),
    ) {
        let first = FirstConfig {
            mshrs: first.1,
            prefetch: PrefetchConfig {
                prefetcher: first.0,
                degree: 2,
                distance: 3,
                confidence: 1,
                ..PrefetchConfig::default()
            },
            stores: Default::default(),
        };
        let mut h = Harts::with_first(&levels, first);
        h.overlaps = true;
        for (hart, line, what) in steps {
            let line = 0x1000 + 64 * line;
            match what {
                0 => h.clean(hart, line, true),
                1 => h.clean(hart, line, false),
                2..=4 => h.access(hart, line, true),
                _ => h.access(hart, line, false),
            }
        }
    }
}

#[test]
fn an_inclusive_level_takes_back_what_it_gives_up() {
    let mut h = Harts::new(&[level(1, 2, 4, Inclusion::Inclusive)]);
    let [a, b, c] = [0x1000, 0x1040, 0x1080];
    h.access(0, a, true);
    h.access(1, b, false);
    h.access(2, c, false);
    assert!(h.c.l1d[0].find(a).is_none() && h.newer.is_empty());
    let s = h.c.level_stats()[0];
    let expected = LevelStats {
        hits: 0,
        misses: 3,
        writes: 0,
        evictions: 1,
        writebacks: 1,
        back_invalidations: 1,
        ..LevelStats::default()
    };
    assert_eq!(s, expected);
}

#[test]
fn code_leaves_with_the_inclusive_level_that_has_it() {
    let mut c = Harts::new(&[level(4, 4, 1, Inclusion::Inclusive)]).c;
    let line = 0x1000;
    c.allocate(0, (1, 1), line, false, None);
    let i = c.l1i[1].victim(line);
    c.l1i.put(1, i, line, LineState::Shared);
    c.l1i[1].set_slot(i, 7);
    // To be read by another hart, and to be stored to by it.
    c.probe(0, line, false);
    assert!(c.l1i[1].find(line).is_some());
    c.probe(0, line, true);
    c.check_levels().unwrap();
    assert_eq!(c.take_notices(1), [Notice::DropFetch(7)]);
}

#[test]
fn an_exclusive_level_has_what_others_gave_up() {
    let mut h = Harts::new(&[level(4, 4, 4, Inclusion::Exclusive)]);
    // Five lines of one set of two ways.
    for k in 0..5 {
        h.access(0, 0x1000 + 128 * k, k == 0);
    }
    let l1: Vec<u64> = h.c.l1d[0].lines().collect();
    let level: Vec<u64> = h.c.levels.levels[0].caches[0].lines().collect();
    assert_eq!((l1.len() + level.len(), l1.len()), (5, 2));
    assert!(h.newer.contains(&0x1000));
    let gone = level[0];
    h.access(0, gone, false);
    assert!(!h.c.levels.levels[0].caches[0].lines().any(|l| l == gone));
}

#[test]
fn other_levels_are_refused() {
    let small = Levels::new(HARTS, &[level(1, 2, 4, Inclusion::Inclusive)]);
    let mut large = Levels::new(HARTS, &[level(2, 2, 4, Inclusion::Inclusive)]);
    assert!(!large.load(small.save(), HARTS, |_| true));
    assert!(!large.load(Vec::new(), HARTS, |_| true));
    let own = large.save();
    assert!(large.load(own, HARTS, |_| true));
}

/// Four consecutive lines of a page.
const ROW: [u64; 4] = [0x1000, 0x1040, 0x1080, 0x10c0];

fn ahead(l: LevelConfig, mshrs: u32) -> LevelConfig {
    LevelConfig {
        mshrs,
        prefetch: PrefetchConfig {
            prefetcher: Prefetcher::NextLine,
            ..PrefetchConfig::default()
        },
        ..l
    }
}

/// A request of a hart at a cycle. Returns where the line comes from, after how many cycles, and
/// the prefetch that memory has to answer.
fn ask(c: &mut Coherence, hart: usize, line: u64, now: u64) -> (From, u64, Option<u64>) {
    c.catch_up(now);
    let want = Want {
        hart,
        line,
        kind: LineKind::Load,
        pc: 0,
        now,
        blocks: false,
        hint: None,
    };
    let found = c.fetch(&want).unwrap();
    if found.from == From::Memory {
        c.miss_ends(hart, now + 100);
    }
    let begun = c.next_prefetch(hart, 0, now);
    assert_eq!(c.next_prefetch(hart, 0, now), None, "one at a time");
    (found.from, found.latency, begun.map(|(token, _)| token))
}

#[test]
fn a_prefetched_line_is_there_when_it_has_come() {
    let l2 = ahead(level(4, 4, 4, Inclusion::Inclusive), 0);
    let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(&[l2]);
    let (from, latency, begun) = ask(&mut c, 0, ROW[0], 1000);
    assert_eq!((from, latency), (From::Memory, 10));
    c.line_came(begun.unwrap(), 1130);
    assert_eq!(c.next_due(), 1130);
    // A hit on it triggers the next prefetch.
    let (from, latency, begun) = ask(&mut c, 0, ROW[1], 1130);
    assert_eq!((from, latency), (From::Level, 10));
    c.line_came(begun.unwrap(), 1300);
    // A cycle too early, the hart waits for the prefetch, and the line is not requested again.
    let (from, latency, begun) = ask(&mut c, 2, ROW[2], 1299);
    assert_eq!((from, latency), (From::Prefetch(Some(1300)), 10));
    c.line_came(begun.unwrap(), 1400);
    let (from, _, begun) = ask(&mut c, 1, 0x1200, 2000);
    assert_eq!(from, From::Memory);
    let s = c.level_stats()[0];
    let kinds = [s.prefetches, s.prefetch_useful, s.prefetch_late];
    assert_eq!(kinds, [4, 1, 1]);
    assert!(begun.is_some());
}

#[test]
fn what_another_hart_has_modified_is_not_prefetched() {
    let l2 = ahead(level(4, 4, 1, Inclusion::Inclusive), 0);
    let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(&[l2]);
    let put = |c: &mut Coherence, line, state| {
        let i = c.l1d[3].victim(line);
        c.l1d.put(3, i, line, state);
        i
    };
    put(&mut c, ROW[1], LineState::Dirty);
    let (_, _, begun) = ask(&mut c, 0, ROW[0], 0);
    assert_eq!(begun, None);
    // Nor is it kept if another hart has modified it before its arrival.
    let (_, _, begun) = ask(&mut c, 0, ROW[2], 500);
    c.line_came(begun.unwrap(), 700);
    put(&mut c, ROW[3], LineState::Dirty);
    c.catch_up(700);
    assert_eq!(c.holders(3, ROW[3]), (false, None));
    assert_eq!(c.level_stats()[0].prefetch_useless, 1);
    // A line that the other hart has exclusive and unmodified is shared afterwards.
    let i = put(&mut c, 0x1240, LineState::Exclusive);
    let (_, _, begun) = ask(&mut c, 0, 0x1200, 800);
    c.line_came(begun.unwrap(), 900);
    c.catch_up(900);
    assert_eq!(c.l1d[3].entry(i), (0x1240, LineState::Shared));
    assert_eq!(ask(&mut c, 0, 0x1240, 900).0, From::Level);
}

#[test]
fn a_prefetch_that_finds_no_register_is_dropped() {
    let l2 = ahead(level(4, 4, 4, Inclusion::Inclusive), 1);
    let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(&[l2]);
    assert_eq!(ask(&mut c, 0, ROW[0], 0).2, None);
    // The register is free when the line has arrived; until then other harts wait for it.
    assert_eq!(ask(&mut c, 1, 0x1200, 99), (From::Memory, 11, None));
    assert_eq!(ask(&mut c, 1, 0x1400, 300), (From::Memory, 10, None));
    let s = c.level_stats()[0];
    assert_eq!((s.prefetches, s.prefetch_dropped), (0, 3));
    assert_eq!((s.mshr_waits, s.mshr_wait_cycles), (1, 1));
}

#[test]
fn a_line_of_a_further_level_comes_after_its_latency() {
    let near = ahead(level(2, 2, 1, Inclusion::NonInclusive), 2);
    let far = LevelConfig {
        latency: 40,
        ..level(8, 4, 4, Inclusion::Inclusive)
    };
    let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(&[near, far]);
    ask(&mut c, 1, ROW[1], 0);
    let (from, _, begun) = ask(&mut c, 0, ROW[0], 500);
    assert_eq!((from, begun), (From::Memory, None), "memory is not asked");
    assert_eq!(c.next_due(), 540);
    assert_eq!(ask(&mut c, 0, ROW[1], 540).0, From::Level);
    assert_eq!(c.level_stats()[0].prefetch_useful, 1);
}

#[test]
fn a_level_keeps_what_it_has_modified_while_a_prefetch_takes_it_along() {
    let near = ahead(level(2, 2, 1, Inclusion::NonInclusive), 0);
    let levels = [near, level(8, 4, 4, Inclusion::Inclusive)];
    let mut c = Coherence::new(HARTS, L1, L1, 0x1000, 1 << 20).with_levels(&levels);
    let last = &mut c.levels.levels[1].caches;
    let i = last[0].victim(ROW[1]);
    last.put(0, i, ROW[1], LineState::Dirty);
    let begun = ask(&mut c, 0, ROW[0], 100).2;
    assert_eq!((begun, c.next_due()), (None, 110), "the last level has it");
    let (from, _, _) = ask(&mut c, 0, ROW[1], 105);
    assert_eq!(from, From::Prefetch(Some(110)));
    assert_eq!(
        c.levels.levels[1].caches[0].entry(i),
        (ROW[1], LineState::Dirty)
    );
    let copies = c.levels.levels[1].caches[0]
        .lines()
        .filter(|l| *l == ROW[1]);
    assert_eq!(copies.count(), 1);
}
