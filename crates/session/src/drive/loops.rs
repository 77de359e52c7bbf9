//! A hint for the user about a guest that traps endlessly, without an instruction in between that is not a handler's.

use super::{Service, Wishes};
use crate::caller::Caller;
use crate::error::Result;
use nagori_hart::trap::cause;
use nagori_hart::TrapLoop;
use nagori_machine::{Machine, Stop};

/// No guest that makes progress traps so often in a row.
const MANY: u64 = 100_000;
/// No guest that makes progress takes so many interrupts in a row; fewer than traps, as a timer's interrupts cut the
/// rows short.
const MANY_INTERRUPTS: u64 = 10_000;

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

impl Service for Loops<'_> {
    fn after(&mut self, machine: &mut Machine, _: Stop, _: &mut Wishes) -> Result<()> {
        if self.told {
            return Ok(());
        }
        let harts = (0..).map_while(|i| machine.hart(i));
        let mut all = harts.flat_map(|h| h.trap_loops().map(|l| (h, l)));
        if let Some((h, l)) = all.find(|(_, l)| l.times >= most(l.cause)) {
            let vector = if l.machine {
                h.state.csr.mtvec
            } else {
                h.state.csr.stvec
            };
            self.caller.warning(&text(h.id, &l, vector & !3));
            self.told = true;
        }
        Ok(())
    }
}

fn most(code: u64) -> u64 {
    match code & cause::INTERRUPT {
        0 => MANY,
        _ => MANY_INTERRUPTS,
    }
}

/// What happens, and its usual cause.
fn text(hart: usize, l: &TrapLoop, handler: u64) -> String {
    let (name, register) = if l.machine {
        ("machine", "mtvec")
    } else {
        ("supervisor", "stvec")
    };
    if l.cause & cause::INTERRUPT != 0 {
        let (what, why) = interrupt(l.cause & !cause::INTERRUPT);
        return format!(
            "hart {hart} is interrupted for ever: {what} (cause {}) at pc {:#x}, {name} handler at {handler:#x}, which \
                returns each time, and not an instruction is executed in between: {why}",
            l.cause & !cause::INTERRUPT, l.pc
        );
    }
    let (what, why) = meaning(l.cause);
    if !l.own {
        let why = match l.pc {
            0 => "something has jumped to address 0, such as a handler that was never set, or code with relocations \
                that nobody has applied; a handler that passes exceptions on leads back there",
            _ => "the handler has not removed the cause",
        };
        return format!(
            "hart {hart} takes the same exception for ever: {what} (cause {}) at pc {:#x}, tval {:#x}, {name} handler \
                at {handler:#x}, which returns to that instruction each time: {why}; --trace irq shows the first trap",
            l.cause, l.pc, l.tval
        );
    }
    let why = match (l.pc == handler, handler) {
        (true, 0) => format!("{register} was never set, so the first trap, whatever it was, has led to address 0; set \
            {register} early, and see the first trap with --trace irq"),
        (true, _) if fetches(l.cause) => format!("{register} points to where no code can be fetched"),
        _ => format!("{why}; --trace irq shows the first trap"),
    };
    format!(
        "hart {hart} traps in its own {name} trap handler for ever: {what} (cause {}) at pc {:#x}, tval {:#x}, handler \
            at {handler:#x}: {why}",
        l.cause, l.pc, l.tval
    )
}

/// The name of an interrupt, and why it may stay.
fn interrupt(code: u64) -> (&'static str, &'static str) {
    match code {
        1 | 3 => ("a software interrupt", "the handler does not clear it"),
        5 | 7 => (
            "a timer interrupt",
            "the handler does not set the timer to a later time, or takes longer than until then",
        ),
        9 | 11 => (
            "an external interrupt",
            "the device still asks for it when its number is given back to the PLIC; \
             a 16550's request for output ends when IIR is read or THR is written",
        ),
        _ => ("an interrupt", "the handler does not clear it"),
    }
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
            own: true,
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
        let passed_on = TrapLoop {
            own: false,
            ..at(cause::FETCH_PAGE, 0)
        };
        let passed_on = text(0, &passed_on, 0x8000_0000);
        assert!(
            passed_on.contains("the same exception for ever") && passed_on.contains("address 0"),
            "{passed_on}"
        );
        let uart = TrapLoop {
            own: false,
            ..at(cause::INTERRUPT | 9, 0x8000_1000)
        };
        let uart = text(0, &uart, 0x8000_0000);
        assert!(
            uart.contains("interrupted for ever") && uart.contains("IIR"),
            "{uart}"
        );
    }
}
