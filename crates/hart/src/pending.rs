//! What is under way at the end of a block: results and units, and stores that are not written.

use crate::operands::log_bytes;
use nagori_isa::Op;

/// Results still on their way and units still busy: two (register or unit, cycles)
/// pairs in bytes in the lower half, the later ones where there are more; 0 is none. In the upper half the last two
/// stores ([`Unwritten`]).
pub type Pending = u64;

/// Where the stores are in a [`Pending`].
pub const STORES: u32 = 32;

/// Adds a pair; of more than two, those with the most cycles left stay.
pub fn merge_pending(p: Pending, reg: u8, left: u32) -> Pending {
    let new = u64::from(reg) << 8 | u64::from(left.min(255));
    let (low, high, stores) = (p & 0xffff, p >> 16 & 0xffff, p >> STORES << STORES);
    if left == 0 {
        p
    } else if new & 0xff > low & 0xff {
        let second = if low & 0xff < high & 0xff { high } else { low };
        stores | new | second << 16
    } else if new & 0xff > high & 0xff {
        stores | low | new << 16
    } else {
        p
    }
}

/// What is pending some cycles later.
pub fn pending_after(p: Pending, cycles: u64) -> Pending {
    let stores = match p >> STORES {
        0 => 0,
        _ => Unwritten::of(p).after(cycles).pack(),
    };
    pending_pairs(p).fold(stores, |q, (reg, left)| {
        merge_pending(q, reg, (left as u64).saturating_sub(cycles) as u32)
    })
}

/// The two pairs of a [`Pending`].
pub fn pending_pairs(p: Pending) -> impl Iterator<Item = (u8, u32)> {
    [p & 0xffff, p >> 16 & 0xffff]
        .into_iter()
        .filter(|v| *v != 0)
        .map(|v| ((v >> 8) as u8, (v & 0xff) as u32))
}

/// The last store and the last but one behind a run, if they are not written: cycles until the first in which they can
/// be, and the binary logarithm of their bytes. A load in that cycle keeps the data array busy, so that the next one is
/// the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwritten(pub [Option<(u32, u8)>; 2]);

impl Unwritten {
    /// The unwritten stores of a [`Pending`]; each has two bytes there, with a cycle more.
    pub fn of(p: Pending) -> Self {
        Unwritten([0, 16].map(|shift| {
            let bits = (p >> STORES >> shift) as u16;
            let left = u32::from(bits & 0xff).checked_sub(1)?;
            // At most 8 bytes.
            Some((left, (bits >> 8) as u8 & 3))
        }))
    }

    /// As part of a [`Pending`].
    pub fn pack(self) -> Pending {
        let one = |s: Option<(u32, u8)>| {
            s.map_or(0, |(left, log_bytes)| {
                u64::from(log_bytes) << 8 | u64::from((left + 1).min(255))
            })
        };
        (one(self.0[0]) | one(self.0[1]) << 16) << STORES
    }

    /// Some cycles without a load later.
    pub(crate) fn after(self, cycles: u64) -> Self {
        let one = |(left, log_bytes): (u32, u8)| {
            Some((u64::from(left).checked_sub(cycles)? as u32, log_bytes))
        };
        Unwritten(self.0.map(|s| s.and_then(one)))
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == [None; 2]
    }

    /// A load, or another access that reads, comes some cycles behind the run.
    pub(crate) fn load(&mut self, at: u32) {
        for s in &mut self.0 {
            *s = match *s {
                Some((left, _)) if left < at => None,
                // As seen from there, also if it is tried again.
                Some((left, log_bytes)) => Some((left.max(at + 1), log_bytes)),
                None => None,
            };
        }
    }

    /// Bits in which the addresses of a store and of a load of some bytes differ if they do not overlap; 0 if the store
    /// is written when the load comes, some cycles behind the run.
    pub(crate) fn differ(self, store: usize, at: u32, op: Op) -> u64 {
        let s = self.0[store].filter(|s| s.0 >= at);
        s.map_or(0, |s| overlap_bits(s.1.max(log_bytes(op))))
    }
}

/// Bits of an address that are compared with those of stores.
const ALIAS: u64 = 0xfff;

/// The bits in which two addresses differ if accesses do not overlap, of which the larger one has so many bytes (their
/// binary logarithm).
pub(crate) fn overlap_bits(log_bytes: u8) -> u64 {
    ALIAS & (!0 << log_bytes)
}
