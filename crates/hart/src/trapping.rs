//! How a hart takes traps, and returns from them.

use crate::commit::TrapEvent;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::privilege::Privilege;
use crate::trap::{cause, irq, status, TrapLoop};
use crate::world::World;

impl Hart {
    /// The exception and the interrupt that were taken last, and how often in a row.
    pub fn trap_loops(&self) -> [TrapLoop; 2] {
        [self.futile.exception, self.futile.interrupt]
    }

    /// Takes note of a trap from the present mode to a mode.
    fn count_trap(&mut self, cause: u64, tval: u64, to_s: bool) {
        let f = &mut self.futile;
        let nothing_done = f.returned == (self.state.pc, self.state.instret);
        let (l, again, own) = if cause & cause::INTERRUPT != 0 {
            (&mut f.interrupt, nothing_done, false)
        } else {
            let supervisor = self.state.privilege == Privilege::Supervisor;
            let own = to_s == supervisor && self.state.privilege != Privilege::User && !f.since;
            f.since = false;
            let same = (f.exception.cause, f.exception.pc) == (cause, self.state.pc);
            let same = same && f.exception.machine != to_s;
            (&mut f.exception, same && (own || nothing_done), own)
        };
        *l = TrapLoop {
            cause,
            pc: self.state.pc,
            tval,
            machine: !to_s,
            own,
            times: if again { l.times + 1 } else { 1 },
        };
    }

    /// Takes note of the return from a handler to `self.pc`, with the instructions retired then.
    pub(crate) fn count_return(&mut self, instret: u64) {
        self.futile.returned = (self.state.pc, instret);
        self.futile.since = true;
    }

    /// The interrupt to take now, if any.
    pub(crate) fn pending_interrupt(&self) -> Option<u64> {
        let pending = self.mip() & self.state.csr.mie;
        if pending == 0 {
            return None;
        }
        let st = self.state.csr.mstatus;
        let m_on = self.state.privilege < Privilege::Machine || st & status::MIE != 0;
        let s_on = self.state.privilege < Privilege::Supervisor
            || (self.state.privilege == Privilege::Supervisor && st & status::SIE != 0);
        let for_m = if m_on {
            pending & !self.state.csr.mideleg
        } else {
            0
        };
        let for_s = if s_on {
            pending & self.state.csr.mideleg
        } else {
            0
        };
        let set = if for_m != 0 { for_m } else { for_s };
        irq::PRIORITY.into_iter().find(|i| set >> i & 1 != 0)
    }

    /// Enters the handler of an exception or interrupt (`cause::INTERRUPT` set) at `self.pc`.
    pub(crate) fn take_trap<W: World>(&mut self, w: &mut W, code: u64, tval: u64) {
        // The handler may make lines dirty.
        self.state.halfway.flushed = None;
        self.state.halfway.replays = 0;
        self.state.halfway.hint = None;
        let at = RunPoint::begin(self.state.pc);
        self.abandon_fill(w, at);
        let interrupt = code & cause::INTERRUPT != 0;
        let bit = code & 63;
        let deleg = if interrupt {
            self.state.csr.mideleg
        } else {
            self.state.csr.medeleg
        };
        let to_s = self.state.privilege != Privilege::Machine && deleg >> bit & 1 != 0;
        self.commit_trap(w, |h| TrapEvent {
            hart: h.id,
            cycle: h.state.cycle,
            pc: h.state.pc,
            cause: code,
            tval,
            from: h.state.privilege as u8,
            to: if to_s { 1 } else { 3 },
        });
        self.count_trap(code, tval, to_s);
        let to = if to_s {
            Privilege::Supervisor
        } else {
            Privilege::Machine
        };
        self.leaves_mode(w, to, self.moment());
        let st = self.state.csr.mstatus;
        let epc = self.state.pc & !self.config.isa.pc_low();
        let vector;
        if to_s {
            self.state.csr.sepc = epc;
            self.state.csr.scause = code;
            self.state.csr.stval = tval;
            let mut n = st & !(status::SPP | status::SPIE | status::SIE);
            if self.state.privilege == Privilege::Supervisor {
                n |= status::SPP;
            }
            if st & status::SIE != 0 {
                n |= status::SPIE;
            }
            self.state.csr.mstatus = n;
            self.state.privilege = Privilege::Supervisor;
            vector = self.state.csr.stvec;
        } else {
            self.state.csr.mepc = epc;
            self.state.csr.mcause = code;
            self.state.csr.mtval = tval;
            let mut n = st & !(status::MPP | status::MPIE | status::MIE);
            n |= (self.state.privilege as u64) << 11;
            if st & status::MIE != 0 {
                n |= status::MPIE;
            }
            self.state.csr.mstatus = n;
            self.state.privilege = Privilege::Machine;
            vector = self.state.csr.mtvec;
        }
        let base = vector & !3;
        self.state.pc = if vector & 1 != 0 && interrupt {
            base.wrapping_add(4 * bit)
        } else {
            base
        };
        self.state.reservation = None;
        self.state.halfway.walk = None;
        self.state.predictor.gives_up();
        if interrupt {
            self.state.stats.interrupts += 1;
        } else {
            self.state.stats.exceptions += 1;
        }
        self.state.pending = 0;
        // Time goes on even where a handler's first instruction traps for ever.
        self.state.cycle += if self.state.timed {
            self.config.timing.trap_entry
        } else {
            self.config.functional_cpi
        } as u64;
        if self.state.timed {
            self.refetch();
        }
        self.context_changed();
    }

    /// The mode that `mret` or, if not `machine`, `sret` leads to.
    pub(crate) fn returns_to(&self, machine: bool) -> Privilege {
        let st = self.state.csr.mstatus;
        match machine {
            true => Privilege::from_bits(st >> 11 & 3),
            false if st & status::SPP != 0 => Privilege::Supervisor,
            false => Privilege::User,
        }
    }

    pub(crate) fn mret(&mut self) {
        let st = self.state.csr.mstatus;
        let to = self.returns_to(true);
        let mut n = st & !(status::MIE | status::MPP);
        if st & status::MPIE != 0 {
            n |= status::MIE;
        }
        n |= status::MPIE;
        if to != Privilege::Machine {
            n &= !status::MPRV;
        }
        self.state.csr.mstatus = n;
        self.state.privilege = to;
        self.state.pc = self.state.csr.mepc;
        self.context_changed();
    }

    pub(crate) fn sret(&mut self) {
        let st = self.state.csr.mstatus;
        let to = self.returns_to(false);
        let mut n = st & !(status::SIE | status::SPP | status::MPRV);
        if st & status::SPIE != 0 {
            n |= status::SIE;
        }
        n |= status::SPIE;
        self.state.csr.mstatus = n;
        self.state.privilege = to;
        self.state.pc = self.state.csr.sepc;
        self.context_changed();
    }
}
