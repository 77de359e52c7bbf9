//! Cores that wait for each miss keep few bank machines busy at a time. For them this module
//! applies the rules of [`super`] without a search among machines and without a saved state to
//! return to: the outcome of a new request is computed on a small copy of the state, which replaces
//! the state once time has passed it.

use super::engine::{bit, Bits, State, NEVER, NONE};
use super::event::Tag;
use super::timing::Timing;
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

/// Marks that there is no request.
const NO_PLACE: u8 = u8::MAX - 1;
/// Maximum of busy machines: as many as have a source number of their own in [`Serial::run`].
const FEW: usize = 6;

/// The lifetime, in clocks, of a request that meets neither another request nor a refresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undisturbed {
    pub accept: u64,
    pub column: u64,
    /// The machine is idle again.
    pub end: u64,
}

/// The outcome of a new request, in clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub accept: u64,
    pub column: u64,
    pub hit: bool,
}

/// Where a machine stands, as in [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Wait,
    /// Waits for the row of the machine before it in its bank.
    Passed,
    Column,
    Rtp,
    Rp,
}

#[derive(Clone, Copy, Debug)]
struct Machine {
    /// Derived: the first clock at which it can act.
    at: u64,
    ready: u64,
    ras_end: u64,
    row: u32,
    bank: u8,
    /// Index of the request's tag.
    place: u8,
    phase: Phase,
    write: bool,
    /// It is queued behind an older machine of its bank.
    queued: bool,
    held: bool,
    marked: bool,
    /// Its row will be passed on to the next machine of its bank.
    passing: bool,
}

impl Machine {
    const EMPTY: Machine = Machine {
        at: NEVER,
        ready: NEVER,
        ras_end: 0,
        row: 0,
        bank: 0,
        place: 0,
        phase: Phase::Rp,
        write: false,
        queued: false,
        held: false,
        marked: false,
        passing: false,
    };

    /// A write that has not yet issued its column command.
    #[inline]
    fn is_writing(&self) -> bool {
        self.write && !matches!(self.phase, Phase::Rtp | Phase::Rp)
    }
}

/// What is reported while the state is advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounts {
    pub refreshes: u64,
    /// Ticks of refresh that found one pending.
    pub lost: u64,
    /// Banks precharged, and whether their rows had been written.
    closed: [(u8, bool); 2 * FEW],
    /// Banks activated.
    opened: [u8; 2 * FEW],
    /// Requests that have had their column command: indices of their tags, and clocks.
    had: [(u8, u64); 2 * FEW],
    closings: u8,
    openings: u8,
    columns: u8,
    /// Whether a later request could change the time of an awaited event.
    pub open: bool,
    /// Clock in which the newcomer was accepted.
    accepted: u64,
}

impl EventCounts {
    #[inline]
    pub fn clear(&mut self) {
        self.refreshes = 0;
        self.lost = 0;
        self.closings = 0;
        self.openings = 0;
        self.columns = 0;
        self.open = false;
    }

    #[inline]
    pub fn columns(&self) -> &[(u8, u64)] {
        &self.had[..usize::from(self.columns).min(2 * FEW)]
    }

    #[inline]
    pub fn closed(&self) -> &[(u8, bool)] {
        &self.closed[..usize::from(self.closings).min(2 * FEW)]
    }

    #[inline]
    pub fn opened(&self) -> &[u8] {
        &self.opened[..usize::from(self.openings).min(2 * FEW)]
    }

    // At most one of each for a machine, and machines do not come anew.
    #[inline]
    fn close(&mut self, bank: u8, dirty: bool) {
        self.closed[usize::from(self.closings) % (2 * FEW)] = (bank, dirty);
        self.closings += 1;
    }

    #[inline]
    fn had_column(&mut self, place: u8, clock: u64) {
        self.had[usize::from(self.columns) % (2 * FEW)] = (place, clock);
        self.columns += 1;
    }

    #[inline]
    fn open(&mut self, bank: u8) {
        self.opened[usize::from(self.openings) % (2 * FEW)] = bank;
        self.openings += 1;
    }
}

/// The controller while its port is empty and few bank machines are busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serial {
    /// Next clock to process.
    pub now: u64,
    /// Busy machines in the order of acceptance.
    machines: [Machine; FEW],
    len: usize,
    next_order: u64,
    tick_at: u64,
    begin_at: u64,
    pulse_end: u64,
    refresh_end: u64,
    dirty: u16,
    newest_bank: u8,
    requested: bool,
    maintenance: bool,
    refreshing: bool,
}

