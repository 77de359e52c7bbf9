//! What a backend sees of its transport during one call.

use super::queue::{Chain, Queue, QueueError, INDIRECT_DESC};
use crate::clock::Ps;
use crate::device::{DeviceCx, DeviceState, StateError};

/// The driver has used a queue.
pub(super) const INTERRUPT_USED: u32 = 1;
/// The configuration space has changed.
pub(super) const INTERRUPT_CONFIG: u32 = 2;

/// What is behind the transport.
///
/// An error of [`VirtioBackend::notify`], [`VirtioBackend::on_time`] and
/// [`VirtioBackend::poll`] says that the driver broke the rules: the device then needs a reset,
/// as the specification has it. Errors of the host are no such errors.
///
/// A backend is made unconnected, as a machine or a snapshot is. What connects it to the host
/// (a file, a folder, a socket) comes through [`VirtioMmio::with`](super::VirtioMmio::with), is
/// kept over resets, and is not part of the saved state.
pub trait VirtioBackend: Send + 'static {
    /// Stable short name, for messages and saved state.
    fn kind(&self) -> &'static str;
    /// Device type number of the virtio specification.
    fn device_id(&self) -> u32;
    /// Features offered besides VERSION_1. The driver sees those that hold when it starts.
    fn features(&self) -> u64;
    /// Whether requests have the same form for drivers from before VERSION_1, so that one that
    /// does not accept it may go on: small systems accept the lower features only.
    fn has_one_form(&self) -> bool {
        false
    }
    /// Number of queues, fixed for the life of the device.
    fn queues(&self) -> usize;
    /// Most descriptors of a queue, a power of two.
    fn queue_max(&self) -> u16 {
        256
    }
    /// One byte of the configuration space.
    fn config(&self, _offset: u64) -> u8 {
        0
    }
    /// The driver writes to the configuration space: 1, 2, 4 or 8 bytes, aligned.
    fn config_write(&mut self, _port: &mut Port<'_>, _offset: u64, _size: u8, _value: u64) {}
    /// The driver has put something into a queue.
    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError>;
    /// When `on_time` has to be called next, in machine time. `on_time` must move it.
    fn next_event(&self) -> Option<Ps> {
        None
    }
    /// Called at or after `next_event`.
    fn on_time(&mut self, _port: &mut Port<'_>) -> Result<(), QueueError> {
        Ok(())
    }
    /// The host gives it a chance to look outside. Called between slices of the run, with the
    /// time of the hart that is furthest ahead; what arrives here is not reproducible unless
    /// the outside is.
    fn poll(&mut self, _port: &mut Port<'_>) -> Result<(), QueueError> {
        Ok(())
    }
    /// Whether something may still come from outside, so that a guest that waits is not stuck.
    fn expects_host(&self) -> bool {
        false
    }
    /// The driver has reset the device: requests under way are forgotten, and chains taken from
    /// queues must not be completed any more.
    fn driver_reset(&mut self) {}
    /// Back to the state after power-on. What connects it to the host stays.
    fn reset(&mut self);
    /// The whole state, without what belongs to the host.
    fn save(&self) -> DeviceState;
    /// Takes over a saved state. The transport's queues are loaded as well.
    fn load(&mut self, state: &DeviceState) -> Result<(), StateError>;
}

/// Queues, memory, interrupt and time, as a backend gets them for the length of a call.
pub struct Port<'a> {
    pub(super) cx: DeviceCx<'a>,
    pub(super) queues: &'a mut [Queue],
    /// Features that the driver accepted.
    pub(super) features: u64,
    /// Between DRIVER_OK and the next reset or broken rule.
    pub(super) live: bool,
    pub(super) interrupt: u32,
}

impl Port<'_> {
    /// Machine time of the call.
    pub fn now(&self) -> Ps {
        self.cx.now
    }

    /// Whether the driver has started the device. Otherwise queues are empty, and
    /// completions and interrupts are dropped.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the driver accepted all of these features.
    pub fn negotiated(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// Takes the next chain of a queue, if there is one. A queue that does not exist is empty.
    /// The driver may add more while the device takes: a call should take a bounded number.
    pub fn pop(&mut self, queue: usize) -> Result<Option<Chain>, QueueError> {
        let indirect = self.negotiated(INDIRECT_DESC);
        match self.queues.get_mut(queue) {
            Some(q) if self.live => q.pop(&self.cx, indirect),
            _ => Ok(None),
        }
    }

    /// Whether a queue has a chain to take.
    pub fn has_work(&self, queue: usize) -> Result<bool, QueueError> {
        match self.queues.get(queue) {
            Some(q) if self.live => q.has_work(&self.cx),
            _ => Ok(false),
        }
    }

    /// Number of descriptors of a queue; no more chains than these are under way at once.
    pub fn queue_size(&self, queue: usize) -> usize {
        self.queues.get(queue).map_or(0, |q| q.size.into())
    }

    /// Returns a chain with the number of bytes written to it, and interrupts the driver if it
    /// wants that.
    pub fn complete(&mut self, queue: usize, head: u16, written: u32) -> Result<(), QueueError> {
        if let Some(q) = self.queues.get_mut(queue).filter(|_| self.live) {
            if q.complete(&mut self.cx, head, written)? {
                self.interrupt |= INTERRUPT_USED;
            }
        }
        Ok(())
    }

    /// Reads the readable part of a chain from `offset` on; the number of bytes that were there.
    pub fn read(&self, chain: &Chain, offset: u64, out: &mut [u8]) -> Result<usize, QueueError> {
        let mut done = 0;
        for (addr, len, at) in chain.pieces(false, offset, out.len() as u64) {
            self.cx.dma_read(addr, &mut out[at..at + len])?;
            done += len;
        }
        Ok(done)
    }

    /// Writes to the writable part of a chain from `offset` on; the number of bytes that found
    /// room.
    pub fn write(&mut self, chain: &Chain, offset: u64, bytes: &[u8]) -> Result<usize, QueueError> {
        let mut done = 0;
        for (addr, len, at) in chain.pieces(true, offset, bytes.len() as u64) {
            self.cx.dma_write(addr, &bytes[at..at + len])?;
            done += len;
        }
        Ok(done)
    }

    /// Tells the driver that the configuration space has changed.
    pub fn config_changed(&mut self) {
        self.interrupt |= INTERRUPT_CONFIG;
    }
}
