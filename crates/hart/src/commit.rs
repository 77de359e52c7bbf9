//! What harts have done: one stream of events, in the order in which they happened, each told once and
//! when it is certain. An instruction that is given up, to be tried again, leaves no trace.
//!
//! Harts run one after the other, so the order is one for all of them: a load reads what the last store
//! in the stream has stored there, whichever hart that was (devices and translated page tables apart).
//! The cycles of different harts interleave.

use crate::block::{PreOp, ILLEGAL_LEN};
use crate::hart::Hart;
use crate::run::{End, RunPoint};
use crate::world::{LineRequest, TrapEvent, World};
use nagori_isa::{Format, Op};

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An instruction has been executed, or has trapped.
    Commit(&'a Commit),
    /// A trap that belongs to no instruction that was begun: an interrupt, a fetch that is not
    /// possible, a trigger in front of an instruction. For who does not ask for
    /// [instructions](Observer::COMMITS), any trap.
    Trap(&'a TrapEvent),
    /// A line is written back to memory, which has from now on what the stores so far have stored to
    /// it. It comes before the instruction that is the reason.
    WriteBack(&'a LineRequest),
}

impl Event<'_> {
    /// The trap, also that of an instruction.
    pub fn trap(&self) -> Option<&TrapEvent> {
        match self {
            Event::Commit(c) => c.trap.as_ref(),
            Event::Trap(t) => Some(t),
            Event::WriteBack(_) => None,
        }
    }
}

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reg {
    /// Integer register, 1 to 31.
    X(u8),
    /// Floating-point register, 0 to 31.
    F(u8),
    /// Control and status register.
    Csr(u16),
}

/// What an instruction does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// A load: plain, reserving, or the first half of an atomic.
    Read,
    /// A store: plain, conditional and successful, the second half of an atomic, or of zeros.
    Write,
    /// A line is written back and stays in the caches.
    Clean,
    /// A line is written back and leaves the caches; an invalidation is done that way, too.
    Flush,
    /// All of L1D is written back and emptied; there is no address.
    FlushAll,
}

/// An access to memory or to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemAccess {
    /// What was done.
    pub kind: AccessKind,
    /// First virtual address.
    pub vaddr: u64,
    /// First physical address.
    pub paddr: u64,
    /// Bytes; 64 for the operations on lines.
    pub size: u8,
    /// What was read or written, zero-extended; 0 for the operations on lines.
    pub value: u128,
}

/// An instruction that has been executed, or has trapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Hart index.
    pub hart: usize,
    /// Core cycle of its issue; of several tries, of the last.
    pub cycle: u64,
    /// Its address.
    pub pc: u64,
    /// Its bits, 16 or 32; 0 for who does not ask ([`Observer::WORDS`]).
    pub word: u32,
    /// What it is; `None` if it is no instruction of this hart.
    pub op: Option<Op>,
    /// Privilege that it began with (0 U, 1 S, 3 M).
    pub privilege: u8,
    /// Registers written, with the values they have now: the destination (of a pair both), the CSR of a
    /// CSR instruction, and `fflags` if floating point has raised some. Of the status registers that
    /// traps, returns and floating point change, nothing is said.
    pub writes: [Option<(Reg, u64)>; 2],
    /// Accesses, in order. Of what traps, none.
    pub accesses: [Option<MemAccess>; 2],
    /// Whether an `sc` has stored.
    pub stored: Option<bool>,
    /// The trap that it has taken. Then it has not retired.
    pub trap: Option<TrapEvent>,
}

impl Commit {
    /// Whether it counts as retired.
    pub fn retired(&self) -> bool {
        self.trap.is_none()
    }

    /// Registers written.
    pub fn writes(&self) -> impl Iterator<Item = (Reg, u64)> {
        self.writes.into_iter().flatten()
    }

    /// Accesses.
    pub fn accesses(&self) -> impl Iterator<Item = MemAccess> {
        self.accesses.into_iter().flatten()
    }
}

/// Watches harts. What nobody asks for costs nothing: the constants are looked at when the program is
/// compiled.
pub trait Observer {
    /// Whether instructions are told, with their traps. All code is interpreted then.
    const COMMITS: bool = false;
    /// Whether they are told with their bits, which costs a translation of the address for each.
    const WORDS: bool = Self::COMMITS;
    /// Whether traps are told.
    const TRAPS: bool = Self::COMMITS;
    /// Whether lines that are written back are told.
    const WRITE_BACKS: bool = Self::COMMITS;
    /// Whether `stops` and `tried_again` are called.
    const STOPS: bool = false;
    /// Something has happened.
    fn happened(&mut self, _event: &Event<'_>) {}
    /// Whether a hart is to stand still in front of the instruction at `pc`. It costs nothing:
    /// when the hart runs again, it goes on within the block, and is asked again.
    fn stops(&mut self, _hart: usize, _pc: u64) -> bool {
        false
    }
    /// The instruction that `stops` let pass was given up; it will be tried again.
    fn tried_again(&mut self, _hart: usize, _pc: u64) {}
}

/// The instruction that is being executed. It stands outside of the hart, whose fields lie close together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    begun: Option<Begun>,
    accesses: [Option<MemAccess>; 2],
    stored: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    cycle: u64,
    pc: u64,
    word: u32,
    privilege: u8,
    fflags: u8,
    op: PreOp,
}

