//! The machine as harts see it that run at the same time, without the timing model: one of them holds its lock until it
//! releases it.

use super::world::Surroundings;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{
    self, BusFault, DevicePlace, LineRequest, Marker, MemPort, Observer, Requester, World,
};
use nagori_platform::clock::Clock;
use nagori_ram::GuestRam;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::sync::Arc;

/// The shared state, which one thread at a time may hold.
pub(super) type Lock = Arc<Mutex<Surroundings>>;
/// The hold on it.
pub(super) type Held = ArcMutexGuard<RawMutex, Surroundings>;

/// Attempts to take hold before a thread sleeps.
const SPINS: u32 = 1000;

/// A worker's way to what is around the harts: taken when needed, kept until
/// [`World::release`].
pub(super) struct Shared {
    lock: Lock,
    held: Option<Held>,
    ram: Arc<GuestRam>,
    ram_base: u64,
    core_clock: Clock,
    timebase: Clock,
}

impl Shared {
    /// A worker's way to what the lock guards.
    pub fn new(lock: Lock) -> Self {
        let held = lock.lock_arc();
        Shared {
            ram: held.ram.clone(),
            ram_base: held.ram_base,
            core_clock: held.core_clock,
            timebase: held.timebase,
            lock,
            held: None,
        }
    }

    /// What is around, from now on this worker's own.
    #[inline]
    pub fn held(&mut self) -> &mut Surroundings {
        let lock = &self.lock;
        self.held.get_or_insert_with(|| take(lock))
    }
}

/// It is held for less time than it takes to give the processor away and to be woken.
#[inline]
fn take(lock: &Lock) -> Held {
    let mut tries = (0..SPINS).filter_map(|_| {
        let held = lock.try_lock_arc();
        if held.is_none() {
            std::hint::spin_loop();
        }
        held
    });
    tries.next().unwrap_or_else(|| lock.lock_arc())
}

impl world::Bus for Shared {
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

/// Without the timing model no lines are transferred.
impl MemPort for Shared {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        req.cycle
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        req.cycle
    }
}

/// While instructions are reported, harts run one after the other.
impl Observer for Shared {}

impl World for Shared {
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
