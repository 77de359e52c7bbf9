//! What the schedulers after other simulators have in common: bursts in lists of their own.

use super::*;

/// Bursts of a scheduler other than the general one, whose lists by bank stay empty then.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// Bursts with a place in the read and the write queue, oldest first.
    pub queues: [Vec<u32>; 2],
    /// `ramulator2`: bursts for which a row was activated, in that order.
    pub active: Vec<u32>,
    /// `dramsim3`: the queue of each bank, oldest first.
    pub commands: Vec<Vec<u32>>,
    /// Number of bursts in `commands`.
    pub commanded: u32,
    /// `dramsim3`: the bank whose queue was looked at last.
    pub round: u32,
    /// `dramsim3`: number of writes that still move to the banks before reads do.
    pub draining: u32,
    /// `dramsim3`: no burst moves before something else happens.
    pub settled: bool,
}

impl Peer {
    pub fn new(r: &Rules) -> Peer {
        let queues = match r.params.scheduler {
            Scheduler::Dramsim3 => r.table.banks,
            _ => 0,
        };
        Peer {
            commands: vec![Vec::new(); queues],
            round: 0,
            ..Default::default()
        }
    }

    /// Whether there is no burst with a place in a queue.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues[0].is_empty() && self.queues[1].is_empty() && self.commanded == 0
    }

    /// The oldest burst of these coordinates with a place in queue `q` or in the bank's queue.
    pub fn find(&self, slots: &[Slot], q: usize, bank: u32, row: u32, column: u32) -> Option<u32> {
        let commands = self.commands.get(bank as usize);
        let all = commands.into_iter().flatten().chain(&self.queues[q]);
        all.copied().find(|&i| {
            let s = &slots[i as usize];
            usize::from(s.write) == q && (s.bank, s.row, s.column) == (bank, row, column)
        })
    }

    /// All bursts: those that have left the queues last.
    pub fn bursts(&self) -> impl Iterator<Item = u32> + '_ {
        let queued = self.queues.iter().flatten();
        queued.chain(self.taken()).copied()
    }

    /// Bursts that have left the queues.
    pub fn taken(&self) -> impl Iterator<Item = &u32> + '_ {
        self.active.iter().chain(self.commands.iter().flatten())
    }
}

impl Rules {
    /// Number of bursts that are under way without a place in a queue, at most.
    pub(super) fn beside(&self) -> u32 {
        let banks = self.table.banks as u32;
        match self.params.scheduler {
            Scheduler::General => 0,
            Scheduler::Ramulator2 => banks,
            Scheduler::Dramsim3 => banks * self.params.bank_queue,
        }
    }

    /// Clocks at which the ranks' first refreshes fall due if refreshing starts at `from`.
    pub(super) fn first_due(&self, from: u64) -> Vec<u64> {
        let interval = self.refresh.map_or(0, |i| self.table.interval[i]);
        let ranks = self.table.ranks as u64;
        let after = |k: u64| match self.params.scheduler {
            // It counts the clock of the first look at a request as the second one.
            Scheduler::Ramulator2 => interval.saturating_sub(1),
            _ => interval * k / ranks,
        };
        (1..=ranks).map(|k| from + after(k)).collect()
    }
}

impl Channel {
    /// A burst becomes visible to the scheduler.
    #[inline]
    pub(super) fn enter(&mut self, i: u32, r: &Rules) {
        let s = &self.queues.slots[i as usize];
        let (q, bank) = (usize::from(s.write), s.bank as usize);
        if r.params.scheduler == Scheduler::General {
            self.candidates.touch(bank as u32);
            return self.queues.push(i, &self.banks[bank]);
        }
        self.queues.visible[q] += 1;
        self.peer.queues[q].push(i);
        self.peer.settled = false;
    }

