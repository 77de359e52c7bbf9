//! What a run has cost: counters of harts and memory, as plain values.

use super::world::HartView;
use crate::clock::Ps;
use crate::config::MachineConfig;
use nagori_hart::{Hart, HartStats};
use nagori_memtime::{Controller, Stats};
use serde::Serialize;

/// Counters of the harts at the time from which statistics count.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    at: Ps,
    harts: Vec<HartView>,
}

impl Baseline {
    pub fn new(harts: usize) -> Self {
        Self {
            at: Ps::ZERO,
            harts: vec![HartView::default(); harts],
        }
    }

    pub fn of(harts: &[Hart], at: Ps) -> Self {
        let view = |h: &Hart| HartView {
            cycle: h.cycle,
            instret: h.instret,
            stats: h.stats,
        };
        Self {
            at,
            harts: harts.iter().map(view).collect(),
        }
    }

    pub fn views(&self) -> Vec<HartView> {
        self.harts.clone()
    }
}

/// One hart's share of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// Statistics of a machine over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the machine description.
    pub machine: String,
    /// Guest time covered, in picoseconds.
    pub elapsed_ps: u64,
    /// Core cycles of the hart that had the most.
    pub cycles: u64,
    /// Instructions of all harts.
    pub instructions: u64,
    /// By hart.
    pub harts: Vec<HartReport>,
    /// Memory bus and controller.
    pub memory: Stats,
}

fn minus(a: &HartStats, b: &HartStats) -> HartStats {
    HartStats {
        l1d_load_misses: a.l1d_load_misses - b.l1d_load_misses,
        l1d_store_misses: a.l1d_store_misses - b.l1d_store_misses,
        l1d_walk_misses: a.l1d_walk_misses - b.l1d_walk_misses,
        l1d_upgrades: a.l1d_upgrades - b.l1d_upgrades,
        l1d_writebacks: a.l1d_writebacks - b.l1d_writebacks,
        l1d_flushes: a.l1d_flushes - b.l1d_flushes,
        probes: a.probes - b.probes,
        l1i_misses: a.l1i_misses - b.l1i_misses,
        dtlb_misses: a.dtlb_misses - b.dtlb_misses,
        itlb_misses: a.itlb_misses - b.itlb_misses,
        mispredicts: a.mispredicts - b.mispredicts,
        memory_stall_cycles: a.memory_stall_cycles - b.memory_stall_cycles,
        exceptions: a.exceptions - b.exceptions,
        interrupts: a.interrupts - b.interrupts,
        idle_cycles: a.idle_cycles - b.idle_cycles,
    }
}

pub(crate) fn report(
    config: &MachineConfig,
    harts: &[Hart],
    memory: &Controller,
    now: Ps,
    from: &Baseline,
) -> Report {
    let rows: Vec<HartReport> = harts
        .iter()
        .zip(&from.harts)
        .map(|(h, b)| HartReport {
            hart: h.id,
            cycles: h.cycle - b.cycle,
            instructions: h.instret - b.instret,
            events: minus(&h.stats, &b.stats),
        })
        .collect();
    Report {
        machine: config.name.clone(),
        elapsed_ps: now.saturating_sub(from.at).0,
        cycles: rows.iter().map(|r| r.cycles).max().unwrap_or(0),
        instructions: rows.iter().map(|r| r.instructions).sum(),
        harts: rows,
        memory: memory.stats(nagori_memtime::Ps(now.0)),
    }
}
