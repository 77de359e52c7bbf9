use std::io;
use std::path::{Path, PathBuf};

/// Errors of images of NVMM.
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
    #[error("{}: in use by another machine; a clone of its own for each (`nagori nvmm clone`), or `overlay=temp` and \
        `ro` for all, would work", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is no image.
    #[error("{}: not an image of NVMM: {problem}", path.display())]
    NoImage {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The image is damaged.
    #[error("{}: damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The image is that of another machine.
    #[error("{}: {problem}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io {
            path: path.clone(),
            doing,
            source,
        }
    }
}
