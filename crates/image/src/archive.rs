//! newc cpio archives, which the kernel unpacks into its initial root file system.

use crate::Error;
use cpio::newc::{trailer, Builder, ModeFileType};
use std::collections::BTreeSet;
use std::io::Write;

/// Archives that follow one another start at multiples of this (the kernel needs 4 bytes).
const ALIGN: usize = 512;

/// A newc archive under construction. Parent directories are created as needed.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    next_inode: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), Error> {
        let path = self.parents(path)?;
        if u32::try_from(content.len()).is_err() {
            return Err(Error::GuestPath {
                path,
                why: "a file in the archive is smaller than 4 GiB",
            });
        }
        let b = self.entry(&path, ModeFileType::Regular, mode);
        self.put(b, content);
        Ok(())
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), Error> {
        let path = self.parents(path)?;
        let b = self.entry(&path, ModeFileType::Symlink, 0o777);
        self.put(b, target.as_bytes());
        Ok(())
    }

    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), Error> {
        let path = self.parents(path)?;
        if self.directories.insert(path.clone()) {
            let b = self.entry(&path, ModeFileType::Directory, mode);
            self.put(b, &[]);
        }
        Ok(())
    }

    pub fn char_device(&mut self, path: &str, mode: u32, dev: (u32, u32)) -> Result<(), Error> {
        let path = self.parents(path)?;
        let b = self
            .entry(&path, ModeFileType::Char, mode)
            .rdev_major(dev.0)
            .rdev_minor(dev.1);
        self.put(b, &[]);
        Ok(())
    }

    /// The archive, closed and padded so that another one can follow.
    pub fn finish(mut self) -> Vec<u8> {
        trailer(&mut self.bytes).expect("writing to memory");
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        self.bytes
    }

    fn entry(&mut self, path: &str, kind: ModeFileType, mode: u32) -> Builder {
        self.next_inode += 1;
        Builder::new(path)
            .ino(self.next_inode)
            .mode(mode & 0o7777)
            .set_mode_file_type(kind)
            .nlink(1)
    }

    fn put(&mut self, b: Builder, content: &[u8]) {
        // The callers have checked that the length fits.
        let mut w = b.write(&mut self.bytes, content.len() as u32);
        w.write_all(content).expect("writing to memory");
        w.finish().expect("writing to memory");
    }

    /// Checks a path, creates its parents, and returns it without the leading `/`.
    fn parents(&mut self, path: &str) -> Result<String, Error> {
        let path = check_path(path)?;
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if self.directories.insert(parent.to_string()) {
                let b = self.entry(parent, ModeFileType::Directory, 0o755);
                self.put(b, &[]);
            }
        }
        Ok(path)
    }
}

fn check_path(path: &str) -> Result<String, Error> {
    let bad = |why| {
        Err(Error::GuestPath {
            path: path.to_string(),
            why,
        })
    };
    let relative = path.strip_prefix('/').unwrap_or(path);
    if relative.is_empty() {
        return bad("name a file, such as /etc/nagori/run");
    }
    if relative.contains('\0') {
        return bad("it holds a NUL character");
    }
    if relative.len() > 4000 {
        return bad("it is longer than 4000 bytes");
    }
    if relative
        .split('/')
        .any(|part| part.is_empty() || part == "." || part == "..")
    {
        return bad("parts that are empty, `.` or `..` are not allowed");
    }
    if relative == "TRAILER!!!" {
        return bad("this name ends a cpio archive");
    }
    Ok(relative.to_string())
}

/// An archive that can be appended to the initrd: (path in the guest, permission bits, content).
/// Later files replace earlier ones of the same path. /init runs `/etc/nagori/run`, if it is
/// executable, instead of a shell.
pub fn overlay_cpio(files: &[(&str, u32, &[u8])]) -> Result<Vec<u8>, Error> {
    let mut a = Archive::default();
    for (path, mode, content) in files {
        a.file(path, *mode, content)?;
    }
    Ok(a.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use proptest::prelude::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    fn read_back(mut rest: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            let mut r = Reader::new(rest).unwrap();
            if r.entry().is_trailer() {
                return found;
            }
            let mut content = Vec::new();
            r.read_to_end(&mut content).unwrap();
            found.push((r.entry().name().to_string(), r.entry().mode(), content));
            rest = r.finish().unwrap();
        }
    }

    #[test]
    fn parents_come_first_and_once() {
        let a = overlay_cpio(&[
            ("/etc/nagori/run", 0o755, b"#!/bin/sh\n"),
            ("etc/nagori/data", 0o600, b"x"),
        ])
        .unwrap();
        assert_eq!(a.len() % ALIGN, 0);
        let found: Vec<_> = read_back(&a).into_iter().map(|(n, m, _)| (n, m)).collect();
        assert_eq!(
            found,
            [
                ("etc".into(), 0o040755),
                ("etc/nagori".into(), 0o040755),
                ("etc/nagori/run".into(), 0o100755),
                ("etc/nagori/data".into(), 0o100600),
            ]
        );
    }

    #[test]
    fn unusable_paths() {
        for p in ["", "/", "a//b", "../x", "a/./b", "a/", "x\0y", "TRAILER!!!"] {
            let e = overlay_cpio(&[(p, 0o644, b"")]).unwrap_err();
            assert!(matches!(e, Error::GuestPath { .. }), "{p:?}: {e}");
        }
    }

    /// The real tool reads what we write, two archives in a row included.
    #[test]
    fn cpio_lists_it() {
        let mut a = Archive::default();
        a.directory("dev", 0o755).unwrap();
        a.char_device("dev/console", 0o600, (5, 1)).unwrap();
        a.symlink("bin/sh", "busybox").unwrap();
        a.file("bin/busybox", 0o755, &[7; 1001]).unwrap();
        let bytes = a.finish();
        let child = Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(c) => c,
            Err(e) if std::env::var_os("NAGORI_REQUIRE_TOOLS").is_none() => {
                eprintln!("skipped: cpio: {e}");
                return;
            }
            Err(e) => panic!("cpio: {e}"),
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with("drwxr-xr-x") && lines[0].ends_with(" dev"));
        assert!(lines[1].starts_with("crw-------") && lines[1].contains("5,   1"));
        assert!(lines[3].starts_with("lrwxrwxrwx") && lines[3].ends_with("bin/sh -> busybox"));
        assert!(lines[4].starts_with("-rwxr-xr-x") && lines[4].contains(" 1001 "));
    }

    proptest! {
        #[test]
        fn round_trip(files in prop::collection::vec(
            ("[a-zA-Z0-9 ._é-]{1,12}x", 0u32..0o1000, prop::collection::vec(any::<u8>(), 0..300)), 0..6))
        {
            let list: Vec<_> = files.iter().map(|(p, m, c)| (p.as_str(), *m, c.as_slice())).collect();
            let back = read_back(&overlay_cpio(&list).unwrap());
            prop_assert_eq!(back.len(), files.len());
            for ((p, m, c), (bp, bm, bc)) in files.iter().zip(&back) {
                prop_assert_eq!((p, m | 0o100000, c), (bp, *bm, bc));
            }
        }
    }
}
