//! Our own guest programs, compiled when this crate was, and the sources of our kernel modules.

use crate::error::IoContext;
use crate::Error;
use include_dir::{include_dir, Dir, DirEntry};
use std::fs;
use std::io::Read;
use std::path::Path;

/// See build.rs.
static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/programs.tar.xz"));
static OFF2F: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/off2f");
static KERNEL: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/kernel");
static INIT: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/init");

/// The compiler of the programs, with its version, for manifests.
pub(crate) const COMPILER: &str = env!("NAGORI_GUEST_COMPILER");

/// A file of `guest/`: its relative path, and its bytes.
pub(crate) struct Source {
    pub path: String,
    pub bytes: &'static [u8],
}

/// A compiled program or library.
pub(crate) struct Program {
    /// For /bin, or a path below /usr/local.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The programs of every guest, for /bin.
pub(crate) fn programs() -> Vec<Program> {
    below("all/")
}

/// The programs and libraries of root file systems; names are paths below /usr/local.
pub(crate) fn rootfs_programs() -> Vec<Program> {
    let mut all = programs();
    for p in &mut all {
        p.name = format!("bin/{}", p.name);
    }
    all.extend(below("root/"));
    all
}

fn below(folder: &str) -> Vec<Program> {
    let mut archive = tar::Archive::new(lzma_rust2::XzReader::new(PROGRAMS, false));
    let mut found = Vec::new();
    for e in archive.entries().expect("packed by build.rs") {
        let mut e = e.expect("packed by build.rs");
        let path = String::from_utf8_lossy(&e.path_bytes()).into_owned();
        let name = path.strip_prefix(folder).map(String::from);
        let Some(name) = name.filter(|_| e.header().entry_type().is_file()) else {
            continue;
        };
        let mut bytes = Vec::new();
        e.read_to_end(&mut bytes).expect("packed by build.rs");
        found.push(Program { name, bytes });
    }
    found
}

/// The sources of our kernel modules, sorted by path.
pub(crate) fn module_sources() -> Vec<Source> {
    let mut list = Vec::new();
    for (name, dir) in [("off2f", &OFF2F), ("kernel", &KERNEL)] {
        collect(name, dir, &mut list);
    }
    list.sort_by(|a, b| a.path.cmp(&b.path));
    list
}

fn collect(root: &str, dir: &'static Dir<'static>, list: &mut Vec<Source>) {
    for entry in dir.entries() {
        match entry {
            DirEntry::Dir(d) => collect(root, d, list),
            DirEntry::File(f) => list.push(Source {
                path: format!("{root}/{}", f.path().display()),
                bytes: f.contents(),
            }),
        }
    }
}

/// The scripts of `guest/init`, by their names.
pub(crate) fn init_files() -> impl Iterator<Item = (String, &'static [u8])> {
    let name =
        |f: &'static include_dir::File<'static>| (f.path().display().to_string(), f.contents());
    INIT.files().map(name)
}

/// One of them.
pub(crate) fn init_file(name: &str) -> &'static [u8] {
    INIT.get_file(name)
        .map(|f| f.contents())
        .expect("the file is part of guest/init")
}

/// Writes the sources of our kernel modules into `work`.
pub(crate) fn write_module_sources(work: &Path) -> Result<(), Error> {
    for s in module_sources() {
        let file = work.join(&s.path);
        let dir = file.parent().unwrap_or(work);
        fs::create_dir_all(dir).context("create", dir)?;
        fs::write(&file, s.bytes).context("write", &file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_all_here() {
        let names: Vec<String> = rootfs_programs().into_iter().map(|p| p.name).collect();
        for needed in [
            "bin/nagori-agent",
            "bin/nagori-exit",
            "bin/bench-board",
            "bin/off2f",
            "bin/crash-corpus",
            "lib/libnagori-malloc.so",
            "lib/libnagori-persist.so",
        ] {
            assert!(
                names.iter().any(|n| n == needed),
                "{needed} not in {names:?}"
            );
        }
        for p in programs() {
            // ELF, 64 bits, for RISC-V.
            assert!(
                p.bytes.starts_with(b"\x7fELF\x02") && p.bytes[18..20] == [243, 0],
                "{}",
                p.name
            );
        }
    }

    #[test]
    fn scripts_and_sources_are_here() {
        assert!(init_file("init").starts_with(b"#!/bin/busybox sh\n"));
        assert!(init_files().any(|(name, _)| name == "udhcpc"));
        let paths: Vec<String> = module_sources().into_iter().map(|s| s.path).collect();
        assert!(
            paths.is_sorted() && paths.iter().any(|p| p == "kernel/off2f/off2f.c"),
            "{paths:?}"
        );
    }
}
