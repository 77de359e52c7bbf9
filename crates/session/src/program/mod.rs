//! A program in the guest: what is run, its input and conditions, and its costs.

mod executable;
pub(crate) mod outcome;
pub(crate) mod ports;
pub(crate) mod protocol;
mod stdin;
mod streams;

pub use executable::{is_dynamic, Executable, Kind};
pub use outcome::{Outcome, Run, Why};
pub use ports::Limits;
pub use protocol::{Ended, LABEL_END};
pub use stdin::Stdin;
pub use streams::{Captured, Stream, Streams};

pub(crate) use executable::runnable;
pub(crate) use protocol::{Mount, LABEL_READY};

use crate::error::{Error, Result};
use nagori_memtime::Method;
use protocol::Placed;
use std::path::{Path, PathBuf};

/// When the timing model is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timing {
    /// From the program's start to its end.
    #[default]
    Whole,
    /// In the program's regions of interest only; statistics cover only them.
    Regions,
    /// Never: only instructions are counted, which is fast.
    Off,
}

/// A program to be run, with its arguments and conditions.
///
/// ```no_run
/// use nagori_session::program::{Program, Timing};
/// use nagori_session::Method;
/// let program = Program::new("./sort").arg("1000000").method(Method::Fine).timing(Timing::Regions);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program, then its arguments. A name with a `/` is a file of the host or, if there is no
    /// such file and the name is absolute, one of the guest; a bare name is looked up in the
    /// guest's PATH.
    pub args: Vec<String>,
    /// Variables, each as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Working directory in the guest; otherwise the first share, or /root.
    pub cwd: Option<String>,
    /// More files of the host, with their absolute paths in the guest.
    pub files: Vec<(PathBuf, String)>,
    /// Its input.
    pub stdin: Stdin,
    /// Delay method of NVMM; otherwise that of the machine's description.
    pub method: Option<Method>,
    /// Seed of everything random in the run; without a seed nothing is random.
    pub seed: Option<u64>,
    /// When the timing model is on.
    pub timing: Timing,
    /// Instructions that warm caches, TLBs and predictors before statistics start.
    pub warm_up: Option<u64>,
    /// Limits in guest and host time.
    pub limits: Limits,
    /// The run ends when all harts together have executed this many instructions.
    pub max_instructions: Option<u64>,
    /// Instead of timing it as a whole, windows of it; `None`: everything.
    pub sampling: Option<crate::sampling::Asked>,
}

impl Program {
    /// A program by its name or path. Files are not accessed before it is run.
    pub fn new(name: impl Into<String>) -> Program {
        Program {
            args: vec![name.into()],
            ..Program::default()
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Program {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Program {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Program {
        self.env.push(format!("{name}={value}"));
        self
    }

    /// The working directory in the guest.
    pub fn cwd(mut self, path: impl Into<String>) -> Program {
        self.cwd = Some(path.into());
        self
    }

    /// One more file of the host, at an absolute path in the guest.
    pub fn file(mut self, host: impl Into<PathBuf>, guest: impl Into<String>) -> Program {
        self.files.push((host.into(), guest.into()));
        self
    }

    /// The input.
    pub fn stdin(mut self, stdin: Stdin) -> Program {
        self.stdin = stdin;
        self
    }

    /// The delay method of NVMM.
    pub fn method(mut self, method: Method) -> Program {
        self.method = Some(method);
        self
    }

    /// Seed of everything random in the run.
    pub fn seed(mut self, seed: u64) -> Program {
        self.seed = Some(seed);
        self
    }

    /// When the timing model is on.
    pub fn timing(mut self, timing: Timing) -> Program {
        self.timing = timing;
        self
    }

    /// Ends it after so many seconds of guest time.
    pub fn timeout(mut self, seconds: f64) -> Program {
        self.limits.guest = Some(seconds);
        self
    }

    /// Reads everything of the host that the program needs, and checks what can be checked without
    /// a machine.
    pub fn load(self) -> Result<Loaded> {
        let name = self.args.first();
        let name = name.ok_or_else(|| Error::Request("no program is given".into()))?;
        let executable = Executable::find(name)?;
        let (file, exec) = executable.place()?;
        let mut files: Vec<Placed> = file.into_iter().collect();
        for (file, path) in &self.files {
            files.push(Placed::of_host(file, path)?);
        }
        let loaded = Loaded {
            program: self,
            executable,
            exec,
            files,
        };
        loaded.job().check()?;
        Ok(loaded)
    }
}

/// Where the guest looks for a file with this name, in a working directory.
pub fn in_guest(word: &str, home: &Path) -> PathBuf {
    home.join(word.trim_start_matches("./"))
}

/// Which of some words name files of the host below its working directory that are not among `files`: the guest does
/// not have them, unless a folder is shared.
pub fn left_on_host<'a>(
    words: impl Iterator<Item = &'a str>,
    home: &Path,
    files: &[(PathBuf, String)],
) -> Vec<&'a str> {
    let here = std::env::current_dir()
        .ok()
        .and_then(|d| d.canonicalize().ok());
    let Some(here) = here else { return Vec::new() };
    let place = |p: &Path| p.canonicalize().ok();
    let placed = |word: &str| {
        let name = !word.contains('/');
        let same = |f: &PathBuf| place(f) == place(Path::new(word));
        let there = in_guest(word, home);
        files
            .iter()
            .any(|(file, path)| name && same(file) || Path::new(path) == there)
    };
    let left = |word: &&str| {
        let real = place(Path::new(word));
        real.is_some_and(|f| f.is_file() && f.starts_with(&here)) && !placed(word)
    };
    words.filter(left).collect()
}

/// A program whose files have been read. Copies share them, so it can serve many runs under
/// different conditions.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The specification; everything but files may still be changed.
    pub program: Program,
    executable: Executable,
    exec: Option<String>,
    files: Vec<Placed>,
}

impl Loaded {
    /// The kind of the program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The part of the agent's job that follows from the program.
    pub(crate) fn job(&self) -> protocol::Job {
        let p = &self.program;
        protocol::Job {
            files: self.files.clone(),
            args: p.args.clone(),
            exec: self.exec.clone(),
            env: p.env.clone(),
            cwd: p.cwd.clone(),
            timed: p.timing == Timing::Whole,
            stdin: p.stdin.is_some(),
            ..protocol::Job::default()
        }
    }
}
