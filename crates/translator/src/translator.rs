//! The translator: which blocks have code, how it is entered and left.

use crate::arena::Arena;
use crate::calls::{self, exit, Calls, MAX_BLOCK, SYSTEM};
use crate::emit::{self, Bridge, Host, Setting};
use crate::jumps::{jump_slot, Jump, JUMP_ENTRIES, NO_JUMP};
use crate::stats::{Meter, Reason};
use crate::stubs::{self, Stubs};
use crate::{Error, Options, Piece, Stats};
use nagori_hart::engine::{self, registers, waits_for_loads, Engine, Ran, Within, STORES};
use nagori_hart::mode::{Blocking, Detailed, Functional, Mode};
use nagori_hart::trap::Trap;
use nagori_hart::world::World;
use nagori_hart::{CodeCache, End, Hart, HartConfig, PreOp};
use std::marker::PhantomData;
use std::time::Instant;

/// Entries of a block's code, as offsets in the arena. 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Code {
    /// With all checks.
    full: u32,
    /// No older results are pending.
    fetch: u32,
    /// No older results are pending, and the line is fetched.
    body: u32,
    /// Its entry points before instructions: index of the first, and number.
    entries: (u32, u32),
}

/// A jump from one block to another of its page.
#[derive(Clone, Copy, Debug)]
struct Link {
    block: u32,
    /// The entry of the block that it leads to which makes all checks; 0 while unknown.
    full: u32,
    /// Place of the distance to patch.
    patch: u32,
    target: u16,
    /// Nothing is left to do: it is patched, or cannot be.
    settled: bool,
}

/// How code was left the last time.
#[derive(Clone, Copy, Debug)]
struct Last {
    link: u32,
    pc: u64,
    context: u64,
}

/// The translated code of one hart in one kind of world.
#[derive(Debug)]
pub struct Translator<W> {
    options: Options,
    host: Host,
    arena: Arena,
    stubs: Option<[Stubs; 2]>,
    code: Vec<Code>,
    /// Entry points before instructions, of all blocks.
    entries: Vec<emit::Entry>,
    heat: Vec<u8>,
    links: Vec<Link>,
    jumps: Box<[Jump; JUMP_ENTRIES]>,
    last: Option<Last>,
    clears: u64,
    drops: u64,
    pmp_writes: u64,
    stats: Stats,
    meter: Option<Box<Meter>>,
    /// The list of translated blocks, if requested.
    pieces: Option<Vec<Piece>>,
    world: PhantomData<fn(W)>,
}

impl<W> Translator<W> {
    /// Whether there is a translator for this host.
    pub const SUPPORTED: bool = true;
}

impl<W: World> Translator<W> {
    /// A translator without code.
    pub fn new(options: Options) -> Result<Self, Error> {
        if options.code_bytes < Options::LEAST_BYTES {
            return Err(Error::Full);
        }
        Ok(Self {
            options,
            host: Host::detect(),
            arena: Arena::new(options.code_bytes)?,
            stubs: None,
            code: Vec::new(),
            entries: Vec::new(),
            heat: Vec::new(),
            links: Vec::new(),
            jumps: Box::new([NO_JUMP; JUMP_ENTRIES]),
            last: None,
            clears: 0,
            drops: 0,
            pmp_writes: 0,
            stats: Stats::default(),
            meter: None,
            pieces: None,
            world: PhantomData,
        })
    }

    /// What the translator has done so far.
    pub fn stats(&self) -> Stats {
        let mut all = Stats {
            code_bytes: self.arena.used() as u64,
            code_limit: self.arena.size() as u64,
            ..self.stats
        };
        all.measured = self.meter.as_ref().map(|m| m.read(all.translate_ns));
        all
    }

    /// Measures time and instructions of the tiers from now on, and counts exits by reason.
    pub fn measure(&mut self) {
        let translate_ns = self.stats().translate_ns;
        self.meter = Some(Box::new(Meter::new(translate_ns)));
    }

    /// Keeps a list of all code from now on, for [`Translator::pieces`].
    pub fn keep_pieces(&mut self) {
        self.pieces = Some(Vec::new());
    }

