//! Requests that wait for their bursts, from acceptance to completion.

use super::*;

impl Channel {
    /// The queued burst for these coordinates, in the lists or on its way to them.
    pub(super) fn find(&self, q: usize, bank: u32, row: u32, column: u32) -> Option<u32> {
        let found = self.queues.find(q, bank, row, column);
        if found.is_some() || (self.inbox.is_empty() && self.peer.is_empty()) {
            return found;
        }
        let found = self.peer.find(&self.queues.slots, q, bank, row, column);
        found.or_else(|| {
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

    /// Records that a write is part of a burst; reads are not recorded.
    #[inline]
    pub(super) fn write_in(&mut self, slot: u32, id: u64) {
        let s = &mut self.queues.slots[slot as usize];
        if !s.write {
            return;
        }
        let writer = (id, s.writer);
        s.writer = if let Some(i) = self.free_writers.pop() {
            self.writers[i as usize] = writer;
            i
        } else {
            self.writers.push(writer);
            self.writers.len() as u32 - 1
        };
    }

    /// The burst whose first write this was has reached the device.
    #[inline]
    pub(super) fn written(&mut self, mut writer: u32) {
        while writer != NONE {
            self.free_writers.push(writer);
            writer = self.writers[writer as usize].1;
        }
    }

    /// Ids of the writes in a burst, the newest first.
    pub(super) fn writers(&self, slot: u32) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut i = self.queues.slots[slot as usize].writer;
        while i != NONE {
            let (id, next) = self.writers[i as usize];
            ids.push(id);
            i = next;
        }
        ids
    }

    /// Ids of the writes in bursts that wait for their column command; a write of several bursts
    /// appears more than once.
    pub fn unfinished_writes(&self, ids: &mut Vec<u64>) {
        for list in &self.queues.lists[1] {
            let mut i = list.head;
            while i != NONE {
                ids.append(&mut self.writers(i));
                i = self.queues.slots[i as usize].next;
            }
        }
        for i in self.peer.bursts().chain(self.inbox.iter().copied()) {
            ids.append(&mut self.writers(i));
        }
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
        let done_at = self.period.edge(w.done + back);
        let latency = done_at.saturating_sub(w.arrival);
        match w.kind {
            Kind::Read => self.count.read_latency.add(latency),
            Kind::Write => self.count.write_latency.add(latency),
        }
        self.done.push(Completion {
            id: w.id,
            kind: w.kind,
            accepted_at: self.period.edge(w.accepted),
            done_at,
            row_hit: w.hit,
        });
    }
}
