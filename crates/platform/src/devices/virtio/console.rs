//! Named byte streams to the host.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::device::{DeviceState, StateError};
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-console";
const TRANSMIT: usize = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {}

/// virtio console device (type 3); output is dropped until it is connected.
#[derive(Debug)]
pub struct PortConsole {
    name: String,
    state: State,
}

impl PortConsole {
    /// A device that is not connected; `name` is that of its slot.
    pub fn new(name: String) -> PortConsole {
        PortConsole {
            name,
            state: State {},
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl VirtioBackend for PortConsole {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        3
    }

    fn features(&self) -> u64 {
        0
    }

    fn queues(&self) -> usize {
        2
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
