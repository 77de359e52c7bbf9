//! What a line of a text is, or why it is nothing.

use std::fmt;

use crate::record::Record;

/// Content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An access.
    Record(Record),
    /// A packet of gem5 that is neither a read nor a write request.
    Other,
}

/// Why a line is no record of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It ends before all fields have come; the ones that are there are right.
    Short(String),
    /// A field that the format does not have there.
    Field(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Short(what) | Wrong::Field(what) => f.write_str(what),
        }
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Wrong {
        Wrong::Field(what)
    }
}
