//! The light timed mode: transfers are answered at once and counted, and the end of an epoch says how much longer
//! memory would have taken. What harts do in this mode is in `hart/src/epochs.rs`.
//!
//! A [`LightModel`] has the costs of the machine's memories, which `calibrate.rs` measures on the detailed model.
//! Every read costs at once what the fastest of them costs, rounded down to cycles; the rest of it follows at the end of
//! the epoch, by the formulas and the account of `nagori_epoch`, for each class of lines. What is less than a cycle then
//! stays in the account.

mod awake;
mod board;
mod classes;
pub mod costs;
mod machine;
mod meeting;
mod queue;
mod saved;
mod streams;
mod transfers;

use crate::config::epoch::LENGTHS;
use crate::config::{BoardConfig, EpochConfig, MachineConfig};
use awake::Awake;
use board::{Amounts, Board, OnBoard};
use classes::{class_of, Each, Hidden, Rest, Then, CLASSES};
use costs::*;
use meeting::Meeting;
use nagori_epoch::{Amount, Ledger};
use nagori_hart::world::{Epoch, EpochEnd, LineRequest, Sample};
use nagori_memtime::{BoardParams, Method, Period, Ps};
use queue::{Queues, WINDOW};
pub(super) use saved::SavedLight;
use serde::{Deserialize, Serialize};
use streams::Streams;

/// Time over which the shares are averaged for which a hart waits for memory: some lines of slow memory.
const AVERAGED: Ps = Ps(10_000_000);

/// Core cycles that estimated times of requests may be behind what they are: a hart's time moves on by whole ones.
const ROUNDING: u64 = 2;

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
    /// Filled by non-temporal stores.
    past: u32,
    /// Read for stores that wait in a store buffer.
    stored: u32,
}

