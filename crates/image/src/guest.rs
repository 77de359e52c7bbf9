//! Our own guest programs: their sources are embedded in this crate and are compiled on the host.

use crate::error::IoContext;
use crate::tool::GCC;
use crate::Error;
use include_dir::{include_dir, Dir, DirEntry};
use std::fs;
use std::path::Path;

static BENCH: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/bench");
static AGENT: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/agent");
static LIB: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/lib");
static INCLUDE: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/include");
static MALLOC: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/malloc");
static CRASH: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/crash");
static PERSIST: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/persist");
static OFF2F: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/off2f");
static KERNEL: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/kernel");
static INIT: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../guest/init");

/// rv64gc, the baseline of Debian's own programs; no path of the host gets into the program.
const FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-march=rv64gc",
    "-mabi=lp64d",
    "-s",
    "-Wl,--build-id=none",
];

/// A file of `guest/`: its relative path, and its bytes.
pub(crate) struct Source {
    pub path: String,
    pub bytes: &'static [u8],
}

/// What is compiled for root file systems with libraries, for /usr/local.
const MALLOC_FILES: [Dynamic; 2] = [
    Dynamic {
        path: "lib/libnagori-malloc.so",
        sources: &["malloc/nagori-malloc.c", "malloc/heap.c", "malloc/nvmm.c"],
        flags: &["-shared", "-fPIC", "-fvisibility=hidden"],
    },
    Dynamic {
        path: "bin/malloc-check",
        sources: &["malloc/check.c"],
        flags: &[],
    },
];

struct Dynamic {
    path: &'static str,
    sources: &'static [&'static str],
    flags: &'static [&'static str],
}

/// Directories of sources that are used in root file systems only.
pub(crate) const ROOTFS_ONLY: [&str; 3] = ["crash/", "malloc/", "persist/"];
/// The library by which programs flush their stores to NVMM, a program that checks it, and the programs on which crash
/// exploration is tried.
const PERSIST_FILES: [Dynamic; 3] = [
    Dynamic {
        path: "lib/libnagori-persist.so",
        sources: &["persist/nagori-persist.c"],
        // Without -fno-builtin a copying loop is compiled into a call of the very function in which
        // it is.
        flags: &["-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin"],
    },
    Dynamic {
        path: "bin/persist-check",
        sources: &["persist/check.c"],
        flags: &[],
    },
    Dynamic {
        path: "bin/crash-corpus",
        sources: &[
            "crash/main.c",
            "crash/ring.c",
            "crash/hash.c",
            "crash/btree.c",
            "crash/alloc.c",
        ],
        flags: &["-static"],
    },
];

