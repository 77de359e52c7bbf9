//! The control block: memory-mapped registers through which a guest sets the
//! memory's delays, switches between functional and timed, and reads statistics.
//!
//! The registers are a table ([`table`]); the guest's C header and the documentation are generated
//! from it ([`render`]). The registers act on the machine: the bus only reports that an access hit
//! the block, and the machine passes it to its [`ControlBlock`] together with itself as
//! [`ControlPort`].
//! [`ControlPort`].

mod render;
mod render_sv;
mod table;

pub use render::{c_header, markdown};
pub use render_sv::{in_hardware, sv_decoder, sv_package, InHardware};
pub use table::{
    iomap_command, Access, Fixed, FixedRow, HartStat, HartStatRow, MemStat, MemStatRow, Reg, FIXED,
    HARTS, HART_STATS, LATENCY_BUCKETS, MAX_BANKS, MEM_STATS,
};

use crate::fault::{part, BusFault};
use crate::state::{DeviceState, StateError};
use nagori_memtime::Method;
use serde::{Deserialize, Serialize};

/// Name of the block in the address map.
pub const KIND: &str = "control";
/// Length of the range in bytes.
pub const SIZE: u64 = 0x1_0000;
/// Value of the register ID: "NAGORI" in ASCII, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"NAGORI\0\0");
/// Version of the register layout.
pub const VERSION: u64 = 1;

/// An access to the block that the machine has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlAccess {
    /// Offset in the block; a multiple of `size`.
    pub offset: u64,
    /// 4 or 8 bytes.
    pub size: u8,
}

/// Checks an access that the bus has found to be in the block.
pub(crate) fn access(offset: u64, size: u8) -> Result<ControlAccess, BusFault> {
    if size < 4 {
        return Err(BusFault::Width {
            device: KIND,
            offset,
            size,
        });
    }
    Ok(ControlAccess { offset, size })
}

/// Why a write was rejected; the numbers are the values of the register ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[repr(u8)]
pub enum ControlError {
    /// There is no register at this offset.
    #[error("no register at this offset")]
    Unknown = 1,
    /// The register cannot be written.
    #[error("the register is read-only")]
    ReadOnly = 2,
    /// A 4-byte write to the upper half of a register.
    #[error("the upper half cannot be written by itself")]
    UpperHalf = 3,
    /// The value is not one that the register accepts.
    #[error("the value is out of range")]
    Value = 4,
    /// The address is not a multiple of the bank size.
    #[error("the boundary is not a multiple of the bank size")]
    Alignment = 5,
    /// The machine cannot do this in its present state.
    #[error("not possible in this state of the machine")]
    State = 6,
    /// The entry overlaps another one of its VM.
    #[error("the entry overlaps another one")]
    Overlap = 7,
    /// Only machine mode may write the register.
    #[error("only machine mode may write this register")]
    Privilege = 8,
}

impl ControlError {
    /// All errors.
    pub const ALL: [ControlError; 8] = [
        ControlError::Unknown,
        ControlError::ReadOnly,
        ControlError::UpperHalf,
        ControlError::Value,
        ControlError::Alignment,
        ControlError::State,
        ControlError::Overlap,
        ControlError::Privilege,
    ];
}

/// The request of a write to STATS_CONTROL or HOST_REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsAction {
    /// Reset all statistics.
    Reset,
    /// Dump the statistics under the value of the register LABEL.
    Dump {
        /// The guest's label.
        label: u64,
    },
    /// A snapshot of the machine, if the host takes snapshots; a write to HOST_REQUEST.
    Snapshot {
        /// The guest's label.
        label: u64,
    },
}

impl StatsAction {
    /// Value that requests a reset.
    pub const RESET: u64 = 1;
    /// Value that requests a dump of the statistics.
    pub const DUMP: u64 = 2;
    /// Value of HOST_REQUEST that requests a snapshot of the machine.
    pub const SNAPSHOT: u64 = 1;
}

/// Number of a method in the register METHOD.
pub fn method_number(method: Method) -> u64 {
    Method::ALL
        .iter()
        .position(|&m| m == method)
        .expect("ALL has every method") as u64
}

/// The method with a number.
pub fn method_from_number(number: u64) -> Option<Method> {
    Method::ALL.get(usize::try_from(number).ok()?).copied()
}

/// The registers that the machine implements. Registers that the block itself keeps (ID, VERSION,
/// errors, NVMM_SIZE, LABEL, LABEL_TEXT, STATS_CONTROL, HOST_REQUEST) are never passed on.
pub trait ControlPort {
    /// Value of a register.
    fn get(&mut self, reg: Reg) -> u64;
    /// Sets a writable register.
    fn set(&mut self, reg: Reg, value: u64) -> Result<(), ControlError>;
    /// Acts on the statistics.
    fn stats(&mut self, action: StatsAction);
    /// Changes a value of a region's own memory: `REGION.KEY=VALUE`.
    fn set_memory(&mut self, setting: &str) -> Result<(), ControlError> {
        let _ = setting;
        Err(ControlError::Value)
    }
}

