//! Results.

use crate::step::Site;
use crate::subject::Outcome;
use schemars::JsonSchema;
use serde::Serialize;

/// Names of places in the code.
pub trait Resolve {
    /// Function, file and line of a virtual address in a process, as far as known.
    fn resolve(&self, process: u64, pc: u64) -> Frame;
}

/// Knows no names.
pub struct Unresolved;

impl Resolve for Unresolved {
    fn resolve(&self, _process: u64, pc: u64) -> Frame {
        Frame {
            pc,
            ..Frame::default()
        }
    }
}

/// A place in the code, with names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Frame {
    /// Virtual address.
    pub pc: u64,
    /// Function, with the distance from its start in bytes.
    pub symbol: Option<(String, u64)>,
    /// Source file and line, counted from 1.
    pub source: Option<(String, u32)>,
}

/// Whether a line's newer stores are lost in a failing content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// They are lost; with them, recovery would succeed.
    Lost,
    /// They are there; without them, recovery would succeed.
    Kept,
}

/// A store in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingStore {
    /// Whether it is there.
    pub change: Change,
    /// Physical address.
    pub paddr: u64,
    /// Number of the step in the history.
    pub step: u64,
    /// Hart.
    pub hart: u16,
    /// Machine time in picoseconds.
    pub time: u64,
    /// Place in the code.
    pub site: Site,
    /// Names of the place and of its callers, innermost first.
    pub frames: Vec<Frame>,
}

/// A content from which software does not recover, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Twelve hexadecimal digits that depend on the cause only.
    pub id: String,
    /// How recovery ended.
    pub outcome: Outcome,
    /// In words.
    pub message: String,
    /// The first store whose loss matters (or whose presence, if no loss does), then the other ones.
    pub stores: Vec<FindingStore>,
    /// Step of the history at which the power was cut.
    pub step: u64,
    /// How many failing contents have this cause.
    pub count: u64,
    /// Lines that make up the content, beyond the durable ones: physical address and bytes in hexadecimal digits. All other
    /// undecided lines are as in `rest`.
    pub lines: Vec<(u64, String)>,
    /// Output.
    pub text: String,
}

/// What of a cut was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CutReport {
    /// Step of the history.
    pub step: u64,
    /// Undecided lines.
    pub undecided: u64,
    /// Contents that the cut may leave; `None`: not counted (2^127 or more, or limits across lines).
    pub states: Option<u64>,
    /// Whether all of them are accounted for.
    pub complete: bool,
}

/// Sums over all cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Cuts.
    pub cuts: u64,
    /// Cuts all of whose contents are accounted for.
    pub complete: u64,
}

/// Result of an exploration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// What was tried and what was not.
    pub coverage: Coverage,
    /// Recoveries carried out.
    pub recoveries: u64,
    /// By the order in which they were found.
    pub findings: Vec<Finding>,
    /// Cut by cut.
    pub cuts: Vec<CutReport>,
}

/// The report as JUnit XML.
pub fn junit(report: &Report) -> String {
    let _ = report;
    todo!()
}

/// The report as SARIF 2.1.0.
pub fn sarif(report: &Report) -> serde_json::Value {
    let _ = report;
    todo!()
}
