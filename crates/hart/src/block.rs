//! Predecoded blocks: straight runs of instructions with their static costs,
//! keyed by physical address and mode (timed or not), found by virtual address.
//!
//! The contents of a block follow from its first pc and memory alone, so every engine that uses
//! blocks charges the same cycles.

use crate::again::note_quiet;
use crate::config::CoreTiming;
use crate::context::FetchContext;
use crate::hart::Hart;
use crate::issue::front_packets;
use crate::mmu::Fault;
use crate::operands::{is_long, reads_memory, Near, RELEASE};
use crate::pending::{merge_pending, Pending, STORES};
use crate::pipeline::Schedule;
use crate::pmp::Access;
use crate::predict::is_second_half;
use crate::preop::{
    ends_block, illegal, is_branch, is_hint, jumps, may_miss, note_acts, packets, pre, pre_load,
    refetches, target_in_page, PreOp, AWAITS_DIVISION, AWAITS_LONG, COMES_LATE, ILLEGAL_LEN,
    NEW_LINE, SPLIT, TARGET,
};
use crate::trap::{cause, Trap};
use crate::waits::{half_releases, stall};
use crate::world::{AccessKind, World};
use crate::wrong_path::{self, strays};
use nagori_cache::Notice;
use nagori_isa::{decode_with, inst_len};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::HashMap;

/// Longest block, in instructions.
const MAX_OPS: usize = 64;
/// Decoded instructions kept before the cache starts afresh.
const ARENA_LIMIT: usize = 2 << 20;
/// Entries of the table from virtual address to block.
const JUMPS: usize = 4096;

/// A straight run of instructions.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub(crate) start: u32,
    /// Instructions.
    pub count: u16,
    /// Length in bytes.
    pub bytes: u16,
    /// Physical page of the first instruction, by number.
    pub page: u64,
    /// Offset of the first instruction in its page.
    pub offset: u16,
    /// Whether the block is one instruction that reaches into the next page.
    pub crosses: bool,
    live: bool,
    /// Lines of its page that it depends on, a bit each.
    lines: u64,
    /// Cycles that it takes by itself.
    pub cost: u32,
    /// Results that are pending at its end.
    pub pending: Pending,
    /// Which halves of `Hart::long` are pending, too: the last multiplication or division of integers
    /// (the lower half) or division of floating-point numbers has nothing in the block that waits for it.
    pub open: u32,
    /// The code of a pending one in [`Pending`] of which only the block's end knows when it is there, or 0: in place of
    /// the lower half, and of the upper one.
    pub late: [u8; 2],
    /// The instructions behind its last one are fetched anew.
    pub flushes: bool,
    /// Packets that the front end delivers for it.
    pub packets: u16,
    /// Its first instruction is in two packets: whoever jumps there waits for the second.
    pub splits: bool,
    /// The program goes on behind it, and neither a jump nor a branch decides that.
    pub passes: bool,
    /// Packets that have to come from its beginning on until the front end meets a call or return, if it is led there
    /// by a wrong prediction; 0 if it meets none.
    pub meets: u8,
}

#[derive(Clone, Copy)]
struct Jump {
    pc: u64,
    context: FetchContext,
    block: u32,
}

const NO_JUMP: Jump = Jump {
    pc: 1,
    context: FetchContext::NONE,
    block: 0,
};

/// A page that may be fetched from, with uniform protection.
#[derive(Clone, Copy)]
struct FetchPage {
    page: u64,
    context: FetchContext,
    physical: u64,
}

const NO_PAGE: FetchPage = FetchPage {
    page: 1,
    context: FetchContext::NONE,
    physical: 0,
};

/// Entries of the table of pages.
const FETCH_PAGES: usize = 256;

/// Physical address of a block, of the second page if its instruction crosses, and mode.
type Key = (u64, u64, bool);

/// Hash of addresses: guests that collide on purpose only slow themselves down.
#[derive(Clone, Copy, Default)]
struct Spread(u64);

impl std::hash::BuildHasher for Spread {
    type Hasher = Spread;
    fn build_hasher(&self) -> Spread {
        Spread(0)
    }
}

impl std::hash::Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(*b as u64);
        }
    }
    fn write_u64(&mut self, v: u64) {
        // The golden ratio's bits: odd, and spread over the word.
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(v as u64);
    }
}

