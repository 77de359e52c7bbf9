//! `nagori bench speed`: how fast this program emulates, on the host's clock.

use super::capture::Capture;
use crate::args::{RunArgs, SpeedArgs};
use crate::boot::{self, Software};
use crate::guest::{self, End, Job};
use crate::output::{self, Exit, Messages, SUCCESS};
use crate::{console, image, tables};
use anyhow::{bail, Context};
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../guest/speed/", $name)))),*]
    };
}

/// The programs' sources, part of this program.
const SOURCES: &[(&str, &str)] = sources![
    "start.S",
    "speed.h",
    "link.ld",
    "integer.c",
    "chase.c",
    "stream.c",
    "copy.c",
    "matrix.c",
    "sort.c",
    "dispatch.c",
];

/// Workloads in the order of rows, without the boot.
const WORKLOADS: [&str; 7] = [
    "integer", "chase", "stream", "copy", "matrix", "sort", "dispatch",
];
/// The boot of Linux to its first command.
const BOOT: &str = "linux-boot";

const COMPILER: &str = "riscv64-linux-gnu-gcc";
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-march=rv64gc",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-pic",
    "-no-pie",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-fno-tree-vectorize",
    "-nostdlib",
    "-static",
    "-Wl,--build-id=none",
    "-Wl,--no-warn-rwx-segments",
    "-Wl,-T,link.ld",
];

const QEMU: &str = "qemu-system-riscv64";
/// Length of the programs with --quick, in percent.
const QUICK: u32 = 10;

/// One result; the form of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which program.
    pub workload: String,
    /// `functional` or `timed`.
    pub mode: &'static str,
    /// What ran it.
    pub engine: &'static str,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Processor time of the host, user and system, in seconds.
    pub cpu_seconds: f64,
    /// Million instructions per second of processor time.
    pub mips: f64,
}

impl Row {
    fn new(workload: &str, mode: &'static str, engine: &'static str, n: u64, cpu: f64) -> Row {
        Row {
            workload: workload.into(),
            mode,
            engine,
            instructions: n,
            cpu_seconds: cpu,
            mips: n as f64 / 1e6 / cpu,
        }
    }
}

/// Processor time so far, in seconds: of this process, and of its children that have ended.
fn cpu_times() -> anyhow::Result<(f64, f64)> {
    /// What the kernel counts in, on every architecture.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    parse_times(&stat)
        .map(|(own, children)| {
            (
                own as f64 / TICKS_PER_SECOND,
                children as f64 / TICKS_PER_SECOND,
            )
        })
        .context("/proc/self/stat has not the expected form")
}

/// The ticks in a line of /proc/PID/stat.
fn parse_times(stat: &str) -> Option<(u64, u64)> {
    // The name before may hold anything, spaces and parentheses too.
    let (_, fields) = stat.rsplit_once(") ")?;
    // The first is field 3; utime, stime, cutime, cstime are 14 to 17.
    let fields: Vec<u64> = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map_while(|f| f.parse().ok())
        .collect();
    match fields[..] {
        [user, system, children, children_system] => {
            Some((user + system, children + children_system))
        }
        _ => None,
    }
}

/// A directory that goes when it is dropped.
struct Work(PathBuf);

