//! Mistakes that the stream of steps shows by itself, without a crash.

use crate::model::Model;
use crate::step::{SiteId, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is wrong, or needless.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// Stored, and not flushed until the end.
    NeverFlushed,
    /// Flushed, and no fence came before an operation was done or the end.
    FenceMissing,
    /// Output before what the process had stored was durable.
    OutputTooEarly,
    /// Flushed although nothing had been stored since the last flush.
    FlushNeedless,
    /// A fence after which, as far as NVMM is concerned, nothing was ordered that was not before.
    FenceNeedless,
}

/// A mistake at a place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is wrong.
    pub kind: WarningKind,
    /// The store, flush or fence.
    pub site: SiteId,
    /// Where it showed (the output, the marker), if not at the end.
    pub seen_at: Option<SiteId>,
    /// How often.
    pub count: u64,
    /// A line for which it is so, the first one.
    pub line: Option<u64>,
}

/// Watches a stream of steps.
pub struct Online {
    model: Model,
}

impl Online {
    /// Nothing seen yet.
    pub fn new(model: Model) -> Online {
        Online { model }
    }

    /// Takes the next step.
    pub fn step(&mut self, step: &Step) {
        let _ = (step, &self.model);
    }

    /// What was found, by kind and site.
    pub fn finish(self) -> Vec<Warning> {
        Vec::new()
    }
}
