//! Requests to a memory controller and what comes back.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::units::Ps;

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// From memory: complete with its first data beat.
    Read,
    /// To memory, posted: complete with its response.
    Write,
}

/// One request at a controller's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller; comes back with the completion.
    pub id: u64,
    /// Byte offset from the start of the memory.
    pub addr: u64,
    /// Direction.
    pub kind: Kind,
    /// Length, 1 to 64 bytes inside one 64-byte line.
    pub bytes: u32,
}

impl Request {
    /// An error unless a memory of `capacity` bytes can have such a request.
    pub(crate) fn check(&self, capacity: u64) -> Result<(), Error> {
        let (addr, bytes) = (self.addr, self.bytes);
        if bytes == 0 || bytes > 64 || addr % 64 + u64::from(bytes) > 64 {
            return Err(Error::Size { addr, bytes });
        }
        if addr >= capacity || capacity - addr < u64::from(bytes) {
            return Err(Error::OutOfRange {
                addr,
                bytes,
                capacity,
            });
        }
        Ok(())
    }
}

/// Answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submit {
    /// The request stands at the port and will complete.
    Accepted,
    /// The port's queue for this direction is full at least until this time: submit the request
    /// again then. It was not accepted. (The bank-machine controller has room at this time if
    /// nothing else is submitted before.)
    Busy(Ps),
}

/// A finished request. It is reported as soon as its end is known, which for a read is up to the
/// data latency before `done_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// Direction.
    pub kind: Kind,
    /// When the controller took the command from the port.
    pub accepted_at: Ps,
    /// First data beat of a read, response of a write.
    pub done_at: Ps,
    /// The row was already open for it: it needed no activation of its own.
    pub row_hit: bool,
}