/// The request whose lifetime is asked for.
struct Target<'a> {
    tag: &'a Tag,
    place: u8,
    /// Clock at which its hold at the port ends.
    ready: u64,
    accepted: Option<u64>,
    hit: bool,
}

impl Target<'static> {
    fn none() -> Self {
        Target {
            tag: &Tag::EMPTY,
            place: u8::MAX,
            ready: NEVER,
            accepted: None,
            hit: false,
        }
    }
}

/// Sources of the next event, apart from the machines.
const REFRESH: u64 = FEW as u64;
const PORT: u64 = REFRESH + 1;

impl Serial {
    /// Converts a state into this form if it qualifies.
    #[inline]
    pub fn of(s: &State) -> Option<Serial> {
        let few = (s.busy.count_ones() as usize) < FEW;
        if !few || s.now < s.pulse_end || !s.port_is_empty() {
            return None;
        }
        let mut machines = [Machine::EMPTY; FEW];
        let mut len = 0;
        let mut rest = s.busy;
        while let Some(i) = Bits(rest).min_by_key(|&i| s.order[i]) {
            let b = bit(i);
            rest &= !b;
            machines[len % FEW] = Machine {
                at: NEVER,
                ready: s.ready[i],
                ras_end: s.ras_end[i],
                row: s.row[i],
                bank: s.bank[i],
                place: s.place[i],
                phase: match () {
                    () if s.rp & b != 0 => Phase::Rp,
                    () if s.rtp & b != 0 => Phase::Rtp,
                    () if s.column & b != 0 => Phase::Column,
                    () if s.hit & b != 0 => Phase::Passed,
                    () => Phase::Wait,
                },
                write: s.writes & b != 0,
                queued: s.queued & b != 0,
                held: s.held & b != 0,
                marked: s.marked & b != 0,
                passing: s.passing & b != 0,
            };
            len += 1;
        }
        let mut serial = Serial {
            now: s.now,
            machines,
            len,
            next_order: s.next_order,
            tick_at: s.tick_at,
            begin_at: s.begin_at,
            pulse_end: s.pulse_end,
            refresh_end: s.refresh_end,
            dirty: s.dirty,
            newest_bank: s.newest_bank,
            requested: s.requested,
            maintenance: s.maintenance,
            refreshing: s.refreshing,
        };
        serial.update_all();
        Some(serial)
    }

    /// Converts it back into the general state.
    pub fn store(&self, s: &mut State) {
        for i in Bits(s.busy) {
            s.newest[s.bank[i] as usize % MAX_BANKS] = NONE;
        }
        let old = s.busy;
        s.clear_machines();
        s.now = self.now;
        for (i, m) in self.machines().iter().enumerate() {
            let b = bit(i);
            let bank = m.bank as usize % MAX_BANKS;
            s.keep_place(m.place);
            s.ready[i] = m.ready;
            s.ras_end[i] = m.ras_end;
            // Only their order counts.
            s.order[i] = self.next_order - (self.len - i) as u64;
            s.row[i] = m.row;
            s.bank[i] = m.bank;
            s.place[i] = m.place;
            s.newer[i] = NONE;
            let older = std::mem::replace(&mut s.newest[bank], i as u8);
            if older != NONE {
                s.newer[older as usize % FEW] = i as u8;
            }
            s.busy |= b;
            let set = |on: bool, set: &mut u8| *set |= if on { b } else { 0 };
            set(matches!(m.phase, Phase::Wait | Phase::Passed), &mut s.wait);
            set(m.phase == Phase::Passed, &mut s.hit);
            set(m.phase == Phase::Column, &mut s.column);
            set(m.phase == Phase::Rtp, &mut s.rtp);
            set(m.phase == Phase::Rp, &mut s.rp);
            set(older != NONE, &mut s.queued);
            set(m.write, &mut s.writes);
            set(m.is_writing(), &mut s.writing);
            set(m.held, &mut s.held);
            set(m.marked, &mut s.marked);
            set(m.passing, &mut s.passing);
        }
        s.next_order = self.next_order;
        s.tick_at = self.tick_at;
        s.begin_at = self.begin_at;
        s.pulse_end = self.pulse_end;
        s.refresh_end = self.refresh_end;
        s.dirty = self.dirty;
        s.newest_bank = self.newest_bank;
        s.requested = self.requested;
        s.maintenance = self.maintenance;
        s.refreshing = self.refreshing;
        s.update_some(old | s.busy);
    }

