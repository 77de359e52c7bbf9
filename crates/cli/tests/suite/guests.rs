//! What other guest systems and programs rely on: addresses of devices, polled input, file formats,
//! the host-target interface.

use crate::common::*;
use nagori_isa::Op;
use predicates::prelude::*;
use predicates::str::contains;
use std::path::{Path, PathBuf};

fn bare(program: &Path) -> assert_cmd::Command {
    let mut c = nagori();
    c.args(["bare", "--machine", "small", "--functional"])
        .arg(program);
    c
}

/// A system in machine mode, with nothing of Debian's.
fn alone(kernel: &str) -> assert_cmd::Command {
    let mut c = nagori();
    c.args(["boot", "--machine", "small", "--firmware", "none"])
        .args(["--initrd", "none", "--kernel", kernel]);
    c
}

#[test]
fn input_reaches_a_guest_that_polls() {
    let files = Files::new();
    let echo = files.boot(&echo());
    let boot = || {
        let mut c = nagori();
        c.args(&echo).args(["--stats", "json"]);
        c
    };
    let read = |output: &std::process::Output| {
        assert_eq!(output.status.code(), Some(5));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let (said, stats) = text.split_once("{\n").unwrap();
        let stats: serde_json::Value = serde_json::from_str(&format!("{{{stats}")).unwrap();
        (said.to_string(), stats["instructions"].clone())
    };
    let input = "one two\nq";
    let said = "ready\none two\nq\n";
    let piped = boot().write_stdin(input).output().unwrap();
    assert_eq!(read(&piped).0, said);

    // A pipe is filled when the host pleases; a file is there from the beginning.
    let file = files.write("input.txt", input.as_bytes());
    let from_file = || {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_nagori"))
            .args(&echo)
            .args(["--stats", "json"])
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        read(&output)
    };
    let first = from_file();
    assert_eq!(first.0, said);
    assert_eq!(from_file(), first, "the same input, the same run");
}

/// Prints the kinds of devices in virtio slots as digits, and ends.
fn kinds(slots: &[i32]) -> Program {
    let mut p = Program::new().li(T0, UART);
    for n in slots {
        p = p
            .li(A0, 0x1000_1000 + n * 0x1000)
            .op(Op::Lw, T1, A0, 0, 8)
            .op(Op::Addi, T1, T1, 0, b'0'.into())
            .op(Op::Sb, 0, T0, T1, 0);
    }
    p.exit(0)
}

#[test]
fn devices_are_in_slots_as_qemu_numbers_them() {
    let files = Files::new();
    let disk = files.write("disk.img", &[7; 4096]);
    let disk = disk.to_str().unwrap();
    let program = files.write("kinds.elf", &kinds(&[0, 1, 2, 7]).elf());
    bare(&program).assert().code(0).stdout("0000\n");
    bare(&program)
        .args(["--disk", disk, "--net", "user"])
        .assert()
        .code(0)
        .stdout("2100\n");
    // By description: the entropy source first, as in machines of before.
    bare(&program)
        .args(["--set", "devices=[\"entropy\", \"net\"]", "--disk", disk])
        .assert()
        .code(0)
        .stdout("4120\n");
    bare(&program)
        .args(["--set", "devices=[\"entropy\", \"entropy:b\"]"])
        .assert()
        .code(1)
        .stderr(contains("2 entropy sources: a machine has one"));
}

#[test]
fn a_disk_interrupts_as_source_one() {
    // Sets a queue of one request up (read sector 0 to memory), waits for PLIC source 1.
    let files = Files::new();
    let Some(program) = compiled(&files, "slot0") else {
        return;
    };
    let mut sector = vec![0; 1024];
    sector[..6].copy_from_slice(b"found\n");
    let disk = files.write("disk.img", &sector);
    bare(&program)
        .arg("--disk")
        .arg(disk)
        .assert()
        .code(0)
        .stdout("found\n");
}

