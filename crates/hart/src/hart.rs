//! State of one hart, and the functions that keep its derived state consistent.

use crate::area::Area;
use crate::commit::Record;
use crate::config::{Ext, HartConfig, HartError};
use crate::csr::Csrs;
use crate::filter::{Filter, Pages};
use crate::halfway::Halfway;
use crate::loads::Loads;
use crate::place::Stopped;
use crate::pmp::Pmp;
use crate::predict::Predictor;
use crate::privilege::Privilege;
use crate::running::Running;
use crate::state::State;
use crate::straight::Seen;
use crate::trap::{irq, status, Futile};
use crate::trigger::Triggers;
use nagori_cache::Tags;

/// Why `run` returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The cycle limit was reached.
    Limit,
    /// The instruction at the program counter needs the memory bus, or something else that other harts
    /// can see, and some of them are behind.
    Bus,
    /// A device was touched, or a marker met: lines and events may have changed.
    Device,
    /// The hart waits for an interrupt.
    Wfi,
    /// An observer has stopped the hart before an instruction.
    Stopped,
}

/// A hart.
#[derive(Clone, Debug)]
pub struct Hart {
    /// Index and mhartid.
    pub id: usize,
    /// What it was made from, which does not change.
    pub(crate) config: HartConfig,
    /// What it is, for programs and for time.
    pub state: State,
    /// What counts while it runs.
    pub(crate) run: Running,
    /// Filters in front of caches and TLBs. They are saved in a form of their own, as translations in them stay in use.
    pub(crate) data: Filter,
    pub(crate) fetch: Filter,
    /// Behind the data filter in functional mode.
    pub(crate) pages: Pages,
    /// Cycle at which the caches have to learn of all hits that have passed the filters.
    pub(crate) settle_at: u64,
    /// Registers and lines that are on their way.
    pub(crate) loads: Loads,
    /// What was found of the code behind accesses; only saves time.
    pub(crate) seen: Seen,
    /// Tag of the data context: see `context`. Follows from the registers.
    pub(crate) dctx: u64,
    pub(crate) area: Area,
    /// Where an observer has stopped the hart within a block.
    pub(crate) stopped: Option<Stopped>,
    /// For observers: the instruction being executed.
    pub(crate) record: Box<Record>,
    /// For messages to the user.
    pub(crate) futile: Futile,
}

impl Hart {
    /// A hart at reset, in machine mode at pc 0.
    pub fn new(id: usize, mut config: HartConfig) -> Result<Self, HartError> {
        config.validate()?;
        config.isa = config.isa.with(Ext::Priv);
        let mut h = Self {
            id,
            state: State::new(&config),
            run: Running::default(),
            data: Filter::new(config.l1d),
            fetch: Filter::new(config.l1i),
            pages: Pages::default(),
            settle_at: u64::MAX,
            loads: Loads::default(),
            seen: Seen::default(),
            dctx: 0,
            area: Area::default(),
            stopped: None,
            record: Box::default(),
            futile: Futile::default(),
            config,
        };
        h.restart_filters();
        h.context_changed();
        Ok(h)
    }

    /// Returns to the reset state; cycle and counters go on. The caller empties the caches.
    pub fn reset(&mut self, pc: u64) {
        self.state.x = [0; 64];
        self.state.f = [0; 32];
        self.state.pc = pc;
        self.state.privilege = Privilege::Machine;
        self.state.csr = Csrs::reset(self.config.isa);
        self.state.pmp = Pmp::new(self.config.pmp_entries);
        self.state.pmp_writes += 1;
        self.state.triggers = Triggers::new(self.config.triggers);
        self.state.reservation = None;
        self.state.waiting = false;
        self.state.timer_cycle = u64::MAX;
        self.state.pending = 0;
        self.give_up();
        self.stopped = None;
        self.futile = Futile::default();
        self.restart_filters();
        self.flush_translations();
        self.context_changed();
    }

    /// Forgets what was begun and is to be tried again.
    fn give_up(&mut self) {
        // The front end has fetched anew what is behind an access, whatever becomes of that.
        let replays = self.state.halfway.replays;
        self.state.halfway = Halfway {
            replays,
            ..Halfway::default()
        };
        self.state.last_stores = [0; 2];
        self.give_up_loads();
        self.state.predictor.gives_up();
    }

    /// The branch predictor as after power-on.
    pub fn forget_predictions(&mut self) {
        self.state.predictor = Predictor::new(self.config.predictor);
    }

