//! The bank-machine controller of the reference board.
//!
//! The rules follow the controller that Omori and Kimura (Waseda University,
//! 2021) built; the methods `coarse` and `fine` are those of TUNA (Lee et al.,
//! 2014 and 2017). Unit of all counts is the controller's clock (5 ns).
//!
//! # Rules of one clock, in this order
//! A timer loaded with *n* in clock *c* allows what it guards from clock
//! *c + n* on.
//!
//! 1. **Timers.** A machine whose tRP is over becomes idle. A machine in RTP
//!    whose row is to be passed hands it over: it becomes idle, the next
//!    machine of the bank goes to Column with what is left of tRAS. A machine
//!    whose tRTP is over goes to Precharge; its row is lost to newcomers.
//! 2. **Release.** 52 clocks after a refresh its maintenance ends: all holds
//!    are released.
//! 3. **Tick.** Every 1480 clocks a tick sets the one flag that requests a
//!    refresh. A tick that finds it set is absorbed, and counted.
//! 4. **Maintenance** begins 3 clocks after the flag is seen set while no
//!    maintenance is under way: after a tick, or after the end of the
//!    maintenance before. All busy machines, queued ones included, are marked
//!    then, and a pulse of 4 clocks begins; there is no other pulse. In each of
//!    its clocks timers of tRAS above 5 become 5 and timers of tRTP and tWTP
//!    above 2 become 2.
//! 5. **Refresh** is issued when maintenance is under way and no marked machine
//!    is busy. That clears the flag, so only a tick in a later clock makes
//!    another refresh pending; it begins 3 clocks after the release, in which
//!    the machines that were held may activate.
//! 6. **Column**: one per clock, the oldest that is ready. Reads may pass
//!    writes; a write waits for all older writes. A write makes the row of its
//!    bank dirty. The machine goes to RTP for max(tRTP or tWTP, rest of tRAS - 1);
//!    if its row is to be passed, it hands it over at once and the next column
//!    can be issued in the next clock.
//! 7. **Precharge**: one per clock, the oldest machine in Precharge whose tRAS
//!    is over. tRP is longer by the added value if the tested bank is NVMM and
//!    dirty; tested is the bank of the newest accepted request or the own one
//!    ([`RpTest`](crate::params::RpTest)).
//! 8. **Activation**: one per clock, the oldest machine in Wait that has waited
//!    5 clocks since its acceptance, is the head of its bank, is not held and
//!    does not wait for a passed row. It makes the row clean.
//! 9. **Acceptance**: one per clock, if a machine is idle. Read and write
//!    addresses have a channel each, in order, and the older of the two heads
//!    goes first. The newcomer gets the row passed (row hit) if the newest
//!    machine of its bank has the same row, is not in Precharge or RP and is not marked.
//!    During maintenance the newcomer is held: it cannot activate. Its effects
//!    are seen from the next clock on.
//!
//! `coarse` holds a request to NVMM at the head of its channel for *N* clocks
//! from the clock in which it came there; so a channel holds one request at a
//! time, and requests to DRAM behind it wait, too.
//!
//! # Decided where the description is silent
//! - Activation, precharge and column each have a command slot of their own
//!   in every clock (the device runs four command slots per clock).
//! - The five clocks of Wait count from acceptance, also while queued or held.
//!   A passed row needs no Wait: a hit can issue its column in the clock after
//!   its acceptance.
//! - A tick in the clock in which a refresh is issued comes before it, and is absorbed.
//! - The dirty state of a bank lasts until its next activation, also through
//!   precharge and refresh. tRRD and tFAW are not modelled: with one
//!   activation per 5 ns clock the board's controller has no rule for them.
//! - Changes of method or parameters act on timers loaded from then on; holds
//!   and timers already running keep their values.
//!
//! # Use
//! [`Controller::submit`], [`Controller::advance_to`] and
//! [`Controller::drain`] are the asynchronous form, [`Controller::access`] is
//! the synchronous one for blocking cores. Both may be mixed.

mod certain;
mod changes;
mod engine;
mod event;
mod foresee;
mod life;
mod lives;
mod model;
#[cfg(test)]
mod reference;
mod saved;
mod saved_controller;
#[cfg(test)]
mod tests;
mod timing;
mod until;

pub use certain::Arrived;
pub use event::{Command, Op};
pub use saved_controller::SavedController;