    /// Removes a burst whose data is transferred.
    #[inline]
    pub(super) fn leave(&mut self, i: u32, rank: u32, r: &Rules) {
        if r.params.scheduler == Scheduler::General {
            self.candidates.touch(self.queues.slots[i as usize].bank);
            return self.queues.remove(i, rank);
        }
        let s = &self.queues.slots[i as usize];
        let (q, bank) = (usize::from(s.write), s.bank as usize);
        let take = |list: &mut Vec<u32>| {
            let at = list.iter().position(|&x| x == i);
            at.map(|at| list.remove(at)).is_some()
        };
        let p = &mut self.peer;
        if take(&mut p.queues[q]) {
            self.queues.room[q] += 1;
        } else if p.commands.get_mut(bank).is_some_and(take) {
            p.commanded -= 1;
        } else {
            take(&mut p.active);
        }
        p.settled = false;
        self.queues.visible[q] -= 1;
        self.queues.release(i);
    }

    /// Whether a request with these bursts can be accepted now.
    #[inline(always)]
    pub fn admits(&self, r: &Rules, kind: Kind, places: &[(Place, u64)]) -> bool {
        let has_room = self.queues.room[kind as usize] >= places.len() as u32;
        has_room
            || (r.params.scheduler == Scheduler::Ramulator2 && self.needs_no_room(r, kind, places))
    }

    /// Whether a request is answered from queued bursts, or joins them, so that the rest has room.
    fn needs_no_room(&self, r: &Rules, kind: Kind, places: &[(Place, u64)]) -> bool {
        // What is answered from a queued write, or joins one, needs no place.
        let p = &r.params;
        let needs = places.iter().filter(|(place, mask)| {
            let bank = bank_of(place, &r.table);
            let find = |q| self.find(q, bank, place.row, place.column);
            let holds = |i: u32| self.queues.slots[i as usize].mask & mask == *mask;
            !match kind {
                Kind::Read => {
                    (p.forward && find(1).is_some_and(holds))
                        || (p.merge_reads && find(0).is_some())
                }
                Kind::Write => p.merge_writes && find(1).is_some(),
            }
        });
        self.queues.room[kind as usize] >= needs.count() as u32
    }

    /// The rank whose refresh is due for the longest time.
    pub(super) fn due_rank(&self, r: &Rules) -> Option<usize> {
        let interval = r.table.interval[r.refresh?];
        (0..self.owed.len())
            .filter(|&k| self.owed[k] > 0)
            .min_by_key(|&k| self.due[k].saturating_sub(self.owed[k] * interval))
    }

    /// A plan without a command.
    pub(super) fn no_command(&self, r: &Rules) -> Plan {
        let mut wake = NEVER;
        if let Some(&i) = self.inbox.front() {
            wake = self.queues.slots[i as usize].visible;
        }
        if r.refresh.is_some() {
            wake = self.due.iter().fold(wake, |w, d| w.min(*d));
        }
        Plan::nothing(wake, self.writing)
    }

    /// Rows that a flush closes so that their cells are written.
    pub(super) fn offer_unwritten(&self, plan: &mut Plan, t: &Table) {
        if !self.flushing || t.close_written == 0 || !self.is_idle() {
            return;
        }
        self.open.for_each(|i| {
            if self.banks[i].dirty {
                let clock = self.times.bank_command(t, i, PRE).max(self.now);
                plan.offer(clock, 4, i as u64, What::Close(i as u32));
            }
        });
    }

    /// [`Channel::next_clock`] of the other schedulers.
    pub(super) fn peer_next_clock(&self, r: &Rules) -> Option<u64> {
        let unwritten = self.flushing && self.is_unwritten(&r.table);
        let writes = match r.params.scheduler {
            Scheduler::Dramsim3 => {
                self.peer.commanded > 0 || self.peer.draining > 0 || self.starts_draining(r)
            }
            _ => self.queues.visible[1] > 0,
        };
        if self.inbox.is_empty() && self.queues.visible[0] == 0 && !writes && !unwritten {
            return None;
        }
        Some(if self.is_planned && !self.is_unsettled(r) {
            self.plan.clock.min(self.plan.wake).max(self.now) + 1
        } else {
            self.now + 1
        })
    }

    /// A burst may move at the end of this clock.
    pub(super) fn is_unsettled(&self, r: &Rules) -> bool {
        r.params.scheduler == Scheduler::Dramsim3 && !self.peer.settled
    }
}

/// Number of a bank in its channel.
#[inline]
pub(super) fn bank_of(p: &Place, t: &Table) -> u32 {
    p.rank * t.per_rank as u32 + p.bank_group * t.per_group as u32 + p.bank
}
