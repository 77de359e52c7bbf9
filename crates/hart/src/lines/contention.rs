//! Lines that harts take from one another.
//!
//! A hit needs no bus, so a hart that has run ahead of the others may hit a line that an earlier
//! request of another hart takes away. For a line that moves once this hardly matters; for a lock
//! it decides the result. So lines that have moved more than once recently are kept out of the
//! filter, and a hit on them waits for its turn as a miss does.

use serde::{Deserialize, Serialize};

/// Core cycles after which a line that no longer moves belongs to its hart alone. It is also
/// the most that may lie between two moves of a line that is taken for contended.
pub const QUIET_CYCLES: u64 = 1 << 16;

/// Core cycles after which a hart that has not asked again for a line does not want it any more. One that does may ask
/// later than it was to: other waiting, and the delay of an epoch, come before.
const GONE_CYCLES: u64 = 1 << 12;

const ENTRIES: usize = 1 << 12;

/// When a line moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Physical address; 0 for none, since no memory begins there.
    line: u64,
    /// Core cycle of the last move.
    last: u64,
    /// Core cycle of the one before.
    before: Option<u64>,
    /// The hart that the line went to.
    hart: u32,
    /// Core cycle until which a hart fetches the line, in the light mode.
    #[serde(default)]
    fetched: u64,
}

const NONE: Moves = Moves {
    line: 0,
    last: 0,
    before: None,
    hart: 0,
    fetched: 0,
};

/// A hart that waits until another one has fetched a line, in the light mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiter {
    line: u64,
    hart: u32,
    /// Core cycle at which it asks again.
    at: u64,
}

/// The lines that have moved lately: a direct-mapped table, in which a later one takes the
/// place of an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    /// Empty until a line moves.
    table: Vec<Moves>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
}

