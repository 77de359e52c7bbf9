//! `nagori bare`: bare-metal programs.

use crate::args::BareArgs;
use crate::console;
use crate::drive::htif::Words;
use crate::drive::SignatureFile;
use crate::guest::{self, Agreed, Job};
use crate::output::{Exit, Messages};
use crate::run;
use anyhow::{anyhow, bail, ensure, Context};
use nagori_platform::bus::Bus;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, Agreed as Symbols, FileData, LoadError, RamRange, Role};
use nagori_platform::tree::{self, BootInfo};
use nagori_ram::GuestRam;

/// The smallest memory.
const PAGE: u64 = 4096;

/// Runs the command.
pub fn command(a: &BareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let mut settings = a.run_args.settings();
    settings.extend(a.run_args.clock());
    let description = a.devices.resolve(&a.machine, &settings)?;
    let memory = &description.config.memory;
    // NVMM, too, may be loaded.
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
    elf.plan.warnings.iter().for_each(|w| messages.warning(w));
    let htif = agreed(a, &elf.agreed, range)
        .with_context(|| format!("{} does not agree with the host", file.path))?;
    let job = Job {
        plan: elf.plan,
        symbols: elf.symbols,
        htif,
        timed: !a.run_args.functional,
        console: console::Options {
            interactive: false,
            interrupt: false,
            send_end: false,
        },
        args: &a.run_args,
        devices: Some(&a.devices),
    };
    guest::execute(&description, job, messages)
}

/// What a program has agreed on by its symbols, all of it inside memory.
fn agreed(a: &BareArgs, symbols: &Symbols, memory: RamRange) -> anyhow::Result<Agreed> {
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

/// Says what a program is for that is not for here, if that can be told.
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
            "{path} is linked to {start:#x}..{end:#x}, and the machine's memory is {ram_start:#x}..{ram_end:#x}: link a bare-metal program to addresses there; {LINUX}"
        ),
        e if run::is_dynamic(&file.bytes) => anyhow::Error::from(e).context(format!(
            "{} is not for a bare machine: {LINUX}",
            file.path
        )),
        e => e.into(),
    }
}

/// The machine's bus with all devices, to make the device tree from.
pub fn bus(description: &Description) -> anyhow::Result<Bus> {
    // Devices need some memory to be attached to; they do not run here.
    let ram = GuestRam::new(PAGE)?;
    nagori_platform::board::build(&description.config, ram.into())
        .context("the machine cannot be built")
}