/// Where lines of the memories that are not the board's come in order: those read, and those written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    reads: Streams,
    writes: Streams,
    /// Core cycle at which the last line comes that the hart did not wait for where it asked.
    came: u64,
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
    on_board: OnBoard,
    /// Something was counted in this epoch.
    any: bool,
    /// Picoseconds that lines of this epoch cost beyond what was charged at once, and whether they have filled it.
    due: u64,
    full: bool,
    /// The part of it that the classes of lines do not have: of lines read, and written. What is charged at once for those that
    /// are written is in it.
    extra: (u64, u64),
    /// Picoseconds that lines of the board took in this epoch, for which the hart waited: reads.
    reads: u64,
    /// Core cycles that the hart had slept when the last epoch ended; the greatest number if that is not known.
    idle: u64,
    order: Order,
    /// By memory, in random order and in order; whether there are any.
    behind: Vec<[Behind; 2]>,
    is_behind: bool,
    /// The class of the gap before the last line past the caches.
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
    /// An epoch on a machine with so many memories.
    fn new(memories: usize) -> HartEpochs {
        HartEpochs {
            from: (0, 0),
            next: 0,
            last: 0,
            victim: None,
            on_board: OnBoard::default(),
            any: false,
            due: 0,
            full: false,
            extra: (0, 0),
            reads: 0,
            idle: u64::MAX,
            order: Order::default(),
            behind: vec![Default::default(); memories],
            is_behind: false,
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
    fn settle_behind(&mut self, then: Then, costs: &[Option<Rest>], each: &[Each]) {
        for (memory, each) in each.iter().enumerate() {
            let behind = std::mem::take(&mut self.behind[memory]);
            for (order, b) in behind.into_iter().enumerate() {
                let hidden = [(&each.past, b.past), (&each.stores, b.stored)];
                for (hidden, lines) in hidden {
                    let waits = hidden[order].waits(then, self.before, lines);
                    self.extra.1 = self.extra.1.saturating_add(waits);
                    self.due = self.due.saturating_add(waits);
                }
                if b.posted + b.flushed == 0 {
                    continue;
                }
                let class = class_of(then.gap, order);
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

    /// The account has what lines have waited for those of others, and by how much they were faster.
    fn met_others(&mut self, debt: u64, credit: u64) {
        self.ledger.add_amount(Amount::of(Ps(debt)));
        self.ledger.add_overhead(Ps(credit));
    }

    /// Whole core cycles, whose period is a fraction of picoseconds, by which the hart's time moves on for what is in its
    /// account.
    fn pays(&mut self, (num, den): (u64, u64)) -> u64 {
        let due = self.ledger.due().0;
        if due < num / den {
            return 0;
        }
        let cycles = (u128::from(due) * u128::from(den) / u128::from(num)) as u64;
        let added = (u128::from(cycles) * u128::from(num) / u128::from(den)) as u64;
        self.ledger.waited(Ps(added));
        self.delayed += added;
        cycles
    }

    /// What lines of the board have added in this epoch.
    fn amounts(&self) -> Amounts {
        [self.extra.0, self.extra.1, self.reads, self.due]
    }

    /// Lines have not added so much.
    fn takes_back(&mut self, added: Amounts) {
        let [of_reads, of_writes, reads, due] = added;
        self.extra.0 = self.extra.0.saturating_sub(of_reads);
        self.extra.1 = self.extra.1.saturating_sub(of_writes);
        self.reads = self.reads.saturating_sub(reads);
        self.due = self.due.saturating_sub(due);
    }

    /// The epoch has counted nothing yet.
    fn forget(&mut self) {
        self.victim = None;
        (self.any, self.due, self.full) = (false, 0, false);
        (self.extra, self.reads, self.idle) = ((0, 0), 0, u64::MAX);
        self.on_board = OnBoard::default();
        self.is_behind = false;
        self.order = Order::default();
        self.behind.fill(Default::default());
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
    /// What is simulated of L1D while a hart works alone.
    some: Sample,
    /// Also under methods that are about rows.
    sampled_rows: bool,
    awake: Awake,
    /// Pipeline and branch prediction are simulated in one stretch of time in so many.
    sampled_time: u32,
    core: Period,
    /// Picoseconds of a core cycle, as a fraction.
    period: (u64, u64),
    /// What is charged at once: core cycles of a read, and of a write-back.
    at_once: (u64, u64),
    /// The same in picoseconds.
    paid: (u64, u64),
    board: Board,
    /// Line fill buffers of a hart, for lines past the caches.
    buffers: usize,
    /// Whether harts go on behind stores.
    hides_stores: bool,
    /// What is charged later, by memory and class.
    rest: Vec<Option<Rest>>,
    /// By memory, what has no class.
    each: Vec<Each>,
    harts: Vec<HartEpochs>,
    /// Requests of several harts to the board.
    meeting: Option<Meeting>,
    /// The same of other memories; whether there are any.
    queues: Queues,
    queued: bool,
    /// Epochs only divide and count a run of the detailed mode.
    pub counts_only: bool,
    /// Epochs that have ended of which only a sample of the sets was simulated.
    sampled: u64,
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
        config: &MachineConfig,
        params: &BoardParams,
    ) -> Result<Light, LightError> {
        let period = config.core_period().fraction();
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
        }
        if at != memory || model.areas.len() > MOST_AREAS || model.gap_bits > 32 {
            return Err(LightError::Areas);
        }
        let few = |n| n < EpochConfig::LEAST_INSTRUCTIONS;
        if !LENGTHS.contains(&length.time) || length.instructions.is_some_and(few) {
            return Err(LightError::Length(length.time));
        }
        let none = HartEpochs::new(model.areas.len());
        let in_cycles = |t: Ps| (t.0 * period.1 / period.0).max(1);
        let cycles = in_cycles(length.time);
        let averaged = in_cycles(AVERAGED.min(length.time));
        let mut light = Light {
            board: Board::new(params, &config.board, &model.areas),
            buffers: config.l1d.mshrs.unwrap_or(1) as usize,
            hides_stores: config.store_buffer.entries > 0,
            cycles,
            meeting: (harts > 1 && model.areas.iter().any(|a| a.board))
                .then(|| Meeting::new(harts)),
            queues: Queues::new(harts, cycles, averaged),
            queued: harts > 1 && model.areas.iter().any(|a| !a.board),
            model,
            length,
            some: Sample::ALL,
            sampled_rows: false,
            awake: Awake::new(harts, cycles, 0),
            sampled_time: 1,
            core: config.core_period(),
            period,
            at_once: (0, 0),
            paid: (0, 0),
            rest: Vec::new(),
            each: Vec::new(),
            harts: vec![none; harts],
            counts_only: false,
            sampled: 0,
            log: None,
            owed: vec![0; harts],
        };
        light.use_params(params, &config.board);
        let outer = config.levels().into_iter().map(|(_, l)| l.size.0);
        let lines = (config.l1d.size.0 + outer.sum::<u64>()) / 64;
        light.awake = Awake::new(harts, cycles, lines.saturating_mul(light.at_once.0));
        Ok(light)
    }

    /// What is simulated, or (`counts_only`) the run is in the detailed mode, and all is.
    fn sample(&mut self, of: &MachineConfig, counts_only: bool) {
        self.counts_only = counts_only;
        if counts_only {
            self.meeting = None;
        }
        let (n, time) = match counts_only {
            true => (1, 1),
            false => (of.sampled_sets(Method::Dram), of.epoch.sampled_time),
        };
        self.sampled_rows = of.sampled_sets(Method::Extended) > 1;
        self.sampled_time = time;
        // Of each group of sets one, which is another one in each group, as data may prefer some places of a page.
        let lines = (0..64).filter(|set| set % n == (set / n * 5 + 3) % n);
        self.some = Sample {
            lines: lines.fold(0, |all, set| all | 1 << set),
            weight: n,
            whole_time: false,
        };
    }

    /// What is simulated of a hart.
    #[inline]
    pub fn sample_of(&self, hart: usize) -> Sample {
        let all_rows = self.board.by_rows && !self.sampled_rows;
        match self.awake.all(hart) || all_rows {
            true => Sample {
                // It matters when rows of several harts follow one another.
                whole_time: all_rows && self.awake.together(hart),
                ..Sample::ALL
            },
            false => self.some,
        }
    }

    /// For how many lines a transfer stands.
    #[inline]
    pub fn stands_for(&self, req: &LineRequest) -> u32 {
        match req.kind.is_sampled() {
            true => self.sample_of(req.hart).weight,
            false => 1,
        }
    }

    /// The costs are those under the board's parameters from now on. Open epochs count as under them.
    pub fn use_params(&mut self, params: &BoardParams, path: &BoardConfig) {
        let (num, den) = self.period;
        let areas = self.model.areas.iter();
        self.board = Board::new(params, path, &self.model.areas);
        let costs = || areas.clone().map(|a| a.under(params.method));
        let others = || {
            areas
                .clone()
                .filter(|a| !a.board)
                .map(|a| a.under(params.method))
        };
        let least = |of: fn(&LineCosts) -> &[u64; GAPS]| {
            let each = others().flat_map(|c| c.by_order());
            let each = each.filter_map(|c| of(&c).iter().copied().min());
            each.min().unwrap_or(u64::MAX)
        };
        let board = self.board.least().unwrap_or((u64::MAX, u64::MAX));
        let cycles = |ps: u64| if ps == u64::MAX { 0 } else { ps * den / num };
        let read = cycles(least(|c| &c.read_ps).min(board.0));
        let written = least(|c| &c.write_back_ps).min(least(|c| &c.flush_ps));
        let written = cycles(written.min(board.1));
        let paid = read * num / den;
        let mut rest = Vec::new();
        let mut every = Vec::new();
        for c in costs() {
            let both = c.by_order();
            for c in &both {
                for g in 0..GAPS {
                    let costs = (c.read_ps[g], c.write_back_ps[g], c.flush_ps[g]);
                    rest.push(Rest::new(costs, paid));
                }
            }
            every.push(Each {
                queue: (c.queue_read_ps, c.queue_write_ps),
                open: c.read_ps,
                in_order: c.in_order,
                past: both.map(|c| Hidden {
                    then: c.past_ps,
                    fenced: c.fenced_ps,
                }),
                stores: both.map(|c| Hidden {
                    then: c.stores_ps,
                    fenced: c.read_ps,
                }),
            });
        }
        self.at_once = (read, written);
        self.paid = (paid, written * num / den);
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

    /// The estimated time of a hart's cycle, in picoseconds: the epoch's end adds about what its lines cost beyond what was
    /// charged at once.
    #[inline]
    fn estimated(&self, hart: usize, cycle: u64) -> u64 {
        let due = match self.counts_only {
            true => 0,
            false => self.harts[hart].due,
        };
        self.core.edge(cycle).0 + due
    }

    /// The epoch of a hart adds something that no line's class has, for lines written.
    fn adds(&mut self, hart: usize, ps: u64) {
        let (h, owed) = (&mut self.harts[hart], &mut self.owed[hart]);
        h.any = true;
        h.extra.1 = h.extra.1.saturating_add(ps);
        h.due = h.due.saturating_add(ps);
        *owed = owed.saturating_add(ps);
    }

    /// A hart looks at a line that harts take from one another, again.
    pub fn spins(&mut self, hart: usize, cycle: u64) {
        let h = &self.harts[hart];
        if self.queued && h.some.is_empty() && !h.is_behind {
            self.queues.passes(hart, cycle);
        }
    }

    /// A hart has noticed so many core cycles late that another one has changed a line: its next delay is shorter.
    pub fn was_late(&mut self, hart: usize, cycles: u64) {
        let credit = self.core.edge(cycles);
        self.harts[hart].ledger.add_overhead(credit);
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

    /// All that harts have asked for before a cycle is known. Returns what a hart has waited for others since it was charged
    /// last, and by how much it was faster, in picoseconds; and the time up to which that is.
    fn owes(&mut self, hart: usize, cycle: u64) -> ((u64, u64), u64) {
        let known = self.core.edge(cycle.saturating_sub(ROUNDING)).0;
        let owed = self.meeting.as_mut().map(|m| {
            m.look(&self.board, known);
            m.charge(hart, known)
        });
        (owed.unwrap_or_default(), known)
    }

    /// No other hart is behind a cycle at which a hart does something that others may wait for. Returns the core cycles by
    /// which its time moves on, since its requests have waited for others.
    pub fn meets(&mut self, hart: usize, cycle: u64) -> u64 {
        let ((debt, credit), now) = self.owes(hart, cycle);
        let Some(m) = &mut self.meeting else {
            return 0;
        };
        let h = &mut self.harts[hart];
        h.on_board.last = None;
        if let Some(busy) = m.left(hart, &self.board, now) {
            h.on_board.busy.clone_from(busy);
        }
        h.met_others(debt, credit);
        let cycles = h.pays(self.period);
        h.last += cycles;
        h.from.0 += cycles;
        h.next = h.next.saturating_add(cycles);
        cycles
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
        let sets = self.some.weight;
        if sets > 1 || self.sampled_time > 1 && self.meeting.is_some() {
            self.sampled += u64::from(self.sample_of(end.hart).weight > 1);
            self.awake.epoch_ends(end.hart, end.cycle, end.idle, sets);
        }
        let (num, den) = self.period;
        let (debt, credit) = self.owes(end.hart, end.cycle.saturating_sub(WINDOW)).0;
        let h = &mut self.harts[end.hart];
        let idle = !h.any && !h.is_behind && (debt, credit) == (0, 0);
        if idle && !self.queued && self.log.is_none() && !h.on_board.has_past() {
            h.ended[end.why as usize] += 1;
            h.from = (end.cycle, end.instret);
            let next = self.next_end(end.cycle);
            self.harts[end.hart].next = next;
            return (0, next);
        }
        let waits = matches!(
            end.why,
            EpochEnd::Fence | EpochEnd::Atomic | EpochEnd::Device
        );
        // What follows lines that were written is not known where an epoch ends that is only full.
        if h.is_behind && end.why != EpochEnd::Full {
            let then = Then {
                waits,
                ..self.then(end.hart, end.cycle)
            };
            self.harts[end.hart].settle_behind(then, &self.rest, &self.each);
        }
        if waits {
            let at = self.estimated(end.hart, end.cycle);
            let waits = self.board.fence(&mut self.harts[end.hart].on_board, at);
            self.adds(end.hart, waits);
        }
        if self.queued {
            self.queues.comes_to(end.hart, end.cycle);
        }
        let handed = end.why == EpochEnd::Handed;
        let others = match self.queued && !self.counts_only {
            true => self.queues.waiting(end.hart, handed),
            false => (0, 0),
        };
        let h = &mut self.harts[end.hart];
        h.on_board.last = None;
        // Picoseconds for which lines were read and written.
        let extra = std::mem::take(&mut h.extra);
        if !self.counts_only {
            h.ledger
                .add_amount(Amount::of(Ps(extra.0.saturating_add(extra.1))));
            h.met_others(debt, credit);
        }
        let mut times = (std::mem::take(&mut h.reads), extra.1);
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
        for (i, each) in self.each.iter().enumerate() {
            let (all, n) = (&mut h.all[i], &h.now[i]);
            if *n == LineCounts::default() {
                continue;
            }
            let writes = (n.write_backs + n.flushes) * self.at_once.1;
            charged += n.waited_for() * self.at_once.0 + writes;
            written += writes;
            all.plus(n);
            if self.board.has(i) {
                continue;
            }
            let reads = (n.waited_for(), each.queue.0, others.0);
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
        let cycles = match self.counts_only {
            true => 0,
            false => h.pays((num, den)),
        };
        h.ended[end.why as usize] += 1;
        let to = end.cycle + cycles;
        if self.queued {
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
        (h.any, h.due, h.full) = (false, 0, false);
        // Transfers of the epoch were that much later.
        h.last += cycles;
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
        self.awake.begin(hart);
        if let Some(m) = &mut self.meeting {
            m.begin(hart);
        }
        let h = &mut self.harts[hart];
        h.from = (cycle, instret);
        h.next = next;
        h.last = cycle;
        h.forget();
        next
    }

    /// Statistics start anew. Open epochs go on, and count as a whole.
    pub fn reset_stats(&mut self) {
        self.sampled = 0;
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
            sampled_epochs: self.sampled,
            memories: names.map(|(i, a)| (a.name.clone(), lines(i))).collect(),
        }
    }
}
