//! The `nagori` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(nagori_cli::command(std::env::args_os()))
}
