//! `nagori bare`: bare-metal programs.

use crate::args::BareArgs;
use crate::console;
use crate::guest::{self, Job};
use crate::output::{Exit, Messages};
use anyhow::{bail, Context};
use nagori_platform::bus::Bus;
use nagori_platform::config::Machine as Description;
use nagori_platform::loader::{self, FileData, RamRange, Role};
use nagori_platform::tree::{self, BootInfo};
use nagori_ram::GuestRam;

/// The smallest memory.
const PAGE: u64 = 4096;

/// Runs the command.
pub fn command(a: &BareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&a.run_args.settings())?;
    let memory = &description.config.memory;
    // NVMM, too, may be loaded.
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, &a.program)?;
    let mut elf = loader::load_elf(&file, range)?;
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
    if let Some(addr) = elf.tohost {
        let inside = addr >= range.start && addr <= range.end - 8;
        if !inside {
            bail!(
                "{}: its symbol `tohost` is at {addr:#x}, outside the memory {:#x}..{:#x}",
                file.path,
                range.start,
                range.end
            );
        }
    }
    let job = Job {
        plan: elf.plan,
        symbols: elf.symbols,
        tohost: elf.tohost,
        timed: !a.run_args.functional,
        console: console::Options {
            interactive: false,
            send_end: false,
        },
        args: &a.run_args,
        devices: None,
    };
    guest::execute(&description, job, messages)
}

/// The machine's bus with all devices, to make the device tree from.
pub fn bus(description: &Description) -> anyhow::Result<Bus> {
    // Devices need some memory to be attached to; they do not run here.
    let ram = GuestRam::new(PAGE)?;
    nagori_platform::board::build(&description.config, ram.into())
        .context("the machine cannot be built")
}
