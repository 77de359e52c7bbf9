//! The ways in which Linux reaches a device that is not where its driver expects it, and the software and machine of
//! each.

use anyhow::{bail, Context};
use clap::ValueEnum;
use nagori_session::software::{Part, Software};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the Ethernet MAC is on the bus, and where the driver expects it.
pub const MAC: [u64; 2] = [0x1000_1000, 0x5200_0000];
/// Bytes of the MAC that have registers: 21 registers, then from 0x400 on 128 descriptors of 8 bytes.
const PORTS: [(u64, u64); 2] = [(0, 21), (0x400, 256)];

/// Devices that stay where they are: first address, length, and what it is.
const SAME: [(u64, u64, &str); 6] = [
    (0x10_0000, 0x1000, "test finisher"),
    (0x10_1000, 0x1000, "real-time clock"),
    (0xc00_0000, 0x400_0000, "PLIC"),
    (0x400_0000, 0x1_0000, "CLINT"),
    (0x1000_0000, 0x1000, "UART"),
    (0x1000_9000, 0x1000, "entropy"),
];

/// Who chooses the entry that a small table gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The least recently used one.
    Lru,
    /// The oldest one.
    Fifo,
    /// Any.
    Random,
    /// The monitor's choice: one after the other.
    Software,
}

impl Replacement {
    /// Its name in the machine's description.
    pub fn name(self) -> &'static str {
        match self {
            Replacement::Lru => "lru",
            Replacement::Fifo => "fifo",
            Replacement::Random => "random",
            Replacement::Software => "software",
        }
    }
}

/// A kind of way, as options name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No virtualization: the driver knows the real addresses.
    None,
    /// Accesses trap, and the monitor does them.
    Monitor,
    /// A table in hardware that is fixed.
    Constant,
    /// A small table in hardware, with an entry for each register, which the monitor refills.
    Small,
}

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    pub kind: Kind,
    /// Entries and replacement of a small table.
    pub small: Option<(u32, Replacement)>,
}

impl Way {
    /// All that are asked for, in order.
    pub fn all(kinds: &[Kind], entries: &[u32], replacements: &[Replacement]) -> Vec<Way> {
        let mut ways = Vec::new();
        for &kind in kinds {
            match kind {
                Kind::Small => {
                    for &n in entries {
                        let small = replacements.iter().map(|&r| Some((n, r)));
                        ways.extend(small.map(|small| Way { kind, small }));
                    }
                }
                _ => ways.push(Way { kind, small: None }),
            }
        }
        ways
    }

    /// For people.
    pub fn name(&self) -> String {
        match (self.kind, self.small) {
            (_, Some((n, r))) => format!("small {n} {}", r.name()),
            (Kind::None, _) => "none".into(),
            (Kind::Monitor, _) => "monitor".into(),
            _ => "constant".into(),
        }
    }

    /// Changes of the machine's description.
    pub fn settings(&self) -> Vec<String> {
        match (self.kind, self.small) {
            (Kind::Constant, _) => {
                let same = SAME.iter().map(|(at, size, _)| (*at, *at, *size));
                let moved = std::iter::once((MAC[1], MAC[0], 0x1000));
                let entry = |(from, to, size)| format!("\"{from:#x} {to:#x} {size:#x}\"");
                let map: Vec<String> = same.chain(moved).map(entry).collect();
                vec![
                    "iomap.kind=constant".into(),
                    format!("iomap.map=[{}]", map.join(", ")),
                ]
            }
            (_, Some((n, r))) => vec![
                "iomap.kind=small".into(),
                format!("iomap.entries={n}"),
                format!("iomap.replacement={}", r.name()),
            ],
            _ => Vec::new(),
        }
    }

    /// The firmware, if it is not OpenSBI.
    pub fn firmware(&self, monitors: &Monitors) -> Software {
        let file = match self.kind {
            Kind::None | Kind::Constant => None,
            Kind::Monitor => Some(&monitors.emulating),
            Kind::Small => Some(&monitors.table),
        };
        Software {
            firmware: file.cloned().map(Part::File),
            ..Software::default()
        }
    }
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../guest/vmm/", $name)))),*]
    };
}

const SOURCES: &[(&str, &str)] = sources![
    "Makefile",
    "config.c",
    "emulate.c",
    "attempt.S",
    "attempt.h",
    "fdt.c",
    "hostile.c",
    "ioloop.c",
    "latency.c",
    "link.ld",
    "main.c",
    "print.c",
    "race.c",
    "sbi.c",
    "second.c",
    "table.c",
    "test.c",
    "victim.c",
    "vm.S",
    "vm.h",
    "vmm.S",
    "vmm.h",
];

const REGISTERS: &str = include_str!("../../../../guest/include/nagori_regs.h");

/// The sources of the monitor, and what is built of them.
struct Workshop {
    dir: tempfile::TempDir,
    src: PathBuf,
}

impl Workshop {
    /// Needs `make` and a cross compiler.
    fn open() -> anyhow::Result<Workshop> {
        let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
        let src = dir.path().join("vmm");
        std::fs::create_dir(&src)?;
        for (name, text) in SOURCES {
            std::fs::write(src.join(name), text)?;
        }
        // Where its makefile expects the addresses of the machine's registers.
        let include = dir.path().join("include");
        std::fs::create_dir(&include)?;
        std::fs::write(include.join("nagori_regs.h"), REGISTERS)?;
        Ok(Workshop { dir, src })
    }

