//! The registers as data. All are 64 bits wide.

/// Harts that have statistics registers.
pub const HARTS: u64 = nagori_config::MAX_HARTS as u64;
/// Banks that have statistics registers.
pub const MAX_BANKS: u64 = nagori_memtime::mapping::MAX_BANKS as u64;
/// Buckets of a latency histogram.
pub const LATENCY_BUCKETS: u64 = nagori_memtime::stats::BUCKETS as u64;

/// First register of the DRAM block; NVMM follows at [`STRIDE`].
pub(super) const REGION_BASE: u64 = 0x1000;
/// First register of bank 0.
pub(super) const BANK_BASE: u64 = 0x2000;
/// First register of hart 0.
pub(super) const HART_BASE: u64 = 0x4000;
/// Histogram of DRAM reads; DRAM writes, NVMM reads and NVMM writes follow.
pub(super) const LATENCY_BASE: u64 = 0x8000;
/// Distance between the blocks of regions, banks and harts.
pub(super) const STRIDE: u64 = 0x100;
/// Distance between the histograms.
pub(super) const LATENCY_STRIDE: u64 = 0x200;
/// In a histogram: number of latencies, their sum, and the first bucket.
pub(super) const LATENCY_COUNT: u64 = 0;
pub(super) const LATENCY_SUM: u64 = 8;
pub(super) const LATENCY_FIRST_BUCKET: u64 = 0x100;

/// What a guest may do with a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Registers that exist once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // described in FIXED
pub enum Fixed {
    Magic,
    Version,
    Error,
    ErrorOffset,
    ErrorValue,
    ErrorCount,
    Harts,
    Banks,
    MemoryBase,
    MemorySize,
    ClockPs,
    CoreHz,
    Method,
    TimingMode,
    NvmmBoundary,
    NvmmSize,
    CoarseRead,
    CoarseWrite,
    AddedRcd,
    AddedRp,
    AddedRas,
    BaseWait,
    BaseRcd,
    BaseRas,
    BaseRtp,
    BaseWtp,
    BaseRp,
    RefreshInterval,
    RefreshDuration,
    StatsControl,
    Label,
    TimeNs,
    StatsFromNs,
    Clocks,
    Refreshes,
    RefreshTicksLost,
    WarmUp,
    HostRequest,
    SpaceName,
    LabelText,
    MemorySet,
    IomapKind,
    IomapPlaces,
    IomapTable,
    IomapPlace,
    IomapVm,
    IomapFrom,
    IomapTo,
    IomapSizeLog2,
    IomapRights,
    IomapCommand,
    IomapHits,
    IomapDenied,
    IomapVmHits,
    IomapVmDenied,
    IomapVmMisses,
    IomapMisses,
    IomapMissVm,
    IomapMissAddr,
    IomapHart,
    IomapHartVm,
    IomapDevice,
    IomapDeviceVm,
}

/// First register of the I/O table, and the first offset behind all that it may have.
const IOMAP_BASE: u64 = 0x300;
const IOMAP_END: u64 = 0x400;

impl Fixed {
    /// Whether it belongs to the table of I/O addresses, which only machine mode sets.
    pub fn is_iomap(self) -> bool {
        let row = FIXED.iter().find(|r| r.reg == self);
        row.is_some_and(|r| (IOMAP_BASE..IOMAP_END).contains(&r.offset))
    }
}

