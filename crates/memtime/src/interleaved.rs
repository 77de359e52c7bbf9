//! Several equal memories interleaved in one range of addresses.
//!
//! The range is cut into blocks of the granularity, which go to the ways in turn: block *b* is
//! block *b* / *n* of way *b* mod *n*. Each way has queues, buffers and wear of its own, and all
//! are always advanced to the same time. Optane platforms interleave six DIMMs of a socket in
//! blocks of 4 KiB (Yang et al., FAST 2020).

mod saved;
#[cfg(test)]
mod tests;

pub use saved::Saved;

use crate::command::Issued;
use crate::error::Error;
use crate::hybrid::{Hybrid, Part};
use crate::model::{CommandPart, MemoryModel, ModelStats};
use crate::period::Period;
use crate::request::{Completion, Request, Submit};
use crate::saved::SavedModel;
use crate::units::Ps;

/// Fewest and most ways.
pub const WAYS: std::ops::RangeInclusive<u32> = 2..=16;
/// Smallest and greatest granularity in bytes; it is a power of two.
pub const GRANULARITY: std::ops::RangeInclusive<u64> = 64..=1 << 30;

/// The map from addresses to ways, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    ways: u64,
    granularity: u64,
}

impl Interleave {
    /// Blocks of `granularity` bytes over `ways` ways.
    pub fn new(ways: u32, granularity: u64) -> Result<Interleave, Error> {
        if !WAYS.contains(&ways) {
            return Err(Error::Param {
                field: "interleave.ways",
                value: ways.to_string(),
                expected: "2 to 16".to_owned(),
            });
        }
        if !GRANULARITY.contains(&granularity) || !granularity.is_power_of_two() {
            return Err(Error::Param {
                field: "interleave.granularity",
                value: granularity.to_string(),
                expected: "a power of two from 64 B to 1 GiB".to_owned(),
            });
        }
        Ok(Interleave {
            ways: ways.into(),
            granularity,
        })
    }

    /// Way of an address, and the address within the way.
    #[inline]
    pub fn place(&self, addr: u64) -> (u64, u64) {
        let (block, offset) = (addr / self.granularity, addr % self.granularity);
        (
            block % self.ways,
            block / self.ways * self.granularity + offset,
        )
    }

    /// The inverse: the address that is mapped there.
    pub fn addr(&self, way: u64, inner: u64) -> u64 {
        let (block, offset) = (inner / self.granularity, inner % self.granularity);
        (block * self.ways + way) * self.granularity + offset
    }
}

/// Equal memories with interleaved addresses. See the [module](self).
pub struct Interleaved {
    map: Interleave,
    /// Bytes of a way.
    way: u64,
    /// The ways side by side: "way0", "way1" and so on.
    ways: Hybrid,
}

impl Interleaved {
    /// Memories at time 0, one for each way, all equal, with a capacity of whole blocks of
    /// `granularity` bytes.
    pub fn new(
        granularity: u64,
        ways: Vec<Box<dyn MemoryModel + Send>>,
    ) -> Result<Interleaved, Error> {
        let map = Interleave::new(ways.len().try_into().unwrap_or(u32::MAX), granularity)?;
        let way = ways.first().map_or(0, |w| w.capacity());
        let clock = ways.first().map(|w| w.clock());
        let mut all = ways.iter();
        if !all.all(|w| w.capacity() == way && Some(w.clock()) == clock) {
            return Err(Error::Param {
                field: "interleave",
                value: "ways that differ".to_owned(),
                expected: "memories of the same capacity and clock".to_owned(),
            });
        }
        if !way.is_multiple_of(granularity) {
            return Err(Error::Param {
                field: "interleave.granularity",
                value: granularity.to_string(),
                expected: format!("whole blocks in the {way} bytes of a way"),
            });
        }
        let part = |(i, model)| Part {
            name: format!("way{i}"),
            base: i * way,
            model,
        };
        let parts = (0..).zip(ways).map(part).collect();
        Ok(Interleaved {
            map,
            way,
            ways: Hybrid::new(parts)?,
        })
    }

    /// The map of addresses.
    pub fn map(&self) -> Interleave {
        self.map
    }

    /// The ways, in order.
    pub fn ways(&self) -> &[Part] {
        self.ways.parts()
    }
}

impl MemoryModel for Interleaved {
    fn capacity(&self) -> u64 {
        self.ways.capacity()
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        r.check(self.capacity())?;
        let (way, inner) = self.map.place(r.addr);
        let addr = way * self.way + inner;
        self.ways.submit(at, Request { addr, ..r })
    }

    fn next_event(&self) -> Option<Ps> {
        self.ways.next_event()
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        self.ways.advance_to(t)
    }

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.ways.flush(at)
    }

    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        self.ways.unfinished_writes(at)
    }

    /// In the order of the ends of the requests found since the last call; equal ends by id.
    fn drain(&mut self, into: &mut Vec<Completion>) {
        self.ways.drain(into);
    }

    /// Regions, channels and counters of all ways, prefixed with their names.
    fn report(&self, at: Ps) -> ModelStats {
        ModelStats {
            name: "interleaved".to_owned(),
            ..self.ways.report(at)
        }
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.ways.reset_stats(at)
    }

    fn clock(&self) -> Period {
        self.ways.clock()
    }

    /// "wayN.KEY" changes one way, the plain key all of them.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let names: Vec<String> = self.ways().iter().map(|p| p.name.clone()).collect();
        let first = key.split_once('.').map(|k| k.0);
        if names.iter().any(|n| Some(n.as_str()) == first) {
            return self.ways.set_parameter(at, key, value);
        }
        // All or none: copies are asked first.
        for p in self.ways() {
            if let Some(mut copy) = p.model.lookahead() {
                copy.set_parameter(at, key, value)?;
            }
        }
        for n in names {
            self.ways.set_parameter(at, &format!("{n}.{key}"), value)?;
        }
        Ok(())
    }

    fn parameters(&self) -> Vec<(String, String)> {
        self.ways.parameters()
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        Some(Box::new(Interleaved {
            ways: self.ways.copy()?,
            ..*self
        }))
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        self.ways.set_command_log(on)
    }

    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        self.ways.take_commands(into);
    }

    fn command_parts(&self) -> Vec<CommandPart> {
        self.ways.command_parts()
    }
}
