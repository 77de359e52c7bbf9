//! The filter before address translation and cache: accesses that hit in it need neither. In
//! functional mode an entry covers a page; in timed mode a line that is certainly in L1D and whose
//! page is certainly in the DTLB.

use crate::config::CacheGeometry;
pub use crate::entry::{FilterEntry, EMPTY, NEVER};
use crate::uses::Uses;
pub use nagori_cache::SLOTS;
use nagori_cache::{Tags, NO_SLOT};
use serde::{Deserialize, Serialize};

/// Pages of the table behind the filter in functional mode.
const PAGES: usize = 1 << 14;
/// Rights in the low bits of a page's key.
const READ: u64 = 1;
const WRITE: u64 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Virtual address with the context's tag in bits 5..3 and the rights below.
    key: u64,
    /// Page of guest memory.
    page: u32,
    /// The table's `generation` when it was entered.
    generation: u32,
}

/// Translations for which the filter has no room (functional mode only): direct-mapped, one entry
/// per page. They contain what page tables and protection permit; code marks and reservations are
/// checked with every use.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    /// Empty until the first one is entered.
    table: Vec<Page>,
    generation: u32,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            table: Vec::new(),
            generation: 1,
        }
    }
}

impl Pages {
    #[inline(always)]
    fn place(va: u64) -> usize {
        (va >> 12) as usize & (PAGES - 1)
    }

    /// Offset in guest memory of an address, if the access is permitted.
    #[inline(always)]
    pub fn get(&self, va: u64, context: u64, write: bool) -> Option<u64> {
        let e = self.table.get(Self::place(va))?;
        let right = if write { WRITE } else { READ };
        let same = e.key & !(READ | WRITE) == (va & !0xfff | context);
        let valid = same && e.key & right != 0 && e.generation == self.generation;
        valid.then_some((e.page as u64) << 12 | va & 0xfff)
    }

    /// Enters a page: an access to `va` is permitted and leads to `offset`.
    pub fn set(&mut self, va: u64, context: u64, write: bool, offset: u64) {
        let Ok(page) = u32::try_from(offset >> 12) else {
            return;
        };
        if self.table.is_empty() {
            self.table = vec![Page::default(); PAGES];
        }
        let e = &mut self.table[Self::place(va)];
        let block = va & !0xfff | context;
        let same = e.key & !(READ | WRITE) == block && e.generation == self.generation;
        // A right says nothing about the other one.
        let kept = if same && e.page == page {
            e.key & (READ | WRITE)
        } else {
            0
        };
        *e = Page {
            key: block | kept | if write { WRITE } else { READ },
            page,
            generation: self.generation,
        };
    }

    /// Valid entries, with their indices.
    pub fn save(&self) -> Vec<(u16, u64, u32)> {
        let all = self.table.iter().enumerate();
        all.filter(|(_, e)| e.generation == self.generation)
            .map(|(i, e)| (i as u16, e.key, e.page))
            .collect()
    }

    /// Loads saved entries for a memory of that many pages; false if they are invalid.
    pub fn load(&mut self, saved: &[(u16, u64, u32)], pages: u64) -> bool {
        *self = Self::default();
        if !saved.is_empty() {
            self.table = vec![Page::default(); PAGES];
        }
        for &(i, key, page) in saved {
            if Self::place(key) != i as usize || u64::from(page) >= pages {
                return false;
            }
            self.table[i as usize] = Page {
                key,
                page,
                generation: self.generation,
            };
        }
        true
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.table.fill(Page::default());
            self.generation = 1;
        }
    }
}

/// A direct-mapped filter. Its entries stand in the hart itself, where translated code
/// reaches them at a fixed distance.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Filter {
    entries: [FilterEntry; SLOTS],
    /// For each TLB entry the slots that were filled by it, a bit each; some may have
    /// been emptied or filled by another one since.
    ways: [[u64; SLOTS / 64]; WAYS],
    /// If the cache's policy depends on hits: the hits that it has not been told of.
    uses: Option<Box<Uses>>,
}

/// A filter as data: entries that match something, with their slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedFilter {
    entries: Vec<(u16, FilterEntry)>,
    ways: Vec<[u64; SLOTS / 64]>,
}

/// TLB entries, rounded up.
const WAYS: usize = 16;

impl Filter {
    /// An empty filter in front of such a cache.
    pub(crate) fn new(cache: CacheGeometry) -> Self {
        Self {
            entries: [EMPTY; SLOTS],
            ways: [[0; SLOTS / 64]; WAYS],
            uses: cache
                .replacement
                .notes_hits()
                .then(|| Box::new(Uses::new(cache))),
        }
    }

