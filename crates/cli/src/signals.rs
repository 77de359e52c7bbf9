//! Signals that end a run, seen between slices of guest time.

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Catches SIGINT, SIGTERM and SIGHUP from its creation to its end.
pub struct Signals {
    caught: Arc<AtomicUsize>,
    wake: UnixStream,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    /// Starts to catch.
    pub fn catch() -> anyhow::Result<Signals> {
        let caught = Arc::new(AtomicUsize::new(0));
        // Whoever sleeps until input comes is woken through a socket.
        let (wake, sender) = UnixStream::pair().context("cannot make a socket pair")?;
        wake.set_nonblocking(true)
            .context("cannot make a socket pair")?;
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = signal as usize;
            let set = signal_hook::flag::register_usize(signal, caught.clone(), number);
            ids.push(set.context("cannot catch signals")?);
            let sender = sender.try_clone().context("cannot make a socket pair")?;
            let tell = signal_hook::low_level::pipe::register(signal, sender);
            ids.push(tell.context("cannot catch signals")?);
        }
        Ok(Signals { caught, wake, ids })
    }

    /// The signal that came last, if any.
    pub fn caught(&self) -> Option<u8> {
        u8::try_from(self.caught.load(Ordering::Relaxed))
            .ok()
            .filter(|&n| n != 0)
    }

    /// Goes on as if none had come.
    pub fn forget(&self) {
        self.caught.store(0, Ordering::Relaxed);
        let mut buffer = [0; 64];
        // One that comes meanwhile is seen again, at the latest when it is the second.
        while matches!((&self.wake).read(&mut buffer), Ok(n) if n == buffer.len()) {}
    }

    /// Becomes readable when a signal comes.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
