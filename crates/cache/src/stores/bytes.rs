//! Some bytes of a line.

use serde::{Deserialize, Serialize};

/// Bytes of a line that have been stored, and nothing of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bytes {
    /// A bit for each byte.
    mask: u64,
    /// Little-endian; 0 where there is nothing.
    words: [u64; 8],
}

/// The bits of an aligned access of 1, 2, 4 or 8 bytes at an address in the mask of its line.
fn bits(addr: u64, size: u8) -> u64 {
    (0xff >> (8 - size)) << (addr & 63)
}

fn ones(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size))
}

impl Bytes {
    /// Stores to an aligned address in the line.
    pub fn set(&mut self, addr: u64, size: u8, value: u64) {
        let (word, shift) = ((addr as usize & 63) / 8, 8 * (addr & 7));
        let ones = ones(size) << shift;
        self.words[word] = self.words[word] & !ones | value << shift & ones;
        self.mask |= bits(addr, size);
    }

    /// The value of an aligned load, if all of it is here.
    pub fn get(&self, addr: u64, size: u8) -> Option<u64> {
        let bits = bits(addr, size);
        let value = self.words[(addr as usize & 63) / 8] >> (8 * (addr & 7)) & ones(size);
        (self.mask & bits == bits).then_some(value)
    }

    /// Whether some byte of an aligned access is here.
    pub fn overlaps(&self, addr: u64, size: u8) -> bool {
        self.mask & bits(addr, size) != 0
    }

    /// Whether the whole line is here.
    pub fn is_full(&self) -> bool {
        self.mask == u64::MAX
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.mask == 0
    }

    /// Forgets the bytes of a range of physical addresses, in a line.
    pub fn forget(&mut self, line: u64, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        for k in 0..64 {
            if (addr..end).contains(&(line + k)) {
                self.mask &= !(1 << k);
                self.words[k as usize / 8] &= !(0xff << (8 * (k & 7)));
            }
        }
    }

    /// The aligned pieces of 1 to 8 bytes: offset in the line, size, value.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u8, u64)> + '_ {
        (0..8).flat_map(move |w| {
            let whole = self.mask >> (8 * w) & 0xff == 0xff;
            let (n, size) = if whole { (1, 8u8) } else { (8, 1) };
            (0..n).filter_map(move |k| {
                let at = 8 * w as u64 + k;
                self.get(at, size).map(|v| (at, size, v))
            })
        })
    }

    /// Whether bytes that are not here are zero, as they are always.
    pub fn is_sound(&self) -> bool {
        (0..64).all(|k| self.mask >> k & 1 != 0 || self.words[k / 8] >> (8 * (k & 7)) & 0xff == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_apart() {
        let mut b = Bytes::default();
        assert!(b.is_empty() && b.get(0, 8).is_none());
        b.set(0x1044, 4, 0xffff_ffff_8765_4321);
        assert_eq!(b.get(4, 4), Some(0x8765_4321));
        assert_eq!((b.get(6, 2), b.get(7, 1)), (Some(0x8765), Some(0x87)));
        assert_eq!((b.get(0, 8), b.get(2, 2)), (None, None));
        assert!(b.overlaps(0, 8) && !b.overlaps(0, 4) && !b.overlaps(8, 8));
        b.set(5, 1, 0xaa);
        assert_eq!(b.get(4, 4), Some(0x8765_aa21));
        b.set(63, 1, 0x12);
        let all: Vec<_> = b.pieces().collect();
        assert_eq!(
            all,
            [
                (4, 1, 0x21),
                (5, 1, 0xaa),
                (6, 1, 0x65),
                (7, 1, 0x87),
                (63, 1, 0x12)
            ]
        );
        for k in 0..8 {
            assert!(!b.is_full());
            b.set(8 * k, 8, k);
        }
        assert!(b.is_full() && b.pieces().eq((0..8).map(|k| (8 * k, 8, k))));
        b.forget(0x40, 0x7f, 9);
        assert_eq!((b.get(56, 8), b.get(56, 4)), (None, Some(7)));
        assert!(b.is_sound());
        b.mask = 0;
        assert!(!b.is_sound());
    }
}
