//! Chooses the moments of a run, and says what has come of it.

use crate::estimate::{self, scattered, Interval, Weighted};
use crate::here::{busy, Here, TURN};
use crate::plan::{early, Plan, EARLY, LONGEST_WARM_UP, WARM_UP};
use crate::pool::{Copies, Pool};
use crate::totals::{whole, Asleep};
use crate::window::{Failure, Length, Window};
use nagori_machine::{
    Attributed, Machine, MachineError, Moment, Next, Pace, Part, Progress, Report, Sampling,
};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// By how many windows a decision is behind those that it uses, so that so many may be measured at the same time.
pub const LAG: u64 = 16;
/// A window counts as warm if it might be shorter by less than this.
const DOUBT: f64 = 0.01;
/// Windows from which the pace of functional time follows.
const PACE: usize = 4;

/// Where a window begins, in instructions of the functional parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Spot {
    /// The start of its interval.
    start: u64,
    /// Its own, with its warm-up.
    begin: u64,
    length: Length,
}

/// Samples a machine.
pub struct Sampler {
    plan: Plan,
    copies: Copies,
    pool: Option<Pool>,
    functional_cpi: u32,
    cycle_ps: f64,
    /// Instructions of the warm-up of the next window.
    warm_up: u64,
    /// Instructions that are still to be measured as a whole.
    head_left: u64,
    head: Option<Report>,
    /// What the profiler has counted there, by stretch.
    head_attributed: Vec<Attributed>,
    /// Functional parts of stretches that have ended.
    behind: Progress,
    /// Where the present one began.
    begun: Option<Progress>,
    /// The next window, after those of `spots`, and the end of its interval.
    next: Spot,
    next_end: u64,
    spots: Vec<Spot>,
    /// Number of the moment of the first spot.
    first: u64,
    found: Vec<Option<Window>>,
    pace: Pace,
    /// Windows of the machine itself, and how many of copies come before them.
    here: Option<Here>,
    in_copies: usize,
}

/// What the caller may want to know of a machine's sampling.
impl Sampler {
    /// For a machine that has not been sampled yet.
    pub fn new(plan: Plan, m: &Machine, copies: Copies) -> Sampler {
        let c = m.config();
        let warm_up = plan
            .warm_up
            .unwrap_or(WARM_UP[usize::from(!c.levels().is_empty())]);
        let mut s = Sampler {
            copies,
            pool: None,
            functional_cpi: c.functional_cpi,
            cycle_ps: 1e12 / c.core_period().nearest_hz() as f64,
            warm_up,
            head_left: plan.head(warm_up),
            head: None,
            head_attributed: Vec::new(),
            behind: Progress::default(),
            begun: None,
            next: Spot {
                start: 0,
                begin: 0,
                length: Length {
                    warm_up,
                    measured: plan.window_length,
                },
            },
            next_end: 0,
            spots: Vec::new(),
            first: 0,
            found: Vec::new(),
            pace: Pace::default(),
            here: None,
            in_copies: 0,
            plan,
        };
        s.place(0);
        s
    }

    /// Begins to sample a machine.
    pub fn begin(self, m: &mut Machine) {
        m.set_sampling(Box::new(self));
    }

    /// Ends the sampling of a machine: what has come of it, `None` if it was not sampled by this.
    pub fn end(m: &mut Machine) -> Result<Option<Sampled>, Failure> {
        if !m.is_sampled() {
            return Ok(None);
        }
        let by = m.end_sampling().map_err(|e| e.to_string())?;
        let by = by.and_then(|b| (b as Box<dyn Any>).downcast::<Sampler>().ok());
        by.map(|s| s.result()).transpose()
    }

    /// The windows of the intervals that are known for decisions about the window `n`.
    fn known(&mut self, n: u64) -> usize {
        if self.here.is_some() {
            return self.found.len();
        }
        let known = n.saturating_sub(LAG);
        self.fetch(known);
        known as usize
    }

    /// Waits for so many windows, and takes them from the pool.
    fn fetch(&mut self, windows: u64) {
        if let Some(pool) = &self.pool {
            pool.wait(self.first + windows);
            while (self.found.len() as u64) < windows {
                self.found
                    .push(pool.take(self.first + self.found.len() as u64));
            }
        }
    }

