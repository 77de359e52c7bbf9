//! The memory side of the caches: the controllers, the requests on their way to them, and the harts
//! that are blocked until a request is complete.
//!
//! A line belongs to the region with a memory of its own in which it lies, otherwise to the board's
//! controller. Time in a controller advances only as far as no further request can arrive: a
//! request is answered when the controller has completed it, or on arrival if later requests cannot
//! change the answer ([`Arrived::Done`]). While a hart runs alone, no other request can come in
//! between, so its requests are answered at once ([`Memory::access`]).

use super::brought::BroughtError;
use nagori_config::MachineConfig;
use nagori_hart::world::LineKind;
use nagori_memtime::board::{Arrived, SavedController};
use nagori_memtime::{
    Completion, Controller, Error, Kind, MemoryModel, ModelStats, Ps, Request, SavedModel, Submit,
};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a line.
const LINE: u32 = 64;

/// A line transferred over the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusTransfer<'a> {
    /// When the request reached its controller.
    pub at: Ps,
    /// Offset in that controller's memory.
    pub offset: u64,
    /// The region with a memory of its own; none for the board's controller.
    pub region: Option<&'a str>,
    /// Direction.
    pub kind: Kind,
    /// First beat of a read, response of a write; none if the request was still outstanding at the
    /// end.
    pub done: Option<Ps>,
    /// Who requested it, and why.
    pub by: BusCause,
}

/// Who transfers a line, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusCause {
    /// Hart.
    pub hart: usize,
    /// Its program counter.
    pub pc: u64,
    /// Reason.
    pub kind: LineKind,
}

/// Observes the lines transferred over the bus, in the order in which their requests reached the
/// controllers.
pub trait BusWatch: Send {
    /// A line was transferred.
    fn moved(&mut self, t: &BusTransfer<'_>);
    /// The first failure to record transfers.
    fn check(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// No more transfers follow.
    fn finish(&mut self) -> std::io::Result<()> {
        self.check()
    }
}

/// Transfers that have not been reported yet, because an earlier one is not complete.
struct BusLog {
    to: Box<dyn BusWatch>,
    /// Requests that have not reached their controllers.
    coming: BTreeMap<u64, BusCause>,
    /// Requests that have reached their controllers, in order.
    under_way: VecDeque<Logged>,
    /// Time of the last one: for a controller, time does not go back.
    latest: Ps,
}

/// A request that has reached its controller.
struct Logged {
    id: u64,
    at: Ps,
    offset: u64,
    region: Option<usize>,
    kind: Kind,
    done: Option<Ps>,
    by: BusCause,
}

impl BusLog {
    fn submitted(&mut self, c: &Coming, region: Option<usize>, offset: u64) {
        if let Some(by) = self.coming.remove(&c.id) {
            self.latest = self.latest.max(c.at);
            self.under_way.push_back(Logged {
                id: c.id,
                at: self.latest,
                offset,
                region,
                kind: c.kind,
                done: None,
                by,
            });
        }
    }

    fn done(&mut self, id: u64, done: Ps, regions: &[Region]) {
        if let Some(l) = self.under_way.iter_mut().find(|l| l.id == id) {
            l.done = Some(done);
        }
        while self.under_way.front().is_some_and(|l| l.done.is_some()) {
            self.tell(regions);
        }
    }

    /// Reports the first one.
    fn tell(&mut self, regions: &[Region]) {
        let Some(l) = self.under_way.pop_front() else {
            return;
        };
        self.to.moved(&BusTransfer {
            at: l.at,
            offset: l.offset,
            region: l.region.map(|i| regions[i].name.as_str()),
            kind: l.kind,
            done: l.done,
            by: l.by,
        });
    }
}

/// A request on its way to its controller, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Coming {
    pub(super) at: Ps,
    id: u64,
    /// Offset in memory.
    offset: u64,
    kind: Kind,
}

/// A completed request, and who is notified of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub to: Asker,
    pub done: Ps,
    pub kind: Kind,
}

/// Who is notified when a request is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// A hart that is blocked.
    Hart(usize),
    /// A prefetch, by its token among the caches.
    Prefetch(u64),
}

