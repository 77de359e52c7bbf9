//! The light timed mode: transfers are answered at once and counted, and the end of an epoch says how much longer
//! memory would have taken. What harts do in this mode is in `hart/src/epochs.rs`.
//!
//! A [`LightModel`] has the costs of the machine's memories, which `calibrate.rs` measures on the detailed model.
//! Every read costs at once what the fastest of them costs, rounded down to cycles; the rest of it follows at the end of
//! the epoch, by the formulas and the account of `nagori_epoch`, for each class of lines. What is less than a cycle then
//! stays in the account.

mod classes;
pub mod costs;
mod machine;
mod queue;
mod rows;
mod saved;

use crate::config::epoch::{EpochConfig, LEAST_INSTRUCTIONS, LENGTHS};
use classes::{behind_writes, Class, Each, Rest, Then, CLASSES};
use costs::*;
use nagori_epoch::{Amount, Ledger};
use nagori_hart::world::{Epoch, EpochEnd, LineKind, LineRequest};
use nagori_hart::Hart;
use nagori_memtime::{Method, Period, Ps};
use queue::{Queues, WINDOW};
use rows::{Banks, Written};
pub(super) use saved::SavedLight;
use serde::{Deserialize, Serialize};

/// Time over which the shares are averaged for which a hart waits for memory: some lines of slow memory.
const AVERAGED: Ps = Ps(10_000_000);
/// Lines past the caches behind which the next row is part of what such lines in a row cost.
const RUN: u32 = 16;

/// Lines of an open epoch by memory and class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    read: u32,
    write_back: u32,
    flush: u32,
}

/// Written lines of one memory whose class is that of the gap before the next transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Behind {
    posted: u32,
    flushed: u32,
    /// Filled by non-temporal stores; and those of them whose row was opened.
    #[serde(default)]
    past: u32,
    #[serde(default)]
    opened: u32,
}

/// The epoch of a hart, and what its epochs were together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HartEpochs {
    /// Core cycle and instructions at the start of the epoch.
    from: (u64, u64),
    /// Core cycle at which the epoch is looked at again.
    next: u64,
    /// Core cycle at which the last transfer ended.
    last: u64,
    /// Class of gap of a write-back that is waited for, and which the read follows for which it makes room.
    victim: Option<u8>,
    banks: Banks,
    /// Offset of the line that the hart fetches in its turn, because others have it.
    met: Option<u64>,
    /// Picoseconds that lines of this epoch cost beyond what was charged at once, and whether they have filled it.
    due: u64,
    full: bool,
    /// The part of it that the classes of lines do not have.
    extra: u64,
    /// Core cycles that the hart had slept when the last epoch ended; the greatest number if that is not known.
    idle: u64,
    /// By memory; whether there are any.
    behind: Vec<Behind>,
    is_behind: bool,
    /// Lines past the caches that followed one another in a row, and the class of the gap before the last one.
    #[serde(default)]
    run: u32,
    #[serde(default)]
    before: u8,
    /// By memory and class: `CLASSES` for each memory.
    lines: Vec<Lines>,
    /// Those that are not zero.
    some: Vec<u16>,
    now: Vec<LineCounts>,
    all: Vec<LineCounts>,
    ended: [u64; EpochEnd::ALL.len()],
    /// What is not in the hart's time yet.
    ledger: Ledger,
    /// Picoseconds that epochs have added, and those charged at once.
    delayed: u64,
    charged: u64,
}

impl HartEpochs {
    /// An epoch on a machine with so many memories and harts.
    fn new(memories: usize, harts: usize) -> HartEpochs {
        HartEpochs {
            from: (0, 0),
            next: 0,
            last: 0,
            victim: None,
            banks: Banks::new(harts),
            met: None,
            due: 0,
            full: false,
            extra: 0,
            idle: u64::MAX,
            behind: vec![Behind::default(); memories],
            is_behind: false,
            run: 0,
            before: 0,
            lines: vec![Lines::default(); memories * CLASSES],
            some: Vec::new(),
            now: vec![LineCounts::default(); memories],
            all: vec![LineCounts::default(); memories],
            ended: Default::default(),
            ledger: Ledger::default(),
            delayed: 0,
            charged: 0,
        }
    }

    /// The cycle at which the epoch is looked at again.
    fn ends_at(&self) -> u64 {
        match self.full {
            true => 0,
            false => self.next,
        }
    }

