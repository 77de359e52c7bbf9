//! The signature of a test: a range of memory as hexadecimal lines, in the form of Spike.

use super::{Service, Wishes};
use crate::guest::End;
use crate::output::Messages;
use anyhow::Context;
use nagori_hart::world::Observer;
use nagori_platform::machine::{Machine, Stop};
use std::fmt::Write;
use std::path::PathBuf;

/// What is written where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFile {
    /// First physical address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Bytes of a line.
    pub granularity: usize,
    /// The file.
    pub file: PathBuf,
}

/// Writes a signature when the program has ended by itself.
pub struct Signature<'a> {
    what: &'a SignatureFile,
    messages: &'a Messages,
    ended: bool,
}

impl<'a> Signature<'a> {
    /// Tells through `messages` if there is none.
    pub fn new(what: &'a SignatureFile, messages: &'a Messages) -> Signature<'a> {
        Signature {
            what,
            messages,
            ended: false,
        }
    }
}

impl<O: Observer> Service<O> for Signature<'_> {
    fn after(&mut self, _: &mut Machine<O>, stop: Stop, w: &mut Wishes) -> anyhow::Result<()> {
        let asked = matches!(w.end, Some(End::Off(_)));
        self.ended |= asked || matches!(stop, Stop::PowerOff(_));
        Ok(())
    }

    fn finish(&mut self, machine: &mut Machine<O>) -> anyhow::Result<()> {
        let file = self.what.file.display();
        if !self.ended {
            let text = format!("{file}: no signature is written, since the program has not ended");
            self.messages.warning(&text);
            return Ok(());
        }
        let len = self.what.end - self.what.start;
        let mut bytes = vec![0; usize::try_from(len)?];
        let read = machine.peek(None, self.what.start, &mut bytes);
        anyhow::ensure!(read == bytes.len(), "the signature is not in memory");
        std::fs::write(&self.what.file, lines(&bytes, self.what.granularity))
            .with_context(|| format!("cannot write the signature to {file}"))
    }
}

/// Lines of so many bytes, the last byte first; the last line is filled up with zeros.
fn lines(bytes: &[u8], granularity: usize) -> String {
    let mut out = String::new();
    for line in bytes.chunks(granularity) {
        let missing = granularity - line.len();
        let digits = std::iter::repeat_n(&0, missing).chain(line.iter().rev());
        for byte in digits {
            let _ = write!(out, "{byte:02x}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbers_of_their_bytes() {
        let bytes: Vec<u8> = (1..=10).collect();
        assert_eq!(lines(&bytes, 4), "04030201\n08070605\n00000a09\n");
        assert_eq!(lines(&bytes, 16), "0000000000000a090807060504030201\n");
        assert_eq!(lines(&bytes[..2], 1), "01\n02\n");
        assert_eq!(lines(&[], 16), "");
    }
}
