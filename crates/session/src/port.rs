//! The host's side of a guest's serial console.

use std::io;
use std::os::fd::BorrowedFd;

/// What came from the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// For the guest.
    Bytes(Vec<u8>),
    /// The run is to end.
    Quit,
    /// The run is to end as by SIGINT.
    Interrupt,
    /// Statistics are to be shown.
    Stats,
    /// The keys are to be told.
    Help,
}

/// A console, as the guest's output and whoever types see it.
pub trait Port {
    /// Whether a person sits at it.
    fn interactive(&self) -> bool {
        false
    }
    /// Whether input can still come.
    fn is_open(&self) -> bool {
        false
    }
    /// What becomes readable when input comes.
    fn source(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Input that there is.
    fn events(&mut self) -> crate::Result<Vec<Event>> {
        Ok(Vec::new())
    }
    /// Takes what the guest printed.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Takes what a bare-metal program writes to its stderr through HTIF.
    fn write_error(&mut self, bytes: &[u8]) -> crate::Result<()> {
        Ok(self.write(bytes)?)
    }
    /// Tells the user something in between.
    fn message(&mut self, _text: &str) {}
    /// Tells the keys.
    fn help(&mut self) {}
}

/// A console whose output is kept, line by line.
pub struct Capture<F: FnMut(&str)> {
    lines: Vec<String>,
    open: Vec<u8>,
    each: F,
}

impl<F: FnMut(&str)> Capture<F> {
    /// Calls `each` with every line that is complete.
    pub fn new(each: F) -> Self {
        Capture {
            lines: Vec::new(),
            open: Vec::new(),
            each,
        }
    }

    /// All lines, the last one also if it is not complete.
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
