//! `nagori bare`: bare-metal programs.

use crate::args::BareArgs;
use crate::console;
use crate::guest::{self, Job};
use crate::output::{Exit, Messages};
use anyhow::{bail, Context};
use nagori_platform::bus::Bus;
use nagori_platform::config::{Machine as Description, MachineConfig};
use nagori_platform::loader::{self, FileData, Plan, RamRange, Role, Segment};
use nagori_platform::tree::{self, BootInfo};
use nagori_ram::GuestRam;

/// The device tree starts on a page.
const PAGE: u64 = 4096;

/// Runs the command.
pub fn command(a: &BareArgs, messages: &Messages) -> anyhow::Result<Exit> {
    let description = a.machine.resolve(&[])?;
    let memory = &description.config.memory;
    // NVMM, too, may be loaded.
    let range = RamRange {
        start: memory.base,
        end: memory.end(),
    };
    let file = FileData::read(Role::Program, &a.program)?;
    let mut elf = loader::load_elf(&file, range)?;
    place_tree(&description, &mut elf.plan)?;
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
    };
    guest::execute(&description, job, messages)
}

/// Adds the device tree to a plan: at the end of DRAM, where programs are least.
fn place_tree(description: &Description, plan: &mut Plan) -> anyhow::Result<()> {
    let config = &description.config;
    let blob = tree::blob(config, &bus(description)?, &BootInfo::default())?;
    let room = (blob.len() as u64).next_multiple_of(PAGE);
    let addr = tree_address(config, room)?;
    if let Some(s) = plan
        .segments
        .iter()
        .find(|s| s.addr < addr + room && s.addr + s.memory_size > addr)
    {
        bail!(
            "the program's segment at {:#x} leaves no room for the device tree at {addr:#x}..{:#x}, the end of DRAM",
            s.addr,
            addr + room
        );
    }
    plan.segments.push(Segment {
        role: Role::DeviceTree,
        addr,
        bytes: blob,
        memory_size: room,
    });
    plan.segments.sort_by_key(|s| s.addr);
    plan.entry.a1 = addr;
    Ok(())
}

fn tree_address(config: &MachineConfig, room: u64) -> anyhow::Result<u64> {
    let m = &config.memory;
    let end = m.nvmm_base();
    if end - m.base < room {
        bail!(
            "the machine `{}` has {} bytes of DRAM, too few for its device tree of {room} bytes; raise memory.nvmm_boundary",
            config.name,
            end - m.base
        );
    }
    Ok(end - room)
}

/// The machine's bus with all devices, to make the device tree from.
pub fn bus(description: &Description) -> anyhow::Result<Bus> {
    // Devices need some memory to be attached to; they do not run here.
    let ram = GuestRam::new(PAGE)?;
    nagori_platform::board::build(&description.config, ram.into())
        .context("the machine cannot be built")
}
