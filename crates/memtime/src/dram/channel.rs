//! One channel: queues, scheduler, refresh and page policy in one clock rule.
//! See the rules of a clock in the [module](super) documentation.

mod waiters;

use std::collections::VecDeque;

use super::bank::{Bank, BankSet, Queues, Slot, NONE};
use super::mapping::Place;
use super::params::{Blocks, ControllerParams, Order, Page, RefreshMode, WriteDone};
use super::spec::Command;
use super::timing::{Table, Times, ACT, PRE, PREA, RD, REFA, REFB, WR};
use super::Issued;
use crate::model::{Counters, Latency};
use crate::request::{Completion, Kind};
use crate::units::Ps;

/// Later than any time.
const NEVER: u64 = u64::MAX;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    id: u64,
    arrival: Ps,
    accepted: u64,
    /// Latest end of its bursts.
    done: u64,
    /// Bursts still missing.
    left: u32,
    hit: bool,
    kind: Kind,
}

/// One waiter of one burst: links, since a request may wait for several.
#[derive(Clone, Copy, Debug)]
struct Link {
    waiter: u32,
    next: u32,
}

/// What the next command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nothing,
    Column(u32),
    Activate(u32),
    /// For a request.
    Precharge(u32),
    /// By the page policy.
    Close(u32),
    /// For a refresh.
    PreAll(u32),
    PreBank(u32),
    RefAll(u32),
    RefBank(u32),
}

/// The next command if nothing arrives before.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clock: u64,
    class: u8,
    age: u64,
    what: What,
    /// Clock at which something else than a command may change the choice.
    wake: u64,
    /// Writes are being served.
    writing: bool,
}

impl Plan {
    #[inline]
    fn offer(&mut self, clock: u64, class: u8, age: u64, what: What) {
        if (clock, class, age) < (self.clock, self.class, self.age) {
            (self.clock, self.class, self.age, self.what) = (clock, class, age, what);
        }
    }
}

/// Counts of a channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelCount {
    /// Requests, and what is counted for requests.
    pub requests: Counters,
    /// Bursts and commands by bank.
    pub banks: Vec<Counters>,
    pub read_latency: Latency,
    pub write_latency: Latency,
    /// Reads and writes on the bus.
    pub columns: u64,
    /// By rank: clocks with an open bank up to the last time there was none.
    pub open_clocks: Vec<u64>,
    /// `REFab` commands.
    pub refresh_all: u64,
}

/// A channel with its devices.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    number: u16,
    /// First clock not processed.
    pub now: u64,
    period: Ps,
    banks: Vec<Bank>,
    open: BankSet,
    open_banks: Vec<u32>,
    open_since: Vec<u64>,
    times: Times,
    queues: Queues,
    inbox: VecDeque<u32>,
    writing: bool,
    due: Vec<u64>,
    owed: Vec<u64>,
    /// Bank of the rank that `REFpb` concerns next.
    turn: Vec<u32>,
    waiters: Vec<Waiter>,
    free_waiters: Vec<u32>,
    links: Vec<Link>,
    free_links: Vec<u32>,
    plan: Option<Plan>,
    pub count: ChannelCount,
    pub done: Vec<Completion>,
    pub log: Option<Vec<Issued>>,
}

/// Device and policy, the same for all channels of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub table: Table,
    pub params: ControllerParams,
    /// 0 for `REFab`, 1 for `REFpb`.
    pub refresh: Option<usize>,
}

impl Rules {
    pub fn new(table: Table, params: ControllerParams) -> Rules {
        let refresh = match params.refresh {
            RefreshMode::Off => None,
            RefreshMode::AllBank => Some(0),
            RefreshMode::PerBank => Some(1),
        };
        Rules {
            table,
            params,
            refresh,
        }
    }

    fn starvation(&self) -> u64 {
        match self.params.starvation {
            0 => NEVER,
            n => n.into(),
        }
    }
}