/// For how long blocks wait at their beginning, and what is pending then: by the block's first instruction and by what
/// was pending, which with one core's timing decide it.
type Found = (u32, Pending, (u32, Pending));

struct Stalls(Box<[Cell<Found>; STALLS]>);

/// How many are kept.
const STALLS: usize = 256;

impl Default for Stalls {
    fn default() -> Self {
        // No block begins there.
        let nothing = (u32::MAX, 0, (0, 0));
        Stalls(Box::new(std::array::from_fn(|_| Cell::new(nothing))))
    }
}

impl Stalls {
    #[inline(always)]
    fn place(&self, start: u32, pending: Pending) -> &Cell<Found> {
        let pending = pending as u32 ^ (pending >> STORES) as u32;
        let mix = (start ^ pending.rotate_left(16)).wrapping_mul(0x9e37_79b9);
        &self.0[(mix >> 24) as usize % STALLS]
    }
}

/// Block cache of one hart.
pub struct CodeCache {
    pub(crate) ops: Vec<PreOp>,
    pub(crate) blocks: Vec<Block>,
    jumps: Box<[Jump; JUMPS]>,
    pages: Box<[FetchPage; FETCH_PAGES]>,
    by_address: HashMap<Key, u32, Spread>,
    by_page: HashMap<u64, Vec<(Key, u32)>, Spread>,
    /// Which blocks `jumps` knew when the state was saved: such a block is decoded when it is
    /// looked up, with the translation that was in use then.
    known: HashMap<usize, Known, Spread>,
    decoded: u64,
    /// How often all blocks, and how often blocks of a page were dropped.
    clears: u64,
    drops: u64,
    /// Longest block, in instructions.
    longest: usize,
    stalls: Stalls,
}

impl Default for CodeCache {
    fn default() -> Self {
        Self {
            ops: Vec::new(),
            blocks: Vec::new(),
            jumps: Box::new([NO_JUMP; JUMPS]),
            pages: Box::new([NO_PAGE; FETCH_PAGES]),
            by_address: HashMap::default(),
            by_page: HashMap::default(),
            known: HashMap::default(),
            decoded: 0,
            clears: 0,
            drops: 0,
            longest: MAX_OPS,
            stalls: Stalls::default(),
        }
    }
}

impl Block {
    /// Whether results may be pending at its end of which it is not known before when they are there.
    pub fn leaves_open(&self) -> bool {
        self.open != 0 || self.late != [0; 2]
    }
}

impl CodeCache {
    /// A cache whose blocks have so many instructions at most, 1 to 64 (other numbers count as the nearest of these),
    /// for tests that what the front end does follows from the instructions alone.
    pub fn with_longest(ops: usize) -> Self {
        Self {
            longest: ops.clamp(1, MAX_OPS),
            ..Self::default()
        }
    }

    /// Block of a number that [`Hart::run_with`](crate::Hart::run_with) names.
    #[inline(always)]
    pub fn block(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }

    /// The instructions of a block.
    #[inline(always)]
    pub fn ops(&self, b: &Block) -> &[PreOp] {
        &self.ops[b.start as usize..b.start as usize + b.count as usize]
    }

    /// What [`stall`] says of a block, which is kept.
    #[inline(always)]
    pub(crate) fn stall(&self, b: &Block, timing: &CoreTiming, pending: Pending) -> (u32, Pending) {
        let place = self.stalls.place(b.start, pending);
        let (start, of, found) = place.get();
        if (start, of) == (b.start, pending) {
            return found;
        }
        let found = stall(self.ops(b), timing, pending);
        place.set((b.start, pending, found));
        found
    }

    /// How often all blocks were dropped: numbers of blocks before have no meaning.
    #[inline(always)]
    pub fn clears(&self) -> u64 {
        self.clears
    }

    /// How often a page's blocks were dropped: their numbers are never used again.
    #[inline(always)]
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Instructions decoded since creation.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    fn clear(&mut self) {
        self.clears += 1;
        self.ops.clear();
        self.blocks.clear();
        self.jumps.fill(NO_JUMP);
        self.by_address.clear();
        self.by_page.clear();
        self.known.clear();
        self.stalls = Stalls::default();
    }

    /// Longest block, in instructions.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether there are no blocks.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Physical pages, by number, that blocks depend on.
    pub(crate) fn pages_of_blocks(&self) -> Vec<u64> {
        self.by_page.keys().copied().collect()
    }

