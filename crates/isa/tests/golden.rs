//! The text of the disassembler, compared with a file: `pc word text` on every line.
//!
//! `NAGORI_BLESS=1 cargo test -p nagori-isa` rewrites the file after an intended change.

use nagori_isa::{decode, disassemble, OPS};
use std::fmt::Write;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/disassembly.txt");
const PC: u64 = 0x8000_0000;

/// One word of every row with distinct operands, every compressed form, and special cases.
fn words() -> Vec<u32> {
    // rd a1, rs1 a2, rs2 a3, rs3 t1, rounding towards zero where these fields are free.
    const FILL: u32 = 6 << 27 | 13 << 20 | 12 << 15 | 1 << 12 | 11 << 7;
    let mut words: Vec<u32> = OPS
        .iter()
        .map(|row| row.match_ | FILL & !row.mask)
        .collect();
    words.extend([
        0x0ff0_000f, // fence iorw,iorw
        0x8330_000f, // fence.tso
        0x0000_000f, // empty sets
        0xf330_000f, // reserved mode
        0x160c_a52f, // lr.w.aqrl
        0x06a5_b52f, // amoadd.d.aqrl
        0x00c5_d553, // reserved rounding mode
        0x00c5_f553, // dynamic rounding mode
        0x7c00_25f3, // CSR without a name
        0x3b30_25f3, // CSR of a run
        0xfe00_0ee3, // branch backwards
        0x8000_006f, // jump backwards
        0xfff5_8593, // negative immediate
        0xffff_f5b7, // lui of the highest value
    ]);
    words.extend([
        0x1048, 0x2588, 0x41c8, 0x6588, 0xa588, 0xc1c8, 0xe588, 0x0001, 0x157d, 0x357d, 0x557d,
        0x757d, 0x7139, 0x9171, 0x9571, 0x997d, 0x8d0d, 0x8d2d, 0x8d4d, 0x8d6d, 0x9d0d, 0x9d2d,
        0xbfdd, 0xd97d, 0xfd6d, 0x1572, 0x2562, 0x4562, 0x6562, 0x8082, 0x852e, 0x9002, 0x9502,
        0x952e, 0x900a, 0xa42a, 0xc42a, 0xe42a,
    ]);
    words
}

#[test]
fn disassembly_is_that_of_the_file() {
    let mut text = String::new();
    for word in words() {
        let inst = decode(word).unwrap_or_else(|| panic!("{word:#x} does not decode"));
        let width = usize::from(inst.len) * 2;
        let line = disassemble(&inst, PC);
        writeln!(text, "{PC:x} {word:0width$x} {line}").unwrap();
    }
    nagori_golden::golden(FILE, &text);
}
