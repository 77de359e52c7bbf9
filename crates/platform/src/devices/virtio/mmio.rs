//! The register block of a virtio device on MMIO (virtio 1.2, section 4.2).

use super::port::{Port, VirtioBackend, INTERRUPT_CONFIG};
use super::queue::{Queue, QueueError};
use crate::clock::Ps;
use crate::device::{BusFault, Device, DeviceCx, DeviceState, Placement, StateError};
use crate::fdt::{Node, PLIC_LABEL};
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Length of the range in bytes.
pub const SIZE: u64 = 0x1000;
/// "virt"
pub(super) const MAGIC: u32 = 0x7472_6976;
/// QEMU's vendor number: small systems accept no other.
pub(super) const VENDOR: u32 = u32::from_le_bytes(*b"QEMU");
/// VIRTIO_F_VERSION_1
const VERSION_1: u64 = 1 << 32;
const KIND: &str = "virtio-mmio";

const STATUS_DRIVER_OK: u32 = 4;
const STATUS_FEATURES_OK: u32 = 8;
const STATUS_NEEDS_RESET: u32 = 0x40;

pub(super) mod reg {
    pub const MAGIC: u64 = 0x000;
    pub const VERSION: u64 = 0x004;
    pub const DEVICE_ID: u64 = 0x008;
    pub const VENDOR_ID: u64 = 0x00c;
    pub const DEVICE_FEATURES: u64 = 0x010;
    pub const DEVICE_FEATURES_SEL: u64 = 0x014;
    pub const DRIVER_FEATURES: u64 = 0x020;
    pub const DRIVER_FEATURES_SEL: u64 = 0x024;
    pub const QUEUE_SEL: u64 = 0x030;
    pub const QUEUE_NUM_MAX: u64 = 0x034;
    pub const QUEUE_NUM: u64 = 0x038;
    pub const QUEUE_READY: u64 = 0x044;
    pub const QUEUE_NOTIFY: u64 = 0x050;
    pub const INTERRUPT_STATUS: u64 = 0x060;
    pub const INTERRUPT_ACK: u64 = 0x064;
    pub const STATUS: u64 = 0x070;
    pub const QUEUE_DESC_LOW: u64 = 0x080;
    pub const QUEUE_DESC_HIGH: u64 = 0x084;
    pub const QUEUE_AVAIL_LOW: u64 = 0x090;
    pub const QUEUE_AVAIL_HIGH: u64 = 0x094;
    pub const QUEUE_USED_LOW: u64 = 0x0a0;
    pub const QUEUE_USED_HIGH: u64 = 0x0a4;
    pub const CONFIG_GENERATION: u64 = 0x0fc;
    pub const CONFIG: u64 = 0x100;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    device_features_sel: u32,
    driver_features_sel: u32,
    driver_features: u64,
    queue_sel: u32,
    interrupt: u32,
    status: u32,
    /// Counter of changes of the configuration space.
    config_generation: u32,
    queues: Vec<Queue>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    transport: State,
    backend: DeviceState,
}

/// A virtio device on MMIO.
#[derive(Debug)]
pub struct VirtioMmio<B> {
    state: State,
    backend: B,
}

impl State {
    fn power_on(backend: &impl VirtioBackend) -> State {
        State {
            device_features_sel: 0,
            driver_features_sel: 0,
            driver_features: 0,
            queue_sel: 0,
            interrupt: 0,
            status: 0,
            config_generation: 0,
            queues: vec![Queue::new(backend.queue_max()); backend.queues()],
        }
    }
}

/// Replaces one half of a 64-bit value.
fn set_half(value: &mut u64, high: bool, half: u32) {
    *value = if high {
        *value & 0xffff_ffff | u64::from(half) << 32
    } else {
        *value & !0xffff_ffff | u64::from(half)
    };
}

