//! What requests of several harts to the board wait for one another.
//!
//! While it executes, a hart estimates what its lines wait for by its own requests alone. Here all requests are
//! put in the order of time once no hart can send an earlier one, and wait again, for all harts' requests. What that is
//! longer is a debt of the hart, which the end of an epoch adds to its time; its later requests come so much later. What
//! it is shorter, for instance where another hart has opened the row, is a credit.
//!
//! What happened a while ago has no effect: rows are closed and refreshes are over. So a hart that has had the board for
//! itself for that long waits for nobody; its requests are only kept, until another hart comes.
//!
//! Nothing depends on when requests are looked at: they are looked at in the order of time, and a hart's debt at a time
//! is that of its requests before that.

use super::board::{Board, Moved};
use nagori_memtime::board::Busy;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Picoseconds after which a request has no effect on others: many times as long as a row stays open.
const OVER: u64 = 50_000_000;

/// A request of a hart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The hart's estimated time, and how much of its debts was in it.
    at: u64,
    charged: u64,
    area: u8,
    moved: Moved,
    /// How many lines it stands for, for which the hart waits; none if it does not.
    waits: u32,
    offset: u64,
    /// What it costs by the hart's requests alone.
    own: u64,
}

impl Request {
    fn line(&self) -> (usize, u64) {
        (usize::from(self.area), self.offset)
    }
}

/// What a hart owed behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Owed {
    at: u64,
    debt: u64,
    credit: u64,
}

/// One hart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    /// Requests that were not looked at, the oldest first.
    asked: VecDeque<Request>,
    /// Picoseconds that requests have waited for others since the start, and that they have been shorter.
    debt: u64,
    credit: u64,
    /// What of it is in the hart's time.
    charged: (u64, u64),
    /// Behind requests that are not charged, the oldest first.
    behind: VecDeque<Owed>,
}

impl Side {
    /// When the hart's next request comes.
    fn next(&self) -> Option<u64> {
        let r = self.asked.front()?;
        Some(r.at + (self.debt - r.charged))
    }

    /// Takes the hart's next request if it comes before a time, or not later than another one.
    #[inline]
    fn take(&mut self, before: u64, or: u64) -> Option<(u64, Request)> {
        let at = self.next().filter(|at| *at < before || *at <= or)?;
        self.asked.pop_front().map(|r| (at, r))
    }
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meeting {
    busy: Busy,
    /// The hart whose request was looked at last, when that came, and when the last one of another hart did.
    last: usize,
    latest: u64,
    before: u64,
    /// Requests of a hart that is alone, which are not part of `busy` yet, and when they came: the oldest first.
    alone: VecDeque<(u64, Request)>,
    /// No request that was not looked at comes before.
    earliest: u64,
    harts: Vec<Side>,
}

impl Meeting {
    pub fn new(harts: usize) -> Meeting {
        Meeting {
            busy: Busy::default(),
            last: 0,
            latest: 0,
            before: 0,
            alone: VecDeque::new(),
            earliest: 0,
            harts: vec![Side::default(); harts],
        }
    }

    /// Whether this is a possible state of a machine with so many harts and areas.
    pub fn is_possible(&self, harts: usize, areas: usize) -> bool {
        let far = 1u64 << 61;
        let request =
            |r: &Request| r.at.max(r.own).max(r.offset) < far && usize::from(r.area) < areas;
        let possible = |s: &Side| {
            s.charged.0 <= s.debt
                && s.charged.1 <= s.credit
                && s.debt.max(s.credit) < far
                && s.asked.iter().all(|r| r.charged <= s.debt && request(r))
                && s.behind.iter().all(|o| {
                    (s.charged.0..=s.debt).contains(&o.debt)
                        && (s.charged.1..=s.credit).contains(&o.credit)
                        && o.at < far
                })
        };
        let known = |s: &Side| s.next().is_none_or(|at| self.earliest <= at);
        let alone = |r: &(u64, Request)| r.0 < far && request(&r.1);
        let others = self.last < harts
            && self.before <= self.latest
            && self.latest < far
            && self.alone.iter().all(alone);
        others
            && self.harts.len() == harts
            && self.busy.is_possible()
            && self.harts.iter().all(possible)
            && self.harts.iter().all(known)
    }

