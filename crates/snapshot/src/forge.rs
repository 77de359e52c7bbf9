//! Makes files that are valid except for one part, for tests and fuzzing, which would otherwise
//! only ever fail at a checksum.

use crate::error::SnapshotError;
use crate::layout::{self, Trailer};
use crate::read::Snapshot;
use crate::source::Bytes;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

pub use crate::layout::Chunk;

/// Bytes in front of a file's description.
pub const PREFIX: u64 = layout::PREFIX;
/// Bytes of memory in a chunk.
pub const CHUNK: u64 = layout::CHUNK;

/// The chunks of a file, and the stated length of its state.
pub fn taken_apart(file: &[u8]) -> Result<(Vec<Chunk>, u64), SnapshotError> {
    let s = Snapshot::new(Bytes(file.to_vec()))?;
    let chunks = s.chunks.iter().map(|c| c.0).collect();
    Ok((chunks, s.trailer.state_bytes))
}

/// Where in a file the software is that a restart loads again.
pub fn software(file: &[u8]) -> Result<std::ops::Range<usize>, SnapshotError> {
    let t = Snapshot::new(Bytes(file.to_vec()))?.trailer;
    let start = t.software_at as usize;
    Ok(start..start + t.software_len as usize)
}

/// A file with another index (records) or state (compressed), and the stated length of that state.
pub fn parts(
    file: &[u8],
    index: Option<Vec<u8>>,
    state: Option<Vec<u8>>,
    state_bytes: u64,
) -> Result<Vec<u8>, SnapshotError> {
    let t = Snapshot::new(Bytes(file.to_vec()))?.trailer;
    let (at, len) = (t.state_at() as usize, t.state_len as usize);
    let end = file.len() - Trailer::LEN as usize;
    let state = state.unwrap_or_else(|| file[at..at + len].to_vec());
    let index = index.unwrap_or_else(|| file[at + len..end].to_vec());
    let mut out = file[..at].to_vec();
    out.extend(&state);
    out.extend(&index);
    let trailer = Trailer {
        state_len: state.len() as u64,
        state_bytes,
        state_sum: xxh3_64(&state),
        chunks: index.len() as u64 / Chunk::RECORD,
        index_sum: xxh3_64(&index),
        file_len: out.len() as u64 + Trailer::LEN,
        ..t
    };
    out.extend(trailer.encode());
    Ok(out)
}

/// The state in a file, as CBOR.
pub fn state(file: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    crate::encode(&Snapshot::new(Bytes(file.to_vec()))?.state()?)
}

/// A file with another state, given as CBOR.
pub fn with_state(file: &[u8], plain: &[u8]) -> Result<Vec<u8>, SnapshotError> {
    let frame = zstd::bulk::compress(plain, 1)?;
    parts(file, None, Some(frame), plain.len() as u64)
}

/// A file with another header, of whatever content.
pub fn header(file: &[u8], change: impl FnOnce(&mut Value)) -> Result<Vec<u8>, SnapshotError> {
    let s = Snapshot::new(Bytes(file.to_vec()))?;
    let mut value = serde_json::to_value(s.header()).map_err(SnapshotError::encode)?;
    change(&mut value);
    let text = serde_json::to_vec(&value).map_err(SnapshotError::encode)?;
    let prefix = layout::prefix(&text)?;
    let (header_len, header_sum) = layout::read_prefix(&prefix)?;
    let mut first = [0; layout::PREFIX as usize];
    first.copy_from_slice(&file[..layout::PREFIX as usize]);
    let behind = layout::PREFIX + layout::read_prefix(&first)?.0;
    let end = file.len() - Trailer::LEN as usize;
    let mut out = [&prefix[..], &text, &file[behind as usize..end]].concat();
    let trailer = Trailer {
        software_at: s.trailer.software_at - behind + layout::PREFIX + header_len,
        header_sum,
        file_len: out.len() as u64 + Trailer::LEN,
        ..s.trailer
    };
    out.extend(trailer.encode());
    Ok(out)
}
