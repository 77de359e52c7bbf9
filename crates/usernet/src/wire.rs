//! A Unix socket that joins two machines: each frame is preceded by its length.
//!
//! The length is four bytes, most significant first, as in QEMU's `-netdev stream` over a Unix
//! socket, so that a QEMU machine can be the other end.

use crate::link::{look, Frame, Guest, Link, MAX_FRAME};
use crate::offload::finish;
use crate::Error;
use mio::net::{UnixListener, UnixStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LISTENER: Token = Token(0);
const PEER: Token = Token(1);
/// Bytes of a frame's length.
const LENGTH: usize = 4;
/// Shortest frame: two addresses and a type.
const SHORTEST: usize = 14;
/// Number of queued bytes for the other machine from which on the guest has to wait.
const QUEUE_BYTES: usize = 1 << 20;
/// Number of queued bytes for the guest from which on the other machine has to wait.
const QUEUE_FRAMES: usize = 256;
/// Number of bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// One end of a wire between two machines.
pub struct Wire {
    poll: Poll,
    events: Events,
    listener: Option<Listener>,
    peer: Option<Peer>,
}

struct Listener {
    socket: UnixListener,
    path: PathBuf,
    ready: bool,
}

struct Peer {
    stream: UnixStream,
    readable: bool,
    writable: bool,
    /// Bytes for the other machine.
    out: VecDeque<u8>,
    /// The beginning of a frame from the other machine.
    part: Vec<u8>,
    /// Frames for the guest.
    frames: VecDeque<Frame>,
}

fn watch() -> Result<Poll, Error> {
    Poll::new().map_err(Error::Watch)
}

impl Wire {
    /// Creates a socket, and waits there for the other machine. A socket at which nobody listens
    /// any more is replaced.
    pub fn listen(path: &Path) -> Result<Wire, Error> {
        let poll = watch()?;
        let failed = |source| Error::Listen {
            path: path.into(),
            source,
        };
        let socket = bind(path).map_err(failed)?;
        let mut listener = Listener {
            socket,
            path: path.into(),
            ready: true,
        };
        poll.registry()
            .register(&mut listener.socket, LISTENER, Interest::READABLE)
            .map_err(failed)?;
        Ok(Wire {
            poll,
            events: Events::with_capacity(8),
            listener: Some(listener),
            peer: None,
        })
    }

    /// Connects to the machine that listens at a socket.
    pub fn connect(path: &Path) -> Result<Wire, Error> {
        let failed = |source| Error::Connect {
            path: path.into(),
            source,
        };
        let mut wire = Wire {
            poll: watch()?,
            events: Events::with_capacity(8),
            listener: None,
            peer: None,
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        wire.attach(stream).map_err(failed)?;
        Ok(wire)
    }

    fn attach(&mut self, mut stream: UnixStream) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, PEER, interest)?;
        self.peer = Some(Peer {
            stream,
            readable: true,
            writable: true,
            out: VecDeque::new(),
            part: Vec::new(),
            frames: VecDeque::new(),
        });
        Ok(())
    }

    fn accept(&mut self) {
        let Some(l) = &mut self.listener else { return };
        while l.ready && self.peer.is_none() {
            match l.socket.accept() {
                Ok((stream, _)) => {
                    // If it were not watched, the end of the connection would not be noticed.
                    let _ = self.attach(stream);
                    return;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => l.ready = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let taken = match UnixListener::bind(path) {
        Err(e) if e.kind() == ErrorKind::AddrInUse => e,
        other => return other,
    };
    let socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    // Only a socket left behind by a program that no longer runs.
    let left = socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
    if !left {
        return Err(taken);
    }
    fs::remove_file(path)?;
    UnixListener::bind(path)
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

impl Peer {
    /// Moves bytes; an error ends the connection.
    fn pump(&mut self) -> io::Result<()> {
        while self.writable && !self.out.is_empty() {
            match self.stream.write(self.out.as_slices().0) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let mut chunk = Vec::new();
        while self.readable && self.frames.len() < QUEUE_FRAMES {
            chunk.resize(CHUNK, 0);
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.take(&chunk[..n])?,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Splits the received bytes into frames; anything else is an error.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.extend_from_slice(bytes);
        let mut rest = &self.part[..];
        while let Some((head, body)) = rest.split_first_chunk::<LENGTH>() {
            let length = u32::from_be_bytes(*head) as usize;
            if length > MAX_FRAME {
                return Err(ErrorKind::InvalidData.into());
            }
            let Some(frame) = body.get(..length) else {
                break;
            };
            if length >= SHORTEST {
                self.frames.push_back(Frame::plain(frame.to_vec()));
            }
            rest = &body[length..];
        }
        let used = self.part.len() - rest.len();
        self.part.drain(..used);
        Ok(())
    }
}

impl Link for Wire {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn is_up(&self) -> bool {
        self.peer.is_some()
    }

    fn is_ready(&self) -> bool {
        self.peer.as_ref().is_none_or(|p| p.out.len() < QUEUE_BYTES)
    }

    fn send(&mut self, _: Duration, frame: Frame) {
        // Without another machine, and if the guest does not wait, frames are lost, as on any wire.
        let Some(p) = &mut self.peer else { return };
        for frame in finish(frame).unwrap_or_default() {
            let length = frame.bytes.len();
            let fits = (SHORTEST..=MAX_FRAME).contains(&length);
            if fits && p.out.len() < 2 * QUEUE_BYTES {
                p.out.extend((length as u32).to_be_bytes());
                p.out.extend(frame.bytes);
            }
        }
    }

    fn run(&mut self, _: Duration) {
        self.accept();
        let Some(p) = &mut self.peer else { return };
        if p.pump().is_ok() {
            return;
        }
        if let Some(mut p) = self.peer.take() {
            let _ = self.poll.registry().deregister(&mut p.stream);
        }
        self.accept();
    }

    fn poll(&mut self, now: Duration) -> Result<(), Error> {
        look(&mut self.poll, &mut self.events)?;
        for event in &self.events {
            match (event.token(), &mut self.listener, &mut self.peer) {
                (LISTENER, Some(l), _) => l.ready = true,
                (PEER, _, Some(p)) => {
                    p.readable |= event.is_readable() || event.is_read_closed();
                    p.writable |= event.is_writable() || event.is_write_closed();
                }
                _ => {}
            }
        }
        self.run(now);
        Ok(())
    }

    fn receive(&mut self) -> Option<Frame> {
        self.peer.as_mut()?.frames.pop_front()
    }

    fn next_time(&mut self, _: Duration) -> Option<Duration> {
        None
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    fn is_live(&self, _: Duration) -> bool {
        self.listener.is_some() || self.peer.is_some()
    }

    fn set_guest(&mut self, _: Guest) {}

    fn reset(&mut self) {
        if let Some(p) = &mut self.peer {
            p.frames.clear();
        }
    }
}
