//! Files that a command writes: checked before its work begins, and written completely or not at
//! all.
//!
//! `-` is standard output everywhere.

use anyhow::{bail, Context};
use rustix::fs::{access, linkat, openat, Access, AtFlags, Mode, OFlags, CWD};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The name that stands for standard output.
const STDOUT: &str = "-";
/// Number of bytes that a disk must take before the work begins: a full disk is noticed now, not
/// after hours.
const PROBE: usize = 64 << 10;

/// Whether a name means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// The error of an operation on a path.
fn failed(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    let dir = path.parent().filter(|d| *d != Path::new(""));
    dir.unwrap_or(Path::new("."))
}

/// Writes something and removes it again, to see whether there is room.
fn probe(file: &mut File) -> io::Result<()> {
    let done = file.write_all(&[0; PROBE]);
    // Whatever was written must not stay.
    file.set_len(0)?;
    file.rewind()?;
    done
}

/// A file that is written under a temporary name or none, and gets its name when it is complete. If
/// it is dropped before, or the process dies, nothing is left behind, and an old file stays as it
/// was.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Stdout,
    /// A file without a name yet.
    Unnamed(File),
    /// A temporary name, if the file system has no unnamed files.
    Named(NamedTempFile),
    /// An existing writable file in a directory that is not writable.
    InPlace(File),
    /// A device or a pipe: there is nothing to replace.
    Special(File),
}

impl Staged {
    /// Begins a file that will be `path`. It is an error if it cannot be created.
    pub fn create(path: &Path) -> anyhow::Result<Staged> {
        let to = To::open(path).with_context(|| failed(path))?;
        let mut staged = Staged {
            path: path.to_owned(),
            to,
        };
        if let Some(file) = staged.file() {
            probe(file).with_context(|| failed(path))?;
        }
        Ok(staged)
    }

    /// Whether it goes to standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// The temporary file.
    fn file(&mut self) -> Option<&mut File> {
        match &mut self.to {
            To::Unnamed(f) => Some(f),
            To::Named(f) => Some(f.as_file_mut()),
            To::InPlace(_) | To::Special(_) | To::Stdout => None,
        }
    }

    /// Writes the contents, so that only the renaming remains.
    pub fn fill(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let sync = |f: &mut File| f.sync_all();
        self.write_all(data)
            .and_then(|()| self.file().map_or(Ok(()), sync))
            .with_context(|| failed(&self.path))
    }

    /// Writes the whole file.
    pub fn put(mut self, data: &[u8]) -> anyhow::Result<()> {
        self.fill(data)?;
        self.finish()
    }

    /// Gives the file its name; afterwards it is on the disk.
    pub fn finish(self) -> anyhow::Result<()> {
        let path = self.path.clone();
        self.close().with_context(|| failed(&path))
    }

    /// As [`Staged::finish`], but the error is the host's alone, without the file's name.
    pub fn close(mut self) -> io::Result<()> {
        self.flush()?;
        self.name()
    }

    fn name(self) -> io::Result<()> {
        let file = match self.to {
            To::Stdout | To::Special(_) => return Ok(()),
            To::InPlace(f) => return f.sync_all(),
            To::Named(f) => f,
            To::Unnamed(f) => {
                f.sync_all()?;
                link(&f, &self.path)?
            }
        };
        file.as_file().sync_all()?;
        let target = target(&self.path);
        if let Ok(old) = target.metadata() {
            // The permissions of the old file are kept.
            let mode = old.permissions().mode() & 0o777;
            let _ = fs::set_permissions(file.path(), Permissions::from_mode(mode));
        }
        file.persist(&target).map_err(|e| e.error)?;
        // The name is permanent only after the directory has been synced.
        File::open(parent(&target))?.sync_all()
    }
}

/// Gives an unnamed file a temporary name beside `path`.
fn link(file: &File, path: &Path) -> io::Result<NamedTempFile> {
    let number = format!("/proc/self/fd/{}", file.as_raw_fd());
    builder().make_in(parent(&target(path)), |aside| {
        linkat(CWD, &number, CWD, aside, AtFlags::SYMLINK_FOLLOW)?;
        file.try_clone()
    })
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut b = tempfile::Builder::new();
    b.prefix(".nagori-");
    b
}

/// The real path of a file: a link is kept, and its target is replaced.
fn target(path: &Path) -> PathBuf {
    match path.symlink_metadata() {
        Ok(m) if m.is_symlink() => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        _ => path.to_owned(),
    }
}

impl To {
    fn open(path: &Path) -> anyhow::Result<To> {
        if is_stdout(path) {
            return Ok(To::Stdout);
        }
        let old = path.metadata().ok();
        match &old {
            Some(m) if m.is_dir() => bail!("it is a directory"),
            Some(m) if !m.is_file() => {
                return Ok(To::Special(File::options().write(true).open(path)?));
            }
            // An old file that will be replaced may be read-only, but its content is lost anyway.
            Some(_) => access(path, Access::WRITE_OK)?,
            None => {}
        }
        let target = target(path);
        let dir = parent(&target);
        if !dir.is_dir() {
            bail!("there is no directory {}", dir.display());
        }
        match To::aside(dir) {
            Err(e) if old.is_some() && e.kind() == ErrorKind::PermissionDenied => {
                Ok(To::InPlace(File::options().write(true).open(&target)?))
            }
            aside => Ok(aside?),
        }
    }

    /// A new file in a directory, unnamed if possible, so that it cannot be left behind.
    fn aside(dir: &Path) -> io::Result<To> {
        // The permissions that the process's umask leaves.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = openat(CWD, dir, flags, mode) {
            return Ok(To::Unnamed(file.into()));
        }
        let permissions = Permissions::from_mode(0o666);
        builder()
            .permissions(permissions)
            .tempfile_in(dir)
            .map(To::Named)
    }
}

impl Write for Staged {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout => io::stdout().write(data),
            To::Named(f) => f.write(data),
            To::InPlace(f) => {
                // From the first byte on the old contents are gone.
                if f.stream_position()? == 0 {
                    f.set_len(0)?;
                }
                f.write(data)
            }
            To::Unnamed(f) | To::Special(f) => f.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout => io::stdout().flush(),
            To::Named(f) => f.flush(),
            To::Unnamed(f) | To::InPlace(f) | To::Special(f) => f.flush(),
        }
    }
}

/// Checks whether a file that somebody else writes under a temporary name and renames can be
/// created.
pub fn check(path: &Path) -> anyhow::Result<()> {
    Staged::create(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, data: &[u8]) -> anyhow::Result<()> {
        Staged::create(path)?.put(data)
    }

    #[test]
    fn files_appear_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut f = Staged::create(&path).unwrap();
        f.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(f);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn where_there_are_no_files_without_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let aside = || Staged {
            path: path.clone(),
            to: To::Named(builder().tempfile_in(dir.path()).unwrap()),
        };
        drop(aside());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        aside().put(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_permissions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_cannot_be_written_is_told_before() {
        let text = |p: &Path| format!("{:#}", Staged::create(p).unwrap_err());
        let e = text(Path::new("/no/such/file"));
        assert!(
            e.contains("cannot write /no/such/file") && e.contains("no directory /no/such"),
            "{e}"
        );
        let dir = tempfile::tempdir().unwrap();
        assert!(text(dir.path()).contains("it is a directory"));
        let e = write(Path::new("/dev/full"), b"x").unwrap_err();
        assert!(format!("{e:#}").contains("No space left"), "{e:#}");
    }
}
