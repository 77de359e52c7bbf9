//! Devices with something of the host behind them: options, slots, connections.
//!
//! An option takes the next slot of its kind in the machine's description; where there is none,
//! one is added. So the description (and with it the device tree and snapshots) knows what kinds
//! of devices there are, and the options alone know what is behind them.

mod disk;
mod net;
mod share;

use crate::args::MachineArgs;
use crate::drive::{BoxedService, Outside};
use crate::output::Messages;
use clap::Args;
pub use disk::DiskArg;
use disk::Disks;
use nagori_hart::world::Observer;
use nagori_platform::config::{slot_names, Machine as Description, SlotConfig, SlotKind};
use nagori_platform::machine::Machine;
use nagori_platform::snapshot::Meta;
use net::NetArg;
use share::ShareArg;

/// What of the host is behind the machine's devices.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Devices")]
pub struct DeviceArgs {
    /// Put in a disk: a raw file, such as an image of a file system.
    ///
    /// The guest sees /dev/vda, then /dev/vdb, ... Writes go into the file, unless `ro` is given
    /// (they are errors), or an overlay: a file that takes the writes and is made if it is not
    /// there, or `temp`, which is thrown away at the end. A file that is written belongs to one
    /// machine at a time.
    #[arg(long, value_name = "FILE[,ro][,overlay=FILE|temp]", value_parser = DiskArg::parse)]
    pub disk: Vec<DiskArg>,

    /// Share a folder: the guest may read it, with `rw` write it, too.
    ///
    /// The guest sees it as a 9p file system of this tag (share0, share1, ... where none is
    /// given); our init mounts it at /mnt/TAG. Nothing outside the folder can be reached by it: symbolic links are
    /// followed by the guest, in its own tree. All files belong to the guest's root.
    #[arg(long, value_name = "DIR[:TAG][,rw]", value_parser = ShareArg::parse)]
    pub share: Vec<ShareArg>,

    /// Network interface, and what it is connected to.
    ///
    /// user[,hostfwd=PROTOCOL:HOST:PORT-GUEST:PORT][,restrict]: a network of its own behind
    /// address translation; no root needed. tap=NAME: an interface of the host. listen=PATH and
    /// connect=PATH: a wire to another machine. Each may be followed by ,mac=ADDRESS.
    #[arg(long, value_name = "LINK")]
    pub net: Vec<NetArg>,
}

impl DeviceArgs {
    /// The slots that the options take, kind by kind.
    fn wanted(&self) -> [(SlotKind, usize); 2] {
        [
            (SlotKind::Block, self.disk.len()),
            (SlotKind::Net, self.net.len()),
        ]
    }

    /// The machine's description with the command line's changes and a slot for every option;
    /// `more` are settings of other options.
    pub fn resolve(&self, machine: &MachineArgs, more: &[String]) -> anyhow::Result<Description> {
        let description = machine.resolve(more)?;
        let mut slots = description.config.devices.clone();
        for (kind, wanted) in self.wanted() {
            let there = slots.iter().filter(|s| s.kind == kind).count();
            slots.extend((there..wanted).map(|_| SlotConfig::new(kind)));
        }
        share::assign(&self.share, &mut slots)?;
        if slots == description.config.devices {
            return Ok(description);
        }
        let list: Vec<String> = slots.iter().map(|s| format!("\"{s}\"")).collect();
        let mut settings = more.to_vec();
        settings.push(format!("devices=[{}]", list.join(", ")));
        machine.resolve(&settings)
    }

    /// Tags of the shares in a description that [`DeviceArgs::resolve`] has made, and whether they may
    /// be written.
    pub fn tags(&self, description: &Description) -> anyhow::Result<Vec<(String, bool)>> {
        let mut slots = description.config.devices.clone();
        let taken = share::assign(&self.share, &mut slots)?;
        let names = slot_names(&slots);
        let pairs = self.share.iter().zip(taken);
        Ok(pairs.map(|(s, n)| (names[n].clone(), s.writable)).collect())
    }

    /// An error if a disk is missing that a snapshot's guest has; it tells which.
    pub fn check_noted(&self, meta: &Meta) -> anyhow::Result<()> {
        disk::check_noted(&self.disk, meta)
    }

    /// Connects what the options name, to a machine that was just built or restored. The services
    /// take part in its run.
    pub fn connect<'a, O: Observer>(
        &self,
        machine: &mut Machine<O>,
        messages: &'a Messages,
    ) -> anyhow::Result<Vec<BoxedService<'a, O>>> {
        let mut services: Vec<BoxedService<'a, O>> = Vec::new();
        let slots = slots_of(machine, SlotKind::Block);
        if let Some(disks) = Disks::connect(&self.disk, &slots, machine, messages)? {
            services.push(Box::new(disks));
        }
        share::connect(&self.share, machine, messages)?;
        if !self.net.is_empty() {
            let mut outside = Outside::default();
            for (arg, slot) in self.net.iter().zip(slots_of(machine, SlotKind::Net)) {
                net::connect(machine, slot, arg, &mut outside, messages)?;
            }
            services.push(Box::new(outside));
        }
        Ok(services)
    }
}

/// Notes for a snapshot what of the host a machine has.
pub fn note<O: Observer>(machine: &mut Machine<O>, meta: &mut Meta) {
    let slots = slots_of(machine, SlotKind::Block);
    disk::note(machine, &slots, meta);
}

/// The slots of a kind, in order.
fn slots_of<O: Observer>(machine: &Machine<O>, kind: SlotKind) -> Vec<usize> {
    let slots = machine.config().devices.iter().enumerate();
    slots
        .filter(|(_, s)| s.kind == kind)
        .map(|(n, _)| n)
        .collect()
}
