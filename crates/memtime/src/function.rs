//! A memory whose times a function gives: for ideas that are tried before they become a model.
//!
//! # Rules
//! - The function is called once for each request, in the order in which they arrive, and returns when the request is
//!   complete: first data beat of a read, response of a write. An end before the arrival is taken as the arrival.
//! - Every request is accepted. Whatever limits how many can be under way, the function has to express by its times.
//! - A write has reached the medium when it is complete.
//! - What the function keeps is its own: a memory of this kind cannot be saved, nor copied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{MemoryModel, ModelStats, RegionStats};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::units::Ps;
use crate::window::count;

/// A memory whose times a function gives. See the [module](self) for the rules.
pub struct Function<F> {
    complete: F,
    capacity: u64,
    clock: Period,
    latest: Ps,
    /// Answers that nobody has fetched yet.
    done: Vec<Completion>,
    /// Ends of writes by id, as long as they may matter.
    writes: BTreeMap<u64, Ps>,
    /// End of the last write.
    written: Ps,
    from: Ps,
    region: RegionStats,
    name: String,
}

impl<F: FnMut(Ps, &Request) -> Ps> Function<F> {
    /// A memory of `capacity` bytes, whose statistics have this name and period. `complete` gets the arrival of a
    /// request, and returns its end.
    pub fn new(name: &str, capacity: u64, clock: Period, complete: F) -> Self {
        let mut memory = Function {
            complete,
            capacity,
            clock,
            latest: Ps::ZERO,
            done: Vec::new(),
            writes: BTreeMap::new(),
            written: Ps::ZERO,
            from: Ps::ZERO,
            region: RegionStats::default(),
            name: name.to_owned(),
        };
        memory.region.name = name.to_owned();
        memory
    }

    fn arrive(&mut self, t: Ps) -> Result<Ps, Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        Ok(self.latest)
    }
}

impl<F: FnMut(Ps, &Request) -> Ps> MemoryModel for Function<F> {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        r.check(self.capacity)?;
        let at = self.arrive(at)?;
        let end = (self.complete)(at, &r).max(at);
        if end > Ps::MAX_TIME {
            return Err(Error::TooLate(end));
        }
        count(&mut self.region.counters, &r);
        match r.kind {
            Kind::Read => self.region.read_latency.add(end - at),
            Kind::Write => {
                self.region.write_latency.add(end - at);
                self.written = self.written.max(end);
                self.writes.retain(|_, e| *e > at);
                self.writes.insert(r.id, end);
            }
        }
        self.done.push(Completion {
            id: r.id,
            kind: r.kind,
            accepted_at: at,
            done_at: end,
            row_hit: false,
        });
        Ok(Submit::Accepted)
    }

    fn next_event(&self) -> Option<Ps> {
        (!self.done.is_empty()).then_some(self.latest)
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        self.arrive(t).map(drop)
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.done);
    }

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.arrive(at)?;
        self.latest = self.latest.max(self.written);
        Ok(self.written)
    }

    fn report(&self, at: Ps) -> ModelStats {
        ModelStats {
            name: self.name.clone(),
            from: self.from,
            to: self.latest.max(at),
            clock: self.clock,
            regions: vec![self.region.clone()],
            ..ModelStats::default()
        }
    }

    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        let at = self.latest.max(at);
        let open = self.writes.iter().filter(|(_, end)| **end > at);
        Ok(open.map(|(id, _)| *id).collect())
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.from = self.arrive(at)?;
        self.region = RegionStats {
            name: self.name.clone(),
            ..RegionStats::default()
        };
        Ok(())
    }

    fn clock(&self) -> Period {
        self.clock
    }

    fn set_parameter(&mut self, _: Ps, key: &str, _: &str) -> Result<(), Error> {
        Err(self.lacks(&format!("parameter `{key}`")))
    }

    fn parameters(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(Saved)
    }

    fn load(&mut self, _: SavedModel) -> Result<(), Error> {
        Err(self.lacks("state to go on from"))
    }
}

/// There is nothing from which it could go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved;

impl Saved {
    pub(crate) fn add_owed(&self, _: &mut Vec<u64>) {}
}

impl<F> Function<F> {
    fn lacks(&self, what: &str) -> Error {
        Error::Unsupported {
            model: format!("{}, whose times a function gives,", self.name),
            what: what.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Function<impl FnMut(Ps, &Request) -> Ps> {
        // One request after the other: 10 ns for reads, 30 ns for writes.
        let mut free = Ps::ZERO;
        Function::new("mine", 4096, Period::of_ps(1000).unwrap(), move |at, r| {
            let takes = if r.kind == Kind::Read { 10_000 } else { 30_000 };
            free = free.max(at) + Ps(takes);
            free
        })
    }

    fn request(id: u64, addr: u64, kind: Kind) -> Request {
        Request {
            id,
            addr,
            kind,
            bytes: 64,
        }
    }

    #[test]
    fn times_are_those_of_the_function() {
        let mut m = memory();
        assert_eq!(m.next_event(), None);
        for (id, kind) in [(1, Kind::Read), (2, Kind::Write), (3, Kind::Read)] {
            let said = m.submit(Ps(5_000), request(id, 64 * id, kind)).unwrap();
            assert_eq!(said, Submit::Accepted);
        }
        assert_eq!(m.next_event(), Some(Ps(5_000)));
        let mut done = Vec::new();
        m.drain(&mut done);
        let ends: Vec<(u64, u64)> = done.iter().map(|c| (c.id, c.done_at.0)).collect();
        assert_eq!(ends, [(1, 15_000), (2, 45_000), (3, 55_000)]);
        assert_eq!(m.next_event(), None);
        assert_eq!(m.unfinished_writes(Ps(44_999)).unwrap(), [2]);
        assert_eq!(m.unfinished_writes(Ps(45_000)).unwrap(), [0; 0]);
        assert_eq!(m.flush(Ps(6_000)).unwrap(), Ps(45_000));
        let s = m.report(Ps(60_000));
        assert_eq!(
            (s.regions[0].counters.reads, s.regions[0].counters.writes),
            (2, 1)
        );
        assert_eq!(s.regions[0].read_latency.max, Ps(50_000));
        m.reset_stats(Ps(60_000)).unwrap();
        assert_eq!(m.report(Ps(70_000)).regions[0].counters.requests(), 0);
    }

    #[test]
    fn what_it_cannot_do_is_said() {
        let mut m = memory();
        let r = request(1, 4096, Kind::Read);
        assert!(matches!(m.submit(Ps(0), r), Err(Error::OutOfRange { .. })));
        let saved = m.save();
        let text = m.load(saved).unwrap_err().to_string();
        assert!(text.contains("mine") && text.contains("state"), "{text}");
        assert!(m.set_parameter(Ps(0), "latency", "5").is_err());
        assert!(m.lookahead().is_none());
    }

    #[test]
    fn an_end_beyond_time_is_an_error() {
        let clock = Period::of_ps(1000).unwrap();
        let mut m = Function::new("late", 64, clock, |_, _| Ps(u64::MAX));
        assert!(matches!(
            m.submit(Ps(0), request(1, 0, Kind::Read)),
            Err(Error::TooLate(_))
        ));
    }
}
