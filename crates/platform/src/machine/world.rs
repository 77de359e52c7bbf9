//! The machine as its harts see it.

use crate::bus::{Bus, BusRead, BusWrite};
use crate::clock::{Clock, Ps};
use crate::config::BoardConfig;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{
    self, AccessEvent, BusFault, LineRequest, Marker, MemPort, Observer, Requester, Stall,
    TrapEvent, World,
};
use nagori_hart::HartStats;
use nagori_memtime::{Controller, Kind};
use nagori_ram::GuestRam;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Counters of one hart as others may read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HartView {
    pub cycle: u64,
    pub instret: u64,
    pub stats: HartStats,
}

/// Learns which code waits for memory.
pub trait Attribution: Send {
    /// A line was moved; whether it lies in NVMM, and memory with its first physical address.
    fn count(&mut self, stall: &Stall, nvmm: bool, ram: &GuestRam, ram_base: u64);
    /// Statistics start anew.
    fn reset(&mut self);
    /// The guest names the address space with this value of satp.
    fn name_space(&mut self, satp: u64, name: &str);
}

/// What a guest asked for that concerns all harts: done between instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Timing model on or off.
    Timed(bool),
    /// Statistics start anew.
    ResetStats,
    /// The statistics so far are kept under a label.
    Mark(u64),
    /// What a marker of a hart says, with its value.
    Marker(usize, Marker, u64),
}

/// Everything around the harts.
pub(crate) struct Surroundings<O> {
    pub ram: Arc<GuestRam>,
    pub ram_base: u64,
    pub bus: Bus,
    pub memory: Controller,
    pub coherence: Coherence,
    pub core_clock: Clock,
    pub timebase: Clock,
    pub board: BoardConfig,
    pub observer: O,
    /// Views of the harts, as of when they last stopped.
    pub views: Vec<HartView>,
    pub timed: bool,
    /// Whether markers are heard.
    pub markers: bool,
    pub actions: Vec<Action>,
    /// What memory behind the caches holds, if that is tracked.
    pub behind: Option<super::power::Behind>,
    /// Whether writes may be lost in the controller.
    pub keeps_queue: bool,
    /// Latest request for a line while harts ran at the same time.
    pub latest: Ps,
    pub control: super::control::ControlState,
    /// Who learns which code waits for memory.
    pub profile: Option<Box<dyn Attribution>>,
}

impl<O> Surroundings<O> {
    /// Machine time of a core cycle.
    pub fn ps(&self, cycle: u64) -> Ps {
        self.core_clock.time_of(cycle)
    }

    /// First core cycle at or after a machine time.
    pub fn cycle_at(&self, t: Ps) -> u64 {
        self.core_clock.tick_from(t)
    }

    /// The cycle at which machine time ends.
    pub fn last_cycle(&self) -> u64 {
        self.cycle_at(Ps::END)
    }

    /// The cycle of the devices' next event, or the last one.
    pub fn next_event(&self) -> u64 {
        self.cycle_at(self.bus.next_event().min(Ps::END))
    }

    /// What devices have written to memory becomes known to caches and harts.
    pub fn apply_dma_writes(&mut self) {
        if self.bus.has_dma_writes() {
            for r in self.bus.take_dma_writes() {
                self.memory_written(r.addr, r.len);
            }
        }
    }

    /// Memory was written by others than harts.
    pub fn memory_written(&mut self, paddr: u64, len: u64) {
        self.coherence.device_wrote(paddr, len);
        if let Some(b) = &mut self.behind {
            b.wrote(&self.ram, self.ram_base, paddr, len);
        }
    }

    /// Caches hold nothing that memory does not.
    pub fn all_written(&mut self) {
        if let Some(b) = &mut self.behind {
            b.clear();
        }
    }