#[test]
fn kernels_of_many_formats_start() {
    let files = Files::new();
    let program = Program::new().print("started\n").exit(3);
    let run = |kernel: &str| alone(kernel).assert().code(3).stdout("started\n");
    let name = |path: PathBuf| path.to_str().unwrap().to_string();
    run(&name(files.write("k.elf", &program.elf()))).stderr("");
    run(&name(files.write("k.elf.gz", &gzip(&program.elf()))));
    let raw = files.write("k.bin", &program.bytes());
    run(&format!("{}@0x80000000", raw.display()));
    run(&format!("{}@0x8020_0000", raw.display()));
    let image = uimage(&gzip(&program.bytes()), 0x8040_0000, 1);
    run(&name(files.write("k.ub", &image)));
    // Without a linker's flags, as some link scripts leave them.
    let mut bare_flags = program.elf();
    bare_flags[68..72].fill(0);
    let path = files.write("noflags.elf", &bare_flags);
    run(&name(path.clone())).stderr(contains("no flags at all"));
    bare(&path)
        .assert()
        .code(3)
        .stdout("started\n")
        .stderr(contains("not executable"));

    let mut damaged = image.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (kernel, problem) in [
        (name(raw.clone()), "FILE@0x80200000"),
        (format!("{}@0x1000", raw.display()), "System RAM is"),
        (
            format!("{}@0x80000000", files.path("k.elf").display()),
            "an address is given",
        ),
        (
            name(files.write("bad.ub", &damaged)),
            "wrong checksum of its data",
        ),
    ] {
        alone(&kernel)
            .assert()
            .code(1)
            .stdout("")
            .stderr(contains(problem));
    }
    // Under a firmware, where the kernel wants to be itself.
    let mut args = files.boot(&program);
    let kernel = args.iter().position(|a| a == "--kernel").unwrap() + 1;
    args[kernel] = format!("{}@0x80000800", raw.display());
    nagori()
        .args(&args)
        .assert()
        .code(1)
        .stderr(contains("where the firmware is"));
}

#[test]
fn the_command_line_can_be_the_users_alone() {
    // Prints the first 4 KiB of the device tree.
    let program = Program::new()
        .li(T0, UART)
        .li(T2, 4096)
        .op(Op::Lbu, T1, A1, 0, 0)
        .op(Op::Sb, 0, T0, T1, 0)
        .op(Op::Addi, A1, A1, 0, 1)
        .op(Op::Addi, T2, T2, 0, -1)
        .op(Op::Bne, 0, T2, ZERO, -16)
        .exit(0);
    let files = Files::new();
    let kernel = files.write("k.elf", &program.elf());
    let tree = |args: &[&str]| {
        let mut c = alone(kernel.to_str().unwrap());
        let out = c.args(args).assert().code(0).get_output().stdout.clone();
        String::from_utf8_lossy(&out).into_owned()
    };
    let ours = tree(&["--append", "one two"]);
    assert!(ours.contains("console=ttyS0 one two\0"), "{ours:?}");
    assert!(!ours.contains("initrd-start") && !ours.contains("mmode_resv0"));
    let theirs = tree(&["--append", "one two", "--append-only"]);
    assert!(
        theirs.contains("one two\0") && !theirs.contains("ttyS0"),
        "{theirs:?}"
    );
    let reserved = tree(&["--set", "memory.firmware_reserve='2 MiB'"]);
    assert!(reserved.contains("mmode_resv0@80000000"), "{reserved:?}");
    alone(kernel.to_str().unwrap())
        .args(["--run", "true"])
        .assert()
        .code(1)
        .stderr(contains("--initrd none"));
}

