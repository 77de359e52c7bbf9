//! Wear of non-volatile cells: writes counted per line and per row, endurance
//! as a distribution, and the lifetime that follows.
//!
//! A *line* is the unit in which cells are written, a *row* the unit in which
//! wear is summed for reports. Only lines are counted while running; rows and
//! the map are summed from them for a report.
//!
//! # Memory
//! Counters are kept in pages of 64 lines (64 bytes) in directories of 512 pages (2 KiB), both
//! allocated at the first write, plus 8 bytes for each possible directory; lines with 256 writes
//! and more also have an entry in a map. So memory grows with the lines that are touched (one byte
//! for each line in dense areas, 2.1 KiB for an isolated one), is bounded by the capacity, and does
//! not depend on the number of writes.
//!
//! # Lifetime
//! A line fails when its writes exceed its endurance. If the observed interval
//! repeated for ever, line *i* with *w* writes in time *T* and endurance *e*
//! Reports contain the first failure of all lines, and the time that perfect levelling would give:
//! *T* times the sum of all endurances over the sum of all writes.
//!
//! # Endurance
//! Drawn for each line from the seed and the line's number with integer arithmetic only, so that it
//! is the same on every host and needs no storage. Source for the
//! shapes: Zhang and Li (MICRO 2009) model process variation of PCM as normal;
//! measured cell populations are closer to log-normal (Boniardi et al., IRPS 2010).

mod counters;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::WearMap;
use crate::units::Ps;
use counters::Counters;

/// Greatest number of buckets of a wear map.
pub const MAP_BUCKETS: u64 = 512;

/// How many writes a line endures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "distribution", deny_unknown_fields)]
pub enum Endurance {
    /// All lines endure the same number.
    Constant {
        /// Writes.
        writes: u64,
    },
    /// Normal, cut off below one write and beyond six standard deviations.
    Normal {
        /// Mean in writes.
        mean: u64,
        /// Standard deviation in percent of the mean, at most 100.
        deviation_percent: u32,
        /// Seed of the draw.
        seed: u64,
    },
    /// Log-normal: two to the power of a normal variable, at most six
    /// standard deviations from the median.
    LogNormal {
        /// Median in writes.
        median: u64,
        /// Standard deviation of the binary logarithm in percent (100: a
        /// factor of two), at most 500.
        sigma_percent: u32,
        /// Seed of the draw.
        seed: u64,
    },
}

/// Largest mean or median: keeps every draw inside 64 bits.
const MAX_ENDURANCE: u64 = 1 << 48;

/// A full-period mixer of 64 bits (SplitMix64's finaliser).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A standard normal variable in units of 1/65536: the sum of twelve uniform ones, minus six.
fn normal_q16(seed: u64, n: u64) -> i64 {
    let mut h = mix(seed ^ mix(n));
    let mut sum = 0i64;
    for _ in 0..3 {
        for shift in [0, 16, 32, 48] {
            sum += (h >> shift & 0xffff) as i64;
        }
        h = mix(h);
    }
    sum - 6 * 65536 + 6
}

/// Two to the power of `x` / 65536 in units of 1/2^32, for 0 <= x < 65536.
fn exp2_fraction_q32(x: u32) -> u64 {
    // 2^(2^-i) in 1/2^32 for i = 1..=16.
    const ROOTS: [u64; 16] = [
        0x1_6a09_e668,
        0x1_306f_e0a3,
        0x1_172b_83c8,
        0x1_0b55_86d0,
        0x1_059b_0d31,
        0x1_02c9_a3e7,
        0x1_0163_daa0,
        0x1_00b1_afa6,
        0x1_0058_c86e,
        0x1_002c_605e,
        0x1_0016_2f39,
        0x1_000b_175f,
        0x1_0005_8ba0,
        0x1_0002_c5cc,
        0x1_0001_62e5,
        0x1_0000_b172,
    ];
    let mut y = 1u64 << 32;
    for (i, root) in ROOTS.iter().enumerate() {
        if x >> (15 - i) & 1 != 0 {
            y = ((u128::from(y) * u128::from(*root)) >> 32) as u64;
        }
    }
    y
}