    #[inline]
    fn count(&mut self, memory: usize, class: u8) -> &mut Lines {
        let i = memory * CLASSES + class as usize;
        let n = &mut self.lines[i];
        if *n == Lines::default() {
            self.some.push(i as u16);
        }
        n
    }

    /// The class of what follows written lines is known now, and the gap.
    #[cold]
    fn settle_behind(&mut self, class: u8, then: Then, costs: &[Option<Rest>], each: &[Each]) {
        for (memory, each) in each.iter().enumerate() {
            let b = std::mem::take(&mut self.behind[memory]);
            if b.past > 0 {
                let past = each.past_caches(then, self.before, (b.past, b.opened));
                self.extra = self.extra.saturating_add(past);
                self.due = self.due.saturating_add(past);
            }
            if b.posted + b.flushed > 0 {
                let n = self.count(memory, class);
                n.write_back += b.posted;
                n.flush += b.flushed;
                if let Some(Some(rest)) = costs.get(memory * CLASSES + class as usize) {
                    let only = Lines {
                        read: 0,
                        write_back: b.posted,
                        flush: b.flushed,
                    };
                    self.due = self.due.saturating_add(rest.times(&only).1);
                }
            }
        }
        self.is_behind = false;
    }

    /// The epoch has counted nothing yet.
    fn forget(&mut self) {
        self.victim = None;
        self.met = None;
        (self.due, self.full) = (0, false);
        (self.extra, self.idle) = (0, u64::MAX);
        self.banks.forget();
        self.is_behind = false;
        self.behind.fill(Behind::default());
        self.lines.fill(Lines::default());
        self.some.clear();
        self.now.fill(LineCounts::default());
    }
}

/// The light mode of a machine.
#[derive(Debug, Clone)]
pub(super) struct Light {
    pub model: LightModel,
    pub length: EpochLength,
    /// Core cycles of an epoch.
    cycles: u64,
    /// One set of L1D in so many is simulated.
    sampled_sets: u32,
    /// Pipeline and branch prediction are simulated in one stretch of time in so many.
    sampled_time: u32,
    /// Picoseconds of a core cycle, as a fraction.
    period: (u64, u64),
    /// What is charged at once: core cycles of a read, and of a write-back.
    at_once: (u64, u64),
    /// The same in picoseconds.
    paid: (u64, u64),
    /// What is charged later, by memory and class.
    rest: Vec<Option<Rest>>,
    /// By memory, what a line waits for each other hart that waits, and the cycles that a prefetch takes.
    each: Vec<Each>,
    harts: Vec<HartEpochs>,
    queues: Queues,
    /// Epochs only divide and count a run of the detailed mode.
    pub counts_only: bool,
    log: Option<Log>,
    /// By hart, picoseconds that lines cost beyond what was charged at once and that no profile has yet.
    owed: Vec<u64>,
}

/// Epochs that are kept, and what each hart had waited and slept at the end of the last one.
#[derive(Debug, Clone)]
struct Log {
    rows: Vec<EpochRow>,
    seen: Vec<(u64, u64)>,
}

/// Divides cycles as two times are to one another.
fn shared_out(cycles: u64, (read, written): (u64, u64)) -> (u64, u64) {
    let all = u128::from(read) + u128::from(written);
    let of_reads = (u128::from(cycles) * u128::from(read)).checked_div(all);
    let of_reads = of_reads.unwrap_or(0) as u64;
    (of_reads, cycles - of_reads)
}

