//! Sampling: while the timing model would be on, the machine runs functionally, and at moments that somebody else
//! chooses its state is handed out, so that copies of it ([`Replica`](crate::Replica)) are measured in detail.
//!
//! A stretch is the time in which the timing model would be on. Within it the machine is in detail or functional, as
//! [`Sampling`] decides; in functional parts a [`Pace`] moves each hart's time.

use super::marker::RegionStart;
use super::turns::HartTurn;
use super::{Attributed, Attribution, Checkpoint, Machine, MachineError, MachineState, Report};
use nagori_ram::PAGE;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// The content of a page of memory.
pub type PageContent = Arc<[u8]>;

/// A stretch's part that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// So many instructions of all harts in detail, in the machine itself.
    Detail(u64),
    /// As [`Next::Detail`], with caches that are still to be warmed: what time code takes there says nothing of others.
    WarmUp(u64),
    /// So many without the timing model.
    Functional(u64),
    /// So many without the timing model, and then the state is handed out.
    Moment(u64),
}

/// How far a machine has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Instructions of all harts.
    pub instructions: u64,
    /// Machine time in picoseconds.
    pub time_ps: u64,
    /// Picoseconds in which every hart has slept.
    pub asleep_ps: u64,
}

impl Progress {
    /// Adds what has happened elsewhere.
    pub fn add(&mut self, more: &Progress) {
        self.instructions += more.instructions;
        self.time_ps += more.time_ps;
        self.asleep_ps += more.asleep_ps;
    }

    /// What has happened since an earlier moment.
    pub fn since(&self, earlier: &Progress) -> Progress {
        Progress {
            instructions: self.instructions - earlier.instructions,
            time_ps: self.time_ps - earlier.time_ps,
            asleep_ps: self.asleep_ps - earlier.asleep_ps,
        }
    }
}

/// The state of a machine at some moment, for a [`Replica`](crate::Replica).
pub struct Moment {
    /// Everything, once: at the first moment.
    pub first: Option<First>,
    /// Everything but memory.
    pub state: MachineState,
    /// The pages of memory, by their offsets, that may have changed since the last moment.
    pub pages: Vec<(u64, PageContent)>,
}

/// What copies of a machine begin with.
pub struct First {
    /// Everything.
    pub checkpoint: Checkpoint,
    /// A profiler like the machine's, if it has one.
    pub profile: Option<Box<dyn Attribution>>,
}

/// A part of a run in detail.
#[derive(Debug, Clone)]
pub struct Part {
    /// What was counted.
    pub report: Report,
    /// What the machine's profiler has counted.
    pub attributed: Attributed,
}

/// How fast time passes in functional parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Of each hart: cycles for one of functional mode, in 2^-16; at least 2^16.
    pub harts: Vec<u32>,
    /// The most cycles that one hart is ahead of the others, if fewer than the machine's own
    /// (`functional_quantum_cycles`). Then time passes as it has passed in detail for the code that a turn begins with,
    /// if that is known: of harts that share work, now this one waits for the others and now that one.
    pub turn: Option<u32>,
    /// What all of that is multiplied by, in 2^-16.
    pub scale: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            harts: Vec::new(),
            turn: None,
            scale: PLAIN,
        }
    }
}

/// One cycle for a cycle.
const PLAIN: u32 = 1 << 16;

/// Cycles an instruction by block, from turns in detail.
struct Learned {
    /// Cycles and instructions of turns, by where the block begins that a turn begins in.
    blocks: HashMap<u64, (u64, u64)>,
    /// By hart, in detail.
    starts: Vec<Option<Start>>,
    /// Whether turns in detail are looked at.
    learns: bool,
    functional_cpi: u64,
}

/// Instructions of which a figure consists at least, and from which on older ones count half.
const KNOWN: u64 = 64;
const RECENT: u64 = 20_000;

impl Learned {
    /// A turn of a hart in detail begins: what its last one led to, with all waits, is known.
    fn begins(&mut self, hart: usize, now: Start) {
        if !self.learns {
            return;
        }
        if let Some(last) = self.starts[hart].replace(now) {
            let cycles = now.cycles.wrapping_sub(last.cycles);
            let instructions = now.instructions.wrapping_sub(last.instructions);
            self.add(last.pc, cycles, instructions);
        }
    }

    fn add(&mut self, pc: u64, cycles: u64, instructions: u64) {
        let e = self.blocks.entry(pc).or_default();
        (e.0, e.1) = (e.0 + cycles, e.1 + instructions);
        if e.1 > RECENT {
            (e.0, e.1) = (e.0 / 2, e.1 / 2);
        }
    }