/// A region with a memory of its own.
struct Region {
    name: String,
    /// Its description.
    described: String,
    /// Offset in memory of its first byte, and of the first byte after it.
    base: u64,
    end: u64,
    model: Box<dyn MemoryModel + Send>,
    /// It is not that of the description, but was brought along.
    brought: bool,
}

/// Statistics of a region with a memory of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionReport {
    /// Its name in the machine's description.
    pub name: String,
    /// Name of its memory there.
    pub model: String,
    /// Offset in memory of its first byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// Its memory's statistics.
    pub stats: ModelStats,
}

/// A region's memory that cannot be built or changed as asked.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// Its description.
    #[error("memory of region {name}: {problem}")]
    Description {
        /// The region.
        name: String,
        /// What is wrong.
        problem: Box<nagori_memcfg::Error>,
    },
    /// A change while it runs.
    #[error("memory of region {name}: {problem}")]
    Change {
        /// The region.
        name: String,
        /// What is wrong.
        problem: Error,
    },
    /// There is no such region.
    #[error("there is no region `{name}` with a memory of its own; there is {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

/// All memory of the machine.
pub(crate) struct Memory {
    pub board: Controller,
    /// By address.
    regions: Vec<Region>,
    /// In order. There are few, and most that are added are the last.
    coming: VecDeque<Coming>,
    next_id: u64,
    /// By hart: the request that it is blocked for.
    blocked: Vec<Option<u64>>,
    /// Number of blocked harts.
    waiting: usize,
    /// Outstanding prefetches: the request's number, and the prefetch's token among the caches.
    ahead: Vec<(u64, u64)>,
    /// Completions taken from the controllers that have not been handled yet.
    done: Vec<Completion>,
    log: Option<Box<BusLog>>,
}

/// Outstanding requests, and who waits for them, as saved in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedMemory {
    board: SavedController,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    regions: Vec<SavedModel>,
    coming: Vec<Coming>,
    next_id: u64,
    blocked: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ahead: Vec<(u64, u64)>,
    done: Vec<Completion>,
}