    /// The filter as data.
    pub(crate) fn save(&self) -> SavedFilter {
        let all = self.entries.iter().enumerate();
        SavedFilter {
            entries: all
                .filter(|(_, e)| e.key() != NEVER)
                .map(|(i, e)| (i as u16, *e))
                .collect(),
            ways: self.ways.to_vec(),
        }
    }

    /// Loads a saved filter of a hart at a cycle; false if it is invalid, or `sound` rejects an
    /// entry.
    pub(crate) fn load(
        &mut self,
        saved: &SavedFilter,
        (timed, cycle): (bool, u64),
        sound: impl Fn(usize, &FilterEntry) -> bool,
    ) -> bool {
        self.restart(cycle);
        let Ok(ways) = saved.ways.as_slice().try_into() else {
            return false;
        };
        self.ways = ways;
        for (slot, e) in &saved.entries {
            let slot = *slot as usize;
            if slot >= SLOTS || !sound(slot, e) {
                return false;
            }
            self.entries[slot] = *e;
        }
        if let Some(u) = self.uses.as_mut().filter(|_| timed) {
            for (slot, e) in &saved.entries {
                u.adopt(*slot, e.l1);
            }
            u.restart(&mut self.entries, cycle);
        }
        true
    }

    /// Entry of a slot.
    #[inline(always)]
    pub fn at(&self, slot: usize) -> &FilterEntry {
        &self.entries[slot & (SLOTS - 1)]
    }

    /// Entry of a slot, to change it.
    #[inline(always)]
    pub fn at_mut(&mut self, slot: usize) -> &mut FilterEntry {
        &mut self.entries[slot & (SLOTS - 1)]
    }

    /// Makes a slot cover a line of the cache, which was used at a cycle: the line's former slot is
    /// emptied, and the slot's former line no longer has one. At most one slot covers a line, and
    /// the line's entry has its number.
    #[inline(always)]
    pub(crate) fn claim(&mut self, slot: usize, cache: &mut Tags, index: usize, cycle: u64) {
        if let Some(u) = &mut self.uses {
            u.claim(&mut self.entries, slot, cache, index, cycle);
        }
        let former = cache.slot(index);
        if former != NO_SLOT && former as usize != slot {
            self.drop_slot(cache, former as usize);
        }
        let old = *self.at(slot);
        let held = old.key() != NEVER;
        if held && old.l1 as usize != index {
            cache.set_slot(old.l1 as usize, NO_SLOT);
        }
        cache.set_slot(index, slot as u16);
    }

    /// Empties a slot. Hits in the line's set are passed to the policy before.
    #[inline(always)]
    pub(crate) fn drop_slot(&mut self, cache: &mut Tags, slot: usize) {
        if let Some(u) = &mut self.uses {
            u.drop_slot(&self.entries, cache, slot & (SLOTS - 1));
        }
        *self.at_mut(slot) = EMPTY;
    }

    /// Empties the slot that covers a line of the cache, if there is one.
    #[inline(always)]
    pub(crate) fn release(&mut self, cache: &mut Tags, index: usize) {
        let slot = cache.slot(index);
        if slot != NO_SLOT {
            cache.set_slot(index, NO_SLOT);
            self.drop_slot(cache, slot as usize);
        }
    }

    /// Passes all hits in the set of a line to the cache's policy; to be called before the cache is
    /// used there.
    #[inline(always)]
    pub(crate) fn settle(&mut self, cache: &mut Tags, line: u64) {
        if let Some(u) = &mut self.uses {
            u.settle(&self.entries, cache, cache.set_start(line));
        }
    }

    /// An access that may take no time has passed: its hit is passed to the cache's policy at once.
    #[inline(always)]
    pub(crate) fn hit(&mut self, cache: &mut Tags, index: usize) {
        if let Some(u) = &mut self.uses {
            u.settle(&self.entries, cache, index - index % cache.ways());
            cache.touch(index);
        }
    }

    /// Whether hits are passed to the cache's policy.
    pub(crate) fn notes_uses(&self) -> bool {
        self.uses.is_some()
    }

    /// Passes all hits before a cycle to the cache's policy; times of hits are counted from that
    /// cycle on.
    pub(crate) fn settle_all(&mut self, cache: &mut Tags, cycle: u64) {
        if let Some(u) = &mut self.uses {
            u.lose(&self.entries);
            u.learn(cache);
            u.restart(&mut self.entries, cycle);
        }
    }

