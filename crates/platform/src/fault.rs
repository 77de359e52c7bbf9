//! Accesses to registers: their parts, and those that have no result.

/// A device access that has no result; the hart takes an access fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BusFault {
    /// No device answers at this address.
    #[error("no device at {addr:#x} ({size} bytes)")]
    Unmapped {
        /// Physical address.
        addr: u64,
        /// Size of the access in bytes.
        size: u8,
    },
    /// The address is not a multiple of the size.
    #[error("misaligned access of {size} bytes at {addr:#x}")]
    Misaligned {
        /// Physical address.
        addr: u64,
        /// Size of the access in bytes.
        size: u8,
    },
    /// The device has no access of this size there.
    #[error("{device} has no access of {size} bytes at offset {offset:#x}")]
    Width {
        /// Kind of the device.
        device: &'static str,
        /// Offset in the device's range.
        offset: u64,
        /// Size of the access in bytes.
        size: u8,
    },
}

impl BusFault {
    /// An error unless an access to a device has one of some sizes in bytes.
    pub fn unless_size(
        allowed: &[u8],
        device: &'static str,
        offset: u64,
        size: u8,
    ) -> Result<(), BusFault> {
        if allowed.contains(&size) {
            Ok(())
        } else {
            Err(BusFault::Width {
                device,
                offset,
                size,
            })
        }
    }
}

/// The part of a 64-bit register that a read of `size` bytes sees.
pub fn part(whole: u64, byte: u64, size: u8) -> u64 {
    if size == 8 {
        return whole;
    }
    (whole >> (byte * 8)) & ((1u64 << (size * 8)) - 1)
}
