//! What observers of a machine are told, and the machine as harts see it while somebody is told of instructions: a
//! receiver of events, or a debugger that waits for something.
//!
//! Whoever observes is reached through a trait object, so the code that runs a machine is compiled once with
//! everything reported, and once with nothing.

use super::debug::Debug;
use super::observers::AccessSink;
use super::observers::EventSink;
use super::observers::Watching;
use super::world::Surroundings;
use super::Machine;
use nagori_hart::lines::Coherence;
use nagori_hart::world::{
    self, AccessKind, BusFault, DevicePlace, Event, LineRequest, Marker, MemPort, Observer,
    Requester, Stall, Transfer, World,
};
use nagori_hart::Hart;
use nagori_ram::GuestRam;
use std::any::Any;

/// The machine as harts see it while instructions are reported.
pub(super) struct Observed<'a> {
    pub inner: &'a mut Surroundings,
    /// A debugger that waits for something.
    pub debug: Option<&'a mut Debug>,
}

impl<'a> Observed<'a> {
    /// Without a debugger.
    pub fn of(inner: &'a mut Surroundings) -> Self {
        Observed { inner, debug: None }
    }
}

impl world::Bus for Observed<'_> {
    #[inline(always)]
    fn ram(&self) -> &GuestRam {
        self.inner.ram()
    }
    #[inline(always)]
    fn ram_base(&self) -> u64 {
        self.inner.ram_base()
    }
    fn device_place(&mut self, paddr: u64) -> DevicePlace {
        self.inner.device_place(paddr)
    }
    fn mmio_read(&mut self, by: &Requester<'_>, paddr: u64, size: u8) -> Result<u64, BusFault> {
        self.inner.mmio_read(by, paddr, size)
    }
    fn mmio_write(
        &mut self,
        by: &Requester<'_>,
        paddr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), BusFault> {
        self.inner.mmio_write(by, paddr, size, value)
    }
    fn time(&self, cycle: u64) -> u64 {
        self.inner.time(cycle)
    }
    fn cycle_of_time(&self, time: u64) -> u64 {
        self.inner.cycle_of_time(time)
    }
}

impl MemPort for Observed<'_> {
    const BLOCKS: bool = Surroundings::BLOCKS;
    fn read_line(&mut self, req: &LineRequest) -> u64 {
        self.inner.read_line(req)
    }
    fn write_line(&mut self, req: &LineRequest) -> u64 {
        self.inner.write_line(req)
    }
    fn transfer(&mut self, req: &LineRequest, write: bool) -> Transfer {
        self.inner.transfer(req, write)
    }
    fn post_line(&mut self, req: &LineRequest) {
        self.inner.post_line(req);
    }
    fn prefetch_line(&mut self, req: &LineRequest, token: u64) -> Transfer {
        self.inner.prefetch_line(req, token)
    }
    fn load_begins(&mut self, hart: usize, line: u64) {
        self.inner.load_begins(hart, line);
    }
    fn write_ahead(&mut self, req: &LineRequest, reads: bool, token: u64) -> Transfer {
        self.inner.write_ahead(req, reads, token)
    }
    fn claim_line(&mut self, hart: usize, line: u64) {
        self.inner.claim_line(hart, line);
    }
    fn begin_fill(&mut self, hart: usize, line: u64) -> bool {
        self.inner.begin_fill(hart, line)
    }
    fn end_fill(&mut self, hart: usize, cycle: u64) -> Option<usize> {
        self.inner.end_fill(hart, cycle)
    }
    fn attributes(&self) -> bool {
        self.inner.attributes()
    }
    fn stalled(&mut self, stall: &Stall) {
        self.inner.stalled(stall);
    }
    fn line_dirtied(&mut self, line: u64) {
        self.inner.line_dirtied(line);
    }
    fn line_aged(&mut self, line: u64, name: u64) {
        self.inner.line_aged(line, name);
    }
}

impl Observer for Observed<'_> {
    const COMMITS: bool = true;
    const STOPS: bool = true;
    fn wants_words(&self) -> bool {
        let events = &self.inner.observers.events;
        events.as_ref().is_some_and(|s| s.wants_words())
    }
    fn accessed(&mut self, kind: AccessKind, paddr: u64, size: u8) {
        self.inner.accessed(kind, paddr, size);
    }
    fn watches(&self, paddr: u64, bytes: u64) -> bool {
        self.inner.watches(paddr, bytes)
    }
    fn happened(&mut self, event: &Event<'_>) {
        if let (Event::Commit(c), Some(debug)) = (event, &mut self.debug) {
            debug.committed(c);
        }
        self.inner.tell(event);
    }
    fn stops(&mut self, hart: usize, pc: u64) -> bool {
        let written = self.inner.nvmm_lines_written;
        match &mut self.debug {
            Some(debug) => debug.stops(hart, pc, written),
            None => false,
        }
    }
    fn tried_again(&mut self, hart: usize, pc: u64) {
        if let Some(debug) = &mut self.debug {
            debug.tried_again(hart, pc);
        }
    }
}

impl World for Observed<'_> {
    fn coherence(&mut self) -> &mut Coherence {
        self.inner.coherence()
    }
    fn marker(&mut self, hart: usize, cycle: u64, marker: Marker, value: u64) -> bool {
        self.inner.marker(hart, cycle, marker, value)
    }
    fn hands_over(&mut self, hart: &Hart, later: u64) -> u64 {
        self.inner.hands_over(hart, later)
    }
}

impl Machine {
    /// Sets who receives what harts do from now on; returns who did before.
    pub fn set_event_sink(&mut self, to: Option<Box<dyn EventSink>>) -> Option<Box<dyn EventSink>> {
        let w = &mut *self.world;
        w.bus
            .record_deeds(to.as_ref().is_some_and(|s| s.wants_devices()));
        let reached = to.as_ref().is_some_and(|s| s.wants_reached());
        w.reached = reached.then(Vec::new);
        std::mem::replace(&mut w.observers.events, to)
    }

    /// Who receives what harts do, if it is of this type.
    pub fn event_sink<T: EventSink>(&mut self) -> Option<&mut T> {
        let sink: &mut dyn Any = &mut **self.world.observers.events.as_mut()?;
        sink.downcast_mut()
    }

    /// The receiver of what harts do is told no more, and given back, if it is of this type.
    pub fn take_event_sink<T: EventSink>(&mut self) -> Option<Box<T>> {
        self.event_sink::<T>()?;
        let sink: Box<dyn Any> = self.set_event_sink(None)?;
        sink.downcast().ok()
    }

    /// Sets who receives accesses to some physical addresses from now on. Instructions are reported when they are
    /// decoded; those that harts have decoded before are not reported.
    pub fn watch_accesses(&mut self, watching: Option<Watching>) {
        let w = &mut *self.world;
        (w.observers.watched, w.observers.accesses) = match watching {
            Some(Watching { range, sink }) => (range, Some(sink)),
            None => (0..0, None),
        };
        if w.observers.accesses.is_some() {
            // Accesses that passed before are observed now.
            for h in &mut self.harts {
                h.lets_none_pass(w);
            }
        }
    }

    /// Who receives accesses, if it is of this type.
    pub fn access_sink<T: AccessSink>(&mut self) -> Option<&mut T> {
        let sink: &mut dyn Any = &mut **self.world.observers.accesses.as_mut()?;
        sink.downcast_mut()
    }

    /// Whether the interpreter has to run the harts, and to report each instruction.
    #[inline(always)]
    pub(super) fn is_observed(&self) -> bool {
        let w = &self.world;
        self.debugged() || w.observers.wants_instructions(w.timed)
    }
}
