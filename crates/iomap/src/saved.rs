//! The state of a table as data, for snapshots.

use crate::{Counters, Entry, Table, VmCounters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error as ThisError;

/// Saved state that is not one of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
#[error("the saved state of the I/O table is not one of this table: {0}")]
pub struct BadState(pub &'static str);

/// Everything in a table but its kind and size, which its description gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedTable {
    places: Vec<Option<Entry>>,
    counters: Vec<Counters>,
    used: Vec<u64>,
    clock: u64,
    shift: u16,
    misses: u64,
    last_miss: Option<(u16, u64)>,
    vms: BTreeMap<u16, VmCounters>,
}

impl Table {
    /// The state.
    pub fn save(&self) -> SavedTable {
        SavedTable {
            places: self.places.clone(),
            counters: self.counters.clone(),
            used: self.used.clone(),
            clock: self.clock,
            shift: self.shift,
            misses: self.misses,
            last_miss: self.last_miss,
            vms: self.vms.clone(),
        }
    }

    /// Goes on from a saved state of a table of the same kind and size. On error nothing changes.
    pub fn load(&mut self, s: &SavedTable) -> Result<(), BadState> {
        let n = self.places.len();
        if s.places.len() != n || s.counters.len() != n || s.used.len() != n {
            return Err(BadState("another number of entries"));
        }
        if s.shift == 0 {
            return Err(BadState("a shift register that stands still"));
        }
        if s.used.iter().any(|u| *u > s.clock) {
            return Err(BadState("an entry from the future"));
        }
        if self.kind == crate::Kind::Constant && s.places != self.places {
            return Err(BadState("other constant entries"));
        }
        for (i, entry) in s.places.iter().enumerate() {
            let Some(e) = entry else { continue };
            let twice = s.places[..i].iter().flatten().any(|o| o.overlaps(e));
            if e.validate().is_err() || twice {
                return Err(BadState("entries that it refuses"));
            }
        }
        self.places.clone_from(&s.places);
        self.counters.clone_from(&s.counters);
        self.used.clone_from(&s.used);
        self.clock = s.clock;
        self.shift = s.shift;
        self.misses = s.misses;
        self.last_miss = s.last_miss;
        self.vms.clone_from(&s.vms);
        Ok(())
    }
}
