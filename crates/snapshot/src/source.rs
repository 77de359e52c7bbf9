//! Sources of a snapshot's bytes.

use crate::error::SnapshotError;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

/// Bytes that several threads can read at any position.
pub trait Source: Send + Sync {
    /// Number of bytes.
    fn size(&self) -> std::io::Result<u64>;
    /// Fills a buffer from a position on; an error of kind `UnexpectedEof` after the end.
    fn read_at(&self, to: &mut [u8], at: u64) -> std::io::Result<()>;
}

impl Source for File {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }
    fn read_at(&self, to: &mut [u8], at: u64) -> std::io::Result<()> {
        self.read_exact_at(to, at)
    }
}

/// A snapshot in memory.
#[derive(Debug, Clone)]
pub struct Bytes(pub Vec<u8>);

impl Source for Bytes {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_at(&self, to: &mut [u8], at: u64) -> std::io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.0.get(at..));
        let from = from.and_then(|f| f.get(..to.len()));
        to.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Reads a part; `what` is its name for the error if the file ends too early.
pub(crate) fn read_part(
    source: &dyn Source,
    to: &mut [u8],
    at: u64,
    what: &'static str,
) -> Result<(), SnapshotError> {
    source.read_at(to, at).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => SnapshotError::Truncated(what),
        _ => e.into(),
    })
}
