//! GDB's remote protocol as a service of a run.
//!
//! A session has a thread, in which the protocol's engine waits for the debugger; its requests are
//! carried out by the thread that runs the machine, between slices. So a waiting debugger costs
//! nothing, and neither does a missing one.

mod debugged;
mod describe;
mod target;

use crate::output::Messages;
use anyhow::{bail, Context};
use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::breakpoints::WatchKind as GdbWatch;
use nagori_hart::world::Observer;
use nagori_platform::machine::{DebugStop, Machine, Stop, WatchKind, Why};
use nagori_remote::place::Place;
use nagori_session::drive::{Service, Wishes};
use nagori_session::{End, Error};
use rustix::event::{poll, PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;
use target::{tid, Desk, Line, Session, Stand, Work};

/// Address if only a port is given: others must not be able to debug the machine from outside.
const HOST: &str = "127.0.0.1";
/// How long a debugger may take to read an answer.
const SEND: Duration = Duration::from_secs(10);
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
    fn try_clone(&self) -> std::io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        })
    }

    /// Reads and writes block, writes with a time limit.
    fn prepare(&self) -> std::io::Result<()> {
        match self {
            Stream::Tcp(s) => {
                s.set_nodelay(true)?;
                s.set_nonblocking(false)?;
                s.set_write_timeout(Some(SEND))
            }
            Stream::Unix(s) => {
                s.set_nonblocking(false)?;
                s.set_write_timeout(Some(SEND))
            }
        }
    }

    fn close(&self) {
        // The other end may be gone already.
        let _ = match self {
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }

    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(to),
            Stream::Unix(s) => s.read(to),
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

impl Connection for Stream {
    type Error = std::io::Error;

    fn write(&mut self, byte: u8) -> std::io::Result<()> {
        self.write_all(&[byte])
    }
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Tcp(s) => Write::write_all(s, bytes),
            Stream::Unix(s) => Write::write_all(s, bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Why a machine that ran for a debugger has stopped.
enum Halt {
    Debug(DebugStop),
    Off(u32),
    Over,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The machine continues without a debugger.
    Alone,
    /// The debugger wants the run to end.
    Killed,
}

/// The machine's end of a session.
struct Talk {
    work: Receiver<Work>,
    bell: UnixStream,
    halts: Sender<Halt>,
    ring: UnixStream,
    stream: Stream,
    thread: JoinHandle<Left>,
    /// Closed when the session is over.
    over: Receiver<()>,
    stand: Stand,
    /// The session has been told that the run is over.
    told: bool,
}

/// An address where debuggers can connect.
pub struct Gdb {
    door: Door,
    /// Whether the machine waits for the first debugger.
    waits: bool,
    talk: Option<Talk>,
    /// The hart that debuggers look at first.
    first: usize,
}

impl Gdb {
    /// Listens at `[HOST:]PORT` or `unix:PATH`; the machine waits for the first debugger if `waits`.
    pub fn bind(at: &str, waits: bool, messages: &Messages) -> anyhow::Result<Gdb> {
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
            talk: None,
            first: 0,
        })
    }

    /// Shows debuggers this hart first.
    pub fn at_hart(mut self, hart: usize) -> Gdb {
        self.first = hart;
        self
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        let stream = match &self.door {
            Door::Tcp(l) => l.accept().map(|(s, _)| Stream::Tcp(s)),
            Door::Unix(p) => p.listener().accept().map(|(s, _)| Stream::Unix(s)),
        };
        let stream = match stream {
            Ok(s) => s,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            // A debugger that left before it was accepted.
            Err(_) => return Ok(()),
        };
        stream.prepare().context("cannot talk to the debugger")?;
        let (bell, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        bell.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        // Written at every stop, and read only by a session that waits: neither end may block.
        let (ring, ringing) = UnixStream::pair().context("cannot make a socket pair")?;
        ring.set_nonblocking(true)?;
        ringing.set_nonblocking(true)?;
        let (work, works) = channel();
        let (halts, halted) = channel();
        let (goes, over) = channel();
        let other = stream.try_clone().context("cannot talk to the debugger")?;
        let line = Line { work, bell: theirs };
        let thread = std::thread::Builder::new()
            .name("gdb".into())
            .spawn(move || {
                let _goes: Sender<()> = goes;
                session(other, line, &halted, &ringing)
            })
            .context("cannot start a thread for the debugger")?;
        self.waits = false;
        self.talk = Some(Talk {
            work: works,
            bell,
            halts,
            ring,
            stream,
            thread,
            over,
            stand: Stand {
                first: self.first,
                ..Stand::default()
            },
            told: false,
        });
        Ok(())
    }
}

impl Talk {
    fn halt(&mut self, why: Halt) {
        self.stand.running = false;
        self.told = !matches!(why, Halt::Debug(_));
        // A session that is over does not need it.
        let _ = self.halts.send(why);
        // If the pipe is full, the other end has been woken already.
        let _ = Write::write(&mut self.ring, &[0]);
    }

    /// Ends the session, and returns how it ended.
    fn end(mut self) -> Left {
        if self.stand.running {
            self.halt(Halt::Over);
        }
        if !self.told {
            // It waits for the debugger.
            self.stream.close();
        }
        drop(self.work);
        // A debugger that does not read must not block the machine.
        if self.over.recv_timeout(FAREWELL) == Err(RecvTimeoutError::Timeout) {
            self.stream.close();
        }
        self.thread.join().unwrap_or(Left::Alone)
    }
}

impl<O: Observer> Service<O> for Gdb {
    fn sources<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        match (&self.talk, &self.door) {
            (Some(t), _) => to.push(PollFd::new(&t.bell, PollFlags::IN)),
            (None, Door::Tcp(l)) => to.push(PollFd::new(l, PollFlags::IN)),
            (None, Door::Unix(p)) => to.push(PollFd::new(p.listener(), PollFlags::IN)),
        }
    }

    fn before(
        &mut self,
        machine: &mut Machine<O>,
        wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        if self.talk.is_none() {
            self.accept().map_err(Error::service)?;
        }
        if let Some(talk) = &mut self.talk {
            let mut rings = [0; 64];
            while matches!(talk.bell.read(&mut rings), Ok(n) if n == rings.len()) {}
            let over = loop {
                match talk.work.try_recv() {
                    Ok(work) => work(&mut Desk {
                        machine: &mut *machine,
                        stand: &mut talk.stand,
                    }),
                    Err(TryRecvError::Empty) => break false,
                    Err(TryRecvError::Disconnected) => break true,
                }
            };
            wishes.restart = talk.stand.restart.take().or(wishes.restart);
            wishes.hold |= !talk.stand.running && !over;
            wishes.prompt = true;
            if over {
                machine.clear_debug();
                if let Some(Left::Killed) = self.talk.take().map(Talk::end) {
                    wishes.end(End::Quit);
                }
            }
        }
        wishes.hold |= self.waits;
        Ok(())
    }

    fn after(
        &mut self,
        machine: &mut Machine<O>,
        stop: Stop,
        _wishes: &mut Wishes,
    ) -> nagori_session::Result<()> {
        let Some(talk) = &mut self.talk else {
            return Ok(());
        };
        match (stop, machine.debug_stop()) {
            (Stop::Debug, Some(at)) => talk.halt(Halt::Debug(at)),
            (Stop::PowerOff(code), _) => talk.halt(Halt::Off(code)),
            _ => {}
        }
        Ok(())
    }

    fn may_wake(&self, _machine: &Machine<O>) -> bool {
        self.talk.is_some()
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        self.talk.take().map(Talk::end);
    }
}

/// Bytes from a debugger, one at a time.
struct Bytes {
    stream: Stream,
    buffer: [u8; 4096],
    at: usize,
    end: usize,
}

impl Bytes {
    /// Whether one can be read without waiting.
    fn is_ready(&self) -> bool {
        self.at < self.end
    }

    /// The next one; `None` when the debugger is gone.
    fn next(&mut self) -> Option<u8> {
        if self.at == self.end {
            self.at = 0;
            self.end = loop {
                match self.stream.read(&mut self.buffer) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    read => break read.unwrap_or(0),
                }
            };
        }
        let byte = self.buffer[..self.end].get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }
}

