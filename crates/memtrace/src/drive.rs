//! Plays a trace into a memory model.
//!
//! Latencies are those of the requester. They begin when the memory accepts the request (saturated,
//! dependent), or when the trace or the pace wants it submitted (paced, timestamped: then the wait
//! for a full queue counts), and end with its completion. So they include queues, controller and
//! device.

mod lanes;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nagori_memtime::period::{number, Period};
use nagori_memtime::request::{Completion, Kind, Request};
use nagori_memtime::{MemoryModel, Ps};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lines::{self, Unaligned};
use crate::measure::{Latencies, LatencySummary, Point, Series};
use crate::record::{Record, Source, Times};

/// When requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As fast as the memory accepts them, but at most this many in a clock of the memory.
    Saturated {
        /// Requests a clock, at least 1.
        per_clock: u32,
    },
    /// Each one this long after the completion of the one before, as when following a linked list.
    Dependent {
        /// Time from a completion to the next request.
        think: Ps,
    },
    /// One request in every interval, whatever the memory does.
    Paced {
        /// Time from one request to the next.
        interval: Ps,
    },
    /// At the times of the trace.
    Timestamped {
        /// Length of a cycle, for traces that count cycles; `None`: a clock
        /// of the memory. Ticks of a known length are not changed.
        cycle: Option<Ps>,
    },
}

impl Mode {
    /// When the latency of a request begins.
    #[inline]
    fn counts_from(self, wanted: Ps, accepted: Ps) -> Ps {
        match self {
            Mode::Saturated { .. } | Mode::Dependent { .. } => accepted,
            Mode::Paced { .. } | Mode::Timestamped { .. } => wanted,
        }
    }
}

/// How to play a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// When requests are submitted.
    pub mode: Mode,
    /// Greatest number of outstanding requests; `None`: as many as the memory accepts.
    pub outstanding: Option<u32>,
    /// Greatest number of accesses to play.
    pub limit: Option<u64>,
    /// Subtracted from all addresses.
    pub base: u64,
    /// Whether addresses are taken modulo the capacity; otherwise those beyond it are errors.
    pub wrap: bool,
    /// What becomes of accesses that cross the end of a line.
    pub unaligned: Unaligned,
    /// Threads that compute the memory, at least 1; a channel is computed by one of them. The results
    /// do not depend on it. More than one needs a memory with [`MemoryModel::lanes`] and a mode in
    /// which requests do not wait for completions.
    pub threads: u32,
}

impl Options {
    /// Plays the whole trace, saturated, with unchanged addresses.
    pub fn new(mode: Mode) -> Options {
        Options {
            mode,
            outstanding: None,
            limit: None,
            base: 0,
            wrap: false,
            unaligned: Unaligned::default(),
            threads: 1,
        }
    }
}

/// The results, as the requester sees them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Accesses of the trace that were played.
    pub records: u64,
    /// Accesses that were left out as neither reads nor writes.
    pub skipped: u64,
    /// Accesses that begin inside a line and reach beyond its end; see [`Unaligned`].
    #[serde(default)]
    pub unaligned: u64,
    /// Requests: an access that reaches beyond a line becomes several.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Time of the first request.
    pub from: Ps,
    /// Time of the last completion.
    #[serde(default)]
    pub answered: Ps,
    /// End of the run: the last completion, or when the last write was in the
    /// device ([`MemoryModel::flush`]), if that is later.
    pub to: Ps,
    /// Clock of the memory.
    #[serde(with = "number")]
    pub clock: Period,
    /// Clocks from the first request to the end.
    pub cycles: u64,
    /// Requests that had to wait for a full queue or for outstanding ones.
    pub delayed: u64,
    /// Longest of these waits.
    pub longest_delay: Ps,
    /// Latencies of the reads.
    pub read_latency: LatencySummary,
    /// Latencies of the writes.
    pub write_latency: LatencySummary,
    /// Bytes over time.
    pub bandwidth: Vec<Point>,
    /// Written bytes by address: the memory in up to 1024 equal parts.
    pub write_map: WriteMap,
}

