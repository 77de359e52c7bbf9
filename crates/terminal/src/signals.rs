//! Signals that end a command: checked between slices of guest time and other pieces of work.

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

/// How long a command may take to react to a signal before it is ended from outside.
const GRACE: Duration = Duration::from_secs(10);
/// How long a command may take that has other programs do work, if none of them runs that would have to end first.
const SOON: Duration = Duration::from_secs(1);
/// Number of signals after which the process ends at once.
const ENOUGH: usize = 3;
/// Time between checks of a command that has not reacted to a signal yet.
const TICK: Duration = Duration::from_millis(50);

/// Added to a signal's number to give the exit code of a command that it ended (as in shells).
pub const EXIT: u8 = 128;

/// The signal for which an error stands, if any.
pub fn interrupted(e: &anyhow::Error) -> Option<u8> {
    let own = e.downcast_ref().map(|i: &Interrupted| i.0);
    let session = |e: &nagori_session::Error| e.interrupted();
    own.or_else(|| e.downcast_ref().and_then(session))
}

/// Work to be done before the process ends, such as restoring the terminal.
type Undo = Box<dyn Fn() + Send>;

/// State shared by the command and the thread that watches it.
#[derive(Default)]
struct Shared {
    /// The command has noticed the signal, and is ending.
    noticed: AtomicBool,
    /// It waits for programs that it has started.
    outside: AtomicUsize,
    /// Number of signals since the last one that was passed on.
    count: AtomicUsize,
    undo: Mutex<Vec<Undo>>,
}

/// Catches SIGINT, SIGTERM and SIGHUP for as long as it exists.
///
/// A command checks [`Signals::caught`] regularly. A command that does not, because it is blocked
/// in the host, is ended by a thread of its own: after some seconds, or by the third signal.
pub struct Signals {
    caught: Arc<AtomicUsize>,
    wake: UnixStream,
    shared: Arc<Shared>,
    ids: Vec<signal_hook::SigId>,
    /// Keeps `wake` silent if no signals are caught.
    _silent: Option<UnixStream>,
}

impl Signals {
    /// Starts to catch signals.
    pub fn catch() -> anyhow::Result<Signals> {
        const PAIR: &str = "cannot make a socket pair";
        let caught = Arc::new(AtomicUsize::new(0));
        // A command that sleeps until input arrives is woken through a socket.
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

    /// Leaves signals to the system: for commands that have nothing to clean up.
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

    /// The last signal, if any.
    pub fn caught(&self) -> Option<u8> {
        let number = u8::try_from(self.caught.load(SeqCst)).ok();
        let number = number.filter(|&n| n != 0);
        if number.is_some() {
            self.shared.noticed.store(true, SeqCst);
        }
        number
    }

    /// An error if a signal has arrived: [`Interrupted`].
    pub fn check(&self) -> anyhow::Result<()> {
        match self.caught() {
            Some(n) => Err(Interrupted(n).into()),
            None => Ok(()),
        }
    }

    /// Continues as if no signal had arrived.
    pub fn forget(&self) {
        self.caught.store(0, SeqCst);
        self.shared.count.store(0, SeqCst);
        self.shared.noticed.store(false, SeqCst);
        let mut buffer = [0; 64];
        // A signal that arrives meanwhile is noticed again, at the latest when it is the second.
        while matches!((&self.wake).read(&mut buffer), Ok(n) if n == buffer.len()) {}
    }

    /// A descriptor that becomes readable when a signal arrives.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Does work in other programs, which a signal ends. If one has arrived, that is the error,
    /// whatever the work returns.
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

    /// Registers work that is done if the process must end at once.
    pub fn at_end(&self, undo: impl Fn() + Send + 'static) {
        let mut all = self
            .shared
            .undo
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(undo));
    }
}

/// A run that prints no messages, and that signals end.
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

/// Waits for signals until they are no longer caught, and for the command to react to them.
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
            let running = children();
            if running.is_empty() && !shared.noticed.load(SeqCst) && begin.elapsed() > SOON {
                give_up(shared, number);
            }
            // Each only once: otherwise a second signal would interrupt the clean-up.
            for pid in running {
                if told.insert(pid.as_raw_nonzero()) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
        }
    }
}

/// Ends the process at once.
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

/// The programs that this process has started and that still run. If the system does not list them,
/// the result is empty, and they end by themselves.
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
