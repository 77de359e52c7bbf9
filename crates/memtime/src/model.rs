//! What every memory of this crate can do, and what it reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Issued;
use crate::error::Error;
use crate::lanes::Lanes;
use crate::period::{number, Period};
use crate::request::{Completion, Request, Submit};
use crate::saved::SavedModel;
pub use crate::stats::Change;
use crate::units::Ps;

/// A memory that accepts requests: a controller, or a layer over other memories.
///
/// Times never go back: a time before the latest one given is treated as that latest time.
pub trait MemoryModel {
    /// Size in bytes.
    fn capacity(&self) -> u64;

    /// Submits a request that arrives at `at`. `Busy(t)`: the request was not accepted, and there
    /// is no room for it before `t`; submit it again then.
    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error>;

    /// Submits a request that arrives at `at` and waits for room if there is none, with no other request in between;
    /// returns when it was accepted. Has the effect of submitting it again at the time that `Busy` gives, at least a
    /// clock later each time, and is faster.
    fn submit_waiting(&mut self, at: Ps, r: Request) -> Result<Ps, Error> {
        let clock = self.clock();
        let mut at = at;
        loop {
            match self.submit(at, r)? {
                Submit::Accepted => return Ok(at),
                // A wrong answer cannot cause an endless loop.
                Submit::Busy(until) => at = until.max(clock.edge(clock.edge_from(at) + 1)),
            }
        }
    }

    /// The channels as units of their own, which threads can compute side by side: requests that are
    /// submitted to them at the times at which the whole memory would accept them have the same
    /// results. Afterwards [`advance_to`](Self::advance_to) tells the memory the latest of these
    /// times. `None` for a memory whose channels share more than the times of arrivals.
    fn lanes(&mut self) -> Option<Lanes<'_>> {
        None
    }

    /// The earliest time at which something can have happened after advancing to it; `None` if no
    /// request is under way.
    fn next_event(&self) -> Option<Ps>;

    /// Processes everything before `t`.
    fn advance_to(&mut self, t: Ps) -> Result<(), Error>;

    /// Moves the completions found so far to the end of `into`, in the order
    /// in which they were determined.
    fn drain(&mut self, into: &mut Vec<Completion>);

    /// Sends every write accepted up to `at` (or to the latest time given, if that is later) to the
    /// device, including writes that a controller holds back until there are more of them, and
    /// advances until the last of them is there. If a device writes its cells when a row is closed,
    /// written rows are closed; the content of a cache stays in it. Further requests may follow.
    ///
    /// Returns the end of the last write: its last data beat, or the end of its cell write; 0 if
    /// there was none. If it is not after `at`, all writes were over by then: a model that does not
    /// remember when may return any time up to `at`, such as 0.
    fn flush(&mut self, at: Ps) -> Result<Ps, Error>;

    /// The statistics at `at` (or at the latest time given, if that is later), without advancing
    /// the model.
    fn report(&self, at: Ps) -> ModelStats;

    /// Ids, in ascending order, of the writes that were accepted up to `at` (or to the latest time
    /// given, if that is later) but have not reached the medium then, without advancing the model:
    /// the writes that a power cut loses where only the medium keeps its contents. A write has
    /// reached a device with its column command, even if the device writes its cells when the row
    /// is closed; models state what else belongs to their medium. Ids must be unique among these
    /// writes.
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error>;

    /// Resets the statistics at `at` (or at the latest time given, if that is later).
    fn reset_stats(&mut self, at: Ps) -> Result<(), Error>;

    /// The period in which cycles are reported.
    fn clock(&self) -> Period;

    /// Changes a parameter from the clock edge at or after `at` on; the change is recorded in
    /// [`ModelStats::changes`]. Keys and values are the model's own:
    /// [`parameters`](Self::parameters) lists them. For any other key the error lists the possible
    /// ones.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error>;

    /// The parameters that [`set_parameter`](Self::set_parameter) can change: keys with their
    /// current values, in the form in which it takes them.
    fn parameters(&self) -> Vec<(String, String)>;

    /// A copy that can be advanced and reported on, for reports of a future time; it accepts no
    /// requests. `None` for a model that cannot be copied: layers over it then report requests
    /// under way in their present state.
    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        None
    }

    /// The state of the model as data, from which [`load`](Self::load) makes a model that continues
    /// exactly as this one does. The log of commands is not part of it.
    fn save(&self) -> SavedModel;

    /// Becomes the saved model. `self` must have the same description: what cannot change while a
    /// model runs has to be equal. The state is checked. After an error the model may have been
    /// partly changed, and must not be used. Logs of commands stay on or off, and begin empty.
    fn load(&mut self, s: SavedModel) -> Result<(), Error>;

    /// Keeps every device command from now on, or stops logging and discards the log. An error for
    /// a model that has no commands.
    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        let _ = on;
        Err(Error::Unsupported {
            model: "this model".to_owned(),
            what: "device commands to log".to_owned(),
        })
    }

    /// Moves the commands logged since the last call to the end of `into`, in
    /// the order of their times.
    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        let _ = into;
    }

    /// The controllers whose commands a log contains, in the order of their channels; empty for a
    /// model without commands.
    fn command_parts(&self) -> Vec<CommandPart> {
        Vec::new()
    }
}

