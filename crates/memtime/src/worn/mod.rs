//! Wear of any memory: a layer over a model that counts writes by line and row, projects the
//! lifetime, and optionally levels wear by Start-Gap.
//!
//! # Rules
//! - Without levelling the layer only counts: time is that of the inner model.
//! - A write counts for its line when the inner model accepts it. Writes that the inner controller
//!   merges, or that its row buffer combines, are counted each: the wear is an upper bound for such
//!   memories.
//! - With **Start-Gap** ([`StartGap`]) the memory is smaller by one line for each region. After
//!   every ψ
//!   writes to a region a line is moved: its pieces of 64 bytes are read from the inner model, and
//!   each is written to its new place when it has arrived. The mapping changes at once; requests to a
//!   line that is being moved, and writes while [`MOVES`] moves wait, find the port busy. Moves are
//!   carried out one after the other. Their reads and writes are part of the inner model's counts,
//!   and are also counted separately as "levelling_reads" and "levelling_writes".
//!
//! A request at the time of an internal event goes before it.

mod saved;
#[cfg(test)]
mod tests;

pub use saved::Saved;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{Change, MemoryModel, ModelStats, RegionStats};
use crate::period::Period;
use crate::request::{Completion, Kind, Request, Submit};
use crate::saved::SavedModel;
use crate::startgap::{Move, StartGap, StartGapParams};
use crate::units::Ps;
use crate::wear::{Endurance, Wear, WearParams};

/// Number of waiting moves from which on writes are refused.
pub const MOVES: usize = 4;

const PIECE: u64 = 64;
/// Marks the layer's own requests.
const OWN: u64 = 1 << 63;
/// Marks the writes among the layer's own requests.
const WRITE: u64 = 1 << 62;

/// How wear is counted and levelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WornParams {
    /// Bytes of a line, the unit that wears: a power of two from 64 to 4096.
    pub line_bytes: u64,
    /// Bytes of a row of the report, a power of two and at least a line.
    pub row_bytes: u64,
    /// Number of writes that a line endures.
    pub endurance: Endurance,
    /// Wear levelling by moving lines; `None`: lines stay where they are.
    pub start_gap: Option<StartGapParams>,
}

impl WornParams {
    /// Checks the values that do not depend on the memory below.
    pub fn validate(&self) -> Result<(), Error> {
        let line = self.line_bytes;
        if !line.is_power_of_two() || !(64..=4096).contains(&line) {
            return Err(Error::Param {
                field: "wear.line_bytes",
                value: line.to_string(),
                expected: "a power of two from 64 to 4096".to_owned(),
            });
        }
        self.endurance.validate()
    }
}

/// Start-Gap with the moves in progress.
#[derive(Clone, Debug)]
struct Levelling {
    gap: StartGap,
    /// The line requested last, and its permutation: a request that found the port busy is
    /// submitted again.
    known: (u64, u64),
    /// Moves that have not ended; the first is in progress.
    moves: VecDeque<Move>,
    /// Pieces of the first move that have not been written.
    left: u64,
    /// Its accesses that the inner model has not accepted.
    waiting: VecDeque<(Ps, Request)>,
    /// Ends of its accesses.
    ends: BinaryHeap<Reverse<(Ps, u64)>>,
    scratch: Vec<Completion>,
    done: Vec<Completion>,
    reads: u64,
    writes: u64,
    lines_moved: u64,
}

/// A memory whose wear is counted. See the [module](self) for the rules.
pub struct Worn {
    params: WornParams,
    inner: Box<dyn MemoryModel + Send>,
    capacity: u64,
    latest: Ps,
    wear: Wear,
    levelling: Option<Levelling>,
    changes: Vec<Change>,
}

