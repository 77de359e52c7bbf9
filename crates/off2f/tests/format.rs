//! Splitting and joining of made ELF files, real ones of the cross compiler's, and broken ones.

use nagori_off2f::{join, read_off2, read_text, split, Error, Header, HEADER, PAGE};
use proptest::prelude::*;

/// A segment: type, flags, offset, address, bytes.
type Segment = (u32, u32, u64, u64, u64);

/// An ELF file of these segments, whose bytes follow from their places.
fn elf(bytes: usize, segments: &[Segment]) -> Vec<u8> {
    let mut f: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 251) as u8).collect();
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    header.extend(3u16.to_le_bytes());
    header.extend(243u16.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    for v in [0u64, 64, 0] {
        header.extend(v.to_le_bytes());
    }
    header.extend(0u32.to_le_bytes());
    for v in [64u16, 56, segments.len() as u16, 64, 0, 0] {
        header.extend(v.to_le_bytes());
    }
    for &(kind, flags, offset, vaddr, len) in segments {
        header.extend(kind.to_le_bytes());
        header.extend(flags.to_le_bytes());
        for v in [offset, vaddr, vaddr, len, len, PAGE] {
            header.extend(v.to_le_bytes());
        }
    }
    f[..header.len()].copy_from_slice(&header);
    f
}

/// Text from the first byte on, as riscv64's linker makes it, and data behind.
fn two() -> Vec<u8> {
    elf(
        20_000,
        &[
            (1, 5, 0, 0x10000, 13_000),
            (1, 6, 13_000, 0x14000 + 13_000 % PAGE, 5000),
        ],
    )
}

/// A read-only segment, text, read-only data, data.
fn separate() -> Vec<u8> {
    elf(
        40_000,
        &[
            (1, 4, 0, 0, 3000),
            (1, 5, 4096, 4096, 12_288),
            (1, 4, 16_384, 16_384, 5000),
            (1, 6, 22_000, 30_192, 2000),
        ],
    )
}

#[test]
fn joined_is_what_was_split() {
    for (file, pages, cut) in [(two(), 4, 2), (separate(), 3, 3)] {
        let pair = split(&file).unwrap();
        let h = read_off2(&pair.off2).unwrap();
        assert_eq!((h.text_pages, h.cut_pages), (pages, cut));
        assert_eq!(read_text(&pair.text).unwrap(), h.text());
        assert_eq!(
            pair.off2.len() as u64,
            HEADER + file.len() as u64 - cut * PAGE
        );
        assert_eq!(pair.text.len() as u64, HEADER + pages * PAGE);
        // The text is what the segment's pages have in the file.
        let from = h.text_offset as usize;
        assert_eq!(
            pair.text[HEADER as usize..][..8192],
            file[from..from + 8192]
        );
        assert_eq!(join(&pair.off2, &pair.text).unwrap(), file);
    }
}

#[test]
fn a_short_text_is_in_both_files() {
    let file = elf(3000, &[(1, 5, 0, 0, 2500)]);
    let pair = split(&file).unwrap();
    let h = read_off2(&pair.off2).unwrap();
    assert_eq!((h.text_pages, h.cut_pages), (1, 0));
    assert!(pair.text[HEADER as usize + 3000..].iter().all(|&b| b == 0));
    assert_eq!(join(&pair.off2, &pair.text).unwrap(), file);
}

#[test]
fn the_build_id_is_the_linkers_or_the_contents() {
    let mut file = two();
    let h = read_off2(&split(&file).unwrap().off2).unwrap();
    assert!(!h.build_id.from_linker);
    assert_eq!(h.build_id.bytes().len(), 16);
    file[19_999] ^= 1;
    let other = read_off2(&split(&file).unwrap().off2).unwrap();
    assert_ne!(other.build_id, h.build_id);

    let mut file = elf(9000, &[(1, 5, 0, 0, 8500), (4, 4, 400, 400, 44)]);
    let mut note = Vec::new();
    // A note of somebody else's first.
    for v in [3u32, 3, 7] {
        note.extend(v.to_le_bytes());
    }
    note.extend(b"ab\0\0abc\0");
    for v in [4u32, 8, 3] {
        note.extend(v.to_le_bytes());
    }
    note.extend(b"GNU\0\x01\x02\x03\x04\x05\x06\x07\x08");
    file[400..444].copy_from_slice(&note);
    let h = read_off2(&split(&file).unwrap().off2).unwrap();
    assert_eq!(h.build_id.to_string(), "0102030405060708");
    assert!(h.build_id.from_linker);
}

