//! Runs from their start to their end.

use crate::caller::{Cancel, PyCaller};
use crate::errors::Failure;
use nagori_cli::library::{self, Ended};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What a run has left: its result as JSON, standard output, standard error.
type Left<'py> = (String, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

fn left<'py>(
    py: Python<'py>,
    caller: &PyCaller,
    work: impl FnOnce() -> anyhow::Result<Ended> + Send,
) -> PyResult<Left<'py>> {
    let ended = py
        .allow_threads(work)
        .map_err(|e| Failure::from(e).raise(caller))?;
    // What was ended by an exception has no result.
    if let Some(e) = caller.raised() {
        return Err(e);
    }
    Ok((
        ended.result.to_string(),
        PyBytes::new(py, &ended.output.stdout),
        PyBytes::new(py, &ended.output.stderr),
    ))
}

/// Runs a program as `nagori run` does with these options, with `stdin` as its input.
#[pyfunction]
#[pyo3(signature = (options, stdin, log, cancel))]
pub fn run<'py>(
    py: Python<'py>,
    options: Vec<String>,
    stdin: Option<&[u8]>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<Left<'py>> {
    let caller = PyCaller::new(log, cancel);
    left(py, &caller, || library::run(&options, stdin, &caller))
}

/// Runs a bare-metal program as `nagori bare` does with these options.
#[pyfunction]
#[pyo3(signature = (options, log, cancel))]
pub fn bare<'py>(
    py: Python<'py>,
    options: Vec<String>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<Left<'py>> {
    let caller = PyCaller::new(log, cancel);
    left(py, &caller, || library::bare(&options, &caller))
}
