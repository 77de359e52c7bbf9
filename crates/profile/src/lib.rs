//! Which code waits for memory: every transfer of a line is attributed to the code that caused it.
//!
//! [`Profile`] collects while a machine runs, [`Symbols`] name addresses, [`pprof`] and [`folded`]
//! write the result. Nothing here changes the guest or its time.
#![forbid(unsafe_code)]

pub mod folded;
pub mod kernel;
mod lines;
pub mod pprof;
mod profile;
mod symbols;
mod unwind;

pub use lines::Lines;
pub use profile::{Counted, Frames, Key, Profile, Region, Space, Values};
pub use symbols::{Symbol, Symbols};

/// A symbol file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The format of the file is unknown.
    #[error("{file} is neither an ELF file nor a list of symbols (lines `ADDRESS TYPE NAME`): {problem}")]
    Symbols {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The line table of an ELF file cannot be read.
    #[error("{file} has no line table that can be read: {problem}")]
    Lines {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The host cannot write the result.
    #[error("cannot write the profile: {0}")]
    Write(#[from] std::io::Error),
}
