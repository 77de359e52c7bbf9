//! Kernels of other formats than the Linux Image.

use super::tests::{elf, file, files, gzip, image, plan, LOAD, RAM, RISCV};
use super::*;
use proptest::prelude::*;
use sha2::Digest;
use vm_fdt::FdtWriter;

const AT: u64 = 0x8020_0000;

fn uimage(data: &[u8], kind: u8, packing: u8) -> Vec<u8> {
    let mut h = vec![0u8; 64];
    for (offset, word) in [
        (0, 0x2705_1956),
        (12, data.len() as u32),
        (16, AT as u32),
        (20, AT as u32 + 2),
        (24, crc32fast::hash(data)),
    ] {
        h[offset..offset + 4].copy_from_slice(&word.to_be_bytes());
    }
    h[28..32].copy_from_slice(&[5, 26, kind, packing]);
    seal(&mut h);
    h.extend(data);
    h
}

/// Sets the checksum of a header.
fn seal(h: &mut [u8]) {
    h[4..8].fill(0);
    let sum = crc32fast::hash(&h[..64]);
    h[4..8].copy_from_slice(&sum.to_be_bytes());
}

/// A FIT image with a hash of each kind; its data is in the tree, or after it.
fn fit(data: &[u8], packing: &str, inside: bool) -> Vec<u8> {
    let mut w = FdtWriter::new().unwrap();
    let root = w.begin_node("").unwrap();
    let images = w.begin_node("images").unwrap();
    let kernel = w.begin_node("kernel-1").unwrap();
    if inside {
        w.property("data", data).unwrap();
    } else {
        w.property_u32("data-offset", 8).unwrap();
        w.property_u32("data-size", data.len() as u32).unwrap();
    }
    w.property_string("arch", "riscv").unwrap();
    w.property_string("compression", packing).unwrap();
    w.property_u64("load", AT).unwrap();
    w.property_u32("entry", AT as u32 + 2).unwrap();
    let sums = [
        ("crc32", crc32fast::hash(data).to_be_bytes().to_vec()),
        ("sha1", sha1::Sha1::digest(data).to_vec()),
        ("sha256", sha2::Sha256::digest(data).to_vec()),
    ];
    for (i, (name, value)) in sums.iter().enumerate() {
        let hash = w.begin_node(&format!("hash-{i}")).unwrap();
        w.property_string("algo", name).unwrap();
        w.property("value", value).unwrap();
        w.end_node(hash).unwrap();
    }
    w.end_node(kernel).unwrap();
    w.end_node(images).unwrap();
    let configurations = w.begin_node("configurations").unwrap();
    w.property_string("default", "conf-1").unwrap();
    for (name, kernel) in [("conf-0", "none"), ("conf-1", "kernel-1")] {
        let conf = w.begin_node(name).unwrap();
        w.property_string("kernel", kernel).unwrap();
        w.end_node(conf).unwrap();
    }
    w.end_node(configurations).unwrap();
    w.end_node(root).unwrap();
    let mut out = w.finish().unwrap();
    if !inside {
        let at = out.len().next_multiple_of(4) + 8;
        out.resize(at, 0);
        out.extend(data);
    }
    out
}

fn parse(bytes: Vec<u8>) -> Result<Kernel, LoadError> {
    parse_kernel(&file(bytes), None, RAM)
}

fn problem(bytes: Vec<u8>) -> String {
    parse(bytes).unwrap_err().to_string()
}

