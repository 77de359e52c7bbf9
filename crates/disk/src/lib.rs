//! Disks for an emulated machine: raw files of the host, directly or under an overlay.
//!
//! A [`Disk`] is an array of sectors of 512 bytes. It is either a raw file (possibly sparse) that
//! is read and written, or only read; or such a file as a read-only base with an overlay that holds
//! the changes, in a file that is kept, or in a nameless file that is deleted with the disk. Base
//! and kept overlay are locked, so that no second machine writes to them.
//!
//! **What a flush promises.** When [`Disk::flush`] has returned, all earlier writes are on the
//! host's medium, and survive a crash of this process or of the host at any moment. Each later
//! write may be there or not (independently for each cluster of 16 KiB of an overlay); nothing else
//! changes. An overlay guarantees this by order: data, sync, map, sync; map pages are written to
//! two copies in turn. The format is described in `map.rs`, and for users in `docs/io.md`.
//!
//! **Why not a known format such as qcow2.** Its headers have no place for the identity of the
//! base, its metadata has no checksums, and the libraries for it do not sync between data and
//! metadata, so a power cut of the host could lose what was flushed before. Since a sparse file
//! needs no allocator, an overlay with these properties is small.
//!
//! This crate knows nothing of the machine.

mod error;
mod file;
mod map;
mod overlay;

pub use error::Error;
pub use file::FileIdentity;

use file::{Access, HostFile};
use overlay::Overlay;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Bytes of a sector, the unit of a disk's size.
pub const SECTOR: u64 = 512;
/// Largest disk in bytes.
pub const MAX_SIZE: u64 = map::MAX_SIZE;

/// Where writes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writes {
    /// Into the file.
    Through,
    /// Nowhere: the disk is read-only, and writes are errors.
    Refused,
    /// Into an overlay that is thrown away with the disk; on the host it is a file without a
    /// name in the directory for temporary files.
    Temporary,
    /// Into an overlay in this file, which is created if it does not exist.
    Overlay(PathBuf),
}

/// Identity of a disk's content, by which it is recognised later, for instance when a snapshot is
/// restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Size of the disk in bytes.
    pub size: u64,
    /// The raw file.
    pub base: FileIdentity,
    /// The kept overlay, if there is one.
    pub overlay: Option<FileIdentity>,
    /// Whether writes go to a temporary overlay, which this does not describe.
    pub temporary: bool,
}

/// A cluster of a temporary overlay: offset and length in bytes, content (`None`: zeros).
pub type Change = (u64, u64, Option<Vec<u8>>);

/// A disk.
#[derive(Debug)]
pub struct Disk {
    base: HostFile,
    overlay: Option<Overlay>,
    size: u64,
    read_only: bool,
    /// Whether the raw file was written since the last flush.
    unsynced: bool,
    /// How it was opened.
    origin: Option<(PathBuf, Writes)>,
}

impl Disk {
    /// Opens a raw file; its length must be a multiple of 512 bytes.
    pub fn open(path: &std::path::Path, writes: &Writes) -> Result<Disk, Error> {
        let access = match writes {
            Writes::Through => Access::Write,
            _ => Access::Read,
        };
        let base = HostFile::open(path, access)?;
        let identity = base.identity()?;
        let size = identity.len;
        let unfit = |problem| Error::Unfit {
            path: path.into(),
            problem,
        };
        if size == 0 || size > MAX_SIZE {
            return Err(unfit(format!(
                "a disk of {size} bytes is not possible: expected 512 bytes to 1 TiB (truncate --size makes a sparse \
                    file)"
            )));
        }
        if size % SECTOR != 0 {
            let more = SECTOR - size % SECTOR;
            return Err(unfit(format!(
                "{size} bytes are no whole number of sectors of 512: add {more} (truncate --size=%512)"
            )));
        }
        let overlay = match writes {
            Writes::Through | Writes::Refused => None,
            Writes::Temporary => Some(Overlay::temporary(size, identity)?),
            Writes::Overlay(path) => Some(Overlay::kept(path, size, identity)?),
        };
        Ok(Disk {
            base,
            overlay,
            size,
            read_only: *writes == Writes::Refused,
            unsynced: false,
            origin: Some((path.into(), writes.clone())),
        })
    }

    /// A disk of zeros without a permanent file.
    pub fn blank(size: u64) -> Result<Disk, Error> {
        let base = HostFile::unnamed()?;
        base.set_len(size)?;
        Ok(Disk {
            base,
            overlay: None,
            size,
            read_only: false,
            unsynced: false,
            origin: None,
        })
    }

    /// The raw file, and where writes go, as it was opened; `None` if it has no permanent file.
    pub fn origin(&self) -> Option<(&std::path::Path, &Writes)> {
        let origin = self.origin.as_ref()?;
        Some((&origin.0, &origin.1))
    }

    /// Size in bytes, a multiple of 512.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Identity of the content. The disk must have been flushed.
    pub fn identity(&self) -> Result<Identity, Error> {
        let kept = self.overlay.as_ref().filter(|o| o.is_kept());
        Ok(Identity {
            size: self.size,
            base: self.base.identity()?,
            overlay: kept.map(Overlay::identity).transpose()?,
            temporary: self.overlay.as_ref().is_some_and(|o| !o.is_kept()),
        })
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(Error::Range {
                offset,
                len,
                size: self.size,
            }),
        }
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.check(offset, len)
    }

    /// Reads bytes from an offset in bytes on.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.check(offset, out.len() as u64)?;
        match &self.overlay {
            Some(o) => o.read(&self.base, offset, out),
            None => self.base.read(offset, out),
        }
    }

    /// Writes bytes from an offset in bytes on.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check_write(offset, bytes.len() as u64)?;
        match &mut self.overlay {
            Some(o) => o.write(&self.base, offset, bytes),
            None => {
                self.unsynced = true;
                self.base.write(offset, bytes)
            }
        }
    }

    /// Sets bytes to zero and returns their space to the host, as far as its file system can.
    pub fn zero(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_write(offset, len)?;
        match &mut self.overlay {
            Some(o) => o.zero(&self.base, offset, len),
            None => {
                self.unsynced = true;
                self.base.hole(offset, len)
            }
        }
    }

    /// When this returns, everything written before is on the host's medium. A temporary overlay
    /// has nothing to keep.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.unsynced {
            self.base.sync()?;
            self.unsynced = false;
        }
        match &mut self.overlay {
            Some(o) => o.flush(),
            None => Ok(()),
        }
    }

    /// The content of a temporary overlay, by ascending offset; nothing for other disks.
    pub fn changes(&self) -> impl Iterator<Item = Result<Change, Error>> + '_ {
        let temporary = self.overlay.as_ref().filter(|o| !o.is_kept());
        temporary.into_iter().flat_map(Overlay::changes)
    }

    /// Makes a temporary overlay hold these changes and no others.
    pub fn restore(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<(), Error> {
        let size = self.size;
        let Some(o) = self.overlay.as_mut().filter(|o| !o.is_kept()) else {
            return Err(Error::ReadOnly);
        };
        o.clear()?;
        for (offset, len, bytes) in changes {
            let given = bytes.as_ref().map_or(len, |b| b.len() as u64);
            if given != len || offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(Error::Range { offset, len, size });
            }
            match bytes {
                Some(bytes) => o.write(&self.base, offset, &bytes)?,
                None => o.zero(&self.base, offset, len)?,
            }
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Data that the guest did not flush is kept as well, if possible; that is not required.
        let _ = self.flush();
    }
}
