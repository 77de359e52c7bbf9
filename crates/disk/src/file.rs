//! A file of the host: locked, with holes.

use crate::Error;
use rustix::fs::{fallocate, flock, FallocateFlags, FlockOperation};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Length of zeros written at once where a file system cannot make holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Identity of a file, by which it is recognised later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Length in bytes.
    pub len: u64,
    /// Time of the last change, in ns since 1970; 0 for devices.
    pub changed_ns: i128,
}

impl std::fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.changed_ns.div_euclid(1_000_000_000);
        let ns = self.changed_ns.rem_euclid(1_000_000_000);
        write!(
            f,
            "{} bytes, changed {seconds}.{ns:09} s after 1970",
            self.len
        )
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Write; the file is created if it does not exist.
    Make,
}

/// An open file; the lock is released when it is dropped.
#[derive(Debug)]
pub(crate) struct HostFile {
    file: fs::File,
    path: PathBuf,
    /// Whether the file system refuses holes.
    solid: bool,
    /// Whether it is a regular file, which has a modification time.
    regular: bool,
}

impl Drop for HostFile {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread has just forked has the file, and with it the
        // lock, until it executes its program.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl HostFile {
    /// Opens and locks: several readers may share a file, a writer is alone.
    pub fn open(path: &Path, access: Access) -> Result<HostFile, Error> {
        let write = access != Access::Read;
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .create(access == Access::Make)
            .truncate(false)
            .open(path)
            .map_err(Error::io(path, if write { "write" } else { "read" }))?;
        let kind = file
            .metadata()
            .map_err(Error::io(path, "examine"))?
            .file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Error::Unfit {
                path: path.into(),
                problem: "expected a file or a block device".into(),
            });
        }
        let lock = if write {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match flock(&file, lock) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path: path.into() }),
            Err(e) => return Err(Error::io(path, "lock")(e.into())),
        }
        Ok(HostFile {
            file,
            path: path.into(),
            solid: false,
            regular: kind.is_file(),
        })
    }

    /// A file without a name, which is deleted when it is dropped.
    pub fn unnamed() -> Result<HostFile, Error> {
        let path = std::env::temp_dir();
        let file = tempfile::tempfile().map_err(Error::io(&path, "make a temporary file"))?;
        Ok(HostFile {
            file,
            path: path.join("(temporary)"),
            solid: false,
            regular: true,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn len(&self) -> Result<u64, Error> {
        let mut file = &self.file;
        file.seek(SeekFrom::End(0))
            .map_err(Error::io(&self.path, "examine"))
    }

    pub fn identity(&self) -> Result<FileIdentity, Error> {
        let len = self.len()?;
        let examine = Error::io(&self.path, "examine");
        let changed = if self.regular {
            self.file
                .metadata()
                .and_then(|m| m.modified())
                .map_err(examine)?
        } else {
            UNIX_EPOCH
        };
        let changed_ns = match changed.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        Ok(FileIdentity { len, changed_ns })
    }

    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        self.file
            .set_len(len)
            .map_err(Error::io(&self.path, "resize"))
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file
            .read_exact_at(out, offset)
            .map_err(Error::io(&self.path, "read"))
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(Error::io(&self.path, "write"))
    }

    /// Writes zeros that take no space, if the file system can do that.
    pub fn hole(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        if !self.solid {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, offset, len) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => self.solid = true,
                Err(e) => return Err(Error::io(&self.path, "make a hole")(e.into())),
            }
        }
        let mut done = 0;
        while done < len {
            let n = (len - done).min(ZEROS.len() as u64);
            self.write(offset + done, &ZEROS[..n as usize])?;
            done += n;
        }
        Ok(())
    }

    /// When this returns, everything written is on the medium.
    pub fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_data()
            .map_err(Error::io(&self.path, "flush"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a child process does between fork and exec.
    #[test]
    fn a_descriptor_elsewhere_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let file = HostFile::open(&path, Access::Make).unwrap();
        let _elsewhere = file.file.try_clone().unwrap();
        assert!(matches!(
            HostFile::open(&path, Access::Read),
            Err(Error::Locked { .. })
        ));
        drop(file);
        HostFile::open(&path, Access::Write).unwrap();
    }
}