    /// Places the next window, which begins at `start` or after it.
    fn place(&mut self, start: u64) {
        let n = self.spots.len();
        let known = self.known(n as u64);
        if let Some(given) = &self.plan.given {
            let measured = self.plan.window_length;
            let at = given
                .intervals
                .get(n)
                .map(|(i, _)| i.saturating_mul(measured));
            // After the last one there is none.
            let at = at.unwrap_or(u64::MAX);
            let warm_up = self.warm_up.min(at);
            self.next = Spot {
                start: at,
                begin: at - warm_up,
                length: Length { warm_up, measured },
            };
            return;
        }
        let starts = || self.spots.iter().map(|s| s.start);
        let intervals = starts().zip(starts().skip(1).chain([start]));
        let rates: Vec<Weighted> = { self.found[..known].iter().zip(intervals) }
            .filter_map(|(w, (from, to))| {
                let w = w.as_ref()?;
                let length = to.saturating_sub(from);
                Some(weighted(length as f64, w, w.awake_ps as f64))
            })
            .collect();
        // What has varied in short intervals at the beginning may do so again.
        let equal: Vec<Weighted> = rates
            .iter()
            .map(|r| Weighted { weight: 1.0, ..*r })
            .collect();
        let variations = [&rates, &equal].map(|r| estimate::variation(r));
        let variation = variations.into_iter().flatten().reduce(f64::max);
        let variation = variation.filter(|_| rates.len() >= LAG as usize / 2);
        // Instructions are those of all harts, each of which warms caches of its own.
        let harts = match (self.plan.warm_up, &self.here) {
            (None, Some(here)) => here.busy() as u64,
            _ => 1,
        };
        let warm_up = self.warm_up * harts;
        let interval = self.plan.interval((start, n as u64), variation, warm_up);
        if self.plan.warm_up.is_none() {
            // One more step if the last windows were not warm.
            let last = { self.found[..known].iter().zip(&self.spots) }.rev();
            let last = last.filter_map(|(w, s)| Some((w.as_ref()?, s)));
            let last: Vec<_> = last
                .filter(|(_, s)| s.length.warm_up == self.warm_up)
                .take(8)
                .collect();
            let (doubt, time) = last.iter().fold((0, 0), |(d, t), (w, _)| {
                (
                    d + w.awake_ps.saturating_sub(w.awake_if_hits_ps),
                    t + w.awake_ps,
                )
            });
            let longest = interval / LONGEST_WARM_UP;
            let cold = doubt as f64 > DOUBT * time as f64;
            if last.len() >= 4 && cold && 4 * self.warm_up <= longest {
                self.warm_up *= 4;
            }
        }
        let length = Length {
            warm_up: self.warm_up * harts,
            measured: self.plan.window_length,
        };
        let room = interval
            .saturating_sub(length.warm_up + length.measured)
            .max(1);
        self.next = Spot {
            start,
            begin: start.saturating_add(scattered(n as u64) % room),
            length,
        };
        self.next_end = start.saturating_add(interval);
    }

    /// Instructions of functional parts so far.
    fn position(&self, at: &Progress) -> u64 {
        self.passed(at).instructions
    }

    /// How far functional parts and windows have come.
    fn passed(&self, at: &Progress) -> Progress {
        let mut p = self.behind.clone();
        if let Some(begun) = &self.begun {
            p.add(&at.since(begun));
        }
        p
    }

    fn go_on(&self, at: &Progress) -> Next {
        let left = self.next.begin.saturating_sub(self.position(at));
        match self.here {
            Some(_) => Next::Functional(left),
            None => Next::Moment(left),
        }
    }

    /// If several harts are busy, windows are measured in the machine itself from now on.
    fn choose(&mut self, at: &Progress, busy: usize) {
        if busy > 1
            && self.here.is_none()
            && self.copies.keep.is_none()
            && self.plan.given.is_none()
        {
            self.fetch(self.spots.len() as u64);
            self.in_copies = self.found.len();
            self.here = Some(Here::new(self.passed(at), busy));
            self.place(self.next.start);
        }
    }

