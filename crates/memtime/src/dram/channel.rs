//! One channel: queues, scheduler, refresh and page policy in one clock rule.
//! See the rules of a clock in the [module](super) documentation.

mod candidates;
mod dramsim3;
mod issue;
mod pause;
mod peer;
mod promise;
mod ramulator2;
pub(crate) mod saved;
mod waiters;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::bank::{Bank, BankSet, Queues, Slot, NONE};
use super::mapping::Place;
use super::params::{Blocks, ControllerParams, Order, Page, RefreshMode, Scheduler, WriteDone};
use super::spec::{Command, RowState, Scope};
use super::timing::{self, Table, Times, ACT, PRE, PREA, RD, REFA, REFB, WR};
use super::Issued;
use crate::error::Error;
use crate::model::{Counters, Latency};
use crate::period::Period;
use crate::request::{Completion, Kind};
use crate::units::Ps;

use candidates::{Candidates, Reach};
use peer::{bank_of, Peer};

/// Later than any time.
const NEVER: u64 = u64::MAX;

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    id: u64,
    arrival: Ps,
    accepted: u64,
    /// Latest end of its bursts.
    done: u64,
    /// Number of its bursts that are not finished.
    left: u32,
    hit: bool,
    kind: Kind,
}

/// One request that waits for one burst: an entry of a linked list, since a request may wait for
/// several bursts.
#[derive(Clone, Copy, Debug)]
struct Link {
    waiter: u32,
    next: u32,
}

/// Purpose of the next command.
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
    Pause(u32),
    Resume(u32),
}

/// The next command if nothing arrives before.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clock: u64,
    class: u8,
    age: u64,
    what: What,
    /// Clock at which something other than a command may change the choice.
    wake: u64,
    /// Writes are being served.
    writing: bool,
    /// The kept commands of the banks are all that could be issued.
    kept: bool,
}

impl Plan {
    /// No command, but something else at clock `wake`.
    fn nothing(wake: u64, writing: bool) -> Plan {
        Plan {
            clock: NEVER,
            class: u8::MAX,
            age: NEVER,
            what: What::Nothing,
            wake,
            writing,
            kept: false,
        }
    }

    #[inline]
    fn offer(&mut self, clock: u64, class: u8, age: u64, what: What) {
        if (clock, class, age) < (self.clock, self.class, self.age) {
            (self.clock, self.class, self.age, self.what) = (clock, class, age, what);
        }
    }
}

/// Counts of a channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelCount {
    /// Counts of requests.
    pub requests: Counters,
    /// Counts of bursts and commands by bank.
    pub banks: Vec<Counters>,
    pub read_latency: Latency,
    pub write_latency: Latency,
    /// Reads and writes transferred on the bus.
    pub columns: u64,
    /// By rank: number of clocks with an open bank, up to the last time when all were closed.
    pub open_clocks: Vec<u64>,
    /// `REFab` commands.
    pub refresh_all: u64,
    /// By bank: number of clocks in which a cell write was paused, up to its last resumption.
    pub paused_clocks: Vec<u64>,
}

/// A channel with its devices.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    number: u16,
    /// First clock not processed.
    pub now: u64,
    period: Period,
    banks: Vec<Bank>,
    open: BankSet,
    open_banks: Vec<u32>,
    open_since: Vec<u64>,
    /// By bank, if the device can pause its cell writes.
    cells: Vec<pause::Cell>,
    /// Banks whose cell write is paused.
    paused: BankSet,
    /// Clock at which the statistics begin.
    count_from: u64,
    times: Times,
    queues: Queues,
    peer: Peer,
    candidates: Candidates,
    inbox: VecDeque<u32>,
    writing: bool,
    /// Writes are served at once, without waiting for more of them.
    flushing: bool,
    /// End of the last write: of its data, or of its cell write.
    written: u64,
    /// Before this clock no refresh is due, and none is owed now.
    calm: u64,
    due: Vec<u64>,
    owed: Vec<u64>,
    /// Bank of the rank that the next `REFpb` refreshes.
    turn: Vec<u32>,
    waiters: Vec<Waiter>,
    free_waiters: Vec<u32>,
    links: Vec<Link>,
    free_links: Vec<u32>,
    /// Ids of the writes in the bursts, with the next of the same burst.
    writers: Vec<(u64, u32)>,
    free_writers: Vec<u32>,
    /// Holds if `is_planned`.
    plan: Plan,
    is_planned: bool,
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
    /// If every bank has one possible next command, which are then kept from clock to clock.
    reach: Option<Reach>,
    /// These are all commands that there can be, as long as no refresh is owed.
    keeps: bool,
    /// Idle clocks that are passed refresh by refresh.
    idle: u64,
}