    /// A hart has asked for a line at an estimated time, and its own requests make that cost so much.
    #[inline]
    pub fn asks(
        &mut self,
        hart: usize,
        at: u64,
        (area, offset): (usize, u64),
        (moved, waits): (Moved, u32),
        own: u64,
    ) {
        let side = &mut self.harts[hart];
        self.earliest = self.earliest.min(at);
        side.asked.push_back(Request {
            at,
            charged: side.charged.0,
            area: area as u8,
            moved,
            waits,
            offset,
            own,
        });
    }

    /// All requests before a time are known.
    #[inline]
    pub fn look(&mut self, board: &Board, until: u64) {
        if self.earliest < until {
            self.look_until(board, until);
        }
    }

    fn look_until(&mut self, board: &Board, until: u64) {
        loop {
            // The hart whose request is the earliest, and up to when it stays that: ties go to the lowest number.
            let (mut first, mut others) = ((u64::MAX, 0), u64::MAX);
            for (h, side) in self.harts.iter().enumerate() {
                let Some(at) = side.next() else { continue };
                match at < first.0 {
                    true => (first, others) = ((at, h), first.0.min(others)),
                    false => others = others.min(at),
                }
            }
            if first.0 >= until {
                self.earliest = first.0;
                return;
            }
            let before = others.min(until);
            while let Some((at, r)) = self.harts[first.1].take(before, first.0) {
                self.look_at(board, (first.1, at), r);
            }
        }
    }

    /// A request of a hart, of all that were not looked at the first one, comes at a time.
    #[inline]
    fn look_at(&mut self, board: &Board, (h, at): (usize, u64), r: Request) {
        if h != self.last {
            (self.last, self.before) = (h, self.latest);
        }
        self.latest = self.latest.max(at);
        if at > self.before + OVER {
            while self.alone.front().is_some_and(|a| a.0 + OVER < at) {
                self.alone.pop_front();
            }
            self.alone.push_back((at, r));
            return;
        }
        self.take_in(board);
        let cost = board.cost(&mut self.busy, at, r.line(), r.moved);
        let side = &mut self.harts[h];
        if r.waits > 0 && cost != r.own {
            side.debt += cost.saturating_sub(r.own) * u64::from(r.waits);
            side.credit += r.own.saturating_sub(cost) * u64::from(r.waits);
            side.behind.push_back(Owed {
                at,
                debt: side.debt,
                credit: side.credit,
            });
        }
    }

    /// A hart is not alone any more.
    fn take_in(&mut self, board: &Board) {
        for (at, r) in self.alone.drain(..) {
            board.cost(&mut self.busy, at, r.line(), r.moved);
        }
    }

    /// Debt and credit of a hart by its requests before a time that are not in its time yet, but are from now on.
    pub fn charge(&mut self, hart: usize, until: u64) -> (u64, u64) {
        let side = &mut self.harts[hart];
        let before = side.charged;
        while let Some(o) = side.behind.front().filter(|o| o.at < until) {
            side.charged = (o.debt, o.credit);
            side.behind.pop_front();
        }
        (side.charged.0 - before.0, side.charged.1 - before.1)
    }

    /// What all harts' requests before a time have left behind, if the hart's own do not say it: all of them were looked at.
    pub fn left(&mut self, hart: usize, board: &Board, at: u64) -> Option<&Busy> {
        let alone = hart == self.last && at > self.before + OVER;
        if alone || !self.harts[hart].asked.is_empty() {
            return None;
        }
        self.take_in(board);
        Some(&self.busy)
    }

    /// Nothing that a hart has asked for counts any more.
    pub fn begin(&mut self, hart: usize) {
        self.harts[hart] = Side::default();
    }
}
