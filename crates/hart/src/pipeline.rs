//! Static schedule of a straight run of instructions on the in-order pipeline: when each one
//! issues, counted from the start of the run, and which results are pending at its end.
//!
//! The rules read the operand formats of the instruction table, so interpreter
//! and translator charge the same cycles.

use crate::config::CoreTiming;
use crate::fpdiv::{replay, Divided};
use crate::issue::pipes_of;
pub use crate::operands::{divides_fp, is_long, operands, Near, FP_LONG, LONG};
use crate::operands::{
    is_fp, log_bytes, memory, orders, writes_integer, Memory, Reg, FENCE, FP, RELEASE, WHAT,
};
pub use crate::pending::{merge_pending, pending_after, pending_pairs, Pending, Unwritten, STORES};
use crate::preop::PreOp;
use nagori_isa::{Format, Inst, Op};

/// Issue cycles and result latency of an instruction.
struct Cost {
    issue: u32,
    latency: u32,
}

/// CSRs whose writes do not flush the pipeline: scratch, epc, cause and tval of machine and
/// supervisor mode.
const QUIET: [std::ops::RangeInclusive<i32>; 2] = [0x140..=0x143, 0x340..=0x343];
/// fflags, frm and fcsr.
const FP_CSRS: std::ops::RangeInclusive<i32> = 1..=3;

/// The CSR that an instruction accesses; its immediate has the sign of the encoding's field.
fn csr_number(i: &Inst) -> i32 {
    i.imm & 0xfff
}

/// Costs of an instruction that accesses a CSR.
fn csr_cost(t: &CoreTiming, i: &Inst) -> Cost {
    let writes = matches!(i.op, Op::Csrrw | Op::Csrrwi) || i.rs1 != 0;
    let number = csr_number(i);
    let quiet = QUIET.iter().any(|r| r.contains(&number));
    Cost {
        issue: if writes && !quiet {
            t.csr_flush
        } else {
            t.csr_write
        },
        latency: t.csr_read,
    }
}

/// Every instruction is listed here: one without a cost is a compile error.
fn cost(t: &CoreTiming, i: &Inst) -> Cost {
    use Op::*;
    let simple = |issue: u32| Cost {
        issue,
        latency: issue,
    };
    let result = |latency: u32| Cost { issue: 1, latency };
    match i.op {
        Ld | Lw | Lwu => result(t.load_latency),
        Lb | Lbu | Lh | Lhu => result(t.load_sub_word_latency),
        Fld | Flw => result(t.fp_load_latency),
        LrW | LrD => result(t.lr_latency),
        ScW | ScD => result(t.sc_latency),
        Csrrw | Csrrwi | Csrrs | Csrrc | Csrrsi | Csrrci => csr_cost(t, i),
        FenceI => simple(t.fence_i),
        SfenceVma => simple(t.sfence_vma),
        // What is behind it is fetched anew.
        Wfi => simple(t.csr_flush),
        Mret | Sret => simple(t.trap_return),
        CflushDL1 | CflushDL1U | CboClean | CboFlush | CboInval => simple(t.flush_line),
        FaddS | FsubS | FmulS | FmaddS | FmsubS | FnmaddS | FnmsubS => result(t.fp_single_latency),
        FaddD | FsubD | FmulD | FmaddD | FmsubD | FnmaddD | FnmsubD => result(t.fp_double_latency),
        AmoswapW | AmoaddW | AmoxorW | AmoandW | AmoorW | AmominW | AmomaxW | AmominuW
        | AmomaxuW | AmoswapD | AmoaddD | AmoxorD | AmoandD | AmoorD | AmominD | AmomaxD
        | AmominuD | AmomaxuD | AmocasW | AmocasD | AmocasQ => result(t.amo_latency),
        FcvtWS | FcvtWuS | FcvtLS | FcvtLuS | FmvXW | FeqS | FltS | FleS | FclassS | FcvtWD
        | FcvtWuD | FcvtLD | FcvtLuD | FmvXD | FeqD | FltD | FleD | FclassD => {
            result(t.fp_to_int_latency)
        }
        FsgnjS | FsgnjnS | FsgnjxS | FminS | FmaxS | FcvtSW | FcvtSWu | FcvtSL | FcvtSLu
        | FmvWX | FsgnjD | FsgnjnD | FsgnjxD | FminD | FmaxD | FcvtSD | FcvtDS | FcvtDW
        | FcvtDWu | FcvtDL | FcvtDLu | FmvDX => result(t.fp_misc_latency),
        // No catch-all arm, so that a new instruction has to be given a cost; these take one cycle.
        // What a multiplication, division or root takes beyond it depends on its operands.
        Lui | Auipc | Jal | Jalr | Beq | Bne | Blt | Bge | Bltu | Bgeu | Sb | Sh | Sw | Sd
        | Addi | Slti | Sltiu | Xori | Ori | Andi | Slli | Srli | Srai | Add | Sub | Sll | Slt
        | Sltu | Xor | Srl | Sra | Or | And | Addiw | Slliw | Srliw | Sraiw | Addw | Subw
        | Sllw | Srlw | Sraw | Ecall | Ebreak | Mul | Mulh | Mulhsu | Mulhu | Mulw | Div | Divu
        | Rem | Remu | Divw | Divuw | Remw | Remuw | Fence | Pause | Fsw | Fsd | CboZero
        | PrefetchI | PrefetchR | PrefetchW | NtlP1 | NtlPall | NtlS1 | NtlAll | CzeroEqz
        | CzeroNez | AddUw | Sh1add | Sh1addUw | Sh2add | Sh2addUw | Sh3add | Sh3addUw | SlliUw
        | Andn | Orn | Xnor | Clz | Clzw | Ctz | Ctzw | Cpop | Cpopw | Max | Maxu | Min | Minu
        | SextB | SextH | ZextH | Rol | Rolw | Ror | Rori | Roriw | Rorw | OrcB | Rev8 | Bclr
        | Bclri | Bext | Bexti | Binv | Binvi | Bset | Bseti | MarkRoiBegin | MarkRoiEnd
        | MarkStatsReset | MarkStatsDump | MarkMethod | MarkLabel | MarkSnapshot | MarkStop
        | FdivS | FdivD | FsqrtS | FsqrtD => result(1),
    }
}