impl Rules {
    pub fn new(mut table: Table, params: ControllerParams) -> Rules {
        if params.scheduler == Scheduler::Dramsim3 {
            // It counts intervals of one rank after the other.
            let ranks = table.ranks as u64;
            table.interval[0] = table.interval[0] / ranks * ranks;
        }
        let refresh = match params.refresh {
            RefreshMode::Off => None,
            RefreshMode::AllBank => Some(0),
            RefreshMode::PerBank => Some(1),
        };
        let one = Rules::one_command_a_bank(&params, &table);
        let reach = one.then(|| Reach::new(&table)).flatten();
        let no_timeout = !matches!(params.page, Page::Timeout { .. } | Page::Adaptive { .. });
        Rules {
            keeps: reach.is_some() && no_timeout,
            reach,
            idle: refresh.map_or(u64::MAX, |kind| 3 * idle_span(&table, kind)),
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

/// Intervals in which all banks are refreshed, and two more.
fn idle_span(t: &Table, kind: usize) -> u64 {
    t.interval[kind] * (t.banks as u64 + 2)
}

impl Channel {
    pub fn new(number: u16, period: Period, r: &Rules) -> Channel {
        let t = &r.table;
        let p = &r.params;
        let per_rank = t.per_rank;
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
        Channel {
            number,
            now: 0,
            period,
            banks,
            open: BankSet::default(),
            open_banks: vec![0; t.ranks],
            open_since: vec![0; t.ranks],
            cells: match t.cell {
                Some(_) => vec![Default::default(); t.banks],
                None => Vec::new(),
            },
            paused: BankSet::default(),
            count_from: 0,
            times: Times::new(t),
            queues: Queues::new([p.read_queue, p.write_queue], r.beside(), t.banks, t.ranks),
            peer: Peer::new(r),
            candidates: Candidates::new(t.banks),
            inbox: VecDeque::new(),
            writing: false,
            flushing: false,
            written: 0,
            calm: 0,
            due: r.first_due(0),
            owed: vec![0; t.ranks],
            turn: vec![0; t.ranks],
            waiters: Vec::new(),
            free_waiters: Vec::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            writers: Vec::new(),
            free_writers: Vec::new(),
            plan: Plan::nothing(NEVER, false),
            is_planned: false,
            count: ChannelCount {
                banks: vec![Counters::default(); t.banks],
                open_clocks: vec![0; t.ranks],
                paused_clocks: vec![0; t.banks],
                ..Default::default()
            },
            done: Vec::new(),
            log: None,
        }
    }

    /// Resets the statistics.
    pub fn reset_count(&mut self) {
        let banks = self.banks.len();
        let ranks = self.open_banks.len();
        self.count = ChannelCount {
            banks: vec![Counters::default(); banks],
            open_clocks: vec![0; ranks],
            paused_clocks: vec![0; banks],
            ..Default::default()
        };
        self.count_from = self.now;
        self.open_since.fill(self.now);
    }

    /// Number of clocks with an open bank, summed over all ranks.
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
        self.calm = 0;
        self.is_planned = false;
        self.candidates.forget();
        self.peer.settled = false;
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
            self.due = new.first_due(self.now);
            self.owed.fill(0);
            self.turn.fill(0);
        }
    }

    /// Whether no request is outstanding.
    pub fn is_idle(&self) -> bool {
        self.queues.visible == [0; 2] && self.inbox.is_empty()
    }

    /// From now on writes do not wait for more of them, and rows that must be closed for their
    /// cells to be written are closed.
    pub fn begin_flush(&mut self) {
        self.flushing = true;
        self.peer.settled = false;
        self.is_planned = false;
    }

    /// Ends this; returns the end of the last write.
    pub fn end_flush(&mut self) -> u64 {
        self.flushing = false;
        self.is_planned = false;
        self.written
    }

    /// Whether a row waits for its cell write, or a cell write for its resumption.
    fn is_unwritten(&self, t: &Table) -> bool {
        let mut dirty = false;
        if t.close_written > 0 {
            self.open.for_each(|i| dirty |= self.banks[i].dirty);
        }
        dirty || !self.paused.is_empty()
    }

    /// The earliest clock after which something can have happened.
    pub fn next_clock(&self, r: &Rules) -> Option<u64> {
        if r.params.scheduler != Scheduler::General {
            return self.peer_next_clock(r);
        }
        let quiet = self.inbox.is_empty() && self.queues.visible[0] == 0;
        // Posted writes may wait for more of them.
        if quiet && !self.mode(&r.params) && !(self.flushing && self.is_unwritten(&r.table)) {
            return None;
        }
        Some(match self.is_planned {
            true => self.plan.clock.min(self.plan.wake).max(self.now) + 1,
            false => self.now + 1,
        })
    }

    /// Clock before which a full queue has no room. The channel must have been advanced to the
    /// clock of the arrival.
    pub fn room_clock(&mut self, r: &Rules) -> u64 {
        let (clock, wake) = self.planned(r);
        if self.is_unsettled(r) {
            return self.now + 1;
        }
        clock.min(wake).max(self.now) + 1
    }

    /// Whether the channel has this number.
    pub fn is(&self, number: u32) -> bool {
        u32::from(self.number) == number
    }

    /// Whether there is room for `n` bursts.
    pub fn has_room(&self, kind: Kind, n: u32) -> bool {
        self.queues.room[kind as usize] >= n
    }

    /// Accepts a request whose bursts have the coordinates `places`, with their bytes.
    pub fn push(
        &mut self,
        r: &Rules,
        at: Ps,
        id: u64,
        kind: Kind,
        bytes: u32,
        places: &[(Place, u64)],
    ) {
        if places.len() > 1 || !self.plan.kept {
            self.is_planned = false;
        }
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
            // DRAMsim3 reports it in the next clock.
            let next = u64::from(p.scheduler == Scheduler::Dramsim3);
            self.complete(&waiter, u64::from(p.back_delay) + next);
            NONE
        } else {
            self.new_waiter(waiter)
        };
        for &(place, mask) in places {
            let bank = bank_of(&place, &r.table);
            let (row, column) = (place.row, place.column);
            if !write && p.forward {
                let found = self.find(1, bank, row, column);
                if found.is_some_and(|i| self.queues.slots[i as usize].mask & mask == mask) {
                    self.count.requests.forwarded_reads += 1;
                    let lag = u64::from(p.scheduler != Scheduler::Ramulator2);
                    self.burst_done(w, visible + lag, true, p.back_delay);
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
                    self.write_in(i, id);
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
                writer: NONE,
                write,
                activated: false,
                precharged: false,
            });
            self.link(i, w);
            self.write_in(i, id);
            if visible == self.now {
                self.enter(i, r);
                if self.is_planned {
                    self.is_planned = self.plan_with(bank, r);
                }
            } else {
                self.inbox.push_back(i);
                self.plan.wake = self.plan.wake.min(visible);
            }
        }
    }

