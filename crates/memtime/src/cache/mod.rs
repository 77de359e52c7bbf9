//! A DRAM cache in front of NVMM: direct mapped or set associative,
//! write-back, write-allocate.
//!
//! # Rules
//! - Tags are looked up and updated in the order of arrival. The lookup takes the time of the SRAM,
//!   or, if tags are stored with the data, is the front read that begins each access.
//! - **Hit**: a front read or write of the piece asked for.
//! - **Miss**: the block's pieces are read from the back memory, the requested one first (none if a
//!   write covers the block), and each is written to the front when it arrives. A read is complete
//!   when its piece arrives from the back, a write when its piece is written to the front.
//! - A dirty victim is read from the front (unless tags are with the data: then it has already been
//!   read) and written to the back, piece by piece. It is in a buffer meanwhile: the fetch does not
//!   wait for it.
//! - A request to a set in which an earlier one misses, and a miss to a set that an earlier request
//!   still uses, begin when that earlier request has ended.
//! - Reads and writes to each memory are issued in separate queues, each in order.

mod params;
mod saved;
mod tags;
#[cfg(test)]
mod tests;
mod unwritten;

pub use params::{CacheParams, Tags};
pub use saved::Saved;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::command::Issued;
use crate::error::Error;
use crate::model::{Change, CommandPart, Counters, Latency, MemoryModel, ModelStats, RegionStats};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::units::Ps;
use crate::window::{count, set_logs, take_inner, take_logs};
use tags::{Found, TagArray};
use unwritten::Unwritten;

const PIECE: u64 = 64;
const NONE: u16 = u16::MAX;

/// Purpose of an access to one of the memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Front read that brings tag and data.
    Probe,
    /// Front access that serves the request itself.
    Demand,
    /// Front read of a victim's piece.
    Victim,
    /// Back write of a victim's piece.
    WriteBack,
    /// Back read of a piece.
    Fetch,
    /// Front write of a fetched piece.
    Fill,
}

const STEPS: [Step; 6] = [
    Step::Probe,
    Step::Demand,
    Step::Victim,
    Step::WriteBack,
    Step::Fetch,
    Step::Fill,
];

/// Id of an access: number of the request, transaction, step, piece.
fn pack(number: u64, txn: usize, step: Step, piece: u64) -> u64 {
    (number & NUMBERS) << 32 | (txn as u64) << 16 | (step as u64) << 8 | piece
}

/// Number of ids that are distinguished: they stay below 2^63.
const NUMBERS: u64 = (1 << 31) - 1;

