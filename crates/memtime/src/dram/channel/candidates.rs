//! The next command of every bank, in packed arrays that are kept from clock to clock.
//!
//! A bank's command follows from its own state: its lists, its row and its own timers. So it is
//! determined anew only for a bank to which something happened. What the rules of group, rank and
//! channel allow changes with commands to other banks: those raise the clocks of all banks at once,
//! by rows of distances made beforehand ([`Reach`]).
//!
//! Clocks and ages are kept as small numbers from a beginning that moves along, so that several of them
//! fit in a register of the host.

use super::*;

/// Banks in a register, or in a few of them.
const WIDTH: usize = 8;
type Pack = [i16; WIDTH];

/// Number of the first clock: as the upper half of a float not too small for a normal one, see
/// [`Candidates::first`].
const FIRST: i16 = 0x80;
/// A bank without a request: later than all, and no infinite float.
const NOTHING: i16 = 0x7f00;
/// Clocks from here on are only known to be late.
const FAR: i16 = 1 << 14;
/// So far the clock moves before the beginning follows.
const MOVES: u64 = 1 << 13;
/// Longer distances between commands are not for packed arrays.
const LONGEST: u64 = 1 << 13;
/// No distance: earlier than all clocks.
const NO_RULE: i16 = -FAR;
/// An order is the class above so many bits of the age, the least first.
const AGE_BITS: u32 = 14;
const AGES: i16 = (1 << AGE_BITS) - 1;

/// Which banks' next commands a command delays beyond its own bank, and by how much.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// See [`Table::after`].
    after: Vec<After>,
}

/// What a command in a bank group delays.
#[derive(Clone, Debug, Default)]
struct After {
    rows: Vec<Row>,
    /// Rules that count several commands: the level that they raise, and the banks for which that
    /// counts, at distance 0.
    windows: Vec<(usize, Row)>,
}

/// Clocks from a command to another one by bank.
#[derive(Clone, Debug)]
struct Row {
    next: i16,
    distances: Vec<Pack>,
}

impl Row {
    fn new(next: usize, t: &Table) -> Row {
        Row {
            next: next as i16,
            distances: vec![[NO_RULE; WIDTH]; t.banks.div_ceil(WIDTH)],
        }
    }

    /// Adds a rule from a command in a bank group.
    fn add(&mut self, t: &Table, scope: Scope, group: usize, distance: i16) {
        let distances = self.distances.as_flattened_mut();
        for (bank, d) in distances[..t.banks].iter_mut().enumerate() {
            if t.concerns(scope, group, bank) {
                *d = (*d).max(distance);
            }
        }
    }
}

impl Reach {
    /// `None` for devices with rules that the arrays have no place for.
    pub fn new(t: &Table) -> Option<Reach> {
        let mut all = vec![After::default(); timing::N * t.groups];
        for c in 0..timing::N {
            for r in t.rules_from(c) {
                if r.latency > LONGEST {
                    return None;
                }
                if r.scope == Scope::Bank || ![ACT, PRE, RD, WR].contains(&r.next) {
                    continue;
                }
                if r.row != RowState::Any {
                    return None;
                }
                for group in 0..t.groups {
                    let after = &mut all[t.after(c, group)];
                    if r.window > 1 {
                        let mut row = Row::new(r.next, t);
                        row.add(t, r.scope, group, 0);
                        let levels = t.levels(r.scope, group).map(|l| (l, row.clone()));
                        after.windows.extend(levels);
                        continue;
                    }
                    let rows = &mut after.rows;
                    let at = rows.iter().position(|row| row.next == r.next as i16);
                    let at = at.unwrap_or_else(|| {
                        rows.push(Row::new(r.next, t));
                        rows.len() - 1
                    });
                    rows[at].add(t, r.scope, group, r.latency as i16);
                }
            }
        }
        Some(Reach { after: all })
    }
}

/// All bits or none, so that the compiler needs no branch.
#[inline(always)]
fn when(condition: bool) -> i16 {
    -i16::from(condition)
}

/// Next commands of a few banks.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Banks {
    /// First clock at which the rules allow it, unless that is before the present.
    at: Pack,
    order: Pack,
    /// Number of the command; -1 without one.
    command: Pack,
    /// Number of the bank.
    number: Pack,
}

