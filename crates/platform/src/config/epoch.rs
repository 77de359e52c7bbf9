//! Description of the light timed mode.

use super::cache::Prefetcher;
use super::check::{ensure, within, Problem};
use super::stores::NontemporalConfig;
use super::types::{MachineConfig, Replacement};
use nagori_memtime::units::ps_text;
use nagori_memtime::Ps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Guest time that an epoch may have.
pub(crate) const LENGTHS: RangeInclusive<Ps> = Ps(1_000_000)..=Ps(1_000_000_000_000);
/// Instructions of a hart that it has at least.
pub(crate) const LEAST_INSTRUCTIONS: u64 = 1000;

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
    /// One set of L1D in so many is simulated, 1 (all of them) to 64, a power of two; what its lines do counts so many
    /// times.
    pub sampled_sets: u32,
    /// Pipeline and branch prediction are simulated in one stretch of 4096 core cycles in so many, 1 (all of them) to 64; in the
    /// others, instructions take what they take by themselves and the share of the pipeline's waiting that was measured.
    pub sampled_time: u32,
}

impl Default for EpochConfig {
    /// 100 us: a tenth of the time that Linux gives a thread at least. All sets and all of the time are simulated.
    fn default() -> Self {
        EpochConfig {
            length: Ps(100_000_000),
            instructions: None,
            sampled_sets: 1,
            sampled_time: 1,
        }
    }
}

impl EpochConfig {
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
        within("epoch.instructions", n, LEAST_INSTRUCTIONS, 1 << 40)?;
    }
    within(
        "epoch.sampled_time",
        e.sampled_time.into(),
        1,
        nagori_hart::MOST_STRETCHES.into(),
    )?;
    let key = "epoch.sampled_sets";
    let n = e.sampled_sets;
    let sets = (c.l1d.size.0 / 64).checked_div(c.l1d.ways.into());
    let most = sets.unwrap_or(1).min(64);
    ensure(n.is_power_of_two() && u64::from(n) <= most, key, || {
        format!("{n}: expected a power of two, and not more than 64 or than L1D has sets")
    })?;
    if n == 1 {
        return Ok(());
    }
    let none = Prefetcher::None;
    let ahead = |p: Prefetcher, mshrs: Option<u32>| p != none || mshrs.is_some();
    let outer = c.levels().iter().any(|(_, l)| ahead(l.prefetcher, l.mshrs));
    let all_see = [
        (
            ahead(c.l1d.prefetcher, c.l1d.mshrs) || ahead(c.l1i.prefetcher, c.l1i.mshrs) || outer,
            "prefetchers and MSHRs see",
        ),
        (
            !matches!(c.l1d.replacement, Replacement::Lfsr | Replacement::Random),
            "l1d.replacement other than lfsr and random sees",
        ),
        (c.store_buffer.entries > 0, "a store buffer sees"),
        (
            c.nontemporal != NontemporalConfig::default(),
            "hints of [nontemporal] see",
        ),
        (c.memory.track_persistence, "memory.track_persistence sees"),
    ];
    for (there, what) in all_see {
        ensure(!there, key, || {
            format!("{n}: {what} every line, so all sets are simulated: expected 1")
        })?;
    }
    Ok(())
}
