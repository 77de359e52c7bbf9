//! How firmware, kernel and initramfs files are recognised.

use super::{FileData, LoadError, Role};

const FIRMWARE: &str = "OpenSBI's raw fw_dynamic.bin, or an ELF file";
const INITRAMFS: &str = "a cpio archive (newc), plain or compressed";

const HEADER: usize = 64;
const MAGIC2: [u8; 4] = *b"RSC\x05";
const BIG_ENDIAN: u64 = 1;
const ALIGN: u64 = 2 << 20;

/// First bytes of files that are given by mistake: (offset, bytes, name).
const FORMATS: &[(usize, &[u8], &str)] = &[
    (0, b"\x7fELF", "an ELF file"),
    (
        4,
        b"zimg",
        "an EFI zboot image (a compressed kernel in an EFI program)",
    ),
    (0, b"\x27\x05\x19\x56", "a U-Boot uImage"),
    (0, b"\xd0\x0d\xfe\xed", "a device tree or FIT image"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\x5d\0\0", "lzma data"),
    (0, b"\x02\x21\x4c\x18", "lz4 data"),
    (0, b"\x89LZO", "lzo data"),
    (0, b"070701", "a cpio archive"),
    (0, b"070702", "a cpio archive with checksums"),
    (0, b"!<arch>\n", "an ar archive or Debian package"),
    (0, b"hsqs", "a SquashFS file system"),
    (56, b"ARM\x64", "an arm64 kernel"),
    (514, b"HdrS", "an x86 kernel"),
    (0, b"MZ", "an EFI or Windows program"),
    (0, b"#!", "a script"),
];

/// A description of what a file looks like.
fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    let matches = |&&(at, magic, _): &&(usize, &[u8], &str)| {
        bytes.get(at..at + magic.len()).is_some_and(|b| b == magic)
    };
    FORMATS.iter().find(matches).map(|f| f.2)
}

fn describe(bytes: &[u8]) -> String {
    match looks_like(bytes) {
        Some(what) => format!("it is {what}"),
        None if bytes.is_empty() => "it is empty".into(),
        None => format!("its {} bytes are of no known format", bytes.len()),
    }
}

/// A Linux Image that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The raw image.
    pub image: Vec<u8>,
    /// Offset from a 2 MiB boundary at which it runs.
    pub text_offset: u64,
    /// Bytes that it occupies in memory, at least the image's size.
    pub memory_size: u64,
}

/// Checks a Linux Image; `limit` is the largest size that can fit at all, `packed` describes for
/// messages how it was packed.
pub fn parse_image(
    file: &FileData,
    limit: u64,
    packed: &str,
    expected: &'static str,
) -> Result<Image, LoadError> {
    let wrong = |problem: String| file.wrong(Role::Kernel, problem, expected);
    let image = &file.bytes;
    if image.get(56..60) != Some(&MAGIC2) || image.len() < HEADER {
        return Err(wrong(describe(image) + packed));
    }
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes"));
    let (text_offset, image_size, flags) = (word(8), word(16), word(24));
    if flags & BIG_ENDIAN != 0 {
        return Err(wrong("it is a big-endian kernel".into()));
    }
    if image_size == 0 || image_size > limit {
        return Err(wrong(format!(
            "its header asks for {image_size:#x} bytes of memory, the machine has {limit:#x}"
        )));
    }
    if text_offset > limit || text_offset % 4096 != 0 {
        return Err(wrong(format!(
            "its header has the text offset {text_offset:#x}"
        )));
    }
    let memory_size = image_size.max(image.len() as u64);
    Ok(Image {
        image: image.clone(),
        text_offset: text_offset % ALIGN,
        memory_size,
    })
}

/// Bytes of memory that a Linux Image occupies; `None` for any other file.
pub fn image_memory(bytes: &[u8]) -> Option<u64> {
    let size = bytes.get(16..24)?.try_into().ok()?;
    (bytes.get(56..60)? == MAGIC2).then(|| u64::from_le_bytes(size))
}

/// Checks that a file can be raw firmware.
pub fn check_firmware(file: &FileData) -> Result<(), LoadError> {
    let known = looks_like(&file.bytes).is_some() || file.bytes.get(56..60) == Some(&MAGIC2);
    if !known && file.bytes.len() >= 64 {
        return Ok(());
    }
    let problem = if file.bytes.get(56..60) == Some(&MAGIC2) {
        "it is a riscv64 Linux Image".into()
    } else {
        describe(&file.bytes)
    };
    Err(file.wrong(Role::Firmware, problem, FIRMWARE))
}

/// Checks that a file can be an initramfs.
pub fn check_initramfs(file: &FileData) -> Result<(), LoadError> {
    let what = looks_like(&file.bytes);
    let fine = what.is_some_and(|w| w.ends_with(" data") || w.starts_with("a cpio"));
    if fine {
        return Ok(());
    }
    Err(file.wrong(Role::Initramfs, describe(&file.bytes), INITRAMFS))
}
