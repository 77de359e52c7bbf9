//! A memory alone: addresses in, times out.

use crate::caller::{Cancel, PyCaller};
use crate::errors::Failure;
use crate::own::PyMemory;
use anyhow::{anyhow, bail, Context};
use nagori_cli::library;
use nagori_memtime::dram::Issued;
use nagori_memtime::model::{CommandPart, MemoryModel, ModelStats};
use nagori_memtime::request::{Completion, Kind, Request, Submit};
use nagori_memtime::saved::SavedModel;
use nagori_memtime::{Error, Period, Ps};
use nagori_memtrace::drive::{self, Mode, Options};
use nagori_memtrace::error::Place;
use nagori_memtrace::{Record, Source, Times, Unaligned};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a number in the arrays.
const WORD: usize = 8;
/// Greatest length of an access.
const MOST_BYTES: u32 = 4096;

/// How requests are submitted, in the names of the options of `nagori mem run`; times with their units.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    memory: String,
    set: Vec<String>,
    mode: String,
    bytes: u32,
    per_clock: u32,
    think: String,
    interval: Option<String>,
    outstanding: Option<u32>,
    base: u64,
    wrap: bool,
    unaligned: String,
}

impl How {
    fn options(&self) -> anyhow::Result<Options> {
        if !(1..=MOST_BYTES).contains(&self.bytes) {
            bail!("bytes: {}: expected 1 to {MOST_BYTES}", self.bytes);
        }
        let time = |keyword: &str, text: &str| {
            let time: Result<Ps, _> = text.parse();
            time.map_err(|e| anyhow!("{keyword} `{text}`: {e}"))
        };
        let mode = match (self.mode.as_str(), &self.interval) {
            ("saturated", _) => Mode::Saturated {
                per_clock: self.per_clock,
            },
            ("dependent", _) => Mode::Dependent {
                think: time("think", &self.think)?,
            },
            ("paced", Some(interval)) => Mode::Paced {
                interval: time("interval", interval)?,
            },
            ("paced", None) => {
                bail!("mode=\"paced\" needs interval, the time from one request to the next")
            }
            ("timestamped", _) => Mode::Timestamped { cycle: None },
            (other, _) => {
                bail!("mode `{other}`: expected saturated, dependent, paced or timestamped")
            }
        };
        let unaligned: Result<Unaligned, String> = self.unaligned.parse();
        Ok(Options {
            outstanding: self.outstanding,
            base: self.base,
            wrap: self.wrap,
            unaligned: unaligned.map_err(|e| anyhow!("unaligned: {e}"))?,
            ..Options::new(mode)
        })
    }
}

/// Accesses of arrays: little-endian words, and a byte that is not 0 for each write.
struct Arrays<'a> {
    addresses: &'a [u8],
    writes: Option<&'a [u8]>,
    times: Option<&'a [u8]>,
    bytes: u32,
    /// The number of accesses so far.
    at: Rc<Cell<usize>>,
}

fn word(array: &[u8], i: usize) -> Option<u64> {
    let bytes = array.get(i * WORD..(i + 1) * WORD)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl Source for Arrays<'_> {
    fn next(&mut self) -> Result<Option<Record>, nagori_memtrace::Error> {
        let i = self.at.get();
        let Some(addr) = word(self.addresses, i) else {
            return Ok(None);
        };
        self.at.set(i + 1);
        let write = self.writes.is_some_and(|w| w[i] != 0);
        Ok(Some(Record {
            addr,
            kind: if write { Kind::Write } else { Kind::Read },
            bytes: self.bytes,
            time: self.times.and_then(|t| word(t, i)).unwrap_or(0),
        }))
    }

    fn times(&self) -> Times {
        match self.times {
            Some(_) => Times::Ticks(Ps(1)),
            None => Times::None,
        }
    }

    fn name(&self) -> &str {
        "the arrays"
    }

    fn place(&self) -> Place {
        Place::Record(self.at.get() as u64)
    }
}

/// A model whose requests are timed one by one on the way through.
struct Timed<'m> {
    model: &'m mut dyn MemoryModel,
    /// The access that is being submitted, counted from 1.
    at: Rc<Cell<usize>>,
    /// By request: its access. An access that reaches beyond a line becomes several requests.
    access: Vec<usize>,
    /// By access: when its first request was accepted, and when its last one was complete; in ps.
    accepted: Vec<u64>,
    completed: Vec<u64>,
}

impl Timed<'_> {
    fn submitted(&mut self, accepted: Ps) {
        let access = self.at.get() - 1;
        self.access.push(access);
        let first = &mut self.accepted[access];
        *first = (*first).min(accepted.0);
    }
}

