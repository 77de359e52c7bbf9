//! The machine as its harts see it.

use crate::bus::{Bus, BusRead, BusWrite};
use crate::clock::{Clock, Ps};
use crate::config::BoardConfig;
use nagori_hart::cache::Coherence;
use nagori_hart::world::{
    self, BusFault, LineRequest, Marker, MemPort, Observer, Requester, Stall, TrapEvent, World,
};
use nagori_hart::HartStats;
use nagori_memtime::board::Divider;
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
    /// Of the core clock, in picoseconds.
    pub period: Divider,
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
    /// Latest request for a line while harts ran at the same time.
    pub latest: Ps,
    pub control: super::control::ControlState,
    /// Who learns which code waits for memory.
    pub profile: Option<Box<dyn Attribution>>,
}

/// Machine time of a core cycle.
pub(super) fn time_of_cycle(period: &Divider, cycle: u64) -> Ps {
    Ps(cycle.saturating_mul(period.divisor()))
}

/// First core cycle at or after a machine time.
pub(super) fn cycle_of_time(period: &Divider, t: Ps) -> u64 {
    match t {
        Ps::NEVER => u64::MAX,
        t => period.div_ceil(t.0),
    }
}

impl<O> Surroundings<O> {
    /// Machine time of a core cycle.
    pub fn ps(&self, cycle: u64) -> Ps {
        time_of_cycle(&self.period, cycle)
    }

    /// First core cycle at or after a machine time.
    pub fn cycle_at(&self, t: Ps) -> u64 {
        cycle_of_time(&self.period, t)
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

    fn transfer(&mut self, req: &LineRequest, kind: Kind, there: u64, back: u64) -> u64 {
        let at = nagori_memtime::Ps(req.cycle * self.period.divisor() + there);
        let addr = req.line - self.ram_base;
        // The address lies in guest memory, which is the controller's capacity.
        let done = self.memory.access(at, addr, kind, 64).unwrap_or(at);
        self.period.div_ceil(done.0 + back)
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
        let (there, back) = (self.board.read_request_ps, self.board.read_response_ps);
        self.transfer(req, Kind::Read, there, back)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        let (there, back) = (self.board.write_request_ps, self.board.write_ack_ps);
        if let Some(b) = &mut self.behind {
            b.written(req.line);
        }
        self.transfer(req, Kind::Write, there, back)
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
    fn access(&mut self, hart: usize, cycle: u64, pc: u64, vaddr: u64, size: u8, write: bool) {
        self.observer.access(hart, cycle, pc, vaddr, size, write);
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
