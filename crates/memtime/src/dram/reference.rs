//! The rules of the module documentation, clock by clock, as plainly as
//! possible: no lists by bank, no next-legal times. Rules are looked up in the
//! device's own table against the history of commands.

mod cells;

use super::mapping::Place;
use super::params::{Blocks, ControllerParams, Order, Page, RefreshMode, WriteDone};
use super::spec::{Command, DeviceSpec, RowState, Scope};
use super::Issued;
use crate::period::Period;
use crate::request::{Completion, Kind};
use crate::units::Ps;

struct Past {
    op: Command,
    rank: u32,
    group: u32,
    bank: u32,
    clock: u64,
    dirty: bool,
}

struct Rule {
    prev: Command,
    next: Command,
    scope: Scope,
    latency: u64,
    window: usize,
    row: RowState,
}

struct Row {
    row: u32,
    dirty: bool,
    columns: u32,
    last: u64,
}

#[derive(Default)]
struct Bank {
    open: Option<Row>,
    timeout: u64,
    closed_row: Option<u32>,
}

/// The cell write of a bank, clock by clock.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Clocks before the next iteration begins: closing, or the overhead.
    lead: u64,
    /// Clocks of the write that remain.
    left: u64,
    /// Clocks of the write done since its beginning or resumption.
    done: u64,
    /// Stops after that many of them.
    stop: Option<u64>,
    stands: bool,
    pauses: u32,
    /// Clock of the precharge; progress is counted from the next clock on.
    from: u64,
}

struct Burst {
    seq: u64,
    place: Place,
    write: bool,
    visible: u64,
    mask: u64,
    requests: Vec<usize>,
    activated: bool,
    precharged: bool,
}

struct Waiting {
    c: Completion,
    left: usize,
    done: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Do {
    Column(usize),
    Act(usize),
    Pre(usize),
    Close(usize),
    PreRefresh(usize),
    PreAll(u32),
    RefAll(u32),
    RefBank(usize),
    Pause(usize),
    Resume(usize),
}

/// One channel, clock by clock.
pub struct Reference {
    p: ControllerParams,
    period: Period,
    rules: Vec<Rule>,
    longest: u64,
    read_data: u64,
    write_data: u64,
    interval: u64,
    groups: u32,
    per_group: u32,
    ranks: u32,
    /// Clocks of closing a clean row; length, iteration and overhead of a cell write.
    pausing: Option<[u64; 4]>,
    cells: Vec<Cell>,
    past: Vec<Past>,
    banks: Vec<Bank>,
    queue: Vec<Burst>,
    waiting: Vec<Waiting>,
    next_seq: u64,
    writing: bool,
    due: Vec<u64>,
    owed: Vec<u64>,
    turn: Vec<u32>,
    pub now: u64,
    pub log: Vec<Issued>,
    pub done: Vec<Completion>,
    pub open_clocks: u64,
    pub paused_clocks: u64,
}

impl Reference {
    pub fn new(d: &DeviceSpec, p: &ControllerParams) -> Reference {
        let t = d.resolve_timings().unwrap();
        let clocks = |e| u64::from(d.clocks("", e, &t).unwrap());
        // Where cell writes can be paused, they are kept apart from the rules.
        let cells = |r: &super::spec::Rule| {
            d.write_pause.is_some()
                && (r.prev, r.next, r.scope) == (Command::Pre, Command::Act, Scope::Bank)
        };
        let rules: Vec<Rule> = d
            .rules
            .iter()
            .filter(|r| !(cells(r) && r.row == RowState::Dirty))
            .map(|r| Rule {
                prev: r.prev,
                next: r.next,
                scope: r.scope,
                latency: clocks(&r.latency),
                window: r.window as usize,
                row: if cells(r) { RowState::Any } else { r.row },
            })
            .collect();
        let o = &d.organisation;
        let kind = match p.refresh {
            RefreshMode::Off => None,
            RefreshMode::AllBank => Some(Command::RefAll),
            RefreshMode::PerBank => Some(Command::RefBank),
        };
        let interval = d.refresh.iter().find(|r| Some(r.command) == kind);
        let interval = interval.map_or(0, |r| clocks(&r.interval));
        let ranks = u64::from(o.ranks);
        let timeout = match p.page {
            Page::Timeout { clocks } => clocks,
            Page::Adaptive { initial, .. } => initial,
            _ => 0,
        };
        Reference {
            period: d.clock,
            longest: rules.iter().map(|r| r.latency).max().unwrap(),
            rules,
            read_data: clocks(&d.read_data),
            write_data: clocks(&d.write_data),
            interval,
            groups: o.bank_groups,
            per_group: o.banks_per_group,
            ranks: o.ranks,
            pausing: d.write_pause.as_ref().map(|w| {
                let after = |state: RowState| {
                    let of_bank = d.rules.iter().filter(|r| {
                        (r.prev, r.next, r.scope) == (Command::Pre, Command::Act, Scope::Bank)
                            && (r.row == RowState::Any || r.row == state)
                    });
                    of_bank.map(|r| clocks(&r.latency)).max().unwrap()
                };
                let (clean, dirty) = (after(RowState::Clean), after(RowState::Dirty));
                [
                    clean,
                    dirty - clean,
                    clocks(&w.granularity),
                    clocks(&w.overhead),
                ]
            }),
            cells: vec![Cell::default(); (o.ranks * o.banks()) as usize],
            past: Vec::new(),
            banks: (0..o.ranks * o.banks())
                .map(|_| Bank {
                    timeout: timeout.into(),
                    ..Default::default()
                })
                .collect(),
            queue: Vec::new(),
            waiting: Vec::new(),
            next_seq: 0,
            writing: false,
            due: (1..=ranks).map(|k| interval * k / ranks).collect(),
            owed: vec![0; o.ranks as usize],
            turn: vec![0; o.ranks as usize],
            now: 0,
            log: Vec::new(),
            done: Vec::new(),
            open_clocks: 0,
            paused_clocks: 0,
            p: p.clone(),
        }
    }

