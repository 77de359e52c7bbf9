//! Hardware counters: `mcycle` and `minstret`, the event counters with their selectors (Zihpm), and Sscofpmf: overflow
//! interrupts and counting by privilege. (Privileged specification 20240411, sections 3.1.10 to 3.1.12 and chapter 22.)
//!
//! A counter is not counted up: it is the count of its event, which exists anyway ([`crate::events`]), plus an offset.
//! While it stands still, it has a value instead. So programs that count run as fast as others.
//!
//! **Overflow.** A counter overflows when the count of its event reaches a known number. That is looked for between
//! blocks, like interrupts, and whenever a register is read that shows it. If an interrupt may follow, the hart comes
//! back to look at the first end of a block at which the event can have happened often enough
//! ([`EventRow::most`](crate::events::EventRow::most)); looking earlier changes nothing. So the interrupt is taken
//! behind the block in which the counter has overflown, whatever runs the block and in whatever pieces.

use crate::events::{lookup, rows, Counted, EventRow, CODE};
use crate::privilege::Privilege;
use nagori_isa::csr::MHPMEVENT_MASK;
use serde::{Deserialize, Serialize};

/// A counter that runs with a source, can be set and can be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counter {
    offset: u64,
    pub(crate) frozen: Option<u64>,
}

impl Counter {
    pub fn read(&self, source: u64) -> u64 {
        self.frozen.unwrap_or(source.wrapping_add(self.offset))
    }
    pub fn write(&mut self, source: u64, value: u64) {
        if self.frozen.is_some() {
            self.frozen = Some(value);
        } else {
            self.offset = value.wrapping_sub(source);
        }
    }
    pub fn inhibit(&mut self, source: u64, stop: bool) {
        match (stop, self.frozen) {
            (true, None) => self.frozen = Some(self.read(source)),
            (false, Some(v)) => {
                self.frozen = None;
                self.offset = v.wrapping_sub(source);
            }
            _ => {}
        }
    }
}

/// Event counters: mhpmcounter3 to mhpmcounter31.
pub const COUNTERS: usize = 29;
/// Number of the first one, and its bit in mcountinhibit, mcounteren and scountovf.
pub(crate) const FIRST: usize = 3;

/// Bit of mhpmevent: the counter has overflown, and no interrupt follows from it any more.
pub(crate) const OF: u64 = 1 << 63;
/// Bits of mhpmevent: the counter stands still in machine, supervisor and user mode.
const MINH: u64 = 1 << 62;
const SINH: u64 = 1 << 61;
const UINH: u64 = 1 << 60;
const FILTERS: u64 = MINH | SINH | UINH;

/// An event counter with its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventCounter {
    pub(crate) counter: Counter,
    /// Register mhpmevent.
    pub(crate) select: u64,
    /// The count of its event at which it overflows; `u64::MAX` if it cannot, since it stands still.
    pub(crate) wrap: u64,
}

impl Default for EventCounter {
    fn default() -> Self {
        EventCounter {
            counter: Counter::default(),
            select: 0,
            wrap: u64::MAX,
        }
    }
}

impl EventCounter {
    pub(crate) fn row(&self) -> Option<&'static EventRow> {
        lookup((self.select & CODE) as u16)
    }

    /// The count of the event at which the counter overflows.
    pub(crate) fn find_wrap(&mut self, source: u64) {
        let value = self.counter.read(source);
        let runs = self.counter.frozen.is_none();
        self.wrap = match runs && value > source {
            true => source.wrapping_sub(value),
            // Counts do not get that far.
            false => u64::MAX,
        };
    }
}

/// The event counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hpm {
    pub(crate) counters: [EventCounter; COUNTERS],
    /// What follows from them; see [`Hpm::refresh`].
    #[serde(skip)]
    pub(crate) derived: Derived,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Derived {
    /// Counters that may overflow, a bit each.
    pub(crate) armed: u32,
    /// Counters that stand still in some mode, a bit each.
    pub(crate) filtered: u32,
    /// Whether some event needs instructions by kind.
    pub(crate) mix: bool,
}

pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let k = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (k < u32::BITS as usize).then_some(k)
    })
}

impl Hpm {
    /// Finds what follows from the registers, after a change.
    pub fn refresh(&mut self) {
        let mut d = Derived::default();
        for (k, c) in self.counters.iter().enumerate() {
            d.armed |= u32::from(c.wrap != u64::MAX) << k;
            d.filtered |= u32::from(c.select & FILTERS != 0) << k;
            d.mix |= c.row().is_some_and(EventRow::needs_mix);
        }
        self.derived = d;
    }

    /// Whether this is a possible state.
    pub fn sane(&self) -> bool {
        let known = |c: &EventCounter| c.select & !(MHPMEVENT_MASK | CODE) == 0;
        self.counters.iter().all(known)
    }

    /// mhpmevent of a counter.
    pub fn select(&self, k: usize) -> u64 {
        self.counters.get(k).map_or(0, |c| c.select)
    }

    /// Bits of scountovf: the counters that have overflown.
    pub(crate) fn overflown(&self) -> u64 {
        let all = self.counters.iter().enumerate();
        all.fold(0, |set, (k, c)| set | (c.select >> 63) << (k + FIRST))
    }
}

/// Whether a counter stands still in a mode.
pub(crate) fn filtered(select: u64, p: Privilege) -> bool {
    let bit = match p {
        Privilege::Machine => MINH,
        Privilege::Supervisor => SINH,
        Privilege::User => UINH,
    };
    select & bit != 0
}

/// Counts of all events by privilege.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByPrivilege {
    /// User, supervisor and machine mode; the events in the order of their table.
    pub counts: [Vec<u64>; 3],
}

/// Counts of all events up to the last change of privilege.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Modes {
    /// Counts of all modes together.
    since: Vec<u64>,
    pub(crate) by: ByPrivilege,
}

impl Modes {
    pub fn new(now: &Counted<'_>) -> Self {
        let none = vec![0; rows().count()];
        Modes {
            since: rows().map(|r| r.count(now)).collect(),
            by: ByPrivilege {
                counts: [none.clone(), none.clone(), none],
            },
        }
    }

    /// Whether it has a count for each event.
    pub fn fits(&self) -> bool {
        let n = rows().count();
        let mut all = self.by.counts.iter().chain([&self.since]);
        all.all(|c| c.len() == n)
    }

    /// What has been counted since the last call belongs to a mode.
    pub(crate) fn account(&mut self, p: Privilege, now: &Counted<'_>) {
        let mode = match p {
            Privilege::User => 0,
            Privilege::Supervisor => 1,
            Privilege::Machine => 2,
        };
        let counts = self.by.counts[mode].iter_mut().zip(&mut self.since);
        for (row, (count, since)) in rows().zip(counts) {
            let total = row.count(now);
            *count = count.wrapping_add(total.wrapping_sub(*since));
            *since = total;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stop_and_go_on() {
        let mut c = Counter::default();
        c.write(100, 5);
        assert_eq!(c.read(110), 15);
        c.inhibit(110, true);
        assert_eq!(c.read(500), 15);
        c.inhibit(500, false);
        assert_eq!(c.read(501), 16);
    }

    #[test]
    fn a_counter_overflows_when_its_event_has_happened_as_often_as_is_left() {
        let mut c = EventCounter::default();
        for (source, value, wrap) in [
            (100, u64::MAX, 101),
            (100, u64::MAX - 9, 110),
            (0, u64::MAX, 1),
            // 2^64 events are left, or more.
            (100, 100, u64::MAX),
            (100, 5, u64::MAX),
            (0, 0, u64::MAX),
        ] {
            c.counter.write(source, value);
            c.find_wrap(source);
            assert_eq!(c.wrap, wrap, "{source} {value}");
        }
        c.counter.inhibit(100, true);
        c.counter.write(100, u64::MAX);
        c.find_wrap(100);
        assert_eq!(c.wrap, u64::MAX, "it stands still");
    }

    #[test]
    fn bits_are_counted_from_the_lowest() {
        assert_eq!(bits(0).count(), 0);
        assert_eq!(bits(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
    }
}