impl Worn {
    /// Wear of `inner`, which must be at time 0.
    pub fn new(params: WornParams, inner: Box<dyn MemoryModel + Send>) -> Result<Worn, Error> {
        params.validate()?;
        let line = params.line_bytes;
        let lines = inner.capacity() / line;
        if !inner.capacity().is_multiple_of(line) || lines == 0 {
            return Err(Error::Param {
                field: "wear.line_bytes",
                value: line.to_string(),
                expected: format!("whole lines in {} bytes", inner.capacity()),
            });
        }
        let mut capacity = inner.capacity();
        let levelling = match params.start_gap {
            None => None,
            Some(p) => {
                let places = p.region_lines.saturating_add(1);
                let usable = lines / places * p.region_lines;
                if p.region_lines == 0 || usable == 0 {
                    return Err(Error::Param {
                        field: "wear.start_gap.region_lines",
                        value: p.region_lines.to_string(),
                        expected: format!(
                            "1 to {}: a region and its gap within the memory",
                            lines - 1
                        ),
                    });
                }
                capacity = usable * line;
                Some(Levelling {
                    gap: StartGap::new(usable, p)?,
                    known: (u64::MAX, 0),
                    moves: VecDeque::with_capacity(MOVES + 1),
                    left: 0,
                    waiting: VecDeque::with_capacity((line / PIECE) as usize),
                    ends: BinaryHeap::new(),
                    scratch: Vec::new(),
                    done: Vec::new(),
                    reads: 0,
                    writes: 0,
                    lines_moved: 0,
                })
            }
        };
        let row = params.row_bytes;
        let wear = WearParams {
            line_bytes: line,
            row_bytes: row,
            endurance: params.endurance,
        };
        // What lies beyond the last whole row belongs to a row of its own.
        let covered = if row.is_power_of_two() {
            inner.capacity().next_multiple_of(row)
        } else {
            inner.capacity()
        };
        Ok(Worn {
            wear: Wear::new(covered, wear)?,
            params,
            inner,
            capacity,
            latest: Ps::ZERO,
            levelling,
            changes: Vec::new(),
        })
    }

    /// The counters. Addresses are those of the inner model, after levelling.
    pub fn wear(&self) -> &Wear {
        &self.wear
    }

    /// The memory below.
    pub fn inner(&self) -> &dyn MemoryModel {
        self.inner.as_ref()
    }

    /// The parameters in use.
    pub fn params(&self) -> &WornParams {
        &self.params
    }

    /// Next time at which a move can make progress.
    fn next_own(&self) -> Option<Ps> {
        let l = self.levelling.as_ref()?;
        if l.moves.is_empty() {
            return None;
        }
        let a = l.waiting.front().map(|w| w.0);
        let b = l.ends.peek().map(|e| e.0 .0);
        [a, b, self.inner.next_event()].into_iter().flatten().min()
    }

    /// Advances the moves through everything that happens before `t`.
    fn settle(&mut self, t: Ps) -> Result<(), Error> {
        while let Some(e) = self.next_own().filter(|e| *e < t) {
            self.inner.advance_to(e)?;
            let Some(l) = &mut self.levelling else { break };
            if let Some((at, r)) = l.waiting.front_mut().filter(|w| w.0 <= e) {
                match self.inner.submit(*at, *r)? {
                    Submit::Accepted => {
                        match r.kind {
                            Kind::Read => l.reads += 1,
                            Kind::Write => l.writes += 1,
                        }
                        // A line is written once, whatever its pieces.
                        if r.kind == Kind::Write && r.id & !(OWN | WRITE) == 0 {
                            self.wear.write(r.addr)?;
                        }
                        l.waiting.pop_front();
                    }
                    Submit::Busy(until) => *at = until.max(*at + Ps(1)),
                }
            } else if self.inner.next_event().is_some_and(|n| n <= e) {
                self.inner.advance_to(e + Ps(1))?;
            }
            self.collect();
            self.pass(e);
        }
        Ok(())
    }

    /// Sorts the inner model's completions into those of requests and of moves.
    fn collect(&mut self) {
        let Some(l) = &mut self.levelling else { return };
        self.inner.drain(&mut l.scratch);
        for c in l.scratch.drain(..) {
            if c.id & OWN == 0 {
                l.done.push(c);
            } else {
                l.ends.push(Reverse((c.done_at, c.id)));
            }
        }
    }

    /// As [`Self::collect`], but only while a move is in progress: every end of its accesses must be known by then,
    /// also where the inner model has advanced further.
    fn collect_moves(&mut self) {
        if self.levelling.as_ref().is_some_and(|l| !l.moves.is_empty()) {
            self.collect();
        }
    }

    /// Handles accesses of the move that have ended at `t`.
    fn pass(&mut self, t: Ps) {
        let line = self.params.line_bytes;
        let Some(l) = &mut self.levelling else { return };
        while l.ends.peek().is_some_and(|e| e.0 .0 <= t) {
            let (Some(Reverse((at, id))), Some(m)) = (l.ends.pop(), l.moves.front()) else {
                return;
            };
            if id & WRITE == 0 {
                let piece = id & !OWN;
                l.waiting.push_back((
                    at,
                    Request {
                        id: id | WRITE,
                        addr: m.to * line + piece * PIECE,
                        kind: Kind::Write,
                        bytes: PIECE as u32,
                    },
                ));
                continue;
            }
            l.left -= 1;
            if l.left == 0 {
                l.lines_moved += 1;
                l.moves.pop_front();
                l.begin(at, line);
            }
        }
    }

