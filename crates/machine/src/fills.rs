//! Lines that harts are fetching.

use serde::{Deserialize, Serialize};

/// Lines that harts are fetching, from the first request for a line until it is there: one hart at
/// a time fetches a line, and others that want it wait in the order of their requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fills {
    /// By hart: the line that it fetches, and whether a request for it is outstanding.
    pub wanted: Vec<(u64, bool)>,
    /// Lines and harts that wait for another hart, in order.
    pub waiting: Vec<(u64, u32)>,
    /// Harts that no longer wait, and since which cycle.
    pub released: Vec<(u32, u64)>,
    /// Lines that come for loads of harts that go on, and these harts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<(u64, u32)>,
}

impl Fills {
    pub fn new(harts: usize) -> Self {
        Fills {
            wanted: vec![(0, false); harts],
            ..Fills::default()
        }
    }

    /// A hart begins or continues to fetch a line. Returns false if it has to wait.
    pub fn begin(&mut self, hart: usize, line: u64) -> bool {
        let taken = |(h, w): (usize, &(u64, bool))| h != hart && *w == (line, true);
        let comes = |l: &(u64, u32)| l.0 == line && l.1 as usize != hart;
        if self.wanted.iter().enumerate().any(taken) || self.loads.iter().any(comes) {
            self.waiting.push((line, hart as u32));
            // It may have been next already, and has no request any more.
            if self.wanted[hart].0 == line {
                self.wanted[hart] = (0, false);
            }
            return false;
        }
        if self.wanted[hart].0 != line {
            self.wanted[hart] = (line, false);
        }
        true
    }

    /// A request of a hart is outstanding.
    pub fn ask(&mut self, hart: usize, line: u64) {
        let w = &mut self.wanted[hart];
        w.1 |= w.0 == line;
    }

    /// A hart has its line. The first hart that waits for it is next. Returns whether there is one.
    #[inline(always)]
    pub fn end(&mut self, hart: usize, cycle: u64) -> Option<usize> {
        let (line, asked) = std::mem::take(&mut self.wanted[hart]);
        if asked {
            self.hand_on(line, cycle)
        } else {
            None
        }
    }

    /// The first hart that waits for a line is next.
    pub fn hand_on(&mut self, line: u64, cycle: u64) -> Option<usize> {
        let next = self.waiting.iter().position(|w| w.0 == line)?;
        let (_, next) = self.waiting.remove(next);
        self.wanted[next as usize] = (line, true);
        self.released.push((next, cycle));
        Some(next as usize)
    }

    /// A line that a hart has asked for, which goes on, has come. The first hart that waits for it is next.
    pub fn end_load(&mut self, hart: usize, line: u64, cycle: u64) {
        self.loads.retain(|l| *l != (line, hart as u32));
        // If somebody fetches it, the others wait for that hart.
        let fetched = self.wanted.contains(&(line, true)) || self.loads.iter().any(|l| l.0 == line);
        let next = self.waiting.iter().position(|w| w.0 == line && !fetched);
        if let Some(i) = next {
            let (_, next) = self.waiting.remove(i);
            self.wanted[next as usize] = (line, true);
            self.released.push((next, cycle));
        }
    }

    /// The next hart that no longer waits, and since when.
    pub fn take_released(&mut self) -> Option<(usize, u64)> {
        self.released.pop().map(|(h, c)| (h as usize, c))
    }

    /// Whether a hart waits for another hart.
    pub fn blocks(&self, hart: usize) -> bool {
        self.waiting.iter().any(|w| w.1 as usize == hart)
    }

    /// Whether this is a possible state for a number of harts.
    pub fn fits(&self, harts: usize) -> bool {
        let hart = |h: &(u64, u32)| (h.1 as usize) < harts;
        self.wanted.len() == harts
            && self.waiting.iter().all(hart)
            && self.loads.iter().all(hart)
            && self.released.is_empty()
    }

    /// No hart fetches a line.
    pub fn clear(&mut self) {
        *self = Fills::new(self.wanted.len());
    }
}
