//! Sampling: while the timing model would be on, the machine runs functionally, and at moments that somebody else
//! chooses its state is handed out, so that copies of it ([`Replica`](crate::Replica)) are measured in detail.
//!
//! A stretch is the time in which the timing model would be on. Within it the machine is in detail or functional, as
//! [`Sampling`] decides; in functional parts a [`Pace`] moves each hart's time.

use super::marker::RegionStart;
use super::turns::HartTurn;
use super::{Checkpoint, Machine, MachineError, MachineState, Report};
use nagori_ram::PAGE;
use std::any::Any;
use std::sync::Arc;

/// The content of a page of memory.
pub type PageContent = Arc<[u8]>;

/// A stretch's part that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// So many instructions of all harts in detail, in the machine itself.
    Detail(u64),
    /// So many without the timing model, and then the state is handed out.
    Functional(u64),
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
    pub first: Option<Checkpoint>,
    /// Everything but memory.
    pub state: MachineState,
    /// The pages of memory, by their offsets, that may have changed since the last moment.
    pub pages: Vec<(u64, PageContent)>,
}

/// How fast the time of each hart passes in functional parts: cycles for one of functional mode, in 2^-16; at least
/// 2^16.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pace(pub Vec<u32>);

/// One cycle for a cycle.
const PLAIN: u32 = 1 << 16;

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
        Pace(cpi.into_iter().map(one).collect())
    }

    fn of(&self, hart: usize) -> u64 {
        self.0.get(hart).copied().unwrap_or(PLAIN).into()
    }

    /// Functional cycles in so many cycles of a hart, at least one.
    fn functional(&self, hart: usize, cycles: u64) -> u64 {
        let n = (u128::from(cycles) << 16).div_ceil(self.of(hart).into());
        (n as u64).max(1)
    }

    /// Cycles that pass beside so many functional ones.
    fn beside(&self, hart: usize, functional: u64) -> u64 {
        let extra = self.of(hart).saturating_sub(PLAIN.into());
        ((u128::from(functional) * u128::from(extra)) >> 16) as u64
    }
}

/// Decides where a machine is sampled.
pub trait Sampling: Any + Send {
    /// A stretch begins.
    fn begins(&mut self, at: &Progress) -> Next;
    /// A part in detail is over; the report covers it. What follows, and the pace.
    fn detail_over(&mut self, report: Report, at: &Progress) -> (Next, Pace);
    /// A moment has come. What follows, and the pace.
    fn moment(&mut self, moment: Moment, at: &Progress) -> Result<(Next, Pace), MachineError>;
    /// The stretch ends; with a report if it ends in detail.
    fn ends(&mut self, report: Option<Report>, at: &Progress);
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
    /// Whether memory has been handed out.
    kept: bool,
    pace: Pace,
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
            kept: false,
            pace: Pace::default(),
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
        let last = self.harts.iter().map(|h| h.cycle).max().unwrap_or(0);
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
            let report = self.end_detail(&mut s);
            s.by.ends(report, &at);
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

    fn end_detail(&mut self, s: &mut Sampled) -> Option<Report> {
        let start = s.detail.take()?;
        let report = self.since(&start);
        if self.world.timed {
            self.switch_timing(false);
        }
        Some(report)
    }

    fn follow(&mut self, s: &mut Sampled, next: Next) {
        let n = match next {
            Next::Detail(n) => {
                if !self.world.timed {
                    self.switch_timing(true);
                }
                s.detail = Some(self.region_start());
                n
            }
            Next::Functional(n) => n,
        };
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
        let followed = match self.end_detail(&mut s) {
            Some(report) => Ok(s.by.detail_over(report, &at)),
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
                first: Some(checkpoint),
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

    /// A functional turn of a hart that begins at `from`, shortened so that its time does not pass the limit.
    #[inline(always)]
    pub(super) fn paced(&self, turn: HartTurn) -> HartTurn {
        match &self.samples.sampled {
            Some(s) if s.open => {
                let cycles = s.pace.functional(turn.hart, turn.limit - turn.from);
                HartTurn {
                    limit: turn.limit.min(turn.from + cycles),
                    ..turn
                }
            }
            _ => turn,
        }
    }

    /// The time that a hart's functional turn has taken beside its own cycles.
    #[inline(always)]
    pub(super) fn pass_time(&mut self, hart: usize, from: u64) {
        if let Some(s) = &self.samples.sampled {
            if s.open && !self.world.timed {
                let h = &mut self.harts[hart];
                h.cycle += s.pace.beside(hart, h.cycle.saturating_sub(from));
            }
        }
    }
}
