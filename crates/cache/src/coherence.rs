//! The caches of all harts, and the state through which harts observe one another.

use super::caches::Caches;
use super::contention::Contention;
use super::levels::Levels;
use super::marks::CodeMarks;
use super::tags::{LineState, Tags, NO_SLOT};
use super::Side;
use crate::config::{CacheGeometry, LevelConfig};
use serde::{Deserialize, Serialize};

/// What one hart asks of another's private structures. Applied before the other runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// The data line behind a filter slot is gone.
    DropSlot(u16),
    /// The code line behind a slot of the fetch filter is gone.
    DropFetch(u16),
    /// The data line behind a filter slot may no longer be written without asking.
    DropWrite(u16),
    /// Stores to a page (physical number) have to ask: it holds code or a reservation.
    GuardPage(u64),
    /// Decoded code of a page (physical number) is stale.
    StaleCode(u64),
}

/// Everything that harts share beside memory: caches kept coherent, reservations, code marks.
#[derive(Clone, Debug)]
pub struct Coherence {
    /// L1 data caches, by hart.
    pub l1d: Caches,
    /// L1 instruction caches, by hart.
    pub l1i: Caches,
    /// Reserved line of each hart that was stopped between lr and sc.
    pub reservations: Vec<Option<u64>>,
    /// Lines that harts take from one another.
    pub(crate) contention: Contention,
    /// Outer cache levels.
    pub(crate) levels: Levels,
    notices: Vec<Vec<Notice>>,
    /// Which harts run, where several do at the same time.
    running: Vec<bool>,
    code: CodeMarks,
    ram_base: u64,
}

impl Coherence {
    /// Whether harts take a line from one another at a cycle.
    #[inline(always)]
    pub fn is_contended(&self, line: u64, cycle: u64) -> bool {
        self.contention.is(line, cycle)
    }

    /// A set of a first-level cache, by a line of it, to which a prefetched line is coming, or a buffered store, since
    /// the running hart has begun that: its filters have to give up the lines there.
    #[inline]
    pub fn next_begun(&mut self) -> Option<(Side, u64)> {
        self.levels.begun.pop()
    }

    /// For `harts` harts over `ram_bytes` of memory at `ram_base`.
    pub fn new(
        harts: usize,
        l1d: CacheGeometry,
        l1i: CacheGeometry,
        ram_base: u64,
        ram_bytes: u64,
    ) -> Self {
        Self {
            l1d: Caches::new(vec![Tags::new(l1d); harts]),
            l1i: Caches::new(vec![Tags::new(l1i); harts]),
            reservations: vec![None; harts],
            contention: Contention::default(),
            levels: Levels::new(harts, &[]),
            notices: vec![Vec::new(); harts],
            running: vec![false; harts],
            code: CodeMarks::new((ram_bytes >> 12) as usize),
            ram_base,
        }
    }

    /// Adds outer cache levels, the nearest to the cores first.
    pub fn with_levels(mut self, levels: &[LevelConfig]) -> Self {
        self.levels = Levels::new(self.l1d.len(), levels);
        self
    }

    /// Whether harts have nothing but one level of caches, without MSHRs, prefetchers, buffers of stores or older
    /// states of lines.
    pub fn is_plain(&self) -> bool {
        let stores = self.has_stores() || self.has_hints();
        !self.has_levels() && !self.has_first() && !stores && !self.keeps_versions()
    }

    /// Posts a notice to a hart.
    pub fn post(&mut self, to: usize, n: Notice) {
        self.notices[to].push(n);
    }

    /// Posts a notice to every hart but one.
    pub fn post_others(&mut self, from: usize, n: Notice) {
        for (h, q) in self.notices.iter_mut().enumerate() {
            if h != from {
                q.push(n);
            }
        }
    }

    /// Whether a hart has notices.
    #[inline]
    pub fn has_notices(&self, hart: usize) -> bool {
        !self.notices[hart].is_empty()
    }

    /// Takes a hart's notices.
    pub fn take_notices(&mut self, hart: usize) -> Vec<Notice> {
        std::mem::take(&mut self.notices[hart])
    }