/// A store.
#[derive(Clone, Copy)]
struct Stored {
    /// The first cycle in which it can be written.
    from: u32,
    log_bytes: u8,
    /// A cycle has passed in which the data array could be written.
    written: bool,
}

/// A multiplication or division, with what its result meets on its way, packed in 32 bits.
///
/// How long it takes follows from the operands. What follows from the block is the distance to the
/// instruction that waits for the result (or for the unit), or to the end of the block, and in which
/// cycles another result is written: bit `k` stands for an instruction that issues `k + 1` cycles
/// later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Long(u32);

impl Long {
    const DISTANCE: u32 = 0x7f;
    const AWAITED: u32 = 0x80;
    const WRITES: u32 = 24;

    fn new(distance: u32, awaited: bool, writes: u32) -> Self {
        let awaited = if awaited { Self::AWAITED } else { 0 };
        Long(distance.min(Self::DISTANCE) | awaited | writes << (32 - Self::WRITES))
    }

    /// From the immediate of a predecoded instruction.
    pub fn from_imm(imm: i32) -> Self {
        Long(imm as u32)
    }

    /// As an immediate.
    pub fn imm(self) -> i32 {
        self.0 as i32
    }

    /// Whether an instruction of the same block waits for it.
    pub fn is_awaited(self) -> bool {
        self.0 & Self::AWAITED != 0
    }

    /// Cycles to wait for a result of some latency, at the instruction that waits for it or after the
    /// end of the block. The result is written in the first cycle in which no other is.
    pub fn wait(self, latency: u32, writeback: u32) -> u32 {
        let writes = self.0 >> (32 - Self::WRITES);
        let first = latency.saturating_sub(writeback + 1);
        let taken = writes.checked_shr(first).unwrap_or(0).trailing_ones();
        (latency + taken).saturating_sub(self.0 & Self::DISTANCE)
    }
}

/// A floating-point register that the FPU writes: single precision, double, and all else.
const FPU: [Reg; 3] = [0x40, 0x60, 0xc0];

/// Where a floating-point result is pending that an instruction writes to a register of a number.
fn fp_pending(op: Op, number: u8) -> Reg {
    match fpu_pipe(op) {
        Some(pipe) => FPU[pipe] | number,
        None => FP | number,
    }
}