    /// The code of blocks translated since [`Translator::keep_pieces`], but for code that has
    /// been dropped since.
    pub fn pieces(&self) -> Vec<&Piece> {
        self.pieces.iter().flatten().collect()
    }

    /// Brackets a run of the hart: called before it, for [`Translator::measure`].
    #[inline(always)]
    pub fn begin(&mut self, hart: &Hart) {
        if let Some(m) = &mut self.meter {
            m.begin(hart.state.instret);
        }
    }

    /// Called after a run of the hart.
    #[inline(always)]
    pub fn end(&mut self, hart: &Hart) {
        if let Some(m) = &mut self.meter {
            m.end(hart.state.instret);
        }
    }

    /// Writes what all blocks share; the costs of the core are fixed from then on.
    fn prepare(&mut self, config: &HartConfig) -> Option<[Stubs; 2]> {
        if self.stubs.is_none() {
            let functional = stubs::write(&mut self.arena, &Calls::of::<W, Functional>(), config);
            let timed = stubs::write(&mut self.arena, &Self::timed_calls(config), config);
            self.stubs = Some([functional.ok()?, timed.ok()?]);
        }
        self.stubs
    }

    /// What code of the detailed mode calls; no such code is made for harts that run at the same time.
    fn timed_calls(config: &HartConfig) -> Calls {
        if W::PARALLEL {
            return Calls::default();
        }
        let mut calls = Calls::of::<W, Detailed>();
        if config.plain {
            calls.use_misses_of::<W, Blocking>();
        }
        calls
    }

    /// Forgets all code.
    fn empty(&mut self) {
        self.stats.emptied += !self.code.is_empty() as u64;
        self.arena.empty();
        self.code.clear();
        self.entries.clear();
        self.links.clear();
        self.jumps.fill(NO_JUMP);
        self.last = None;
        if let Some(p) = &mut self.pieces {
            p.clear();
        }
    }

    /// Forgets all code, for a new hart and code cache.
    pub fn forget(&mut self) {
        self.empty();
        self.heat.clear();
        (self.clears, self.drops, self.pmp_writes) = (0, 0, 0);
    }

    /// Goes on with another hart whose code cache has the blocks of the one before: addresses have other meanings
    /// there.
    pub fn succeed(&mut self) {
        self.jumps.fill(NO_JUMP);
        self.last = None;
    }

    /// Drops what the hart and its code cache have dropped.
    #[inline(always)]
    fn follow(&mut self, hart: &Hart, code: &CodeCache) {
        if self.is_behind(hart, code) {
            self.follow_slow(hart, code);
        }
    }

    /// Whether something was dropped that code or tables here depend on.
    #[inline(always)]
    fn is_behind(&self, hart: &Hart, code: &CodeCache) -> bool {
        (self.clears, self.drops, self.pmp_writes)
            != (code.clears(), code.drops(), hart.pmp_writes())
    }

    #[cold]
    fn follow_slow(&mut self, hart: &Hart, code: &CodeCache) {
        if self.clears != code.clears() {
            self.heat.clear();
        }
        if self.clears != code.clears() || self.pmp_writes != hart.pmp_writes() {
            self.empty();
        }
        // Links stay within a page, whose blocks go together; jumps do not.
        self.jumps.fill(NO_JUMP);
        self.last = None;
        self.clears = code.clears();
        self.drops = code.drops();
        self.pmp_writes = hart.pmp_writes();
    }

    /// The code of a block; `None` while it is not worth it.
    #[inline(always)]
    fn find(&mut self, hart: &Hart, code: &CodeCache, block: u32) -> Option<Code> {
        match self.code.get(block as usize) {
            Some(c) if c.full != 0 => Some(*c),
            _ => self.warm(hart, code, block),
        }
    }

    #[cold]
    fn warm(&mut self, hart: &Hart, code: &CodeCache, block: u32) -> Option<Code> {
        let i = block as usize;
        if self.heat.len() <= i {
            self.heat.resize(i + 1, 0);
        }
        if self.heat[i] < self.options.threshold {
            self.heat[i] += 1;
            return None;
        }
        if block >= MAX_BLOCK {
            return None;
        }
        let begin = Instant::now();
        let made = self.translate(hart, code, block);
        self.stats.translate_ns += begin.elapsed().as_nanos() as u64;
        made
    }

