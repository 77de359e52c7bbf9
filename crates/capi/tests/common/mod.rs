//! What the tests share: the libraries that were built, and running other programs.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The newest library with that ending beside this test.
pub fn library(ending: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let age = |p: &Path| {
        let m = p.metadata().and_then(|m| m.modified());
        m.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    [deps, deps.parent().unwrap()]
        .iter()
        .flat_map(|d| std::fs::read_dir(d).unwrap())
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("libnagori_capi") && name.ends_with(ending)
        })
        .max_by_key(|p| age(p))
        .unwrap_or_else(|| panic!("no libnagori_capi*{ending} in {}", deps.display()))
}

/// The crate's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command; returns what it printed. Panics with its errors if it fails.
pub fn run(c: &mut Command) -> String {
    let out = c
        .output()
        .unwrap_or_else(|e| panic!("{c:?}: {e}; make setup installs what tests need"));
    let errors = String::from_utf8_lossy(&out.stderr);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{c:?}: {}\n{text}{errors}",
        out.status
    );
    text
}

/// Installs the library into a new folder; returns the folder.
pub fn installed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    install(&mut Command::new("sh"), dir.path(), None);
    dir
}

/// Runs `scripts/install.sh` for a prefix.
pub fn install(c: &mut Command, prefix: &Path, destdir: Option<&Path>) {
    c.arg(root().join("../../scripts/install.sh"))
        .env("PREFIX", prefix)
        .env("SHARED", library(".so"))
        .env("STATIC", library(".a"));
    for name in ["LIBDIR", "INCLUDEDIR", "DESTDIR", "COMMAND"] {
        c.env_remove(name);
    }
    if let Some(d) = destdir {
        c.env("DESTDIR", d);
    }
    run(c);
}
