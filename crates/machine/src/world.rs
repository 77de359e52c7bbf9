//! The machine as its harts see it.

use super::action::Action;
use super::epochs::Epochs;
use super::fills::Fills;
use super::memory::{BusCause, Memory};
use super::observers::Observers;
use super::refusal::refused;
use super::view::HartView;
use nagori_config::BoardConfig;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{
    self, AccessKind, BusFault, DevicePlace, Event, LineContent, LineKind, LineRequest, Marker,
    MemPort, Observer, Requester, Stall, Transfer, World,
};
use nagori_hart::Hart;
use nagori_iomap::Access;
use nagori_memtime::Kind;
use nagori_platform::bus::{Bus, BusRead, BusWrite};
use nagori_platform::clock::{Clock, Ps};
use nagori_platform::device::DmaTransfer;
use nagori_platform::iomap::MACHINE;
use nagori_ram::GuestRam;
use std::any::Any;
use std::sync::Arc;

/// A profiler: it observes which code waits for memory.
pub trait Attribution: Send {
    /// A line was transferred; `nvmm` tells whether it is in NVMM, with guest memory and its first
    /// physical address.
    fn count(&mut self, stall: &Stall, nvmm: bool, ram: &GuestRam, ram_base: u64);
    /// Statistics start anew.
    fn reset(&mut self);
    /// The guest reports the address space that belongs to this value of satp.
    fn name_space(&mut self, satp: u64, name: &str);
    /// Gives away what has been counted, and starts anew.
    fn take(&mut self) -> Attributed;
    /// Another one, for a copy of the machine.
    fn another(&self) -> Box<dyn Attribution>;
}

/// What a profiler has counted in a part of a run, in its own form.
#[derive(Clone, Default)]
pub struct Attributed(pub Option<Arc<dyn Any + Send + Sync>>);

impl std::fmt::Debug for Attributed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.0.is_some() { "some" } else { "nothing" };
        f.write_str(what)
    }
}

/// Everything around the harts.
pub(crate) struct Surroundings {
    pub ram: Arc<GuestRam>,
    pub ram_base: u64,
    pub bus: Bus,
    pub memory: Memory,
    /// Lines that harts are fetching.
    pub fills: Fills,
    /// Whether one hart runs and all others sleep: no other request can come before its requests
    /// are complete.
    pub alone: bool,
    pub coherence: Coherence,
    pub core_clock: Clock,
    pub timebase: Clock,
    pub board: BoardConfig,
    pub observers: Observers,
    /// Views of the harts, from when they last stopped.
    pub views: Vec<HartView>,
    pub timed: bool,
    /// Whether markers are carried out.
    pub markers: bool,
    pub actions: Vec<Action>,
    /// The contents of memory, without the newer data of the caches, if they are tracked.
    pub behind: Option<super::behind::Behind>,
    /// Lines of NVMM that were written back since the machine was built.
    pub nvmm_lines_written: u64,
    /// The file that holds what is durable of NVMM.
    pub image: Option<super::attached::Attached>,
    /// Whether writes may be lost in the controller.
    pub keeps_queue: bool,
    /// Lines whose writes have reached memory since the observer was told, if it wants to know.
    pub reached: Option<Vec<u64>>,
    pub control: super::control_state::ControlState,
    /// The profiler.
    pub profile: Option<Box<dyn Attribution>>,
    /// Epochs, if they emulate NVMM.
    pub epochs: Option<Box<Epochs>>,
    /// Lines that come to caches that began empty, if somebody looks.
    pub cold: Option<Box<super::cold::Cold>>,
}

impl Surroundings {
    /// Machine time of a core cycle.
    #[inline(always)]
    pub fn ps(&self, cycle: u64) -> Ps {
        self.core_clock.time_of(cycle)
    }

    /// First core cycle at or after a machine time.
    #[inline(always)]
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

    /// Memory was written by a device or the host.
    pub fn memory_written(&mut self, paddr: u64, len: u64) {
        self.coherence.device_wrote(paddr, len);
        self.ram.note_range(paddr.wrapping_sub(self.ram_base), len);
        if let Some(b) = &mut self.behind {
            b.wrote(&self.ram, self.ram_base, paddr, len);
            if self.image.is_some() {
                let lines = b.changed(paddr, len);
                self.note_durable(&lines);
            }
        }
    }

    /// All lines of the caches are clean from now on.
    pub fn all_written(&mut self) {
        if let Some(b) = &mut self.behind {
            b.clear();
        }
        self.all_durable();
    }

    /// No hart is blocked any more; outstanding requests continue.
    pub fn nobody_waits(&mut self) {
        self.memory.release_all();
        self.coherence.nobody_waits();
        self.fills.clear();
    }

