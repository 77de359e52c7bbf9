//! `nagori sweep`: studies, which the Python package runs.

use crate::output::Exit;
use anyhow::{anyhow, Context};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The interpreter, unless the environment names another one.
const PYTHON: &str = "python3";
/// Names another interpreter.
const ENV: &str = "NAGORI_PYTHON";

/// What the interpreter is told. Where the package is missing, that is said, and how to get it.
const START: &str = "\
import sys
try:
    from nagori.sweep import main
except ModuleNotFoundError as e:
    if not (e.name or '').startswith('nagori'):
        raise
    sys.exit(f'error: studies are part of the Python package nagori, which {sys.executable} does not have: install its '
             'wheel (`make wheel`, docs/python.md), or name an interpreter that has it by NAGORI_PYTHON')
main()
";

/// Run studies: many runs over axes of machines, memories, programs, inputs, seeds.
///
/// A study is a file of TOML; its results are kept in a directory, so that an interrupted study goes on where it was, and
/// nothing is run twice. `nagori sweep --help` lists what there is to do. The Python package has the implementation
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
    let python = std::env::var_os(ENV).unwrap_or_else(|| PYTHON.into());
    let mut command = Command::new(&python);
    command.args(["-c", START]).args(&a.arguments);
    // It comes back only where it has failed.
    let e = command.exec();
    let name = python.to_string_lossy();
    Err(anyhow!(e)).with_context(|| {
        format!("`nagori sweep` needs Python 3.10 with the package nagori: cannot start {name} ({ENV} names another one)")
    })
}
