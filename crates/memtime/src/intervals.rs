//! Statistics of intervals: the sum of two, and the difference to an earlier state.

use crate::model::{
    BankStats, ChannelStats, Counters, EnergyStats, Latency, ModelStats, RegionStats, Wear,
};
use crate::units::Ps;

impl Counters {
    /// Applies a function to each pair of counts.
    pub(crate) fn zip(&self, o: &Counters, f: impl Fn(u64, u64) -> u64) -> Counters {
        Counters {
            reads: f(self.reads, o.reads),
            writes: f(self.writes, o.writes),
            read_bytes: f(self.read_bytes, o.read_bytes),
            write_bytes: f(self.write_bytes, o.write_bytes),
            row_hits: f(self.row_hits, o.row_hits),
            row_misses: f(self.row_misses, o.row_misses),
            row_conflicts: f(self.row_conflicts, o.row_conflicts),
            activations: f(self.activations, o.activations),
            activations_unused: f(self.activations_unused, o.activations_unused),
            precharges_clean: f(self.precharges_clean, o.precharges_clean),
            precharges_dirty: f(self.precharges_dirty, o.precharges_dirty),
            refreshes: f(self.refreshes, o.refreshes),
            forwarded_reads: f(self.forwarded_reads, o.forwarded_reads),
            merged_reads: f(self.merged_reads, o.merged_reads),
            merged_writes: f(self.merged_writes, o.merged_writes),
            write_pauses: f(self.write_pauses, o.write_pauses),
            write_paused: Ps(f(self.write_paused.0, o.write_paused.0)),
        }
    }
}

impl Latency {
    /// The latencies that were counted after `start`, an earlier state of `self`. The least and the
    /// greatest are known only up to the width of a bucket.
    fn since(&self, start: &Latency) -> Latency {
        let pairs = self.buckets.iter().zip(&start.buckets);
        let mut l = Latency {
            count: self.count - start.count,
            sum: self.sum - start.sum,
            min: Ps::ZERO,
            max: Ps::ZERO,
            buckets: pairs.map(|(a, b)| a - b).collect(),
        };
        let used = |n: &u64| *n > 0;
        if let (Some(first), Some(last)) = (
            l.buckets.iter().position(used),
            l.buckets.iter().rposition(used),
        ) {
            let ps = |ns: f64| Ps((ns * 1000.0) as u64);
            let (from, to) = (Latency::range_ns(first).0, Latency::range_ns(last).1);
            l.min = ps(from).max(self.min);
            l.max = to.map_or(self.max, ps).min(self.max);
        }
        l
    }
}

impl EnergyStats {
    fn since(&self, start: &EnergyStats) -> EnergyStats {
        let mut other = self.other.clone();
        for (k, v) in &mut other {
            *v -= start.other.get(k).copied().unwrap_or(0.0);
        }
        EnergyStats {
            activate: self.activate - start.activate,
            read: self.read - start.read,
            write: self.write - start.write,
            precharge: self.precharge - start.precharge,
            refresh: self.refresh - start.refresh,
            background: self.background - start.background,
            other,
        }
    }
}

fn add_energy(a: &mut Option<EnergyStats>, b: &Option<EnergyStats>) {
    if let (Some(a), Some(b)) = (a, b) {
        a.add(b);
    }
}

fn without_energy(a: &mut Option<EnergyStats>, b: &Option<EnergyStats>) {
    if let (Some(a), Some(b)) = (a, b) {
        *a = a.since(b);
    }
}

/// Wear is the result of all writes ever made, so only the counts of writes belong to an interval.
fn zip_wear(a: &mut Option<Wear>, b: &Option<Wear>, f: impl Fn(u64, u64) -> u64) {
    if let (Some(a), Some(b)) = (a, b) {
        a.writes = f(a.writes, b.writes);
        a.levelling_writes = f(a.levelling_writes, b.levelling_writes);
    }
}

fn zip_channels(a: &mut [ChannelStats], b: &[ChannelStats], f: impl Fn(u64, u64) -> u64 + Copy) {
    for (a, b) in a.iter_mut().zip(b) {
        a.counters = a.counters.zip(&b.counters, f);
        a.data_busy = Ps(f(a.data_busy.0, b.data_busy.0));
        let banks = a.banks.iter_mut().zip(&b.banks);
        banks.for_each(|(a, b): (&mut BankStats, _)| a.counters = a.counters.zip(&b.counters, f));
    }
}

impl ModelStats {
    /// Joins this interval and a later one of the same model: times, counts and energies are added,
    /// wear is that of the later one.
    pub fn plus(&self, later: &ModelStats) -> ModelStats {
        let mut s = self.clone();
        let add = |a, b| a + b;
        s.to += later.elapsed();
        for (a, b) in s.regions.iter_mut().zip(&later.regions) {
            let RegionStats {
                name: _,
                counters,
                read_latency,
                write_latency,
                energy,
                wear,
            } = a;
            *counters = counters.zip(&b.counters, add);
            read_latency.merge(&b.read_latency);
            write_latency.merge(&b.write_latency);
            add_energy(energy, &b.energy);
            let mut last = b.wear.clone();
            zip_wear(&mut last, wear, add);
            *wear = last;
        }
        zip_channels(&mut s.channels, &later.channels, add);
        s.changes.extend_from_slice(&later.changes);
        for (k, v) in &later.counters {
            *s.counters.entry(k.clone()).or_default() += v;
        }
        s
    }

    /// The part of this interval after `start`, an earlier report of the same interval.
    pub fn since(&self, start: &ModelStats) -> ModelStats {
        let mut s = self.clone();
        let sub = |a: u64, b: u64| a.saturating_sub(b);
        s.from = start.to;
        for (a, b) in s.regions.iter_mut().zip(&start.regions) {
            a.counters = a.counters.zip(&b.counters, sub);
            a.read_latency = a.read_latency.since(&b.read_latency);
            a.write_latency = a.write_latency.since(&b.write_latency);
            without_energy(&mut a.energy, &b.energy);
            zip_wear(&mut a.wear, &b.wear, sub);
        }
        zip_channels(&mut s.channels, &start.channels, sub);
        s.changes.drain(..start.changes.len().min(s.changes.len()));
        for (k, v) in &mut s.counters {
            *v -= start.counters.get(k).copied().unwrap_or(0.0);
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described;
    use crate::model::MemoryModel;
    use crate::request::{Kind, Request};
    use crate::{BoardParams, Controller};

    /// A model that has done `n` reads.
    fn after(n: u64) -> Controller {
        let mut c = Controller::new(described::board::<BoardParams>()).unwrap();
        for id in 0..n {
            let at = Ps::from_ns(1000 * id);
            let r = Request {
                id,
                addr: 64 * id,
                kind: Kind::Read,
                bytes: 64,
            };
            let _ = c.submit(at, r).unwrap();
        }
        c
    }

    #[test]
    fn an_interval_is_its_parts() {
        let report = |n: u64| MemoryModel::report(&after(n), Ps::from_ns(1000 * n));
        let (start, whole) = (report(7), report(20));
        let rest = whole.since(&start);
        assert_eq!(rest.total().reads, 13);
        assert_eq!(rest.read_latency().count, 13);
        assert_eq!(rest.elapsed(), Ps::from_ns(13_000));
        let again = start.plus(&rest);
        assert_eq!(again.total(), whole.total());
        assert_eq!(again.read_latency().buckets, whole.read_latency().buckets);
        assert_eq!(again.elapsed(), whole.elapsed());
        assert_eq!(whole.since(&whole).total(), Counters::default());
    }
}
