//! Memories side by side as data.

use serde::{Deserialize, Serialize};

use super::*;
use crate::checks::{now, version};
use crate::saved::bad;

/// Version of the format written.
const VERSION: u32 = 1;

/// The complete state of a [`Hybrid`]: names of the parts with their states.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    latest: Ps,
    from: Ps,
    parts: Vec<(String, u64, SavedModel)>,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        self.parts.iter().for_each(|p| p.2.add_owed(ids));
    }
}

impl Hybrid {
    pub(crate) fn saved(&self) -> Saved {
        let part = |p: &Part| (p.name.clone(), p.base, p.model.save());
        Saved {
            version: VERSION,
            latest: self.latest,
            from: self.from,
            parts: self.parts.iter().map(part).collect(),
        }
    }

    pub(crate) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "flat hybrid")?;
        now(s.latest, s.from)?;
        let own = self.parts.iter().map(|p| (p.name.as_str(), p.base));
        if !own.eq(s.parts.iter().map(|p| (p.0.as_str(), p.1))) {
            return Err(bad("it belongs to a flat hybrid of other parts"));
        }
        for (p, (_, _, model)) in self.parts.iter_mut().zip(s.parts) {
            p.model.load(model)?;
        }
        self.latest = s.latest;
        self.from = s.from;
        Ok(())
    }
}
