//! The host's side of a guest's serial console.

use std::io;
use std::os::fd::BorrowedFd;

/// Input from the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes for the guest.
    Bytes(Vec<u8>),
    /// End the run.
    Quit,
    /// End the run as by SIGINT.
    Interrupt,
    /// Show statistics.
    Stats,
    /// Show the special keys.
    Help,
}

/// A console, seen from the guest's output and the user's input.
pub trait Port {
    /// Whether a person uses it.
    fn interactive(&self) -> bool {
        false
    }
    /// Whether input can still arrive.
    fn is_open(&self) -> bool {
        false
    }
    /// The descriptor that becomes readable when input arrives.
    fn source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The input that is available.
    fn events(&mut self) -> crate::Result<Vec<Event>> {
        Ok(Vec::new())
    }
    /// Takes output of the guest.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Takes what a bare-metal program writes to its stderr through HTIF.
    fn write_error(&mut self, bytes: &[u8]) -> crate::Result<()> {
        Ok(self.write(bytes)?)
    }
    /// Shows the user a message.
    fn message(&mut self, _text: &str) {}
    /// Shows the special keys.
    fn help(&mut self) {}
}

/// A console that keeps the output, line by line.
pub struct Capture<F: FnMut(&str)> {
    lines: Vec<String>,
    open: Vec<u8>,
    each: F,
}

impl<F: FnMut(&str)> Capture<F> {
    /// Calls `each` with every complete line.
    pub fn new(each: F) -> Self {
        Capture {
            lines: Vec::new(),
            open: Vec::new(),
            each,
        }
    }

    /// All lines, including an incomplete last one.
    pub fn lines(mut self) -> Vec<String> {
        if !self.open.is_empty() {
            self.end_line();
        }
        self.lines
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.open);
        let line = String::from_utf8_lossy(&bytes).trim_end().to_string();
        (self.each)(&line);
        self.lines.push(line);
    }
}

impl<F: FnMut(&str)> Port for Capture<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for &b in bytes {
            match b {
                b'\n' => self.end_line(),
                _ => self.open.push(b),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_when_complete() {
        let mut seen = Vec::new();
        let mut c = Capture::new(|l| seen.push(l.to_string()));
        c.write(b"one\r\ntw").unwrap();
        c.write(b"o\nthr\xff").unwrap();
        assert_eq!(c.lines(), ["one", "two", "thr\u{fffd}"]);
        assert_eq!(seen, ["one", "two", "thr\u{fffd}"]);
    }
}