/// A controller whose commands are in a log. Channels are numbered across all controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPart {
    /// Its name, as in the energy report: "dram", "back.nvmm".
    pub name: String,
    /// Its channels.
    pub channels: u16,
    /// Period of its clock, in which its commands are counted.
    pub clock: Period,
}

/// What is counted for a region, a channel and a bank.
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
    /// Column accesses that found their row open.
    pub row_hits: u64,
    /// Column accesses that found their bank closed.
    pub row_misses: u64,
    /// Column accesses for which another row had to be closed.
    pub row_conflicts: u64,
    /// Activations.
    pub activations: u64,
    /// Number of activations whose rows were closed without a read or write.
    #[serde(default)]
    pub activations_unused: u64,
    /// Precharges of rows not written since their activation, those by
    /// auto-precharge included.
    pub precharges_clean: u64,
    /// Precharges of written rows, likewise.
    pub precharges_dirty: u64,
    /// Refresh commands.
    pub refreshes: u64,
    /// Reads answered from the write queue.
    pub forwarded_reads: u64,
    /// Reads that joined a queued read of the same place.
    pub merged_reads: u64,
    /// Writes that went into a queued write of the same place.
    pub merged_writes: u64,
    /// Cell writes paused for a read.
    pub write_pauses: u64,
    /// Time in which cell writes were paused, summed over all banks.
    #[serde(default)]
    pub write_paused: Ps,
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

    /// Share of the column accesses that found their row open; `None` without any.
    pub fn row_hit_rate(&self) -> Option<f64> {
        let all = self.row_hits + self.row_misses + self.row_conflicts;
        (all > 0).then(|| self.row_hits as f64 / all as f64)
    }

    /// Adds the counts of `o`.
    pub fn add(&mut self, o: &Counters) {
        *self = self.zip(o, |a, b| a + b);
    }
}

/// Linear parts of each octave of a [`Latency`] histogram.
const PARTS: usize = 8;
/// Octaves from 1 ns on; the last bucket takes all above.
const OCTAVES: usize = 24;
/// Buckets of a [`Latency`] histogram.
pub const LATENCY_BUCKETS: usize = PARTS * OCTAVES + 1;

/// Latencies: exact count, sum, least, greatest, and a histogram of eight
/// buckets an octave of nanoseconds. Bucket 0 counts those below 1 ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Number counted.
    pub count: u64,
    /// Their sum.
    pub sum: Ps,
    /// The least; 0 without any.
    pub min: Ps,
    /// The greatest.
    pub max: Ps,
    /// Counts by bucket, [`LATENCY_BUCKETS`] of them.
    pub buckets: Vec<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            count: 0,
            sum: Ps::ZERO,
            min: Ps::ZERO,
            max: Ps::ZERO,
            buckets: vec![0; LATENCY_BUCKETS],
        }
    }
}