    /// When a request that leaves a core at a given time arrives at its controller.
    #[inline(always)]
    fn arrival(&self, at: Ps, kind: Kind) -> Ps {
        let b = &self.board;
        let there = match kind {
            Kind::Read => b.read_request_ps,
            Kind::Write => b.write_request_ps,
        };
        at + Ps(there)
    }

    /// When the core sees the answer that a controller gives at a given time.
    #[inline(always)]
    pub(super) fn answered(&self, done: Ps, kind: Kind) -> Ps {
        let b = &self.board;
        let back = match kind {
            Kind::Read => b.read_response_ps,
            Kind::Write => b.write_ack_ps,
        };
        Ps(done.0 + back)
    }

    /// The first time at which a request can arrive that leaves a core at `at` or later.
    pub(super) fn first_arrival(&self, at: Ps) -> Ps {
        let b = &self.board;
        let there = b.read_request_ps.min(b.write_request_ps);
        at.saturating_add(Ps(there)).min(Ps::MAX_TIME)
    }

    /// The first time at which a core can see an answer that a controller gives at `t` or later.
    pub(super) fn first_answer(&self, t: Ps) -> Ps {
        let b = &self.board;
        Ps(t.0 + b.read_response_ps.min(b.write_ack_ps))
    }

    /// A request that leaves a core at `at` and is answered at once. Returns when the answer is back.
    #[inline(always)]
    fn access(&mut self, at: Ps, req: &LineRequest, kind: Kind) -> Ps {
        let arrival = self.arrival(at, kind);
        let offset = req.line - self.ram_base;
        let done = self.memory.access(arrival, offset, kind, || cause_of(req));
        let done = done.unwrap_or_else(|e| refused(e));
        self.answered(done, kind)
    }

    /// Whether a line that memory is to read counts as a hit in a cache that began empty.
    #[inline(always)]
    fn would_hit(&mut self, req: &LineRequest) -> bool {
        match &mut self.cold {
            Some(c) => c.reads(req),
            None => false,
        }
    }

    /// Counts a line that memory reads or writes for a hart.
    #[inline(always)]
    fn count_line(&mut self, req: &LineRequest, kind: Kind) {
        let offset = req.line - self.ram_base;
        let nvmm = offset >= self.memory.board.params().nvmm_base;
        self.coherence
            .count_memory(req.hart, nvmm, kind == Kind::Write);
    }

    /// Where the bus has what a hart accesses; `None` if the I/O table does not let it pass.
    fn on_bus(&mut self, by: &Requester<'_>, paddr: u64, size: u8, access: Access) -> Option<u64> {
        match self.bus.iomap() {
            Some(table) if by.privilege != MACHINE => {
                table.of_hart(by.hart as u32, paddr, size, access)
            }
            _ => Some(paddr),
        }
    }

    #[inline(always)]
    fn write_at_once(&mut self, req: &LineRequest) -> u64 {
        self.note_write(req);
        let done = self.answer_at_once(req, Kind::Write);
        self.look_at_long_writes(req);
        done
    }

    #[inline(always)]
    fn answer_at_once(&mut self, req: &LineRequest, kind: Kind) -> u64 {
        let done = self.access(self.ps(req.cycle), req, kind);
        self.cycle_at(done)
    }

    /// As [`MemPort::transfer`], for whatever is not the read of a hart that runs alone.
    #[inline(never)]
    fn transfer_any(&mut self, req: LineRequest, write: bool) -> Transfer {
        let req = &req;
        if !write && self.would_hit(req) {
            return Transfer::Done(req.cycle);
        }
        let kind = if write { Kind::Write } else { Kind::Read };
        self.count_line(req, kind);
        if self.alone {
            return Transfer::Done(if write {
                self.write_at_once(req)
            } else {
                self.answer_at_once(req, Kind::Read)
            });
        }
        if write {
            self.note_write(req);
        }
        self.post(req, kind, Some(req.hart));
        self.fills.ask(req.hart, req.line);
        if write {
            self.look_at_long_writes(req);
        }
        Transfer::UnderWay
    }

    /// A request that is answered when it is complete; `hart` is blocked until then.
    fn post(&mut self, req: &LineRequest, kind: Kind, hart: Option<usize>) {
        let at = self.arrival(self.ps(req.cycle), kind);
        let offset = req.line - self.ram_base;
        self.memory.post(at, offset, kind, hart, || cause_of(req));
    }

    /// Advances memory with all requests that harts have sent before a cycle, at which a hart reads
    /// or changes the state of memory, wherever that hart's turn began.
    fn catch_up(&mut self, cycle: u64) {
        if self.timed && !self.alone {
            let until = self.first_arrival(self.ps(cycle));
            self.memory.catch_up(until).unwrap_or_else(|e| refused(e));
        }
    }

