//! Statistics of the bus and the controller.

use std::fmt;

use nagori_counters::counters;
use serde::{Deserialize, Serialize};

use crate::params::{BoardParams, Method};
use crate::units::Ps;

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 32;

/// Latencies in power-of-two buckets of nanoseconds: bucket 0 counts those
/// below 2 ns, bucket `i` those in `2^i .. 2^(i+1)` ns, the last one all above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Number of latencies counted.
    pub count: u64,
    /// Their sum.
    pub sum: Ps,
    /// Counts by bucket.
    pub buckets: [u64; BUCKETS],
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, latency: Ps) {
        let ns = latency.0 / 1000;
        let i = (63 - (ns | 1).leading_zeros() as usize).min(BUCKETS - 1);
        self.buckets[i] += 1;
        self.count += 1;
        self.sum += latency;
    }

    /// Mean in nanoseconds; `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        ratio(self.sum.0, self.count).map(|ps| ps / 1000.0)
    }

    /// Range `[from, to)` in nanoseconds of bucket `i`; the last one has no end.
    pub fn range_ns(i: usize) -> (u64, Option<u64>) {
        let from = if i == 0 { 0 } else { 1 << i };
        (from, (i + 1 < BUCKETS).then(|| 1 << (i + 1)))
    }

    fn plus(&self, o: &Histogram) -> Histogram {
        let mut d = *self;
        d.count += o.count;
        d.sum += o.sum;
        for (a, b) in d.buckets.iter_mut().zip(o.buckets) {
            *a += b;
        }
        d
    }

    fn since(&self, o: &Histogram) -> Histogram {
        let mut d = *self;
        d.count = self.count.saturating_sub(o.count);
        d.sum = self.sum.saturating_sub(o.sum);
        for (a, b) in d.buckets.iter_mut().zip(o.buckets) {
            *a = a.saturating_sub(b);
        }
        d
    }
}

counters! {
    /// What is counted for a region and for a bank.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Counters {
        /// Reads accepted.
        pub reads: u64,
        /// Writes accepted.
        pub writes: u64,
        /// Bytes of the reads.
        pub read_bytes: u64,
        /// Bytes of the writes.
        pub write_bytes: u64,
        /// Requests that took over an open row.
        pub row_hits: u64,
        /// Requests whose bank differs from that of the request accepted before.
        pub bank_switches: u64,
        /// Activations.
        pub activations: u64,
        /// Precharges of rows not written since their activation.
        pub precharges_clean: u64,
        /// Precharges of written rows.
        pub precharges_dirty: u64,
        /// Refreshes of this bank, or of any bank of this region.
        pub refreshes: u64,
    }
}

impl Counters {
    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Read and written bytes.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    /// ACT/REQ: activations per request.
    pub fn act_per_req(&self) -> Option<f64> {
        ratio(self.activations, self.requests())
    }

    /// BANK_PARA: share of the requests whose bank differs from that of the
    /// request before (the first request of all has none before it).
    pub fn bank_para(&self) -> Option<f64> {
        ratio(self.bank_switches, self.requests())
    }

    /// Share of the requests that took over an open row.
    pub fn row_hit_rate(&self) -> Option<f64> {
        ratio(self.row_hits, self.requests())
    }

    /// Reads per write.
    pub fn reads_per_write(&self) -> Option<f64> {
        ratio(self.reads, self.writes)
    }

    /// Requests per second of the `elapsed` time.
    pub fn requests_per_s(&self, elapsed: Ps) -> Option<f64> {
        (elapsed.0 > 0).then(|| self.requests() as f64 / elapsed.as_s())
    }
}

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// A part of the memory with its own statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Region {
    /// Below the boundary.
    Dram,
    /// From the boundary on.
    Nvmm,
}

impl Region {
    /// Both regions, in the order of [`Stats::regions`].
    pub const ALL: [Region; 2] = [Region::Dram, Region::Nvmm];
}

