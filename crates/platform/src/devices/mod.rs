//! The devices, one file each.

pub mod clint;
pub mod ethmac;
pub mod gpio;
pub mod plic;
pub mod rtc;
pub mod spi;
pub mod syscon;
pub mod uart;
pub mod virtio;
pub mod watchdog;
