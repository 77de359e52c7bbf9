//! Whoever waits in Python for a run: receives its messages, and may end it.

use crate::ends::Ends;
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
            ends: Ends::new(end),
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
        self.ends.raised()
    }

    /// Whether the caller has ended the work.
    pub fn has_ended(&self) -> bool {
        self.ends.now()
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
