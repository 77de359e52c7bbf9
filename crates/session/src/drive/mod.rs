//! The loop around a machine's slices, and the services of the host that take part in it.

pub mod htif;
mod loops;
mod outside;
mod peer;
mod signature;
mod terminal;

pub use loops::Loops;
pub use outside::Outside;
pub(crate) use peer::plug;
pub use peer::{Peer, SHORTEST_DELAY};
pub use signature::{Signature, SignatureFile};
pub use terminal::{Console, Terminal};

use crate::caller::Caller;
use crate::end::End;
use crate::error::{Context, Result};
use crate::software;
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Core cycles between two calls of the services: fixed, so that runs are reproducible.
const SLICE: u64 = 1_000_000;
/// How long the host sleeps at most if no descriptor announces the caller's wish to end.
const LOOK: Duration = Duration::from_millis(50);
/// Host time of a slice while somebody waits for answers.
const PATIENCE: Duration = Duration::from_millis(8);

/// How a machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Harts and devices are reset and the software is loaded again; memory is kept.
    Reset,
    /// After a power cut: the software is loaded again, and runs in the mode in which the run
    /// began.
    PowerCut,
}

/// What services request of the run; the requests of several services are combined.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The run is to end.
    pub end: Option<End>,
    /// The machine is to restart before it runs on.
    pub restart: Option<Restart>,
    /// The machine is held: no slice is run.
    pub hold: bool,
    /// Somebody waits for answers: slices are kept short on the host.
    pub prompt: bool,
    /// Idle guest time is to pass like the host's, instead of being skipped.
    pub paced: bool,
    /// The host is to sleep no longer than this before services are called again.
    pub within: Option<Duration>,
    /// The greatest length of the next slice, in core cycles.
    pub slice: Option<u64>,
    /// The machine time up to which the next slice may go: something may arrive from then on.
    pub until: Option<Ps>,
}

impl Wishes {
    /// Requests to be called again after a time at the latest.
    pub fn wake_within(&mut self, time: Duration) {
        self.within = Some(self.within.map_or(time, |t| t.min(time)));
    }

    /// Bounds the next slice.
    pub fn slice_of(&mut self, cycles: u64) {
        self.slice = Some(self.slice.map_or(cycles, |s| s.min(cycles)));
    }

    /// Bounds the next slice by a machine time.
    pub fn run_until(&mut self, time: Ps) {
        self.until = Some(self.until.map_or(time, |t| t.min(time)));
    }

    /// Ends the run, unless another service has ended it already.
    pub fn end(&mut self, end: End) {
        self.end.get_or_insert(end);
    }
}

/// A part of the host that takes part in a run between slices: a console, a control socket, a
/// debugger, a network. Services are called in the order of their list.
///
/// What happens in the guest does not depend on where slices end, so a service that only reads
/// changes nothing.
pub trait Service {
    /// Adds descriptors that end the host's sleep when they become ready.
    fn sources<'a>(&'a self, _to: &mut Vec<PollFd<'a>>) {}

    /// Called before each slice, also while the machine is held.
    fn before(&mut self, _machine: &mut Machine, _wishes: &mut Wishes) -> Result<()> {
        Ok(())
    }

    /// Called after each slice with the reason why it ended.
    fn after(&mut self, _machine: &mut Machine, _stop: Stop, _wishes: &mut Wishes) -> Result<()> {
        Ok(())
    }

    /// Called once when the run is over, however it ended.
    fn finish(&mut self, _machine: &mut Machine) -> Result<()> {
        Ok(())
    }

    /// Whether this service can still cause something to happen while every hart waits without a
    /// timer.
    fn may_wake(&self, _machine: &Machine) -> bool {
        false
    }
}

impl<S: Service + ?Sized> Service for &mut S {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        (**self).sources(to);
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        (**self).before(machine, wishes)
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        (**self).after(machine, stop, wishes)
    }

    fn finish(&mut self, machine: &mut Machine) -> Result<()> {
        (**self).finish(machine)
    }

    fn may_wake(&self, machine: &Machine) -> bool {
        (**self).may_wake(machine)
    }
}

/// A service in a list.
pub type BoxedService<'a> = Box<dyn Service + 'a>;

/// What the loop itself has to know of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Course {
    /// The run ends when all harts together have executed this many instructions since the
    /// machine's start.
    pub max_instructions: Option<u64>,
    /// Whether the timing model is on when the machine restarts after a power cut.
    pub timed: bool,
}