    fn translate(&mut self, hart: &Hart, code: &CodeCache, block: u32) -> Option<Code> {
        let stubs = self.prepare(hart.config())?;
        let b = *code.block(block);
        let ops = code.ops(&b);
        let timed = hart.timed();
        debug_assert!(!timed || !W::PARALLEL);
        loop {
            let setting = Setting {
                config: hart.config(),
                stubs: &stubs[timed as usize],
                host: self.host,
                parallel: W::PARALLEL,
                arena: self.arena.address(0),
                at: self.arena.next(),
                first_link: self.links.len() as u32,
                marks: false,
            };
            let out = emit::block(&setting, b, block, ops, timed)?;
            let Some(at) = self.arena.add(&out.code) else {
                if self.arena.used() == 0 || self.code.is_empty() {
                    return None;
                }
                self.empty();
                continue;
            };
            for e in &out.exits {
                self.links.push(Link {
                    block,
                    full: 0,
                    patch: (at + e.patch) as u32,
                    target: e.target,
                    settled: false,
                });
            }
            let made = Code {
                full: at as u32,
                fetch: (at + out.fetch) as u32,
                body: (at + out.body) as u32,
                entries: (self.entries.len() as u32, out.entries.len() as u32),
            };
            self.entries.extend_from_slice(&out.entries);
            let i = block as usize;
            if self.code.len() <= i {
                self.code.resize(i + 1, Code::default());
            }
            self.code[i] = made;
            self.stats.blocks += 1;
            self.stats.instructions += ops.len() as u64;
            self.stats.bytes += out.code.len() as u64;
            if let Some(p) = &mut self.pieces {
                p.push(Piece {
                    address: self.arena.address(at) as u64,
                    bytes: out.code.len() as u32,
                    pc: hart.state.pc,
                    timed,
                });
            }
            return Some(made);
        }
    }

    /// Patches the jump by which code was left, if it leads to this block.
    #[inline(always)]
    fn link(&mut self, hart: &Hart, code: &CodeCache, block: u32, to: Code) {
        let Some(last) = self.last.take() else { return };
        let open = |l: &Link| !l.settled;
        if last.pc == hart.state.pc
            && last.context == hart.context()
            && self.links.get(last.link as usize).is_some_and(open)
        {
            self.link_slow(hart, code, last, block, to);
        }
    }

    #[cold]
    fn link_slow(&mut self, hart: &Hart, code: &CodeCache, last: Last, block: u32, to: Code) {
        // Code may be at several virtual addresses, and a trigger at another one of them.
        if hart.has_execute_triggers() {
            return;
        }
        let link = self.links[last.link as usize];
        self.links[last.link as usize].settled = true;
        self.links[last.link as usize].full = to.full;
        let (from, b) = (code.block(link.block), code.block(block));
        debug_assert_eq!(link.target, b.offset);
        // A block that reaches into the next page may be dropped without its neighbours.
        if b.crosses || !hart.pmp_uniform_at(code, block) {
            return;
        }
        let mut target = to.body as usize;
        if hart.timed() {
            let last_line = (from.offset + from.bytes - 1) >> 6;
            // Repeated uses of a line without another use in between: only few policies need to
            // know.
            let repeats = hart.config().l1i.replacement.notes_repeats();
            let entry = if b.offset >> 6 == last_line && !repeats {
                to.body
            } else {
                to.fetch
            };
            target = entry as usize;
            if from.leaves_open() {
                target = to.full as usize;
            } else if from.pending != 0 {
                let timing = &hart.config().timing;
                let ops = code.ops(b);
                let (stall, rest) = engine::stall(ops, timing, from.pending);
                let met = engine::stores_met(ops, rest);
                // Whose addresses the registers have here.
                let met = met.filter(|m| m.iter().all(|m| m.base.is_some()));
                match met.filter(|_| engine::longest(rest) <= b.cost) {
                    None => target = to.full as usize,
                    Some(met) => {
                        let half = b
                            .splits
                            .then(|| engine::half_packet(ops, from.pending, stall));
                        let line =
                            (target == to.fetch as usize).then_some(i32::from(b.offset >> 6));
                        let bridge = Bridge {
                            stall,
                            rest: rest as u32,
                            half,
                            stores: from.pending >> STORES != 0,
                            met,
                            hazard: (!b.splits).then_some((timing.store_load_hazard, line)),
                        };
                        match self.bridge(target, to.full as usize, bridge) {
                            Some(t) => target = t,
                            None => return,
                        }
                    }
                }
            }
        }
        self.arena.patch(link.patch as usize, target);
        self.stats.links += 1;
    }