    /// Counts a line that is written back, and records it if power cuts are tracked.
    #[inline(always)]
    fn note_write(&mut self, req: &LineRequest) {
        let offset = req.line - self.ram_base;
        self.nvmm_lines_written += u64::from(offset >= self.memory.board.params().nvmm_base);
        if self.behind.is_some() {
            self.track_write(req);
        }
    }

    /// Records a line that is written back.
    #[inline(never)]
    fn track_write(&mut self, req: &LineRequest) {
        if let Some(b) = &mut self.behind {
            let id = self.keeps_queue.then(|| self.memory.next_id());
            b.written(req.line, req.older, id);
            self.note_durable(&[req.line]);
        }
    }

    #[inline(always)]
    fn look_at_long_writes(&mut self, req: &LineRequest) {
        if self.behind.as_ref().is_some_and(|b| b.is_long()) {
            let at = self.ps(req.cycle);
            // Time is within its range, or the request would have failed.
            let _ = self.look_at_writes(at);
        }
    }
}

impl Surroundings {
    /// Makes caches and harts aware of what devices have written to memory, and the observer of what they have done.
    pub fn apply_dma_writes(&mut self) {
        if self.bus.has_dma_writes() {
            for r in self.bus.take_dma_writes() {
                self.memory_written(r.addr, r.len);
            }
        }
        if self.bus.has_transfers() {
            let transfers = self.bus.take_transfers();
            // The model may have been turned off since.
            if self.bus.transfers_cost() {
                for t in &transfers {
                    self.device_transfers(t);
                }
            }
        }
        for deed in self.bus.take_deeds() {
            self.observers.happened(&Event::Device(&deed));
        }
    }

    /// A device transfers a line, or a part of one. Nobody waits for it: devices have buffers.
    fn device_transfers(&mut self, t: &DmaTransfer) {
        let line = t.addr & !63;
        let req = LineRequest {
            // Memory is never ahead of the cycle in which devices act.
            cycle: self.cycle_at(t.at),
            line,
            kind: LineKind::Device,
            hart: 0,
            pc: 0,
            privilege: MACHINE,
            asid: 0,
            older: None,
        };
        if self.coherence.probe_for_device(line, t.write) {
            self.observers.happened(&Event::WriteBack(&req));
            self.note_write(&req);
            self.post(&req, Kind::Write, None);
        }
        let kind = if t.write { Kind::Write } else { Kind::Read };
        self.post(&req, kind, None);
    }

    /// Reports what a hart has done.
    pub fn tell(&mut self, event: &Event<'_>) {
        if let Event::Commit(c) = event {
            if c.orders() {
                self.report_reached(self.ps(c.cycle));
            }
        }
        self.observers.happened(event);
    }

    /// Reports which lines have reached memory at a time.
    pub fn report_reached(&mut self, at: Ps) {
        if !self.observers.wants_reached() || !self.keeps_queue {
            return;
        }
        // Time is within its range, or the request would have failed.
        let _ = self.look_at_writes(at);
        let (Some(b), Some(reached)) = (&self.behind, &mut self.reached) else {
            return;
        };
        for line in std::mem::take(reached) {
            let mut bytes = [0; 64];
            match b.durable(line) {
                Some(words) => {
                    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
                        to.copy_from_slice(&word.to_le_bytes());
                    }
                }
                // Lines of requests are in memory.
                None => drop(self.ram.read_bytes(line - self.ram_base, &mut bytes)),
            }
            let content = LineContent { line, bytes };
            self.observers.happened(&Event::Reached(&content));
        }
    }
}

fn cause_of(req: &LineRequest) -> BusCause {
    BusCause {
        hart: req.hart,
        pc: req.pc,
        kind: req.kind,
    }
}

