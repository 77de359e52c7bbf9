//! Integer arithmetic.

use super::*;
use nagori_hart::engine::{multiplication_waits, pending_long, Long};
use nagori_hart::COMES_LATE;

impl Emitter<'_> {
    /// Emits an arithmetic instruction; false if it is none, or none that is done here.
    pub(super) fn alu(&mut self, p: &PreOp) -> bool {
        use Op::*;
        let dead = p.rd == SINK;
        match p.op {
            Addi => self.addi(p),
            Lui => {
                let d = self.target(p.rd, RAX);
                dynasm!(self.a; .arch x64; mov Rq(d), p.imm);
                self.write(p.rd, d);
            }
            Auipc => {
                let d = self.target(p.rd, RAX);
                let distance = self.b.offset as i64 + p.off as i64 + p.imm as i64;
                let Ok(distance) = i32::try_from(distance) else {
                    return false;
                };
                dynasm!(self.a; .arch x64; mov Rq(d), [rbp + PAGE]; add Rq(d), distance);
                self.write(p.rd, d);
            }
            _ if dead && is_simple(p.op) => {}
            Add | Sub | And | Or | Xor => self.binary(p),
            Addw | Subw => self.binary_word(p),
            Andi | Ori | Xori => self.immediate(p),
            Slli | Srli | Srai => self.shift_immediate(p),
            Addiw => {
                let d = self.target(p.rd, RAX);
                let a = self.read(p.rs1, RAX);
                if p.imm == 0 {
                    dynasm!(self.a; .arch x64; movsxd Rq(d), Rd(a));
                } else {
                    dynasm!(self.a; .arch x64; lea eax, [Rq(a) + p.imm]; movsxd Rq(d), eax);
                }
                self.write(p.rd, d);
            }
            Slliw | Srliw | Sraiw => {
                let d = self.target(p.rd, RAX);
                let n = (p.imm & 31) as i8;
                self.load(p.rs1, RAX);
                match p.op {
                    Slliw => dynasm!(self.a; .arch x64; shl eax, n),
                    Srliw => dynasm!(self.a; .arch x64; shr eax, n),
                    _ => dynasm!(self.a; .arch x64; sar eax, n),
                }
                dynasm!(self.a; .arch x64; movsxd Rq(d), eax);
                self.write(p.rd, d);
            }
            Sll | Srl | Sra | Sllw | Srlw | Sraw => self.shift(p),
            Slt | Sltu => {
                let a = self.read(p.rs1, RAX);
                let b = self.read(p.rs2, RCX);
                dynasm!(self.a; .arch x64; cmp Rq(a), Rq(b));
                self.set_less(p);
            }
            Slti | Sltiu => {
                let a = self.read(p.rs1, RAX);
                dynasm!(self.a; .arch x64; cmp Rq(a), p.imm);
                self.set_less(p);
            }
            Mul | Mulw | Mulh | Mulhu | Mulhsu => return self.multiply(p),
            Div | Divu | Rem | Remu | Divw | Divuw | Remw | Remuw => return self.divide(p),
            _ => return false,
        }
        true
    }

    fn addi(&mut self, p: &PreOp) {
        if p.rd == SINK {
            return;
        }
        let d = self.target(p.rd, RAX);
        if p.rs1 == 0 {
            dynasm!(self.a; .arch x64; mov Rq(d), p.imm);
        } else if p.rs1 == p.rd && host(p.rd).is_none() {
            dynasm!(self.a; .arch x64; add QWORD [rbp + x(p.rd)], p.imm);
            return;
        } else {
            let a = self.read(p.rs1, d);
            if p.imm == 0 {
                if a != d {
                    dynasm!(self.a; .arch x64; mov Rq(d), Rq(a));
                }
            } else if a == d {
                dynasm!(self.a; .arch x64; add Rq(d), p.imm);
            } else {
                dynasm!(self.a; .arch x64; lea Rq(d), [Rq(a) + p.imm]);
            }
        }
        self.write(p.rd, d);
    }

    fn binary(&mut self, p: &PreOp) {
        use Op::*;
        let (hd, h1, h2) = (host(p.rd), host(p.rs1), host(p.rs2));
        if p.op == Add {
            if let (Some(d), Some(a), Some(b)) = (hd, h1, h2) {
                if d != a && d != b {
                    dynasm!(self.a; .arch x64; lea Rq(d), [Rq(a) + Rq(b)]);
                    return;
                }
            }
        }
        let (mut one, mut two) = (p.rs1, p.rs2);
        // The result may take the place of the first operand, never of the second.
        if hd.is_some() && p.rd == two && p.op != Sub {
            std::mem::swap(&mut one, &mut two);
        }
        let d = match hd {
            Some(d) if p.rd != two || one == two => d,
            _ => RAX,
        };
        self.load(one, d);
        macro_rules! emit {
            ($op:ident) => {
                if let Some(b) = host(two) {
                    dynasm!(self.a; .arch x64; $op Rq(d), Rq(b))
                } else if two == 0 {
                    dynasm!(self.a; .arch x64; $op Rq(d), 0)
                } else {
                    dynasm!(self.a; .arch x64; $op Rq(d), [rbp + x(two)])
                }
            };
        }
        match p.op {
            Add => emit!(add),
            Sub => emit!(sub),
            And => emit!(and),
            Or => emit!(or),
            _ => emit!(xor),
        }
        self.write(p.rd, d);
    }

    fn binary_word(&mut self, p: &PreOp) {
        let d = self.target(p.rd, RAX);
        self.load(p.rs1, RAX);
        let b = self.read(p.rs2, RCX);
        if p.op == Op::Addw {
            dynasm!(self.a; .arch x64; add eax, Rd(b));
        } else {
            dynasm!(self.a; .arch x64; sub eax, Rd(b));
        }
        dynasm!(self.a; .arch x64; movsxd Rq(d), eax);
        self.write(p.rd, d);
    }

    fn immediate(&mut self, p: &PreOp) {
        let d = self.target(p.rd, RAX);
        if p.op == Op::Andi && p.imm == 255 {
            let a = self.read(p.rs1, RAX);
            dynasm!(self.a; .arch x64; movzx Rd(d), Rb(a));
        } else {
            self.load(p.rs1, d);
            match p.op {
                Op::Andi => dynasm!(self.a; .arch x64; and Rq(d), p.imm),
                Op::Ori => dynasm!(self.a; .arch x64; or Rq(d), p.imm),
                _ if p.imm == -1 => dynasm!(self.a; .arch x64; not Rq(d)),
                _ => dynasm!(self.a; .arch x64; xor Rq(d), p.imm),
            }
        }
        self.write(p.rd, d);
    }

    fn shift_immediate(&mut self, p: &PreOp) {
        let d = self.target(p.rd, RAX);
        let n = (p.imm & 63) as i8;
        self.load(p.rs1, d);
        match p.op {
            Op::Slli => dynasm!(self.a; .arch x64; shl Rq(d), n),
            Op::Srli => dynasm!(self.a; .arch x64; shr Rq(d), n),
            _ => dynasm!(self.a; .arch x64; sar Rq(d), n),
        }
        self.write(p.rd, d);
    }

    /// Shift by a register: the host takes the low bits of the amount as the guest does.
    fn shift(&mut self, p: &PreOp) {
        use Op::*;
        let d = self.target(p.rd, RAX);
        if self.s.host.bmi2 {
            let a = self.read(p.rs1, RAX);
            let n = self.read(p.rs2, RCX);
            match p.op {
                Sll => dynasm!(self.a; .arch x64; shlx Rq(d), Rq(a), Rq(n)),
                Srl => dynasm!(self.a; .arch x64; shrx Rq(d), Rq(a), Rq(n)),
                Sra => dynasm!(self.a; .arch x64; sarx Rq(d), Rq(a), Rq(n)),
                Sllw => dynasm!(self.a; .arch x64; shlx eax, Rd(a), Rd(n)),
                Srlw => dynasm!(self.a; .arch x64; shrx eax, Rd(a), Rd(n)),
                _ => dynasm!(self.a; .arch x64; sarx eax, Rd(a), Rd(n)),
            }
        } else {
            self.load(p.rs1, RAX);
            self.load(p.rs2, RCX);
            match p.op {
                Sll => dynasm!(self.a; .arch x64; shl rax, cl),
                Srl => dynasm!(self.a; .arch x64; shr rax, cl),
                Sra => dynasm!(self.a; .arch x64; sar rax, cl),
                Sllw => dynasm!(self.a; .arch x64; shl eax, cl),
                Srlw => dynasm!(self.a; .arch x64; shr eax, cl),
                _ => dynasm!(self.a; .arch x64; sar eax, cl),
            }
            if matches!(p.op, Sll | Srl | Sra) && d != RAX {
                dynasm!(self.a; .arch x64; mov Rq(d), rax);
            }
        }
        if matches!(p.op, Sllw | Srlw | Sraw) {
            dynasm!(self.a; .arch x64; movsxd Rq(d), eax);
        }
        self.write(p.rd, d);
    }

    fn set_less(&mut self, p: &PreOp) {
        let d = self.target(p.rd, RAX);
        if matches!(p.op, Op::Slt | Op::Slti) {
            dynasm!(self.a; .arch x64; setl cl);
        } else {
            dynasm!(self.a; .arch x64; setb cl);
        }
        dynasm!(self.a; .arch x64; movzx Rd(d), cl);
        self.write(p.rd, d);
    }

    fn multiply(&mut self, p: &PreOp) -> bool {
        use Op::*;
        if self.timed {
            self.multiplier_time(p);
        }
        if p.rd == SINK {
            return true;
        }
        let d = self.target(p.rd, RAX);
        self.load(p.rs1, RAX);
        let b = self.read(p.rs2, RCX);
        match p.op {
            Mul => dynasm!(self.a; .arch x64; imul rax, Rq(b)),
            Mulw => dynasm!(self.a; .arch x64; imul eax, Rd(b); movsxd rax, eax),
            Mulh => dynasm!(self.a; .arch x64; imul Rq(b); mov rax, rdx),
            Mulhu => dynasm!(self.a; .arch x64; mul Rq(b); mov rax, rdx),
            _ => {
                // The signed operand counts 2^64 too much as an unsigned one if it is negative.
                dynasm!(self.a; .arch x64; mul Rq(b));
                self.load(p.rs1, RAX);
                dynasm!(self.a; .arch x64; sar rax, 63);
                let b = self.read(p.rs2, RCX);
                dynasm!(self.a; .arch x64; and rax, Rq(b); sub rdx, rax; mov rax, rdx);
            }
        }
        if d != RAX {
            dynasm!(self.a; .arch x64; mov Rq(d), rax);
        }
        self.write(p.rd, d);
        true
    }

    /// Charges what waits for the multiplier, or notes what is pending at the end of the block.
    fn multiplier_time(&mut self, p: &PreOp) {
        // By the highest byte of the operand that is not zero.
        let waits = multiplication_waits(&self.s.config.timing, p);
        let awaited = Long::from_imm(p.imm).is_awaited();
        let late = p.flags & COMES_LATE != 0;
        let table = i64::from_le_bytes(waits);
        if waits == [waits[0]; 8] {
            let wait = u32::from(waits[0]);
            match awaited {
                _ if late => {
                    dynasm!(self.a; .arch x64; lea rax, [r15 + wait as i32]);
                    self.comes_late();
                }
                true if wait == 0 => {}
                true => {
                    dynasm!(self.a; .arch x64; add r15, wait as i32);
                }
                false => {
                    let pending = pending_long(p.rd, wait) as i32;
                    dynasm!(self.a; .arch x64; mov WORD [rbp + LONG], pending as i16);
                }
            }
            return;
        }
        self.load(p.rs1, RAX);
        if p.op == Op::Mulw {
            dynasm!(self.a; .arch x64; or eax, 1; bsr ecx, eax);
        } else {
            dynasm!(self.a; .arch x64; or rax, 1; bsr rcx, rax);
        }
        dynasm!(self.a; .arch x64
            ; and ecx, 0x38
            ; mov rax, QWORD table
            ; shr rax, cl
            ; movzx eax, al
        );
        if late {
            dynasm!(self.a; .arch x64; add rax, r15);
            self.comes_late();
        } else if awaited {
            dynasm!(self.a; .arch x64; add r15, rax);
        } else {
            let (none, pending) = (self.label(), pending_long(p.rd, 1) as i32 & !0xff);
            dynasm!(self.a; .arch x64
                ; test eax, eax
                ; jz =>none
                ; or eax, pending
                ; =>none
                ; mov [rbp + LONG], ax
            );
        }
    }

    /// Notes when a multiplication is there: at `rax`, as `r15` counts.
    fn comes_late(&mut self) {
        dynasm!(self.a; .arch x64; add rax, [rbp + STOP]; mov [rbp + LATE_LONG], rax);
    }

    /// Division where the pipeline is not simulated; otherwise the interpreter does it.
    fn divide(&mut self, p: &PreOp) -> bool {
        use Op::*;
        if self.timed {
            return false;
        }
        if p.rd == SINK {
            return true;
        }
        let word = matches!(p.op, Divw | Divuw | Remw | Remuw);
        let signed = matches!(p.op, Div | Rem | Divw | Remw);
        let remainder = matches!(p.op, Rem | Remu | Remw | Remuw);
        self.load(p.rs1, RAX);
        self.load(p.rs2, RCX);
        if word {
            dynasm!(self.a; .arch x64; test ecx, ecx);
        } else {
            dynasm!(self.a; .arch x64; test rcx, rcx);
        }
        let (zero, minus, narrow, done) = (self.label(), self.label(), self.label(), self.label());
        dynasm!(self.a; .arch x64; je =>zero);
        if signed {
            if word {
                dynasm!(self.a; .arch x64; cmp ecx, -1; je =>minus; cdq; idiv ecx);
            } else {
                // The wide division is slow on many hosts.
                dynasm!(self.a; .arch x64
                    ; cmp rcx, -1
                    ; je =>minus
                    ; mov rdx, rax
                    ; or rdx, rcx
                    ; shr rdx, 32
                    ; je =>narrow
                    ; cqo
                    ; idiv rcx
                );
            }
        } else if word {
            dynasm!(self.a; .arch x64; xor edx, edx; div ecx);
        } else {
            dynasm!(self.a; .arch x64
                ; mov rdx, rax
                ; or rdx, rcx
                ; shr rdx, 32
                ; je =>narrow
                ; xor edx, edx
                ; div rcx
            );
        }
        if remainder {
            dynasm!(self.a; .arch x64; mov rax, rdx);
        }
        dynasm!(self.a; .arch x64; jmp =>done; =>narrow; xor edx, edx; div ecx);
        if remainder {
            dynasm!(self.a; .arch x64; mov eax, edx);
        }
        dynasm!(self.a; .arch x64; jmp =>done; =>minus);
        // By -1: the quotient is the negated dividend, also where it overflows.
        if remainder {
            dynasm!(self.a; .arch x64; xor eax, eax);
        } else {
            dynasm!(self.a; .arch x64; neg rax);
        }
        dynasm!(self.a; .arch x64; jmp =>done; =>zero);
        if !remainder {
            dynasm!(self.a; .arch x64; mov rax, -1);
        }
        dynasm!(self.a; .arch x64; =>done);
        let d = self.target(p.rd, RAX);
        if word {
            dynasm!(self.a; .arch x64; movsxd Rq(d), eax);
        } else if d != RAX {
            dynasm!(self.a; .arch x64; mov Rq(d), rax);
        }
        self.write(p.rd, d);
        true
    }
}

/// Arithmetic whose only effect is its result.
fn is_simple(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        Add | Sub
            | And
            | Or
            | Xor
            | Addw
            | Subw
            | Andi
            | Ori
            | Xori
            | Slli
            | Srli
            | Srai
            | Addiw
            | Slliw
            | Srliw
            | Sraiw
            | Sll
            | Srl
            | Sra
            | Sllw
            | Srlw
            | Sraw
            | Slt
            | Sltu
            | Slti
            | Sltiu
    )
}
