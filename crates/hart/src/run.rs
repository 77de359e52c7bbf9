//! The loop around blocks: limits, interrupts, notices of other harts, fetch timing.

use crate::block::{Block, CodeCache};
use crate::engine::{Engine, NoEngine, Ran, Within};
use crate::filter::{FilterEntry, NEVER, SLOTS};
use crate::hart::{Exit, Hart};
use crate::mode::{Detailed, Functional, Mode};
use crate::place::{End, Resume, RunPoint, Stopped};
use crate::pmp::Access;
use crate::predict::{is_second_half, Astray};
use crate::preop::{packets, PreOp, HAZARD, ILLEGAL_LEN, NEW_LINE};
use crate::trap::{cause, NotNow, Trap, Undone};
use crate::world::World;
use nagori_cache::{Notice, Side};
use nagori_isa::{Format, Op};

impl Hart {
    /// Where the block begins in which the hart stands, or that it begins next.
    pub fn block_pc(&self) -> u64 {
        self.state.halfway.resume.map_or(self.state.pc, |r| r.pc)
    }

    /// Whether an observer has stopped the hart within a block; it has to run again with the same limit.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Cycle and retired instructions where the hart stands, also within a block.
    pub fn stands_at(&self, code: &CodeCache) -> (u64, u64) {
        let Some(s) = &self.stopped else {
            return (self.state.cycle, self.state.instret);
        };
        let p = &code.ops(code.block(s.block))[s.next];
        (
            self.state.cycle + p.cost as u64,
            self.state.instret + s.next as u64,
        )
    }

    /// Gives up the place within a block where an observer has stopped the hart, since its state is
    /// going to be changed from outside. What has been executed stays so; time may differ from now on
    /// from that of a run without the stop.
    pub fn leave_stop(&mut self, code: &CodeCache) {
        self.leave_resume();
        let Some(s) = self.stopped.take() else {
            return;
        };
        let p = &code.ops(code.block(s.block))[s.next];
        self.state.cycle += p.cost as u64;
        self.state.instret += s.next as u64;
        if self.counts_mix() {
            self.count_mix(&code.ops(code.block(s.block))[..s.next], false);
        }
        self.cut(s.pc, self.state.pc);
        self.state.pending = self.still_pending(0);
    }

    /// Runs until the local time reaches `limit` or something else must happen first.
    ///
    /// Time is looked at between blocks only, so the hart may pass the limit by a block.
    pub fn run<W: World>(&mut self, code: &mut CodeCache, w: &mut W, limit: u64) -> Exit {
        self.run_with(code, w, limit, &mut NoEngine)
    }