/// Runs a machine until a service, the caller, the guest or a limit ends it.
///
/// A wish of the caller is [`End::Signal`]; an error is that of a service, or of a restart.
pub fn drive(
    machine: &mut Machine,
    services: &mut [BoxedService<'_>],
    caller: &dyn Caller,
    course: Course,
) -> Result<End> {
    let limit = course.max_instructions;
    let mut slice = SLICE;
    let mut wait = Some(Duration::ZERO);
    loop {
        if let Some(n) = caller.interrupted() {
            return Ok(End::Signal(n));
        }
        sleep(services, caller, wait)?;
        let mut wishes = Wishes::default();
        for s in services.iter_mut() {
            s.before(machine, &mut wishes)?;
        }
        if let Some(end) = wishes.end {
            return Ok(end);
        }
        if let Some(how) = wishes.restart.take() {
            if !restart(machine, course, how)? {
                return Ok(End::Restart);
            }
        }
        if wishes.hold {
            wait = wishes.within;
            continue;
        }
        machine.poll_devices();
        let started = Instant::now();
        let cycles = slice.min(wishes.slice.unwrap_or(u64::MAX));
        let stop = machine.run_until(wishes.until.unwrap_or(Ps::NEVER), cycles, limit);
        machine.check_image()?;
        slice = match (machine.is_parallel(), wishes.prompt) {
            // With `--parallel` runs are not reproducible anyway, and every slice starts threads,
            // so slices are long.
            (true, _) => paced(slice, started.elapsed(), 64 * SLICE),
            (_, true) => paced(slice, started.elapsed(), 4 * SLICE),
            _ => SLICE,
        };
        for s in services.iter_mut() {
            s.after(machine, stop, &mut wishes)?;
        }
        if let Some(end) = wishes.end {
            return Ok(end);
        }
        wait = Some(Duration::ZERO);
        if let Some(how) = wishes.restart {
            if !restart(machine, course, how)? {
                return Ok(End::Restart);
            }
            continue;
        }
        match stop {
            // The services for snapshots, debuggers and power cuts have seen it.
            Stop::Slice | Stop::Snapshot(_) | Stop::Debug | Stop::Reached => {}
            Stop::PowerOff(code) => return Ok(End::Off(code)),
            Stop::Instructions => return Ok(End::Limit),
            Stop::EndOfTime => return Ok(End::Time),
            Stop::Reset => {
                if !restart(machine, course, Restart::Reset)? {
                    return Ok(End::Restart);
                }
            }
            Stop::Idle(at) => {
                let hopeless = || !services.iter().any(|s| s.may_wake(machine));
                if at == Ps::NEVER && hopeless() {
                    return Ok(End::Stuck);
                }
                wait = match at {
                    Ps::NEVER => None,
                    _ if !wishes.paced => Some(Duration::ZERO),
                    _ => Some(Duration::from_nanos(
                        at.saturating_sub(machine.now()).0 / 1000,
                    )),
                };
                if let Some(t) = wishes.within {
                    wait = Some(wait.map_or(t, |w| w.min(t)));
                }
            }
        }
    }
}

/// Restarts the machine; returns whether its software is known.
fn restart(machine: &mut Machine, course: Course, how: Restart) -> Result<bool> {
    let Some(restarted) = machine.software().cloned() else {
        return Ok(false);
    };
    machine.reset();
    if how == Restart::PowerCut {
        machine.set_timed(course.timed);
    }
    software::load(machine, &restarted.plan, true)?;
    Ok(true)
}

/// Waits until a source is ready, the caller wants to end, or a time (`None`: without limit) has
/// passed.
fn sleep(services: &[BoxedService<'_>], caller: &dyn Caller, wait: Option<Duration>) -> Result<()> {
    if wait == Some(Duration::ZERO) {
        // A service that has input ready finds it without being woken.
        return Ok(());
    }
    let wake = caller.wake();
    let wait = match wake {
        Some(_) => wait,
        None => Some(wait.map_or(LOOK, |w| w.min(LOOK))),
    };
    let mut fds: Vec<PollFd<'_>> = wake
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .into_iter()
        .collect();
    for s in services {
        s.sources(&mut fds);
    }
    let timeout = wait.and_then(|w| Timespec::try_from(w).ok());
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e).context("cannot wait for input"),
    }
}

/// The length of the next slice, so that somebody who waits is answered in time.
fn paced(slice: u64, took: Duration, most: u64) -> u64 {
    if took > PATIENCE {
        (slice / 2).max(1000)
    } else if took < PATIENCE / 4 {
        (slice * 2).min(most)
    } else {
        slice.min(most)
    }
}
