//! Which contents of NVMM a power cut may leave, and the search for those from which software does not recover.
//!
//! A [`History`] takes what harts did to NVMM ([`Step`]), in the order of commit. [`History::cut`] says what a power
//! cut would leave now: durable lines, and lines of which several contents are possible. [`explore`] tries the contents
//! of many cuts on a [`Subject`], a recovery, and decides only those lines that recovery reads. Its [`Report`] has the
//! [`Finding`]s and what was covered. [`Online`] finds mistakes in the stream of steps itself. This crate knows no
//! machine. The model is described in docs/crash-model.md.

mod cut;
mod explore;
mod history;
mod line;
mod lines;
mod model;
mod online;
mod report;
mod step;
mod subject;

pub use cut::{Candidate, Cut, PointKind, StoreRef, Undecided};
pub use explore::{explore, Budget, Progress, Work};
pub use history::{History, Reader};
pub use lines::Lines;
pub use model::{Domain, GpfChoice, Mode, Model, Order, StoreBuffer};
pub use online::{Online, Warning, WarningKind};
pub use report::{
    below, junit, merge, sarif, Change, Coverage, CutReport, Finding, FindingStore, Frame, Left,
    LineContent, Recut, RecutReport, Report, Resolve, Rest, Symbol, UndecidedRead, Unresolved,
    WarningReport,
};
pub use step::{
    line_of, At, Bytes, FenceSet, FlushOp, Sink, Site, SiteId, Sites, Step, StoreOrder, LINE,
};
pub use subject::{Outcome, Record, Recovery, State, Subject};
