//! The standard set of devices: one line of registration each.

use crate::bus::{Bus, MapError};
use crate::clock::Clock;
use crate::config::{slot_names, MachineConfig, SlotKind};
use crate::device::Device;
use crate::devices::{clint, plic, rtc, syscon, uart, virtio};
use crate::map;
use nagori_ram::GuestRam;
use std::sync::Arc;

/// The bus of a machine with everything attached. `config` has been checked.
pub fn build(config: &MachineConfig, ram: Arc<GuestRam>) -> Result<Bus, MapError> {
    let harts = config.harts;
    let timebase = Clock::new(config.timebase_hz).expect("a checked description");
    let mut bus = Bus::new(ram, config.memory.base, harts)?;
    let b = &mut bus;
    b.attach(
        "clint",
        map::CLINT,
        clint::SIZE,
        None,
        Box::new(clint::Clint::new(harts, timebase)),
    )?;
    b.attach(
        "plic",
        map::PLIC,
        plic::SIZE,
        None,
        Box::new(plic::Plic::new(harts)),
    )?;
    b.attach(
        "uart",
        map::UART,
        uart::SIZE,
        Some(map::UART_IRQ),
        Box::new(uart::Uart::new()),
    )?;
    b.attach(
        "syscon",
        map::SYSCON,
        syscon::SIZE,
        None,
        Box::new(syscon::Syscon),
    )?;
    b.attach(
        "rtc",
        map::RTC,
        rtc::SIZE,
        Some(map::RTC_IRQ),
        Box::new(rtc::Rtc::new(config.rtc_epoch)),
    )?;
    let entropy = virtio::VirtioMmio::new(virtio::Entropy::new(config.seed));
    b.attach(
        "entropy",
        map::VIRTIO,
        virtio::SIZE,
        Some(map::VIRTIO_IRQ),
        Box::new(entropy),
    )?;
    for (slot, (kind, name)) in slots(config).enumerate() {
        let n = 1 + slot as u32;
        let base = map::VIRTIO + u64::from(n) * map::VIRTIO_STRIDE;
        let irq = Some(map::VIRTIO_IRQ + n);
        let device = slot_device(config, kind, name.clone());
        b.attach_slot(&name, base, virtio::SIZE, irq, device)?;
    }
    b.attach_control(map::CONTROL)?;
    Ok(bus)
}

/// Kinds and names of the virtio slots in order.
fn slots(config: &MachineConfig) -> impl Iterator<Item = (SlotKind, String)> + '_ {
    let kinds = config.devices.iter().map(|d| d.kind);
    kinds.zip(slot_names(&config.devices))
}

/// A slot's device, not connected to anything of the host.
fn slot_device(config: &MachineConfig, kind: SlotKind, name: String) -> Box<dyn Device> {
    use virtio::VirtioMmio;
    match kind {
        SlotKind::Block => Box::new(VirtioMmio::new(virtio::Block::new(
            name,
            config.block.clone(),
        ))),
        SlotKind::Net => Box::new(VirtioMmio::new(virtio::Net::new(name, config.seed))),
        SlotKind::Share => Box::new(VirtioMmio::new(virtio::Share::new(name, config.share))),
        SlotKind::Console => Box::new(VirtioMmio::new(virtio::PortConsole::new(name))),
    }
}
