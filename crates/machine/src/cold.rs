//! Lines that memory reads for caches that have room, since they began empty: caches that had been in use might have
//! had them.

use super::{parts, Machine};
use nagori_hart::config::CacheGeometry;
use nagori_hart::world::{LineKind, LineRequest};

/// What the caches in front of memory have been given since they were empty.
#[derive(Debug)]
pub(crate) struct Cold {
    /// Lines by cache and set.
    filled: Vec<u32>,
    sets: u64,
    ways: u32,
    /// How many harts share one.
    shared_by: usize,
    /// Whether caches for instructions are others.
    split: bool,
    /// Whether such lines count as hits.
    as_hits: bool,
    count: u64,
}

impl Cold {
    pub fn new(m: &Machine, as_hits: bool) -> Cold {
        let levels = parts::levels(&m.config);
        let (g, shared_by): (CacheGeometry, u32) = match levels.last() {
            Some(l) => (l.geometry, l.shared_by),
            None => (m.harts[0].config().l1d, 1),
        };
        let split = levels.is_empty();
        let shared_by = (shared_by as usize).max(1);
        let caches = m.harts.len().div_ceil(shared_by) * if split { 2 } else { 1 };
        Cold {
            filled: vec![0; caches * g.sets as usize],
            sets: u64::from(g.sets),
            ways: g.ways,
            shared_by,
            split,
            as_hits,
            count: 0,
        }
    }

    /// Memory is to read a line. Whether that takes no time.
    pub fn reads(&mut self, req: &LineRequest) -> bool {
        let cache = req.hart / self.shared_by;
        let cache = match (self.split, req.kind) {
            (false, _) => cache,
            (true, LineKind::Fetch) => 2 * cache + 1,
            (true, _) => 2 * cache,
        };
        let place = cache as u64 * self.sets + (req.line >> 6) % self.sets;
        match self.filled.get_mut(place as usize) {
            Some(n) if *n < self.ways => {
                *n += 1;
                self.count += 1;
                self.as_hits
            }
            _ => false,
        }
    }

    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }
}

impl Machine {
    /// Looks from now on which lines memory reads for caches that have room; they have to be empty. `as_hits`: such
    /// reads take no time, as if the caches had had the lines.
    pub fn watch_cold(&mut self, as_hits: bool) {
        let cold = Cold::new(self, as_hits);
        self.world.cold = Some(Box::new(cold));
    }

    /// How many such lines there were since this was asked last.
    pub fn take_cold_lines(&mut self) -> u64 {
        self.world.cold.as_mut().map_or(0, |c| c.take())
    }
}
