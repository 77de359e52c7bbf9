//! Choosing the next command by the rules of a clock, see the [module](super::super) documentation.

use super::*;

impl Channel {
    /// When the next command is issued if nothing arrives before, and when something else may change
    /// that. `self.plan` is made if it is not there.
    #[inline]
    pub(super) fn planned(&mut self, r: &Rules) -> (u64, u64) {
        if !self.is_planned {
            self.make_plan(r);
        }
        self.pushed = false;
        (self.plan.clock, self.plan.wake)
    }

    pub(super) fn make_plan(&mut self, r: &Rules) {
        self.is_planned = true;
        if self.now >= self.calm || !self.inbox.is_empty() {
            self.look_around(r);
        }
        let calm = self.now < self.calm || !self.any_refreshing(r);
        if !(r.reach.is_some() && calm && !self.flushing && self.plan_kept(r)) {
            self.plan = self.choose_any(r);
        } else if !r.no_timeout {
            let mut plan = self.plan;
            plan.kept = false;
            self.offer_timeouts(&mut plan, |_, _| false);
            self.plan = plan;
        }
    }

    /// Whether a rank's refresh is to be issued as soon as possible.
    #[inline(never)]
    fn any_refreshing(&self, r: &Rules) -> bool {
        r.refresh.is_some() && (0..r.table.ranks).any(|k| self.refreshing(k, r))
    }

    /// Sees what has arrived, and which refreshes are due.
    #[inline(never)]
    pub(super) fn look_around(&mut self, r: &Rules) {
        let c = self.now;
        while let Some(&i) = self.inbox.front() {
            let s = &self.queues.slots[i as usize];
            if s.visible > c {
                break;
            }
            self.enter(i, r);
            self.inbox.pop_front();
        }
        if c < self.calm {
            return;
        }
        let mut owes = false;
        let mut next = NEVER;
        if let Some(kind) = r.refresh {
            for (due, owed) in self.due.iter_mut().zip(&mut self.owed) {
                while *due <= c {
                    *owed += 1;
                    *due += r.table.interval[kind];
                }
                owes |= *owed > 0;
                next = next.min(*due);
            }
        }
        self.calm = if owes { 0 } else { next };
    }

    #[inline(never)]
    pub(super) fn choose_any(&self, r: &Rules) -> Plan {
        match r.params.scheduler {
            Scheduler::General => self.choose(r),
            Scheduler::Ramulator2 => self.choose_ramulator2(r),
            Scheduler::Dramsim3 => self.choose_dramsim3(r),
        }
    }

    /// Whether writes are served, given the present queues.
    pub(super) fn mode(&self, p: &ControllerParams) -> bool {
        let [reads, writes] = self.queues.visible;
        if self.writing {
            writes > 0 && (writes > p.write_low || reads == 0)
        } else {
            let idle = p.write_when_idle || self.flushing;
            writes >= p.write_high || (idle && reads == 0 && writes > 0)
        }
    }

    /// A refresh of the rank is to be issued as soon as possible.
    #[inline]
    pub(super) fn refreshing(&self, rank: usize, r: &Rules) -> bool {
        let owed = self.owed[rank];
        owed > 0 && (owed > u64::from(r.params.refresh_postpone) || self.queues.by_rank[rank] == 0)
    }

