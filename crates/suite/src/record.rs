//! Results of runs, as they are stored.

use crate::conditions::Conditions;
use crate::figures::Figures;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the stored form.
pub const FORMAT: u32 = 1;

/// Why a run has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// In a sentence.
    pub why: String,
    /// The last lines of its output and of its messages.
    pub tail: String,
}

/// Figures of the host, which differ from run to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Elapsed seconds of the run.
    pub seconds: f64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this form.
    pub format: u32,
    /// The program's name.
    pub program: String,
    /// Under what it ran.
    pub conditions: Conditions,
    /// Hash of everything on which the figures depend.
    pub key: String,
    /// Fingerprint of the emulator's model.
    pub model: String,
    /// Versions of the program's packages, or of the compiler of one of ours.
    pub versions: BTreeMap<String, String>,
    /// Instructions of all harts from the start of the script to its end, whether timed or not.
    pub whole_instructions: u64,
    /// SHA-256 of its standard output.
    pub output: String,
    /// The figures of its timed part; absent if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Figures of the host.
    pub host: Host,
}