    /// The one way of lines to memory: a request that leaves a core at `at`, and when its
    /// answer is back. `later` is by how much the controller's time is ahead of the core's.
    pub(super) fn transfer(&mut self, at: Ps, line: u64, kind: Kind, later: Ps) -> Ps {
        let b = &self.board;
        let (there, back) = match kind {
            Kind::Read => (b.read_request_ps, b.read_response_ps),
            Kind::Write => (b.write_request_ps, b.write_ack_ps),
        };
        let arrival = nagori_memtime::Ps(at.0 + there + later.0);
        let done = self.memory.access(arrival, line - self.ram_base, kind, 64);
        // Guest memory is the controller's capacity, and no hart runs behind the end of time. An
        // access that costs nothing would be a wrong result that nobody sees.
        let done = done.unwrap_or_else(|e| panic!("a line of guest memory is refused: {e}"));
        Ps(done.0 - later.0 + back)
    }

    fn timed_transfer(&mut self, req: &LineRequest, kind: Kind) -> u64 {
        let done = self.transfer(self.ps(req.cycle), req.line, kind, Ps::ZERO);
        self.cycle_at(done)
    }
}

impl<O: Observer> world::Bus for Surroundings<O> {
    #[inline(always)]
    fn ram(&self) -> &GuestRam {
        &self.ram
    }
    #[inline(always)]
    fn ram_base(&self) -> u64 {
        self.ram_base
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        let now = self.ps(by.cycle);
        match self.bus.read(paddr, size, now, by.hart as u32) {
            Ok(BusRead::Value(v)) => Ok(v),
            Ok(BusRead::Control(access)) => Ok(self.control_read(by, access)),
            Err(_) => Err(BusFault),
        }
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        let now = self.ps(by.cycle);
        match self.bus.write(paddr, size, value, now, by.hart as u32) {
            Ok(BusWrite::Done) => Ok(()),
            Ok(BusWrite::Control(access)) => {
                self.control_write(by, access, value);
                Ok(())
            }
            Err(_) => Err(BusFault),
        }
    }
    fn time(&self, cycle: u64) -> u64 {
        self.timebase.ticks_at(self.ps(cycle))
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.cycle_at(self.timebase.time_of(time))
    }
}

impl<O: Observer> MemPort for Surroundings<O> {
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.timed_transfer(req, Kind::Read)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        if let Some(b) = &mut self.behind {
            let number = self.keeps_queue.then(|| self.memory.next_number());
            b.written(req.line, number);
        }
        let done = self.timed_transfer(req, Kind::Write);
        if self.behind.as_ref().is_some_and(|b| b.is_long()) {
            let at = self.ps(req.cycle);
            // Time is within its range, or the request would have failed.
            let _ = self.look_at_writes(at);
        }
        done
    }
    #[inline(always)]
    fn line_dirtied(&mut self, line: u64) {
        if let Some(b) = &mut self.behind {
            b.dirtied(&self.ram, self.ram_base, line);
        }
    }
    #[inline(always)]
    fn attributes(&self) -> bool {
        self.profile.is_some()
    }
    fn stalled(&mut self, stall: &Stall) {
        let offset = stall.line - self.ram_base;
        let nvmm = offset >= self.memory.params().nvmm_base;
        if let Some(p) = &mut self.profile {
            p.count(stall, nvmm, &self.ram, self.ram_base);
        }
    }
}

impl<O: Observer> Observer for Surroundings<O> {
    const RETIRE: bool = O::RETIRE;
    const ACCESS: bool = O::ACCESS;
    const TRAP: bool = O::TRAP;
    fn retired(&mut self, hart: usize, cycle: u64, pc: u64, raw: u32, privilege: u8) {
        self.observer.retired(hart, cycle, pc, raw, privilege);
    }
    fn access(&mut self, event: &AccessEvent) {
        self.observer.access(event);
    }
    fn trap(&mut self, event: &TrapEvent) {
        self.observer.trap(event);
    }
}

impl<O: Observer> World for Surroundings<O> {
    fn coherence(&mut self) -> &mut Coherence {
        &mut self.coherence
    }
    fn marker(&mut self, hart: usize, _cycle: u64, marker: Marker, value: u64) -> bool {
        if self.markers {
            self.actions.push(Action::Marker(hart, marker, value));
        }
        self.markers
    }
}
