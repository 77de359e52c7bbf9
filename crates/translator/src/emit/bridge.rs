//! Code between two blocks.

use crate::regs::*;
use crate::stubs::Asm;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi};
use nagori_hart::engine::{layout, waits_for_half, Meeting};

/// What code between two blocks waits for.
pub(crate) struct Bridge {
    /// Cycles that the block waits, and what is still under way then; of the stores nothing.
    pub stall: u32,
    pub rest: u32,
    /// Cycles more if a half packet that was jumped to comes first, in a block that begins so.
    pub half: Option<u32>,
    /// Stores are pending.
    pub stores: bool,
    /// Loads that may run into them, and how many cycles the block's first instruction waits then, if the block's line
    /// (a number in the page) is known to be there or is there.
    pub met: Vec<Meeting>,
    pub hazard: Option<(u32, Option<i32>)>,
}

/// Code between two blocks that waits for results, and for stores if the block's first load needs them. Where it
/// does not know how long, the code goes to `full`.
pub(crate) fn bridge(at: usize, (target, full): (usize, usize), b: Bridge) -> Option<Vec<u8>> {
    let mut a = Asm::new(at);
    let (first, other) = (a.new_dynamic_label(), a.new_dynamic_label());
    for m in &b.met {
        let label = if m.op == 0 { first } else { other };
        let (base, distance) = m.base?;
        match host(base) {
            Some(h) => dynasm!(a; .arch x64; mov rax, Rq(h)),
            None if base == 0 => dynasm!(a; .arch x64; xor eax, eax),
            None => dynasm!(a; .arch x64; mov rax, [rbp + x(base)]),
        }
        let store = if m.store == 0 {
            LAST_STORE
        } else {
            OLDER_STORE
        };
        dynasm!(a; .arch x64
            ; add rax, distance
            ; xor rax, [rbp + store]
            ; test eax, m.bits as i32
            ; jz =>label
        );
    }
    waits(&mut a, &b);
    dynasm!(a; .arch x64; jmp extern target; =>first);
    if let Some((cycles, line)) = b.hazard {
        if let Some(line) = line {
            let entry = FETCH + layout::ENTRY_READ as i32 + line * layout::ENTRY as i32;
            dynasm!(a; .arch x64
                ; mov rcx, [rbp + FETCH_SLOTS]
                ; mov rax, [rbp + PAGE_KEY]
                ; add rax, line * 64
                ; cmp rax, [rbp + rcx + entry]
                ; jne =>other
            );
        }
        waits(&mut a, &b);
        // The load has been fetched anew.
        let cycles = cycles as i32;
        dynasm!(a; .arch x64
            ; add r15, cycles
            ; mov rcx, r15
            ; add rcx, [rbp + STOP]
            ; mov [rbp + FRONT], rcx
        );
        dynasm!(a; .arch x64; jmp extern target);
    }
    dynasm!(a; .arch x64; =>other; jmp extern full);
    a.finalize().ok()
}

/// Waits for results.
fn waits(a: &mut Asm, b: &Bridge) {
    let stall = b.stall as i32;
    dynasm!(a; .arch x64; add r15, stall);
    // The stores are in the upper half.
    if b.stores {
        dynasm!(a; .arch x64; mov ecx, b.rest as i32; mov [rbp + PENDING], rcx)
    } else {
        dynasm!(a; .arch x64; mov DWORD [rbp + PENDING], b.rest as i32)
    }
    if b.rest != 0 {
        dynasm!(a; .arch x64
            ; mov rcx, r15
            ; add rcx, [rbp + STOP]
            ; mov [rbp + PENDING_FROM], rcx
        );
    }
    // Behind a jump by 32 bits the block itself adds what stands there.
    if let Some(half) = b.half.filter(|&half| half != 1) {
        dynasm!(a; .arch x64
            ; cmp DWORD [rbp + LANDED], 1
            ; jbe >other
            ; mov DWORD [rbp + LANDED], waits_for_half(half) as i32
            ; other:
        );
    }
}
