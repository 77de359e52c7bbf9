//! From counts to the delay of an epoch.

use std::fmt;
use std::str::FromStr;

use nagori_memtime::units::ps_text;
use nagori_memtime::{Period, Ps};
use nagori_values::scan;
use serde::{Deserialize, Serialize};

use crate::{Amount, Counts, Error};

/// A factor in thousandths. Written and read as a decimal ("4.2").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Weight(pub u32);

impl Weight {
    /// Nothing.
    pub const ZERO: Weight = Weight(0);
    /// One.
    pub const ONE: Weight = Weight(1000);
    const MOST: Weight = Weight(1_000_000);

    /// `a / b`, to the nearest thousandth. `None` if it does not fit.
    pub fn ratio(a: Ps, b: Ps) -> Option<Weight> {
        let (a, b) = (u128::from(a.0) * 1000, u128::from(b.0));
        u32::try_from((a + b / 2).checked_div(b)?).ok().map(Weight)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl FromStr for Weight {
    type Err = String;
    fn from_str(text: &str) -> Result<Weight, String> {
        let bad = || {
            format!(
                "`{text}` is no factor: expected a decimal with at most three places, such as 4.2"
            )
        };
        let number = scan(text).filter(|(_, unit)| unit.is_empty());
        let thousandths = number.and_then(|(n, _)| n.times(1000).ok());
        let weight = thousandths.and_then(|t| u32::try_from(t).ok()).map(Weight);
        weight.ok_or_else(bad)
    }
}

impl From<Weight> for String {
    fn from(w: Weight) -> String {
        w.to_string()
    }
}
impl TryFrom<String> for Weight {
    type Error = String;
    fn try_from(text: String) -> Result<Weight, String> {
        text.parse()
    }
}

/// The formulas. Symbols and sources are in docs/epoch.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Koshiba et al. 2016: stall cycles, split into those of misses with and without a write-back.
    #[default]
    Koshiba,
    /// Koshiba et al. 2019 and their program MESMERIC: the same, but all misses count as those with a write-back as
    /// soon as the counters contradict each other.
    Mesmeric,
    /// Quartz (Volos et al. 2015): stall cycles, all of them as reads.
    Quartz,
    /// The simple model that Quartz improves on: each miss is as much longer as the memory is slower. Right only if
    /// a core waits for one line at a time.
    Misses,
    /// The simple model, with misses split as in [`Variant::Koshiba`]: for processors that count no stall cycles.
    MissesWritebacks,
}

impl Variant {
    /// Every variant with its name.
    pub const ALL: [(&'static str, Variant); 5] = [
        ("koshiba", Variant::Koshiba),
        ("mesmeric", Variant::Mesmeric),
        ("quartz", Variant::Quartz),
        ("misses", Variant::Misses),
        ("misses-writebacks", Variant::MissesWritebacks),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|v| v.1 == self).map_or("", |v| v.0)
    }

    /// Whether it needs stall cycles and hits in the last-level cache.
    pub fn needs_stalls(self) -> bool {
        matches!(self, Variant::Koshiba | Variant::Mesmeric | Variant::Quartz)
    }

    /// Whether it needs write-backs, and the reads of all cores and prefetchers unless there are own victims.
    pub fn needs_writebacks(self) -> bool {
        !matches!(self, Variant::Quartz | Variant::Misses)
    }
}

impl FromStr for Variant {
    type Err = String;
    fn from_str(name: &str) -> Result<Variant, String> {
        let found = Self::ALL.iter().find(|v| v.0 == name);
        found.map(|v| v.1).ok_or_else(|| {
            let names = Self::ALL.map(|v| v.0).join(", ");
            format!("expected one of {names}")
        })
    }
}

/// Which misses had to write back a modified line first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Attribution {
    /// As many as the core's own victims say, if the source counts them; otherwise uniform.
    #[default]
    OwnVictims,
    /// As if write-backs were spread evenly over the misses of all cores and prefetchers, as in the papers.
    Uniform,
}

/// What lines cost that are written to memory by themselves: flushed lines or lines of non-temporal stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerLine {
    /// How long such a line takes on the host's memory, alone.
    #[serde(with = "ps_text")]
    pub base: Ps,
    /// How many are under way at a time: 1 if each is waited for.
    pub overlap: Weight,
}

