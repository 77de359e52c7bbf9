//! Checks of states that are read.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Counters, Latency, LATENCY_BUCKETS};
use crate::request::{Completion, Kind, Request};
use crate::saved::bad;
use crate::stats::Change;
use crate::units::Ps;

/// Greatest value of any count: no sum or product in a report overflows.
pub(crate) const MOST: u64 = 1 << 48;

/// Latest time in a state: the times that a model plans may be a little later than the last time
/// that it accepts.
const FAR: Ps = Ps(Ps::MAX_TIME.0 + (1 << 56));

/// An error that names the part, unless the condition holds.
pub(crate) fn ensure(right: bool, part: &str) -> Result<(), Error> {
    if right {
        Ok(())
    } else {
        Err(bad(format!("impossible state ({part})")))
    }
}

pub(crate) fn version(found: u32, known: u32, kind: &str) -> Result<(), Error> {
    if found == known {
        Ok(())
    } else {
        Err(bad(format!(
            "version {found} of a {kind}, this program reads version {known}"
        )))
    }
}

/// The latest time given to a model, and the start of its statistics.
pub(crate) fn now(latest: Ps, from: Ps) -> Result<(), Error> {
    ensure(latest <= Ps::MAX_TIME && from <= latest, "time")
}

/// Checks times that may be in the future.
pub(crate) fn times(all: impl IntoIterator<Item = Ps>, part: &str) -> Result<(), Error> {
    ensure(all.into_iter().all(|t| t <= FAR), part)
}

/// Latest clock in a state, for a clock of that period.
pub(crate) fn far_clock(period: crate::Period) -> u64 {
    period.edge_from(FAR)
}

pub(crate) fn counts(all: impl IntoIterator<Item = u64>) -> Result<(), Error> {
    ensure(all.into_iter().all(|n| n <= MOST), "counters")
}

pub(crate) fn counters(c: &Counters) -> Result<(), Error> {
    let Counters {
        reads,
        writes,
        read_bytes,
        write_bytes,
        row_hits,
        row_misses,
        row_conflicts,
        activations,
        activations_unused,
        precharges_clean,
        precharges_dirty,
        refreshes,
        forwarded_reads,
        merged_reads,
        merged_writes,
        write_pauses,
        write_paused,
    } = *c;
    counts([
        reads,
        writes,
        read_bytes,
        write_bytes,
        row_hits,
        row_misses,
        row_conflicts,
        activations,
        activations_unused,
        precharges_clean,
        precharges_dirty,
        refreshes,
        forwarded_reads,
        merged_reads,
        merged_writes,
        write_pauses,
        write_paused.0,
    ])
}

pub(crate) fn latency(l: &Latency) -> Result<(), Error> {
    ensure(
        l.buckets.len() == LATENCY_BUCKETS && l.sum.0 <= 1 << 58 && l.min <= l.max && l.max <= FAR,
        "latencies",
    )?;
    counts(l.buckets.iter().copied().chain([l.count]))
}

pub(crate) fn completions(all: &[Completion]) -> Result<(), Error> {
    times(
        all.iter().flat_map(|c| [c.accepted_at, c.done_at]),
        "completions",
    )
}

pub(crate) fn changes(all: &[Change]) -> Result<(), Error> {
    times(all.iter().map(|c| c.at), "changes")
}

/// A request in saved form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    id: u64,
    addr: u64,
    kind: Kind,
    bytes: u32,
}

impl Asked {
    pub fn new(r: &Request) -> Asked {
        Asked {
            id: r.id,
            addr: r.addr,
            kind: r.kind,
            bytes: r.bytes,
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// The request, if it is one that a memory of `capacity` bytes can have accepted.
    pub fn request(&self, capacity: u64) -> Result<Request, Error> {
        let r = Request {
            id: self.id,
            addr: self.addr,
            kind: self.kind,
            bytes: self.bytes,
        };
        r.check(capacity).map_err(|e| bad(e.to_string()))?;
        Ok(r)
    }
}

/// Whether both lists have the same members equally often.
pub(crate) fn same_members(mut a: Vec<u64>, mut b: Vec<u64>) -> bool {
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

/// `params` without the values that can change while a model runs; two models can load each other's
/// states if these are equal.
pub(crate) fn fixed<T: Serialize>(params: &T, changeable: &[&str]) -> serde_json::Value {
    let mut all = serde_json::to_value(params).unwrap_or_default();
    for key in changeable {
        if let Some(slot) = all.pointer_mut(&format!("/{}", key.replace('.', "/"))) {
            *slot = serde_json::Value::Null;
        }
    }
    all
}

/// An error unless a state's parameters are possible for the model that loads it.
pub(crate) fn same_fixed<T: Serialize>(
    own: &T,
    saved: &T,
    changeable: &[&str],
    kind: &str,
) -> Result<(), Error> {
    if fixed(own, changeable) == fixed(saved, changeable) {
        Ok(())
    } else {
        Err(bad(format!("it belongs to a {kind} of other parameters")))
    }
}

/// A hash of a text: 64-bit FNV-1a.
pub(crate) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}
