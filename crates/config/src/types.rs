//! The form of a machine description. Doc comments here are the schema's texts.

use super::cache::LevelConfig;
use super::devices::{BlockConfig, ShareConfig, SlotConfig};
use super::epoch::EpochConfig;
use super::frequency::Frequency;
use super::iomap::IomapConfig;
use super::library;
use super::region::RegionConfig;
use super::size::Size;
use super::stores::{NontemporalConfig, StoreBufferConfig};
use nagori_cache::config::{PrefetchConfig, Prefetcher, Replacement};
use nagori_memtime::{
    mapping::AddressMapping,
    params::{BankTiming, Delays, Refresh, RpTest},
    Method, Period,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine. Keys that a file leaves out have the values of the reference board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MachineConfig {
    /// Short name.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// Where its numbers come from.
    pub source: String,
    /// Number of harts, 1 to 16.
    pub harts: u32,
    /// Core clock in Hz, 1 Hz to 1 THz, or text such as "3 GHz" or "200/3 MHz".
    pub clock_hz: Frequency,
    /// Clock of the `time` CSR in the same form; not faster than the core clock. The device tree has
    /// the nearest whole number of Hz.
    pub timebase_hz: Frequency,
    /// Extensions in lower case: i, m, a, f, d, c, zicsr, zifencei, zicntr, zihpm, zicbom, zicboz,
    /// zicbop, zihintpause, zihintntl, zicond, zacas, zba, zbb, zbs, sscofpmf, sstc, svadu, and
    /// xcflush (cflush.d.l1). Instructions of others are illegal, and their CSRs do not exist; i and
    /// zicsr cannot be left out.
    pub isa: Vec<String>,
    /// Bits of the address-space identifier, 0 to 16.
    pub asid_bits: u32,
    /// Physical memory protection entries: 0 or 16.
    pub pmp_entries: u32,
    /// Debug triggers of a hart (Sdtrig, type mcontrol6), 0 to 16; without any, `tselect` and the
    /// other trigger registers do not exist.
    pub triggers: u32,
    /// Core description: a name, or a path relative to this file.
    pub core: String,
    /// Core cycles that the hub between the cores adds to an L1 miss.
    pub hub_cycles: u32,
    /// Delay method in force after reset.
    pub method: Method,
    /// Longest turn of a hart in timed mode while some hart runs a kernel, in core cycles, before
    /// the scheduler looks again. It only affects the host's speed: no result depends on it.
    pub quantum_cycles: u32,
    /// Core cycles by which a hart may run ahead of the others in functional mode. It determines
    /// the order of their instructions, since there is no timing model.
    pub functional_quantum_cycles: u32,
    /// As `quantum_cycles`, while all harts run programs and none a kernel.
    pub run_ahead_cycles: u32,
    /// Core cycles of an instruction in functional mode.
    pub functional_cpi: u32,
    /// Seed of everything random in the machine.
    pub seed: u64,
    /// Unix time in seconds that the real-time clock shows when the machine starts. Where it is left
    /// out, a boot of a guest image takes the image's date.
    pub rtc_epoch: u64,
    /// Whether there is a watchdog timer, that of Allwinner's D1, for which Debian's kernel has a driver (`sunxi_wdt`).
    pub watchdog: bool,
    /// Whether the device tree advertises Zicbom and its block size, so that the kernel flushes.
    pub advertise_zicbom: bool,
    /// Whether statistics have the events of hardware counters by privilege. Instructions by kind
    /// are among them only while a counter selects such an event.
    pub count_by_privilege: bool,
    /// Whether markers, hints by which programs without privileges control statistics, method and
    /// the run, have an effect; otherwise they are no-ops.
    pub markers: bool,
    /// First-level data cache.
    pub l1d: CacheConfig,
    /// First-level instruction cache.
    pub l1i: CacheConfig,
    /// Outer cache levels, by name. In a file they can also be written as a list: `[[cache]]`
    /// tables with a `name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cache: BTreeMap<String, LevelConfig>,
    /// Store buffer of each hart.
    #[serde(skip_serializing_if = "StoreBufferConfig::is_default")]
    pub store_buffer: StoreBufferConfig,
    /// What accesses under hints of Zihintntl do; by default what all others do.
    #[serde(skip_serializing_if = "NontemporalConfig::is_default")]
    pub nontemporal: NontemporalConfig,
    /// Data TLB.
    pub dtlb: TlbConfig,
    /// Instruction TLB.
    pub itlb: TlbConfig,
    /// Main memory.
    pub memory: MemoryConfig,
    /// Latencies of the board's bus between the core and the memory controller.
    pub board: BoardConfig,
    /// Devices on virtio in the order of their addresses, as on QEMU's `virt`: at most 8 of block,
    /// net, share, console, entropy, each optionally with a name after a colon (`share:data`). Host
    /// resources are connected when the machine is run. The entropy source, which every machine
    /// has, comes after all slots if it is not named here.
    pub devices: Vec<SlotConfig>,
    /// The table that translates I/O addresses; by default there is none.
    #[serde(skip_serializing_if = "IomapConfig::is_default")]
    pub iomap: IomapConfig,
    /// NVMM that is emulated by epochs; by default it is simulated.
    #[serde(skip_serializing_if = "EpochConfig::is_default")]
    pub epoch: EpochConfig,
    /// How long block devices take.
    pub block: BlockConfig,
    /// How long shares take.
    pub share: ShareConfig,
}

/// A first-level cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Capacity in bytes.
    pub size: Size,
    /// Associativity.
    pub ways: u32,
    /// Line size in bytes; only 64 is supported.
    pub line: u32,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Miss status holding registers, 1 to 64: the maximum of outstanding lines, that of the miss for
    /// which the hart waits and prefetches. Unlimited if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mshrs: Option<u32>,
    /// The prefetcher; `stride` for data only.
    pub prefetcher: Prefetcher,
    /// Maximum of lines that the prefetcher requests at a time, 1 to 16.
    pub degree: u32,
    /// How far ahead of an access the prefetcher requests lines, 1 to 63 lines or strides. At least
    /// the degree, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// Instructions (`stride`, a power of two) or pages (`stream`) that the prefetcher records, 1
    /// to 1024.
    pub prefetch_entries: u32,
    /// How often in a row an instruction must have advanced by its stride, or accesses to a page in
    /// its direction, before lines are prefetched, 1 to 15.
    pub prefetch_confidence: u32,
}