impl Light {
    pub fn new(
        model: LightModel,
        length: EpochLength,
        (harts, memory): (usize, u64),
        period: Period,
        method: Method,
    ) -> Result<Light, LightError> {
        let period = period.fraction();
        let mut at = 0;
        for a in &model.areas {
            if a.base != at || a.end <= at || a.costs.is_empty() {
                return Err(LightError::Areas);
            }
            at = a.end;
            // The sum of two is a latency as well.
            const MOST: u64 = 500_000_000_000 - 1;
            if a.costs.iter().flat_map(LineCosts::each).any(|c| c > MOST) {
                return Err(LightError::Cost(a.name.clone()));
            }
            if a.rows.is_some_and(|r| !r.is_possible()) {
                return Err(LightError::Areas);
            }
        }
        if at != memory || model.areas.len() > MOST_AREAS || model.gap_bits > 32 {
            return Err(LightError::Areas);
        }
        let few = |n| n < LEAST_INSTRUCTIONS;
        if !LENGTHS.contains(&length.time) || length.instructions.is_some_and(few) {
            return Err(LightError::Length(length.time));
        }
        let none = HartEpochs::new(model.areas.len(), harts);
        let in_cycles = |t: Ps| (t.0 * period.1 / period.0).max(1);
        let cycles = in_cycles(length.time);
        let averaged = in_cycles(AVERAGED.min(length.time));
        let mut light = Light {
            cycles,
            queues: Queues::new(harts, cycles, averaged),
            model,
            length,
            sampled_sets: 1,
            sampled_time: 1,
            period,
            at_once: (0, 0),
            paid: (0, 0),
            rest: Vec::new(),
            each: Vec::new(),
            harts: vec![none; harts],
            counts_only: false,
            log: None,
            owed: vec![0; harts],
        };
        light.use_method(method);
        Ok(light)
    }

    /// What is simulated, or (`counts_only`) the run is in the detailed mode, and all is.
    fn sample(&mut self, of: &EpochConfig, counts_only: bool) {
        self.counts_only = counts_only;
        (self.sampled_sets, self.sampled_time) = match counts_only {
            true => (1, 1),
            false => (of.sampled_sets, of.sampled_time),
        };
    }

    /// Tells a hart which lines of data pass through its caches: of each group of sets one, which is another one in each
    /// group, as data may prefer some places of a page.
    fn choose_lines(&self, hart: &mut Hart) {
        let n = self.sampled_sets;
        let lines = (0..64).filter(|set| set % n == (set / n * 5 + 3) % n);
        hart.sample(lines.fold(0, |all, set| all | 1 << set), n);
    }

    /// For how many lines a transfer stands.
    #[inline]
    fn stands_for(&self, kind: LineKind) -> u32 {
        match kind.is_sampled() {
            true => self.sampled_sets,
            false => 1,
        }
    }

    /// The costs are those under a method from now on. Open epochs count as under it.
    pub fn use_method(&mut self, method: Method) {
        let (num, den) = self.period;
        let areas = || self.model.areas.iter().map(|a| (a, a.under(method)));
        let least = |random: fn(&LineCosts) -> &[u64; GAPS],
                     row: fn(&LineCosts) -> &[u64; GAPS]| {
            let each = areas().map(|(a, c)| {
                let row = row(&c).iter().copied().min().filter(|_| a.rows.is_some());
                random(&c).iter().copied().chain(row).min().unwrap_or(0)
            });
            each.min().unwrap_or(0) * den / num
        };
        let read = least(|c| &c.read_ps, |c| &c.row_read_ps);
        let write_back = least(|c| &c.write_back_ps, |c| &c.row_write_back_ps);
        let flush = least(|c| &c.flush_ps, |c| &c.row_flush_ps);
        let paid = read * num / den;
        let mut rest = Vec::new();
        let mut every = Vec::new();
        for (a, c) in areas() {
            for g in 0..GAPS {
                let costs = (c.read_ps[g], c.write_back_ps[g], c.flush_ps[g]);
                rest.push(Rest::new(costs, paid));
            }
            for g in 0..GAPS {
                let costs = match a.rows {
                    Some(_) => (c.row_read_ps[g], c.row_write_back_ps[g], c.row_flush_ps[g]),
                    None => (c.read_ps[g], c.write_back_ps[g], c.flush_ps[g]),
                };
                rest.push(Rest::new(costs, paid));
            }
            let (open, shut) = (c.row_read_ps[0], c.read_ps[GAPS - 1]);
            let closed = c.row_read_ps.iter().position(|r| 2 * r >= open + shut);
            every.push(Each {
                queue: (c.queue_read_ps, c.queue_write_ps),
                prefetch: c.read_ps[GAPS - 1].max(paid) * den / num,
                open: c.read_ps,
                behind: behind_writes(&c),
                past: [c.past_ps, c.row_past_ps],
                fenced: [c.fenced_ps, c.row_fenced_ps],
                closed: closed.unwrap_or(GAPS) as u8,
            });
        }
        self.at_once = (read, write_back.min(flush));
        self.paid = (paid, self.at_once.1 * num / den);
        (self.rest, self.each) = (rest, every);
    }

