//! The parameters of a hart: architecture options, caches, TLBs, core timing.

pub use nagori_cache::config::{
    CacheGeometry, Cached, Drain, FirstConfig, Hint, HintConfig, Inclusion, LevelConfig, Partial,
    PrefetchConfig, Prefetcher, Replacement, StoresConfig,
};
pub use nagori_isa::{Ext, Extensions};
use serde::{Deserialize, Serialize};

/// Geometry of a TLB: sectored entries of contiguous pages, and superpage entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlbGeometry {
    /// Number of sectored entries, a power of two, 1..=8 (tree pseudo-LRU).
    pub sectors: u32,
    /// Contiguous 4 KiB pages in a sector. Only 4 is supported.
    pub pages_per_sector: u32,
    /// Entries for 2 MiB and 1 GiB pages, a power of two, 1..=8.
    pub superpages: u32,
}

/// Branch prediction structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictorGeometry {
    /// Entries of the branch target buffer, 1..=254.
    pub btb_entries: u32,
    /// Entries of the branch history table, a power of two.
    pub bht_entries: u32,
    /// Bits of global history, at most 16.
    pub history_bits: u32,
    /// Bits of the table's index that they are hashed to, at most log2 of the table.
    pub history_hash_bits: u32,
    /// Entries of the return address stack, 1..=64.
    pub ras_entries: u32,
}

/// Costs of the in-order pipeline, in core cycles.
///
/// A latency is the distance from issue of the producer to issue of a dependent
/// consumer (1 = back to back). A penalty is added to the instruction's own cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreTiming {
    /// Latency of word and double-word loads that hit.
    pub load_latency: u32,
    /// Latency of byte and half-word loads that hit (sign extension).
    pub load_sub_word_latency: u32,
    /// Latency of floating-point loads that hit.
    pub fp_load_latency: u32,
    /// Penalty of a load of bytes that a store has not written yet, same 4 KiB offset.
    pub store_load_hazard: u32,
    /// Cycles from a store to the first one in which it is written, unless a load issues then.
    pub store_load_window: u32,
    /// Latency of a multiplication besides one cycle for each byte of rs1.
    pub mul_base: u32,
    /// Latency of a full 64-bit multiplication, and of those for the upper half.
    pub mul_max: u32,
    /// Latency of a full 32-bit multiplication.
    pub mulw_max: u32,
    /// Latency of a division besides one cycle for each step.
    pub div_base: u32,
    /// Latency of a division that skips no step, at most, without changes of sign.
    pub div_max: u32,
    /// Cycles from issue to the write of an integer result; results of multiplication and division wait
    /// for a cycle without one.
    pub writeback: u32,
    /// Latency of single-precision add, multiply, fused multiply-add.
    pub fp_single_latency: u32,
    /// Latency of double-precision add, multiply, fused multiply-add.
    pub fp_double_latency: u32,
    /// Latency of FP moves, conversions, sign injection.
    pub fp_misc_latency: u32,
    /// Latency of FP compares, and of moves and conversions to integers.
    pub fp_to_int_latency: u32,
    /// Cycles from the memory stage to the write of a single-precision result.
    pub fp_single_write: u32,
    /// Cycles from the memory stage to the write of a double-precision result.
    pub fp_double_write: u32,
    /// Cycles from the memory stage to the write of the result of FP moves, conversions, sign injection.
    pub fp_misc_write: u32,
    /// Cycles after which an instruction is tried again that the FPU has refused.
    pub replay: u32,
    /// Cycles of fdiv.s whose dividend has the larger significand, or an equal one.
    pub fdiv_single: u32,
    /// Cycles of fdiv.d whose dividend has the larger significand, or an equal one.
    pub fdiv_double: u32,
    /// Cycles of fsqrt.s of a number with an odd exponent.
    pub fsqrt_single: u32,
    /// Cycles of fsqrt.d of a number with an odd exponent.
    pub fsqrt_double: u32,
    /// Cycles more of an fdiv whose divisor has the larger significand, and of an fsqrt of a number with an even
    /// exponent.
    pub fp_divide_step: u32,
    /// Cycles of fdiv and fsqrt with an operand of zero, infinity, NaN, and of roots of negative numbers.
    pub fp_divide_special: u32,
    /// Latency of an atomic read-modify-write that hits.
    pub amo_latency: u32,
    /// Latency of lr that hits.
    pub lr_latency: u32,
    /// Latency of sc that hits.
    pub sc_latency: u32,
    /// Cycles between accesses to memory on both sides of a fence, of an acquire or a release, at least.
    pub fence_distance: u32,
    /// Cycles of fence.i besides the refetch of its line.
    pub fence_i: u32,
    /// Latency of a CSR read.
    pub csr_read: u32,
    /// Cycles of a CSR access that does not flush the pipeline.
    pub csr_write: u32,
    /// Cycles of a CSR write that flushes the pipeline.
    pub csr_flush: u32,
    /// Cycles of sfence.vma.
    pub sfence_vma: u32,
    /// Cycles from a trapping instruction to the first of the handler.
    pub trap_entry: u32,
    /// Whether ecall and ebreak count as retired: 0 or 1.
    pub trap_retires: u32,
    /// Cycles of mret and sret.
    pub trap_return: u32,
    /// Penalty of a mispredicted branch or jump.
    pub mispredict: u32,
    /// Penalty of a jump whose target the decoder supplies (no BTB entry).
    pub btb_miss_jump: u32,
    /// Packets behind that of a call in which its return is mispredicted: the call is not on the stack
    /// yet.
    pub return_after_call: u32,
    /// Packets that wait for the pipeline when fetches stop.
    pub fetch_queue: u32,
    /// Cycles of an L1I miss that a filled queue hides, at most.
    pub fetch_ahead: u32,
    /// A load or store that misses L1D with a clean victim costs L + this in all
    /// (L: request on the bus to first data).
    pub l1d_miss: u32,
    /// Cycles from the miss to the release of a dirty victim.
    pub release_offset: u32,
    /// A fetch that misses L1I costs L + this.
    pub l1i_miss: u32,
    /// Added to every L1 miss by the coherence hub.
    pub hub: u32,
    /// Cost of a TLB miss whose page-table entries all hit.
    pub tlb_miss: u32,
    /// The part of `tlb_miss` before the walk's first access; the rest follows its last.
    pub tlb_walk: u32,
    /// Cost of each non-leaf level that the page-walk cache does not hold.
    pub ptw_level: u32,
    /// Entries of the page-walk cache.
    pub ptw_cache_entries: u32,
    /// An uncached load with its use costs the latency of its device + this, and a cycle for the use.
    pub mmio: u32,
    /// Latency of a device behind the port for devices: of all but CLINT and PLIC.
    pub mmio_latency: u32,
    /// Latency of the CLINT.
    pub clint_latency: u32,
    /// Latency of the PLIC.
    pub plic_latency: u32,
    /// Cycles of a flush of one line that is absent or clean.
    pub flush_line: u32,
    /// Cycles per line slot of a whole-cache flush.
    pub flush_scan: u32,
    /// Line fill buffers: lines that loads wait for while the hart goes on, until a register is used (1 to 64);
    /// 0: the hart waits for the line of each load. They are the miss status holding registers of L1D.
    #[serde(default)]
    pub lfb: u32,
    /// Which instructions issue together.
    #[serde(default)]
    pub pipes: Pipes,
}