    /// As in [`Pace::harts`].
    fn times(&self, pc: u64) -> Option<u64> {
        let (cycles, n) = *self.blocks.get(&pc)?;
        let plain = u64::from(PLAIN);
        let times = || (cycles * plain / (n * self.functional_cpi)).clamp(plain, plain * 1000);
        (n >= KNOWN).then(times)
    }
}

/// Where a hart's turn in detail began.
#[derive(Clone, Copy)]
struct Start {
    pc: u64,
    /// Cycles in which it has not slept, and its instructions.
    cycles: u64,
    instructions: u64,
}

impl Pace {
    /// From cycles an instruction for each hart, and the cycles that an instruction takes in functional mode. No hart
    /// is faster than that: its time would have to go back.
    pub fn new(cpi: impl IntoIterator<Item = f64>, functional_cpi: u32) -> Pace {
        let one = |c: f64| {
            let times = c / f64::from(functional_cpi.max(1)) * f64::from(PLAIN);
            // Out of range, or not a number: as nothing is known.
            if times.is_finite() {
                times.clamp(f64::from(PLAIN), f64::from(PLAIN) * 1000.0) as u32
            } else {
                PLAIN
            }
        };
        Pace {
            harts: cpi.into_iter().map(one).collect(),
            ..Pace::default()
        }
    }

    /// As this one, with all times multiplied.
    pub fn times(self, by: f64) -> Pace {
        // At least a hundredth, and at most a hundred times: not a number counts as one.
        let by = if by.is_finite() {
            by.clamp(0.01, 100.0)
        } else {
            1.0
        };
        let scale = (f64::from(PLAIN) * by) as u32;
        Pace { scale, ..self }
    }

    fn of(&self, hart: usize) -> u64 {
        self.harts.get(hart).copied().unwrap_or(PLAIN).into()
    }
}

/// Functional cycles in so many cycles of a hart, at least one; a functional one takes `times`.
fn functional(times: u64, cycles: u64) -> u64 {
    let n = (u128::from(cycles) << 16).div_ceil(times.into());
    (n as u64).max(1)
}

/// Cycles that pass beside so many functional ones.
fn beside(times: u64, functional: u64) -> u64 {
    let extra = times.saturating_sub(PLAIN.into());
    ((u128::from(functional) * u128::from(extra)) >> 16) as u64
}

/// Cycles that a functional turn may take at most.
const LONGEST_TURN: u64 = 10_000;

/// Decides where a machine is sampled.
pub trait Sampling: Any + Send {
    /// A stretch begins.
    fn begins(&mut self, at: &Progress) -> Next;
    /// A part in detail is over. What follows, and the pace.
    fn detail_over(&mut self, part: Part, at: &Progress) -> (Next, Pace);
    /// A functional part is over, and nothing is handed out. What follows, and the pace.
    fn functional_over(&mut self, at: &Progress) -> (Next, Pace);
    /// A moment has come. What follows, and the pace.
    fn moment(&mut self, moment: Moment, at: &Progress) -> Result<(Next, Pace), MachineError>;
    /// The stretch ends; with its last part if that is in detail.
    fn ends(&mut self, part: Option<Part>, at: &Progress);
    /// Statistics start anew: what was so far does not count.
    fn restarts(&mut self);
}

/// A machine that is sampled.
pub(super) struct Sampled {
    by: Box<dyn Sampling>,
    /// Whether a stretch is open.
    open: bool,
    /// Where a part in detail began, if one is on.
    detail: Option<Box<RegionStart>>,
    /// Instructions of all harts at which the part is over.
    next: u64,
    /// Whether the state is handed out then.
    hands_out: bool,
    /// Whether memory has been handed out.
    kept: bool,
    pace: Pace,
    /// For several harts.
    learned: Option<Learned>,
    /// How much longer the present turn takes than a functional one, as in [`Pace::harts`].
    times: u64,
}

impl Sampled {
    /// How much longer a turn of a hart that begins at some code takes than a functional one.
    fn times(&self, hart: usize, pc: u64) -> u64 {
        let learned = self.learned.as_ref().filter(|_| self.pace.turn.is_some());
        let times = learned
            .and_then(|l| l.times(pc))
            .unwrap_or_else(|| self.pace.of(hart));
        ((times * u64::from(self.pace.scale)) >> 16).max(PLAIN.into())
    }
}

