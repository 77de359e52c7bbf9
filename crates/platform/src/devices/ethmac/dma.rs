//! What a frame costs on the bus.

use crate::device::DeviceCx;
use nagori_iomap::Access;
use serde::{Deserialize, Serialize};

/// Bytes of a line of memory.
const LINE: u32 = 64;
/// Bytes of the longest frame, with its check sequence.
const LONGEST: u32 = 0x1_0004;

/// The lines of a frame that pass the bus while it is on the wire: the MAC's buffer holds 64 bytes, and is filled and
/// emptied as the wire takes and brings them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dma {
    /// When the next line is transferred, in picoseconds.
    next: u64,
    /// First byte of the frame in it, as the driver gave it, and the frame's first byte behind those to be transferred.
    from: u32,
    end: u32,
    write: bool,
}

impl Dma {
    /// A frame of some bytes from an address on, which is read from a time on; `None` if there are none.
    pub fn sending(begins: u64, from: u32, len: usize) -> Option<Dma> {
        let end = from.saturating_add(len as u32);
        (from < end).then_some(Dma {
            next: begins,
            from,
            end,
            write: false,
        })
    }

    /// One whose first byte comes at a time, and that is written as its bytes come.
    pub fn receiving(begins: u64, from: u32, len: usize, byte_ps: u64) -> Option<Dma> {
        let mut dma = Dma {
            write: true,
            ..Dma::sending(begins, from, len)?
        };
        dma.next += u64::from(dma.behind() - from) * byte_ps;
        Some(dma)
    }

    /// Whether a saved state is possible.
    pub fn is_possible(&self) -> bool {
        (1..=LONGEST).contains(&self.end.saturating_sub(self.from))
    }

    /// When the next line is transferred, in picoseconds.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// First byte in the line behind.
    fn behind(&self) -> u32 {
        (self.from | (LINE - 1)).saturating_add(1).min(self.end)
    }

    /// Transfers what is due, with the time of a byte on the wire. What is left.
    pub fn run(mut self, cx: &mut DeviceCx<'_>, byte_ps: u64) -> Option<Dma> {
        let access = if self.write {
            Access::Write
        } else {
            Access::Read
        };
        while self.next <= cx.now.0 {
            cx.transfer(self.from.into(), access);
            let (before, from) = (self.from, self.behind());
            if from == self.end {
                return None;
            }
            self.from = from;
            // Bytes are read when those in front of them have been sent, and written when they have come.
            let bytes = if self.write {
                self.behind() - from
            } else {
                from - before
            };
            self.next += u64::from(bytes) * byte_ps;
        }
        Some(self)
    }
}
