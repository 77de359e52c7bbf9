//! Data accesses that miss the filter: alignment, translation, protection, caches, devices;
//! atomics; cache-block operations.

use crate::filter::{FilterEntry, NEVER, SLOTS};
use crate::hart::Hart;
use crate::mmu::Fault;
use crate::pmp::Access;
use crate::run::RunPoint;
use crate::tlb::NO_WAY;
use crate::trap::{cause, NotNow, Trap, Undone};
use crate::world::{LineKind, Requester, World};

/// Bits of an address inside a filter block: a line in timed mode, a page otherwise.
#[inline(always)]
pub const fn block_shift(timed: bool) -> u32 {
    if timed {
        6
    } else {
        12
    }
}

/// A physical place that an access resolved to.
enum Place {
    /// Offset in guest memory.
    Ram(u64),
    /// Physical address of a device register.
    Device(u64),
}

impl Hart {
    fn misaligned(va: u64, size: u8, access: Access) -> Result<(), Trap> {
        if va & (size as u64 - 1) == 0 {
            return Ok(());
        }
        let c = if access == Access::Write {
            cause::STORE_MISALIGNED
        } else {
            cause::LOAD_MISALIGNED
        };
        Err(Trap::new(c, va))
    }

    /// Resolves an aligned data access; in timed mode charges TLB and cache.
    #[inline(always)]
    fn resolve<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        access: Access,
        at: RunPoint,
    ) -> Result<Place, Undone> {
        let write = access == Access::Write;
        if !TIMED {
            // Whoever may flush a translation may flush this: see `flush_filters`.
            if let Some(offset) = self.pages.get(va, self.dctx, write) {
                let pa = w.ram_base() + offset;
                if write {
                    self.store_side_effects(w, pa);
                }
                self.install::<W, TIMED>(w, va, pa, offset, 0, NO_WAY, write, at);
                return Ok(Place::Ram(offset));
            }
        }
        let p = self.data_privilege();
        let (pa, way) = if TIMED {
            self.translate_timed(w, va, access, p, at)?
        } else {
            (self.translate(w, va, access, p)?, NO_WAY)
        };
        if !self.pmp.permits(pa, size as u64, access, p as u8) {
            return Err(Fault::Access.trap(access, va).into());
        }
        let offset = pa.wrapping_sub(w.ram_base());
        if offset >= w.ram().len() {
            return Ok(Place::Device(pa));
        }
        if !TIMED && self.pmp.is_uniform(pa & !0xfff, 0x1000) {
            self.pages.set(va, self.dctx, write, offset);
        }
        let mut index = 0;
        if TIMED {
            index = self.l1d_touch(
                w,
                pa,
                if write {
                    LineKind::Store
                } else {
                    LineKind::Load
                },
                at,
            )?;
        }
        if write {
            self.store_side_effects(w, pa);
        }
        self.install::<W, TIMED>(w, va, pa, offset, index, way, write, at);
        Ok(Place::Ram(offset))
    }

    /// Updates other structures after a store: code marks and reservations.
    #[inline(always)]
    fn store_side_effects<W: World>(&mut self, w: &mut W, pa: u64) {
        let c = w.coherence();
        if c.code_lines(pa) >> (pa >> 6 & 63) & 1 != 0 {
            c.invalidate_code(pa);
            self.recheck = true;
        }
        c.break_reservations(self.id, pa & !63);
    }

    /// Lets later accesses of the same block pass the filter, as far as that is exact.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    fn install<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        pa: u64,
        offset: u64,
        index: usize,
        way: u8,
        write: bool,
        at: RunPoint,
    ) {
        let shift = block_shift(TIMED);
        let block = 1u64 << shift;
        let base = pa & !(block - 1);
        let watched = self.triggers.watches(va & !(block - 1), block);
        if watched || !self.pmp.is_uniform(base, block) {
            return;
        }
        let id = self.id;
        if TIMED && self.contended(w, pa & !63, at) {
            return;
        }
        let slot = (va >> shift) as usize & (SLOTS - 1);
        let key = va & !(block - 1) | self.dctx;
        let delta = offset.wrapping_sub(va);
        let c = w.coherence();
        // Marks and reservations are looked at when the right to write is given.
        let may_write = write && {
            let lines = c.code_lines(pa);
            let code = if TIMED {
                lines >> (pa >> 6 & 63) & 1 != 0
            } else {
                lines != 0
            };
            !code && !c.page_reserved(id, pa)
        };
        if TIMED {
            let now = self.cycle + at.offset;
            self.data.claim(slot, &mut c.l1d[id], index, now);
            self.data.rely(slot, way);
        }
        let e = self.data.at_mut(slot);
        let same = e.read == key || e.write == key;
        if !same || e.delta != delta {
            *e = FilterEntry {
                read: NEVER,
                write: NEVER,
                delta,
                l1: index as u16,
                way,
                used: e.used,
            };
        }
        e.l1 = index as u16;
        e.way = way;
        // A store right does not imply a load right and the other way round: ask for each.
        if write {
            e.write = if may_write { key } else { NEVER };
        } else {
            e.read = key;
        }
        debug_assert!(!TIMED || w.coherence().l1d[id].entry(index).0 == pa & !63);
    }

    /// A load that the filter did not pass.
    #[cold]
    #[inline(never)]
    pub(crate) fn load_slow<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        self.data_trigger(va, size as u64, true, false)?;
        Self::misaligned(va, size, Access::Read)?;
        match self.resolve::<W, TIMED>(w, va, size, Access::Read, at)? {
            Place::Ram(o) => Ok(read_ram(w, o, size)),
            Place::Device(pa) => {
                self.device_time::<W, TIMED>(at)?;
                self.leave = true;
                w.mmio_read(&self.requester(at), pa, size)
                    .map_err(|_| Trap::new(cause::LOAD_ACCESS, va).into())
            }
        }
    }

    /// A store that the filter did not pass.
    #[cold]
    #[inline(never)]
    pub(crate) fn store_slow<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        value: u64,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va, size as u64, false, true)?;
        Self::misaligned(va, size, Access::Write)?;
        match self.resolve::<W, TIMED>(w, va, size, Access::Write, at)? {
            Place::Ram(o) => {
                write_ram(w, o, size, value);
                Ok(())
            }
            Place::Device(pa) => {
                self.device_time::<W, TIMED>(at)?;
                self.leave = true;
                w.mmio_write(&self.requester(at), pa, size, value)
                    .map_err(|_| Trap::new(cause::STORE_ACCESS, va).into())
            }
        }
    }

    fn requester(&self, at: RunPoint) -> Requester<'_> {
        Requester {
            hart: self.id,
            cycle: self.cycle + at.offset,
            instret: self.instret,
            satp: self.csr.satp,
            stats: &self.stats,
        }
    }

    /// The hart's time moves on by what a device access costs. Others see such an access, so it
    /// waits for its turn.
    fn device_time<W: World, const TIMED: bool>(&mut self, at: RunPoint) -> Result<(), NotNow> {
        if TIMED {
            if !W::PARALLEL {
                self.bus_free(at)?;
            }
            let t = &self.config.timing;
            // The load and its use are in the schedule with the latency of a hit.
            self.cycle += (t.mmio + t.mmio_latency).saturating_sub(t.load_latency) as u64;
        }
        Ok(())
    }

    /// Load reserved.
    pub(crate) fn load_reserved<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        self.data_trigger(va, size as u64, true, false)?;
        Self::misaligned(va, size, Access::Read)?;
        match self.resolve::<W, TIMED>(w, va, size, Access::Read, at)? {
            Place::Ram(o) => {
                self.reservation = Some((w.ram_base() + o) & !63);
                let value = read_ram(w, o, size);
                if W::PARALLEL {
                    self.loaded = (o, size, value);
                }
                Ok(value)
            }
            Place::Device(_) => Err(Trap::new(cause::LOAD_ACCESS, va).into()),
        }
    }

    /// Store conditional: true if it stored.
    pub(crate) fn store_conditional<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        value: u64,
        at: RunPoint,
    ) -> Result<bool, Undone> {
        self.data_trigger(va, size as u64, false, true)?;
        Self::misaligned(va, size, Access::Write)?;
        let reserved = self.reservation.take();
        let Some(line) = reserved else {
            // It may have waited for a line before it lost the reservation.
            self.abandon_fill(w, at);
            // Permissions count even where the store will not happen.
            self.check_store(w, va, size)?;
            return Ok(false);
        };
        let place = match self.resolve::<W, TIMED>(w, va, size, Access::Write, at) {
            Err(Undone::NotNow) => {
                self.reservation = reserved;
                return Err(Undone::NotNow);
            }
            Err(Undone::Trap(t)) => return Err(t.into()),
            Ok(p) => p,
        };
        match place {
            Place::Ram(o) if W::PARALLEL => Ok(self.store_if_same(w, o, size, value)),
            Place::Ram(o) if (w.ram_base() + o) & !63 == line => {
                write_ram(w, o, size, value);
                Ok(true)
            }
            Place::Ram(_) => Ok(false),
            Place::Device(_) => Err(Trap::new(cause::STORE_ACCESS, va).into()),
        }
    }

    fn check_store<W: World>(&mut self, w: &mut W, va: u64, size: u8) -> Result<(), Trap> {
        let p = self.data_privilege();
        let pa = self.translate(w, va, Access::Write, p)?;
        let offset = pa.wrapping_sub(w.ram_base());
        if !self.pmp.allows(pa, size as u64, Access::Write, p as u8) || offset >= w.ram().len() {
            return Err(Trap::new(cause::STORE_ACCESS, va));
        }
        Ok(())
    }

    /// Atomic read-modify-write; the old value, sign-extended for words.
    pub(crate) fn amo<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
        f: impl Fn(u64) -> u64,
    ) -> Result<u64, Undone> {
        self.data_trigger(va, size as u64, true, true)?;
        Self::misaligned(va, size, Access::Write)?;
        let shift = block_shift(TIMED);
        let e = self.data.at((va >> shift) as usize);
        let key = va & (!((1u64 << shift) - 1) | (size as u64 - 1)) | self.dctx;
        let o = if e.write == key && e.read == key {
            let (o, index) = (va.wrapping_add(e.delta), e.l1 as usize);
            if TIMED && self.data.notes_uses() {
                self.data.hit(&mut w.coherence().l1d[self.id], index);
            }
            o
        } else {
            match self.resolve::<W, TIMED>(w, va, size, Access::Write, at)? {
                Place::Ram(o) => o,
                Place::Device(_) => return Err(Trap::new(cause::STORE_ACCESS, va).into()),
            }
        };
        let extend = |old: u64| match size {
            4 => old as u32 as i32 as i64 as u64,
            _ => old,
        };
        if W::PARALLEL {
            let new = |old| f(extend(old));
            return Ok(extend(crate::parallel::update(w.ram(), o, size, new)));
        }
        let old = extend(read_ram(w, o, size));
        write_ram(w, o, size, f(old));
        Ok(old)
    }

    /// Compare and swap of a pair of double words; what memory held. Harts in threads of the host
    /// see it as one only among themselves: no atomic of the host is as wide.
    pub(crate) fn swap_pair<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        expected: [u64; 2],
        new: [u64; 2],
        at: RunPoint,
    ) -> Result<[u64; 2], Undone> {
        self.data_trigger(va, 16, true, true)?;
        Self::misaligned(va, 16, Access::Write)?;
        let Place::Ram(o) = self.resolve::<W, TIMED>(w, va, 16, Access::Write, at)? else {
            return Err(Trap::new(cause::STORE_ACCESS, va).into());
        };
        w.acquire();
        let old = [read_ram(w, o, 8), read_ram(w, o + 8, 8)];
        if old == expected {
            write_ram(w, o, 8, new[0]);
            write_ram(w, o + 8, 8, new[1]);
        }
        Ok(old)
    }

    /// Resolves the address of a cache-block operation; an access fault where no memory is behind it.
    fn resolve_block<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        as_access: Access,
        also_read: bool,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        let p = self.data_privilege();
        let mut go = |h: &mut Self, a: Access| -> Result<u64, Undone> {
            let pa = if TIMED {
                h.translate_timed(w, va, a, p, at)?.0
            } else {
                h.translate(w, va, a, p)?
            };
            if !h.pmp.allows(pa & !63, 64, a, p as u8) {
                return Err(Fault::Access.trap(a, va).into());
            }
            Ok(pa)
        };
        let pa = match go(self, as_access) {
            Ok(pa) => pa,
            Err(Undone::Trap(first)) if also_read => match go(self, Access::Read) {
                Ok(pa) => pa,
                Err(Undone::Trap(_)) => return Err(first.into()),
                Err(Undone::NotNow) => return Err(Undone::NotNow),
            },
            Err(e) => return Err(e),
        };
        if pa.wrapping_sub(w.ram_base()) >= w.ram().len() {
            return Err(Fault::Access.trap(as_access, va).into());
        }
        Ok(pa & !63)
    }

    /// CFLUSH.D.L1: one line, or the whole cache for `None`. Timed like a dirty
    /// eviction for each dirty line: the release is waited for.
    pub(crate) fn cflush<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: Option<u64>,
        at: RunPoint,
    ) -> Result<(), Undone> {
        let id = self.id;
        match va {
            Some(va) => {
                self.data_trigger(va & !63, 64, false, true)?;
                let line = self.resolve_block::<W, TIMED>(w, va, Access::Read, false, at)?;
                if TIMED {
                    if let Some(i) = w.coherence().l1d[id].find(line) {
                        self.flush_index(w, i, false, at)?;
                    }
                }
            }
            None if TIMED => {
                let n = w.coherence().l1d[id].len();
                // Entries that were looked at before the instruction had to be tried again.
                let done = self.flushed.take().filter(|(pc, _)| *pc == at.pc);
                let first = done.map_or(0, |(_, i)| i);
                for i in first..n {
                    if done != Some((at.pc, i)) {
                        self.cycle += self.config.timing.flush_scan as u64;
                    }
                    if let Err(NotNow) = self.flush_index(w, i, false, at) {
                        self.flushed = Some((at.pc, i));
                        return Err(Undone::NotNow);
                    }
                }
            }
            None => {}
        }
        Ok(())
    }

    /// cbo.clean (`keep`) and cbo.flush: in all caches of the coherence domain.
    /// A store fault is raised only where neither load nor store is permitted.
    pub(crate) fn cbo_writeback<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va & !63, 64, false, true)?;
        let line = self.resolve_block::<W, TIMED>(w, va, Access::Write, true, at)?;
        if !TIMED {
            return Ok(());
        }
        Ok(self.clean_line(w, line, keep, at)?)
    }

    /// cbo.zero: sets a block of 64 bytes to zero, as a store does.
    pub(crate) fn cbo_zero<W: World, const TIMED: bool>(
        &mut self,
        w: &mut W,
        va: u64,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va & !63, 64, false, true)?;
        let p = self.data_privilege();
        let pa = if TIMED {
            self.translate_timed(w, va, Access::Write, p, at)?.0
        } else {
            self.translate(w, va, Access::Write, p)?
        } & !63;
        let offset = pa.wrapping_sub(w.ram_base());
        if !self.pmp.allows(pa, 64, Access::Write, p as u8) || offset >= w.ram().len() {
            return Err(Trap::new(cause::STORE_ACCESS, va).into());
        }
        if TIMED {
            self.l1d_touch(w, pa, LineKind::Store, at)?;
        }
        self.store_side_effects(w, pa);
        for k in 0..8 {
            write_ram(w, offset + 8 * k, 8, 0);
        }
        Ok(())
    }
}

#[inline]
pub(crate) fn read_ram<W: World>(w: &W, offset: u64, size: u8) -> u64 {
    let m = w.ram();
    match size {
        1 => m.read_u8(offset).map(u64::from),
        2 => m.read_u16(offset).map(u64::from),
        4 => m.read_u32(offset).map(u64::from),
        _ => m.read_u64(offset),
    }
    .unwrap_or(0)
}

#[inline]
fn write_ram<W: World>(w: &W, offset: u64, size: u8, value: u64) {
    let m = w.ram();
    // In range by construction: the offset was checked and the access is aligned.
    let _ = match size {
        1 => m.write_u8(offset, value as u8),
        2 => m.write_u16(offset, value as u16),
        4 => m.write_u32(offset, value as u32),
        _ => m.write_u64(offset, value),
    };
}
