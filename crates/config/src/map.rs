//! The memory map: the only place where addresses and interrupt numbers of the machine are defined.
//! Devices that QEMU's `virt` machine has, too, are at the same addresses, so that bare-metal
//! programs run on both.

/// Test finisher (power-off and reset).
pub const SYSCON: u64 = 0x10_0000;
/// Real-time clock.
pub const RTC: u64 = 0x10_1000;
/// Interrupt source of the real-time clock.
pub const RTC_IRQ: u32 = 11;
/// Watchdog timer, if the description asks for one (free in QEMU's map).
pub const WATCHDOG: u64 = 0x10_2000;
/// Interrupt source of the watchdog timer.
pub const WATCHDOG_IRQ: u32 = 12;
/// CLINT.
pub const CLINT: u64 = 0x200_0000;
/// Configuration and statistics registers (free in QEMU's map).
pub const CONTROL: u64 = 0x400_0000;
/// PLIC.
pub const PLIC: u64 = 0xc00_0000;
/// Console.
pub const UART: u64 = 0x1000_0000;
/// Interrupt source of the console.
pub const UART_IRQ: u32 = 10;
/// First virtio transport: slot 0 of the description. The other slots
/// follow, each [`VIRTIO_STRIDE`] further, as in QEMU's `virt`.
pub const VIRTIO: u64 = 0x1000_1000;
/// Transport of the entropy source if the description gives it no slot: after all slots.
pub const ENTROPY: u64 = 0x1000_9000;
/// Interrupt source of the entropy source there.
pub const ENTROPY_IRQ: u32 = 9;
/// Distance between virtio transports.
pub const VIRTIO_STRIDE: u64 = 0x1000;
/// Interrupt source of the first virtio transport; the next ones count up.
pub const VIRTIO_IRQ: u32 = 1;
/// Interrupt source of pin 0 of the GPIO controller, which has one for each pin; the next ones count up.
pub const GPIO_IRQ: u32 = 13;
/// First address of memory unless the machine description says otherwise.
pub const MEMORY: u64 = 0x8000_0000;