    /// The pace that follows from the windows that are known.
    fn follow(&mut self, known: usize) {
        let last: Vec<&Report> = { self.found[..known].iter().rev().flatten() }
            .take(PACE)
            .map(|w| &w.report)
            .collect();
        let last = if last.is_empty() {
            self.head.iter().collect()
        } else {
            last
        };
        let Some(harts) = last.first().map(|r| r.harts.len()) else {
            return;
        };
        // Windows of the machine itself tell what follows them, those of copies what followed others.
        let some = if self.here.is_some() { 1 } else { last.len() };
        let of = |hart: Option<usize>, windows: usize| {
            let all = last[..windows].iter().flat_map(|r| &r.harts);
            let (mut cycles, mut n) = (0, 0);
            for h in all.filter(|h| hart.is_none_or(|i| i == h.hart)) {
                cycles += h.cycles.saturating_sub(h.events.idle_cycles);
                n += h.instructions;
            }
            (cycles as f64 / n as f64, n)
        };
        let all = of(None, last.len()).0;
        let each = (0..harts).map(|i| {
            let told = [some, last.len()].map(|n| of(Some(i), n));
            told.iter().find(|t| t.1 >= 1000).map_or(all, |t| t.0)
        });
        let pace = Pace::new(each, self.functional_cpi);
        self.pace = match &self.here {
            Some(here) => Pace {
                turn: Some(TURN),
                ..pace.times(here.scale())
            },
            None => pace,
        };
    }

    fn result(mut self) -> Result<Sampled, Failure> {
        let all = self.spots.len();
        if self.here.is_none() {
            self.fetch(all as u64);
        }
        if let Some(e) = self.pool.as_ref().and_then(Pool::failure) {
            return Err(format!("a window could not be measured: {e}"));
        }
        let here = self.here.take();
        let own = match here {
            Some(_) => self.found.split_off(self.in_copies),
            None => Vec::new(),
        };
        let total = here.as_ref().map_or(&self.behind, Here::from).instructions;
        let mut windows: Vec<(f64, Window)> = Vec::new();
        match &self.plan.given {
            Some(given) => {
                let pairs = self.found.into_iter().zip(&given.intervals);
                let pairs = pairs.filter_map(|(w, (_, weight))| Some((*weight, w?)));
                windows.extend(pairs);
                let sum: f64 = windows.iter().map(|w| w.0).sum();
                windows.iter_mut().for_each(|w| w.0 *= total as f64 / sum);
            }
            None => {
                let valid = self
                    .spots
                    .iter()
                    .zip(self.found)
                    .filter_map(|(s, w)| Some((s.start, w?)));
                let valid: Vec<(u64, Window)> = valid.collect();
                let starts: Vec<u64> = valid.iter().map(|v| v.0).chain([total]).collect();
                for (n, (_, w)) in valid.into_iter().enumerate() {
                    // An interval whose window the program did not come to belongs to the one before.
                    let start = if n == 0 { 0 } else { starts[n] };
                    windows.push((starts[n + 1].saturating_sub(start) as f64, w));
                }
            }
        }
        let weights = here.map_or(Vec::new(), |h| h.weights(&self.behind));
        windows.extend(weights.into_iter().zip(own.into_iter().flatten()));
        // A run that ended before there was a window went on as it began.
        let cost = self.next.length.warm_up + self.next.length.measured;
        let none = windows.is_empty() && total <= 2 * early(cost);
        let head = self.head.as_ref().filter(|_| none);
        let rest = head.map(|h| (total as f64, Window::of(h)));
        Ok(Sampled {
            cut: all - windows.len(),
            rest,
            cold: windows.iter().filter(|(_, w)| w.doubt() > DOUBT).count(),
            is_random: self.plan.given.is_none(),
            warm_up: self.spots.last().map_or(self.warm_up, |s| s.length.warm_up),
            window_length: self.plan.window_length,
            error: self.plan.error,
            head: self.head,
            head_attributed: self.head_attributed,
            windows,
            total: self.behind,
            cycle_ps: self.cycle_ps,
        })
    }
}

fn weighted(weight: f64, w: &Window, value: f64) -> Weighted {
    Weighted {
        weight,
        size: w.instructions as f64,
        value,
    }
}

impl Sampling for Sampler {
    fn begins(&mut self, at: &Progress) -> Next {
        match self.head_left {
            0 => {
                self.begun = Some(at.clone());
                self.go_on(at)
            }
            n => Next::Detail(n),
        }
    }

    fn detail_over(&mut self, part: Part, at: &Progress) -> (Next, Pace) {
        if self.begun.is_some() {
            return self.window_over(part, at);
        }
        self.add_head(part);
        self.head_left = 0;
        self.begun = Some(at.clone());
        self.choose(at, busy(self.head.iter()));
        self.follow(0);
        (self.go_on(at), self.pace.clone())
    }

    fn functional_over(&mut self, at: &Progress) -> (Next, Pace) {
        let passed = self.passed(at);
        if let Some(here) = &mut self.here {
            here.begins(passed);
        }
        self.spots.push(self.next);
        (Next::WarmUp(self.next.length.warm_up), self.pace.clone())
    }

