//! One access of a trace, and streams of them.

use nagori_memtime::request::Kind;
use nagori_memtime::Ps;

use crate::error::{Error, Place};

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First byte.
    pub addr: u64,
    /// Direction.
    pub kind: Kind,
    /// Length in bytes, at least 1.
    pub bytes: u32,
    /// Time, in units of [`Source::times`]; 0 if the format has no times.
    pub time: u64,
}

/// Length of an access in formats that do not give one.
pub const LINE: u32 = 64;
/// Longest access.
pub const MAX_BYTES: u32 = 1 << 20;

/// Unit of [`Record::time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The trace has no times.
    None,
    /// Cycles of a clock whose period the trace does not give.
    Cycles,
    /// Ticks of this many picoseconds.
    Ticks(Ps),
}

/// A stream of accesses.
pub trait Source {
    /// The next access; `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, Error>;
    /// Unit of the times.
    fn times(&self) -> Times;
    /// Name for messages.
    fn name(&self) -> &str;
    /// Place of the access that was returned last.
    fn place(&self) -> Place;
    /// Accesses left out because they are neither reads nor writes.
    fn skipped(&self) -> u64 {
        0
    }
}

/// The accesses of a slice, for tests and for callers with their own traces.
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    records: &'a [Record],
    times: Times,
    at: usize,
}

impl<'a> Slice<'a> {
    /// Streams `records`, whose times have the unit `times`.
    pub fn new(records: &'a [Record], times: Times) -> Slice<'a> {
        Slice {
            records,
            times,
            at: 0,
        }
    }
}

impl Source for Slice<'_> {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let r = self.records.get(self.at).copied();
        self.at += usize::from(r.is_some());
        Ok(r)
    }
    fn times(&self) -> Times {
        self.times
    }
    fn name(&self) -> &str {
        "trace"
    }
    fn place(&self) -> Place {
        Place::Record(self.at as u64)
    }
}
