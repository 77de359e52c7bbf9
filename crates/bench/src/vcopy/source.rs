//! The C source of the benchmark, and its compilation for the machine and for this host.

use super::cells::Cell;
use super::rows;
use crate::speed::programs::{BARE, COMPILER};
use anyhow::{bail, Context};
use nagori_config::{Machine as Description, MemoryConfig};
use nagori_hart::events;
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role};
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../guest/bench/vcopy/", $name)))),*]
    };
}

const SOURCES: &[(&str, &str)] = sources![
    "machine.h",
    "ring.h",
    "vcopy.h",
    "vcopy.c",
    "frame.h",
    "bare.c",
    "posix.c",
];
/// How a bare-metal program starts.
const START: &[(&str, &str)] = &[
    ("start.S", include_str!("../../../../guest/speed/start.S")),
    ("link.ld", include_str!("../../../../guest/speed/link.ld")),
];

const COMMON: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fno-strict-aliasing",
];
const PROGRAM: &[&str] = &["-DHARTS=2", "start.S", "bare.c", "vcopy.c"];

/// Bytes of NVMM that the buffers take.
const BUFFERS: u64 = 1 << 20;

/// What a machine's counters count, from mhpmcounter3 on: names in rows, and of events.
const EVENTS: &[(&str, &str)] = &[
    ("instructions", "instructions"),
    ("l1_loads", "l1d-loads"),
    ("l1_stores", "l1d-stores"),
    (rows::DEMAND_MISSES, "l1d-misses"),
    (rows::PREFETCHES, "l1d-prefetches"),
    ("l1_upgrades", "l1d-upgrades"),
    ("l2_accesses", "l2-accesses"),
    ("l2_misses", "l2-misses"),
    ("llc_accesses", "llc-accesses"),
    ("llc_misses", "llc-misses"),
    ("lfb_allocations", "lfb-allocations"),
    ("lfb_full", "lfb-full"),
    ("lfb_full_cycles", "lfb-full-cycles"),
    ("pending_cycles", "load-pending-cycles"),
    ("stall_cycles", "stall-cycles"),
    ("mispredicts", "mispredicts"),
    ("dram_reads", "dram-reads"),
    ("dram_writes", "dram-writes"),
    ("nvmm_reads", "nvmm-reads"),
    ("nvmm_writes", "nvmm-writes"),
];

/// Codes of mhpmevent for these.
fn codes() -> anyhow::Result<Vec<u16>> {
    let code = |name: &str| {
        let row = events::rows().find(|r| r.name == name);
        row.map(|r| r.code)
            .with_context(|| format!("there is no event {name}"))
    };
    EVENTS.iter().map(|e| code(e.1)).collect()
}

/// Names of the counters, in the order in which the program prints them.
pub fn names() -> Vec<&'static str> {
    EVENTS.iter().map(|e| e.0).collect()
}

/// Packets before those that count: a quarter, and at least one round through the ring.
fn warm(packets: u32) -> u32 {
    (packets / 4).max(256)
}

/// A directory with the sources and what was compiled, removed when it is dropped.
pub struct Work(tempfile::TempDir);

impl Work {
    /// Creates it.
    pub fn new() -> anyhow::Result<Work> {
        let dir = tempfile::Builder::new().prefix("nagori-vcopy-").tempdir();
        let work = Work(dir.context("cannot create a directory for the program")?);
        for (name, text) in SOURCES.iter().chain(START) {
            work.write(name, text)?;
        }
        Ok(work)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The list of cells, as the C source includes it.
    fn cells(&self, cells: &[Cell], packets: u32, repeats: u32) -> anyhow::Result<()> {
        let lines: Vec<String> = cells
            .iter()
            .map(|c| format!("    {}\n", c.c(packets, warm(packets))))
            .collect();
        let text = format!(
            "#define REPEATS {repeats}\nstatic const struct cell cells[] = {{\n{}}};\n",
            lines.concat()
        );
        self.write("cells.h", &text)
    }

    fn run(&self, compiler: &str, args: &[&str], out: &str) -> anyhow::Result<PathBuf> {
        let out = self.0.path().join(out);
        let run = Command::new(compiler)
            .current_dir(self.0.path())
            .args(COMMON)
            .args(args)
            .arg("-o")
            .arg(&out)
            .output();
        let run =
            run.with_context(|| format!("cannot run {compiler}, which compiles the program"))?;
        if !run.status.success() {
            bail!(
                "{compiler} fails:\n{}",
                String::from_utf8_lossy(&run.stderr)
            );
        }
        Ok(out)
    }

    /// Compiles for a machine without an operating system: packets and repetitions of each cell. Which cell a run
    /// measures is in its second register, [`Cell::code`].
    pub fn compile(
        &self,
        cells: &[Cell],
        (packets, repeats): (u32, u32),
        on: &Description,
    ) -> anyhow::Result<PathBuf> {
        let memory = &on.config.memory;
        let (from, end) = (memory.nvmm_base(), memory.end());
        let mut more = String::new();
        if end.saturating_sub(from) >= BUFFERS {
            more.push_str(&format!("#define NVMM {from:#x}ul\n"));
        } else if cells.iter().any(|c| c.memory == super::Place::Nvmm) {
            bail!("{} has no NVMM: give --memory dram", on.config.name);
        }
        let codes: Vec<String> = codes()?.iter().map(|c| format!("{c:#x},")).collect();
        more.push_str(&format!("#define EVENTS {}\n", codes.concat()));
        let warm = warm(packets);
        let text = format!(
            "#define REPEATS {repeats}\n#define PACKETS {packets}\n#define WARM {warm}\n{more}"
        );
        self.write("cells.h", &text)?;
        self.run(COMPILER, &[BARE, PROGRAM].concat(), "vcopy.elf")
    }

    /// Compiles for this host.
    pub fn compile_native(
        &self,
        cells: &[Cell],
        packets: u32,
        repeats: u32,
    ) -> anyhow::Result<PathBuf> {
        self.cells(cells, packets, repeats)?;
        self.run(
            "cc",
            &["-march=native", "-pthread", "posix.c", "vcopy.c"],
            "vcopy",
        )
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

    #[test]
    fn every_event_is_one_of_the_machine() {
        assert_eq!(codes().unwrap().len(), EVENTS.len());
        assert!(EVENTS.len() <= nagori_hart::COUNTERS);
    }
}