    #[inline]
    fn area(&self, offset: u64) -> usize {
        let areas = &self.model.areas;
        areas.iter().position(|a| offset < a.end).unwrap_or(0)
    }

    /// The class of a gap in core cycles.
    #[inline]
    fn gap(&self, cycles: u64) -> u8 {
        gap_class(cycles >> self.model.gap_bits)
    }

    /// What another hart has left open in a bank is known to a hart at a cycle, if it is newer than what the hart knows.
    #[inline]
    fn learn(&mut self, hart: usize, bank: usize, until: u64) {
        for other in 0..self.harts.len() {
            if other != hart {
                let left = self.harts[other].banks.left(bank, until);
                if let Some(row) = left {
                    self.harts[hart].banks.learn(bank, row);
                }
            }
        }
    }

    /// The epoch of a hart adds something that no line's class has.
    fn adds(&mut self, hart: usize, ps: u64) {
        let (h, owed) = (&mut self.harts[hart], &mut self.owed[hart]);
        h.extra = h.extra.saturating_add(ps);
        h.due = h.due.saturating_add(ps);
        *owed = owed.saturating_add(ps);
    }

    /// The class of a transfer at a cycle that ends at another one; its row is the last one from then on.
    #[inline]
    fn class(
        &mut self,
        req: &LineRequest,
        area: usize,
        offset: u64,
        (at, end): (u64, u64),
    ) -> Class {
        let (hart, lines) = (req.hart, self.stands_for(req.kind));
        let h = &self.harts[hart];
        let last = h.last;
        // A power of two.
        let since = |from: u64| at.saturating_sub(from) >> lines.trailing_zeros();
        let Some(rows) = self.model.areas[area].rows else {
            return Class::of(self.gap(since(last)), lines);
        };
        let (bank, row) = rows.of(offset);
        let exact = h.met == Some(offset);
        if self.harts.len() > 1 {
            let until = match exact {
                true => at,
                false => h.banks.known(at.saturating_sub(WINDOW)),
            };
            self.learn(hart, bank, until);
        }
        let open = self.harts[hart].banks.at(bank);
        // Where others wait for memory, too, they have closed it more often than not.
        let alone = || {
            let (reads, writes) = self.queues.waiting(hart, false);
            reads + writes < Queues::ALWAYS / 8
        };
        let same = open.row == row + 1 && (exact || alone());
        let gap = match same {
            true => self.gap(since(last.max(open.opened))),
            false => self.gap(since(open.opened)),
        };
        let opens = !same || gap >= self.each[area].closed;
        // Lines that are not simulated come to the next row with this one, not one after the other.
        let goes_on = !same && (open.row == row || open.row == row + 2);
        let class = match same {
            true => Class::of(gap + GAPS as u8, lines),
            false if goes_on => Class {
                first: gap,
                others: GAPS as u8 + self.gap(since(last)),
                lines,
            },
            false => Class::of(gap, lines),
        };
        if let (true, Some(w)) = (opens, open.written) {
            let behind = &self.each[area].behind[w.was_open as usize];
            let extra = behind[self.gap(since(w.at)) as usize];
            let times = if goes_on { 1 } else { lines };
            self.adds(hart, extra * u64::from(times));
        }
        let banks = &mut self.harts[hart].banks;
        banks.used(bank, row, opens.then_some(end));
        class
    }

    /// A hart writes back a line that another hart wants, or that is in the row that is open: what the next row waits for
    /// that is not part of its cost. Returns whether the cost is that of its class.
    fn writes_row(&mut self, req: &LineRequest, area: usize, offset: u64, class: Class) -> bool {
        let Some(rows) = self.model.areas[area].rows else {
            return true;
        };
        let same = class.first >= GAPS as u8;
        if !same && req.kind != LineKind::Probe {
            return true;
        }
        let written = Written {
            at: req.cycle + self.at_once.1,
            was_open: same,
        };
        let bank = rows.of(offset).0;
        self.harts[req.hart].banks.wrote(bank, written);
        if !same {
            let each = self.each[area].open[class.first as usize];
            self.adds(req.hart, each * u64::from(class.lines));
        }
        same
    }

    /// A hart fetches a line that others have, and no hart is behind a cycle; without an offset, only the latter.
    pub fn meets(&mut self, hart: usize, cycle: u64, offset: Option<u64>) {
        let h = &mut self.harts[hart];
        h.met = offset;
        h.banks.knows(cycle);
    }

