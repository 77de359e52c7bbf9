//! Store buffers as saved.

use super::coherence::Coherence;
use super::stores::{Awaits, Buffers, Bytes, Deed, SavedStores};
use crate::FAR;

impl Coherence {
    pub(crate) fn save_stores(&self) -> SavedStores {
        let stores = &self.levels.stores;
        if stores.on || stores.config.hints() {
            SavedStores {
                harts: stores.parts.clone(),
                clock: stores.clock,
            }
        } else {
            SavedStores::default()
        }
    }

    /// Restores the saved state, after that of the first-level caches and before that of outstanding prefetches.
    /// Returns false if it does not fit.
    pub(crate) fn load_stores(&mut self, saved: SavedStores) -> bool {
        let stores = &self.levels.stores;
        if !stores.on && !stores.config.hints() {
            return saved.is_new();
        }
        let config = stores.config;
        let line = |l: u64| self.inside(l) && l.is_multiple_of(64);
        let waits = |b: &Buffers| match b.waits {
            Some((Awaits::Line(l), since)) => line(l) && since < FAR,
            Some((_, since)) => since < FAR,
            None => true,
        };
        let fits = |b: &Buffers| {
            let bytes = |b: &Bytes| b.is_sound();
            let entry =
                |e: &super::stores::Stored| line(e.line) && e.since < FAR && bytes(&e.bytes);
            b.queue.len() <= config.entries as usize
                && b.queue.iter().all(entry)
                && (config.combines() || b.combining.is_empty() && b.leaving.is_empty())
                && b.combining.iter().all(|c| line(c.line) && bytes(&c.bytes))
                && b.leaving.iter().all(|l| line(l.line) && l.token < FAR)
                && b.leaving.iter().all(|l| l.comes.is_none_or(|c| c < FAR))
                && b.free_from < FAR
                && waits(b)
                && b.stats.below(FAR)
        };
        if saved.harts.len() != stores.parts.len()
            || !saved.harts.iter().all(fits)
            || saved.clock >= FAR
        {
            return false;
        }
        self.levels.stores.parts = saved.harts;
        self.levels.stores.clock = saved.clock;
        self.levels.stores.deeds.clear();
        true
    }

    /// Lines in buffers, and their bytes, in the order in which they would leave. They are in the buffers no more: for
    /// changes of mode, where there are none.
    pub fn take_stored(&mut self) -> Vec<(u64, Bytes)> {
        let mut all = Vec::new();
        for b in &mut self.levels.stores.parts {
            all.extend(b.queue.drain(..).map(|e| (e.line, e.bytes)));
            all.extend(b.combining.drain(..).map(|c| (c.line, c.bytes)));
        }
        for d in self.levels.stores.deeds.drain(..) {
            if let Deed::Write { line, bytes, .. } = d {
                all.push((line, bytes));
            }
        }
        all
    }

    /// What a power cut takes: everything in the buffers.
    pub fn lose_stored(&mut self) {
        self.levels.stores.clear();
    }

    /// Puts what a hart has stored, or all harts have, over bytes of memory from a physical address on.
    pub fn overlay(&self, hart: Option<usize>, addr: u64, to: &mut [u8]) {
        let all = self.levels.stores.parts.iter().enumerate();
        let mine = all.filter(|(h, _)| hart.is_none_or(|of| of == *h));
        for (_, b) in mine {
            let combined = b.combining.iter().map(|c| (c.line, &c.bytes));
            for (line, bytes) in combined.chain(b.queue.iter().map(|e| (e.line, &e.bytes))) {
                for (at, size, value) in bytes.pieces() {
                    for k in 0..u64::from(size) {
                        let place = (line + at + k).checked_sub(addr);
                        let place = place.and_then(|p| to.get_mut(usize::try_from(p).ok()?));
                        if let Some(byte) = place {
                            *byte = (value >> (8 * k)) as u8;
                        }
                    }
                }
            }
        }
    }

    /// The host has written memory from outside of the machine: what is in buffers for these bytes is older.
    pub fn forget_stored(&mut self, addr: u64, len: u64) {
        for b in &mut self.levels.stores.parts {
            for e in &mut b.queue {
                e.bytes.forget(e.line, addr, len);
            }
            for c in &mut b.combining {
                c.bytes.forget(c.line, addr, len);
            }
        }
    }
}
