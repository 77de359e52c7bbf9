//! Trap causes, trap entry and return, interrupts.

pub use nagori_cache::NotNow;

/// Exception causes (privileged specification, table of mcause values).
#[allow(missing_docs)]
pub mod cause {
    pub const FETCH_MISALIGNED: u64 = 0;
    pub const FETCH_ACCESS: u64 = 1;
    pub const ILLEGAL: u64 = 2;
    pub const BREAKPOINT: u64 = 3;
    pub const LOAD_MISALIGNED: u64 = 4;
    pub const LOAD_ACCESS: u64 = 5;
    pub const STORE_MISALIGNED: u64 = 6;
    pub const STORE_ACCESS: u64 = 7;
    pub const ECALL_U: u64 = 8;
    pub const FETCH_PAGE: u64 = 12;
    pub const LOAD_PAGE: u64 = 13;
    pub const STORE_PAGE: u64 = 15;
    pub const INTERRUPT: u64 = 1 << 63;
}

/// Bits of mstatus.
#[allow(missing_docs)]
pub mod status {
    pub const SIE: u64 = 1 << 1;
    pub const MIE: u64 = 1 << 3;
    pub const SPIE: u64 = 1 << 5;
    pub const MPIE: u64 = 1 << 7;
    pub const SPP: u64 = 1 << 8;
    pub const MPP: u64 = 3 << 11;
    pub const FS: u64 = 3 << 13;
    pub const MPRV: u64 = 1 << 17;
    pub const SUM: u64 = 1 << 18;
    pub const MXR: u64 = 1 << 19;
    pub const TVM: u64 = 1 << 20;
    pub const TW: u64 = 1 << 21;
    pub const TSR: u64 = 1 << 22;
}

/// Bits of mip and mie.
#[allow(missing_docs)]
pub mod irq {
    pub const SSIP: u64 = 1 << 1;
    pub const MSIP: u64 = 1 << 3;
    pub const STIP: u64 = 1 << 5;
    pub const MTIP: u64 = 1 << 7;
    pub const SEIP: u64 = 1 << 9;
    pub const MEIP: u64 = 1 << 11;
    pub const LCOFIP: u64 = 1 << 13;
    /// Highest priority first.
    pub const PRIORITY: [u64; 7] = [11, 3, 7, 9, 1, 5, 13];
}

/// A synchronous exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trap {
    /// Cause code.
    pub cause: u64,
    /// Value for mtval or stval.
    pub tval: u64,
}

impl Trap {
    /// A trap with its value.
    pub fn new(cause: u64, tval: u64) -> Self {
        Self { cause, tval }
    }
    /// Illegal instruction; the value is the instruction's bits.
    pub fn illegal(raw: u32) -> Self {
        Self::new(cause::ILLEGAL, raw as u64)
    }
}

/// Why an instruction did not come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undone {
    /// By an exception, which is taken.
    Trap(Trap),
    /// It has to wait.
    NotNow,
}

impl From<Trap> for Undone {
    fn from(t: Trap) -> Self {
        Undone::Trap(t)
    }
}

impl From<NotNow> for Undone {
    fn from(NotNow: NotNow) -> Self {
        Undone::NotNow
    }
}

/// Traps without progress. Either the same exception again and again, taken in the mode of its handler before that has
/// returned, or taken where handlers have just returned to, by exception or interrupt. Only for messages; it is no
/// state of the hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrapLoop {
    /// Cause, with the interrupt bit.
    pub cause: u64,
    /// Where it happens.
    pub pc: u64,
    /// What mtval or stval was the last time.
    pub tval: u64,
    /// Whether the handler is the machine's, otherwise it is the supervisor's.
    pub machine: bool,
    /// Whether the handler itself has trapped; otherwise it has returned each time.
    pub own: bool,
    /// How often in a row.
    pub times: u64,
}

/// What [`TrapLoop`]s are found by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Futile {
    pub(crate) exception: TrapLoop,
    pub(crate) interrupt: TrapLoop,
    /// Where a handler has returned to, and the instructions retired by then.
    pub(crate) returned: (u64, u64),
    /// Whether one has returned since the last exception.
    pub(crate) since: bool,
}
