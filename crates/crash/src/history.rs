//! What is durable, and what may be, as steps go by.

use crate::cut::{Cut, PointKind};
use crate::model::Model;
use crate::step::{Bytes, Site, SiteId, Sites, Step};

/// Gives the bytes that a line had when the history began. Called at most once for each line.
pub type Reader = Box<dyn FnMut(u64) -> Bytes + Send>;

/// The stores to NVMM so far, as far as they matter for what a power cut leaves.
pub struct History {
    model: Model,
    sites: Sites,
    reader: Reader,
}

impl History {
    /// A history without steps. `reader` gives what NVMM contained before the first one; all of that is durable.
    pub fn new(model: Model, reader: Reader) -> History {
        History {
            model,
            sites: Sites::default(),
            reader,
        }
    }

    /// The rules.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The number of a place in the code, for [`crate::At`].
    pub fn site(&mut self, site: &Site) -> SiteId {
        self.sites.intern(site)
    }

    /// All places so far.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Takes the next step.
    pub fn step(&mut self, step: &Step) {
        let _ = (step, &mut self.reader);
    }

    /// What a power cut before the next step would leave. `kind` says what the next step is.
    pub fn cut(&mut self, kind: PointKind) -> Cut {
        let _ = kind;
        todo!()
    }

    /// A number that changes whenever a store, flush or fence may have changed what a cut leaves: points at which it is as
    /// at the last point need no cut.
    pub fn stores(&self) -> u64 {
        0
    }
}
