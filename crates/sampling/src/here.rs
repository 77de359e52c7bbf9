//! Windows in the machine itself, for several harts that are busy.
//!
//! What each hart does in functional parts depends on how fast the others are there: how often it finds a lock taken,
//! or an empty pipe. So in functional parts each hart's time passes by the cycles an instruction that it had in the
//! window before, with no lag, and all times are scaled such that as much passes as windows have told so far.

use crate::window::Window;
use nagori_machine::{Part as Measured, Progress, Report};
use std::collections::BTreeSet;

/// Core cycles of a hart's turn in functional parts: harts that wait see others' stores so much later at most.
pub const TURN: u32 = 200;

/// What the machine is in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Functional,
    WarmUp,
    Measured(Progress),
}

/// A window and the part of the run that follows it.
#[derive(Debug, Clone)]
struct Stood {
    /// Where it began, with its warm-up, and how far that and the window went.
    begin: Progress,
    detail: Progress,
    /// Picoseconds an instruction in the window, in which not every hart slept.
    rate: f64,
    /// What times behind it were multiplied by.
    scale: f64,
}

/// Windows of which the scale of times consists.
const SCALED_BY: usize = 16;

/// The windows so far.
#[derive(Debug, Clone)]
pub struct Here {
    /// Where the first one's interval begins.
    from: Progress,
    /// Harts that were busy then.
    busy: usize,
    part: Part,
    begin: Progress,
    all: Vec<Stood>,
}

fn awake(p: &Progress) -> u64 {
    p.time_ps.saturating_sub(p.asleep_ps)
}

impl Here {
    /// From a moment on, at which so many harts are busy.
    pub fn new(from: Progress, busy: usize) -> Here {
        Here {
            begin: from.clone(),
            from,
            busy,
            part: Part::Functional,
            all: Vec::new(),
        }
    }

    /// Where it begins.
    pub fn from(&self) -> &Progress {
        &self.from
    }

    /// The harts that were busy when it began.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// A window's place has come.
    pub fn begins(&mut self, at: Progress) {
        (self.begin, self.part) = (at, Part::WarmUp);
    }

    /// A part in detail is over: a warm-up, which the window itself follows, or a window.
    pub fn over(&mut self, measured: Measured, at: Progress) -> Option<Window> {
        let Part::Measured(from) = std::mem::replace(&mut self.part, Part::Functional) else {
            self.part = Part::Measured(at);
            return None;
        };
        let part = at.since(&from);
        let window = Window {
            instructions: part.instructions.max(1),
            awake_ps: awake(&part),
            asleep_ps: part.asleep_ps,
            report: measured.report,
            cold: 0,
            awake_if_hits_ps: awake(&part),
            attributed: measured.attributed,
        };
        let scale = self.scale_up_to(&self.begin);
        self.all.push(Stood {
            detail: at.since(&self.begin),
            rate: window.awake_ps as f64 / window.instructions as f64,
            begin: self.begin.clone(),
            scale,
        });
        Some(window)
    }

    /// What is timed ends; a window that it ends in does not count. Whether there was one.
    pub fn cut(&mut self) -> bool {
        std::mem::replace(&mut self.part, Part::Functional) != Part::Functional
    }

    /// What times are multiplied by behind the last window.
    pub fn scale(&self) -> f64 {
        self.all.last().map_or(1.0, |s| s.scale)
    }

    /// The time that functional parts behind the last windows should have taken, as a part of what they have taken
    /// without any scale. 1 if there were none.
    fn scale_up_to(&self, end: &Progress) -> f64 {
        let first = self.all.len().saturating_sub(SCALED_BY);
        let (mut told, mut taken) = (0.0, 0.0);
        for (i, s) in self.all.iter().enumerate().skip(first) {
            let part = self.behind(i, end).since(&s.detail);
            told += part.instructions as f64 * s.rate;
            taken += awake(&part) as f64 / s.scale;
        }
        if told > 0.0 && taken > 0.0 {
            told / taken
        } else {
            1.0
        }
    }

    /// How far the run went from the beginning of a window to that of the next one, or to a place.
    fn behind(&self, window: usize, end: &Progress) -> Progress {
        self.next(window, end).since(&self.all[window].begin)
    }

    fn next<'a>(&'a self, window: usize, end: &'a Progress) -> &'a Progress {
        self.all.get(window + 1).map_or(end, |s| &s.begin)
    }

    /// The instructions that each window stands for; the run has come to a place.
    pub fn weights(&self, end: &Progress) -> Vec<f64> {
        let mut from = &self.from;
        let mut all = Vec::new();
        for i in 0..self.all.len() {
            let next = self.next(i, end);
            all.push(next.since(from).instructions as f64);
            from = next;
        }
        all
    }
}

/// How many harts execute more than a twentieth of the instructions of some reports.
pub fn busy<'r>(reports: impl Iterator<Item = &'r Report> + Clone) -> usize {
    let harts = || reports.clone().flat_map(|r| &r.harts);
    let all: u64 = harts().map(|h| h.instructions).sum();
    let of = |hart| -> u64 {
        let own = harts().filter(|h| h.hart == hart);
        own.map(|h| h.instructions).sum()
    };
    let ids: BTreeSet<usize> = harts().map(|h| h.hart).collect();
    ids.into_iter().filter(|h| of(*h) > all / 20).count()
}
