//! A sample of time in the light mode: pipeline and branch prediction are simulated in one stretch of core cycles in N. In
//! the others an instruction takes what it takes by itself, and its share of what was waited for in the stretches that are
//! simulated. Caches and TLBs are simulated all the time.
//!
//! Which stretches are simulated follows from the hart's cycle alone. Each begins with some cycles that are not measured, in
//! which the predictor gets used to where the program is now. Stretches change between blocks.

use crate::hart::Hart;
use serde::{Deserialize, Serialize};

/// Core cycles of a stretch, and of its beginning that is not measured.
const LENGTH: u64 = 1 << 12;
const WARM: u64 = 1 << 10;
/// Most stretches of which one is simulated.
pub const MOST_STRETCHES: u32 = 64;
/// Rates are below: 256 cycles an instruction.
const FAR: u64 = 1 << 40;

/// What a stretch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Pipeline and branch prediction are not simulated.
    Brief,
    /// They are.
    #[default]
    Warming,
    /// They are, and what is waited for is measured.
    Measured,
}

/// What has happened in stretches that were measured, or until some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    instructions: u64,
    /// Cycles waited for results, packets and the right path.
    waited: u64,
    mispredicts: u64,
}

/// The stretches of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stretches {
    /// One stretch in so many is simulated; 1: all.
    every: u32,
    /// All of them are for now.
    #[serde(default)]
    whole: bool,
    kind: Kind,
    /// Cycle at which the present stretch ends; the greatest number if all are simulated.
    pub at: u64,
    /// Cycles that an instruction waits where it is not simulated, in units of 2^-32.
    pub rate: u64,
    /// What has been waited for less than a cycle, in the same units.
    pub fraction: u64,
    /// Cycles waited for in stretches that are simulated.
    pub waited: u64,
    /// At the beginning of the present stretch.
    from: Seen,
    /// In the last stretches that were measured, older ones counting less.
    last: Seen,
    /// Part of a misprediction, in units of one over `last.instructions`.
    part: u64,
}

impl Default for Stretches {
    fn default() -> Self {
        Stretches {
            every: 1,
            whole: false,
            kind: Kind::default(),
            at: u64::MAX,
            rate: 0,
            fraction: 0,
            waited: 0,
            from: Seen::default(),
            last: Seen::default(),
            part: 0,
        }
    }
}

