//! The state of a machine, except the contents of its memory, as data.

use super::behind::Behind;
use super::control_state::ControlState;
use super::epochs::{began, HartEpochs};
use super::fills::Fills;
use super::load_error::LoadError;
use super::marker::Markers;
use super::memory::SavedMemory;
use super::power::PowerCut;
use super::stats::{Baseline, Report};
use super::turns::Window;
use super::view::HartView;
use super::world::Surroundings;
use super::{Machine, MachineError, WarmUps};
use nagori_hart::lines::SavedCoherence;
use nagori_hart::{save_caches, Hart, SavedHart};
use nagori_platform::bus::BusState;
use nagori_platform::clock::Ps;
use nagori_platform::control::ControlBlock;
use serde::{Deserialize, Serialize};

/// Everything in a machine but the contents of memory. What runs the code (engine) and what
/// watches it belong to the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineState {
    timed: bool,
    harts: Vec<SavedHart>,
    coherence: SavedCoherence,
    memory: SavedMemory,
    fills: Fills,
    bus: BusState,
    control: ControlBlock,
    warm_up: u64,
    warm_at: Option<u64>,
    #[serde(default, skip_serializing_if = "WarmUps::is_none")]
    warm_ups: WarmUps,
    views: Vec<HartView>,
    baselines: Vec<HartView>,
    started: Baseline,
    marks: Vec<(u64, Report)>,
    /// See `machine::power`; only where it is tracked.
    behind: Option<Behind>,
    markers: Markers,
    window: Window,
    /// Whether harts have run at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    parallel: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    power_cuts: Vec<PowerCut>,
    /// Epochs, by hart, if they emulate NVMM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    epochs: Vec<HartEpochs>,
}

impl MachineState {
    /// The parts with their versions: each goes up with any change of what is saved of that part. Models of memory and
    /// devices have versions of their own, beside what they save.
    pub const PARTS: [(&'static str, u32); 3] = [
        ("harts", SavedHart::VERSION),
        ("caches", SavedCoherence::VERSION),
        ("scheduler and statistics", 1),
    ];

    /// Without what depends on the engine: two runs that are the same are the same in this.
    pub fn without_code(mut self) -> MachineState {
        self.harts = self
            .harts
            .into_iter()
            .map(SavedHart::without_code)
            .collect();
        self
    }

    /// Core cycles of the hart that is furthest ahead.
    pub fn cycle(&self) -> u64 {
        self.harts.iter().map(|h| h.counts().0).max().unwrap_or(0)
    }

    /// Instructions of all harts.
    pub fn instructions(&self) -> u64 {
        let all = self.harts.iter().map(|h| h.counts().1);
        all.fold(0, u64::saturating_add)
    }

    /// Whether the timing model was on.
    pub fn timed(&self) -> bool {
        self.timed
    }
}

impl Machine {
    /// The state beside the contents of memory. May be taken whenever [`Machine::run`] has
    /// come back; the run that goes on is not disturbed.
    pub fn save_state(&self) -> MachineState {
        // Named one by one, so that a new field cannot be forgotten here.
        let Machine {
            description: _,
            config: _,
            harts,
            code,
            translators: _,
            together: _,
            engine: _,
            parallel: _,
            host_threads: _,
            was_parallel,
            world,
            started,
            marks,
            warm_at,
            warm_ups,
            markers,
            // Whoever saves asks for it.
            brought: _,
            // A debugger's.
            debug: _,
            held: _,
            window,
            // The host's.
            roster: _,
            point: _,
            power_cuts,
            // Whoever samples keeps that.
            samples: _,
            // A part of its own.
            horizon: _,
            reached: _,
            software: _,
        } = self;
        let Surroundings {
            ram: _,
            ram_base: _,
            bus,
            memory,
            fills,
            // Set by every turn.
            alone: _,
            coherence,
            core_clock: _,
            timebase: _,
            board: _,
            observers: _,
            views,
            timed,
            // The description's.
            markers: _,
            // Done before a run comes back.
            actions: _,
            behind,
            // A file of the host, and a count for the host.
            image: _,
            nvmm_lines_written: _,
            // The description's.
            keeps_queue: _,
            reached: _,
            // The controller's time says the same.
            control,
            profile: _,
            epochs,
            cold: _,
        } = &**world;
        MachineState {
            timed: *timed,
            harts: harts.iter().zip(code).map(|(h, c)| h.save(c)).collect(),
            coherence: save_caches(coherence, harts),
            memory: memory.save(),
            fills: fills.clone(),
            bus: bus.save(),
            control: control.block.clone(),
            warm_up: control.warm_up,
            warm_at: *warm_at,
            warm_ups: *warm_ups,
            views: views.clone(),
            baselines: control.baselines.clone(),
            started: started.clone(),
            marks: marks.clone(),
            behind: behind.clone(),
            markers: markers.clone(),
            window: window.clone(),
            parallel: *was_parallel,
            power_cuts: power_cuts.clone(),
            epochs: epochs.as_ref().map(|e| e.save()).unwrap_or_default(),
        }
    }

