//! Traces of the host's programs: Valgrind runs a program, a tool for it tells which lines it
//! touches, and what the caches of a machine do not have becomes a memory trace.
//!
//! A page of the program's memory gets the next page of the trace's memory when it is first
//! touched. Time is the number of instructions. What the kernel reads and writes in system calls is
//! not seen, nor are other programs that this one starts.

mod events;
mod pages;
mod tool;

use crate::caller::{self, Caller};
use crate::error::{Context, Error, Result};
use crate::program::runnable;
use crate::MachineChoice;
use events::Events;
use nagori_hart::lines::standalone::{FirstLevelStats, Standalone};
use nagori_memtime::request::Kind;
use nagori_memtrace::error::Place;
use nagori_memtrace::record::LINE;
use nagori_memtrace::{Record, Source, Times};
use pages::Pages;
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

/// Machines in the header of an ELF file.
const X86_64: u16 = 62;
const RISCV: u16 = 243;
/// Greatest size of the trace's memory.
const MEMORY: u64 = 16 << 30;

/// A program of the host, and how to record it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program: a path, or a name that is looked up in PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Instructions for which the caches are filled, but nothing is recorded.
    pub skip: u64,
    /// The machine whose caches are between the program and the trace.
    pub machine: MachineChoice,
}

/// A program that is being recorded: a [`Source`] of the accesses that reach memory.
pub struct Recorder {
    name: String,
    child: Child,
    events: Events<PipeReader>,
    caches: Standalone,
    levels: Vec<String>,
    pages: Pages,
    harts: usize,
    skip: u64,
    instructions: u64,
    records: u64,
    ended: bool,
    /// Contains the tool.
    _dir: tempfile::TempDir,
}

/// What a recorded program has done.
#[derive(Clone, Debug)]
pub struct Recording {
    /// How the program has ended; `None` if it was ended before.
    pub status: Option<ExitStatus>,
    /// Instructions.
    pub instructions: u64,
    /// Memory that it has touched, in bytes.
    pub touched: u64,
    /// Accesses to L1.
    pub first: FirstLevelStats,
    /// Name, hits and misses of each outer level.
    pub levels: Vec<(String, u64, u64)>,
}

impl Recorder {
    /// Starts a program. Its standard streams are those of this process.
    pub fn start(o: &Options, caller: &dyn Caller) -> Result<Recorder> {
        let path = find(&o.program)?;
        check(&path)?;
        let m = o.machine.resolve(&[])?;
        let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
        let tool = caller::outside(caller, || tool::build(dir.path()))?;
        let (reader, writer) = io::pipe()?;
        // The tool inherits it.
        rustix::io::fcntl_setfd(&writer, FdFlags::empty()).map_err(io::Error::from)?;
        let child = tool
            .command(writer.as_raw_fd())
            .arg(&path)
            .args(&o.args)
            .spawn()
            .context("cannot start setarch (Debian: util-linux)")?;
        let levels = m.config.levels();
        Ok(Recorder {
            name: o.program.display().to_string(),
            child,
            events: Events::new(reader),
            caches: nagori_config::parts::caches(&m, MEMORY)?,
            levels: levels.iter().map(|l| l.0.to_owned()).collect(),
            pages: Pages::new(MEMORY),
            harts: m.config.harts as usize,
            skip: o.skip,
            instructions: 0,
            records: 0,
            ended: false,
            _dir: dir,
        })
    }

    /// Waits for the program, or ends it if it has not been recorded to its end.
    pub fn finish(mut self) -> Result<Recording> {
        let mut status = None;
        if self.ended {
            status = Some(self.child.wait()?);
        }
        let found = self.caches.level_stats();
        let levels = self.levels.iter().zip(&found);
        if self.instructions == 0 {
            return Err(Error::Program(format!(
                "{}: Valgrind has not run the program",
                self.name
            )));
        }
        Ok(Recording {
            status,
            instructions: self.instructions,
            touched: self.pages.touched(),
            first: self.caches.stats(),
            levels: levels.map(|(n, l)| (n.clone(), l.hits, l.misses)).collect(),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A program that has ended already is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Source for Recorder {
    fn next(&mut self) -> std::result::Result<Option<Record>, nagori_memtrace::Error> {
        loop {
            while let Some(t) = self.caches.next_transfer() {
                if self.instructions < self.skip {
                    continue;
                }
                self.records += 1;
                return Ok(Some(Record {
                    addr: t.line,
                    kind: if t.write { Kind::Write } else { Kind::Read },
                    bytes: LINE,
                    time: self.instructions - self.skip,
                }));
            }
            let event = self
                .events
                .next()
                .map_err(|source| nagori_memtrace::Error::Io {
                    name: self.name.clone(),
                    source,
                })?;
            let Some(event) = event else {
                self.ended = true;
                return Ok(None);
            };
            self.instructions += event.instructions;
            if let Some((access, addr)) = event.access {
                let addr = self.pages.physical(addr).ok_or_else(|| {
                    let most = MEMORY >> 30;
                    let what = format!("{}: touches more than {most} GiB of memory", self.name);
                    nagori_memtrace::Error::Option(what)
                })?;
                self.caches.access(event.thread % self.harts, access, addr);
            }
        }
    }

    fn times(&self) -> Times {
        Times::Cycles
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> Place {
        Place::Record(self.records)
    }
}

/// Finds a program as a shell does.
fn find(program: &Path) -> Result<PathBuf> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        runnable(program)?;
        return Ok(program.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(program));
    let found = places.find(|p| runnable(p).is_ok());
    found.ok_or_else(|| Error::NoProgram(format!("{}: no such program in PATH", program.display())))
}

/// Refuses what Valgrind cannot run.
fn check(program: &Path) -> Result<()> {
    let mut head = [0; 20];
    let read = std::fs::File::open(program).and_then(|mut f| io::Read::read(&mut f, &mut head));
    let shown = program.display();
    let n = read.with_context(|| format!("cannot read {shown}"))?;
    let wrong = |what: &str| Err(Error::Program(format!("{shown}: {what}")));
    if n < head.len() || !head.starts_with(b"\x7fELF") {
        return wrong("no ELF program; of a script, name the interpreter: `python3 SCRIPT`");
    }
    // Class (64 bits), byte order (little endian), machine.
    match (head[4], head[5], u16::from_le_bytes([head[18], head[19]])) {
        (2, 1, X86_64) => Ok(()),
        (2, 1, RISCV) => wrong(
            "a program for RV64, and only those for x86-64 are recorded; \
             run it in a machine: `nagori run --trace-bus FILE -- PROGRAM`",
        ),
        _ => wrong("not for x86-64: such programs are not recorded"),
    }
}
