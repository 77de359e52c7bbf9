//! From a checked description to the parameters of harts and caches.

use crate::cache::WritePolicy;
use crate::iomap::IomapKind;
use crate::stores::HintedStore;
use crate::types::{CacheConfig, CoreConfig, MachineConfig, TlbConfig};
use crate::{ConfigError, Machine};
use nagori_hart::config::{
    CacheGeometry, CoreTiming, Ext, FirstConfig, HartConfig, HintConfig, LevelConfig, StoresConfig,
    TlbGeometry,
};
use nagori_hart::lines::standalone::Standalone;
use serde::de::DeserializeOwned;

fn cache(c: &CacheConfig) -> CacheGeometry {
    CacheGeometry {
        sets: c.sets() as u32,
        ways: c.ways,
        line: c.line,
        replacement: c.replacement,
    }
}

/// Outer cache levels.
pub fn levels(c: &MachineConfig) -> Vec<LevelConfig> {
    let level = |l: &crate::cache::LevelConfig| LevelConfig {
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
        write_through: l.write == WritePolicy::Through,
        mshrs: l.mshrs.unwrap_or(0),
        banks: l.banks,
        bank_cycles: l.bank_cycles,
        prefetch: l.prefetch(),
    };
    c.levels().into_iter().map(|(_, l)| level(l)).collect()
}

/// MSHRs and prefetchers of the first-level caches for data and for instructions, of a core. Its line fill buffers are
/// the MSHRs of L1D.
pub fn first(c: &MachineConfig, core: &CoreTiming) -> [FirstConfig; 2] {
    let [data, inst] = [(&c.l1d, core.lfb), (&c.l1i, 0)].map(|(l, buffers)| FirstConfig {
        mshrs: l.mshrs.unwrap_or(buffers),
        prefetch: l.prefetch(),
        stores: StoresConfig::default(),
    });
    let stores = stores(c);
    [FirstConfig { stores, ..data }, inst]
}

/// Store buffers, and what hints of Zihintntl do where harts have them.
fn stores(c: &MachineConfig) -> StoresConfig {
    let bits = |names: &[String]| {
        let all = names.iter().filter_map(|n| c.cache_bit(n));
        all.fold(0, |bits, b| bits | 1 << b)
    };
    let (b, n) = (&c.store_buffer, &c.nontemporal);
    let hint = |h: &crate::stores::HintConfig| HintConfig {
        last: bits(&h.last),
        bypass: bits(&h.bypass),
        combines: h.store == HintedStore::WriteCombining,
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

fn tlb(t: &TlbConfig) -> TlbGeometry {
    TlbGeometry {
        sectors: t.sectors,
        pages_per_sector: t.pages_per_sector,
        superpages: t.superpage_entries,
    }
}

/// Parameters of every hart of a machine with a core.
pub fn hart(c: &MachineConfig, core: &CoreConfig) -> Result<HartConfig, ConfigError> {
    let mut timing: CoreTiming = known(core, core.timing_values())?;
    timing.pipes = known(core, core.pipe_values())?;
    // The hub's probes cost nothing where there is no second core to probe.
    timing.hub = if c.harts > 1 { c.hub_cycles } else { 0 };
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
        predictor: known(core, core.predictor_values())?,
        timing,
    })
}

/// The caches of a machine alone, in front of a memory of a number of bytes: without time, so without
/// prefetchers and miss status holding registers.
pub fn caches(m: &Machine, bytes: u64) -> Result<Standalone, ConfigError> {
    let hart = m.hart()?;
    let first = (hart.l1i, hart.l1d);
    let harts = m.config.harts as usize;
    Ok(Standalone::new(harts, first, &levels(&m.config), bytes))
}

/// A table of a core description as the parameters that it names.
fn known<T: DeserializeOwned>(
    core: &CoreConfig,
    table: serde_json::Value,
) -> Result<T, ConfigError> {
    serde_json::from_value(table).map_err(|e| ConfigError::Core {
        core: core.name.clone(),
        problem: e.to_string(),
    })
}
