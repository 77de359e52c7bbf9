//! Privilege modes.

use serde::{Deserialize, Serialize};

/// Privilege modes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Privilege {
    /// User.
    User = 0,
    /// Supervisor.
    Supervisor = 1,
    /// Machine.
    Machine = 3,
}

impl Privilege {
    /// From the two bits of mstatus.MPP; the reserved value counts as user.
    pub fn from_bits(b: u64) -> Self {
        match b {
            3 => Self::Machine,
            1 => Self::Supervisor,
            _ => Self::User,
        }
    }
}
