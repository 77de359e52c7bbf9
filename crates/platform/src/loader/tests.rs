use super::*;
use proptest::prelude::*;
use std::io::Write as _;
use std::process::Command;

pub(super) const RAM: RamRange = RamRange {
    start: 0x8000_0000,
    end: 0x8000_0000 + (128 << 20),
};

pub(super) fn file(bytes: impl Into<Vec<u8>>) -> FileData {
    FileData {
        path: "test.bin".into(),
        bytes: bytes.into(),
    }
}

pub(super) fn image(text_offset: u64, image_size: u64) -> Vec<u8> {
    let mut b = vec![0u8; 4096];
    b[8..16].copy_from_slice(&text_offset.to_le_bytes());
    b[16..24].copy_from_slice(&image_size.to_le_bytes());
    b[48..56].copy_from_slice(b"RISCV\0\0\0");
    b[56..60].copy_from_slice(b"RSC\x05");
    b
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

pub(super) fn files() -> LinuxFiles {
    LinuxFiles {
        firmware: Some(file(vec![0x13; 300 << 10])),
        kernel: file(image(0x20_0000, 0x1e6_b000)),
        kernel_at: None,
        initramfs: Some(file(*b"070701 and so on")),
        bootargs: Some("quiet".into()),
        boot_hart: 1,
        reserved: 0,
    }
}

pub(super) fn plan(files: &LinuxFiles, ram: RamRange) -> Result<Plan, LoadError> {
    plan_linux(files, ram, |_| Ok(vec![7; 1000]))
}

/// (type, machine, entry, program headers as (type, flags, offset, paddr, filesz, memsz))
pub(super) type Header = (u32, u32, u64, u64, u64, u64);
pub(super) fn elf(kind: u16, machine: u16, entry: u64, headers: &[Header]) -> Vec<u8> {
    let mut b = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    b.extend(kind.to_le_bytes());
    b.extend(machine.to_le_bytes());
    b.extend(1u32.to_le_bytes());
    b.extend(entry.to_le_bytes());
    b.extend(64u64.to_le_bytes());
    b.extend(0u64.to_le_bytes());
    b.extend(0u32.to_le_bytes());
    for half in [64u16, 56, headers.len() as u16, 64, 0, 0] {
        b.extend(half.to_le_bytes());
    }
    for &(kind, flags, offset, addr, filesz, memsz) in headers {
        b.extend(kind.to_le_bytes());
        b.extend(flags.to_le_bytes());
        for word in [offset, addr, addr, filesz, memsz, 4096] {
            b.extend(word.to_le_bytes());
        }
    }
    b.resize(0x400, 0x13);
    b
}

pub(super) const LOAD: u32 = 1;
const RX: u32 = 5;
pub(super) const RISCV: u16 = 243;

fn good() -> Vec<u8> {
    elf(
        2,
        RISCV,
        0x8000_0010,
        &[
            (LOAD, RX, 0x200, 0x8000_0000, 0x100, 0x1000),
            (LOAD, 6, 0x300, 0x8000_2000, 0, 0x100),
        ],
    )
}

#[test]
fn nothing_overlaps_and_the_firmware_is_told() {
    let files = files();
    let mut seen = None;
    let plan = plan_linux(&files, RAM, |boot| {
        seen = Some(boot.clone());
        Ok(vec![7; 1000])
    })
    .unwrap();
    for pair in plan.segments.windows(2) {
        assert!(
            pair[0].addr + pair[0].memory_size <= pair[1].addr,
            "{:?} {:?}",
            pair[0].role,
            pair[1].role
        );
    }
    let at = |role| plan.segments.iter().find(|s| s.role == role).unwrap().addr;
    assert_eq!(at(Role::Firmware), 0x8000_0000);
    assert_eq!(at(Role::Kernel), 0x8020_0000);
    assert_eq!(
        at(Role::Initramfs),
        0x8220_0000,
        "next 2 MiB after the kernel's memory"
    );
    assert_eq!(seen.unwrap().initrd, Some((0x8220_0000, 16)));
    assert_eq!(plan.entry.pc, 0x8000_0000);
    assert_eq!(plan.entry.a1, at(Role::DeviceTree));

    let ram = GuestRam::new(128 << 20).unwrap();
    plan.apply(&ram, 0x8000_0000).unwrap();
    let word = |n: u64| ram.read_u64(plan.entry.a2 - 0x8000_0000 + 8 * n).unwrap();
    assert_eq!(
        [word(0), word(1), word(2), word(3), word(4), word(5)],
        [0x4942_534f, 2, 0x8020_0000, 1, 0, 1]
    );
    assert_eq!(
        ram.read_u32(0x20_0000 + 56),
        Some(u32::from_le_bytes(*b"RSC\x05"))
    );
}

#[test]
fn too_little_memory_says_which_file_and_how_much() {
    let small = RamRange {
        end: RAM.start + (16 << 20),
        ..RAM
    };
    let e = plan(&files(), small).unwrap_err().to_string();
    assert!(
        e.contains("its header asks for 0x1e6b000 bytes of memory, the machine has 0x1000000"),
        "{e}"
    );
    let small = RamRange {
        end: RAM.start + (33 << 20),
        ..RAM
    };
    let e = plan(&files(), small).unwrap_err().to_string();
    assert!(
        e.contains(
            "test.bin (initramfs) needs 0x82200000..0x82200010, but System RAM is \
        0x80000000..0x82100000"
        ),
        "{e}"
    );
}

#[test]
fn a_packed_kernel_is_unpacked() {
    let raw = image(0x20_0000, 0x10_0000);
    let kernel = parse_kernel(&file(gzip(&raw)), None, RAM).unwrap();
    assert_eq!(kernel, parse_kernel(&file(raw), None, RAM).unwrap());
}

#[test]
fn wrong_files_are_named() {
    let kernel = |bytes: Vec<u8>| {
        parse_kernel(&file(bytes), None, RAM)
            .unwrap_err()
            .to_string()
    };
    let mut big_endian = image(0, 4096);
    big_endian[24] = 1;
    let mut zboot = b"MZ\0\0zimg".to_vec();
    zboot.resize(512, 0);
    for (bytes, expected) in [
        (vec![], "it is empty"),
        (b"hello".to_vec(), "expected a riscv64 Linux Image"),
        (
            zboot,
            "it is an EFI zboot image, and its kernel is packed in a way",
        ),
        (gzip(b"hello"), "of no known format after unpacking"),
        (b"\x1f\x8b\x08 broken".to_vec(), "cannot be unpacked"),
        (vec![0; 100], "its 100 bytes are of no known format"),
        (big_endian, "it is a big-endian kernel"),
        (image(0, 0), "asks for 0x0 bytes of memory"),
        (image(1, 4096), "text offset 0x1"),
    ] {
        let e = kernel(bytes);
        assert!(
            e.starts_with("test.bin cannot be used as kernel: ") && e.contains(expected),
            "{e}\n not {expected}"
        );
    }
    let small = RamRange {
        end: RAM.start + 8192,
        ..RAM
    };
    let e = parse_kernel(&file(gzip(&vec![0; 9000])), None, small)
        .unwrap_err()
        .to_string();
    assert!(e.contains("unpacks to more than 8192 bytes"), "{e}");
    for (bytes, expected) in [
        (good(), "an ELF file"),
        (image(0, 4096), "a riscv64 Linux Image"),
        (vec![], "empty"),
    ] {
        let e = check_firmware(&file(bytes)).unwrap_err().to_string();
        assert!(
            e.contains(expected) && e.contains("expected OpenSBI's raw fw_dynamic.bin"),
            "{e}"
        );
    }
    let e = check_initramfs(&file(vec![1; 80])).unwrap_err().to_string();
    assert!(e.contains("expected a cpio archive"), "{e}");
    assert!(check_initramfs(&file(gzip(b"x"))).is_ok());
}

#[test]
fn a_program_is_planned() {
    let elf = load_elf(&file(good()), RAM).unwrap();
    assert_eq!(
        elf.plan.entry,
        EntryState {
            pc: 0x8000_0010,
            a1: 0,
            a2: 0
        }
    );
    let sizes: Vec<_> = elf
        .plan
        .segments
        .iter()
        .map(|s| (s.addr, s.bytes.len(), s.memory_size))
        .collect();
    assert_eq!(
        sizes,
        [(0x8000_0000, 0x100, 0x1000), (0x8000_2000, 0, 0x100)]
    );
    assert_eq!(
        (elf.agreed, elf.plan.warnings.len()),
        (Agreed::default(), 0)
    );
}

#[test]
fn a_program_gets_a_tree_behind_it() {
    let mut plan = load_elf(&file(good()), RAM).unwrap().plan;
    plan.add_tree(RAM, vec![7; 5000]).unwrap();
    assert_eq!(plan.entry.a1, RAM.end - 8192);
    let tight = RamRange {
        end: 0x8000_3000,
        ..RAM
    };
    let mut plan = load_elf(&file(good()), tight).unwrap().plan;
    let e = plan.add_tree(tight, vec![7; 5000]).unwrap_err().to_string();
    assert!(
        e.contains(
            "(device tree) needs 0x80001000..0x80002388, but System RAM is 0x80002100..0x80003000"
        ),
        "{e}"
    );
}

#[test]
fn wrong_programs_are_named() {
    let seg = (LOAD, RX, 0x200, 0x8000_0000, 0x100, 0x1000);
    let mut elf32 = good();
    elf32[4] = 1;
    for (bytes, expected) in [
        (b"#!/bin/sh".to_vec(), "no ELF file"),
        (elf32, "32-bit"),
        (elf(2, 62, 0, &[seg]), "another processor (ELF machine 62)"),
        (elf(3, RISCV, 0, &[seg]), "-static -no-pie"),
        (elf(1, RISCV, 0, &[seg]), "not been linked"),
        (
            elf(2, RISCV, 0x8000_0000, &[seg, (3, 4, 0, 0, 0, 0)]),
            "dynamic linker",
        ),
        (elf(2, RISCV, 0x8000_0000, &[]), "nothing to load"),
        (
            elf(2, RISCV, 0x9000, &[seg]),
            "entry point 0x9000 is in no segment that is loaded",
        ),
        (elf(2, RISCV, 0x8000_0001, &[seg]), "odd"),
        (elf(2, RISCV, 0x8000_0000, &[seg, seg]), "overlap"),
        (
            elf(2, RISCV, 0x1000, &[(LOAD, RX, 0x200, 0x1000, 0x100, 0x100)]),
            "System RAM is 0x80000000",
        ),
        (
            elf(
                2,
                RISCV,
                0x8000_0000,
                &[(LOAD, RX, 0x200, 0x8000_0000, 0x1000, 0x1000)],
            ),
            "past the end of the file",
        ),
        (
            elf(
                2,
                RISCV,
                0x8000_0000,
                &[(LOAD, RX, 0x200, 0x8000_0000, 0x100, 0x10)],
            ),
            "longer in the file",
        ),
        (
            elf(
                2,
                RISCV,
                u64::MAX,
                &[(LOAD, RX, 0x200, u64::MAX - 4, 0, 0x100)],
            ),
            "System RAM",
        ),
    ] {
        let e = load_elf(&file(bytes), RAM).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}\n not {expected}");
    }
}

