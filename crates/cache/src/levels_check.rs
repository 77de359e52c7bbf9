//! What holds of lines in all levels, for tests and for whoever asks.

use super::coherence::Coherence;
use super::tags::{LineState, Tags};
use crate::config::Inclusion;

impl Coherence {
    /// Whether some cache has a line modified.
    pub fn is_modified(&self, line: u64) -> bool {
        let levels = self.levels.levels.iter().flat_map(|l| l.caches.iter());
        let mut holding = self.l1d.iter().chain(levels);
        holding.any(|c| {
            c.find(line)
                .is_some_and(|i| c.entry(i).1 == LineState::Dirty)
        })
    }

    /// Checks that nothing is left that a hart was to do at once: none runs. The first violation is the error.
    pub fn check_left_over(&self) -> Result<(), String> {
        let l = &self.levels;
        let all = [
            (!l.dropped.is_empty(), "a filter slot to be emptied"),
            (!l.to_memory.is_empty(), "a line to be written to memory"),
            (!l.begun.is_empty(), "a set to be guarded"),
            (l.stores.has_deeds(), "a deed to be carried out"),
            (l.ahead.due != self.due(), "another time of the next event"),
        ];
        match all.into_iter().find(|(left, _)| *left) {
            Some((_, what)) => Err(format!("{what}, and no hart runs")),
            None => Ok(()),
        }
    }

    /// Checks that inclusive levels hold every line of their inner caches, and that the sharer
    /// directories are right. The first violation is the error.
    pub fn check_levels(&self) -> Result<(), String> {
        let levels = self.levels.levels.iter().map(|l| &l.caches);
        let all = [&self.l1d, &self.l1i].into_iter().chain(levels);
        if let Some(k) = { all }.position(|c| !c.check()) {
            return Err(format!("caches {k}: it is noted otherwise who has a line"));
        }
        if let Some(line) = self.combined_and_cached() {
            return Err(format!("line {line:#x} is combined, and in a cache"));
        }
        for (k, level) in self.levels.levels.iter().enumerate() {
            if level.config.inclusion != Inclusion::Inclusive {
                continue;
            }
            for hart in 0..self.l1d.len() {
                let nearer = self.levels.levels[..k].iter();
                let nearer = nearer.map(|l| &l.caches[l.of(hart)]);
                let first = [&self.l1d[hart], &self.l1i[hart]];
                for line in first.into_iter().chain(nearer).flat_map(Tags::lines) {
                    if level.caches[level.of(hart)].find(line).is_none() {
                        return Err(format!("level {k} lacks line {line:#x} of hart {hart}"));
                    }
                }
            }
        }
        Ok(())
    }
}
