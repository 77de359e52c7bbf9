//! Results to stdout and files, messages to stderr, exit codes.

pub mod file;

use crate::signals::Signals;
use anstyle::{AnsiColor, Style};
use std::io::{ErrorKind, Write};

/// Exit code of a command that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

/// Everything went well.
pub const SUCCESS: Exit = Exit(0);
/// There are no figures of what was asked for, though the program ended well.
pub const MEANINGLESS: Exit = Exit(1);
/// The instruction limit was reached (as `timeout` does it).
pub const LIMIT: Exit = Exit(124);
/// Every hart waits for something that cannot come.
pub const STUCK: Exit = Exit(125);
/// What is said where machine time ends.
pub const END_OF_TIME: &str =
    "machine time is at its end, 210 days after its start (64 bits of picoseconds)";
/// Added to a signal's number where one ended the run (as shells do it).
pub const SIGNAL: u8 = 128;
/// The reader of stdout has gone (128 + SIGPIPE).
pub const BROKEN_PIPE: u8 = 141;
/// Exit codes of guests that do not fit into the host's 8 bits.
pub const TOO_LARGE: u8 = 255;

/// Whether an error is only that nobody reads our output any more.
pub fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|c| {
        c.downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    })
}

/// Writes a result to stdout.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a JSON value to stdout.
pub fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&format!("{value:#}\n"))
}

/// What a command and its user tell each other: messages for people, on stderr and coloured if that
/// is a terminal; and the user's signals.
#[derive(Debug)]
pub struct Messages {
    quiet: bool,
    signals: Signals,
}

impl Messages {
    /// `quiet` leaves only errors.
    pub fn new(quiet: bool, signals: Signals) -> Messages {
        Messages { quiet, signals }
    }

    /// The signals by which the user ends the command.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether only errors are to be shown.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Tells what is going on.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.line(AnsiColor::Cyan.on_default(), "nagori", text);
        }
    }

    /// Tells what the user should know.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            self.line(AnsiColor::Yellow.on_default().bold(), "warning", text);
        }
    }

    /// Tells what went wrong, with its causes.
    pub fn error(&self, e: &anyhow::Error) {
        let mut text = String::new();
        for cause in e.chain() {
            let cause = cause.to_string();
            // Transparent errors repeat their source.
            if text.ends_with(&cause) {
                continue;
            }
            if !text.is_empty() {
                text.push_str("\n  because: ");
            }
            text.push_str(&cause);
        }
        self.line(AnsiColor::Red.on_default().bold(), "error", &text);
    }

    fn line(&self, style: Style, label: &str, text: &str) {
        // A closed stderr is no reason to stop.
        let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn broken_pipes_are_found_behind_context() {
        let io = std::io::Error::from(ErrorKind::BrokenPipe);
        let e = Err::<(), _>(io).context("cannot write").unwrap_err();
        assert!(is_broken_pipe(&e));
        assert!(!is_broken_pipe(&anyhow::anyhow!("broken pipe")));
    }
}
