//! What the tool for Valgrind writes: see tool.c for the bits.

use nagori_hart::lines::standalone::Access;
use std::io::{self, ErrorKind, Read};

/// Bits of the number of a line.
const LINE_BITS: u32 = 42;
/// Bits of the number of instructions.
const INSTRUCTION_BITS: u32 = 16;
/// Bits of the thread's number.
const THREAD_BITS: u32 = 4;

/// A line that a program has touched, or only the passing of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Instructions begun since the event before.
    pub instructions: u64,
    /// Thread; all from the 15th on are 15.
    pub thread: usize,
    /// What it did, and the address of the line.
    pub access: Option<(Access, u64)>,
}

impl Event {
    fn read(word: u64) -> Event {
        let field = |from: u32, bits: u32| word >> from & ((1 << bits) - 1);
        let line = field(0, LINE_BITS) << 6;
        let access = match word >> 62 {
            0 => Some(Access::Fetch),
            1 => Some(Access::Load),
            2 => Some(Access::Store),
            _ => None,
        };
        Event {
            instructions: field(LINE_BITS, INSTRUCTION_BITS),
            thread: field(LINE_BITS + INSTRUCTION_BITS, THREAD_BITS) as usize,
            access: access.map(|a| (a, line)),
        }
    }
}

/// The events of a stream of bytes.
pub struct Events<R> {
    from: R,
    buffer: Vec<u8>,
    /// Bytes in the buffer, and those of them that have been read.
    filled: usize,
    at: usize,
}

impl<R: Read> Events<R> {
    /// Reads events from a pipe.
    pub fn new(from: R) -> Events<R> {
        Events {
            from,
            buffer: vec![0; 1 << 16],
            filled: 0,
            at: 0,
        }
    }

    /// The next event; `None` at the end. An error if the stream ends inside an event.
    pub fn next(&mut self) -> io::Result<Option<Event>> {
        if self.filled - self.at < 8 {
            self.buffer.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
            while self.filled < 8 {
                match self.from.read(&mut self.buffer[self.filled..]) {
                    Ok(0) if self.filled == 0 => return Ok(None),
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(n) => self.filled += n,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
        let word = &self.buffer[self.at..self.at + 8];
        self.at += 8;
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        Ok(Some(Event::read(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Drops(Vec<u8>, usize);

    impl Read for Drops {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(to.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    #[test]
    fn events_are_read_whatever_the_pieces() {
        let words = [
            0x123u64 | 7 << 42,
            1 << 62 | 0xffff << 42 | 15 << 58,
            2 << 62 | ((1 << 42) - 1),
            3 << 62 | 9 << 42,
        ];
        let event = |instructions, thread, access| Event {
            instructions,
            thread,
            access,
        };
        let expected = [
            event(7, 0, Some((Access::Fetch, 0x123 << 6))),
            event(0xffff, 15, Some((Access::Load, 0))),
            event(0, 0, Some((Access::Store, ((1 << 42) - 1) << 6))),
            event(9, 0, None),
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        for step in [1, 3, 8, 13, 100] {
            let mut events = Events::new(Drops(bytes.clone(), step));
            let read: Vec<_> = std::iter::from_fn(|| events.next().unwrap()).collect();
            assert_eq!(read, expected);
            let mut cut = Events::new(Drops(bytes[..12].to_vec(), step));
            assert_eq!(cut.next().unwrap(), Some(expected[0]));
            assert_eq!(cut.next().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }
}
