//! What translated code calls: single instructions in the interpreter, fetches of lines,
//! results under way, branches that the predictor has wrong.
//!
//! Every function gets the hart's address; world and code cache are where
//! [`Translator::enter`](crate::translator::Translator::enter) put them. The code calls them only
//! while that call is active.

use nagori_hart::engine::Area;
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
    /// For the interpreter to go on with an instruction.
    pub const REST: u64 = 3;
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    pub op: usize,
    pub miss: usize,
    pub line: usize,
    pub pending: usize,
    pub branch: usize,
}

type Call = unsafe extern "sysv64" fn(*mut Hart, u64, u64) -> u64;

impl Calls {
    pub fn of<W: World, const TIMED: bool>() -> Self {
        let address = |f: Call| f as usize;
        Self {
            op: address(op::<W, TIMED>),
            miss: address(miss::<W, TIMED>),
            line: address(line::<W>),
            pending: address(pending::<W>),
            branch: address(branch),
        }
    }
}

/// The code cache that `enter` was given.
///
/// # Safety
/// Only inside a call from translated code.
unsafe fn code<'a>(a: &Area) -> &'a CodeCache {
    // SAFETY: `enter` put the address of its exclusive borrow there, which
    // outlives the call; the code cache is not changed while code runs.
    unsafe { &*(std::ptr::with_exposed_provenance::<CodeCache>(a.code as usize)) }
}

/// The world that `enter` was given.
///
/// # Safety
/// Only inside a call from translated code, with the type of `enter`.
unsafe fn world<'a, W>(a: &Area) -> &'a mut W {
    // SAFETY: as for `code`; nobody else uses the world meanwhile.
    unsafe { &mut *(std::ptr::with_exposed_provenance_mut::<W>(a.world as usize)) }
}

/// Address of a block's first instruction.
fn start(hart: &Hart, b: &Block) -> u64 {
    hart.area().page + b.offset as u64
}

/// Exceptions of the host's unit in the places of fflags.
pub(crate) fn host_flags(mxcsr: u64) -> u8 {
    let bit = |from: u32, to: u32| ((mxcsr >> from & 1) as u8) << to;
    // Invalid, divide by zero, overflow, underflow, inexact.
    bit(0, 4) | bit(2, 3) | bit(3, 2) | bit(4, 1) | bit(5, 0)
}

/// Brings what translated code keeps elsewhere into the hart.
fn sync<const TIMED: bool>(h: &mut Hart) {
    if h.area().fp_live != 0 {
        h.raise_fflags(host_flags(h.area().mxcsr));
        h.area_mut().fp_live = 0;
    }
    if !TIMED {
        sync_instret(h);
    }
}

/// In functional mode instructions retired follow from the cycle.
pub(crate) fn sync_instret(h: &mut Hart) {
    let cpi = h.config().functional_cpi as u64;
    h.instret = h.area().entry_instret + (h.cycle - h.area().entry_cycle) / cpi;
}

/// Looked at before the next block?
fn after(h: &mut Hart) {
    if h.wants_recheck() {
        h.area_mut().stop = 0;
    }
}

fn trap(h: &mut Hart, info: u64, cause: u64, tval: u64) -> u64 {
    let a = h.area_mut();
    (a.exit, a.info, a.cause, a.tval) = (exit::TRAP, info, cause, tval);
    1
}

/// Executes one instruction. Not 0: leave.
unsafe extern "sysv64" fn op<W: World, const TIMED: bool>(
    hart: *mut Hart,
    info: u64,
    _: u64,
) -> u64 {
    // SAFETY: translated code passes the hart that `enter` borrowed and does not touch
    // it until the call returns.
    let h = unsafe { &mut *hart };
    // SAFETY: this is such a call.
    let (w, code) = unsafe { (world::<W>(h.area()), code(h.area())) };
    sync::<TIMED>(h);
    let (id, i) = place(info);
    let b = code.block(id);
    let pc = start(h, b);
    let end = h.exec_op::<W, TIMED>(w, code, b, i, pc);
    finish(h, end, info)
}

