//! Memory behind a CXL link: a layer that adds latency and limits bandwidth.
//!
//! A request takes its slot on the way down (a write with its data, a read with its header only),
//! arrives after `latency_down` and goes to the inner memory in order; if that is busy, the request
//! and all behind it wait. The answer takes its slot on the way up (a read with its data, a write
//! with its header) in the order in which answers become ready, and arrives after `latency_up`. At
//! most `credits` requests are outstanding between submission and answer.
//!
//! Sources: Sun et al. (MICRO 2023) and Sharma (IEEE Micro 2023) for latency
//! added by the link and for what a x8 link of 32 GT/s carries.

mod saved;
#[cfg(test)]
mod tests;

pub use saved::Saved;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Change, Counters, Latency, MemoryModel, ModelStats, RegionStats};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::units::{ps_text, Ps};

/// A link. Times are written with their unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CxlParams {
    /// Requester to memory controller.
    #[serde(with = "ps_text")]
    pub latency_down: Ps,
    /// Memory controller to requester.
    #[serde(with = "ps_text")]
    pub latency_up: Ps,
    /// Time on the link per byte, in each direction, in picoseconds (31: 32 GB/s).
    pub ps_per_byte: u32,
    /// Bytes of a header on the link.
    pub header_bytes: u32,
    /// Outstanding requests between submission and answer, 1 to 4096.
    pub credits: u32,
}

impl CxlParams {
    /// Checks all values.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |field, value: String, expected: &str| {
            Err(Error::Param {
                field,
                value,
                expected: expected.to_owned(),
            })
        };
        if !(1..=4096).contains(&self.credits) {
            return fail("credits", self.credits.to_string(), "1 to 4096");
        }
        if self.ps_per_byte > 1_000_000 {
            return fail(
                "ps_per_byte",
                self.ps_per_byte.to_string(),
                "at most 1000000",
            );
        }
        if self.header_bytes > 256 {
            return fail("header_bytes", self.header_bytes.to_string(), "at most 256");
        }
        for (field, t) in [
            ("latency_down", self.latency_down),
            ("latency_up", self.latency_up),
        ] {
            if t > Ps::from_ns(1_000_000_000) {
                return fail(field, t.to_string(), "at most 1 s");
            }
        }
        Ok(())
    }
}

/// A request between its submission and its answer.
#[derive(Clone, Copy, Debug)]
struct Open {
    request: Request,
    arrival: Ps,
    accepted: Ps,
    hit: bool,
    /// Its id at the inner memory: a sequence number combined with its index.
    inner_id: u64,
}

/// The link with its memory. See the [module](self) for the rules.
pub struct Cxl {
    params: CxlParams,
    inner: Box<dyn MemoryModel + Send>,
    latest: Ps,
    down_free: Ps,
    up_free: Ps,
    open: Vec<Open>,
    unused: Vec<u32>,
    /// On the way down: (index, time at the inner memory).
    down: VecDeque<(u32, Ps)>,
    /// Known answers, in the order in which they become ready.
    ready: BinaryHeap<Reverse<(Ps, u32)>>,
    /// Arrivals of answers that time has not passed yet.
    ends: crate::window::Window,
    scratch: Vec<Completion>,
    done: Vec<Completion>,
    counters: Counters,
    read_latency: Latency,
    write_latency: Latency,
    from: Ps,
    changes: Vec<Change>,
    /// Number of accepted requests, of which 31 bits are used.
    taken: u64,
    /// Writes that the inner memory has accepted and may not have finished: their ids there and
    /// here.
    posted: BTreeMap<u64, u64>,
    /// Length of `posted` at which it is searched for finished writes.
    most_posted: usize,
}

/// Least length of the list at which it is searched.
const FEW: usize = 1024;
/// Number of ids that are distinguished: they stay below 2^63.
const NUMBERS: u64 = (1 << 31) - 1;

/// Keys of the link that can change while it runs.
const CHANGEABLE: [&str; 4] = ["latency_down", "latency_up", "ps_per_byte", "header_bytes"];

