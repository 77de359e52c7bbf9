//! Translates a block to host code.

mod alu;
mod branch;
mod bridge;
mod fp;
mod history;
mod late;
mod mem;

pub(crate) use bridge::{bridge, Bridge};

use crate::calls::{info, START};
use crate::regs::*;
use crate::stubs::{find_jump, Asm, Stubs};
use dynasmrt::{dynasm, DynamicLabel, DynasmApi, DynasmLabelApi};
use nagori_hart::config::HartConfig;
use nagori_hart::engine::{
    ends_block, is_second_half, jump_to_half, layout, registers, waits_for_loads, Pending, STORES,
};
use nagori_hart::{
    Block, PreOp, ACTS, AWAITS_DIVISION, AWAITS_LONG, ILLEGAL_LEN, NEW_LINE, SINK, TARGET,
};
use nagori_isa::Op;

/// What the host can do beyond the base instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub lzcnt: bool,
    pub bmi2: bool,
    pub fma: bool,
    pub sse41: bool,
}

impl Host {
    pub fn detect() -> Self {
        Self {
            lzcnt: std::arch::is_x86_feature_detected!("lzcnt"),
            bmi2: std::arch::is_x86_feature_detected!("bmi2"),
            fma: std::arch::is_x86_feature_detected!("fma"),
            sse41: std::arch::is_x86_feature_detected!("sse4.1"),
        }
    }
}

/// What a translation depends on besides the block.
pub(crate) struct Setting<'a> {
    pub config: &'a HartConfig,
    pub stubs: &'a Stubs,
    pub host: Host,
    /// Whether other harts run at the same time.
    pub parallel: bool,
    /// Host address of offset 0 of the arena.
    pub arena: usize,
    /// Host address at which the code will stand.
    pub at: usize,
    /// Number of the first link that the block may use.
    pub first_link: u32,
    /// Whether [`Output::marks`] are wanted.
    pub marks: bool,
}

/// A jump to another block of the same page, to be patched once that block has code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Place of the jump's 32-bit distance in the code.
    pub patch: usize,
    /// Where in the page it leads.
    pub target: u16,
}

/// Entry point of an instruction that had to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Index of the instruction.
    pub op: u8,
    /// Offset of the code that fetches its line, and of the code after that, from the block's first
    /// byte.
    pub line: u32,
    pub fetched: u32,
    /// Whether an instruction before it has made sure that floating point is ready.
    pub fp: bool,
}

/// Code of one block. Places count from its first byte.
pub(crate) struct Output {
    pub code: Vec<u8>,
    /// Entry behind the wait for results: the line is fetched.
    pub fetch: usize,
    /// Entry for those who fetched the line.
    pub body: usize,
    /// Entry points before instructions that may have to wait, in ascending order of instructions.
    pub entries: Vec<Entry>,
    /// The jumps to be patched, by number from `first_link` on.
    pub exits: Vec<Exit>,
    /// Which instruction each part of the code belongs to, in ascending order.
    pub marks: Vec<Mark>,
}

/// Code from here to the next mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Place of its first byte.
    pub at: usize,
    /// Index of the instruction that it belongs to; `None`: the block's start.
    pub op: Option<usize>,
    /// Whether it is out-of-line code for rare cases.
    pub cold: bool,
}

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a jump or a taken branch.
    Jumps,
    /// At the instruction behind it.
    Passes,
}

