//! Interleaved memories as data.

use serde::{Deserialize, Serialize};

use super::*;
use crate::checks::version;
use crate::hybrid;
use crate::saved::bad;

/// Version of the format written.
const VERSION: u32 = 1;

/// The complete state of an [`Interleaved`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    version: u32,
    granularity: u64,
    ways: hybrid::Saved,
}

impl Saved {
    pub(crate) fn add_owed(&self, ids: &mut Vec<u64>) {
        self.ways.add_owed(ids);
    }
}

impl Interleaved {
    pub(super) fn saved(&self) -> Saved {
        Saved {
            version: VERSION,
            granularity: self.map.granularity,
            ways: self.ways.saved(),
        }
    }

    pub(super) fn resume(&mut self, s: Saved) -> Result<(), Error> {
        version(s.version, VERSION, "interleaved memory")?;
        if s.granularity != self.map.granularity {
            return Err(bad(
                "it belongs to interleaved memories of other parameters",
            ));
        }
        self.ways.resume(s.ways)
    }
}
