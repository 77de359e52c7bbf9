//! The event-driven engine: state, the rules of one clock, and the search for
//! the next clock at which a rule can act. See the module documentation of
//! [`super`] for the rules themselves.

use super::event::{Event, Sink, Tag};
use super::timing::Timing;
use crate::mapping::MAX_BANKS;
use crate::request::Kind;

/// Greatest number of bank machines.
pub(crate) const MAX_MACHINES: usize = 8;
/// Greatest number of requests in one channel of the port.
pub(crate) const PORT_DEPTH: usize = 8;
pub(crate) const NONE: u8 = u8::MAX;
/// A clock that is never reached. Its low bits leave room for a machine's number.
pub(crate) const NEVER: u64 = u64::MAX >> 3;
/// Number of indices for tags: machines, both channels, rounded up to a power of two.
const PLACES: usize = 32;

/// What requests under way carry for reporting; a request keeps its index.
pub(crate) type Tags = [Tag; PLACES];

/// No tags.
pub(crate) const NO_TAGS: Tags = [Tag::EMPTY; PLACES];

/// One address channel of the port: a queue of tag indices whose head is at the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub queue: [u8; PORT_DEPTH],
    pub first: u8,
    pub len: u8,
    /// Clock in which the head reached the handshake.
    pub came: u64,
    /// Clock at which the hold of the head ends.
    pub ready: u64,
}

/// The whole state: of fixed size, cheap to copy, and without heap memory.
///
/// Sets of machines have one bit for each machine. A busy machine is in exactly one of the
/// phases `wait`, `column` (RCD and Column), `rtp` (RTP and Precharge) and `rp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// Next clock to process.
    pub now: u64,
    /// Derived: the first clock at which the machine itself can act, unless a refresh intervenes.
    at: [u64; MAX_MACHINES],
    /// End of the wait; earliest column command; end of tRTP, after which new requests can no
    /// longer take over the row; or end of tRP.
    pub ready: [u64; MAX_MACHINES],
    /// Earliest precharge by tRAS.
    pub ras_end: [u64; MAX_MACHINES],
    /// Order of acceptance.
    pub order: [u64; MAX_MACHINES],
    pub row: [u32; MAX_MACHINES],
    pub bank: [u8; MAX_MACHINES],
    /// Index of the request's tag.
    pub place: [u8; MAX_MACHINES],
    /// The next machine of the same bank.
    pub newer: [u8; MAX_MACHINES],
    pub channels: [Channel; 2],
    pub next_order: u64,
    /// Indices that are in use.
    used: u32,
    pub busy: u8,
    pub wait: u8,
    pub column: u8,
    pub rtp: u8,
    pub rp: u8,
    /// Machines that are queued behind an older machine of their bank.
    pub queued: u8,
    /// Machines that took over a row.
    pub hit: u8,
    pub writes: u8,
    pub held: u8,
    pub marked: u8,
    /// Machines that will pass their row on to the next machine of their bank.
    pub passing: u8,
    /// Writes that have not yet issued their column command.
    pub writing: u8,
    /// Newest machine of each bank.
    pub newest: [u8; MAX_BANKS],
    /// Banks whose row was written since its activation.
    pub dirty: u16,
    /// Bank of the newest accepted request.
    pub newest_bank: u8,
    /// Clock of the next tick.
    pub tick_at: u64,
    /// Clock in which maintenance begins, or `NEVER` as long as none is due.
    pub begin_at: u64,
    /// End of the latest pulse, exclusive.
    pub pulse_end: u64,
    /// From a tick to the issue of its refresh: a refresh is requested.
    pub requested: bool,
    /// From the beginning of maintenance to the end of its refresh: new requests are held.
    pub maintenance: bool,
    pub refreshing: bool,
    pub refresh_end: u64,
}

/// Indices of the set bits.
pub(crate) struct Bits(pub u8);
impl Iterator for Bits {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let i = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(i)
    }
}

#[inline]
pub(crate) fn bit(i: usize) -> u8 {
    1 << i
}