    fn number(&self, p: &Place) -> usize {
        ((p.rank * self.groups + p.bank_group) * self.per_group + p.bank) as usize
    }

    fn place(&self, bank: usize) -> (u32, u32, u32) {
        let b = bank as u32;
        let per_rank = self.groups * self.per_group;
        let group = b % per_rank / self.per_group;
        (b / per_rank, group, b % self.per_group)
    }

    /// Submits at the clock `now`; false if there is no room.
    pub fn submit(&mut self, at: Ps, id: u64, kind: Kind, places: &[(Place, u64)]) -> bool {
        let write = kind == Kind::Write;
        let used = self.queue.iter().filter(|b| b.write == write).count();
        let room = if write {
            self.p.write_queue
        } else {
            self.p.read_queue
        };
        if used + places.len() > room as usize {
            return false;
        }
        let visible = self.now + u64::from(self.p.front_delay);
        let c = Completion {
            id,
            kind,
            accepted_at: self.period.edge(visible),
            done_at: at,
            row_hit: true,
        };
        let w = self.waiting.len();
        let posted = write && self.p.write_done == WriteDone::Accepted;
        self.waiting.push(Waiting {
            c,
            left: places.len(),
            done: visible,
        });
        if posted {
            self.waiting[w].left = 1;
            self.end(w, visible, true);
        }
        for &(place, mask) in places {
            let same = |b: &&mut Burst, q: bool| b.write == q && b.place == place;
            if !write && self.p.forward {
                if let Some(b) = self.queue.iter_mut().find(|b| same(b, true)) {
                    if b.mask & mask == mask {
                        self.end(w, visible + 1, true);
                        continue;
                    }
                }
            }
            let merge = if write {
                self.p.merge_writes
            } else {
                self.p.merge_reads
            };
            if merge {
                if let Some(b) = self.queue.iter_mut().find(|b| same(b, write)) {
                    b.mask |= mask;
                    if !posted {
                        b.requests.push(w);
                    }
                    continue;
                }
            }
            self.queue.push(Burst {
                seq: self.next_seq,
                place,
                write,
                visible,
                mask,
                requests: if posted { vec![] } else { vec![w] },
                activated: false,
                precharged: false,
            });
            self.next_seq += 1;
        }
        true
    }

    fn end(&mut self, w: usize, clock: u64, hit: bool) {
        let x = &mut self.waiting[w];
        x.done = x.done.max(clock);
        x.c.row_hit &= hit;
        x.left -= 1;
        if x.left == 0 {
            let back = u64::from(self.p.back_delay);
            x.c.done_at = self.period.edge(x.done + back);
            self.done.push(x.c);
        }
    }

