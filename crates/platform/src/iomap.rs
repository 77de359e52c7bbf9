//! The table that translates I/O addresses, as a part of the bus: in front of the devices, and in the other direction
//! between devices and memory. Its rules are those of `nagori-iomap`.

use crate::control::{iomap_command, ControlError, Fixed};
use crate::state::StateError;
use nagori_config::MachineConfig;
use nagori_iomap::{Access, Answer, Entry, Error, Kind, Replacement, Rights, SavedTable, Table};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Number of machine mode.
pub const MACHINE: u8 = 3;
/// Interrupt sources, by which registers name devices.
const SOURCES: usize = 32;
/// Value of registers for something that does not exist.
const NOTHING: u64 = u64::MAX;

/// Physical addresses and lengths of a range that a device accesses.
pub(crate) type Pieces = Vec<(u64, u64)>;

/// What the registers of an entry hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selected {
    /// The table of the devices, not that of the harts.
    dma: bool,
    place: u64,
    vm: u16,
    from: u64,
    to: u64,
    size_log2: u32,
    rights: Rights,
    hart: u32,
    device: u32,
}

/// Both directions, with the VMs of harts and devices.
#[derive(Debug, Clone)]
pub struct IoMap {
    harts: Table,
    /// Devices read memory through a shared reference, and lookups count.
    dma: Option<RefCell<Table>>,
    hart_vms: Vec<u16>,
    device_vms: [u16; SOURCES],
    selected: Selected,
}

/// Saved state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedIoMap {
    harts: SavedTable,
    dma: Option<SavedTable>,
    hart_vms: Vec<u16>,
    device_vms: Vec<u16>,
    selected: Selected,
}

fn refusal(e: Error) -> ControlError {
    match e {
        Error::Overlap(_) => ControlError::Overlap,
        Error::Constant | Error::Chooser(_) => ControlError::State,
        Error::Size(_) | Error::Alignment(_) | Error::Place(_) | Error::Entries(_) => {
            ControlError::Value
        }
    }
}

/// Number of a kind in the register IOMAP_KIND; 0 stands for no table.
fn kind_number(kind: Kind) -> u64 {
    match kind {
        Kind::Constant => 1,
        Kind::Full => 2,
        Kind::Small(Replacement::Lru) => 3,
        Kind::Small(Replacement::Fifo) => 4,
        Kind::Small(Replacement::Random) => 5,
        Kind::Small(Replacement::Software) => 6,
    }
}

impl IoMap {
    /// As it is at power-on: all harts and devices belong to VM 0. `None` if the description has no table.
    pub(crate) fn new(config: &MachineConfig) -> Option<IoMap> {
        let (harts, dma) = config.iomap.tables()?;
        Some(IoMap {
            harts,
            dma: dma.map(RefCell::new),
            hart_vms: vec![0; config.harts as usize],
            device_vms: [0; SOURCES],
            selected: Selected::default(),
        })
    }

    /// The address on the bus of an access of `size` bytes by a hart, `None` if the table does not permit it.
    pub fn of_hart(&mut self, hart: u32, addr: u64, size: u8, access: Access) -> Option<u64> {
        let vm = *self.hart_vms.get(hart as usize)?;
        match self.harts.look_up_range(vm, addr, size.into(), access) {
            Answer::Hit(to) => Some(to),
            Answer::Miss | Answer::Denied => None,
        }
    }