impl Channel {
    pub fn new(number: u16, period: Ps, r: &Rules) -> Channel {
        let t = &r.table;
        let p = &r.params;
        let per_rank = t.banks / t.ranks;
        let timeout = match p.page {
            Page::Timeout { clocks } => clocks,
            Page::Adaptive { initial, .. } => initial,
            _ => 0,
        };
        let banks = (0..t.banks)
            .map(|b| Bank {
                row: NONE,
                group: (b / t.per_group) as u32,
                rank: (b / per_rank) as u32,
                dirty: false,
                columns: 0,
                last: 0,
                timeout: timeout.into(),
                closed_row: NONE,
            })
            .collect();
        let interval = r.refresh.map_or(0, |i| t.interval[i]);
        let ranks = t.ranks as u64;
        Channel {
            number,
            now: 0,
            period,
            banks,
            open: BankSet::default(),
            open_banks: vec![0; t.ranks],
            open_since: vec![0; t.ranks],
            times: Times::new(t),
            queues: Queues::new([p.read_queue, p.write_queue], t.banks, t.ranks),
            inbox: VecDeque::new(),
            writing: false,
            due: (1..=ranks).map(|k| interval * k / ranks).collect(),
            owed: vec![0; t.ranks],
            turn: vec![0; t.ranks],
            waiters: Vec::new(),
            free_waiters: Vec::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            plan: None,
            count: ChannelCount {
                banks: vec![Counters::default(); t.banks],
                open_clocks: vec![0; t.ranks],
                ..Default::default()
            },
            done: Vec::new(),
            log: None,
        }
    }

    /// Statistics start anew.
    pub fn reset_count(&mut self) {
        let banks = self.banks.len();
        let ranks = self.open_banks.len();
        self.count = ChannelCount {
            banks: vec![Counters::default(); banks],
            open_clocks: vec![0; ranks],
            ..Default::default()
        };
        self.open_since.fill(self.now);
    }

    /// Clocks with an open bank, of all ranks together.
    pub fn open_clocks(&self) -> u64 {
        let until_now = self.open_banks.iter().zip(&self.open_since);
        let running: u64 = until_now
            .filter(|(n, _)| **n > 0)
            .map(|(_, since)| self.now.saturating_sub(*since))
            .sum();
        running + self.count.open_clocks.iter().sum::<u64>()
    }

    /// After a change of rules at clock `now`.
    pub fn changed(&mut self, old: &Rules, new: &Rules) {
        self.plan = None;
        if old.params.page != new.params.page {
            let timeout = match new.params.page {
                Page::Timeout { clocks } => clocks,
                Page::Adaptive { initial, .. } => initial,
                _ => 0,
            };
            for b in &mut self.banks {
                b.timeout = timeout.into();
                b.closed_row = NONE;
            }
        }
        if old.refresh != new.refresh {
            let interval = new.refresh.map_or(0, |i| new.table.interval[i]);
            let ranks = self.due.len() as u64;
            for (k, d) in (1..).zip(&mut self.due) {
                *d = self.now + interval * k / ranks;
            }
            self.owed.fill(0);
            self.turn.fill(0);
        }
    }

    /// No request under way.
    pub fn is_idle(&self) -> bool {
        self.queues.visible == [0; 2] && self.inbox.is_empty()
    }

    /// Clock after which something can have happened.
    pub fn next_clock(&self, r: &Rules) -> Option<u64> {
        let quiet = self.inbox.is_empty() && self.queues.visible[0] == 0;
        // Posted writes may wait for more of them.
        if quiet && !self.mode(&r.params) {
            return None;
        }
        Some(match &self.plan {
            Some(p) => p.clock.min(p.wake).max(self.now) + 1,
            None => self.now + 1,
        })
    }

    /// Clock before which a full queue has no room. The channel stands at the
    /// clock of the arrival.
    pub fn room_clock(&mut self, r: &Rules) -> u64 {
        let p = self.planned(r);
        p.clock.min(p.wake).max(self.now) + 1
    }

    /// There is room for `n` bursts.
    pub fn has_room(&self, kind: Kind, n: u32) -> bool {
        self.queues.room[kind as usize] >= n
    }

