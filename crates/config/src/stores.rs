//! Descriptions of store buffers, and of what hints of Zihintntl do.

use nagori_cache::config::{Cached, Drain, Partial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The store buffer of each hart: stores go on without waiting for their lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreBufferConfig {
    /// Entries of up to a line each, 0 to 128; with 0 there is no store buffer. Needs `l1d.mshrs`, the line fill
    /// buffers with which the lines of entries are requested.
    pub entries: u32,
    /// In which order entries are written to the data cache.
    pub drain: Drain,
    /// Whether a store joins an entry of the same line: in order the newest one only, otherwise any.
    pub coalesce: bool,
    /// Core cycles that a load takes in addition to a hit if it gets its bytes from the buffer, 0 to 1000.
    pub forward_cycles: u32,
    /// Core cycles from the write of an entry to the cache to the next one, 1 to 1000.
    pub drain_cycles: u32,
}

/// What accesses under hints of Zihintntl do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NontemporalConfig {
    /// In which order combined lines leave their line fill buffers: `any` (a full one at once; the oldest when one is
    /// needed) or `in-order` (never before an older one).
    pub evict: Drain,
    /// What becomes of cached copies of a line when a store to it is to be combined.
    pub cached_copy: Cached,
    /// How a combined line of which bytes are missing is written to DRAM.
    pub partial_dram: Partial,
    /// How a combined line of which bytes are missing is written to NVMM, from `memory.nvmm_boundary` on.
    pub partial_nvmm: Partial,
    /// Accesses under `ntl.p1`.
    pub p1: HintConfig,
    /// Accesses under `ntl.pall`.
    pub pall: HintConfig,
    /// Accesses under `ntl.s1`.
    pub s1: HintConfig,
    /// Accesses under `ntl.all`.
    pub all: HintConfig,
}

/// What accesses under a hint do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HintConfig {
    /// How stores are done; `write-combining` needs `l1d.mshrs`.
    pub store: HintedStore,
    /// Caches (`l1d`, names of outer levels) into which a missing line is put as the next one to be replaced.
    pub last: Vec<String>,
    /// Outer levels that a missing line passes by: none that is inclusive.
    pub bypass: Vec<String>,
}

/// How stores under a hint are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HintedStore {
    /// As all others.
    Temporal,
    /// They are combined in a line fill buffer, and written to memory from there.
    WriteCombining,
}

impl Default for StoreBufferConfig {
    fn default() -> Self {
        StoreBufferConfig {
            entries: 0,
            drain: Drain::InOrder,
            coalesce: true,
            forward_cycles: 0,
            drain_cycles: 1,
        }
    }
}

impl Default for NontemporalConfig {
    fn default() -> Self {
        let hint = HintConfig::default;
        NontemporalConfig {
            evict: Drain::Any,
            cached_copy: Cached::Invalidate,
            partial_dram: Partial::Masked,
            partial_nvmm: Partial::Masked,
            p1: hint(),
            pall: hint(),
            s1: hint(),
            all: hint(),
        }
    }
}

impl Default for HintConfig {
    fn default() -> Self {
        HintConfig {
            store: HintedStore::Temporal,
            last: Vec::new(),
            bypass: Vec::new(),
        }
    }
}

impl StoreBufferConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl NontemporalConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The hints with their names, in the order of their numbers.
    pub fn hints(&self) -> [(&'static str, &HintConfig); 4] {
        [
            ("p1", &self.p1),
            ("pall", &self.pall),
            ("s1", &self.s1),
            ("all", &self.all),
        ]
    }
}