/// Counts of one region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionStats {
    /// Counters of the region.
    pub counters: Counters,
    /// Arrival at the port to the first data beat.
    pub read_latency: Histogram,
    /// Arrival at the port to the response.
    pub write_latency: Histogram,
    /// Arrival at the port to the column command, with which the data go to the row buffer; counted then.
    #[serde(default)]
    pub write_to_medium: Histogram,
}

/// A change while running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Clock edge from which it is effective, as a time. Timers and holds that have already begun
    /// keep their values.
    pub at: Ps,
    /// Path of the parameter.
    pub what: String,
    /// Value before.
    pub from: String,
    /// Value after.
    pub to: String,
}

/// All statistics, from `from` (start or reset) up to `to`, exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// Start of the interval.
    pub from: Ps,
    /// End of the interval.
    pub to: Ps,
    /// Method in use at the end.
    pub method: Method,
    /// DRAM and NVMM, see [`Region::ALL`].
    pub regions: [RegionStats; 2],
    /// By bank number.
    pub banks: Vec<Counters>,
    /// All-bank refreshes.
    pub refreshes: u64,
    /// Refresh ticks that were absorbed because a refresh was already requested.
    pub refresh_ticks_lost: u64,
    /// Changes of method and parameters.
    pub changes: Vec<Change>,
    /// Bank of the request accepted last.
    pub(crate) last_bank: Option<u8>,
}

impl Stats {
    pub(crate) fn new(from: Ps, p: &BoardParams) -> Stats {
        Stats {
            from,
            to: from,
            method: p.method,
            regions: Default::default(),
            banks: vec![Counters::default(); p.mapping.banks()],
            refreshes: 0,
            refresh_ticks_lost: 0,
            changes: Vec::new(),
            last_bank: None,
        }
    }

    /// The statistics of one region.
    pub fn region(&self, r: Region) -> &RegionStats {
        &self.regions[r as usize]
    }

    /// Both regions together.
    pub fn total(&self) -> Counters {
        let [a, b] = &self.regions;
        let mut t = a.counters.zip(&b.counters, |a, b| a + b);
        t.refreshes = self.refreshes;
        t
    }

    /// Length of the interval.
    pub fn elapsed(&self) -> Ps {
        self.to.saturating_sub(self.from)
    }