    /// Takes a request whose bursts are at `places` with their bytes.
    pub fn push(
        &mut self,
        r: &Rules,
        at: Ps,
        id: u64,
        kind: Kind,
        bytes: u32,
        places: &[(Place, u64)],
    ) {
        self.plan = None;
        let p = &r.params;
        let write = kind == Kind::Write;
        let visible = self.now + u64::from(p.front_delay);
        let waiter = Waiter {
            id,
            arrival: at,
            accepted: visible,
            done: visible,
            left: places.len() as u32,
            hit: true,
            kind,
        };
        let c = &mut self.count.requests;
        let (n, b) = if write {
            (&mut c.writes, &mut c.write_bytes)
        } else {
            (&mut c.reads, &mut c.read_bytes)
        };
        *n += 1;
        *b += u64::from(bytes);
        let w = if write && p.write_done == WriteDone::Accepted {
            self.complete(&waiter, u64::from(p.back_delay));
            NONE
        } else {
            self.new_waiter(waiter)
        };
        let per_rank = (r.table.banks / r.table.ranks) as u32;
        for &(place, mask) in places {
            let bank =
                place.rank * per_rank + place.bank_group * r.table.per_group as u32 + place.bank;
            let (row, column) = (place.row, place.column);
            if !write && p.forward {
                let found = self.find(1, bank, row, column);
                if found.is_some_and(|i| self.queues.slots[i as usize].mask & mask == mask) {
                    self.count.requests.forwarded_reads += 1;
                    self.burst_done(w, visible + 1, true, p.back_delay);
                    continue;
                }
            }
            if if write { p.merge_writes } else { p.merge_reads } {
                if let Some(i) = self.find(usize::from(write), bank, row, column) {
                    let c = &mut self.count.requests;
                    if write {
                        c.merged_writes += 1;
                    } else {
                        c.merged_reads += 1;
                    }
                    self.queues.slots[i as usize].mask |= mask;
                    self.link(i, w);
                    continue;
                }
            }
            let i = self.queues.allocate(Slot {
                next: NONE,
                bank,
                row,
                column,
                seq: 0,
                visible,
                mask,
                waiter: NONE,
                write,
                activated: false,
                precharged: false,
            });
            self.link(i, w);
            if visible == self.now {
                self.queues.push(i, &self.banks[bank as usize]);
            } else {
                self.inbox.push_back(i);
            }
        }
    }

    /// Processes all clocks before `limit`.
    pub fn run(&mut self, limit: u64, r: &Rules) {
        while self.now < limit {
            self.skip_idle(limit, r);
            let p = self.planned(r);
            self.writing = p.writing;
            if p.clock < p.wake {
                if p.clock >= limit {
                    self.now = limit;
                    return;
                }
                self.now = p.clock + 1;
                self.plan = None;
                self.issue(&p, r);
            } else {
                if p.wake >= limit {
                    self.now = limit;
                    return;
                }
                self.now = p.wake;
                self.plan = None;
            }
        }
    }

    /// Long idle times: nothing but refreshes, the same every interval.
    fn skip_idle(&mut self, limit: u64, r: &Rules) {
        let Some(kind) = r.refresh else { return };
        let interval = r.table.interval[kind];
        let span = interval * (r.table.banks as u64 + 2);
        if limit - self.now < 3 * span
            || !self.is_idle()
            || self.log.is_some()
            || self.open_banks.iter().any(|&n| n > 0)
            || self.owed.iter().any(|&n| n > 0)
            || self.times.refreshes_from() > self.now + interval
        {
            return;
        }
        // Whole rounds, then the last rounds one by one, so that all timers
        // of the refreshes stand as they would.
        let round = if kind == 0 {
            interval
        } else {
            interval * (r.table.banks / r.table.ranks) as u64
        };
        let n = (limit - self.now - 2 * span) / round;
        if n == 0 {
            return;
        }
        self.plan = None;
        self.now += n * round;
        self.due.iter_mut().for_each(|d| *d += n * round);
        self.count.banks.iter_mut().for_each(|b| b.refreshes += n);
        if kind == 0 {
            self.count.refresh_all += n * r.table.ranks as u64;
        }
    }

