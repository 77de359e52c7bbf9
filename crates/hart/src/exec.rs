//! The interpreter: runs predecoded blocks.

use crate::bitmanip;
use crate::csr::{CsrWrite, Moment};
use crate::groups::{bit_ops, div_ops, fp_ops};
use crate::hart::Hart;
use crate::mode::{Detailed, Mode};
use crate::muldiv::divide;
use crate::pending::STORES;
use crate::place::{End, RunPoint};
use crate::pmp::Access;
use crate::preop::{PreOp, ACTS, HAZARD, ILLEGAL_LEN, TARGET};
use crate::privilege::Privilege;
use crate::trap::{cause, status, NotNow, Trap, Undone};
use crate::world::{AccessKind, Marker, World};
use nagori_isa::{Format, Op};
use std::sync::atomic::Ordering::SeqCst;

impl Hart {
    /// A load close behind a store may have to wait for it.
    #[inline(always)]
    pub(crate) fn hazard(&mut self, p: &PreOp, va: u64) {
        if p.flags & HAZARD != 0 {
            let overlaps = |k: usize| match p.near(k) {
                0 => false,
                bits => (va ^ self.state.last_stores[k]) & bits == 0,
            };
            if overlaps(0) || overlaps(1) {
                self.store_hazard(p, va);
            }
        }
        if self.state.pending >> STORES != 0 {
            self.meet_stores(p, va);
        }
    }

    /// A load waits for a store.
    #[inline(always)]
    pub(crate) fn store_hazard(&mut self, p: &PreOp, va: u64) {
        let cycles = self.config.timing.store_load_hazard;
        self.state.cycle += u64::from(cycles) + u64::from(p.splits());
        // Meanwhile all stores are written: none is at this address any more.
        self.state.last_stores = [va ^ ELSEWHERE; 2];
        // It has been fetched anew.
        let now = self.state.cycle + u64::from(p.cost);
        self.state.predictor.front = now.saturating_sub(p.packets_before());
    }

    #[inline(always)]
    pub(crate) fn touch_way(&mut self, way: u8) {
        if way != self.state.last_way {
            self.state.last_way = way;
            self.state.dtlb.touch(way);
        }
    }

    /// An access to a line has hit the filter.
    #[inline(always)]
    pub(crate) fn note_use(&mut self, va: u64, p: &PreOp) {
        let now = self.state.cycle + p.cost as u64;
        self.data
            .at_mut((va >> Detailed::BLOCK_SHIFT) as usize)
            .used = now as u32;
    }

