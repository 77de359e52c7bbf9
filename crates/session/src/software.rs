//! The software that a machine boots: kernel, firmware, initial root file system, placed in memory.

use crate::error::{Context, Error, Result};
use nagori_config::Machine as Description;
use nagori_image::GuestImage;
use nagori_machine::Machine;
use nagori_platform::bus::Bus;
use nagori_platform::loader::{self, FileData, LinuxFiles, Plan, RamRange, Role};
use nagori_platform::tree;
use nagori_ram::GuestRam;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the kernel's messages go.
const CONSOLE: &str = "console=ttyS0";
/// The script that our init runs instead of a shell.
const RUN_SCRIPT: &str = "etc/nagori/run";
/// The first disk, as the guest's kernel names it.
pub const ROOT_DISK: &str = "/dev/vda";
/// Hart that starts the kernel.
const BOOT_HART: u32 = 0;
/// The smallest memory.
const PAGE: u64 = 4096;

/// A file given by the user, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// No file.
    None,
    /// This file.
    File(PathBuf),
}

impl Part {
    /// Parses `none` or the name of a file; a file named `none` is given as `./none`.
    pub fn parse(text: &str) -> Result<Part, String> {
        match text {
            "" => Err("the name of a file is missing".into()),
            "none" => Ok(Part::None),
            file => Ok(Part::File(file.into())),
        }
    }
}

/// A kernel's file, and the load address of a raw one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFile {
    /// The file.
    pub file: PathBuf,
    /// The address.
    pub at: Option<u64>,
}

impl KernelFile {
    /// Parses `FILE` or `FILE@ADDRESS`; a file whose own name has this form takes precedence.
    pub fn parse(text: &str) -> Result<KernelFile, String> {
        let whole = KernelFile {
            file: text.into(),
            at: None,
        };
        let Some((file, addr)) = text.rsplit_once('@') else {
            return Ok(whole);
        };
        let digits = addr.strip_prefix("0x").or(addr.strip_prefix("0X"));
        let Some(digits) = digits.filter(|_| !whole.file.exists()) else {
            return Ok(whole);
        };
        match u64::from_str_radix(&digits.replace('_', ""), 16) {
            Ok(at) if !file.is_empty() => Ok(KernelFile {
                file: file.into(),
                at: Some(at),
            }),
            _ => Err(format!(
                "`{addr}` is no address: expected FILE@0xADDRESS, such as u-boot.bin@0x80200000"
            )),
        }
    }
}

/// Kernel arguments that keep the kernel's own work off the last hart as far as possible (load
/// balancing and RCU callbacks; ticks remain). `None` for a machine of one hart.
pub fn isolation(harts: u32) -> Option<String> {
    let last = harts.checked_sub(1).filter(|n| *n > 0)?;
    Some(format!("isolcpus={last} rcu_nocbs={last}"))
}

/// A shell command on that hart alone.
pub fn on_hart(hart: u32, command: &str) -> String {
    format!(
        "taskset -p {:x} $$ >/dev/null || exit 125\n{command}",
        1u64 << hart
    )
}

/// What to boot; files that are not given are those of the guest image.
#[derive(Debug, Clone, Default)]
pub struct Software {
    /// Kernel.
    pub kernel: Option<KernelFile>,
    /// Initial root file system.
    pub initrd: Option<Part>,
    /// Firmware.
    pub firmware: Option<Part>,
    /// Files to put into memory besides, with their addresses.
    pub load: Vec<KernelFile>,
    /// More kernel arguments.
    pub append: Option<String>,
    /// Whether these are the only kernel arguments.
    pub append_only: bool,
    /// A shell command to run.
    pub run: Option<String>,
}

impl Software {
    /// Whether a system starts that asks for input when it is ready, and throws away what comes before: it has a root
    /// file system, and no command to run.
    pub fn prompts(&self) -> bool {
        let arguments = self.append.as_deref().unwrap_or_default();
        let has = |name: &str| arguments.split_whitespace().any(|a| a.starts_with(name));
        let root = has("root=") || has("nagori.root=");
        root && self.run.is_none() && !has("nagori.run=") && !has("nagori.agent=")
    }
}

