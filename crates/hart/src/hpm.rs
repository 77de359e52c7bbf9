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

use crate::csr::Moment;
use crate::events::{lookup, rows, Counted, EventRow, Mix, CODE};
use crate::hart::{Hart, Privilege};
use crate::lines::{Coherence, HartCounts};
use crate::preop::PreOp;
use crate::run::End;
use crate::trap::irq;
use crate::world::World;
use nagori_isa::csr::MHPMEVENT_MASK;
use serde::{Deserialize, Serialize};

/// A counter that runs with a source, can be set and can be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counter {
    offset: u64,
    frozen: Option<u64>,
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
const FIRST: usize = 3;

/// Bit of mhpmevent: the counter has overflown, and no interrupt follows from it any more.
const OF: u64 = 1 << 63;
/// Bits of mhpmevent: the counter stands still in machine, supervisor and user mode.
const MINH: u64 = 1 << 62;
const SINH: u64 = 1 << 61;
const UINH: u64 = 1 << 60;
const FILTERS: u64 = MINH | SINH | UINH;

/// An event counter with its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventCounter {
    counter: Counter,
    /// Register mhpmevent.
    select: u64,
    /// The count of its event at which it overflows; `u64::MAX` if it cannot, since it stands still.
    wrap: u64,
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
    fn row(&self) -> Option<&'static EventRow> {
        lookup((self.select & CODE) as u16)
    }

    /// The count of the event at which the counter overflows.
    fn find_wrap(&mut self, source: u64) {
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
    counters: [EventCounter; COUNTERS],
    /// What follows from them; see [`Hpm::refresh`].
    #[serde(skip)]
    derived: Derived,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Derived {
    /// Counters that may overflow, a bit each.
    armed: u32,
    /// Counters that stand still in some mode, a bit each.
    filtered: u32,
    /// Whether some event needs instructions by kind.
    mix: bool,
}

fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
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
    fn overflown(&self) -> u64 {
        let all = self.counters.iter().enumerate();
        all.fold(0, |set, (k, c)| set | (c.select >> 63) << (k + FIRST))
    }
}

