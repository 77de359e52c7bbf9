//! What is between a hart and its data cache for stores: the store buffer, and line fill buffers that combine
//! non-temporal stores.
//!
//! What is stored is not in guest memory before it leaves its buffer, so other harts cannot see it. It leaves
//! at a time of its own, as an event ([`super::ahead`]): a buffered store when its hart owns the line, a combined
//! line when the hart needs its line fill buffer, or has to wait for what it has stored. What then has to be done
//! outside of the caches ([`Deed`]) is carried out by whoever let the event take effect.
//!
//! The sets of lines with buffered stores are guarded ([`super::first`]), so no filter answers accesses to them. A
//! combined line is in no cache: it leaves its buffer before any cache gets the line.
//!
//! Not in functional mode: stores are done at once there.

mod bytes;
mod saved;
mod stats;

/// What a load finds in the store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// None of its bytes.
    Nothing,
    /// All of them.
    Value(u64),
    /// Some, or bytes of several entries.
    Partial,
}

#[cfg(test)]
mod tests;

pub use bytes::Bytes;
pub use saved::SavedStores;
pub use stats::StoreStats;

use crate::config::{HintConfig, StoresConfig};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// An entry of the store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    pub(crate) line: u64,
    pub(crate) bytes: Bytes,
    /// The cycle of the last store to it.
    pub(crate) since: u64,
    pub(crate) pc: u64,
    /// Whether its line was requested already.
    pub(crate) asked: bool,
}

/// A line fill buffer that combines stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Combined {
    pub(crate) line: u64,
    pub(crate) bytes: Bytes,
    pub(crate) pc: u64,
}

/// A line fill buffer whose line is on its way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leaving {
    /// Identifies it to the memory system.
    pub(crate) token: u64,
    pub(crate) line: u64,
    /// The cycle of memory's answer, if that is known.
    pub(crate) comes: Option<u64>,
}

/// What a hart waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awaits {
    /// Everything that it has stored is visible.
    All,
    /// Everything that it has stored to a line is visible.
    Line(u64),
    /// Everything in the store buffer is visible.
    Queue,
    /// An entry of the store buffer is free.
    Room,
    /// A line fill buffer is free.
    Register,
}

/// Why a combined line leaves its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All of its bytes are there.
    Full,
    /// The hart needs a line fill buffer.
    Register,
    /// A younger one leaves, and they leave in order.
    Order,
    /// A fence, `fence.i`, `sfence.vma`, or a device.
    Fence,
    /// An atomic.
    Atomic,
    /// Another hart, or a fetch of instructions.
    Probe,
    /// A load of the hart.
    Load,
    /// A store of the hart without such a hint.
    Store,
    /// A flush of the line.
    Flush,
}

/// The buffers of a hart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Buffers {
    /// The store buffer, in program order.
    pub(crate) queue: VecDeque<Stored>,
    /// In the order in which they were begun.
    pub(crate) combining: Vec<Combined>,
    pub(crate) leaving: Vec<Leaving>,
    /// The cycle from which on the next entry may be written to the cache.
    pub(crate) free_from: u64,
    /// What the hart is blocked for, and since when.
    pub(crate) waits: Option<(Awaits, u64)>,
    /// A request found no register.
    pub(crate) starved: bool,
    pub(crate) stats: StoreStats,
}

/// What has to be done outside of the caches.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// Stores become visible.
    Write {
        /// Whose they are.
        hart: usize,
        /// Physical address of the line.
        line: u64,
        /// What is stored in it.
        bytes: Bytes,
        /// The line was not modified before.
        dirties: bool,
    },
    /// The line of an entry is requested from memory.
    Fetch(Sent),
    /// A combined line is written to memory, which reads it before (`reads`).
    Send {
        /// The request.
        sent: Sent,
        /// Whether memory reads the line before.
        reads: bool,
    },
}

/// A request to memory.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Hart that has stored.
    pub hart: usize,
    /// Program counter of the store.
    pub pc: u64,
    /// Physical address of the line.
    pub line: u64,
    /// Core cycle at which the request leaves the caches.
    pub cycle: u64,
    /// Identifies it to the memory system.
    pub token: u64,
}

/// The buffers of all harts.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    pub config: StoresConfig,
    /// Whether there are any.
    pub on: bool,
    pub(crate) parts: Vec<Buffers>,
    pub(crate) deeds: VecDeque<Deed>,
    /// The time of the last event.
    pub clock: u64,
}

impl Stores {
    pub fn new(config: StoresConfig, harts: usize) -> Self {
        Stores {
            config,
            on: config.is_on(),
            parts: vec![Buffers::default(); harts],
            ..Stores::default()
        }
    }

    /// Everything in the buffers is lost.
    pub fn clear(&mut self) {
        for b in &mut self.parts {
            *b = Buffers {
                stats: b.stats,
                ..Buffers::default()
            };
        }
        self.deeds.clear();
    }

    /// Whether something has to be done outside of the caches.
    pub fn has_deeds(&self) -> bool {
        !self.deeds.is_empty()
    }

    /// What a hint does.
    pub fn hint(&self, number: u8) -> HintConfig {
        self.config.hints[usize::from(number & 3)]
    }

    /// The lines whose sets are guarded, with their harts.
    pub fn guarded(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let all = self.parts.iter().enumerate();
        all.flat_map(|(h, b)| b.queue.iter().map(move |e| (h, e.line)))
    }

    /// Tokens of the writes that memory has not answered yet.
    pub fn asked(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.parts.iter().flat_map(|b| &b.leaving);
        all.filter(|l| l.comes.is_none()).map(|l| l.token)
    }

    /// Whether a hart waits.
    pub fn blocks(&self, hart: usize) -> bool {
        self.parts.get(hart).is_some_and(|b| b.waits.is_some())
    }

    /// Ends all waits of harts.
    pub fn nobody_waits(&mut self) {
        self.parts.iter_mut().for_each(|b| b.waits = None);
    }
}
