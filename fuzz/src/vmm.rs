//! The monitor of `guest/vmm` with a VM whose program is the input.

use crate::file;
use nagori_config::map;
use nagori_config::{Library, Machine as Description};
use nagori_machine::{Machine, Stop};
use nagori_platform::assembly;
use nagori_platform::clock::Ps;
use nagori_platform::loader::{load_elf, plan_linux, LinuxFiles, RamRange};
use nagori_platform::tree;
use nagori_ram::GuestRam;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const BASE: u64 = map::MEMORY;
const RAM: RamRange = RamRange {
    start: BASE,
    end: BASE + (128 << 20),
};
/// The VM's program, behind it the registers that it starts with, the input, and the input once more,
/// where page tables may be.
const PROGRAM: u64 = BASE + 0x40_0000;
const REGISTERS: u64 = 0x1000;
const CODE: u64 = 0x2000;
const TABLES: u64 = 0x3000;
const TOTAL: usize = 0x4000;
const LONGEST: usize = 0x1000;
/// What nobody but the monitor may change: behind its end, in the other VM, and behind all VMs.
const GUARDED: [(u64, u64); 3] = [
    (BASE + 0x10_0000, 0x10_0000),
    (OTHER + 0x10_0000, 0x10_0000),
    (OTHER + 0x20_0000, 0x10_0000),
];
const OTHER: u64 = BASE + 0x7c0_0000;
/// Instructions of a run, which begins with some 10^6 of the monitor.
const STEPS: u64 = 3_000_000;
const TURNS: u64 = 300;
const TURN: u64 = 100_000;
const HEAD: usize = 4;

/// As `guest/vmm/partitions/hostile.txt`, with the other VM's memory free for marks.
const PARTITIONS: &str = "
vm fuzzed
  next
  hart 0
  hart 1
  memory 0x80200000 0x7a00000
  source 1
  map 0x50000208 0x4000208 8
  map 0x50001000 0x4000218 4
  map 0xc000000 0xc000000 0x2000
  map 0xc002000 0xc002000 0x200
  map 0xc200000 0xc200000 0x4000
  map 0x52000000 0x10001000 0x1000
vm other
  second
  hart 2
  memory 0x87c00000 0x200000
  entry 0x87c00000
  tree 0x87c80000
";

/// The monitor that emulates, and the one that has a table; `None` without a cross compiler.
fn monitors() -> Option<&'static [Vec<u8>; 2]> {
    static MADE: OnceLock<Option<[Vec<u8>; 2]>> = OnceLock::new();
    MADE.get_or_init(|| {
        let place = tempfile::tempdir().expect("a directory");
        let one = |name: &str| {
            let text = format!("io {name}\n{PARTITIONS}");
            let partitions = place.path().join(format!("{name}.txt"));
            std::fs::write(&partitions, text).expect("a file");
            let elf = place.path().join(format!("{name}.elf"));
            let done = Command::new("make")
                .arg("-C")
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest/vmm"))
                .arg(format!("BUILD={}", place.path().display()))
                .arg(format!("PARTITIONS={}", partitions.display()))
                .arg(&elf)
                .env_remove("MAKEFLAGS")
                .env_remove("MAKELEVEL")
                .output()
                .is_ok_and(|o| o.status.success());
            done.then(|| std::fs::read(&elf).expect("what make has made"))
        };
        match (one("monitor"), one("table")) {
            (Some(a), Some(b)) => Some([a, b]),
            _ => {
                eprintln!("vmm: the monitor cannot be built here (riscv64-linux-gnu-gcc), nothing is fuzzed");
                None
            }
        }
    })
    .as_ref()
}

