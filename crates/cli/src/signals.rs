//! Signals that end a command: seen between slices of guest time and other pieces of work.

use anyhow::Context;
use nagori_session::{Caller, Interrupted};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process, Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a command may take to notice a signal before it is ended from outside.
const GRACE: Duration = Duration::from_secs(10);
/// Signals after which nothing is waited for any more.
const ENOUGH: usize = 3;
/// Between looks at a command that has not noticed a signal yet.
const TICK: Duration = Duration::from_millis(50);

/// Added to a signal's number in the exit code of a command that it has ended (as shells do it).
pub const EXIT: u8 = 128;

/// The signal that an error stands for, if it does.
pub fn interrupted(e: &anyhow::Error) -> Option<u8> {
    let own = e.downcast_ref().map(|i: &Interrupted| i.0);
    let session = |e: &nagori_session::Error| e.interrupted();
    own.or_else(|| e.downcast_ref().and_then(session))
}

/// Puts something right before the process ends.
type Undo = Box<dyn Fn() + Send>;

/// What the command and the thread that watches it share.
#[derive(Default)]
struct Shared {
    /// The command has noticed the signal, and comes to its end.
    noticed: AtomicBool,
    /// It waits for programs that it has started.
    outside: AtomicUsize,
    /// Signals since the last that was forgotten.
    count: AtomicUsize,
    undo: Mutex<Vec<Undo>>,
}

/// Catches SIGINT, SIGTERM and SIGHUP from its creation to its end.
///
/// A command looks at [`Signals::caught`] now and then. One that does not, because it is stuck in
/// the host, is ended by a thread of its own: after some seconds, or by the third signal.
pub struct Signals {
    caught: Arc<AtomicUsize>,
    wake: UnixStream,
    shared: Arc<Shared>,
    ids: Vec<signal_hook::SigId>,
    /// Keeps `wake` silent where nothing is caught.
    _silent: Option<UnixStream>,
}

impl Signals {
    /// Starts to catch.
    pub fn catch() -> anyhow::Result<Signals> {
        const PAIR: &str = "cannot make a socket pair";
        let caught = Arc::new(AtomicUsize::new(0));
        // Whoever sleeps until input comes is woken through a socket.
        let (wake, sender) = UnixStream::pair().context(PAIR)?;
        wake.set_nonblocking(true).context(PAIR)?;
        let (alarm, bell) = UnixStream::pair().context(PAIR)?;
        alarm.set_nonblocking(true).context(PAIR)?;
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = signal as usize;
            let set = signal_hook::flag::register_usize(signal, caught.clone(), number);
            ids.push(set.context("cannot catch signals")?);
            for sender in [&sender, &bell] {
                let sender = sender.try_clone().context(PAIR)?;
                let tell = signal_hook::low_level::pipe::register(signal, sender);
                ids.push(tell.context("cannot catch signals")?);
            }
        }
        let shared = Arc::new(Shared::default());
        let watched = (shared.clone(), caught.clone());
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || watch(&alarm, &watched.0, &watched.1))
            .context("cannot start a thread for signals")?;
        Ok(Signals {
            caught,
            wake,
            shared,
            ids,
            _silent: None,
        })
    }

    /// Leaves signals to the system: for commands that have nothing to put right.
    pub fn uncaught() -> anyhow::Result<Signals> {
        const PAIR: &str = "cannot make a socket pair";
        let (wake, silent) = UnixStream::pair().context(PAIR)?;
        wake.set_nonblocking(true).context(PAIR)?;
        Ok(Signals {
            caught: Arc::default(),
            wake,
            shared: Arc::default(),
            ids: Vec::new(),
            _silent: Some(silent),
        })
    }

    /// The signal that came last, if any.
    pub fn caught(&self) -> Option<u8> {
        let number = u8::try_from(self.caught.load(SeqCst)).ok();
        let number = number.filter(|&n| n != 0);
        if number.is_some() {
            self.shared.noticed.store(true, SeqCst);
        }
        number
    }

    /// An error if a signal came: [`Interrupted`].
    pub fn check(&self) -> anyhow::Result<()> {
        match self.caught() {
            Some(n) => Err(Interrupted(n).into()),
            None => Ok(()),
        }
    }

    /// Goes on as if none had come.
    pub fn forget(&self) {
        self.caught.store(0, SeqCst);
        self.shared.count.store(0, SeqCst);
        self.shared.noticed.store(false, SeqCst);
        let mut buffer = [0; 64];
        // One that comes meanwhile is seen again, at the latest when it is the second.
        while matches!((&self.wake).read(&mut buffer), Ok(n) if n == buffer.len()) {}
    }

    /// Becomes readable when a signal comes.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Does work in other programs, which a signal ends. It is an error that one has come, whatever
    /// the work says.
    pub fn outside<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        self.check()?;
        let done = {
            self.shared.outside.fetch_add(1, SeqCst);
            let _leave = Leave(&self.shared.outside);
            work()
        };
        self.check()?;
        done
    }

    /// Has something put right if the process must end where it is.
    pub fn at_end(&self, undo: impl Fn() + Send + 'static) {
        let mut all = self
            .shared
            .undo
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(undo));
    }
}

