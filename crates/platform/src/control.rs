//! placeholder
use crate::device::BusFault;
pub const KIND: &str = "control";
pub const SIZE: u64 = 0x1_0000;
/// x
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlAccess {}
/// x
pub struct ControlBlock;
pub fn access(offset: u64, size: u8) -> Result<ControlAccess, BusFault> {
    Err(BusFault::Width {
        device: KIND,
        offset,
        size,
    })
}
