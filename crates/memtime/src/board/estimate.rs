//! When the controller would answer requests that come in the order of time, in closed form: for estimates, at a
//! fraction of the work of [`Controller`](super::Controller).
//!
//! Rows, refreshes and holds follow the rules of [`super`]; what is left out is that a command bus serves one machine in a
//! clock, and that a machine whose row is passed on becomes idle: a row is kept by one machine as long as it is open. A later
//! request does not change the answer to an earlier one.
//!
//! [`Estimator`] has the parameters, and [`Busy`] what earlier requests have left behind.

use super::timing::Timing;
use crate::mapping::AddressMapping;
use crate::params::BoardParams;
use crate::period::Period;
use crate::request::Kind;
use crate::units::Ps;
use serde::{Deserialize, Serialize};

/// Most machines that are busy at a time.
const MACHINES: usize = 8;
/// Banks of accepted requests that are remembered, for the added tRP.
const RECENT: usize = 8;
/// No state has a clock from here on.
const FAR: u64 = 1 << 60;

/// A row from the acceptance of the request that opens it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: u32,
    bank: u8,
    dirty: bool,
    write: bool,
    accepted: u64,
    /// When the last request for it was accepted.
    latest: u64,
    /// It may not be activated before, as it was held by a refresh.
    held: u64,
    activate: u64,
    /// The last column command, and the clock from which on the row can be precharged.
    column: u64,
    close: u64,
}

/// What the requests so far have left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Busy {
    /// In the order of acceptance; only the first `len` count.
    rows: [Row; MACHINES],
    len: usize,
    /// The last accepted requests under a method for which that matters: clock and bank. The one at `newest` is the newest,
    /// and those before it are older, up to the one behind it.
    recent: [(u64, u8); RECENT],
    newest: usize,
    /// Banks whose last row was written to, of those that are not in `rows`.
    dirty: u16,
    /// Until when each channel has a request at its head.
    channels: [u64; 2],
    /// The next tick of refresh that is not absorbed, and when maintenance begins by it.
    tick: u64,
    begins: u64,
    /// When the last maintenance began, and when what it held is released.
    began: u64,
    released: u64,
}

impl Busy {
    /// Whether this can be the state at a time.
    pub fn is_possible(&self) -> bool {
        let in_range = |r: &Row| {
            usize::from(r.bank) < crate::mapping::MAX_BANKS
                && [r.accepted, r.latest, r.held, r.activate, r.column, r.close]
                    .iter()
                    .all(|t| *t < FAR)
        };
        let times = [
            self.tick,
            self.begins,
            self.began,
            self.released,
            self.channels[0],
            self.channels[1],
        ];
        self.len <= MACHINES
            && self.newest < RECENT
            && self.rows.iter().all(in_range)
            && times.iter().all(|t| *t < FAR)
            && self.tick <= self.begins
            && self
                .recent
                .iter()
                .all(|r| r.0 < FAR && usize::from(r.1) < crate::mapping::MAX_BANKS)
    }

    #[inline(always)]
    fn rows(&self) -> &[Row] {
        &self.rows[..self.len.min(MACHINES)]
    }

    #[inline(always)]
    fn accepts(&mut self, clock: u64, bank: u8) {
        self.newest = (self.newest + 1) % RECENT;
        self.recent[self.newest] = (clock, bank);
    }