/// Latencies and weights: those of the host (or the machine), measured, and those of the emulated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The formulas.
    #[serde(default)]
    pub variant: Variant,
    /// Which misses count as those with a write-back.
    #[serde(default)]
    pub attribution: Attribution,
    /// Period of the clock of `stall_cycles`.
    pub clock: Period,
    /// `D0`: latency of a miss on the host.
    #[serde(with = "ps_text")]
    pub dram: Ps,
    /// `R`: latency of a miss that only reads, on the emulated memory.
    #[serde(with = "ps_text")]
    pub read: Ps,
    /// `W`: latency of a miss that also writes back, and of a written line, on the emulated memory.
    #[serde(with = "ps_text")]
    pub write: Ps,
    /// `w`: latency of a miss over that of a hit in the last-level cache, on the host.
    pub weight: Weight,
    /// Latency of a hit in L2 over that of a hit in the last-level cache. Zero where `stall_cycles` begin behind L2.
    pub l2_weight: Weight,
    /// Flushed lines. `None`: they are not delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<PerLine>,
    /// Lines of non-temporal stores. `None`: they are not delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_store: Option<PerLine>,
}

/// Parameters that were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model(Params);

/// A part of a whole that says what was counted as what: `of` misses out of `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The part; at most `all`.
    pub of: u64,
    /// The whole; zero if there was nothing.
    pub all: u64,
}

/// The delay of one epoch and its parts. A part is negative where the emulated memory is faster than the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// What misses that only read have added.
    pub read: Amount,
    /// What misses with a write-back have added.
    pub write: Amount,
    /// What flushed lines have added.
    pub flush: Amount,
    /// What lines of non-temporal stores have added.
    pub nt_store: Amount,
    /// `STALL_ro`: how long the core waited for misses that only read, on the host.
    pub stall_read: Amount,
    /// `STALL_wb`: how long it waited for misses with a write-back, on the host.
    pub stall_write: Amount,
    /// Write-backs beyond one for each miss of the core (own victims) or of all (uniform). They occupy the memory, but
    /// no miss waits for them, so the formulas cannot charge them.
    pub excess_writebacks: u64,
    /// The counters contradict each other: the core missed more often than all cores and prefetchers together.
    pub contradiction: bool,
}

impl Delay {
    /// The delay.
    pub fn total(&self) -> Amount {
        self.read + self.write + self.flush + self.nt_store
    }
}

impl Model {
    /// Checks parameters.
    ///
    /// # Errors
    /// If a latency, a weight or an overlap is out of range.
    pub fn new(params: Params) -> Result<Model, Error> {
        const SECOND: Ps = Ps(1_000_000_000_000);
        let latency = |name, value: Ps| match value {
            Ps::ZERO => Err(Error::Latency { name, value }),
            _ if value > SECOND => Err(Error::Latency { name, value }),
            _ => Ok(()),
        };
        latency("the latency of the host's memory", params.dram)?;
        latency("the latency of reads", params.read)?;
        latency("the latency of writes", params.write)?;
        let weight = |name, value: Weight, least: u32| match value {
            _ if value.0 < least || value > Weight::MOST => Err(Error::Weight { name, value }),
            _ => Ok(()),
        };
        weight("the weight of misses", params.weight, 1)?;
        weight("the weight of hits in L2", params.l2_weight, 0)?;
        for (name, per_line) in [
            ("flushes", params.flush),
            ("non-temporal stores", params.nt_store),
        ] {
            let Some(PerLine { base, overlap }) = per_line else {
                continue;
            };
            latency(name, base)?;
            if overlap < Weight::ONE || overlap > Weight::MOST {
                return Err(Error::Overlap {
                    name,
                    value: overlap,
                });
            }
        }
        Ok(Model(params))
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.0
    }

    /// The delay of an epoch.
    ///
    /// # Errors
    /// If a count is above 2^48, or the delay longer than any run.
    pub fn delay(&self, counts: &Counts) -> Result<Delay, Error> {
        counts.check()?;
        self.delay_of(counts)
            .filter(within_range)
            .ok_or(Error::TooLong)
    }

