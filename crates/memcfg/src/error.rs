//! Errors in memory descriptions.

use std::fmt;
use std::sync::Arc;

use nagori_values::hint;

/// A place in a file; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, `builtin:NAME.toml`, or `--set`; shared by all values of one.
    pub file: Arc<str>,
    /// Line and column, where known.
    pub at: Option<(usize, usize)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Errors of this crate. Every message says what is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No memory has this name.
    #[error("there is no memory `{name}`{hint}; known are: {known} (a path must contain `/` or end in \
        .toml)", hint = hint(.name, .known.split(", ")))]
    NotFound {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
    /// The text is not TOML.
    #[error("{place}: not valid TOML: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        problem: String,
    },
    /// A key that is unknown, missing, of the wrong type, out of range, or in
    /// contradiction with others.
    #[error("{place}: `{key}`: {problem}")]
    Invalid {
        /// Where.
        place: Place,
        /// Dotted path of the key.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A setting that is not `key=value`.
    #[error(
        "`{0}` is no setting: expected key=value, such as timings.tRCD=\"15 ns\" or controller.read_queue=64"
    )]
    Setting(String),
    /// The model refuses the resolved description.
    #[error("{file}: {problem}")]
    Model {
        /// The description.
        file: String,
        /// The model's message.
        problem: nagori_memtime::Error,
    },
}