/// Whether a counter stands still in a mode.
fn filtered(select: u64, p: Privilege) -> bool {
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
    by: ByPrivilege,
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
    fn account(&mut self, p: Privilege, now: &Counted<'_>) {
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

impl Hart {
    fn counted<'a>(&'a self, lines: &'a HartCounts, at: Moment) -> Counted<'a> {
        Counted {
            cycle: at.cycle,
            instret: at.instret,
            hart: &self.stats,
            mix: self.mix.zip(&self.mix_here, u64::wrapping_add),
            lines,
        }
    }

    /// The count of a counter's event.
    fn hpm_source<W: World>(&self, w: &mut W, k: usize, at: Moment) -> u64 {
        match self.csr.hpm.counters[k].row() {
            Some(row) => row.count(&self.counted(w.coherence().counts(self.id), at)),
            None => 0,
        }
    }

    /// A counter by its index from mhpmcounter3 on.
    pub(crate) fn hpm_value<W: World>(&self, w: &mut W, k: usize, at: Moment) -> u64 {
        if k >= COUNTERS {
            return 0;
        }
        let source = self.hpm_source(w, k, at);
        self.csr.hpm.counters[k].counter.read(source)
    }

    pub(crate) fn set_hpm<W: World>(&mut self, w: &mut W, k: usize, value: u64, at: Moment) {
        if k >= COUNTERS {
            return;
        }
        // The write takes the place of this instruction's own increment.
        let at = at.behind();
        self.look_for_overflows(w, at);
        let source = self.hpm_source(w, k, at);
        let c = &mut self.csr.hpm.counters[k];
        c.counter.write(source, value);
        c.find_wrap(source);
        self.hpm_changed();
    }

    /// Writes mhpmevent. An event that does not exist is none.
    pub(crate) fn select_event<W: World>(&mut self, w: &mut W, k: usize, value: u64, at: Moment) {
        if k >= COUNTERS {
            return;
        }
        let at = at.behind();
        self.look_for_overflows(w, at);
        let value_now = self.hpm_value(w, k, at);
        let known = lookup((value & CODE) as u16).is_some();
        let select = if known { value } else { value & !CODE };
        self.csr.hpm.counters[k].select = select;
        // Instructions of this block by kind are counted only if they were before.
        let source = self.hpm_source(w, k, at);
        let stop = self.hpm_stands(k, self.privilege);
        let c = &mut self.csr.hpm.counters[k];
        c.counter.inhibit(source, true);
        c.counter.write(source, value_now);
        c.counter.inhibit(source, stop);
        c.find_wrap(source);
        self.hpm_changed();
    }

    /// mcountinhibit has been written.
    pub(crate) fn inhibit_events<W: World>(&mut self, w: &mut W, at: Moment) {
        let at = at.behind();
        self.look_for_overflows(w, at);
        self.start_and_stop(w, u32::MAX >> (32 - COUNTERS), self.privilege, at);
    }

    /// Whether a counter stands still in a mode.
    fn hpm_stands(&self, k: usize, p: Privilege) -> bool {
        let inhibited = self.csr.mcountinhibit >> (k + FIRST) & 1 != 0;
        inhibited || filtered(self.csr.hpm.counters[k].select, p)
    }

    /// Some counters go on or stop, as the registers and a mode want it.
    fn start_and_stop<W: World>(&mut self, w: &mut W, which: u32, p: Privilege, at: Moment) {
        let mut any = false;
        for k in bits(which) {
            let stop = self.hpm_stands(k, p);
            if stop == self.csr.hpm.counters[k].counter.frozen.is_some() {
                continue;
            }
            let source = self.hpm_source(w, k, at);
            let c = &mut self.csr.hpm.counters[k];
            c.counter.inhibit(source, stop);
            c.find_wrap(source);
            any = true;
        }
        if any {
            self.hpm_changed();
        }
    }

    fn hpm_changed(&mut self) {
        self.csr.hpm.refresh();
        self.recheck = true;
    }

    /// scountovf as the present mode sees it.
    pub(crate) fn overflown(&self) -> u64 {
        let visible = match self.privilege {
            Privilege::Machine => u64::MAX,
            _ => self.csr.mcounteren,
        };
        self.csr.hpm.overflown() & visible
    }

    /// The hart is going to another mode: counters that do not count there stop, others go on.
    #[inline(always)]
    pub(crate) fn leaves_mode<W: World>(&mut self, w: &mut W, to: Privilege, at: Moment) {
        if self.csr.hpm.derived.filtered != 0 || self.modes.is_some() {
            self.changes_mode(w, to, at);
        }
    }

    #[cold]
    fn changes_mode<W: World>(&mut self, w: &mut W, to: Privilege, at: Moment) {
        if let Some(mut modes) = self.modes.take() {
            let lines = w.coherence().counts(self.id);
            modes.account(self.privilege, &self.counted(lines, at));
            self.modes = Some(modes);
        }
        let filtered = self.csr.hpm.derived.filtered;
        if to != self.privilege && filtered != 0 {
            self.look_for_overflows(w, at);
            self.start_and_stop(w, filtered, to, at);
        }
    }

    /// Notes which counters have overflown, with the interrupt that follows.
    #[inline(always)]
    pub(crate) fn look_for_overflows<W: World>(&mut self, w: &mut W, at: Moment) {
        if self.csr.hpm.derived.armed != 0 {
            self.note_overflows(w, at);
        }
    }

    #[cold]
    fn note_overflows<W: World>(&mut self, w: &mut W, at: Moment) {
        let mut any = false;
        for k in bits(self.csr.hpm.derived.armed) {
            if self.hpm_source(w, k, at) < self.csr.hpm.counters[k].wrap {
                continue;
            }
            any = true;
            let c = &mut self.csr.hpm.counters[k];
            c.wrap = u64::MAX;
            if self.config.isa.has(nagori_isa::Ext::Sscofpmf) && c.select & OF == 0 {
                c.select |= OF;
                self.csr.mip_soft |= irq::LCOFIP;
            }
        }
        if any {
            self.hpm_changed();
        }
    }

    /// Looks for overflows between blocks. The core cycle before which no interrupt follows from another one.
    #[inline(always)]
    pub(crate) fn next_overflow<W: World>(&mut self, w: &mut W) -> u64 {
        match self.csr.hpm.derived.armed {
            0 => u64::MAX,
            _ => self.find_next_overflow(w),
        }
    }

    #[cold]
    fn find_next_overflow<W: World>(&mut self, w: &mut W) -> u64 {
        let at = self.moment();
        self.note_overflows(w, at);
        if self.csr.mie & irq::LCOFIP == 0 {
            // Whoever reads the registers looks for it.
            return u64::MAX;
        }
        let next = bits(self.csr.hpm.derived.armed).filter_map(|k| {
            let left = self.csr.hpm.counters[k]
                .wrap
                .saturating_sub(self.hpm_source(w, k, at));
            let c = &self.csr.hpm.counters[k];
            let row = c.row().filter(|_| c.select & OF == 0)?;
            Some(self.cycle.saturating_add((left / row.most).max(1)))
        });
        next.min().unwrap_or(u64::MAX)
    }

    /// Whether instructions are counted by kind: then the interpreter runs them.
    #[inline(always)]
    pub(crate) fn counts_mix(&self) -> bool {
        self.csr.hpm.derived.mix
    }

    /// A run of instructions of a block has retired, or (`back`) is taken back.
    #[cold]
    pub(crate) fn count_mix(&mut self, ops: &[PreOp], back: bool) {
        let f = if back {
            u64::wrapping_sub
        } else {
            u64::wrapping_add
        };
        self.mix = self.mix.zip(&Mix::of(ops), f);
    }

    /// A block begins whose instructions are counted by kind. Only its last one can read counters or change the mode.
    #[cold]
    pub(crate) fn mix_begins(&mut self, ops: &[PreOp]) {
        let before = ops.len().saturating_sub(1);
        self.mix_here = Mix::of(&ops[..before]);
        self.mix_on = true;
    }

    /// A block has ended whose instructions are counted by kind.
    #[cold]
    pub(crate) fn mix_ends(&mut self, ops: &[PreOp], end: &End) {
        let retired = match *end {
            End::Done => ops.len(),
            End::Left(i) => i + 1,
            End::NotNow(i) | End::Trap(i, _) => i,
            // The block goes on, or is given up by `leave_stop`.
            End::Stopped(_) => 0,
        };
        self.count_mix(&ops[..retired], false);
        self.mix_here = Mix::default();
        self.mix_on = false;
    }

    /// Counts events by privilege from now on, or no longer.
    pub fn count_by_privilege(&mut self, caches: &Coherence, on: bool) {
        let now = self.counted(caches.counts(self.id), self.moment());
        self.modes = on.then(|| Box::new(Modes::new(&now)));
    }

    /// Counts of all events by privilege, if they are counted, with the caches of the machine.
    pub fn by_privilege(&self, caches: &Coherence) -> Option<ByPrivilege> {
        let mut modes = self.modes.clone()?;
        let lines = caches.counts(self.id);
        modes.account(self.privilege, &self.counted(lines, self.moment()));
        Some(modes.by)
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
