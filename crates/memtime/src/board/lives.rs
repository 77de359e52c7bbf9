//! Cores that wait for each miss keep few bank machines busy at a time, and seldom does a refresh come in between. The
//! rules of [`super`] then give the whole life of a request when it arrives: requests are kept here as the clocks of
//! their steps, and nothing is simulated. Refreshes that meet requests, and requests that meet others at the port, are
//! left to the general engine, [`State`].
//!
//! The newest request never delays an older one, as all rules prefer the oldest. It changes the lives of others in two
//! ways only: it takes over the row of a machine, which then does not close it; and it decides which bank is tested
//! before later precharges ([`RpTest`](crate::params::RpTest)).

use super::engine::{bit, Bits, State, NEVER, NONE};
use super::event::Tag;
use super::timing::Timing;
use super::{Out, Tags};
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

/// Most machines that are busy at a time in this form.
const FEW: usize = 6;

/// A request in its bank machine: the clocks of its steps, unless a newer request or a refresh changes them. Steps that
/// were over when this form was taken have clock 0.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// End of the wait behind its acceptance.
    waited: u64,
    /// Activation, or the clock in which the row was taken over.
    begin: u64,
    /// First clock in which the column command was possible.
    ready: u64,
    column: u64,
    ras_end: u64,
    /// From this clock on, no newer request can take over the row.
    rtp_end: u64,
    /// `NEVER` if the row is passed on.
    precharge: u64,
    /// The machine becomes idle in this clock.
    end: u64,
    row: u32,
    bank: u8,
    /// Index of the request's tag.
    place: u8,
    write: bool,
    /// It has taken over the row of the machine in front of it.
    hit: bool,
    /// Its row has been written when it is closed.
    dirty: bool,
    /// The precharge waits for those of older machines.
    delayed: bool,
}

impl Life {
    const NONE: Life = Life {
        waited: 0,
        begin: 0,
        ready: 0,
        column: 0,
        ras_end: 0,
        rtp_end: 0,
        precharge: 0,
        end: 0,
        row: 0,
        bank: 0,
        place: 0,
        write: false,
        hit: false,
        dirty: false,
        delayed: false,
    };

