//! What fuzzing starts from: small inputs that are accepted, and near misses.

/// A kernel header in front of nothing.
pub fn kernel() -> Vec<u8> {
    let mut b = vec![0u8; 4096];
    b[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
    b[16..24].copy_from_slice(&8192u64.to_le_bytes());
    b[48..56].copy_from_slice(b"RISCV\0\0\0");
    b[56..60].copy_from_slice(b"RSC\x05");
    b
}

/// A static program of one segment: writes 0x5555 to the test device.
fn program() -> Vec<u8> {
    let words = [
        0x0010_0537u32,
        0x0000_55b7,
        0x5555_8593,
        0x00b5_2023,
        0x0000_006f,
    ];
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let base = 0x8000_0000u64;
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2u16, 243].map(u16::to_le_bytes).concat());
    out.extend(1u32.to_le_bytes());
    out.extend([base, 64, 0].map(u64::to_le_bytes).concat());
    out.extend(0u32.to_le_bytes());
    out.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    out.extend([1u32, 7].map(u32::to_le_bytes).concat());
    let len = code.len() as u64;
    out.extend(
        [120, base, base, len, len + 64, 4]
            .map(u64::to_le_bytes)
            .concat(),
    );
    out.extend(code);
    out
}

fn words(head: [u8; 4], words: &[u32]) -> Vec<u8> {
    let mut out = head.to_vec();
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    out
}

fn gzip_of_nothing() -> Vec<u8> {
    vec![
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
}

/// The seeds of a target, by its name.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let text = |t: &str| t.as_bytes().to_vec();
    let embedded = |name| {
        nagori_platform::config::embedded(".", name)
            .unwrap_or_default()
            .replace('/', "-")
            .into_bytes()
    };
    match target {
        "elf_loader" => vec![program(), program()[..100].to_vec()],
        "kernel_image" => vec![kernel(), gzip_of_nothing(), text("070701"), vec![0x13; 4096]],
        "machine_toml" => vec![
            embedded("vc707"),
            embedded("small"),
            text("!harts=8\n!memory.nvmm_boundary=\"512 MiB\"\nmethod = \"fine\"\n"),
            text("[memory]\nsize = \"8 GiB\"\nexpose = \"pmem-region\"\n[memory.controller]\npreset = \"vc707\"\nmachines = 4\n"),
            text("[l1d]\nsize = \"32 KiB\"\nways = 8\n[dtlb]\nsectors = 4\n!advertise_zicbom=true\n"),
        ],
        "guest_words" => vec![
            // Stores to the places in registers, and on.
            words([0x82, 3, 0, 0], &[0x00b5_b023, 0x00c6_3023, 0x00d6_b023, 0x0005_b503, 0xff1f_f06f]),
            // Page tables on: satp from s6, mret.
            words([1, 1, 16, 0], &[0x180b_1073, 0x1200_0073, 0x3020_0073, 0x1050_0073]),
            words([0x80, 0, 0, 0], &[0x0000_100f, 0x0331_00f3, 0x0200_0053, 0x0000_0073]),
        ],
        "device_access" => vec![
            b"\x80\x03\0\0\x03\x03\x00\x01\x03\0\0\0\x03\x03\x08\x02\x02\0\0\0\x0a\x03\x20\x01\0\0\0\0".to_vec(),
            b"\0\0\0\0\x02\x06\x70\x00\x0f\0\0\0\x02\x06\x38\x00\x08\0\0\0\x42\x06\x80\x00\0\x10\x20\0".to_vec(),
        ],
        _ => vec![words([0x13, 0, 0, 0], &[0x02b5_0533, 0x1234_5678, 0xffff_ffff, 0x0000_4501])],
    }
}
