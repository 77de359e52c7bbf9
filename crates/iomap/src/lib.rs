//! The table that translates I/O addresses in hardware: between a hart's physical address and the
//! bus, and in the other direction between a device and memory.
//!
//! An entry maps a range of one virtual machine (VM) to a range of the bus. Its size is a power of
//! two from 4 bytes on, and both ranges are aligned to it. A lookup names VM, address and kind of
//! access; it hits at most one entry, because entries of one VM that overlap are refused.
//!
//! # Kinds
//! - [`Kind::Constant`]: fixed at the start; every write is refused.
//! - [`Kind::Full`]: an entry for everything, written by the monitor at a place that it chooses.
//! - [`Kind::Small`]: few entries; a miss is reported, and the monitor refills. The table chooses the
//!   victim by its [`Replacement`], unless that is [`Replacement::Software`].
//!
//! # The victim
//! The first free place, or else: for LRU the entry whose last hit, or fill if there was none, is
//! longest ago; for FIFO the one whose fill is; for random that with the number in the low bits of
//! a 16-bit linear-feedback shift register (taps 16, 14, 13, 11; start 1), which steps with every fill
//! that replaces. Lookups that hit without having the right do not count as uses.
//!
//! The hardware is `rtl/io_map.sv`, which is compared with this model.
#![forbid(unsafe_code)]

pub mod merge;
pub mod ports;
mod saved;
pub mod verilog;

pub use saved::{BadState, SavedTable};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error as ThisError;

/// Greatest number of entries.
pub const MAX_ENTRIES: usize = 1024;
/// Most entries of a table that chooses its victims.
pub const MAX_SMALL: usize = 64;
/// Smallest size of a range in bytes, as a power of two.
pub const MIN_SIZE_LOG2: u32 = 2;

/// Why an entry, or a table, is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The size is too small, or larger than the address space.
    #[error("the size 2^{0} is not between 4 bytes and 2^63")]
    Size(u32),
    /// A range does not begin at a multiple of its size.
    #[error("{0:#x} is not a multiple of the size")]
    Alignment(u64),
    /// The range overlaps that of another entry of the same VM.
    #[error("the range overlaps that of entry {0}")]
    Overlap(usize),
    /// There is no such place.
    #[error("there is no entry {0}")]
    Place(usize),
    /// The table is constant.
    #[error("the table is constant")]
    Constant,
    /// The number of entries is not possible for the kind of table.
    #[error("a table of this kind cannot have {0} entries")]
    Entries(usize),
    /// The place of a new entry is chosen by the table, or, with other kinds, by the caller.
    #[error("the place of an entry is chosen by the {0}")]
    Chooser(&'static str),
}

/// An access to be translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
}

/// What may be done through an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
}

impl Rights {
    /// Whether an access is permitted.
    pub fn permit(self, access: Access) -> bool {
        match access {
            Access::Read => self.read,
            Access::Write => self.write,
        }
    }
}

/// A range of a VM, and where it is on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Number of the VM.
    pub vm: u16,
    /// First address in the map that the VM believes in.
    pub from: u64,
    /// First address on the bus.
    pub to: u64,
    /// Size in bytes as a power of two.
    pub size_log2: u32,
    /// What the VM may do.
    pub rights: Rights,
}

impl Entry {
    /// Addresses below the size.
    fn mask(&self) -> u64 {
        (1 << self.size_log2) - 1
    }

    /// Checks size and alignment.
    pub fn validate(&self) -> Result<(), Error> {
        if !(MIN_SIZE_LOG2..64).contains(&self.size_log2) {
            return Err(Error::Size(self.size_log2));
        }
        for base in [self.from, self.to] {
            if base & self.mask() != 0 {
                return Err(Error::Alignment(base));
            }
        }
        Ok(())
    }

    /// Whether an address of a VM is in the range.
    fn covers(&self, vm: u16, addr: u64) -> bool {
        self.vm == vm && (addr ^ self.from) & !self.mask() == 0
    }

