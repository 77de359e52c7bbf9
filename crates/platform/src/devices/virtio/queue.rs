//! Split virtqueues (virtio 1.2, section 2.7), driven from the device's side.

use crate::device::{DeviceCx, DmaError};
use serde::{Deserialize, Serialize};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const NO_INTERRUPT: u16 = 1;

/// A queue that the driver has filled with nonsense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// A ring or buffer lies outside memory.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// A descriptor index beyond the queue's size.
    #[error("descriptor {0} does not exist")]
    Index(u16),
    /// A chain that is longer than the queue, hence a loop.
    #[error("descriptor chain from {0} does not end")]
    Loop(u16),
    /// Indirect descriptors were not offered.
    #[error("descriptor {0} is indirect, which was not negotiated")]
    Indirect(u16),
    /// More entries made available than the queue has.
    #[error("available index {avail} is more than {size} ahead of {seen}")]
    Available {
        /// The driver's index.
        avail: u16,
        /// The device's index.
        seen: u16,
        /// Queue size.
        size: u16,
    },
}

/// A buffer of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Physical address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The device may write it (and must not read it).
    pub writable: bool,
}

/// A chain of buffers that the driver made available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its head, for [`Queue::complete`].
    pub head: u16,
    /// The buffers in order.
    pub buffers: Vec<Descriptor>,
}

/// One split virtqueue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Number of descriptors, a power of two.
    pub size: u16,
    /// Whether the driver has set it up.
    pub ready: bool,
    /// Address of the descriptor table.
    pub desc: u64,
    /// Address of the driver's ring.
    pub avail: u64,
    /// Address of the device's ring.
    pub used: u64,
    /// Next entry of the driver's ring to take.
    next_avail: u16,
    /// Next entry of the device's ring to fill.
    next_used: u16,
}

fn read_u16(cx: &DeviceCx<'_>, addr: u64) -> Result<u16, DmaError> {
    let mut b = [0; 2];
    cx.dma_read(addr, &mut b)?;
    Ok(u16::from_le_bytes(b))
}

impl Queue {
    /// A queue as after reset.
    pub fn new(max_size: u16) -> Queue {
        Queue {
            size: max_size,
            ready: false,
            desc: 0,
            avail: 0,
            used: 0,
            next_avail: 0,
            next_used: 0,
        }
    }

    /// Takes the next available chain, if there is one.
    pub fn pop(&mut self, cx: &DeviceCx<'_>) -> Result<Option<Chain>, QueueError> {
        if !self.ready {
            return Ok(None);
        }
        let avail = read_u16(cx, self.avail.wrapping_add(2))?;
        let waiting = avail.wrapping_sub(self.next_avail);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(QueueError::Available {
                avail,
                seen: self.next_avail,
                size: self.size,
            });
        }
        let slot = u64::from(self.next_avail % self.size);
        let head = read_u16(cx, self.avail.wrapping_add(4 + 2 * slot))?;
        let mut buffers = Vec::new();
        let mut at = head;
        loop {
            if at >= self.size {
                return Err(QueueError::Index(at));
            }
            if buffers.len() == self.size as usize {
                return Err(QueueError::Loop(head));
            }
            let mut d = [0; 16];
            cx.dma_read(self.desc.wrapping_add(16 * u64::from(at)), &mut d)?;
            let word = |n: usize| u16::from_le_bytes([d[n], d[n + 1]]);
            let flags = word(12);
            if flags & INDIRECT != 0 {
                return Err(QueueError::Indirect(at));
            }
            buffers.push(Descriptor {
                addr: u64::from_le_bytes([d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]),
                len: u32::from_le_bytes([d[8], d[9], d[10], d[11]]),
                writable: flags & WRITE != 0,
            });
            if flags & NEXT == 0 {
                break;
            }
            at = word(14);
        }
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(Chain { head, buffers }))
    }

    /// Returns a chain with the number of bytes written to it. True if the
    /// driver wants an interrupt.
    pub fn complete(
        &mut self,
        cx: &mut DeviceCx<'_>,
        head: u16,
        written: u32,
    ) -> Result<bool, QueueError> {
        let slot = u64::from(self.next_used % self.size);
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        cx.dma_write(self.used.wrapping_add(4 + 8 * slot), &entry)?;
        self.next_used = self.next_used.wrapping_add(1);
        cx.dma_write(self.used.wrapping_add(2), &self.next_used.to_le_bytes())?;
        Ok(read_u16(cx, self.avail)? & NO_INTERRUPT == 0)
    }
}
