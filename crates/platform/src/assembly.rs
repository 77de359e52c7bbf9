//! The standard set of devices: one line of registration each.

use crate::bus::{Bus, MapError};
use crate::clock::Clock;
use crate::device::Device;
use crate::devices::{clint, ethmac, gpio, plic, rtc, spi, syscon, uart, virtio, watchdog};
use crate::iomap::IoMap;
use nagori_config::map;
use nagori_config::{slot_names, MachineConfig, SlotKind, MAX_SLOTS};
use nagori_ram::GuestRam;
use std::sync::Arc;

/// The bus of a machine with everything attached. `config` has been checked.
pub fn build(config: &MachineConfig, ram: Arc<GuestRam>) -> Result<Bus, MapError> {
    let harts = config.harts;
    let timebase = Clock::new(config.timebase());
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
    if config.watchdog {
        b.attach(
            "watchdog",
            map::WATCHDOG,
            watchdog::SIZE,
            Some(map::WATCHDOG_IRQ),
            Box::new(watchdog::Watchdog::default()),
        )?;
    }
    if config.devices.iter().all(|d| d.kind != SlotKind::Entropy) {
        b.attach(
            SlotKind::Entropy.name(),
            map::ENTROPY,
            virtio::SIZE,
            Some(map::ENTROPY_IRQ),
            slot_device(config, SlotKind::Entropy, String::new()),
        )?;
    }
    for (slot, (kind, name)) in slots(config).enumerate() {
        let base = map::VIRTIO + slot as u64 * map::VIRTIO_STRIDE;
        // A GPIO controller has sources of its own.
        let irq = (kind != SlotKind::Gpio).then_some(map::VIRTIO_IRQ + slot as u32);
        let device = slot_device(config, kind, name.clone());
        b.attach_slot(&name, base, virtio::SIZE, irq, device)?;
    }
    // Guests that probe all addresses instead of reading the device tree find nothing there.
    let vacant = (MAX_SLOTS - config.devices.len()) as u64;
    if vacant > 0 {
        let base = map::VIRTIO + config.devices.len() as u64 * map::VIRTIO_STRIDE;
        let size = vacant * map::VIRTIO_STRIDE;
        b.attach("vacant", base, size, None, Box::new(virtio::Vacant))?;
    }
    b.attach_control(map::CONTROL)?;
    b.set_iomap(IoMap::new(config));
    Ok(bus)
}

const _: () = assert!(map::GPIO_IRQ + gpio::PINS <= 32);

/// Kinds and names of the virtio slots in order.
fn slots(config: &MachineConfig) -> impl Iterator<Item = (SlotKind, String)> + '_ {
    let kinds = config.devices.iter().map(|d| d.kind);
    kinds.zip(slot_names(&config.devices))
}

/// A slot's device, without a host resource.
fn slot_device(config: &MachineConfig, kind: SlotKind, name: String) -> Box<dyn Device> {
    use virtio::VirtioMmio;
    match kind {
        SlotKind::Block => Box::new(VirtioMmio::new(virtio::Block::new(
            name,
            config.block.clone(),
        ))),
        SlotKind::Net => Box::new(VirtioMmio::new(virtio::Net::new(name, config.seed))),
        SlotKind::Ethmac => {
            let mac = virtio::mac(&name, config.seed);
            let cycle = config.core_period().nearest().0;
            Box::new(ethmac::Ethmac::new(name, mac, cycle))
        }
        SlotKind::Share => Box::new(VirtioMmio::new(virtio::Share::new(name, config.share))),
        SlotKind::Entropy => Box::new(VirtioMmio::new(virtio::Entropy::new(config.seed))),
        SlotKind::Console => Box::new(VirtioMmio::new(virtio::PortConsole::new(name))),
        SlotKind::Gpio => Box::new(gpio::Gpio::new(map::GPIO_IRQ)),
        SlotKind::Spi => {
            let hz = u32::try_from(config.clock_hz.nearest_hz()).unwrap_or(u32::MAX);
            Box::new(spi::Spi::new(Clock::new(config.core_period()), hz))
        }
    }
}
