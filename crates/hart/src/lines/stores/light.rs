//! Combined stores in the light mode: no line waits for memory, and nothing happens at a time of its own.
//!
//! Stores without a hint are done in the caches at once. A hart has as many lines combined as its data cache has line fill
//! buffers, and a line leaves when it is full, when the hart needs its buffer, and when it has to be visible, all in the
//! order in which harts have their turns. So nothing depends on how far a hart runs ahead. What lines cost is part of the
//! epoch.

use super::super::coherence::Coherence;
use super::super::Side;
use super::Why;
use crate::hart::Hart;
use crate::run::RunPoint;
use crate::trap::NotNow;
use crate::world::World;

impl Coherence {
    /// Whether another hart combines stores to a line.
    pub(crate) fn is_combined_elsewhere(&self, hart: usize, line: u64) -> bool {
        let mut all = self.levels.stores.parts.iter().enumerate();
        all.any(|(h, b)| h != hart && b.combining.iter().any(|c| c.line == line))
    }

    /// A hart needs a line fill buffer: if all have combined lines, the oldest one leaves. Whether one did.
    fn spare_light(&mut self, hart: usize, now: u64) -> bool {
        let registers = self.levels.first[Side::Data as usize].config.mshrs;
        let full = self.buffers(hart).combining.len() >= registers as usize;
        if full {
            self.leave(hart, 0, Why::Register, now);
        }
        full
    }
}

impl Hart {
    /// Combines a store. False if it is to be done in the caches.
    pub(super) fn combine_lightly<W: World>(
        &mut self,
        w: &mut W,
        store: (u64, u8, u64),
        at: RunPoint,
    ) -> Result<bool, NotNow> {
        let (id, line) = (self.id, store.0 & !63);
        if !w.coherence().combines(id, line) {
            self.share_in_turn(w, line, at)?;
            if self.stores_to_copies(w, line, at)? {
                return Ok(false);
            }
            let now = self.cycle + at.offset();
            let c = w.coherence();
            c.leave_buffers(line, Some(id), Why::Store, now);
            c.spare_light(id, now);
            c.open_combined(id, line, at.pc, true);
        }
        self.join(w, store, at);
        self.fetched_again(w, at);
        Ok(true)
    }

    /// A line is missing, and needs a line fill buffer.
    pub(in crate::lines) fn spare_lightly<W: World>(&mut self, w: &mut W, at: RunPoint) {
        let now = self.cycle + at.offset();
        if w.coherence().spare_light(self.id, now) {
            self.carry(w, at);
        }
    }
}
