//! Rows of `nagori bench vcopy`: what the guest printed, and what follows from it.

use super::cells::Cell;
use crate::spread::Spread;
use anyhow::{bail, Context};
use serde::Serialize;
use std::collections::BTreeMap;

/// Phases of the producer's work, in the order in which they are printed.
pub const PHASES: [&str; 5] = ["wait", "descriptor", "copy", "entry", "index"];

/// Accesses of L1D by instructions.
pub const ACCESSES: &str = "l1_accesses";
/// Lines that were brought into L1D, for whatever reason: what processors of Intel count as L1D.REPLACEMENT, and their
/// `perf` as L1-dcache-load-misses.
pub const MISSES: &str = "l1_misses";
/// Lines that were brought into L1D for an access that has missed.
pub const DEMAND_MISSES: &str = "l1_demand_misses";
/// Lines that were brought into L1D because a prefetcher has requested them.
pub const PREFETCHES: &str = "l1_prefetches";
/// Begins of the names of counters that count for the whole machine, not for a hart.
const UNCORE: [&str; 2] = ["dram_", "nvmm_"];

/// Adds what follows from single counters.
fn derive(counts: &mut BTreeMap<String, u64>) {
    let mut sum = |name: &str, of: [&str; 2]| {
        let parts = of.map(|n| counts.get(n).copied());
        if let [Some(a), Some(b)] = parts {
            counts.insert(name.into(), a + b);
        }
    };
    sum(ACCESSES, ["l1_loads", "l1_stores"]);
    sum(MISSES, [DEMAND_MISSES, PREFETCHES]);
}

/// What one side did in one repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Cycles of `rdcycle`, or of the host's time-stamp counter.
    pub cycles: u64,
    /// Interrupts or notifications that the other side wanted.
    pub told: u64,
    /// Cycles by phase.
    pub phases: [u64; 5],
    /// Counters of the processor, by name.
    pub counts: BTreeMap<String, u64>,
}

/// A repetition: producer and consumer.
pub type Repeat = [Side; 2];

/// Reads the lines that a frame prints: cell, repetition, side, cycles, told, failures, phases, then counters: numbers
/// in the order of `names`, or `name=number`.
///
/// Fails if a line is none, if one is missing, or if packets were not what was sent.
pub fn parse(
    lines: &[String],
    cells: usize,
    repeats: usize,
    names: &[&str],
) -> anyhow::Result<Vec<Vec<Repeat>>> {
    let mut found: BTreeMap<(usize, usize, usize), Side> = BTreeMap::new();
    for line in lines
        .iter()
        .filter(|l| l.starts_with(|c: char| c.is_ascii_digit()))
    {
        let bad = || format!("this is no result of vcopy: {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 11 {
            bail!("{}", bad());
        }
        let numbers: Result<Vec<u64>, _> = words[..11].iter().map(|w| w.parse()).collect();
        let n = numbers.with_context(bad)?;
        if n[5] != 0 {
            bail!("{} packets of cell {} were not what was sent", n[5], n[0]);
        }
        let mut counts = BTreeMap::new();
        for (k, word) in words[11..].iter().enumerate() {
            let (name, value) = match (word.split_once('='), names.get(k)) {
                (Some(pair), _) => pair,
                (None, Some(name)) => (*name, *word),
                (None, None) => bail!("{}", bad()),
            };
            counts.insert(name.to_string(), value.parse().with_context(bad)?);
        }
        let side = Side {
            cycles: n[3],
            told: n[4],
            phases: [n[6], n[7], n[8], n[9], n[10]],
            counts,
        };
        found.insert((n[0] as usize, n[1] as usize, n[2] as usize), side);
    }
    let mut take = |c, r, s| {
        let side = found.remove(&(c, r, s));
        side.with_context(|| format!("there is no result for cell {c}, repetition {r}, side {s}"))
    };
    let all = (0..cells).map(|c| {
        let repeats = (0..repeats).map(|r| Ok([take(c, r, 0)?, take(c, r, 1)?]));
        repeats.collect()
    });
    all.collect()
}

/// A result; the JSON form. Counts are those of the repetition with the median throughput, of both
/// sides together, for all packets; those that the processor does not give are left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub cell: Cell,
    /// What NVMM is made of, for cells on NVMM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_model: Option<String>,
    /// Counted packets of a repetition.
    pub packets: u32,
    /// Counters of the processor.
    #[serde(flatten)]
    pub counts: BTreeMap<String, u64>,
    /// Counters of the processor for the producer alone.
    pub producer: BTreeMap<String, u64>,
    /// The producer's cycles for a packet, waiting included.
    pub cycles_per_packet: f64,
    /// Million packets a second.
    pub throughput_mpps: f64,
    /// Throughput of all repetitions.
    pub throughput_mpps_spread: Spread,
    /// Interrupts and notifications that were wanted.
    pub told: u64,
    /// The producer's cycles for a packet, by phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_cycles_per_packet: Option<BTreeMap<&'static str, f64>>,
}