/// The kind of the stretch at a cycle, and where it ends.
fn stretch_at(cycle: u64, every: u32) -> (Kind, u64) {
    let every = u64::from(every);
    let begin_of = |group: u64| {
        // Any fixed place would always meet the same part of a program that repeats itself.
        let place = (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % every;
        (group * every + place) * LENGTH
    };
    let group = cycle / LENGTH / every;
    let begin = begin_of(group);
    if cycle < begin {
        (Kind::Brief, begin)
    } else if cycle < begin + WARM {
        (Kind::Warming, begin + WARM)
    } else if cycle < begin + LENGTH {
        (Kind::Measured, begin + LENGTH)
    } else {
        (Kind::Brief, begin_of(group + 1))
    }
}

impl Stretches {
    /// One in so many is simulated: 1 to [`MOST_STRETCHES`].
    pub fn of(every: u32) -> Self {
        Stretches {
            every,
            at: if every > 1 { 0 } else { u64::MAX },
            ..Stretches::default()
        }
    }

    /// All stretches are simulated from now on, or some.
    pub fn set_whole(&mut self, whole: bool) {
        if self.every > 1 && self.whole != whole {
            (self.whole, self.at) = (whole, 0);
        }
    }

    /// Whether pipeline and branch prediction are not simulated now.
    #[inline(always)]
    pub fn is_brief(&self) -> bool {
        self.kind == Kind::Brief
    }

    /// Whether some are not simulated.
    #[inline(always)]
    pub fn is_sample(&self) -> bool {
        self.every > 1
    }

    /// Whether this is a possible state.
    pub fn fits(&self) -> bool {
        let s = &self.last;
        (1..=MOST_STRETCHES).contains(&self.every)
            && self.fraction >> 32 == 0
            && self.rate <= FAR
            && s.instructions.max(s.mispredicts).max(s.waited) < FAR >> 10
            && self.part <= s.instructions
    }

    /// Cycles that instructions of a block wait where they are not simulated.
    #[inline(always)]
    pub fn waits(&mut self, instructions: u64) -> u64 {
        let sum = self.rate * instructions + self.fraction;
        self.fraction = sum & 0xffff_ffff;
        sum >> 32
    }

    /// A stretch was measured until now.
    fn measured(&mut self, now: Seen) {
        let kept = |old: u64| old - old.div_ceil(4);
        // Statistics may have begun anew.
        let sum = |old: u64, to: u64, from: u64| kept(old) + to.saturating_sub(from);
        let new = |of: fn(&Seen) -> u64| sum(of(&self.last), of(&now), of(&self.from));
        self.last = Seen {
            instructions: new(|s| s.instructions),
            waited: new(|s| s.waited),
            mispredicts: new(|s| s.mispredicts),
        };
        self.part = 0;
        let rate = (self.last.waited << 32).checked_div(self.last.instructions);
        self.rate = rate.unwrap_or(0).min(FAR);
    }

    /// Mispredictions of a stretch that was not simulated and has ended.
    fn mispredicts(&mut self, now: &Seen) -> u64 {
        let n = self.last.instructions;
        let instructions = now.instructions.saturating_sub(self.from.instructions);
        let parts = u128::from(instructions) * u128::from(self.last.mispredicts);
        let parts = parts + u128::from(self.part);
        let Some(whole) = parts.checked_div(n.into()) else {
            return 0;
        };
        self.part = (parts % u128::from(n)) as u64;
        whole as u64
    }
}

impl Hart {
    /// In the light mode, has one stretch of time in so many simulated with pipeline and branch prediction, from now on: 1 to
    /// [`MOST_STRETCHES`].
    pub fn sample_time(&mut self, every: u32) {
        self.stretches = Stretches::of(every);
        self.recheck = true;
    }

    /// Goes on with the sample of time that a snapshot has, if it is one stretch in so many.
    pub fn keep_sample_of_time(&mut self, every: u32) {
        if self.stretches.every != every {
            self.sample_time(every);
        }
    }

    /// Whether only a sample of time is simulated with pipeline and branch prediction.
    pub fn samples_time(&self) -> bool {
        self.light && self.stretches.is_sample()
    }

    /// Whether pipeline and branch prediction are not simulated now.
    #[inline(always)]
    pub fn is_brief(&self) -> bool {
        self.stretches.is_brief()
    }

    /// The pipeline waits for something else than a line.
    #[inline(always)]
    pub(crate) fn holds(&mut self, cycles: u64) {
        self.cycle += cycles;
        self.stretches.waited += cycles;
    }

    /// A stretch is over, between two blocks.
    #[cold]
    pub(crate) fn change_stretch(&mut self) {
        let now = Seen {
            instructions: self.instret,
            waited: self.stretches.waited,
            mispredicts: self.stats.mispredicts,
        };
        let s = &mut self.stretches;
        let (mut kind, mut at) = stretch_at(self.cycle, s.every);
        let before = s.kind;
        match before {
            Kind::Measured => s.measured(now),
            Kind::Brief => self.stats.mispredicts += s.mispredicts(&now),
            Kind::Warming => {}
        }
        if kind == Kind::Brief && (s.whole || s.last.instructions == 0) {
            // All of them are, or nothing is known yet.
            (kind, at) = (Kind::Measured, self.cycle + LENGTH);
        }
        (s.kind, s.at) = (kind, at);
        s.from = Seen {
            mispredicts: self.stats.mispredicts,
            ..now
        };
        if (kind == Kind::Brief) != (before == Kind::Brief) {
            (self.pending, self.redirect) = (0, 0);
            self.predictor.gives_up();
            self.refetch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stretch_of_each_group_is_simulated() {
        for every in [2, 3, 8] {
            let mut cycles = [0u64; 3];
            let mut at = 0;
            let until = 20 * u64::from(every) * LENGTH;
            while at < until {
                let (kind, end) = stretch_at(at, every);
                assert!(end > at);
                assert_eq!(stretch_at(end - 1, every).0, kind, "the same to its end");
                cycles[kind as usize] += end.min(until) - at;
                at = end;
            }
            let all = 20 * LENGTH;
            let brief = all * (u64::from(every) - 1);
            assert_eq!(cycles, [brief, 20 * WARM, all - 20 * WARM]);
        }
    }

    #[test]
    fn what_is_measured_is_waited_for_elsewhere_without_loss() {
        let mut s = Stretches::of(8);
        let now = Seen {
            instructions: 3000,
            waited: 1000,
            mispredicts: 100,
        };
        s.measured(now);
        let waits: u64 = (0..9000).map(|_| s.waits(7)).sum();
        assert!((20_999..=21_000).contains(&waits), "{waits}");
        s.from = now;
        let mut count = 0;
        for k in 1..=1000 {
            let now = Seen {
                instructions: 3000 + 7 * k,
                ..now
            };
            count += s.mispredicts(&now);
            s.from = now;
        }
        assert_eq!(count, 7000 / 30);
    }

    #[test]
    fn older_stretches_count_less() {
        let mut s = Stretches::of(8);
        let mut now = Seen::default();
        for waited in [3000, 0, 0, 0, 0, 0, 0, 0] {
            now.instructions += 3000;
            now.waited += waited;
            s.from = Seen {
                instructions: now.instructions - 3000,
                waited: now.waited - waited,
                ..now
            };
            s.measured(now);
        }
        assert!(s.rate < (1 << 32) / 20, "{}", s.rate);
        assert!(s.fits());
        s.fraction = 1 << 32;
        assert!(!s.fits());
    }
}
