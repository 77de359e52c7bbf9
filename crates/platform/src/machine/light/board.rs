//! What lines of the board's memory cost a hart: what they cost where nothing is in their way, which is calibrated, and
//! what they wait for holds, rows and refreshes by the controller's rules, at the estimated times of the hart's requests.

use super::costs::{Area, GAPS, MOST_AREAS};
use crate::config::BoardConfig;
use nagori_memtime::board::{Busy, Estimator};
use nagori_memtime::mapping::MAX_BANKS;
use nagori_memtime::{BoardParams, Kind, Method, Ps};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a transfer of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Moved {
    Read,
    WriteBack,
    Flush,
    /// Written past the caches.
    Past,
}

impl Moved {
    fn kind(self) -> Kind {
        match self {
            Moved::Read => Kind::Read,
            Moved::WriteBack | Moved::Flush | Moved::Past => Kind::Write,
        }
    }
}

/// Picoseconds from a hart to the answer and back that do not depend on the controller: of lines read, written back, flushed and
/// written past the caches.
pub(super) type Base = [u64; 4];

/// The board's controller, as far as it concerns estimates.
#[derive(Debug, Clone)]
pub(super) struct Board {
    estimator: Estimator,
    /// Picoseconds from a hart to the controller, of reads and of writes.
    path: [u64; 2],
    /// By area; none for those that are not the board's.
    bases: Vec<Option<Base>>,
    /// Whether costs depend on rows that are open.
    pub by_rows: bool,
}

/// What a hart's requests have left behind on the board.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnBoard {
    pub busy: Busy,
    /// When lines past the caches are written, at estimated times, the oldest first.
    past: VecDeque<u64>,
    /// Where only a sample of the sets is simulated: the rows of the last lines read and written, by bank, each with one added; and a
    /// modified line that has made room for the one that is read next, with the gap before it in picoseconds.
    rows: [[u32; MAX_BANKS]; 2],
    in_order: [bool; 2],
    pub victim: Option<(usize, u64, u64)>,
    /// The last line that was read, what it has added to the hart's amounts, and what there was before.
    pub last: Option<Box<(Group, Amounts, OnBoard)>>,
}

/// Picoseconds of an open epoch that lines have added.
pub(super) type Amounts = [u64; 4];

/// Simulated lines, each of which stands for several that are moved in turn: by area and offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// The estimated time of the first one, and the picoseconds before it.
    pub at: u64,
    pub gap: u64,
    pub victim: Option<(usize, u64)>,
    pub read: Option<(usize, u64)>,
    /// One that is written, so many picoseconds behind the read.
    pub written: Option<((usize, u64), Moved)>,
    pub then: u64,
}

impl Group {
    pub fn new(at: u64, gap: u64) -> Group {
        Group {
            at,
            gap,
            ..Group::default()
        }
    }

    fn is_possible(&self) -> bool {
        let times = [self.at, self.gap, self.then];
        let lines = [self.victim, self.read, self.written.map(|w| w.0)];
        times.iter().all(|t| *t < 1 << 61)
            && lines
                .iter()
                .flatten()
                .all(|l| l.0 < MOST_AREAS && l.1 < 1 << 61)
    }
}

impl OnBoard {
    /// Whether lines past the caches may be under way.
    pub fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether this can be the state of a machine at an estimated time.
    pub fn is_possible(&self) -> bool {
        let victim = self
            .victim
            .is_none_or(|v| v.0 < MOST_AREAS && v.1.max(v.2) < 1 << 62);
        let last = self.last.as_ref().is_none_or(|l| {
            let added = l.1.iter().all(|a| *a < 1 << 61);
            l.0.is_possible() && added && l.2.last.is_none() && l.2.is_possible()
        });
        victim && last && self.busy.is_possible() && self.past.iter().all(|t| *t < 1 << 62)
    }
}

