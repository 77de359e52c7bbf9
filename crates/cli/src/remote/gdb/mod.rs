//! GDB's remote protocol as a service of a run.
//!
//! Between slices, the thread that runs the machine reads what a debugger has sent, and has
//! [`nagori_remote::gdb`] answer it. So a waiting debugger costs nothing, and neither does a missing one.

mod debugged;
mod describe;

use anyhow::{bail, Context};
use debugged::{Asks, Desk};
use nagori_machine::{DebugStop, Machine, Stop, WatchKind, Why};
use nagori_remote::gdb::{self, Halt, Left, Stub};
use nagori_remote::place::Place;
use nagori_session::drive::{Service, Wishes};
use nagori_session::{End, Error};
use nagori_terminal::output::Messages;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Address if only a port is given: others must not be able to debug the machine from outside.
const HOST: &str = "127.0.0.1";
/// Number of bytes read from a debugger at once.
const CHUNK: usize = 4096;
/// Number of unread answer bytes from which on nothing more is read from it.
const MOST_UNREAD: usize = 1 << 20;
/// How long it may take to read that the run is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// The listening socket.
enum Door {
    Tcp(TcpListener),
    Unix(Place),
}

/// A debugger's connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Reads and writes never block.
    fn prepare(&self) -> std::io::Result<()> {
        match self {
            Stream::Tcp(s) => {
                s.set_nodelay(true)?;
                s.set_nonblocking(true)
            }
            Stream::Unix(s) => s.set_nonblocking(true),
        }
    }

    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(to),
            Stream::Unix(s) => s.read(to),
        }
    }

    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(from),
            Stream::Unix(s) => s.write(from),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// A debugger's session.
struct Talk {
    stream: Stream,
    stub: Stub,
    asks: Asks,
}

/// An address where debuggers can connect.
pub struct Gdb<'a> {
    door: Door,
    /// Whether the machine is held: by a debugger, or for the next one.
    waits: bool,
    /// Whether it runs on if a debugger is gone without a word.
    run_on: bool,
    talk: Option<Talk>,
    /// The hart that debuggers look at first.
    first: usize,
    messages: &'a Messages,
}

impl<'a> Gdb<'a> {
    /// Listens at `[HOST:]PORT` or `unix:PATH`; the machine waits for the first debugger if `waits`.
    pub fn bind(at: &str, waits: bool, messages: &'a Messages) -> anyhow::Result<Gdb<'a>> {
        let door = match at.strip_prefix("unix:") {
            Some("") => bail!("--gdb unix: lacks the socket's path"),
            Some(path) => Door::Unix(Place::bind(Path::new(path))?),
            None => {
                let at = match at.rsplit_once(':') {
                    None | Some(("", _)) => {
                        format!("{HOST}:{}", at.trim_start_matches(':'))
                    }
                    Some(_) => at.to_string(),
                };
                let l = TcpListener::bind(&at).with_context(|| {
                    format!("cannot listen for a debugger at {at} (a port, HOST:PORT or unix:PATH)")
                })?;
                l.set_nonblocking(true)?;
                Door::Tcp(l)
            }
        };
        let place = match &door {
            Door::Tcp(l) => l.local_addr()?.to_string(),
            Door::Unix(_) => at["unix:".len()..].to_string(),
        };
        let waiting = if waits {
            ", and the machine waits for it"
        } else {
            ""
        };
        messages.note(&format!("gdb: `target remote {place}`{waiting}"));
        Ok(Gdb {
            door,
            waits,
            run_on: false,
            talk: None,
            first: 0,
            messages,
        })
    }

    /// Shows debuggers this hart first.
    pub fn at_hart(mut self, hart: usize) -> Gdb<'a> {
        self.first = hart;
        self
    }

    /// Whether the machine runs on if a debugger is gone without a word.
    pub fn run_on(mut self, run_on: bool) -> Gdb<'a> {
        self.run_on = run_on;
        self
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        let stream = match &self.door {
            Door::Tcp(l) => l.accept().map(|(s, _)| Stream::Tcp(s)),
            Door::Unix(p) => p.listener().accept().map(|(s, _)| Stream::Unix(s)),
        };
        // Nobody is there, or somebody who left before.
        let Ok(stream) = stream else {
            return Ok(());
        };
        stream.prepare().context("cannot talk to the debugger")?;
        self.talk = Some(Talk {
            stream,
            stub: Stub::new(self.first),
            asks: Asks::default(),
        });
        Ok(())
    }
}

