//! One command in a guest whose agent waits for a job: the host's side of its console.

use crate::drive::{Service, Wishes};
use crate::end::End;
use crate::error::Result;
use crate::program::ports::{push, take, CONTROL, STDERR, STDOUT};
use crate::program::protocol::{Job, Placed, Reader, Says};
use nagori_machine::{Machine, Stop};
use nagori_platform::clock::Ps;

/// What a kernel says when it gives up.
const PANICS: [&str; 2] = ["Kernel panic", "Oops ["];
/// Most bytes of each output that are kept.
const KEPT: usize = 1 << 20;

/// Begins and ends an exit code between the output of a script's commands.
const SIGN: u8 = 0x1e;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code; 128 and its number for a signal.
    Code(u32),
    /// It could not be started.
    Failed(String),
    /// The guest's kernel panicked.
    Panic,
    /// Its guest time was over, or nothing could happen any more.
    Hang,
    /// The guest switched itself off or restarted.
    Off,
}

/// A command and what has come of it.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    slot: usize,
    job: Vec<u8>,
    sent: usize,
    reader: Reader,
    /// How it has ended.
    pub ended: Option<Ended>,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Its standard error.
    pub err: Vec<u8>,
    /// The kernel's console.
    pub console: Vec<u8>,
    limit: Ps,
    deadline: Option<Ps>,
    /// The guest boots first, for so long at most: until its agent has said that it is ready.
    boot: Option<Ps>,
    slice: Option<u64>,
    /// The command is over when it has said so many exit codes, or one that is not 0.
    codes: Option<usize>,
    /// It has said them.
    over: bool,
    /// So much of its standard output has been looked through for them.
    read: usize,
}

/// The job of a shell command.
pub(super) fn shell(script: &str, files: &[Placed], env: &[String]) -> Result<Vec<u8>> {
    let job = Job {
        files: files.to_vec(),
        args: vec!["sh".into(), "-c".into(), script.into()],
        env: env.to_vec(),
        cwd: Some("/root".into()),
        ..Job::default()
    };
    job.encode()
}

/// Splits what the script has put out: exit codes, and the commands' own output.
pub(super) fn parts(out: &[u8]) -> (Vec<i32>, Vec<u8>) {
    let (mut codes, mut own) = (Vec::new(), Vec::new());
    for (i, part) in out.split(|b| *b == SIGN).enumerate() {
        let code = std::str::from_utf8(part).ok().and_then(|t| t.parse().ok());
        match code {
            Some(code) if i % 2 == 1 => codes.push(code),
            _ => own.extend_from_slice(part),
        }
    }
    (codes, own)
}

impl Agent {
    /// A job for the agent whose console is in a slot, with a limit of guest time from the first slice on.
    pub fn new(slot: usize, job: Vec<u8>, limit: Ps) -> Agent {
        Agent {
            slot,
            job,
            sent: 0,
            reader: Reader::default(),
            ended: None,
            out: Vec::new(),
            err: Vec::new(),
            console: Vec::new(),
            limit,
            deadline: None,
            boot: None,
            slice: None,
            codes: None,
            over: false,
            read: 0,
        }
    }

    /// The guest boots first, in so much guest time at most. The job waits until its agent is ready, and so does the
    /// limit.
    pub fn after_boot(mut self, limit: Ps) -> Agent {
        self.boot = Some(limit);
        self
    }

    /// Does not wait for the shell's end after so many commands, or the first one that fails.
    pub fn ends_with(mut self, commands: usize) -> Agent {
        self.codes = Some(commands);
        self
    }

    /// Slices of so many core cycles.
    pub fn with_slice(mut self, cycles: u64) -> Agent {
        self.slice = Some(cycles);
        self
    }

    /// This agent with the limit counted from the next slice on.
    pub fn again(&self) -> Agent {
        Agent {
            deadline: None,
            slice: None,
            ..self.clone()
        }
    }

