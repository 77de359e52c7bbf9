//! The host's side of the agent: the job, the program's streams, its end.

use super::protocol::{self, Ended, Reader, Says};
use crate::drive::{Service, Wishes};
use crate::guest::End;
use crate::tables;
use anyhow::{bail, Context};
use nagori_hart::world::Observer;
use nagori_memtime::stats::Region;
use nagori_platform::clock::Ps;
use nagori_platform::devices::virtio::PortConsole;
use nagori_platform::machine::{Machine, Stop};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{IsTerminal, Read, Write};
use std::time::{Duration, Instant};

/// Ports by their numbers.
const CONTROL: usize = 0;
const STDIN: usize = 1;
const STDOUT: usize = 2;
const STDERR: usize = 3;
/// Bytes read from the host's input at once.
const PIECE: usize = 64 << 10;
/// Between lines of progress, and before the first one.
const PROGRESS: Duration = Duration::from_millis(500);
const QUIET: Duration = Duration::from_secs(2);
const PS_PER_S: f64 = 1e12;

/// Where a program's input comes from.
#[derive(Debug)]
pub enum Input {
    /// There is none, or no more.
    None,
    /// A file: what it holds is there whenever the program asks.
    File(File),
    /// This command's own input, which comes when it comes.
    Live,
}

/// Where a program's output goes; sums of stdout and stderr are kept, to compare them by.
#[derive(Debug)]
pub struct Output {
    /// Whether it goes to this command's stdout and stderr.
    shown: bool,
    sums: [DefaultHasher; 2],
}

impl Output {
    /// Shown, or only summed.
    pub fn new(shown: bool) -> Output {
        Output {
            shown,
            sums: Default::default(),
        }
    }

    /// Whether it is shown.
    pub fn shown(&self) -> bool {
        self.shown
    }

    fn take(&mut self, port: usize, bytes: &[u8]) -> anyhow::Result<()> {
        self.sums[usize::from(port == STDERR)].write(bytes);
        match port {
            _ if !self.shown => Ok(()),
            STDOUT => write(std::io::stdout().lock(), bytes),
            _ => write(std::io::stderr().lock(), bytes),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The program ended.
    Ended(Ended),
    /// It could not be run.
    Failed {
        /// The guest's errno.
        errno: u32,
        /// What was tried.
        text: String,
    },
    /// The guest time that it had was over.
    Timeout,
    /// The host time that it had was over.
    HostTimeout,
}

/// Limits of a run, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Guest time from the program's start on.
    pub guest: Option<f64>,
    /// Host time.
    pub host: Option<f64>,
}

/// The ports of a machine's agent.
pub struct Ports {
    slot: usize,
    job: Vec<u8>,
    sent: usize,
    /// Signals for the program, once it runs.
    signals: Vec<u8>,
    input: Input,
    waiting: Vec<u8>,
    closed: bool,
    output: Output,
    says: Reader,
    started: Option<Ps>,
    start_cpu: Option<f64>,
    outcome: Option<Outcome>,
    limits: Limits,
    begin: Instant,
    progress: Option<Progress>,
}

impl Ports {
    /// For the console in a slot, with the messages of a job.
    pub fn new(slot: usize, job: Vec<u8>, input: Input, output: Output, limits: Limits) -> Self {
        Ports {
            slot,
            job,
            sent: 0,
            signals: Vec::new(),
            input,
            waiting: Vec::new(),
            closed: false,
            output,
            says: Reader::default(),
            started: None,
            start_cpu: None,
            outcome: None,
            limits,
            begin: Instant::now(),
            progress: None,
        }
    }

    /// For the same console after its machine has started anew.
    pub fn again(self, job: Vec<u8>, input: Input) -> Self {
        Ports {
            begin: self.begin,
            progress: self.progress,
            ..Ports::new(self.slot, job, input, self.output, self.limits)
        }
    }

    /// Shows a line on a terminal while the program runs.
    pub fn show_progress(&mut self) {
        self.progress = std::io::stderr().is_terminal().then(Progress::new);
    }

    /// Whether the program has begun.
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

    /// How the run ended, if it has; and sums of the outputs.
    pub fn finish(self) -> (Option<Outcome>, [u64; 2]) {
        if let Some(p) = self.progress {
            p.clear();
        }
        (self.outcome, self.output.sums.map(|h| h.finish()))
    }

    fn push<O: Observer>(
        &self,
        machine: &mut Machine<O>,
        port: usize,
        bytes: &[u8],
    ) -> anyhow::Result<usize> {
        let pushed = machine.virtio::<PortConsole, _>(self.slot, |c, at| c.push(at, port, bytes));
        pushed
            .context("the machine has no console for the agent")?
            .context("the guest's driver of the agent's console broke the rules")
    }

    fn take<O: Observer>(&self, machine: &mut Machine<O>, port: usize) -> anyhow::Result<Vec<u8>> {
        let taken = machine.virtio::<PortConsole, _>(self.slot, |c, at| c.take(at, port));
        taken
            .context("the machine has no console for the agent")?
            .context("the guest's driver of the agent's console broke the rules")
    }