/// Issue of two instructions in a cycle: for each class, the pipes that execute it. Two instructions that follow one
/// another issue together if the second needs no result of the first, and there is a pipe for each.
///
/// Bit 0 and bit 1 of a value stand for the two pipes: 1 and 2 are one of them, 3 is either; 0: it issues alone.
/// All zero, the default, is a core that issues one instruction a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pipes {
    /// Arithmetic, logic, shifts, comparisons of integers; constants.
    pub alu: u8,
    /// Loads, of floating-point numbers too.
    pub load: u8,
    /// Stores, of floating-point numbers too.
    pub store: u8,
    /// Branches and jumps.
    pub branch: u8,
    /// Multiplications of integers.
    pub multiply: u8,
    /// Divisions of integers.
    pub divide: u8,
    /// Floating-point arithmetic, comparisons and conversions, division and root.
    pub float: u8,
    /// Moves between the registers of integers and of floating point.
    pub transfer: u8,
}

impl Pipes {
    /// Whether two instructions can issue in a cycle.
    #[inline]
    pub fn any(&self) -> bool {
        *self != Pipes::default()
    }

    /// Whether every value is one of 0 to 3.
    pub fn valid(&self) -> bool {
        let all = [
            self.alu,
            self.load,
            self.store,
            self.branch,
            self.multiply,
            self.divide,
            self.float,
            self.transfer,
        ];
        all.iter().all(|p| *p <= 3)
    }
}

impl CoreTiming {
    /// Cycles that a load that misses L1D takes behind the first beat of its line, beside those of a hit.
    #[inline(always)]
    pub(crate) fn l1d_penalty(&self) -> u32 {
        (self.l1d_miss + self.hub).saturating_sub(self.load_latency)
    }
}

