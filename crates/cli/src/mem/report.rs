//! Results: as one JSON value, and as tables for human readers.

use nagori_memtime::model::{BankStats, Counters, EnergyStats, ModelStats};
use nagori_memtrace::drive::Outcome;
use nagori_terminal::tables::{duration, grouped, row, table, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The result of a run. Scripts read its JSON form; keys are only ever added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the memory.
    pub memory: String,
    /// Settings of this run.
    pub settings: Vec<String>,
    /// Name of the trace.
    pub trace: String,
    /// Format of the trace.
    pub format: String,
    /// How requests were submitted.
    pub mode: String,
    /// Whether the trace has times that the default mode has ignored.
    #[serde(default)]
    pub ignored_times: bool,
    /// Processor time of the run, reading the trace included.
    pub cpu_seconds: f64,
    /// Requests per second of `cpu_seconds`.
    pub requests_per_cpu_second: Option<f64>,
    /// Simulated time from the first request to the end of the last access.
    pub simulated_seconds: f64,
    /// Bytes per second of `simulated_seconds`.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Mean latency of the reads, as the requester sees it.
    pub read_latency_avg_ns: Option<f64>,
    /// Mean latency of the writes.
    pub write_latency_avg_ns: Option<f64>,
    /// Share of the column accesses that found their row open.
    pub row_hit_rate: Option<f64>,
    /// Energy by region, in pJ; regions whose device does not describe it are missing.
    pub energy: BTreeMap<String, Energy>,
    /// Measured by the requester.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Counted by the memory.
    pub model: ModelStats,
}

/// Energy of a region in pJ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// By kind of command.
    #[serde(flatten)]
    pub by_command: EnergyStats,
    /// The sum.
    pub total_pj: f64,
}

/// Description of a run.
#[derive(Debug, Clone)]
pub struct About {
    /// Name of the memory.
    pub memory: String,
    /// Settings of this run.
    pub settings: Vec<String>,
    /// Name of the trace.
    pub trace: String,
    /// Format of the trace.
    pub format: String,
    /// How requests were submitted.
    pub mode: String,
    /// Whether the trace has times that the default mode has ignored.
    pub ignored_times: bool,
}

impl Report {
    /// Puts a result together.
    pub fn new(about: About, outcome: Outcome, model: ModelStats, cpu_seconds: f64) -> Report {
        let seconds = (outcome.to - outcome.from).as_s();
        let per = |n: u64, s: f64| (s > 0.0).then(|| n as f64 / s);
        let energy = model.regions.iter().filter_map(|r| {
            let e = r.energy.clone()?;
            let total_pj = e.total();
            let energy = Energy {
                by_command: e,
                total_pj,
            };
            Some((r.name.clone(), energy))
        });
        Report {
            memory: about.memory,
            settings: about.settings,
            trace: about.trace,
            format: about.format,
            mode: about.mode,
            ignored_times: about.ignored_times,
            cpu_seconds,
            requests_per_cpu_second: per(outcome.requests, cpu_seconds),
            simulated_seconds: seconds,
            bandwidth_bytes_per_s: per(outcome.read_bytes + outcome.write_bytes, seconds),
            read_latency_avg_ns: outcome.read_latency.mean_ns,
            write_latency_avg_ns: outcome.write_latency.mean_ns,
            row_hit_rate: model.total().row_hit_rate(),
            energy: energy.collect(),
            outcome,
            model,
        }
    }

    /// Energy of all regions in pJ; `None` if no region has any.
    pub fn total_energy(&self) -> Option<f64> {
        let sum = self.energy.values().map(|e| e.total_pj).sum();
        (!self.energy.is_empty()).then_some(sum)
    }

    /// For human readers.
    pub fn tables(&self) -> String {
        let o = &self.outcome;
        let mut out = format!(
            "memory {}, trace {} ({}), {}\n\n",
            self.memory, self.trace, self.format, self.mode
        );
        let real =
            |v: Option<f64>, digits: usize| v.map_or("-".into(), |v| format!("{v:.digits$}"));
        let mut t = table(["run", ""]);
        let gb = self.bandwidth_bytes_per_s.map(|b| b / 1e9);
        for (name, value) in [
            ("requests", grouped(o.requests)),
            ("reads", grouped(o.reads)),
            ("writes", grouped(o.writes)),
            ("simulated time", duration((o.to - o.from).0)),
            (
                "written after the answers",
                duration(o.to.saturating_sub(o.answered).0),
            ),
            ("cycles", grouped(o.cycles)),
            ("bandwidth, GB/s", real(gb, 3)),
            ("row hit rate", real(self.row_hit_rate, 4)),
            ("delayed requests", grouped(o.delayed)),
            (
                "longest delay, ns",
                format!("{:.2}", o.longest_delay.as_ns()),
            ),
            ("skipped packets", grouped(o.skipped)),
            ("unaligned accesses", grouped(o.unaligned)),
            ("processor time, s", format!("{:.3}", self.cpu_seconds)),
            (
                "requests per s of it",
                self.requests_per_cpu_second
                    .map_or("-".into(), |v| grouped(v.round() as u64)),
            ),
        ] {
            let optional = [
                "written after the answers",
                "delayed requests",
                "longest delay, ns",
                "skipped packets",
                "unaligned accesses",
            ];
            if optional.contains(&name) && ["0", "0.00", "0 ps"].contains(&value.as_str()) {
                continue;
            }
            row(&mut t, [name.to_string(), value]);
        }
        out += &text(&t);
        out.push('\n');
        let mut t = table(["latency, ns", "mean", "min", "p50", "p95", "p99", "max"]);
        for (name, l) in [("reads", &o.read_latency), ("writes", &o.write_latency)] {
            let values = [l.mean_ns, l.min_ns, l.p50_ns, l.p95_ns, l.p99_ns, l.max_ns];
            let values = values.map(|v| real(v, 2));
            row(&mut t, std::iter::once(name.to_string()).chain(values));
        }
        out += &text(&t);
        out.push('\n');
        out += &self.regions();
        out
    }