impl Talk {
    /// What its socket is waited for.
    fn awaits(&self) -> PollFlags {
        let unread = self.stub.unread();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, unread < MOST_UNREAD);
        flags.set(PollFlags::OUT, unread > 0);
        flags
    }

    /// Answers what has come. Whether the debugger is still there.
    fn serve(&mut self, machine: &mut Machine) -> bool {
        let mut chunk = [0; CHUNK];
        while self.stub.left().is_none() && self.stub.output().len() < MOST_UNREAD {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(n) => self.stub.take(
                    &chunk[..n],
                    &mut Desk {
                        machine: &mut *machine,
                        asks: &mut self.asks,
                    },
                ),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.send()
    }

    /// Sends what the debugger accepts. Whether it is still there.
    fn send(&mut self) -> bool {
        let output = self.stub.output();
        while !output.is_empty() {
            match self.stream.write(output) {
                Ok(0) => return false,
                Ok(n) => drop(output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn halted(&mut self, why: Halt) {
        self.stub.halted(why);
        // Whether the debugger is still there is seen when it is read from.
        self.send();
    }

    /// Ends the session; a debugger that does not read keeps nobody for long.
    fn end(mut self) {
        let until = Instant::now() + FAREWELL;
        while self.send() && !self.stub.output().is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return;
            };
            let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
            if poll(&mut fds, Timespec::try_from(left).ok().as_ref()).is_err() {
                return;
            }
        }
    }
}

impl Service for Gdb<'_> {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        match (&self.talk, &self.door) {
            (Some(t), _) => to.push(PollFd::new(&t.stream, t.awaits())),
            (None, Door::Tcp(l)) => to.push(PollFd::new(l, PollFlags::IN)),
            (None, Door::Unix(p)) => to.push(PollFd::new(p.listener(), PollFlags::IN)),
        }
    }

    fn before(&mut self, machine: &mut Machine, wishes: &mut Wishes) -> nagori_session::Result<()> {
        if self.talk.is_none() {
            self.accept().map_err(Error::service)?;
        }
        if let Some(talk) = &mut self.talk {
            let there = talk.serve(machine);
            wishes.restart = talk.asks.restart.take().or(wishes.restart);
            wishes.prompt = true;
            let left = talk.stub.left();
            self.waits = !talk.stub.is_running() && left.is_none();
            if left == Some(Left::Killed) {
                wishes.end(End::Quit);
            }
            if left.is_some() || !there {
                machine.clear_debug();
                if let Some(talk) = self.talk.take() {
                    talk.end();
                }
            }
            if left.is_none() && !there {
                self.waits = !self.run_on;
                if self.waits {
                    self.messages.note(
                        "gdb: the debugger is gone without `detach`; the machine waits for another \
                         (`--gdb-run-on`: it runs on)",
                    );
                }
            }
        }
        wishes.hold |= self.waits;
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine,
        stop: Stop,
        _wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        let Some(talk) = &mut self.talk else {
            return Ok(());
        };
        match (stop, machine.debug_stop()) {
            (Stop::Debug, Some(at)) => talk.halted(halt(at)),
            (Stop::PowerOff(code), _) => talk.halted(Halt::Off(code)),
            _ => {}
        }
        Ok(())
    }

    fn may_wake(&self, _machine: &Machine) -> bool {
        self.talk.is_some()
    }
}

impl Drop for Gdb<'_> {
    fn drop(&mut self) {
        if let Some(mut talk) = self.talk.take() {
            talk.halted(Halt::Over);
            talk.end();
        }
    }
}

fn halt(stop: DebugStop) -> Halt {
    let hart = stop.hart;
    match stop.why {
        Why::Breakpoint => Halt::Break { hart, pc: stop.pc },
        Why::Step => Halt::Step { hart },
        Why::Watch { addr: _, watch } => Halt::Watch {
            hart,
            kind: match watch.kind {
                WatchKind::Read => gdb::WatchKind::Read,
                WatchKind::Write => gdb::WatchKind::Write,
                WatchKind::Access => gdb::WatchKind::Access,
            },
            addr: watch.addr,
        },
    }
}
