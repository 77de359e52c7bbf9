//! Description of the light timed mode.

use super::cache::Prefetcher;
use super::check::{ensure, within, Problem};
use super::stores::NontemporalConfig;
use super::types::MachineConfig;
use nagori_memtime::units::ps_text;
use nagori_memtime::{Method, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Guest time that an epoch may have.
pub(crate) const LENGTHS: RangeInclusive<Ps> = Ps(1_000_000)..=Ps(1_000_000_000_000);
/// One set of L1D in so many is simulated unless the description says otherwise.
const DEFAULT_SETS: u32 = 8;

/// The light timed mode: how long its epochs last, and how much of the caches is simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EpochConfig {
    /// Guest time of an epoch, 1 us to 1 s.
    #[serde(with = "ps_text")]
    #[schemars(with = "String")]
    pub length: Ps,
    /// Instructions of a hart in an epoch, at least 1000, instead of a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// While a hart works alone, one set of its L1D in so many is simulated, 1 (all of them) to 64, a power of two; what its
    /// lines do counts so many times. Without it, one in 8, or as many as L1D has if it has fewer, or all where
    /// something depends on every line, and under methods whose delays are about rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_sets: Option<u32>,
    /// Pipeline and branch prediction are simulated in one stretch of 4096 core cycles in so many, 1 (all of them) to 64; in the
    /// others, instructions take what they take by themselves and the share of the pipeline's waiting that was measured.
    pub sampled_time: u32,
}

impl Default for EpochConfig {
    /// 100 us: a tenth of the time that Linux gives a thread at least. Samples of the sets and of the time.
    fn default() -> Self {
        EpochConfig {
            length: Ps(100_000_000),
            instructions: None,
            sampled_sets: None,
            sampled_time: 16,
        }
    }
}

impl EpochConfig {
    /// Instructions of a hart that an epoch has at least.
    pub const LEAST_INSTRUCTIONS: u64 = 1000;

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) fn check(c: &MachineConfig) -> Result<(), Problem> {
    let e = &c.epoch;
    ensure(LENGTHS.contains(&e.length), "epoch.length", || {
        format!("{}: expected 1 us to 1 s", e.length)
    })?;
    if let Some(n) = e.instructions {
        within(
            "epoch.instructions",
            n,
            EpochConfig::LEAST_INSTRUCTIONS,
            1 << 40,
        )?;
    }
    within(
        "epoch.sampled_time",
        e.sampled_time.into(),
        1,
        nagori_hart::MOST_STRETCHES.into(),
    )?;
    let key = "epoch.sampled_sets";
    let Some(n) = e.sampled_sets else {
        return Ok(());
    };
    ensure(n.is_power_of_two() && n <= most_sets(c), key, || {
        format!("{n}: expected a power of two, and not more than 64 or than L1D has sets")
    })?;
    let what = sees_all(c).filter(|_| n > 1);
    ensure(what.is_none(), key, || {
        let what = what.unwrap_or_default();
        format!("{n}: {what} every line, so all sets are simulated: expected 1")
    })
}

/// One set in so many at most.
fn most_sets(c: &MachineConfig) -> u32 {
    let sets = (c.l1d.size.0 / 64).checked_div(c.l1d.ways.into());
    sets.unwrap_or(1).clamp(1, 64) as u32
}

/// What depends on every line of data.
fn sees_all(c: &MachineConfig) -> Option<&'static str> {
    let all_see = [
        (c.fetches_ahead(), "prefetchers and MSHRs see"),
        (c.store_buffer.entries > 0, "a store buffer sees"),
        (
            c.nontemporal != NontemporalConfig::default(),
            "hints of [nontemporal] see",
        ),
        (c.memory.track_persistence, "memory.track_persistence sees"),
    ];
    all_see.into_iter().find(|w| w.0).map(|w| w.1)
}

impl MachineConfig {
    /// Whether caches may fetch lines for which no hart waits where it asks.
    pub(crate) fn fetches_ahead(&self) -> bool {
        let none = Prefetcher::None;
        let ahead = |p: Prefetcher, mshrs: Option<u32>| p != none || mshrs.is_some();
        let first = [&self.l1d, &self.l1i];
        let outer = self.levels();
        let mut outer = outer.iter().map(|(_, l)| (l.prefetcher, l.mshrs));
        first.iter().any(|c| ahead(c.prefetcher, c.mshrs)) || outer.any(|(p, m)| ahead(p, m))
    }

    /// While a hart works alone, the light mode simulates one set of its L1D in so many under a delay method.
    pub fn sampled_sets(&self, method: Method) -> u32 {
        // A sample says less of rows.
        let by_rows = matches!(method, Method::Fine | Method::Extended);
        let whole = by_rows || sees_all(self).is_some();
        let default = || match whole {
            true => 1,
            false => DEFAULT_SETS.min(most_sets(self)),
        };
        self.epoch.sampled_sets.unwrap_or_else(default)
    }
}