impl Hart {
    /// The instruction before has been executed.
    #[inline(always)]
    pub(crate) fn commit_last<W: World>(&mut self, w: &mut W) {
        if W::COMMITS {
            self.commit(w, None);
        }
    }

    /// An instruction is going to be executed.
    #[inline(always)]
    pub(crate) fn commit_begin<W: World>(&mut self, w: &mut W, p: &PreOp, at: RunPoint) {
        if W::COMMITS {
            self.record.begun = Some(Begun {
                cycle: self.cycle + at.offset,
                pc: at.pc,
                word: match W::WORDS {
                    true => self.raw_at(w, at.pc, p.len),
                    false => 0,
                },
                privilege: self.privilege as u8,
                fflags: self.csr.fflags,
                op: *p,
            });
        }
    }

    /// It has accessed memory or a device.
    #[inline(always)]
    pub(crate) fn commit_access<W: World>(
        &mut self,
        kind: AccessKind,
        (vaddr, paddr): (u64, u64),
        size: u8,
        value: u128,
    ) {
        if W::COMMITS {
            let [first, second] = &mut self.record.accesses;
            let free = if first.is_none() { first } else { second };
            *free = Some(MemAccess {
                kind,
                vaddr,
                paddr,
                size,
                value: match size {
                    1..16 => value & ((1 << (8 * size)) - 1),
                    _ => value,
                },
            });
        }
    }

    /// It is an `sc`.
    #[inline(always)]
    pub(crate) fn commit_conditional<W: World>(&mut self, stored: bool) {
        if W::COMMITS {
            self.record.stored = Some(stored);
        }
    }

    /// A run of instructions has ended. The last of them may have failed: a trap undoes its
    /// accesses and is told with it when it is taken; an instruction that is to be tried again has not
    /// been there at all.
    #[inline(always)]
    pub(crate) fn commit_end<W: World>(&mut self, w: &mut W, end: &End) {
        if W::COMMITS {
            match end {
                End::Trap(..) => self.record.accesses = [None; 2],
                End::NotNow(_) => *self.record = Record::default(),
                _ => self.commit(w, None),
            }
        }
    }

    /// A trap is going to be taken.
    #[inline(always)]
    pub(crate) fn commit_trap<W: World>(
        &mut self,
        w: &mut W,
        trap: impl FnOnce(&Self) -> TrapEvent,
    ) {
        if W::COMMITS && self.record.begun.is_some() {
            let trap = trap(self);
            self.commit(w, Some(trap));
        } else if W::TRAPS {
            let trap = trap(self);
            w.happened(&Event::Trap(&trap));
        }
    }

    /// A line is written back.
    #[inline(always)]
    pub(crate) fn commit_write_back<W: World>(&self, w: &mut W, request: &LineRequest) {
        if W::WRITE_BACKS {
            w.happened(&Event::WriteBack(request));
        }
    }

    fn commit<W: World>(&mut self, w: &mut W, trap: Option<TrapEvent>) {
        let Record {
            begun,
            accesses,
            stored,
        } = std::mem::take(&mut *self.record);
        let Some(b) = begun else { return };
        let writes = match trap {
            Some(_) => [None; 2],
            None => self.written(w, &b),
        };
        w.happened(&Event::Commit(&Commit {
            hart: self.id,
            cycle: b.cycle,
            pc: b.pc,
            word: b.word,
            op: (b.op.len != ILLEGAL_LEN).then_some(b.op.op),
            privilege: b.privilege,
            writes,
            accesses,
            stored,
            trap,
        }));
    }

    /// What an instruction has written to registers.
    fn written<W: World>(&mut self, w: &W, b: &Begun) -> [Option<(Reg, u64)>; 2] {
        use Format::*;
        let p = &b.op;
        let x = |h: &Self, r: u8| (1..32).contains(&r).then(|| (Reg::X(r), h.x[r as usize]));
        let f = |h: &Self| Some((Reg::F(p.rd & 31), h.f[(p.rd & 31) as usize]));
        let flags =
            (self.csr.fflags != b.fflags).then_some((Reg::Csr(0x001), u64::from(self.csr.fflags)));
        match p.op.info().format {
            None | Fence | FenceI | Sfence | Store | B | FpStore | Cbo | Prefetch | Cflush
            | Mark => [Option::None; 2],
            R | I | Jalr | Load | Shift6 | Shift5 | LoadReserved | U | J | Unary | Amo | Cas => {
                [x(self, p.rd), Option::None]
            }
            CasPair if p.rd < 32 => [x(self, p.rd), x(self, p.rd + 1)],
            CasPair => [Option::None; 2],
            Csr | CsrImm => {
                // Of the instructions that set or clear bits, those without any do not write.
                let writes = p.rs1 != 0 || matches!(p.op, Op::Csrrw | Op::Csrrwi);
                let number = p.imm as u16 & 0xfff;
                let value = if writes {
                    self.csr(w, number)
                } else {
                    Option::None
                };
                [x(self, p.rd), value.map(|v| (Reg::Csr(number), v))]
            }
            FpLoad | FpMoveFromInt => [f(self), Option::None],
            FpFma | FpArith | FpPair | FpUnary | FpFromInt => [f(self), flags],
            FpCompare | FpToInt | FpMoveToInt => [x(self, p.rd), flags],
        }
    }
}
