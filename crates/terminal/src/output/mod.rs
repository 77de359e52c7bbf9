//! Results to stdout and files, messages to stderr, exit codes.

pub mod file;
mod parquet;
pub mod table;

use crate::signals::Signals;
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use nagori_session::{Caller, Error, Step};
use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Exit code of a command that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

/// The exit code of a command that has failed: as in shells if a program cannot be run, else 1.
pub fn code(e: &anyhow::Error) -> u8 {
    let session = e.downcast_ref::<nagori_session::Error>();
    session.and_then(|e| e.shell_code()).unwrap_or(1)
}

/// Everything went well.
pub const SUCCESS: Exit = Exit(0);
/// The requested figures do not exist, although the program ended well.
pub const MEANINGLESS: Exit = Exit(1);
/// The instruction limit was reached (as with `timeout`).
pub const LIMIT: Exit = Exit(124);
/// Every hart waits for something that cannot happen.
pub const STUCK: Exit = Exit(125);
pub use crate::signals::EXIT as SIGNAL;
/// The reader of stdout has gone (128 + SIGPIPE).
pub const BROKEN_PIPE: u8 = 141;
/// Exit codes of guests that do not fit into the host's 8 bits.
pub const TOO_LARGE: u8 = 255;

/// Whether an error only means that nobody reads our output any more.
pub fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let broken = |e: &std::io::Error| e.kind() == ErrorKind::BrokenPipe;
    e.chain().any(|c| {
        let io = c.downcast_ref::<std::io::Error>();
        let boxed = c.downcast_ref::<Box<Error>>().map(|e| &**e);
        match c.downcast_ref::<Error>().or(boxed) {
            // It displays its content as if it were that content.
            Some(Error::Io(e)) => broken(e),
            _ => io.is_some_and(broken),
        }
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

/// Communication of a command with its user: messages on stderr, coloured if that is a terminal,
/// and the user's signals.
#[derive(Debug)]
pub struct Messages {
    quiet: bool,
    signals: Signals,
    /// The progress shown during long work.
    bar: Mutex<Option<ProgressBar>>,
}

impl Messages {
    /// `quiet` leaves only errors.
    pub fn new(quiet: bool, signals: Signals) -> Messages {
        Messages {
            quiet,
            signals,
            bar: Mutex::new(None),
        }
    }

    /// The signals by which the user ends the command.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether only errors are to be shown.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Reports progress.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.line(AnsiColor::Cyan.on_default(), "nagori", text);
        }
    }

    /// Prints a warning.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            self.line(AnsiColor::Yellow.on_default().bold(), "warning", text);
        }
    }

    /// Prints an error with its causes.
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

impl Messages {
    /// Shows a spinner with a text.
    fn busy(&self, template: &str, text: String) -> bool {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| {
            let bar = if self.quiet {
                ProgressBar::hidden()
            } else {
                ProgressBar::new_spinner()
            };
            // The templates are constants.
            bar.set_style(ProgressStyle::with_template(template).expect("a template"));
            bar
        });
        bar.set_message(text);
        bar.enable_steady_tick(Duration::from_millis(100));
        !bar.is_hidden()
    }
}

impl Caller for Messages {
    fn note(&self, text: &str) {
        Messages::note(self, text);
    }

    fn warning(&self, text: &str) {
        Messages::warning(self, text);
    }

    /// On a terminal in one line, otherwise as messages.
    fn progress(&self, step: Step<'_>) {
        match step {
            Step::Boot(what) => {
                let text = format!("booting {what} once; the next runs start from here");
                self.busy("{spinner} {msg} ({elapsed})", text);
            }
            Step::Image(p) => {
                if !self.busy("{spinner} {msg}", p.to_string()) && !p.again {
                    Messages::note(self, &p.to_string());
                }
            }
            Step::Done => {
                let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    fn interrupted(&self) -> Option<u8> {
        self.signals.caught()
    }

    fn forget(&self) {
        self.signals.forget();
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.wake())
    }

    fn outside(&self, work: &mut dyn FnMut()) {
        // Whether a signal has arrived is checked after the work.
        let _ = self.signals.outside(|| {
            work();
            Ok(())
        });
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
        // It is found, too, if a run was ended by it.
        let of_run = || Error::from(std::io::Error::from(ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&of_run().into()));
        let during = Error::During {
            what: "cannot write".into(),
            source: Box::new(of_run()),
        };
        assert!(is_broken_pipe(&during.into()));
    }
}
