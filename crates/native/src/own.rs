//! Programs that are started here. A helper in C (`helper/`) is loaded into them with LD_PRELOAD; at the end of each
//! epoch it asks this monitor through a socket how long to wait, and waits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nagori_epoch::record::Cause;
use nagori_epoch::PerLine;
use nagori_memtime::Ps;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::{self, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::host::System;
use crate::monitor::{Monitor, Report};
use crate::source::{Clocks, Tid};
use crate::Error;

/// The helper, compiled by build.rs.
const HELPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/helper.so"));
/// `MAGIC` of helper.h.
const MAGIC: u32 = 0x6e67_6f31;
/// Sizes of `struct request` and `struct answer`.
const REQUEST: usize = 64;
const ANSWER: usize = 48;

/// Time between two looks at whether the user wants an end.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Time between two looks at whether somebody runs without the helper.
const LOOK: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended.
    pub status: ExitStatus,
    /// What became of its threads.
    pub report: Report,
}

/// What a thread said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    kind: u32,
    pid: i32,
    tid: Tid,
    cause: Cause,
    clocks: Clocks,
    stopped: u64,
    flushed: u64,
    nt: u64,
}

impl Request {
    fn parse(bytes: &[u8]) -> Option<Request> {
        if bytes.len() != REQUEST {
            return None;
        }
        let word =
            |i: usize| u32::from_ne_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap_or_default());
        let long =
            |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap_or_default());
        let cause = match word(4) {
            0 => Cause::Time,
            1 => Cause::Sync,
            2 => Cause::Fork,
            3 => Cause::Exec,
            4 => Cause::Exit,
            _ => return None,
        };
        (word(0) == MAGIC && word(1) <= 2).then_some(Request {
            kind: word(1),
            pid: word(2) as i32,
            tid: Tid(word(3) as i32),
            cause,
            clocks: Clocks {
                now: long(3),
                busy: long(4),
            },
            stopped: long(5),
            flushed: long(6),
            nt: long(7),
        })
    }
}

/// What a flushed or stored line waits for, in picoseconds: what the emulated memory takes longer than the host's.
fn per_line(cost: Option<PerLine>, write: Ps) -> u64 {
    cost.map_or(0, |c| {
        write.saturating_sub(c.base).0.saturating_mul(1000) / u64::from(c.overlap.0.max(1))
    })
}

/// A connection of a thread; before it has said who it is, of nobody.
struct Connection {
    socket: OwnedFd,
    thread: Option<(Tid, i32)>,
    /// It has said that it ends.
    done: bool,
}

/// Runs a program to its end, and all its children.
///
/// # Errors
/// If the program cannot be emulated (it is not found, or is linked statically), if a thread of it escapes, or if the
/// source fails, or if `ended` says that the user wants it; then the program is ended.
pub fn run(
    program: &OsStr,
    arguments: &[OsString],
    monitor: Monitor,
    ended: &dyn Fn() -> bool,
) -> Result<Outcome, Error> {
    let path = find(program)?;
    check_program(&path)?;
    let folder = tempfile::Builder::new()
        .prefix("nagori-native-")
        .tempdir()
        .map_err(|e| Error::io("a folder for the helper", e))?;
    let helper = folder.path().join("nagori-helper.so");
    std::fs::write(&helper, HELPER).map_err(|e| Error::io(helper.display().to_string(), e))?;
    let socket = folder.path().join("monitor");
    let listener = listen(&socket).map_err(|e| Error::io(socket.display().to_string(), e))?;

    let mut preload = OsString::from(&helper);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|o| !o.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let child = Command::new(&path)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("NAGORI_NATIVE_SOCKET", &socket)
        .spawn()
        .map_err(|e| Error::Program {
            program: path.display().to_string(),
            why: e.to_string(),
        })?;
    let started = Instant::now();
    let before = cpu_ns();
    let mut server = Server {
        monitor,
        listener,
        connections: Vec::new(),
        greeted: BTreeMap::new(),
        seen: BTreeSet::new(),
        suspects: BTreeSet::new(),
        looked: Instant::now(),
    };
    let mut child = Guard(child);
    let status = server.serve(&mut child.0, ended)?;
    let mut report = server.monitor.finish();
    report.run_ns = started.elapsed().as_nanos() as u64;
    report.monitor_cpu_ns = cpu_ns().saturating_sub(before);
    if server.greeted.is_empty() {
        let why = "it ended without having loaded the helper, so it ran without emulation".into();
        return Err(Error::Program {
            program: path.display().to_string(),
            why,
        });
    }
    Ok(Outcome { status, report })
}