    fn stats(&self, to: Ps) -> ModelStats {
        let mut s = self.inner.report(to);
        let moved = self.levelling.as_ref().map_or(0, |l| l.lines_moved);
        let wear = self.wear.report(to).summary(self.inner.capacity(), moved);
        match &mut s.regions[..] {
            [one] => one.wear = Some(wear),
            // Which of them a line belongs to is not known here.
            _ => s.regions.push(RegionStats {
                name: "wear".to_owned(),
                wear: Some(wear),
                ..RegionStats::default()
            }),
        }
        if let Some(l) = &self.levelling {
            for (k, v) in [
                ("levelling_moves", l.lines_moved),
                ("levelling_reads", l.reads),
                ("levelling_writes", l.writes),
            ] {
                s.counters.insert(k.to_owned(), v as f64);
            }
        }
        s.changes.extend(self.changes.iter().cloned());
        s.changes.sort_by_key(|c| c.at);
        s
    }
}

impl Levelling {
    /// The first move begins at `t`.
    fn begin(&mut self, t: Ps, line: u64) {
        let Some(m) = self.moves.front() else { return };
        self.left = line / PIECE;
        for piece in 0..self.left {
            self.waiting.push_back((
                t,
                Request {
                    id: OWN | piece,
                    addr: m.from * line + piece * PIECE,
                    kind: Kind::Read,
                    bytes: PIECE as u32,
                },
            ));
        }
    }
}

impl MemoryModel for Worn {
    /// Capacity of the inner model, less the gaps.
    fn capacity(&self) -> u64 {
        self.capacity
    }

    /// With levelling, ids from 2^63 on are errors: they are the layer's own.
    fn submit(&mut self, at: Ps, r: Request) -> Result<Submit, Error> {
        self.latest = self.latest.max(at);
        if self.levelling.is_none() {
            let s = self.inner.submit(self.latest, r)?;
            if s == Submit::Accepted && r.kind == Kind::Write {
                self.wear.write(r.addr)?;
            }
            return Ok(s);
        }
        r.check(self.capacity)?;
        if at > Ps::MAX_TIME {
            return Err(Error::TooLate(at));
        }
        if r.id & OWN != 0 {
            return Err(Error::Param {
                field: "id of a request to a memory with wear levelling",
                value: r.id.to_string(),
                expected: "less than 2^63".to_owned(),
            });
        }
        self.settle(self.latest)?;
        let Some(l) = &mut self.levelling else {
            return Ok(Submit::Busy(self.latest));
        };
        let size = self.params.line_bytes;
        let line = r.addr >> size.trailing_zeros();
        let offset = r.addr & (size - 1);
        if l.known.0 != line {
            l.known = (line, l.gap.permute(line));
        }
        let permuted = l.known.1;
        let place = l.gap.place_permuted(permuted);
        let write = r.kind == Kind::Write;
        let moving = l.moves.iter().any(|m| m.to == place);
        if moving || (write && l.moves.len() >= MOVES) {
            let next = self.next_own().unwrap_or(self.latest);
            return Ok(Submit::Busy(next.max(self.latest) + Ps(1)));
        }
        let inner = Request {
            addr: place * size + offset,
            ..r
        };
        let s = self.inner.submit(self.latest, inner)?;
        if s == Submit::Accepted && write {
            self.wear.write(inner.addr)?;
            if let Some(m) = l.gap.write_permuted(permuted) {
                l.moves.push_back(m);
                if l.moves.len() == 1 {
                    l.begin(self.latest, size);
                }
            }
        }
        self.collect_moves();
        Ok(s)
    }

    fn next_event(&self) -> Option<Ps> {
        match self.next_own() {
            Some(t) => Some((t + Ps(1)).max(self.latest)),
            None => self.inner.next_event(),
        }
    }

    fn advance_to(&mut self, t: Ps) -> Result<(), Error> {
        if t > Ps::MAX_TIME {
            return Err(Error::TooLate(t));
        }
        self.latest = self.latest.max(t);
        self.settle(self.latest)?;
        self.inner.advance_to(self.latest)?;
        self.collect_moves();
        Ok(())
    }