use changes::record_changes;
use engine::{State, Tags, NO_TAGS};
use event::{Event, Sink, Tag};
use lives::Lives;
use timing::Timing;

use crate::error::Error;
use crate::mapping::MAX_BANKS;
use crate::params::{BoardParams, Method};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::stats::{Counters, Region, Stats};
use crate::units::Ps;

/// The controller with its memory's timing. See the [module](self) for the rules.
#[derive(Clone, Debug)]
pub struct Controller {
    params: BoardParams,
    timing: Timing,
    /// The current state, except while `lives.on` (then it is in `lives`) or while `ahead.valid`
    /// (then it is `ahead.from`, and this is the simulated future).
    state: State,
    tags: Tags,
    period: Period,
    /// Latest arrival or advance; earlier times are treated as this time.
    latest: Ps,
    next_seq: u64,
    lives: Lives,
    ahead: Ahead,
    out: Out,
}

/// A simulated future. It is valid as long as nothing is submitted or changed before
/// `Controller::state.now`.
#[derive(Clone, Debug)]
struct Ahead {
    valid: bool,
    /// The state from which the simulation began.
    from: State,
    events: Vec<Event>,
}

/// Where committed events go.
#[derive(Clone, Debug)]
struct Out {
    /// Without the counts that are in `banks` and `refreshes`.
    stats: Stats,
    counters: [Counters; MAX_BANKS],
    refreshes: u64,
    last_bank: Option<u8>,
    period: Period,
    read_data: u64,
    response: u64,
    first_nvmm: u8,
    banks: u8,
    done: Vec<Completion>,
    log: Option<Vec<Command>>,
}

impl Out {
    fn digest(&mut self, p: &BoardParams, t: &Timing) {
        self.period = p.clock;
        self.read_data = t.read_data;
        self.response = t.response;
        self.first_nvmm = (p.nvmm_base >> p.mapping.bank.low) as u8;
        self.banks = (p.capacity >> p.mapping.bank.low) as u8;
    }

    #[inline]
    fn region(&self, bank: u8) -> Region {
        if bank >= self.first_nvmm {
            Region::Nvmm
        } else {
            Region::Dram
        }
    }

    /// The statistics including everything counted so far.
    fn counted(&self) -> Stats {
        let mut s = self.stats.clone();
        s.add_banks(&self.counters, self.first_nvmm.into());
        let nvmm = self.first_nvmm < self.banks;
        s.add_refreshes(self.refreshes, self.first_nvmm > 0, nvmm);
        s.last_bank = self.last_bank;
        s
    }

    /// Moves all counts into the statistics; to be called before regions change.
    fn count(&mut self) {
        self.stats = self.counted();
        self.counters = Default::default();
        self.refreshes = 0;
    }

    #[inline]
    fn counters(&mut self, bank: u8) -> &mut Counters {
        &mut self.counters[usize::from(bank) % MAX_BANKS]
    }

    #[inline(always)]
    fn accept(&mut self, tag: &Tag) {
        let switched = self.last_bank.is_some_and(|b| b != tag.bank);
        self.last_bank = Some(tag.bank);
        let c = self.counters(tag.bank);
        match tag.kind {
            Kind::Read => {
                c.reads += 1;
                c.read_bytes += u64::from(tag.bytes);
            }
            Kind::Write => {
                c.writes += 1;
                c.write_bytes += u64::from(tag.bytes);
            }
        }
        c.row_hits += u64::from(tag.hit);
        c.bank_switches += u64::from(switched);
    }

    #[inline]
    fn precharge(&mut self, bank: u8, dirty: bool) {
        let c = self.counters(bank);
        c.precharges_dirty += u64::from(dirty);
        c.precharges_clean += u64::from(!dirty);
    }

    #[inline(always)]
    fn latency(&mut self, tag: &Tag, done_at: Ps) {
        let region = self.region(tag.bank);
        let r = &mut self.stats.regions[region as usize];
        let h = match tag.kind {
            Kind::Read => &mut r.read_latency,
            Kind::Write => &mut r.write_latency,
        };
        h.add(done_at.saturating_sub(tag.arrival));
    }

    #[inline(always)]
    fn complete(&mut self, tag: &Tag, clock: u64) {
        let done_at = self.period.edge(clock);
        self.latency(tag, done_at);
        if !tag.sync {
            self.done.push(Completion {
                id: tag.id,
                kind: tag.kind,
                accepted_at: self.period.edge(tag.accepted),
                done_at,
                row_hit: tag.hit,
            });
        }
    }

