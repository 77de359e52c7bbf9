//! The first page of either file.

use crate::{checksum, damaged, Error, MAX_ELF, PAGE};
use std::fmt;

/// Bytes of the header of either file: a page, so that what follows lies in pages.
pub const HEADER: u64 = PAGE;
/// The first bytes of `PROG.off2`.
pub const OFF2_MAGIC: [u8; 8] = *b"\x89OFF2\r\n\x1a";
/// The first bytes of `PROG.text`.
pub const TEXT_MAGIC: [u8; 8] = *b"\x89TEXT\r\n\x1a";
/// Version of the format.
pub const VERSION: u32 = 1;

/// Most bytes of a build id.
const ID: usize = 32;
/// Where the header's own checksum is.
const SUM: usize = HEADER as usize - 8;

/// What identifies a build of a program.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildId {
    /// Whether it is the linker's (`.note.gnu.build-id`), and not a hash of the content.
    pub from_linker: bool,
    bytes: Vec<u8>,
}

impl BuildId {
    /// The linker's, of 1 to 32 bytes; nothing for another length.
    pub fn from_linker(bytes: &[u8]) -> Option<BuildId> {
        (1..=ID).contains(&bytes.len()).then(|| BuildId {
            from_linker: true,
            bytes: bytes.to_vec(),
        })
    }

    /// For a file without one: two checksums of it.
    pub(crate) fn of_content(elf: &[u8]) -> BuildId {
        let sums = [0, 1].map(|seed| xxhash_rust::xxh64::xxh64(elf, seed).to_le_bytes());
        BuildId {
            from_linker: false,
            bytes: sums.concat(),
        }
    }

    /// Its bytes, 1 to 32.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The header of `PROG.off2`. Offsets and lengths are in bytes of the ELF file, pages have 4096 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What relates the two files, with the text's checksum.
    pub build_id: BuildId,
    /// Length of the ELF file.
    pub elf_bytes: u64,
    /// Checksum of the ELF file.
    pub elf_checksum: u64,
    /// Where the text's first page is.
    pub text_offset: u64,
    /// Number of pages of the text. The last one is filled up with zeros if the file ends in it.
    pub text_pages: u64,
    /// The address for which the text's first page is linked.
    pub text_vaddr: u64,
    /// Checksum of the pages.
    pub text_checksum: u64,
    /// Checksum of what follows this header.
    pub data_checksum: u64,
    /// Where the pages begin that only the text file has.
    pub cut_offset: u64,
    /// Number of these pages.
    pub cut_pages: u64,
    /// `e_type` of the ELF file.
    pub elf_type: u16,
    /// `e_machine` of the ELF file.
    pub elf_machine: u16,
}

/// The header of `PROG.text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The build ID of the program.
    pub build_id: BuildId,
    /// Number of pages that follow.
    pub pages: u64,
    /// The address for which the first one is linked.
    pub vaddr: u64,
    /// Checksum of the pages.
    pub checksum: u64,
}

/// Writes words into a header.
struct Page(Box<[u8; HEADER as usize]>);

impl Page {
    fn new(magic: [u8; 8], id: &BuildId) -> Page {
        let mut p = Page(Box::new([0; HEADER as usize]));
        p.0[..8].copy_from_slice(&magic);
        p.0[8..12].copy_from_slice(&VERSION.to_le_bytes());
        p.0[12..16].copy_from_slice(&u32::from(id.from_linker).to_le_bytes());
        p.0[16..20].copy_from_slice(&(id.bytes.len() as u32).to_le_bytes());
        p.0[24..24 + id.bytes.len()].copy_from_slice(&id.bytes);
        p
    }

    fn words(mut self, words: &[u64]) -> Box<[u8; HEADER as usize]> {
        for (i, w) in words.iter().enumerate() {
            self.0[56 + 8 * i..64 + 8 * i].copy_from_slice(&w.to_le_bytes());
        }
        let sum = checksum(&self.0[..SUM]);
        self.0[SUM..].copy_from_slice(&sum.to_le_bytes());
        self.0
    }
}

/// A header whose checksum is right.
struct Reader<'a> {
    file: &'static str,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(file: &'static str, magic: [u8; 8], bytes: &'a [u8]) -> Result<(Self, BuildId), Error> {
        if !bytes.starts_with(&magic) {
            return Err(damaged(file, "it has not the format's first bytes"));
        }
        let Some(bytes) = bytes.get(..HEADER as usize) else {
            return Err(damaged(file, "it ends within its header"));
        };
        let r = Reader { file, bytes };
        let version = r.half(8);
        if version != VERSION {
            return Err(damaged(
                file,
                format!("version {version} of the format is not known, only {VERSION}"),
            ));
        }
        if checksum(&bytes[..SUM]) != r.word(SUM) {
            return Err(damaged(file, "the checksum of its header is wrong"));
        }
        let (kind, len) = (r.half(12), r.half(16) as usize);
        let id_is_sound = kind <= 1 && (1..=ID).contains(&len) && r.half(20) == 0;
        if !id_is_sound || bytes[24 + len..24 + ID].iter().any(|&b| b != 0) {
            return Err(damaged(file, "its build id cannot be one"));
        }
        let id = BuildId {
            from_linker: kind == 1,
            bytes: bytes[24..24 + len].to_vec(),
        };
        Ok((r, id))
    }

    fn half(&self, at: usize) -> u32 {
        let b = &self.bytes[at..at + 4];
        u32::from_le_bytes([b[0], b[1], b[2], b[3]])
    }

    fn word(&self, at: usize) -> u64 {
        u64::from(self.half(at)) | u64::from(self.half(at + 4)) << 32
    }

    /// Refuses anything but zeros from `at` to the checksum.
    fn nothing_behind(&self, at: usize) -> Result<(), Error> {
        if self.bytes[at..SUM].iter().all(|&b| b == 0) {
            Ok(())
        } else {
            Err(damaged(
                self.file,
                "its header has fields that are not known",
            ))
        }
    }
}

