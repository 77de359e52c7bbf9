//! The stream of events that reports what the harts have done, in the order in which it happened.
//! Each event is reported once, when it is certain. An instruction that is abandoned, to be
//! executed again, is not reported.
//!
//! Harts run one after the other, so there is one order for all of them: a load reads the value of
//! the last store in the stream to its address, whichever hart that was. (Reads of page tables by the MMU
//! are not in the stream.) Cycles of different harts may be out of order.

use crate::preop::PreOp;
use nagori_cache::LineKind;
use nagori_isa::{Format, Op};

/// One line transfer.
#[derive(Clone, Copy, Debug)]
pub struct LineRequest {
    /// Core cycle at which the request leaves the core.
    pub cycle: u64,
    /// Physical address of the line.
    pub line: u64,
    /// Reason.
    pub kind: LineKind,
    /// Hart that asked.
    pub hart: usize,
    /// Program counter of the instruction.
    pub pc: u64,
    /// Privilege of the instruction (0 U, 1 S, 3 M).
    pub privilege: u8,
    /// Address-space identifier in force.
    pub asid: u16,
    /// For a write of an older state of the line, of which some cache has a newer one: the state's
    /// number. See [`MemPort::line_aged`].
    pub older: Option<u64>,
}

/// A trap or interrupt as it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapEvent {
    /// Hart index.
    pub hart: usize,
    /// Core cycle.
    pub cycle: u64,
    /// Address of the instruction that trapped or was interrupted.
    pub pc: u64,
    /// Cause, with the interrupt bit.
    pub cause: u64,
    /// Trap value.
    pub tval: u64,
    /// Privilege before (0 U, 1 S, 3 M).
    pub from: u8,
    /// Privilege of the handler.
    pub to: u8,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An instruction has been executed, or has trapped.
    Commit(&'a Commit),
    /// A trap that belongs to no instruction that was begun: an interrupt, a fault of an
    /// instruction fetch, a trigger before an instruction. For observers without
    /// [instructions](Observer::COMMITS), any trap.
    Trap(&'a TrapEvent),
    /// A line is written back to memory, which then has the values of all stores to it that are
    /// reported before. The event is reported before the instruction that causes it.
    WriteBack(&'a LineRequest),
    /// What a device has done, behind the instruction that has caused it, if it is one.
    Device(&'a DeviceEvent),
    /// What memory itself holds of a line, without caches and queues, has changed. Reported before a fence, a flush or
    /// a marker.
    Reached(&'a LineContent),
}

impl Event<'_> {
    /// The trap, if the event is or contains one.
    pub fn trap(&self) -> Option<&TrapEvent> {
        match self {
            Event::Commit(c) => c.trap.as_ref(),
            Event::Trap(t) => Some(t),
            Event::WriteBack(_) | Event::Device(_) | Event::Reached(_) => None,
        }
    }
}

/// What a device has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// First physical address of its registers.
    pub device: u64,
    /// Machine time in picoseconds.
    pub time_ps: u64,
    /// The hart that was accessing it; `None` if it acted later, or for the host.
    pub hart: Option<u32>,
    /// What it did.
    pub did: DeviceDeed,
}

/// Kind of a device's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceDeed {
    /// It has read guest memory.
    Read {
        /// First physical address.
        paddr: u64,
        /// Bytes.
        len: u64,
    },
    /// It has written guest memory, past the caches.
    Wrote {
        /// First physical address.
        paddr: u64,
        /// Bytes.
        len: u64,
    },
    /// It has taken something that leaves the machine, or will at any time from now on: a character, a frame, a write
    /// to a disk.
    Sends {
        /// Number of the queue that the driver has put it into; 0 for devices without queues.
        queue: u16,
    },
}

/// What memory holds of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineContent {
    /// First physical address.
    pub line: u64,
    /// Its bytes.
    pub bytes: [u8; 64],
}

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reg {
    /// Integer register, 1 to 31.
    X(u8),
    /// Floating-point register, 0 to 31.
    F(u8),
    /// Control and status register.
    Csr(u16),
}

/// Kind of an instruction's access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// A load: plain, reserving, or the first half of an atomic.
    Read,
    /// A store: plain, conditional and successful, the second half of an atomic, or of zeros.
    Write,
    /// A line is written back and stays in the caches.
    Clean,
    /// A line is written back and leaves the caches; an invalidation is done that way, too.
    Flush,
    /// All of L1D is written back and emptied; there is no address.
    FlushAll,
}

