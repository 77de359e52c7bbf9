//! Commands of the Python package.

use std::process::Command;

/// The interpreter, unless the environment names another one.
const PYTHON: &str = "python3";
/// Names another interpreter.
pub const ENV: &str = "NAGORI_PYTHON";

/// What the interpreter is told. Where the package is missing, that is said, and how to get it.
fn start(module: &str) -> String {
    format!(
        "\
import sys
try:
    from {module} import main
except ModuleNotFoundError as e:
    if not (e.name or '').startswith('nagori'):
        raise
    sys.exit(f'error: this is done by the Python package nagori, which {{sys.executable}} does not have: install its '
             'wheel (`make wheel`, docs/python.md), or name an interpreter that has it by {ENV}')
main()
"
    )
}

/// The interpreter with a module whose `main` has the arguments that are to follow.
pub fn module(module: &str) -> Command {
    let python = std::env::var_os(ENV).unwrap_or_else(|| PYTHON.into());
    let mut command = Command::new(python);
    command.arg("-c").arg(start(module));
    command
}

/// The error of an interpreter that cannot be started.
pub fn missing(command: &Command, e: std::io::Error) -> anyhow::Error {
    let name = command.get_program().to_string_lossy().into_owned();
    anyhow::Error::new(e).context(format!(
        "Python 3.10 with the package nagori is needed: cannot start {name} ({ENV} names another one)"
    ))
}
