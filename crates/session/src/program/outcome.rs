//! How a program's run has ended, and its costs.

use super::protocol::{Ended, LABEL_END};
use crate::end::END_OF_TIME;
use crate::problems::{Nvmm, Problem};
use crate::sampling::Sampled;
use nagori_machine::{Machine, Report};
use nagori_memtime::Ps;

/// How a program ended, according to the agent in the guest or a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The program ended.
    Ended(Ended),
    /// It could not be executed.
    Failed {
        /// The guest's errno.
        errno: u32,
        /// The operation that failed.
        text: String,
    },
    /// Its limit of guest time was reached.
    Timeout,
    /// Its limit of host time was reached.
    HostTimeout,
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// According to the agent, or a limit.
    Outcome(Outcome),
    /// The program ended the machine, by a marker or the power switch.
    Off(u32),
    /// The limit on instructions.
    Instructions,
    /// Deadlock: nothing could happen any more.
    Stuck,
    /// The end of machine time.
    Time,
    /// A signal to this program.
    Signal(u8),
    /// A power cut, as requested.
    PowerCut,
}

impl Why {
    /// A word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Why::Outcome(Outcome::Ended(e)) if e.by_signal => "signal",
            Why::Outcome(Outcome::Ended(_)) => "exit",
            Why::Outcome(Outcome::Failed { .. }) => "failed",
            Why::Outcome(Outcome::Timeout) => "timeout",
            Why::Outcome(Outcome::HostTimeout) => "host-timeout",
            Why::Off(_) => "off",
            Why::Instructions => "instruction-limit",
            Why::Stuck => "stuck",
            Why::Time => "end-of-time",
            Why::Signal(_) => "interrupted",
            Why::PowerCut => "power-cut",
        }
    }

    /// Whether the program came to its own end.
    pub fn is_end(&self) -> bool {
        matches!(self, Why::Outcome(Outcome::Ended(_)) | Why::Off(_))
    }

    /// A message for the user, if the exit code does not say it.
    pub fn message(&self) -> Option<String> {
        Some(match self {
            Why::Outcome(Outcome::Ended(e)) if e.by_signal => {
                format!("the program was ended by signal {}", e.status)
            }
            Why::Outcome(Outcome::Ended(_)) | Why::PowerCut => return None,
            Why::Outcome(Outcome::Failed { errno, text }) => {
                format!(
                    "{text}: {}",
                    std::io::Error::from_raw_os_error(*errno as i32)
                )
            }
            Why::Outcome(Outcome::Timeout) => "the program's guest time is over (--timeout)".into(),
            Why::Outcome(Outcome::HostTimeout) => {
                "the program's time on this host is over (--host-timeout)".into()
            }
            Why::Off(code) => format!("the program ended the machine with code {code}"),
            Why::Instructions => "the instruction limit was reached (--max-instructions)".into(),
            Why::Stuck => "the machine is stuck: every hart waits, and nothing can wake one".into(),
            Why::Time => END_OF_TIME.into(),
            Why::Signal(n) => format!("ended by signal {n}; the statistics are those so far"),
        })
    }
}

/// The result of a program's run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Why it ended.
    pub why: Why,
    /// Statistics from the program's start to its end, or of regions of interest.
    pub report: Report,
    /// Number of regions of interest that ended, if only they count.
    pub regions: Option<u64>,
    /// Problems that make the figures incomplete or misleading.
    pub problems: Vec<Problem>,
    /// What NVMM was to it.
    pub nvmm: Nvmm,
    /// The program's output, if it was run by [`Session::run`](crate::Session::run).
    pub output: super::streams::Captured,
    /// Checksums of stdout and stderr, to compare runs; they are comparable only within one build
    /// of this crate.
    pub sums: [u64; 2],
    /// Processor time of this process when the program started, in seconds.
    pub start_cpu: Option<f64>,
    /// How it was sampled, if it was: then the report is an estimate.
    pub sampled: Option<Box<Sampled>>,
}

impl Run {
    /// Guest time covered by the statistics.
    pub fn guest_time(&self) -> Ps {
        Ps(self.report.elapsed_ps)
    }

    /// The program's exit code, if it came to its own end.
    pub fn exit_code(&self) -> Option<u32> {
        match self.why {
            Why::Outcome(Outcome::Ended(e)) if !e.by_signal => Some(e.status),
            Why::Off(code) => Some(code),
            _ => None,
        }
    }

    /// Whether the requested figures exist.
    pub fn is_meaningful(&self) -> bool {
        self.problems.iter().all(|p| !p.meaningless)
    }

    /// Whether the figures cover a whole run of the program.
    pub fn is_whole(&self) -> bool {
        self.why.is_end() && self.is_meaningful()
    }
}

/// The statistics of the program: those that the agent recorded, or those so far.
pub(crate) fn of_program(m: &Machine, regions: bool) -> (Report, Option<u64>) {
    if regions {
        if let Some(r) = m.regions() {
            return (r.report, Some(r.count));
        }
    }
    let last = m.marks().iter().rev().find(|(l, _)| *l == LABEL_END);
    let report = last.map_or_else(|| m.report(), |(_, r)| r.clone());
    (report, regions.then_some(0))
}
