//! Lines of which an outer level keeps an older state.

use super::coherence::Coherence;
use super::tags::LineState;
use super::versions::{Older, SavedVersions};

impl Coherence {
    /// Tracks older states of lines from now on.
    pub fn track_versions(&mut self) {
        self.levels.versions.on = true;
    }

    /// Whether older states of lines are kept.
    pub(crate) fn keeps_versions(&self) -> bool {
        self.levels.versions.on
    }

    /// A line is about to be stored to in a first-level cache. If levels have it modified, its
    /// present content becomes an older state. Returns the number of that state.
    #[inline(always)]
    pub fn ages(&mut self, line: u64) -> Option<u64> {
        if !self.levels.versions.on {
            return None;
        }
        self.name_older(line)
    }

    #[cold]
    fn name_older(&mut self, line: u64) -> Option<u64> {
        let name = self.levels.versions.next;
        let mut any = false;
        for (k, level) in self.levels.levels.iter().enumerate() {
            let mut mask = level.caches.mask(line, None);
            while let Some((c, i)) = level.caches.next(line, &mut mask) {
                let all = self.levels.versions.older.entry(line).or_default();
                let known = |o: &Older| (o.level as usize, o.cache as usize) == (k, c);
                if level.caches[c].entry(i).1 == LineState::Dirty && !all.iter().any(known) {
                    let (level, cache) = (k as u32, c as u32);
                    all.push(Older { level, cache, name });
                    any = true;
                }
            }
        }
        let versions = &mut self.levels.versions;
        if versions.older.get(&line).is_some_and(Vec::is_empty) {
            versions.older.remove(&line);
        }
        versions.next += u64::from(any);
        any.then_some(name)
    }

    /// Whether a cache has an older state of a line.
    pub fn has_version(&self, line: u64, name: u64) -> bool {
        let all = self.levels.versions.older.get(&line);
        all.is_some_and(|all| all.iter().any(|o| o.name == name))
    }

    /// All older states: line and number.
    pub fn versions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.levels.versions.older.iter();
        all.flat_map(|(line, all)| all.iter().map(|o| (*line, o.name)))
    }

    pub(crate) fn save_versions(&self) -> SavedVersions {
        SavedVersions {
            next: self.levels.versions.next,
            older: self.levels.versions.older.clone(),
        }
    }

    /// Restores the saved state, after that of the levels. Returns false if it does not fit these
    /// levels.
    pub(crate) fn load_versions(&mut self, saved: SavedVersions) -> bool {
        let modified = |(line, o): (u64, &Older)| {
            let level = self.levels.levels.get(o.level as usize);
            let cache = level.and_then(|l| l.caches.get(o.cache as usize));
            let state = cache.and_then(|c| Some(c.entry(c.find(line)?).1));
            o.name < saved.next && state == Some(LineState::Dirty)
        };
        let all = saved.older.iter();
        let mut all = all.flat_map(|(line, all)| all.iter().map(|o| (*line, o)));
        if saved.next > 1 << 62 || !all.all(modified) {
            return false;
        }
        self.levels.versions.next = saved.next;
        self.levels.versions.older = saved.older;
        true
    }
}