const _: () = assert!((NOTHING as u32) << 16 | 0xffff < f32::INFINITY.to_bits());
const _: () = assert!((FIRST as u32) << 16 >= f32::MIN_POSITIVE.to_bits());

impl Banks {
    /// Sets the command of one bank. Whole packs are written, since the host is slow to read a pack
    /// of which a part has just been written.
    #[inline]
    fn set(&mut self, bank: usize, at: i16, order: i16, command: i16) {
        let own: Pack = std::array::from_fn(|i| when(self.number[i] == bank as i16));
        let put = |p: &mut Pack, v: i16| {
            *p = std::array::from_fn(|i| (p[i] & !own[i]) | (v & own[i]));
        };
        put(&mut self.at, at);
        put(&mut self.order, order);
        put(&mut self.command, command);
    }
}

/// Next commands of all banks for the requests of one queue.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// The clock and the age from which the numbers below count.
    clock: u64,
    age: u64,
    queue: usize,
    /// An age does not fit.
    outside: bool,
    banks: Vec<Banks>,
    /// A bit for each command that may be among them.
    commands: u32,
    slot: Vec<u32>,
    /// By order without the class: the bank.
    bank: Vec<u8>,
    /// Banks to which something happened, a bit each.
    stale: Vec<u64>,
}

impl Candidates {
    pub fn new(banks: usize) -> Candidates {
        let packs = banks.div_ceil(WIDTH);
        let mut c = Candidates {
            clock: 0,
            age: 0,
            queue: 0,
            outside: false,
            banks: (0..packs)
                .map(|p| Banks {
                    at: [NOTHING; WIDTH],
                    order: [NOTHING; WIDTH],
                    command: [-1; WIDTH],
                    number: std::array::from_fn(|i| (p * WIDTH + i) as i16),
                })
                .collect(),
            commands: 0,
            slot: vec![NONE; banks],
            bank: vec![0; 1 << AGE_BITS],
            stale: vec![0; banks.div_ceil(64)],
        };
        c.forget();
        c
    }

    /// Something happened to a bank.
    #[inline]
    pub fn touch(&mut self, bank: u32) {
        self.stale[bank as usize / 64] |= 1 << (bank % 64);
    }

    /// The rules have changed.
    pub fn forget(&mut self) {
        self.commands = 0;
        self.outside = false;
        for b in 0..self.slot.len() as u32 {
            self.touch(b);
        }
    }

    /// The first of the commands that are possible at the first clock of any: that clock and its
    /// order, which are [`NOTHING`] and that if there is no command.
    ///
    /// Clock and order of a bank are taken as one number, and the number as the bits of a float: positive
    /// floats have the order of their bits, and all hosts have a minimum of packed floats. All of them
    /// are normal floats, which no mode of the host takes for something else.
    #[inline]
    fn first(&self, now: i16) -> (i16, i16) {
        let less = |a: f32, b: f32| if a < b { a } else { b };
        let none = (NOTHING as u32) << 16 | NOTHING as u32;
        let mut first = [f32::from_bits(none); WIDTH];
        for b in &self.banks {
            let key = |i: usize| (b.at[i].max(now) as u16 as u32) << 16 | b.order[i] as u16 as u32;
            first = std::array::from_fn(|i| less(f32::from_bits(key(i)), first[i]));
        }
        let first: [f32; 4] = std::array::from_fn(|i| less(first[i], first[i + 4]));
        let first: [f32; 2] = std::array::from_fn(|i| less(first[i], first[i + 2]));
        let first = less(first[0], first[1]).to_bits();
        ((first >> 16) as i16, first as i16)
    }

    /// Delays a command to several banks until their distances after `clock`.
    #[inline(always)]
    fn delay(&mut self, row: &Row, clock: u64) {
        if self.commands >> row.next & 1 == 0 {
            return;
        }
        let (clock, next) = (self.clocks(clock), row.next);
        for (b, distance) in self.banks.iter_mut().zip(&row.distances) {
            let from = |i| (clock + distance[i]) & when(b.command[i] == next);
            b.at = std::array::from_fn(|i| b.at[i].max(from(i)));
        }
    }

