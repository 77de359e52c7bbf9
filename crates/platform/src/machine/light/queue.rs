//! How much of its time a hart's lines meet those of other harts in the light mode: what lines wait for one another.
//!
//! A hart's line finds another hart's line in front of it as often as that hart waits for one meanwhile (mean value
//! analysis of closed queues). Averages of each hart by itself would not do: harts that take turns never meet. So each
//! hart keeps how long it had waited until when, and another one looks up how much of that lies within its own last
//! epochs, as soon as no hart is behind their ends. The present epoch is taken to be like these.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Core cycles of the longest window within which harts are not ordered.
pub(super) const WINDOW: u64 = 256;
/// Points of time that are kept of a hart: as many as an epoch of the usual length has, and more.
const KEPT: usize = 64;
/// Epochs of a hart that may lie behind it before they are looked at.
const PENDING: usize = 16;

/// Shares of time for which others wait for lines that they read, and that they write.
type Share = (u32, u32);

/// How long a hart had waited for reads and for writes until a core cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    at: u64,
    reads: u64,
    writes: u64,
}

/// An epoch, from a cycle to another; in it a line was fetched that another hart had, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Epoch {
    from: u64,
    to: u64,
    handed: bool,
}

/// One hart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waits {
    /// By time; in between, a hart has waited evenly.
    points: VecDeque<Point>,
    /// It waits for nothing behind the last point.
    at_rest: bool,
    /// Its epochs in which it waited for memory and which are not among `others` yet.
    pending: VecDeque<Epoch>,
    /// How many others waited meanwhile, on average: in epochs in which it fetched lines that others had, and in others.
    others: [Share; 2],
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queues {
    harts: Vec<Waits>,
    /// Core cycles between points, and those over which `others` is averaged.
    apart: u64,
    over: u64,
}

impl Queues {
    /// The share of a hart that does nothing else.
    pub const ALWAYS: u32 = 1 << 16;

    /// For epochs of so many core cycles; what harts meet is averaged over so many, which are fewer.
    pub fn new(harts: usize, epoch: u64, over: u64) -> Queues {
        Queues {
            harts: vec![Waits::default(); harts],
            apart: (over / 4).max(epoch / (KEPT as u64 / 2)).max(1),
            over: over.max(1),
        }
    }

    /// Whether this is a possible state where `other` is one.
    pub fn fits(&self, other: &Queues) -> bool {
        let far = 1 << 60;
        let possible = |w: &Waits| {
            let sorted = w
                .points
                .iter()
                .zip(w.points.iter().skip(1))
                .all(|(a, b)| a.at <= b.at && a.reads <= b.reads && a.writes <= b.writes);
            let last = w.points.back().copied().unwrap_or_default();
            let most = other.harts.len() as u32 * Self::ALWAYS;
            sorted
                && last.at.max(last.reads).max(last.writes) < far
                && w.points.len() <= KEPT
                && w.pending.len() <= PENDING
                && w.pending.iter().all(|e| e.from <= e.to && e.to < far)
                && w.others.iter().all(|o| o.0.max(o.1) <= most)
        };
        self.harts.len() == other.harts.len()
            && (self.apart, self.over) == (other.apart, other.over)
            && self.harts.iter().all(possible)
    }

    /// Nothing is known of a hart.
    pub fn begin(&mut self, hart: usize) {
        self.harts[hart] = Waits::default();
    }

    /// How many other harts wait for reads and for writes while this one waits, for a line that another hart has or for
    /// others, on average; see [`Queues::ALWAYS`].
    #[inline]
    pub fn waiting(&self, hart: usize, handed: bool) -> Share {
        self.harts[hart].others[handed as usize]
    }

    /// How many other harts each of them has.
    pub fn others(&self) -> u64 {
        self.harts.len() as u64 - 1
    }

    /// The most that lines which take a time by themselves wait for so many others: another hart that waits for a share of
    /// the time has so many requests in it, and each is in front of one line only. Where it waits all the time, that is no
    /// limit.
    pub fn most(own: u64, (reads, writes): Share, others: u64) -> u64 {
        let (busy, all) = (
            u64::from(reads) + u64::from(writes),
            others * u64::from(Self::ALWAYS),
        );
        if busy * 50 >= all * 49 {
            return u64::MAX;
        }
        let most = u128::from(own) * u128::from(others) * u128::from(busy) / u128::from(all - busy);
        most.min(u64::MAX.into()) as u64
    }