    /// Processes all clocks before `limit`.
    pub fn run(&mut self, limit: u64, r: &Rules) {
        if r.params.scheduler == Scheduler::Dramsim3 {
            return self.run_dramsim3(limit, r);
        }
        while self.now < limit {
            self.skip_idle(limit, r);
            let (clock, wake) = self.planned(r);
            self.writing = self.plan.writing;
            if clock.min(wake) >= limit {
                self.now = limit;
                return;
            }
            self.is_planned = false;
            if clock < wake {
                self.now = clock + 1;
                self.issue(self.plan.what, clock, r);
            } else {
                self.now = wake;
            }
        }
    }

    /// Skips long idle times, in which refreshes repeat in every interval.
    #[inline]
    fn skip_idle(&mut self, limit: u64, r: &Rules) {
        if limit - self.now >= r.idle && self.is_idle() {
            self.skip_refreshes(limit, r);
        }
    }

    fn skip_refreshes(&mut self, limit: u64, r: &Rules) {
        let Some(kind) = r.refresh else { return };
        let interval = r.table.interval[kind];
        let span = idle_span(&r.table, kind);
        if self.log.is_some()
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
        self.is_planned = false;
        self.calm = 0;
        self.now += n * round;
        self.due.iter_mut().for_each(|d| *d += n * round);
        self.count.banks.iter_mut().for_each(|b| b.refreshes += n);
        if kind == 0 {
            self.count.refresh_all += n * r.table.ranks as u64;
        }
    }

