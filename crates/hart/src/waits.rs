//! What a block waits for at its beginning: results of the blocks before, and the second half of its first
//! instruction.

use crate::config::CoreTiming;
use crate::fpdiv::until_free;
use crate::hart::Hart;
use crate::pipeline::{
    awaited_register, is_fp, is_long, merge_pending, pending_after, pending_pairs, refused,
    waits_for, writes_integer, Pending, FENCE, FP_LONG, LONG, RELEASE, WHAT,
};
use crate::preop::{PreOp, ILLEGAL_LEN};
use nagori_isa::{Format, Inst, Op};

/// The opcode of atomics.
const AMO: u16 = 0x2f;
/// The opcode of operations on floating-point registers.
const OP_FP: u8 = 0x53;

/// Of `Predictor::landed`: by a jump. The bits above count cycles until the packet's other half is there.
pub(crate) const JUMPED: u32 = 1;
/// Most cycles that a result can be on its way, and so a half wait for it.
pub(crate) const LONGEST: u32 = 256;

/// What `Predictor::landed` is if the other half comes after some cycles.
pub const fn waits_for_half(cycles: u32) -> u32 {
    JUMPED | cycles << 1
}

impl Hart {
    /// Waits for results and units that the instructions of the next block need. Others stay
    /// pending.
    #[cold]
    pub(crate) fn await_pending(&mut self, ops: &[PreOp]) {
        let found = stall(ops, &self.config.timing, self.pending);
        self.await_stall(ops, found);
    }

    /// The same, with what [`stall`] says.
    #[inline(always)]
    pub(crate) fn await_stall(&mut self, ops: &[PreOp], (stall, rest): (u32, Pending)) {
        let before = std::mem::replace(&mut self.pending, rest);
        self.cycle += u64::from(stall);
        self.pending_from = self.cycle;
        if self.predictor.landed > JUMPED && ops[0].splits() {
            let half = half_packet(ops, &self.config.timing, before, stall);
            self.predictor.landed = waits_for_half(half);
        }
    }

    /// Pending results at the end of a block: its own, and older ones that are still pending.
    #[cold]
    pub(crate) fn still_pending(&self, own: Pending) -> Pending {
        let old = pending_after(self.pending, self.cycle - self.pending_from);
        pending_pairs(old).fold(own, |p, (reg, left)| merge_pending(p, reg, left))
    }
}

/// Number of cycles that a block waits for pending results, and what is pending then.
pub fn stall(ops: &[PreOp], timing: &CoreTiming, pending: Pending) -> (u32, Pending) {
    let mut stall = 0u32;
    let mut rest = 0;
    let splits = ops.iter().find(|p| is_fp(p.op)).is_some_and(PreOp::splits);
    let divider = |pair: &(u8, u32)| pair.0 & WHAT == FP_LONG;
    // Instructions that wait for a register come to the divider only then.
    let others = pending_pairs(pending).filter(|p| !divider(p));
    for (reg, left) in others.chain(pending_pairs(pending).filter(divider)) {
        let (wait, left) = wait_for(ops, timing, reg, left);
        match wait {
            None => rest = merge_pending(rest, reg, left),
            // They are tried again until they pass.
            Some((w, false)) => stall += until_free(w.saturating_sub(stall), timing, splits),
            Some((w, true)) => stall = stall.max(w),
        }
    }
    if pending != 0 {
        let at = |p: &PreOp| (p.op, u32::from(p.cost) + stall, p.splits());
        let known = ops.iter().take_while(|p| p.len != ILLEGAL_LEN);
        stall += refused(timing, pending, known.map(at));
    }
    (stall, pending_after(rest, stall as u64))
}

/// Whether the first half of an instruction, in both halves of a word, is an atomic that comes after all other accesses:
/// what [`half_packet`] has to know of a block that leads there.
pub(crate) fn half_releases(low: u16) -> bool {
    low & 0x7f == AMO && low >> 9 & 1 != 0
}

/// Cycles that a block waits besides `stall` if its first instruction is in two packets, of which the first holds nothing
/// else and was jumped to by 32 bits. The decoder has that half in both halves of its word and looks at registers as if it
/// were an instruction; the other half comes in the cycle after it waits for none of them. (RTL: `IBuf`, where the
/// packet is shifted in with its own bits above it; `RocketCore`, whose `ctrl_stalld` does not ask whether the instruction is
/// whole.)
pub fn half_packet(ops: &[PreOp], timing: &CoreTiming, pending: Pending, stall: u32) -> u32 {
    let p = &ops[0];
    let word = p.op.info().match_;
    // Branches have other things there.
    let rounding = match p.op.info().format {
        Format::B => 0,
        _ => p.rm & 7,
    };
    let (opcode, rm) = ((word & 0x7f) as u8, (word >> 12) as u8 & 7 | rounding);
    // The bits of the destination, whatever the format has there.
    let rd = match p.op.info().format {
        Format::Store | Format::FpStore => p.imm as u8 & 31,
        Format::B => p.imm as u8 & 30 | (p.imm >> 11) as u8 & 1,
        _ => p.rd & 31,
    };
    // Of FP operations the upper bits say what is read and written; here they are rs1's lowest bit, rm, and rd's highest.
    let op = match (opcode == OP_FP, p.rs1 & 1, rm & 4, rm & 1) {
        (false, ..) => p.op,
        (true, 0, 0, _) => Op::FaddD,
        (true, 0, _, _) => Op::FsqrtD,
        (true, _, _, 0) => Op::FclassD,
        (true, _, _, _) => Op::FmvDX,
    };
    let half = PreOp {
        op,
        rs1: (opcode & 15) << 1 | p.rs1 & 1,
        rs2: (rd & 3) << 3 | opcode >> 4,
        rs3: (p.rs1 & 1) << 4 | rm << 1 | rd >> 4,
        // Of atomics, the ordering bits.
        rm: match p.op.info().format {
            Format::Amo | Format::LoadReserved | Format::Cas | Format::CasPair => rd >> 2 & 3,
            _ => p.rm,
        },
        ..*p
    };
    let waits = pending_pairs(pending).filter_map(|(r, left)| wait_for(&[half], timing, r, left).0);
    let longest = waits.map(|w| w.0).max().unwrap_or(0);
    (longest + 1).saturating_sub(stall)
}

/// Cycles to wait for a register or unit before a block that needs it, and whether it is the register;
/// `None` if it needs neither. And when it is there, which the block can delay.
fn wait_for(ops: &[PreOp], timing: &CoreTiming, reg: u8, left: u32) -> (Option<(u32, bool)>, u32) {
    let divides = reg & WHAT == FP_LONG;
    let long = reg & WHAT == LONG;
    // The cycle in which the result is there; other results can come before it.
    let mut there = left;
    for p in ops {
        let at = u32::from(p.cost);
        if at >= there || p.len == ILLEGAL_LEN {
            break;
        }
        let i = Inst {
            op: p.op,
            rd: p.rd & 31,
            rs1: p.rs1,
            rs2: p.rs2,
            rs3: p.rs3,
            rm: p.rm,
            len: p.len,
            imm: p.imm,
            raw: 0,
        };
        let needs = match reg {
            FENCE | RELEASE => waits_for(&i, reg),
            _ => {
                let register = awaited_register(reg);
                long && is_long(p.op) || register != 0 && waits_for(&i, register)
            }
        };
        if needs || divides && is_fp(p.op) {
            return (Some((there - at, needs)), there);
        }
        if long && writes_integer(p.op) {
            there += u32::from(at + timing.writeback == there);
        }
    }
    (None, there)
}
