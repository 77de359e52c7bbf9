//! The rules of Ramulator 2.1's controller for DDR (`GenericDDR`, `FRFCFS`, `AllBank`), as its
//! sources of 2026 have them.
//!
//! In every clock, in this order:
//! 1. When an interval has ended, each rank owes a refresh; refreshes are queued in the order of the
//!    ranks.
//! 2. **Active** requests, for which a row was activated: the oldest whose read or write is
//!    possible.
//! 3. The first queued **refresh**: `PREA` if the rank has an open row, but not of an active
//!    request; then `REFab`.
//! 4. Only if no refresh is queued: the **queue** being served. Writes begin to be served above the
//!    high mark or without queued reads, reads below the low one. Of all requests whose next
//!    command is possible (a precharge not in the bank of an active one) the oldest goes first, even
//!    if its precharge closes a row that others want.
//!
//! A request leaves its queue, and its place there becomes free, with its activation or, if its row is
//! open, with its read or write. A read is answered from a write only while that is in the queue.

use super::*;

impl Channel {
    pub(super) fn choose_ramulator2(&self, r: &Rules) -> Plan {
        let t = &r.table;
        let mut plan = self.no_command(r);
        let mut held = BankSet::default();
        for &i in &self.peer.active {
            let s = &self.queues.slots[i as usize];
            held.insert(s.bank);
            let clock = self.next_legal(s.bank, RD + usize::from(s.write));
            plan.offer(clock, 0, s.visible, What::Column(i));
        }
        if let Some(rank) = self.due_rank(r) {
            let (clock, what) = self.refresh_step(rank, 0, t);
            let per_rank = t.per_rank;
            let held = (rank * per_rank..(rank + 1) * per_rank).any(|b| held.contains(b as u32));
            if !(held && matches!(what, What::PreAll(_))) {
                plan.offer(clock.max(self.now), 1, 0, what);
            }
            return plan;
        }
        let writing = self.ramulator2_mode(&r.params);
        for &i in &self.peer.queues[usize::from(writing)] {
            let s = &self.queues.slots[i as usize];
            let row = self.banks[s.bank as usize].row;
            let (command, what) = if row == NONE {
                (ACT, What::Activate(i))
            } else if row == s.row {
                (RD + usize::from(s.write), What::Column(i))
            } else if held.contains(s.bank) {
                continue;
            } else {
                (PRE, What::Precharge(i))
            };
            plan.offer(self.next_legal(s.bank, command), 2, s.seq, what);
        }
        self.offer_unwritten(&mut plan, t);
        // The queue is not looked at in a clock in which an active request is served.
        if !(plan.clock == self.now && plan.class == 0) {
            plan.writing = writing;
        }
        plan
    }

    fn ramulator2_mode(&self, p: &ControllerParams) -> bool {
        let [reads, writes] = [0, 1].map(|q: usize| self.peer.queues[q].len() as u32);
        if self.writing {
            writes > p.write_low || reads == 0
        } else {
            writes >= p.write_high || reads == 0
        }
    }

    /// A row was activated for a queued burst.
    pub(super) fn make_active(&mut self, i: u32) {
        let q = usize::from(self.queues.slots[i as usize].write);
        self.peer.queues[q].retain(|&x| x != i);
        self.peer.active.push(i);
        self.queues.room[q] += 1;
    }

    /// First clock from now on at which the rules allow a command to a bank.
    #[inline]
    pub(super) fn next_legal(&self, bank: u32, c: usize) -> u64 {
        self.legal(bank as usize, &self.banks[bank as usize], c)
    }
}
