//! Prefetchers: predictions of the lines that will be requested next.
//!
//! A prefetcher belongs to one cache of an outer level. It observes the misses of that cache and
//! the first hit on each prefetched line. It never crosses a page of 4 KiB, since the next physical
//! page may belong to something else.

use crate::config::{PrefetchConfig, Prefetcher};
use crate::LineKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

const PAGE: u64 = 4096;

/// An access that a prefetcher observes.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The hart.
    pub hart: usize,
    /// Its instruction.
    pub pc: u64,
    /// Physical address of the line.
    pub line: u64,
    /// Why the line is wanted.
    pub kind: LineKind,
}

/// A prefetcher that is brought along, in place of those that descriptions know.
///
/// It has to depend on what it has observed alone: then runs are repeatable.
pub trait Prefetch: Send {
    /// Observes an access, and predicts: physical addresses, the nearest first. Those outside of the page of 4 KiB, and
    /// those of lines that are there or on their way, do not count; of the others, the first `degree` are requested.
    fn predict(&mut self, access: &Access) -> Vec<u64>;
}

/// A prefetcher that is brought along.
#[derive(Clone)]
pub(crate) struct Brought(Arc<Mutex<Box<dyn Prefetch>>>);

impl Brought {
    pub fn new(p: Box<dyn Prefetch>) -> Self {
        Brought(Arc::new(Mutex::new(p)))
    }

    /// The predicted lines in the page of the access, the nearest first.
    pub fn predict(&self, a: &Access) -> Vec<u64> {
        let mut p = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = p.predict(a);
        lines.iter_mut().for_each(|l| *l &= !63);
        lines.retain(|l| l / PAGE == a.line / PAGE && *l != a.line);
        let mut seen = BTreeSet::new();
        lines.retain(|l| seen.insert(*l));
        lines
    }
}

impl fmt::Debug for Brought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Brought")
    }
}

/// What a cache's prefetcher predicts behind an access: the one that was brought along, else that of its configuration.
pub(crate) fn predicted(
    brought: &Option<Brought>,
    guesses: &mut Guesses,
    c: &PrefetchConfig,
    access: &Access,
) -> Vec<u64> {
    match brought {
        Some(own) => own.predict(access),
        None => guesses.learn(c, access).collect(),
    }
}

/// The access pattern of one instruction (`stride`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stride {
    pc: u64,
    hart: u32,
    /// The last line.
    line: u64,
    /// Distance between consecutive accesses, in lines.
    stride: i64,
    /// Confidence: goes up with each access at this distance, and down with each other one.
    sure: u32,
}

/// The access pattern within one page (`stream`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    page: u64,
    /// The last line.
    line: u64,
    /// Direction: 1 upwards, -1 downwards, 0 unknown.
    step: i64,
    /// Confidence: number of accesses in a row in this direction.
    sure: u32,
}

/// Maximum of a confidence counter.
const SURE: u32 = 16;

/// The state of the prefetcher of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guesses {
    /// Prefetched lines in the cache that no hart has requested yet.
    pub unused: BTreeSet<u64>,
    /// `stride`: by instruction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    strides: Vec<Option<Stride>>,
    /// `stream`: by page, the most recently used one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pages: Vec<Page>,
}

impl Guesses {
    pub fn new(c: &PrefetchConfig) -> Self {
        let strides = match c.prefetcher {
            Prefetcher::Stride => c.entries as usize,
            _ => 0,
        };
        Guesses {
            strides: vec![None; strides],
            ..Guesses::default()
        }
    }

    /// Observes an access. Returns the predicted lines, the nearest first.
    pub fn learn(&mut self, c: &PrefetchConfig, a: &Access) -> impl Iterator<Item = u64> {
        let step = match c.prefetcher {
            Prefetcher::None => None,
            Prefetcher::NextLine => Some(1),
            Prefetcher::Stride => self.stride(c, a),
            Prefetcher::Stream => self.stream(c, a),
        };
        let (line, distance) = (a.line, step.map_or(0, |_| i64::from(c.distance)));
        let step = step.unwrap_or(0).wrapping_mul(64);
        (1..=distance)
            .map(move |k| line.wrapping_add_signed(k.wrapping_mul(step)))
            .take_while(move |l| l / PAGE == line / PAGE)
    }

    fn stride(&mut self, c: &PrefetchConfig, a: &Access) -> Option<i64> {
        // Instruction fetches have no stride by program counter: their address is the program
        // counter.
        if !matches!(a.kind, LineKind::Load | LineKind::Store) {
            return None;
        }
        let i = (a.pc >> 1 ^ (a.hart as u64) << 3) as usize & (self.strides.len() - 1);
        let known = self.strides[i].filter(|s| (s.pc, s.hart) == (a.pc, a.hart as u32));
        let mut s = known.unwrap_or(Stride {
            pc: a.pc,
            hart: a.hart as u32,
            line: a.line,
            stride: 0,
            sure: 0,
        });
        let moved = (a.line.wrapping_sub(s.line) as i64) >> 6;
        if moved != 0 {
            match (moved == s.stride, s.sure) {
                (true, _) => s.sure = (s.sure + 1).min(SURE),
                (false, 0) => s.stride = moved,
                (false, _) => s.sure -= 1,
            }
        }
        s.line = a.line;
        self.strides[i] = Some(s);
        (moved != 0 && moved == s.stride && s.sure >= c.confidence).then_some(s.stride)
    }

