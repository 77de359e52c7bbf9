//! The saved state of a channel. Requests and bursts are lists; slot numbers, which the channel
//! assigns as slots become free, are not part of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;
use crate::checks::{completions, counters, counts, ensure, far_clock, latency, times};
use crate::saved::bad;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedBank {
    row: Option<u32>,
    dirty: bool,
    columns: u32,
    last: u64,
    timeout: u64,
    closed_row: Option<u32>,
}

/// A request that waits for bursts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRequest {
    id: u64,
    arrival: Ps,
    accepted: u64,
    done: u64,
    hit: bool,
    kind: Kind,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedBurst {
    write: bool,
    bank: u32,
    row: u32,
    column: u32,
    seq: u64,
    visible: u64,
    mask: u64,
    activated: bool,
    precharged: bool,
    /// Requests that wait for it, in the order in which they will be completed.
    waiters: Vec<u32>,
    /// Ids of the writes in it, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    writers: Vec<u64>,
    /// It has left its queue: active (`ramulator2`), or in the queue of its bank (`dramsim3`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    taken: bool,
}

/// A [`Channel`]; see there for the meaning of the fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    now: u64,
    banks: Vec<SavedBank>,
    open_since: Vec<u64>,
    cells: Vec<pause::Cell>,
    count_from: u64,
    times: Times,
    writing: bool,
    written: u64,
    due: Vec<u64>,
    owed: Vec<u64>,
    turn: Vec<u32>,
    requests: Vec<SavedRequest>,
    /// Bursts that the scheduler sees: reads, writes; for each bank in queue order.
    queued: Vec<SavedBurst>,
    /// Bursts on their way to the queues, in order.
    inbox: Vec<SavedBurst>,
    next_seq: u64,
    /// `dramsim3`: bank served last, writes that are to move, whether nothing moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    banks_in_turn: Option<(u32, u32, bool)>,
    /// Clock and wake of the plan, if there is one.
    plan: Option<(u64, u64)>,
    count: ChannelCount,
    done: Vec<Completion>,
}

impl Saved {
    pub fn add_owed(&self, ids: &mut Vec<u64>) {
        ids.extend(self.requests.iter().map(|r| r.id));
        ids.extend(self.done.iter().map(|c| c.id));
    }

    /// Sums of the latencies, for a bound over all channels.
    pub fn latency_sums(&self) -> u128 {
        u128::from(self.count.read_latency.sum.0) + u128::from(self.count.write_latency.sum.0)
    }
}

fn some(row: u32) -> Option<u32> {
    (row != NONE).then_some(row)
}

impl Channel {
    pub fn save(&self) -> Saved {
        let mut requests = Vec::new();
        // Numbers of the requests by place.
        let mut numbers = BTreeMap::new();
        let mut burst = |i: u32, taken: bool| {
            let s = &self.queues.slots[i as usize];
            let mut waiters = Vec::new();
            let mut l = s.waiter;
            while l != NONE {
                let Link { waiter, next } = self.links[l as usize];
                let n = *numbers.entry(waiter).or_insert_with(|| {
                    let w = &self.waiters[waiter as usize];
                    requests.push(SavedRequest {
                        id: w.id,
                        arrival: w.arrival,
                        accepted: w.accepted,
                        done: w.done,
                        hit: w.hit,
                        kind: w.kind,
                    });
                    requests.len() as u32 - 1
                });
                waiters.push(n);
                l = next;
            }
            SavedBurst {
                write: s.write,
                bank: s.bank,
                row: s.row,
                column: s.column,
                seq: s.seq,
                visible: s.visible,
                mask: s.mask,
                activated: s.activated,
                precharged: s.precharged,
                waiters,
                writers: self.writers(i),
                taken,
            }
        };
        let mut queued = Vec::new();
        for list in self.queues.lists.iter().flatten() {
            let mut i = list.head;
            while i != NONE {
                queued.push(burst(i, false));
                i = self.queues.slots[i as usize].next;
            }
        }
        for &i in self.peer.queues.iter().flatten() {
            queued.push(burst(i, false));
        }
        for &i in self.peer.taken() {
            queued.push(burst(i, true));
        }
        let inbox = self.inbox.iter().map(|&i| burst(i, false)).collect();
        let bank = |b: &Bank| SavedBank {
            row: some(b.row),
            dirty: b.dirty && b.row != NONE,
            columns: b.columns,
            last: b.last,
            timeout: b.timeout,
            closed_row: some(b.closed_row),
        };
        Saved {
            now: self.now,
            banks: self.banks.iter().map(bank).collect(),
            open_since: self.open_since.clone(),
            cells: self.cells.clone(),
            count_from: self.count_from,
            times: self.times.clone(),
            writing: self.writing,
            written: self.written,
            due: self.due.clone(),
            owed: self.owed.clone(),
            turn: self.turn.clone(),
            requests,
            queued,
            inbox,
            next_seq: self.queues.next_seq(),
            banks_in_turn: (!self.peer.commands.is_empty()).then_some((
                self.peer.round,
                self.peer.draining,
                self.peer.settled,
            )),
            plan: (self.is_planned && !self.pushed).then_some((self.plan.clock, self.plan.wake)),
            count: self.count.clone(),
            done: self.done.clone(),
        }
    }

