//! What a cache has besides its tags.

use super::banks::Banks;
use super::mshr::Mshrs;
use super::prefetch::Guesses;
use crate::config::{LevelConfig, PrefetchConfig};
use crate::FAR;
use serde::{Deserialize, Serialize};

/// State of a cache besides its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parts {
    pub mshrs: Mshrs,
    pub banks: Banks,
    pub guesses: Guesses,
}

impl Parts {
    pub fn new(c: &LevelConfig) -> Self {
        Parts {
            mshrs: Mshrs::default(),
            banks: Banks::new(c.banks, c.bank_cycles),
            guesses: Guesses::new(&c.prefetch),
        }
    }

    /// Whether this is a possible state of a cache of so many harts, with such banks and prefetcher.
    pub fn fits(
        &self,
        harts: usize,
        banks: &Banks,
        c: &PrefetchConfig,
        inside: impl Fn(u64) -> bool,
    ) -> bool {
        self.mshrs.fits(harts, FAR) && self.banks.fits(banks, FAR) && self.guesses.fits(c, inside)
    }
}
