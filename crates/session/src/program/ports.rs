//! The host's side of the agent: the job, the program's streams, its end.

use super::outcome::Outcome;
use super::protocol::{self, Reader, Says};
use super::stdin::{read_now, Input};
use super::streams::{Stream, Streams};
use crate::drive::{Service, Wishes};
use crate::end::End;
use crate::error::{Context, Error, Result};
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;
use nagori_platform::devices::virtio::PortConsole;
use rustix::event::{PollFd, PollFlags};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Instant;

/// The ports, by number.
pub(crate) const CONTROL: usize = 0;
const STDIN: usize = 1;
pub(crate) const STDOUT: usize = 2;
pub(crate) const STDERR: usize = 3;
/// Number of bytes read from the host's input at once.
const PIECE: usize = 64 << 10;
const PS_PER_S: f64 = 1e12;

/// A program's output, and checksums of stdout and stderr by which runs are compared.
struct Output<'a> {
    streams: &'a mut dyn Streams,
    sums: [DefaultHasher; 2],
}

impl Output<'_> {
    fn take(&mut self, port: usize, bytes: &[u8]) -> Result<()> {
        self.sums[usize::from(port == STDERR)].write(bytes);
        let stream = match port {
            STDOUT => Stream::Stdout,
            _ => Stream::Stderr,
        };
        Ok(self.streams.write(stream, bytes)?)
    }
}

/// Limits of a run, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Guest time from the program's start.
    pub guest: Option<f64>,
    /// Host time.
    pub host: Option<f64>,
}

/// The ports of a machine's agent.
pub struct Ports<'a> {
    slot: usize,
    job: Vec<u8>,
    sent: usize,
    /// Signals for the program, sent once it runs.
    signals: Vec<u8>,
    input: Input,
    waiting: Vec<u8>,
    closed: bool,
    output: Output<'a>,
    says: Reader,
    started: Option<Ps>,
    start_cpu: Option<f64>,
    outcome: Option<Outcome>,
    limits: Limits,
    begin: Instant,
}

impl<'a> Ports<'a> {
    /// For the console in a slot, with the messages of a job.
    pub fn new(
        slot: usize,
        job: Vec<u8>,
        input: Input,
        streams: &'a mut dyn Streams,
        limits: Limits,
    ) -> Self {
        Ports {
            slot,
            job,
            sent: 0,
            signals: Vec::new(),
            input,
            waiting: Vec::new(),
            closed: false,
            output: Output {
                streams,
                sums: Default::default(),
            },
            says: Reader::default(),
            started: None,
            start_cpu: None,
            outcome: None,
            limits,
            begin: Instant::now(),
        }
    }

    /// For the same console after its machine has restarted.
    pub fn again(self, job: Vec<u8>, input: Input) -> Self {
        Ports {
            begin: self.begin,
            ..Ports::new(self.slot, job, input, self.output.streams, self.limits)
        }
    }

    /// Whether the program has started.
    pub fn started(&self) -> bool {
        self.started.is_some()
    }

    /// Sends the program a signal.
    pub fn signal(&mut self, number: u32) {
        self.signals.extend(protocol::signal(number));
    }

    /// Processor time of this process when the program started, in seconds.
    pub fn start_cpu(&self) -> Option<f64> {
        self.start_cpu
    }

    /// How the run ended, if it has; and checksums of the outputs.
    pub fn finish(self) -> (Option<Outcome>, [u64; 2]) {
        self.output.streams.end();
        (self.outcome, self.output.sums.map(|h| h.finish()))
    }

    /// Reads more of the input, as far as there is room.
    fn feed(&mut self, machine: &mut Machine) -> Result<()> {
        loop {
            if !self.waiting.is_empty() {
                let n = push(machine, self.slot, STDIN, &self.waiting)?;
                self.waiting.drain(..n);
                if !self.waiting.is_empty() {
                    return Ok(());
                }
            }
            self.waiting.resize(PIECE, 0);
            let read = match &mut self.input {
                Input::None => Some(0),
                Input::File(f) => Some(f.read(&mut self.waiting).context("cannot read --stdin")?),
                Input::Bytes(b) => {
                    let n = b.read(&mut self.waiting);
                    Some(n.context("cannot read the input")?)
                }
                Input::Live(fd) => read_now(fd.as_fd(), &mut self.waiting)?,
            };
            self.waiting.truncate(read.unwrap_or(0));
            match read {
                // Nothing yet.
                None => return Ok(()),
                Some(0) => break,
                Some(_) => {}
            }
        }
        self.input = Input::None;
        if !self.closed {
            self.closed = true;
            machine
                .virtio::<PortConsole, _>(self.slot, |c, at| c.close(at, STDIN))
                .ok_or_else(no_console)??;
        }
        Ok(())
    }

