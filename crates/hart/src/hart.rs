//! State of one hart, and the functions that keep its derived state consistent.

use crate::area::Area;
use crate::commit::Record;
use crate::config::{Ext, HartConfig, HartError};
use crate::csr::Csrs;
use crate::events::Mix;
use crate::filter::{Filter, Pages};
use crate::fpdiv::Late;
use crate::halfway::Halfway;
use crate::hpm::Modes;
use crate::loads::Loads;
use crate::pending::Pending;
use crate::place::Stopped;
use crate::pmp::Pmp;
use crate::predict::Predictor;
use crate::privilege::Privilege;
use crate::stats::HartStats;
use crate::straight::Seen;
use crate::tlb::{Tlb, WalkCache};
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

/// Architectural and timing state of a hart.
#[derive(Clone, Debug)]
pub struct Hart {
    /// Index and mhartid.
    pub id: usize,
    /// Integer registers; index 0 stays 0, index 32 swallows writes to x0.
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
    /// Instructions of the block that runs, by kind, up to its last one.
    pub(crate) mix_here: Mix,
    /// Whether they are counted in the block that runs.
    pub(crate) mix_on: bool,
    /// Counts of events by privilege, if that is wanted.
    pub(crate) modes: Option<Box<Modes>>,
    /// Whether the hart waits in wfi.
    pub waiting: bool,
    pub(crate) config: HartConfig,
    pub(crate) pmp: Pmp,
    /// Physical line reserved by lr.
    pub(crate) reservation: Option<u64>,
    /// Offset in memory, size and value of the last lr, where harts run in parallel.
    pub(crate) loaded: (u64, u8, u64),
    /// Interrupt lines driven by the platform.
    pub(crate) lines: u64,
    /// Cycle at which stimecmp is reached (`u64::MAX` without Sstc).
    pub(crate) timer_cycle: u64,
    pub(crate) timed: bool,
    pub(crate) dtlb: Tlb,
    pub(crate) itlb: Tlb,
    pub(crate) walks: WalkCache,
    pub(crate) predictor: Predictor,
    /// Results on their way at the end of the last run of instructions.
    pub(crate) pending: Pending,
    /// Cycles of a wrong prediction at the end of the block that runs; pending results get older during them.
    pub(crate) redirect: u64,
    /// Cycle from which the times of `pending` count while a block runs.
    pub(crate) pending_from: u64,
    pub(crate) data: Filter,
    pub(crate) fetch: Filter,
    /// Cycle at which the caches have to learn of all hits that have passed the filters.
    pub(crate) settle_at: u64,
    /// Behind the data filter in functional mode.
    pub(crate) pages: Pages,
    pub(crate) last_way: u8,
    /// Addresses of the last store and of the one before, where loads of the same block may run into
    /// them.
    pub(crate) last_stores: [u64; 2],
    /// What they were at the beginning of the block, if such stores may not be written yet.
    pub(crate) stores_before: [u64; 2],
    /// The pending result of a multiplication or division of a block that has no user for it.
    pub(crate) long: u32,
    pub(crate) late: Late,
    /// Registers and lines that are on their way.
    pub(crate) loads: Loads,
    /// What an instruction that has to wait has done so far.
    pub(crate) halfway: Halfway,
    /// What was found of the code behind accesses; only saves time.
    pub(crate) seen: Seen,
    /// Core cycle from which the memory bus is not to be used: others are behind.
    pub(crate) yield_at: u64,
    /// Cycles of waiting for another hart's work on a line, for whoever attributes them.
    pub(crate) waited: u64,
    /// What has to wait is the fetch of an instruction's line.
    pub(crate) fetch_waits: bool,
    /// What has to wait is the fetch of the line where a block starts.
    pub(crate) start_waits: bool,
    /// The line of the next instruction is there: it was fetched before the instruction had to wait.
    pub(crate) line_fetched: bool,
    /// Tag of the data context: see `context`.
    pub(crate) dctx: u64,
    /// Bumped when translations or permissions of fetches change.
    pub(crate) generation: u32,
    /// Leave the block after this instruction; at its end, come back to whoever runs the hart.
    pub(crate) leave: bool,
    /// Look at notices and interrupts before the next block.
    pub(crate) recheck: bool,
    /// How often protection or execute triggers were written.
    pub(crate) pmp_writes: u64,
    pub(crate) triggers: Triggers,
    pub(crate) area: Area,
    /// Where an observer has stopped the hart within a block.
    pub(crate) stopped: Option<Stopped>,
    /// For observers: the instruction being executed.
    pub(crate) record: Box<Record>,
    pub(crate) futile: Futile,
}

