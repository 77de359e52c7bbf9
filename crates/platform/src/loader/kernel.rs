//! Kernel formats: Linux Images, ELF files, images of U-Boot, raw files.

use super::elf::load_elf_as;
use super::image::{image_memory, parse_image, Image};
use super::uboot::{self, Loaded};
use super::unpack::Packing;
use super::{FileData, LoadError, RamRange, Role, Segment};
use object::elf::ELFMAG;

const EXPECTED: &str =
    "a riscv64 Linux Image, that packed (gzip, or an EFI zboot image), an ELF file, \
U-Boot's uImage or FIT image, or a raw file with its address behind it (FILE@0x80200000)";

/// A kernel that can be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kernel {
    /// A Linux Image, which runs at any boundary of 2 MiB.
    Image(Image),
    /// A kernel with fixed load addresses.
    Fixed {
        /// Its parts.
        segments: Vec<Segment>,
        /// Its entry.
        entry: u64,
        /// Messages for the user.
        warnings: Vec<String>,
    },
}

/// Checks a kernel for memory; `at` is the load address of a raw file.
pub fn parse_kernel(file: &FileData, at: Option<u64>, ram: RamRange) -> Result<Kernel, LoadError> {
    let limit = ram.end.saturating_sub(ram.start);
    let wrong = |problem: String| file.wrong(Role::Kernel, problem, EXPECTED);
    let it = |problem: String| wrong(format!("it {problem}"));
    let bytes = &file.bytes[..];
    if let Some(addr) = at {
        if bytes.starts_with(&ELFMAG) {
            return Err(wrong(
                "it is an ELF file, which says itself where it goes, but an address is given"
                    .into(),
            ));
        }
        return fixed(file, ram, addr, addr, bytes.to_vec(), Vec::new());
    }
    let inside = |bytes: Vec<u8>| FileData {
        path: file.path.clone(),
        bytes,
    };
    if bytes.starts_with(&ELFMAG) {
        return elf(file, ram);
    }
    if bytes.starts_with(&uboot::UIMAGE) || bytes.starts_with(&uboot::FIT) {
        let parse = if bytes.starts_with(&uboot::FIT) {
            uboot::fit
        } else {
            uboot::uimage
        };
        let Loaded {
            load,
            entry,
            bytes,
            warnings,
        } = parse(bytes, limit).map_err(it)?;
        return fixed(file, ram, load, entry, bytes, warnings);
    }
    let unpacked = match (bytes.starts_with(b"\x1f\x8b"), zboot(bytes)) {
        (true, _) => Some(Packing::Gzip.unpack(bytes, limit).map_err(it)?),
        (_, Some(payload)) => Some(
            payload
                .and_then(|(packing, data)| packing.unpack(data, limit))
                .map_err(|e| wrong(format!("it is an EFI zboot image, and its kernel {e}")))?,
        ),
        _ => None,
    };
    match unpacked {
        None => parse_image(file, limit, "", EXPECTED).map(Kernel::Image),
        Some(bytes) if bytes.starts_with(&ELFMAG) => elf(&inside(bytes), ram),
        Some(bytes) => {
            parse_image(&inside(bytes), limit, " after unpacking", EXPECTED).map(Kernel::Image)
        }
    }
}

fn elf(file: &FileData, ram: RamRange) -> Result<Kernel, LoadError> {
    let elf = load_elf_as(file, ram, Role::Kernel)?;
    Ok(Kernel::Fixed {
        segments: elf.plan.segments,
        entry: elf.plan.entry.pc,
        warnings: elf.plan.warnings,
    })
}

/// Bytes at an address.
fn fixed(
    file: &FileData,
    ram: RamRange,
    addr: u64,
    entry: u64,
    bytes: Vec<u8>,
    warnings: Vec<String>,
) -> Result<Kernel, LoadError> {
    let wrong = |problem: String| file.wrong(Role::Kernel, problem, EXPECTED);
    if bytes.is_empty() {
        return Err(wrong("it is empty".into()));
    }
    let len = bytes.len() as u64;
    let memory_size = image_memory(&bytes).unwrap_or(0).max(len);
    ram.claim(Role::Kernel, &file.path, addr, memory_size)?;
    if !(addr..addr + len).contains(&entry) || !entry.is_multiple_of(2) {
        return Err(wrong(format!(
            "its entry {entry:#x} is odd or not in its {len} bytes from {addr:#x} on"
        )));
    }
    let segment = Segment {
        role: Role::Kernel,
        addr,
        bytes,
        memory_size,
    };
    Ok(Kernel::Fixed {
        segments: vec![segment],
        entry,
        warnings,
    })
}

/// The packed kernel in an EFI zboot image, if it is one: a program that unpacks a kernel.
fn zboot(bytes: &[u8]) -> Option<Result<(Packing, &[u8]), String>> {
    const NAME: std::ops::Range<usize> = 24..56;
    if !bytes.starts_with(b"MZ") || bytes.get(4..8) != Some(b"zimg") {
        return None;
    }
    let word = |at: usize| {
        let part = bytes.get(at..at + 4).and_then(|p| p.try_into().ok());
        u32::from_le_bytes(part.unwrap_or_default()) as usize
    };
    let (from, len) = (word(8), word(12));
    let payload = from.checked_add(len).and_then(|end| bytes.get(from..end));
    let name = bytes.get(NAME).unwrap_or_default();
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some(match (payload, Packing::named(&name)) {
        (None, _) => Err("is not all there".into()),
        (_, None) => Err(format!("is packed in a way that is not known ({name})")),
        (Some(data), Some(packing)) => Ok((packing, data)),
    })
}