/// A guest in C from tests/guests.
fn compiled(files: &Files, name: &str) -> Option<PathBuf> {
    if !tool("riscv64-linux-gnu-gcc") {
        return None;
    }
    let path = files.path(&format!("{name}.elf"));
    let status = std::process::Command::new("riscv64-linux-gnu-gcc")
        .args(["-O1", "-nostdlib", "-static", "-ffreestanding", "-fno-pic"])
        .args(["-mcmodel=medany", "-march=rv64imac_zicsr", "-mabi=lp64"])
        .arg("-Wl,-Ttext=0x80000000,--build-id=none,--no-warn-rwx-segments,-N")
        .arg("-o")
        .arg(&path)
        .arg(format!(
            "{}/tests/guests/{name}.c",
            env!("CARGO_MANIFEST_DIR")
        ))
        .status()
        .expect("the compiler runs");
    assert!(status.success());
    Some(path)
}

#[test]
fn programs_talk_through_htif() {
    let files = Files::new();
    let Some(program) = compiled(&files, "htif") else {
        return;
    };
    for modes in ["--functional", "--timed"] {
        let mut c = nagori();
        c.args(["bare", "--machine", "small", modes])
            .arg(&program)
            .write_stdin("xyline\n")
            .assert()
            .code(7)
            .stdout("by a system call\nby characters: xy\nread: line\n")
            .stderr(contains("to stderr\n").and(contains("system call 17")));
    }
}

#[test]
fn a_signature_is_written_as_spike_writes_it() {
    let files = Files::new();
    let Some(program) = compiled(&files, "htif") else {
        return;
    };
    let file = files.path("sig");
    let sign = |more: &[&str]| {
        let mut c = bare(&program);
        c.arg("--signature").arg(&file).args(more);
        c.write_stdin("xyline\n");
        c
    };
    sign(&[]).assert().code(7);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        text,
        "fedcba98765432100123456789abcdef\n00000000deadbeef1122334455667788\n"
    );
    sign(&["--signature-granularity", "4"]).assert().code(7);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 7);
    assert!(text.starts_with("89abcdef\n01234567\n76543210\n"), "{text}");
    sign(&["--signature-granularity", "3"]).assert().code(2);
    // A program that does not end, one that has none.
    std::fs::remove_file(&file).unwrap();
    sign(&["--max-instructions", "100"])
        .assert()
        .code(124)
        .stderr(contains("no signature is written"));
    assert!(!file.exists());
    let plain = files.write("plain.elf", &Program::new().exit(0).elf());
    bare(&plain)
        .arg("--signature")
        .arg(&file)
        .assert()
        .code(1)
        .stderr(contains("begin_signature"));
}

#[test]
fn a_guest_that_traps_in_its_handler_is_told_of() {
    let files = Files::new();
    let unset = files.write("unset.elf", &Program::new().op(Op::Ecall, 0, 0, 0, 0).elf());
    for mode in ["--functional", "--timed"] {
        let mut c = nagori();
        c.args([
            "bare",
            "--machine",
            "small",
            mode,
            "--max-instructions",
            "1500000",
        ])
        .arg(&unset)
        .assert()
        .code(124)
        .stderr(contains("traps in its own machine trap handler for ever").count(1))
        .stderr(contains("cause 1) at pc 0x0, tval 0x0").and(contains("mtvec was never set")));
    }
    // A handler that stores through an invalid stack pointer.
    let wild = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Addi, T0, T0, 0, 16)
        .op(Op::Csrrw, 0, T0, 0, 0x305)
        .op(Op::Ecall, 0, 0, 0, 0)
        .op(Op::Addi, 2, 2, 0, -64)
        .op(Op::Sd, 0, 2, 1, 0);
    let wild = files.write("wild.elf", &wild.elf());
    bare(&wild)
        .args(["--max-instructions", "5000000"])
        .assert()
        .code(124)
        .stderr(contains("cause 7").and(contains("stack pointer")));
    // One that returns, however often, is not reported.
    let calls = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Addi, T0, T0, 0, 20)
        .op(Op::Csrrw, 0, T0, 0, 0x305)
        .op(Op::Ecall, 0, 0, 0, 0)
        .op(Op::Jal, 0, 0, 0, -4)
        .op(Op::Csrrs, T1, ZERO, 0, 0x341)
        .op(Op::Addi, T1, T1, 0, 4)
        .op(Op::Csrrw, 0, T1, 0, 0x341)
        .op(Op::Mret, 0, 0, 0, 0);
    let calls = files.write("calls.elf", &calls.elf());
    bare(&calls)
        .args(["--max-instructions", "3000000"])
        .assert()
        .code(124)
        .stderr(contains("trap handler").not());
}

