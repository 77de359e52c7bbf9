//! The statistics of a run: counters of harts and memory, as plain values.

use super::epochs::{EpochReport, Epochs, Sums};
use super::memory::{Memory, RegionReport};
use super::view::HartView;
use nagori_config::MachineConfig;
use nagori_hart::events;
use nagori_hart::lines::{
    CacheCounts, Coherence, FirstStats, HartCounts, LevelStats, MemoryCounts, StoreStats,
};
use nagori_hart::{ByPrivilege, Hart, HartStats};
use nagori_memtime::Stats;
use nagori_platform::clock::Ps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Each hart's part in what happens in caches and memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counts: Vec<HartCounts>,
    /// Its events by privilege, if they are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_privilege: Vec<ByPrivilege>,
    /// Buffers of stores, by hart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stores: Vec<StoreStats>,
    /// Epochs, by hart, if they emulate NVMM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    epochs: Vec<Sums>,
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
            counts: Vec::new(),
            by_privilege: Vec::new(),
            stores: Vec::new(),
            epochs: Vec::new(),
        }
    }

    pub fn of(harts: &[Hart], caches: &Coherence, epochs: Option<&Epochs>, at: Ps) -> Self {
        let view = |h: &Hart| HartView {
            cycle: h.state.cycle,
            instret: h.state.instret,
            stats: h.state.stats,
        };
        Self {
            at,
            harts: harts.iter().map(view).collect(),
            levels: caches.level_stats(),
            first: caches.first_stats(),
            counts: harts.iter().map(|h| caches.counts(h.id).clone()).collect(),
            by_privilege: harts
                .iter()
                .filter_map(|h| h.by_privilege(caches))
                .collect(),
            stores: caches.store_stats(),
            epochs: epochs.map(Epochs::sums).unwrap_or_default(),
        }
    }

    pub fn epochs(&self) -> &[Sums] {
        &self.epochs
    }

    pub fn views(&self) -> Vec<HartView> {
        self.harts.clone()
    }
}

/// Has harts count their events by privilege, or not.
pub(crate) fn count_by_privilege(harts: &mut [Hart], caches: &Coherence, on: bool) {
    for h in harts {
        h.count_by_privilege(caches, on);
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
    /// Lines that memory has read and written for it.
    #[serde(default)]
    pub memory: MemoryCounts,
    /// All events of hardware counters by privilege, if the description has `count_by_privilege`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_privilege: Option<PrivilegeReport>,
}

/// Counts of events ([`nagori_hart::events`]) by the mode in which they have happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PrivilegeReport {
    /// In user mode, by name of the event.
    pub user: BTreeMap<String, u64>,
    /// In supervisor mode.
    pub supervisor: BTreeMap<String, u64>,
    /// In machine mode.
    pub machine: BTreeMap<String, u64>,
}

impl PrivilegeReport {
    /// The counts of a machine with so many outer cache levels, from `before` to `now`.
    fn new(levels: usize, now: &ByPrivilege, before: Option<&ByPrivilege>) -> Self {
        let of = |mode: usize| {
            let before = before.map(|b| b.counts[mode].as_slice()).unwrap_or(&[]);
            let before = before.iter().copied().chain(std::iter::repeat(0));
            let counts = now.counts[mode].iter().zip(before);
            let rows = events::rows().zip(counts);
            let rows = rows.filter(|(r, _)| r.exists(levels));
            rows.map(|(r, (now, before))| (r.name.to_owned(), now.wrapping_sub(before)))
                .collect()
        };
        PrivilegeReport {
            user: of(0),
            supervisor: of(1),
            machine: of(2),
        }
    }

    fn add(&mut self, later: &PrivilegeReport) {
        let pairs = [
            (&mut self.user, &later.user),
            (&mut self.supervisor, &later.supervisor),
            (&mut self.machine, &later.machine),
        ];
        for (all, more) in pairs {
            for (name, n) in more {
                *all.entry(name.clone()).or_default() += n;
            }
        }
    }
}

/// Statistics of an outer cache level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelReport {
    /// Name in the machine's description.
    pub name: String,
    /// Its caches together.
    #[serde(flatten)]
    pub events: LevelStats,
    /// What they do for harts, by kind.
    #[serde(flatten)]
    pub kinds: CacheCounts,
}

/// Statistics of the MSHRs and prefetchers of the first-level caches of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstReport {
    /// Name in the machine's description: `l1d` or `l1i`.
    pub name: String,
    /// Counts of all harts together.
    #[serde(flatten)]
    pub events: FirstStats,
    /// What the caches do for harts, by kind: counts as in `events`, and more.
    #[serde(flatten)]
    pub kinds: CacheCounts,
}

