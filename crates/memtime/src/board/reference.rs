//! The rules of the controller once more, naively: every clock is processed,
//! every timer counts down by one, every choice searches all machines. Written
//! apart from the engine, to be compared with it.

use std::collections::VecDeque;

use super::event::{Command, Op};
use crate::params::{BoardParams, Method, RpTest};
use crate::request::{Completion, Kind, Request};
use crate::units::Ps;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum St {
    Idle,
    Wait,
    Rcd,
    Column,
    Rtp,
    Precharge,
    Rp,
}

#[derive(Clone, Debug)]
struct M {
    st: St,
    timer: u32,
    ras: u32,
    order: u64,
    bank: u8,
    row: u32,
    write: bool,
    column_done: bool,
    pass: bool,
    hold: bool,
    hit: bool,
    marked: bool,
    seq: u64,
    id: u64,
    accepted: u64,
}

struct Waiting {
    id: u64,
    seq: u64,
    bank: u8,
    row: u32,
    kind: Kind,
    /// Loaded when the request comes to the head of its channel.
    hold: Option<u32>,
}

pub(super) struct Reference {
    pub p: BoardParams,
    pub clock: u64,
    machines: Vec<M>,
    channel: [VecDeque<Waiting>; 2],
    dirty: Vec<bool>,
    newest_bank: u8,
    order: u64,
    seq: u64,
    to_tick: u64,
    requested: bool,
    /// To the beginning of maintenance.
    to_begin: Option<u32>,
    /// Clocks of the pulse that are left.
    pulse: u32,
    maintenance: bool,
    refreshing: u32,
    pub log: Vec<Command>,
    pub done: Vec<Completion>,
    pub lost: u64,
}

impl Reference {
    pub fn new(p: BoardParams) -> Reference {
        let idle = M {
            st: St::Idle,
            timer: 0,
            ras: 0,
            order: 0,
            bank: 0,
            row: 0,
            write: false,
            column_done: false,
            pass: false,
            hold: false,
            hit: false,
            marked: false,
            seq: 0,
            id: 0,
            accepted: 0,
        };
        Reference {
            clock: 0,
            machines: vec![idle; p.machines as usize],
            channel: [VecDeque::new(), VecDeque::new()],
            dirty: vec![false; 16],
            newest_bank: 0,
            order: 0,
            seq: 0,
            to_tick: p.refresh.first_tick.0.into(),
            requested: false,
            to_begin: None,
            pulse: 0,
            maintenance: false,
            refreshing: 0,
            log: Vec::new(),
            done: Vec::new(),
            lost: 0,
            p,
        }
    }

    pub fn submit(&mut self, r: Request) {
        let place = self.p.mapping.decode(r.addr);
        self.channel[(r.kind == Kind::Write) as usize].push_back(Waiting {
            id: r.id,
            seq: self.seq,
            bank: place.bank,
            row: place.row,
            kind: r.kind,
            hold: None,
        });
        self.seq += 1;
    }

    pub fn channel_len(&self, kind: Kind) -> usize {
        self.channel[(kind == Kind::Write) as usize].len()
    }

    pub fn is_idle(&self) -> bool {
        self.channel.iter().all(VecDeque::is_empty)
            && self.machines.iter().all(|m| m.st == St::Idle)
    }

    fn nvmm(&self, bank: u8) -> bool {
        (u64::from(bank) << self.p.mapping.bank.low) >= self.p.nvmm_base
    }

    fn added(&self, on: bool, t: Ps) -> u32 {
        if on {
            self.p.clock.edge_from(t) as u32
        } else {
            0
        }
    }

    fn command(&mut self, op: Op, i: usize) {
        let m = &self.machines[i];
        self.log.push(Command {
            clock: self.clock,
            op,
            bank: m.bank,
            row: m.row,
            seq: m.seq,
        });
    }

    fn choose(&self, f: impl Fn(&M) -> bool) -> Option<usize> {
        let all = 0..self.machines.len();
        all.filter(|&i| self.machines[i].st != St::Idle && f(&self.machines[i]))
            .min_by_key(|&i| self.machines[i].order)
    }

    fn hand_over(&mut self, i: usize) {
        let old = self.machines[i].clone();
        let j = self
            .choose(|m| m.bank == old.bank && m.order > old.order)
            .expect("a passed row has a receiver");
        assert!(self.machines[j].hit && self.machines[j].row == old.row);
        self.machines[j].st = St::Column;
        self.machines[j].ras = old.ras;
        self.idle(i);
    }

    fn idle(&mut self, i: usize) {
        self.machines[i].st = St::Idle;
        self.machines[i].pass = false;
        self.machines[i].marked = false;
    }

    fn done(&mut self, i: usize, clock: u64) {
        let m = &self.machines[i];
        self.done.push(Completion {
            id: m.id,
            kind: if m.write { Kind::Write } else { Kind::Read },
            accepted_at: self.p.clock.edge(m.accepted),
            done_at: self.p.clock.edge(clock),
            row_hit: m.hit,
        });
    }