    /// Passes on what the program has written.
    fn drain(&mut self, machine: &mut Machine) -> Result<()> {
        loop {
            let mut any = false;
            for port in [STDOUT, STDERR] {
                let bytes = take(machine, self.slot, port)?;
                if bytes.is_empty() {
                    continue;
                }
                any = true;
                self.output.take(port, &bytes)?;
            }
            if !any {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, machine: &mut Machine) -> Result<()> {
        let bytes = take(machine, self.slot, CONTROL)?;
        self.says.feed(&bytes);
        while let Some(message) = self.says.next()? {
            match message {
                Says::Ready { version, .. } if version == protocol::VERSION => {}
                Says::Ready { version, .. } => {
                    return Err(Error::Guest(format!(
                        "the agent in the guest speaks version {version} of the protocol, not {}",
                        protocol::VERSION
                    )))
                }
                Says::Started { .. } => {
                    self.started = Some(machine.now());
                    self.start_cpu = Some(cpu_seconds());
                }
                Says::Ended(e) => self.outcome = Some(Outcome::Ended(e)),
                Says::Failed { errno, text } => {
                    self.outcome = Some(Outcome::Failed { errno, text });
                }
            }
        }
        Ok(())
    }

    fn over(&self, machine: &Machine) -> Option<Outcome> {
        let guest = |s: f64| {
            let since = self.started.map(|at| machine.now().saturating_sub(at));
            since.is_some_and(|t| t.0 as f64 >= s * PS_PER_S)
        };
        if self.limits.guest.is_some_and(guest) {
            return Some(Outcome::Timeout);
        }
        let host = |s: f64| self.begin.elapsed().as_secs_f64() >= s;
        self.limits
            .host
            .is_some_and(host)
            .then_some(Outcome::HostTimeout)
    }
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Hands bytes to a port of the console in a slot; how many it had room for.
pub(crate) fn push(machine: &mut Machine, slot: usize, port: usize, bytes: &[u8]) -> Result<usize> {
    let pushed = machine.virtio::<PortConsole, _>(slot, |c, at| c.push(at, port, bytes));
    pushed
        .ok_or_else(no_console)?
        .context("the guest's driver of the agent's console broke the rules")
}

/// Takes what the guest has written to a port of the console in a slot.
pub(crate) fn take(machine: &mut Machine, slot: usize, port: usize) -> Result<Vec<u8>> {
    let taken = machine.virtio::<PortConsole, _>(slot, |c, at| c.take(at, port));
    taken
        .ok_or_else(no_console)?
        .context("the guest's driver of the agent's console broke the rules")
}

fn no_console() -> Error {
    Error::Request("the machine has no console for the agent".into())
}

impl Service for Ports<'_> {
    fn sources<'b>(&'b self, to: &mut Vec<PollFd<'b>>) {
        if let Input::Live(fd) = &self.input {
            to.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        if self.sent < self.job.len() {
            self.sent += push(machine, self.slot, CONTROL, &self.job[self.sent..])?;
        } else if self.started.is_some() && !self.signals.is_empty() {
            let n = push(machine, self.slot, CONTROL, &self.signals)?;
            self.signals.drain(..n);
        }
        if self.started.is_some() || !matches!(self.input, Input::Live(_)) {
            self.feed(machine)?;
        }
        // A user who types wants to see the echo, and idle guest time to pass as on the host.
        let live = matches!(self.input, Input::Live(_));
        wishes.prompt |= live;
        wishes.paced |= live;
        if let (Some(limit), Some(at)) = (self.limits.guest, self.started) {
            // Not far beyond the limit.
            let end = at.0.saturating_add((limit * PS_PER_S) as u64);
            let left = Ps(end.saturating_sub(machine.now().0));
            let cycles = left.0 as f64 / PS_PER_S * machine.config().clock_hz.nearest_hz() as f64;
            wishes.slice_of((cycles as u64).max(1));
        }
        Ok(())
    }

    fn after(&mut self, machine: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        if stop == Stop::Reset {
            return Err(Error::Guest(
                "the guest restarted, and with it the program is gone".into(),
            ));
        }
        // The kernel's console is not the program's.
        machine.console_output();
        self.hear(machine)?;
        self.drain(machine)?;
        if self.outcome.is_none() {
            self.outcome = self.over(machine);
        }
        if self.outcome.is_some() {
            wishes.end(End::Quit);
        }
        if self.started.is_some() {
            let report = || machine.report();
            self.output.streams.tick(machine.instructions(), &report);
        }
        Ok(())
    }

    fn may_wake(&self, _: &Machine) -> bool {
        matches!(self.input, Input::Live(_))
    }
}
