//! The interface for engines that run blocks faster than the interpreter.
//!
//! An engine gets a block and may run it and following blocks, as long as the hart's time is below
//! `stop` before each and nothing requires a check (`recheck`). It leaves to the interpreter what
//! it cannot do: a single instruction ([`Hart::exec_op`]), the rest of a block ([`Ran::Rest`]) or
//! all of it ([`Ran::Cold`]). Cycles and counters are the interpreter's in every case.

pub use crate::ahead::{Ahead, Spared};
pub use crate::area::Area;
use crate::block::{Block, CodeCache};
pub use crate::btb::bucket;
pub use crate::exec::ELSEWHERE;
use crate::hart::Hart;
pub use crate::issue::{registers, waits_for_loads};
use crate::mode::Mode;
pub use crate::muldiv::{multiplication_waits, pending_long};
use crate::operands::{is_fp, log_bytes, memory, Memory};
use crate::pending::pending_pairs;
pub use crate::pending::{pending_after, Pending, Unwritten, STORES};
pub use crate::pipeline::Long;
use crate::place::{End, RunPoint};
use crate::predict::Outcome;
pub use crate::predict::{
    is_second_half, jump_to_half, waits_for_half, Hash, BIT, BRANCHED, BUSY, SEEN_SHIFT,
};
pub use crate::preop::ends_block;
use crate::preop::{PreOp, NEW_LINE};
pub use crate::transfer::is_link;
use crate::trap::NotNow;
pub use crate::waits::{half_packet, stall, stores_met, Meeting};
use crate::world::World;
pub use crate::wrong_path::least_waiting;
use nagori_isa::{Op, ALL};

/// What an engine did with a block.
#[derive(Debug)]
pub enum Ran {
    /// Nothing.
    Cold,
    /// This block and maybe others, all to their ends.
    Blocks,
    /// The block at `pc` ended early.
    Ended {
        /// Which block.
        block: u32,
        /// Address of its first instruction.
        pc: u64,
        /// How it ended.
        end: End,
    },
    /// A block was begun; the interpreter goes on.
    Rest(Within),
}

/// Runs blocks of one hart.
pub trait Engine<W: World> {
    /// Continues at `hart.pc` where the engine left by itself, if nothing has changed that affects
    /// the choice of the block; only a shortcut for [`Engine::run`].
    #[inline(always)]
    fn resume<M: Mode>(
        &mut self,
        _hart: &mut Hart,
        _code: &mut CodeCache,
        _w: &mut W,
        _stop: u64,
    ) -> Option<Ran> {
        None
    }

    /// Continues within a block; the hart's cycle and instruction count are those of the block's
    /// start. `None` if the interpreter has to continue instead.
    #[inline(always)]
    fn go_on<M: Mode>(
        &mut self,
        _hart: &mut Hart,
        _code: &mut CodeCache,
        _w: &mut W,
        _at: Within,
        _stop: u64,
    ) -> Option<Ran> {
        None
    }

    /// Runs from the start of a block on, at `hart.pc`.
    fn run<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        block: u32,
        stop: u64,
    ) -> Ran;
}

/// A place in a block.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// The block.
    pub block: u32,
    /// Virtual address of its first instruction.
    pub pc: u64,
    /// Index of the next instruction.
    pub next: usize,
    /// Whether that instruction's line has been fetched.
    pub fetched: bool,
}

/// Leaves everything to the interpreter.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEngine;

impl<W: World> Engine<W> for NoEngine {
    #[inline(always)]
    fn run<M: Mode>(&mut self, _: &mut Hart, _: &mut CodeCache, _: &mut W, _: u32, _: u64) -> Ran {
        Ran::Cold
    }
}

/// An engine that may be missing; the interpreter runs everything then. Machines choose between engines with this
/// type, so that the interpreter is compiled once for both.
impl<W: World, E: Engine<W>> Engine<W> for Option<&mut E> {
    #[inline(always)]
    fn resume<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        stop: u64,
    ) -> Option<Ran> {
        self.as_mut()?.resume::<M>(hart, code, w, stop)
    }

    #[inline(always)]
    fn go_on<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        at: Within,
        stop: u64,
    ) -> Option<Ran> {
        self.as_mut()?.go_on::<M>(hart, code, w, at, stop)
    }

    #[inline(always)]
    fn run<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        block: u32,
        stop: u64,
    ) -> Ran {
        match self {
            Some(e) => e.run::<M>(hart, code, w, block, stop),
            None => Ran::Cold,
        }
    }
}