    /// Passes all hits to a copy of the cache.
    pub(crate) fn settle_copy(&self, copy: &mut Tags) {
        if let Some(u) = &self.uses {
            u.settle_copy(&self.entries, copy);
        }
    }

    /// Empties every slot, for a cache that is emptied, too; the hart is at a cycle.
    pub(crate) fn restart(&mut self, cycle: u64) {
        if let Some(u) = &mut self.uses {
            u.forget();
            u.restart(&mut self.entries, cycle);
        }
        self.clear();
    }

    /// Records that a slot relies on a TLB entry.
    #[inline(always)]
    pub(crate) fn rely(&mut self, slot: usize, way: u8) {
        if let Some(w) = self.ways.get_mut(way as usize) {
            w[(slot / 64) % (SLOTS / 64)] |= 1 << (slot & 63);
        }
    }

    /// Empties the slots that [rely](Self::rely) on a TLB entry.
    pub(crate) fn drop_way(&mut self, cache: &mut Tags, way: u8) {
        for k in 0..SLOTS / 64 {
            let mut slots = std::mem::take(&mut self.ways[way as usize % WAYS][k]);
            while slots != 0 {
                let slot = k * 64 + slots.trailing_zeros() as usize;
                slots &= slots - 1;
                let e = self.at(slot);
                let (held, l1) = (e.key() != NEVER, e.l1 as usize);
                if held && e.way == way {
                    self.drop_slot(cache, slot);
                    cache.set_slot(l1, NO_SLOT);
                }
            }
        }
    }

    /// Empties every slot.
    pub fn clear(&mut self) {
        if let Some(u) = &mut self.uses {
            u.lose(&self.entries);
            u.release_all();
        }
        self.entries.fill(EMPTY);
        self.ways = [[0; SLOTS / 64]; WAYS];
    }

    /// Takes the right to write from every entry of a page (offset in memory, divided by
    /// 4096). Whether any had it.
    pub fn guard_page(&mut self, ram_page: u64, block_mask: u64) -> bool {
        let mut any = false;
        for e in self.entries.iter_mut() {
            if e.write != NEVER && (e.write & block_mask).wrapping_add(e.delta) >> 12 == ram_page {
                e.write = NEVER;
                any = true;
            }
        }
        any
    }

    /// Takes the right to write from every entry.
    pub(crate) fn guard_all(&mut self) {
        self.entries.iter_mut().for_each(|e| e.write = NEVER);
    }

    /// Offsets in memory of the blocks that may be written.
    pub(crate) fn writable(&self, block_mask: u64) -> impl Iterator<Item = u64> + '_ {
        let all = self.entries.iter().filter(|e| e.write != NEVER);
        all.map(move |e| (e.write & block_mask).wrapping_add(e.delta))
    }

    /// All entries (for checks).
    pub fn iter(&self) -> impl Iterator<Item = &FilterEntry> {
        self.entries.iter()
    }
}

/// Number of address bits within a block of the data filter, if its blocks are lines.
const LINE_SHIFT: u32 = 6;
/// Number of address bits within a block of the data filter, if its blocks are pages.
const PAGE_SHIFT: u32 = 12;

/// Number of address bits within a block of the data filter, by [`Mode::LINES`].
#[inline(always)]
pub const fn block_shift(lines: bool) -> u32 {
    if lines {
        LINE_SHIFT
    } else {
        PAGE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_rights_apart_and_forget_at_once() {
        let mut p = Pages::default();
        assert_eq!(p.get(0, 0, false), None);
        p.set(0x7123, 8, false, 0x5123);
        assert_eq!(p.get(0x7fff, 8, false), Some(0x5fff));
        assert_eq!(p.get(0x7fff, 8, true), None);
        assert_eq!(p.get(0x7fff, 16, false), None);
        p.set(0x7000, 8, true, 0x5000);
        assert_eq!(p.get(0x7008, 8, true), Some(0x5008));
        assert_eq!(p.get(0x7008, 8, false), Some(0x5008));
        p.set(0x7000, 8, true, 0x6000);
        assert_eq!(p.get(0x7008, 8, false), None, "another page now");
        p.clear();
        assert_eq!(p.get(0x7008, 8, true), None);
        p.generation = u32::MAX;
        p.set(0x7000, 8, true, 0x6000);
        p.clear();
        p.generation = u32::MAX;
        assert_eq!(p.get(0x7008, 8, true), None, "of an earlier count");
    }
}
