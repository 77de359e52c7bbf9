//! Tiny guests made of instructions, and how to run them.
#![allow(dead_code)]

pub mod debian;
pub mod mem;
pub mod probe;

use assert_cmd::Command;
use nagori_isa::{encode, Inst, Op};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// First address of memory.
pub const BASE: u64 = 0x8000_0000;
pub const UART: i32 = 0x1000_0000;
pub const SYSCON: i32 = 0x10_0000;

pub const ZERO: u8 = 0;
pub const T0: u8 = 5;
pub const T1: u8 = 6;
pub const T2: u8 = 7;
pub const A0: u8 = 10;
pub const A1: u8 = 11;

/// The command under test, away from the settings of whoever runs the tests.
pub fn nagori() -> Command {
    let mut c = Command::cargo_bin("nagori").expect("the program is built");
    c.env_remove("NAGORI_MACHINES").env_remove("COLUMNS");
    c.timeout(std::time::Duration::from_secs(120));
    c
}

/// Whether a host tool is there; without it a test is skipped with a message, unless
/// NAGORI_REQUIRE_TOOLS makes that a failure.
pub fn tool(name: &str) -> bool {
    let run = std::process::Command::new(name).arg("--version").output();
    let required = debian::tools_required();
    assert!(
        run.is_ok() || !required,
        "{name} is not installed, and NAGORI_REQUIRE_TOOLS=1"
    );
    if run.is_err() {
        eprintln!("skipped: {name} is not installed (NAGORI_REQUIRE_TOOLS=1 makes this a failure)");
    }
    run.is_ok()
}

/// Makes the programs of a folder of `guest/` in another one, with more variables of its Makefile; false without a
/// cross compiler.
pub fn make(guest: &str, build: &Path, variables: &[String]) -> bool {
    if !tool("riscv64-linux-gnu-gcc") || !tool("make") {
        return false;
    }
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest");
    let out = std::process::Command::new("make")
        .arg("-C")
        .arg(Path::new(guests).join(guest))
        .arg(format!("BUILD={}", build.display()))
        .args(variables)
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make runs");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    true
}

/// Compares with a file in tests/golden; NAGORI_BLESS=1 rewrites it.
pub fn golden(name: &str, actual: &str) {
    nagori_golden::golden(
        format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR")),
        actual,
    );
}

/// A program under construction.
#[derive(Default)]
pub struct Program {
    words: Vec<u32>,
    symbols: Vec<(&'static str, u64)>,
}

impl Program {
    pub fn new() -> Program {
        Program::default().label("_start")
    }

    pub fn label(mut self, name: &'static str) -> Program {
        self.symbols.push((name, self.here()));
        self
    }

    /// Names the HTIF word.
    pub fn tohost(mut self, addr: u64) -> Program {
        self.symbols.push(("tohost", addr));
        self
    }

    fn here(&self) -> u64 {
        BASE + 4 * self.words.len() as u64
    }

    pub fn op(mut self, op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) -> Program {
        let inst = Inst {
            op,
            rd,
            rs1,
            rs2,
            rs3: 0,
            rm: 0,
            len: 4,
            imm,
            raw: 0,
        };
        self.words.push(encode(&inst).expect("operands that fit"));
        self
    }

    /// Loads a 32-bit constant.
    pub fn li(self, rd: u8, value: i32) -> Program {
        let low = value << 20 >> 20;
        self.op(Op::Lui, rd, 0, 0, value.wrapping_sub(low))
            .op(Op::Addi, rd, rd, 0, low)
    }

    /// Prints through the UART, whose transmitter never waits.
    pub fn print(mut self, text: &str) -> Program {
        self = self.li(T0, UART);
        for b in text.bytes() {
            self = self
                .op(Op::Addi, T1, ZERO, 0, b.into())
                .op(Op::Sb, 0, T0, T1, 0);
        }
        self
    }

    /// Writes a word to the test device, and waits there.
    pub fn syscon(self, word: i32) -> Program {
        self.li(T0, SYSCON)
            .li(T1, word)
            .op(Op::Sw, 0, T0, T1, 0)
            .op(Op::Jal, 0, 0, 0, 0)
    }

