//! The figures of a run that matter most.

use nagori_machine::Report;

/// The most important figures, summed over all harts.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Guest time in picoseconds.
    pub time_ps: u64,
    /// Cycles in which harts were not idle.
    pub busy: u64,
    /// Instructions.
    pub instructions: u64,
    /// Cycles of waiting for memory.
    pub stall: u64,
    /// Misses in L1D, L1I and the TLBs.
    pub misses: [u64; 4],
}

impl Figures {
    /// Computes them from a report.
    pub fn of(r: &Report) -> Figures {
        let sum = |f: fn(&nagori_machine::HartReport) -> u64| r.harts.iter().map(f).sum();
        Figures {
            time_ps: r.elapsed_ps,
            busy: sum(|h| h.cycles.saturating_sub(h.events.idle_cycles)),
            instructions: r.instructions,
            stall: sum(|h| h.events.memory_stall_cycles),
            misses: [
                sum(|h| {
                    let e = &h.events;
                    e.l1d_load_misses + e.l1d_store_misses + e.l1d_walk_misses
                }),
                sum(|h| h.events.l1i_misses),
                sum(|h| h.events.dtlb_misses),
                sum(|h| h.events.itlb_misses),
            ],
        }
    }

    /// Share of the busy time that is spent waiting for memory.
    pub fn stalled(&self) -> Option<f64> {
        (self.busy > 0).then(|| self.stall as f64 / self.busy as f64)
    }

    /// Busy cycles for each instruction.
    pub fn cpi(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.busy as f64 / self.instructions as f64)
    }
}
