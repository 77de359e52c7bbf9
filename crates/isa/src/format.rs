//! Operand formats: which operands an instruction has and where they are encoded.

/// Operands of an instruction. `x` is an integer register, `f` a floating-point register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Format {
    /// No operand; every bit is fixed.
    None,
    /// `x rd, x rs1, x rs2`.
    R,
    /// `x rd, x rs1`.
    Unary,
    /// `x rd, x rs1, imm` with a signed 12-bit immediate.
    I,
    /// `x rd, imm(x rs1)`: jump to a register, linking.
    Jalr,
    /// `x rd, imm(x rs1)`.
    Load,
    /// `x rs2, imm(x rs1)`.
    Store,
    /// `x rs1, x rs2, offset`: conditional branch.
    B,
    /// `x rd, imm` with the upper 20 bits of the immediate.
    U,
    /// `x rd, offset`: jump, linking.
    J,
    /// `x rd, x rs1, shamt` with a 6-bit shift amount.
    Shift6,
    /// `x rd, x rs1, shamt` with a 5-bit shift amount.
    Shift5,
    /// `pred, succ`; mode, predecessor and successor set in the immediate. `rd` and `rs1` are
    /// reserved and ignored.
    Fence,
    /// No operand; `rd`, `rs1` and a 12-bit immediate are reserved and ignored.
    FenceI,
    /// `x rd, csr, x rs1`.
    Csr,
    /// `x rd, csr, zimm` with the unsigned 5-bit immediate in the place of `rs1`.
    CsrImm,
    /// `x rd, x rs2, (x rs1)` with the bits aq and rl.
    Amo,
    /// `x rd, x rs2, (x rs1)` with the bits aq and rl, where `rd` is read, too.
    Cas,
    /// As `Cas`, with pairs of registers that begin at even numbers.
    CasPair,
    /// `x rd, (x rs1)` with the bits aq and rl.
    LoadReserved,
    /// `f rd, imm(x rs1)`.
    FpLoad,
    /// `f rs2, imm(x rs1)`.
    FpStore,
    /// `f rd, f rs1, f rs2, f rs3, rm`.
    FpFma,
    /// `f rd, f rs1, f rs2, rm`.
    FpArith,
    /// `f rd, f rs1, rm`.
    FpUnary,
    /// `f rd, f rs1, f rs2`, not rounded.
    FpPair,
    /// `x rd, f rs1, f rs2`.
    FpCompare,
    /// `x rd, f rs1, rm`.
    FpToInt,
    /// `f rd, x rs1, rm`.
    FpFromInt,
    /// `x rd, f rs1`, bits copied or classified.
    FpMoveToInt,
    /// `f rd, x rs1`, bits copied.
    FpMoveFromInt,
    /// `x rs1, x rs2`: address and address space.
    Sfence,
    /// `(x rs1)`: the cache block of an address.
    Cbo,
    /// `imm(x rs1)` with a signed 12-bit immediate that is a multiple of 32.
    Prefetch,
    /// `x rs1`: an address, or x0 for the whole cache.
    Cflush,
    /// `x rs1`: a value passed with a marker.
    Mark,
}
