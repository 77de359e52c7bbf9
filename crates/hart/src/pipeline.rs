//! Static schedule of a straight run of instructions on the in-order pipeline: when each one
//! issues, counted from the start of the run, and which results are pending at its end.
//!
//! The rules read the operand formats of the instruction table, so interpreter
//! and translator charge the same cycles.

use crate::config::CoreTiming;
use nagori_isa::{Format, Inst, Op};

/// A register as the scoreboard sees it: 1..=31 integer, 32..=63 floating point; 0 none.
type Reg = u8;

fn x(r: u8) -> Reg {
    r
}
fn f(r: u8) -> Reg {
    r + 32
}

/// Registers read (0 is none) and the one written.
pub fn operands(i: &Inst) -> ([Reg; 3], Reg) {
    use Format::*;
    match i.op.info().format {
        None | Fence | FenceI => ([0; 3], 0),
        R | Sfence => ([x(i.rs1), x(i.rs2), 0], x(i.rd)),
        I | Jalr | Load | Shift6 | Shift5 | LoadReserved | Csr => ([x(i.rs1), 0, 0], x(i.rd)),
        Store | B => ([x(i.rs1), x(i.rs2), 0], 0),
        U | J | CsrImm => ([0; 3], x(i.rd)),
        Unary => ([x(i.rs1), 0, 0], x(i.rd)),
        Amo => ([x(i.rs1), x(i.rs2), 0], x(i.rd)),
        // Of a pair, the first stands for both.
        Cas | CasPair => ([x(i.rs1), x(i.rs2), x(i.rd)], x(i.rd)),
        FpLoad => ([x(i.rs1), 0, 0], f(i.rd)),
        FpStore => ([x(i.rs1), f(i.rs2), 0], 0),
        FpFma => ([f(i.rs1), f(i.rs2), f(i.rs3)], f(i.rd)),
        FpArith | FpPair => ([f(i.rs1), f(i.rs2), 0], f(i.rd)),
        FpUnary => ([f(i.rs1), 0, 0], f(i.rd)),
        FpCompare => ([f(i.rs1), f(i.rs2), 0], x(i.rd)),
        FpToInt | FpMoveToInt => ([f(i.rs1), 0, 0], x(i.rd)),
        FpFromInt | FpMoveFromInt => ([x(i.rs1), 0, 0], f(i.rd)),
        Cbo | Prefetch | Cflush | Mark => ([x(i.rs1), 0, 0], 0),
    }
}

/// Issue cycles, result latency, and the shared unit an instruction keeps busy.
struct Cost {
    issue: u32,
    latency: u32,
    busy: u32,
}