    /// Physical ranges of `len` bytes from a device's address on, in order; `Some(None)` if they are not translated,
    /// and `None` if the table does not permit one of them. Devices without an interrupt source belong to nobody.
    pub(crate) fn of_device(
        &self,
        irq: Option<u32>,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Option<Option<Pieces>> {
        let Some(table) = &self.dma else {
            return Some(None);
        };
        let mut table = table.borrow_mut();
        let vm = *self.device_vms.get(irq? as usize)?;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < len {
            let at = addr.checked_add(done)?;
            let n = table.covered(vm, at, len - done).max(1);
            match table.look_up_range(vm, at, n, access) {
                Answer::Hit(to) => pieces.push((to, n)),
                Answer::Miss | Answer::Denied => return None,
            }
            done += n;
        }
        Some(Some(pieces))
    }

    /// Where a device's address leads, if it is permitted. Counts nothing.
    pub(crate) fn peek_device(&self, irq: Option<u32>, addr: u64, access: Access) -> Option<u64> {
        match &self.dma {
            None => Some(addr),
            Some(table) => {
                let vm = *self.device_vms.get(irq? as usize)?;
                table.borrow().peek(vm, addr, access)
            }
        }
    }

    fn with_table<R>(&mut self, f: impl FnOnce(&mut Table, &mut Selected) -> R) -> Option<R> {
        let IoMap {
            harts,
            dma,
            selected,
            ..
        } = self;
        match (selected.dma, dma) {
            (false, _) => Some(f(harts, selected)),
            (true, Some(t)) => Some(f(t.get_mut(), selected)),
            (true, None) => None,
        }
    }

    /// Value of a register; 0 for those of other parts.
    pub fn get(&mut self, reg: Fixed) -> u64 {
        let s = self.selected;
        let (hart_vm, device_vm) = (
            self.hart_vms.get(s.hart as usize).copied(),
            self.device_vms.get(s.device as usize).copied(),
        );
        let of_table = self.with_table(|t, s| {
            let counters = usize::try_from(s.place).ok();
            let counters = counters.and_then(|p| t.counters().get(p).copied());
            let counters = counters.unwrap_or_default();
            let vm = t.vm_counters(s.vm);
            match reg {
                Fixed::IomapKind => kind_number(t.kind()),
                Fixed::IomapPlaces => t.entries().len() as u64,
                Fixed::IomapHits => counters.hits,
                Fixed::IomapDenied => counters.denied,
                Fixed::IomapVmHits => vm.hits,
                Fixed::IomapVmDenied => vm.denied,
                Fixed::IomapVmMisses => vm.misses,
                Fixed::IomapMisses => t.misses(),
                Fixed::IomapMissVm => t.last_miss().map_or(NOTHING, |m| m.0.into()),
                Fixed::IomapMissAddr => t.last_miss().map_or(NOTHING, |m| m.1),
                _ => 0,
            }
        });
        match reg {
            Fixed::IomapTable => s.dma.into(),
            Fixed::IomapPlace => s.place,
            Fixed::IomapVm => s.vm.into(),
            Fixed::IomapFrom => s.from,
            Fixed::IomapTo => s.to,
            Fixed::IomapSizeLog2 => s.size_log2.into(),
            Fixed::IomapRights => u64::from(s.rights.read) | u64::from(s.rights.write) << 1,
            Fixed::IomapHart => s.hart.into(),
            Fixed::IomapHartVm => hart_vm.map_or(NOTHING, u64::from),
            Fixed::IomapDevice => s.device.into(),
            Fixed::IomapDeviceVm => device_vm.map_or(NOTHING, u64::from),
            _ => of_table.unwrap_or(0),
        }
    }

    /// Sets a register.
    pub fn set(&mut self, reg: Fixed, value: u64) -> Result<(), ControlError> {
        let narrow = |bits: u32| match value >> bits {
            0 => Ok(value),
            _ => Err(ControlError::Value),
        };
        let below = |n: usize| match usize::try_from(value) {
            Ok(v) if v < n => Ok(value as u32),
            _ => Err(ControlError::Value),
        };
        let s = &mut self.selected;
        match reg {
            Fixed::IomapTable => {
                let dma = narrow(1)? == 1;
                if dma && self.dma.is_none() {
                    return Err(ControlError::State);
                }
                s.dma = dma;
            }
            Fixed::IomapPlace => s.place = value,
            Fixed::IomapVm => s.vm = narrow(16)? as u16,
            Fixed::IomapFrom => s.from = value,
            Fixed::IomapTo => s.to = value,
            Fixed::IomapSizeLog2 => s.size_log2 = narrow(6)? as u32,
            Fixed::IomapRights => {
                let bits = narrow(2)?;
                s.rights = Rights {
                    read: bits & 1 != 0,
                    write: bits & 2 != 0,
                };
            }
            Fixed::IomapCommand => return self.command(value),
            Fixed::IomapHart => s.hart = below(self.hart_vms.len())?,
            Fixed::IomapDevice => s.device = below(SOURCES)?,
            // Both indices have been checked.
            Fixed::IomapHartVm => self.hart_vms[s.hart as usize] = narrow(16)? as u16,
            Fixed::IomapDeviceVm => self.device_vms[s.device as usize] = narrow(16)? as u16,
            _ => return Err(ControlError::ReadOnly),
        }
        Ok(())
    }

    fn command(&mut self, value: u64) -> Result<(), ControlError> {
        let done = self.with_table(|t, s| {
            let place = usize::try_from(s.place).map_err(|_| ControlError::Value)?;
            let entry = Entry {
                vm: s.vm,
                from: s.from,
                to: s.to,
                size_log2: s.size_log2,
                rights: s.rights,
            };
            match value {
                iomap_command::WRITE => t.write(place, Some(entry)).map_err(refusal),
                iomap_command::FILL => {
                    s.place = t.fill(entry).map_err(refusal)? as u64;
                    Ok(())
                }
                iomap_command::EMPTY => t.write(place, None).map_err(refusal),
                iomap_command::SHOW => {
                    let shown = *t.entries().get(place).ok_or(ControlError::Value)?;
                    let none = Entry {
                        vm: 0,
                        from: 0,
                        to: 0,
                        size_log2: 0,
                        rights: Rights::default(),
                    };
                    let e = shown.unwrap_or(none);
                    (s.vm, s.from, s.to) = (e.vm, e.from, e.to);
                    (s.size_log2, s.rights) = (e.size_log2, e.rights);
                    Ok(())
                }
                _ => Err(ControlError::Value),
            }
        });
        done.unwrap_or(Err(ControlError::State))
    }

    pub(crate) fn save(&self) -> SavedIoMap {
        SavedIoMap {
            harts: self.harts.save(),
            dma: self.dma.as_ref().map(|t| t.borrow().save()),
            hart_vms: self.hart_vms.clone(),
            device_vms: self.device_vms.to_vec(),
            selected: self.selected,
        }
    }

    pub(crate) fn load(&mut self, s: &SavedIoMap) -> Result<(), StateError> {
        let bad = |problem: String| StateError::Content {
            kind: "iomap",
            problem,
        };
        let other = || bad("of another machine".into());
        let dma = s.dma.is_some() == self.dma.is_some() && (s.dma.is_some() || !s.selected.dma);
        let hart = s.hart_vms.len() == self.hart_vms.len()
            && (s.selected.hart as usize) < self.hart_vms.len();
        if !dma || !hart || s.selected.device as usize >= SOURCES {
            return Err(other());
        }
        let vms = s.device_vms.as_slice().try_into().map_err(|_| other())?;
        self.harts.load(&s.harts).map_err(|e| bad(e.to_string()))?;
        if let (Some(t), Some(s)) = (&mut self.dma, &s.dma) {
            t.get_mut().load(s).map_err(|e| bad(e.to_string()))?;
        }
        self.hart_vms.clone_from(&s.hart_vms);
        self.device_vms = vms;
        self.selected = s.selected;
        Ok(())
    }
}

#[cfg(test)]
#[path = "iomap_tests.rs"]
mod tests;
