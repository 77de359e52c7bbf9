//! The guest's console in the host's terminal, or in pipes.

use anyhow::Context;
use nagori_session::{Error, Event, Port};
use nagori_terminal::output::Messages;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fstat, FileType};
use rustix::io::Errno;
use rustix::termios::{isatty, tcgetattr, tcsetattr, OptionalActions, Termios};
use std::io::{self, stderr, stdin, stdout, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

/// First key of commands to the console: Ctrl-A.
const ESCAPE: u8 = 1;

const KEYS: &str = "Ctrl-A x ends the machine, Ctrl-A s shows statistics, \
    Ctrl-A h shows this, Ctrl-A a sends Ctrl-A";
/// The help text that is added if Ctrl-C does not go to the guest.
const INTERRUPT_KEYS: &str = "; Ctrl-C ends it, too, Ctrl-A c sends Ctrl-C";
/// Ctrl-C, as a terminal in raw mode gives it.
const INTERRUPT: u8 = 3;

/// Recognises special keys in the typed input.
#[derive(Debug, Default)]
struct Keys {
    escaped: bool,
    /// Whether Ctrl-C is a special key.
    interrupt: bool,
}

impl Keys {
    fn feed(&mut self, typed: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut bytes = Vec::new();
        for &b in typed {
            let event = match b {
                _ if !std::mem::take(&mut self.escaped) => match b {
                    ESCAPE => {
                        self.escaped = true;
                        continue;
                    }
                    INTERRUPT if self.interrupt => Event::Interrupt,
                    _ => {
                        bytes.push(b);
                        continue;
                    }
                },
                b'c' | b'C' | INTERRUPT if self.interrupt => {
                    bytes.push(INTERRUPT);
                    continue;
                }
                b'x' | b'X' => Event::Quit,
                b's' | b'S' => Event::Stats,
                b'a' | b'A' | ESCAPE => {
                    bytes.push(ESCAPE);
                    continue;
                }
                _ => Event::Help,
            };
            if !bytes.is_empty() {
                events.push(Event::Bytes(std::mem::take(&mut bytes)));
            }
            events.push(event);
        }
        if !bytes.is_empty() {
            events.push(Event::Bytes(bytes));
        }
        events
    }
}

/// A terminal in raw mode; it is restored at the end, also after a panic.
struct RawMode {
    saved: Arc<Mutex<Option<Termios>>>,
}

impl RawMode {
    fn enter() -> anyhow::Result<RawMode> {
        let before = tcgetattr(stdin()).context("cannot read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)
            .context("cannot change the terminal's settings")?;
        let saved = Arc::new(Mutex::new(Some(before)));
        // Before the message of a panic is printed, not only when the stack is unwound.
        let (at_panic, next) = (saved.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| {
            restore(&at_panic);
            next(info);
        }));
        Ok(RawMode { saved })
    }
}

fn restore(saved: &Mutex<Option<Termios>>) {
    let Ok(mut saved) = saved.lock() else { return };
    if let Some(before) = saved.take() {
        // Nothing can be done if the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &before);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore(&self.saved);
    }
}

/// The kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// A terminal in raw mode.
    Terminal,
    /// A pipe or another source whose input arrives at any time.
    Stream,
    /// A file, whose content is available at once.
    File,
    /// No more input.
    Closed,
}

fn during(what: &str, source: Error) -> Error {
    Error::During {
        what: what.into(),
        source: Box::new(source),
    }
}

fn keys(interrupt: bool) -> String {
    let more = if interrupt { INTERRUPT_KEYS } else { "" };
    format!("{KEYS}{more}")
}

/// How the console is to behave.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Raw mode with keys, if there is a terminal.
    pub interactive: bool,
    /// In raw mode Ctrl-C ends the run, as it does otherwise: nobody uses a shell in the guest.
    pub interrupt: bool,
}

/// The console.
pub struct Console {
    input: Input,
    keys: Keys,
    raw: Option<RawMode>,
    at_line_start: bool,
}

