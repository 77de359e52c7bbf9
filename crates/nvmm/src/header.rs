//! The first pages of an image.
//!
//! All numbers are little-endian words of 64 bits.
//!
//! | page | word | content |
//! |---|---|---|
//! | 0 | 0 | magic |
//! | | 1 | format |
//! | | 2, 3 | identity of the image, random |
//! | | 4, 5 | physical address of the first byte, length of NVMM in bytes |
//! | | 6, 7, 8 | where sums, content and the undo area begin in the file |
//! | | 9, 10 | bytes of a line, bytes of a slot of the undo area |
//! | | 11, 12, 13 | identity and generation of the image of which it is a clone; 0 if it is none |
//! | | 14 | length of the name of the machine, of which the bytes follow, at most 256 |
//! | | 511 | XXH3 of the words before |
//! | 1 | 0 | generation: how often the image was opened for writing |
//! | | 1 | 1 while a machine writes to it, else 0 |
//! | | 2 | epoch of the undo area |
//! | | 3, 4 | persistence domain of the last machine; lines that its energy suffices for |
//! | | 5 | generation for which the sums are right |

use crate::error::Error;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a page of the header.
pub const PAGE: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"\x89NVMM\r\n\x1a");
const FORMAT: u64 = 1;
/// Content begins at a multiple of this, so that the host can use huge pages.
const ALIGN: u64 = 2 << 20;
/// Bytes of a line.
pub const LINE: u64 = 64;
/// Bytes of a slot of the undo area.
pub const SLOT: u64 = 128;
/// Bytes of content for which there is a sum.
pub const CHUNK: u64 = 1 << 20;
/// Largest length of NVMM.
pub const MAX_LEN: u64 = 1 << 46;
const MAX_NAME: usize = 256;

/// Words of the second page.
pub mod state {
    /// How often the image was opened for writing.
    pub const GENERATION: usize = 0;
    /// Whether a machine writes to it.
    pub const IN_USE: usize = 1;
    /// Epoch of the undo area.
    pub const EPOCH: usize = 2;
    /// Persistence domain.
    pub const DOMAIN: usize = 3;
    /// Lines that are written at a power cut, with the domain `gpf`.
    pub const BUDGET: usize = 4;
    /// Generation for which the sums are right.
    pub const SUMMED: usize = 5;
}

/// What of a machine an image fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Physical address of the first byte of NVMM, a multiple of 4096.
    pub base: u64,
    /// Bytes of NVMM, a positive multiple of 4096, at most 64 TiB.
    pub len: u64,
    /// Name of the machine, for people; another machine of the same geometry may use the image.
    pub machine: String,
}

/// What never changes of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Identity.
    pub id: [u64; 2],
    /// The machine.
    pub geometry: Geometry,
    /// Identity and generation of the image of which it is a clone.
    pub parent: Option<([u64; 2], u64)>,
}

impl Header {
    /// Where sums begin.
    pub fn sums_at(&self) -> u64 {
        2 * PAGE
    }

    /// Number of sums.
    pub fn sums(&self) -> u64 {
        self.geometry.len.div_ceil(CHUNK)
    }

    /// Where content begins.
    pub fn data_at(&self) -> u64 {
        (self.sums_at() + 8 * (self.sums() + 1)).next_multiple_of(ALIGN)
    }

    /// Where the undo area begins.
    pub fn undo_at(&self) -> u64 {
        self.data_at() + self.geometry.len
    }

    /// What is wrong with a geometry.
    pub fn problem(g: &Geometry) -> Option<String> {
        let whole = |n: u64| n.is_multiple_of(PAGE);
        if g.len == 0 || g.len > MAX_LEN || !whole(g.len) || !whole(g.base) {
            return Some(format!(
                "NVMM of {:#x} bytes at {:#x}: expected whole pages of 4096 bytes, at most 64 TiB",
                g.len, g.base
            ));
        }
        if g.base.checked_add(g.len).is_none() {
            return Some("NVMM beyond the end of the address space".into());
        }
        None
    }

    /// The first page.
    pub fn encode(&self) -> Vec<u8> {
        let mut name = self.geometry.machine.clone();
        while name.len() > MAX_NAME {
            name.pop();
        }
        let parent = self.parent.unwrap_or_default();
        let words = [
            MAGIC,
            FORMAT,
            self.id[0],
            self.id[1],
            self.geometry.base,
            self.geometry.len,
            self.sums_at(),
            self.data_at(),
            self.undo_at(),
            LINE,
            SLOT,
            parent.0[0],
            parent.0[1],
            parent.1,
            name.len() as u64,
        ];
        let mut page: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        page.extend(name.as_bytes());
        page.resize(PAGE as usize - 8, 0);
        let sum = xxh3_64(&page);
        page.extend(sum.to_le_bytes());
        page
    }

    /// Reads the first page.
    pub fn decode(path: &Path, page: &[u8]) -> Result<Header, Error> {
        let no_image = |problem: &str| Error::NoImage {
            path: path.into(),
            problem: problem.into(),
        };
        let damaged = |problem: String| Error::Damaged {
            path: path.into(),
            problem,
        };
        let word = |i: usize| {
            let bytes = page.get(8 * i..8 * i + 8);
            bytes.map_or(0, |b| {
                u64::from_le_bytes(b.try_into().expect("eight bytes"))
            })
        };
        if page.len() < PAGE as usize || word(0) != MAGIC {
            return Err(no_image(
                "it does not begin as one; `nagori nvmm create` makes one, `nagori nvmm import` makes one from raw \
                    bytes",
            ));
        }
        if word(1) != FORMAT {
            return Err(no_image(&format!(
                "its format is {}, and this program knows format {FORMAT}",
                word(1)
            )));
        }
        let end = PAGE as usize - 8;
        if xxh3_64(&page[..end]) != word(511) {
            return Err(damaged("the checksum of the header is wrong".into()));
        }
        let name = word(14) as usize;
        let name = page.get(120..120usize.saturating_add(name.min(MAX_NAME + 1)));
        let name = name.and_then(|n| std::str::from_utf8(n).ok());
        let name = name.filter(|n| n.len() <= MAX_NAME);
        let parent = ([word(11), word(12)], word(13));
        let h = Header {
            id: [word(2), word(3)],
            geometry: Geometry {
                base: word(4),
                len: word(5),
                machine: name
                    .ok_or_else(|| damaged("the machine's name".into()))?
                    .into(),
            },
            parent: (parent.0 != [0; 2]).then_some(parent),
        };
        if let Some(p) = Header::problem(&h.geometry) {
            return Err(damaged(p));
        }
        let places = [h.sums_at(), h.data_at(), h.undo_at(), LINE, SLOT];
        if places != [word(6), word(7), word(8), word(9), word(10)] {
            return Err(damaged("its parts are not where they belong".into()));
        }
        Ok(h)
    }
}
