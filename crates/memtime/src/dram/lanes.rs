//! The channels of a controller as units of their own.

use super::channel::{Channel, Rules};
use super::mapping::{Decoder, Place};
use super::params::Scheduler;
use crate::error::Error;
use crate::lanes::{Lane, LaneMap};
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
    r.check(capacity)?;
    if at > Ps::MAX_TIME {
        return Err(Error::TooLate(at));
    }
    Ok(())
}

/// The map of addresses to channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct DramMap<'m> {
    pub(super) decoder: &'m Decoder,
}

impl LaneMap for DramMap<'_> {
    fn check(&self, at: Ps, r: &Request) -> Result<(), Error> {
        check(self.decoder.capacity(), at, r)
    }

    fn lane(&self, addr: u64) -> usize {
        self.decoder.decode(addr).channel as usize
    }
}

/// One channel of a memory.
///
/// Requests are submitted in the order of their arrivals, as to the whole memory. Times of later
/// requests need not be known: [`Lane::advance_to_room`] computes what happens until there is room
/// for the next one.
pub(super) struct DramLane<'m> {
    pub(super) channel: &'m mut Channel,
    pub(super) rules: &'m Rules,
    pub(super) decoder: &'m Decoder,
    pub(super) access: u64,
    pub(super) clock: Period,
}

impl Lane for DramLane<'_> {
    fn bursts(&self, r: &Request) -> u32 {
        let first = r.addr & !(self.access - 1);
        (r.addr + u64::from(r.bytes) - first).div_ceil(self.access) as u32
    }

    fn has_room(&self, kind: Kind, bursts: u32) -> bool {
        self.channel.has_room(kind, bursts)
    }

    fn keeps_room(&self) -> bool {
        self.rules.params.scheduler != Scheduler::Ramulator2
    }

    fn advance_to_room(&mut self, from: Ps, r: &Request) -> u64 {
        let (c, rules) = (&mut *self.channel, self.rules);
        with_bursts(self.decoder, self.access, r, |places| {
            let mut clock = self.clock.edge_from(from).max(c.now);
            c.run(clock, rules);
            while !c.admits(rules, r.kind, places) {
                clock = c.room_clock(rules);
                c.run(clock, rules);
            }
            clock
        })
    }

    fn advance_to(&mut self, t: Ps) {
        self.channel.run(self.clock.edge_from(t), self.rules);
    }

    fn submit(&mut self, at: Ps, r: Request) {
        let (c, rules) = (&mut *self.channel, self.rules);
        c.run(self.clock.edge_from(at), rules);
        with_bursts(self.decoder, self.access, &r, |places| {
            assert!(
                c.is(places[0].0.channel) && c.admits(rules, r.kind, places),
                "a channel is given a request that it cannot take"
            );
            c.push(rules, at, r.id, r.kind, r.bytes, places);
        });
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.channel.done);
    }
}
