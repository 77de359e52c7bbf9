//! An instruction as blocks hold it, and what blocks have to know of instructions.

use crate::ahead::Ahead;
use crate::operands::{operands, orders, Near};
use crate::pending::overlap_bits;
use nagori_isa::{Extensions, Format, Inst, Op};

/// An instruction ready to execute. `cost`, `flags` and `branch` are side by side, as a
/// [`RunPoint`](crate::place::RunPoint) has them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PreOp {
    /// Immediate; of a multiplication or division a [`Long`](crate::pipeline::Long).
    pub imm: i32,
    /// What it does.
    pub op: Op,
    /// Bytes from the start of the block.
    pub off: u16,
    /// Cycles from the start of the block to this instruction's issue.
    pub cost: u16,
    /// See the flag constants.
    pub flags: u8,
    /// Bytes to the last half of the branch that ends the block, if that is fetched once more with this instruction,
    /// and in the same page; else 0.
    pub branch: u8,
    /// Destination; an integer destination x0 is [`SINK`].
    pub rd: u8,
    /// First source, or the immediate of a CSR instruction.
    pub rs1: u8,
    /// Second source.
    pub rs2: u8,
    /// Third source, or what a load has to know of the stores in front of it: see [`PreOp::near`]; of a branch see
    /// [`PreOp::ahead`].
    pub rs3: u8,
    /// Rounding mode; of what loads see [`PreOp::packets_before`], of an atomic the ordering bits below that.
    pub rm: u8,
    /// Length in bytes; [`ILLEGAL_LEN`] marks a word that does not decode.
    pub len: u8,
}

/// The instruction's last byte is the first of the block in its line.
pub const NEW_LINE: u8 = 1;
/// A load close behind a store, or close behind the store before that one.
pub const HAZARD: u8 = 2;
/// A jump or branch whose target may be at an address where no instruction can be.
pub const TARGET: u8 = 4;

/// The instruction is in two packets of the front end.
pub const SPLIT: u8 = 8;

/// Fetched once more together with what is behind it, it changes nothing in the front end: there is no branch within
/// reach, and it is in one packet. Only a note: instructions without it are looked at.
pub const QUIET: u8 = 16;

/// A multiplication, division or root: something that can take longer than is known comes before the instruction that
/// waits for it. When its result is there is noted then.
pub const COMES_LATE: u8 = 2;

/// It waits for such a multiplication or division of integers.
pub const AWAITS_LONG: u8 = 32;

/// It waits for such a division or root of floating-point numbers.
pub const AWAITS_DIVISION: u8 = 128;

/// A hint in front of a load or store, whose base register and distance it has, or a fence where stores are buffered or
/// [`HartConfig::hands_over`](crate::HartConfig) is set: it has something to do.
pub const ACTS: u8 = 64;

impl PreOp {
    /// What the front end meets behind a wrong prediction of a branch, which is taken or not.
    #[inline(always)]
    pub fn ahead(&self, taken: bool) -> Ahead {
        Ahead::of(if taken { self.rs3 } else { self.rm })
    }

    /// Notes that of a branch: if it is taken, and if it is not.
    pub(crate) fn set_ahead(&mut self, (taken, not): (Ahead, Ahead)) {
        (self.rs3, self.rm) = (taken.pack(), not.pack());
    }

    /// Whether it is in two packets of the front end.
    #[inline(always)]
    pub fn splits(&self) -> bool {
        self.flags & SPLIT != 0
    }

    /// For a load or atomic: packets of the front end in front of it in the block.
    #[inline(always)]
    pub fn packets_before(&self) -> u64 {
        let shift = if orders(self.op) { ORDERING } else { 0 };
        u64::from(self.rm >> shift)
    }

    /// For a load with [`HAZARD`]: the bits in which its address and that of a store differ if they
    /// do not overlap, for the last store and the one before; 0 where the store is no danger.
    #[inline(always)]
    pub fn near(&self, store: usize) -> u64 {
        match self.rs3 >> (4 * store) & 15 {
            0 => 0,
            granule => overlap_bits(granule - 1),
        }
    }
}

/// The offset in the page that the last instruction of a block leads to if it is a direct jump or a branch that is
/// taken; the block begins at an offset.
pub(crate) fn target_in_page(begin: u64, p: &PreOp) -> Option<u64> {
    let direct = p.len == 4 && matches!(p.op.info().format, Format::B | Format::J);
    let to = begin
        .wrapping_add(p.off.into())
        .wrapping_add(p.imm as i64 as u64);
    (direct && to < 0x1000).then_some(to)
}

pub(crate) fn is_branch(p: &PreOp) -> bool {
    p.len != ILLEGAL_LEN && p.op.info().format == Format::B
}

fn pack(near: Near) -> u8 {
    let one = |k: usize| {
        if near.stores[k] {
            near.granules[k] + 1
        } else {
            0
        }
    };
    one(0) | one(1) << 4
}

