//! Trap causes, trap entry and return, interrupts.

use crate::hart::{Hart, Privilege};
use crate::run::RunPoint;
use crate::world::{TrapEvent, World};
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
    exception: TrapLoop,
    interrupt: TrapLoop,
    /// Where a handler has returned to, and the instructions retired by then.
    returned: (u64, u64),
    /// Whether one has returned since the last exception.
    since: bool,
}

impl Hart {
    /// The exception and the interrupt that were taken last, and how often in a row.
    pub fn trap_loops(&self) -> [TrapLoop; 2] {
        [self.futile.exception, self.futile.interrupt]
    }

    /// Takes note of a trap from the present mode to a mode.
    fn count_trap(&mut self, cause: u64, tval: u64, to_s: bool) {
        let f = &mut self.futile;
        let nothing_done = f.returned == (self.pc, self.instret);
        let (l, again, own) = if cause & cause::INTERRUPT != 0 {
            (&mut f.interrupt, nothing_done, false)
        } else {
            let supervisor = self.privilege == Privilege::Supervisor;
            let own = to_s == supervisor && self.privilege != Privilege::User && !f.since;
            f.since = false;
            let same = (f.exception.cause, f.exception.pc) == (cause, self.pc);
            let same = same && f.exception.machine != to_s;
            (&mut f.exception, same && (own || nothing_done), own)
        };
        *l = TrapLoop {
            cause,
            pc: self.pc,
            tval,
            machine: !to_s,
            own,
            times: if again { l.times + 1 } else { 1 },
        };
    }

    /// Takes note of the return from a handler to `self.pc`, with the instructions retired then.
    pub(crate) fn count_return(&mut self, instret: u64) {
        self.futile.returned = (self.pc, instret);
        self.futile.since = true;
    }

    /// The interrupt to take now, if any.
    pub(crate) fn pending_interrupt(&self) -> Option<u64> {
        let pending = self.mip() & self.csr.mie;
        if pending == 0 {
            return None;
        }
        let st = self.csr.mstatus;
        let m_on = self.privilege < Privilege::Machine || st & status::MIE != 0;
        let s_on = self.privilege < Privilege::Supervisor
            || (self.privilege == Privilege::Supervisor && st & status::SIE != 0);
        let for_m = if m_on { pending & !self.csr.mideleg } else { 0 };
        let for_s = if s_on { pending & self.csr.mideleg } else { 0 };
        let set = if for_m != 0 { for_m } else { for_s };
        irq::PRIORITY.into_iter().find(|i| set >> i & 1 != 0)
    }

    /// Enters the handler of an exception or interrupt (`cause::INTERRUPT` set) at `self.pc`.
    pub(crate) fn take_trap<W: World>(&mut self, w: &mut W, code: u64, tval: u64) {
        // The handler may make lines dirty.
        self.flushed = None;
        self.replays = 0;
        self.hint = None;
        let at = RunPoint::new(0, self.pc);
        self.abandon_fill(w, at);
        let interrupt = code & cause::INTERRUPT != 0;
        let bit = code & 63;
        let deleg = if interrupt {
            self.csr.mideleg
        } else {
            self.csr.medeleg
        };
        let to_s = self.privilege != Privilege::Machine && deleg >> bit & 1 != 0;
        self.commit_trap(w, |h| TrapEvent {
            hart: h.id,
            cycle: h.cycle,
            pc: h.pc,
            cause: code,
            tval,
            from: h.privilege as u8,
            to: if to_s { 1 } else { 3 },
        });
        self.count_trap(code, tval, to_s);
        let to = if to_s {
            Privilege::Supervisor
        } else {
            Privilege::Machine
        };
        self.leaves_mode(w, to, self.moment());
        let st = self.csr.mstatus;
        let epc = self.pc & !self.config.isa.pc_low();
        let vector;
        if to_s {
            self.csr.sepc = epc;
            self.csr.scause = code;
            self.csr.stval = tval;
            let mut n = st & !(status::SPP | status::SPIE | status::SIE);
            if self.privilege == Privilege::Supervisor {
                n |= status::SPP;
            }
            if st & status::SIE != 0 {
                n |= status::SPIE;
            }
            self.csr.mstatus = n;
            self.privilege = Privilege::Supervisor;
            vector = self.csr.stvec;
        } else {
            self.csr.mepc = epc;
            self.csr.mcause = code;
            self.csr.mtval = tval;
            let mut n = st & !(status::MPP | status::MPIE | status::MIE);
            n |= (self.privilege as u64) << 11;
            if st & status::MIE != 0 {
                n |= status::MPIE;
            }
            self.csr.mstatus = n;
            self.privilege = Privilege::Machine;
            vector = self.csr.mtvec;
        }
        let base = vector & !3;
        self.pc = if vector & 1 != 0 && interrupt {
            base.wrapping_add(4 * bit)
        } else {
            base
        };
        self.reservation = None;
        self.walk_begun = None;
        self.predictor.gives_up();
        if interrupt {
            self.stats.interrupts += 1;
        } else {
            self.stats.exceptions += 1;
        }
        self.pending = 0;
        // Time goes on even where a handler's first instruction traps for ever.
        self.cycle += if self.timed {
            self.config.timing.trap_entry
        } else {
            self.config.functional_cpi
        } as u64;
        if self.timed {
            self.refetch();
        }
        self.context_changed();
    }

    /// The mode that `mret` or, if not `machine`, `sret` leads to.
    pub(crate) fn returns_to(&self, machine: bool) -> Privilege {
        let st = self.csr.mstatus;
        match machine {
            true => Privilege::from_bits(st >> 11 & 3),
            false if st & status::SPP != 0 => Privilege::Supervisor,
            false => Privilege::User,
        }
    }

    pub(crate) fn mret(&mut self) {
        let st = self.csr.mstatus;
        let to = self.returns_to(true);
        let mut n = st & !(status::MIE | status::MPP);
        if st & status::MPIE != 0 {
            n |= status::MIE;
        }
        n |= status::MPIE;
        if to != Privilege::Machine {
            n &= !status::MPRV;
        }
        self.csr.mstatus = n;
        self.privilege = to;
        self.pc = self.csr.mepc;
        self.context_changed();
    }

    pub(crate) fn sret(&mut self) {
        let st = self.csr.mstatus;
        let to = self.returns_to(false);
        let mut n = st & !(status::SIE | status::SPP | status::MPRV);
        if st & status::SPIE != 0 {
            n |= status::SIE;
        }
        n |= status::SPIE;
        self.csr.mstatus = n;
        self.privilege = to;
        self.pc = self.csr.sepc;
        self.context_changed();
    }
}
