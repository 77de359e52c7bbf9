//! Copies a program's output to this command's, and shows a progress line.

use anyhow::Context;
use nagori_machine::Report;
use nagori_memtime::stats::Region;
use nagori_session::program::{Stream, Streams};
use nagori_terminal::output::file::Staged;
use nagori_terminal::tables;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between progress lines, and before the first one.
const PROGRESS: Duration = Duration::from_millis(500);
const QUIET: Duration = Duration::from_secs(2);

/// Where a program's standard output goes.
pub enum Stdout {
    /// To this command's.
    Ours,
    /// To a file.
    File(Staged),
    /// Nowhere.
    Nowhere,
}

impl Stdout {
    /// What `--output` says.
    pub fn of(given: Option<&Path>) -> anyhow::Result<Stdout> {
        match given {
            None => Ok(Stdout::Ours),
            Some(p) if p == Path::new("none") => Ok(Stdout::Nowhere),
            Some(p) => Staged::create(p).map(Stdout::File).context("--output"),
        }
    }

    /// The file is whole.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Stdout::File(file) => file.finish().context("--output"),
            Stdout::Ours | Stdout::Nowhere => Ok(()),
        }
    }
}

/// Receiver of a program's output.
pub struct Output<'a> {
    /// Where its stdout goes; `None`: this and its stderr are dropped.
    stdout: Option<&'a mut Stdout>,
    progress: Option<Progress>,
}

impl<'a> Output<'a> {
    /// Shown or, without a place for it, dropped.
    pub fn new(stdout: Option<&'a mut Stdout>) -> Self {
        Output {
            stdout,
            progress: None,
        }
    }

    /// Whether it is shown.
    pub fn shown(&self) -> bool {
        self.stdout.is_some()
    }

    /// Shows a line on a terminal while the program runs.
    pub fn show_progress(&mut self) {
        self.progress = io::stderr().is_terminal().then(Progress::new);
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

impl Streams for Output<'_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if let Some(p) = &self.progress {
            p.clear();
        }
        match (&mut self.stdout, stream) {
            (None | Some(Stdout::Nowhere), Stream::Stdout) | (None, Stream::Stderr) => Ok(()),
            (Some(Stdout::Ours), Stream::Stdout) => write(io::stdout().lock(), bytes),
            (Some(Stdout::File(file)), Stream::Stdout) => write(file, bytes),
            (Some(_), Stream::Stderr) => write(io::stderr().lock(), bytes),
        }
    }

    fn tick(&mut self, instructions: u64, report: &dyn Fn() -> Report) {
        if let Some(p) = &mut self.progress {
            p.tick(instructions, report);
        }
    }

    fn end(&mut self) {
        if let Some(p) = &self.progress {
            p.clear();
        }
    }
}

/// A line that shows the progress of a run.
struct Progress {
    begin: Instant,
    last: Instant,
    /// Instructions at the last line.
    instructions: Option<u64>,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Progress {
            begin: now,
            last: now,
            instructions: None,
            shown: false,
        }
    }

    fn tick(&mut self, now: u64, report: &dyn Fn() -> Report) {
        if self.begin.elapsed() < QUIET || self.last.elapsed() < PROGRESS {
            return;
        }
        let since = self.last.elapsed();
        self.last = Instant::now();
        let Some(before) = self.instructions.replace(now) else {
            return;
        };
        let mips = now.saturating_sub(before) as f64 / 1e6 / since.as_secs_f64();
        let r = report();
        let n = r.memory.region(Region::Nvmm).counters;
        self.shown = true;
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{} of guest time, {mips:.0} MIPS, NVMM: {:.1} MB read, {:.1} MB written",
            tables::duration(r.elapsed_ps),
            n.read_bytes as f64 / 1e6,
            n.write_bytes as f64 / 1e6,
        );
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
