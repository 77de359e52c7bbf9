//! Start-Gap wear levelling (Qureshi et al., MICRO 2009): a region of *N*
//! lines has *N + 1* places, one of them empty (the gap). After every ψ
//! writes the line below the gap moves into it; when the gap has gone through
//! all places, every line stands one place further.
//!
//! The mapping needs two registers for each region: place = (line + start) mod N, plus one if that
//! is at or above the gap. A fixed permutation of all lines before it (a Feistel network) separates
//! lines that are hot together, as in the paper's randomised form.

use serde::{Deserialize, Serialize};

use crate::divide::Divider;
use crate::error::Error;
use crate::wear::mix;

/// How the lines are levelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartGapParams {
    /// Lines of a region; the memory's lines are a multiple of it.
    pub region_lines: u64,
    /// Writes to a region between two moves of its gap (ψ; the paper uses 100,
    /// which adds 1 % of writes).
    pub gap_interval: u32,
    /// Seed of the fixed permutation before levelling; `None`: no permutation, neighbours stay
    /// together.
    pub permute: Option<u64>,
}

/// A line to be copied from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Place that becomes the gap.
    pub from: u64,
    /// Place that is the gap until now.
    pub to: u64,
}

#[derive(Clone, Copy, Debug)]
struct Registers {
    start: u64,
    gap: u64,
    writes: u32,
}

/// Registers of all regions.
#[derive(Clone, Debug)]
pub struct StartGap {
    params: StartGapParams,
    lines: u64,
    regions: Vec<Registers>,
    moves: u64,
    /// Bits of each half of the Feistel network.
    half: u32,
    /// What its rounds mix in.
    rounds: [u64; 3],
    /// Divides by the lines of a region.
    by_region: Divider,
}

/// Registers in saved form: the number of gap moves so far, and region, start, gap and writes of
/// each region that has changed since it was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedGap {
    moves: u64,
    regions: Vec<(u64, u64, u64, u32)>,
}

impl StartGap {
    pub(crate) fn save(&self) -> SavedGap {
        let new = self.params.region_lines;
        let regions = (0..).zip(&self.regions);
        let used = regions.filter(|(_, r)| r.start != 0 || r.gap != new || r.writes != 0);
        SavedGap {
            moves: self.moves,
            regions: used.map(|(i, r)| (i, r.start, r.gap, r.writes)).collect(),
        }
    }

    /// Loads saved registers; `self` must be new.
    pub(crate) fn load(&mut self, s: SavedGap) -> Result<(), Error> {
        let n = self.params.region_lines;
        crate::checks::counts([s.moves])?;
        self.moves = s.moves;
        for (i, start, gap, writes) in s.regions {
            let r = usize::try_from(i)
                .ok()
                .and_then(|i| self.regions.get_mut(i));
            let fine = start < n && gap <= n && writes < u32::MAX;
            let Some(r) = r.filter(|_| fine) else {
                return crate::checks::ensure(false, "registers of wear levelling");
            };
            *r = Registers { start, gap, writes };
        }
        Ok(())
    }

    /// Levelling for `lines` lines.
    pub fn new(lines: u64, params: StartGapParams) -> Result<StartGap, Error> {
        let fail = |field, value: u64, expected: &str| {
            Err(Error::Param {
                field,
                value: value.to_string(),
                expected: expected.to_owned(),
            })
        };
        let n = params.region_lines;
        if n == 0 || lines == 0 || !lines.is_multiple_of(n) || lines > 1 << 40 {
            return fail(
                "start_gap.region_lines",
                n,
                "at least 1, and the memory (at most 2^40 lines) must have whole regions",
            );
        }
        if lines / n > 1 << 24 {
            return fail("start_gap.region_lines", n, "at most 2^24 regions");
        }
        if params.gap_interval == 0 {
            return fail("start_gap.gap_interval", 0, "at least 1 write");
        }
        let bits = u64::BITS - (lines - 1).leading_zeros();
        Ok(StartGap {
            params,
            lines,
            regions: vec![
                Registers {
                    start: 0,
                    gap: n,
                    writes: 0,
                };
                (lines / n) as usize
            ],
            moves: 0,
            half: bits.div_ceil(2).max(1),
            rounds: [0, 1, 2].map(|round| mix(params.permute.unwrap_or(0) ^ round)),
            by_region: Divider::new(n),
        })
    }

    /// Number of lines before levelling.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Number of places after levelling: one more for each region.
    pub fn places(&self) -> u64 {
        self.lines + self.regions.len() as u64
    }

    /// Gap moves so far.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// How the lines are levelled.
    pub fn params(&self) -> &StartGapParams {
        &self.params
    }

    /// Changes the interval between moves; writes counted since the last move stay.
    pub fn set_interval(&mut self, writes: u32) -> Result<(), Error> {
        if writes == 0 {
            return Err(Error::Param {
                field: "start_gap.gap_interval",
                value: writes.to_string(),
                expected: "at least 1 write".to_owned(),
            });
        }
        self.params.gap_interval = writes;
        Ok(())
    }