    #[inline]
    fn opened(&mut self, bank: u8) {
        self.counters(bank).activations += 1;
    }

    /// A column command: a read has its data, a write's are in the row buffer.
    #[inline(always)]
    fn column(&mut self, tag: &Tag, clock: u64) {
        match tag.kind {
            Kind::Read => self.complete(tag, clock + self.read_data),
            Kind::Write => self.reached_medium(tag, clock),
        }
    }

    #[inline(always)]
    fn reached_medium(&mut self, tag: &Tag, clock: u64) {
        let region = self.region(tag.bank);
        let took = self.period.edge(clock).saturating_sub(tag.arrival);
        self.stats.regions[region as usize]
            .write_to_medium
            .add(took);
    }
}

impl Sink for Out {
    #[inline]
    fn event(&mut self, e: Event, tags: &Tags) {
        let tag = |place: u8| &tags[usize::from(place) % NO_TAGS.len()];
        match e {
            Event::Accept { place, .. } => {
                let tag = tag(place);
                self.accept(tag);
                if tag.kind == Kind::Write {
                    self.complete(tag, tag.accepted + self.response);
                }
            }
            Event::Activate { place, .. } => {
                self.counters(tag(place).bank).activations += 1;
            }
            Event::Column { clock, place } => {
                let tag = tag(place);
                self.column(tag, clock);
            }
            Event::Precharge { place, dirty, .. } => self.precharge(tag(place).bank, dirty),
            Event::Refresh { count, .. } => self.refreshes += count,
            Event::TickLost => self.stats.refresh_ticks_lost += 1,
        }
        if let Some(log) = &mut self.log {
            e.commands(tags, |c| log.push(c));
        }
    }
}

/// Keeps the events of a look-ahead and watches for the end of one request.
struct Watch<'a> {
    events: &'a mut Vec<Event>,
    place: u8,
    kind: Kind,
    end: Option<u64>,
}

impl Sink for Watch<'_> {
    #[inline]
    fn event(&mut self, e: Event, _: &Tags) {
        match (e, self.kind) {
            (Event::Column { clock, place }, Kind::Read) if place == self.place => {
                self.end = Some(clock);
            }
            (Event::Accept { clock, place }, Kind::Write) if place == self.place => {
                self.end = Some(clock);
            }
            _ => {}
        }
        self.events.push(e);
    }

    #[inline]
    fn done(&self) -> bool {
        self.end.is_some()
    }
}

/// Ignores everything.
struct Nothing;
impl Sink for Nothing {
    fn event(&mut self, _: Event, _: &Tags) {}
}

/// Parameters that cannot change while the controller runs.
const FIXED: [&str; 4] = ["clock", "capacity", "mapping", "machines"];

impl Controller {
    /// A controller at time 0 with all banks closed.
    pub fn new(params: BoardParams) -> Result<Controller, Error> {
        params.validate()?;
        let timing = Timing::new(&params);
        let state = State::new(&timing);
        let mut out = Out {
            stats: Stats::new(Ps::ZERO, &params),
            counters: Default::default(),
            refreshes: 0,
            last_bank: None,
            period: params.clock,
            read_data: 0,
            response: 0,
            first_nvmm: 0,
            banks: 0,
            done: Vec::new(),
            log: None,
        };
        out.digest(&params, &timing);
        Ok(Controller {
            ahead: Ahead {
                valid: false,
                from: state,
                events: Vec::new(),
            },
            lives: Lives::new(),
            tags: NO_TAGS,
            period: params.clock,
            params,
            timing,
            state,
            latest: Ps::ZERO,
            next_seq: 0,
            out,
        })
    }

    /// The current parameters.
    pub fn params(&self) -> &BoardParams {
        &self.params
    }

    /// The current method.
    pub fn method(&self) -> Method {
        self.params.method
    }

    /// The region of an offset.
    #[inline]
    pub fn region(&self, addr: u64) -> Region {
        if addr >= self.params.nvmm_base {
            Region::Nvmm
        } else {
            Region::Dram
        }
    }

    /// Keeps every command from now on, or stops and forgets them.
    pub fn set_logging(&mut self, on: bool) {
        self.go_back();
        self.out.log = on.then(Vec::new);
    }

