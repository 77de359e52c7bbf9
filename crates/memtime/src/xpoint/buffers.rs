//! The DIMM's buffers: write combining, lines read, cached translations.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::saved::{ensure, times, MOST};
use crate::units::Ps;
use crate::wear::mix;

use super::lines::NO_ENTRY;

/// No line or page.
const NONE: u64 = u64::MAX;
/// Marks the number of a line that accepts no more writes: it is complete, or its page was displaced.
const SEALED: u64 = 1 << 63;

/// One line of the combining buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Bytes written, one bit for every eight of them.
    pub mask: u64,
    /// Chosen to be written back.
    pub leaving: bool,
    /// When its translation is available.
    pub ready: Ps,
}

/// Written lines that are not yet in the medium.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    /// Line numbers in an array of their own, so that a search touches little memory.
    lines: Vec<u64>,
    slots: Vec<Slot>,
    /// Entry of the line's page while it accepts writes, else `NO_ENTRY`.
    entries: Vec<u32>,
    used: usize,
    /// Slots in use, a bit each.
    taken: [u64; 4],
    /// Slots to be written back, in order.
    leaving: Vec<u16>,
    head: usize,
    count: usize,
    full: u64,
    draws: u64,
    seed: u64,
}

impl Combine {
    pub fn new(lines: usize, line_bytes: u64, seed: u64) -> Combine {
        let slot = Slot {
            mask: 0,
            leaving: false,
            ready: Ps::ZERO,
        };
        Combine {
            lines: vec![NONE; lines],
            slots: vec![slot; lines],
            entries: vec![NO_ENTRY; lines],
            used: 0,
            taken: [0; 4],
            leaving: vec![0; lines],
            head: 0,
            count: 0,
            full: u64::MAX >> (64 - line_bytes / 8),
            draws: 0,
            seed,
        }
    }

    /// The line, if it still accepts writes.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        self.lines.iter().position(|l| *l == line)
    }

    /// Whether all bytes of `mask` are in the buffer.
    #[inline]
    pub fn has(&self, line: u64, mask: u64) -> bool {
        if self.used == 0 {
            return false;
        }
        self.lines
            .iter()
            .zip(&self.slots)
            .any(|(l, s)| *l & !SEALED == line && *l != NONE && s.mask & mask == mask)
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.used < self.lines.len()
    }

    /// Merges a write into the line in a slot, or into a new line, for which there must be room.
    /// Returns whether the line is complete now, and the slot if it has to be written back for that.
    pub fn write(
        &mut self,
        slot: Option<usize>,
        line: u64,
        mask: u64,
        entry: usize,
    ) -> (bool, Option<usize>) {
        let i = slot.unwrap_or_else(|| {
            let word = self.taken.iter().position(|w| *w != u64::MAX);
            let word = word.expect("room was checked");
            let i = word * 64 + self.taken[word].trailing_ones() as usize;
            self.used += 1;
            self.taken[word] |= 1 << (i % 64);
            self.lines[i] = line;
            self.entries[i] = entry as u32;
            i
        });
        self.slots[i].mask |= mask;
        if self.slots[i].mask != self.full {
            return (false, None);
        }
        self.seal(i);
        (true, self.leave(i))
    }

    fn seal(&mut self, i: usize) {
        self.lines[i] |= SEALED;
        self.entries[i] = NO_ENTRY;
    }

    fn leave(&mut self, i: usize) -> Option<usize> {
        if self.slots[i].leaving {
            return None;
        }
        self.slots[i].leaving = true;
        let n = self.leaving.len();
        self.leaving[(self.head + self.count) % n] = i as u16;
        self.count += 1;
        Some(i)
    }

    /// Chooses one line at random to be written back. No line may be waiting to be written back,
    /// and
    /// the buffer must be full.
    pub fn make_room(&mut self) -> Option<usize> {
        self.draws += 1;
        let i = mix(self.seed ^ self.draws) % self.lines.len() as u64;
        self.leave(i as usize)
    }

    /// Whether the line in a slot accepts writes.
    pub fn is_open(&self, slot: usize) -> bool {
        self.lines[slot] & SEALED == 0
    }

    /// Closes the first open line of an entry, from a slot on. Returns that slot, and whether the
    /// line now has to be written back.
    pub fn close(&mut self, from: usize, entry: usize) -> Option<(usize, bool)> {
        let open = &self.entries[from..];
        let i = from + open.iter().position(|e| *e == entry as u32)?;
        self.seal(i);
        Some((i, self.leave(i).is_some()))
    }

    /// Schedules the line in a slot to be written back, if there is one that is not scheduled yet.
    pub fn leave_if_written(&mut self, slot: usize) -> Option<usize> {
        if self.lines[slot] == NONE {
            return None;
        }
        self.leave(slot)
    }

    /// Number of the line in a slot.
    pub fn line(&self, slot: usize) -> u64 {
        self.lines[slot] & !SEALED
    }

    /// Sets when the translation of a line to be written back is available.
    pub fn set_ready(&mut self, slot: usize, t: Ps) {
        self.slots[slot].ready = t;
    }

    pub fn is_leaving(&self) -> bool {
        self.count > 0
    }

    /// The next line to be written back, whether all of it was written, and when its translation is
    /// available.
    pub fn first_leaving(&self) -> Option<(u64, bool, Ps)> {
        (self.count > 0).then(|| {
            let i = self.leaving[self.head] as usize;
            let s = &self.slots[i];
            (self.line(i), s.mask == self.full, s.ready)
        })
    }

    /// Removes that line; returns the entry of its page if it still accepted writes.
    pub fn remove_first(&mut self) -> Option<usize> {
        let i = self.leaving[self.head] as usize;
        let open = self.is_open(i).then(|| self.entries[i] as usize);
        self.head = (self.head + 1) % self.leaving.len();
        self.count -= 1;
        self.used -= 1;
        self.taken[i / 64] &= !(1 << (i % 64));
        self.lines[i] = NONE;
        self.entries[i] = NO_ENTRY;
        self.slots[i] = Slot {
            mask: 0,
            leaving: false,
            ready: Ps::ZERO,
        };
        open
    }
}

