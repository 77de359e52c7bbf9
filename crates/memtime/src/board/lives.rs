//! Cores that wait for each miss keep few bank machines busy at a time. The rules of [`super`] then give the whole life
//! of a request when it arrives: requests are kept here as the clocks of their steps, and nothing is simulated clock by
//! clock. What meets at the port, and many requests at a time, are left to the general engine, [`State`].
//!
//! The newest request never delays an older one, as all rules prefer the oldest. It changes the lives of others in two
//! ways only: it takes over the row of a machine, which then does not close it; and it decides which bank is tested
//! before later precharges ([`RpTest`](crate::params::RpTest)). So lives are worked out in the order of acceptance, and
//! mostly that of the newest request only.

use super::engine::{bit, Bits, State, NEVER, NONE};
use super::event::Tag;
use super::life::{adopted, marked_until, Asked, Life, Moment, Test};
use super::timing::Timing;
use super::{Out, Tags};
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

/// Most machines that are busy at a time in this form.
const FEW: usize = 6;

/// What is known of the request at the port.
#[derive(Clone, Copy, Debug)]
enum Coming {
    Nothing,
    /// It meets no other request and no refresh: clocks of its column command and of its end.
    Alone {
        column: u64,
        end: u64,
    },
    /// It is the last of the lives that count if it is accepted.
    Among,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    /// Whether this, and not [`State`], is the controller's current state.
    pub on: bool,
    at: Moment,
    /// Busy machines in the order of acceptance: without the request at the port, and with it.
    lives: [[Life; FEW]; 2],
    /// Which of `lives` is without it.
    base: usize,
    /// Number of busy machines.
    len: usize,
    coming: Coming,
    /// Index of the tag of the request at the port, and the clock in which it is going to be accepted.
    place: u8,
    accept: u64,
    next_order: u64,
}

impl Lives {
    pub fn new() -> Lives {
        Lives {
            on: false,
            at: Moment::START,
            lives: [[Life::NEW; FEW]; 2],
            base: 0,
            len: 0,
            coming: Coming::Nothing,
            place: 0,
            accept: 0,
            next_order: 0,
        }
    }

    /// The busy machines, without the request at the port.
    #[inline(always)]
    fn busy(&self) -> &[Life] {
        &self.lives[self.base & 1][..self.len.min(FEW)]
    }

    /// Whether no request is at the port.
    #[inline(always)]
    pub fn is_free(&self) -> bool {
        matches!(self.coming, Coming::Nothing)
    }

    /// The index of the tag of the request at the port.
    pub fn coming(&self) -> Option<u8> {
        (!self.is_free()).then_some(self.place)
    }

    /// Forgets the request at the port.
    pub fn withdraw(&mut self) {
        self.coming = Coming::Nothing;
    }

    /// Takes over from the general state. False if that is not of this form.
    #[inline(never)]
    pub fn enter(&mut self, s: &State, t: &Timing) -> bool {
        let few = (s.busy.count_ones() as usize) < FEW;
        // A pulse is over before what it may not concern begins.
        let pulse = s.now >= s.pulse_end && t.pulse <= t.duration;
        if !few || !pulse || !s.port_is_empty() {
            return false;
        }
        self.at = Moment::of(s);
        self.len = 0;
        self.coming = Coming::Nothing;
        self.next_order = s.next_order;
        let lives = &mut self.lives[self.base & 1];
        let mut rest = s.busy;
        while let Some(i) = Bits(rest).min_by_key(|&i| s.order[i]) {
            rest &= !bit(i);
            lives[self.len % FEW] = adopted(s, i);
            self.len += 1;
        }
        let test = Test {
            accept: 0,
            bank: s.newest_bank,
        };
        self.on = self.at.work_out_all(&mut lives[..self.len], test, t);
        self.on
    }