    #[inline]
    fn machines(&self) -> &[Machine] {
        &self.machines[..self.len.min(FEW)]
    }

    /// Whether nothing is at work.
    #[inline]
    fn is_idle(&self) -> bool {
        self.len == 0 && !self.maintenance && !self.requested
    }

    /// Whether nothing is at work, and nothing begins before a clock.
    #[inline(always)]
    pub fn rests_until(&self, clock: u64, t: &Timing) -> bool {
        self.is_idle() && (!t.refresh || self.tick_at >= clock)
    }

    /// An index for a tag that no machine uses.
    #[inline]
    pub fn free_place(&self) -> u8 {
        let used = self
            .machines()
            .iter()
            .fold(0u32, |u, m| u | 1 << (m.place % 32));
        (!used).trailing_zeros() as u8
    }

    /// The lifetime of a request that arrives in clock `now`, if no other request is under way and
    /// it ends before anything else can begin.
    #[inline]
    pub fn undisturbed(&self, kind: Kind, bank: u8, t: &Timing) -> Option<Undisturbed> {
        if !self.is_idle() || self.now < self.pulse_end {
            return None;
        }
        let accept = self.now + t.hold_of(kind, bank);
        let (rcd, ras) = t.activation(bank);
        let activate = accept + t.wait;
        let column = activate + rcd;
        let ras_end = activate + ras;
        let rtp = column + t.stay[kind as usize];
        let precharge = rtp.max(ras_end);
        // The bank tested is its own: it is the newest request, too.
        let slow = kind == Kind::Write && t.is_nvmm(bank);
        let end = precharge + t.rp + if slow { t.add_rp } else { 0 };
        let free = !t.refresh || end < self.tick_at;
        free.then_some(Undisturbed {
            accept,
            column,
            end,
        })
    }

    /// Applies the effects of a request whose lifetime is known ([`alone`](Self::alone)).
    #[inline]
    pub fn after_undisturbed(&mut self, kind: Kind, bank: u8, end: u64) {
        self.now = end + 1;
        self.next_order += 1;
        self.newest_bank = bank;
        let dirty = u16::from(kind == Kind::Write) << bank;
        self.dirty = self.dirty & !(1 << bank) | dirty;
    }

    /// The lifetime of a request that arrives in clock `now`, up to its column command (read) or
    /// its acceptance (write), provided that nothing else arrives. `self` becomes the state after
    /// that clock. If the answer is `None`, `self` must not be used any more.
    #[inline]
    pub fn plan(
        &mut self,
        tag: &Tag,
        place: u8,
        t: &Timing,
        counts: &mut EventCounts,
    ) -> Option<Lifetime> {
        if self.len >= FEW || t.machines.count_ones() as usize <= self.len {
            return None;
        }
        let mut target = Target {
            tag,
            place,
            ready: self.now + t.hold_of(tag.kind, tag.bank),
            accepted: None,
            hit: false,
        };
        self.run::<true>(NEVER, &mut target, t, counts);
        target.accepted.map(|accept| Lifetime {
            accept,
            column: self.now - 1,
            hit: target.hit,
        })
    }

    /// Processes all clocks before `until`. A request that arrived in clock `now` is accepted in
    /// them, but does not have its column command.
    #[inline]
    pub fn take_in(
        &mut self,
        tag: &Tag,
        place: u8,
        until: u64,
        t: &Timing,
        counts: &mut EventCounts,
    ) {
        let mut target = Target {
            tag,
            place,
            ready: self.now,
            accepted: None,
            hit: false,
        };
        self.run::<true>(until, &mut target, t, counts);
    }

    /// Processes all clocks before `until`.
    #[inline]
    pub fn advance(&mut self, until: u64, t: &Timing, counts: &mut EventCounts) {
        while self.now < until {
            if self.is_idle() {
                self.skip_idle(until, t, counts);
                if !t.refresh || self.tick_at >= until {
                    self.now = until.max(self.now);
                    return;
                }
            }
            self.run::<false>(until, &mut Target::none(), t, counts);
        }
    }

