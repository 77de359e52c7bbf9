//! Errors of Debian's archive.

use std::path::PathBuf;

/// Every failure of this crate, with what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No mirror is known.
    #[error(
        "no Debian mirror is known: apt's sources on this host name none; \
         give one with --mirror URL or NAGORI_MIRROR=URL (the directory that holds `dists` and `pool`)"
    )]
    NoMirror,

    /// A mirror that cannot be asked.
    #[error("the mirror `{uri}` cannot be used: {why}")]
    BadMirror {
        /// As given.
        uri: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },

    /// A name that becomes part of a path or an address contains characters that are not allowed.
    #[error("the {what} `{value}` is not a valid name: letters, digits and `.+-_` only")]
    BadName {
        /// What the name is for.
        what: &'static str,
        /// As given.
        value: String,
    },

    /// Something is not in the cache, and the network is not to be used.
    #[error("{what} is not in the cache, and --offline forbids to fetch it: run it once without --offline, or take \
        over an image with `nagori image import`")]
    Offline {
        /// What is missing.
        what: String,
    },

    /// A server cannot be reached, or the transfer broke off each time.
    #[error("{url} cannot be fetched: {why}")]
    Network {
        /// The address.
        url: String,
        /// The last failure.
        why: String,
    },

    /// A server answers that it does not have it, or refuses it.
    #[error("{url} cannot be fetched: the server answers {status}")]
    Status {
        /// The address.
        url: String,
        /// HTTP's status code.
        status: u16,
    },

    /// The signature of a release file is not accepted.
    #[error("{what}: its signature is not accepted: {why}")]
    Signature {
        /// The release file.
        what: String,
        /// The reason.
        why: String,
    },

    /// A release file that is no longer valid, or not yet.
    #[error("{what} {why}")]
    Time {
        /// The release file.
        what: String,
        /// Which date is wrong.
        why: String,
    },

    /// A file is not what the signed index says.
    #[error("{what} is not what the signed index says: {found}, expected {expected}")]
    Hash {
        /// The file's origin.
        what: String,
        /// Size or SHA-256 of the index.
        expected: String,
        /// The file's.
        found: String,
    },

    /// A file cannot be understood.
    #[error("{what}: {why}")]
    Format {
        /// The file.
        what: String,
        /// Where and why.
        why: String,
    },

    /// A package is not in the index, or its record there lacks something.
    #[error("package `{name}` of Debian {suite} (riscv64): {what}")]
    Package {
        /// The package, or several.
        name: String,
        /// The suite.
        suite: String,
        /// What is missing or wrong.
        what: String,
    },

    /// A package file cannot be read.
    #[error("the package file {}: {why}", file.display())]
    Deb {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// An error of the host's file system.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb for the message.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait IoContext<T> {
    /// `what` is a verb: "read", "create".
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            what,
            path: path.into(),
            source,
        })
    }
}