/// A register that exists once.
#[derive(Debug, Clone, Copy)]
pub struct FixedRow {
    /// Which.
    pub reg: Fixed,
    /// Offset in the block.
    pub offset: u64,
    /// Name in the header.
    pub name: &'static str,
    /// What a guest may do.
    pub access: Access,
    /// What the value counts.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

const fn ro(
    reg: Fixed,
    offset: u64,
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> FixedRow {
    FixedRow {
        reg,
        offset,
        name,
        access: Access::Read,
        unit,
        doc,
    }
}

const fn rw(
    reg: Fixed,
    offset: u64,
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> FixedRow {
    FixedRow {
        reg,
        offset,
        name,
        access: Access::ReadWrite,
        unit,
        doc,
    }
}

/// Registers that exist once, by offset.
pub const FIXED: &[FixedRow] = &[
    ro(Fixed::Magic, 0x000, "ID", "", "\"NAGORI\" in ASCII, little-endian: tells this machine from others"),
    ro(Fixed::Version, 0x008, "VERSION", "", "Version of this layout"),
    rw(Fixed::Error, 0x010, "ERROR", "", "Why the last rejected write was rejected, 0 if none was; writing anything \
        clears it"),
    ro(Fixed::ErrorOffset, 0x018, "ERROR_OFFSET", "bytes", "Offset of the last rejected write"),
    ro(Fixed::ErrorValue, 0x020, "ERROR_VALUE", "", "Value of the last rejected write"),
    ro(Fixed::ErrorCount, 0x028, "ERROR_COUNT", "", "Rejected writes since reset"),
    ro(Fixed::Harts, 0x030, "HARTS", "", "Number of harts"),
    ro(Fixed::Banks, 0x038, "BANKS", "", "Number of memory banks"),
    ro(Fixed::MemoryBase, 0x040, "MEMORY_BASE", "address", "First physical address of memory"),
    ro(Fixed::MemorySize, 0x048, "MEMORY_SIZE", "bytes", "Size of DRAM and NVMM together"),
    ro(Fixed::ClockPs, 0x050, "CLOCK_PS", "ps", "Period of the memory controller's clock"),
    ro(Fixed::CoreHz, 0x058, "CORE_HZ", "Hz", "Clock of the cores"),
    rw(Fixed::Method, 0x100, "METHOD", "", "Delay method of NVMM"),
    rw(Fixed::TimingMode, 0x108, "TIMED", "", "0: functional, every instruction takes the same time; 1: timed"),
    rw(Fixed::NvmmBoundary, 0x110, "NVMM_BASE", "address", "First physical address of NVMM, a multiple of the bank \
        size; the end of memory if there is none"),
    ro(
        Fixed::NvmmSize,
        0x118,
        "NVMM_SIZE",
        "bytes",
        "Size of NVMM, from NVMM_BASE to the end of memory",
    ),
    rw(Fixed::CoarseRead, 0x120, "COARSE_READ", "clocks", "coarse: hold of a read request to NVMM"),
    rw(Fixed::CoarseWrite, 0x128, "COARSE_WRITE", "clocks", "coarse: hold of a write request to NVMM"),
    rw(Fixed::AddedRcd, 0x130, "ADDED_RCD", "clocks", "fine, extended: added to tRCD of NVMM banks"),
    rw(Fixed::AddedRp, 0x138, "ADDED_RP", "clocks", "fine, extended: added to tRP of NVMM banks after a dirty row"),
    rw(Fixed::AddedRas, 0x140, "ADDED_RAS", "clocks", "extended: added to tRAS of NVMM banks"),
    rw(Fixed::BaseWait, 0x180, "BASE_WAIT", "clocks", "Acceptance of a request to its earliest activation"),
    rw(Fixed::BaseRcd, 0x188, "BASE_RCD", "clocks", "tRCD: activation to column command"),
    rw(Fixed::BaseRas, 0x190, "BASE_RAS", "clocks", "tRAS: activation to precharge"),
    rw(Fixed::BaseRtp, 0x198, "BASE_RTP", "clocks", "tRTP: read column command to precharge"),
    rw(Fixed::BaseWtp, 0x1a0, "BASE_WTP", "clocks", "tWTP: write column command to precharge"),
    rw(Fixed::BaseRp, 0x1a8, "BASE_RP", "clocks", "tRP: precharge to activation"),
    rw(Fixed::RefreshInterval, 0x1b0, "REFRESH_INTERVAL", "clocks", "tREFI: time between refreshes"),
    rw(Fixed::RefreshDuration, 0x1b8, "REFRESH_DURATION", "clocks", "tRFC: length of a refresh"),
    rw(Fixed::StatsControl, 0x200, "STATS_CONTROL", "", "Writing 1 resets all statistics, 2 makes the host dump the \
        statistics under LABEL; reads as 0"),
    rw(Fixed::Label, 0x208, "LABEL", "", "The guest's label, recorded with dumps of statistics and with snapshots"),
    ro(Fixed::TimeNs, 0x210, "TIME_NS", "ns", "Machine time"),
    ro(Fixed::StatsFromNs, 0x218, "STATS_FROM_NS", "ns", "Machine time of the last reset of the statistics"),
    ro(Fixed::Clocks, 0x220, "CLOCKS", "clocks", "Clocks of the memory controller since the machine's start"),
    ro(Fixed::Refreshes, 0x228, "REFRESHES", "", "Refreshes of all banks"),
    ro(Fixed::RefreshTicksLost, 0x230, "REFRESH_TICKS_LOST", "", "Refresh ticks that found another one pending"),
    rw(Fixed::WarmUp, 0x238, "WARM_UP", "instructions", "Instructions of all harts after the next switch to timed mode \
        that warm caches before the statistics are reset; 0: no warm-up and no reset"),
    rw(Fixed::HostRequest, 0x240, "HOST_REQUEST", "", "Writing 1 requests a snapshot of the whole machine, with LABEL; \
        the host takes it if it was started with --snapshot. The guest continues after the write. Reads as 0"),
    rw(Fixed::SpaceName, 0x248, "SPACE_NAME", "", "Writing up to 8 printable ASCII characters, the first one lowest, \
        names the writer's address space (satp) in profiles; reads as 0"),
    rw(Fixed::LabelText, 0x250, "LABEL_TEXT", "", "Writing up to 8 printable ASCII characters, the first one lowest, \
        adds them to the text of LABEL, at most 64; writing LABEL begins a new one. Kept with snapshots; reads as 0"),
    rw(Fixed::MemorySet, 0x258, "MEMORY_SET", "", "Writing 1 changes a value of a region's own memory: the text of \
        LABEL is REGION.KEY=VALUE, as below memory.regions in the machine's description; reads as 0"),
    ro(Fixed::IomapKind, 0x300, "IOMAP_KIND", "", "Kind of the I/O table: 0 none, 1 constant, 2 full; small with the \
        replacement 3 LRU, 4 FIFO, 5 random, 6 by software. The registers IOMAP_* are set by machine mode only"),
    ro(Fixed::IomapPlaces, 0x308, "IOMAP_PLACES", "", "Entries that there is place for"),
    rw(Fixed::IomapTable, 0x310, "IOMAP_TABLE", "", "Table that the other registers are about: 0 that of the harts, 1 \
        that of the devices"),
    rw(Fixed::IomapPlace, 0x318, "IOMAP_PLACE", "", "Place of an entry, from 0 on"),
    rw(Fixed::IomapVm, 0x320, "IOMAP_VM", "", "Entry: number of the VM, below 65536"),
    rw(Fixed::IomapFrom, 0x328, "IOMAP_FROM", "address", "Entry: first address that the VM (or its device) uses"),
    rw(Fixed::IomapTo, 0x330, "IOMAP_TO", "address", "Entry: first address on the bus (or in memory)"),
    rw(Fixed::IomapSizeLog2, 0x338, "IOMAP_SIZE_LOG2", "", "Entry: logarithm of the size to the base 2, from 2 on"),
    rw(Fixed::IomapRights, 0x340, "IOMAP_RIGHTS", "", "Entry: bit 0 permits reads, bit 1 writes"),
    rw(Fixed::IomapCommand, 0x348, "IOMAP_COMMAND", "", "Writing 1 puts the entry at IOMAP_PLACE, 2 where the table \
        chooses (IOMAP_PLACE then says where), 3 empties IOMAP_PLACE, 4 shows what is there (of size 0 if nothing is); \
        reads as 0"),
    ro(Fixed::IomapHits, 0x350, "IOMAP_HITS", "", "Accesses that the entry at IOMAP_PLACE has translated"),
    ro(Fixed::IomapDenied, 0x358, "IOMAP_DENIED", "", "Accesses that it has refused for want of the right"),
    ro(Fixed::IomapVmHits, 0x360, "IOMAP_VM_HITS", "", "Accesses of the VM IOMAP_VM that were translated"),
    ro(Fixed::IomapVmDenied, 0x368, "IOMAP_VM_DENIED", "", "Accesses of that VM that were refused for want of the \
        right"),
    ro(Fixed::IomapVmMisses, 0x370, "IOMAP_VM_MISSES", "", "Accesses of that VM that no entry covers"),
    ro(Fixed::IomapMisses, 0x378, "IOMAP_MISSES", "", "Accesses of all VMs that no entry covers"),
    ro(Fixed::IomapMissVm, 0x380, "IOMAP_MISS_VM", "", "VM of the latest of them; all ones if there was none"),
    ro(Fixed::IomapMissAddr, 0x388, "IOMAP_MISS_ADDR", "address", "Its address; all ones if there was none"),
    rw(Fixed::IomapHart, 0x390, "IOMAP_HART", "", "Hart that the next register is about"),
    rw(Fixed::IomapHartVm, 0x398, "IOMAP_HART_VM", "", "VM that the hart runs; 0 at reset"),
    rw(Fixed::IomapDevice, 0x3a0, "IOMAP_DEVICE", "", "Device that the next register is about, by its interrupt \
        source"),
    rw(Fixed::IomapDeviceVm, 0x3a8, "IOMAP_DEVICE_VM", "", "VM to which the device belongs; 0 at reset"),
];

/// Statistics of a memory region or bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // described in MEM_STATS
pub enum MemStat {
    Reads,
    Writes,
    ReadBytes,
    WriteBytes,
    RowHits,
    BankSwitches,
    Activations,
    PrechargesClean,
    PrechargesDirty,
    Refreshes,
}

/// A register of a region's or bank's block; all are read-only.
#[derive(Debug, Clone, Copy)]
pub struct MemStatRow {
    /// Which.
    pub stat: MemStat,
    /// Offset in the region's or bank's block.
    pub offset: u64,
    /// Name in the header.
    pub name: &'static str,
    /// What the value counts.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

const fn mem(
    stat: MemStat,
    offset: u64,
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> MemStatRow {
    MemStatRow {
        stat,
        offset,
        name,
        unit,
        doc,
    }
}

/// Statistics of a region or bank, by offset.
pub const MEM_STATS: &[MemStatRow] = &[
    mem(MemStat::Reads, 0x00, "READS", "", "Read requests"),
    mem(MemStat::Writes, 0x08, "WRITES", "", "Write requests"),
    mem(
        MemStat::ReadBytes,
        0x10,
        "READ_BYTES",
        "bytes",
        "Bytes of the read requests",
    ),
    mem(
        MemStat::WriteBytes,
        0x18,
        "WRITE_BYTES",
        "bytes",
        "Bytes of the write requests",
    ),
    mem(
        MemStat::RowHits,
        0x20,
        "ROW_HITS",
        "",
        "Requests that took over an open row",
    ),
    mem(
        MemStat::BankSwitches,
        0x28,
        "BANK_SWITCHES",
        "",
        "Requests whose bank differs from that of the request \
        before; over all requests this is BANK_PARA",
    ),
    mem(
        MemStat::Activations,
        0x30,
        "ACTIVATIONS",
        "",
        "Activations; over all requests this is ACT/REQ",
    ),
    mem(
        MemStat::PrechargesClean,
        0x38,
        "PRECHARGES_CLEAN",
        "",
        "Precharges of rows that were not written",
    ),
    mem(
        MemStat::PrechargesDirty,
        0x40,
        "PRECHARGES_DIRTY",
        "",
        "Precharges of written rows",
    ),
    mem(MemStat::Refreshes, 0x48, "REFRESHES", "", "Refreshes"),
];

/// Statistics of a hart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // described in HART_STATS
pub enum HartStat {
    Instructions,
    Cycles,
    L1dLoadMisses,
    L1dStoreMisses,
    L1dWalkMisses,
    L1dUpgrades,
    L1dWritebacks,
    L1dFlushes,
    Probes,
    L1iMisses,
    DtlbMisses,
    ItlbMisses,
    Mispredicts,
    MemoryStallCycles,
    Exceptions,
    Interrupts,
    IdleCycles,
}

/// A register of a hart's block; all are read-only.
#[derive(Debug, Clone, Copy)]
pub struct HartStatRow {
    /// Which.
    pub stat: HartStat,
    /// Offset in the hart's block.
    pub offset: u64,
    /// Name in the header.
    pub name: &'static str,
    /// What the value counts.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

const fn hart(
    stat: HartStat,
    offset: u64,
    name: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> HartStatRow {
    HartStatRow {
        stat,
        offset,
        name,
        unit,
        doc,
    }
}

/// Statistics of a hart, by offset.
pub const HART_STATS: &[HartStatRow] = &[
    hart(
        HartStat::Instructions,
        0x00,
        "INSTRUCTIONS",
        "",
        "Retired instructions",
    ),
    hart(
        HartStat::Cycles,
        0x08,
        "CYCLES",
        "core cycles",
        "Cycles, idle ones included",
    ),
    hart(
        HartStat::L1dLoadMisses,
        0x10,
        "L1D_LOAD_MISSES",
        "",
        "L1D misses of loads",
    ),
    hart(
        HartStat::L1dStoreMisses,
        0x18,
        "L1D_STORE_MISSES",
        "",
        "L1D misses of stores and atomics",
    ),
    hart(
        HartStat::L1dWalkMisses,
        0x20,
        "L1D_WALK_MISSES",
        "",
        "L1D misses of page walks",
    ),
    hart(
        HartStat::L1dUpgrades,
        0x28,
        "L1D_UPGRADES",
        "",
        "Lines that were present and had to be made writable",
    ),
    hart(
        HartStat::L1dWritebacks,
        0x30,
        "L1D_WRITEBACKS",
        "",
        "Dirty lines written back on replacement",
    ),
    hart(
        HartStat::L1dFlushes,
        0x38,
        "L1D_FLUSHES",
        "",
        "Dirty lines written back by flush and clean instructions",
    ),
    hart(
        HartStat::Probes,
        0x40,
        "PROBES",
        "",
        "Dirty lines of other caches written back for this hart",
    ),
    hart(HartStat::L1iMisses, 0x48, "L1I_MISSES", "", "L1I misses"),
    hart(
        HartStat::DtlbMisses,
        0x50,
        "DTLB_MISSES",
        "",
        "Data TLB misses",
    ),
    hart(
        HartStat::ItlbMisses,
        0x58,
        "ITLB_MISSES",
        "",
        "Instruction TLB misses",
    ),
    hart(
        HartStat::Mispredicts,
        0x60,
        "MISPREDICTS",
        "",
        "Mispredicted branches and jumps",
    ),
    hart(
        HartStat::MemoryStallCycles,
        0x68,
        "MEMORY_STALL_CYCLES",
        "core cycles",
        "Cycles spent waiting for lines",
    ),
    hart(
        HartStat::Exceptions,
        0x70,
        "EXCEPTIONS",
        "",
        "Exceptions taken",
    ),
    hart(
        HartStat::Interrupts,
        0x78,
        "INTERRUPTS",
        "",
        "Interrupts taken",
    ),
    hart(
        HartStat::IdleCycles,
        0x80,
        "IDLE_CYCLES",
        "core cycles",
        "Cycles spent in wfi",
    ),
];

/// Any register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reg {
    /// One that exists once.
    Fixed(Fixed),
    /// Statistics of a region: 0 is DRAM, 1 NVMM.
    Region(u8, MemStat),
    /// Statistics of a bank.
    Bank(u8, MemStat),
    /// Statistics of a hart.
    Hart(u8, HartStat),
    /// Number of latencies in a histogram.
    LatencyCount {
        /// 0 is DRAM, 1 NVMM.
        region: u8,
        /// Writes, not reads.
        write: bool,
    },
    /// Sum of the latencies in a histogram, in ns.
    LatencySum {
        /// 0 is DRAM, 1 NVMM.
        region: u8,
        /// Writes, not reads.
        write: bool,
    },
    /// Latencies of 2^bucket up to 2^(bucket+1) ns.
    LatencyBucket {
        /// 0 is DRAM, 1 NVMM.
        region: u8,
        /// Writes, not reads.
        write: bool,
        /// Bucket; the first counts from 0 ns, the last has no end.
        bucket: u8,
    },
}

/// Index and rest of an offset in an array of blocks.
fn block(offset: u64, base: u64, stride: u64, count: u64) -> Option<(u8, u64)> {
    let rest = offset.checked_sub(base)?;
    (rest / stride < count).then_some(((rest / stride) as u8, rest % stride))
}

impl Reg {
    /// The register at an offset, a multiple of 8.
    pub fn at(offset: u64) -> Option<Reg> {
        let mem = |at: u64| MEM_STATS.iter().find(|r| r.offset == at).map(|r| r.stat);
        if let Some(row) = FIXED.iter().find(|r| r.offset == offset) {
            return Some(Reg::Fixed(row.reg));
        }
        if let Some((n, at)) = block(offset, REGION_BASE, STRIDE, 2) {
            return mem(at).map(|stat| Reg::Region(n, stat));
        }
        if let Some((n, at)) = block(offset, BANK_BASE, STRIDE, MAX_BANKS) {
            return mem(at).map(|stat| Reg::Bank(n, stat));
        }
        if let Some((n, at)) = block(offset, HART_BASE, STRIDE, HARTS) {
            let row = HART_STATS.iter().find(|r| r.offset == at)?;
            return Some(Reg::Hart(n, row.stat));
        }
        let (n, at) = block(offset, LATENCY_BASE, LATENCY_STRIDE, 4)?;
        let (region, write) = (n / 2, n % 2 == 1);
        match at {
            LATENCY_COUNT => Some(Reg::LatencyCount { region, write }),
            LATENCY_SUM => Some(Reg::LatencySum { region, write }),
            _ => {
                let (bucket, 0) = block(at, LATENCY_FIRST_BUCKET, 8, LATENCY_BUCKETS)? else {
                    return None;
                };
                Some(Reg::LatencyBucket {
                    region,
                    write,
                    bucket,
                })
            }
        }
    }

    /// What a guest may do with it.
    pub fn access(self) -> Access {
        match self {
            Reg::Fixed(fixed) => FIXED
                .iter()
                .find(|r| r.reg == fixed)
                .map_or(Access::Read, |r| r.access),
            _ => Access::Read,
        }
    }
}

/// Values of the register IOMAP_COMMAND.
pub mod iomap_command {
    /// Writes the entry at IOMAP_PLACE.
    pub const WRITE: u64 = 1;
    /// Writes it at a place that the table chooses, which IOMAP_PLACE then names.
    pub const FILL: u64 = 2;
    /// Empties IOMAP_PLACE.
    pub const EMPTY: u64 = 3;
    /// Puts the entry at IOMAP_PLACE into the registers of an entry; the size is 0 if there is none.
    pub const SHOW: u64 = 4;
}