    /// As [`Hart::run`], with an engine that may run blocks in the interpreter's place.
    pub fn run_with<W: World, E: Engine<W>>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        limit: u64,
        engine: &mut E,
    ) -> Exit {
        self.run_ahead(code, w, limit, limit, engine)
    }

    /// As [`Hart::run_with`], but from `bus_limit` on only as long as nothing is needed that other
    /// harts can see: the memory bus, a contended line, a device ([`Exit::Bus`]).
    pub fn run_ahead<W: World, E: Engine<W>>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        limit: u64,
        bus_limit: u64,
        engine: &mut E,
    ) -> Exit {
        match self.state.timed {
            true => self.run_as::<Detailed, W, E>(code, w, limit, bus_limit, engine),
            false => self.run_as::<Functional, W, E>(code, w, limit, bus_limit, engine),
        }
    }

    /// As [`Hart::run_ahead`], in a mode whose [`Mode::LINES`] equals [`Hart::timed`].
    pub fn run_as<M: Mode, W: World, E: Engine<W>>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        limit: u64,
        bus_limit: u64,
        engine: &mut E,
    ) -> Exit {
        debug_assert_eq!(
            M::LINES,
            self.state.timed,
            "the filter holds blocks of one size"
        );
        self.run.yield_at = bus_limit;
        let stopped = self.stopped.take();
        let limit = stopped.and_then(|s| s.limit).unwrap_or(limit);
        if stopped.is_none() {
            self.resume_reservation(w);
        }
        let exit = self.run_mode::<W, E, M>(code, w, limit, engine, stopped);
        match &mut self.stopped {
            // The run is not over: nothing that others can see has happened to it.
            Some(s) => s.limit = Some(limit),
            None => self.suspend_reservation(w),
        }
        exit
    }

    fn resume_reservation<W: World>(&mut self, w: &mut W) {
        if W::PARALLEL {
            w.coherence().set_running(self.id, true);
        } else if self.state.reservation.is_some() {
            self.state.reservation = w.coherence().reservations[self.id].take();
        }
        self.run.recheck = true;
    }

    /// While another hart runs, its stores to the reserved line have to be seen.
    fn suspend_reservation<W: World>(&mut self, w: &mut W) {
        if W::PARALLEL {
            self.poll_notices(w);
            w.coherence().set_running(self.id, false);
            return;
        }
        let c = w.coherence();
        c.reservations[self.id] = self.state.reservation;
        if let Some(line) = self.state.reservation {
            c.post_others(self.id, Notice::GuardPage(line >> 12));
        }
    }

    fn run_mode<W: World, E: Engine<W>, M: Mode>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        limit: u64,
        engine: &mut E,
        stopped: Option<Stopped>,
    ) -> Exit {
        if let Some(s) = stopped {
            self.state.pc = s.pc;
            let end = self.interpret::<W, M>(code, w, s.block, s.pc, Some(s.next));
            if let Some(exit) = self.end_block::<W, M>(code, w, s.block, s.pc, end) {
                return exit;
            }
        } else if let Some(r) = self.state.halfway.resume {
            self.run.recheck = false;
            self.apply_notices(code, w);
            let stop = match self.run.recheck || self.pending_interrupt().is_some() {
                // After this block something has to be checked first.
                true => 0,
                false => self.next_stop::<W, M>(w, limit),
            };
            if let Some(exit) = self.go_on::<W, E, M>(code, w, engine, r, stop) {
                return exit;
            }
        }
        loop {
            let mut stop = self.next_stop::<W, M>(w, limit);
            self.run.recheck = false;
            self.apply_notices(code, w);
            // A marker, for which the hart stops behind its block as it would have anyhow.
            if std::mem::take(&mut self.run.leave) {
                return Exit::Device;
            }
            if self.state.waiting {
                if !self.wakes() {
                    return Exit::Wfi;
                }
                self.state.waiting = false;
            }
            if self.state.halfway.arrived.is_some() {
                // An instruction has waited for its line, and uses it before anything else happens.
                stop = stop.min(self.state.cycle + 1);
            } else if let Some(i) = self.pending_interrupt() {
                self.take_trap(w, cause::INTERRUPT | i, 0);
                self.run.recheck = false;
            }
            if self.state.cycle >= limit {
                return Exit::Limit;
            }
            while self.state.cycle < stop && !self.run.recheck {
                w.release();
                let pc = self.state.pc;
                let counts = self.counts_mix();
                let resumed = if counts {
                    None
                } else {
                    engine.resume::<M>(self, code, w, stop)
                };
                let (id, ran) = match resumed {
                    Some(ran) => (0, ran),
                    None => {
                        let id = match self.find_block(code, w, pc) {
                            Ok(id) => id,
                            Err(t) => {
                                let t = self.breakpoint_before(t);
                                self.take_trap(w, t.cause, t.tval);
                                break;
                            }
                        };
                        let watched = self.state.triggers.executes()
                            && self.holds_trigger(code.ops(code.block(id)), pc);
                        let ran = if watched || counts {
                            Ran::Cold
                        } else {
                            engine.run::<M>(self, code, w, id, stop)
                        };
                        (id, ran)
                    }
                };
                let (id, pc, end) = match ran {
                    Ran::Blocks => continue,
                    Ran::Cold => {
                        self.poll_notices(w);
                        let end = self.interpret::<W, M>(code, w, id, pc, None);
                        (id, pc, end)
                    }
                    Ran::Rest(at) => {
                        let end = self.interpret_rest::<W, M>(code, w, at);
                        (at.block, at.pc, end)
                    }
                    Ran::Ended { block, pc, end } => (block, pc, end),
                };
                if let Some(exit) = self.end_block::<W, M>(code, w, id, pc, end) {
                    return exit;
                }
                if self.state.waiting {
                    break;
                }
            }
        }
    }

    /// The cycle up to which blocks run one after the other.
    #[inline(always)]
    fn next_stop<W: World, M: Mode>(&mut self, w: &mut W, limit: u64) -> u64 {
        let stop = M::stop(self, w, limit).min(self.next_overflow(w));
        if self.state.timer_cycle > self.state.cycle {
            stop.min(self.state.timer_cycle)
        } else {
            stop
        }
    }

    /// The first-level caches learn of all hits that have passed the filters.
    #[cold]
    pub(crate) fn settle_uses<W: World>(&mut self, w: &mut W) {
        let (id, c) = (self.id, w.coherence());
        self.data.settle_all(&mut c.l1d[id], self.state.cycle);
        self.fetch.settle_all(&mut c.l1i[id], self.state.cycle);
        self.settle_at = self.next_settling();
    }

    /// Runs a block from its start, or from an instruction on, to its end or to an instruction for
    /// which a trigger fires.
    #[inline(always)]
    fn interpret<W: World, M: Mode>(
        &mut self,
        code: &CodeCache,
        w: &mut W,
        id: u32,
        pc: u64,
        first: Option<usize>,
    ) -> End {
        let b = code.block(id);
        let ops = code.ops(b);
        if self.counts_mix() {
            self.mix_begins(ops);
        }
        let behind = pc.wrapping_add(b.bytes as u64);
        let from = first.unwrap_or(0);
        let mut until = ops.len();
        if self.state.triggers.executes() {
            until = self.fetch_trigger(ops, from, pc).unwrap_or(until);
        }
        let end = match first {
            _ if from == until => End::Done,
            None => self.block::<W, M>(w, &ops[..until], pc, behind),
            Some(n) => self.ops::<W, M>(w, &ops[n..until], n, pc, behind),
        };
        match (end, ops.get(until)) {
            (End::Done, Some(p)) => match self.fetch_breakpoint(p, pc) {
                Some(t) => End::Trap(until, t),
                None => End::Done,
            },
            (end, _) => end,
        }
    }

    /// Runs the rest of a block that an engine has begun.
    #[inline(always)]
    fn interpret_rest<W: World, M: Mode>(
        &mut self,
        code: &CodeCache,
        w: &mut W,
        at: Within,
    ) -> End {
        self.poll_notices(w);
        let op = &code.ops(code.block(at.block))[at.next];
        self.has_fetched(op, M::LINES && at.fetched);
        self.interpret::<W, M>(code, w, at.block, at.pc, Some(at.next))
    }

    /// Whether the line in which the next instruction ends has been fetched for it. Then it is not looked up again: it
    /// may have been evicted since, and the instruction has it.
    #[inline(always)]
    pub(crate) fn has_fetched(&mut self, op: &PreOp, fetched: bool) {
        self.run.line_fetched = fetched && op.flags & NEW_LINE != 0;
    }

    /// Brings time, counters and program counter up to the end of a block.
    #[inline(always)]
    fn end_block<W: World, M: Mode>(
        &mut self,
        code: &CodeCache,
        w: &mut W,
        id: u32,
        pc: u64,
        end: End,
    ) -> Option<Exit> {
        let b = code.block(id);
        if self.run.mix_on {
            self.mix_ends(code.ops(b), &end);
        }
        match end {
            End::Done => {
                self.state.cycle += b.cost as u64;
                self.state.instret += b.count as u64;
                M::block_ends(self, b);
                None
            }
            End::Stopped(next) => {
                self.stopped = Some(Stopped {
                    block: id,
                    pc,
                    next,
                    limit: None,
                });
                self.state.pc = pc.wrapping_add(code.ops(b)[next].off as u64);
                Some(Exit::Stopped)
            }
            End::Left(i) => {
                let next = i + 1;
                let rest = code.ops(b).get(next);
                self.state.cycle += rest.map_or(b.cost as u64, |p| p.cost as u64);
                self.state.instret += next as u64;
                let behind = rest.map_or(b.bytes, |p| p.off);
                self.state.pc = pc.wrapping_add(behind as u64);
                self.state.pending = self.left_open(b, code.ops(b), next);
                self.cut(pc, self.state.pc);
                self.run.leave = false;
                Some(Exit::Device)
            }
            End::NotNow(i) => {
                self.stand_at(code, b, i, pc);
                if W::STOPS {
                    w.tried_again(self.id, self.state.pc);
                }
                let fetched = !std::mem::take(&mut self.run.fetch_waits);
                if std::mem::take(&mut self.run.start_waits) {
                    // The block has not begun.
                    self.state.pending = self.still_pending(0);
                } else {
                    let ops = &code.ops(b)[..=i];
                    let mut last = self.state.last_stores;
                    if fetched && is_store(ops[i].op) {
                        // It is there already, and will be noted again.
                        last = [last[1], 0];
                    }
                    // Stores of other blocks mean nothing here.
                    let stores = ops[..i].iter().filter(|p| is_store(p.op)).count();
                    self.state.halfway.resume = Some(Resume {
                        pc,
                        next: i as u32,
                        fetched,
                        cost: ops[i].cost.into(),
                        last_stores: match stores {
                            0 => [0; 2],
                            1 => [last[0], 0],
                            _ => last,
                        },
                    })
                }
                Some(Exit::Bus)
            }
            End::Trap(i, t) => {
                self.stand_at(code, b, i, pc);
                if calls_environment(&code.ops(b)[i], &t) {
                    self.state.instret += u64::from(self.config.timing.trap_retires);
                }
                let device = std::mem::take(&mut self.run.leave);
                self.take_trap(w, t.cause, t.tval);
                self.state.pending = self.left_open(b, code.ops(b), i);
                device.then_some(Exit::Device)
            }
        }
    }

    /// Goes on within a block at an instruction that had to wait.
    fn go_on<W: World, E: Engine<W>, M: Mode>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        engine: &mut E,
        r: Resume,
        stop: u64,
    ) -> Option<Exit> {
        w.release();
        let found = self.find_block(code, w, r.pc).ok().filter(|id| {
            let op = code.ops(code.block(*id)).get(r.next as usize);
            let same = |p: &PreOp| {
                u32::from(p.cost) == r.cost && r.pc.wrapping_add(p.off as u64) == self.state.pc
            };
            op.is_some_and(same)
        });
        // Its code may have been changed meanwhile.
        let Some(id) = found else {
            self.leave_resume();
            return None;
        };
        self.state.halfway.resume = None;
        self.poll_notices(w);
        self.state.cycle -= r.cost as u64;
        self.state.instret -= r.next as u64;
        if self.counts_mix() {
            let ops = code.ops(code.block(id));
            self.count_mix(&ops[..r.next as usize], true);
            self.mix_begins(ops);
        }
        self.state.last_stores = r.last_stores;
        let n = r.next as usize;
        let b = code.block(id);
        let op = &code.ops(b)[n];
        // One whose line had to wait has not met the stores yet.
        let simple = op.flags & HAZARD == 0 || !r.fetched;
        let quick = self.state.pending == 0 && !self.state.triggers.executes() && !self.run.mix_on;
        if op.flags & HAZARD == 0 && quick {
            let at = Within {
                block: id,
                pc: r.pc,
                next: n,
                fetched: r.fetched,
            };
            // Blocks of one line follow one another without a look at it: it may have been evicted.
            let last = self.state.pc.wrapping_add(op.len.max(2) as u64 - 1);
            let key = last & !63 | self.fetch_tag();
            let there = self.fetch.at_mut((last >> 6) as usize).read == key;
            let stop = if there { stop } else { 0 };
            match engine.go_on::<M>(self, code, w, at, stop) {
                None => {}
                Some(Ran::Ended { block, pc, end }) => {
                    return self.end_block::<W, M>(code, w, block, pc, end);
                }
                Some(Ran::Rest(at)) => {
                    let end = self.interpret_rest::<W, M>(code, w, at);
                    return self.end_block::<W, M>(code, w, at.block, at.pc, end);
                }
                Some(Ran::Blocks | Ran::Cold) => return None,
            }
        }
        let b = code.block(id);
        let op = &code.ops(b)[n];
        self.has_fetched(op, r.fetched);
        let end = if simple {
            self.interpret::<W, M>(code, w, id, r.pc, Some(n))
        } else {
            // A load that has waited for the store before it does not do so again.
            let va = self.state.x[(op.rs1 & 31) as usize].wrapping_add(op.imm as i64 as u64);
            self.state.last_stores = [!va; 2];
            let behind = r.pc.wrapping_add(b.bytes as u64);
            let one = &code.ops(b)[n..=n];
            let end = self.ops::<W, M>(w, one, n, r.pc, behind);
            self.state.last_stores = if is_store(op.op) {
                [self.state.last_stores[0], r.last_stores[0]]
            } else {
                r.last_stores
            };
            match end {
                End::Done if n + 1 < code.ops(b).len() => {
                    self.interpret::<W, M>(code, w, id, r.pc, Some(n + 1))
                }
                other => other,
            }
        };
        self.end_block::<W, M>(code, w, id, r.pc, end)
    }

    /// Gives up the place in a block where an instruction is to be executed again: the instruction
    /// begins a block of its own.
    fn leave_resume(&mut self) {
        if let Some(r) = self.state.halfway.resume.take() {
            self.cut(r.pc, self.state.pc);
            self.state.pending = self.still_pending(0);
        }
    }

    /// Brings time, counters and program counter up to an instruction of the block at `pc`.
    #[inline(always)]
    fn stand_at(&mut self, code: &CodeCache, b: &Block, i: usize, pc: u64) {
        let p = &code.ops(b)[i];
        self.state.cycle += p.cost as u64;
        self.state.instret += i as u64;
        self.state.pc = pc.wrapping_add(p.off as u64);
    }

    /// Makes sure that the line of an instruction is in L1I, at the cost it has. `begin` is the address
    /// of its block.
    #[inline(always)]
    pub(crate) fn fetch_line<W: World>(
        &mut self,
        w: &mut W,
        va: u64,
        begin: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let key = va & !63 | self.fetch_tag();
        let now = self.state.cycle + at.offset();
        let e = self.fetch.at_mut((va >> 6) as usize);
        if e.read == key {
            e.used = now as u32;
            return Ok(());
        }
        self.fetch_line_slow(w, (va, key), begin, at)
    }

    #[cold]
    #[inline(never)]
    fn fetch_line_slow<W: World>(
        &mut self,
        w: &mut W,
        (va, key): (u64, u64),
        begin: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let p = self.state.privilege;
        // The block was decoded, so the address was legal then; a fault now can only
        // come from a table that changed without sfence, and costs no more than a walk.
        let (pa, way) = match self.translate_timed(w, va, Access::Fetch, p, at) {
            Ok(found) => found,
            Err(Undone::NotNow) => {
                self.run.fetch_waits = true;
                return Err(NotNow);
            }
            Err(Undone::Trap(_)) => return Ok(()),
        };
        let now = self.state.cycle + at.offset();
        // One less where the second half of a packet was jumped to: that has been counted.
        let before = if va >> 2 == begin >> 2 {
            -i64::from(is_second_half(begin))
        } else {
            i64::from(packets(begin, (va & !3).wrapping_sub(begin)))
        };
        let missing = w.coherence().l1i[self.id].find(pa & !63).is_none();
        if missing {
            self.state
                .predictor
                .misses(now, before, &self.config.timing);
        }
        // It may be the line that is needed, which is there then, though L1I does not take it.
        let astray = self.state.predictor.astray;
        if let Some(Astray { line, void }) = astray.filter(|a| missing || a.line == pa & !63) {
            let index = self.l1i_touch(w, line, at).inspect_err(|NotNow| {
                self.run.fetch_waits = true;
            })?;
            self.state.predictor.astray = None;
            if void {
                self.leave_l1i(w, index);
            }
        }
        let index = self.l1i_touch(w, pa, at).inspect_err(|NotNow| {
            self.run.fetch_waits = true;
        })?;
        if self.state.predictor.has_missed() {
            if at.pc == begin {
                self.state.predictor.nothing_at(begin);
            } else {
                self.state.predictor.nothing_behind(at.pc.wrapping_sub(2));
            }
        }
        self.state
            .predictor
            .arrives(self.state.cycle + at.offset(), before);
        if w.coherence().is_guarded(Side::Inst, self.id, pa & !63) {
            // The line may be replaced at any time, and has to be looked up by the next block.
            self.run.recheck = true;
            return Ok(());
        }
        let slot = (va >> 6) as usize & (SLOTS - 1);
        let cache = &mut w.coherence().l1i[self.id];
        let now = self.state.cycle + at.offset();
        self.fetch.claim(slot, cache, index, now);
        let e = self.fetch.at_mut(slot);
        *e = FilterEntry {
            read: key,
            write: NEVER,
            delta: pa.wrapping_sub(w.ram_base()).wrapping_sub(va),
            l1: index as u16,
            way,
            used: e.used,
        };
        Ok(())
    }
}

/// Whether an operation stores, so that loads close behind it may have to wait for it.
fn is_store(op: Op) -> bool {
    use Format::{Amo, Cas, CasPair, FpStore, Store};
    matches!(op.info().format, Store | FpStore | Amo | Cas | CasPair)
}

/// Whether a trap is what an `ecall` or `ebreak` is there for.
fn calls_environment(p: &PreOp, t: &Trap) -> bool {
    match p.op {
        Op::Ecall => (cause::ECALL_U..=cause::ECALL_U + 3).contains(&t.cause),
        Op::Ebreak => p.len != ILLEGAL_LEN && t.cause == cause::BREAKPOINT,
        _ => false,
    }
}
