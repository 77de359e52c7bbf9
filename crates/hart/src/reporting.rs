//! What a hart reports of the instructions that it executes.

use crate::commit::{
    AccessKind, Begun, Commit, Event, LineRequest, MemAccess, Record, Reg, TrapEvent,
};
use crate::hart::Hart;
use crate::place::{End, RunPoint};
use crate::preop::{PreOp, ILLEGAL_LEN};
use crate::world::World;
use nagori_isa::{Format, Op};

impl Hart {
    /// The previous instruction has been executed.
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
                cycle: self.state.cycle + at.offset(),
                pc: at.pc,
                word: if w.wants_words() {
                    self.raw_at(w, at.pc, p.len)
                } else {
                    0
                },
                privilege: self.state.privilege as u8,
                fflags: self.state.csr.fflags,
                op: *p,
            });
        }
    }

    /// The instruction has accessed memory or a device, and no filter has let it pass.
    #[inline(always)]
    pub(crate) fn commit_access<W: World>(
        &mut self,
        w: &mut W,
        kind: AccessKind,
        (vaddr, paddr): (u64, u64),
        size: u8,
        value: u128,
    ) {
        w.accessed(kind, paddr, size);
        self.commit_passed::<W>(kind, (vaddr, paddr), size, value);
    }

    /// The instruction has accessed memory, by a filter or not.
    #[inline(always)]
    pub(crate) fn commit_passed<W: World>(
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

    /// The instruction is an `sc`.
    #[inline(always)]
    pub(crate) fn commit_conditional<W: World>(&mut self, stored: bool) {
        if W::COMMITS {
            self.record.stored = Some(stored);
        }
    }

    /// A run of instructions has ended. The last of them may have failed: a trap discards its
    /// accesses, and is reported with it when it is taken; an instruction that is to be tried again
    /// is not reported.
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

    /// The registers that an instruction has written.
    fn written<W: World>(&mut self, w: &mut W, b: &Begun) -> [Option<(Reg, u64)>; 2] {
        use Format::*;
        let p = &b.op;
        let x = |h: &Self, r: u8| {
            (1..32)
                .contains(&r)
                .then(|| (Reg::X(r), h.state.x[r as usize]))
        };
        let f = |h: &Self| Some((Reg::F(p.rd & 31), h.state.f[(p.rd & 31) as usize]));
        let flags = (self.state.csr.fflags != b.fflags)
            .then_some((Reg::Csr(0x001), u64::from(self.state.csr.fflags)));
        match p.op.info().format {
            None | Fence | FenceI | Sfence | Store | B | FpStore | Cbo | Prefetch | Cflush
            | Mark => [Option::None; 2],
            R | I | Jalr | Load | Shift6 | Shift5 | LoadReserved | U | J | Unary | Amo | Cas => {
                [x(self, p.rd), Option::None]
            }
            CasPair if p.rd < 32 => [x(self, p.rd), x(self, p.rd + 1)],
            CasPair => [Option::None; 2],
            Csr | CsrImm => {
                // An instruction that sets or clears bits does not write the CSR if its mask is
                // register zero or 0.
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