    /// Whether the row is closed by a precharge behind a clock.
    #[inline(always)]
    fn closes_after(&self, clock: u64) -> bool {
        self.precharge > clock && self.precharge != NEVER
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Lives {
    /// Whether this, and not [`State`], is the controller's current state.
    pub on: bool,
    /// Next clock to process.
    now: u64,
    /// Busy machines in the order of acceptance, and behind them the request at the port.
    lives: [Life; FEW + 1],
    /// Number of busy machines.
    len: usize,
    /// The request at the port, with the clock in which it is going to be accepted.
    coming: Option<Tag>,
    /// When the machines become idle if it is.
    ends: [u64; FEW],
    /// The machine whose row it takes over then.
    taken: Option<usize>,
    next_order: u64,
    tick_at: u64,
    pulse_end: u64,
    dirty: u16,
    newest_bank: u8,
}

impl Lives {
    pub fn new() -> Lives {
        Lives {
            on: false,
            now: 0,
            lives: [Life::NONE; FEW + 1],
            len: 0,
            coming: None,
            ends: [0; FEW],
            taken: None,
            next_order: 0,
            tick_at: 0,
            pulse_end: 0,
            dirty: 0,
            newest_bank: 0,
        }
    }

    #[inline(always)]
    fn busy(&self) -> &[Life] {
        &self.lives[..self.len.min(FEW)]
    }

    /// The request at the port.
    #[inline(always)]
    pub fn coming(&self) -> Option<&Tag> {
        self.coming.as_ref()
    }

    /// Forgets the request at the port.
    pub fn withdraw(&mut self) {
        self.coming = None;
    }

    /// Takes over from the general state. False if that is not of this form.
    #[inline(never)]
    pub fn enter(&mut self, s: &State, t: &Timing) -> bool {
        let few = (s.busy.count_ones() as usize) < FEW;
        let calm = !s.maintenance && !s.requested && s.now >= s.pulse_end;
        // Machines that wait until an older one has come to its end.
        let behind = s.passing | s.wait & (s.queued | s.hit);
        if !few || !calm || !s.port_is_empty() || behind != 0 {
            return false;
        }
        self.now = s.now;
        self.len = 0;
        (self.coming, self.taken) = (None, None);
        self.next_order = s.next_order;
        self.tick_at = s.tick_at;
        self.pulse_end = s.pulse_end;
        self.dirty = s.dirty;
        self.newest_bank = s.newest_bank;
        let mut rest = s.busy;
        while let Some(i) = Bits(rest).min_by_key(|&i| s.order[i]) {
            rest &= !bit(i);
            self.adopt(s, i, t);
        }
        for i in 0..self.len {
            let life = self.lives[i];
            if life.closes_after(0) {
                self.lives[i].end = self.closed(&life, self.newest_bank, self.len, t);
            }
        }
        self.on = true;
        true
    }

    /// Adds a machine of the general state, but for the end of its precharge.
    fn adopt(&mut self, s: &State, i: usize, t: &Timing) {
        let b = bit(i);
        let waits = s.wait & b != 0;
        let mut life = Life {
            ras_end: s.ras_end[i],
            row: s.row[i],
            bank: s.bank[i],
            place: s.place[i],
            write: s.writes & b != 0,
            hit: s.hit & b != 0,
            dirty: !waits && s.dirty >> s.bank[i] & 1 != 0,
            ..Life::NONE
        };
        if waits {
            life.waited = s.ready[i];
            self.activates(&mut life, s.ready[i], t);
        }
        if s.column & b != 0 {
            life.ready = s.ready[i];
        }
        if (s.wait | s.column) & b != 0 {
            self.issues(&mut life, t);
        } else if s.rtp & b != 0 {
            life.rtp_end = s.ready[i];
            self.closes(&mut life);
        } else {
            life.end = s.ready[i].max(self.now);
        }
        self.lives[self.len % FEW] = life;
        self.len += 1;
    }

    /// Gives the machines back to the general state.
    pub fn store(&self, s: &mut State) {
        for i in Bits(s.busy) {
            s.newest[s.bank[i] as usize % MAX_BANKS] = NONE;
        }
        let old = s.busy;
        s.clear_machines();
        let now = self.now;
        s.now = now;
        for (i, l) in self.busy().iter().enumerate() {
            let b = bit(i);
            let (phase, ready) = match l {
                l if l.begin >= now => (&mut s.wait, l.waited),
                l if l.column >= now => (&mut s.column, l.ready),
                l if l.precharge >= now => (&mut s.rtp, l.rtp_end),
                l => (&mut s.rp, l.end),
            };
            *phase |= b;
            s.ready[i] = ready;
            s.ras_end[i] = if l.begin >= now { 0 } else { l.ras_end };
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
            set(l.precharge == NEVER, &mut s.passing);
        }
        s.next_order = self.next_order;
        s.tick_at = self.tick_at;
        s.pulse_end = self.pulse_end;
        s.dirty = self.dirty;
        s.newest_bank = self.newest_bank;
        s.update_some(old | s.busy);
    }

    /// The youngest machine activates its bank, from a clock on.
    #[inline(always)]
    fn activates(&self, l: &mut Life, from: u64, t: &Timing) {
        let mut c = from.max(self.now);
        while self.busy().iter().any(|o| o.begin == c && !o.hit) {
            c += 1;
        }
        let (rcd, ras) = t.activation(l.bank);
        (l.begin, l.ready, l.ras_end) = (c, c + rcd, c + ras);
    }

    /// The youngest machine issues its column command, and closes its row.
    #[inline(always)]
    fn issues(&self, l: &mut Life, t: &Timing) {
        let mut c = l.ready.max(self.now);
        if l.write {
            let writes = self.busy().iter().filter(|o| o.write);
            c = writes.fold(c, |c, o| c.max(o.column + 1));
        }
        while self.busy().iter().any(|o| o.column == c) {
            c += 1;
        }
        l.column = c;
        l.dirty |= l.write;
        l.rtp_end = (c + t.stay[usize::from(l.write)]).max(l.ras_end.saturating_sub(1));
        self.closes(l);
    }

    /// The youngest machine closes its row.
    #[inline(always)]
    fn closes(&self, l: &mut Life) {
        let mut c = l.rtp_end.max(l.ras_end).max(self.now);
        let taken = |i: usize| self.taken == Some(i);
        while (self.busy().iter().enumerate()).any(|(i, o)| o.precharge == c && !taken(i)) {
            c += 1;
            l.delayed = true;
        }
        l.precharge = c;
    }

    /// When a machine is idle behind its precharge, if a bank is that of the newest request accepted before; `n` lives
    /// count.
    #[inline(always)]
    fn closed(&self, l: &Life, newest: u8, n: usize, t: &Timing) -> u64 {
        let tested = if t.own_bank { l.bank } else { newest };
        let slow = t.add_rp != 0 && t.is_nvmm(tested) && self.is_dirty(tested, l.precharge, n);
        l.precharge + t.rp + if slow { t.add_rp } else { 0 }
    }

    /// Whether the row of a bank has been written since its activation when a precharge is issued in a clock.
    #[inline(always)]
    fn is_dirty(&self, bank: u8, clock: u64, n: usize) -> bool {
        let mut dirty = self.dirty >> bank & 1 != 0;
        for l in self.lives[..n.min(FEW + 1)].iter().filter(|l| l.bank == bank) {
            // In one clock, columns come before precharges, and activations behind them.
            if l.begin >= self.now && l.begin < clock && !l.hit {
                dirty = false;
            }
            dirty |= l.write && l.column >= self.now && l.column <= clock;
        }
        dirty
    }

    /// The clock of the column command (read) or of the acceptance (write) of a request that arrives now, if that is
    /// known without simulation and nothing else arrives.
    #[inline(always)]
    pub fn foresee(&mut self, tag: &Tag, t: &Timing) -> Option<u64> {
        let n = self.len;
        let accept = self.now + t.hold_of(tag.kind, tag.bank);
        let still = self.busy().iter().filter(|l| l.end > accept).count();
        if n >= FEW || t.machines >> still == 0 {
            return None;
        }
        self.taken = None;
        let mut x = Life {
            waited: accept + t.wait,
            row: tag.row,
            bank: tag.bank,
            write: tag.kind == Kind::Write,
            ..Life::NONE
        };
        if n == 0 {
            self.activates(&mut x, accept + t.wait, t);
        } else {
            self.begins_behind(&mut x, accept, t)?;
        }
        self.issues(&mut x, t);
        let slow = t.add_rp != 0 && x.dirty && t.is_nvmm(x.bank);
        x.end = x.precharge + t.rp + if slow { t.add_rp } else { 0 };
        self.lives[n % (FEW + 1)] = x;
        if n != 0 && t.add_rp != 0 && !t.own_bank {
            self.tests(x.bank, accept, t)?;
        }
        let answer = if x.write { accept } else { x.column };
        if t.refresh && answer >= self.tick_at + t.begin_delay {
            return None;
        }
        self.coming = Some(Tag {
            accepted: accept,
            hit: x.hit,
            ..*tag
        });
        Some(answer)
    }

    /// The new request takes over the row of its bank, or activates it behind the last machine of the bank.
    #[inline(always)]
    fn begins_behind(&mut self, x: &mut Life, accept: u64, t: &Timing) -> Option<()> {
        let n = self.len.min(FEW);
        for (end, l) in self.ends.iter_mut().zip(&self.lives[..n]) {
            *end = l.end;
        }
        let of_bank = |l: &Life| l.bank == x.bank && l.end > accept;
        let mut from = x.waited;
        if let Some(i) = self.busy().iter().rposition(of_bank) {
            let o = self.lives[i];
            if o.row == x.row && o.rtp_end > accept {
                // Others may have waited for a precharge that does not happen now.
                if self.busy().iter().any(|l| l.delayed && l.closes_after(accept)) {
                    return None;
                }
                (x.begin, x.ready) = if o.column > accept {
                    (o.column, o.column + 1)
                } else {
                    (accept + 1, accept + 1)
                };
                (x.hit, x.ras_end, x.dirty) = (true, o.ras_end, o.dirty);
                (self.taken, self.ends[i]) = (Some(i), x.begin);
                return Some(());
            }
            if o.closes_after(accept) {
                self.ends[i] = self.closed(&o, x.bank, n, t);
            }
            from = from.max(self.ends[i]);
        }
        self.activates(x, from, t);
        Some(())
    }

    /// The new request's bank is the one that is tested before later precharges. `None` if that moves machines behind
    /// others.
    #[inline(always)]
    fn tests(&mut self, bank: u8, accept: u64, t: &Timing) -> Option<()> {
        for i in 0..self.len.min(FEW) {
            let l = self.lives[i];
            if !l.closes_after(accept) || self.taken == Some(i) {
                continue;
            }
            let end = self.closed(&l, bank, self.len + 1, t);
            if end != l.end && self.busy()[i + 1..].iter().any(|b| b.bank == l.bank) {
                return None;
            }
            self.ends[i] = end;
        }
        Some(())
    }

    /// Whether a later request could change when the request at the port is answered.
    pub fn is_open(&self, t: &Timing) -> bool {
        let Some(x) = self.coming.filter(|x| x.kind == Kind::Read) else {
            return false;
        };
        let tests = t.add_rp != 0 && !t.own_bank;
        let lives = &self.lives[..(self.len + 1).min(FEW + 1)];
        self.busy().iter().enumerate().any(|(i, l)| {
            let moves = l.closes_after(x.accepted) && self.taken != Some(i);
            moves && (tests || l.delayed) && lives[i + 1..].iter().any(|b| b.bank == l.bank)
        })
    }

    /// Processes all clocks before `clock`. If it returns false, the general engine has to continue.
    #[inline(always)]
    pub fn commit(&mut self, clock: u64, t: &Timing, tags: &mut Tags, out: &mut Out) -> bool {
        if clock <= self.now {
            return true;
        }
        let ticks = t.refresh && clock > self.tick_at;
        let until = if ticks { self.tick_at } else { clock };
        if let Some(tag) = self.coming {
            if until <= tag.accepted {
                return false;
            }
            self.accept(&tag, t, tags, out);
        }
        self.pass(until, tags, out);
        !ticks || self.len == 0 && self.rest(clock, t, out)
    }

    /// The request at the port is accepted.
    #[inline(always)]
    fn accept(&mut self, tag: &Tag, t: &Timing, tags: &mut Tags, out: &mut Out) {
        self.coming = None;
        let n = self.len.min(FEW - 1);
        let mut used = 0u32;
        for (l, end) in self.lives[..n].iter_mut().zip(self.ends) {
            l.end = end;
            used |= 1 << (l.place % 32);
        }
        if let Some(i) = self.taken {
            self.lives[i % FEW].precharge = NEVER;
        }
        let place = (!used).trailing_zeros() as u8;
        self.lives[n].place = place;
        tags[usize::from(place) % tags.len()] = *tag;
        self.len = n + 1;
        self.next_order += 1;
        self.newest_bank = tag.bank;
        out.accept(tag);
        if tag.kind == Kind::Write {
            out.complete(tag, tag.accepted + t.response);
        }
    }

    /// Processes all clocks before `until`, up to which nothing is accepted and no refresh begins.
    #[inline(always)]
    fn pass(&mut self, until: u64, tags: &Tags, out: &mut Out) {
        let from = self.now;
        let mut kept = 0;
        for i in 0..self.len.min(FEW) {
            let l = &self.lives[i];
            let now = |c: u64| from <= c && c < until;
            if now(l.begin) && !l.hit {
                self.dirty &= !(1 << l.bank);
                out.opened(l.bank);
            }
            if now(l.column) {
                self.dirty |= u16::from(l.write) << l.bank;
                out.column(&tags[usize::from(l.place) % tags.len()], l.column);
            }
            if now(l.precharge) {
                out.precharge(l.bank, l.dirty);
            }
            if l.end >= until {
                self.lives[kept] = *l;
                kept += 1;
            }
        }
        self.len = kept;
        self.now = until;
    }

    /// Processes the refreshes of an idle controller. False if one is under way in a clock.
    #[inline(never)]
    fn rest(&mut self, clock: u64, t: &Timing, out: &mut Out) -> bool {
        let Some((last, count)) = t.idle_refreshes(self.tick_at, clock) else {
            return false;
        };
        out.refreshes += count;
        self.tick_at = last - t.begin_delay + t.interval;
        self.pulse_end = last + t.pulse;
        self.now = last + t.duration.max(t.pulse) + 1;
        let over = self.tick_at >= clock;
        if over {
            self.now = clock;
        }
        over
    }
}
