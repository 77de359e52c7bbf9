//! Like the functional mode, but after each turn of a hart the world states what the turn costs
//! beyond its instructions. For timing models that need event counts and no cycle-by-cycle
//! simulation. What machines call the light timed mode keeps caches and pipeline, and is in `epochs.rs`.

use super::{Functional, Mode, Wanted};
use crate::hart::{Hart, Privilege};
use crate::mem::Place;
use crate::pmp::Access;
use crate::run::RunPoint;
use crate::trap::Undone;
use crate::world::{Turn, World};

/// The light mode. No machine uses it yet: see [`Hart::run_as`].
#[derive(Clone, Copy, Debug)]
pub struct Light;

impl Mode for Light {
    const LINES: bool = false;

    #[inline(always)]
    fn turn_begins(h: &mut Hart) {
        h.turn_from = (h.cycle, h.instret);
    }

    #[inline(always)]
    fn turn_ends<W: World>(h: &mut Hart, w: &mut W) {
        let (cycle, instret) = h.turn_from;
        h.cycle += w.turn_cost(&Turn {
            hart: h.id,
            cycle: h.cycle,
            cycles: h.cycle - cycle,
            instructions: h.instret - instret,
            stats: &h.stats,
        });
    }

    #[inline(always)]
    fn resolve<W: World>(
        h: &mut Hart,
        w: &mut W,
        want: Wanted,
        at: RunPoint,
    ) -> Result<Place, Undone> {
        Functional::resolve(h, w, want, at)
    }

    #[inline(always)]
    fn translate<W: World>(
        h: &mut Hart,
        w: &mut W,
        va: u64,
        access: Access,
        p: Privilege,
        at: RunPoint,
    ) -> Result<u64, Undone> {
        <Functional as Mode>::translate(h, w, va, access, p, at)
    }

    #[inline(always)]
    fn marked(lines: u64, pa: u64) -> bool {
        Functional::marked(lines, pa)
    }
}
