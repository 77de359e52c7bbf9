//! A machine: harts, caches, memory controller and bus, wired from a
//! description, and the scheduler that advances them in machine time.
//!
//! The order of turns (`turns`) follows from machine time alone, so the order of events depends on
//! nothing but the machine.
//!
//! [`Machine`] runs, [`Checkpoint`] is copied, and [`MachineState`] is what the crate `snapshot` writes to files.

mod action;
mod attached;
mod behind;
mod brought;
mod cold;
mod console;
mod control;
mod control_state;
mod debug;
mod due;
mod engine;
mod epochs;
mod fills;
mod fork;
mod load_error;
mod marker;
mod memory;
mod nvmm;
mod observed;
mod observers;
mod parallel;
mod parameters;
mod point;
mod power;
mod refusal;
mod replica;
mod roster;
mod sampled;
mod saved;
mod shared;
mod slots;
mod stats;
mod stored;
mod turns;
mod view;
mod warm_up;
mod world;

pub use brought::BroughtError;
pub use debug::{DebugStop, Watch, WatchKind, Why, MAX_POINTS};
pub use engine::{Engine, DEFAULT_SKEW};
pub use epochs::{EpochCounts, EpochError, EpochReport, HartEpochReport};
pub use fork::Checkpoint;
pub use load_error::LoadError;
pub use marker::{Label, Regions};
pub use memory::{BusCause, BusTransfer, BusWatch, RegionError, RegionReport};
pub use nagori_translator::{
    Measured, Options as TranslatorOptions, Piece, Reason, Stats as TranslatorStats,
};
pub use nvmm::{geometry, nvmm_for_image, ImageContent, ImageUse};
pub use observers::{AccessSink, EventSink, Watching};
pub use point::{Point, Step};
pub use power::{Dram, PowerCut};
pub use replica::Replica;
pub use sampled::{First, Moment, Next, Pace, PageContent, Part, Progress, Sampling};
pub use saved::MachineState;
pub use stats::{HartReport, PrivilegeReport, Report, StoreReport};

use action::Action;
use control_state::ControlState;
use fills::Fills;
use memory::Memory;
use nagori_config::{parts, ConfigError, MachineConfig};
use nagori_hart::engine::NoEngine;
use nagori_hart::lines::Coherence;
use nagori_hart::{CodeCache, Exit, Hart, HartError};
use nagori_platform::bus::{Bus, MapError};
use nagori_platform::clock::{Clock, Ps};
use nagori_platform::device::PowerRequest;
use nagori_platform::loader::Software;
use nagori_ram::{GuestRam, RamError};
use nagori_translator::Translator;
use observed::Observed;
use observers::Observers;
use parking_lot::Mutex;
use roster::Roster;
use shared::{Held, Shared};
use std::sync::Arc;
use turns::{HartTurn, Left, Window};
use view::HartView;
pub use warm_up::WarmUps;
use world::Surroundings;
pub use world::{Attributed, Attribution};