    /// Two aligned ranges overlap only if one holds the first address of the other.
    fn overlaps(&self, other: &Entry) -> bool {
        self.covers(other.vm, other.from) || other.covers(self.vm, self.from)
    }
}

/// How a small table chooses the entry that a new one replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    Lru,
    /// The one that was filled first.
    Fifo,
    /// One that a shift register names.
    Random,
    /// The one that the monitor names.
    Software,
}

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Fixed at the start.
    Constant,
    /// An entry for everything.
    Full,
    /// Few entries with replacement.
    Small(Replacement),
}

/// Answer to a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The address on the bus.
    Hit(u64),
    /// No entry covers the address.
    Miss,
    /// The entry does not give the right to the access.
    Denied,
}

/// Lookups of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Translated.
    pub hits: u64,
    /// Refused for want of the right.
    pub denied: u64,
}

/// Lookups of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmCounters {
    /// Translated.
    pub hits: u64,
    /// Refused for want of the right.
    pub denied: u64,
    /// Not covered by an entry.
    pub misses: u64,
}

/// The table.
#[derive(Debug, Clone)]
pub struct Table {
    kind: Kind,
    places: Vec<Option<Entry>>,
    counters: Vec<Counters>,
    /// Order of the last use (LRU) or fill (FIFO).
    used: Vec<u64>,
    clock: u64,
    shift: u16,
    misses: u64,
    last_miss: Option<(u16, u64)>,
    vms: BTreeMap<u16, VmCounters>,
}

impl Table {
    /// An empty table that can be written: `Full` with up to [`MAX_ENTRIES`] entries, `Small` with
    /// a power of two of 4 to [`MAX_SMALL`].
    pub fn new(kind: Kind, entries: usize) -> Result<Table, Error> {
        let good = match kind {
            Kind::Constant => entries == 0,
            Kind::Full => (1..=MAX_ENTRIES).contains(&entries),
            Kind::Small(_) => (4..=MAX_SMALL).contains(&entries) && entries.is_power_of_two(),
        };
        if !good {
            return Err(Error::Entries(entries));
        }
        Ok(Table {
            kind,
            places: vec![None; entries],
            counters: vec![Counters::default(); entries],
            used: vec![0; entries],
            clock: 0,
            shift: 1,
            misses: 0,
            last_miss: None,
            vms: BTreeMap::new(),
        })
    }

    /// A constant table.
    pub fn constant(entries: &[Entry]) -> Result<Table, Error> {
        if entries.len() > MAX_ENTRIES {
            return Err(Error::Entries(entries.len()));
        }
        let mut t = Table::new(Kind::Constant, 0)?;
        for e in entries {
            t.check(e, None)?;
            t.places.push(Some(*e));
            t.counters.push(Counters::default());
            t.used.push(0);
        }
        Ok(t)
    }

    /// What kind of table this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The entries by place.
    pub fn entries(&self) -> &[Option<Entry>] {
        &self.places
    }

    /// Lookups by place, since the entry was written.
    pub fn counters(&self) -> &[Counters] {
        &self.counters
    }

    /// Lookups of a VM since the start.
    pub fn vm_counters(&self, vm: u16) -> VmCounters {
        self.vms.get(&vm).copied().unwrap_or_default()
    }

    /// Lookups that no entry covered.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// VM and address of the latest miss.
    pub fn last_miss(&self) -> Option<(u16, u64)> {
        self.last_miss
    }

    /// Refuses an entry that is none, or that overlaps one which stays.
    fn check(&self, e: &Entry, replaced: Option<usize>) -> Result<(), Error> {
        e.validate()?;
        let clash = |(i, p): (usize, &Option<Entry>)| {
            let other = p.as_ref().filter(|o| o.overlaps(e) && Some(i) != replaced);
            other.map(|_| i)
        };
        match self.places.iter().enumerate().find_map(clash) {
            Some(i) => Err(Error::Overlap(i)),
            None => Ok(()),
        }
    }

    fn put(&mut self, place: usize, entry: Option<Entry>) {
        self.clock += 1;
        self.places[place] = entry;
        self.counters[place] = Counters::default();
        self.used[place] = self.clock;
    }