/// Everything that distinguishes one hart from another kind of hart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HartConfig {
    /// What decodes and which registers exist; [`Ext::Priv`] is added.
    pub isa: Extensions,
    /// Bits of satp.ASID that exist, 0..=16.
    pub asid_bits: u32,
    /// PMP entries, 0, 16 or 64.
    pub pmp_entries: u32,
    /// Debug triggers, 0..=16.
    pub triggers: u32,
    /// Cycles that an instruction takes in functional mode, at least 1.
    pub functional_cpi: u32,
    /// Core cycles that a device access with less than machine mode's privilege takes longer, through a table that
    /// translates its address.
    pub io_table_cycles: u32,
    /// Whether the world is asked before an instruction by which others learn of the hart's progress
    /// ([`World::hands_over`](crate::world::World::hands_over)).
    pub hands_over: bool,
    /// Whether the caches are [plain](crate::lines::Coherence::is_plain), and nobody keeps what memory holds without
    /// them. Saves host time only.
    pub plain: bool,
    /// L1 data cache.
    pub l1d: CacheGeometry,
    /// L1 instruction cache.
    pub l1i: CacheGeometry,
    /// Data TLB.
    pub dtlb: TlbGeometry,
    /// Instruction TLB.
    pub itlb: TlbGeometry,
    /// Branch predictor.
    pub predictor: PredictorGeometry,
    /// Pipeline costs.
    pub timing: CoreTiming,
}

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HartError {
    /// A configuration value outside its range.
    #[error("hart configuration: {key} is {value}: {expected}")]
    Config {
        /// Name of the field.
        key: &'static str,
        /// What it was.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// An extension without another that it cannot be without.
    #[error("hart configuration: extension {ext} needs {needs}")]
    Extension {
        /// Name of the extension.
        ext: &'static str,
        /// Name of what it needs.
        needs: &'static str,
    },
}

impl HartConfig {
    /// Checks every range; the first violation is the error.
    pub fn validate(&self) -> Result<(), HartError> {
        fn check(
            key: &'static str,
            value: u32,
            ok: bool,
            expected: &'static str,
        ) -> Result<(), HartError> {
            if ok {
                Ok(())
            } else {
                Err(HartError::Config {
                    key,
                    value: value as u64,
                    expected,
                })
            }
        }
        // The privileged architecture is there always.
        if let Some((ext, needs)) = self.isa.with(Ext::Priv).unmet() {
            let (ext, needs) = (ext.name(), needs.name());
            return Err(HartError::Extension { ext, needs });
        }
        check("asid_bits", self.asid_bits, self.asid_bits <= 16, "0..=16")?;
        check(
            "pmp_entries",
            self.pmp_entries,
            matches!(self.pmp_entries, 0 | 16 | 64),
            "0, 16 or 64",
        )?;
        check("triggers", self.triggers, self.triggers <= 16, "0..=16")?;
        check(
            "functional_cpi",
            self.functional_cpi,
            (1..=1000).contains(&self.functional_cpi),
            "1..=1000",
        )?;
        for (sets, ways, line, c) in [
            ("l1d.sets", "l1d.ways", "l1d.line", self.l1d),
            ("l1i.sets", "l1i.ways", "l1i.line", self.l1i),
        ] {
            check(line, c.line, c.line == 64, "64 (bytes)")?;
            check(
                sets,
                c.sets,
                c.sets.is_power_of_two() && c.sets <= 64,
                "a power of two, 1..=64",
            )?;
            check(
                ways,
                c.ways,
                c.ways.is_power_of_two() && c.ways <= 16,
                "a power of two, 1..=16",
            )?;
        }
        for (s, p, u, t) in [
            (
                "dtlb.sectors",
                "dtlb.pages_per_sector",
                "dtlb.superpages",
                self.dtlb,
            ),
            (
                "itlb.sectors",
                "itlb.pages_per_sector",
                "itlb.superpages",
                self.itlb,
            ),
        ] {
            check(
                s,
                t.sectors,
                t.sectors.is_power_of_two() && t.sectors <= 8,
                "a power of two, 1..=8",
            )?;
            check(p, t.pages_per_sector, t.pages_per_sector == 4, "4")?;
            check(
                u,
                t.superpages,
                t.superpages.is_power_of_two() && t.superpages <= 8,
                "a power of two, 1..=8",
            )?;
        }
        let p = self.predictor;
        check(
            "predictor.btb_entries",
            p.btb_entries,
            (1..=crate::btb::MOST).contains(&p.btb_entries),
            "1..=64",
        )?;
        check(
            "predictor.bht_entries",
            p.bht_entries,
            p.bht_entries.is_power_of_two() && p.bht_entries <= 1 << 16,
            "a power of two, at most 65536",
        )?;
        check(
            "predictor.history_bits",
            p.history_bits,
            p.history_bits <= 16,
            "at most 16",
        )?;
        check(
            "predictor.history_hash_bits",
            p.history_hash_bits,
            p.history_hash_bits <= p.history_bits.min(p.bht_entries.trailing_zeros()),
            "at most history_bits, and log2 of bht_entries",
        )?;
        check(
            "predictor.ras_entries",
            p.ras_entries,
            (1..=64).contains(&p.ras_entries),
            "1..=64",
        )?;
        check(
            "timing.trap_retires",
            self.timing.trap_retires,
            self.timing.trap_retires <= 1,
            "0 or 1",
        )?;
        check(
            "timing.lfb",
            self.timing.lfb,
            self.timing.lfb <= 64,
            "0..=64",
        )?;
        check(
            "timing.pipes",
            0,
            self.timing.pipes.valid(),
            "0..=3 for each class",
        )?;
        check(
            "timing.ptw_cache_entries",
            self.timing.ptw_cache_entries,
            (1..=64).contains(&self.timing.ptw_cache_entries),
            "1..=64",
        )?;
        Ok(())
    }
}