    /// Gives the machines back to the general state.
    pub fn store(&self, s: &mut State, t: &Timing) {
        for i in Bits(s.busy) {
            s.newest[s.bank[i] as usize % MAX_BANKS] = NONE;
        }
        let old = s.busy;
        s.clear_machines();
        self.at.store(s);
        s.next_order = self.next_order;
        let now = self.at.now;
        let before = now.saturating_sub(1);
        for (i, l) in self.busy().iter().enumerate() {
            let b = bit(i);
            let (phase, ready) = match l {
                l if l.begin >= now => (&mut s.wait, l.waited),
                l if l.column >= now => (&mut s.column, l.ready),
                l if l.precharge >= now || l.passes => (&mut s.rtp, l.rtp_end(before, t)),
                l => (&mut s.rp, l.end),
            };
            *phase |= b;
            s.ready[i] = ready;
            s.ras_end[i] = if l.begin >= now {
                0
            } else {
                l.ras_end(before, t)
            };
            // Only their order counts.
            s.order[i] = self.next_order - (self.len - i) as u64;
            s.row[i] = l.row;
            s.bank[i] = l.bank;
            s.place[i] = l.place;
            s.keep_place(l.place);
            s.newer[i] = NONE;
            let bank = l.bank as usize % MAX_BANKS;
            let older = std::mem::replace(&mut s.newest[bank], i as u8);
            if older != NONE {
                s.newer[older as usize % FEW] = i as u8;
            }
            s.busy |= b;
            let set = |on: bool, set: &mut u8| *set |= if on { b } else { 0 };
            set(older != NONE, &mut s.queued);
            set(l.hit, &mut s.hit);
            set(l.write, &mut s.writes);
            set(l.write && l.column >= now, &mut s.writing);
            set(l.passes, &mut s.passing);
            set(l.held, &mut s.held);
            set(self.at.maintenance && !l.held, &mut s.marked);
        }
        s.update_some(old | s.busy);
    }

    /// The clock of the column command (read) or of the acceptance (write) of a request that arrives now, if that is
    /// known without simulation and nothing else arrives.
    #[inline(always)]
    pub fn foresee(&mut self, tag: &Tag, t: &Timing, tags: &mut Tags) -> Option<u64> {
        let accept = self.at.now + t.hold_of(tag.kind, tag.bank);
        let (mut hit, mut answer) = (false, accept);
        let idle = self.len == 0 && self.at.is_calm() && self.at.now >= self.at.pulse_end;
        let alone = if idle {
            self.at.lives_alone(Asked::of(tag), accept, t)
        } else {
            None
        };
        if let Some(x) = alone {
            let Life { column, end, .. } = x;
            self.coming = Coming::Alone { column, end };
            self.place = 0;
            if tag.kind == Kind::Read {
                answer = column;
            }
        } else {
            let x = self.lives_among(Asked::of(tag), accept, t)?;
            hit = x.hit;
            if tag.kind == Kind::Read {
                answer = x.column;
            }
            self.place = x.place;
            self.coming = Coming::Among;
        }
        self.accept = accept;
        tags[usize::from(self.place) % tags.len()] = Tag {
            accepted: accept,
            hit,
            ..*tag
        };
        Some(answer)
    }

