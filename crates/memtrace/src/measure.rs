//! Measurements while a trace is played, in constant memory.

use nagori_memtime::Ps;
use serde::{Deserialize, Serialize};

/// Buckets in each octave: the width of a bucket is at most 1/16 of its start.
const PARTS: u32 = 16;
const BUCKETS: usize = (PARTS as usize) * 60;

/// Latencies in logarithmic buckets of 1/16 octave, exact below 16 ps.
#[derive(Clone, Debug)]
pub struct Latencies {
    count: u64,
    sum: u128,
    min: Ps,
    max: Ps,
    buckets: Box<[u64; BUCKETS]>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            count: 0,
            sum: 0,
            min: Ps(u64::MAX),
            max: Ps::ZERO,
            buckets: Box::new([0; BUCKETS]),
        }
    }
}

/// Bucket of a time, and its lower bound.
fn bucket(ps: u64) -> usize {
    if ps < u64::from(PARTS) {
        return ps as usize;
    }
    let e = 63 - ps.leading_zeros();
    let part = (ps >> (e - 4)) as u32 & (PARTS - 1);
    (((e - 3) * PARTS + part) as usize).min(BUCKETS - 1)
}

fn begin(bucket: usize) -> u64 {
    let (e, part) = (bucket as u32 / PARTS, bucket as u64 % u64::from(PARTS));
    match e {
        0 => part,
        e => (u64::from(PARTS) + part) << (e - 1),
    }
}

impl Latencies {
    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, t: Ps) {
        self.count += 1;
        self.sum += u128::from(t.0);
        self.min = self.min.min(t);
        self.max = self.max.max(t);
        self.buckets[bucket(t.0)] += 1;
    }

    /// Adds the latencies of `o`.
    pub fn merge(&mut self, o: &Latencies) {
        self.count += o.count;
        self.sum += o.sum;
        self.min = self.min.min(o.min);
        self.max = self.max.max(o.max);
        let buckets = self.buckets.iter_mut().zip(o.buckets.iter());
        buckets.for_each(|(a, b)| *a += b);
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1000.0)
    }

    /// Time in ns that a share `q` of the latencies does not exceed: the end of its bucket, so at
    /// most 1/16 too large.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let wanted = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                let end = begin(i + 1).saturating_sub(1).clamp(self.min.0, self.max.0);
                return Some(end as f64 / 1000.0);
            }
        }
        Some(self.max.as_ns())
    }

    /// The non-empty buckets.
    pub fn histogram(&self) -> Vec<Bucket> {
        let used = self.buckets.iter().enumerate().filter(|b| *b.1 > 0);
        used.map(|(i, &count)| Bucket {
            from_ns: begin(i) as f64 / 1000.0,
            to_ns: begin(i + 1) as f64 / 1000.0,
            count,
        })
        .collect()
    }

    /// The figures for a report.
    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count,
            mean_ns: self.mean_ns(),
            min_ns: (self.count > 0).then(|| self.min.as_ns()),
            p50_ns: self.quantile_ns(0.50),
            p95_ns: self.quantile_ns(0.95),
            p99_ns: self.quantile_ns(0.99),
            max_ns: (self.count > 0).then(|| self.max.as_ns()),
            histogram: self.histogram(),
        }
    }
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Beginning, inclusive.
    pub from_ns: f64,
    /// End, exclusive.
    pub to_ns: f64,
    /// Latencies in it.
    pub count: u64,
}

/// Figures of a distribution of latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of them.
    pub count: u64,
    /// Mean, exact.
    pub mean_ns: Option<f64>,
    /// Smallest, exact.
    pub min_ns: Option<f64>,
    /// Median, at most 1/16 too large.
    pub p50_ns: Option<f64>,
    /// 95th percentile, at most 1/16 too large.
    pub p95_ns: Option<f64>,
    /// 99th percentile, at most 1/16 too large.
    pub p99_ns: Option<f64>,
    /// Largest, exact.
    pub max_ns: Option<f64>,
    /// Buckets that are not empty.
    pub histogram: Vec<Bucket>,
}

/// Greatest number of points in a series.
const POINTS: usize = 512;
/// Initial length of a point.
const FIRST_WIDTH: u64 = 1 << 14;

/// Bytes read and written over time: up to 512 points, whose length doubles whenever the run
/// outgrows them.
#[derive(Clone, Debug)]
pub struct Series {
    from: u64,
    shift: u32,
    points: Vec<[u64; 2]>,
}

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Beginning.
    pub from_ns: f64,
    /// Length.
    pub length_ns: f64,
    /// Bytes of the reads that completed in it.
    pub read_bytes: u64,
    /// Bytes of the writes that completed in it.
    pub write_bytes: u64,
}

