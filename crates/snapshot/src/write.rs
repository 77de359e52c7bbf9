//! Writes snapshots.

use crate::describe::Meta;
use crate::error::SnapshotError;
use crate::layout::{prefix, Chunk, Trailer};
use crate::memory;
use crate::plain;
use crate::read::Header;
use crate::software;
use nagori_machine::Machine;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// zstd's level for the state, which is small.
const STATE_LEVEL: i32 = 3;
/// zstd's level for the software, which has tens of megabytes.
const SOFTWARE_LEVEL: i32 = 1;

/// Sizes of a written snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of memory in it, before compression.
    pub memory_bytes: u64,
}

/// Counts the bytes that pass through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let n = self.out.write(buf)?;
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Writes a snapshot. May be called whenever [`Machine::run`] has returned; the run that continues is not
/// disturbed, and no untouched page of memory is touched. Equal states give equal bytes.
pub fn save(machine: &Machine, out: impl Write, meta: &Meta) -> Result<Written, SnapshotError> {
    if machine.within_block() {
        return Err(SnapshotError::WithinBlock);
    }
    if let Some(part) = machine.brought() {
        return Err(SnapshotError::Brought(part.to_owned()));
    }
    let state = machine.save_state();
    let header = Header::new(machine.description().clone(), &state, meta.clone());
    let header = serde_json::to_vec(&header).map_err(SnapshotError::encode)?;
    let mut out = Counted { out, bytes: 0 };
    let prefix = prefix(&header)?;
    out.write_all(&prefix)?;
    out.write_all(&header)?;
    let chunks = memory::write(machine.ram(), &mut out)?;

    let software_at = out.bytes;
    let software = software::encode(machine.software().map(|s| &**s))?;
    let packed = if software.is_empty() {
        Vec::new()
    } else {
        zstd::bulk::compress(&software, SOFTWARE_LEVEL)?
    };
    out.write_all(&packed)?;

    let plain = plain::encode(&state)?;
    let frame = zstd::bulk::compress(&plain, STATE_LEVEL)?;
    out.write_all(&frame)?;

    let mut index = Vec::with_capacity(chunks.len() * Chunk::RECORD as usize);
    chunks.iter().for_each(|c| c.encode(&mut index));
    out.write_all(&index)?;
    let trailer = Trailer {
        software_at,
        software_len: packed.len() as u64,
        software_bytes: software.len() as u64,
        software_sum: xxh3_64(&packed),
        state_len: frame.len() as u64,
        state_bytes: plain.len() as u64,
        state_sum: xxh3_64(&frame),
        chunks: chunks.len() as u64,
        index_sum: xxh3_64(&index),
        header_sum: crate::layout::header_sum(&prefix, &header),
        file_len: out.bytes + Trailer::LEN,
    };
    out.write_all(&trailer.encode())?;
    out.flush()?;
    Ok(Written {
        file_bytes: out.bytes,
        memory_bytes: chunks.iter().map(Chunk::bytes).sum(),
    })
}

/// Writes a snapshot to a file, which is complete or does not exist under this name, whatever
/// happens; an existing file is replaced in the same way.
pub fn save_file(machine: &Machine, path: &Path, meta: &Meta) -> Result<Written, SnapshotError> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(parent)?;
    let written = save(
        machine,
        BufWriter::with_capacity(1 << 20, file.as_file()),
        meta,
    )?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    // The name is permanent only after the directory has been synced.
    File::open(parent)?.sync_all()?;
    Ok(written)
}
