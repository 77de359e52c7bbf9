//! The light timed mode: transfers are answered at once and counted, and the end of an epoch says how much longer
//! memory would have taken. What harts do in this mode is in `hart/src/epochs.rs`.
//!
//! A [`LightModel`] has the costs of the machine's memories, which `calibrate.rs` measures on the detailed model.
//! Every read costs at once what the fastest of them costs, rounded down to cycles; the rest of it follows at the end of
//! the epoch, by the formulas and the account of `nagori_epoch`, for each class of lines. What is less than a cycle then
//! stays in the account.

pub mod costs;
mod queue;

use super::Machine;
use costs::*;
use nagori_epoch::{Amount, Attribution, Counts, Ledger, Model, Params, PerLine, Variant, Weight};
use nagori_hart::world::Observer;
use nagori_hart::world::{Epoch, EpochEnd, LineKind, LineRequest};
use nagori_memtime::{Method, Period, Ps};
use queue::Queues;
use serde::{Deserialize, Serialize};

/// Classes of lines: by the gap, and from `GAPS` on those in the row of the hart's last transfer.
const CLASSES: usize = 2 * GAPS;
/// Most banks of which a hart remembers the row.
const BANKS: usize = 16;

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
}

/// The row of a bank that a hart used last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenRow {
    /// Its number plus one, or zero.
    row: u64,
    /// Core cycle at which the transfer ended that has opened it.
    opened: u64,
}