/// The load address, entry and bytes of a kernel that consists of one part.
fn single(kernel: Kernel) -> (u64, u64, Vec<u8>) {
    match kernel {
        Kernel::Fixed {
            segments, entry, ..
        } if segments.len() == 1 => (segments[0].addr, entry, segments[0].bytes.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn images_of_u_boot_are_unpacked_and_checked() {
    let code = vec![0x13; 4096];
    let expected = (AT, AT + 2, code.clone());
    let zstd = zstd::bulk::compress(&code, 3).unwrap();
    let mut several = [4096u32, 8, 0].map(u32::to_be_bytes).concat();
    several.extend(&code);
    several.extend([1; 8]);
    for good in [
        uimage(&code, 2, 0),
        uimage(&gzip(&code), 2, 1),
        uimage(&zstd, 5, 6),
        uimage(&several, 4, 0),
        fit(&code, "none", true),
        fit(&gzip(&code), "gzip", true),
        fit(&zstd, "zstd", false),
    ] {
        assert_eq!(single(parse(good).unwrap()), expected);
    }
    let changed = |mut image: Vec<u8>, at: usize, to: u8| {
        image[at] = to;
        if at < 64 {
            seal(&mut image);
        }
        image
    };
    let mut header = uimage(&code, 2, 0);
    header[40] = 1;
    let plain = uimage(&code, 2, 0);
    for (bytes, expected) in [
        (header, "wrong checksum of its header"),
        (changed(plain.clone(), 100, 1), "wrong checksum of its data"),
        (
            changed(plain.clone(), 29, 2),
            "for another processor (number 2",
        ),
        (changed(plain.clone(), 30, 3), "of kind 3"),
        (changed(plain.clone(), 31, 4), "not known (number 4)"),
        (
            plain[..500].to_vec(),
            "4096 bytes of data are not all there",
        ),
        (plain[..20].to_vec(), "ends in its header"),
        (
            changed(plain, 20, 0x81),
            "its entry 0x81200002 is odd or not in its 4096 bytes",
        ),
        (uimage(&code, 2, 1), "cannot be unpacked"),
        (fit(&code, "lzo", true), "not known (lzo)"),
        (fit(&code, "gzip", true), "cannot be unpacked"),
    ] {
        let e = problem(bytes);
        assert!(e.contains(expected), "{e}\n not {expected}");
    }
    let mut behind = fit(&code, "none", false);
    *behind.last_mut().unwrap() = 0;
    assert!(problem(behind.clone()).contains("wrong checksum"));
    behind.pop();
    assert!(problem(behind).contains("not all of it"));
    let mut tree = fit(&code, "none", true);
    tree.truncate(200);
    assert!(problem(tree).contains("damaged structure"));
}

#[test]
fn zboot_and_linux_images_in_u_boots_are_known() {
    let linux = image(0x20_0000, 0x10_0000);
    let packed = zstd::bulk::compress(&linux, 3).unwrap();
    let mut zboot = b"MZ\0\0zimg".to_vec();
    zboot.extend([256u32, packed.len() as u32].map(u32::to_le_bytes).concat());
    zboot.resize(24, 0);
    zboot.extend(b"zstd22\0\0");
    zboot.resize(256, 0);
    zboot.extend(packed);
    assert_eq!(parse(zboot.clone()).unwrap(), parse(linux.clone()).unwrap());
    zboot.pop();
    assert!(problem(zboot).contains("is not all there"));
    // The memory after it belongs to it.
    let Kernel::Fixed { segments, .. } = parse(uimage(&linux, 2, 0)).unwrap() else {
        panic!("a place of its own");
    };
    assert_eq!(segments[0].memory_size, 0x10_0000);
}

#[test]
fn other_kernels_are_where_they_say_and_the_rest_is_behind() {
    let mut files = files();
    files.kernel = file(vec![0x13; 4096]);
    files.kernel_at = Some(AT);
    let at = |plan: &Plan, role| plan.segments.iter().find(|s| s.role == role).unwrap().addr;
    let p = plan(&files, RAM).unwrap();
    assert_eq!(at(&p, Role::Kernel), AT);
    assert!(
        at(&p, Role::Initramfs) >= AT + (16 << 20),
        "variables may follow"
    );
    assert_eq!((p.entry.pc, p.warnings.len()), (RAM.start, 0));
    // A kernel must not overlap the firmware; without a firmware it comes first.
    files.kernel_at = Some(RAM.start + 4096);
    let e = plan(&files, RAM).unwrap_err().to_string();
    assert!(e.contains("where the firmware is"), "{e}");
    files.firmware = None;
    let p = plan(&files, RAM).unwrap();
    assert_eq!((p.entry.pc, p.entry.a2), (RAM.start + 4096, 0));
    // A Linux Image is kept out of the firmware's memory.
    let mut files = super::tests::files();
    files.reserved = 6 << 20;
    let p = plan(&files, RAM).unwrap();
    assert_eq!(at(&p, Role::Kernel), RAM.start + (6 << 20));
    // Firmware as ELF, without flags.
    let header = (LOAD, 0, 0x200, RAM.start, 0x100, 0x1000);
    files.firmware = Some(file(elf(2, RISCV, RAM.start + 0x10, &[header])));
    let p = plan(&files, RAM).unwrap();
    assert_eq!(p.entry.pc, RAM.start + 0x10);
    assert!(p.entry.a2 != 0);
    assert!(
        p.warnings[0].contains("no flags at all"),
        "{:?}",
        p.warnings
    );
}

proptest! {
    #[test]
    fn changed_images_never_panic(at in 0usize..600, to: u8, cut in 0usize..700, which: bool, sealed: bool) {
        let code = [0x13; 128];
        let mut bytes = if which { uimage(&gzip(&code), 2, 1) } else { fit(&code, "none", true) };
        let n = bytes.len();
        bytes[at % n] = to;
        if which && sealed {
            seal(&mut bytes);
        }
        let _ = parse(bytes.clone());
        bytes.truncate(cut);
        let _ = parse(bytes);
    }
}
