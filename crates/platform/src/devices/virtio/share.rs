//! Folder of the host, over 9P.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::device::{DeviceState, StateError};
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-9p";
/// VIRTIO_9P_MOUNT_TAG
const MOUNT_TAG: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {}

/// virtio 9P transport (type 9) whose mount tag is the name of its slot; requests are not answered until it is connected.
#[derive(Debug)]
pub struct Share {
    name: String,
    state: State,
}

impl Share {
    /// A device that is not connected; `name` is that of its slot.
    pub fn new(name: String) -> Share {
        Share {
            name,
            state: State {},
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl VirtioBackend for Share {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        9
    }

    fn features(&self) -> u64 {
        MOUNT_TAG
    }

    fn queues(&self) -> usize {
        1
    }

    fn config(&self, offset: u64) -> u8 {
        let len = (self.name.len() as u16).to_le_bytes();
        let mut bytes = len.iter().chain(self.name.as_bytes());
        bytes.nth(offset as usize).copied().unwrap_or(0)
    }

    fn notify(&mut self, _: &mut Port<'_>, _: usize) -> Result<(), QueueError> {
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