    #[inline]
    fn planned(&mut self, r: &Rules) -> Plan {
        if let Some(p) = self.plan {
            return p;
        }
        let c = self.now;
        while let Some(&i) = self.inbox.front() {
            let s = &self.queues.slots[i as usize];
            if s.visible > c {
                break;
            }
            self.queues.push(i, &self.banks[s.bank as usize]);
            self.inbox.pop_front();
        }
        if let Some(kind) = r.refresh {
            for (due, owed) in self.due.iter_mut().zip(&mut self.owed) {
                while *due <= c {
                    *owed += 1;
                    *due += r.table.interval[kind];
                }
            }
        }
        let p = self.choose(r);
        self.plan = Some(p);
        p
    }

    /// Whether writes are served, given the queues as they are now.
    fn mode(&self, p: &ControllerParams) -> bool {
        let [reads, writes] = self.queues.visible;
        if self.writing {
            writes > 0 && (writes > p.write_low || reads == 0)
        } else {
            writes >= p.write_high || (p.write_when_idle && reads == 0 && writes > 0)
        }
    }

    /// A refresh of the rank is to be issued as soon as possible.
    #[inline]
    fn refreshing(&self, rank: usize, r: &Rules) -> bool {
        let owed = self.owed[rank];
        owed > 0 && (owed > u64::from(r.params.refresh_postpone) || self.queues.by_rank[rank] == 0)
    }