impl Board {
    /// With these parameters, and what lines of the areas that are the board's cost under `dram`.
    pub fn new(params: &BoardParams, path: &BoardConfig, areas: &[Area]) -> Board {
        let estimator = Estimator::new(params);
        let rest = estimator.at_rest().0 + estimator.mean_refresh().0;
        // A write is answered in the clock after it is accepted.
        let answered = params.clock.edge(params.timing.response.0.into()).0;
        let base = |a: &Area| -> Base {
            let c = a.under(Method::Dram);
            // The median, since a loop with a long gap moves few lines, and rows and refreshes are by rule.
            let at_rest = |costs: &[u64; GAPS], known: u64| {
                let mut costs = *costs;
                costs.sort_unstable();
                costs[GAPS / 2].saturating_sub(known)
            };
            [
                at_rest(&c.read_ps, rest),
                at_rest(&c.write_back_ps, answered),
                at_rest(&c.flush_ps, answered),
                at_rest(&c.fenced_ps, answered),
            ]
        };
        Board {
            path: [path.read_request_ps, path.write_request_ps],
            bases: areas.iter().map(|a| a.board.then(|| base(a))).collect(),
            by_rows: matches!(params.method, Method::Fine | Method::Extended),
            estimator,
        }
    }

    /// Whether an area is the board's.
    #[inline]
    pub fn has(&self, area: usize) -> bool {
        matches!(self.bases.get(area), Some(Some(_)))
    }

    /// The least that a line costs: one that is read, and one that is written.
    pub fn least(&self) -> Option<(u64, u64)> {
        let open = self.estimator.in_open_row().0;
        let each = self.bases.iter().flatten();
        each.map(|b| (b[0] + open, b[1].min(b[2])))
            .reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
    }

    /// Picoseconds that a line of an area costs at a time.
    #[inline]
    pub fn cost(
        &self,
        busy: &mut Busy,
        at: u64,
        (area, offset): (usize, u64),
        moved: Moved,
    ) -> u64 {
        let kind = moved.kind();
        let base = self.bases[area].unwrap_or_default()[moved as usize];
        let arrives = Ps(at + self.path[kind as usize]);
        base + self.estimator.access(busy, arrives, offset, kind).0
    }

    /// The line for which a simulated one stands that has a number among so many: in order, if that is near the last one that was
    /// simulated, and otherwise each in a row of its own.
    pub fn other(
        &self,
        on: &mut OnBoard,
        offset: u64,
        (number, lines): (u64, u64),
        moved: Moved,
    ) -> u64 {
        let (bank, row) = self.estimator.row_of(offset);
        let last = &mut on.rows[moved.kind() as usize][usize::from(bank) % MAX_BANKS];
        if number == 0 {
            on.in_order[moved.kind() as usize] = *last != 0 && (*last - 1).abs_diff(row) <= 1;
            *last = row + 1;
        }
        match on.in_order[moved.kind() as usize] {
            true => (offset & !(64 * lines - 1)) + 64 * number,
            false => self.estimator.in_other_row(offset, number),
        }
    }

    /// A line is written past the caches at a time, or read for a store that nobody waits for, for which a hart has so many buffers.
    /// Picoseconds that it waits for a free one.
    pub fn past(
        &self,
        on: &mut OnBoard,
        at: u64,
        (line, moved): ((usize, u64), Moved),
        buffers: usize,
    ) -> u64 {
        while on.past.front().is_some_and(|t| *t <= at) {
            on.past.pop_front();
        }
        let free = match on.past.len() < buffers.max(1) {
            true => at,
            false => on.past.pop_front().unwrap_or(at),
        };
        let written = free + self.cost(&mut on.busy, free, line, moved);
        // Lines are written in order.
        on.past
            .push_back(written.max(on.past.back().copied().unwrap_or(0)));
        free - at
    }

    /// Picoseconds from a time until all lines past the caches are written.
    pub fn fence(&self, on: &mut OnBoard, at: u64) -> u64 {
        let last = on.past.back().map_or(0, |t| t.saturating_sub(at));
        on.past.clear();
        last
    }
}
