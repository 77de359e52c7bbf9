//! The event-driven engine: state, the rules of one clock, and the search for
//! the next clock at which a rule can act. See the module documentation of
//! [`super`] for the rules themselves.

use serde::{Deserialize, Serialize};

use super::event::{Event, Sink, Tag};
use crate::mapping::MAX_BANKS;
use crate::params::{BoardParams, Method, RpTest};
use crate::request::Kind;

/// Bank machines that fit.
pub(crate) const MAX_MACHINES: usize = 8;
/// Requests that can stand at one channel of the port.
pub(crate) const PORT_DEPTH: usize = 8;
const NONE: u8 = u8::MAX;
const NEVER: u64 = u64::MAX;

/// Parameters in the form the engine uses: clocks, and the method resolved.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    wait: u64,
    rcd: u64,
    ras: u64,
    rtp: u64,
    wtp: u64,
    rp: u64,
    pub read_data: u64,
    pub response: u64,
    add_rcd: u64,
    add_ras: u64,
    add_rp: u64,
    hold: [u64; 2],
    nvmm: u16,
    own_bank: bool,
    machines: u8,
    refresh: bool,
    interval: u64,
    pub first_pulse: u64,
    pulse: u64,
    ras_limit: u64,
    rtp_limit: u64,
    duration: u64,
}

impl Timing {
    /// From validated parameters.
    pub fn new(p: &BoardParams) -> Timing {
        let clocks = |t: crate::units::Ps| t.clocks_ceil(p.clock);
        let fine = matches!(p.method, Method::Fine | Method::Extended);
        let coarse = p.method == Method::Coarse;
        let when = |on: bool, n: u64| if on { n } else { 0 };
        let (t, r, d) = (&p.timing, &p.refresh, &p.delays);
        let first = (p.nvmm_base >> p.mapping.bank.low) as usize;
        let nvmm = (first..p.mapping.banks()).fold(0u16, |m, b| m | 1 << b);
        let mut hold = [0; 2];
        hold[Kind::Read as usize] = when(coarse, clocks(d.coarse_read));
        hold[Kind::Write as usize] = when(coarse, clocks(d.coarse_write));
        Timing {
            wait: t.wait.0.into(),
            rcd: t.rcd.0.into(),
            ras: t.ras.0.into(),
            rtp: t.rtp.0.into(),
            wtp: t.wtp.0.into(),
            rp: t.rp.0.into(),
            read_data: u64::from(t.cl.0) + u64::from(t.data.0),
            response: t.response.0.into(),
            add_rcd: when(fine, clocks(d.trcd)),
            add_ras: when(p.method == Method::Extended, clocks(d.tras)),
            add_rp: when(fine, clocks(d.trp)),
            hold,
            nvmm,
            own_bank: p.rp_test == RpTest::OwnBank,
            machines: ((1u16 << p.machines) - 1) as u8,
            refresh: r.enabled,
            interval: r.interval.0.into(),
            first_pulse: u64::from(r.first_tick.0) + u64::from(r.pulse_delay.0),
            pulse: r.pulse.0.into(),
            ras_limit: r.ras_limit.0.into(),
            rtp_limit: r.rtp_limit.0.into(),
            duration: r.duration.0.into(),
        }
    }

    #[inline]
    pub fn is_nvmm(&self, bank: u8) -> bool {
        self.nvmm >> bank & 1 != 0
    }
}

/// Where a machine stands. RCD and Column are one phase (`ready` tells them
/// apart), and so are RTP and Precharge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// `ready`: end of the wait.
    Wait,
    /// `ready`: earliest column command.
    Column,
    /// `ready`: end of tRTP, from which on the row is lost to newcomers.
    Rtp,
    /// `ready`: end of tRP.
    Rp,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Machine {
    tag: Tag,
    /// Order of acceptance.
    order: u64,
    ready: u64,
    /// Earliest precharge by tRAS.
    ras_end: u64,
    phase: Phase,
    /// Neighbours among the machines of the same bank.
    older: u8,
    newer: u8,
}

/// One address channel of the port: a queue whose head is at the handshake.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Channel {
    queue: [Tag; PORT_DEPTH],
    first: u8,
    len: u8,
    /// Clock in which the head came to the handshake.
    came: u64,
    /// Clock at which the head's hold is over.
    ready: u64,
}