/// Out-of-line code, written after the block.
enum Cold {
    /// Call `stub` for instruction `info`.
    /// `fp`: the host's flags are the guest's again behind it.
    Op {
        stub: usize,
        from: DynamicLabel,
        back: DynamicLabel,
        info: i32,
        fp: bool,
    },
    /// A branch that is not simply right.
    Branch {
        from: DynamicLabel,
        back: DynamicLabel,
        info: i32,
        taken: bool,
        what: branch::What,
    },
    /// A branch or jump that was predicted wrong, or that only the decoder finds.
    Predicted(branch::Predicted),
    /// Leave the rest of the block to the interpreter.
    Rest { from: DynamicLabel, info: i32 },
    /// Call `stub`, which takes no argument.
    Call {
        stub: usize,
        from: DynamicLabel,
        back: DynamicLabel,
    },
    /// A result that is a NaN.
    Nan {
        from: DynamicLabel,
        back: DynamicLabel,
        rd: u8,
        single: bool,
    },
    /// A jump that is not simply right; its target is kept on the stack.
    Jump {
        from: DynamicLabel,
        back: DynamicLabel,
        info: i32,
        what: branch::What,
    },
}

/// The work on one block.
pub(crate) struct Emitter<'a> {
    s: &'a Setting<'a>,
    a: Asm,
    b: Block,
    id: u32,
    ops: &'a [PreOp],
    timed: bool,
    cold: Vec<Cold>,
    entries: Vec<Entry>,
    exits: Vec<Exit>,
    marks: Vec<Mark>,
    /// To whom the parts of `cold` belong: instruction, and the first part behind its own.
    owners: Vec<(Option<usize>, usize)>,
    /// Whether an instruction in front has made sure that floating point is ready.
    fp_checked: bool,
    /// Whether the host's flags are known to be the guest's.
    fp_started: bool,
    /// Registers that may wait for lines since a load of the block, a bit each.
    loaded: u64,
}

/// Translates a block.
pub(crate) fn block<'a>(
    s: &'a Setting<'a>,
    b: Block,
    id: u32,
    ops: &'a [PreOp],
    timed: bool,
) -> Option<Output> {
    let mut e = Emitter {
        s,
        a: Asm::new(s.at),
        b,
        id,
        ops,
        timed,
        cold: Vec::new(),
        entries: Vec::new(),
        exits: Vec::new(),
        marks: Vec::new(),
        owners: Vec::new(),
        fp_checked: false,
        fp_started: false,
        loaded: 0,
    };
    e.mark(None);
    let (fetch, body) = e.prologue();
    e.own(None);
    for (i, p) in ops.iter().enumerate() {
        e.mark(Some(i));
        let (line, started) = (e.here(), e.fp_started);
        if timed && p.flags & NEW_LINE != 0 {
            e.fetch_line(i, p);
        }
        if timed && !started {
            e.entry(i, p, line);
        }
        // In the interpreter's order: what a unit takes is not counted as a wait for a line.
        e.await_late(i, p);
        e.await_loads(i, p);
        e.op(i, p);
        e.note_load(p);
        e.own(Some(i));
    }
    if !ends_block(ops[ops.len() - 1].op) {
        e.tail_to(Way::Passes, b.offset as i64 + b.bytes as i64);
    }
    e.finish(fetch, body)
}

