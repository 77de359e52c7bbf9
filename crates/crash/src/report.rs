//! Results, for people and programs. The JSON form of [`Report`] has the schema that [`Report::schema`] returns.

mod files;
mod merge;

pub use files::{below, junit, sarif};
pub(crate) use merge::causes;
pub use merge::merge;

use crate::cut::PointKind;
use crate::online::{Warning, WarningKind};
use crate::step::{Bytes, Sink, Site, SiteId, Sites};
use crate::subject::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// Names of places in the code.
pub trait Resolve {
    /// Function, file and line of a virtual address in a process, as far as known.
    fn resolve(&self, process: u64, pc: u64) -> Frame;
}

/// The names of a place and of its callers, innermost first. What is known of a caller is the address behind its call;
/// its line is that of the call.
pub(crate) fn frames_of(resolve: &dyn Resolve, site: &Site) -> Vec<Frame> {
    let mut frames = vec![resolve.resolve(site.process, site.pc)];
    frames.extend(site.stack.iter().map(|&back| {
        let call = resolve.resolve(site.process, back.wrapping_sub(1));
        Frame {
            source: call.source,
            ..resolve.resolve(site.process, back)
        }
    }));
    frames
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

/// A function, and a place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Distance from its start in bytes.
    pub offset: u64,
}

/// A place in the code, with names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Virtual address.
    pub pc: u64,
    /// The function.
    pub symbol: Option<Symbol>,
    /// Source file and line, counted from 1.
    pub source: Option<(String, u32)>,
}

/// What matters about a store in a failing content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is lost; with it, recovery would not fail so.
    Lost,
    /// It is there; without it, recovery would not fail so.
    Kept,
}

/// What the lines have that a finding does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rest {
    /// Their newest content.
    Newest,
    /// Their durable content.
    Durable,
}

/// A store in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingStore {
    /// What matters about it.
    pub change: Change,
    /// Physical address.
    pub paddr: u64,
    /// Number of the step in the history, counted from 1.
    pub step: u64,
    /// Hart.
    pub hart: u16,
    /// Machine time in picoseconds.
    pub time_ps: u64,
    /// Place in the code.
    pub site: Site,
    /// Names of the place and of its callers, innermost first.
    pub frames: Vec<Frame>,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineContent {
    /// Physical address.
    pub paddr: u64,
    /// 64 bytes as 128 hexadecimal digits.
    pub bytes: String,
}

/// The form of a line's content in reports.
pub(crate) fn line_content(paddr: u64, bytes: &Bytes) -> LineContent {
    LineContent {
        paddr,
        bytes: bytes.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// The first of two cuts: the second one came while software recovered from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recut {
    /// Steps of the workload's history before it.
    pub step: u64,
    /// What the next step was.
    pub kind: PointKind,
    /// Markers of operations before it.
    pub operation: u32,
    /// Names of the place, and of its callers.
    pub frames: Vec<Frame>,
    /// What it left: lines that differ from the content at the beginning.
    pub content: Vec<LineContent>,
}

/// Cuts during recovery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecutReport {
    /// Successful recoveries that stored to NVMM, one of all contents in which what they read or overwrite is the same.
    pub storing: u64,
    /// How many of them were recorded and cut.
    pub recorded: u64,
    /// Cuts that were tried.
    pub cuts: u64,
    /// Cuts all of whose contents are accounted for.
    pub complete: u64,
    /// Contents that these cuts may leave.
    pub states: f64,
    /// For how many of them the result is known by a systematic search.
    pub states_covered: f64,
    /// Recoveries carried out; they are in [`Report::recoveries`], too.
    pub recoveries: u64,
    /// Contents that fail; they are in [`Report::failures`], too.
    pub failures: u64,
}