/// A compiled program, for `/bin`.
pub(crate) struct Program {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// All sources, sorted by path.
pub(crate) fn sources() -> Vec<Source> {
    let mut list = Vec::new();
    for (name, dir) in [
        ("agent", &AGENT),
        ("bench", &BENCH),
        ("lib", &LIB),
        ("include", &INCLUDE),
        ("init", &INIT),
        ("malloc", &MALLOC),
        ("persist", &PERSIST),
        ("crash", &CRASH),
        ("off2f", &OFF2F),
        ("kernel", &KERNEL),
    ] {
        collect(name, dir, &mut list);
    }
    // `nagori bench vcopy` compiles it for itself.
    list.retain(|s| !s.path.starts_with("bench/vcopy/"));
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

/// One of the files of `guest/init`.
pub(crate) fn init_file(name: &str) -> &'static [u8] {
    INIT.get_file(name)
        .map(|f| f.contents())
        .expect("the file is part of guest/init")
}

/// The compiler's version, for the manifest.
pub(crate) fn compiler() -> Result<String, Error> {
    let mut c = GCC.command();
    c.arg("-dumpfullversion");
    let out = GCC.run(c, "ask the compiler's version")?;
    let version = String::from_utf8_lossy(&out.stdout);
    Ok(format!("{} {}", GCC.name, version.trim()))
}

/// Writes all sources into `work`.
pub(crate) fn write_sources(work: &Path) -> Result<Vec<Source>, Error> {
    let sources = sources();
    for s in &sources {
        let file = work.join(&s.path);
        let dir = file.parent().unwrap_or(work);
        fs::create_dir_all(dir).context("create", dir)?;
        fs::write(&file, s.bytes).context("write", &file)?;
    }
    Ok(sources)
}

/// Runs the compiler in `work` for one file, and returns the result.
fn compile_one(work: &Path, name: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let mut c = GCC.command();
    c.current_dir(work)
        .args(FLAGS)
        .args(["-Iinclude", "-Ilib", "-o", "program"])
        .args(arguments);
    GCC.run(c, "compile").map_err(|e| match e {
        Error::Command { output, .. } => Error::Compile {
            program: name.to_string(),
            output,
        },
        other => other,
    })?;
    let file = work.join("program");
    fs::read(&file).context("read", &file)
}

/// Compiles `malloc/*.c` against the guest's C library; names are paths below /usr/local.
/// `work` is an empty directory.
pub(crate) fn compile_malloc(work: &Path) -> Result<Vec<Program>, Error> {
    write_sources(work)?;
    let mut built = Vec::new();
    for d in &MALLOC_FILES {
        // Otherwise the compiler merges malloc and memset into calloc, and removes code that it
        // considers to have no effect.
        let mut arguments = vec!["-fno-builtin", "-Imalloc"];
        arguments.extend(d.flags);
        arguments.extend(d.sources);
        built.push(Program {
            name: d.path.to_string(),
            bytes: compile_one(work, d.path, &arguments)?,
        });
    }
    Ok(built)
}

/// Compiles `persist/*.c`, a library that is preloaded into programs and a program that checks it, and `crash/*.c`.
/// Names are paths below /usr/local. `work` is an empty directory.
pub(crate) fn compile_persist(work: &Path) -> Result<Vec<Program>, Error> {
    write_sources(work)?;
    let compile = |d: &Dynamic| {
        let arguments = [d.flags, d.sources].concat();
        Ok(Program {
            name: d.path.to_string(),
            bytes: compile_one(work, d.path, &arguments)?,
        })
    };
    PERSIST_FILES.iter().map(compile).collect()
}

/// Compiles every `bench/*.c` and `agent/*.c`, each with all of `lib/*.c`. `work` is an empty directory.
pub(crate) fn compile(work: &Path, mut progress: impl FnMut(&str)) -> Result<Vec<Program>, Error> {
    let sources = write_sources(work)?;
    let c_files = |dir: &str| -> Vec<&str> {
        sources
            .iter()
            .map(|s| s.path.as_str())
            .filter(|p| p.starts_with(dir) && p.ends_with(".c"))
            .collect()
    };
    let lib = c_files("lib/");
    let mut programs = Vec::new();
    for main in c_files("bench/").into_iter().chain(c_files("agent/")) {
        let name = main.rsplit('/').next().unwrap_or(main);
        let name = name.trim_end_matches(".c");
        progress(name);
        let mut arguments = vec!["-static", "-Iagent", main];
        arguments.extend(&lib);
        programs.push(Program {
            name: name.to_string(),
            bytes: compile_one(work, name, &arguments)?,
        });
    }
    progress("off2f");
    programs.push(Program {
        name: "off2f".to_string(),
        bytes: compile_one(
            work,
            "off2f",
            &["-static", "off2f/off2f.c", "off2f/files.c", "off2f/store.c"],
        )?,
    });
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_all_here_and_sorted() {
        let list = sources();
        let paths: Vec<&str> = list.iter().map(|s| s.path.as_str()).collect();
        for needed in [
            "agent/nagori-agent.c",
            "bench/nagori-exit.c",
            "include/nagori.h",
            "init/init",
        ] {
            assert!(paths.contains(&needed), "{needed} not in {paths:?}");
        }
        assert!(paths.is_sorted());
        assert!(!paths.iter().any(|p| p.contains("vcopy")), "{paths:?}");
        assert!(init_file("init").starts_with(b"#!/bin/busybox sh\n"));
    }
}