/// The register that an instruction waits for as long as something is pending that is not the order of accesses.
pub(crate) fn awaited_register(what: Reg) -> Reg {
    match what & WHAT {
        0 | LONG => what & 31,
        _ => FP | what & 31,
    }
}

/// The cycle in which the FPU writes a pending result that is there in some cycles; `None` if it is not one of the FPU.
fn fpu_writes(t: &CoreTiming, reg: Reg, left: u32) -> Option<u32> {
    let pipe = FPU.iter().position(|f| *f == reg & WHAT)?;
    let (latency, write) = [
        (t.fp_single_latency, t.fp_single_write),
        (t.fp_double_latency, t.fp_double_write),
        (t.fp_misc_latency, t.fp_misc_write),
    ][pipe];
    (left + TO_MEMORY + write).checked_sub(latency)
}

/// Whether an instruction waits for what is pending under a number, other than a result of one of the
/// units for multiplication and division.
pub(crate) fn waits_for(i: &Inst, reg: Reg) -> bool {
    let (sources, dest) = operands(i);
    match reg {
        FENCE => memory(i.op).is_some(),
        RELEASE => releases(i),
        _ => sources.contains(&reg) || dest == reg || reg >= 32 && accesses_fp_csr(i),
    }
}

/// Whether an instruction comes after all accesses in front of it: a release, or `fence.i`.
fn releases(i: &Inst) -> bool {
    i.op == Op::FenceI || orders(i.op) && i.rm & 1 != 0
}

pub(crate) fn accesses_fp_csr(i: &Inst) -> bool {
    matches!(i.op.info().format, Format::Csr | Format::CsrImm) && FP_CSRS.contains(&csr_number(i))
}

/// Stages from the issue of an instruction to the access to memory, in which the FPU can refuse it.
const TO_MEMORY: u32 = 2;

/// A multiplication or division of integers, and one of floating-point numbers, that is pending at the end of a run:
/// number, and code in a [`Pending`].
pub type OpenLate = [Option<(usize, Reg)>; 2];

/// Builds the schedule of one run.
pub struct Schedule<'a> {
    timing: &'a CoreTiming,
    now: u32,
    ready: [u32; 64],
    /// As what the last result for each register is pending.
    writers: [Reg; 64],
    /// The floating-point division that is on its way: number, issue, destination.
    dividing: Option<(usize, u32, Reg)>,
    /// Whether something has come behind it that can take longer than is known here.
    division_late: bool,
    /// The last one that an instruction has waited for without the result: its place among the finished
    /// ones, destination, and when that instruction issues.
    behind: Option<(usize, Reg, u32)>,
    /// The finished ones.
    divided: Vec<(usize, Divided)>,
    /// When the last results of the FPU are written.
    fp_written: [u32; 4],
    fp_busy: u32,
    stores: [Option<Stored>; 2],
    /// When the last instruction was issued, and whether it reads memory.
    last_issue: (u32, bool),
    last_access: Option<u32>,
    fenced: bool,
    /// The multiplication or division that is on its way: number, issue, destination, and cycles of
    /// other results.
    long: Option<(usize, u32, Reg, u32)>,
    /// As [`Self::division_late`].
    long_late: bool,
    /// The finished multiplications and divisions.
    longs: Vec<(usize, Long)>,
    /// Multiplications and divisions with something that can take longer between them and the instruction that waits,
    /// and that instruction.
    late: Vec<(usize, usize)>,
    count: usize,
    /// When the last instruction was issued alone, and the pipes for it: the next one may join it.
    open: Option<(u32, u8)>,
}

/// Where an instruction stands in the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// When it issues.
    pub at: u32,
    /// For loads and atomics.
    pub near: Near,
}

impl<'a> Schedule<'a> {
    /// An empty run: every register ready, every unit free.
    pub fn new(timing: &'a CoreTiming) -> Self {
        Self {
            timing,
            now: 0,
            ready: [0; 64],
            writers: std::array::from_fn(|r| r as Reg),
            dividing: None,
            division_late: false,
            behind: None,
            divided: Vec::new(),
            fp_written: [0; 4],
            fp_busy: 0,
            stores: [None; 2],
            last_issue: (0, false),
            last_access: None,
            fenced: false,
            long: None,
            long_late: false,
            longs: Vec::new(),
            late: Vec::new(),
            count: 0,
            open: None,
        }
    }

