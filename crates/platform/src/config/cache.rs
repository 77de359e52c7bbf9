//! Descriptions of outer cache levels.

use super::types::Replacement;
use super::{ConfigError, Place, Size, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A number of harts that no machine exceeds: each hart has statistics registers.
pub const MAX_HARTS: u32 = crate::control::HARTS as u32;

/// A level of caches behind the first.
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
    /// Core cycles from issue of a load to issue of its use if the line is found here: what a
    /// pointer chase takes for each step. At least that of the level before. A line that is not
    /// here is asked for in memory after that time.
    pub latency: u32,
    /// Core cycles in addition to the latency if another hart, for which this is the nearest level that
    /// both share, has the line modified.
    #[serde(default)]
    pub probe_latency: u32,
    /// What it has in common with the caches before it.
    #[serde(default = "inclusive")]
    pub inclusion: Inclusion,
    /// Replacement policy. Hits in first-level caches are not seen here.
    #[serde(default = "lru")]
    pub replacement: Replacement,
    /// What becomes of modified lines that come here.
    #[serde(default = "back")]
    pub write: WritePolicy,
}

/// Harts that share a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SharedBy {
    /// That many.
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

/// What a level has in common with the caches nearer to the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All of theirs: a line that it gives up is taken away from them, too.
    Inclusive,
    /// What has passed and has not given way since.
    NonInclusive,
    /// What they have given up: nothing stays here on its way from memory, and a hit for data moves
    /// the line to the core unless other harts have it, too.
    Exclusive,
}

/// What becomes of modified lines that come to a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WritePolicy {
    /// They stay until they give way.
    Back,
    /// They go on at once.
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
