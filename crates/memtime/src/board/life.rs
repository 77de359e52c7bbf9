//! The life of a request in its bank machine, as it follows from the rules of [`super`].

use super::engine::{bit, State, NEVER};
use super::event::Tag;
use super::timing::Timing;
use crate::request::Kind;

/// Most times that lives are worked out for the sake of tests that depend on machines behind.
const ROUNDS: usize = 5;

/// A request in its bank machine. Steps that are over are facts; those from now on follow from the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub accept: u64,
    /// End of the wait behind its acceptance.
    pub waited: u64,
    /// Activation, or the clock in which the row was taken over.
    pub begin: u64,
    /// First clock in which the column command is possible.
    pub ready: u64,
    /// Activation of its row.
    pub activated: u64,
    /// End of tRAS, if no maintenance shortens it.
    pub ras: u64,
    pub column: u64,
    /// End of tRTP or tWTP, if no maintenance shortens it: from then on, no newer request can take over the row.
    pub rtp: u64,
    pub precharge: u64,
    /// The machine becomes idle in this clock.
    pub end: u64,
    /// Begin of the maintenance that marks it, if it is still busy then.
    pub marked: u64,
    pub row: u32,
    pub bank: u8,
    /// Index of the request's tag.
    pub place: u8,
    pub write: bool,
    /// It takes over the row of the machine in front of it in its bank.
    pub hit: bool,
    /// It passes its row on, and does not close it.
    pub passes: bool,
    /// Its row has been written when it is closed.
    pub dirty: bool,
    /// The precharge waits for those of older machines.
    pub delayed: bool,
    /// It waits for the end of the maintenance in which it was accepted.
    pub held: bool,
    /// Not the maintenance under way, or the next one, marks it, but the one behind.
    pub later: bool,
}

/// What a request's life depends on, besides its time.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub row: u32,
    pub bank: u8,
    pub kind: Kind,
}

impl Asked {
    #[inline(always)]
    pub fn of(tag: &Tag) -> Asked {
        Asked {
            row: tag.row,
            bank: tag.bank,
            kind: tag.kind,
        }
    }
}

impl Life {
    /// All steps are still to come.
    pub const NEW: Life = Life {
        accept: 0,
        waited: 0,
        begin: NEVER,
        ready: 0,
        activated: 0,
        ras: 0,
        column: NEVER,
        rtp: NEVER,
        precharge: NEVER,
        end: NEVER,
        marked: NEVER,
        row: 0,
        bank: 0,
        place: 0,
        write: false,
        hit: false,
        passes: false,
        dirty: false,
        delayed: false,
        held: false,
        later: false,
    };

    /// Of a request of which nothing is known but its acceptance.
    #[inline(always)]
    pub fn new(asked: Asked, accept: u64, t: &Timing) -> Life {
        Life {
            accept,
            waited: accept + t.wait,
            row: asked.row,
            bank: asked.bank,
            write: asked.kind == Kind::Write,
            ..Life::NEW
        }
    }

    /// Whether the row is closed by a precharge behind a clock.
    #[inline(always)]
    pub fn closes_after(&self, clock: u64) -> bool {
        self.precharge > clock && !self.passes
    }

    /// When the row is handed over to a request that is accepted in a clock, and when that may issue its column
    /// command.
    #[inline(always)]
    pub fn hands_over(&self, accept: u64) -> (u64, u64) {
        if self.column > accept {
            (self.column, self.column + 1)
        } else {
            (accept + 1, accept + 1)
        }
    }

    /// What is left of a timer with an end that was loaded in a clock, at the end of another clock: the pulse at the
    /// begin of the maintenance that marks the machine shortens it to a limit.
    #[inline(always)]
    fn shortened(&self, end: u64, loaded: u64, limit: u64, clock: u64, t: &Timing) -> u64 {
        let from = self.marked.max(loaded + 1);
        if from <= clock && from < self.marked + t.pulse {
            end.min(from + limit)
        } else {
            end
        }
    }