    /// The lines of these pages that blocks depend on, a bit each.
    pub(crate) fn lines_of_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_page.iter().map(|(page, ids)| {
            let lines = |id: u32| {
                let b = &self.blocks[id as usize];
                if b.page == *page {
                    b.lines
                } else {
                    1
                }
            };
            (*page, ids.iter().fold(0, |all, (_, id)| all | lines(*id)))
        })
    }

    /// The blocks of another cache; this one has none.
    pub(crate) fn take_blocks(&mut self, mut other: CodeCache) {
        std::mem::swap(&mut self.jumps, &mut other.jumps);
        std::mem::swap(&mut self.pages, &mut other.pages);
        std::mem::swap(&mut self.known, &mut other.known);
        other.decoded = self.decoded;
        *self = other;
    }

    /// Forgets the blocks of a physical page.
    pub(crate) fn drop_page(&mut self, page: u64) {
        if !self.known.is_empty() {
            let in_page = |k: &Key| k.0 >> 12 == page || (k.1 != 0 && k.1 >> 12 == page);
            self.known.retain(|_, k| !in_page(&k.key));
        }
        let Some(ids) = self.by_page.remove(&page) else {
            return;
        };
        self.drops += 1;
        for (key, id) in ids {
            self.blocks[id as usize].live = false;
            self.by_address.remove(&key);
        }
        let blocks = &self.blocks;
        for j in self.jumps.iter_mut() {
            if j.pc & 1 == 0 && !blocks[j.block as usize].live {
                *j = NO_JUMP;
            }
        }
    }
}

/// A block that was known by its virtual address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Known {
    pc: u64,
    context: FetchContext,
    key: Key,
}

/// The addresses that a block cache knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedCode {
    /// Page, context, physical address.
    pages: Vec<(u64, FetchContext, u64)>,
    blocks: Vec<Known>,
}

impl CodeCache {
    /// The known addresses as data, for contexts of a generation.
    pub(crate) fn save(&self, generation: u32) -> SavedCode {
        let current = |context: FetchContext| context.generation() == generation;
        let pages = self
            .pages
            .iter()
            .filter(|p| p.page & 1 == 0 && current(p.context));
        let known = self.known.values().filter(|k| current(k.context));
        let mut blocks: Vec<Known> = known.copied().collect();
        for j in self
            .jumps
            .iter()
            .filter(|j| j.pc & 1 == 0 && current(j.context))
        {
            let b = self.block(j.block);
            let of_page = self.by_page.get(&b.page).into_iter().flatten();
            if let Some((key, _)) = of_page.into_iter().find(|(_, id)| *id == j.block) {
                blocks.push(Known {
                    pc: j.pc,
                    context: j.context,
                    key: *key,
                });
            }
        }
        blocks.sort_by_key(|k| k.pc >> 1 & (JUMPS as u64 - 1));
        SavedCode {
            pages: pages.map(|p| (p.page, p.context, p.physical)).collect(),
            blocks,
        }
    }

    /// Loads saved addresses, without blocks; false if they are invalid.
    pub(crate) fn load(&mut self, s: &SavedCode) -> bool {
        for &(page, context, physical) in &s.pages {
            if (page | physical) & 0xfff != 0 {
                return false;
            }
            self.pages[(page >> 12) as usize & (FETCH_PAGES - 1)] = FetchPage {
                page,
                context,
                physical,
            };
        }
        for k in &s.blocks {
            let (pa, pa2, timed) = k.key;
            let offset = |a: u64| a & 0xfff;
            let crosses = pa2 == 0 || offset(pa2) == 0 && offset(pa) == 0xffe;
            let mode = timed == k.context.lines();
            if k.pc & 1 != 0 || offset(k.pc) != offset(pa) || !crosses || !mode {
                return false;
            }
            self.known.insert((k.pc >> 1) as usize & (JUMPS - 1), *k);
        }
        true
    }
}