/// Statistics of a hart's store buffer, of its combined lines, and of its accesses under hints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreReport {
    /// Hart index.
    pub hart: usize,
    /// The counters.
    #[serde(flatten)]
    pub events: StoreStats,
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
    /// Store buffers and hints by hart, where there are any that do something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreReport>,
    /// Memory bus and controller.
    pub memory: Stats,
    /// Regions with a memory of their own, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<RegionReport>,
    /// Epochs, if they emulate NVMM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<EpochReport>,
}

impl Report {
    /// Two stretches of time together; times and counts are sums.
    pub fn plus(mut self, later: &Report) -> Report {
        self.parallel |= later.parallel;
        self.elapsed_ps += later.elapsed_ps;
        self.instructions += later.instructions;
        for (a, b) in self.harts.iter_mut().zip(&later.harts) {
            a.cycles += b.cycles;
            a.instructions += b.instructions;
            a.events = a.events.zip(&b.events, |a, b| a + b);
            a.memory = a.memory.zip(&b.memory, |a, b| a + b);
            match (&mut a.by_privilege, &b.by_privilege) {
                (Some(a), Some(b)) => a.add(b),
                (a, b) => *a = a.take().or(b.clone()),
            }
        }
        for (a, b) in self.first_level.iter_mut().zip(&later.first_level) {
            a.kinds = a.kinds.zip(&b.kinds, |a, b| a + b);
            a.events = a.events.zip(&b.events, |a, b| a + b);
        }
        for (a, b) in self.caches.iter_mut().zip(&later.caches) {
            a.kinds = a.kinds.zip(&b.kinds, |a, b| a + b);
            a.events = a.events.zip(&b.events, |a, b| a + b);
        }
        for (a, b) in self.stores.iter_mut().zip(&later.stores) {
            a.events = a.events.zip(&b.events, |a, b| a + b);
        }
        self.cycles = self.harts.iter().map(|h| h.cycles).max().unwrap_or(0);
        self.memory = self.memory.plus(&later.memory);
        for (a, b) in self.memories.iter_mut().zip(&later.memories) {
            a.stats = a.stats.plus(&b.stats);
        }
        if let (Some(a), Some(b)) = (&mut self.epochs, &later.epochs) {
            a.add(b);
        }
        self
    }
}

pub(crate) fn report(
    config: &MachineConfig,
    harts: &[Hart],
    caches: &Coherence,
    (memory, memories): (&Memory, Vec<RegionReport>),
    now: Ps,
    from: &Baseline,
    (parallel, epochs): (bool, Option<&Epochs>),
) -> Report {
    let levels = config.levels();
    let counts: Vec<HartCounts> = harts
        .iter()
        .map(|h| match from.counts.get(h.id) {
            Some(before) => caches.counts(h.id).zip(before, |a, b| a - b),
            None => caches.counts(h.id).clone(),
        })
        .collect();
    let all = |of: &dyn Fn(&HartCounts) -> CacheCounts| {
        let each = counts.iter().map(of);
        each.fold(CacheCounts::default(), |a, b| a.zip(&b, |a, b| a + b))
    };
    let rows: Vec<HartReport> = harts
        .iter()
        .zip(&from.harts)
        .map(|(h, b)| HartReport {
            hart: h.id,
            cycles: h.state.cycle - b.cycle,
            instructions: h.state.instret - b.instret,
            events: h.state.stats.zip(&b.stats, |a, b| a - b),
            memory: counts[h.id].memory,
            by_privilege: h
                .by_privilege(caches)
                .map(|now| PrivilegeReport::new(levels.len(), &now, from.by_privilege.get(h.id))),
        })
        .collect();
    let none = LevelStats::default();
    let before = from.levels.iter().chain(std::iter::repeat(&none));
    let levels = levels
        .into_iter()
        .zip(caches.level_stats())
        .zip(before)
        .enumerate()
        .map(|(k, (((name, _), now), before))| LevelReport {
            name: name.to_owned(),
            events: now.zip(before, |a, b| a - b),
            kinds: all(&|c| c.levels[k]),
        })
        .collect();
    let both = caches.first_stats().into_iter().zip(from.first);
    let first_level = ["l1d", "l1i"].into_iter().zip(both);
    let first_level = first_level.enumerate();
    let first_level = first_level.filter_map(|(side, (name, (now, before)))| {
        let events = now?.zip(&before.unwrap_or_default(), |a, b| a - b);
        let name = name.to_owned();
        let kinds = all(&|c| c.first[side]);
        Some(FirstReport {
            name,
            events,
            kinds,
        })
    });
    let none = StoreStats::default();
    let before = from.stores.iter().chain(std::iter::repeat(&none));
    let stores = caches.store_stats().into_iter().zip(before).enumerate();
    let stores = stores.map(|(hart, (now, before))| StoreReport {
        hart,
        events: now.zip(before, |a, b| a - b),
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
        stores: stores.collect(),
        memory: memory.board.stats(now),
        memories,
        epochs: epochs.map(|e| e.report(&from.epochs)),
    }
}
