//! The parameters of caches, of their MSHRs and prefetchers, and of what is in front of them for stores.

mod stores;

use serde::{Deserialize, Serialize};
pub use stores::{Cached, Drain, Hint, HintConfig, Partial, StoresConfig};

/// Replacement policy of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Replacement {
    /// Pseudo-random, by a linear-feedback shift register that ignores hits, as in Rocket.
    #[default]
    Lfsr,
    /// An empty entry, else a random one.
    Random,
    /// Least recently used. A first-level cache sees every access then, which makes timed runs
    /// slower; so it does with `tree-plru` and `srrip`.
    Lru,
    /// Pseudo-LRU by a tree of bits.
    TreePlru,
    /// Static re-reference interval prediction with two bits and hit priority (Jaleel et al., ISCA 2010).
    Srrip,
}

impl Replacement {
    /// Whether victims depend on hits.
    pub fn notes_hits(self) -> bool {
        !matches!(self, Replacement::Lfsr | Replacement::Random)
    }

    /// Whether repeated uses of a line, without a use of another one in between, make a difference.
    pub fn notes_repeats(self) -> bool {
        self == Replacement::Srrip
    }
}

/// Geometry of a first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheGeometry {
    /// Number of sets, a power of two; `sets * line` must not exceed a 4 KiB page
    /// (virtually indexed, physically tagged without aliases).
    pub sets: u32,
    /// Associativity, a power of two, 1..=16.
    pub ways: u32,
    /// Line size in bytes. Only 64 is supported.
    pub line: u32,
    /// Replacement.
    #[serde(default)]
    pub replacement: Replacement,
}

/// Relation of a level to the caches nearer to the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Inclusion {
    /// It holds all of their lines: a line that it evicts is removed from them, too.
    Inclusive,
    /// It keeps every line that passes through it, until the line is evicted.
    NonInclusive,
    /// It holds what they have evicted: lines from memory pass it by, and a hit for data moves the
    /// line to the core unless other harts have it, too.
    Exclusive,
}

/// An outer cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// Size and replacement of each of its caches; ways need be a power of two for the LFSR and the
    /// tree only.
    pub geometry: CacheGeometry,
    /// Harts that share a cache of this level; a multiple of that of the level before.
    pub shared_by: u32,
    /// Core cycles from issue of a load to issue of its use, if the line is found here.
    pub latency: u32,
    /// Core cycles in addition if another hart has the line modified.
    pub probe_latency: u32,
    /// What it has in common with the caches before.
    pub inclusion: Inclusion,
    /// Whether modified lines that arrive here are passed on at once.
    pub write_through: bool,
    /// Maximum of outstanding misses of each of its caches; 0 for any number.
    pub mshrs: u32,
    /// Banks of each of its caches, a power of two; the lowest bits of the line's number select the
    /// bank.
    pub banks: u32,
    /// Core cycles for which an access keeps a bank busy; 0 if banks are not modelled.
    pub bank_cycles: u32,
    /// The prefetcher of each of its caches.
    pub prefetch: PrefetchConfig,
}

impl Default for LevelConfig {
    fn default() -> Self {
        LevelConfig {
            geometry: CacheGeometry {
                sets: 64,
                ways: 4,
                line: 64,
                replacement: Replacement::Lru,
            },
            shared_by: 1,
            latency: 10,
            probe_latency: 0,
            inclusion: Inclusion::Inclusive,
            write_through: false,
            mshrs: 0,
            banks: 1,
            bank_cycles: 0,
            prefetch: PrefetchConfig::default(),
        }
    }
}

/// How a prefetcher predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Prefetcher {
    /// No prefetcher.
    #[default]
    None,
    /// The lines that follow the requested one.
    NextLine,
    /// Accesses of an instruction at equal distances, by its program counter.
    Stride,
    /// Accesses in ascending or descending order within a page of 4 KiB.
    Stream,
}

/// A prefetcher of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchConfig {
    /// How it predicts.
    pub prefetcher: Prefetcher,
    /// Maximum of lines that it requests at a time.
    pub degree: u32,
    /// How far ahead of an access it prefetches: lines, or strides.
    pub distance: u32,
    /// Instructions or pages that it records; for `Stride` a power of two.
    pub entries: u32,
    /// How often in a row an instruction must have advanced by its stride, or accesses to a page in
    /// its direction.
    pub confidence: u32,
}

impl Default for PrefetchConfig {
    fn default() -> Self {
        PrefetchConfig {
            prefetcher: Prefetcher::None,
            degree: 1,
            distance: 1,
            entries: 64,
            confidence: 2,
        }
    }
}

/// MSHRs and prefetcher of a first-level cache, and what is in front of it for stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstConfig {
    /// Maximum of outstanding misses and prefetches, with lines for the store buffer and combined lines; 0 for any
    /// number.
    pub mshrs: u32,
    /// The prefetcher.
    pub prefetch: PrefetchConfig,
    /// Store buffer and non-temporal accesses; of a cache for data.
    pub stores: StoresConfig,
}

impl FirstConfig {
    /// Whether lines may arrive at a time of their own, or a miss may have to wait for a register.
    pub fn keeps_order(&self) -> bool {
        self.mshrs > 0 || self.prefetch.prefetcher != Prefetcher::None || self.stores.is_on()
    }
}
