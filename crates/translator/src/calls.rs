//! Functions that translated code calls: single instructions in the interpreter, fetches of lines,
//! pending results, branches that the predictor does not predict correctly.
//!
//! Every function gets the hart's address; world and code cache are where
//! [`Translator::enter`](crate::translator::Translator::enter) put them. The code calls them only
//! while that call is active.

use crate::jumps::{jump_slot, Jump};
use nagori_hart::engine::registers;
use nagori_hart::mode::{Detailed, Mode};
use nagori_hart::trap::NotNow;
use nagori_hart::world::World;
use nagori_hart::{Block, CodeCache, End, Hart};
use nagori_isa::Op;

/// Why code was left (`Area::exit`).
pub(crate) mod exit {
    /// At the end of a block; pc is set.
    pub const DONE: u64 = 0;
    /// By a trap.
    pub const TRAP: u64 = 1;
    /// After an access to a device.
    pub const LEFT: u64 = 2;
    /// For the interpreter to go on with an instruction, whose line is fetched.
    pub const REST: u64 = 3;
    /// In front of an instruction that has to wait.
    pub const NOT_NOW: u64 = 4;
    /// For the interpreter to go on with a block that has begun: the line of its first byte is fetched.
    pub const BEGUN: u64 = 5;
}

/// Left by no link.
pub(crate) const NO_LINK: u64 = u32::MAX as u64;
/// Left behind an instruction that ends blocks; numbers of links are below.
pub(crate) const SYSTEM: u64 = NO_LINK - 1;

/// Number of an instruction for calls: block, and index in it.
pub(crate) fn info(block: u32, index: usize) -> i32 {
    (block << 8 | index as u32) as i32
}
/// Index that means the start of a block.
pub(crate) const START: usize = 0xff;
/// Longest block number that fits.
pub(crate) const MAX_BLOCK: u32 = 1 << 23;

/// The block and the index of `info`.
pub(crate) fn place(info: u64) -> (u32, usize) {
    ((info >> 8) as u32, (info & 0xff) as usize)
}

/// Function addresses for one kind of world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub op: usize,
    pub miss: usize,
    pub line: usize,
    pub pending: usize,
    pub late: usize,
    pub units: usize,
    pub branch: usize,
    pub insert: usize,
    pub learn: usize,
}

type Call = unsafe extern "sysv64" fn(*mut Hart, u64, u64) -> u64;

impl Calls {
    pub fn of<W: World, M: Mode>() -> Self {
        let address = |f: Call| f as usize;
        Self {
            op: address(op::<W, M>),
            miss: address(miss::<W, M>),
            line: address(line::<W>),
            pending: address(pending::<W>),
            late: address(late::<W>),
            units: address(units::<W>),
            branch: address(branch::<W>),
            insert: address(insert),
            learn: address(learn),
        }
    }

    /// Misses are those of another mode: of one that leaves out what the hart does not have.
    pub fn use_misses_of<W: World, M: Mode>(&mut self) {
        self.miss = miss::<W, M> as Call as usize;
    }
}

/// Where a call comes from, with all that it may use.
struct Site<'a, W> {
    h: &'a mut Hart,
    w: &'a mut W,
    code: &'a CodeCache,
    id: u32,
    /// Index of the instruction, or [`START`].
    i: usize,
    b: &'a Block,
    /// Address of the block's first instruction.
    pc: u64,
}

/// # Safety
/// Only inside a call from translated code, with its arguments and the world's type of `enter`.
#[inline(always)]
unsafe fn site<'a, W>(hart: *mut Hart, info: u64) -> Site<'a, W> {
    // SAFETY: translated code passes the hart that `enter` borrowed and does not touch
    // it until the call returns.
    let h = unsafe { &mut *hart };
    let a = h.area();
    // SAFETY: `enter` put the addresses of its exclusive borrows there, which outlive
    // the call. Nobody else uses the world meanwhile, and the code cache is not
    // changed while code runs.
    let (w, code) = unsafe {
        (
            &mut *std::ptr::with_exposed_provenance_mut::<W>(a.world as usize),
            &*std::ptr::with_exposed_provenance::<CodeCache>(a.code as usize),
        )
    };
    let (id, i) = place(info);
    let b = code.block(id);
    let pc = a.page + b.offset as u64;
    Site {
        h,
        w,
        code,
        id,
        i,
        b,
        pc,
    }
}

