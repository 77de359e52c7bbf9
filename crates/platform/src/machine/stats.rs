//! The statistics of a run: counters of harts and memory, as plain values.

use super::light::costs::LightReport;
use super::memory::{Memory, RegionReport};
use super::world::HartView;
use crate::clock::Ps;
use crate::config::MachineConfig;
use nagori_hart::lines::{Coherence, FirstStats, LevelStats};
use nagori_hart::{Hart, HartStats};
use nagori_memtime::Stats;
use serde::{Deserialize, Serialize};

/// Counters of the harts at the start of the statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    at: Ps,
    harts: Vec<HartView>,
    /// Outer cache levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    levels: Vec<LevelStats>,
    /// First-level caches for data and for instructions.
    #[serde(default, skip_serializing_if = "is_absent")]
    first: [Option<FirstStats>; 2],
}

fn is_absent(first: &[Option<FirstStats>; 2]) -> bool {
    *first == [None; 2]
}

impl Baseline {
    pub fn new(harts: usize) -> Self {
        Self {
            at: Ps::ZERO,
            harts: vec![HartView::default(); harts],
            levels: Vec::new(),
            first: [None; 2],
        }
    }

    pub fn of(harts: &[Hart], caches: &Coherence, at: Ps) -> Self {
        let view = |h: &Hart| HartView {
            cycle: h.cycle,
            instret: h.instret,
            stats: h.stats,
        };
        Self {
            at,
            harts: harts.iter().map(view).collect(),
            levels: caches.level_stats(),
            first: caches.first_stats(),
        }
    }

    pub fn views(&self) -> Vec<HartView> {
        self.harts.clone()
    }
}

/// One hart's share of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HartReport {
    /// Hart index.
    pub hart: usize,
    /// Core cycles, idle ones included.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Event counters.
    #[serde(flatten)]
    pub events: HartStats,
}

/// Statistics of an outer cache level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelReport {
    /// Name in the machine's description.
    pub name: String,
    /// Its caches together.
    #[serde(flatten)]
    pub events: LevelStats,
}

/// Statistics of the MSHRs and prefetchers of the first-level caches of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstReport {
    /// Name in the machine's description: `l1d` or `l1i`.
    pub name: String,
    /// Those of all harts together.
    #[serde(flatten)]
    pub events: FirstStats,
}

/// Statistics of a machine over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the machine description.
    pub machine: String,
    /// Whether harts have run at the same time: results differ from run to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// Guest time covered, in picoseconds.
    pub elapsed_ps: u64,
    /// Core cycles of the hart that had the most.
    pub cycles: u64,
    /// Instructions of all harts.
    pub instructions: u64,
    /// By hart.
    pub harts: Vec<HartReport>,
    /// First-level caches with MSHRs or a prefetcher.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_level: Vec<FirstReport>,
    /// Outer cache levels, the nearest to the cores first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<LevelReport>,
    /// Memory bus and controller.
    pub memory: Stats,
    /// Regions with a memory of their own, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<RegionReport>,
    /// The light mode, with which times are estimates and controllers saw nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light: Option<LightReport>,
}

impl Report {
    /// Two stretches of time together; times and counts are sums.
    pub(crate) fn plus(mut self, later: &Report) -> Report {
        self.parallel |= later.parallel;
        self.elapsed_ps += later.elapsed_ps;
        self.instructions += later.instructions;
        for (a, b) in self.harts.iter_mut().zip(&later.harts) {
            a.cycles += b.cycles;
            a.instructions += b.instructions;
            a.events = zip(&a.events, &b.events, |a, b| a + b);
        }
        for (a, b) in self.first_level.iter_mut().zip(&later.first_level) {
            a.events = a.events.zip(&b.events, |a, b| a + b);
        }
        for (a, b) in self.caches.iter_mut().zip(&later.caches) {
            a.events = a.events.zip(&b.events, |a, b| a + b);
        }
        self.cycles = self.harts.iter().map(|h| h.cycles).max().unwrap_or(0);
        self.memory = self.memory.plus(&later.memory);
        for (a, b) in self.memories.iter_mut().zip(&later.memories) {
            a.stats = a.stats.plus(&b.stats);
        }
        self.light = match (self.light, &later.light) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b.clone()),
        };
        self
    }
}

fn zip(a: &HartStats, b: &HartStats, f: impl Fn(u64, u64) -> u64) -> HartStats {
    HartStats {
        l1d_load_misses: f(a.l1d_load_misses, b.l1d_load_misses),
        l1d_store_misses: f(a.l1d_store_misses, b.l1d_store_misses),
        l1d_walk_misses: f(a.l1d_walk_misses, b.l1d_walk_misses),
        l1d_upgrades: f(a.l1d_upgrades, b.l1d_upgrades),
        l1d_writebacks: f(a.l1d_writebacks, b.l1d_writebacks),
        l1d_flushes: f(a.l1d_flushes, b.l1d_flushes),
        probes: f(a.probes, b.probes),
        l1i_misses: f(a.l1i_misses, b.l1i_misses),
        dtlb_misses: f(a.dtlb_misses, b.dtlb_misses),
        itlb_misses: f(a.itlb_misses, b.itlb_misses),
        mispredicts: f(a.mispredicts, b.mispredicts),
        memory_stall_cycles: f(a.memory_stall_cycles, b.memory_stall_cycles),
        exceptions: f(a.exceptions, b.exceptions),
        interrupts: f(a.interrupts, b.interrupts),
        idle_cycles: f(a.idle_cycles, b.idle_cycles),
    }
}

pub(crate) fn report(
    config: &MachineConfig,
    harts: &[Hart],
    caches: &Coherence,
    memory: &Memory,
    now: Ps,
    from: &Baseline,
    parallel: bool,
) -> Report {
    let rows: Vec<HartReport> = harts
        .iter()
        .zip(&from.harts)
        .map(|(h, b)| HartReport {
            hart: h.id,
            cycles: h.cycle - b.cycle,
            instructions: h.instret - b.instret,
            events: zip(&h.stats, &b.stats, |a, b| a - b),
        })
        .collect();
    let none = LevelStats::default();
    let before = from.levels.iter().chain(std::iter::repeat(&none));
    let levels = config
        .levels()
        .into_iter()
        .zip(caches.level_stats())
        .zip(before)
        .map(|(((name, _), now), before)| LevelReport {
            name: name.to_owned(),
            events: now.zip(before, |a, b| a - b),
        })
        .collect();
    let both = caches.first_stats().into_iter().zip(from.first);
    let first_level = ["l1d", "l1i"].into_iter().zip(both);
    let first_level = first_level.filter_map(|(name, (now, before))| {
        let events = now?.zip(&before.unwrap_or_default(), |a, b| a - b);
        let name = name.to_owned();
        Some(FirstReport { name, events })
    });
    Report {
        machine: config.name.clone(),
        parallel,
        elapsed_ps: now.saturating_sub(from.at).0,
        cycles: rows.iter().map(|r| r.cycles).max().unwrap_or(0),
        instructions: rows.iter().map(|r| r.instructions).sum(),
        harts: rows,
        first_level: first_level.collect(),
        caches: levels,
        memory: memory.board.stats(nagori_memtime::Ps(now.0)),
        memories: memory.reports(nagori_memtime::Ps(now.0)),
        light: None,
    }
}
