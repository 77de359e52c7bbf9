//! Outer cache levels: private to a hart, shared by some, or by all.
//!
//! Levels are numbered from the cores outwards, from 0. A line that no level has comes from memory;
//! modified lines that the last level evicts go there. All of this happens at one moment, while no
//! other hart is behind, so nobody can observe a line between levels. Only prefetches take time
//! ([`super::ahead`]).

use super::ahead::Ahead;
use super::banks::Banks;
use super::caches::Caches;
use super::counts::HartCounts;
use super::first::{Filling, First};
use super::level_stats::LevelStats;
use super::mshr::Mshrs;
use super::parts::Parts;
use super::prefetch::Brought;
use super::stores::Stores;
use super::tags::Tags;
use super::versions::Versions;
use super::Side;
use crate::config::{LevelConfig, Prefetcher};
use serde::{Deserialize, Serialize};

/// One level.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub config: LevelConfig,
    /// Its caches, in the order of their harts.
    pub caches: Caches,
    pub stats: LevelStats,
    /// The other state of each cache.
    pub parts: Vec<Parts>,
    /// A prefetcher in place of that of its configuration.
    pub brought: Option<Brought>,
}

impl Level {
    pub fn of(&self, hart: usize) -> usize {
        hart / self.config.shared_by as usize
    }

    pub(crate) fn cache(&mut self, hart: usize) -> &mut Tags {
        let i = self.of(hart);
        &mut self.caches[i]
    }

    pub fn part(&mut self, hart: usize) -> &mut Parts {
        let i = self.of(hart);
        &mut self.parts[i]
    }

    pub fn prefetches(&self) -> bool {
        self.config.prefetch.prefetcher != Prefetcher::None
    }

    /// An access to a line's bank. Returns for how many cycles it has to wait.
    pub(crate) fn access_bank(&mut self, hart: usize, line: u64, now: u64) -> u64 {
        let cycles = self.config.bank_cycles;
        self.part(hart).banks.access(line, now, cycles)
    }

    /// A line is gone: if it was prefetched and never requested, the prefetch was useless.
    pub(crate) fn gone(&mut self, cache: usize, line: u64) {
        let useless = self.prefetches() && self.parts[cache].guesses.unused.remove(&line);
        self.stats.prefetch_useless += u64::from(useless);
    }

    /// Removes the line in an entry of a cache.
    pub fn take(&mut self, cache: usize, entry: usize) {
        let line = self.caches[cache].entry(entry).0;
        self.caches.take(cache, entry);
        self.gone(cache, line);
    }

    /// Whether the level has MSHRs or a prefetcher.
    fn keeps_order(&self) -> bool {
        self.config.mshrs > 0 || self.prefetches()
    }
}

/// A level, as saved in a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedLevel {
    caches: Vec<Tags>,
    stats: LevelStats,
    /// Only if any of them holds something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Parts>,
}

/// All outer cache levels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    pub levels: Vec<Level>,
    /// Modified lines that the last level has evicted, for the running hart to send to memory, each
    /// with its version if that is an older one.
    pub to_memory: Vec<(u64, Option<u64>)>,
    /// The modified lines that are older states.
    pub versions: Versions,
    /// Filter slots of the running hart whose lines are gone.
    pub dropped: Vec<(Side, u16)>,
    /// The core cycle of the running hart's request.
    pub now: u64,
    /// Whether requests have to be handled in the order of time: see [`Coherence::keeps_order`].
    pub ordered: bool,
    /// Outstanding prefetches.
    pub ahead: Ahead,
    /// What the first-level caches for data and for instructions have besides tags.
    pub first: [First; 2],
    /// Whether some of them have MSHRs or a prefetcher.
    pub has_first: bool,
    /// Then, for each hart, the miss that it works on.
    pub fillings: Vec<Option<Filling>>,
    /// Lines that the running hart has begun to prefetch into its first-level caches, or has stored to in its buffer.
    pub begun: Vec<(Side, u64)>,
    /// By hart: its part in what happens.
    pub counts: Vec<HartCounts>,
    /// Store buffers, and lines that are combined.
    pub stores: Stores,
}

impl Levels {
    pub fn new(harts: usize, config: &[LevelConfig]) -> Self {
        let level = |c: &LevelConfig| Level {
            config: *c,
            caches: Caches::new(vec![
                Tags::new(c.geometry);
                harts.div_ceil(c.shared_by as usize)
            ]),
            stats: LevelStats::default(),
            parts: vec![Parts::new(c); harts.div_ceil(c.shared_by as usize)],
            brought: None,
        };
        let levels: Vec<Level> = config.iter().map(level).collect();
        Levels {
            ordered: levels.iter().any(Level::keeps_order),
            counts: vec![HartCounts::new(levels.len()); harts],
            levels,
            ..Levels::default()
        }
    }

    pub fn clear(&mut self) {
        for l in &mut self.levels {
            l.caches.clear_all();
            for p in &mut l.parts {
                p.mshrs = Mshrs::default();
                p.banks.clear();
                p.guesses.clear();
            }
        }
        self.first.iter_mut().for_each(First::clear);
        self.fillings.fill(None);
        self.ahead.clear();
        self.stores.clear();
        self.versions.clear();
    }

    pub fn save(&self) -> Vec<SavedLevel> {
        let saved = |l: &Level| SavedLevel {
            caches: l.caches.to_vec(),
            stats: l.stats,
            parts: if l.parts.iter().all(|p| *p == Parts::default()) {
                Vec::new()
            } else {
                l.parts.clone()
            },
        };
        self.levels.iter().map(saved).collect()
    }

    /// Restores the saved state. Returns false if it does not fit these levels.
    pub fn load(
        &mut self,
        saved: Vec<SavedLevel>,
        harts: usize,
        inside: impl Fn(u64) -> bool,
    ) -> bool {
        let fits = |(old, new): (&Level, &SavedLevel)| {
            let pairs = || new.caches.iter().zip(old.caches.iter());
            let c = &old.config;
            let banks = Banks::new(c.banks, c.bank_cycles);
            let part = |p: &Parts| p.fits(harts, &banks, &c.prefetch, &inside);
            new.caches.len() == old.caches.len()
                && pairs().all(|(n, o)| n.fits(o, &inside))
                && (new.parts.is_empty() || new.parts.len() == old.parts.len())
                && new.parts.iter().all(part)
        };
        if saved.len() != self.levels.len() || !self.levels.iter().zip(&saved).all(fits) {
            return false;
        }
        for (level, s) in self.levels.iter_mut().zip(saved) {
            (level.caches, level.stats) = (Caches::new(s.caches), s.stats);
            let fresh = vec![Parts::new(&level.config); level.parts.len()];
            level.parts = if s.parts.is_empty() { fresh } else { s.parts };
        }
        true
    }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