impl Row {
    /// From the repetitions of a cell, of which there is at least one; `rate`: cycles a second.
    pub fn new(cell: Cell, packets: u32, repeats: &[Repeat], rate: f64) -> Row {
        let whole = f64::from(packets.div_ceil(u32::from(cell.batch)) * u32::from(cell.batch));
        let mpps = |r: &Repeat| whole * rate / r[0].cycles.max(1) as f64 / 1e6;
        let spread = Spread::of(repeats.iter().map(mpps).collect());
        let is_median = |r: &&Repeat| mpps(r) == spread.median;
        let median = repeats.iter().find(is_median).unwrap_or(&repeats[0]);
        let [producer, consumer] = median;
        let mut of_producer = producer.counts.clone();
        derive(&mut of_producer);
        let mut counts = producer.counts.clone();
        let of_machine = |name: &str| UNCORE.iter().any(|u| name.starts_with(u));
        for (name, n) in consumer.counts.iter().filter(|(name, _)| !of_machine(name)) {
            *counts.entry(name.clone()).or_insert(0) += n;
        }
        derive(&mut counts);
        let per = |n: u64| n as f64 / whole;
        let phases = PHASES.into_iter().zip(producer.phases.map(per));
        Row {
            cell,
            memory_model: None,
            packets: whole as u32,
            counts,
            producer: of_producer,
            cycles_per_packet: per(producer.cycles),
            throughput_mpps: spread.median,
            throughput_mpps_spread: spread,
            told: producer.told + consumer.told,
            phase_cycles_per_packet: cell.phases.then(|| phases.collect()),
        }
    }

    /// A count for each packet.
    pub fn per_packet(&self, name: &str) -> Option<f64> {
        let n = self.counts.get(name)?;
        Some(*n as f64 / f64::from(self.packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|t| t.to_string()).collect()
    }

    #[test]
    fn lines_become_rows() {
        let printed = lines(&[
            "rate 1000",
            "0 0 0 1000 0 0 1 2 3 4 5 10 20",
            "0 0 1 1100 1 0 0 0 0 0 0 7 8",
            "0 1 0 500 0 0 1 2 3 4 5 11 21",
            "0 1 1 600 0 0 0 0 0 0 0 9 10",
        ]);
        let all = parse(&printed, 1, 2, &["a", "b"]).unwrap();
        let row = Row::new(Cell::BASE, 100, &all[0], 1e6);
        assert_eq!(row.packets, 128, "whole batches");
        assert_eq!(row.throughput_mpps, 0.128, "the lower of two");
        assert_eq!(row.throughput_mpps_spread.max, 0.256);
        assert_eq!((row.counts["a"], row.counts["b"]), (17, 28));
        assert_eq!(row.per_packet("a"), Some(17.0 / 128.0));
        assert_eq!(row.told, 1);
        let named = lines(&["0 0 0 9 0 0 1 2 3 4 5 x=3", "0 0 1 9 0 0 1 2 3 4 5 x=4"]);
        let row = Row::new(Cell::BASE, 32, &parse(&named, 1, 1, &[]).unwrap()[0], 1.0);
        assert_eq!(row.counts["x"], 7);
        let derived = [
            "l1_demand_misses=3 l1_prefetches=2 dram_reads=5",
            "l1_demand_misses=1 l1_prefetches=0 dram_reads=5",
        ];
        let derived = [0, 1].map(|s| format!("0 0 {s} 9 0 0 1 2 3 4 5 {}", derived[s]));
        let row = Row::new(Cell::BASE, 32, &parse(&derived, 1, 1, &[]).unwrap()[0], 1.0);
        assert_eq!((row.counts[MISSES], row.producer[MISSES]), (6, 5));
        assert_eq!(row.counts["dram_reads"], 5, "of the machine, not of a hart");
    }

    #[test]
    fn what_is_wrong_is_an_error() {
        let fails = |texts: &[&str], what: &str| {
            let e = parse(&lines(texts), 1, 1, &["a"]).unwrap_err();
            assert!(format!("{e:#}").contains(what), "{e:#}");
        };
        fails(&["0 0 0 1 0 0 0 0 0 0 0"], "side 1");
        fails(&["0 0 0 1 0 2 0 0 0 0 0"], "2 packets");
        fails(&["0 0 0 1"], "no result of vcopy");
        fails(&["0 0 0 1 0 0 0 0 0 0 0 1 2"], "no result of vcopy");
    }
}
