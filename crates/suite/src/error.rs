//! Failures of this crate.

use std::path::PathBuf;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A description, or another file of the suite, is wrong.
    #[error("{file}: {what}")]
    Description {
        /// Which one.
        file: String,
        /// What is wrong with it, and what would be right.
        what: String,
    },
    /// A request that is impossible.
    #[error("{0}")]
    Request(String),
    /// A file of the host.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file of results that cannot be understood.
    #[error("{}: {what}", path.display())]
    Results {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The compiler refused a program.
    #[error("cannot compile {program}:\n{output}")]
    Compile {
        /// Which one.
        program: String,
        /// The compiler's messages.
        output: String,
    },
    /// A machine, an image or a run.
    #[error(transparent)]
    Session(#[from] nagori_session::Error),
}

/// Turns an error of the host into one that names the file.
pub(crate) fn at(
    what: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}