    fn stream(&mut self, c: &PrefetchConfig, a: &Access) -> Option<i64> {
        let page = a.line / PAGE;
        let found = self.pages.iter().position(|p| p.page == page);
        let mut p = match found {
            Some(i) => self.pages.remove(i),
            None => {
                self.pages.truncate(c.entries as usize - 1);
                Page {
                    page,
                    line: a.line,
                    step: 0,
                    sure: 0,
                }
            }
        };
        let step = (a.line as i64 - p.line as i64).signum();
        if step != 0 {
            p.sure = if step == p.step {
                (p.sure + 1).min(SURE)
            } else {
                1
            };
            (p.step, p.line) = (step, a.line);
        }
        self.pages.insert(0, p);
        (step != 0 && p.sure >= c.confidence).then_some(step)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.unused.clear();
        self.strides.fill(None);
        self.pages.clear();
    }

    /// Whether this is a possible state of a prefetcher with configuration `c`, with lines for
    /// which `inside` holds.
    pub fn fits(&self, c: &PrefetchConfig, inside: impl Fn(u64) -> bool) -> bool {
        let line = |l: u64| inside(l) && l.is_multiple_of(64);
        self.unused.iter().all(|l| line(*l))
            && self.strides.len() == Guesses::new(c).strides.len()
            && self.strides.iter().flatten().all(|s| line(s.line))
            && self.pages.len() <= c.entries as usize
            && self.pages.iter().all(|p| line(p.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn config(prefetcher: Prefetcher, degree: u32, distance: u32) -> PrefetchConfig {
        PrefetchConfig {
            prefetcher,
            degree,
            distance,
            entries: 4,
            confidence: 2,
        }
    }

    /// The predictions after the last of these accesses (pc, line), all as numbers of lines from
    /// the base.
    fn guesses(c: &PrefetchConfig, accesses: &[(u64, u64)]) -> Vec<i64> {
        let mut g = Guesses::new(c);
        let mut last = Vec::new();
        for (pc, line) in accesses {
            let a = Access {
                hart: 0,
                pc: *pc,
                line: BASE + 64 * line,
                kind: LineKind::Load,
            };
            last = g.learn(c, &a).collect();
        }
        let number = |l: &u64| (*l as i64 - BASE as i64) / 64;
        assert!(g.fits(c, |_| true));
        last.iter().map(number).collect()
    }

    #[test]
    fn next_lines_end_with_the_page() {
        let c = config(Prefetcher::NextLine, 4, 4);
        assert_eq!(guesses(&c, &[(0, 3)]), [4, 5, 6, 7]);
        assert_eq!(guesses(&c, &[(0, 61)]), [62, 63]);
        assert_eq!(guesses(&c, &[(0, 63)]), [0; 0]);
    }

    #[test]
    fn a_stride_is_known_after_it_was_seen_three_times() {
        let c = config(Prefetcher::Stride, 2, 2);
        let at = |lines: &[u64]| -> Vec<i64> {
            let accesses: Vec<_> = lines.iter().map(|l| (0x40, *l)).collect();
            guesses(&c, &accesses)
        };
        assert_eq!(at(&[1, 4, 7]), [0; 0], "seen twice");
        assert_eq!(at(&[1, 4, 7, 10]), [13, 16]);
        assert_eq!(at(&[30, 28, 26, 24]), [22, 20], "downwards");
        assert_eq!(at(&[1, 4, 7, 10, 11]), [0; 0], "another step");
        assert_eq!(at(&[1, 4, 7, 10, 10, 13]), [16, 19], "the same line again");
        assert_eq!(at(&[1, 4, 7, 60, 63]), [0; 0], "the page ends");
    }

    #[test]
    fn instructions_have_strides_of_their_own() {
        let c = config(Prefetcher::Stride, 1, 1);
        let both: Vec<(u64, u64)> = (0..4)
            .flat_map(|k| [(0x40, k), (0x42, 60 - 5 * k)])
            .collect();
        assert_eq!(guesses(&c, &both), [40]);
        // With four entries, these two instructions replace each other's entry.
        let same: Vec<(u64, u64)> = (0..4)
            .flat_map(|k| [(0x40, k), (0x48, 60 - 5 * k)])
            .collect();
        assert_eq!(guesses(&c, &same), [0; 0]);
    }

    #[test]
    fn a_stream_has_a_direction() {
        let c = config(Prefetcher::Stream, 2, 3);
        let at = |lines: &[u64]| -> Vec<i64> {
            // The program counter does not matter.
            let accesses: Vec<_> = lines.iter().map(|l| (8 * l, *l)).collect();
            guesses(&c, &accesses)
        };
        assert_eq!(at(&[8, 9]), [0; 0]);
        assert_eq!(at(&[8, 9, 10]), [11, 12, 13]);
        assert_eq!(at(&[8, 9, 11]), [12, 13, 14], "lines may be left out");
        assert_eq!(at(&[40, 39, 37]), [36, 35, 34]);
        assert_eq!(at(&[1, 0]), [0; 0]);
        assert_eq!(at(&[3, 2, 1]), [0], "the page ends");
        assert_eq!(at(&[8, 9, 10, 7]), [0; 0], "it turns");
        // Four pages are remembered.
        assert_eq!(at(&[8, 9, 100, 200, 300, 10]), [11, 12, 13]);
        assert_eq!(at(&[8, 9, 100, 200, 300, 400, 10]), [0; 0]);
    }

    #[test]
    fn code_has_no_stride() {
        let c = config(Prefetcher::Stride, 1, 1);
        let mut g = Guesses::new(&c);
        for k in 0..9 {
            let a = Access {
                hart: 0,
                pc: 0x40,
                line: BASE + 64 * k,
                kind: LineKind::Fetch,
            };
            assert_eq!(g.learn(&c, &a).count(), 0);
        }
    }
}
