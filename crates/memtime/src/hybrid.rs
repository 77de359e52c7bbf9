//! Flat hybrid memory: an address-range map of several models.

mod saved;

pub use saved::Saved;

use crate::command::Issued;
use crate::error::Error;
use crate::model::{CommandPart, MemoryModel, ModelStats};
use crate::period::Period;
use crate::request::{Completion, Request, Submit};
use crate::saved::SavedModel;
use crate::units::Ps;
use crate::window::{distinct, of_part, set_logs, take_logs};

/// A model with its address range.
pub struct Part {
    /// Prefix of its regions and channels in the statistics: "dram", "nvmm".
    pub name: String,
    /// First byte in the whole memory; a multiple of 64.
    pub base: u64,
    /// The model; all of its capacity is mapped.
    pub model: Box<dyn MemoryModel + Send>,
}

/// Several models side by side.
pub struct Hybrid {
    /// By base.
    parts: Vec<Part>,
    capacity: u64,
    latest: Ps,
    from: Ps,
    clock: Period,
    scratch: Vec<Completion>,
}

impl Hybrid {
    /// A memory of these parts. There may be holes between them (requests to holes are errors) but
    /// no overlaps, and names must differ. Cycles of the whole are those of the fastest clock.
    pub fn new(mut parts: Vec<Part>) -> Result<Hybrid, Error> {
        let fail = |field, value: String, expected: String| {
            Err(Error::Param {
                field,
                value,
                expected,
            })
        };
        parts.sort_by_key(|p| p.base);
        let mut end = 0u64;
        for (i, p) in parts.iter().enumerate() {
            let same = |q: &Part| q.name == p.name;
            if p.name.is_empty() || parts[..i].iter().any(same) {
                return fail(
                    "hybrid.name",
                    format!("'{}'", p.name),
                    "a name of its own for each part".to_owned(),
                );
            }
            if p.base % 64 != 0 {
                return fail(
                    "hybrid.base",
                    format!("{:#x}", p.base),
                    "a multiple of 64".to_owned(),
                );
            }
            if p.base < end {
                return fail(
                    "hybrid.base",
                    format!("{:#x} of '{}'", p.base, p.name),
                    format!("at least {end:#x}, the end of the part before"),
                );
            }
            end = match p.base.checked_add(p.model.capacity()) {
                Some(e) => e,
                None => {
                    return fail(
                        "hybrid.base",
                        format!("{:#x} of '{}'", p.base, p.name),
                        "an end below 2^64".to_owned(),
                    )
                }
            };
        }
        let Some(clock) = parts.iter().map(|p| p.model.clock()).min() else {
            return fail(
                "hybrid",
                "no part".to_owned(),
                "one or more parts".to_owned(),
            );
        };
        Ok(Hybrid {
            parts,
            capacity: end,
            latest: Ps::ZERO,
            from: Ps::ZERO,
            clock,
            scratch: Vec::new(),
        })
    }

    /// The parts, by base.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// See [`MemoryModel::lookahead`].
    pub(crate) fn copy(&self) -> Option<Hybrid> {
        let parts = self.parts.iter().map(|p| {
            Some(Part {
                name: p.name.clone(),
                base: p.base,
                model: p.model.lookahead()?,
            })
        });
        Some(Hybrid {
            parts: parts.collect::<Option<_>>()?,
            scratch: Vec::new(),
            ..*self
        })
    }

    fn part(&self, addr: u64) -> Option<usize> {
        let i = self
            .parts
            .partition_point(|p| p.base <= addr)
            .checked_sub(1)?;
        let p = &self.parts[i];
        (addr - p.base < p.model.capacity()).then_some(i)
    }
}

