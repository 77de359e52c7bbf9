//! The epoch method on real processors: programs, processes and virtual machines of this host run as if its memory were
//! slower.
//!
//! - [`processors`]: which events of which processor give the counts of the method, as data.
//! - [`host`]: what this host is.
//! - [`source`]: where counts come from: counters of the processor ([`source::perf`]), a recorded stream, a synthetic
//!   one.
//! - [`check`]: whether the host can do what is asked, and if not, why. Nothing runs without a passed check.
//! - [`method`]: latencies and formulas as files.
//! - [`monitor`]: threads, their epochs and accounts.
//! - [`own`]: programs that are started here, with a helper in C that is loaded into them and waits there.
//! - [`foreign`]: threads of others, which are stopped from outside.
//! - [`qmp`]: threads that are virtual CPUs of a QEMU.
//! - [`calibrate`]: the latencies of this host.
//!
//! docs/native.md describes use and limits.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod check;
pub mod counter;
pub mod foreign;
pub mod host;
pub mod method;
pub mod monitor;
pub mod own;
pub mod processors;
pub mod qmp;
pub mod source;

use thiserror::Error as ThisError;

/// Why nothing was run, or why a run ended.
#[derive(Debug, ThisError)]
pub enum Error {
    /// The host cannot do what is asked.
    #[error("{0}")]
    Unusable(#[from] source::Unusable),
    /// Parameters or counts are refused.
    #[error("{0}")]
    Epoch(#[from] nagori_epoch::Error),
    /// The program cannot be emulated.
    #[error("{program}: {why}")]
    Program {
        /// Which program.
        program: String,
        /// Why.
        why: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// QEMU's monitor does not answer as it should.
    #[error("QMP socket {socket}: {why}")]
    Qmp {
        /// Its path.
        socket: String,
        /// What was wrong.
        why: String,
    },
    /// The emulation was not complete.
    #[error("{0}")]
    Incomplete(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, error: impl Into<std::io::Error>) -> Error {
        Error::Io {
            what: what.into(),
            error: error.into(),
        }
    }
}