impl Latency {
    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, l: Ps) {
        if self.count == 0 || l < self.min {
            self.min = l;
        }
        self.max = self.max.max(l);
        self.count += 1;
        // A damaged state can have latencies of months.
        self.sum = Ps(self.sum.0.saturating_add(l.0));
        let i = Latency::bucket(l);
        if let Some(b) = self.buckets.get_mut(i) {
            *b += 1;
        }
    }

    /// Number of the bucket of `l`.
    #[inline]
    fn bucket(l: Ps) -> usize {
        // Octaves of 2^k * 1000 ps: the quotient keeps 10 bits below 1 ns.
        let x = (l.0 << 7) / 125;
        if x < 1 << 10 {
            return 0;
        }
        let top = 63 - x.leading_zeros() as usize;
        let part = (x >> (top - 3)) as usize & (PARTS - 1);
        ((top - 10) * PARTS + part + 1).min(LATENCY_BUCKETS - 1)
    }

    /// Range `[from, to)` in nanoseconds of bucket `i`; the last one has no end.
    pub fn range_ns(i: usize) -> (f64, Option<f64>) {
        let edge = |i: usize| {
            let (octave, part) = (i / PARTS, i % PARTS);
            (1u64 << octave) as f64 * (1.0 + part as f64 / PARTS as f64)
        };
        match i {
            0 => (0.0, Some(1.0)),
            i if i >= LATENCY_BUCKETS - 1 => (edge(LATENCY_BUCKETS - 2), None),
            i => (edge(i - 1), Some(edge(i))),
        }
    }

    /// Mean in nanoseconds; `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.0 as f64 / self.count as f64 / 1000.0)
    }

    /// The latency in nanoseconds that a share `q` (0 to 1) of all latencies does not exceed: the
    /// upper edge of its bucket, at most the greatest latency.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        let wanted = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                let max = self.max.as_ns();
                return Some(Latency::range_ns(i).1.unwrap_or(max).min(max));
            }
        }
        None
    }

    /// Adds the latencies of `o`.
    pub fn merge(&mut self, o: &Latency) {
        if o.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            o.min
        } else {
            self.min.min(o.min)
        };
        self.max = self.max.max(o.max);
        self.count += o.count;
        self.sum = Ps(self.sum.0.saturating_add(o.sum.0));
        for (a, b) in self.buckets.iter_mut().zip(&o.buckets) {
            *a += b;
        }
    }
}

/// Energy in picojoules by kind of command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyStats {
    /// Activations, pJ.
    pub activate: f64,
    /// Reads, pJ.
    pub read: f64,
    /// Writes, pJ.
    pub write: f64,
    /// Precharges, pJ. With energies from IDD values it is part of `activate`.
    pub precharge: f64,
    /// Refreshes, pJ.
    pub refresh: f64,
    /// Standby, pJ.
    pub background: f64,
    /// What layers add, by name, pJ.
    #[serde(default)]
    pub other: BTreeMap<String, f64>,
}

impl EnergyStats {
    /// All of it, pJ.
    pub fn total(&self) -> f64 {
        self.activate
            + self.read
            + self.write
            + self.precharge
            + self.refresh
            + self.background
            + self.other.values().sum::<f64>()
    }

    /// Adds the energies of `o`.
    pub fn add(&mut self, o: &EnergyStats) {
        self.activate += o.activate;
        self.read += o.read;
        self.write += o.write;
        self.precharge += o.precharge;
        self.refresh += o.refresh;
        self.background += o.background;
        for (k, v) in &o.other {
            *self.other.entry(k.clone()).or_default() += v;
        }
    }
}

/// Wear of a region whose cells wear out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Bytes of the unit that is counted (line or row).
    pub unit_bytes: u64,
    /// Units of the region.
    pub units: u64,
    /// Cell writes of units, those of wear levelling included.
    pub writes: u64,
    /// Cell writes by wear levelling, which are among `writes`.
    pub levelling_writes: u64,
    /// Units written at least once.
    pub units_written: u64,
    /// Most writes of one unit.
    pub max_writes: u64,
    /// Bytes of a row.
    #[serde(default)]
    pub row_bytes: u64,
    /// Rows written at least once.
    #[serde(default)]
    pub rows_written: u64,
    /// Greatest number of writes to units of one row.
    #[serde(default)]
    pub max_row_writes: u64,
    /// Units beyond their endurance.
    pub worn_out: u64,
    /// Time until the first unit is worn out if the load continues like this, s.
    pub lifetime_s: Option<f64>,
    /// Time until the first unit would be worn out if all units were written equally often, s.
    #[serde(default)]
    pub lifetime_levelled_s: Option<f64>,
    /// Writes by address.
    #[serde(default)]
    pub map: WearMap,
}

/// Writes to units by address in the medium (after wear levelling), in parts of equal size; the
/// end of the memory may cut the last one short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearMap {
    /// Bytes of a part, a power of two.
    pub bucket_bytes: u64,
    /// Most writes of a unit of each part.
    pub max: Vec<u64>,
    /// Writes of all units of each part.
    pub sum: Vec<u64>,
}

/// A part of the memory with its own statistics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionStats {
    /// Name, as configured: "dram", "nvmm".
    pub name: String,
    /// Counters.
    pub counters: Counters,
    /// Arrival to the last data beat of reads.
    pub read_latency: Latency,
    /// Arrival to the response of writes.
    pub write_latency: Latency,
    /// Energy; `None` if the device does not describe it.
    pub energy: Option<EnergyStats>,
    /// Wear; `None` where it is not counted.
    pub wear: Option<Wear>,
}