/// Distances of fields from the start of a [`Hart`], in bytes.
pub mod layout {
    use crate::btb::{Btb, BtbEntry, Bucket};
    use crate::filter::{Filter, FilterEntry};
    use crate::hart::Hart;
    use crate::loads::Loads;
    use crate::predict::{Predictor, Return};
    use crate::stats::HartStats;
    use crate::tlb::Tlb;
    use std::mem::{offset_of, size_of};

    /// Integer registers: 32, then the one that swallows writes to x0.
    pub const X: usize = offset_of!(Hart, state.x);
    /// Floating-point registers.
    pub const F: usize = offset_of!(Hart, state.f);
    /// Program counter.
    pub const PC: usize = offset_of!(Hart, state.pc);
    /// Local time.
    pub const CYCLE: usize = offset_of!(Hart, state.cycle);
    /// Instructions retired.
    pub const INSTRET: usize = offset_of!(Hart, state.instret);
    /// Data filter.
    pub const DATA: usize = offset_of!(Hart, data);
    /// Fetch filter.
    pub const FETCH: usize = offset_of!(Hart, fetch);
    /// Entries of a filter.
    pub const ENTRIES: usize = crate::filter::SLOTS;
    /// In a filter entry: key of loads.
    pub const ENTRY_READ: usize = offset_of!(FilterEntry, read);
    /// In a filter entry: key of stores.
    pub const ENTRY_WRITE: usize = offset_of!(FilterEntry, write);
    /// In a filter entry: distance from virtual address to offset in memory.
    pub const ENTRY_DELTA: usize = offset_of!(FilterEntry, delta);
    /// In a filter entry: entry of the DTLB, a byte.
    pub const ENTRY_WAY: usize = offset_of!(FilterEntry, way);
    /// In a filter entry: cycle of the last access, 32 bits.
    pub const ENTRY_USED: usize = offset_of!(FilterEntry, used);
    /// Bytes of a filter entry.
    pub const ENTRY: usize = size_of::<FilterEntry>();
    /// Tag of the data context.
    pub const DCTX: usize = offset_of!(Hart, dctx);
    /// DTLB entry used last, a byte.
    pub const LAST_WAY: usize = offset_of!(Hart, state.last_way);
    /// Address stored to last.
    pub const LAST_STORE: usize = offset_of!(Hart, state.last_stores);
    /// Address stored to before that.
    pub const OLDER_STORE: usize = LAST_STORE + 8;
    /// Pending result of a multiplication or division, 32 bits.
    pub const LONG: usize = offset_of!(Hart, state.long);
    /// When a multiplication or division is there for the instruction that waits for it, as [`Hart::cycle`] counts
    /// within a block, 64 bits.
    pub const LATE_LONG: usize =
        offset_of!(Hart, state.late) + offset_of!(crate::fpdiv::Late, long);
    /// When a floating-point division or square root is there for the instruction that waits for it, as [`LATE_LONG`]
    /// says it of integers, 64 bits.
    pub const LATE_DIVISION: usize =
        offset_of!(Hart, state.late) + offset_of!(crate::fpdiv::Late, division);
    /// Registers that may wait for lines: a bit each, 64 bits.
    pub const LATE: usize = offset_of!(Hart, loads) + offset_of!(Loads, regs);
    /// Results under way, 32 bits.
    pub const PENDING: usize = offset_of!(Hart, state.pending);
    /// Cycle from which they count.
    pub const PENDING_FROM: usize = offset_of!(Hart, state.pending_from);
    /// Pseudo-LRU of the DTLB's sectors, 64 bits.
    pub const DTLB_PLRU: usize = offset_of!(Hart, state.dtlb) + Tlb::PLRU;
    /// Pseudo-LRU of the DTLB's superpages, 64 bits.
    pub const DTLB_SUPER_PLRU: usize = offset_of!(Hart, state.dtlb) + Tlb::SUPER_PLRU;
    /// Global branch history, 32 bits.
    pub const HISTORY: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, history);
    /// What a packet right behind that of the last branch sees of it, 32 bits.
    pub const NEAR_HISTORY: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, near);
    /// What the packet that a block goes on in was looked up with, and what a branch in it has found, 32 bits.
    pub const PASSED: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, passed);
    /// Cycle at which the next packet is there, 64 bits.
    pub const FRONT: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, front);
    /// Cycle behind the last bubble that was waited for, 64 bits.
    pub const BUBBLE: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, bubble);
    /// The pseudo-LRU bits of the branch target buffer, 64 bits.
    pub const BTB_AGE: usize =
        offset_of!(Hart, state.predictor) + offset_of!(Predictor, btb) + offset_of!(Btb, age);
    /// Mispredictions, 64 bits.
    pub const MISPREDICTS: usize =
        offset_of!(Hart, state.stats) + offset_of!(HartStats, mispredicts);
    /// Whether the front end jumped to the second half of a packet, 32 bits.
    pub const LANDED: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, landed);
    /// End of the return addresses, 32 bits, modulo [`RETURNS`].
    pub const RAS_TOP: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, ras_top);
    /// How many of them count, 32 bits.
    pub const RAS_LEN: usize = offset_of!(Hart, state.predictor) + offset_of!(Predictor, ras_len);
    /// Room of the ring of return addresses.
    pub const RETURNS: usize = crate::predict::RETURNS;
    /// In a return address: the address.
    pub const RETURN_ADDRESS: usize = offset_of!(Return, address);
    /// In a return address: when the packet of its call was there.
    pub const RETURN_FRONT: usize = offset_of!(Return, front);
    /// Bytes of a return address.
    pub const RETURN: usize = size_of::<Return>();
    /// The engine's room.
    pub const AREA: usize = offset_of!(Hart, area);
    /// In an entry of the branch target buffer: the address of the branch's last half.
    pub const BTB_PC: usize = offset_of!(BtbEntry, last);
    /// In an entry of the branch target buffer: where it leads.
    pub const BTB_TARGET: usize = offset_of!(BtbEntry, target);
    /// In an entry of the branch target buffer: which pseudo-LRU bits stay when it is used, 64 bits.
    pub const BTB_KEEP: usize = offset_of!(BtbEntry, keep);
    /// In an entry of the branch target buffer: which of them are set.
    pub const BTB_SET: usize = offset_of!(BtbEntry, set);
    /// Bits of an address within a page of the branch target buffer: an entry whose target moves within one stays
    /// otherwise the same.
    pub const BTB_PAGE_BITS: u32 = crate::btb::PAGE_BITS;
    /// Bytes of an entry of the branch target buffer.
    pub const BTB_ENTRY: usize = size_of::<BtbEntry>();
    /// In a bucket of the branch target buffer: how many entries there are, a byte.
    pub const BUCKET_COUNT: usize = offset_of!(Bucket, count);
    /// In a bucket of the branch target buffer: the entry to look at first, a byte.
    pub const BUCKET_LAST: usize = offset_of!(Bucket, last);
    /// Bytes of a bucket.
    pub const BUCKET: usize = size_of::<Bucket>();
    /// Bytes of a [`Filter`].
    pub const FILTER: usize = size_of::<Filter>();
}

