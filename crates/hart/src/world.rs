//! What a hart sees of the rest of the machine.

pub use crate::commit::{
    AccessKind, Commit, DeviceDeed, DeviceEvent, Event, LineContent, LineRequest, MemAccess,
    Observer, Reg, TrapEvent,
};
use crate::hart::Hart;
use crate::stats::HartStats;
use nagori_cache::Coherence;
pub use nagori_cache::LineKind;
use nagori_isa::Op;
use nagori_ram::GuestRam;

/// A bus access that no device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusFault;

/// Who accesses a device, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Hart index.
    pub hart: usize,
    /// Core cycle of the access.
    pub cycle: u64,
    /// Instructions retired when the current block began.
    pub instret: u64,
    /// Register satp.
    pub satp: u64,
    /// Privilege that counts for the access (0 U, 1 S, 3 M).
    pub privilege: u8,
    /// Event counters of the hart.
    pub stats: &'a HartStats,
}

/// Where a device is, which says how long an access to it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DevicePlace {
    /// The core-local interruptor.
    Clint,
    /// The interrupt controller.
    Plic,
    /// Behind the port for devices.
    #[default]
    Port,
}

/// Functional side: memory, devices, time.
pub trait Bus {
    /// Guest memory.
    fn ram(&self) -> &GuestRam;
    /// Physical address of its first byte.
    fn ram_base(&self) -> u64;
    /// Where the device at an address is.
    fn device_place(&mut self, _paddr: u64) -> DevicePlace {
        DevicePlace::default()
    }
    /// Device read of `size` bytes (1, 2, 4, 8), naturally aligned.
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault>;
    /// Device write of `size` bytes (1, 2, 4, 8), naturally aligned.
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault>;
    /// Value of the `time` CSR at a core cycle.
    fn time(&self, cycle: u64) -> u64;
    /// First core cycle at which `time` has reached a value (saturating).
    fn cycle_of_time(&self, time: u64) -> u64;
}

/// How long a hart waited for a line, for profiles.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Core cycles by which the hart's time moved on, the core's own part of a miss included.
    pub cycles: u64,
    /// Written, not read.
    pub write: bool,
    /// Physical address of the line.
    pub line: u64,
    /// Reason.
    pub kind: LineKind,
    /// Hart that waited.
    pub hart: usize,
    /// Program counter of the instruction.
    pub pc: u64,
    /// Privilege of the instruction (0 U, 1 S, 3 M).
    pub privilege: u8,
    /// Register satp: the address space, whatever the privilege.
    pub satp: u64,
    /// Register ra.
    pub ra: u64,
    /// Register s0, the frame pointer by convention.
    pub fp: u64,
}

/// Answer to a request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Transfer {
    /// Core cycle of the first beat of a read, or of the acknowledgement of a write.
    Done(u64),
    /// It is under way. The hart is blocked until it is told the cycle
    /// ([`Hart::arrive`](crate::Hart::arrive)).
    UnderWay,
}

