//! Descriptions of NVMM that is emulated by epochs (docs/epoch.md).

use super::check::{ensure, within, Problem};
use super::region::{RegionConfig, DRAM};
use super::types::MachineConfig;
use nagori_epoch::{Attribution, Variant, Weight};
use nagori_memtime::units::ps_text;
use nagori_memtime::{Method, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Emulation by counters: NVMM costs what DRAM costs, and at the end of an epoch a hart's time moves on by what the
/// slower memory would have added, as far as counters tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EpochConfig {
    /// The formulas; without them there are no epochs, and NVMM is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// The delay method that is emulated, where NVMM is behind the board's controller. Where it has a memory of its
    /// own, that one is emulated.
    pub of: Method,
    /// Length of an epoch, 10 us to 10 ms.
    pub length: Time,
    /// Whether an epoch also ends before an instruction by which others learn of a hart's progress: an atomic, a fence
    /// behind stores, an access to a device, `wfi`, a marker.
    pub hand_over: bool,
    /// An epoch that is shorter goes on beyond such an instruction.
    pub shortest: Time,
    /// Which reads and writes are those of the emulated memory: `nvmm`, which takes counters by node of memory, or
    /// `all`.
    pub memory: EpochMemory,
    /// Which misses count as those with a write-back.
    pub attribution: Attribution,
    /// What a miss that only reads is waited for on the emulated memory. Measured by a chase if it is left out, and so
    /// are the next three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Time>,
    /// What a miss that also has to write back a line is waited for there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Time>,
    /// What a miss is waited for on DRAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram: Option<Time>,
    /// How many times longer that is than what a hit in the last-level cache is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub weight: Option<Weight>,
    /// Known faults of real counters.
    pub faults: EpochFaults,
}

/// Which memory is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EpochMemory {
    /// NVMM: counters tell from which node a line came.
    Nvmm,
    /// All memory, as on a processor with one node.
    All,
}

/// Faults that counters of real processors have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EpochFaults {
    /// Misses of wrong paths that are counted, in thousandths of the others, 0 to 1000.
    pub speculation: u32,
    /// Whether lines that prefetchers read count as misses.
    pub prefetches: bool,
    /// In how many turns the stall counter, the counters of misses and those of the memory controller use the hardware,
    /// 1 to 3; with more than one, each counts in its epochs only, and what it counted last stands for the others.
    pub turns: u32,
    /// How long a hart is kept from its work at the end of each epoch, up to 1 ms; that is taken off the delay.
    pub reading: Time,
}

/// A time with its unit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Time(
    #[serde(with = "ps_text")]
    #[schemars(with = "String")]
    pub Ps,
);

/// Lengths of epochs that are possible, in picoseconds.
const LENGTHS: std::ops::RangeInclusive<u64> = 10_000_000..=10_000_000_000;
/// Longest time of reading counters.
const MOST_READING: u64 = 1_000_000_000;

impl Default for EpochConfig {
    fn default() -> Self {
        EpochConfig {
            variant: None,
            of: Method::Extended,
            length: Time(Ps::from_ns(1_000_000)),
            hand_over: true,
            shortest: Time::default(),
            memory: EpochMemory::Nvmm,
            attribution: Attribution::Uniform,
            read: None,
            write: None,
            dram: None,
            weight: None,
            faults: EpochFaults::default(),
        }
    }
}

impl Default for EpochFaults {
    fn default() -> Self {
        EpochFaults {
            speculation: 0,
            prefetches: false,
            turns: 1,
            reading: Time::default(),
        }
    }
}

impl EpochConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl MachineConfig {
    /// The machine on which epochs emulate NVMM: it costs what DRAM costs, in a memory of its own if DRAM has one.
    pub fn with_nvmm_as_dram(&self) -> MachineConfig {
        let mut like = self.clone();
        like.method = Method::Dram;
        like.epoch.variant = None;
        let boundary = self.memory.nvmm_boundary.0;
        let dram = self.memory.regions.get(DRAM);
        for r in self.regions().iter().filter(|r| r.base >= boundary) {
            like.memory.regions.remove(r.name);
            if let Some(dram) = dram {
                let place = RegionConfig {
                    base: r.config.base,
                    size: r.config.size,
                    ..dram.clone()
                };
                like.memory.regions.insert(r.name.to_owned(), place);
            }
        }
        like
    }
}

pub(super) fn check(c: &MachineConfig) -> Result<(), Problem> {
    let e = &c.epoch;
    let length = e.length.0 .0;
    ensure(LENGTHS.contains(&length), "epoch.length", || {
        format!("{} is outside 10 us to 10 ms", e.length.0)
    })?;
    ensure(e.shortest <= e.length, "epoch.shortest", || {
        format!("{} is longer than an epoch ({})", e.shortest.0, e.length.0)
    })?;
    let f = &e.faults;
    within("epoch.faults.speculation", f.speculation.into(), 0, 1000)?;
    within("epoch.faults.turns", f.turns.into(), 1, 3)?;
    ensure(
        f.reading.0 .0 <= MOST_READING,
        "epoch.faults.reading",
        || format!("{} is longer than 1 ms", f.reading.0),
    )?;
    ensure(e.of != Method::Dram, "epoch.of", || {
        "`dram` delays nothing: expected coarse, fine or extended".into()
    })?;
    if e.variant.is_none() {
        return Ok(());
    }
    ensure(
        c.memory.nvmm_boundary < c.memory.size,
        "epoch.variant",
        || "there is no NVMM to emulate: memory.nvmm_boundary is the end of memory".into(),
    )?;
    // DRAM's memory may be too small for NVMM.
    super::region::check(&c.with_nvmm_as_dram())
}
