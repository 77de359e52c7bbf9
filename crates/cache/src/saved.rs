//! The saved state of all caches.

use crate::ahead::SavedAhead;
use crate::caches::Caches;
use crate::coherence::{Coherence, Notice};
use crate::contention::Moves;
use crate::counts::HartCounts;
use crate::first::SavedFirst;
use crate::levels::SavedLevel;
use crate::stores::SavedStores;
use crate::tags::Tags;
use crate::versions::SavedVersions;
use crate::FAR;
use serde::{Deserialize, Serialize};

/// Saved state that is invalid for such caches. The text names the part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("saved state of caches: {0}")]
pub struct SavedError(pub &'static str);

/// Caches, reservations, notices, marks of code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCoherence {
    l1d: Vec<Tags>,
    l1i: Vec<Tags>,
    /// Outer cache levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    levels: Vec<SavedLevel>,
    /// MSHRs and prefetchers of the first-level caches.
    #[serde(default, skip_serializing_if = "SavedFirst::is_new")]
    first: SavedFirst,
    /// Store buffers and combined lines.
    #[serde(default, skip_serializing_if = "SavedStores::is_new")]
    stores: SavedStores,
    /// Outstanding prefetches.
    #[serde(default, skip_serializing_if = "SavedAhead::is_new")]
    ahead: SavedAhead,
    /// Modified lines in the outer levels of which some inner cache has a newer state.
    #[serde(default, skip_serializing_if = "SavedVersions::is_new")]
    versions: SavedVersions,
    /// What was counted for each hart.
    counts: Vec<HartCounts>,
    reservations: Vec<Option<u64>>,
    notices: Vec<Vec<Notice>>,
    /// Lines that have moved lately.
    moves: Vec<Moves>,
    /// Pages with decoded code, and their lines.
    code: Vec<(u64, u64)>,
}

impl SavedCoherence {
    /// Goes up with each change of what is saved.
    pub const VERSION: u32 = 1;
}

impl Coherence {
    /// The caches as data. `settle` is called with the number of each hart and copies of its caches for data and for
    /// instructions, for what the hart has noted of hits and not told the caches yet.
    pub fn save(&self, mut settle: impl FnMut(usize, &mut Tags, &mut Tags)) -> SavedCoherence {
        let code = self.code_marks().all();
        let (mut l1d, mut l1i) = (self.l1d.to_vec(), self.l1i.to_vec());
        for (h, (d, i)) in l1d.iter_mut().zip(&mut l1i).enumerate() {
            settle(h, d, i);
        }
        SavedCoherence {
            l1d,
            l1i,
            levels: self.save_levels(),
            first: self.save_first(),
            stores: self.save_stores(),
            ahead: self.save_ahead(),
            versions: self.save_versions(),
            counts: self.save_counts(),
            reservations: self.reservations.clone(),
            notices: self.notices().to_vec(),
            moves: self.contention.save(),
            code: code.map(|(page, lines)| (page as u64, lines)).collect(),
        }
    }

    /// Takes over what was saved of caches of the same form.
    pub fn load(&mut self, s: SavedCoherence) -> Result<(), SavedError> {
        let fail = |bad: bool, what| if bad { Err(SavedError(what)) } else { Ok(()) };
        let fits = |new: &[Tags], old: &[Tags]| {
            new.len() == old.len()
                && new
                    .iter()
                    .zip(old)
                    .all(|(n, o)| n.fits(o, |line| self.inside(line)))
        };
        fail(!fits(&s.l1d, &self.l1d), "L1 data cache")?;
        fail(!fits(&s.l1i, &self.l1i), "L1 instruction cache")?;
        let harts = self.l1d.len();
        fail(s.reservations.len() != harts, "reservations")?;
        fail(s.notices.len() != harts, "notices")?;
        let pages = self.code_marks().pages() as u64;
        fail(s.code.iter().any(|(p, _)| *p >= pages), "marks of code")?;
        self.l1d = Caches::new(s.l1d);
        self.l1i = Caches::new(s.l1i);
        fail(!self.load_levels(s.levels), "caches behind the first level")?;
        fail(!self.load_versions(s.versions), "older states of lines")?;
        fail(!self.load_first(s.first), "first-level caches")?;
        fail(!self.load_stores(s.stores), "buffers of stores")?;
        fail(!self.load_ahead(s.ahead), "prefetches under way")?;
        fail(!self.load_counts(s.counts, FAR), "counts of lines")?;
        fail(!self.contention.load(&s.moves, harts), "lines that moved")?;
        self.reservations = s.reservations;
        self.set_saved(s.notices, &s.code);
        Ok(())
    }
}