/// A machine that cannot be built or changed as asked.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The host gave no memory.
    #[error(transparent)]
    Ram(#[from] RamError),
    /// Two devices want the same addresses or interrupt.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A part that cannot be copied.
    #[error(
        "{0} was brought along, and what it keeps is its own: such a machine cannot be copied"
    )]
    Brought(String),
    /// A core value out of range.
    #[error(transparent)]
    Hart(#[from] HartError),
    /// A controller value out of range, or a change that it refuses.
    #[error("memory controller: {0}")]
    Memory(#[from] nagori_memtime::Error),
    /// A region's memory.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The host lets no code be generated.
    #[error("translator: {0} (the interpreter is always there)")]
    Translator(#[from] nagori_translator::Error),
    /// A power cut in timed mode without the tracking that it requires.
    #[error("what caches hold is not tracked, so a power cut cannot take it back: set memory.track_persistence=true in \
        the machine's description (or memory.persistence_domain=eadr, with which caches lose nothing)")]
    NotTracked,
    /// An image of NVMM is not this machine's, or is damaged.
    #[error(transparent)]
    Nvmm(#[from] nagori_nvmm::Error),
    /// There is an image of NVMM, and no NVMM.
    #[error("the machine has no NVMM: memory.nvmm_boundary is the end of its memory")]
    NoNvmm,
    /// The host has no space for what the image of NVMM is to hold.
    #[error("the image of NVMM cannot grow: {0}; it holds what was durable at that moment")]
    ImageFull(#[source] std::io::Error),
    /// What is durable is not known.
    #[error(
        "an image of NVMM holds what is durable, and this machine does not track that: set \
        memory.track_persistence=true (or memory.persistence_domain=eadr) in its description"
    )]
    ImageNotTracked,
    /// A machine that is not new goes on with an image of another content.
    #[error("the image holds other bytes at {0:#x} than the NVMM of this machine had when it was saved: without an \
        image, the machine goes on with its own")]
    ImageDiffers(u64),
    /// Parallel harts while the content of caches is tracked.
    #[error("harts cannot run at the same time while what caches hold is tracked: stores reach lines that others have \
        taken a little late; set memory.track_persistence=false in the machine's description, or run without \
        --parallel")]
    ParallelTracked,
    /// Epochs whose values are out of range or cannot be measured.
    #[error("epochs: {0}")]
    Epochs(#[from] EpochError),
    /// A checkpoint where a debugger or a point has stopped the machine within a block.
    #[error(
        "no checkpoint can be taken here: the machine stopped between two instructions of a block"
    )]
    WithinBlock,
    /// Saved state that does not fit.
    #[error(transparent)]
    Saved(LoadError),
    /// The description cannot be that of a machine.
    #[error(transparent)]
    Description(#[from] ConfigError),
}

/// Why [`Machine::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The guest switched the machine off, or asked for its end by a marker, with an exit code.
    PowerOff(u32),
    /// The guest asked for a restart; [`Machine::reset`] does it.
    Reset,
    /// The instruction limit was reached.
    Instructions,
    /// A slice of work is done; call again.
    Slice,
    /// A marker or the guest's kernel requests a snapshot here, with a value; call again to
    /// continue.
    Snapshot(u64),
    /// A debugger's stop: see [`Machine::debug_stop`].
    Debug,
    /// The point of [`Machine::set_point`] is reached.
    Reached,
    /// Every hart waits; the next event is at this time ([`Ps::NEVER`]: only input from outside can
    /// end the wait).
    Idle(Ps),
    /// Machine time has reached [`Ps::END`], and nothing can run any more.
    EndOfTime,
}

/// Whether a hart waits for an interrupt that has not come.
#[inline(always)]
fn sleeps(h: &Hart) -> bool {
    h.state.waiting && !h.wakes()
}

/// What others may see of a hart. They see it as of the last moment that follows from the program:
/// where it waited for memory, touched a device, slept, or came to the end of a window.
fn view(h: &Hart) -> HartView {
    HartView {
        cycle: h.state.cycle,
        instret: h.state.instret,
        stats: h.state.stats,
    }
}

/// Why harts stopped running.
enum Turn {
    /// The whole run ends.
    Stop(Stop),
    /// A device was touched.
    Device,
    /// At this cycle a device or a sleeping hart is due before any hart.
    Event { cycle: u64, asleep: bool },
}

/// A hart's interrupt lines follow the devices; if it sleeps, it wakes at `cycle`.
fn drive_lines(h: &mut Hart, lines: u64, cycle: u64) {
    let asleep = sleeps(h);
    h.set_lines(lines);
    if asleep && h.wakes() && h.state.cycle < cycle {
        h.state.stats.idle_cycles += cycle - h.state.cycle;
        h.state.cycle = cycle;
    }
}

/// A machine.
pub struct Machine {
    pub(crate) description: nagori_config::Machine,
    config: MachineConfig,
    harts: Vec<Hart>,
    code: Vec<CodeCache>,
    /// Empty where the interpreter does everything.
    translators: Vec<Translator<Surroundings>>,
    world: Held,
    /// Core cycles that harts may be apart, if they run at the same time.
    parallel: Option<u64>,
    /// How many threads the host runs at the same time.
    host_threads: usize,
    /// Whether they ever did.
    was_parallel: bool,
    engine: Engine,
    /// A part that was brought along.
    brought: Option<String>,
    /// As `translators`, for harts that run at the same time.
    together: Vec<Translator<Shared>>,
    started: stats::Baseline,
    marks: Vec<(u64, Report)>,
    /// Instructions of all harts at which caches count as warm.
    warm_at: Option<u64>,
    warm_ups: WarmUps,
    markers: marker::Markers,
    /// Places where a debugger wants to stop.
    debug: Option<Box<debug::Debug>>,
    /// The turn that a debugger's stop has interrupted.
    held: Option<HartTurn>,
    /// How far harts go before they wait for one another, with the timing model on.
    window: Window,
    /// Room for what the scheduler knows of harts while they take turns.
    roster: Roster,
    /// Where the run is to stop.
    point: Option<Point>,
    /// The core cycle from which on nothing is begun for now, since something may still come from outside.
    horizon: u64,
    /// The last such cycle that was reached: harts that wait for memory do so at least up to there.
    reached: u64,
    power_cuts: Vec<PowerCut>,
    /// Whether and how the machine is sampled.
    samples: sampled::Samples,
    /// What a restart loads.
    software: Option<Arc<Software>>,
}

impl Machine {
    /// Builds a machine from a checked description.
    pub fn new(resolved: &nagori_config::Machine) -> Result<Self, MachineError> {
        let ram = GuestRam::new(resolved.config.memory.size.0)?;
        Self::with_ram(resolved, ram)
    }

    /// Builds a machine with a memory, which has the size that the description says.
    fn with_ram(resolved: &nagori_config::Machine, ram: GuestRam) -> Result<Self, MachineError> {
        let described = resolved;
        let resolved = &epochs::completed(described)?;
        let epochs = epochs::Epochs::new(&resolved.config)?;
        let config = match &epochs {
            Some(_) => resolved.config.with_nvmm_as_dram(),
            None => resolved.config.clone(),
        };
        let m = &config.memory;
        let ram = Arc::new(ram);
        let bus = nagori_platform::assembly::build(&config, ram.clone())?;
        let mut hart_config = resolved.hart()?;
        let memory = Memory::new(&config)?;
        let n = config.harts as usize;
        let coherence = Coherence::new(n, hart_config.l1d, hart_config.l1i, m.base, m.size.0)
            .with_levels(&parts::levels(&config))
            .with_first(parts::first(&config, &hart_config.timing));
        hart_config.plain = coherence.is_plain() && !m.track_persistence;
        let mut harts = (0..n)
            .map(|i| Hart::new(i, hart_config.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let mut world = Surroundings {
            coherence,
            ram,
            ram_base: m.base,
            bus,
            memory,
            fills: Fills::new(n),
            alone: true,
            core_clock: Clock::new(config.core_period()),
            timebase: Clock::new(config.timebase()),
            board: config.board.clone(),
            observers: Observers::default(),
            views: vec![HartView::default(); n],
            timed: true,
            markers: config.markers,
            actions: Vec::new(),
            behind: m.track_persistence.then(Default::default),
            nvmm_lines_written: 0,
            image: None,
            keeps_queue: m.persistence_domain == nagori_config::PersistenceDomain::None,
            reached: None,
            control: ControlState::default(),
            profile: None,
            epochs: epochs.map(Box::new),
            cold: None,
        };
        stats::count_by_privilege(&mut harts, &world.coherence, config.count_by_privilege);
        if m.track_persistence {
            world.coherence.track_versions();
        }
        let started = stats::Baseline::new(n);
        Ok(Self {
            code: (0..n).map(|_| CodeCache::default()).collect(),
            translators: Vec::new(),
            harts,
            world: Arc::new(Mutex::new(world)).lock_arc(),
            parallel: None,
            host_threads: 1,
            was_parallel: false,
            engine: Engine::Interpreter,
            brought: None,
            together: Vec::new(),
            config,
            description: described.clone(),
            started,
            marks: Vec::new(),
            warm_at: None,
            warm_ups: WarmUps::default(),
            markers: marker::Markers::default(),
            debug: None,
            held: None,
            window: Window::default(),
            roster: Roster::default(),
            point: None,
            horizon: u64::MAX,
            reached: 0,
            power_cuts: Vec::new(),
            samples: sampled::Samples::default(),
            software: None,
        })
    }

    /// The description's values.
    pub fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// The description that the machine was built from.
    pub fn description(&self) -> &nagori_config::Machine {
        &self.description
    }

    /// Guest memory.
    pub fn ram(&self) -> &Arc<GuestRam> {
        &self.world.ram
    }

    /// The bus, to look at devices and to build the device tree.
    pub fn bus(&self) -> &Bus {
        &self.world.bus
    }

    /// A hart, to look at.
    pub fn hart(&self, i: usize) -> Option<&Hart> {
        self.harts.get(i)
    }

    /// A hart, to set registers before the start.
    pub fn hart_mut(&mut self, i: usize) -> Option<&mut Hart> {
        self.harts.get_mut(i)
    }

    /// What the machine was loaded with and a restart loads again, so that snapshots take it along.
    pub fn set_software(&mut self, software: Option<Arc<Software>>) {
        self.software = software;
    }

    /// The software that a restart loads, if it was set.
    pub fn software(&self) -> Option<&Arc<Software>> {
        self.software.as_ref()
    }

    /// All harts at reset at `pc`, with their index in a0 and the given a1 and a2.
    pub fn start_at(&mut self, pc: u64, a1: u64, a2: u64) {
        self.held = None;
        self.window = Window::default();
        for h in &mut self.harts {
            h.reset(pc);
            let id = h.id as u64;
            h.set_reg(10, id);
            h.set_reg(11, a1);
            h.set_reg(12, a2);
        }
    }

    /// Whether the timing model is on.
    pub fn timed(&self) -> bool {
        self.world.timed
    }

    /// Turns the timing model on (with cold caches and TLBs) or off. If the machine is sampled, this begins or ends
    /// what its samples are of.
    pub fn set_timed(&mut self, timed: bool) {
        if !self.open_stretch(timed) && timed != self.world.timed {
            self.switch_timing(timed);
        }
    }

    fn switch_timing(&mut self, timed: bool) {
        self.settle();
        self.write_stored();
        self.world.timed = timed;
        self.follow_timing();
        self.warm_ups.cut += u64::from(self.warm_at.is_some());
        for h in &mut self.harts {
            h.set_timed(timed);
        }
        self.begin_epochs();
        self.window = Window::default();
        self.world.nobody_waits();
        self.world.coherence.clear_caches();
        // In functional mode memory is all there is; what was dirty has reached it.
        self.world.all_written();
        self.begin_warm_up();
    }

    /// Whether transfers of devices cost anything follows from how harts are timed.
    fn follow_timing(&mut self) {
        let w = &mut *self.world;
        let cost = w.timed;
        w.bus.set_transfers_cost(cost);
    }

    /// Sets the observer of all transfers over the bus from now on. Outstanding transfers are
    /// reported to the previous observer; if that one had a failure, it is returned.
    pub fn watch_bus(&mut self, to: Option<Box<dyn BusWatch>>) -> std::io::Result<()> {
        self.world.memory.watch(to)
    }

    /// The first failure of the bus observer.
    pub fn check_bus_watch(&mut self) -> std::io::Result<()> {
        self.world.memory.check_watch()
    }

    /// Machine time: that of the hart that is furthest ahead.
    pub fn now(&self) -> Ps {
        self.world
            .ps(self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0))
    }

    /// The earliest time at which anything can happen in the machine, as far as it depends on nothing outside:
    /// that of the hart that is furthest behind, or the next event of a device or a timer.
    pub fn next_time(&self) -> Ps {
        let harts = self.harts.iter().filter_map(|h| match sleeps(h) {
            true => h.wake_cycle(),
            false if h.is_blocked() => Some(h.state.cycle.max(self.reached)),
            false => Some(h.state.cycle),
        });
        let first = harts.min().map_or(Ps::NEVER, |c| self.world.ps(c));
        first.min(self.world.bus.next_event())
    }

    /// Instructions retired by all harts.
    pub fn instructions(&self) -> u64 {
        self.harts.iter().map(|h| h.state.instret).sum()
    }

    /// Instructions retired and exceptions taken: what a guest cannot do without end
    /// in a bounded run, even if no instruction of it ever retires.
    pub fn steps(&self) -> u64 {
        let exceptions: u64 = self.harts.iter().map(|h| h.state.stats.exceptions).sum();
        self.instructions() + exceptions
    }

    /// Whether every hart waits for an interrupt that is not there.
    pub fn is_waiting(&self) -> bool {
        self.harts.iter().all(sleeps)
    }

    /// Whether something may still come from outside to a virtio slot, so that a machine that
    /// waits ([`Stop::Idle`]) is not stuck: poll it again.
    pub fn expects_host(&self) -> bool {
        self.world.bus.expects_host()
    }

    /// Restarts harts and devices; memory (with the caches' modified lines) and time continue. The
    /// caller loads the software again.
    pub fn reset(&mut self) {
        self.held = None;
        let now = self.now();
        self.world.apply_dma_writes();
        self.write_stored();
        self.world.bus.reset(now);
        self.world.control.block.reset();
        self.world.all_written();
        self.markers.stop = None;
        self.window = Window::default();
        let latest = self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0);
        for h in &mut self.harts {
            h.reset(0);
            h.state.cycle = latest;
        }
        self.begin_epochs();
        self.world.nobody_waits();
        let (base, len) = (self.world.ram_base, self.world.ram.len());
        let c = &mut self.world.coherence;
        c.clear_caches();
        c.device_wrote(base, len);
        self.update_lines(now);
    }

    /// Statistics since the start or the last reset of statistics.
    pub fn report(&self) -> Report {
        stats::report(
            &self.config,
            &self.harts,
            &self.world.coherence,
            (&self.world.memory, self.world.memory.reports(self.now())),
            self.now(),
            &self.started,
            (self.was_parallel, self.world.epochs.as_deref()),
        )
    }

    /// Reports kept by the guest under a label, in order, at most 16384.
    pub fn marks(&self) -> &[(u64, Report)] {
        &self.marks
    }

    /// Statistics start anew.
    pub fn reset_stats(&mut self) {
        let now = self.now();
        self.started = stats::Baseline::of(
            &self.harts,
            &self.world.coherence,
            self.world.epochs.as_deref(),
            now,
        );
        // Time only moves forward, so the controller accepts it.
        let _ = self.world.memory.reset_stats(now);
        self.world.control.baselines = self.started.views();
        self.restart_region();
        // No view of a hart is older than the start of its statistics.
        self.world.views = self.started.views();
        if let Some(p) = &mut self.world.profile {
            p.reset();
        }
        self.restart_stretch();
    }

    /// Sets the profiler, which observes from now on which code waits for memory.
    pub fn set_attribution(&mut self, to: Option<Box<dyn Attribution>>) {
        self.world.profile = to;
    }

    /// Takes what the profiler has counted since it was asked last.
    pub fn take_attributed(&mut self) -> Attributed {
        let profile = self.world.profile.as_mut();
        profile.map_or(Attributed::default(), |p| p.take())
    }

    /// Interrupt lines follow the devices; sleeping harts wake at `at`.
    fn update_lines(&mut self, at: Ps) {
        let cycle = self.world.cycle_at(at);
        for (i, h) in self.harts.iter_mut().enumerate() {
            drive_lines(h, self.world.bus.hart_lines(i), cycle);
        }
    }

    fn apply_actions(&mut self) {
        for a in std::mem::take(&mut self.world.actions) {
            match a {
                Action::Timed(on) => self.set_timed(on),
                Action::ResetStats => self.reset_stats(),
                Action::Mark(label) => self.mark(label),
                Action::Marker(hart, m, value) => self.apply_marker(hart, m, value),
            }
        }
    }

    fn keep_views(&mut self) {
        for (seen, h) in self.world.views.iter_mut().zip(&self.harts) {
            *seen = view(h);
        }
    }

    fn after_devices(&mut self, at: Ps) {
        self.world.apply_dma_writes();
        self.update_lines(at);
    }
}

impl Machine {
    /// Runs for about `cycles` core cycles of machine time, or until something
    /// else must happen. What happens in the guest does not depend on `cycles`: the scheduler
    /// is left only at points that it reaches anyhow, at most 2^20 cycles apart.
    ///
    /// `instructions` bounds [`Machine::steps`]; the last block may pass it by its length.
    pub fn run(&mut self, cycles: u64, instructions: Option<u64>) -> Stop {
        let stop = self.run_on(cycles, instructions);
        if self.world.image.is_some() && self.world.keeps_queue {
            // What leaves the machine now, such as output, may follow from what is durable.
            let now = self.now();
            let _ = self.world.look_at_writes(now);
        }
        let goes_on = matches!(stop, Stop::Slice | Stop::Idle(_) | Stop::Debug);
        if !goes_on && self.world.coherence.keeps_order() {
            // What statistics show of prefetches does not depend on when memory was looked at.
            self.settle_memory();
        }
        stop
    }

    /// As [`Machine::run`], up to a machine time at most: harts touch no device and no memory of others from there on,
    /// and no device does anything. A hart's own instructions may go on to the end of a block. What happens in the
    /// guest does not depend on `until`, either.
    ///
    /// [`Stop::Slice`] if the time is reached; [`Stop::Idle`] with the machine's own next event if all harts wait.
    pub fn run_until(&mut self, until: Ps, cycles: u64, instructions: Option<u64>) -> Stop {
        self.horizon = match until {
            Ps::NEVER => u64::MAX,
            t => self.world.cycle_at(t),
        };
        let stop = self.run(cycles, instructions);
        self.horizon = u64::MAX;
        stop
    }

    fn run_on(&mut self, cycles: u64, instructions: Option<u64>) -> Stop {
        let mut spent = 0u64;
        self.follow_timing();
        loop {
            if let Some(stop) = self.markers.stop.take() {
                return match stop {
                    Stop::Reached => self.reach(),
                    other => other,
                };
            }
            if let Some(p) = self.world.bus.take_power_request() {
                return match p {
                    PowerRequest::Off { code } => Stop::PowerOff(code),
                    PowerRequest::Reset => Stop::Reset,
                };
            }
            // Between accesses to devices only the harts' own time passes.
            let event = self.world.next_event();
            let turn = match self.parallel {
                // Where time or the order of instructions matters, harts run one after the other.
                Some(skew)
                    if !self.world.timed
                        && !self.is_observed()
                        && !self.world.observers.watches_accesses()
                        && self.point.is_none()
                        && self.horizon == u64::MAX =>
                {
                    self.run_together(skew, &mut spent, cycles, instructions)
                }
                _ => self.run_harts(event, &mut spent, cycles, instructions),
            };
            let (next, asleep) = match turn {
                Turn::Stop(Stop::Debug) if self.passes_used_up() => match self.guarded() {
                    Some(Turn::Stop(s)) => return s,
                    _ => continue,
                },
                Turn::Stop(s) => return s,
                Turn::Device => continue,
                Turn::Event { cycle, asleep } => (cycle, asleep),
            };
            if next >= self.world.last_cycle() {
                return self.end_of_time(asleep, spent > 0);
            }
            // A jump over idle time ends a slice, so that the host can pace it.
            if asleep && spent > 0 {
                return Stop::Idle(self.world.ps(next));
            }
            spent += 1;
            let at = self.world.ps(next);
            if asleep {
                self.sleeps_until(next);
            }
            parallel::wake_timers(self.harts.iter_mut(), next);
            self.world.bus.run_events(at);
            self.after_devices(at);
        }
    }

    /// Nothing is due before the end of time.
    fn end_of_time(&self, asleep: bool, pause: bool) -> Stop {
        let wakes = self.harts.iter().filter_map(Hart::wake_cycle);
        let wake = wakes.min().unwrap_or(u64::MAX);
        let due = self.world.ps(wake).min(self.world.bus.next_event());
        match asleep {
            true if due == Ps::NEVER || pause => Stop::Idle(due),
            _ => Stop::EndOfTime,
        }
    }

    /// Runs harts in turns until something else is due.
    fn run_harts(
        &mut self,
        event: u64,
        spent: &mut u64,
        cycles: u64,
        instructions: Option<u64>,
    ) -> Turn {
        let mut roster = std::mem::take(&mut self.roster);
        roster.look(&self.harts);
        let end = self.take_turns(&mut roster, event, spent, cycles, instructions);
        self.roster = roster;
        end
    }

    fn take_turns(
        &mut self,
        roster: &mut Roster,
        event: u64,
        spent: &mut u64,
        cycles: u64,
        instructions: Option<u64>,
    ) -> Turn {
        loop {
            let resumed = self.held.is_some();
            let left = Left {
                event,
                spent: *spent,
                cycles,
                instructions,
            };
            let turn = match self.next_turn(left, roster) {
                Ok(turn) => turn,
                Err(other) => return other,
            };
            if self.point.is_some() && !resumed {
                self.guard(&turn);
            }
            let HartTurn {
                hart: i,
                from: now,
                limit,
                end,
                bus_limit,
            } = turn;
            let observed = self.is_observed();
            let h = &mut self.harts[i];
            let mut bus_limit = bus_limit;
            if h.fills() && !resumed {
                let world = &mut *self.world;
                let filled = if observed {
                    h.go_on_filling(&mut Observed::of(world), bus_limit)
                } else {
                    h.go_on_filling(world, bus_limit)
                };
                if !filled {
                    *spent += 1;
                    roster.look_at(i, h);
                    if h.is_blocked() {
                        self.world.views[i] = view(h);
                    }
                    self.window.end_turn();
                    continue;
                }
                bus_limit = bus_limit.min(h.bus_limit());
            }
            let (code, world) = (&mut self.code[i], &mut *self.world);
            let exit = if observed {
                let debug = self.debug.as_deref_mut().filter(|d| d.active());
                let mut world = Observed {
                    inner: world,
                    debug,
                };
                h.run_ahead(code, &mut world, limit, bus_limit, &mut NoEngine)
            } else {
                let mut engine = self.translators.get_mut(i);
                if let Some(t) = &mut engine {
                    t.begin(h);
                }
                let exit = h.run_ahead(code, world, limit, bus_limit, &mut engine);
                if let Some(t) = engine {
                    t.end(h);
                }
                exit
            };
            self.pass_time(i, now);
            let h = &mut self.harts[i];
            // A hart that has stopped within a block has the cycle of the block's start.
            *spent += h.state.cycle.saturating_sub(now).max(1);
            let over = match exit {
                Exit::Limit => h.state.cycle >= end,
                Exit::Bus => h.is_blocked(),
                // What other harts see of it must not depend on where a debugger stops it.
                Exit::Stopped => false,
                _ => true,
            };
            if over {
                self.world.views[i] = view(h);
            }
            let interrupted = exit == Exit::Limit && !over && self.world.timed;
            let bus_limit_left = if interrupted { h.bus_limit() } else { 0 };
            self.window.interrupt_turn(bus_limit_left);
            roster.look_at(i, &self.harts[i]);
            self.release_waiting(roster);
            if !matches!(exit, Exit::Limit | Exit::Stopped) {
                self.window.end_turn();
            }
            if exit == Exit::Stopped {
                let bus_limit = bus_limit.min(self.harts[i].bus_limit());
                self.held = Some(HartTurn { bus_limit, ..turn });
                return Turn::Stop(Stop::Debug);
            }
            if exit == Exit::Device {
                let at = self.world.ps(self.harts[i].state.cycle);
                self.apply_actions();
                self.after_devices(at);
                return Turn::Device;
            }
        }
    }
}
