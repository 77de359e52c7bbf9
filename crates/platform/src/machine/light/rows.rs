//! Which rows are open in the banks of a memory, as far as a hart knows: those that it has opened itself, and those that
//! other harts had left open when their epochs ended.
//!
//! Within an epoch a hart's clock lacks what the epoch will add, so rows have their time only when it has ended. What
//! another hart has left is known at a cycle up to which no hart is behind: exactly where harts wait for one another,
//! and otherwise a window of the scheduler later.

use serde::{Deserialize, Serialize};

/// Most banks of which a hart remembers the row.
pub(super) const BANKS: usize = 16;
/// Rows of a bank that a hart is known to have left open: as many as it may leave in the cycles by which harts are
/// apart. An epoch that opens a row takes eight at least.
const KEPT: usize = 32;

/// The row that was opened last in a bank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenRow {
    /// Its number plus one, or zero.
    pub row: u64,
    /// Core cycle at which the transfer ended that has opened it.
    pub opened: u64,
    /// What was written to it and was not charged with what the next row waits for that.
    pub written: Option<Written>,
}

/// A line was written to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Core cycle at which that ended.
    pub at: u64,
    /// The row was open before; otherwise it was opened for this.
    pub was_open: bool,
}

impl OpenRow {
    /// The cycle at which something last happened that matters for the next row.
    fn changed(&self) -> u64 {
        self.written.map_or(self.opened, |w| w.at.max(self.opened))
    }
}

/// The banks as one hart knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Banks {
    open: [OpenRow; BANKS],
    /// Banks in which this hart has opened a row, or written to one, in its present epoch, a bit each; and those in which
    /// it has opened the row that is open.
    changed: u16,
    opened: u16,
    /// By bank, the rows that this hart has left open, the newest first; empty on machines with one hart.
    left: Vec<[OpenRow; KEPT]>,
    /// Up to this cycle all that other harts have left is known.
    known: u64,
}

impl Banks {
    /// Of a machine with so many harts.
    pub fn new(harts: usize) -> Banks {
        let shared = if harts > 1 { BANKS } else { 0 };
        Banks {
            open: Default::default(),
            changed: 0,
            opened: 0,
            left: vec![[OpenRow::default(); KEPT]; shared],
            known: 0,
        }
    }

    /// Whether this is a possible state where `other` is one.
    pub fn fits(&self, other: &Banks) -> bool {
        self.left.len() == other.left.len()
    }

    /// The row of a bank.
    #[inline]
    pub fn at(&self, bank: usize) -> OpenRow {
        self.open[bank % BANKS]
    }

    /// This hart uses a row, and has opened it with a transfer that ended at a cycle (`opened`).
    #[inline]
    pub fn used(&mut self, bank: usize, row: u64, opened: Option<u64>) {
        let bank = bank % BANKS;
        let open = &mut self.open[bank];
        open.row = row + 1;
        if let Some(opened) = opened {
            (open.opened, open.written) = (opened, None);
            self.changed |= 1 << bank;
            self.opened |= 1 << bank;
        }
    }

    /// This hart has written to the row that is open.
    pub fn wrote(&mut self, bank: usize, written: Written) {
        self.open[bank % BANKS].written = Some(written);
        self.changed |= 1 << (bank % BANKS);
    }

    /// The hart's epoch ends, and its time moves on: so much later were the rows opened that it has opened in this epoch,
    /// and others learn of them.
    pub fn epoch_ends(&mut self, delay: u64) {
        let mut changed = std::mem::take(&mut self.changed);
        while changed != 0 {
            let bank = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let open = &mut self.open[bank];
            // What was opened before by another hart has its time.
            if self.opened >> bank & 1 != 0 {
                open.opened += delay;
            }
            if let Some(w) = &mut open.written {
                w.at += delay;
            }
            if let Some(left) = self.left.get_mut(bank) {
                left.copy_within(..KEPT - 1, 1);
                left[0] = self.open[bank];
            }
        }
        self.opened = 0;
    }