    /// What happened after `earlier`, an older copy of the same statistics. A copy from before a
    /// reset counts as zero.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let mut d = self.clone();
        if earlier.from != self.from {
            return d;
        }
        let sub = u64::saturating_sub;
        d.from = earlier.to;
        for (a, b) in d.regions.iter_mut().zip(&earlier.regions) {
            a.counters = a.counters.zip(&b.counters, sub);
            a.read_latency = a.read_latency.since(&b.read_latency);
            a.write_latency = a.write_latency.since(&b.write_latency);
            a.write_to_medium = a.write_to_medium.since(&b.write_to_medium);
        }
        for (a, b) in d.banks.iter_mut().zip(&earlier.banks) {
            *a = a.zip(b, sub);
        }
        d.refreshes = sub(self.refreshes, earlier.refreshes);
        d.refresh_ticks_lost = sub(self.refresh_ticks_lost, earlier.refresh_ticks_lost);
        d.changes
            .drain(..earlier.changes.len().min(d.changes.len()));
        d
    }

    /// Joins this interval and a `later` one of the same memory into one, as long as both together:
    /// counts are added, changes are concatenated.
    pub fn plus(&self, later: &Stats) -> Stats {
        let mut s = self.clone();
        let add = |a, b| a + b;
        s.to += later.elapsed();
        s.method = later.method;
        for (a, b) in s.regions.iter_mut().zip(&later.regions) {
            a.counters = a.counters.zip(&b.counters, add);
            a.read_latency = a.read_latency.plus(&b.read_latency);
            a.write_latency = a.write_latency.plus(&b.write_latency);
            a.write_to_medium = a.write_to_medium.plus(&b.write_to_medium);
        }
        for (a, b) in s.banks.iter_mut().zip(&later.banks) {
            *a = a.zip(b, add);
        }
        s.refreshes += later.refreshes;
        s.refresh_ticks_lost += later.refresh_ticks_lost;
        s.changes.extend_from_slice(&later.changes);
        s.last_bank = later.last_bank;
        s
    }

    /// Counters and derived figures as one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        let derived = |c: &Counters| {
            serde_json::json!({
                "act_per_req": c.act_per_req(),
                "bank_para": c.bank_para(),
                "row_hit_rate": c.row_hit_rate(),
                "reads_per_write": c.reads_per_write(),
                "requests_per_s": c.requests_per_s(self.elapsed()),
            })
        };
        let region = |r: Region| {
            let s = self.region(r);
            serde_json::json!({
                "counters": s.counters,
                "derived": derived(&s.counters),
                "read_latency": s.read_latency,
                "write_latency": s.write_latency,
                "write_to_medium": s.write_to_medium,
                "read_latency_avg_ns": s.read_latency.mean_ns(),
                "write_latency_avg_ns": s.write_latency.mean_ns(),
                "write_to_medium_avg_ns": s.write_to_medium.mean_ns(),
            })
        };
        let total = self.total();
        serde_json::json!({
            "from_ps": self.from,
            "to_ps": self.to,
            "method": self.method,
            "dram": region(Region::Dram),
            "nvmm": region(Region::Nvmm),
            "total": { "counters": total, "derived": derived(&total) },
            "banks": self.banks,
            "refreshes": self.refreshes,
            "refresh_ticks_lost": self.refresh_ticks_lost,
            "changes": self.changes,
        })
    }

    /// Adds the counts of the banks; `first_nvmm` separates the regions.
    pub(crate) fn add_banks(&mut self, counted: &[Counters], first_nvmm: usize) {
        let add = |a, b| a + b;
        for (i, c) in counted.iter().take(self.banks.len()).enumerate() {
            let r = &mut self.regions[usize::from(i >= first_nvmm)].counters;
            *r = r.zip(c, add);
            self.banks[i] = self.banks[i].zip(c, add);
        }
    }

    /// Counts refreshes; `dram`, `nvmm`: which regions have banks at all.
    pub(crate) fn add_refreshes(&mut self, count: u64, dram: bool, nvmm: bool) {
        self.refreshes += count;
        for b in &mut self.banks {
            b.refreshes += count;
        }
        for (r, any) in self.regions.iter_mut().zip([dram, nvmm]) {
            r.counters.refreshes += if any { count } else { 0 };
        }
    }
}