    /// Class, age and purpose of a bank's command.
    #[inline]
    fn command(&self, bank: usize) -> (u8, u64, What) {
        let (b, lane, slot) = (&self.banks[bank / WIDTH], bank % WIDTH, self.slot[bank]);
        let order = b.order[lane];
        let what = match b.command[lane] as usize {
            ACT => What::Activate(slot),
            PRE => What::Precharge(slot),
            _ => What::Column(slot),
        };
        // Hits first, or all the same: see `offer_bank`.
        let class = 2 + (order >> AGE_BITS) as u8;
        let age = self.age + (order & AGES) as u64;
        (class, age, what)
    }

    /// Whether the ages of all bursts before `next` fit.
    #[inline]
    fn has_room(&self, next: u64) -> bool {
        next.saturating_sub(self.age) < 1 << AGE_BITS
    }

    /// Number of a clock.
    #[inline]
    fn clocks(&self, clock: u64) -> i16 {
        let after = clock.saturating_sub(self.clock);
        FIRST + after.min((FAR - FIRST) as u64) as i16
    }

    /// The clock of a number below [`FAR`].
    #[inline]
    fn clock(&self, number: i16) -> u64 {
        self.clock + (number - FIRST) as u64
    }
}

impl Rules {
    /// Whether a bank has one possible next command, which depends on nothing but the bank.
    pub(super) fn one_command_a_bank(p: &ControllerParams, t: &Table) -> bool {
        let plain = p.starvation == 0 && p.keep_rows && p.hit_cap == 0;
        plain && p.scheduler == Scheduler::General && t.cell.is_none()
    }
}

impl Channel {
    /// Brings the commands for the requests of a queue up to date. Returns false if the numbers do
    /// not fit.
    fn refresh_candidates(&mut self, q: usize, r: &Rules) -> bool {
        let c = &mut self.candidates;
        let late = self.now - c.clock >= MOVES;
        if c.queue != q {
            c.queue = q;
            c.forget();
        }
        if late || c.outside || !c.has_room(self.queues.next_seq()) {
            self.begin_candidates();
        }
        self.refresh_stale(r);
        if self.candidates.outside {
            self.refresh_all(r);
        }
        let c = &self.candidates;
        !c.outside && c.has_room(self.queues.next_seq())
    }

    /// Begins to count clocks and ages anew: ages from the oldest burst, or from the oldest of the
    /// queue if others have waited for too long.
    #[inline(never)]
    fn begin_candidates(&mut self) {
        let next = self.queues.next_seq();
        let c = &mut self.candidates;
        c.forget();
        c.clock = self.now;
        let inbox = self.inbox.front();
        let coming = inbox.map_or(next, |i| self.queues.slots[*i as usize].seq);
        let oldest = [0, 1].map(|q| self.queues.oldest(q).unwrap_or(next).min(coming));
        c.age = oldest[0].min(oldest[1]);
        if !c.has_room(next) {
            c.age = oldest[c.queue];
        }
    }

    #[inline(never)]
    fn refresh_all(&mut self, r: &Rules) {
        self.begin_candidates();
        self.refresh_stale(r);
    }

    #[inline]
    fn refresh_stale(&mut self, r: &Rules) {
        for word in 0..self.candidates.stale.len() {
            let mut stale = std::mem::take(&mut self.candidates.stale[word]);
            while stale != 0 {
                self.refresh_candidate(64 * word + stale.trailing_zeros() as usize, r);
                stale &= stale - 1;
            }
        }
    }

    /// Determines a bank's command after one that was issued to it. Each caller has a copy of its own:
    /// what follows mostly depends on the command that was issued, so the host can predict it.
    #[inline(always)]
    pub(super) fn next_candidate(&mut self, bank: u32, r: &Rules) {
        if r.reach.is_some() {
            self.candidates.stale[bank as usize / 64] &= !(1 << (bank % 64));
            self.refresh_candidate(bank as usize, r);
        }
    }

