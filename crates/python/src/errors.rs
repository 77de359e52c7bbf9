//! Failures as exceptions of Python, with the command's text.

use crate::caller::PyCaller;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::PyErr;

create_exception!(
    nagori,
    Error,
    PyException,
    "What was wrong, where, and what would be right."
);

/// A failure on its way to Python: its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    /// The exception; that of Python itself, such as KeyboardInterrupt, if it has ended the work.
    pub fn raise(self, caller: &PyCaller) -> PyErr {
        caller.raised().unwrap_or_else(|| self.into())
    }
}

impl From<Failure> for PyErr {
    fn from(f: Failure) -> PyErr {
        Error::new_err(f.0)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Failure {
        let mut text = String::new();
        for cause in e.chain().map(ToString::to_string) {
            // Transparent errors repeat their source.
            if text.ends_with(&cause) {
                continue;
            }
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
        Failure(text)
    }
}
