//! What is tested: something that recovers from a content of NVMM.

use crate::cut::Cut;
use crate::step::{Bytes, Sites};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A content of NVMM after a cut.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Lines that differ from the content with which the history began (its reader's), by ascending address.
    pub lines: &'a [(u64, Bytes)],
    /// Lines that differ between states of this exploration, by ascending address. [`Recovery::reads`] tells of these.
    pub watched: &'a [u64],
}

/// How a recovery ended.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Outcome {
    /// Recovery and check succeeded.
    Ok,
    /// The recovering program ended with an exit code other than 0.
    RecoverExit {
        /// The code; 128 and the signal's number for a signal.
        code: i32,
    },
    /// The checking program did.
    CheckExit {
        /// The code.
        code: i32,
    },
    /// The guest's kernel panicked.
    Panic,
    /// No end within the limit of guest time.
    Hang,
    /// A file system's check found errors.
    Fsck,
    /// A checker outside the machine said no.
    Checker,
}

/// What a recovery did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The watched lines that it read before it had overwritten all of what it read, by the time of the first read. A
    /// line too many costs time; a line too few hides states.
    pub reads: Vec<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Digest of what it and the check put out, for the oracle of prefixes; `None` if that is not known.
    pub output: Option<u64>,
    /// Some lines of output for the reader of a report.
    pub text: String,
    /// Whether it stored to NVMM, so that a power cut during it may leave something else.
    pub stores: bool,
    /// The watched lines to which it stored, by ascending address.
    pub stored: Vec<u64>,
}

/// What a recovery did to NVMM, for power cuts during it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Cuts, in order. What they call the beginning is the content from which it recovered.
    pub cuts: Vec<Cut>,
    /// Places in the code.
    pub sites: Sites,
}

/// What is tested. A recovery may depend on nothing but the state.
pub trait Subject: Sync {
    /// Recovers from `state`. Called from several threads at once.
    ///
    /// # Errors
    /// The recovery could not be carried out (host out of memory, ...): the exploration ends.
    fn recover(&self, state: &State) -> Result<Recovery, String>;

    /// Recovers from `state` once more, and records what it does to NVMM. `None` if this subject cannot. Called from
    /// several threads at once.
    ///
    /// # Errors
    /// As for [`recover`](Self::recover).
    fn record(&self, _state: &State) -> Result<Option<Record>, String> {
        Ok(None)
    }
}
