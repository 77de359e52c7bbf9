//! Call stacks from the calls and returns that a hart executes, so that programs need no frame pointers.

use nagori_hart::world::{Commit, Reg};
use nagori_isa::Op;
use nagori_machine::Machine;
use std::collections::HashMap;

/// Most return addresses that a stack of a report has.
const SHOWN: usize = 24;
/// Most calls that are remembered of a thread; the outermost ones are forgotten first.
const MOST: usize = 512;
/// The register satp.
const SATP: u16 = 0x180;
const RA: usize = 1;
const SP: usize = 2;
const TP: usize = 4;
const T0: usize = 5;

/// A call that has not returned: the stack pointer at the call, and the address behind it.
#[derive(Debug, Clone, Copy)]
struct Call {
    sp: u64,
    back: u64,
}

/// A thread: privilege, address space (none for the kernel, whose threads have one in common), thread pointer.
type Thread = (u8, u64, u64);

/// What is known of a hart by the instructions that it has executed.
#[derive(Debug, Clone)]
pub(super) struct Hart {
    /// Integer registers.
    pub x: [u64; 32],
    /// Register satp.
    pub satp: u64,
    thread: Thread,
    calls: Vec<Call>,
    others: HashMap<Thread, Vec<Call>>,
    /// The last instruction may have been a return.
    returned: bool,
}

impl Hart {
    /// A hart of a machine, as it is now.
    pub fn of(machine: &Machine, n: usize) -> Hart {
        let hart = machine.hart(n);
        Hart {
            x: std::array::from_fn(|r| hart.map_or(0, |h| h.reg(r))),
            satp: hart.map_or(0, |h| h.state.csr.satp),
            thread: (0, 0, 0),
            calls: Vec::new(),
            others: HashMap::new(),
            returned: false,
        }
    }

    fn enter(&mut self, privilege: u8) {
        let thread = match privilege {
            0 => (0, self.satp, self.x[TP]),
            p => (p, 0, self.x[TP]),
        };
        if thread != self.thread {
            let next = self.others.remove(&thread).unwrap_or_default();
            let old = std::mem::replace(&mut self.calls, next);
            if !old.is_empty() {
                self.others.insert(self.thread, old);
            }
            self.thread = thread;
        }
    }

    /// Takes an instruction; its registers have their new values afterwards.
    pub fn commit(&mut self, c: &Commit) {
        if self.returned {
            self.returned = false;
            if let Some(at) = self.calls.iter().rposition(|call| call.back == c.pc) {
                self.calls.truncate(at);
            }
        }
        for (reg, value) in c.writes() {
            match reg {
                Reg::X(r) => self.x[usize::from(r) % 32] = value,
                Reg::Csr(SATP) => self.satp = value,
                _ => {}
            }
        }
        if !matches!(c.op, Some(Op::Jal | Op::Jalr)) || c.trap.is_some() {
            return;
        }
        self.enter(c.privilege);
        let link = c.writes[0].and_then(|(reg, value)| match reg {
            Reg::X(r) if usize::from(r) == RA || usize::from(r) == T0 => Some(value),
            _ => None,
        });
        match link {
            Some(back) => {
                let sp = self.x[SP];
                // Stacks grow down: what was called from below has returned in some other way.
                while self.calls.last().is_some_and(|call| call.sp < sp) {
                    self.calls.pop();
                }
                if self.calls.len() == MOST {
                    self.calls.remove(0);
                }
                self.calls.push(Call { sp, back });
            }
            None => self.returned = c.op == Some(Op::Jalr),
        }
    }

    /// The stack of the instruction that has just been taken: return addresses, innermost first.
    pub fn stack(&mut self, privilege: u8) -> Vec<u64> {
        self.enter(privilege);
        let sp = self.x[SP];
        let live = self.calls.iter().rev().filter(|call| call.sp >= sp);
        live.take(SHOWN).map(|call| call.back).collect()
    }
}
