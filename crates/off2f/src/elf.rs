//! The few fields of ELF files that splitting needs.

use crate::{BuildId, Error, MAX_ELF, PAGE};

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const EXECUTABLE: u32 = 1;
const WRITABLE: u32 = 2;
const NT_GNU_BUILD_ID: u32 = 3;
const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// More segments than any linker makes.
const MAX_SEGMENTS: u16 = 1024;

/// Which pages of the file go where.
#[derive(Debug)]
pub struct Plan {
    pub build_id: Option<BuildId>,
    pub text_offset: u64,
    pub text_pages: u64,
    pub text_vaddr: u64,
    pub cut_offset: u64,
    pub cut_pages: u64,
    pub elf_type: u16,
    pub elf_machine: u16,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    file_bytes: u64,
    memory_bytes: u64,
}

impl Segment {
    /// Its range in the file, in bytes; checked by `segments`.
    fn end(&self) -> u64 {
        self.offset + self.file_bytes
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Elf(what.into()))
}

fn half(elf: &[u8], at: u64) -> u16 {
    let at = at as usize;
    u16::from_le_bytes([elf[at], elf[at + 1]])
}

fn word(elf: &[u8], at: u64) -> u32 {
    u32::from(half(elf, at)) | u32::from(half(elf, at + 2)) << 16
}

fn long(elf: &[u8], at: u64) -> u64 {
    u64::from(word(elf, at)) | u64::from(word(elf, at + 4)) << 32
}

/// Decides what to split.
pub fn plan(elf: &[u8]) -> Result<Plan, Error> {
    let bytes = elf.len() as u64;
    if !elf.starts_with(b"\x7fELF") {
        return refuse("it does not begin as ELF files do");
    }
    if bytes < ELF_HEADER {
        return refuse("it ends within its header");
    }
    if bytes > MAX_ELF {
        return refuse(format!("{bytes} bytes; the most are {MAX_ELF}"));
    }
    if elf[4..7] != [2, 1, 1] {
        return refuse("it is not 64-bit, little-endian, of version 1");
    }
    let elf_type = half(elf, 16);
    if elf_type != 2 && elf_type != 3 {
        return refuse(format!(
            "type {elf_type} is neither an executable nor a library"
        ));
    }
    let (table, count) = (long(elf, 32), half(elf, 56));
    let segments = segments(elf, table, count)?;
    let text = executable(&segments)?;
    let text_offset = text.offset / PAGE * PAGE;
    let text_end = text.end().next_multiple_of(PAGE);
    let kept = |from: u64, to: u64| {
        // The kernel reads the headers through the file before anything is mapped.
        let table_end = table + u64::from(count) * PROGRAM_HEADER;
        let headers = [(0, ELF_HEADER), (table, table_end)];
        let others = segments
            .iter()
            .filter(|s| s.kind == PT_LOAD && s.flags & EXECUTABLE == 0);
        let others = others.map(|s| (s.offset, s.end()));
        headers
            .into_iter()
            .chain(others)
            .any(|(a, b)| a < b && a < to && from < b)
    };
    // Pages that lie within the segment as a whole, and that nothing else needs.
    let mut cut_offset = text.offset.next_multiple_of(PAGE);
    let mut cut_end = text.end() / PAGE * PAGE;
    while cut_offset < cut_end && kept(cut_offset, cut_offset + PAGE) {
        cut_offset += PAGE;
    }
    while cut_end > cut_offset && kept(cut_end - PAGE, cut_end) {
        cut_end -= PAGE;
    }
    if cut_end <= cut_offset {
        (cut_offset, cut_end) = (text_offset, text_offset);
    } else if kept(cut_offset, cut_end) {
        return refuse("another segment or the program headers lie in the midst of its text");
    }
    Ok(Plan {
        build_id: build_id(elf, &segments),
        text_offset,
        text_pages: (text_end - text_offset) / PAGE,
        text_vaddr: text.vaddr / PAGE * PAGE,
        cut_offset,
        cut_pages: (cut_end - cut_offset) / PAGE,
        elf_type,
        elf_machine: half(elf, 18),
    })
}

/// The program headers, all within the file.
fn segments(elf: &[u8], table: u64, count: u16) -> Result<Vec<Segment>, Error> {
    if u64::from(half(elf, 54)) != PROGRAM_HEADER {
        return refuse("its program headers do not have 56 bytes each");
    }
    if count == 0 || count > MAX_SEGMENTS {
        return refuse(format!("{count} program headers"));
    }
    let bytes = elf.len() as u64;
    let end = table.checked_add(u64::from(count) * PROGRAM_HEADER);
    if end.is_none_or(|e| e > bytes) {
        return refuse("its program headers lie behind its end");
    }
    let mut all = Vec::new();
    for i in 0..u64::from(count) {
        let at = table + i * PROGRAM_HEADER;
        let s = Segment {
            kind: word(elf, at),
            flags: word(elf, at + 4),
            offset: long(elf, at + 8),
            vaddr: long(elf, at + 16),
            file_bytes: long(elf, at + 32),
            memory_bytes: long(elf, at + 40),
        };
        let needed = s.kind == PT_LOAD || s.kind == PT_NOTE;
        if needed && s.offset.checked_add(s.file_bytes).is_none_or(|e| e > bytes) {
            return refuse(format!("segment {i} ends behind the file"));
        }
        if needed {
            all.push(s);
        }
    }
    Ok(all)
}

/// The segment that is the text.
fn executable(segments: &[Segment]) -> Result<Segment, Error> {
    let load = segments.iter().filter(|s| s.kind == PT_LOAD);
    let text: Vec<Segment> = load
        .filter(|s| s.flags & EXECUTABLE != 0)
        .copied()
        .collect();
    let &[text] = text.as_slice() else {
        return refuse(format!("{} executable segments, not one", text.len()));
    };
    if text.flags & WRITABLE != 0 {
        return refuse("its executable segment is writable");
    }
    if text.file_bytes == 0 || text.memory_bytes != text.file_bytes {
        return refuse("its executable segment has no content in the file, or not all of it");
    }
    if text.offset % PAGE != text.vaddr % PAGE {
        return refuse("its executable segment cannot be mapped in pages of 4096 bytes");
    }
    if text.vaddr.checked_add(text.memory_bytes).is_none() {
        return refuse("its executable segment ends behind the last address");
    }
    Ok(text)
}

/// The linker's build id, if there is one.
fn build_id(elf: &[u8], segments: &[Segment]) -> Option<BuildId> {
    let notes = segments.iter().filter(|s| s.kind == PT_NOTE);
    notes
        .filter_map(|s| elf.get(s.offset as usize..s.end() as usize))
        .find_map(id_in)
}

fn id_in(mut notes: &[u8]) -> Option<BuildId> {
    while notes.len() >= 12 {
        let (name, len) = (word(notes, 0) as usize, word(notes, 4) as usize);
        let desc = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = desc.checked_add(len)?;
        let id = notes.get(desc..end)?;
        if word(notes, 8) == NT_GNU_BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") {
            return BuildId::from_linker(id);
        }
        notes = notes
            .get(end.checked_next_multiple_of(4)?..)
            .unwrap_or_default();
    }
    None
}

/// Whole pages of the file; zeros behind its end.
pub fn pages(elf: &[u8], offset: u64, pages: u64) -> Vec<u8> {
    let end = offset + pages * PAGE;
    let mut text = elf[offset as usize..end.min(elf.len() as u64) as usize].to_vec();
    text.resize((pages * PAGE) as usize, 0);
    text
}