    /// Processes all refreshes that begin and end before `until` while no request is under way.
    #[inline]
    fn skip_idle(&mut self, until: u64, t: &Timing, counts: &mut EventCounts) {
        if !t.refresh || self.tick_at < self.now {
            return;
        }
        let Some((last, count)) = t.idle_refreshes(self.tick_at, until) else {
            return;
        };
        counts.refreshes += count;
        self.tick_at = last - t.begin_delay + t.interval;
        self.pulse_end = last + t.pulse;
        self.now = last + t.duration.max(t.pulse) + 1;
    }

    /// Runs up to a clock, until everything is idle, or (`NEW`) through the clock that the target
    /// request waits for.
    #[inline(always)]
    fn run<const NEW: bool>(
        &mut self,
        until: u64,
        x: &mut Target,
        t: &Timing,
        counts: &mut EventCounts,
    ) {
        loop {
            // The first event, and the time of the second.
            let tick = if t.refresh { self.tick_at } else { NEVER };
            let end = if self.refreshing {
                self.refresh_end
            } else {
                NEVER
            };
            let refresh = tick.min(end).min(self.begin_at);
            let mut first = refresh << 3 | REFRESH;
            let mut second = u64::MAX;
            let mut see = |at: u64, source: u64| {
                let key = at << 3 | source;
                second = second.min(first.max(key));
                first = first.min(key);
            };
            if NEW && x.accepted.is_none() {
                see(x.ready, PORT);
            }
            for (i, m) in self.machines().iter().enumerate() {
                see(m.at, i as u64);
            }
            let (source, c) = (first & 7, (first >> 3).max(self.now));
            if c >= until {
                self.now = until;
                return;
            }
            self.now = c + 1;
            let mut had = NO_PLACE;
            let mut accepted = false;
            if second >> 3 <= c {
                self.timers(c);
                self.maintain(c, t, counts);
                had = self.column(c, t, counts);
                self.precharge(c, t, counts);
                self.activate(c, t, counts);
                if NEW && x.accepted.is_none() && x.ready <= c {
                    self.accept(c, x, t);
                    accepted = true;
                }
                self.update_all();
            } else if NEW && source == PORT {
                self.accept(c, x, t);
                accepted = true;
            } else if source == REFRESH {
                let released = self.maintain(c, t, counts);
                self.update_all();
                // Held requests may continue in the same clock.
                self.now = c + u64::from(!released);
            } else {
                let i = source as usize;
                match self.machines[i % FEW].phase {
                    Phase::Wait => self.activate_machine(i, c, t, counts),
                    Phase::Column => had = self.column_machine(i, c, t, counts),
                    Phase::Rtp if !self.machines[i % FEW].passing => {
                        self.precharge_machine(i, c, t, counts);
                    }
                    _ => {
                        self.timers(c);
                        self.maintain(c, t, counts);
                        // The next machine of the bank may continue in the same clock.
                        self.now = c;
                    }
                }
            }
            if NEW {
                let write = x.tag.kind == Kind::Write;
                if had == x.place {
                    // The caller counts this read.
                    counts.columns -= 1;
                    return;
                }
                if accepted {
                    // What has happened by now can no longer change.
                    counts.open = false;
                    counts.accepted = c;
                    if write {
                        return;
                    }
                }
            } else if self.is_idle() {
                return;
            }
        }
    }

    /// Derives when a machine can act.
    #[inline]
    fn update(&mut self, i: usize) {
        let before = self.machines[..i % FEW].iter().any(Machine::is_writing);
        let m = &mut self.machines[i % FEW];
        m.at = match m.phase {
            Phase::Wait if m.queued || m.held => NEVER,
            Phase::Passed => NEVER,
            Phase::Column if m.write && before => NEVER,
            Phase::Wait | Phase::Column | Phase::Rp => m.ready,
            Phase::Rtp if m.passing => 0,
            Phase::Rtp => m.ready.max(m.ras_end),
        };
    }

    /// Derives when machines can act.
    #[inline]
    fn update_all(&mut self) {
        for i in 0..self.len.min(FEW) {
            self.update(i);
        }
    }

    #[inline]
    fn timers(&mut self, c: u64) {
        let mut i = 0;
        while i < self.len.min(FEW) {
            let m = &self.machines[i];
            if m.phase == Phase::Rp && m.ready <= c {
                self.release(i);
            } else if m.phase == Phase::Rtp && m.passing {
                self.hand_over(i, c);
            } else {
                i += 1;
            }
        }
    }

