//! OFF2F, the object file format of two files: a program whose text executes in place on NVMM.
//!
//! [`split`] makes two files of an ELF file: `PROG.text` has the pages of its executable segment, for
//! the text store on NVMM; `PROG.off2` has everything else, and says which text belongs to it. [`join`] gives
//! the ELF file back, bit for bit. After Takasugi, Sato and Taniguchi (Okayama University, 2019).
//! Layout and use are in `docs/off2f.md`.

mod elf;
mod header;

pub use header::{BuildId, Header, Text, HEADER, OFF2_MAGIC, TEXT_MAGIC, VERSION};

use xxhash_rust::xxh64::xxh64;

/// Bytes of a page of the guest's MMU, in which text is mapped.
pub const PAGE: u64 = 4096;
/// Greatest length of an ELF file, in bytes: 1 GiB.
pub const MAX_ELF: u64 = 1 << 30;

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an ELF file that can be split.
    #[error("not an ELF file that can be split: {0}")]
    Elf(String),
    /// Not an OFF2F file, or a damaged one.
    #[error("{file}: {what}")]
    Damaged {
        /// `PROG.off2` or `PROG.text`.
        file: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// Two sound files that do not belong together.
    #[error("the two files do not belong together: {0}; split the program again")]
    Mismatch(String),
}

pub(crate) fn damaged(file: &'static str, what: impl Into<String>) -> Error {
    Error::Damaged {
        file,
        what: what.into(),
    }
}

/// The two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Content of `PROG.off2`.
    pub off2: Vec<u8>,
    /// Content of `PROG.text`.
    pub text: Vec<u8>,
}

/// The checksum of both files: XXH64 with seed 0, which the guest's tool and kernel module compute, too.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh64(bytes, 0)
}

/// Splits a static, static-PIE or dynamic executable, or a shared library.
///
/// The text is the pages of the only executable segment. What other parts of the file share with its first and
/// last page stays in `PROG.off2`, too.
///
/// # Errors
/// [`Error::Elf`] for anything but a 64-bit little-endian executable or library with one executable segment that is
/// not writable and lies in pages.
pub fn split(elf: &[u8]) -> Result<Pair, Error> {
    let plan = elf::plan(elf)?;
    let text = elf::pages(elf, plan.text_offset, plan.text_pages);
    let (from, to) = (
        plan.cut_offset as usize,
        (plan.cut_offset + plan.cut_pages * PAGE) as usize,
    );
    let mut data = elf[..from].to_vec();
    data.extend_from_slice(&elf[to..]);
    let build_id = plan.build_id.unwrap_or_else(|| BuildId::of_content(elf));
    let header = Header {
        build_id,
        elf_bytes: elf.len() as u64,
        elf_checksum: checksum(elf),
        text_offset: plan.text_offset,
        text_pages: plan.text_pages,
        text_vaddr: plan.text_vaddr,
        text_checksum: checksum(&text),
        data_checksum: checksum(&data),
        cut_offset: plan.cut_offset,
        cut_pages: plan.cut_pages,
        elf_type: plan.elf_type,
        elf_machine: plan.elf_machine,
    };
    let mut off2 = header.encode().to_vec();
    off2.extend(data);
    let mut file = header.text().encode().to_vec();
    file.extend(text);
    Ok(Pair { off2, text: file })
}

/// Reads and checks `PROG.off2`: its header, its length and the checksum of its data.
///
/// # Errors
/// [`Error::Damaged`].
pub fn read_off2(off2: &[u8]) -> Result<Header, Error> {
    const FILE: &str = "PROG.off2";
    let header = Header::decode(off2)?;
    let data = &off2[HEADER as usize..];
    let expected = header.elf_bytes - header.cut_pages * PAGE;
    if data.len() as u64 != expected {
        return Err(damaged(
            FILE,
            format!("{} bytes of data, not {expected}", data.len()),
        ));
    }
    if checksum(data) != header.data_checksum {
        return Err(damaged(FILE, "the checksum of its data is wrong"));
    }
    Ok(header)
}

/// Reads and checks `PROG.text`: its header, its length and the checksum of its pages.
///
/// # Errors
/// [`Error::Damaged`].
pub fn read_text(text: &[u8]) -> Result<Text, Error> {
    const FILE: &str = "PROG.text";
    let header = Text::decode(text)?;
    let pages = &text[HEADER as usize..];
    if pages.len() as u64 != header.pages * PAGE {
        let what = format!("{} bytes of text, not {} pages", pages.len(), header.pages);
        return Err(damaged(FILE, what));
    }
    if checksum(pages) != header.checksum {
        return Err(damaged(FILE, "the checksum of its text is wrong"));
    }
    Ok(header)
}

/// Gives the ELF file back, bit for bit.
///
/// # Errors
/// [`Error::Damaged`] for either file, [`Error::Mismatch`] for two that do not belong together.
pub fn join(off2: &[u8], text: &[u8]) -> Result<Vec<u8>, Error> {
    let header = read_off2(off2)?;
    let found = read_text(text)?;
    header.belongs(&found)?;
    let (data, pages) = (&off2[HEADER as usize..], &text[HEADER as usize..]);
    // `Header::decode` has compared these places with each other, `read_off2` with the length of the data.
    let from = (header.cut_offset - header.text_offset) as usize;
    let cut = (header.cut_pages * PAGE) as usize;
    let (before, after) = data.split_at(header.cut_offset as usize);
    let elf = [before, &pages[from..from + cut], after].concat();
    if checksum(&elf) != header.elf_checksum {
        return Err(Error::Mismatch(
            "the checksum of the ELF file that they make is not the recorded one".into(),
        ));
    }
    Ok(elf)
}