    pub(super) fn choose(&self, r: &Rules) -> Plan {
        let t = &r.table;
        let mut plan = Plan::nothing(NEVER, self.mode(&r.params));
        if let Some(&i) = self.inbox.front() {
            plan.wake = self.queues.slots[i as usize].visible;
        }
        let limit = r.starvation();
        let oldest = match limit {
            NEVER => None,
            limit => self.overdue(&mut plan, limit),
        };
        // Bits of ranks whose refresh is to come.
        let mut ranks = 0u32;
        if let Some(kind) = r.refresh {
            for k in 0..t.ranks {
                plan.wake = plan.wake.min(self.due[k]);
                if self.refreshing(k, r) {
                    ranks |= 1 << k;
                    let must = self.owed[k] > u64::from(r.params.refresh_postpone) + 1;
                    let keeps = !must && oldest.is_none();
                    if !(keeps && self.offer_promised(&mut plan, k, kind, t)) {
                        self.offer_refresh(&mut plan, k, kind, t);
                    }
                }
            }
            if ranks != 0 && r.params.refresh_blocks == Blocks::Channel {
                return plan;
            }
        }
        let q = usize::from(plan.writing);
        let blocked = |bank: usize, b: &Bank| {
            ranks >> b.rank & 1 != 0
                && (r.refresh == Some(0) || self.refresh_bank(b.rank as usize, t) == bank)
        };
        if let Some(oldest) = oldest {
            let active = self.queues.active[0].union(&self.queues.active[1]);
            active.for_each(|i| {
                let b = &self.banks[i];
                let q = self.older_queue(i);
                let head = &self.queues.slots[self.queues.lists[q][i].head as usize];
                if head.visible + limit > self.now || (ranks != 0 && blocked(i, b)) {
                    return;
                }
                self.offer_overdue(&mut plan, i, b, q, head.seq == oldest, r);
            });
            return plan;
        }
        let active = self.queues.active[q];
        active.for_each(|i| {
            let b = &self.banks[i];
            if !(ranks != 0 && blocked(i, b)) {
                self.offer_bank(&mut plan, i, b, q, r);
            }
        });
        if let (false, Some(w)) = (self.paused.is_empty(), &t.cell) {
            self.offer_resume(&mut plan, q, w);
        }
        if self.flushing && t.close_written > 0 && self.inbox.is_empty() {
            self.open.for_each(|i| {
                let b = &self.banks[i];
                let wanted = self.queues.lists.iter().any(|l| l[i].head != NONE);
                if b.dirty && !wanted && !(ranks != 0 && blocked(i, b)) {
                    let clock = self.times.bank_command(t, i, PRE).max(self.now);
                    plan.offer(clock, 4, i as u64, What::Close(i as u32));
                }
            });
        }
        if !r.no_timeout {
            self.offer_timeouts(&mut plan, |i, b| ranks != 0 && blocked(i, b));
        }
        plan
    }

    /// Precharges of rows whose time is over, except in banks that wait for a refresh.
    fn offer_timeouts(&self, plan: &mut Plan, blocked: impl Fn(usize, &Bank) -> bool) {
        let q = usize::from(plan.writing);
        self.open.for_each(|i| {
            let b = &self.banks[i];
            let idle = self.queues.lists[q][i].head == NONE;
            let free = self.promised(i, b, q).is_none() && !self.is_paused(i);
            if idle && !blocked(i, b) && free {
                let legal = self.legal(i, b, PRE);
                let clock = legal.max(b.last + b.timeout);
                plan.offer(clock, 4, i as u64, What::Close(i as u32));
            }
        });
    }

    /// Candidate commands for the requests of one bank.
    #[inline]
    pub(super) fn offer_bank(&self, plan: &mut Plan, i: usize, b: &Bank, q: usize, r: &Rules) {
        let l = &self.queues.lists[q][i];
        let head = &self.queues.slots[l.head as usize];
        let other = match r.params.order {
            Order::HitFirst => 3,
            Order::AgeFirst => 2,
        };
        if b.row == NONE {
            return self.offer_closed(plan, i, b, q, other, r);
        }
        if let Some(slot) = self.promised(i, b, q) {
            return self.offer_column(plan, i, b, slot);
        }
        if q == 1 && self.is_paused(i) {
            let clock = self.legal(i, b, PRE);
            return plan.offer(clock, other, head.seq, What::Precharge(l.head));
        }
        let cap = r.params.hit_cap;
        let capped = cap > 0 && b.columns >= cap;
        if l.hit != NONE && (l.head == l.hit || !capped) {
            let seq = self.queues.slots[l.hit as usize].seq;
            plan.offer(self.legal(i, b, RD + q), 2, seq, What::Column(l.hit));
        }
        if l.head != l.hit && (l.hit == NONE || capped || !r.params.keep_rows) {
            let clock = self.legal(i, b, PRE);
            plan.offer(clock, other, head.seq, What::Precharge(l.head));
        }
    }

    /// First clock from now on at which the rules allow a command to a bank.
    #[inline]
    pub(super) fn legal(&self, i: usize, b: &Bank, c: usize) -> u64 {
        self.times
            .known(i, b.group as usize, b.rank as usize, c)
            .max(self.now)
    }

    #[inline]
    pub(super) fn is_paused(&self, bank: usize) -> bool {
        self.cells.get(bank).is_some_and(|c| c.is_paused())
    }