impl RecutReport {
    /// Adds those of another shard.
    fn add_part(&mut self, part: &RecutReport) {
        self.storing += part.storing;
        self.recorded += part.recorded;
        self.cuts += part.cuts;
        self.complete += part.complete;
        self.states += part.states;
        self.states_covered += part.states_covered;
        self.recoveries += part.recoveries;
        self.failures += part.failures;
    }

    /// Adds the search of one recovery.
    pub(crate) fn add(&mut self, one: &Report) {
        self.cuts += one.coverage.cuts;
        self.complete += one.coverage.complete;
        self.states += one.coverage.states;
        self.states_covered += one.coverage.states_covered;
        self.recoveries += one.recoveries;
        self.failures += one.failures;
    }
}

/// A content from which software does not recover, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Twelve hexadecimal digits that depend on the cause only.
    pub id: String,
    /// How recovery ended.
    pub outcome: Outcome,
    /// The oracle of prefixes found it: the output is wrong.
    pub prefix: bool,
    /// In words.
    pub message: String,
    /// The stores that matter: first the guilty one, the earliest whose loss matters (or whose presence, if no loss
    /// does).
    pub stores: Vec<FindingStore>,
    /// Whether each of them matters; otherwise the search ended before that was known.
    pub minimal: bool,
    /// The power was cut after so many steps of the history.
    pub step: u64,
    /// What the next step is.
    pub kind: PointKind,
    /// Markers of operations before the cut.
    pub operation: u32,
    /// Number of the place at which the power was cut: equal in [`CutReport::site`].
    pub cut_site: Option<u32>,
    /// Machine time of the last step before the cut, in picoseconds.
    pub cut_time_ps: Option<u64>,
    /// Names of that place and its callers.
    pub cut_frames: Vec<Frame>,
    /// How many failing contents have this cause.
    pub count: u64,
    /// What the undecided lines have that `content` does not list.
    pub rest: Rest,
    /// Contents of undecided lines of the cut.
    pub content: Vec<LineContent>,
    /// Output.
    pub text: String,
    /// The first cut, if the one above is a second one, during recovery: steps and places are those of the recovery
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recut: Option<Recut>,
}

/// A mistake seen without a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarningReport {
    /// What it is.
    pub kind: WarningKind,
    /// The place in the code.
    pub site: Site,
    /// Its names.
    pub frames: Vec<Frame>,
    /// Where it showed, if not at the end.
    pub seen_at: Vec<Frame>,
    /// How often.
    pub count: u64,
    /// Physical address of a line for which it is so.
    pub line: Option<u64>,
    /// To whom output went that was too early.
    #[serde(default)]
    pub sink: Option<Sink>,
}

/// A store that recovery reads although it may be lost. Not an error by itself: logs with checksums do it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndecidedRead {
    /// The place in the code.
    pub site: Site,
    /// Its names.
    pub frames: Vec<Frame>,
    /// In how many cuts.
    pub cuts: u64,
}

/// Why something was not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Left {
    /// The budget was used up.
    Budget,
    /// More lines or contents than are searched exhaustively: up to two lines lost (or kept), with some of their
    /// contents, and random contents were tried.
    Lines,
    /// Contents that lose more than one that fails, or the rest of a cut of which eight contents fail.
    Failing,
    /// A line has more contents than are looked at.
    Contents,
}

/// What of a cut was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CutReport {
    /// Steps of the history before it.
    pub step: u64,
    /// What the next step is.
    pub kind: PointKind,
    /// Markers of operations before it.
    pub operation: u32,
    /// Number of the place of the last step.
    pub site: Option<u32>,
    /// Undecided lines.
    pub undecided: u64,
    /// Contents that the cut may leave.
    pub states: f64,
    /// For how many of them the result is known by a systematic search (random ones are not counted).
    pub states_covered: f64,
    /// Whether all are accounted for.
    pub complete: bool,
    /// What is left, if not.
    pub left: Vec<Left>,
}