    /// The end of tRAS as known at the end of a clock.
    #[inline(always)]
    pub fn ras_end(&self, clock: u64, t: &Timing) -> u64 {
        self.shortened(self.ras, self.activated, t.ras_limit, clock, t)
    }

    /// The end of tRTP or tWTP as known at the end of a clock.
    #[inline(always)]
    pub fn rtp_end(&self, clock: u64, t: &Timing) -> u64 {
        self.shortened(self.rtp, self.column, t.rtp_limit, clock, t)
    }
}

/// What is known of the maintenance under way, or the next one.
pub(super) struct Maintenance {
    pub begin: u64,
    pub end: u64,
    /// Begin of the one behind.
    pub next: u64,
}

/// The state at a clock that machines share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Next clock to process.
    pub now: u64,
    // As in `State`.
    pub newest_bank: u8,
    pub dirty: u16,
    pub tick_at: u64,
    pub begin_at: u64,
    pub pulse_end: u64,
    pub refresh_end: u64,
    pub requested: bool,
    pub maintenance: bool,
    pub refreshing: bool,
    /// When the maintenance has begun that is under way.
    pub begun: u64,
}

/// Which bank is tested before precharges behind the acceptance of a request.
#[derive(Clone, Copy)]
pub(super) struct Test {
    pub accept: u64,
    pub bank: u8,
}

impl Moment {
    pub const START: Moment = Moment {
        now: 0,
        newest_bank: 0,
        dirty: 0,
        tick_at: 0,
        begin_at: NEVER,
        pulse_end: 0,
        refresh_end: 0,
        requested: false,
        maintenance: false,
        refreshing: false,
        begun: 0,
    };

    pub fn of(s: &State) -> Moment {
        Moment {
            now: s.now,
            newest_bank: s.newest_bank,
            dirty: s.dirty,
            tick_at: s.tick_at,
            begin_at: s.begin_at,
            pulse_end: s.pulse_end,
            refresh_end: s.refresh_end,
            requested: s.requested,
            maintenance: s.maintenance,
            refreshing: s.refreshing,
            // Its pulse is over, and all that it can change has happened.
            begun: 0,
        }
    }

    pub fn store(&self, s: &mut State) {
        s.now = self.now;
        s.newest_bank = self.newest_bank;
        s.dirty = self.dirty;
        s.tick_at = self.tick_at;
        s.begin_at = self.begin_at;
        s.pulse_end = self.pulse_end;
        s.refresh_end = self.refresh_end;
        s.requested = self.requested;
        s.maintenance = self.maintenance;
        s.refreshing = self.refreshing;
    }

