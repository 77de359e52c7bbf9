//! A power cut: what it leaves for certain, and what it may leave.

use crate::lines::Lines;
use crate::step::{At, Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A store of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreRef {
    /// Its number among the steps of the history.
    pub step: u64,
    /// Physical address of its first byte in the line.
    pub paddr: u64,
    /// Its bytes in the line (1 to 64).
    pub len: u8,
    /// Who, where, when.
    pub at: At,
}

/// A content that a line may have after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The bytes.
    pub bytes: Bytes,
    /// Hash of `bytes`, the same in all cuts.
    pub hash: u64,
    /// The last store, in the order of commit, that it contains; `None` for the durable content.
    pub last: Option<StoreRef>,
    /// The first store that it lacks; `None` for the newest content.
    pub lacks: Option<StoreRef>,
}

/// A line of which more than one content is possible. The first candidate is the durable content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Physical address of the line.
    pub line: u64,
    /// At least two, different from one another.
    pub candidates: Vec<Candidate>,
    /// Which of them is the newest content.
    pub newest: usize,
    /// There were more than [`crate::Model::max_candidates`] or than a history keeps.
    pub capped: bool,
    /// It may be what makes an operation valid: all its stores came after the last fence before the last store of all,
    /// and are at most eight bytes.
    pub commit: bool,
}

/// Where the power was cut.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// At a fence: immediately before it takes effect.
    Fence,
    /// At a flush: immediately before it.
    Flush,
    /// At a marker.
    Marker,
    /// Anywhere else.
    Other,
}

/// A power cut: cheap to copy.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Number of steps of the history before it.
    pub step: u64,
    /// What it is at; `None` at the beginning.
    pub at: Option<At>,
    /// Kind of that.
    pub kind: PointKind,
    /// How many markers of operations came before it.
    pub operation: u32,
    /// What is durable, as far as it differs from the content at the beginning.
    pub durable: Lines,
    /// What the lines that were written so far contained at the beginning.
    pub initial: Lines,
    /// Lines that may have one of several contents, by ascending address.
    pub undecided: Vec<Arc<Undecided>>,
    /// Equal for cuts that may leave the same contents.
    pub hash: u64,
    /// At most so many undecided lines have another content than the newest (`gpf`).
    pub max_old: Option<usize>,
}