    fn legal(&self, op: Command, rank: u32, bank: Option<usize>) -> bool {
        let (_, group, number) = bank.map_or((0, 0, 0), |b| self.place(b));
        self.rules.iter().filter(|r| r.next == op).all(|r| {
            let meets = |e: &&Past| {
                let wide = e.op.rank_wide() || op.rank_wide();
                let state = match r.row {
                    RowState::Any => true,
                    RowState::Clean => !e.dirty,
                    RowState::Dirty => e.dirty,
                };
                let here = match r.scope {
                    Scope::Bank => e.rank == rank && (wide || (e.group, e.bank) == (group, number)),
                    Scope::BankGroup => e.rank == rank && (wide || e.group == group),
                    Scope::OtherBankGroup => e.rank == rank && e.group != group,
                    Scope::Rank => e.rank == rank,
                    Scope::OtherRank => e.rank != rank,
                    Scope::Channel => true,
                };
                e.op == r.prev && state && here
            };
            let until = if r.window == 1 {
                let all = self.past.iter().filter(meets);
                all.map(|e| e.clock + r.latency).max()
            } else {
                let mut last = self.past.iter().rev().filter(meets);
                last.nth(r.window - 1).map(|e| e.clock + r.latency)
            };
            until.is_none_or(|u| u <= self.now)
        })
    }

    fn legal_bank(&self, op: Command, bank: usize) -> bool {
        self.legal(op, self.place(bank).0, Some(bank))
    }

    fn record(&mut self, op: Command, bank: usize, clock: u64, dirty: bool) {
        let (rank, group, bank) = self.place(bank);
        self.past.push(Past {
            op,
            rank,
            group,
            bank,
            clock,
            dirty,
        });
    }

    fn issued(&mut self, op: Command, bank: usize, row: u32, column: u32) {
        let (rank, group, number) = self.place(bank);
        let wide = op.rank_wide();
        self.log.push(Issued {
            clock: self.now,
            op,
            channel: 0,
            rank: rank as u8,
            bank_group: if wide { 0 } else { group as u8 },
            bank: if wide { 0 } else { number as u8 },
            row,
            column,
        });
    }

    /// Processes the clock `now`.
    pub fn step(&mut self) {
        let c = self.now;
        let longest = self.longest;
        self.past.retain(|e| e.clock + longest > c);
        if self.interval > 0 {
            for (due, owed) in self.due.iter_mut().zip(&mut self.owed) {
                if c >= *due {
                    *due += self.interval;
                    *owed += 1;
                }
            }
        }
        let count = |w| {
            let seen = self.queue.iter().filter(|b| b.visible <= c);
            seen.filter(|b| b.write == w).count() as u32
        };
        let (reads, writes) = (count(false), count(true));
        let p = &self.p;
        if self.writing {
            if writes == 0 || (writes <= p.write_low && reads > 0) {
                self.writing = false;
            }
        } else if writes >= p.write_high || (p.write_when_idle && reads == 0 && writes > 0) {
            self.writing = true;
        }
        let best = self.candidates().into_iter().min_by_key(|x| (x.0, x.1));
        if let Some((_, _, what)) = best {
            self.execute(what);
        }
        for r in 0..self.ranks as usize {
            let per = self.banks.len() / self.ranks as usize;
            let open = self.banks[r * per..(r + 1) * per].iter();
            self.open_clocks += u64::from(open.into_iter().any(|b| b.open.is_some()));
        }
        self.paused_clocks += self.cells.iter().filter(|c| c.stands).count() as u64;
        self.write_cells();
        self.now += 1;
    }