    /// A piece of code that waits for the results of the block before.
    fn bridge(&mut self, target: usize, full: usize, b: Bridge) -> Option<usize> {
        let places = (self.arena.address(target), self.arena.address(full));
        let code = emit::bridge(self.arena.next(), places, b)?;
        self.arena.add(&code)
    }

    /// Counts why code was left, and what it retired; time is up to date.
    #[cold]
    fn note_exit(&mut self, hart: &Hart) {
        let Some(m) = &mut self.meter else { return };
        let a = hart.area();
        let i = calls::place(a.info).1;
        let (why, more) = match a.exit {
            exit::LEFT => (Reason::Device, i + 1),
            exit::REST | exit::BEGUN => (Reason::Rest, i),
            exit::NOT_NOW => (Reason::Retry, i),
            exit::TRAP => (Reason::Trap, i),
            _ if hart.wants_recheck() => (Reason::Recheck, 0),
            _ if hart.state.cycle >= a.stop => (Reason::Budget, 0),
            _ if a.link < SYSTEM => (Reason::Link, 0),
            _ if a.link == SYSTEM => (Reason::System, 0),
            _ => (Reason::Indirect, 0),
        };
        m.count(why);
        m.retired(hart.state.instret, more);
    }

    /// Runs code from `at` on until it leaves.
    #[inline(always)]
    fn enter(&mut self, hart: &mut Hart, code: &mut CodeCache, w: &mut W, at: u32, stop: u64) {
        w.release();
        hart.prepare_tables();
        let jumps = self.jumps.as_ptr().expose_provenance() as u64;
        let memory = w.ram().host_base();
        let a = hart.area_mut();
        // So far that no run reaches it, and the sum of cycles stays positive.
        a.stop = stop.min(a.entry_cycle + (1 << 40));
        a.jumps = jumps;
        a.world = (w as *mut W).expose_provenance() as u64;
        a.code = (code as *mut CodeCache).expose_provenance() as u64;
        a.exit = exit::DONE;
        a.fp_live = 0;
        let Some(stubs) = &self.stubs else { return };
        let enter = self.arena.address(stubs[hart.timed() as usize].enter);
        let target = self.arena.address(at as usize);
        if let Some(m) = &mut self.meter {
            m.enter(hart.state.instret);
        }
        // SAFETY: `enter` is the address of code with this signature, in the arena
        // that lives as long as `self`; `target` is the entry of a block's code there.
        unsafe {
            let enter: unsafe extern "sysv64" fn(*mut Hart, usize, *mut u8) =
                std::mem::transmute(enter);
            // SAFETY: the code reads and writes the hart, the tables whose addresses are
            // in its area, and guest memory at offsets that the filter has checked;
            // the borrows of this call keep all of them alive and nobody else at them.
            // Its calls use the hart, the world and the code cache by these addresses.
            enter(hart, target, memory);
        }
        hart.age_pending();
        if let Some(m) = &mut self.meter {
            m.leave();
        }
    }
}