    fn flush(&mut self, at: Ps) -> Result<Ps, Error> {
        self.advance_to(at)?;
        while self.next_own().is_some() {
            let Some(t) = self.next_event() else { break };
            self.advance_to(t)?;
        }
        let end = self.inner.flush(self.latest)?;
        self.advance_to(end)?;
        Ok(end)
    }

    /// The inner model's unfinished writes of requests. A line that is being moved stays at its old place until it has
    /// been written at its new one, so moves lose nothing.
    fn unfinished_writes(&self, at: Ps) -> Result<Vec<u64>, Error> {
        if let Some(copy) = crate::window::later(self, self.latest, at)? {
            return copy.unfinished_writes(at);
        }
        let mut ids = self.inner.unfinished_writes(self.latest)?;
        if self.levelling.is_some() {
            ids.retain(|id| id & OWN == 0);
        }
        Ok(ids)
    }

    fn drain(&mut self, into: &mut Vec<Completion>) {
        self.collect();
        match &mut self.levelling {
            Some(l) => into.append(&mut l.done),
            None => self.inner.drain(into),
        }
    }

    /// The inner model's statistics with the wear in its region, or in a region "wear" if it has
    /// several regions.
    fn report(&self, at: Ps) -> ModelStats {
        // Without moves the inner model looks ahead itself.
        let moves = self.levelling.as_ref().is_some_and(|l| !l.moves.is_empty());
        let ahead = moves.then(|| crate::window::ahead(self, self.latest, at));
        ahead
            .flatten()
            .unwrap_or_else(|| self.stats(self.latest.max(at)))
    }

    fn lookahead(&self) -> Option<Box<dyn MemoryModel + Send>> {
        Some(Box::new(Worn {
            inner: self.inner.lookahead()?,
            params: self.params,
            capacity: self.capacity,
            latest: self.latest,
            wear: self.wear.clone(),
            levelling: self.levelling.clone(),
            changes: self.changes.clone(),
        }))
    }

    fn reset_stats(&mut self, at: Ps) -> Result<(), Error> {
        self.advance_to(at)?;
        self.inner.reset_stats(self.latest)?;
        self.wear.reset(self.latest);
        if let Some(l) = &mut self.levelling {
            (l.reads, l.writes, l.lines_moved) = (0, 0, 0);
        }
        self.changes.clear();
        Ok(())
    }

    fn clock(&self) -> Period {
        self.inner.clock()
    }

    /// "wear.start_gap.gap_interval" applies from the next write on; other keys are the inner
    /// model's.
    fn set_parameter(&mut self, at: Ps, key: &str, value: &str) -> Result<(), Error> {
        let Some(own) = key.strip_prefix("wear.") else {
            self.advance_to(at)?;
            return self.inner.set_parameter(at, key, value);
        };
        let fail = |problem: String| Error::Spec {
            place: format!("wear: {key}"),
            problem,
        };
        let l = match (own, &mut self.levelling) {
            ("start_gap.gap_interval", Some(l)) => l,
            ("start_gap.gap_interval", None) => {
                return Err(fail(
                    "this memory has no wear levelling: give wear.start_gap at its start".to_owned(),
                ))
            }
            _ => {
                return Err(fail(
                    "cannot change while the memory runs: wear.start_gap.gap_interval and what the memory below has \
                        can".to_owned(),
                ))
            }
        };
        let n = value
            .trim()
            .parse()
            .map_err(|_| fail(format!("'{value}' is no number of writes")))?;
        let from = l.gap.params().gap_interval;
        l.gap.set_interval(n)?;
        self.advance_to(at)?;
        self.changes.push(Change {
            at: self.latest,
            what: key.to_owned(),
            from: from.to_string(),
            to: n.to_string(),
        });
        Ok(())
    }

    fn parameters(&self) -> Vec<(String, String)> {
        let interval = self.levelling.as_ref().map(|l| {
            let n = l.gap.params().gap_interval;
            ("wear.start_gap.gap_interval".to_owned(), n.to_string())
        });
        interval
            .into_iter()
            .chain(self.inner.parameters())
            .collect()
    }

    fn save(&self) -> SavedModel {
        SavedModel::new(self.saved())
    }

    fn load(&mut self, s: SavedModel) -> Result<(), Error> {
        self.resume(s.of()?)
    }

    fn set_command_log(&mut self, on: bool) -> Result<(), Error> {
        self.inner.set_command_log(on)
    }

    fn take_commands(&mut self, into: &mut Vec<crate::command::Issued>) {
        self.inner.take_commands(into);
    }

    fn command_parts(&self) -> Vec<crate::model::CommandPart> {
        self.inner.command_parts()
    }
}
