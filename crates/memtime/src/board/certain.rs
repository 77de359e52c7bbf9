//! Requests of several cores that are answered on arrival, if no later request can change the
//! answer.
//!
//! The controller chooses by age, so a younger request does not delay an older one, with three
//! exceptions: the newest request decides how long a precharge lasts
//! ([`RpTest::NewestRequest`](crate::params::RpTest)); a precharge is issued earlier if the one
//! before it is no longer needed, since its row is passed on; and `coarse` holds requests at the
//! port, where those of the other channel may go first. If one of these may apply, the request is
//! not answered on arrival.

use super::engine::NO_TAGS;
use super::Controller;
use crate::error::Error;
use crate::request::{Request, Submit};
use crate::units::Ps;

/// What is known of a request on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It completes at this time, whatever arrives later; no completion record follows.
    Done(Ps),
    /// As after [`Controller::submit`].
    Submitted(Submit),
}

impl Controller {
    /// As [`Controller::submit`], but returns the time of completion at once if it is certain.
    /// Requests have to be submitted in the order of their arrival.
    pub fn submit_foreseen(&mut self, at: Ps, r: Request) -> Result<Arrived, Error> {
        self.check(at, &r)?;
        if self.timing.hold != [0, 0] || self.out.log.is_some() {
            return self.submit(at, r).map(Arrived::Submitted);
        }
        self.latest = self.latest.max(at);
        let clock = self.period.edge_from(self.latest);
        self.commit(clock);
        if !self.knows_lives() {
            return Ok(self.foresee_in_engine(r));
        }
        let seq = self.number();
        let tag = self.tag(seq, self.latest, r, true);
        let (t, tags) = (&self.timing, &mut self.tags);
        if let Some(clock) = self.lives.foresee(&tag, t, tags) {
            if !self.lives.is_open(&self.timing) {
                return Ok(Arrived::Done(self.answer_at(clock, tag.kind)));
            }
        }
        self.lives.withdraw();
        self.next_seq = seq;
        Ok(self.foresee_in_engine(r))
    }

    /// As [`Controller::submit_foreseen`], by the full engine: requests overlap, or others may still change this one.
    fn foresee_in_engine(&mut self, r: Request) -> Arrived {
        let (tag, place) = match self.take_in(r) {
            Ok(entered) => entered,
            Err(room) => return Arrived::Submitted(Submit::Busy(room)),
        };
        match self.state.foresee(&tag, &self.timing, true) {
            None => Arrived::Submitted(Submit::Accepted),
            Some(clock) => {
                self.tags[usize::from(place) % NO_TAGS.len()].sync = true;
                Arrived::Done(self.answer_at(clock, r.kind))
            }
        }
    }
}
