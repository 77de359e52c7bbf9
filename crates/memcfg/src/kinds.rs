//! What a description describes.

use nagori_memtime::cache::CacheParams;
use nagori_memtime::cxl::CxlParams;
use nagori_memtime::dram::{ControllerParams, DeviceSpec};
use nagori_memtime::worn::WornParams;
use nagori_memtime::xpoint::XpointParams;
use nagori_memtime::BoardParams;
use serde::Serialize;

use crate::tree::Origin;

/// One of the kinds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A device behind the general controller.
    Device {
        /// The device and its ranks.
        device: Box<DeviceSpec>,
        /// The controller.
        controller: Box<ControllerParams>,
    },
    /// The bank-machine controller of the full-system machine.
    Board(Box<BoardParams>),
    /// A 3D-XPoint-like DIMM.
    Xpoint(Box<XpointParams>),
    /// A memory behind a CXL link.
    Cxl {
        /// The link.
        link: Box<CxlParams>,
        /// The memory behind the link.
        memory: Box<Memory>,
    },
    /// Memories side by side in one range of addresses.
    Flat(Vec<FlatPart>),
    /// Equal memories with interleaved addresses.
    Interleaved {
        /// Number of memories, 2 to 16.
        ways: u32,
        /// Bytes of a block, a power of two from 64 to 2^30.
        granularity: u64,
        /// The description of each of them.
        memory: Box<Memory>,
    },
    /// One memory as the cache of another.
    Cache {
        /// The cache.
        cache: Box<CacheParams>,
        /// The memory that is the cache.
        front: Box<Memory>,
        /// The memory behind it.
        back: Box<Memory>,
    },
}

/// A resolved memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Name with its variant, or path.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// The typed values.
    pub kind: Kind,
    /// How its wear is counted and levelled, by a layer over it.
    pub wear: Option<WornParams>,
    /// Every value with unit, source and origin, as in `nagori mem show`.
    pub rows: Vec<Row>,
    /// What is possible but unlikely to be meant: times that no device has.
    pub warnings: Vec<String>,
}

/// A memory of a flat hybrid.
#[derive(Clone, Debug, PartialEq)]
pub struct FlatPart {
    /// Its name in the statistics, and the prefix of its settings.
    pub name: String,
    /// Its first byte in the range of the whole.
    pub base: u64,
    /// The memory.
    pub memory: Memory,
}

/// One resolved value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Dotted key, as `--set` takes it (elements of lists by their index).
    pub key: String,
    /// The value as given.
    pub value: String,
    /// Its unit; empty for names, flags and plain numbers.
    pub unit: String,
    /// Its length in clocks of the device, for times and latencies.
    pub clocks: Option<u64>,
    /// Source of the number.
    pub source: String,
    /// Origin: who set it.
    pub origin: Origin,
}