/// The whole state: fixed size, cheap to copy, never on the heap.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// Next clock to process.
    pub now: u64,
    machines: [Machine; MAX_MACHINES],
    channels: [Channel; 2],
    next_order: u64,
    // Sets of machines, one bit each.
    busy: u8,
    held: u8,
    marked: u8,
    /// Machines whose row goes to the next of their bank.
    passing: u8,
    /// Writes that have not had their column.
    writing: u8,
    /// Newest machine of each bank.
    newest: [u8; MAX_BANKS],
    /// Banks whose row was written since its activation.
    dirty: u16,
    /// Bank of the newest accepted request.
    newest_bank: u8,
    /// Clock of the next pulse (tick + delay).
    pulse_at: u64,
    /// End of the latest pulse, exclusive.
    pulse_end: u64,
    /// From a pulse to the end of its refresh: newcomers are held.
    maintenance: bool,
    refreshing: bool,
    refresh_end: u64,
    pending: bool,
}

const EMPTY_TAG: Tag = Tag {
    id: 0,
    seq: 0,
    arrival: crate::units::Ps(0),
    accepted: 0,
    row: 0,
    bank: 0,
    bytes: 0,
    kind: Kind::Read,
    sync: false,
    hit: false,
};

/// Indices of the set bits.
struct Bits(u8);
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
fn bit(i: usize) -> u8 {
    1 << i
}

impl State {
    pub fn new(t: &Timing) -> State {
        let machine = Machine {
            tag: EMPTY_TAG,
            order: 0,
            ready: 0,
            ras_end: 0,
            phase: Phase::Wait,
            older: NONE,
            newer: NONE,
        };
        let channel = Channel {
            queue: [EMPTY_TAG; PORT_DEPTH],
            first: 0,
            len: 0,
            came: 0,
            ready: 0,
        };
        State {
            now: 0,
            machines: [machine; MAX_MACHINES],
            channels: [channel; 2],
            next_order: 0,
            busy: 0,
            held: 0,
            marked: 0,
            passing: 0,
            writing: 0,
            newest: [NONE; MAX_BANKS],
            dirty: 0,
            newest_bank: 0,
            pulse_at: t.first_pulse,
            pulse_end: 0,
            maintenance: false,
            refreshing: false,
            refresh_end: 0,
            pending: false,
        }
    }