/// Index of the integer register that swallows writes to x0.
pub const SINK: u8 = 32;
/// Whether an instruction is the last of its block.
pub fn ends_block(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        Jal | Jalr | Ecall | Ebreak | FenceI | Mret | Sret | Wfi | SfenceVma
    ) || matches!(
        op.info().format,
        Format::B | Format::Csr | Format::CsrImm | Format::Mark
    )
}

/// Whether a jump or a taken branch may lead to an address between two instructions. The address of
/// the jump itself is allowed.
pub(crate) fn may_miss(isa: Extensions, i: &Inst) -> bool {
    match i.op {
        Op::Jalr => isa.pc_low() & 2 != 0,
        Op::Jal => i.imm as u64 & isa.pc_low() != 0,
        _ => i.op.info().format == Format::B && i.imm as u64 & isa.pc_low() != 0,
    }
}

/// An op that raises illegal instruction when executed: `ebreak` never carries this length.
pub const ILLEGAL_LEN: u8 = 0;

/// Ordering bits of an atomic.
const ORDERING: u8 = 2;

/// As [`pre`], for an instruction that reads memory, with so many packets in front of it.
pub(crate) fn pre_load(
    i: &Inst,
    off: u16,
    cost: u32,
    flags: u8,
    near: Near,
    packets: u16,
) -> PreOp {
    let packets = packets.min(u16::from(u8::MAX >> ORDERING)) as u8;
    let rm = if orders(i.op) {
        packets << ORDERING | i.rm & 3
    } else {
        packets
    };
    let rs3 = pack(near);
    let flags = flags | if rs3 != 0 { HAZARD } else { 0 };
    PreOp {
        rs3,
        rm,
        ..pre(i, off, cost, flags)
    }
}

pub(crate) fn pre(i: &Inst, off: u16, cost: u32, flags: u8) -> PreOp {
    let mut rd = i.rd;
    let int_dest = operands(i).1 < 32;
    if rd == 0 && int_dest {
        rd = SINK;
    }
    PreOp {
        op: i.op,
        rd,
        rs1: i.rs1,
        rs2: i.rs2,
        rs3: i.rs3,
        rm: i.rm,
        flags,
        len: i.len,
        imm: i.imm,
        off,
        cost: cost.min(u16::MAX as u32) as u16,
        branch: 0,
    }
}

/// Stands for a word that does not decode; `imm` holds its bits.
pub(crate) fn illegal(word: u32, off: u16, cost: u32, flags: u8) -> PreOp {
    PreOp {
        op: Op::Ebreak,
        rd: SINK,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        flags,
        len: ILLEGAL_LEN,
        imm: word as i32,
        off,
        cost: cost.min(u16::MAX as u32) as u16,
        branch: 0,
    }
}

/// Packets of the front end that the instructions of a run of bytes are in, but for one that begins in
/// front of the run.
pub(crate) fn packets(pc: u64, bytes: u64) -> u16 {
    let before = |at: u64| at.wrapping_add(3) >> 2;
    before(pc.wrapping_add(bytes)).wrapping_sub(before(pc)) as u16
}

/// Whether an instruction decides where the program goes on.
pub(crate) fn jumps(op: Op) -> bool {
    matches!(op, Op::Jal | Op::Jalr) || op.info().format == Format::B
}

/// Whether the last instruction of a block of so many cycles has what follows fetched anew.
pub(crate) fn refetches(p: &PreOp, cost: u32) -> bool {
    match p.op.info().format {
        Format::Csr | Format::CsrImm => cost > u32::from(p.cost) + 1,
        _ => matches!(
            p.op,
            Op::FenceI | Op::SfenceVma | Op::Mret | Op::Sret | Op::Wfi
        ),
    }
}

/// Whether an instruction is a hint of Zihintntl.
pub(crate) fn is_hint(i: &Option<Inst>) -> bool {
    i.as_ref().is_some_and(|i| hint_number(i.op).is_some())
}

/// The number of a hint of Zihintntl.
pub(crate) fn hint_number(op: Op) -> Option<u8> {
    match op {
        Op::NtlP1 => Some(0),
        Op::NtlPall => Some(1),
        Op::NtlS1 => Some(2),
        Op::NtlAll => Some(3),
        _ => None,
    }
}

/// Marks the instructions of a block that have something to do where hints do something, and where fences do.
pub(crate) fn note_acts(ops: &mut [PreOp], (hints, fences): (bool, bool)) {
    use Format::{FpLoad, FpStore, Load, Store};
    for i in 0..ops.len() {
        let next = ops.get(i + 1).copied();
        let next = next.filter(|n| matches!(n.op.info().format, Load | Store | FpLoad | FpStore));
        let p = &mut ops[i];
        match (p.op, next) {
            (Op::Fence, _) if fences => p.flags |= ACTS,
            (op, Some(n)) if hints && hint_number(op).is_some() => {
                p.flags |= ACTS;
                (p.rs1, p.imm) = (n.rs1, n.imm);
            }
            _ => {}
        }
    }
}
