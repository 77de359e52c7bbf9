//! Which entry of a set a fill replaces.

use crate::config::Replacement;
use serde::{Deserialize, Serialize};

/// 16-bit LFSR that picks victims: that of Rocket's caches (the Chisel library's maximal-period LFSR, from 1 at
/// reset), so that the data cache replaces the same lines as the RTL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lfsr(u16);

impl Default for Lfsr {
    fn default() -> Self {
        Self(1)
    }
}

impl Lfsr {
    /// The next pseudo-random number below `ways`, a power of two.
    #[inline]
    pub fn pick(&mut self, ways: u32) -> u32 {
        let way = self.0 as u32 & (ways - 1);
        let b = self.0 >> 15 ^ self.0 >> 13 ^ self.0 >> 12 ^ self.0 >> 10;
        self.0 = self.0 << 1 | b & 1;
        way
    }
}

/// What a policy remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Victims {
    Lfsr(Lfsr),
    /// State of a xorshift generator.
    Random(u64),
    /// For each entry its place in the order of its set: 0 is the one used longest ago.
    Lru(Vec<u8>),
    /// For each set a tree of bits, the root in bit 1; a set bit points to the upper half.
    TreePlru(Vec<u64>),
    /// For each entry how soon it is expected again: 0 soon, 3 not for long.
    Srrip(Vec<u8>),
}

/// Seed of `random`; any but 0.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// A line that was just brought in is expected later than one that was hit, and before the others.
const LONG: u8 = 2;
const DISTANT: u8 = 3;

impl Victims {
    pub fn new(r: Replacement, sets: u32, ways: u32) -> Self {
        let n = (sets * ways) as usize;
        match r {
            Replacement::Lfsr => Victims::Lfsr(Lfsr::default()),
            Replacement::Random => Victims::Random(SEED),
            Replacement::Lru => Victims::Lru((0..n).map(|i| (i as u32 % ways) as u8).collect()),
            Replacement::TreePlru => Victims::TreePlru(vec![0; sets as usize]),
            Replacement::Srrip => Victims::Srrip(vec![DISTANT; n]),
        }
    }

    /// Entry `i` of the cache was hit.
    #[inline(always)]
    pub fn hit(&mut self, i: usize, ways: u32) {
        if !matches!(self, Victims::Lfsr(_)) {
            self.used(i, ways, 0);
        }
    }

    /// A line was put into entry `i` of the cache.
    #[inline(always)]
    pub fn filled(&mut self, i: usize, ways: u32) {
        if !matches!(self, Victims::Lfsr(_)) {
            self.used(i, ways, LONG);
        }
    }

    /// A line was put into entry `i` of the cache that is to be replaced next.
    pub fn filled_last(&mut self, i: usize, ways: u32) {
        match self {
            Victims::Lfsr(_) | Victims::Random(_) => {}
            Victims::Lru(order) => {
                let n = ways as usize;
                let set = &mut order[i - i % n..][..n];
                let old = set[i % n];
                for o in set.iter_mut() {
                    *o += u8::from(*o < old);
                }
                set[i % n] = 0;
            }
            Victims::TreePlru(trees) => {
                let (set, way) = (i / ways as usize, i as u32 % ways);
                let (tree, mut node) = (&mut trees[set], 1);
                for level in (0..ways.trailing_zeros()).rev() {
                    let upper = way >> level & 1;
                    *tree = *tree & !(1 << node) | u64::from(upper) << node;
                    node = 2 * node + upper;
                }
            }
            Victims::Srrip(expected) => expected[i] = DISTANT,
        }
    }

    /// Entry `i` was used, and is expected again.
    #[inline(never)]
    fn used(&mut self, i: usize, ways: u32, again: u8) {
        match self {
            Victims::Srrip(expected) => expected[i] = again,
            Victims::Lru(order) => {
                let n = ways as usize;
                let set = &mut order[i - i % n..][..n];
                let old = set[i % n];
                for o in set.iter_mut() {
                    *o -= u8::from(*o > old);
                }
                set[i % n] = (n - 1) as u8;
            }
            Victims::TreePlru(trees) => {
                let (set, way) = (i / ways as usize, i as u32 % ways);
                let (tree, mut node) = (&mut trees[set], 1);
                for level in (0..ways.trailing_zeros()).rev() {
                    let upper = way >> level & 1;
                    // Away from the way that was used.
                    *tree = *tree & !(1 << node) | u64::from(upper ^ 1) << node;
                    node = 2 * node + upper;
                }
            }
            _ => {}
        }
    }

    /// The way to replace in the set that begins at entry `start`. All but the LFSR, which
    /// looks at nothing, prefer an empty one.
    #[inline(always)]
    pub fn choose(&mut self, start: usize, ways: u32, empty: impl Fn(usize) -> bool) -> usize {
        if let Victims::Lfsr(l) = self {
            return l.pick(ways) as usize;
        }
        let first = (0..ways as usize).find(|i| empty(*i));
        first.unwrap_or_else(|| self.choose_full(start, ways))
    }

    /// As [`Victims::choose`], in a set without an empty entry.
    #[inline(never)]
    fn choose_full(&mut self, start: usize, ways: u32) -> usize {
        let n = ways as usize;
        match self {
            Victims::Lfsr(_) => 0,
            Victims::Random(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                (*state % u64::from(ways)) as usize
            }
            Victims::Lru(order) => {
                let set = &order[start..start + n];
                set.iter().position(|o| *o == 0).unwrap_or(0)
            }
            Victims::TreePlru(trees) => {
                let (tree, mut node) = (trees[start / n], 1);
                while node < ways {
                    node = 2 * node + (tree >> node & 1) as u32;
                }
                (node - ways) as usize
            }
            Victims::Srrip(expected) => {
                let set = &mut expected[start..start + n];
                let furthest = set.iter().copied().max().unwrap_or(0);
                // All grow older until one is as far away as can be.
                for e in set.iter_mut() {
                    *e += DISTANT - furthest;
                }
                set.iter().position(|e| *e == DISTANT).unwrap_or(0)
            }
        }
    }