    /// Executes a block from its start.
    #[inline(always)]
    pub(crate) fn block<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        ops: &[PreOp],
        pc0: u64,
        end: u64,
    ) -> End {
        if let Err(NotNow) = M::block_begins(self, w, ops, pc0) {
            return End::NotNow(0);
        }
        self.ops::<W, M>(w, ops, 0, pc0, end)
    }

    /// Executes instructions of a block: `ops`, the first of which is the block's
    /// `first`. `end` is where the program goes on if none of them jumps.
    #[inline]
    pub(crate) fn ops<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        ops: &[PreOp],
        first: usize,
        pc0: u64,
        end: u64,
    ) -> End {
        let end = self.execute::<W, M>(w, ops, first, pc0, end);
        self.commit_end(w, &end);
        end
    }

    fn execute<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        ops: &[PreOp],
        first: usize,
        pc0: u64,
        end: u64,
    ) -> End {
        let mut next = end;
        let shift = M::BLOCK_SHIFT;
        let block_mask = !((1u64 << shift) - 1);

        for (i, p) in (first..).zip(ops) {
            macro_rules! pc {
                () => {
                    pc0.wrapping_add(p.off as u64)
                };
            }
            macro_rules! at {
                () => {
                    RunPoint::of(p, pc0)
                };
            }
            macro_rules! when {
                () => {
                    Moment {
                        cycle: self.state.cycle + p.cost as u64,
                        instret: self.state.instret + i as u64,
                    }
                };
            }
            macro_rules! x {
                ($r:expr) => {
                    self.state.x[($r & 63) as usize]
                };
            }
            macro_rules! a {
                () => {
                    x!(p.rs1)
                };
            }
            macro_rules! b {
                () => {
                    x!(p.rs2)
                };
            }
            macro_rules! imm {
                () => {
                    p.imm as i64 as u64
                };
            }
            macro_rules! set {
                ($v:expr) => {{
                    let v: u64 = $v;
                    x!(p.rd) = v;
                }};
            }
            macro_rules! setw {
                ($v:expr) => {{
                    let v: u32 = $v;
                    x!(p.rd) = v as i32 as i64 as u64;
                }};
            }
            macro_rules! check {
                ($r:expr) => {
                    match $r {
                        Ok(v) => v,
                        Err(u) => return End::undone(i, u.into()),
                    }
                };
            }
            macro_rules! illegal {
                () => {
                    return End::Trap(i, self.illegal_at(w, p, pc!()))
                };
            }
            macro_rules! misaligned {
                ($target:expr) => {
                    return End::Trap(i, Trap::new(cause::FETCH_MISALIGNED, $target))
                };
            }
            macro_rules! left {
                () => {
                    if self.run.leave {
                        return End::Left(i);
                    }
                };
            }
            macro_rules! load {
                ($read:ident, $t:ty, $size:expr) => {{
                    let va = a!().wrapping_add(imm!());
                    let e = self.data.at((va >> shift) as usize);
                    let key = va & (block_mask | ($size - 1)) | self.dctx;
                    if e.read == key {
                        let (delta, way) = (e.delta, e.way);
                        M::load_passed(self, va, way, p);
                        let o = va.wrapping_add(delta);
                        let v = w.ram().$read(o).unwrap_or(0) as $t;
                        let place = (va, w.ram_base().wrapping_add(o));
                        self.commit_passed::<W>(AccessKind::Read, place, $size, v.into());
                        v
                    } else {
                        M::load_missed(self, va, p);
                        let v = check!(self.load_slow::<W, M>(w, va, $size, at!()));
                        M::load_done(self, p);
                        v as $t
                    }
                }};
            }
            macro_rules! store {
                ($write:ident, $t:ty, $size:expr, $v:expr) => {{
                    let va = a!().wrapping_add(imm!());
                    let v: u64 = $v;
                    M::store_begins(self, va);
                    let e = self.data.at((va >> shift) as usize);
                    let key = va & (block_mask | ($size - 1)) | self.dctx;
                    if e.write == key {
                        let (delta, way) = (e.delta, e.way);
                        M::store_passed(self, va, way, p);
                        let o = va.wrapping_add(delta);
                        let _ = w.ram().$write(o, v as $t);
                        let place = (va, w.ram_base().wrapping_add(o));
                        self.commit_passed::<W>(AccessKind::Write, place, $size, v.into());
                    } else {
                        check!(self.store_slow::<W, M>(w, va, $size, v, at!()));
                        left!();
                    }
                }};
            }
            macro_rules! branch {
                ($taken:expr) => {{
                    let taken = $taken;
                    let target = pc!().wrapping_add(imm!());
                    if taken && p.flags & TARGET != 0 {
                        misaligned!(target);
                    }
                    M::branch(self, w, pc!(), target, taken, p);
                    if taken {
                        next = target;
                    }
                }};
            }
            macro_rules! amo_w {
                (|$o:ident| $f:expr) => {{
                    let va = a!();
                    M::atomic_begins(self, va, p);
                    let v = b!() as u32;
                    let f = |old: u64| {
                        let $o = old as u32;
                        let r: u32 = $f(v);
                        r as u64
                    };
                    let old = check!(self.amo::<W, M>(w, va, 4, at!(), f));
                    set!(old);
                }};
            }
            macro_rules! amo_d {
                (|$o:ident| $f:expr) => {{
                    let va = a!();
                    M::atomic_begins(self, va, p);
                    let v = b!();
                    let f = |$o: u64| -> u64 { $f(v) };
                    let old = check!(self.amo::<W, M>(w, va, 8, at!(), f));
                    set!(old);
                }};
            }
            self.commit_last(w);
            if W::STOPS && w.stops(self.id, pc!()) {
                return End::Stopped(i);
            }
            check!(M::fetch(self, w, p, at!()));
            check!(M::uses(self, w, p, at!()));
            self.commit_begin(w, p, at!());
            use Op::*;
            // No catch-all arm: an instruction that is neither in a group nor here is a compile
            // error.
            match p.op {
                Addi => set!(a!().wrapping_add(imm!())),
                Add => set!(a!().wrapping_add(b!())),
                Ld => {
                    set!(load!(read_u64, u64, 8));
                    left!();
                }
                Sd => store!(write_u64, u64, 8, b!()),
                Lw => {
                    set!(load!(read_u32, u32, 4) as i32 as i64 as u64);
                    left!();
                }
                Sw => store!(write_u32, u32, 4, b!()),
                Lwu => {
                    set!(load!(read_u32, u32, 4) as u64);
                    left!();
                }
                Lbu => {
                    set!(load!(read_u8, u8, 1) as u64);
                    left!();
                }
                Lb => {
                    set!(load!(read_u8, u8, 1) as i8 as i64 as u64);
                    left!();
                }
                Lhu => {
                    set!(load!(read_u16, u16, 2) as u64);
                    left!();
                }
                Lh => {
                    set!(load!(read_u16, u16, 2) as i16 as i64 as u64);
                    left!();
                }
                Sb => store!(write_u8, u8, 1, b!()),
                Sh => store!(write_u16, u16, 2, b!()),
                Beq => branch!(a!() == b!()),
                Bne => branch!(a!() != b!()),
                Blt => branch!((a!() as i64) < b!() as i64),
                Bge => branch!(a!() as i64 >= b!() as i64),
                Bltu => branch!(a!() < b!()),
                Bgeu => branch!(a!() >= b!()),
                Jal => {
                    if p.flags & TARGET != 0 {
                        misaligned!(pc!().wrapping_add(imm!()));
                    }
                    M::jump(self, pc!(), p);
                    set!(pc!().wrapping_add(p.len as u64));
                    next = pc!().wrapping_add(imm!());
                }
                Jalr => {
                    let target = a!().wrapping_add(imm!()) & !1;
                    if p.flags & TARGET != 0 && target & 2 != 0 {
                        misaligned!(target);
                    }
                    M::indirect(self, w, pc!(), target, p);
                    set!(pc!().wrapping_add(p.len as u64));
                    next = target;
                }
                Lui => set!(imm!()),
                Auipc => set!(pc!().wrapping_add(imm!())),
                Slti => set!(((a!() as i64) < p.imm as i64) as u64),
                Sltiu => set!((a!() < imm!()) as u64),
                Xori => set!(a!() ^ imm!()),
                Ori => set!(a!() | imm!()),
                Andi => set!(a!() & imm!()),
                Slli => set!(a!() << (p.imm & 63)),
                Srli => set!(a!() >> (p.imm & 63)),
                Srai => set!((a!() as i64 >> (p.imm & 63)) as u64),
                Sub => set!(a!().wrapping_sub(b!())),
                Sll => set!(a!() << (b!() & 63)),
                Slt => set!(((a!() as i64) < b!() as i64) as u64),
                Sltu => set!((a!() < b!()) as u64),
                Xor => set!(a!() ^ b!()),
                Srl => set!(a!() >> (b!() & 63)),
                Sra => set!((a!() as i64 >> (b!() & 63)) as u64),
                Or => set!(a!() | b!()),
                And => set!(a!() & b!()),
                Addiw => setw!((a!() as u32).wrapping_add(p.imm as u32)),
                Slliw => setw!((a!() as u32) << (p.imm & 31)),
                Srliw => setw!(a!() as u32 >> (p.imm & 31)),
                Sraiw => setw!((a!() as i32 >> (p.imm & 31)) as u32),
                Addw => setw!((a!() as u32).wrapping_add(b!() as u32)),
                Subw => setw!((a!() as u32).wrapping_sub(b!() as u32)),
                Sllw => setw!((a!() as u32) << (b!() & 31)),
                Srlw => setw!(a!() as u32 >> (b!() & 31)),
                Sraw => setw!((a!() as i32 >> (b!() & 31)) as u32),
                Mul => {
                    M::multiply(self, p, a!());
                    set!(a!().wrapping_mul(b!()))
                }
                Mulw => {
                    M::multiply(self, p, a!());
                    setw!((a!() as u32).wrapping_mul(b!() as u32))
                }
                Mulh => {
                    M::multiply(self, p, a!());
                    set!(((a!() as i64 as i128 * b!() as i64 as i128) >> 64) as u64)
                }
                Mulhu => {
                    M::multiply(self, p, a!());
                    set!(((a!() as u128 * b!() as u128) >> 64) as u64)
                }
                Mulhsu => {
                    M::multiply(self, p, a!());
                    set!(((a!() as i64 as i128 * b!() as i128) >> 64) as u64)
                }
                div_ops!() => {
                    let (va, vb) = (a!(), b!());
                    M::divide(self, p, va, vb);
                    set!(divide(p.op, va, vb));
                }
                Fld => {
                    if !self.fp_on() {
                        illegal!();
                    }
                    let v = load!(read_u64, u64, 8);
                    self.state.f[(p.rd & 31) as usize] = v;
                    self.fp_dirty();
                    left!();
                }
                Flw => {
                    if !self.fp_on() {
                        illegal!();
                    }
                    let v = load!(read_u32, u32, 4);
                    self.state.f[(p.rd & 31) as usize] = v as u64 | 0xffff_ffff_0000_0000;
                    self.fp_dirty();
                    left!();
                }
                Fsd => {
                    if !self.fp_on() {
                        illegal!();
                    }
                    store!(write_u64, u64, 8, self.state.f[(p.rs2 & 31) as usize])
                }
                Fsw => {
                    if !self.fp_on() {
                        illegal!();
                    }
                    store!(write_u32, u32, 4, self.state.f[(p.rs2 & 31) as usize])
                }
                LrW => {
                    let va = a!();
                    M::load_missed(self, va, p);
                    let v = check!(self.load_reserved::<W, M>(w, va, 4, at!()));
                    setw!(v as u32);
                }
                LrD => {
                    let va = a!();
                    M::load_missed(self, va, p);
                    set!(check!(self.load_reserved::<W, M>(w, va, 8, at!())));
                }
                ScW | ScD => {
                    let (va, v) = (a!(), b!());
                    M::atomic_begins(self, va, p);
                    let size = if p.op == ScW { 4 } else { 8 };
                    let ok = check!(self.store_conditional::<W, M>(w, va, size, v, at!()));
                    self.commit_conditional::<W>(ok);
                    set!(!ok as u64);
                }
                AmoswapW => amo_w!(|_o| |v: u32| v),
                AmoaddW => amo_w!(|o| |v: u32| o.wrapping_add(v)),
                AmoxorW => amo_w!(|o| |v: u32| o ^ v),
                AmoandW => amo_w!(|o| |v: u32| o & v),
                AmoorW => amo_w!(|o| |v: u32| o | v),
                AmominW => amo_w!(|o| |v: u32| (o as i32).min(v as i32) as u32),
                AmomaxW => amo_w!(|o| |v: u32| (o as i32).max(v as i32) as u32),
                AmominuW => amo_w!(|o| |v: u32| o.min(v)),
                AmomaxuW => amo_w!(|o| |v: u32| o.max(v)),
                AmoswapD => amo_d!(|_o| |v: u64| v),
                AmoaddD => amo_d!(|o| |v: u64| o.wrapping_add(v)),
                AmoxorD => amo_d!(|o| |v: u64| o ^ v),
                AmoandD => amo_d!(|o| |v: u64| o & v),
                AmoorD => amo_d!(|o| |v: u64| o | v),
                AmominD => amo_d!(|o| |v: u64| (o as i64).min(v as i64) as u64),
                AmomaxD => amo_d!(|o| |v: u64| (o as i64).max(v as i64) as u64),
                AmominuD => amo_d!(|o| |v: u64| o.min(v)),
                AmomaxuD => amo_d!(|o| |v: u64| o.max(v)),
                AmocasW | AmocasD => {
                    // x0 as destination also reads as zero.
                    let expected = if p.rd < 32 { x!(p.rd) } else { 0 };
                    let (va, new) = (a!(), b!());
                    M::atomic_begins(self, va, p);
                    let (size, mask) = match p.op {
                        AmocasW => (4, u64::from(u32::MAX)),
                        _ => (8, u64::MAX),
                    };
                    let swap = |old: u64| match (old ^ expected) & mask {
                        0 => new,
                        _ => old,
                    };
                    set!(check!(self.amo::<W, M>(w, va, size, at!(), swap)));
                }
                AmocasQ => {
                    let pair = |h: &Self, r: u8| match r {
                        1..32 => [h.state.x[r as usize], h.state.x[r as usize + 1]],
                        _ => [0; 2],
                    };
                    let (expected, new) = (pair(self, p.rd), pair(self, p.rs2));
                    let va = a!();
                    M::atomic_begins(self, va, p);
                    let old = check!(self.swap_pair::<W, M>(w, va, expected, new, at!()));
                    if p.rd < 32 {
                        [x!(p.rd), x!(p.rd + 1)] = old;
                    }
                }
                bit_ops!() => set!(bitmanip::compute(p.op, a!(), b!(), p.imm)),
                Fence if M::LINES => {
                    check!(M::fence(self, w, p.imm, at!()));
                }
                Fence if W::PARALLEL => std::sync::atomic::fence(SeqCst),
                NtlP1 | NtlPall | NtlS1 | NtlAll if p.flags & ACTS != 0 => {
                    M::hint(self, w, p, pc!());
                }
                Fence | Pause | NtlP1 | NtlPall | NtlS1 | NtlAll | PrefetchI | PrefetchR
                | PrefetchW => {}
                FenceI => {
                    check!(M::fetch_anew(self, w, at!()));
                    if W::PARALLEL {
                        self.drop_unguarded(w);
                    }
                }
                CboClean | CboFlush | CboInval | CboZero | CflushDL1 | CflushDL1U => {
                    let va = a!();
                    match self.cache_op::<W, M>(w, p, va, at!()) {
                        Some(r) => check!(r),
                        None => illegal!(),
                    }
                }
                MarkRoiBegin | MarkRoiEnd | MarkStatsReset | MarkStatsDump | MarkMethod
                | MarkLabel | MarkSnapshot | MarkStop => {
                    check!(M::hands_over(self, w, at!()));
                    check!(M::visible(self, w, at!()));
                    let (cycle, value) = (self.state.cycle + p.cost as u64, a!());
                    let heard =
                        Marker::of(p.op).is_some_and(|m| w.marker(self.id, cycle, m, value));
                    // It is the last of its block: the loop around blocks looks at both.
                    self.run.leave |= heard;
                    self.run.recheck |= heard;
                }
                Ebreak if p.len == ILLEGAL_LEN => {
                    return End::Trap(i, Trap::illegal(p.imm as u32));
                }
                Ebreak => return End::Trap(i, Trap::new(cause::BREAKPOINT, pc!())),
                Ecall => {
                    return End::Trap(
                        i,
                        Trap::new(cause::ECALL_U + self.state.privilege as u64, 0),
                    );
                }
                Mret => {
                    if self.state.privilege != Privilege::Machine {
                        illegal!();
                    }
                    let to = self.returns_to(true);
                    self.leaves_mode(w, to, when!().behind());
                    let then = when!().behind().instret;
                    self.mret();
                    self.count_return(then);
                    next = self.state.pc;
                }
                Sret => {
                    if self.state.privilege == Privilege::User
                        || self.state.privilege == Privilege::Supervisor
                            && self.state.csr.mstatus & status::TSR != 0
                    {
                        illegal!();
                    }
                    let to = self.returns_to(false);
                    self.leaves_mode(w, to, when!().behind());
                    let then = when!().behind().instret;
                    self.sret();
                    self.count_return(then);
                    next = self.state.pc;
                }
                Wfi => {
                    if self.state.privilege != Privilege::Machine
                        && self.state.csr.mstatus & status::TW != 0
                        || self.state.privilege == Privilege::User
                    {
                        illegal!();
                    }
                    check!(M::hands_over(self, w, at!()));
                    self.state.waiting = true;
                    self.run.recheck = true;
                }
                SfenceVma => {
                    if self.state.privilege == Privilege::User
                        || self.state.privilege == Privilege::Supervisor
                            && self.state.csr.mstatus & status::TVM != 0
                    {
                        illegal!();
                    }
                    check!(M::drains(self, w, at!()));
                    let vpn = (p.rs1 != 0).then(|| a!() << 25 >> 37);
                    let asid = (p.rs2 != 0)
                        .then(|| b!() as u16 & ((1u32 << self.config.asid_bits) - 1) as u16);
                    self.state.dtlb.flush(vpn, asid);
                    self.state.itlb.flush(vpn, asid);
                    // With an address it is about leaves, which the walk cache does not hold.
                    if vpn.is_none() {
                        self.state.walks.clear();
                    }
                    self.flush_filters();
                }
                Csrrw | Csrrs | Csrrc | Csrrwi | Csrrsi | Csrrci => {
                    let v = if p.op.info().format == Format::CsrImm {
                        p.rs1 as u64
                    } else {
                        a!()
                    };
                    let write = match p.op {
                        Csrrw | Csrrwi => Some(CsrWrite::Put(v)),
                        Csrrs | Csrrsi => (p.rs1 != 0).then_some(CsrWrite::Set(v)),
                        _ => (p.rs1 != 0).then_some(CsrWrite::Clear(v)),
                    };
                    match self.csr_access(w, p.imm as u16, 0, when!(), write) {
                        Ok(v) => set!(v),
                        Err(_) => illegal!(),
                    }
                }
                fp_ops!() => {
                    let operands = [p.rs1, p.rs2].map(|r| self.state.f[(r & 31) as usize]);
                    if self.fp_op(p).is_none() {
                        illegal!();
                    }
                    M::floated(self, p, operands);
                }
            }
        }
        self.state.pc = next;
        End::Done
    }

    /// Illegal instruction with the bits of the instruction as the trap value.
    #[cold]
    #[inline(never)]
    fn illegal_at<W: World>(&mut self, w: &mut W, p: &PreOp, pc: u64) -> Trap {
        Trap::illegal(self.raw_at(w, pc, p.len))
    }

    /// Instruction bits at a pc that was fetched before.
    pub(crate) fn raw_at<W: World>(&mut self, w: &mut W, pc: u64, len: u8) -> u32 {
        let p = self.state.privilege;
        let base = w.ram_base();
        let mut half = |h: &mut Self, va: u64| -> u32 {
            h.look_up(w, va, Access::Fetch, p)
                .ok()
                .and_then(|pa| w.ram().read_u16(pa.wrapping_sub(base)))
                .unwrap_or(0) as u32
        };
        let low = half(self, pc);
        if len == 2 || low & 3 != 3 {
            low
        } else {
            low | half(self, pc.wrapping_add(2)) << 16
        }
    }

    /// fence.i empties L1I; the refetch is an ordinary miss.
    pub(crate) fn empty_l1i<W: World>(&mut self, w: &mut W) {
        w.coherence().empty_l1i(self.id);
        self.fetch.restart(self.state.cycle);
    }

    /// A cache-block operation; `None` if it is illegal in the current mode.
    fn cache_op<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        p: &PreOp,
        va: u64,
        at: RunPoint,
    ) -> Option<Result<(), Undone>> {
        let gate = |bits: u64| -> bool {
            match self.state.privilege {
                Privilege::Machine => true,
                Privilege::Supervisor => self.state.csr.menvcfg & bits != 0,
                Privilege::User => {
                    self.state.csr.menvcfg & bits != 0 && self.state.csr.senvcfg & bits != 0
                }
            }
        };
        const CBIE: u64 = 3 << 4;
        const CBCFE: u64 = 1 << 6;
        const CBZE: u64 = 1 << 7;
        match p.op {
            Op::CflushDL1 if self.state.privilege != Privilege::Machine => None,
            Op::CflushDL1 | Op::CflushDL1U => {
                Some(self.cflush::<W, M>(w, (p.rs1 != 0).then_some(va), at))
            }
            Op::CboZero => gate(CBZE).then(|| self.cbo_zero::<W, M>(w, va, at)),
            Op::CboClean => gate(CBCFE).then(|| self.cbo_writeback::<W, M>(w, va, true, at)),
            Op::CboFlush => gate(CBCFE).then(|| self.cbo_writeback::<W, M>(w, va, false, at)),
            // An invalidation that loses no data is a flush, which the specification permits.
            Op::CboInval => gate(CBIE).then(|| self.cbo_writeback::<W, M>(w, va, false, at)),
            _ => None,
        }
    }
}

/// Distance of an address at which no store is that a load could run into.
pub const ELSEWHERE: u64 = 0x800;