impl world::Bus for Surroundings {
    #[inline(always)]
    fn ram(&self) -> &GuestRam {
        &self.ram
    }
    #[inline(always)]
    fn ram_base(&self) -> u64 {
        self.ram_base
    }
    fn device_place(&mut self, paddr: u64) -> DevicePlace {
        self.bus.place(paddr)
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        let now = self.ps(by.cycle);
        let Some(paddr) = self.on_bus(by, paddr, size, Access::Read) else {
            return Err(BusFault);
        };
        match self.bus.read(paddr, size, now, by.hart as u32) {
            Ok(BusRead::Value(v)) => Ok(v),
            Ok(BusRead::Control(access)) => {
                self.catch_up(by.cycle);
                Ok(self.control_read(by, access))
            }
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
        let Some(paddr) = self.on_bus(by, paddr, size, Access::Write) else {
            return Err(BusFault);
        };
        match self.bus.write(paddr, size, value, now, by.hart as u32) {
            Ok(BusWrite::Done) => Ok(()),
            Ok(BusWrite::Control(access)) => {
                self.catch_up(by.cycle);
                // A register of the hart may have more bits than the store.
                self.control_write(by, access, nagori_platform::device::part(value, 0, size));
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

impl MemPort for Surroundings {
    const BLOCKS: bool = true;
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.count_line(req, Kind::Read);
        self.answer_at_once(req, Kind::Read)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.count_line(req, Kind::Write);
        self.write_at_once(req)
    }
    #[inline(always)]
    fn transfer(&mut self, req: &LineRequest, write: bool) -> Transfer {
        if !write && self.alone && self.cold.is_none() {
            self.count_line(req, Kind::Read);
            return Transfer::Done(self.answer_at_once(req, Kind::Read));
        }
        self.transfer_any(*req, write)
    }
    fn post_line(&mut self, req: &LineRequest) {
        self.count_line(req, Kind::Write);
        if self.alone {
            self.write_at_once(req);
            return;
        }
        self.note_write(req);
        self.post(req, Kind::Write, None);
        self.look_at_long_writes(req);
    }
    fn prefetch_line(&mut self, req: &LineRequest, token: u64) -> Transfer {
        if self.would_hit(req) {
            return Transfer::Done(req.cycle);
        }
        self.count_line(req, Kind::Read);
        let at = self.arrival(self.ps(req.cycle), Kind::Read);
        let offset = req.line - self.ram_base;
        let by = || cause_of(req);
        self.memory.post_ahead(at, offset, Kind::Read, token, by);
        Transfer::UnderWay
    }
    fn write_ahead(&mut self, req: &LineRequest, reads: bool, token: u64) -> Transfer {
        self.count_line(req, Kind::Write);
        let at = self.arrival(self.ps(req.cycle), Kind::Write);
        let offset = req.line - self.ram_base;
        if reads {
            self.count_line(req, Kind::Read);
            let by = || cause_of(req);
            self.memory.post(at, offset, Kind::Read, None, by);
        }
        self.note_write(req);
        let by = || cause_of(req);
        self.memory.post_ahead(at, offset, Kind::Write, token, by);
        self.look_at_long_writes(req);
        Transfer::UnderWay
    }
    fn load_begins(&mut self, hart: usize, line: u64) {
        self.fills.loads.push((line, hart as u32));
    }
    fn claim_line(&mut self, hart: usize, line: u64) {
        self.fills.ask(hart, line);
    }
    #[inline]
    fn begin_fill(&mut self, hart: usize, line: u64) -> bool {
        self.alone || self.fills.begin(hart, line)
    }
    #[inline(always)]
    fn end_fill(&mut self, hart: usize, cycle: u64) -> Option<usize> {
        self.fills.end(hart, cycle)
    }
    #[inline(always)]
    fn line_dirtied(&mut self, line: u64) {
        if let Some(b) = &mut self.behind {
            // Some file systems take space for what is read, too.
            self.ram.reserve(line - self.ram_base, 64);
            if b.dirtied(&self.ram, self.ram_base, line) {
                self.note_durable(&[line]);
            }
        }
    }
    fn line_aged(&mut self, line: u64, name: u64) {
        if let Some(b) = &mut self.behind {
            let is_kept = |n| self.coherence.has_version(line, n);
            b.aged(&self.ram, self.ram_base, (line, name), is_kept);
        }
    }
    #[inline(always)]
    fn attributes(&self) -> bool {
        self.profile.is_some()
    }
    fn stalled(&mut self, stall: &Stall) {
        let offset = stall.line - self.ram_base;
        let nvmm = offset >= self.memory.board.params().nvmm_base;
        if let Some(p) = &mut self.profile {
            p.count(stall, nvmm, &self.ram, self.ram_base);
        }
    }
}

impl Observer for Surroundings {
    #[inline(always)]
    fn accessed(&mut self, kind: AccessKind, paddr: u64, size: u8) {
        self.observers.accessed(kind, paddr, size);
    }
    #[inline(always)]
    fn watches(&self, paddr: u64, bytes: u64) -> bool {
        self.observers.watches(paddr, bytes)
    }
}

impl World for Surroundings {
    fn coherence(&mut self) -> &mut Coherence {
        &mut self.coherence
    }
    fn marker(&mut self, hart: usize, _cycle: u64, marker: Marker, value: u64) -> bool {
        if self.markers {
            self.actions.push(Action::Marker(hart, marker, value));
        }
        self.markers
    }
    fn hands_over(&mut self, hart: &Hart, later: u64) -> u64 {
        match &mut self.epochs {
            Some(e) => e.hands_over(hart, later, &self.coherence),
            None => 0,
        }
    }
}
