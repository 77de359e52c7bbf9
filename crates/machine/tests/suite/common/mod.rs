//! Machines for tests of the whole, and bare-metal programs to run on them.
#![allow(dead_code)]

pub mod random;
pub mod whole;
use nagori_config::{Library, Machine as Description};
use nagori_machine::{Machine, Report, Stop};
use nagori_platform::clock::Clock;
use nagori_platform::loader::{load_elf, FileData, RamRange};
use nagori_platform::tree::{self, BootInfo};
use nagori_ram::GuestRam;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cycles after which a program that should have ended counts as hanging.
const PATIENCE: u64 = 4_000_000_000;

/// SplitMix64: the same numbers on every host.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// An element of a slice that is not empty.
    pub fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len() as u64) as usize]
    }
}

/// A number from the environment, for longer runs.
pub fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
}

/// A machine description that is part of the program, with changes.
pub fn describe(name: &str, settings: &[&str]) -> Description {
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    Description::load(&Library::default(), name, &settings).expect("a description")
}

/// A machine with nothing loaded.
pub fn build(description: &Description, timed: bool) -> Machine {
    let mut m = Machine::new(description).expect("a machine");
    m.set_timed(timed);
    m
}

/// Loads a bare-metal program as `nagori bare` does.
pub fn load(m: &mut Machine, elf: &[u8]) {
    let memory = m.config().memory.clone();
    let all = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData {
        path: "test.elf".into(),
        bytes: elf.to_vec(),
    };
    let mut plan = load_elf(&file, all).expect("a program").plan;
    let blob = tree::blob(m.config(), m.bus(), &BootInfo::default()).expect("a tree");
    let dram = RamRange {
        end: memory.nvmm_base(),
        ..all
    };
    plan.add_tree(dram, blob).expect("room for a tree");
    plan.apply(m.ram(), memory.base).expect("room");
    for s in &plan.segments {
        m.memory_written(s.addr, s.memory_size);
    }
    m.start_at(plan.entry.pc, plan.entry.a1, plan.entry.a2);
}

/// Puts words into memory.
pub fn put_words(ram: &GuestRam, offset: u64, words: &[u32]) {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    ram.write_bytes(offset, &bytes).expect("in memory");
}

/// Puts words at the start of memory and every hart at the first of them.
pub fn load_words(m: &mut Machine, words: &[u32]) {
    put_words(m.ram(), 0, words);
    let base = m.config().memory.base;
    m.memory_written(base, 4 * words.len() as u64);
    m.start_at(base, 0, 0);
}

/// What a run left behind: what must be equal where runs are to be equal.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub stop: Stop,
    pub console: String,
    pub cycles: Vec<u64>,
    pub report: Report,
}

/// State after a machine has stopped.
pub fn outcome(m: &mut Machine, stop: Stop, console: Vec<u8>) -> Outcome {
    let harts = m.config().harts as usize;
    Outcome {
        stop,
        console: String::from_utf8_lossy(&console).into_owned(),
        cycles: (0..harts)
            .map(|i| m.hart(i).expect("a hart").state.cycle)
            .collect(),
        report: m.report(),
    }
}

/// Runs to the end of the guest, `slice` cycles at a time.
pub fn run(m: &mut Machine, slice: u64) -> Outcome {
    let mut console = Vec::new();
    let start = m.now();
    let patience = m.config().clock_hz.nearest_hz().min(PATIENCE) * 60;
    loop {
        let stop = m.run(slice, None);
        console.extend(m.console_output());
        let passed = m.now().saturating_sub(start);
        let cycles = Clock::new(m.config().core_period()).ticks_at(passed);
        match stop {
            Stop::Slice | Stop::Idle(_) if cycles < patience => {}
            _ => return outcome(m, stop, console),
        }
    }
}

/// How the bare-metal checks are built, where it is not the usual way.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// Further flags of the compiler.
    pub flags: String,
    /// The instruction set, if it is another one.
    pub arch: String,
    /// What the linker puts where in the text.
    pub script: Option<String>,
}

/// The bare-metal checks of `guest/bare`, compiled: name and ELF. `None` with a message
/// where the cross compiler or make is missing, unless NAGORI_REQUIRE_TOOLS=1.
pub fn programs(of: &str) -> Option<Vec<(String, Vec<u8>)>> {
    programs_built(of, &Build::default())
}

/// As [`programs`], with the options of a build.
pub fn programs_built(of: &str, build: &Build) -> Option<Vec<(String, Vec<u8>)>> {
    let required = std::env::var_os("NAGORI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    for tool in ["make", "riscv64-linux-gnu-gcc"] {
        if Command::new(tool).arg("--version").output().is_err() {
            assert!(
                !required,
                "{tool} is not installed, and NAGORI_REQUIRE_TOOLS=1"
            );
            eprintln!(
                "skipped: {tool} is not installed (NAGORI_REQUIRE_TOOLS=1 makes this a failure)"
            );
            return None;
        }
    }
    // A copy, so that tests and people do not build in the same place at a time.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest/bare");
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    let copy = COPIES.fetch_add(1, Ordering::Relaxed);
    let work = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bare-{of}-{copy}"));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).expect("a directory");
    for entry in std::fs::read_dir(source).expect("guest/bare") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            std::fs::copy(&path, work.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    let header = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../guest/include/nagori_nt.h"
    );
    std::fs::copy(header, work.join("nagori_nt.h")).expect("a copy");
    let mut make = Command::new("make");
    make.args(["-j2", "-C"]).arg(&work);
    if !build.arch.is_empty() {
        make.arg(format!("ARCH={}", build.arch));
    }
    if let Some(text) = &build.script {
        let script = std::fs::read_to_string(work.join("link.ld")).expect("a script");
        let usual = "*(.text.init) *(.text .text.*)";
        assert!(script.contains(usual), "link.ld has `{usual}`");
        let script = script.replace(usual, text);
        std::fs::write(work.join("link.ld"), script).expect("a script");
    }
    if !build.flags.is_empty() {
        // Other optimisations warn of other things.
        make.arg(format!(
            "EXTRA={} -ffunction-sections -Wno-error",
            build.flags
        ));
    }
    let out = make
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let mut list: Vec<(String, Vec<u8>)> = std::fs::read_dir(work.join("build"))
        .expect("build")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "elf"))
        .map(|p| {
            let name = p
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&p).expect("a program"))
        })
        .collect();
    list.sort();
    Some(list)
}