    /// Loads a saved state. `self` must be new, and of the rules that the saved channel had; `rows`
    /// is the number of rows of a bank.
    pub fn load(&mut self, s: Saved, r: &Rules, rows: u32) -> Result<(), Error> {
        let t = &r.table;
        let far = far_clock(self.period);
        let latest = self.period.edge_from(Ps::MAX_TIME);
        let no_later = |all: &[u64]| all.iter().all(|c| *c <= far);
        ensure(
            s.now <= latest && s.count_from <= s.now && s.written <= far,
            "clock of a channel",
        )?;
        ensure(
            s.banks.len() == t.banks
                && s.cells.len() == self.cells.len()
                && [s.open_since.len(), s.due.len(), s.owed.len(), s.turn.len()] == [t.ranks; 4]
                && s.times.fits(t),
            "numbers of banks and ranks",
        )?;
        ensure(s.times.are_before(far), "timers")?;
        ensure(
            no_later(&s.open_since) && no_later(&s.due) && s.owed.iter().all(|n| *n <= 1 << 32),
            "refresh timers",
        )?;
        ensure(
            r.refresh.is_none() || s.due.iter().all(|d| *d >= s.now),
            "refreshes due",
        )?;
        let per_rank = (t.banks / t.ranks) as u32;
        ensure(s.turn.iter().all(|b| *b < per_rank), "bank to refresh")?;
        for (b, saved) in self.banks.iter_mut().zip(&s.banks) {
            let known = |row: Option<u32>| row.is_none_or(|r| r < rows);
            ensure(known(saved.row) && known(saved.closed_row), "row of a bank")?;
            ensure(
                saved.last <= far && saved.timeout <= 1 << 33 && saved.columns < NONE >> 1,
                "timers of a bank",
            )?;
            ensure(!saved.dirty || saved.row.is_some(), "dirty row")?;
            b.row = saved.row.unwrap_or(NONE);
            b.dirty = saved.dirty;
            b.columns = saved.columns;
            b.last = saved.last;
            b.timeout = saved.timeout;
            b.closed_row = saved.closed_row.unwrap_or(NONE);
        }
        for i in 0..t.banks {
            let b = &self.banks[i];
            if b.row != NONE {
                self.open.insert(i as u32);
                self.open_banks[b.rank as usize] += 1;
            }
        }
        ensure(
            self.open_banks
                .iter()
                .zip(&s.open_since)
                .all(|(n, since)| *n == 0 || *since <= s.now),
            "open rows",
        )?;
        for (i, c) in s.cells.iter().enumerate() {
            let fine = no_later(&[c.begin, c.end, c.since, c.closed])
                && c.rest <= 1 << 32
                && c.pauses < NONE >> 1;
            let paused = c.is_paused();
            ensure(fine && !(paused && self.banks[i].dirty), "cell write")?;
            if paused {
                self.paused.insert(i as u32);
            }
        }
        check_count(&s.count, t, self.period, s.now)?;
        completions(&s.done)?;
        self.now = s.now;
        self.open_since = s.open_since;
        self.cells = s.cells;
        self.count_from = s.count_from;
        self.times = s.times;
        self.writing = s.writing;
        self.written = s.written;
        (self.due, self.owed, self.turn) = (s.due, s.owed, s.turn);
        self.count = s.count;
        self.done = s.done;
        self.waiters = Vec::with_capacity(s.requests.len());
        for w in s.requests {
            times([w.arrival], "arrival")?;
            ensure(w.accepted <= far && w.done <= far, "request")?;
            self.waiters.push(Waiter {
                id: w.id,
                arrival: w.arrival,
                accepted: w.accepted,
                done: w.done,
                left: 0,
                hit: w.hit,
                kind: w.kind,
            });
        }
        ensure(s.next_seq <= 1 << 62, "age")?;
        let mut ages = std::collections::BTreeSet::new();
        for b in s.queued.iter().chain(&s.inbox) {
            ensure(b.seq < s.next_seq && ages.insert(b.seq), "age of a burst")?;
        }
        for b in s.queued {
            let taken = b.taken;
            let i = self.load_burst(b, rows, far, r.beside())?;
            if taken {
                self.load_taken(i, r)?
            } else {
                self.enter(i, r)
            }
        }
        if let Some((round, draining, settled)) = s.banks_in_turn {
            let waiting = self.peer.queues[1].len();
            ensure(
                r.params.scheduler == Scheduler::Dramsim3
                    && (round as usize) < t.banks
                    && draining as usize <= waiting,
                "queues of banks",
            )?;
            self.peer.round = round;
            self.peer.draining = draining;
            self.peer.settled = settled;
        }
        for b in s.inbox {
            ensure(!b.taken, "burst")?;
            let i = self.load_burst(b, rows, far, r.beside())?;
            self.inbox.push_back(i);
        }
        self.queues.set_next_seq(s.next_seq);
        ensure(self.waiters.iter().all(|w| w.left > 0), "request")?;
        match s.plan {
            None => {}
            // Something may change at once: the plan is only a time.
            Some((clock, wake)) if wake <= self.now => {
                ensure(wake == self.now && clock >= wake, "next command")?;
                self.plan = Plan::nothing(wake, self.writing);
                self.plan.clock = clock;
                self.is_planned = true;
            }
            Some(saved) => {
                ensure(self.planned(r) == saved, "next command")?;
            }
        }
        Ok(())
    }