    /// A hart has come to a cycle: what others did while it last waited is known, if that was a window ago.
    pub fn comes_to(&mut self, hart: usize, cycle: u64) {
        while let Some(Epoch { from, to, handed }) = self.harts[hart].pending.front().copied() {
            if to + WINDOW > cycle {
                return;
            }
            let others = self.harts.iter().enumerate().filter(|(h, _)| *h != hart);
            let shares = others.map(|(_, w)| w.share(from, to));
            let now = shares.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            let (over, w) = (self.over, &mut self.harts[hart]);
            let weight = (to - from).clamp(1, over);
            let mean = |old: u32, new: u32| {
                let sum = u128::from(old) * u128::from(over - weight);
                ((sum + u128::from(new) * u128::from(weight)) / u128::from(over)) as u32
            };
            let o = &mut w.others[handed as usize];
            *o = (mean(o.0, now.0), mean(o.1, now.1));
            w.pending.pop_front();
        }
    }

    /// An epoch of a hart that began at a cycle and is delayed to another one has ended; it has waited so many cycles for
    /// reads and for writes, of lines that another hart had (`handed`) or of others.
    pub fn ends(
        &mut self,
        hart: usize,
        (from, to, handed): (u64, u64, bool),
        (reads, writes): (u64, u64),
    ) {
        let apart = self.apart;
        let w = &mut self.harts[hart];
        let before = w.points.back().copied().unwrap_or_default();
        if w.points.is_empty() || w.at_rest && before.at < from {
            w.adds(Point { at: from, ..before }, 0);
        }
        w.at_rest = false;
        w.adds(
            Point {
                at: to,
                reads: before.reads + reads,
                writes: before.writes + writes,
            },
            apart,
        );
        if reads + writes == 0 || from >= to {
            return;
        }
        match w.pending.back_mut() {
            Some(last)
                if from < last.to + WINDOW && to < last.from + apart && handed == last.handed =>
            {
                last.to = to;
            }
            _ => {
                w.pending.push_back(Epoch { from, to, handed });
                if w.pending.len() > PENDING {
                    w.pending.pop_front();
                }
            }
        }
    }

    /// The present epoch of a hart has waited for nothing until a cycle.
    pub fn passes(&mut self, hart: usize, cycle: u64) {
        let w = &mut self.harts[hart];
        let before = w.points.back().copied().unwrap_or_default();
        if before.at < cycle {
            if !w.at_rest {
                w.adds(before, 0);
            }
            w.at_rest = true;
            let apart = self.apart;
            w.adds(
                Point {
                    at: cycle,
                    ..before
                },
                apart,
            );
        }
    }

    /// A hart sleeps: until it wakes, and an epoch of it ends, it waits for nothing.
    pub fn sleeps(&mut self, hart: usize) {
        self.harts[hart].at_rest = true;
    }
}

impl Waits {
    /// Adds a point, in place of the last one if that is less than so many cycles behind the one before.
    fn adds(&mut self, p: Point, apart: u64) {
        let n = self.points.len();
        if n >= 2 && p.at < self.points[n - 2].at.saturating_add(apart) {
            self.points[n - 1] = p;
            return;
        }
        self.points.push_back(p);
        if self.points.len() > KEPT {
            self.points.pop_front();
        }
    }

    /// How long the hart had waited until a cycle. Behind the last point it is taken to go on, unless it is at rest.
    fn until(&self, cycle: u64) -> (u64, u64) {
        let n = self.points.len();
        let between = |a: &Point, b: &Point| {
            let (part, all) = (cycle.saturating_sub(a.at), b.at - a.at);
            let of = |from: u64, to: u64| {
                let more = u128::from(to - from) * u128::from(part);
                from + more.checked_div(u128::from(all)).unwrap_or(0) as u64
            };
            (of(a.reads, b.reads), of(a.writes, b.writes))
        };
        for i in (0..n).rev() {
            let p = &self.points[i];
            if p.at > cycle {
                continue;
            }
            return match self.points.get(i + 1) {
                Some(next) => between(p, next),
                None if self.at_rest || i == 0 => (p.reads, p.writes),
                None => between(&self.points[i - 1], p),
            };
        }
        let first = self.points.front().copied().unwrap_or_default();
        (first.reads, first.writes)
    }

