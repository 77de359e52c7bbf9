//! Crash exploration, with a checker in Python.

use crate::caller::{Cancel, PyCaller};
use crate::run::value;
use nagori_cli::library;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Explores as `nagori crash` does with these options, and returns its report as JSON. `checker`, if given, is called
/// with the output and the labels of each recovery that has succeeded; what it returns is what is wrong, or `None`.
#[pyfunction]
#[pyo3(signature = (options, checker, log, cancel))]
pub fn crash(
    py: Python<'_>,
    options: Vec<String>,
    checker: Option<Py<PyAny>>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<String> {
    let caller = PyCaller::new(log, cancel);
    value(py, &caller, |caller| {
        let asked = |output: &[u8], labels: &[String]| -> Result<Option<String>, String> {
            let Some(checker) = &checker else {
                return Ok(None);
            };
            Python::with_gil(|py| {
                let said = checker.call1(py, (PyBytes::new(py, output), labels.to_vec()))?;
                said.extract::<Option<String>>(py)
            })
            .map_err(|e| {
                let text = e.to_string();
                caller.ends().by(e);
                text
            })
        };
        let checker = checker.is_some().then_some(&asked as &library::Checker<'_>);
        library::crash(&options, checker, caller)
    })
}