/// A TLB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlbConfig {
    /// Entries for sectors of contiguous 4 KiB pages.
    pub sectors: u32,
    /// Contiguous pages of a sector.
    pub pages_per_sector: u32,
    /// Entries for 2 MiB and 1 GiB pages.
    pub superpage_entries: u32,
}

/// How the guest's kernel sees NVMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expose {
    /// In no node of the device tree; programs map it through /dev/mem.
    Hidden,
    /// As a `pmem-region` node.
    PmemRegion,
    /// As memory of a NUMA node without processors.
    NumaNode,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Which data on its way to NVMM survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PersistenceDomain {
    /// Nothing: writes that wait in the memory controller are lost, too.
    None,
    /// What the memory controller has accepted is written to NVMM; caches are lost.
    Adr,
    /// Caches are written back, too.
    Eadr,
    /// As `adr`, and lines of caches are written back while the stored energy suffices (as CXL's global
    /// persistent flush does): `gpf_lines` of them.
    Gpf,
}

/// Main memory: DRAM from the base to the boundary, NVMM from there to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// First physical address.
    pub base: u64,
    /// Size of DRAM and NVMM together.
    pub size: Size,
    /// Distance of the first NVMM byte from the base, a multiple of the bank size; equal to the size if there is no
    /// NVMM.
    pub nvmm_boundary: Size,
    /// Bytes at the start of memory that the device tree reserves for the firmware (a whole number of
    /// 4 KiB pages, less than the DRAM), and that no kernel is put into. OpenSBI reserves by itself
    /// what it needs; a monitor that needs more says so here.
    pub firmware_reserve: Size,
    /// Number of banks, equal parts of the memory; 8.
    pub banks: u32,
    /// Whether the machine tracks what caches have not written back to NVMM, so that a power cut
    /// can lose it. Costs time on the host.
    pub track_persistence: bool,
    /// What a power cut leaves: `none`, `adr` (what the memory controller has accepted is kept), `eadr` (caches
    /// are written back, too), or `gpf` (as many lines of caches as `gpf_lines` says, by ascending address).
    pub persistence_domain: PersistenceDomain,
    /// With `gpf`: lines of NVMM that are written back when the power fails, at least 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpf_lines: u64,
    /// How the guest's kernel sees NVMM.
    pub expose: Expose,
    /// Bytes at the end of NVMM for the texts of OFF2F programs: a multiple of 2 MiB. No kernel manages them, whatever
    /// `expose` says; a device-tree node of their own says where they are.
    #[serde(skip_serializing_if = "Size::is_zero")]
    pub text_store: Size,
    /// The memory controller: a preset and what differs from it.
    pub controller: ControllerConfig,
    /// Regions that have a memory of their own instead, by name: `dram`, `nvmm`, or any name with base
    /// and size.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub regions: BTreeMap<String, RegionConfig>,
}

