//! Data accesses that miss the filter: alignment, translation, protection, caches, devices;
//! atomics; cache-block operations.

use crate::access::{read_ram, write_ram, Place, Wanted};
use crate::filter::{FilterEntry, NEVER, SLOTS};
use crate::hart::Hart;
use crate::mmu::Fault;
use crate::mode::Mode;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::privilege::Privilege;
use crate::trap::{cause, Trap, Undone};
use crate::world::{AccessKind, Requester, World};

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

    /// The location of an aligned data access. The access may happen after this.
    #[inline(always)]
    fn resolve<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        access: Access,
        at: RunPoint,
    ) -> Result<Place, Undone> {
        M::resolve(self, w, Wanted { va, size, access }, at)
    }

    /// Offset in guest memory of a translated access, if it is one to memory.
    #[inline(always)]
    pub(crate) fn memory_at<W: World>(
        &mut self,
        w: &W,
        want: Wanted,
        pa: u64,
        p: Privilege,
    ) -> Result<Option<u64>, Trap> {
        let Wanted { va, size, access } = want;
        if !self.state.pmp.permits(pa, size as u64, access, p as u8) {
            return Err(Fault::Access.trap(access, va));
        }
        let offset = pa.wrapping_sub(w.ram_base());
        if access == Access::Write && w.ram().is_read_only(offset) {
            return Err(Fault::Access.trap(access, va));
        }
        Ok((offset < w.ram().len()).then_some(offset))
    }

    /// Updates other structures after a store: code marks and reservations.
    #[inline(always)]
    pub(crate) fn store_side_effects<W: World>(&mut self, w: &mut W, pa: u64) {
        w.ram().note_store(pa.wrapping_sub(w.ram_base()));
        let c = w.coherence();
        if c.code_lines(pa) >> (pa >> 6 & 63) & 1 != 0 {
            c.invalidate_code(pa);
            self.run.recheck = true;
        }
        c.break_reservations(self.id, pa & !63);
    }

    /// Installs a filter entry for later accesses to the same block, where that is exact; the block
    /// is in an entry of L1D and one of the DTLB.
    #[inline(always)]
    pub(crate) fn install<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        want: Wanted,
        pa: u64,
        (index, way): (usize, u8),
        at: RunPoint,
    ) {
        let va = want.va;
        let write = want.access == Access::Write;
        let shift = M::BLOCK_SHIFT;
        let block = 1u64 << shift;
        let base = pa & !(block - 1);
        let watched = self.state.triggers.watches(va & !(block - 1), block);
        if watched || w.watches(base, block) || !self.state.pmp.is_uniform(base, block) {
            return;
        }
        let id = self.id;
        let slot = (va >> shift) as usize & (SLOTS - 1);
        if !M::claim(self, w, pa, (slot, index, way), at) {
            return;
        }
        let key = va & !(block - 1) | self.dctx;
        let delta = pa.wrapping_sub(w.ram_base()).wrapping_sub(va);
        let c = w.coherence();
        // Marks and reservations are looked at when the right to write is given.
        let may_write = write && !M::marked(c.code_lines(pa), pa) && !c.page_reserved(id, pa);
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
    }

    /// Reports an instruction's read at an offset in memory.
    #[inline(always)]
    pub(crate) fn read_at<W: World>(&mut self, w: &mut W, va: u64, offset: u64, size: u8, v: u128) {
        let pa = w.ram_base().wrapping_add(offset);
        self.commit_access(w, AccessKind::Read, (va, pa), size, v);
    }

    /// Reports an instruction's write at an offset in memory.
    #[inline(always)]
    pub(crate) fn wrote_at<W: World>(
        &mut self,
        w: &mut W,
        va: u64,
        offset: u64,
        size: u8,
        v: u128,
    ) {
        let pa = w.ram_base().wrapping_add(offset);
        self.commit_access(w, AccessKind::Write, (va, pa), size, v);
    }

    /// A load that the filter did not pass.
    #[cold]
    #[inline(never)]
    pub(crate) fn load_slow<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        self.data_trigger(va, size as u64, true, false)?;
        Self::misaligned(va, size, Access::Read)?;
        let access = Access::Read;
        if let Some((o, v)) = M::forward(self, w, Wanted { va, size, access }, at)? {
            self.read_at(w, va, o, size, v.into());
            return Ok(v);
        }
        self.loads.may = M::goes_on(self);
        let place = self.resolve::<W, M>(w, va, size, access, at);
        self.loads.may = false;
        match place? {
            Place::Ram(o) => {
                let v = read_ram(w, o, size);
                self.read_at(w, va, o, size, v.into());
                self.state.halfway.hint = None;
                Ok(v)
            }
            Place::Device(pa) => {
                M::hands_over(self, w, at)?;
                let before = self.state.cycle;
                M::device(self, w, pa, at)?;
                self.run.leave = true;
                let Ok(v) = w.mmio_read(&self.requester(at), pa, size) else {
                    // An address with nothing behind it does not get as far as the bus.
                    self.state.cycle = before;
                    return Err(Trap::new(cause::LOAD_ACCESS, va).into());
                };
                self.state.stats.device_loads += 1;
                self.commit_access(w, AccessKind::Read, (va, pa), size, v.into());
                Ok(v)
            }
        }
    }

    /// A store that the filter did not pass.
    #[cold]
    #[inline(never)]
    pub(crate) fn store_slow<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        value: u64,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va, size as u64, false, true)?;
        Self::misaligned(va, size, Access::Write)?;
        let access = Access::Write;
        if let Some(o) = M::buffer_store(self, w, Wanted { va, size, access }, value, at)? {
            self.wrote_at(w, va, o, size, value.into());
            self.state.halfway.hint = None;
            return Ok(());
        }
        match self.resolve::<W, M>(w, va, size, access, at)? {
            Place::Ram(o) => {
                write_ram(w, o, size, value);
                self.wrote_at(w, va, o, size, value.into());
                self.state.halfway.hint = None;
                Ok(())
            }
            Place::Device(pa) => {
                M::hands_over(self, w, at)?;
                let before = self.state.cycle;
                M::device(self, w, pa, at)?;
                self.run.leave = true;
                if w.mmio_write(&self.requester(at), pa, size, value).is_err() {
                    self.state.cycle = before;
                    return Err(Trap::new(cause::STORE_ACCESS, va).into());
                }
                self.state.stats.device_stores += 1;
                self.commit_access(w, AccessKind::Write, (va, pa), size, value.into());
                Ok(())
            }
        }
    }

    fn requester(&self, at: RunPoint) -> Requester<'_> {
        Requester {
            hart: self.id,
            cycle: self.state.cycle + at.offset(),
            instret: self.state.instret,
            satp: self.state.csr.satp,
            privilege: self.data_privilege() as u8,
            stats: &self.state.stats,
        }
    }

    /// Load reserved.
    pub(crate) fn load_reserved<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        M::synchronizes(self, w, at)?;
        self.data_trigger(va, size as u64, true, false)?;
        Self::misaligned(va, size, Access::Read)?;
        match self.resolve::<W, M>(w, va, size, Access::Read, at)? {
            Place::Ram(o) => {
                self.state.reservation = Some((w.ram_base() + o) & !63);
                let value = read_ram(w, o, size);
                self.read_at(w, va, o, size, value.into());
                if W::PARALLEL {
                    self.run.loaded = (o, size, value);
                }
                Ok(value)
            }
            Place::Device(_) => Err(Trap::new(cause::LOAD_ACCESS, va).into()),
        }
    }

    /// Store conditional: true if it stored.
    pub(crate) fn store_conditional<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        value: u64,
        at: RunPoint,
    ) -> Result<bool, Undone> {
        M::synchronizes(self, w, at)?;
        self.data_trigger(va, size as u64, false, true)?;
        Self::misaligned(va, size, Access::Write)?;
        let reserved = self.state.reservation.take();
        let Some(line) = reserved else {
            // It may have waited for a line before it lost the reservation.
            self.abandon_fill(w, at);
            // Permissions count even where the store will not happen.
            self.check_store(w, va, size)?;
            return Ok(false);
        };
        let place = match self.resolve::<W, M>(w, va, size, Access::Write, at) {
            Err(Undone::NotNow) => {
                self.state.reservation = reserved;
                return Err(Undone::NotNow);
            }
            Err(Undone::Trap(t)) => return Err(t.into()),
            Ok(p) => p,
        };
        let Place::Ram(o) = place else {
            return Err(Trap::new(cause::STORE_ACCESS, va).into());
        };
        let stored = if W::PARALLEL {
            self.store_if_same(w, o, size, value)
        } else {
            (w.ram_base() + o) & !63 == line
        };
        if stored {
            if !W::PARALLEL {
                write_ram(w, o, size, value);
            }
            self.wrote_at(w, va, o, size, value.into());
        }
        Ok(stored)
    }

    fn check_store<W: World>(&mut self, w: &mut W, va: u64, size: u8) -> Result<(), Trap> {
        let p = self.data_privilege();
        let pa = self.look_up(w, va, Access::Write, p)?;
        let offset = pa.wrapping_sub(w.ram_base());
        let fits = offset < w.ram().len() && !w.ram().is_read_only(offset);
        if !self
            .state
            .pmp
            .allows(pa, size as u64, Access::Write, p as u8)
            || !fits
        {
            return Err(Trap::new(cause::STORE_ACCESS, va));
        }
        Ok(())
    }

    /// Atomic read-modify-write; the old value, sign-extended for words.
    pub(crate) fn amo<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        size: u8,
        at: RunPoint,
        f: impl Fn(u64) -> u64,
    ) -> Result<u64, Undone> {
        M::synchronizes(self, w, at)?;
        self.data_trigger(va, size as u64, true, true)?;
        Self::misaligned(va, size, Access::Write)?;
        let shift = M::BLOCK_SHIFT;
        let e = self.data.at((va >> shift) as usize);
        let key = va & (!((1u64 << shift) - 1) | (size as u64 - 1)) | self.dctx;
        let o = if e.write == key && e.read == key {
            let (o, index) = (va.wrapping_add(e.delta), e.l1 as usize);
            M::atomic_passed(self, w, index);
            o
        } else {
            match self.resolve::<W, M>(w, va, size, Access::Write, at)? {
                Place::Ram(o) => o,
                Place::Device(_) => return Err(Trap::new(cause::STORE_ACCESS, va).into()),
            }
        };
        let extend = |old: u64| match size {
            4 => old as u32 as i32 as i64 as u64,
            _ => old,
        };
        let old = if W::PARALLEL {
            let new = |old| f(extend(old));
            extend(crate::parallel::update(w.ram(), o, size, new))
        } else {
            let old = extend(read_ram(w, o, size));
            write_ram(w, o, size, f(old));
            old
        };
        self.read_at(w, va, o, size, old.into());
        let new = if W::COMMITS { f(old) } else { 0 };
        self.wrote_at(w, va, o, size, new.into());
        Ok(old)
    }

    /// Compare and swap of a pair of double words; what memory held. Harts in threads of the host
    /// see it as one only among themselves: no atomic of the host is as wide.
    pub(crate) fn swap_pair<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        expected: [u64; 2],
        new: [u64; 2],
        at: RunPoint,
    ) -> Result<[u64; 2], Undone> {
        M::synchronizes(self, w, at)?;
        self.data_trigger(va, 16, true, true)?;
        Self::misaligned(va, 16, Access::Write)?;
        let Place::Ram(o) = self.resolve::<W, M>(w, va, 16, Access::Write, at)? else {
            return Err(Trap::new(cause::STORE_ACCESS, va).into());
        };
        w.acquire();
        let old = [read_ram(w, o, 8), read_ram(w, o + 8, 8)];
        let whole = |v: [u64; 2]| u128::from(v[1]) << 64 | u128::from(v[0]);
        self.read_at(w, va, o, 16, whole(old));
        if old == expected {
            write_ram(w, o, 8, new[0]);
            write_ram(w, o + 8, 8, new[1]);
            self.wrote_at(w, va, o, 16, whole(new));
        }
        Ok(old)
    }

    /// Resolves the address of a cache-block operation; an access fault where no memory is behind it.
    fn resolve_block<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        as_access: Access,
        also_read: bool,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        let p = self.data_privilege();
        let mut go = |h: &mut Self, a: Access| -> Result<u64, Undone> {
            let pa = M::translate(h, w, va, a, p, at)?;
            if !h.state.pmp.allows(pa & !63, 64, a, p as u8) {
                return Err(Fault::Access.trap(a, va).into());
            }
            Ok(pa)
        };
        // First what asks for less: the right to read needs no D bit.
        let pa = match also_read.then(|| go(self, Access::Read)) {
            Some(Ok(pa)) => pa,
            Some(Err(Undone::NotNow)) => return Err(Undone::NotNow),
            Some(Err(Undone::Trap(_))) | None => go(self, as_access)?,
        };
        if pa.wrapping_sub(w.ram_base()) >= w.ram().len() {
            return Err(Fault::Access.trap(as_access, va).into());
        }
        Ok(pa & !63)
    }

    /// CFLUSH.D.L1: one line, or the whole cache for `None`. Timed like a dirty
    /// eviction for each dirty line: the release is waited for.
    pub(crate) fn cflush<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: Option<u64>,
        at: RunPoint,
    ) -> Result<(), Undone> {
        match va {
            Some(va) => {
                self.data_trigger(va & !63, 64, false, true)?;
                let line = self.resolve_block::<W, M>(w, va, Access::Read, false, at)?;
                M::flush_line(self, w, line, at)?;
                self.commit_access(w, AccessKind::Flush, (va & !63, line), 64, 0);
            }
            None => {
                M::flush_all(self, w, at)?;
                self.commit_access(w, AccessKind::FlushAll, (0, 0), 64, 0);
            }
        }
        Ok(())
    }

    /// cbo.clean (`keep`) and cbo.flush: in all caches of the coherence domain.
    /// A store fault is raised only where neither load nor store is permitted.
    pub(crate) fn cbo_writeback<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        keep: bool,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va & !63, 64, false, true)?;
        let line = self.resolve_block::<W, M>(w, va, Access::Write, true, at)?;
        M::clean_line(self, w, line, keep, at)?;
        let kind = if keep {
            AccessKind::Clean
        } else {
            AccessKind::Flush
        };
        self.commit_access(w, kind, (va & !63, line), 64, 0);
        Ok(())
    }

    /// cbo.zero: sets a block of 64 bytes to zero, as a store does.
    pub(crate) fn cbo_zero<W: World, M: Mode>(
        &mut self,
        w: &mut W,
        va: u64,
        at: RunPoint,
    ) -> Result<(), Undone> {
        self.data_trigger(va & !63, 64, false, true)?;
        let p = self.data_privilege();
        let pa = M::translate(self, w, va, Access::Write, p, at)? & !63;
        let offset = pa.wrapping_sub(w.ram_base());
        let fits = offset < w.ram().len() && !w.ram().is_read_only(offset);
        if !self.state.pmp.allows(pa, 64, Access::Write, p as u8) || !fits {
            return Err(Trap::new(cause::STORE_ACCESS, va).into());
        }
        M::own_line(self, w, pa, at)?;
        self.store_side_effects(w, pa);
        for k in 0..8 {
            write_ram(w, offset + 8 * k, 8, 0);
        }
        self.wrote_at(w, va & !63, offset, 64, 0);
        Ok(())
    }
}
