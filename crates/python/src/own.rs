//! Memories and prefetchers that are written in Python.

use crate::ends::Ends;
use nagori_hart::lines::{Access, Prefetch};
use nagori_hart::world::LineKind;
use nagori_machine::{BroughtError, Machine};
use nagori_memtime::{Function, Kind, MemoryModel, Period, Ps, Request};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

/// What stands for a region's memory in front of the region's name.
const MEMORY: &str = "memory.";

/// Objects by their places in a machine: `memory.REGION`, or the name of a cache.
pub type Places = Vec<(String, Py<PyAny>)>;

/// A memory of Python: its name, size and clock are attributes, and `access` gives the end of each request.
pub struct PyMemory {
    pub name: String,
    pub model: Box<dyn MemoryModel + Send>,
}

impl PyMemory {
    pub fn new(py: Python<'_>, object: &Py<PyAny>, ends: Ends) -> PyResult<PyMemory> {
        let of = object.bind(py);
        let name: String = of.getattr(intern!(py, "name"))?.extract()?;
        let capacity: u64 = of.getattr(intern!(py, "capacity"))?.extract()?;
        let clock: String = of.getattr(intern!(py, "clock"))?.extract()?;
        let clock: Result<Period, _> = clock.parse();
        let clock = clock.map_err(|e| PyValueError::new_err(format!("{name}.clock: {e}")))?;
        let (object, known) = (object.clone_ref(py), name.clone());
        let complete = move |at: Ps, r: &Request| {
            let asked = |py: Python<'_>| {
                let access = (at.0, r.addr, r.bytes, r.kind == Kind::Write);
                let end = object.call_method1(py, intern!(py, "access"), access)?;
                let end: u64 = end.extract(py)?;
                if end < at.0 || end > Ps::MAX_TIME.0 {
                    return Err(PyValueError::new_err(format!(
                        "{known}.access returned {end} ps for a request that arrived at {} ps: expected a later time",
                        at.0
                    )));
                }
                Ok(Ps(end))
            };
            ends.ask(asked).unwrap_or(at)
        };
        Ok(PyMemory {
            model: Box::new(Function::new(&name, capacity, clock, complete)),
            name,
        })
    }
}

struct PyPrefetcher {
    object: Py<PyAny>,
    ends: Ends,
}

impl Prefetch for PyPrefetcher {
    fn predict(&mut self, a: &Access) -> Vec<u64> {
        let kind = match a.kind {
            LineKind::Load => "load",
            LineKind::Store => "store",
            LineKind::Fetch => "fetch",
            LineKind::PageWalk => "page-walk",
            LineKind::Evict | LineKind::Flush | LineKind::Probe => "write-back",
            _ => "other",
        };
        let asked = |py: Python<'_>| -> PyResult<Vec<u64>> {
            let said = (self.object).call_method1(
                py,
                intern!(py, "access"),
                (a.hart, a.pc, a.line, kind),
            )?;
            let said = said.bind(py);
            if said.is_none() {
                return Ok(Vec::new());
            }
            said.try_iter()?.map(|line| line?.extract()).collect()
        };
        self.ends.ask(asked).unwrap_or_default()
    }
}

/// Puts the objects at their places in a machine.
pub fn place(machine: &mut Machine, places: &Places, ends: &Ends) -> Result<(), BroughtError> {
    for (at, object) in places {
        match at.strip_prefix(MEMORY) {
            Some(region) => {
                // Otherwise the run ends before it begins.
                let made = ends.ask(|py| PyMemory::new(py, object, ends.clone()));
                if let Some(m) = made {
                    machine.bring_memory(region, &m.name, m.model)?;
                }
            }
            None => {
                let prefetcher = PyPrefetcher {
                    object: Python::with_gil(|py| object.clone_ref(py)),
                    ends: ends.clone(),
                };
                machine.bring_prefetcher(at, Box::new(prefetcher))?;
            }
        }
    }
    Ok(())
}
