//! Wear levelling of hot blocks: a block that gets most of the writes for long enough moves to a
//! spare place, and takes no writes meanwhile.
//!
//! One counter finds such a block (the majority vote of Boyer and Moore): a write to the block that
//! is counted adds one, a write to any other block subtracts one, and at zero the next block written
//! is counted. So only a block with more than half of all writes ever reaches the threshold.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::params::XpointMigration;
use crate::checks::{ensure, times, MOST};
use crate::error::Error;
use crate::units::Ps;

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Moving {
    block: u64,
    /// Where it is copied to.
    to: u64,
    /// Lines that are still to be copied.
    left: u64,
    /// Earliest time of the next copy.
    next: Ps,
    /// When the block takes writes again.
    until: Ps,
}

#[derive(Clone, Debug)]
pub(super) struct Migrate {
    block_lines: u64,
    /// Whole blocks; lines after the last one stay where they are.
    blocks: u64,
    lines: u64,
    /// The block that is counted, and how far its writes are ahead of all others.
    hot: (u64, u64),
    /// Places of the blocks that are not at their own.
    places: BTreeMap<u64, u64>,
    /// Free places; the first is used next.
    spares: VecDeque<u64>,
    moving: Option<Moving>,
}

impl Migrate {
    /// For a DIMM of `lines` lines; parameters are valid.
    pub fn new(p: &XpointMigration, lines: u64, line_bytes: u64) -> Migrate {
        let block_lines = p.block_bytes / line_bytes;
        let blocks = lines / block_lines;
        Migrate {
            block_lines,
            blocks,
            lines,
            hot: (0, 0),
            places: BTreeMap::new(),
            spares: (blocks..blocks + u64::from(p.spare_blocks)).collect(),
            moving: None,
        }
    }

    /// Where a line is, before other levelling. Places beyond the DIMM's lines are spares.
    pub fn place(&self, line: u64) -> u64 {
        if self.places.is_empty() {
            return line;
        }
        let block = line / self.block_lines;
        match self.places.get(&block) {
            Some(p) => self.line(*p, line % self.block_lines),
            None => line,
        }
    }

    /// A line of a place.
    fn line(&self, place: u64, n: u64) -> u64 {
        match place.checked_sub(self.blocks) {
            Some(spare) => self.lines + spare * self.block_lines + n,
            None => place * self.block_lines + n,
        }
    }

    /// Until when the block of a line takes no writes, if it moves.
    #[inline]
    pub fn until(&self, line: u64) -> Option<Ps> {
        let m = self.moving.as_ref()?;
        (line / self.block_lines == m.block).then_some(m.until)
    }

    /// Earliest time of the next copy.
    #[inline]
    pub fn next(&self) -> Option<Ps> {
        self.moving.as_ref().map(|m| m.next)
    }

    /// Counts a line write at `t`. Returns whether the block begins to move.
    pub fn wrote(&mut self, p: &XpointMigration, t: Ps, line: u64) -> bool {
        let block = line >> self.block_lines.trailing_zeros();
        self.hot = match self.hot {
            (b, n) if block >= self.blocks => (b, n.saturating_sub(1)),
            (_, 0) => (block, 1),
            (b, n) if b == block => (b, n + 1),
            (b, n) => (b, n - 1),
        };
        if self.hot.1 < u64::from(p.threshold) || self.hot.0 != block || self.moving.is_some() {
            return false;
        }
        let Some(to) = self.spares.pop_front() else {
            return false;
        };
        self.hot = (block, 0);
        let from = self.places.get(&block).copied().unwrap_or(block);
        self.spares.push_back(from);
        if to == block {
            self.places.remove(&block);
        } else {
            self.places.insert(block, to);
        }
        let all = Ps(p.line_time.0.saturating_mul(self.block_lines));
        self.moving = Some(Moving {
            block,
            to,
            left: self.block_lines,
            next: t,
            until: (t + all).min(Ps::MAX_TIME),
        });
        true
    }

    /// One line is copied at `t`; returns the place to which it is written.
    pub fn copy(&mut self, p: &XpointMigration, t: Ps) -> Option<u64> {
        let mut m = self.moving.take()?;
        let place = self.line(m.to, self.block_lines - m.left);
        m.left -= 1;
        m.next = t + p.line_time;
        self.moving = (m.left > 0).then_some(m);
        Some(place)
    }
}

/// Migration in saved form.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedMigrate {
    hot: (u64, u64),
    places: Vec<(u64, u64)>,
    spares: Vec<u64>,
    moving: Option<Moving>,
}

impl Migrate {
    pub fn save(&self) -> SavedMigrate {
        SavedMigrate {
            hot: self.hot,
            places: self.places.iter().map(|(b, p)| (*b, *p)).collect(),
            spares: self.spares.iter().copied().collect(),
            moving: self.moving,
        }
    }

    /// Loads a saved state; `self` is new.
    pub fn load(&mut self, s: SavedMigrate) -> Result<(), Error> {
        let part = "migration of blocks";
        ensure(s.hot.0 < self.blocks.max(1) && s.hot.1 <= MOST, part)?;
        ensure(s.spares.len() == self.spares.len(), part)?;
        let n = s.places.len();
        let places: BTreeMap<u64, u64> = s.places.into_iter().collect();
        ensure(
            places.len() == n && places.iter().all(|(b, p)| *b < self.blocks && b != p),
            part,
        )?;
        // Every place is used once: the places left are those that are taken or free now.
        let mut left: Vec<u64> = places.keys().chain(&self.spares).copied().collect();
        let mut used: Vec<u64> = places.values().chain(&s.spares).copied().collect();
        left.sort_unstable();
        used.sort_unstable();
        ensure(left == used, part)?;
        if let Some(m) = &s.moving {
            let to = places.get(&m.block).copied().unwrap_or(m.block);
            let left = m.left >= 1 && m.left <= self.block_lines;
            ensure(m.block < self.blocks && m.to == to && left, part)?;
            times([m.next, m.until], part)?;
        }
        self.hot = s.hot;
        self.places = places;
        self.spares = s.spares.into();
        self.moving = s.moving;
        Ok(())
    }
}
