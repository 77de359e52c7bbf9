//! The `nagori` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(nagori_cli::command(std::env::args_os()))
}
