//! Descriptions of outer cache levels, and of the MSHRs and prefetcher of any cache.

use super::{ConfigError, Place, Size, Source};
use nagori_cache::config::{Inclusion, PrefetchConfig, Prefetcher, Replacement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A number of harts that no machine exceeds: each hart has statistics registers.
pub const MAX_HARTS: u32 = 16;

/// An outer cache level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelConfig {
    /// Distance from the core, from 2 on; first-level caches are `l1d` and `l1i`.
    pub level: u32,
    /// Harts that share a cache of this level, in the order of their numbers: a number, a multiple of
    /// that of the level before, or "all".
    pub shared_by: SharedBy,
    /// Capacity of each cache in bytes: its ways times a power of two times 64.
    pub size: Size,
    /// Associativity, 1 to 64; a power of two with `lfsr` and `tree-plru`.
    pub ways: u32,
    /// Core cycles from issue of a load to issue of its use if the line is found here, as a pointer
    /// chase measures it. At least that of the level before. A line that no level has is requested
    /// from memory after the last level's latency.
    pub latency: u32,
    /// Core cycles in addition to the latency if another hart, for which this is the nearest level that
    /// both share, has the line modified.
    #[serde(default)]
    pub probe_latency: u32,
    /// Its relation to the inner caches.
    #[serde(default = "inclusive")]
    pub inclusion: Inclusion,
    /// Replacement policy. Hits in first-level caches are not seen here.
    #[serde(default = "lru")]
    pub replacement: Replacement,
    /// What happens to modified lines that arrive here.
    #[serde(default = "back")]
    pub write: WritePolicy,
    /// Miss status holding registers of each of its caches, 1 to 64: the maximum of outstanding
    /// misses, prefetches included. Unlimited if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mshrs: Option<u32>,
    /// Banks of each of its caches, a power of two from 1 to 64; consecutive lines are in different
    /// banks.
    #[serde(default = "one")]
    pub banks: u32,
    /// Core cycles for which an access keeps its bank busy, 0 to 1000; with 0, accesses do not
    /// wait for one another.
    #[serde(default)]
    pub bank_cycles: u32,
    /// The prefetcher of each of its caches.
    #[serde(default)]
    pub prefetcher: Prefetcher,
    /// Maximum of lines that the prefetcher requests at a time, 1 to 16.
    #[serde(default = "one")]
    pub degree: u32,
    /// How far ahead of an access the prefetcher requests lines, 1 to 63 lines or strides. At least
    /// the degree, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// Instructions (`stride`, a power of two) or pages (`stream`) that the prefetcher records, 1
    /// to 1024.
    #[serde(default = "entries")]
    pub prefetch_entries: u32,
    /// How often in a row an instruction must have advanced by its stride, or accesses to a page in
    /// its direction, before lines are prefetched, 1 to 15.
    #[serde(default = "confidence")]
    pub prefetch_confidence: u32,
}

fn one() -> u32 {
    1
}

fn entries() -> u32 {
    PrefetchConfig::default().entries
}

fn confidence() -> u32 {
    PrefetchConfig::default().confidence
}

/// Harts that share a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SharedBy {
    /// So many harts.
    Harts(u32),
    /// All of them.
    All(All),
}

/// The word for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum All {
    /// "all"
    All,
}

impl SharedBy {
    /// As a number; `"all"` is a number that no machine exceeds.
    pub fn harts(self) -> u32 {
        match self {
            SharedBy::Harts(n) => n,
            SharedBy::All(All::All) => MAX_HARTS,
        }
    }
}

/// What happens to modified lines that arrive at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WritePolicy {
    /// They stay until they are evicted.
    Back,
    /// They are passed on at once.
    Through,
}

fn inclusive() -> Inclusion {
    Inclusion::Inclusive
}

fn lru() -> Replacement {
    Replacement::Lru
}

fn back() -> WritePolicy {
    WritePolicy::Back
}

impl LevelConfig {
    /// Number of sets of each cache.
    pub fn sets(&self) -> u64 {
        self.size.0 / (u64::from(self.ways) * 64)
    }

    /// Its prefetcher.
    pub fn prefetch(&self) -> PrefetchConfig {
        PrefetchConfig {
            prefetcher: self.prefetcher,
            degree: self.degree,
            distance: self.distance.unwrap_or(self.degree),
            entries: self.prefetch_entries,
            confidence: self.prefetch_confidence,
        }
    }
}

/// Turns the list of `[[cache]]` tables into a table by name, so that every value has a key:
/// `cache.llc.size`.
pub(super) fn name_levels(source: &Source, table: &mut Table) -> Result<(), ConfigError> {
    let Some(Value::Array(list)) = table.get("cache") else {
        return Ok(());
    };
    let wrong = |problem: &str| ConfigError::Invalid {
        place: Place::of_key(source, "cache"),
        key: "cache".into(),
        problem: problem.into(),
    };
    let mut named = Table::new();
    for level in list {
        let mut level = level
            .as_table()
            .ok_or_else(|| wrong("expected tables: [[cache]]"))?
            .clone();
        let Some(Value::String(name)) = level.remove("name") else {
            return Err(wrong(
                "a level without a name: add one, such as name = \"l2\"",
            ));
        };
        if name.contains('.') || named.insert(name.clone(), Value::Table(level)).is_some() {
            let problem = format!("`{name}` is no name of a level, or that of two");
            return Err(wrong(&problem));
        }
    }
    table.insert("cache".into(), Value::Table(named));
    Ok(())
}