    /// Takes the commands logged since the last call. The commands of a request are complete once
    /// the controller has been advanced past them.
    pub fn take_log(&mut self) -> Vec<Command> {
        match &mut self.out.log {
            Some(log) => std::mem::take(log),
            None => Vec::new(),
        }
    }

    /// Submits a request that arrives at `at`; an `at` before the latest arrival (or the time of the
    /// last advance) is treated as that time. Completions are fetched by [`Controller::drain`].
    pub fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        self.check(at, &r)?;
        self.arrive(at);
        let entered = self.take_in(r);
        Ok(entered.map_or_else(Submit::Busy, |_| Submit::Accepted))
    }

    /// A request that has arrived enters the channel. Returns it with its place; if the channel is
    /// full, the time at which there is room.
    #[inline]
    fn take_in(&mut self, r: Request) -> Result<(Tag, u8), Ps> {
        self.go_back();
        if !self.state.has_room(r.kind) {
            return Err(self.room_at(r.kind));
        }
        let seq = self.number();
        let tag = self.tag(seq, self.latest, r, false);
        let place = self.state.push(tag, &self.timing, &mut self.tags);
        Ok((tag, place))
    }

    /// When a request is answered whose column command (read) is issued, or which is accepted (write),
    /// at a clock.
    #[inline]
    fn answer_at(&self, clock: u64, kind: Kind) -> Ps {
        self.period.edge(clock + self.timing.answer(kind))
    }

    /// The earliest time at which something can have happened after advancing to it; `None` if no
    /// request is under way.
    pub fn next_event(&self) -> Option<Ps> {
        let state = self.committed().0;
        if state.is_idle() {
            return None;
        }
        let next = state.next_clock(&self.timing);
        Some(self.params.clock.edge(next + 1))
    }

    /// Processes all clocks before `t`.
    pub fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.arrive(t);
        Ok(())
    }

    /// Ids of the writes that have not reached the memory at time `at`: those that wait for
    /// acceptance, and accepted ones that have not yet issued their column command. A write of
    /// `access` has its sequence number as id.
    fn unfinished_ids(&self, at: Ps) -> Result<Vec<u64>, Error> {
        let mut copy = self.clone();
        copy.set_logging(false);
        copy.advance_to(at)?;
        let (state, tags) = copy.committed();
        Ok(saved::Saved::new(&state, &tags).unfinished_ids())
    }

    /// Moves the completions found so far to the end of `into`, in the order
    /// in which they were determined.
    pub fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.out.done);
    }

    /// Submits a request and returns its completion: first data beat of a read, response of a
    /// write.
    ///
    /// For cores that block on it. The controller itself is advanced only to `at`, so that another
    /// core can submit a request in between; the answer holds if none does. As for
    /// [`Controller::submit`], an `at` before the latest arrival is treated as that time. If the
    /// channel is full, the request waits in front of it, and the controller is advanced to the
    /// time at which there is room.
    pub fn access(&mut self, at: Ps, addr: u64, kind: Kind, bytes: u32) -> Result<Ps, Error> {
        let id = self.next_seq;
        let r = Request {
            id,
            addr,
            kind,
            bytes,
        };
        self.access_as(at, r)
    }

    /// As [`Controller::access`], for a request with an id chosen by the caller, under which
    /// [`MemoryModel::unfinished_writes`](crate::MemoryModel::unfinished_writes) lists it. No completion is kept for
    /// it.
    #[inline(always)]
    pub fn access_as(&mut self, at: Ps, r: Request) -> Result<Ps, Error> {
        self.check(at, &r)?;
        Ok(self.access_checked(at, r.id, r.addr, r.kind, r.bytes))
    }

    /// As [`Controller::access_as`], for a request that this memory can have, at a time that it can represent.
    /// Everything comes and goes in registers of the host.
    fn access_checked(&mut self, at: Ps, id: u64, addr: u64, kind: Kind, bytes: u32) -> Ps {
        let r = Request {
            id,
            addr,
            kind,
            bytes,
        };
        let at = self.arrive_here(at);
        let seq = self.number();
        let tag = self.tag(seq, at, r, true);
        if self.knows_lives() {
            let (t, tags) = (&self.timing, &mut self.tags);
            if let Some(clock) = self.lives.foresee(&tag, t, tags) {
                return self.answer_at(clock, kind);
            }
        }
        self.search(seq, at, r)
    }

    /// When a synchronous request completes that comes while others are under way.
    #[inline(never)]
    fn search(&mut self, seq: u64, at: Ps, r: Request) -> Ps {
        let tag = &self.tag(seq, at, r, true);
        let kind = tag.kind;
        self.go_back();
        while !self.state.has_room(kind) {
            let room = self.room_at(kind);
            self.arrive(room);
        }
        let place = self.state.push(*tag, &self.timing, &mut self.tags);
        let clock = match self.state.foresee(tag, &self.timing, false) {
            Some(clock) => clock,
            None => self.look_ahead(place, kind),
        };
        self.answer_at(clock, kind)
    }

    /// Selects a method from the clock edge at or after `at` on.
    pub fn set_method(&mut self, at: Ps, method: Method) -> Result<(), Error> {
        let params = BoardParams {
            method,
            ..self.params.clone()
        };
        self.set_params(at, params)
    }

    /// Changes method, delays, timing, boundary or refresh from the clock edge
    /// at or after `at` on; clock, capacity, mapping and the number of
    /// machines are fixed. Each changed value is recorded in the statistics.
    pub fn set_params(&mut self, at: Ps, params: BoardParams) -> Result<(), Error> {
        params.validate()?;
        let old = &self.params;
        for (field, from, to) in [
            ("clock", old.clock.to_string(), params.clock.to_string()),
            (
                "capacity",
                old.capacity.to_string(),
                params.capacity.to_string(),
            ),
            (
                "mapping",
                format!("{:?}", old.mapping),
                format!("{:?}", params.mapping),
            ),
            (
                "machines",
                old.machines.to_string(),
                params.machines.to_string(),
            ),
        ] {
            if from != to {
                return Err(Error::Fixed { field, from, to });
            }
        }
        if at > Ps::MAX_TIME {
            return Err(Error::TooLate(at));
        }
        self.arrive(at);
        self.go_back();
        self.out.count();
        let effective = self.params.clock.edge(self.state.now);
        record_changes(&mut self.out.stats, effective, &self.params, &params);
        let timing = Timing::new(&params);
        let restart = params.refresh.enabled && !self.params.refresh.enabled;
        self.state.change(&timing, restart, &self.tags);
        self.out.digest(&params, &timing);
        self.out.stats.method = params.method;
        self.timing = timing;
        self.params = params;
        Ok(())
    }

    /// The statistics at `at` (or at the time of the last advance, if that is later), without
    /// advancing the controller.
    pub fn stats(&self, at: Ps) -> Stats {
        let mut out = Out {
            done: Vec::new(),
            log: None,
            ..self.out.clone()
        };
        let clock = self.period.edge_from(at.max(self.latest));
        let (mut state, mut tags) = self.committed();
        state.run(clock, &self.timing, &mut tags, &mut out);
        out.count();
        out.stats.to = self.latest.max(at);
        out.stats
    }

    /// Resets the statistics at `at` (or at the time of the last advance, if that is later).
    pub fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        if at > Ps::MAX_TIME {
            return Err(Error::TooLate(at));
        }
        let at = self.arrive(at);
        self.out.count();
        self.out.stats = Stats::new(at, &self.params);
        self.out.last_bank = None;
        Ok(())
    }

    /// Advances from `at` until no write is under way, and returns the time after the last write's
    /// precharge; 0 if none was under way any more.
    pub fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        let mut end = Ps::ZERO;
        while self.committed().0.has_writes() {
            let Some(t) = self.next_event() else { break };
            self.advance_to(t)?;
            end = self.params.clock.edge(self.committed().0.now);
        }
        Ok(end)
    }

    /// Completes all requests under way, from `at` on, and returns the time at which the controller
    /// is idle.
    pub fn finish(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        while let Some(t) = self.next_event() {
            self.advance_to(t)?;
        }
        let now = self.committed().0.now;
        Ok(self.params.clock.edge(now).max(at))
    }

    #[inline(always)]
    fn check(&self, at: Ps, r: &Request) -> Result<(), Error> {
        let fits = r.bytes.wrapping_sub(1) < 64 && r.addr % 64 + u64::from(r.bytes) <= 64;
        if fits && r.addr < self.params.capacity && at <= Ps::MAX_TIME {
            Ok(())
        } else {
            Err(self.refusal(at, *r))
        }
    }

    /// Why a request is refused.
    #[cold]
    fn refusal(&self, at: Ps, r: Request) -> Error {
        let problem = r.check(self.params.capacity).err();
        problem.unwrap_or(Error::TooLate(at))
    }

    /// Advances to the clock of an arrival and returns its time.
    #[inline(never)]
    fn arrive(&mut self, at: Ps) -> Ps {
        self.arrive_here(at)
    }

    /// As [`Self::arrive`], where it is worth its size.
    #[inline(always)]
    fn arrive_here(&mut self, at: Ps) -> Ps {
        self.latest = self.latest.max(at);
        let clock = self.period.edge_from(self.latest);
        self.commit(clock);
        self.latest
    }

    /// Processes all clocks before `clock`; uses the simulated future where there is one.
    #[inline(always)]
    fn commit(&mut self, clock: u64) {
        let (t, tags) = (&self.timing, &self.tags);
        if !self.lives.on || !self.lives.commit(clock, t, tags, &mut self.out) {
            self.commit_in_engine(clock);
        }
    }

    #[inline(never)]
    fn commit_in_engine(&mut self, clock: u64) {
        if self.lives.on {
            self.go_back();
        } else if self.ahead.valid {
            if clock >= self.state.now {
                self.ahead.valid = false;
                for e in &self.ahead.events {
                    self.out.event(*e, &self.tags);
                }
            } else if clock > self.ahead.from.now {
                self.go_back();
            } else {
                return;
            }
        }
        if clock > self.state.now {
            let (t, tags) = (&self.timing, &mut self.tags);
            self.state.run(clock, t, tags, &mut self.out);
        }
    }

    /// Discards the simulated future: `state` is then the current state, with all requests in it.
    #[inline]
    fn go_back(&mut self) {
        if std::mem::take(&mut self.lives.on) {
            self.lives.store(&mut self.state, &self.timing);
            if let Some(place) = self.lives.coming() {
                let tag = self.tags[usize::from(place) % NO_TAGS.len()];
                self.state.push(tag, &self.timing, &mut self.tags);
            }
        }
        if std::mem::take(&mut self.ahead.valid) {
            self.state = self.ahead.from;
        }
    }

    /// Whether the lives of all requests are known, with none at the port; `lives` is the current state then.
    #[inline]
    fn knows_lives(&mut self) -> bool {
        if self.lives.on {
            return self.lives.is_free();
        }
        if self.ahead.valid || self.out.log.is_some() || self.state.owes_reads(&self.tags) {
            return false;
        }
        self.lives.enter(&self.state, &self.timing)
    }

    /// The current state, with all requests in it.
    fn committed(&self) -> (State, Tags) {
        let mut state = if self.ahead.valid {
            self.ahead.from
        } else {
            self.state
        };
        let mut tags = self.tags;
        if self.lives.on {
            self.lives.store(&mut state, &self.timing);
            if let Some(place) = self.lives.coming() {
                let tag = tags[usize::from(place) % NO_TAGS.len()];
                state.push(tag, &self.timing, &mut tags);
            }
        }
        (state, tags)
    }

    /// The sequence number of the next request.
    #[inline]
    fn number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    #[inline(always)]
    fn tag(&self, seq: u64, at: Ps, r: Request, sync: bool) -> Tag {
        let place = self.params.mapping.decode(r.addr);
        Tag {
            id: r.id,
            seq,
            arrival: at,
            accepted: 0,
            row: place.row,
            bank: place.bank,
            bytes: r.bytes as u8,
            kind: r.kind,
            sync,
            hit: false,
        }
    }

    /// Simulates until a request issues its column command (read) or is accepted (write), and
    /// returns that clock.
    fn look_ahead(&mut self, place: u8, kind: Kind) -> u64 {
        let ahead = &mut self.ahead;
        ahead.valid = true;
        ahead.from = self.state;
        ahead.events.clear();
        let mut watch = Watch {
            events: &mut ahead.events,
            place,
            kind,
            end: None,
        };
        let (t, tags) = (&self.timing, &mut self.tags);
        loop {
            self.state.run(u64::MAX >> 4, t, tags, &mut watch);
            if let Some(clock) = watch.end {
                return clock;
            }
        }
    }

    /// When a full channel has room again, if nothing else is submitted.
    fn room_at(&self, kind: Kind) -> Ps {
        let (mut copy, mut tags) = self.committed();
        while !copy.has_room(kind) {
            let next = copy.next_clock(&self.timing);
            copy.step(next, &self.timing, &mut tags, &mut Nothing);
        }
        self.params.clock.edge(copy.now)
    }
}
