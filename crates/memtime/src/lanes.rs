//! The channels of a memory as units of their own, for callers that compute them in several threads.
//!
//! Channels share nothing but the time of arrivals, so a channel's results follow from its requests
//! and their arrivals alone.

use crate::error::Error;
use crate::request::{Completion, Kind, Request};
use crate::units::Ps;

/// All channels of a memory, and the map of addresses to them. Made by
/// [`MemoryModel::lanes`](crate::MemoryModel::lanes).
pub struct Lanes<'m> {
    /// The channels, in order.
    pub lanes: Vec<Box<dyn Lane + 'm>>,
    /// Addresses and their channels.
    pub map: Box<dyn LaneMap + 'm>,
}

/// The map of addresses to channels.
pub trait LaneMap: Sync {
    /// Whether the memory can take a request at `at`; the errors are those of
    /// [`MemoryModel::submit`](crate::MemoryModel::submit).
    fn check(&self, at: Ps, r: &Request) -> Result<(), Error>;

    /// Number of the channel that serves an address, which must be below the capacity.
    fn lane(&self, addr: u64) -> usize;
}

/// One channel of a memory.
///
/// Requests are submitted in the order of their arrivals, as to the whole memory. Times of later
/// requests need not be known: [`Lane::advance_to_room`] computes what happens until there is room
/// for the next one.
pub trait Lane: Send {
    /// Number of bursts that a request touches.
    fn bursts(&self, r: &Request) -> u32;

    /// Whether requests of that kind with `bursts` bursts in all are accepted at any time from now
    /// on, if no others of that kind come before.
    fn has_room(&self, kind: Kind, bursts: u32) -> bool;

    /// Whether a request that would be accepted at some time would also be at any later time, if no
    /// other request comes before. It is not so if a queued write lets a full queue take a read.
    fn keeps_room(&self) -> bool;

    /// Advances to the first clock, from the edge at or after `from` on, in which the request would
    /// be accepted, and returns its number. No other request may be submitted before this one.
    fn advance_to_room(&mut self, from: Ps, r: &Request) -> u64;

    /// Processes everything before `t`. No request may arrive before it.
    fn advance_to(&mut self, t: Ps);

    /// Submits a request that arrives at `at`, at which there must be room for it. It must have
    /// passed [`LaneMap::check`] and belong to this channel.
    ///
    /// # Panics
    /// If there is no room, or the address is that of another channel.
    fn submit(&mut self, at: Ps, r: Request);

    /// Moves the completions found so far to the end of `into`.
    fn drain(&mut self, into: &mut Vec<Completion>);
}