    /// The delay of an epoch whose counts have been checked; `None` if it does not fit.
    fn delay_of(&self, counts: &Counts) -> Option<Delay> {
        let p = &self.0;
        let mut delay = Delay::default();
        let share = self.with_writeback(counts, &mut delay);
        if p.variant.needs_stalls() {
            let waited = self.waited(counts)?;
            delay.stall_write = part(waited, share)?;
            delay.stall_read = waited - delay.stall_write;
            delay.write = slower(delay.stall_write, p.write, p.dram, p.dram)?;
            delay.read = slower(delay.stall_read, p.read, p.dram, p.dram)?;
        } else {
            let misses = Amount::of_count(counts.llc_misses);
            let write = part(misses, share)?;
            delay.write = slower(write, p.write, p.dram, Ps(1))?;
            delay.read = slower(misses - write, p.read, p.dram, Ps(1))?;
        }
        delay.flush = lines(counts.flushes, p.flush, p.write)?;
        delay.nt_store = lines(counts.nt_stores, p.nt_store, p.write)?;
        Some(delay)
    }

    /// How long the core waited for memory: the stall time, times the share that misses have in it.
    fn waited(&self, counts: &Counts) -> Option<Amount> {
        let (ps, periods) = self.0.clock.fraction();
        let stalled = Amount::of(Ps(counts.stall_cycles)).scaled(ps.into(), periods.into())?;
        let weighted = |n: u64, w: Weight| u128::from(n) * u128::from(w.0);
        let misses = weighted(counts.llc_misses, self.0.weight);
        let all = weighted(counts.l2_hits, self.0.l2_weight)
            + weighted(counts.llc_hits, Weight::ONE)
            + misses;
        if all == 0 {
            return Some(Amount::ZERO);
        }
        stalled.scaled(misses, all)
    }

    /// `miss_wb / miss`, and what the counters say that it cannot.
    fn with_writeback(&self, counts: &Counts, delay: &mut Delay) -> Share {
        let p = &self.0;
        let misses = counts.llc_misses;
        let all = |of| Share { of, all: misses };
        if !p.variant.needs_writebacks() {
            return all(0);
        }
        let own = counts
            .own_victims
            .filter(|_| p.attribution == Attribution::OwnVictims);
        if let Some(own) = own {
            delay.excess_writebacks = own.saturating_sub(misses);
            return all(own.min(misses));
        }
        let reads = counts.reads();
        delay.contradiction = misses > reads;
        delay.excess_writebacks = counts.writebacks.saturating_sub(reads.max(misses));
        if p.variant == Variant::Mesmeric && (delay.contradiction || counts.writebacks > reads) {
            return all(misses);
        }
        // If the core alone missed more than all together, its own count is the better sum.
        let reads = reads.max(misses);
        Share {
            of: counts.writebacks.min(reads),
            all: reads,
        }
    }
}

/// The part of an amount that a share says.
fn part(amount: Amount, share: Share) -> Option<Amount> {
    match share.all {
        0 => Some(Amount::ZERO),
        all => amount.scaled(share.of.into(), all.into()),
    }
}

/// `amount * (latency - base) / unit`; negative if the latency is below the base.
fn slower(amount: Amount, latency: Ps, base: Ps, unit: Ps) -> Option<Amount> {
    let by = amount.scaled(latency.0.abs_diff(base.0).into(), unit.0.into())?;
    Some(if latency < base { -by } else { by })
}

/// What `n` written lines have added.
fn lines(n: u64, cost: Option<PerLine>, write: Ps) -> Option<Amount> {
    let Some(PerLine { base, overlap }) = cost else {
        return Some(Amount::ZERO);
    };
    let rounds = Amount::of_count(n).scaled(1000, overlap.0.into())?;
    slower(rounds, write, base, Ps(1))
}

/// Whether all parts are small enough that sums of many epochs fit.
fn within_range(delay: &Delay) -> bool {
    let most = Amount::of(Ps::MAX_TIME);
    [delay.read, delay.write, delay.flush, delay.nt_store]
        .iter()
        .all(|&a| a <= most && -a <= most)
}