impl Endurance {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), Error> {
        let fail = |field, value: u64, expected: String| {
            Err(Error::Param {
                field,
                value: value.to_string(),
                expected,
            })
        };
        let (centre, spread, most) = match *self {
            Endurance::Constant { writes } => (writes, 0, 0),
            Endurance::Normal {
                mean,
                deviation_percent,
                ..
            } => (mean, deviation_percent, 100),
            Endurance::LogNormal {
                median,
                sigma_percent,
                ..
            } => (median, sigma_percent, 500),
        };
        if !(1..=MAX_ENDURANCE).contains(&centre) {
            return fail(
                "endurance",
                centre,
                format!("1 to {MAX_ENDURANCE} writes are possible"),
            );
        }
        if spread > most {
            return fail(
                "endurance spread",
                spread.into(),
                format!("at most {most} % is possible"),
            );
        }
        Ok(())
    }

    /// The least number of writes that any line endures.
    fn least(&self) -> u64 {
        // No draw is below six standard deviations.
        match *self {
            Endurance::Constant { writes } => writes,
            Endurance::Normal {
                mean,
                deviation_percent,
                ..
            } => mean
                .saturating_sub((mean * u64::from(deviation_percent)).div_ceil(100) * 6)
                .max(1),
            Endurance::LogNormal {
                median,
                sigma_percent,
                ..
            } => {
                let octaves = (6 * sigma_percent).div_ceil(100);
                (median >> octaves.min(63)).max(1)
            }
        }
    }

    /// Number of writes that line `n` endures; at least one.
    pub fn of_line(&self, n: u64) -> u64 {
        match *self {
            Endurance::Constant { writes } => writes,
            Endurance::Normal {
                mean,
                deviation_percent,
                seed,
            } => {
                let z = normal_q16(seed, n);
                // Below 2^48, 2^7 and 2^19.
                let spread = mean as i64 * i64::from(deviation_percent);
                let d = if spread < 1 << 43 {
                    spread * z / (100 << 16)
                } else {
                    (i128::from(spread) * i128::from(z) / (100 << 16)) as i64
                };
                (mean as i64 + d).max(1) as u64
            }
            Endurance::LogNormal {
                median,
                sigma_percent,
                seed,
            } => {
                let e = normal_q16(seed, n) * i64::from(sigma_percent) / 100;
                let (whole, part) = (e >> 16, (e & 0xffff) as u32);
                let scaled = u128::from(median) * u128::from(exp2_fraction_q32(part));
                let v = if whole >= 0 {
                    scaled << whole >> 32
                } else {
                    scaled >> (32 - whole)
                };
                u64::try_from(v).unwrap_or(u64::MAX).max(1)
            }
        }
    }
}

/// Geometry and endurance of worn memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearParams {
    /// Bytes of a line, a power of two.
    pub line_bytes: u64,
    /// Bytes of a row, a power of two and at least a line.
    pub row_bytes: u64,
    /// How many writes a line endures.
    pub endurance: Endurance,
}

/// Write counters of one memory.
#[derive(Clone, Debug)]
pub struct Wear {
    params: WearParams,
    capacity: u64,
    line_shift: u32,
    row_shift: u32,
    lines: Counters,
    writes: u64,
    from: Ps,
}

/// A counter with its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    /// First byte of the line or row.
    pub addr: u64,
    /// Its writes.
    pub writes: u64,
}

/// Summary of the counters over an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearReport {
    /// Geometry and endurance.
    pub params: WearParams,
    /// Length of the interval.
    pub elapsed: Ps,
    /// Lines written, each time counted.
    pub writes: u64,
    /// Lines written at least once.
    pub lines_written: u64,
    /// Rows written at least once.
    pub rows_written: u64,
    /// Line with the most writes (the first of several).
    pub worst_line: Worst,
    /// Row with the most line writes (the first of several).
    pub worst_row: Worst,
    /// Wear by address.
    pub map: WearMap,
    /// Lines by writes: entry `i` counts those with `2^i .. 2^(i+1)` writes.
    pub lines_by_writes: Vec<u64>,
    /// Lines whose writes already exceed their endurance.
    pub lines_failed: u64,
    /// Time to the first failure in seconds, if the interval repeats; `None`
    /// without writes or time.
    pub lifetime_s: Option<f64>,
    /// Time to the first failure in seconds, if the interval repeats with perfect levelling over all lines.
    pub lifetime_levelled_s: Option<f64>,
}

