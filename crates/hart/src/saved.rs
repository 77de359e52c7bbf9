//! The saved state of a hart, of the translations in its block cache, and of the shared caches.
//!
//! Everything is saved that a program or the statistics can see, and derived state that affects
//! later behaviour: the filters and the tables of fetched pages contain translations that stay in
//! use until `sfence.vma`, and hits in a fetch filter do not update the ITLB. Decoded blocks are
//! not saved: they follow from memory.

use crate::block::{CodeCache, SavedCode};
use crate::config::HartConfig;
use crate::csr::Csrs;
use crate::events::Mix;
use crate::filter::{block_shift, FilterEntry, SavedFilter, SLOTS};
use crate::fpdiv::Late;
use crate::halfway::Halfway;
use crate::hart::Hart;
use crate::hpm::Modes;
use crate::loads::{Loads, SavedLoads};
use crate::pending::{Pending, Unwritten};
use crate::pmp::Pmp;
use crate::predict::Predictor;
use crate::privilege::Privilege;
use crate::stats::HartStats;
use crate::tlb::{Tlb, WalkCache, NO_WAY, SUPER_WAY};
use crate::trigger::Triggers;
use nagori_cache::{Coherence, SavedCoherence};
use serde::{Deserialize, Serialize};

/// Saved state that is invalid for such a hart. The text names the part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("saved state of a hart: {0}")]
pub struct SavedError(pub &'static str);

/// Counts and times beyond this could overflow in a run.
const FAR: u64 = 1 << 62;

/// State of a hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedHart {
    x: Vec<u64>,
    f: Vec<u64>,
    pc: u64,
    privilege: Privilege,
    csr: Csrs,
    cycle: u64,
    instret: u64,
    stats: HartStats,
    mix: Mix,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modes: Option<Box<Modes>>,
    waiting: bool,
    pmp: Pmp,
    reservation: Option<u64>,
    lines: u64,
    timer_cycle: u64,
    timed: bool,
    dtlb: Tlb,
    itlb: Tlb,
    walks: WalkCache,
    predictor: Predictor,
    pending: Pending,
    pending_from: u64,
    data: SavedFilter,
    fetch: SavedFilter,
    pages: Vec<(u16, u64, u32)>,
    last_way: u8,
    long: u32,
    /// Results that a block is to wait for within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<Late>,
    /// Addresses of the pending stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stores: Option<[u64; 2]>,
    /// Loads whose lines are on their way.
    #[serde(default, skip_serializing_if = "SavedLoads::is_new")]
    loads: SavedLoads,
    halfway: Halfway,
    generation: u32,
    pmp_writes: u64,
    triggers: Triggers,
    code: SavedCode,
}