    /// The refresh rules of a clock: end of a refresh, tick, beginning of maintenance, issue of a
    /// refresh. Returns whether held requests have been released.
    #[inline]
    fn maintain(&mut self, c: u64, t: &Timing, counts: &mut EventCounts) -> bool {
        let len = self.len.min(FEW);
        let released = self.refreshing && c >= self.refresh_end;
        if released {
            self.refreshing = false;
            self.maintenance = false;
            for m in &mut self.machines[..len] {
                m.held = false;
            }
        }
        if t.refresh && c >= self.tick_at {
            self.tick_at += t.interval;
            counts.lost += u64::from(self.requested);
            self.requested = true;
        }
        if self.requested && !self.maintenance && self.begin_at == NEVER {
            self.begin_at = c + t.begin_delay;
        }
        if c >= self.begin_at {
            self.begin_at = NEVER;
            self.maintenance = true;
            self.pulse_end = c + t.pulse;
            // The limits of later clocks of the pulse are for what is loaded in it.
            for m in &mut self.machines[..len] {
                m.marked = true;
                m.ras_end = m.ras_end.min(c + t.ras_limit);
                if m.phase == Phase::Rtp {
                    m.ready = m.ready.min(c + t.rtp_limit);
                }
            }
        }
        if self.maintenance && !self.refreshing && !self.machines().iter().any(|m| m.marked) {
            self.requested = false;
            self.refreshing = true;
            self.refresh_end = c + t.duration;
            counts.refreshes += 1;
        }
        released
    }

    /// The request that issues its column command, or `NO_PLACE`.
    #[inline]
    fn column(&mut self, c: u64, t: &Timing, counts: &mut EventCounts) -> u8 {
        let mut writing = false;
        let may = |m: &Machine| {
            let after = writing;
            writing |= m.is_writing();
            m.phase == Phase::Column && m.ready <= c && !(m.write && after)
        };
        match self.machines().iter().position(may) {
            Some(i) => self.column_machine(i, c, t, counts),
            None => NO_PLACE,
        }
    }

    #[inline]
    fn column_machine(&mut self, i: usize, c: u64, t: &Timing, counts: &mut EventCounts) -> u8 {
        let m = &mut self.machines[i % FEW];
        let (place, write) = (m.place, m.write);
        counts.had_column(place, c);
        if write {
            self.dirty |= 1 << m.bank;
        }
        if m.passing {
            self.hand_over(i, c + 1);
        } else {
            let stay = t.stay[usize::from(write)];
            m.phase = Phase::Rtp;
            m.ready = (c + stay).max(m.ras_end.saturating_sub(1));
            if c + 1 < self.pulse_end {
                m.ready = m.ready.min(c + 1 + t.rtp_limit);
            }
            m.at = m.ready.max(m.ras_end);
        }
        if write {
            // A younger write may go on now.
            self.update_all();
        }
        place
    }

    #[inline]
    fn precharge(&mut self, c: u64, t: &Timing, counts: &mut EventCounts) {
        let over = |m: &Machine| m.phase == Phase::Rtp && !m.passing && m.ready.max(m.ras_end) <= c;
        if let Some(i) = self.machines().iter().position(over) {
            self.precharge_machine(i, c, t, counts);
            // Later machines would have been precharged earlier if this one's row had been passed
            // on to a new request.
            let len = self.len.min(FEW);
            let delayed = |k: usize| over(&self.machines[k]) && self.is_awaited(k);
            counts.open |= (i + 1..len).any(delayed);
        }
    }

    /// Whether the bank of a new request could have a dirty row in clock `c`, if new requests are
    /// accepted after clock `accepted`.
    #[inline]
    fn newcomer_is_tested(&self, c: u64, t: &Timing, accepted: u64) -> bool {
        let written = c > accepted + t.wait + t.rcd + t.add_rcd;
        // A write to an open row could have its column command at once.
        let there = |m: &Machine| t.is_nvmm(m.bank) && m.phase != Phase::Rp;
        let newest = |(k, m): (usize, &Machine)| {
            there(m) && !self.machines()[k + 1..].iter().any(|b| b.bank == m.bank)
        };
        written || self.dirty & t.nvmm != 0 || self.machines().iter().enumerate().any(newest)
    }

