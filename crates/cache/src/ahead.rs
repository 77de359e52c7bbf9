//! Outstanding prefetches, and harts that wait for miss status holding registers: events in the
//! caches that have a time of their own. What is special about prefetches into first-level caches is
//! in [`super::first`].
//!
//! No event takes effect before its time: the scheduler checks [`Coherence::next_due`] before each
//! turn, and calls [`Coherence::settle_due`] before any hart performs an action that others can
//! observe at that cycle or later. So it does not matter at which moment of host time the answer to
//! a prefetch becomes known.

use super::Side;
use serde::{Deserialize, Serialize};

/// Maximum of outstanding prefetches of a cache without a limit of misses.
pub(crate) const MOST: usize = 32;
/// In place of a hart's number: no hart runs.
pub const NOBODY: usize = usize::MAX;

/// The cache to which a prefetch brings a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A first-level cache.
    First(Side),
    /// A cache of an outer level.
    Level(usize),
}

impl Target {
    /// The innermost outer level that the line reaches or passes through.
    pub(crate) fn level(self) -> usize {
        match self {
            Target::First(_) => 0,
            Target::Level(k) => k,
        }
    }
}

/// An outstanding prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnderWay {
    /// Identifies it to the memory system.
    pub(crate) token: u64,
    /// The level that requested it, or the first one that the line passes through.
    pub(crate) level: u32,
    /// The level that has the line, or the number of levels: memory.
    pub source: u32,
    /// The hart whose access caused it, and the pc of the instruction.
    pub hart: u32,
    pub(crate) pc: u64,
    pub line: u64,
    /// The cycle at which the line arrives, if that is known.
    pub(crate) comes: Option<u64>,
    /// A hart that waits for it, and the first cycle at which that hart can use the line.
    pub wanted: Option<(u32, u64)>,
    /// The first-level cache that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Side>,
    /// The line has arrived at a first-level cache whose hart is about to request it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The line is no longer wanted when it arrives at the first-level cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
    /// A load waits for it whose hart goes on, and the line's place is taken already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<ForLoad>,
    /// It is for a store that is buffered: the line arrives with the right to store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

/// The load that a request is for, with the registers of its hart that are occupied besides those of the request's
/// own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForLoad {
    pub hart: u32,
    /// One in each level before this one.
    pub levels: u32,
    /// One of L1D.
    pub first: bool,
}

impl UnderWay {
    /// A request of a load that has missed all of `n` levels.
    pub fn for_load(token: u64, n: u32, (hart, pc): (u32, u64), line: u64) -> Self {
        UnderWay {
            token,
            level: 0,
            source: n,
            hart,
            pc,
            line,
            comes: None,
            wanted: None,
            first: Some(Side::Data),
            held: false,
            void: false,
            own: false,
            load: Some(ForLoad {
                hart,
                levels: 0,
                first: false,
            }),
        }
    }

    /// A load takes it over from a hart that would wait for it.
    pub fn taken_over(&mut self, load: ForLoad) {
        (self.wanted, self.load) = (None, Some(load));
    }

    /// Whether a hart waits for it.
    pub fn waits(&self, hart: usize) -> bool {
        self.wanted.is_some_and(|w| w.0 as usize == hart)
    }

    pub fn token(&self) -> u64 {
        self.token
    }

    /// When the line arrives, if that is known.
    pub fn known(&self) -> Option<u64> {
        self.comes
    }

    /// The level that requested it.
    pub fn level(&self) -> usize {
        self.level as usize
    }

    /// Whether it is a prefetch that nobody waits for.
    pub fn is_free(&self) -> bool {
        self.wanted.is_none() && self.load.is_none()
    }

    pub(crate) fn target(&self) -> Target {
        match self.first {
            Some(side) => Target::First(side),
            None => Target::Level(self.level as usize),
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    /// In the order in which they were requested.
    pub under_way: Vec<UnderWay>,
    pub(crate) next: u64,
    /// Predicted lines, with the caches for them, for the running hart to request.
    pub(crate) guesses: Vec<(Target, u64)>,
    /// Harts that no longer wait, and since which cycle.
    pub(crate) woken: Vec<(usize, u64)>,
    /// The time of the next event besides those of buffered stores.
    pub due: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead {
            under_way: Vec::new(),
            next: 0,
            guesses: Vec::new(),
            woken: Vec::new(),
            due: u64::MAX,
        }
    }
}

impl Ahead {
    /// Drops all prefetches. Tokens are never reused.
    pub fn clear(&mut self) {
        let next = self.next;
        *self = Ahead {
            next,
            ..Ahead::default()
        };
    }

    /// The number of a request that no other has had.
    pub fn number(&mut self) -> u64 {
        let n = self.next;
        self.next += 1;
        n
    }

    /// A hart no longer waits since a cycle.
    pub fn wake(&mut self, hart: usize, since: u64) {
        self.woken.push((hart, since));
    }

    /// Records the lines that a cache's prefetcher has predicted.
    pub fn guess(&mut self, target: Target, lines: Vec<u64>) {
        self.guesses.extend(lines.into_iter().map(|l| (target, l)));
    }
}

/// Outstanding prefetches, as saved in a snapshot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedAhead {
    pub(crate) under_way: Vec<UnderWay>,
    pub(crate) next: u64,
}

impl SavedAhead {
    pub fn is_new(&self) -> bool {
        self.next == 0
    }
}

/// An event that has taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// When it took effect.
    pub cycle: u64,
    /// The hart that caused it.
    pub hart: usize,
    /// The pc of its instruction, 0 if unknown.
    pub pc: u64,
}
