//! Branches and jumps, and the updates of the predictor.

use super::*;
use nagori_hart::engine::{bucket, is_link};

impl Emitter<'_> {
    pub(super) fn branch(&mut self, i: usize, p: &PreOp) {
        use Op::*;
        let at = self.b.offset as i64 + p.off as i64;
        let (target, behind) = (at + p.imm as i64, at + p.len as i64);
        let taken = self.label();
        if p.rs2 == 0 && matches!(p.op, Beq | Bne) && p.rs1 != 0 {
            match host(p.rs1) {
                Some(a) => dynasm!(self.a; .arch x64; test Rq(a), Rq(a)),
                None => dynasm!(self.a; .arch x64; cmp QWORD [rbp + x(p.rs1)], 0),
            }
        } else {
            let a = self.read(p.rs1, RAX);
            match (host(p.rs2), p.rs2) {
                (Some(b), _) => dynasm!(self.a; .arch x64; cmp Rq(a), Rq(b)),
                (None, 0) => dynasm!(self.a; .arch x64; cmp Rq(a), 0),
                (None, r) => dynasm!(self.a; .arch x64; cmp Rq(a), [rbp + x(r)]),
            }
        }
        match p.op {
            Beq => dynasm!(self.a; .arch x64; je =>taken),
            Bne => dynasm!(self.a; .arch x64; jne =>taken),
            Blt => dynasm!(self.a; .arch x64; jl =>taken),
            Bge => dynasm!(self.a; .arch x64; jge =>taken),
            Bltu => dynasm!(self.a; .arch x64; jb =>taken),
            _ => dynasm!(self.a; .arch x64; jae =>taken),
        }
        if self.timed {
            self.predict(i, at as i32, false);
        }
        self.tail_to(behind);
        dynasm!(self.a; .arch x64; =>taken);
        if self.timed {
            self.predict(i, at as i32, true);
        }
        self.tail_to(target);
    }

    /// The effect of a branch on the predictor if it is predicted correctly and nothing is
    /// replaced; every other case is a call.
    fn predict(&mut self, i: usize, at: i32, taken: bool) {
        let (from, back) = (self.label(), self.label());
        let g = self.s.config.predictor;
        let entries = g.bht_entries as i32;
        let history = ((1u64 << g.history_bits) - 1) as i32;
        dynasm!(self.a; .arch x64; mov eax, [rbp + HISTORY]; add eax, eax);
        if entries <= 0x400 {
            // The index has no bits of the page's number.
            dynasm!(self.a; .arch x64; mov edx, eax; xor edx, at >> 2);
        } else {
            dynasm!(self.a; .arch x64
                ; mov edx, [rbp + PAGE]
                ; add edx, at
                ; shr edx, 2
                ; xor edx, eax
            );
        }
        dynasm!(self.a; .arch x64
            ; and edx, entries - 1
            ; add rdx, [rbp + BHT]
            ; cmp BYTE [rdx], taken as i8
            ; jne =>from
        );
        if taken {
            self.btb(at, from);
            dynasm!(self.a; .arch x64; or eax, 1);
        }
        dynasm!(self.a; .arch x64
            ; and eax, history
            ; mov [rbp + HISTORY], eax
            ; =>back
        );
        let info = info(self.id, i);
        self.cold.push(Cold::Branch {
            from,
            back,
            info,
            taken,
        });
    }

    /// Goes to `miss` unless the branch target buffer's first guess for the pc at an
    /// offset is right; else `rdx` = the entry's address. Keeps `rax`.
    fn btb(&mut self, at: i32, miss: DynamicLabel) {
        let hash = (bucket(at as u64) * layout::BUCKET) as i32;
        // The page's part of the hash is scaled when it is used.
        let scale = layout::BUCKET as i32;
        debug_assert_eq!(scale, 2);
        dynasm!(self.a; .arch x64
            ; mov rdx, [rbp + PAGE_HASH]
            ; add edx, edx
            ; xor edx, hash
            ; add rdx, [rbp + BUCKETS]
            ; movzx edx, BYTE [rdx + layout::BUCKET_LAST as i32]
            ; shl edx, 4
            ; add rdx, [rbp + BTB]
            ; mov rcx, [rbp + PAGE]
            ; add rcx, at
            ; cmp rcx, [rdx + layout::BTB_PC as i32]
            ; jne =>miss
        );
    }

    pub(super) fn jal(&mut self, i: usize, p: &PreOp) {
        let at = self.b.offset as i64 + p.off as i64;
        if self.timed {
            let (from, back) = (self.label(), self.label());
            self.btb(at as i32, from);
            if is_link(p.rd) {
                self.push_return(p, at);
            }
            dynasm!(self.a; .arch x64; =>back);
            let info = info(self.id, i);
            self.cold.push(Cold::Branch {
                from,
                back,
                info,
                taken: true,
            });
        }
        self.link(p, at);
        self.tail_to(at + p.imm as i64);
    }

    /// Puts the return address on the predictor's stack. Keeps `rax`.
    fn push_return(&mut self, p: &PreOp, at: i64) {
        let behind = (at + p.len as i64) as i32;
        let limit = self.s.config.predictor.ras_entries as i32;
        dynasm!(self.a; .arch x64
            ; mov ecx, [rbp + RAS_TOP]
            ; inc DWORD [rbp + RAS_TOP]
            ; and ecx, layout::RETURNS as i32 - 1
            ; shl ecx, RETURN_SHIFT
            ; add rcx, [rbp + RAS]
            ; mov rdx, [rbp + PAGE]
            ; add rdx, behind
            ; mov [rcx + layout::RETURN_ADDRESS as i32], rdx
            ; lea rdx, [r15 + p.cost as i32]
            ; add rdx, [rbp + STOP]
            ; mov [rcx + layout::RETURN_CYCLE as i32], rdx
            ; mov ecx, [rbp + RAS_LEN]
            ; cmp ecx, limit
            ; adc ecx, 0
            ; mov [rbp + RAS_LEN], ecx
        );
    }

    /// Takes the return address `rax` from the predictor's stack, or goes to `miss` if
    /// another one is there, or it comes too early. Keeps `rax`.
    fn pop_return(&mut self, p: &PreOp, miss: DynamicLabel) {
        // Cycles between call and return are more than the delay.
        let delay = self.s.config.timing.return_after_call as i32;
        dynasm!(self.a; .arch x64
            ; cmp DWORD [rbp + RAS_LEN], 0
            ; je =>miss
            ; mov edx, [rbp + RAS_TOP]
            ; dec edx
            ; mov ecx, edx
            ; and ecx, layout::RETURNS as i32 - 1
            ; shl ecx, RETURN_SHIFT
            ; add rcx, [rbp + RAS]
            ; cmp rax, [rcx + layout::RETURN_ADDRESS as i32]
            ; jne =>miss
            ; mov rcx, [rcx + layout::RETURN_CYCLE as i32]
            ; sub rcx, r15
            ; sub rcx, [rbp + STOP]
            ; cmp rcx, p.cost as i32 - delay
            ; jge =>miss
            ; mov [rbp + RAS_TOP], edx
            ; dec DWORD [rbp + RAS_LEN]
        );
    }

    /// Return address into the destination.
    fn link(&mut self, p: &PreOp, at: i64) {
        if p.rd != SINK {
            let d = self.target(p.rd, RCX);
            dynasm!(self.a; .arch x64
                ; mov Rq(d), [rbp + PAGE]
                ; add Rq(d), (at + p.len as i64) as i32
            );
            self.write(p.rd, d);
        }
    }

    pub(super) fn jalr(&mut self, i: usize, p: &PreOp) {
        let at = self.b.offset as i64 + p.off as i64;
        self.load(p.rs1, RAX);
        if p.imm != 0 {
            dynasm!(self.a; .arch x64; add rax, p.imm);
        }
        dynasm!(self.a; .arch x64; and rax, -2);
        if p.flags & TARGET != 0 {
            // The interpreter raises the trap.
            let (from, info) = (self.label(), info(self.id, i));
            dynasm!(self.a; .arch x64; test al, 2; jnz =>from);
            self.cold.push(Cold::Rest { from, info });
        }
        if self.timed {
            let info = info(self.id, i);
            let (from, back) = (self.label(), self.label());
            if is_link(p.rs1) && !is_link(p.rd) {
                self.pop_return(p, from);
            } else {
                self.btb(at as i32, from);
                dynasm!(self.a; .arch x64
                    ; cmp rax, [rdx + layout::BTB_TARGET as i32]
                    ; jne =>from
                );
                if is_link(p.rd) {
                    self.push_return(p, at);
                }
            }
            dynasm!(self.a; .arch x64; =>back);
            self.cold.push(Cold::Jump { from, back, info });
        }
        self.link(p, at);
        self.tail_indirect();
    }
}

/// A return address is 16 bytes.
const RETURN_SHIFT: i8 = 4;
const _: () = assert!(layout::RETURN == 1 << RETURN_SHIFT);