/// Processor time of this process.
pub(crate) fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Ends the program if the monitor ends first.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It may have ended meanwhile.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = net::socket_with(
        net::AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, 1024)?;
    Ok(socket)
}

struct Server {
    monitor: Monitor,
    listener: OwnedFd,
    connections: Vec<Connection>,
    /// Processes that have loaded the helper, with the number of their connections.
    greeted: BTreeMap<i32, usize>,
    /// Threads that have said who they are.
    seen: BTreeSet<i32>,
    /// Threads and children that had not when it was looked last, with their processes.
    suspects: BTreeSet<(i32, i32)>,
    looked: Instant,
}

impl Server {
    /// Serves until the program and all its threads have ended.
    fn serve(&mut self, child: &mut Child, stop: &dyn Fn() -> bool) -> Result<ExitStatus, Error> {
        let pid = Pid::from_child(child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| Error::io("pidfd_open", e))?;
        let mut status = None;
        while status.is_none() || !self.connections.is_empty() {
            if stop() {
                return Err(Error::Incomplete("ended by the user".into()));
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.look()?;
            }
            let ready = self.wait(&ended, status.is_none())?;
            // Requests before ends: the last words of a process count.
            let mut gone = Vec::new();
            for (i, &ready) in ready[2..].iter().enumerate() {
                if ready && !self.hear(i)? {
                    gone.push(i);
                }
            }
            for i in gone.into_iter().rev() {
                let c = self.connections.swap_remove(i);
                self.ended(&c);
            }
            if ready[1] {
                self.accept()?;
            }
            if ready[0] {
                status = child.try_wait().map_err(|e| Error::io("wait", e))?;
            }
        }
        status.ok_or_else(|| Error::Incomplete("the program has no status".into()))
    }

    /// Looks for threads and children into which no helper was loaded: they would run without emulation. One that is
    /// seen twice is one too many.
    fn look(&mut self) -> Result<(), Error> {
        let mut found = BTreeSet::new();
        let number = |text: &str| text.parse::<i32>().ok();
        for &pid in self.greeted.keys() {
            let system = System::default();
            for tid in system
                .list(&format!("proc/{pid}/task"))
                .iter()
                .filter_map(|n| number(n))
            {
                if !self.seen.contains(&tid) {
                    found.insert((pid, tid));
                }
                let children = system
                    .read(&format!("proc/{pid}/task/{tid}/children"))
                    .unwrap_or_default();
                for child in children.split_whitespace().filter_map(number) {
                    let zombie = system
                        .read(&format!("proc/{child}/cmdline"))
                        .is_none_or(|c| c.is_empty());
                    if !self.greeted.contains_key(&child) && !zombie {
                        found.insert((pid, child));
                    }
                }
            }
        }
        if let Some((pid, other)) = found.intersection(&self.suspects).next() {
            let why = format!(
                "{other} (a thread or child of process {pid}) runs without the helper, so without \
                emulation"
            );
            return Err(Error::Incomplete(why));
        }
        self.suspects = found;
        Ok(())
    }

