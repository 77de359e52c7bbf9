//! Address translation: Sv39 walks, permissions, and the timed TLB path.
//!
//! Two-stage translation (the hypervisor extension) would put a second walk
//! behind `read_pte` and the leaf address; nothing else depends on it.

use crate::cache::{LineState, NO_SLOT};
use crate::filter::EMPTY;
use crate::hart::{Hart, Privilege};
use crate::pmp::Access;
use crate::tlb::{TlbHit, NO_WAY};
use crate::trap::{cause, status, Trap, RETRY};
use crate::world::{LineKind, LineRequest, Stall, World};

const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;
const A: u64 = 1 << 6;
const D: u64 = 1 << 7;
/// Bits 63..54 belong to extensions that this hart lacks (Svnapot, Svpbmt) or are reserved.
const RESERVED: u64 = 0x3ff << 54;

/// Physical addresses have 56 bits.
pub const PADDR_BITS: u32 = 56;

/// Which of the two caches an L1 operation concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Data,
    Inst,
}

/// Why a walk ended without a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Page,
    Access,
    /// See `trap::RETRY`.
    Retry,
}

impl Fault {
    pub(crate) fn trap(self, access: Access, va: u64) -> Trap {
        let c = match (self, access) {
            (Fault::Retry, _) => return RETRY,
            (Fault::Page, Access::Fetch) => cause::FETCH_PAGE,
            (Fault::Page, Access::Read) => cause::LOAD_PAGE,
            (Fault::Page, Access::Write) => cause::STORE_PAGE,
            (Fault::Access, Access::Fetch) => cause::FETCH_ACCESS,
            (Fault::Access, Access::Read) => cause::LOAD_ACCESS,
            (Fault::Access, Access::Write) => cause::STORE_ACCESS,
        };
        Trap::new(c, va)
    }
}

impl Hart {
    /// Whether translation is on for a privilege.
    #[inline]
    pub(crate) fn translates(&self, p: Privilege) -> bool {
        p != Privilege::Machine && self.csr.satp >> 60 == 8
    }

    /// Reads a page-table entry as the walker does.
    #[inline]
    fn read_pte<Wd: World>(&mut self, w: &Wd, pa: u64) -> Result<u64, Fault> {
        let s = Privilege::Supervisor as u8;
        if !self.pmp.permits(pa, 8, Access::Read, s) {
            return Err(Fault::Access);
        }
        let offset = pa.wrapping_sub(w.ram_base());
        w.ram().read_u64(offset).ok_or(Fault::Access)
    }