    /// The standard error and the console, for messages: their last lines.
    pub fn said(&self) -> String {
        let all = [&self.out, &self.err, &self.console];
        let text: Vec<String> = all
            .iter()
            .map(|b| String::from_utf8_lossy(b).into_owned())
            .collect();
        let lines: Vec<&str> = text.iter().flat_map(|t| t.lines()).collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn drain(&mut self, m: &mut Machine) -> Result<()> {
        loop {
            let out = take(m, self.slot, STDOUT)?;
            let err = take(m, self.slot, STDERR)?;
            if out.is_empty() && err.is_empty() {
                return Ok(());
            }
            keep(&mut self.out, &out);
            keep(&mut self.err, &err);
        }
    }

    fn hear(&mut self, m: &mut Machine) -> Result<()> {
        let bytes = take(m, self.slot, CONTROL)?;
        self.reader.feed(&bytes);
        while let Some(message) = self.reader.next()? {
            match message {
                Says::Ready { .. } => {
                    if self.boot.take().is_some() {
                        self.deadline = None;
                    }
                }
                Says::Started { .. } => {}
                Says::Ended(e) => {
                    let code = e.status + if e.by_signal { 128 } else { 0 };
                    self.ended = Some(Ended::Code(code));
                }
                Says::Failed { errno, text } => {
                    let e = std::io::Error::from_raw_os_error(errno as i32);
                    self.ended = Some(Ended::Failed(format!("{text}: {e}")));
                }
            }
        }
        Ok(())
    }
}

fn keep(to: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT.saturating_sub(to.len());
    to.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl Service for Agent {
    fn before(&mut self, m: &mut Machine, wishes: &mut Wishes) -> Result<()> {
        let limit = self.boot.unwrap_or(self.limit);
        self.deadline
            .get_or_insert_with(|| Ps(m.now().0.saturating_add(limit.0)));
        if self.boot.is_none() && self.sent < self.job.len() {
            self.sent += push(m, self.slot, CONTROL, &self.job[self.sent..])?;
        }
        if let Some(cycles) = self.slice {
            wishes.slice_of(cycles);
        }
        Ok(())
    }

    fn after(&mut self, m: &mut Machine, stop: Stop, wishes: &mut Wishes) -> Result<()> {
        self.hear(m)?;
        self.drain(m)?;
        let console = m.console_output();
        if !console.is_empty() {
            // What is looked for may have begun before.
            let longest = PANICS.iter().map(|p| p.len()).max().unwrap_or(0);
            let from = self.console.len().saturating_sub(longest);
            keep(&mut self.console, &console);
            let new = &self.console[from..];
            let says = |p: &&str| new.windows(p.len()).any(|w| w == p.as_bytes());
            if PANICS.iter().any(says) {
                self.ended.get_or_insert(Ended::Panic);
            }
        }
        if let (None, Some(commands)) = (&self.ended, self.codes) {
            // Standard error comes after standard output, but not later than the next slice.
            if self.over {
                self.ended = Some(Ended::Code(0));
            }
            // Output without an exit code is not looked through again and again.
            if self.out.len() != self.read {
                self.over = self.out[self.read..].contains(&SIGN) && {
                    let (codes, _) = parts(&self.out);
                    codes.len() >= commands || codes.iter().any(|c| *c != 0)
                };
                self.read = self.out.len();
            }
        }
        if self.ended.is_none() {
            let late = self.deadline.is_some_and(|d| m.now() >= d);
            self.ended = match stop {
                Stop::PowerOff(_) | Stop::Reset => Some(Ended::Off),
                Stop::EndOfTime | Stop::Idle(Ps::NEVER) => Some(Ended::Hang),
                _ if late => Some(Ended::Hang),
                _ => None,
            };
        }
        if self.ended.is_some() {
            wishes.end(End::Quit);
        }
        Ok(())
    }
}