/// Every instruction is listed here: one without a cost is a compile error.
fn cost(t: &CoreTiming, i: &Inst, after_store: bool) -> Cost {
    use Op::*;
    let simple = |issue: u32| Cost {
        issue,
        latency: issue,
        busy: 0,
    };
    let result = |latency: u32| Cost {
        issue: 1,
        latency,
        busy: 0,
    };
    match i.op {
        Ld | Lw | Lwu | Fld | Flw => result(t.load_latency),
        Lb | Lbu | Lh | Lhu => result(t.load_sub_word_latency),
        Mul | Mulh | Mulhsu | Mulhu | Mulw => Cost {
            issue: 1,
            latency: t.mul_latency_min,
            busy: t.mul_occupancy,
        },
        LrW | LrD => simple(t.lr),
        ScW | ScD => simple(t.sc),
        Csrrw | Csrrwi => simple(if i.rd == 0 { t.csr_write } else { t.csr_read }),
        Csrrs | Csrrc | Csrrsi | Csrrci => simple(if i.rs1 == 0 || i.rd != 0 {
            t.csr_read
        } else {
            t.csr_write
        }),
        Fence | Pause => simple(if after_store {
            t.fence_after_store
        } else {
            t.fence
        }),
        FenceI => simple(t.fence_i),
        SfenceVma => simple(t.sfence_vma),
        Mret | Sret => simple(t.trap_return),
        CflushDL1 | CflushDL1U | CboClean | CboFlush | CboInval => simple(t.flush_line),
        FdivS => Cost {
            issue: 1,
            latency: t.fdiv_single,
            busy: t.fdiv_single,
        },
        FdivD => Cost {
            issue: 1,
            latency: t.fdiv_double,
            busy: t.fdiv_double,
        },
        FsqrtS => Cost {
            issue: 1,
            latency: t.fsqrt_single,
            busy: t.fsqrt_single,
        },
        FsqrtD => Cost {
            issue: 1,
            latency: t.fsqrt_double,
            busy: t.fsqrt_double,
        },
        FaddS | FsubS | FmulS | FmaddS | FmsubS | FnmaddS | FnmsubS => result(t.fp_single_latency),
        FaddD | FsubD | FmulD | FmaddD | FmsubD | FnmaddD | FnmsubD => result(t.fp_double_latency),
        AmoswapW | AmoaddW | AmoxorW | AmoandW | AmoorW | AmominW | AmomaxW | AmominuW
        | AmomaxuW | AmoswapD | AmoaddD | AmoxorD | AmoandD | AmoorD | AmominD | AmomaxD
        | AmominuD | AmomaxuD | AmocasW | AmocasD | AmocasQ => {
            simple(if i.rm == 3 { t.amo_aqrl } else { t.amo })
        }
        FsgnjS | FsgnjnS | FsgnjxS | FminS | FmaxS | FcvtWS | FcvtWuS | FcvtLS | FcvtLuS
        | FmvXW | FeqS | FltS | FleS | FclassS | FcvtSW | FcvtSWu | FcvtSL | FcvtSLu | FmvWX
        | FsgnjD | FsgnjnD | FsgnjxD | FminD | FmaxD | FcvtSD | FcvtDS | FcvtWD | FcvtWuD
        | FcvtLD | FcvtLuD | FmvXD | FeqD | FltD | FleD | FclassD | FcvtDW | FcvtDWu | FcvtDL
        | FcvtDLu | FmvDX => result(t.fp_misc_latency),
        // No catch-all arm, so that a new instruction has to be given a cost; these take one cycle.
        Lui | Auipc | Jal | Jalr | Beq | Bne | Blt | Bge | Bltu | Bgeu | Sb | Sh | Sw | Sd
        | Addi | Slti | Sltiu | Xori | Ori | Andi | Slli | Srli | Srai | Add | Sub | Sll | Slt
        | Sltu | Xor | Srl | Sra | Or | And | Addiw | Slliw | Srliw | Sraiw | Addw | Subw
        | Sllw | Srlw | Sraw | Ecall | Ebreak | Div | Divu | Rem | Remu | Divw | Divuw | Remw
        | Remuw | Fsw | Fsd | Wfi | CboZero | PrefetchI | PrefetchR | PrefetchW | NtlP1
        | NtlPall | NtlS1 | NtlAll | CzeroEqz | CzeroNez | AddUw | Sh1add | Sh1addUw | Sh2add
        | Sh2addUw | Sh3add | Sh3addUw | SlliUw | Andn | Orn | Xnor | Clz | Clzw | Ctz | Ctzw
        | Cpop | Cpopw | Max | Maxu | Min | Minu | SextB | SextH | ZextH | Rol | Rolw | Ror
        | Rori | Roriw | Rorw | OrcB | Rev8 | Bclr | Bclri | Bext | Bexti | Binv | Binvi | Bset
        | Bseti | MarkRoiBegin | MarkRoiEnd | MarkStatsReset | MarkStatsDump | MarkMethod
        | MarkLabel | MarkSnapshot | MarkStop => result(1),
    }
}

/// The unit that an instruction occupies for longer than a cycle, numbered behind the registers.
pub fn unit(op: Op) -> Option<Reg> {
    use Op::*;
    match op {
        FdivS | FdivD | FsqrtS | FsqrtD => Some(FP_DIVIDER),
        Mul | Mulh | Mulhsu | Mulhu | Mulw => Some(MULTIPLIER),
        _ => None,
    }
}

const FP_DIVIDER: Reg = 64;
const MULTIPLIER: Reg = 65;

/// Results still on their way and units still busy: two (register or unit, cycles)
/// pairs in bytes, the later ones where there are more; 0 is none.
pub type Pending = u32;

/// Builds the schedule of one run.
pub struct Schedule<'a> {
    timing: &'a CoreTiming,
    now: u32,
    ready: [u32; 64],
    busy: [u32; 2],
    since_store: u32,
}

impl<'a> Schedule<'a> {
    /// An empty run: every register ready, every unit free.
    pub fn new(timing: &'a CoreTiming) -> Self {
        Self {
            timing,
            now: 0,
            ready: [0; 64],
            busy: [0; 2],
            since_store: u32::MAX,
        }
    }

