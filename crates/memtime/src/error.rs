//! Errors of this crate.

use crate::period::PartOfClock;
use crate::units::{Ps, UnitError};

/// Errors of this crate. Every message says what is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is no time, or no clock.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A length of time that must be a whole number of clocks, but is not.
    #[error(transparent)]
    PartOfClock(#[from] PartOfClock),
    /// A parameter out of its range.
    #[error("{field} = {value}: {expected}")]
    Param {
        /// Path of the field, as in the serialised parameters.
        field: &'static str,
        /// The value given.
        value: String,
        /// What would be valid.
        expected: String,
    },
    /// A change to a parameter that cannot change while a controller runs.
    #[error(
        "{field} cannot change while the controller runs ({from} to {to}): make a new controller"
    )]
    Fixed {
        /// Path of the field.
        field: &'static str,
        /// Current value.
        from: String,
        /// Requested value.
        to: String,
    },
    /// A request outside the memory.
    #[error("request of {bytes} bytes at offset {addr:#x}: the memory has {capacity:#x} bytes")]
    OutOfRange {
        /// First byte, from the start of memory.
        addr: u64,
        /// Length in bytes.
        bytes: u32,
        /// Size of the memory in bytes.
        capacity: u64,
    },
    /// A request of an impossible size, or one that crosses a line.
    #[error("request of {bytes} bytes at offset {addr:#x}: 1 to 64 bytes inside one 64-byte line are possible")]
    Size {
        /// First byte, from the start of memory.
        addr: u64,
        /// Length in bytes.
        bytes: u32,
    },
    /// A time beyond what the model can represent.
    #[error("time {0} is beyond the latest time of the model, {max}", max = Ps::MAX_TIME)]
    TooLate(Ps),
    /// A latency expression that cannot be read or evaluated.
    #[error("expression '{text}': {problem}")]
    Expr {
        /// The expression.
        text: String,
        /// What is wrong, with the place in it.
        problem: String,
    },
    /// An inconsistent device or controller description.
    #[error("{place}: {problem}")]
    Spec {
        /// Name of the device or controller and path inside its description.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A feature that this model does not have.
    #[error("{model} has no {what}")]
    Unsupported {
        /// Name of the model.
        model: String,
        /// The requested feature.
        what: String,
    },
    /// A saved state that is damaged or belongs to another memory.
    #[error("saved memory controller state: {0}")]
    SavedState(String),
}
