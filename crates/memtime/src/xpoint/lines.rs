//! The buffer of lines read from the medium, and the page entries through which lines are found.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::saved::{bad, ensure, times, MOST};
use crate::units::Ps;
use crate::wear::mix;

/// No line or page.
const NONE: u64 = u64::MAX;
/// No entry of a page.
pub(super) const NO_ENTRY: u32 = u32::MAX;
const PART: &str = "page entries";

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
    /// Entry of the line's page, `NO_ENTRY` in an empty slot.
    entry: Vec<u32>,
    /// Slots in use, a bit each.
    used: [u64; 4],
    /// Slots whose line has been read completely.
    read: [u64; 4],
    /// Where the latest search ended; only saves time.
    recent: usize,
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
            entry: vec![NO_ENTRY; n],
            used: [0; 4],
            read: [0; 4],
            recent: 0,
            all: u8::MAX >> (8 - line_bytes / 64),
            draws: 0,
            seed,
        }
    }

    /// Slot of the line, if it is buffered.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        if self.lines[self.recent] == line {
            return Some(self.recent);
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
        if self.sectors[slot] == self.all {
            self.read[slot / 64] |= 1 << (slot % 64);
        }
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

    /// Puts a line into the buffer, whose page has that entry; returns its slot, and the entry of the
    /// line that it replaced.
    pub fn insert(
        &mut self,
        line: u64,
        entry: usize,
        ready: Ps,
        ahead: bool,
    ) -> (usize, Option<usize>) {
        let free = (0..4)
            .map(|w| w * 64 + self.used[w].trailing_ones() as usize)
            .enumerate()
            .find(|(w, i)| *i < (w + 1) * 64 && *i < self.lines.len());
        let (slot, old) = match free {
            Some((_, slot)) => (slot, None),
            None => {
                let slot = self.victim();
                (slot, Some(self.entry[slot] as usize))
            }
        };
        self.used[slot / 64] |= 1 << (slot % 64);
        self.read[slot / 64] &= !(1 << (slot % 64));
        self.lines[slot] = line;
        self.entry[slot] = entry as u32;
        (self.sectors[slot], self.ahead[slot], self.ready[slot]) = (0, ahead, ready);
        (slot, old)
    }

    fn victim(&mut self) -> usize {
        self.draws += 1;
        let draw = mix(self.seed ^ self.draws);
        let n: u32 = self.read.iter().map(|w| w.count_ones()).sum();
        if n == 0 {
            return (draw % self.lines.len() as u64) as usize;
        }
        let mut left = (draw % u64::from(n)) as u32;
        for (i, word) in self.read.iter().enumerate() {
            if left < word.count_ones() {
                let mut rest = *word;
                (0..left).for_each(|_| rest &= rest - 1);
                return i * 64 + rest.trailing_zeros() as usize;
            }
            left -= word.count_ones();
        }
        0
    }

    /// Drops all buffered lines of an entry, which are so many.
    pub fn drop_all(&mut self, entry: usize, mut lines: u32) {
        for i in 0..self.lines.len() {
            if lines == 0 {
                break;
            }
            if self.entry[i] == entry as u32 {
                self.lines[i] = NONE;
                self.entry[i] = NO_ENTRY;
                self.used[i / 64] &= !(1 << (i % 64));
                self.read[i / 64] &= !(1 << (i % 64));
                (self.sectors[i], self.ahead[i], self.ready[i]) = (0, false, Ps::ZERO);
                lines -= 1;
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
            self.used[i / 64] |= 1 << (i % 64);
            self.read[i / 64] |= u64::from(l.sectors == self.all) << (i % 64);
        }
        Ok(())
    }

    /// Finds the entries of all lines again, which `entry` adds a line to.
    pub fn count(
        &mut self,
        mut entry: impl FnMut(u64) -> Result<usize, Error>,
    ) -> Result<(), Error> {
        for (line, e) in self.lines.iter().zip(&mut self.entry) {
            if *line != NONE {
                *e = entry(*line)? as u32;
            }
        }
        Ok(())
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

/// An entry that was used.
pub(super) struct Touched {
    pub entry: usize,
    /// Whether the page has lines in the buffer.
    pub has_lines: bool,
    /// How many lines the page had whose entry this was: they have to go.
    pub displaced: u32,
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
    sets: u64,
    ways: usize,
    /// Accesses after which an entry counts as idle.
    idle: u64,
    accesses: u64,
}

impl Pages {
    pub fn new(sets: usize, ways: usize, idle: u64) -> Pages {
        Pages {
            entries: vec![FREE; sets * ways],
            sets: sets as u64,
            ways,
            idle,
            accesses: 0,
        }
    }

    fn set(&self, page: u64) -> Range<usize> {
        // The upper half of the hash as a fraction of the number of sets.
        let first = (((mix(page) >> 32) * self.sets) >> 32) as usize * self.ways;
        first..first + self.ways
    }

    fn find(&self, page: u64) -> Option<usize> {
        self.set(page).find(|&i| self.entries[i].page == page)
    }

    /// Whether a page has lines in the buffer.
    #[inline]
    pub fn has_lines(&self, page: u64) -> bool {
        self.find(page).is_some_and(|i| self.entries[i].lines > 0)
    }

    /// Uses the entry of a page, and opens it if there is none.
    #[inline]
    pub fn touch(&mut self, page: u64) -> Touched {
        self.accesses += 1;
        let set = self.set(page);
        if let Some(i) = set.clone().find(|&i| self.entries[i].page == page) {
            self.entries[i].last = self.accesses;
            return Touched {
                entry: i,
                has_lines: self.entries[i].lines > 0,
                displaced: 0,
            };
        }
        let i = self.victim(set);
        let old = self.entries[i];
        self.entries[i] = Entry {
            page,
            lines: 0,
            opened: self.accesses,
            last: self.accesses,
        };
        Touched {
            entry: i,
            has_lines: false,
            displaced: old.lines,
        }
    }

    fn victim(&self, set: Range<usize>) -> usize {
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

    /// A line came into the buffer whose page has that entry.
    pub fn add(&mut self, entry: usize) {
        self.entries[entry].lines += 1;
    }

    /// A line left the buffer whose page has that entry.
    pub fn remove(&mut self, entry: usize) {
        self.entries[entry].lines -= 1;
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

    /// Loads saved entries of a DIMM of that many pages; their lines are counted afterwards.
    pub fn load(&mut self, s: SavedPages, pages: u64) -> Result<(), Error> {
        ensure(s.accesses <= MOST, PART)?;
        self.accesses = s.accesses;
        for (i, page, opened, last) in s.entries {
            let i = i as usize;
            let place = page < pages && self.set(page).contains(&i) && self.find(page).is_none();
            let free = self.entries.get(i).is_some_and(|e| e.page == NONE);
            ensure(place && free && opened <= last && last <= s.accesses, PART)?;
            self.entries[i] = Entry {
                page,
                lines: 0,
                opened,
                last,
            };
        }
        Ok(())
    }

    /// Counts a line that was loaded; returns its page's entry.
    pub fn count(&mut self, page: u64) -> Result<usize, Error> {
        let Some(i) = self.find(page) else {
            return Err(bad(format!("{PART}: a line's page has none")));
        };
        self.entries[i].lines += 1;
        Ok(i)
    }
}
