//! Which blocks the cache holds.

use serde::{Deserialize, Serialize};

use crate::checks::ensure;
use crate::error::Error;

/// An evicted block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub block: u64,
    pub dirty: bool,
}

/// Result of a lookup; the block is in `way` afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of the place in the front memory, in blocks.
    pub place: u64,
    pub hit: bool,
    /// The block was clean or absent, and is dirty now.
    pub dirtied: bool,
    /// The victim of a miss, unless the place was empty.
    pub victim: Option<Victim>,
}

/// Tags in saved form: runs of sets. The entry of a place is 0 if it is empty; otherwise twice the
/// number of the block among those of its set, plus one, plus one more if it is dirty.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedTags(Vec<SavedRun>);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRun {
    set: u64,
    places: Vec<u64>,
    /// Ranks of recency; empty if sets have one way.
    ranks: Vec<u8>,
}

/// Number of empty sets that a run continues across.
const BRIDGED: u64 = 8;

/// Tags of all sets: block number and dirty bit.
#[derive(Clone, Debug)]
pub(super) struct TagArray {
    sets: u64,
    ways: usize,
    /// By place: 0 if it is empty; otherwise twice the block number, plus one, plus one more if
    /// dirty.
    tags: Vec<u64>,
    /// Rank of recency of each place in its set, 0 for the newest.
    ranks: Vec<u8>,
}

impl TagArray {
    pub fn new(sets: u64, ways: usize) -> TagArray {
        let n = sets as usize * ways;
        TagArray {
            sets,
            ways,
            tags: vec![0; n],
            ranks: (0..n).map(|i| (i % ways) as u8).collect(),
        }
    }

    pub fn save(&self) -> SavedTags {
        let mut runs: Vec<SavedRun> = Vec::new();
        let sets = self.tags.chunks_exact(self.ways);
        // One after the last set of the last run.
        let mut end = 0;
        for (i, set) in (0..).zip(sets) {
            if set.iter().all(|t| *t == 0) {
                continue;
            }
            if runs.is_empty() || i - end > BRIDGED {
                runs.push(SavedRun {
                    set: i,
                    places: Vec::new(),
                    ranks: Vec::new(),
                });
                end = i;
            }
            let Some(run) = runs.last_mut() else { continue };
            let (from, to) = (end as usize * self.ways, (i as usize + 1) * self.ways);
            let packed = |t: &u64| match *t {
                0 => 0,
                t => 1 + (((t >> 1) - 1) / self.sets * 2) + (t & 1),
            };
            run.places.extend(self.tags[from..to].iter().map(packed));
            if self.ways > 1 {
                run.ranks.extend(&self.ranks[from..to]);
            }
            end = i + 1;
        }
        SavedTags(runs)
    }

    /// Loads saved tags, for a memory of that many blocks; `self` must be new. Returns the number
    /// of dirty blocks.
    pub fn load(&mut self, s: SavedTags, blocks: u64) -> Result<u64, Error> {
        let mut dirty = 0;
        let mut next = 0;
        let ways = self.ways as u64;
        for run in s.0 {
            let n = run.places.len() as u64;
            let end = run.set.checked_add(n / ways);
            let fits =
                run.set >= next && n.is_multiple_of(ways) && end.is_some_and(|e| e <= self.sets);
            let ranked = if ways > 1 { n } else { 0 };
            ensure(fits && run.ranks.len() as u64 == ranked, "tags")?;
            next = run.set + n / ways;
            let base = (run.set * ways) as usize;
            for (k, packed) in run.places.into_iter().enumerate() {
                let Some(x) = packed.checked_sub(1) else {
                    continue;
                };
                let set = run.set + k as u64 / ways;
                let block = (x >> 1)
                    .checked_mul(self.sets)
                    .map(|b| b.saturating_add(set));
                let Some(block) = block.filter(|b| *b < blocks) else {
                    return Err(crate::saved::bad("impossible state (tags)"));
                };
                let start = base + k / self.ways * self.ways;
                let twice = self.tags[start..base + k]
                    .iter()
                    .any(|t| t >> 1 == block + 1);
                ensure(!twice, "tags")?;
                self.tags[base + k] = (block + 1) << 1 | (x & 1);
                dirty += x & 1;
            }
            for (k, ranks) in run.ranks.chunks_exact(self.ways).enumerate() {
                let mut sorted = ranks.to_vec();
                sorted.sort_unstable();
                ensure(sorted.into_iter().eq(0..ways as u8), "tags")?;
                let at = base + k * self.ways;
                self.ranks[at..at + self.ways].copy_from_slice(ranks);
            }
        }
        Ok(dirty)
    }

    /// Looks a block up, brings it in if it is absent, marks it as newest and, for a write, as
    /// dirty.
    pub fn access(&mut self, block: u64, write: bool) -> Found {
        let base = (block % self.sets) as usize * self.ways;
        let set = &mut self.tags[base..base + self.ways];
        let ranks = &mut self.ranks[base..base + self.ways];
        let at = set.iter().position(|t| t >> 1 == block + 1);
        let way = at.unwrap_or_else(|| {
            let last = self.ways as u8 - 1;
            ranks.iter().position(|r| *r == last).unwrap_or(0)
        });
        let old = set[way];
        let victim = (at.is_none() && old != 0).then(|| Victim {
            block: (old >> 1) - 1,
            dirty: old & 1 != 0,
        });
        let keep = if at.is_some() { old & 1 } else { 0 };
        set[way] = (block + 1) << 1 | keep | u64::from(write);
        let rank = ranks[way];
        for r in ranks.iter_mut() {
            *r += u8::from(*r < rank);
        }
        ranks[way] = 0;
        Found {
            place: (base + way) as u64,
            hit: at.is_some(),
            dirtied: write && keep == 0,
            victim,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with sets that are kept as lists, newest first.
        #[test]
        fn equals_lists(
            ops in prop::collection::vec((0u64..64, any::<bool>()), 1..300),
            sets in 1u64..5, ways in 1usize..5,
        ) {
            let mut t = TagArray::new(sets, ways);
            let mut lists: Vec<Vec<(u64, bool)>> = vec![Vec::new(); sets as usize];
            let mut places = std::collections::BTreeMap::new();
            for (block, write) in ops {
                let l = &mut lists[(block % sets) as usize];
                let i = l.iter().position(|e| e.0 == block);
                let f = t.access(block, write);
                prop_assert_eq!(f.hit, i.is_some());
                let before = i.map(|i| l.remove(i).1).unwrap_or(false);
                let dirty = before || write;
                prop_assert_eq!(f.dirtied, dirty && !before);
                let mut victim = None;
                if l.len() == ways {
                    let (block, dirty) = l.pop().unwrap();
                    victim = Some(Victim { block, dirty });
                    places.remove(&block);
                }
                l.insert(0, (block, dirty));
                prop_assert_eq!(f.victim, victim);
                prop_assert_eq!(f.place / ways as u64, block % sets);
                let before = places.insert(block, f.place);
                prop_assert!(before.is_none() || before == Some(f.place));
                let mut all: Vec<_> = places.values().collect();
                all.sort();
                all.dedup();
                prop_assert_eq!(all.len(), places.len(), "no two blocks in one place");
            }
        }
    }
}
