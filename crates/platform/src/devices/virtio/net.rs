//! Network interface.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::device::{DeviceState, StateError};
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-net";
const TRANSMIT: usize = 1;
/// VIRTIO_NET_F_MAC
const MAC: u64 = 1 << 5;
/// VIRTIO_NET_F_STATUS
const STATUS: u64 = 1 << 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {}

/// virtio network device (type 1); its link is down until it is connected.
#[derive(Debug)]
pub struct Net {
    name: String,
    state: State,
}

impl Net {
    /// A device that is not connected; `name` is that of its slot.
    pub fn new(name: String) -> Net {
        Net {
            name,
            state: State {},
        }
    }

    /// Locally administered, from the name.
    fn mac(&self) -> [u8; 6] {
        // FNV-1a
        let hash = self.name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        let b = hash.to_le_bytes();
        [0x52, 0x54, 0x00, b[0], b[1], b[2]]
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl VirtioBackend for Net {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        1
    }

    fn features(&self) -> u64 {
        MAC | STATUS
    }

    fn queues(&self) -> usize {
        2
    }

    fn config(&self, offset: u64) -> u8 {
        self.mac().get(offset as usize).copied().unwrap_or(0)
    }

    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError> {
        if queue == TRANSMIT {
            // Nobody listens.
            for _ in 0..port.queue_size(queue) {
                let Some(chain) = port.pop(queue)? else { break };
                port.complete(queue, chain.head, 0)?;
            }
        }
        Ok(())
    }

    fn reset(&mut self) {}

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &self.state)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        self.state = state.unpack(KIND, 1)?;
        Ok(())
    }
}
