//! An image of NVMM that belongs to a machine.

use nagori_nvmm::{Image, Undo};

/// An image behind NVMM.
#[derive(Debug)]
pub(crate) struct Attached {
    pub image: Image,
    /// If the image changes.
    pub undo: Option<Undo>,
    /// Whether everything in memory is durable: caches are in the persistence domain.
    pub all: bool,
    /// Physical address of the first byte of NVMM.
    pub base: u64,
}
