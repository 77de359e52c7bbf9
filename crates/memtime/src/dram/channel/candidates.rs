//! The next command of every bank, kept until something happens to the bank.
//!
//! A bank's command follows from its own state: its lists, its row and its own timers. Only what
//! group, rank and channel allow changes with commands to other banks. So that is looked up
//! whenever a command is chosen, and the rest only for banks that were touched since.

use super::*;

/// The next command for the requests of a bank in one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// First clock at which the rules of scope bank allow it.
    ready: u64,
    /// Class and age in one number, the least first.
    order: u64,
    slot: u32,
    command: Next,
    /// Place of what the rules of other scopes allow.
    place: u8,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Activate,
    Precharge,
    Column,
}

/// Place of the class in `Candidate::order`; ages are below.
const CLASS: u32 = 62;

/// Kept commands of all banks, by queue.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    all: [Vec<Candidate>; 2],
    /// Banks that were touched.
    stale: [BankSet; 2],
}

impl Candidates {
    pub fn new(banks: usize) -> Candidates {
        let none = Candidate {
            ready: NEVER,
            order: u64::MAX,
            slot: NONE,
            command: Next::Column,
            place: 0,
        };
        let mut c = Candidates {
            all: [vec![none; banks], vec![none; banks]],
            stale: Default::default(),
        };
        c.forget();
        c
    }

    /// Something happened to a bank.
    #[inline]
    pub fn touch(&mut self, bank: u32) {
        self.stale[0].insert(bank);
        self.stale[1].insert(bank);
    }

    /// The rules have changed.
    pub fn forget(&mut self) {
        for b in 0..self.all[0].len() as u32 {
            self.touch(b);
        }
    }
}

impl Rules {
    /// Whether a bank has one possible next command, which depends on nothing but the bank.
    pub(super) fn one_command_a_bank(&self) -> bool {
        let p = &self.params;
        let plain = p.starvation == 0 && p.keep_rows && p.hit_cap == 0;
        plain && self.table.cell.is_none() && self.table.groups <= MAX_GROUPS
    }
}

impl Channel {
    /// Brings the kept commands of a queue up to date.
    pub(super) fn refresh_candidates(&mut self, q: usize, r: &Rules) {
        let stale = self.candidates.stale[q].intersection(&self.queues.active[q]);
        if stale.is_empty() {
            return;
        }
        self.candidates.stale[q].subtract(&stale);
        stale.for_each(|i| {
            let c = self.candidate(i, q, r);
            self.candidates.all[q][i] = c;
        });
    }

    fn candidate(&self, i: usize, q: usize, r: &Rules) -> Candidate {
        let b = &self.banks[i];
        let l = &self.queues.lists[q][i];
        let class = match r.params.order {
            Order::HitFirst => 3,
            Order::AgeFirst => 2,
        };
        let hit = match self.promised(i, b, q) {
            Some(slot) => slot,
            None => l.hit,
        };
        let (c, class, slot, command) = if b.row == NONE {
            (ACT, class, l.head, Next::Activate)
        } else if hit != NONE {
            let q = usize::from(self.queues.slots[hit as usize].write);
            (RD + q, 2, hit, Next::Column)
        } else {
            (PRE, class, l.head, Next::Precharge)
        };
        Candidate {
            ready: self.times.of_bank(i, c),
            order: (class << CLASS) + self.queues.slots[slot as usize].seq,
            slot,
            command,
            place: Times::place_beyond_bank(b.group as usize, c),
        }
    }

    /// Offers the first of the kept commands of a queue.
    #[inline]
    pub(super) fn offer_candidates(&self, plan: &mut Plan, q: usize) {
        let mut best = u128::MAX;
        let mut bank = usize::MAX;
        let all = &self.candidates.all[q];
        self.queues.active[q].for_each(|i| {
            let c = &all[i];
            let clock = c.ready.max(self.times.beyond_bank(c.place)).max(self.now);
            let key = u128::from(clock) << 64 | u128::from(c.order);
            (best, bank) = if key < best { (key, i) } else { (best, bank) };
        });
        let Some(c) = all.get(bank) else { return };
        let what = match c.command {
            Next::Activate => What::Activate(c.slot),
            Next::Precharge => What::Precharge(c.slot),
            Next::Column => What::Column(c.slot),
        };
        let age = c.order & ((1 << CLASS) - 1);
        plan.offer((best >> 64) as u64, (c.order >> CLASS) as u8, age, what);
    }
}