    /// A hart looks at a line that harts take from one another, again.
    pub fn spins(&mut self, hart: usize, cycle: u64) {
        let h = &self.harts[hart];
        if h.some.is_empty() && !h.is_behind {
            self.queues.passes(hart, cycle);
        }
    }

    /// Whether the epoch of a hart has become full with a transfer that ended at a cycle: its clock lacks what the lines
    /// of the epoch cost beyond what was charged at once.
    #[inline]
    pub fn is_full(&mut self, hart: usize, cycle: u64) -> bool {
        let h = &mut self.harts[hart];
        let (num, den) = self.period;
        let left = h.next.saturating_sub(cycle);
        h.full |= h.due.saturating_mul(den) >= left.saturating_mul(num)
            && self.length.instructions.is_none();
        h.full
    }

    /// A hart reads a line or writes one back. Returns when it goes on.
    #[inline]
    pub fn transfer(&mut self, req: &LineRequest, offset: u64, write: bool) -> u64 {
        let area = self.area(offset);
        let lines = self.stands_for(req.kind);
        let cost = match write {
            true => self.at_once.1,
            false => self.at_once.0,
        };
        let end = req.cycle + cost * u64::from(lines);
        let class = self.class(req, area, offset, (req.cycle, end));
        self.settle(req.hart, class.first, req.cycle);
        let h = &mut self.harts[req.hart];
        h.last = end;
        for (class, lines) in class.each() {
            if let Some(Some(rest)) = self.rest.get(area * CLASSES + class as usize) {
                let (full, paid) = match write {
                    true => (rest.costs.1, self.paid.1),
                    false => (rest.costs.0, self.paid.0),
                };
                let more = full.saturating_sub(paid) * u64::from(lines);
                let owed = &mut self.owed[req.hart];
                *owed = owed.saturating_add(more);
                // What an instruction writes back costs what it does by the gap behind it.
                if !write || req.kind != LineKind::Flush {
                    h.due = h.due.saturating_add(more);
                }
            }
        }
        let n = &mut h.now[area];
        match (write, req.kind) {
            (true, LineKind::Flush) => {
                n.flushes += u64::from(lines);
                h.behind[area].flushed += lines;
                h.is_behind = true;
            }
            (true, kind) => {
                n.write_backs += u64::from(lines);
                if self.writes_row(req, area, offset, class) {
                    let h = &mut self.harts[req.hart];
                    for (class, lines) in class.each() {
                        h.count(area, class).write_back += lines;
                    }
                    if kind != LineKind::Probe {
                        h.victim = Some(class.first % GAPS as u8);
                    }
                }
            }
            (false, kind) => {
                match kind {
                    LineKind::Store => n.stores += u64::from(lines),
                    _ => n.loads += u64::from(lines),
                }
                // The gap before it is that before its victim, whatever row that is in.
                let victim = h.victim.take();
                for (class, lines) in class.each() {
                    let class = match victim {
                        Some(gap) => class - class % GAPS as u8 + gap,
                        None => class,
                    };
                    h.count(area, class).read += lines;
                }
            }
        }
        end
    }

    /// Core cycles that the lines which a hart has waited for cost beyond what was charged at once, for a profile: the end of the
    /// epoch adds about as much. A profile begins with what is owed from then on.
    pub fn take_owed(&mut self, hart: usize) -> u64 {
        let (num, den) = self.period;
        let cycles = self.owed[hart] * den / num;
        self.owed[hart] -= cycles * num / den;
        match self.counts_only {
            true => 0,
            false => cycles,
        }
    }

    /// A line is written back, and nobody waits.
    #[inline]
    pub fn post(&mut self, req: &LineRequest, offset: u64) {
        let area = self.area(offset);
        let class = self.writes_behind(req, area, offset);
        let h = &mut self.harts[req.hart];
        h.now[area].posted += u64::from(class.lines);
        h.behind[area].posted += class.lines;
    }

