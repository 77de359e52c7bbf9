//! Errors of traces.

use std::io;

/// Errors of this crate. Every message says what is wrong, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace cannot be read or written.
    #[error("{name}: {source}")]
    Io {
        /// Name of the trace.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A line of a text format, or a record of a binary one, is malformed.
    #[error("{name}, {place}: {what}")]
    Malformed {
        /// Name of the trace.
        name: String,
        /// Where in it.
        place: Place,
        /// What is wrong and what would be right.
        what: String,
    },
    /// Data ends where more must follow.
    #[error("{name}, after {place}: the data end too early: the file is truncated (copy or make it again)")]
    Truncated {
        /// Name of the trace.
        name: String,
        /// The last complete part.
        place: Place,
    },
    /// Compressed data are damaged.
    #[error("{name}, after {place}: the compressed data are damaged: {what}")]
    Damaged {
        /// Name of the trace.
        name: String,
        /// The last complete part.
        place: Place,
        /// What the decompressor says.
        what: String,
    },
    /// Something else follows compressed data.
    #[error("{name}, after {place}: bytes that are no {compression} data follow the compressed data, which are whole: \
        remove them, or make the file again")]
    Trailing {
        /// Name of the trace.
        name: String,
        /// The last complete part.
        place: Place,
        /// How the data are compressed.
        compression: &'static str,
    },
    /// The format cannot be recognised, or is not the requested one.
    #[error("{name}: {what}")]
    Format {
        /// Name of the trace.
        name: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// A request that the memory model refuses.
    #[error("{name}, {place}: {source}{remedy}")]
    Model {
        /// Name of the trace.
        name: String,
        /// Where in it.
        place: Place,
        /// The model's message.
        source: Box<nagori_memtime::Error>,
        /// What could be done about it, if anything.
        remedy: &'static str,
    },
    /// An option that conflicts with others or with the trace.
    #[error("{0}")]
    Option(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A place in a trace, counted from 1; 0 is its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Line of a text format.
    Line(u64),
    /// Record of a binary or generated trace.
    Record(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Line(n) => write!(f, "line {n}"),
            Place::Record(n) => write!(f, "record {n}"),
        }
    }
}
