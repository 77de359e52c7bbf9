//! Where counts come from.

pub mod perf;
pub mod recorded;
pub mod synthetic;

use std::io;

use nagori_epoch::{Counts, Defect, Error as EpochError, Step};
use thiserror::Error as ThisError;

/// A thread of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// What a thread's clocks say, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Monotonic time.
    pub now: u64,
    /// Processor time that the thread has used for its own work, without injected delays.
    pub busy: u64,
}

/// Why counts are not to be had. Nothing runs without them.
#[derive(Debug, ThisError)]
pub enum Unusable {
    /// The processor is not in the table.
    #[error("no events are known for this processor ({0}); crates/native/data/processors.toml has those that are")]
    Processor(String),
    /// The processor, or the table, has no event for a count that the formulas need.
    #[error("{processor} cannot count {count}, which variant `{variant}` needs{}", .instead.map(|i| format!("; \
        `--variant {i}` does without")).unwrap_or_default())]
    Count {
        /// The processor.
        processor: String,
        /// The count.
        count: &'static str,
        /// The formulas.
        variant: &'static str,
        /// Formulas that need less.
        instead: Option<&'static str>,
    },
    /// The kernel refuses a counter.
    #[error("{event}: {why}{}", .error.as_ref().map(|e| format!(" ({e})")).unwrap_or_default())]
    Counter {
        /// The counter.
        event: String,
        /// What that means, and what would help.
        why: String,
        /// The system's answer.
        error: Option<io::Error>,
    },
    /// A counter cannot be trusted.
    #[error("{event}: {defect}")]
    Defect {
        /// The counter.
        event: String,
        /// Why.
        defect: Defect,
    },
    /// A recorded stream is damaged, or has nothing for a thread.
    #[error("{place}: {why}")]
    Record {
        /// File and line.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// A specification of a source is wrong.
    #[error("source `{text}`: {why}")]
    Specification {
        /// The specification.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// Counts are refused.
    #[error("{0}")]
    Epoch(#[from] EpochError),
}

/// A source of counts.
pub trait Source {
    /// In words: what it is.
    fn describe(&self) -> String;

    /// Begins to count for a thread.
    ///
    /// # Errors
    /// If the source cannot count for it.
    fn attach(&mut self, thread: Tid, clocks: Clocks) -> Result<(), Unusable>;

    /// What was counted for a thread since it was attached or last read. `None`: the counters have not had their turn
    /// on the hardware; the next counts cover this time, too.
    ///
    /// # Errors
    /// If a counter fails or cannot be trusted.
    fn read(&mut self, thread: Tid, clocks: Clocks) -> Result<Option<Counts>, Unusable>;

    /// The thread is gone.
    fn detach(&mut self, thread: Tid);
}

/// Collects counts until all counters of a thread have had their turn.
#[derive(Clone, Debug, Default)]
struct Gather(Counts);

impl Gather {
    /// Adds what each counter says. `None` as long as one of them will count this time later.
    fn add<'a>(&mut self, steps: impl Iterator<Item = (&'a str, Step)>) -> Option<Counts> {
        let mut complete = true;
        for (name, step) in steps {
            match (step, self.0.field(name)) {
                // What does not fit is refused by the model.
                (Step::Count(n), Some(field)) => *field = field.saturating_add(n),
                _ => complete = false,
            }
        }
        complete.then(|| std::mem::take(&mut self.0))
    }
}
