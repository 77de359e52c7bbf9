//! Snapshots: a whole machine in a file, from which any number of machines can continue.
//!
//! A file contains the resolved description, the state of harts, caches, memory controller, devices
//! and statistics, the pages of memory that are not zero, in compressed chunks, and the software
//! that a restart loads again. Every byte is covered by a checksum. Host resources are not part of
//! it: engine, observers, disk images, and whatever else the host connects. See `docs/snapshots.md`
//! for the layout.

mod describe;
mod error;
#[doc(hidden)]
pub mod forge;
mod layout;
mod memory;
mod plain;
mod read;
mod software;
mod source;
mod write;

pub use describe::{Difference, Meta, RUNTIME_KEYS};
pub use error::SnapshotError;
pub use layout::FORMAT;
pub use plain::{decode, encode};
pub use read::{Header, Snapshot};
pub use source::{Bytes, Source};
pub use write::{save, save_file, Written};