/// A run that nobody is told of, and that signals end.
impl Caller for Signals {
    fn interrupted(&self) -> Option<u8> {
        self.caught()
    }

    fn forget(&self) {
        Signals::forget(self);
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(Signals::wake(self))
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Waits for signals until nobody catches them any more, and for the command to notice them.
fn watch(alarm: &UnixStream, shared: &Shared, caught: &AtomicUsize) {
    let (mut since, mut told) = (None, BTreeSet::new());
    loop {
        let waiting = since.is_some();
        let tick = Timespec::try_from(TICK).ok().filter(|_| waiting);
        let mut fds = [PollFd::new(alarm, PollFlags::IN)];
        let ready = matches!(poll(&mut fds, tick.as_ref()), Ok(n) if n > 0);
        if ready {
            let mut signals = [0; 64];
            let mut alarm = alarm;
            match alarm.read(&mut signals) {
                Ok(0) => return,
                Ok(n) => {
                    shared.count.fetch_add(n, SeqCst);
                    since.get_or_insert_with(Instant::now);
                }
                Err(_) => {}
            }
        }
        let number = caught.load(SeqCst);
        if shared.count.load(SeqCst) >= ENOUGH {
            give_up(shared, number);
        }
        let Some(begin) = since else { continue };
        let outside = shared.outside.load(SeqCst) > 0;
        if number == 0 || shared.noticed.load(SeqCst) && !outside {
            since = None;
        } else if begin.elapsed() > GRACE {
            give_up(shared, number);
        } else if outside {
            // Each once: a second signal would keep it from putting things right.
            for pid in children() {
                if told.insert(pid.as_raw_nonzero()) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    }
}

/// Ends the process in the middle of what it does.
fn give_up(shared: &Shared, number: usize) -> ! {
    if let Ok(all) = shared.undo.lock() {
        all.iter().for_each(|undo| undo());
    }
    for pid in children() {
        let _ = kill_process(pid, Signal::KILL);
    }
    let signal = u8::try_from(number).unwrap_or(SIGINT as u8);
    std::process::exit(i32::from(EXIT.saturating_add(signal)));
}

/// The programs that this process has started and that still run. Where the system does not list
/// them there are none, and they end by themselves.
fn children() -> Vec<Pid> {
    let mut all = Vec::new();
    let threads = std::fs::read_dir("/proc/self/task");
    for thread in threads.into_iter().flatten().flatten() {
        let list = std::fs::read_to_string(thread.path().join("children"));
        let list = list.unwrap_or_default();
        let numbers = list.split_whitespace().filter_map(|n| n.parse().ok());
        all.extend(numbers.filter_map(Pid::from_raw));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_are_found_behind_context() {
        let e = Err::<(), _>(Interrupted(15)).context("the boot failed");
        assert_eq!(interrupted(&e.unwrap_err()), Some(15));
        assert_eq!(interrupted(&anyhow::anyhow!("ended by signal 15")), None);
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        assert!(children().contains(&Pid::from_child(&child)));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_done_outside_counts_if_no_signal_came() {
        let signals = Signals::uncaught().unwrap();
        assert_eq!(signals.outside(|| Ok(7)).unwrap(), 7);
        let failed = signals.outside(|| -> anyhow::Result<()> { anyhow::bail!("no") });
        assert!(failed.is_err());
        signals.caught.store(2, SeqCst);
        let e = signals.outside(|| Ok(7)).unwrap_err();
        assert_eq!(interrupted(&e), Some(2));
        signals.forget();
        assert!(signals.check().is_ok());
    }
}