/// Written bytes by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteMap {
    /// Bytes of memory in a part.
    pub part_bytes: u64,
    /// Written bytes of each part, from address 0 on.
    pub written: Vec<u64>,
}

impl WriteMap {
    fn new(capacity: u64) -> WriteMap {
        let part = capacity.div_ceil(MAP_PARTS).next_power_of_two().max(64);
        WriteMap {
            part_bytes: part,
            written: vec![0; capacity.div_ceil(part) as usize],
        }
    }

    #[inline]
    fn add(&mut self, addr: u64, bytes: u32) {
        let i = (addr >> self.part_bytes.trailing_zeros()) as usize;
        if let Some(w) = self.written.get_mut(i) {
            *w += u64::from(bytes);
        }
    }
}

/// Parts of a [`WriteMap`], at most.
const MAP_PARTS: u64 = 1024;

/// Requests between two calls of the progress function, and between two collections of completions.
const PROGRESS_EVERY: u64 = 1 << 14;
const DRAIN_EVERY: usize = 32;

/// An outstanding request: the time at which its latency begins, and its bytes; 0 bytes: complete.
type Pending = (Ps, u32);

/// When requests arrive.
#[derive(Clone, Copy)]
struct Arrivals {
    mode: Mode,
    clock: Period,
    now: Ps,
    /// Requests submitted in this clock.
    in_clock: u32,
    first: Option<Ps>,
    delayed: u64,
    longest_delay: Ps,
}

impl Arrivals {
    fn new(mode: Mode, clock: Period) -> Arrivals {
        Arrivals {
            mode,
            clock,
            now: Ps::ZERO,
            in_clock: 0,
            first: None,
            delayed: 0,
            longest_delay: Ps::ZERO,
        }
    }

    /// When the next request can be tried; in the dependent mode after the one before, which ended at
    /// `end`.
    #[inline]
    fn earliest(&self, wanted: Ps, end: Ps) -> Ps {
        let at = match self.mode {
            Mode::Dependent { think } => match self.first {
                Some(_) => end + think,
                None => Ps::ZERO,
            },
            Mode::Saturated { per_clock } if self.in_clock >= per_clock => {
                self.clock_after(self.now)
            }
            Mode::Saturated { .. } => self.now,
            Mode::Paced { .. } | Mode::Timestamped { .. } => wanted,
        };
        at.max(self.now)
    }

    /// One clock of the memory later.
    fn clock_after(&self, t: Ps) -> Ps {
        match self.clock.whole() {
            Some(period) => t + period,
            None => self.clock.edge(self.clock.edge_from(t) + 1),
        }
    }

    /// Counts a request that was accepted at `at`.
    #[inline]
    fn accept(&mut self, wanted: Ps, at: Ps) {
        let from = self.mode.counts_from(wanted, at);
        if at > from {
            self.delayed += 1;
            self.longest_delay = self.longest_delay.max(at - from);
        }
        if at > self.now || self.first.is_none() {
            self.in_clock = 1
        } else {
            self.in_clock += 1
        }
        self.now = at;
        self.first.get_or_insert(at);
    }
}

/// A request, and when the trace wants it submitted.
type Wanted = (Ps, Record);

/// The requests of a trace.
struct Requests<'s> {
    source: &'s mut dyn Source,
    options: Options,
    /// Unit of the trace's times; `None`: ticks of zero length.
    tick: Option<Period>,
    capacity: u64,
    records: u64,
    unaligned: u64,
    time_before: u64,
}