    /// Whether no maintenance is under way or asked for.
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        !self.maintenance && !self.requested
    }

    /// When the maintenance begins that is next, if none is under way.
    #[inline(always)]
    fn next_begin(&self, t: &Timing) -> u64 {
        match t.refresh {
            true if self.begin_at == NEVER => self.tick_at + t.begin_delay,
            _ => self.begin_at,
        }
    }

    /// The maintenance under way, or the next one, for lives that are worked out as far as it marks them.
    #[inline(always)]
    pub fn maintenance(&self, lives: &[Life], t: &Timing) -> Maintenance {
        let begin = if self.maintenance {
            self.begun
        } else {
            self.next_begin(t)
        };
        let issue = begin.max(marked_until(lives));
        let end = if self.refreshing {
            self.refresh_end
        } else {
            issue + t.duration
        };
        let mut tick = if t.refresh { self.tick_at } else { NEVER };
        // Those before the refresh are lost.
        while !self.refreshing && tick <= issue && t.refresh {
            tick += t.interval;
        }
        let asked = self.refreshing && self.requested || tick <= end;
        let next = if asked { end } else { tick } + t.begin_delay;
        Maintenance { begin, end, next }
    }

    /// The life of a request that comes to an idle controller, if it meets no refresh.
    #[inline(always)]
    pub fn lives_alone(&self, asked: Asked, accept: u64, t: &Timing) -> Option<Life> {
        let mut x = Life::new(asked, accept, t);
        let (rcd, ras) = t.activation(x.bank);
        let begin = x.waited;
        (x.begin, x.activated, x.ready, x.ras) = (begin, begin, begin + rcd, begin + ras);
        x.column = x.ready;
        x.rtp = (x.column + t.stay[usize::from(x.write)]).max(x.ras.saturating_sub(1));
        x.precharge = x.rtp.max(x.ras);
        x.dirty = x.write;
        // The bank that is tested is its own.
        let slow = x.write && t.is_nvmm(x.bank);
        x.end = x.precharge + t.rp + if slow { t.add_rp } else { 0 };
        (!t.refresh || x.end < self.tick_at).then_some(x)
    }

    /// Works out the steps of machine `i` from now on.
    #[inline(always)]
    fn work_out(&self, lives: &mut [Life], i: usize, test: Test, t: &Timing) {
        let (others, rest) = lives.split_at_mut(i);
        let l = &mut rest[0];
        let mut from = l.waited;
        if l.later {
            let m = self.maintenance(others, t);
            l.marked = m.next;
            if l.held {
                from = from.max(m.end);
            }
        } else if !self.maintenance {
            l.marked = self.next_begin(t);
        }
        self.work_out_from(lives, i, from, test, t);
    }

    /// As [`Self::work_out`], where it is known when it is marked, and from when on it may be activated.
    #[inline(always)]
    pub fn work_out_from(&self, lives: &mut [Life], i: usize, from: u64, test: Test, t: &Timing) {
        let (others, rest) = lives.split_at_mut(i);
        let Some((l, behind)) = rest.split_first_mut() else {
            return;
        };
        if l.begin >= self.now {
            self.begins(l, others, from, t);
        }
        if l.column >= self.now {
            self.issues(l, others, t);
        }
        if l.passes {
            // Whoever takes over says when.
            let next = behind.iter().find(|b| b.bank == l.bank);
            l.end = next.map_or(l.end, |x| l.hands_over(x.accept).0);
        } else if l.precharge >= self.now {
            self.closes(l, others, t);
            lives[i].end = self.idle_at(i, lives, test, t);
        }
    }

    /// Works out the steps of all machines from now on. False if that takes too long.
    #[inline(never)]
    pub fn work_out_all(&self, lives: &mut [Life], test: Test, t: &Timing) -> bool {
        // Tests may depend on machines behind, which are worked out later.
        for _ in 0..ROUNDS {
            let mut moved = false;
            for i in 0..lives.len() {
                let end = lives[i].end;
                self.work_out(lives, i, test, t);
                moved |= lives[i].end != end;
            }
            if !moved {
                return true;
            }
        }
        false
    }

    /// The row is activated, or taken over.
    #[inline(always)]
    fn begins(&self, l: &mut Life, others: &[Life], from: u64, t: &Timing) {
        let older = others.iter().rfind(|o| o.bank == l.bank);
        let mut c = from.max(self.now);
        if let Some(o) = older {
            if l.hit {
                (l.begin, l.ready) = o.hands_over(l.accept);
                (l.activated, l.ras, l.dirty) = (o.activated, o.ras, o.dirty);
                return;
            }
            c = c.max(o.end);
        }
        while others.iter().any(|o| o.begin == c && !o.hit) {
            c += 1;
        }
        let (rcd, ras) = t.activation(l.bank);
        (l.begin, l.activated, l.ready, l.ras, l.dirty) = (c, c, c + rcd, c + ras, false);
    }

    /// The column command is issued.
    #[inline(always)]
    fn issues(&self, l: &mut Life, others: &[Life], t: &Timing) {
        let mut c = l.ready.max(self.now);
        if l.write {
            let writes = others.iter().filter(|o| o.write);
            c = writes.fold(c, |c, o| c.max(o.column + 1));
        }
        while others.iter().any(|o| o.column == c) {
            c += 1;
        }
        l.column = c;
        l.dirty |= l.write;
        l.rtp = (c + t.stay[usize::from(l.write)]).max(l.ras_end(c, t).saturating_sub(1));
    }

    /// The row is closed.
    #[inline(always)]
    fn closes(&self, l: &mut Life, others: &[Life], t: &Timing) {
        let free = l.rtp.max(l.ras).max(self.now);
        let mut c = if free < l.marked {
            free
        } else {
            let (rtp, ras) = (l.rtp_end(NEVER, t), l.ras_end(NEVER, t));
            rtp.max(ras).max(l.marked).max(self.now)
        };
        l.delayed = false;
        while others.iter().any(|o| o.precharge == c && !o.passes) {
            c += 1;
            l.delayed = true;
        }
        l.precharge = c;
    }

    /// When machine `i`, which closes its row, becomes idle.
    #[inline(always)]
    pub fn idle_at(&self, i: usize, lives: &[Life], test: Test, t: &Timing) -> u64 {
        let l = &lives[i];
        let end = l.precharge + t.rp;
        let newest = if l.precharge > test.accept {
            test.bank
        } else {
            self.newest_bank
        };
        let tested = if t.own_bank { l.bank } else { newest };
        if t.add_rp == 0 || !t.is_nvmm(tested) {
            return end;
        }
        let slow = if tested == l.bank {
            l.dirty
        } else {
            self.is_dirty(tested, l.precharge, lives)
        };
        end + if slow { t.add_rp } else { 0 }
    }

    /// Whether the row of a bank has been written since its activation when a precharge is issued in a clock.
    #[inline(always)]
    fn is_dirty(&self, bank: u8, clock: u64, lives: &[Life]) -> bool {
        let mut dirty = self.dirty >> bank & 1 != 0;
        for l in lives.iter().filter(|l| l.bank == bank) {
            // In one clock, columns come before precharges, and activations behind them.
            if l.begin >= self.now && l.begin < clock && !l.hit {
                dirty = false;
            }
            dirty |= l.write && l.column >= self.now && l.column <= clock;
        }
        dirty
    }
}