    pub fn exit(self, code: i32) -> Program {
        self.syscon(if code == 0 {
            0x5555
        } else {
            code << 16 | 0x3333
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// A static ELF: one segment with this program and 4 KiB of zeros, a symbol table.
    pub fn elf(&self) -> Vec<u8> {
        self.elf_for(243)
    }

    pub fn elf_for(&self, machine: u16) -> Vec<u8> {
        let code = self.bytes();
        let mut names = vec![0u8];
        let mut symtab = vec![0u8; 24];
        for (name, addr) in &self.symbols {
            symtab.extend((names.len() as u32).to_le_bytes());
            // Global, no type, in section 1, no visibility.
            symtab.extend([0x10, 0, 1, 0]);
            symtab.extend(addr.to_le_bytes());
            symtab.extend([0; 8]);
            names.extend(name.bytes().chain([0]));
        }
        let mut shnames = b"\0.text\0.symtab\0.strtab\0.shstrtab\0".to_vec();
        // Tables start at multiples of eight.
        let mut code = code;
        for part in [&mut code, &mut names, &mut shnames] {
            part.resize(part.len().next_multiple_of(8), 0);
        }
        let text_at = 64 + 56;
        let symtab_at = text_at + code.len();
        let names_at = symtab_at + symtab.len();
        let shnames_at = names_at + names.len();
        let sections_at = shnames_at + shnames.len();

        let mut out = Vec::new();
        let u64s =
            |out: &mut Vec<u8>, v: &[u64]| v.iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        out.extend([2u16, machine].map(u16::to_le_bytes).concat());
        out.extend(1u32.to_le_bytes());
        u64s(&mut out, &[BASE, 64, sections_at as u64]);
        out.extend(0u32.to_le_bytes());
        out.extend([64u16, 56, 1, 64, 5, 4].map(u16::to_le_bytes).concat());
        // One segment: PT_LOAD, RWX.
        out.extend([1u32, 7].map(u32::to_le_bytes).concat());
        let len = code.len() as u64;
        u64s(&mut out, &[text_at as u64, BASE, BASE, len, len + 4096, 4]);
        out.extend(&code);
        out.extend(&symtab);
        out.extend(&names);
        out.extend(&shnames);
        // name, type, flags, address, offset, size, link, info, alignment, entry size
        let sections = [
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [1, 1, 6, BASE, text_at as u64, len, 0, 0, 4, 0],
            [
                7,
                2,
                0,
                0,
                symtab_at as u64,
                symtab.len() as u64,
                3,
                1,
                8,
                24,
            ],
            [15, 3, 0, 0, names_at as u64, names.len() as u64, 0, 0, 1, 0],
            [
                23,
                3,
                0,
                0,
                shnames_at as u64,
                shnames.len() as u64,
                0,
                0,
                1,
                0,
            ],
        ];
        for s in sections {
            out.extend([s[0] as u32, s[1] as u32].map(u32::to_le_bytes).concat());
            u64s(&mut out, &s[2..6]);
            out.extend([s[6] as u32, s[7] as u32].map(u32::to_le_bytes).concat());
            u64s(&mut out, &s[8..10]);
        }
        out
    }
}

/// Prints what it reads, without waiting for more; ends with code 5 at a `q`.
pub fn echo() -> Program {
    Program::new()
        .print("ready\n")
        .label("loop")
        .op(Op::Lbu, T1, T0, 0, 5)
        .op(Op::Andi, T1, T1, 0, 1)
        .op(Op::Beq, 0, T1, ZERO, -8)
        .op(Op::Lbu, T1, T0, 0, 0)
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Addi, T2, ZERO, 0, b'q'.into())
        .op(Op::Bne, 0, T1, T2, -24)
        .exit(5)
}

pub fn endless() -> Program {
    Program::new().op(Op::Jal, 0, 0, 0, 0)
}

/// A program with frame pointers and debugging information, for a number of harts.
pub fn debuggee(files: &Files, harts: u32) -> PathBuf {
    let path = files.path("debuggee.elf");
    let status = std::process::Command::new("riscv64-linux-gnu-gcc")
        .args([
            "-O1",
            "-g",
            "-nostdlib",
            "-static",
            "-ffreestanding",
            "-fno-pic",
        ])
        .args(["-mcmodel=medany", "-march=rv64gc", "-mabi=lp64d"])
        .args(["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"])
        .args([
            "-Wl,-Ttext=0x80000000,--build-id=none,--no-relax,--no-warn-rwx-segments,-N",
            "-o",
        ])
        .arg(&path)
        .arg(format!("-DEXPECTED={harts}"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/guests/debuggee.c"
        ))
        .status()
        .expect("the compiler runs");
    assert!(status.success());
    path
}

/// Files for a test.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Files {
        Files(TempDir::new().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("the file can be written");
        path
    }

    /// Files of which `nagori boot` runs only the firmware; its arguments.
    pub fn boot(&self, firmware: &Program) -> Vec<String> {
        let mut kernel = vec![0u8; 4096];
        kernel[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
        kernel[16..24].copy_from_slice(&4096u64.to_le_bytes());
        kernel[56..60].copy_from_slice(b"RSC\x05");
        let initrd = nagori_image::overlay_cpio(&[("init", 0o755, b"#!/bin/sh\n")]).unwrap();
        // A real one is longer than the smallest size that is accepted.
        let mut firmware = firmware.bytes();
        firmware.resize(4096, 0);
        let files = [
            ("--kernel", self.write("Image", &kernel)),
            ("--initrd", self.write("initrd", &initrd)),
            ("--firmware", self.write("fw", &firmware)),
        ];
        let mut args: Vec<String> = ["boot", "--machine", "small"].map(String::from).into();
        for (option, path) in files {
            args.extend([option.to_string(), path.display().to_string()]);
        }
        args
    }
}