/// What was tried and what was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Cuts that were tried.
    pub cuts: u64,
    /// Cuts that may leave the same as one of these.
    pub duplicates: u64,
    /// Cuts that fell to other parts (`--shard`).
    pub other_shards: u64,
    /// Cuts all of whose contents are accounted for.
    pub complete: u64,
    /// Contents that the cuts may leave, in all.
    pub states: f64,
    /// For how many of them the result is known by a systematic search.
    pub states_covered: f64,
    /// Contents that were tried, with or without a recovery of their own.
    pub contents_tried: u64,
    /// Contents that were tried, by kind: `NoneLost`, `AllLost`, `One`, `Two`, `Commit`, `Random`, `Rest`.
    pub tried: BTreeMap<String, u64>,
    /// Lines of which not all contents were looked at.
    pub capped_lines: Vec<u64>,
    /// Recoveries that read something else than an earlier one with the same contents: more than 0 means that the
    /// subject is not deterministic, and nothing is complete.
    pub unstable: u64,
    /// The budget (or the caller) ended the search.
    pub stopped: bool,
}

/// Result of an exploration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this form.
    pub version: u32,
    /// What was tried and what was not.
    pub coverage: Coverage,
    /// Recoveries carried out.
    pub recoveries: u64,
    /// Contents that fail.
    pub failures: u64,
    /// Causes of failures, those that need the fewest lines first.
    pub findings: Vec<Finding>,
    /// What showed without a crash.
    pub warnings: Vec<WarningReport>,
    /// Stores that recovery reads although they may be lost.
    pub undecided_reads: Vec<UndecidedRead>,
    /// Cut by cut.
    pub cuts: Vec<CutReport>,
    /// Which part of all cuts was searched (`--shard`): number, counted from 1, and how many parts there are.
    #[serde(default)]
    pub shard: Option<(u32, u32)>,
    /// Cuts during recovery, if there were to be any.
    #[serde(default)]
    pub recuts: Option<RecutReport>,
    /// Number of the signal that ended the search: what is not covered was not tried for that reason.
    #[serde(default)]
    pub signal: Option<u8>,
    /// What limits what the search can find, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Report {
    /// Why the search ended before everything was tried, in words.
    pub fn ended_early(&self) -> Option<String> {
        match self.signal {
            Some(n) => Some(format!("the search was ended by signal {n}")),
            None if self.coverage.stopped => Some("the search ended early".into()),
            None => None,
        }
    }

    /// Adds what [`crate::Online`] found.
    pub fn add_warnings(&mut self, warnings: &[Warning], sites: &Sites, resolve: &dyn Resolve) {
        let frames = |site: Option<SiteId>| -> Vec<Frame> {
            let Some(site) = site.and_then(|s| sites.get(s)) else {
                return Vec::new();
            };
            frames_of(resolve, site)
        };
        self.warnings.extend(warnings.iter().map(|w| WarningReport {
            kind: w.kind,
            site: sites.get(w.site).cloned().unwrap_or_default(),
            frames: frames(Some(w.site)),
            seen_at: frames(w.seen_at),
            count: w.count,
            line: w.line,
            sink: w.sink,
        }));
    }

    /// The JSON schema of reports.
    pub fn schema() -> serde_json::Value {
        serde_json::to_value(schemars::schema_for!(Report)).unwrap_or_default()
    }
}

/// Callers that tell causes apart.
const FRAMES_OF_CAUSE: usize = 4;

/// A place with its callers, as it tells causes apart.
pub(crate) fn key(frames: &[Frame]) -> String {
    let one = |f: &Frame| match (&f.symbol, &f.source) {
        (Some(s), Some((file, line))) => format!("{} {file}:{line}", s.name),
        (Some(s), None) => format!("{}+{:#x}", s.name, s.offset),
        (None, Some((file, line))) => format!("{file}:{line}"),
        (None, None) => format!("{:#x}", f.pc),
    };
    let list: Vec<String> = frames.iter().take(FRAMES_OF_CAUSE).map(one).collect();
    list.join(" < ")
}
