//! The figures of a run that are kept.

use nagori_machine::Report;
use nagori_memtime::stats::Region;
use serde::{Deserialize, Serialize};

/// Counts of one part of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Requests that took over an open row.
    pub row_hits: u64,
    /// Requests whose bank differs from that of the request before; absent where the memory does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_switches: Option<u64>,
    /// Activations of rows.
    pub activations: u64,
    /// Mean time from a read's arrival to its first data, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<f64>,
    /// Mean time from a write's arrival to its answer, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ns: Option<f64>,
    /// Total energy in picojoules, where the memory describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_pj: Option<f64>,
    /// Writes of the most written unit, where wear is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_writes: Option<u64>,
}

impl Part {
    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    fn per_request(&self, n: u64) -> Option<f64> {
        (self.requests() > 0).then(|| n as f64 / self.requests() as f64)
    }

    /// Activations a request.
    pub fn act_per_req(&self) -> Option<f64> {
        self.per_request(self.activations)
    }

    /// Share of the requests whose bank differs from that of the request before.
    pub fn bank_para(&self) -> Option<f64> {
        self.per_request(self.bank_switches?)
    }

    /// Share of the requests that found their row open.
    pub fn row_hit_rate(&self) -> Option<f64> {
        self.per_request(self.row_hits)
    }

    /// Share of the requests that are writes.
    pub fn write_share(&self) -> Option<f64> {
        self.per_request(self.writes)
    }

    /// Reads a write.
    pub fn reads_per_write(&self) -> Option<f64> {
        (self.writes > 0).then(|| self.reads as f64 / self.writes as f64)
    }
}

/// The figures of a run, over its timed part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Guest time, in picoseconds.
    pub time_ps: u64,
    /// Instructions of all harts.
    pub instructions: u64,
    /// Cycles in which harts were not idle.
    pub busy_cycles: u64,
    /// Cycles of waiting for memory.
    pub stall_cycles: u64,
    /// Misses of the first data cache.
    pub l1d_misses: u64,
    /// Misses of the data TLB.
    pub dtlb_misses: u64,
    /// Most resident memory of a process of the script, in KiB.
    pub footprint_kib: u64,
    /// DRAM.
    pub dram: Part,
    /// NVMM.
    pub nvmm: Part,
}

impl Figures {
    /// The figures of a report.
    pub fn of(r: &Report, footprint_kib: u64) -> Figures {
        let sum = |f: fn(&nagori_machine::HartReport) -> u64| r.harts.iter().map(f).sum();
        Figures {
            time_ps: r.elapsed_ps,
            instructions: r.instructions,
            busy_cycles: sum(|h| h.cycles.saturating_sub(h.events.idle_cycles)),
            stall_cycles: sum(|h| h.events.memory_stall_cycles),
            l1d_misses: sum(|h| {
                h.events.l1d_load_misses + h.events.l1d_store_misses + h.events.l1d_walk_misses
            }),
            dtlb_misses: sum(|h| h.events.dtlb_misses),
            footprint_kib,
            dram: part(r, Region::Dram),
            nvmm: part(r, Region::Nvmm),
        }
    }

    /// Seconds of guest time.
    pub fn seconds(&self) -> f64 {
        self.time_ps as f64 / 1e12
    }

    /// Requests of NVMM in a second of guest time.
    pub fn requests_per_s(&self) -> f64 {
        match self.time_ps {
            0 => 0.0,
            _ => self.nvmm.requests() as f64 / self.seconds(),
        }
    }
}

fn part(r: &Report, which: Region) -> Part {
    let name = match which {
        Region::Dram => "dram",
        Region::Nvmm => "nvmm",
    };
    if let Some(own) = r.memories.iter().find(|m| m.name == name) {
        let (c, s) = (own.stats.total(), &own.stats);
        let energy = s
            .regions
            .iter()
            .filter_map(|r| r.energy.as_ref())
            .map(|e| e.total());
        let wear = s
            .regions
            .iter()
            .filter_map(|r| r.wear.as_ref())
            .map(|w| w.max_writes);
        return Part {
            reads: c.reads,
            writes: c.writes,
            row_hits: c.row_hits,
            bank_switches: None,
            activations: c.activations,
            read_ns: s.read_latency().mean_ns(),
            write_ns: s.write_latency().mean_ns(),
            energy_pj: energy.reduce(|a, b| a + b),
            most_writes: wear.max(),
        };
    }
    let s = r.memory.region(which);
    let c = &s.counters;
    Part {
        reads: c.reads,
        writes: c.writes,
        row_hits: c.row_hits,
        bank_switches: Some(c.bank_switches),
        activations: c.activations,
        read_ns: s.read_latency.mean_ns(),
        write_ns: s.write_latency.mean_ns(),
        energy_pj: None,
        most_writes: None,
    }
}