    fn regions(&self) -> String {
        let m = &self.model;
        let mut t =
            table(std::iter::once("memory").chain(m.regions.iter().map(|r| r.name.as_str())));
        for (name, value) in COUNTERS {
            if m.regions.iter().any(|r| value(&r.counters) > 0) {
                // A part whose energy is reported separately has no requests of its own.
                let cells = m.regions.iter().map(|r| match r.counters {
                    c if c == Counters::default() => "-".to_owned(),
                    c => grouped(value(&c)),
                });
                row(&mut t, std::iter::once(name.to_string()).chain(cells));
            }
        }
        let mut energies = |name: &str, f: fn(&EnergyStats) -> f64| {
            let of = |r: &nagori_memtime::model::RegionStats| match &r.energy {
                Some(e) => format!("{:.3}", f(e) / 1e6),
                None => "-".into(),
            };
            let cells = m.regions.iter().map(of);
            row(
                &mut t,
                std::iter::once(format!("energy {name}, uJ")).chain(cells),
            );
        };
        if m.regions.iter().any(|r| r.energy.is_some()) {
            energies("activate", |e| e.activate);
            energies("read", |e| e.read);
            energies("write", |e| e.write);
            energies("precharge", |e| e.precharge);
            energies("refresh", |e| e.refresh);
            energies("background", |e| e.background);
            if m.regions
                .iter()
                .flat_map(|r| &r.energy)
                .any(|e| !e.other.is_empty())
            {
                energies("other", |e| e.other.values().sum());
            }
            energies("total", EnergyStats::total);
        }
        let mut out = text(&t);
        for r in &m.regions {
            let Some(w) = &r.wear else { continue };
            let life = match (w.lifetime_s, w.lifetime_levelled_s) {
                (None, _) => "no end in sight".into(),
                (Some(s), None) => format!("{} until the first is worn out", age(s)),
                (Some(s), Some(l)) => format!(
                    "{} until the first is worn out, {} if all were written equally often",
                    age(s),
                    age(l)
                ),
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "\nwear of {}: {} writes of units of {} bytes, {} by levelling, {} at most to one, {} worn out; {life}",
                r.name,
                grouped(w.writes),
                w.unit_bytes,
                grouped(w.levelling_writes),
                grouped(w.max_writes),
                grouped(w.worn_out),
            );
        }
        if !m.counters.is_empty() {
            out.push('\n');
            for (name, v) in &m.counters {
                let _ = writeln!(out, "{name}: {v}");
            }
        }
        for c in &m.changes {
            let _ = writeln!(
                out,
                "\nchanged at {}: {} from {} to {}",
                c.at, c.what, c.from, c.to
            );
        }
        out
    }

    /// Row hit rate of each bank that was used, with its name.
    pub fn banks(&self) -> Vec<(String, &Counters)> {
        let name = |channel: &str, b: &BankStats| {
            format!("{channel} r{} g{} b{}", b.rank, b.bank_group, b.bank)
        };
        let all = self.model.channels.iter();
        all.flat_map(|c| c.banks.iter().map(move |b| (name(&c.name, b), &b.counters)))
            .collect()
    }
}

/// A long time in a suitable unit.
fn age(s: f64) -> String {
    let units = [
        ("years", 365.25 * 86400.0),
        ("days", 86400.0),
        ("hours", 3600.0),
    ];
    let (unit, length) = units
        .into_iter()
        .find(|u| s >= u.1)
        .unwrap_or(("seconds", 1.0));
    format!("{:.1} {unit}", s / length)
}

type Counter = (&'static str, fn(&Counters) -> u64);

const COUNTERS: &[Counter] = &[
    ("reads", |c| c.reads),
    ("writes", |c| c.writes),
    ("row hits", |c| c.row_hits),
    ("row misses", |c| c.row_misses),
    ("row conflicts", |c| c.row_conflicts),
    ("activations", |c| c.activations),
    ("activations, unused", |c| c.activations_unused),
    ("precharges, clean", |c| c.precharges_clean),
    ("precharges, dirty", |c| c.precharges_dirty),
    ("refreshes", |c| c.refreshes),
    ("forwarded reads", |c| c.forwarded_reads),
    ("merged reads", |c| c.merged_reads),
    ("merged writes", |c| c.merged_writes),
    ("write pauses", |c| c.write_pauses),
    ("writes paused, ns", |c| c.write_paused.0 / 1000),
];

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_have_the_unit_that_suits_them() {
        assert_eq!(age(12.34), "12.3 seconds");
        assert_eq!(age(5400.0), "1.5 hours");
        assert_eq!(age(36.0 * 3600.0), "1.5 days");
        assert_eq!(age(3.0 * 365.25 * 86400.0), "3.0 years");
    }
}