/// An access to memory or to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemAccess {
    /// Kind of the access.
    pub kind: AccessKind,
    /// First virtual address.
    pub vaddr: u64,
    /// First physical address.
    pub paddr: u64,
    /// Bytes; 64 for the operations on lines.
    pub size: u8,
    /// The value read or written, zero-extended; 0 for the operations on lines.
    pub value: u128,
}

/// An instruction that has been executed, or has trapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Hart index.
    pub hart: usize,
    /// Core cycle of its issue; if it was tried several times, of the last try.
    pub cycle: u64,
    /// Its address.
    pub pc: u64,
    /// Its bits, 16 or 32; 0 unless the observer [wants](Observer::wants_words) them.
    pub word: u32,
    /// The decoded operation; `None` if the bits are not an instruction of this hart.
    pub op: Option<Op>,
    /// Privilege that it began with (0 U, 1 S, 3 M).
    pub privilege: u8,
    /// Registers written, with their new values: the destination (both of a pair), the CSR of a CSR
    /// instruction, and `fflags` if floating point has set flags. Changes of status registers by
    /// traps, returns and floating point are not reported.
    pub writes: [Option<(Reg, u64)>; 2],
    /// Accesses, in order. None if the instruction traps.
    pub accesses: [Option<MemAccess>; 2],
    /// Whether an `sc` has stored.
    pub stored: Option<bool>,
    /// The trap that it has taken; it has not retired then.
    pub trap: Option<TrapEvent>,
}

impl Commit {
    /// Whether it counts as retired.
    pub fn retired(&self) -> bool {
        self.trap.is_none()
    }

    /// Whether it is a `fence`, other than `fence.i`.
    pub fn is_fence(&self) -> bool {
        self.retired() && self.op == Some(Op::Fence)
    }

    /// Whether software may depend on what is durable here: a fence, a flush or a marker.
    pub fn orders(&self) -> bool {
        let format = self.op.map(|op| op.info().format);
        matches!(
            format,
            Some(Format::Fence | Format::Cbo | Format::Cflush | Format::Mark)
        )
    }

    /// Registers written.
    pub fn writes(&self) -> impl Iterator<Item = (Reg, u64)> {
        self.writes.into_iter().flatten()
    }

    /// Accesses.
    pub fn accesses(&self) -> impl Iterator<Item = MemAccess> {
        self.accesses.into_iter().flatten()
    }
}

/// Observes harts. Events that no constant requests cost nothing: they are compiled out.
pub trait Observer {
    /// Whether instructions are reported, with their traps. All code is interpreted then.
    const COMMITS: bool = false;
    /// Whether traps are reported.
    const TRAPS: bool = Self::COMMITS;
    /// Whether lines that are written back are reported.
    const WRITE_BACKS: bool = Self::COMMITS;
    /// Whether `stops` and `tried_again` are called.
    const STOPS: bool = false;
    /// Called for each event.
    fn happened(&mut self, _event: &Event<'_>) {}
    /// Whether the bits of instructions are reported, too, which costs an address translation for each.
    fn wants_words(&self) -> bool {
        true
    }
    /// An instruction has accessed memory or a device at a physical address, or has been read from there to be decoded.
    /// If it is abandoned afterwards, this is called again. Not called for accesses that have passed a filter: see
    /// [`Observer::watches`].
    #[inline(always)]
    fn accessed(&mut self, _kind: AccessKind, _paddr: u64, _size: u8) {}
    /// Whether all accesses to a range of physical addresses, at most a page, have to be reported: no filter lets them
    /// pass.
    #[inline(always)]
    fn watches(&self, _paddr: u64, _bytes: u64) -> bool {
        false
    }
    /// Whether a hart is to stop before the instruction at `pc`. Stopping costs no cycles: when the
    /// hart runs again, it continues within the block, and this is called again.
    fn stops(&mut self, _hart: usize, _pc: u64) -> bool {
        false
    }
    /// The instruction for which `stops` returned false was abandoned; it will be tried again.
    fn tried_again(&mut self, _hart: usize, _pc: u64) {}
}

/// The instruction that is being executed. It is allocated outside the hart, to keep the hart's
/// frequently used fields close together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) begun: Option<Begun>,
    pub(crate) accesses: [Option<MemAccess>; 2],
    pub(crate) stored: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) cycle: u64,
    pub(crate) pc: u64,
    pub(crate) word: u32,
    pub(crate) privilege: u8,
    pub(crate) fflags: u8,
    pub(crate) op: PreOp,
}
