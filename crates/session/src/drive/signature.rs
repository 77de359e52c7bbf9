//! The signature of a test: a range of memory as hexadecimal lines, in the form of Spike.

use super::{Service, Wishes};
use crate::caller::Caller;
use crate::end::End;
use crate::error::{Context, Error, Result};
use nagori_machine::{Machine, Stop};
use std::fmt::Write;
use std::path::PathBuf;

/// What is written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureFile {
    /// First physical address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Bytes of a line.
    pub granularity: usize,
    /// The file.
    pub file: PathBuf,
}

/// Writes a signature when the program has ended by itself.
pub struct Signature<'a> {
    what: &'a SignatureFile,
    caller: &'a dyn Caller,
    ended: bool,
}

impl<'a> Signature<'a> {
    /// Reports through `caller` if there is none.
    pub fn new(what: &'a SignatureFile, caller: &'a dyn Caller) -> Signature<'a> {
        Signature {
            what,
            caller,
            ended: false,
        }
    }
}

impl Service for Signature<'_> {
    fn after(&mut self, _: &mut Machine, stop: Stop, w: &mut Wishes) -> Result<()> {
        let asked = matches!(w.end, Some(End::Off(_)));
        self.ended |= asked || matches!(stop, Stop::PowerOff(_));
        Ok(())
    }

    fn finish(&mut self, machine: &mut Machine) -> Result<()> {
        let file = self.what.file.display();
        if !self.ended {
            let text = format!("{file}: no signature is written, since the program has not ended");
            self.caller.warning(&text);
            return Ok(());
        }
        let len = self.what.end - self.what.start;
        // A range that no host could hold is not in memory either.
        let mut bytes = vec![0; usize::try_from(len.min(machine.ram().len())).unwrap_or(0)];
        let read = machine.peek(None, self.what.start, &mut bytes);
        if read as u64 != len {
            return Err(Error::Request("the signature is not in memory".into()));
        }
        std::fs::write(&self.what.file, lines(&bytes, self.what.granularity))
            .with_context(|| format!("cannot write the signature to {file}"))
    }
}

/// Lines of so many bytes, the last byte first; the last line is padded with zeros.
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