    fn choose(&self, r: &Rules) -> Plan {
        let t = &r.table;
        let mut plan = Plan {
            clock: NEVER,
            class: u8::MAX,
            age: NEVER,
            what: What::Nothing,
            wake: NEVER,
            writing: self.mode(&r.params),
        };
        if let Some(&i) = self.inbox.front() {
            plan.wake = self.queues.slots[i as usize].visible;
        }
        // Bits of ranks whose refresh is to come.
        let mut ranks = 0u32;
        if let Some(kind) = r.refresh {
            for k in 0..t.ranks {
                plan.wake = plan.wake.min(self.due[k]);
                if self.refreshing(k, r) {
                    ranks |= 1 << k;
                    self.offer_refresh(&mut plan, k, kind, t);
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
        let active = self.queues.active[q];
        active.for_each(|i| {
            let b = &self.banks[i];
            if ranks != 0 && blocked(i, b) {
                return;
            }
            self.offer_bank(&mut plan, i, b, q, r);
        });
        if matches!(r.params.page, Page::Timeout { .. } | Page::Adaptive { .. }) {
            self.open.for_each(|i| {
                let b = &self.banks[i];
                if self.queues.lists[q][i].head == NONE && !(ranks != 0 && blocked(i, b)) {
                    let legal = self.times.bank_command(t, i, PRE);
                    let clock = legal.max(b.last + b.timeout).max(self.now);
                    plan.offer(clock, 4, i as u64, What::Close(i as u32));
                }
            });
        }
        plan
    }

    /// Commands for the requests of one bank.
    #[inline]
    fn offer_bank(&self, plan: &mut Plan, i: usize, b: &Bank, q: usize, r: &Rules) {
        let l = &self.queues.lists[q][i];
        let head = &self.queues.slots[l.head as usize];
        let limit = r.starvation();
        let mut starving = false;
        if limit != NEVER {
            let deadline = head.visible + limit;
            starving = deadline <= self.now;
            if !starving {
                plan.wake = plan.wake.min(deadline);
            }
        }
        let legal = |c| {
            self.times
                .known(i, b.group as usize, b.rank as usize, c)
                .max(self.now)
        };
        let other = match r.params.order {
            _ if starving => 1,
            Order::HitFirst => 3,
            Order::AgeFirst => 2,
        };
        if b.row == NONE {
            return plan.offer(legal(ACT), other, head.seq, What::Activate(l.head));
        }
        let cap = r.params.hit_cap;
        let capped = starving || (cap > 0 && b.columns >= cap);
        if l.hit != NONE && (l.head == l.hit || !capped) {
            let class = if starving { 1 } else { 2 };
            let seq = self.queues.slots[l.hit as usize].seq;
            plan.offer(legal(RD + q), class, seq, What::Column(l.hit));
        }
        if l.head != l.hit && (l.hit == NONE || capped || !r.params.keep_rows) {
            plan.offer(legal(PRE), other, head.seq, What::Precharge(l.head));
        }
    }

    fn refresh_bank(&self, rank: usize, t: &Table) -> usize {
        rank * (t.banks / t.ranks) + self.turn[rank] as usize
    }

    fn offer_refresh(&self, plan: &mut Plan, rank: usize, kind: usize, t: &Table) {
        let (clock, what) = if kind == 0 {
            if self.open_banks[rank] > 0 {
                let per_rank = t.banks / t.ranks;
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
        };
        plan.offer(clock.max(self.now), 0, rank as u64, what);
    }

    fn issue(&mut self, p: &Plan, r: &Rules) {
        let t = &r.table;
        let c = p.clock;
        match p.what {
            What::Nothing => {}
            What::Column(i) => self.issue_column(i, c, r),
            What::Activate(i) => {
                let s = &mut self.queues.slots[i as usize];
                s.activated = true;
                let (bank, row) = (s.bank, s.row);
                let b = &mut self.banks[bank as usize];
                if let Page::Adaptive { max, .. } = r.params.page {
                    if b.closed_row == row {
                        b.timeout = (2 * b.timeout).min(max.into());
                    }
                    b.closed_row = NONE;
                }
                b.row = row;
                b.dirty = false;
                b.columns = 0;
                b.last = c;
                let rank = b.rank as usize;
                if self.open_banks[rank] == 0 {
                    self.open_since[rank] = c;
                }
                self.open_banks[rank] += 1;
                self.open.insert(bank);
                self.queues.opened(bank, row);
                self.count.banks[bank as usize].activations += 1;
                self.times.issue(t, ACT, bank as usize, c, false);
                self.log_bank(Command::Act, bank, row, 0, c, t);
            }
            What::Precharge(i) => {
                let s = &mut self.queues.slots[i as usize];
                s.precharged = true;
                let bank = s.bank;
                if let Page::Adaptive { min, .. } = r.params.page {
                    let b = &mut self.banks[bank as usize];
                    b.timeout = (b.timeout / 2).max(min.into());
                }
                self.precharge(bank, c, t);
            }
            What::Close(bank) => {
                let b = &mut self.banks[bank as usize];
                b.closed_row = b.row;
                self.precharge(bank, c, t);
            }
            What::PreBank(bank) => self.precharge(bank, c, t),
            What::PreAll(rank) => {
                let per_rank = t.banks / t.ranks;
                let first = rank as usize * per_rank;
                for b in first..first + per_rank {
                    if self.banks[b].row != NONE {
                        let dirty = self.banks[b].dirty;
                        self.times.issue(t, PRE, b, c, dirty);
                        self.close(b as u32, c);
                    }
                }
                self.times.issue(t, PREA, first, c, false);
                self.log_rank(Command::PreAll, rank, c);
            }
            What::RefAll(rank) => {
                let per_rank = t.banks / t.ranks;
                let first = rank as usize * per_rank;
                self.owed[rank as usize] -= 1;
                for b in &mut self.count.banks[first..first + per_rank] {
                    b.refreshes += 1;
                }
                self.count.refresh_all += 1;
                self.times.issue(t, REFA, first, c, false);
                self.log_rank(Command::RefAll, rank, c);
            }
            What::RefBank(bank) => {
                let rank = self.banks[bank as usize].rank as usize;
                self.owed[rank] -= 1;
                self.turn[rank] = (self.turn[rank] + 1) % (t.banks / t.ranks) as u32;
                self.count.banks[bank as usize].refreshes += 1;
                self.times.issue(t, REFB, bank as usize, c, false);
                self.log_bank(Command::RefBank, bank, 0, 0, c, t);
            }
        }
    }

    fn issue_column(&mut self, i: u32, c: u64, r: &Rules) {
        let t = &r.table;
        let s = self.queues.slots[i as usize];
        let q = usize::from(s.write);
        let bank = s.bank as usize;
        let auto = match r.params.page {
            Page::ClosedAlways => true,
            Page::Closed => self.queues.lists[q][bank].hits == 1,
            _ => false,
        };
        let b = &mut self.banks[bank];
        b.dirty |= s.write;
        b.columns += 1;
        b.last = c;
        let (dirty, rank) = (b.dirty, b.rank);
        self.times.issue(t, RD + q, bank, c, dirty);
        self.queues.remove(i, rank);
        let n = &mut self.count.banks[bank];
        let bytes = u64::from(s.mask.count_ones());
        if s.write {
            n.writes += 1;
            n.write_bytes += bytes;
        } else {
            n.reads += 1;
            n.read_bytes += bytes;
        }
        match (s.activated, s.precharged) {
            (_, true) => n.row_conflicts += 1,
            (true, false) => n.row_misses += 1,
            (false, false) => n.row_hits += 1,
        }
        self.count.columns += 1;
        let op = match (s.write, auto) {
            (false, false) => Command::Rd,
            (false, true) => Command::RdA,
            (true, false) => Command::Wr,
            (true, true) => Command::WrA,
        };
        self.log_bank(op, s.bank, s.row, s.column, c, t);
        if auto {
            let start = self.times.auto_precharge(bank, c);
            self.times.issue(t, PRE, bank, start, dirty);
            self.close(s.bank, c);
        }
        let data = if s.write { t.write_data } else { t.read_data };
        let hit = !s.activated && !s.precharged;
        let mut l = s.waiter;
        while l != NONE {
            let Link { waiter, next } = self.links[l as usize];
            self.free_links.push(l);
            self.burst_done(waiter, c + data, hit, r.params.back_delay);
            l = next;
        }
    }

    fn precharge(&mut self, bank: u32, c: u64, t: &Table) {
        let Bank { row, dirty, .. } = self.banks[bank as usize];
        self.times.issue(t, PRE, bank as usize, c, dirty);
        self.log_bank(Command::Pre, bank, row, 0, c, t);
        self.close(bank, c);
    }

    fn close(&mut self, bank: u32, c: u64) {
        let b = &mut self.banks[bank as usize];
        b.row = NONE;
        let rank = b.rank as usize;
        let n = &mut self.count.banks[bank as usize];
        if b.dirty {
            n.precharges_dirty += 1;
        } else {
            n.precharges_clean += 1;
        }
        self.open.remove(bank);
        self.open_banks[rank] -= 1;
        if self.open_banks[rank] == 0 {
            self.count.open_clocks[rank] += c - self.open_since[rank];
        }
        self.queues.closed(bank);
    }

    #[inline]
    fn log_bank(&mut self, op: Command, bank: u32, row: u32, column: u32, clock: u64, t: &Table) {
        let Some(log) = &mut self.log else { return };
        let b = &self.banks[bank as usize];
        let groups = t.groups / t.ranks;
        log.push(Issued {
            clock,
            op,
            channel: self.number,
            rank: b.rank as u8,
            bank_group: (b.group as usize % groups) as u8,
            bank: (bank as usize % t.per_group) as u8,
            row,
            column,
        });
    }

    fn log_rank(&mut self, op: Command, rank: u32, clock: u64) {
        if let Some(log) = &mut self.log {
            log.push(Issued {
                clock,
                op,
                channel: self.number,
                rank: rank as u8,
                bank_group: 0,
                bank: 0,
                row: 0,
                column: 0,
            });
        }
    }
}

const _: () = assert!(WR == RD + 1, "queue 1 is that of writes");