#[test]
fn files_are_put_where_software_expects_them() {
    let files = Files::new();
    let data = files.write("data", &[7, 0, 0, 0]);
    let data = data.display();
    // It ends with what it finds.
    let program = Program::new()
        .op(Op::Auipc, T0, 0, 0, 0)
        .op(Op::Lui, T1, 0, 0, 0x1f_f000)
        .op(Op::Add, T0, T0, T1, 0)
        .op(Op::Lwu, T1, T0, 0, 0)
        .op(Op::Slli, T1, T1, 0, 16)
        .li(T0, 0x3333)
        .op(Op::Or, T1, T1, T0, 0)
        .li(T0, SYSCON)
        .op(Op::Sw, 0, T0, T1, 0)
        .op(Op::Jal, 0, 0, 0, 0);
    let kernel = files.write("reads.elf", &program.elf());
    let kernel = kernel.to_str().unwrap();
    let load = |to: &str| {
        let mut c = alone(kernel);
        c.args(["--max-instructions", "1000"])
            .arg(format!("--load={data}{to}"));
        c.assert()
    };
    load("@0x801ff000").code(7);
    load("").code(1).stderr(contains("FILE@0xADDRESS"));
    load("@0x80000002")
        .code(1)
        .stderr(contains("where the kernel is"));
    load("@0x1000").code(1).stderr(contains("System RAM is"));
}

/// A program that sets a trap handler, which follows its `main`.
fn handled(main: impl Fn(Program) -> Program, instructions: i32) -> Program {
    main(
        Program::new()
            .op(Op::Auipc, T0, 0, 0, 0)
            .op(Op::Addi, T0, T0, 0, 12 + 4 * instructions)
            .op(Op::Csrrw, 0, T0, 0, 0x305),
    )
}

/// Handlers that return, and the next trap comes at once.
#[test]
fn traps_without_progress_are_told_of() {
    let files = Files::new();
    let zero = handled(|p| p.op(Op::Jalr, 0, 0, 0, 0), 1).op(Op::Mret, 0, 0, 0, 0);
    let zero = files.write("zero.elf", &zero.elf());
    bare(&zero)
        .args(["--max-instructions", "2000000"])
        .assert()
        .code(124)
        .stderr(contains("takes the same exception for ever").count(1))
        .stderr(contains("cause 1) at pc 0x0").and(contains("jumped to address 0")));
    // The UART can send, and asks for the next byte for ever: the handler of old versions of xv6 neither reads IIR
    // nor writes anything.
    let main = |p: Program| {
        p.op(Op::Lui, T0, 0, 0, 0x1000_0000)
            .op(Op::Addi, T1, 0, 0, 2)
            .op(Op::Sb, 0, T0, T1, 1)
            .op(Op::Lui, T0, 0, 0, 0x0c00_0000)
            .op(Op::Addi, T1, 0, 0, 1)
            .op(Op::Sw, 0, T0, T1, 40)
            .op(Op::Lui, T0, 0, 0, 0x0c00_2000)
            .op(Op::Addi, T1, 0, 0, 0x400)
            .op(Op::Sw, 0, T0, T1, 0)
            .op(Op::Slli, T1, T1, 0, 1)
            .op(Op::Csrrs, 0, T1, 0, 0x304)
            .op(Op::Csrrsi, 0, 8, 0, 0x300)
            .op(Op::Jal, 0, 0, 0, 0)
    };
    for acknowledges in [false, true] {
        let mut p = handled(main, 13);
        if acknowledges {
            p = p
                .op(Op::Lui, T0, 0, 0, 0x1000_0000)
                .op(Op::Lb, T1, T0, 0, 2);
        }
        let p = p
            .op(Op::Lui, T0, 0, 0, 0x0c20_0000)
            .op(Op::Lw, T1, T0, 0, 4)
            .op(Op::Sw, 0, T0, T1, 4)
            .op(Op::Mret, 0, 0, 0, 0);
        let storm = files.write("storm.elf", &p.elf());
        let run = bare(&storm)
            .args(["--set", "harts=1", "--max-instructions", "2000000"])
            .assert()
            .code(124);
        if acknowledges {
            run.stderr(contains("for ever").not())
        } else {
            run.stderr(contains("interrupted for ever: an external interrupt (cause 11)").count(1))
                .stderr(contains("IIR is read"))
        };
    }
}

