//! Receivers of a program's output.

use nagori_machine::Report;
use std::io;

/// One of a program's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Receives a program's output.
pub trait Streams {
    /// Receives bytes of a stream, in order.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()>;

    /// Called between slices of guest time while the program runs, with the instructions of all
    /// harts so far and a function that collects the statistics, which takes some time.
    fn tick(&mut self, _instructions: u64, _report: &dyn Fn() -> Report) {}

    /// The run has ended, in whatever way.
    fn end(&mut self) {}
}

/// Keeps a program's output.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Streams for Captured {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        Ok(())
    }
}
