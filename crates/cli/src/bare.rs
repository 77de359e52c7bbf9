//! `nagori bare`: bare-metal programs.

use crate::args::{concat_examples, DeviceArgs, RunArgs};
use crate::console;
use crate::guest::{self, Attended, Software};
use anyhow::{anyhow, bail, ensure, Context};
use clap::Args;
use nagori_platform::loader::{
    self, Agreed as Places, FileData, LoadError, RamRange, Role, Symbols,
};
use nagori_platform::tree::{self, BootInfo};
use nagori_session::drive::{htif::Words, SignatureFile};
use nagori_session::guest::Agreed;
use nagori_session::software::bus;
use nagori_session::{program, Caller, Job};
use nagori_terminal::args::MachineArgs;
use nagori_terminal::numbers::in_units;
use nagori_terminal::output::{Exit, Messages};
use std::path::PathBuf;

const BARE_EXAMPLES: &str = "\
Examples:
  nagori bare hello.elf
  nagori bare --method extended --stats table pointer-chase.elf
  nagori bare --functional --max-instructions 10000000 selftest.elf
  nagori bare --trace exec --trace irq --trace-file trace.txt broken.elf
  nagori bare --functional --disk fs.img kernel.elf
  nagori bare --signature add.sig --signature-granularity 4 add.elf

The program is a static riscv64 ELF linked to addresses in memory (0x80000000 on). Every hart
starts at its entry in M mode with its number in a0 and the address of a device tree in a1. It
ends the machine by writing to the test device at 0x100000 (0x5555: code 0; code << 16 | 0x3333),
or, if it has a symbol `tohost`, by writing 1 (code 0) or code << 1 | 1 there. Through `tohost`
and `fromhost` (HTIF) it may also read and write the console, by characters or by system calls.

Time:
  A second of the host has 30 to 1000 million timed instructions (few where most of them miss),
  50 to 3800 million with --functional (docs/speed.md).";

/// Run a bare-metal program.
///
/// Loads a static ELF, runs it without firmware, prints its console output, and exits with its
/// code. The timing model is on unless --functional is given.
#[derive(Debug, Args)]
#[command(after_long_help = concat_examples(BARE_EXAMPLES))]
pub struct BareArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The program: a static riscv64 ELF.
    #[arg(value_name = "ELF")]
    pub program: PathBuf,
    /// When the program has ended, write the memory from its symbol `begin_signature` to
    /// `end_signature`: a line of hexadecimal digits for every 16 bytes, as Spike does.
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Bytes in a line of the signature.
    #[arg(long, value_name = "BYTES", default_value_t = 16, requires = "signature",
          value_parser = granularity)]
    pub signature_granularity: u32,
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub run_args: RunArgs,
}

/// Parses the bytes of a signature's line.
fn granularity(text: &str) -> Result<u32, String> {
    let bytes = in_units::<u32>("B", 1..=64)(text).ok();
    let fine = bytes.filter(|b| b.is_power_of_two());
    fine.ok_or_else(|| "expected 1, 2, 4, 8, 16, 32 or 64".into())
}

/// Runs the command.
pub fn command(a: &BareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let (software, symbols) = prepare(a, messages)?;
    let console = console::Options {
        interactive: false,
        interrupt: false,
    };
    let attended = Attended {
        args: &a.run_args,
        console,
        program: Some(a.program.display().to_string()),
        symbols,
        devices: &software.devices,
    };
    guest::execute(&software.description, software.job, attended, messages)
}

/// The program on its machine, and the names of its addresses.
pub fn prepare(a: &BareArgs, caller: &dyn Caller) -> anyhow::Result<(Software, Symbols)> {
    let mut settings = a.run_args.settings();
    settings.extend(a.run_args.clock());
    settings.extend(a.run_args.nvmm.settings(&a.machine.set));
    let devices = a.devices.devices();
    let description = devices.resolve(&a.machine.choice(), &settings)?;
    let memory = &description.config.memory;
    // A program may also be loaded to NVMM.
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, &a.program)?;
    let mut elf = loader::load_elf(&file, range).map_err(|e| explain(e, &file))?;
    let tree = tree::blob(
        &description.config,
        &bus(&description)?,
        &BootInfo::default(),
    )?;
    let dram = RamRange {
        end: memory.nvmm_base(),
        ..range
    };
    elf.plan.add_tree(dram, tree)?;
    elf.plan.warnings.iter().for_each(|w| caller.warning(w));
    let htif = agreed(a, &elf.agreed, range)
        .with_context(|| format!("{} does not agree with the host", file.path))?;
    let job = Job {
        htif,
        timed: !a.run_args.functional,
        ..guest::job(elf.plan, &a.run_args)
    };
    let software = Software {
        description,
        job,
        devices,
    };
    Ok((software, elf.symbols))
}

/// The addresses that a program gives by its symbols, all of them inside memory.
fn agreed(a: &BareArgs, symbols: &Places, memory: RamRange) -> anyhow::Result<Agreed> {
    let inside = |name: &str, addr: u64, len: u64| {
        let end = addr.saturating_add(len);
        ensure!(
            addr >= memory.start && end <= memory.end,
            "its symbol `{name}` is at {addr:#x}, outside the memory {:#x}..{:#x}",
            memory.start,
            memory.end
        );
        Ok(())
    };
    let mut agreed = Agreed::default();
    if let Some(tohost) = symbols.tohost {
        inside("tohost", tohost, 8)?;
        if let Some(fromhost) = symbols.fromhost {
            inside("fromhost", fromhost, 8)?;
        }
        agreed.words = Some(Words {
            tohost,
            fromhost: symbols.fromhost,
        });
    }
    if let Some(file) = &a.signature {
        let (Some(start), Some(end)) = (symbols.begin_signature, symbols.end_signature) else {
            bail!("--signature: it has no symbols `begin_signature` and `end_signature`");
        };
        ensure!(
            start <= end,
            "--signature: its symbol `end_signature` ({end:#x}) is before `begin_signature` ({start:#x})"
        );
        inside("begin_signature", start, end - start)?;
        agreed.signature = Some(SignatureFile {
            start,
            end,
            granularity: a.signature_granularity as usize,
            file: file.clone(),
        });
    }
    Ok(agreed)
}

/// Says what kind of program it is instead, if that is known.
fn explain(e: LoadError, file: &FileData) -> anyhow::Error {
    const LINUX: &str = "a program for Linux is run by `nagori run -- PROGRAM`";
    match e {
        // Programs for Linux are linked to low addresses.
        LoadError::Space {
            path,
            start,
            end,
            ram_start,
            ram_end,
            ..
        } if start < ram_start => anyhow!(
            "{path} is linked to {start:#x}..{end:#x}, and the machine's memory is {ram_start:#x}..{ram_end:#x}: link \
                a bare-metal program to addresses there; {LINUX}"
        ),
        e if program::is_dynamic(&file.bytes) => anyhow::Error::from(e).context(format!(
            "{} is not for a bare machine: {LINUX}",
            file.path
        )),
        e => e.into(),
    }
}