    /// The cycle of the instruction in front, if another one can issue with it that needs some pipes.
    fn joins(&self, pipes: u8) -> Option<u32> {
        let (at, first) = self.open?;
        let both = first != 0 && pipes != 0 && (first != pipes || pipes == 3);
        both.then_some(at)
    }

    /// When an instruction issues, from a cycle on.
    fn issues(&self, i: &Inst, from: u32, splits: bool) -> u32 {
        let t = self.timing;
        let (sources, dest) = operands(i);
        let mut at = from;
        for s in sources {
            at = at.max(self.ready[s as usize]);
        }
        // The scoreboard holds back a second writer of a register, too.
        at = at.max(self.ready[dest as usize]);
        let kind = memory(i.op);
        let waits = kind.is_some() && self.fenced || releases(i);
        if let (true, Some(last)) = (waits, self.last_access) {
            at = at.max(last + t.fence_distance);
        }
        if accesses_fp_csr(i) {
            at = at.max(self.fp_busy);
        }
        if is_fp(i.op) {
            at = self.pass_fpu(i, at, splits);
        }
        at
    }

    /// Adds an instruction; `splits` if it is in two packets of the front end, so that it takes a cycle
    /// more to fetch it anew.
    pub fn add(&mut self, i: &Inst, splits: bool) -> Slot {
        let t = self.timing;
        let (sources, dest) = operands(i);
        let c = cost(t, i);
        let kind = memory(i.op);
        let acquires = orders(i.op) && i.rm & 2 != 0;
        let pipes = pipes_of(&t.pipes, i.op);
        let with = self
            .joins(pipes)
            .filter(|with| self.issues(i, *with, splits) == *with);
        let at = with.unwrap_or_else(|| self.issues(i, self.now, splits));
        self.pass_cycles(at);
        let waits = self.meet_long(i, &sources, dest, at);
        let waits = self.meet_division(i, &sources, dest, at, splits) || waits;
        if waits || kind.is_some() || is_long(i.op) || divides_fp(i.op) {
            self.long_late |= self.long.is_some_and(|l| l.0 != self.count);
            self.division_late |= self.dividing.is_some_and(|d| d.0 != self.count);
        }
        if dest != 0 {
            self.ready[dest as usize] = at + c.latency;
            if dest & FP != 0 {
                self.writers[dest as usize] = fp_pending(i.op, dest & 31);
            }
        }
        if is_fp(i.op) {
            self.enter_fpu(i, at, c.latency);
        }
        let near = kind.map_or(Near::default(), |k| self.access(i, k, at));
        if kind.is_some() {
            self.fenced = false;
        }
        self.fenced |= acquires || i.op == Op::Fence;
        self.last_issue = (at, kind.is_some_and(|k| k != Memory::Store));
        self.now = self.now.max(at + c.issue);
        self.open = match with {
            Some(_) => None,
            None => (pipes != 0).then_some((at, pipes)),
        };
        self.count += 1;
        Slot { at, near }
    }

    /// When a floating-point instruction passes that could issue at a cycle: it is tried again if its
    /// result would be written together with another.
    fn pass_fpu(&self, i: &Inst, at: u32, splits: bool) -> u32 {
        let t = self.timing;
        let mut at = at;
        while fpu_refuses(t, i.op, at, self.fp_written.into_iter()) {
            at += replay(t, splits);
        }
        at
    }

    fn enter_fpu(&mut self, i: &Inst, at: u32, latency: u32) {
        self.fp_busy = self.fp_busy.max(at + latency);
        if let Some(l) = fp_write(self.timing, i.op) {
            self.fp_written.rotate_right(1);
            self.fp_written[0] = at + TO_MEMORY + l;
        }
    }

    /// The instruction at a cycle waits for the result of the unit for multiplication and division, or
    /// passes it. Whether it waits.
    fn meet_long(&mut self, i: &Inst, sources: &[Reg; 3], dest: Reg, at: u32) -> bool {
        let mut waits = false;
        if let Some((n, issued, reg, writes)) = self.long {
            let needs = reg != 0 && (sources.contains(&reg) || dest == reg);
            if needs || is_long(i.op) {
                self.longs.push((n, Long::new(at - issued, true, writes)));
                self.long = None;
                waits = true;
                if self.long_late {
                    self.late.push((n, self.count));
                }
            } else if writes_integer(i.op) && at > issued && at - issued <= Long::WRITES {
                self.long = Some((n, issued, reg, writes | 1 << (at - issued - 1)));
            }
        }
        if is_long(i.op) {
            self.long = Some((self.count, at, dest, 0));
            self.long_late = false;
        }
        waits
    }