    fn moment(&mut self, m: Moment, at: &Progress) -> Result<(Next, Pace), MachineError> {
        let spot = self.next;
        if let Some(first) = m.first {
            self.pool = Some(Pool::new(first, self.plan.threads, &self.copies));
        }
        if let Some(pool) = &self.pool {
            let number = self.first + self.spots.len() as u64;
            pool.submit(number, (m.state, m.pages), spot.length);
        }
        self.spots.push(spot);
        let end = self.next_end;
        self.place(end);
        let known = self.known(self.spots.len() as u64);
        let last = { self.found[..known].iter().rev().flatten() }.take(PACE);
        let busy = busy(last.map(|w| &w.report));
        self.choose(at, busy);
        self.follow(known);
        Ok((self.go_on(at), self.pace.clone()))
    }

    fn ends(&mut self, part: Option<Part>, at: &Progress) {
        if let Some(here) = &mut self.here {
            if here.cut() {
                self.found.push(None);
                let end = self.next_end;
                self.place(end);
            }
        } else if let Some(part) = part {
            let n = part.report.instructions;
            self.head_left = self.head_left.saturating_sub(n).max(1);
            self.add_head(part);
        }
        if let Some(begun) = self.begun.take() {
            self.behind.add(&at.since(&begun));
        }
    }

    fn restarts(&mut self) {
        self.head = None;
        self.head_attributed.clear();
        self.here = None;
        self.head_left = self.plan.head(self.warm_up);
        self.behind = Progress::default();
        self.begun = None;
        self.first += self.spots.len() as u64;
        self.spots.clear();
        self.found.clear();
        self.place(0);
    }
}

impl Sampler {
    /// A part of a window of the machine itself is over.
    fn window_over(&mut self, part: Part, at: &Progress) -> (Next, Pace) {
        let passed = self.passed(at);
        let over = self.here.as_mut().and_then(|h| h.over(part, passed));
        if over.is_none() {
            return (Next::Detail(self.next.length.measured), self.pace.clone());
        }
        self.found.push(over);
        let end = self.next_end;
        self.place(end);
        self.follow(self.found.len());
        (self.go_on(at), self.pace.clone())
    }

    fn add_head(&mut self, part: Part) {
        self.head_attributed.push(part.attributed);
        self.head = Some(match self.head.take() {
            Some(h) => h.plus(&part.report),
            None => part.report,
        });
    }
}

/// What has come of a sampled run.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// Windows, each with the instructions that it stands for.
    pub windows: Vec<(f64, Window)>,
    /// What stands for the part without windows, if that is so short that there are none.
    rest: Option<(f64, Window)>,
    /// Windows that the program ended in.
    pub cut: usize,
    /// Windows that might be shorter by more than 1 % with warm caches.
    pub cold: usize,
    /// Instructions of the last warm-up.
    pub warm_up: u64,
    /// Instructions that each window measures.
    pub window_length: u64,
    /// Half of the interval that was aimed at.
    pub error: f64,
    /// What was measured as a whole, at the beginning.
    pub head: Option<Report>,
    head_attributed: Vec<Attributed>,
    /// The functional parts of the run, with their time as it passed there.
    pub total: Progress,
    /// Whether windows are anywhere, so that intervals follow from them.
    is_random: bool,
    cycle_ps: f64,
}

impl Sampled {
    /// Whether everything was measured as a whole: the program was too short for windows.
    pub fn is_whole(&self) -> bool {
        self.total.instructions == 0
    }

    /// Whether there are too few windows for an estimate: the run was long enough for more.
    pub fn says_too_little(&self) -> bool {
        if self.is_whole() {
            return false;
        }
        let few = (self.windows.len() as u64) < EARLY;
        let cost = self.window_length + self.warm_up;
        self.parts().next().is_none()
            || self.is_random && few && self.total.instructions > EARLY * early(cost)
    }

    /// Whether windows are anywhere, and too few for an interval.
    pub fn has_no_interval(&self) -> bool {
        self.is_random && self.time_ps().is_some_and(|t| t.half.is_none())
    }

    /// Instructions that were measured as a whole.
    pub fn head_instructions(&self) -> u64 {
        self.head.as_ref().map_or(0, |h| h.instructions)
    }

    /// How many harts execute more than a twentieth of the windows' instructions.
    pub fn busy_harts(&self) -> usize {
        busy(self.windows.iter().map(|(_, w)| &w.report))
    }