impl Memory {
    pub fn new(config: &MachineConfig) -> Result<Memory, super::MachineError> {
        let region = |r: nagori_config::Region<'_>| -> Result<Region, RegionError> {
            let model = r.config.load().and_then(|m| m.build());
            Ok(Region {
                name: r.name.to_owned(),
                described: r.config.model.clone(),
                base: r.base,
                end: r.base + r.size,
                brought: false,
                model: model.map_err(|e| RegionError::Description {
                    name: r.name.to_owned(),
                    problem: Box::new(e),
                })?,
            })
        };
        let regions = config.regions().into_iter().map(region);
        let harts = config.harts as usize;
        Ok(Memory {
            board: Controller::new(config.controller_params())?,
            regions: regions.collect::<Result<_, _>>()?,
            coming: VecDeque::new(),
            next_id: 0,
            blocked: vec![None; harts],
            waiting: 0,
            ahead: Vec::new(),
            done: Vec::new(),
            log: None,
        })
    }

    /// Puts a memory in place of that of a region.
    pub fn bring(
        &mut self,
        region: &str,
        name: &str,
        model: Box<dyn MemoryModel + Send>,
    ) -> Result<(), BroughtError> {
        let Some(r) = self.regions.iter_mut().find(|r| r.name == region) else {
            return Err(BroughtError::Region {
                name: region.to_owned(),
                known: self.region_names(),
            });
        };
        let (capacity, needed) = (model.capacity(), r.end - r.base);
        if capacity < needed {
            return Err(BroughtError::Small {
                model: name.to_owned(),
                capacity,
                region: region.to_owned(),
                needed,
            });
        }
        (r.model, r.described, r.brought) = (model, name.to_owned(), true);
        Ok(())
    }

    /// The names of all regions with a memory of their own, for messages.
    fn region_names(&self) -> String {
        let names: Vec<&str> = self.regions.iter().map(|r| r.name.as_str()).collect();
        if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        }
    }

    /// The region with a memory of its own in which an offset lies.
    #[inline]
    fn region(&self, offset: u64) -> Option<usize> {
        let holds = |r: &Region| (r.base..r.end).contains(&offset);
        self.regions.iter().position(holds)
    }

    /// Sets the observer of all transfers from now on; outstanding ones are reported to the
    /// previous observer.
    pub fn watch(&mut self, to: Option<Box<dyn BusWatch>>) -> std::io::Result<()> {
        let mut checked = Ok(());
        if let Some(mut log) = self.log.take() {
            while !log.under_way.is_empty() {
                log.tell(&self.regions);
            }
            checked = log.to.finish();
        }
        self.log = to.map(|to| {
            Box::new(BusLog {
                to,
                coming: BTreeMap::new(),
                under_way: VecDeque::new(),
                latest: Ps::ZERO,
            })
        });
        checked
    }

    /// The first failure of the observer of the bus, if any.
    pub fn check_watch(&mut self) -> std::io::Result<()> {
        self.log.as_mut().map_or(Ok(()), |l| l.to.check())
    }

    /// Whether no hart waits, and no request is on its way to a controller.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.waiting == 0 && self.coming.is_empty() && self.ahead.is_empty()
    }

    /// The id of the next request.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    fn number(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Performs a request of a hart that runs alone. Returns when it is complete: first beat of a
    /// read, response of a write.
    #[inline(always)]
    pub fn access(
        &mut self,
        at: Ps,
        offset: u64,
        kind: Kind,
        by: impl FnOnce() -> BusCause,
    ) -> Result<Ps, Error> {
        if !self.coming.is_empty() || !self.regions.is_empty() || self.log.is_some() {
            return self.access_beside_others(at, offset, kind, by());
        }
        let r = Request {
            id: self.number(),
            addr: offset,
            kind,
            bytes: LINE,
        };
        self.board.access_as(at, r)
    }

    /// As [`Self::access`], where there is more than the board's controller, or requests are on their way to it.
    #[inline(never)]
    fn access_beside_others(
        &mut self,
        at: Ps,
        offset: u64,
        kind: Kind,
        by: BusCause,
    ) -> Result<Ps, Error> {
        while let Some(c) = self.next_coming(at) {
            self.coming.pop_front();
            self.submit(c)?;
        }
        let r = Request {
            id: self.number(),
            addr: offset,
            kind,
            bytes: LINE,
        };
        let region = self.region(offset);
        let (done, entered) = match region {
            None => (self.board.access_as(at, r)?, at),
            Some(i) => self.regions[i].access(at, r, &mut self.done)?,
        };
        // No other hart waits.
        self.forget_done();
        if let Some(log) = &mut self.log {
            let c = Coming {
                at: entered,
                id: r.id,
                offset,
                kind,
            };
            log.coming.insert(r.id, by);
            let base = region.map_or(0, |i| self.regions[i].base);
            log.submitted(&c, region, offset - base);
            log.done(r.id, done, &self.regions);
        }
        Ok(done)
    }

    /// Completions of requests that nobody waits for.
    fn forget_done(&mut self) {
        for c in self.done.drain(..) {
            if let Some(log) = &mut self.log {
                log.done(c.id, c.done_at, &self.regions);
            }
        }
    }

    /// Sends a request that arrives at its controller at a later time; `hart` is blocked until it
    /// is complete.
    pub fn post(
        &mut self,
        at: Ps,
        offset: u64,
        kind: Kind,
        hart: Option<usize>,
        by: impl FnOnce() -> BusCause,
    ) {
        let id = self.number();
        if let Some(log) = &mut self.log {
            log.coming.insert(id, by());
        }
        if let Some(h) = hart {
            self.blocked[h] = Some(id);
            self.waiting += 1;
        }
        let coming = Coming {
            at,
            id,
            offset,
            kind,
        };
        self.expect(coming);
    }

    /// Lets the board's controller go on up to a time before which no request can come any more, if
    /// nobody waits for it.
    pub fn settle(&mut self, until: Ps) -> Result<(), Error> {
        if self.is_quiet() {
            self.board.advance_to(until)
        } else {
            Ok(())
        }
    }

    /// The first request on its way, if it arrives by `until`.
    #[inline]
    pub(super) fn next_coming(&self, until: Ps) -> Option<Coming> {
        self.coming.front().filter(|c| c.at <= until).copied()
    }

    /// Inserts a request among those on their way.
    #[inline]
    fn expect(&mut self, c: Coming) {
        let earlier = self.coming.iter().rposition(|e| *e < c);
        self.coming.insert(earlier.map_or(0, |i| i + 1), c);
    }

    /// As [`Self::post`], for a prefetch, or a write that no hart waits for, whose token is answered when it is
    /// complete.
    pub fn post_ahead(
        &mut self,
        at: Ps,
        offset: u64,
        kind: Kind,
        token: u64,
        by: impl FnOnce() -> BusCause,
    ) {
        self.ahead.push((self.next_id, token));
        self.post(at, offset, kind, None, by);
    }

    /// Tokens of the prefetches that are not complete.
    pub fn asked_ahead(&self) -> impl Iterator<Item = u64> + '_ {
        self.ahead.iter().map(|a| a.1)
    }

    /// Submits a request to its controller. Returns when it is complete, if that is certain
    /// already.
    #[inline]
    fn submit(&mut self, c: Coming) -> Result<Option<Ps>, Error> {
        let r = Request {
            id: c.id,
            addr: c.offset,
            kind: c.kind,
            bytes: LINE,
        };
        let region = self.region(c.offset);
        let arrived = match region {
            None => self.board.submit_foreseen(c.at, r)?,
            Some(i) => Arrived::Submitted(self.regions[i].submit(c.at, r)?),
        };
        let (submitted, done) = match arrived {
            Arrived::Done(t) => (Submit::Accepted, Some(t)),
            Arrived::Submitted(s) => (s, None),
        };
        match (submitted, &mut self.log) {
            // It stays before requests that arrive later.
            (Submit::Busy(t), _) => {
                let at = t.max(Ps(c.at.0 + 1));
                self.expect(Coming { at, ..c });
            }
            (Submit::Accepted, Some(log)) => {
                let base = region.map_or(0, |i| self.regions[i].base);
                log.submitted(&c, region, c.offset - base);
                if let Some(t) = done {
                    log.done(c.id, t, &self.regions);
                }
            }
            (Submit::Accepted, None) => {}
        }
        Ok(done)
    }

    /// Who is notified of a completed request, if anybody.
    #[inline]
    fn release(&mut self, id: u64, done: Ps, kind: Kind) -> Option<Answer> {
        let to = if let Some(hart) = self.blocked.iter().position(|b| *b == Some(id)) {
            self.blocked[hart] = None;
            self.waiting -= 1;
            Asker::Hart(hart)
        } else {
            let i = self.ahead.iter().position(|a| a.0 == id)?;
            Asker::Prefetch(self.ahead.remove(i).1)
        };
        Some(Answer { to, done, kind })
    }

    /// Advances the controllers until a hart is answered, but only up to a time before which no
    /// further request can arrive.
    pub fn advance(&mut self, until: Ps) -> Result<Option<Answer>, Error> {
        loop {
            while let Some(c) = self.done.pop() {
                if let Some(log) = &mut self.log {
                    log.done(c.id, c.done_at, &self.regions);
                }
                let answer = self.release(c.id, c.done_at, c.kind);
                if answer.is_some() {
                    return Ok(answer);
                }
            }
            if self.is_quiet() {
                return Ok(None);
            }
            if !self.advance_to_done(until)? {
                return Ok(None);
            }
            // The earliest one is handled first.
            self.done.sort_by_key(|c| Reverse((c.done_at, c.id)));
        }
    }

    /// Advances the controllers until some requests are done, but only up to a time before which no
    /// further request can arrive; these are in `done` then. Returns whether there are any.
    fn advance_to_done(&mut self, until: Ps) -> Result<bool, Error> {
        loop {
            let next = self.next_coming(until);
            let to = next.map_or(until, |c| c.at);
            if self.advance_to_completion(to)? {
                return Ok(true);
            }
            let Some(c) = next else { return Ok(false) };
            self.coming.pop_front();
            if let Some(done_at) = self.submit(c)? {
                self.done.push(Completion {
                    id: c.id,
                    kind: c.kind,
                    accepted_at: c.at,
                    done_at,
                    row_hit: false,
                });
                return Ok(true);
            }
        }
    }

    /// Advances the controllers up to a time before which no further request can arrive, also
    /// beyond answers, which are then returned by [`Memory::advance`].
    pub fn catch_up(&mut self, until: Ps) -> Result<(), Error> {
        let mut found = std::mem::take(&mut self.done);
        while self.advance_to_done(until)? {
            found.append(&mut self.done);
        }
        self.board.advance_to(until)?;
        self.board.drain(&mut found);
        for r in &mut self.regions {
            r.model.advance_to(until)?;
            r.model.drain(&mut found);
        }
        found.sort_by_key(|c| Reverse((c.done_at, c.id)));
        self.done = found;
        Ok(())
    }

    /// Advances all controllers up to a time, but none beyond the first completion of any. Returns
    /// whether there is a completion.
    fn advance_to_completion(&mut self, to: Ps) -> Result<bool, Error> {
        loop {
            let events = self.regions.iter().enumerate();
            let events = events.filter_map(|(i, r)| Some((r.model.next_event()?, i)));
            let event = events.min().filter(|(t, _)| *t <= to);
            let until = event.map_or(to, |(t, _)| t);
            if self.board.advance_to_completion(until)? {
                self.board.drain(&mut self.done);
            }
            let Some((t, i)) = event else {
                return Ok(!self.done.is_empty());
            };
            if !self.done.is_empty() {
                return Ok(true);
            }
            let model = &mut self.regions[i].model;
            model.advance_to(t)?;
            model.drain(&mut self.done);
            if !self.done.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Statistics of the regions with a memory of their own.
    pub fn reports(&self, at: Ps) -> Vec<RegionReport> {
        let report = |r: &Region| RegionReport {
            name: r.name.clone(),
            model: r.described.clone(),
            base: r.base,
            size: r.end - r.base,
            stats: r.model.report(at),
        };
        self.regions.iter().map(report).collect()
    }

    /// Resets the statistics.
    pub fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.board.reset_stats(at)?;
        self.regions
            .iter_mut()
            .try_for_each(|r| r.model.reset_stats(at))
    }

    /// Changes a value of a region's memory, from a given time on.
    pub fn set_parameter(
        &mut self,
        at: Ps,
        region: &str,
        key: &str,
        value: &str,
    ) -> Result<(), RegionError> {
        let Some(r) = self.regions.iter_mut().find(|r| r.name == region) else {
            let (name, known) = (region.to_owned(), self.region_names());
            return Err(RegionError::Unknown { name, known });
        };
        let wrong = |problem| RegionError::Change {
            name: r.name.clone(),
            problem,
        };
        r.model.set_parameter(at, key, value).map_err(wrong)
    }

    /// Resets the values of the regions' memories to those of the description.
    pub fn restore_parameters(
        &mut self,
        at: Ps,
        config: &MachineConfig,
    ) -> Result<(), super::MachineError> {
        let fresh = Memory::new(config)?;
        let regions = self.regions.iter_mut().zip(&fresh.regions);
        for (r, described) in regions.filter(|(r, _)| !r.brought) {
            let now = r.model.parameters();
            for (key, value) in described.model.parameters() {
                if !now.contains(&(key.clone(), value.clone())) {
                    r.model.set_parameter(at, &key, &value)?;
                }
            }
        }
        Ok(())
    }

    /// Values of regions' memories that can change while they run: region, key, value.
    pub fn parameters(&self) -> Vec<(String, String, String)> {
        let of = |r: &Region| {
            let all = r.model.parameters().into_iter();
            let name = r.name.clone();
            all.map(move |(k, v)| (name.clone(), k, v))
        };
        self.regions.iter().flat_map(of).collect()
    }

    /// No hart waits any more; outstanding requests continue.
    pub fn release_all(&mut self) {
        self.blocked.fill(None);
        self.waiting = 0;
        self.ahead.clear();
    }

    /// Ids of writes that are not complete at a given time.
    pub fn unfinished_writes(&mut self, at: Ps) -> Result<Vec<u64>, Error> {
        let coming = self.coming.iter();
        let mut ids: Vec<u64> = coming
            .filter(|c| c.kind == Kind::Write)
            .map(|c| c.id)
            .collect();
        ids.extend(self.board.unfinished_writes(at)?);
        for r in &self.regions {
            ids.extend(r.model.unfinished_writes(at)?);
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Whether a hart is blocked for a request.
    pub fn blocks(&self, hart: usize) -> bool {
        self.blocked.get(hart).is_some_and(Option::is_some)
    }

    pub fn save(&self) -> SavedMemory {
        SavedMemory {
            board: self.board.save(),
            regions: self.regions.iter().map(|r| r.model.save()).collect(),
            coming: self.coming.iter().copied().collect(),
            next_id: self.next_id,
            blocked: self.blocked.clone(),
            ahead: self.ahead.clone(),
            done: self.done.clone(),
        }
    }

    /// Restores a saved state; an error if it is not one of the same form.
    pub fn restore(
        &self,
        config: &MachineConfig,
        s: SavedMemory,
    ) -> Result<Memory, super::load_error::LoadError> {
        let fail = |bad: bool, what| {
            if bad {
                Err(super::load_error::LoadError::Machine(what))
            } else {
                Ok(())
            }
        };
        // Loading changes a model, and this memory has to stay usable if it fails.
        let mut fresh = Memory::new(config).map_err(|_| {
            super::load_error::LoadError::Machine("memory of the machine's description")
        })?;
        fail(
            s.regions.len() != fresh.regions.len(),
            "regions with a memory of their own",
        )?;
        for (r, saved) in fresh.regions.iter_mut().zip(s.regions) {
            r.model.load(saved)?;
        }
        let board = Controller::restore(s.board)?;
        let (new, old) = (board.params(), self.board.params());
        let fixed = new.clock == old.clock
            && new.capacity == old.capacity
            && new.mapping == old.mapping
            && new.machines == old.machines;
        fail(!fixed, "fixed parameters of the memory controller")?;
        let capacity = new.capacity;
        let inside = |c: &Coming| {
            c.offset < capacity
                && c.offset.is_multiple_of(64)
                && c.at <= Ps::MAX_TIME
                && c.id < s.next_id
        };
        let ordered = s.coming.is_sorted();
        fail(
            !ordered || !s.coming.iter().all(inside),
            "requests to memory",
        )?;
        fail(s.next_id > 1 << 62, "number of requests")?;
        let late = |c: &Completion| c.done_at > Ps::MAX_TIME;
        fail(s.done.iter().any(late), "answers of memory")?;
        let same = s.blocked.len() == self.blocked.len();
        fail(!same, "harts that wait for memory")?;
        Ok(Memory {
            board,
            regions: fresh.regions,
            coming: s.coming.into(),
            next_id: s.next_id,
            waiting: s.blocked.iter().flatten().count(),
            blocked: s.blocked,
            ahead: s.ahead,
            done: s.done,
            log: None,
        })
    }
}

impl Region {
    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        let addr = r.addr - self.base;
        self.model.submit(at, Request { addr, ..r })
    }

    /// A request that is answered at once, where no other request can come in between. When it is
    /// complete, and when it reached the controller.
    fn access(
        &mut self,
        mut at: Ps,
        r: Request,
        done: &mut Vec<Completion>,
    ) -> Result<(Ps, Ps), Error> {
        while let Submit::Busy(t) = self.submit(at, r)? {
            at = t.max(Ps(at.0 + 1));
            self.model.advance_to(at)?;
        }
        loop {
            self.model.drain(done);
            if let Some(c) = done.iter().find(|c| c.id == r.id) {
                return Ok((c.done_at, at));
            }
            // An outstanding request has a future event.
            let t = self.model.next_event().unwrap_or(Ps(Ps::MAX_TIME.0 + 1));
            self.model.advance_to(t)?;
        }
    }
}