impl MemoryModel for Hybrid {
    /// End of the last part.
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        let Some(i) = self.part(r.addr) else {
            return Err(Error::OutOfRange {
                addr: r.addr,
                bytes: r.bytes,
                capacity: self.capacity,
            });
        };
        self.latest = self.latest.max(at);
        let p = &mut self.parts[i];
        let inner = Request {
            addr: r.addr - p.base,
            ..r
        };
        p.model.submit(self.latest, inner)
    }

    fn next_event(&self) -> Option<Ps> {
        self.parts.iter().filter_map(|p| p.model.next_event()).min()
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        for p in &mut self.parts {
            p.model.advance_to(self.latest)?;
        }
        Ok(())
    }

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.latest = self.latest.max(at);
        let mut end = Ps::ZERO;
        for p in &mut self.parts {
            end = end.max(p.model.flush(self.latest)?);
        }
        self.latest = self.latest.max(end);
        Ok(end)
    }

    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        let mut ids = Vec::new();
        for p in &self.parts {
            ids.append(&mut p.model.unfinished_writes(self.latest.max(at))?);
        }
        Ok(distinct(ids))
    }

    /// In the order of the ends of the requests found since the last call; equal ends by id.
    fn drain(&mut self, into: &mut Vec<Completion>) {
        for p in &mut self.parts {
            p.model.drain(&mut self.scratch);
        }
        // Unstable: a stable sort may allocate.
        self.scratch.sort_unstable_by_key(|c| (c.done_at, c.id));
        into.append(&mut self.scratch);
    }

    /// Regions and channels of all parts; if a part has several regions, their names are
    /// "part.region".
    fn report(&self, at: Ps) -> ModelStats {
        let mut s = ModelStats {
            name: "hybrid".to_owned(),
            from: self.from,
            to: self.latest.max(at),
            clock: self.clock,
            ..ModelStats::default()
        };
        for p in &self.parts {
            let m = p.model.report(self.latest.max(at));
            let several = m.regions.len() > 1;
            s.regions.extend(m.regions.into_iter().map(|mut r| {
                r.name = if several {
                    format!("{}.{}", p.name, r.name)
                } else {
                    p.name.clone()
                };
                r
            }));
            s.channels.extend(m.channels.into_iter().map(|mut c| {
                c.name = format!("{}.{}", p.name, c.name);
                c
            }));
            s.changes.extend(m.changes.into_iter().map(|mut c| {
                c.what = format!("{}.{}", p.name, c.what);
                c
            }));
            let named = m.counters.into_iter();
            s.counters
                .extend(named.map(|(k, v)| (format!("{}.{k}", p.name), v)));
        }
        s.changes.sort_by_key(|c| c.at);
        s
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        Some(Box::new(self.copy()?))
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let of = |p: &Part| of_part(&p.name, p.model.parameters());
        self.parts.iter().flat_map(of).collect()
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    /// The commands of all parts; each part must have commands.
    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        let parts = self.parts.iter_mut();
        set_logs(parts.map(|p| (p.name.as_str(), &mut p.model)), on)
    }

    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        for p in &mut self.parts {
            // Parts without requests lag behind. The time was possible before.
            let _ = p.model.advance_to(self.latest);
        }
        take_logs(self.parts.iter_mut().map(|p| &mut p.model), into);
    }

    fn command_parts(&self) -> Vec<CommandPart> {
        let of = |p: &Part| {
            let parts = p.model.command_parts();
            let several = parts.len() > 1;
            let named = parts.into_iter().map(|q| CommandPart {
                name: if several {
                    format!("{}.{}", p.name, q.name)
                } else {
                    p.name.clone()
                },
                ..q
            });
            named.collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of).collect()
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        for p in &mut self.parts {
            p.model.reset_stats(self.latest)?;
        }
        self.from = self.latest;
        Ok(())
    }

    fn clock(&self) -> Period {
        self.clock
    }

    /// Keys are "part.KEY".
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let found = key.split_once('.').and_then(|(name, rest)| {
            let p = self.parts.iter_mut().find(|p| p.name == name)?;
            Some((p, rest))
        });
        match found {
            Some((p, rest)) => {
                self.latest = self.latest.max(at);
                p.model.set_parameter(self.latest, rest, value)
            }
            None => {
                let names: Vec<_> = self.parts.iter().map(|p| &*p.name).collect();
                Err(Error::Unsupported {
                    model: "hybrid memory".to_owned(),
                    what: format!(
                        "parameter {key}: write \"part.key\" with the name of a part, {}",
                        names.join(" or ")
                    ),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
