//! Descriptions of machines and memories, every value with unit and origin.

use crate::errors::Failure;
use nagori_config::{Library, Machine};
use pyo3::prelude::*;

fn load(name: &str, set: &[String]) -> Result<Machine, Failure> {
    Machine::load(&Library::installed(), name, set).map_err(|e| Failure(e.to_string()))
}

/// A machine's values as JSON: those of `nagori machine show --json`.
#[pyfunction]
pub fn machine(name: &str, set: Vec<String>) -> PyResult<String> {
    Ok(load(name, &set)?.to_json().to_string())
}

/// A machine's description as TOML, complete: it describes the same machine without any preset or change.
#[pyfunction]
pub fn machine_toml(name: &str, set: Vec<String>) -> PyResult<String> {
    let machine = load(name, &set)?;
    Ok(toml::to_string(&machine.config).map_err(|e| Failure(e.to_string()))?)
}

/// Names of the machines that can be named.
#[pyfunction]
pub fn machine_names() -> Vec<String> {
    Library::installed().machines()
}

/// A memory's values as JSON: those of `nagori mem show --json`.
#[pyfunction]
pub fn memory(name: &str, set: Vec<String>) -> PyResult<String> {
    let memory = nagori_memcfg::Memory::load(name, &set).map_err(|e| Failure(e.to_string()))?;
    Ok(memory.to_json().to_string())
}