/// What a load or store moves.
#[derive(Clone, Copy)]
struct Moved {
    size: u8,
    store: bool,
    /// A register of floating point.
    float: bool,
    /// Extended by its sign.
    signed: bool,
}

/// [`Moved`] of each operation; of those that are no such access it means nothing.
static MOVED: [Moved; ALL.len()] = {
    let mut all = [Moved::of(Op::Ld); ALL.len()];
    let mut i = 0;
    while i < all.len() {
        let op = ALL[i];
        all[op as usize] = Moved::of(op);
        i += 1;
    }
    all
};

impl Moved {
    const fn of(op: Op) -> Moved {
        Moved {
            size: 1 << log_bytes(op),
            store: matches!(memory(op), Some(Memory::Store)),
            float: is_fp(op),
            signed: matches!(op, Op::Lb | Op::Lh | Op::Lw),
        }
    }

    /// Bits that are set above a number of half the length.
    #[inline(always)]
    fn boxed(self) -> u64 {
        if self.size == 4 {
            u64::MAX << 32
        } else {
            0
        }
    }
}

impl Hart {
    /// The engine's room.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// The engine's room, to write.
    pub fn area_mut(&mut self) -> &mut Area {
        &mut self.area
    }

    /// Sets what translated code needs to know of where the hart stands.
    pub fn prepare_area(&mut self, pc: u64) {
        let (page, tag) = (pc & !0xfff, self.fetch_tag());
        let a = &mut self.area;
        a.page = page;
        a.page_key = page | tag;
        a.fetch_slots = fetch_slots(page);
        a.page_index = self.state.predictor.hash().of_pc(page).into();
    }

