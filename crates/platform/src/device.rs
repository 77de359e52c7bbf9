//! The interface of a device, and its view of the machine.

use crate::clock::Ps;
pub use crate::fault::{part, BusFault};
use crate::fdt::Node;
use crate::iomap::{IoMap, Pieces};
pub use crate::state::{DeviceState, StateError};
use nagori_hart::world::{DeviceDeed, DeviceEvent, DevicePlace};
use nagori_iomap::Access;
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// A request of the guest to the power supply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerRequest {
    /// Switch off; 0 is success, anything else is the guest's exit code.
    Off {
        /// Exit code.
        code: u32,
    },
    /// Restart the machine.
    Reset,
}

/// A hart's interrupt inputs, as bits of `mip`.
pub mod line {
    /// Machine software interrupt.
    pub const MSIP: u64 = 1 << 3;
    /// Machine timer interrupt.
    pub const MTIP: u64 = 1 << 7;
    /// Supervisor external interrupt.
    pub const SEIP: u64 = 1 << 9;
    /// Machine external interrupt.
    pub const MEIP: u64 = 1 << 11;
}

/// A DMA access outside guest memory, or outside of what the I/O table gives the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "DMA of {len} bytes at {addr:#x} is outside guest memory, or not permitted by the I/O table"
)]
pub struct DmaError {
    /// Address that the device has used.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A physical address range that a device has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaRange {
    /// First byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A transfer between a device and memory that takes place on the bus: of a line, or of a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmaTransfer {
    /// When the device sends it.
    pub at: Ps,
    /// A physical address in the line.
    pub addr: u64,
    /// Whether memory is written.
    pub write: bool,
}

/// What devices have done since the machine was told, if anybody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    wanted: bool,
    /// Devices read memory through a shared reference.
    list: RefCell<Vec<DeviceEvent>>,
}

impl Deeds {
    /// Whether they are recorded from now on.
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// The device and the hart of those from number `from` on.
    pub fn sign(&mut self, from: usize, device: u64, hart: Option<u32>) {
        for deed in self.list.get_mut().iter_mut().skip(from) {
            deed.device = device;
            deed.hart = hart;
        }
    }

    /// All of them, in order; taken once.
    pub fn take(&mut self) -> Vec<DeviceEvent> {
        std::mem::take(self.list.get_mut())
    }

    /// Something that the device under way does; [`Deeds::sign`] says which one that is.
    fn add(&self, now: Ps, did: DeviceDeed) {
        if self.wanted {
            self.list.borrow_mut().push(DeviceEvent {
                device: 0,
                time_ps: now.0,
                hart: None,
                did,
            });
        }
    }
}

/// The surroundings on which devices act; owned by the bus.
#[derive(Debug)]
pub(crate) struct Wires {
    pub(crate) ram: Arc<GuestRam>,
    pub(crate) ram_base: u64,
    pub(crate) dma_writes: Vec<DmaRange>,
    /// Whether transfers on the bus have a cost at present.
    pub(crate) transfers_cost: bool,
    pub(crate) transfers: Vec<DmaTransfer>,
    pub(crate) deeds: Deeds,
    /// Levels of the interrupt sources, bit n for source n (1..=31).
    pub(crate) irq_levels: u32,
    pub(crate) hart_lines: Vec<u64>,
    pub(crate) power: Option<PowerRequest>,
    /// The table that translates I/O addresses, if there is one.
    pub(crate) iomap: Option<Box<IoMap>>,
}

/// The machine as a device sees it during one call.
pub struct DeviceCx<'a> {
    /// Machine time of the access or event.
    pub now: Ps,
    /// The hart that accesses the device; `None` for events and the host.
    pub hart: Option<u32>,
    pub(crate) irq: Option<u32>,
    pub(crate) wires: &'a mut Wires,
}

