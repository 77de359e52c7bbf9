//! Fingerprint of the sources on which the figures of a run depend: results of another model are never taken for those
//! of this one.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// What decides what a run costs, below `crates/`. Engines are equal in every figure, so the translator is not among
/// them.
const MODEL: [&str; 17] = [
    "isa/src",
    "softfloat/src",
    "ram/src",
    "values/src",
    "counters/src",
    "memtime/src",
    "memcfg/src",
    "epoch/src",
    "cache/src",
    "hart/src",
    "platform/src",
    "machine/src",
    "snapshot/src",
    "sampling/src",
    "disk/src",
    "session/src/drive",
    "session/src/program",
];

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for name in MODEL {
        let dir = here.join("..").join(name);
        assert!(
            dir.is_dir(),
            "{name} is not where it was: MODEL has to follow"
        );
        println!("cargo:rerun-if-changed={}", dir.display());
        collect(&dir, &mut files);
    }
    files.sort();
    // FNV-1a of 128 bits: the same on every host and with every compiler.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let mut add = |bytes: &[u8]| {
        for b in bytes {
            hash = (hash ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    for file in &files {
        let name = file
            .strip_prefix(&here)
            .unwrap_or(file)
            .to_string_lossy()
            .into_owned();
        add(name.as_bytes());
        add(&fs::read(file).unwrap_or_default());
    }
    println!("cargo:rustc-env=NAGORI_MODEL={hash:032x}");
}

/// All source files below a directory.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)
        } else {
            files.push(path)
        }
    }
}
