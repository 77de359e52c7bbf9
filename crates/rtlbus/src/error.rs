//! The library's errors.

use std::path::PathBuf;

/// What is wrong with a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option or its value.
    #[error("{0}")]
    Usage(String),
    /// The machine's description.
    #[error(transparent)]
    Machine(#[from] nagori_config::ConfigError),
    /// The program.
    #[error(transparent)]
    Program(#[from] nagori_platform::loader::LoadError),
    /// The devices.
    #[error(transparent)]
    Devices(#[from] nagori_platform::bus::MapError),
    /// The host has no memory for the machine.
    #[error(transparent)]
    Ram(#[from] nagori_ram::RamError),
    /// The memory controller: its parameters, or a request that is not possible.
    #[error(transparent)]
    Memory(#[from] nagori_memtime::Error),
    /// A file that cannot be written.
    #[error("cannot write {}: {problem}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        problem: std::io::Error,
    },
}
