//! Errors while a guest image is built.

use std::path::PathBuf;

/// Every failure of this crate, with what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program of the host is not installed.
    #[error("`{tool}` is not installed; it is in the Debian package(s) {packages}: apt-get install {packages}")]
    ToolMissing {
        /// The program.
        tool: String,
        /// The Debian packages that contain it, separated by spaces.
        packages: &'static str,
    },

    /// Debian's archive: the mirror, its signature, a package.
    #[error(transparent)]
    Archive(#[from] nagori_debian::Error),

    /// A file with images cannot be written or taken over.
    #[error("the file with images {0}")]
    Bundle(String),

    /// Another failure of a program of the host.
    #[error("{what}: `{command}` failed ({status}):\n{output}")]
    Command {
        /// The operation.
        what: String,
        /// The program.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of its error output.
        output: String,
    },

    /// A package was downloaded but lacks expected contents.
    #[error("package `{name}` does not hold what is needed: {what}")]
    Contents {
        /// The package.
        name: String,
        /// What is missing or wrong.
        what: String,
    },

    /// An entry of a package's archive cannot be put into a root file system.
    #[error("`{path}` of a package cannot be installed: {why}")]
    Entry {
        /// The entry, as the archive names it.
        path: String,
        /// What is wrong with it.
        why: String,
    },

    /// An impossible specification of a root file system.
    #[error("root file system: {0}")]
    Rootfs(String),

    /// A step in a machine for a root file system has failed.
    #[error("root file system: {what}; the machine says:\n{output}")]
    Install {
        /// Package or script, and how it ended.
        what: String,
        /// The last lines of its console.
        output: String,
    },

    /// A kernel module is not available.
    #[error("kernel module `{name}`: {what}")]
    Module {
        /// As requested, or as a dependency of another module.
        name: String,
        /// What is wrong.
        what: String,
    },

    /// A guest program does not compile.
    #[error("guest program `{program}` does not compile:\n{output}")]
    Compile {
        /// The program.
        program: String,
        /// The compiler's messages.
        output: String,
    },

    /// A path given for the guest's file system is not usable.
    #[error("`{path}` is not a usable path in the guest: {why}")]
    GuestPath {
        /// As given.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },

    /// Neither a cache directory nor a home directory is set.
    #[error("no cache directory: set XDG_CACHE_HOME or HOME, or name a directory with --cache DIR or NAGORI_CACHE")]
    NoCacheDir,

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
