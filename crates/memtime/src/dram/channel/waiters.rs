//! Requests that wait for their bursts, from acceptance to completion.

use super::*;

impl Channel {
    /// The burst of that place, in the lists or on its way to them.
    pub(super) fn find(&self, q: usize, bank: u32, row: u32, column: u32) -> Option<u32> {
        self.queues.find(q, bank, row, column).or_else(|| {
            self.inbox.iter().copied().find(|&i| {
                let s = &self.queues.slots[i as usize];
                usize::from(s.write) == q && s.bank == bank && s.row == row && s.column == column
            })
        })
    }

    pub(super) fn new_waiter(&mut self, w: Waiter) -> u32 {
        if let Some(i) = self.free_waiters.pop() {
            self.waiters[i as usize] = w;
            i
        } else {
            self.waiters.push(w);
            self.waiters.len() as u32 - 1
        }
    }

    pub(super) fn link(&mut self, slot: u32, waiter: u32) {
        if waiter == NONE {
            return;
        }
        let s = &mut self.queues.slots[slot as usize];
        let link = Link {
            waiter,
            next: s.waiter,
        };
        s.waiter = if let Some(i) = self.free_links.pop() {
            self.links[i as usize] = link;
            i
        } else {
            self.links.push(link);
            self.links.len() as u32 - 1
        };
    }

    pub(super) fn burst_done(&mut self, waiter: u32, clock: u64, hit: bool, back: u32) {
        let w = &mut self.waiters[waiter as usize];
        w.done = w.done.max(clock);
        w.hit &= hit;
        w.left -= 1;
        if w.left == 0 {
            let w = *w;
            self.free_waiters.push(waiter);
            self.complete(&w, back.into());
        }
    }

    #[inline]
    pub(super) fn complete(&mut self, w: &Waiter, back: u64) {
        let done_at = Ps::of_clock(w.done + back, self.period);
        let latency = done_at.saturating_sub(w.arrival);
        match w.kind {
            Kind::Read => self.count.read_latency.add(latency),
            Kind::Write => self.count.write_latency.add(latency),
        }
        self.done.push(Completion {
            id: w.id,
            kind: w.kind,
            accepted_at: Ps::of_clock(w.accepted, self.period),
            done_at,
            row_hit: w.hit,
        });
    }
}