impl DeviceCx<'_> {
    /// This context, lent for a shorter time.
    pub(crate) fn reborrow(&mut self) -> DeviceCx<'_> {
        DeviceCx {
            now: self.now,
            hart: self.hart,
            irq: self.irq,
            wires: self.wires,
        }
    }

    /// Sets the level of the device's own interrupt source.
    pub fn set_irq(&mut self, level: bool) {
        if let Some(n) = self.irq {
            let bit = 1u32 << n;
            if level {
                self.wires.irq_levels |= bit;
            } else {
                self.wires.irq_levels &= !bit;
            }
        }
    }

    /// Sets the levels of sources in [`Device::sources`]: bit n for source n.
    pub fn set_sources(&mut self, sources: u32, levels: u32) {
        let others = self.wires.irq_levels & !sources;
        self.wires.irq_levels = others | levels & sources;
    }

    /// Sets interrupt inputs of a hart (bits of [`line`]). For interrupt
    /// controllers only. Harts that do not exist are ignored.
    pub fn set_hart_lines(&mut self, hart: usize, mask: u64, level: bool) {
        if let Some(lines) = self.wires.hart_lines.get_mut(hart) {
            if level {
                *lines |= mask;
            } else {
                *lines &= !mask;
            }
        }
    }

    /// Requests power-off or reset. The first request of a step counts.
    pub fn request_power(&mut self, request: PowerRequest) {
        self.wires.power.get_or_insert(request);
    }

    fn offset(&self, addr: u64, len: u64) -> Result<u64, DmaError> {
        let offset = addr.checked_sub(self.wires.ram_base);
        match offset.and_then(|o| Some((o, o.checked_add(len)?))) {
            Some((o, end)) if end <= self.wires.ram.len() => Ok(o),
            _ => Err(DmaError { addr, len }),
        }
    }

    /// Physical addresses and lengths of a range that the device accesses, all in memory, if the I/O table translates
    /// them; `None` if its address is the physical one.
    fn pieces(&self, addr: u64, len: u64, access: Access) -> Result<Option<Pieces>, DmaError> {
        let Some(table) = &self.wires.iomap else {
            return Ok(None);
        };
        let pieces = table.of_device(self.irq, addr, len, access);
        let pieces = pieces.ok_or(DmaError { addr, len })?;
        for (at, n) in pieces.iter().flatten() {
            self.offset(*at, *n).map_err(|_| DmaError { addr, len })?;
        }
        Ok(pieces)
    }

    /// Reads guest memory at a physical address, or at one that the I/O table translates.
    pub fn dma_read(&self, addr: u64, out: &mut [u8]) -> Result<(), DmaError> {
        let Some(pieces) = self.pieces(addr, out.len() as u64, Access::Read)? else {
            return self.read_at(addr, out);
        };
        let mut rest = out;
        for (at, n) in pieces {
            let (part, behind) = rest.split_at_mut(n as usize);
            self.read_at(at, part)?;
            rest = behind;
        }
        Ok(())
    }

    fn read_at(&self, addr: u64, out: &mut [u8]) -> Result<(), DmaError> {
        let len = out.len() as u64;
        let offset = self.offset(addr, len)?;
        self.wires
            .ram
            .read_bytes(offset, out)
            .map_err(|_| DmaError { addr, len })?;
        let did = DeviceDeed::Read { paddr: addr, len };
        self.wires.deeds.add(self.now, did);
        Ok(())
    }

    /// Writes guest memory at a physical address, or at one that the I/O table translates, and records the
    /// physical range, so that the machine can drop cached lines and decoded code of it.
    pub fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let Some(pieces) = self.pieces(addr, data.len() as u64, Access::Write)? else {
            return self.write_at(addr, data);
        };
        let mut rest = data;
        for (at, n) in pieces {
            let (part, behind) = rest.split_at(n as usize);
            self.write_at(at, part)?;
            rest = behind;
        }
        Ok(())
    }

    fn write_at(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaError> {
        let len = data.len() as u64;
        let offset = self.offset(addr, len)?;
        self.wires
            .ram
            .write_bytes(offset, data)
            .map_err(|_| DmaError { addr, len })?;
        self.wires.dma_writes.push(DmaRange { addr, len });
        let did = DeviceDeed::Wrote { paddr: addr, len };
        self.wires.deeds.add(self.now, did);
        Ok(())
    }

    /// Whether transfers on the bus have a cost at present, so that a device has to spread them over time
    /// ([`DeviceCx::transfer`]): with the detailed timing model.
    pub fn transfers_cost(&self) -> bool {
        self.wires.transfers_cost
    }

    /// The device transfers the line of an address, or a part of it, now. This is the load of the bus and of memory
    /// alone: bytes are moved by [`DeviceCx::dma_read`] and [`DeviceCx::dma_write`], which also report what is not
    /// permitted.
    pub fn transfer(&mut self, addr: u64, access: Access) {
        let addr = match &self.wires.iomap {
            Some(table) => table.peek_device(self.irq, addr, access),
            None => Some(addr),
        };
        if let Some(addr) = addr.filter(|a| self.offset(*a, 1).is_ok()) {
            self.wires.transfers.push(DmaTransfer {
                at: self.now,
                addr,
                write: access == Access::Write,
            });
        }
    }

    /// The device has taken something from the driver that leaves the machine now or later; `queue` is 0 for devices
    /// without queues.
    pub fn sends(&self, queue: usize) {
        let queue = queue as u16;
        self.wires.deeds.add(self.now, DeviceDeed::Sends { queue });
    }
}