    /// Whether a state read from outside is one that the rules can reach, as
    /// far as safety and progress depend on it: clocks up to `latest`, timers
    /// up to the longest that parameters can ask for. The error names the part.
    pub fn check(&self, t: &Timing, banks: usize, latest: u64) -> Result<(), &'static str> {
        let fail = |bad: bool, what| if bad { Err(what) } else { Ok(()) };
        let far = self.now.saturating_add(1 << 28);
        fail(self.now > latest, "clock")?;
        fail(self.busy & !t.machines != 0, "busy machines")?;
        let subsets = [self.held, self.marked, self.passing, self.writing];
        fail(
            subsets.iter().any(|s| s & !self.busy != 0),
            "sets of machines",
        )?;
        fail(self.held & self.marked != 0, "held and marked machines")?;
        fail(self.held != 0 && !self.maintenance, "held machines")?;
        let waits = self.maintenance && !self.refreshing;
        fail((self.marked != 0) != waits, "marked machines")?;
        fail(self.refreshing && !self.maintenance, "refresh")?;
        fail(self.pending && !self.maintenance, "pending refresh")?;
        let times = [self.refresh_end, self.pulse_at, self.pulse_end];
        fail(times.iter().any(|&x| x > far), "refresh timers")?;
        fail(usize::from(self.newest_bank) >= banks, "newest bank")?;
        for ch in &self.channels {
            let bad = usize::from(ch.first) >= PORT_DEPTH || usize::from(ch.len) > PORT_DEPTH;
            fail(bad || ch.ready > far, "port queue")?;
            let bank = |q: &Tag| usize::from(q.bank) >= banks;
            fail(ch.queue.iter().any(bank), "bank of a waiting request")?;
        }
        let index = |i: u8| (i < 8 && self.busy & bit(i.into()) != 0).then_some(usize::from(i));
        let mut reached = 0u8;
        for (bank, &newest) in self.newest.iter().enumerate() {
            let (mut at, mut newer) = (newest, NONE);
            let mut order = NEVER;
            while at != NONE {
                let i = index(at).ok_or("links of a bank")?;
                let m = &self.machines[i];
                let ordered = m.order < order && m.order < self.next_order;
                let linked = m.newer == newer && ordered && reached & bit(i) == 0;
                fail(
                    !linked || usize::from(m.tag.bank) != bank,
                    "links of a bank",
                )?;
                let first = m.older == NONE;
                let from_older =
                    !first && self.passing & bit(index(m.older).ok_or("links of a bank")?) != 0;
                let waiting = m.phase == Phase::Wait;
                fail(waiting && m.tag.hit != from_older, "passed row")?;
                fail(!waiting && !first, "order in a bank")?;
                fail(self.passing & bit(i) != 0 && newer == NONE, "passed row")?;
                fail(self.held & bit(i) != 0 && !waiting, "held machines")?;
                let late = m.tag.accepted > self.now;
                fail(
                    late || m.ready > far || m.ras_end > far,
                    "timers of a machine",
                )?;
                let todo = matches!(m.phase, Phase::Wait | Phase::Column);
                let writes = m.tag.kind == Kind::Write && todo;
                fail((self.writing & bit(i) != 0) != writes, "set of writes")?;
                reached |= bit(i);
                (order, newer, at) = (m.order, at, m.older);
            }
        }
        fail(reached != self.busy, "links of a bank")
    }

    /// Nothing in the machines or at the port.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.busy == 0 && self.channels[0].len == 0 && self.channels[1].len == 0
    }

    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        (self.channels[kind as usize].len as usize) < PORT_DEPTH
    }

    /// New parameters hold from clock `now` on; `restart`: ticks begin again,
    /// as after a start.
    pub fn change(&mut self, t: &Timing, restart: bool) {
        if restart {
            self.pulse_at = self.now + t.first_pulse;
        }
        for ch in &mut self.channels {
            // A head that comes to the handshake in this very clock.
            if ch.len > 0 && ch.came >= self.now {
                ch.load_head(ch.came, t);
            }
        }
    }

    /// Puts a request at the end of its channel in clock `now`.
    pub fn push(&mut self, tag: Tag, t: &Timing) {
        let ch = &mut self.channels[tag.kind as usize];
        let at = (ch.first as usize + ch.len as usize) % PORT_DEPTH;
        ch.queue[at] = tag;
        ch.len += 1;
        if ch.len == 1 {
            ch.load_head(self.now, t);
        }
    }

    /// Processes all clocks before `until`.
    pub fn run<S: Sink>(&mut self, until: u64, t: &Timing, sink: &mut S) {
        while self.now < until {
            if self.is_idle() && !self.maintenance {
                self.skip_idle(until, t, sink);
            }
            let next = self.next_clock(t);
            if next >= until {
                self.now = until;
                return;
            }
            self.step(next, t, sink);
        }
    }

    /// Refreshes that begin and end before `until` in an idle controller, all at once.
    fn skip_idle<S: Sink>(&mut self, until: u64, t: &Timing, sink: &mut S) {
        if !t.refresh || self.pulse_at < self.now {
            return;
        }
        // The clock that releases the holds must be processed, too.
        let end = self.pulse_at + t.duration.max(t.pulse);
        if end >= until {
            return;
        }
        let count = (until - 1 - end) / t.interval + 1;
        sink.event(Event::Refresh {
            clock: self.pulse_at,
            every: t.interval,
            count,
        });
        let last = self.pulse_at + (count - 1) * t.interval;
        self.pulse_at = last + t.interval;
        self.pulse_end = last + t.pulse;
        self.now = last + t.duration.max(t.pulse) + 1;
    }

    /// The earliest clock from `now` on at which a rule can act.
    pub fn next_clock(&self, t: &Timing) -> u64 {
        let now = self.now;
        let mut next = NEVER;
        if t.refresh {
            next = self.pulse_at;
        }
        if self.refreshing {
            next = next.min(self.refresh_end);
        }
        let acting = self.busy & !self.held;
        // A timer within its limit in one clock of a pulse is so in the next.
        if acting != 0 && now < self.pulse_end {
            let over = |m: &Machine| {
                m.ras_end > now + t.ras_limit
                    || (m.phase == Phase::Rtp && m.ready > now + t.rtp_limit)
            };
            if Bits(acting).any(|i| over(&self.machines[i])) {
                return now;
            }
        }
        let oldest_write = self.oldest_write();
        for i in Bits(acting) {
            let m = &self.machines[i];
            let at = match m.phase {
                Phase::Wait if m.tag.hit || m.older != NONE => continue,
                Phase::Column if m.tag.kind == Kind::Write && oldest_write != i => continue,
                Phase::Rtp if self.passing & bit(i) != 0 => now,
                Phase::Rtp => m.ready.max(m.ras_end),
                _ => m.ready,
            };
            next = next.min(at);
        }
        if self.busy & t.machines != t.machines {
            for ch in &self.channels {
                if ch.len > 0 {
                    next = next.min(ch.ready);
                }
            }
        }
        next.max(now)
    }

    /// The write that may issue its column; no machine: `MAX_MACHINES`.
    #[inline]
    fn oldest_write(&self) -> usize {
        Bits(self.writing)
            .min_by_key(|&i| self.machines[i].order)
            .unwrap_or(MAX_MACHINES)
    }

    /// All rules of clock `c`, in the order of the module documentation.
    pub fn step<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        self.now = c + 1;
        if self.busy != 0 {
            self.timers(c);
        }
        self.refresh(c, t, sink);
        if self.busy & !self.held != 0 {
            self.column(c, t, sink);
            self.precharge(c, t, sink);
            self.activate(c, t, sink);
        }
        self.accept(c, t, sink);
    }

    fn timers(&mut self, c: u64) {
        for i in Bits(self.busy) {
            let m = &self.machines[i];
            match m.phase {
                Phase::Rp if m.ready <= c => self.release(i),
                Phase::Rtp if self.passing & bit(i) != 0 => self.hand_over(i, c),
                _ => {}
            }
        }
    }

    fn refresh<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        if self.refreshing && c >= self.refresh_end {
            self.refreshing = false;
            self.held = 0;
            self.maintenance = self.pending;
            if self.pending {
                self.pending = false;
                self.marked = self.busy;
            }
        }
        if t.refresh && c >= self.pulse_at {
            self.pulse_end = c + t.pulse;
            self.pulse_at += t.interval;
            if !self.maintenance {
                self.maintenance = true;
                self.marked = self.busy;
            } else if !self.pending {
                self.pending = true;
            } else {
                sink.event(Event::TickLost);
            }
        }
        if c < self.pulse_end {
            for i in Bits(self.busy) {
                let m = &mut self.machines[i];
                m.ras_end = m.ras_end.min(c + t.ras_limit);
                if m.phase == Phase::Rtp {
                    m.ready = m.ready.min(c + t.rtp_limit);
                }
            }
        }
        if self.maintenance && !self.refreshing && self.marked == 0 {
            self.refreshing = true;
            self.refresh_end = c + t.duration;
            sink.event(Event::Refresh {
                clock: c,
                every: t.interval,
                count: 1,
            });
        }
    }

    /// Oldest machine of `phase` that is ready and accepted by `also`.
    #[inline]
    fn oldest(
        &self,
        set: u8,
        phase: Phase,
        c: u64,
        also: impl Fn(&Machine, usize) -> bool,
    ) -> Option<usize> {
        let mut best = None;
        let mut order = NEVER;
        for i in Bits(set) {
            let m = &self.machines[i];
            if m.phase == phase && m.ready <= c && m.order < order && also(m, i) {
                best = Some(i);
                order = m.order;
            }
        }
        best
    }

    #[inline]
    fn column<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        let write = self.oldest_write();
        let may = |m: &Machine, i: usize| m.tag.kind == Kind::Read || i == write;
        let Some(i) = self.oldest(self.busy, Phase::Column, c, may) else {
            return;
        };
        self.writing &= !bit(i);
        let m = &mut self.machines[i];
        let rtp = match m.tag.kind {
            Kind::Read => t.rtp,
            Kind::Write => {
                self.dirty |= 1 << m.tag.bank;
                t.wtp
            }
        };
        m.phase = Phase::Rtp;
        m.ready = (c + rtp).max(m.ras_end.saturating_sub(1));
        sink.event(Event::Column {
            clock: c,
            tag: m.tag,
        });
        if self.passing & bit(i) != 0 {
            self.hand_over(i, c + 1);
        }
    }

    #[inline]
    fn precharge<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        let over = |m: &Machine, _| m.ras_end <= c;
        let set = self.busy & !self.passing;
        let Some(i) = self.oldest(set, Phase::Rtp, c, over) else {
            return;
        };
        let m = &mut self.machines[i];
        let own = m.tag.bank;
        let tested = if t.own_bank { own } else { self.newest_bank };
        let slow = t.is_nvmm(tested) && self.dirty >> tested & 1 != 0;
        m.phase = Phase::Rp;
        m.ready = c + t.rp + if slow { t.add_rp } else { 0 };
        sink.event(Event::Precharge {
            clock: c,
            tag: m.tag,
            dirty: self.dirty >> own & 1 != 0,
        });
    }

    #[inline]
    fn activate<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        let head = |m: &Machine, _| !m.tag.hit && m.older == NONE;
        let set = self.busy & !self.held;
        let Some(i) = self.oldest(set, Phase::Wait, c, head) else {
            return;
        };
        let m = &mut self.machines[i];
        let (mut rcd, mut ras) = (t.rcd, t.ras);
        if t.is_nvmm(m.tag.bank) {
            rcd += t.add_rcd;
            ras += t.add_ras;
        }
        m.phase = Phase::Column;
        m.ready = c + rcd;
        m.ras_end = c + ras;
        self.dirty &= !(1 << m.tag.bank);
        sink.event(Event::Activate {
            clock: c,
            tag: m.tag,
        });
    }

    #[inline]
    fn accept<S: Sink>(&mut self, c: u64, t: &Timing, sink: &mut S) {
        let free = !self.busy & t.machines;
        if free == 0 {
            return;
        }
        let mut channel = None;
        let mut seq = NEVER;
        for (k, ch) in self.channels.iter().enumerate() {
            if ch.len > 0 && ch.ready <= c && ch.queue[ch.first as usize].seq < seq {
                channel = Some(k);
                seq = ch.queue[ch.first as usize].seq;
            }
        }
        let Some(k) = channel else { return };
        let mut tag = self.channels[k].pop(c + 1, t);
        let i = free.trailing_zeros() as usize;
        let bank = tag.bank as usize;
        let older = self.newest[bank];
        let mut hit = false;
        if older != NONE {
            let o = &mut self.machines[older as usize];
            let open = match o.phase {
                Phase::Wait | Phase::Column => true,
                Phase::Rtp => o.ready > c,
                Phase::Rp => false,
            };
            hit = open && o.tag.row == tag.row && self.marked & bit(older as usize) == 0;
            o.newer = i as u8;
            if hit {
                self.passing |= bit(older as usize);
            }
        }
        tag.hit = hit;
        tag.accepted = c;
        self.machines[i] = Machine {
            tag,
            order: self.next_order,
            ready: c + t.wait,
            ras_end: 0,
            phase: Phase::Wait,
            older,
            newer: NONE,
        };
        self.next_order += 1;
        self.newest[bank] = i as u8;
        self.newest_bank = tag.bank;
        self.busy |= bit(i);
        if self.maintenance {
            self.held |= bit(i);
        }
        if tag.kind == Kind::Write {
            self.writing |= bit(i);
        }
        sink.event(Event::Accept(tag));
    }

    /// Gives the row of machine `i` to the next of its bank, which may issue
    /// its column from clock `from` on.
    fn hand_over(&mut self, i: usize, from: u64) {
        let ras_end = self.machines[i].ras_end;
        let next = &mut self.machines[self.machines[i].newer as usize];
        next.phase = Phase::Column;
        next.ready = from;
        next.ras_end = ras_end;
        self.release(i);
    }

    fn release(&mut self, i: usize) {
        let Machine { newer, tag, .. } = self.machines[i];
        if newer == NONE {
            self.newest[tag.bank as usize] = NONE;
        } else {
            self.machines[newer as usize].older = NONE;
        }
        let keep = !bit(i);
        self.busy &= keep;
        self.marked &= keep;
        self.passing &= keep;
    }
}

impl Channel {
    /// Loads the hold of the request that has come to the head in clock `c`.
    fn load_head(&mut self, c: u64, t: &Timing) {
        let tag = &self.queue[self.first as usize];
        let hold = if t.is_nvmm(tag.bank) {
            t.hold[tag.kind as usize]
        } else {
            0
        };
        self.came = c;
        self.ready = c + hold;
    }

    fn pop(&mut self, c: u64, t: &Timing) -> Tag {
        let tag = self.queue[self.first as usize];
        self.first = (self.first + 1) % PORT_DEPTH as u8;
        self.len -= 1;
        if self.len > 0 {
            self.load_head(c, t);
        }
        tag
    }
}