/// U-Boot of Debian's package, if the host's apt gives it.
fn u_boot(files: &Files) -> Option<PathBuf> {
    let dir = files.path("u-boot");
    std::fs::create_dir(&dir).unwrap();
    let run = |program: &str, args: &[&str]| {
        let done = std::process::Command::new(program)
            .args(args)
            .current_dir(&dir)
            .output();
        done.is_ok_and(|o| o.status.success())
    };
    let download = || run("apt-get", &["download", "u-boot-qemu"]);
    // apt may not have its lists yet.
    let there = (download() || run("apt-get", &["update"]) && download())
        && run("sh", &["-c", "dpkg -x u-boot-qemu_*.deb ."]);
    assert!(
        there || !debian::tools_required(),
        "apt-get gives no u-boot-qemu, and NAGORI_REQUIRE_TOOLS=1"
    );
    if !there {
        eprintln!("skipped: the host's apt gives no u-boot-qemu");
    }
    there.then(|| dir.join("usr/lib/u-boot"))
}

#[test]
fn u_boot_takes_piped_commands_and_reads_a_disk() {
    let files = Files::new();
    let (Some(dir), Some(_)) = (u_boot(&files), debian::image()) else {
        return;
    };
    // Four bytes of the first sector, by which a machine-mode and a supervisor-mode U-Boot are
    // distinguished.
    let mut sector = vec![0; 1 << 20];
    sector[..8].copy_from_slice(b"A sector");
    let disk = files.write("disk.img", &sector);
    let script = "\nversion\nvirtio info\nvirtio read 84000000 0 1\nmd.b 84000000 8\npoweroff\n";
    let check = |args: &[&str]| {
        let out = nagori()
            .timeout(debian::PATIENCE)
            .args(["boot", "--initrd", "none", "--disk"])
            .arg(&disk)
            .args(args)
            .write_stdin(script)
            .assert()
            .code(0);
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        for part in [
            "=> version",
            "U-Boot 20",
            "Device 0:",
            "41 20 73 65 63 74 6f 72",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
    };
    let name = |p: &str| dir.join(p).to_str().unwrap().to_string();
    check(&["--kernel", &name("qemu-riscv64_smode/uboot.elf")]);
    let raw = name("qemu-riscv64_smode/u-boot.bin");
    check(&["--kernel", &format!("{raw}@0x80200000")]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// A uImage of a kernel.
fn uimage(data: &[u8], at: u32, packing: u8) -> Vec<u8> {
    let mut h = vec![0u8; 64];
    let words = [
        (0, 0x2705_1956),
        (12, data.len() as u32),
        (16, at),
        (20, at),
        (24, crc32fast::hash(data)),
    ];
    for (offset, word) in words {
        h[offset..offset + 4].copy_from_slice(&word.to_be_bytes());
    }
    // Linux, RISC-V, a kernel.
    h[28..32].copy_from_slice(&[5, 26, 2, packing]);
    let sum = crc32fast::hash(&h);
    h[4..8].copy_from_slice(&sum.to_be_bytes());
    h.extend(data);
    h
}
