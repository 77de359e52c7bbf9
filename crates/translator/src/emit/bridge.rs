//! Code between two blocks.

use crate::regs::*;
use crate::stubs::Asm;
use dynasmrt::{dynasm, DynasmApi, DynasmLabelApi};
use nagori_hart::engine::waits_for_half;

/// Code between two blocks that waits for results: `stall` cycles, after which `rest`
/// are still under way. `half`: cycles more if a half packet that was jumped to comes first, in a block that begins so.
pub(crate) fn bridge(
    at: usize,
    target: usize,
    (stall, rest): (u32, u32),
    half: Option<u32>,
) -> Option<Vec<u8>> {
    let mut a = Asm::new(at);
    dynasm!(a; .arch x64; add r15, stall as i32; mov DWORD [rbp + PENDING], rest as i32);
    if rest != 0 {
        dynasm!(a; .arch x64
            ; mov rcx, r15
            ; add rcx, [rbp + STOP]
            ; mov [rbp + PENDING_FROM], rcx
        );
    }
    // Behind a jump by 32 bits the block itself adds what stands there.
    if let Some(half) = half.filter(|&half| half != 1) {
        dynasm!(a; .arch x64
            ; cmp DWORD [rbp + LANDED], 1
            ; jbe >other
            ; mov DWORD [rbp + LANDED], waits_for_half(half) as i32
            ; other:
        );
    }
    dynasm!(a; .arch x64; jmp extern target);
    a.finalize().ok()
}