    /// The instruction at a cycle waits for the divider of the floating-point unit, or is one for it. Whether it waits.
    fn meet_division(
        &mut self,
        i: &Inst,
        sources: &[Reg; 3],
        dest: Reg,
        at: u32,
        splits: bool,
    ) -> bool {
        let mut met = false;
        let csr = accesses_fp_csr(i);
        let uses = |reg: Reg| csr || sources.contains(&reg) || dest == reg;
        if let Some((n, reg, passed)) = self.behind {
            let behind = at - passed;
            if behind > Divided::SOON {
                self.behind = None;
            } else if uses(reg) {
                self.divided[n].1.needed_behind(behind);
                self.behind = None;
            }
        }
        if let Some((n, issued, reg)) = self.dividing.filter(|_| csr || is_fp(i.op)) {
            let waits = Divided::awaited(at - issued, uses(reg), splits);
            if !waits.needs() {
                self.behind = Some((self.divided.len(), reg, at));
            }
            self.divided.push((n, waits));
            self.dividing = None;
            met = true;
            if self.division_late {
                self.late.push((n, self.count));
            }
        }
        if divides_fp(i.op) {
            self.dividing = Some((self.count, at, dest));
            self.division_late = false;
        }
        met
    }

    /// Stores that wait are written in the first cycle in which no load keeps the data array busy.
    fn pass_cycles(&mut self, at: u32) {
        let free = self.array_free();
        for s in self.stores.iter_mut().flatten() {
            // The last cycle that has passed is the one before.
            s.written |= free.max(s.from) < at;
        }
    }

    /// Notes an access to memory; what it can run into.
    fn access(&mut self, i: &Inst, kind: Memory, at: u32) -> Near {
        let mut near = Near::default();
        let log_bytes = log_bytes(i.op);
        if kind != Memory::Store {
            for (k, s) in self.stores.iter().enumerate() {
                if let Some(s) = s.filter(|s| !s.written) {
                    near.stores[k] = true;
                    near.granules[k] = s.log_bytes.max(log_bytes);
                }
            }
        }
        self.last_access = Some(at);
        if kind != Memory::Load {
            // An atomic computes what it stores first.
            let computes = !matches!(i.op, Op::ScW | Op::ScD) && kind == Memory::Both;
            let from = at + self.timing.store_load_window + u32::from(computes);
            self.stores = [
                Some(Stored {
                    from,
                    log_bytes,
                    written: false,
                }),
                self.stores[0],
            ];
        }
        near
    }

    /// Length of the run in cycles, and what is pending after it.
    pub fn finish(&self) -> (u32, Pending) {
        let mut pending = self.unwritten().pack();
        let registers = self.writers.iter().zip(self.ready);
        for (reg, ready) in registers.skip(1) {
            pending = merge_pending(pending, *reg, ready.saturating_sub(self.now));
        }
        if let (true, Some(last)) = (self.fenced, self.last_access) {
            let left = (last + self.timing.fence_distance).saturating_sub(self.now);
            pending = merge_pending(pending, FENCE, left);
        }
        (self.now, pending)
    }

    /// The stores that are not written when the run is over.
    fn unwritten(&self) -> Unwritten {
        let free = self.array_free();
        Unwritten(self.stores.map(|s| {
            let s = s.filter(|s| !s.written && free.max(s.from) >= self.now)?;
            Some((free.max(s.from) - self.now, s.log_bytes))
        }))
    }

    /// The first cycle in which the last instruction does not keep the data array busy.
    fn array_free(&self) -> u32 {
        let (last, loads) = self.last_issue;
        last + u32::from(loads)
    }

    /// Cycles behind the run until an access may come that has to come after all others.
    pub fn until_release(&self) -> u32 {
        let until = self.last_access.map(|at| at + self.timing.fence_distance);
        until.map_or(0, |at| at.saturating_sub(self.now))
    }

