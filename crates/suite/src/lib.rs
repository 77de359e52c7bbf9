//! The application study: real programs of Debian under every delay method and memory.
//!
//! | part | what it is |
//! |---|---|
//! | [`Program`], [`Library`] | programs as data: one TOML file each in `suite/programs/` |
//! | [`Conditions`], [`Lab`] | a machine, a memory, a placement; the runs of programs under them |
//! | [`Store`] | results, one file each, so that an interrupted study goes on where it was |
//! | [`analysis`], [`page`] | what the results say, and the page that says it |
//!
//! Nothing here prints, and no signal is caught: see [`nagori_session::Caller`].
#![forbid(unsafe_code)]

pub mod analysis;
mod compile;
mod conditions;
mod error;
mod figures;
mod inputs;
mod lab;
mod library;
pub mod page;
mod program;
mod published;
mod record;
mod store;

pub use conditions::{Conditions, Malloc, Memory, Timing};
pub use error::{Error, Result};
pub use figures::{Figures, Part};
pub use lab::{Event, Lab, Task};
pub use library::{Library, ENV};
pub use program::{Input, Maker, Program, Size, SizeSpec};
pub use published::{Published, PUBLISHED};
pub use record::{Failure, Host, Record, FORMAT};
pub use store::{archive, read_archive, Store};

/// Fingerprint of the sources on which figures depend: that of the emulator's model.
pub const MODEL: &str = env!("NAGORI_MODEL");
