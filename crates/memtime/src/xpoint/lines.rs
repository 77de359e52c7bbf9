//! The buffer of lines read from the medium.

use serde::{Deserialize, Serialize};

use crate::checks::{ensure, times, MOST};
use crate::error::Error;
use crate::units::Ps;
use crate::wear::mix;

/// No line.
const NONE: u64 = u64::MAX;
const BUCKETS: usize = 256;

/// How many lines of a buffer are in each of a number of buckets: a line whose bucket is empty need not
/// be looked for.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    counts: [u16; BUCKETS],
}

impl Filter {
    pub fn new() -> Filter {
        Filter {
            counts: [0; BUCKETS],
        }
    }

    fn bucket(line: u64) -> usize {
        // The upper byte of a product depends on all bits of the number.
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    pub fn add(&mut self, line: u64) {
        self.counts[Self::bucket(line)] += 1;
    }

    pub fn remove(&mut self, line: u64) {
        self.counts[Self::bucket(line)] -= 1;
    }

    /// Whether the line can be in the buffer.
    #[inline]
    pub fn may_have(&self, line: u64) -> bool {
        self.counts[Self::bucket(line)] > 0
    }
}

/// Place of a line that makes room in a buffer of `n`, the first one first: any of the older half.
///
/// Half is a choice. If any line could be chosen, two threads that store in order would lose bandwidth,
/// which they do not; if it was always the first one, lines written by halves would be lost all at once
/// from the buffer's size on, and they are lost little by little (Yang et al., FAST 2020).
pub(super) fn older(seed: u64, n: usize) -> Option<usize> {
    let older = (n - n / 2) as u64;
    mix(seed).checked_rem(older).map(|i| i as usize)
}

/// Buffered lines. One of the older half makes room.
#[derive(Clone, Debug)]
pub(super) struct ReadLines {
    /// Line numbers in an array of their own, so that a search touches little memory.
    lines: Vec<u64>,
    /// Sectors of 64 bytes that have been read since the line came, a bit each.
    sectors: Vec<u8>,
    /// Whether the line was read ahead.
    ahead: Vec<bool>,
    ready: Vec<Ps>,
    filter: Filter,
    /// Slots in use, in the order in which their lines came.
    order: Vec<u16>,
    draws: u64,
    seed: u64,
    /// Where the latest search ended; only saves time.
    recent: usize,
    all: u8,
}

impl ReadLines {
    pub fn new(n: usize, line_bytes: u64, seed: u64) -> ReadLines {
        ReadLines {
            lines: vec![NONE; n],
            sectors: vec![0; n],
            ahead: vec![false; n],
            ready: vec![Ps::ZERO; n],
            filter: Filter::new(),
            order: Vec::with_capacity(n),
            draws: 0,
            seed,
            recent: 0,
            all: u8::MAX >> (8 - line_bytes / 64),
        }
    }

    /// Slot of the line, if it is buffered.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        if self.lines[self.recent] == line {
            return Some(self.recent);
        }
        if !self.filter.may_have(line) {
            return None;
        }
        self.lines.iter().position(|l| *l == line)
    }

    /// When the line in a slot became or becomes available.
    #[inline]
    pub fn ready(&self, slot: usize) -> Ps {
        self.ready[slot]
    }

    /// Notes that a sector of the line in a slot has been read. Returns how many sectors have been,
    /// if they are the first ones of the line and this one is the last of them.
    #[inline]
    pub fn mark(&mut self, slot: usize, sector: u32) -> Option<u32> {
        self.recent = slot;
        self.sectors[slot] |= 1 << sector;
        let upto = u8::MAX >> (7 - sector);
        (self.sectors[slot] == upto).then_some(sector + 1)
    }

    /// Whether the line in a slot follows one that was read as well: it was read ahead, or all of
    /// the line before it has been read and is still there.
    pub fn follows(&self, slot: usize) -> bool {
        let read = |i: usize| self.sectors[i] == self.all;
        let before = self.lines[slot].checked_sub(1);
        self.ahead[slot] || before.and_then(|l| self.find(l)).is_some_and(read)
    }

    /// Puts a line into the buffer; returns its slot.
    pub fn insert(&mut self, line: u64, ready: Ps, ahead: bool) -> usize {
        let slot = if self.order.len() < self.lines.len() {
            self.order.len()
        } else {
            self.draws += 1;
            let i = older(self.seed ^ self.draws, self.order.len()).unwrap_or(0);
            let slot = usize::from(self.order.remove(i));
            self.filter.remove(self.lines[slot]);
            slot
        };
        self.order.push(slot as u16);
        self.lines[slot] = line;
        self.filter.add(line);
        (self.sectors[slot], self.ahead[slot], self.ready[slot]) = (0, ahead, ready);
        slot
    }
}

/// A buffered line in saved form.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLine {
    line: u64,
    sectors: u8,
    ahead: bool,
    ready: Ps,
}

/// The read buffer in saved form: lines in the order in which they came.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedLines {
    lines: Vec<SavedLine>,
    draws: u64,
}

impl ReadLines {
    pub fn save(&self) -> SavedLines {
        let line = |i: &u16| {
            let i = usize::from(*i);
            SavedLine {
                line: self.lines[i],
                sectors: self.sectors[i],
                ahead: self.ahead[i],
                ready: self.ready[i],
            }
        };
        SavedLines {
            lines: self.order.iter().map(line).collect(),
            draws: self.draws,
        }
    }

    /// Loads a saved state of a DIMM of that many lines; the buffer is new.
    pub fn load(&mut self, s: SavedLines, lines: u64) -> Result<(), Error> {
        let part = "lines read";
        ensure(s.draws <= MOST && s.lines.len() <= self.lines.len(), part)?;
        times(s.lines.iter().map(|l| l.ready), part)?;
        for l in s.lines {
            let fine = l.line < lines && l.sectors & !self.all == 0 && self.find(l.line).is_none();
            ensure(fine, part)?;
            let slot = self.insert(l.line, l.ready, l.ahead);
            self.sectors[slot] = l.sectors;
        }
        self.draws = s.draws;
        Ok(())
    }
}