    /// Writes, or with `None` empties, the entry at a place. Only the monitor does.
    pub fn write(&mut self, place: usize, entry: Option<Entry>) -> Result<(), Error> {
        if self.kind == Kind::Constant {
            return Err(Error::Constant);
        }
        if place >= self.places.len() {
            return Err(Error::Place(place));
        }
        if let Some(e) = &entry {
            if matches!(self.kind, Kind::Small(r) if r != Replacement::Software) {
                return Err(Error::Chooser("table"));
            }
            self.check(e, Some(place))?;
        }
        self.put(place, entry);
        Ok(())
    }

    /// Writes an entry at a place that the table chooses, and returns the place.
    pub fn fill(&mut self, entry: Entry) -> Result<usize, Error> {
        let replacement = match self.kind {
            Kind::Constant => return Err(Error::Constant),
            Kind::Full | Kind::Small(Replacement::Software) => {
                return Err(Error::Chooser("monitor"))
            }
            Kind::Small(r) => r,
        };
        let free = self.places.iter().position(Option::is_none);
        let victim = match (free, replacement) {
            (Some(free), _) => free,
            (None, Replacement::Random) => usize::from(self.shift) % self.places.len(),
            (None, _) => {
                let oldest = (0..self.places.len()).min_by_key(|&i| self.used[i]);
                oldest.unwrap_or(0)
            }
        };
        // The victim stays if the new entry is refused, so it does not make room for itself.
        self.check(&entry, None)?;
        if free.is_none() && replacement == Replacement::Random {
            let s = self.shift;
            let bit = (s ^ s >> 2 ^ s >> 3 ^ s >> 5) & 1;
            self.shift = s >> 1 | bit << 15;
        }
        self.put(victim, Some(entry));
        Ok(victim)
    }

    /// Translates an address.
    pub fn look_up(&mut self, vm: u16, addr: u64, access: Access) -> Answer {
        self.look_up_range(vm, addr, 1, access)
    }

    /// Translates the first address of an access to `len` bytes (at least 1). It hits only an entry that covers all
    /// of them, so that a wide access gets nothing beyond a small entry.
    pub fn look_up_range(&mut self, vm: u16, addr: u64, len: u64, access: Access) -> Answer {
        let last = addr.checked_add(len.max(1) - 1);
        let found = |p: &Option<Entry>| {
            p.is_some_and(|e| e.covers(vm, addr) && last.is_some_and(|l| e.covers(vm, l)))
        };
        let of_vm = self.vms.entry(vm).or_default();
        let entry = self.places.iter().position(found);
        let Some((i, e)) = entry.and_then(|i| Some((i, self.places[i]?))) else {
            self.misses += 1;
            of_vm.misses += 1;
            self.last_miss = Some((vm, addr));
            return Answer::Miss;
        };
        if !e.rights.permit(access) {
            self.counters[i].denied += 1;
            of_vm.denied += 1;
            return Answer::Denied;
        }
        self.counters[i].hits += 1;
        of_vm.hits += 1;
        if self.kind == Kind::Small(Replacement::Lru) {
            self.clock += 1;
            self.used[i] = self.clock;
        }
        Answer::Hit(e.to | addr & e.mask())
    }

    /// Where an entry with the right leads from an address. Counts nothing.
    pub fn peek(&self, vm: u16, addr: u64, access: Access) -> Option<u64> {
        let entry = self.places.iter().flatten().find(|e| e.covers(vm, addr));
        let entry = entry.filter(|e| e.rights.permit(access))?;
        Some(entry.to | addr & entry.mask())
    }

    /// How many of `len` bytes from an address on are covered by the entry of the first one; 0 if there is no such
    /// entry. Counts nothing.
    pub fn covered(&self, vm: u16, addr: u64, len: u64) -> u64 {
        let entry = self.places.iter().flatten().find(|e| e.covers(vm, addr));
        entry.map_or(0, |e| len.min(e.mask() - (addr & e.mask()) + 1))
    }
}

#[cfg(test)]
mod tests;