    /// Multiplications, divisions and roots with something between them and the instruction that waits that can take
    /// longer than the schedule says, and that instruction. And one of integers, and one of floating-point numbers,
    /// that is pending at the end behind something like that, with its code in [`Pending`].
    pub fn late(&self) -> (Vec<(usize, usize)>, OpenLate) {
        let long = self.long.filter(|_| self.long_late);
        let division = self.dividing.filter(|_| self.division_late);
        let open = [
            long.map(|l| (l.0, LONG | l.2 & 31)),
            division.map(|d| (d.0, FP_LONG | d.2 & 31)),
        ];
        (self.late.clone(), open)
    }

    /// Divisions and roots of floating-point numbers, as [`Schedule::longs`].
    pub fn divisions(&self) -> (Vec<(usize, Divided)>, bool) {
        let mut all = self.divided.clone();
        let open = self.dividing;
        all.extend(open.map(|(n, issued, _)| (n, Divided::open(self.now - issued))));
        (all, open.is_some())
    }

    /// Multiplications and divisions of integers, by number, and whether nothing waits for the last one.
    pub fn longs(mut self) -> (Vec<(usize, Long)>, bool) {
        let open = self.long.take();
        if let Some((n, issued, _, writes)) = open {
            self.longs
                .push((n, Long::new(self.now - issued, false, writes)));
        }
        (self.longs, open.is_some())
    }
}

/// Cycles from the access to memory of an instruction in the same pipeline to the cycle in which the
/// FPU writes its result into its registers; `None` if it does not.
fn fp_write(t: &CoreTiming, op: Op) -> Option<u32> {
    fpu_pipe(op).map(|pipe| [t.fp_single_write, t.fp_double_write, t.fp_misc_write][pipe])
}

/// The pipe of the FPU whose result goes to its registers, in the order of [`FPU`]; `None` for other instructions and
/// for divisions and roots.
fn fpu_pipe(op: Op) -> Option<usize> {
    use Format::*;
    let info = op.info().format;
    if divides_fp(op)
        || !matches!(
            info,
            FpFma | FpArith | FpPair | FpUnary | FpFromInt | FpMoveFromInt
        )
    {
        return Option::None;
    }
    Some(match op {
        Op::FaddS | Op::FsubS | Op::FmulS | Op::FmaddS | Op::FmsubS | Op::FnmaddS | Op::FnmsubS => {
            0
        }
        Op::FaddD | Op::FsubD | Op::FmulD | Op::FmaddD | Op::FmsubD | Op::FnmaddD | Op::FnmsubD => {
            1
        }
        _ => 2,
    })
}

/// Results of instructions in front of a run that are on their way to the registers of the FPU, which refuses some
/// instructions meanwhile: the cycles in which they are written.
pub(crate) struct Refusal<'a> {
    timing: &'a CoreTiming,
    written: [Option<u32>; 2],
}

impl<'a> Refusal<'a> {
    pub fn of(timing: &'a CoreTiming, pending: Pending) -> Self {
        let mut pairs = pending_pairs(pending);
        let written = [(); 2].map(|()| {
            let (reg, left) = pairs.next()?;
            fpu_writes(timing, reg, left)
        });
        Refusal { timing, written }
    }

    /// Whether nothing is refused from a cycle on.
    pub fn is_over(&self, at: u32) -> bool {
        self.written.iter().flatten().all(|w| at + TO_MEMORY > *w)
    }

    /// Cycles that an instruction waits which would issue in a cycle.
    pub fn wait(&self, p: &PreOp, at: u32) -> u32 {
        let mut wait = 0;
        while fpu_refuses(
            self.timing,
            p.op,
            at + wait,
            self.written.into_iter().flatten(),
        ) {
            wait += replay(self.timing, p.splits());
        }
        wait
    }
}

/// Whether the FPU refuses an instruction that would issue in a cycle: one for the divider while a result is on its
/// way, another one if its result would be written together with that.
fn fpu_refuses(t: &CoreTiming, op: Op, at: u32, mut written: impl Iterator<Item = u32>) -> bool {
    let memory = at + TO_MEMORY;
    if divides_fp(op) {
        written.any(|w| w >= memory)
    } else {
        fp_write(t, op).is_some_and(|l| written.any(|w| w == memory + l))
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
