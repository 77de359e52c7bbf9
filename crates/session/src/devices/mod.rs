//! Devices with host resources: requests, slots, connections.
//!
//! Each requested resource takes the next slot of its kind in the machine's description; if there
//! is none, one is added. So the description (and with it the device tree and snapshots) contains
//! the kinds of devices, and [`Devices`] alone knows the resources behind them.

mod net;
mod peer;
mod share;

use crate::caller::Caller;
use crate::choice::{fill, MachineChoice};
pub use crate::disks::DiskSpec;
use crate::disks::{self, slots_of, Disks};
use crate::drive::{BoxedService, Outside};
use crate::error::Result;
use nagori_config::{slot_names, Machine as Description, SlotKind};
pub use nagori_disk::Writes;
use nagori_machine::Machine;
use nagori_snapshot::Meta;
pub use net::{Cable, NetSpec};
pub use peer::PeerSpec;
pub use share::ShareSpec;

/// The host resources behind the machine's devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    /// Disks: the guest sees /dev/vda, then /dev/vdb, ...
    pub disks: Vec<DiskSpec>,
    /// Folders, as 9p file systems.
    pub shares: Vec<ShareSpec>,
    /// Network interfaces.
    pub nets: Vec<NetSpec>,
}

impl Devices {
    /// The machine's description with a slot for every requested resource; `more` are further
    /// settings.
    pub fn resolve(&self, machine: &MachineChoice, more: &[String]) -> Result<Description> {
        machine.resolve_with(more, |slots| {
            fill(slots, SlotKind::Block, self.disks.len(), |k| {
                k == SlotKind::Block
            });
            fill(slots, SlotKind::Net, self.nets.len(), is_net);
            share::assign(&self.shares, slots)?;
            Ok(())
        })
    }

    /// Tags of the shares in a description that [`Devices::resolve`] has made, and whether they may
    /// be written.
    pub fn tags(&self, description: &Description) -> Result<Vec<(String, bool)>> {
        let mut slots = description.config.devices.clone();
        let taken = share::assign(&self.shares, &mut slots)?;
        let names = slot_names(&slots);
        let pairs = self.shares.iter().zip(taken);
        Ok(pairs.map(|(s, n)| (names[n].clone(), s.writable)).collect())
    }

    /// An error that names a disk of a snapshot's guest that is missing.
    pub fn check_noted(&self, meta: &Meta) -> Result<()> {
        disks::check_noted(&self.disks, meta)
    }

    /// Connects the resources to a machine that was just built or restored. The returned services
    /// take part in its run.
    pub fn connect<'a>(
        &self,
        machine: &mut Machine,
        caller: &'a dyn Caller,
    ) -> Result<Vec<BoxedService<'a>>> {
        let mut services: Vec<BoxedService<'a>> = Vec::new();
        let slots = slots_of(machine, SlotKind::Block);
        if let Some(disks) = Disks::connect(&self.disks, &slots, machine, caller)? {
            services.push(Box::new(disks));
        }
        share::connect(&self.shares, machine, caller)?;
        if !self.nets.is_empty() {
            let mut outside = Outside::default();
            let slots = machine.config().devices.iter().enumerate();
            let slots: Vec<_> = slots
                .filter(|(_, s)| is_net(s.kind))
                .map(|(n, _)| n)
                .collect();
            for (arg, slot) in self.nets.iter().zip(slots) {
                if let Some(peer) = net::connect(machine, slot, arg, &mut outside, caller)? {
                    services.push(Box::new(peer));
                }
            }
            services.push(Box::new(outside));
        }
        Ok(services)
    }
}

/// Whether a kind of device is a network interface.
fn is_net(kind: SlotKind) -> bool {
    matches!(kind, SlotKind::Net | SlotKind::Ethmac)
}

/// Records for a snapshot which host resources a machine has.
pub fn note(machine: &mut Machine, meta: &mut Meta) {
    let slots = slots_of(machine, SlotKind::Block);
    disks::note(machine, &slots, meta);
}