    /// More of the input, as far as there is room.
    fn feed<O: Observer>(&mut self, machine: &mut Machine<O>) -> anyhow::Result<()> {
        loop {
            if !self.waiting.is_empty() {
                let n = self.push(machine, STDIN, &self.waiting)?;
                self.waiting.drain(..n);
                if !self.waiting.is_empty() {
                    return Ok(());
                }
            }
            self.waiting.resize(PIECE, 0);
            let read = match &mut self.input {
                Input::None => Some(0),
                Input::File(f) => Some(f.read(&mut self.waiting).context("cannot read --stdin")?),
                Input::Live => read_now(&mut self.waiting)?,
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
                .context("the machine has no console for the agent")??;
        }
        Ok(())
    }

    /// Hands on what the program has written.
    fn drain<O: Observer>(&mut self, machine: &mut Machine<O>) -> anyhow::Result<()> {
        loop {
            let mut any = false;
            for port in [STDOUT, STDERR] {
                let bytes = self.take(machine, port)?;
                if bytes.is_empty() {
                    continue;
                }
                any = true;
                if let Some(p) = &mut self.progress {
                    p.clear();
                }
                self.output.take(port, &bytes)?;
            }
            if !any {
                return Ok(());
            }
        }
    }

    fn hear<O: Observer>(&mut self, machine: &mut Machine<O>) -> anyhow::Result<()> {
        let bytes = self.take(machine, CONTROL)?;
        self.says.feed(&bytes);
        while let Some(message) = self.says.next()? {
            match message {
                Says::Ready { version, .. } if version == protocol::VERSION => {}
                Says::Ready { version, .. } => {
                    bail!(
                        "the agent in the guest speaks version {version} of the protocol, not {}",
                        protocol::VERSION
                    )
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

    fn over<O: Observer>(&self, machine: &Machine<O>) -> Option<Outcome> {
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

fn write(mut to: impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    to.write_all(bytes)?;
    to.flush()?;
    Ok(())
}

/// What stdin has at this moment; `None`: nothing, but it may come.
fn read_now(to: &mut [u8]) -> anyhow::Result<Option<usize>> {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(e) => return Err(e).context("cannot wait for input"),
    }
    match rustix::io::read(&stdin, to) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::INTR | Errno::AGAIN) => Ok(None),
        // A terminal that has gone away.
        Err(Errno::IO) => Ok(Some(0)),
        Err(e) => Err(e).context("cannot read input"),
    }
}

impl<O: Observer> Service<O> for Ports {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        if matches!(self.input, Input::Live) {
            let stdin = rustix::stdio::stdin();
            to.push(PollFd::from_borrowed_fd(stdin, PollFlags::IN));
        }
    }

    fn before(&mut self, machine: &mut Machine<O>, wishes: &mut Wishes) -> anyhow::Result<()> {
        if self.sent < self.job.len() {
            self.sent += self.push(machine, CONTROL, &self.job[self.sent..])?;
        } else if self.started.is_some() && !self.signals.is_empty() {
            let n = self.push(machine, CONTROL, &self.signals)?;
            self.signals.drain(..n);
        }
        if self.started.is_some() || !matches!(self.input, Input::Live) {
            self.feed(machine)?;
        }
        // Whoever types wants to see what comes, and idle guest time to pass as it does here.
        let live = matches!(self.input, Input::Live);
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

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        wishes: &mut Wishes,
    ) -> anyhow::Result<()> {
        if stop == Stop::Reset {
            bail!("the guest restarted, and with it the program is gone");
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
            if let Some(p) = &mut self.progress {
                p.tick(machine);
            }
        }
        Ok(())
    }

    fn may_wake(&self, _: &Machine<O>) -> bool {
        matches!(self.input, Input::Live)
    }
}

/// A line that shows how far a run is.
struct Progress {
    begin: Instant,
    last: Instant,
    /// Instructions at the last line.
    instructions: Option<u64>,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Progress {
            begin: now,
            last: now,
            instructions: None,
            shown: false,
        }
    }

    fn tick<O: Observer>(&mut self, machine: &Machine<O>) {
        if self.begin.elapsed() < QUIET || self.last.elapsed() < PROGRESS {
            return;
        }
        let (now, since) = (machine.instructions(), self.last.elapsed());
        self.last = Instant::now();
        let Some(before) = self.instructions.replace(now) else {
            return;
        };
        let mips = now.saturating_sub(before) as f64 / 1e6 / since.as_secs_f64();
        let r = machine.report();
        let n = r.memory.region(Region::Nvmm).counters;
        self.shown = true;
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{} of guest time, {mips:.0} MIPS, NVMM: {:.1} MB read, {:.1} MB written",
            tables::duration(r.elapsed_ps),
            n.read_bytes as f64 / 1e6,
            n.write_bytes as f64 / 1e6,
        );
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