    #[inline(always)]
    fn refresh_candidate(&mut self, i: usize, r: &Rules) {
        let c = &mut self.candidates;
        let q = c.queue;
        let l = &self.queues.lists[q][i];
        if l.head == NONE {
            return c.banks[i / WIDTH].set(i, NOTHING, NOTHING, -1);
        }
        let b = &self.banks[i];
        let (command, other, slot) = if b.row == NONE {
            (ACT, true, l.head)
        } else {
            // A promised row may serve the other queue.
            let hit = match l.hit {
                NONE if b.columns == 0 => self.queues.lists[1 - q][i].hit,
                hit => hit,
            };
            match hit {
                NONE => (PRE, true, l.head),
                hit => {
                    let write = self.queues.slots[hit as usize].write;
                    (RD + usize::from(write), false, hit)
                }
            }
        };
        let late = other && r.params.order == Order::HitFirst;
        let age = self.queues.slots[slot as usize].seq.wrapping_sub(c.age);
        c.outside |= age > AGES as u64;
        let at = self
            .times
            .known(i, b.group as usize, b.rank as usize, command);
        let order = i16::from(late) << AGE_BITS | (age as i16 & AGES);
        let at = c.clocks(at);
        c.banks[i / WIDTH].set(i, at, order, command as i16);
        c.slot[i] = slot;
        c.bank[(order & AGES) as usize] = i as u8;
        c.commands |= 1 << command;
    }

    /// Plans the first of the commands, if there is one. Returns false if it is too late to be known.
    pub(super) fn plan_kept(&mut self, r: &Rules) -> bool {
        let mut wake = self.calm;
        if wake == 0 {
            wake = self.due.iter().fold(NEVER, |w, d| w.min(*d));
        }
        let writing = self.mode(&r.params);
        if let Some(&i) = self.inbox.front() {
            wake = wake.min(self.queues.slots[i as usize].visible);
        }
        if !self.refresh_candidates(usize::from(writing), r) {
            return false;
        }
        let c = &self.candidates;
        let (at, order) = c.first(c.clocks(self.now));
        if at == NOTHING {
            self.plan = Plan::nothing(wake, writing);
            self.plan.kept = true;
            return true;
        }
        if at >= FAR {
            return false;
        }
        let bank = usize::from(c.bank[(order & AGES) as usize]);
        let (class, age, what) = c.command(bank);
        self.plan = Plan {
            clock: c.clock(at),
            class,
            age,
            what,
            wake,
            writing,
            kept: true,
        };
        true
    }

    /// Takes a burst of a bank, which has just come into its lists, into a kept plan. Returns
    /// false if the plan has to be made anew.
    pub(super) fn plan_with(&mut self, bank: u32, r: &Rules) -> bool {
        let c = &self.candidates;
        let p = &self.plan;
        let slot = match p.what {
            What::Activate(s) | What::Precharge(s) | What::Column(s) => s,
            _ => return false,
        };
        if self.queues.slots[slot as usize].bank == bank
            || p.wake <= self.now
            || p.writing != self.mode(&r.params)
            || !c.has_room(self.queues.next_seq())
        {
            return false;
        }
        self.refresh_candidate(bank as usize, r);
        let c = &mut self.candidates;
        if c.outside {
            return false;
        }
        let bank = bank as usize;
        c.stale[bank / 64] &= !(1 << (bank % 64));
        let b = &c.banks[bank / WIDTH];
        let at = b.at[bank % WIDTH];
        if at >= FAR {
            return true;
        }
        let clock = c.clock(at).max(self.now);
        let (class, age, what) = c.command(bank);
        self.plan.offer(clock, class, age, what);
        true
    }

    /// Records a command in the timers, and what it means for the next commands of other banks.
    pub(super) fn commanded(&mut self, c: usize, bank: usize, clock: u64, dirty: bool, r: &Rules) {
        self.times.issue(&r.table, c, bank, clock, dirty);
        let Some(reach) = &r.reach else { return };
        let (group, _) = r.table.group_and_rank(bank);
        let after = &reach.after[r.table.after(c, group)];
        for row in &after.rows {
            self.candidates.delay(row, clock);
        }
        for (level, row) in &after.windows {
            let from = self.times.of_level(*level, row.next as usize);
            self.candidates.delay(row, from);
        }
    }
}
