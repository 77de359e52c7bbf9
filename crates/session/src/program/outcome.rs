//! How a program's run has ended, and what it has cost.

use super::protocol::{Ended, LABEL_END};
use crate::end::END_OF_TIME;
use crate::problems::Problem;
use nagori_hart::world::Observer;
use nagori_memtime::Ps;
use nagori_platform::machine::{Machine, Report};

/// How a program ended, as the agent in the guest or a limit has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The program ended.
    Ended(Ended),
    /// It could not be run.
    Failed {
        /// The guest's errno.
        errno: u32,
        /// What was tried.
        text: String,
    },
    /// The guest time that it had was over.
    Timeout,
    /// The host time that it had was over.
    HostTimeout,
}

/// Why a run was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// As the agent, or a limit, has it.
    Outcome(Outcome),
    /// The program ended the machine, by a marker or the power switch.
    Off(u32),
    /// The limit on instructions.
    Instructions,
    /// Nothing could happen any more.
    Stuck,
    /// Machine time was at its end.
    Time,
    /// A signal to this program.
    Signal(u8),
    /// A power cut, as was asked.
    PowerCut,
}

impl Why {
    /// For machines.
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

    /// What the user should know, if the exit code does not say it.
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

/// A program's run that is over.
#[derive(Debug, Clone)]
pub struct Run {
    /// Why.
    pub why: Why,
    /// What was counted from the program's start to its end, or in regions of interest.
    pub report: Report,
    /// Regions of interest that ended, where only they count.
    pub regions: Option<u64>,
    /// What makes the figures mean something else than they seem to.
    pub problems: Vec<Problem>,
    /// What the program wrote, where [`Session::run`](crate::Session::run) was asked.
    pub output: super::streams::Captured,
    /// Sums of stdout and stderr, to compare runs by; they hold within one build of this crate.
    pub sums: [u64; 2],
    /// Processor time of this process when the program began, in seconds.
    pub start_cpu: Option<f64>,
}

impl Run {
    /// Guest time of what was counted.
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

    /// Whether there are figures of what was asked for.
    pub fn is_meaningful(&self) -> bool {
        self.problems.iter().all(|p| !p.meaningless)
    }

    /// Whether the figures are of a whole run of the program.
    pub fn is_whole(&self) -> bool {
        self.why.is_end() && self.is_meaningful()
    }
}

/// The statistics of the program: recorded by the agent, or so far.
pub(super) fn of_program<O: Observer>(m: &Machine<O>, regions: bool) -> (Report, Option<u64>) {
    if regions {
        if let Some(r) = m.regions() {
            return (r.report, Some(r.count));
        }
    }
    let last = m.marks().iter().rev().find(|(l, _)| *l == LABEL_END);
    let report = last.map_or_else(|| m.report(), |(_, r)| r.clone());
    (report, regions.then_some(0))
}