    /// Goes on from a saved state, with the memory's contents as they were then. On error
    /// the machine is in no state to run.
    pub fn load_state(&mut self, s: MachineState) -> Result<(), LoadError> {
        let fail = |bad: bool, what| {
            if bad {
                Err(LoadError::Machine(what))
            } else {
                Ok(())
            }
        };
        let n = self.harts.len();
        fail(
            self.brought.is_some(),
            "a memory or prefetcher that was brought along",
        )?;
        fail(s.harts.len() != n, "number of harts")?;
        let modes = s.harts.iter().any(|h| h.timed() != s.timed);
        fail(modes, "harts in different modes")?;
        let last = self.world.cycle_at(Ps(Ps::END.0 + (1 << 49)));
        fail(s.cycle() > last, "a time beyond the end of time")?;
        fail(s.views.len() != n, "views of harts")?;
        fail(
            !matches!(s.baselines.len(), 0) && s.baselines.len() != n,
            "baselines",
        )?;
        let now = || s.harts.iter().map(HartView::of_saved);
        // What is subtracted from one another must not be more than that.
        let ordered = |low: &[HartView], high: &mut dyn Iterator<Item = HartView>| {
            low.iter().zip(high).all(|(l, h)| l.up_to(&h))
        };
        let mut views = s.views.iter().copied();
        fail(!ordered(&s.views, &mut now()), "views of harts")?;
        fail(!ordered(&s.baselines, &mut views), "baselines")?;
        fail(s.started.views().len() != n, "start of statistics")?;
        let started = s.started.views();
        fail(!ordered(&started, &mut now()), "start of statistics")?;
        let opened = s.markers.opened();
        fail(
            !matches!(opened.len(), 0) && opened.len() != n,
            "open region",
        )?;
        fail(!ordered(&opened, &mut now()), "open region")?;
        fail(!s.markers.sane(), "regions of interest")?;
        fail(!s.window.fits(n), "harts that wait for one another")?;

        let memory = self.world.memory.restore(&self.config, s.memory)?;
        fail(!s.fills.fits(n), "lines that harts work on")?;

        let (ram_base, ram_bytes) = (self.world.ram_base, self.world.ram.len());
        // Without the timing model nothing is in a cache, tracked or not.
        fail(
            s.timed && s.behind.is_some() != self.world.behind.is_some(),
            "lines of caches are tracked in one machine only",
        )?;
        let behind = self
            .world
            .behind
            .is_some()
            .then(|| s.behind.unwrap_or_default());
        let lines = behind
            .as_ref()
            .is_none_or(|b| b.inside(ram_base, ram_bytes));
        fail(!lines, "tracked lines")?;
        self.world.coherence.load(s.coherence)?;
        let mut harts = Vec::with_capacity(n);
        let mut codes = Vec::with_capacity(n);
        for (i, saved) in s.harts.iter().enumerate() {
            let config = self.harts[i].config().clone();
            let caches = &self.world.coherence;
            let (hart, code) = Hart::restore(i, config, saved, ram_bytes, caches)?;
            harts.push(hart);
            codes.push(code);
        }
        let waits = |(i, h): (usize, &Hart)| {
            let caches = &self.world.coherence;
            let asked = |token: u64| caches.asked_ahead().any(|a| a == token);
            let load = h.awaits_load().is_some_and(asked);
            let for_what = memory.blocks(i) as u8
                + s.fills.blocks(i) as u8
                + caches.blocks(i) as u8
                + load as u8;
            for_what == h.is_blocked() as u8 && h.open_loads().all(asked)
        };
        let all = harts.iter().enumerate().all(waits);
        fail(!all, "harts that wait for memory")?;
        let kept = |(l, n)| behind.as_ref().is_none_or(|b| b.has_older(l, n));
        let kept = { self.world.coherence.versions() }.all(kept);
        fail(!kept, "older states of lines")?;
        let mut asked: Vec<u64> = memory.asked_ahead().collect();
        asked.sort_unstable();
        let same = asked.into_iter().eq(self.world.coherence.asked_ahead());
        fail(!same, "prefetches that memory has been asked for")?;
        fail(!began(s.started.epochs(), &s.epochs), "epochs")?;
        let w = &mut *self.world;
        let fits = match &mut w.epochs {
            Some(e) => e.load(s.epochs, &harts, &w.coherence),
            None => s.epochs.is_empty(),
        };
        fail(!fits, "epochs")?;
        self.world.bus.load(&s.bus)?;
        self.harts = harts;
        self.code = codes;
        self.translators.iter_mut().for_each(|t| t.forget());
        self.together.iter_mut().for_each(|t| t.forget());
        let w = &mut *self.world;
        w.timed = s.timed;
        w.behind = behind;
        w.memory = memory;
        w.fills = s.fills;
        w.views = s.views;
        w.actions.clear();
        w.control = ControlState::restored(s.control, s.baselines, s.warm_up);
        self.started = s.started;
        self.marks = s.marks;
        self.warm_at = s.warm_at;
        self.warm_ups = s.warm_ups;
        self.markers = s.markers;
        self.window = s.window;
        self.power_cuts = s.power_cuts;
        self.was_parallel = s.parallel || self.parallel.is_some();
        Ok(())
    }
}

impl From<LoadError> for MachineError {
    fn from(e: LoadError) -> Self {
        MachineError::Saved(e)
    }
}

impl HartView {
    fn of_saved(h: &SavedHart) -> HartView {
        let (cycle, instret, stats) = h.counts();
        HartView {
            cycle,
            instret,
            stats: *stats,
        }
    }

    /// Whether nothing in this view is later than in another one.
    fn up_to(&self, later: &HartView) -> bool {
        let counters = self.stats.values().into_iter().zip(later.stats.values());
        let times = [(self.cycle, later.cycle), (self.instret, later.instret)];
        counters.chain(times).all(|(a, b)| a <= b)
    }
}
