//! What is still to be waited.

use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};

use crate::{Amount, Delay};

/// The account of one thread or hart: delays come in, waiting and overhead go out.
///
/// At every moment the sum of all delays is the sum of what was waited, of the overhead, and of the balance; so no
/// part of a picosecond gets lost, and overhead that exceeds the delay of its epoch is taken off later ones.
/// The balance is negative after such an epoch, and where the emulated memory is faster than the host's: a
/// clock cannot go back, so nothing is waited until later delays have used up the credit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    balance: Amount,
    delays: Amount,
    overhead: Amount,
    waited: Amount,
}

impl Ledger {
    /// An empty account.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Adds an epoch's delay, and takes off what emulation has cost in it.
    pub fn add(&mut self, delay: &Delay, overhead: Ps) {
        self.add_amount(delay.total());
        self.add_overhead(overhead);
    }

    /// Adds a delay that does not come from counters.
    pub fn add_amount(&mut self, delay: Amount) {
        self.delays += delay;
        self.balance += delay;
    }

    /// Takes off what emulation has cost.
    pub fn add_overhead(&mut self, overhead: Ps) {
        self.overhead += Amount::of(overhead);
        self.balance -= Amount::of(overhead);
    }

    /// Whole picoseconds to be waited now: none while the balance is negative.
    pub fn due(&self) -> Ps {
        self.balance.whole()
    }

    /// Records how long was really waited, which may be more or less than what was due.
    pub fn waited(&mut self, time: Ps) {
        self.waited += Amount::of(time);
        self.balance -= Amount::of(time);
    }

    /// What is due, taken as waited: for clocks that simply move on.
    pub fn take(&mut self) -> Ps {
        let due = self.due();
        self.waited(due);
        due
    }

    /// What is owed (positive), or the credit (negative).
    pub fn balance(&self) -> Amount {
        self.balance
    }

    /// Sum of all delays so far.
    pub fn delays(&self) -> Amount {
        self.delays
    }

    /// Sum of what emulation has cost so far.
    pub fn overhead(&self) -> Amount {
        self.overhead
    }

    /// Sum of what was waited so far.
    pub fn total_waited(&self) -> Amount {
        self.waited
    }
}
