//! Descriptions of NVMM that is emulated by epochs (docs/epoch.md).

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
pub(crate) const LENGTHS: std::ops::RangeInclusive<u64> = 10_000_000..=10_000_000_000;
/// Longest time of reading counters.
pub(crate) const MOST_READING: u64 = 1_000_000_000;

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
