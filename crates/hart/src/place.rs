//! Places in blocks: where an instruction stands, and where a hart has left a block.

use crate::preop::{PreOp, QUIET, SPLIT};
use crate::trap::{Trap, Undone};
use serde::{Deserialize, Serialize};

/// How a block ended.
#[derive(Debug)]
pub enum End {
    /// Every instruction retired; the hart's pc is set.
    Done,
    /// The instruction at this index trapped.
    Trap(usize, Trap),
    /// The instruction at this index has to wait, and be executed again.
    NotNow(usize),
    /// Left after the instruction at this index.
    Left(usize),
    /// An observer has the hart stand in front of the instruction at this index.
    Stopped(usize),
}

impl End {
    /// At the instruction at an index, which did not come to its end.
    #[inline(always)]
    pub(crate) fn undone(i: usize, why: Undone) -> Self {
        match why {
            Undone::Trap(t) => End::Trap(i, t),
            Undone::NotNow => End::NotNow(i),
        }
    }
}

/// The place at which an observer has stopped a hart. Its `pc` is that of the next instruction;
/// cycle and counters are those of the block's start, as always while a block runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    pub(crate) block: u32,
    /// Address of the block.
    pub(crate) pc: u64,
    /// The next instruction in it.
    pub(crate) next: usize,
    /// The limit of the run that was interrupted.
    pub(crate) limit: Option<u64>,
}

/// The place in its block of an instruction that is to be executed again. The hart's `pc`, cycle
/// and counters are those of the instruction; time and pending results continue as if the block had
/// not been left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// Address of the block.
    pub(crate) pc: u64,
    /// The instruction's number in it.
    pub(crate) next: u32,
    /// Whether its line was fetched before it had to wait.
    pub(crate) fetched: bool,
    /// Cycles from the start of the block to its issue.
    pub(crate) cost: u32,
    /// Addresses of the last store and of the one before.
    pub last_stores: [u64; 2],
}

impl Resume {
    /// The cycle, without the block's own so far, of a hart that stands there.
    pub fn begun(&self, cycle: u64) -> u64 {
        cycle - u64::from(self.cost)
    }

    /// Whether a hart with these counts may stand there.
    pub fn fits(&self, cycle: u64, instret: u64) -> bool {
        u64::from(self.next) <= instret && u64::from(self.cost) <= cycle
    }
}

/// Where in a run of instructions something happens. Two registers of the host.
#[derive(Clone, Copy, Debug)]
pub struct RunPoint {
    /// The program counter.
    pub(crate) pc: u64,
    /// From bit 0 on cycles since the hart's `cycle` was last brought up to date, from 16 on the instruction's flags,
    /// from 24 on [`PreOp::branch`].
    bits: u32,
}

impl RunPoint {
    /// At no instruction of a block, without cycles since then.
    #[inline(always)]
    pub(crate) fn begin(pc: u64) -> Self {
        RunPoint { pc, bits: 0 }
    }

    /// At the same time in front of another instruction.
    #[inline(always)]
    pub(crate) fn as_of(self, pc: u64) -> Self {
        let bits = self.bits & 0xffff;
        RunPoint { pc, bits }
    }

    /// At an instruction of the block at a pc.
    #[inline(always)]
    pub(crate) fn of(p: &PreOp, pc: u64) -> Self {
        RunPoint {
            pc: pc.wrapping_add(p.off.into()),
            bits: u32::from(p.cost) | u32::from(p.flags) << 16 | u32::from(p.branch) << 24,
        }
    }

    #[inline(always)]
    pub(crate) fn offset(self) -> u64 {
        u64::from(self.bits & 0xffff)
    }

    /// See [`QUIET`].
    #[inline(always)]
    pub(crate) fn quiet(self) -> bool {
        self.bits >> 16 & u32::from(QUIET) != 0
    }

    /// See [`PreOp::splits`].
    #[inline(always)]
    pub(crate) fn splits(self) -> bool {
        self.bits >> 16 & u32::from(SPLIT) != 0
    }

    /// See [`PreOp::branch`].
    #[inline(always)]
    pub(crate) fn branch(self) -> u8 {
        (self.bits >> 24) as u8
    }
}