    /// Candidate commands for the oldest request of a closed bank.
    #[inline]
    pub(super) fn offer_closed(
        &self,
        plan: &mut Plan,
        i: usize,
        b: &Bank,
        q: usize,
        class: u8,
        r: &Rules,
    ) {
        let head = self.queues.lists[q][i].head;
        let seq = self.queues.slots[head as usize].seq;
        let mut clock = self.legal(i, b, ACT);
        if let (Some(c), Some(w)) = (self.cells.get(i), &r.table.cell) {
            if q == 1 && c.is_paused() {
                let clock = c.resumable(w).max(self.now);
                return plan.offer(clock, class, seq, What::Resume(i as u32));
            }
            clock = clock.max(c.free());
            if q == 0 {
                if let Some(at) = c.pausable(self.now, r) {
                    plan.offer(at, class, seq, What::Pause(i as u32));
                }
            }
        }
        plan.offer(clock, class, seq, What::Activate(head));
    }

    /// The queue that holds the oldest request of a bank that has any.
    pub(super) fn older_queue(&self, bank: usize) -> usize {
        let head = |q: usize| match self.queues.lists[q][bank].head {
            NONE => NEVER,
            i => self.queues.slots[i as usize].seq,
        };
        usize::from(head(1) < head(0))
    }

    /// Age of the oldest request if it has waited for `limit`; the plan records when the next one
    /// will have.
    pub(super) fn overdue(&self, plan: &mut Plan, limit: u64) -> Option<u64> {
        let mut oldest = None;
        for (active, lists) in self.queues.active.iter().zip(&self.queues.lists) {
            active.for_each(|i| {
                let head = &self.queues.slots[lists[i].head as usize];
                let deadline = head.visible + limit;
                if deadline > self.now {
                    plan.wake = plan.wake.min(deadline);
                } else if oldest.is_none_or(|o| head.seq < o) {
                    oldest = Some(head.seq);
                }
            });
        }
        oldest
    }

    /// Candidate commands for the oldest request of a bank, which is overdue; its data is
    /// transferred only if it is the oldest of all.
    pub(super) fn offer_overdue(
        &self,
        plan: &mut Plan,
        i: usize,
        b: &Bank,
        q: usize,
        oldest: bool,
        r: &Rules,
    ) {
        let head = self.queues.lists[q][i].head;
        let s = &self.queues.slots[head as usize];
        if b.row == NONE {
            self.offer_closed(plan, i, b, q, 1, r);
        } else if b.row != s.row || (q == 1 && self.is_paused(i)) {
            let clock = self.legal(i, b, PRE);
            plan.offer(clock, 1, s.seq, What::Precharge(head));
        } else if oldest {
            let clock = self.legal(i, b, RD + q);
            plan.offer(clock, 1, s.seq, What::Column(head));
        }
    }

    pub(super) fn refresh_bank(&self, rank: usize, t: &Table) -> usize {
        rank * t.per_rank + self.turn[rank] as usize
    }

    pub(super) fn offer_refresh(&self, plan: &mut Plan, rank: usize, kind: usize, t: &Table) {
        let (clock, what) = self.refresh_step(rank, kind, t);
        plan.offer(clock.max(self.now), 0, rank as u64, what);
    }

    /// The next command for a refresh of the rank, and when the rules allow it.
    pub(super) fn refresh_step(&self, rank: usize, kind: usize, t: &Table) -> (u64, What) {
        if kind == 0 {
            if self.open_banks[rank] > 0 {
                let per_rank = t.per_rank;
                let mut clock = self.times.rank_command(rank, PREA);
                for b in rank * per_rank..(rank + 1) * per_rank {
                    if self.banks[b].row != NONE {
                        clock = clock.max(self.times.bank_command(t, b, PRE));
                    }
                }
                (clock, What::PreAll(rank as u32))
            } else {
                let clock = self.times.rank_command(rank, REFA);
                (clock, What::RefAll(rank as u32))
            }
        } else {
            let b = self.refresh_bank(rank, t);
            if self.banks[b].row != NONE {
                let clock = self.times.bank_command(t, b, PRE);
                (clock, What::PreBank(b as u32))
            } else {
                let clock = self.times.bank_command(t, b, REFB);
                (clock, What::RefBank(b as u32))
            }
        }
    }
}
