//! Pseudo-LRU replacement.

use serde::{Deserialize, Serialize};

/// Tree pseudo-LRU over at most 64 ways. Where they are no power of two, the lower half of a node is the largest power
/// of two below, as in Rocket's `PseudoLRU`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plru {
    pub(crate) bits: u64,
    pub(crate) ways: u32,
}

impl Plru {
    /// For `ways` ways.
    pub fn new(ways: u32) -> Self {
        Self { bits: 0, ways }
    }

    /// Notes a use of a way.
    #[inline]
    pub fn touch(&mut self, way: u32) {
        let mut node = 1u32;
        let mut half = self.ways.next_power_of_two() >> 1;
        while half > 0 {
            if (way & !(2 * half - 1)) + half >= self.ways {
                // There is no upper half.
                node <<= 1;
                half >>= 1;
                continue;
            }
            let right = way & half != 0;
            // A node points away from the side last used.
            if right {
                self.bits &= !(1 << node);
            } else {
                self.bits |= 1 << node;
            }
            node = node << 1 | right as u32;
            half >>= 1;
        }
    }

    /// The bits after a use of a way; the same function of the bits for each way: some are
    /// set, some cleared, the others stay.
    pub fn after_touch(ways: u32, bits: u64, way: u32) -> u64 {
        let mut p = Self { bits, ways };
        p.touch(way);
        p.bits
    }

    /// The way to replace by the bits.
    pub fn victim_of(ways: u32, bits: u64) -> u32 {
        Self { bits, ways }.victim()
    }

    /// The way to replace.
    pub fn victim(&self) -> u32 {
        let mut node = 1u32;
        let mut way = 0;
        let mut half = self.ways.next_power_of_two() >> 1;
        while half > 0 {
            let right = way + half < self.ways && self.bits >> node & 1 != 0;
            if right {
                way |= half;
            }
            node = node << 1 | right as u32;
            half >>= 1;
        }
        way
    }
}
