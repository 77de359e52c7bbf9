//! Requests of several cores that are answered as they arrive, where nothing that comes later can
//! change the answer.
//!
//! All choices of the controller are made by age, so that a younger request takes nothing from an
//! older one, but for three things: the newest request decides how long a precharge lasts
//! ([`RpTest::NewestRequest`](crate::params::RpTest)); a precharge goes on earlier if one in front of
//! it is not needed any more, since its row is passed; and `coarse` holds requests at the port,
//! where those of the other channel go first. Where one of these may matter, the answer is that
//! nobody knows yet.

use super::engine::NO_TAGS;
use super::Controller;
use crate::error::Error;
use crate::request::{Request, Submit};
use crate::units::Ps;

/// What is known of a request as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It is done at this time, whatever comes later; no completion follows.
    Done(Ps),
    /// As after [`Controller::submit`].
    Submitted(Submit),
}

impl Controller {
    /// As [`Controller::submit`], but where it is certain when the request is done, that is said
    /// at once. Requests have to be submitted in the order of their arrival.
    pub fn submit_foreseen(&mut self, at: Ps, r: Request) -> Result<Arrived, Error> {
        self.check(at, r.addr, r.bytes)?;
        if self.timing.hold != [0, 0] || self.out.log.is_some() {
            return self.submit(at, r).map(Arrived::Submitted);
        }
        self.latest = self.latest.max(at);
        let clock = self.period.edge_from(self.latest);
        let (t, tags) = (&self.timing, &mut self.tags);
        if !self.serial.on || !self.serial.commit_before(clock, t, tags, &mut self.out) {
            self.commit(clock);
        }
        if !self.enter_serial() {
            return Ok(self.foresee_in_engine(r));
        }
        let tag = self.tag(self.latest, r, true);
        let (t, tags) = (&self.timing, &mut self.tags);
        let done = self.serial.foresee(&tag, t, tags, self.period);
        if let Some(done) = done.filter(|_| !self.serial.is_open()) {
            return Ok(Arrived::Done(done));
        }
        self.serial.withdraw();
        self.next_seq = tag.seq;
        Ok(self.foresee_in_engine(r))
    }

    /// The same where many machines are at work, or somebody waits for what was not certain.
    fn foresee_in_engine(&mut self, r: Request) -> Arrived {
        self.go_back();
        if !self.state.has_room(r.kind) {
            return Arrived::Submitted(Submit::Busy(self.room_at(r.kind)));
        }
        let tag = self.tag(self.latest, r, false);
        let place = self.state.push(tag, &self.timing, &mut self.tags);
        match self.state.foresee(&tag, &self.timing, true) {
            None => Arrived::Submitted(Submit::Accepted),
            Some(clock) => {
                self.tags[usize::from(place) % NO_TAGS.len()].sync = true;
                Arrived::Done(Ps::of_clock(
                    clock + self.timing.answer(r.kind),
                    self.period,
                ))
            }
        }
    }
}
