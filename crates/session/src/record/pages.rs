//! Pages of a program in a memory that begins at 0.

use std::collections::HashMap;

const PAGE_BITS: u32 = 12;
/// Places for pages that were looked up last, a power of two.
const RECENT: usize = 1024;

/// Gives each page, when it is first asked for, the next page of the memory.
pub struct Pages {
    numbers: HashMap<u64, u64>,
    /// The last lookups by the low bits of the page: page and number, or no page.
    recent: Vec<(u64, u64)>,
    /// Pages of the memory.
    most: u64,
}

impl Pages {
    /// A memory of a number of bytes.
    pub fn new(bytes: u64) -> Pages {
        Pages {
            numbers: HashMap::new(),
            recent: vec![(u64::MAX, 0); RECENT],
            most: bytes >> PAGE_BITS,
        }
    }

    /// The place of a program's address in the memory; `None` if it is full.
    #[inline]
    pub fn physical(&mut self, addr: u64) -> Option<u64> {
        let page = addr >> PAGE_BITS;
        let slot = page as usize % RECENT;
        let (known, mut number) = self.recent[slot];
        if known != page {
            number = self.look_up(page)?;
            self.recent[slot] = (page, number);
        }
        Some(number << PAGE_BITS | addr & ((1 << PAGE_BITS) - 1))
    }

    fn look_up(&mut self, page: u64) -> Option<u64> {
        let next = self.numbers.len() as u64;
        if let Some(&number) = self.numbers.get(&page) {
            return Some(number);
        }
        if next == self.most {
            return None;
        }
        self.numbers.insert(page, next);
        Some(next)
    }

    /// Bytes of all pages so far.
    pub fn touched(&self) -> u64 {
        (self.numbers.len() as u64) << PAGE_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another_in_the_order_of_first_use() {
        let mut p = Pages::new(3 << 12);
        let far = 0x7fff_0000_0000;
        assert_eq!(p.physical(far + 0x123), Some(0x123));
        // Another page with the same place among the recent ones.
        assert_eq!(p.physical(far + ((RECENT as u64) << 12)), Some(0x1000));
        assert_eq!(p.physical(far + 0xfff), Some(0xfff));
        assert_eq!(p.physical(0), Some(0x2000));
        assert_eq!(p.physical(0x5000), None, "the memory is full");
        assert_eq!(p.physical(0x10), Some(0x2010));
        assert_eq!(p.touched(), 3 << 12);
    }
}
