//! Miss status holding registers (MSHRs): the limit of outstanding misses of a cache.
//!
//! A register is occupied from the miss until the line has arrived in the cache. The time of
//! arrival is known at once if an outer level has the line, otherwise when memory has answered. A
//! hart that finds no free register waits; waiting harts are served in the order of their requests,
//! each with the register that is free first.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The registers of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mshrs {
    /// Harts that occupy a register until a time that is not known yet, and since when they have
    /// requested it.
    harts: Vec<(u32, u64)>,
    /// Number of registers that prefetches occupy until a time that is not known yet.
    prefetches: u32,
    /// The cycles at which the other occupied registers become free.
    until: Vec<u64>,
    /// Harts that wait for a register, and since when.
    waiting: VecDeque<(u32, u64)>,
    /// Since when all of them are occupied.
    #[serde(default)]
    full_since: Option<u64>,
    /// Cycles in which all of them were occupied, up to the last time that this ended.
    #[serde(default)]
    full: u64,
}

impl Mshrs {
    /// Core cycles in which all registers were occupied, as far as requests have shown.
    pub fn full_cycles(&self) -> u64 {
        self.full
    }

    /// A register was taken at a cycle.
    fn note_full(&mut self, limit: u32, now: u64) {
        let taken = self.harts.len() + self.prefetches as usize + self.until.len();
        if taken >= limit as usize {
            self.full_since.get_or_insert(now);
        }
    }

    /// The miss of a hart goes on without the hart: it occupies its register until a time that is not known yet.
    pub fn goes_on(&mut self, hart: usize) {
        if let Some(i) = self.harts.iter().position(|h| h.0 == hart as u32) {
            self.harts.remove(i);
            self.prefetches += 1;
        }
    }

    /// Number of registers occupied at a cycle.
    fn taken(&mut self, now: u64) -> usize {
        let ended = self.until.iter().filter(|end| **end <= now).min();
        if let (Some(since), Some(end)) = (self.full_since, ended) {
            self.full += end.saturating_sub(since);
            self.full_since = None;
        }
        self.until.retain(|end| *end > now);
        self.harts.len() + self.prefetches as usize + self.until.len()
    }

    /// Whether one of `limit` registers is free at a cycle, and no hart waits for it.
    pub fn is_free(&mut self, limit: u32, now: u64) -> bool {
        self.waiting.is_empty() && self.taken(now) < limit as usize
    }

    /// Whether a register is occupied for a hart's miss.
    pub fn serves(&self, hart: usize) -> bool {
        self.harts.iter().any(|h| h.0 == hart as u32)
    }

    /// Whether one of `limit` registers is free at a cycle, and no hart waits for it; those that are free again stay
    /// noted.
    pub fn has_free(&self, limit: u32, now: u64) -> bool {
        let until = self.until.iter().filter(|end| **end > now).count();
        let taken = self.harts.len() + self.prefetches as usize + until;
        self.waiting.is_empty() && taken < limit as usize
    }

    /// The first cycle after `now` at which a register is free again, of those known.
    pub fn next_free(&self, now: u64) -> Option<u64> {
        self.until.iter().copied().filter(|end| *end > now).min()
    }

    /// Takes a register for a hart's miss, also for one that has waited and is tried again. Returns
    /// the cycle at which the hart requested the register, `None` if it has to wait.
    pub fn take(&mut self, limit: u32, hart: usize, now: u64) -> Option<u64> {
        let hart = hart as u32;
        if let Some((_, since)) = self.harts.iter().find(|h| h.0 == hart) {
            return Some(*since);
        }
        let free = self.is_free(limit, now);
        match free {
            true => {
                self.harts.push((hart, now));
                self.note_full(limit, now);
            }
            false if !self.blocks(hart as usize) => self.waiting.push_back((hart, now)),
            false => {}
        }
        free.then_some(now)
    }

    /// Takes a register for a hart that is not blocked, as soon as one is free according to the
    /// known times. Returns that cycle.
    pub fn take_when_free(&mut self, limit: u32, hart: usize, mut now: u64) -> u64 {
        while self.taken(now) >= limit as usize {
            match self.until.iter().min() {
                Some(end) => now = *end,
                None => break,
            }
        }
        self.harts.push((hart as u32, now));
        self.note_full(limit, now);
        now
    }

    /// A prefetch takes a free register.
    pub fn take_ahead(&mut self, limit: u32, now: u64) {
        self.prefetches += 1;
        self.note_full(limit, now);
    }

    /// The line that a hart has requested arrives at a cycle that is known now; without effect if
    /// the hart occupies no register.
    pub fn end(&mut self, hart: usize, at: u64) {
        if let Some(i) = self.harts.iter().position(|h| h.0 == hart as u32) {
            self.harts.remove(i);
            self.until.push(at);
        }
    }

