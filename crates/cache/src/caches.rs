//! The caches of one level, one for each hart or group of harts, and the directory of which of them
//! have a line.

use super::tags::{LineState, Tags};
use std::ops::{Deref, DerefMut};

/// Number of caches from which on it is noted for each line who has it; fewer caches are searched faster.
const NOTED_FROM: usize = 5;

/// A mask with the bits of a range set.
pub(crate) fn bits(of: &std::ops::Range<usize>) -> u32 {
    ((1u64 << of.end) - (1u64 << of.start)) as u32
}

/// For each line that some cache has, a bit for each cache that has it: a hash table with linear
/// probing and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sharers {
    /// Line and mask; a mask of 0 is a free place.
    table: Vec<(u64, u32)>,
    /// Bits of a line's hash that are not its place.
    shift: u32,
}

impl Sharers {
    /// For that many lines at most.
    pub fn new(lines: usize) -> Self {
        let bits = (2 * lines.max(1)).next_power_of_two().trailing_zeros();
        Self {
            table: vec![(0, 0); 1 << bits],
            shift: 64 - bits,
        }
    }

    fn home(&self, line: u64) -> usize {
        ((line >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Place of a line, or the free one where it would stand.
    #[inline]
    fn find(&self, line: u64) -> usize {
        let last = self.table.len() - 1;
        let mut i = self.home(line);
        while self.table[i].1 != 0 && self.table[i].0 != line {
            i = (i + 1) & last;
        }
        i
    }

    #[inline]
    fn get(&self, line: u64) -> u32 {
        self.table[self.find(line)].1
    }

    fn add(&mut self, line: u64, cache: usize) {
        let i = self.find(line);
        self.table[i].0 = line;
        self.table[i].1 |= 1 << cache;
    }

    fn remove(&mut self, line: u64, cache: usize) {
        let mut free = self.find(line);
        self.table[free].1 &= !(1 << cache);
        if self.table[free].1 != 0 {
            return;
        }
        // Lines behind the gap close it, as far as they may stand there.
        let last = self.table.len() - 1;
        let mut i = free;
        loop {
            i = (i + 1) & last;
            let (other, mask) = self.table[i];
            if mask == 0 {
                break;
            }
            let from_home = |to: usize| to.wrapping_sub(self.home(other)) & last;
            if from_home(free) < from_home(i) {
                self.table[free] = (other, mask);
                free = i;
            }
        }
        self.table[free] = (0, 0);
    }
}

/// Which caches to look into for a line; derived from their tags.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Directory {
    /// The only one there is.
    Single,
    /// For each line, the caches that have it.
    Lines(Sharers),
    /// For each set, a bit for each cache that has had lines in it since it was empty: harts with little to do fill
    /// few.
    Sets(Vec<u32>),
}

impl Directory {
    /// The line of an entry leaves a cache with these tags. Returns it, and what its state was.
    #[inline(always)]
    fn leave(&mut self, tags: &mut Tags, cache: usize, entry: usize) -> (u64, LineState) {
        let (old, was) = tags.entry(entry);
        tags.set(entry, 0, LineState::Invalid);
        if let Directory::Lines(s) = self {
            if was != LineState::Invalid {
                s.remove(old, cache);
            }
        }
        (old, was)
    }

    fn of(caches: &[Tags]) -> Self {
        let lines = || {
            let all = caches.iter().enumerate();
            all.flat_map(|(k, cache)| cache.lines().map(move |line| (k, cache.set_of(line), line)))
        };
        if caches.len() == 1 {
            return Directory::Single;
        }
        if caches.len() < NOTED_FROM {
            let mut used = vec![0; caches.first().map_or(0, Tags::sets)];
            lines().for_each(|(k, set, _)| used[set] |= 1 << k);
            return Directory::Sets(used);
        }
        let mut sharers = Sharers::new(caches.iter().map(Tags::len).sum());
        lines().for_each(|(k, _, line)| sharers.add(line, k));
        Directory::Lines(sharers)
    }
}

/// See the module. Single caches are reached as in a slice; which lines they have is changed by the
/// methods here only.
#[derive(Clone, Debug)]
pub struct Caches {
    tags: Vec<Tags>,
    directory: Directory,
}

impl Deref for Caches {
    type Target = [Tags];
    fn deref(&self) -> &[Tags] {
        &self.tags
    }
}

impl DerefMut for Caches {
    fn deref_mut(&mut self) -> &mut [Tags] {
        &mut self.tags
    }
}

impl Caches {
    /// These caches, with what they hold.
    pub fn new(tags: Vec<Tags>) -> Self {
        let directory = Directory::of(&tags);
        Caches { tags, directory }
    }

    /// Caches other than `but` that may have a line, a bit each, for [`Caches::next`].
    #[inline(always)]
    pub(crate) fn mask(&self, line: u64, but: Option<usize>) -> u32 {
        let mask = match &self.directory {
            Directory::Single => 1,
            Directory::Lines(s) => s.get(line),
            Directory::Sets(used) => self.tags.first().map_or(0, |t| used[t.set_of(line)]),
        };
        mask & !but.map_or(0, |k| 1 << k)
    }

    /// The first cache of a mask that has a line, with the line's entry there; the mask goes on
    /// behind it.
    #[inline]
    pub(crate) fn next(&self, line: u64, mask: &mut u32) -> Option<(usize, usize)> {
        while *mask != 0 {
            let k = mask.trailing_zeros() as usize;
            *mask &= *mask - 1;
            if let Some(i) = self.tags[k].find(line) {
                return Some((k, i));
            }
        }
        None
    }

    /// Puts a line into an entry of a cache, in the place of what is there.
    #[inline(always)]
    pub fn put(&mut self, cache: usize, entry: usize, line: u64, state: LineState) {
        let tags = &mut self.tags[cache];
        match &mut self.directory {
            Directory::Single => {}
            Directory::Lines(s) => {
                let (old, was) = tags.entry(entry);
                if was != LineState::Invalid && old != line {
                    s.remove(old, cache);
                }
                s.add(line, cache);
            }
            Directory::Sets(used) => used[tags.set_of(line)] |= 1 << cache,
        }
        tags.set(entry, line, state);
    }

    /// Takes the line out of an entry of a cache.
    #[inline(always)]
    pub fn take(&mut self, cache: usize, entry: usize) {
        self.directory.leave(&mut self.tags[cache], cache, entry);
    }

    /// Makes room for a line in a cache: the entry for it, with the line that was there and its state. `leaves` is
    /// called before that line is taken out.
    #[inline(always)]
    pub fn evict(
        &mut self,
        cache: usize,
        line: u64,
        leaves: impl FnOnce(&mut Tags, usize),
    ) -> (usize, u64, LineState) {
        let tags = &mut self.tags[cache];
        let entry = tags.victim(line);
        leaves(tags, entry);
        let (old, was) = self.directory.leave(tags, cache, entry);
        (entry, old, was)
    }

    /// Drops every line of a cache without writing back.
    pub fn clear(&mut self, cache: usize) {
        let tags = &mut self.tags[cache];
        match &mut self.directory {
            Directory::Single => {}
            Directory::Lines(s) => tags.lines().for_each(|l| s.remove(l, cache)),
            Directory::Sets(used) => used.iter_mut().for_each(|u| *u &= !(1 << cache)),
        }
        tags.clear();
    }

    /// Drops every line of all caches without writing back.
    pub fn clear_all(&mut self) {
        self.tags.iter_mut().for_each(Tags::clear);
        self.directory = Directory::of(&self.tags);
    }

    /// Whether the directory says what the tags say, or more where it may.
    pub(crate) fn check(&self) -> bool {
        match (&self.directory, Directory::of(&self.tags)) {
            (Directory::Lines(noted), Directory::Lines(true_ones)) => {
                let held = |s: &Sharers| s.table.iter().filter(|e| e.1 != 0).count();
                let known = |e: &(u64, u32)| e.1 == 0 || noted.get(e.0) == e.1;
                held(noted) == held(&true_ones) && true_ones.table.iter().all(known)
            }
            (Directory::Sets(noted), Directory::Sets(used)) => {
                noted.iter().zip(used).all(|(n, u)| n & u == u)
            }
            (noted, true_one) => *noted == true_one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CacheGeometry, Replacement};
    use proptest::prelude::*;

    #[test]
    fn few_caches_are_looked_into() {
        for n in [NOTED_FROM - 1, NOTED_FROM] {
            let mut c = Caches::new(vec![Tags::new(geometry()); n]);
            assert_eq!(matches!(c.directory, Directory::Lines(_)), n == NOTED_FROM);
            assert_eq!(c.mask(0x1000, None), 0);
            c.put(1, 0, 0x1000, LineState::Shared);
            assert_eq!(c.mask(0x1000, None), 0b10);
            // Another line of this set, and one of another set.
            assert_eq!(c.mask(0x1080, None) != 0, n < NOTED_FROM);
            assert_eq!(c.mask(0x1040, None), 0);
            c.take(1, 0);
            assert_eq!(c.mask(0x1000, None) != 0, n < NOTED_FROM);
            c.clear(1);
            assert_eq!(c.mask(0x1000, None), 0);
        }
    }

    fn geometry() -> CacheGeometry {
        CacheGeometry {
            sets: 2,
            ways: 4,
            line: 64,
            replacement: Replacement::Lru,
        }
    }

    proptest! {
        #[test]
        fn what_is_noted_is_what_the_tags_say(
            caches in 1usize..18,
            steps in prop::collection::vec((0u8..20, 0usize..18, 0u64..40), 1..400),
        ) {
            let mut c = Caches::new(vec![Tags::new(geometry()); caches]);
            for (what, k, line) in steps {
                let (k, line) = (k % caches, 0x4_0000_1000 + 64 * line);
                match (what, c[k].find(line)) {
                    (0, _) => c.clear(k),
                    (1, _) if line % 0x400 == 0 => c.clear_all(),
                    (2..=6, Some(i)) => c.take(k, i),
                    (_, Some(i)) => c.put(k, i, line, LineState::Dirty),
                    (_, None) => {
                        let i = c[k].victim(line);
                        c.put(k, i, line, LineState::Shared);
                        c[k].filled(i);
                    }
                }
                prop_assert!(c.check());
                let but = caches - 1;
                let mut mask = c.mask(line, Some(but));
                let found: Vec<_> = std::iter::from_fn(|| c.next(line, &mut mask)).collect();
                let expected: Vec<_> = (0..but)
                    .filter_map(|k| Some((k, c[k].find(line)?)))
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn what_is_not_noted_is_found() {
        for n in [NOTED_FROM - 1, NOTED_FROM] {
            let mut c = Caches::new(vec![Tags::new(geometry()); n]);
            c.put(1, 0, 0x1000, LineState::Shared);
            assert!(c.check());
            c[2].set(0, 0x1000, LineState::Shared);
            assert!(!c.check());
        }
    }
}
