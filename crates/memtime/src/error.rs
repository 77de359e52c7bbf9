//! What can be wrong with what a caller gives.

use crate::period::Period;
use crate::units::Ps;

/// Errors of this crate. Every message says what, where and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is no time.
    #[error("'{0}' is not a time: write a number and one of s, ms, us, ns, ps (\"1000 ns\"), a whole number of picoseconds")]
    Time(String),
    /// Text that is no period of a clock.
    #[error("'{0}' is not a clock: write its period or its frequency with a unit, as a decimal or a fraction (\"5 ns\", \"937.5 ps\", \"200/3 MHz\"), 1 THz at most")]
    Period(String),
    /// A length of time that is asked for in whole clocks.
    #[error("{length} is no whole number of clocks of {clock}: the nearest that are one are {below} and {above}")]
    PartOfClock {
        /// The length.
        length: Ps,
        /// The clock.
        clock: Period,
        /// The longest shorter one.
        below: Ps,
        /// The shortest longer one.
        above: Ps,
    },
    /// A parameter out of its range.
    #[error("{field} = {value}: {expected}")]
    Param {
        /// Path of the field, as in the serialised parameters.
        field: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// A part that cannot change while a controller runs.
    #[error(
        "{field} cannot change while the controller runs ({from} to {to}): make a new controller"
    )]
    Fixed {
        /// Path of the field.
        field: &'static str,
        /// Value in use.
        from: String,
        /// Value asked for.
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
    /// A device or controller description that does not hold together.
    #[error("{place}: {problem}")]
    Spec {
        /// Name of the device or controller and path inside its description.
        place: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Something this model does not have.
    #[error("{model} has no {what}")]
    Unsupported {
        /// Name of the model.
        model: String,
        /// What was asked for.
        what: String,
    },
    /// A saved state that does not fit.
    #[error("saved memory controller state: {0}")]
    Snapshot(String),
}
