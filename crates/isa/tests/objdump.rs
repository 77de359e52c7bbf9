//! Decoder and disassembler against GNU objdump: every compressed instruction, and words of every
//! row of the table, words one bit away from a row, and arbitrary words.
//!
//! Without the tools the tests are skipped with a message; `NAGORI_REQUIRE_TOOLS=1` makes that a
//! failure. Debian package: binutils-riscv64-linux-gnu.

use nagori_isa::{decode, disassemble, Ext, Op, OPS};
use std::path::{Path, PathBuf};
use std::process::Command;

const PREFIX: &str = "riscv64-linux-gnu-";
const BASE: u64 = 0x8000_0000;
/// The extensions that objdump is told.
const ARCH: &str = "rv64imafdc_zicsr_zifencei_zicbom_zicbop_zicboz_zihintpause_zba_zbb_zbs";
/// Number of differences shown before a test stops.
const SHOWN: usize = 20;

/// Whether the tools are there; says so when they are not.
fn tools_present() -> bool {
    let missing = ["as", "objcopy", "objdump"].iter().find(|tool| {
        let name = format!("{PREFIX}{tool}");
        Command::new(name).arg("--version").output().is_err()
    });
    let Some(tool) = missing else { return true };
    let message = format!("{PREFIX}{tool} not found; install binutils-riscv64-linux-gnu");
    let required = std::env::var("NAGORI_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
    assert!(!required, "{message}");
    eprintln!("SKIPPED: {message}");
    false
}

fn run(tool: &str, args: &[&str]) -> String {
    let out = Command::new(format!("{PREFIX}{tool}"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{tool} {args:?}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// A directory for one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("nagori-isa-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn path(&self, name: &str) -> String {
        Path::new(&self.0).join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it; the directory is in the temporary one.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// objdump's text of code at [`BASE`], as (offset, text). Text of illegal words is `None`.
fn objdump(name: &str, code: &[u8]) -> Vec<(usize, Option<String>)> {
    let scratch = Scratch::new(name);
    let (source, object, bytes) = (
        scratch.path("stub.s"),
        scratch.path("stub.o"),
        scratch.path("code"),
    );
    // The stub brings the attribute section that enables the extensions; the code is put in later,
    // since the assembler would mark it as data.
    std::fs::write(
        &source,
        format!(".attribute arch, \"{ARCH}\"\n.text\nnop\n"),
    )
    .unwrap();
    std::fs::write(&bytes, code).unwrap();
    run("as", &[&source, "-o", &object]);
    run(
        "objcopy",
        &["--update-section", &format!(".text={bytes}"), &object],
    );
    let adjust = format!("--adjust-vma={BASE:#x}");
    let text = run(
        "objdump",
        &["-d", "-z", "-M", "no-aliases", &adjust, &object],
    );
    text.lines().filter_map(parse_line).collect()
}

/// `    80000000:\t0001   \tc.addi\tzero,0 # comment`
fn parse_line(line: &str) -> Option<(usize, Option<String>)> {
    let (address, rest) = line.split_once(":\t")?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let (_, text) = rest.split_once('\t')?;
    let text = text.split(" # ").next().unwrap().trim();
    let text = text.split(" <").next().unwrap();
    // binutils 2.40 writes `.4byte`, 2.44 writes `.insn 4,`.
    let data = [".4byte", ".2byte", ".insn"];
    let illegal = data.iter().any(|d| text.starts_with(d)) || text == "c.unimp";
    Some((
        (address - BASE) as usize,
        (!illegal).then(|| text.replace('\t', " ")),
    ))
}

/// Our text of a word, `None` where it is illegal.
fn ours(word: u32, pc: u64) -> Option<String> {
    decode(word).map(|inst| disassemble(&inst, pc))
}

/// Small generator of test words (splitmix64).
struct Words(u64);

impl Words {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }
}

/// Instructions that objdump treats differently, with the reason; `None` where texts must be equal.
fn known_difference(word: u32) -> Option<&'static str> {
    if [0x0020_0073, 0x2020_0073, 0x1040_0073].contains(&word) {
        return Some("uret, hret, sfence.vm: withdrawn drafts");
    }
    let inst = decode(word)?;
    let rounded = inst.rm != 0;
    match inst.op {
        op if matches!(op.info().ext, Ext::Xcflush | Ext::Xmark) => Some("vendor instructions"),
        op if matches!(op.info().ext, Ext::Zicond | Ext::Zacas) => {
            Some("binutils 2.40 does not know them")
        }
        op if op.info().ext == Ext::Zihintntl => Some("binutils 2.40 shows `add`"),
        Op::Fence if inst.rd | inst.rs1 != 0 || !matches!(inst.imm >> 8, 0) => {
            Some("reserved fields, which a hart must ignore")
        }
        Op::FenceI if word != Op::FenceI.info().match_ => {
            Some("reserved fields, which a hart must ignore")
        }
        Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu if rounded => {
            Some("exact conversions: binutils 2.40 wants rounding mode 0")
        }
        _ => None,
    }
}

/// objdump's text in our spelling.
fn normalised(op: Op, theirs: &str) -> String {
    match op {
        // An empty set, a reserved rounding mode.
        Op::Fence => theirs.replace("unknown", "0"),
        Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu => format!("{theirs},rne"),
        // A branch target is printed without 0x.
        Op::Jal | Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => {
            let (head, target) = theirs.rsplit_once(',').unwrap();
            format!("{head},0x{target}")
        }
        _ => theirs.to_string(),
    }
}

/// Whether two texts differ only in a CSR of which we know no name, or in a reserved rounding mode.
fn same(ours: &str, theirs: &str) -> bool {
    if let (Some(a), Some(b)) = (
        ours.strip_suffix(",rm5").or(ours.strip_suffix(",rm6")),
        theirs.strip_suffix(",unknown"),
    ) {
        return a == b;
    }
    if ours.starts_with("csr") && ours.contains(",0x") {
        let (a, b): (Vec<_>, Vec<_>) = (ours.split(',').collect(), theirs.split(',').collect());
        return a.len() == 3 && b.len() == 3 && a[0] == b[0] && a[2] == b[2];
    }
    ours == theirs
}

#[test]
fn words_of_32_bits() {
    if !tools_present() {
        return;
    }
    let mut random = Words(1);
    let mut words = Vec::new();
    for row in OPS {
        words.push(row.match_);
        for _ in 0..300 {
            words.push(row.match_ | random.next() & !row.mask);
        }
        for bit in 2..32 {
            words.push((row.match_ | random.next() & !row.mask) ^ 1 << bit);
        }
    }
    for _ in 0..60_000 {
        words.push(random.next() | 3);
    }
    // To objdump such words would be 48 bits and longer.
    words.retain(|word| word & 0x1f != 0x1f);

    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let listing = objdump("words", &code);
    assert_eq!(listing.len(), words.len());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for ((offset, theirs), &word) in listing.iter().zip(&words) {
        if known_difference(word).is_some() {
            continue;
        }
        let ours = ours(word, BASE + *offset as u64);
        let equal = match (&ours, theirs) {
            (Some(a), Some(b)) => {
                compared += 1;
                same(a, &normalised(decode(word).unwrap().op, b))
            }
            (None, None) => true,
            _ => false,
        };
        if !equal {
            wrong.push(format!("{word:#010x}: {ours:?}, objdump {theirs:?}"));
        }
    }
    let shown = wrong[..wrong.len().min(SHOWN)].join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{shown}", wrong.len());
    assert!(compared > 40_000, "only {compared} words were compared");
}

/// The base instruction of objdump's text of a compressed one, after the C extension's listing.
fn expanded(theirs: &str) -> String {
    let (name, operands) = theirs.split_once(' ').unwrap_or((theirs, ""));
    let name = name.strip_prefix("c.").unwrap();
    let (first, rest) = operands.split_once(',').unwrap_or((operands, ""));
    match name {
        "addi" | "addiw" | "andi" | "slli" | "srli" | "srai" | "add" | "addw" | "sub" | "subw"
        | "and" | "or" | "xor" => format!("{name} {first},{first},{rest}"),
        "slli64" | "srli64" | "srai64" => {
            let name = name.strip_suffix("64").unwrap();
            format!("{name} {first},{first},0x0")
        }
        "addi4spn" => format!("addi {operands}"),
        "addi16sp" => format!("addi sp,{operands}"),
        "li" => format!("addi {first},zero,{rest}"),
        "mv" => format!("add {first},zero,{rest}"),
        "lwsp" | "ldsp" | "swsp" | "sdsp" | "fldsp" | "fsdsp" => {
            let name = name.strip_suffix("sp").unwrap();
            format!("{name} {operands}")
        }
        "j" => format!("jal zero,0x{operands}"),
        "jr" => format!("jalr zero,0({operands})"),
        "jalr" => format!("jalr ra,0({operands})"),
        "beqz" => format!("beq {first},zero,0x{rest}"),
        "bnez" => format!("bne {first},zero,0x{rest}"),
        _ => format!("{name} {operands}").trim_end().to_string(),
    }
}

#[test]
fn every_compressed_instruction() {
    if !tools_present() {
        return;
    }
    let halves: Vec<u16> = (0..=u16::MAX).filter(|half| half & 3 != 3).collect();
    let code: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
    let listing = objdump("compressed", &code);
    assert_eq!(listing.len(), halves.len());
    let mut wrong = Vec::new();
    let mut hints = 0;
    // Reserved by the manual, shown as an addition of 0 by binutils 2.40.
    let addi16sp_zero = 0x6101;
    assert_eq!(decode(addi16sp_zero), None);
    for ((offset, theirs), &half) in listing.iter().zip(&halves) {
        let ours = ours(u32::from(half), BASE + *offset as u64);
        let theirs = theirs.as_deref().map(expanded);
        let locality_hint = decode(u32::from(half)).is_some_and(|i| {
            i.op.info().ext == Ext::Zihintntl
                && theirs
                    .as_deref()
                    .is_some_and(|t| t.starts_with("add zero") || t.starts_with("ntl."))
        });
        if locality_hint {
            hints += 1;
        } else if u32::from(half) != addi16sp_zero && ours != theirs {
            wrong.push(format!("{half:#06x}: {ours:?}, objdump {theirs:?}"));
        }
    }
    let shown = wrong[..wrong.len().min(SHOWN)].join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{shown}", wrong.len());
    assert_eq!(hints, 4);
}
