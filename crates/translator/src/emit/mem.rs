//! Loads and stores: through the filter, or by the interpreter.

use super::*;
use crate::stubs::SLOT_MASK;
use nagori_hart::engine::Unwritten;
use nagori_hart::filter::block_shift;

impl Emitter<'_> {
    /// Emits a load or store.
    pub(super) fn memory(&mut self, i: usize, p: &PreOp) {
        use Op::*;
        match p.op {
            Lb | Lbu => self.load_op(i, p, 1),
            Lh | Lhu => self.load_op(i, p, 2),
            Lw | Lwu => self.load_op(i, p, 4),
            Ld => self.load_op(i, p, 8),
            Sb => self.store_op(i, p, 1),
            Sh => self.store_op(i, p, 2),
            Sw => self.store_op(i, p, 4),
            Sd => self.store_op(i, p, 8),
            Flw | Fld => {
                self.fp_ready(i);
                self.load_op(i, p, if p.op == Flw { 4 } else { 8 });
            }
            Fsw | Fsd => {
                self.fp_ready(i);
                self.store_op(i, p, if p.op == Fsw { 4 } else { 8 });
            }
            _ => debug_assert!(false, "{} is no load or store", p.op.name()),
        }
    }

    /// Leaves `rax` = virtual address, `rcx` = distance of the filter entry, and goes to
    /// `miss` if the entry does not let the access pass.
    fn filter(&mut self, p: &PreOp, size: i32, key: i32, miss: DynamicLabel) {
        if let Some(base) = host(p.rs1) {
            if p.imm == 0 {
                dynasm!(self.a; .arch x64; mov rax, Rq(base));
            } else {
                dynasm!(self.a; .arch x64; lea rax, [Rq(base) + p.imm]);
            }
        } else if p.rs1 == 0 {
            dynasm!(self.a; .arch x64; mov rax, p.imm);
        } else {
            dynasm!(self.a; .arch x64; mov rax, [rbp + x(p.rs1)]);
            if p.imm != 0 {
                dynasm!(self.a; .arch x64; add rax, p.imm);
            }
        }
        let bits = block_shift(self.timed);
        // A slot is 32 bytes.
        let shift = (bits - 5) as i8;
        let mask = -(1i32 << bits) | (size - 1);
        if self.s.host.bmi2 {
            // What it turns to the top is masked.
            dynasm!(self.a; .arch x64; rorx ecx, eax, shift);
        } else {
            dynasm!(self.a; .arch x64; mov ecx, eax; shr ecx, shift);
        }
        dynasm!(self.a; .arch x64
            ; and ecx, SLOT_MASK
            ; mov rdx, rax
            ; and rdx, mask
            ; or rdx, [rbp + DCTX]
            ; cmp rdx, [rbp + rcx + DATA + key]
            ; jne =>miss
        );
    }

    /// Notes when the line was used, for a policy that asks.
    fn note_use(&mut self, p: &PreOp) {
        if self.s.config.l1d.replacement.notes_hits() {
            self.cycle_of(p.cost);
            dynasm!(self.a; .arch x64; mov [rbp + rcx + DATA + layout::ENTRY_USED as i32], edx);
        }
    }

    /// The DTLB entry of the access becomes the one used last.
    fn touch(&mut self) {
        let (from, back) = (self.label(), self.label());
        dynasm!(self.a; .arch x64
            ; movzx edx, BYTE [rbp + rcx + DATA + layout::ENTRY_WAY as i32]
            ; cmp dl, [rbp + LAST_WAY]
            ; jne =>from
            ; =>back
        );
        let stub = self.s.stubs.touch;
        self.cold.push(Cold::Call { stub, from, back });
    }

    fn load_op(&mut self, i: usize, p: &PreOp, size: i32) {
        use Op::*;
        let (miss, back) = (self.label(), self.label());
        self.filter(p, size, layout::ENTRY_READ as i32, miss);
        if self.timed {
            self.note_use(p);
            self.touch();
        }
        if self.timed {
            self.hazard(p);
        }
        dynasm!(self.a; .arch x64; add rax, [rbp + rcx + DATA + layout::ENTRY_DELTA as i32]);
        let fp = matches!(p.op, Flw | Fld);
        let d = if fp { RAX } else { self.target(p.rd, RAX) };
        match p.op {
            Lb => dynasm!(self.a; .arch x64; movsx Rq(d), BYTE [r14 + rax]),
            Lbu => dynasm!(self.a; .arch x64; movzx Rd(d), BYTE [r14 + rax]),
            Lh => dynasm!(self.a; .arch x64; movsx Rq(d), WORD [r14 + rax]),
            Lhu => dynasm!(self.a; .arch x64; movzx Rd(d), WORD [r14 + rax]),
            Lw => dynasm!(self.a; .arch x64; movsxd Rq(d), DWORD [r14 + rax]),
            Lwu => dynasm!(self.a; .arch x64; mov Rd(d), DWORD [r14 + rax]),
            Ld | Fld => dynasm!(self.a; .arch x64; mov Rq(d), [r14 + rax]),
            _ => dynasm!(self.a; .arch x64
                ; mov eax, [r14 + rax]
                ; mov rcx, QWORD 0xffff_ffff_0000_0000u64 as i64
                ; or rax, rcx
            ),
        }
        if fp {
            dynasm!(self.a; .arch x64; mov [rbp + f(p.rd & 31)], rax);
        } else {
            self.write(p.rd, d);
        }
        dynasm!(self.a; .arch x64; =>back);
        let info = info(self.id, i);
        self.cold_call(self.s.stubs.miss, miss, back, info);
    }

    fn store_op(&mut self, i: usize, p: &PreOp, size: i32) {
        use Op::*;
        let (miss, back) = (self.label(), self.label());
        self.filter(p, size, layout::ENTRY_WRITE as i32, miss);
        if self.timed {
            let (last, older) = self.hazards_follow(i);
            if older {
                dynasm!(self.a; .arch x64
                    ; mov rdx, [rbp + LAST_STORE]
                    ; mov [rbp + OLDER_STORE], rdx
                );
            }
            if last {
                dynasm!(self.a; .arch x64; mov [rbp + LAST_STORE], rax);
            }
        }
        if self.timed {
            self.note_use(p);
            self.touch();
        }
        dynasm!(self.a; .arch x64; add rax, [rbp + rcx + DATA + layout::ENTRY_DELTA as i32]);
        let v = match p.op {
            Fsw | Fsd => {
                dynasm!(self.a; .arch x64; mov rdx, [rbp + f(p.rs2)]);
                RDX
            }
            _ => self.read(p.rs2, RDX),
        };
        match size {
            1 => dynasm!(self.a; .arch x64; mov [r14 + rax], Rb(v)),
            2 => dynasm!(self.a; .arch x64; mov [r14 + rax], Rw(v)),
            4 => dynasm!(self.a; .arch x64; mov [r14 + rax], Rd(v)),
            _ => dynasm!(self.a; .arch x64; mov [r14 + rax], Rq(v)),
        }
        dynasm!(self.a; .arch x64; =>back);
        let info = info(self.id, i);
        self.cold_call(self.s.stubs.miss, miss, back, info);
    }

    /// A load from `rax` waits for the stores in front of it that overlap. Keeps `rax` and `rcx`.
    fn hazard(&mut self, p: &PreOp) {
        if p.flags & nagori_hart::HAZARD == 0 {
            return;
        }
        let (wait, pass) = (self.label(), self.label());
        for (k, store) in [(0, LAST_STORE), (1, OLDER_STORE)] {
            let bits = p.near(k) as i32;
            if bits != 0 {
                dynasm!(self.a; .arch x64
                    ; mov rdx, rax
                    ; xor rdx, [rbp + store]
                    ; test edx, bits
                    ; jz =>wait
                );
            }
        }
        let cycles = self.s.config.timing.store_load_hazard as i32 + i32::from(p.splits());
        // All stores are written meanwhile, and it has been fetched anew.
        let elsewhere = nagori_hart::engine::ELSEWHERE as i32;
        dynasm!(self.a; .arch x64
            ; jmp =>pass
            ; =>wait
            ; add r15, cycles
        );
        dynasm!(self.a; .arch x64
            ; mov rdx, rax
            ; xor rdx, elsewhere
            ; mov [rbp + LAST_STORE], rdx
            ; mov [rbp + OLDER_STORE], rdx
            ; mov rdx, r15
            ; add rdx, [rbp + STOP]
            ; add rdx, i32::from(p.cost) - p.packets_before() as i32
            ; mov [rbp + FRONT], rdx
            ; =>pass
        );
    }

    /// Whether a load behind may run into this store, also one of the next block, and whether one may run into this
    /// store or the one before.
    fn hazards_follow(&self, i: usize) -> (bool, bool) {
        use nagori_isa::Format::{Amo, Cas, CasPair, FpStore, Store};
        let (mut last, mut older, mut behind) = (false, false, 0);
        for p in &self.ops[i + 1..] {
            if p.flags & nagori_hart::HAZARD != 0 {
                match behind {
                    0 => {
                        last |= p.near(0) != 0 || p.near(1) != 0;
                        older |= p.near(1) != 0;
                    }
                    _ => last |= p.near(1) != 0,
                }
            }
            // An atomic is both.
            behind += usize::from(matches!(
                p.op.info().format,
                Store | FpStore | Amo | Cas | CasPair
            ));
            if behind > 1 {
                return (last, older);
            }
        }
        let unwritten = Unwritten::of(self.b.pending).0.map(|s| s.is_some());
        if behind == 0 {
            last |= unwritten[0];
            older |= unwritten[1];
        }
        (last || unwritten[1], older)
    }

    /// The interpreter executes the instruction instead.
    pub(super) fn cold_op(&mut self, from: DynamicLabel, back: DynamicLabel, i: usize) {
        let info = info(self.id, i);
        self.cold_call(self.s.stubs.op, from, back, info);
    }
}
