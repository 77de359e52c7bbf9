//! The functional mode: an instruction costs the same number of cycles whatever it does; a block of
//! the data filter is a page.

use super::Mode;
use crate::access::{Place, Wanted};
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::pmp::Access;
use crate::privilege::Privilege;
use crate::tlb::NO_WAY;
use crate::trap::Undone;
use crate::world::World;

/// The functional mode.
#[derive(Clone, Copy, Debug)]
pub struct Functional;

impl Mode for Functional {
    const LINES: bool = false;

    #[inline(always)]
    fn resolve<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Place, Undone> {
        let va = want.va;
        let write = want.access == Access::Write;
        // Every flush of translations also flushes this table: see `flush_filters`.
        if let Some(offset) = h.pages.get(va, h.dctx, write) {
            let pa = w.ram_base() + offset;
            if write {
                h.store_side_effects(w, pa);
            }
            h.install::<W, Self>(w, want, pa, (0, NO_WAY), at);
            return Ok(Place::Ram(offset));
        }
        let p = h.data_privilege();
        let pa = h.translate(w, va, want.access, p)?;
        let Some(offset) = h.memory_at(w, want, pa, p)? else {
            return Ok(Place::Device(pa));
        };
        if h.state.pmp.is_uniform(pa & !0xfff, 0x1000) {
            h.pages.set(va, h.dctx, write, offset);
        }
        if write {
            h.store_side_effects(w, pa);
        }
        h.install::<W, Self>(w, want, pa, (0, NO_WAY), at);
        Ok(Place::Ram(offset))
    }

    #[inline(always)]
    fn translate<W: World>(
        h: &mut Hart,
        w: &mut W,
        va: u64,
        access: Access,
        p: Privilege,
        _at: RunPoint,
    ) -> Result<u64, Undone> {
        Ok(h.translate(w, va, access, p)?)
    }

    #[inline(always)]
    fn marked(lines: u64, _pa: u64) -> bool {
        lines != 0
    }
}