/// Timing side: what a line transfer costs.
pub trait MemPort {
    /// Whether a hart that has to wait for others is blocked until
    /// [`Hart::arrive`](crate::Hart::arrive) is called, so that everything happens in the order of
    /// time. If not, its time is advanced at once, according to the known times.
    const BLOCKS: bool = false;
    /// Whether `stalled` is to be called.
    #[inline(always)]
    fn attributes(&self) -> bool {
        false
    }
    /// A transfer is done, and has moved a hart's time on.
    fn stalled(&mut self, _stall: &Stall) {}
    /// Core cycle at which the first beat of a line arrives.
    fn read_line(&mut self, req: &LineRequest) -> u64;
    /// Core cycle at which a write-back is acknowledged.
    fn write_line(&mut self, req: &LineRequest) -> u64;
    /// Reads a line or writes it back (`write`), for a hart that waits for it.
    #[inline(always)]
    fn transfer(&mut self, req: &LineRequest, write: bool) -> Transfer {
        Transfer::Done(if write {
            self.write_line(req)
        } else {
            self.read_line(req)
        })
    }
    /// Writes a line back, and nobody waits for it.
    #[inline(always)]
    fn post_line(&mut self, req: &LineRequest) {
        self.write_line(req);
    }
    /// Reads a line that no hart waits for, a prefetch or a load for which its hart does not wait. If the read is not
    /// complete at once, [`Coherence::line_came`] is called with the token when the line arrives.
    #[inline(always)]
    fn prefetch_line(&mut self, req: &LineRequest, _token: u64) -> Transfer {
        Transfer::Done(self.read_line(req))
    }
    /// Writes a line that no hart waits for; the controller reads it before, if it has to (`reads`). If the write is
    /// not accepted at once, [`Coherence::line_came`] is called with its token when it is.
    #[inline(always)]
    fn write_ahead(&mut self, req: &LineRequest, reads: bool, _token: u64) -> Transfer {
        if reads {
            self.read_line(req);
        }
        Transfer::Done(self.write_line(req))
    }
    /// A hart that is fetching a line waits for something other than its own transfer: other harts
    /// that want the line wait for this hart from now on.
    #[inline(always)]
    fn claim_line(&mut self, _hart: usize, _line: u64) {}
    /// A hart has requested a line for a load and goes on without it: other harts that want the line wait until it has
    /// come.
    #[inline(always)]
    fn load_begins(&mut self, _hart: usize, _line: u64) {}
    /// A hart wants a line that it lacks, or lacks the right to write. False: another hart's request for
    /// it is under way, and this one is blocked until it has come to its end.
    #[inline(always)]
    fn begin_fill(&mut self, _hart: usize, _line: u64) -> bool {
        true
    }
    /// At a core cycle the line is there, or no longer wanted. The hart that waited for it first, if
    /// there is one, may go on from that cycle.
    #[inline(always)]
    fn end_fill(&mut self, _hart: usize, _cycle: u64) -> Option<usize> {
        None
    }
    /// A line of L1D turns dirty, before anything is stored to it. What memory holds of it
    /// now is what it keeps until [`MemPort::write_line`].
    #[inline(always)]
    fn line_dirtied(&mut self, _line: u64) {}
    /// An outer cache level keeps the present content of a line, and a first-level cache is about
    /// to get newer data. `_name` is the number under which that content may be written to memory
    /// ([`LineRequest::older`]). Only called after [`Coherence::track_versions`].
    fn line_aged(&mut self, _line: u64, _name: u64) {}
}

/// What a program can tell the machine by a hint, without any privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The region of interest begins.
    RoiBegin,
    /// The region of interest ends.
    RoiEnd,
    /// Statistics start anew.
    StatsReset,
    /// The statistics so far are kept under the value.
    StatsDump,
    /// The delay method is the one with the value as its number from now on.
    Method,
    /// The value is kept with the time.
    Label,
    /// A snapshot of the machine is wanted here.
    Snapshot,
    /// The machine ends; the low 32 bits of the value are its exit code.
    Stop,
}

impl Marker {
    /// The marker that an instruction is.
    pub fn of(op: Op) -> Option<Marker> {
        Some(match op {
            Op::MarkRoiBegin => Marker::RoiBegin,
            Op::MarkRoiEnd => Marker::RoiEnd,
            Op::MarkStatsReset => Marker::StatsReset,
            Op::MarkStatsDump => Marker::StatsDump,
            Op::MarkMethod => Marker::Method,
            Op::MarkLabel => Marker::Label,
            Op::MarkSnapshot => Marker::Snapshot,
            Op::MarkStop => Marker::Stop,
            _ => return None,
        })
    }
}

/// All that a hart needs around it.
pub trait World: Bus + MemPort + Observer {
    /// Whether other harts run at the same time, in other threads of the host, without the timing model. What harts
    /// share beside memory then belongs to one of them from [`World::acquire`] to [`World::release`].
    const PARALLEL: bool = false;
    /// Makes what harts share this hart's own; also done by whatever needs it.
    #[inline(always)]
    fn acquire(&mut self) {}
    /// Lets others have it.
    #[inline(always)]
    fn release(&mut self) {}
    /// First-level caches of all harts.
    fn coherence(&mut self) -> &mut Coherence;
    /// A marker with the value of its register, issued at a cycle. If it is heard, the hart
    /// stops behind it with [`Exit::Device`](crate::Exit::Device); if not, it is a no-op.
    fn marker(&mut self, _hart: usize, _cycle: u64, _marker: Marker, _value: u64) -> bool {
        false
    }
    /// A hart, so many cycles after its `cycle`, is about to execute an instruction by which others learn of its
    /// progress: an atomic, a fence behind stores, an access to a device, `wfi`, a marker. No other hart is behind.
    /// Returns the core cycles by which the hart's time moves on before. Called if
    /// [`HartConfig::hands_over`](crate::config::HartConfig) says so.
    fn hands_over(&mut self, _hart: &Hart, _later: u64) -> u64 {
        0
    }
}
