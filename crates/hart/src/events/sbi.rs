//! Events of the Supervisor Binary Interface, through which kernels name ours. (SBI specification 2.0, PMU extension.)

/// An event of RISC-V's Supervisor Binary Interface (PMU extension, hardware and cache events), and ours that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SbiEvent {
    /// `event_idx` of the SBI.
    pub index: u32,
    /// As `perf` calls it.
    pub name: &'static str,
    /// Code of our event.
    pub code: u16,
}

const fn sbi(index: u32, name: &'static str, code: u16) -> SbiEvent {
    SbiEvent { index, name, code }
}

/// Events that every machine has.
static SBI: &[SbiEvent] = &[
    sbi(0x1, "cycles", 0x0102),
    sbi(0x2, "instructions", 0x0103),
    sbi(0x5, "branches", 0x0107),
    sbi(0x6, "branch-misses", 0x0109),
    sbi(0x9, "stalled-cycles-backend", 0x0110),
    sbi(0xa, "ref-cycles", 0x0101),
    sbi(0x10000, "L1-dcache-loads", 0x0200),
    sbi(0x10001, "L1-dcache-load-misses", 0x0204),
    sbi(0x10002, "L1-dcache-stores", 0x0201),
    sbi(0x10003, "L1-dcache-store-misses", 0x0205),
    sbi(0x10004, "L1-dcache-prefetches", 0x0208),
    sbi(0x10009, "L1-icache-load-misses", 0x0300),
    sbi(0x1000c, "L1-icache-prefetches", 0x0301),
    sbi(0x10018, "dTLB-loads", 0x0200),
    sbi(0x10019, "dTLB-load-misses", 0x0501),
    sbi(0x1001a, "dTLB-stores", 0x0201),
    sbi(0x1001b, "dTLB-store-misses", 0x0502),
    sbi(0x10021, "iTLB-load-misses", 0x0503),
    sbi(0x10028, "branch-loads", 0x0107),
    sbi(0x10029, "branch-load-misses", 0x0109),
];

/// Events of the last level, which is L1D where there is no outer one.
static LAST_IS_L1D: &[SbiEvent] = &[
    sbi(0x3, "cache-references", 0x0200),
    sbi(0x4, "cache-misses", 0x0204),
    sbi(0x10010, "LLC-loads", 0x0200),
    sbi(0x10011, "LLC-load-misses", 0x0204),
    sbi(0x10012, "LLC-stores", 0x0201),
    sbi(0x10013, "LLC-store-misses", 0x0205),
];

/// Offsets from the first code of the last level's group.
static LAST_IS_OUTER: &[SbiEvent] = &[
    sbi(0x3, "cache-references", 0x00),
    sbi(0x4, "cache-misses", 0x02),
    sbi(0x10010, "LLC-loads", LOADS),
    sbi(0x10011, "LLC-load-misses", 0x04),
    sbi(0x10012, "LLC-stores", STORES),
    sbi(0x10013, "LLC-store-misses", 0x06),
    sbi(0x10015, "LLC-prefetch-misses", 0x0c),
];

/// Codes within a level's group: loads and stores that have reached it.
const LOADS: u16 = 0x13;
const STORES: u16 = 0x14;

/// The SBI's events that a machine with so many outer cache levels has, by index.
pub fn sbi_events(levels: usize) -> Vec<SbiEvent> {
    let mut all = SBI.to_vec();
    match levels {
        0 => all.extend(LAST_IS_L1D),
        n => {
            let group = if n == 1 { 0x0600 } else { 0x0700 };
            let of_level = |e: &SbiEvent| sbi(e.index, e.name, group + e.code);
            all.extend(LAST_IS_OUTER.iter().map(of_level));
        }
    }
    all.sort_by_key(|e| e.index);
    all
}