    /// Adds an instruction; the cycle at which it issues, and for a load whether a
    /// store is close enough in front of it to be run into.
    pub fn add(&mut self, i: &Inst) -> (u32, bool) {
        let (sources, dest) = operands(i);
        let c = cost(self.timing, i, self.since_store == 0);
        let mut at = self.now;
        for s in sources {
            at = at.max(self.ready[s as usize]);
        }
        // The scoreboard holds back a second writer of a register, too.
        at = at.max(self.ready[dest as usize]);
        if let Some(u) = unit(i.op) {
            let busy = &mut self.busy[(u - FP_DIVIDER) as usize];
            at = at.max(*busy);
            *busy = at + c.busy;
        }
        if dest != 0 {
            self.ready[dest as usize] = at + c.latency;
        }
        self.now = at + c.issue;
        let near = self.since_store < self.timing.store_load_window;
        let is_store = matches!(i.op.info().format, Format::Store | Format::FpStore);
        self.since_store = if is_store {
            0
        } else {
            self.since_store.saturating_add(1)
        };
        (
            at,
            near && matches!(i.op.info().format, Format::Load | Format::FpLoad),
        )
    }

    /// Length of the run in cycles, and what is pending after it.
    pub fn finish(&self) -> (u32, Pending) {
        let all = self.ready.iter().chain(&self.busy);
        let pending = all.zip(0..).skip(1).fold(0, |p, (ready, r)| {
            merge_pending(p, r, ready.saturating_sub(self.now))
        });
        (self.now, pending)
    }
}

/// Adds a pair; of more than two, those with the most cycles left stay.
pub fn merge_pending(p: Pending, reg: u8, left: u32) -> Pending {
    let new = (reg as u32) << 8 | left.min(255);
    let (low, high) = (p & 0xffff, p >> 16);
    if left == 0 {
        p
    } else if new & 0xff > low & 0xff {
        new | low << 16
    } else if new & 0xff > high & 0xff {
        low | new << 16
    } else {
        p
    }
}

/// What is pending some cycles later.
pub fn pending_after(p: Pending, cycles: u64) -> Pending {
    pending_pairs(p).fold(0, |q, (reg, left)| {
        merge_pending(q, reg, (left as u64).saturating_sub(cycles) as u32)
    })
}

/// The two pairs of a [`Pending`].
pub fn pending_pairs(p: Pending) -> impl Iterator<Item = (u8, u32)> {
    [p & 0xffff, p >> 16]
        .into_iter()
        .filter(|v| *v != 0)
        .map(|v| ((v >> 8) as u8, v & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_isa::decode;

    fn run(words: &[u32]) -> (u32, Pending) {
        let t = CoreTiming::rocket();
        let mut s = Schedule::new(&t);
        for w in words {
            s.add(&decode(*w).unwrap());
        }
        s.finish()
    }

    const ADD: u32 = 0x00b5_0533; // add a0, a0, a1
    const LD: u32 = 0x0005_3503; // ld a0, 0(a0)
    const LB: u32 = 0x0005_0503; // lb a0, 0(a0)
    const FADD: u32 = 0x02b5_7553; // fadd.d fa0, fa0, fa1
    const MUL: u32 = 0x02b6_0633; // mul a2, a2, a1

    #[test]
    fn measured_pairs() {
        assert_eq!(run(&[ADD, ADD]).0, 2);
        assert_eq!(run(&[LD, ADD]).0, 3); // ld then use
        assert_eq!(run(&[LB, ADD]).0, 4); // lb then use
        assert_eq!(run(&[LD, LD, LD]).0, 5); // chase: two a load
        assert_eq!(run(&[FADD, FADD]).0, 7); // dependent: six apart
    }

    #[test]
    fn independent_multiplications_share_the_unit() {
        // mul a2,a2,a1; mul a3,a3,a1; mul a4,a4,a1; mul a5,a5,a1
        let v: Vec<u32> = (0..4).map(|k| MUL + k * (1 << 15 | 1 << 7)).collect();
        assert_eq!(run(&v).0, 13); // issues at 0, 4, 8, 12: sixteen with the unit's last
    }

    #[test]
    fn late_results_are_pending() {
        let (n, p) = run(&[FADD]);
        assert_eq!(n, 1);
        assert_eq!(pending_pairs(p).collect::<Vec<_>>(), vec![(42, 5)]);
        assert_eq!(run(&[ADD]).1, 0);
        assert_eq!(pending_after(p, 2), 42 << 8 | 3);
        assert_eq!(pending_after(p, 5), 0);
        assert_eq!(
            merge_pending(merge_pending(p, 7, 9), 8, 6),
            7 << 8 | 9 | (8 << 8 | 6) << 16
        );
    }
}
