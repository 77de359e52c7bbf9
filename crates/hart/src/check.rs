//! Self-check of derived state, for tests and debugging: what the filters claim
//! must follow from caches, TLBs and marks.

use crate::context::ContextId;
use crate::filter::{block_shift, FilterEntry, NEVER, SLOTS};
use crate::hart::Hart;
use crate::tlb::NO_WAY;
use crate::world::World;
use nagori_cache::{LineState, Notice, NO_SLOT};

impl Hart {
    /// Checks that every filter entry is justified: in timed mode its line is in
    /// the first-level cache (dirty, if stores may pass) and its page in the TLB;
    /// where stores may pass there is neither decoded code nor another hart's
    /// reservation; and no trigger may match. The first violation is the error.
    ///
    /// May be called between two calls of `run`; notices that the hart has not
    /// seen yet are taken into account and left in place.
    pub fn check_invariants<W: World>(&self, w: &mut W) -> Result<(), String> {
        w.coherence().check_levels()?;
        self.check_filters(w)
    }

    /// As [`Hart::check_invariants`], without the check of the outer cache levels, which is the same for all harts of a
    /// machine.
    pub fn check_filters<W: World>(&self, w: &mut W) -> Result<(), String> {
        let base = w.ram_base();
        let c = w.coherence();
        c.check_left_over()?;
        c.check_first()?;
        let notices = c.take_notices(self.id);
        for n in &notices {
            c.post(self.id, *n);
        }
        for slot in 0..SLOTS {
            self.check_data(w, base, slot, &notices).map_err(|e| {
                format!(
                    "hart {} data filter slot {slot} {:x?}: {e}",
                    self.id,
                    self.data.at(slot)
                )
            })?;
            if notices.contains(&Notice::DropFetch(slot as u16)) {
                continue;
            }
            self.check_fetch(w, slot).map_err(|e| {
                format!(
                    "hart {} fetch filter slot {slot} {:x?}: {e}",
                    self.id,
                    self.fetch.at(slot)
                )
            })?;
        }
        Ok(())
    }

    fn check_data<W: World>(
        &self,
        w: &mut W,
        base: u64,
        slot: usize,
        notices: &[Notice],
    ) -> Result<(), &'static str> {
        let mut e: FilterEntry = *self.data.at(slot);
        for n in notices {
            match *n {
                Notice::DropSlot(s) if s as usize == slot => return Ok(()),
                Notice::DropWrite(s) if s as usize == slot => e.write = NEVER,
                Notice::GuardPage(p)
                    if e.write != NEVER && self.page(e.write, e.delta, base) == p =>
                {
                    e.write = NEVER
                }
                _ => {}
            }
        }
        if e.read != NEVER && e.write != NEVER && e.read != e.write {
            return Err("loads and stores of different blocks");
        }
        let key = if e.read != NEVER { e.read } else { e.write };
        if key == NEVER {
            return Ok(());
        }
        let shift = block_shift(self.state.timed);
        let va = key & !((1 << shift) - 1);
        let pa = va.wrapping_add(e.delta).wrapping_add(base);
        if (va >> shift) as usize & (SLOTS - 1) != slot {
            return Err("in the wrong slot");
        }
        if self.state.triggers.watches(va, 1 << shift) {
            return Err("a trigger may match there");
        }
        if !self.state.pmp.uniform(pa, 1 << shift) {
            return Err("protection differs inside the block");
        }
        let c = w.coherence();
        if e.write != NEVER {
            let code = c.code_lines(pa);
            if if self.state.timed {
                code >> (pa >> 6 & 63) & 1 != 0
            } else {
                code != 0
            } {
                return Err("stores pass to decoded code");
            }
            if c.page_reserved(self.id, pa) {
                return Err("stores pass to another hart's reservation");
            }
        }
        if !self.state.timed {
            return Ok(());
        }
        let l1 = &c.l1d[self.id];
        match l1.entry(e.l1 as usize) {
            (_, LineState::Invalid) => return Err("line not in L1D"),
            (line, _) if line != pa & !63 => return Err("L1D holds another line there"),
            (_, s) if e.write != NEVER && s != LineState::Dirty => {
                return Err("stores pass to a line that is not dirty")
            }
            _ => {}
        }
        if l1.slot(e.l1 as usize) as usize != slot {
            return Err("L1D does not know of the slot");
        }
        let machine = ContextId::of_key(key).is_some_and(ContextId::is_machine);
        let translated = !machine && self.state.csr.satp >> 60 == 8;
        if !translated {
            return if e.way == NO_WAY {
                Ok(())
            } else {
                Err("a TLB entry without translation")
            };
        }
        match self
            .state
            .dtlb
            .lookup(va << 25 >> 37, self.state.csr.asid())
        {
            None => Err("page not in the DTLB"),
            Some(h) if h.way != e.way => Err("page in another entry of the DTLB"),
            Some(h) if Self::page_address(h.level, h.pte, va) != pa => {
                Err("DTLB maps another page")
            }
            _ => Ok(()),
        }
    }

    fn check_fetch<W: World>(&self, w: &mut W, slot: usize) -> Result<(), &'static str> {
        let e = self.fetch.at(slot);
        if e.read == NEVER || !self.state.timed {
            return Ok(());
        }
        let va = e.read & !63;
        if (va >> 6) as usize & (SLOTS - 1) != slot {
            return Err("in the wrong slot");
        }
        let Some(context) = ContextId::of_key(e.read) else {
            return Err("no context has such a tag");
        };
        let p = context.privilege();
        let mut pa = va;
        if self.translates(p) {
            match self
                .state
                .itlb
                .lookup(va << 25 >> 37, self.state.csr.asid())
            {
                None => return Err("page not in the ITLB"),
                Some(h) if h.way != e.way => return Err("page in another entry of the ITLB"),
                Some(h) => pa = Self::page_address(h.level, h.pte, va),
            }
        }
        let l1 = &w.coherence().l1i[self.id];
        match l1.entry(e.l1 as usize) {
            (_, LineState::Invalid) => Err("line not in L1I"),
            (line, _) if line != pa => Err("L1I holds another line there"),
            _ if l1.slot(e.l1 as usize) == NO_SLOT || l1.slot(e.l1 as usize) as usize != slot => {
                Err("L1I does not know of the slot")
            }
            _ => Ok(()),
        }
    }

    /// Physical page number of an entry.
    fn page(&self, key: u64, delta: u64, base: u64) -> u64 {
        let va = key & !((1 << block_shift(self.state.timed)) - 1);
        va.wrapping_add(delta).wrapping_add(base) >> 12
    }
}
