//! Time: machine time in picoseconds, and clocks that count in it.
//!
//! All conversions between time and ticks are here, so that rounding is
//! decided once: a counter shows the *completed* ticks (floor), and a tick
//! happens at the first picosecond at which the counter shows it (ceiling).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Picoseconds in a second.
pub const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Machine time, or a length of it, in picoseconds. 2^64 ps are 213 days.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ps(pub u64);

impl Ps {
    /// The start of the machine's time.
    pub const ZERO: Ps = Ps(0);
    /// Later than every event.
    pub const NEVER: Ps = Ps(u64::MAX);

    /// A length given in nanoseconds; saturates at [`Ps::NEVER`].
    pub const fn from_ns(ns: u64) -> Ps {
        Ps(ns.saturating_mul(1000))
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1000
    }

    /// Sum that stops at [`Ps::NEVER`].
    pub const fn saturating_add(self, other: Ps) -> Ps {
        Ps(self.0.saturating_add(other.0))
    }

    /// Difference that stops at zero.
    pub const fn saturating_sub(self, other: Ps) -> Ps {
        Ps(self.0.saturating_sub(other.0))
    }
}

impl Add for Ps {
    type Output = Ps;
    fn add(self, other: Ps) -> Ps {
        Ps(self.0 + other.0)
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Ps) {
        self.0 += other.0;
    }
}

impl Sub for Ps {
    type Output = Ps;
    fn sub(self, other: Ps) -> Ps {
        Ps(self.0 - other.0)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

/// A frequency that is zero or above 1 THz has no period in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a clock of {0} Hz cannot be counted in picoseconds: 1 Hz to 1 THz is possible")]
pub struct ClockError(pub u64);

/// A clock domain that starts with tick 0 at time 0: a core's cycles, or the timebase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    hz: u64,
}

impl Clock {
    /// A clock of `hz` ticks a second (1 to 10^12).
    pub const fn new(hz: u64) -> Result<Clock, ClockError> {
        if hz == 0 || hz > PS_PER_SECOND {
            return Err(ClockError(hz));
        }
        Ok(Clock { hz })
    }

    /// Ticks a second.
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// Length of a tick if it is a whole number of picoseconds.
    pub const fn exact_period(self) -> Option<Ps> {
        if PS_PER_SECOND.is_multiple_of(self.hz) {
            Some(Ps(PS_PER_SECOND / self.hz))
        } else {
            None
        }
    }

    /// What a counter of this clock shows at `t`: completed ticks.
    pub const fn ticks_at(self, t: Ps) -> u64 {
        (t.0 as u128 * self.hz as u128 / PS_PER_SECOND as u128) as u64
    }

    /// The first instant at which the counter shows `tick`; [`Ps::NEVER`] if
    /// that is beyond the end of time.
    pub const fn time_of(self, tick: u64) -> Ps {
        let ps = (tick as u128 * PS_PER_SECOND as u128).div_ceil(self.hz as u128);
        if ps > u64::MAX as u128 {
            Ps::NEVER
        } else {
            Ps(ps as u64)
        }
    }

    /// Ticks needed to cover a length of time (rounded up).
    pub const fn ticks_covering(self, length: Ps) -> u64 {
        (length.0 as u128 * self.hz as u128).div_ceil(PS_PER_SECOND as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn board_clocks_are_exact() {
        let core = Clock::new(50_000_000).unwrap();
        assert_eq!(core.exact_period(), Some(Ps(20_000)));
        assert_eq!(core.ticks_at(Ps(19_999)), 0);
        assert_eq!(core.ticks_at(Ps(20_000)), 1);
        assert_eq!(core.ticks_covering(Ps(20_001)), 2);
        assert_eq!(Clock::new(3).unwrap().exact_period(), None);
    }

    #[test]
    fn impossible_clocks_are_refused() {
        assert_eq!(Clock::new(0), Err(ClockError(0)));
        assert!(Clock::new(PS_PER_SECOND + 1).is_err());
        assert!(Clock::new(PS_PER_SECOND).is_ok());
    }

    #[test]
    fn far_ticks_never_come() {
        assert_eq!(Clock::new(1).unwrap().time_of(u64::MAX), Ps::NEVER);
    }

    proptest! {
        #[test]
        fn a_tick_happens_exactly_when_the_counter_shows_it(hz in 1..=PS_PER_SECOND, tick in 1u64..1 << 40) {
            let c = Clock::new(hz).unwrap();
            let t = c.time_of(tick);
            prop_assume!(t != Ps::NEVER);
            prop_assert!(c.ticks_at(t) >= tick);
            prop_assert!(c.ticks_at(Ps(t.0 - 1)) < tick);
        }
    }
}
