//! The drive with the channels in several threads, with the results of one thread.
//!
//! A channel's results follow from its requests and the times at which they were accepted. Requests
//! are accepted in the order of the trace, so one that waits for room in its channel holds up those
//! of all channels. For each request
//!
//! 1. the thread of its channel finds out **when there is room** for it, and tells the others. It can do
//!    so before the time of the request is known: nothing else arrives there before, so the channel
//!    is advanced until it has room. While a queue has more room than earlier requests
//!    need, the answer is known at once;
//! 2. every thread computes the **time** at which it is accepted, which follows from the request before
//!    it and from this room. All threads do the same, so that nothing but the room passes
//!    between them;
//! 3. the thread of its channel advances the channel to this time, and gives it the request.
//!
//! No step depends on which thread is faster, so neither do the results.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nagori_memtime::lanes::{Lane, LaneMap, Lanes};
use nagori_memtime::request::{Completion, Kind, Request};
use nagori_memtime::Ps;

use super::{
    model_error, unknown_completion, Arrivals, Driver, Mode, Requests, Totals, Watch, DRAIN_EVERY,
    PROGRESS_EVERY,
};
use crate::error::Error;
use crate::measure::{Latencies, Series};
use crate::record::Record;

/// Number of looks at another thread's answer before a processor is offered to others, if there are
/// processors for all threads.
const SPINS: u32 = 300;

/// A request of the window.
struct Item {
    wanted: Ps,
    id: u64,
    record: Record,
}

/// What the thread of a channel tells the others of a request. 0: nothing yet; 1: there is room for
/// it at any time. Otherwise the number of the clock from which on there is, plus 2.
type Room = AtomicU64;

/// The requests that are computed together.
#[derive(Default)]
struct Window {
    /// By channel.
    items: Vec<Vec<Item>>,
    rooms: Vec<Vec<Room>>,
    /// Channel and number in it, in the order of the trace.
    order: Vec<(u32, u32)>,
}

impl Window {
    fn clear(&mut self, channels: usize) {
        self.items.resize_with(channels, Vec::new);
        self.rooms.resize_with(channels, Vec::new);
        self.items.iter_mut().for_each(Vec::clear);
        self.rooms.iter_mut().for_each(Vec::clear);
        self.order.clear();
    }

    fn push(&mut self, channel: usize, item: Item) {
        let number = self.items[channel].len() as u32;
        self.order.push((channel as u32, number));
        self.items[channel].push(item);
        self.rooms[channel].push(Room::new(0));
    }
}

/// What is measured of a channel's requests.
struct Side {
    /// Id, beginning of its latency and bytes of each request under way, by id.
    pending: VecDeque<(u64, Ps, u32)>,
    done: Vec<Completion>,
    read: Latencies,
    write: Latencies,
    series: Series,
    last: Ps,
    /// Id of a completion without a request.
    unknown: Option<u64>,
}

impl Side {
    /// `first`: when the first request of the trace is accepted.
    fn new(first: Ps) -> Side {
        Side {
            pending: VecDeque::new(),
            done: Vec::new(),
            read: Latencies::default(),
            write: Latencies::default(),
            series: Series::new(first),
            last: Ps::ZERO,
            unknown: None,
        }
    }

    fn collect(&mut self, lane: &mut dyn Lane) {
        lane.drain(&mut self.done);
        for c in self.done.drain(..) {
            let found = self.pending.binary_search_by_key(&c.id, |p| p.0);
            let slot = found.ok().and_then(|i| self.pending.get_mut(i));
            let Some((_, from, bytes)) = slot.filter(|s| s.2 > 0) else {
                self.unknown = Some(c.id);
                continue;
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
            self.last = self.last.max(c.done_at);
        }
        while self.pending.front().is_some_and(|p| p.2 == 0) {
            self.pending.pop_front();
        }
    }
}

/// A channel in a window.
struct Runner<'m, 'w> {
    lane: Box<dyn Lane + 'm>,
    side: &'w mut Side,
    items: &'w [Item],
    rooms: &'w [Room],
    /// Numbers of the next request to be taken, and of the next one without known room.
    next: usize,
    known: usize,
    /// By kind: bursts of the requests between them.
    promised: [u32; 2],
    since_drain: usize,
}

impl Runner<'_, '_> {
    fn request(&self, i: usize) -> Request {
        let Item { id, record: r, .. } = &self.items[i];
        Request {
            id: *id,
            addr: r.addr,
            kind: r.kind,
            bytes: r.bytes,
        }
    }

