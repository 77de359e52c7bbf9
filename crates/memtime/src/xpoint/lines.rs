//! The buffer of lines read from the medium, and the page entries through which lines are found.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::saved::{ensure, times, MOST};
use crate::units::Ps;
use crate::wear::mix;

/// No line or page.
const NONE: u64 = u64::MAX;

/// Buffered lines. A line of which every sector has been read is replaced first, else any line, at
/// random.
#[derive(Clone, Debug)]
pub(super) struct ReadLines {
    /// Line numbers in an array of their own, so that a search touches little memory.
    lines: Vec<u64>,
    /// Sectors of 64 bytes that have been read since the line came, a bit each.
    sectors: Vec<u8>,
    /// Whether the line was read ahead.
    ahead: Vec<bool>,
    ready: Vec<Ps>,
    used: usize,
    all: u8,
    draws: u64,
    seed: u64,
}

impl ReadLines {
    pub fn new(n: usize, line_bytes: u64, seed: u64) -> ReadLines {
        ReadLines {
            lines: vec![NONE; n],
            sectors: vec![0; n],
            ahead: vec![false; n],
            ready: vec![Ps::ZERO; n],
            used: 0,
            all: u8::MAX >> (8 - line_bytes / 64),
            draws: 0,
            seed,
        }
    }

    /// Slot of the line, if it is buffered.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
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

    /// Puts a line into the buffer; returns its slot, and the line that it replaced.
    pub fn insert(&mut self, line: u64, ready: Ps, ahead: bool) -> (usize, Option<u64>) {
        let slot = if self.used < self.lines.len() {
            self.used += 1;
            self.find(NONE).expect("a slot is free")
        } else {
            self.victim()
        };
        let old = std::mem::replace(&mut self.lines[slot], line);
        (self.sectors[slot], self.ahead[slot], self.ready[slot]) = (0, ahead, ready);
        (slot, (old != NONE).then_some(old))
    }

    fn victim(&mut self) -> usize {
        self.draws += 1;
        let draw = mix(self.seed ^ self.draws);
        let read = |s: &&u8| **s == self.all;
        let n = self.sectors.iter().filter(read).count() as u64;
        if n == 0 {
            return (draw % self.lines.len() as u64) as usize;
        }
        let mut candidates = (0..self.lines.len()).filter(|&i| self.sectors[i] == self.all);
        candidates.nth((draw % n) as usize).expect("counted above")
    }

    /// Drops all buffered lines of a range.
    pub fn drop_all(&mut self, lines: &Range<u64>) {
        for i in 0..self.lines.len() {
            if lines.contains(&self.lines[i]) {
                self.lines[i] = NONE;
                (self.sectors[i], self.ahead[i], self.ready[i]) = (0, false, Ps::ZERO);
                self.used -= 1;
            }
        }
    }
}

/// A buffered line in saved form.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedLine {
    slot: u16,
    line: u64,
    sectors: u8,
    ahead: bool,
    ready: Ps,
}

/// The read buffer in saved form.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedLines {
    lines: Vec<SavedLine>,
    draws: u64,
}

impl ReadLines {
    pub fn save(&self) -> SavedLines {
        let used = (0..self.lines.len()).filter(|&i| self.lines[i] != NONE);
        let line = |i: usize| SavedLine {
            slot: i as u16,
            line: self.lines[i],
            sectors: self.sectors[i],
            ahead: self.ahead[i],
            ready: self.ready[i],
        };
        SavedLines {
            lines: used.map(line).collect(),
            draws: self.draws,
        }
    }

    /// Loads a saved state of a DIMM of that many lines; the buffer is new.
    pub fn load(&mut self, s: SavedLines, lines: u64) -> Result<(), Error> {
        let part = "lines read";
        ensure(s.draws <= MOST, part)?;
        self.draws = s.draws;
        times(s.lines.iter().map(|l| l.ready), part)?;
        for l in s.lines {
            let i = usize::from(l.slot);
            let free = self.lines.get(i) == Some(&NONE);
            let fine = l.line < lines && l.sectors & !self.all == 0 && self.find(l.line).is_none();
            ensure(free && fine, part)?;
            self.lines[i] = l.line;
            (self.sectors[i], self.ahead[i], self.ready[i]) = (l.sectors, l.ahead, l.ready);
            self.used += 1;
        }
        Ok(())
    }

