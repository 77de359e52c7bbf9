//! A hint for the user about a guest that traps in its own trap handler endlessly.

use super::{Service, Wishes};
use crate::caller::Caller;
use crate::error::Result;
use nagori_hart::trap::cause;
use nagori_hart::world::Observer;
use nagori_hart::TrapLoop;
use nagori_platform::machine::{Machine, Stop};

/// No guest that makes progress traps so often in a row.
const MANY: u64 = 100_000;

/// Watches for traps that cause themselves; reports the first.
pub struct Loops<'a> {
    caller: &'a dyn Caller,
    told: bool,
}

impl<'a> Loops<'a> {
    /// Reports through `caller`.
    pub fn new(caller: &'a dyn Caller) -> Loops<'a> {
        Loops {
            caller,
            told: false,
        }
    }
}

impl<O: Observer> Service<O> for Loops<'_> {
    fn after(&mut self, machine: &mut Machine<O>, _: Stop, _: &mut Wishes) -> Result<()> {
        if self.told {
            return Ok(());
        }
        let mut harts = (0..).map_while(|i| machine.hart(i));
        if let Some(h) = harts.find(|h| h.trap_loop().times >= MANY) {
            let vector = match h.trap_loop().machine {
                true => h.csr.mtvec,
                false => h.csr.stvec,
            };
            self.caller
                .warning(&text(h.id, &h.trap_loop(), vector & !3));
            self.told = true;
        }
        Ok(())
    }
}

/// What happens, and its usual cause.
fn text(hart: usize, l: &TrapLoop, handler: u64) -> String {
    let (name, register) = match l.machine {
        true => ("machine", "mtvec"),
        false => ("supervisor", "stvec"),
    };
    let (what, why) = meaning(l.cause);
    let why = match (l.pc == handler, handler) {
        (true, 0) => format!("{register} was never set, so the first trap, whatever it was, has led to address 0; set {register} early, and see the first trap with --trace irq"),
        (true, _) if fetches(l.cause) => format!("{register} points to where no code can be fetched"),
        _ => format!("{why}; --trace irq shows the first trap"),
    };
    format!(
        "hart {hart} traps in its own {name} trap handler for ever: {what} (cause {}) at pc {:#x}, tval {:#x}, handler at {handler:#x}: {why}",
        l.cause, l.pc, l.tval
    )
}

fn fetches(code: u64) -> bool {
    matches!(code, cause::FETCH_ACCESS | cause::FETCH_PAGE)
}

/// The name of an exception, and its usual cause in a handler.
fn meaning(code: u64) -> (&'static str, &'static str) {
    const STACK: &str = "the handler's stack pointer or save area is not set up, or the stack has grown out of memory";
    match code {
        cause::FETCH_MISALIGNED => ("a misaligned fetch", "the handler jumps to an odd place"),
        cause::FETCH_ACCESS => (
            "a fetch from no memory",
            "the handler jumps to where there is no memory, or where PMP forbids it",
        ),
        cause::FETCH_PAGE => (
            "a page fault of a fetch",
            "the handler's code is not mapped as executable",
        ),
        cause::ILLEGAL => (
            "an illegal instruction",
            "the handler uses an instruction or a CSR that this machine has not, or floating point while it is off",
        ),
        cause::BREAKPOINT => ("a breakpoint", "the handler has an ebreak, such as that of a failed assertion"),
        cause::LOAD_ACCESS | cause::LOAD_MISALIGNED => ("a load that is not possible", STACK),
        cause::STORE_ACCESS | cause::STORE_MISALIGNED => ("a store that is not possible", STACK),
        cause::LOAD_PAGE => ("a page fault of a load", STACK),
        cause::STORE_PAGE => ("a page fault of a store", STACK),
        _ => ("an environment call", "the handler has an ecall"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_depends_on_cause_and_place() {
        let at = |cause, pc| TrapLoop {
            cause,
            pc,
            tval: 0x10,
            machine: true,
            times: MANY,
        };
        let unset = text(1, &at(cause::FETCH_ACCESS, 0), 0);
        assert!(
            unset.starts_with("hart 1 traps in its own machine"),
            "{unset}"
        );
        assert!(unset.contains("mtvec was never set"), "{unset}");
        let wild = text(0, &at(cause::FETCH_ACCESS, 0x40), 0x40);
        assert!(wild.contains("points to where no code"), "{wild}");
        let stack = text(0, &at(cause::STORE_ACCESS, 0x8000_0004), 0x8000_0000);
        assert!(
            stack.contains("stack pointer") && stack.contains("cause 7"),
            "{stack}"
        );
    }
}