impl Cxl {
    /// A link to `inner`, which must be at time 0.
    pub fn new(params: CxlParams, inner: Box<dyn MemoryModel + Send>) -> Result<Cxl, Error> {
        params.validate()?;
        let n = params.credits;
        let none = Open {
            request: Request {
                id: 0,
                addr: 0,
                kind: Kind::Read,
                bytes: 0,
            },
            arrival: Ps::ZERO,
            accepted: Ps::ZERO,
            hit: false,
            inner_id: 0,
        };
        Ok(Cxl {
            inner,
            latest: Ps::ZERO,
            down_free: Ps::ZERO,
            up_free: Ps::ZERO,
            open: vec![none; n as usize],
            unused: (0..n).rev().collect(),
            down: VecDeque::with_capacity(n as usize),
            ready: BinaryHeap::with_capacity(n as usize),
            ends: crate::window::Window::new(n as usize),
            scratch: Vec::with_capacity(n as usize),
            done: Vec::with_capacity(n as usize),
            counters: Counters::default(),
            read_latency: Latency::default(),
            write_latency: Latency::default(),
            from: Ps::ZERO,
            changes: Vec::new(),
            taken: 0,
            posted: BTreeMap::new(),
            most_posted: FEW,
            params,
        })
    }

    /// The memory behind the link.
    pub fn inner(&self) -> &dyn MemoryModel {
        self.inner.as_ref()
    }

    fn on_link(&self, kind: Kind, carrying: Kind, bytes: u32) -> Ps {
        let data = if kind == carrying { bytes } else { 0 };
        Ps(u64::from(self.params.ps_per_byte) * u64::from(data + self.params.header_bytes))
    }

    /// Next time at which an internal event can happen.
    fn next_inner(&self) -> Option<Ps> {
        let a = self.down.front().map(|d| d.1);
        let b = self.ready.peek().map(|r| r.0 .0);
        [a, b, self.inner.next_event()].into_iter().flatten().min()
    }

    fn collect(&mut self) {
        self.inner.drain(&mut self.scratch);
        for c in self.scratch.drain(..) {
            let index = c.id as u32;
            self.open[index as usize].hit = c.row_hit;
            self.ready.push(Reverse((c.done_at, index)));
        }
    }

    /// Removes posted writes that are finished, if there are many.
    fn look_through(&mut self) -> Result<(), Error> {
        if self.posted.len() > self.most_posted {
            let left = self.inner.unfinished_writes(self.latest)?;
            self.posted.retain(|id, _| left.binary_search(id).is_ok());
            self.most_posted = FEW.max(2 * self.posted.len());
        }
        Ok(())
    }

    /// Processes all internal events before `t`.
    fn settle(&mut self, t: Ps) -> Result<(), Error> {
        while let Some(e) = self.next_inner().filter(|e| *e < t) {
            // The inner memory is never ahead of what can still be submitted to it.
            self.inner.advance_to(e)?;
            if let Some((index, at)) = self.down.front_mut().filter(|d| d.1 <= e) {
                let o = &self.open[*index as usize];
                let r = Request {
                    id: o.inner_id,
                    ..o.request
                };
                match self.inner.submit(*at, r)? {
                    Submit::Accepted => {
                        if r.kind == Kind::Write {
                            self.posted.insert(r.id, o.request.id);
                        }
                        self.down.pop_front();
                    }
                    Submit::Busy(until) => *at = until.max(*at + Ps(1)),
                }
            } else if self.inner.next_event().is_some_and(|n| n <= e) {
                self.inner.advance_to(e + Ps(1))?;
            }
            self.collect();
            while self.ready.peek().is_some_and(|r| r.0 .0 <= e) {
                self.answer();
            }
        }
        self.inner.advance_to(t)?;
        self.collect();
        self.ends.pass(t);
        Ok(())
    }

    /// Sends the first answer up.
    fn answer(&mut self) {
        let Some(Reverse((at, index))) = self.ready.pop() else {
            return;
        };
        let o = self.open[index as usize];
        let start = at.max(self.up_free);
        self.up_free = start + self.on_link(o.request.kind, Kind::Read, o.request.bytes);
        let done_at = self.up_free + self.params.latency_up;
        self.unused.push(index);
        self.ends.push(done_at);
        let l = done_at.saturating_sub(o.arrival);
        match o.request.kind {
            Kind::Read => self.read_latency.add(l),
            Kind::Write => self.write_latency.add(l),
        }
        self.done.push(Completion {
            id: o.request.id,
            kind: o.request.kind,
            accepted_at: o.accepted,
            done_at,
            row_hit: o.hit,
        });
    }
}

