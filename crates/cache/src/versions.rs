//! Older states of lines: the contents that a level has of a line that was stored to again in an
//! inner cache.
//!
//! The modelled caches have tags only, and the guest's RAM holds the newest state, which programs
//! see. But a level that does not see every store may write an older state to memory. If it matters
//! what memory holds at any time (for power cuts), such states have numbers, and the persistence
//! tracking keeps their contents.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cache that holds an older state, and the state's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Older {
    pub(crate) level: u32,
    pub(crate) cache: u32,
    pub(crate) name: u64,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions {
    /// Whether older states are tracked.
    pub(crate) on: bool,
    pub(crate) next: u64,
    /// By line. A modified copy without an entry here is the newest state.
    pub(crate) older: BTreeMap<u64, Vec<Older>>,
}

impl Versions {
    /// Sets the version of a modified copy in a cache: the number of an older state, or `None` for
    /// the newest.
    pub fn set(&mut self, level: usize, cache: usize, line: u64, version: Option<u64>) {
        if !self.on {
            return;
        }
        self.take(level, cache, line);
        if let Some(name) = version {
            self.older.entry(line).or_default().push(Older {
                level: level as u32,
                cache: cache as u32,
                name,
            });
        }
    }

    /// A copy in a cache is gone, or no longer modified. Returns its version.
    pub fn take(&mut self, level: usize, cache: usize, line: u64) -> Option<u64> {
        if self.older.is_empty() {
            return None;
        }
        let all = self.older.get_mut(&line)?;
        let here = |o: &Older| (o.level as usize, o.cache as usize) == (level, cache);
        let i = all.iter().position(here)?;
        let name = all.remove(i).name;
        if all.is_empty() {
            self.older.remove(&line);
        }
        Some(name)
    }

    /// No line is modified anywhere. Numbers are never reused.
    pub fn clear(&mut self) {
        self.older.clear();
    }
}

/// Older states, as saved in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedVersions {
    pub(crate) next: u64,
    pub(crate) older: BTreeMap<u64, Vec<Older>>,
}

impl SavedVersions {
    pub fn is_new(&self) -> bool {
        self.next == 0
    }
}
