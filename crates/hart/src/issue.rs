//! What an instruction needs to issue: the registers that it has to have, whether it waits for loads, and the pipes
//! that execute it.

use crate::config::{CoreTiming, Pipes};
use crate::operands::{divides_fp, is_long, operands, orders, Reg};
use crate::preop::{PreOp, ILLEGAL_LEN};
use nagori_isa::{Format, Inst, Op};

/// The registers that an instruction reads and writes, a bit each, as the scoreboard numbers them.
pub fn registers(p: &PreOp) -> u64 {
    if p.len == ILLEGAL_LEN {
        return 0;
    }
    let i = Inst {
        op: p.op,
        rd: p.rd & 31,
        rs1: p.rs1,
        rs2: p.rs2,
        rs3: p.rs3 & 31,
        rm: p.rm,
        len: p.len,
        imm: p.imm,
        raw: 0,
    };
    let ([a, b, c], d) = operands(&i);
    let bit = |r: Reg| 1u64 << (r & 63);
    let mut all = bit(a) | bit(b) | bit(c) | bit(d);
    if i.op.info().format == Format::CasPair {
        all |= bit((i.rd + 1) & 31) | bit((i.rs2 + 1) & 31);
    }
    all & !1
}

/// Whether an instruction waits until all loads before it have their lines: fences that order reads, atomics that
/// release, everything that flushes, and `wfi`.
pub fn waits_for_loads(p: &PreOp) -> bool {
    /// Input and reads in the set of predecessors of a fence.
    const READS: i32 = 0b1010 << 4;
    match p.op {
        Op::Fence => p.imm & READS != 0,
        Op::FenceI | Op::SfenceVma | Op::Wfi | Op::Mret | Op::Sret => true,
        op if orders(op) => p.rm & 1 != 0,
        op => match op.info().format {
            Format::Cbo | Format::Cflush => true,
            Format::Csr | Format::CsrImm => {
                p.len != ILLEGAL_LEN && (p.rs1 != 0 || matches!(op, Op::Csrrw | Op::Csrrwi))
            }
            _ => false,
        },
    }
}

/// The pipes that execute an instruction, as [`Pipes`] numbers them; 0 if it issues alone.
pub(crate) fn pipes_of(p: &Pipes, op: Op) -> u8 {
    use Format::*;
    match op.info().format {
        _ if divides_fp(op) => 0,
        R if matches!(op, Op::Mul | Op::Mulh | Op::Mulhsu | Op::Mulhu | Op::Mulw) => p.multiply,
        R if is_long(op) => p.divide,
        R | I | U | Shift6 | Shift5 | Unary => p.alu,
        Load | FpLoad => p.load,
        Store | FpStore => p.store,
        B | J | Jalr => p.branch,
        FpFma | FpArith | FpPair | FpUnary | FpCompare | FpToInt | FpFromInt => p.float,
        FpMoveToInt | FpMoveFromInt => p.transfer,
        None | Fence | FenceI | Sfence | LoadReserved | Csr | CsrImm | Amo | Cas | CasPair
        | Cbo | Prefetch | Cflush | Mark => 0,
    }
}

/// Packets that the front end has delivered for a part of a block that takes some cycles. Where two instructions can
/// issue in a cycle, it delivers as many as they need.
#[inline(always)]
pub(crate) fn front_packets(t: &CoreTiming, packets: u16, cycles: u32) -> u16 {
    if t.pipes.any() {
        u32::from(packets).min(cycles.saturating_sub(1)) as u16
    } else {
        packets
    }
}