    /// An estimate of the whole, in the form of a report. `None` if there is none.
    pub fn report(&self) -> Option<Report> {
        let asleep = |ps: f64| Asleep {
            ps,
            cycles: ps / self.cycle_ps,
        };
        let windows: Vec<(f64, &Report, Asleep)> = { self.parts() }
            .map(|(weight, w)| {
                let factor = weight / w.instructions as f64;
                (factor, &w.report, asleep(w.asleep_ps as f64))
            })
            .collect();
        whole(
            self.head.as_ref(),
            &windows,
            asleep(self.total.asleep_ps as f64),
        )
    }

    /// What the profiler has counted, each part as many times as it stands for.
    pub fn attributed(&self) -> impl Iterator<Item = (f64, &Attributed)> {
        let factor = |(weight, w): &(f64, Window)| weight / w.instructions as f64;
        let head = 1.0 + self.rest.as_ref().map_or(0.0, factor);
        let windows = self
            .windows
            .iter()
            .map(move |w| (factor(w), &w.1.attributed));
        let head = self.head_attributed.iter().map(move |a| (head, a));
        head.chain(windows)
    }

    /// The total of a figure that does not change while every hart sleeps.
    pub fn total(&self, of: impl Fn(&Report) -> f64) -> Option<Interval> {
        self.sum(|w| of(&w.report), self.head.as_ref().map_or(0.0, &of))
    }

    /// What estimates consist of, besides the beginning.
    fn parts(&self) -> impl Iterator<Item = &(f64, Window)> {
        self.windows.iter().chain(&self.rest)
    }

    fn sum(&self, of: impl Fn(&Window) -> f64, known: f64) -> Option<Interval> {
        if self.is_whole() {
            return Some(Interval::exact(known));
        }
        let all: Vec<Weighted> = { self.parts() }
            .map(|(weight, w)| weighted(*weight, w, of(w)))
            .collect();
        let sum = estimate::total(&all)?.plus(known);
        Some(self.trusted(sum))
    }

    fn trusted(&self, i: Interval) -> Interval {
        Interval {
            half: i.half.filter(|_| self.is_random),
            ..i
        }
    }

    /// Run time in picoseconds, with the time in which every hart slept.
    pub fn time_ps(&self) -> Option<Interval> {
        let head = self.head.as_ref().map_or(0, |h| h.elapsed_ps) as f64;
        self.sum(|w| w.awake_ps as f64, head + self.total.asleep_ps as f64)
    }

    /// An estimate of the time if all lines of cold caches had been hits: the true time is not below it.
    pub fn least_time_ps(&self) -> Option<Interval> {
        let head = self.head.as_ref().map_or(0, |h| h.elapsed_ps) as f64;
        self.sum(
            |w| w.awake_if_hits_ps as f64,
            head + self.total.asleep_ps as f64,
        )
    }

    /// Run time as a part of that of another run. If both were sampled at the same places, windows are compared one by
    /// one, and what they have in common is no error.
    pub fn over(&self, other: &Sampled) -> Option<Interval> {
        let known = |s: &Sampled| {
            let head = s.head.as_ref().map_or(0, |h| h.elapsed_ps);
            (head + s.total.asleep_ps) as f64
        };
        let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * b;
        let pairs = || self.windows.iter().zip(&other.windows);
        let same =
            self.windows.len() == other.windows.len() && pairs().all(|(a, b)| near(a.0, b.0));
        if !same || self.windows.is_empty() {
            return Some(self.time_ps()?.over(other.time_ps()?));
        }
        let pair = |((weight, a), (_, b)): (&(f64, Window), &(f64, Window))| {
            let size = a.instructions as f64 / b.instructions as f64;
            (
                weighted(*weight, a, a.awake_ps as f64),
                b.awake_ps as f64 * size,
            )
        };
        let all: Vec<(Weighted, f64)> = pairs().map(pair).collect();
        estimate::ratio(&all, (known(self), known(other))).map(|i| self.trusted(i))
    }

    /// The quotient of two figures. `None` if there is nothing to divide by.
    pub fn ratio(
        &self,
        of: impl Fn(&Report) -> f64,
        by: impl Fn(&Report) -> f64,
    ) -> Option<Interval> {
        let head = self.head.as_ref();
        let known = (head.map_or(0.0, &of), head.map_or(0.0, &by));
        let all: Vec<(Weighted, f64)> = { self.parts() }
            .map(|(weight, w)| (weighted(*weight, w, of(&w.report)), by(&w.report)))
            .collect();
        estimate::ratio(&all, known).map(|i| self.trusted(i))
    }
}
