//! Floating point.

use super::*;

impl Emitter<'_> {
    /// Emits a floating-point instruction; false if it is none, or none that is done here.
    pub(super) fn float(&mut self, i: usize, p: &PreOp) -> bool {
        let _ = (i, p);
        false
    }

    /// Leaves the rest of the block to the interpreter unless floating point is on and
    /// dirty already and rounds to nearest even.
    pub(super) fn fp_ready(&mut self, i: usize) {
        if self.fp_checked {
            return;
        }
        self.fp_checked = true;
        let from = self.label();
        dynasm!(self.a; .arch x64
            ; cmp BYTE [rbp + FP_READY], 0
            ; je =>from
        );
        let info = info(self.id, i);
        self.cold.push(Cold::Rest { from, info });
    }
}