    fn tell(&mut self, r: &Request, bursts: u32, room: u64) {
        self.rooms[self.known].store(room, Ordering::Release);
        self.promised[r.kind as usize] += bursts;
        self.known += 1;
    }

    /// Finds out as much as can be known before the time of the next request is.
    fn look_ahead(&mut self) {
        while self.known < self.items.len() {
            let r = self.request(self.known);
            let n = self.lane.bursts(&r);
            if self
                .lane
                .has_room(r.kind, self.promised[r.kind as usize] + n)
            {
                self.tell(&r, n, 1);
            } else if self.known == self.next && self.lane.keeps_room() {
                let clock = self.lane.advance_to_room(Ps::ZERO, &r);
                self.tell(&r, n, clock + 2);
            } else {
                return;
            }
        }
    }

    /// Computes what happens before `t`, before which no request arrives.
    fn advance_to(&mut self, t: Ps) {
        if self.next < self.items.len() {
            self.lane.advance_to(t);
            self.look_ahead();
        }
    }

    /// When there is room for the next request, which is tried at `tried`.
    fn room(&mut self, tried: Ps) -> u64 {
        if self.known == self.next {
            let r = self.request(self.known);
            let clock = self.lane.advance_to_room(tried, &r);
            self.tell(&r, self.lane.bursts(&r), clock + 2);
        }
        self.rooms[self.next].load(Ordering::Relaxed)
    }

