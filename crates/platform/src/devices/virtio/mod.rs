//! virtio: the MMIO transport (version 2, modern) and the devices on it.

pub mod bench;
mod block;
mod console;
mod entropy;
mod mmio;
mod net;
mod port;
mod queue;
mod share;
mod vacant;

pub use block::{Block, MediumError};
pub use console::{PortConsole, PORTS, ROOM};
pub use entropy::Entropy;
pub use mmio::{VirtioMmio, SIZE};
pub use net::{mac, Net, Traffic};
pub use port::{Port, VirtioBackend};
pub use queue::{Chain, Descriptor, Queue, QueueError, INDIRECT_DESC};
pub use share::Share;
pub use vacant::Vacant;
