//! Whether a hart works alone. Then one set of its L1D in so many is simulated (`epoch.sampled_sets`), and stands for the others.
//! Harts that work at the same time may share lines, and a line that harts take from one another stands for no other one: then
//! all sets are simulated. So they are while lines of the sample move more or less often than others: few sets may have most of the
//! conflicts. Now and then all sets are simulated to see that.
//!
//! At the ends of its epochs a hart looks at how long the others were awake, up to a time that all of them have passed. So what it
//! finds does not depend on which hart ran first.

use super::queue::WINDOW;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Epochs of a period.
const EPOCHS: u64 = 8;
/// Periods without others, at least, before a hart counts as alone.
const QUIET: u64 = 4;
/// The same while no other hart has woken since the epochs began, at most.
const NOBODY: u64 = 16;
/// Lines that say enough.
const MANY: u64 = 1 << 17;
/// Periods without others, at least, after which all sets are simulated again.
const TRUSTED: u64 = 256;
/// No state has a time from here on.
const FAR: u64 = 1 << 62;

/// What is known of a hart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// Core cycles at which its last epochs ended, and for how many it had been awake then: the oldest first.
    ends: VecDeque<(u64, u64)>,
    /// Core cycles that it had slept at the last one.
    idle: u64,
    /// The start of the period, and for how many cycles each hart had been awake.
    from: u64,
    before: Vec<u64>,
    /// Whether others were awake in it, and how many periods ago they were; whether they ever were for more than a moment.
    met: bool,
    quiet: u64,
    woken: bool,
    /// All sets are simulated.
    all: bool,
    /// Lines that were read meanwhile, and those of the sample among them.
    lines: u64,
    chosen: u64,
}

impl Seen {
    /// Whether one set in so many stands for all, as far as the lines say, with two standard deviations and a thirtieth.
    fn is_fair(&self, sets: u32) -> bool {
        let (all, sets) = (self.lines, u64::from(sets));
        let off = (self.chosen * sets).abs_diff(all);
        off <= all / 30 + 2 * (all * sets).isqrt()
    }
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Awake {
    /// Core cycles of a period.
    #[serde(skip)]
    period: u64,
    /// Periods without others before a hart is alone.
    #[serde(skip)]
    quiet: u64,
    harts: Vec<Seen>,
}

impl Awake {
    /// At first, nothing is known. With epochs of so many core cycles, and the cycles that filling all caches takes: the sets that
    /// were not simulated have to be filled when harts meet, so this must happen seldom, if they meet at all.
    pub fn new(harts: usize, epoch: u64, filled: u64) -> Awake {
        let seen = Seen {
            before: vec![0; harts],
            all: true,
            ..Seen::default()
        };
        let period = epoch.saturating_mul(EPOCHS).max(1);
        Awake {
            period,
            quiet: (filled.saturating_mul(64) / period).max(QUIET),
            harts: vec![seen; harts],
        }
    }

    /// Goes on with what was known; false if that is no possible state.
    pub fn restore(&mut self, saved: Awake) -> bool {
        let possible = |s: &Seen| {
            let times = s.ends.iter().all(|e| e.0.max(e.1) < FAR);
            let before = s.before.iter().all(|b| *b < FAR);
            let lines = s.chosen <= s.lines && s.lines < 1 << 40;
            let fits = s.before.len() == saved.harts.len() && s.quiet < FAR;
            times && before && lines && fits && s.idle.max(s.from) < FAR
        };
        let fits = saved.harts.len() == self.harts.len() && saved.harts.iter().all(possible);
        self.harts = saved.harts;
        fits
    }

    /// Whether all sets of a hart are simulated.
    #[inline]
    pub fn all(&self, hart: usize) -> bool {
        self.harts[hart].all
    }

    /// Whether others have been awake lately.
    #[inline]
    pub fn together(&self, hart: usize) -> bool {
        let s = &self.harts[hart];
        s.woken && s.quiet < QUIET
    }

    /// A hart, all of whose sets are simulated, reads a line, which may be one of the sample.
    #[inline]
    pub fn reads(&mut self, hart: usize, chosen: bool) {
        let s = &mut self.harts[hart];
        s.lines += 1;
        s.chosen += u64::from(chosen);
    }

    /// How long a hart had been awake at its last end of an epoch up to a cycle.
    fn until(&self, hart: usize, cycle: u64) -> u64 {
        let ends = self.harts[hart].ends.iter().rev();
        ends.clone().find(|e| e.0 <= cycle).map_or(0, |e| e.1)
    }

    /// An epoch of a hart ends at a cycle, up to which it has slept for so many since its statistics began.
    #[inline]
    pub fn epoch_ends(&mut self, hart: usize, cycle: u64, idle: u64, sets: u32) {
        // Harts that wait for one another end epochs again and again.
        let apart = (self.period / EPOCHS / 8).max(WINDOW);
        let last = self.harts[hart].ends.back();
        if last.is_none_or(|last| cycle >= last.0.saturating_add(apart)) {
            self.looks(hart, (cycle, idle), sets);
        }
    }