impl<W: World> Engine<W> for Translator<W> {
    #[inline(always)]
    fn resume<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        stop: u64,
    ) -> Option<Ran> {
        let last = self.last?;
        let full = self.links.get(last.link as usize)?.full;
        if full == 0
            || last.pc != hart.state.pc
            || last.context != hart.context()
            || self.is_behind(hart, code)
        {
            return None;
        }
        self.enter(hart, code, w, full, stop);
        Some(self.left::<M>(hart, code))
    }

    #[inline]
    fn go_on<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        at: Within,
        stop: u64,
    ) -> Option<Ran> {
        if W::COMMITS || W::STOPS {
            return None;
        }
        self.follow(hart, code);
        let made = *self.code.get(at.block as usize)?;
        let (first, count) = (made.entries.0 as usize, made.entries.1 as usize);
        let entries = self.entries.get(first..first + count)?;
        let entry = entries.iter().find(|e| usize::from(e.op) == at.next)?;
        // Code waits only for the registers that its own block has loaded, and looks at others at its start.
        let late = hart.late_registers();
        if late != 0 {
            let ops = &code.ops(code.block(at.block))[at.next..];
            let needs = |p: &PreOp| waits_for_loads(p) || registers(p) & late != 0;
            if ops.iter().any(needs) {
                return None;
            }
        }
        if entry.fp {
            hart.prepare_fp();
            if hart.area().fp_ready == 0 {
                return None;
            }
        }
        let place = made.full
            + if at.fetched {
                entry.fetched
            } else {
                entry.line
            };
        self.last = None;
        hart.prepare_area(at.pc);
        hart.area_mut().context = hart.context();
        self.enter(hart, code, w, place, stop);
        Some(self.left::<M>(hart, code))
    }

    #[inline]
    fn run<M: Mode>(
        &mut self,
        hart: &mut Hart,
        code: &mut CodeCache,
        w: &mut W,
        block: u32,
        stop: u64,
    ) -> Ran {
        // Observers of instructions use the interpreter.
        if W::COMMITS || W::STOPS {
            return Ran::Cold;
        }
        self.follow(hart, code);
        let Some(to) = self.find(hart, code, block) else {
            self.last = None;
            self.stats.interpreted += 1;
            if let Some(m) = &mut self.meter {
                m.count(Reason::Cold);
            }
            return Ran::Cold;
        };
        self.link(hart, code, block, to);
        let pc = hart.state.pc;
        let slot = jump_slot(pc);
        self.jumps[slot] = Jump {
            pc,
            context: hart.context(),
            code: self.arena.address(to.full as usize) as u64,
            meets: code.block(block).meets.into(),
        };
        hart.prepare_area(pc);
        hart.area_mut().context = hart.context();
        self.enter(hart, code, w, to.full, stop);
        self.left::<M>(hart, code)
    }
}

impl<W: World> Translator<W> {
    /// Takes over what code left in the hart's area.
    #[inline(always)]
    fn left<M: Mode>(&mut self, hart: &mut Hart, code: &CodeCache) -> Ran {
        self.stats.entries += 1;
        let a = hart.area();
        let (why, place) = (a.exit, calls::place(a.info));
        let (link, cause, tval, page) = (a.link, a.cause, a.tval, a.page);
        if a.fp_live != 0 {
            let flags = calls::host_flags(a.mxcsr);
            hart.raise_fflags(flags);
        }
        if !M::LINES {
            calls::sync_instret(hart);
        }
        if self.meter.is_some() {
            self.note_exit(hart);
        }
        if why == exit::DONE {
            if link < SYSTEM {
                self.last = Some(Last {
                    link: link as u32,
                    pc: hart.state.pc,
                    context: hart.context(),
                });
            } else {
                self.last = None;
            }
            return Ran::Blocks;
        }
        self.last = None;
        let (block, i) = place;
        let pc = page + code.block(block).offset as u64;
        match why {
            exit::LEFT => {
                self.stats.devices += 1;
                let end = End::Left(i);
                Ran::Ended { block, pc, end }
            }
            exit::NOT_NOW => {
                let end = End::NotNow(i);
                Ran::Ended { block, pc, end }
            }
            exit::REST | exit::BEGUN => {
                self.stats.rests += 1;
                Ran::Rest(Within {
                    block,
                    pc,
                    next: i,
                    fetched: why == exit::REST,
                })
            }
            _ => {
                self.stats.traps += 1;
                let end = End::Trap(i, Trap { cause, tval });
                Ran::Ended { block, pc, end }
            }
        }
    }
}