impl WearReport {
    /// The short form for reports of models; `levelling` of the writes were moves.
    pub fn summary(&self, capacity: u64, levelling: u64) -> crate::model::Wear {
        crate::model::Wear {
            unit_bytes: self.params.line_bytes,
            units: capacity / self.params.line_bytes,
            writes: self.writes,
            levelling_writes: levelling,
            units_written: self.lines_written,
            max_writes: self.worst_line.writes,
            row_bytes: self.params.row_bytes,
            rows_written: self.rows_written,
            max_row_writes: self.worst_row.writes,
            worn_out: self.lines_failed,
            lifetime_s: self.lifetime_s,
            lifetime_levelled_s: self.lifetime_levelled_s,
            map: self.map.clone(),
        }
    }
}

/// Counters in saved form: runs of lines with their writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedWear {
    from: Ps,
    /// First line, and the writes to it and the following lines.
    lines: Vec<(u64, Vec<u64>)>,
}

/// Number of lines without writes that a run of [`SavedWear`] continues across.
const BRIDGED: u64 = 8;

impl Wear {
    pub(crate) fn save(&self) -> SavedWear {
        let mut lines: Vec<(u64, Vec<u64>)> = Vec::new();
        self.lines.for_each(|n, writes| match lines.last_mut() {
            Some((first, run)) if n - *first - run.len() as u64 <= BRIDGED => {
                run.resize((n - *first) as usize, 0);
                run.push(writes);
            }
            _ => lines.push((n, vec![writes])),
        });
        SavedWear {
            from: self.from,
            lines,
        }
    }

    /// Loads saved counters; `self` must be new.
    pub(crate) fn load(&mut self, s: SavedWear) -> Result<(), Error> {
        use crate::checks::{ensure, MOST};
        let lines = self.capacity >> self.line_shift;
        ensure(s.from <= Ps::MAX_TIME, "start of wear")?;
        self.from = s.from;
        let mut next = 0;
        for (first, run) in s.lines {
            let end = first.checked_add(run.len() as u64);
            let inside = end.is_some_and(|e| e <= lines) && first >= next;
            ensure(inside, "lines of wear")?;
            for (n, writes) in (first..).zip(run) {
                // Fits a counter, and so does the sum over all lines.
                ensure(writes <= 1 << 39, "writes of a line")?;
                self.writes += writes;
                ensure(self.writes <= MOST, "writes of all lines")?;
                self.lines.set(n, writes);
                next = n + 1;
            }
        }
        Ok(())
    }

    /// Counters for `capacity` bytes, all zero.
    pub fn new(capacity: u64, params: WearParams) -> Result<Wear, Error> {
        params.endurance.validate()?;
        let fail = |field, value: u64, expected: &str| {
            Err(Error::Param {
                field,
                value: value.to_string(),
                expected: expected.to_owned(),
            })
        };
        if !params.line_bytes.is_power_of_two() {
            return fail("wear.line_bytes", params.line_bytes, "a power of two");
        }
        if !params.row_bytes.is_power_of_two() || params.row_bytes < params.line_bytes {
            return fail(
                "wear.row_bytes",
                params.row_bytes,
                "a power of two, at least a line",
            );
        }
        if capacity == 0 || !capacity.is_multiple_of(params.row_bytes) || capacity > 1 << 46 {
            return fail(
                "wear.capacity",
                capacity,
                "whole rows, more than none and at most 64 TiB",
            );
        }
        Ok(Wear {
            params,
            capacity,
            line_shift: params.line_bytes.trailing_zeros(),
            row_shift: params.row_bytes.trailing_zeros(),
            lines: Counters::new(capacity / params.line_bytes),
            writes: 0,
            from: Ps::ZERO,
        })
    }