    /// Sets what may have moved since code was left.
    #[inline(always)]
    pub fn prepare_tables(&mut self) {
        let a = &mut self.area;
        a.bht = self.state.predictor.bht.as_ptr() as u64;
        a.btb = self.state.predictor.btb.entries.as_ptr() as u64;
        a.buckets = self.state.predictor.btb.buckets.as_ptr() as u64;
        a.ras = self.state.predictor.ras.as_ptr() as u64;
        a.entry_cycle = self.state.cycle;
        a.entry_instret = self.state.instret;
        self.prepare_fp();
    }

    /// See [`Area::fp_ready`].
    pub fn prepare_fp(&mut self) {
        let all = crate::trap::status::FS;
        self.area.fp_ready =
            (self.state.csr.mstatus & all == all && self.state.csr.frm == 0) as u64;
    }

    /// Identity of everything that fetches depend on.
    #[inline(always)]
    pub fn context(&self) -> u64 {
        self.fetch_context().bits()
    }

    /// How often protection of memory or execute triggers were written.
    pub fn pmp_writes(&self) -> u64 {
        self.state.pmp_writes
    }

    /// Whether protection is the same all over the page of a block.
    pub fn pmp_uniform_at(&self, code: &CodeCache, block: u32) -> bool {
        self.state.pmp.uniform(code.block(block).page << 12, 0x1000)
    }

    /// Whether interrupts, notices or time have to be looked at before the next block.
    #[inline(always)]
    pub fn wants_recheck(&self) -> bool {
        self.run.recheck
    }

    /// Sets floating-point flags (the bits of fflags).
    pub fn raise_fflags(&mut self, flags: u8) {
        self.state.csr.fflags |= flags;
    }

