//! What is due in the caches behind the first level at a time of its own: lines that were prefetched,
//! and harts that have waited for a miss status holding register.
//!
//! It is done between turns only. A turn that is not over goes on first, up to what others can see, so
//! that it makes no difference in how many pieces the host runs it.

use super::roster::Roster;
use super::{sleeps, Machine};
use nagori_hart::world::{Event, LineKind, LineRequest, MemPort, Observer};

impl<O: Observer> Machine<O> {
    /// Whether a hart's turn is not over that began before; `next` is the next event.
    pub(super) fn has_turn(&self, next: u64) -> bool {
        self.window.turn().is_some_and(|(i, end)| {
            let h = &self.harts[i];
            !sleeps(h) && !h.is_blocked() && h.cycle < end.min(next)
        })
    }

    /// Does what is due at a cycle, and lets harts go on that have waited for it.
    #[cold]
    pub(super) fn settle_due(&mut self, due: u64, roster: &mut Roster) {
        let w = &mut *self.world;
        while let Some(settled) = w.coherence.settle_due(due) {
            while let Some((line, older)) = w.coherence.next_to_memory() {
                let request = LineRequest {
                    cycle: settled.cycle,
                    line,
                    kind: LineKind::Evict,
                    hart: settled.hart,
                    pc: settled.pc,
                    privilege: 0,
                    asid: 0,
                    older,
                };
                if O::WRITE_BACKS {
                    w.observer.happened(&Event::WriteBack(&request));
                }
                w.post_line(&request);
            }
            while let Some((hart, cycle)) = w.coherence.take_woken() {
                self.harts[hart].arrive(w, cycle);
                roster.look_at(hart, &self.harts[hart]);
            }
        }
    }
}
