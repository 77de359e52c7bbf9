//! `nagori bench off2f`: programs from a disk, from DAX, and with their text executed in place.

use super::off2f_plot;
use crate::args::{CacheArgs, MachineArgs};
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::plot::{Format, Picture};
use crate::tables::{grouped, row, table, text};
use anyhow::{bail, Context};
use clap::Args;
use nagori_memtime::Method;
use nagori_off2f::split;
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  nagori bench off2f
  nagori bench off2f --disk-latency hdd --sizes 32,64,96,128 --methods extended
  nagori bench off2f --program ./sort --json

Programs whose text is N KiB of instructions that do nothing, and those of --program (static ones, which end by themselves with
code 0), each run with nothing of them in the kernel's cache: the ELF file on a virtio disk (elf-disk), on ext4 with DAX on NVMM
(elf-dax), and as PROG.off2 on that disk with its text in the text store (off2f). Needs mke2fs.";

/// Measure from exec to exit what executing a program's text in place on NVMM saves.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Off2fArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// KiB of text of the programs that do nothing, separated by commas; multiples of 4.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(4..=16384),
          default_values_t = [32, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192])]
    pub sizes: Vec<u32>,
    /// How often these programs go through their text.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2047))]
    pub passes: u32,
    /// One more program: a static executable for riscv64. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub program: Vec<PathBuf>,
    /// Delay methods, separated by commas [default: all four].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::args::method)]
    pub methods: Vec<Method>,
    /// A list of {program, text_kib, format, method, exec_to_exit_ns, page_faults, bytes_read, nvmm_fetches}.
    #[arg(long)]
    pub json: bool,
    /// Draw the programs that do nothing into a file; the name ends in .svg or .png.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Formats: names in rows, and where the guest finds the program.
const FORMATS: [(&str, &str, &str); 3] = [
    ("elf-disk", "/mnt/disk/", ""),
    ("elf-dax", "/mnt/dax/", ""),
    ("off2f", "/mnt/disk/", ".off2"),
];

/// A static ELF file whose text is `kib` KiB: nops, `passes` times (at most 2047), then exit(0). A page of data follows.
fn nops(kib: u32, passes: u32) -> Vec<u8> {
    const NOP: u32 = 0x0000_0013;
    // addi t0, t0, -1; beqz t0, 8; jr t1; li a7, 93; li a0, 0; ecall
    const END: [u32; 6] = [
        0xfff2_8293,
        0x0002_8463,
        0x0003_0067,
        0x05d0_0893,
        0x0000_0513,
        0x0000_0073,
    ];
    // li t0, passes; auipc t1, 0
    let begin = [passes << 20 | 0x293, 0x317];
    const PAGE: u64 = 4096;
    const BASE: u64 = 0x10000;
    let bytes = u64::from(kib) << 10;
    let mut f = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    // Entry, program headers, no sections; flags: compressed instructions, double precision.
    for v in [BASE + PAGE, 64, 0] {
        f.extend(v.to_le_bytes());
    }
    f.extend(5u32.to_le_bytes());
    for v in [64u16, 56, 2, 64, 0, 0] {
        f.extend(v.to_le_bytes());
    }
    for (flags, at, len) in [(5u32, PAGE, bytes), (6, PAGE + bytes, PAGE)] {
        f.extend(1u32.to_le_bytes());
        f.extend(flags.to_le_bytes());
        for v in [at, BASE + at, BASE + at, len, len, PAGE] {
            f.extend(v.to_le_bytes());
        }
    }
    f.resize(PAGE as usize, 0);
    let words = (bytes / 4) as usize - begin.len() - END.len();
    let body = std::iter::repeat_n(NOP, words);
    for word in begin.into_iter().chain(body).chain(END) {
        f.extend(word.to_le_bytes());
    }
    // So that builds of different sizes have different content on every page.
    f.extend((0..PAGE).map(|i| (i as u32 ^ kib) as u8));
    f
}

/// A program as it is measured.
struct Measured {
    name: String,
    text_kib: u64,
}