impl<'s> Requests<'s> {
    fn new(source: &'s mut dyn Source, options: Options, m: &dyn MemoryModel) -> Requests<'s> {
        Requests {
            tick: match (options.mode, source.times()) {
                (_, Times::Ticks(p)) => Period::of_ps(p.0),
                (Mode::Timestamped { cycle: Some(c) }, _) => Period::of_ps(c.0),
                _ => Some(m.clock()),
            },
            capacity: m.capacity(),
            source,
            options,
            records: 0,
            unaligned: 0,
            time_before: 0,
        }
    }

    /// The next access of the trace; `None` at its end. Its requests are its
    /// [`Requests::pieces`].
    #[inline]
    fn next(&mut self) -> Result<Option<Wanted>, Error> {
        let options = &self.options;
        if options.limit.is_some_and(|l| self.records >= l) {
            return Ok(None);
        }
        // Field by field: the host is slow to copy in one go what was just written in parts.
        let Some(Record {
            addr,
            kind,
            bytes,
            time,
        }) = self.source.next()?
        else {
            return Ok(None);
        };
        let r = Record {
            addr,
            kind,
            bytes,
            time,
        };
        self.records += 1;
        let malformed = |what: String| Error::Malformed {
            name: self.source.name().to_owned(),
            place: self.source.place(),
            what,
        };
        let wanted = match options.mode {
            Mode::Timestamped { .. } => {
                if r.time < self.time_before {
                    return Err(malformed(format!(
                        "the time goes back from {} to {}; the timestamped mode needs times in order",
                        self.time_before, r.time
                    )));
                }
                self.time_before = r.time;
                // Ticks of zero length: everything happens at the beginning.
                Some(self.tick.map_or(0, |t| t.edge(r.time).0))
            }
            Mode::Paced { interval } => (self.records - 1).checked_mul(interval.0),
            _ => Some(0),
        };
        let wanted = wanted.map(Ps).filter(|&t| t <= Ps::MAX_TIME);
        let wanted =
            wanted.ok_or_else(|| malformed("the time is too late for the model".into()))?;
        let placed = lines::place(r, options.base, options.unaligned, &mut self.unaligned);
        Ok(Some((wanted, placed.map_err(malformed)?)))
    }

    /// The requests of an access, one in each line that it touches.
    #[inline]
    fn pieces(&self, access: Record) -> impl Iterator<Item = Record> {
        let modulus = self.options.wrap.then_some(self.capacity);
        lines::pieces(access).map(move |mut piece| {
            if let Some(m) = modulus {
                piece.addr %= m;
            }
            piece
        })
    }
}

struct Driver<'m> {
    model: &'m mut dyn MemoryModel,
    options: Options,
    arrivals: Arrivals,
    last: Ps,
    pending: VecDeque<Pending>,
    /// Id of the front of `pending`.
    front: u64,
    /// Submitted requests whose completion is not known.
    open: u64,
    /// Ends that are known but may be in the future; only kept if there is a limit.
    ends: BinaryHeap<Reverse<Ps>>,
    /// End of the request determined last.
    end: Ps,
    done: Vec<Completion>,
    since_drain: usize,
    read: Latencies,
    write: Latencies,
    series: Series,
    total: Totals,
}

/// What is known of requests before they are played.
struct Totals {
    requests: u64,
    bytes: [u64; 2],
    map: WriteMap,
}

impl Totals {
    #[inline]
    fn count(&mut self, r: &Record) {
        self.bytes[usize::from(r.kind == Kind::Write)] += u64::from(r.bytes);
        if r.kind == Kind::Write {
            self.map.add(r.addr, r.bytes);
        }
        self.requests += 1;
    }
}

/// Called regularly with the model and the number of requests so far: for progress, and to take the
/// logged commands. Returns false to end the run.
pub type Watch<'w> = &'w mut dyn FnMut(&mut dyn MemoryModel, u64) -> Result<bool, Error>;

