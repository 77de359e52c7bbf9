//! What follows from a description.

use super::cache::LevelConfig;
use super::region::{Region, RegionConfig, DRAM, NVMM};
use super::types::{CoreConfig, CoreValue, MachineConfig, MemoryConfig};
use nagori_memtime::params::BoardParams;
use nagori_memtime::{Method, Period};
use std::collections::BTreeMap;

impl MachineConfig {
    /// Period of the core clock; the description has been checked.
    pub fn core_period(&self) -> Period {
        self.clock_hz.period().expect("a checked description")
    }

    /// Levels of caches behind the first with their names, from the nearest to the cores on.
    pub fn levels(&self) -> Vec<(&str, &LevelConfig)> {
        let mut all: Vec<_> = self.cache.iter().map(|(n, l)| (n.as_str(), l)).collect();
        all.sort_by_key(|(_, l)| l.level);
        all
    }

    /// Period of the `time` CSR; the description has been checked.
    pub fn timebase(&self) -> Period {
        self.timebase_hz.period().expect("a checked description")
    }

    /// The bit of a cache among those of a hint: 0 for `l1d`, k for the kth outer level.
    pub fn cache_bit(&self, name: &str) -> Option<u32> {
        let levels = self.levels().into_iter().map(|(n, _)| n);
        let mut all = std::iter::once("l1d").chain(levels);
        all.position(|n| n == name).map(|i| i as u32)
    }

    /// Regions with a memory of their own, by address.
    pub fn regions(&self) -> Vec<Region<'_>> {
        let m = &self.memory;
        let mut all: Vec<_> = m.regions.iter().map(|(n, r)| m.region(n, r)).collect();
        all.sort_by_key(|r| r.base);
        all
    }

    /// The machine on which epochs emulate NVMM: it costs what DRAM costs, in a memory of its own if DRAM has one.
    pub fn with_nvmm_as_dram(&self) -> MachineConfig {
        let mut like = self.clone();
        like.method = Method::Dram;
        like.epoch.variant = None;
        let boundary = self.memory.nvmm_boundary.0;
        let dram = self.memory.regions.get(DRAM);
        for r in self.regions().iter().filter(|r| r.base >= boundary) {
            like.memory.regions.remove(r.name);
            if let Some(dram) = dram {
                let place = RegionConfig {
                    base: r.config.base,
                    size: r.config.size,
                    ..dram.clone()
                };
                like.memory.regions.insert(r.name.to_owned(), place);
            }
        }
        like
    }

    /// The memory controller's parameters, complete and checked.
    pub fn controller_params(&self) -> BoardParams {
        let c = self.memory.controller.clone();
        BoardParams {
            clock: c.clock,
            capacity: self.memory.size.0,
            mapping: c.mapping,
            nvmm_base: self.memory.nvmm_boundary.0,
            machines: c.machines,
            method: self.method,
            rp_test: c.rp_test,
            timing: c.timing,
            delays: c.delays,
            refresh: c.refresh,
        }
    }
}

impl MemoryConfig {
    fn region<'a>(&self, name: &'a str, config: &'a RegionConfig) -> Region<'a> {
        let boundary = self.nvmm_boundary.0;
        let (base, size) = match name {
            DRAM => (0, boundary),
            NVMM => (boundary, self.size.0.saturating_sub(boundary)),
            _ => (0, 0),
        };
        Region {
            name,
            base: config.base.map_or(base, |b| b.0),
            size: config.size.map_or(size, |s| s.0),
            config,
        }
    }

    /// Bytes of a bank.
    pub fn bank_size(&self) -> u64 {
        self.size.0 / u64::from(self.banks)
    }

    /// First physical address of NVMM; the end of memory if there is none.
    pub fn nvmm_base(&self) -> u64 {
        self.base + self.nvmm_boundary.0
    }

    /// First physical address behind the NVMM that a kernel may manage: the text store's, or the end of memory.
    pub fn managed_end(&self) -> u64 {
        self.end() - self.text_store.0
    }

    /// First physical address after memory.
    pub fn end(&self) -> u64 {
        self.base + self.size.0
    }
}

impl CoreConfig {
    /// The pipeline costs as plain numbers, for a struct with these names as fields.
    pub fn timing_values(&self) -> serde_json::Value {
        values(&self.timing)
    }

    /// The pipes of each class of instructions as plain numbers.
    pub fn pipe_values(&self) -> serde_json::Value {
        values(&self.pipes)
    }

    /// The branch predictor's geometry as plain numbers.
    pub fn predictor_values(&self) -> serde_json::Value {
        values(&self.predictor)
    }
}

fn values(map: &BTreeMap<String, CoreValue>) -> serde_json::Value {
    map.iter()
        .map(|(name, v)| (name.clone(), v.value.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
