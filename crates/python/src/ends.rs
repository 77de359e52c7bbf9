//! How work ends before its time.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// How work ends before its time: because it is told to, or by an exception of what it has called in Python.
#[derive(Clone, Default)]
pub struct Ends {
    end: Arc<AtomicBool>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Ends {
    /// `end` ends the work, too.
    pub fn new(end: Arc<AtomicBool>) -> Ends {
        Ends {
            end,
            ..Ends::default()
        }
    }

    /// Whether the work has to end.
    pub fn now(&self) -> bool {
        self.end.load(Relaxed)
    }

    /// The exception by which it has ended.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ends the work with an exception.
    pub fn by(&self, e: PyErr) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
        self.end.store(true, Relaxed);
    }

    /// Calls something in Python; its exception ends the work. `None` then, and as long as the work goes on to its next
    /// look whether it has ended.
    pub fn ask<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.now() {
            return None;
        }
        Python::with_gil(call).map_err(|e| self.by(e)).ok()
    }
}
