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

const ENTRIES: usize = 1 << 12;

/// When a line moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// Physical address; 0 for none, since no memory begins there.
    line: u64,
    /// Core cycle of the last move.
    last: u64,
    /// Core cycle of the one before.
    before: Option<u64>,
    /// The hart that the line went to.
    hart: u32,
}

const NONE: Moves = Moves {
    line: 0,
    last: 0,
    before: None,
    hart: 0,
};

/// The lines that have moved lately: a direct-mapped table, in which a later one takes the
/// place of an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    /// Empty until a line moves.
    table: Vec<Moves>,
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

    /// Nothing has moved.
    pub fn clear(&mut self) {
        self.table.clear();
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
