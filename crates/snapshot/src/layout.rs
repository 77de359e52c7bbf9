//! The layout of a snapshot file. All numbers are little-endian.
//!
//! ```text
//! prefix    magic 8, format 4, length of header 4, checksum 8
//! header    JSON
//! chunks    zstd frames, one for each chunk of memory that is not zero
//! software  zstd frame: what a restart loads; empty if nothing is known of that
//! state     zstd frame of CBOR
//! index     one record for each chunk, in ascending order
//! trailer   places, lengths and checksums of the above, length of the file
//! ```
//!
//! The parts follow one another without gaps, so every byte is covered by a checksum. Checksums are
//! 64-bit XXH3.

use crate::error::SnapshotError;
use xxhash_rust::xxh3::{xxh3_64, Xxh3};

/// First bytes of a file.
pub(crate) const MAGIC: [u8; 8] = *b"\x89NAGORI\n";
/// Last bytes of a file.
const END: [u8; 8] = *b"NAGORI\n\x1a";
/// Version of the layout. What is saved of a machine has versions of its own, by part.
pub const FORMAT: u32 = 14;
/// Length of the prefix.
pub(crate) const PREFIX: u64 = 24;
/// Longest header.
pub(crate) const MAX_HEADER: u64 = 16 << 20;
/// Largest state, before compression.
pub(crate) const MAX_STATE: u64 = 1 << 30;
/// Largest software, before compression.
pub(crate) const MAX_SOFTWARE: u64 = 8 << 30;
/// Bytes of memory in a chunk.
pub(crate) const CHUNK: u64 = 1 << 20;
/// Pages in a chunk.
pub(crate) const PAGES: u64 = CHUNK / nagori_ram::PAGE;

fn u32_at(b: &[u8], at: usize) -> u32 {
    let part = b.get(at..at + 4).and_then(|p| p.try_into().ok());
    u32::from_le_bytes(part.unwrap_or_default())
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    let part = b.get(at..at + 8).and_then(|p| p.try_into().ok());
    u64::from_le_bytes(part.unwrap_or_default())
}

/// The prefix for a header.
pub(crate) fn prefix(header: &[u8]) -> Result<[u8; PREFIX as usize], SnapshotError> {
    let too_long = || SnapshotError::Encode("the header is too long".into());
    let len = u32::try_from(header.len()).map_err(|_| too_long())?;
    if u64::from(len) > MAX_HEADER {
        return Err(too_long());
    }
    let mut p = [0; PREFIX as usize];
    p[..8].copy_from_slice(&MAGIC);
    p[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    p[12..16].copy_from_slice(&len.to_le_bytes());
    let sum = header_sum(&p, header);
    p[16..].copy_from_slice(&sum.to_le_bytes());
    Ok(p)
}

/// Checksum of prefix and header.
pub(crate) fn header_sum(prefix: &[u8; PREFIX as usize], header: &[u8]) -> u64 {
    let mut h = Xxh3::new();
    h.update(&prefix[..16]);
    h.update(header);
    h.digest()
}

/// Length of the header and its checksum, from a prefix.
pub(crate) fn read_prefix(p: &[u8; PREFIX as usize]) -> Result<(u64, u64), SnapshotError> {
    if p[..8] != MAGIC {
        return Err(SnapshotError::NotASnapshot);
    }
    match u32_at(p, 8) {
        FORMAT => {}
        found => {
            return Err(SnapshotError::Format {
                found,
                known: FORMAT,
            })
        }
    }
    let len = u64::from(u32_at(p, 12));
    if len > MAX_HEADER {
        return Err(SnapshotError::Damaged("length of the header"));
    }
    Ok((len, u64_at(p, 16)))
}

/// A chunk of memory in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its number: the first byte in memory divided by [`CHUNK`].
    pub number: u32,
    /// Length of its frame.
    pub len: u32,
    /// Checksum of its frame.
    pub sum: u64,
    /// Bitmap of the pages that are in the frame.
    pub pages: [u64; PAGES as usize / 64],
}

impl Chunk {
    /// Length of a record.
    pub const RECORD: u64 = 16 + PAGES / 8;

