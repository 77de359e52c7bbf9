//! Floating point on the host's unit.
//!
//! The host rounds and signals as RISC-V does if the mode is round to nearest even: both detect
//! tininess after rounding, and the host's sticky flags are collected when code is left. Other
//! cases go to the interpreter: other rounding modes, badly boxed singles, results out of range of
//! an integer. NaNs become canonical here.

use super::*;

const NAN64: i64 = 0x7ff8_0000_0000_0000;
const NAN32: i32 = 0x7fc0_0000;

impl Emitter<'_> {
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

    /// From here on the host's flags are the guest's.
    fn fp_start(&mut self) {
        if self.fp_started {
            return;
        }
        let (from, back) = (self.label(), self.label());
        dynasm!(self.a; .arch x64
            ; cmp BYTE [rbp + FP_LIVE], 0
            ; je =>from
            ; =>back
        );
        let stub = self.s.stubs.fp_start;
        self.cold.push(Cold::Call { stub, from, back });
        self.fp_started = true;
    }

    /// Goes to `miss` if a register holds no boxed single.
    fn boxed(&mut self, r: u8, miss: DynamicLabel) {
        dynasm!(self.a; .arch x64
            ; cmp DWORD [rbp + f(r) + 4], -1
            ; jne =>miss
        );
    }

    /// Stores `xmm0` as a double, canonical if it is a NaN.
    fn store_double(&mut self, rd: u8) {
        let (from, back) = (self.label(), self.label());
        dynasm!(self.a; .arch x64
            ; ucomisd xmm0, xmm0
            ; jp =>from
            ; movsd [rbp + f(rd)], xmm0
            ; =>back
        );
        self.cold.push(Cold::Nan {
            from,
            back,
            rd,
            single: false,
        });
    }

    /// Stores `xmm0` as a boxed single, canonical if it is a NaN.
    fn store_single(&mut self, rd: u8) {
        let (from, back) = (self.label(), self.label());
        dynasm!(self.a; .arch x64
            ; ucomiss xmm0, xmm0
            ; jp =>from
            ; movss [rbp + f(rd)], xmm0
            ; mov DWORD [rbp + f(rd) + 4], -1
            ; =>back
        );
        self.cold.push(Cold::Nan {
            from,
            back,
            rd,
            single: true,
        });
    }

    /// Code behind a result that is a NaN.
    pub(super) fn cold_nan(
        &mut self,
        from: DynamicLabel,
        back: DynamicLabel,
        rd: u8,
        single: bool,
    ) {
        dynasm!(self.a; .arch x64; =>from);
        if single {
            dynasm!(self.a; .arch x64
                ; mov DWORD [rbp + f(rd)], NAN32
                ; mov DWORD [rbp + f(rd) + 4], -1
            );
        } else {
            dynasm!(self.a; .arch x64
                ; mov rax, QWORD NAN64
                ; mov [rbp + f(rd)], rax
            );
        }
        dynasm!(self.a; .arch x64; jmp =>back);
    }

    /// Emits a floating-point instruction; false if it is none, or none that is done here.
    pub(super) fn float(&mut self, i: usize, p: &PreOp) -> bool {
        use nagori_isa::Format::*;
        let known = matches!(
            p.op.info().format,
            FpFma
                | FpArith
                | FpPair
                | FpUnary
                | FpCompare
                | FpToInt
                | FpFromInt
                | FpMoveToInt
                | FpMoveFromInt
        );
        if !known || !self.float_supported(p) {
            return false;
        }
        self.fp_ready(i);
        let (miss, back) = (self.label(), self.label());
        match p.op.info().format {
            FpArith | FpUnary => self.arithmetic(p, miss),
            FpFma => self.fused(p, miss),
            FpPair => self.pair(p, miss),
            FpCompare => self.compare(p, miss),
            FpToInt => self.convert_to_integer(p, miss),
            FpFromInt => self.convert_integer(p),
            _ => self.float_move(p),
        }
        dynasm!(self.a; .arch x64; =>back);
        self.cold_op(miss, back, i);
        true
    }

    fn float_supported(&self, p: &PreOp) -> bool {
        use Op::*;
        let nearest = p.rm == 0 || p.rm == 7;
        match p.op {
            // How long they take follows from their operands.
            FdivS | FsqrtS | FdivD | FsqrtD if self.timed => false,
            FaddS | FsubS | FmulS | FdivS | FsqrtS | FaddD | FsubD | FmulD | FdivD | FsqrtD
            | FcvtSD | FcvtSW | FcvtSWu | FcvtSL | FcvtDL => nearest,
            FmaddS | FmsubS | FnmaddS | FnmsubS | FmaddD | FmsubD | FnmaddD | FnmsubD => {
                nearest && self.s.host.fma
            }
            // Exact: any legal mode will do.
            FcvtDS | FcvtDW | FcvtDWu => p.rm <= 4 || p.rm == 7,
            FcvtWS | FcvtWD | FcvtLS | FcvtLD => nearest || p.rm == 1,
            FsgnjS | FsgnjnS | FsgnjxS | FsgnjD | FsgnjnD | FsgnjxD | FminS | FmaxS | FminD
            | FmaxD | FeqS | FltS | FleS | FeqD | FltD | FleD | FmvXW | FmvXD | FmvWX | FmvDX => {
                true
            }
            _ => false,
        }
    }

    fn arithmetic(&mut self, p: &PreOp, miss: DynamicLabel) {
        use Op::*;
        let single = matches!(p.op, FaddS | FsubS | FmulS | FdivS | FsqrtS | FcvtDS);
        let (a, b) = (f(p.rs1), f(p.rs2));
        if single {
            self.boxed(p.rs1, miss);
            if !matches!(p.op, FsqrtS | FcvtDS) && p.rs2 != p.rs1 {
                self.boxed(p.rs2, miss);
            }
        }
        self.fp_start();
        if matches!(p.op, FaddS | FsubS | FmulS | FdivS) {
            dynasm!(self.a; .arch x64; movss xmm0, [rbp + a]);
        } else if matches!(p.op, FaddD | FsubD | FmulD | FdivD) {
            dynasm!(self.a; .arch x64; movsd xmm0, [rbp + a]);
        } else {
            // These keep the upper part of their target: it must not be waited for.
            dynasm!(self.a; .arch x64; xorps xmm0, xmm0);
        }
        match p.op {
            FaddS => dynasm!(self.a; .arch x64; addss xmm0, [rbp + b]),
            FsubS => dynasm!(self.a; .arch x64; subss xmm0, [rbp + b]),
            FmulS => dynasm!(self.a; .arch x64; mulss xmm0, [rbp + b]),
            FdivS => dynasm!(self.a; .arch x64; divss xmm0, [rbp + b]),
            FsqrtS => dynasm!(self.a; .arch x64; sqrtss xmm0, [rbp + a]),
            FaddD => dynasm!(self.a; .arch x64; addsd xmm0, [rbp + b]),
            FsubD => dynasm!(self.a; .arch x64; subsd xmm0, [rbp + b]),
            FmulD => dynasm!(self.a; .arch x64; mulsd xmm0, [rbp + b]),
            FdivD => dynasm!(self.a; .arch x64; divsd xmm0, [rbp + b]),
            FsqrtD => dynasm!(self.a; .arch x64; sqrtsd xmm0, [rbp + a]),
            FcvtSD => dynasm!(self.a; .arch x64; cvtsd2ss xmm0, [rbp + a]),
            _ => dynasm!(self.a; .arch x64; cvtss2sd xmm0, [rbp + a]),
        }
        if matches!(p.op, FaddS | FsubS | FmulS | FdivS | FsqrtS | FcvtSD) {
            self.store_single(p.rd);
        } else {
            self.store_double(p.rd);
        }
    }

    /// A NaN is left to the interpreter: whether infinity times zero plus a NaN is
    /// invalid is the host's own choice.
    fn fused(&mut self, p: &PreOp, miss: DynamicLabel) {
        use Op::*;
        let single = matches!(p.op, FmaddS | FmsubS | FnmaddS | FnmsubS);
        let (a, b, c) = (f(p.rs1), f(p.rs2), f(p.rs3));
        if single {
            self.boxed(p.rs1, miss);
            self.boxed(p.rs2, miss);
            self.boxed(p.rs3, miss);
        }
        self.fp_start();
        if single {
            dynasm!(self.a; .arch x64; movss xmm0, [rbp + a]; movss xmm1, [rbp + b]);
        } else {
            dynasm!(self.a; .arch x64; movsd xmm0, [rbp + a]; movsd xmm1, [rbp + b]);
        }
        match p.op {
            FmaddS => dynasm!(self.a; .arch x64; vfmadd213ss xmm0, xmm1, [rbp + c]),
            FmsubS => dynasm!(self.a; .arch x64; vfmsub213ss xmm0, xmm1, [rbp + c]),
            FnmsubS => dynasm!(self.a; .arch x64; vfnmadd213ss xmm0, xmm1, [rbp + c]),
            FnmaddS => dynasm!(self.a; .arch x64; vfnmsub213ss xmm0, xmm1, [rbp + c]),
            FmaddD => dynasm!(self.a; .arch x64; vfmadd213sd xmm0, xmm1, [rbp + c]),
            FmsubD => dynasm!(self.a; .arch x64; vfmsub213sd xmm0, xmm1, [rbp + c]),
            FnmsubD => dynasm!(self.a; .arch x64; vfnmadd213sd xmm0, xmm1, [rbp + c]),
            _ => dynasm!(self.a; .arch x64; vfnmsub213sd xmm0, xmm1, [rbp + c]),
        }
        if single {
            dynasm!(self.a; .arch x64
                ; ucomiss xmm0, xmm0
                ; jp =>miss
                ; movss [rbp + f(p.rd)], xmm0
                ; mov DWORD [rbp + f(p.rd) + 4], -1
            );
        } else {
            dynasm!(self.a; .arch x64
                ; ucomisd xmm0, xmm0
                ; jp =>miss
                ; movsd [rbp + f(p.rd)], xmm0
            );
        }
    }

    /// Sign injection, least and greatest.
    fn pair(&mut self, p: &PreOp, miss: DynamicLabel) {
        use Op::*;
        let single = matches!(p.op, FsgnjS | FsgnjnS | FsgnjxS | FminS | FmaxS);
        let (a, b, d) = (f(p.rs1), f(p.rs2), f(p.rd));
        if single {
            self.boxed(p.rs1, miss);
            if p.rs2 != p.rs1 {
                self.boxed(p.rs2, miss);
            }
        }
        match p.op {
            FminS | FmaxS => {
                self.fp_start();
                // Equal ones (zeros differ in sign) and NaNs are the interpreter's.
                dynasm!(self.a; .arch x64
                    ; movss xmm0, [rbp + a]
                    ; ucomiss xmm0, [rbp + b]
                    ; je =>miss
                );
                if p.op == FminS {
                    dynasm!(self.a; .arch x64; minss xmm0, [rbp + b]);
                } else {
                    dynasm!(self.a; .arch x64; maxss xmm0, [rbp + b]);
                }
                dynasm!(self.a; .arch x64
                    ; movss [rbp + d], xmm0
                    ; mov DWORD [rbp + d + 4], -1
                );
            }
            FminD | FmaxD => {
                self.fp_start();
                dynasm!(self.a; .arch x64
                    ; movsd xmm0, [rbp + a]
                    ; ucomisd xmm0, [rbp + b]
                    ; je =>miss
                );
                if p.op == FminD {
                    dynasm!(self.a; .arch x64; minsd xmm0, [rbp + b]);
                } else {
                    dynasm!(self.a; .arch x64; maxsd xmm0, [rbp + b]);
                }
                dynasm!(self.a; .arch x64; movsd [rbp + d], xmm0);
            }
            FsgnjS | FsgnjnS | FsgnjxS => {
                dynasm!(self.a; .arch x64; mov eax, [rbp + a]);
                if p.rs1 == p.rs2 {
                    match p.op {
                        FsgnjS => {}
                        FsgnjnS => dynasm!(self.a; .arch x64; btc eax, 31),
                        _ => dynasm!(self.a; .arch x64; btr eax, 31),
                    }
                } else {
                    dynasm!(self.a; .arch x64; mov ecx, [rbp + b]);
                    match p.op {
                        FsgnjS => dynasm!(self.a; .arch x64; xor ecx, eax),
                        FsgnjnS => dynasm!(self.a; .arch x64; xor ecx, eax; not ecx),
                        _ => {}
                    }
                    dynasm!(self.a; .arch x64
                        ; and ecx, i32::MIN
                        ; xor eax, ecx
                    );
                }
                dynasm!(self.a; .arch x64
                    ; mov [rbp + d], eax
                    ; mov DWORD [rbp + d + 4], -1
                );
            }
            _ => {
                dynasm!(self.a; .arch x64; mov rax, [rbp + a]);
                if p.rs1 == p.rs2 {
                    match p.op {
                        FsgnjD => {}
                        FsgnjnD => dynasm!(self.a; .arch x64; btc rax, 63),
                        _ => dynasm!(self.a; .arch x64; btr rax, 63),
                    }
                } else {
                    dynasm!(self.a; .arch x64; mov rcx, [rbp + b]);
                    match p.op {
                        FsgnjD => dynasm!(self.a; .arch x64; xor rcx, rax),
                        FsgnjnD => dynasm!(self.a; .arch x64; xor rcx, rax; not rcx),
                        _ => {}
                    }
                    dynasm!(self.a; .arch x64
                        ; shr rcx, 63
                        ; shl rcx, 63
                        ; xor rax, rcx
                    );
                }
                dynasm!(self.a; .arch x64; mov [rbp + d], rax);
            }
        }
    }

    fn compare(&mut self, p: &PreOp, miss: DynamicLabel) {
        use Op::*;
        let single = matches!(p.op, FeqS | FltS | FleS);
        // a < b is b > a: an unordered pair then is false.
        let (one, two) = match p.op {
            FeqS | FeqD => (p.rs1, p.rs2),
            _ => (p.rs2, p.rs1),
        };
        if single {
            self.boxed(one, miss);
            if one != two {
                self.boxed(two, miss);
            }
        }
        self.fp_start();
        let (a, b) = (f(one), f(two));
        match p.op {
            FeqS => dynasm!(self.a; .arch x64; movss xmm0, [rbp + a]; ucomiss xmm0, [rbp + b]),
            FltS | FleS => {
                dynasm!(self.a; .arch x64; movss xmm0, [rbp + a]; comiss xmm0, [rbp + b])
            }
            FeqD => dynasm!(self.a; .arch x64; movsd xmm0, [rbp + a]; ucomisd xmm0, [rbp + b]),
            _ => dynasm!(self.a; .arch x64; movsd xmm0, [rbp + a]; comisd xmm0, [rbp + b]),
        }
        match p.op {
            FeqS | FeqD => dynasm!(self.a; .arch x64; sete al; setnp cl; and al, cl),
            FltS | FltD => dynasm!(self.a; .arch x64; seta al),
            _ => dynasm!(self.a; .arch x64; setae al),
        }
        dynasm!(self.a; .arch x64; movzx eax, al);
        self.write(p.rd, RAX);
    }

    /// To a signed integer. What the host answers for everything out of range is
    /// left to the interpreter, the one number that it stands for included.
    fn convert_to_integer(&mut self, p: &PreOp, miss: DynamicLabel) {
        use Op::*;
        let zero = p.rm == 1;
        let a = f(p.rs1);
        if matches!(p.op, FcvtWS | FcvtLS) {
            self.boxed(p.rs1, miss);
        }
        self.fp_start();
        match (p.op, zero) {
            (FcvtWS, true) => dynasm!(self.a; .arch x64; cvttss2si eax, [rbp + a]),
            (FcvtWS, false) => dynasm!(self.a; .arch x64; cvtss2si eax, [rbp + a]),
            (FcvtLS, true) => dynasm!(self.a; .arch x64; cvttss2si rax, [rbp + a]),
            (FcvtLS, false) => dynasm!(self.a; .arch x64; cvtss2si rax, [rbp + a]),
            (FcvtWD, true) => dynasm!(self.a; .arch x64; cvttsd2si eax, [rbp + a]),
            (FcvtWD, false) => dynasm!(self.a; .arch x64; cvtsd2si eax, [rbp + a]),
            (_, true) => dynasm!(self.a; .arch x64; cvttsd2si rax, [rbp + a]),
            (_, false) => dynasm!(self.a; .arch x64; cvtsd2si rax, [rbp + a]),
        }
        if matches!(p.op, FcvtWS | FcvtWD) {
            dynasm!(self.a; .arch x64; cmp eax, 1; jo =>miss; movsxd rax, eax);
        } else {
            dynasm!(self.a; .arch x64; cmp rax, 1; jo =>miss);
        }
        self.write(p.rd, RAX);
    }

    fn convert_integer(&mut self, p: &PreOp) {
        use Op::*;
        self.fp_start();
        let a = self.read(p.rs1, RAX);
        dynasm!(self.a; .arch x64; xorps xmm0, xmm0);
        match p.op {
            FcvtDW => dynasm!(self.a; .arch x64; cvtsi2sd xmm0, Rd(a)),
            FcvtDWu => dynasm!(self.a; .arch x64; mov eax, Rd(a); cvtsi2sd xmm0, rax),
            FcvtDL => dynasm!(self.a; .arch x64; cvtsi2sd xmm0, Rq(a)),
            FcvtSW => dynasm!(self.a; .arch x64; cvtsi2ss xmm0, Rd(a)),
            FcvtSWu => dynasm!(self.a; .arch x64; mov eax, Rd(a); cvtsi2ss xmm0, rax),
            _ => dynasm!(self.a; .arch x64; cvtsi2ss xmm0, Rq(a)),
        }
        if matches!(p.op, FcvtDW | FcvtDWu | FcvtDL) {
            dynasm!(self.a; .arch x64; movsd [rbp + f(p.rd)], xmm0);
        } else {
            dynasm!(self.a; .arch x64
                ; movss [rbp + f(p.rd)], xmm0
                ; mov DWORD [rbp + f(p.rd) + 4], -1
            );
        }
    }

    fn float_move(&mut self, p: &PreOp) {
        use Op::*;
        match p.op {
            FmvXD => {
                let d = self.target(p.rd, RAX);
                dynasm!(self.a; .arch x64; mov Rq(d), [rbp + f(p.rs1)]);
                self.write(p.rd, d);
            }
            FmvXW => {
                let d = self.target(p.rd, RAX);
                dynasm!(self.a; .arch x64; movsxd Rq(d), DWORD [rbp + f(p.rs1)]);
                self.write(p.rd, d);
            }
            FmvDX => {
                let a = self.read(p.rs1, RAX);
                dynasm!(self.a; .arch x64; mov [rbp + f(p.rd)], Rq(a));
            }
            _ => {
                let a = self.read(p.rs1, RAX);
                dynasm!(self.a; .arch x64
                    ; mov [rbp + f(p.rd)], Rd(a)
                    ; mov DWORD [rbp + f(p.rd) + 4], -1
                );
            }
        }
    }
}
