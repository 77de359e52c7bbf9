//! Errors of runs.

use nagori_config::ConfigError;
use nagori_machine::{BroughtError, MachineError};
use nagori_platform::bus::MapError;
use nagori_platform::devices::virtio::{MediumError, QueueError};
use nagori_platform::fdt::FdtError;
use nagori_platform::loader::LoadError;
use nagori_ram::RamError;
use nagori_snapshot::SnapshotError;
use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a service from outside this crate.
pub type Foreign = Box<dyn StdError + Send + Sync>;

/// Work that its caller has ended early: not a failure of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ended by signal {0}")]
pub struct Interrupted(
    /// Number of the signal that stands for the wish.
    pub u8,
);

/// Every failure of this crate. Its cause is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller wants the work to end ([`Caller::interrupted`](crate::Caller::interrupted)).
    #[error(transparent)]
    Interrupted(#[from] Interrupted),

    /// An operation during which the source failed.
    #[error("{what}")]
    During {
        /// The operation, and what can be done about the failure.
        what: String,
        /// The failure. In the chain of sources it appears as a `Box<Error>`.
        source: Box<Error>,
    },

    /// A request that is impossible or contradictory.
    #[error("{0}")]
    Request(String),

    /// The program cannot be run: wrong architecture, truncated, not executable.
    #[error("{0}")]
    Program(String),

    /// There is no such program.
    #[error("{0}")]
    NoProgram(String),

    /// The guest did something after which the run cannot continue: it violated a protocol,
    /// restarted, or switched itself off.
    #[error("{0}")]
    Guest(String),

    /// An error of the host: a file, a terminal, a socket.
    #[error(transparent)]
    Io(#[from] io::Error),

    /// A cache directory that cannot be written.
    #[error("the cache directory {} cannot be written: name another one with --cache DIR or \
        NAGORI_CACHE=DIR", dir.display())]
    Unwritable {
        /// The directory.
        dir: PathBuf,
        /// The operation that failed.
        source: Box<Error>,
    },

    /// The caller brings along what the machine has no place for.
    #[error(transparent)]
    Brought(#[from] BroughtError),

    /// The machine's description is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// The machine cannot be built, or changed as requested.
    #[error(transparent)]
    Machine(#[from] MachineError),

    /// Two devices use the same addresses or interrupt.
    #[error(transparent)]
    Map(#[from] MapError),

    /// A kernel, an ELF or another file cannot be placed in memory.
    #[error(transparent)]
    Load(#[from] LoadError),

    /// The guest's memory at an address does not exist.
    #[error(transparent)]
    Ram(#[from] RamError),

    /// The device tree cannot be made.
    #[error(transparent)]
    Tree(#[from] FdtError),

    /// A snapshot cannot be written, read or used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),

    /// An image of the guest cannot be built or found.
    #[error(transparent)]
    Image(#[from] nagori_image::Error),

    /// A disk's file.
    #[error(transparent)]
    Disk(#[from] nagori_disk::Error),

    /// A disk does not match that of the guest.
    #[error(transparent)]
    Medium(#[from] MediumError),

    /// A shared folder.
    #[error(transparent)]
    Share(#[from] nagori_ninep::Error),

    /// A network.
    #[error(transparent)]
    Network(#[from] nagori_usernet::Error),

    /// The guest's driver of a device broke the rules.
    #[error(transparent)]
    Queue(#[from] QueueError),

    /// A service that the caller has added to the run has failed.
    #[error(transparent)]
    Service(Foreign),
}

impl Error {
    /// The error of a service from outside this crate.
    pub fn service(e: impl Into<Foreign>) -> Error {
        Error::Service(e.into())
    }

    /// The signal, if this stands for the caller's wish to end, whatever was being done.
    pub fn interrupted(&self) -> Option<u8> {
        match self {
            Error::Interrupted(i) => Some(i.0),
            Error::During { source, .. } | Error::Unwritable { source, .. } => source.interrupted(),
            _ => None,
        }
    }

    /// The exit code of a shell for a program that cannot be run, if this is the reason: 127 if there is none, else
    /// 126.
    pub fn shell_code(&self) -> Option<u8> {
        match self {
            Error::Program(_) => Some(126),
            Error::NoProgram(_) => Some(127),
            Error::During { source, .. } => source.shell_code(),
            _ => None,
        }
    }

    /// The error and all its causes, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(e) = next {
            let cause = e.to_string();
            // Transparent errors repeat their source.
            if !text.ends_with(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
            next = e.source();
        }
        text
    }
}

impl From<nagori_ninep::FolderError> for Error {
    fn from(e: nagori_ninep::FolderError) -> Error {
        Error::Share(e.into())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(e: rustix::io::Errno) -> Error {
        Error::Io(e.into())
    }
}

/// Adds the operation during which something failed.
pub(crate) trait Context<T> {
    /// As a given text.
    fn context(self, what: impl Into<String>) -> Result<T>;
    /// As a text that is only made if it is needed.
    fn with_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.with_context(|| what)
    }

    fn with_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|e| Error::During {
            what: what().into(),
            source: Box::new(e.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_once_in_their_order() {
        let io = io::Error::from_raw_os_error(2);
        let e = Err::<(), _>(io).context("cannot read a").unwrap_err();
        let e = Err::<(), _>(e).context("the boot").unwrap_err();
        let text = "the boot: cannot read a: No such file or directory (os error 2)";
        assert_eq!(e.chain(), text);
        assert_eq!(e.interrupted(), None);
        // What a caller looks for in the chain, such as a broken pipe, is found.
        let mut source: Option<&dyn StdError> = Some(&e);
        let mut found = false;
        while let Some(s) = source {
            let io = |e: &Error| matches!(e, Error::Io(io) if io.raw_os_error() == Some(2));
            found |= s.downcast_ref::<Box<Error>>().is_some_and(|e| io(e));
            source = s.source();
        }
        assert!(found);
    }

    #[test]
    fn an_interruption_is_found_behind_what_was_being_done() {
        let e = Err::<(), _>(Interrupted(15)).context("the boot failed");
        assert_eq!(e.unwrap_err().interrupted(), Some(15));
    }
}