#[test]
fn files_that_cannot_be_split() {
    let base = (1, 5, 0, 0x10000, 13_000);
    let with = |s: &[Segment]| split(&elf(20_000, s)).unwrap_err().to_string();
    for (text, part) in [
        (with(&[(1, 6, 0, 0, 100)]), "0 executable segments"),
        (
            with(&[base, (1, 5, 16_384, 0x20000, 100)]),
            "2 executable segments",
        ),
        (with(&[(1, 7, 0, 0, 100)]), "is writable"),
        (with(&[(1, 5, 0, 8, 100)]), "pages of 4096 bytes"),
        (with(&[(1, 5, 0, 0, 20_001)]), "ends behind the file"),
        (with(&[(1, 5, u64::MAX, 0, 2)]), "ends behind the file"),
        (
            with(&[(1, 5, 0, u64::MAX - 4095, 13_000)]),
            "behind the last address",
        ),
        (with(&[(1, 5, 0, 0, 0)]), "no content"),
        (
            with(&[(1, 5, 0, 0, 20_000), (1, 4, 9000, 0x90000 + 808, 10)]),
            "in the midst",
        ),
        (
            split(b"#!/bin/sh\n").unwrap_err().to_string(),
            "does not begin",
        ),
        (
            split(b"\x7fELF").unwrap_err().to_string(),
            "within its header",
        ),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let change = |at: usize, v: u8| {
        let mut f = two();
        f[at] = v;
        split(&f).unwrap_err().to_string()
    };
    assert!(change(4, 1).contains("not 64-bit"));
    assert!(change(5, 2).contains("little-endian"));
    assert!(change(16, 1).contains("neither an executable nor a library"));
    assert!(change(54, 32).contains("56 bytes each"));
    assert!(change(56, 0).contains("0 program headers"));
    assert!(change(39, 1).contains("behind its end"));
}

#[test]
fn every_changed_byte_is_noticed() {
    let pair = split(&two()).unwrap();
    let places = |len: usize| (0..len).step_by(97).chain([len - 1]);
    for at in places(pair.off2.len()) {
        let mut off2 = pair.off2.clone();
        off2[at] ^= 4;
        assert!(join(&off2, &pair.text).is_err(), "off2 at {at}");
    }
    for at in places(pair.text.len()) {
        let mut text = pair.text.clone();
        text[at] ^= 4;
        assert!(join(&pair.off2, &text).is_err(), "text at {at}");
    }
    for len in places(pair.text.len()) {
        assert!(join(&pair.off2, &pair.text[..len]).is_err());
    }
    for len in places(pair.off2.len()) {
        assert!(join(&pair.off2[..len], &pair.text).is_err());
    }
}

#[test]
fn files_of_two_programs_do_not_join() {
    let mut file = two();
    let first = split(&file).unwrap();
    file[8000] ^= 1;
    let second = split(&file).unwrap();
    for (off2, text) in [(&first.off2, &second.text), (&second.off2, &first.text)] {
        let e = join(off2, text).unwrap_err();
        assert!(matches!(e, Error::Mismatch(_)), "{e}");
        assert!(e.to_string().contains("build id"), "{e}");
    }
    // Text and data of different builds that have the same build id.
    let with_id = |change: usize| {
        let mut f = elf(20_000, &[(1, 5, 0, 0, 13_000), (4, 4, 400, 400, 24)]);
        let note = [
            &[4u8, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0][..],
            b"GNU\0ABCDEFGH",
        ]
        .concat();
        f[400..424].copy_from_slice(&note);
        f[change] ^= 1;
        split(&f).unwrap()
    };
    let e = join(&with_id(5000).off2, &with_id(6000).text).unwrap_err();
    assert!(e.to_string().contains("checksum of the text"), "{e}");
}

#[test]
fn another_version_is_named() {
    let mut pair = split(&two()).unwrap();
    pair.off2[8] = 2;
    let e = read_off2(&pair.off2).unwrap_err().to_string();
    assert!(e.contains("version 2"), "{e}");
    let e = read_off2(&pair.text).unwrap_err().to_string();
    assert!(e.contains("first bytes"), "{e}");
}

proptest! {
    /// Headers with a right checksum, and any fields.
    #[test]
    fn fields_of_a_header_never_panic(
        words in prop::collection::vec(prop_oneof![0u64..20, (0u64..20).prop_map(|p| p * PAGE), any::<u64>()], 10),
        data in 0usize..30_000,
    ) {
        let pair = split(&two()).unwrap();
        let mut off2 = pair.off2.clone();
        for (i, w) in words.iter().enumerate() {
            off2[56 + 8 * i..64 + 8 * i].copy_from_slice(&w.to_le_bytes());
        }
        let sum = nagori_off2f::checksum(&off2[..4088]);
        off2[4088..4096].copy_from_slice(&sum.to_le_bytes());
        off2.resize(HEADER as usize + data, 0);
        let _ = (Header::decode(&off2), join(&off2, &pair.text));
    }

    #[test]
    fn changed_elf_files_never_panic(changes in prop::collection::vec((0usize..300, any::<u8>()), 0..6)) {
        let mut file = separate();
        for (at, v) in changes {
            file[at] = v;
        }
        if let Ok(pair) = split(&file) {
            prop_assert_eq!(join(&pair.off2, &pair.text).unwrap(), file);
        }
    }
}
