//! Places firmware, kernel, initramfs and device tree in memory.

use super::elf::load_elf_as;
use super::image::{check_firmware, check_initramfs};
use super::kernel::{parse_kernel, Kernel};
use super::{align_up, EntryState, FileData, LoadError, Plan, RamRange, Role, Segment};
use crate::fdt::FdtError;
use crate::tree::BootInfo;
use object::elf::ELFMAG;

/// The kernel's mapping granule: alignment of the kernel and of what follows it.
const ALIGN: u64 = 2 << 20;
/// Space for the firmware's data, stacks and heap, which follow its file.
const FIRMWARE_ROOM: u64 = 512 << 10;
/// Space after kernels that do not state their memory size: the variables of a raw file follow it.
const KERNEL_ROOM: u64 = 16 << 20;
/// Space in the tree for additions by firmware and kernel.
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
    /// OpenSBI fw_dynamic, raw or as ELF; without one the kernel starts in machine mode.
    pub firmware: Option<FileData>,
    /// The kernel that the firmware starts: see [`parse_kernel`].
    pub kernel: FileData,
    /// Load address of the kernel, if it is a raw file.
    pub kernel_at: Option<u64>,
    /// Initial root file system.
    pub initramfs: Option<FileData>,
    /// Kernel command line.
    pub bootargs: Option<String>,
    /// Hart on which the firmware starts the kernel.
    pub boot_hart: u32,
    /// Bytes at the start of memory that belong to the firmware.
    pub reserved: u64,
}

/// The segments that have been placed.
struct Placed<'a> {
    ram: RamRange,
    segments: Vec<(Segment, &'a str)>,
}

impl<'a> Placed<'a> {
    /// Adds a segment if there is room for it; returns the first address after it.
    fn put(&mut self, segment: Segment, path: &'a str) -> Result<u64, LoadError> {
        let (start, size) = (segment.addr, segment.memory_size);
        self.ram.claim(segment.role, path, start, size)?;
        let end = start + size;
        let taken = self.segments.iter().map(|(s, _)| s);
        let mut taken = taken.filter(|s| s.addr < end && start < s.addr + s.memory_size);
        if let Some(other) = taken.next() {
            return Err(LoadError::Overlap {
                role: segment.role,
                path: path.into(),
                start,
                end,
                other: other.role,
                other_end: other.addr + other.memory_size,
            });
        }
        self.segments.push((segment, path));
        Ok(end)
    }

    /// Bytes at an address, followed by free space.
    fn bytes(
        &mut self,
        role: Role,
        path: &'a str,
        addr: u64,
        bytes: Vec<u8>,
        memory_size: u64,
    ) -> Result<u64, LoadError> {
        let segment = Segment {
            role,
            addr,
            bytes,
            memory_size,
        };
        self.put(segment, path)
    }
}

/// Places everything in `ram` (System RAM only): the firmware at the start (an ELF file at its own
/// addresses), a Linux Image at the next 2 MiB boundary plus its offset and other kernels at their
/// own addresses, then initramfs, device tree and the firmware's instructions. `tree` makes the
/// device tree.
pub fn plan_linux(
    files: &LinuxFiles,
    ram: RamRange,
    tree: impl FnOnce(&BootInfo) -> Result<Vec<u8>, FdtError>,
) -> Result<Plan, LoadError> {
    let mut placed = Placed {
        ram,
        segments: Vec::new(),
    };
    let mut warnings = Vec::new();
    let mut firmware_entry = None;
    let mut firmware_end = ram.start;
    if let Some(file) = &files.firmware {
        if file.bytes.starts_with(&ELFMAG) {
            let elf = load_elf_as(file, ram, Role::Firmware)?;
            for s in elf.plan.segments {
                firmware_end = placed.put(s, &file.path)?.max(firmware_end);
            }
            warnings.extend(elf.plan.warnings);
            firmware_entry = Some(elf.plan.entry.pc);
        } else {
            check_firmware(file)?;
            let size = file.bytes.len() as u64;
            let bytes = file.bytes.clone();
            firmware_end = placed.bytes(Role::Firmware, &file.path, ram.start, bytes, size)?;
            firmware_entry = Some(ram.start);
        }
        firmware_end += FIRMWARE_ROOM;
    }
    let firmware_end = firmware_end.max(ram.start.saturating_add(files.reserved));

    let path = &files.kernel.path;
    let (kernel_at, mut free) = match parse_kernel(&files.kernel, files.kernel_at, ram)? {
        Kernel::Image(k) => {
            let at = align_up(firmware_end, ALIGN) + k.text_offset;
            let end = placed.bytes(Role::Kernel, path, at, k.image, k.memory_size)?;
            (at, end)
        }
        Kernel::Fixed {
            segments,
            entry,
            warnings: more,
        } => {
            warnings.extend(more);
            let mut end = firmware_end;
            for s in segments {
                end = placed.put(s, path)?.max(end);
            }
            // As much space as there is, if it is less.
            let room = KERNEL_ROOM.min(ram.end.saturating_sub(end) / 2);
            (entry, end + room)
        }
    };

    let mut initrd = None;
    if let Some(file) = &files.initramfs {
        check_initramfs(file)?;
        let (at, size) = (align_up(free, ALIGN), file.bytes.len() as u64);
        free = placed.bytes(Role::Initramfs, &file.path, at, file.bytes.clone(), size)?;
        initrd = Some((at, size));
    }

    let tree = tree(&BootInfo {
        bootargs: files.bootargs.clone(),
        initrd,
    })?;
    let tree_at = align_up(free, ALIGN);
    let room = align_up(tree.len() as u64, 8) + TREE_ROOM;
    let info_at = placed.bytes(Role::DeviceTree, "(generated)", tree_at, tree, room)?;

    let mut entry = EntryState {
        pc: kernel_at,
        a1: tree_at,
        a2: 0,
    };
    if let (Some(pc), Some(file)) = (firmware_entry, &files.firmware) {
        let info = [
            dynamic_info::MAGIC,
            dynamic_info::VERSION,
            kernel_at,
            dynamic_info::NEXT_S_MODE,
            0,
            u64::from(files.boot_hart),
        ];
        let info: Vec<u8> = info.iter().flat_map(|word| word.to_le_bytes()).collect();
        placed.bytes(
            Role::Firmware,
            &file.path,
            info_at,
            info,
            dynamic_info::SIZE,
        )?;
        entry.pc = pc;
        entry.a2 = info_at;
    }
    let mut segments: Vec<Segment> = placed.segments.into_iter().map(|(s, _)| s).collect();
    segments.sort_by_key(|s| s.addr);
    Ok(Plan {
        segments,
        entry,
        warnings,
    })
}
