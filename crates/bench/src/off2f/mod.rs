//! `nagori bench off2f`: programs from a disk, from DAX, and with their text executed in place.

mod guest;
mod measured;

use anyhow::{bail, Context};
use clap::Args;
use guest::{rows, start, texts, Plan, Start, USED_UP};
use measured::{Format, Measured, Real, State, BOARD, REAL};
use nagori_memtime::Method;
use nagori_off2f::split;
use nagori_plot::{Axis, Chart, Mark, Panel, Point, Series};
use nagori_session::image;
use nagori_terminal::again;
use nagori_terminal::args::{CacheArgs, MachineArgs};
use nagori_terminal::numbers::count;
use nagori_terminal::output::{self, Exit, Messages, SUCCESS};
use nagori_terminal::plot::{LookArgs, Picture};
use nagori_terminal::tables::{grouped, row, table, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  nagori bench off2f --disk-latency ssd
      The first table of docs/off2f.md
  nagori bench off2f --disk-latency hdd --sizes 32,64,96,128 --methods extended
  nagori bench off2f --program ./sort --json
  nagori bench off2f --sizes 128 --memory-model board,pcm,xpoint --real sqlite3,python3
  nagori bench off2f --sizes 128 --passes 1,4,16,64 --states cold

Programs whose text is N KiB of instructions that do nothing, those of --program (static ones,
which end by themselves with code 0), and Debian's own of --real, each run with nothing of them in
the kernel's cache: the ELF file on a virtio disk (elf-disk), on ext4 with DAX on NVMM (elf-dax),
and as PROG.off2 on that disk with its text in the text store (off2f); their libraries in the same
format. `cold`: after the kernel has dropped its caches. `reset`: after a soft reset of the machine,
which NVMM and the text store survive. Needs mke2fs.

Time:
  The default, 288 starts, about 4 minutes, on one core. Starts after a reset boot before: 10
  sizes with `--states cold,reset --repeat 5` take over 15 minutes.";

/// Measure from exec to exit what executing a program's text in place on NVMM saves.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Off2fArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// KiB of text of the programs that do nothing, separated by commas; multiples of 4.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count::<u32>(4..=16384),
          default_values_t = [32, 64, 96, 128, 1024, 2048, 4096, 8192])]
    pub sizes: Vec<u32>,
    /// How often these programs go through their text, and how many times as long the jobs of --real are; several
    /// numbers, separated by commas, show from where on text on NVMM costs more than reading it from the disk once.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count::<u32>(1..=2047),
          default_values_t = [1])]
    pub passes: Vec<u32>,
    /// One more program: a static executable for riscv64. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub program: Vec<PathBuf>,
    /// Delay methods, separated by commas [default: all four].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = nagori_terminal::args::method)]
    pub methods: Vec<Method>,
    /// What NVMM is made of, separated by commas: `board` (the board's controller, with its delay methods), or memory
    /// models (as for `nagori mem show`), for which there are no methods and no counts of fetches [default: board].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub memory_model: Vec<String>,
    /// Programs of Debian's with short jobs, separated by commas: busybox, sqlite3, python3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = real)]
    pub real: Vec<Real>,
    /// States of the guest in which a program starts, separated by commas: cold, reset. Each start after a reset boots
    /// the guest first.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = state, default_value = "cold")]
    pub states: Vec<State>,
    /// Starts of each program in each state; the one with the median of the times is reported.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count::<u32>(1..=1000))]
    pub repeat: u32,
    /// A list of {program, passes, text_kib, memory, state, format, method, exec_to_exit_ns, fastest_ns, slowest_ns,
    /// starts, page_faults, bytes_read, nvmm_fetches, break_even_passes}.
    #[arg(long)]
    pub json: bool,
    /// Draw the programs that do nothing into a file; the name ends in .svg, .png, .pdf or .vl.json (Vega-Lite).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}