    fn candidates(&self) -> Vec<(u8, u64, Do)> {
        let c = self.now;
        let p = &self.p;
        let mut all = Vec::new();
        let mut blocked = vec![false; self.banks.len()];
        let per_rank = self.banks.len() / self.ranks as usize;
        let mut any = false;
        let overdue = |x: &Burst| p.starvation > 0 && c >= x.visible + u64::from(p.starvation);
        let eldest = self.queue.iter().filter(|x| overdue(x));
        let eldest = eldest.map(|x| x.seq).min();
        for rank in 0..self.ranks {
            let owed = self.owed[rank as usize];
            let here = |b: &&Burst| b.visible <= c && b.place.rank == rank;
            let busy = self.queue.iter().any(|b| here(&b));
            if owed == 0 || (owed <= u64::from(p.refresh_postpone) && busy) {
                continue;
            }
            any = true;
            let first = rank as usize * per_rank;
            let age = u64::from(rank);
            let banks = match p.refresh {
                RefreshMode::AllBank => first..first + per_rank,
                _ => {
                    let b = first + self.turn[rank as usize] as usize;
                    b..b + 1
                }
            };
            blocked[banks.clone()].fill(true);
            let promised: Vec<usize> = banks.clone().filter_map(|b| self.promised(b)).collect();
            let must = owed > u64::from(p.refresh_postpone) + 1 || eldest.is_some();
            if !must && !promised.is_empty() {
                promised
                    .iter()
                    .for_each(|&i| self.offer_column(&mut all, i));
                continue;
            }
            if p.refresh == RefreshMode::AllBank {
                let open: Vec<usize> = banks.filter(|&b| self.banks[b].open.is_some()).collect();
                if open.is_empty() {
                    if self.legal(Command::RefAll, rank, None) {
                        all.push((0, age, Do::RefAll(rank)));
                    }
                } else if self.legal(Command::PreAll, rank, None)
                    && open.iter().all(|&b| self.legal_bank(Command::Pre, b))
                {
                    all.push((0, age, Do::PreAll(rank)));
                }
            } else {
                let b = banks.start;
                if self.banks[b].open.is_none() {
                    if self.legal_bank(Command::RefBank, b) {
                        all.push((0, age, Do::RefBank(b)));
                    }
                } else if self.legal_bank(Command::Pre, b) {
                    all.push((0, age, Do::PreRefresh(b)));
                }
            }
        }
        if any && p.refresh_blocks == Blocks::Channel {
            return all;
        }
        if let Some(eldest) = eldest {
            for (i, x) in self.queue.iter().enumerate().filter(|x| overdue(x.1)) {
                let b = self.number(&x.place);
                let same = |y: &&Burst| overdue(y) && self.number(&y.place) == b;
                let older = self.queue.iter().filter(same).any(|y| y.seq < x.seq);
                if !blocked[b] && !older {
                    self.for_the_first(&mut all, i, 1, x.seq == eldest);
                }
            }
            return all;
        }
        let served = |x: &Burst| x.write == self.writing && x.visible <= c;
        for (i, x) in self.queue.iter().enumerate().filter(|x| served(x.1)) {
            let b = self.number(&x.place);
            if blocked[b] {
                continue;
            }
            let rivals: Vec<&Burst> = self
                .queue
                .iter()
                .filter(|y| served(y) && self.number(&y.place) == b)
                .collect();
            let oldest = rivals.iter().min_by_key(|y| y.seq).unwrap();
            let first = oldest.seq == x.seq;
            let other = if p.order == Order::HitFirst { 3 } else { 2 };
            let held = x.write && self.cells[b].stands;
            if let Some(j) = self.promised(b) {
                if first {
                    self.offer_column(&mut all, j);
                }
                continue;
            }
            match &self.banks[b].open {
                _ if held => {
                    if first {
                        self.for_the_first(&mut all, i, other, false);
                    }
                }
                None => {
                    if first {
                        self.for_the_first(&mut all, i, other, false);
                    }
                }
                Some(open) => {
                    let row = open.row;
                    let capped = p.hit_cap > 0 && open.columns >= p.hit_cap;
                    if x.place.row == row {
                        let op = if x.write { Command::Wr } else { Command::Rd };
                        if !(capped && oldest.place.row != row) && self.legal_bank(op, b) {
                            all.push((2, x.seq, Do::Column(i)));
                        }
                        continue;
                    }
                    let mut hits = rivals.iter().filter(|y| y.place.row == row);
                    let may = if capped && first {
                        true
                    } else if p.keep_rows {
                        hits.next().is_none()
                    } else {
                        hits.all(|y| x.seq < y.seq)
                    };
                    if may && self.legal_bank(Command::Pre, b) {
                        all.push((other, x.seq, Do::Pre(i)));
                    }
                }
            }
        }
        for b in 0..self.banks.len() {
            let wanted = |y: &Burst| served(y) && self.number(&y.place) == b;
            let free = self.cells[b].stands && self.promised(b).is_none();
            if !free || self.queue.iter().any(wanted) {
                continue;
            }
            if self.banks[b].open.is_some() {
                if self.legal_bank(Command::Pre, b) {
                    all.push((4, b as u64, Do::PreRefresh(b)));
                }
            } else if self.may_resume(b) {
                all.push((4, b as u64, Do::Resume(b)));
            }
        }
        if matches!(p.page, Page::Timeout { .. } | Page::Adaptive { .. }) {
            for (b, bank) in self.banks.iter().enumerate() {
                let Some(open) = &bank.open else { continue };
                let wanted = self
                    .queue
                    .iter()
                    .any(|y| served(y) && self.number(&y.place) == b);
                if !blocked[b]
                    && !wanted
                    && !self.cells[b].stands
                    && self.promised(b).is_none()
                    && c >= open.last + bank.timeout
                    && self.legal_bank(Command::Pre, b)
                {
                    all.push((4, b as u64, Do::Close(b)));
                }
            }
        }
        all
    }