impl Series {
    /// A series from `from` on.
    pub fn new(from: Ps) -> Series {
        Series {
            from: from.0,
            shift: FIRST_WIDTH.trailing_zeros(),
            points: Vec::with_capacity(POINTS),
        }
    }

    /// Counts bytes at a time.
    #[inline]
    pub fn add(&mut self, at: Ps, write: bool, bytes: u32) {
        let t = at.0.saturating_sub(self.from);
        let mut i = (t >> self.shift) as usize;
        while i >= POINTS {
            self.halve();
            i = (t >> self.shift) as usize;
        }
        if i >= self.points.len() {
            self.points.resize(i + 1, [0; 2]);
        }
        self.points[i][usize::from(write)] += u64::from(bytes);
    }

    /// Doubles the length of the points.
    fn halve(&mut self) {
        let n = self.points.len().div_ceil(2);
        for k in 0..n {
            let a = self.points[2 * k];
            let b = self.points.get(2 * k + 1).copied().unwrap_or_default();
            self.points[k] = [a[0] + b[0], a[1] + b[1]];
        }
        self.points.truncate(n);
        self.shift += 1;
    }

    /// Adds the bytes of `o`, a series with the same beginning.
    pub fn merge(&mut self, mut o: Series) {
        debug_assert_eq!(self.from, o.from);
        while self.shift < o.shift {
            self.halve();
        }
        while o.shift < self.shift {
            o.halve();
        }
        if self.points.len() < o.points.len() {
            self.points.resize(o.points.len(), [0; 2]);
        }
        for (a, b) in self.points.iter_mut().zip(&o.points) {
            *a = [a[0] + b[0], a[1] + b[1]];
        }
    }

    /// All points, the last one cut at `end`.
    pub fn points(&self, end: Ps) -> Vec<Point> {
        let width = 1u64 << self.shift;
        let point = |(i, p): (usize, &[u64; 2])| {
            let from = self.from + i as u64 * width;
            let to = (from + width).min(end.0.max(from + 1));
            Point {
                from_ns: Ps(from).as_ns(),
                length_ns: Ps(to - from).as_ns(),
                read_bytes: p[0],
                write_bytes: p[1],
            }
        };
        self.points.iter().enumerate().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures() {
        let mut l = Latencies::default();
        assert_eq!(l.summary().mean_ns, None);
        for ns in 1..=100 {
            l.add(Ps::from_ns(ns));
        }
        let s = l.summary();
        assert_eq!(s.mean_ns, Some(50.5));
        assert_eq!((s.min_ns, s.max_ns), (Some(1.0), Some(100.0)));
        for (q, exact) in [(s.p50_ns, 50.0), (s.p95_ns, 95.0), (s.p99_ns, 99.0)] {
            let q = q.unwrap();
            assert!(q >= exact && q <= exact * 17.0 / 16.0, "{q} for {exact}");
        }
        assert_eq!(s.histogram.iter().map(|b| b.count).sum::<u64>(), 100);
    }

    proptest! {
        #[test]
        fn buckets_hold_their_times(ps in 0..1u64 << 62) {
            let b = bucket(ps);
            prop_assert!(begin(b) <= ps && ps < begin(b + 1), "{}: {}..{}", ps, begin(b), begin(b + 1));
            prop_assert!((begin(b + 1) - begin(b) - 1) * 16 <= ps.max(1));
        }

        #[test]
        fn series_lose_nothing(times in proptest::collection::vec(0..1u64 << 40, 1..200)) {
            let mut s = Series::new(Ps::ZERO);
            for &t in &times {
                s.add(Ps(t), t % 3 == 0, 64);
            }
            let p = s.points(Ps(1 << 40));
            let sum: u64 = p.iter().map(|p| p.read_bytes + p.write_bytes).sum();
            prop_assert_eq!(sum, 64 * times.len() as u64);
            prop_assert!(p.len() <= POINTS);
        }

        #[test]
        fn parts_merge_to_the_whole(times in proptest::collection::vec(0..1u64 << 40, 1..200), cut in 0..200usize) {
            let measure = |times: &[u64]| {
                let (mut s, mut l) = (Series::new(Ps::ZERO), Latencies::default());
                for &t in times {
                    s.add(Ps(t), t % 3 == 0, 64);
                    l.add(Ps(t));
                }
                (s, l)
            };
            let (all, latencies) = measure(&times);
            let (a, b) = times.split_at(cut.min(times.len()));
            let (mut s, mut l) = measure(a);
            let (rest, more) = measure(b);
            s.merge(rest);
            l.merge(&more);
            prop_assert_eq!(s.points(Ps(1 << 40)), all.points(Ps(1 << 40)));
            prop_assert_eq!(l.summary(), latencies.summary());
        }
    }
}
