//! An interface of the host's kernel.

use crate::link::{look, Frame, Guest, Link, MAX_FRAME};
use crate::offload::finish;
use crate::Error;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Number of queued bytes for the guest from which on the kernel has to wait.
const QUEUE_FRAMES: usize = 256;
/// Number of queued bytes for the kernel from which on the guest has to wait.
const QUEUE_OUT: usize = 256;

/// A TAP interface of the host.
pub struct Tap {
    device: SyncDevice,
    poll: Poll,
    events: Events,
    readable: bool,
    writable: bool,
    out: VecDeque<Frame>,
    frames: VecDeque<Frame>,
}

impl Tap {
    /// Opens an interface, which may have been created for this user before; otherwise it is
    /// created, which needs the right to administer networks. Whether it is up is not changed.
    pub fn open(name: &str) -> Result<Tap, Error> {
        let failed = |source| Error::Tap {
            name: name.into(),
            source,
        };
        let device = DeviceBuilder::new()
            .name(name)
            .layer(Layer::L2)
            .packet_information(false)
            .inherit_enable_state()
            .build_sync()
            .map_err(failed)?;
        device.set_nonblocking(true).map_err(failed)?;
        let poll = Poll::new().map_err(Error::Watch)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut SourceFd(&device.as_raw_fd()), Token(0), interest)
            .map_err(Error::Watch)?;
        Ok(Tap {
            device,
            poll,
            events: Events::with_capacity(8),
            readable: true,
            writable: true,
            out: VecDeque::new(),
            frames: VecDeque::new(),
        })
    }
}

/// Whether the error only means that the interface is down at the moment.
fn is_down(e: &io::Error) -> bool {
    // EIO and EBADFD: written or read while down.
    matches!(e.raw_os_error(), Some(5 | 77))
}

impl Link for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        self.out.len() < QUEUE_OUT
    }

    fn send(&mut self, _: Duration, frame: Frame) {
        for frame in finish(frame).unwrap_or_default() {
            if self.out.len() < 2 * QUEUE_OUT {
                self.out.push_back(frame);
            }
        }
    }

    fn run(&mut self, _: Duration) {
        while self.writable {
            let Some(frame) = self.out.front() else { break };
            match self.device.send(&frame.bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    break;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // Frames that the kernel does not accept are lost, as on any wire.
                _ => drop(self.out.pop_front()),
            }
        }
        let mut buffer = Vec::new();
        while self.readable && self.frames.len() < QUEUE_FRAMES {
            buffer.resize(MAX_FRAME, 0);
            match self.device.recv(&mut buffer) {
                Ok(0) => self.readable = false,
                Ok(n) => self.frames.push_back(Frame::plain(buffer[..n].to_vec())),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.readable = false;
                    debug_assert!(e.kind() == ErrorKind::WouldBlock || is_down(&e), "{e}");
                }
            }
        }
    }

    fn poll(&mut self, now: Duration) -> Result<(), Error> {
        look(&mut self.poll, &mut self.events)?;
        for event in &self.events {
            self.readable |= event.is_readable();
            self.writable |= event.is_writable();
        }
        self.run(now);
        Ok(())
    }

    fn receive(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    fn next_time(&mut self, _: Duration) -> Option<Duration> {
        None
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    fn is_live(&self, _: Duration) -> bool {
        true
    }

    fn set_guest(&mut self, _: Guest) {}

    fn reset(&mut self) {
        self.frames.clear();
    }
}