/// Runs the command.
pub fn command(a: &Off2fArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = a.plot.as_deref().map(Picture::create).transpose()?;
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    let files = dir.path().join("files");
    fs::create_dir(&files).context("cannot make a temporary directory")?;
    let mut programs = Vec::new();
    for &kib in &a.sizes {
        if kib % 4 != 0 {
            bail!("--sizes {kib}: expected a multiple of 4 KiB");
        }
        programs.push(add(&files, format!("nops-{kib}"), &nops(kib, a.passes))?);
    }
    for path in &a.program {
        let name = path.file_name().and_then(|n| n.to_str());
        let name = name.with_context(|| format!("{} is not the name of a file", path.display()))?;
        // It becomes a word of a script.
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b))
        {
            bail!("--program {name}: letters, digits and ._-+ only");
        }
        let elf = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        programs.push(add(&files, name.to_string(), &elf)?);
    }
    let disk = dir.path().join("disk");
    make_disk(&files, &disk)?;
    let methods: Vec<Method> = Method::ALL
        .into_iter()
        .filter(|m| a.methods.is_empty() || a.methods.contains(m))
        .collect();
    let rows = measure(a, &disk, &programs, &methods, messages)?;
    if let Some(picture) = picture {
        let bytes = plot(picture.format(), &rows, &methods)?;
        picture.finish(&bytes, messages)?;
    }
    if a.json {
        output::print_json(&Value::Array(rows))?;
        return Ok(SUCCESS);
    }
    let mut t = table([
        "program",
        "text KiB",
        "method",
        "format",
        "exec to exit us",
        "page faults",
        "KiB read",
        "NVMM fetches",
    ]);
    for r in &rows {
        let number = |key: &str| r[key].as_u64().unwrap_or_default();
        let word = |key: &str| r[key].as_str().unwrap_or_default().to_string();
        let us = grouped(number("exec_to_exit_ns") / 1000);
        row(
            &mut t,
            [
                word("program"),
                number("text_kib").to_string(),
                word("method"),
                word("format"),
                us,
                number("page_faults").to_string(),
                (number("bytes_read") / 1024).to_string(),
                grouped(number("nvmm_fetches")),
            ],
        );
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}

/// The plot of the programs that do nothing.
fn plot(format: Format, rows: &[Value], methods: &[Method]) -> anyhow::Result<Vec<u8>> {
    let word = |r: &Value, key: &str| r[key].as_str().unwrap_or_default().to_string();
    let mut points: Vec<off2f_plot::Point> = rows
        .iter()
        .filter(|r| word(r, "program").starts_with("nops-"))
        .filter_map(|r| {
            let kib = r["text_kib"].as_f64()?;
            let ms = r["exec_to_exit_ns"].as_f64()? / 1e6;
            Some((word(r, "method"), word(r, "format"), kib, ms))
        })
        .collect();
    points.sort_by(|a, b| a.2.total_cmp(&b.2));
    let methods: Vec<&str> = methods.iter().map(|m| m.name()).collect();
    off2f_plot::draw(format, &methods, &FORMATS.map(|f| f.0), &points)
}

/// Puts a program into the directory for the disk, in both formats.
fn add(dir: &Path, name: String, elf: &[u8]) -> anyhow::Result<Measured> {
    let pair = split(elf).with_context(|| name.clone())?;
    let header = nagori_off2f::read_off2(&pair.off2)?;
    for (ending, bytes) in [("", elf), (".off2", &pair.off2), (".text", &pair.text)] {
        let path = dir.join(format!("{name}{ending}"));
        let failed = || format!("cannot write {}", path.display());
        fs::write(&path, bytes).with_context(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).with_context(failed)?;
    }
    let text_kib = header.text_pages * nagori_off2f::PAGE / 1024;
    Ok(Measured { name, text_kib })
}

/// An ext4 file system with the files of a directory.
fn make_disk(files: &Path, disk: &Path) -> anyhow::Result<()> {
    let mut bytes = 0;
    for entry in fs::read_dir(files)?.flatten() {
        bytes += entry.metadata()?.len();
    }
    let mib = bytes / (1 << 20) + 16;
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let made = Command::new("mke2fs")
        .env("PATH", path)
        .args(["-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-d"])
        .args([files, disk])
        .arg(format!("{mib}M"))
        .output()
        .context("cannot run mke2fs (of the package e2fsprogs)")?;
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        bail!("mke2fs has failed: {}", why.trim());
    }
    Ok(())
}

