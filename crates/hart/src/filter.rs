//! The filter in front of address translation and cache: what it holds needs
//! neither. In functional mode an entry covers a page; in timed mode a line
//! that is certainly in L1D and whose page is certainly in the DTLB.

use crate::cache::{L1, NO_SLOT};

/// Entries of a data filter.
pub const SLOTS: usize = 512;
/// A tag that no access has.
pub const NEVER: u64 = u64::MAX;

/// One entry. A key is the block's address with the data context in bits 5..3;
/// a misaligned access has other low bits and so never matches.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FilterEntry {
    /// Key under which loads may pass.
    pub read: u64,
    /// Key under which stores may pass.
    pub write: u64,
    /// Added to the virtual address gives the offset in guest memory.
    pub delta: u64,
    /// Index of the line in L1D (timed mode).
    pub l1: u16,
    /// DTLB entry of the page (timed mode).
    pub way: u8,
}

/// An entry that matches nothing.
pub const EMPTY: FilterEntry = FilterEntry {
    read: NEVER,
    write: NEVER,
    delta: 0,
    l1: 0,
    way: 0xff,
};

/// A direct-mapped filter. Its entries stand in the hart itself, where translated code
/// reaches them at a fixed distance.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Filter {
    entries: [FilterEntry; SLOTS],
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            entries: [EMPTY; SLOTS],
        }
    }
}

impl Filter {
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

    /// Ties a slot to a line of the cache: the line's former slot is emptied, and the
    /// slot's former line forgets it. At most one slot covers a line, and the line knows it.
    pub(crate) fn claim(&mut self, slot: usize, cache: &mut L1, index: usize) {
        let former = cache.slot(index);
        if former != NO_SLOT && former as usize != slot {
            *self.at_mut(former as usize) = EMPTY;
        }
        let old = *self.at(slot);
        if (old.read != NEVER || old.write != NEVER) && old.l1 as usize != index {
            cache.set_slot(old.l1 as usize, NO_SLOT);
        }
        cache.set_slot(index, slot as u16);
    }

    /// Empties the slot that covers a line of the cache, if there is one.
    pub(crate) fn release(&mut self, cache: &mut L1, index: usize) {
        let slot = cache.slot(index);
        if slot != NO_SLOT {
            cache.set_slot(index, NO_SLOT);
            *self.at_mut(slot as usize) = EMPTY;
        }
    }

    /// Empties every slot.
    pub fn clear(&mut self) {
        self.entries.fill(EMPTY);
    }

    /// Takes the right to write from every entry of a page (offset in memory, divided by 4096).
    pub fn guard_page(&mut self, ram_page: u64, block_mask: u64) {
        for e in self.entries.iter_mut() {
            if e.write != NEVER && (e.write & block_mask).wrapping_add(e.delta) >> 12 == ram_page {
                e.write = NEVER;
            }
        }
    }

    /// All entries (for checks).
    pub fn iter(&self) -> impl Iterator<Item = &FilterEntry> {
        self.entries.iter()
    }
}
