//! `nagori boot`: Linux.

use crate::args::{concat_examples, DeviceArgs, RunArgs};
use crate::console;
use crate::guest::{self, Attended};
use anyhow::Context;
use clap::{Args, ValueEnum};
use nagori_platform::loader::Symbols;
use nagori_session::devices::DiskSpec;
use nagori_session::software::{self, isolation, on_hart, KernelFile, Part, Software, ROOT_DISK};
use nagori_session::{image, rtc, Caller, Job};
use nagori_terminal::args::{CacheArgs, MachineArgs, ModulesArgs};
use nagori_terminal::output::{Exit, Messages};

const BOOT_EXAMPLES: &str = "\
Examples:
  nagori boot
      Debian's kernel and a shell; end it with `exit` or Ctrl-A x
  nagori boot --run 'bench-locality --op read --method fine' --stats table
      Run one command in the guest, print what it did to the memory, exit with its code
  nagori boot --isolate --run 'bench-board --methods coarse'
      The figures of `nagori bench board`: the last hart belongs to the benchmark alone
  nagori boot --rootfs
      Debian with systemd, from packages: log in as root
  nagori boot --rootfs run --run 'seq 100000 | xz -9 | wc -c'
      One command in a smaller one, without systemd
  nagori boot --nvmm pmem-region --set memory.nvmm_boundary='\"2 GiB\"'
      2 GiB of DRAM; the rest is /dev/pmem0 in the guest
  nagori boot --disk data.img --disk tools.img,ro --disk root.img,overlay=temp
      Three disks: written, only read, and written without a trace
  nagori boot --share results:out,rw --share src --run 'cp /mnt/share0/* /mnt/out'
      Two folders of the host, one of them writable
  nagori boot --kernel Image --initrd root.cpio.gz --append 'loglevel=8'
      A kernel of your own, with Debian's firmware
  nagori boot --kernel u-boot.bin@0x80200000 --initrd none --disk disk.img
      U-Boot, or another system that firmware starts at an address; see docs/guests.md
  nagori boot --firmware none --kernel kernel.elf --initrd none --append-only
      A system that starts in machine mode, such as xv6

Keys in the console:
  Ctrl-A x  end the machine        Ctrl-A s  show statistics
  Ctrl-A h  show these keys        Ctrl-A a  send Ctrl-A to the guest
Everything else, Ctrl-C included, goes to the guest; with --run, Ctrl-C ends the machine, and
Ctrl-A c sends it to the guest. Where input or output is not a terminal, input is passed on when
the guest listens or polls, its end to who listens as Ctrl-D, and Ctrl-C ends the run.

Time:
  From reset to the first shell about 1 s without the timing model, 4 s with it, on one hart;
  then as for `nagori run` (docs/speed.md).";

/// Boot Linux, with a console in this terminal.
///
/// Boots Debian's kernel with a small root file system (built on first use, see `nagori image`),
/// or your own files, under OpenSBI. The boot is functional, that is without the timing model;
/// programs in the guest switch it on for what they measure, or --timed does for the whole run.
#[derive(Debug, Args)]
#[command(after_long_help = concat_examples(BOOT_EXAMPLES))]
pub struct BootArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Kernel, or other software for the firmware to start [default: Debian's]
    ///
    /// A riscv64 Image, also compressed with gzip or as an EFI zboot image; a static ELF; U-Boot's uImage or
    /// FIT image; or any file with the address where it is loaded and starts.
    #[arg(long, value_name = "FILE[@ADDRESS]", value_parser = KernelFile::parse, help_heading = "Software")]
    pub kernel: Option<KernelFile>,
    /// Initial root file system: a cpio archive, or `none` [default: ours, with busybox and benchmarks]
    #[arg(long, value_name = "FILE|none", value_parser = Part::parse, help_heading = "Software")]
    pub initrd: Option<Part>,
    /// OpenSBI's fw_dynamic.bin, or an ELF; with `none` the kernel starts in machine mode [default: Debian's]
    #[arg(long, value_name = "FILE|none", value_parser = Part::parse, help_heading = "Software")]
    pub firmware: Option<Part>,
    /// Put a file into memory at an address, for software that expects something there; can be given again.
    #[arg(long, value_name = "FILE@ADDRESS", value_parser = KernelFile::parse, help_heading = "Software")]
    pub load: Vec<KernelFile>,
    /// Added to the kernel's command line.
    #[arg(
        long,
        value_name = "STRING",
        help_heading = "Software",
        allow_hyphen_values = true
    )]
    pub append: Option<String>,
    /// Put nothing else on the kernel's command line, neither the console nor the options that make Debian's
    /// kernel boot fast.
    #[arg(long, help_heading = "Software")]
    pub append_only: bool,
    /// Shell command to run in the guest instead of a shell.
    ///
    /// It is put into the initial root file system as /etc/nagori/run; the machine is switched
    /// off when it ends, and its exit status is that of `nagori boot`.
    #[arg(long, value_name = "COMMAND", help_heading = "Software")]
    pub run: Option<String>,
    /// Keep the last hart for the command of --run, as `nagori bench board` does.
    ///
    /// The kernel is told to keep its load balancing and RCU callbacks off that hart (isolcpus, rcu_nocbs), and
    /// the command runs there. Without it the benchmarks share their hart with the kernel's upkeep and are some
    /// percent slower. Without --run, programs get there by `taskset`.
    #[arg(long, help_heading = "Software")]
    pub isolate: bool,
    /// Debian as the root file system, on a disk whose changes are thrown away at the end.
    ///
    /// Which one: `run` or `system` (see `nagori image build --help`), the start of a key of
    /// `nagori image list`, or the file of an ext4 image. `system` boots systemd to a login (root,
    /// no password); with --run the command is run in the root file system, without systemd. It is
    /// /dev/vda; the disks of --disk follow.
    #[arg(long, value_name = "NAME|FILE", num_args = 0..=1, default_missing_value = "system",
          help_heading = "Software")]
    pub rootfs: Option<String>,
    /// How the guest's kernel sees NVMM [default: as the machine's description says].
    #[arg(long, value_name = "HOW", help_heading = "Machine")]
    pub nvmm: Option<Expose>,
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub modules: ModulesArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[command(flatten)]
    pub run_args: RunArgs,
}