    /// The lines in the buffer.
    pub fn held(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.iter().copied().filter(|l| *l != NONE)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u64,
    /// Lines in the buffer that are found through this entry.
    lines: u32,
    /// Number of the access that opened it.
    opened: u64,
    /// Number of the latest access.
    last: u64,
}

const FREE: Entry = Entry {
    page: NONE,
    lines: 0,
    opened: 0,
    last: 0,
};

/// Entries of the pages that have lines in a buffer; the set follows from the page's number.
///
/// If all entries of a set have lines, the one that was opened last makes room, unless one has not
/// been used for a while: then the one that has been idle longest does.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    entries: Vec<Entry>,
    ways: usize,
    /// Accesses after which an entry counts as idle.
    idle: u64,
    accesses: u64,
}

impl Pages {
    pub fn new(sets: usize, ways: usize, idle: u64) -> Pages {
        Pages {
            entries: vec![FREE; sets * ways],
            ways,
            idle,
            accesses: 0,
        }
    }

    fn set(&self, page: u64) -> Range<usize> {
        let sets = (self.entries.len() / self.ways) as u64;
        let first = (mix(page) % sets) as usize * self.ways;
        first..first + self.ways
    }

    fn find(&self, page: u64) -> Option<usize> {
        self.set(page).find(|&i| self.entries[i].page == page)
    }

    /// Uses the entry of a page, and opens it if there is none. Returns whether the page has lines
    /// in the buffer, and the page whose entry made room and had some.
    #[inline]
    pub fn touch(&mut self, page: u64) -> (bool, Option<u64>) {
        self.accesses += 1;
        if let Some(i) = self.find(page) {
            self.entries[i].last = self.accesses;
            return (self.entries[i].lines > 0, None);
        }
        let i = self.victim(page);
        let old = self.entries[i];
        self.entries[i] = Entry {
            page,
            lines: 0,
            opened: self.accesses,
            last: self.accesses,
        };
        (false, (old.lines > 0).then_some(old.page))
    }

    fn victim(&self, page: u64) -> usize {
        let set = self.set(page);
        let e = |i: &usize| &self.entries[*i];
        if let Some(i) = set.clone().find(|i| e(i).lines == 0) {
            return i;
        }
        let first = set.start;
        let idle = set.clone().min_by_key(|i| e(i).last).unwrap_or(first);
        if self.accesses - e(&idle).last > self.idle {
            return idle;
        }
        set.max_by_key(|i| e(i).opened).unwrap_or(first)
    }

    /// A line of a page with an entry came into the buffer.
    pub fn add(&mut self, page: u64) {
        if let Some(i) = self.find(page) {
            self.entries[i].lines += 1;
        }
    }

    /// A line of a page with an entry left the buffer.
    pub fn remove(&mut self, page: u64) {
        if let Some(i) = self.find(page) {
            self.entries[i].lines -= 1;
        }
    }
}

/// Entries in saved form: place, page, access that opened it and latest access.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedPages {
    entries: Vec<(u32, u64, u64, u64)>,
    accesses: u64,
}

impl Pages {
    pub fn save(&self) -> SavedPages {
        let used = (0u32..).zip(&self.entries).filter(|(_, e)| e.page != NONE);
        SavedPages {
            entries: used.map(|(i, e)| (i, e.page, e.opened, e.last)).collect(),
            accesses: self.accesses,
        }
    }

    /// Loads saved entries of a DIMM of that many pages; `held` are the pages of the lines that are
    /// found through them, a page for each line.
    pub fn load(
        &mut self,
        s: SavedPages,
        pages: u64,
        held: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        let part = "page entries";
        ensure(s.accesses <= MOST, part)?;
        self.accesses = s.accesses;
        for (i, page, opened, last) in s.entries {
            let i = i as usize;
            let place = page < pages && self.set(page).contains(&i) && self.find(page).is_none();
            let free = self.entries.get(i).is_some_and(|e| e.page == NONE);
            ensure(place && free && opened <= last && last <= s.accesses, part)?;
            self.entries[i] = Entry {
                page,
                lines: 0,
                opened,
                last,
            };
        }
        for page in held {
            let Some(i) = self.find(page) else {
                return ensure(false, part);
            };
            self.entries[i].lines += 1;
        }
        Ok(())
    }
}