    /// Blocks of memory that this hart may write without asking: offset and length in bytes.
    pub fn writable_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let block = if self.state.timed { 64 } else { 4096 };
        self.data.writable(!(block - 1)).map(move |o| (o, block))
    }

    /// Has the next write to each block of memory ask whether it is permitted.
    pub fn ask_before_writes(&mut self) {
        self.data.guard_all();
        self.pages.clear();
    }

    /// Integer register `r` (0..=31).
    pub fn reg(&self, r: usize) -> u64 {
        self.state.x[r & 31]
    }

    /// Sets integer register `r` (0..=31); x0 stays 0.
    pub fn set_reg(&mut self, r: usize, v: u64) {
        if r & 31 != 0 {
            self.state.x[r & 31] = v;
        }
    }

    /// Floating-point register `r` (0..=31), raw bits.
    pub fn freg(&self, r: usize) -> u64 {
        self.state.f[r & 31]
    }

    /// Sets floating-point register `r` (0..=31), raw bits.
    pub fn set_freg(&mut self, r: usize, v: u64) {
        self.state.f[r & 31] = v;
    }

    /// What the hart was made from.
    pub fn config(&self) -> &HartConfig {
        &self.config
    }

    /// Whether the timing model is on.
    pub fn timed(&self) -> bool {
        self.state.timed
    }

    /// Turns the timing model on or off. TLBs start empty; the caller empties the caches.
    pub fn set_timed(&mut self, timed: bool) {
        if timed != self.state.timed {
            self.state.timed = timed;
            self.give_up();
            self.restart_filters();
            self.flush_translations();
            self.state.pending = 0;
        }
    }

    /// Sets the interrupt lines that the platform drives (bits of mip).
    pub fn set_lines(&mut self, lines: u64) {
        if lines != self.state.lines {
            self.state.lines = lines;
            self.run.recheck = true;
        }
    }

    /// Current value of mip.
    pub fn mip(&self) -> u64 {
        let mut v = self.state.lines | self.state.csr.mip_soft;
        if self.state.csr.stce() {
            v &= !irq::STIP;
            if self.state.cycle >= self.state.timer_cycle {
                v |= irq::STIP;
            }
        }
        v
    }

    /// Whether wfi would end now.
    pub fn wakes(&self) -> bool {
        self.mip() & self.state.csr.mie != 0
    }

    /// Cycle at which a waiting hart wakes by its own timer, if it can.
    pub fn wake_cycle(&self) -> Option<u64> {
        (self.state.csr.stce()
            && self.state.csr.mie & irq::STIP != 0
            && self.state.timer_cycle != u64::MAX)
            .then_some(self.state.timer_cycle)
    }

    /// Privilege that loads and stores have, with MPRV.
    pub(crate) fn data_privilege(&self) -> Privilege {
        if self.state.csr.mstatus & status::MPRV != 0 {
            Privilege::from_bits(self.state.csr.mstatus >> 11 & 3)
        } else {
            self.state.privilege
        }
    }

    /// Derived state follows privilege and mstatus.
    pub(crate) fn context_changed(&mut self) {
        self.dctx = self.data_context().tag();
        self.run.recheck = true;
    }

    /// Translations or protections may have changed: forget everything derived.
    pub(crate) fn flush_filters(&mut self) {
        self.data.clear();
        self.fetch.clear();
        self.pages.clear();
        self.state.generation = self.state.generation.wrapping_add(1);
    }

    /// Empties the filters in front of caches that are emptied, too.
    pub(crate) fn restart_filters(&mut self) {
        self.data.restart(self.state.cycle);
        self.fetch.restart(self.state.cycle);
        self.settle_at = self.next_settling();
    }

    /// When the caches have to learn of hits again that learn of all of them now.
    pub(crate) fn next_settling(&self) -> u64 {
        if self.data.notes_uses() || self.fetch.notes_uses() {
            self.state.cycle.saturating_add(crate::uses::PERIOD)
        } else {
            u64::MAX
        }
    }

    /// Copies of the hart's first-level caches learn of all hits that have passed its filters.
    pub(crate) fn settle_copies(&self, l1d: &mut Tags, l1i: &mut Tags) {
        self.data.settle_copy(l1d);
        self.fetch.settle_copy(l1i);
    }

    /// Forgets TLBs and all derived state.
    pub(crate) fn flush_translations(&mut self) {
        self.state.dtlb.flush(None, None);
        self.state.itlb.flush(None, None);
        self.state.walks.clear();
        self.flush_filters();
    }
}