impl Hart {
    /// A hart at reset, in machine mode at pc 0.
    pub fn new(id: usize, mut config: HartConfig) -> Result<Self, HartError> {
        config.validate()?;
        config.isa = config.isa.with(Ext::Priv);
        let mut h = Self {
            id,
            x: [0; 64],
            f: [0; 32],
            pc: 0,
            privilege: Privilege::Machine,
            csr: Csrs::reset(config.isa),
            cycle: 0,
            instret: 0,
            stats: HartStats::default(),
            mix: Mix::default(),
            mix_here: Mix::default(),
            mix_on: false,
            modes: None,
            waiting: false,
            pmp: Pmp::new(config.pmp_entries),
            reservation: None,
            loaded: (0, 0, 0),
            lines: 0,
            timer_cycle: u64::MAX,
            timed: true,
            dtlb: Tlb::new(config.dtlb),
            itlb: Tlb::new(config.itlb),
            walks: WalkCache::new(config.timing.ptw_cache_entries),
            predictor: Predictor::new(config.predictor),
            pending: 0,
            redirect: 0,
            pending_from: 0,
            data: Filter::new(config.l1d),
            fetch: Filter::new(config.l1i),
            settle_at: u64::MAX,
            pages: Pages::default(),
            last_way: crate::tlb::NO_WAY,
            last_stores: [0; 2],
            stores_before: [0; 2],
            late: Late::default(),
            long: 0,
            loads: Loads::default(),
            seen: Seen::default(),
            yield_at: u64::MAX,
            waited: 0,
            halfway: Halfway::default(),
            fetch_waits: false,
            start_waits: false,
            line_fetched: false,
            dctx: 0,
            generation: 0,
            leave: false,
            recheck: true,
            pmp_writes: 0,
            triggers: Triggers::new(config.triggers),
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
        self.x = [0; 64];
        self.f = [0; 32];
        self.pc = pc;
        self.privilege = Privilege::Machine;
        self.csr = Csrs::reset(self.config.isa);
        self.pmp = Pmp::new(self.config.pmp_entries);
        self.pmp_writes += 1;
        self.triggers = Triggers::new(self.config.triggers);
        self.reservation = None;
        self.waiting = false;
        self.timer_cycle = u64::MAX;
        self.pending = 0;
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
        let replays = self.halfway.replays;
        self.halfway = Halfway {
            replays,
            ..Halfway::default()
        };
        self.last_stores = [0; 2];
        self.give_up_loads();
        self.predictor.gives_up();
    }

    /// The branch predictor as after power-on.
    pub fn forget_predictions(&mut self) {
        self.predictor = Predictor::new(self.config.predictor);
    }

    /// Blocks of memory that this hart may write without asking: offset and length in bytes.
    pub fn writable_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let block = if self.timed { 64 } else { 4096 };
        self.data.writable(!(block - 1)).map(move |o| (o, block))
    }

    /// Has the next write to each block of memory ask whether it is permitted.
    pub fn ask_before_writes(&mut self) {
        self.data.guard_all();
        self.pages.clear();
    }

    /// Integer register `r` (0..=31).
    pub fn reg(&self, r: usize) -> u64 {
        self.x[r & 31]
    }

    /// Sets integer register `r` (0..=31); x0 stays 0.
    pub fn set_reg(&mut self, r: usize, v: u64) {
        if r & 31 != 0 {
            self.x[r & 31] = v;
        }
    }

    /// Floating-point register `r` (0..=31), raw bits.
    pub fn freg(&self, r: usize) -> u64 {
        self.f[r & 31]
    }

    /// Sets floating-point register `r` (0..=31), raw bits.
    pub fn set_freg(&mut self, r: usize, v: u64) {
        self.f[r & 31] = v;
    }

    /// What the hart was made from.
    pub fn config(&self) -> &HartConfig {
        &self.config
    }

    /// Whether the timing model is on.
    pub fn timed(&self) -> bool {
        self.timed
    }

    /// Turns the timing model on or off. TLBs start empty; the caller empties the caches.
    pub fn set_timed(&mut self, timed: bool) {
        if timed != self.timed {
            self.timed = timed;
            self.give_up();
            self.restart_filters();
            self.flush_translations();
            self.pending = 0;
        }
    }

    /// Sets the interrupt lines that the platform drives (bits of mip).
    pub fn set_lines(&mut self, lines: u64) {
        if lines != self.lines {
            self.lines = lines;
            self.recheck = true;
        }
    }

    /// Current value of mip.
    pub fn mip(&self) -> u64 {
        let mut v = self.lines | self.csr.mip_soft;
        if self.csr.stce() {
            v &= !irq::STIP;
            if self.cycle >= self.timer_cycle {
                v |= irq::STIP;
            }
        }
        v
    }

    /// Whether wfi would end now.
    pub fn wakes(&self) -> bool {
        self.mip() & self.csr.mie != 0
    }

    /// Cycle at which a waiting hart wakes by its own timer, if it can.
    pub fn wake_cycle(&self) -> Option<u64> {
        (self.csr.stce() && self.csr.mie & irq::STIP != 0 && self.timer_cycle != u64::MAX)
            .then_some(self.timer_cycle)
    }

    /// Privilege that loads and stores have, with MPRV.
    pub(crate) fn data_privilege(&self) -> Privilege {
        if self.csr.mstatus & status::MPRV != 0 {
            Privilege::from_bits(self.csr.mstatus >> 11 & 3)
        } else {
            self.privilege
        }
    }

    /// Derived state follows privilege and mstatus.
    pub(crate) fn context_changed(&mut self) {
        self.dctx = self.data_context().tag();
        self.recheck = true;
    }

    /// Translations or protections may have changed: forget everything derived.
    pub(crate) fn flush_filters(&mut self) {
        self.data.clear();
        self.fetch.clear();
        self.pages.clear();
        self.generation = self.generation.wrapping_add(1);
    }

    /// Empties the filters in front of caches that are emptied, too.
    pub(crate) fn restart_filters(&mut self) {
        self.data.restart(self.cycle);
        self.fetch.restart(self.cycle);
        self.settle_at = self.next_settling();
    }

    /// When the caches have to learn of hits again that learn of all of them now.
    pub(crate) fn next_settling(&self) -> u64 {
        if self.data.notes_uses() || self.fetch.notes_uses() {
            self.cycle.saturating_add(crate::uses::PERIOD)
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
        self.dtlb.flush(None, None);
        self.itlb.flush(None, None);
        self.walks.clear();
        self.flush_filters();
    }
}
