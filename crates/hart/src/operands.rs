//! What instructions read and write, as the scoreboard numbers it, and what kinds of them there are.

use nagori_isa::{Format, Inst, Op};

/// A register as the scoreboard sees it: 1..=31 integer, 32..=63 floating point; 0 none.
pub(crate) type Reg = u8;

pub(crate) fn x(r: u8) -> Reg {
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

/// Whether an instruction writes an integer register in its last stage; x0 counts as one.
pub(crate) fn writes_integer(op: Op) -> bool {
    use Format::*;
    match op.info().format {
        // A marker is a hint, `slti` to x0.
        R | I | Jalr | Load | Shift6 | Shift5 | LoadReserved | Csr | U | J | CsrImm | Unary
        | Amo | Cas | CasPair | FpCompare | FpToInt | FpMoveToInt | Mark => true,
        None | Fence | FenceI | Sfence | Store | B | FpLoad | FpStore | FpFma | FpArith
        | FpPair | FpUnary | FpFromInt | FpMoveFromInt | Cbo | Prefetch | Cflush => false,
    }
}

/// Whether the unit for multiplication and division executes an instruction: how long it takes follows
/// from its operands.
pub fn is_long(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        Mul | Mulh | Mulhsu | Mulhu | Mulw | Div | Divu | Rem | Remu | Divw | Divuw | Remw | Remuw
    )
}

/// Whether the floating-point unit sees an instruction.
pub(crate) const fn is_fp(op: Op) -> bool {
    use Format::*;
    matches!(
        op.info().format,
        FpLoad
            | FpStore
            | FpFma
            | FpArith
            | FpPair
            | FpUnary
            | FpCompare
            | FpToInt
            | FpMoveToInt
            | FpFromInt
            | FpMoveFromInt
    )
}

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Load,
    Store,
    /// Atomics and store conditional: both.
    Both,
}

pub(crate) const fn memory(op: Op) -> Option<Memory> {
    use Format::*;
    Some(match op.info().format {
        Load | FpLoad | LoadReserved => Memory::Load,
        Store | FpStore => Memory::Store,
        Amo | Cas | CasPair => Memory::Both,
        _ => return Option::None,
    })
}

/// Whether an instruction reads memory.
pub(crate) fn reads_memory(op: Op) -> bool {
    memory(op).is_some_and(|m| m != Memory::Store)
}

/// The binary logarithm of the bytes that an access to memory moves.
pub(crate) const fn log_bytes(op: Op) -> u8 {
    use Op::*;
    match op {
        Lb | Lbu | Sb => 0,
        Lh | Lhu | Sh => 1,
        Ld | Fld | Sd | Fsd | LrD | ScD | AmoswapD | AmoaddD | AmoxorD | AmoandD | AmoorD
        | AmominD | AmomaxD | AmominuD | AmomaxuD | AmocasD | AmocasQ => 3,
        _ => 2,
    }
}

/// What a load has to know of the stores close in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Near {
    /// The last store and the last but one may still wait to be written when the load arrives.
    pub stores: [bool; 2],
    /// The binary logarithm of the bytes at which addresses are compared, for each: that of the
    /// larger access.
    pub granules: [u8; 2],
}

/// The bits of the register of a pending result that say what it is: 0 and [`FP`] of the pipeline itself, with the
/// register's number below.
pub(crate) const WHAT: Reg = 0xe0;

/// A floating-point register that a load writes.
pub(crate) const FP: Reg = 0x20;

/// A result of the unit for multiplication and division, which waits for a cycle in which nothing else is written.
pub const LONG: Reg = 0x80;

/// As [`LONG`], a result of the divider of the floating-point unit, which no instruction of that unit passes; with the
/// number of its register as an integer's.
pub const FP_LONG: Reg = 0xa0;

/// The order of memory accesses around a fence.
pub(crate) const FENCE: Reg = 0xe1;

/// The last memory access, for an atomic or a `fence.i` that comes after it in order.
pub(crate) const RELEASE: Reg = 0xe2;

/// Whether an instruction has bits that order it with other accesses.
pub(crate) fn orders(op: Op) -> bool {
    use Format::{Amo, Cas, CasPair, LoadReserved};
    matches!(op.info().format, Amo | LoadReserved | Cas | CasPair)
}

/// Whether the unit executes an instruction.
pub fn divides_fp(op: Op) -> bool {
    matches!(op, Op::FdivS | Op::FdivD | Op::FsqrtS | Op::FsqrtD)
}
