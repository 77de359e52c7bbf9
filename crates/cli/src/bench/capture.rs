//! A console whose output is kept.

use crate::console::{Event, Port};

/// Keeps lines, and tells somebody of each.
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
    fn interactive(&self) -> bool {
        false
    }
    fn is_open(&self) -> bool {
        false
    }
    fn events(&mut self) -> anyhow::Result<Vec<Event>> {
        Ok(Vec::new())
    }
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for &b in bytes {
            match b {
                b'\n' => self.end_line(),
                _ => self.open.push(b),
            }
        }
        Ok(())
    }
    fn message(&mut self, _text: &str) {}
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
