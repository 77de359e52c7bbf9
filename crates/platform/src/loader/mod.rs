//! Loads programs into memory: firmware and kernel, or one bare-metal ELF.
//!
//! Loading has two steps: a plan gives the place of every part (and is refused if anything does not
//! fit), then the plan is copied to guest memory.

mod elf;
mod image;
mod kernel;
mod linux;
mod uboot;
mod unpack;

pub use elf::{load_elf, Agreed, Elf, Symbols};
pub use image::{check_firmware, check_initramfs, Image};
pub use kernel::{parse_kernel, Kernel};
pub use linux::{plan_linux, LinuxFiles};

use crate::fdt::FdtError;
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// An error of a file, or of all of them together.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the {role} {path}: {problem}")]
    Read {
        /// What the file is for.
        role: Role,
        /// The file.
        path: String,
        /// The cause.
        problem: String,
    },
    /// The file is invalid.
    #[error("{path} cannot be used as {role}: {problem}; expected {expected}")]
    Format {
        /// What the file is for.
        role: Role,
        /// The file.
        path: String,
        /// What was found.
        problem: String,
        /// What would be valid.
        expected: &'static str,
    },
    /// The file does not fit into memory.
    #[error("{path} ({role}) needs {start:#x}..{end:#x}, but System RAM is {ram_start:#x}..{ram_end:#x}; give the \
        machine more DRAM or use a smaller file")]
    Space {
        /// What the file is for.
        role: Role,
        /// The file.
        path: String,
        /// First address needed.
        start: u64,
        /// First address after that.
        end: u64,
        /// First address of memory that may be used.
        ram_start: u64,
        /// First address after that.
        ram_end: u64,
    },
    /// Two files need the same memory.
    #[error(
        "{path} ({role}) needs {start:#x}..{end:#x}, where the {other} is, up to {other_end:#x}"
    )]
    Overlap {
        /// What the second file is for.
        role: Role,
        /// The file.
        path: String,
        /// First address needed.
        start: u64,
        /// First address after that.
        end: u64,
        /// The file that is already there.
        other: Role,
        /// First address after that.
        other_end: u64,
    },
    /// The device tree cannot be made.
    #[error(transparent)]
    Tree(#[from] FdtError),
}

/// Purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// OpenSBI.
    Firmware,
    /// Linux.
    Kernel,
    /// Initial root file system.
    Initramfs,
    /// The generated device tree.
    DeviceTree,
    /// A bare-metal program.
    Program,
    /// Whatever software expects at an address.
    Data,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Firmware => "firmware",
            Role::Kernel => "kernel",
            Role::Initramfs => "initramfs",
            Role::DeviceTree => "device tree",
            Role::Program => "bare-metal program",
            Role::Data => "data",
        })
    }
}

/// A file's content with its name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileData {
    /// Where it came from.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl FileData {
    /// Reads a file.
    pub fn read(role: Role, path: &Path) -> Result<FileData, LoadError> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Ok(FileData { path: name, bytes }),
            Err(e) => Err(LoadError::Read {
                role,
                path: name,
                problem: e.to_string(),
            }),
        }
    }

    fn wrong(&self, role: Role, problem: impl Into<String>, expected: &'static str) -> LoadError {
        LoadError::Format {
            role,
            path: self.path.clone(),
            problem: problem.into(),
            expected,
        }
    }
}

/// Memory that may be used for loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RamRange {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

impl RamRange {
    /// Checks that a part of `len` bytes from `start` fits.
    fn claim(&self, role: Role, path: &str, start: u64, len: u64) -> Result<(), LoadError> {
        let end = start.saturating_add(len);
        if start >= self.start && end <= self.end {
            return Ok(());
        }
        Err(LoadError::Space {
            role,
            path: path.into(),
            start,
            end,
            ram_start: self.start,
            ram_end: self.end,
        })
    }
}

/// Bytes with their address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Their purpose.
    pub role: Role,
    /// First physical address.
    pub addr: u64,
    /// Content.
    pub bytes: Vec<u8>,
    /// Size in memory, at least the content's; the rest is zero.
    pub memory_size: u64,
}

/// Registers of every hart at its first instruction; a0 is the hart's number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryState {
    /// Program counter, in M mode.
    pub pc: u64,
    /// Address of the device tree, or 0.
    pub a1: u64,
    /// Address of the instructions for the firmware (`fw_dynamic_info`), or 0.
    pub a2: u64,
}

/// The contents of memory, and the start of execution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Parts of memory in ascending order; they do not overlap.
    pub segments: Vec<Segment>,
    /// Start of execution.
    pub entry: EntryState,
    /// Messages for the user.
    pub warnings: Vec<String>,
}

/// The software that a machine loads at each start, and how it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Software {
    /// The contents of memory.
    pub plan: Plan,
    /// Whether the timing model is on at the start.
    pub timed: bool,
    /// The word by which a bare-metal program reports its end.
    pub tohost: Option<u64>,
}

impl Plan {
    /// Adds a device tree for a bare-metal program: at the end of `ram`, as far from the program as
    /// possible, with its address in a1.
    pub fn add_tree(&mut self, ram: RamRange, tree: Vec<u8>) -> Result<(), LoadError> {
        const ALIGN: u64 = 4096;
        let (role, size) = (Role::DeviceTree, tree.len() as u64);
        let addr = ram.end.saturating_sub(size) & !(ALIGN - 1);
        // Parts above `ram`, in NVMM, do not conflict.
        let below = self.segments.iter().filter(|s| s.addr < ram.end);
        let used = below.map(|s| s.addr + s.memory_size).max();
        let free = RamRange {
            start: used.unwrap_or(ram.start),
            end: ram.end,
        };
        free.claim(role, "(generated)", addr, size)?;
        self.segments.push(Segment {
            role,
            addr,
            bytes: tree,
            memory_size: size,
        });
        self.entry.a1 = addr;
        Ok(())
    }

    /// Adds a file at an address of `ram` that nothing else needs.
    pub fn add_data(&mut self, ram: RamRange, file: FileData, addr: u64) -> Result<(), LoadError> {
        let (role, size) = (Role::Data, file.bytes.len() as u64);
        ram.claim(role, &file.path, addr, size)?;
        let after = self.segments.partition_point(|s| s.addr < addr);
        let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
        for s in near.filter_map(|i| self.segments.get(i)) {
            let other_end = s.addr + s.memory_size.max(s.bytes.len() as u64);
            if s.addr < addr + size && addr < other_end {
                return Err(LoadError::Overlap {
                    role,
                    path: file.path,
                    start: addr,
                    end: addr + size,
                    other: s.role,
                    other_end,
                });
            }
        }
        let segment = Segment {
            role,
            addr,
            bytes: file.bytes,
            memory_size: size,
        };
        self.segments.insert(after, segment);
        Ok(())
    }

    /// Copies the plan to memory that starts at `ram_base`. Memory is assumed to be zero where
    /// nothing is loaded.
    pub fn apply(&self, ram: &GuestRam, ram_base: u64) -> Result<(), LoadError> {
        for s in &self.segments {
            let range = RamRange {
                start: ram_base,
                end: ram_base.saturating_add(ram.len()),
            };
            range.claim(s.role, "", s.addr, s.memory_size.max(s.bytes.len() as u64))?;
            ram.write_bytes(s.addr - ram_base, &s.bytes)
                .expect("the range was checked");
        }
        Ok(())
    }
}

/// The next multiple of `align`, a power of two; saturates near the end.
pub(crate) fn align_up(addr: u64, align: u64) -> u64 {
    addr.saturating_add(align - 1) & !(align - 1)
}

#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod tests;
