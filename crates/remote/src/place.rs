//! A Unix socket in the file system that is removed with its owner.

use crate::Error;
use rustix::fs::Mode;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A non-blocking listening socket.
pub struct Place {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket: another one that has replaced it must not be removed.
    identity: Option<(u64, u64)>,
}

impl Place {
    /// Listens at a path; only this user may connect. A socket at which nobody listens any more is
    /// replaced.
    pub fn bind(path: &Path) -> Result<Place, Error> {
        let name = || path.display().to_string();
        let io = |what| {
            move |source| Error::Io {
                what,
                path: name(),
                source,
            }
        };
        match std::fs::symlink_metadata(path) {
            Ok(m) if !m.file_type().is_socket() => return Err(Error::NotASocket { path: name() }),
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(Error::InUse { path: name() }),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(io("remove the old socket"))?;
                }
                Err(e) => return Err(io("look at the socket")(e)),
            },
            Err(_) => {}
        }
        // The socket must never exist with wider permissions than in the end.
        let before = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound.map_err(io("listen at"))?;
        listener.set_nonblocking(true).map_err(io("listen at"))?;
        Ok(Place {
            listener,
            path: path.to_path_buf(),
            identity: identity(path),
        })
    }

    /// The listening socket.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let m = std::fs::symlink_metadata(path).ok()?;
    Some((m.dev(), m.ino()))
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // If it cannot be removed, the next machine finds it stale.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        (dir, path)
    }

    #[test]
    fn the_socket_is_private_and_goes_with_its_owner() {
        let (_dir, path) = place();
        let here = Place::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(Place::bind(&path), Err(Error::InUse { .. })));
        drop(here);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_file_is_not() {
        let (_dir, path) = place();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let here = Place::bind(&path).unwrap();
        // Another socket at our path is not removed.
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(here);
        assert!(path.exists());
        let file = path.with_extension("txt");
        std::fs::write(&file, "kept").unwrap();
        assert!(matches!(Place::bind(&file), Err(Error::NotASocket { .. })));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }
}