/// Plays `source` into `model`, which must be at its beginning, until all requests are complete and
/// all written data is in the device. `watch` is called once more at the end. If it returns false,
/// the run ends with [`Error::Interrupted`].
pub fn run(
    model: &mut dyn MemoryModel,
    source: &mut dyn Source,
    options: Options,
    watch: Watch<'_>,
) -> Result<Outcome, Error> {
    check(&options, source)?;
    let mut d = Driver::new(model, options);
    let mut requests = Requests::new(source, options, d.model);
    if options.threads > 1 {
        lanes::play(&mut d, &mut requests, watch)?;
    } else {
        let mut reported = 0;
        while let Some((wanted, access)) = requests.next()? {
            for piece in requests.pieces(access) {
                d.submit(wanted, &piece, requests.source)?;
            }
            if d.total.requests - reported >= PROGRESS_EVERY {
                reported = d.total.requests;
                if !watch(d.model, reported)? {
                    return Err(Error::Interrupted);
                }
            }
        }
    }
    let written = d.finish(requests.source)?;
    if !watch(d.model, d.total.requests)? {
        return Err(Error::Interrupted);
    }
    let from = d.arrivals.first.unwrap_or(Ps::ZERO);
    let answered = d.last.max(from);
    let to = answered.max(written);
    Ok(Outcome {
        records: requests.records,
        skipped: requests.source.skipped(),
        unaligned: requests.unaligned,
        requests: d.total.requests,
        reads: d.read.count(),
        writes: d.write.count(),
        read_bytes: d.total.bytes[0],
        write_bytes: d.total.bytes[1],
        from,
        answered,
        to,
        clock: d.arrivals.clock,
        cycles: d.arrivals.clock.edge_from(to - from),
        delayed: d.arrivals.delayed,
        longest_delay: d.arrivals.longest_delay,
        read_latency: d.read.summary(),
        write_latency: d.write.summary(),
        bandwidth: d.series.points(to),
        write_map: d.total.map,
    })
}

fn check(o: &Options, source: &dyn Source) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::Option(text.into()));
    if o.outstanding == Some(0) {
        return wrong("0 requests under way: at least 1 is needed");
    }
    if o.threads == 0 {
        return wrong("0 threads: at least 1 is needed");
    }
    if o.threads > 1 {
        let waits = "several threads: each request would have to wait for";
        if let Mode::Dependent { .. } = o.mode {
            return wrong(&format!(
                "{waits} the one before, and nothing is left to be done at the same time; the \
                dependent mode takes one"
            ));
        }
        if o.outstanding.is_some() {
            return wrong(&format!(
                "{waits} completions of all channels; a limit of the requests under way takes one"
            ));
        }
    }
    match o.mode {
        Mode::Saturated { per_clock: 0 } => wrong("0 requests a clock: at least 1 is needed"),
        Mode::Paced { interval: Ps(0) } => {
            wrong("an interval of 0: take the saturated mode for as many as possible")
        }
        Mode::Timestamped { cycle: Some(Ps(0)) } => wrong("a cycle of 0 ps"),
        Mode::Timestamped { .. } if source.times() == Times::None => Err(Error::Format {
            name: source.name().to_owned(),
            what: "the timestamped mode needs a trace with times".into(),
        }),
        _ => Ok(()),
    }
}

