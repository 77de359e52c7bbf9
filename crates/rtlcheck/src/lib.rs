//! Compares what the hardware of `rtl/` did, as its testbenches write it down, with the models: the
//! board's controller of `memtime` with the control block of `platform`, and the I/O table of
//! `iomap`. `docs/rtl.md` describes the lines.
#![forbid(unsafe_code)]

pub mod board;
pub mod control;
pub mod error;
pub mod table;

pub use error::Error;
