//! The saved state of a hart, of the translations in its block cache, and of the shared caches.
//!
//! Everything is saved that a program or the statistics can see, and derived state that affects
//! later behaviour: the filters and the tables of fetched pages contain translations that stay in
//! use until `sfence.vma`, and hits in a fetch filter do not update the ITLB. Decoded blocks are
//! not saved: they follow from memory.

use crate::block::{CodeCache, SavedCode};
use crate::config::HartConfig;
use crate::filter::{block_shift, FilterEntry, SavedFilter, SLOTS};
use crate::hart::Hart;
use crate::loads::{Loads, SavedLoads};
use crate::state::{State, FAR};
use crate::stats::HartStats;
use crate::tlb::{NO_WAY, SUPER_WAY};
use nagori_cache::{Coherence, SavedCoherence};
use serde::{Deserialize, Serialize};

/// Saved state that is invalid for such a hart. The text names the part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("saved state of a hart: {0}")]
pub struct SavedError(pub &'static str);

/// State of a hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedHart {
    state: State,
    data: SavedFilter,
    fetch: SavedFilter,
    pages: Vec<(u16, u64, u32)>,
    /// Loads whose lines are on their way.
    #[serde(default, skip_serializing_if = "SavedLoads::is_new")]
    loads: SavedLoads,
    code: SavedCode,
}

impl Hart {
    /// The hart as data, with what its block cache knows of addresses.
    pub fn save(&self, code: &CodeCache) -> SavedHart {
        // Named one by one, so that a new field cannot be forgotten here.
        let Hart {
            id: _,
            config: _,
            state,
            run,
            data,
            fetch,
            pages,
            // Its caches learn of all hits when they are saved.
            settle_at: _,
            loads,
            // Follows from the code that is compared with it.
            seen: _,
            // Follows from the registers.
            dctx: _,
            // Only used while a hart runs.
            area: _,
            // A debugger's, and only between two of its steps.
            stopped: _,
            // Handed on by the end of every run.
            record: _,
            // For messages to the user.
            futile: _,
        } = self;
        SavedHart {
            state: state.settled(run.stores_before),
            data: data.save(),
            fetch: fetch.save(),
            pages: pages.save(),
            loads: loads.save(state.cycle),
            code: code.save(state.generation),
        }
    }

    /// A hart that goes on where the saved one was, over `ram_bytes` of memory, with caches
    /// of that many lines; and its block cache. What is saved is checked as far as safety
    /// and progress depend on it.
    pub fn restore(
        id: usize,
        config: HartConfig,
        s: &SavedHart,
        ram_bytes: u64,
        caches: &Coherence,
    ) -> Result<(Hart, CodeCache), SavedError> {
        let fail = |bad: bool, what| if bad { Err(SavedError(what)) } else { Ok(()) };
        let mut h = Hart::new(id, config).map_err(|_| SavedError("parameters"))?;
        let state = &s.state;
        state
            .problem(&h.state)
            .map_or(Ok(()), |what| Err(SavedError(what)))?;
        let (Some(l1d), Some(l1i)) = (caches.l1d.get(id), caches.l1i.get(id)) else {
            return Err(SavedError("number of harts"));
        };
        let line = |l: u64| caches.inside(l) && l.is_multiple_of(64);
        fail(
            !state.predictor.astray.is_none_or(|a| line(a.line)),
            "line under way",
        )?;
        let problem = state
            .halfway
            .problem(l1d.len(), (state.cycle, state.instret), line);
        problem.map_or(Ok(()), |what| Err(SavedError(what)))?;
        fail(!s.loads.fits(FAR, line), "loads under way")?;
        let ways = SUPER_WAY + h.config.dtlb.superpages as u8;
        let way = |w: u8| w == NO_WAY || w < ways;
        fail(!way(state.last_way), "TLB entry used last")?;
        let shift = block_shift(state.timed);
        let inside = |slot: usize, e: &FilterEntry| {
            let Some(va) = e.block(shift) else {
                return false;
            };
            let offset = va.wrapping_add(e.delta);
            let aligned = offset % (1 << shift) == 0;
            let line = !state.timed || (e.l1 as usize) < l1d.len();
            let placed = (va >> shift) as usize & (SLOTS - 1) == slot;
            aligned && placed && line && offset < ram_bytes && way(e.way)
        };
        let at = (state.timed, state.cycle);
        fail(!h.data.load(&s.data, at, inside), "data filter")?;
        let fetched = |_: usize, e: &FilterEntry| (e.l1 as usize) < l1i.len() && way(e.way);
        fail(!h.fetch.load(&s.fetch, at, fetched), "fetch filter")?;
        fail(!h.pages.load(&s.pages, ram_bytes >> 12), "table of pages")?;
        let mut code = CodeCache::default();
        fail(!code.load(&s.code), "table of fetched pages")?;

        h.state = state.clone();
        h.state.complete();
        h.settle_at = h.next_settling();
        h.run.stores_before = state.last_stores;
        h.loads = Loads::load(&s.loads);
        h.context_changed();
        Ok((h, code))
    }
}

impl SavedHart {
    /// Goes up with each change of what is saved.
    pub const VERSION: u32 = 2;

    /// This state without what the block cache knows, which depends on the engine.
    pub fn without_code(mut self) -> SavedHart {
        self.code = SavedCode::default();
        self
    }

    /// Local time in core cycles, instructions retired, event counters.
    pub fn counts(&self) -> (u64, u64, &HartStats) {
        (self.state.cycle, self.state.instret, &self.state.stats)
    }

    /// Whether the timing model was on.
    pub fn timed(&self) -> bool {
        self.state.timed
    }
}

/// The caches of these harts as data.
pub fn save_caches(caches: &Coherence, harts: &[Hart]) -> SavedCoherence {
    caches.save(|h, data, inst| harts[h].settle_copies(data, inst))
}