    /// Nothing is open that the epoch has counted.
    pub fn forget(&mut self) {
        (self.changed, self.opened) = (0, 0);
    }

    /// All that others have left by a cycle is known from now on.
    pub fn knows(&mut self, cycle: u64) {
        self.known = self.known.max(cycle);
    }

    /// The cycle up to which all is known of others, if it is also known up to `cycle`.
    #[inline]
    pub fn known(&self, cycle: u64) -> u64 {
        self.known.max(cycle)
    }

    /// What this hart has left open last in a bank up to a cycle.
    #[inline]
    pub fn left(&self, bank: usize, until: u64) -> Option<OpenRow> {
        let left = self.left.get(bank % BANKS)?;
        left.iter().find(|r| r.changed() <= until).copied()
    }

    /// What another hart has left open; it counts if it is newer than what is known.
    #[inline]
    pub fn learn(&mut self, bank: usize, row: OpenRow) {
        let bank = bank % BANKS;
        let open = &mut self.open[bank];
        if row.row != 0 && row.changed() > open.changed() {
            *open = row;
            self.changed &= !(1 << bank);
            self.opened &= !(1 << bank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_learn_of_a_row_when_its_epoch_has_ended() {
        let mut a = Banks::new(2);
        a.used(3, 7, Some(100));
        assert_eq!(a.left(3, 1000), Some(OpenRow::default()));
        a.epoch_ends(50);
        let row = OpenRow {
            row: 8,
            opened: 150,
            written: None,
        };
        assert_eq!((a.at(3), a.left(3, 150)), (row, Some(row)));
        assert_eq!(a.left(3, 149), Some(OpenRow::default()), "not before");
        // An epoch that has opened nothing tells nothing.
        a.epoch_ends(50);
        assert_eq!(a.at(3), row);
        a.used(3, 9, Some(300));
        a.epoch_ends(0);
        assert_eq!(a.left(3, 299), Some(row), "what was left before is known");
        assert_eq!(a.left(3, 300).map(|r| r.row), Some(10));
    }

    #[test]
    fn only_a_newer_row_of_another_hart_counts() {
        let mut b = Banks::new(2);
        let row = |opened| OpenRow {
            row: 5,
            opened,
            written: None,
        };
        b.used(0, 1, Some(100));
        b.learn(0, row(99));
        assert_eq!(b.at(0).row, 2);
        b.learn(0, row(101));
        assert_eq!(b.at(0), row(101));
        b.epoch_ends(10);
        assert_eq!(b.at(0), row(101), "another hart's row, at its own time");
        b.learn(1, OpenRow::default());
        assert_eq!(b.at(1), OpenRow::default());
    }

    #[test]
    fn what_is_written_to_a_row_is_newer_than_the_row() {
        let (mut a, mut b) = (Banks::new(2), Banks::new(2));
        b.used(0, 1, Some(100));
        b.epoch_ends(0);
        b.wrote(
            0,
            Written {
                at: 130,
                was_open: true,
            },
        );
        b.epoch_ends(20);
        a.used(0, 2, Some(120));
        let left = b.left(0, 149).unwrap();
        a.learn(0, left);
        assert_eq!(a.at(0).row, 3, "what it has written was later");
        a.learn(0, b.left(0, 150).unwrap());
        let written = Some(Written {
            at: 150,
            was_open: true,
        });
        let all = OpenRow {
            row: 2,
            opened: 100,
            written,
        };
        assert_eq!(a.at(0), all);
        a.used(0, 5, Some(200));
        assert_eq!(a.at(0).written, None, "another row is open now");
    }

    #[test]
    fn one_hart_tells_nobody() {
        let mut b = Banks::new(1);
        b.used(0, 1, Some(100));
        b.epoch_ends(0);
        assert_eq!(b.left(0, u64::MAX), None);
    }
}