    /// Whether a request or a refresh waits until a machine is idle.
    #[inline]
    fn is_awaited(&self, i: usize) -> bool {
        let m = &self.machines[i % FEW];
        let behind = &self.machines[(i + 1).min(self.len)..self.len.min(FEW)];
        m.marked || behind.iter().any(|b| b.bank == m.bank)
    }

    #[inline]
    fn precharge_machine(&mut self, i: usize, c: u64, t: &Timing, counts: &mut EventCounts) {
        if t.add_rp != 0 && !t.own_bank && self.is_awaited(i) {
            counts.open |= self.newcomer_is_tested(c, t, counts.accepted);
        }
        let m = &mut self.machines[i % FEW];
        let tested = if t.own_bank { m.bank } else { self.newest_bank };
        let slow = t.is_nvmm(tested) && self.dirty >> tested & 1 != 0;
        m.phase = Phase::Rp;
        m.ready = c + t.rp + if slow { t.add_rp } else { 0 };
        m.at = m.ready;
        counts.close(m.bank, self.dirty >> m.bank & 1 != 0);
    }

    #[inline]
    fn activate(&mut self, c: u64, t: &Timing, counts: &mut EventCounts) {
        let may = |m: &Machine| m.phase == Phase::Wait && !(m.queued || m.held) && m.ready <= c;
        if let Some(i) = self.machines().iter().position(may) {
            self.activate_machine(i, c, t, counts);
        }
    }

    #[inline]
    fn activate_machine(&mut self, i: usize, c: u64, t: &Timing, counts: &mut EventCounts) {
        let m = &mut self.machines[i % FEW];
        let (rcd, ras) = t.activation(m.bank);
        m.phase = Phase::Column;
        m.ready = c + rcd;
        m.ras_end = c + ras;
        if c + 1 < self.pulse_end {
            m.ras_end = m.ras_end.min(c + 1 + t.ras_limit);
        }
        self.dirty &= !(1 << m.bank);
        counts.open(m.bank);
        if m.write {
            self.update(i);
        } else {
            m.at = m.ready;
        }
    }

    #[inline]
    fn accept(&mut self, c: u64, x: &mut Target, t: &Timing) {
        let tag = x.tag;
        let len = self.len % FEW;
        let older = self.machines[..len]
            .iter_mut()
            .rfind(|m| m.bank == tag.bank);
        let mut queued = false;
        if let Some(o) = older {
            queued = true;
            let open = match o.phase {
                Phase::Rp => false,
                Phase::Rtp => o.ready > c,
                _ => true,
            };
            if open && o.row == tag.row && !o.marked {
                o.passing = true;
                if o.phase == Phase::Rtp {
                    o.at = 0;
                }
                x.hit = true;
            }
        }
        self.machines[len] = Machine {
            at: NEVER,
            ready: c + t.wait,
            ras_end: 0,
            row: tag.row,
            bank: tag.bank,
            place: x.place,
            phase: if x.hit { Phase::Passed } else { Phase::Wait },
            write: tag.kind == Kind::Write,
            queued,
            held: self.maintenance,
            marked: false,
            passing: false,
        };
        self.len = len + 1;
        self.update(len);
        self.next_order += 1;
        self.newest_bank = tag.bank;
        x.accepted = Some(c);
    }

    /// Passes the row of machine `i` on to the next machine of its bank.
    #[inline]
    fn hand_over(&mut self, i: usize, from: u64) {
        let old = self.machines[i % FEW];
        let len = self.len.min(FEW);
        let next = self.machines[..len].iter_mut().skip(i + 1);
        if let Some(m) = next.into_iter().find(|m| m.bank == old.bank) {
            m.phase = Phase::Column;
            m.ready = from;
            m.ras_end = old.ras_end;
        }
        self.release(i);
        self.update_all();
    }

    #[inline]
    fn release(&mut self, i: usize) {
        let bank = self.machines[i % FEW].bank;
        self.len = (self.len - 1).min(FEW - 1);
        for k in i..self.len {
            self.machines[k] = self.machines[k + 1];
        }
        let rest = &mut self.machines[i.min(self.len)..self.len];
        if let Some(m) = rest.iter_mut().find(|m| m.bank == bank) {
            m.queued = false;
            if m.phase == Phase::Wait && !m.held {
                m.at = m.ready;
            }
        }
    }
}