impl MemoryModel for Timed<'_> {
    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        let answer = self.model.submit(at, r)?;
        if answer == Submit::Accepted {
            self.submitted(at);
        }
        Ok(answer)
    }
    fn submit_waiting(&mut self, at: Ps, r: Request) -> Result<Ps, Error> {
        let accepted = self.model.submit_waiting(at, r)?;
        self.submitted(accepted);
        Ok(accepted)
    }
    fn drain(&mut self, into: &mut Vec<Completion>) {
        let known = into.len();
        self.model.drain(into);
        for c in &into[known..] {
            // The driver refuses completions of requests that it has not made.
            let access = usize::try_from(c.id)
                .ok()
                .and_then(|id| self.access.get(id));
            if let Some(last) = access.and_then(|a| self.completed.get_mut(*a)) {
                *last = (*last).max(c.done_at.0);
            }
        }
    }
    fn capacity(&self) -> u64 {
        self.model.capacity()
    }
    fn next_event(&self) -> Option<Ps> {
        self.model.next_event()
    }
    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        self.model.advance_to(t)
    }
    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.model.flush(at)
    }
    fn report(&self, at: Ps) -> ModelStats {
        self.model.report(at)
    }
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        self.model.unfinished_writes(at)
    }
    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.model.reset_stats(at)
    }
    fn clock(&self) -> Period {
        self.model.clock()
    }
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        self.model.set_parameter(at, key, value)
    }
    fn parameters(&self) -> Vec<(String, String)> {
        self.model.parameters()
    }
    fn save(&self) -> SavedModel {
        self.model.save()
    }
    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.model.load(s)
    }
    fn take_commands(&mut self, into: &mut Vec<Issued>) {
        self.model.take_commands(into);
    }
    fn command_parts(&self) -> Vec<CommandPart> {
        self.model.command_parts()
    }
}

/// Times of accepting and completing each access in ps, and the result as JSON.
struct Played {
    accepted: Vec<u8>,
    completed: Vec<u8>,
    result: String,
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn played(
    how: &How,
    own: Option<PyMemory>,
    arrays: [Option<&[u8]>; 3],
    ended: &dyn Fn() -> bool,
) -> anyhow::Result<Played> {
    let [addresses, writes, times] = arrays;
    let addresses = addresses.context("there are no addresses")?;
    let n = addresses.len() / WORD;
    let fits = |name: &str, array: Option<&[u8]>, bytes: usize| match array {
        Some(a) if a.len() != n * bytes => {
            bail!(
                "{name} has {} elements, and addresses has {n}",
                a.len() / bytes
            )
        }
        _ => Ok(()),
    };
    fits("writes", writes, 1)?;
    fits("times_ps", times, WORD)?;
    let (name, mut model) = match own {
        Some(own) => (own.name, own.model),
        None => {
            let memory = nagori_memcfg::Memory::load(&how.memory, &how.set)?;
            (memory.name.clone(), memory.build()?)
        }
    };
    let at = Rc::new(Cell::new(0));
    let mut source = Arrays {
        addresses,
        writes,
        times,
        bytes: how.bytes,
        at: at.clone(),
    };
    let mut timed = Timed {
        model: model.as_mut(),
        at,
        access: Vec::with_capacity(n),
        accepted: vec![u64::MAX; n],
        completed: vec![0; n],
    };
    let options = how.options()?;
    let outcome = drive::run(&mut timed, &mut source, options, &mut |_, _| Ok(!ended()))?;
    let (accepted, completed) = (bytes(&timed.accepted), bytes(&timed.completed));
    let stats = model.report(outcome.to);
    let result = library::memory_result(&name, &how.set, &how.mode, outcome, stats)?;
    Ok(Played {
        accepted,
        completed,
        result: result.to_string(),
    })
}

/// Plays accesses into a memory at its beginning, which may be written in Python (`own`): when each was accepted, when
/// it was complete, and the result.
#[pyfunction]
#[pyo3(signature = (how, addresses, writes, times_ps, own, log, cancel))]
#[expect(clippy::too_many_arguments, reason = "Python gives each by its place")]
pub fn play<'py>(
    py: Python<'py>,
    how: &str,
    addresses: &[u8],
    writes: Option<&[u8]>,
    times_ps: Option<&[u8]>,
    own: Option<Py<PyAny>>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, String)> {
    use nagori_session::Caller;
    let caller = PyCaller::new(log, cancel);
    let how: How = serde_json::from_str(how).map_err(|e| Failure(e.to_string()))?;
    let arrays = [Some(addresses), writes, times_ps];
    let own = own.map(|o| PyMemory::new(py, &o, caller.ends().clone()));
    let own = own.transpose()?;
    let work = || played(&how, own, arrays, &|| caller.interrupted().is_some());
    let p = py
        .allow_threads(work)
        .map_err(|e| Failure::from(e).raise(&caller))?;
    if let Some(e) = caller.raised() {
        return Err(e);
    }
    Ok((
        PyBytes::new(py, &p.accepted),
        PyBytes::new(py, &p.completed),
        p.result,
    ))
}