/// Greatest length of a label's text in bytes.
const LABEL_TEXT: usize = 64;

/// The state of the block itself: the last error and the label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlBlock {
    error: Option<ControlError>,
    error_offset: u64,
    error_value: u64,
    errors: u64,
    label: u64,
    /// Text written to LABEL_TEXT since the last write to LABEL; snapshots of older versions have
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    text: Vec<u8>,
}

impl ControlBlock {
    /// The block after reset.
    pub fn new() -> ControlBlock {
        ControlBlock::default()
    }

    /// The guest's label as text, if it has written one for this number.
    pub fn label_text(&self, label: u64) -> Option<String> {
        let given = label == self.label && !self.text.is_empty();
        given.then(|| String::from_utf8_lossy(&self.text).into_owned())
    }

    /// A load. Offsets without a register read as zero.
    pub fn read(&self, access: ControlAccess, port: &mut dyn ControlPort) -> u64 {
        let Some(reg) = Reg::at(access.offset & !7) else {
            return 0;
        };
        let value = match reg {
            Reg::Fixed(Fixed::Magic) => MAGIC,
            Reg::Fixed(Fixed::Version) => VERSION,
            Reg::Fixed(Fixed::Error) => self.error.map_or(0, |e| e as u64),
            Reg::Fixed(Fixed::ErrorOffset) => self.error_offset,
            Reg::Fixed(Fixed::ErrorValue) => self.error_value,
            Reg::Fixed(Fixed::ErrorCount) => self.errors,
            Reg::Fixed(Fixed::Label) => self.label,
            Reg::Fixed(
                Fixed::StatsControl | Fixed::HostRequest | Fixed::LabelText | Fixed::MemorySet,
            ) => 0,
            Reg::Fixed(Fixed::NvmmSize) => {
                let base = port.get(Reg::Fixed(Fixed::MemoryBase));
                let end = base.saturating_add(port.get(Reg::Fixed(Fixed::MemorySize)));
                end.saturating_sub(port.get(Reg::Fixed(Fixed::NvmmBoundary)))
            }
            reg => port.get(reg),
        };
        part(value, access.offset & 7, access.size)
    }

    /// A store. A store of 4 bytes to the lower half sets the whole register to the zero-extended
    /// value. Rejected stores are reported in the ERROR registers.
    pub fn write(&mut self, access: ControlAccess, value: u64, port: &mut dyn ControlPort) {
        if let Err(e) = self.try_write(access, value, port) {
            self.reject(access, value, e);
        }
    }

    /// Reports a store that somebody else has rejected.
    pub fn reject(&mut self, access: ControlAccess, value: u64, error: ControlError) {
        self.error = Some(error);
        self.error_offset = access.offset;
        self.error_value = value;
        self.errors += 1;
    }

    fn try_write(
        &mut self,
        access: ControlAccess,
        value: u64,
        port: &mut dyn ControlPort,
    ) -> Result<(), ControlError> {
        let reg = Reg::at(access.offset & !7).ok_or(ControlError::Unknown)?;
        if reg.access() == Access::Read {
            return Err(ControlError::ReadOnly);
        }
        if access.offset & 7 != 0 {
            return Err(ControlError::UpperHalf);
        }
        match reg {
            Reg::Fixed(Fixed::Error) => {
                self.error = None;
                self.error_offset = 0;
                self.error_value = 0;
            }
            Reg::Fixed(Fixed::Label) => {
                self.label = value;
                self.text.clear();
            }
            Reg::Fixed(Fixed::LabelText) => {
                let bytes = value.to_le_bytes();
                let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                let plain = |b: &u8| b.is_ascii_graphic() || *b == b' ';
                let good = bytes[..len].iter().all(plain) && bytes[len..].iter().all(|b| *b == 0);
                if len == 0 || !good || self.text.len() + len > LABEL_TEXT {
                    return Err(ControlError::Value);
                }
                self.text.extend(&bytes[..len]);
            }
            Reg::Fixed(Fixed::StatsControl) => match value {
                StatsAction::RESET => port.stats(StatsAction::Reset),
                StatsAction::DUMP => port.stats(StatsAction::Dump { label: self.label }),
                _ => return Err(ControlError::Value),
            },
            Reg::Fixed(Fixed::HostRequest) => match value {
                StatsAction::SNAPSHOT => port.stats(StatsAction::Snapshot { label: self.label }),
                _ => return Err(ControlError::Value),
            },
            Reg::Fixed(Fixed::MemorySet) => {
                let text = std::str::from_utf8(&self.text).map_err(|_| ControlError::Value)?;
                if value != 1 {
                    return Err(ControlError::Value);
                }
                port.set_memory(text)?;
            }
            reg => port.set(reg, value)?,
        }
        Ok(())
    }

    /// Back to the state after power-on.
    pub fn reset(&mut self) {
        *self = ControlBlock::default();
    }

    /// The whole state.
    pub fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, self)
    }

    /// Loads a saved state.
    pub fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        *self = state.unpack(KIND, 1)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
