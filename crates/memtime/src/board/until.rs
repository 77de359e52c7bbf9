//! Advances the controller only up to the next completion, for callers that have to act on each
//! completion before the next one.

use super::event::{Event, Sink};
use super::{Controller, Out, Tags};
use crate::error::Error;
use crate::units::Ps;

/// Commits events, up to the first completion.
struct UpToFirst<'a>(&'a mut Out);

impl Sink for UpToFirst<'_> {
    #[inline]
    fn event(&mut self, e: Event, tags: &Tags) {
        self.0.event(e, tags);
    }

    #[inline]
    fn done(&self) -> bool {
        !self.0.done.is_empty()
    }
}

impl Controller {
    /// Processes all clocks before `t`, but stops after the first clock in which a completion is
    /// determined; if there are completions that have not been drained, that is at once. Returns
    /// whether there are completions to drain. As long as nobody waits for a completion, time stays
    /// where it is: it is the same for a controller that goes on from a saved state.
    pub fn advance_to_completion(&mut self, t: Ps) -> Result<bool, Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        let state = if self.ahead.valid {
            &self.ahead.from
        } else {
            &self.state
        };
        // The closed form holds nothing that somebody waits for.
        if self.lives.on || !state.owes(&self.tags) {
            return Ok(!self.out.done.is_empty());
        }
        self.go_back();
        if self.out.done.is_empty() {
            let clock = self.period.edge_from(t.max(self.latest));
            let (timing, tags) = (&self.timing, &mut self.tags);
            self.state
                .run(clock, timing, tags, &mut UpToFirst(&mut self.out));
            let reached = self.period.edge(self.state.now).min(t);
            self.latest = self.latest.max(reached);
        }
        Ok(!self.out.done.is_empty())
    }
}
