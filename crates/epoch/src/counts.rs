//! What counters say of one epoch.

use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The largest count of an epoch: what a counter of 48 bits can count.
const MOST: u64 = 1 << 48;

/// What was counted in one epoch, for one thread or hart unless a field says otherwise. A source that does not count
/// something leaves it zero, but must not leave out what the model's variant needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counts {
    /// Cycles in which nothing could be executed because a load waited for a line that the private caches did not
    /// have (`L2_stalls` of the paper). A source whose counter begins at L1 also fills `l2_hits`, and the model then
    /// has a weight for them.
    pub stall_cycles: u64,
    /// Loads that L2 answered. Only for sources whose `stall_cycles` begin at L1; see [`crate::Params::l2_weight`].
    pub l2_hits: u64,
    /// Loads that the last-level cache answered (`hit`).
    pub llc_hits: u64,
    /// Loads that memory answered (`miss`).
    pub llc_misses: u64,
    /// Modified lines that all cores' caches wrote to memory (`WB`), without lines written by flushes and by
    /// non-temporal stores.
    pub writebacks: u64,
    /// Lines that all cores read from memory, without prefetches.
    pub all_misses: u64,
    /// Lines that all prefetchers read from memory.
    pub prefetch_misses: u64,
    /// Modified lines that had to leave for this core's own misses, if the source can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_victims: Option<u64>,
    /// Modified lines that flush instructions of this core wrote to memory.
    pub flushes: u64,
    /// Lines that non-temporal stores of this core wrote to memory.
    pub nt_stores: u64,
    /// How long emulation itself (signals, reading of counters, arithmetic) kept this core from its work.
    pub overhead: Ps,
}

impl Counts {
    /// Every count with its name, as in recorded streams.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("stall_cycles", self.stall_cycles),
            ("l2_hits", self.l2_hits),
            ("llc_hits", self.llc_hits),
            ("llc_misses", self.llc_misses),
            ("writebacks", self.writebacks),
            ("all_misses", self.all_misses),
            ("prefetch_misses", self.prefetch_misses),
            ("own_victims", self.own_victims.unwrap_or(0)),
            ("flushes", self.flushes),
            ("nt_stores", self.nt_stores),
        ]
    }

    /// The field with a name of [`Counts::named`], to be filled. `None` if there is no such count.
    pub fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "stall_cycles" => &mut self.stall_cycles,
            "l2_hits" => &mut self.l2_hits,
            "llc_hits" => &mut self.llc_hits,
            "llc_misses" => &mut self.llc_misses,
            "writebacks" => &mut self.writebacks,
            "all_misses" => &mut self.all_misses,
            "prefetch_misses" => &mut self.prefetch_misses,
            "own_victims" => self.own_victims.get_or_insert(0),
            "flushes" => &mut self.flushes,
            "nt_stores" => &mut self.nt_stores,
            _ => return None,
        })
    }

    /// Refuses counts that cannot be those of one epoch.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.named().into_iter().find(|c| c.1 > MOST) {
            Some((name, value)) => Err(Error::Count { name, value }),
            None => Ok(()),
        }
    }

    /// Lines read from memory by all cores and prefetchers, which the write-backs are spread over.
    pub fn reads(&self) -> u64 {
        self.all_misses + self.prefetch_misses
    }
}
