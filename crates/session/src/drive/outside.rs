//! Networks, and how guest time passes while something may arrive from them.

use super::{Service, Wishes};
use crate::error::{Context, Result};
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_platform::device::Device;
use nagori_platform::devices::ethmac::Ethmac;
use nagori_platform::devices::virtio::{Net, VirtioBackend};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Watches networks while the guest waits. While one of them expects something, an idle guest's
/// time passes like the host's: otherwise its timers would expire at once. Should be last in the
/// list of services, so that it sees whether another one has woken the guest.
#[derive(Default)]
pub struct Outside {
    networks: Vec<Network>,
    idle: Option<Idle>,
}

struct Network {
    slot: usize,
    /// Descriptors that become readable when the network should be polled.
    source: OwnedFd,
}

/// A guest that waits.
struct Idle {
    since: Instant,
    from: Ps,
    until: Ps,
}

impl Outside {
    /// Adds the network in a slot, and the descriptor that becomes readable when it should be
    /// polled.
    pub fn watch(&mut self, slot: usize, source: OwnedFd) {
        self.networks.push(Network { slot, source });
    }

    /// Whether something may arrive; an error if a network has failed.
    fn expects(&self, machine: &mut Machine) -> Result<bool> {
        let mut any = false;
        for n in &self.networks {
            let found = machine
                .virtio::<Net, _>(n.slot, |d, _| (d.expects_host(), d.take_fault()))
                .or_else(|| {
                    machine.in_slot::<Ethmac, _>(n.slot, |d, _| (d.expects_host(), d.take_fault()))
                });
            let (expects, fault) = found.unwrap_or_default();
            if let Some(e) = fault {
                return Err(e).with_context(|| format!("the network in slot {}", n.slot));
            }
            any |= expects;
        }
        Ok(any)
    }
}

impl Service for Outside {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        let all = self.networks.iter();
        to.extend(all.map(|n| PollFd::from_borrowed_fd(n.source.as_fd(), PollFlags::IN)));
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        // A machine that is held is not touched; if it does not wait, the loop polls the networks.
        let Some(idle) = self.idle.as_ref().filter(|_| !wishes.hold) else {
            return Ok(());
        };
        let passed = u64::try_from(idle.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Ps(idle.from.0.saturating_add(passed.saturating_mul(1000)));
        machine.poll_devices_at(now.min(idle.until));
        // Polling a device may show that it has to be polled again earlier.
        let until = idle.until.min(machine.bus().next_event());
        let left = until.saturating_sub(now);
        if machine.is_waiting() && left > Ps::ZERO && self.expects(machine)? {
            wishes.hold = true;
            if until != Ps::NEVER {
                wishes.wake_within(Duration::from_nanos(left.0 / 1000 + 1));
            }
        } else {
            self.idle = None;
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        let Stop::Idle(until) = stop else {
            return Ok(());
        };
        if self.expects(machine)? {
            wishes.paced = true;
            self.idle = Some(Idle {
                since: Instant::now(),
                from: machine.now(),
                until,
            });
        }
        Ok(())
    }

    fn may_wake(&self, machine: &Machine) -> bool {
        machine.expects_host()
    }
}