    pub(crate) fn code_marks(&self) -> &CodeMarks {
        &self.code
    }

    /// Whether a line lies in memory.
    pub fn inside(&self, line: u64) -> bool {
        line >= self.ram_base && self.page(line) < self.code.pages()
    }

    /// Notices not taken yet, by hart.
    pub fn notices(&self) -> &[Vec<Notice>] {
        &self.notices
    }

    /// Takes over notices, and lines of code by page (both in range).
    pub(crate) fn set_saved(&mut self, notices: Vec<Vec<Notice>>, code: &[(u64, u64)]) {
        self.notices = notices;
        self.code.clear();
        for (page, lines) in code {
            self.code.mark(*page as usize, *lines);
        }
    }

    /// Pages (physical numbers) that a hart may still store to without asking although it has been
    /// told not to.
    pub fn unguarded(&self) -> Vec<u64> {
        let guards = |n: &Notice| match n {
            Notice::GuardPage(p) => Some(*p),
            _ => None,
        };
        let all = self.notices.iter().zip(&self.running);
        let running = all.filter(|(_, running)| **running);
        running.flat_map(|(n, _)| n).filter_map(guards).collect()
    }

    /// Whether a hart runs, and so may store before it looks at its notices.
    pub fn set_running(&mut self, hart: usize, running: bool) {
        self.running[hart] = running;
    }

    #[inline]
    fn page(&self, paddr: u64) -> usize {
        (paddr.wrapping_sub(self.ram_base) >> 12) as usize
    }

    /// Lines of a page that hold decoded code, as a bit mask.
    #[inline]
    pub fn code_lines(&self, paddr: u64) -> u64 {
        self.code.of(self.page(paddr))
    }

    /// Marks lines of a page as code; true if any of them is new.
    pub fn mark_code(&mut self, paddr: u64, lines: u64) -> bool {
        self.code.mark(self.page(paddr), lines)
    }

    /// Unmarks a page's code and tells every hart; true if it had any.
    pub fn invalidate_code(&mut self, paddr: u64) -> bool {
        let had = self.code.unmark(self.page(paddr));
        if had {
            for q in &mut self.notices {
                q.push(Notice::StaleCode(paddr >> 12));
            }
        }
        had
    }

    /// Invalidates code in a range that a device wrote, and ends reservations on it.
    pub fn device_wrote(&mut self, paddr: u64, len: u64) {
        if len == 0 {
            return;
        }
        let last = paddr.saturating_add(len - 1);
        for page in (paddr >> 12)..=(last >> 12) {
            self.invalidate_code(page << 12);
        }
        for r in &mut self.reservations {
            if r.is_some_and(|l| l <= last && l + 64 > paddr) {
                *r = None;
            }
        }
    }

    /// Ends other harts' reservations on a line that `hart` stores to.
    #[inline]
    pub fn break_reservations(&mut self, hart: usize, line: u64) {
        for (h, r) in self.reservations.iter_mut().enumerate() {
            if h != hart && *r == Some(line) {
                *r = None;
            }
        }
    }

    /// Whether another hart holds a reservation in the same page.
    #[inline]
    pub fn page_reserved(&self, hart: usize, paddr: u64) -> bool {
        self.reservations
            .iter()
            .enumerate()
            .any(|(h, r)| h != hart && r.is_some_and(|l| l >> 12 == paddr >> 12))
    }

    /// A hart took a line from another one.
    pub fn moved(&mut self, line: u64, hart: usize, at: u64) {
        self.contention.moved(line, hart, at);
    }

    /// Takes a line that is contended off the filters of all harts but one, so that every access to it asks.
    pub fn keep_off_filters(&mut self, hart: usize, line: u64) {
        let mut mask = self.l1d.mask(line, Some(hart));
        while let Some((h, i)) = self.l1d.next(line, &mut mask) {
            let slot = self.l1d[h].slot(i);
            if slot != NO_SLOT {
                self.l1d[h].set_slot(i, NO_SLOT);
                self.notices[h].push(Notice::DropSlot(slot));
            }
        }
    }