/// The VM's memory from PROGRAM on: a beginning that starts the other hart, and loads all registers.
fn program(code: &[u8]) -> Vec<u8> {
    let mut words = vec![
        0x0000_1f97, // auipc t6, 1: the registers
        0x0000_0297, // auipc t0, 0
        0x0fc2_8293, // addi  t0, t0, 252: the handler
        0x1052_9073, // csrw  stvec, t0
        0x110f_b883, // ld    a7, 272(t6): HSM
        0x0000_0813, // li    a6, 0
        0x0010_0513, // li    a0, 1
        0xffff_f597, // auipc a1, -1
        0x7f05_8593, // addi  a1, a1, 2032
        0x7f45_8593, // addi  a1, a1, 2036: PROGRAM
        0x0000_0073, // ecall
    ];
    for r in 1..31u32 {
        words.push(8 * r << 20 | 31 << 15 | 3 << 12 | r << 7 | 0x03); // ld xR, 8*R(t6)
    }
    words.extend([
        0x108f_bf83, // ld t6, 264(t6): the input
        0x000f_8067, // jr t6
    ]);
    words.resize(64, 0);
    words.extend([
        0x1410_2ff3, // csrr t6, sepc: the handler goes on behind what has trapped
        0x004f_8f93, // addi t6, t6, 4
        0x141f_9073, // csrw sepc, t6
        0x1020_0073, // sret
    ]);
    let mut all: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    all.resize(TOTAL, 0);
    // Addresses of what is the VM's own and what is not, and their edges.
    let edges = [
        0x5200_0000u64,
        0x5000_0208,
        0x5000_1000,
        OTHER - 8,
        OTHER,
        OTHER + 0x10_0000,
        BASE,
        BASE + 0x1000,
        BASE + 0x10_0000,
        BASE + 0x20_0000,
        0x1000_0000,
        0x1000_1000,
        0x1000_1400,
        map::CONTROL + 0x348,
        map::CONTROL + 0x398,
        map::CLINT,
        0xc00_0000,
        0xc20_4000,
        PROGRAM + CODE,
        8 << 60 | (PROGRAM + TABLES) >> 12,
        0x5200_0400,
    ];
    for r in 1..31 {
        let at = (REGISTERS + 8 * r) as usize;
        let edge = edges[r as usize % edges.len()];
        all[at..at + 8].copy_from_slice(&edge.to_le_bytes());
    }
    for (at, value) in [(264, PROGRAM + CODE), (272, 0x48_534d)] {
        let at = REGISTERS as usize + at;
        all[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for at in [CODE, TABLES] {
        all[at as usize..][..code.len()].copy_from_slice(code);
    }
    all
}

/// Bytes of memory.
fn memory(m: &Machine, at: u64, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    let read = m.ram().read_bytes(at - BASE, &mut bytes);
    read.expect("in memory");
    bytes
}

/// Four bytes of settings, then what a VM with two harts executes, which is also its page table. It may do what it
/// wants, but the monitor lives, and what is not the VM's own stays as it was.
pub fn vmm(data: &[u8]) {
    let (Some((head, code)), Some(monitors)) = (data.split_at_checked(HEAD), monitors()) else {
        return;
    };
    let by_table = head[0] & 1 != 0;
    let small = by_table && head[0] & 2 != 0;
    let replacement = ["lru", "fifo", "random", "software"][usize::from(head[1] & 3)];
    let settings = [
        "harts=3".to_string(),
        format!("iomap.kind={}", if small { "small" } else { "full" }),
        format!("iomap.entries={}", if small { 16 } else { 32 }),
        format!(
            "iomap.replacement={}",
            if small { replacement } else { "lru" }
        ),
        "iomap.dma=translated".to_string(),
        format!("functional_quantum_cycles={}", 1 + u32::from(head[2])),
    ];
    let d = Description::load(&Library::default(), "soc", &settings).expect("a machine");
    let firmware = file(&monitors[usize::from(by_table)]);
    let elf = load_elf(&firmware, RAM).expect("a program");
    let end = elf.symbols.address("_constant_end").expect("its end");
    let files = LinuxFiles {
        firmware: Some(firmware),
        kernel: file(&program(&code[..code.len().min(LONGEST)])),
        kernel_at: Some(PROGRAM),
        initramfs: None,
        bootargs: None,
        boot_hart: 0,
        reserved: 0,
    };
    let bus =
        assembly::build(&d.config, GuestRam::new(4096).expect("memory").into()).expect("a bus");
    let plan = plan_linux(&files, RAM, |boot| tree::blob(&d.config, &bus, boot)).expect("a plan");
    let mut m = Machine::new(&d).expect("a machine");
    plan.apply(m.ram(), BASE).expect("it fits");
    m.set_timed(head[0] & 0x80 != 0);
    for (at, size) in GUARDED {
        let marks: Vec<u8> = (0..size / 8)
            .flat_map(|k| (at + 8 * k).to_le_bytes())
            .collect();
        m.ram().write_bytes(at - BASE, &marks).expect("memory");
    }
    let guarded = |m: &Machine| {
        let monitor = memory(m, BASE, end - BASE);
        let others = GUARDED.map(|(at, size)| memory(m, at, size));
        (monitor, others)
    };
    let before = guarded(&m);
    m.start_at(plan.entry.pc, plan.entry.a1, plan.entry.a2);
    // Bounded in turns, too: a hart that traps for ever retires nothing.
    for _ in 0..TURNS {
        match m.run(TURN, Some(STEPS)) {
            Stop::PowerOff(_) | Stop::Reset | Stop::EndOfTime | Stop::Idle(Ps::NEVER) => break,
            Stop::Instructions => break,
            _ => {}
        }
    }
    let said = String::from_utf8_lossy(&m.console_output()).into_owned();
    assert!(
        said.contains("vmm: VM other: harts"),
        "the monitor has not started: {said}"
    );
    assert!(
        !said.contains("; mcause "),
        "the monitor has given up: {said}"
    );
    assert!(
        guarded(&m) == before,
        "memory that is not the VM's own has changed: {said}"
    );
}

/// Accesses by all registers; frames from and to what is not the VM's; page tables; calls.
pub fn seeds() -> Vec<Vec<u8>> {
    let again = 0x0000_006fu32; // j .
    let mut accesses = Vec::new();
    for r in 1..31u32 {
        accesses.push(r << 15 | 2 << 12 | 31 << 7 | 0x03); // lw t6, 0(xR)
        accesses.push(31 << 20 | r << 15 | 3 << 12 | 0x23); // sd t6, 0(xR)
        accesses.push(r << 15 | 2 << 12 | 31 << 7 | 0x2f); // amoadd.w t6, zero, (xR)
    }
    accesses.push(again);
    let frames = vec![
        0x005a_2223, // sw t0, 4(s4): the first descriptor's buffer, in the other VM
        0x204a_2223, // sw tp, 516(s4): that of the first one for what is received
        0x0000_ffb7, // lui t6, 15
        0x21fa_2023, // sw t6, 512(s4)
        0x0640_ffb7, // lui t6, 0x640f: 100 bytes, to be sent
        0x01fa_2023, // sw t6, 0(s4)
        0x0001_ffb7, // lui t6, 0x1f
        0x4a3f_8f93, // addi t6, t6, 0x4a3: loopback
        0x01fa_a023, // sw t6, 0(s5): the mode
        again,
    ];
    let pages = vec![
        0x0000_00cf, // three entries of the root, which as instructions trap and are skipped
        0,
        0x1000_00cf,
        0,
        0x2000_00cf,
        0,
        0x1809_9073, // csrw satp, s3
        0x1200_0073, // sfence.vma
        0x000a_af83, // lw t6, 0(s5)
        0x01fa_a023, // sw t6, 0(s5)
        0x0003_2f83, // lw t6, 0(t1)
        0x01f2_3023, // sd t6, 0(tp)
        again,
    ];
    let calls = vec![
        0x0000_0813, // li a6, 0
        0x0000_0073, // ecall
        0x0018_0813, // addi a6, a6, 1
        0xff9f_f06f, // j back
    ];
    let programs = [accesses, frames, pages, calls];
    let heads = [
        [0, 0, 0, 0],
        [0x80, 0, 0, 0],
        [1, 0, 9, 0],
        [3, 0, 0, 0],
        [3, 3, 200, 0],
    ];
    let mut all = Vec::new();
    for words in &programs {
        for head in heads {
            let code = words.iter().flat_map(|w| w.to_le_bytes());
            all.push(head.into_iter().chain(code).collect());
        }
    }
    all
}