    /// Waits until something happens: for the child, the listener, and each connection.
    fn wait(&self, ended: &OwnedFd, running: bool) -> Result<Vec<bool>, Error> {
        let flags = |wanted| {
            if wanted {
                PollFlags::IN
            } else {
                PollFlags::empty()
            }
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(ended.as_fd(), flags(running)),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        fds.extend(
            self.connections
                .iter()
                .map(|c| PollFd::from_borrowed_fd(c.socket.as_fd(), PollFlags::IN)),
        );
        match poll(&mut fds, Some(&TICK)) {
            Ok(_) => Ok(fds.iter().map(|f| !f.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
            Err(e) => Err(Error::io("poll", e)),
        }
    }

    fn accept(&mut self) -> Result<(), Error> {
        loop {
            match net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => self.connections.push(Connection {
                    socket,
                    thread: None,
                    done: false,
                }),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(e) => return Err(Error::io("a connection of the helper", e)),
            }
        }
    }

    /// Hears a thread, and answers. `false`: it has hung up.
    fn hear(&mut self, i: usize) -> Result<bool, Error> {
        let mut bytes = [0; REQUEST + 1];
        let n = match net::recv(&self.connections[i].socket, &mut bytes, RecvFlags::empty()) {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Ok(false),
            Ok((n, _)) => n,
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(e) => return Err(Error::io("the helper's socket", e)),
        };
        let Some(request) = Request::parse(&bytes[..n]) else {
            return Err(Error::Incomplete(
                "the helper in the program is not of this nagori".into(),
            ));
        };
        let answered = self.answer(i, request);
        let words = match &answered {
            Ok(due) => self.words(0, *due),
            Err(_) => self.words(1, 0),
        };
        // A thread that ends does not listen any more; one that has been killed cannot.
        if request.kind != 2 {
            let _ = net::send(&self.connections[i].socket, &words, SendFlags::NOSIGNAL);
        }
        answered.map(|_| true)
    }

    fn answer(&mut self, i: usize, r: Request) -> Result<u64, Error> {
        self.monitor.waited(r.tid, r.stopped);
        self.monitor.lines(r.tid, r.flushed, r.nt);
        match r.kind {
            0 => {
                self.connections[i].thread = Some((r.tid, r.pid));
                *self.greeted.entry(r.pid).or_insert(0) += 1;
                self.seen.insert(r.tid.0);
                self.monitor.attach(r.tid, r.pid, r.clocks)?;
                Ok(0)
            }
            1 => {
                // After a program has closed our socket, its thread comes back with another one.
                self.connections[i].thread = Some((r.tid, r.pid));
                self.monitor.close(r.tid, r.clocks, r.cause)
            }
            _ => {
                self.connections[i].done = true;
                self.connections[i].thread = Some((r.tid, r.pid));
                self.monitor.detach(r.tid);
                Ok(0)
            }
        }
    }

    /// A connection was closed: by a thread that has ended or was killed, by another program that has taken over, or by
    /// a program that closes all its files. In the last two cases the thread comes back.
    fn ended(&mut self, c: &Connection) {
        let Some((tid, pid)) = c.thread else { return };
        let back = self.connections.iter().any(|o| o.thread == c.thread);
        let alive = Path::new(&format!("/proc/{pid}/task/{}", tid.0)).exists();
        if !c.done && !back && !alive {
            self.monitor.detach(tid);
        }
    }

    fn words(&self, verdict: u32, due: u64) -> [u8; ANSWER] {
        let params = self.monitor.model().params();
        let epochs = self.monitor.epochs();
        let mut bytes = [0; ANSWER];
        bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..8].copy_from_slice(&verdict.to_ne_bytes());
        let longs = [
            due,
            epochs.length,
            epochs.least,
            per_line(params.flush, params.write),
            per_line(params.nt_store, params.write),
        ];
        for (place, long) in bytes[8..].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&long.to_ne_bytes());
        }
        bytes
    }
}

/// Where a program is.
fn find(program: &OsStr) -> Result<PathBuf, Error> {
    let given = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return Ok(given.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|d| d.join(given))
        .find(|p| p.is_file());
    found.ok_or_else(|| Error::Program {
        program: program.to_string_lossy().into_owned(),
        why: "there is no such program in PATH".into(),
    })
}

/// Refuses programs into which the dynamic linker will load no helper.
///
/// # Errors
/// If the program (or the interpreter that its first line names) cannot be read, is no ELF file, or is linked
/// statically.
pub fn check_program(path: &Path) -> Result<(), Error> {
    let wrong = |why: &str| {
        Err(Error::Program {
            program: path.display().to_string(),
            why: why.into(),
        })
    };
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(1 << 16).read_to_end(&mut head));
    if let Err(e) = read {
        return wrong(&e.to_string());
    }
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let name = line
            .split(|b| b.is_ascii_whitespace())
            .find(|w| !w.is_empty());
        return match name {
            Some(name) if Path::new(OsStr::from_bytes(name)) != path => {
                check_program(Path::new(OsStr::from_bytes(name)))
            }
            _ => wrong("its first line names no interpreter"),
        };
    }
    if !head.starts_with(b"\x7fELF") || head.get(4) != Some(&2) || head.get(5) != Some(&1) {
        return wrong("it is no ELF file of 64 bits for this host");
    }
    let number = |at: usize, n: usize| {
        let bytes = head.get(at..at + n)?;
        Some(bytes.iter().rev().fold(0u64, |a, &b| a << 8 | u64::from(b)))
    };
    let (Some(headers), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return wrong("its ELF header is cut off");
    };
    let dynamic = (0..count).any(|i| {
        let at = headers
            .checked_add(i * size)
            .and_then(|a| usize::try_from(a).ok());
        // PT_INTERP
        at.is_some_and(|at| at < 1 << 16 && number(at, 4) == Some(3))
    });
    if !dynamic {
        return wrong("it is linked statically, so the helper cannot be loaded into it; --pid or --tid stop it from \
            outside");
    }
    Ok(())
}
