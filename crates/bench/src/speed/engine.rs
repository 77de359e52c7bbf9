//! The engines that run the guest. Only this file of the benchmark knows how an engine is chosen.

use super::host::{self, Probe};
use anyhow::bail;
use nagori_config::Machine as Description;
use nagori_machine::{Engine as Best, Report, TranslatorOptions};
use nagori_platform::loader::Plan;
use nagori_session::{guest, End, Job};
use nagori_terminal::signals::Signals;

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The interpreter over predecoded blocks.
    Interpreter,
    /// The translator to host code.
    Translator,
}

impl Engine {
    /// All, the reference first.
    pub const ALL: [Engine; 2] = [Engine::Interpreter, Engine::Translator];

    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Interpreter => "interpreter",
            Engine::Translator => "translator",
        }
    }

    /// Whether this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Engine::Interpreter => true,
            Engine::Translator => matches!(Best::best(), Best::Translator(_)),
        }
    }

    /// The engine for a machine. An error if this build does not have it.
    fn of_machine(self) -> anyhow::Result<Best> {
        if !self.is_built() {
            bail!(
                "the {} is not in this build: leave --engine, or give --engine interpreter",
                self.name()
            );
        }
        Ok(match self {
            Engine::Interpreter => Best::Interpreter,
            Engine::Translator => Best::Translator(TranslatorOptions::default()),
        })
    }

    /// An error if it cannot run.
    pub fn check(self) -> anyhow::Result<()> {
        self.of_machine().map(drop)
    }
}

/// The result and costs of a run.
pub struct Run {
    /// Statistics of the machine.
    pub report: Report,
    /// Lines that the guest printed.
    pub lines: Vec<String>,
    /// Processor time of all threads, user and system, in seconds.
    pub cpu: f64,
    /// Peak resident memory of this process apart from the guest's, in bytes.
    pub own_memory: u64,
}

/// Runs software to its end, which must be a success.
pub fn run(
    engine: Engine,
    description: &Description,
    plan: Plan,
    timed: bool,
    signals: &Signals,
) -> anyhow::Result<Run> {
    let job = Job {
        timed,
        engine: engine.of_machine()?,
        ..Job::unattended(plan)
    };
    let mut probe = Probe::new(description.config.memory.size.0);
    let before = host::own_time()?;
    let (end, report) = guest::measure(description, &job, &mut probe, signals)?;
    let cpu = (host::own_time()? - before).max(host::LEAST);
    let (lines, own_memory) = probe.finish();
    if end != End::Off(0) {
        let last = lines.last().map_or("nothing", |l| l.as_str());
        bail!(
            "the guest failed: {}; what it printed last: {last}",
            end.describe()
        );
    }
    Ok(Run {
        report,
        lines,
        cpu,
        own_memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_is_not_built_says_so() {
        for e in Engine::ALL {
            match e.check() {
                Ok(()) => assert!(e.is_built()),
                Err(text) => {
                    assert!(!e.is_built());
                    let text = text.to_string();
                    assert!(text.contains("is not in this build"), "{text}");
                }
            }
        }
        assert!(Engine::Interpreter.is_built(), "the reference");
    }
}