impl Console {
    /// Opens the console on stdin and stdout.
    pub fn open(options: Options, messages: &Messages) -> anyhow::Result<Self> {
        let interactive = options.interactive && isatty(stdin()) && isatty(stdout());
        let raw = if interactive {
            messages.note(&keys(options.interrupt));
            let raw = RawMode::enter()?;
            let saved = raw.saved.clone();
            messages.signals().at_end(move || restore(&saved));
            Some(raw)
        } else {
            None
        };
        let file = fstat(stdin()).map(|s| FileType::from_raw_mode(s.st_mode));
        let input = match file {
            _ if interactive => Input::Terminal,
            Ok(FileType::RegularFile) => Input::File,
            Ok(_) => Input::Stream,
            Err(_) => Input::Closed,
        };
        Ok(Console {
            input,
            keys: Keys {
                interrupt: options.interrupt,
                ..Keys::default()
            },
            raw,
            at_line_start: true,
        })
    }

    /// Closes the console, with the cursor at the start of a line.
    pub fn close(mut self) -> anyhow::Result<()> {
        if !self.at_line_start {
            let end: &[u8] = if self.interactive() { b"\r\n" } else { b"\n" };
            self.write(end)?;
        }
        Ok(())
    }
}

impl Port for Console {
    fn interactive(&self) -> bool {
        self.raw.is_some()
    }

    fn is_open(&self) -> bool {
        self.input != Input::Closed
    }

    fn source(&self) -> Option<BorrowedFd<'_>> {
        // Borrowed for the lifetime of the process: the standard library never closes it.
        (self.input != Input::Closed).then(rustix::stdio::stdin)
    }

    fn events(&mut self) -> nagori_session::Result<Vec<Event>> {
        if self.input == Input::Closed {
            return Ok(Vec::new());
        }
        let source = stdin();
        let mut fds = [PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Err(Errno::INTR) | Ok(0) => return Ok(Vec::new()),
            Err(e) => return Err(during("cannot wait for input", e.into())),
            Ok(_) => {}
        }
        let mut buffer = [0; 4096];
        let n = match rustix::io::read(&source, &mut buffer) {
            Ok(n) => n,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(Vec::new()),
            // A terminal that was closed.
            Err(Errno::IO) => 0,
            Err(e) => return Err(during("cannot read input", e.into())),
        };
        if n == 0 {
            self.input = Input::Closed;
            return Ok(Vec::new());
        }
        Ok(match self.raw {
            Some(_) => self.keys.feed(&buffer[..n]),
            None => vec![Event::Bytes(buffer[..n].to_vec())],
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(last) = bytes.last() else {
            return Ok(());
        };
        let mut out = stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        self.at_line_start = *last == b'\n';
        Ok(())
    }

    fn write_error(&mut self, bytes: &[u8]) -> nagori_session::Result<()> {
        let written = stderr().write_all(bytes);
        written.map_err(|source| during("cannot write to stderr", source.into()))
    }

    fn help(&mut self) {
        self.message(&format!("nagori: {}", keys(self.keys.interrupt)));
    }

    fn message(&mut self, text: &str) {
        let text = text.trim_end().replace('\n', "\r\n");
        let before = if self.at_line_start { "" } else { "\r\n" };
        let _ = write!(stderr(), "{before}{text}\r\n");
        self.at_line_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Event {
        Event::Bytes(s.as_bytes().to_vec())
    }

    #[test]
    fn plain_input_passes() {
        assert_eq!(
            Keys::default().feed(b"ls\r\x03\x04"),
            [text("ls\r\x03\x04")]
        );
    }

    #[test]
    fn commands_are_taken_out_in_order() {
        let events = Keys::default().feed(b"one\x01sxy\x01\x01z\x01ax\x01x");
        assert_eq!(
            events,
            [text("one"), Event::Stats, text("xy\x01z\x01x"), Event::Quit]
        );
        assert_eq!(
            Keys::default().feed(b"\x01h\x01?"),
            [Event::Help, Event::Help]
        );
    }

    #[test]
    fn an_interrupt_is_a_command_where_nobody_sits_in_the_guest() {
        let mut keys = Keys {
            interrupt: true,
            ..Keys::default()
        };
        assert_eq!(
            keys.feed(b"ab\x03c\x01c\x01\x03"),
            [text("ab"), Event::Interrupt, text("c\x03\x03")]
        );
    }

    #[test]
    fn an_escape_waits_for_its_key() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"a\x01"), [text("a")]);
        assert_eq!(keys.feed(b""), []);
        assert_eq!(keys.feed(b"x"), [Event::Quit]);
        assert_eq!(keys.feed(b"x"), [text("x")]);
    }
}