/// A session, in its own thread.
fn session(stream: Stream, line: Line, halts: &Receiver<Halt>, ring: &UnixStream) -> Left {
    talk(stream, line, halts, ring).unwrap_or(Left::Alone)
}

/// `None` if the debugger or the machine is gone.
fn talk(stream: Stream, line: Line, halts: &Receiver<Halt>, ring: &UnixStream) -> Option<Left> {
    let mut bytes = Bytes {
        stream: stream.try_clone().ok()?,
        buffer: [0; 4096],
        at: 0,
        end: 0,
    };
    let mut target = Session::new(line).ok()?;
    let mut gdb = GdbStub::new(stream).run_state_machine(&mut target).ok()?;
    loop {
        gdb = match gdb {
            GdbStubStateMachine::Idle(g) => g.incoming_data(&mut target, bytes.next()?).ok()?,
            GdbStubStateMachine::Running(g) => match halts.try_recv() {
                Ok(halt) => {
                    let over = !matches!(halt, Halt::Debug(_));
                    let next = g.report_stop(&mut target, reason(halt)).ok()?;
                    if over {
                        return Some(Left::Alone);
                    }
                    next
                }
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    if !bytes.is_ready() && !wait(&bytes.stream, ring) {
                        GdbStubStateMachine::Running(g)
                    } else {
                        g.incoming_data(&mut target, bytes.next()?).ok()?
                    }
                }
            },
            GdbStubStateMachine::CtrlCInterrupt(g) => {
                target.interrupt().ok()?;
                let why = match halts.try_recv() {
                    Ok(halt) => reason(halt),
                    Err(_) => MultiThreadStopReason::Signal(Signal::SIGINT),
                };
                g.interrupt_handled(&mut target, Some(why)).ok()?
            }
            GdbStubStateMachine::Disconnected(g) => {
                return Some(match g.get_reason() {
                    DisconnectReason::Kill => Left::Killed,
                    _ => Left::Alone,
                });
            }
        };
    }
}