impl Contention {
    #[inline]
    fn place(line: u64) -> usize {
        ((line >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
    }

    /// A hart took a line from another one. What one hart takes in several steps (to read,
    /// then to write) is one move.
    pub fn moved(&mut self, line: u64, hart: usize, at: u64) {
        if self.table.is_empty() {
            self.table = vec![NONE; ENTRIES];
        }
        let e = &mut self.table[Self::place(line)];
        let hart = hart as u32;
        *e = match e.line == line {
            true if e.hart == hart => Moves { last: at, ..*e },
            known => Moves {
                line,
                last: at,
                before: known.then_some(e.last),
                hart,
                fetched: if known { e.fetched } else { 0 },
            },
        };
    }

    /// Whether a line is contended at a cycle.
    #[inline]
    pub fn is(&self, line: u64, at: u64) -> bool {
        let Some(e) = self.table.get(Self::place(line)) else {
            return false;
        };
        let close = |from: u64, to: u64| to.saturating_sub(from) < QUIET_CYCLES;
        e.line == line && close(e.last, at) && e.before.is_some_and(|b| close(b, e.last))
    }

    /// The core cycle from which on another hart may have a line that was taken, if that is known.
    pub fn free_since(&self, line: u64) -> Option<u64> {
        let e = self.table.get(Self::place(line))?;
        (e.line == line).then_some(e.last.max(e.fetched))
    }

    /// A hart has fetched a line until a cycle. Only lines that have moved are known.
    pub fn fetched(&mut self, line: u64, until: u64) {
        if let Some(e) = self.table.get_mut(Self::place(line)) {
            if e.line == line {
                e.fetched = e.fetched.max(until);
            }
        }
    }

    /// The cycle until which a hart fetches a line.
    pub fn free_at(&self, line: u64) -> u64 {
        let e = self.table.get(Self::place(line));
        e.filter(|e| e.line == line).map_or(0, |e| e.fetched)
    }

    /// A hart wants to fetch a line at a cycle, and no hart is behind it. Returns the cycle at which it may, or has to ask
    /// again: when the line has been fetched, and those have it that came before.
    pub fn turn_of(&mut self, line: u64, hart: usize, now: u64) -> u64 {
        let at = self.may_fetch(line, hart, now);
        if at == now {
            self.gives_up(hart);
        }
        at
    }

    /// The same, but the hart stays among those that wait.
    pub fn may_fetch(&mut self, line: u64, hart: usize, now: u64) -> u64 {
        let hart = hart as u32;
        self.waiters.retain(|w| match w.hart == hart {
            true => w.line == line,
            false => w.at + GONE_CYCLES > now,
        });
        let first = self.waiters.iter().find(|w| w.line == line);
        let before = first.filter(|w| w.hart != hart).map(|w| w.at);
        let free = self.free_at(line);
        if free <= now && before.is_none() {
            return now;
        }
        let at = free.max(before.unwrap_or(0)).max(now + 1);
        match self.waiters.iter_mut().find(|w| w.hart == hart) {
            Some(w) => w.at = at,
            None => self.waiters.push(Waiter { line, hart, at }),
        }
        at
    }

    /// A hart does not wait for a line any more.
    #[inline]
    pub fn gives_up(&mut self, hart: usize) {
        if !self.waiters.is_empty() {
            self.waiters.retain(|w| w.hart as usize != hart);
        }
    }

    /// Those that wait, in the order in which they came.
    pub fn save_waiters(&self) -> Vec<Waiter> {
        self.waiters.clone()
    }

    /// Takes over those that wait; false if they are not such.
    pub fn load_waiters(&mut self, saved: &[Waiter], harts: usize) -> bool {
        self.waiters = saved.to_vec();
        let all = saved.iter().enumerate();
        all.fold(true, |fine, (i, w)| {
            let once = saved[..i].iter().all(|o| o.hart != w.hart);
            fine && once && (w.hart as usize) < harts && w.line % 64 == 0
        })
    }

    /// Nothing has moved.
    pub fn clear(&mut self) {
        self.table.clear();
        self.waiters.clear();
    }

    /// The moves that are known.
    pub fn save(&self) -> Vec<Moves> {
        let known = self.table.iter().filter(|e| e.line != 0);
        known.copied().collect()
    }

    /// Takes over saved moves; false if they are not such.
    pub fn load(&mut self, saved: &[Moves], harts: usize) -> bool {
        self.clear();
        if !saved.is_empty() {
            self.table = vec![NONE; ENTRIES];
        }
        saved.iter().all(|m| {
            let e = &mut self.table[Self::place(m.line)];
            let new = m.line != 0 && m.line % 64 == 0 && e.line == 0 && (m.hart as usize) < harts;
            *e = *m;
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_moves_twice_is_contended_for_a_while() {
        let mut c = Contention::default();
        assert!(!c.is(0x1000, 0));
        c.moved(0x1000, 1, 100);
        assert!(!c.is(0x1000, 100), "moved once");
        c.moved(0x1000, 1, 150);
        assert!(!c.is(0x1000, 150), "to read, then to write: one move");
        c.moved(0x1000, 0, 150 + QUIET_CYCLES - 1);
        let last = 150 + QUIET_CYCLES - 1;
        assert!(c.is(0x1000, last) && c.is(0x1000, last + QUIET_CYCLES - 1));
        assert!(!c.is(0x1000, last + QUIET_CYCLES), "quiet");
        assert!(!c.is(0x2000, last), "another line");
        c.moved(0x1000, 1, last + QUIET_CYCLES);
        assert!(!c.is(0x1000, last + QUIET_CYCLES), "too long between");
    }

    #[test]
    fn harts_fetch_a_line_in_the_order_in_which_they_came() {
        let mut c = Contention::default();
        c.moved(0x1000, 0, 100);
        c.fetched(0x1000, 150);
        assert_eq!(c.turn_of(0x1000, 3, 110), 150);
        assert_eq!(c.turn_of(0x1000, 1, 120), 150);
        assert_eq!(c.turn_of(0x1000, 1, 150), 151, "hart 3 came first");
        assert_eq!(c.turn_of(0x1000, 3, 150), 150);
        c.fetched(0x1000, 200);
        assert_eq!(c.turn_of(0x1000, 0, 151), 200);
        assert_eq!(c.turn_of(0x1000, 1, 151), 200);
        assert_eq!(c.turn_of(0x1000, 0, 200), 201);
        // Hart 1 is late.
        assert_eq!(c.turn_of(0x1000, 0, 210), 211);
        assert_eq!(c.turn_of(0x1000, 1, 211), 211);
        assert_eq!(c.turn_of(0x1000, 0, 211), 211);
        // Hart 3 does not ask again, or has given up.
        assert_eq!(c.turn_of(0x1000, 3, 190), 200);
        assert_eq!(c.turn_of(0x1000, 1, 199 + GONE_CYCLES), 200 + GONE_CYCLES);
        assert_eq!(c.turn_of(0x1000, 1, 200 + GONE_CYCLES), 200 + GONE_CYCLES);
        assert_eq!(c.turn_of(0x1000, 3, 190), 200);
        c.gives_up(3);
        assert_eq!(c.turn_of(0x1000, 1, 200), 200);
        let saved = c.save_waiters();
        assert!(saved.is_empty());
        assert_eq!(c.turn_of(0x1000, 2, 190), 200);
        let saved = c.save_waiters();
        assert!(Contention::default().load_waiters(&saved, 3));
        assert!(
            !Contention::default().load_waiters(&saved, 2),
            "no such hart"
        );
        let twice = [saved[0]; 2];
        assert!(!Contention::default().load_waiters(&twice, 3));
    }

    #[test]
    fn what_is_saved_is_checked() {
        let mut c = Contention::default();
        for k in 1..50 {
            c.moved(64 * k, (k % 3) as usize, k);
        }
        let saved = c.save();
        let mut other = Contention::default();
        assert!(other.load(&saved, 3));
        assert_eq!(other.save(), saved);
        assert!(!other.load(&saved, 2), "no such hart");
        let twice: Vec<Moves> = saved.iter().chain(&saved).copied().collect();
        assert!(!other.load(&twice, 3));
        let odd = Moves {
            line: 65,
            ..saved[0]
        };
        assert!(!other.load(&[odd], 3));
    }
}
