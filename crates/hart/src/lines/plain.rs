//! Fills of harts that have nothing but one level of caches, and wait for each miss: what
//! [`HartConfig::plain`](crate::config::HartConfig::plain) says. What other harts have does not occur here.

use crate::again::LINE_AGAIN;
use crate::hart::Hart;
use crate::place::RunPoint;
use crate::trap::NotNow;
use crate::world::World;
use nagori_cache::{LineKind, LineState, Tags};

impl Hart {
    /// Brings a line into L1D that is missing, or `present` without the right to store. A fill that has to wait is
    /// continued by [`Hart::go_on_filling`].
    #[inline(never)]
    pub(super) fn fill_plain<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        present: Option<usize>,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let filled = self.try_fill_plain(w, line, kind, present, at);
        if filled.is_err() {
            self.state.halfway.fill = Some((line, kind));
        }
        filled
    }

    #[inline(always)]
    fn try_fill_plain<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        present: Option<usize>,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        debug_assert!(w.coherence().is_plain());
        w.ram().prefetch(line.wrapping_sub(w.ram_base()));
        let id = self.id;
        self.bus_free(at)?;
        if !w.begin_fill(id, line) {
            return self.await_other(line, kind);
        }
        let index = match self.state.halfway.refill {
            Some((l, i)) if l == line => i,
            _ => self.make_room(w, line, kind, present, at)?,
        };
        let asked = self.state.cycle + at.offset();
        let others = match self.bring_plain(w, line, kind, at) {
            Ok(others) => others,
            Err(NotNow) => {
                // Making room is not repeated.
                self.state.halfway.refill = Some((line, index));
                return Err(NotNow);
            }
        };
        (self.state.halfway.refill, self.state.halfway.fill) = (None, None);
        let write = kind == LineKind::Store;
        let c = w.coherence();
        if others {
            // No other hart runs in between, so the same harts still have the line.
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
        c.l1d.put(id, index, line, state);
        let contended = c.is_contended(line, asked);
        if contended {
            c.keep_off_filters(id, line);
        }
        let cache = &mut c.l1d[id];
        match present {
            Some(_) => cache.touch(index),
            None => cache.filled(index),
        }
        if contended {
            self.data.release(cache, index);
        }
        self.end_fill(w, at);
        Ok(index)
    }

    /// Reads a line, after another hart that has it dirty has written it back. Returns whether others have it.
    #[inline(always)]
    fn bring_plain<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let mut others = false;
        if w.coherence().l1d.len() > 1 {
            others = self.collect_dirty(w, line, at)?.there;
        }
        self.bus_free(at)?;
        let penalty = self.config.timing.l1d_penalty();
        self.read_line(w, line, kind, (0, penalty), at)?;
        Ok(others)
    }

    /// The entry of L1D for a line, whose former line leaves it.
    #[inline(always)]
    fn make_room<Wd: World>(
        &mut self,
        w: &mut Wd,
        line: u64,
        kind: LineKind,
        present: Option<usize>,
        at: RunPoint,
    ) -> Result<usize, NotNow> {
        let stats = &mut self.state.stats;
        let missed = match kind {
            _ if present.is_some() => &mut stats.l1d_upgrades,
            LineKind::Store => &mut stats.l1d_store_misses,
            LineKind::PageWalk => &mut stats.l1d_walk_misses,
            _ => &mut stats.l1d_load_misses,
        };
        *missed += 1;
        if present.is_some() || kind != LineKind::PageWalk {
            self.state.halfway.replays |= LINE_AGAIN;
        }
        if let Some(index) = present {
            return Ok(index);
        }
        let l1d = &mut w.coherence().l1d;
        let release = |cache: &mut Tags, i| self.data.release(cache, i);
        let (index, old, state) = l1d.evict(self.id, line, release);
        if state == LineState::Dirty {
            self.state.halfway.refill = Some((line, index));
            self.release(w, old, at)?;
        }
        Ok(index)
    }

    /// A dirty line that has left L1D is written back. Apart from the rest, which has to do with registers only.
    #[inline(never)]
    fn release<Wd: World>(&mut self, w: &mut Wd, line: u64, at: RunPoint) -> Result<(), NotNow> {
        self.state.stats.l1d_writebacks += 1;
        let later = self.config.timing.release_offset;
        self.write_line(w, line, LineKind::Evict, later, at)
    }
}