impl Work {
    fn new() -> anyhow::Result<Work> {
        let dir = std::env::temp_dir().join(format!("nagori-speed-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Work(dir))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is left behind is a few kilobytes in the place for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compiles a workload; its ELF's path.
fn compile(work: &Path, name: &str, scale: u32) -> anyhow::Result<PathBuf> {
    let out = work.join(format!("{name}.elf"));
    let run = Command::new(COMPILER)
        .current_dir(work)
        .args(FLAGS)
        .arg(format!("-DSCALE={scale}"))
        .args(["start.S", &format!("{name}.c"), "-o"])
        .arg(&out)
        .output();
    let run = run.with_context(|| {
        format!("cannot run {COMPILER}: install gcc-riscv64-linux-gnu, which compiles the programs")
    })?;
    if !run.status.success() {
        bail!(
            "{COMPILER} does not compile {name}.c:\n{}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
    Ok(out)
}

/// Runs the command.
pub fn command(a: &SpeedArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&[])?;
    let wanted = |name: &str| a.only.is_empty() || a.only.iter().any(|n| n == name);
    if let Some(bad) = a
        .only
        .iter()
        .find(|n| *n != BOOT && !WORKLOADS.contains(&n.as_str()))
    {
        bail!(
            "there is no workload `{bad}`: expected {} or {BOOT}",
            WORKLOADS.join(", ")
        );
    }
    let work = Work::new()?;
    for (name, text) in SOURCES {
        let path = work.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let scale = if a.quick { QUICK } else { 100 };
    let mut rows = Vec::new();
    for name in WORKLOADS.into_iter().filter(|n| wanted(n)) {
        messages.note(&format!("running {name}"));
        let elf = compile(&work.0, name, scale)?;
        let mut counted = 0;
        for (mode, timed) in [("functional", false), ("timed", true)] {
            let plan = program(&description, &elf)?;
            let (n, cpu) = measure(&description, plan, timed)?;
            rows.push(Row::new(name, mode, "interpreter", n, cpu));
            if !timed {
                counted = n;
            }
        }
        if a.qemu {
            let cpu = qemu(&elf)?;
            rows.push(Row::new(name, "functional", "qemu", counted, cpu));
        }
    }
    // The boot takes its time whatever the scale; it is left out of a quick run.
    if wanted(BOOT) && (!a.quick || !a.only.is_empty()) {
        let image = image::build(&image::options(&a.cache)?, messages)?;
        messages.note("booting Linux");
        let software = Software {
            run: Some("true".into()),
            ..Software::default()
        };
        let plan = boot::plan(&description, &software, Some(&image))?;
        let (n, cpu) = measure(&description, plan, false)?;
        rows.push(Row::new(BOOT, "functional", "interpreter", n, cpu));
    }
    match a.json {
        true => output::print_json(&json!(rows))?,
        false => output::print(&text(&rows))?,
    }
    Ok(SUCCESS)
}

/// A bare-metal program's plan.
fn program(description: &Description, elf: &Path) -> anyhow::Result<Plan> {
    let memory = &description.config.memory;
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, elf)?;
    Ok(loader::load_elf(&file, range)?.plan)
}

/// Instructions, and seconds of processor time, of a run that must end well.
fn measure(description: &Description, plan: Plan, timed: bool) -> anyhow::Result<(u64, f64)> {
    let args = RunArgs::default();
    let job = Job {
        plan,
        symbols: Default::default(),
        tohost: None,
        timed,
        console: console::Options {
            interactive: false,
            send_end: false,
        },
        args: &args,
    };
    let before = cpu_times()?.0;
    let (end, report) = guest::measure(description, &job, &mut Capture::new(|_| ()))?;
    let cpu = cpu_times()?.0 - before;
    if end != End::Off(0) {
        bail!("the guest failed: {}", end.describe());
    }
    // A tick is the least that can be told.
    Ok((report.instructions, cpu.max(0.01)))
}

/// Seconds of processor time that QEMU takes for a program.
fn qemu(elf: &Path) -> anyhow::Result<f64> {
    let before = cpu_times()?.1;
    let status = Command::new(QEMU)
        .args(["-machine", "virt", "-bios", "none", "-m", "256M"])
        .args(["-display", "none", "-serial", "none", "-monitor", "none"])
        .arg("-kernel")
        .arg(elf)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {QEMU}: install qemu-system-misc, or leave --qemu"))?;
    if !status.success() {
        bail!("{QEMU} failed: {status}");
    }
    Ok((cpu_times()?.1 - before).max(0.01))
}

/// The table.
fn text(rows: &[Row]) -> String {
    let compared = rows.iter().any(|r| r.engine == "qemu");
    let mut head = vec![
        "workload",
        "mode",
        "engine",
        "instructions",
        "cpu [s]",
        "MIPS",
    ];
    if compared {
        head.push("of QEMU");
    }
    let mut t = tables::table(head);
    for r in rows {
        let mut cells = vec![
            r.workload.clone(),
            r.mode.into(),
            r.engine.into(),
            tables::grouped(r.instructions),
            format!("{:.2}", r.cpu_seconds),
            format!("{:.1}", r.mips),
        ];
        if compared {
            let other = rows
                .iter()
                .find(|q| q.engine == "qemu" && q.workload == r.workload);
            cells.push(match other {
                Some(q) => format!("{:.3}", r.mips / q.mips),
                None => "-".into(),
            });
        }
        tables::row(&mut t, cells);
    }
    tables::text(&t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_read() {
        let line = "12 (a) b) (c) R 1 2 3 4 5 6 7 8 9 10 111 22 30 4 20 0 1\n";
        assert_eq!(parse_times(line), Some((133, 34)));
        assert_eq!(parse_times("12 (a) R 1 2 3"), None);
        assert_eq!(parse_times(""), None);
        let (before, _) = cpu_times().unwrap();
        let mut x = 1u64;
        while cpu_times().unwrap().0 < before + 0.05 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
    }

    #[test]
    fn a_table_with_and_without_qemu() {
        let mut rows = vec![
            Row::new("sort", "functional", "interpreter", 150_000_000, 1.0),
            Row::new("sort", "timed", "interpreter", 150_000_000, 3.0),
        ];
        let plain = text(&rows);
        assert!(plain.contains("150 000 000"), "{plain}");
        assert!(
            plain.contains("150.0") && plain.contains("50.0") && !plain.contains("QEMU"),
            "{plain}"
        );
        rows.push(Row::new("sort", "functional", "qemu", 150_000_000, 0.25));
        let both = text(&rows);
        assert!(
            both.contains("0.250") && both.contains("0.083") && both.contains("1.000"),
            "{both}"
        );
    }

    #[test]
    fn all_workloads_have_sources() {
        for name in WORKLOADS {
            let file = format!("{name}.c");
            assert!(SOURCES.iter().any(|s| s.0 == file), "{name}");
        }
    }
}
