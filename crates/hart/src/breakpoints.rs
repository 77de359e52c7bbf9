//! What debug triggers do to a hart.

use crate::hart::Hart;
use crate::preop::PreOp;
use crate::privilege::Privilege;
use crate::trap::{cause, status, Trap};
use crate::trigger::{place, Trigger, EXECUTE, HIT0, LOAD, M, S, STORE, U};

impl Hart {
    /// Writes a register of the triggers.
    pub(crate) fn set_trigger(&mut self, number: u16, value: u64) {
        let (data, code) = self.state.triggers.write(number, value);
        if data || code {
            self.flush_filters();
            self.run.recheck = true;
        }
        if code {
            self.state.pmp_writes += 1;
        }
    }

    /// Bits of `tdata1` that let a trigger fire now; 0 while none may.
    fn trigger_mode(&self) -> u64 {
        let st = self.state.csr.mstatus;
        let delegated = self.state.csr.medeleg >> cause::BREAKPOINT & 1 != 0;
        match self.state.privilege {
            Privilege::Machine if st & status::MIE != 0 => M,
            Privilege::Machine => 0,
            Privilege::Supervisor if delegated && st & status::SIE == 0 => 0,
            Privilege::Supervisor => S,
            Privilege::User => U,
        }
    }

    /// Which trigger fires for an access, or for an instruction at its address.
    fn firing(&self, kinds: u64, first: u64, bytes: u64) -> Option<usize> {
        let mode = self.trigger_mode();
        let fires = |t: &Trigger| t.data1 & mode != 0 && t.wants(kinds, first, bytes);
        self.state.triggers.list.iter().position(fires)
    }

    /// A trigger fires before an instruction.
    fn fire(&mut self, trigger: usize, tval: u64) -> Trap {
        self.state.triggers.list[trigger].data1 |= HIT0;
        Trap::new(cause::BREAKPOINT, tval)
    }

    /// The exception of the first trigger that fires for a load or store.
    #[inline(always)]
    pub(crate) fn data_trigger(
        &mut self,
        va: u64,
        bytes: u64,
        load: bool,
        store: bool,
    ) -> Result<(), Trap> {
        if self.state.triggers.kinds & (LOAD | STORE) == 0 {
            return Ok(());
        }
        self.data_trigger_slow(va, bytes, load, store)
    }

    #[cold]
    #[inline(never)]
    fn data_trigger_slow(
        &mut self,
        va: u64,
        bytes: u64,
        load: bool,
        store: bool,
    ) -> Result<(), Trap> {
        let kinds = if load { LOAD } else { 0 } | if store { STORE } else { 0 };
        match self.firing(kinds, va, bytes) {
            Some(t) => Err(self.fire(t, va)),
            None => Ok(()),
        }
    }

    /// Whether a trigger may fire for an instruction of a block, whatever the mode.
    #[cold]
    #[inline(never)]
    pub(crate) fn holds_trigger(&self, ops: &[PreOp], pc: u64) -> bool {
        let list = &self.state.triggers.list;
        ops.iter().any(|p| {
            let (at, len) = place(p, pc);
            list.iter().any(|t| t.wants(EXECUTE, at, len))
        })
    }

    /// The first of a block's instructions, from one on, for which a trigger fires. Within a block
    /// nothing changes that this depends on.
    #[cold]
    #[inline(never)]
    pub(crate) fn fetch_trigger(&self, ops: &[PreOp], first: usize, pc: u64) -> Option<usize> {
        let fires = |p: &PreOp| {
            let (at, len) = place(p, pc);
            self.firing(EXECUTE, at, len).is_some()
        };
        let found = ops.get(first..)?.iter().position(fires)?;
        Some(first + found)
    }

    /// The exception of the trigger for an instruction of a block.
    #[cold]
    pub(crate) fn fetch_breakpoint(&mut self, p: &PreOp, pc: u64) -> Option<Trap> {
        let (at, len) = place(p, pc);
        let t = self.firing(EXECUTE, at, len)?;
        Some(self.fire(t, at))
    }

    /// The exception of a trigger for an instruction that cannot be fetched, which goes before.
    pub(crate) fn breakpoint_before(&mut self, fault: Trap) -> Trap {
        if !self.state.triggers.executes() {
            return fault;
        }
        let t = self.firing(EXECUTE, self.state.pc, 0);
        t.map_or(fault, |t| self.fire(t, self.state.pc))
    }

    /// Whether any trigger may fire for an instruction: not every way from block to block may be
    /// taken then without a look.
    pub fn has_execute_triggers(&self) -> bool {
        self.state.triggers.executes()
    }
}
