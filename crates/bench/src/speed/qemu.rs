//! The benchmark's programs, and its boot, in the packaged QEMU.

use super::host;
use anyhow::{bail, Context};
use nagori_image::GuestImage;
use std::path::Path;
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-riscv64";
/// One hart of the machine `virt`; QEMU's other machines have other devices.
const MACHINE: &[&str] = &[
    "-machine", "virt", "-accel", "tcg", "-smp", "1", "-m", "1G", "-display", "none", "-monitor",
    "none", "-serial", "stdio",
];

/// Its version, in its own words.
pub fn version() -> anyhow::Result<String> {
    let out = Command::new(QEMU).arg("--version").output();
    let out = out
        .with_context(|| format!("cannot run {QEMU}: install qemu-system-misc, or leave --qemu"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

/// Runs a machine to its end; the lines it printed and the processor time in seconds.
fn run(command: &mut Command) -> anyhow::Result<(Vec<String>, f64)> {
    let before = host::child_time()?;
    let out = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {QEMU}"))?;
    let cpu = (host::child_time()? - before).max(host::LEAST);
    if !out.status.success() {
        bail!(
            "{QEMU} failed ({}): {}",
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let lines = text.lines().map(|l| l.trim_end().to_string()).collect();
    Ok((lines, cpu))
}

/// Runs a bare-metal program.
pub fn program(elf: &Path) -> anyhow::Result<(Vec<String>, f64)> {
    let mut c = Command::new(QEMU);
    run(c.args(MACHINE).args(["-bios", "none", "-kernel"]).arg(elf))
}

/// Boots Linux from the guest image with some arguments.
pub fn boot(image: &GuestImage, arguments: &str) -> anyhow::Result<f64> {
    let mut c = Command::new(QEMU);
    c.args(MACHINE).arg("-bios").arg(&image.firmware);
    c.arg("-kernel").arg(&image.kernel);
    c.arg("-initrd").arg(&image.initrd);
    c.args(["-append", arguments]);
    let (lines, cpu) = run(&mut c)?;
    if !lines.iter().any(|l| l == "nagori: exit 0") {
        let last = lines.last().map_or("nothing", |l| l.as_str());
        bail!("Linux in {QEMU} did not reach its shell; what it printed last: {last}");
    }
    Ok(cpu)
}
