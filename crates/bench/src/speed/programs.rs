//! The bare-metal programs: their list, and their compilation.

use anyhow::{bail, Context};
use nagori_config::MemoryConfig;
use nagori_memtime::Method;
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role};
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../guest/speed/", $name)))),*]
    };
}

/// The embedded sources of the programs.
const SOURCES: &[(&str, &str)] = sources![
    "start.S",
    "start.c",
    "speed.h",
    "link.ld",
    "collatz.h",
    "cycle.h",
    "heap.h",
    "integer.c",
    "mix.c",
    "sort.c",
    "chase32k.c",
    "chase64m.c",
    "random.c",
    "stream.c",
    "matrix.c",
    "bytecode.c",
    "compress.c",
    "text.S",
    "smp.c",
    "empty.c",
];
/// The text that `compress` compresses.
const TEXT: (&str, &str) = ("text.txt", include_str!("../../../../LICENSE"));

/// A bare-metal workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name in rows.
    pub name: &'static str,
    /// Its files, besides those that start it.
    pub files: &'static [&'static str],
    /// How many harts run it.
    pub harts: u32,
    /// Definitions for the compiler.
    pub defs: &'static [&'static str],
    /// Number of loads from random places at length 100 %.
    pub accesses: Option<u64>,
}

impl Program {
    /// A program of one hart.
    pub const fn new(name: &'static str, files: &'static [&'static str]) -> Program {
        Program {
            name,
            files,
            harts: 1,
            defs: &[],
            accesses: None,
        }
    }

    /// Whether it runs on one hart, so that it belongs to the set that is compared.
    pub fn is_single(&self) -> bool {
        !self.name.starts_with("smp")
    }
}

/// The programs, in the order of rows.
pub const PROGRAMS: &[Program] = &[
    Program::new("integer", &["integer.c"]),
    Program::new("mix", &["mix.c"]),
    Program::new("sort", &["sort.c"]),
    Program::new("chase32k", &["chase32k.c"]),
    Program::new("chase64m", &["chase64m.c"]),
    Program {
        accesses: Some(3_000_000),
        ..Program::new("random", &["random.c"])
    },
    Program::new("stream", &["stream.c"]),
    Program::new("matrix", &["matrix.c"]),
    Program::new("bytecode", &["bytecode.c"]),
    Program::new("compress", &["compress.c", "text.S"]),
    Program::new("smp1", &["smp.c"]),
    Program {
        harts: 4,
        ..Program::new("smp4", &["smp.c"])
    },
];
/// An empty program: the cost of starting a machine.
pub const EMPTY: Program = Program::new("empty", &["empty.c"]);

/// The cross compiler.
pub const COMPILER: &str = "riscv64-linux-gnu-gcc";
/// For programs without an operating system, linked as `link.ld` says.
pub const BARE: &[&str] = &[
    "-march=rv64gc",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-pic",
    "-no-pie",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-fno-tree-vectorize",
    "-nostdlib",
    "-static",
    "-Wl,--build-id=none",
    "-Wl,--no-warn-rwx-segments",
    "-Wl,-T,link.ld",
];
const FLAGS: &[&str] = &["-std=gnu11", "-O2", "-Wall", "-Wextra"];

/// Space for the programs' data, in bytes.
const ROOM: u64 = 128 << 20;
/// Space for code, in bytes.
const REACH: u64 = 2 << 30;

/// Address of the data of timed programs under a method; `None`: after the code, in DRAM.
pub fn data_base(memory: &MemoryConfig, method: Method) -> anyhow::Result<Option<u64>> {
    if method == Method::Dram {
        return Ok(None);
    }
    let (from, end) = (memory.nvmm_base(), memory.end());
    if end - from < ROOM || from - memory.base > REACH - ROOM {
        bail!(
            "timed runs under method {} have their data in NVMM: that needs {} MiB of it, less than {} MiB behind the \
                start of memory, but NVMM is {from:#x}..{end:#x}; give --methods dram",
            method.name(),
            ROOM >> 20,
            (REACH - ROOM) >> 20,
        );
    }
    Ok(Some(from))
}

/// A directory of compiled programs that is removed when it is dropped.
pub struct Work(tempfile::TempDir);

impl Work {
    /// Creates it, with the sources.
    pub fn new() -> anyhow::Result<Work> {
        let dir = tempfile::Builder::new().prefix("nagori-speed-").tempdir();
        let dir = dir.context("cannot create a directory for the programs")?;
        for (name, text) in SOURCES.iter().chain([&TEXT]) {
            let path = dir.path().join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Work(dir))
    }

    /// Adds a source.
    pub fn add(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Compiles a program for a length in percent, with its data at an address; returns the ELF's
    /// path.
    pub fn compile(&self, p: &Program, scale: u32, data: Option<u64>) -> anyhow::Result<PathBuf> {
        let at = data.map_or(String::new(), |d| format!("-{d:x}"));
        let out = self.0.path().join(format!("{}{at}.elf", p.name));
        let place = data.map(|d| format!("-Wl,--defsym=DATA={d:#x}"));
        let run = Command::new(COMPILER)
            .current_dir(self.0.path())
            // The script sees only what is defined before it.
            .args(place)
            .args(FLAGS)
            .args(BARE)
            .args([format!("-DSCALE={scale}"), format!("-DHARTS={}", p.harts)])
            .args(p.defs)
            .args(["start.S", "start.c"])
            .args(p.files)
            .arg("-o")
            .arg(&out)
            .output();
        let run = run.with_context(|| {
            format!(
                "cannot run {COMPILER}: install gcc-riscv64-linux-gnu, which compiles the programs"
            )
        })?;
        if !run.status.success() {
            bail!(
                "{COMPILER} does not compile {}:\n{}",
                p.files.join(", "),
                String::from_utf8_lossy(&run.stderr)
            );
        }
        Ok(out)
    }
}

/// The load address of an ELF in a memory.
pub fn plan(memory: &MemoryConfig, elf: &Path) -> anyhow::Result<Plan> {
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, elf)?;
    Ok(loader::load_elf(&file, range)?.plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagori_config::{Library, Machine};

    fn memory(settings: &[&str]) -> MemoryConfig {
        let set: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        let m = Machine::load(&Library::installed(), "vc707", &set).unwrap();
        m.config.memory.clone()
    }

    #[test]
    fn every_program_has_its_sources() {
        for p in PROGRAMS.iter().chain([&EMPTY]) {
            for file in p.files {
                assert!(SOURCES.iter().any(|s| s.0 == *file), "{}: {file}", p.name);
            }
        }
        assert!(TEXT.1.len() > 10_000, "a real text");
    }

    #[test]
    fn data_is_in_nvmm_where_that_is_measured() {
        let board = memory(&[]);
        assert_eq!(data_base(&board, Method::Dram).unwrap(), None);
        assert_eq!(
            data_base(&board, Method::Extended).unwrap(),
            Some(0xc000_0000)
        );
        let far = memory(&["memory.nvmm_boundary='2 GiB'"]);
        let e = data_base(&far, Method::Fine).unwrap_err().to_string();
        assert!(e.contains("--methods dram") && e.contains("fine"), "{e}");
        assert_eq!(data_base(&far, Method::Dram).unwrap(), None);
    }
}
