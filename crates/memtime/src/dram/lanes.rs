//! The channels of a controller as units of their own, for callers that compute them in several
//! threads.
//!
//! Channels share nothing but the time of arrivals, so a channel's results follow from its requests
//! and their arrivals alone.

use super::channel::{Channel, Rules};
use super::mapping::{Decoder, Place};
use super::params::Scheduler;
use crate::error::Error;
use crate::period::Period;
use crate::request::{Completion, Kind, Request};
use crate::units::Ps;

/// Bursts of a request, with the bytes in each, at most.
const BURSTS: usize = 8;

/// Calls `f` with the bursts that the bytes of a request touch, and a mask of bytes in each.
#[inline]
pub(super) fn with_bursts<T>(
    decoder: &Decoder,
    access: u64,
    r: &Request,
    f: impl FnOnce(&[(Place, u64)]) -> T,
) -> T {
    let first = r.addr & !(access - 1);
    let end = r.addr + u64::from(r.bytes);
    let place = |start: u64| {
        let from = r.addr.max(start) - start;
        let to = end.min(start + access) - start;
        let mask = (u64::MAX >> (64 - (to - from))) << from;
        (decoder.decode(start), mask)
    };
    if end <= first + access {
        return f(&[place(first)]);
    }
    let mut places = [(Place::default(), 0u64); BURSTS];
    let n = (end - first).div_ceil(access) as usize;
    for (i, p) in (0..).zip(&mut places[..n]) {
        *p = place(first + i * access);
    }
    f(&places[..n])
}

/// Whether a memory of `capacity` bytes can take a request at `at`.
pub(super) fn check(capacity: u64, at: Ps, r: &Request) -> Result<(), Error> {
    let (addr, bytes) = (r.addr, r.bytes);
    if bytes == 0 || bytes > 64 || addr % 64 + u64::from(bytes) > 64 {
        return Err(Error::Size { addr, bytes });
    }
    if addr >= capacity {
        return Err(Error::OutOfRange {
            addr,
            bytes,
            capacity,
        });
    }
    if at > Ps::MAX_TIME {
        return Err(Error::TooLate(at));
    }
    Ok(())
}

/// All channels of a memory, and the map of addresses to them. Made by
/// [`MemoryModel::lanes`](crate::MemoryModel::lanes).
pub struct Lanes<'m> {
    /// The channels, in order.
    pub lanes: Vec<Lane<'m>>,
    /// Addresses and their channels.
    pub map: LaneMap<'m>,
}

/// The map of addresses to channels.
#[derive(Clone, Copy, Debug)]
pub struct LaneMap<'m> {
    pub(super) decoder: &'m Decoder,
}

impl LaneMap<'_> {
    /// Whether the memory can take a request at `at`; the errors are those of
    /// [`MemoryModel::submit`](crate::MemoryModel::submit).
    pub fn check(&self, at: Ps, r: &Request) -> Result<(), Error> {
        check(self.decoder.capacity(), at, r)
    }

    /// Number of the channel that serves an address, which must be below the capacity.
    pub fn lane(&self, addr: u64) -> usize {
        self.decoder.decode(addr).channel as usize
    }
}

/// One channel of a memory.
///
/// Requests are submitted in the order of their arrivals, as to the whole memory. Times of later
/// requests need not be known: [`Lane::advance_to_room`] computes what happens until there is room
/// for the next one.
pub struct Lane<'m> {
    pub(super) channel: &'m mut Channel,
    pub(super) rules: &'m Rules,
    pub(super) decoder: &'m Decoder,
    pub(super) access: u64,
    pub(super) clock: Period,
}

impl Lane<'_> {
    /// Number of bursts that a request touches.
    pub fn bursts(&self, r: &Request) -> u32 {
        let first = r.addr & !(self.access - 1);
        (r.addr + u64::from(r.bytes) - first).div_ceil(self.access) as u32
    }

    /// Whether requests of that kind with `bursts` bursts in all are accepted at any time from now
    /// on, if no others of that kind come before.
    pub fn has_room(&self, kind: Kind, bursts: u32) -> bool {
        self.channel.has_room(kind, bursts)
    }

    /// Whether a request that would be accepted at some time would also be at any later time, if no
    /// other request comes before. It is not so if a queued write lets a full queue take a read.
    pub fn keeps_room(&self) -> bool {
        self.rules.params.scheduler != Scheduler::Ramulator2
    }

    /// Advances to the first clock, from the edge at or after `from` on, in which the request would
    /// be accepted, and returns its number. No other request may be submitted before this one.
    pub fn advance_to_room(&mut self, from: Ps, r: &Request) -> u64 {
        let (c, rules) = (&mut *self.channel, self.rules);
        with_bursts(self.decoder, self.access, r, |places| {
            let mut clock = from.clocks_ceil(self.clock).max(c.now);
            c.run(clock, rules);
            while !c.admits(rules, r.kind, places) {
                clock = c.room_clock(rules);
                c.run(clock, rules);
            }
            clock
        })
    }

    /// Processes everything before `t`. No request may arrive before it.
    pub fn advance_to(&mut self, t: Ps) {
        self.channel.run(t.clocks_ceil(self.clock), self.rules);
    }

    /// Submits a request that arrives at `at`, at which there must be room for it. It must have
    /// passed [`LaneMap::check`] and belong to this channel.
    ///
    /// # Panics
    /// If there is no room, or the address is that of another channel.
    pub fn submit(&mut self, at: Ps, r: Request) {
        let (c, rules) = (&mut *self.channel, self.rules);
        c.run(at.clocks_ceil(self.clock), rules);
        with_bursts(self.decoder, self.access, &r, |places| {
            assert!(
                c.is(places[0].0.channel) && c.admits(rules, r.kind, places),
                "a channel is given a request that it cannot take"
            );
            c.push(rules, at, r.id, r.kind, r.bytes, places);
        });
    }

    /// Moves the completions found so far to the end of `into`.
    pub fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.channel.done);
    }
}
