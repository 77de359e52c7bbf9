//! Runs from their start to their end.

use crate::caller::{Cancel, PyCaller};
use crate::errors::Failure;
use crate::own::Places;
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

/// Runs a program as `nagori run` does with these options, with `stdin` as its input, and `own` in the machine.
#[pyfunction]
#[pyo3(signature = (options, stdin, own, log, cancel))]
pub fn run<'py>(
    py: Python<'py>,
    options: Vec<String>,
    stdin: Option<&[u8]>,
    own: Places,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<Left<'py>> {
    let caller = PyCaller::new(log, cancel).bringing(own);
    left(py, &caller, || library::run(&options, stdin, &caller))
}

/// Runs a bare-metal program as `nagori bare` does with these options, with `own` in the machine.
#[pyfunction]
#[pyo3(signature = (options, own, log, cancel))]
pub fn bare<'py>(
    py: Python<'py>,
    options: Vec<String>,
    own: Places,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<Left<'py>> {
    let caller = PyCaller::new(log, cancel).bringing(own);
    left(py, &caller, || library::bare(&options, &caller))
}

/// Checks the options of commands, and nothing that lies behind them: what is wrong with each.
#[pyfunction]
pub fn check(commands: Vec<Vec<String>>) -> Vec<Option<String>> {
    library::check(&commands)
}

/// The names of a command's options, without dashes before them.
#[pyfunction]
pub fn option_names(command: &str) -> Vec<String> {
    library::option_names(command)
}

/// The guest's software that a command with these options starts from, as JSON; it is built if it is not there.
#[pyfunction]
#[pyo3(signature = (options, log, cancel))]
pub fn image(
    py: Python<'_>,
    options: Vec<String>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<String> {
    value(py, &PyCaller::new(log, cancel), |caller| {
        library::image(&options, caller)
    })
}

/// Plays a trace as `nagori mem run` does with these options: the report as JSON.
#[pyfunction]
#[pyo3(signature = (options, log, cancel))]
pub fn mem(
    py: Python<'_>,
    options: Vec<String>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<String> {
    value(py, &PyCaller::new(log, cancel), |caller| {
        library::mem(&options, caller)
    })
}

/// Measures windows of sampled runs as `nagori window run` does with these options: each of them, as JSON.
#[pyfunction]
#[pyo3(signature = (options, log, cancel))]
pub fn window(
    py: Python<'_>,
    options: Vec<String>,
    log: Py<PyAny>,
    cancel: Option<&Cancel>,
) -> PyResult<String> {
    value(py, &PyCaller::new(log, cancel), |caller| {
        library::window(&options, caller)
    })
}

/// What work has as its result, as JSON.
pub(crate) fn value(
    py: Python<'_>,
    caller: &PyCaller,
    work: impl FnOnce(&PyCaller) -> anyhow::Result<serde_json::Value> + Send,
) -> PyResult<String> {
    let value = py
        .allow_threads(|| work(caller))
        .map_err(|e| Failure::from(e).raise(caller))?;
    match caller.raised() {
        Some(e) => Err(e),
        None => Ok(value.to_string()),
    }
}
