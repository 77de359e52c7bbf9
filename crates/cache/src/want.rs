//! What a hart wants of the outer levels, and what it finds.

use super::Side;
use crate::config::HintConfig;
use crate::LineKind;

/// A hart's request to the outer levels.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Hart.
    pub hart: usize,
    /// Physical address of the line.
    pub line: u64,
    /// Why it is wanted.
    pub kind: LineKind,
    /// Program counter of the instruction.
    pub pc: u64,
    /// Core cycle.
    pub now: u64,
    /// Whether a hart that has to wait is blocked, and asks again later.
    pub blocks: bool,
    /// The hint of the instruction, if it has one with an effect.
    pub hint: Option<HintConfig>,
}

impl Want {
    /// The first-level cache that lacks the line.
    pub fn side(&self) -> Side {
        Side::of(self.kind)
    }
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Cycles from the request until the line is there or, if it comes from memory, until the last
    /// level has requested it.
    pub latency: u64,
    /// Where it comes from.
    pub from: From,
    /// The level that has it, or to which it is coming; the number of levels for memory.
    pub level: usize,
    /// It was modified and has not been written to memory since.
    pub modified: bool,
    /// Cycles of the latency in which the request waits for a miss status holding register.
    pub waited: u64,
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A level has it.
    Level,
    /// No level has it.
    Memory,
    /// An outstanding prefetch; the cycle of its arrival, if that is known.
    Prefetch(Option<u64>),
}
