//! Harts that look at a line again and again until another hart changes it, in the light mode.
//!
//! Each look has to be in the order of time, which takes the host more than all else that such a hart does. So the longer a
//! hart has waited, the later it looks again: by a part of the time that it has waited. The change is then noticed late by at most
//! as much. How late, is known when it is noticed, and is taken off the hart's next delay.

use serde::{Deserialize, Serialize};

/// The next look is later by the time waited, divided by this.
const PART: u64 = 16;
/// Core cycles between two looks, at most: with more, the hart does something else as well.
const TIGHT: u64 = 64;
/// Core cycles by which a look is later, at most.
const MOST: u64 = 1 << 12;
/// No state has a time from here on.
const FAR: u64 = 1 << 62;

/// The looks of a hart at a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spin {
    /// The line, and the program counter of the load.
    line: u64,
    pc: u64,
    /// Core cycles of the first look, and from which the last one is past.
    since: u64,
    last: u64,
    /// By how many cycles the next look is later, and cycles between two looks.
    later: u64,
    between: u64,
}

impl Spin {
    /// The hart finds a line unchanged at a core cycle. Returns by how many cycles it goes on later.
    pub fn looks(&mut self, (line, pc): (u64, u64), now: u64) -> u64 {
        let again = (self.line, self.pc) == (line, pc) && now >= self.last;
        let between = now.saturating_sub(self.last);
        if again && between == 0 {
            // The same look, tried again.
            return 0;
        }
        let since = match again && between <= TIGHT {
            true => self.since,
            false => now,
        };
        let later = ((now - since) / PART).min(MOST);
        *self = Spin {
            line,
            pc,
            since,
            last: now + later,
            later,
            between: between.min(TIGHT),
        };
        later
    }

    /// Whether the hart looks at a line.
    #[inline(always)]
    pub fn is_at(&self, line: u64) -> bool {
        self.line == line
    }

    /// The hart finds at a core cycle that another one has taken the line, and could have had it from an earlier one on. Returns how
    /// late that is: with looks that are not later, half the time between two of them would have passed.
    pub fn changed(&mut self, line: u64, free: u64, now: u64) -> u64 {
        let noticed = free.saturating_add(self.between / 2);
        let late = match self.line == line {
            true => now.saturating_sub(noticed).min(self.later),
            false => 0,
        };
        *self = Spin::default();
        late
    }

    /// Whether a hart can have come to this.
    pub fn is_possible(&self) -> bool {
        self.since <= self.last && self.last < FAR && self.later <= MOST && self.between <= TIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: (u64, u64) = (0x8000_0040, 0x8000_1000);

    /// Looks, ten cycles apart, for so long; returns how many.
    fn spin(s: &mut Spin, from: u64, cycles: u64) -> u64 {
        let (mut now, mut looks) = (from, 0);
        while now < from + cycles {
            now += s.looks(LINE, now) + 10;
            looks += 1;
        }
        looks
    }

    #[test]
    fn the_longer_a_hart_waits_the_later_it_looks() {
        let mut s = Spin::default();
        assert_eq!(spin(&mut s, 1000, PART), 2, "not at once");
        let mut s = Spin::default();
        let looks = spin(&mut s, 1000, 10_000);
        assert!((50..150).contains(&looks), "{looks} of a thousand");
        assert!(s.is_possible() && s.later <= 10_000 / PART);
        assert_eq!(s.looks((0x8000_0080, LINE.1), 20_000), 0, "another line");
    }

    #[test]
    fn a_hart_that_works_between_its_looks_is_not_delayed() {
        let mut s = Spin::default();
        for look in 0..1000 {
            assert_eq!(s.looks(LINE, 1000 + look * (TIGHT + 1)), 0);
        }
    }

    #[test]
    fn how_late_a_change_is_noticed_is_known() {
        let mut s = Spin::default();
        spin(&mut s, 1000, 10_000);
        let (last, later) = (s.last, s.later);
        let early = last - later + 3;
        assert_eq!(s.clone().changed(LINE.0, early, last), later - 3 - 5);
        assert_eq!(s.clone().changed(LINE.0, 0, last), later, "at most");
        assert_eq!(s.clone().changed(LINE.0, last + 5, last), 0);
        assert_eq!(s.changed(0x40, last, last), 0, "another line");
    }
}
