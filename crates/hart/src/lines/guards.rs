//! Accesses of a hart to sets to which prefetched lines are coming, and first uses of such lines.

use super::Side;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::trap::NotNow;
use crate::world::World;
use nagori_cache::LineKind;

impl Hart {
    /// Before the hart looks at the set of a line in one of its first-level caches: if a prefetched
    /// line is coming there, that happens only while no other hart and no event is behind.
    #[inline(always)]
    pub(crate) fn in_order<Wd: World>(
        &mut self,
        w: &mut Wd,
        side: Side,
        line: u64,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        if w.coherence().is_guarded(side, self.id, line) {
            self.await_arrivals(w, at)
        } else {
            Ok(())
        }
    }

    /// As [`Hart::in_order`], before the hart looks at any set of the cache.
    pub(crate) fn all_in_order<Wd: World>(
        &mut self,
        w: &mut Wd,
        side: Side,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        match w.coherence().guards(side, self.id) {
            0 => Ok(()),
            _ => self.await_arrivals(w, at),
        }
    }

    #[cold]
    fn await_arrivals<Wd: World>(&mut self, w: &mut Wd, at: RunPoint) -> Result<(), NotNow> {
        self.bus_free(at)?;
        if !Wd::BLOCKS {
            self.catch_up(w, at);
            self.settle_levels(w, self.state.cycle, at);
        }
        Ok(())
    }

    /// A line is used that is present. If it is the first use of a prefetched line, the prefetcher
    /// observes it.
    #[inline(always)]
    pub(super) fn uses_line<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        let c = w.coherence();
        if c.has_first() && c.is_unused(Side::of(kind), self.id, line) {
            self.first_use(w, line, kind, at)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn first_use<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<(), NotNow> {
        self.bus_free(at)?;
        let want = self.want(w, line, kind, at);
        let c = w.coherence();
        c.used_first(&want);
        // Prefetched lines are looked up in all levels before they are requested from memory.
        let asked = self.state.cycle + u64::from(c.last_latency());
        self.prefetch(w, (want.now, asked), at);
        self.settle_levels(w, asked, at);
        Ok(())
    }

    /// The filters give up the lines of sets to which prefetched lines are coming from now on.
    pub(super) fn guard_sets<Wd: World>(&mut self, w: &mut Wd) {
        let (id, c) = (self.id, w.coherence());
        while let Some((side, line)) = c.next_begun() {
            let (filter, cache) = match side {
                Side::Data => (&mut self.data, &mut c.l1d[id]),
                Side::Inst => (&mut self.fetch, &mut c.l1i[id]),
            };
            filter.settle(cache, line);
            let start = cache.set_start(line);
            for i in start..start + cache.ways() {
                filter.release(cache, i);
            }
            // Translated code does not look at a line again that it goes on in.
            self.run.recheck |= side == Side::Inst;
        }
    }
}