impl Combine {
    /// Finds the entries of all lines that accept writes again, which `entry` adds a line to.
    pub fn count(
        &mut self,
        mut entry: impl FnMut(u64) -> Result<usize, Error>,
    ) -> Result<(), Error> {
        for (line, e) in self.lines.iter().zip(&mut self.entries) {
            if line & SEALED == 0 {
                *e = entry(*line)? as u32;
            }
        }
        Ok(())
    }
}

/// A line of the combining buffer in saved form.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSlot {
    slot: u16,
    line: u64,
    mask: u64,
    closed: bool,
    ready: Ps,
}

/// The combining buffer in saved form: lines by slot, and the slots of lines to be written back, in
/// order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedCombine {
    slots: Vec<SavedSlot>,
    leaving: Vec<u16>,
    draws: u64,
}

impl Combine {
    pub fn save(&self) -> SavedCombine {
        let used = (0..self.lines.len()).filter(|&i| self.lines[i] != NONE);
        let slot = |i: usize| SavedSlot {
            slot: i as u16,
            line: self.line(i),
            mask: self.slots[i].mask,
            closed: !self.is_open(i),
            ready: self.slots[i].ready,
        };
        let n = self.leaving.len();
        let leaving = (0..self.count).map(|k| self.leaving[(self.head + k) % n]);
        SavedCombine {
            slots: used.map(slot).collect(),
            leaving: leaving.collect(),
            draws: self.draws,
        }
    }

    /// Loads a saved state; the buffer is new, and belongs to a DIMM of that many lines.
    pub fn load(&mut self, s: SavedCombine, lines: u64) -> Result<(), Error> {
        let part = "combining buffer";
        ensure(s.draws <= MOST, part)?;
        self.draws = s.draws;
        for x in &s.slots {
            let i = usize::from(x.slot);
            let free = self.lines.get(i) == Some(&NONE);
            ensure(free && x.line < lines && x.mask & !self.full == 0, part)?;
            self.lines[i] = x.line;
            self.slots[i].mask = x.mask;
            self.slots[i].ready = x.ready;
            self.used += 1;
            self.taken[i / 64] |= 1 << (i % 64);
        }
        times(s.slots.iter().map(|x| x.ready), part)?;
        for i in s.leaving {
            let i = usize::from(i);
            let written = self.lines.get(i).is_some_and(|l| *l != NONE);
            ensure(written && self.leave(i).is_some(), part)?;
        }
        for x in &s.slots {
            let i = usize::from(x.slot);
            ensure(x.closed || x.mask != self.full, part)?;
            if x.closed {
                ensure(self.slots[i].leaving, part)?;
                self.lines[i] |= SEALED;
            }
        }
        Ok(())
    }
}

const WAYS: usize = 8;

/// Translations, 8 ways, least recently used replaced.
#[derive(Clone, Debug)]
pub(super) struct Translations {
    sets: Vec<[u64; WAYS]>,
}

impl Translations {
    pub fn new(entries: usize) -> Translations {
        Translations {
            sets: vec![[NONE; WAYS]; entries / WAYS],
        }
    }

    /// Whether the page was cached; afterwards it is.
    #[inline]
    pub fn touch(&mut self, page: u64) -> bool {
        let n = self.sets.len() as u64;
        let set = &mut self.sets[(page % n) as usize];
        let found = set.iter().position(|p| *p == page);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = page;
        found.is_some()
    }

    /// Non-empty sets with their pages, the most recently used first.
    pub fn save(&self) -> Vec<(u64, Vec<u64>)> {
        let pages = |set: &[u64; WAYS]| set.iter().copied().filter(|p| *p != NONE).collect();
        let all = (0..).zip(self.sets.iter().map(pages));
        all.filter(|(_, pages): &(u64, Vec<u64>)| !pages.is_empty())
            .collect()
    }

    /// Loads a saved state of a DIMM of that many pages.
    pub fn load(&mut self, saved: Vec<(u64, Vec<u64>)>, pages: u64) -> Result<(), Error> {
        let n = self.sets.len() as u64;
        for (i, held) in saved {
            let fine = |p: &u64| *p < pages && p % n == i;
            ensure(
                i < n && held.len() <= WAYS && held.iter().all(fine),
                "translations",
            )?;
            let set = &mut self.sets[i as usize];
            *set = [NONE; WAYS];
            set[..held.len()].copy_from_slice(&held);
        }
        Ok(())
    }
}