    /// The oldest request for a row that has not served any yet: one of the queue being served goes
    /// before others, and no write goes while the cell write is paused.
    fn promised(&self, b: usize) -> Option<usize> {
        let open = self.banks[b].open.as_ref().filter(|o| o.columns == 0)?;
        let stands = self.cells[b].stands;
        let wants = |x: &Burst| {
            let here = self.number(&x.place) == b && x.place.row == open.row;
            here && x.visible <= self.now && !(x.write && stands)
        };
        let all = self.queue.iter().enumerate().filter(|x| wants(x.1));
        let first = all.min_by_key(|(_, x)| (x.write != self.writing, x.seq));
        first.map(|x| x.0)
    }

    fn offer_column(&self, all: &mut Vec<(u8, u64, Do)>, i: usize) {
        let x = &self.queue[i];
        let op = if x.write { Command::Wr } else { Command::Rd };
        if self.legal_bank(op, self.number(&x.place)) {
            all.push((2, x.seq, Do::Column(i)));
        }
    }

    /// The next step for burst `i`, the oldest of those of its bank that are considered.
    fn for_the_first(&self, all: &mut Vec<(u8, u64, Do)>, i: usize, class: u8, data: bool) {
        let x = &self.queue[i];
        let b = self.number(&x.place);
        let cell = &self.cells[b];
        let held = x.write && cell.stands;
        match &self.banks[b].open {
            None if held => {
                if self.may_resume(b) {
                    all.push((class, x.seq, Do::Resume(b)));
                }
            }
            None => {
                if (cell.stands || cell.left == 0) && self.legal_bank(Command::Act, b) {
                    all.push((class, x.seq, Do::Act(i)));
                }
                if !x.write && self.may_pause(b) {
                    all.push((class, x.seq, Do::Pause(b)));
                }
            }
            Some(open) if held || open.row != x.place.row => {
                if self.legal_bank(Command::Pre, b) {
                    all.push((class, x.seq, Do::Pre(i)));
                }
            }
            Some(_) => {
                let op = if x.write { Command::Wr } else { Command::Rd };
                if data && self.legal_bank(op, b) {
                    all.push((class, x.seq, Do::Column(i)));
                }
            }
        }
    }

    /// Handles a precharge at `clock`: the cells of a dirty row are written.
    fn begin_cells(&mut self, b: usize, clock: u64, dirty: bool) {
        if let (Some([close, length, ..]), true) = (self.pausing, dirty) {
            self.cells[b] = Cell {
                lead: close,
                left: length,
                from: clock,
                ..Cell::default()
            };
        }
    }

    fn precharge(&mut self, b: usize) {
        let row = self.banks[b].open.take().unwrap();
        self.begin_cells(b, self.now, row.dirty);
        self.record(Command::Pre, b, self.now, row.dirty);
        self.issued(Command::Pre, b, row.row, 0);
    }