/// Counts of one bank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BankStats {
    /// Rank on its channel.
    pub rank: u32,
    /// Bank group in its rank.
    pub bank_group: u32,
    /// Bank in its bank group.
    pub bank: u32,
    /// Counters. Requests are counted in pieces of one burst.
    pub counters: Counters,
}

/// Counts of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelStats {
    /// "region.channel": "dram.0".
    pub name: String,
    /// Sum over its banks.
    pub counters: Counters,
    /// Time in which data was on the bus.
    pub data_busy: Ps,
    /// By rank, bank group, bank.
    pub banks: Vec<BankStats>,
}

/// All statistics of a model, from `from` (start or reset) up to `to`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelStats {
    /// Name of the model.
    pub name: String,
    /// Start of the interval.
    pub from: Ps,
    /// End of the interval.
    pub to: Ps,
    /// Period of a cycle; as a number of picoseconds in reports.
    #[serde(with = "number")]
    pub clock: Period,
    /// Regions; the model's requests are the sum over all regions.
    pub regions: Vec<RegionStats>,
    /// Channels of all controllers.
    pub channels: Vec<ChannelStats>,
    /// Changes while running, in order.
    pub changes: Vec<Change>,
    /// Further counts of layers, by name with unit: "cache_hits", "media_read_bytes".
    #[serde(default)]
    pub counters: BTreeMap<String, f64>,
}

impl ModelStats {
    /// Length of the interval.
    pub fn elapsed(&self) -> Ps {
        self.to.saturating_sub(self.from)
    }

    /// Length of the interval in cycles; a partial cycle counts.
    pub fn cycles(&self) -> u64 {
        self.clock.edge_from(self.elapsed())
    }

    /// Counters of all regions.
    pub fn total(&self) -> Counters {
        let mut t = Counters::default();
        self.regions.iter().for_each(|r| t.add(&r.counters));
        t
    }

    /// Latency of all reads.
    pub fn read_latency(&self) -> Latency {
        let mut t = Latency::default();
        self.regions.iter().for_each(|r| t.merge(&r.read_latency));
        t
    }

    /// Latency of all writes.
    pub fn write_latency(&self) -> Latency {
        let mut t = Latency::default();
        self.regions.iter().for_each(|r| t.merge(&r.write_latency));
        t
    }

    /// Bytes transferred per second of the interval; `None` for an empty interval.
    pub fn bandwidth(&self) -> Option<f64> {
        let s = self.elapsed().as_s();
        (s > 0.0).then(|| self.total().bytes() as f64 / s)
    }

    /// The region of that name.
    pub fn region(&self, name: &str) -> Option<&RegionStats> {
        self.regions.iter().find(|r| r.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_latencies_end_at_the_greatest_number() {
        let mut l = Latency::default();
        for _ in 0..3 {
            l.add(Ps::MAX_TIME);
        }
        assert_eq!((l.count, l.sum, l.max), (3, Ps(u64::MAX), Ps::MAX_TIME));
        let mut all = l.clone();
        all.merge(&l);
        assert_eq!((all.count, all.sum), (6, Ps(u64::MAX)));
    }

    #[test]
    fn latency_buckets() {
        let mut l = Latency::default();
        for ps in [0, 999, 1000, 1124, 1125, 2000, 48_750, 1 << 50] {
            l.add(Ps(ps));
        }
        assert_eq!(l.buckets[..3], [2, 2, 1]);
        assert_eq!(l.buckets[9], 1);
        assert_eq!(l.buckets[LATENCY_BUCKETS - 1], 1);
        assert_eq!((l.count, l.min, l.max), (8, Ps(0), Ps(1 << 50)));
        for i in 0..LATENCY_BUCKETS - 1 {
            let (a, b) = Latency::range_ns(i);
            let b = b.unwrap();
            assert_eq!(Latency::bucket(Ps((a * 1000.0) as u64)), i);
            assert_eq!(Latency::bucket(Ps((b * 1000.0) as u64 - 1)), i);
        }
        assert_eq!(Latency::range_ns(LATENCY_BUCKETS - 1).1, None);
    }

    #[test]
    fn quantiles_and_merge() {
        let mut l = Latency::default();
        assert_eq!(l.quantile_ns(0.5), None);
        for ns in 1..=100 {
            l.add(Ps::from_ns(ns));
        }
        let q = l.quantile_ns(0.5).unwrap();
        assert!((50.0..56.1).contains(&q), "{q}");
        assert_eq!(l.quantile_ns(1.0), Some(100.0));
        let mut m = Latency::default();
        m.merge(&l);
        assert_eq!(m, l);
        m.merge(&Latency::default());
        assert_eq!(m, l);
        assert_eq!(m.mean_ns(), Some(50.5));
    }
}