    /// Whether this is a possible state of a policy like `other` of a cache of so many ways.
    pub fn fits(&self, other: &Victims, ways: u32) -> bool {
        match (self, other) {
            (Victims::Lfsr(_), Victims::Lfsr(_)) => true,
            (Victims::Random(state), Victims::Random(_)) => *state != 0,
            (Victims::Lru(a), Victims::Lru(b)) => {
                let each_once = |set: &[u8]| (0..set.len()).all(|o| set.contains(&(o as u8)));
                a.len() == b.len() && a.chunks(ways as usize).all(each_once)
            }
            (Victims::TreePlru(a), Victims::TreePlru(b)) => a.len() == b.len(),
            (Victims::Srrip(a), Victims::Srrip(b)) => {
                a.len() == b.len() && a.iter().all(|e| *e <= DISTANT)
            }
            _ => false,
        }
    }

    /// Every entry is empty. Generators of numbers go on.
    pub fn clear(&mut self, ways: u32) {
        match self {
            Victims::Lfsr(_) | Victims::Random(_) => {}
            Victims::Lru(order) => {
                for (o, i) in order.iter_mut().zip(0u32..) {
                    *o = (i % ways) as u8;
                }
            }
            Victims::TreePlru(trees) => trees.fill(0),
            Victims::Srrip(expected) => expected.fill(DISTANT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lfsr_has_full_period() {
        let mut l = Lfsr::default();
        let start = l;
        let mut n = 0u32;
        loop {
            l.pick(4);
            n += 1;
            if l == start {
                break;
            }
        }
        assert_eq!(n, 65535);
    }

    #[test]
    fn lfsr_begins_as_in_the_rtl() {
        let mut l = Lfsr::default();
        let ways: Vec<u32> = (0..20).map(|_| l.pick(4)).collect();
        // State 1 is shifted left; bit 10 is the first that is fed back.
        let expected = [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 3, 2, 1, 2, 0, 0];
        assert_eq!(ways, expected);
    }

    /// The ways that a full set of four loses one after the other, each filled again, after these hits.
    fn order(r: Replacement, hits: &[usize]) -> Vec<usize> {
        let mut v = Victims::new(r, 2, 4);
        let start = 4;
        for i in 0..4 {
            assert_eq!(v.choose(start, 4, |w| w >= i), i, "an empty one first");
            v.filled(start + i, 4);
        }
        for h in hits {
            v.hit(start + h, 4);
        }
        let mut lost = |_| {
            let i = v.choose(start, 4, |_| false);
            v.filled(start + i, 4);
            i
        };
        (0..4).map(&mut lost).collect()
    }

    #[test]
    fn victims_of_each_policy() {
        assert_eq!(order(Replacement::Lru, &[]), [0, 1, 2, 3]);
        assert_eq!(order(Replacement::Lru, &[0, 2]), [1, 3, 0, 2]);
        // By hand: the root points away from the half used last, each half away from its way used last.
        assert_eq!(order(Replacement::TreePlru, &[]), [0, 2, 1, 3]);
        assert_eq!(order(Replacement::TreePlru, &[0]), [2, 1, 3, 0]);
        // Ways that were never hit go first, in their order; one that was hit stays longer.
        assert_eq!(order(Replacement::Srrip, &[0, 1]), [2, 3, 2, 3]);
        let random = order(Replacement::Random, &[]);
        assert!(random.iter().all(|w| *w < 4));
        assert_eq!(random, order(Replacement::Random, &[3, 3]), "blind to hits");
    }

    #[test]
    fn a_line_that_is_put_last_is_the_next_victim() {
        for r in [Replacement::Lru, Replacement::TreePlru, Replacement::Srrip] {
            for way in 0..4 {
                let mut v = Victims::new(r, 2, 4);
                (4..8).for_each(|i| v.filled(i, 4));
                (4..8).for_each(|i| v.hit(i, 4));
                let mut others = v.clone();
                v.filled_last(4 + way, 4);
                assert_eq!(v.choose(4, 4, |_| false), way, "{r:?}");
                if r == Replacement::Lru {
                    // Behind it, the others are in their order.
                    v.filled(4 + way, 4);
                    others.filled(4 + way, 4);
                    assert!(v == others && v.fits(&others, 4));
                }
            }
        }
    }

    #[test]
    fn what_is_saved_is_checked() {
        let fits = |a: Victims, b: Victims| a.fits(&b, 2);
        let lru = |order: &[u8]| Victims::Lru(order.to_vec());
        assert!(fits(lru(&[1, 0, 0, 1]), lru(&[0, 1, 0, 1])));
        assert!(!fits(lru(&[1, 1]), lru(&[0, 1])), "two of the same age");
        assert!(!fits(lru(&[0, 2]), lru(&[0, 1])));
        assert!(!fits(lru(&[0, 1, 0, 1]), lru(&[0, 1])));
        assert!(!fits(Victims::Srrip(vec![4]), Victims::Srrip(vec![0])));
        assert!(!fits(Victims::Random(0), Victims::Random(1)));
        assert!(!fits(Victims::TreePlru(vec![0]), Victims::Srrip(vec![0])));
    }
}