/// When the last of the machines becomes idle that the maintenance under way or the next one marks.
#[inline(always)]
pub(super) fn marked_until(lives: &[Life]) -> u64 {
    let marked = lives.iter().filter(|l| !l.later);
    marked.fold(0, |last, l| last.max(l.end))
}

/// A machine of the general state, with what has happened.
pub(super) fn adopted(s: &State, i: usize) -> Life {
    let b = bit(i);
    let waits = s.wait & b != 0;
    // Any clock that is over would do.
    let before = s.now.saturating_sub(1);
    let mut l = Life {
        accept: before,
        row: s.row[i],
        bank: s.bank[i],
        place: s.place[i],
        write: s.writes & b != 0,
        hit: s.hit & b != 0,
        passes: s.passing & b != 0,
        held: s.held & b != 0,
        later: s.held & b != 0,
        marked: if s.marked & b != 0 { 0 } else { NEVER },
        ..Life::NEW
    };
    if waits {
        l.waited = s.ready[i];
        return l;
    }
    (l.begin, l.activated) = (before, before);
    l.ras = s.ras_end[i];
    l.dirty = s.dirty >> s.bank[i] & 1 != 0;
    if s.column & b != 0 {
        l.ready = s.ready[i];
        return l;
    }
    l.column = before;
    if s.rtp & b != 0 {
        l.rtp = s.ready[i];
    } else {
        (l.rtp, l.precharge) = (before, before);
        l.end = s.ready[i].max(s.now);
    }
    l
}
