//! This program once more, as a process of its own.

use anyhow::Context;
use nagori_session::snapshot::cache::loaded_from;
use std::process::Command;

/// The command `nagori` without arguments, however this process was started.
pub fn command() -> anyhow::Result<Command> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let code = loaded_from().context("cannot find the file of this program")?;
    if code == this {
        return Ok(Command::new(this));
    }
    // Python has loaded a library, whose package is a command, too. The name by which it was called says where its
    // packages are.
    let python = std::env::args_os()
        .next()
        .context("this program has no name")?;
    let mut command = Command::new(python);
    command.args(["-m", "nagori"]);
    Ok(command)
}