    /// The lives of a request that has just come and of all others.
    #[inline(never)]
    fn lives_among(&mut self, asked: Asked, accept: u64, t: &Timing) -> Option<&Life> {
        let n = self.len;
        if n >= FEW {
            return None;
        }
        let (first, second) = self.lives.split_at_mut(1);
        let (base, lives) = match self.base {
            0 => (&first[0][..n], &mut second[0][..n + 1]),
            _ => (&second[0][..n], &mut first[0][..n + 1]),
        };
        let (mut still, mut used, mut older) = (0, 0u32, None);
        let mut delayed = false;
        for (i, (l, to)) in base.iter().zip(lives.iter_mut()).enumerate() {
            *to = *l;
            used |= 1 << (l.place % 32);
            if l.end > accept {
                still += 1;
                delayed |= l.delayed;
                if l.bank == asked.bank {
                    older = Some(i);
                }
            }
        }
        if t.machines >> still == 0 {
            return None;
        }
        let m = self.at.maintenance(base, t);
        let (others, rest) = lives.split_at_mut(n);
        let x = &mut rest[0];
        *x = Life::new(asked, accept, t);
        x.place = (!used).trailing_zeros() as u8;
        let mut from = x.waited;
        x.marked = m.begin;
        if accept >= m.begin {
            (x.later, x.held) = (true, accept < m.end);
            x.marked = m.next;
            if x.held {
                from = from.max(m.end);
            }
            if accept >= m.next {
                return None;
            }
        }
        if let Some(o) = older.map(|i| &mut others[i]) {
            // Not one that has been marked.
            x.hit = o.row == x.row && o.rtp > accept && o.marked > accept;
            if x.hit {
                o.passes = true;
                o.end = o.hands_over(accept).0;
            }
        }
        // Others may have waited for a precharge that does not happen now.
        let mut moves = x.hit && delayed;
        let test = Test {
            accept,
            bank: asked.bank,
        };
        self.at.work_out_from(lives, n, from, test, t);
        for i in 0..n {
            let tests = t.add_rp != 0 && lives[i].closes_after(accept);
            moves |= tests && self.at.idle_at(i, lives, test, t) != lives[i].end;
        }
        if moves && !self.at.work_out_all(lives, test, t) {
            return None;
        }
        lives.last()
    }

    /// Whether a later request could change when the request at the port is answered.
    pub fn is_open(&self, t: &Timing) -> bool {
        if !matches!(self.coming, Coming::Among) {
            return false;
        }
        let lives = &self.lives[self.base & 1 ^ 1][..(self.len + 1).min(FEW)];
        let Some((x, others)) = lives.split_last().filter(|(x, _)| !x.write) else {
            return false;
        };
        let tests = t.add_rp != 0 && !t.own_bank;
        others.iter().enumerate().any(|(i, l)| {
            let followed = x.held || lives[i + 1..].iter().any(|b| b.bank == l.bank);
            l.closes_after(self.accept) && (tests || l.delayed) && followed
        })
    }

    /// Processes all clocks before `clock`. If it returns false, the general engine has to continue.
    #[inline(always)]
    pub fn commit(&mut self, clock: u64, t: &Timing, tags: &Tags, out: &mut Out) -> bool {
        if clock <= self.at.now {
            return true;
        }
        match self.coming {
            Coming::Alone { column, end } if end < clock => {
                self.lived_alone(column, end, t, tags, out);
            }
            Coming::Nothing => {}
            _ => {
                if clock <= self.accept {
                    return false;
                }
                self.accept(t, tags, out);
            }
        }
        let calm = self.len == 0 && self.at.is_calm();
        if calm && (!t.refresh || clock <= self.at.tick_at) {
            self.at.now = clock;
        } else {
            self.pass(clock, t, tags, out);
        }
        true
    }

    /// The request at the port has come and gone, and nothing else has happened.
    #[inline(always)]
    fn lived_alone(&mut self, column: u64, end: u64, t: &Timing, tags: &Tags, out: &mut Out) {
        let tag = &tags[usize::from(self.place) % tags.len()];
        let (bank, write) = (tag.bank, tag.kind == Kind::Write);
        self.coming = Coming::Nothing;
        self.at.now = end + 1;
        self.next_order += 1;
        self.at.newest_bank = bank;
        self.at.dirty = self.at.dirty & !(1 << bank) | u16::from(write) << bank;
        out.accept(tag);
        if write {
            out.complete(tag, self.accept + t.response);
        }
        out.opened(bank);
        out.column(tag, column);
        out.precharge(bank, write);
    }

    /// The request at the port is accepted.
    #[inline(never)]
    fn accept(&mut self, t: &Timing, tags: &Tags, out: &mut Out) {
        let tag = &tags[usize::from(self.place) % tags.len()];
        if let Coming::Alone { .. } = self.coming {
            if let Some(x) = self.at.lives_alone(Asked::of(tag), self.accept, t) {
                self.lives[self.base & 1 ^ 1][0] = x;
            }
        }
        // In one clock, acceptance comes last.
        self.refresh_until(self.accept + 1, t, out);
        self.coming = Coming::Nothing;
        self.base ^= 1;
        self.len += 1;
        self.next_order += 1;
        self.at.newest_bank = tag.bank;
        out.accept(tag);
        if tag.kind == Kind::Write {
            out.complete(tag, self.accept + t.response);
        }
    }