    /// Gives the next request to the channel, at `at`.
    fn take(&mut self, at: Ps, mode: Mode) {
        let r = self.request(self.next);
        let wanted = self.items[self.next].wanted;
        self.lane.submit(at, r);
        self.promised[r.kind as usize] -= self.lane.bursts(&r);
        let from = mode.counts_from(wanted, at);
        self.side.pending.push_back((r.id, from, r.bytes));
        self.next += 1;
        self.since_drain += 1;
        self.look_ahead();
        if self.since_drain >= DRAIN_EVERY || self.next == self.items.len() {
            self.since_drain = 0;
            self.side.collect(&mut *self.lane);
        }
    }
}

/// Tells the other threads if one panics, which would otherwise wait for it without end.
struct Guard<'s>(&'s AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Computes some channels of a window; `runners` has them in their places. Returns the state of the
/// arrivals after it.
fn work(
    mut runners: Vec<Option<Runner<'_, '_>>>,
    window: &Window,
    mut arrivals: Arrivals,
    stop: &AtomicBool,
    spins: u32,
) -> Result<Arrivals, nagori_memtime::Error> {
    let _guard = Guard(stop);
    runners.iter_mut().flatten().for_each(Runner::look_ahead);
    for &(channel, i) in &window.order {
        let (channel, i) = (channel as usize, i as usize);
        let wanted = window.items[channel][i].wanted;
        let tried = arrivals.earliest(wanted, Ps::ZERO);
        let room = match &mut runners[channel] {
            Some(r) => r.room(tried),
            None => {
                let room = &window.rooms[channel][i];
                if room.load(Ordering::Acquire) == 0 {
                    // Nothing arrives before this request, so there is work until then.
                    for r in runners.iter_mut().flatten() {
                        r.advance_to(tried);
                    }
                }
                match wait(room, stop, spins) {
                    Some(room) => room,
                    None => return Ok(arrivals),
                }
            }
        };
        let mut at = tried;
        if room > 1 && room - 2 > arrivals.clock.edge_from(tried) {
            at = arrivals.clock.edge(room - 2);
        }
        if at > Ps::MAX_TIME {
            return Err(nagori_memtime::Error::TooLate(at));
        }
        arrivals.accept(wanted, at);
        if let Some(r) = &mut runners[channel] {
            r.take(at, arrivals.mode);
        }
    }
    Ok(arrivals)
}

/// Waits until another thread has found out; `None` if there is none any more.
fn wait(room: &Room, stop: &AtomicBool, spins: u32) -> Option<u64> {
    let mut looks = 0;
    loop {
        match room.load(Ordering::Acquire) {
            0 => {}
            room => return Some(room),
        }
        if looks < spins {
            looks += 1;
            std::hint::spin_loop();
        } else if stop.load(Ordering::Acquire) {
            return None;
        } else {
            std::thread::yield_now();
        }
    }
}

/// Reads up to a window of requests.
fn fill(
    window: &mut Window,
    total: &mut Totals,
    requests: &mut Requests<'_>,
    map: &dyn LaneMap,
) -> Result<(), Error> {
    while (window.order.len() as u64) < PROGRESS_EVERY {
        let Some((wanted, access)) = requests.next()? else {
            break;
        };
        for record in requests.pieces(access) {
            let id = total.requests;
            let r = Request {
                id,
                addr: record.addr,
                kind: record.kind,
                bytes: record.bytes,
            };
            map.check(wanted, &r)
                .map_err(|e| model_error(e, requests.source))?;
            total.count(&record);
            let item = Item { wanted, id, record };
            window.push(map.lane(record.addr), item);
        }
    }
    Ok(())
}

/// Plays all requests; those under way at the end are left to the driver.
pub(super) fn play(
    d: &mut Driver<'_>,
    requests: &mut Requests<'_>,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let mut window = Window::default();
    let mut sides: Vec<Side> = Vec::new();
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    loop {
        let Some(Lanes { lanes, map }) = d.model.lanes() else {
            return Err(Error::Option(
                "several threads: this memory takes one, since they compute channels of a \
                controller of devices (ddr4, lpddr4, pcm, ...) without layers around it"
                    .into(),
            ));
        };
        window.clear(lanes.len());
        fill(&mut window, &mut d.total, requests, &*map)?;
        drop(map);
        let Some(&(channel, _)) = window.order.first() else {
            break;
        };
        // The memory is empty at first, so the first request need not wait.
        let wanted = window.items[channel as usize][0].wanted;
        let first = d.arrivals.first;
        let first = first.unwrap_or_else(|| d.arrivals.earliest(wanted, Ps::ZERO));
        sides.resize_with(lanes.len(), || Side::new(first));
        let threads = (d.options.threads as usize).min(lanes.len());
        let mut shares: Vec<Vec<Option<Runner>>> = Vec::new();
        shares.resize_with(threads, || lanes.iter().map(|_| None).collect());
        for (i, (lane, side)) in lanes.into_iter().zip(&mut sides).enumerate() {
            shares[i % threads][i] = Some(Runner {
                lane,
                side,
                items: &window.items[i],
                rooms: &window.rooms[i],
                next: 0,
                known: 0,
                promised: [0; 2],
                since_drain: 0,
            });
        }
        let spins = if threads <= processors { SPINS } else { 0 };
        let own = shares.pop().unwrap_or_default();
        let (arrivals, stop) = (d.arrivals, AtomicBool::new(false));
        let ended = std::thread::scope(|s| {
            let (window, stop) = (&window, &stop);
            for share in shares {
                s.spawn(move || work(share, window, arrivals, stop, spins));
            }
            work(own, window, arrivals, stop, spins)
        });
        d.arrivals = ended.map_err(|e| model_error(e, requests.source))?;
        if let Some(id) = sides.iter().find_map(|s| s.unknown) {
            return Err(unknown_completion(id, requests.source));
        }
        let now = d.arrivals.now;
        d.model
            .advance_to(now)
            .map_err(|e| model_error(e, requests.source))?;
        if !watch(d.model, d.total.requests)? {
            return Err(Error::Interrupted);
        }
    }
    join(d, sides);
    Ok(())
}

/// Gives the driver what was measured of all channels, and the requests that are under way.
fn join(d: &mut Driver<'_>, sides: Vec<Side>) {
    let mut pending = Vec::new();
    for (i, side) in sides.into_iter().enumerate() {
        d.read.merge(&side.read);
        d.write.merge(&side.write);
        d.last = d.last.max(side.last);
        match i {
            0 => d.series = side.series,
            _ => d.series.merge(side.series),
        }
        pending.extend(side.pending.into_iter().filter(|p| p.2 > 0));
    }
    pending.sort_unstable_by_key(|p| p.0);
    d.open = pending.len() as u64;
    d.front = pending.first().map_or(d.total.requests, |p| p.0);
    // Requests that are complete have 0 bytes.
    let under_way = d.total.requests - d.front;
    d.pending = (0..under_way).map(|_| (Ps::ZERO, 0)).collect();
    for (id, from, bytes) in pending {
        d.pending[(id - d.front) as usize] = (from, bytes);
    }
}
