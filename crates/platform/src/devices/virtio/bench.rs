//! A virtio device alone, with a little memory and a driver: for tests and fuzz targets.

use super::mmio::{reg, VirtioMmio};
use super::port::{Port, VirtioBackend};
use crate::clock::Ps;
use crate::device::{Device, DeviceCx, DmaRange, Wires};
use nagori_ram::GuestRam;
use std::sync::Arc;

/// Physical address of memory.
pub const BASE: u64 = 0x8000_0000;
/// Bytes of memory.
pub const SIZE: u64 = 1 << 20;
/// Address for data, after the rings.
pub const DATA: u64 = BASE + 0x1_0000;
/// Distance between the rings of two queues.
const QUEUE: u64 = 0x3000;
const IRQ: u32 = 1;

/// A device with a driver.
pub struct Bench<B> {
    /// The device.
    pub device: VirtioMmio<B>,
    /// Machine time.
    pub now: Ps,
    pub(crate) wires: Wires,
    /// Index of the next chain, for each queue.
    offered: Vec<u16>,
    /// Number of descriptors of every queue.
    pub queue_size: u16,
}

impl<B: VirtioBackend> Bench<B> {
    /// A backend after power-on.
    pub fn new(backend: B) -> Bench<B> {
        let ram = Arc::new(GuestRam::new(SIZE).expect("a MiB of memory"));
        Bench {
            offered: vec![0; backend.queues()],
            device: VirtioMmio::new(backend),
            now: Ps::ZERO,
            wires: Wires {
                ram,
                ram_base: BASE,
                dma_writes: Vec::new(),
                transfers_cost: false,
                transfers: Vec::new(),
                deeds: Default::default(),
                irq_levels: 0,
                hart_lines: vec![0],
                power: None,
                iomap: None,
            },
            queue_size: 8,
        }
    }

    /// Addresses of a queue's descriptor table, driver's ring and device's ring.
    pub fn rings(queue: usize) -> [u64; 3] {
        let at = BASE + QUEUE * queue as u64;
        [at, at + 0x1000, at + 0x2000]
    }