    /// When the next command is issued if nothing arrives before, and when something else may change
    /// that. `self.plan` is made if it is not there.
    #[inline]
    fn planned(&mut self, r: &Rules) -> (u64, u64) {
        if !self.is_planned {
            self.make_plan(r);
        }
        (self.plan.clock, self.plan.wake)
    }

    fn make_plan(&mut self, r: &Rules) {
        self.is_planned = true;
        if self.now >= self.calm || !self.inbox.is_empty() {
            self.look_around(r);
        }
        let kept = r.keeps && self.now < self.calm && !self.flushing;
        if !(kept && self.plan_kept(self.calm, r)) {
            self.plan = self.choose_any(r);
        }
    }

    /// Sees what has arrived, and which refreshes are due.
    #[inline(never)]
    fn look_around(&mut self, r: &Rules) {
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
    fn choose_any(&self, r: &Rules) -> Plan {
        match r.params.scheduler {
            Scheduler::General => self.choose(r),
            Scheduler::Ramulator2 => self.choose_ramulator2(r),
            Scheduler::Dramsim3 => self.choose_dramsim3(r),
        }
    }

    /// Whether writes are served, given the present queues.
    fn mode(&self, p: &ControllerParams) -> bool {
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
    fn refreshing(&self, rank: usize, r: &Rules) -> bool {
        let owed = self.owed[rank];
        owed > 0 && (owed > u64::from(r.params.refresh_postpone) || self.queues.by_rank[rank] == 0)
    }

    fn choose(&self, r: &Rules) -> Plan {
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
        if matches!(r.params.page, Page::Timeout { .. } | Page::Adaptive { .. }) {
            self.open.for_each(|i| {
                let b = &self.banks[i];
                let idle = self.queues.lists[q][i].head == NONE;
                let free = self.promised(i, b, q).is_none() && !self.is_paused(i);
                if idle && !(ranks != 0 && blocked(i, b)) && free {
                    let legal = self.times.bank_command(t, i, PRE);
                    let clock = legal.max(b.last + b.timeout).max(self.now);
                    plan.offer(clock, 4, i as u64, What::Close(i as u32));
                }
            });
        }
        plan
    }

    /// Candidate commands for the requests of one bank.
    #[inline]
    fn offer_bank(&self, plan: &mut Plan, i: usize, b: &Bank, q: usize, r: &Rules) {
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
    fn legal(&self, i: usize, b: &Bank, c: usize) -> u64 {
        self.times
            .known(i, b.group as usize, b.rank as usize, c)
            .max(self.now)
    }

    #[inline]
    fn is_paused(&self, bank: usize) -> bool {
        self.cells.get(bank).is_some_and(|c| c.is_paused())
    }

    /// Candidate commands for the oldest request of a closed bank.
    #[inline]
    fn offer_closed(&self, plan: &mut Plan, i: usize, b: &Bank, q: usize, class: u8, r: &Rules) {
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
    fn older_queue(&self, bank: usize) -> usize {
        let head = |q: usize| match self.queues.lists[q][bank].head {
            NONE => NEVER,
            i => self.queues.slots[i as usize].seq,
        };
        usize::from(head(1) < head(0))
    }

    /// Age of the oldest request if it has waited for `limit`; the plan records when the next one
    /// will have.
    fn overdue(&self, plan: &mut Plan, limit: u64) -> Option<u64> {
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
    fn offer_overdue(
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

    fn refresh_bank(&self, rank: usize, t: &Table) -> usize {
        rank * t.per_rank + self.turn[rank] as usize
    }

    fn offer_refresh(&self, plan: &mut Plan, rank: usize, kind: usize, t: &Table) {
        let (clock, what) = self.refresh_step(rank, kind, t);
        plan.offer(clock.max(self.now), 0, rank as u64, what);
    }

    /// The next command for a refresh of the rank, and when the rules allow it.
    fn refresh_step(&self, rank: usize, kind: usize, t: &Table) -> (u64, What) {
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

const _: () = assert!(WR == RD + 1, "queue 1 is that of writes");
