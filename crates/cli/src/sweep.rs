//! `nagori sweep`: studies, which the Python package runs.

use crate::output::Exit;
use crate::python;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

/// Run studies: many runs over axes of machines, memories, programs, inputs, seeds.
///
/// A study is a file of TOML; its results are kept in a directory, so that an interrupted study goes on where it was,
/// and nothing is run twice. `nagori sweep --help` lists what there is to do. The Python package has the implementation
/// (docs/studies.md).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct SweepArgs {
    /// What to do, such as `run study.toml`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// Becomes the interpreter that runs the command.
pub fn command(a: &SweepArgs) -> anyhow::Result<Exit> {
    let mut command = python::module("nagori.sweep");
    command.args(&a.arguments);
    // It comes back only where it has failed.
    let e = command.exec();
    Err(python::missing(&command, e))
}