impl State {
    pub fn new(t: &Timing) -> State {
        let channel = Channel {
            queue: [0; PORT_DEPTH],
            first: 0,
            len: 0,
            came: 0,
            ready: 0,
        };
        State {
            now: 0,
            at: [NEVER; MAX_MACHINES],
            ready: [0; MAX_MACHINES],
            ras_end: [0; MAX_MACHINES],
            order: [0; MAX_MACHINES],
            row: [0; MAX_MACHINES],
            bank: [0; MAX_MACHINES],
            place: [0; MAX_MACHINES],
            newer: [NONE; MAX_MACHINES],
            channels: [channel; 2],
            next_order: 0,
            used: 0,
            busy: 0,
            wait: 0,
            column: 0,
            rtp: 0,
            rp: 0,
            queued: 0,
            hit: 0,
            writes: 0,
            held: 0,
            marked: 0,
            passing: 0,
            writing: 0,
            newest: [NONE; MAX_BANKS],
            dirty: 0,
            newest_bank: 0,
            tick_at: t.first_tick,
            begin_at: NEVER,
            pulse_end: 0,
            requested: false,
            maintenance: false,
            refreshing: false,
            refresh_end: 0,
        }
    }

    /// A free index for a tag: there are more indices than requests.
    #[inline]
    pub fn take_place(&mut self) -> u8 {
        let place = (!self.used).trailing_zeros() as u8;
        self.used |= 1 << place;
        place
    }

    /// Marks an index as used by a request that has it already.
    #[inline]
    pub fn keep_place(&mut self, place: u8) {
        self.used |= 1 << (place % PLACES as u8);
    }

    /// No machine is busy. The caller sets `newest`, `at` and the port.
    #[inline]
    pub fn clear_machines(&mut self) {
        self.used = 0;
        self.busy = 0;
        self.wait = 0;
        self.column = 0;
        self.rtp = 0;
        self.rp = 0;
        self.queued = 0;
        self.hit = 0;
        self.writes = 0;
        self.held = 0;
        self.marked = 0;
        self.passing = 0;
        self.writing = 0;
    }

    /// Nothing at the port.
    #[inline]
    pub fn port_is_empty(&self) -> bool {
        self.channels[0].len | self.channels[1].len == 0
    }