    /// Bytes covered.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Counts one write of the line that contains byte `addr`.
    #[inline]
    pub fn write(&mut self, addr: u64) -> Result<(), Error> {
        if addr >= self.capacity {
            return Err(Error::OutOfRange {
                addr,
                bytes: 1,
                capacity: self.capacity,
            });
        }
        self.writes += 1;
        self.lines.add(addr >> self.line_shift);
        Ok(())
    }

    /// Writes of the line that contains `addr`.
    pub fn line_writes(&self, addr: u64) -> u64 {
        self.lines.get(addr >> self.line_shift)
    }

    /// Line writes of the row that contains `addr`.
    pub fn row_writes(&self, addr: u64) -> u64 {
        let first = addr >> self.row_shift << (self.row_shift - self.line_shift);
        let lines = first..first + (1 << (self.row_shift - self.line_shift));
        lines.map(|n| self.lines.get(n)).sum()
    }

    /// An empty map, in at most [`MAP_BUCKETS`] parts of equal size, a power
    /// of two.
    fn empty_map(&self) -> WearMap {
        let bucket_bytes = self
            .capacity
            .div_ceil(MAP_BUCKETS)
            .next_power_of_two()
            .max(self.params.line_bytes);
        let n = self.capacity.div_ceil(bucket_bytes) as usize;
        WearMap {
            bucket_bytes,
            max: vec![0; n],
            sum: vec![0; n],
        }
    }

    /// Forgets all writes; the interval starts anew at `at`.
    pub fn reset(&mut self, at: Ps) {
        self.lines = Counters::new(self.capacity >> self.line_shift);
        self.writes = 0;
        self.from = at;
    }