/// Waits for the debugger or the machine. Returns whether it was the debugger.
fn wait(stream: &Stream, ring: &UnixStream) -> bool {
    let mut fds = [
        PollFd::new(stream, PollFlags::IN),
        PollFd::new(ring, PollFlags::IN),
    ];
    if poll(&mut fds, None).is_err() {
        return false;
    }
    let (debugger, machine) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
    if machine {
        let mut rung = [0; 256];
        let mut ring = ring;
        // The reason is in the channel.
        while matches!(ring.read(&mut rung), Ok(n) if n == rung.len()) {}
        return false;
    }
    debugger
}

fn reason(halt: Halt) -> MultiThreadStopReason<u64> {
    let stop = match halt {
        Halt::Debug(stop) => stop,
        Halt::Off(code) => {
            return MultiThreadStopReason::Exited(u8::try_from(code).unwrap_or(u8::MAX));
        }
        Halt::Over => return MultiThreadStopReason::Terminated(Signal::SIGKILL),
    };
    let tid = tid(stop.hart);
    match stop.why {
        Why::Breakpoint => MultiThreadStopReason::SwBreak(tid),
        Why::Step => MultiThreadStopReason::SignalWithThread {
            tid,
            signal: Signal::SIGTRAP,
        },
        Why::Watch { addr: _, watch } => MultiThreadStopReason::Watch {
            tid,
            kind: match watch.kind {
                WatchKind::Read => GdbWatch::Read,
                WatchKind::Write => GdbWatch::Write,
                WatchKind::Access => GdbWatch::ReadWrite,
            },
            addr: watch.addr,
        },
    }
}