impl MemoryModel for Cxl {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        r.check(self.capacity())?;
        self.advance_to(at)?;
        self.look_through()?;
        let at = self.latest;
        let Some(index) = self.unused.pop() else {
            let next = self.next_inner().unwrap_or(at).max(at);
            return Ok(Submit::Busy(next + Ps(1)));
        };
        let start = at.max(self.down_free);
        self.down_free = start + self.on_link(r.kind, Kind::Write, r.bytes);
        self.taken += 1;
        self.open[index as usize] = Open {
            inner_id: (self.taken & NUMBERS) << 32 | u64::from(index),
            request: r,
            arrival: at,
            accepted: start,
            hit: false,
        };
        self.down
            .push_back((index, self.down_free + self.params.latency_down));
        crate::window::count(&mut self.counters, &r);
        Ok(Submit::Accepted)
    }

    fn next_event(&self) -> Option<Ps> {
        let inner = self.next_inner().map(|t| t + Ps(1));
        [inner, self.ends.first()]
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

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        while let Some(t) = self.next_event() {
            self.advance_to(t)?;
        }
        let end = self.inner.flush(self.latest)?;
        self.advance_to(end)?;
        Ok(end)
    }

    /// Writes that are on the link, and those that the memory behind it has not finished.
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        if let Some(copy) = crate::window::later(self, self.latest, at)? {
            return copy.unfinished_writes(at);
        }
        let inside = self.inner.unfinished_writes(self.latest)?;
        let inside = inside.iter().filter_map(|id| self.posted.get(id).copied());
        let down = self.down.iter().map(|d| &self.open[d.0 as usize].request);
        let down = down.filter(|r| r.kind == Kind::Write).map(|r| r.id);
        Ok(crate::window::distinct(inside.chain(down).collect()))
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }

    /// The link's region "cxl" has the requests; the regions of the inner memory are reported as
    /// counters "inner.NAME.reads" and so on, with energy and wear.
    fn report(&self, at: Ps) -> ModelStats {
        if let Some(s) = crate::window::ahead(self, self.latest, at) {
            return s;
        }
        let to = self.latest.max(at);
        let inner = self.inner.report(to);
        let mut s = ModelStats {
            name: format!("cxl({})", inner.name),
            from: self.from,
            to,
            changes: self.changes.clone(),
            clock: self.clock(),
            regions: vec![RegionStats {
                name: "cxl".to_owned(),
                counters: self.counters,
                read_latency: self.read_latency.clone(),
                write_latency: self.write_latency.clone(),
                energy: None,
                wear: None,
            }],
            ..ModelStats::default()
        };
        crate::window::take_inner(&mut s, "inner", inner, false);
        s
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        Some(Box::new(Cxl {
            inner: self.inner.lookahead()?,
            params: self.params.clone(),
            open: self.open.clone(),
            unused: self.unused.clone(),
            down: self.down.clone(),
            ready: self.ready.clone(),
            ends: self.ends.clone(),
            scratch: Vec::new(),
            done: Vec::new(),
            read_latency: self.read_latency.clone(),
            write_latency: self.write_latency.clone(),
            changes: self.changes.clone(),
            posted: self.posted.clone(),
            ..*self
        }))
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        self.inner.reset_stats(self.latest)?;
        self.counters = Counters::default();
        self.read_latency = Latency::default();
        self.write_latency = Latency::default();
        self.from = self.latest;
        self.changes.clear();
        Ok(())
    }

    fn clock(&self) -> Period {
        self.inner.clock()
    }

    /// Keys are "link.KEY" with a field of [`CxlParams`] other than `credits`, which applies to
    /// what enters the link from `at` on, and "memory.KEY", or the plain key, for the memory behind
    /// it.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let Some(own) = key.strip_prefix("link.") else {
            self.advance_to(at)?;
            let key = key.strip_prefix("memory.").unwrap_or(key);
            return self.inner.set_parameter(self.latest, key, value);
        };
        let (params, from) =
            crate::window::changed(&self.params, "cxl link", own, value, &CHANGEABLE)?;
        CxlParams::validate(&params)?;
        self.advance_to(at)?;
        self.params = params;
        self.changes.push(Change {
            at: self.latest,
            what: key.to_owned(),
            from,
            to: value.to_owned(),
        });
        Ok(())
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let mut all = crate::window::listed(&self.params, "link.", &CHANGEABLE);
        all.extend(crate::window::of_part("memory", self.inner.parameters()));
        all
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        self.inner.set_command_log(on)
    }

    fn take_commands(&mut self, into: &mut Vec<crate::command::Issued>) {
        self.inner.take_commands(into);
    }

    fn command_parts(&self) -> Vec<crate::model::CommandPart> {
        self.inner.command_parts()
    }
}
