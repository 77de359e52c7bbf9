//! What is counted for each hart.

use super::ahead::Target;
use super::counts::HartCounts;
use super::levels::Levels;
use super::Coherence;
use crate::LineKind;

impl Coherence {
    /// A prefetch has begun for a hart; the level `source` has its line.
    pub(crate) fn count_prefetch(&mut self, target: Target, source: usize, hart: usize) {
        let place = match target {
            Target::First(side) => side as usize,
            Target::Level(k) => 2 + k,
        };
        let Levels {
            counts,
            first,
            levels,
            ..
        } = &mut self.levels;
        let counts = &mut counts[hart];
        counts.at(place).prefetch_misses += 1;
        if let Target::First(side) = target {
            let limited = first[side as usize].config.mshrs > 0;
            counts.first[side as usize].mshr_allocations += u64::from(limited);
        }
        for (j, level) in levels.iter().enumerate().skip(target.level()) {
            if j > source {
                break;
            }
            let limited = j < source && level.config.mshrs > 0;
            counts.levels[j].mshr_allocations += u64::from(limited);
            if target != Target::Level(j) {
                counts.levels[j].look_up(LineKind::Prefetch, j == source);
            }
        }
    }

    /// What happens for a hart in caches and memory.
    #[inline]
    pub fn counts(&self, hart: usize) -> &HartCounts {
        &self.levels.counts[hart]
    }

    /// A line of memory is read or written for a hart.
    #[inline]
    pub fn count_memory(&mut self, hart: usize, nvmm: bool, write: bool) {
        if let Some(c) = self.levels.counts.get_mut(hart) {
            c.memory.count(nvmm, write);
        }
    }

    pub(crate) fn save_counts(&self) -> Vec<HartCounts> {
        self.levels.counts.clone()
    }

    /// Restores the saved counts. Returns false if they do not fit these caches.
    pub(crate) fn load_counts(&mut self, saved: Vec<HartCounts>, limit: u64) -> bool {
        let levels = self.levels.levels.len();
        let fits = saved.len() == self.l1d.len() && saved.iter().all(|c| c.fits(levels, limit));
        if fits {
            self.levels.counts = saved;
        }
        fits
    }
}
