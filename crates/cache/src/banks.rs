//! Banks of a cache, each of which is busy with one access at a time.

use serde::{Deserialize, Serialize};

/// The cycle until which each bank is busy; empty if banks are not modelled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Banks(Vec<u64>);

impl Banks {
    /// `count` is a power of two.
    pub fn new(count: u32, cycles: u32) -> Self {
        Banks(vec![0; if cycles == 0 { 0 } else { count as usize }])
    }

    /// An access to a line at a cycle, which keeps its bank busy for `cycles`. Returns for how many
    /// cycles it has to wait.
    #[inline]
    pub fn access(&mut self, line: u64, now: u64, cycles: u32) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let bank = (line >> 6) as usize & (self.0.len() - 1);
        let begins = self.0[bank].max(now);
        self.0[bank] = begins + u64::from(cycles);
        begins - now
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether this is a possible state of banks like `other`, with times below `far`.
    pub fn fits(&self, other: &Banks, far: u64) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|t| *t < far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_to_one_bank_wait_for_one_another() {
        let mut b = Banks::new(2, 4);
        assert_eq!(b.access(0x1000, 100, 4), 0);
        assert_eq!(b.access(0x1040, 101, 4), 0, "the other bank");
        assert_eq!(b.access(0x1080, 101, 4), 3);
        assert_eq!(b.access(0x1000, 102, 4), 6, "behind both");
        assert_eq!(b.access(0x1000, 112, 4), 0);
        assert_eq!(Banks::new(8, 0).access(0x1000, 0, 0), 0);
    }
}
