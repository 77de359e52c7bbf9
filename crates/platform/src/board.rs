//! The standard set of devices: one line of registration each.

use crate::bus::{Bus, MapError};
use crate::clock::Clock;
use crate::config::MachineConfig;
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
    b.attach_control(map::CONTROL)?;
    Ok(bus)
}