/// What the guest runs.
fn script(programs: &[Measured], methods: &[Method]) -> String {
    let mut s = String::from(
        "dmesg -n 1\n\
         fail() { echo \"bench: $1\"; exit 1; }\n\
         mkdir -p /mnt/disk /mnt/dax\n\
         dd if=/dev/vda of=/dev/pmem0 bs=1M 2>/dev/null || fail 'no NVMM'\n\
         mount -t ext4 -o ro /dev/vda /mnt/disk || fail 'no disk'\n\
         mount -t ext4 -o dax=always /dev/pmem0 /mnt/dax || fail 'no DAX'\n\
         off2f format || fail 'no text store'\n",
    );
    for p in programs {
        s += &format!("off2f put /mnt/disk/{}.text || fail 'put'\n", p.name);
    }
    let largest = programs.iter().max_by_key(|p| p.text_kib);
    for m in methods {
        // The kernel reports each page of 4 KiB of DAX that is unmapped (docs/nvmm.md), 60 of them a minute. The reports
        // would be measured, so they are used up before.
        for _ in 0..if largest.is_some() { 10 } else { 0 } {
            let name = largest.map_or("", |p| &p.name);
            s += &format!("/mnt/dax/{name} >/dev/null\n");
        }
        s += &format!("nagori-ctl method {m} >/dev/null || fail method\n");
        for p in programs {
            for (format, dir, ending) in FORMATS {
                s += &format!(
                    "bench-exec {}:{format} {dir}{}{ending} || fail '{} {format}'\n",
                    p.name, p.name, p.name
                );
            }
        }
    }
    s
}

/// Boots once, and measures everything.
fn measure(
    a: &Off2fArgs,
    disk: &Path,
    programs: &[Measured],
    methods: &[Method],
    messages: &Messages,
) -> anyhow::Result<Vec<Value>> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut c = Command::new(this);
    c.args([
        "--quiet",
        "boot",
        "--functional",
        "--append",
        "quiet",
        "--nvmm",
        "pmem-region",
    ])
    .args(["--machine", &a.machine.machine])
    .args(["--set", "memory.text_store=\"128 MiB\""])
    .arg("--disk")
    .arg(format!("{},ro", disk.display()))
    .args(["--run", &script(programs, methods)]);
    for s in &a.machine.choice().set {
        c.args(["--set", s]);
    }
    if let Some(dir) = &a.cache.cache {
        c.arg("--cache").arg(dir);
    }
    messages.note("booting, and measuring in the guest");
    let out = c
        .stdin(Stdio::null())
        .output()
        .context("cannot run `nagori boot`")?;
    let console = String::from_utf8_lossy(&out.stdout);
    if !out.status.success() {
        let errors = String::from_utf8_lossy(&out.stderr);
        let from = console.find("nagori: init").unwrap_or(0);
        bail!(
            "the guest has failed: {}{}",
            &console[from..].trim(),
            errors.trim()
        );
    }
    let rows: Option<Vec<Value>> = console
        .lines()
        .filter_map(|l| l.trim_end().strip_prefix("exec "))
        .map(|l| result(l, programs))
        .collect();
    let rows = rows.context("the guest has printed a row that cannot be read")?;
    let expected = programs.len() * methods.len() * FORMATS.len();
    if rows.len() != expected {
        bail!("the guest has printed {} rows, not {expected}", rows.len());
    }
    Ok(rows)
}

/// A row of the guest's.
fn result(line: &str, programs: &[Measured]) -> Option<Value> {
    let field = |name: &str| {
        let mut words = line.split(' ');
        words.find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let (name, format) = field("label")?.split_once(':')?;
    let program = programs.iter().find(|p| p.name == name)?;
    Some(json!({
        "program": name,
        "text_kib": program.text_kib,
        "format": format,
        "method": field("method")?,
        "exec_to_exit_ns": number("ns")?,
        "page_faults": number("faults")?,
        "bytes_read": number("bytes")?,
        "nvmm_fetches": number("nvmm")?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_nops_can_be_split() {
        for kib in [4, 32, 8192] {
            let elf = nops(kib, 1);
            let pair = split(&elf).unwrap();
            let h = nagori_off2f::read_off2(&pair.off2).unwrap();
            assert_eq!(h.text_pages * 4, u64::from(kib));
            assert_eq!(h.cut_pages, h.text_pages);
            assert_eq!(nagori_off2f::join(&pair.off2, &pair.text).unwrap(), elf);
        }
    }

    #[test]
    fn rows_of_the_guest() {
        let programs = [Measured {
            name: "a".into(),
            text_kib: 32,
        }];
        let line = "label=a:off2f method=fine ns=12 faults=3 bytes=0 nvmm=9";
        let v = result(line, &programs).unwrap();
        assert_eq!(
            (v["text_kib"].as_u64(), v["exec_to_exit_ns"].as_u64()),
            (Some(32), Some(12))
        );
        assert_eq!(
            (v["format"].as_str(), v["nvmm_fetches"].as_u64()),
            (Some("off2f"), Some(9))
        );
        for bad in [
            "",
            "label=b:off2f method=fine ns=1 faults=3 bytes=0 nvmm=9",
            "label=a:x method=dram ns=- faults=0",
        ] {
            assert!(result(bad, &programs).is_none(), "{bad}");
        }
    }
}