fn real(text: &str) -> Result<Real, String> {
    let names = REAL.map(|r| r.name).join(", ");
    let found = REAL.into_iter().find(|r| r.name == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

fn state(text: &str) -> Result<State, String> {
    State::named(text).ok_or_else(|| "expected cold or reset".into())
}

/// A static ELF file whose text is `kib` KiB: nops, `passes` times (at most 2047), then exit(0). A page of data
/// follows.
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

/// Runs the command.
pub fn command(a: &Off2fArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let picture = Picture::wanted(a.plot.as_deref(), &a.look)?;
    let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
    let files = dir.path().join("files");
    fs::create_dir(&files).context("cannot make a temporary directory")?;
    let mut programs = Vec::new();
    for &kib in &a.sizes {
        if kib % 4 != 0 {
            bail!("--sizes {kib}: expected a multiple of 4 KiB");
        }
        for &passes in &a.passes {
            let name = format!("nops-{kib}");
            programs.push(add(&files, name, &nops(kib, passes), passes)?);
        }
    }
    add(&files, USED_UP.into(), &nops(1024, 1), 1)?;
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
        programs.push(add(&files, name.to_string(), &elf, 1)?);
    }
    for r in &a.real {
        programs.extend(a.passes.iter().map(|&passes| Measured {
            name: r.name.into(),
            real: Some(*r),
            passes,
        }));
    }
    let disk = dir.path().join("disk");
    let methods: Vec<Method> = Method::ALL
        .into_iter()
        .filter(|m| a.methods.is_empty() || a.methods.contains(m))
        .collect();
    let board = [BOARD.to_string()];
    let memories = match a.memory_model.as_slice() {
        [] => &board,
        some => some,
    };
    let mut rows = Vec::new();
    for memory in memories {
        let plan = Plan {
            programs: &programs,
            methods: if memory == BOARD {
                &methods
            } else {
                &[Method::Dram]
            },
            states: &a.states,
            repeat: a.repeat,
        };
        // The guest adds to it.
        make_disk(&files, &disk, !a.real.is_empty())?;
        rows.extend(measure(a, &disk, &plan, memory, messages)?);
    }
    if let Some(picture) = picture {
        picture.draw(&plot(&rows, &methods), messages)?;
    }
    if a.json {
        output::print_json(&Value::Array(rows))?;
        return Ok(SUCCESS);
    }
    let mut t = table([
        "program",
        "text KiB",
        "passes",
        "memory",
        "method",
        "state",
        "format",
        "exec to exit us",
        "from",
        "to",
        "page faults",
        "KiB read",
        "NVMM fetches",
        "break-even",
    ]);
    for r in &rows {
        let number = |key: &str| r[key].as_u64().unwrap_or_default();
        let word = |key: &str| r[key].as_str().unwrap_or_default().to_string();
        let us = |key: &str| grouped(number(key) / 1000);
        row(
            &mut t,
            [
                word("program"),
                number("text_kib").to_string(),
                number("passes").to_string(),
                word("memory"),
                word("method"),
                word("state"),
                word("format"),
                us("exec_to_exit_ns"),
                us("fastest_ns"),
                us("slowest_ns"),
                number("page_faults").to_string(),
                (number("bytes_read") / 1024).to_string(),
                r["nvmm_fetches"].as_u64().map_or("-".into(), grouped),
                r["break_even_passes"]
                    .as_f64()
                    .map_or("-".into(), |n| format!("{n:.1} passes")),
            ],
        );
    }
    output::print(&text(&t))?;
    Ok(SUCCESS)
}

/// The plot of the programs that do nothing, started cold, with the first memory.
fn plot(rows: &[Value], methods: &[Method]) -> Chart {
    let word = |r: &Value, key: &str| r[key].as_str().unwrap_or_default().to_string();
    let wanted = |r: &&Value| {
        let like = |k: &&str| r[k] == rows[0][k];
        word(r, "program").starts_with("nops-") && ["memory", "state", "passes"].iter().all(like)
    };
    let panel = |m: &Method| {
        let series = Format::ALL.map(|f| {
            let of = { rows.iter().filter(wanted) }
                .filter(|r| word(r, "method") == m.name() && word(r, "format") == f.name());
            let points = of.filter_map(|r| {
                let ms = r["exec_to_exit_ns"].as_f64()? / 1e6;
                (ms > 0.0).then_some(Point::new(r["text_kib"].as_f64()?, ms))
            });
            Series::new(f.name(), Mark::Line).with(points)
        });
        let axes = (
            Axis::new("text", "KiB").log(),
            Axis::new("exec to exit", "ms").log(),
        );
        Panel::new(m.name(), axes, series.into())
    };
    Chart {
        title: "Programs of different length in three formats".into(),
        panels: methods.iter().map(panel).collect(),
        ..Chart::default()
    }
}

/// Puts a program into the directory for the disk, in both formats.
fn add(dir: &Path, name: String, elf: &[u8], passes: u32) -> anyhow::Result<Measured> {
    let pair = split(elf).with_context(|| name.clone())?;
    let program = Measured {
        name,
        real: None,
        passes,
    };
    for (ending, bytes) in [("", elf), (".off2", &pair.off2), (".text", &pair.text)] {
        let path = dir.join(program.file() + ending);
        let failed = || format!("cannot write {}", path.display());
        fs::write(&path, bytes).with_context(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).with_context(failed)?;
    }
    Ok(program)
}

/// A new ext4 file system with the files of a directory; with room for those of Debian's programs if the guest is to
/// add them.
fn make_disk(files: &Path, disk: &Path, room: bool) -> anyhow::Result<()> {
    let mut bytes = 0;
    for entry in fs::read_dir(files)?.flatten() {
        bytes += entry.metadata()?.len();
    }
    let mib = bytes / (1 << 20) + if room { 128 } else { 16 };
    if disk.exists() {
        fs::remove_file(disk).context("cannot remove a temporary file")?;
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let made = Command::new("mke2fs")
        .env("PATH", path)
        .args(["-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal"])
        .args(["-E", "lazy_itable_init=0", "-d"])
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

/// Boots once, and measures everything with one memory.
fn measure(
    a: &Off2fArgs,
    disk: &Path,
    plan: &Plan,
    memory: &str,
    messages: &Messages,
) -> anyhow::Result<Vec<Value>> {
    let mut c = again::command()?;
    c.args([
        "--quiet",
        "boot",
        "--functional",
        "--append",
        "quiet",
        "--nvmm",
        "pmem-region",
        "--modules",
        "off2f",
    ])
    .args(["--machine", &a.machine.machine])
    .args(["--set", "memory.text_store=\"128 MiB\""])
    .arg("--disk")
    .arg(disk)
    .args(["--run", &plan.script()]);
    if !a.real.is_empty() {
        let root = image::rootfs::find(&a.cache.options()?, "run", messages)?;
        c.arg("--disk").arg(format!("{},ro", root.display()));
    }
    if memory != BOARD {
        c.args(["--set", &format!("memory.regions.nvmm.model={memory}")]);
    }
    for s in &a.machine.choice().set {
        c.args(["--set", s]);
    }
    a.cache.pass_to(&mut c);
    messages.note(&format!(
        "booting, and measuring in the guest (memory: {memory})"
    ));
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
    let starts: Vec<Start> = console
        .lines()
        .filter_map(|l| start(l.trim_end().strip_prefix("exec ")?))
        .collect();
    if starts.len() != plan.rows() {
        bail!(
            "the guest has printed {} rows, not {}",
            starts.len(),
            plan.rows()
        );
    }
    Ok(rows(plan, &starts, &texts(&console), memory))
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
}