    /// Writes the record.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.number.to_le_bytes());
        to.extend(self.len.to_le_bytes());
        to.extend(self.sum.to_le_bytes());
        for p in self.pages {
            to.extend(p.to_le_bytes());
        }
    }

    /// Reads a record.
    pub fn decode(b: &[u8]) -> Chunk {
        let mut pages = [0; PAGES as usize / 64];
        for (i, p) in pages.iter_mut().enumerate() {
            *p = u64_at(b, 16 + 8 * i);
        }
        Chunk {
            number: u32_at(b, 0),
            len: u32_at(b, 4),
            sum: u64_at(b, 8),
            pages,
        }
    }

    /// Whether a page is in the frame.
    pub fn has(&self, page: u64) -> bool {
        self.pages[(page / 64) as usize % self.pages.len()] >> (page % 64) & 1 != 0
    }

    /// Bytes in the frame, before compression.
    pub fn bytes(&self) -> u64 {
        let pages: u32 = self.pages.iter().map(|p| p.count_ones()).sum();
        u64::from(pages) * nagori_ram::PAGE
    }
}

/// The end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Start of the software: after the last chunk.
    pub software_at: u64,
    /// Length of the software's frame.
    pub software_len: u64,
    /// Length of the software before compression.
    pub software_bytes: u64,
    /// Checksum of the software's frame.
    pub software_sum: u64,
    /// Length of the state's frame.
    pub state_len: u64,
    /// Length of the state before compression.
    pub state_bytes: u64,
    /// Checksum of the state's frame.
    pub state_sum: u64,
    /// Number of chunks in the index, which follows the state.
    pub chunks: u64,
    /// Checksum of the index.
    pub index_sum: u64,
    /// Checksum of prefix and header, which links the trailer to them.
    pub header_sum: u64,
    /// Length of the file.
    pub file_len: u64,
}

impl Trailer {
    /// Length in the file.
    pub const LEN: u64 = 104;

    pub fn encode(&self) -> Vec<u8> {
        let mut b = Vec::with_capacity(Self::LEN as usize);
        for n in [
            self.software_at,
            self.software_len,
            self.software_bytes,
            self.software_sum,
            self.state_len,
            self.state_bytes,
            self.state_sum,
            self.chunks,
            self.index_sum,
            self.header_sum,
            self.file_len,
        ] {
            b.extend(n.to_le_bytes());
        }
        b.extend(xxh3_64(&b).to_le_bytes());
        b.extend(END);
        b
    }

    /// Reads and checks the trailer of a file of that length with such a header.
    pub fn decode(
        b: &[u8; Self::LEN as usize],
        file_len: u64,
        header_len: u64,
        header_sum: u64,
    ) -> Result<Trailer, SnapshotError> {
        if b[96..] != END {
            return Err(SnapshotError::Truncated("it has no trailer"));
        }
        if xxh3_64(&b[..88]) != u64_at(b, 88) {
            return Err(SnapshotError::Damaged("checksum of the trailer"));
        }
        let t = Trailer {
            software_at: u64_at(b, 0),
            software_len: u64_at(b, 8),
            software_bytes: u64_at(b, 16),
            software_sum: u64_at(b, 24),
            state_len: u64_at(b, 32),
            state_bytes: u64_at(b, 40),
            state_sum: u64_at(b, 48),
            chunks: u64_at(b, 56),
            index_sum: u64_at(b, 64),
            header_sum: u64_at(b, 72),
            file_len: u64_at(b, 80),
        };
        if t.file_len != file_len {
            return Err(SnapshotError::Truncated("its length is not the one noted"));
        }
        let index = t.chunks.checked_mul(Chunk::RECORD);
        let end = t
            .software_at
            .checked_add(t.software_len)
            .and_then(|n| n.checked_add(t.state_len))
            .and_then(|n| n.checked_add(index?))
            .and_then(|n| n.checked_add(Self::LEN));
        let sound = end == Some(file_len)
            && t.software_at >= PREFIX + header_len
            && t.software_bytes <= MAX_SOFTWARE
            && t.state_bytes <= MAX_STATE
            && t.header_sum == header_sum;
        if !sound {
            return Err(SnapshotError::Damaged("places of its parts"));
        }
        Ok(t)
    }

    /// Start of the state.
    pub fn state_at(&self) -> u64 {
        self.software_at + self.software_len
    }

    /// Start of the index.
    pub fn index_at(&self) -> u64 {
        self.state_at() + self.state_len
    }
}
