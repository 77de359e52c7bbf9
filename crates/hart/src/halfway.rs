//! What an instruction that has to wait has done so far, so that going on, and executing it again, repeats nothing.

use crate::place::Resume;
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

/// What has been done so far for the instruction that comes next: for one that has to wait, and by a hint before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Halfway {
    /// What the access that is under way was tried again for: bits of `again.rs`.
    pub replays: u8,
    /// Page and side of a walk that has been charged but not finished.
    pub walk: Option<(u64, bool)>,
    /// Line of a fill whose victim is gone already, and the entry for it.
    pub refill: Option<(u64, usize)>,
    /// Where a flush of the whole cache has to go on that is to be tried again: its address, and the next entry of
    /// L1D.
    pub flushed: Option<(u64, usize)>,
    /// What the hart is blocked for.
    pub awaited: Option<Awaited>,
    /// The line of a fill of L1D that had to wait, and what it is for.
    pub fill: Option<(u64, LineKind)>,
    /// The line that it was blocked for, until the instruction that wants it is executed again.
    pub arrived: Option<u64>,
    /// The line that an instruction to be executed again has cleaned in all levels of caches.
    pub cleaned: Option<u64>,
    /// A hint of Zihintntl that is in front of the instruction at an address, by its number.
    pub hint: Option<(u64, u8)>,
    /// Where the instruction to be executed again stands in its block.
    pub resume: Option<Resume>,
}

impl Halfway {
    /// Why a hart whose L1D has a number of entries, with these counts, cannot stand here; `line` knows which
    /// addresses are those of lines.
    pub fn problem(
        &self,
        entries: usize,
        (cycle, instret): (u64, u64),
        line: impl Fn(u64) -> bool,
    ) -> Option<&'static str> {
        let outside = |at: Option<(u64, usize)>| at.is_some_and(|(_, entry)| entry >= entries);
        let problems = [
            (self.replays > 3, "access tried again"),
            (outside(self.refill), "entry being filled"),
            (outside(self.flushed), "entry being flushed"),
            (
                self.fill.is_some_and(|(l, _)| !line(l)),
                "line being filled",
            ),
            (
                self.resume.is_some_and(|r| !r.fits(cycle, instret)),
                "place in a block",
            ),
        ];
        problems
            .into_iter()
            .find_map(|(bad, what)| bad.then_some(what))
    }
}