    /// Walks the table. The level and entry of the leaf; `step` sees each entry's address, its level,
    /// and whether it is the leaf.
    #[inline]
    fn walk<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        mut step: impl FnMut(&mut Self, &mut Wd, (u64, u8), u64, bool) -> Result<(), Fault>,
    ) -> Result<(u8, u64), Fault> {
        if (va as i64) << 25 >> 25 != va as i64 {
            return Err(Fault::Page);
        }
        let mut table = (self.csr.satp & ((1 << 44) - 1)) << 12;
        for level in (0..3u8).rev() {
            let vpn = va >> (12 + 9 * level) & 0x1ff;
            let at = table + vpn * 8;
            let pte = self.read_pte(w, at)?;
            let leaf = pte & (R | X) != 0;
            if leaf {
                let pa = Self::page_address(level, pte, va);
                w.ram().prefetch(pa.wrapping_sub(w.ram_base()));
            }
            step(self, w, (at, level), pte, leaf || level == 0)?;
            if pte & V == 0 || pte & RESERVED != 0 || pte & (R | W) == W {
                return Err(Fault::Page);
            }
            if leaf {
                let ppn = pte >> 10;
                if ppn & ((1 << (9 * level)) - 1) != 0 {
                    return Err(Fault::Page);
                }
                return Ok((level, pte));
            }
            if pte & (A | D | U) != 0 {
                return Err(Fault::Page);
            }
            table = (pte >> 10) << 12;
        }
        Err(Fault::Page)
    }

    /// Permission of a leaf entry for an access.
    #[inline]
    pub(crate) fn permits(&self, pte: u64, access: Access, p: Privilege) -> bool {
        let st = self.csr.mstatus;
        let user_page = pte & U != 0;
        let mode_ok = match p {
            Privilege::User => user_page,
            _ => !user_page || (st & status::SUM != 0 && access != Access::Fetch),
        };
        let right = match access {
            Access::Fetch => pte & X != 0,
            Access::Write => pte & W != 0 && pte & D != 0,
            Access::Read => pte & R != 0 || (st & status::MXR != 0 && pte & X != 0),
        };
        mode_ok && right && pte & A != 0
    }

    #[inline(always)]
    pub(crate) fn page_address(level: u8, pte: u64, va: u64) -> u64 {
        let span = (1u64 << (12 + 9 * level)) - 1;
        ((pte >> 10) << 12) & !span & ((1 << PADDR_BITS) - 1) | va & span
    }

    /// Translates without timing (functional mode, fetch decoding, tracing).
    pub(crate) fn translate<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
    ) -> Result<u64, Trap> {
        if !self.translates(p) {
            return Ok(va);
        }
        let (level, pte) = self
            .walk(w, va, |_, _, _, _, _| Ok(()))
            .map_err(|f| f.trap(access, va))?;
        if !self.permits(pte, access, p) {
            return Err(Fault::Page.trap(access, va));
        }
        Ok(Self::page_address(level, pte, va))
    }

    /// Translates through a timed TLB; advances the hart's time by what it costs.
    /// The physical address and the TLB entry used.
    #[inline(always)]
    pub(crate) fn translate_timed<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
        at: RunPoint,
    ) -> Result<(u64, u8), Trap> {
        if !self.translates(p) {
            return Ok((va, NO_WAY));
        }
        let (vpn, asid) = (va << 25 >> 37, self.csr.asid());
        let data = access != Access::Fetch;
        let tlb = if data { &mut self.dtlb } else { &mut self.itlb };
        let canonical = (va as i64) << 25 >> 25 == va as i64;
        let Some(TlbHit { way, level, pte }) = tlb.lookup(vpn, asid).filter(|_| canonical) else {
            return self.walk_timed(w, va, access, p, at);
        };
        if !self.permits(pte, access, p) {
            return Err(Fault::Page.trap(access, va));
        }
        if data {
            self.dtlb.touch(way);
            self.last_way = way;
        } else {
            self.itlb.touch(way);
        }
        Ok((Self::page_address(level, pte, va), way))
    }

    /// Translates what the TLB does not have.
    #[inline(never)]
    fn walk_timed<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
        at: RunPoint,
    ) -> Result<(u64, u8), Trap> {
        let (vpn, asid) = (va << 25 >> 37, self.csr.asid());
        let side = if access == Access::Fetch {
            Side::Inst
        } else {
            Side::Data
        };
        let (tlb_miss, ptw_level) = (self.config.timing.tlb_miss, self.config.timing.ptw_level);
        let walk = (vpn, side == Side::Inst);
        if self.walk_begun != Some(walk) {
            self.walk_begun = Some(walk);
            match side {
                Side::Inst => self.stats.itlb_misses += 1,
                Side::Data => self.stats.dtlb_misses += 1,
            }
            self.cycle += tlb_miss as u64;
        }
        let leaf = self.walk(w, va, |h, w, (pa, level), pte, leaf| {
            if !leaf && h.walks.lookup(pa, level).is_some() {
                return Ok(());
            }
            h.l1d_touch(w, pa, LineKind::PageWalk, at)
                .map_err(|_| Fault::Retry)?;
            if !leaf {
                h.cycle += ptw_level as u64;
                h.walks.insert(pa, pte);
            }
            Ok(())
        });
        if leaf != Err(Fault::Retry) {
            self.walk_begun = None;
        }
        let (level, pte) = leaf.map_err(|f| f.trap(access, va))?;
        let (way, lost) = match side {
            Side::Inst => self.itlb.insert(vpn, level, asid, pte),
            Side::Data => self.dtlb.insert(vpn, level, asid, pte),
        };
        if lost {
            self.drop_way(w, side, way);
        }
        if side == Side::Data {
            self.last_way = way;
        }
        if !self.permits(pte, access, p) {
            return Err(Fault::Page.trap(access, va));
        }
        Ok((Self::page_address(level, pte, va), way))
    }

    /// A TLB entry lost pages: nothing that relied on it may pass the filter.
    fn drop_way<Wd: World>(&mut self, w: &mut Wd, side: Side, way: u8) {
        let id = self.id;
        if side == Side::Data {
            return self.data.drop_way(&mut w.coherence().l1d[id], way);
        }
        let (filter, cache) = (&mut self.fetch, &mut w.coherence().l1i[id]);
        for i in 0..cache.len() {
            let slot = cache.slot(i);
            if slot != NO_SLOT && filter.at(slot as usize).way == way {
                *filter.at_mut(slot as usize) = EMPTY;
                cache.set_slot(i, NO_SLOT);
            }
        }
    }

    /// Whether what others can see may happen now; otherwise the instruction has to be tried again.
    #[inline(always)]
    pub(crate) fn bus_free(&self, at: RunPoint) -> Result<(), Trap> {
        if self.cycle + at.offset < self.yield_at {
            Ok(())
        } else {
            Err(RETRY)
        }
    }

    /// Fills a line; the hart's time moves on to its first beat and `penalty` cycles.
    #[inline(always)]
    fn read_line<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        penalty: u32,
        at: RunPoint,
    ) {
        let start = self.cycle;
        let req = self.line_request(at, 0, line, kind);
        let first = w.read_line(&req);
        self.cycle = (first + penalty as u64)
            .saturating_sub(at.offset)
            .max(start);
        self.stats.memory_stall_cycles += self.cycle - start;
        if w.attributes() {
            self.attribute(w, &req, start, false);
        }
    }

    /// Tells who has waited since `start`.
    #[cold]
    #[inline(never)]
    fn attribute<Wd: World>(&self, w: &mut Wd, req: &LineRequest, start: u64, write: bool) {
        w.stalled(&Stall {
            cycles: self.cycle - start,
            write,
            line: req.line,
            kind: req.kind,
            hart: req.hart,
            pc: req.pc,
            privilege: req.privilege,
            satp: self.csr.satp,
            ra: self.x[1],
            fp: self.x[8],
        });
    }

    /// Writes a line back, `later` cycles from now; the hart waits for the acknowledgement.
    pub(crate) fn write_line<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        later: u32,
        at: RunPoint,
    ) {
        let start = self.cycle;
        let req = self.line_request(at, later as u64, line, kind);
        let ack = w.write_line(&req);
        self.cycle = ack.saturating_sub(at.offset).max(start);
        self.stats.memory_stall_cycles += self.cycle - start;
        if w.attributes() {
            self.attribute(w, &req, start, true);
        }
    }

    /// Whether a line is one that harts take from one another, so that every access to it
    /// happens in the order of time.
    #[inline(always)]
    pub(crate) fn contended<Wd: World>(&self, w: &mut Wd, line: u64, at: RunPoint) -> bool {
        !Wd::PARALLEL && w.coherence().contention.is(line, self.cycle + at.offset)
    }

    /// Brings a line into L1D (if it is not there with the needed right); the
    /// hart's time moves on by the cost. Index of the line.
    ///
    /// A miss is up to three transfers. Each happens only while no other hart
    /// is behind; what is done stays done when the instruction is tried again.
    /// So does a hit on a contended line.
    #[inline(always)]
    pub(crate) fn l1d_touch<Wd: World>(
        &mut self,
        w: &mut Wd,
        pa: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<usize, Trap> {
        let line = pa & !63;
        let write = kind == LineKind::Store;
        let present = w.coherence().l1d[self.id].find(line);
        if let Some(i) = present {
            if self.contended(w, line, at) {
                self.bus_free(at)?;
            }
            let cache = &mut w.coherence().l1d[self.id];
            cache.touch(i);
            match cache.entry(i).1 {
                LineState::Dirty => return Ok(i),
                LineState::Exclusive if write => {
                    cache.set(i, line, LineState::Dirty);
                    w.line_dirtied(line);
                    return Ok(i);
                }
                LineState::Shared if write => {}
                _ => return Ok(i),
            }
        }
        self.l1d_fill(w, line, kind, present, at)
    }

    /// Brings a line into L1D that is not there, or not with the needed right.
    #[inline(never)]
    fn l1d_fill<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        present: Option<usize>,
        at: RunPoint,
    ) -> Result<usize, Trap> {
        w.ram().prefetch(line.wrapping_sub(w.ram_base()));
        self.bus_free(at)?;
        let id = self.id;
        let write = kind == LineKind::Store;
        let t = &self.config.timing;
        let penalty = (t.l1d_miss + t.hub).saturating_sub(t.load_latency);
        let release_offset = t.release_offset;
        let index = match (self.refill, present) {
            (Some((l, i)), _) if l == line => i,
            (_, Some(i)) => {
                self.stats.l1d_upgrades += 1;
                i
            }
            (_, None) => {
                match kind {
                    LineKind::Store => self.stats.l1d_store_misses += 1,
                    LineKind::PageWalk => self.stats.l1d_walk_misses += 1,
                    _ => self.stats.l1d_load_misses += 1,
                }
                let cache = &mut w.coherence().l1d[id];
                let i = cache.victim(line);
                let (old, state) = cache.entry(i);
                // The filter entry of a line goes with it.
                self.data.release(cache, i);
                cache.set(i, 0, LineState::Invalid);
                if state == LineState::Dirty {
                    self.refill = Some((line, i));
                    self.stats.l1d_writebacks += 1;
                    self.write_line(w, old, LineKind::Evict, release_offset, at);
                }
                i
            }
        };
        // What is done stays done if the rest has to be tried again.
        self.refill = Some((line, index));
        let asked = self.cycle + at.offset;
        let others = if w.coherence().l1d.len() > 1 {
            self.collect_dirty(w, line, at)?
        } else {
            false
        };
        self.bus_free(at)?;
        self.read_line(w, line, kind, penalty, at);
        self.refill = None;
        if write {
            w.line_dirtied(line);
        }
        // No other hart runs in between: who had the line before still has it.
        let c = w.coherence();
        if others {
            c.probe(id, line, write);
            if write {
                c.moved(line, id, asked);
            }
        }
        let state = match (write, others) {
            (true, _) => LineState::Dirty,
            (false, true) => LineState::Shared,
            (false, false) => LineState::Exclusive,
        };
        c.l1d[id].set(index, line, state);
        c.l1d[id].touch(index);
        if !Wd::PARALLEL && c.contention.is(line, asked) {
            c.keep_off_filters(id, line);
            self.data.release(&mut c.l1d[id], index);
        }
        Ok(index)
    }

    /// If another hart has the line dirty, it is written back, and stays there shared.
    /// Whether any other hart has the line.
    fn collect_dirty<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        at: RunPoint,
    ) -> Result<bool, Trap> {
        let (others, dirty) = w.coherence().holders(self.id, line);
        if dirty.is_some() {
            self.bus_free(at)?;
            let asked = self.cycle + at.offset;
            self.stats.probes += 1;
            self.write_line(w, line, LineKind::Probe, 0, at);
            let c = w.coherence();
            c.probe(self.id, line, false);
            c.moved(line, self.id, asked);
        }
        Ok(others)
    }

    /// The filter entry of an L1D line goes with it.
    pub(crate) fn forget_line<Wd: World>(&mut self, w: &mut Wd, index: usize) {
        let c = &mut w.coherence().l1d[self.id];
        self.data.release(c, index);
    }

    #[inline(always)]
    pub(crate) fn line_request(
        &self,
        at: RunPoint,
        later: u64,
        line: u64,
        kind: LineKind,
    ) -> LineRequest {
        LineRequest {
            cycle: self.cycle + at.offset + later,
            line,
            kind,
            hart: self.id,
            pc: at.pc,
            privilege: self.privilege as u8,
            asid: self.csr.asid(),
        }
    }

    /// Brings a line into L1I; the hart's time moves on by the cost. Index of the line.
    pub(crate) fn l1i_touch<Wd: World>(
        &mut self,
        w: &mut Wd,
        pa: u64,
        at: RunPoint,
    ) -> Result<usize, Trap> {
        let line = pa & !63;
        let id = self.id;
        let c = &mut w.coherence().l1i[id];
        if let Some(i) = c.find(line) {
            c.touch(i);
            return Ok(i);
        }
        self.bus_free(at)?;
        // Fetches are not coherent, but the hub collects dirty data from every L1D, this hart's included.
        let c = w.coherence();
        let own = c.l1d[id]
            .find(line)
            .filter(|&i| c.l1d[id].entry(i).1 == LineState::Dirty);
        if let Some(i) = own {
            c.l1d[id].set(i, line, LineState::Shared);
            let slot = c.l1d[id].slot(i);
            if slot != NO_SLOT {
                self.data.at_mut(slot as usize).write = crate::filter::NEVER;
            }
            self.stats.probes += 1;
            self.write_line(w, line, LineKind::Probe, 0, at);
        } else {
            self.collect_dirty(w, line, at)?;
        }
        self.bus_free(at)?;
        self.stats.l1i_misses += 1;
        let t = self.config.timing;
        self.read_line(w, line, LineKind::Fetch, t.l1i_miss + t.hub, at);
        let c = &mut w.coherence().l1i[id];
        let i = c.victim(line);
        self.fetch.release(c, i);
        c.set(i, line, LineState::Shared);
        c.touch(i);
        Ok(i)
    }
}

/// Where in a run of instructions something happens: cycles since the hart's
/// `cycle` was last brought up to date, and the program counter.
#[derive(Clone, Copy)]
pub(crate) struct RunPoint {
    pub offset: u64,
    pub pc: u64,
}