    fn execute(&mut self, what: Do) {
        let c = self.now;
        let per_rank = self.banks.len() / self.ranks as usize;
        match what {
            Do::Column(i) => self.column(i),
            Do::Act(i) => {
                self.queue[i].activated = true;
                let (place, row) = (self.queue[i].place, self.queue[i].place.row);
                let b = self.number(&place);
                let bank = &mut self.banks[b];
                if let Page::Adaptive { max, .. } = self.p.page {
                    if bank.closed_row == Some(row) {
                        bank.timeout = (bank.timeout * 2).min(max.into());
                    }
                }
                bank.closed_row = None;
                bank.open = Some(Row {
                    row,
                    dirty: false,
                    columns: 0,
                    last: c,
                });
                self.record(Command::Act, b, c, false);
                self.issued(Command::Act, b, row, 0);
            }
            Do::Pre(i) => {
                self.queue[i].precharged = true;
                let b = self.number(&self.queue[i].place);
                if let Page::Adaptive { min, .. } = self.p.page {
                    let t = &mut self.banks[b].timeout;
                    *t = (*t / 2).max(min.into());
                }
                self.precharge(b);
            }
            Do::Close(b) => {
                self.banks[b].closed_row = self.banks[b].open.as_ref().map(|o| o.row);
                self.precharge(b);
            }
            Do::PreRefresh(b) => self.precharge(b),
            Do::PreAll(rank) => {
                let first = rank as usize * per_rank;
                for b in first..first + per_rank {
                    if let Some(row) = self.banks[b].open.take() {
                        self.begin_cells(b, c, row.dirty);
                        self.record(Command::Pre, b, c, row.dirty);
                    }
                }
                self.record(Command::PreAll, first, c, false);
                self.issued(Command::PreAll, first, 0, 0);
            }
            Do::RefAll(rank) => {
                let first = rank as usize * per_rank;
                self.owed[rank as usize] -= 1;
                self.record(Command::RefAll, first, c, false);
                self.issued(Command::RefAll, first, 0, 0);
            }
            Do::RefBank(b) => {
                let rank = b / per_rank;
                self.owed[rank] -= 1;
                self.turn[rank] = (self.turn[rank] + 1) % per_rank as u32;
                self.record(Command::RefBank, b, c, false);
                self.issued(Command::RefBank, b, 0, 0);
            }
            Do::Pause(b) => {
                self.cells[b].stop = self.next_stop(b);
                self.cells[b].pauses += 1;
                // A write that stands at the end of an iteration already.
                self.cells[b].stands = self.cells[b].stop == Some(self.cells[b].done);
                self.issued(Command::Pause, b, 0, 0);
            }
            Do::Resume(b) => {
                let cell = &mut self.cells[b];
                let [.., overhead] = self.pausing.unwrap();
                (cell.lead, cell.done, cell.stop) = (overhead, 0, None);
                (cell.stands, cell.from) = (false, c);
                self.issued(Command::Resume, b, 0, 0);
            }
        }
    }

    fn column(&mut self, i: usize) {
        let c = self.now;
        let x = self.queue.remove(i);
        let b = self.number(&x.place);
        let row = self.banks[b].open.as_mut().unwrap();
        row.dirty |= x.write;
        row.columns += 1;
        row.last = c;
        let (dirty, number) = (row.dirty, row.row);
        let more = self.queue.iter().any(|y| {
            let same = y.write == x.write && y.visible <= c && y.place.row == number;
            same && self.number(&y.place) == b
        });
        let auto = match self.p.page {
            Page::Closed => !more,
            Page::ClosedAlways => true,
            _ => false,
        };
        let (op, plain) = match (x.write, auto) {
            (false, false) => (Command::Rd, Command::Rd),
            (false, true) => (Command::RdA, Command::Rd),
            (true, false) => (Command::Wr, Command::Wr),
            (true, true) => (Command::WrA, Command::Wr),
        };
        self.record(plain, b, c, dirty);
        self.issued(op, b, number, x.place.column);
        if auto {
            // First clock at which the rules of the bank allow a precharge.
            let (rank, group, in_group) = self.place(b);
            let bank_rules = self
                .rules
                .iter()
                .filter(|r| r.next == Command::Pre && r.scope == Scope::Bank && r.window == 1);
            let start = bank_rules
                .flat_map(|r| {
                    self.past
                        .iter()
                        .filter(|e| {
                            e.op == r.prev && (e.rank, e.group, e.bank) == (rank, group, in_group)
                        })
                        .map(|e| e.clock + r.latency)
                })
                .max()
                .unwrap_or(0)
                .max(c + 1);
            self.banks[b].open = None;
            self.begin_cells(b, start, dirty);
            self.record(Command::Pre, b, start, dirty);
        }
        let data = if x.write {
            self.write_data
        } else {
            self.read_data
        };
        for w in x.requests {
            self.end(w, c + data, !x.activated && !x.precharged);
        }
    }
}
