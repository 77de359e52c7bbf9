//! Errors of snapshots.

use crate::describe::Difference;
use nagori_config::ConfigError;
use nagori_machine::{LoadError, MachineError};
use nagori_ram::RamError;

/// A snapshot that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The host could not read or write.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is not a snapshot.
    #[error("not a snapshot of a Nagori machine")]
    NotASnapshot,
    /// The file was written by a program with another format.
    #[error("format {found} of snapshots; this program reads format {known} only: take the snapshot anew")]
    Format {
        /// Format of the file.
        found: u32,
        /// The one that is read.
        known: u32,
    },
    /// Parts of the state were written by a program that saves others.
    #[error("taken by nagori {program}, which saves other {}: take the snapshot anew", versions(.parts))]
    Parts {
        /// Version of the program that wrote the file.
        program: String,
        /// Each part, its version in the file (`None`: it has no such part) and the one that is read.
        parts: Vec<(&'static str, Option<u32>, u32)>,
    },
    /// The file ends too early.
    #[error("the file is incomplete ({0}); was it copied or written to its end?")]
    Truncated(&'static str),
    /// A debugger has stopped a hart at a place from which no snapshot can continue.
    #[error("a debugger has stopped a hart in the middle of a block of instructions: let the machine run, and take the \
        snapshot then")]
    WithinBlock,
    /// A part of the machine cannot be saved.
    #[error("{0} was brought along, and what it keeps is its own: such a machine cannot be saved")]
    Brought(String),
    /// The content does not match its checksum.
    #[error("the file is damaged: {0}")]
    Damaged(&'static str),
    /// The machine differs from the saved one.
    #[error("taken on another machine: {}", list(.0))]
    OtherMachine(Vec<Difference>),
    /// This program does not accept the description inside.
    #[error("the machine's description in the file: {0}")]
    Description(#[from] ConfigError),
    /// The state does not fit the machine.
    #[error(transparent)]
    State(#[from] LoadError),
    /// The machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Memory refused an access.
    #[error(transparent)]
    Ram(#[from] RamError),
    /// The state cannot be serialised or parsed.
    #[error("the state cannot be written: {0}")]
    Encode(String),
}

impl SnapshotError {
    /// What an encoder says.
    pub(crate) fn encode(e: impl std::fmt::Display) -> SnapshotError {
        SnapshotError::Encode(e.to_string())
    }
}

fn versions(parts: &[(&'static str, Option<u32>, u32)]) -> String {
    let part = |(name, found, known): &(&str, Option<u32>, u32)| match found {
        Some(found) => format!("{name} (version {found}; this program reads {known})"),
        None => format!("{name} (none; this program reads version {known})"),
    };
    let all: Vec<String> = parts.iter().map(part).collect();
    all.join(", ")
}

fn list(differences: &[Difference]) -> String {
    let all: Vec<String> = differences.iter().map(Difference::to_string).collect();
    all.join("; ")
}