impl Emitter<'_> {
    fn label(&mut self) -> DynamicLabel {
        self.a.new_dynamic_label()
    }

    fn here(&self) -> usize {
        self.a.offset().0
    }

    /// What follows belongs to an instruction, or to the block's start.
    fn mark(&mut self, op: Option<usize>) {
        if self.s.marks {
            let (at, cold) = (self.here(), false);
            self.marks.push(Mark { at, op, cold });
        }
    }

    /// So does the code out of the way that was ordered last.
    fn own(&mut self, op: Option<usize>) {
        if self.s.marks {
            self.owners.push((op, self.cold.len()));
        }
    }

    /// Records the entry point of an instruction that may have to wait; the code that fetches its
    /// line is at `line`. As at the beginning of a block, host flags hold no guest state here.
    fn entry(&mut self, i: usize, p: &PreOp, line: usize) {
        use nagori_isa::Format::{FpLoad, FpStore, Load, Store};
        let memory = matches!(p.op.info().format, Load | Store | FpLoad | FpStore);
        let waits = self.loaded & registers(p) != 0;
        if let (true, Ok(op)) = (memory || waits || p.flags & NEW_LINE != 0, u8::try_from(i)) {
            let fetched = self.here() as u32;
            self.entries.push(Entry {
                op,
                line: line as u32,
                fetched,
                fp: self.fp_checked,
            });
        }
    }

    fn mark_cold(&mut self, part: usize) {
        let owner = self.owners.iter().find(|o| part < o.1);
        if let Some(&(op, _)) = owner {
            let (at, cold) = (self.here(), true);
            self.marks.push(Mark { at, op, cold });
        }
    }

    fn stub(&self, offset: usize) -> usize {
        self.s.arena + offset
    }

    /// Waits for results and fetches the line. The entries behind either.
    fn prologue(&mut self) -> (usize, usize) {
        if !self.timed {
            return (0, 0);
        }
        let info = info(self.id, START);
        if self.timed {
            let (from, back) = (self.label(), self.label());
            dynasm!(self.a; .arch x64
                ; cmp QWORD [rbp + PENDING], 0
                ; jne =>from
                ; =>back
            );
            self.cold_call(self.s.stubs.pending, from, back, info);
        }
        let fetch = self.here();
        self.check_line(self.b.offset as i32 >> 6, 0, info);
        let body = self.here();
        if self.b.splits && self.timed {
            // A cycle more if a long instruction jumped to it, or if the front end is later than the hart.
            dynasm!(self.a; .arch x64
                ; mov eax, [rbp + LANDED]
                ; shr eax, 1
                ; add r15, rax
                ; mov rax, r15
                ; add rax, [rbp + STOP]
                ; cmp rax, [rbp + FRONT]
                ; adc r15, 0
            );
        }
        if self.has_buffers() {
            let (from, back) = (self.label(), self.label());
            dynasm!(self.a; .arch x64; cmp QWORD [rbp + LATE], 0; jne =>from; =>back);
            self.cold_call(self.s.stubs.late, from, back, info);
        }
        (fetch, body)
    }

    /// Whether loads that miss may leave their registers on their way.
    fn has_buffers(&self) -> bool {
        self.timed && self.s.config.timing.lfb != 0
    }

    /// The line in which an instruction ends, other than the one before.
    fn fetch_line(&mut self, i: usize, p: &PreOp) {
        let last = self.b.offset as i32 + p.off as i32 + p.len.max(2) as i32 - 1;
        let info = info(self.id, i);
        if last >= 0x1000 {
            dynasm!(self.a; .arch x64
                ; mov edx, info
                ; call extern self.stub(self.s.stubs.line)
            );
            self.fp_started = false;
        } else {
            self.check_line(last >> 6, p.cost, info);
        }
    }

    /// Leaves `edx` = the low bits of the cycle, `cost` behind the block's start.
    fn cycle_of(&mut self, cost: u16) {
        dynasm!(self.a; .arch x64; mov edx, [rbp + STOP]; lea edx, [rdx + r15 + cost as i32]);
    }

    /// Makes sure that a line of the page is fetched, `cost` cycles behind the block's start.
    fn check_line(&mut self, line: i32, cost: u16, info: i32) {
        let (from, back) = (self.label(), self.label());
        let entry = FETCH + layout::ENTRY_READ as i32 + line * layout::ENTRY as i32;
        dynasm!(self.a; .arch x64
            ; mov rcx, [rbp + FETCH_SLOTS]
            ; mov rax, [rbp + PAGE_KEY]
            ; add rax, line * 64
            ; cmp rax, [rbp + rcx + entry]
            ; jne =>from
        );
        if self.s.config.l1i.replacement.notes_hits() {
            let used = FETCH + layout::ENTRY_USED as i32 + line * layout::ENTRY as i32;
            self.cycle_of(cost);
            dynasm!(self.a; .arch x64; mov [rbp + rcx + used], edx);
        }
        dynasm!(self.a; .arch x64; =>back);
        self.cold_call(self.s.stubs.line, from, back, info);
    }

    /// Out of the way, calls a stub for `info`.
    fn cold_call(&mut self, stub: usize, from: DynamicLabel, back: DynamicLabel, info: i32) {
        let fp = self.fp_started;
        self.cold.push(Cold::Op {
            stub,
            from,
            back,
            info,
            fp,
        });
    }

    /// The interpreter executes the instruction.
    fn call_op(&mut self, i: usize) {
        let info = info(self.id, i);
        dynasm!(self.a; .arch x64
            ; mov edx, info
            ; call extern self.stub(self.s.stubs.op)
        );
        // Its effect on the host's flags does not concern the guest.
        self.fp_started = false;
    }

    fn op(&mut self, i: usize, p: &PreOp) {
        use Op::*;
        match p.op {
            Ebreak if p.len == ILLEGAL_LEN => {
                self.call_op(i);
                self.leave();
            }
            Jal if p.flags & TARGET == 0 => self.jal(i, p),
            Beq | Bne | Blt | Bge | Bltu | Bgeu if p.flags & TARGET == 0 => self.branch(i, p),
            Jalr => self.jalr(i, p),
            Jal | Beq | Bne | Blt | Bge | Bltu | Bgeu | Ecall | Ebreak | FenceI | Mret | Sret
            | Wfi | SfenceVma | Csrrw | Csrrs | Csrrc | Csrrwi | Csrrsi | Csrrci | MarkRoiBegin
            | MarkRoiEnd | MarkStatsReset | MarkStatsDump | MarkMethod | MarkLabel
            | MarkSnapshot | MarkStop => {
                debug_assert!(ends_block(p.op));
                self.call_op(i);
                self.leave();
            }
            // The host preserves all orders except that of a store and a later load.
            Fence | NtlP1 | NtlPall | NtlS1 | NtlAll if p.flags & ACTS != 0 => self.call_op(i),
            Fence if self.s.parallel => dynasm!(self.a; .arch x64; mfence),
            Fence | Pause | NtlP1 | NtlPall | NtlS1 | NtlAll | PrefetchI | PrefetchR
            | PrefetchW => {}
            Lui | Auipc | Addi | Slti | Sltiu | Xori | Ori | Andi | Slli | Srli | Srai | Add
            | Sub | Sll | Slt | Sltu | Xor | Srl | Sra | Or | And | Addiw | Slliw | Srliw
            | Sraiw | Addw | Subw | Sllw | Srlw | Sraw | Mul | Mulh | Mulhsu | Mulhu | Div
            | Divu | Rem | Remu | Mulw | Divw | Divuw | Remw | Remuw => {
                if !self.alu(p) {
                    self.call_op(i);
                }
            }
            Lb | Lh | Lw | Ld | Lbu | Lhu | Lwu | Sb | Sh | Sw | Sd | Flw | Fsw | Fld | Fsd => {
                self.memory(i, p)
            }
            FmaddS | FmsubS | FnmsubS | FnmaddS | FaddS | FsubS | FmulS | FdivS | FsqrtS
            | FsgnjS | FsgnjnS | FsgnjxS | FminS | FmaxS | FcvtWS | FcvtWuS | FcvtLS | FcvtLuS
            | FmvXW | FeqS | FltS | FleS | FclassS | FcvtSW | FcvtSWu | FcvtSL | FcvtSLu
            | FmvWX | FmaddD | FmsubD | FnmsubD | FnmaddD | FaddD | FsubD | FmulD | FdivD
            | FsqrtD | FsgnjD | FsgnjnD | FsgnjxD | FminD | FmaxD | FcvtSD | FcvtDS | FcvtWD
            | FcvtWuD | FcvtLD | FcvtLuD | FmvXD | FeqD | FltD | FleD | FclassD | FcvtDW
            | FcvtDWu | FcvtDL | FcvtDLu | FmvDX => {
                if !self.float(i, p) {
                    self.call_op(i);
                }
            }
            // The interpreter executes these. There is no catch-all arm, so that a new instruction
            // has to be added somewhere here.
            LrW | ScW | AmoswapW | AmoaddW | AmoxorW | AmoandW | AmoorW | AmominW | AmomaxW
            | AmominuW | AmomaxuW | LrD | ScD | AmoswapD | AmoaddD | AmoxorD | AmoandD | AmoorD
            | AmominD | AmomaxD | AmominuD | AmomaxuD | CboInval | CboClean | CboFlush
            | CboZero | CzeroEqz | CzeroNez | AmocasW | AmocasD | AmocasQ | AddUw | Sh1add
            | Sh1addUw | Sh2add | Sh2addUw | Sh3add | Sh3addUw | SlliUw | Andn | Orn | Xnor
            | Clz | Clzw | Ctz | Ctzw | Cpop | Cpopw | Max | Maxu | Min | Minu | SextB | SextH
            | ZextH | Rol | Rolw | Ror | Rori | Roriw | Rorw | OrcB | Rev8 | Bclr | Bclri
            | Bext | Bexti | Binv | Binvi | Bset | Bseti | CflushDL1 | CflushDL1U => {
                self.call_op(i)
            }
        }
    }

    /// Whether results may be pending at the end of the block.
    fn has_late_results(&self) -> bool {
        self.timed && (self.b.pending != 0 || self.b.leaves_open())
    }

    /// Counts of the block, at an end of it, but for the cycles and packets. Keeps `rax`.
    fn count(&mut self) {
        self.count_with(self.b.pending);
    }

    /// As [`Self::count`], with what is pending given, besides the halves that the block leaves open.
    fn count_with(&mut self, pending: Pending) {
        if !self.timed {
            return;
        }
        let n = self.b.count as i32;
        let (pending, stores) = (pending as i32, (pending >> STORES) as i32);
        dynasm!(self.a; .arch x64; add QWORD [rbp + INSTRET], n);
        if self.b.leaves_open() {
            match self.b.open {
                0 => dynasm!(self.a; .arch x64; mov ecx, pending),
                open => dynasm!(self.a; .arch x64
                    ; mov ecx, [rbp + LONG]
                    ; and ecx, open as i32
                    ; or ecx, pending
                ),
            }
            self.late_results();
            dynasm!(self.a; .arch x64; mov [rbp + PENDING], ecx);
        } else {
            dynasm!(self.a; .arch x64; mov DWORD [rbp + PENDING], pending);
        }
        // Whoever sees them takes them away.
        if self.timed && stores != 0 {
            dynasm!(self.a; .arch x64; mov DWORD [rbp + PENDING + 4], stores);
        }
    }

    /// Adds the packets of the block to the clock of the front end; the program goes on at an offset
    /// from the page's start.
    fn count_packets(&mut self, way: Way, target: i64) {
        if !self.timed {
            return;
        }
        let mut packets = i32::from(self.b.packets);
        if way == Way::Jumps && is_second_half(target as u64) {
            packets += 1;
            let landed = jump_to_half(self.ops[self.ops.len() - 1].len) as i32;
            dynasm!(self.a; .arch x64; mov DWORD [rbp + LANDED], landed);
        }
        if self.b.passes {
            let begin = u64::from(self.b.offset);
            self.falls_through(begin + u64::from(self.b.bytes));
        }
        if packets != 0 {
            dynasm!(self.a; .arch x64; add QWORD [rbp + FRONT], packets);
        }
    }

    /// Ends the block; pc is set.
    fn leave(&mut self) {
        self.count();
        let cost = self.b.cost as i32;
        dynasm!(self.a; .arch x64; add r15, cost);
        if self.timed && self.b.flushes {
            // The packet at pc is there now; that of a second half is a packet of its own.
            let half = self.label();
            dynasm!(self.a; .arch x64
                ; mov rcx, r15
                ; add rcx, [rbp + STOP]
                ; test BYTE [rbp + PC], 2
                ; jz =>half
                ; inc rcx
                ; mov DWORD [rbp + LANDED], 1
                ; =>half
                ; mov [rbp + FRONT], rcx
                ; mov ecx, [rbp + HISTORY]
                ; mov [rbp + NEAR_HISTORY], ecx
            );
        } else {
            self.count_packets(Way::Passes, 0);
        }
        dynasm!(self.a; .arch x64; jmp extern self.stub(self.s.stubs.leave));
    }

    /// Ends the block; the program goes on at an offset from the page's start.
    fn tail_to(&mut self, way: Way, target: i64) {
        self.count();
        self.count_packets(way, target);
        let cost = self.b.cost as i32;
        if (0..0x1000).contains(&target) && !self.b.crosses {
            let number = (self.s.first_link as usize + self.exits.len()) as i32;
            let stub = self.label();
            dynasm!(self.a; .arch x64
                ; add r15, cost
                ; js =>stub
            );
            let patch = self.here() - 4;
            dynasm!(self.a; .arch x64
                ; =>stub
                ; mov eax, target as i32
                ; mov ecx, number
                ; jmp extern self.stub(self.s.stubs.leave_link)
            );
            self.exits.push(Exit {
                patch,
                target: target as u16,
            });
        } else {
            dynasm!(self.a; .arch x64; mov rax, [rbp + PAGE]; add rax, target as i32);
            self.tail_far();
        }
    }

    /// Behind the counts of a block: the program goes on at `rax`, wherever that is.
    fn tail_far(&mut self) {
        let cost = self.b.cost as i32;
        dynasm!(self.a; .arch x64
            ; add r15, cost
            ; jns >out
            ; jmp extern self.stub(self.s.stubs.dispatch)
            ; out:
            ; jmp extern self.stub(self.s.stubs.leave_indirect)
        );
    }

    /// Adds the packets of the block, of which a jump to `rax` is the last instruction.
    fn count_packets_to_rax(&mut self) {
        let packets = i32::from(self.b.packets);
        let landed = jump_to_half(self.ops[self.ops.len() - 1].len) as i32;
        // FRONT is written once: what is written to memory has to be waited for by what reads it.
        dynasm!(self.a; .arch x64
            ; mov ecx, eax
            ; shr ecx, 1
            ; and ecx, 1
            ; jz >first
            ; mov DWORD [rbp + LANDED], landed
            ; first:
            ; add ecx, packets
            ; add [rbp + FRONT], rcx
        );
    }

    /// Ends the block; the program goes on at `rax`.
    fn tail_indirect(&mut self) {
        self.count();
        if self.timed {
            self.count_packets_to_rax();
        }
        let cost = self.b.cost as i32;
        let out = self.label();
        dynasm!(self.a; .arch x64
            ; add r15, cost
            ; jns =>out
        );
        find_jump(&mut self.a, out);
        dynasm!(self.a; .arch x64
            ; mov rcx, rax
            ; and rcx, -4096
            ; cmp rcx, [rbp + PAGE]
            ; jne >far
            ; jmp QWORD [rdx + 16]
            ; far:
            ; jmp extern self.stub(self.s.stubs.dispatch)
            ; =>out
            ; jmp extern self.stub(self.s.stubs.leave_indirect)
        );
    }

    /// Host register that holds a guest register: its own, or `scratch`, loaded.
    fn read(&mut self, r: u8, scratch: u8) -> u8 {
        if let Some(h) = host(r) {
            return h;
        }
        if r == 0 {
            dynasm!(self.a; .arch x64; xor Rd(scratch), Rd(scratch));
        } else {
            dynasm!(self.a; .arch x64; mov Rq(scratch), [rbp + x(r)]);
        }
        scratch
    }

    /// Copies a guest register into a host register.
    fn load(&mut self, r: u8, to: u8) {
        let from = self.read(r, to);
        if from != to {
            dynasm!(self.a; .arch x64; mov Rq(to), Rq(from));
        }
    }

    /// Host register to compute a result in: the guest register's own, or `scratch`.
    fn target(&self, r: u8, scratch: u8) -> u8 {
        host(r).unwrap_or(scratch)
    }

    /// Stores a result that stands in a host register.
    fn write(&mut self, r: u8, from: u8) {
        match host(r) {
            Some(h) if h == from => {}
            Some(h) => dynasm!(self.a; .arch x64; mov Rq(h), Rq(from)),
            None if r == SINK => {}
            None => dynasm!(self.a; .arch x64; mov [rbp + x(r)], Rq(from)),
        }
    }

    /// Behind a call, which took the host's flags: they are the guest's again, if they were.
    fn restart_fp(&mut self, fp: bool) {
        if fp {
            dynasm!(self.a; .arch x64; call extern self.stub(self.s.stubs.fp_start));
        }
    }

    fn finish(mut self, fetch: usize, body: usize) -> Option<Output> {
        for (part, c) in std::mem::take(&mut self.cold).into_iter().enumerate() {
            self.mark_cold(part);
            match c {
                Cold::Op {
                    stub,
                    from,
                    back,
                    info,
                    fp,
                } => {
                    dynasm!(self.a; .arch x64
                        ; =>from
                        ; mov edx, info
                        ; call extern self.stub(stub)
                    );
                    self.restart_fp(fp);
                    dynasm!(self.a; .arch x64; jmp =>back);
                }
                Cold::Branch {
                    from,
                    back,
                    info,
                    taken,
                    what,
                } => {
                    dynasm!(self.a; .arch x64
                        ; =>from
                        ; mov eax, info
                        ; mov edx, taken as i32
                        ; call extern self.stub(self.s.stubs.branch)
                    );
                    if self.has_late_results() {
                        dynasm!(self.a; .arch x64
                            ; test eax, eax
                            ; jz =>back
                            ; mov [rbp + REDIRECT], rax
                        );
                        self.redirected(what, None);
                    } else {
                        dynasm!(self.a; .arch x64; jmp =>back);
                    }
                }
                Cold::Predicted(p) => self.predicted(p),
                Cold::Rest { from, info } => dynasm!(self.a; .arch x64
                    ; =>from
                    ; mov edx, info
                    ; jmp extern self.stub(self.s.stubs.leave_rest)
                ),
                Cold::Call { stub, from, back } => dynasm!(self.a; .arch x64
                    ; =>from
                    ; call extern self.stub(stub)
                    ; jmp =>back
                ),
                Cold::Nan {
                    from,
                    back,
                    rd,
                    single,
                } => self.cold_nan(from, back, rd, single),
                Cold::Jump {
                    from,
                    back,
                    info,
                    what,
                } => {
                    dynasm!(self.a; .arch x64
                        ; =>from
                        ; mov [rsp], rax
                        ; mov rdx, rax
                        ; mov eax, info
                        ; call extern self.stub(self.s.stubs.branch)
                    );
                    if self.has_late_results() {
                        dynasm!(self.a; .arch x64
                            ; mov [rbp + REDIRECT], rax
                            ; test eax, eax
                            ; mov rax, [rsp]
                            ; jz =>back
                        );
                        self.redirected(what, None);
                    } else {
                        dynasm!(self.a; .arch x64; mov rax, [rsp]; jmp =>back);
                    }
                }
            }
        }
        let code = self.a.finalize().ok()?;
        Some(Output {
            code,
            fetch,
            body,
            entries: self.entries,
            exits: self.exits,
            marks: self.marks,
        })
    }
}
