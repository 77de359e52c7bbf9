//! Devices that are connected to the host, and the guest's idle time while something may come
//! from there.

use super::{Service, Wishes};
use nagori_hart::world::Observer;
use nagori_platform::clock::Ps;
use nagori_platform::machine::{Machine, Stop};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Lets devices look outside between slices. While one of them expects something, an idle
/// guest's time passes like the host's: otherwise its timers would run out at once. Should be
/// last in the list of services, so that it sees whether another one has woken the guest.
#[derive(Default)]
pub struct Outside {
    sources: Vec<OwnedFd>,
    idle: Option<Idle>,
}

/// A guest that waits.
struct Idle {
    since: Instant,
    from: Ps,
    until: Ps,
}

impl Outside {
    /// Adds what becomes readable when a device should look outside.
    pub fn watch(&mut self, source: OwnedFd) {
        self.sources.push(source);
    }
}

impl<O: Observer> Service<O> for Outside {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        let all = self.sources.iter();
        to.extend(all.map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN)));
    }

    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> anyhow::Result<()> {
        let Some(idle) = &self.idle else {
            machine.poll_devices();
            return Ok(());
        };
        let passed = u64::try_from(idle.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Ps(idle.from.0.saturating_add(passed.saturating_mul(1000)));
        machine.poll_devices_at(now.min(idle.until));
        // What a device has found out may want to be looked at earlier.
        let until = idle.until.min(machine.bus().next_event());
        let left = until.saturating_sub(now);
        if machine.is_waiting() && machine.expects_host() && left > Ps::ZERO {
            wishes.hold = true;
            if until != Ps::NEVER {
                wishes.wake_within(Duration::from_nanos(left.0 / 1000 + 1));
            }
        } else {
            self.idle = None;
        }
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        let Stop::Idle(until) = stop else {
            return Ok(());
        };
        if machine.expects_host() {
            wishes.paced = true;
            self.idle = Some(Idle {
                since: Instant::now(),
                from: machine.now(),
                until,
            });
        }
        Ok(())
    }

    fn may_wake(&self, machine: &Machine<O>) -> bool {
        machine.expects_host()
    }
}