/// What a machine knows of its sampling.
#[derive(Default)]
pub(super) struct Samples {
    sampled: Option<Box<Sampled>>,
    /// Why sampling cannot go on.
    failed: Option<MachineError>,
    /// Cycles in which every hart has slept, and up to where.
    asleep: u64,
    slept_until: u64,
}

impl Samples {
    /// Time begins anew.
    pub fn forget_sleep(&mut self) {
        (self.asleep, self.slept_until) = (0, 0);
    }

    /// Sampling has failed, and does not go on.
    pub fn fail(&mut self, e: MachineError) {
        self.failed.get_or_insert(e);
    }
}

impl Machine {
    /// The machine is sampled from now on, whenever the timing model is turned on.
    pub fn set_sampling(&mut self, by: Box<dyn Sampling>) {
        let was = self.timed();
        self.set_timed(false);
        self.samples.sampled = Some(Box::new(Sampled {
            by,
            open: false,
            detail: None,
            next: u64::MAX,
            hands_out: false,
            kept: false,
            pace: Pace::default(),
            learned: (self.harts.len() > 1).then(|| Learned {
                blocks: HashMap::new(),
                starts: vec![None; self.harts.len()],
                learns: false,
                functional_cpi: u64::from(self.config.functional_cpi).max(1),
            }),
            times: PLAIN.into(),
        }));
        if was {
            self.set_timed(true);
        }
    }

    /// Ends sampling. By what it was done, or why it could not go on.
    pub fn end_sampling(&mut self) -> Result<Option<Box<dyn Sampling>>, MachineError> {
        self.open_stretch(false);
        let sampled = self.samples.sampled.take();
        match self.samples.failed.take() {
            Some(e) => Err(e),
            None => Ok(sampled.map(|s| s.by)),
        }
    }

    /// Whether the machine is sampled.
    pub fn is_sampled(&self) -> bool {
        self.samples.sampled.is_some()
    }

    /// How far the machine has come.
    pub fn progress(&self) -> Progress {
        Progress {
            instructions: self.instructions(),
            time_ps: self.now().0,
            asleep_ps: self.world.ps(self.samples.asleep).0,
        }
    }

    /// All harts sleep up to a cycle.
    pub(super) fn sleeps_until(&mut self, cycle: u64) {
        let last = self.harts.iter().map(|h| h.state.cycle).max().unwrap_or(0);
        let from = last.max(self.samples.slept_until);
        if cycle > from && cycle != u64::MAX {
            self.samples.asleep += cycle - from;
            self.samples.slept_until = cycle;
        }
    }

    /// A stretch begins or ends. Whether that is all that turning the timing model on or off does.
    pub(super) fn open_stretch(&mut self, on: bool) -> bool {
        if self.samples.sampled.is_none() {
            return false;
        }
        let Some(mut s) = self.samples.sampled.take() else {
            return false;
        };
        let at = self.progress();
        if on && !s.open {
            s.open = true;
            let next = s.by.begins(&at);
            self.follow(&mut s, next);
        } else if !on && s.open {
            s.open = false;
            let part = self.end_detail(&mut s);
            s.by.ends(part, &at);
            s.next = u64::MAX;
        }
        self.samples.sampled = Some(s);
        true
    }

    /// Statistics start anew.
    pub(super) fn restart_stretch(&mut self) {
        let Some(mut s) = self.samples.sampled.take() else {
            return;
        };
        if s.open {
            self.end_detail(&mut s);
            s.by.restarts();
            let next = s.by.begins(&self.progress());
            self.follow(&mut s, next);
        }
        self.samples.sampled = Some(s);
    }

    fn end_detail(&mut self, s: &mut Sampled) -> Option<Part> {
        let start = s.detail.take()?;
        let part = self.part(&start);
        if self.world.timed {
            self.switch_timing(false);
        }
        Some(part)
    }

    fn part(&mut self, start: &RegionStart) -> Part {
        Part {
            report: self.since(start),
            attributed: self.take_attributed(),
        }
    }

    fn follow(&mut self, s: &mut Sampled, next: Next) {
        let (n, timed) = match next {
            Next::Detail(n) | Next::WarmUp(n) => (n, true),
            Next::Functional(n) | Next::Moment(n) => (n, false),
        };
        if self.world.timed != timed {
            self.switch_timing(timed);
        }
        if let Some(l) = &mut s.learned {
            l.starts.fill(None);
            l.learns = matches!(next, Next::Detail(_));
        }
        s.detail = timed.then(|| self.region_start());
        s.hands_out = matches!(next, Next::Moment(_));
        s.next = self.instructions().saturating_add(n.max(1));
    }

