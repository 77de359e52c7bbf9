//! What a block waits for at its beginning: results of the blocks before, and the second half of its first
//! instruction.

use crate::config::CoreTiming;
use crate::fpdiv::until_free;
use crate::operands::{
    is_fp, is_long, orders, reads_memory, writes_integer, FENCE, FP_LONG, LONG, RELEASE, WHAT,
};
use crate::pending::{merge_pending, pending_after, pending_pairs, Pending, Unwritten, STORES};
use crate::pipeline::{awaited_register, waits_for, Refusal};
use crate::preop::{PreOp, ILLEGAL_LEN, SINK};
use nagori_isa::{Format, Inst, Op};

/// The opcode of atomics.
const AMO: u16 = 0x2f;
/// The opcode of operations on floating-point registers.
const OP_FP: u8 = 0x53;

/// What is pending, with stores of earlier blocks behind those that are in it.
pub(crate) fn with_older_stores(own: Pending, old: Pending) -> Pending {
    let (mut new, old) = (Unwritten::of(own), Unwritten::of(old));
    if old.is_empty() {
        return own;
    }
    let older = old.0.into_iter().flatten();
    for (place, s) in new.0.iter_mut().filter(|s| s.is_none()).zip(older) {
        *place = Some(s);
    }
    own | new.pack()
}

/// Number of cycles that a block waits for pending results, and what is pending then.
pub fn stall(ops: &[PreOp], timing: &CoreTiming, pending: Pending) -> (u32, Pending) {
    let mut stall = 0u32;
    // Instructions that wait for a register come to the divider only then.
    let divider = |pair: &(u8, u32)| pair.0 & WHAT == FP_LONG;
    let mut results: Vec<(u8, u32)> = pending_pairs(pending).collect();
    results.sort_by_key(divider);
    let refusal = Refusal::of(timing, pending);
    for p in ops.iter().take_while(|p| p.len != ILLEGAL_LEN) {
        let at = u32::from(p.cost);
        if results.iter().all(|r| r.1 <= at + stall) && refusal.is_over(at + stall) {
            break;
        }
        results.retain_mut(|(reg, there)| {
            let left = there.saturating_sub(at + stall);
            match needs(p, *reg).filter(|_| left > 0) {
                Some(Need::Register) => stall += left,
                // It is tried again until it passes.
                Some(Need::Unit) => stall += until_free(left, timing, p.splits()),
                None => {
                    // Another result is written first.
                    let met = left != 0 && *reg & WHAT == LONG && writes_integer(p.op);
                    *there += u32::from(met && left == timing.writeback);
                    return true;
                }
            }
            false
        });
        stall += refusal.wait(p, at + stall);
    }
    let stores = pending >> STORES << STORES;
    let rest = results
        .iter()
        .fold(stores, |p, r| merge_pending(p, r.0, r.1));
    (stall, pending_after(rest, stall as u64))
}

/// What an instruction waits for.
enum Need {
    /// A register, or the order of accesses.
    Register,
    /// The divider of the floating-point unit, which works.
    Unit,
}

/// What an instruction waits for as long as something is pending under a number.
fn needs(p: &PreOp, reg: u8) -> Option<Need> {
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
    let waits = match reg {
        FENCE | RELEASE => waits_for(&i, reg),
        _ => {
            let register = awaited_register(reg);
            let unit = reg & WHAT == LONG && is_long(p.op);
            unit || register != 0 && waits_for(&i, register)
        }
    };
    if waits {
        Some(Need::Register)
    } else {
        (reg & WHAT == FP_LONG && is_fp(p.op)).then_some(Need::Unit)
    }
}

/// A load of a block that may run into a store in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Which instruction of the block.
    pub op: usize,
    /// Its base register, if that is as at the beginning of the block, and the distance from there.
    pub base: Option<(u8, i32)>,
    /// The last store (0) or the last but one (1).
    pub store: usize,
    /// Bits in which the addresses differ if the accesses do not overlap.
    pub bits: u64,
}

impl Meeting {
    /// The address of the load, if the registers at the beginning of the block have it.
    pub fn address(&self, x: impl Fn(u8) -> u64) -> Option<u64> {
        let (base, distance) = self.base?;
        Some(x(base).wrapping_add(distance as i64 as u64))
    }
}

/// The loads of a block that run into stores that are pending at its beginning, if their addresses overlap. `None` if
/// that does not follow from the block: such a store may still be pending at its end.
pub fn stores_met(ops: &[PreOp], pending: Pending) -> Option<Vec<Meeting>> {
    let mut stores = Unwritten::of(pending);
    let mut met = Vec::new();
    for (op, p) in ops.iter().enumerate() {
        let at = u32::from(p.cost);
        if stores.after(at.into()).is_empty() || p.len == ILLEGAL_LEN {
            return Some(met);
        }
        if !reads_memory(p.op) {
            continue;
        }
        let base = p.rs1 & 31;
        let changed = ops[..op].iter().any(|q| writes(q, base));
        // What atomics have there is no distance.
        let distance = if orders(p.op) { 0 } else { p.imm };
        for store in 0..2 {
            let bits = stores.differ(store, at, p.op);
            if bits != 0 {
                let base = (!changed).then_some((base, distance));
                met.push(Meeting {
                    op,
                    base,
                    store,
                    bits,
                });
            }
        }
        stores.load(at);
    }
    let end = ops.last().map_or(0, |p| u64::from(p.cost) + 1);
    stores.after(end).is_empty().then_some(met)
}

/// Whether an instruction writes an integer register other than x0.
fn writes(p: &PreOp, register: u8) -> bool {
    let rd = p.rd & 31;
    let pair = p.op.info().format == Format::CasPair && rd + 1 == register;
    register != 0 && p.rd != SINK && writes_integer(p.op) && (rd == register || pair)
}

/// Whether the first half of an instruction, in both halves of a word, is an atomic that comes after all other
/// accesses: what [`half_packet`] has to know of a block that leads there.
pub(crate) fn half_releases(low: u16) -> bool {
    low & 0x7f == AMO && low >> 9 & 1 != 0
}

/// Cycles that a block waits besides `stall` if its first instruction is in two packets, of which the first holds
/// nothing else and was jumped to by 32 bits. The decoder has that half in both halves of its word and looks at
/// registers as if it were an instruction; the other half comes in the cycle after it waits for none of them. (RTL:
/// `IBuf`, where the packet is shifted in with its own bits above it; `RocketCore`, whose `ctrl_stalld` does not ask
/// whether the instruction is whole.)
pub fn half_packet(ops: &[PreOp], pending: Pending, stall: u32) -> u32 {
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
    // Of FP operations the upper bits say what is read and written; here they are rs1's lowest bit, rm, and rd's
    // highest.
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
    let waits = pending_pairs(pending).filter(|r| needs(&half, r.0).is_some());
    let longest = waits.map(|r| r.1).max().unwrap_or(0);
    (longest + 1).saturating_sub(stall)
}
