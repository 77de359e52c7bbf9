//! One channel: queues, scheduler, refresh and page policy in one clock rule.
//! See the rules of a clock in the [module](super) documentation.

mod candidates;
mod choose;
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
    /// Requests have come since the plan was looked at: from outside it is as if there were none.
    pushed: bool,
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
    /// Rows are closed by no time-out.
    no_timeout: bool,
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
            no_timeout,
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
            pushed: false,
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
        Some(if self.is_planned && !self.pushed {
            self.plan.clock.min(self.plan.wake).max(self.now) + 1
        } else {
            self.now + 1
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
        self.pushed = true;
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
}

const _: () = assert!(WR == RD + 1, "queue 1 is that of writes");
