use std::io;
use std::path::PathBuf;

/// Errors of a disk's files, or of a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host's file system reports an error.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Another process has the file.
    #[error("{}: in use by another machine; give each its own overlay, or all read-only access", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be a disk.
    #[error("{}: {problem}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The overlay's map or header is damaged.
    #[error("{}: damaged: {problem}", path.display())]
    Damaged {
        /// The overlay.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The overlay belongs to another base, or the base has changed.
    #[error("{}: made for another state of its base: {problem}", path.display())]
    Base {
        /// The overlay.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// A request past the end.
    #[error("{len} bytes at {offset:#x} pass the end of the disk at {size:#x}")]
    Range {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Size of the disk in bytes.
        size: u64,
    },
    /// A write to a read-only disk.
    #[error("the disk is read-only")]
    ReadOnly,
}

impl Error {
    pub(crate) fn io(path: &std::path::Path, doing: &'static str) -> impl Fn(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io {
            path: path.clone(),
            doing,
            source,
        }
    }
}
