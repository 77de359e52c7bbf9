//! The extension module `nagori._nagori`: what the Python package needs of Rust, and no more.
//!
//! Requests are the command's options, results its JSON; what is large crosses as bytes. The package in `python/nagori`
//! gives them names and types. Nothing here knows how a machine works.
#![forbid(unsafe_code)]

mod caller;
mod crash;
mod describe;
mod ends;
mod errors;
mod gate;
mod live;
mod memory;
mod own;
mod run;

use pyo3::prelude::*;

#[pymodule]
mod _nagori {
    use pyo3::prelude::*;
    use std::ffi::OsString;

    #[pymodule_export]
    use super::caller::Cancel;
    #[pymodule_export]
    use super::crash::crash;
    #[pymodule_export]
    use super::describe::{machine, machine_names, machine_toml, memory};
    #[pymodule_export]
    use super::errors::Error;
    #[pymodule_export]
    use super::live::Live;
    #[pymodule_export]
    use super::memory::play;
    #[pymodule_export]
    use super::run::{bare, check, image, mem, option_names, run, window};

    /// Does what the command does with these arguments, the first of which is its name; its exit code.
    #[pyfunction]
    fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
        py.allow_threads(|| nagori_cli::command(args))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Of the package and of the command.
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        // Of the sources on which figures depend.
        module.add("MODEL", nagori_cli::library::MODEL)
    }
}
