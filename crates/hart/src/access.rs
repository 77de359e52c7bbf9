//! Accesses to memory: what is wanted, where it is, and the bytes there.

use crate::pmp::Access;
use crate::world::World;

/// A data access that has missed the filter.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub(crate) va: u64,
    pub(crate) size: u8,
    pub(crate) access: Access,
}

/// A physical place that an access resolved to.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Offset in guest memory.
    Ram(u64),
    /// Physical address of a device register.
    Device(u64),
}

#[inline(always)]
pub(crate) fn read_ram<W: World>(w: &W, offset: u64, size: u8) -> u64 {
    let m = w.ram();
    match size {
        1 => m.read_u8(offset).map(u64::from),
        2 => m.read_u16(offset).map(u64::from),
        4 => m.read_u32(offset).map(u64::from),
        _ => m.read_u64(offset),
    }
    .unwrap_or(0)
}

#[inline]
pub(crate) fn write_ram<W: World>(w: &W, offset: u64, size: u8, value: u64) {
    let m = w.ram();
    // In range by construction: the offset was checked and the access is aligned.
    let _ = match size {
        1 => m.write_u8(offset, value as u8),
        2 => m.write_u16(offset, value as u16),
        4 => m.write_u32(offset, value as u32),
        _ => m.write_u64(offset, value),
    };
}
