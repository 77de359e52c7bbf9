//! OpenSBI, kernel, initramfs and device tree in memory.

use super::image::{check_firmware, check_initramfs, parse_kernel};
use super::{align_up, EntryState, FileData, LoadError, Plan, RamRange, Role, Segment};
use crate::fdt::FdtError;
use crate::tree::BootInfo;

/// The kernel's mapping granule: what it starts from and what follows it.
const ALIGN: u64 = 2 << 20;
/// Room for the firmware's data, stacks and heap, which follow its file.
const FIRMWARE_ROOM: u64 = 512 << 10;
/// Room that firmware and kernel have for additions to the tree.
const TREE_ROOM: u64 = 64 << 10;

/// `struct fw_dynamic_info` of OpenSBI: six 64-bit words.
mod dynamic_info {
    pub const MAGIC: u64 = 0x4942_534f;
    pub const VERSION: u64 = 2;
    pub const NEXT_S_MODE: u64 = 1;
    pub const SIZE: u64 = 48;
}

/// What to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinuxFiles {
    /// OpenSBI fw_dynamic, raw.
    pub firmware: FileData,
    /// Linux Image.
    pub kernel: FileData,
    /// Initial root file system.
    pub initramfs: Option<FileData>,
    /// Kernel command line.
    pub bootargs: Option<String>,
    /// Hart that the firmware starts the kernel on.
    pub boot_hart: u32,
}

/// Places everything in `ram` (System RAM only): firmware at the start, the
/// kernel at the next 2 MiB boundary plus its offset, then initramfs, device
/// tree and the firmware's instructions. `tree` makes the device tree.
pub fn plan_linux(
    files: &LinuxFiles,
    ram: RamRange,
    tree: impl FnOnce(&BootInfo) -> Result<Vec<u8>, FdtError>,
) -> Result<Plan, LoadError> {
    let limit = ram.end.saturating_sub(ram.start);
    let mut segments = Vec::new();
    let mut put = |role, path: &str, addr: u64, bytes: Vec<u8>, memory_size: u64| {
        ram.claim(role, path, addr, memory_size)?;
        segments.push(Segment {
            role,
            addr,
            bytes,
            memory_size,
        });
        Ok::<u64, LoadError>(addr + memory_size)
    };

    let firmware = &files.firmware;
    check_firmware(firmware)?;
    let size = firmware.bytes.len() as u64;
    let firmware_end = put(
        Role::Firmware,
        &firmware.path,
        ram.start,
        firmware.bytes.clone(),
        size,
    )?;

    let kernel = parse_kernel(&files.kernel, limit)?;
    let kernel_at = align_up(firmware_end + FIRMWARE_ROOM, ALIGN) + kernel.text_offset;
    let mut free = put(
        Role::Kernel,
        &files.kernel.path,
        kernel_at,
        kernel.image,
        kernel.memory_size,
    )?;

    let mut initrd = None;
    if let Some(file) = &files.initramfs {
        check_initramfs(file)?;
        let (at, size) = (align_up(free, ALIGN), file.bytes.len() as u64);
        free = put(Role::Initramfs, &file.path, at, file.bytes.clone(), size)?;
        initrd = Some((at, size));
    }

    let tree = tree(&BootInfo {
        bootargs: files.bootargs.clone(),
        initrd,
    })?;
    let tree_at = align_up(free, ALIGN);
    let room = align_up(tree.len() as u64, 8) + TREE_ROOM;
    let info_at = put(Role::DeviceTree, "(generated)", tree_at, tree, room)?;

    let info = [
        dynamic_info::MAGIC,
        dynamic_info::VERSION,
        kernel_at,
        dynamic_info::NEXT_S_MODE,
        0,
        u64::from(files.boot_hart),
    ];
    let info: Vec<u8> = info.iter().flat_map(|word| word.to_le_bytes()).collect();
    put(
        Role::Firmware,
        &firmware.path,
        info_at,
        info,
        dynamic_info::SIZE,
    )?;

    Ok(Plan {
        segments,
        entry: EntryState {
            pc: ram.start,
            a1: tree_at,
            a2: info_at,
        },
    })
}
