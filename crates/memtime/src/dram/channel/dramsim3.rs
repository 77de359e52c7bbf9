//! The rules of DRAMsim3's controller with queues by bank, as its sources of 2021 have them.
//!
//! In every clock, in this order:
//! 1. The ranks' refreshes fall due in turn, an interval divided by the number of ranks apart.
//! 2. The **refresh** that is due first: open rows of the rank are precharged one by one, the first
//!    bank that can be; then `REFab`. The queues of its banks wait until then.
//! 3. Otherwise the **banks' queues** in turn, from the one after the queue that was served last:
//!    the first request of a queue whose next command is possible. Only the first request of a queue
//!    may close a row, and only if no request of the queue wants the row or it has served
//!    `hit_cap` accesses. A write waits for an older read of its bytes.
//! 4. **One request** moves from the read or the write queue to the queue of its bank: the oldest
//!    whose bank's queue has room. Writes move, as many as there are, once `write_high` of them wait,
//!    or `idle_writes` while all banks' queues are empty; otherwise reads do. So reads that
//!    have moved are served along with the writes. If a read of the bytes of the next write
//!    waits, the rest of the writes stays.
//!
//! One thing is not as there: if that read has not moved either, and writes are to be moved
//! again at once, DRAMsim3 moves neither for ever. Here a read moves.

use super::*;

impl Channel {
    pub(super) fn choose_dramsim3(&self, r: &Rules) -> Plan {
        let t = &r.table;
        let mut plan = self.no_command(r);
        let refreshing = self.due_rank(r);
        let per_rank = t.per_rank;
        if let Some(rank) = refreshing {
            if self.open_banks[rank] == 0 {
                let (clock, what) = self.refresh_step(rank, 0, t);
                plan.offer(clock.max(self.now), 0, 0, what);
            }
            for b in rank * per_rank..(rank + 1) * per_rank {
                if self.banks[b].row != NONE {
                    let clock = self.next_legal(b as u32, PRE);
                    plan.offer(clock, 0, b as u64, What::PreBank(b as u32));
                }
            }
        }
        for (b, queue) in self.peer.commands.iter().enumerate() {
            if queue.is_empty() || refreshing == Some(b / per_rank) {
                continue;
            }
            let turns = (b + t.banks - 1 - self.peer.round as usize) % t.banks;
            self.offer_queue(&mut plan, b, queue, (turns as u64) << 8, r);
        }
        self.offer_unwritten(&mut plan, t);
        plan
    }

    /// The first request of a bank's queue for each command; `age` is that of the queue.
    fn offer_queue(&self, plan: &mut Plan, bank: usize, queue: &[u32], age: u64, r: &Rules) {
        let b = &self.banks[bank];
        let slot = |i: u32| &self.queues.slots[i as usize];
        if b.row == NONE {
            return plan.offer(self.legal(bank, b, ACT), 1, age, What::Activate(queue[0]));
        }
        let mut hits = false;
        let mut found = [false; 2];
        for (at, &i) in queue.iter().enumerate() {
            let s = slot(i);
            let q = usize::from(s.write);
            if s.row != b.row {
                continue;
            }
            hits = true;
            let reads =
                |j: &u32| !slot(*j).write && (slot(*j).row, slot(*j).column) == (s.row, s.column);
            if found[q] || (s.write && queue[..at].iter().any(reads)) {
                continue;
            }
            found[q] = true;
            let clock = self.legal(bank, b, RD + q);
            plan.offer(clock, 1, age + at as u64, What::Column(i));
        }
        let first = slot(queue[0]);
        if first.row != b.row && (!hits || b.columns >= r.params.hit_cap) {
            plan.offer(self.legal(bank, b, PRE), 1, age, What::Precharge(queue[0]));
        }
    }

    /// Processes all clocks before `limit`.
    pub(super) fn run_dramsim3(&mut self, limit: u64, r: &Rules) {
        while self.now < limit {
            self.skip_idle(limit, r);
            if self.now >= limit {
                return;
            }
            let (clock, wake) = self.planned(r);
            if self.peer.settled && clock > self.now {
                let next = clock.min(wake);
                self.now = next.min(limit);
                if wake <= self.now {
                    self.is_planned = false;
                }
                continue;
            }
            if clock == self.now {
                self.is_planned = false;
                self.issue(self.plan.what, clock, r);
                if self.plan.class == 1 {
                    self.peer.settled = false;
                }
            }
            self.peer.settled = !self.move_request(r);
            if !self.peer.settled {
                self.is_planned = false;
            }
            self.now += 1;
            if wake <= self.now {
                self.is_planned = false;
            }
        }
    }

    /// Whether writes are to be moved, given the present queues.
    pub(super) fn starts_draining(&self, r: &Rules) -> bool {
        let writes = self.peer.queues[1].len() as u32;
        let idle = self.peer.commanded == 0 && writes >= r.params.idle_writes;
        writes >= r.params.write_high || idle || (self.flushing && writes > 0)
    }

    /// Moves a request to the queue of its bank; returns whether anything changed.
    fn move_request(&mut self, r: &Rules) -> bool {
        let starts = self.starts_draining(r);
        let before = self.peer.draining;
        if before == 0 && starts {
            self.peer.draining = self.peer.queues[1].len() as u32;
        }
        let slots = &self.queues.slots;
        let p = &mut self.peer;
        let next = |p: &Peer, q: usize| {
            let has_room = |i: &u32| {
                let bank = slots[*i as usize].bank as usize;
                p.commands[bank].len() < r.params.bank_queue as usize
            };
            p.queues[q].iter().position(has_room)
        };
        let mut q = usize::from(p.draining > 0);
        let mut at = next(p, q);
        if let (1, Some(i)) = (q, at) {
            let s = &slots[p.queues[1][i] as usize];
            if p.find(slots, 0, s.bank, s.row, s.column).is_some() {
                p.draining = 0;
                if p.commanded > 0 || !starts {
                    return true;
                }
                q = 0;
                at = next(p, q);
            }
        }
        let Some(at) = at else {
            return p.draining != before;
        };
        let i = p.queues[q].remove(at);
        p.commands[slots[i as usize].bank as usize].push(i);
        p.commanded += 1;
        if q == 1 {
            p.draining -= 1;
        }
        self.queues.room[q] += 1;
        true
    }
}