    /// The share of the time from a cycle to another for which the hart waited.
    fn share(&self, from: u64, to: u64) -> Share {
        let (a, b) = (self.until(from), self.until(to));
        let all = u128::from((to - from).max(1));
        let of = |waited: u64| {
            let share = u128::from(waited) * u128::from(Queues::ALWAYS) / all;
            share.min(Queues::ALWAYS.into()) as u32
        };
        (of(b.0.saturating_sub(a.0)), of(b.1.saturating_sub(a.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u32 = Queues::ALWAYS / 2;

    fn of_two() -> Queues {
        Queues::new(2, 4000, 1000)
    }

    #[test]
    fn harts_that_wait_at_the_same_time_meet() {
        let mut q = of_two();
        q.ends(0, (0, 1000, false), (1000, 0));
        q.ends(1, (0, 1000, false), (250, 500));
        q.comes_to(0, 1000 + WINDOW - 1);
        assert_eq!(q.waiting(0, false), (0, 0), "others may be behind");
        q.comes_to(0, 1000 + WINDOW);
        assert_eq!(q.waiting(0, false), (HALF / 2, HALF));
        q.comes_to(1, 1000 + WINDOW);
        assert_eq!(q.waiting(1, false), (Queues::ALWAYS, 0));
    }

    #[test]
    fn harts_that_take_turns_do_not() {
        let mut q = of_two();
        for turn in 0..10 {
            let at = turn * 2000;
            q.ends(0, (at, at + 1000, false), (1000, 0));
            q.passes(0, at + 2000);
            q.passes(1, at + 1000);
            q.ends(1, (at + 1000, at + 2000, false), (1000, 0));
            q.comes_to(0, at + 2000);
            q.comes_to(1, at + 3000);
        }
        assert!(
            q.waiting(0, false).0 < HALF / 20,
            "{:?}",
            q.waiting(0, false)
        );
        assert!(
            q.waiting(1, false).0 < HALF / 20,
            "{:?}",
            q.waiting(1, false)
        );
    }

    #[test]
    fn a_hart_that_sleeps_waits_for_nothing() {
        let mut q = of_two();
        q.ends(0, (0, 1000, false), (1000, 0));
        q.sleeps(0);
        q.ends(1, (3000, 4000, false), (1000, 0));
        q.comes_to(1, 9000);
        assert_eq!(q.waiting(1, false), (0, 0));
        // It wakes, and waits for half of the time.
        q.ends(0, (4000, 6000, false), (1000, 0));
        q.ends(1, (4000, 6000, false), (2000, 0));
        q.comes_to(1, 9000);
        assert_eq!(q.waiting(1, false), (HALF, 0));
    }

    #[test]
    fn an_open_epoch_is_taken_to_be_like_the_one_before() {
        let mut q = of_two();
        q.ends(0, (0, 500, false), (0, 0));
        q.ends(0, (500, 2000, false), (0, 1500));
        q.ends(1, (2000, 3000, false), (1000, 0));
        q.comes_to(1, 4000);
        assert_eq!(q.waiting(1, false), (0, Queues::ALWAYS));
    }

    #[test]
    fn fetching_a_line_of_another_hart_says_nothing_of_other_lines() {
        let mut q = of_two();
        q.ends(0, (0, 1000, false), (1000, 0));
        q.ends(1, (500, 900, true), (400, 0));
        q.comes_to(1, 4000);
        assert_eq!(q.waiting(1, false), (0, 0));
        assert!(q.waiting(1, true).0 > HALF / 2);
    }

    #[test]
    fn a_hart_that_seldom_waits_is_seldom_in_front() {
        assert_eq!(Queues::most(1000, (0, 0), 3), 0);
        assert_eq!(Queues::most(1000, (HALF, 0), 1), 1000);
        assert_eq!(Queues::most(1000, (HALF, HALF), 2), 2000);
        assert_eq!(Queues::most(1000, (2 * HALF, 0), 1), u64::MAX);
        assert_eq!(Queues::most(1000, (0, 0), 0), u64::MAX, "nobody else");
    }

    #[test]
    fn what_is_kept_is_bounded_and_possible() {
        let mut q = of_two();
        for i in 0..10_000u64 {
            q.ends(0, (i * 10, i * 10 + 10, false), (i % 11, 0));
            q.ends(1, (i * 300, i * 300 + 300, false), (7, 5));
        }
        assert!(q.harts[0].points.len() <= KEPT && q.harts[1].pending.len() <= PENDING);
        assert!(q.fits(&of_two()));
        assert!(!q.fits(&Queues::new(3, 4000, 1000)));
        q.harts[0].points[1].at = 1 << 50;
        assert!(!q.fits(&of_two()));
    }
}
