//! Translation of blocks of guest code to code of the host (x86-64).
//!
//! The translator is an [`Engine`](nagori_hart::engine::Engine): it runs the interpreter's blocks,
//! one by one, with the same costs, and returns to the interpreter whatever it does not do itself.
//! Everything also runs without it. On other hosts [`Translator::new`] is an error.

// The assembler's macros convert every register number.
#![allow(clippy::useless_conversion)]

#[cfg(target_arch = "x86_64")]
mod arena;
#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod jumps;
pub mod listing;
#[cfg(not(target_arch = "x86_64"))]
mod none;
#[cfg(target_arch = "x86_64")]
mod regs;
mod stats;
#[cfg(target_arch = "x86_64")]
mod stubs;
#[cfg(target_arch = "x86_64")]
mod translator;

#[cfg(not(target_arch = "x86_64"))]
pub use none::Translator;
pub use stats::{Measured, Reason, Stats};
#[cfg(target_arch = "x86_64")]
pub use translator::Translator;

/// Errors of the translator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host gives no memory for code.
    #[error("cannot map memory for translated code: {0} (is executable memory forbidden here?)")]
    Memory(#[source] std::io::Error),
    /// There is no translator for this host.
    #[error("there is no translator for hosts of this architecture")]
    Host,
    /// The memory for code is too small for the code that all blocks share.
    #[error(
        "the memory for translated code is too small: at least {} bytes are needed",
        Options::LEAST_BYTES
    )]
    Full,
}

/// Code of one block, in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Host address of its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u32,
    /// The guest's address of the block when it was translated.
    pub pc: u64,
    /// Whether it has timing.
    pub timed: bool,
}

/// The options of a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of memory for code, of each hart. At least [`Options::LEAST_BYTES`].
    pub code_bytes: usize,
    /// How often a block is interpreted before it is translated.
    pub threshold: u8,
}

impl Options {
    /// Least size of the memory for code.
    pub const LEAST_BYTES: usize = 64 << 10;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            code_bytes: 32 << 20,
            threshold: 8,
        }
    }
}
