//! The content of guest memory at some moment, from which any number of memories go on. They share its pages until
//! they store to them.

use super::{GuestRam, RamError, PAGE};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::mm::{mmap, mmap_anonymous, MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// The content of a guest memory, in memory of the host that has no name. Copies share it.
#[derive(Debug, Clone)]
pub struct Kept {
    file: Arc<File>,
    len: u64,
}

impl Kept {
    /// Size of the memory in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never true: a memory has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes that the host holds for it, in whole pages.
    pub fn held(&self) -> Result<u64, RamError> {
        let ranges = super::data(&self.file, 0, self.len).map_err(fail)?;
        Ok(ranges.iter().map(|r| r.end - r.start).sum())
    }

    /// Reads bytes at any offset.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), RamError> {
        let len = to.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(RamError::OutOfRange {
                offset,
                len,
                size: self.len,
            });
        }
        self.file.read_exact_at(to, offset).map_err(fail)
    }
}

fn fail(source: io::Error) -> RamError {
    RamError::Keep { source }
}

impl GuestRam {
    /// Keeps the content of this memory as it is now. Nobody may store to it at the same time. Pages of zeros take no
    /// memory of the host.
    pub fn keep(&self) -> Result<Kept, RamError> {
        let fd = memfd_create("guest-memory", MemfdFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
        let file = File::from(fd);
        file.set_len(self.len).map_err(fail)?;
        let mut buffer = vec![0; PIECE as usize];
        for r in self.touched() {
            let mut at = r.start;
            while at < r.end {
                let n = PIECE.min(r.end - at);
                let part = &mut buffer[..n as usize];
                self.read_bytes(at, part)?;
                for pages in filled(part) {
                    let there = at + pages.start as u64;
                    file.write_all_at(&part[pages], there).map_err(fail)?;
                }
                at += n;
            }
        }
        Ok(Kept {
            file: Arc::new(file),
            len: self.len,
        })
    }

    /// A memory that begins with the content that was kept. Its pages are those of `kept` until something is stored
    /// to them.
    pub fn from_kept(kept: &Kept) -> Result<Self, RamError> {
        let mut ram = Self::new(kept.len)?;
        // SAFETY: the range is the whole memory of a value of which nobody else knows yet; the file has its length, and
        // nobody writes to it any more.
        let mapped = unsafe {
            mmap(
                ram.base.cast(),
                ram.len as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
                &*kept.file,
                0,
            )
        };
        mapped.map_err(|e| RamError::Map {
            bytes: kept.len,
            source: e.into(),
        })?;
        ram.origin = Some(kept.clone());
        Ok(ram)
    }

    /// Whether the memory began with content that was kept.
    pub(crate) fn has_origin(&self) -> bool {
        self.origin.is_some()
    }

    /// Ranges with data at the beginning.
    pub(crate) fn data_of_origin(&self) -> Vec<Range<u64>> {
        let Some(kept) = &self.origin else {
            return Vec::new();
        };
        let all = || std::iter::once(0..kept.len).collect();
        super::data(&kept.file, 0, kept.len).unwrap_or_else(|_| all())
    }

    /// Puts fresh zeros in the place of whole pages.
    pub(crate) fn put_zeros(&self, offset: u64, len: u64) -> Result<(), RamError> {
        self.check(offset, len)?;
        let there = self.base.wrapping_add(offset as usize).cast();
        // SAFETY: the range, whole pages, lies within the mapping that this value owns, whose content nobody holds a
        // reference to but for atomic accesses.
        let mapped = unsafe {
            mmap_anonymous(
                there,
                len as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
            )
        };
        mapped.map(|_| ()).map_err(|e| RamError::Map {
            bytes: len,
            source: e.into(),
        })
    }
}

/// Runs of pages of a buffer that are not zero.
fn filled(buffer: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, page) in buffer.chunks(PAGE as usize).enumerate() {
        if page == &[0; PAGE as usize][..page.len()] {
            continue;
        }
        let from = i * PAGE as usize;
        match runs.last_mut() {
            Some(r) if r.end == from => r.end += page.len(),
            _ => runs.push(from..from + page.len()),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(m: &GuestRam, at: u64) -> u64 {
        m.read_u64(at).unwrap()
    }

    #[test]
    fn memories_go_on_from_what_was_kept_each_by_itself() {
        let first = GuestRam::new(64 << 20).unwrap();
        first.write_u64(4096, 1).unwrap();
        first.write_u64(5 << 20, 2).unwrap();
        first.write_u64(9 << 20, 0).unwrap();
        let kept = first.keep().unwrap();
        assert_eq!(
            kept.held().unwrap(),
            2 * PAGE,
            "a page of zeros is not held"
        );
        first.write_u64(4096, 9).unwrap();
        let (a, b) = (
            GuestRam::from_kept(&kept).unwrap(),
            GuestRam::from_kept(&kept).unwrap(),
        );
        a.write_u64(5 << 20, 3).unwrap();
        a.write_u64(33 << 20, 4).unwrap();
        assert_eq!(
            (word(&a, 4096), word(&a, 5 << 20), word(&a, 33 << 20)),
            (1, 3, 4)
        );
        assert_eq!(
            (word(&b, 4096), word(&b, 5 << 20), word(&b, 33 << 20)),
            (1, 2, 0)
        );
        // What goes on can be kept again, with the pages that it shares.
        let again = GuestRam::from_kept(&a.keep().unwrap()).unwrap();
        assert_eq!(
            (
                word(&again, 4096),
                word(&again, 5 << 20),
                word(&again, 33 << 20)
            ),
            (1, 3, 4)
        );
        let mut bytes = [0; 8];
        kept.read(5 << 20, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 2);
        assert!(kept.read((64 << 20) - 7, &mut bytes).is_err());
    }

    #[test]
    fn what_is_given_back_is_zero_and_stays_so() {
        let first = GuestRam::new(8 << 20).unwrap();
        first.fill(0, 8 << 20, 7).unwrap();
        let m = GuestRam::from_kept(&first.keep().unwrap()).unwrap();
        m.discard(1 << 20, 2 << 20).unwrap();
        assert!(m.is_zero(1 << 20, 2 << 20).unwrap());
        assert_eq!(
            (m.read_u8((1 << 20) - 1), m.read_u8(3 << 20)),
            (Some(7), Some(7))
        );
        let again = GuestRam::from_kept(&m.keep().unwrap()).unwrap();
        assert!(again.is_zero(1 << 20, 2 << 20).unwrap());
    }
}
