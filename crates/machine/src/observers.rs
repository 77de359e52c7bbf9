//! Who is told of what harts do.

use nagori_hart::world::{AccessKind, Event};
use std::any::Any;
use std::ops::Range;

/// Receives what the harts of a machine do, in the order in which it happens. While a machine has one, the interpreter
/// executes all code, and no harts run at the same time; cycles are those of a run without it.
pub trait EventSink: Any + Send {
    /// Whether the bits of instructions are reported, which costs an address translation for each.
    fn wants_words(&self) -> bool {
        true
    }
    /// Whether what devices do is reported ([`Event::Device`]).
    fn wants_devices(&self) -> bool {
        false
    }
    /// Whether it is reported which lines have reached memory ([`Event::Reached`]), where the persistence domain is
    /// memory alone, and power cuts are tracked.
    fn wants_reached(&self) -> bool {
        false
    }
    /// Called for each event.
    fn happened(&mut self, event: &Event<'_>);
}

/// Receives accesses to some physical addresses. Translated code goes on without the timing model.
pub trait AccessSink: Any + Send {
    /// An instruction or the page-table walker has accessed memory, or an instruction has been read from there to be
    /// decoded. If the instruction is abandoned afterwards, this is called again.
    fn accessed(&mut self, kind: AccessKind, paddr: u64, size: u8);
}

/// Physical addresses, and who is told of accesses to them.
pub struct Watching {
    /// The addresses.
    pub range: Range<u64>,
    /// Who is told.
    pub sink: Box<dyn AccessSink>,
}

/// What observes a machine.
#[derive(Default)]
pub(super) struct Observers {
    pub(super) events: Option<Box<dyn EventSink>>,
    pub(super) accesses: Option<Box<dyn AccessSink>>,
    /// Empty without a sink of accesses.
    pub(super) watched: Range<u64>,
}

impl Observers {
    /// Whether instructions have to be reported one by one.
    #[inline(always)]
    pub fn wants_instructions(&self, timed: bool) -> bool {
        self.events.is_some() || timed && self.accesses.is_some()
    }

    /// Whether accesses are watched anywhere.
    pub fn watches_accesses(&self) -> bool {
        self.accesses.is_some()
    }

    /// Whether some accesses are watched in a range of addresses.
    #[inline(always)]
    pub fn watches(&self, paddr: u64, bytes: u64) -> bool {
        paddr < self.watched.end && self.watched.start < paddr.saturating_add(bytes)
    }

    /// Reports an access.
    #[inline(always)]
    pub fn accessed(&mut self, kind: AccessKind, paddr: u64, size: u8) {
        if self.watched.contains(&paddr) {
            self.tell_access(kind, paddr, size);
        }
    }

    #[cold]
    fn tell_access(&mut self, kind: AccessKind, paddr: u64, size: u8) {
        if let Some(sink) = &mut self.accesses {
            sink.accessed(kind, paddr, size);
        }
    }

    /// Reports an event.
    pub fn happened(&mut self, event: &Event<'_>) {
        if let Some(sink) = &mut self.events {
            sink.happened(event);
        }
    }

    /// Whether it is to be reported which lines have reached memory.
    pub fn wants_reached(&self) -> bool {
        self.events.as_ref().is_some_and(|s| s.wants_reached())
    }
}
