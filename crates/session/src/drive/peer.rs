//! A second machine on a wire, in machine time: it runs beside the first one in the same process, and when a frame
//! arrives follows from the two machines alone. So runs are reproducible.
//!
//! Frames take at least the wire's delay. The machine that is behind runs, and only as far as nothing of the other one
//! can arrive: up to the earliest time at which that one can do anything, and the delay. Where the turns end changes
//! nothing in either machine ([`Machine::run_until`]).

use super::{restart, BoxedService, Course, Restart, Service, Wishes, SLICE};
use crate::caller::Caller;
use crate::error::{Context, Error, Result};
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_platform::devices::ethmac::Ethmac;
use nagori_platform::devices::virtio::Net;
use nagori_usernet::{pair, Link};
use std::time::Duration;

/// Turns of the other machine after which the caller is asked whether the run is to end.
const TURNS: u32 = 10_000;
/// The shortest delay of a wire: times on it are whole nanoseconds, and machines should have some time to run.
pub const SHORTEST_DELAY: Duration = Duration::from_micros(1);

/// The second machine, as a service of the first one's run.
pub struct Peer<'a> {
    /// Until it is switched off.
    machine: Option<Machine>,
    services: Vec<BoxedService<'a>>,
    caller: &'a dyn Caller,
    /// For how long nothing arrives of what is sent.
    lookahead: Ps,
    /// Picoseconds that its time is ahead of the first one's.
    ahead: i64,
}

/// A whole number of nanoseconds.
fn whole(t: Ps) -> u64 {
    t.0 / 1000 * 1000
}

impl<'a> Peer<'a> {
    /// Joins two machines by a wire between slots with network interfaces. From now on the second one runs as the first
    /// one's time passes. `services` take part in its run. The machines' seeds should differ, since addresses of
    /// interfaces follow from them.
    ///
    /// An error if a slot has no interface, or if the delay is below [`SHORTEST_DELAY`].
    pub fn join(
        (first, slot): (&mut Machine, usize),
        (mut second, other): (Machine, usize),
        delay: Duration,
        services: Vec<BoxedService<'a>>,
        caller: &'a dyn Caller,
    ) -> Result<Peer<'a>> {
        if delay < SHORTEST_DELAY {
            return Err(Error::Request(format!(
                "the wire's delay is {delay:?}: at least {SHORTEST_DELAY:?} are possible"
            )));
        }
        let times = [first.now(), second.now()].map(whole);
        let [a, b] = pair(delay, times.map(|t| Duration::from_nanos(t / 1000)))?;
        plug(first, slot, Box::new(a))?;
        plug(&mut second, other, Box::new(b))?;
        Ok(Peer {
            machine: Some(second),
            services,
            caller,
            // Frames are sent up to a nanosecond after the time that the wire has for them.
            lookahead: Ps((delay.as_nanos() as u64 - 1) * 1000),
            ahead: times[1] as i64 - times[0] as i64,
        })
    }

    /// A time of the first machine in that of this one.
    fn own(&self, t: Ps) -> Ps {
        match t {
            Ps::NEVER => t,
            t => Ps(t.0.saturating_add_signed(self.ahead)),
        }
    }

    /// A time of this machine in that of the first one.
    fn of_first(&self, t: Ps) -> Ps {
        match t {
            Ps::NEVER => t,
            t => Ps(t.0.saturating_add_signed(-self.ahead)),
        }
    }

    /// The second machine, until it is switched off.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// The second machine, taken off the wire, unless it is switched off.
    pub fn into_machine(self) -> Option<Machine> {
        self.machine
    }

    /// Lets the second machine run up to a time of its own.
    fn run(&mut self, until: Ps) -> Result<()> {
        let Some(machine) = &mut self.machine else {
            return Ok(());
        };
        let mut wishes = Wishes::default();
        for s in &mut self.services {
            s.before(machine, &mut wishes)?;
        }
        let stop = machine.run_until(until, SLICE, None);
        for s in &mut self.services {
            s.after(machine, stop, &mut wishes)?;
        }
        let over = match stop {
            Stop::PowerOff(_) | Stop::EndOfTime => true,
            Stop::Reset => !restart(machine, Course::default(), Restart::Reset)
                .context("the peer cannot restart")?,
            _ => wishes.end.is_some(),
        };
        if over {
            self.caller
                .note("the machine at the other end of the wire is off");
            self.machine = None;
        }
        Ok(())
    }
}

/// A later time.
fn after(t: Ps, by: Ps) -> Ps {
    match t {
        Ps::NEVER => t,
        t => Ps(t.0.saturating_add(by.0)),
    }
}

impl Service for Peer<'_> {
    fn before(&mut self, first: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        if wishes.hold || wishes.end.is_some() {
            return Ok(());
        }
        for _ in 0..TURNS {
            let Some(machine) = &mut self.machine else {
                return Ok(());
            };
            // What the first one has sent meanwhile.
            machine.poll_devices();
            let theirs = machine.next_time();
            let (a, b) = (first.next_time(), self.of_first(theirs));
            if a <= b {
                let earliest = b.min(after(a, self.lookahead));
                wishes.run_until(after(earliest, self.lookahead));
                return Ok(());
            }
            let earliest = a.min(after(b, self.lookahead));
            self.run(self.own(after(earliest, self.lookahead)))?;
            first.poll_devices();
        }
        wishes.hold = true;
        wishes.wake_within(Duration::ZERO);
        Ok(())
    }

    fn after(&mut self, _: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        if matches!(stop, Stop::Idle(_)) && self.machine.is_some() {
            wishes.wake_within(Duration::ZERO);
        }
        Ok(())
    }

    fn may_wake(&self, _: &Machine) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|m| m.next_time() != Ps::NEVER)
    }
}

/// Plugs a cable into the interface of a slot.
pub fn plug(machine: &mut Machine, slot: usize, link: Box<dyn Link>) -> Result<()> {
    let mut link = Some(link);
    let virtio = machine.virtio::<Net, _>(slot, |n, port| {
        if let Some(link) = link.take() {
            n.connect(port, link);
        }
    });
    let ethmac = || {
        machine.in_slot::<Ethmac, _>(slot, |n, cx| {
            if let Some(link) = link.take() {
                n.connect(cx, link);
            }
        })
    };
    virtio.or_else(ethmac).ok_or_else(|| {
        Error::Request(format!(
            "slot {slot} of the machine holds no network interface"
        ))
    })
}
