//! `nagori sweep`: studies, which the Python package runs.

use crate::python;
use clap::Args;
use nagori_terminal::output::Exit;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

const SWEEP_EXAMPLES: &str = "\
Commands (`nagori sweep COMMAND --help` has their options):
  run, list, show, verify, export, report, fit, watch, merge, gc, work

Examples:
  nagori sweep run study.toml --dry-run
  nagori sweep run study.toml
  nagori sweep run study.toml --slurm --tasks 16
  nagori sweep list study.toml --failed
  nagori sweep report study.toml --output study.html";

/// Run studies: many runs over axes of machines, memories, programs, inputs, seeds.
///
/// A study is a file of TOML; its results are kept in a directory, so that an interrupted study goes on where it was,
/// and nothing is run twice. The Python package has the implementation (docs/studies.md).
#[derive(Debug, Args)]
#[command(after_long_help = SWEEP_EXAMPLES)]
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
