//! The view that a backend has of its transport during one call.

use super::queue::{Chain, Queue, QueueError, INDIRECT_DESC};
use crate::clock::Ps;
use crate::device::{DeviceCx, DeviceState, StateError};

/// The driver has used a queue.
pub(super) const INTERRUPT_USED: u32 = 1;
/// The configuration space has changed.
pub(super) const INTERRUPT_CONFIG: u32 = 2;

/// A device behind the transport.
///
/// An error of [`VirtioBackend::notify`], [`VirtioBackend::on_time`] and [`VirtioBackend::poll`]
/// means that the driver violated the protocol: the device then needs a reset, as in the
/// specification. Errors of the host are not such errors.
///
/// A backend is created unconnected, like a machine or a snapshot. The host connects it (to a file,
/// a folder, a socket) through [`VirtioMmio::with`](super::VirtioMmio::with); the connection
/// survives resets, and is not part of the saved state.
pub trait VirtioBackend: Send + 'static {
    /// Stable short name, for messages and saved state.
    fn kind(&self) -> &'static str;
    /// Device type number of the virtio specification.
    fn device_id(&self) -> u32;
    /// Features offered besides VERSION_1. The driver sees those that apply when it starts.
    fn features(&self) -> u64;
    /// Whether requests have the same form for legacy drivers, so that a driver that does not
    /// accept VERSION_1 may continue: small systems accept only the lower features.
    fn has_one_form(&self) -> bool {
        false
    }
    /// Number of queues, fixed for the life of the device.
    fn queues(&self) -> usize;
    /// Greatest number of descriptors of a queue, a power of two.
    fn queue_max(&self) -> u16 {
        256
    }
    /// One byte of the configuration space.
    fn config(&self, _offset: u64) -> u8 {
        0
    }
    /// The driver writes to the configuration space: 1, 2, 4 or 8 bytes, aligned.
    fn config_write(&mut self, _port: &mut Port<'_>, _offset: u64, _size: u8, _value: u64) {}
    /// The driver has notified a queue.
    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError>;
    /// Machine time of the next call of `on_time`, which must change it.
    fn next_event(&self) -> Option<Ps> {
        None
    }
    /// Called at or after `next_event`.
    fn on_time(&mut self, _port: &mut Port<'_>) -> Result<(), QueueError> {
        Ok(())
    }
    /// Lets the device poll the host. Called between slices of the run, with the time of the hart
    /// that is furthest ahead; what arrives here is only as reproducible as the outside.
    fn poll(&mut self, _port: &mut Port<'_>) -> Result<(), QueueError> {
        Ok(())
    }
    /// Whether something may still arrive from outside, so that a waiting guest is not stuck.
    fn expects_host(&self) -> bool {
        false
    }
    /// The driver has reset the device: outstanding requests are forgotten, and chains taken from
    /// queues must not be completed any more.
    fn driver_reset(&mut self) {}
    /// Returns to the state after power-on. The connection to the host stays.
    fn reset(&mut self);
    /// The whole state, without host resources.
    fn save(&self) -> DeviceState;
    /// Loads a saved state. The transport loads its queues.
    fn load(&mut self, state: &DeviceState) -> Result<(), StateError>;
}

/// Queues, memory, interrupt and time, as a backend has them during a call.
pub struct Port<'a> {
    pub(super) cx: DeviceCx<'a>,
    pub(super) queues: &'a mut [Queue],
    /// Features that the driver accepted.
    pub(super) features: u64,
    /// Whether the device is live: between DRIVER_OK and the next reset or protocol violation.
    pub(super) live: bool,
    pub(super) interrupt: u32,
}

impl Port<'_> {
    /// Machine time of the call.
    pub fn now(&self) -> Ps {
        self.cx.now
    }

    /// Whether the driver has started the device. If not, queues are empty, and completions and
    /// interrupts are dropped.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the driver accepted all of these features.
    pub fn negotiated(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// Takes the next chain of a queue, if there is one. A queue that does not exist is empty. The
    /// driver may add more while the device takes chains: a call should take a bounded number.
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

    /// Number of descriptors of a queue; at most as many chains are in progress.
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

    /// Reads the readable part of a chain from `offset` on; returns the number of bytes that were
    /// there.
    pub fn read(&self, chain: &Chain, offset: u64, out: &mut [u8]) -> Result<usize, QueueError> {
        let mut done = 0;
        for (addr, len, at) in chain.pieces(false, offset, out.len() as u64) {
            self.cx.dma_read(addr, &mut out[at..at + len])?;
            done += len;
        }
        Ok(done)
    }

    /// Writes to the writable part of a chain from `offset` on; returns the number of bytes for
    /// which there was room.
    pub fn write(&mut self, chain: &Chain, offset: u64, bytes: &[u8]) -> Result<usize, QueueError> {
        let mut done = 0;
        for (addr, len, at) in chain.pieces(true, offset, bytes.len() as u64) {
            self.cx.dma_write(addr, &bytes[at..at + len])?;
            done += len;
        }
        Ok(done)
    }

    /// What the device has taken from a queue leaves the machine, now or later.
    pub fn sends(&self, queue: usize) {
        self.cx.sends(queue);
    }

    /// Tells the driver that the configuration space has changed.
    pub fn config_changed(&mut self) {
        self.interrupt |= INTERRUPT_CONFIG;
    }
}
