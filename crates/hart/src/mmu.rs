//! Address translation: Sv39 walks, permissions, A and D bits, and the timed TLB path.
//!
//! Two-stage translation (the hypervisor extension) would put a second walk
//! behind `read_pte` and the leaf address; nothing else depends on it.

use crate::access::write_ram;
use crate::again::WALK_AGAIN;
use crate::hart::Hart;
use crate::parallel::exchange;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::privilege::Privilege;
use crate::tlb::{TlbHit, NO_WAY};
use crate::trap::{cause, status, NotNow, Trap, Undone};
use crate::world::{AccessKind, World};
use nagori_cache::{Awaits, LineKind, Side, Why, NO_SLOT};

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

/// Why a walk ended without a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Page,
    Access,
}

/// Why a timed walk ended without a translation.
enum WalkEnd {
    Fault(Fault),
    NotNow,
}

impl From<Fault> for WalkEnd {
    fn from(f: Fault) -> Self {
        WalkEnd::Fault(f)
    }
}

impl From<NotNow> for WalkEnd {
    fn from(NotNow: NotNow) -> Self {
        WalkEnd::NotNow
    }
}

impl Fault {
    pub(crate) fn trap(self, access: Access, va: u64) -> Trap {
        let c = match (self, access) {
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

/// Bits of a leaf entry that are set when the page is accessed.
#[inline]
fn marks(access: Access) -> u64 {
    match access {
        Access::Write => A | D,
        Access::Read | Access::Fetch => A,
    }
}

/// Whether an entry is that of a page.
#[inline]
fn is_leaf(pte: u64) -> bool {
    pte & (R | X) != 0
}

/// Whether an entry breaks none of the rules for all entries of a level.
#[inline]
fn is_sound(level: u8, pte: u64) -> bool {
    let misplaced = is_leaf(pte) && pte >> 10 & ((1 << (9 * level)) - 1) != 0;
    pte & V != 0 && pte & RESERVED == 0 && pte & (R | W) != W && !misplaced
}

/// A leaf entry.
#[derive(Clone, Copy)]
struct Leaf {
    /// Physical address of the entry.
    at: u64,
    level: u8,
    pte: u64,
}

impl Hart {
    /// Whether translation is on for a privilege.
    #[inline]
    pub(crate) fn translates(&self, p: Privilege) -> bool {
        p != Privilege::Machine && self.state.csr.satp >> 60 == 8
    }

    /// Reads a page-table entry as the walker does.
    #[inline]
    fn read_pte<Wd: World>(&mut self, w: &mut Wd, pa: u64) -> Result<u64, Fault> {
        let s = Privilege::Supervisor as u8;
        if !self.state.pmp.permits(pa, 8, Access::Read, s) {
            return Err(Fault::Access);
        }
        w.accessed(AccessKind::Read, pa, 8);
        let offset = pa.wrapping_sub(w.ram_base());
        w.ram().read_u64(offset).ok_or(Fault::Access)
    }

    /// Walks the table to the leaf; `step` sees each entry, and whether it is the last one.
    #[inline]
    fn walk<Wd: World, E: From<Fault>>(
        &mut self,
        w: &mut Wd,
        va: u64,
        mut step: impl FnMut(&mut Self, &mut Wd, Leaf, bool) -> Result<(), E>,
    ) -> Result<Leaf, E> {
        if (va as i64) << 25 >> 25 != va as i64 {
            return Err(Fault::Page.into());
        }
        let mut table = (self.state.csr.satp & ((1 << 44) - 1)) << 12;
        for level in (0..3u8).rev() {
            let vpn = va >> (12 + 9 * level) & 0x1ff;
            let at = table + vpn * 8;
            let pte = self.read_pte(w, at)?;
            let leaf = is_leaf(pte);
            if leaf {
                let pa = Self::page_address(level, pte, va);
                w.ram().prefetch(pa.wrapping_sub(w.ram_base()));
            }
            let entry = Leaf { at, level, pte };
            step(self, w, entry, leaf || level == 0)?;
            if !is_sound(level, pte) {
                return Err(Fault::Page.into());
            }
            if leaf {
                return Ok(entry);
            }
            if pte & (A | D | U) != 0 {
                return Err(Fault::Page.into());
            }
            table = (pte >> 10) << 12;
        }
        Err(Fault::Page.into())
    }

    /// Permission of a leaf entry for an access, A and D aside.
    #[inline]
    fn may(&self, pte: u64, access: Access, p: Privilege) -> bool {
        let st = self.state.csr.mstatus;
        let user_page = pte & U != 0;
        let mode_ok = match p {
            Privilege::User => user_page,
            _ => !user_page || (st & status::SUM != 0 && access != Access::Fetch),
        };
        let right = match access {
            Access::Fetch => pte & X != 0,
            Access::Write => pte & W != 0,
            Access::Read => pte & R != 0 || (st & status::MXR != 0 && pte & X != 0),
        };
        mode_ok && right
    }

    /// Permission of a leaf entry for an access.
    #[inline]
    pub(crate) fn permits(&self, pte: u64, access: Access, p: Privilege) -> bool {
        self.may(pte, access, p) && pte & marks(access) == marks(access)
    }

    /// The bits that hardware has to set in a leaf entry before an access (Svadu).
    #[inline]
    fn unmarked(&self, l: Leaf, access: Access, p: Privilege) -> u64 {
        let sets = self.state.csr.adue() && is_sound(l.level, l.pte) && self.may(l.pte, access, p);
        if sets {
            marks(access) & !l.pte
        } else {
            0
        }
    }

    /// Whether the walker may write an entry.
    fn may_mark<Wd: World>(&mut self, w: &Wd, l: Leaf) -> Result<(), Fault> {
        let s = Privilege::Supervisor as u8;
        let fixed = w.ram().is_read_only(l.at.wrapping_sub(w.ram_base()));
        if !fixed && self.state.pmp.permits(l.at, 8, Access::Write, s) {
            Ok(())
        } else {
            Err(Fault::Access)
        }
    }

    /// Sets bits in an entry; false if another hart has changed it meanwhile.
    fn mark<Wd: World>(&mut self, w: &mut Wd, l: Leaf, bits: u64) -> bool {
        let offset = l.at.wrapping_sub(w.ram_base());
        if Wd::PARALLEL {
            if exchange(w.ram(), offset, 8, l.pte, l.pte | bits).is_err() {
                return false;
            }
        } else {
            write_ram(w, offset, 8, l.pte | bits);
        }
        self.store_side_effects(w, l.at);
        w.accessed(AccessKind::Write, l.at, 8);
        true
    }

    #[inline(always)]
    pub(crate) fn page_address(level: u8, pte: u64, va: u64) -> u64 {
        let span = (1u64 << (12 + 9 * level)) - 1;
        ((pte >> 10) << 12) & !span & ((1 << PADDR_BITS) - 1) | va & span
    }

    /// Translates without timing (functional mode).
    pub(crate) fn translate<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
    ) -> Result<u64, Trap> {
        self.translate_untimed::<Wd, true>(w, va, access, p)
    }

    /// Translates as an access would, without being one: A and D stay as they are.
    pub(crate) fn look_up<Wd: World>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
    ) -> Result<u64, Trap> {
        self.translate_untimed::<Wd, false>(w, va, access, p)
    }

    fn translate_untimed<Wd: World, const MARKS: bool>(
        &mut self,
        w: &mut Wd,
        va: u64,
        access: Access,
        p: Privilege,
    ) -> Result<u64, Trap> {
        if !self.translates(p) {
            return Ok(va);
        }
        let fault = |f: Fault| f.trap(access, va);
        loop {
            let leaf = self.walk(w, va, |_, _, _, _| Ok(())).map_err(fault)?;
            let bits = self.unmarked(leaf, access, p);
            if bits != 0 {
                self.may_mark(w, leaf).map_err(fault)?;
                if MARKS && !self.mark(w, leaf, bits) {
                    continue;
                }
            }
            if !self.permits(leaf.pte | bits, access, p) {
                return Err(fault(Fault::Page));
            }
            return Ok(Self::page_address(leaf.level, leaf.pte, va));
        }
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
    ) -> Result<(u64, u8), Undone> {
        if !self.translates(p) {
            return Ok((va, NO_WAY));
        }
        let (vpn, asid) = (va << 25 >> 37, self.state.csr.asid());
        let data = access != Access::Fetch;
        let tlb = if data {
            &mut self.state.dtlb
        } else {
            &mut self.state.itlb
        };
        let canonical = (va as i64) << 25 >> 25 == va as i64;
        let Some(TlbHit { way, level, pte }) = tlb.lookup(vpn, asid).filter(|_| canonical) else {
            return self.walk_timed(w, va, access, p, at);
        };
        if !self.permits(pte, access, p) {
            let leaf = Leaf { at: 0, level, pte };
            if self.unmarked(leaf, access, p) == 0 {
                return Err(Fault::Page.trap(access, va).into());
            }
            // The entry is out of date as soon as the bits are set.
            let (tlb, side) = if data {
                (&mut self.state.dtlb, Side::Data)
            } else {
                (&mut self.state.itlb, Side::Inst)
            };
            tlb.flush(Some(vpn), None);
            self.drop_way(w, side, way);
            return self.walk_timed(w, va, access, p, at);
        }
        if data {
            self.state.dtlb.touch(way);
            self.state.last_way = way;
        } else {
            self.state.itlb.touch(way);
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
    ) -> Result<(u64, u8), Undone> {
        let (vpn, asid) = (va << 25 >> 37, self.state.csr.asid());
        let side = if access == Access::Fetch {
            Side::Inst
        } else {
            Side::Data
        };
        let t = self.config.timing;
        let walk = (vpn, side == Side::Inst);
        if self.state.halfway.walk != Some(walk) {
            self.state.halfway.walk = Some(walk);
            match side {
                Side::Inst => self.state.stats.itlb_misses += 1,
                Side::Data => {
                    self.state.stats.dtlb_misses += 1;
                    self.state.stats.dtlb_store_misses += u64::from(access == Access::Write);
                    self.state.halfway.replays = WALK_AGAIN;
                }
            }
            self.state.cycle += u64::from(t.tlb_walk.min(t.tlb_miss));
        }
        let leaf = self.walk(w, va, |h, w, entry, last| -> Result<(), WalkEnd> {
            let pa = entry.at;
            if last && h.unmarked(entry, access, p) != 0 {
                h.may_mark(w, entry)?;
                h.drained(w, (Awaits::Line(pa & !63), Why::Store), at)?;
                h.l1d_touch::<Wd, false>(w, pa, LineKind::Store, at)?;
                return Ok(());
            }
            if !last && h.state.walks.lookup(pa, entry.level).is_some() {
                return Ok(());
            }
            h.l1d_touch::<Wd, false>(w, pa, LineKind::PageWalk, at)?;
            if !last {
                h.state.cycle += u64::from(t.ptw_level);
                h.state.walks.insert(pa, entry.pte);
            }
            Ok(())
        });
        let found = match leaf {
            Err(WalkEnd::NotNow) => return Err(Undone::NotNow),
            Err(WalkEnd::Fault(f)) => Err(f.trap(access, va)),
            Ok(found) => Ok(found),
        };
        if found.is_err() {
            self.state.halfway.replays = 0;
        }
        self.state.halfway.walk = None;
        // The access is tried again.
        self.state.cycle += u64::from(t.tlb_miss.saturating_sub(t.tlb_walk));
        let mut leaf = found?;
        let bits = self.unmarked(leaf, access, p);
        if bits != 0 {
            if !self.mark(w, leaf, bits) {
                return self.walk_timed(w, va, access, p, at);
            }
            leaf.pte |= bits;
        }
        let Leaf { level, pte, .. } = leaf;
        let (way, lost) = match side {
            Side::Inst => self.state.itlb.insert(vpn, level, asid, pte),
            Side::Data => self.state.dtlb.insert(vpn, level, asid, pte),
        };
        if lost {
            self.drop_way(w, side, way);
        }
        if side == Side::Data {
            self.state.last_way = way;
        }
        if !self.permits(pte, access, p) {
            self.state.halfway.replays = 0;
            return Err(Fault::Page.trap(access, va).into());
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
                filter.drop_slot(cache, slot as usize);
                cache.set_slot(i, NO_SLOT);
            }
        }
    }
}