/// The place of a device: for its device-tree node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// First physical address.
    pub base: u64,
    /// Length of its range in bytes.
    pub size: u64,
    /// Interrupt source, 1..=31.
    pub irq: Option<u32>,
    /// Harts of the machine.
    pub harts: u32,
}

/// A memory-mapped device.
///
/// Accesses arrive naturally aligned, with a size of 1, 2, 4 or 8 bytes, and
/// inside the device's range; reads return the value in the low bytes.
pub trait Device: Any + Send {
    /// Stable short name, for messages and saved state.
    fn kind(&self) -> &'static str;

    /// Where it is, which says how long an access takes.
    fn place(&self) -> DevicePlace {
        DevicePlace::Port
    }

    /// Interrupt sources that it has besides the one of its place: bit n for source n (1..=31).
    fn sources(&self) -> u32 {
        0
    }

    /// A load.
    fn read(&mut self, cx: &mut DeviceCx<'_>, offset: u64, size: u8) -> Result<u64, BusFault>;

    /// A store; `value` has no bits above `size` bytes.
    fn write(
        &mut self,
        cx: &mut DeviceCx<'_>,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault>;

    /// Machine time of the next call of `on_time`.
    fn next_event(&self) -> Option<Ps> {
        None
    }

    /// Called at or after `next_event`.
    fn on_time(&mut self, _cx: &mut DeviceCx<'_>) {}

    /// Lets it poll the host; only for devices in slots.
    fn poll(&mut self, _cx: &mut DeviceCx<'_>) {}

    /// Whether something may still arrive from outside.
    fn expects_host(&self) -> bool {
        false
    }

    /// For the interrupt controller: levels of all sources have changed.
    fn irq_levels(&mut self, _cx: &mut DeviceCx<'_>, _levels: u32) {}

    /// Device-tree nodes of the device, at the level of `/soc`.
    fn nodes(&self, at: &Placement) -> Vec<Node>;

    /// Back to the state after power-on.
    fn reset(&mut self, cx: &mut DeviceCx<'_>);

    /// The whole state.
    fn save(&self) -> DeviceState;

    /// Loads a saved state.
    fn load(&mut self, state: &DeviceState) -> Result<(), StateError>;

    /// For typed access by the host.
    fn as_any(&self) -> &dyn Any;

    /// For typed access by the host.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Writes `value` of `size` bytes over a part of a 64-bit register.
pub(crate) fn merge(old: u64, byte: u64, size: u8, value: u64) -> u64 {
    if size == 8 {
        return value;
    }
    let shift = byte * 8;
    let mask = ((1u64 << (size * 8)) - 1) << shift;
    (old & !mask) | ((value << shift) & mask)
}
