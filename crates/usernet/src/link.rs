//! The connection of a guest's network interface.

use crate::Error;
use mio::{Events, Poll};
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Longest frame in bytes: an Ethernet header and the longest IPv4 packet.
pub const MAX_FRAME: usize = 14 + 65535;

/// A checksum that the sender left to its hardware. Its place contains the sum of the pseudo
/// header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// First byte that is summed, counted from the frame's start.
    pub start: u16,
    /// Where the result goes, counted from `start`.
    pub offset: u16,
}

/// What remains to be done before a frame can be sent over a real network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// A checksum is missing.
    pub checksum: Option<Partial>,
    /// TCP over IPv4 whose payload is to be cut into segments of so many bytes.
    pub segment: Option<NonZeroU16>,
    /// Checksums are known to be right and need not be verified.
    pub valid: bool,
}

/// An Ethernet frame, without its frame check sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// From the destination address on.
    pub bytes: Vec<u8>,
    /// What remains to be done with it.
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

/// The state and capabilities of the guest's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guest {
    /// Its address.
    pub mac: [u8; 6],
    /// Whether a driver is active.
    pub running: bool,
    /// Whether it accepts TCP over IPv4 larger than a frame, without segmentation.
    pub segments: bool,
}

/// The other end of the cable at a guest's network interface.
///
/// `now` is guest time since the start; it never goes back.
pub trait Link: Send {
    /// Short name, for messages.
    fn name(&self) -> &'static str;

    /// Whether there is somebody at the other end.
    fn is_up(&self) -> bool;

    /// Whether there is room for another frame from the guest. If not, frames should wait where
    /// they are; those that are sent anyway may be dropped.
    fn is_ready(&self) -> bool;

    /// Takes a frame from the guest. Anything that is not a frame is dropped.
    fn send(&mut self, now: Duration, frame: Frame);

    /// Does the work that frames, sockets known to be ready and time require. Does not poll the
    /// host.
    fn run(&mut self, now: Duration);

    /// Polls the host for ready sockets, then does what `run` does.
    fn poll(&mut self, now: Duration) -> Result<(), Error>;

    /// The next frame for the guest.
    fn receive(&mut self) -> Option<Frame>;

    /// When `run` will have work to do because of guest time alone.
    fn next_time(&mut self, now: Duration) -> Option<Duration>;

    /// Readable when `poll` has something to do.
    fn wait_fd(&self) -> BorrowedFd<'_>;

    /// Whether something may arrive from outside, so that an idle guest's time should pass no
    /// faster than the host's.
    fn is_live(&self, now: Duration) -> bool;

    /// Reports the state of the guest's interface, initially and when it changes.
    fn set_guest(&mut self, guest: Guest);

    /// The guest was switched off and on.
    fn reset(&mut self);
}

/// Polls the host, without waiting, for ready sockets.
pub(crate) fn look(poll: &mut Poll, events: &mut Events) -> Result<(), Error> {
    loop {
        match poll.poll(events, Some(Duration::ZERO)) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Watch(e)),
        }
    }
}
