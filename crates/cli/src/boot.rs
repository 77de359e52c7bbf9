//! `nagori boot`: Linux.

use crate::args::{BootArgs, Expose};
use crate::console;
use crate::devices::DiskArg;
use crate::guest::{self, Job};
use crate::image;
use crate::output::{Exit, Messages};
use anyhow::{bail, Context};
use nagori_image::GuestImage;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, FileData, LinuxFiles, Plan, RamRange, Role};
use nagori_platform::tree;
use std::path::{Path, PathBuf};

/// Where the kernel's messages go.
const CONSOLE: &str = "console=ttyS0";
/// The script that our init runs instead of a shell.
const RUN_SCRIPT: &str = "etc/nagori/run";
/// The first disk, as the guest's kernel names it.
const ROOT_DISK: &str = "/dev/vda";
/// Hart that starts the kernel.
const BOOT_HART: u32 = 0;

/// Runs the command.
pub fn command(a: &BootArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let mut settings = Vec::new();
    if let Some(how) = a.nvmm {
        let how = match how {
            Expose::Hidden => "hidden",
            Expose::PmemRegion => "pmem-region",
            Expose::NumaNode => "numa-node",
        };
        settings.push(format!("memory.expose={how}"));
    }
    settings.extend(a.run_args.settings());
    let mut devices = a.devices.clone();
    let mut append = a.append.clone();
    if let Some(name) = &a.rootfs {
        let file = image::rootfs::find(&image::options(&a.cache)?, name, messages)?;
        devices.disk.insert(0, DiskArg::temporary(file));
        // The first is for our init, the others for an initial root file system of Debian's.
        let ours = match a.initrd {
            None => format!("nagori.root={ROOT_DISK}"),
            Some(_) => format!("root={ROOT_DISK} rw"),
        };
        append = Some(match append {
            Some(given) => format!("{ours} {given}"),
            None => ours,
        });
    }
    let description = devices.resolve(&a.machine, &settings)?;
    let software = Software {
        kernel: a.kernel.clone(),
        initrd: a.initrd.clone(),
        firmware: a.firmware.clone(),
        append,
        run: a.run.clone(),
    };
    let complete = a.kernel.is_some() && a.initrd.is_some() && a.firmware.is_some();
    let cached = match complete {
        true => None,
        false => Some(image::build(&image::options(&a.cache)?, messages)?),
    };
    let job = Job {
        plan: plan(&description, &software, cached.as_ref())?,
        symbols: Default::default(),
        tohost: None,
        timed: a.run_args.timed,
        console: console::Options {
            interactive: true,
            send_end: true,
        },
        args: &a.run_args,
        devices: Some(&devices),
    };
    guest::execute(&description, job, messages)
}

/// What to boot; files that are not given are those of the guest image.
#[derive(Debug, Clone, Default)]
pub struct Software {
    /// Kernel.
    pub kernel: Option<PathBuf>,
    /// Initial root file system.
    pub initrd: Option<PathBuf>,
    /// Firmware.
    pub firmware: Option<PathBuf>,
    /// More kernel arguments.
    pub append: Option<String>,
    /// A shell command to run.
    pub run: Option<String>,
}

/// Reads and places all files.
pub fn plan(
    description: &Description,
    software: &Software,
    image: Option<&GuestImage>,
) -> anyhow::Result<Plan> {
    let pick = |given: &Option<PathBuf>, ours: fn(&GuestImage) -> &Path| match given {
        Some(path) => Some(path.clone()),
        None => image.map(|i| ours(i).to_path_buf()),
    };
    let read = |role, path: Option<PathBuf>| -> anyhow::Result<FileData> {
        let path = path.with_context(|| format!("no {role} is given"))?;
        Ok(FileData::read(role, &path)?)
    };
    let kernel = read(Role::Kernel, pick(&software.kernel, |i| &i.kernel))?;
    let firmware = read(Role::Firmware, pick(&software.firmware, |i| &i.firmware))?;
    let mut initramfs = read(Role::Initramfs, pick(&software.initrd, |i| &i.initrd))?;
    if let Some(command) = &software.run {
        add_script(&mut initramfs, command)?;
    }
    let fast = image.map(|i| i.manifest.fast_boot_args.as_str());
    let arguments: Vec<&str> = [Some(CONSOLE), fast, software.append.as_deref()]
        .into_iter()
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
        initramfs: Some(initramfs),
        bootargs: Some(arguments.join(" ")),
        boot_hart: BOOT_HART,
    };
    let bus = crate::bare::bus(description)?;
    let config = &description.config;
    Ok(loader::plan_linux(&files, ram, |boot| {
        tree::blob(config, &bus, boot)
    })?)
}

/// Appends an archive with a script to an initial root file system.
fn add_script(initramfs: &mut FileData, command: &str) -> anyhow::Result<()> {
    if command.trim().is_empty() {
        bail!("--run: the command is empty");
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
