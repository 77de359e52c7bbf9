//! The state of a model as data, and the checks when it is read.
//!
//! Each model has a format with a version of its own. The data depends only on the state, not on
//! its history: heaps are sorted, free slots are left out, and large arrays hold only what is in
//! use.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Counters, Latency, LATENCY_BUCKETS};
use crate::request::{Completion, Kind, Request};
use crate::stats::Change;
use crate::units::Ps;
use crate::{board, cache, cxl, dram, hybrid, interleaved, worn, xpoint};

/// The complete state of a [`MemoryModel`](crate::MemoryModel), except for its log of commands. See
/// [`MemoryModel::save`](crate::MemoryModel::save).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SavedModel {
    /// The board's controller.
    Board(Box<board::SavedController>),
    /// The general controller.
    Dram(Box<dram::Saved>),
    /// A DIMM of 3D-XPoint class.
    Xpoint(Box<xpoint::Saved>),
    /// A link with the memory behind it.
    Cxl(Box<cxl::Saved>),
    /// A cache with both its memories.
    Cache(Box<cache::Saved>),
    /// Memories side by side.
    Hybrid(Box<hybrid::Saved>),
    /// Equal memories with interleaved addresses.
    Interleaved(Box<interleaved::Saved>),
    /// A memory with its wear.
    Worn(Box<worn::Saved>),
    /// A memory whose times a function gives: there is nothing from which it could go on.
    Function,
}

impl SavedModel {
    /// Name of the model, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            SavedModel::Board(_) => "board controller",
            SavedModel::Dram(_) => "general controller",
            SavedModel::Xpoint(_) => "xpoint DIMM",
            SavedModel::Cxl(_) => "cxl link",
            SavedModel::Cache(_) => "cache",
            SavedModel::Hybrid(_) => "flat hybrid",
            SavedModel::Interleaved(_) => "interleaved memory",
            SavedModel::Worn(_) => "memory with wear",
            SavedModel::Function => "memory whose times a function gives",
        }
    }

    /// The error of `load` for the state of another kind of model.
    pub(crate) fn foreign(&self, model: &str) -> Error {
        bad(format!("it is one of a {}, not of a {model}", self.kind()))
    }

    /// Ids of the outstanding completions, in ascending order.
    pub(crate) fn owed(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        self.add_owed(&mut ids);
        ids.sort_unstable();
        ids
    }

    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        match self {
            SavedModel::Board(s) => s.add_owed(ids),
            SavedModel::Dram(s) => s.add_owed(ids),
            SavedModel::Xpoint(s) => s.add_owed(ids),
            SavedModel::Cxl(s) => s.add_owed(ids),
            SavedModel::Cache(s) => s.add_owed(ids),
            SavedModel::Hybrid(s) => s.add_owed(ids),
            SavedModel::Interleaved(s) => s.add_owed(ids),
            SavedModel::Worn(s) => s.add_owed(ids),
            SavedModel::Function => {}
        }
    }
}

/// Greatest value of any count: no sum or product in a report overflows.
pub(crate) const MOST: u64 = 1 << 48;

/// Latest time in a state: the times that a model plans may be a little later than the last time
/// that it accepts.
const FAR: Ps = Ps(Ps::MAX_TIME.0 + (1 << 56));

pub(crate) fn bad(what: impl Into<String>) -> Error {
    Error::SavedState(what.into())
}

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
    FAR.clocks_ceil(period)
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
        crate::window::check(&r, capacity).map_err(|e| bad(e.to_string()))?;
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
