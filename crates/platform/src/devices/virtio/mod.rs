//! virtio: the MMIO transport (version 2, modern) and the devices on it.

mod entropy;
mod mmio;
mod queue;

pub use entropy::Entropy;
pub use mmio::{VirtioBackend, VirtioMmio, SIZE};
pub use queue::{Chain, Descriptor, Queue, QueueError};
