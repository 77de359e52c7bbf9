//! Output files that appear whole or not at all.

use anyhow::Context;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file being written under another name, in the same directory.
pub struct Atomic {
    path: PathBuf,
    to: To,
}

enum To {
    New(NamedTempFile),
    /// A device or a pipe: there is nothing to replace.
    Special(File),
}

impl Atomic {
    /// Begins a file that will be `path`.
    pub fn create(path: &Path) -> anyhow::Result<Atomic> {
        let failed = || format!("cannot write {}", path.display());
        let special = path.metadata().is_ok_and(|m| !m.is_file());
        let to = if special {
            let file = File::options().write(true).open(path);
            To::Special(file.with_context(failed)?)
        } else {
            let dir = path.parent().filter(|d| *d != Path::new(""));
            let file = tempfile::Builder::new()
                .prefix(".nagori-")
                // What the mask of the process leaves of it.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(dir.unwrap_or(Path::new(".")));
            To::New(file.with_context(failed)?)
        };
        Ok(Atomic {
            path: path.to_owned(),
            to,
        })
    }

    /// Gives the file its name.
    pub fn finish(self) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        match self.to {
            To::Special(mut f) => f.flush().with_context(failed),
            To::New(f) => {
                f.as_file().sync_all().with_context(failed)?;
                f.persist(&self.path)
                    .map_err(|e| e.error)
                    .with_context(failed)?;
                Ok(())
            }
        }
    }
}

impl Write for Atomic {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::New(f) => f.write(data),
            To::Special(f) => f.write(data),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::New(f) => f.flush(),
            To::Special(f) => f.flush(),
        }
    }
}

/// Writes the contents of a file that gets its name when it is finished.
pub fn stage(path: &Path, data: &[u8]) -> anyhow::Result<Atomic> {
    let mut f = Atomic::create(path)?;
    f.write_all(data)
        .and_then(|()| match &f.to {
            To::New(f) => f.as_file().sync_all(),
            To::Special(_) => Ok(()),
        })
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(f)
}

/// Writes a whole file.
pub fn write(path: &Path, data: &[u8]) -> anyhow::Result<()> {
    stage(path, data)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let mut f = Atomic::create(&path).unwrap();
        f.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(f);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let e = write(Path::new("/no/such/file"), b"").unwrap_err();
        assert!(e.to_string().contains("cannot write /no/such/file"), "{e}");
        let e = write(Path::new("/dev/full"), b"x").unwrap_err();
        assert!(format!("{e:#}").contains("No space left"), "{e:#}");
    }
}
