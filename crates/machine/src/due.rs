//! Events in the outer cache levels that have a time of their own: arrivals of prefetched lines,
//! and harts that get a miss status holding register.
//!
//! They take effect between turns only. A turn that is not over continues first, up to the next
//! action that others can observe, so the pieces in which the host runs a turn make no difference.

use super::observed::Observed;
use super::roster::Roster;
use super::{sleeps, Machine};
use nagori_hart::lines::carry_out;
use nagori_hart::world::{Event, LineKind, LineRequest, MemPort};

impl Machine {
    /// Whether a turn that has begun is not over yet; `next` is the time of the next event.
    pub(super) fn has_turn(&self, next: u64) -> bool {
        self.window.turn().is_some_and(|(i, end)| {
            let h = &self.harts[i];
            !sleeps(h) && !h.is_blocked() && h.state.cycle < end.min(next)
        })
    }

    /// Lets the events up to a cycle take effect, and resumes harts that have waited for them.
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
                w.observers.happened(&Event::WriteBack(&request));
                w.post_line(&request);
            }
            if w.observers.wants_instructions(true) {
                carry_out(&mut Observed::of(w))
            } else {
                carry_out(w)
            };
            while let Some((hart, cycle)) = w.coherence.take_woken() {
                self.harts[hart].arrive(w, cycle);
                roster.look_at(hart, &self.harts[hart]);
            }
        }
    }
}