    /// The monitor with a partition file.
    fn monitor(&self, name: &str, partition: &str) -> anyhow::Result<PathBuf> {
        let file = self.dir.path().join(format!("{name}.txt"));
        std::fs::write(&file, partition)?;
        self.make(&file, &format!("{name}.elf"))
    }

    fn make(&self, partitions: &Path, target: &str) -> anyhow::Result<PathBuf> {
        let built = self.dir.path().join(target);
        let out = Command::new("make")
            .arg("-C")
            .arg(&self.src)
            .arg(format!("PARTITIONS={}", partitions.display()))
            .arg(format!("BUILD={}", self.dir.path().display()))
            .arg(&built)
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .output()
            .context("cannot run make, which compiles the monitor")?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            bail!("the monitor cannot be compiled: make and riscv64-linux-gnu-gcc are needed (apt-get install make \
                gcc-riscv64-linux-gnu):\n{said}");
        }
        Ok(built)
    }
}

/// The monitor, built with partition files of one purpose.
pub struct Monitors {
    _shop: Workshop,
    pub emulating: PathBuf,
    pub table: PathBuf,
}

/// The two ways of VMs other than that of the transfers: with a full table, which the monitor writes, or without.
pub const PLAIN_WAYS: [&str; 2] = ["monitor", "table"];

impl Monitors {
    /// Linux alone.
    pub fn build() -> anyhow::Result<Monitors> {
        let shop = Workshop::open()?;
        Ok(Monitors {
            emulating: shop.monitor("emulate", &partition("monitor", &[(0, 0x1000)]))?,
            table: shop.monitor("table", &partition("table", &ports()))?,
            _shop: shop,
        })
    }

    /// Linux, and beside it the VM that measures how late its interrupts are.
    pub fn with_latency() -> anyhow::Result<Monitors> {
        let shop = Workshop::open()?;
        Ok(Monitors {
            emulating: shop.monitor("latency", LATENCY[0])?,
            table: shop.monitor("latency-table", LATENCY[1])?,
            _shop: shop,
        })
    }

    /// A VM that accesses a device in a loop, and the program, to be started as its kernel.
    pub fn with_loops() -> anyhow::Result<(Monitors, PathBuf)> {
        let shop = Workshop::open()?;
        let emulating = shop.monitor("ioloop", LOOPS[0])?;
        let program = shop.make(&shop.dir.path().join("ioloop.txt"), "ioloop-vm")?;
        let monitors = Monitors {
            emulating,
            table: shop.monitor("ioloop-table", LOOPS[1])?,
            _shop: shop,
        };
        Ok((monitors, program))
    }

    /// The firmware of one of [`PLAIN_WAYS`]; what it needs of the machine is added to the settings.
    pub fn plain(&self, way: &str, settings: &mut Vec<String>) -> Part {
        if way == PLAIN_WAYS[0] {
            return Part::File(self.emulating.clone());
        }
        settings.push("iomap.kind=full".into());
        Part::File(self.table.clone())
    }
}

macro_rules! partitions {
    ($name:literal) => {
        [
            include_str!(concat!("../../../../guest/vmm/partitions/", $name, ".txt")),
            include_str!(concat!(
                "../../../../guest/vmm/partitions/",
                $name,
                "-table.txt"
            )),
        ]
    };
}

const LATENCY: [&str; 2] = partitions!("latency");
const LOOPS: [&str; 2] = partitions!("ioloop");

/// The registers of the MAC: offset and length.
fn ports() -> Vec<(u64, u64)> {
    let of = |(at, n): (u64, u64)| (0..n).map(move |i| (at + 4 * i, 4));
    PORTS.into_iter().flat_map(of).collect()
}

/// A partition file: Linux alone, with the parts of the MAC at the place where its driver expects them.
fn partition(io: &str, mac: &[(u64, u64)]) -> String {
    let mut t = format!(
        "io {io}\nvm linux\n  next\n  power\n  hart 0\n  memory 0x80200000 0x7e00000\n  node serial@10000000\n  \
         node plic@c000000\n  node rtc@101000\n  node virtio_mmio@10009000\n  node ethernet@10001000\n  \
         source 1\n  source 9\n"
    );
    let same = [
        (0x10_0000, 0x1000),
        (0x1000_0000, 0x1000),
        (0x10_1000, 0x1000),
        // Without entropy, whatever the kernel draws at random is slow.
        (0x1000_9000, 0x1000),
        (0xc00_0000, 0x2000),
        (0xc00_2000, 0x100),
        (0xc20_0000, 0x2000),
    ];
    for (at, size) in same {
        let _ = writeln!(t, "  map {at:#x} {at:#x} {size:#x}");
    }
    for (at, size) in mac {
        let _ = writeln!(t, "  map {:#x} {:#x} {size:#x}", MAC[1] + at, MAC[0] + at);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_their_table() {
        use Kind::*;
        let ways = Way::all(
            &[None, Monitor, Constant, Small],
            &[4, 8],
            &[Replacement::Lru],
        );
        let names: Vec<String> = ways.iter().map(Way::name).collect();
        assert_eq!(
            names,
            ["none", "monitor", "constant", "small 4 lru", "small 8 lru"]
        );
        assert!(ways[2].settings()[1].contains("\"0x52000000 0x10001000 0x1000\""));
        assert_eq!(ways[4].settings()[1], "iomap.entries=8");
        assert!(ways[0].settings().is_empty());
    }

    #[test]
    fn a_port_is_a_range_of_its_own() {
        let text = partition("table", &ports());
        assert_eq!(text.matches("map 0x52000").count(), 277);
        assert!(text.contains("  map 0x52000050 0x10001050 0x4\n  map 0x52000400 0x10001400 0x4\n"));
    }
}
