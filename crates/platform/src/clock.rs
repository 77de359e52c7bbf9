//! Machine time in picoseconds, and clocks that count it.
//!
//! Conversions between time and ticks are those of [`Period`], so that rounding is defined in one
//! place: a counter shows the *completed* ticks (floor), and a tick happens at the first picosecond
//! at which the counter shows it (ceiling). They are exact for every period, even if it is not a
//! whole number of picoseconds.

use nagori_memtime::Period;
pub use nagori_memtime::Ps;

/// Picoseconds in a second.
pub const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A clock domain that starts with tick 0 at time 0: a core's cycles, or the timebase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    period: Period,
}

impl Clock {
    /// A clock of a period.
    pub const fn new(period: Period) -> Clock {
        Clock { period }
    }

    /// Length of a tick.
    pub const fn period(self) -> Period {
        self.period
    }

    /// The value of this clock's counter at `t`: completed ticks.
    #[inline(always)]
    pub const fn ticks_at(&self, t: Ps) -> u64 {
        self.period.edge_until(t)
    }

    /// The first instant at which the counter shows `tick`; [`Ps::NEVER`] if
    /// that is beyond the end of time.
    #[inline(always)]
    pub const fn time_of(&self, tick: u64) -> Ps {
        self.period.edge(tick)
    }

    /// The first tick at or after `t`; the greatest number for [`Ps::NEVER`].
    #[inline(always)]
    pub const fn tick_from(&self, t: Ps) -> u64 {
        match t {
            Ps::NEVER => u64::MAX,
            t => self.period.edge_from(t),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(hz: u64) -> Clock {
        Clock::new(Period::of_hz(hz, 1).unwrap())
    }

    #[test]
    fn board_clocks_are_exact() {
        let core = clock(50_000_000);
        assert_eq!(core.period().whole().unwrap().0, 20_000);
        assert_eq!(core.ticks_at(Ps(19_999)), 0);
        assert_eq!(core.ticks_at(Ps(20_000)), 1);
        assert_eq!(core.tick_from(Ps(20_001)), 2);
        assert_eq!(core.tick_from(Ps::NEVER), u64::MAX);
    }

    #[test]
    fn far_ticks_never_come() {
        assert_eq!(clock(1).time_of(u64::MAX), Ps::NEVER);
    }

    proptest! {
        #[test]
        fn a_tick_happens_exactly_when_the_counter_shows_it(hz in 1..=PS_PER_SECOND, tick in 1u64..1 << 40) {
            let c = clock(hz);
            let t = c.time_of(tick);
            prop_assume!(t != Ps::NEVER);
            prop_assert_eq!(c.ticks_at(t), tick);
            prop_assert_eq!(c.ticks_at(Ps(t.0 - 1)), tick - 1);
            prop_assert_eq!(c.tick_from(t), tick);
        }
    }
}