    pub fn tick(&mut self) {
        let (t, r) = (self.p.timing, self.p.refresh);
        let fine = matches!(self.p.method, Method::Fine | Method::Extended);
        for m in &mut self.machines {
            m.timer = m.timer.saturating_sub(1);
            m.ras = m.ras.saturating_sub(1);
        }
        for i in 0..self.machines.len() {
            let m = &mut self.machines[i];
            match m.st {
                St::Rcd if m.timer == 0 => m.st = St::Column,
                St::Rtp if m.pass => self.hand_over(i),
                St::Rtp if m.timer == 0 => m.st = St::Precharge,
                St::Rp if m.timer == 0 => self.idle(i),
                _ => {}
            }
        }
        // Refresh.
        if self.refreshing > 0 {
            self.refreshing -= 1;
            if self.refreshing == 0 {
                self.maintenance = false;
                for m in &mut self.machines {
                    m.hold = false;
                }
            }
        }
        if r.enabled {
            if self.to_tick == 0 {
                self.to_tick = r.interval.0.into();
                self.lost += u64::from(self.requested);
                self.requested = true;
            }
            self.to_tick -= 1;
        }
        self.to_begin = match self.to_begin {
            Some(n) => Some(n - 1),
            None if self.requested && !self.maintenance => Some(r.pulse_delay.0),
            None => None,
        };
        if self.to_begin == Some(0) {
            self.to_begin = None;
            self.pulse = r.pulse.0;
            self.maintenance = true;
            for m in &mut self.machines {
                m.marked = m.st != St::Idle;
            }
        }
        if self.pulse > 0 {
            self.pulse -= 1;
            for m in &mut self.machines {
                m.ras = m.ras.min(r.ras_limit.0);
                if m.st == St::Rtp {
                    m.timer = m.timer.min(r.rtp_limit.0);
                }
            }
        }
        if self.maintenance && self.refreshing == 0 && self.machines.iter().all(|m| !m.marked) {
            self.refreshing = r.duration.0;
            self.requested = false;
            self.log.push(Command {
                clock: self.clock,
                op: Op::Refresh,
                bank: 0,
                row: 0,
                seq: 0,
            });
        }
        // Column.
        let write = self.choose(|m| m.write && !m.column_done);
        let write = write.map(|i| self.machines[i].order);
        let column = self.choose(|m| m.st == St::Column && (!m.write || Some(m.order) == write));
        if let Some(i) = column {
            let m = &mut self.machines[i];
            m.column_done = true;
            m.st = St::Rtp;
            let own = if m.write { t.wtp.0 } else { t.rtp.0 };
            m.timer = own.max(m.ras.saturating_sub(1));
            let (bank, write, pass) = (m.bank as usize, m.write, m.pass);
            if write {
                self.dirty[bank] = true;
                self.command(Op::Write, i);
            } else {
                self.command(Op::Read, i);
                let data = u64::from(t.cl.0 + t.data.0);
                self.done(i, self.clock + data);
            }
            if pass {
                self.hand_over(i);
            }
        }
        // Precharge.
        if let Some(i) = self.choose(|m| m.st == St::Precharge && m.ras == 0) {
            let tested = match self.p.rp_test {
                RpTest::NewestRequest => self.newest_bank,
                RpTest::OwnBank => self.machines[i].bank,
            };
            let slow = fine && self.nvmm(tested) && self.dirty[tested as usize];
            self.machines[i].st = St::Rp;
            self.machines[i].timer = t.rp.0 + self.added(slow, self.p.delays.trp);
            self.command(Op::Precharge, i);
        }
        // Activation.
        let head = |m: &M| {
            !self
                .machines
                .iter()
                .any(|o| o.st != St::Idle && o.bank == m.bank && o.order < m.order)
        };
        let act = |m: &M| m.st == St::Wait && m.timer == 0 && !m.hold && !m.hit && head(m);
        if let Some(i) = self.choose(act) {
            let bank = self.machines[i].bank;
            let nvmm = self.nvmm(bank);
            let rcd = self.added(fine && nvmm, self.p.delays.trcd);
            let extended = self.p.method == Method::Extended;
            let ras = self.added(extended && nvmm, self.p.delays.tras);
            self.machines[i].st = St::Rcd;
            self.machines[i].timer = t.rcd.0 + rcd;
            self.machines[i].ras = t.ras.0 + ras;
            self.dirty[bank as usize] = false;
            self.command(Op::Activate, i);
        }
        self.accept();
        self.clock += 1;
    }

    fn accept(&mut self) {
        for k in 0..2 {
            let Some((bank, hold)) = self.channel[k].front().map(|w| (w.bank, w.hold)) else {
                continue;
            };
            let coarse = self.p.method == Method::Coarse && self.nvmm(bank);
            let d = &self.p.delays;
            let n = self.added(coarse, [d.coarse_read, d.coarse_write][k]);
            self.channel[k][0].hold = Some(match hold {
                None => n,
                Some(h) => h.saturating_sub(1),
            });
        }
        let ready = |k: &usize| self.channel[*k].front().is_some_and(|w| w.hold == Some(0));
        let first = |k: &usize| self.channel[*k][0].seq;
        let Some(k) = (0..2).filter(ready).min_by_key(first) else {
            return;
        };
        let Some(i) = self.machines.iter().position(|m| m.st == St::Idle) else {
            return;
        };
        let w = self.channel[k].pop_front().unwrap();
        let same = |m: &&mut M| m.st != St::Idle && m.bank == w.bank;
        let newest = self
            .machines
            .iter_mut()
            .filter(same)
            .max_by_key(|m| m.order);
        let mut hit = false;
        if let Some(o) = newest {
            let lost = matches!(o.st, St::Precharge | St::Rp);
            hit = o.row == w.row && !lost && !o.marked;
            o.pass |= hit;
        }
        self.machines[i] = M {
            st: St::Wait,
            timer: self.p.timing.wait.0,
            ras: 0,
            order: self.order,
            bank: w.bank,
            row: w.row,
            write: w.kind == Kind::Write,
            column_done: false,
            pass: false,
            hold: self.maintenance,
            hit,
            marked: false,
            seq: w.seq,
            id: w.id,
            accepted: self.clock,
        };
        self.order += 1;
        self.newest_bank = w.bank;
        self.command(Op::Accept, i);
        if w.kind == Kind::Write {
            self.done(i, self.clock + u64::from(self.p.timing.response.0));
        }
    }
}