    /// Instructions until the part of a stretch is over; 0: it is over now.
    #[inline(always)]
    pub(super) fn sample_left(&self) -> u64 {
        match &self.samples.sampled {
            Some(s) if s.next != u64::MAX => s.next.saturating_sub(self.instructions()),
            _ => u64::MAX,
        }
    }

    /// The part of a stretch is over.
    #[cold]
    pub(super) fn sample(&mut self) -> Result<(), MachineError> {
        let Some(mut s) = self.samples.sampled.take() else {
            return Ok(());
        };
        let at = self.progress();
        let followed = match s.detail.take() {
            Some(start) => Ok(s.by.detail_over(self.part(&start), &at)),
            None if !s.hands_out => Ok(s.by.functional_over(&at)),
            None => self
                .moment(!std::mem::replace(&mut s.kept, true))
                .and_then(|m| s.by.moment(m, &at)),
        };
        let result = match followed {
            Ok((next, pace)) => {
                s.pace = pace;
                self.follow(&mut s, next);
                Ok(())
            }
            Err(e) => {
                s.next = u64::MAX;
                Err(e)
            }
        };
        self.samples.sampled = Some(s);
        result
    }

    fn moment(&mut self, first: bool) -> Result<Moment, MachineError> {
        let ram = self.ram().clone();
        let noted = ram.take_noted();
        // What passed the filters is noted again at its next store.
        let w = &mut *self.world;
        self.harts.iter_mut().for_each(|h| h.lets_none_pass(w));
        if first {
            ram.note_stores();
            let checkpoint = self.checkpoint()?;
            return Ok(Moment {
                state: checkpoint.state().clone(),
                first: Some(First {
                    checkpoint,
                    profile: self.world.profile.as_ref().map(|p| p.another()),
                }),
                pages: Vec::new(),
            });
        }
        let content = |at: u64| {
            let mut bytes = vec![0; PAGE as usize];
            // The page is one of this memory's.
            ram.read_bytes(at, &mut bytes).map(|()| (at, bytes.into()))
        };
        Ok(Moment {
            first: None,
            pages: noted.into_iter().map(content).collect::<Result<_, _>>()?,
            state: self.save_state(),
        })
    }

    /// The most cycles that a hart is ahead of the others without the timing model.
    pub(super) fn functional_turn_cycles(&self) -> u64 {
        let own = self.config.functional_quantum_cycles;
        let asked = self.samples.sampled.as_ref().filter(|s| s.open);
        asked
            .and_then(|s| s.pace.turn)
            .map_or(own, |t| t.min(own))
            .into()
    }

    /// A turn of a hart begins, or goes on. A functional one is shortened so that the hart's time does not pass the
    /// limit.
    #[inline(always)]
    pub(super) fn begin_turn(&mut self, turn: &mut HartTurn, goes_on: bool) {
        let Some(s) = self.samples.sampled.as_mut().filter(|s| s.open) else {
            return;
        };
        let h = &self.harts[turn.hart];
        if !self.world.timed {
            s.times = s.times(turn.hart, h.block_pc());
            // What a turn takes beyond its own cycles passes at its end: not beyond the hart's timer, and not far
            // beyond one that is set meanwhile.
            let timer = h.wake_cycle().filter(|c| *c > turn.from);
            let end = turn.limit.min(timer.unwrap_or(u64::MAX));
            let cycles = functional(s.times, (end - turn.from).min(LONGEST_TURN));
            turn.limit = turn.limit.min(turn.from + cycles);
        } else if let (Some(l), false) = (&mut s.learned, goes_on) {
            let now = Start {
                pc: h.block_pc(),
                cycles: h.state.cycle.wrapping_sub(h.state.stats.idle_cycles),
                instructions: h.state.instret,
            };
            l.begins(turn.hart, now);
        }
    }

    /// A functional turn of a hart is over, which began at `from`: it has taken more than its own cycles.
    #[inline(always)]
    pub(super) fn pass_time(&mut self, hart: usize, from: u64) {
        if let Some(s) = &self.samples.sampled {
            if s.open && !self.world.timed {
                let h = &mut self.harts[hart];
                h.state.cycle += beside(s.times, h.state.cycle.saturating_sub(from));
            }
        }
    }
}