#[test]
fn a_linked_program_has_symbols() {
    let Some(gcc) = crate::tool("riscv64-linux-gnu-gcc") else {
        return;
    };
    let dir = std::env::temp_dir().join(format!("nagori-elf-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, output) = (dir.join("p.S"), dir.join("p"));
    let text =
        ".globl _start\n.type _start,@function\n_start: nop\nloop: j loop\n.size _start,.-_start\n\
                .data\n.globl tohost\ntohost: .dword 0\n";
    std::fs::write(&source, text).unwrap();
    let done = Command::new(gcc)
        .args([
            "-nostdlib",
            "-static",
            "-no-pie",
            "-Wl,-N,-Ttext=0x80000000",
            "-Wl,--build-id=none",
            "-o",
        ])
        .args([&output, &source])
        .status()
        .unwrap();
    assert!(done.success());
    let elf = load_elf(&FileData::read(Role::Program, &output).unwrap(), RAM).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(elf.symbols.address("_start"), Some(0x8000_0000));
    assert_eq!(elf.agreed.tohost, elf.symbols.address("tohost"));
    assert!(elf.agreed.tohost.is_some());
    let (name, offset) = elf
        .symbols
        .lookup(elf.symbols.address("loop").unwrap())
        .unwrap();
    assert_eq!((name, offset), ("loop", 0));
    assert_eq!(elf.symbols.lookup(0x1000), None);
}

#[test]
fn a_missing_file_is_named() {
    let e = FileData::read(Role::Kernel, Path::new("/no/such/Image"))
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("cannot read the kernel /no/such/Image: "),
        "{e}"
    );
}

proptest! {
    #[test]
    fn damaged_programs_are_refused_or_fit(
        changes in prop::collection::vec((0usize..0x140, any::<u8>()), 1..12),
        cut in 0usize..0x400,
    ) {
        let mut bytes = good();
        for (at, value) in changes {
            bytes[at] = value;
        }
        if let Ok(elf) = load_elf(&file(bytes.clone()), RAM) {
            // What is accepted fits.
            for s in &elf.plan.segments {
                prop_assert!(s.addr >= RAM.start && s.addr + s.memory_size <= RAM.end);
            }
        }
        bytes.truncate(cut);
        let _ = load_elf(&file(bytes), RAM);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = load_elf(&file(bytes.clone()), RAM);
        let _ = parse_kernel(&file(bytes.clone()), None, RAM);
        let _ = check_initramfs(&file(bytes.clone()));
        let _ = check_firmware(&file(bytes));
    }

    #[test]
    fn any_kernel_header_is_placed_inside_memory_or_refused(text_offset: u64, image_size: u64, small in 0u64..1 << 28) {
        for (offset, size) in [(text_offset, image_size), (small & !0xfff, small)] {
            let files = LinuxFiles { kernel: file(image(offset, size)), ..files() };
            if let Ok(plan) = plan(&files, RAM) {
                for s in &plan.segments {
                    prop_assert!(s.addr >= RAM.start && s.addr + s.memory_size <= RAM.end);
                }
            }
        }
    }
}
