//! Decoded code that outlives its hart: a hart of another machine with mostly the same memory goes on with it.

use crate::block::CodeCache;
use crate::hart::Hart;
use crate::world::World;
use nagori_cache::Coherence;

impl CodeCache {
    /// Takes over the blocks of another cache whose pages (physical addresses) hold the same for `same`, and marks
    /// their lines as code. What this one knows of virtual addresses stays. It has to be empty, and both of harts with
    /// the same configuration. Nothing is taken from a cache whose blocks may be of another length.
    pub fn succeed(
        &mut self,
        mut before: CodeCache,
        marks: &mut Coherence,
        mut same: impl FnMut(u64) -> bool,
    ) {
        if self.longest() != before.longest() || !self.is_empty() {
            return;
        }
        for page in before.pages_of_blocks() {
            if !same(page << 12) {
                before.drop_page(page);
            }
        }
        for (page, lines) in before.lines_of_blocks() {
            marks.mark_code(page << 12, lines);
        }
        self.take_blocks(before);
    }
}

impl Hart {
    /// Its next accesses to each page ask for the right to, as the first ones do: after lines have been marked as code.
    pub fn ask_anew(&mut self) {
        match self.state.timed {
            // What has passed is counted in the filter's entries.
            true => self.data.guard_all(),
            false => self.data.clear(),
        }
    }

    /// Its next access to each block passes no filter: accesses may be observed from now on that were not before.
    pub fn lets_none_pass<W: World>(&mut self, w: &mut W) {
        if self.state.timed {
            let cache = &mut w.coherence().l1d[self.id];
            (0..cache.len()).for_each(|i| self.data.release(cache, i));
        } else {
            self.data.clear();
        }
    }
}
