//! The two files of OFF2F.

use nagori_off2f::{checksum, join, read_off2, read_text, split, HEADER};

/// Where the text begins if the data say so in their first two bytes.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    match data {
        [low, high, rest @ ..] => {
            let at = usize::from(u16::from_le_bytes([*low, *high]));
            rest.split_at(at.min(rest.len()))
        }
        _ => (data, &[]),
    }
}

/// The file with a right checksum of its header, if it has one.
fn repaired(file: &[u8]) -> Vec<u8> {
    let (mut file, sum) = (file.to_vec(), HEADER as usize - 8);
    if file.len() >= HEADER as usize {
        let right = checksum(&file[..sum]);
        file[sum..sum + 8].copy_from_slice(&right.to_le_bytes());
    }
    file
}

/// An ELF file: refused, or joined to what it was. Two files, as they are and with right checksums of their headers:
/// refused, or joined to a file whose checksum is the recorded one.
pub fn off2f_files(data: &[u8]) {
    if let Ok(pair) = split(data) {
        assert!(join(&pair.off2, &pair.text).expect("it was split") == data);
    }
    let (off2, text) = halves(data);
    for (off2, text) in [
        (off2.to_vec(), text.to_vec()),
        (repaired(off2), repaired(text)),
    ] {
        let _ = read_text(&text);
        let header = read_off2(&off2);
        if let Ok(elf) = join(&off2, &text) {
            let header = header.expect("it was joined");
            assert_eq!(checksum(&elf), header.elf_checksum);
            assert_eq!(elf.len() as u64, header.elf_bytes);
        }
    }
}

/// An ELF file with one segment, and its two files.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xf3\0\x01\0\0\0".to_vec();
    elf.resize(32, 0);
    elf.extend(64u64.to_le_bytes());
    elf.resize(54, 0);
    elf.extend([56, 0, 1, 0]);
    elf.resize(64, 0);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for v in [0u64, 0, 0, 9000, 9000, 4096] {
        elf.extend(v.to_le_bytes());
    }
    elf.resize(9500, 7);
    let pair = split(&elf).expect("it can be split");
    let mut both = (pair.off2.len() as u16).to_le_bytes().to_vec();
    both.extend(&pair.off2);
    both.extend(&pair.text);
    vec![elf, both]
}
