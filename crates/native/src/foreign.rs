//! Threads of others, stopped from outside: by ptrace each one alone, or by SIGSTOP and SIGCONT a whole process.
//!
//! At the end of each epoch a thread is stopped, its counters are read, and it goes on when what is due has passed. The
//! time of the reading is a part of the waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nagori_epoch::record::Cause;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::host::System;
use crate::monitor::{Monitor, Report};
use crate::source::{Clocks, Tid};
use crate::Error;

/// How threads are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Each thread alone, by ptrace. A debugger cannot be attached meanwhile.
    Thread,
    /// Its whole process, by SIGSTOP, as in the paper: for processes of one thread, or whose threads may stop together.
    Process,
}

/// Which threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Threads with their processes.
    pub threads: Vec<(Tid, i32)>,
    /// Whether threads that are started later belong to them.
    pub follow: bool,
    /// How they are stopped.
    pub stop: Stop,
}

/// Every thread of a process.
///
/// # Errors
/// If there is no such process.
pub fn threads_of(system: &System, pid: i32) -> Result<Vec<(Tid, i32)>, Error> {
    let names = system.list(&format!("proc/{pid}/task"));
    let threads: Vec<_> = names
        .iter()
        .filter_map(|n| Some((Tid(n.parse().ok()?), pid)))
        .collect();
    if threads.is_empty() {
        return Err(Error::Program {
            program: format!("process {pid}"),
            why: "there is no such process".into(),
        });
    }
    Ok(threads)
}

/// The process of a thread.
///
/// # Errors
/// If there is no such thread.
pub fn process_of(system: &System, tid: i32) -> Result<i32, Error> {
    let status = system
        .read(&format!("proc/{tid}/status"))
        .unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"));
    line.and_then(|l| l.trim().parse().ok())
        .ok_or_else(|| Error::Program {
            program: format!("thread {tid}"),
            why: "there is no such thread".into(),
        })
}

/// Whether a thread runs, or waits to be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until its epoch ends.
    Runs(Instant),
    /// It has been asked to stop.
    Stopping,
    /// Since the first moment, until the second one.
    Waits(Instant, Instant),
}

struct Thread {
    pid: i32,
    state: State,
    busy: u64,
}

struct Foreign<'a> {
    monitor: Monitor,
    system: &'a System,
    threads: BTreeMap<Tid, Thread>,
    stop: Stop,
    follow: bool,
    length: Duration,
    started: Instant,
}

/// Emulates slower memory for threads until all of them have ended, or until `ended` says so.
///
/// # Errors
/// If a thread cannot be stopped, or the source fails; then all threads run on, without emulation.
pub fn run(
    targets: &Targets,
    monitor: Monitor,
    system: &System,
    ended: &dyn Fn() -> bool,
) -> Result<Report, Error> {
    let length = Duration::from_nanos(monitor.epochs().length);
    let (stop, follow) = (targets.stop, targets.follow);
    let before = crate::own::cpu_ns();
    let mut foreign = Foreign {
        monitor,
        system,
        threads: BTreeMap::new(),
        stop,
        follow,
        length,
        started: Instant::now(),
    };
    let result = foreign.emulate(&targets.threads, ended);
    foreign.release();
    result?;
    let run_ns = foreign.started.elapsed().as_nanos() as u64;
    let mut report = foreign.monitor.finish();
    report.run_ns = run_ns;
    report.monitor_cpu_ns = crate::own::cpu_ns().saturating_sub(before);
    Ok(report)
}

/// Processor time of a thread in nanoseconds; `None` if it is gone.
pub fn busy_ns(system: &System, pid: i32, tid: Tid) -> Option<u64> {
    let text = system.read(&format!("proc/{pid}/task/{}/schedstat", tid.0))?;
    text.split_whitespace().next()?.parse().ok()
}

fn pid(tid: Tid) -> Pid {
    Pid::from_raw(tid.0)
}