/// Memory controller: the parameters of `nagori-memtime`, where the machine
/// supplies capacity, boundary and method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// Preset that supplies every key left out: a name, or a path relative to this file.
    pub preset: String,
    /// Period of the controller's clock, such as "5 ns" or "937.5 ps", or its frequency, such as
    /// "200/3 MHz".
    #[schemars(with = "String")]
    pub clock: Period,
    /// Number of bank machines.
    pub machines: u32,
    /// Bank that is tested for the added tRP: is it NVMM, is its row dirty?
    pub rp_test: RpTest,
    /// Bits of bank, row and column in the offset from the memory's base.
    pub mapping: AddressMapping,
    /// Bank machine timing.
    pub timing: BankTiming,
    /// Added delays.
    pub delays: Delays,
    /// Refresh.
    pub refresh: Refresh,
}

/// Latency of bus and clock crossing, in ps; fitted to published measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BoardConfig {
    /// From the core's read request to its arrival at the controller.
    pub read_request_ps: u64,
    /// From the controller's data to the core.
    pub read_response_ps: u64,
    /// From the core's write request to its arrival at the controller.
    pub write_request_ps: u64,
    /// From the controller's acceptance of a write to its acknowledgement at the core.
    pub write_ack_ps: u64,
}

/// A core description: `cores/*.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Short name.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// Where its numbers come from.
    pub source: String,
    /// Pipeline costs by name.
    pub timing: BTreeMap<String, CoreValue>,
    /// Branch predictor geometry by name.
    pub predictor: BTreeMap<String, CoreValue>,
    /// Which instructions issue in one cycle: for each class, the pipes that execute it (1, 2, or 3: either; 0: alone).
    /// A core without this table issues one instruction a cycle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pipes: BTreeMap<String, CoreValue>,
}

/// One number of a core description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreValue {
    /// Core cycles in `timing`, a count in `predictor`.
    pub value: u32,
    /// What it means, or how it follows from the measurement.
    #[serde(default)]
    pub note: String,
    /// The measurement it comes from, if it is another than the file's.
    #[serde(default)]
    pub source: String,
}

