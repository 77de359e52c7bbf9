//! The address map: which device answers at which address, its time and its interrupts.

use crate::clock::Ps;
use crate::control::{self, ControlAccess};
use crate::device::{
    BusFault, Device, DeviceCx, DeviceState, DmaRange, DmaTransfer, Placement, PowerRequest,
    StateError, Wires,
};
use crate::iomap::{IoMap, SavedIoMap};
use nagori_hart::world::{DeviceEvent, DevicePlace};
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A range of physical addresses with the name of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Owner, for messages.
    pub name: String,
    /// First address.
    pub base: u64,
    /// Length in bytes, at least 1.
    pub size: u64,
}

impl Range {
    /// Last address.
    pub fn last(&self) -> u64 {
        self.base + (self.size - 1)
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.base <= other.last() && other.base <= self.last()
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}` at {:#x}..={:#x}",
            self.name,
            self.base,
            self.last()
        )
    }
}

/// An impossible map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Two owners of the same address.
    #[error("address ranges overlap: {new} and {old}; move one of them")]
    Overlap {
        /// The existing range.
        old: Range,
        /// The range to be added.
        new: Range,
    },
    /// An empty range, or one that wraps around.
    #[error("`{name}`: a range of {size:#x} bytes at {base:#x} is empty or passes the end of the address space")]
    Extent {
        /// Owner.
        name: String,
        /// First address.
        base: u64,
        /// Length in bytes.
        size: u64,
    },
    /// The interrupt source is taken.
    #[error("interrupt source {irq} is wanted by `{new}` but belongs to `{old}`")]
    Irq {
        /// Source number.
        irq: u32,
        /// Owner.
        old: String,
        /// The device to be added.
        new: String,
    },
    /// There is no such interrupt source.
    #[error("`{name}`: there is no interrupt source {irq}; 1 to 31 exist")]
    IrqRange {
        /// Source number.
        irq: u32,
        /// The device to be added.
        name: String,
    },
}

/// Outcome of a read on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusRead {
    /// The value, in the low bytes.
    Value(u64),
    /// The address belongs to the control block, whose registers are the machine's own: the machine
    /// answers with [`control::ControlBlock::read`].
    Control(ControlAccess),
}

/// Outcome of a write on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusWrite {
    /// Done.
    Done,
    /// As for [`BusRead::Control`], with [`control::ControlBlock::write`].
    Control(ControlAccess),
}

struct Attached {
    range: Range,
    irq: Option<u32>,
    device: Box<dyn Device>,
}

enum Owner {
    Device(usize),
    Memory,
    Control,
}

/// All interrupt sources of a device: bit n for source n.
fn all_sources(irq: Option<u32>, device: &dyn Device) -> u32 {
    irq.map_or(0, |n| 1 << n) | device.sources()
}

/// Saved state of the bus and all devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusState {
    /// Levels of the interrupt sources.
    pub irq_levels: u32,
    /// Interrupt inputs of every hart.
    pub hart_lines: Vec<u64>,
    /// Ranges that devices have written and that the machine has not been told of.
    pub dma_writes: Vec<DmaRange>,
    /// Transfers that the machine has not been told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<DmaTransfer>,
    /// A request to switch off or restart that has not been taken.
    pub power: Option<PowerRequest>,
    /// Devices in the order of attachment.
    pub devices: Vec<DeviceState>,
    /// The table that translates I/O addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iomap: Option<SavedIoMap>,
}

/// The bus with its devices.
pub struct Bus {
    devices: Vec<Attached>,
    /// Numbers of the devices in virtio slots.
    slots: Vec<usize>,
    /// Sorted by base; never overlapping.
    map: Vec<(Range, Owner)>,
    wires: Wires,
    /// Levels that have been passed to the interrupt controller.
    seen_levels: u32,
    next: Ps,
    control_base: Option<u64>,
    /// The I/O table at power-on.
    first_iomap: Option<IoMap>,
}

impl Bus {
    /// A bus for `harts` harts and guest memory at `ram_base`.
    pub fn new(ram: Arc<GuestRam>, ram_base: u64, harts: u32) -> Result<Bus, MapError> {
        let size = ram.len();
        let mut bus = Bus {
            devices: Vec::new(),
            slots: Vec::new(),
            map: Vec::new(),
            wires: Wires {
                ram,
                ram_base,
                dma_writes: Vec::new(),
                transfers_cost: false,
                transfers: Vec::new(),
                deeds: Default::default(),
                irq_levels: 0,
                hart_lines: vec![0; harts as usize],
                power: None,
                iomap: None,
            },
            seen_levels: 0,
            next: Ps::NEVER,
            control_base: None,
            first_iomap: None,
        };
        bus.claim("memory", ram_base, size, Owner::Memory)?;
        Ok(bus)
    }

    fn claim(&mut self, name: &str, base: u64, size: u64, owner: Owner) -> Result<(), MapError> {
        if size == 0 || base.checked_add(size - 1).is_none() {
            return Err(MapError::Extent {
                name: name.into(),
                base,
                size,
            });
        }
        let new = Range {
            name: name.into(),
            base,
            size,
        };
        if let Some((old, _)) = self.map.iter().find(|(r, _)| r.overlaps(&new)) {
            return Err(MapError::Overlap {
                old: old.clone(),
                new,
            });
        }
        let at = self.map.partition_point(|(r, _)| r.base < base);
        self.map.insert(at, (new, owner));
        Ok(())
    }

    /// Attaches a device; returns its number.
    pub fn attach(
        &mut self,
        name: &str,
        base: u64,
        size: u64,
        irq: Option<u32>,
        device: Box<dyn Device>,
    ) -> Result<usize, MapError> {
        if let Some(irq) = irq {
            if !(1..=31).contains(&irq) {
                return Err(MapError::IrqRange {
                    irq,
                    name: name.into(),
                });
            }
        }
        if device.sources() & 1 != 0 {
            let name = name.into();
            return Err(MapError::IrqRange { irq: 0, name });
        }
        let sources = all_sources(irq, &*device);
        for old in &self.devices {
            let both = all_sources(old.irq, &*old.device) & sources;
            if both != 0 {
                return Err(MapError::Irq {
                    irq: both.trailing_zeros(),
                    old: old.range.name.clone(),
                    new: name.into(),
                });
            }
        }
        let id = self.devices.len();
        self.claim(name, base, size, Owner::Device(id))?;
        let range = Range {
            name: name.into(),
            base,
            size,
        };
        self.devices.push(Attached { range, irq, device });
        self.with_id(id, Ps::ZERO, None, |d, cx| d.reset(cx));
        Ok(id)
    }

    /// Attaches a device to the next virtio slot; returns the slot.
    pub fn attach_slot(
        &mut self,
        name: &str,
        base: u64,
        size: u64,
        irq: Option<u32>,
        device: Box<dyn Device>,
    ) -> Result<usize, MapError> {
        let id = self.attach(name, base, size, irq, device)?;
        self.slots.push(id);
        Ok(self.slots.len() - 1)
    }

    /// Reserves the range of the control block.
    pub fn attach_control(&mut self, base: u64) -> Result<(), MapError> {
        self.claim(control::KIND, base, control::SIZE, Owner::Control)?;
        self.control_base = Some(base);
        Ok(())
    }

    /// Puts the table that translates I/O addresses in front of the devices.
    pub(crate) fn set_iomap(&mut self, table: Option<IoMap>) {
        self.wires.iomap = table.clone().map(Box::new);
        self.first_iomap = table;
    }

    /// The table that translates I/O addresses, if there is one. The bus itself is accessed behind it.
    pub fn iomap(&mut self) -> Option<&mut IoMap> {
        self.wires.iomap.as_deref_mut()
    }

    /// Base address of the control block, if there is one.
    pub fn control_base(&self) -> Option<u64> {
        self.control_base
    }

    /// All ranges in ascending order, memory included.
    pub fn ranges(&self) -> impl Iterator<Item = &Range> {
        self.map.iter().map(|(r, _)| r)
    }

    /// Devices with their addresses, in the order of attachment.
    pub fn devices(&self) -> impl Iterator<Item = (Placement, &dyn Device)> {
        let harts = self.wires.hart_lines.len() as u32;
        self.devices.iter().map(move |d| {
            let at = Placement {
                base: d.range.base,
                size: d.range.size,
                irq: d.irq,
                harts,
            };
            (at, &*d.device)
        })
    }

    fn find(&self, addr: u64, size: u8) -> Result<(&Owner, u64), BusFault> {
        if !matches!(size, 1 | 2 | 4 | 8) || !addr.is_multiple_of(size as u64) {
            return Err(BusFault::Misaligned { addr, size });
        }
        let unmapped = BusFault::Unmapped { addr, size };
        let at = self.map.partition_point(|(r, _)| r.base <= addr);
        let (range, owner) = &self.map[at.checked_sub(1).ok_or(unmapped)?];
        if addr + (size as u64 - 1) > range.last() {
            return Err(unmapped);
        }
        Ok((owner, addr - range.base))
    }

    /// Where the device at an address is.
    pub fn place(&self, addr: u64) -> DevicePlace {
        match self.find(addr, 1) {
            Ok((&Owner::Device(id), _)) => self.devices[id].device.place(),
            Ok(_) | Err(_) => DevicePlace::Port,
        }
    }

    /// A load by a hart at its local time. Memory is not accessed in this way.
    pub fn read(&mut self, addr: u64, size: u8, now: Ps, hart: u32) -> Result<BusRead, BusFault> {
        match self.find(addr, size)? {
            (Owner::Memory, _) => Err(BusFault::Unmapped { addr, size }),
            (Owner::Control, offset) => control::access(offset, size).map(BusRead::Control),
            (&Owner::Device(id), offset) => self
                .with_id(id, now, Some(hart), |d, cx| d.read(cx, offset, size))
                .map(BusRead::Value),
        }
    }

    /// A store by a hart at its local time. Memory is not accessed in this way.
    pub fn write(
        &mut self,
        addr: u64,
        size: u8,
        value: u64,
        now: Ps,
        hart: u32,
    ) -> Result<BusWrite, BusFault> {
        let value = crate::device::part(value, 0, size.min(8));
        match self.find(addr, size)? {
            (Owner::Memory, _) => Err(BusFault::Unmapped { addr, size }),
            (Owner::Control, offset) => control::access(offset, size).map(BusWrite::Control),
            (&Owner::Device(id), offset) => self
                .with_id(id, now, Some(hart), |d, cx| {
                    d.write(cx, offset, size, value)
                })
                .map(|()| BusWrite::Done),
        }
    }

    /// Calls a device, then updates interrupt levels and event times.
    fn with_id<R>(
        &mut self,
        id: usize,
        now: Ps,
        hart: Option<u32>,
        f: impl FnOnce(&mut dyn Device, &mut DeviceCx<'_>) -> R,
    ) -> R {
        let d = &mut self.devices[id];
        let deeds = self.wires.deeds.len();
        let mut cx = DeviceCx {
            now,
            hart,
            irq: d.irq,
            wires: &mut self.wires,
        };
        let result = f(&mut *d.device, &mut cx);
        self.wires.deeds.sign(deeds, d.range.base, hart);
        self.settle(now);
        result
    }

    fn settle(&mut self, now: Ps) {
        if self.wires.irq_levels != self.seen_levels {
            self.seen_levels = self.wires.irq_levels;
            let levels = self.seen_levels;
            for d in &mut self.devices {
                let mut cx = DeviceCx {
                    now,
                    hart: None,
                    irq: d.irq,
                    wires: &mut self.wires,
                };
                d.device.irq_levels(&mut cx, levels);
            }
        }
        self.next = self
            .devices
            .iter()
            .filter_map(|d| d.device.next_event())
            .min()
            .unwrap_or(Ps::NEVER);
    }

    /// Typed access by the host to the first device of a type, with its surroundings; `None` if
    /// there is no such device.
    pub fn with<T: Device, R>(
        &mut self,
        now: Ps,
        f: impl FnOnce(&mut T, &mut DeviceCx<'_>) -> R,
    ) -> Option<R> {
        let id = self
            .devices
            .iter()
            .position(|d| d.device.as_any().is::<T>())?;
        self.with_id(id, now, None, |d, cx| {
            d.as_any_mut().downcast_mut::<T>().map(|d| f(d, cx))
        })
    }

    /// Typed access by the host to the device in a virtio slot; `None` if there is no such
    /// slot, or if it holds something else.
    pub fn with_slot<T: Device, R>(
        &mut self,
        now: Ps,
        slot: usize,
        f: impl FnOnce(&mut T, &mut DeviceCx<'_>) -> R,
    ) -> Option<R> {
        let id = *self.slots.get(slot)?;
        self.with_id(id, now, None, |d, cx| {
            d.as_any_mut().downcast_mut::<T>().map(|d| f(d, cx))
        })
    }

    /// Number of virtio slots.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Lets the devices in slots poll the host.
    pub fn poll(&mut self, now: Ps) {
        for slot in 0..self.slots.len() {
            self.with_id(self.slots[slot], now, None, |d, cx| d.poll(cx));
        }
    }

    /// Whether something may arrive from outside for a device in a slot.
    pub fn expects_host(&self) -> bool {
        let slots = self.slots.iter();
        slots
            .map(|&id| &self.devices[id].device)
            .any(|d| d.expects_host())
    }

    /// The device in a slot, read-only; `None` if there is no such slot, or if it holds something else.
    pub fn slot<T: Device>(&self, slot: usize) -> Option<&T> {
        let id = *self.slots.get(slot)?;
        self.devices[id].device.as_any().downcast_ref()
    }

    /// The first device of a type, read-only.
    pub fn get<T: Device>(&self) -> Option<&T> {
        self.devices
            .iter()
            .find_map(|d| d.device.as_any().downcast_ref::<T>())
    }

    /// Time of the earliest event of any device; [`Ps::NEVER`] if there is none.
    pub fn next_event(&self) -> Ps {
        self.next
    }

    /// Runs all events up to and including `now`, in the order of time and
    /// then of attachment.
    pub fn run_events(&mut self, now: Ps) {
        while self.next <= now && self.next != Ps::NEVER {
            let at = self.next;
            let due = self
                .devices
                .iter()
                .position(|d| d.device.next_event() == Some(at));
            let Some(id) = due else { break };
            self.with_id(id, at, None, |d, cx| d.on_time(cx));
            // A device that leaves its event in place would stop time here.
            debug_assert!(self.devices[id].device.next_event() != Some(at));
            if self.devices[id].device.next_event() == Some(at) {
                break;
            }
        }
    }

    /// Interrupt inputs of a hart as bits of `mip`; 0 for harts that do not exist.
    pub fn hart_lines(&self, hart: usize) -> u64 {
        self.wires.hart_lines.get(hart).copied().unwrap_or(0)
    }

    /// A pending request to switch off or restart; taken once.
    pub fn take_power_request(&mut self) -> Option<PowerRequest> {
        self.wires.power.take()
    }

    /// Whether there is such a request.
    pub fn has_power_request(&self) -> bool {
        self.wires.power.is_some()
    }

    /// Whether it is recorded from now on what devices do.
    pub fn record_deeds(&mut self, wanted: bool) {
        self.wires.deeds.want(wanted);
    }

    /// What devices have done, in order; taken once.
    pub fn take_deeds(&mut self) -> Vec<DeviceEvent> {
        self.wires.deeds.take()
    }

    /// Whether devices have written memory since the last [`Bus::take_dma_writes`].
    pub fn has_dma_writes(&self) -> bool {
        !self.wires.dma_writes.is_empty()
    }

    /// Ranges of memory that devices have written, in order; taken once.
    pub fn take_dma_writes(&mut self) -> Vec<DmaRange> {
        std::mem::take(&mut self.wires.dma_writes)
    }

    /// Whether transfers of devices on the bus have a cost from now on.
    pub fn set_transfers_cost(&mut self, cost: bool) {
        self.wires.transfers_cost = cost;
    }

    /// Whether transfers of devices on the bus have a cost at present.
    pub fn transfers_cost(&self) -> bool {
        self.wires.transfers_cost
    }

    /// Whether devices have transferred anything on the bus since the last [`Bus::take_transfers`].
    pub fn has_transfers(&self) -> bool {
        !self.wires.transfers.is_empty()
    }

    /// What devices have transferred on the bus, in order; taken once.
    pub fn take_transfers(&mut self) -> Vec<DmaTransfer> {
        std::mem::take(&mut self.wires.transfers)
    }

    /// Resets every device. Time goes on.
    pub fn reset(&mut self, now: Ps) {
        self.wires.irq_levels = 0;
        self.wires.hart_lines.fill(0);
        self.wires.power = None;
        self.wires.iomap = self.first_iomap.clone().map(Box::new);
        for id in 0..self.devices.len() {
            self.with_id(id, now, None, |d, cx| d.reset(cx));
        }
    }

    /// The state of all devices.
    pub fn save(&self) -> BusState {
        BusState {
            irq_levels: self.wires.irq_levels,
            hart_lines: self.wires.hart_lines.clone(),
            dma_writes: self.wires.dma_writes.clone(),
            transfers: self.wires.transfers.clone(),
            power: self.wires.power,
            devices: self.devices.iter().map(|d| d.device.save()).collect(),
            iomap: self.wires.iomap.as_ref().map(|t| t.save()),
        }
    }

    /// Loads a saved state; after an error devices may have been partly loaded.
    pub fn load(&mut self, state: &BusState) -> Result<(), StateError> {
        if state.devices.len() != self.devices.len() {
            return Err(StateError::Devices {
                found: state.devices.len(),
                expected: self.devices.len(),
            });
        }
        if state.hart_lines.len() != self.wires.hart_lines.len() {
            let problem = format!(
                "{} harts in the state, {} in the machine",
                state.hart_lines.len(),
                self.wires.hart_lines.len()
            );
            return Err(StateError::Content {
                kind: "bus",
                problem,
            });
        }
        match (&mut self.wires.iomap, &state.iomap) {
            (Some(table), Some(saved)) => table.load(saved)?,
            (None, None) => {}
            _ => {
                return Err(StateError::Content {
                    kind: "bus",
                    problem: "an I/O table in one machine only".into(),
                });
            }
        }
        for (d, s) in self.devices.iter_mut().zip(&state.devices) {
            d.device.load(s)?;
        }
        self.wires.irq_levels = state.irq_levels;
        self.seen_levels = state.irq_levels;
        self.wires.hart_lines.clone_from(&state.hart_lines);
        self.wires.dma_writes.clone_from(&state.dma_writes);
        self.wires.transfers.clone_from(&state.transfers);
        self.wires.power = state.power;
        self.settle(Ps::ZERO);
        Ok(())
    }
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