    /// The permutation of a line below [`StartGap::lines`]: a Feistel network over the next even
    /// number of bits, repeated until the result is a line. It never changes; callers that need it
    /// more than once can keep the result.
    pub fn permute(&self, line: u64) -> u64 {
        if self.params.permute.is_none() {
            return line;
        }
        let mask = (1u64 << self.half) - 1;
        let mut x = line;
        loop {
            let (mut l, mut r) = (x >> self.half, x & mask);
            for key in self.rounds {
                (l, r) = (r, l ^ (mix(r ^ key) & mask));
            }
            x = l << self.half | r;
            if x < self.lines {
                return x;
            }
        }
    }

    /// The place of a line below [`StartGap::lines`].
    pub fn place(&self, line: u64) -> u64 {
        self.place_permuted(self.permute(line))
    }

    /// The place of the line that [`StartGap::permute`] returned.
    #[inline]
    pub fn place_permuted(&self, permuted: u64) -> u64 {
        let n = self.params.region_lines;
        let (region, l) = self.by_region.div_rem(permuted);
        let r = &self.regions[region as usize];
        let turned = l + r.start;
        let x = if turned >= n { turned - n } else { turned };
        region * (n + 1) + x + u64::from(x >= r.gap)
    }

    /// Counts a write to a line (made at its present place) and returns the line that has to be
    /// moved now, if any; the mapping changes at once.
    pub fn write(&mut self, line: u64) -> Option<Move> {
        self.write_permuted(self.permute(line))
    }

    /// As [`StartGap::write`], for the line that [`StartGap::permute`] returned.
    #[inline]
    pub fn write_permuted(&mut self, permuted: u64) -> Option<Move> {
        let n = self.params.region_lines;
        let region = self.by_region.div_rem(permuted).0;
        let r = &mut self.regions[region as usize];
        r.writes += 1;
        if r.writes < self.params.gap_interval {
            return None;
        }
        r.writes = 0;
        self.moves += 1;
        let base = region * (n + 1);
        let to = base + r.gap;
        let from = if r.gap == 0 {
            r.gap = n;
            r.start = (r.start + 1) % n;
            base + n
        } else {
            r.gap -= 1;
            base + r.gap
        };
        Some(Move { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn make(lines: u64, region: u64, interval: u32, permute: Option<u64>) -> StartGap {
        StartGap::new(
            lines,
            StartGapParams {
                region_lines: region,
                gap_interval: interval,
                permute,
            },
        )
        .unwrap()
    }

    #[test]
    fn the_papers_example_turns_by_one() {
        let mut s = make(4, 4, 1, None);
        let places = |s: &StartGap| (0..4).map(|l| s.place(l)).collect::<Vec<_>>();
        assert_eq!(places(&s), [0, 1, 2, 3]);
        assert_eq!(s.write(0), Some(Move { from: 3, to: 4 }));
        assert_eq!(places(&s), [0, 1, 2, 4]);
        for _ in 0..3 {
            s.write(0);
        }
        assert_eq!(places(&s), [1, 2, 3, 4]);
        assert_eq!(s.write(0), Some(Move { from: 4, to: 0 }));
        assert_eq!(places(&s), [1, 2, 3, 0]);
    }

    #[test]
    fn one_hot_line_wears_all_places() {
        let (n, interval) = (16u64, 4);
        let mut s = make(n, n, interval, None);
        let mut wear = vec![0u64; s.places() as usize];
        // n (n + 1) moves bring every line back to where it began.
        for _ in 0..n * (n + 1) * u64::from(interval) {
            wear[s.place(5) as usize] += 1;
            s.write(5);
        }
        assert!(
            wear.iter().all(|w| *w >= n * u64::from(interval) / 2),
            "{wear:?}"
        );
        assert_eq!(s.place(5), 5);
        assert_eq!(s.moves(), n * (n + 1));
    }

    #[test]
    fn bad_parameters() {
        let p = StartGapParams {
            region_lines: 3,
            gap_interval: 1,
            permute: None,
        };
        assert!(StartGap::new(8, p)
            .unwrap_err()
            .to_string()
            .contains("region_lines = 3"));
        let p = StartGapParams {
            region_lines: 4,
            gap_interval: 0,
            ..p
        };
        assert!(StartGap::new(8, p)
            .unwrap_err()
            .to_string()
            .contains("gap_interval"));
    }

    proptest! {
        /// At all times the mapping is one to one into the places and leaves one place of each
        /// region empty; and a memory that only carries out the moves keeps every line's data.
        #[test]
        fn a_permutation_at_all_times(
            regions in 1u64..4,
            region_lines in 1u64..20,
            interval in 1u32..5,
            permute: Option<u64>,
            writes in prop::collection::vec(any::<u64>(), 0..300),
        ) {
            let n = regions * region_lines;
            let mut s = make(n, region_lines, interval, permute);
            let mut cells = vec![None; s.places() as usize];
            for l in 0..n {
                let p = s.place(l) as usize;
                prop_assert_eq!(cells[p].replace(l), None);
            }
            for w in writes {
                if let Some(m) = s.write(w % n) {
                    prop_assert_eq!(cells[m.to as usize], None, "the target is the gap");
                    cells[m.to as usize] = cells[m.from as usize].take();
                }
                for l in 0..n {
                    prop_assert_eq!(cells[s.place(l) as usize], Some(l));
                }
                for r in cells.chunks(region_lines as usize + 1) {
                    prop_assert_eq!(r.iter().filter(|c| c.is_none()).count(), 1);
                }
            }
        }
    }
}
