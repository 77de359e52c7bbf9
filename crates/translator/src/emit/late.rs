//! Registers and units whose results come later than a block's schedule knows.

use super::*;

impl Emitter<'_> {
    /// An instruction waits for registers that loads of the block have left on their way. Loads of earlier blocks do
    /// not matter here: where one is needed, the block is left at its start.
    pub(super) fn await_loads(&mut self, i: usize, p: &PreOp) {
        let all = waits_for_loads(p) && self.has_buffers();
        let needs = if all {
            u64::MAX
        } else {
            self.loaded & registers(p)
        };
        if needs == 0 {
            return;
        }
        let (from, back) = (self.label(), self.label());
        for (half, at) in [(needs as u32, LATE), ((needs >> 32) as u32, LATE + 4)] {
            if half != 0 {
                dynasm!(self.a; .arch x64; test DWORD [rbp + at], half as i32; jne =>from);
            }
        }
        dynasm!(self.a; .arch x64; =>back);
        let info = info(self.id, i);
        self.cold_call(self.s.stubs.late, from, back, info);
        self.loaded &= !needs;
    }

    /// An instruction waits for units whose results come late.
    pub(super) fn await_late(&mut self, i: usize, p: &PreOp) {
        for (flag, at) in [(AWAITS_LONG, LATE_LONG), (AWAITS_DIVISION, LATE_DIVISION)] {
            if p.flags & flag == 0 || !self.timed {
                continue;
            }
            let (from, back) = (self.label(), self.label());
            dynasm!(self.a; .arch x64
                ; mov rcx, [rbp + at]
                ; sub rcx, [rbp + STOP]
                ; cmp rcx, r15
                ; jg =>from
                ; =>back
            );
            let info = info(self.id, i);
            self.cold_call(self.s.stubs.units, from, back, info);
        }
    }

    /// The register that a load writes may be on its way behind it.
    pub(super) fn note_load(&mut self, p: &PreOp) {
        use nagori_isa::Format::{FpLoad, Load};
        if !self.has_buffers() {
            return;
        }
        match p.op.info().format {
            Load => self.loaded |= (1 << (p.rd & 31)) & !1,
            FpLoad => self.loaded |= 1 << (32 + (p.rd & 31)),
            _ => {}
        }
    }

    /// Adds to `ecx` what is pending of units whose results come late.
    pub(super) fn late_results(&mut self) {
        for (half, at) in [LATE_LONG, LATE_DIVISION].into_iter().enumerate() {
            let code = i32::from(self.b.late[half]) << 8;
            if code == 0 {
                continue;
            }
            let none = self.label();
            // What a wrong prediction has taken counts later.
            dynasm!(self.a; .arch x64
                ; mov rdx, [rbp + at]
                ; sub rdx, [rbp + STOP]
                ; sub rdx, r15
                ; add rdx, [rbp + REDIRECT]
                ; jle =>none
                ; cmp rdx, 0xff
                ; jle >fits
                ; mov edx, 0xff
                ; fits:
                ; or edx, code
                ; shl edx, (16 * half) as i8
                ; or ecx, edx
                ; =>none
            );
        }
    }
}