impl Hart {
    /// The block that starts at `pc`.
    #[inline(always)]
    pub fn find_block<W: World>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        pc: u64,
    ) -> Result<u32, Trap> {
        let j = &code.jumps[(pc >> 1) as usize & (JUMPS - 1)];
        if j.pc == pc && j.context == self.fetch_context() {
            return Ok(j.block);
        }
        self.find_block_slow(code, w, pc)
    }

    #[cold]
    #[inline(never)]
    fn find_block_slow<W: World>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        pc: u64,
    ) -> Result<u32, Trap> {
        if pc & self.config.isa.pc_low() != 0 {
            return Err(Trap::new(cause::FETCH_MISALIGNED, pc));
        }
        // What is decoded is marked before others may store to it.
        w.acquire();
        let slot = (pc >> 1) as usize & (JUMPS - 1);
        let context = self.fetch_context();
        let known = code.known.get(&slot);
        let known = known.filter(|k| (k.pc, k.context) == (pc, context));
        let key = match known {
            Some(k) => k.key,
            None => {
                let pa = self.fetch_address(code, w, pc, 2, pc)?;
                let first = self.fetch_half(w, pa, pc)?;
                // An instruction that crosses into the next page depends on that page, too.
                let pa2 = if pc & 0xfff == 0xffe && inst_len(first) == 4 {
                    let next = pc.wrapping_add(2);
                    self.fetch_address(code, w, next, 2, next)?
                } else {
                    0
                };
                (pa, pa2, self.state.timed)
            }
        };
        let pa2 = (key.1 != 0).then_some(key.1);
        let id = match code.by_address.get(&key) {
            Some(&id) if self.may_run(&code.blocks[id as usize], key) => id,
            _ => {
                if code.ops.len() > ARENA_LIMIT {
                    code.clear();
                }
                let id = self.decode_block(code, w, pc, key, pa2)?;
                code.by_address.insert(key, id);
                id
            }
        };
        code.known.remove(&slot);
        code.jumps[slot] = Jump {
            pc,
            context,
            block: id,
        };
        Ok(id)
    }

    /// Whether protection lets the current mode fetch all of a block that may have been
    /// decoded for another mode or under other entries.
    fn may_run(&mut self, b: &Block, key: Key) -> bool {
        let p = self.state.privilege as u8;
        let bytes = (b.bytes as u64).min(0x1000 - (key.0 & 0xfff));
        self.state.pmp.permits(key.0, bytes, Access::Fetch, p)
            && (bytes == b.bytes as u64 || self.state.pmp.permits(key.1, 2, Access::Fetch, p))
    }

    fn fetch_address<W: World>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        va: u64,
        len: u64,
        tval: u64,
    ) -> Result<u64, Trap> {
        let p = self.state.privilege;
        let (page, context) = (va & !0xfff, self.fetch_context());
        let known = &mut code.pages[(va >> 12) as usize & (FETCH_PAGES - 1)];
        if known.page == page && known.context == context {
            return Ok(known.physical | va & 0xfff);
        }
        // With timing, the fetch itself follows, through the TLB.
        let translated = if self.state.timed {
            self.look_up(w, va, Access::Fetch, p)
        } else {
            self.translate(w, va, Access::Fetch, p)
        };
        let pa = translated.map_err(|t| Trap::new(t.cause, tval))?;
        if !self.state.pmp.permits(pa, len, Access::Fetch, p as u8) {
            return Err(Fault::Access.trap(Access::Fetch, tval));
        }
        let physical = pa & !0xfff;
        if self.state.pmp.is_uniform(physical, 0x1000) {
            *known = FetchPage {
                page,
                context,
                physical,
            };
        }
        Ok(pa)
    }

    fn fetch_half<W: World>(&self, w: &W, pa: u64, tval: u64) -> Result<u16, Trap> {
        w.ram()
            .read_u16(pa.wrapping_sub(w.ram_base()))
            .ok_or(Trap::new(cause::FETCH_ACCESS, tval))
    }

    fn decode_block<W: World>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        pc: u64,
        key: Key,
        pa2: Option<u64>,
    ) -> Result<u32, Trap> {
        let pa = key.0;
        let start = code.ops.len() as u32;
        let (timing, isa) = (self.config.timing, self.config.isa);
        let (hints, stores) = (w.coherence().has_hints(), w.coherence().has_stores());
        let mut schedule = Schedule::new(&timing);
        let cpi = self.config.functional_cpi;
        let page_left = 0x1000 - (pa & 0xfff);
        let mut off = 0u64;
        let mut line = pc >> 6;
        let mut lines = 1u64 << (pa >> 6 & 63);
        let mut n = 0u32;
        let mut functional_cost = 0;
        while (n as usize) < code.longest && off < page_left {
            let at = pa + off;
            let va = pc.wrapping_add(off);
            if n > 0
                && !self
                    .state
                    .pmp
                    .allows(at, 2, Access::Fetch, self.state.privilege as u8)
            {
                break;
            }
            let low = self.fetch_half(w, at, va)?;
            let long = inst_len(low) == 4;
            let mut word = low as u32;
            if long {
                let high_at = if off + 2 >= page_left {
                    // Crosses the page: a block of its own.
                    match pa2 {
                        Some(p) if n == 0 => p,
                        _ => break,
                    }
                } else {
                    at + 2
                };
                let high_va = va.wrapping_add(2);
                if !self
                    .state
                    .pmp
                    .allows(high_at, 2, Access::Fetch, self.state.privilege as u8)
                {
                    if n == 0 {
                        return Err(Fault::Access.trap(Access::Fetch, high_va));
                    }
                    break;
                }
                word |= (self.fetch_half(w, high_at, high_va)? as u32) << 16;
            }
            let len = if long { 4 } else { 2 };
            let last_line = va.wrapping_add(len - 1) >> 6;
            let mut flags = if long && is_second_half(va) { SPLIT } else { 0 };
            if last_line != line {
                flags |= NEW_LINE;
                line = last_line;
            }
            if off + len <= page_left {
                lines |= 1 << (line & 63);
            }
            let inst = decode_with(isa, word);
            if hints && n > 0 && n as usize + 1 == code.longest && is_hint(&inst) {
                // It stays with the access that it is for.
                break;
            }
            let (cost, near) = match &inst {
                Some(i) => {
                    let slot = schedule.add(i, long && is_second_half(va));
                    (slot.at, slot.near)
                }
                None => (schedule.finish().0, Near::default()),
            };
            if inst.is_some_and(|i| may_miss(isa, &i)) {
                flags |= TARGET;
            }
            let cost = if self.state.timed {
                cost
            } else {
                functional_cost
            };
            functional_cost += cpi;
            code.ops.push(match &inst {
                Some(i) if reads_memory(i.op) => {
                    pre_load(i, off as u16, cost, flags, near, packets(pc, off))
                }
                Some(i) => pre(i, off as u16, cost, flags),
                None => illegal(word, off as u16, cost, flags),
            });
            n += 1;
            off += len;
            if inst.is_none_or(|i| ends_block(i.op)) {
                break;
            }
        }
        w.accessed(AccessKind::Read, pa, off.min(page_left) as u8);
        if let Some(p) = pa2 {
            w.accessed(AccessKind::Read, p, 2);
        }
        code.decoded += n as u64;
        let (cost, pending) = schedule.finish();
        let until_release = schedule.until_release();
        let (divisions, divides) = schedule.divisions();
        let (late, late_open) = schedule.late();
        for (n, by) in late {
            let op = &mut code.ops[start as usize + n];
            op.flags |= COMES_LATE;
            let awaits = if is_long(op.op) {
                AWAITS_LONG
            } else {
                AWAITS_DIVISION
            };
            code.ops[start as usize + by].flags |= awaits;
        }
        for (n, _) in late_open.into_iter().flatten() {
            code.ops[start as usize + n].flags |= COMES_LATE;
        }
        let late_open = late_open.map(|l| l.map_or(0, |l| l.1));
        let (longs, long) = schedule.longs();
        let longs = longs.iter().map(|(n, l)| (n, l.imm()));
        for (n, imm) in longs.chain(divisions.iter().map(|(n, d)| (n, d.imm()))) {
            code.ops[start as usize + n].imm = imm;
        }
        let fences = stores || self.config.hands_over;
        if self.state.timed && (hints || fences) {
            note_acts(&mut code.ops[start as usize..], (hints, fences));
        }
        if self.state.timed {
            note_quiet(&mut code.ops[start as usize..], pc);
        }
        let last = code.ops.len() - 1;
        let mut meets = 0;
        if self.state.timed {
            let (p, page) = (&mut code.ops[last], pa & !0xfff);
            let mut half = |at: u64| {
                lines |= 1 << (at >> 6);
                self.fetch_half(w, page + at, 0).ok()
            };
            let timing = &self.config.timing;
            meets = wrong_path::meets(pa & 0xfff, timing, &mut half);
            if is_branch(p) {
                p.set_ahead(strays(pa & 0xfff, p, timing, half));
            }
        }
        let last = code.ops[last];
        let flushes = self.state.timed && last.len != ILLEGAL_LEN && refetches(&last, cost);
        let passes = !flushes && !jumps(last.op);
        // Only where somebody may ask for it: blocks without pending results are faster.
        let target =
            target_in_page(pa & 0xfff, &last).filter(|at| self.state.timed && is_second_half(*at));
        let release = match target {
            Some(at) => {
                lines |= 1 << (at >> 6);
                let half = self.fetch_half(w, pa & !0xfff | at, 0);
                half.is_ok_and(half_releases)
            }
            None => passes,
        };
        let pending = if release {
            merge_pending(pending, RELEASE, until_release)
        } else {
            pending
        };
        // The pair with the most cycles is in the lower half.
        let stores = pending >> STORES << STORES;
        let results = pending as u32;
        let (open, results) = match (long, divides) {
            (false, false) => (0, results),
            (true, false) => (0xffff, results << 16),
            (false, true) => (0xffff << 16, results & 0xffff),
            (true, true) => (u32::MAX, 0),
        };
        let pending = stores | Pending::from(results);
        // Results that come late are made up at the end.
        let kept = [0xffff, 0xffff << 16];
        let open = (0..2)
            .filter(|k| late_open[*k] == 0)
            .fold(0, |all, k| all | open & kept[k]);
        let splits = code.ops[start as usize].splits();
        let id = code.blocks.len() as u32;
        code.blocks.push(Block {
            start,
            count: n as u16,
            bytes: off as u16,
            page: pa >> 12,
            offset: (pa & 0xfff) as u16,
            crosses: pa2.is_some(),
            cost: if self.state.timed {
                cost
            } else {
                functional_cost
            },
            pending: if self.state.timed { pending } else { 0 },
            open: if self.state.timed { open } else { 0 },
            late: if self.state.timed { late_open } else { [0; 2] },
            flushes,
            packets: front_packets(&timing, packets(pc, off), cost),
            splits,
            passes,
            meets,
            live: true,
            lines,
        });
        self.mark_code(code, w, (key, id), pa, lines);
        if let Some(p) = pa2 {
            self.mark_code(code, w, (key, id), p, 1);
        }
        Ok(id)
    }

    /// Stores to lines that hold decoded code have to be noticed from now on.
    fn mark_code<W: World>(
        &mut self,
        code: &mut CodeCache,
        w: &mut W,
        id: (Key, u32),
        pa: u64,
        lines: u64,
    ) {
        code.by_page.entry(pa >> 12).or_default().push(id);
        let base = w.ram_base();
        let c = w.coherence();
        if c.mark_code(pa, lines) {
            c.post_others(self.id, Notice::GuardPage(pa >> 12));
            self.guard_page(pa >> 12, base);
        }
    }

    pub(crate) fn guard_page(&mut self, page: u64, ram_base: u64) -> bool {
        let mask = !((1u64 << crate::filter::block_shift(self.state.timed)) - 1);
        self.data
            .guard_page(page.wrapping_sub(ram_base >> 12), mask)
    }

    /// Applies what other harts and devices asked for.
    pub(crate) fn apply_notices<W: World>(&mut self, code: &mut CodeCache, w: &mut W) {
        if !w.coherence().has_notices(self.id) {
            return;
        }
        for n in w.coherence().take_notices(self.id) {
            match n {
                Notice::StaleCode(p) => code.drop_page(p),
                _ => self.apply_notice(w, n),
            }
        }
    }

    /// Applies a notice that concerns the data filter.
    pub(crate) fn apply_notice<W: World>(&mut self, w: &mut W, n: Notice) {
        match n {
            Notice::DropSlot(s) => {
                let cache = &mut w.coherence().l1d[self.id];
                self.data.drop_slot(cache, s as usize);
            }
            Notice::DropFetch(s) => {
                let cache = &mut w.coherence().l1i[self.id];
                self.fetch.drop_slot(cache, s as usize);
                // Translated code does not look at a line again that it goes on in.
                self.run.recheck = true;
            }
            Notice::DropWrite(s) => self.data.at_mut(s as usize).write = crate::filter::NEVER,
            Notice::GuardPage(p) => {
                if self.guard_page(p, w.ram_base()) && W::PARALLEL {
                    self.stored_meanwhile(w, p);
                }
            }
            Notice::StaleCode(_) => debug_assert!(false, "code is dropped between blocks"),
        }
    }
}