    /// A line is written that non-temporal stores have filled; if only a part of it is there, memory may have to read it
    /// before. Nobody waits but at the next fence.
    pub fn write_ahead(&mut self, req: &LineRequest, offset: u64, reads: bool) {
        let area = self.area(offset);
        let before = self.then(req.hart, req.cycle).gap;
        let class = self.writes_behind(req, area, offset);
        let h = &mut self.harts[req.hart];
        h.now[area].nt_stores += 1;
        h.behind[area].past += 1;
        h.before = before;
        let same = class.first >= GAPS as u8;
        h.behind[area].opened += u32::from(!same && h.run < RUN);
        h.run = if same { h.run + 1 } else { 0 };
        if reads {
            self.adds(req.hart, self.each[area].open[GAPS - 1]);
        }
    }

    /// The class of the transfer that follows the written lines of a hart is known.
    #[inline]
    fn settle(&mut self, hart: usize, class: u8, cycle: u64) {
        if self.harts[hart].is_behind {
            let then = self.then(hart, cycle);
            self.harts[hart].settle_behind(class, then, &self.rest, &self.each);
        }
    }

    /// What a hart does at a cycle, behind its last transfer.
    #[inline]
    fn then(&self, hart: usize, cycle: u64) -> Then {
        let gap = cycle.saturating_sub(self.harts[hart].last);
        Then {
            gap: self.gap(gap),
            ps: gap.saturating_mul(self.period.0) / self.period.1,
            waits: false,
        }
    }

    /// A line is written that costs what it does by the gap behind it.
    #[inline]
    fn writes_behind(&mut self, req: &LineRequest, area: usize, offset: u64) -> Class {
        let class = self.class(req, area, offset, (req.cycle, req.cycle));
        self.settle(req.hart, class.first, req.cycle);
        let h = &mut self.harts[req.hart];
        h.last = h.last.max(req.cycle);
        h.is_behind = true;
        class
    }

    /// A prefetcher reads a line. Returns when it comes.
    pub fn prefetch(&mut self, req: &LineRequest, offset: u64) -> u64 {
        let area = self.area(offset);
        self.harts[req.hart].now[area].prefetches += 1;
        req.cycle + self.each[area].prefetch
    }

