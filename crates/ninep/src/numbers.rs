//! File numbers. The guest never sees the host's inode numbers: a file gets the next number when
//! the guest first sees it, so that two copies of a folder look the same to it, and its kernel's
//! tables are filled in the same way.

use crate::folder::Identity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bit of the numbers that are computed from device and inode instead of being counted.
const COMPUTED: u64 = 1 << 63;

/// The numbers that have been assigned.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    given: BTreeMap<Identity, u64>,
    next: u64,
    most: usize,
}

/// [`Numbers`] as saved: device, inode and number of each file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedNumbers {
    given: Vec<(u64, u64, u64)>,
    next: u64,
}

impl Numbers {
    /// At most `most` files are remembered.
    pub fn new(most: usize) -> Numbers {
        Numbers {
            given: BTreeMap::new(),
            next: 1,
            most,
        }
    }

    /// The number of a file. Once the table is full, further files get one that depends on the host.
    pub fn of(&mut self, file: Identity) -> u64 {
        if let Some(&number) = self.given.get(&file) {
            return number;
        }
        if self.given.len() >= self.most {
            // Inode numbers use the low bits, device numbers few of their bits.
            return COMPUTED | (file.1 ^ file.0.rotate_left(40)) & !COMPUTED;
        }
        let number = self.next;
        self.next += 1;
        self.given.insert(file, number);
        number
    }

    /// A file whose number was assigned before.
    pub fn keep(&mut self, file: Identity, number: u64) {
        if self.given.len() < self.most && number & COMPUTED == 0 {
            self.given.insert(file, number);
            self.next = self.next.max(number + 1);
        }
    }

    /// The file is gone; its inode may be used for another one.
    pub fn forget(&mut self, file: Identity) {
        self.given.remove(&file);
    }

    pub fn save(&self) -> SavedNumbers {
        SavedNumbers {
            given: self.given.iter().map(|(f, &n)| (f.0, f.1, n)).collect(),
            next: self.next,
        }
    }

    /// Loads saved numbers; false if they are inconsistent.
    pub fn load(&mut self, saved: &SavedNumbers) -> bool {
        let sound = saved.given.len() <= self.most
            && (1..COMPUTED).contains(&saved.next)
            && saved.given.iter().all(|&(.., n)| n < saved.next);
        if sound {
            self.given = saved.given.iter().map(|&(d, i, n)| ((d, i), n)).collect();
            self.next = saved.next;
        }
        sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_in_the_order_of_first_sight() {
        let mut numbers = Numbers::new(3);
        assert_eq!(numbers.of((7, 900)), 1);
        assert_eq!(numbers.of((7, 100)), 2);
        assert_eq!(numbers.of((7, 900)), 1);
        numbers.forget((7, 900));
        assert_eq!(numbers.of((7, 900)), 3, "a number is not used twice");
        assert_eq!(numbers.of((8, 900)), 4);
        // The table is full.
        let far = numbers.of((8, 901));
        assert!(far & COMPUTED != 0 && far == numbers.of((8, 901)));
        assert_ne!(far, numbers.of((9, 901)));

        let mut other = Numbers::new(3);
        assert!(other.load(&numbers.save()));
        assert_eq!(other.save(), numbers.save());
        assert!(!Numbers::new(2).load(&numbers.save()), "too many");
        let mut bad = numbers.save();
        bad.next = 2;
        assert!(!other.load(&bad), "numbers that are still to be given");
    }
}
