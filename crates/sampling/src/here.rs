//! Windows in the machine itself, for several harts that are busy.
//!
//! Harts that wait for one another execute as many instructions as the others take time, so instructions are no measure
//! of what has been done. Time is: in functional parts each hart's time passes by the cycles an instruction that it had
//! in the window before, with no lag, and what a window has counted stands for the time from its beginning to that of
//! the next one.

use crate::window::Window;
use nagori_machine::{Progress, Report};
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

/// A window and what it stands for.
#[derive(Debug, Clone)]
struct Stood {
    /// Where it began, with its warm-up.
    begin: Progress,
    /// Its time in detail, with its warm-up, and its own, in which not every hart slept.
    detail_ps: u64,
    own_ps: u64,
    instructions: u64,
    /// True time for that of functional parts: less than 1 where a hart is faster than functional time can pass.
    scale: f64,
}

/// The windows so far.
#[derive(Debug, Clone)]
pub struct Here {
    /// Where the first one's interval begins.
    from: Progress,
    part: Part,
    begin: Progress,
    all: Vec<Stood>,
    functional_cpi: f64,
}

fn awake(p: &Progress) -> u64 {
    p.time_ps.saturating_sub(p.asleep_ps)
}

impl Here {
    /// From a moment on.
    pub fn new(from: Progress, functional_cpi: u32) -> Here {
        Here {
            begin: from.clone(),
            from,
            part: Part::Functional,
            all: Vec::new(),
            functional_cpi: f64::from(functional_cpi.max(1)),
        }
    }

    /// Where it begins.
    pub fn from(&self) -> &Progress {
        &self.from
    }

    /// A window's place has come.
    pub fn begins(&mut self, at: Progress) {
        (self.begin, self.part) = (at, Part::WarmUp);
    }

    /// A part in detail is over: a warm-up, which the window itself follows, or a window.
    pub fn over(&mut self, report: Report, at: Progress) -> Option<Window> {
        let Part::Measured(from) = std::mem::replace(&mut self.part, Part::Functional) else {
            self.part = Part::Measured(at);
            return None;
        };
        let part = at.since(&from);
        let window = Window {
            instructions: part.instructions.max(1),
            awake_ps: awake(&part),
            asleep_ps: part.asleep_ps,
            report,
            cold: 0,
            awake_if_hits_ps: awake(&part),
        };
        self.all.push(Stood {
            detail_ps: awake(&at.since(&self.begin)),
            own_ps: window.awake_ps,
            instructions: window.instructions,
            begin: self.begin.clone(),
            scale: self.scale(&window.report),
        });
        Some(window)
    }

    /// What is timed ends; a window that it ends in does not count. Whether there was one.
    pub fn cut(&mut self) -> bool {
        std::mem::replace(&mut self.part, Part::Functional) != Part::Functional
    }

    fn scale(&self, r: &Report) -> f64 {
        let (mut real, mut functional) = (0.0, 0.0);
        for h in r.harts.iter().filter(|h| h.instructions > 0) {
            let cycles = h.cycles.saturating_sub(h.events.idle_cycles) as f64;
            real += cycles;
            functional += cycles.max(h.instructions as f64 * self.functional_cpi);
        }
        if functional > 0.0 {
            real / functional
        } else {
            1.0
        }
    }

    /// The instructions that each window stands for, as many as it would take for the time; the run has come to a
    /// place.
    pub fn weights(&self, end: &Progress) -> Vec<f64> {
        let next = |i: usize| self.all.get(i + 1).map_or(end, |s| &s.begin);
        let one = |(i, s): (usize, &Stood)| {
            let begin = if i == 0 { &self.from } else { &s.begin };
            let functional = awake(&next(i).since(begin)).saturating_sub(s.detail_ps);
            let ps = s.detail_ps as f64 + s.scale * functional as f64;
            ps / s.own_ps.max(1) as f64 * s.instructions as f64
        };
        self.all.iter().enumerate().map(one).collect()
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
