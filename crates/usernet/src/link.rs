//! What a guest's network interface is connected to.

use crate::Error;
use mio::{Events, Poll};
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Longest frame in bytes: an Ethernet header and the longest IPv4 packet.
pub const MAX_FRAME: usize = 14 + 65535;

/// A checksum that its sender left to others. What is there is the sum of the pseudo header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// First byte that is summed, counted from the frame's start.
    pub start: u16,
    /// Where the result goes, counted from `start`.
    pub offset: u16,
}

/// What is left to be done before a frame can go over a real network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// A checksum is missing.
    pub checksum: Option<Partial>,
    /// TCP over IPv4 whose payload is to be cut into segments of so many bytes.
    pub segment: Option<NonZeroU16>,
    /// Checksums are known to be right: nobody needs to look.
    pub valid: bool,
}

/// An Ethernet frame, without its frame check sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// From the destination's address on.
    pub bytes: Vec<u8>,
    /// What has to be done to it.
    pub offload: Offload,
}

impl Frame {
    /// A frame with nothing left to do.
    pub fn plain(bytes: Vec<u8>) -> Frame {
        Frame {
            bytes,
            offload: Offload::default(),
        }
    }
}

/// What is known about the guest's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guest {
    /// Its address.
    pub mac: [u8; 6],
    /// Whether a driver is at work.
    pub running: bool,
    /// Whether it takes TCP over IPv4 larger than a frame, to be cut by nobody.
    pub segments: bool,
}

/// The other end of the cable at a guest's network interface.
///
/// `now` is the guest's time since its start; it never goes back.
pub trait Link: Send {
    /// Short name, for messages.
    fn name(&self) -> &'static str;

    /// Whether somebody is at the other end.
    fn is_up(&self) -> bool;

    /// Whether there is room for another frame of the guest. If not, frames should wait
    /// where they are; those that are sent all the same may be dropped.
    fn is_ready(&self) -> bool;

    /// Takes a frame from the guest. Anything that is not a frame is dropped.
    fn send(&mut self, now: Duration, frame: Frame);

    /// Does what frames, sockets known to be ready and time ask for. Does not look at the host.
    fn run(&mut self, now: Duration);

    /// Asks the host which sockets are ready, then does what `run` does.
    fn poll(&mut self, now: Duration) -> Result<(), Error>;

    /// The next frame for the guest.
    fn receive(&mut self) -> Option<Frame>;

    /// When `run` has something to do by the guest's time alone.
    fn next_time(&mut self, now: Duration) -> Option<Duration>;

    /// Readable when `poll` has something to do.
    fn wait_fd(&self) -> BorrowedFd<'_>;

    /// Whether something may come from outside, so that an idle guest's time should pass no
    /// faster than the host's.
    fn is_live(&self, now: Duration) -> bool;

    /// Tells what is known about the guest's interface, at first and when it changes.
    fn set_guest(&mut self, guest: Guest);

    /// The guest was switched off and on.
    fn reset(&mut self);
}

/// Asks the host, without waiting, which sockets are ready.
pub(crate) fn look(poll: &mut Poll, events: &mut Events) -> Result<(), Error> {
    loop {
        match poll.poll(events, Some(Duration::ZERO)) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Watch(e)),
        }
    }
}