/// How the guest's kernel sees NVMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Expose {
    /// In no node of the device tree; programs map it through /dev/mem.
    Hidden,
    /// As a `pmem-region` node, which makes it /dev/pmem0.
    PmemRegion,
    /// As memory of a NUMA node without processors, which the kernel uses like any other.
    NumaNode,
}

impl Expose {
    /// What it changes in a machine's description.
    pub fn setting(self) -> String {
        let how = match self {
            Expose::Hidden => "hidden",
            Expose::PmemRegion => "pmem-region",
            Expose::NumaNode => "numa-node",
        };
        format!("memory.expose={how}")
    }
}

/// Runs the command.
pub fn command(a: &BootArgs, messages: &Messages) -> anyhow::Result<Exit> {
    a.run_args.check_outputs()?;
    let software = prepare(a, messages)?;
    let console = console::Options {
        interactive: true,
        interrupt: a.run.is_some(),
    };
    let attended = Attended {
        args: &a.run_args,
        console,
        program: None,
        symbols: Symbols::default(),
        devices: &software.devices,
    };
    guest::execute(&software.description, software.job, attended, messages)
}

/// What is booted, on its machine.
pub fn prepare(a: &BootArgs, caller: &dyn Caller) -> anyhow::Result<guest::Software> {
    let mut settings = Vec::new();
    if let Some(how) = a.nvmm {
        settings.push(how.setting());
    }
    settings.extend(a.run_args.settings());
    settings.extend(a.run_args.clock());
    settings.extend(a.run_args.nvmm.settings(&a.machine.set));
    let mut devices = a.devices.devices();
    let mut append = a.append.clone();
    let mut root = None;
    if let Some(name) = &a.rootfs {
        let file = image::rootfs::find(&a.cache.options()?, name, caller)?;
        root = Some(file.clone());
        devices.disks.insert(0, DiskSpec::rootfs(file));
        // The first is for our init, the others for Debian's own initial root file system.
        let ours = match a.initrd {
            None => format!("nagori.root={ROOT_DISK}"),
            Some(_) => format!("root={ROOT_DISK} rw"),
        };
        if !a.append_only {
            append = Some(match append {
                Some(given) => format!("{ours} {given}"),
                None => ours,
            });
        }
    }
    let description = devices.resolve(&a.machine.choice(), &settings)?;
    let mut run = a.run.clone();
    if a.isolate {
        let harts = description.config.harts;
        let arguments = isolation(harts)
            .context("--isolate: the machine has one hart, and the kernel needs one for itself")?;
        append = Some(match append {
            Some(given) => format!("{arguments} {given}"),
            None => arguments,
        });
        run = run.map(|command| on_hart(harts - 1, &command));
    }
    let software = Software {
        kernel: a.kernel.clone(),
        initrd: a.initrd.clone(),
        firmware: a.firmware.clone(),
        load: a.load.clone(),
        append,
        append_only: a.append_only,
        run,
    };
    let complete = a.kernel.is_some() && a.initrd.is_some() && a.firmware.is_some();
    let cached = if complete {
        None
    } else {
        Some(image::build(&a.cache.options_with(&a.modules)?, caller)?)
    };
    let description = rtc::of_image(description, cached.as_ref(), root.as_deref())?;
    let plan = software::plan(&description, &software, cached.as_ref())?;
    plan.warnings.iter().for_each(|w| caller.warning(w));
    if let (Some(_), Some(_), None, Some(image)) = (&root, &a.kernel, &a.initrd, &cached) {
        let ours = &image.manifest.kernel_release;
        let release = software::kernel_release(&plan).unwrap_or_else(|| "another one".into());
        if release != *ours {
            caller.note(&format!(
                "the kernel is {release}, the modules of the initial root file system are those of {ours}: \
                 ext4, virtio_mmio and virtio_blk have to be built into the kernel, or come with --initrd"
            ));
        }
    }
    let job = Job {
        timed: a.run_args.timed,
        send_end: true,
        prompted: software.prompts(),
        ..guest::job(plan, &a.run_args)
    };
    Ok(guest::Software {
        description,
        job,
        devices,
    })
}
