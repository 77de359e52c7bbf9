//! The filter in front of address translation and cache: what it holds needs
//! neither. In functional mode an entry covers a page; in timed mode a line
//! that is certainly in L1D and whose page is certainly in the DTLB.

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

/// A direct-mapped filter.
#[derive(Clone, Debug)]
pub struct Filter {
    entries: Box<[FilterEntry; SLOTS]>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            entries: Box::new([EMPTY; SLOTS]),
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
