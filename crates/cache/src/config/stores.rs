//! Parameters of what is between a core and its data cache for stores: the store buffer, and what the hints of
//! Zihintntl do, among it the line fill buffers that combine non-temporal stores.

use serde::{Deserialize, Serialize};

/// In which order stores leave their buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Drain {
    /// In program order.
    #[default]
    InOrder,
    /// Each as soon as it can.
    Any,
}

/// What becomes of cached copies of a line to which a store is combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Cached {
    /// They are written back, if they are modified, and invalidated first.
    #[default]
    Invalidate,
    /// The store is done in the caches, as one without a hint.
    Update,
}

/// How parts of lines are written to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Partial {
    /// By one write with a mask.
    #[default]
    Masked,
    /// The line is read before it is written, as by a controller with error correction.
    ReadModifyWrite,
}

/// A hint of Zihintntl: there is no temporal locality in some of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// `ntl.p1`: in the innermost private level.
    P1,
    /// `ntl.pall`: in any private level.
    Pall,
    /// `ntl.s1`: in the innermost shared level.
    S1,
    /// `ntl.all`: in any level.
    All,
}

impl Hint {
    /// All of them, in the order of their numbers.
    pub const ALL: [Hint; 4] = [Hint::P1, Hint::Pall, Hint::S1, Hint::All];
}

/// What a hint does. Levels are bits: 0 for the first-level data cache, k for the kth outer level from the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintConfig {
    /// Levels into which a line is put as the next one to be replaced.
    pub last: u32,
    /// Levels that a line passes by.
    pub bypass: u32,
    /// Whether stores are combined in line fill buffers, and written to memory from there.
    pub combines: bool,
}

/// See the [module](self). By default nothing is buffered, and hints do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoresConfig {
    /// Entries of the store buffer; 0 if there is none.
    pub entries: u32,
    /// In which order they are written to the cache.
    pub drain: Drain,
    /// Whether a store joins an entry of the same line: in order the newest one, otherwise any.
    pub coalesce: bool,
    /// Core cycles in addition to a hit of a load that gets its bytes from the buffer.
    pub forward: u32,
    /// Core cycles from the write of an entry to the cache to the next one, 1 or more.
    pub interval: u32,
    /// What each hint does, by its number.
    pub hints: [HintConfig; 4],
    /// In which order combined lines leave.
    pub order: Drain,
    /// What becomes of cached copies.
    pub cached: Cached,
    /// How partial lines are written, to memory below `nvmm_base` and from there on.
    pub partial: [Partial; 2],
    /// Physical address.
    pub nvmm_base: u64,
}

impl Default for StoresConfig {
    fn default() -> Self {
        StoresConfig {
            entries: 0,
            drain: Drain::InOrder,
            coalesce: true,
            forward: 0,
            interval: 1,
            hints: [HintConfig::default(); 4],
            order: Drain::Any,
            cached: Cached::Invalidate,
            partial: [Partial::Masked; 2],
            nvmm_base: u64::MAX,
        }
    }
}

impl StoresConfig {
    /// Whether some hint has stores combined.
    pub fn combines(&self) -> bool {
        self.hints.iter().any(|h| h.combines)
    }

    /// Whether stores are held back from memory in any way.
    pub fn is_on(&self) -> bool {
        self.entries > 0 || self.combines()
    }

    /// Whether some hint does anything.
    pub fn hints(&self) -> bool {
        self.hints.iter().any(|h| *h != HintConfig::default())
    }
}
