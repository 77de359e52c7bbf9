//! What a blocked hart waits for.

use nagori_cache::LineKind;
use serde::{Deserialize, Serialize};

/// What a blocked hart waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Awaited {
    pub line: u64,
    pub kind: LineKind,
    /// Written, not read.
    pub write: bool,
    /// The hart does not wait for a transfer, but for another hart's fill of the line or for a miss
    /// status holding register.
    pub other: bool,
    /// Core cycles to add after the first beat.
    pub penalty: u32,
}

impl Awaited {
    /// A line that a load has asked for without waiting.
    pub(crate) fn load(line: u64) -> Self {
        Awaited {
            line,
            kind: LineKind::Load,
            write: false,
            other: true,
            penalty: 0,
        }
    }
}