/// Exceptions of the host's unit in the places of fflags.
pub(crate) fn host_flags(mxcsr: u64) -> u8 {
    let bit = |from: u32, to: u32| ((mxcsr >> from & 1) as u8) << to;
    // Invalid, divide by zero, overflow, underflow, inexact.
    bit(0, 4) | bit(2, 3) | bit(3, 2) | bit(4, 1) | bit(5, 0)
}

/// Brings what translated code keeps elsewhere into the hart.
fn sync<M: Mode>(h: &mut Hart) {
    if h.area().fp_live != 0 {
        h.raise_fflags(host_flags(h.area().mxcsr));
        h.area_mut().fp_live = 0;
    }
    if !M::LINES {
        sync_instret(h);
    }
}

/// In functional mode instructions retired follow from the cycle.
pub(crate) fn sync_instret(h: &mut Hart) {
    let cpi = h.config().functional_cpi as u64;
    h.state.instret = h.area().entry_instret + (h.state.cycle - h.area().entry_cycle) / cpi;
}

/// Looked at before the next block?
fn after(h: &mut Hart) {
    if h.wants_recheck() {
        h.area_mut().stop = 0;
    }
}

/// Leaves with an instruction's number.
fn leave(h: &mut Hart, exit: u64, info: u64) -> u64 {
    let a = h.area_mut();
    (a.exit, a.info) = (exit, info);
    1
}

/// Executes one instruction. Not 0: leave.
unsafe extern "sysv64" fn op<W: World, M: Mode>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let s = unsafe { site::<W>(hart, info) };
    sync::<M>(s.h);
    s.h.poll_notices(s.w);
    let end = s.h.exec_op::<W, M>(s.w, s.code, s.b, s.i, s.pc);
    s.w.release();
    finish(s.h, end, info)
}

/// Executes a load or store that the filter did not let pass. Not 0: leave.
unsafe extern "sysv64" fn miss<W: World, M: Mode>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let s = unsafe { site::<W>(hart, info) };
    sync::<M>(s.h);
    s.h.poll_notices(s.w);
    let p = &s.code.ops(s.b)[s.i];
    let end = s.h.exec_miss::<W, M>(s.w, p, s.i, s.pc);
    s.w.release();
    finish(s.h, end, info)
}

/// The consequence of an instruction's end for the code that called.
#[inline(always)]
fn finish(h: &mut Hart, end: End, info: u64) -> u64 {
    after(h);
    match end {
        // An observer that stops harts uses the interpreter.
        End::Done | End::Stopped(_) => 0,
        End::Left(_) => leave(h, exit::LEFT, info),
        End::NotNow(_) => leave(h, exit::NOT_NOW, info),
        End::Trap(_, t) => {
            let a = h.area_mut();
            (a.cause, a.tval) = (t.cause, t.tval);
            leave(h, exit::TRAP, info)
        }
    }
}

/// Fetches the line of an instruction, or of a block's start. Not 0: leave.
unsafe extern "sysv64" fn line<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let mut s = unsafe { site::<W>(hart, info) };
    sync::<Detailed>(s.h);
    fetch(&mut s)
}

/// Fetches the line of a site. Not 0: leave.
#[inline(always)]
fn fetch<W: World>(s: &mut Site<'_, W>) -> u64 {
    let first = s.i == START;
    let i = if first { 0 } else { s.i };
    s.h.poll_notices(s.w);
    let fetched = s.h.fetch_op(s.w, &s.code.ops(s.b)[i], first, s.pc);
    s.w.release();
    after(s.h);
    match fetched {
        Ok(()) => 0,
        Err(NotNow) => leave(s.h, exit::NOT_NOW, (s.id as u64) << 8 | i as u64),
    }
}

