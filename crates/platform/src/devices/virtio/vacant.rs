//! Virtio slots without a device.

use super::mmio::{MAGIC, VENDOR};
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::Node;
use nagori_config::map::VIRTIO_STRIDE;
use std::any::Any;

const KIND: &str = "virtio-vacant";
/// Offset of a device's configuration, which may be read by bytes.
const CONFIG: u64 = 0x100;

/// Transports without a device: the device number 0 tells a driver to go on to the next slot. They
/// are in no device tree.
#[derive(Debug, Clone, Copy)]
pub struct Vacant;

impl Device for Vacant {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&mut self, _: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        if offset % VIRTIO_STRIDE < CONFIG && size != 4 {
            return Err(BusFault::Width {
                device: KIND,
                offset,
                size,
            });
        }
        Ok(u64::from(match offset % VIRTIO_STRIDE {
            0x000 => MAGIC,
            0x004 => 2,
            0x00c => VENDOR,
            _ => 0,
        }))
    }

    fn write(&mut self, _: &mut DeviceCx<'_>, _: u64, _: u8, _: u64) -> Result<(), BusFault> {
        Ok(())
    }

    fn nodes(&self, _: &Placement) -> Vec<Node> {
        Vec::new()
    }

    fn reset(&mut self, _: &mut DeviceCx<'_>) {}

    fn save(&self) -> DeviceState {
        DeviceState::pack(KIND, 1, &())
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        state.unpack(KIND, 1)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
