//! Memory descriptions: TOML files that become devices, controllers and layers
//! of `nagori-memtime`.
//!
//! A description is complete: there are no default values, unknown keys are errors with line and
//! column, and every value has its unit, its source and its origin (preset, file, or set for this
//! run). A file may start from one preset (`preset = "ddr3-1600k"`) and name a controller policy;
//! there is no other inheritance.
//!
//! ```
//! let memory = nagori_memcfg::Memory::load("ddr3-1600k", &["timings.tRCD=15 ns".into()])?;
//! let row = memory.rows.iter().find(|r| r.key == "timings.tRCD").unwrap();
//! assert_eq!((row.value.as_str(), row.clocks), ("15 ns", Some(12)));
//! # Ok::<(), nagori_memcfg::Error>(())
//! ```

mod decode;
mod device;
mod error;
mod kinds;
mod layers;
mod library;
mod memory;
mod plausible;
mod quantity;
mod relations;
mod rows;
mod tree;
mod units;

pub use error::{Error, Place};
pub use kinds::{FlatPart, Kind, Memory, Row};
pub use layers::Model;
pub use library::{find, Source, EMBEDDED};
pub use tree::Origin;