    /// The line of a prefetch arrives at a cycle that is known now.
    pub fn end_ahead(&mut self, at: u64) {
        self.prefetches = self.prefetches.saturating_sub(1);
        self.until.push(at);
    }

    /// The cycle at which the hart that has waited longest is given a register, if that is known.
    pub fn due(&self) -> Option<u64> {
        let end = self.until.iter().min();
        let since = self.waiting.front()?.1;
        Some((*end?).max(since))
    }

    /// Gives the register that is free first, at [`Mshrs::due`], to the hart that has waited
    /// longest. Returns the hart, and since when it has waited.
    pub fn grant(&mut self) -> Option<(usize, u64)> {
        let first = (0..self.until.len()).min_by_key(|i| self.until[*i])?;
        let (hart, since) = self.waiting.pop_front()?;
        self.until.remove(first);
        self.harts.push((hart, since));
        Some((hart as usize, since))
    }

    /// Whether a hart waits for a register.
    pub fn blocks(&self, hart: usize) -> bool {
        self.waiting.iter().any(|w| w.0 as usize == hart)
    }

    /// Ends all misses and waits of harts.
    pub fn forget_harts(&mut self) {
        self.harts.clear();
        self.waiting.clear();
    }

    /// Whether this is a possible state for a number of harts, with times below `far`.
    pub fn fits(&self, harts: usize, far: u64) -> bool {
        let hart = |h: &(u32, u64)| (h.0 as usize) < harts && h.1 < far;
        self.harts.iter().all(hart)
            && self.waiting.iter().all(hart)
            && self.until.iter().all(|end| *end < far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_waits_until_the_first_register_is_free() {
        let mut m = Mshrs::default();
        assert_eq!(m.take(2, 0, 100), Some(100));
        assert_eq!(m.take(2, 1, 110), Some(110));
        assert_eq!(m.take(2, 2, 120), None, "both are taken");
        assert_eq!(m.due(), None, "memory has not answered");
        m.end(1, 300);
        m.end(0, 250);
        assert_eq!(m.due(), Some(250));
        assert!(!m.is_free(2, 250), "it is hart 2's");
        assert_eq!(m.grant(), Some((2, 120)));
        assert_eq!(m.take(2, 2, 250), Some(120), "it has what it was given");
        // Hart 1's register is occupied at 299, and free at 300.
        assert!(!m.is_free(2, 299) && m.is_free(2, 300));
    }

    #[test]
    fn who_asked_first_is_given_one_first() {
        let mut m = Mshrs::default();
        assert!(m.take(1, 3, 10).is_some());
        let waiting = [(2, 20), (1, 30), (2, 35)];
        assert!(waiting.iter().all(|w| m.take(1, w.0, w.1).is_none()));
        m.end(3, 40);
        assert!(!m.is_free(1, 50), "others wait for it");
        assert_eq!(m.grant(), Some((2, 20)));
        assert_eq!((m.due(), m.grant()), (None, None), "there is only one");
        m.end(2, 70);
        assert_eq!((m.due(), m.blocks(1)), (Some(70), true));
        assert_eq!(m.grant(), Some((1, 30)));
        assert!(!m.blocks(1));
    }

    #[test]
    fn prefetches_take_registers_too() {
        let mut m = Mshrs::default();
        m.take_ahead(1, 0);
        assert!(!m.is_free(1, 0) && m.take(1, 0, 5).is_none());
        m.end_ahead(9);
        assert_eq!(m.due(), Some(9));
        assert_eq!(m.grant(), Some((0, 5)));
    }

    #[test]
    fn registers_that_are_free_at_the_same_time_are_all_given() {
        let mut m = Mshrs::default();
        let taken: Vec<_> = (0..4).map(|h| m.take(2, h, h as u64).is_some()).collect();
        assert_eq!(taken, [true, true, false, false]);
        m.end(0, 9);
        m.end(1, 9);
        assert_eq!((m.due(), m.grant()), (Some(9), Some((2, 2))));
        assert_eq!((m.due(), m.grant()), (Some(9), Some((3, 3))));
        assert!(!m.is_free(2, 9));
    }

    #[test]
    fn where_nobody_is_blocked_time_moves_on() {
        let mut m = Mshrs::default();
        for (hart, end) in [(0, 50), (1, 40)] {
            assert_eq!(m.take_when_free(2, hart, 0), 0);
            m.end(hart, end);
        }
        assert_eq!(m.take_when_free(2, 2, 10), 40);
        m.end(2, 90);
        assert_eq!(m.take_when_free(2, 3, 41), 50);
    }
}
