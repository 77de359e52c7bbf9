//! Split virtqueues (virtio 1.2, section 2.7), driven from the device's side.

use crate::device::{DeviceCx, DmaError};
use serde::{Deserialize, Serialize};

/// VIRTIO_F_INDIRECT_DESC: a descriptor may name a table of descriptors.
pub const INDIRECT_DESC: u64 = 1 << 28;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const NO_INTERRUPT: u16 = 1;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;

/// A violation of the queue protocol by the driver.
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
    /// Indirect descriptors were not negotiated.
    #[error("descriptor {0} is indirect, which was not negotiated")]
    Indirect(u16),
    /// An invalid table of indirect descriptors.
    #[error(
        "the table of indirect descriptor {index} has {len} bytes, or it is nested or continued"
    )]
    Table {
        /// Descriptor that names the table.
        index: u16,
        /// Length of the table in bytes.
        len: u32,
    },
    /// A readable buffer follows a writable one.
    #[error("descriptor chain from {0} has a buffer to read behind one to write")]
    Order(u16),
    /// A chain with too few bytes, or too many, for a request of this device.
    #[error("descriptor chain from {head} has {len} bytes where {expected} are expected")]
    Length {
        /// Head of the chain.
        head: u16,
        /// Bytes of the chain.
        len: u64,
        /// Bytes that the device needs.
        expected: &'static str,
    },
    /// More chains made available than the queue has entries.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Physical address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The device may write it (and must not read it).
    pub writable: bool,
}

/// A chain of buffers that the driver made available: at most as many as the queue has descriptors,
/// the readable ones before the writable ones. The buffers need not be in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its head, for [`Queue::complete`].
    pub head: u16,
    /// The buffers in order.
    pub buffers: Vec<Descriptor>,
}

impl Chain {
    /// Bytes that the device can read.
    pub fn readable(&self) -> u64 {
        self.bytes(false)
    }

    /// Bytes that the device can write.
    pub fn writable(&self) -> u64 {
        self.bytes(true)
    }

    fn bytes(&self, writable: bool) -> u64 {
        let side = self.buffers.iter().filter(|b| b.writable == writable);
        side.map(|b| u64::from(b.len)).sum()
    }

    /// The pieces of guest memory that contain `len` bytes from `offset` of the readable or of the
    /// writable part: address, length, and distance from `offset`. Ends with the part.
    pub fn pieces(
        &self,
        writable: bool,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, usize, usize)> + '_ {
        let end = offset.saturating_add(len);
        let mut start = 0u64;
        let side = self.buffers.iter().filter(move |b| b.writable == writable);
        side.filter_map(move |b| {
            let (first, last) = (start, start + u64::from(b.len));
            start = last;
            let (from, to) = (first.max(offset), last.min(end));
            let addr = b.addr.wrapping_add(from.saturating_sub(first));
            (from < to).then(|| (addr, (to - from) as usize, (from - offset) as usize))
        })
    }
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

/// A table of descriptors in guest memory.
#[derive(Clone, Copy)]
struct Table {
    addr: u64,
    /// Number of entries.
    len: u64,
}

/// A descriptor as stored in a table.
struct Entry {
    buffer: Descriptor,
    flags: u16,
    next: u16,
}

impl Table {
    fn entry(&self, cx: &DeviceCx<'_>, index: u16) -> Result<Entry, QueueError> {
        if u64::from(index) >= self.len {
            return Err(QueueError::Index(index));
        }
        let mut d = [0; DESCRIPTOR as usize];
        let addr = self.addr.wrapping_add(DESCRIPTOR * u64::from(index));
        cx.dma_read(addr, &mut d)?;
        let word = |n: usize| u16::from_le_bytes([d[n], d[n + 1]]);
        let flags = word(12);
        Ok(Entry {
            buffer: Descriptor {
                addr: u64::from_le_bytes([d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]),
                len: u32::from_le_bytes([d[8], d[9], d[10], d[11]]),
                writable: flags & WRITE != 0,
            },
            flags,
            next: word(14),
        })
    }
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

    /// Whether a chain is available.
    pub fn has_work(&self, cx: &DeviceCx<'_>) -> Result<bool, QueueError> {
        Ok(self.waiting(cx)? != 0)
    }

    /// Number of chains that the driver has made available and [`Queue::pop`] has not taken.
    fn waiting(&self, cx: &DeviceCx<'_>) -> Result<u16, QueueError> {
        if !self.ready {
            return Ok(0);
        }
        let avail = read_u16(cx, self.avail.wrapping_add(2))?;
        match avail.wrapping_sub(self.next_avail) {
            waiting if waiting > self.size => Err(QueueError::Available {
                avail,
                seen: self.next_avail,
                size: self.size,
            }),
            waiting => Ok(waiting),
        }
    }

    /// Takes the next available chain, if there is one. `indirect`: whether
    /// [`INDIRECT_DESC`] was negotiated.
    pub fn pop(&mut self, cx: &DeviceCx<'_>, indirect: bool) -> Result<Option<Chain>, QueueError> {
        if self.waiting(cx)? == 0 {
            return Ok(None);
        }
        let slot = u64::from(self.next_avail % self.size);
        let head = read_u16(cx, self.avail.wrapping_add(4 + 2 * slot))?;
        let mut buffers: Vec<Descriptor> = Vec::new();
        let mut table = Table {
            addr: self.desc,
            len: self.size.into(),
        };
        let mut nested = false;
        let mut at = head;
        loop {
            if buffers.len() == self.size as usize {
                return Err(QueueError::Loop(head));
            }
            let e = table.entry(cx, at)?;
            if e.flags & INDIRECT != 0 {
                if !indirect {
                    return Err(QueueError::Indirect(at));
                }
                let len = e.buffer.len;
                let sound = len != 0 && u64::from(len) % DESCRIPTOR == 0;
                if nested || e.flags & NEXT != 0 || !sound {
                    return Err(QueueError::Table { index: at, len });
                }
                nested = true;
                table = Table {
                    addr: e.buffer.addr,
                    len: u64::from(len) / DESCRIPTOR,
                };
                at = 0;
                continue;
            }
            if !e.buffer.writable && buffers.last().is_some_and(|b| b.writable) {
                return Err(QueueError::Order(head));
            }
            buffers.push(e.buffer);
            if e.flags & NEXT == 0 {
                break;
            }
            at = e.next;
        }
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(Chain { head, buffers }))
    }

    /// Returns a chain with the number of bytes written to it. Returns true if the driver wants an
    /// interrupt.
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
