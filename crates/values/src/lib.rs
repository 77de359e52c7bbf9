//! Values as people write them: sizes, counts and times with their units, and names with a slip.
//!
//! Whatever asks for a number, an option or a key, reads it here, so that `1e6`, `64 KiB` and
//! `7.5 us` mean the same everywhere.
#![forbid(unsafe_code)]

mod names;
mod number;
mod quantity;

pub use names::{hint, nearest};
pub use number::{scan, Number};
pub use quantity::{count, measure, real, types_in_words, Kind, Limit, Unit, Wrong, SIZE, TIME};