/// Executes a load or store that the filter did not let pass. Not 0: leave.
unsafe extern "sysv64" fn miss<W: World, const TIMED: bool>(
    hart: *mut Hart,
    info: u64,
    _: u64,
) -> u64 {
    // SAFETY: as in `op`.
    let h = unsafe { &mut *hart };
    // SAFETY: as in `op`.
    let (w, code) = unsafe { (world::<W>(h.area()), code(h.area())) };
    sync::<TIMED>(h);
    let (id, i) = place(info);
    let b = code.block(id);
    let pc = start(h, b);
    let end = h.exec_miss::<W, TIMED>(w, &code.ops(b)[i], i, pc);
    finish(h, end, info)
}

/// What an instruction's end means for the code that called for it.
#[inline(always)]
fn finish(h: &mut Hart, end: End, info: u64) -> u64 {
    after(h);
    match end {
        End::Done => 0,
        End::Left(_) => {
            let a = h.area_mut();
            (a.exit, a.info) = (exit::LEFT, info);
            1
        }
        End::Trap(_, t) => trap(h, info, t.cause, t.tval),
    }
}

/// Fetches the line of an instruction, or of a block's start. Not 0: leave.
unsafe extern "sysv64" fn line<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: as in `op`.
    let h = unsafe { &mut *hart };
    // SAFETY: as in `op`.
    let (w, code) = unsafe { (world::<W>(h.area()), code(h.area())) };
    sync::<true>(h);
    let (id, i) = place(info);
    let b = code.block(id);
    let pc = start(h, b);
    let (first, i) = (i == START, if i == START { 0 } else { i });
    let fetched = h.fetch_op(w, &code.ops(b)[i], first, pc);
    after(h);
    match fetched {
        Ok(()) => 0,
        Err(t) => trap(h, (id as u64) << 8 | i as u64, t.cause, t.tval),
    }
}

/// Waits for results that the block needs. Not 0: leave.
unsafe extern "sysv64" fn pending<W: World>(hart: *mut Hart, info: u64, _: u64) -> u64 {
    // SAFETY: as in `op`.
    let h = unsafe { &mut *hart };
    // SAFETY: as in `op`.
    let (w, code) = unsafe { (world::<W>(h.area()), code(h.area())) };
    sync::<true>(h);
    let (id, _) = place(info);
    let b = code.block(id);
    if h.await_results(code, b) {
        return 0;
    }
    // Older results outlast the block: the interpreter keeps their books.
    let pc = start(h, b);
    let fetched = h.fetch_op(w, &code.ops(b)[0], true, pc);
    after(h);
    match fetched {
        Ok(()) => {
            let a = h.area_mut();
            (a.exit, a.info) = (exit::REST, (id as u64) << 8);
            1
        }
        Err(t) => trap(h, (id as u64) << 8, t.cause, t.tval),
    }
}

/// Resolves the branch or jump `info`; `arg` is whether it is taken, or its target.
/// The cycles that it costs.
unsafe extern "sysv64" fn branch(hart: *mut Hart, info: u64, arg: u64) -> u64 {
    // SAFETY: as in `op`.
    let h = unsafe { &mut *hart };
    // SAFETY: as in `op`.
    let code = unsafe { code(h.area()) };
    let (id, i) = place(info);
    let b = code.block(id);
    let p = &code.ops(b)[i];
    let pc = start(h, b) + p.off as u64;
    let before = h.cycle;
    match p.op {
        Op::Jal => h.resolve_jump(pc, p),
        Op::Jalr => h.resolve_indirect(pc, arg, p),
        _ => h.resolve_branch(pc, pc.wrapping_add(p.imm as i64 as u64), arg != 0),
    }
    h.cycle - before
}