    /// The bank of the newest request that was accepted up to a clock.
    fn newest_at(&self, clock: u64) -> Option<u8> {
        let mut by_age = (0..RECENT).map(|age| self.recent[(self.newest + RECENT - age) % RECENT]);
        by_age.find(|n| n.0 <= clock).map(|n| n.1)
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Estimator {
    timing: Timing,
    mapping: AddressMapping,
    clock: Period,
    machines: usize,
}

impl Estimator {
    /// For a controller with valid parameters.
    pub fn new(p: &BoardParams) -> Estimator {
        Estimator {
            timing: Timing::new(p),
            mapping: p.mapping,
            clock: p.clock,
            machines: (p.machines as usize).min(MACHINES),
        }
    }

    /// Time from the arrival of a read of a bank at rest to its answer, without any added delay.
    pub fn at_rest(&self) -> Ps {
        let t = &self.timing;
        Ps::of_clock(t.wait + t.rcd + t.read_data, self.clock)
    }

    /// The same of a read of a row that is open.
    pub fn in_open_row(&self) -> Ps {
        Ps::of_clock(1 + self.timing.read_data, self.clock)
    }

    /// Time that a request waits for refreshes on average if nothing else is under way.
    pub fn mean_refresh(&self) -> Ps {
        let t = &self.timing;
        let clocks = t.duration * t.duration;
        let all = Ps::of_clock(clocks, self.clock).0 / (2 * t.interval.max(1));
        Ps(if t.refresh { all } else { 0 })
    }

    /// Bank and row of an offset.
    #[inline]
    pub fn row_of(&self, offset: u64) -> (u8, u32) {
        let place = self.mapping.decode(offset);
        (place.bank, place.row)
    }

    /// An offset in another row of the same bank, a different one for each of a few numbers above zero.
    #[inline]
    pub fn in_other_row(&self, offset: u64, number: u64) -> u64 {
        let row = self.mapping.row;
        offset ^ (number & ((1 << row.bits) - 1)) << row.low
    }

    /// A request arrives; none has arrived later before. Returns the time until it is answered.
    pub fn access(&self, b: &mut Busy, at: Ps, offset: u64, kind: Kind) -> Ps {
        let arrives = at.clocks_ceil(self.clock);
        let place = self.mapping.decode(offset);
        let answer = self.request(b, arrives, (place.bank, place.row), kind);
        Ps::of_clock(answer.saturating_sub(arrives), self.clock)
    }

    /// The clock of the answer to a request that arrives in a clock.
    #[inline]
    fn request(&self, b: &mut Busy, arrives: u64, (bank, row): (u8, u32), kind: Kind) -> u64 {
        let t = &self.timing;
        if t.refresh && b.begins <= arrives {
            self.pass(b, arrives);
        }
        // A held request, and those behind it in its channel.
        let hold = t.hold_of(kind, bank);
        let channel = kind as usize;
        let head = arrives.max(b.channels[channel]);
        if hold == 0 && head > arrives {
            // It waits behind one that has found all machines busy, so nothing else is accepted before.
            self.pass(b, head);
        }
        let mut accept = head + hold;
        if b.len > 0 {
            self.retire(b, accept);
            if b.len >= self.machines {
                accept = self.waits_for_a_machine(b, accept);
            }
        }
        if accept > arrives {
            b.channels[channel] = accept;
        }
        if t.add_rp > 0 {
            b.accepts(accept, bank);
        }
        let held = accept >= b.began && accept < b.released;
        let (mut place, mut hit) = (0, None);
        if b.len > 0 {
            // A request that is held longer is accepted behind one that came later.
            let older = b.rows().iter().rposition(|r| r.accepted <= accept);
            place = older.map_or(0, |i| i + 1);
            let newest = b.rows[..place].iter().rposition(|r| r.bank == bank);
            hit = newest.filter(|i| {
                let r = &b.rows[*i];
                r.row == row && accept <= r.close && !(held && r.accepted <= b.began)
            });
        }
        let i = match hit {
            Some(i) => {
                let r = &mut b.rows[i];
                r.latest = r.latest.max(accept);
                r.column = (r.column + 1).max(accept + 1);
                r.close = r.close.max(r.column + t.stay[kind as usize]);
                r.dirty |= kind == Kind::Write;
                i
            }
            None => {
                let write = kind == Kind::Write;
                let last = b.len.min(MACHINES - 1);
                let place = place.min(last);
                if place < last {
                    b.rows.copy_within(place..last, place + 1);
                }
                b.rows[place] = Row {
                    row,
                    bank,
                    dirty: write,
                    write,
                    accepted: accept,
                    latest: accept,
                    held: if held { b.released + 1 } else { 0 },
                    ..Row::default()
                };
                b.len = last + 1;
                self.place(b, place);
                for i in place + 1..b.len {
                    if b.rows[i].bank == bank {
                        self.place(b, i);
                    }
                }
                place
            }
        };
        match kind {
            Kind::Write => accept + t.response,
            Kind::Read => {
                if !t.refresh || b.begins > b.rows[i].column {
                    return b.rows[i].column + t.read_data;
                }
                self.behind_refreshes(b, i) + t.read_data
            }
        }
    }

    /// The column command of a row behind refreshes that come before it. Requests before these may still come.
    #[cold]
    fn behind_refreshes(&self, b: &Busy, i: usize) -> u64 {
        let mut ahead = b.clone();
        while ahead.begins <= ahead.rows[i].column {
            self.maintain(&mut ahead);
        }
        ahead.rows[i].column
    }

    /// All machines are busy in a clock. Returns the clock in which one is idle.
    #[cold]
    fn waits_for_a_machine(&self, b: &mut Busy, mut clock: u64) -> u64 {
        loop {
            let free = b.rows().iter().map(|r| self.end(b, r)).min();
            let idle = clock.max(free.unwrap_or(0));
            if !self.timing.refresh || b.begins > idle {
                clock = idle;
                break;
            }
            self.maintain(b);
        }
        self.retire(b, clock);
        if b.len >= MACHINES {
            b.rows.copy_within(1.., 0);
            b.len = MACHINES - 1;
        }
        clock
    }

    /// Maintenance that begins up to a clock.
    #[inline(never)]
    fn pass(&self, b: &mut Busy, until: u64) {
        let t = &self.timing;
        while t.refresh && b.begins <= until {
            // Nothing is busy in long times without requests.
            let last = b.rows().iter().map(|r| r.close).max().unwrap_or(0);
            let apart = t.interval.max(1);
            if b.tick > last + t.add_rp + t.rp && until - b.begins > 2 * apart {
                let skipped = (until - b.begins) / apart - 1;
                b.tick += skipped * apart;
                b.begins += skipped * apart;
            }
            self.maintain(b);
        }
    }

    /// Maintenance begins.
    fn maintain(&self, b: &mut Busy) {
        let t = &self.timing;
        let begins = b.begins;
        if b.tick == 0 {
            // The first request: ticks before have no effect.
            b.tick = t.first_tick;
            b.begins = t.first_tick + t.begin_delay;
            return;
        }
        let mut issued = begins;
        for i in 0..b.len.min(MACHINES) {
            let r = b.rows[i];
            if r.accepted > begins {
                continue;
            }
            if r.activate > begins {
                self.place(b, i);
            } else {
                let limited = begins + t.ras_limit;
                let column = r.column + t.stay[usize::from(r.write)];
                let close = if r.column > begins {
                    limited.max(column)
                } else {
                    limited
                };
                b.rows[i].close = r.close.min(close);
            }
            issued = issued.max(self.end(b, &b.rows[i]));
        }
        b.began = begins;
        b.released = issued + t.duration;
        for i in 0..b.len.min(MACHINES) {
            if b.rows[i].accepted > begins {
                b.rows[i].held = b.released + 1;
                self.place(b, i);
            }
        }
        // A tick that finds one pending is absorbed.
        let apart = t.interval.max(1);
        b.tick += apart;
        if b.tick <= issued {
            b.tick += ((issued - b.tick) / apart + 1) * apart;
        }
        b.begins = b.tick.max(b.released) + t.begin_delay;
    }

    /// The row's times by those of the one before it in its bank.
    #[inline]
    fn place(&self, b: &mut Busy, i: usize) {
        let t = &self.timing;
        let r = b.rows[i];
        let mut activate = (r.accepted + t.wait).max(r.held);
        if let Some(before) = b.rows[..i].iter().rev().find(|o| o.bank == r.bank) {
            activate = activate.max(self.end(b, before));
        }
        let (rcd, ras) = t.activation(r.bank);
        let column = (activate + rcd).max(r.latest + 1);
        let row = &mut b.rows[i];
        (row.activate, row.column) = (activate, column);
        row.close = (column + t.stay[usize::from(r.write)]).max(activate + ras);
    }

    /// When the row's bank is precharged.
    #[inline]
    fn end(&self, b: &Busy, r: &Row) -> u64 {
        let t = &self.timing;
        let slow = t.add_rp > 0 && self.tests_dirty(b, r);
        r.close + t.rp + if slow { t.add_rp } else { 0 }
    }

    /// Whether the bank that is tested at the row's precharge is NVMM and dirty.
    fn tests_dirty(&self, b: &Busy, r: &Row) -> bool {
        let t = &self.timing;
        if t.own_bank {
            return r.dirty && t.is_nvmm(r.bank);
        }
        let tested = b.newest_at(r.close).unwrap_or(r.bank);
        if tested == r.bank {
            return r.dirty && t.is_nvmm(r.bank);
        }
        let mut of_bank = b.rows().iter().rev();
        let open = of_bank.find(|o| o.bank == tested && o.activate <= r.close);
        t.is_nvmm(tested) && open.map_or(b.dirty >> tested & 1 != 0, |o| o.dirty)
    }

    /// Forgets rows that are closed in a clock.
    #[inline]
    fn retire(&self, b: &mut Busy, clock: u64) {
        let mut kept = 0;
        for i in 0..b.len.min(MACHINES) {
            let r = &b.rows[i];
            // Each row is behind those before it in its bank.
            if r.close < clock && self.end(b, r) <= clock {
                let bit = 1 << r.bank;
                b.dirty = if r.dirty {
                    b.dirty | bit
                } else {
                    b.dirty & !bit
                };
            } else {
                if kept < i {
                    b.rows[kept] = b.rows[i];
                }
                kept += 1;
            }
        }
        b.len = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Method;
    use crate::{Controller, Request, Submit};

    /// A source of numbers that look like chance.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Time that a core waits for requests of the controller, and by the estimate, in order: it does something for a
    /// while behind each answer.
    fn waits(method: Method, pattern: u64, think: u64) -> (f64, f64) {
        let mut p = BoardParams::vc707();
        p.method = method;
        let run = |estimate: bool| {
            let mut c = Controller::new(p.clone()).unwrap();
            let (e, mut b) = (Estimator::new(&p), Busy::default());
            let (mut now, mut waited, mut state, mut at) = (Ps(1_000_000), 0, 88_172_645, 0u64);
            for i in 0..20_000u64 {
                let r = random(&mut state);
                at = match pattern {
                    // Lines in order; in random order; in short runs; of two banks, with lines of DRAM in between;
                    // written lines in random order.
                    0 => at + 64,
                    1 | 4 => r % (1 << 28),
                    2 if i % 4 == 0 => r % (1 << 28),
                    2 => at + 64,
                    _ => r % (1 << 22),
                };
                let bank = if pattern == 3 {
                    [0, 2, 3][(r >> 40) as usize % 3]
                } else {
                    2
                };
                let offset = ((at % (1 << 28)) & !63) + (bank << 29);
                let kind = match r >> 60 {
                    _ if pattern == 4 => Kind::Write,
                    0..=3 => Kind::Write,
                    _ => Kind::Read,
                };
                let done = match estimate {
                    true => now + e.access(&mut b, now, offset, kind),
                    false => c.access(now, offset, kind, 64).unwrap(),
                };
                waited += (done - now).0;
                now = done + Ps(5000 * (1 + r % (2 * think)));
            }
            waited as f64
        };
        (run(false), run(true))
    }

    /// Time that cores wait: two whose requests go to two rows of the same bank in turn, as those of a producer and a consumer, or
    /// more that write to rows of one bank at random.
    fn many_wait(method: Method, many: usize, think: u64, write: u64) -> (f64, f64) {
        let mut p = BoardParams::vc707();
        p.method = method;
        p.delays.coarse_read = Ps::from_ns(300);
        p.delays.coarse_write = Ps::from_ns(write);
        let run = |estimate: bool| {
            let mut c = Controller::new(p.clone()).unwrap();
            let (e, mut b) = (Estimator::new(&p), Busy::default());
            let (mut state, mut waited) = (88_172_645, 0u64);
            // When each core asks next, or when it asked if it waits for an answer.
            let mut cores: Vec<_> = (0..many as u64)
                .map(|k| (Ps(1_000_000 + 300 * k), false))
                .collect();
            let mut thinks = |done: Ps| done + Ps(5000 * (1 + random(&mut state) % (2 * think)));
            let mut n = 0u64;
            while n < 20_000 {
                loop {
                    let mut done = Vec::new();
                    c.drain(&mut done);
                    for d in done {
                        let core = &mut cores[d.id as usize];
                        waited += (d.done_at - core.0).0;
                        *core = (thinks(d.done_at), false);
                    }
                    let ready = cores.iter().filter(|c| !c.1).map(|c| c.0).min();
                    match c.next_event() {
                        Some(t) if ready.is_none_or(|at| at > t) => c.advance_to(t).unwrap(),
                        _ => break,
                    }
                }
                let next = cores.iter().enumerate().filter(|c| !c.1 .1);
                let Some((k, at)) = next.map(|(k, c)| (k, c.0)).min_by_key(|c| c.1) else {
                    break;
                };
                let kind = match many > 2 || n.is_multiple_of(3) {
                    true => Kind::Write,
                    false => Kind::Read,
                };
                let row = if many > 2 { n * n % 997 } else { (n % 2) << 7 };
                let offset = (1 << 30) + (row << 13) + (n * 64) % 4096;
                if estimate {
                    let done = at + e.access(&mut b, at, offset, kind);
                    waited += (done - at).0;
                    cores[k].0 = thinks(done);
                    n += 1;
                } else {
                    let r = Request {
                        id: k as u64,
                        addr: offset,
                        kind,
                        bytes: 64,
                    };
                    match c.submit(at, r).unwrap() {
                        Submit::Accepted => (cores[k].1, n) = (true, n + 1),
                        Submit::Busy(until) => {
                            waited += (until - at).0;
                            cores[k].0 = until;
                        }
                    }
                }
            }
            waited as f64
        };
        (run(false), run(true))
    }

    #[test]
    fn estimates_are_near_the_controller_for_two_cores() {
        for method in Method::ALL {
            for think in [10, 60, 400, 3000] {
                for write in [300, 600, 3000] {
                    let (detailed, estimate) = many_wait(method, 2, think, write);
                    let error = estimate / detailed - 1.0;
                    assert!(error.abs() < 0.01, "{method} {think} {write}: {error:.3}");
                }
            }
        }
    }

    #[test]
    fn estimates_are_near_the_controller_where_all_machines_are_busy() {
        for method in Method::ALL {
            for think in [10, 60, 400] {
                let (detailed, estimate) = many_wait(method, 10, think, 300);
                let error = estimate / detailed - 1.0;
                assert!(error.abs() < 0.05, "{method} {think}: {error:.3}");
            }
        }
    }

    #[test]
    fn estimates_are_near_the_controller() {
        for method in Method::ALL {
            for pattern in 0..5 {
                for think in [10, 60, 400, 3000] {
                    let (detailed, estimate) = waits(method, pattern, think);
                    let error = estimate / detailed - 1.0;
                    assert!(
                        error.abs() < 0.035,
                        "{method} {pattern} {think}: {error:.3}"
                    );
                }
            }
        }
    }
}
