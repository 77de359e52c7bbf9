//! Converts a checked description to the parameters of the parts.

use super::MachineError;
use crate::config::{self, Machine as Resolved, TlbConfig};
use nagori_hart::config::{
    CacheGeometry, CoreTiming, FirstConfig, HartConfig, Inclusion, LevelConfig, PredictorGeometry,
    PrefetchConfig, Prefetcher, Replacement, TlbGeometry,
};
use nagori_hart::lines::standalone::Standalone;

fn cache(c: &crate::config::CacheConfig) -> CacheGeometry {
    CacheGeometry {
        sets: c.sets() as u32,
        ways: c.ways,
        line: c.line,
        replacement: replacement(c.replacement),
    }
}

/// Outer cache levels.
pub fn levels(c: &config::MachineConfig) -> Vec<LevelConfig> {
    let level = |l: &config::LevelConfig| LevelConfig {
        geometry: CacheGeometry {
            sets: l.sets() as u32,
            ways: l.ways,
            line: 64,
            replacement: replacement(l.replacement),
        },
        shared_by: l.shared_by.harts(),
        latency: l.latency,
        probe_latency: l.probe_latency,
        inclusion: match l.inclusion {
            config::Inclusion::Inclusive => Inclusion::Inclusive,
            config::Inclusion::NonInclusive => Inclusion::NonInclusive,
            config::Inclusion::Exclusive => Inclusion::Exclusive,
        },
        write_through: l.write == config::WritePolicy::Through,
        mshrs: l.mshrs.unwrap_or(0),
        banks: l.banks,
        bank_cycles: l.bank_cycles,
        prefetch: prefetch(&l.traffic()),
    };
    c.levels().into_iter().map(|(_, l)| level(l)).collect()
}

/// MSHRs and prefetchers of the first-level caches for data and for instructions.
pub fn first(c: &config::MachineConfig) -> [FirstConfig; 2] {
    [&c.l1d, &c.l1i].map(|l| FirstConfig {
        mshrs: l.mshrs.unwrap_or(0),
        prefetch: prefetch(&l.traffic()),
    })
}

fn prefetch(t: &config::Traffic) -> PrefetchConfig {
    PrefetchConfig {
        prefetcher: match t.prefetcher {
            config::Prefetcher::None => Prefetcher::None,
            config::Prefetcher::NextLine => Prefetcher::NextLine,
            config::Prefetcher::Stride => Prefetcher::Stride,
            config::Prefetcher::Stream => Prefetcher::Stream,
        },
        degree: t.degree,
        distance: t.distance,
        entries: t.entries,
        confidence: t.confidence,
    }
}

fn replacement(r: config::Replacement) -> Replacement {
    match r {
        config::Replacement::Lfsr => Replacement::Lfsr,
        config::Replacement::Random => Replacement::Random,
        config::Replacement::Lru => Replacement::Lru,
        config::Replacement::TreePlru => Replacement::TreePlru,
        config::Replacement::Srrip => Replacement::Srrip,
    }
}

fn tlb(t: &TlbConfig) -> TlbGeometry {
    TlbGeometry {
        sectors: t.sectors,
        pages_per_sector: t.pages_per_sector,
        superpages: t.superpage_entries,
    }
}

/// The caches of a machine alone, in front of a memory of a number of bytes: without time, so without
/// prefetchers and miss status holding registers.
pub fn caches(r: &Resolved, bytes: u64) -> Result<Standalone, MachineError> {
    let hart = hart_config(r)?;
    let first = (hart.l1i, hart.l1d);
    Ok(Standalone::new(
        r.config.harts as usize,
        first,
        &levels(&r.config),
        bytes,
    ))
}

/// Parameters of every hart.
pub fn hart_config(r: &Resolved) -> Result<HartConfig, MachineError> {
    let c = &r.config;
    let core = |e: serde_json::Error| MachineError::Core {
        core: r.core.name.clone(),
        problem: e.to_string(),
    };
    let mut timing: CoreTiming = serde_json::from_value(r.core.timing_values()).map_err(core)?;
    // The hub's probes cost nothing where there is no second core to probe.
    timing.hub = if c.harts > 1 { c.hub_cycles } else { 0 };
    let predictor: PredictorGeometry =
        serde_json::from_value(r.core.predictor_values()).map_err(core)?;
    Ok(HartConfig {
        isa: c.extensions(),
        asid_bits: c.asid_bits,
        pmp_entries: c.pmp_entries,
        triggers: c.triggers,
        functional_cpi: c.functional_cpi,
        l1d: cache(&c.l1d),
        l1i: cache(&c.l1i),
        dtlb: tlb(&c.dtlb),
        itlb: tlb(&c.itlb),
        predictor,
        timing,
    })
}