    /// An epoch ends: see [`nagori_hart::world::MemPort::epoch_ends`].
    pub fn epoch_ends(&mut self, end: &Epoch) -> (u64, u64) {
        let h = &mut self.harts[end.hart];
        if let (Some(n), EpochEnd::Full) = (self.length.instructions, end.why) {
            // A cycle is at least an instruction's, so this comes closer to the number, and not beyond it.
            let left = n.saturating_sub(end.instret - h.from.1);
            if left > 0 {
                h.next = end.cycle + left;
                return (0, h.next);
            }
        }
        // What follows lines that were written is not known where an epoch ends that is only full.
        if h.is_behind && end.why != EpochEnd::Full {
            let waits = matches!(
                end.why,
                EpochEnd::Fence | EpochEnd::Atomic | EpochEnd::Device
            );
            let then = Then {
                waits,
                ..self.then(end.hart, end.cycle)
            };
            self.harts[end.hart].settle_behind(then.gap, then, &self.rest, &self.each);
        }
        if self.harts.len() > 1 {
            self.queues.comes_to(end.hart, end.cycle);
        }
        let handed = end.why == EpochEnd::Handed;
        let others = match self.counts_only {
            true => (0, 0),
            false => self.queues.waiting(end.hart, handed),
        };
        let (num, den) = self.period;
        let h = &mut self.harts[end.hart];
        // Picoseconds for which lines were read and written.
        let extra = std::mem::take(&mut h.extra);
        if !self.counts_only {
            h.ledger.add_amount(Amount::of(Ps(extra)));
        }
        let mut times = (0u64, extra);
        for i in std::mem::take(&mut h.some) {
            let lines = std::mem::take(&mut h.lines[i as usize]);
            if let Some(Some(rest)) = self.rest.get(i as usize) {
                if !self.counts_only {
                    h.ledger.add_amount(rest.delay(&lines));
                }
                let (read, written) = rest.times(&lines);
                times = (
                    times.0.saturating_add(read),
                    times.1.saturating_add(written),
                );
            }
        }
        // Cycles that the hart has waited, and those charged at once for lines written.
        let (mut charged, mut written) = (0, 0);
        let mut behind_others = 0u64;
        for ((all, n), each) in h.all.iter_mut().zip(&h.now).zip(&self.each) {
            if *n == LineCounts::default() {
                continue;
            }
            let writes = (n.write_backs + n.flushes) * self.at_once.1;
            charged += n.reads() * self.at_once.0 + writes;
            written += writes;
            all.plus(n);
            let reads = (n.reads(), each.queue.0, others.0);
            for (lines, ps, others) in [reads, (n.writes(), each.queue.1, others.1)] {
                let all = u128::from(lines) * u128::from(ps) * u128::from(others);
                let part = all / u128::from(Queues::ALWAYS);
                behind_others = behind_others.saturating_add(part.min(1 << 62) as u64);
            }
        }
        if !self.counts_only {
            let own = times.0.saturating_add(times.1);
            let most = Queues::most(own, others, self.queues.others());
            h.ledger.add_amount(Amount::of(Ps(behind_others.min(most))));
            h.ledger.add_overhead(Ps(written * num / den));
        }
        h.charged += charged * num / den;
        let due = h.ledger.due().0;
        let cycles = match self.counts_only {
            true => 0,
            false => (u128::from(due) * u128::from(den) / u128::from(num)) as u64,
        };
        let added = (u128::from(cycles) * u128::from(num) / u128::from(den)) as u64;
        h.ledger.waited(Ps(added));
        h.delayed += added;
        h.ended[end.why as usize] += 1;
        let to = end.cycle + cycles;
        if self.harts.len() > 1 {
            let waited = shared_out(charged + cycles, times);
            let h = &mut self.harts[end.hart];
            // It has slept before anything else: sleep ends an epoch.
            let slept = end
                .idle
                .saturating_sub(std::mem::replace(&mut h.idle, end.idle));
            self.queues
                .ends(end.hart, (h.from.0 + slept, to, handed), waited);
            if end.why == EpochEnd::Sleep {
                self.queues.sleeps(end.hart);
            }
        }
        let h = &mut self.harts[end.hart];
        if let Some(log) = &mut self.log {
            let waited = end.waited + cycles;
            // Statistics may have begun anew.
            let before = std::mem::replace(&mut log.seen[end.hart], (waited, end.idle));
            log.rows.push(EpochRow {
                hart: end.hart,
                from: h.from,
                to: (to, end.instret),
                why: end.why,
                delay: cycles,
                waited: waited.saturating_sub(before.0),
                idle: end.idle.saturating_sub(before.1),
                alone_ps: times.0.saturating_add(times.1),
                lines: h.now.clone(),
            });
        }
        h.now.fill(LineCounts::default());
        h.from = (to, end.instret);
        (h.due, h.full) = (0, false);
        h.met = None;
        // Rows and transfers of the epoch were that much later.
        h.last += cycles;
        h.banks.epoch_ends(cycles);
        let next = self.next_end(to);
        self.harts[end.hart].next = next;
        (cycles, next)
    }

    /// The cycle at which an epoch is looked at again that begins at one.
    pub fn next_end(&self, from: u64) -> u64 {
        from.saturating_add(self.length.instructions.unwrap_or(self.cycles))
    }

    /// An epoch of a hart begins, and what an open one has counted is forgotten.
    fn begin(&mut self, hart: usize, cycle: u64, instret: u64) -> u64 {
        let next = self.next_end(cycle);
        self.queues.begin(hart);
        let h = &mut self.harts[hart];
        h.from = (cycle, instret);
        h.next = next;
        h.last = cycle;
        h.forget();
        next
    }

    /// Statistics start anew. Open epochs go on, and count as a whole.
    pub fn reset_stats(&mut self) {
        for h in &mut self.harts {
            h.all.fill(LineCounts::default());
            h.ended = Default::default();
            (h.delayed, h.charged) = (0, 0);
        }
    }

    pub fn report(&self) -> LightReport {
        let ended = |why: &EpochEnd| self.harts.iter().map(|h| h.ended[*why as usize]).sum();
        let lines = |i: usize| {
            let mut sum = LineCounts::default();
            for h in &self.harts {
                sum.plus(&h.all[i]);
                sum.plus(&h.now[i]);
            }
            sum
        };
        let names = self.model.areas.iter().enumerate();
        LightReport {
            estimated: !self.counts_only,
            epochs: EpochEnd::ALL
                .iter()
                .map(|w| (w.name().to_owned(), ended(w)))
                .collect(),
            charged_ps: self.harts.iter().map(|h| h.charged).sum(),
            delayed_ps: self.harts.iter().map(|h| h.delayed).sum(),
            memories: names.map(|(i, a)| (a.name.clone(), lines(i))).collect(),
        }
    }
}