    /// Every cache is empty, and no line has a history. For changes of mode and resets.
    pub fn clear_caches(&mut self) {
        self.l1d.clear_all();
        self.l1i.clear_all();
        self.levels.clear();
        self.contention.clear();
    }

    /// [`Coherence::holders`], or `None` where it is certain at once that there are none.
    #[inline(always)]
    pub fn some_holders(&self, hart: usize, line: u64) -> Option<(bool, Option<usize>)> {
        if self.l1d.mask(line, Some(hart)) == 0 && !self.has_levels() {
            None
        } else {
            Some(self.holders(hart, line))
        }
    }

    /// Whether any other hart holds a valid copy of the line, be it in a cache of a level behind the
    /// first that this one does not share, and which one has it dirty.
    pub fn holders(&self, hart: usize, line: u64) -> (bool, Option<usize>) {
        let mut any = false;
        let mut mask = self.l1d.mask(line, Some(hart));
        while let Some((h, i)) = self.l1d.next(line, &mut mask) {
            any = true;
            if self.l1d[h].entry(i).1 == LineState::Dirty {
                return (true, Some(h));
            }
        }
        if self.has_levels() {
            let (there, modified) = self.level_holders(hart, line);
            return (any || there, modified);
        }
        (any, None)
    }

    /// Takes a line away from every other hart (`exclusive`) or makes it shared there.
    pub fn probe(&mut self, hart: usize, line: u64, exclusive: bool) {
        self.probe_levels(hart, line, exclusive);
        let mut mask = self.l1d.mask(line, Some(hart));
        while let Some((h, i)) = self.l1d.next(line, &mut mask) {
            self.probe_entry((h, i), line, exclusive);
        }
    }

    fn probe_entry(&mut self, (hart, entry): (usize, usize), line: u64, exclusive: bool) {
        let slot = self.l1d[hart].slot(entry);
        if exclusive {
            self.l1d.take(hart, entry);
            self.l1d[hart].set_slot(entry, NO_SLOT);
            self.left_first(Side::Data, hart, line);
            if slot != NO_SLOT {
                self.notices[hart].push(Notice::DropSlot(slot));
            }
        } else {
            self.l1d[hart].set(entry, line, LineState::Shared);
            if slot != NO_SLOT {
                self.notices[hart].push(Notice::DropWrite(slot));
            }
        }
    }

    /// A device reads or writes a line of memory: L1D caches keep it shared, or lose it. Returns whether one had it
    /// modified, which is to be written back. Outer levels keep what they have, as those of processors that let devices
    /// into their last level; with them nothing is done.
    pub fn probe_for_device(&mut self, line: u64, write: bool) -> bool {
        let mut dirty = false;
        if !self.has_levels() {
            let mut mask = self.l1d.mask(line, None);
            while let Some((h, i)) = self.l1d.next(line, &mut mask) {
                dirty |= self.l1d[h].entry(i).1 == LineState::Dirty;
                self.probe_entry((h, i), line, write);
            }
        }
        dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Replacement;

    #[test]
    fn probe_moves_lines_between_harts() {
        let g = CacheGeometry {
            sets: 64,
            ways: 4,
            line: 64,
            replacement: Replacement::Lfsr,
        };
        let mut c = Coherence::new(2, g, g, 0, 1 << 20);
        let i = c.l1d[0].victim(0x1040);
        c.l1d.put(0, i, 0x1040, LineState::Dirty);
        c.l1d[0].set_slot(i, 7);
        assert_eq!(c.holders(1, 0x1040), (true, Some(0)));
        c.probe(1, 0x1040, false);
        assert_eq!(c.holders(1, 0x1040), (true, None));
        c.probe(1, 0x1040, true);
        assert_eq!(c.holders(1, 0x1040), (false, None));
        assert_eq!(
            c.take_notices(0),
            vec![Notice::DropWrite(7), Notice::DropSlot(7)]
        );
    }
}