/// Reads and places all files.
pub fn plan(
    description: &Description,
    software: &Software,
    image: Option<&GuestImage>,
) -> Result<Plan> {
    let read = |role, given: Option<&Path>, ours: fn(&GuestImage) -> &Path| {
        let path = given.or(image.map(ours));
        let path = path.ok_or_else(|| Error::Request(format!("no {role} is given")))?;
        Ok::<_, Error>(FileData::read(role, path)?)
    };
    let part = |role, given: &Option<Part>, ours: fn(&GuestImage) -> &Path| match given {
        Some(Part::None) => Ok(None),
        Some(Part::File(path)) => read(role, Some(path), ours).map(Some),
        None => read(role, None, ours).map(Some),
    };
    let given = software.kernel.as_ref();
    let kernel = read(Role::Kernel, given.map(|k| &*k.file), |i| &i.kernel)?;
    let firmware = part(Role::Firmware, &software.firmware, |i| &i.firmware)?;
    let mut initramfs = part(Role::Initramfs, &software.initrd, |i| &i.initrd)?;
    if let Some(command) = &software.run {
        let Some(initramfs) = &mut initramfs else {
            return Err(Error::Request(
                "--run puts its command into the initial root file system, and there is none \
                (--initrd none)"
                    .into(),
            ));
        };
        add_script(initramfs, command)?;
    }
    let fast = image.map(|i| i.manifest.fast_boot_args.as_str());
    let before = [Some(CONSOLE), fast].map(|a| a.filter(|_| !software.append_only));
    let arguments: Vec<&str> = before
        .into_iter()
        .chain([software.append.as_deref()])
        .flatten()
        .collect();
    let memory = &description.config.memory;
    let ram = RamRange {
        start: memory.base,
        end: memory.nvmm_base(),
    };
    let files = LinuxFiles {
        firmware,
        kernel,
        kernel_at: given.and_then(|k| k.at),
        initramfs,
        bootargs: Some(arguments.join(" ")),
        boot_hart: BOOT_HART,
        reserved: memory.firmware_reserve.0,
    };
    let bus = bus(description)?;
    let config = &description.config;
    let mut plan = loader::plan_linux(&files, ram, |boot| tree::blob(config, &bus, boot))?;
    for data in &software.load {
        let what = data.file.display();
        let at = data.at.ok_or_else(|| {
            Error::Request(format!(
                "--load {what}: where? expected FILE@0xADDRESS, such as keys.bin@0x801ff000"
            ))
        })?;
        plan.add_data(ram, FileData::read(Role::Data, &data.file)?, at)?;
    }
    Ok(plan)
}

/// The release of the Linux kernel in a plan, as the kernel tells it, if there is one.
pub fn kernel_release(plan: &Plan) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let kernel = plan.segments.iter().find(|s| s.role == Role::Kernel)?;
    let mut rest = kernel.bytes.as_slice();
    loop {
        let at = rest.windows(BANNER.len()).position(|w| w == BANNER)?;
        rest = &rest[at + BANNER.len()..];
        let end = rest.iter().take(64).position(|b| *b == b' ');
        let release = end.and_then(|n| std::str::from_utf8(&rest[..n]).ok());
        if let Some(r) = release.filter(|r| r.starts_with(|c: char| c.is_ascii_digit())) {
            return Some(r.to_owned());
        }
    }
}

/// The machine's bus with all devices, from which the device tree is made.
pub fn bus(description: &Description) -> Result<Bus> {
    // Devices need some memory to be attached to; they are not used here.
    let ram = GuestRam::new(PAGE)?;
    nagori_platform::assembly::build(&description.config, ram.into())
        .context("the machine cannot be built")
}

/// Appends an archive with a script to an initial root file system.
fn add_script(initramfs: &mut FileData, command: &str) -> Result<()> {
    if command.trim().is_empty() {
        return Err(Error::Request("--run: the command is empty".into()));
    }
    let script = format!("#!/bin/busybox sh\n{command}\n");
    let files = [(RUN_SCRIPT, 0o755, script.as_bytes())];
    let archive = nagori_image::overlay_cpio(&files)?;
    // Archives that follow one another start at multiples of four bytes.
    let aligned = initramfs.bytes.len().next_multiple_of(4);
    initramfs.bytes.resize(aligned, 0);
    initramfs.bytes.extend(archive);
    Ok(())
}

/// Loads the software into memory and sets the harts to its entry; `again`: over what a guest has
/// left.
pub fn load(machine: &mut Machine, plan: &Plan, again: bool) -> Result<()> {
    let base = machine.config().memory.base;
    plan.apply(machine.ram(), base)?;
    for s in &plan.segments {
        let filled = s.bytes.len() as u64;
        // New memory is zero; after a restart it contains what the guest has left.
        if again && s.memory_size > filled {
            let from = s.addr - base + filled;
            machine.ram().fill(from, s.memory_size - filled, 0)?;
        }
        machine.memory_written(s.addr, s.memory_size);
    }
    let e = plan.entry;
    machine.start_at(e.pc, e.a1, e.a2);
    Ok(())
}

/// As [`load`], and a restart loads it again; `tohost` is the address by which a bare-metal program ends.
pub fn install(machine: &mut Machine, plan: Plan, timed: bool, tohost: Option<u64>) -> Result<()> {
    load(machine, &plan, false)?;
    machine.set_software(Some(Arc::new(loader::Software {
        plan,
        timed,
        tohost,
    })));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_kernels_are_read() {
        let read = |t: &str| KernelFile::parse(t).map(|k| (k.file.display().to_string(), k.at));
        assert_eq!(read("Image"), Ok(("Image".into(), None)));
        assert_eq!(
            read("a@b/u-boot.bin@0x8020_0000"),
            Ok(("a@b/u-boot.bin".into(), Some(0x8020_0000)))
        );
        assert_eq!(read("a@host"), Ok(("a@host".into(), None)));
        assert!(read("a@0xyz").unwrap_err().contains("no address"));
        assert!(read("@0x80000000").is_err());
        assert_eq!(Part::parse("none"), Ok(Part::None));
        assert_eq!(Part::parse("./none"), Ok(Part::File("./none".into())));
        assert!(Part::parse("").is_err());
    }

    #[test]
    fn a_hart_of_its_own() {
        assert_eq!(isolation(1), None);
        assert_eq!(isolation(4).unwrap(), "isolcpus=3 rcu_nocbs=3");
        let script = on_hart(3, "echo a");
        assert!(script.starts_with("taskset -p 8 $$") && script.ends_with("\necho a"));
    }
}