    /// Summarises the interval that ends at `at`. Visits every written line, and, for the levelled
    /// lifetime, up to 4096 evenly spaced lines of the memory to estimate the mean endurance.
    pub fn report(&self, at: Ps) -> WearReport {
        let elapsed = at.saturating_sub(self.from);
        let e = &self.params.endurance;
        let at_least = e.least();
        let (mut worst, mut worst_row) = (Worst::default(), Worst::default());
        let mut row = Worst::default();
        let mut rows_written = 0;
        let mut by = [0u64; 64];
        let mut map = self.empty_map();
        let (row_shift, map_shift) = (self.row_shift, map.bucket_bytes.trailing_zeros());
        let (mut written, mut failed) = (0, 0);
        // Smallest endurance per write as a fraction, compared without rounding.
        let mut least = (u64::MAX, 0u64);
        let less = |a: (u64, u64), b: (u64, u64)| {
            u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
        };
        self.lines.for_each(|n, c| {
            let addr = n << self.line_shift;
            written += 1;
            if c > worst.writes {
                worst = Worst { addr, writes: c };
            }
            by[c.ilog2() as usize] += 1;
            let i = (addr >> map_shift) as usize;
            map.max[i] = map.max[i].max(c);
            map.sum[i] += c;
            if addr >> row_shift != row.addr >> row_shift || row.writes == 0 {
                rows_written += 1;
                row = Worst {
                    addr: addr >> row_shift << row_shift,
                    writes: 0,
                };
            }
            row.writes += c;
            if row.writes > worst_row.writes {
                worst_row = row;
            }
            // Most lines cannot fail first, whatever their draw.
            if less((at_least, c), least) || c > at_least {
                let bears = e.of_line(n);
                failed += u64::from(c > bears);
                if less((bears, c), least) {
                    least = (bears, c);
                }
            }
        });
        let octaves = by.iter().rposition(|n| *n > 0).map_or(0, |i| i + 1);
        let lines = self.capacity >> self.line_shift;
        let step = lines.div_ceil(4096);
        let (sum, n) = (0..lines)
            .step_by(step as usize)
            .fold((0u128, 0u64), |(s, n), l| {
                (s + u128::from(e.of_line(l)), n + 1)
            });
        let levelled = (self.writes > 0)
            .then(|| elapsed.as_s() * (sum as f64 / n as f64) * lines as f64 / self.writes as f64);
        WearReport {
            params: self.params,
            elapsed,
            writes: self.writes,
            lines_written: written,
            rows_written,
            worst_line: worst,
            worst_row,
            map,
            lines_by_writes: by[..octaves].to_vec(),
            lines_failed: failed,
            lifetime_s: (least.1 > 0 && elapsed > Ps::ZERO)
                .then(|| elapsed.as_s() * least.0 as f64 / least.1 as f64),
            lifetime_levelled_s: levelled.filter(|_| elapsed > Ps::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn params(endurance: Endurance) -> WearParams {
        WearParams {
            line_bytes: 64,
            row_bytes: 1024,
            endurance,
        }
    }

    const HUNDRED: Endurance = Endurance::Constant { writes: 100 };

    #[test]
    fn counts_and_lifetime() {
        let mut w = Wear::new(1 << 20, params(HUNDRED)).unwrap();
        for _ in 0..10 {
            w.write(0x440).unwrap();
        }
        w.write(0x43f).unwrap();
        w.write(0xffff).unwrap();
        let r = w.report(Ps::from_ns(1_000_000_000));
        assert_eq!((r.writes, r.lines_written, r.rows_written), (12, 3, 2));
        assert_eq!(
            r.worst_line,
            Worst {
                addr: 0x440,
                writes: 10
            }
        );
        assert_eq!(
            r.worst_row,
            Worst {
                addr: 0x400,
                writes: 11
            }
        );
        assert_eq!(r.lines_by_writes, [2, 0, 0, 1]);
        assert_eq!(r.lifetime_s, Some(10.0));
        let levelled = 100.0 * 16384.0 / 12.0;
        assert!((r.lifetime_levelled_s.unwrap() - levelled).abs() < 1e-6);
        assert_eq!(r.lines_failed, 0);
        for _ in 0..91 {
            w.write(0x440).unwrap();
        }
        assert_eq!(w.report(Ps::from_ns(1)).lines_failed, 1);
        assert!(w.write(1 << 20).is_err());
        w.reset(Ps::from_ns(5));
        let r = w.report(Ps::from_ns(6));
        assert_eq!((r.writes, r.lifetime_s), (0, None));
    }

    #[test]
    fn the_map_is_bounded_and_whole() {
        for capacity in [1u64 << 20, 1 << 37, 3 << 30, (1 << 33) + 1024] {
            let mut w = Wear::new(capacity, params(HUNDRED)).unwrap();
            for a in [0, 0, 64, capacity - 1, capacity / 2] {
                w.write(a).unwrap();
            }
            let m = w.report(Ps(1)).map;
            assert!((256..=MAP_BUCKETS as usize).contains(&m.max.len()), "{m:?}");
            assert_eq!(m.max.len(), m.sum.len());
            assert!(m.bucket_bytes * m.max.len() as u64 >= capacity);
            assert_eq!((m.max[0], m.sum[0]), (2, 3));
            assert_eq!((m.sum.iter().sum::<u64>(), *m.sum.last().unwrap()), (5, 1));
        }
    }

    /// Allocated memory grows with the lines touched.
    #[test]
    fn only_touched_lines_take_memory() {
        let mut w = Wear::new(1 << 43, params(HUNDRED)).unwrap();
        for i in 0..100_000 {
            w.write(i % 64 * 64).unwrap();
            w.write((1 << 40) + i % 6400 * 64).unwrap();
        }
        assert_eq!(w.lines.in_use(), (1 + 100, 2));
    }

    #[test]
    fn distributions_have_their_moments() {
        let n = 100_000u64;
        let e = Endurance::Normal {
            mean: 1_000_000,
            deviation_percent: 20,
            seed: 7,
        };
        let v: Vec<f64> = (0..n).map(|i| e.of_line(i) as f64).collect();
        let mean = v.iter().sum::<f64>() / n as f64;
        let sd = (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((mean - 1e6).abs() < 3e3, "{mean}");
        assert!((sd - 2e5).abs() < 3e3, "{sd}");
        let e = Endurance::LogNormal {
            median: 1_000_000,
            sigma_percent: 50,
            seed: 7,
        };
        let v: Vec<f64> = (0..n).map(|i| (e.of_line(i) as f64).log2()).collect();
        let mean = v.iter().sum::<f64>() / n as f64;
        let sd = (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((mean - 1e6f64.log2()).abs() < 0.01, "{mean}");
        assert!((sd - 0.5).abs() < 0.01, "{sd}");
    }

    #[test]
    fn powers_of_two_are_exact_enough() {
        for x in (0..65536).step_by(97) {
            let want = (f64::from(x) / 65536.0).exp2();
            let got = exp2_fraction_q32(x) as f64 / 4294967296.0;
            assert!((want - got).abs() < 1e-8, "{x}: {want} {got}");
        }
    }

    #[test]
    fn bad_parameters() {
        let bad = |p: WearParams, c| Wear::new(c, p).unwrap_err().to_string();
        let good = params(HUNDRED);
        assert!(bad(
            WearParams {
                line_bytes: 48,
                ..good
            },
            1 << 20
        )
        .contains("line_bytes = 48"));
        assert!(bad(
            WearParams {
                row_bytes: 32,
                ..good
            },
            1 << 20
        )
        .contains("row_bytes"));
        assert!(bad(good, 1000).contains("capacity"));
        assert!(bad(params(Endurance::Constant { writes: 0 }), 1 << 20).contains("endurance"));
        let wide = Endurance::Normal {
            mean: 5,
            deviation_percent: 101,
            seed: 0,
        };
        assert!(bad(params(wide), 1 << 20).contains("101"));
    }

    proptest! {
        /// Compares with a map that keeps all counts.
        #[test]
        fn equals_a_plain_count(
            addrs in prop::collection::vec(0u64..1 << 14, 1..400),
            seed: u64,
            centre in prop::sample::select(vec![1, 2, 1000, 1 << 40]),
            spread in 0u32..=100,
            log: bool,
        ) {
            let e = if log {
                Endurance::LogNormal { median: centre, sigma_percent: 5 * spread, seed }
            } else {
                Endurance::Normal { mean: centre, deviation_percent: spread, seed }
            };
            let mut w = Wear::new(1 << 14, params(e)).unwrap();
            let mut plain = std::collections::BTreeMap::new();
            for a in &addrs {
                w.write(*a).unwrap();
                *plain.entry(a / 64).or_insert(0u64) += 1;
            }
            let r = w.report(Ps::from_ns(1000));
            let failed = plain.iter().filter(|(l, c)| e.of_line(**l) < **c).count();
            prop_assert_eq!(r.lines_failed, failed as u64);
            plain.keys().for_each(|l| assert!(e.of_line(*l) >= e.least()));
            prop_assert_eq!(r.writes, addrs.len() as u64);
            prop_assert_eq!(r.lines_written, plain.len() as u64);
            prop_assert_eq!(r.worst_line.writes, *plain.values().max().unwrap());
            let mut rows = std::collections::BTreeMap::new();
            addrs.iter().for_each(|a| *rows.entry(a / 1024 * 1024).or_insert(0u64) += 1);
            prop_assert_eq!(r.rows_written, rows.len() as u64);
            let most = rows.iter().rev().max_by_key(|r| r.1).unwrap();
            prop_assert_eq!(r.worst_row, Worst { addr: *most.0, writes: *most.1 });
            for (a, n) in rows {
                prop_assert_eq!(w.row_writes(a + 5), n);
            }
            prop_assert_eq!(r.map.bucket_bytes, 64);
            for (i, (max, sum)) in r.map.max.iter().zip(&r.map.sum).enumerate() {
                let n = plain.get(&(i as u64)).copied().unwrap_or(0);
                prop_assert_eq!((*max, *sum), (n, n));
            }
            let first = plain.iter().map(|(l, c)| e.of_line(*l) as f64 / *c as f64)
                .fold(f64::INFINITY, f64::min) * 1e-6;
            prop_assert!((r.lifetime_s.unwrap() / first - 1.0).abs() < 1e-12);
        }
    }
}