    /// Processes all clocks before `until`, in which nothing is accepted.
    #[inline(never)]
    fn pass(&mut self, until: u64, t: &Timing, tags: &Tags, out: &mut Out) {
        self.refresh_until(until, t, out);
        let from = std::mem::replace(&mut self.at.now, until);
        let lives = &mut self.lives[self.base & 1][..self.len.min(FEW)];
        let mut kept = 0;
        for i in 0..lives.len() {
            let l = &lives[i];
            let now = |c: u64| from <= c && c < until;
            if now(l.begin) && !l.hit {
                self.at.dirty &= !(1 << l.bank);
                out.opened(l.bank);
            }
            if now(l.column) {
                self.at.dirty |= u16::from(l.write) << l.bank;
                out.column(&tags[usize::from(l.place) % tags.len()], l.column);
            }
            if now(l.precharge) && !l.passes {
                out.precharge(l.bank, l.dirty);
            }
            if l.end >= until {
                if kept != i {
                    lives[kept] = *l;
                }
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// Applies the rules of refreshes in all clocks before `until`.
    #[inline(always)]
    fn refresh_until(&mut self, until: u64, t: &Timing, out: &mut Out) {
        let at = &self.at;
        let ticks = t.refresh && at.tick_at < until;
        if at.maintenance || at.begin_at < until || ticks {
            self.refreshes_until(until, t, out);
        }
    }

    #[inline(never)]
    fn refreshes_until(&mut self, until: u64, t: &Timing, out: &mut Out) {
        let mut marked = marked_until(self.busy());
        loop {
            let at = &self.at;
            let mut c = match () {
                () if at.refreshing => at.refresh_end,
                () if at.maintenance => marked.max(at.now),
                () => at.begin_at,
            };
            if t.refresh {
                c = c.min(at.tick_at);
            }
            if c >= until {
                return;
            }
            if at.is_calm() && self.busy().iter().all(|l| l.end < c) {
                if let Some((last, count)) = t.idle_refreshes(c, until) {
                    out.refreshes += count;
                    self.at.tick_at = last - t.begin_delay + t.interval;
                    self.at.pulse_end = last + t.pulse;
                    self.release();
                    continue;
                }
            }
            if at.refreshing && c >= at.refresh_end {
                (self.at.refreshing, self.at.maintenance) = (false, false);
                self.release();
                marked = marked_until(self.busy());
            }
            self.refresh(c, marked, t, out);
        }
    }

    /// Rules 3 to 5 in a clock; the machines that are marked are busy until `marked`.
    #[inline(always)]
    fn refresh(&mut self, c: u64, marked: u64, t: &Timing, out: &mut Out) {
        let at = &mut self.at;
        if t.refresh && c >= at.tick_at {
            at.tick_at += t.interval;
            out.stats.refresh_ticks_lost += u64::from(at.requested);
            at.requested = true;
        }
        if at.requested && !at.maintenance && at.begin_at == NEVER {
            at.begin_at = c + t.begin_delay;
        }
        if c >= at.begin_at {
            at.begin_at = NEVER;
            at.maintenance = true;
            at.begun = c;
            at.pulse_end = c + t.pulse;
        }
        if at.maintenance && !at.refreshing && marked <= c {
            at.requested = false;
            at.refreshing = true;
            at.refresh_end = c + t.duration;
            out.refreshes += 1;
        }
    }

    /// A maintenance has ended.
    #[inline(always)]
    fn release(&mut self) {
        let n = (self.len + 1).min(FEW);
        for l in self.lives.iter_mut().flat_map(|lives| &mut lives[..n]) {
            (l.held, l.later) = (false, false);
        }
    }
}