fn unpack(id: u64) -> (usize, Step, u64) {
    (
        (id >> 16 & 0xffff) as usize,
        STEPS[(id >> 8 & 0xff) as usize],
        id & 0xff,
    )
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct Txn {
    used: bool,
    request: Request,
    arrival: Ps,
    block: u64,
    found: Found,
    /// Accesses that have not ended.
    open: u32,
    /// The request that begins when this one ends.
    next: u16,
    /// Its completion is known.
    answered: bool,
    /// Sequence number, counted from the first request on.
    number: u64,
}

/// One of the two memories with the accesses that wait for it.
struct Side {
    model: Box<dyn MemoryModel + Send>,
    /// Queues for reads and writes: earliest time, access.
    waiting: [VecDeque<(Ps, Request)>; 2],
    /// Ids of the writes that it has accepted since it was last asked which are finished.
    taken: Vec<u64>,
}

impl Side {
    fn new(model: Box<dyn MemoryModel + Send>) -> Side {
        Side {
            model,
            waiting: Default::default(),
            taken: Vec::new(),
        }
    }

    fn next(&self) -> Option<Ps> {
        let heads = self.waiting.iter().filter_map(|w| w.front().map(|h| h.0));
        heads.chain(self.model.next_event()).min()
    }

    /// Submits what can be submitted at `t`; returns whether anything could be tried.
    fn pump(&mut self, t: Ps) -> Result<bool, Error> {
        let mut any = false;
        for w in &mut self.waiting {
            while let Some((at, r)) = w.front_mut().filter(|h| h.0 <= t) {
                any = true;
                match self.model.submit(t, *r)? {
                    Submit::Accepted => {
                        if r.kind == Kind::Write {
                            self.taken.push(r.id);
                        }
                        w.pop_front();
                    }
                    Submit::Busy(until) => *at = until.max(t + Ps(1)),
                }
            }
        }
        Ok(any)
    }
}

/// The cache with both memories. See the [module](self) for the rules.
pub struct Cache {
    params: CacheParams,
    sides: [Side; 2],
    tags: TagArray,
    sets: u64,
    latest: Ps,
    /// Time up to which internal events have been processed.
    now: Ps,
    txns: Vec<Txn>,
    unused: Vec<u16>,
    /// Known ends of accesses.
    ends: BinaryHeap<Reverse<(Ps, u64)>>,
    /// Known ends of requests that time has not yet passed.
    passing: crate::window::Window,
    scratch: Vec<Completion>,
    done: Vec<Completion>,
    counters: Counters,
    misses: u64,
    write_backs: u64,
    /// Blocks that differ from the back memory.
    dirty: u64,
    fetches: u64,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    changes: Vec<Change>,
    /// Number of requests accepted.
    taken: u64,
    unwritten: Unwritten,
}

/// Keys of the cache that can change while it runs.
const CHANGEABLE: [&str; 1] = ["tags.sram.latency"];

const NAMES: [&str; 2] = ["front", "back"];
const FRONT: usize = 0;
const BACK: usize = 1;

impl Cache {
    /// A cache that uses all of `front` for `back`; both must be at time 0.
    pub fn new(
        params: CacheParams,
        front: Box<dyn MemoryModel + Send>,
        back: Box<dyn MemoryModel + Send>,
    ) -> Result<Cache, Error> {
        params.validate(front.capacity())?;
        if !back.capacity().is_multiple_of(params.block_bytes) {
            return Err(Error::Param {
                field: "capacity of the back memory",
                value: back.capacity().to_string(),
                expected: format!("whole blocks of {} bytes", params.block_bytes),
            });
        }
        let ways = params.ways as usize;
        let sets = front.capacity() / params.block_bytes / ways as u64;
        let n = params.transactions as usize;
        let empty = Txn {
            used: false,
            request: Request {
                id: 0,
                addr: 0,
                kind: Kind::Read,
                bytes: 0,
            },
            arrival: Ps::ZERO,
            block: 0,
            found: Found {
                place: 0,
                hit: false,
                dirtied: false,
                victim: None,
            },
            open: 0,
            next: NONE,
            answered: false,
            number: 0,
        };
        Ok(Cache {
            sides: [Side::new(front), Side::new(back)],
            tags: TagArray::new(sets, ways),
            sets,
            latest: Ps::ZERO,
            now: Ps::ZERO,
            txns: vec![empty; n],
            unused: (0..n as u16).rev().collect(),
            ends: BinaryHeap::with_capacity(4 * n),
            passing: crate::window::Window::new(n),
            scratch: Vec::with_capacity(n),
            done: Vec::with_capacity(n),
            counters: Counters::default(),
            misses: 0,
            write_backs: 0,
            dirty: 0,
            fetches: 0,
            read_latency: Latency::default(),
            write_latency: Latency::default(),
            from: Ps::ZERO,
            changes: Vec::new(),
            taken: 0,
            unwritten: Unwritten::default(),
            params,
        })
    }

    /// The parameters.
    pub fn params(&self) -> &CacheParams {
        &self.params
    }

    fn pieces(&self) -> u64 {
        self.params.block_bytes / PIECE
    }

    fn next_inner(&self) -> Option<Ps> {
        let end = self.ends.peek().map(|e| e.0 .0);
        [end, self.sides[FRONT].next(), self.sides[BACK].next()]
            .into_iter()
            .flatten()
            .min()
            .map(|t| t.max(self.now))
    }

    /// Puts an access into its queue.
    fn push(&mut self, side: usize, t: Ps, txn: usize, step: Step, piece: u64) {
        let x = &self.txns[txn];
        let b = self.params.block_bytes;
        let kind = match step {
            Step::Probe | Step::Victim | Step::Fetch => Kind::Read,
            Step::WriteBack | Step::Fill => Kind::Write,
            Step::Demand => x.request.kind,
        };
        let base = match (side, step) {
            (FRONT, _) => x.found.place * b,
            (_, Step::WriteBack) => x.found.victim.map_or(0, |v| v.block * b),
            _ => x.block * b,
        };
        let own = step == Step::Demand;
        let addr = base + piece * PIECE + if own { x.request.addr % PIECE } else { 0 };
        let r = Request {
            id: pack(x.number, txn, step, piece),
            addr,
            kind,
            bytes: if own { x.request.bytes } else { PIECE as u32 },
        };
        self.txns[txn].open += 1;
        self.sides[side].waiting[kind as usize].push_back((t, r));
    }

    /// Begins a transaction.
    fn start(&mut self, t: Ps, i: usize) {
        let piece = self.txns[i].request.addr % self.params.block_bytes / PIECE;
        match self.params.tags {
            Tags::WithData => self.push(FRONT, t, i, Step::Probe, 0),
            Tags::Sram { latency } if self.txns[i].found.hit => {
                self.push(FRONT, t + latency, i, Step::Demand, piece);
            }
            Tags::Sram { latency } => {
                let t = t + latency;
                if self.txns[i].found.victim.is_some_and(|v| v.dirty) {
                    for p in 0..self.pieces() {
                        self.push(FRONT, t, i, Step::Victim, p);
                    }
                }
                self.fetch(t, i, piece);
            }
        }
    }

    /// The part of a miss that fetches the block.
    fn fetch(&mut self, t: Ps, i: usize, piece: u64) {
        let r = self.txns[i].request;
        if r.kind == Kind::Write && u64::from(r.bytes) == self.params.block_bytes {
            self.push(FRONT, t, i, Step::Demand, piece);
            return;
        }
        self.fetches += 1;
        let n = self.pieces();
        for k in 0..n {
            self.push(BACK, t, i, Step::Fetch, (piece + k) % n);
        }
    }

    /// Handles the end of an access.
    fn end(&mut self, t: Ps, id: u64) {
        let (i, step, piece) = unpack(id);
        let x = self.txns[i];
        let own = x.request.addr % self.params.block_bytes / PIECE == piece;
        self.txns[i].open -= 1;
        match step {
            Step::Probe => match (x.found.hit, x.request.kind) {
                (true, Kind::Read) => self.complete(t, i),
                (true, Kind::Write) => self.push(FRONT, t, i, Step::Demand, piece),
                (false, _) => {
                    if x.found.victim.is_some_and(|v| v.dirty) {
                        self.push(BACK, t, i, Step::WriteBack, piece);
                    }
                    self.fetch(t, i, piece);
                }
            },
            Step::Demand => self.complete(t, i),
            Step::Victim => self.push(BACK, t, i, Step::WriteBack, piece),
            Step::WriteBack => self.write_backs += 1,
            Step::Fetch => {
                self.push(FRONT, t, i, Step::Fill, piece);
                if own && x.request.kind == Kind::Read {
                    self.complete(t, i);
                }
            }
            Step::Fill if own && x.request.kind == Kind::Write => self.complete(t, i),
            Step::Fill => {}
        }
        if self.txns[i].open == 0 {
            self.txns[i].used = false;
            self.unused.push(i as u16);
            let next = std::mem::replace(&mut self.txns[i].next, NONE);
            if next != NONE {
                self.start(t, next as usize);
            }
        }
    }

    fn complete(&mut self, t: Ps, i: usize) {
        let x = &mut self.txns[i];
        x.answered = true;
        let l = t.saturating_sub(x.arrival);
        match x.request.kind {
            Kind::Read => self.read_latency.add(l),
            Kind::Write => self.write_latency.add(l),
        }
        self.passing.push(t);
        self.done.push(Completion {
            id: x.request.id,
            kind: x.request.kind,
            accepted_at: x.arrival,
            done_at: t,
            row_hit: x.found.hit,
        });
    }

    /// Processes all internal events before `t`.
    fn settle(&mut self, t: Ps) -> Result<(), Error> {
        while let Some(e) = self.next_inner().filter(|e| *e < t) {
            self.now = e;
            let mut any = false;
            while self.ends.peek().is_some_and(|x| x.0 .0 <= e) {
                if let Some(Reverse((_, id))) = self.ends.pop() {
                    self.end(e, id);
                    any = true;
                }
            }
            for s in &mut self.sides {
                any |= s.pump(e)?;
                if !any && s.model.next_event().is_some_and(|n| n <= e) {
                    s.model.advance_to(e + Ps(1))?;
                }
            }
            self.collect();
        }
        for s in &mut self.sides {
            s.model.advance_to(t)?;
        }
        self.collect();
        self.now = self.now.max(t);
        self.passing.pass(t);
        Ok(())
    }

    fn collect(&mut self) {
        for s in &mut self.sides {
            s.model.drain(&mut self.scratch);
        }
        for c in self.scratch.drain(..) {
            // The order of equal times is that of transactions.
            let id = c.id & u64::from(u32::MAX);
            self.ends.push(Reverse((c.done_at, id)));
        }
        self.sides[FRONT].taken.clear();
        for id in self.sides[BACK].taken.drain(..) {
            self.unwritten.sent(id);
        }
    }

    /// The newest request in progress for which one to this block has to wait.
    fn conflict(&self, set: u64, hit: bool) -> Option<usize> {
        let mut found: Option<usize> = None;
        for (i, x) in self.txns.iter().enumerate() {
            // Only the end of a chain can be followed: those before it have
            // a follower already.
            if x.used && x.next == NONE && x.block % self.sets == set && !(hit && x.found.hit) {
                found = Some(i);
            }
        }
        found
    }
}

impl MemoryModel for Cache {
    /// Capacity of the back memory.
    fn capacity(&self) -> u64 {
        self.sides[BACK].model.capacity()
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        r.check(self.capacity())?;
        self.advance_to(at)?;
        if self.unwritten.is_long() {
            let back = self.sides[BACK].model.unfinished_writes(self.latest)?;
            self.unwritten.keep(&back);
        }
        let at = self.latest;
        let Some(i) = self.unused.pop() else {
            let next = self.next_inner().unwrap_or(at).max(at);
            return Ok(Submit::Busy(next + Ps(1)));
        };
        count(&mut self.counters, &r);
        let block = r.addr / self.params.block_bytes;
        let found = self.tags.access(block, r.kind == Kind::Write);
        self.dirty += u64::from(found.dirtied);
        self.dirty -= u64::from(found.victim.is_some_and(|v| v.dirty));
        self.counters.row_hits += u64::from(found.hit);
        self.counters.row_misses += u64::from(!found.hit);
        self.misses += u64::from(!found.hit);
        let before = self.conflict(block % self.sets, found.hit);
        let i = i as usize;
        self.txns[i] = Txn {
            used: true,
            request: r,
            arrival: at,
            block,
            found,
            open: 0,
            next: NONE,
            answered: false,
            number: self.taken,
        };
        self.taken += 1;
        if let Some(v) = found.victim.filter(|v| v.dirty) {
            let n = self.pieces();
            let id = |piece| pack(self.txns[i].number, i, Step::WriteBack, piece);
            self.unwritten.evicted(v.block * n..(v.block + 1) * n, id);
        }
        if r.kind == Kind::Write {
            self.unwritten.absorbed(r.addr / PIECE, r.id);
        }
        match before {
            Some(b) => self.txns[b].next = i as u16,
            None => self.start(at, i),
        }
        Ok(Submit::Accepted)
    }

    fn next_event(&self) -> Option<Ps> {
        let inner = self.next_inner().map(|t| t + Ps(1));
        [inner, self.passing.first()]
            .into_iter()
            .flatten()
            .min()
            .map(|t| t.max(self.latest))
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        self.settle(self.latest)
    }

    /// Blocks in the front memory stay there, written or not.
    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        while let Some(t) = self.next_event() {
            self.advance_to(t)?;
        }
        let mut end = Ps::ZERO;
        for s in &mut self.sides {
            end = end.max(s.model.flush(self.latest)?);
        }
        self.advance_to(end)?;
        Ok(end)
    }

    /// The medium is that of the back memory: a block in the cache that has not been written back
    /// is lost. Of the writes to 64 bytes that have not been written back, the first and the last
    /// are listed; those in between would never have reached the medium by themselves.
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        let mut ids = match crate::window::later(self, self.latest, at)? {
            Some(copy) => copy.unfinished_writes(at)?,
            None => {
                let back = self.sides[BACK].model.unfinished_writes(self.latest)?;
                self.unwritten.on_their_way(&back)
            }
        };
        ids.extend(self.unwritten.in_cache());
        Ok(crate::window::distinct(ids))
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }

    /// The region "cache" has the requests, with hits and misses of the cache counted as row hits
    /// and misses; regions "front.NAME" and "back.NAME" have energy and wear of the memories, and
    /// counters with these prefixes everything else that the memories report.
    fn report(&self, at: Ps) -> ModelStats {
        if let Some(s) = crate::window::ahead(self, self.latest, at) {
            return s;
        }
        let to = self.latest.max(at);
        let region = RegionStats {
            name: "cache".to_owned(),
            counters: self.counters,
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            energy: None,
            wear: None,
        };
        let mut s = ModelStats {
            name: "cache".to_owned(),
            from: self.from,
            to,
            clock: self.clock(),
            regions: vec![region],
            changes: self.changes.clone(),
            ..ModelStats::default()
        };
        for (k, v) in [
            ("cache_hits", self.counters.row_hits),
            ("cache_misses", self.misses),
            ("written_back_bytes", self.write_backs * PIECE),
            // Written, and not yet written back.
            ("dirty_bytes", self.dirty * self.params.block_bytes),
            ("blocks_fetched", self.fetches),
        ] {
            s.counters.insert(k.to_owned(), v as f64);
        }
        for (name, side) in NAMES.into_iter().zip(&self.sides) {
            take_inner(&mut s, name, side.model.report(to), true);
        }
        s
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        let side = |s: &Side| {
            Some(Side {
                model: s.model.lookahead()?,
                waiting: s.waiting.clone(),
                taken: Vec::new(),
            })
        };
        Some(Box::new(Cache {
            params: self.params.clone(),
            sides: [side(&self.sides[FRONT])?, side(&self.sides[BACK])?],
            // Only new requests look at them.
            tags: TagArray::new(0, 1),
            txns: self.txns.clone(),
            unused: self.unused.clone(),
            ends: self.ends.clone(),
            passing: self.passing.clone(),
            scratch: Vec::new(),
            done: Vec::new(),
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            changes: self.changes.clone(),
            // What the cache holds stays there without new requests.
            unwritten: self.unwritten.leaving_only(),
            ..*self
        }))
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let mut all = crate::window::listed(&self.params, "cache.", &CHANGEABLE);
        for (name, side) in NAMES.into_iter().zip(&self.sides) {
            all.extend(crate::window::of_part(name, side.model.parameters()));
        }
        all
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        let sides = self.sides.iter_mut().map(|s| &mut s.model);
        set_logs(NAMES.into_iter().zip(sides), on)
    }

    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        take_logs(self.sides.iter_mut().map(|s| &mut s.model), into);
    }

    fn command_parts(&self) -> Vec<CommandPart> {
        let of = |(name, side): (&str, &Side)| {
            let parts = side.model.command_parts().into_iter();
            parts
                .map(|p| CommandPart {
                    name: format!("{name}.{}", p.name),
                    ..p
                })
                .collect::<Vec<_>>()
        };
        NAMES.into_iter().zip(&self.sides).flat_map(of).collect()
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        for s in &mut self.sides {
            s.model.reset_stats(self.latest)?;
        }
        self.counters = Counters::default();
        self.read_latency = Latency::default();
        self.write_latency = Latency::default();
        (self.misses, self.write_backs, self.fetches) = (0, 0, 0);
        self.from = self.latest;
        self.changes.clear();
        Ok(())
    }

    /// Period of the front memory.
    fn clock(&self) -> Period {
        self.sides[FRONT].model.clock()
    }

    /// Keys are "front.KEY", "back.KEY", and "cache.tags.sram.latency", which applies to lookups
    /// from `at` on.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        if let Some(own) = key.strip_prefix("cache.") {
            let (params, from) =
                crate::window::changed(&self.params, "cache", own, value, &CHANGEABLE)?;
            CacheParams::validate(&params, self.sides[FRONT].model.capacity())?;
            self.advance_to(at)?;
            self.params = params;
            self.changes.push(Change {
                at: self.latest,
                what: key.to_owned(),
                from,
                to: value.to_owned(),
            });
            return Ok(());
        }
        let side = match key.split_once('.') {
            Some(("front", rest)) => Some((FRONT, rest)),
            Some(("back", rest)) => Some((BACK, rest)),
            _ => None,
        };
        match side {
            Some((i, rest)) => {
                self.advance_to(at)?;
                self.sides[i].model.set_parameter(self.latest, rest, value)
            }
            None => Err(Error::Unsupported {
                model: "cache".to_owned(),
                what: format!(
                    "parameter {key}: write \"front.key\", \"back.key\" or \"cache.tags.sram.latency\""
                ),
            }),
        }
    }
}