    #[cold]
    fn looks(&mut self, hart: usize, (cycle, idle): (u64, u64), sets: u32) {
        let s = &mut self.harts[hart];
        let (last, awake) = s.ends.back().copied().unwrap_or((cycle, 0));
        // Statistics may have begun anew.
        let slept = idle.checked_sub(s.idle).unwrap_or(idle);
        s.idle = idle;
        let more = cycle.saturating_sub(last).saturating_sub(slept);
        s.ends.push_back((cycle, awake.saturating_add(more)));
        while s.ends.get(1).is_some_and(|e| e.0 + 4 * WINDOW <= cycle) {
            s.ends.pop_front();
        }
        let known = cycle.saturating_sub(WINDOW);
        let others = (0..self.harts.len()).filter(|h| *h != hart);
        let awake = others.map(|h| {
            self.until(h, known)
                .saturating_sub(self.harts[hart].before[h])
        });
        let most = awake.max().unwrap_or(0);
        let passed = cycle.saturating_sub(self.harts[hart].from);
        let over = passed >= self.period;
        let s = &mut self.harts[hart];
        s.woken |= most > self.period / 64;
        if most >= passed.max(self.period) / EPOCHS {
            (s.met, s.all, s.quiet) = (true, true, 0);
        }
        if over {
            let before = (0..self.harts.len())
                .map(|h| self.until(h, known))
                .collect();
            let s = &mut self.harts[hart];
            if !s.met {
                s.quiet += passed / self.period;
            }
            let again = !s.all && s.quiet >= self.quiet.saturating_mul(16).max(TRUSTED);
            if again {
                (s.all, s.quiet) = (true, 0);
            }
            if again || s.lines > MANY {
                // Older lines say less.
                (s.lines, s.chosen) = (s.lines / 2, s.chosen / 2);
            }
            let quiet = match s.woken {
                true => self.quiet,
                false => self.quiet.min(NOBODY),
            };
            s.all &= s.quiet < quiet || !s.is_fair(sets);
            (s.from, s.before, s.met) = (cycle, before, false);
        }
    }

    /// What was known of a hart is forgotten.
    pub fn begin(&mut self, hart: usize) {
        let n = self.harts.len();
        self.harts[hart] = Seen {
            before: (0..n).map(|h| self.until(h, u64::MAX)).collect(),
            all: true,
            ..Seen::default()
        };
        for s in &mut self.harts {
            s.before[hart] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of epochs of two harts: the second one is awake for a share of each thousand cycles.
    fn two(share: u64, thousands: u64, a: &mut Awake, at: &mut u64, slept: &mut u64) {
        for _ in 0..thousands {
            *at += 1000;
            *slept += 1000 - share;
            a.epoch_ends(1, *at, *slept, 8);
            a.epoch_ends(0, *at, 0, 8);
        }
    }

    #[test]
    fn harts_that_are_awake_together_simulate_all_sets() {
        let mut a = Awake::new(2, 1000, 0);
        let (mut at, mut slept) = (0, 0);
        assert!(a.all(0), "nothing is known");
        two(20, 100, &mut a, &mut at, &mut slept);
        assert!(!a.all(0), "the other one hardly works");
        assert!(a.all(1), "but this one is not alone");
        two(900, 3, &mut a, &mut at, &mut slept);
        assert!(a.all(0) && a.together(0), "at once");
        two(0, EPOCHS * (QUIET - 1), &mut a, &mut at, &mut slept);
        assert!(a.all(0), "not yet");
        two(0, EPOCHS * 3, &mut a, &mut at, &mut slept);
        assert!(!a.all(0) && !a.together(0));
    }

    #[test]
    fn large_caches_need_longer_quiet() {
        let mut a = Awake::new(2, 1000, 10_000);
        let (mut at, mut slept) = (0, 0);
        two(900, 20, &mut a, &mut at, &mut slept);
        two(0, 640 - EPOCHS, &mut a, &mut at, &mut slept);
        assert!(a.all(0), "filled 64 times");
        two(0, 4 * EPOCHS, &mut a, &mut at, &mut slept);
        assert!(!a.all(0));
    }

    #[test]
    fn harts_that_nobody_has_met_need_not_be_quiet_for_long() {
        let mut a = Awake::new(2, 1000, 100_000);
        let (mut at, mut slept) = (0, 0);
        two(1, NOBODY * EPOCHS + EPOCHS, &mut a, &mut at, &mut slept);
        assert!(!a.all(0));
        two(900, 3, &mut a, &mut at, &mut slept);
        two(1, NOBODY * EPOCHS + 3 * EPOCHS, &mut a, &mut at, &mut slept);
        assert!(a.all(0), "the other one has woken");
    }

    #[test]
    fn a_sample_that_is_not_fair_is_not_taken() {
        for (one_in, fair) in [(8, true), (4, false), (30, false)] {
            let mut a = Awake::new(1, 1000, 0);
            for n in 0..10_000 {
                a.reads(0, n % one_in == 0);
            }
            for at in 0..100 {
                a.epoch_ends(0, at * 1000, 0, 8);
            }
            assert_eq!(!a.all(0), fair, "one line in {one_in}");
        }
        let mut a = Awake::new(1, 1000, 0);
        let sampled = (0..EPOCHS * 1000).filter(|at| {
            a.epoch_ends(0, at * 1000, 0, 8);
            !a.all(0)
        });
        let share = sampled.count() as f64 / (EPOCHS * 1000) as f64;
        assert!((0.95..0.99).contains(&share), "{share}: now and then");
    }

    #[test]
    fn only_what_all_harts_have_passed_counts() {
        let mut a = Awake::new(2, 1000, 0);
        for at in 0..200 {
            a.epoch_ends(1, at * 100, 0, 8);
        }
        let mut early = a.clone();
        early.epoch_ends(0, 1200, 0, 8);
        // The same if the other one has not come further.
        let mut b = Awake::new(2, 1000, 0);
        for at in 0..12 {
            b.epoch_ends(1, at * 100, 0, 8);
        }
        b.epoch_ends(0, 1200, 0, 8);
        assert_eq!(early.all(0), b.all(0));
    }
}
