//! Recorded streams of counters: JSON lines, of which the first is a [`Header`] and each other one a [`Line`]. The
//! format is described in docs/epoch.md.

use std::collections::BTreeMap;

use nagori_memtime::Period;
use serde::{Deserialize, Serialize};

use crate::{Counts, Reading, Width};

/// The value of [`Header::format`].
pub const FORMAT: &str = "nagori-epoch-counters";
/// The value of [`Header::version`].
pub const VERSION: u32 = 1;

/// What a stream comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// In words: which processor, or which machine and program.
    pub source: String,
    /// Clock of `stall_cycles`.
    pub clock: Period,
    /// Bits of the counters in [`Line::Reading`].
    #[serde(default = "full")]
    pub width: Width,
}

fn full() -> Width {
    Width::FULL
}

impl Header {
    /// The header of a stream that is written now.
    pub fn new(source: &str, clock: Period, width: Width) -> Header {
        Header {
            format: FORMAT.into(),
            version: VERSION,
            source: source.into(),
            clock,
            width,
        }
    }
}

/// Why an epoch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its length was reached.
    Time,
    /// Its number of instructions was reached.
    Instructions,
    /// A lock, condition variable or barrier, or anything else by which others learn of the thread's progress.
    Sync,
    /// An interrupt was sent to another hart.
    Interrupt,
    /// A device was accessed.
    Device,
    /// The thread moved to another CPU.
    Migration,
    /// The process forked, or started a thread.
    Fork,
    /// The process was replaced by another program.
    Exec,
    /// The thread ended.
    Exit,
    /// The run, or its region of interest, ended.
    End,
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// What was counted in one epoch of a thread or hart.
    Epoch {
        /// Number of the thread or hart.
        thread: u32,
        /// When the epoch began, without injected delays; picoseconds.
        start_ps: u64,
        /// When it ended.
        end_ps: u64,
        /// Why.
        cause: Cause,
        /// What was counted.
        counts: Counts,
    },
    /// What the counters said at one moment, as the hardware has them.
    Reading {
        /// Number of the thread.
        thread: u32,
        /// When; picoseconds.
        at_ps: u64,
        /// On which CPU.
        cpu: u32,
        /// Value, enabled and running nanoseconds, by the name of the count.
        counters: BTreeMap<String, Reading>,
    },
    /// The thread moved to another CPU, which has counters of its own.
    Move {
        /// Number of the thread.
        thread: u32,
        /// When; picoseconds.
        at_ps: u64,
        /// The CPU that it left.
        from: u32,
        /// What that CPU's counters said.
        leaving: BTreeMap<String, Reading>,
        /// The CPU to which it came.
        to: u32,
        /// What this CPU's counters said.
        arriving: BTreeMap<String, Reading>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_documentation_are_read_and_written() {
        let text = include_str!("../../../docs/epoch.md");
        let block = text
            .split("```jsonl\n")
            .nth(1)
            .expect("an example in docs/epoch.md");
        let mut lines = block.split("```").next().unwrap().lines();
        let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!((header.format.as_str(), header.version), (FORMAT, VERSION));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 3);
        for text in lines {
            let line: Line = serde_json::from_str(text).unwrap();
            let again = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&again).unwrap(), line);
        }
        for bad in [r#"{"kind":"epoch","thread":0}"#, r#"{"kind":"nonsense"}"#] {
            assert!(serde_json::from_str::<Line>(bad).is_err());
        }
        let misspelt = r#"{"stall_cycle":5}"#;
        assert!(serde_json::from_str::<Counts>(misspelt).is_err());
    }
}
