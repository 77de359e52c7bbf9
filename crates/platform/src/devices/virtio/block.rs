//! Disk.

use super::port::{Port, VirtioBackend};
use super::queue::QueueError;
use crate::device::{DeviceState, StateError};
use serde::{Deserialize, Serialize};

const KIND: &str = "virtio-blk";
/// VIRTIO_BLK_S_IOERR
const IO_ERROR: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {}

/// virtio block device (type 2) without a medium until it is connected.
#[derive(Debug)]
pub struct Block {
    name: String,
    state: State,
}

impl Block {
    /// A device that is not connected; `name` is that of its slot.
    pub fn new(name: String) -> Block {
        Block {
            name,
            state: State {},
        }
    }

    /// Name of its slot.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl VirtioBackend for Block {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn device_id(&self) -> u32 {
        2
    }

    fn features(&self) -> u64 {
        0
    }

    fn queues(&self) -> usize {
        1
    }

    fn notify(&mut self, port: &mut Port<'_>, queue: usize) -> Result<(), QueueError> {
        for _ in 0..port.queue_size(queue) {
            let Some(chain) = port.pop(queue)? else { break };
            // The status is the last byte.
            let Some(at) = chain.writable().checked_sub(1) else {
                let (head, len) = (chain.head, 0);
                let expected = "a byte for the status";
                return Err(QueueError::Length {
                    head,
                    len,
                    expected,
                });
            };
            port.write(&chain, at, &[IO_ERROR])?;
            port.complete(queue, chain.head, 1)?;
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
