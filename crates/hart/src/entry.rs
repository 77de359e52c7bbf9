//! An entry of a filter.

use crate::context::TAG;
use serde::{Deserialize, Serialize};

/// A tag that no access has.
pub const NEVER: u64 = u64::MAX;

/// One entry. A key is the block's address with the context's tag in bits 5..3 (see `context`);
/// a misaligned access has other low bits and so never matches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
    /// Low bits of the core cycle of the last access that has passed (timed mode): see `uses`.
    #[serde(skip)]
    pub used: u32,
}

impl FilterEntry {
    /// The key under which accesses may pass; [`NEVER`] if it is empty.
    #[inline(always)]
    pub(crate) fn key(&self) -> u64 {
        if self.read != NEVER {
            self.read
        } else {
            self.write
        }
    }

    /// Virtual address of the block of 2^`shift` bytes that it covers; `None` if it is empty, or
    /// not an entry for such blocks.
    pub(crate) fn block(&self, shift: u32) -> Option<u64> {
        let key = self.key();
        let other = self.write == NEVER || self.write == key;
        // Bits of a key below the block and beside the context are those of no aligned access.
        let stray = key & ((1 << shift) - 1) & !TAG;
        (key != NEVER && other && stray == 0).then_some(key & !((1 << shift) - 1))
    }
}

/// An entry that matches nothing.
pub const EMPTY: FilterEntry = FilterEntry {
    read: NEVER,
    write: NEVER,
    delta: 0,
    l1: 0,
    way: 0xff,
    used: 0,
};