impl Hart {
    /// The hart as data, with what its block cache knows of addresses.
    pub fn save(&self, code: &CodeCache) -> SavedHart {
        // Named one by one, so that a new field cannot be forgotten here.
        let Hart {
            id: _,
            x,
            f,
            pc,
            privilege,
            csr,
            cycle,
            instret,
            stats,
            mix,
            // Only while a block runs.
            mix_here: _,
            mix_on: _,
            modes,
            waiting,
            config: _,
            pmp,
            reservation,
            // Whoever runs harts at the same time ends their reservations first.
            loaded: _,
            lines,
            timer_cycle,
            timed,
            dtlb,
            itlb,
            walks,
            predictor,
            pending,
            // Used up at the end of each block.
            redirect: _,
            pending_from,
            data,
            fetch,
            // Its caches learn of all hits when they are saved.
            settle_at: _,
            pages,
            last_way,
            // Others count within a block; `resume` has them.
            last_stores,
            stores_before,
            long,
            late,
            loads,
            halfway,
            // Follows from the code that is compared with it.
            seen: _,
            // Set by every run.
            yield_at: _,
            // For a profile, which is the host's.
            waited: _,
            // Only while a block runs.
            fetch_waits: _,
            start_waits: _,
            line_fetched: _,
            // Only used while a hart runs.
            // Follows from the registers.
            dctx: _,
            generation,
            // Only used while a hart runs.
            leave: _,
            recheck: _,
            pmp_writes,
            triggers,
            // A debugger's, and only between two of its steps.
            stopped: _,
            // Handed on by the end of every run.
            record: _,
            area: _,
            // For messages to the user.
            futile: _,
        } = self;
        let resume = halfway.resume;
        SavedHart {
            x: x[..32].to_vec(),
            f: f.to_vec(),
            pc: *pc,
            privilege: *privilege,
            csr: csr.clone(),
            cycle: *cycle,
            instret: *instret,
            stats: *stats,
            mix: *mix,
            modes: modes.clone(),
            waiting: *waiting,
            pmp: pmp.clone(),
            reservation: *reservation,
            lines: *lines,
            timer_cycle: *timer_cycle,
            timed: *timed,
            dtlb: dtlb.clone(),
            itlb: itlb.clone(),
            walks: walks.clone(),
            predictor: predictor.clone(),
            pending: *pending,
            // Where nothing is pending, and between blocks, where what is pending counts from the next one, it says
            // nothing, and engines leave it behind differently.
            pending_from: match resume {
                Some(_) if *pending != 0 => *pending_from,
                _ => 0,
            },
            data: data.save(),
            fetch: fetch.save(),
            pages: pages.save(),
            last_way: *last_way,
            // Where the hart is not within a block, it says nothing.
            long: if resume.is_some() { *long } else { 0 },
            late: {
                let within = resume.is_some_and(|r| !late.is_over(r.begun(*cycle)));
                within.then_some(*late)
            },
            stores: {
                let at = if resume.is_some() {
                    stores_before
                } else {
                    last_stores
                };
                let pending = Unwritten::of(*pending);
                let address = |k: usize| pending.0[k].map_or(0, |_| at[k]);
                (!pending.is_empty()).then(|| [0, 1].map(address))
            },
            loads: loads.save(*cycle),
            halfway: *halfway,
            generation: *generation,
            pmp_writes: *pmp_writes,
            triggers: triggers.clone(),
            code: code.save(*generation),
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
        fail(s.x.len() != 32 || s.f.len() != 32, "registers")?;
        fail(s.x[0] != 0, "register x0")?;
        fail(s.cycle > FAR || s.instret > FAR, "time")?;
        fail(!s.stats.below(FAR), "counters")?;
        fail(!s.csr.sane(), "event counters")?;
        let fits = s.modes.as_ref().is_none_or(|m| m.fits());
        fail(!fits || !s.mix.below(FAR), "events by privilege")?;
        fail(!s.pmp.fits(&h.pmp), "protection entries")?;
        fail(!h.triggers.load(&s.triggers), "triggers")?;
        fail(!s.dtlb.fits(&h.dtlb) || !s.itlb.fits(&h.itlb), "TLB")?;
        fail(!s.walks.fits(&h.walks), "page-walk cache")?;
        let predictor = s.predictor.fits(&h.predictor, s.cycle);
        fail(!predictor, "predictor")?;
        fail(s.late.is_some_and(|l| !l.is_over(FAR)), "results under way")?;
        let (Some(l1d), Some(l1i)) = (caches.l1d.get(id), caches.l1i.get(id)) else {
            return Err(SavedError("number of harts"));
        };
        let line = |l: u64| caches.inside(l) && l.is_multiple_of(64);
        fail(
            !s.predictor.astray.is_none_or(|a| line(a.line)),
            "line under way",
        )?;
        let problem = s.halfway.problem(l1d.len(), (s.cycle, s.instret), line);
        problem.map_or(Ok(()), |what| Err(SavedError(what)))?;
        fail(!s.loads.fits(FAR, line), "loads under way")?;
        let ways = SUPER_WAY + h.config.dtlb.superpages as u8;
        let way = |w: u8| w == NO_WAY || w < ways;
        fail(!way(s.last_way), "TLB entry used last")?;
        let shift = block_shift(s.timed);
        let inside = |slot: usize, e: &FilterEntry| {
            let Some(va) = e.block(shift) else {
                return false;
            };
            let offset = va.wrapping_add(e.delta);
            let aligned = offset % (1 << shift) == 0;
            let line = !s.timed || (e.l1 as usize) < l1d.len();
            let placed = (va >> shift) as usize & (SLOTS - 1) == slot;
            aligned && placed && line && offset < ram_bytes && way(e.way)
        };
        let at = (s.timed, s.cycle);
        fail(!h.data.load(&s.data, at, inside), "data filter")?;
        let fetched = |_: usize, e: &FilterEntry| (e.l1 as usize) < l1i.len() && way(e.way);
        fail(!h.fetch.load(&s.fetch, at, fetched), "fetch filter")?;
        fail(!h.pages.load(&s.pages, ram_bytes >> 12), "table of pages")?;
        let mut code = CodeCache::default();
        fail(!code.load(&s.code), "table of fetched pages")?;

        h.x[..32].copy_from_slice(&s.x);
        h.f.copy_from_slice(&s.f);
        h.pc = s.pc & !1;
        h.privilege = s.privilege;
        h.csr = s.csr.clone();
        h.csr.hpm.refresh();
        h.cycle = s.cycle;
        h.instret = s.instret;
        h.stats = s.stats;
        h.mix = s.mix;
        h.modes = s.modes.clone();
        h.waiting = s.waiting;
        h.pmp = s.pmp.clone();
        h.reservation = s.reservation;
        h.lines = s.lines;
        h.timer_cycle = s.timer_cycle;
        h.timed = s.timed;
        h.settle_at = h.next_settling();
        h.dtlb = s.dtlb.clone();
        h.itlb = s.itlb.clone();
        h.walks = s.walks.clone();
        h.predictor = s.predictor.clone();
        h.pending = s.pending;
        h.pending_from = s.pending_from;
        h.last_way = s.last_way;
        h.long = s.long;
        h.late = s.late.unwrap_or_default();
        h.last_stores = s.stores.unwrap_or_default();
        h.stores_before = h.last_stores;
        h.loads = Loads::load(&s.loads);
        h.halfway = s.halfway;
        h.generation = s.generation;
        h.pmp_writes = s.pmp_writes;
        h.context_changed();
        Ok((h, code))
    }
}

impl SavedHart {
    /// Goes up with each change of what is saved.
    pub const VERSION: u32 = 1;

    /// This state without what the block cache knows, which depends on the engine.
    pub fn without_code(mut self) -> SavedHart {
        self.code = SavedCode::default();
        self
    }

    /// Local time in core cycles, instructions retired, event counters.
    pub fn counts(&self) -> (u64, u64, &HartStats) {
        (self.cycle, self.instret, &self.stats)
    }

    /// Whether the timing model was on.
    pub fn timed(&self) -> bool {
        self.timed
    }
}

/// The caches of these harts as data.
pub fn save_caches(caches: &Coherence, harts: &[Hart]) -> SavedCoherence {
    caches.save(|h, data, inst| harts[h].settle_copies(data, inst))
}
