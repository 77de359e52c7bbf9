//! The DIMM's buffers: write combining, cached translations.

use serde::{Deserialize, Serialize};

use crate::checks::{ensure, times, MOST};
use crate::error::Error;
use crate::units::Ps;

use super::lines::{older, Filter};

/// No page.
const NONE: u64 = u64::MAX;

/// One line of the combining buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    line: u64,
    /// Bytes written, one bit for every eight of them.
    mask: u64,
    /// When the latest of them came.
    at: Ps,
}

/// Written lines that are not yet in the medium, in the order in which they came. A complete one accepts
/// no more writes, so that a line can be there twice.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    held: Vec<Line>,
    filter: Filter,
    most: usize,
    complete: usize,
    full: u64,
    draws: u64,
    seed: u64,
}

impl Combine {
    pub fn new(most: usize, line_bytes: u64, seed: u64) -> Combine {
        Combine {
            held: Vec::with_capacity(most),
            filter: Filter::new(),
            most,
            complete: 0,
            full: u64::MAX >> (64 - line_bytes / 8),
            draws: 0,
            seed,
        }
    }

    /// Place of the line, if it still accepts writes.
    #[inline]
    pub fn open(&self, line: u64) -> Option<usize> {
        if !self.filter.may_have(line) {
            return None;
        }
        let open = |l: &Line| l.line == line && l.mask != self.full;
        self.held.iter().rposition(open)
    }

    /// Whether all bytes of `mask` are in the buffer.
    #[inline]
    pub fn has(&self, line: u64, mask: u64) -> bool {
        self.filter.may_have(line)
            && (self.held.iter()).any(|l| l.line == line && l.mask & mask == mask)
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.held.len() < self.most
    }

    /// Merges a write into the line at a place, or into a new line, for which there must be room.
    pub fn write(&mut self, place: Option<usize>, line: u64, mask: u64, at: Ps) {
        let i = place.unwrap_or_else(|| {
            self.filter.add(line);
            self.held.push(Line { line, mask: 0, at });
            self.held.len() - 1
        });
        let l = &mut self.held[i];
        l.mask |= mask;
        l.at = at;
        self.complete += usize::from(l.mask == self.full);
    }

    /// Since when the first complete line waits to be written back.
    #[inline]
    pub fn complete_since(&self) -> Option<Ps> {
        self.first_complete().map(|i| self.held[i].at)
    }

    fn first_complete(&self) -> Option<usize> {
        if self.complete == 0 {
            return None;
        }
        self.held.iter().position(|l| l.mask == self.full)
    }

    /// Removes the first complete line. Returns its number, and that it is complete.
    pub fn take_complete(&mut self) -> Option<(u64, bool)> {
        let i = self.first_complete()?;
        Some(self.take(i))
    }

    /// Removes the line that came first. Returns its number, and whether it is complete.
    pub fn take_first(&mut self) -> Option<(u64, bool)> {
        (!self.held.is_empty()).then(|| self.take(0))
    }

    /// Removes one line of the older half at random, complete or not. Returns its number, and whether it
    /// is complete.
    pub fn make_room(&mut self) -> Option<(u64, bool)> {
        self.draws += 1;
        let i = older(self.seed ^ self.draws, self.held.len())?;
        Some(self.take(i))
    }

    fn take(&mut self, i: usize) -> (u64, bool) {
        let l = self.held.remove(i);
        self.filter.remove(l.line);
        let complete = l.mask == self.full;
        self.complete -= usize::from(complete);
        (l.line, complete)
    }
}

/// The combining buffer in saved form.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedCombine {
    lines: Vec<Line>,
    draws: u64,
}

impl Combine {
    pub fn save(&self) -> SavedCombine {
        SavedCombine {
            lines: self.held.clone(),
            draws: self.draws,
        }
    }

    /// Loads a saved state; the buffer is new, and belongs to a DIMM of that many lines.
    pub fn load(&mut self, s: SavedCombine, lines: u64) -> Result<(), Error> {
        let part = "combining buffer";
        ensure(s.draws <= MOST && s.lines.len() <= self.most, part)?;
        self.draws = s.draws;
        times(s.lines.iter().map(|l| l.at), part)?;
        for l in s.lines {
            let once = l.mask == self.full || self.open(l.line).is_none();
            ensure(once && l.line < lines && l.mask & !self.full == 0, part)?;
            self.write(None, l.line, l.mask, l.at);
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