    fn with_cx<R>(&mut self, f: impl FnOnce(&mut VirtioMmio<B>, &mut DeviceCx<'_>) -> R) -> R {
        let mut cx = DeviceCx {
            now: self.now,
            hart: None,
            irq: Some(IRQ),
            wires: &mut self.wires,
        };
        f(&mut self.device, &mut cx)
    }

    /// Reads a register of 4 bytes; 0 if there is none.
    pub fn r(&mut self, offset: u64) -> u32 {
        self.with_cx(|d, cx| d.read(cx, offset, 4)).unwrap_or(0) as u32
    }

    /// Writes a register of 4 bytes.
    pub fn w(&mut self, offset: u64, value: u32) {
        // Only accesses of other widths fail.
        let _ = self.with_cx(|d, cx| d.write(cx, offset, 4, value.into()));
    }

    /// A byte of the configuration space.
    pub fn config(&mut self, offset: u64) -> u8 {
        let read = self.with_cx(|d, cx| d.read(cx, reg::CONFIG + offset, 1));
        read.unwrap_or(0) as u8
    }

    /// The host's access to the device.
    pub fn host<R>(&mut self, f: impl FnOnce(&mut B, &mut Port<'_>) -> R) -> R {
        self.with_cx(|d, cx| d.with(cx, f))
    }

    /// Lets the device poll the host.
    pub fn poll(&mut self) {
        self.with_cx(|d, cx| d.poll(cx));
    }

    /// Lets time pass until the device has no more events; at most `events`.
    pub fn settle(&mut self, events: usize) {
        for _ in 0..events {
            let Some(at) = self.device.next_event() else {
                break;
            };
            self.now = self.now.max(at);
            self.with_cx(|d, cx| d.on_time(cx));
        }
    }

    /// Initialises the device as a driver does, with all features that it offers except those in
    /// `without`. Returns true if the device accepted.
    pub fn start(&mut self, without: u64) -> bool {
        for status in [0, 1, 3] {
            self.w(reg::STATUS, status);
        }
        for half in 0..2 {
            self.w(reg::DEVICE_FEATURES_SEL, half);
            let offered = self.r(reg::DEVICE_FEATURES);
            self.w(reg::DRIVER_FEATURES_SEL, half);
            self.w(
                reg::DRIVER_FEATURES,
                offered & !((without >> (32 * half)) as u32),
            );
        }
        self.w(reg::STATUS, 3 | 8);
        for q in 0..self.offered.len() {
            self.offered[q] = 0;
            self.w(reg::QUEUE_SEL, q as u32);
            self.w(reg::QUEUE_NUM, self.queue_size.into());
            let [desc, avail, used] = Self::rings(q);
            for addr in [avail, used] {
                self.put(addr, &[0; 4]);
            }
            for (low, high, addr) in [
                (reg::QUEUE_DESC_LOW, reg::QUEUE_DESC_HIGH, desc),
                (reg::QUEUE_AVAIL_LOW, reg::QUEUE_AVAIL_HIGH, avail),
                (reg::QUEUE_USED_LOW, reg::QUEUE_USED_HIGH, used),
            ] {
                self.w(low, addr as u32);
                self.w(high, (addr >> 32) as u32);
            }
            self.w(reg::QUEUE_READY, 1);
        }
        self.w(reg::STATUS, 0xf);
        self.r(reg::STATUS) == 0xf
    }

    /// Whether the device requires a reset.
    pub fn is_broken(&mut self) -> bool {
        self.r(reg::STATUS) & 0x40 != 0
    }

    /// Takes the reasons of the interrupt: 1 used buffers, 2 configuration.
    pub fn take_interrupt(&mut self) -> u32 {
        let reasons = self.r(reg::INTERRUPT_STATUS);
        self.w(reg::INTERRUPT_ACK, reasons);
        reasons
    }

    /// Whether the interrupt line is asserted.
    pub fn interrupted(&self) -> bool {
        self.wires.irq_levels & 1 << IRQ != 0
    }

    /// Writes bytes to memory, as far as they are inside.
    pub fn put(&self, addr: u64, bytes: &[u8]) {
        let _ = self.wires.ram.write_bytes(addr.wrapping_sub(BASE), bytes);
    }

    /// Bytes of memory; zeros outside.
    pub fn get(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut b = vec![0; len];
        let _ = self.wires.ram.read_bytes(addr.wrapping_sub(BASE), &mut b);
        b
    }

    /// Takes the ranges that the device has written.
    pub fn take_writes(&mut self) -> Vec<DmaRange> {
        std::mem::take(&mut self.wires.dma_writes)
    }

    /// Writes an entry of a queue's descriptor table; flags: 1 next, 2 write, 4 indirect.
    pub fn descriptor(&self, queue: usize, index: u64, d: (u64, u32, u16, u16)) {
        let [desc, _, _] = Self::rings(queue);
        self.put(desc + 16 * index, &entry(d));
    }

    /// Puts a head into the driver's ring.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let [_, avail, _] = Self::rings(queue);
        let next = &mut self.offered[queue];
        let slot = u64::from(*next % self.queue_size);
        *next = next.wrapping_add(1);
        let next = *next;
        self.put(avail + 4 + 2 * slot, &head.to_le_bytes());
        self.put(avail + 2, &next.to_le_bytes());
    }

    /// Offers a chain from descriptor `first` on, of (address, length, writable), and notifies the
    /// device. Returns its head.
    pub fn send(&mut self, queue: usize, first: u16, buffers: &[(u64, u32, bool)]) -> u16 {
        for (i, (addr, len, writable)) in buffers.iter().enumerate() {
            let more = i + 1 < buffers.len();
            let flags = u16::from(more) | u16::from(*writable) << 1;
            let index = u64::from(first) + i as u64;
            self.descriptor(queue, index, (*addr, *len, flags, index as u16 + 1));
        }
        self.offer(queue, first);
        self.notify(queue);
        first
    }

    /// Notifies the device of a queue.
    pub fn notify(&mut self, queue: usize) {
        self.w(reg::QUEUE_NOTIFY, queue as u32);
    }

    /// The entries of the device's ring so far that have not been overwritten: (head, written).
    pub fn used(&self, queue: usize) -> Vec<(u32, u32)> {
        let [_, _, used] = Self::rings(queue);
        let word = |addr| {
            let b = self.get(addr, 4);
            u32::from_le_bytes([b[0], b[1], b[2], b[3]])
        };
        let count = word(used) >> 16;
        let first = count.saturating_sub(self.queue_size.into());
        (first..count)
            .map(|n| {
                let slot = u64::from(n % u32::from(self.queue_size));
                (word(used + 4 + 8 * slot), word(used + 8 + 8 * slot))
            })
            .collect()
    }
}

/// A descriptor's bytes: address, length, flags, next.
pub fn entry((addr, len, flags, next): (u64, u32, u16, u16)) -> Vec<u8> {
    let mut d = addr.to_le_bytes().to_vec();
    d.extend(len.to_le_bytes());
    d.extend(flags.to_le_bytes());
    d.extend(next.to_le_bytes());
    d
}
