//! Memory traces, the input of main-memory simulators, and the driver that plays them.
//!
//! - [`Format`]: the formats of Ramulator 2, DRAMsim3, NVMain and gem5, and a
//!   compact binary one of our own; all may be compressed (gzip, zstd);
//! - [`input::open`]: reads any of them as a stream, in constant memory;
//! - [`output::Writer`]: writes them;
//! - [`convert`]: takes a trace from one format to another;
//! - [`gen`]: generates traces of known patterns from a seed;
//! - [`drive`]: plays a trace into a [`MemoryModel`](nagori_memtime::MemoryModel)
//!   and measures what the requester sees.
//!
//! Nothing is guessed: a line that does not fit its format, and data that ends too early, are
//! errors that name file and line.
#![forbid(unsafe_code)]

pub mod binary;
pub mod bus;
pub mod convert;
mod detect;
pub mod drive;
pub mod error;
pub mod format;
pub mod gem5;
pub mod gen;
pub mod input;
mod line;
pub mod lines;
pub mod measure;
mod members;
pub mod output;
pub mod random;
pub mod record;
pub mod text;

pub use error::Error;
pub use format::Format;
pub use lines::Unaligned;
pub use record::{Record, Source, Times};