impl Foreign<'_> {
    fn clocks(&self, tid: Tid, pid: i32) -> Option<Clocks> {
        let now = self.started.elapsed().as_nanos() as u64;
        Some(Clocks {
            now,
            busy: busy_ns(self.system, pid, tid)?,
        })
    }

    fn attach(&mut self, tid: Tid, process: i32) -> Result<(), Error> {
        let Some(clocks) = self.clocks(tid, process) else {
            return Ok(());
        };
        if self.stop == Stop::Thread {
            match ptrace::seize(pid(tid), Options::empty()) {
                Ok(()) => {}
                Err(Errno::ESRCH) => return Ok(()),
                Err(e) => {
                    let what = format!(
                        "thread {} cannot be stopped (ptrace needs the same user, and kernel.yama.ptrace_scope at 0, \
                         or root; and no debugger)",
                        tid.0
                    );
                    return Err(Error::io(what, e));
                }
            }
        }
        self.monitor.attach(tid, process, clocks)?;
        let state = State::Runs(Instant::now() + self.length);
        self.threads.insert(
            tid,
            Thread {
                pid: process,
                state,
                busy: clocks.busy,
            },
        );
        Ok(())
    }

    fn emulate(&mut self, first: &[(Tid, i32)], ended: &dyn Fn() -> bool) -> Result<(), Error> {
        for &(tid, process) in first {
            if self.stop == Stop::Process && self.threads.values().any(|t| t.pid == process) {
                let why =
                    "it has several threads, which can only be stopped one by one (by ptrace)"
                        .into();
                return Err(Error::Program {
                    program: format!("process {process}"),
                    why,
                });
            }
            self.attach(tid, process)?;
        }
        let mut looked = Instant::now();
        while !self.threads.is_empty() && !ended() {
            self.events()?;
            let now = Instant::now();
            if self.follow && self.stop == Stop::Thread && now.duration_since(looked) >= self.length
            {
                looked = now;
                self.newcomers()?;
            }
            let next = self.act(now)?;
            let now = Instant::now();
            if next > now {
                std::thread::sleep(
                    (next - now)
                        .min(self.length / 4)
                        .min(Duration::from_millis(1)),
                );
            }
        }
        Ok(())
    }

    /// Threads that were started since the last look.
    fn newcomers(&mut self) -> Result<(), Error> {
        let mut processes: Vec<i32> = self.threads.values().map(|t| t.pid).collect();
        processes.dedup();
        for process in processes {
            for (tid, process) in threads_of(self.system, process).unwrap_or_default() {
                if !self.threads.contains_key(&tid) {
                    self.attach(tid, process)?;
                }
            }
        }
        Ok(())
    }

    /// Takes note of what ptrace says: threads that have stopped, that got a signal, that have ended.
    fn events(&mut self) -> Result<(), Error> {
        if self.stop == Stop::Process {
            let system = self.system;
            let gone =
                |(tid, t): (&Tid, &Thread)| busy_ns(system, t.pid, *tid).is_none().then_some(*tid);
            let gone: Vec<Tid> = self.threads.iter().filter_map(gone).collect();
            gone.into_iter().for_each(|tid| self.ended(tid));
            return Ok(());
        }
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            loop {
                let flags = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
                match waitpid(pid(tid), Some(flags)) {
                    Ok(WaitStatus::StillAlive) => break,
                    Ok(WaitStatus::PtraceEvent(_, _, event)) => self.stopped(tid, event)?,
                    // A signal for the thread: it gets it.
                    Ok(WaitStatus::Stopped(_, signal)) => {
                        let _ = ptrace::cont(pid(tid), signal);
                    }
                    Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
                    | Err(Errno::ECHILD | Errno::ESRCH) => {
                        self.ended(tid);
                        break;
                    }
                    Ok(_) => break,
                    Err(Errno::EINTR) => {}
                    Err(e) => return Err(Error::io(format!("waiting for thread {}", tid.0), e)),
                }
            }
        }
        Ok(())
    }

    fn stopped(&mut self, tid: Tid, event: i32) -> Result<(), Error> {
        /// `PTRACE_EVENT_STOP`.
        const EVENT_STOP: i32 = 128;
        let ours = self
            .threads
            .get(&tid)
            .is_some_and(|t| t.state == State::Stopping);
        if event != EVENT_STOP || !ours {
            let _ = ptrace::cont(pid(tid), None);
            return Ok(());
        }
        self.close(tid)
    }

    fn ended(&mut self, tid: Tid) {
        self.threads.remove(&tid);
        self.monitor.detach(tid);
    }

    /// A thread has stopped: asks how long it has to wait.
    fn close(&mut self, tid: Tid) -> Result<(), Error> {
        let since = Instant::now();
        let Some(process) = self.threads.get(&tid).map(|t| t.pid) else {
            return Ok(());
        };
        let Some(clocks) = self.clocks(tid, process) else {
            return Ok(());
        };
        let due = self.monitor.close(tid, clocks, Cause::Time)?;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.busy = clocks.busy;
            thread.state = State::Waits(since, since + Duration::from_nanos(due));
        }
        Ok(())
    }

    /// Stops and continues what it is time for. Returns the next time at which there is something to do.
    fn act(&mut self, now: Instant) -> Result<Instant, Error> {
        let mut next = now + self.length;
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            let Some(thread) = self.threads.get_mut(&tid) else {
                continue;
            };
            match thread.state {
                State::Runs(until) if until <= now => {
                    // A thread that has not run since owes nothing new, and is not disturbed in its sleep.
                    let ran =
                        busy_ns(self.system, thread.pid, tid).is_some_and(|b| b > thread.busy);
                    if !ran {
                        thread.state = State::Runs(now + self.length);
                    } else if self.stop == Stop::Thread {
                        if ptrace::interrupt(pid(tid)).is_ok() {
                            thread.state = State::Stopping;
                        }
                        next = now;
                    } else {
                        let _ = kill(Pid::from_raw(thread.pid), Signal::SIGSTOP);
                        self.close(tid)?;
                        next = now;
                    }
                }
                State::Runs(until) => next = next.min(until),
                State::Stopping => next = now,
                State::Waits(since, until) if until <= Instant::now() => {
                    self.go_on(tid)?;
                    self.monitor.waited(tid, since.elapsed().as_nanos() as u64);
                }
                State::Waits(_, until) => next = next.min(until),
            }
        }
        Ok(next)
    }

    fn go_on(&mut self, tid: Tid) -> Result<(), Error> {
        let length = self.length;
        let Some(thread) = self.threads.get_mut(&tid) else {
            return Ok(());
        };
        thread.state = State::Runs(Instant::now() + length);
        let process = thread.pid;
        if self.stop == Stop::Thread {
            let _ = ptrace::cont(pid(tid), None);
            return Ok(());
        }
        let _ = kill(Pid::from_raw(process), Signal::SIGCONT);
        Ok(())
    }

    /// Lets all threads go on, without emulation from now on.
    fn release(&mut self) {
        for (&tid, thread) in &self.threads {
            match (self.stop, thread.state) {
                (Stop::Process, State::Waits(..)) => {
                    let _ = kill(Pid::from_raw(thread.pid), Signal::SIGCONT);
                }
                (Stop::Process, _) => {}
                (Stop::Thread, State::Runs(_)) => {
                    // Only a stopped thread can be let go.
                    let _ = ptrace::interrupt(pid(tid));
                    let _ = waitpid(pid(tid), Some(WaitPidFlag::__WALL));
                    let _ = ptrace::detach(pid(tid), None);
                }
                (Stop::Thread, State::Stopping) => {
                    let _ = waitpid(pid(tid), Some(WaitPidFlag::__WALL));
                    let _ = ptrace::detach(pid(tid), None);
                }
                (Stop::Thread, State::Waits(..)) => {
                    let _ = ptrace::detach(pid(tid), None);
                }
            }
        }
    }
}