impl<B: VirtioBackend> VirtioMmio<B> {
    /// Creates a transport for a backend.
    pub fn new(backend: B) -> VirtioMmio<B> {
        VirtioMmio {
            state: State::power_on(&backend),
            backend,
        }
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The host's access to the backend, with its port: to connect it or to query it.
    pub fn with<R>(
        &mut self,
        cx: &mut DeviceCx<'_>,
        f: impl FnOnce(&mut B, &mut Port<'_>) -> R,
    ) -> R {
        let s = &mut self.state;
        let mut port = Port {
            cx: cx.reborrow(),
            features: s.driver_features,
            live: s.status & (STATUS_DRIVER_OK | STATUS_NEEDS_RESET) == STATUS_DRIVER_OK,
            queues: &mut s.queues,
            interrupt: 0,
        };
        let result = f(&mut self.backend, &mut port);
        let (live, interrupt) = (port.live, port.interrupt);
        if interrupt & INTERRUPT_CONFIG != 0 {
            s.config_generation = s.config_generation.wrapping_add(1);
        }
        if live && interrupt != 0 {
            s.interrupt |= interrupt;
            cx.set_irq(true);
        }
        result
    }

    /// A call in which the driver may turn out to violate the protocol.
    fn call(
        &mut self,
        cx: &mut DeviceCx<'_>,
        f: impl FnOnce(&mut B, &mut Port<'_>) -> Result<(), QueueError>,
    ) {
        let (live, result) = self.with(cx, |b, port| (port.live, f(b, port)));
        // Marks the device as in the specification after a protocol violation by the driver.
        if live && result.is_err() {
            self.state.status |= STATUS_NEEDS_RESET;
            self.state.interrupt |= INTERRUPT_CONFIG;
            cx.set_irq(true);
        }
    }

    fn features(&self) -> u64 {
        self.backend.features() | VERSION_1
    }

    fn queue(&self) -> Option<&Queue> {
        self.state.queues.get(self.state.queue_sel as usize)
    }

    fn notify(&mut self, cx: &mut DeviceCx<'_>, index: usize) {
        if index < self.state.queues.len() {
            self.call(cx, |b, port| {
                if port.live {
                    b.notify(port, index)
                } else {
                    Ok(())
                }
            });
        }
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            let config_generation = self.state.config_generation;
            self.state = State::power_on(&self.backend);
            self.state.config_generation = config_generation;
            self.backend.driver_reset();
            return;
        }
        let mut value = value | self.state.status & STATUS_NEEDS_RESET;
        let accepted = self.state.driver_features & !self.features() == 0
            && (self.state.driver_features & VERSION_1 != 0 || self.backend.has_one_form());
        if !accepted {
            value &= !STATUS_FEATURES_OK;
        }
        self.state.status = value & 0xff;
    }
}

impl<B: VirtioBackend> Device for VirtioMmio<B> {
    fn kind(&self) -> &'static str {
        self.backend.kind()
    }

    fn read(&mut self, _: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault> {
        if offset >= reg::CONFIG {
            let bytes = (0..u64::from(size)).map(|i| self.backend.config(offset - reg::CONFIG + i));
            return Ok(bytes.rev().fold(0, |acc, b| acc << 8 | u64::from(b)));
        }
        BusFault::unless_size(&[4], KIND, offset, size)?;
        let s = &self.state;
        Ok(u64::from(match offset {
            reg::MAGIC => MAGIC,
            reg::VERSION => 2,
            reg::DEVICE_ID => self.backend.device_id(),
            reg::VENDOR_ID => VENDOR,
            reg::DEVICE_FEATURES => match s.device_features_sel {
                0 => self.features() as u32,
                1 => (self.features() >> 32) as u32,
                _ => 0,
            },
            reg::QUEUE_NUM_MAX if self.queue().is_some() => self.backend.queue_max().into(),
            reg::QUEUE_READY => self.queue().is_some_and(|q| q.ready).into(),
            reg::INTERRUPT_STATUS => s.interrupt,
            reg::STATUS => s.status,
            reg::CONFIG_GENERATION => s.config_generation,
            _ => 0,
        }))
    }

    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        if offset >= reg::CONFIG {
            let offset = offset - reg::CONFIG;
            self.with(cx, |b, port| b.config_write(port, offset, size, value));
            return Ok(());
        }
        BusFault::unless_size(&[4], KIND, offset, size)?;
        let value = value as u32;
        let queue_max = u32::from(self.backend.queue_max());
        let s = &mut self.state;
        let sel = s.queue_sel as usize;
        match offset {
            reg::DEVICE_FEATURES_SEL => s.device_features_sel = value,
            reg::DRIVER_FEATURES_SEL => s.driver_features_sel = value,
            reg::DRIVER_FEATURES if s.driver_features_sel <= 1 => {
                set_half(&mut s.driver_features, s.driver_features_sel == 1, value);
            }
            reg::QUEUE_SEL => s.queue_sel = value,
            reg::QUEUE_NOTIFY => self.notify(cx, value as usize),
            reg::INTERRUPT_ACK => s.interrupt &= !value,
            reg::STATUS => self.set_status(value),
            _ => {
                let Some(queue) = s.queues.get_mut(sel) else {
                    return Ok(());
                };
                match offset {
                    reg::QUEUE_READY => queue.ready = value & 1 != 0,
                    // The layout of a live queue is fixed.
                    _ if queue.ready => {}
                    reg::QUEUE_NUM if value.is_power_of_two() && value <= queue_max => {
                        queue.size = value as u16;
                    }
                    reg::QUEUE_DESC_LOW | reg::QUEUE_DESC_HIGH => {
                        set_half(&mut queue.desc, offset == reg::QUEUE_DESC_HIGH, value);
                    }
                    reg::QUEUE_AVAIL_LOW | reg::QUEUE_AVAIL_HIGH => {
                        set_half(&mut queue.avail, offset == reg::QUEUE_AVAIL_HIGH, value);
                    }
                    reg::QUEUE_USED_LOW | reg::QUEUE_USED_HIGH => {
                        set_half(&mut queue.used, offset == reg::QUEUE_USED_HIGH, value);
                    }
                    _ => {}
                }
            }
        }
        cx.set_irq(self.state.interrupt != 0);
        Ok(())
    }

    fn next_event(&self) -> Option<Ps> {
        self.backend.next_event()
    }

    fn on_time(&mut self, cx: &mut DeviceCx<'_>) {
        self.call(cx, |b, port| b.on_time(port));
    }

    fn poll(&mut self, cx: &mut DeviceCx<'_>) {
        self.call(cx, |b, port| b.poll(port));
    }

    fn expects_host(&self) -> bool {
        self.backend.expects_host()
    }

    fn nodes(&self, at: &Placement) -> Vec<Node> {
        let node = Node::at("virtio_mmio", at.base)
            .compatible(&["virtio,mmio"])
            .reg(&[(at.base, at.size)]);
        vec![match at.irq {
            Some(irq) => node.interrupt(PLIC_LABEL, irq),
            None => node,
        }]
    }

    fn reset(&mut self, cx: &mut DeviceCx<'_>) {
        self.state = State::power_on(&self.backend);
        self.backend.reset();
        cx.set_irq(false);
    }

    fn save(&self) -> DeviceState {
        let saved = Saved {
            transport: self.state.clone(),
            backend: self.backend.save(),
        };
        DeviceState::pack(KIND, 1, &saved)
    }

    fn load(&mut self, state: &DeviceState) -> Result<(), StateError> {
        let saved: Saved = state.unpack(KIND, 1)?;
        let max = self.backend.queue_max();
        let sound = |q: &Queue| q.size.is_power_of_two() && q.size <= max;
        let queues = &saved.transport.queues;
        if queues.len() != self.backend.queues() || !queues.iter().all(sound) {
            let problem = "the queues are not those of this device".into();
            return Err(StateError::Content {
                kind: KIND,
                problem,
            });
        }
        self.backend.load(&saved.backend)?;
        self.state = saved.transport;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
#[path = "mmio_tests.rs"]
mod tests;
