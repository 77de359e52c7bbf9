//! The rules by which a cut leaves a content: persistence domain and order of stores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From where on nothing is lost; as `memory.persistence_domain` of machine descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "domain")]
pub enum Domain {
    /// Only what the memory has. No instruction tells when that is so.
    None,
    /// The controller's queue: what was flushed, and whose flush a fence waited for.
    Adr,
    /// As `adr`, and the energy stored suffices for some modified lines.
    Gpf {
        /// For how many.
        lines: u64,
        /// For which.
        choice: GpfChoice,
    },
    /// The caches: every store that has left the hart.
    Eadr,
}

/// Which modified lines are saved when the energy does not suffice for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GpfChoice {
    /// The lines with the lowest addresses, as on this emulator's machines.
    Address,
    /// Any: CXL does not say which.
    Any,
}

/// In which order stores of a hart take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As RVWMO promises: overlapping stores, fences, `.aq` and `.rl`; not program order alone.
    #[default]
    Rvwmo,
    /// As they were committed, each line for itself: what the harts of this emulator's machines do.
    Commit,
}

/// Whether a store that was committed may still be in its hart, where nobody else sees it. Only [`Order::Commit`] asks:
/// RVWMO allows store buffers in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreBuffer {
    /// No: it is in a cache at once.
    #[default]
    None,
    /// Yes, and they leave it in order.
    InOrder,
    /// Yes, and those to different lines leave it in any order.
    Any,
}

/// Which contents are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every content that the domain and the architecture allow.
    #[default]
    CouldHave,
    /// The one that this machine would have left, as its write-backs tell.
    AsBuilt,
}

/// The rules of a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// From where on nothing is lost.
    #[serde(flatten)]
    pub domain: Domain,
    /// Order of stores.
    pub order: Order,
    /// Whether stores may be in their harts still.
    #[serde(default)]
    pub store_buffer: StoreBuffer,
    /// Which contents are looked at.
    pub mode: Mode,
    /// A flush has ended when its instruction has, as on the machines of this emulator, and needs no fence. Zicbom does
    /// not promise it.
    pub flush_waits: bool,
    /// At most so many contents of a line are looked at (2 to 65535); the report says where there were more.
    pub max_candidates: usize,
}

impl Model {
    /// `domain` with RVWMO's order, every content that is allowed, at most 256 of a line.
    pub fn new(domain: Domain) -> Model {
        Model {
            domain,
            order: Order::default(),
            store_buffer: StoreBuffer::default(),
            mode: Mode::default(),
            flush_waits: false,
            max_candidates: 256,
        }
    }

    /// Whether every value is in its range.
    ///
    /// # Errors
    /// Which is not.
    pub fn check(&self) -> Result<(), String> {
        if (2..=65535).contains(&self.max_candidates) {
            return Ok(());
        }
        let n = self.max_candidates;
        Err(format!("{n} contents of a line: 2 to 65535 are possible"))
    }
}
