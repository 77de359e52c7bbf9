//! What a hart is, for programs and for time: cloned, saved and restored as a whole.

use crate::config::HartConfig;
use crate::csr::Csrs;
use crate::events::Mix;
use crate::fpdiv::Late;
use crate::halfway::Halfway;
use crate::hpm::Modes;
use crate::pending::{Pending, Unwritten};
use crate::pmp::Pmp;
use crate::predict::Predictor;
use crate::privilege::Privilege;
use crate::stats::HartStats;
use crate::tlb::{Tlb, WalkCache, NO_WAY};
use crate::trigger::Triggers;
use serde::{Deserialize, Serialize};

/// Counts and times beyond this could overflow in a run.
pub(crate) const FAR: u64 = 1 << 62;

/// Architectural and timing state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Integer registers; index 0 stays 0, index 32 swallows writes to x0.
    #[serde(with = "integers")]
    pub(crate) x: [u64; 64],
    /// Floating-point registers, NaN-boxed.
    pub(crate) f: [u64; 32],
    /// Program counter.
    pub pc: u64,
    /// Current mode.
    pub privilege: Privilege,
    /// Control and status registers.
    pub csr: Csrs,
    /// Local time in core cycles.
    pub cycle: u64,
    /// Instructions retired since reset.
    pub instret: u64,
    /// Event counters.
    pub stats: HartStats,
    /// Instructions by kind, as far as they were counted.
    pub(crate) mix: Mix,
    /// Counts of events by privilege, if that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modes: Option<Box<Modes>>,
    /// Whether the hart waits in wfi.
    pub waiting: bool,
    pub(crate) pmp: Pmp,
    /// How often protection or execute triggers were written.
    pub(crate) pmp_writes: u64,
    pub(crate) triggers: Triggers,
    /// Physical line reserved by lr.
    pub(crate) reservation: Option<u64>,
    /// Interrupt lines driven by the platform.
    pub(crate) lines: u64,
    /// Cycle at which stimecmp is reached (`u64::MAX` without Sstc).
    pub(crate) timer_cycle: u64,
    pub(crate) timed: bool,
    pub(crate) dtlb: Tlb,
    pub(crate) itlb: Tlb,
    pub(crate) walks: WalkCache,
    pub(crate) last_way: u8,
    pub(crate) predictor: Predictor,
    /// Results on their way at the end of the last run of instructions.
    pub(crate) pending: Pending,
    /// Cycle from which the times of `pending` count while a block runs.
    pub(crate) pending_from: u64,
    /// Addresses of the last store and of the one before, where loads of the same block may run into
    /// them.
    pub(crate) last_stores: [u64; 2],
    /// The pending result of a multiplication or division of a block that has no user for it.
    pub(crate) long: u32,
    pub(crate) late: Late,
    /// What an instruction that has to wait has done so far.
    pub(crate) halfway: Halfway,
    /// Bumped when translations or permissions of fetches change.
    pub(crate) generation: u32,
}

impl State {
    /// At reset, in machine mode at pc 0.
    pub(crate) fn new(config: &HartConfig) -> State {
        State {
            x: [0; 64],
            f: [0; 32],
            pc: 0,
            privilege: Privilege::Machine,
            csr: Csrs::reset(config.isa),
            cycle: 0,
            instret: 0,
            stats: HartStats::default(),
            mix: Mix::default(),
            modes: None,
            waiting: false,
            pmp: Pmp::new(config.pmp_entries),
            pmp_writes: 0,
            triggers: Triggers::new(config.triggers),
            reservation: None,
            lines: 0,
            timer_cycle: u64::MAX,
            timed: true,
            dtlb: Tlb::new(config.dtlb),
            itlb: Tlb::new(config.itlb),
            walks: WalkCache::new(config.timing.ptw_cache_entries),
            last_way: NO_WAY,
            predictor: Predictor::new(config.predictor),
            pending: 0,
            pending_from: 0,
            last_stores: [0; 2],
            long: 0,
            late: Late::default(),
            halfway: Halfway::default(),
            generation: 0,
        }
    }

    /// To be saved: without what says nothing between runs, and what engines leave behind differently.
    /// `stores_before` is as in [`Running`](crate::running::Running).
    pub(crate) fn settled(&self, stores_before: [u64; 2]) -> State {
        let mut s = self.clone();
        s.x[32..].fill(0);
        let resume = s.halfway.resume;
        // Results are pending from the next block on, unless the hart is within one.
        if resume.is_none() || s.pending == 0 {
            s.pending_from = 0;
        }
        if resume.is_none() {
            s.long = 0;
        }
        if resume.is_none_or(|r| s.late.is_over(r.begun(s.cycle))) {
            s.late = Late::default();
        }
        let at = if resume.is_some() {
            stores_before
        } else {
            s.last_stores
        };
        let pending = Unwritten::of(s.pending);
        s.last_stores = [0, 1].map(|k| pending.0[k].map_or(0, |_| at[k]));
        s
    }

    /// What is impossible, if anything is, in the state of a hart that could be `new`. Caches and memory are not looked
    /// at.
    pub(crate) fn problem(&self, new: &State) -> Option<&'static str> {
        let events = self.modes.as_ref().is_none_or(|m| m.fits()) && self.mix.below(FAR);
        let checks = [
            (self.x[0] == 0, "register x0"),
            (self.cycle <= FAR && self.instret <= FAR, "time"),
            (self.stats.below(FAR), "counters"),
            (self.csr.sane(), "event counters"),
            (events, "events by privilege"),
            (self.pmp.fits(&new.pmp), "protection entries"),
            (self.triggers.fits(&new.triggers), "triggers"),
            (self.dtlb.fits(&new.dtlb), "TLB"),
            (self.itlb.fits(&new.itlb), "TLB"),
            (self.walks.fits(&new.walks), "page-walk cache"),
            (self.predictor.fits(&new.predictor, self.cycle), "predictor"),
            (self.late.is_over(FAR), "results under way"),
        ];
        checks.into_iter().find(|c| !c.0).map(|c| c.1)
    }

    /// Brings up to date what follows from the rest, and is not saved; to be done when it has been read.
    pub(crate) fn complete(&mut self) {
        // A debugger may have set any.
        self.pc &= !1;
        self.csr.hpm.refresh();
        self.triggers.count_kinds();
    }
}

/// The registers that programs have.
mod integers {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(x: &[u64; 64], s: S) -> Result<S::Ok, S::Error> {
        x[..32].serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u64; 64], D::Error> {
        let mut x = [0; 64];
        x[..32].copy_from_slice(&<[u64; 32]>::deserialize(d)?);
        Ok(x)
    }
}
