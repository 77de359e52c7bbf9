//! The reports to observers about an instruction: collected while it is executed, and passed on
//! when it is certain. An instruction that is abandoned, to be executed again, is not reported.

use crate::hart::Hart;
use crate::run::End;
use crate::run::RunPoint;
use crate::world::{AccessEvent, AccessKind, World};

/// The instruction that is being executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Cycle of its issue, and its address.
    cycle: u64,
    pc: u64,
    /// Its bits, and the privilege that it began with.
    begun: Option<(u32, u8)>,
    /// Atomics load and store.
    accesses: [Option<AccessEvent>; 2],
}

impl Hart {
    /// The instruction before has been executed.
    #[inline(always)]
    pub(crate) fn record_done<W: World>(&mut self, w: &mut W) {
        if W::RETIRE || W::ACCESS {
            self.hand_on(w);
        }
    }

    /// An instruction is going to be executed.
    #[inline(always)]
    pub(crate) fn record_begin<W: World>(&mut self, w: &mut W, at: RunPoint, len: u8) {
        if W::RETIRE || W::ACCESS {
            self.record.cycle = self.cycle + at.offset;
            self.record.pc = at.pc;
        }
        if W::RETIRE {
            let raw = self.raw_at(w, at.pc, len);
            self.record.begun = Some((raw, self.privilege as u8));
        }
    }

    /// It touches memory.
    #[inline(always)]
    pub(crate) fn record_access<W: World>(&mut self, vaddr: u64, size: u8, kind: AccessKind) {
        if W::ACCESS {
            let r = &mut self.record;
            let event = AccessEvent {
                hart: self.id,
                cycle: r.cycle,
                pc: r.pc,
                vaddr,
                size,
                kind,
            };
            let [first, second] = &mut r.accesses;
            let free = if first.is_none() { first } else { second };
            *free = Some(event);
        }
    }

    /// A run of instructions has ended. The last of them may have failed: a trap undoes its
    /// accesses, and an instruction that is to be tried again has not been there at all.
    #[inline(always)]
    pub(crate) fn record_end<W: World>(&mut self, w: &mut W, end: &End) {
        if W::RETIRE || W::ACCESS {
            if let End::Trap(..) | End::NotNow(_) = end {
                self.record.accesses = [None; 2];
            }
            if let End::NotNow(_) = end {
                self.record.begun = None;
            }
            self.hand_on(w);
        }
    }

    fn hand_on<W: World>(&mut self, w: &mut W) {
        let r = &mut self.record;
        let (cycle, pc) = (r.cycle, r.pc);
        let (begun, accesses) = (r.begun.take(), std::mem::take(&mut r.accesses));
        if let Some((raw, privilege)) = begun {
            w.retired(self.id, cycle, pc, raw, privilege);
        }
        for event in accesses.into_iter().flatten() {
            w.access(&event);
        }
    }
}