    /// Executes instruction `i` of the block at `pc`, but for the fetch of its line.
    #[inline(always)]
    pub fn exec_op<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        code: &CodeCache,
        b: &Block,
        i: usize,
        pc: u64,
    ) -> End {
        let ops = &code.ops(b)[i..=i];
        let end = pc.wrapping_add(b.bytes as u64);
        self.has_fetched(&ops[0], M::LINES);
        self.ops::<W, M>(w, ops, i, pc, end)
    }

    /// Executes a load or store at index `i` of the block at `pc` that the filter did not
    /// let pass, the shortest way. Floating point must be on.
    pub fn exec_miss<W: World, M: Mode>(&mut self, w: &mut W, p: &PreOp, i: usize, pc: u64) -> End {
        let va = self.state.x[(p.rs1 & 31) as usize].wrapping_add(p.imm as i64 as u64);
        let at = RunPoint::of(p, pc);
        let access = MOVED[p.op as usize];
        let size = access.size;
        let done = if access.store {
            M::store_begins(self, va);
            let v = if access.float {
                self.state.f[(p.rs2 & 31) as usize]
            } else {
                self.state.x[(p.rs2 & 31) as usize]
            };
            self.store_slow::<W, M>(w, va, size, v, at)
        } else {
            M::load_missed(self, va, p);
            let read = self.load_slow::<W, M>(w, va, size, at);
            if read.is_ok() {
                M::load_done(self, p);
            }
            read.map(|v| {
                let above = 64 - 8 * u32::from(size);
                let v = if access.signed {
                    ((v << above) as i64 >> above) as u64
                } else {
                    v
                };
                if access.float {
                    self.state.f[(p.rd & 31) as usize] = v | access.boxed();
                } else {
                    self.state.x[(p.rd & 63) as usize] = v;
                }
            })
        };
        match done {
            Ok(()) if self.run.leave => End::Left(i),
            Ok(()) => End::Done,
            Err(u) => End::undone(i, u),
        }
    }

    /// Code that has called [`resolve_branch`](Self::resolve_branch) or its like takes care of what is pending itself.
    #[inline(always)]
    pub fn forget_redirect(&mut self) {
        self.run.redirect = 0;
    }

    /// Brings pending results up to date behind a wrong prediction.
    pub fn age_pending(&mut self) {
        let cycles = std::mem::take(&mut self.area.redirect);
        if cycles != 0 {
            self.state.pending = pending_after(self.state.pending, cycles);
        }
    }

    /// An instruction with [`AWAITS_LONG`](crate::AWAITS_LONG) or [`AWAITS_DIVISION`](crate::AWAITS_DIVISION) waits.
    pub fn await_units(&mut self, p: &PreOp) {
        self.await_late(p);
    }

    /// Waits for results that the block needs. Whether nothing older than the
    /// block's own results can be under way at its end.
    pub fn await_results(&mut self, code: &CodeCache, b: &Block) -> bool {
        self.age_pending();
        let found = code.stall(b, &self.config.timing, self.state.pending);
        self.await_stall(code.ops(b), found);
        self.state.pending >> STORES == 0 && longest(self.state.pending) <= b.cost
    }

    /// The block begins: its first instruction waits for its second packet, if it has one.
    pub fn begin_block(&mut self, b: &Block) {
        if b.splits {
            self.await_packet();
        }
    }

    /// How the branch history table is indexed.
    pub fn history_hash(&self) -> Hash {
        self.state.predictor.hash()
    }

    /// Fetches the line of instruction `i` of the block at `pc`.
    pub fn fetch_op<W: World>(
        &mut self,
        w: &mut W,
        op: &PreOp,
        first: bool,
        pc: u64,
    ) -> Result<(), NotNow> {
        if first {
            let fetched = self.fetch_line(w, pc, pc, RunPoint::begin(pc));
            self.run.start_waits |= fetched.is_err();
            return fetched;
        }
        let at = pc.wrapping_add(op.off as u64);
        debug_assert!(op.flags & NEW_LINE != 0);
        let last = at.wrapping_add(op.len.max(2) as u64 - 1);
        let point = RunPoint::of(op, pc);
        self.fetch_line(w, last, pc, point)
    }

    /// Predicts and resolves a conditional branch.
    #[inline(always)]
    pub fn resolve_branch<W: World>(
        &mut self,
        w: &mut W,
        pc: u64,
        target: u64,
        taken: bool,
        op: &PreOp,
    ) {
        let site = self.site(pc, op);
        let to = if taken { site.behind } else { target };
        let ahead = op.ahead(taken);
        // As the front end has found it: before its entry of the history table is changed.
        let (mut meets, mut wrong) = (false, 0);
        if ahead.needs != 0 {
            wrong = self.state.predictor.history_with(&site);
            meets = self.meets_call(&site, to, ahead, wrong);
        }
        let o = self.state.predictor.branch(&site, target, taken);
        self.predicted(o, &site, taken);
        if let Outcome::Wrong(led) = o {
            self.asks_astray(w, &site, led, if taken { target } else { site.behind });
            if meets {
                self.stray(w, &site, led, wrong);
            }
        }
    }

    /// A direct branch or jump that the decoder has found gets an entry of the branch target buffer, which has none for
    /// it.
    pub fn enter_found(&mut self, last: u64, target: u64) {
        self.state.predictor.enter_found(last, target);
    }

    /// As [`Hart::enter_found`], for an indirect jump, which the pipeline has found.
    pub fn enter_indirect(&mut self, last: u64, target: u64) {
        self.state.predictor.btb.enter(None, last, target);
    }

    /// Predicts and resolves a direct jump.
    #[inline(always)]
    pub fn resolve_jump(&mut self, pc: u64, op: &PreOp) {
        let site = self.site(pc, op);
        let target = pc.wrapping_add(op.imm as i64 as u64);
        let o = self.state.predictor.jump(&site, target, is_link(op.rd));
        self.predicted(o, &site, true);
    }

    /// Predicts and resolves an indirect jump to `target`. `meets` is asked for [`Block::meets`] of a block at an
    /// address.
    #[inline(always)]
    pub fn resolve_indirect<W: World>(
        &mut self,
        w: &mut W,
        pc: u64,
        target: u64,
        op: &PreOp,
        meets: impl FnOnce(u64) -> Option<u8>,
    ) {
        let site = self.site(pc, op);
        let o = if is_link(op.rs1) && !is_link(op.rd) {
            let delay = self.config.timing.return_after_call;
            self.state.predictor.ret(&site, target, delay)
        } else {
            self.state.predictor.indirect(&site, target, is_link(op.rd))
        };
        self.predicted(o, &site, true);
        if let Outcome::Wrong(led) = o {
            self.asks_astray(w, &site, led, target);
            self.stray_from_jump(w, &site, led, meets);
        }
    }
}

/// Cycles until the last of the pending results.
pub fn longest(pending: Pending) -> u32 {
    pending_pairs(pending).map(|p| p.1).max().unwrap_or(0)
}

/// Distance of a page's first entry in the fetch filter.
pub fn fetch_slots(page: u64) -> u64 {
    ((page >> 6) & (crate::filter::SLOTS as u64 - 1)) * layout::ENTRY as u64
}
