//! Converts a checked description to the parameters of the parts.

use super::MachineError;
use nagori_config::{IomapKind, Machine as Resolved, TlbConfig};
use nagori_hart::config::{
    CacheGeometry, CoreTiming, Ext, FirstConfig, HartConfig, HintConfig, LevelConfig,
    PredictorGeometry, PrefetchConfig, StoresConfig, TlbGeometry,
};
use nagori_hart::lines::standalone::Standalone;

fn cache(c: &nagori_config::CacheConfig) -> CacheGeometry {
    CacheGeometry {
        sets: c.sets() as u32,
        ways: c.ways,
        line: c.line,
        replacement: c.replacement,
    }
}

/// Outer cache levels.
pub fn levels(c: &nagori_config::MachineConfig) -> Vec<LevelConfig> {
    let level = |l: &nagori_config::LevelConfig| LevelConfig {
        geometry: CacheGeometry {
            sets: l.sets() as u32,
            ways: l.ways,
            line: 64,
            replacement: l.replacement,
        },
        shared_by: l.shared_by.harts(),
        latency: l.latency,
        probe_latency: l.probe_latency,
        inclusion: l.inclusion,
        write_through: l.write == nagori_config::WritePolicy::Through,
        mshrs: l.mshrs.unwrap_or(0),
        banks: l.banks,
        bank_cycles: l.bank_cycles,
        prefetch: prefetch(&l.traffic()),
    };
    c.levels().into_iter().map(|(_, l)| level(l)).collect()
}

/// MSHRs and prefetchers of the first-level caches for data and for instructions, of a core. Its line fill buffers are
/// the MSHRs of L1D.
pub fn first(c: &nagori_config::MachineConfig, core: &CoreTiming) -> [FirstConfig; 2] {
    let [data, inst] = [(&c.l1d, core.lfb), (&c.l1i, 0)].map(|(l, buffers)| FirstConfig {
        mshrs: l.mshrs.unwrap_or(buffers),
        prefetch: prefetch(&l.traffic()),
        stores: StoresConfig::default(),
    });
    let stores = stores(c);
    [FirstConfig { stores, ..data }, inst]
}

/// Store buffers, and what hints of Zihintntl do where harts have them.
fn stores(c: &nagori_config::MachineConfig) -> StoresConfig {
    let bits = |names: &[String]| {
        let all = names.iter().filter_map(|n| c.cache_bit(n));
        all.fold(0, |bits, b| bits | 1 << b)
    };
    let (b, n) = (&c.store_buffer, &c.nontemporal);
    let hint = |h: &nagori_config::HintConfig| HintConfig {
        last: bits(&h.last),
        bypass: bits(&h.bypass),
        combines: h.store == nagori_config::HintedStore::WriteCombining,
    };
    let none = [HintConfig::default(); 4];
    StoresConfig {
        entries: b.entries,
        drain: b.drain,
        coalesce: b.coalesce,
        forward: b.forward_cycles,
        interval: b.drain_cycles,
        hints: if c.has(Ext::Zihintntl) {
            n.hints().map(|(_, h)| hint(h))
        } else {
            none
        },
        order: n.evict,
        cached: n.cached_copy,
        partial: [n.partial_dram, n.partial_nvmm],
        nvmm_base: c.memory.nvmm_base(),
    }
}

fn prefetch(t: &nagori_config::Traffic) -> PrefetchConfig {
    PrefetchConfig {
        prefetcher: t.prefetcher,
        degree: t.degree,
        distance: t.distance,
        entries: t.entries,
        confidence: t.confidence,
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
    timing.pipes = serde_json::from_value(r.core.pipe_values()).map_err(core)?;
    let predictor: PredictorGeometry =
        serde_json::from_value(r.core.predictor_values()).map_err(core)?;
    Ok(HartConfig {
        isa: c.extensions(),
        asid_bits: c.asid_bits,
        pmp_entries: c.pmp_entries,
        triggers: c.triggers,
        functional_cpi: c.functional_cpi,
        io_table_cycles: match c.iomap.kind {
            IomapKind::None => 0,
            _ => c.iomap.hit_cycles,
        },
        hands_over: c.epoch.variant.is_some() && c.epoch.hand_over,
        plain: false,
        l1d: cache(&c.l1d),
        l1i: cache(&c.l1i),
        dtlb: tlb(&c.dtlb),
        itlb: tlb(&c.itlb),
        predictor,
        timing,
    })
}