/// A table for human readers.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |v: Option<f64>, digits| match v {
            Some(v) => format!("{v:.digits$}"),
            None => "-".to_owned(),
        };
        let cols: Vec<(String, Counters)> = [
            ("dram".to_owned(), self.regions[0].counters),
            ("nvmm".to_owned(), self.regions[1].counters),
            ("total".to_owned(), self.total()),
        ]
        .into_iter()
        .chain(
            self.banks
                .iter()
                .enumerate()
                .map(|(i, b)| (format!("bank{i}"), *b)),
        )
        .collect();
        type Count = fn(&Counters) -> u64;
        let int: [(&str, Count); 10] = [
            ("reads", |c| c.reads),
            ("writes", |c| c.writes),
            ("read bytes", |c| c.read_bytes),
            ("write bytes", |c| c.write_bytes),
            ("row hits", |c| c.row_hits),
            ("bank switches", |c| c.bank_switches),
            ("ACT", |c| c.activations),
            ("PRE clean", |c| c.precharges_clean),
            ("PRE dirty", |c| c.precharges_dirty),
            ("REF", |c| c.refreshes),
        ];
        writeln!(
            f,
            "memory controller, {} to {}, method {}, {} refreshes ({} ticks lost)",
            self.from, self.to, self.method, self.refreshes, self.refresh_ticks_lost
        )?;
        write!(f, "{:14}", "")?;
        for (name, _) in &cols {
            write!(f, " {name:>12}")?;
        }
        writeln!(f)?;
        for (name, get) in int {
            write!(f, "{name:14}")?;
            for (_, c) in &cols {
                write!(f, " {:>12}", get(c))?;
            }
            writeln!(f)?;
        }
        for (name, digits, get) in [
            ("ACT/REQ", 3, Counters::act_per_req as fn(&Counters) -> _),
            ("BANK_PARA", 3, Counters::bank_para),
            ("reads/writes", 3, Counters::reads_per_write),
        ] {
            write!(f, "{name:14}")?;
            for (_, c) in &cols {
                write!(f, " {:>12}", shown(get(c), digits))?;
            }
            writeln!(f)?;
        }
        write!(f, "{:14}", "requests/s")?;
        for (_, c) in &cols {
            write!(f, " {:>12}", shown(c.requests_per_s(self.elapsed()), 0))?;
        }
        writeln!(f)?;
        for (r, s) in Region::ALL.iter().zip(&self.regions) {
            for (kind, h) in [("read", &s.read_latency), ("write", &s.write_latency)] {
                if h.count == 0 {
                    continue;
                }
                write!(
                    f,
                    "{r:?} {kind} latency: mean {} ns;",
                    shown(h.mean_ns(), 1)
                )?;
                for (i, n) in h.buckets.iter().enumerate().filter(|b| *b.1 > 0) {
                    match Histogram::range_ns(i) {
                        (a, Some(b)) => write!(f, " {a}..{b} ns: {n}")?,
                        (a, None) => write!(f, " {a} ns and more: {n}")?,
                    }
                }
                writeln!(f)?;
            }
        }
        for c in &self.changes {
            writeln!(f, "at {}: {} from {} to {}", c.at, c.what, c.from, c.to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described;

    #[test]
    fn histogram_buckets() {
        let mut h = Histogram::default();
        for ns in [0, 1, 2, 3, 4, 1023, 1024] {
            h.add(Ps::from_ns(ns));
        }
        assert_eq!(h.buckets[..3], [2, 2, 1]);
        assert_eq!((h.buckets[9], h.buckets[10]), (1, 1));
        assert_eq!(h.count, 7);
        assert_eq!(h.mean_ns(), Some(2057.0 / 7.0));
        assert_eq!(Histogram::range_ns(10), (1024, Some(2048)));
        h.add(Ps(u64::MAX / 2));
        assert_eq!(h.buckets[BUCKETS - 1], 1);
        assert_eq!(Histogram::range_ns(BUCKETS - 1).1, None);
    }

    #[test]
    fn difference_and_derived() {
        let p = described::board::<BoardParams>();
        let mut s = Stats::new(Ps::ZERO, &p);
        let mut counted = [Counters::default(); 3];
        counted[0].reads = 1;
        counted[0].read_bytes = 64;
        counted[0].activations = 1;
        s.add_banks(&counted, 2);
        s.to = Ps::from_ns(100);
        let early = s.clone();
        counted[0] = Counters::default();
        counted[2] = Counters {
            reads: 1,
            writes: 1,
            read_bytes: 64,
            write_bytes: 32,
            row_hits: 1,
            bank_switches: 1,
            activations: 1,
            ..Default::default()
        };
        s.add_banks(&counted, 2);
        let nvmm = &mut s.regions[Region::Nvmm as usize];
        nvmm.write_latency.add(Ps::from_ns(5));
        s.to = Ps::from_ns(1100);
        let d = s.since(&early);
        assert_eq!(d.elapsed(), Ps::from_ns(1000));
        assert_eq!(d.region(Region::Dram).counters, Counters::default());
        let n = &d.region(Region::Nvmm).counters;
        assert_eq!(n.act_per_req(), Some(0.5));
        assert_eq!(n.bank_para(), Some(0.5));
        assert_eq!(n.reads_per_write(), Some(1.0));
        assert_eq!(n.bytes(), 96);
        assert_eq!(n.requests_per_s(d.elapsed()), Some(2e6));
        assert_eq!(d.banks[2], *n);
        assert_eq!(d.total().requests(), 2);
        let j = d.to_json();
        assert_eq!(j["nvmm"]["derived"]["act_per_req"], 0.5);
        assert_eq!(j["nvmm"]["write_latency_avg_ns"], 5.0);
        assert!(j["dram"]["derived"]["act_per_req"].is_null());
        assert!(d.to_string().contains("BANK_PARA"));
        let text = serde_json::to_string(&s).unwrap();
        assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), s);
    }
}
