//! Whoever waits in Python for a run: receives its messages, and may end it.

use crate::own::{self, Places};
use nagori_machine::Machine;
use nagori_session::{Caller, Step};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Host time between two looks whether Python has received a signal: taking its lock has a cost.
const LOOK: Duration = Duration::from_millis(20);
/// Number of the signal for which Ctrl-C stands.
const SIGINT: u8 = 2;
/// Levels of Python's logging.
const INFO: u8 = 20;
const WARNING: u8 = 30;

/// Ends the runs that were started with it, at their next look at the host.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Cancel(Arc<AtomicBool>);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends them.
    fn set(&self) {
        self.0.store(true, Relaxed);
    }
}

/// How work ends before its time: because it is told to, or by an exception of what it has called in Python.
#[derive(Clone, Default)]
pub struct Ends {
    end: Arc<AtomicBool>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Ends {
    /// Ends the work with an exception.
    pub fn by(&self, e: PyErr) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
        self.end.store(true, Relaxed);
    }

    /// Calls something in Python; its exception ends the work. `None` then, and as long as the work goes on to its next
    /// look whether it has ended.
    pub fn ask<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.end.load(Relaxed) {
            return None;
        }
        Python::with_gil(call).map_err(|e| self.by(e)).ok()
    }
}

/// The caller of a run.
pub struct PyCaller {
    /// Called with a level of Python's logging and a text.
    log: Py<PyAny>,
    ends: Ends,
    /// Parts of the machine that are written in Python.
    places: Places,
    /// Whether signals are looked for here; Python does so in its main thread only.
    signals: bool,
    looked: Mutex<Instant>,
}

impl PyCaller {
    /// In the thread that called from Python.
    pub fn new(log: Py<PyAny>, cancel: Option<&Cancel>) -> PyCaller {
        PyCaller {
            signals: true,
            ..PyCaller::elsewhere(log, cancel.map_or_else(Arc::default, |c| c.0.clone()))
        }
    }

    /// In a thread of its own, which `end` ends.
    pub fn elsewhere(log: Py<PyAny>, end: Arc<AtomicBool>) -> PyCaller {
        PyCaller {
            log,
            ends: Ends {
                end,
                ..Ends::default()
            },
            places: Vec::new(),
            signals: false,
            looked: Mutex::new(Instant::now()),
        }
    }

    /// With parts of the machine that are written in Python.
    pub fn bringing(mut self, places: Places) -> PyCaller {
        self.places = places;
        self
    }

    /// How the work ends before its time.
    pub fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The exception by which Python has ended the work.
    pub fn raised(&self) -> Option<PyErr> {
        let mut raised = self
            .ends
            .raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        raised.take()
    }

    /// Whether the caller has ended the work.
    pub fn has_ended(&self) -> bool {
        self.ends.end.load(Relaxed)
    }

    fn tell(&self, level: u8, text: &str) {
        Python::with_gil(|py| {
            if let Err(e) = self.log.call1(py, (level, text)) {
                self.ends.by(e);
            }
        });
    }
}

impl Caller for PyCaller {
    fn note(&self, text: &str) {
        self.tell(INFO, text);
    }

    fn warning(&self, text: &str) {
        self.tell(WARNING, text);
    }

    fn progress(&self, step: Step<'_>) {
        match step {
            Step::Boot(what) => self.note(&format!(
                "booting {what} once; the next runs start from here"
            )),
            Step::Image(p) => self.note(&p.to_string()),
            Step::Done => {}
        }
    }

    fn interrupted(&self) -> Option<u8> {
        if self.signals && !self.has_ended() {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() >= LOOK {
                if let Err(e) = Python::with_gil(|py| py.check_signals()) {
                    self.ends.by(e);
                }
                *looked = Instant::now();
            }
        }
        self.has_ended().then_some(SIGINT)
    }

    fn machine(&self, machine: &mut Machine) -> nagori_session::Result<()> {
        Ok(own::place(machine, &self.places, &self.ends)?)
    }
}