/// The epoch of a hart, and what its epochs were together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    rows: [OpenRow; BANKS],
    /// By memory; whether there are any.
    behind: Vec<Behind>,
    is_behind: bool,
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
    /// An epoch of so many memories.
    fn new(memories: usize) -> HartEpochs {
        HartEpochs {
            behind: vec![Behind::default(); memories],
            lines: vec![Lines::default(); memories * CLASSES],
            now: vec![LineCounts::default(); memories],
            all: vec![LineCounts::default(); memories],
            ..HartEpochs::default()
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

    /// The class of what follows written lines is known now.
    #[cold]
    fn settle_behind(&mut self, class: u8) {
        for memory in 0..self.behind.len() {
            let b = std::mem::take(&mut self.behind[memory]);
            if b != Behind::default() {
                let n = self.count(memory, class);
                n.write_back += b.posted;
                n.flush += b.flushed;
            }
        }
        self.is_behind = false;
    }

    /// The epoch has counted nothing yet.
    fn forget(&mut self) {
        self.victim = None;
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

/// The formulas for lines of one class: reads with those written back, and flushed lines. None if they cost no more
/// than what is charged at once.
#[derive(Debug, Clone, Copy)]
struct Rest {
    lines: Model,
    flushes: Model,
    /// Picoseconds of a line read, written back, flushed.
    costs: (u64, u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Each {
    queue: (u64, u64),
    prefetch: u64,
    /// The first class of gaps after which the row of the last transfer is not open any more.
    closed: u8,
}

impl Rest {
    /// For lines that cost so much when read, written back and flushed, if a read has been charged `paid` at once.
    fn new(costs: (u64, u64, u64), paid: u64) -> Option<Rest> {
        let (read, write_back, flush) = costs;
        // No latency is zero, so all of them are a picosecond longer.
        let clock = Period::of_ps(1)?;
        let params = |read: u64, write: u64, dram: u64, flush, nt_store| Params {
            variant: Variant::MissesWritebacks,
            attribution: Attribution::OwnVictims,
            clock,
            dram: Ps(dram + 1),
            read: Ps(read + 1),
            write: Ps(write + 1),
            weight: Weight::ONE,
            l2_weight: Weight::ZERO,
            flush,
            nt_store,
        };
        let above = |base: u64| {
            Some(PerLine {
                base: Ps(base + 1),
                overlap: Weight::ONE,
            })
        };
        Some(Rest {
            // Lines written back beyond one for each read are counted as stores past the caches.
            lines: Model::new(params(read, read + write_back, paid, None, above(read))).ok()?,
            flushes: Model::new(params(0, flush, 0, above(0), None)).ok()?,
            costs,
        })
    }

    /// Picoseconds for which so many lines were read and written.
    fn times(&self, n: &Lines) -> (u64, u64) {
        let of = |n: u32, ps: u64| u64::from(n).saturating_mul(ps);
        let (read, write_back, flush) = self.costs;
        let written = of(n.write_back, write_back).saturating_add(of(n.flush, flush));
        (of(n.read, read), written)
    }

    /// What so many lines have added.
    fn delay(&self, n: &Lines) -> Amount {
        let of = |m: &Model, counts: Counts| m.delay(&counts).unwrap_or_default().total();
        let with_victim = n.write_back.min(n.read);
        let lines = Counts {
            llc_misses: n.read.into(),
            own_victims: Some(with_victim.into()),
            nt_stores: (n.write_back - with_victim).into(),
            ..Counts::default()
        };
        let mut sum = of(&self.lines, lines);
        if n.flush > 0 {
            let flushes = n.flush.into();
            sum += of(
                &self.flushes,
                Counts {
                    flushes,
                    ..Counts::default()
                },
            );
        }
        sum
    }
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
        let possible = Ps(1_000_000)..=Ps(1_000_000_000_000);
        if !possible.contains(&length.time) || length.instructions.is_some_and(|n| n < 1000) {
            return Err(LightError::Length(length.time));
        }
        let none = HartEpochs::new(model.areas.len());
        let cycles = (length.time.0 * period.1 / period.0).max(1);
        let mut light = Light {
            cycles,
            queues: Queues::new(harts, cycles),
            model,
            length,
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
        let class = u64::BITS - (cycles >> self.model.gap_bits).leading_zeros();
        class.min(GAPS as u32 - 1) as u8
    }

    /// The class of a transfer at a cycle that ends at another one; its row is the last one from then on.
    #[inline]
    fn class(&mut self, hart: usize, area: usize, offset: u64, (at, end): (u64, u64)) -> u8 {
        let last = self.harts[hart].last;
        let Some(rows) = self.model.areas[area].rows else {
            return self.gap(at.saturating_sub(last));
        };
        let (bank, row) = rows.of(offset);
        let open = self.harts[hart].rows[bank % BANKS];
        let (reads, writes) = self.queues.waiting(hart, at);
        // Where others wait for memory, too, they have closed it more often than not.
        let same = open.row == row + 1 && reads + writes < Queues::ALWAYS / 8;
        let gap = match same {
            true => self.gap(at.saturating_sub(last)),
            false => self.gap(at.saturating_sub(open.opened)),
        };
        let opens = !same || gap >= self.each[area].closed;
        let e = &mut self.harts[hart].rows[bank % BANKS];
        e.row = row + 1;
        if opens {
            e.opened = end;
        }
        gap + same as u8 * GAPS as u8
    }

    /// A hart reads a line or writes one back. Returns when it goes on.
    #[inline]
    pub fn transfer(&mut self, req: &LineRequest, offset: u64, write: bool) -> u64 {
        let area = self.area(offset);
        let cost = match write {
            true => self.at_once.1,
            false => self.at_once.0,
        };
        let end = req.cycle + cost;
        let class = self.class(req.hart, area, offset, (req.cycle, end));
        let h = &mut self.harts[req.hart];
        if h.is_behind {
            h.settle_behind(class);
        }
        h.last = end;
        if let Some(Some(rest)) = self.rest.get(area * CLASSES + class as usize) {
            let (full, paid) = match write {
                true => (rest.costs.1, self.paid.1),
                false => (rest.costs.0, self.paid.0),
            };
            let owed = &mut self.owed[req.hart];
            *owed = owed.saturating_add(full.saturating_sub(paid));
        }
        let n = &mut h.now[area];
        match (write, req.kind) {
            (true, LineKind::Flush) => {
                n.flushes += 1;
                h.behind[area].flushed += 1;
                h.is_behind = true;
            }
            (true, _) => {
                n.write_backs += 1;
                h.count(area, class).write_back += 1;
                h.victim = Some(class % GAPS as u8);
            }
            (false, kind) => {
                match kind {
                    LineKind::Store => n.stores += 1,
                    _ => n.loads += 1,
                }
                // The gap before it is that before its victim, whatever row that is in.
                let class = match h.victim.take() {
                    Some(gap) => class - class % GAPS as u8 + gap,
                    None => class,
                };
                h.count(area, class).read += 1;
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
        self.class(req.hart, area, offset, (req.cycle, req.cycle));
        let h = &mut self.harts[req.hart];
        h.now[area].posted += 1;
        h.behind[area].posted += 1;
        h.is_behind = true;
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
        if h.is_behind {
            let gap = self.gap(end.cycle.saturating_sub(self.harts[end.hart].last));
            self.harts[end.hart].settle_behind(gap);
        }
        // A line that was handed over waits for the hart that had it, and for nobody else.
        let alone = self.counts_only || end.why == EpochEnd::Handed;
        let others = match alone {
            true => (0, 0),
            false => self.queues.waiting(end.hart, end.cycle),
        };
        let (num, den) = self.period;
        let h = &mut self.harts[end.hart];
        // Picoseconds for which lines were read and written.
        let mut times = (0u64, 0u64);
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
        for ((all, n), each) in h.all.iter_mut().zip(&h.now).zip(&self.each) {
            if *n == LineCounts::default() {
                continue;
            }
            let writes = (n.write_backs + n.flushes) * self.at_once.1;
            charged += n.reads() * self.at_once.0 + writes;
            written += writes;
            all.plus(n);
            let queue = |lines: u64, ps: u64, others: u32| {
                let all = Amount::of(Ps(lines.saturating_mul(ps)));
                let part = all.scaled(others.into(), Queues::ALWAYS.into());
                part.unwrap_or(Amount::ZERO)
            };
            if others.0 > 0 {
                h.ledger
                    .add_amount(queue(n.reads(), each.queue.0, others.0));
            }
            if others.1 > 0 {
                h.ledger
                    .add_amount(queue(n.writes(), each.queue.1, others.1));
            }
        }
        h.charged += charged * num / den;
        if !self.counts_only {
            h.ledger.add_overhead(Ps(written * num / den));
        }
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
        let waited = match alone {
            true => (0, 0),
            false => shared_out(charged + cycles, times),
        };
        let span = (h.from.0, end.cycle, to);
        self.queues.ends(end.hart, span, waited);
        if end.why == EpochEnd::Sleep {
            self.queues.sleeps(end.hart, to);
        }
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

    /// The epochs as saved in a snapshot.
    pub fn save(&self) -> SavedLight {
        SavedLight {
            model: self.model.clone(),
            length: self.length,
            counts_only: self.counts_only,
            harts: self.harts.clone(),
            queues: self.queues.clone(),
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

/// The light mode as saved in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedLight {
    model: LightModel,
    length: EpochLength,
    counts_only: bool,
    harts: Vec<HartEpochs>,
    queues: Queues,
}

impl SavedLight {
    /// The light mode goes on. `None` if it is not that of such a machine at these cycles.
    pub fn restore(
        self,
        machine: (usize, u64),
        period: Period,
        method: Method,
        counts: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Light> {
        let mut light = Light::new(self.model, self.length, machine, period, method).ok()?;
        let n = light.model.areas.len();
        let fits = |h: &HartEpochs| {
            let lens = [h.now.len(), h.all.len(), h.behind.len()];
            let some = h.some.iter().all(|i| (*i as usize) < n * CLASSES);
            let lines = h.lines.len() == n * CLASSES && some;
            lines && lens == [n; 3] && h.victim.is_none_or(|c| (c as usize) < GAPS)
        };
        let mut each = self.harts.iter().zip(counts);
        let begun = each.all(|(h, (cycle, instret))| h.from.0 <= cycle && h.from.1 <= instret);
        let all = self.harts.len() == machine.0 && self.harts.iter().all(fits);
        let queues = self.queues.fits(&light.queues);
        light.harts = self.harts;
        light.queues = self.queues;
        light.counts_only = self.counts_only;
        (all && begun && queues).then_some(light)
    }
}

impl<O: Observer> Machine<O> {
    /// What the light mode needs of the machine.
    fn light_of(&self, model: LightModel, length: EpochLength) -> Result<Light, LightError> {
        let machine = (self.harts.len(), self.world.ram.len());
        let method = self.world.memory.board.params().method;
        Light::new(model, length, machine, self.config.core_period(), method)
    }

    /// Chooses the light mode for when the timing model is on, with the costs of the memories, from now on.
    ///
    /// # Errors
    /// If the costs are not those of such a machine, or the length is out of range.
    pub fn set_light(&mut self, model: LightModel, length: EpochLength) -> Result<(), LightError> {
        let light = self.light_of(model, length)?;
        self.begin_epochs(light);
        Ok(())
    }

    /// Divides the detailed mode into epochs, to be compared with those of the light mode.
    ///
    /// # Errors
    /// As [`Machine::set_light`].
    pub fn count_epochs(
        &mut self,
        model: LightModel,
        length: EpochLength,
    ) -> Result<(), LightError> {
        let mut light = self.light_of(model, length)?;
        light.counts_only = true;
        self.begin_epochs(light);
        Ok(())
    }

    fn begin_epochs(&mut self, light: Light) {
        self.settle();
        if self.world.timed {
            self.end_waits();
            self.write_stored();
        }
        self.world.light = Some(Box::new(light));
        self.restart_epochs();
    }

    /// Leaves the light mode; the timing model is the detailed one from now on.
    pub fn leave_light(&mut self) {
        self.settle();
        self.world.light = None;
        self.restart_epochs();
    }

    /// The harts learn whether there are epochs, and new ones begin.
    pub(super) fn restart_epochs(&mut self) {
        for (i, h) in self.harts.iter_mut().enumerate() {
            match &mut self.world.light {
                Some(l) => {
                    let next = l.begin(i, h.cycle, h.instret);
                    h.set_light(!l.counts_only, next);
                }
                None => h.set_light(false, u64::MAX),
            }
        }
        // Code differs where epochs end within blocks.
        self.translators.iter_mut().for_each(|t| t.forget());
        self.together.iter_mut().for_each(|t| t.forget());
    }

    /// Harts of a snapshot go on with their epochs.
    pub(super) fn resume_epochs(&mut self) {
        let light = self.world.light.as_deref();
        for (i, h) in self.harts.iter_mut().enumerate() {
            match light {
                Some(l) => h.set_light(!l.counts_only, l.harts[i].next),
                None => h.set_light(false, u64::MAX),
            }
        }
    }

    /// Whether times are estimated by epochs while the timing model is on.
    pub fn is_light(&self) -> bool {
        self.world.light.as_ref().is_some_and(|l| !l.counts_only)
    }

    /// Keeps every epoch that ends from now on, for [`Machine::take_epochs`].
    pub fn keep_epochs(&mut self) {
        if let Some(l) = &mut self.world.light {
            let seen = self
                .harts
                .iter()
                .map(|h| (h.stats.memory_stall_cycles, h.stats.idle_cycles));
            l.log = Some(Log {
                rows: Vec::new(),
                seen: seen.collect(),
            });
        }
    }

    /// The epochs that have ended since they were kept or taken.
    pub fn take_epochs(&mut self) -> Vec<EpochRow> {
        let log = self.world.light.as_mut().and_then(|l| l.log.as_mut());
        log.map(|l| std::mem::take(&mut l.rows)).unwrap_or_default()
    }
}
