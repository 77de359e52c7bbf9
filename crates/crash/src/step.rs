//! What harts did to NVMM, step by step, in the order in which it was committed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Bytes of a cache line. All addresses of lines are multiples of it.
pub const LINE: u64 = 64;

/// The bytes of a cache line.
pub type Bytes = [u8; LINE as usize];

/// The line in which `paddr` is.
pub fn line_of(paddr: u64) -> u64 {
    paddr & !(LINE - 1)
}

/// A place in the code of the guest: number of a [`Site`] in [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteId(pub u32);

/// A place in the code of the guest, with how it was reached.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Site {
    /// Virtual address of the instruction.
    pub pc: u64,
    /// Whatever identifies the address space, such as `satp`; 0 if unknown.
    pub process: u64,
    /// Return addresses, innermost first; empty if unknown.
    pub stack: Vec<u64>,
}

/// All sites of a history. Equal sites have equal numbers.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    list: Vec<Site>,
    numbers: HashMap<Site, SiteId>,
}

impl Sites {
    /// The number of `site`, a new one if it was never seen.
    pub fn intern(&mut self, site: &Site) -> SiteId {
        if let Some(&id) = self.numbers.get(site) {
            return id;
        }
        let id = SiteId(u32::try_from(self.list.len()).expect("fewer than 2^32 sites"));
        self.list.push(site.clone());
        self.numbers.insert(site.clone(), id);
        id
    }

    /// The site with this number; `None` if the number is of another table.
    pub fn get(&self, id: SiteId) -> Option<&Site> {
        self.list.get(id.0 as usize)
    }

    /// How many there are; they are numbered from 0.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Who did a step, where in the code, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Number of the hart.
    pub hart: u16,
    /// Where in the code.
    pub site: SiteId,
    /// Machine time in picoseconds. Reports show it; no decision depends on it.
    pub time: u64,
}

/// The ordering bits of a store, and its way. An AMO is taken as performed when it is committed, since its hart has the
/// result then; so `.aq` changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreOrder {
    /// `.aq` of an AMO or a successful `sc`.
    pub acquire: bool,
    /// `.rl`: the hart has waited for its earlier stores and flushes.
    pub release: bool,
    /// It is the store of an AMO or of a successful `sc`, so that the hart has also read the line.
    pub atomic: bool,
    /// It is combined with others outside of the caches, and goes to memory by itself: durable with `adr` once a fence
    /// of the hart has waited for it, without a flush.
    pub combined: bool,
}

/// One half of a fence: which accesses before it (after it) it orders. Bits as in the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceSet(pub u8);

impl FenceSet {
    /// Writes to memory. Cache-block management counts as a write.
    pub const W: FenceSet = FenceSet(1);
    /// Reads of memory.
    pub const R: FenceSet = FenceSet(2);
    /// Writes to devices.
    pub const O: FenceSet = FenceSet(4);
    /// Reads of devices.
    pub const I: FenceSet = FenceSet(8);
    /// `rw`.
    pub const RW: FenceSet = FenceSet(3);
    /// `iorw`.
    pub const ALL: FenceSet = FenceSet(15);

    /// Whether all of `other` is in it.
    pub fn has(self, other: FenceSet) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What brings a line out of the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushOp {
    /// `cbo.clean`: the line stays in the caches.
    Clean,
    /// `cbo.flush`.
    Flush,
    /// `cbo.inval`, where it is carried out as a flush. One that throws the line away is no step.
    Inval,
    /// CFLUSH.D.L1 with an address.
    L1,
}

/// To whom output goes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// UART, virtio console.
    Console,
    /// A block device, or a shared folder of the host.
    Disk,
    /// A network device.
    Network,
}

/// One step of the machine. Stores that cross lines may be given in one piece.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A store to NVMM.
    Store {
        /// Who, where, when.
        at: At,
        /// Physical address of the first byte.
        paddr: u64,
        /// What was stored.
        bytes: &'a [u8],
        /// Its ordering bits.
        order: StoreOrder,
    },
    /// A load from NVMM. Only some orders follow from loads; a history without them allows more states.
    Load {
        /// Who, where, when.
        at: At,
        /// Any address in the line.
        paddr: u64,
    },
    /// A write to NVMM by a device or by the host, which passes the caches.
    DeviceWrite {
        /// Physical address of the first byte.
        paddr: u64,
        /// What was written.
        bytes: &'a [u8],
    },
    /// A read of NVMM by a device that passes what it has read on to the outside.
    DeviceRead {
        /// Who has told it to, where; when it has read.
        at: At,
        /// To whom.
        sink: Sink,
        /// Physical address of the first byte.
        paddr: u64,
        /// Bytes.
        len: u64,
    },
    /// An instruction that cleans or flushes one line.
    Flush {
        /// Who, where, when.
        at: At,
        /// Any address in the line.
        paddr: u64,
        /// Which instruction.
        op: FlushOp,
        /// Whether it brings the line out of all caches. CFLUSH.D.L1 in front of outer levels does not.
        to_memory: bool,
    },
    /// CFLUSH.D.L1 of the whole first-level data cache of the hart.
    FlushAll {
        /// Who, where, when.
        at: At,
        /// As for `Flush`.
        to_memory: bool,
    },
    /// `fence`.
    Fence {
        /// Who, where, when.
        at: At,
        /// What it orders before it.
        pred: FenceSet,
        /// What it orders after it.
        succ: FenceSet,
    },
    /// The machine wrote a line back and it is durable now; used as-built only, and not without a domain.
    WriteBack {
        /// Any address in the line.
        paddr: u64,
    },
    /// What memory itself holds of a line; used as-built without a domain only.
    Reached {
        /// Its first physical address.
        line: u64,
        /// Its content.
        bytes: &'a Bytes,
    },
    /// A marker.
    Marker {
        /// Who, where, when.
        at: At,
        /// Its text.
        label: &'a str,
        /// Whether an operation of the workload is done here. The content of NVMM at this point is what
        /// recovery may lead to from any cut up to the next such marker.
        operation: bool,
    },
    /// Something left the machine, or may leave it from now on.
    Output {
        /// Who has told a device to send it, where; when the device has taken it.
        at: At,
        /// To whom.
        sink: Sink,
    },
}
