//! What can go wrong.

use nagori_memtime::board::Command;

/// Why a comparison ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line that is none of the known ones.
    #[error("line {line}: `{text}` is not understood: {why}")]
    Line {
        /// Number of the line.
        line: u64,
        /// Its text.
        text: String,
        /// What would be right.
        why: &'static str,
    },
    /// The hardware issued another command than the model.
    #[error("line {line}: command {number}: hardware {hardware}, model {model}")]
    Command {
        /// Number of the line that was read last.
        line: u64,
        /// Number of the command since the reset.
        number: u64,
        /// What the hardware did.
        hardware: String,
        /// What the model does.
        model: String,
    },
    /// A register differs.
    #[error("line {line}: clock {clock}, register {offset:#x}: hardware {hardware:#x}, model {model:#x}")]
    Register {
        /// Number of the line.
        line: u64,
        /// Clock of the read.
        clock: u64,
        /// Offset in the control block.
        offset: u64,
        /// Value in hardware.
        hardware: u64,
        /// Value in the model.
        model: u64,
    },
    /// A response came at another clock.
    #[error("line {line}: response at clock {hardware}, in the model {model:?}")]
    Response {
        /// Number of the line.
        line: u64,
        /// Clock in hardware.
        hardware: u64,
        /// Clock in the model, if it has answered.
        model: Option<u64>,
    },
    /// An answer of the I/O table differs.
    #[error("line {line}: `{operation}`: hardware {hardware}, model {model}")]
    Table {
        /// Number of the line.
        line: u64,
        /// What was asked.
        operation: String,
        /// The hardware's answer.
        hardware: String,
        /// The model's answer.
        model: String,
    },
    /// The model refuses what the hardware took.
    #[error("line {line}: the model refuses a request: {why}")]
    Refused {
        /// Number of the line.
        line: u64,
        /// The model's reason.
        why: String,
    },
    /// Nothing, or too little, was compared.
    #[error("{compared} commands were compared, and there should be {least} at least")]
    TooLittle {
        /// What was compared.
        compared: u64,
        /// What was demanded.
        least: u64,
    },
    /// A trace cannot be read.
    #[error("the trace: {0}")]
    Trace(#[from] nagori_memtrace::Error),
    /// A file or stream fails.
    #[error("input or output: {0}")]
    Io(#[from] std::io::Error),
    /// Wrong arguments.
    #[error("{0}")]
    Usage(String),
}

/// A command as text.
pub fn show(c: Option<&Command>) -> String {
    match c {
        Some(c) => format!(
            "{:?} at clock {} (bank {}, row {})",
            c.op, c.clock, c.bank, c.row
        ),
        None => "nothing".into(),
    }
}