impl Default for MachineConfig {
    fn default() -> Self {
        MachineConfig {
            name: String::new(),
            description: String::new(),
            source: String::new(),
            harts: library::reference("harts"),
            clock_hz: library::reference("clock_hz"),
            timebase_hz: library::reference("timebase_hz"),
            isa: library::reference("isa"),
            asid_bits: library::reference("asid_bits"),
            pmp_entries: library::reference("pmp_entries"),
            triggers: library::reference("triggers"),
            core: library::reference("core"),
            hub_cycles: library::reference("hub_cycles"),
            method: library::reference("method"),
            quantum_cycles: 10_000,
            run_ahead_cycles: 10_000,
            count_by_privilege: false,
            markers: true,
            functional_quantum_cycles: 10_000,
            functional_cpi: 1,
            seed: 1,
            // 2026-10-01, when Debian 13 was at its seventh update.
            rtc_epoch: 1_790_812_800,
            watchdog: false,
            advertise_zicbom: library::reference("advertise_zicbom"),
            l1d: CacheConfig::default(),
            l1i: CacheConfig::default(),
            cache: BTreeMap::new(),
            store_buffer: StoreBufferConfig::default(),
            nontemporal: NontemporalConfig::default(),
            dtlb: TlbConfig::default(),
            itlb: TlbConfig::default(),
            memory: MemoryConfig::default(),
            board: BoardConfig::default(),
            devices: Vec::new(),
            iomap: IomapConfig::default(),
            epoch: EpochConfig::default(),
            block: BlockConfig::default(),
            share: ShareConfig::default(),
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        let prefetch = PrefetchConfig::default();
        CacheConfig {
            size: library::reference("l1d.size"),
            ways: library::reference("l1d.ways"),
            line: library::reference("l1d.line"),
            replacement: library::reference("l1d.replacement"),
            mshrs: None,
            prefetcher: prefetch.prefetcher,
            degree: prefetch.degree,
            distance: None,
            prefetch_entries: prefetch.entries,
            prefetch_confidence: prefetch.confidence,
        }
    }
}

impl CacheConfig {
    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.size.0 / (u64::from(self.ways) * u64::from(self.line))
    }

    /// Its prefetcher.
    pub fn prefetch(&self) -> PrefetchConfig {
        PrefetchConfig {
            prefetcher: self.prefetcher,
            degree: self.degree,
            distance: self.distance.unwrap_or(self.degree),
            entries: self.prefetch_entries,
            confidence: self.prefetch_confidence,
        }
    }
}

impl Default for TlbConfig {
    fn default() -> Self {
        TlbConfig {
            sectors: library::reference("dtlb.sectors"),
            pages_per_sector: library::reference("dtlb.pages_per_sector"),
            superpage_entries: library::reference("dtlb.superpage_entries"),
        }
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig {
            base: library::reference("memory.base"),
            size: library::reference("memory.size"),
            nvmm_boundary: library::reference("memory.nvmm_boundary"),
            firmware_reserve: Size(0),
            banks: library::reference("memory.banks"),
            track_persistence: false,
            persistence_domain: PersistenceDomain::Adr,
            gpf_lines: 0,
            expose: library::reference("memory.expose"),
            text_store: Size(0),
            controller: ControllerConfig::shipped(library::DEFAULT_CONTROLLER),
            regions: BTreeMap::new(),
        }
    }
}

impl Default for BoardConfig {
    fn default() -> Self {
        BoardConfig {
            read_request_ps: library::reference("board.read_request_ps"),
            read_response_ps: library::reference("board.read_response_ps"),
            write_request_ps: library::reference("board.write_request_ps"),
            write_ack_ps: library::reference("board.write_ack_ps"),
        }
    }
}

impl ControllerConfig {
    /// One of the presets that are part of the program.
    fn shipped(name: &str) -> ControllerConfig {
        let text = library::embedded("controllers", name).expect("a shipped preset");
        let mut table: toml::Table = toml::from_str(text).expect("shipped presets are tested");
        for key in super::PRESET_TEXT_KEYS {
            table.remove(*key);
        }
        table.insert("preset".into(), name.into());
        table.try_into().expect("shipped presets are tested")
    }
}