impl Header {
    /// The first page of the file.
    pub fn encode(&self) -> Box<[u8; HEADER as usize]> {
        Page::new(OFF2_MAGIC, &self.build_id).words(&[
            self.elf_bytes,
            self.elf_checksum,
            self.text_offset,
            self.text_pages,
            self.text_vaddr,
            self.text_checksum,
            self.data_checksum,
            self.cut_offset,
            self.cut_pages,
            u64::from(self.elf_type) | u64::from(self.elf_machine) << 16,
        ])
    }

    /// Reads the first page of a file, and checks that its fields fit each other.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn decode(off2: &[u8]) -> Result<Header, Error> {
        const FILE: &str = "PROG.off2";
        let (r, build_id) = Reader::new(FILE, OFF2_MAGIC, off2)?;
        let field = |i: usize| r.word(56 + 8 * i);
        r.nothing_behind(56 + 8 * 10)?;
        let kinds = field(9);
        let h = Header {
            build_id,
            elf_bytes: field(0),
            elf_checksum: field(1),
            text_offset: field(2),
            text_pages: field(3),
            text_vaddr: field(4),
            text_checksum: field(5),
            data_checksum: field(6),
            cut_offset: field(7),
            cut_pages: field(8),
            elf_type: kinds as u16,
            elf_machine: (kinds >> 16) as u16,
        };
        let small = |v: u64| v <= MAX_ELF;
        let fields = [
            h.elf_bytes,
            h.text_offset,
            h.text_pages,
            h.cut_offset,
            h.cut_pages,
        ];
        let aligned = [h.text_offset, h.text_vaddr, h.cut_offset];
        // The first comparison makes sure that no sum of the others overflows.
        let sound = fields.iter().all(|&v| small(v))
            && aligned.iter().all(|v| v.is_multiple_of(PAGE))
            && kinds >> 32 == 0
            && h.text_pages > 0
            && h.text_offset < h.elf_bytes
            && h.text_offset + h.text_pages * PAGE < h.elf_bytes + PAGE
            && h.cut_offset >= h.text_offset
            && h.cut_offset + h.cut_pages * PAGE <= h.text_offset + h.text_pages * PAGE
            && h.cut_offset + h.cut_pages * PAGE <= h.elf_bytes;
        if sound {
            Ok(h)
        } else {
            Err(damaged(
                FILE,
                "the fields of its header contradict each other",
            ))
        }
    }

    /// The header of the text file that belongs to it.
    pub fn text(&self) -> Text {
        Text {
            build_id: self.build_id.clone(),
            pages: self.text_pages,
            vaddr: self.text_vaddr,
            checksum: self.text_checksum,
        }
    }

    /// Checks that a text belongs to this file.
    ///
    /// # Errors
    /// [`Error::Mismatch`] with the first field that differs.
    pub fn belongs(&self, text: &Text) -> Result<(), Error> {
        let own = self.text();
        let what = if own.build_id != text.build_id {
            format!("build id {} and {}", own.build_id, text.build_id)
        } else if own.pages != text.pages {
            format!("{} pages of text and {}", own.pages, text.pages)
        } else if own.checksum != text.checksum {
            format!(
                "checksum of the text {:#x} and {:#x}",
                own.checksum, text.checksum
            )
        } else if own.vaddr != text.vaddr {
            format!("text at {:#x} and {:#x}", own.vaddr, text.vaddr)
        } else {
            return Ok(());
        };
        Err(Error::Mismatch(what))
    }
}

impl Text {
    /// The first page of the file.
    pub fn encode(&self) -> Box<[u8; HEADER as usize]> {
        Page::new(TEXT_MAGIC, &self.build_id).words(&[self.pages, self.vaddr, self.checksum])
    }

    /// Reads the first page of a file.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn decode(text: &[u8]) -> Result<Text, Error> {
        const FILE: &str = "PROG.text";
        let (r, build_id) = Reader::new(FILE, TEXT_MAGIC, text)?;
        r.nothing_behind(56 + 8 * 3)?;
        let t = Text {
            build_id,
            pages: r.word(56),
            vaddr: r.word(64),
            checksum: r.word(72),
        };
        if t.pages > 0 && t.pages <= MAX_ELF / PAGE + 1 && t.vaddr.is_multiple_of(PAGE) {
            Ok(t)
        } else {
            Err(damaged(
                FILE,
                "the fields of its header contradict each other",
            ))
        }
    }
}