impl<'m> Driver<'m> {
    fn new(model: &'m mut dyn MemoryModel, options: Options) -> Driver<'m> {
        Driver {
            arrivals: Arrivals::new(options.mode, model.clock()),
            total: Totals {
                requests: 0,
                bytes: [0; 2],
                map: WriteMap::new(model.capacity()),
            },
            model,
            options,
            last: Ps::ZERO,
            pending: VecDeque::new(),
            front: 0,
            open: 0,
            ends: BinaryHeap::new(),
            end: Ps::ZERO,
            done: Vec::new(),
            since_drain: 0,
            read: Latencies::default(),
            write: Latencies::default(),
            series: Series::new(Ps::ZERO),
        }
    }

    fn submit(&mut self, wanted: Ps, r: &Record, source: &dyn Source) -> Result<(), Error> {
        let at = self.earliest(wanted, source)?;
        let request = Request {
            id: self.total.requests,
            addr: r.addr,
            kind: r.kind,
            bytes: r.bytes,
        };
        let at = match self.model.submit_waiting(at, request) {
            Ok(accepted) => accepted,
            Err(e) => return Err(model_error(e, source)),
        };
        if self.arrivals.first.is_none() {
            self.series = Series::new(at);
        }
        self.arrivals.accept(wanted, at);
        self.total.count(r);
        let counts_from = self.options.mode.counts_from(wanted, at);
        self.pending.push_back((counts_from, r.bytes));
        self.open += 1;
        self.since_drain += 1;
        if self.since_drain >= DRAIN_EVERY {
            self.collect(source)?;
        }
        Ok(())
    }

    /// When the next request can be tried.
    fn earliest(&mut self, wanted: Ps, source: &dyn Source) -> Result<Ps, Error> {
        if let Mode::Dependent { .. } = self.options.mode {
            self.wait_below(1, source)?;
        }
        let mut at = self.arrivals.earliest(wanted, self.end);
        if let Some(n) = self.options.outstanding {
            while self.ends.peek().is_some_and(|e| e.0 <= at) {
                self.ends.pop();
            }
            at = at.max(self.wait_below(n.into(), source)?);
        }
        Ok(at)
    }

    /// Waits until fewer than `n` requests are outstanding; returns that time.
    fn wait_below(&mut self, n: u64, source: &dyn Source) -> Result<Ps, Error> {
        let mut at = Ps::ZERO;
        self.collect(source)?;
        while self.open + self.ends.len() as u64 >= n {
            let event = match self.open {
                0 => None,
                _ => self.model.next_event(),
            };
            match (self.ends.peek(), event) {
                (Some(&Reverse(end)), e) if e.is_none_or(|e| end < e) => {
                    at = end;
                    self.ends.pop();
                }
                (_, Some(e)) => self.advance(e, source)?,
                (_, None) => return Err(self.lost()),
            }
        }
        Ok(at)
    }

    fn advance(&mut self, to: Ps, source: &dyn Source) -> Result<(), Error> {
        self.model
            .advance_to(to)
            .map_err(|e| model_error(e, source))?;
        self.collect(source)
    }

    fn lost(&self) -> Error {
        Error::Option(format!(
            "the memory model has nothing left to do, but {} requests are not complete (an error of the model)",
            self.open
        ))
    }

    /// Accounts for completions.
    fn collect(&mut self, source: &dyn Source) -> Result<(), Error> {
        self.since_drain = 0;
        self.model.drain(&mut self.done);
        let keep_ends = self.options.outstanding.is_some()
            || matches!(self.options.mode, Mode::Dependent { .. });
        for c in self.done.drain(..) {
            let i = c.id.wrapping_sub(self.front);
            let slot = usize::try_from(i)
                .ok()
                .and_then(|i| self.pending.get_mut(i));
            let Some((from, bytes)) = slot.filter(|s| s.1 > 0) else {
                return Err(unknown_completion(c.id, source));
            };
            let latency = c.done_at.saturating_sub(*from);
            let write = c.kind == Kind::Write;
            if write {
                self.write.add(latency)
            } else {
                self.read.add(latency)
            }
            self.series.add(c.done_at, write, *bytes);
            *bytes = 0;
            self.end = c.done_at;
            self.last = self.last.max(c.done_at);
            self.open -= 1;
            if keep_ends {
                self.ends.push(Reverse(c.done_at));
            }
        }
        while self.pending.front().is_some_and(|p| p.1 == 0) {
            self.pending.pop_front();
            self.front += 1;
        }
        Ok(())
    }

    /// Completes everything; returns the time at which the last write was in the device.
    fn finish(&mut self, source: &dyn Source) -> Result<Ps, Error> {
        self.collect(source)?;
        while self.open > 0 {
            match self.model.next_event() {
                Some(t) => self.advance(t, source)?,
                None => return Err(self.lost()),
            }
        }
        let flushed = self.model.flush(self.arrivals.now);
        let written = flushed.map_err(|e| model_error(e, source))?;
        self.collect(source)?;
        Ok(written)
    }
}

fn unknown_completion(id: u64, source: &dyn Source) -> Error {
    let e = format!("completion of request {id}, which is not under way");
    model_error(nagori_memtime::Error::SavedState(e), source)
}

fn model_error(e: nagori_memtime::Error, source: &dyn Source) -> Error {
    let remedy = match e {
        nagori_memtime::Error::OutOfRange { .. } => {
            "; --base subtracts a base address, --wrap takes addresses modulo the capacity"
        }
        _ => "",
    };
    Error::Model {
        name: source.name().to_owned(),
        place: source.place(),
        source: Box::new(e),
        remedy,
    }
}