    fn load_burst(
        &mut self,
        b: SavedBurst,
        rows: u32,
        far: u64,
        beside: u32,
    ) -> Result<u32, Error> {
        let q = usize::from(b.write);
        ensure(
            b.taken || self.queues.room[q] > 0,
            "more bursts than places",
        )?;
        ensure(
            (b.bank as usize) < self.banks.len() && b.row < rows && b.visible <= far,
            "burst",
        )?;
        let slot = Slot {
            next: NONE,
            bank: b.bank,
            row: b.row,
            column: b.column,
            seq: 0,
            visible: b.visible,
            mask: b.mask,
            waiter: NONE,
            writer: NONE,
            write: b.write,
            activated: b.activated,
            precharged: b.precharged,
        };
        let i = if b.taken {
            let taken = self.peer.taken().count() as u32;
            ensure(taken < beside, "more bursts than places")?;
            self.queues.allocate_beside(slot)
        } else {
            self.queues.allocate(slot)
        };
        self.queues.slots[i as usize].seq = b.seq;
        ensure(b.write || b.writers.is_empty(), "writes of a burst")?;
        for &id in b.writers.iter().rev() {
            self.write_in(i, id);
        }
        // Links come out in the opposite order.
        for &w in b.waiters.iter().rev() {
            let Some(waiter) = self.waiters.get_mut(w as usize) else {
                return Err(bad("impossible state (request of a burst)"));
            };
            let of_its_kind = (waiter.kind == Kind::Write) == b.write;
            ensure(of_its_kind && waiter.left < 8, "request of a burst")?;
            waiter.left += 1;
            self.link(i, w);
        }
        Ok(i)
    }
}

impl Channel {
    /// Puts a burst where its scheduler had it after the queue.
    fn load_taken(&mut self, i: u32, r: &Rules) -> Result<(), Error> {
        let s = &self.queues.slots[i as usize];
        let (q, bank) = (usize::from(s.write), s.bank as usize);
        match r.params.scheduler {
            Scheduler::General => return Err(bad("impossible state (burst)")),
            Scheduler::Ramulator2 => {
                let mut active = self.peer.active.iter();
                let free = active.all(|&a| self.queues.slots[a as usize].bank != s.bank);
                ensure(free && self.banks[bank].row == s.row, "active burst")?;
                self.peer.active.push(i);
            }
            Scheduler::Dramsim3 => {
                let queue = &mut self.peer.commands[bank];
                let room = queue.len() < r.params.bank_queue as usize;
                ensure(room, "queue of a bank")?;
                queue.push(i);
                self.peer.commanded += 1;
            }
        }
        self.queues.visible[q] += 1;
        Ok(())
    }
}

fn check_count(c: &ChannelCount, t: &Table, period: Period, now: u64) -> Result<(), Error> {
    ensure(
        c.banks.len() == t.banks
            && c.paused_clocks.len() == t.banks
            && c.open_clocks.len() == t.ranks,
        "numbers of counters",
    )?;
    counters(&c.requests)?;
    c.banks.iter().try_for_each(counters)?;
    latency(&c.read_latency)?;
    latency(&c.write_latency)?;
    counts([c.columns, c.refresh_all])?;
    let paused = c.paused_clocks.iter().map(|n| u128::from(*n)).sum::<u128>();
    let paused = u64::try_from(paused).unwrap_or(u64::MAX);
    ensure(
        c.open_clocks.iter().all(|n| *n <= now)
            && period.edge(paused).0 <= 1 << 60
            && c.columns.checked_mul(t.burst).is_some(),
        "counted clocks",
    )
}
