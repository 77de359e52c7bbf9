//! Rows that were activated for a request and have not served it yet.

use super::*;

impl Channel {
    /// The request for which a bank's open row is promised: the oldest one for this row, from queue
    /// `q` if that has any, else from the other one.
    #[inline]
    pub(super) fn promised(&self, i: usize, b: &Bank, q: usize) -> Option<u32> {
        if b.row == NONE || b.columns > 0 {
            return None;
        }
        let hit = |q: usize| Some(self.queues.lists[q][i].hit).filter(|h| *h != NONE);
        // Nothing is written while a cell write is paused.
        if self.is_paused(i) {
            hit(0)
        } else {
            hit(q).or_else(|| hit(1 - q))
        }
    }

    /// The read or write for a request whose row is open.
    pub(super) fn offer_column(&self, plan: &mut Plan, i: usize, b: &Bank, slot: u32) {
        let s = &self.queues.slots[slot as usize];
        let clock = self.legal(i, b, RD + usize::from(s.write));
        plan.offer(clock, 2, s.seq, What::Column(slot));
    }

    /// The reads and writes of promised rows that a refresh of the rank would close; returns
    /// whether there are any.
    pub(super) fn offer_promised(
        &self,
        plan: &mut Plan,
        rank: usize,
        kind: usize,
        t: &Table,
    ) -> bool {
        let per_rank = t.per_rank;
        let banks = match kind {
            0 => rank * per_rank..(rank + 1) * per_rank,
            _ => {
                let b = self.refresh_bank(rank, t);
                b..b + 1
            }
        };
        let q = usize::from(plan.writing);
        let mut any = false;
        for i in banks {
            let b = &self.banks[i];
            if let Some(slot) = self.promised(i, b, q) {
                self.offer_column(plan, i, b, slot);
                any = true;
            }
        }
        any
    }
}
