//! The machine as harts see it that run at the same time: one of them holds its lock until it
//! releases it.

use super::world::Surroundings;
use crate::clock::{Clock, Ps};
use nagori_hart::lines::Coherence;
use nagori_hart::world::{
    self, BusFault, DevicePlace, Event, LineRequest, Marker, MemPort, Observer, Requester, Stall,
    World,
};
use nagori_memtime::Kind;
use nagori_ram::GuestRam;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::sync::Arc;

/// The shared state, which one thread at a time may hold.
pub(super) type Lock<O> = Arc<Mutex<Surroundings<O>>>;
/// The hold on it.
pub(super) type Held<O> = ArcMutexGuard<RawMutex, Surroundings<O>>;

/// Attempts to take hold before a thread sleeps.
const SPINS: u32 = 1000;

/// A worker's way to what is around the harts: taken when needed, kept until
/// [`World::release`].
pub(super) struct Shared<O> {
    lock: Lock<O>,
    held: Option<Held<O>>,
    ram: Arc<GuestRam>,
    ram_base: u64,
    core_clock: Clock,
    timebase: Clock,
    /// Whether somebody learns which code waits for memory.
    attributes: bool,
    /// By how much the controller's time is ahead of this worker's.
    lag: Ps,
}

impl<O> Shared<O> {
    /// A worker's way to what the lock guards.
    pub fn new(lock: Lock<O>) -> Self {
        let held = lock.lock_arc();
        Shared {
            ram: held.ram.clone(),
            ram_base: held.ram_base,
            core_clock: held.core_clock,
            timebase: held.timebase,
            attributes: held.profile.is_some(),
            lag: Ps::ZERO,
            lock,
            held: None,
        }
    }

    /// What is around, from now on this worker's own.
    #[inline]
    pub fn held(&mut self) -> &mut Surroundings<O> {
        let lock = &self.lock;
        self.held.get_or_insert_with(|| take(lock))
    }

    /// Submits a request at the worker's time. The controller's time does not go back, so what
    /// comes late is served when the others are, and answered in the worker's own time.
    fn transfer(&mut self, req: &LineRequest, kind: Kind) -> u64 {
        let clock = self.core_clock;
        let at = clock.time_of(req.cycle);
        let old = self.lag;
        let w = self.held();
        let served = if at >= w.latest {
            at
        } else {
            w.latest.max(at + old)
        };
        w.latest = served;
        w.count_line(req, kind);
        let lag = Ps(served.0 - at.0);
        let done = w.access(at, req, kind, lag);
        self.lag = lag;
        clock.tick_from(done)
    }
}

/// It is held for less time than it takes to give the processor away and to be woken.
#[inline]
fn take<O>(lock: &Lock<O>) -> Held<O> {
    let mut tries = (0..SPINS).filter_map(|_| {
        let held = lock.try_lock_arc();
        if held.is_none() {
            std::hint::spin_loop();
        }
        held
    });
    tries.next().unwrap_or_else(|| lock.lock_arc())
}

impl<O: Observer> world::Bus for Shared<O> {
    #[inline(always)]
    fn ram(&self) -> &GuestRam {
        &self.ram
    }
    #[inline(always)]
    fn ram_base(&self) -> u64 {
        self.ram_base
    }
    fn device_place(&mut self, paddr: u64) -> DevicePlace {
        self.held().device_place(paddr)
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        self.held().mmio_read(by, paddr, size)
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        self.held().mmio_write(by, paddr, size, value)
    }
    fn time(&self, cycle: u64) -> u64 {
        self.timebase.ticks_at(self.core_clock.time_of(cycle))
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.core_clock.tick_from(self.timebase.time_of(time))
    }
}

impl<O: Observer> MemPort for Shared<O> {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.transfer(req, Kind::Read)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.transfer(req, Kind::Write)
    }
    #[inline(always)]
    fn attributes(&self) -> bool {
        self.attributes
    }
    fn stalled(&mut self, stall: &Stall) {
        self.held().stalled(stall);
    }
}

impl<O: Observer> Observer for Shared<O> {
    const COMMITS: bool = O::COMMITS;
    const WORDS: bool = O::WORDS;
    const TRAPS: bool = O::TRAPS;
    const WRITE_BACKS: bool = O::WRITE_BACKS;
    fn happened(&mut self, event: &Event<'_>) {
        self.held().observer.happened(event);
    }
}

impl<O: Observer> World for Shared<O> {
    const PARALLEL: bool = true;
    #[inline]
    fn acquire(&mut self) {
        self.held();
    }
    #[inline]
    fn release(&mut self) {
        self.held = None;
    }
    #[inline]
    fn coherence(&mut self) -> &mut Coherence {
        &mut self.held().coherence
    }
    fn marker(&mut self, hart: usize, cycle: u64, marker: Marker, value: u64) -> bool {
        self.held().marker(hart, cycle, marker, value)
    }
}