/// Waits for results that the block needs. Not 0: leave.
unsafe extern "sysv64" fn pending<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let mut s = unsafe { site::<W>(hart, info) };
    sync::<Detailed>(s.h);
    if s.h.await_results(s.code, s.b) {
        return 0;
    }
    // Results of earlier blocks are pending at its end: the interpreter does this bookkeeping.
    if fetch(&mut s) == 0 {
        s.h.begin_block(s.b);
        leave(s.h, exit::BEGUN, (s.id as u64) << 8);
    }
    1
}

/// Waits for registers whose lines are on their way: those that an instruction needs. At the start of a block, the
/// interpreter goes on if the block needs any. Not 0: leave.
unsafe extern "sysv64" fn late<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let s = unsafe { site::<W>(hart, info) };
    sync::<Detailed>(s.h);
    if s.i == START {
        let needs = s.code.ops(s.b).iter().fold(0, |all, p| all | registers(p));
        if s.h.late_registers() & needs == 0 {
            return 0;
        }
        return leave(s.h, exit::BEGUN, (s.id as u64) << 8);
    }
    s.h.poll_notices(s.w);
    let p = &s.code.ops(s.b)[s.i];
    let waited = s.h.await_op(s.w, p, s.pc);
    s.w.release();
    after(s.h);
    match waited {
        Ok(()) => 0,
        Err(NotNow) => leave(s.h, exit::NOT_NOW, info),
    }
}

/// Waits for units whose results come late. 0.
unsafe extern "sysv64" fn units<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: this is such a call.
    let s = unsafe { site::<W>(hart, info) };
    sync::<Detailed>(s.h);
    s.h.await_units(&s.code.ops(s.b)[s.i]);
    0
}

/// A branch or jump that the decoder has found, with its last half at an address, gets an entry of the branch target
/// buffer.
unsafe extern "sysv64" fn insert(hart: *mut Hart, last: u64, target: u64) -> u64 {
    // SAFETY: translated code passes its hart, which nobody else uses while the code runs.
    let h = unsafe { &mut *hart };
    h.enter_found(last, target);
    0
}

/// As [`insert`], for an indirect jump, which the pipeline has found.
unsafe extern "sysv64" fn learn(hart: *mut Hart, last: u64, target: u64) -> u64 {
    // SAFETY: translated code passes its hart, which nobody else uses while the code runs.
    let h = unsafe { &mut *hart };
    h.enter_indirect(last, target);
    0
}

/// Resolves the branch or jump `info`; `arg` is whether it is taken, or its target.
/// The cycles that it costs.
unsafe extern "sysv64" fn branch<W: World>(hart: *mut Hart, info: u64, arg: u64) -> u64 {
    // SAFETY: this is such a call.
    let Site {
        h,
        w,
        code,
        b,
        i,
        pc,
        ..
    } = unsafe { site::<W>(hart, info) };
    let p = &code.ops(b)[i];
    let pc = pc + p.off as u64;
    let before = h.state.cycle;
    match p.op {
        Op::Jal => h.resolve_jump(pc, p),
        Op::Jalr => {
            let (jumps, context) = (h.area().jumps, h.area().context);
            let meets = |to: u64| {
                let slot = jump_slot(to);
                // SAFETY: `enter` put the address of the table there, which has that many entries and does not change
                // while code runs.
                let jump = unsafe {
                    &*std::ptr::with_exposed_provenance::<Jump>(jumps as usize).add(slot)
                };
                (jump.pc == to && jump.context == context).then_some(jump.meets as u8)
            };
            h.resolve_indirect(w, pc, arg, p, meets)
        }
        _ => h.resolve_branch(w, pc, pc.wrapping_add(p.imm as i64 as u64), arg != 0, p),
    }
    h.forget_redirect();
    h.state.cycle - before
}