    /// Nothing in the machines or at the port.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.busy == 0 && self.port_is_empty()
    }

    /// Whether a write is under way, or a written row waits to be closed.
    pub fn has_writes(&self) -> bool {
        let dirty = |i: usize| self.dirty >> self.bank[i] & 1 != 0;
        self.channels[Kind::Write as usize].len > 0
            || self.busy & self.writes != 0
            || Bits(self.busy).any(dirty)
    }

    /// Whether a completion record is owed for a read that has not had its column command.
    #[inline]
    pub fn owes_reads(&self, tags: &Tags) -> bool {
        let waits = |i: usize| !tags[self.place[i] as usize % PLACES].sync;
        Bits((self.wait | self.column) & !self.writes).any(waits)
    }

    /// Whether any completion record is owed.
    pub fn owes(&self, tags: &Tags) -> bool {
        let waits = |ch: &Channel| {
            let places = (0..ch.len).map(|i| ch.queue[(ch.first + i) as usize % PORT_DEPTH]);
            places.into_iter().any(|p| !tags[p as usize % PLACES].sync)
        };
        self.owes_reads(tags) || self.channels.iter().any(waits)
    }

    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        (self.channels[kind as usize].len as usize) < PORT_DEPTH
    }

    /// New parameters take effect in clock `now`; with `restart` the refresh ticks begin again,
    /// as after a start.
    pub fn change(&mut self, t: &Timing, restart: bool, tags: &Tags) {
        if restart {
            self.tick_at = self.now + t.first_tick;
        }
        for ch in &mut self.channels {
            // A head that comes to the handshake in this very clock.
            if ch.len > 0 && ch.came >= self.now {
                ch.load_head(ch.came, t, tags);
            }
        }
    }

    /// Puts a request at the end of its channel in clock `now` and returns its index.
    pub fn push(&mut self, tag: Tag, t: &Timing, tags: &mut Tags) -> u8 {
        let place = self.take_place();
        tags[place as usize % PLACES] = tag;
        let ch = &mut self.channels[tag.kind as usize];
        let at = (ch.first as usize + ch.len as usize) % PORT_DEPTH;
        ch.queue[at] = place;
        ch.len += 1;
        if ch.len == 1 {
            ch.load_head(self.now, t, tags);
        }
        place
    }

    /// Processes all clocks before `until`.
    pub fn run<S: Sink>(&mut self, until: u64, t: &Timing, tags: &mut Tags, sink: &mut S) {
        while self.now < until && !sink.done() {
            if self.is_idle() && !self.maintenance && !self.requested {
                self.skip_idle(until, t, tags, sink);
                if !t.refresh || self.tick_at >= until {
                    self.now = until;
                    return;
                }
            }
            let (first, i) = self.soonest();
            let full = self.busy & t.machines == t.machines;
            let port = if full { NEVER } else { self.port_at() };
            let refresh = self.refresh_at(t);
            let c = first.min(port).min(refresh).max(self.now);
            if c >= until {
                self.now = until;
                return;
            }
            if c >= self.pulse_end {
                // What can only be one rule for one machine is not searched for.
                if port <= c {
                    if first > c && refresh > c {
                        self.now = c + 1;
                        self.accept(c, t, tags, sink);
                        continue;
                    }
                } else if refresh <= c {
                    if first > c {
                        self.refresh(c, t, tags, sink);
                        self.update_all();
                        // Requests that were held may go on in the same clock.
                        let now = self.soonest().0 <= c;
                        self.now = if now { c } else { c + 1 };
                        continue;
                    }
                } else if !full || self.port_is_empty() {
                    self.at[i] = NEVER;
                    let other = self.soonest().0;
                    if other > c {
                        let bound = other.min(port).min(refresh).min(until);
                        self.alone_until(i, c, bound, t, tags, sink);
                        continue;
                    }
                    self.update(i);
                }
            }
            self.step(c, t, tags, sink);
        }
    }

    /// The machine that can act first, and the first clock at which it can.
    #[inline]
    fn soonest(&self) -> (u64, usize) {
        let key = |i: usize| self.at[i] << 3 | i as u64;
        let a = key(0).min(key(1)).min(key(2).min(key(3)));
        let b = key(4).min(key(5)).min(key(6).min(key(7)));
        let k = a.min(b);
        (k >> 3, (k & 7) as usize)
    }

    /// Machine `i` acts in clock `c`; nothing else can act before `bound`.
    fn alone_until<S: Sink>(
        &mut self,
        mut i: usize,
        mut c: u64,
        bound: u64,
        t: &Timing,
        tags: &Tags,
        sink: &mut S,
    ) {
        loop {
            let b = bit(i);
            self.now = c + 1;
            if self.wait & b != 0 {
                self.activate_machine(i, c, t, tags, sink);
            } else if self.column & b != 0 {
                let waiting = self.writing;
                let next = self.newer[i];
                let passes = self.passing & b != 0;
                self.column_machine(i, c, t, tags, sink);
                if self.writing != waiting && self.writing != 0 {
                    // A younger write may go on now.
                    self.update_all();
                    return;
                }
                if passes {
                    i = next as usize % MAX_MACHINES;
                }
            } else if self.rtp & b != 0 {
                if self.passing & b != 0 {
                    let next = self.newer[i] as usize % MAX_MACHINES;
                    self.hand_over(i, c);
                    self.now = c;
                    i = next;
                } else {
                    self.precharge_machine(i, c, t, tags, sink);
                }
            } else {
                let next = self.newer[i];
                self.release(i);
                if self.maintenance && !self.refreshing && self.marked == 0 {
                    self.begin_refresh(c, t, tags, sink);
                    if next != NONE {
                        self.update(next as usize % MAX_MACHINES);
                        self.now = c;
                    }
                    return;
                }
                if next == NONE {
                    return;
                }
                i = next as usize % MAX_MACHINES;
                // The next machine may be activated in the same clock.
                self.now = c;
            }
            self.update(i);
            c = self.at[i].max(self.now);
            if c >= bound || sink.done() {
                return;
            }
        }
    }

    /// Processes all refreshes that begin and end before `until` in an idle controller.
    fn skip_idle<S: Sink>(&mut self, until: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        if !t.refresh || self.tick_at < self.now {
            return;
        }
        let Some((last, count)) = t.idle_refreshes(self.tick_at, until) else {
            return;
        };
        sink.event(
            Event::Refresh {
                clock: self.tick_at + t.begin_delay,
                every: t.interval,
                count,
            },
            tags,
        );
        self.tick_at = last - t.begin_delay + t.interval;
        self.pulse_end = last + t.pulse;
        self.now = last + t.duration.max(t.pulse) + 1;
    }

    /// First clock at which the heads of the port can be accepted.
    #[inline]
    fn port_at(&self) -> u64 {
        let at = |ch: &Channel| if ch.len > 0 { ch.ready } else { NEVER };
        at(&self.channels[0]).min(at(&self.channels[1]))
    }

    /// First clock at which a refresh rule can act.
    #[inline]
    fn refresh_at(&self, t: &Timing) -> u64 {
        let mut next = self.begin_at;
        if t.refresh {
            next = next.min(self.tick_at);
        }
        if self.refreshing {
            next = next.min(self.refresh_end);
        }
        // A timer within its limit in one clock of a pulse is so in the next.
        if self.now < self.pulse_end {
            let over = |i: usize| {
                self.ras_end[i] > self.now + t.ras_limit
                    || (self.rtp & bit(i) != 0 && self.ready[i] > self.now + t.rtp_limit)
            };
            if Bits(self.busy & !self.held).any(over) {
                return self.now;
            }
        }
        next
    }

    /// No maintenance begins before this clock, if none is under way.
    #[inline]
    pub fn calm_until(&self, t: &Timing) -> u64 {
        if t.refresh {
            self.begin_at.min(self.tick_at + t.begin_delay)
        } else {
            self.begin_at
        }
    }

    /// The first clock from `now` on at which a rule can act.
    pub fn next_clock(&self, t: &Timing) -> u64 {
        let full = self.busy & t.machines == t.machines;
        let port = if full { NEVER } else { self.port_at() };
        let next = self.soonest().0.min(port).min(self.refresh_at(t));
        next.max(self.now)
    }

    /// Derives when machine `i` can act.
    #[inline]
    fn update(&mut self, i: usize) {
        let b = bit(i);
        self.at[i] = if (self.busy & !self.held) & b == 0 {
            NEVER
        } else if self.wait & b != 0 {
            if (self.hit | self.queued) & b != 0 {
                NEVER
            } else {
                self.ready[i]
            }
        } else if self.column & b != 0 {
            if self.writes & b != 0 && self.oldest_write() != i {
                NEVER
            } else {
                self.ready[i]
            }
        } else if self.rtp & b != 0 {
            if self.passing & b != 0 {
                0
            } else {
                self.ready[i].max(self.ras_end[i])
            }
        } else {
            self.ready[i]
        };
    }

    /// Derives when some machines can act.
    #[inline]
    pub fn update_some(&mut self, machines: u8) {
        for i in Bits(machines) {
            self.update(i);
        }
    }

    /// Derives when machines can act.
    pub fn update_all(&mut self) {
        self.update_some(self.busy);
    }

    /// The write that may issue its column; no machine: `MAX_MACHINES`.
    #[inline]
    fn oldest_write(&self) -> usize {
        let w = self.writing;
        if w & w.wrapping_sub(1) == 0 {
            return w.trailing_zeros() as usize;
        }
        Bits(w)
            .min_by_key(|&i| self.order[i])
            .unwrap_or(MAX_MACHINES)
    }

    /// All rules of clock `c`, in the order of the module documentation.
    pub fn step<S: Sink>(&mut self, c: u64, t: &Timing, tags: &mut Tags, sink: &mut S) {
        self.now = c + 1;
        if self.busy != 0 {
            self.timers(c);
        }
        self.refresh(c, t, tags, sink);
        if self.busy & !self.held != 0 {
            self.column(c, t, tags, sink);
            self.precharge(c, t, tags, sink);
            self.activate(c, t, tags, sink);
        }
        if self.busy & t.machines != t.machines && !self.port_is_empty() {
            self.accept(c, t, tags, sink);
        }
        self.update_all();
    }

    fn timers(&mut self, c: u64) {
        for i in Bits(self.rp) {
            if self.ready[i] <= c {
                self.release(i);
            }
        }
        for i in Bits(self.rtp & self.passing) {
            self.hand_over(i, c);
        }
    }

    fn refresh<S: Sink>(&mut self, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        if self.refreshing && c >= self.refresh_end {
            self.refreshing = false;
            self.held = 0;
            self.maintenance = false;
        }
        if t.refresh && c >= self.tick_at {
            self.tick_at += t.interval;
            if std::mem::replace(&mut self.requested, true) {
                sink.event(Event::TickLost, tags);
            }
        }
        if self.requested && !self.maintenance && self.begin_at == NEVER {
            self.begin_at = c + t.begin_delay;
        }
        if c >= self.begin_at {
            self.begin_at = NEVER;
            self.maintenance = true;
            self.marked = self.busy;
            self.pulse_end = c + t.pulse;
        }
        if c < self.pulse_end {
            for i in Bits(self.busy) {
                self.ras_end[i] = self.ras_end[i].min(c + t.ras_limit);
                if self.rtp & bit(i) != 0 {
                    self.ready[i] = self.ready[i].min(c + t.rtp_limit);
                }
            }
        }
        if self.maintenance && !self.refreshing && self.marked == 0 {
            self.begin_refresh(c, t, tags, sink);
        }
    }

    fn begin_refresh<S: Sink>(&mut self, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        self.requested = false;
        self.refreshing = true;
        self.refresh_end = c + t.duration;
        let e = Event::Refresh {
            clock: c,
            every: t.interval,
            count: 1,
        };
        sink.event(e, tags);
    }

    /// Oldest machine of a set that is ready and accepted by `also`.
    #[inline]
    fn oldest(&self, set: u8, c: u64, also: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best = None;
        let mut order = u64::MAX;
        for i in Bits(set) {
            if self.ready[i] <= c && self.order[i] < order && also(i) {
                best = Some(i);
                order = self.order[i];
            }
        }
        best
    }

    fn column<S: Sink>(&mut self, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        if self.column == 0 {
            return;
        }
        let write = self.oldest_write();
        let may = |i: usize| self.writes & bit(i) == 0 || i == write;
        if let Some(i) = self.oldest(self.column, c, may) {
            self.column_machine(i, c, t, tags, sink);
        }
    }

    #[inline]
    fn column_machine<S: Sink>(&mut self, i: usize, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        let b = bit(i);
        let write = self.writes & b != 0;
        if write {
            self.writing &= !b;
            self.dirty |= 1 << self.bank[i];
        }
        self.column &= !b;
        self.rtp |= b;
        let stay = t.stay[usize::from(write)];
        self.ready[i] = (c + stay).max(self.ras_end[i].saturating_sub(1));
        let place = self.place[i];
        sink.event(Event::Column { clock: c, place }, tags);
        if self.passing & b != 0 {
            self.hand_over(i, c + 1);
        }
    }

    fn precharge<S: Sink>(&mut self, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        let over = |i: usize| self.ras_end[i] <= c;
        if let Some(i) = self.oldest(self.rtp & !self.passing, c, over) {
            self.precharge_machine(i, c, t, tags, sink);
        }
    }

    #[inline]
    fn precharge_machine<S: Sink>(
        &mut self,
        i: usize,
        c: u64,
        t: &Timing,
        tags: &Tags,
        sink: &mut S,
    ) {
        let own = self.bank[i];
        let tested = if t.own_bank { own } else { self.newest_bank };
        let slow = t.is_nvmm(tested) && self.dirty >> tested & 1 != 0;
        self.rtp &= !bit(i);
        self.rp |= bit(i);
        self.ready[i] = c + t.rp + if slow { t.add_rp } else { 0 };
        let e = Event::Precharge {
            clock: c,
            place: self.place[i],
            dirty: self.dirty >> own & 1 != 0,
        };
        sink.event(e, tags);
    }

    fn activate<S: Sink>(&mut self, c: u64, t: &Timing, tags: &Tags, sink: &mut S) {
        let set = self.wait & !(self.held | self.hit | self.queued);
        if let Some(i) = self.oldest(set, c, |_| true) {
            self.activate_machine(i, c, t, tags, sink);
        }
    }

    #[inline]
    fn activate_machine<S: Sink>(
        &mut self,
        i: usize,
        c: u64,
        t: &Timing,
        tags: &Tags,
        sink: &mut S,
    ) {
        let (rcd, ras) = t.activation(self.bank[i]);
        self.wait &= !bit(i);
        self.column |= bit(i);
        self.ready[i] = c + rcd;
        self.ras_end[i] = c + ras;
        self.dirty &= !(1 << self.bank[i]);
        let place = self.place[i];
        sink.event(Event::Activate { clock: c, place }, tags);
    }

    #[inline]
    fn accept<S: Sink>(&mut self, c: u64, t: &Timing, tags: &mut Tags, sink: &mut S) {
        let mut channel = None;
        let mut seq = u64::MAX;
        for (k, ch) in self.channels.iter().enumerate() {
            if ch.len > 0 && ch.ready <= c {
                let head = ch.head(tags);
                if head.seq < seq {
                    channel = Some(k);
                    seq = head.seq;
                }
            }
        }
        let Some(k) = channel else { return };
        let place = self.channels[k].pop(c + 1, t, tags);
        let tag = &mut tags[place as usize % PLACES];
        let free = !self.busy & t.machines;
        let i = free.trailing_zeros() as usize % MAX_MACHINES;
        let b = bit(i);
        let bank = tag.bank as usize % MAX_BANKS;
        let older = self.newest[bank];
        let mut hit = false;
        if older != NONE {
            let o = older as usize % MAX_MACHINES;
            let ob = bit(o);
            let open =
                (self.wait | self.column) & ob != 0 || self.rtp & ob != 0 && self.ready[o] > c;
            hit = open && self.row[o] == tag.row && self.marked & ob == 0;
            self.newer[o] = i as u8;
            self.queued |= b;
            if hit {
                self.passing |= ob;
                self.hit |= b;
                self.update(o);
            }
        }
        tag.hit = hit;
        tag.accepted = c;
        self.ready[i] = c + t.wait;
        self.ras_end[i] = 0;
        self.order[i] = self.next_order;
        self.next_order += 1;
        self.row[i] = tag.row;
        self.bank[i] = tag.bank;
        self.place[i] = place;
        self.newer[i] = NONE;
        self.newest[bank] = i as u8;
        self.newest_bank = tag.bank;
        self.busy |= b;
        self.wait |= b;
        if self.maintenance {
            self.held |= b;
        }
        if tag.kind == Kind::Write {
            self.writes |= b;
            self.writing |= b;
        }
        self.update(i);
        sink.event(Event::Accept { clock: c, place }, tags);
    }

    /// Passes the row of machine `i` on to the next machine of its bank, which may issue its
    /// column command from clock `from` on.
    fn hand_over(&mut self, i: usize, from: u64) {
        let next = self.newer[i] as usize % MAX_MACHINES;
        self.wait &= !bit(next);
        self.column |= bit(next);
        self.ready[next] = from;
        self.ras_end[next] = self.ras_end[i];
        self.release(i);
    }

    #[inline]
    fn release(&mut self, i: usize) {
        let newer = self.newer[i];
        if newer == NONE {
            self.newest[self.bank[i] as usize % MAX_BANKS] = NONE;
        } else {
            self.queued &= !bit(newer as usize % MAX_MACHINES);
        }
        self.used &= !(1 << (self.place[i] % PLACES as u8));
        self.at[i] = NEVER;
        let keep = !bit(i);
        self.busy &= keep;
        self.rtp &= keep;
        self.rp &= keep;
        self.queued &= keep;
        self.hit &= keep;
        self.writes &= keep;
        self.marked &= keep;
        self.passing &= keep;
    }
}

impl Channel {
    #[inline]
    fn head<'a>(&self, tags: &'a Tags) -> &'a Tag {
        &tags[self.queue[self.first as usize % PORT_DEPTH] as usize % PLACES]
    }

    /// Loads the hold of the request that has become the head of its channel in clock `c`.
    #[inline]
    fn load_head(&mut self, c: u64, t: &Timing, tags: &Tags) {
        let tag = self.head(tags);
        let hold = t.hold_of(tag.kind, tag.bank);
        self.came = c;
        self.ready = c + hold;
    }

    #[inline]
    fn pop(&mut self, c: u64, t: &Timing, tags: &Tags) -> u8 {
        let place = self.queue[self.first as usize % PORT_DEPTH];
        self.first = (self.first + 1) % PORT_DEPTH as u8;
        self.len -= 1;
        if self.len > 0 {
            self.load_head(c, t, tags);
        }
        place
    }
}
